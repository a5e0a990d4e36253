"""INSERT … REPLACE WHERE, which older Sparks make another plan of than the newest, and policies on all of it.

`make minors` runs this with the parser of each; the newest refuses all of these.
"""

from __future__ import annotations

import pytest

from gateway.model.spark_minors import NEWEST
from gateway.model.statement import Cleared, Refused
from gateway.reader.pool import ReaderPool
from tests.judge_world import World
from tests.readers import is_older

pytestmark = pytest.mark.asyncio(loop_scope="session")

WORLD = World()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("INSERT INTO hr.inbox REPLACE WHERE id = 1 SELECT 1, 'x'", "needs delete on table"),
        ("INSERT INTO sales.plain REPLACE WHERE id = 1 SELECT 1", "needs insert on table"),
        # Which rows are gone afterwards tells what the condition found in them.
        ("INSERT INTO hr.chest REPLACE WHERE pin = '1' SELECT 1, '1'", "needs select on"),
        (
            "INSERT INTO sales.tmp_own REPLACE WHERE region = 'x' SELECT 1, 'x'",
            "a row filter, column mask or hidden column of",
        ),
        (
            "INSERT INTO sales.tmp_card REPLACE WHERE number = 'x' SELECT 1, 'x'",
            "a row filter, column mask or hidden column of",
        ),
        ("INSERT INTO sales.tmp_x REPLACE WHERE id IN (SELECT id FROM hr.chest) SELECT 1", "needs select on"),
        (
            "INSERT INTO sales.tmp_x REPLACE WHERE reflect('java.lang.System', 'getenv', 'x') = id SELECT 1",
            "any Java method",
        ),
    ],
)
async def test_no_way_past_a_policy(reader: ReaderPool, text: str, why: str) -> None:
    verdict = await WORLD.judge(text, reader, user="bob")
    assert isinstance(verdict, Refused), verdict
    if is_older(reader, str(NEWEST)):
        assert why in verdict.message


async def test_what_the_condition_reads_is_guarded(reader: ReaderPool) -> None:
    where = "id IN (SELECT id FROM hr.employee WHERE email = 'x')"
    text = f"INSERT INTO sales.tmp_x REPLACE WHERE {where} SELECT id FROM hr.employee"
    verdict = await WORLD.judge(text, reader, user="bob")
    if not is_older(reader, str(NEWEST)):
        assert isinstance(verdict, Refused)
        return
    assert isinstance(verdict, Cleared), verdict
    assert verdict.forwarded.count("WHERE (region = 'EMEA')") == 2
    assert verdict.forwarded.count("sha2(") == 2
