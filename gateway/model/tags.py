"""Tags on resources, and the periods in which policies and tags hold."""

from __future__ import annotations

from collections.abc import Mapping
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
