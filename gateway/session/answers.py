"""Rows of answers that list names, without the names that the principal may not know of.

Pure functions over decoded rows. Whatever does not have the shape that Spark 4 gives the answer raises
UnknownShape: an answer that is not understood is not shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gateway.model.catalog import GLOBAL_TEMP, TableName, join_namespace, levels, split_name, unquote
from gateway.model.files import SESSION_CATALOG
from gateway.model.reading_settings import is_of_catalog, is_servers_own
from gateway.model.resource import Resource
from gateway.model.statement import AnswerFilter, AnswerRule
from gateway.session.create_statement import reduce_create_statement
from gateway.session.descriptions import (
    HARMLESS_DETAILS,
    HARMLESS_PROPERTIES,
    reduce_information,
    reduce_json,
    type_line,
)

_Row = Sequence[Any]
Visible = Callable[[Resource], bool]
"""Whether the principal may know of a resource; the policy engine's `visible` with the principal bound."""

NONE_DESCRIBED: Mapping[TableName, AnswerRule] = {}
_SCHEMA_LINE = re.compile(r"^ \|-- (.+?): ", re.MULTILINE)
"""A top-level column of the schema tree that SHOW TABLE EXTENDED prints."""


SQL_FUNCTION = '"sqlFunction.'
"""What the description of a SQL function has in it."""
_DETAILED = "# Detailed Table Information"


class UnknownShape(Exception):
    """The rows are not what Spark is known to answer; nothing of them may be shown."""


def list_extended_tables(rule: AnswerRule, rows: Sequence[_Row], visible: Visible) -> list[TableName]:
    """Return the tables and views in a list that tells more of them than their names: of these `filter_rows`
    has to be given what DESCRIBE would show. Raises UnknownShape."""
    if rule.filter is not AnswerFilter.TABLE_EXTENDED:
        return []
    return [
        _table(rule, row) for row in _wide(rows, 4) if not _flag(row[2]) and _sees_table(rule, row, visible)
    ]


def filter_rows(
    rule: AnswerRule,
    rows: Sequence[_Row],
    visible: Visible,
    described: Mapping[TableName, AnswerRule] = NONE_DESCRIBED,
) -> list[_Row]:
    """Return the rows that the principal may see, some with fields blanked. Raises UnknownShape.

    `described`: of the listed tables and views (folded), how an answer to DESCRIBE would be filtered.
    """
    match rule.filter:
        case AnswerFilter.RELAY:
            return list(rows)
        case AnswerFilter.CATALOGS:
            return [row for row in rows if visible(Resource.catalog(unquote(_text(row, 0, 1))))]
        case AnswerFilter.DATABASES:
            return _databases(rule, rows, visible)
        case AnswerFilter.TABLES | AnswerFilter.VIEWS:
            return [row for row in _wide(rows, 3) if _sees_table(rule, row, visible)]
        case AnswerFilter.TABLE_EXTENDED:
            return _tables_extended(rule, rows, visible, described)
        case AnswerFilter.TABLES_JSON:
            return [_tables_json(rule, row, visible) for row in _wide(rows, 1)]
        case AnswerFilter.COLUMNS:
            return [row for row in rows if _shows_column(rule, _text(row, 0, 1))]
        case AnswerFilter.FUNCTIONS:
            return [row for row in rows if _sees_function(rule, _text(row, 0, 1), visible)]
        case AnswerFilter.DESCRIBE_TABLE:
            return _describe(rule, rows)
        case AnswerFilter.DESCRIBE_JSON:
            return [_json(rule, row) for row in _wide(rows, 1)]
        case AnswerFilter.PROPERTIES:
            return [*_properties(rule, rows)]
        case AnswerFilter.CREATE_STATEMENT:
            return [_create_statement(rule, row) for row in _wide(rows, 1)]
        case AnswerFilter.SETTINGS:
            # `SET` has key and value, `SET -v` two or three columns more.
            return [row for row in rows if _sees_setting(_text(row, 0, len(row)), visible)]
        case AnswerFilter.CONNECT_CATALOGS:
            return _connect_catalogs(rule, rows, visible)
        case AnswerFilter.CONNECT_DATABASES:
            return _connect_databases(rule, rows, visible)
        case AnswerFilter.CONNECT_TABLES:
            return _connect_tables(rule, rows, visible)
        case AnswerFilter.CONNECT_FUNCTIONS:
            return _connect_functions(rule, rows, visible)
        case AnswerFilter.CONNECT_COLUMNS:
            return _connect_columns(rule, rows)


def _sees_setting(key: str, visible: Visible) -> bool:
    return not is_servers_own(key) and not is_of_catalog(key) and visible(Resource.setting(key))


def _databases(rule: AnswerRule, rows: Sequence[_Row], visible: Visible) -> list[_Row]:
    catalog = _require_known(rule.catalog)
    above = () if rule.database is None else levels(rule.database)
    shown = []
    for row in rows:
        database = _find_nested_namespace(above, _text(row, 0, 1))
        if database is not None and visible(Resource.database(catalog, database)):
            shown.append(row)
    return shown


def _find_nested_namespace(above: Sequence[str], written: str) -> str | None:
    """Return the namespace of a list of those in another, None for one that cannot be governed: it has a
    level with a dot, or is none of these."""
    parts = split_name(written)
    if len(parts) != len(above) + 1 or any(
        a.lower() != b.lower() for a, b in zip(above, parts, strict=False)
    ):
        return None
    return one_name(parts)


def one_name(parts: Sequence[str]) -> str | None:
    """Return the levels of a namespace as one name; None for one with a dot in a level, or without any."""
    return join_namespace(parts) if parts and not any("." in level or not level for level in parts) else None


def _database(written: str) -> str | None:
    """Return the namespace that Spark writes with quotes where it has several levels or odd signs."""
    return one_name(split_name(written))


def _sees_table(rule: AnswerRule, row: _Row, visible: Visible) -> bool:
    """Whether a row of SHOW TABLES (namespace, name, isTemporary) may be shown.

    A temporary view has no namespace and belongs to the session; a global one is governed as a view.
    """
    written, name = _text(row, 0), unquote(_text(row, 1))
    namespace = split_name(written)
    if written and not namespace:
        return False  # it cannot be governed
    return _sees_relation(rule, namespace, name, temporary=_flag(row[2]), visible=visible)


def _sees_relation(
    rule: AnswerRule, namespace: Sequence[str], name: str, *, temporary: bool, visible: Visible
) -> bool:
    if temporary and [level.lower() for level in namespace] == [GLOBAL_TEMP]:
        # RULE (global-view-listed)
        return visible(Resource.table(SESSION_CATALOG, GLOBAL_TEMP, name))
    if temporary:
        return not namespace
    catalog, database = _require_known(rule.catalog), one_name(namespace)
    return database is not None and visible(Resource.table(catalog, database, name))


_MORE_OF_TABLE = frozenset({"catalog", "type"})
"""What SHOW TABLE EXTENDED AS JSON tells besides."""


def _tables_json(rule: AnswerRule, row: _Row, visible: Visible) -> _Row:
    """Filter SHOW TABLES AS JSON, which has one cell."""
    try:
        told = json.loads(_text(row, 0))
    except ValueError as fault:
        raise UnknownShape(f"cannot parse a JSON listing: {fault}") from None
    listed = told.get("tables") if isinstance(told, dict) else None
    if not isinstance(listed, list) or len(told) != 1:
        raise UnknownShape("a JSON listing of an unexpected form")
    shown = [one for one in listed if _sees_json_table(rule, one, visible)]
    if len(shown) == len(listed):
        return row
    return [json.dumps({"tables": shown}, separators=(",", ":"), ensure_ascii=False)]


def _sees_json_table(rule: AnswerRule, table: object, visible: Visible) -> bool:
    match table:
        case {"name": str(name), "namespace": list(namespace), "isTemporary": bool(temporary), **others}:
            if others.keys() <= _MORE_OF_TABLE and all(isinstance(level, str) for level in namespace):
                return _sees_relation(rule, namespace, name, temporary=temporary, visible=visible)
    raise UnknownShape("a table in a JSON listing is of an unexpected form")


def _tables_extended(
    rule: AnswerRule,
    rows: Sequence[_Row],
    visible: Visible,
    described: Mapping[TableName, AnswerRule],
) -> list[_Row]:
    """Filter SHOW TABLE EXTENDED (namespace, name, isTemporary, information). The information is what
    DESCRIBE EXTENDED tells: location, owner, statistics, a view's text. Where DESCRIBE would leave some of it
    out it is reduced; so it is of a temporary view, whose text was guarded."""
    shown: list[_Row] = []
    for row in _wide(rows, 4):
        if not _sees_table(rule, row, visible):
            continue
        information = _text(row, 3)
        if _flag(row[2]):
            information = reduce_information(information, None)
        else:
            information = _information(information, described.get(_table(rule, row).fold()))
        shown.append([row[0], row[1], row[2], information])
    return shown


def _information(information: str, told: AnswerRule | None) -> str:
    if told is None:
        return ""
    if not told.columns:
        # The type alone, as GetTables tells it: clients drop as a table what does not say that it is a view.
        return type_line(information)
    hides = not {c.lower() for c in _SCHEMA_LINE.findall(information)} <= told.columns
    if hides or not told.details:
        return reduce_information(information, told.columns)
    return information


def _table(rule: AnswerRule, row: _Row) -> TableName:
    return TableName(_require_known(rule.catalog), _database(_text(row, 0)) or "", unquote(_text(row, 1)))


def _sees_function(rule: AnswerRule, name: str, visible: Visible) -> bool:
    """Whether a function may be shown; those of one part are built in or the session's own."""
    parts = split_name(name)
    match parts:
        case [_]:
            return True
        case [database, function]:
            return visible(Resource.udf(_require_known(rule.catalog), database, function))
        case [catalog, *namespace, function]:
            inside = one_name(namespace)
            return inside is not None and visible(Resource.udf(catalog, inside, function))
        case _:
            return False


def _describe(rule: AnswerRule, rows: Sequence[_Row]) -> list[_Row]:
    """Filter DESCRIBE TABLE: columns first, then sections that begin with a `# Heading` row.

    Hidden columns go from every section. Sections other than the partition columns print locations,
    statistics, view text, partition values and column lists: where details may not be shown, or something was
    hidden, only what is harmless stays of the last one.
    """
    if rows and len(rows[0]) == 2:
        return _describe_column(rule, rows)
    columns: list[_Row] = []
    partitions: list[_Row] = []
    details: list[_Row] = []
    hidden = False
    section = columns
    for row in _wide(rows, 3):
        name = _text(row, 0)
        if name == "# Partition Information":
            section = partitions
        elif name.startswith("# ") and name != "# col_name":
            section = details
        elif name == "":
            # The blank row before a heading.
            section = details
        elif section is not details and name != "# col_name" and not _shows_column(rule, name):
            hidden = True
            continue
        section.append(row)
    if len(partitions) <= 2:
        partitions = []
    shown = [*columns, *partitions]
    if rule.details and not hidden:
        return shown + details
    if rule.columns is None or rule.columns:
        shown += _harmless_details(details)
    return shown


def _harmless_details(details: Sequence[_Row]) -> list[_Row]:
    """Return of the sections of DESCRIBE the heading of the one that is about the whole table, with the blank
    row before it and those after it that tell no value, bound or path."""
    # A column may have the heading's name, with a type beside it, and so it may in the sections that follow.
    headings = [i for i, row in enumerate(details) if _text(row, 0) == _DETAILED and not _text(row, 1)]
    if not headings:
        return []
    at = headings[0]
    kept: list[_Row] = []
    for row in details[at + 1 :]:
        name = _text(row, 0)
        # RULE (description-end)
        if name == "" or name.startswith("# "):
            break
        if name in HARMLESS_DETAILS:  # RULE (harmless-details)
            kept.append(row)
    return [*details[max(0, at - 1) : at + 1], *kept]


def _json(rule: AnswerRule, row: _Row) -> _Row:
    """Filter DESCRIBE EXTENDED AS JSON, which has one cell."""
    text = _text(row, 0)
    if rule.details:
        return row
    try:
        return [reduce_json(text, rule.columns)]
    except ValueError as fault:
        raise UnknownShape(f"cannot parse a JSON description: {fault}") from None


def _create_statement(rule: AnswerRule, row: _Row) -> _Row:
    """Filter SHOW CREATE TABLE, which has one cell."""
    if rule.details:
        return row
    try:
        return [reduce_create_statement(_text(row, 0), rule.columns or frozenset())]
    except ValueError as fault:
        raise UnknownShape(f"the statement of the table: {fault}") from None


def _properties(rule: AnswerRule, rows: Sequence[_Row]) -> Iterator[_Row]:
    """Filter SHOW TBLPROPERTIES (key, value). Of one property that is not shown it tells what Spark tells of
    one that is not there, and the same whether it is."""
    for row in _wide(rows, 2):
        if rule.details or _is_harmless(rule, row):
            yield row
        elif rule.key is not None and rule.columns:
            # RULE (hidden-property)
            yield [rule.key, f"Table {rule.table} does not have property: {rule.key}"]


def _is_harmless(rule: AnswerRule, row: _Row) -> bool:
    return bool(rule.columns) and _text(row, 0) in HARMLESS_PROPERTIES  # RULE (harmless-properties)


def _describe_column(rule: AnswerRule, rows: Sequence[_Row]) -> list[_Row]:
    """Filter DESCRIBE of one column: rows of (info_name, info_value); statistics follow the first three."""
    if _text(rows[0], 0, 2) != "col_name":
        raise UnknownShape("DESCRIBE of a column that does not begin with its name")
    if not _shows_column(rule, unquote(_text(rows[0], 1, 2)).split(".")[0]):
        return []
    return list(rows) if rule.details else list(rows[:3])


def _connect_catalogs(rule: AnswerRule, rows: Sequence[_Row], visible: Visible) -> list[_Row]:
    """Filter CatalogMetadata (name, description)."""
    shown = [row for row in _wide(rows, 2) if visible(Resource.catalog(_name(row, 0)))]
    return shown if rule.details else [_blank(row, 1) for row in shown]


def _connect_databases(rule: AnswerRule, rows: Sequence[_Row], visible: Visible) -> list[_Row]:
    """Filter Database (name, catalog, description, locationUri)."""
    shown = [
        row
        for row in _wide(rows, 4)
        if (database := _database(_name(row, 0))) is not None
        and visible(Resource.database(_catalog(rule, row, 1), database))
    ]
    return shown if rule.details else [_blank(row, 2, 3) for row in shown]


def _connect_tables(rule: AnswerRule, rows: Sequence[_Row], visible: Visible) -> list[_Row]:
    """Filter Table (name, catalog, namespace, description, tableType, isTemporary)."""
    shown: list[_Row] = []
    for row in _wide(rows, 6):
        name, namespace = _name(row, 0), _namespace(row, 2)
        if _flag(row[5]):
            # The session's own views; those of `global_temp` were judged for somebody else.
            if not namespace:
                shown.append(row)
        elif (database := one_name([unquote(level) for level in namespace])) is not None:
            catalog = _catalog(rule, row, 1)
            if visible(Resource.table(catalog, database, unquote(name))):
                shown.append(row if rule.details else _blank(row, 3))
    return shown


def _connect_functions(rule: AnswerRule, rows: Sequence[_Row], visible: Visible) -> list[_Row]:
    """Filter Function (name, catalog, namespace, description, className, isTemporary).

    What is built in counts as temporary. The description of a SQL function holds its text, and that of a
    temporary one can have row filters and masks in it.
    """
    shown: list[_Row] = []
    for row in _wide(rows, 6):
        name, namespace = _name(row, 0), _namespace(row, 2)
        if _flag(row[5]):
            # RULE (temporary-function-text)
            shown.append(_blank(row, 3) if SQL_FUNCTION in _text(row, 3) else row)
        elif (database := one_name([unquote(level) for level in namespace])) is not None:
            catalog = _catalog(rule, row, 1)
            if visible(Resource.udf(catalog, database, unquote(name))):
                shown.append(row if rule.details else _blank(row, 3, 4))
    return shown


def _connect_columns(rule: AnswerRule, rows: Sequence[_Row]) -> list[_Row]:
    """Filter Column (name, description, dataType, nullable, isPartition, isBucket; since 4.0 isCluster)."""
    if any(len(row) not in (6, 7) for row in rows):
        raise UnknownShape("columns that are described by other than 6 or 7 fields")
    return [row for row in rows if _shows_column(rule, _name(row, 0))]


def _name(row: _Row, index: int) -> str:
    name = _text(row, index)
    if name == "":
        raise UnknownShape("a row without a name")
    return name


def _catalog(rule: AnswerRule, row: _Row, index: int) -> str:
    return _text(row, index) or _require_known(rule.catalog)


def _namespace(row: _Row, index: int) -> list[str]:
    value = row[index]
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise UnknownShape("a namespace that is no list of names")
    return value


def _blank(row: _Row, *indexes: int) -> _Row:
    return [None if index in indexes else value for index, value in enumerate(row)]


def _shows_column(rule: AnswerRule, name: str) -> bool:
    return rule.columns is None or unquote(name).lower() in rule.columns


def _wide(rows: Iterable[_Row], width: int) -> Iterable[_Row]:
    for row in rows:
        if len(row) != width:
            raise UnknownShape(f"{len(row)} columns where {width} were expected")
        yield row


def _text(row: _Row, index: int, width: int | None = None) -> str:
    if len(row) <= index or (width is not None and len(row) != width):
        raise UnknownShape(f"{len(row)} columns where {width or index + 1} were expected")
    value = row[index]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UnknownShape(f"a {type(value).__name__} where a name was expected")
    return value


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise UnknownShape("isTemporary that is neither true nor false")


def _require_known(name: str | None) -> str:
    if name is None:
        raise UnknownShape("an answer whose catalog is not known")
    return name
