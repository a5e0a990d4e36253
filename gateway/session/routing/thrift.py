"""The sessions of HiveServer2 clients on several Sparks: a new one gets its Spark, and stays there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from gateway.errors import BackendUnavailable
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.session.identifiers import Handle
from gateway.session.recorder import Recorder
from gateway.session.routing.fleet import Fleet
from gateway.session.service import Sessions
from gateway.session.states import Lifecycle

DEFAULT_CATALOG_KEY = "spark.sql.defaultCatalog"


class RoutedSessions:
    """The sessions of all Sparks: opens them, and finds those that a handle is of."""

    def __init__(
        self,
        fleet: Fleet,
        recorder: Recorder,
        lifecycle: Lifecycle,
        *,
        first_catalog: str,
        named_catalogs: frozenset[str],
    ) -> None:
        """`first_catalog`: where sessions start that do not say; `named_catalogs`: what else a database may
        begin with."""
        self.recorder = recorder
        self.lifecycle = lifecycle
        self._fleet = fleet
        self._first_catalog = first_catalog
        self._named_catalogs = named_catalogs

    def _all(self) -> list[Sessions]:
        return [one.thrift for one in self._fleet.all() if one.thrift is not None]

    def of(self, handle: Handle) -> Sessions:
        """Return the sessions of the Spark that a session or an operation is on."""
        if (only := self._fleet.only) is not None and only.thrift is not None:
            return only.thrift
        found = self._all()
        # One that nobody has is told, and recorded, by the first.
        return next((one for one in found if one.knows(handle)), found[0])

    async def open_session(
        self,
        principal: Principal,
        client: Client,
        *,
        protocol_version: int,
        settings: Mapping[str, str] | None = None,
        database: str | None = None,
    ) -> Handle:
        """Open a session on the first Spark that takes it, of those that rules allow. Raises as
        `Sessions.open_session` and `Fleet.choose`."""
        # The groups of now, and not those of a login long ago.
        first = self._all()[0]
        admitted = await first.admit(principal, client)
        catalog = self._find_catalog(settings or {}, database)
        fault: BackendUnavailable | None = None
        async with first.recording_refusals(admitted, client):
            chosen = self._fleet.choose("thrift", client.backend, admitted, catalog)
        for spark in chosen:
            if spark.thrift is None:
                continue
            opening = spark.thrift.open_session(
                principal,
                client,
                protocol_version=protocol_version,
                settings=settings,
                database=database,
            )
            if not self._fleet.several:
                return await opening
            opened: list[Handle] = []
            attempt = spark.attempt(
                "thrift", _note(opening, opened), self._fleet.limit_attempt(spark, chosen)
            )
            try:
                return await attempt
            except BackendUnavailable as error:
                fault = error
            except asyncio.CancelledError:
                # Its client went away when it had just been opened: nobody else knows its handle.
                await spark.thrift.close_disconnected(opened)  # RULE (lost-handle-closed)
                raise
        raise fault or BackendUnavailable("no Spark takes a new session now")

    def _find_catalog(self, settings: Mapping[str, str], database: str | None) -> str:
        first, dot, _ = (database or "").partition(".")
        if dot and first.lower() in {"spark_catalog", *(name.lower() for name in self._named_catalogs)}:
            return first
        return settings.get(DEFAULT_CATALOG_KEY, self._first_catalog)

    async def close_disconnected(self, handles: Sequence[Handle]) -> None:
        for sessions in self._all():
            own = [handle for handle in handles if sessions.knows(handle)]
            if own:
                await sessions.close_disconnected(own)


async def _note(opening: Coroutine[Any, Any, Handle], opened: list[Handle]) -> Handle:
    """Open a session, and add it to those that were opened."""
    handle = await opening
    opened.append(handle)
    return handle
