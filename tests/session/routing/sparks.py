"""Several Sparks of fakes, and a store of sessions in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from gateway.errors import BackendUnavailable
from gateway.model.principal import Principal
from gateway.model.sparks import BoundSession, ConnectKey, Routing, SparkFacts
from gateway.session.routing.fleet import Fleet, FleetLimits, SparkEntry

DANA = Principal(user="dana", groups=frozenset({"etl"}))
EVA = Principal(user="eva", groups=frozenset({"analysts"}))


class MemoryStore:
    """The store of sessions of gateways that share a process; `away` makes it fail."""

    def __init__(self) -> None:
        self.rows: dict[ConnectKey, BoundSession] = {}
        self.away = False

    async def _there(self) -> None:
        await asyncio.sleep(0)
        if self.away:
            raise BackendUnavailable("the gateway's database does not answer")

    async def find(self, key: ConnectKey) -> BoundSession | None:
        await self._there()
        return self.rows.get(key)

    async def bind(self, key: ConnectKey, backend: str) -> BoundSession:
        await self._there()
        return self.rows.setdefault(key, BoundSession(backend, is_open=False))

    async def confirm(self, key: ConnectKey, backend: str) -> bool:
        await self._there()
        found = self.rows.get(key)
        if found is None or found.backend != backend:
            return False
        self.rows[key] = BoundSession(backend, is_open=True)
        return True

    async def give_up(self, key: ConnectKey, backend: str) -> bool:
        await self._there()
        if self.rows.get(key) != BoundSession(backend, is_open=False):
            return False
        del self.rows[key]
        return True

    async def forget(self, key: ConnectKey) -> None:
        await self._there()
        self.rows.pop(key, None)

    async def touch(self, keys: Sequence[ConnectKey]) -> None:
        await self._there()


def fleet_of(
    routing: Routing, *sparks: tuple[SparkFacts, Any, Any], clock: Any = None, failures: int = 2
) -> Fleet:
    """Return a fleet of Sparks: what rules know of each, and its sessions of each endpoint."""
    fleet = Fleet(routing, FleetLimits(failures=failures, retry_s=5), **({"clock": clock} if clock else {}))
    fleet.several = len(sparks) > 1
    for facts, thrift, connect in sparks:
        fleet.add(SparkEntry(facts=facts, thrift=thrift, connect=connect))
    return fleet
