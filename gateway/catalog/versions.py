"""What the columns of a table's version are called now, by the ids that formats keep of columns."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from gateway.catalog.types import NotUnderstood, normalize_ddl
from gateway.model.catalog import Column, Renamed, Table, TableName, moves
from gateway.model.table_formats import ICEBERG


class SchemaColumn(NamedTuple):
    """A column of a schema as its format keeps it."""

    id: str
    name: str
    fields: Mapping[str, str] = {}
    """Path, lower case, → id of what lies in it."""


Schema = Sequence[SchemaColumn]
"""The columns in order."""

Schemas = tuple[Sequence[Schema], Schema]
"""All schemas that a table has had, and the one that it has."""

_VIEW = "sluice_files"
ICEBERG_SCHEMAS = (
    f"SELECT get_json_object(value, '$.schemas'), get_json_object(value, '$.current-schema-id') FROM {_VIEW}"
)
MAX_PACKED = 4 << 20
"""Bytes of a metadata file that is compressed; a longer one is not read."""
MAX_UNPACKED = 64 << 20
ICEBERG_PACKED = f"SELECT base64(content) FROM {_VIEW} WHERE length <= {MAX_PACKED}"
DELTA_SCHEMAS = (
    "SELECT max(version), schema FROM (SELECT metaData.schemaString AS schema, "
    "regexp_extract(input_file_name(), '([0-9]{20})[^/]*$', 1) AS version "
    f"FROM {_VIEW} WHERE metaData.schemaString IS NOT NULL) GROUP BY schema"
)
_COLUMNS = {"text": " (value STRING)", "json": " (metaData STRUCT<schemaString: STRING>)", "binaryFile": ""}
_COLUMNS["parquet"] = _COLUMNS["json"]
_PLAIN_PATH = re.compile(r"[\w:/.=@%+ -]+", re.ASCII)
"""A path that is one file or directory to Spark's readers, and has no sign that ends a literal."""
_UNKNOWN = "columns may have been renamed since, so their old names cannot be matched with the current ones"


def build_version(now: Table, name: TableName, rows: Sequence[Sequence[Any]] | str, told: Schemas) -> Table:
    """Return a version of a table; `rows` is a text where Spark does not describe it, or is not asked."""
    some = some_version(now, name, *told)
    # Which version it is by then nobody knows: none may have had a name for another column.
    # RULE (version-moving)
    if isinstance(rows, str) or (moves(name.version) and some.unfollowed):
        found = some
    else:
        found = version_table(now, name, rows, *told)
    is_iceberg = (now.provider or "").lower() == ICEBERG.name
    return replace(found, conditions_above=is_iceberg and has_changed_columns(found, *told))


_CHANGE_COLUMNS = (
    Column(name="_change_type", type="string"),
    Column(name="_change_ordinal", type="int"),
    Column(name="_commit_snapshot_id", type="bigint"),
)


def build_changes(now: Table, name: TableName) -> Table:
    """Return an Iceberg table's changes: they have the columns of now, whichever snapshot they are of, and
    what kind of change each row is. Iceberg does not find the latter in a condition that goes below."""
    return replace(
        now,
        name=name,
        columns=(*now.columns, *_CHANGE_COLUMNS),
        conditions_above=True,
    )


_FEED_COLUMNS = (
    Column(name="_change_type", type="string"),
    Column(name="_commit_version", type="bigint"),
    Column(name="_commit_timestamp", type="timestamp"),
)


def build_feed(now: Table, name: TableName, told: Schemas) -> Table:
    """Return a Delta table's change feed. Its columns have the names of the last version that is asked for:
    only those of now are read, and none where one of these has been another's."""
    found = some_version(now, name, *told)  # RULE (feed-names-of-now)
    return replace(found, columns=(*now.columns, *_FEED_COLUMNS))


def version_table(
    now: Table, name: TableName, rows: Sequence[Sequence[Any]], schemas: Sequence[Schema], current: Schema
) -> Table:
    """Return a version of a table: `rows` describe its columns, `schemas` are all that the table has had,
    `current` the one that it has; both are empty where nobody tells. Raises NotUnderstood."""
    if not rows or any(len(row) != 3 for row in rows):
        raise NotUnderstood("a description of a version in an unexpected form")
    columns = tuple([Column(name=str(n), type=normalize_ddl(str(t)), comment=c or None) for n, t, c in rows])
    table = replace(now, name=name, columns=columns)
    then = [column.name.lower() for column in columns]
    alike = [one for one in schemas if [column.name.lower() for column in one] == then]
    if not alike or {column.name.lower() for column in current} != {c.name.lower() for c in now.columns}:
        same = then == [column.name.lower() for column in now.columns]
        return table if same else replace(table, unfollowed=_UNKNOWN)
    renamed = _list_renamed(columns, alike, {column.id: column for column in current})
    return replace(table, unfollowed=_UNKNOWN) if renamed is None else replace(table, renamed=renamed)


def has_changed_columns(version: Table, schemas: Sequence[Schema], current: Schema) -> bool:
    """Whether a column, or a field of one, of a version of Iceberg's may be another one, or none, in the
    schema in which Iceberg looks up the columns of conditions: of a snapshot or a tag that of the table as it
    is now, of a branch, which has the columns of now, one of before. Where nobody tells, it may."""
    names = {column.name.lower() for column in version.columns}
    by_name = [{one.name.lower(): one for one in schema} for schema in schemas]
    now = {one.name.lower(): one for one in current}
    pairs = [(schema, now) for schema in by_name if schema.keys() == names]
    if now.keys() == names:
        pairs += [(now, schema) for schema in by_name]
    return not pairs or any(
        other.get(name) != column for read, other in pairs for name, column in read.items()
    )


def some_version(now: Table, name: TableName, schemas: Sequence[Schema], current: Schema) -> Table:
    """Return a version of which nobody tells the columns, to be read by those of now: a name that a schema
    has had for what is called otherwise now could show that. Of which nobody tells the schemas, any could."""
    called, names = {one.id: one for one in current}, _ids(current)
    told = bool(schemas) and names.keys() == {column.name.lower() for column in now.columns}
    # RULE (version-names-unknown)
    moved = not told or any(
        _have_moved(_ids(schema), names)
        or any(_have_moved(one.fields, called[one.id].fields) for one in schema if one.id in called)
        for schema in schemas
    )
    return replace(now, name=name, unfollowed=_UNKNOWN if moved else "")


def _ids(schema: Schema) -> dict[str, str]:
    return {column.name.lower(): column.id for column in schema}


def _have_moved(then: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether a name was that of another column or field, of which one is there under another name at the
    other time: masks and filters that name one would be given the other."""
    were, there = set(then.values()), set(now.values())
    # RULE (version-field-gone)
    return any(
        (other := now.get(name, one)) != one and (one in there or other in were) for name, one in then.items()
    )


def _list_renamed(
    columns: Sequence[Column], alike: Sequence[Schema], current: Mapping[str, SchemaColumn]
) -> tuple[Renamed, ...] | None:
    """Return the columns that have other names now; None where that is ambiguous, where two of them would be
    spoken of by one name, or where fields have changed places."""
    names_now = {one.name.lower() for one in current.values()}
    found: list[Renamed] = []
    spoken: set[str] = set()
    for at, column in enumerate(columns):
        then = column.name.lower()
        pairs = [(one[at], current[one[at].id]) for one in alike if one[at].id in current]
        present = {there.name for _, there in pairs}
        others = {name for name in present if name.lower() != then}
        # RULE (version-fields-swapped)
        if len(present) > 1 or any(_have_moved(one.fields, there.fields) for one, there in pairs):
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
        f"CREATE OR REPLACE TEMPORARY VIEW {_VIEW}{_COLUMNS[form]} USING {form} "
        f"OPTIONS (path '{path}', {option})"
    )


def iceberg_schemas(schemas: Any, current: Any) -> Schemas:
    """Read `schemas` and `current-schema-id` of an Iceberg table's metadata, both as JSON."""
    try:
        listed = json.loads(schemas)
        by_id = {one["schema-id"]: _schema(one["fields"], _its_id) for one in listed}
        return list(by_id.values()), by_id[int(current)]
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        raise NotUnderstood("Iceberg metadata of an unexpected form") from error


def unpack_schemas(rows: Sequence[Sequence[Any]]) -> tuple[Any, Any]:
    """Return `schemas` and `current-schema-id` of an Iceberg table's metadata that is compressed: one row
    with the file in base64."""
    try:
        ((content,),) = rows
        opening = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        text = opening.decompress(base64.b64decode(content), MAX_UNPACKED)
        if not opening.eof:
            raise NotUnderstood("Iceberg metadata that is too long")
        found = json.loads(text)
        return json.dumps(found["schemas"]), found["current-schema-id"]
    except (TypeError, ValueError, KeyError, RecursionError, zlib.error) as error:
        raise NotUnderstood("Iceberg metadata that cannot be decompressed") from error


def delta_schemas(rows: Sequence[Sequence[Any]]) -> Schemas:
    """Read schemas of a Delta table's log, each with the last version that it was written with.

    A column that is not mapped is called in its files as it is called in the table: it cannot be renamed.
    """
    try:
        found = [(int(version), json.loads(text)["fields"]) for version, text in rows]
        schemas = [_schema(fields, _physical) for _, fields in sorted(found, key=lambda one: one[0])]
        return schemas, schemas[-1]
    except (TypeError, ValueError, KeyError, IndexError, RecursionError) as error:
        raise NotUnderstood("a Delta log of an unexpected form") from error


def paimon_schemas(rows: Sequence[Sequence[Any]]) -> Schemas:
    """Read the schemas of a Paimon table: the number of each, and its fields as JSON."""
    try:
        numbered = {int(number): _schema(json.loads(fields), _its_id) for number, fields in rows}
        return list(numbered.values()), numbered[max(numbered)]
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        raise NotUnderstood("Paimon schemas of an unexpected form") from error


def _physical(field: Mapping[str, Any]) -> str:
    name = (field.get("metadata") or {}).get("delta.columnMapping.physicalName", field["name"])
    return str(name)


def _its_id(field: Mapping[str, Any]) -> str:
    return str(field["id"])


_WITHIN = ("element", "elementType", "key", "keyType", "value", "valueType")


def _schema(fields: Sequence[Mapping[str, Any]], id_of: Callable[[Mapping[str, Any]], str]) -> Schema:
    return [
        SchemaColumn(id_of(field), str(field["name"]), dict(_fields(field["type"], id_of, "", "")))
        for field in fields
    ]


def _fields(
    kind: Any, id_of: Callable[[Mapping[str, Any]], str], above: str, within: str
) -> Iterator[tuple[str, str]]:
    """Yield the path and the id of each field that a type has, as all three formats write types. `above` and
    `within` are those of what it lies in: not every format's ids are ids in the whole table."""
    if not isinstance(kind, Mapping):
        return
    for field in kind.get("fields", ()):
        path, its_id = f"{above}.{str(field['name']).lower()}", f"{within}.{id_of(field)}"
        yield path, its_id
        yield from _fields(field["type"], id_of, path, its_id)
    for part in _WITHIN:
        yield from _fields(kind.get(part), id_of, f"{above}[{part}]", f"{within}[{part}]")
