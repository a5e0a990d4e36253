"""What one verdict gives that another does not: what is lost, gained, masked or filtered otherwise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from gateway.model.decision import Decision, RowFilter
from gateway.model.statement import Cleared, Verdict

_Key = TypeVar("_Key")

LOST, GAINED, MASK, FILTER = "lost", "gained", "mask", "filter"
REFUSED, PLAIN, EVERY_ROW = "refused", "as it is", "every row"
SELECT = "select"
BY_POLICIES = frozenset({"ACCESS_DENIED"})
"""Codes of refusals that policies decide, and nothing else."""
UNREAD = frozenset({"TIMEOUT", "UNAVAILABLE"})
"""Codes of refusals that say nothing about the statement."""


class AskedAccess(NamedTuple):
    """One access that the policies were asked about."""

    resource: str
    """Dotted, of a column its table; anything else than tables and databases with its level in front."""
    column: str
    access: str


class Change(NamedTuple):
    """Difference between the two verdicts on one statement."""

    kind: str
    resource: str
    column: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The parts of a verdict that are compared."""

    cleared: bool
    code: str = ""
    plan_class: str = ""
    missing: bool = False
    """Whether it may pass and names a table that is not there, so that nothing is asked of its columns."""
    denied: frozenset[AskedAccess] = frozenset()
    allowed: frozenset[str] = frozenset()
    """Tables of which it may select something."""
    used: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The columns that it reads of a table, where that is known: not where one is named that is not there."""
    masks: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """By table and column; where it is not known which are used, of all of the table."""
    filters: Mapping[str, str] = field(default_factory=dict)


def extract_judged(verdict: Verdict) -> Judged:
    """Return the parts of a verdict that are compared."""
    denied = frozenset(place_of(one) for one in verdict.decisions if not one.allowed)
    places = (place_of(one) for one in verdict.decisions if one.allowed)
    allowed = frozenset(place.resource for place in places if place.access == SELECT)
    if not isinstance(verdict, Cleared):
        return Judged(
            cleared=False, code=verdict.code, plan_class=verdict.plan_class, denied=denied, allowed=allowed
        )
    masks: dict[tuple[str, str], set[str]] = defaultdict(set)
    filters: dict[str, set[str]] = defaultdict(set)
    used: dict[str, frozenset[str] | None] = {}
    for scan in verdict.scans:
        table = str(scan.table.fold())
        named = None if scan.columns is None else frozenset(name.lower() for name in scan.columns)
        before = used.get(table, frozenset())
        used[table] = None if named is None or before is None else before | named
        for one in scan.obligations:
            if isinstance(one, RowFilter):
                filters[table].add(one.expression)
            else:
                masks[table, one.column.lower()].add(one.expression)
    return Judged(
        cleared=True,
        plan_class=verdict.plan_class,
        missing=bool(verdict.missing),
        denied=denied,
        allowed=allowed,
        used={table: names for table, names in used.items() if names is not None},
        masks=_join_texts(masks),
        filters=_join_texts(filters),
    )


def _join_texts(found: Mapping[_Key, Iterable[str]]) -> dict[_Key, str]:
    return {key: " | ".join(sorted(texts)) for key, texts in found.items()}


def place_of(decision: Decision) -> AskedAccess:
    resource = decision.request.resource
    access = decision.request.access
    if resource.kind == "column":
        *above, (_, column) = resource.elements
        return AskedAccess(".".join(value.lower() for _, value in above), column.lower(), access)
    if resource.kind in ("table", "database", "catalog"):
        return AskedAccess(".".join(value.lower() for _, value in resource.elements), "", access)
    return AskedAccess(f"{resource.kind}:{resource}", "", access)


def changes(old: Judged, new: Judged) -> list[Change]:
    """Return what is otherwise under `new`, in order; nothing for what is refused under both."""
    if not (old.cleared or new.cleared):
        return []
    lost, gained = _list_lost_rights(old, new), _list_lost_rights(new, old)
    seen, shown = _list_seen(old, new, lost), _list_seen(new, old, gained)
    found = [Change(LOST, *place, what, REFUSED) for place, what in seen]
    found += [Change(GAINED, *place, REFUSED, what) for place, what in shown]
    if old.cleared and new.cleared:
        for key in (old.masks.keys() | new.masks.keys()) - {place for place, _ in seen | shown}:
            table, column = key
            used = old.used.get(table, new.used.get(table))
            if used is not None and column not in used:
                continue
            before, after = old.masks.get(key, PLAIN), new.masks.get(key, PLAIN)
            if before != after:
                found.append(Change(MASK, *key, before, after))
        for table in old.filters.keys() | new.filters.keys():
            before, after = old.filters.get(table, EVERY_ROW), new.filters.get(table, EVERY_ROW)
            if before != after:
                found.append(Change(FILTER, table, "", before, after))
    elif found:
        found += [
            Change(FILTER, one, "", old.filters[one], REFUSED) for one in _list_filtered(old, new, lost)
        ]
        found += [
            Change(FILTER, one, "", REFUSED, new.filters[one]) for one in _list_filtered(new, old, gained)
        ]
    # Refused, or not, for what is no decision on one thing: a mask that does not fit, say.
    elif old.cleared:
        found.append(Change(LOST, "", "", PLAIN, f"{REFUSED}: {new.code}"))
    else:
        found.append(Change(GAINED, "", "", f"{REFUSED}: {old.code}", PLAIN))
    return sorted(found)


def _list_lost_rights(old: Judged, new: Judged) -> set[AskedAccess]:
    """Return what a cleared statement had, and has not under the other verdict."""
    if not old.cleared:
        return set()
    gone = set(new.denied - old.denied)
    for table in old.used.keys() & new.used.keys():
        gone |= {AskedAccess(table, column, SELECT) for column in old.used[table] - new.used[table]}
    return gone


def _list_seen(judged: Judged, other: Judged, gone: set[AskedAccess]) -> set[tuple[tuple[str, str], str]]:
    """Return what was seen of what is gone, by table and column; of tables that are gone as a whole, what is
    masked by itself as well."""
    tables = _whole(judged, other, gone)
    masked = [
        (table, column)
        for table, column in judged.masks
        if table in tables and column in judged.used.get(table, (column,))
    ]
    found = {(place, judged.masks[place]) for place in masked}
    for one in gone:
        place = (one.resource, one.column)
        if one.access != SELECT:
            found.add((place, one.access))
        elif one.column:
            found.add((place, judged.masks.get(place, PLAIN)))
        else:
            but = ["some rows"] if one.resource in judged.filters else []
            but += sorted(column for table, column in masked if table == one.resource)
            found.add((place, f"{PLAIN}, except {', '.join(but)}" if but else PLAIN))
    return found


def _list_filtered(judged: Judged, other: Judged, gone: set[AskedAccess]) -> list[str]:
    """Return the tables with filters of which something is gone."""
    tables = {one.resource for one in gone if one.access == SELECT} | _whole(judged, other, gone)
    return [table for table in judged.filters if table in tables]


def _whole(judged: Judged, other: Judged, gone: set[AskedAccess]) -> set[str]:
    """Return the tables that are gone as a whole. Where a view is denied, nothing is asked about what it
    reads: that is gone with it."""
    selects = [one for one in gone if one.access == SELECT]
    found = {one.resource for one in selects if not one.column}
    if selects and not other.cleared:
        guarded = {table for table, _ in judged.masks} | judged.filters.keys()
        found |= guarded - other.allowed - {one.resource for one in other.denied}
    return found


def explain_not_comparable(recorded: str, code: str, plan_class: str, old: Judged) -> str:
    """Return why a judgement under the policies of now cannot be compared with what was decided; empty where
    it can. A verdict that policies do not decide has to be the recorded one."""
    if old.code in UNREAD:
        return "the parser did not answer"
    if recorded == "cleared":
        if not old.cleared and old.code not in BY_POLICIES and not old.denied:
            return f"it was cleared, and is now refused for a reason other than policies: {old.code}"
        if old.cleared and plan_class and old.plan_class != plan_class:
            return "this Spark version parses it differently from the recorded one"
        return ""
    if not old.cleared and old.code not in BY_POLICIES and old.code != code:
        return f"it was refused with {code}, and is now refused with {old.code}"
    return ""
