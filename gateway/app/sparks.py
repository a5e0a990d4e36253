"""All Sparks behind a gateway: each with a parser, a catalog and sessions of its own.

INVARIANT (one Spark): what a Spark says of its tables, catalogs and settings is used for statements on that
Spark alone. What several share is what must be the same for all: policies, the record, counts of sessions,
and the locks of those that have one metastore.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from gateway.app.catalogs import make_catalogs
from gateway.app.discovering import leave_out_own, make_discovery
from gateway.app.explaining import (
    make_catalog,
    make_upstream,
    own_places,
    parsers_for,
    reader_of,
    select_judging_settings,
)
from gateway.app.files import make_places
from gateway.app.metalake_restrictions import make_restrictions
from gateway.app.spark_places import PlacesElsewhere, PlacesOfSparks
from gateway.app.upstream import Queries, Upstream
from gateway.catalog.live import LiveCatalog, Owners
from gateway.errors import SluiceError
from gateway.model.spark_minors import minor_of
from gateway.model.sparks import Routing, RoutingRule, SparkFacts
from gateway.pipeline import judge
from gateway.reader.parsers import Parsers
from gateway.reader.pool import ReaderPool
from gateway.session.dependencies import Dependencies
from gateway.session.limits import SessionLimits
from gateway.session.locks import CatalogLocks
from gateway.session.open_sessions import OpenSessions
from gateway.session.ports import Judge, OtherGateways, Promotion, TablePlaces
from gateway.session.recorder import MakeLineageInput, no_lineage
from gateway.session.routing.fleet import Fleet, FleetLimits, SparkEndpoint, SparkEntry, TrySpark
from gateway.session.service import Sessions
from gateway.settings.backends import BackendSettings, DiscoverySettings
from gateway.settings.models import Settings
from gateway.sources.metalakes import Metalakes

if TYPE_CHECKING:
    from gateway.backends.embedded_spark import EmbeddedSpark
    from gateway.session.connect.service import ConnectSessions

_log = structlog.get_logger(__name__)

RETRY_S = 5.0
"""Seconds between two tries to reach a Spark that is expected and not there."""
START_S = 30.0
"""How long a gateway that starts waits for those that are not its first."""
JOIN_S = 180.0
"""Longest time for one try: a parser starts within it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkParts:
    """One Spark, and all that is known of it alone."""

    name: str
    settings: Settings
    """Those of a gateway that has this Spark alone."""
    reader: ReaderPool
    upstream: Upstream
    queries: Queries
    catalog: LiveCatalog
    dependencies: Dependencies
    places: TablePlaces
    sessions: Sessions | None
    connect: ConnectSessions | None
    version: str
    stack: AsyncExitStack
    entry: SparkEntry


@dataclass(eq=False, kw_only=True)
class Sparks:
    """Makes the Sparks of the settings, the first one at the start, others when they answer."""

    settings: Settings
    limits: Callable[[BackendSettings], SessionLimits]
    open_sessions: OpenSessions
    fleet: Fleet = field(init=False)
    parts: dict[str, SparkParts] = field(default_factory=dict)
    embedded: Mapping[str, EmbeddedSpark] = field(default_factory=dict)
    """Those that are the gateway's own, by the names of their backends."""
    other_gateways: OtherGateways | None = None
    owners: Owners | None = None
    """Whose tables are, where files become tables."""
    lakes: Metalakes | None = None
    """The first Spark's metalakes: their warehouses are nobody's files on any Spark, and what their policies
    hide is hidden on each that has a catalog of the name."""
    _template: Dependencies | None = None
    _readers: dict[Parsers, ReaderPool] = field(default_factory=dict)
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a parser starts: two Sparks of a version share one."""
    _locks: dict[str, CatalogLocks] = field(default_factory=dict)
    _pending: dict[str, tuple[str, BackendSettings]] = field(default_factory=dict)
    """Sparks that are to join → their name in the settings, and their settings."""
    _gone: set[str] = field(default_factory=set)
    """Discovered Sparks that are no longer told of."""
    _group: asyncio.TaskGroup | None = None
    _waiting: list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]] = field(default_factory=list)
    _tasks: dict[str, list[asyncio.Task[None]]] = field(default_factory=dict)
    """What looks after the sessions of each Spark."""

    def __post_init__(self) -> None:
        routing = self.settings.routing
        limits = FleetLimits(
            check_s=routing.check_s,
            failures=routing.failures,
            retry_s=routing.retry_s,
            open_s=routing.open_s,
        )
        self.fleet = Fleet(make_routing(self.settings), limits)
        sparks = self.settings.all_backends
        self.fleet.several = len(sparks) > 1 or any(one.discover is not None for one in sparks.values())

    @property
    def main(self) -> SparkParts:
        """The Spark of `backend`."""
        return self.parts[self.settings.main_backend]

    # -- making one --------------------------------------------------------------------------------------

    def add_main(self, parts: SparkParts) -> None:
        """Take the Spark of `backend`; others get what it has that is the same for all."""
        self._template = parts.dependencies
        reader = parts.reader
        self._readers[reader.parsers] = reader
        self._join(parts)
        for name, settings in self.settings.all_backends.items():
            if name != self.settings.main_backend and settings.discover is None:
                self._expect(name, name, settings)
        for name, settings in self.settings.all_backends.items():
            if settings.discover is not None:
                self.fleet.note_pending(name, "no address is known yet")

    def locks_of(self, name: str, catalog: LiveCatalog, limits: SessionLimits) -> CatalogLocks:
        """Return the locks of a Spark's metastore."""
        found = self._make_locks(self.settings.metastore_of(name), limits)
        found.add_catalog(catalog)
        return found

    def find_locks(self, metastore: str) -> CatalogLocks | None:
        """Return the locks of a metastore, also while no Spark with it has joined; None of one that the
        settings do not name."""
        for name, backend in self.settings.all_backends.items():
            if self.settings.metastore_of(name) == metastore:
                return self._make_locks(metastore, self.limits(backend))
        return None

    def all_locks(self) -> list[CatalogLocks]:
        """Return the locks of all metastores."""
        return list(self._locks.values())

    def _make_locks(self, metastore: str, limits: SessionLimits) -> CatalogLocks:
        found = self._locks.get(metastore)
        if found is None:
            found = CatalogLocks(None, limits, metastore=metastore, others=self.other_gateways)
            self._locks[metastore] = found
        return found

    def wrap_places(self, name: str, own: TablePlaces) -> TablePlaces:
        """Return what says whose tables the files at a path are, on a Spark."""
        return PlacesOfSparks(own, self.find_elsewhere(name)) if self.fleet.several else own

    def find_elsewhere(self, name: str) -> PlacesElsewhere:
        """Return what says whether tables of other metastores than a Spark's have files at a path."""
        metastore = self.settings.metastore_of(name)

        def others() -> list[TablePlaces]:
            found: dict[str, TablePlaces] = {}
            for one in self.parts.values():
                store = one.entry.facts.metastore
                if store != metastore:
                    found.setdefault(store, one.places)
            return list(found.values())

        def list_missing() -> list[str]:
            reached = {one.entry.facts.metastore for one in self.parts.values()} | {metastore}
            return [one for one in self._list_metastores() if one not in reached]

        return PlacesElsewhere(others, list_missing)

    def _list_metastores(self) -> set[str]:
        return {self.settings.metastore_of(name) for name in self.settings.all_backends}

    def build_facts(self, name: str, pool: str, version: str) -> SparkFacts:
        """Return what rules may ask of a Spark."""
        told = self.settings.all_backends[pool]
        return SparkFacts(
            name=name,
            pool=pool,
            groups=None if told.groups is None else frozenset(told.groups),
            users=None if told.users is None else frozenset(told.users),
            tags=frozenset(told.tags),
            weight=told.weight,
            minor=str(minor_of(version)) if version else "",
            metastore=self.settings.metastore_of(pool),
        )

    async def _make(self, name: str, pool: str, backend: BackendSettings) -> SparkParts:
        """Make what a Spark needs that is not the first. Raises BackendUnavailable, Faults and others."""
        template = self._template
        assert template is not None  # noqa: S101 - the first Spark is there before others
        settings = self.settings.for_backend(pool, backend)
        stack = AsyncExitStack()
        try:
            embedded = self.embedded.get(name)
            reader = await self._find_reader(settings)
            catalogs = make_catalogs(settings)
            upstream = make_upstream(settings, embedded, reader.configuration, catalogs, template.gateway)
            in_time = template.lifecycle.close_in_time
            stack.push_async_callback(in_time, upstream.close)
            # Unlike the first, it joins only when it is known to read as its parser does.
            version = (await upstream.ask()).version
            queries = upstream.queries()
            stack.push_async_callback(in_time, queries.close)
            catalog = make_catalog(settings, queries, reader, owners=self.owners if settings.files else None)
            stack.push_async_callback(in_time, catalog.close)
            restrictions = make_restrictions(settings, catalogs, self.lakes)
            stack.push_async_callback(restrictions.aclose)
            limits = self.limits(backend)
            states = tuple if self.lakes is None else self.lakes.states
            own = make_places(settings, queries, catalog, states)
            dependencies = replace(
                template,
                judge=self.make_judge(settings, reader),
                reader=reader.configuration,
                catalog=catalog,
                locks=self.locks_of(pool, catalog, limits),
                limits=limits,
                lineage_input=self._choose_lineage(pool),
                backend=name,
                may_use=self.build_facts(name, pool, version).may_be_used_by,
                secrets=catalogs.secrets(),
                session_catalogs=catalogs.list_session_catalogs,
                restrictions=restrictions,
                places=self.wrap_places(pool, own),
                promotion=choose_promotion(settings, template.promotion),
            )
            stack.callback(dependencies.locks.remove_catalog, catalog)
            facts = self.build_facts(name, pool, version)
            return make_parts(
                facts, settings, reader, upstream, queries, catalog, dependencies, own, version, stack
            )
        except BaseException:
            await stack.aclose()
            raise

    def _choose_lineage(self, pool: str) -> MakeLineageInput:
        """Lineage is made with the first Spark's catalog: of another metastore it would be wrong."""
        template, metastore = self.main.dependencies, self.main.entry.facts.metastore
        return template.lineage_input if self.settings.metastore_of(pool) == metastore else no_lineage

    def make_judge(self, settings: Settings, reader: ReaderPool) -> Judge:
        """Return the pipeline for one Spark; the places of the gateway's own on all of them are reserved."""
        rules = select_judging_settings(settings)
        reserved = dict.fromkeys(rules.reserved)
        for name in self.settings.all_backends:
            checkpoints, others = own_places(self.settings.for_backend(name))
            reserved |= dict.fromkeys((*((checkpoints,) if checkpoints is not None else ()), *others))
        return partial(judge, reader=reader, rules=replace(rules, reserved=tuple(reserved)))

    async def _find_reader(self, settings: Settings) -> ReaderPool:
        parsers = await parsers_for(settings)
        async with self._starting:
            return await self._start_reader(settings, parsers)

    async def _start_reader(self, settings: Settings, parsers: Parsers) -> ReaderPool:
        if (found := self._readers.get(parsers)) is None:
            found = reader_of(settings.reader, parsers)
            try:
                await found.start()
            except BaseException:
                await found.close()
                raise
            self._readers[parsers] = found
        return found

    def _join(self, parts: SparkParts) -> None:
        self.parts[parts.name] = parts
        backend = self.settings.all_backends[parts.entry.facts.pool]
        parts.entry.is_drained = backend.drain
        self.fleet.add(parts.entry)
        for sessions in (parts.sessions, parts.connect):
            if sessions is not None:
                self.open_sessions.add(sessions)
                self._run(parts.name, sessions.run)
        _log.info("backend_joined", backend=parts.name, version=parts.version)

    def _run(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._group is None:
            self._waiting.append((name, work))
        else:
            self._tasks.setdefault(name, []).append(self._group.create_task(work()))

    # -- while the gateway serves ------------------------------------------------------------------------

    def _expect(self, name: str, pool: str, backend: BackendSettings) -> None:
        self._pending[name] = pool, backend
        self.fleet.note_pending(name, "it has not answered yet")

    async def try_pending(self, within_s: float | None = None) -> None:
        """Let those join that answer by now; the others of which that is not known in time later."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await asyncio.gather(*(self._try_one(name) for name in list(self._pending)))

    async def _try_one(self, name: str) -> None:
        if (expected := self._pending.get(name)) is None:
            return
        pool, backend = expected
        try:
            async with asyncio.timeout(JOIN_S):
                parts = await self._make(name, pool, backend)
        except Exception as error:  # noqa: BLE001 - whatever it says, a Spark that cannot join ends no gateway
            reason = _explain(error)
            if name in self._pending:
                if self.fleet.pending.get(name) != reason:
                    _log.warning("backend_not_joined", backend=name, reason=reason)
                self.fleet.note_pending(name, reason)
            return
        if name not in self._pending:  # no longer told of
            await parts.stack.aclose()
            return
        del self._pending[name]
        self._join(parts)

    async def run(self) -> None:
        """Look after the Sparks until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            waiting, self._waiting = self._waiting, []
            for name, work in waiting:
                self._run(name, work)
            if self.fleet.several:
                group.create_task(self.fleet.run())
                group.create_task(self._keep_trying())
                for name, settings in self.settings.all_backends.items():
                    if settings.discover is not None:
                        group.create_task(self._discover(name, settings, settings.discover))

    async def _keep_trying(self) -> None:
        while True:
            if self._pending:
                await self.try_pending()
            await self._remove_gone()
            await asyncio.sleep(RETRY_S)

    async def _discover(self, pool: str, backend: BackendSettings, settings: DiscoverySettings) -> None:
        discovery, reason = make_discovery(settings), ""
        while True:
            try:
                await self.take_addresses(pool, backend, await discovery.list_addresses())
                reason = ""
            except Exception as error:  # noqa: BLE001 - whatever is told of Sparks ends no gateway
                # Those that are known stay: who cannot say does not say that they are gone.
                if reason != (why := _explain(error)):
                    _log.warning("backends_not_discovered", backend=pool, reason=why)
                reason = why
            await asyncio.sleep(settings.every_s)

    async def take_addresses(self, pool: str, backend: BackendSettings, addresses: frozenset[str]) -> None:
        """Have the Sparks at these addresses, and no others, get new sessions of those discovered under a
        name."""
        addresses = await leave_out_own(addresses, self.settings, backend)
        most = backend.discover.most if backend.discover is not None else 0
        if len(addresses) > most:
            _log.warning("backends_left_out", backend=pool, found=len(addresses), most=most)
        joined = {one.name for one in self.fleet.all() if one.facts.pool == pool and one.name != pool}
        named = {f"{pool}@{address}": address for address in addresses}
        # Those that are there already stay, whatever else is told.
        told = {name: named[name] for name in sorted(named, key=lambda one: (one not in joined, one))[:most]}
        for name in [one for one, (of, _) in self._pending.items() if of == pool and one not in told]:
            del self._pending[name]
            self.fleet.forget_pending(name)
        if told:
            self.fleet.forget_pending(pool)
        else:
            self.fleet.note_pending(pool, "no address is known yet")
        for name in joined:
            spark = self.fleet.get(name)
            if spark is not None:
                spark.is_gone = name not in told
        self._gone = {*(self._gone - told.keys()), *(joined - told.keys())}
        new = [name for name in told if name not in joined and name not in self._pending]
        for name in new:
            self._expect(name, pool, backend.at_host(told[name]))
        if new:
            await self.try_pending()

    async def _remove_gone(self) -> None:
        for name in list(self._gone):
            spark = self.fleet.get(name)
            if spark is None or not spark.session_count:
                self._gone.discard(name)
                self.fleet.remove(name)
                parts = self.parts.pop(name, None)
                for task in self._tasks.pop(name, ()):
                    task.cancel()
                if parts is not None:
                    for sessions in (parts.sessions, parts.connect):
                        if sessions is not None:
                            self.open_sessions.remove(sessions)
                    _log.info("backend_left", backend=name)
                    await parts.stack.aclose()

    async def close(self) -> None:
        """Close the sessions and all Sparks but the first, which the gateway has made."""
        for parts in reversed(list(self.parts.values())):
            await parts.stack.aclose()
        main = self.parts.get(self.settings.main_backend)
        for reader in self._readers.values():
            if main is None or reader is not main.reader:
                with contextlib.suppress(Exception):
                    await reader.close()

    # -- what operators are told -------------------------------------------------------------------------

    def checks(self) -> Mapping[str, Callable[[], Awaitable[str | None]]]:
        """Return what has to be ready: the Spark where there is one; of several, one for each endpoint."""
        if not self.fleet.several:
            return self.main.upstream.checks()
        return {"sparks": self._report_all_down}

    async def _report_all_down(self) -> str | None:
        for endpoint in ("thrift", "connect"):
            found = [one for one in self.fleet.all() if one.sessions_of(endpoint) is not None]
            if found and all(one.explain(endpoint) for one in found):
                return f"no Spark takes new sessions of `{endpoint}`"
        return None

    async def report_trouble(self) -> str | None:
        """Return what /readyz notes of several Sparks."""
        told = [f"`{name}` is not there: {reason}" for name, reason in self.fleet.pending.items()]
        for spark in self.fleet.all():
            for endpoint, breaker in spark.breakers.items():
                if why := spark.explain(endpoint):
                    reason = f": {breaker.reason}" if breaker.reason else ""
                    told.append(f"`{spark.name}` ({endpoint}) {why}{reason}")
        return "; ".join(told) or None

    def drain(self, name: str, *, on: bool, by: str) -> list[str]:
        """Have a Spark get no new sessions, or get them again; return which Sparks it was."""
        _log.info("backend_drain_asked", backend=name, on=on, by=by)
        return self.fleet.set_drained(name, on=on)

    def list_states(self) -> list[dict[str, Any]]:
        """Return how each Spark stands, as `sluice backends list` shows it."""
        found = [
            {
                "backend": one.name,
                "version": self.parts[one.name].version,
                "metastore": one.facts.metastore,
                "weight": one.facts.weight,
                "sessions": one.session_count,
                "endpoints": {name: one.explain(name) or "ready" for name in one.breakers},
                "drained": one.is_drained,
            }
            for one in self.fleet.all()
        ]
        return found + [
            {"backend": name, "waiting_for": reason} for name, reason in self.fleet.pending.items()
        ]


def make_parts(
    facts: SparkFacts,
    settings: Settings,
    reader: ReaderPool,
    upstream: Upstream,
    queries: Queries,
    catalog: LiveCatalog,
    dependencies: Dependencies,
    places: TablePlaces,
    version: str,
    stack: AsyncExitStack,
) -> SparkParts:
    """Return a Spark with its sessions, which are closed before the rest of `stack`."""
    sessions = connect = None
    if upstream.thrift is not None:
        sessions = Sessions(dependencies, upstream.thrift)
        stack.push_async_callback(sessions.close)
    if upstream.connect is not None:
        from gateway.app.connect import connect_sessions  # optional, with Spark Connect's messages

        connect = connect_sessions(dependencies, upstream.connect)
        stack.push_async_callback(connect.close)
    entry = SparkEntry(facts=facts, thrift=sessions, connect=connect, looks=_looks(upstream),
                       trials=_trials(upstream))  # fmt: skip
    return SparkParts(
        name=facts.name,
        settings=settings,
        reader=reader,
        upstream=upstream,
        queries=queries,
        catalog=catalog,
        dependencies=dependencies,
        places=places,
        sessions=sessions,
        connect=connect,
        version=version,
        stack=stack,
        entry=entry,
    )


def _explain(error: Exception) -> str:
    """Return why a Spark is not there, for operators; words of errors that are not ours may hold secrets."""
    if isinstance(error, SluiceError):
        return error.for_operators
    told = str(error) if isinstance(error, OSError | ValueError) else ""
    return told or type(error).__name__


def _looks(upstream: Upstream) -> dict[SparkEndpoint, TrySpark]:
    found: dict[SparkEndpoint, TrySpark] = {}
    if upstream.thrift is not None:
        found["thrift"] = lambda: knock(upstream.host, upstream.port)
    if (connect := upstream.connect) is not None:
        found["connect"] = lambda: knock(connect.host, connect.port)
    return found


def _trials(upstream: Upstream) -> dict[SparkEndpoint, TrySpark]:
    found: dict[SparkEndpoint, TrySpark] = {}
    for name, backend in (
        ("thrift", upstream.thrift),
        ("connect", upstream.connect.backend if upstream.connect is not None else None),
    ):
        if backend is not None:
            found[name] = _without_answer(backend.probe)  # type: ignore[index]
    return found


def _without_answer(ask: Callable[[], Awaitable[object]]) -> TrySpark:
    async def look() -> None:
        await ask()

    return look


async def knock(host: str, port: int) -> None:
    """Connect and leave again. Raises OSError."""
    _, writer = await asyncio.open_connection(host, port)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def choose_promotion(settings: Settings, main: Promotion | None) -> Promotion | None:
    """Return who makes tables of files for a Spark: the first one's, where it has that one's metastore."""
    return main if settings.files else None  # RULE (files-of-main-metastore)


def make_routing(settings: Settings) -> Routing:
    """Return the rules of the settings."""
    main = settings.main_backend
    metastore = settings.metastore_of(main)
    default = settings.routing.default or tuple(
        name for name in settings.all_backends if name == main or settings.metastore_of(name) == metastore
    )
    return Routing(
        rules=tuple(
            RoutingRule(
                backends=rule.backends,
                groups=None if rule.groups is None else frozenset(rule.groups),
                users=None if rule.users is None else frozenset(rule.users),
                catalogs=None if rule.catalogs is None else frozenset(c.lower() for c in rule.catalogs),
                version=rule.version or "",
            )
            for rule in settings.routing.rules
        ),
        default=default,
    )
