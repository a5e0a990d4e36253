"""What the columns of a table's version are called now, by the ids that formats keep of columns."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gateway.catalog.types import NotUnderstood, checked_ddl
from gateway.model.catalog import Column, Renamed, Table, TableName

Schema = Sequence[tuple[str, str]]
"""The id of each column, and its name, in order."""

Schemas = tuple[Sequence[Schema], Schema]
"""All schemas that a table has had, and the one that it has."""

_VIEW = "sluice_files"
ICEBERG_SCHEMAS = (
    f"SELECT get_json_object(value, '$.schemas'), get_json_object(value, '$.current-schema-id') FROM {_VIEW}"
)
DELTA_SCHEMAS = (
    "SELECT max(version), schema FROM (SELECT metaData.schemaString AS schema, "
    "regexp_extract(input_file_name(), '([0-9]{20})[^/]*$', 1) AS version "
    f"FROM {_VIEW} WHERE metaData.schemaString IS NOT NULL) GROUP BY schema"
)
_COLUMNS = {"text": "value STRING", "json": "metaData STRUCT<schemaString: STRING>"}
_COLUMNS["parquet"] = _COLUMNS["json"]
_PLAIN_PATH = re.compile(r"[\w:/.=@%+ -]+", re.ASCII)
"""A path that is one file or directory to Spark's readers, and has no sign that ends a literal."""
_UNKNOWN = "what its columns were called then cannot be told from what they are called now"


def version_table(
    now: Table, name: TableName, rows: Sequence[Sequence[Any]], schemas: Sequence[Schema], current: Schema
) -> Table:
    """Return a version of a table: `rows` describe its columns, `schemas` are all that the table has had,
    `current` the one that it has; both are empty where nobody tells. Raises NotUnderstood."""
    if not rows or any(len(row) != 3 for row in rows):
        raise NotUnderstood("a description of a version of another shape")
    columns = tuple([Column(name=str(n), type=checked_ddl(str(t)), comment=c or None) for n, t, c in rows])
    table = replace(now, name=name, columns=columns)
    then = [column.name.lower() for column in columns]
    alike = [one for one in schemas if [column.lower() for _, column in one] == then]
    if not alike or {column.lower() for _, column in current} != {c.name.lower() for c in now.columns}:
        same = then == [column.name.lower() for column in now.columns]
        return table if same else replace(table, unfollowed=_UNKNOWN)
    renamed = _renamed(columns, alike, dict(current))
    return replace(table, unfollowed=_UNKNOWN) if renamed is None else replace(table, renamed=renamed)


def some_version(now: Table, name: TableName, schemas: Sequence[Schema], current: Schema) -> Table:
    """Return a version of which nobody tells the columns, to be read by those of now: a name that a schema
    has had for a column which is called otherwise now could show that one."""
    called, taken = dict(current), {column.name.lower() for column in now.columns}
    moved = any(
        column.lower() in taken and called.get(its_id, column).lower() != column.lower()
        for schema in schemas
        for its_id, column in schema
    )
    return replace(now, name=name, unfollowed=_UNKNOWN if moved else "")


def _renamed(
    columns: Sequence[Column], alike: Sequence[Schema], current: Mapping[str, str]
) -> tuple[Renamed, ...] | None:
    """Return the columns that have other names now; None where that is ambiguous, or where two of them would
    be spoken of by one name."""
    names_now = {name.lower() for name in current.values()}
    found: list[Renamed] = []
    spoken: set[str] = set()
    for at, column in enumerate(columns):
        then = column.name.lower()
        present = {current[one[at][0]] for one in alike if one[at][0] in current}
        others = {name for name in present if name.lower() != then}
        if len(present) > 1:
            return None
        if not present and then in names_now:
            others = {column.name}  # another column of that name
        found += [Renamed(then=column.name, now=now, gone=then not in names_now) for now in others]
        spoken_of = {name.lower() for name in others} or {then}
        if others and then not in names_now:
            spoken_of.add(then)
        if spoken & spoken_of:
            return None
        spoken |= spoken_of
    return tuple(found)


def files_view(form: str, path: Any, option: str) -> str:
    """Write the statement by which a session of ours sees files of Spark's as a view. Raises NotUnderstood
    for a path that is not plain."""
    if not isinstance(path, str) or not _PLAIN_PATH.fullmatch(path):
        raise NotUnderstood("a path that is not plain")
    return (
        f"CREATE OR REPLACE TEMPORARY VIEW {_VIEW} ({_COLUMNS[form]}) USING {form} "
        f"OPTIONS (path '{path}', {option})"
    )


def iceberg_schemas(schemas: Any, current: Any) -> Schemas:
    """Read `schemas` and `current-schema-id` of an Iceberg table's metadata, both as JSON."""
    try:
        listed = json.loads(schemas)
        by_id = {
            one["schema-id"]: [(str(field["id"]), str(field["name"])) for field in one["fields"]]
            for one in listed
        }
        return list(by_id.values()), by_id[int(current)]
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        raise NotUnderstood("metadata of Iceberg's of another shape") from error


def delta_schemas(rows: Sequence[Sequence[Any]]) -> Schemas:
    """Read schemas of a Delta table's log, each with the last version that it was written with.

    A column that is not mapped is called in its files as it is called in the table: it cannot be renamed.
    """
    try:
        found = [(int(version), json.loads(text)["fields"]) for version, text in rows]
        schemas = [
            [(str(_physical(field)), str(field["name"])) for field in fields]
            for _, fields in sorted(found, key=lambda one: one[0])
        ]
        return schemas, schemas[-1]
    except (TypeError, ValueError, KeyError, IndexError, RecursionError) as error:
        raise NotUnderstood("a log of Delta's of another shape") from error


def _physical(field: Mapping[str, Any]) -> Any:
    return (field.get("metadata") or {}).get("delta.columnMapping.physicalName", field["name"])


def paimon_schemas(rows: Sequence[Sequence[Any]]) -> Schemas:
    """Read the schemas of a Paimon table: the number of each, and its fields as JSON."""
    try:
        numbered = {
            int(number): [(str(field["id"]), str(field["name"])) for field in json.loads(fields)]
            for number, fields in rows
        }
        return list(numbered.values()), numbered[max(numbered)]
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        raise NotUnderstood("schemas of Paimon's of another shape") from error
