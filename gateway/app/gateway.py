"""One gateway process: every room is made here from the settings, started in order and stopped in reverse."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from aiohttp import web

from gateway.admin.listener import AdminServer, Check
from gateway.app.catalogs import SparkCatalogs, first_context
from gateway.app.combining import closed_part
from gateway.app.datasets_metrics import DatasetsCollector
from gateway.app.endpoints import Upstream, open_listeners, require_connect
from gateway.app.explaining import (
    make_backend,
    make_catalog,
    make_judge,
    make_reader,
    make_upstream,
    named_parsers,
    own_extensions,
)
from gateway.app.files import dataset_owners, make_listening, make_promotion, make_refreshing
from gateway.app.jobs_metrics import JobStates
from gateway.app.lineage_following import LineageCollector, lineage_input, make_follower, trouble
from gateway.app.metalakes import Metalakes
from gateway.app.metalakes_metrics import MetalakesCollector
from gateway.app.openlineage import open_sinks
from gateway.app.rules import RulesInForce
from gateway.app.rules_metrics import SourcesCollector
from gateway.app.tag_propagation import Accepted, TagPropagation, TagsAdmin, accepted_source
from gateway.audit.ledger import FileLedger, LedgerOptions
from gateway.audit.sealing import keep_sealing
from gateway.audit.seals import signing_key
from gateway.audit.spool import SpoolLimits
from gateway.catalog.live import LiveCatalog
from gateway.database.postgres import EmbeddedPostgres
from gateway.errors import BackendMismatch, BackendUnavailable, Faults, SluiceError
from gateway.frontends.authentication import Authenticator, LoginLimits
from gateway.frontends.thrift_binary import ThriftBinaryServer, ThriftLimits
from gateway.frontends.thrift_service import ThriftService
from gateway.frontends.users import UserFile
from gateway.lineage.following import Follower
from gateway.lineage.workers import LineageWorkers
from gateway.model.spark_minors import minor_of
from gateway.policy.engine import engine_for
from gateway.reader.java_runtime import find_java, jdk_openings
from gateway.reader.pool import ReaderPool
from gateway.session.dependencies import Dependencies
from gateway.session.limits import SessionLimits
from gateway.session.locks import CatalogLocks
from gateway.session.metrics import Metrics
from gateway.session.ports import Catalog
from gateway.session.recorder import Recorder
from gateway.session.service import Sessions
from gateway.settings.models import (
    AdminListener,
    BackendSettings,
    ConnectListener,
    EmbeddedBackend,
    SessionSettings,
    Settings,
    ThriftListener,
    Tls,
)

if TYPE_CHECKING:
    from gateway.app.connect import ConnectUpstream
    from gateway.backends.embedded_spark import EmbeddedSpark


T = TypeVar("T")
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where a running gateway and what it stands on can be reached."""

    thrift_host: str
    thrift_port: int
    """0 when there is no Thrift Server behind the gateway."""
    connect_host: str
    connect_port: int
    """0 when there is no listener for Spark Connect."""
    admin_host: str
    admin_port: int
    spark_host: str
    spark_port: int
    ledger_dsn: str


class Gateway:
    """Starts on `async with`, serves while `run` is awaited, leaves nothing running when the block ends."""

    def __init__(
        self, settings: Settings, progress: Progress = lambda _: None, *, config: Path | None = None
    ) -> None:
        """`config`: the file that the settings stand in; scheduled jobs are processes that read it again."""
        self._settings = settings
        self._config = config
        self._progress = progress
        self._stack = AsyncExitStack()
        self._background: list[Coroutine[Any, Any, None]] = []
        self._addresses: Addresses | None = None
        self.metrics = Metrics()

    @property
    def addresses(self) -> Addresses:
        """Where everything listens; known once started."""
        if self._addresses is None:
            raise BackendUnavailable("the gateway has not been started")
        return self._addresses

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def run(self) -> None:
        """Do what has to be done while serving; never returns. Raises when something that is needed ends."""
        background, self._background = self._background, []
        await together(*background)

    async def _start(self) -> None:
        settings = self._settings
        # What a person may have done wrongly is looked at before anything is started.
        users = UserFile(settings.users.file)
        for listener in open_listeners(settings):
            tls_context(listener.tls)
            require_free(listener.host, listener.port)
        if settings.listeners.connect is not None:
            require_connect()
        self._stack.enter_context(only_one(settings.ledger.directory))
        reader, dsn, embedded = await together(
            self._start_reader(), self._start_postgres(), self._start_embedded_spark()
        )
        ledger = await self._start_ledger(dsn)
        accepted = Accepted(dsn)
        self._stack.callback(accepted.close)
        metalakes = Metalakes(settings, minor_of(reader.spark_version))
        self._stack.push_async_callback(metalakes.close)
        propagation = TagPropagation(settings.tag_propagation, dsn, lambda: rules.current)
        rules = RulesInForce(
            settings.policies,
            reader,
            accepted=accepted_source(settings, accepted),
            on_change=lambda policies: self.metrics.policy_version.set(policies.version),
            speaking=metalakes.services,
            closed=closed_part(settings.file_sources()),
        )
        self._stack.push_async_callback(rules.close)
        await rules.start()
        self.metrics.registry.register(SourcesCollector(rules.sources))
        catalogs = SparkCatalogs(settings.catalogs, metalakes)
        upstream = make_upstream(settings, embedded, reader.configuration, catalogs)
        # Spark forgets a cancel that comes while it plans: what was stopped is stopped again before we go.
        self._stack.push_async_callback(upstream.close)
        queries = upstream.queries()
        self._stack.push_async_callback(queries.close)
        known: Iterable[str] = ()
        try:
            spark_version = (await upstream.ask()).version
            known = await upstream.own_catalogs()
        except BackendMismatch:
            # The log and `/readyz` say why. Nothing runs before Spark is another: every session asks anew.
            spark_version = reader.spark_version
            self._progress("Spark may read texts otherwise than the parser: every statement is refused")
        await metalakes.start(rules.take, known)
        self.metrics.registry.register(MetalakesCollector(metalakes.states))
        owners = dataset_owners(settings, dsn, metalakes.owner)
        catalog = make_catalog(settings, queries, reader, metalakes, owners)
        self._stack.push_async_callback(catalog.close)
        limits = session_limits(settings.sessions, settings.backend)
        dependencies = Dependencies(
            judge=make_judge(settings, reader),
            policies=lambda: rules.current,
            authority=engine_for,
            catalog=catalog,
            locks=CatalogLocks(catalog, limits),
            ledger=ledger,
            gateway=ledger.gateway,
            metrics=self.metrics,
            limits=limits,
            stale=rules.stale,
            principals=lambda: users.principals,
            lineage_input=lineage_input(settings.lineage),
            first_context=first_context(settings),
            secrets=catalogs.secrets(),
            told_catalogs=catalogs.told,
            promotion=make_promotion(settings, queries, catalog, dsn, ledger=ledger, gateway=ledger.gateway),
        )
        self._background.append(make_listening(settings, catalog, dsn).run())
        refreshing = make_refreshing(settings, queries, catalog, dsn)
        if refreshing is not None:
            self.metrics.registry.register(DatasetsCollector(refreshing))
            self._background.append(refreshing.run())
        lineage = await self._start_lineage(dsn, reader, catalog, ledger)
        recorder = dependencies.recorder
        port = connect_port = 0
        if upstream.thrift is not None:
            sessions = Sessions(dependencies, upstream.thrift)
            self._stack.push_async_callback(sessions.close)
            self._background.append(sessions.run())
            port = await self._start_thrift(
                sessions, self._authenticator(users, recorder), spark_version, reader.keywords
            )
        if upstream.connect is not None:
            authenticator = self._authenticator(users, recorder)
            connect_port = await self._start_connect(dependencies, upstream.connect, authenticator)
        apis = {
            **self._make_ranger_admin(dsn, self._authenticator(users, recorder)),
            **self._make_lineage_admin(dsn, self._authenticator(users, recorder), rules, catalog),
            **self._make_tags_admin(dsn, self._authenticator(users, recorder)),
        }
        notes: dict[str, Check] = {"metalakes": metalakes.told}
        if settings.tag_propagation.enabled:
            notes["tags"] = propagation.told
        admin_port = await self._start_admin(rules, users, reader, upstream, ledger, lineage, notes, apis)
        every_s = settings.policies.reload_s
        self._background += [rules.watch(), users.run(every_s), metalakes.run()]
        if settings.tag_propagation.enabled:
            self._background.append(propagation.run())
        if settings.jobs.schedule and self._config is not None:
            from gateway.app.jobs import keep_running  # optional: it brings all jobs along

            states = JobStates({})
            self.metrics.registry.register(states)
            self._background.append(keep_running(settings.jobs, dsn, self._config, states=states))
        listeners = settings.listeners
        self._addresses = Addresses(
            thrift_host=listeners.thrift.host,
            thrift_port=port,
            connect_host=listeners.connect.host if listeners.connect is not None else "",
            connect_port=connect_port,
            admin_host=listeners.admin.host,
            admin_port=admin_port,
            spark_host=upstream.host,
            spark_port=upstream.port,
            ledger_dsn=dsn,
        )

    async def _stop(self) -> None:
        for never_run in self._background:
            never_run.close()
        self._background = []
        await self._stack.aclose()

    # -- the parts that stand beside the gateway -------------------------------------------------------------

    async def _start_reader(self) -> ReaderPool:
        reader = await make_reader(self._settings)
        self._stack.push_async_callback(reader.close)
        await reader.start()
        self._progress(f"parser of Spark {reader.spark_version} is ready")
        return reader

    async def _start_postgres(self) -> str:
        ledger = self._settings.ledger
        if ledger.dsn is not None:
            return ledger.dsn.reveal()
        postgres = EmbeddedPostgres(ledger.embedded.directory, progress=self._progress)
        self._stack.push_async_callback(to_the_end, postgres.stop)
        dsn = await to_the_end(postgres.start)
        self._background.append(postgres.supervise())
        self._progress("PostgreSQL is ready")
        return dsn

    async def _start_embedded_spark(self) -> EmbeddedSpark | None:
        embedded = self._settings.backend.embedded
        if embedded is None:
            return None
        spark = make_embedded_spark(self._settings, embedded)
        self._stack.push_async_callback(spark.stop)
        await spark.start(lambda line: self._progress(f"Spark: {line}"))
        self._background.append(_while_it_lives(spark))
        return spark

    # -- the parts of the gateway ----------------------------------------------------------------------------

    async def _start_ledger(self, dsn: str) -> FileLedger:
        settings = self._settings.ledger
        ledger = FileLedger(
            LedgerOptions(
                directory=settings.directory, dsn=dsn, spool=SpoolLimits(max_spool_bytes=settings.spool_bytes)
            )
        )
        await ledger.start()
        self._stack.push_async_callback(ledger.close)
        self.metrics.watch(self.metrics.spool_bytes, lambda: ledger.metrics().backlog_bytes)
        if settings.seal_key is not None:
            key = signing_key(settings.seal_key.reveal())
            self._background.append(keep_sealing(dsn, key, settings.directory))
        return ledger

    async def _start_lineage(
        self, dsn: str, reader: ReaderPool, catalog: LiveCatalog, ledger: FileLedger
    ) -> Follower | None:
        settings = self._settings.lineage
        if not settings.enabled:
            return None
        workers = LineageWorkers(settings.workers, deadline_s=settings.deadline_s)
        await self._stack.enter_async_context(workers)
        sinks = await open_sinks(
            settings.openlineage,
            self._stack,
            self.metrics.registry,
            tables=lambda name: catalog.snapshot.table(name),
            spark_version=reader.spark_version,
        )
        follower = make_follower(settings, dsn, reader, catalog, ledger.gateway, workers, sinks)
        self.metrics.registry.register(LineageCollector(follower.metrics))
        self._background.append(follower.run())
        return follower

    def _authenticator(self, users: UserFile, recorder: Recorder) -> Authenticator:
        logins = self._settings.logins
        return Authenticator(
            lambda: users.users,
            recorder=recorder,
            metrics=self.metrics,
            limits=LoginLimits(failures=logins.failures, window_s=logins.window_s),
        )

    async def _start_thrift(
        self,
        sessions: Sessions,
        authenticator: Authenticator,
        spark_version: str,
        keywords: Sequence[str],
    ) -> int:
        listener, logins = self._settings.listeners.thrift, self._settings.logins
        service = ThriftService(
            sessions,
            spark_version=spark_version,
            keywords=keywords,
            max_statement_chars=self._settings.reader.statement_chars,
        )
        server = ThriftBinaryServer(
            service,
            authenticator,
            metrics=self.metrics,
            limits=ThriftLimits(
                connections=listener.connections, handshake_timeout_s=logins.handshake_timeout_s
            ),
        )
        self._stack.push_async_callback(server.close)
        tls = tls_context(listener.tls)
        return await listening(server.start(listener.host, listener.port, ssl=tls), listener)

    async def _start_connect(
        self, dependencies: Dependencies, upstream: ConnectUpstream, authenticator: Authenticator
    ) -> int:
        from gateway.app.connect import certificate, connect_server, connect_sessions

        listener = self._settings.listeners.connect or ConnectListener()
        sessions = connect_sessions(dependencies, upstream)
        self._stack.push_async_callback(sessions.close)
        self._background.append(sessions.run())
        server = connect_server(sessions, authenticator, listener, self._settings.logins)
        self._stack.push_async_callback(server.close)
        start = server.start(listener.host, listener.port, certificate=certificate(listener.tls))
        return await listening(start, listener)

    async def _start_admin(
        self,
        rules: RulesInForce,
        users: UserFile,
        reader: ReaderPool,
        upstream: Upstream,
        ledger: FileLedger,
        lineage: Follower | None,
        more_notes: Mapping[str, Check],
        apis: Mapping[str, Callable[[], web.Application]],
    ) -> int:
        async def parser() -> str | None:
            return None if reader.healthy else "no parser process can be asked"

        async def record() -> str | None:
            return ledger.metrics().failure or None

        async def policies() -> str | None:
            at_fault = [f"{len(s.faults)} faults in {s.name}" for s in rules.sources() if s.faults]
            return f"{', '.join(at_fault)}; older policies are in force" if at_fault else None

        async def confirmed() -> str | None:
            return rules.stale()

        async def user_file() -> str | None:
            return f"{len(users.faults)} faults; older users are in force" if users.faults else None

        async def followed() -> str | None:
            return trouble(lineage.metrics) if lineage is not None else None

        async def chained() -> str | None:
            return ledger.metrics().chain_error or None

        notes = {"policies": policies, "users": user_file, "record": chained, **more_notes}
        if lineage is not None:
            notes["lineage"] = followed
        listener = self._settings.listeners.admin
        admin = AdminServer(
            {"parser": parser, **upstream.checks(), "ledger": record, "policies_confirmed": confirmed},
            self.metrics.registry,
            notes=notes,
            mounted=apis,
        )
        self._stack.push_async_callback(admin.close)
        tls = tls_context(listener.tls)
        return await listening(admin.start(listener.host, listener.port, tls=tls), listener)

    def _make_ranger_admin(
        self, dsn: str, authenticator: Authenticator
    ) -> dict[str, Callable[[], web.Application]]:
        settings = self._settings.listeners.admin.ranger
        if settings is None:
            return {}
        from gateway.app.ranger_admin import (
            RangerAdmin,  # optional: see OPTIONAL in tests/test_architecture.py
        )

        admin = RangerAdmin(settings, self._settings.policies, dsn, authenticator)
        self._stack.push_async_callback(admin.close)
        return {"/service": admin.api.app}

    def _make_lineage_admin(
        self, dsn: str, authenticator: Authenticator, rules: RulesInForce, catalog: Catalog
    ) -> dict[str, Callable[[], web.Application]]:
        settings = self._settings.listeners.admin.lineage
        if settings is None:
            return {}
        from gateway.app.lineage_admin import LineageAdmin  # optional, as above

        admin = LineageAdmin(
            settings,
            dsn,
            authenticator,
            policies=lambda: rules.current,
            stale=rules.stale,
            catalog=catalog,
        )
        self._stack.push_async_callback(admin.close)
        return {"/lineage": admin.api.app}

    def _make_tags_admin(
        self, dsn: str, authenticator: Authenticator
    ) -> dict[str, Callable[[], web.Application]]:
        settings = self._settings.listeners.admin.tags
        if settings is None:
            return {}
        admin = TagsAdmin(settings, dsn, authenticator)
        self._stack.push_async_callback(admin.close)
        return {"/tags": admin.api.app}


def make_embedded_spark(settings: Settings, embedded: EmbeddedBackend) -> EmbeddedSpark:
    """Return the Spark of the settings, not started, with the reader's Java and jars."""
    from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions  # optional

    java = find_java(settings.reader.java)
    parsers = named_parsers(
        settings.reader, extensions=settings.reader.extensions or own_extensions(settings)
    )
    options = EmbeddedSparkOptions(
        directory=embedded.directory,
        java=java,
        spark_home=parsers.spark_home,
        jars=parsers.jars,
        java_options=jdk_openings(),
        heap=embedded.heap,
        cores=embedded.cores,
        statements=settings.backend.statements,
        quick_start=embedded.quick_start,
        thrift_port=embedded.thrift_port,
        connect_port=embedded.connect_port,
        private_conf=SparkCatalogs(settings.catalogs).of_start(),
        start_timeout_s=embedded.start_timeout_s,
    )
    return EmbeddedSpark(options, lambda host, port: make_backend(settings.backend, host, port).probe())


def session_limits(settings: SessionSettings, backend: BackendSettings) -> SessionLimits:
    """Return the session room's limits with those that an operator may turn."""
    return SessionLimits(
        session_idle_s=settings.idle_s,
        operation_idle_s=settings.operation_idle_s,
        sessions=settings.total,
        sessions_per_user=settings.per_user,
        operations_per_session=settings.operations,
        fetch_rows=settings.fetch_rows,
        policy_tables_s=settings.policy_tables_s,
        catalog_wait_s=settings.catalog_wait_s,
        end_results_on_policy_change=settings.end_results_on_policy_change,
        statements=backend.statements,
        statements_waiting=backend.waiting,
        spark_wait_s=backend.wait_s,
    )


def tls_context(settings: Tls | None) -> ssl.SSLContext | None:
    """Return the TLS context of a listener. Raises Faults when certificate and key cannot be used."""
    if settings is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    versions = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
    context.minimum_version = versions[settings.minimum_version]
    try:
        context.load_cert_chain(settings.certificate, settings.key)
    except (OSError, ssl.SSLError) as error:
        raise Faults([f"{settings.certificate}, {settings.key}: cannot be used: {error}"]) from None
    return context


def require_free(host: str, port: int) -> None:
    """Raise Faults when nothing can listen there: starting Spark first would waste half a minute."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except OSError as error:
            raise Faults([f"cannot listen on {host}:{port}: {error.strerror or error}"]) from None


@contextmanager
def only_one(directory: Path) -> Iterator[None]:
    """Hold the directory for this process. Raises Faults when another gateway has it.

    Without this a second gateway would take over the first one's PostgreSQL, fail later, and stop it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "gateway.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Faults([f"another gateway runs with `{directory}`"]) from None
        yield


async def listening(
    start: Coroutine[Any, Any, int], listener: ThriftListener | ConnectListener | AdminListener
) -> int:
    """Return the port of a listener that was started. Raises Faults when its address cannot be had."""
    try:
        return await start
    except OSError as error:
        where = f"{listener.host}:{listener.port}"
        raise Faults([f"cannot listen on {where}: {error.strerror or error}"]) from None


async def _while_it_lives(spark: EmbeddedSpark) -> None:
    code = await spark.ended()
    raise BackendUnavailable(f"the embedded Spark ended by itself with code {code}; see {spark.log}")


async def to_the_end(work: Callable[[], T]) -> T:
    """Run blocking work in a thread; when cancelled, let it end first, so that nothing starts behind us."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


async def together(*work: Coroutine[Any, Any, Any]) -> list[Any]:
    """Run coroutines at the same time and return their results; the first error cancels the others."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except* SluiceError as errors:
        raise _first(errors) from errors
    return [task.result() for task in tasks]


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
