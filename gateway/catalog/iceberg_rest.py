"""An Iceberg REST catalog, by the core routes of Iceberg's REST specification.

Namespaces may be nested: their levels stand apart on the wire by what the server says, or 0x1F, and by dots
here. Lists come in pages. What the server's configuration says counts as it does for Iceberg's own client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from gateway.catalog.iceberg_client import IcebergRestClient
from gateway.catalog.iceberg_types import spark_type
from gateway.catalog.readable import (
    CatalogUnavailable,
    DatabaseAlreadyExists,
    DatabaseEntry,
    DatabaseNotEmpty,
    NoSuchDatabase,
    NoSuchTable,
    TableEntry,
    WithoutFunctions,
)
from gateway.catalog.rest import (
    CatalogError,
    build_lookup_error,
    items,
    properties,
    read_object,
    refusals,
    text,
    unavailable,
)
from gateway.model.catalog import Column, TableKind

PAGES = 10_000
"""Pages of one list that are asked for at most: a server that never ends a list must not hold us."""
LEVELS = 16
"""Levels of namespaces that are looked into."""


_NO_VIEWS = frozenset({400, 404, 405, 406, 501})
"""Statuses of a server without views that does not list its routes, as they were seen."""


class IcebergRestCatalog(IcebergRestClient, WithoutFunctions):
    """See WritableCatalog. A database is made below one that is there."""

    async def databases(self) -> Sequence[str]:
        found: list[str] = []
        await self._below((), found)
        return sorted(found)

    async def database(self, name: str) -> DatabaseEntry:
        try:
            answer = read_object(await self._ask("GET", self._namespace(name)), "namespace")
        except CatalogError as error:
            raise build_lookup_error(error, NoSuchDatabase(f"database `{name}` does not exist")) from None
        told = properties(answer.get("properties"))
        return DatabaseEntry(
            name=name,
            comment=told.get("comment"),
            owner=told.get("owner"),
            location=told.get("location"),
            properties=told,
        )

    async def tables(self, database: str) -> Sequence[str]:
        try:
            return await self._list_names(database, "tables")
        except CatalogError as error:
            raise build_lookup_error(error, NoSuchDatabase(f"database `{database}` does not exist")) from None

    async def views(self, database: str) -> Sequence[str]:
        if self._has_views:
            try:
                return await self._list_names(database, "views")
            except CatalogError as error:
                if error.status not in _NO_VIEWS:
                    raise unavailable(error) from None
        await self.database(database)
        return ()

    async def table(self, database: str, name: str) -> TableEntry:
        path = self._namespace(database)
        for route, kind in self._kinds():
            try:
                answer = await self._ask("GET", f"{path}/{route}/{quote(name, safe='')}")
            except CatalogError as error:
                if not _is_missing(route, error):
                    raise unavailable(error) from None
                continue
            metadata = read_object(read_object(answer, "table").get("metadata"), "metadata")
            return _entry(database, name, kind, metadata)
        raise NoSuchTable(f"table `{database}.{name}` does not exist")

    async def create_database(self, name: str) -> None:
        above = name.rpartition(".")[0]
        if above:
            await self.database(above)  # servers differ in whether they look
        missing = NoSuchDatabase(f"database `{above}` does not exist")
        with refusals(missing, DatabaseAlreadyExists(f"database `{name}` already exists")):
            body = {"namespace": name.split("."), "properties": {}}
            await self._client.ask("POST", self._route("namespaces"), body=body)

    async def drop_database(self, name: str) -> None:
        missing = NoSuchDatabase(f"database `{name}` does not exist")
        with refusals(missing, DatabaseNotEmpty(f"the database `{name}` is not empty")):
            await self._client.ask("DELETE", self._namespace(name))

    async def _below(self, parent: tuple[str, ...], found: list[str]) -> None:
        query = {"parent": self._separator.join(parent)} if parent else {}
        try:
            below = await self._pages(self._route("namespaces"), "namespaces", query)
        except CatalogError as error:
            raise unavailable(error) from None
        for levels in below:
            parts = tuple(text(level, "namespace") for level in items(levels, "namespace"))
            # A server that answers with what is no child would send us round and round.
            if parts[: len(parent)] != parent or len(parts) != len(parent) + 1:
                continue
            found.append(".".join(parts))
            if len(parts) < LEVELS:
                await self._below(parts, found)

    async def _list_names(self, database: str, route: str) -> Sequence[str]:
        found = await self._pages(f"{self._namespace(database)}/{route}", "identifiers", {})
        return sorted(text(read_object(one, "identifier").get("name"), "name") for one in found)

    async def _pages(self, path: str, key: str, query: Mapping[str, str]) -> list[Any]:
        found: list[Any] = []
        token = ""
        for _ in range(PAGES):
            answer = read_object(await self._ask("GET", path, {**query, "pageToken": token}), "list")
            found += items(answer.get(key), key)
            following = answer.get("next-page-token")
            if not following:
                return found
            token = text(following, "page token")
        raise CatalogUnavailable("a list that does not end")

    def _kinds(self) -> Iterator[tuple[str, TableKind]]:
        """Yield the routes of what may have the name of a table."""
        yield "tables", TableKind.TABLE
        if self._has_views:
            yield "views", TableKind.VIEW


def _is_missing(route: str, error: CatalogError) -> bool:
    return error.status == 404 or (route == "views" and error.status in _NO_VIEWS)


def _entry(database: str, name: str, kind: TableKind, metadata: Mapping[str, Any]) -> TableEntry:
    schemas = {
        read_object(s, "schema").get("schema-id", 0): s for s in items(metadata.get("schemas"), "schemas")
    }
    told = properties(metadata.get("properties"))
    version: Mapping[str, Any] = {}
    current = metadata.get("current-schema-id", 0)
    if kind is TableKind.VIEW:
        wanted = metadata.get("current-version-id")
        versions = items(metadata.get("versions"), "versions")
        version = next((read_object(v, "version") for v in versions if v.get("version-id") == wanted), {})
        current = version.get("schema-id", 0)
    if current not in schemas:
        raise CatalogUnavailable("a table without its schema")
    fields = [
        read_object(f, "field")
        for f in items(read_object(schemas[current], "schema").get("fields"), "fields")
    ]
    by_id = {one.get("id"): text(one.get("name"), "field") for one in fields}
    return TableEntry(
        database=database,
        name=name,
        kind=kind,
        columns=tuple(
            Column(
                name=text(one.get("name"), "field"), type=spark_type(one.get("type")), comment=one.get("doc")
            )
            for one in fields
        ),
        partitioning=_read_partitioning(metadata, by_id) if kind is TableKind.TABLE else (),
        owner=told.get("owner"),
        comment=told.get("comment"),
        provider="iceberg" if kind is TableKind.TABLE else None,
        location=metadata.get("location"),
        text=_sql(version),
        properties=told,
        rows=_rows(metadata),
    )


def _read_partitioning(metadata: Mapping[str, Any], names: Mapping[Any, str]) -> tuple[str, ...]:
    wanted = metadata.get("default-spec-id", 0)
    for spec in items(metadata.get("partition-specs", []), "partition specs"):
        if read_object(spec, "partition spec").get("spec-id") == wanted:
            return tuple(
                _transform(read_object(one, "partition field"), names) for one in spec.get("fields", [])
            )
    return ()


def _transform(one: Mapping[str, Any], names: Mapping[Any, str]) -> str:
    transform = str(one.get("transform", ""))
    name = names.get(one.get("source-id"), str(one.get("name", "")))
    if transform == "identity":
        return name
    if transform.endswith("]") and "[" in transform:
        function, _, width = transform[:-1].partition("[")
        return f"{function}({width}, {name})"
    return f"{transform}({name})"


def _sql(version: Mapping[str, Any]) -> str | None:
    said = [one for one in version.get("representations", ()) if isinstance(one, dict) and "sql" in one]
    spark = [one for one in said if one.get("dialect") == "spark"]
    return str((spark or said)[0]["sql"]) if said else None


def _rows(metadata: Mapping[str, Any]) -> int | None:
    wanted = metadata.get("current-snapshot-id")
    for snapshot in metadata.get("snapshots") or ():
        if isinstance(snapshot, dict) and snapshot.get("snapshot-id") == wanted:
            total = properties(snapshot.get("summary")).get("total-records", "")
            return int(total) if total.isdigit() else None
    return None
