"""Of which statements Spark's errors are told whole: of those in which nothing is guarded or hidden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.model.statement import Cleared, PlanRequest
from gateway.pipeline import Rules
from gateway.reader.pool import ReaderPool
from tests.judge_world import World
from tests.plan.frames import message, sql, table

pytestmark = pytest.mark.asyncio(loop_scope="session")
STAR = Rules(star="visible")

TEXTS = {
    "SELECT a FROM plain": ("ann", "bob"),
    "SELECT 1": ("ann", "bob"),
    "SELECT name FROM employee": ("ann",),
    "SELECT id FROM ledger": ("ann",),
    "SELECT a.a FROM plain a JOIN hr.employee b ON a.a = b.id": ("ann",),
    "SELECT who FROM directory": ("ann",),
    "DESCRIBE directory": ("ann",),
    "DESCRIBE employee": ("ann",),
    "INSERT INTO ledger SELECT 1, 'x'": ("ann",),
    "ALTER TABLE chest ADD COLUMNS (x INT)": ("ann",),
    "CREATE TEMP VIEW w AS SELECT id FROM ledger": ("ann",),
}
"""Statement → those of ann, who may do everything, and bob whose errors are whole."""


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.mark.parametrize("text", TEXTS)
async def test_in_sql(text: str, world: World, reader: ReaderPool) -> None:
    database = "default" if " plain" in text else "hr"
    for user in ("ann", "bob"):
        text_there = text.replace("FROM plain", "FROM default.plain") if database == "default" else text
        verdict = await world.judge(text_there, reader, user=user, rules=STAR)
        if isinstance(verdict, Cleared):
            assert verdict.shows_errors is (user in TEXTS[text]), (user, verdict.forwarded)
        else:
            assert user == "bob", verdict


FRAMES: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "plain": (lambda: table("default.plain").select("a"), ("ann", "bob")),
    "guarded": (lambda: table("hr.employee").select("name"), ("ann",)),
    "hidden": (lambda: table("hr.ledger").select("id"), ("ann",)),
    "in a text": (lambda: sql("SELECT id FROM hr.ledger"), ("ann",)),
    "beside a text": (lambda: table("default.plain").join(sql("SELECT name FROM hr.employee")), ("ann",)),
}


@pytest.mark.parametrize("name", FRAMES)
async def test_in_dataframes(name: str, world: World, reader: ReaderPool) -> None:
    frame, whole = FRAMES[name]
    plan = message(frame()).SerializeToString(deterministic=True)
    for user in ("ann", "bob"):
        verdict = await world.judge_plan(
            PlanRequest(kind="execute", message=plan), reader, user=user, rules=STAR
        )
        assert isinstance(verdict, Cleared), (user, verdict)
        assert verdict.shows_errors is (user in whole), (user, verdict.forwarded)


async def test_a_table_that_is_not_there_is_kept_in_mind(world: World, reader: ReaderPool) -> None:
    verdict = await world.judge("SELECT * FROM nowhere", reader, user="ann", rules=STAR)
    assert isinstance(verdict, Cleared)
    assert verdict.shows_errors
    assert [written for _, written in verdict.missing] == [("nowhere",)]


async def test_where_a_text_was_changed_is_told(world: World, reader: ReaderPool) -> None:
    verdict = await world.judge("SELECT name FROM employee", reader, user="ann", rules=STAR)
    assert isinstance(verdict, Cleared)
    (text,) = verdict.rewritten
    assert (text.original, text.forwarded) == ("SELECT name FROM employee", verdict.forwarded)
    ((start, end, length),) = text.changes
    assert text.original[start:end] == "employee"
    assert text.forwarded[start : start + length] == "`spark_catalog`.`hr`.`employee`"
