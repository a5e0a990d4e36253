"""Metadata calls, answered from the catalog: only what the principal may know of, in HiveServer2's schemas.

Nothing of a call reaches Spark but names that the catalog looks up. Patterns are JDBC's.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

from gateway.errors import LimitExceeded
from gateway.model.catalog import Column, TableName, split_name
from gateway.model.resource import Resource
from gateway.session.answers import SQL_FUNCTION, Visible, one_name
from gateway.session.operation import LocalRows, ResultColumn
from gateway.session.ports import Catalog

_Row = Sequence[object]
ReadDeclaredTypes = Callable[[str, str | None], Awaitable[Mapping[tuple[str, str], str]]]
"""Tells of a table of Spark's own catalog, or of all of a database, the types of columns that are, or may
hold, CHAR(n) and VARCHAR(n)."""
_SPARKS_OWN = "spark_catalog"
_MAY_HAVE_LENGTHS = re.compile(r"string$|(array|map|struct)<")
VisibleTables = Callable[[Resource, Sequence[str]], bytes]
"""Says of a database's tables which may be known of: 1 or 0 for each, in their order."""


def _columns(*described: tuple[str, str, str]) -> tuple[ResultColumn, ...]:
    return tuple(ResultColumn(name, type_, comment) for name, type_, comment in described)


CATALOGS = _columns(("TABLE_CAT", "string", "Name of the catalog"))
SCHEMAS = _columns(
    ("TABLE_SCHEM", "string", "Name of the schema"), ("TABLE_CATALOG", "string", "Its catalog")
)
TABLE_TYPES = _columns(("TABLE_TYPE", "string", "TABLE or VIEW"))
TABLES = _columns(
    ("TABLE_CAT", "string", "Catalog"),
    ("TABLE_SCHEM", "string", "Schema"),
    ("TABLE_NAME", "string", "Table"),
    ("TABLE_TYPE", "string", "TABLE or VIEW"),
    ("REMARKS", "string", "Comment on the table"),
    ("TYPE_CAT", "string", "Not used"),
    ("TYPE_SCHEM", "string", "Not used"),
    ("TYPE_NAME", "string", "Not used"),
    ("SELF_REFERENCING_COL_NAME", "string", "Not used"),
    ("REF_GENERATION", "string", "Not used"),
)
COLUMNS = _columns(
    ("TABLE_CAT", "string", "Catalog"),
    ("TABLE_SCHEM", "string", "Schema"),
    ("TABLE_NAME", "string", "Table"),
    ("COLUMN_NAME", "string", "Column"),
    ("DATA_TYPE", "int", "Number of the type in java.sql.Types"),
    ("TYPE_NAME", "string", "Type as Spark writes it"),
    ("COLUMN_SIZE", "int", "Characters, or digits of a number"),
    ("BUFFER_LENGTH", "tinyint", "Not used"),
    ("DECIMAL_DIGITS", "int", "Digits after the point"),
    ("NUM_PREC_RADIX", "int", "10 or 2"),
    ("NULLABLE", "int", "1: may be null"),
    ("REMARKS", "string", "Comment on the column"),
    ("COLUMN_DEF", "string", "Default value"),
    ("SQL_DATA_TYPE", "int", "Not used"),
    ("SQL_DATETIME_SUB", "int", "Not used"),
    ("CHAR_OCTET_LENGTH", "int", "Bytes of a text"),
    ("ORDINAL_POSITION", "int", "Position in the table, from 1"),
    ("IS_NULLABLE", "string", "YES, NO or nothing"),
    ("SCOPE_CATALOG", "string", "Not used"),
    ("SCOPE_SCHEMA", "string", "Not used"),
    ("SCOPE_TABLE", "string", "Not used"),
    ("SOURCE_DATA_TYPE", "smallint", "Not used"),
    ("IS_AUTO_INCREMENT", "string", "NO"),
)
FUNCTIONS = _columns(
    ("FUNCTION_CAT", "string", "Catalog"),
    ("FUNCTION_SCHEM", "string", "Schema"),
    ("FUNCTION_NAME", "string", "Function"),
    ("REMARKS", "string", "Comment on the function"),
    ("FUNCTION_TYPE", "int", "0: not known, 1: a value, 2: a table"),
    ("SPECIFIC_NAME", "string", "Name that is unique in the schema"),
)
TYPE_INFO = _columns(
    ("TYPE_NAME", "string", "Type"),
    ("DATA_TYPE", "int", "Number of the type in java.sql.Types"),
    ("PRECISION", "int", "Most digits or characters"),
    ("LITERAL_PREFIX", "string", "What stands before a literal"),
    ("LITERAL_SUFFIX", "string", "What stands after a literal"),
    ("CREATE_PARAMS", "string", "Parameters of the type"),
    ("NULLABLE", "smallint", "1: may be null"),
    ("CASE_SENSITIVE", "boolean", "Whether case matters"),
    ("SEARCHABLE", "smallint", "3: in every predicate"),
    ("UNSIGNED_ATTRIBUTE", "boolean", "Whether it has no sign"),
    ("FIXED_PREC_SCALE", "boolean", "Whether it is a money type"),
    ("AUTO_INCREMENT", "boolean", "Whether it can count by itself"),
    ("LOCAL_TYPE_NAME", "string", "Not used"),
    ("MINIMUM_SCALE", "smallint", "Fewest digits after the point"),
    ("MAXIMUM_SCALE", "smallint", "Most digits after the point"),
    ("SQL_DATA_TYPE", "int", "Not used"),
    ("SQL_DATETIME_SUB", "int", "Not used"),
    ("NUM_PREC_RADIX", "int", "10 or 2"),
)
PRIMARY_KEYS = _columns(
    ("TABLE_CAT", "string", "Catalog"),
    ("TABLE_SCHEM", "string", "Schema"),
    ("TABLE_NAME", "string", "Table"),
    ("COLUMN_NAME", "string", "Column"),
    ("KEY_SEQ", "int", "Position in the key"),
    ("PK_NAME", "string", "Name of the key"),
)
CROSS_REFERENCE = _columns(
    ("PKTABLE_CAT", "string", "Catalog of the parent"),
    ("PKTABLE_SCHEM", "string", "Schema of the parent"),
    ("PKTABLE_NAME", "string", "Parent table"),
    ("PKCOLUMN_NAME", "string", "Column of the parent"),
    ("FKTABLE_CAT", "string", "Catalog of the child"),
    ("FKTABLE_SCHEM", "string", "Schema of the child"),
    ("FKTABLE_NAME", "string", "Child table"),
    ("FKCOLUMN_NAME", "string", "Column of the child"),
    # Hive's own spelling; its drivers look columns up by position.
    ("KEQ_SEQ", "int", "Position in the key"),
    ("UPDATE_RULE", "int", "What an update of the parent does"),
    ("DELETE_RULE", "int", "What a deletion of the parent does"),
    ("FK_NAME", "string", "Name of the foreign key"),
    ("PK_NAME", "string", "Name of the parent's key"),
    ("DEFERRABILITY", "int", "When it is checked"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patterns:
    """What a metadata call narrows its answer to; None does not narrow."""

    catalog: str | None = None
    schema: str | None = None
    table: str | None = None
    column: str | None = None

    def list_given_arguments(self, types: Sequence[str] | None = None) -> dict[str, str]:
        """Return the arguments that were given, for the audit record."""
        given = {"catalog": self.catalog, "schema": self.schema, "table": self.table, "column": self.column}
        found = {name: value for name, value in given.items() if value is not None}
        return found | {"types": ",".join(types)} if types else found


class Metadata:
    """Answers for one principal: `visible` says what they may know of, `visible_tables` of all tables of a
    database at once."""

    def __init__(
        self,
        catalog: Catalog,
        visible: Visible,
        visible_tables: VisibleTables,
        read_declared_types: ReadDeclaredTypes,
        *,
        max_rows: int,
        lookup_batch: int,
    ) -> None:
        self._read_declared_types = read_declared_types
        self._catalog = catalog
        self._visible = visible
        self._visible_tables = visible_tables
        self._max_rows = max_rows
        self._lookup_batch = lookup_batch

    async def catalogs(self) -> LocalRows:
        return LocalRows([(name,) for name in self._catalogs(None)], CATALOGS)

    async def schemas(self, wanted: Patterns) -> LocalRows:
        rows = [(database, catalog) async for catalog, database in self._databases(wanted)]
        return LocalRows(sorted(rows, key=lambda row: (row[1], row[0])), SCHEMAS)

    async def table_types(self) -> LocalRows:
        return LocalRows([("TABLE",), ("VIEW",)], TABLE_TYPES)

    async def tables(
        self, wanted: Patterns, types: Sequence[str] | None, temp_views: Sequence[str]
    ) -> LocalRows:
        """List tables and views; `types` as JDBC has them (TABLE, VIEW), none or an empty list: all.

        The session's temporary views have neither catalog nor schema and come unless a schema is asked for.
        """
        kinds = {_kind(type_) for type_ in types} if types else {"TABLE", "VIEW"}
        rows: list[_Row] = []
        async for name, is_view in self._tables(wanted):
            kind = "VIEW" if is_view else "TABLE"
            if kind in kinds:
                self._append(rows, (name.catalog, name.database, name.table, kind, "", *[None] * 5))
        if "VIEW" in kinds and (is_everything(wanted.schema)):
            matches = matcher(wanted.table)
            rows += [("", "", v, "VIEW", "", *[None] * 5) for v in sorted(temp_views) if matches(v)]
        return LocalRows(rows, TABLES)

    async def columns(self, wanted: Patterns) -> LocalRows:
        """List columns that the principal may use, in the tables' order."""
        matches = matcher(wanted.column)
        rows: list[_Row] = []
        batch: list[TableName] = []
        declared = _DeclaredTypes(self._read_declared_types)
        async for name, _ in self._tables(wanted):
            batch.append(name)
            if len(batch) >= self._lookup_batch:
                await self._columns_of(batch, matches, rows, declared)
                batch = []
        await self._columns_of(batch, matches, rows, declared)
        return LocalRows(rows, COLUMNS)

    async def _columns_of(
        self,
        names: Sequence[TableName],
        matches: Callable[[str], bool],
        rows: list[_Row],
        declared: _DeclaredTypes,
    ) -> None:
        snapshot = self._catalog.snapshot
        unknown = [name for name in names if not snapshot.knows(name)]
        if unknown:
            snapshot = await self._catalog.look_up(unknown)
        for name in names:
            table = snapshot.table(name)
            if table is None:
                continue
            resource = Resource.table(name.catalog, name.database, name.table, table.owner)
            position = 0
            for column in table.columns:
                if not self._visible(resource.child("column", column.name)):
                    continue
                # Positions count what may be seen: a gap would tell that something is hidden.
                position += 1
                if not matches(column.name):
                    continue
                type_ = describe(await declared.type_of(name, column, alone=len(names) == 1))
                octets = type_.size if type_.number in (1, 12) else None
                self._append(
                    rows,
                    (name.catalog, name.database, name.table, column.name, type_.number, type_.name,
                     type_.size, None, type_.digits, type_.radix, 1, column.comment or "", None, None, None,
                     octets, position, "YES", None, None, None, None, "NO"),
                )  # fmt: skip

    def _catalogs(self, pattern: str | None) -> list[str]:
        matches = matcher(pattern)
        return [
            name
            for name in sorted(self._catalog.snapshot.catalogs)
            if matches(name) and self._visible(Resource.catalog(name))
        ]

    async def _databases(self, wanted: Patterns) -> AsyncIterator[tuple[str, str]]:
        matches = matcher(wanted.schema)
        for catalog in self._catalogs(wanted.catalog):
            for database in sorted(await self._catalog.databases(catalog)):
                if matches(database) and self._visible(Resource.database(catalog, database)):
                    yield catalog, database

    async def _tables(self, wanted: Patterns) -> AsyncIterator[tuple[TableName, bool]]:
        matches = matcher(wanted.table)
        async for catalog, database in self._databases(wanted):
            listed = sorted(await self._catalog.list_tables(catalog, database))
            if is_everything(wanted.table):
                names = [table for table, _ in listed]
                visible = self._visible_tables(Resource.database(catalog, database), names)
            else:
                # Few are asked for: nothing is worked out, or remembered, for all the others.
                visible = bytes(
                    matches(table) and self._visible(Resource.table(catalog, database, table))
                    for table, _ in listed
                )
            for table, is_view in compress(listed, visible):
                yield TableName(catalog, database, table), is_view
            # Of long lists others have their turn.
            await asyncio.sleep(0)

    def _append(self, rows: list[_Row], row: _Row) -> None:
        if len(rows) >= self._max_rows:
            raise LimitExceeded(f"the answer has more than {self._max_rows} rows; narrow the pattern")
        rows.append(row)


class _DeclaredTypes:
    """The types of columns as they were declared: what describes a table tells STRING of CHAR(n)."""

    def __init__(self, read_declared_types: ReadDeclaredTypes) -> None:
        self._ask = read_declared_types
        self._known: dict[tuple[str, str | None], Mapping[tuple[str, str], str]] = {}

    async def type_of(self, name: TableName, column: Column, *, alone: bool) -> str:
        """Return the type of a column; `alone`: its table is the only one that is asked about."""
        if name.catalog.lower() != _SPARKS_OWN or not _MAY_HAVE_LENGTHS.match(column.type.lower()):
            return column.type
        asked = name.database, name.table if alone else None
        if asked not in self._known:
            self._known[asked] = await self._ask(*asked)
        return self._known[asked].get((name.table.lower(), column.name.lower()), column.type)


def _kind(type_: str) -> str:
    """Return TABLE or VIEW for what a driver calls a type of table."""
    word = type_.strip().upper()
    return {"MANAGED_TABLE": "TABLE", "EXTERNAL_TABLE": "TABLE", "BASE TABLE": "TABLE",
            "VIRTUAL_VIEW": "VIEW"}.get(word, word)  # fmt: skip


def function_rows(
    names: Sequence[str],
    schema: str | None,
    function: str | None,
    described: Mapping[str, tuple[str, str]],
) -> LocalRows:
    """Turn the filtered rows of SHOW FUNCTIONS into those of GetFunctions.

    Built-in functions have no schema: they come unless one is asked for. `described`: Spark's remarks on each
    of them, and its class, by which it is told apart.
    """
    in_schema, matches = matcher(schema), matcher(function)
    any_schema = is_everything(schema)
    rows: list[_Row] = []
    for name in names:
        parts = split_name(name)
        catalog = parts[0] if len(parts) > 2 else ""
        database = one_name(parts[1:-1] if catalog else parts[:-1]) or ""
        if (in_schema(database) if database else any_schema) and matches(parts[-1]):
            remarks, specific = "", name
            if not database:
                remarks, specific = described.get(name.lower(), (remarks, specific))
            if SQL_FUNCTION in remarks:  # RULE (temporary-function-remarks)
                remarks = ""  # its text, of whichever session
            rows.append((catalog, database, parts[-1], remarks, 0, specific))
    return LocalRows(rows, FUNCTIONS)


def type_info() -> LocalRows:
    return LocalRows(type_info_rows(), TYPE_INFO)


def primary_keys() -> LocalRows:
    """Return no rows: Spark has no keys that a driver could rely on, and an error stops tools."""
    return LocalRows([], PRIMARY_KEYS)


def cross_reference() -> LocalRows:
    """Return no rows, as for primary keys."""
    return LocalRows([], CROSS_REFERENCE)


# -- JDBC's search patterns: `%` any run, `_` any one character, a backslash before either means itself.
# And `|` between two of them, and `*` for any run, as Spark and Hive have it. Never a regular expression of
# the client's: Spark hands `.*` to one, which is how a pattern that was checked as text matches more than it
# says.

MAX_PATTERN_CHARS = 1024


def is_everything(pattern: str | None) -> bool:
    """Whether the pattern does not narrow: None, nothing, `%`, and what drivers for Hive say instead, `*`
    (Hive's own wildcard) and `.*` (impyla)."""
    return pattern is None or pattern in ("", "%", "*", ".*")


def matcher(pattern: str | None) -> Callable[[str], bool]:
    """Return whether a name matches the pattern, case being insignificant."""
    if pattern is None or is_everything(pattern):
        return lambda name: True
    if len(pattern) > MAX_PATTERN_CHARS:
        return lambda name: False
    # `a|b` is either to Spark, and a name with such a line in it is itself.
    either = "|".join(map(_translate, (pattern, *pattern.split("|"))))
    compiled = re.compile(either, re.IGNORECASE | re.DOTALL)
    return lambda name: compiled.fullmatch(name) is not None


def _translate(pattern: str) -> str:
    written: list[str] = []
    escaped = False
    for character in pattern:
        if escaped:
            if character not in "%_\\":
                # A backslash before anything else is a backslash.
                written.append(r"\\")
            written.append(re.escape(character))
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in "%*":
            # Runs collapse: `%%%%…a` would make matching exponential.
            if not written or written[-1] != ".*":
                written.append(".*")
        elif character == "_":
            written.append(".")
        else:
            written.append(re.escape(character))
    if escaped:
        written.append(r"\\")
    return "".join(written)


# Spark's types as JDBC and ODBC describe them: the columns of GetColumns and the rows of GetTypeInfo.
# Numbers are those of java.sql.Types; sizes follow Hive's TypeDescriptor, which drivers for Hive expect.


_LONGEST = 2**31 - 1
_DECLARED = re.compile(r"^(\w+)\s*(?:\((\d+)(?:\s*,\s*(\d+))?\))?")


@dataclass(frozen=True, slots=True)
class JdbcType:
    """How a column's type is described; None where the question does not apply."""

    name: str
    number: int
    size: int | None
    digits: int | None
    radix: int | None


@dataclass(frozen=True, slots=True)
class _TypeKind:
    number: int
    size: int | None = None
    digits: int | None = None
    radix: int | None = None


_KINDS = {
    "VOID": _TypeKind(0),
    "BOOLEAN": _TypeKind(16, 1),
    "TINYINT": _TypeKind(-6, 3, 0, 10),
    "SMALLINT": _TypeKind(5, 5, 0, 10),
    "INT": _TypeKind(4, 10, 0, 10),
    "BIGINT": _TypeKind(-5, 19, 0, 10),
    "FLOAT": _TypeKind(6, 7, 7, 10),
    "DOUBLE": _TypeKind(8, 15, 15, 10),
    "STRING": _TypeKind(12, _LONGEST),
    "CHAR": _TypeKind(1),
    "VARCHAR": _TypeKind(12),
    "BINARY": _TypeKind(-2, _LONGEST),
    "DATE": _TypeKind(91, 10),
    "TIMESTAMP": _TypeKind(93, 29, 9),
    "TIMESTAMP_NTZ": _TypeKind(93, 29, 9),
    "TIMESTAMP_LTZ": _TypeKind(93, 29, 9),
    "DECIMAL": _TypeKind(3, 10, 0, 10),
    "INTERVAL": _TypeKind(1111),
    "ARRAY": _TypeKind(2003),
    "MAP": _TypeKind(2000),
    "STRUCT": _TypeKind(2002),
    "VARIANT": _TypeKind(1111),
}
_SYNONYMS = {"INTEGER": "INT", "LONG": "BIGINT", "SHORT": "SMALLINT", "BYTE": "TINYINT", "REAL": "FLOAT",
             "DEC": "DECIMAL", "NUMERIC": "DECIMAL", "CHARACTER": "CHAR"}  # fmt: skip


def describe(declared: str) -> JdbcType:
    """Describe a type as DDL writes it; one that is not known is OTHER (1111) under its own name."""
    found = _DECLARED.match(declared)
    word = found.group(1).upper() if found else ""
    word = _SYNONYMS.get(word, word)
    kind = _KINDS.get(word, _TypeKind(1111))
    nested = word in ("ARRAY", "MAP", "STRUCT")
    name = word + declared[len(found.group(1)) :] if found and nested else declared.upper()
    size, digits = kind.size, kind.digits
    if found and found.group(2):
        if word == "DECIMAL":
            size, digits = int(found.group(2)), int(found.group(3) or 0)
        elif word in ("CHAR", "VARCHAR"):
            size = int(found.group(2))
    return JdbcType(name, kind.number, size, digits, kind.radix)


_NULLABLE, _SEARCHABLE, _NOT_SEARCHABLE = 1, 3, 0


def type_info_rows() -> list[tuple[object, ...]]:
    """Return the rows of GetTypeInfo in Spark's order and with Spark's values."""
    #        name, java.sql.Types, precision, radix
    types: list[tuple[str, int, int | None, int | None]] = [
        ("VOID", 0, None, None),
        ("BOOLEAN", 16, None, None),
        ("STRING", 12, None, None),
        ("BINARY", -2, None, None),
        ("TINYINT", -6, 3, 10),
        ("SMALLINT", 5, 5, 10),
        ("INT", 4, 10, 10),
        ("BIGINT", -5, 19, 10),
        ("FLOAT", 6, 7, 2),
        ("DOUBLE", 8, 15, 2),
        ("DECIMAL", 3, 38, 10),
        ("DATE", 91, 10, None),
        ("TIMESTAMP", 93, 29, None),
        ("ARRAY", 2003, None, None),
        ("MAP", 2000, None, None),
        ("STRUCT", 2002, None, None),
        ("CHAR", 1, None, None),
        ("VARCHAR", 12, None, None),
        ("INTERVAL_YEAR_MONTH", 1111, None, None),
        ("INTERVAL_DAY_TIME", 1111, None, None),
    ]
    rows: list[tuple[object, ...]] = []
    for name, number, precision, radix in types:
        nested = name in ("ARRAY", "MAP", "STRUCT")
        numeric = radix is not None
        searchable = _NOT_SEARCHABLE if nested else _SEARCHABLE
        case_sensitive, unsigned = name == "STRING", not numeric
        rows.append(
            (name, number, precision, None, None, None, _NULLABLE, case_sensitive, searchable, unsigned,
             False, False, None, 0, 0, None, None, radix)
        )  # fmt: skip
    return rows
