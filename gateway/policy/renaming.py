"""Whether a table that gets another name could be used in more ways under it, by anybody.

Policies, tags and zones go by names. The answer compares what speaks of either name, or of columns below it,
without asking to whom; what cannot be told counts as more. A table is renamed within its database, so what
speaks of databases and catalogs is the same.
"""

from __future__ import annotations

from gateway.model.policy import PolicyType
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.hierarchy import Entry
from gateway.policy.index import Index
from gateway.policy.matching import NOBODY
from gateway.policy.service import Question
from gateway.policy.zones import UNZONED


def renaming_opens(old: Question, new: Question) -> bool:
    """Say whether somebody may do or see more with a table named as in `new` than as in `old`."""
    service = old.service
    zones = old.zones()
    if zones != new.zones() or UNZONED in zones:
        return True
    for zone in zones or (UNZONED,):
        for type_ in PolicyType:
            index = service.filing.index(zone, type_)
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


class _Speaking:
    """The entries that speak of a table or of what is in it: of whom it may be so, and of whom it is."""

    def __init__(self, index: Index, asked: Question) -> None:
        found = (*index.at(asked.levels, asked.values, None), *index.below(asked.levels, asked.values, None))
        self.maybe = frozenset(entry for entry in found if _may_match(entry, asked.values))
        self.surely = frozenset(entry for entry in self.maybe if not _in_doubt(entry))


def _may_match(entry: Entry, values: tuple[str, ...]) -> bool:
    return all(
        matcher.dynamic or matcher.matches(value, NOBODY) is not False
        for matcher, value in zip(entry.matchers, values, strict=False)
    )


def _in_doubt(entry: Entry) -> bool:
    """Whether it depends on who asks or on a condition, which may ask for the table's name."""
    policy: CompiledPolicy = entry.of
    return policy.tested or any(matcher.dynamic for matcher in entry.matchers)


def _tags(asked: Question) -> frozenset[tuple[Entry, object]]:
    """Return what tags the table or its columns get, and how; never equal when it depends on who asks."""
    found = asked.service.taggings.on(asked.levels, asked.values, asked, below=True)
    if any(matcher.dynamic for entry, _ in found for matcher in entry.matchers):
        return frozenset({(entry, asked) for entry, _ in found})
    return frozenset(found)
