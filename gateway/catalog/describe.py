"""Spark's descriptions of a table, read into a Table; what is not understood raises NotUnderstood.

`DESCRIBE TABLE EXTENDED … AS JSON` (Spark 4) has everything. Tables of other catalogs (DataSource V2), and
all of Spark 3.5, only have the plain form, whose types are text that may be cut short or hold unquoted names:
those are refused. What 3.5 keeps with a view is asked for by `SHOW TBLPROPERTIES` with a key, which tells
what the plain form leaves out, too.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gateway.catalog.types import NotUnderstood, ddl_of, normalize_ddl
from gateway.model.catalog import (
    Column,
    Table,
    TableKind,
    TableName,
    ViewBody,
    join_namespace,
    kind_of,
    quote,
    split_name,
)
from gateway.model.definers import definer_in_comment, definer_of
from gateway.model.reading_settings import PARSER_SETTINGS
from gateway.model.restrictions import TableRestrictions
from gateway.model.table_formats import CONSTRAINT_PREFIX, KEY_PROPERTIES, QUERY_AUTH, may_replace_rows
from gateway.sql.metric_views import METRIC_VIEW, UnreadMetrics, metric_view

Row = Sequence[Any]


def table_from_json(text: Any, name: TableName) -> Table:
    """Read the one cell that AS JSON answers with. `name` is what was asked for, folded."""
    try:
        described = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotUnderstood("a description that is not JSON") from error
    if not isinstance(described, dict):
        raise NotUnderstood("a description that is not an object")
    catalog, schema, table = (_text(described, key) for key in ("catalog_name", "schema_name", "table_name"))
    namespace = described.get("namespace")
    if not isinstance(namespace, list) or not _is_nested((catalog, *map(str, namespace))):
        raise NotUnderstood("a description of another table")
    found = TableName(catalog, join_namespace(namespace) if len(namespace) > 1 else schema, table)
    if found.fold() != name.fold():
        raise NotUnderstood("a description of another table")
    columns = tuple(_column(column) for column in _list(described, "columns"))
    object_type = _text(described, "type")
    kind, unread, body = kind_of(object_type), "", None
    if object_type.upper() == METRIC_VIEW:
        try:
            body = _metric_view(described, columns)
        except UnreadMetrics as why:
            kind, unread = TableKind.UNGOVERNED, str(why)
    elif kind is TableKind.VIEW:
        body = _view_body(described, columns)
    return Table(
        name=found,
        kind=kind,
        object_type=object_type if kind is TableKind.UNGOVERNED else "",
        unread=unread,
        columns=columns,
        owner=_optional(described, "owner"),
        provider=_optional(described, "provider"),
        location=_optional(described, "location"),
        replaces_rows=_replaces_rows(described.get("provider"), described.get("table_properties")),
        checks=_checks(described.get("table_properties")),
        restrictions=_restrictions(found, described.get("table_properties")),
        view=body,
    )


def global_view_from_json(text: Any, name: TableName) -> Table:
    """Read what AS JSON says of a global temporary view. One whose text is not there cannot be governed.

    Nobody vouches for it: Spark has no place for who defined it, and so whoever reads it needs access of his
    own to what it reads.
    """
    body: ViewBody | None = None
    columns: tuple[Column, ...] = ()
    with contextlib.suppress(AttributeError, TypeError, ValueError, RecursionError, NotUnderstood):
        described = json.loads(text)
        kind, view = _text(described, "type"), _text(described, "table_name")
        if (kind, view.lower()) == ("VIEW", name.table.lower()):
            columns = tuple(_column(column) for column in _list(described, "columns"))
            body = _view_body(described, columns)
    if body is None:
        what = "GLOBAL TEMPORARY VIEW without a text"
        return Table(name=name, kind=TableKind.UNGOVERNED, columns=columns, object_type=what)
    # RULE (global-view-readers-access)
    return Table(name=name, kind=TableKind.VIEW, columns=columns, view=replace(body, definer=""))


def _replaces_rows(provider: object, properties: Mapping[str, Any] | str | None) -> bool:
    """Whether a row that is added takes the place of the one with its key. The plain form has all properties
    in one text, so one with the key in its value counts as well; so does a table without any."""
    if may_replace_rows(str(provider)):  # RULE (keys-not-told)
        return True
    key = KEY_PROPERTIES.get(str(provider).lower())
    return key is not None and (properties is None or key in properties)


def _restrictions(name: TableName, properties: Mapping[str, Any] | str | None) -> TableRestrictions | None:
    """Return why nobody may read a table whose catalog restricts each reader, and is asked by Spark's own
    user. The plain form has all properties in one text, so one with the name in its value counts too."""
    if isinstance(properties, str):
        restricts = QUERY_AUTH in properties
    else:
        restricts = str((properties or {}).get(QUERY_AUTH, "false")).lower() != "false"
    if not restricts:
        return None
    # RULE (query-auth-closes)
    return TableRestrictions(
        catalog=name.catalog, fault=f"it has `{QUERY_AUTH}`, and Spark asks for its own user what may be read"
    )


def _checks(properties: Mapping[str, Any] | str | None) -> str:
    """Return the CHECK constraints of a table; of the plain form all properties, where it has any."""
    if isinstance(properties, str) or properties is None:
        return properties if properties is not None and CONSTRAINT_PREFIX in properties else ""
    return "\n".join(str(value) for key, value in properties.items() if key.startswith(CONSTRAINT_PREFIX))


def _column(described: Any) -> Column:
    if not isinstance(described, Mapping):
        raise NotUnderstood("a column that is not an object")
    comment = described.get("comment")
    return Column(
        name=_text(described, "name"),
        type=ddl_of(described.get("type")),
        comment=comment if isinstance(comment, str) else None,
    )


_BINARY = "UTF8_BINARY"
"""The collation that strings have anyway."""


def _view_body(described: Mapping[str, Any], columns: tuple[Column, ...]) -> ViewBody | None:
    """Return the view's text, or None when the reader would not read it as Spark does.

    A view keeps the settings of the session that made it, and Spark parses its text under them.
    """
    if not _reads_alike(described):
        return None
    text, session = described.get("view_text"), described.get("view_catalog_and_namespace")
    output = described.get("view_query_output_columns")
    if not isinstance(text, str) or not isinstance(session, str) or not isinstance(output, list):
        return None
    collation = described.get("collation")
    if collation is not None and not isinstance(collation, str):
        raise NotUnderstood("a collation that is not text")
    namespace = split_name(session)
    if not _is_nested(namespace) or len(output) != len(columns):
        return None
    return ViewBody(
        text=text,
        catalog=namespace[0],
        database=join_namespace(namespace[1:]),
        output=tuple(str(column) for column in output),
        collation="" if collation in (None, _BINARY) else collation,
        definer=definer_of(text, _properties(described)),
    )


def _reads_alike(described: Mapping[str, Any]) -> bool:
    """Whether the session that made a view read texts as the reader does."""
    written_under = described.get("view_creation_spark_configuration", {})
    if not isinstance(written_under, Mapping):
        raise NotUnderstood("settings of a view that are not an object")
    return all(
        str(written_under.get(key, value)).lower() == value.lower() for key, value in PARSER_SETTINGS.items()
    )


def _metric_view(described: Mapping[str, Any], columns: tuple[Column, ...]) -> ViewBody:
    if not _reads_alike(described):
        raise UnreadMetrics("the session that created it parsed texts differently")
    properties = _properties(described)
    names = tuple(column.name for column in columns)
    body = metric_view(_text(described, "view_text"), names, properties)
    return replace(body, definer=definer_of(_text(described, "view_text"), properties))


def _properties(described: Mapping[str, Any]) -> Mapping[str, str]:
    told = described.get("table_properties")
    if told is None:
        return {}
    if not isinstance(told, Mapping) or not all(isinstance(value, str) for value in told.values()):
        raise NotUnderstood("properties that are not texts")
    return told


VIEW_TEXT = "View Text"
_SETTING_PREFIX = "view.sqlConfig."
_NAMESPACE = "view.catalogAndNamespace."
_OUTPUT = "view.query.out."


def view_keys(columns: int) -> tuple[str, ...]:
    """Return the properties in which Spark 3.5 keeps what it needs to read the text of a view."""
    return (
        *(_SETTING_PREFIX + key for key in PARSER_SETTINGS),
        *(_NAMESPACE + end for end in ("numParts", "part.0", "part.1")),
        _OUTPUT + "numCols",
        *(f"{_OUTPUT}col.{number}" for number in range(columns)),
    )


def property_from_rows(rows: Sequence[Row], key: str) -> str | None:
    """Read the answer to `SHOW TBLPROPERTIES … (key)`; None when there is no such property."""
    if len(rows) != 1 or len(rows[0]) != 2 or rows[0][0] != key or not isinstance(rows[0][1], str):
        raise NotUnderstood("a property of an unexpected form")
    value = rows[0][1]
    missing = value.startswith("Table ") and value.endswith(f" does not have property: {key}")
    return None if missing else value


def view_body_from_properties(
    rows: Sequence[Row], columns: int, kept: Mapping[str, str | None], own: Sequence[Row]
) -> ViewBody | None:
    """Return a view's text, or None when the reader would not read it as Spark does.

    `rows` are its description, `kept` the properties of `view_keys`, `own` the rows of `SHOW TBLPROPERTIES`
    without a key.
    """
    text = next((row[1] for row in rows if row[0] == VIEW_TEXT and isinstance(row[1], str)), "")
    for key, pinned in PARSER_SETTINGS.items():
        value = kept[_SETTING_PREFIX + key]
        if value is not None and value.lower() != pinned.lower():
            return None
    catalog, database = kept[_NAMESPACE + "part.0"], kept[_NAMESPACE + "part.1"]
    output = [kept[f"{_OUTPUT}col.{number}"] for number in range(columns)]
    if kept[_NAMESPACE + "numParts"] != "2" or kept[_OUTPUT + "numCols"] != str(columns):
        return None
    if catalog is None or database is None or not text:
        return None
    properties = {str(row[0]): str(row[1]) for row in own}
    return ViewBody(
        text=text,
        catalog=catalog,
        database=database,
        output=tuple(name for name in output if name is not None),
        definer=definer_of(text, properties),
    )


_CATALOG_VIEW = ("# Detailed View Information", "", "")
"""The title that tells a view of a catalog that is not Spark's own, such as Iceberg's, from a table."""
_IN_NAMESPACE = "View Catalog and Namespace"
_QUERIED = "View Query Output Columns"


def _is_nested(name: Sequence[str]) -> bool:
    """Whether this is a catalog and a namespace in it, of one level or several that can be written as one."""
    return len(name) > 1 and not any("." in level for level in name[1:])


_PLAIN_PART = re.compile(r"(?!\d+$)[A-Za-z0-9_]+")
"""What Spark writes without backticks."""


def is_catalog_view(rows: Sequence[Row]) -> bool:
    """Whether a description in the plain form is of a view of a catalog that is not Spark's own."""
    return any(tuple(row) == _CATALOG_VIEW for row in rows)


def catalog_view_from_rows(
    rows: Sequence[Row], name: TableName, properties: Sequence[Row], shown: Sequence[Row]
) -> Table:
    """Read such a view: its description, `SHOW TBLPROPERTIES` and `SHOW CREATE TABLE`.

    Its text is the end of what the last one tells. All before that is written here once more, from the other
    two, and has to be the same: a comment or a property with ` AS ` in it cannot pass for the text's begin.
    Where it is not the same, nobody reads the view.
    """
    end = next(at for at, row in enumerate(rows) if tuple(row) == _CATALOG_VIEW)
    listed = rows[: end - 1]
    if not listed or any(rows[end - 1]) or any(len(row) != 3 for row in rows):
        raise NotUnderstood("a description of an unexpected form")
    columns = tuple(
        Column(name=str(label), type=normalize_ddl(str(value)), comment=comment or None)
        for label, value, comment in listed
    )
    details = {str(label): str(value) for label, value, _ in rows[end + 1 :]}
    kept = {str(row[0]): str(row[1]) for row in properties if len(row) == 2}
    return Table(
        name=name,
        kind=TableKind.VIEW,
        columns=columns,
        provider=kept.get("provider"),
        view=_catalog_view_body(columns, details, kept, name, str(shown[0][0]) if len(shown) == 1 else ""),
    )


def _catalog_view_body(
    columns: Sequence[Column],
    details: Mapping[str, str],
    properties: Mapping[str, str],
    name: TableName,
    shown: str,
) -> ViewBody | None:
    named = f"CREATE VIEW {'.'.join(map(_quote_part, name.parts))} "
    written, rest = shown[: len(named)], shown[len(named) :]
    heads = [
        head
        for head in _format_heads(columns, details.get("Comment", ""), properties)
        if rest.startswith(head)
    ]
    namespace = split_name(details.get(_IN_NAMESPACE, ""))
    output = details.get(_QUERIED, "")
    queried = output[1:-1].split(", ") if output.startswith("[") and output.endswith("]") else []
    if written.lower() != named.lower() or len(heads) != 1 or not rest.endswith("\n"):
        return None
    if not _is_nested(namespace) or len(queried) != len(columns):
        return None
    text = rest[len(heads[0]) : -1]
    return ViewBody(
        text=text,
        catalog=namespace[0],
        database=join_namespace(namespace[1:]),
        output=tuple(queried),
        definer=definer_of(text, properties),
        by_position=True,
    )


def _format_heads(columns: Sequence[Column], comment: str, properties: Mapping[str, str]) -> set[str]:
    """Return what can stand between a view's name and its text: catalogs differ in what they quote, and in
    whether they write a comment that is empty."""
    pairs = (f"  {_quote_literal(k)} = {_quote_literal(v)}" for k, v in sorted(properties.items()))
    told = "TBLPROPERTIES (\n" + ",\n".join(pairs) + ")\n" if properties else ""
    said = f"COMMENT {_quote_literal(comment)}\n"
    return {
        f"({_format_columns(columns, written)})\n{commented}{told}AS\n"
        for written in (_quote_part, str)
        for commented in ((said,) if comment else ("", said))
    }


def _format_columns(columns: Sequence[Column], written: Callable[[str], str]) -> str:
    lines = (
        f"\n  {written(column.name)}"
        + (f" COMMENT {_quote_literal(column.comment)}" if column.comment else "")
        for column in columns
    )
    return ",".join(lines)


def _quote_part(part: str) -> str:
    return part if _PLAIN_PART.fullmatch(part) else quote(part)


def _quote_literal(text: str) -> str:
    return "'" + text.replace("'", "\\'") + "'"


def table_from_rows(rows: Sequence[Row], name: TableName) -> Table:
    """Read the rows of the plain form: columns first, then sections whose titles begin with `# `."""
    columns: list[Column] = []
    details: dict[str, str] = {}
    in_columns, in_details = True, False
    for row in rows:
        if len(row) != 3 or not isinstance(row[0], str):
            raise NotUnderstood("a description of an unexpected form")
        label, value, comment = row[0], row[1], row[2]
        if in_columns:
            # A column whose name looks like a title ends the list early: it and the rest are then absent.
            in_columns = bool(label) and not label.startswith("# ")
            if in_columns:
                columns.append(Column(name=label, type=normalize_ddl(str(value)), comment=comment or None))
        elif label.startswith("# Detailed "):
            in_details = True
        elif in_details and label and isinstance(value, str):
            # Before them are the partition's columns once more, which may be called like a detail.
            details.setdefault(label, value)
    database = details.get("Database", "")
    if "." in name.database and _is_nested(("", *split_name(database))):
        database = join_namespace(split_name(database))
    found = TableName(details.get("Catalog", ""), database, details.get("Table", ""))
    if (
        _is_whole_name(details.get("Name", ""), name, details.get("Provider", "").lower())
        and not {"Catalog", "Database", "Table"} & details.keys()
    ):
        found = name
    if not columns or found.fold() != name.fold():
        raise NotUnderstood("a description of another table")
    object_type = details.get("Type", "")
    kind, unread = kind_of(object_type), ""
    if object_type.upper() == METRIC_VIEW:
        kind, unread = TableKind.UNGOVERNED, "its catalog does not describe it as JSON"
    return Table(
        name=found,
        kind=kind,
        unread=unread,
        object_type=object_type if kind is TableKind.UNGOVERNED else "",
        columns=tuple(columns),
        owner=details.get("Owner"),
        provider=details.get("Provider"),
        location=details.get("Location"),
        replaces_rows=_replaces_rows(details.get("Provider"), details.get("Table Properties")),
        checks=_checks(details.get("Table Properties")),
        restrictions=_restrictions(found, details.get("Table Properties")),
    )


_BODY = "Body:"
_CLASS = "Class:"
_COMMENT = "Comment:"
_PARAMETER = re.compile(
    r"(\w+)\s+((?:[\w<>,: ]|\([\d, ]*\))+?)(?:\s+DEFAULT\b.*|\s+'.*)?", re.ASCII | re.DOTALL
)
_INPUT = "Input"
_RETURNED = "Returns"
_DEFAULT = re.compile(r"\bDEFAULT\b(.*)", re.IGNORECASE | re.DOTALL)


def function_from_rows(rows: Sequence[Row], name: TableName) -> Table:
    """Read `DESCRIBE FUNCTION EXTENDED`: a row for each line, of which a function in SQL has its body last.

    Where names in a body begin is not told: Spark finds them where whoever made the function was. What its
    parameters are by default counts as part of the body: a call without arguments computes it.
    """
    lines = [row[0] for row in rows if len(row) == 1 and isinstance(row[0], str)]
    if len(lines) != len(rows) or not lines or not lines[0].startswith("Function:"):
        raise NotUnderstood("a description of an unexpected form")
    bodies = [line for line in lines if line.startswith(_BODY)]
    if not bodies and any(line.startswith(_CLASS) for line in lines):
        return Table(name=name, kind=TableKind.TABLE, columns=())
    if len(bodies) != 1 or bodies[0] is not lines[-1]:
        raise NotUnderstood("a function that is neither SQL nor a class")
    text = bodies[0].removeprefix(_BODY).strip()
    comments = [line for line in lines if line.startswith(_COMMENT)]
    definer = definer_in_comment(text, comments[0].strip()) if len(comments) == 1 else None
    parameters = () if definer is None else tuple(_parameters(lines))
    body = text
    is_table = any(re.fullmatch(r"Type:\s+TABLE", line.strip()) for line in lines)
    if given := list(_defaults(lines)):  # RULE (function-defaults)
        text = _write_with_defaults(text, given, is_table=is_table)
    return Table(
        name=name,
        kind=TableKind.VIEW,
        columns=(),
        view=ViewBody(
            text=text,
            catalog="",
            database="",
            output=(),
            definer=definer,
            parameters=tuple((name, kind) for name, kind, _ in parameters),
            is_table=is_table,
            body=body,
            defaults=tuple(default for _, _, default in parameters),
            returns=_returns(lines, is_table=is_table),
        ),
    )


def _write_with_defaults(body: str, defaults: Sequence[str], *, is_table: bool) -> str:
    """Return a body with what parameters are by default. It is read, and never run."""
    given = ", ".join(f"({one}\n)" for one in defaults)
    if not is_table:
        return f"struct({given}, ({body}\n))"
    return f"WITH `its.defaults` AS (SELECT struct({given})) (\n{body}\n)"  # no table has a name with a dot


def _parameters(lines: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield names, types and defaults of parameters. Raises NotUnderstood for other names than a gateway lets
    pass."""
    for told in _under(_INPUT, lines):
        if told == "()":
            continue
        found = _PARAMETER.fullmatch(told)
        if found is None:
            raise NotUnderstood("a parameter of an unexpected form")
        default = _DEFAULT.search(told)
        yield found[1], found[2], default[1].strip() if default is not None else ""


def _returns(lines: Sequence[str], *, is_table: bool) -> tuple[tuple[str, str], ...]:
    """Return names and types of what a function gives; nothing where they are of another form."""
    told = [*_under(_RETURNED, lines)]
    found = [_PARAMETER.fullmatch(one if is_table else f"x {one}") for one in told]
    if not all(found) or (len(told) != 1 and not is_table):
        return ()
    return tuple((one[1] if is_table else "", one[2]) for one in found if one is not None)


def _under(title: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield what stands behind a title, and in the lines that go on with it."""
    current = ""
    for line in lines:
        begins = not line.startswith(" ")
        current = line.partition(":")[0] if begins else current
        if current == title:
            yield (line.partition(":")[2] if begins else line).strip()


def _defaults(lines: Sequence[str]) -> Iterator[str]:
    """Yield what parameters are by default: each has a line, and the first of these a title."""
    for told in _under(_INPUT, lines):
        found = _DEFAULT.search(told)
        if found is not None:
            yield found[1].strip()


def _is_whole_name(text: str, name: TableName, provider: str) -> bool:
    """Whether this is the name in one word, as tables of other catalogs have it before Spark 4.2; without the
    catalog, as Paimon's and those of JDBC catalogs, which say no provider, do. It is compared and not taken
    apart: with a dot in it, it could be another one."""
    parts = name.parts
    forms = [parts, parts[1:]] if provider in ("", "paimon") else [parts]
    return not any("." in part for part in parts) and text.lower() in [".".join(f).lower() for f in forms]


def _text(described: Mapping[str, Any], key: str) -> str:
    value = described.get(key)
    if not isinstance(value, str) or not value:
        raise NotUnderstood(f"a description without {key}")
    return value


def _optional(described: Mapping[str, Any], key: str) -> str | None:
    value = described.get(key)
    return value if isinstance(value, str) else None


def _list(described: Mapping[str, Any], key: str) -> list[Any]:
    value = described.get(key)
    if not isinstance(value, list):
        raise NotUnderstood(f"a description without {key}")
    return value
