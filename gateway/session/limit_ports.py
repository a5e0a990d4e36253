"""What limits ask of other rooms: whom they speak of, and what other gateways have counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from gateway.model.catalog import TableName
from gateway.model.limits import AppliedLimit, Limit
from gateway.model.principal import Principal
from gateway.model.sparks import DEFAULT_BACKEND


class LimitSource(Protocol):
    """Says which limits of a set of policies speak of whom."""

    def find(
        self, principal: Principal, real: str = "", backend: str = DEFAULT_BACKEND
    ) -> Sequence[AppliedLimit]:
        """Return the limits of a user at a Spark; `real` is the identity of who acts as the user."""
        ...

    def speaks_of(self, limit: Limit, tables: Iterable[TableName]) -> bool:
        """Whether one speaks of a statement that reads or changes these tables."""
        ...


class UseKey(NamedTuple):
    """What is counted of a budget in one hour or day."""

    limit: str
    subject: str
    measure: str
    start: int
    """Of the hour or day, as Unix time."""


class OthersUse(Protocol):
    """What other gateways, and earlier runs of this one, have counted, and PostgreSQL's time."""

    @property
    def others(self) -> Mapping[UseKey, float]: ...
    @property
    def now_s(self) -> float: ...


class SharedUse(Protocol):
    """What all gateways of a database count together."""

    async def exchange(self, mine: Mapping[UseKey, float]) -> OthersUse | None:
        """Tell what this run has counted so far, and return what others have; None while PostgreSQL is
        away."""
        ...
