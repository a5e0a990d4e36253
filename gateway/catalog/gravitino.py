"""A Gravitino server by its REST API: the catalogs of a metalake, and each of them as a readable catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from gateway.catalog.readable import (
    CatalogUnavailable,
    DatabaseEntry,
    NoSuchDatabase,
    NoSuchTable,
    TableEntry,
)
from gateway.catalog.rest import RestClient, RestError, RestLogin, items, mapping, properties, text
from gateway.catalog.types import quote as quoted
from gateway.model.catalog import Column

MEDIA_TYPE = "application/vnd.gravitino.v1+json"
RELATIONAL = "RELATIONAL"
_TYPES = {
    "boolean": "boolean", "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint",
    "float": "float", "double": "double", "date": "date", "timestamp": "timestamp_ntz",
    "timestamp_tz": "timestamp", "string": "string", "binary": "binary", "uuid": "string",
    "interval_year": "interval year to month", "interval_day": "interval day to second", "null": "void",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class GravitinoEntry:
    """A catalog of a metalake, as the server tells of it."""

    name: str
    type: str
    """`RELATIONAL`, or what else a metalake keeps: FILESET, MESSAGING, MODEL."""
    provider: str
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    in_use: bool = True


class GravitinoMetalake:
    """One metalake of a server. Raises CatalogUnavailable when it does not answer as documented."""

    def __init__(self, url: str, metalake: str, login: RestLogin) -> None:
        self._client = RestClient(url, login, accept=MEDIA_TYPE, told=_told)
        self._metalake = metalake

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    async def catalogs(self) -> Sequence[GravitinoEntry]:
        """Return all catalogs of every type, sorted by name."""
        try:
            answer = await self.ask("catalogs", {"details": "true"})
        except RestError as error:
            raise unavailable(error) from None
        found = (_catalog(mapping(one, "catalog")) for one in items(answer.get("catalogs"), "catalogs"))
        return sorted(found, key=lambda entry: entry.name)

    def catalog(self, name: str) -> GravitinoCatalog:
        """Return one of them; whether it is there is seen when it is asked."""
        return GravitinoCatalog(self, name)

    async def ask(self, path: str, query: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        """Return the answer to a question below the metalake. Raises RestError, CatalogUnavailable."""
        whole = f"api/metalakes/{quote(self._metalake, safe='')}/{path}"
        answer = mapping(await self._client.ask("GET", whole, query=query), "body")
        if answer.get("code") != 0:
            # An error with the status of a success.
            raise CatalogUnavailable("the server answers with an error without saying which")
        return answer


class GravitinoCatalog:
    """See ReadableCatalog. What opens the metalake closes it."""

    def __init__(self, metalake: GravitinoMetalake, name: str) -> None:
        self._metalake = metalake
        self._path = f"catalogs/{quote(name, safe='')}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def databases(self) -> Sequence[str]:
        try:
            return _names(await self._metalake.ask(f"{self._path}/schemas"))
        except RestError as error:
            raise unavailable(error) from None

    async def database(self, name: str) -> DatabaseEntry:
        try:
            answer = await self._metalake.ask(self._schema(name))
        except RestError as error:
            raise _missing(error, NoSuchDatabase(f"there is no database `{name}`")) from None
        schema = mapping(answer.get("schema"), "schema")
        told = properties(schema.get("properties"))
        return DatabaseEntry(
            name=text(schema.get("name"), "name"),
            comment=schema.get("comment"),
            owner=_creator(schema),
            location=told.get("location"),
            properties=told,
        )

    async def tables(self, database: str) -> Sequence[str]:
        try:
            return _names(await self._metalake.ask(f"{self._schema(database)}/tables"))
        except RestError as error:
            raise _missing(error, NoSuchDatabase(f"there is no database `{database}`")) from None

    async def views(self, database: str) -> Sequence[str]:
        await self.database(database)
        return ()

    async def table(self, database: str, name: str) -> TableEntry:
        try:
            path = f"{self._schema(database)}/tables/{quote(name, safe='')}"
            answer = await self._metalake.ask(path)
        except RestError as error:
            raise _missing(error, NoSuchTable(f"there is no table `{database}.{name}`")) from None
        table = mapping(answer.get("table"), "table")
        told = properties(table.get("properties"))
        columns = [mapping(one, "column") for one in items(table.get("columns"), "columns")]
        return TableEntry(
            database=database,
            name=text(table.get("name"), "name"),
            columns=tuple(
                Column(
                    name=text(c.get("name"), "name"), type=spark_type(c.get("type")), comment=c.get("comment")
                )
                for c in columns
            ),
            partitioning=tuple(
                _transform(mapping(p, "partitioning")) for p in table.get("partitioning") or ()
            ),
            owner=_creator(table),
            comment=table.get("comment"),
            provider=told.get("provider") or told.get("format"),
            location=told.get("location"),
            properties=told,
        )

    async def functions(self, database: str) -> Sequence[str]:
        await self.database(database)
        return ()

    def _schema(self, name: str) -> str:
        return f"{self._path}/schemas/{quote(name, safe='')}"


def spark_type(told: Any, depth: int = 0) -> str:
    """Return a type of Gravitino as DDL. Raises CatalogUnavailable where Spark has none."""
    if depth > 50:
        raise CatalogUnavailable("a type that nests too deep")
    if isinstance(told, str):
        plain = told.lower()
        if plain.startswith(("decimal(", "char(", "varchar(")):
            return plain.replace(" ", "")
        if plain.startswith(("timestamp_tz(", "timestamp(")):
            return _TYPES[plain.partition("(")[0]]
        if plain.startswith("fixed("):
            return "binary"
        found = _TYPES.get(plain)
        if found is None:
            raise CatalogUnavailable(f"the type `{told[:80]}` has none of Spark's")
        return found
    one = mapping(told, "type")
    match one.get("type"):
        case "struct":
            fields = [mapping(f, "field") for f in items(one.get("fields"), "fields")]
            named = ((text(f.get("name"), "name"), spark_type(f.get("type"), depth + 1)) for f in fields)
            return f"struct<{','.join(f'{quoted(name)}:{kind}' for name, kind in named)}>"
        case "list":
            return f"array<{spark_type(one.get('elementType'), depth + 1)}>"
        case "map":
            key, value = (spark_type(one.get(f"{side}Type"), depth + 1) for side in ("key", "value"))
            return f"map<{key},{value}>"
    raise CatalogUnavailable("a type that Spark does not have")


def unavailable(error: RestError) -> CatalogUnavailable:
    """Return what an error status of the server means where nothing else is known of it."""
    return CatalogUnavailable(f"the server answers with status {error.status}: {error.message}")


def _missing(error: RestError, missing: Exception) -> Exception:
    return missing if error.status == 404 else unavailable(error)


def _told(answer: Any) -> tuple[str, str]:
    return str(answer["type"]), str(answer["message"])


def _catalog(told: Mapping[str, Any]) -> GravitinoEntry:
    found = properties(told.get("properties"))
    return GravitinoEntry(
        name=text(told.get("name"), "name"),
        type=str(told.get("type") or "").upper(),
        provider=str(told.get("provider") or "").lower(),
        comment=told.get("comment"),
        properties=found,
        in_use=found.get("in-use", "true").lower() != "false",
    )


def _names(answer: Mapping[str, Any]) -> Sequence[str]:
    found = items(answer.get("identifiers"), "identifiers")
    return sorted(text(mapping(one, "identifier").get("name"), "name") for one in found)


def _creator(told: Mapping[str, Any]) -> str | None:
    audit = told.get("audit")
    creator = audit.get("creator") if isinstance(audit, dict) else None
    return creator if isinstance(creator, str) else None


def _transform(told: Mapping[str, Any]) -> str:
    fields = ", ".join(".".join(str(p) for p in one) for one in (told.get("fieldNames") or ()))
    name = ".".join(str(part) for part in told.get("fieldName") or ()) or fields
    strategy = str(told.get("strategy", ""))
    if strategy == "identity":
        return name
    width = told.get("numBuckets", told.get("width"))
    return f"{strategy}({name})" if width is None else f"{strategy}({width}, {name})"
