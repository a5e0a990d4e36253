"""Sources of files, as the settings have them, before Spark and PostgreSQL."""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import asyncpg
import structlog

from gateway.app.explaining import own_places
from gateway.app.upstream import Queries
from gateway.backends.unprivileged import run_as, state_place
from gateway.catalog.live import Owners
from gateway.database.connections import open_connection
from gateway.database.migrate import migrate
from gateway.errors import BackendUnavailable
from gateway.files import store
from gateway.files.keeping import Keeper
from gateway.files.listening import Listening
from gateway.files.promotion import Connect, Promoter
from gateway.files.refreshing import Refreshing
from gateway.files.tables import is_at
from gateway.files.taken import ChangingCatalog, TakenPlaces
from gateway.files.walking import Walking
from gateway.model.catalog import Table, TableName
from gateway.model.decision import Decision
from gateway.model.files import SESSION_CATALOG
from gateway.model.principal import Principal, user_of
from gateway.policy.authors import NOBODY
from gateway.session.audit_records import Stamp, build_promoted, format_time, new_id
from gateway.session.ports import BackendError, Catalog, Ledger
from gateway.settings.metalakes import SET
from gateway.settings.models import Settings
from gateway.settings.section import Secret
from gateway.sources.metalakes import MetalakeState

log = structlog.get_logger(__name__)

_PLACE = re.compile(r"/|(?!https?:|thrift:|jdbc:|jceks:)[A-Za-z][A-Za-z0-9+.-]*:/", re.IGNORECASE)
_ROOT = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://[^/]*)?/*")
_KEY_OF_PLACE = re.compile(r"warehouse|location|(?:^|[.-])(?<!staging-)(?:dir|path|root)(?:$|[.-])")
_KEY_OF_WHOLE = re.compile(r"warehouse|location")
"""Parameters that may be the whole of a store; `fs.defaultFS` only names one."""


def _build_connector(dsn: str) -> Connect:
    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        try:
            connection = await open_connection(dsn, "sluice-files")
        except (OSError, asyncpg.PostgresError, TimeoutError):
            raise BackendUnavailable("datasets are stored in PostgreSQL, which does not answer") from None
        try:
            await migrate(connection)
            yield connection
        finally:
            await connection.close()

    return connect


def dataset_owners(
    settings: Settings, dsn: str, others: Owners, user: Callable[[str], Principal | None]
) -> Owners:
    """Return who says whose a table is: one of files is whoever's promoted it, whatever Spark says, and not
    of who was added under that name since; `others` tells of all else, `user` who has a name. Without
    PostgreSQL it is nobody's, and so is a table that took a dataset's name and has other files, and one whose
    promotion has not come to its end."""
    databases = {source.database for source in settings.file_sources()}
    connect = _build_connector(dsn)

    async def owner(table: Table) -> str | None:
        name = table.name.fold()
        if name.catalog != SESSION_CATALOG or name.database not in databases:
            return await others(table)
        try:
            with store.answering():
                async with connect() as connection:
                    row = await store.find_finished(connection, name)
        except BackendUnavailable as error:
            log.warning("owner_not_told", table=str(table.name), trouble=str(error))
            return None
        if row is None or not is_at(table.location, row["url"]):
            return None
        promoter = str(row["promoted_by"])
        now = user(user_of(promoter))
        return user_of(promoter) if now is None or now.identity == promoter else NOBODY

    return owner


def make_refreshing(
    settings: Settings, queries: Queries, catalog: ChangingCatalog, dsn: str
) -> Refreshing | None:
    """Return who looks at tables of files again by himself, None where no source wants that."""
    sources = settings.file_sources()
    if not any(source.refresh_s for source in sources):
        return None
    keeper = Keeper(sources, queries.query, refusal=BackendError, catalog=catalog)
    return Refreshing(sources, keeper, Walking(queries.query, BackendError), _build_connector(dsn))


def make_listening(settings: Settings, catalog: Catalog, dsn: str) -> Listening:
    """Return who hears of tables of files that other gateways make and forget."""
    return Listening(settings.file_sources(), catalog, _build_connector(dsn))


def make_promotion(
    settings: Settings,
    queries: Queries,
    catalog: ChangingCatalog,
    dsn: str,
    *,
    ledger: Ledger | None,
    gateway: str,
    metalakes: Callable[[], Iterable[MetalakeState]] = tuple,
    elsewhere: Callable[[str], Awaitable[str | None]] | None = None,
) -> Promoter | None:
    """Return who makes tables of files, None where the settings have no sources. `gateway`: its name in the
    record. Without a `ledger`, as before a command of the operator's, PostgreSQL alone keeps who and when.
    `metalakes`: how each is doing, whose catalogs have their warehouses for themselves. `elsewhere` says what
    other metastores have at a URL."""
    sources = settings.file_sources()
    if not sources:
        return None

    async def record(principal: Principal, table: TableName, url: str, decisions: Sequence[Decision]) -> None:
        if ledger is None:
            return
        now = time.time_ns()
        await ledger.record_decided(
            build_promoted(
                Stamp(new_id(now // 1_000_000, os.urandom(10)), format_time(now // 1_000), gateway),
                principal,
                table=str(table),
                url=url,
                decisions=decisions,
            )
        )

    return Promoter(
        sources,
        queries.query,
        refusal=BackendError,
        catalog=catalog,
        connect=_build_connector(dsn),
        record=record,
        reserved=partial(list_reserved_urls, list_fixed_urls(settings), metalakes),
        elsewhere=elsewhere,
    )


def make_places(
    settings: Settings,
    queries: Queries,
    catalog: ChangingCatalog,
    metalakes: Callable[[], Iterable[MetalakeState]] = tuple,
) -> TakenPlaces:
    """Return who says whose tables the files at a path are. Raises Faults."""
    reserved = partial(list_reserved_urls, list_fixed_urls(settings), metalakes)
    return TakenPlaces(queries.query, refusal=BackendError, catalog=catalog, reserved=reserved)


def list_reserved_urls(fixed: Iterable[str], metalakes: Callable[[], Iterable[MetalakeState]]) -> list[str]:
    """Return the URLs of what becomes nobody's table: those that the settings fix, and the places of the
    catalogs that metalakes have now."""
    states = list(metalakes())
    told = [one.parameters for state in states for one in state.catalogs]
    told += [one for state in states for one in state.properties]
    return [*fixed, *dict.fromkeys(url for one in told for url in places_of_catalog(one))]


def list_fixed_urls(settings: Settings) -> Sequence[str]:
    """Return those of them that do not change: checkpoints, what the gateway and its own servers keep,
    its policies and users, and the warehouses of catalogs, whose tables are theirs to name. Raises Faults."""
    checkpoints, others = own_places(settings)
    found = [one.url for one in (checkpoints, *others) if one is not None]
    ledger, embedded = settings.ledger, settings.backend.embedded
    kept = [ledger.directory, settings.users.file, *settings.policies.paths]
    servers = [ledger.embedded.directory, *([embedded.directory] if embedded is not None else ())]
    kept += [place for one in servers for place in (one, state_place(one, run_as()))]
    found += [f"file:{path.absolute()}" for path in kept]
    for entry in settings.catalogs:
        parameters = dict(_plain(entry.catalog.connection_params))
        if entry.catalog.kind.lists:
            # Those that are told of its catalogs; the others say how a metalake is asked.
            parameters = {k[len(SET) :]: v for k, v in parameters.items() if k.lower().startswith(SET)}
        if entry.on_spark or entry.catalog.kind.lists:
            found += places_of_catalog(parameters)
    return found


def _plain(parameters: Mapping[str, str | Secret]) -> Iterator[tuple[str, str]]:
    for key, value in parameters.items():
        if isinstance(value, str):
            yield key, value
        elif _KEY_OF_PLACE.search(key.lower()):
            yield key, value.reveal()


def places_of_catalog(parameters: Mapping[str, str]) -> Iterator[str]:
    """Yield the URLs among a catalog's parameters where it may keep tables: its warehouse, however that is
    called, and what else is a directory, or lies in a store. That it has no tables in some of them does no
    harm: they are nobody's files."""
    for key, value in parameters.items():
        folded = key.lower()
        # Of REST catalogs a warehouse is a name, and no place.
        if not _PLACE.match(value) or folded.startswith(("header.", "rest.", "http-client.")):
            continue
        if _ROOT.fullmatch(value):
            is_place = _KEY_OF_WHOLE.search(folded) is not None
        else:
            # Other paths without a scheme are those of keys and certificates.
            is_place = not value.startswith("/") or _KEY_OF_PLACE.search(folded) is not None
        if is_place:
            yield value
