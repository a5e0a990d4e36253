"""Datasets after they were made: looked at again, and forgotten. The files stay where they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import structlog

from gateway.errors import BackendUnavailable, Faults
from gateway.files import store
from gateway.files.formats import DELTA
from gateway.files.looking import DEEP, Looking, Nothing, UnfitFiles, signature
from gateway.files.tables import OtherFiles, Tables, require_columns
from gateway.files.taken import RunQuery
from gateway.model.catalog import TableName
from gateway.model.files import FileSource, source_of
from gateway.session.ports import Catalog

log = structlog.get_logger(__name__)

Columns = Sequence[tuple[str, str]]
_CUT_SHORT = " more fields"
"""In a type that Spark did not write out."""

May = Callable[[str], None]
"""Raises NotTheirs where somebody may not look at what that user promoted, or forget it."""


class NotTheirs(Faults):
    """A dataset is another's."""


def allow_anybody(_: str) -> None:
    """Let an operator's own commands and walks through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """Changes to a dataset's files since it was made or last refreshed."""

    files: tuple[int, int]
    """How many there were and are."""
    bytes: tuple[int, int]
    is_changed: bool
    """Whether paths, sizes or times differ."""
    drift: tuple[str, ...] = ()
    """How format and columns differ, a line each, such as `+ name int`."""
    is_applied: bool = False
    """Whether the table is as the files are now."""


class Keeper:
    """Looks after datasets. Raises Faults for what cannot be done, BackendUnavailable when Spark or
    PostgreSQL does not answer."""

    def __init__(
        self,
        sources: Sequence[FileSource],
        query: RunQuery,
        *,
        refusal: type[Exception],
        catalog: Catalog,
        timeout_s: float = 300.0,
    ) -> None:
        self._sources = tuple(sources)
        self._refusal = refusal
        self._looking = Looking(query, refusal)
        self._tables = Tables(query, refusal=refusal, catalog=catalog)
        self._timeout_s = timeout_s

    async def refresh(
        self, connection: AbstractAsyncContextManager[Any], name: TableName, may: May = allow_anybody
    ) -> Refreshed:
        """Look at the files again. Where their columns or their format have changed, the table is made anew
        if its source learns schemas; if it does not, nothing is changed, and it is told again next time.
        What was found is kept with the dataset."""
        with store.answering():
            async with connection as lent:
                return await self._and_kept(lent, name, may)

    async def _and_kept(self, lent: Any, name: TableName, may: May) -> Refreshed:
        try:
            found = await self._look_at(lent, name, may)
        except NotTheirs:
            raise
        except Faults as why:
            await store.record_look(lent, name, "; ".join(why.faults))
            raise
        await store.record_look(lent, name, "" if found.is_applied else "; ".join(found.drift))
        return found

    async def _look_at(self, lent: Any, name: TableName, may: May) -> Refreshed:
        async with store.only_one(lent, name):
            row = await _load_dataset(lent, name)
            may(row["promoted_by"])
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await self._refresh(lent, name, row)
            except Nothing:
                raise Faults([f"the files of `{name}` are gone"]) from None
            except UnfitFiles as why:
                raise Faults([f"the files of `{name}` can no longer be a table: {why}"]) from None
            except OtherFiles as other:
                raise Faults([_other_files(name, row["url"], other)]) from None
            except self._refusal:
                raise Faults([f"Spark cannot drop `{name}`"]) from None
            except TimeoutError:
                raise BackendUnavailable("files could not be checked in time") from None

    async def forget(
        self, connection: AbstractAsyncContextManager[Any], name: TableName, may: May = allow_anybody
    ) -> None:
        """Drop the table and what is kept of it, also where its promotion was cut: that one is nobody's."""
        with store.answering():
            async with connection as lent, store.only_one(lent, name):
                url = await store.find_unfinished_promotion_url(lent, name)
                if url is None:
                    row = await _load_dataset(lent, name)
                    may(row["promoted_by"])
                    url = row["url"]
                try:
                    await self._tables.drop(name, url)
                except OtherFiles as other:
                    await store.end(lent, name)
                    raise Faults([_other_files(name, url, other)]) from None
                except self._refusal:
                    raise Faults([f"Spark cannot drop `{name}`"]) from None
                await store.forget(lent, name)
        log.info("dataset_forgotten", table=str(name))

    async def _refresh(self, connection: Any, name: TableName, row: Mapping[str, Any]) -> Refreshed:
        found = source_of(self._sources, name)
        if found is None or found[0].url(found[1]) != row["url"]:
            raise Faults([f"no source in the settings contains the files of `{name}`"])
        source, path = found
        await self._looking.refuse_links(source, path)
        options = json.loads(row["options"])
        files = await self._looking.files(source, path, deep=DEEP in options)
        if not await self._tables.is_there(name, row["url"]):
            raise Faults([f"table `{name}` was dropped; it is created again when it is named"])
        now = signature(files.kinds)
        told = Refreshed(
            files=(row["files"], files.count),
            bytes=(row["bytes"], files.bytes),
            # Logs are hidden: that one came or went shows in no file that counts.
            is_changed=now != row["signature"] or (files.table is None) == (row["format"] == DELTA),
            is_applied=True,
        )
        if not told.is_changed:
            return told
        format_ = await self._looking.format(files, source, row["url"])
        saved = [(column["name"], column["type"]) for column in json.loads(row["columns"])]
        was = f"{row['format']} {options}"
        columns = await self._looking.columns(row["url"], format_)
        require_columns(source, [type_ for _, type_ in columns])
        drift = (
            *([f"~ format {was} → {format_.name} {dict(format_.options)}"] if _reads(row, format_) else ()),
            *drift_of(saved, columns),
        )
        # One of Delta has the columns of its log, whatever is kept of it here.
        has_them = format_.name == row["format"] == DELTA
        if drift and not (source.schema_learning or has_them):
            log.warning("dataset_drifted", table=str(name), differences=len(drift))
            return Refreshed(
                files=told.files, bytes=told.bytes, is_changed=True, drift=drift, is_applied=False
            )
        if has_them:
            saved = columns
        elif drift:
            await self._tables.drop(name, row["url"])
            table = await self._tables.make(source, name, row["url"], format_)
            saved = [(column.name, column.type) for column in table.columns]
        await store.renew(
            connection,
            name,
            format=format_.name,
            options=format_.options,
            columns=saved,
            files=told.files[1],
            bytes=told.bytes[1],
            signature=now,
        )
        log.info("dataset_refreshed", table=str(name), differences=len(drift))
        return Refreshed(files=told.files, bytes=told.bytes, is_changed=True, drift=drift, is_applied=True)


async def _load_dataset(connection: Any, name: TableName) -> Mapping[str, Any]:
    row = await store.find_finished(connection, name)
    if row is None and await store.find_unfinished_promotion_url(connection, name) is not None:
        raise Faults([f"the promotion of `{name}` was interrupted; it is repeated when the table is named"])
    if row is None:
        raise Faults([f"`{name}` is not a table made of files"])
    return row


def _reads(row: Mapping[str, Any], found: Any) -> bool:
    """Say whether the files are read otherwise than they were."""
    return bool(row["format"] != found.name or json.loads(row["options"]) != dict(found.options))


def _other_files(name: TableName, url: str, other: OtherFiles) -> str:
    return f"table `{name}` was not created from `{url}`: {other}; nothing was changed"


def drift_of(saved: Columns, now: Columns) -> tuple[str, ...]:
    """Return how columns differ, those that came, went and have another type. Raises UnfitFiles when that
    cannot be told."""
    if any(_CUT_SHORT in type_ for _, type_ in now):
        raise UnfitFiles("a column has more fields than Spark reports; forget the dataset and name it again")
    was = {name.lower(): (name, type_) for name, type_ in saved}
    becomes = {name.lower(): (name, type_) for name, type_ in now}
    came = [f"+ {name} {type_}" for key, (name, type_) in becomes.items() if key not in was]
    went = [f"- {name} {type_}" for key, (name, type_) in was.items() if key not in becomes]
    other = [
        f"~ {name} {was[key][1]} → {type_}"
        for key, (name, type_) in becomes.items()
        if key in was and _plain(was[key][1]) != _plain(type_)
    ]
    return (*came, *went, *other)


def _plain(type_: str) -> str:
    """Return a type as it is compared: spaces and quotes are written in more than one way."""
    return type_.replace(" ", "").replace("`", "").lower()
