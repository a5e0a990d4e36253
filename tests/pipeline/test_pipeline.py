"""The judge against the real reader: what is forwarded, what is refused, and the laws."""

from __future__ import annotations

import re
from typing import Any
from unittest.mock import patch

import pytest

from gateway.model.catalog import TableName
from gateway.model.reading import NotRead, Proof
from gateway.model.resource import Resource
from gateway.model.statement import Cleared, Refused
from gateway.pipeline import Rules
from gateway.policy.engine import engine_for
from gateway.reader.pool import ReaderPool
from tests.judge_world import BOBS_EMPLOYEES, World, load_cases

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture(scope="module")
def world() -> World:
    return World()


DEFINER = re.compile(r"'sluice\.definer\.[0-9a-f]{64}' = '[0-9a-f]+'")


def guarded_employee(world: World) -> str:
    table = world.tables[TableName("spark_catalog", "hr", "employee")]
    resource = Resource.table("spark_catalog", "hr", "employee")
    view = engine_for(world.policies).table_view(world.principal("bob"), resource, table.columns, "select")
    return BOBS_EMPLOYEES.format(email=view.masks["email"].expression)


@pytest.mark.parametrize(
    "case",
    [*load_cases("statements.yaml"), *load_cases("commands.yaml")],
    ids=lambda case: f"{case['as']}: {case['sql']}",
)
async def test_statement(case: dict[str, Any], world: World, reader: ReaderPool) -> None:
    verdict = await world.judge(
        case["sql"],
        reader,
        user=case["as"],
        use=case.get("use", "hr"),
        temp_views=frozenset(case.get("temp_views", ())),
    )
    if "refused" in case:
        code, words = case["refused"]
        assert isinstance(verdict, Refused), verdict
        assert verdict.code == code, verdict
        assert words in verdict.message
        return
    assert isinstance(verdict, Cleared), verdict
    if case.get("unchanged"):
        assert verdict.forwarded == case["sql"]
    elif "forwards" in case:
        forwarded = DEFINER.sub("{definer}", verdict.forwarded)
        assert forwarded == case["forwards"].replace("{employee}", guarded_employee(world))
    else:
        for words in case["forwards_like"]:
            assert any(word in verdict.forwarded for word in words.split("|")), verdict.forwarded


async def test_a_star_shows_what_is_visible_when_the_setting_says_so(
    world: World, reader: ReaderPool
) -> None:
    rules = Rules(star="visible", barriers="always")
    verdict = await world.judge("SELECT * FROM employee", reader, user="bob", rules=rules)
    assert isinstance(verdict, Cleared), verdict
    assert verdict.forwarded == f"SELECT * FROM ({guarded_employee(world)}) AS `employee`"
    named = await world.judge("SELECT *, salary FROM employee", reader, user="bob", rules=rules)
    assert isinstance(named, Cleared)
    assert named.forwarded == f"SELECT *, salary FROM ({guarded_employee(world)}) AS `employee`"


async def test_invoker_views_need_the_base_tables(world: World, reader: ReaderPool) -> None:
    verdict = await world.judge("SELECT * FROM directory", reader, user="bob", rules=Rules(views="invoker"))
    assert isinstance(verdict, Refused), verdict
    assert "every column that the view reads of table spark_catalog.hr.employee" in verdict.message
    assert "salary" not in verdict.message


async def test_conditions_over_a_view_are_none_of_what_it_reads(world: World, reader: ReaderPool) -> None:
    verdict = await world.judge("SELECT * FROM directory WHERE who > 'b'", reader, user="ann")
    assert isinstance(verdict, Cleared), verdict
    found = {scan.table.table: scan.conditions for scan in verdict.scans}
    assert set(found.values()) == {frozenset({"who"}), None}


async def test_what_a_cleared_statement_records(world: World, reader: ReaderPool) -> None:
    verdict = await world.judge("SELECT name, email FROM employee WHERE id > 3", reader, user="bob")
    assert isinstance(verdict, Cleared)
    (scan,) = verdict.scans
    assert scan.table == TableName("spark_catalog", "hr", "employee")
    assert scan.columns == ("email", "id", "name")
    assert scan.conditions == frozenset({"id"})
    assert {getattr(o, "column", "rows") for o in scan.obligations} == {"email", "rows"}
    assert {decision.policy.name for decision in verdict.decisions} == {"analysts read employees"}
    assert verdict.readers_agree is True


@pytest.mark.parametrize("sql", ["", ";", "-- nothing", "SELECT 1; SELECT 2", "SELECT 'open", "SELECT \x00"])
async def test_what_is_no_statement_is_refused(sql: str, world: World, reader: ReaderPool) -> None:
    assert isinstance(await world.judge(sql, reader, user="ann"), Refused)


@pytest.mark.parametrize(
    ("sql", "details"),
    [
        ("DESCRIBE TABLE EXTENDED department", True),
        ("DESCRIBE TABLE EXTENDED employee", False),
        ("DESCRIBE TABLE EXTENDED directory", False),  # its sources are masked, though it is not
        ("DESCRIBE TABLE EXTENDED v", False),
        ("SHOW TBLPROPERTIES v", False),
        ("DESCRIBE EXTENDED department id", True),
        ("DESCRIBE EXTENDED employee name", False),
        ("DESCRIBE EXTENDED directory name", False),
        ("DESCRIBE EXTENDED sales.fit id", False),
    ],
)
async def test_details_are_told_of_what_carries_no_obligation(
    sql: str, details: bool, world: World, reader: ReaderPool
) -> None:
    verdict = await world.judge(sql, reader, user="bob", temp_views=frozenset({"v"}))
    assert isinstance(verdict, Cleared), verdict
    assert verdict.answer.details is details


async def test_what_was_not_written_as_judged_is_not_forwarded(world: World, reader: ReaderPool) -> None:
    with patch("gateway.sql.guard.apply", lambda text, splices: text):
        verdict = await world.judge("SELECT name FROM employee", reader, user="bob")
    assert isinstance(verdict, Refused), verdict
    assert "could not prove" in verdict.message


async def test_a_parser_that_cannot_prove_now_is_not_the_statement_s_fault(
    world: World, reader: ReaderPool
) -> None:
    busy = NotRead("UNAVAILABLE", "the parser service is busy with other statements; try again")

    async def prove(*_: object, **__: object) -> Proof:
        return Proof(holds=False, why=busy.message, not_read=busy)

    with patch.object(reader, "prove", prove):
        verdict = await world.judge("SELECT name FROM employee", reader, user="bob")
    assert isinstance(verdict, Refused), verdict
    assert (verdict.code, verdict.sqlstate, verdict.message) == ("UNAVAILABLE", "57000", busy.message)


async def test_a_name_that_no_pass_has_judged_is_not_forwarded(world: World, reader: ReaderPool) -> None:
    sql = "DROP TABLE spark_catalog.sales.tmp_x"
    assert isinstance(await world.judge(sql, reader, user="bob"), Cleared)
    with patch("gateway.sql.guard.pin_targets", lambda reading, required, names: ((), frozenset())):
        verdict = await world.judge(sql, reader, user="bob")
    assert isinstance(verdict, Refused), verdict
    assert "not authorized with the statement" in verdict.message


@pytest.mark.parametrize("name", ["employee", "hr.employee", "spark_catalog.hr.employee"])
async def test_a_scan_that_is_lost_on_the_way_is_no_temporary_view(
    world: World, reader: ReaderPool, name: str
) -> None:
    with patch("gateway.pipeline.texts.scans_of", lambda reading, names, text: ()):
        for text in (f"SELECT name FROM {name}", f"SELECT current_user(), name FROM {name}"):
            verdict = await world.judge(text, reader, user="bob")
            assert isinstance(verdict, Refused)
            assert "authorized with the statement" in verdict.message
