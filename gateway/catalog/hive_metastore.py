"""Hive's metastore by its Thrift interface: binary protocol, without frames, several addresses.

Messages are not framed, so that only a decoder knows where one ends: a call runs in a thread, over a socket
with a deadline for every read. A question that is lost is asked again at the next address. What changes
something goes over a connection of its own and is told once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar, cast
from urllib.parse import urlsplit

from thrift.protocol.TBinaryProtocol import (  # type: ignore[import-untyped, unused-ignore]
    TBinaryProtocolAccelerated,
)
from thrift.Thrift import TException, TMessageType  # type: ignore[import-untyped, unused-ignore]
from thrift.transport.TSocket import TSocket  # type: ignore[import-untyped, unused-ignore]
from thrift.transport.TTransport import (  # type: ignore[import-untyped, unused-ignore]
    TBufferedTransport,
    TTransportException,
)

from gateway.catalog import hive_structs as hive
from gateway.catalog.readable import (
    CatalogRefused,
    CatalogUnavailable,
    DatabaseAlreadyExists,
    DatabaseEntry,
    DatabaseNotEmpty,
    FunctionEntry,
    NoSuchDatabase,
    NoSuchFunction,
    NoSuchTable,
    TableEntry,
)
from gateway.catalog.types import NotUnderstood, normalize_ddl
from gateway.errors import Faults
from gateway.model.catalog import Column, TableKind, quote
from gateway.wire.thrift import Struct

T = TypeVar("T")
R = TypeVar("R", bound=Struct)
MAX_BYTES = 64 * 1024 * 1024
"""Longest text or list of an answer."""
_LOST = (
    OSError, EOFError, TException, ValueError, TypeError, RecursionError, SystemError, OverflowError,
)  # fmt: skip
"""What an exchange can end with that is no answer."""
_VIEW = "VIRTUAL_VIEW"
_TABLE_TYPES = ("MANAGED_TABLE", "EXTERNAL_TABLE")
_SCHEMA = "spark.sql.sources.schema"
"""Where Spark keeps the columns of its own tables, as JSON, where Hive's types cannot say them."""


class HiveMetastoreCatalog:
    """See WritableCatalog. The metastore keeps names in lower case."""

    def __init__(self, uris: str, *, timeout_s: float = 30.0) -> None:
        """`uris`: `thrift://host:port`, several with commas. Raises Faults for another form."""
        self._addresses = [_address(uri) for uri in uris.split(",")]
        self._timeout_s = timeout_s
        self._preferred = 0
        self._connection: tuple[Any, Any] | None = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await self._call("get_all_databases", hive.NoArguments(), hive.NamesResult)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._drop()

    async def databases(self) -> Sequence[str]:
        return await self._names("get_all_databases", hive.NoArguments())

    async def database(self, name: str) -> DatabaseEntry:
        result = await self._call("get_database", hive.NameArguments(name=name), hive.DatabaseResult)
        found = result.success
        if found is None:
            if result.missing is None:
                raise _build_error(result.failed)
            raise NoSuchDatabase(f"database `{name}` does not exist")
        return DatabaseEntry(
            name=found.name or name,
            comment=found.description,
            owner=found.ownerName,
            location=found.locationUri,
            properties=found.parameters or {},
        )

    async def tables(self, database: str) -> Sequence[str]:
        await self.database(database)
        found: list[str] = []
        for kind in _TABLE_TYPES:
            found += await self._names("get_tables_by_type", _of_type(database, kind))
        return sorted(found)

    async def views(self, database: str) -> Sequence[str]:
        await self.database(database)
        return await self._names("get_tables_by_type", _of_type(database, _VIEW))

    async def table(self, database: str, name: str) -> TableEntry:
        request = hive.TableRequest(dbName=database, tblName=name)
        result = await self._call("get_table_req", hive.TableArguments(req=request), hive.TableResult)
        if result.success is None or result.success.table is None:
            if result.missing is None:
                raise _build_error(result.failed)
            raise NoSuchTable(f"table `{database}.{name}` does not exist")
        return _entry(database, name, result.success.table)

    async def functions(self, database: str) -> Sequence[str]:
        await self.database(database)
        return await self._names("get_functions", hive.FunctionsArguments(dbName=database, pattern="*"))

    async def function(self, database: str, name: str) -> FunctionEntry:
        await self.database(database)
        asked = hive.FunctionArguments(dbName=database, funcName=name)
        result = await self._call("get_function", asked, hive.FunctionResult)
        found = result.success
        if found is None:
            if result.missing is None:
                raise _build_error(result.failed)
            raise NoSuchFunction(f"function `{database}.{name}` does not exist")
        return FunctionEntry(
            database=database,
            name=found.functionName or name,
            class_name=found.className,
            owner=found.ownerName,
        )

    async def create_database(self, name: str) -> None:
        made = hive.Database(name=name, parameters={})
        done = await self._tell("create_database", hive.DatabaseArguments(database=made))
        if done.first is not None:
            raise DatabaseAlreadyExists(f"database `{name}` already exists")
        if done.failure is not None:
            raise _build_refusal(done.failure)

    async def drop_database(self, name: str) -> None:
        # Metastores fail at the name of one that is not there, before they look.
        await self.database(name)
        arguments = hive.DropDatabaseArguments(name=name, deleteData=True, cascade=False)
        done = await self._tell("drop_database", arguments)
        if done.first is not None:
            raise NoSuchDatabase(f"database `{name}` does not exist")
        if done.second is not None:
            raise DatabaseNotEmpty(f"the database `{name}` is not empty")
        if done.failure is not None:
            raise _build_refusal(done.failure)

    async def _tell(self, method: str, arguments: Struct) -> hive.Done:
        """Change something, once: a call that was lost on its way may have been done."""
        async with self._turn:
            said: list[str] = []
            for _ in self._addresses:
                host, port = self._addresses[self._preferred]
                self._drop()
                try:
                    await self._whole(self._connect)
                except (OSError, TTransportException) as error:
                    said.append(f"{host}:{port}: {type(error).__name__}")
                    self._preferred = (self._preferred + 1) % len(self._addresses)
                    continue
                try:
                    return await self._whole(lambda: self._exchange(method, arguments, hive.Done))
                except _LOST as error:
                    self._drop()
                    raise CatalogUnavailable(
                        f"{host}:{port} did not answer `{method}` ({type(error).__name__}): the change may "
                        "or may not have been made"
                    ) from None
            raise CatalogUnavailable(f"no Hive metastore answers ({', '.join(said)})")

    async def _names(self, method: str, arguments: Struct) -> Sequence[str]:
        result = await self._call(method, arguments, hive.NamesResult)
        if result.success is None:
            raise _build_error(result.failed or result.missing or result.unknown)
        return sorted(result.success)

    async def _call(self, method: str, arguments: Struct, answer: type[R]) -> R:
        async with self._turn:
            said: list[str] = []
            # Once more than there are addresses: a kept connection may have been closed while it was idle.
            for _ in range(len(self._addresses) + (self._connection is not None)):
                host, port = self._addresses[self._preferred]
                try:
                    return await self._whole(lambda: self._exchange(method, arguments, answer))
                except (OSError, EOFError, TTransportException) as error:
                    kept = self._connection is not None
                    said.append(f"{host}:{port}: {type(error).__name__}")
                    self._drop()
                    if not kept:
                        self._preferred = (self._preferred + 1) % len(self._addresses)
                except (TException, ValueError, TypeError, RecursionError, SystemError, OverflowError):
                    self._drop()
                    raise CatalogUnavailable(f"{host}:{port} does not answer as a Hive metastore") from None
            raise CatalogUnavailable(f"no Hive metastore answers ({', '.join(said)})")

    async def _whole(self, exchange: Callable[[], T]) -> T:
        """Run an exchange in a thread. Who is cancelled meanwhile leaves no half-read answer to the next."""
        try:
            return await asyncio.to_thread(exchange)
        except asyncio.CancelledError:
            self._drop()
            raise

    def _exchange(self, method: str, arguments: Struct, answer: type[R]) -> R:
        transport, protocol = self._connection or self._connect()
        protocol.writeMessageBegin(method, TMessageType.CALL, 0)
        transport.write(protocol._fast_encode(arguments, [type(arguments), type(arguments).thrift_spec]))
        protocol.writeMessageEnd()
        transport.flush()
        _, kind, _ = protocol.readMessageBegin()
        value: Any = hive.MetastoreFailure() if kind == TMessageType.EXCEPTION else answer()
        protocol._fast_decode(value, protocol, [type(value), type(value).thrift_spec])
        protocol.readMessageEnd()
        if kind == TMessageType.EXCEPTION:
            raise TException("the metastore does not support the call, or failed")
        return cast("R", value)

    def _connect(self) -> tuple[Any, Any]:
        host, port = self._addresses[self._preferred]
        socket = TSocket(host, port)
        socket.setTimeout(int(self._timeout_s * 1000))
        transport = TBufferedTransport(socket)
        transport.open()
        protocol = TBinaryProtocolAccelerated(
            transport, fallback=False, string_length_limit=MAX_BYTES, container_length_limit=MAX_BYTES
        )
        self._connection = (transport, protocol)
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection[0].close()


def _address(uri: str) -> tuple[str, int]:
    try:
        parts = urlsplit(uri.strip())
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError:
        scheme, host, port = "", None, None
    if not host or not port or scheme != "thrift":
        raise Faults([f"`{uri.strip()}` is not a metastore address such as `thrift://host:9083`"])
    return host, port


def _of_type(database: str, kind: str) -> hive.TablesArguments:
    return hive.TablesArguments(db_name=database, pattern=".*", tableType=kind)


def _build_error(failure: hive.MetastoreFailure | None) -> CatalogUnavailable:
    said = " ".join((failure.message or "").split())[:200] if failure is not None else ""
    return CatalogUnavailable(f"the Hive metastore failed{': ' + said if said else ''}")


def _build_refusal(failure: hive.MetastoreFailure) -> CatalogRefused:
    said = " ".join((failure.message or "").split())[:200]
    return CatalogRefused(f"the Hive metastore refuses{': ' + said if said else ''}")


def _entry(database: str, name: str, table: hive.HiveTable) -> TableEntry:
    told = table.parameters or {}
    keys = table.partitionKeys or []
    storage = table.sd
    own = _spark_columns(told)
    listed = [*(storage.cols or [] if storage is not None else []), *keys]
    columns = own or tuple(
        Column(name=c.name or "", type=_type(c.type or ""), comment=c.comment) for c in listed
    )
    rows = told.get("spark.sql.statistics.numRows", told.get("numRows", ""))
    is_view = table.tableType == _VIEW
    return TableEntry(
        database=table.dbName or database,
        name=table.tableName or name,
        kind=TableKind.VIEW if is_view else TableKind.TABLE,
        columns=columns,
        partitioning=tuple(key.name or "" for key in keys) or _read_numbered(told, _SCHEMA, "part"),
        owner=table.owner,
        comment=told.get("comment"),
        provider=told.get("spark.sql.sources.provider"),
        location=storage.location if storage is not None else None,
        text=table.viewOriginalText if is_view else None,
        properties=told,
        rows=int(rows) if rows.isdigit() else None,
    )


def _type(text: str) -> str:
    try:
        return normalize_ddl(text)
    except NotUnderstood:
        return text


def _read_numbered(told: Mapping[str, str], prefix: str, kind: str) -> tuple[str, ...]:
    count = told.get(f"{prefix}.num{kind.capitalize()}Cols", "")
    found = (told.get(f"{prefix}.{kind}Col.{index}") for index in range(int(count) if count.isdigit() else 0))
    return tuple(one for one in found if one is not None)


def _spark_columns(told: Mapping[str, str]) -> tuple[Column, ...]:
    """Return the columns that Spark wrote down itself; none when it did not."""
    parts = told.get(f"{_SCHEMA}.numParts", "")
    text = told.get(_SCHEMA)
    if text is None and parts.isdigit() and int(parts) <= 100_000:
        text = "".join(told.get(f"{_SCHEMA}.part.{index}", "") for index in range(int(parts)))
    if not text:
        return ()
    try:
        fields = json.loads(text)["fields"]
        return tuple(
            Column(
                name=str(one["name"]),
                type=_json_type(one["type"]),
                comment=(one.get("metadata") or {}).get("comment"),
            )
            for one in fields
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CatalogUnavailable("a table whose Spark schema is stored in an unknown form") from None


def _json_type(told: Any) -> str:
    if isinstance(told, str):
        return {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}.get(told, told)
    match told["type"]:
        case "array":
            return f"array<{_json_type(told['elementType'])}>"
        case "map":
            return f"map<{_json_type(told['keyType'])},{_json_type(told['valueType'])}>"
        case "struct":
            fields = (f"{quote(str(one['name']))}:{_json_type(one['type'])}" for one in told["fields"])
            return f"struct<{','.join(fields)}>"
        case "udt":
            return _json_type(told["sqlType"])
    raise ValueError(told["type"])
