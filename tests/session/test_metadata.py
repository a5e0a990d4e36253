"""Metadata calls answer in HiveServer2's schemas, for any pattern, only what may be known."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from impala._thrift_gen.TCLIService.ttypes import TGetInfoType

from gateway.errors import InvalidHandle, InvalidRequest, LimitExceeded
from gateway.model.statement import AnswerFilter, AnswerRule, CreateTempView
from gateway.session.identifiers import Handle
from gateway.session.limits import SessionLimits
from gateway.session.metadata import TYPE_INFO, Patterns, describe, function_rows, matcher, type_info_rows
from gateway.session.metadata_calls import METADATA_CALLS
from gateway.session.operation import Batch
from gateway.session.server_info import server_info
from tests.session.fakes import BOB, CLIENT, Sink, World


def filled(limits: SessionLimits | None = None) -> World:
    world = World(limits)
    world.catalog.add("spark_catalog.hr.employee", ("id", "int"), ("ssn", "string"), ("pay", "decimal(10,2)"))
    world.catalog.add("spark_catalog.hr.secret", ("id", "int"))
    world.catalog.add("spark_catalog.sales.orders", ("id", "bigint"))
    world.catalog.add("spark_catalog.sales.big_orders", ("id", "bigint"), view=True)
    world.catalog.add("lake.raw.events", ("payload", "struct<a:int,B:string>"))
    world.hidden = {"spark_catalog.hr.secret", "spark_catalog.hr.employee.ssn"}
    return world


async def ask(
    world: World, call: str, types: list[str] | None = None, handle: Handle | None = None, **patterns: Any
) -> list[Any]:
    handle = handle or await world.sessions.open_session(BOB, CLIENT, protocol_version=9)
    kind = METADATA_CALLS[call]
    opened = await world.sessions.metadata(BOB, handle, kind, call, Patterns(**patterns), types)
    batch = await world.sessions.fetch(
        BOB, opened.handle, kind, orientation=0, max_rows=10_000, fetch_type=0, seqid=1, sink=Sink()
    )
    assert isinstance(batch, Batch)
    assert all(len(row) == len(batch.schema) for row in batch.rows)
    await world.sessions.close_operation(BOB, opened.handle, kind)
    return list(batch.rows)


async def test_catalogs_schemas_and_table_types() -> None:
    world = filled()
    assert await ask(world, "GetCatalogs") == [("lake",), ("spark_catalog",)]
    assert await ask(world, "GetSchemas") == [
        ("raw", "lake"),
        ("hr", "spark_catalog"),
        ("sales", "spark_catalog"),
    ]
    assert await ask(world, "GetSchemas", schema="s_les") == [("sales", "spark_catalog")]
    assert await ask(world, "GetTableTypes") == [("TABLE",), ("VIEW",)]


@pytest.mark.parametrize("everything", [None, "", "%", "*", ".*"])
async def test_tables_across_all_catalogs(everything: str | None) -> None:
    rows = await ask(filled(), "GetTables", catalog=everything, schema=everything, table=everything)
    assert [row[:4] for row in rows] == [
        ("lake", "raw", "events", "TABLE"),
        ("spark_catalog", "hr", "employee", "TABLE"),
        ("spark_catalog", "sales", "big_orders", "VIEW"),
        ("spark_catalog", "sales", "orders", "TABLE"),
    ]


async def test_tables_narrowed() -> None:
    async def names(types: list[str] | None = None, **patterns: Any) -> list[str]:
        return [row[2] for row in await ask(filled(), "GetTables", types, **patterns)]

    assert await names(["VIEW"]) == ["big_orders"]
    assert await names(["EXTERNAL_TABLE", "VIRTUAL_VIEW"], schema="sales") == ["big_orders", "orders"]
    assert await names(["SYNONYM"]) == []
    assert await names(catalog="lake") == ["events"]
    assert await names(table="%ORDERS") == ["big_orders", "orders"]
    assert await names(table="big\\_orders") == ["big_orders"]
    assert await names(table="o|e") == []
    assert await names(table="orders.*") == []


async def test_the_sessions_temporary_views_are_listed() -> None:
    world = filled()
    world.judge.effects = [("^CREATE", (CreateTempView("Mine"),))]
    handle = await world.sessions.open_session(BOB, CLIENT, protocol_version=9)
    await world.sessions.execute(BOB, handle, "CREATE TEMP VIEW Mine AS SELECT 1", run_async=False)
    rows = await ask(world, "GetTables", handle=handle, table="mi%")
    assert [row[:4] for row in rows] == [("", "", "mine", "VIEW")]
    assert await ask(world, "GetTables", handle=handle, table="mi%", schema="hr") == []
    assert await ask(world, "GetTables", ["TABLE"], handle=handle, table="mi%") == []


async def test_columns_without_the_hidden_ones_and_without_gaps() -> None:
    rows = await ask(filled(), "GetColumns", schema="hr")
    assert [(row[2], row[3], row[4], row[5], row[6], row[8], row[16]) for row in rows] == [
        ("employee", "id", 4, "INT", 10, 0, 1),
        ("employee", "pay", 3, "DECIMAL(10,2)", 10, 2, 2),
    ]
    (event,) = await ask(filled(), "GetColumns", catalog="lake", column="pay%")
    assert event[4:6] == (2002, "STRUCT<a:int,B:string>")
    assert await ask(filled(), "GetColumns", table="secret") == []


async def test_texts_of_a_length_are_told_with_it() -> None:
    """Spark tells their lengths in its own list of columns alone; it is asked once for a database."""
    world = filled()
    for table in ("employee", "other"):
        world.catalog.add(
            f"spark_catalog.hr.{table}", ("code", "string"), ("id", "int"), ("tags", "array<string>")
        )
    world.hidden.clear()
    rows = await ask(world, "GetColumns", schema="hr", column="code")
    assert [(row[2], row[4], row[5], row[6], row[15]) for row in rows] == [
        ("employee", 1, "CHAR(5)", 5, 5),
        ("other", 12, "STRING", 2**31 - 1, 2**31 - 1),
    ]
    assert world.backend.asked_lengths == [("hr", None)]
    rows = await ask(world, "GetColumns", schema="hr", table="employee", column="tags")
    assert [row[4:6] for row in rows] == [(2003, "ARRAY<CHAR(3)>")]
    world.backend.asked_lengths.pop()
    await ask(world, "GetColumns", schema="hr", table="employee")
    assert world.backend.asked_lengths[1:] == [("hr", "employee")]


async def test_functions_come_from_a_judged_statement() -> None:
    world = filled()
    world.judge.rules["SHOW ALL FUNCTIONS"] = AnswerRule(
        filter=AnswerFilter.FUNCTIONS, catalog="spark_catalog"
    )
    world.backend.answers["SHOW ALL FUNCTIONS"] = [
        ("abs",),
        ("spark_catalog.hr.f",),
        ("spark_catalog.sales.g",),
    ]
    world.hidden |= {"spark_catalog.hr"}
    assert [row[:3] for row in await ask(world, "GetFunctions", table="%")] == [
        ("", "", "abs"),
        ("spark_catalog", "sales", "g"),
    ]
    # Spark lists those of the session's database; of another one that is asked for, a statement of its own.
    listing = "SHOW USER FUNCTIONS IN `spark_catalog`.`sales`"
    world.backend.answers[listing] = [("spark_catalog.sales.g",), ("spark_catalog.sales.h",)]
    world.judge.rules[listing] = AnswerRule(filter=AnswerFilter.FUNCTIONS, catalog="spark_catalog")
    asked = [row[:3] for row in await ask(world, "GetFunctions", schema="sa*", table="%")]
    assert asked == [("spark_catalog", "sales", "g"), ("spark_catalog", "sales", "h")]
    other = filled()
    other.judge.refused = "SHOW USER"
    other.judge.rules, other.backend.answers = world.judge.rules, world.backend.answers
    assert [row[2] for row in await ask(other, "GetFunctions", schema="sales", table="%")] == ["g"]
    assert await ask(world, "GetFunctions", table="a%|nothing") == [
        ("", "", "abs", "Usage: abs(expr)", 0, "x.Abs")
    ]
    assert await ask(world, "GetFunctions", table="_") == [
        ("spark_catalog", "sales", "g", "", 0, "spark_catalog.sales.g")
    ]
    assert world.backend.asked_functions == 1, "what is built in is the same for everybody"


def test_no_session_is_told_the_text_of_a_function_of_another() -> None:
    told = {
        "own": ('Usage: {"sqlFunction.query":"SELECT 4711"}', "own"),
        "abs": ("Usage: abs(expr)", "x.Abs"),
    }
    rows = function_rows(["own", "abs"], None, "%", told).rows
    assert [row[3] for row in rows] == ["", "Usage: abs(expr)"]


async def test_types_and_keys() -> None:
    world = filled()
    types = await ask(world, "GetTypeInfo")
    assert len(types) == 20
    assert ("DECIMAL", 3, 38) in [row[:3] for row in types]
    assert await ask(world, "GetPrimaryKeys", table="employee") == []
    assert await ask(world, "GetCrossReference") == []


async def test_a_metadata_call_is_recorded_like_a_statement() -> None:
    world = filled()
    await ask(world, "GetTables", ["VIEW"], schema="sales")
    (event,) = world.ledger.of("decided")
    assert event.body["reqData"] == "GetTables(schema=sales, types=VIEW)"
    assert event.user == "bob"
    (end,) = world.ledger.of("completed")
    assert (end.body["outcome"], end.body["rows"]) == ("finished", 1)


async def test_a_ledger_that_is_down_refuses_metadata_too() -> None:
    world = filled()
    handle = await world.sessions.open_session(BOB, CLIENT, protocol_version=9)
    world.ledger.down = True
    with pytest.raises(Exception, match="disk is full"):
        await world.sessions.metadata(BOB, handle, 4, "GetTables", Patterns())


async def test_an_answer_without_end_is_refused_and_recorded() -> None:
    world = filled(SessionLimits(answer_rows=2))
    with pytest.raises(LimitExceeded, match="narrow the pattern"):
        await ask(world, "GetTables")
    assert world.ledger.outcomes() == ["failed"]


async def test_another_kind_of_handle_is_invalid() -> None:
    world = filled()
    handle = await world.sessions.open_session(BOB, CLIENT, protocol_version=9)
    opened = await world.sessions.metadata(BOB, handle, 4, "GetTables", Patterns())
    with pytest.raises(InvalidHandle, match="opType=GET_COLUMNS"):
        await world.sessions.status(BOB, opened.handle, 6)


# -- patterns ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("a%", "ABC", True),
        ("a_c", "abc", True),
        ("a_c", "ac", False),
        ("a\\_c", "abc", False),
        ("a\\_c", "a_c", True),
        ("100\\%", "100%", True),
        ("a\\\\b", "a\\b", True),
        ("a\\b", "a\\b", True),
        ("a\\", "a\\", True),
        ("a.c", "abc", False),
        ("(a", "(a", True),
        ("[a-z]", "b", False),
        ("x" * 2000, "x" * 2000, False),
        ("a%|c", "abc", True),
        ("a%|c", "C", True),
        ("a%|c", "cd", False),
        ("a|c", "a|c", True),
        ("a*|c", "abc", True),
        ("*b*", "abc", True),
        ("a*", "a*", True),
        ("a_\\||%", "anything", True),
    ],
)
def test_patterns_are_jdbcs(pattern: str, name: str, matches: bool) -> None:
    assert matcher(pattern)(name) is matches


@given(st.text(max_size=30))
def test_a_name_matches_itself_once_escaped(name: str) -> None:
    escaped = re.sub(r"([%_\\])", r"\\\1", name)
    assert matcher(escaped)(name)


@given(st.text(alphabet="%_\\a.*|(", max_size=12), st.text(alphabet="ab%_.", max_size=12))
def test_any_pattern_is_answered(pattern: str, name: str) -> None:
    matcher(pattern)(name)


def test_a_pattern_of_many_wildcards_is_quick() -> None:
    assert not matcher("%" * 500 + "b")("a" * 200)


# -- types and information -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "number", "size", "digits"),
    [
        ("int", 4, 10, 0),
        ("bigint", -5, 19, 0),
        ("decimal(38,18)", 3, 38, 18),
        ("decimal(5)", 3, 5, 0),
        ("varchar(20)", 12, 20, None),
        ("char(3)", 1, 3, None),
        ("string", 12, 2**31 - 1, None),
        ("string collate UTF8_LCASE", 12, 2**31 - 1, None),
        ("timestamp_ntz", 93, 29, 9),
        ("interval year to month", 1111, None, None),
        ("array<decimal(3,1)>", 2003, None, None),
        ("map<string,int>", 2000, None, None),
        ("variant", 1111, None, None),
        ("type_of_tomorrow", 1111, None, None),
        ("", 1111, None, None),
    ],
)
def test_types_as_drivers_know_them(declared: str, number: int, size: int | None, digits: int | None) -> None:
    type_ = describe(declared)
    assert (type_.number, type_.size, type_.digits) == (number, size, digits)


def test_type_info_rows_fit_their_schema() -> None:
    assert {len(row) for row in type_info_rows()} == {len(TYPE_INFO)}


def info(number: int) -> Any:
    return server_info(
        number,
        spark_version="4.3.0",
        keywords=("ADD", "ZONE"),
        user="bob",
        max_statement_chars=2_000_000,
    )


def test_every_information_type_of_hiveserver2_is_answered() -> None:
    for number in TGetInfoType._VALUES_TO_NAMES:
        value = info(number)
        assert isinstance(value.value, str) == (value.form == "string")
        if value.form == "smallint":
            assert -(2**15) <= value.value < 2**15


def test_information_that_drivers_decide_by() -> None:
    assert [info(n).value for n in (13, 17, 18, 29, 14, 41, 47)] == [
        "Spark SQL",
        "Spark SQL",
        "4.3.0",
        "`",
        "\\",
        ".",
        "bob",
    ]


@pytest.mark.parametrize("number", [-1, 9999, 2**31 - 1])
def test_an_information_type_that_nobody_defined_is_an_error(number: int) -> None:
    with pytest.raises(InvalidRequest):
        info(number)
