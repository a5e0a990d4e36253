"""Whether a table that gets another name could be used in more ways under it, by anybody; and whether rows
that have two names could be seen by one past what policies say of the other.

Policies, tags and zones go by names. The answer compares what speaks of either name, or of columns below it,
without asking to whom; what cannot be told counts as more. Both names are in one database, so what speaks of
databases and catalogs is the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gateway.model.policy import PolicyType
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.hierarchy import ResourceEntry
from gateway.policy.index import Index
from gateway.policy.matching import NOBODY
from gateway.policy.service import COLUMN, ResourceQuestion
from gateway.policy.zones import UNZONED


def would_rename_widen_access(old: ResourceQuestion, new: ResourceQuestion) -> bool:
    """Say whether somebody may do or see more with a table named as in `new` than as in `old`."""
    service = old.service
    zones = old.zones()
    if zones != new.zones() or UNZONED in zones:
        return True
    for zone in zones or (UNZONED,):
        for type_ in PolicyType:
            index = service.policy_index.index(zone, type_)
            was, becomes = _Speaking(index, old), _Speaking(index, new)
            if type_ is PolicyType.ACCESS:
                # A policy may come to allow nothing new, and none that denies may be left behind.
                came, left = becomes.maybe - was.surely, was.maybe - becomes.surely
                if any(entry.of.allows for entry in came) or any(entry.of.denies for entry in left):
                    return True
            elif was.maybe != becomes.surely or becomes.maybe != was.surely:
                # Of masks and filters the first that speaks of a user holds: one more may show more.
                return True
    return _tags(old) != _tags(new)


def guards_escaped(old: ResourceQuestion, new: ResourceQuestion, *, beginning: bool) -> bool:
    """Say whether somebody may see rows by the name in `new` past a mask, a row filter or a denial that holds
    for them by the name in `old`; with `beginning`, by any name that begins with that one.

    Whatever guards the old name has to guard the new one, too, and nothing that is said of the new one alone
    may come before it. What is allowed by either name is not compared.
    """
    service = old.service
    if service.sharing is not None and service.sharing.may_oblige(*_reach(old, beginning=beginning)):
        return True
    old_zones, is_covered = _zones(old, beginning=beginning)
    new_zones = new.zones()
    if old_zones - frozenset(new_zones):
        return True
    asked = {*old_zones} if is_covered else {*old_zones, UNZONED}
    old_tags, new_tags = _tags_of(old, beginning=beginning), _tags_of(new, beginning=False)
    if any(tagging not in new_tags or tagging.dynamic for tagging in old_tags):
        return True
    if old_tags and old_zones != frozenset(new_zones):
        return True  # a zone may have policies of its own on tags
    has_obligations = bool(old_tags)
    for type_ in PolicyType:
        was = {
            e
            for zone in asked
            for e in _guards(service.policy_index.index(zone, type_), old, type_, beginning)
        }
        if not was:
            continue
        # Where the new name lies in several zones, it is guarded by what every one of them has of it.
        each = [_Speaking(service.policy_index.index(zone, type_), new) for zone in new_zones or (UNZONED,)]
        if was - frozenset.intersection(*(one.surely for one in each)):
            return True
        came = frozenset[ResourceEntry]().union(*(one.maybe for one in each)) - was
        if type_ is PolicyType.ACCESS:
            if any(one.of.allows and one.of.priority > other.of.priority for one in came for other in was):
                return True
            continue
        has_obligations = True
        # The first that speaks of a user holds.
        if any(one.of.sort_key <= w.of.sort_key and not _apart(one, w) for one in came for w in was):
            return True
    # Policies on a tag that only the new name has come before those on names.
    return has_obligations and bool(new_tags - old_tags)


def _reach(asked: ResourceQuestion, *, beginning: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the levels and values of what is asked about, or of the database of all that begins so."""
    return (asked.levels[:-1], asked.values[:-1]) if beginning else (asked.levels, asked.values)


def _guards(
    index: Index, asked: ResourceQuestion, type_: PolicyType, beginning: bool
) -> Iterable[ResourceEntry]:
    """Return the entries that may mask, filter or deny something by the name, or by one that begins so."""
    if beginning:
        reach = _reach(asked, beginning=True)
        listed = (*index.find_at(*reach, None), *index.find_below(*reach, None))
        deep = (one for one in listed if len(one.levels) >= len(asked.levels))
        found: Collection[ResourceEntry] = [one for one in deep if one.may_begin(asked.levels, asked.values)]
    else:
        found = _Speaking(index, asked).maybe
    guarding = (one for one in found if (one.of.denies if type_ is PolicyType.ACCESS else one.of.obligations))
    # What is closed because nobody has named it says nothing of what somebody has.
    return (one for one in guarding if not one.of.policy.is_closing)


def _apart(one: ResourceEntry, other: ResourceEntry) -> bool:
    """Whether both speak of a column, and never of the same."""
    if len(one.matchers) != len(other.matchers) or one.levels != other.levels or one.levels[-1:] != (COLUMN,):
        return False
    last, others = one.matchers[-1], other.matchers[-1]
    return last.is_literal and others.is_literal and last.literals.isdisjoint(others.literals)


def _zones(asked: ResourceQuestion, *, beginning: bool) -> tuple[frozenset[str], bool]:
    """Return the zones that the name may lie in, or one that begins so; and whether it surely lies in one."""
    if not beginning:
        found = asked.zones()
        return frozenset(found) - {UNZONED}, bool(found) and UNZONED not in found
    entries = asked.service.zones.entries_with_prefix(asked.levels, asked.values)
    covered = any(entry.last_specific < len(asked.levels) - 1 and not entry.dynamic for entry in entries)
    return frozenset(entry.of for entry in entries), covered


def _tags_of(asked: ResourceQuestion, *, beginning: bool) -> frozenset[ResourceEntry]:
    """Return what gives the table or its columns tags; nothing where no policy is on tags."""
    service = asked.service
    if service.tag_policy_index is None or not service.tag_policy_index.indexes:
        return frozenset()
    if beginning:
        return frozenset(service.taggings.entries_with_prefix(asked.levels, asked.values))
    return frozenset(
        entry for entry, _ in service.taggings.find_tagged(asked.levels, asked.values, asked, below=True)
    )


class _Speaking:
    """The entries that speak of a table or of what is in it: of whom it may be so, and of whom it is."""

    def __init__(self, index: Index, asked: ResourceQuestion) -> None:
        found = (
            *index.find_at(asked.levels, asked.values, None),
            *index.find_below(asked.levels, asked.values, None),
        )
        self.maybe = frozenset(entry for entry in found if _may_match(entry, asked.values))
        self.surely = frozenset(entry for entry in self.maybe if not _in_doubt(entry))


def _may_match(entry: ResourceEntry, values: tuple[str, ...]) -> bool:
    return all(
        matcher.dynamic or matcher.matches(value, NOBODY) is not False
        for matcher, value in zip(entry.matchers, values, strict=False)
    )


def _in_doubt(entry: ResourceEntry) -> bool:
    """Whether it depends on who asks or on a condition, which may ask for the table's name."""
    policy: CompiledPolicy = entry.of
    return policy.tested or entry.dynamic


def _tags(asked: ResourceQuestion) -> frozenset[tuple[ResourceEntry, object]]:
    """Return what tags the table or its columns get, and how; never equal when it depends on who asks."""
    found = asked.service.taggings.find_tagged(asked.levels, asked.values, asked, below=True)
    if any(entry.dynamic for entry, _ in found):
        return frozenset({(entry, asked) for entry, _ in found})
    return frozenset(found)
