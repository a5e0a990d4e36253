"""What calls of the Catalog API want: every case has a row, names are pinned, nothing tells what exists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.model.catalog import TableName
from gateway.model.handles import SparkHandle, mark_reading_function
from gateway.model.resource import Resource
from gateway.model.statement import (
    AnswerFilter,
    CatalogChanged,
    DropTempView,
    SessionContext,
    UseNamespace,
)
from gateway.plan.catalog_calls import CALLS, DATAFRAMES, call_privileges
from gateway.plan.reading import CatalogCall
from gateway.plan.scope import PlanRequired
from gateway.sql.names import Names
from gateway.sql.required import Unsupported
from gateway.wire.connect import pb

NAMES = Names(
    SessionContext(namespace=("hr",), temp_views=frozenset({"v"}), endpoint="connect"),
    frozenset({"spark_catalog", "lake"}),
)


def call(operation: str, *, root: bool = True, **fields: Any) -> CatalogCall:
    relation = pb.Relation()
    message = getattr(relation.catalog, operation)
    message.SetInParent()
    for name, value in fields.items():
        if isinstance(value, dict):
            getattr(message, name).update(value)
        else:
            setattr(message, name, value)
    return CatalogCall(relation=relation, operation=operation, root=root)


def required_of(operation: str, **fields: Any) -> PlanRequired:
    found = call_privileges(call(operation, **fields), NAMES)
    assert isinstance(found, PlanRequired), found
    return found


def told(found: PlanRequired) -> list[str]:
    return [
        f"{privilege.access}{'?' if privilege.visible_is_enough else ''} "
        f"{privilege.resource.kind} {privilege.resource}"
        for privilege in found.required.privileges
    ]


def written(found: PlanRequired) -> dict[str, str | None]:
    return {pin.field: pin.text for pin in found.names}


def test_every_call_has_a_row() -> None:
    cases = {f.name for f in pb.Catalog.DESCRIPTOR.oneofs_by_name["cat_type"].fields}
    assert cases == CALLS.keys()


def test_a_call_within_a_dataframe_is_refused() -> None:
    for operation in CALLS.keys() - DATAFRAMES:
        assert isinstance(call_privileges(call(operation, root=False), NAMES), Unsupported)


T = "`spark_catalog`.`hr`.`t`"
TABLE = "table spark_catalog.hr.t"


@pytest.mark.parametrize(
    ("operation", "fields", "wanted", "pins"),
    [
        ("list_tables", {}, ["show? database spark_catalog.hr"], {"db_name": "`spark_catalog`.`hr`"}),
        ("list_tables", {"db_name": "default"}, [], {"db_name": "`spark_catalog`.`default`"}),
        ("list_views", {"db_name": "lake.raw"}, ["show? database lake.raw"], {"db_name": "`lake`.`raw`"}),
        ("list_functions", {}, ["show? database spark_catalog.hr"], {"db_name": "`spark_catalog`.`hr`"}),
        ("list_columns", {"table_name": "t"}, [f"show? {TABLE}"], {"table_name": T}),
        (
            "list_columns",
            {"table_name": "t", "db_name": "sales"},
            ["show? table spark_catalog.sales.t"],
            {"table_name": "`spark_catalog`.`sales`.`t`", "db_name": None},
        ),
        (
            "get_table",
            {"table_name": "lake.raw.t"},
            ["show? table lake.raw.t"],
            {"table_name": "`lake`.`raw`.`t`"},
        ),
        ("get_table", {"table_name": "v"}, [], {"table_name": "`v`"}),
        (
            "get_database",
            {"db_name": "hr"},
            ["show? database spark_catalog.hr"],
            {"db_name": "`spark_catalog`.`hr`"},
        ),
        ("database_exists", {"db_name": "hr"}, [], {"db_name": "`spark_catalog`.`hr`"}),
        ("table_exists", {"table_name": "t"}, [], {"table_name": T}),
        ("get_function", {"function_name": "upper"}, [], {}),
        ("drop_global_temp_view", {"view_name": "v"}, ["drop table spark_catalog.global_temp.v"], {}),
        (
            "get_function",
            {"function_name": "f"},
            ["show? udf spark_catalog.hr.f"],
            {"function_name": "`spark_catalog`.`hr`.`f`"},
        ),
        (
            "create_table",
            {"table_name": "t", "path": "/p", "options": {"header": "true"}},
            [f"create {TABLE}", f"select {TABLE}", "read url /p", "write url /p"],
            {"table_name": T},
        ),
        (
            "create_external_table",
            {"table_name": "t", "options": {"path": "/p"}},
            [f"create {TABLE}", f"select {TABLE}", "read url /p", "write url /p"],
            {"table_name": T},
        ),
        (
            "create_table",  # as ibis does
            {"table_name": "t", "options": {"FORMAT": "Parquet"}},
            [f"create {TABLE}", f"select {TABLE}"],
            {"table_name": T},
        ),
        (
            "create_table",
            {"table_name": "t", "source": "orc", "options": {"note": "of mine"}},
            [f"create {TABLE}", f"select {TABLE}"],
            {"table_name": T},
        ),
        ("drop_table", {"table_name": "t"}, [f"drop {TABLE}"], {"table_name": T}),
        ("drop_view", {"view_name": "t"}, [f"drop {TABLE}"], {"view_name": T}),
        ("truncate_table", {"table_name": "t"}, [f"delete {TABLE}"], {"table_name": T}),
        ("recover_partitions", {"table_name": "t"}, [f"alter {TABLE}"], {"table_name": T}),
        ("analyze_table", {"table_name": "t"}, [f"alter {TABLE}"], {"table_name": T}),
        ("cache_table", {"table_name": "t"}, [f"refresh {TABLE}"], {"table_name": T}),
        ("cache_table", {"table_name": "v"}, [], {"table_name": "`v`"}),
        ("uncache_table", {"table_name": "t"}, [f"refresh {TABLE}"], {"table_name": T}),
        ("refresh_table", {"table_name": "t"}, [f"refresh {TABLE}"], {"table_name": T}),
        ("is_cached", {"table_name": "t"}, [f"show? {TABLE}"], {"table_name": T}),
        ("clear_cache", {}, ["alter catalog spark_catalog"], {}),
        ("refresh_by_path", {"path": "/p"}, ["read url /p"], {}),
        (
            "create_database",
            {"db_name": "d", "properties": {"location": "/p", "comment": "x"}},
            ["create database spark_catalog.d", "read url /p", "write url /p"],
            {"db_name": "`spark_catalog`.`d`"},
        ),
        (
            "drop_database",
            {"db_name": "d", "cascade": True},
            ["drop database spark_catalog.d", "drop table spark_catalog.d.*"],
            {"db_name": "`spark_catalog`.`d`"},
        ),
        ("list_partitions", {"table_name": "t"}, [f"select {TABLE}"], {"table_name": T}),
        ("get_table_properties", {"table_name": "t"}, [f"show? {TABLE}"], {"table_name": T}),
        ("get_create_table_string", {"table_name": "t"}, [f"show? {TABLE}"], {"table_name": T}),
        ("set_current_database", {"db_name": "d"}, ["use? database spark_catalog.d"], {"db_name": "`d`"}),
        ("set_current_catalog", {"catalog_name": "lake"}, ["use? catalog lake"], {}),
        ("list_catalogs", {}, [], {}),
        ("list_databases", {}, [], {}),
        ("current_database", {}, [], {}),
        ("current_catalog", {}, [], {}),
    ],
)
def test_calls_want_what_the_same_sql_wants(
    operation: str, fields: dict[str, Any], wanted: list[str], pins: dict[str, str | None]
) -> None:
    found = required_of(operation, **fields)
    assert told(found) == wanted
    assert written(found) == pins


@pytest.mark.parametrize(
    ("operation", "fields", "words"),
    [
        ("get_table", {"table_name": "a.t", "db_name": "b"}, "another one is given"),
        ("get_table", {"table_name": "parquet.`/x`"}, "characters of paths"),
        ("get_table", {"table_name": "global_temp.x"}, "global temporary view"),
        ("list_tables", {"db_name": "global_temp"}, "reserved namespace"),
        ("set_current_database", {"db_name": "a.b"}, "requires a single-part namespace"),
        ("set_current_database", {"db_name": "lake.b"}, "is set within its catalog"),
        ("set_current_database", {"db_name": "lake"}, "is a catalog"),
        ("set_current_catalog", {"catalog_name": "nope"}, "CATALOG_NOT_FOUND"),
        ("create_table", {"table_name": "t", "source": "jdbc"}, "access other systems"),
        ("create_table", {"table_name": "t", "options": {"url": "x"}}, "the option"),
        ("create_table", {"table_name": "t", "options": {"format": "jdbc"}}, "the option"),
        ("create_table", {"table_name": "t", "options": {"format": "a.B"}}, "the option"),
        ("create_table", {"table_name": "t", "options": {"note": "of mine"}}, "the option"),
        ("create_table", {"table_name": "t", "source": "csv", "options": {"note": "x"}}, "the option"),
        ("create_table", {"table_name": "t", "source": "orc", "options": {"url": "x"}}, "the option"),
        ("create_database", {"db_name": "d", "properties": {"x": "y"}}, "the property"),
        ("drop_global_temp_view", {"view_name": "a.`b"}, "characters of paths"),
        ("table_exists", {"table_name": "a b c"}, "cannot be parsed as a name"),
    ],
)
def test_calls_that_are_refused(operation: str, fields: dict[str, Any], words: str) -> None:
    found = call_privileges(call(operation, **fields), NAMES)
    assert isinstance(found, Unsupported)
    assert words in found.why


def test_what_changes_the_session_or_the_catalog_says_so() -> None:
    assert required_of("set_current_database", db_name="d").required.effects == (
        UseNamespace("spark_catalog", ("d",)),
    )
    assert required_of("set_current_catalog", catalog_name="lake").required.effects == (
        UseNamespace("lake", None),
    )
    assert required_of("drop_temp_view", view_name="v").required.effects == (DropTempView("v"),)
    shared = TableName("spark_catalog", "global_temp", "v")
    assert required_of("drop_global_temp_view", view_name="v").required.effects == (
        CatalogChanged((shared,)),
    )
    table = TableName("spark_catalog", "hr", "t")
    assert required_of("drop_table", table_name="t").required.effects == (CatalogChanged((table,)),)
    refreshed = CatalogChanged((table,), meaning="stays")
    for operation in ("refresh_table", "recover_partitions"):
        assert required_of(operation, table_name="t").required.effects == (refreshed,)
    database = CatalogChanged(databases=(("spark_catalog", "d"),), meaning="stays")
    assert required_of("create_database", db_name="d").required.effects == (database,), "its tables stay"
    dropped = CatalogChanged(databases=(("spark_catalog", "d"),))
    assert required_of("drop_database", db_name="d").required.effects == (dropped,)


def test_what_shows_or_changes_rows_and_details_allows_no_obligation() -> None:
    table = TableName("spark_catalog", "hr", "t")
    for operation in ("truncate_table", "recover_partitions", "analyze_table"):
        assert required_of(operation, table_name="t").required.raw == (table,)
    for operation, as_serde in (("list_partitions", {}), ("get_create_table_string", {"as_serde": True})):
        assert required_of(operation, table_name="t", **as_serde).required.read == (table,)


def test_properties_and_the_statement_are_described_to_who_sees_a_part() -> None:
    filters = {
        "get_table_properties": AnswerFilter.PROPERTIES,
        "get_create_table_string": AnswerFilter.CREATE_STATEMENT,
    }
    for operation, expected in filters.items():
        required = required_of(operation, table_name="t").required
        assert (required.answer.filter, required.read) == (expected, ())
        assert required.described == TableName("spark_catalog", "hr", "t")


def test_lists_are_filtered_by_what_they_list() -> None:
    filters = {
        "list_catalogs": AnswerFilter.CONNECT_CATALOGS,
        "list_databases": AnswerFilter.CONNECT_DATABASES,
        "list_tables": AnswerFilter.CONNECT_TABLES,
        "list_views": AnswerFilter.CONNECT_TABLES,
        "list_functions": AnswerFilter.CONNECT_FUNCTIONS,
    }
    for operation, expected in filters.items():
        assert required_of(operation).required.answer.filter is expected
    described = required_of("list_columns", table_name="t").required
    assert described.answer.filter is AnswerFilter.CONNECT_COLUMNS
    assert described.described == TableName("spark_catalog", "hr", "t")


def test_whether_something_exists_is_a_secret_of_its_own() -> None:
    assert required_of("table_exists", table_name="t").secret == Resource.table("spark_catalog", "hr", "t")
    assert required_of("table_exists", table_name="v").secret is None
    assert required_of("database_exists", db_name="x").secret == Resource.database("spark_catalog", "x")
    assert required_of("database_exists", db_name="default").secret is None
    assert required_of("function_exists", function_name="f").secret == Resource.udf(
        "spark_catalog", "hr", "f"
    )
    assert required_of("function_exists", function_name="upper").secret is None


def test_a_function_that_the_session_registered_is_no_secret() -> None:
    context = replace(
        NAMES.context, handles=frozenset({SparkHandle("function", "f"), SparkHandle("table_function", "g")})
    )
    names = replace(NAMES, context=context)
    for name in ("f", "F", "g"):
        found = call_privileges(call("function_exists", function_name=name), names)
        assert isinstance(found, PlanRequired)
        assert found == PlanRequired()
        assert call_privileges(call("get_function", function_name=name), names) == PlanRequired()
    reading = replace(context, handles=context.handles | {mark_reading_function("f")})
    told = call_privileges(call("get_function", function_name="F"), replace(NAMES, context=reading))
    assert isinstance(told, Unsupported)
    other = call_privileges(call("function_exists", function_name="f", db_name="hr"), names)
    assert isinstance(other, PlanRequired)
    assert other.secret == Resource.udf("spark_catalog", "hr", "f")
