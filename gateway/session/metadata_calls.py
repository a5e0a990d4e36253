"""Which metadata call is answered by what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from gateway.errors import InvalidRequest
from gateway.session import metadata
from gateway.session.dependencies import Dependencies
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
            partial(self._texts_of_length, session),
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
                described = await self._describe_functions(session)
                return metadata.function_rows(names, patterns.schema, patterns.table, described)
            case "GetTypeInfo":
                return metadata.type_info()
            case "GetPrimaryKeys":
                return metadata.primary_keys()
            case "GetCrossReference":
                return metadata.cross_reference()
            case _:
                raise InvalidRequest(f"{call} is not a metadata call")

    async def _texts_of_length(
        self, session: Session, database: str, table: str | None
    ) -> Mapping[tuple[str, str], str]:
        async with session.lock:
            session.require_open()
            try:
                return await session.backend.texts_of_length(
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
