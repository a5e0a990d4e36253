"""Judges a statement without running it: same reader, policies and catalog as a gateway, but no session."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.app.accepted_tags import load_cached_tags
from gateway.app.catalogs import SparkCatalogs, make_catalogs
from gateway.app.current_policies import CurrentPolicies, FixedPeople
from gateway.app.metalake_restrictions import make_restrictions
from gateway.app.metalakes import metalakes_of
from gateway.app.procedures import load_shipped_procedures
from gateway.app.rules import PolicyRegistry
from gateway.app.upstream import Queries, Upstream, require_connect
from gateway.app.user_tokens import UserTokens, make_user_tokens
from gateway.backends.spark_thrift import SparkThriftBackend
from gateway.backends.spark_thrift_connection import SparkAddress
from gateway.backends.spark_thrift_options import KerberosTickets, SparkThriftOptions
from gateway.backends.unprivileged import run_as, state_place
from gateway.catalog.live import LiveCatalog, Owners
from gateway.catalog.static import StaticCatalog
from gateway.errors import BackendUnavailable, Faults
from gateway.frontends.users import read_users
from gateway.model.catalog import Table, TableName
from gateway.model.metalakes import NONE_LISTED, ListedCatalogs
from gateway.model.principal import Principal
from gateway.model.secret_values import SecretValues
from gateway.model.spark_configuration import (
    NOT_COMPARED,
    ParserConfiguration,
    SparkConfiguration,
    extensions_of,
)
from gateway.model.spark_minors import PLANS, Minor, UnsupportedSpark, find_supported_minor, minor_of
from gateway.model.statement import Client, SessionContext, Statement, Verdict
from gateway.model.table_formats import LISTED_EXTENSIONS, formats_of
from gateway.pipeline import Rules, judge
from gateway.policy.parts import build_closing_part
from gateway.policy.reserved import ReservedPlace, parse_reserved_place
from gateway.reader.extension_jars import find_extension_jars
from gateway.reader.java_runtime import find_spark_home, find_spark_of, spark_version
from gateway.reader.limits import ReaderLimits
from gateway.reader.parsers import Parsers
from gateway.reader.pool import ReaderPool
from gateway.session.ports import BackendError, Catalog, Judge
from gateway.session.verdicts import VerdictInputs, Verdicts
from gateway.settings.backends import BackendSettings, ThriftKerberos
from gateway.settings.models import ReaderSettings, Settings
from gateway.sources.metalakes import Metalakes

if TYPE_CHECKING:
    from gateway.backends.embedded_spark import EmbeddedSpark


async def make_reader(settings: Settings) -> ReaderPool:
    """Return the parsers that fit the Spark of the settings, not started. Raises as `parsers_for`."""
    return reader_of(settings.reader, await parsers_for(settings))


async def parsers_for(settings: Settings) -> Parsers:
    """Return what the parser is made of: the jars of a Spark of the backend's minor version, and the
    extensions that it runs, with their jars.

    What the settings do not say, the backend is asked; one that does not answer is taken for the Spark that
    the gateway was installed with, without extensions. Raises JavaNotFound when jars are not here,
    UnsupportedSpark, UnsupportedFormat.
    """
    reader = settings.reader
    named = reader.extensions is not None and (reader.spark_version or reader.spark_home) is not None
    told = None if named or settings.backend.embedded is not None else await _introduction(settings)
    version = told.version if told is not None and reader.spark_home is None else None
    extensions = reader.extensions
    if extensions is None:
        extensions = extensions_of(told.settings) if told is not None else own_extensions(settings)
    found = find_parser_jars(reader, version, extensions)
    minor = find_supported_minor(spark_version(found.spark_home))
    plans = settings.listeners.connect is not None and settings.backend.serves_connect
    if plans and minor < PLANS:
        raise UnsupportedSpark(
            f"Spark {minor} is supported over its Thrift Server only: its Spark Connect server ignores "
            "parts of plans that it does not know; remove `listeners.connect` and `backend.connect`"
        )
    return found


def own_extensions(settings: Settings) -> tuple[str, ...]:
    """Return the extensions that an embedded Spark is started with; none when Spark is another's."""
    if settings.backend.embedded is None:
        return ()
    if settings.reader.extensions is not None:
        return tuple(settings.reader.extensions)
    return SparkCatalogs(settings.catalogs).extensions(minor_of_spark(settings))


def minor_of_spark(settings: Settings) -> Minor:
    """Return the minor of the Spark that the settings name, or else of the one that is installed; an embedded
    one is of it. Raises JavaNotFound, UnsupportedSpark."""
    return find_supported_minor(spark_version(find_configured_spark_home(settings.reader)))


def find_parser_jars(
    settings: ReaderSettings, version: str | None = None, extensions: tuple[str, ...] | None = None
) -> Parsers:
    """Return the jars that the settings name; where they name none, of a Spark of this version, or of the one
    that the gateway was installed with. Raises as `parsers_for`."""
    home = find_configured_spark_home(settings, version)
    running = extensions if extensions is not None else settings.extensions or ()
    if not LISTED_EXTENSIONS.issuperset(running):
        # Such a Spark is refused, and says why, when it is asked how it reads: it may be another one by then.
        running = ()
    if not running:
        return Parsers(spark_home=home)
    jars = find_extension_jars(
        formats_of(running),
        find_supported_minor(spark_version(home)),
        spark_home=home,
        named=[path.expanduser() for path in settings.extension_jars],
        kept=settings.spark_jars.expanduser(),
    )
    return Parsers(spark_home=home, extensions=running, jars=jars)


def find_configured_spark_home(settings: ReaderSettings, version: str | None = None) -> Path:
    """Return the directory that the settings name; where they name none, one of a Spark of this version, or
    of the Spark that the gateway was installed with. Raises JavaNotFound, UnsupportedSpark."""
    version = settings.spark_version or version
    if version is None:
        return find_spark_home(settings.spark_home)
    return find_spark_of(find_supported_minor(version), settings.spark_jars.expanduser())


async def _introduction(settings: Settings) -> SparkConfiguration | None:
    if settings.listeners.connect is not None:
        require_connect()
    upstream = make_upstream(settings, None, NOT_COMPARED)
    try:
        return await upstream.introduction()
    except BackendUnavailable:
        return None
    finally:
        await upstream.close()


def reader_of(settings: ReaderSettings, parsers: Parsers) -> ReaderPool:
    """Return parser processes of the settings, not started, of these jars."""
    return ReaderPool(
        parsers.spark_home,
        settings.java,
        settings.processes,
        reader_limits(settings),
        extensions=parsers.extensions,
        jars=parsers.jars,
        heap=settings.heap,
    )


def reader_limits(settings: ReaderSettings) -> ReaderLimits:
    """Return the bounds on one statement."""
    return ReaderLimits(
        max_chars=settings.statement_chars,
        max_nesting=settings.nesting,
        max_case_nesting=settings.nesting,
        start_timeout_s=settings.start_timeout_s,
        deadline_s=settings.timeout_s,
        wait_s=settings.wait_s,
    )


def make_judge(settings: Settings, reader: ReaderPool) -> Judge:
    """Return the pipeline with its reader and the settings that change verdicts. Raises Faults."""
    return partial(judge, reader=reader, rules=select_judging_settings(settings))


def select_judging_settings(settings: Settings) -> Rules:
    """Return the settings that change verdicts. Raises Faults."""
    checkpoints, reserved = own_places(settings)
    policies = settings.policies
    return Rules(
        star=policies.star,
        views=policies.views,
        unrecorded_views=policies.unrecorded_views,
        push_down=policies.push_down,
        procedures=load_shipped_procedures(),
        barriers=policies.barriers,
        checkpoints=checkpoints,
        reserved=reserved,
        unmatched_columns=policies.unmatched_columns,
    )


def own_places(settings: Settings) -> tuple[ReservedPlace | None, tuple[ReservedPlace, ...]]:
    """Return where the checkpoints of streams are, and what else no policy opens: an embedded Spark's
    temporary files, where streams without a location have theirs. Raises Faults."""
    chosen, embedded = settings.sessions.checkpoints, settings.backend.embedded
    checkpoints = parse_reserved_place(chosen) if chosen is not None else None
    if embedded is None:
        return checkpoints, ()
    state = state_place(embedded.directory, run_as()).resolve()
    try:
        own = checkpoints or parse_reserved_place(f"file:{state / 'checkpoints'}")
        return own, (parse_reserved_place(f"file:{state / 'tmp'}"),)
    except ValueError as error:
        raise Faults([f"`backend.embedded.directory`: {error}"]) from None


def make_backend(
    settings: BackendSettings,
    host: str,
    port: int,
    *,
    reader: ParserConfiguration = NOT_COMPARED,
    catalogs: SparkCatalogs | None = None,
    named_catalogs: frozenset[str] = frozenset(),
    user_tokens: UserTokens | None = None,
) -> SparkThriftBackend:
    """Return the backend for the Spark at an address, which must read texts as the parser does; `catalogs` is
    what its sessions are told of catalogs, `named_catalogs` those that it has to have. Raises Faults."""
    running = settings.thrift
    login = running.login if running is not None else None
    password = login.password.reveal() if login is not None else ""
    address = SparkAddress(
        host=host,
        port=port,
        ssl=make_tls(running.ca_file) if running is not None and running.tls else None,
        http_path=running.http_path if running is not None and running.transport == "http" else None,
        connect_timeout_s=settings.connect_timeout_s,
        call_timeout_s=settings.call_timeout_s,
    )
    listed = catalogs or SparkCatalogs(())
    own, listed_secrets = (password,) if password else (), listed.secrets()
    kerberos = running.kerberos if running is not None else None
    options = SparkThriftOptions(
        address=address,
        service=login.user if login is not None else kerberos.user if kerberos is not None else "",
        kerberos=make_kerberos_client(kerberos, host) if kerberos is not None else None,
        password=password,
        user_tokens=user_tokens,
        reader=reader,
        catalogs=listed.of_sessions,
        catalog_logins=listed.log_in,
        named_catalogs=named_catalogs,
        secrets=SecretValues(lambda: (*own, *listed_secrets)),
    )
    return SparkThriftBackend(options)


def make_kerberos_client(settings: ThriftKerberos, host: str) -> KerberosTickets:
    """Return what has the gateway's tickets for a server. Raises Faults without the extra `kerberos`."""
    try:
        from gateway.backends.kerberos_client import KerberosClient, KerberosLogin  # optional
    except ImportError as error:
        raise Faults([f"`kerberos` of a backend needs the extra `kerberos` (gssapi): {error}"]) from None
    return KerberosClient(
        KerberosLogin(
            keytab=settings.keytab, user=settings.user, server=settings.server, host=host, qop=settings.qop
        )
    )


def make_tls(ca_file: Path | None) -> ssl.SSLContext:
    """Return what verifies the certificate of a server. Raises Faults."""
    try:
        return ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    except OSError as error:
        raise Faults([f"{ca_file}: cannot be read: {error.strerror or error}"]) from None


def make_upstream(
    settings: Settings,
    embedded: EmbeddedSpark | None,
    reader: ParserConfiguration,
    catalogs: SparkCatalogs | None = None,
    gateway: str = "",
) -> Upstream:
    """Return the Spark of the settings, at every endpoint that the gateway's clients can reach; `catalogs` is
    what its sessions are told of catalogs, where that is more than the settings say; `gateway`: whose they
    are."""
    backend, connects = settings.backend, settings.listeners.connect is not None
    named = settings.named_catalogs
    catalogs = catalogs or make_catalogs(settings)
    user_tokens = make_user_tokens(settings, backend, catalogs.hide, gateway)
    thrift = connect = None
    host, port = "", 0
    if embedded is not None:
        host, port = embedded.host, embedded.thrift_port
    elif backend.thrift is not None:
        host, port = backend.thrift.host, backend.thrift.port
    if backend.serves_thrift:
        thrift = make_backend(
            backend,
            host,
            port,
            reader=reader,
            catalogs=catalogs,
            named_catalogs=named,
            user_tokens=user_tokens,
        )
    if connects:
        from gateway.app.connect import connect_backend, own_connect_backend

        timeout_s = backend.connect_timeout_s
        if embedded is not None:
            connect = own_connect_backend(
                embedded,
                timeout_s,
                reader=reader,
                catalogs=catalogs.of_sessions,
                catalog_logins=catalogs.log_in,
                named_catalogs=named,
                session_catalogs=catalogs.list_session_catalogs,
                gateway=gateway,
                call_timeout_s=backend.call_timeout_s,
            )
        elif backend.connect is not None:
            connect = connect_backend(
                backend.connect,
                timeout_s,
                reader=reader,
                catalogs=catalogs.of_sessions,
                catalog_logins=catalogs.log_in,
                named_catalogs=named,
                session_catalogs=catalogs.list_session_catalogs,
                gateway=gateway,
                call_timeout_s=backend.call_timeout_s,
                user_tokens=user_tokens,
            )
            host, port = (host, port) if thrift is not None else (connect.host, connect.port)
    return Upstream(
        thrift=thrift, connect=connect, host=host, port=port, session_catalogs=catalogs.list_session_catalogs
    )


def make_catalog(
    settings: Settings,
    queries: Queries,
    reader: ReaderPool,
    metalakes: Metalakes | None = None,
    owners: Owners | None = None,
    learned: Callable[[TableName, Table | None], None] = lambda name, table: None,
) -> LiveCatalog:
    """Return the catalog that asks Spark, which is of the reader's minor version. `metalakes` has catalogs
    that come and go; `owners` tells whose their tables are, where it is not they alone who know; `learned` is
    told what Spark answers."""
    if owners is None and metalakes is not None:
        owners = metalakes.owner
    return LiveCatalog(
        queries.query,
        refusal=BackendError,
        catalogs=tuple(settings.policies.catalogs),
        minor=minor_of(reader.spark_version),
        sources=settings.file_sources(),
        listed=none_listed if metalakes is None else metalakes.list_catalogs,
        owners=owners,
        learned=learned,
    )


def none_listed() -> ListedCatalogs:
    """Return the catalogs that come and go where there are none."""
    return NONE_LISTED


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
        # As a session that is opened now.
        told = frozenset(verdicts.listed.revisions.items())
        statement = Statement(text=text, principal=principal, context=replace(context, catalogs=told))
        return await verdicts.judge(statement, Client(protocol="explain"))


@asynccontextmanager
async def verdicts_without_sessions(
    settings: Settings, *, tables: Path | None = None
) -> AsyncIterator[Verdicts]:
    """Judge as a gateway of these settings would, with the tables of a running Spark or of a file.

    Raises Faults for broken rules, BackendUnavailable when Spark or the parser is not there, and as
    `parsers_for`.
    """
    users = read_users(settings.users.file) if settings.users.file.exists() else {}
    principals = {name: user.principal for name, user in users.items()}
    async with await make_reader(settings) as reader:
        # Beside a gateway, whose caches they are.
        accepted = load_cached_tags(settings)
        metalakes = metalakes_of(settings, minor_of(reader.spark_version), read_only=True)
        in_force = PolicyRegistry(
            settings.policies,
            reader,
            accepted=accepted,
            read_only=True,
            speaking=metalakes.services,
            closed=build_closing_part(settings.file_sources()),
        )
        async with in_force as rules:
            await metalakes.start(rules.replace_part)
            # Who judges by the tables of a file asks nobody.
            restrictions = make_restrictions(settings, make_catalogs(settings, metalakes), metalakes)
            async with (
                catalog_without_sessions(settings, reader, tables, metalakes) as catalog,
                aclosing(restrictions),
            ):
                yield Verdicts(
                    VerdictInputs(
                        judge=make_judge(settings, reader),
                        policies=CurrentPolicies(rules, FixedPeople(principals)),
                        catalog=catalog,
                        restrictions=restrictions if tables is None else None,
                    )
                )


@asynccontextmanager
async def catalog_without_sessions(
    settings: Settings, reader: ReaderPool, tables: Path | None, metalakes: Metalakes | None = None
) -> AsyncIterator[Catalog]:
    if tables is not None:
        yield StaticCatalog.load(tables)
        return
    async with asking(settings, reader, metalakes) as (_, catalog):
        yield catalog


@asynccontextmanager
async def asking(
    settings: Settings, reader: ReaderPool, metalakes: Metalakes | None = None
) -> AsyncIterator[tuple[Queries, LiveCatalog]]:
    """Ask the Spark of the settings, and its catalog, without sessions."""
    upstream = _upstream(settings, reader.configuration, metalakes)
    queries = upstream.queries()
    catalog = make_catalog(settings, queries, reader, metalakes)
    try:
        await upstream.ask()
        yield queries, catalog
    finally:
        await catalog.close()
        await queries.close()
        await upstream.close()


def _upstream(settings: Settings, reader: ParserConfiguration, metalakes: Metalakes | None) -> Upstream:
    backend, catalogs = settings.backend, make_catalogs(settings, metalakes)
    if backend.thrift is None and backend.connect is not None:
        require_connect()
        from gateway.app.connect import connect_backend

        spark = connect_backend(
            backend.connect,
            backend.connect_timeout_s,
            reader=reader,
            catalogs=catalogs.of_sessions,
            catalog_logins=catalogs.log_in,
            named_catalogs=settings.named_catalogs,
            user_tokens=make_user_tokens(settings, backend, catalogs.hide),
        )
        return Upstream(thrift=None, connect=spark, host=spark.host, port=spark.port)
    host, port = _connect_to_spark(backend)
    thrift = make_backend(
        backend,
        host,
        port,
        reader=reader,
        catalogs=catalogs,
        named_catalogs=settings.named_catalogs,
        user_tokens=make_user_tokens(settings, backend, catalogs.hide),
    )
    return Upstream(thrift=thrift, connect=None, host=host, port=port)


def _connect_to_spark(settings: BackendSettings) -> tuple[str, int]:
    if settings.thrift is not None:
        return settings.thrift.host, settings.thrift.port
    if settings.embedded is not None:
        from gateway.backends.embedded_spark import HOST, find_running  # optional

        port = find_running(settings.embedded.directory)
        if port is not None:
            return HOST, port
    raise BackendUnavailable(
        "the embedded Spark is not running, so its catalog cannot be read; start the gateway, or pass a "
        "file of tables with --tables"
    )
