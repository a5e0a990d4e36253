"""Plans of DataFrames, explained without what policies say of the tables in them."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.model.statement import Cleared, PlanRequest
from gateway.reader.pool import ReaderPool
from gateway.wire.connect import pb
from tests.judge_world import World
from tests.pipeline.test_global_views import DATA as VIEWS
from tests.pipeline.test_plans import refused, sql_command
from tests.plan.frames import message, sql, table

pytestmark = pytest.mark.asyncio(loop_scope="session")

MASK = """
  - name: no region
    on: {catalog: spark_catalog, database: lab, table: filtered, column: region}
    mask: [{groups: [staff], type: CUSTOM, show: "concat('s3cret', region)"}]
"""
DATA = {**VIEWS, "pack": VIEWS["pack"] + MASK}


@pytest.mark.parametrize(
    ("mode", "shown"),
    [("simple", True), ("extended", True), ("formatted", True), ("cost", False), ("codegen", False)],
)
async def test_plans_are_explained_without_what_policies_say(
    reader: ReaderPool, mode: str, shown: bool
) -> None:
    """Statistics count hidden rows, and code has what is compared in it."""
    world = World(DATA)
    for frame in (
        table("lab.filtered").filter("id = 1"),
        sql("SELECT region FROM spark_catalog.lab.filtered"),
    ):
        verdict = await world.judge_plan(explained(frame, mode), reader, user="ann")
        assert isinstance(verdict, Cleared) is shown, verdict
        if isinstance(verdict, Cleared):
            assert b"`spark_catalog`.`lab`.`filtered`" in verdict.forwarded_plan
            assert b"CAST(NULL AS string) AS `region`" in verdict.forwarded_plan
            assert b"EMEA" not in verdict.forwarded_plan
            assert b"s3cret" not in verdict.forwarded_plan
    # In a text it is the same as over Thrift.
    if mode != "simple":
        text = sql_command(sql(f"EXPLAIN {mode.upper()} SELECT region FROM spark_catalog.lab.filtered"))
        verdict = await world.judge_plan(text, reader, user="ann")
        assert isinstance(verdict, Cleared) is shown, verdict
        assert not isinstance(verdict, Cleared) or b"EMEA" not in verdict.forwarded_plan
    for frame, views, code in (
        (table("v"), frozenset({"v"}), "NOT_GOVERNABLE"),
        (table("global_temp.over_filtered"), frozenset[str](), "ACCESS_DENIED"),
        (sql("SELECT * FROM global_temp.over_filtered"), frozenset[str](), "ACCESS_DENIED"),
    ):
        asked = explained(frame, mode)
        refused(await world.judge_plan(asked, reader, user="ann", temp_views=views), code, "plan")


def explained(frame: Any, mode: str) -> PlanRequest:
    request = pb.AnalyzePlanRequest()
    request.explain.plan.CopyFrom(message(frame))
    mode_number = pb.AnalyzePlanRequest.Explain.ExplainMode.Value(f"EXPLAIN_MODE_{mode.upper()}")
    request.explain.explain_mode = mode_number
    return PlanRequest(kind="analyze", message=request.SerializeToString(deterministic=True))
