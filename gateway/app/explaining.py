"""Judges a statement without running it: same reader, policies and catalog as a gateway, but no session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from gateway.app.accepted_tags import kept_tags
from gateway.app.doors import Queries, Upstream, require_connect
from gateway.app.rules import RulesInForce
from gateway.backends.embedded_spark import HOST, EmbeddedSpark, find_running
from gateway.backends.spark_thrift import SparkThriftBackend, SparkThriftOptions
from gateway.backends.spark_thrift_connection import SparkAddress
from gateway.backends.unprivileged import run_as, state_place
from gateway.catalog.live import LiveCatalog
from gateway.catalog.static import StaticCatalog
from gateway.errors import BackendUnavailable, Faults
from gateway.frontends.users import read_users
from gateway.model.principal import Principal
from gateway.model.spark_minors import supported_minor
from gateway.model.statement import Client, SessionContext, Statement, Verdict
from gateway.pipeline import Rules, judge
from gateway.policy.engine import engine_for
from gateway.policy.reserved import ReservedPlace, reserved_place
from gateway.reader.java_runtime import find_spark_home, find_spark_of
from gateway.reader.limits import ReaderLimits
from gateway.reader.pool import ReaderPool
from gateway.session.limits import SessionLimits
from gateway.session.metrics import Metrics
from gateway.session.ports import BackendError, Catalog, Judge
from gateway.session.verdicts import Verdicts
from gateway.settings.models import BackendSettings, ReaderSettings, Settings


async def make_reader(settings: Settings) -> ReaderPool:
    """Return the parser processes that fit the Spark of the settings, not started. Raises as
    `spark_home_for`."""
    return reader_of(settings.reader, await spark_home_for(settings))


async def spark_home_for(settings: Settings) -> Path:
    """Return the directory whose `jars/` the parser is made of: a Spark of the backend's minor version.

    What the settings do not say, the backend is asked; one that does not answer is taken for the Spark that
    the gateway was installed with. Raises JavaNotFound when the jars are not here, UnsupportedSpark.
    """
    version = None
    unnamed = settings.reader.spark_version is None and settings.reader.spark_home is None
    if unnamed and settings.backend.embedded is None:
        version = await _backend_version(settings)
    return named_spark_home(settings.reader, version)


def named_spark_home(settings: ReaderSettings, version: str | None = None) -> Path:
    """Return the directory that the settings name; where they name none, one of a Spark of this version, or
    of the Spark that the gateway was installed with. Raises as `spark_home_for`."""
    version = settings.spark_version or version
    if version is None:
        return find_spark_home(settings.spark_home)
    return find_spark_of(supported_minor(version), settings.spark_jars.expanduser())


async def _backend_version(settings: Settings) -> str | None:
    if settings.listeners.connect is not None:
        require_connect()
    upstream = make_upstream(settings, None, "")
    try:
        return await upstream.version()
    except BackendUnavailable:
        return None
    finally:
        await upstream.close()


def reader_of(settings: ReaderSettings, spark_home: Path) -> ReaderPool:
    """Return parser processes of the settings, not started, with the jars of a Spark."""
    limits = ReaderLimits(
        max_chars=settings.statement_chars,
        max_nesting=settings.nesting,
        max_case_nesting=settings.nesting,
        deadline_s=settings.timeout_s,
        wait_s=settings.wait_s,
    )
    return ReaderPool(spark_home, settings.java, settings.processes, limits, heap=settings.heap)


def make_judge(settings: Settings, reader: ReaderPool) -> Judge:
    """Return the pipeline with its reader and the settings that change verdicts. Raises Faults."""
    checkpoints, reserved = own_places(settings)
    policies = settings.policies
    rules = Rules(
        star=policies.star,
        views=policies.views,
        unrecorded_views=policies.unrecorded_views,
        push_down=policies.push_down,
        checkpoints=checkpoints,
        reserved=reserved,
    )
    return partial(judge, reader=reader, rules=rules)


def own_places(settings: Settings) -> tuple[ReservedPlace | None, tuple[ReservedPlace, ...]]:
    """Return where the checkpoints of streams are, and what else no policy opens: an embedded Spark's
    temporary files, where streams without a location have theirs. Raises Faults."""
    chosen, embedded = settings.sessions.checkpoints, settings.backend.embedded
    checkpoints = reserved_place(chosen) if chosen is not None else None
    if embedded is None:
        return checkpoints, ()
    state = state_place(embedded.directory, run_as()).resolve()
    try:
        own = checkpoints or reserved_place(f"file:{state / 'checkpoints'}")
        return own, (reserved_place(f"file:{state / 'tmp'}"),)
    except ValueError as error:
        raise Faults([f"`backend.embedded.directory`: {error}"]) from None


def make_backend(
    settings: BackendSettings, host: str, port: int, *, reader_version: str = ""
) -> SparkThriftBackend:
    """Return the door to the Spark at an address; with `reader_version` it must be of that minor version."""
    address = SparkAddress(
        host=host,
        port=port,
        connect_timeout_s=settings.connect_timeout_s,
        call_timeout_s=settings.call_timeout_s,
    )
    return SparkThriftBackend(SparkThriftOptions(address=address, reader_version=reader_version))


def make_upstream(settings: Settings, embedded: EmbeddedSpark | None, reader_version: str) -> Upstream:
    """Return the Spark of the settings, at every endpoint that the gateway's clients can reach."""
    backend, connects = settings.backend, settings.listeners.connect is not None
    thrift = connect = None
    host, port = "", 0
    if embedded is not None:
        host, port = embedded.host, embedded.thrift_port
    elif backend.thrift is not None:
        host, port = backend.thrift.host, backend.thrift.port
    if settings.serves_thrift:
        thrift = make_backend(backend, host, port, reader_version=reader_version)
    if connects:
        from gateway.app.connect import connect_backend, own_connect_backend

        timeout_s = backend.connect_timeout_s
        if embedded is not None:
            connect = own_connect_backend(embedded, timeout_s, reader_version=reader_version)
        elif backend.connect is not None:
            connect = connect_backend(backend.connect, timeout_s, reader_version=reader_version)
            host, port = (host, port) if thrift is not None else (connect.host, connect.port)
    return Upstream(thrift=thrift, connect=connect, host=host, port=port)


def make_catalog(settings: Settings, queries: Queries) -> LiveCatalog:
    """Return the catalog that asks Spark."""
    return LiveCatalog(
        queries.query,
        refusal=BackendError,
        catalogs=tuple(settings.policies.catalogs),
        sources=[source.made(name) for name, source in settings.files.items()],
    )


async def explain(
    settings: Settings,
    principal: Principal,
    context: SessionContext,
    text: str,
    *,
    tables: Path | None = None,
) -> Verdict:
    """Return the verdict on a statement; see `verdicts_without_sessions`."""
    async with verdicts_without_sessions(settings, tables=tables) as verdicts:
        return await verdicts.judge(
            Statement(text=text, principal=principal, context=context), Client(protocol="explain")
        )


@asynccontextmanager
async def verdicts_without_sessions(
    settings: Settings, *, tables: Path | None = None
) -> AsyncIterator[Verdicts]:
    """Judge as a gateway of these settings would, with the tables of a running Spark or of a file.

    Raises Faults for broken rules, BackendUnavailable when Spark or the parser is not there, and as
    `spark_home_for`.
    """
    users = read_users(settings.users.file) if settings.users.file.exists() else {}
    principals = {name: user.principal for name, user in users.items()}
    async with await make_reader(settings) as reader:
        # Beside a gateway, whose caches they are.
        accepted = kept_tags(settings)
        in_force = RulesInForce(settings.policies, reader, accepted=accepted, read_only=True)
        async with in_force as rules, catalog_without_sessions(settings, reader, tables) as catalog:
            yield Verdicts(
                judge=make_judge(settings, reader),
                policies=lambda: rules.current,
                authority=engine_for,
                catalog=catalog,
                limits=SessionLimits(),
                metrics=Metrics(),
                stale=rules.stale,
                principals=lambda: principals,
            )


@asynccontextmanager
async def catalog_without_sessions(
    settings: Settings, reader: ReaderPool, tables: Path | None
) -> AsyncIterator[Catalog]:
    if tables is not None:
        yield StaticCatalog.load(tables)
        return
    async with asking(settings, reader) as (_, catalog):
        yield catalog


@asynccontextmanager
async def asking(settings: Settings, reader: ReaderPool) -> AsyncIterator[tuple[Queries, LiveCatalog]]:
    """Ask the Spark of the settings, and its catalog, without sessions."""
    upstream = _upstream(settings.backend, reader.spark_version)
    queries = upstream.queries()
    catalog = make_catalog(settings, queries)
    try:
        await upstream.ask()
        yield queries, catalog
    finally:
        await catalog.close()
        await queries.close()
        await upstream.close()


def _upstream(settings: BackendSettings, reader_version: str) -> Upstream:
    if settings.thrift is None and settings.connect is not None:
        require_connect()
        from gateway.app.connect import connect_backend

        door = connect_backend(settings.connect, settings.connect_timeout_s, reader_version=reader_version)
        return Upstream(thrift=None, connect=door, host=door.host, port=door.port)
    host, port = _running_spark(settings)
    thrift = make_backend(settings, host, port, reader_version=reader_version)
    return Upstream(thrift=thrift, connect=None, host=host, port=port)


def _running_spark(settings: BackendSettings) -> tuple[str, int]:
    if settings.thrift is not None:
        return settings.thrift.host, settings.thrift.port
    port = find_running(settings.embedded.directory) if settings.embedded is not None else None
    if port is None:
        raise BackendUnavailable(
            "the embedded Spark is not running, so there is no catalog to look tables up in; "
            "start the gateway, or name a file of tables with --tables"
        )
    return HOST, port
