"""Which metadata call is answered by what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from gateway.errors import InvalidRequest
from gateway.model.catalog import levels, quote_parts
from gateway.model.files import SESSION_CATALOG
from gateway.session import metadata
from gateway.session.dependencies import Dependencies
from gateway.session.failures import StatementFailed, StatementRefused
from gateway.session.metadata import Metadata, Patterns
from gateway.session.operation import LocalRows, Session
from gateway.session.ports import BackendError
from gateway.session.results import Results

METADATA_CALLS = {
    "GetTypeInfo": 1,
    "GetCatalogs": 2,
    "GetSchemas": 3,
    "GetTables": 4,
    "GetTableTypes": 5,
    "GetColumns": 6,
    "GetFunctions": 7,
    "GetPrimaryKeys": 7,
    "GetCrossReference": 7,
}
"""Call → TOperationType of its handle; Hive gives keys the type of functions."""

MAX_DATABASES_OF_FUNCTIONS = 20
"""Of so many a call lists functions: each takes a statement."""


class MetadataCalls:
    """Answers metadata calls of sessions."""

    def __init__(self, results: Results, dependencies: Dependencies) -> None:
        self._results = results
        self._verdicts = dependencies.verdicts
        self._catalog = dependencies.catalog
        self._limits = dependencies.limits
        self._functions: Mapping[str, tuple[str, str]] = {}
        """What Spark says of its built-in functions, once it was asked: the same for everybody."""

    async def answer(
        self, session: Session, call: str, patterns: Patterns, types: Sequence[str] | None
    ) -> LocalRows:
        """Return the rows that the session's principal may know of."""
        listing = Metadata(
            self._catalog,
            self._verdicts.visible_to(session.principal_now, session.client),
            self._verdicts.visible_tables_to(session.principal_now, session.client),
            partial(self._read_declared_types, session),
            max_rows=self._limits.answer_rows,
            lookup_batch=self._limits.lookup_batch,
        )
        match call:
            case "GetCatalogs":
                return await listing.catalogs()
            case "GetSchemas":
                return await listing.schemas(patterns)
            case "GetTables":
                return await listing.tables(patterns, types, tuple(session.context.temp_views))
            case "GetTableTypes":
                return await listing.table_types()
            case "GetColumns":
                return await listing.columns(patterns)
            case "GetFunctions":
                # The catalog does not list functions: the session's own SHOW FUNCTIONS, judged and filtered.
                rows = await self._results.run_to_end(session, "SHOW ALL FUNCTIONS")
                names = [str(row[0]) for row in rows]
                if not metadata.is_everything(patterns.schema):
                    names += await self._list_functions_of_databases(session, listing, patterns)
                described = await self._describe_functions(session)
                names = list(dict.fromkeys(names))
                return metadata.function_rows(names, patterns.schema, patterns.table, described)
            case "GetTypeInfo":
                return metadata.type_info()
            case "GetPrimaryKeys":
                return metadata.primary_keys()
            case "GetCrossReference":
                return metadata.cross_reference()
            case _:
                raise InvalidRequest(f"{call} is not a metadata call")

    async def _list_functions_of_databases(
        self, session: Session, listing: Metadata, patterns: Patterns
    ) -> list[str]:
        """Return the functions that were made in databases of Spark's own catalog: `SHOW FUNCTIONS` has those
        of the session's own alone. Nothing where very many databases were asked for."""
        databases = (await listing.schemas(patterns)).rows
        own = [str(name) for name, catalog in databases if catalog == SESSION_CATALOG]
        found: list[str] = []
        for database in own if len(own) <= MAX_DATABASES_OF_FUNCTIONS else ():
            place = quote_parts((SESSION_CATALOG, *levels(database)))
            # Who may not list them has none.
            with suppress(StatementRefused, StatementFailed):
                rows = await self._results.run_to_end(session, f"SHOW USER FUNCTIONS IN {place}")
                found += [str(row[0]) for row in rows]
        return found

    async def _read_declared_types(
        self, session: Session, database: str, table: str | None
    ) -> Mapping[tuple[str, str], str]:
        async with session.lock:
            session.require_open()
            try:
                return await session.backend.read_declared_types(
                    database, table, max_rows=self._limits.answer_rows
                )
            except BackendError:
                return {}  # as what describes the tables has them

    async def _describe_functions(self, session: Session) -> Mapping[str, tuple[str, str]]:
        if not self._functions:
            async with session.lock:
                session.require_open()
                try:
                    self._functions = await session.backend.describe_functions()
                except BackendError:
                    return {}  # names are worth more than none
        return self._functions
