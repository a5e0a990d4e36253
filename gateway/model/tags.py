"""Tags on resources, and the periods in which policies and tags hold."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """Cron-like instants at which a period begins, and how long it lasts (Ranger's recurrence).

    Each field is the text of Ranger's JSON: `*`, a list, a range; day of week 1 is Sunday. Validated on load.
    """

    minute: str = "*"
    hour: str = "*"
    day_of_month: str = "*"
    day_of_week: str = "*"
    month: str = "*"
    year: str = "*"
    interval_minutes: int = 0
    """Days, hours and minutes of the interval, in minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValiditySchedule:
    """A period, both ends inclusive, in the wall clock of `zone`; of recurrences one must hold, too."""

    start: datetime | None = None
    """Naive: wall-clock time in `zone`."""
    end: datetime | None = None
    zone: str = "GMT"
    """A name of the IANA database."""
    recurrences: tuple[Recurrence, ...] = ()
    invalid: bool = False
    """Whether it could not be read: then it cannot be told when it applies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """One tag on a resource, with the attributes it has there."""

    type: str
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)
    owner: int = 0
    """Ranger's: 0 the resource's own, 1 shared."""
    validity: tuple[ValiditySchedule, ...] = ()
    """The tag exists only while one of these applies; empty: always. While that cannot be told it exists for
    what denies, masks and filters, not for what allows."""
    propagated: bool = False
    """Whether it came along lineage and an administrator accepted it."""


class Propagation(enum.IntEnum):
    """What becomes of a tag where values flow from one column to another; the greater of two ways counts."""

    DROP = 0
    """It does not follow."""
    ASK = 1
    """It is proposed; an administrator has to look, whatever the settings accept by themselves."""
    CARRY = 2
    """It is proposed."""


FLOWS = (
    "IDENTITY",
    "TRANSFORMATION",
    "AGGREGATION",
    "CONDITIONAL",
    "JOIN",
    "FILTER",
    "GROUP_BY",
    "SORT",
    "WINDOW",
    "TABLE",
)
"""Kinds of edges of the lineage graph: OpenLineage's subtypes, and `TABLE` where only tables are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PropagationRules:
    """Which flows carry tags. Masked flows never do, whatever stands here."""

    flows: Mapping[str, Propagation]
    """For each of `FLOWS`."""
    aggregates: Mapping[str, Propagation] = field(default_factory=dict)
    """Aggregate function, lower case → instead of what `AGGREGATION` says."""
    tags: Mapping[str, PropagationRules] = field(default_factory=dict)
    """Tag → the rules for it, complete; for other tags these here."""
    digest: str = ""
    """Another one for other rules."""

    def follows(self, tag: str, flow: str, aggregates: Sequence[str]) -> Propagation:
        """Say what becomes of a tag along an edge. `aggregates` are the functions that were all of the value
        in one statement or another; a name that no rule has stands for any aggregation."""
        rules = self.tags.get(tag, self)
        whole = rules.flows[flow]
        if flow != "AGGREGATION" or not aggregates:
            return whole
        return max(rules.aggregates.get(name, whole) for name in aggregates)

    @property
    def carrying(self) -> frozenset[str]:
        """The flows that carry some tag."""
        return frozenset(
            flow
            for rules in (self, *self.tags.values())
            for flow, does in rules.flows.items()
            if does or (flow == "AGGREGATION" and any(rules.aggregates.values()))
        )
