"""The pure parts: facts and versions, types as DDL, Spark's descriptions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.catalog.describe import table_from_json, table_from_rows
from gateway.catalog.known import KnownTables
from gateway.catalog.types import NotUnderstood, ddl_of, normalize_ddl
from gateway.model.catalog import Column, Table, TableKind, TableName, ViewBody, split_name
from gateway.model.reading_settings import PARSER_SETTINGS
from gateway.policy.restrictions import restrict_view
from tests.policy.restricted_tables import OPEN

EMP = TableName("spark_catalog", "hr", "emp")
OTHER = TableName("spark_catalog", "hr", "other")
FAR = TableName("spark_catalog", "sales", "orders")


def table(name: TableName = EMP, *columns: str) -> Table:
    return Table(
        name=name, kind=TableKind.TABLE, columns=tuple(Column(name=c, type="int") for c in columns or ("id",))
    )


def known(**limits: Any) -> KnownTables:
    defaults: dict[str, Any] = {"max_age_s": 30, "missing_age_s": 5, "max_names": 100}
    return KnownTables(["Spark_Catalog"], **{**defaults, **limits})


def test_what_was_never_looked_up_is_in_neither_set() -> None:
    snapshot = known().snapshot(0)
    assert snapshot.version == 1
    assert snapshot.catalogs == {"spark_catalog"}
    assert not snapshot.knows(EMP)


def test_learning_more_keeps_the_version_and_names_are_folded() -> None:
    facts = known()
    facts.learn(TableName("spark_catalog", "HR", "Emp"), table(), 0)
    facts.learn(OTHER, None, 0)
    snapshot = facts.snapshot(0)
    assert snapshot.version == 1
    assert snapshot.table(EMP) == table()
    assert snapshot.table(OTHER) is None
    assert snapshot.knows(OTHER)


def test_a_fact_that_is_too_old_is_not_shown_and_costs_no_version() -> None:
    facts = known()
    facts.learn(EMP, table(), 0)
    facts.learn(OTHER, None, 0)
    assert facts.snapshot(4.9).knows(OTHER)
    assert not facts.snapshot(5).knows(OTHER)
    assert facts.snapshot(29.9).knows(EMP)
    late = facts.snapshot(30)
    assert not late.knows(EMP)
    assert late.version == 1
    facts.learn(EMP, table(), 31)
    assert facts.snapshot(31).version == 1


@pytest.mark.parametrize(
    ("before", "after"), [(table(), table(EMP, "id", "ssn")), (table(), None), (None, table())]
)
def test_a_contradiction_raises_the_version_even_after_the_fact_was_too_old(
    before: Table | None, after: Table | None
) -> None:
    facts = known()
    facts.learn(EMP, before, 0)
    old = facts.snapshot(0)
    facts.learn(EMP, after, 100)
    new = facts.snapshot(100)
    assert new.version > old.version
    assert new.table(EMP) == after
    assert old.table(EMP) == before, "snapshots never change"


def test_forgetting_what_was_known_raises_the_version_once() -> None:
    facts = known()
    for name in (EMP, OTHER, FAR):
        facts.learn(name, table(name), 0)
    facts.forget([TableName("SPARK_CATALOG", "hr", "EMP")], [])
    assert facts.snapshot(0).version == 2
    assert not facts.snapshot(0).knows(EMP)
    facts.forget([EMP], [])
    assert facts.snapshot(0).version == 2
    facts.forget([], [("spark_catalog", "HR")])
    snapshot = facts.snapshot(0)
    assert snapshot.version == 3
    assert not snapshot.knows(OTHER)
    assert snapshot.knows(FAR)


def test_a_needed_fact_is_shown_whatever_its_age() -> None:
    facts = known(max_age_s=0)
    facts.learn(EMP, table(), 0)
    assert facts.snapshot(1, [EMP]).knows(EMP)
    assert not facts.snapshot(1).knows(EMP)


def test_the_snapshot_is_made_once_as_long_as_nothing_changes() -> None:
    facts = known()
    facts.learn(EMP, table(), 0)
    assert facts.snapshot(1) is facts.snapshot(2)


def test_what_is_forgotten_for_want_of_room_cannot_change_unnoticed() -> None:
    facts = known(max_names=2)
    for name in (EMP, OTHER, FAR):
        facts.learn(name, table(name), 0)
    snapshot = facts.snapshot(0)
    assert snapshot.version == 2
    assert [snapshot.knows(name) for name in (EMP, OTHER, FAR)] == [False, True, True]


@given(
    st.lists(st.tuples(st.sampled_from(["learn", "forget", "wait"]), st.integers(0, 2), st.integers(0, 2)))
)
def test_a_version_never_contradicts_itself(steps: list[tuple[str, int, int]]) -> None:
    """Whatever happens: of two snapshots with one version, neither says other than the other."""
    names, facts, now = [EMP, OTHER, FAR], known(max_names=2), 0.0
    said: dict[tuple[int, TableName], Table | None] = {}
    for step, which, what in steps:
        if step == "wait":
            now += what * 10
        elif step == "forget":
            facts.forget([names[which]], [])
        else:
            facts.learn(names[which], [None, table(), table(EMP, "a", "b")][what], now)
        snapshot = facts.snapshot(now)
        for name in names:
            if snapshot.knows(name):
                assert said.setdefault((snapshot.version, name), snapshot.table(name)) == snapshot.table(name)


# -- types ---------------------------------------------------------------------------------------------------

INT = {"name": "int"}
STRING = {"name": "string", "collation": "UTF8_BINARY"}


@pytest.mark.parametrize(
    ("described", "ddl"),
    [
        (INT, "int"),
        (STRING, "string"),
        ({"name": "string", "collation": "UTF8_LCASE"}, "string collate UTF8_LCASE"),
        ({"name": "decimal", "precision": 10, "scale": 2}, "decimal(10,2)"),
        ({"name": "varchar", "length": 10}, "varchar(10)"),
        ({"name": "timestamp_ltz"}, "timestamp"),
        ({"name": "timestamp_ntz"}, "timestamp_ntz"),
        ({"name": "interval", "start_unit": "day", "end_unit": "second"}, "interval day to second"),
        ({"name": "interval", "start_unit": "year", "end_unit": "year"}, "interval year"),
        ({"name": "geometry(4326)"}, "geometry(4326)"),
        ({"name": "variant"}, "variant"),
        ({"name": "array", "element_type": INT, "element_nullable": True}, "array<int>"),
        ({"name": "map", "key_type": STRING, "value_type": INT}, "map<string,int>"),
        (
            {"name": "struct", "fields": [{"name": "y z", "type": INT}, {"name": "a`b", "type": STRING}]},
            "struct<`y z`:int,`a``b`:string>",
        ),
        ({"name": "struct", "fields": []}, "struct<>"),
    ],
)
def test_a_described_type_becomes_ddl(described: Any, ddl: str) -> None:
    assert ddl_of(described) == ddl


@pytest.mark.parametrize(
    "described",
    [
        None,
        "int",
        {},
        {"name": 5},
        {"name": "int) AS x, (SELECT ssn FROM hr.emp"},
        {"name": "decimal", "precision": "10", "scale": None},
        {"name": "varchar"},
        {"name": "string", "collation": "x) --"},
        {"name": "interval", "start_unit": "day", "end_unit": "x"},
        {"name": "array"},
        {"name": "map", "key_type": INT},
        {"name": "struct"},
        {"name": "struct", "fields": [{"type": INT}]},
    ],
)
def test_a_type_that_is_not_understood_is_not_guessed(described: Any) -> None:
    with pytest.raises(NotUnderstood):
        ddl_of(described)


def test_a_type_of_endless_depth_is_refused() -> None:
    described: Any = INT
    for _ in range(200):
        described = {"name": "array", "element_type": described}
    with pytest.raises(NotUnderstood, match="deep"):
        ddl_of(described)
    with pytest.raises(NotUnderstood, match="deep"):
        normalize_ddl("array<" * 200 + "int" + ">" * 200)


def test_a_field_name_cannot_break_out_of_its_type() -> None:
    evil = "x`:int>) AS y, (SELECT ssn FROM hr.emp) AS z --"
    assert ddl_of({"name": "struct", "fields": [{"name": evil, "type": INT}]}) == (
        "struct<`x``:int>) AS y, (SELECT ssn FROM hr.emp) AS z --`:int>"
    )


@pytest.mark.parametrize(
    ("text", "ddl"),
    [
        ("INT", "int"),
        ("decimal(10, 2)", "decimal(10,2)"),
        ("varchar(10)", "varchar(10)"),
        ("array<struct<x:int,`y z`:map<string, bigint>>>", "array<struct<x:int,`y z`:map<string,bigint>>>"),
        ("interval day to second", "interval day to second"),
        ("INTERVAL YEAR", "interval year"),
        ("string collate UTF8_LCASE", "string collate UTF8_LCASE"),
        ("timestamp_ntz", "timestamp_ntz"),
        ("geometry(4326)", "geometry(4326)"),
    ],
)
def test_ddl_is_read_and_written_again(text: str, ddl: str) -> None:
    assert normalize_ddl(text) == ddl
    assert normalize_ddl(ddl) == ddl


@pytest.mark.parametrize(
    "text",
    ["", "int int", "int)", "int) AS x", "array<int", "array<>", "map<int>", "struct<int>", "struct<x y:int>",
     "struct<a:int,... 5 more fields>", "list<int>", "decimal()", "decimal(x)", "'int'", "int -- x",
     "int/*x*/", "interval fortnight", "int collate X", "string collate", "`int`", "5"],
)  # fmt: skip
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(NotUnderstood):
        normalize_ddl(text)


@given(st.text(alphabet="ints<>(),:` \n-'/*struct array0123;"))
def test_checked_ddl_never_lets_through_what_could_end_a_cast(text: str) -> None:
    try:
        ddl = normalize_ddl(text)
    except NotUnderstood:
        return
    assert not set(ddl) & set("'\"-/*;\n")


# -- descriptions --------------------------------------------------------------------------------------------


def described(**more: Any) -> str:
    base = {
        "table_name": "emp",
        "catalog_name": "spark_catalog",
        "namespace": ["hr"],
        "schema_name": "hr",
        "columns": [
            {"name": "id", "type": INT, "nullable": True, "comment": "the id"},
            {"name": "name", "type": STRING, "nullable": True},
        ],
        "location": "file:/w/hr.db/emp",
        "owner": "alice",
        "type": "MANAGED",
        "provider": "parquet",
    }
    return json.dumps({k: v for k, v in {**base, **more}.items() if v is not None})


VIEW = {
    "type": "VIEW",
    "provider": None,
    "location": None,
    "view_text": "SELECT id, first FROM emp",
    "view_catalog_and_namespace": "spark_catalog.`h-r`",
    "view_query_output_columns": ["id", "first"],
    "view_creation_spark_configuration": {**PARSER_SETTINGS, "spark.sql.ansi.enabled": "true"},
}


def test_a_table_is_read_from_json() -> None:
    assert table_from_json(described(), EMP) == Table(
        name=EMP,
        kind=TableKind.TABLE,
        columns=(Column(name="id", type="int", comment="the id"), Column(name="name", type="string")),
        owner="alice",
        provider="parquet",
        location="file:/w/hr.db/emp",
    )


def test_a_view_is_read_with_the_session_that_it_was_written_in() -> None:
    found = table_from_json(described(**VIEW), EMP)
    assert found.kind is TableKind.VIEW
    assert found.view == ViewBody(
        text="SELECT id, first FROM emp", catalog="spark_catalog", database="h-r", output=("id", "first")
    )


def test_a_view_may_have_been_written_in_a_nested_namespace() -> None:
    found = table_from_json(described(**{**VIEW, "view_catalog_and_namespace": "lake.a.b"}), EMP)
    assert found.view is not None
    assert (found.view.catalog, found.view.database) == ("lake", "a.b")


@pytest.mark.parametrize(
    ("told", "collation"),
    [({}, ""), ({"collation": "UTF8_BINARY"}, ""), ({"collation": "UNICODE_CI"}, "UNICODE_CI")],
)
def test_a_views_own_collation_is_told(told: dict[str, str], collation: str) -> None:
    found = table_from_json(described(**VIEW, **told), EMP)
    assert found.view is not None
    assert found.view.collation == collation


@pytest.mark.parametrize(
    "change",
    [
        {"view_creation_spark_configuration": {"spark.sql.ansi.doubleQuotedIdentifiers": "true"}},
        {"view_creation_spark_configuration": {"spark.sql.parser.escapedStringLiterals": "true"}},
        {"view_text": None},
        {"view_catalog_and_namespace": None},
        {"view_catalog_and_namespace": "spark_catalog.`a.b`"},
        {"view_catalog_and_namespace": "spark_catalog"},
        {"view_query_output_columns": ["id"]},
    ],
)
def test_a_view_that_the_reader_would_read_otherwise_has_no_body(change: dict[str, Any]) -> None:
    found = table_from_json(described(**{**VIEW, **change}), EMP)
    assert (found.kind, found.view) == (TableKind.VIEW, None)


@pytest.mark.parametrize(
    "text",
    [
        None,
        5,
        "",
        "[]",
        "[" * 100_000,
        described(table_name="other"),
        described(schema_name="other"),
        described(catalog_name="other"),
        described(namespace=["hr", "x"]),
        described(namespace=None),
        described(columns=None),
        described(columns=[5]),
        described(columns=[{"name": "id"}]),
        described(columns=[{"name": "id", "type": {"name": "what is this"}}]),
        described(type=None),
        described(view_creation_spark_configuration=[], type="VIEW"),
    ],
)
def test_json_that_is_not_understood_is_refused(text: Any) -> None:
    with pytest.raises(NotUnderstood):
        table_from_json(text, EMP)


ROWS: list[tuple[Any, ...]] = [
    ("id", "int", "the id"),
    ("d", "date", None),
    ("# Partition Information", "", ""),
    ("# col_name", "data_type", "comment"),
    ("d", "date", None),
    ("", "", ""),
    ("# Detailed Table Information", "", ""),
    ("Catalog", "spark_catalog", ""),
    ("Database", "hr", ""),
    ("Table", "emp", ""),
    ("Owner", "alice", ""),
    ("Type", "MANAGED", ""),
    ("Provider", "parquet", ""),
    ("Location", "file:/w", ""),
]


def test_a_table_is_read_from_the_plain_form() -> None:
    found = table_from_rows(ROWS, EMP)
    assert found.columns == (Column(name="id", type="int", comment="the id"), Column(name="d", type="date"))
    assert (found.owner, found.provider, found.location) == ("alice", "parquet", "file:/w")


def test_constraints_are_known_in_either_form() -> None:
    told = {"delta.constraints.c": "id > 0", "team.constraints.c": "x"}
    assert table_from_json(described(table_properties=told), EMP).checks == "id > 0"
    rows = [*ROWS, ("Table Properties", "[a=b,delta.constraints.c=id > 0]", "")]
    assert "id > 0" in table_from_rows(rows, EMP).checks
    assert not table_from_rows([*ROWS, ("Table Properties", "[a=b]", "")], EMP).checks


@pytest.mark.parametrize(("value", "closes"), [("true", True), ("TRUE", True), ("", True), ("false", False)])
def test_a_table_of_paimons_whose_catalog_restricts_readers_is_refused(value: str, closes: bool) -> None:
    told = table_from_json(described(table_properties={"query-auth.enabled": value}), EMP).restrictions
    assert (told is not None and told.restricts) is closes
    rows = [*ROWS, ("Table Properties", f"[a=b,query-auth.enabled={value}]", "")]
    plain = table_from_rows(rows, EMP)
    assert plain.restrictions is not None
    assert "`query-auth.enabled`" in restrict_view(OPEN, plain).closed
    assert table_from_json(described(table_properties={"a": "b"}), EMP).restrictions is None


def test_a_partition_column_is_no_detail_of_its_table() -> None:
    """Partition columns stand once more before the details, and may be called like one."""
    named = [("Type", "string", None), ("Owner", "string", None)]
    rows = [*named, *ROWS[:5], *named, *ROWS[5:]]
    found = table_from_rows(rows, EMP)
    assert (found.kind, found.owner) == (TableKind.TABLE, "alice")


def by_name(name: str) -> list[tuple[Any, ...]]:
    """The plain form of a table of another catalog before Spark 4.2."""
    return [("id", "int", None), ("", "", ""), ("# Detailed Table Information", "", ""), ("Name", name, "")]


def test_a_table_of_another_catalog_may_have_its_name_in_one_word() -> None:
    name = TableName("lake", "hr", "emp")
    for told in ("lake.hr.emp", "hr.emp"):
        assert table_from_rows(by_name(told), name).name == name
    for other in ("lake.hr.other", "hr.other", "emp", ""):
        with pytest.raises(NotUnderstood):
            table_from_rows(by_name(other), name)
    nested = TableName("lake", "hr.x", "emp")
    for told in ("lake.hr.x.emp", "hr.x.emp"):
        assert table_from_rows(by_name(told), nested).name == nested
    for other in ("x.emp", "lake.x.emp", "lake.hr.emp", "hr.x"):
        with pytest.raises(NotUnderstood):
            table_from_rows(by_name(other), nested)
    with pytest.raises(NotUnderstood):
        table_from_rows([*by_name("lake.hr.emp"), ("Table", "other", "")], name)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        ROWS[:5],
        [("id", "struct<a b:int>", None), *ROWS[5:]],
        [("id", "int"), *ROWS[5:]],
        [(None, "int", None), *ROWS[5:]],
        [*ROWS[:9], ("Table", "other", "")],
        ROWS[2:],
    ],
)
def test_a_plain_form_that_is_not_understood_is_refused(rows: list[tuple[Any, ...]]) -> None:
    with pytest.raises(NotUnderstood):
        table_from_rows(rows, EMP)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a.b", ("a", "b")),
        ("`a.b`.c", ("a.b", "c")),
        ("a.`b``c`", ("a", "b`c")),
        ("a", ("a",)),
        ("", ()),
        ("a.", ()),
        (".a", ()),
        ("`a", ()),
        ("`a`b", ()),
        ("a..b", ()),
    ],
)
def test_a_dotted_name_is_split(text: str, parts: tuple[str, ...]) -> None:
    assert split_name(text) == parts
