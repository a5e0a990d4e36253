"""Files become a table when somebody who may first names it.

All that is asked of Spark is a fixed template around names that `model/files.py` lets through. Of all
gateways one at a time makes a table: PostgreSQL has the lock.

A promotion can be cut anywhere: the gateway is killed, the statement cancelled, Spark or PostgreSQL lost
while Spark makes the table. So it is kept that it began, from before Spark is asked until the table is saved
or known not to be there; a table of a promotion that began and has not ended is nobody's, and is made anew by
whoever promotes it next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import asyncpg
import structlog

from gateway.errors import BackendUnavailable, Faults
from gateway.files import store
from gateway.files.keeping import Keeper, NotTheirs
from gateway.files.looking import Looking, Nothing, UnfitFiles, signature
from gateway.files.tables import OtherFiles, Tables, is_at
from gateway.files.taken import ChangingCatalog, LocationNotReported, RunQuery, Taken, TakenPlaces, answers
from gateway.files.unlinked import Unlinked
from gateway.model.catalog import TableName
from gateway.model.decision import Decision
from gateway.model.files import FileSource, NotPromoted, source_of
from gateway.model.principal import Principal
from gateway.model.resource import Resource
from gateway.model.statement import DatasetAction
from gateway.session.ports import UserRights

log = structlog.get_logger(__name__)

Connect = Callable[[], AbstractAsyncContextManager[Any]]
RecordPromotion = Callable[[Principal, TableName, str, Sequence[Decision]], Awaitable[None]]
"""Puts on record that files, by their URL, are about to become a table; returns when that is durable."""

PROMOTE, READ = "promote", "read"


class Promoter:
    """Makes tables of files that are named for the first time."""

    def __init__(
        self,
        sources: Sequence[FileSource],
        query: RunQuery,
        *,
        refusal: type[Exception],
        catalog: ChangingCatalog,
        connect: Connect,
        record: RecordPromotion,
        reserved: Callable[[], Iterable[str]] = tuple,
        elsewhere: Callable[[str], Awaitable[str | None]] | None = None,
        timeout_s: float = 300.0,
    ) -> None:
        """`query` runs a statement in a session of the gateway's own, and in it one `before` and one `after`
        it; it raises `refusal` (with `sqlstate`) where Spark refuses. `connect` lends a connection to
        PostgreSQL. `record` may raise LedgerUnavailable: then nothing is made. `reserved` tells
        the URLs of directories of which no table is made now, `elsewhere` why none is made of a URL that
        Spark itself knows nothing of."""
        self._elsewhere = elsewhere
        self._sources = tuple(sources)
        self._catalog = catalog
        self._connect = connect
        self._record = record
        self._refusal = refusal
        self._timeout_s = timeout_s
        self._here = WeakValueDictionary[TableName, asyncio.Lock]()
        """Names that this gateway is at: who waits for one has no connection to PostgreSQL yet."""
        self._looking = Looking(query, refusal)
        self._unlinked = Unlinked()
        self._keeper = Keeper(sources, query, refusal=refusal, catalog=catalog, timeout_s=timeout_s)
        self._tables = Tables(query, refusal=refusal, catalog=catalog)
        self._taken = TakenPlaces(query, refusal=refusal, catalog=catalog, reserved=reserved)

    def covers(self, name: TableName) -> bool:
        """Whether the name of a table stands for files of a source."""
        return source_of(self._sources, name) is not None

    def looks_through(self, name: TableName) -> bool:
        """Whether the files of a table are looked through for links before each statement: local ones."""
        found = source_of(self._sources, name)
        return found is not None and found[0].is_local

    async def trouble(self, name: TableName, location: str | None) -> str | None:
        """Say why the files of a table may not be read as they are now: a link among local ones leads out, or
        nobody looks through them where the table lies."""
        found = source_of(self._sources, name)
        if found is None:
            return None
        source, path = found
        why: str | None
        # RULE (local-file-elsewhere)
        if location is not None and source.is_local and not is_at(location, source.url(path)):
            why = "its table has the files of another directory; forget it and name it again"
        else:
            why = await self._unlinked.trouble(source, path)
        if why is None:
            return None
        return f"`{'/'.join(path)}` of source `{source.name}` cannot be read: {why}"

    async def is_unfinished(self, name: TableName) -> bool:
        """Whether a promotion of the name began and has not ended, so that its table, should Spark have one,
        is none yet; False where PostgreSQL does not tell."""
        try:
            with store.answering():
                async with self._connect() as connection:
                    began = await store.find_unfinished_promotion_url(connection, name) is not None
        except BackendUnavailable:
            return False
        if began:
            self._catalog.invalidate([name], [])
        return began

    async def promote(
        self,
        name: TableName,
        principal: Principal,
        rights: UserRights,
        *,
        asked: bool = False,
    ) -> NotPromoted | None:
        """Make a table of the files that `name` stands for, if they are there and, where its source does not
        do that by itself, it is `asked` to. One that is there stays, unless its promotion was cut, or it is
        `asked` for and no promotion made it.

        `rights` are asked before anything is looked at. Returns why they cannot become one, or
        may not at this user's word; None when the name may be looked up again. Raises BackendUnavailable when
        Spark or PostgreSQL does not answer.
        """
        found = source_of(self._sources, name)
        if found is None:
            return None
        source, path = found
        # Before anything is looked at: who may not is told the same, whatever is there.
        wanted = (
            (_resource(name), PROMOTE),
            (Resource.url(source.url(path)), READ),
        )
        decisions = tuple(rights.decide(resource, access) for resource, access in wanted)
        if not all(decision.allowed for decision in decisions):
            told_ = (
                f"user {principal.user} may not create a table from files of source `{source.name}`; this "
                "needs "
            )
            told_ += f"`{PROMOTE}` on `{name}` and `{READ}` on its path"
            return NotPromoted(code="ACCESS_DENIED", sqlstate="42501", message=told_, decisions=decisions)
        if _guards_escaped(source, path, name, rights):
            return NotPromoted(
                code="ACCESS_DENIED",
                sqlstate="42501",
                message=f"`{'/'.join(path)}` of source `{source.name}` cannot become a table: policies "
                "mask, filter or deny a directory above it, or something inside it, but not the "
                "directory itself",
                decisions=decisions,
            )
        if not (asked or source.auto_promote):
            return NotPromoted(
                code="NOT_GOVERNABLE",
                sqlstate="0A000",
                message=f"`{'/'.join(path)}` of source `{source.name}` is not a table yet; create it with "
                "ALTER TABLE … PROMOTE METADATA or `sluice datasets promote`",
                decisions=decisions,
            )
        if asked:
            with store.answering():
                if await self._not_promoted(name) is None:
                    return None
        # INVARIANT (audit first): whoever had Spark make a table is on record before Spark is asked.
        await self._record(principal, name, source.url(path), decisions)
        try:
            async with asyncio.timeout(self._timeout_s):
                with store.answering():
                    await self._promote(source, path, name, principal, rights, asked=asked)
        except Nothing:
            return None
        except UnfitFiles as why:
            return NotPromoted(
                code="NOT_GOVERNABLE",
                sqlstate="0A000",
                message=f"`{'/'.join(path)}` of source `{source.name}` cannot become a table: {why}",
                decisions=decisions,
            )
        except self._refusal as refused:
            raise BackendUnavailable(f"Spark did not release its metadata of `{name}`") from refused
        except TimeoutError:
            raise BackendUnavailable("files could not be promoted in time") from None
        finally:
            self._catalog.invalidate([name], [])
        return None

    async def maintain_dataset(
        self, action: DatasetAction, name: TableName, principal: Principal
    ) -> str | None:
        """Look at the files of a table again, or forget them; return why that could not be done, or how many
        columns differ that the table was not given. What was to be promoted is a table by now, or nothing."""
        try:
            with store.answering():
                return await self._tend(action, name, principal)
        except Faults as why:
            return "; ".join(why.faults)

    async def _tend(self, action: DatasetAction, name: TableName, principal: Principal) -> str | None:
        if action == "promote":
            return await self._not_promoted(name)
        may = partial(self._require_own, name, principal)
        if action == "forget":
            await self._keeper.forget(self._connect(), name, may)
            return None
        found = await self._keeper.refresh(self._connect(), name, may)
        if found.is_applied:
            return None
        return (
            f"the files of `{name}` have changed: {len(found.drift)} differences in format and columns, "
            "which `sluice datasets refresh` lists; its source does not set `schema_learning`"
        )

    async def _not_promoted(self, name: TableName) -> str | None:
        """Say why files are no table, None when they are one."""
        self._catalog.invalidate([name], [])
        table = (await self._catalog.look_up([name])).table(name)
        if table is None:
            return f"there are no files to create `{name}` from"
        async with self._connect() as connection:
            row = await store.find_finished(connection, name)
        if row is not None and is_at(table.location, row["url"]):
            return None
        return f"`{name}` already exists and was not created from files"

    def _require_own(self, name: TableName, principal: Principal, promoted_by: str) -> None:
        """Raise NotTheirs where the source is closed and the table another's: who could forget it could
        promote it next, and have it for his own."""
        found = source_of(self._sources, name)
        if found is None or not found[0].closed or found[0].administrators & principal.groups:
            return
        if promoted_by != principal.identity:
            raise NotTheirs(
                [
                    f"source `{found[0].name}` is closed: only the user who promoted `{name}`, its "
                    "administrators and `sluice datasets` may refresh or forget it"
                ]
            )

    async def _promote(
        self,
        source: FileSource,
        path: tuple[str, ...],
        name: TableName,
        principal: Principal,
        rights: UserRights,
        *,
        asked: bool,
    ) -> None:
        await self._looking.refuse_links(source, path)
        url = source.url(path)
        async with (
            self._here.setdefault(name.fold(), asyncio.Lock()),
            self._connect() as connection,
            store.only_one(connection, name),
        ):
            # Who waited for another finds its table here.
            self._catalog.invalidate([name], [])
            is_there = (await self._catalog.look_up([name])).table(name) is not None
            left = await store.find_unfinished_promotion_url(connection, name)
            was_cut = left is not None
            if is_there and not was_cut and (not asked or await store.find(connection, name) is not None):
                return
            if is_there:
                try:
                    await self._tables.is_there(name, left or url)
                except OtherFiles as other:
                    # Somebody else's, who had the name after all.
                    await store.end(connection, name)
                    raise _other(other) from None
            files = await self._looking.files(source, path)
            await self._begin(connection, source, path, name, principal, rights)
            asks = False
            try:
                found, _ = await answers(
                    self._looking.format(files, source, url),
                    self._refuse_taken(source, url, name, rights),
                )
                like = files.find_schema_file(url, found)
                asks = True
                if is_there:
                    # Nobody knows what it is: the promotion that made it never came to say.
                    await self._tables.drop(name, left or url)
                table = await self._tables.make(source, name, url, found, like=like)
            except BaseException as fault:
                # Spark may have the table, now or later, unless it never was asked for it, or says so.
                if isinstance(fault, UnfitFiles | OtherFiles) if asks else not was_cut:
                    with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                        await store.end(connection, name)
                if isinstance(fault, OtherFiles):
                    raise _other(fault) from None
                raise
            await store.save(
                connection,
                store.PromotedFiles(
                    source=source.name,
                    path="/".join(path),
                    table=name,
                    url=url,
                    format=found.name,
                    options=found.options,
                    columns=[(column.name, column.type) for column in table.columns],
                    files=files.count,
                    bytes=files.bytes,
                    signature=signature(files.kinds),
                    promoted_by=principal.identity,
                ),
            )
        log.info("dataset_promoted", source=source.name, format=found.name, files=files.count)

    async def _begin(
        self,
        connection: Any,
        source: FileSource,
        path: tuple[str, ...],
        name: TableName,
        principal: Principal,
        rights: UserRights,
    ) -> None:
        """Keep the place of a table that is about to be made. Raises UnfitFiles where another has it."""
        # INVARIANT (one name): from here on nobody else begins a table of what this one overlaps.
        url = source.url(path)
        async with store.only_one_place(connection):
            # One that is saved meanwhile is among those that began: these are read first.
            began = await store.list_unfinished_promotions(connection)
            datasets = [*await store.datasets(connection), *began]
            try:
                found = await self._taken.find_kept_overlap(url, name, datasets)
            except LocationNotReported as whose:
                raise _build_unknown_location_error(source, name, whose) from None
            if found is not None:
                raise _explain_refused(source, name, found, rights)
            await store.begin(connection, source.name, "/".join(path), name, url, principal.user)

    async def _refuse_taken(self, source: FileSource, url: str, name: TableName, rights: UserRights) -> None:
        """Refuse what shares files with a table or a database of Spark's session catalog."""
        try:
            found = await self._taken.find_overlap(url, name)
        except LocationNotReported as whose:
            raise _build_unknown_location_error(source, name, whose) from None
        if found is not None:
            raise _explain_refused(source, name, found, rights)
        # RULE (files-of-another-metastore)
        if self._elsewhere is not None and (why := await self._elsewhere(url)):
            raise UnfitFiles(why)


def _other(found: OtherFiles) -> UnfitFiles:
    return UnfitFiles(f"a table of this name already exists that was not created from it: {found}")


def _build_unknown_location_error(
    source: FileSource, name: TableName, whose: LocationNotReported
) -> UnfitFiles:
    log.warning("dataset_places_unknown", source=source.name, table=str(name), of=str(whose))
    return UnfitFiles("the locations of all other tables are unknown")


def _explain_refused(source: FileSource, name: TableName, found: Taken, rights: UserRights) -> UnfitFiles:
    log.info("dataset_place_taken", source=source.name, table=str(name), by=str(found.table or found.url))
    return UnfitFiles(_of_another(found, rights))


def _guards_escaped(source: FileSource, path: tuple[str, ...], name: TableName, rights: UserRights) -> bool:
    """Say whether somebody may see more by this name than by that of a directory above, or of what is below.

    Whether there is a table of the other name does not matter: policies are written before it is there.
    """
    own = _resource(name)
    above = (_resource(source.table(path[:depth])) for depth in range(1, len(path)))
    below = _resource(TableName(name.catalog, name.database, f"{name.table}__"))
    return any(rights.guards_escaped(own, one) for one in above) or rights.guards_escaped(
        own, below, beginning=True
    )


def _resource(name: TableName) -> Resource:
    return Resource.table(name.catalog, name.database, name.table)


def _of_another(taken: Taken, rights: UserRights) -> str:
    """Say whose the files are, where the user may read that table; of others not even that they are there."""
    table = taken.table
    if table is None or not rights.decide(_resource(table), "select").allowed:
        return "it shares files with another table or database, or with the gateway's own directories"
    return f"it shares files with the table `{table}`; use that table"
