"""What one principal sees of one table: for all its columns at once, and without asking for each of them.

Columns of which the same policies and tags speak get the same answer, so one of them is asked. That is right
as long as no condition or script has a say; where one has, every column is asked by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.model.catalog import Column
from gateway.model.context import AccessContext
from gateway.model.decision import ColumnMask, Decision, RowFilter
from gateway.model.policy import MaskItem, PolicyType
from gateway.model.resource import AccessRequest
from gateway.policy.combining import effect_of, settle
from gateway.policy.facts import NO_NAMES
from gateway.policy.hierarchy import ResourceEntry
from gateway.policy.masks import null_of
from gateway.policy.matching import NO_CONTEXT_DEPENDENCIES
from gateway.policy.obligations import CUSTOM, MatchedItem, column_mask, find, find_in, row_filter
from gateway.policy.service import COLUMN, ResourceQuestion, TagQuestion
from gateway.policy.subjects import Subject
from gateway.policy.zones import UNZONED


def _not_uniform() -> bool:
    return False


@dataclass(frozen=True, slots=True, eq=False)
class TableView:
    """One principal's view of a table: which columns, masked how, and which rows."""

    allowed: Mapping[str, Decision]
    """Column name, as it was given → decision on it."""
    masks: Mapping[str, ColumnMask]
    """Masked columns only, also those that may not be selected."""
    row_filter: RowFilter | None
    hidden: frozenset[str]
    """The columns that may not be accessed: told without making a Decision of each."""
    context_dependencies: frozenset[str] = NO_CONTEXT_DEPENDENCIES
    """Fields of the AccessContext that any of it depends on."""
    uniform: Callable[[], bool] = _not_uniform
    """Says whether columns that the table had, or will have, would be seen as those are that it has: nothing
    speaks of some columns alone. Errs on the side of no."""
    closed: str = ""
    """Why the table is closed to everybody, whatever policies allow; then every column is hidden."""


class Decisions(Mapping[str, Decision]):
    """The decisions on a table's columns, each built when it is asked for: most never are."""

    __slots__ = ("_alike", "_built", "_decide", "_names", "_request", "_sort")

    def __init__(
        self,
        decide: Callable[[AccessRequest], Decision],
        request: AccessRequest,
        names: Sequence[str],
        sort: Callable[[], Mapping[str, str]],
    ) -> None:
        """`request` is on the table; `sort` says for each column which one to ask for it."""
        self._decide, self._request, self._names, self._sort = decide, request, names, sort
        self._alike: Mapping[str, str] | None = None
        self._built: dict[str, Decision] = {}

    def __getitem__(self, name: str) -> Decision:
        decision = self._built.get(name)
        if decision is None:
            if self._alike is None:
                self._alike = self._sort()
            asked = self._alike[name]
            request = self._on(name)
            decision = self._decide(request) if asked == name else _move_decision(self[asked], request)
            self._built[name] = decision
        return decision

    def _on(self, name: str) -> AccessRequest:
        table = self._request
        return AccessRequest(
            principal=table.principal,
            resource=table.resource.child(COLUMN, name),
            access=table.access,
            context=table.context,
        )

    def with_context(self, context: AccessContext, context_dependencies: frozenset[str]) -> Decisions:
        """Return the same for requests in another context, which has these fields in common with this one.

        A decision that depends on nothing else is the same there, and is not made again.
        """
        if context is self._request.context or context == self._request.context:
            return self

        def decide(request: AccessRequest) -> Decision:
            known = self[request.resource.elements[-1][1]]
            return (
                _move_decision(known, request)
                if known.context_dependencies <= context_dependencies
                else self._decide(request)
            )

        request = replace(self._request, context=context)
        return Decisions(decide, request, self._names, lambda: {name: name for name in self._names})

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _move_decision(decision: Decision, request: AccessRequest) -> Decision:
    return Decision(
        request=request,
        allowed=decision.allowed,
        policy=decision.policy,
        reason=decision.reason,
        item=decision.item,
        determined=decision.determined,
        audited=decision.audited,
        zone=decision.zone,
        tag=decision.tag,
        datasets=decision.datasets,
        projects=decision.projects,
        context_dependencies=decision.context_dependencies,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Sorting:
    """The columns of a table sorted by what speaks of them, for one type of policies."""

    entries: Sequence[ResourceEntry]
    """Resource sets of policies that concern columns of the table, in Ranger's order."""
    tagged: Sequence[ResourceEntry]
    plain: bool
    """Whether columns of which the same entries speak must get the same answer."""
    given: bool = False
    """Whether tags came with the request."""

    def groups(
        self, names: Sequence[str], values: Callable[[], Mapping[str, str]], question: ResourceQuestion
    ) -> dict[str, str]:
        """Return for each column the one to ask for it; `values` returns names as they are compared."""
        matchers = [e.matchers[-1] for e in self.entries if not e.matchers[-1].any]
        depth = len(question.levels)
        matchers += [e.matchers[-1] for e in self.tagged if len(e.levels) > depth and not e.matchers[-1].any]
        if not self.plain:
            return {name: name for name in names}
        if not matchers:
            return dict.fromkeys(names, names[0]) if names else {}
        first: dict[tuple[bool | None, ...], str] = {}
        return {
            name: first.setdefault(tuple([m.matches(value, question) for m in matchers]), name)
            for name, value in values().items()
        }


def sort_columns(
    question: ResourceQuestion, type_: PolicyType, zone: str, subject: Subject | None
) -> Sorting:
    """Return what speaks of the table's columns to a subject, or to anybody."""
    service = question.service
    entries = question.column_entries(service.policy_index.index(zone, type_), subject)
    plain = not any(e.of.conditional or e.context_dependencies or e.scripted for e in entries)
    policy_index = service.tag_policy_index
    if question.context.tags is not None:
        return Sorting(entries, (), plain=False, given=True)
    if policy_index is None or not policy_index.indexes:
        return Sorting(entries, (), plain)
    on_tags = policy_index.index(service.zones.tag_zone(zone), type_)
    if not on_tags or not service.model.tagged:
        return Sorting(entries, (), plain)
    tagged = [
        entry
        for entry, _ in service.taggings.find_tagged(question.levels, question.values, question, below=True)
    ]
    changing = policy_index.conditional or any(
        e.of.temporal or e.context_dependencies or e.scripted for e in tagged
    )
    plain = plain and not (tagged and changing)
    return Sorting(entries, tagged, plain)


class Viewing:
    """The making of one TableView; `question` is about the table, on a way that leads on to columns."""

    def __init__(self, question: ResourceQuestion, columns: Sequence[Column], masked_date: str) -> None:
        self._question = question
        self._columns = columns
        self._masked_date = masked_date
        self._names = [column.name for column in columns]
        service = question.service
        self._compared: dict[str, str] | None = None
        self._is_uniform: bool | None = None
        self._bit = service.bits.find_bit(question.access)
        self._super = service.is_super(question.subject)
        sharing = service.sharing
        shared = sharing is not None and sharing.may_concern(question.levels, question.values)
        self._shared = shared
        self._zone = None if shared or question.nested else uniform_zone(question)
        """None: every column is asked by itself."""
        self.context_dependencies = question.context_dependencies
        """Fields of the context that what was answered depends on."""

    def uniform(self) -> bool:
        """Say whether columns of any name get one answer; errs on the side of no."""
        if self._is_uniform is None:
            self._is_uniform = self._super or (not self._shared and self._answers_uniformly())
        return self._is_uniform

    def _answers_uniformly(self) -> bool:
        table = self._table()
        return all(self._uniform(one, uniform_zone(one)) for one in (table, *table.build_questions_above()))

    def _uniform(self, question: ResourceQuestion, zone: str | None) -> bool:
        if zone is None:
            return False
        for type_ in (PolicyType.ACCESS, PolicyType.MASK):
            sorting = sort_columns(question, type_, zone, question.subject)
            if sorting.given or not sorting.plain:
                return False
            some = [entry for entry in sorting.entries if not entry.matchers[-1].any]
            if any(self._says_anything(question, entry, type_) for entry in some):
                return False
            if any(len(e.levels) > len(question.levels) and not e.matchers[-1].any for e in sorting.tagged):
                return False
        return True

    def _says_anything(self, question: ResourceQuestion, entry: ResourceEntry, type_: PolicyType) -> bool:
        applying = (entry.of, False, False)
        if type_ is PolicyType.MASK:
            return find_in(question, type_, [], [applying]) is not None
        said = effect_of(question, None, applying)
        return bool((said.deny | said.allow | said.rest) & self._bit)

    def _as_compared(self) -> Mapping[str, str]:
        """The columns' names as they are compared."""
        if self._compared is None:
            same = self._question.service.fold_values(COLUMN, self._names)
            self._compared = dict(zip(self._names, same, strict=True))
        return self._compared

    def _table(self) -> ResourceQuestion:
        q = self._question
        return ResourceQuestion(q.service, q.levels, q.values, q.subject, q.resource, q.access, q.context)

    def _column(self, name: str) -> ResourceQuestion:
        q = self._question
        return ResourceQuestion(
            q.service,
            (*q.levels, COLUMN),
            (*q.values, self._as_compared()[name]),
            q.subject,
            q.resource.child(COLUMN, name),
            q.access,
            q.context,
        )

    def alike(self) -> Mapping[str, str]:
        """Return for each column the one whose decision is the same in every respect, for auditors too."""
        names, zone = self._names, self._zone
        each = {name: name for name in names}
        if zone is None or any(one.resources for one in self._question.service.model.audit.filters):
            return each
        question = self._table()
        sorting = sort_columns(question, PolicyType.ACCESS, zone, None)
        return sorting.groups(names, self._as_compared, question)

    def list_hidden_columns(self, allows: Callable[[ResourceQuestion], bool]) -> frozenset[str]:
        """Return the columns that may not be accessed."""
        names, question, zone = self._names, self._question, self._zone
        if not names or self._super:
            return NO_NAMES
        if not self._bit:
            return frozenset(names)
        if zone is None:
            return self._list_hidden({name: name for name in names}, allows)
        sorting = sort_columns(question, PolicyType.ACCESS, zone, question.subject)
        if not sorting.plain or sorting.tagged:
            alike = sorting.groups(names, self._as_compared, question)
            self.context_dependencies |= question.context_dependencies
            return self._list_hidden(alike, allows)
        self.context_dependencies |= question.context_dependencies
        said = [(e.matchers[-1], effect_of(question, None, (e.of, False, False))) for e in sorting.entries]
        some = [m for m, _ in said if not m.any]
        if not some:
            # Most tables are governed as a whole: one answer serves every column.
            return NO_NAMES if settle([s for _, s in said], self._bit).allowed else frozenset(names)
        alike = sorting.groups(names, self._as_compared, question)
        values = self._as_compared()
        hidden = {
            asked
            for asked in set(alike.values())
            if not settle([s for m, s in said if m.matches(values[asked], question)], self._bit).allowed
        }
        return frozenset([name for name in names if alike[name] in hidden]) if hidden else NO_NAMES

    def _list_hidden(
        self, alike: Mapping[str, str], allows: Callable[[ResourceQuestion], bool]
    ) -> frozenset[str]:
        hidden = set()
        for name in dict.fromkeys(alike.values()):
            question = self._column(name)
            if not allows(question):
                hidden.add(name)
            self.context_dependencies |= question.context_dependencies
        return frozenset(name for name, asked in alike.items() if asked in hidden)

    def masks(self) -> Mapping[str, ColumnMask]:
        if self._super or not self._bit & self._question.service.mask_bits:
            return {}
        question, zone = self._question, self._zone
        if zone is not None and not self._may_speak(PolicyType.MASK, zone):
            return {}
        question = self._table()
        sorting = None if zone is None else sort_columns(question, PolicyType.MASK, zone, question.subject)
        if sorting is not None and not (sorting.entries or sorting.tagged or sorting.given):
            self.context_dependencies |= question.context_dependencies
            return {}
        plain = sorting is not None and sorting.plain
        alike = (
            sorting.groups(self._names, self._as_compared, question) if sorting is not None and plain else {}
        )
        self.context_dependencies |= question.context_dependencies
        found: dict[str, MatchedItem | None] = {}
        masks: dict[str, ColumnMask] = {}
        for column in self._columns:
            name = column.name
            asked = alike.get(name, name)
            if asked not in found:
                if sorting is not None and plain and not sorting.tagged:
                    found[asked] = self._direct(question, sorting, asked)
                else:
                    found[asked] = self._by_itself(asked)
            one = found[asked]
            if one is not None:
                about = one.asked.question if isinstance(one.asked, TagQuestion) else one.asked
                if isinstance(one.item, MaskItem) and one.item.mask_type == CUSTOM:
                    about = self._column(name)
                    one = find(about, PolicyType.MASK)
                mask = column_mask(one, name, column.type, about, self._masked_date)
                self.context_dependencies |= about.context_dependencies
                if mask is not None:
                    masks[name] = mask
        return masks

    def _may_speak(self, type_: PolicyType, zone: str) -> bool:
        service = self._question.service
        return service.tag_policy_index is not None or bool(service.policy_index.index(zone, type_))

    def _direct(self, question: ResourceQuestion, sorting: Sorting, name: str) -> MatchedItem | None:
        value = self._as_compared()[name]
        matching = [
            (entry.of, False, False)
            for entry in sorting.entries
            if entry.matchers[-1].matches(value, question)
        ]
        return find_in(question, PolicyType.MASK, [], matching) if matching else None

    def _by_itself(self, name: str) -> MatchedItem | None:
        question = self._column(name)
        found = find(question, PolicyType.MASK)
        self.context_dependencies |= question.context_dependencies
        return found

    def rows(self, memory: dict[tuple[str, Subject], str]) -> RowFilter | None:
        """Return the predicate that rows must satisfy; None means every row."""
        if not self._bit & self._question.service.filter_bits:
            return None
        if self._zone is not None and not self._may_speak(PolicyType.ROW_FILTER, self._zone):
            return None
        question = self._table()
        rows = row_filter(find(question, PolicyType.ROW_FILTER), question, memory)
        self.context_dependencies |= question.context_dependencies
        return rows


def uniform_zone(question: ResourceQuestion) -> str | None:
    """Return the zone of the table with all its columns; None when columns lie in zones of their own."""
    zones = question.zones()
    if UNZONED in zones:
        return None
    return zones[0] if len(zones) == 1 else UNZONED


def merge_table_views(hidden: frozenset[str], views: Sequence[TableView]) -> TableView:
    """Return what all of several may see of one table, without the columns `hidden`.

    Rows pass every filter. A column that several mask by different expressions is NULL: the mask of a mask
    would be computed from what is not there.
    """
    first = views[0]
    if len(views) == 1 and first.hidden == hidden:
        return first
    masks: dict[str, ColumnMask] = {}
    for view in views:
        for column, mask in view.masks.items():
            masks[column] = both_masks(masks.get(column, mask), mask)
    return TableView(
        allowed=first.allowed,
        masks=masks,
        # RULE (views-filters-joined)
        row_filter=all_filters([view.row_filter for view in views if view.row_filter is not None]),
        hidden=hidden,
        context_dependencies=frozenset[str]().union(*(view.context_dependencies for view in views)),
        uniform=lambda: all(view.uniform() for view in views),
    )


def both_masks(one: ColumnMask, other: ColumnMask) -> ColumnMask:
    """Return the mask of a column that has two."""
    found = other
    if one.expression != other.expression:  # RULE (views-two-masks)
        null, context_dependencies = (
            null_of(one.column),
            one.context_dependencies | other.context_dependencies,
        )
        found = replace(
            one, mask_type="MASK_NULL", expression=null, context_dependencies=context_dependencies
        )
    return replace(found, predicate="deny") if "deny" in (one.predicate, other.predicate) else found


def all_filters(filters: Sequence[RowFilter]) -> RowFilter | None:
    """Return the filter of rows that pass all of several; None: there is none."""
    found = tuple({one.expression: one for one in filters}.values())
    # RULE (filters-joined-check)
    check = any(one.check for one in filters)
    if len(found) < 2:
        return replace(found[0], check=check) if found else None
    return replace(
        found[0],
        check=check,
        expression=" AND ".join(f"({one.expression})" for one in found),
        context_dependencies=frozenset[str]().union(*(one.context_dependencies for one in found)),
    )
