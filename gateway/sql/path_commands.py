"""What commands want that read or write files by their path, and those that run programs on rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gateway.model.reading import FieldValue
from gateway.model.resource import Resource
from gateway.model.statement import CatalogChanged, CreateTempView
from gateway.sql import storage
from gateway.sql.paths import FILE_FORMATS, explain_relative_path, on_path
from gateway.sql.required import Privilege, Required
from gateway.sql.scope import CannotClassify, CommandScope, clip, name_parts, table_resource

TRANSFORM = "transform"
"""The name, among what a session may run, of the programs that TRANSFORM starts."""
_WITH_TRANSFORM = frozenset(
    """
    CreateTableAsSelect DescribeQueryCommand ExplainCommand InsertIntoDir InsertIntoStatement
    ReplaceTableAsSelect ScriptTransformation
    """.split()
)
"""Statements that may have a TRANSFORM in them: none keeps it to run it for others, or later."""


def insert_directory(scope: CommandScope) -> Required:
    """INSERT OVERWRITE DIRECTORY: what is there goes, and the rows of the query come."""
    provider = scope.text("provider")
    if provider is None or provider.lower() not in FILE_FORMATS:  # RULE (directory-formats)
        raise CannotClassify(
            "INSERT OVERWRITE DIRECTORY needs USING with a format of files: STORED AS and ROW FORMAT name "
            "classes"
        )
    stored = scope.node("storage")
    storage.check_options(storage.keys(stored.get("properties"), "options"))
    path = _plain(stored.get("locationUri"))
    if "%" in path:  # Spark writes a URI here, and decodes it
        raise CannotClassify(f"the path `{clip(path)}` has a `%` in it, which Spark would decode")
    if scope.flag("isLocal"):
        path = _of_server(path)
    files = on_path(path, "write")  # RULE (directory-privilege)
    return Required(privileges=files)


def load_data(scope: CommandScope) -> Required:
    """LOAD DATA: files become rows of a table, and leave where they were unless they are the server's own."""
    local = scope.flag("isLocal")
    path = _plain(scope.text("path"))
    pin = scope.target("child")
    required = [Privilege(table_resource(pin.table), "insert")]
    if scope.flag("isOverwrite"):
        required.append(Privilege(table_resource(pin.table), "delete"))  # RULE (load-overwrites)
    # RULE (load-privilege)
    files = on_path(_of_server(path), "read") if local else on_path(path, "read", "write")
    return Required(
        privileges=(*required, *files),
        pins=(pin,),
        raw=(pin.table,),
        effects=(CatalogChanged((pin.table,), meaning="stays"),),
    )


def set_location(scope: CommandScope) -> Required:
    """ALTER TABLE … SET LOCATION: the table gets the rows that are there."""
    pin = scope.target("table")
    files = on_path(_plain(scope.text("location")), "read", "write")  # RULE (set-location-privilege)
    return Required(
        privileges=(Privilege(table_resource(pin.table), "alter"), *files),
        pins=(pin,),
        raw=(pin.table,),
        read=(pin.table,),
        effects=(CatalogChanged((pin.table,)),),
    )


def set_database_location(scope: CommandScope) -> Required:
    """ALTER DATABASE … SET LOCATION: tables that are made from now on lie there."""
    catalog, database = scope.database("namespace")
    # RULE (set-database-location-privilege)
    files = on_path(_plain(scope.text("location")), "read", "write")
    return Required(
        privileges=(Privilege(Resource.database(catalog, database), "alter"), *files),
        namespaces=scope.pin_database("namespace"),
        effects=(CatalogChanged(databases=((catalog, database),), meaning="stays"),),
    )


def partition_locations(parts: FieldValue) -> tuple[Privilege, ...]:
    """Return what ADD PARTITION wants of the places of partitions."""
    if not isinstance(parts, tuple):
        raise CannotClassify("the partitions could not be parsed")
    found: list[Privilege] = []
    for part in parts:
        if not isinstance(part, Mapping) or "location" not in part:
            raise CannotClassify("the partitions could not be parsed")
        if part["location"] is not None:  # RULE (partition-location)
            found += on_path(_plain(part["location"]), "read", "write")
    return tuple(found)


def create_view_using(scope: CommandScope) -> Required:
    """CREATE TEMPORARY VIEW … USING: the files at a path, as one that a DataFrame over them would be."""
    parts = name_parts(scope.node("tableIdent"), scope.command.node)
    if scope.flag("global"):
        raise CannotClassify(
            "a global temporary view USING a format has no text by which its readers could be judged; use "
            "CREATE GLOBAL TEMPORARY VIEW … AS SELECT"
        )
    if len(parts) != 1:
        raise CannotClassify("the name of a temporary view must have one part")
    provider = scope.text("provider") or ""
    if provider.lower() not in FILE_FORMATS:  # RULE (view-using-formats)
        raise CannotClassify(f"a temporary view USING {clip(provider)} can access other systems")
    options = scope.node("options")
    storage.check_options(key for key in options if key.lower() != "path")  # RULE (view-using-options)
    # RULE (view-using-path)
    paths = [_plain(value) for key, value in options.items() if key.lower() == "path"]
    files = tuple(one for path in paths for one in on_path(path, "read"))
    return Required(privileges=files, effects=(CreateTempView(parts[0], "frame"),))


def add_files(scope: CommandScope) -> Required:
    """ADD FILE, ADD ARCHIVE: every executor gets a copy."""
    paths = scope.field("paths")
    if not isinstance(paths, tuple) or not paths:
        raise CannotClassify("the files could not be parsed")
    files = tuple(one for path in paths for one in on_path(_plain(path), "read"))  # RULE (add-file-privilege)
    return Required(privileges=files)


def transform(scope: CommandScope) -> Required:
    """TRANSFORM … USING: a program of the user's choice gets the rows, and gives others."""
    others = {command.node for command in scope.reading.commands} - _WITH_TRANSFORM
    if others:  # RULE (transform-kept)
        raise CannotClassify("TRANSFORM … USING is supported in queries, INSERT and CREATE TABLE … AS alone")
    program = Resource.udf("system", "session", TRANSFORM)
    accesses = ("create", "execute")  # RULE (transform-privilege)
    return Required(privileges=tuple(Privilege(program, access) for access in accesses))


def set_serde_properties(scope: CommandScope) -> Required:
    """ALTER TABLE … SET SERDEPROPERTIES: options of the table's files; a SerDe is code."""
    if scope.field("serdeClassName") is not None:  # RULE (alter-serde)
        raise CannotClassify("SerDes are code")
    keys = storage.list_unlisted_options(storage.keys(scope.field("serdeProperties"), "SERDEPROPERTIES"))
    pin = scope.target("child")
    required = Required(
        privileges=(Privilege(table_resource(pin.table), "alter"),),
        pins=(pin,),
        raw=(pin.table,),
        options=tuple((pin.table, key) for key in keys),
        effects=(CatalogChanged((pin.table,)),),
    )
    return replace(required, read=(pin.table,)) if scope.field("partitionSpec") else required


def _plain(path: FieldValue) -> str:
    """Return a path that means one place."""
    if not isinstance(path, str):
        raise CannotClassify("the path could not be parsed")
    why = explain_relative_path(path, clip(path))
    if why is not None:
        raise CannotClassify(why)
    return path


def _of_server(path: str) -> str:
    """Return the place of a LOCAL path."""
    return f"file:{path}" if path.startswith("/") else path
