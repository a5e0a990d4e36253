"""What the columns of a version are called now: by ids, and not at all where nobody tells."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.catalog.known import KnownTables
from gateway.catalog.types import NotUnderstood
from gateway.catalog.versions import (
    SchemaColumn,
    Schemas,
    build_feed,
    build_version,
    delta_schemas,
    files_view,
    has_changed_columns,
    iceberg_schemas,
    paimon_schemas,
    some_version,
    unpack_schemas,
    version_table,
)
from gateway.model.catalog import FEED, Column, Renamed, Table, TableKind, TableName

NAME = TableName("ice", "shop", "t", "VERSION AS OF 1")


def schema(text: str) -> list[SchemaColumn]:
    """Read columns that are written as `1:id 2:email`."""
    return [SchemaColumn(id=id_, name=name) for id_, _, name in (one.partition(":") for one in text.split())]


def of(then: str, now: str, *schemas: str, current: str | None = None) -> Table:
    """Describe a version; schemas are written as `1:id 2:email`, the last is the current one."""
    columns = tuple([Column(name=name, type="int") for name in now.split()])
    table = Table(name=NAME.current, kind=TableKind.TABLE, columns=columns, provider="iceberg")
    rows = [(name, "string", None) for name in then.split()]
    read = [schema(one) for one in schemas]
    found: Schemas = (read, read[-1]) if read else ([], [])
    return version_table(table, NAME, rows, *found)


def test_a_column_is_called_as_its_id_is_now() -> None:
    table = of("id mail", "id contact", "1:id 2:mail", "1:id 2:contact")
    assert table.renamed == (Renamed(then="mail", now="contact", gone=True),)
    assert [column.name for column in table.columns] == ["id", "mail"]
    assert [column.name for column in table.named_now.columns] == ["id", "contact", "mail"]
    assert not table.unfollowed


def test_a_name_that_another_column_has_now_is_not_spoken_of() -> None:
    table = of("id mail", "id contact mail", "1:id 2:mail", "1:id 2:contact 3:mail")
    assert table.renamed == (Renamed(then="mail", now="contact", gone=False),)
    swapped = of("a b", "b a", "1:a 2:b", "1:b 2:a")
    assert [(one.then, one.now, one.gone) for one in swapped.renamed] == [
        ("a", "b", False),
        ("b", "a", False),
    ]
    again = of("id mail", "id mail", "1:id 2:mail", "1:id 3:mail")
    assert not again.unfollowed


def test_what_is_ambiguous_is_not_known() -> None:
    two_meanings = of("a b", "x a b", "1:a 2:b", "2:a 1:b", "3:x 1:a 2:b")
    assert two_meanings.unfollowed
    dropped_and_taken = of("mail contact", "mail", "1:mail 2:contact", "2:mail")
    assert dropped_and_taken.unfollowed


def test_where_nobody_tells_ids_the_same_names_are_the_same_columns() -> None:
    assert not of("id mail", "id mail").unfollowed
    for then in ("id contact", "mail id", "id", "id mail more"):
        assert of(then, "id mail").unfollowed
    # Nor where the current schema is another than the one described.
    assert of("id old", "id mail", "1:id 2:old", "1:id 2:new").unfollowed


def test_a_version_that_is_not_described_is_read_by_names_that_never_moved() -> None:
    columns = (Column(name="a", type="int"), Column(name="b", type="int"))
    table = Table(name=NAME.current, kind=TableKind.TABLE, columns=columns)
    now = schema("1:a 2:b")
    for before in ("1:a 2:b", "1:a", "1:x 2:b", "3:b 1:a"):
        assert not some_version(table, NAME, [schema(before), now], now).unfollowed
    for before in ("1:b 2:a", "2:A", "3:a 1:x 2:b"):
        assert some_version(table, NAME, [schema(before), now], now).unfollowed
    # Nor where nobody tells the schemas, or others than those that are described: names may have moved.
    assert some_version(table, NAME, [schema("1:a")], schema("1:a")).unfollowed
    assert some_version(table, NAME, [], []).unfollowed


def test_a_change_feed_has_the_names_of_now_where_these_never_moved() -> None:
    feed = replace(NAME, version=FEED)
    columns = (Column(name="a", type="int"), Column(name="b", type="int"))
    table = Table(name=NAME.current, kind=TableKind.TABLE, columns=columns)
    found = build_feed(table, feed, ([schema("1:a"), schema("1:a 2:b")], schema("1:a 2:b")))
    assert not found.unfollowed
    assert [one.name for one in found.columns[2:]] == ["_change_type", "_commit_version", "_commit_timestamp"]
    assert build_feed(table, feed, ([schema("1:b 2:a")], schema("1:a 2:b"))).unfollowed
    assert build_feed(table, feed, ((), ())).unfollowed


def test_a_version_that_moves_on_is_described_by_names_that_never_moved_alone() -> None:
    columns = (Column(name="a", type="int"), Column(name="b", type="int"))
    table = Table(name=NAME.current, kind=TableKind.TABLE, columns=columns)
    rows = [("x", "int", None), ("b", "int", None)]
    now = schema("1:a 2:b")
    for clause, before, unfollowed in (
        ("VERSION AS OF 1", "1:x 2:b", False),
        ("TIMESTAMP AS OF now ( )", "1:x 2:b", False),
        ("TIMESTAMP AS OF now ( )", "2:a 1:x", True),
        ("TIMESTAMP AS OF '2024-01-01'", "2:a 1:x", False),
    ):
        name = TableName("ice", "shop", "t", clause)
        schemas = [schema(one) for one in (before, "1:x 2:b")] + [now]
        found = build_version(table, name, rows, (schemas, now))
        assert bool(found.unfollowed) is unfollowed
        assert unfollowed or [column.name for column in found.columns] == ["x", "b"]


@pytest.mark.parametrize(
    ("then", "schemas", "may"),
    [
        ("id mail", ("1:id 2:mail",), False),
        # A tag or snapshot: columns were added since, renamed, dropped, made again.
        ("id mail", ("1:id 2:mail", "1:id 2:mail 3:more"), False),
        ("id mail", ("1:id 2:mail", "1:id 2:email"), True),
        ("id mail", ("1:id 2:mail", "1:id"), True),
        ("id mail", ("1:id 2:mail", "1:id", "1:id 3:mail"), True),
        # What may be a branch: the snapshot has any of them.
        ("id mail more", ("1:id 2:mail", "1:id 2:mail 3:more"), True),
        ("id email", ("1:id 2:mail", "1:id 2:email"), True),
        ("id", ("1:id 2:mail", "1:id"), False),
        # Nobody tells.
        ("id mail", (), True),
    ],
)
def test_conditions_ask_for_columns_by_name_in_another_schema(
    then: str, schemas: tuple[str, ...], may: bool
) -> None:
    read = [schema(one) for one in schemas]
    columns = tuple([Column(name=name, type="int") for name in then.split()])
    version = Table(name=NAME, kind=TableKind.TABLE, columns=columns)
    assert has_changed_columns(version, read, read[-1] if read else []) is may


def test_fields_are_asked_for_by_name_as_well() -> None:
    then, now = ([SchemaColumn(id="1", name="s", fields={path: "1.2"})] for path in (".owner", ".author"))
    version = Table(name=NAME, kind=TableKind.TABLE, columns=(Column(name="s", type="string"),))
    assert has_changed_columns(version, [then, now], now)


def test_schemas_of_iceberg() -> None:
    schemas = [
        {"schema-id": 0, "fields": [{"id": 1, "name": "a", "type": "int"}]},
        {"schema-id": 1, "fields": [{"id": 1, "name": "b", "type": "int"}]},
    ]
    assert iceberg_schemas(json.dumps(schemas), "1") == ([schema("1:a"), schema("1:b")], schema("1:b"))
    for wrong in (None, "", "[1]", "{}", json.dumps(schemas[:1])):
        with pytest.raises(NotUnderstood):
            iceberg_schemas(wrong, "1")


def test_schemas_of_delta() -> None:
    mapped = {"delta.columnMapping.physicalName": "a"}

    def written(**field: Any) -> str:
        return json.dumps({"type": "struct", "fields": [{"type": "integer", **field}]})

    rows = [("00000000000000000007", written(name="b", metadata=mapped)), ("0", written(name="a"))]
    assert delta_schemas(rows) == ([schema("a:a"), schema("a:b")], schema("a:b"))
    for wrong in ([], [("", "{}")], [("1", "[]")], [("1", None)]):
        with pytest.raises(NotUnderstood):
            delta_schemas(wrong)


def test_schemas_of_paimon() -> None:
    rows = [(1, '[{"id":0,"name":"b","type":"INT"}]'), (0, '[{"id":0,"name":"a","type":"INT"}]')]
    assert paimon_schemas(rows)[1] == schema("0:b")
    with pytest.raises(NotUnderstood):
        paimon_schemas([])


@pytest.mark.parametrize("path", ["", None, "/a'b", "/a*", "/a{b}", "/a\\b", "/a\n", "/a?", "/a[b]", "/a`"])
def test_only_a_plain_path_is_written_into_a_statement(path: str | None) -> None:
    with pytest.raises(NotUnderstood):
        files_view("text", path, "wholetext 'true'")
    assert "path 's3a://b/x=1/v2.metadata.json'" in files_view(
        "text", "s3a://b/x=1/v2.metadata.json", "x 'y'"
    )


def struct(**ids: int) -> dict[str, Any]:
    """Write a struct as Iceberg does: the ids of its fields by their names."""
    return {"type": "struct", "fields": [{"id": i, "name": n, "type": "string"} for n, i in ids.items()]}


@pytest.mark.parametrize("around", [lambda of: of, lambda of: {"type": "list", "element": of}])
def test_fields_that_changed_places_are_not_known(around: Any) -> None:
    def unfollowed(then: dict[str, Any], now: dict[str, Any]) -> bool:
        found = [
            {"schema-id": at, "fields": [{"id": 1, "name": "s", "type": around(kind)}]}
            for at, kind in enumerate((then, now))
        ]
        schemas, current = iceberg_schemas(json.dumps(found), 1)
        column = Column(name="s", type="string")
        table = Table(name=NAME.current, kind=TableKind.TABLE, columns=(column,), provider="iceberg")
        told = version_table(table, NAME, [("s", "string", None)], schemas, current)
        assert bool(told.unfollowed) == bool(some_version(table, NAME, schemas, current).unfollowed)
        return bool(told.unfollowed)

    assert unfollowed(struct(owner=2, author=3), struct(author=2, owner=3))
    assert unfollowed(struct(owner=2, author=3), struct(approver=2, owner=3))
    # The other is gone by now, and what has its name was there.
    assert unfollowed(struct(owner=2, author=3), struct(owner=3))
    # What is gone, or called as nothing was: names are names.
    for now in (struct(owner=2, author=3), struct(owner=2, x=3), struct(author=3, owner=2), struct(owner=9)):
        assert not unfollowed(struct(owner=2, author=3), now)


def test_metadata_that_is_compressed_is_read() -> None:
    document = json.dumps({"schemas": [{"schema-id": 3, "fields": []}], "current-schema-id": 3})
    packed = base64.b64encode(gzip.compress(document.encode())).decode()
    assert iceberg_schemas(*unpack_schemas([(packed,)])) == ([[]], [])
    cut = base64.b64encode(gzip.compress(document.encode())[:-20]).decode()
    for wrong in ([], [("",)], [("!",)], [(cut,)], [(None,)], [(base64.b64encode(b"{}").decode(),)]):
        with pytest.raises(NotUnderstood):
            unpack_schemas(wrong)


def test_who_forgets_a_table_forgets_its_versions() -> None:
    known = KnownTables(["ice"], max_age_s=30, missing_age_s=1, max_names=9)
    table = Table(name=NAME.current, kind=TableKind.TABLE, columns=(Column(name="a", type="int"),))
    for name in (NAME, NAME.current):
        known.learn(name, table, 0)
    known.forget([NAME.current], [])
    assert not known.snapshot(1).tables
