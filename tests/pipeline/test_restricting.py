"""UPDATE and DELETE of a table of which one sees a part change what one sees, over both endpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention
from pyspark.sql.types import BooleanType

from gateway.model.handles import SparkHandle
from gateway.model.spark_minors import NEWEST
from gateway.model.statement import (
    Cleared,
    NeedsCatalog,
    PlanRequest,
    Refused,
    SessionContext,
    Statement,
    Verdict,
)
from gateway.pipeline import Rules, judge
from gateway.plan.merging import read_plan_merge
from gateway.plan.reading import PlanReading
from gateway.plan.walk import read_plan
from gateway.reader.pool import ReaderPool
from gateway.wire.connect import parse, pb
from tests.judge_world import World
from tests.pipeline.test_kept import command, over_connect, over_thrift
from tests.plan.frames import message, table

pytestmark = pytest.mark.asyncio(loop_scope="session")

DATA: dict[str, Any] = {
    "catalogs": ["spark_catalog", "ice"],
    "tables": {
        "spark_catalog.lab.t": {"id": "int", "region": "string", "pay": "int"},
        "spark_catalog.lab.rows": {"id": "int", "region": "string", "pay": "int"},
        "spark_catalog.lab.plain": {"id": "int", "region": "string", "pay": "int"},
        "spark_catalog.lab.hidden": {"id": "int", "region": "string", "pay": "int"},
        "spark_catalog.lab.itself": {"id": "int", "region": "string"},
        "spark_catalog.lab.reading": {"id": "int"},
        "spark_catalog.lab.u": {"id": "int"},
        "spark_catalog.lab.s": {"id": "int", "owner": "string"},
        "spark_catalog.lab.checked": {"id": "int", "pay": "int"},
        "spark_catalog.lab.fields": {"id": "int", "owner": "string", "s": "struct<owner:string>"},
        "ice.lab.t": {"id": "int", "region": "string", "pay": "int"},
    },
    "views": {},
    "people": {"ann": {"groups": []}, "bob": {"groups": []}},
    "pack": """
service: spark
policies:
  - {name: all, on: {catalog: "*", database: lab, table: [t, rows, plain, u, s, itself, checked, fields,
     reading], column: "*"}, allow: [{users: [ann], access: [all]}, {users: [bob], access: [select]}]}
  - {name: some, on: {catalog: "*", database: lab, table: hidden, column: [id, region]},
     allow: [{users: [ann], access: [select, update]}]}
  - {name: gone, on: {catalog: "*", database: lab, table: hidden}, allow: [{users: [ann], access: [delete]}]}
  - {name: code, on: {catalog: system, database: session, udf: "*"},
     allow: [{users: [ann], access: [execute]}]}
  - {name: itself, on: {catalog: "*", database: lab, table: itself},
     filter: [{users: [ann], where: "itself.region = 'EMEA'"}]}
  - {name: rows, on: {catalog: "*", database: lab, table: [t, rows, plain, hidden]},
     filter: [{users: [ann, bob], where: "region = 'EMEA'"}]}
  - {name: reading, on: {catalog: "*", database: lab, table: reading},
     filter: [{users: [ann], where: "id IN (SELECT u.id FROM spark_catalog.lab.u u)"}]}
  - {name: own, on: {catalog: "*", database: lab, table: fields},
     filter: [{users: [ann], where: "s.owner = 'ann'"}]}
  - {name: pay, on: {catalog: "*", database: lab, table: [t, checked], column: pay},
     mask: [{users: [ann], type: MASK_NULL}]}
""",
}
ROWS = "system.builtin.coalesce(CASE WHEN (region = 'EMEA') THEN ({}\n) END, FALSE)"


@pytest.fixture(scope="module")
def world() -> World:
    made = World(DATA)
    for name, one in made.tables.items():
        provider = {"plain": "parquet"}.get(name.table, "iceberg" if name.catalog == "ice" else "delta")
        checks = "PAY > id" if name.table == "checked" else ""
        made.tables[name] = replace(one, provider=provider, checks=checks)
    return made


async def both(world: World, reader: ReaderPool, text: str, user: str = "ann") -> list[Verdict]:
    return [
        await over_thrift(world, reader, text, user),
        await over_connect(world, reader, command(text), user),
    ]


T = "`spark_catalog`.`lab`.`rows`"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("DELETE FROM rows WHERE id = 3", f"DELETE FROM {T} WHERE {ROWS.format(' id = 3')}"),
        (
            "DELETE FROM rows AS x WHERE x.id < 3 OR 1 / x.id > 0 -- all",
            f"DELETE FROM {T} AS x WHERE {ROWS.format(' x.id < 3 OR 1 / x.id > 0 -- all')}",
        ),
        ("DELETE FROM rows WHERE TRUE", f"DELETE FROM {T} WHERE {ROWS.format(' TRUE')}"),
        (
            "UPDATE ice.lab.t SET region = upper(region), id = id + 1 WHERE (id) IN (1, 2)",
            "UPDATE `ice`.`lab`.`t` SET region = upper(region), id = id + 1 WHERE "
            + ROWS.format(" (id) IN (1, 2)"),
        ),
    ],
)
async def test_rows_that_are_not_seen_stay(world: World, reader: ReaderPool, text: str, written: str) -> None:
    thrift, connect = await both(world, reader, text)
    assert isinstance(thrift, Cleared), thrift
    assert isinstance(connect, Cleared), connect
    assert thrift.forwarded.replace("`ice`.`lab`.`t`", "ice.lab.t") == written.replace(
        "`ice`.`lab`.`t`", "ice.lab.t"
    )
    assert not thrift.shows_errors
    assert thrift.hides_target
    assert connect.hides_target
    assert [scan.obligations != () for scan in thrift.scans] == [True]


U = "`spark_catalog`.`lab`.`u`"
ON_T = "MERGE INTO t USING u ON t.id = u.id"
INSERTS = "WHEN NOT MATCHED THEN INSERT *"
HERE = "`spark_catalog`.`lab`.`rows`.`region` = 'EMEA'"
IN_X = "`x`.`region` = 'EMEA'"
KEPT = "system.builtin.coalesce(CASE WHEN ({}) THEN ({}\n) END, FALSE)"


async def test_a_merge_whose_condition_cannot_fail_is_a_join(world: World, reader: ReaderPool) -> None:
    async def judge(text: str) -> str:
        statement = Statement(
            text=text, principal=world.principal("ann"), context=SessionContext(namespace=("lab",))
        )
        verdict = await world.judge_statement(statement, reader, Rules())
        assert isinstance(verdict, Cleared), verdict
        return verdict.forwarded

    behind = "WHEN NOT MATCHED THEN INSERT (id) VALUES (u.id)"
    assert await judge(f"MERGE INTO rows USING u ON rows.id = u.id {behind}") == (
        f"MERGE INTO {T} USING {U} ON ({HERE}) AND ( rows.id = u.id \n) {behind}"
    )
    # A text compared with a number is cast, and a region may be none.
    assert "coalesce(" in await judge(f"MERGE INTO rows USING u ON rows.region = u.id {behind}")
    assert "coalesce(" in await judge(
        f"MERGE INTO rows USING (SELECT 1 / id AS id FROM u) u ON rows.id = u.id {behind}"
    )


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (
            "MERGE INTO rows AS x USING (SELECT id FROM u WHERE id > 1) AS s ON x.id IN (1 / s.id, 2) "
            "WHEN MATCHED AND CASE WHEN s.id > 1 THEN TRUE ELSE FALSE END THEN UPDATE SET pay = s.id "
            "WHEN NOT MATCHED BY TARGET AND s.id > 2 THEN INSERT (id) VALUES (s.id) "
            "WHEN NOT MATCHED BY SOURCE AND (1 / x.id > 2) -- all\n THEN UPDATE SET pay = 0 "
            "WHEN NOT MATCHED BY SOURCE THEN DELETE;",
            f"MERGE INTO {T} AS x USING (SELECT id FROM {U} WHERE id > 1) AS s ON "
            f"{KEPT.format(IN_X, ' x.id IN (1 / s.id, 2) ')} "
            "WHEN MATCHED AND CASE WHEN s.id > 1 THEN TRUE ELSE FALSE END THEN UPDATE SET pay = s.id "
            "WHEN NOT MATCHED BY TARGET AND s.id > 2 THEN INSERT (id) VALUES (s.id) "
            f"WHEN NOT MATCHED BY SOURCE AND {KEPT.format(IN_X, ' (1 / x.id > 2) -- all' + chr(10) + ' ')} "
            "THEN UPDATE SET pay = 0 "
            f"WHEN NOT MATCHED BY SOURCE AND ({IN_X}) THEN DELETE;",
        ),
        (  # What is masked may be inserted, and the source may have a column of the name.
            "MERGE INTO t USING (SELECT id, id AS pay FROM u) AS s ON t.id = 1 / s.pay "
            "WHEN MATCHED AND s.pay > 1 THEN UPDATE SET id = s.pay WHEN NOT MATCHED THEN INSERT *",
            f"MERGE INTO `spark_catalog`.`lab`.`t` USING (SELECT id, id AS pay FROM {U}) AS s ON "
            + KEPT.format("`spark_catalog`.`lab`.`t`.`region` = 'EMEA'", " t.id = 1 / s.pay ")
            + " WHEN MATCHED AND s.pay > 1 THEN UPDATE SET id = s.pay WHEN NOT MATCHED THEN INSERT *",
        ),
        (  # To Spark `lab.s.owner` would be a column of the source.
            "MERGE INTO fields AS lab USING lab.s ON lab.id = 1 / s.id WHEN MATCHED THEN UPDATE SET id = 1",
            "MERGE INTO `spark_catalog`.`lab`.`fields` AS lab USING `spark_catalog`.`lab`.`s` ON "
            + KEPT.format("`lab`.`s`['owner'] = 'ann'", " lab.id = 1 / s.id ")
            + " WHEN MATCHED THEN UPDATE SET id = 1",
        ),
    ],
)
async def test_to_a_merge_hidden_rows_are_not_there(
    world: World, reader: ReaderPool, text: str, written: str
) -> None:
    for verdict in await both(world, reader, text):
        assert isinstance(verdict, Cleared), verdict
        if verdict.forwarded.startswith("MERGE"):
            assert verdict.forwarded == written
        assert not verdict.shows_errors
        assert any(scan.obligations for scan in verdict.scans)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("DELETE FROM t WHERE id > 3", "row filter, column mask"),
        ("DELETE FROM t WHERE pay > 3", "row filter, column mask"),
        ("UPDATE t SET pay = 3 WHERE id = 1", "row filter, column mask"),
        ("UPDATE t SET id = pay WHERE id = 1", "row filter, column mask"),
        ("DELETE FROM t WHERE id IN (SELECT id FROM u)", "row filter, column mask"),
        ("DELETE FROM t WHERE exists(array(1), i -> pay = i)", "row filter, column mask"),
        ("DELETE FROM t WHERE _metadata.row_index > 1", "row filter, column mask"),
        ("DELETE FROM t WHERE input_file_name() = 'x'", "row filter, column mask"),
        ("UPDATE ice.lab.t SET region = _file WHERE id = 1", "row filter, column mask"),
        ("UPDATE ice.lab.t AS x SET region = 'a' WHERE x.`_PARTITION`.id = 1", "row filter, column mask"),
        (
            "UPDATE ice.lab.t SET region = lag(region) OVER (ORDER BY id) WHERE id > 0",
            "row filter, column mask",
        ),
        ("UPDATE rows SET id = count(*) OVER () WHERE TRUE", "row filter, column mask"),
        ("UPDATE checked SET id = 9 WHERE id = 1", "row filter, column mask"),
        ("UPDATE fields AS s SET id = 9 WHERE id = 1", "row filter, column mask"),
        ("DELETE FROM fields AS `S` WHERE TRUE", "row filter, column mask"),
        ("DELETE FROM rows", "WHERE TRUE"),
        ("UPDATE t SET id = 1", "WHERE TRUE"),
        ("DELETE FROM plain WHERE id = 1", "row filter, column mask"),
        ("DELETE FROM hidden WHERE id = 1", "row filter, column mask"),
        ("DELETE FROM rows WHERE id IN (SELECT 1)", "row filter, column mask"),
        ("DELETE FROM reading WHERE id > 1", "reads other tables, which UPDATE and DELETE of Delta cannot"),
        ("MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN DELETE", "row filter, column mask"),
        (f"{ON_T} WHEN MATCHED THEN UPDATE SET *", "row filter, column mask"),
        (f"{ON_T} WHEN MATCHED THEN UPDATE SET pay = u.id", "row filter, column mask"),
        (f"{ON_T} WHEN MATCHED AND pay > 1 THEN UPDATE SET id = 1", "row filter, column mask"),
        (f"{ON_T} AND t.pay > 1 WHEN NOT MATCHED THEN INSERT *", "row filter, column mask"),
        ("MERGE INTO lab.t USING u AS lab ON lab.t.pay > 1 " + INSERTS, "row filter, column mask"),
        (f"{ON_T} AND exists(array(1), i -> i = 1) {INSERTS}", "row filter, column mask"),
        (f"{ON_T} AND t.id IN (SELECT 1) {INSERTS}", "row filter, column mask"),
        (f"{ON_T} WHEN NOT MATCHED THEN INSERT (id) VALUES ((SELECT 1))", "row filter, column mask"),
        (
            f"WITH c AS (SELECT 1 AS id) MERGE INTO t USING c ON t.id = c.id {INSERTS}",
            "row filter, column mask",
        ),
        (f"MERGE INTO plain t USING u ON t.id = u.id {INSERTS}", "row filter, column mask"),
        (
            f"MERGE WITH SCHEMA EVOLUTION INTO rows t USING u ON t.id = u.id {INSERTS}",
            "row filter, column mask",
        ),
        (f"MERGE INTO hidden t USING u ON t.id = u.id {INSERTS}", "insert"),
        (f"MERGE INTO itself t USING u ON t.id = u.id {INSERTS}", "more than its columns"),
        ("EXPLAIN DELETE FROM t WHERE id = 1", "row filter, column mask"),
    ],
)
async def test_what_uses_more_is_refused(world: World, reader: ReaderPool, text: str, says: str) -> None:
    for verdict in await both(world, reader, text):
        assert isinstance(verdict, Refused), verdict
        assert says in verdict.message


async def test_who_may_not_change_rows_changes_none(world: World, reader: ReaderPool) -> None:
    for verdict in await both(world, reader, "DELETE FROM t WHERE id = 1", "bob"):
        assert isinstance(verdict, Refused), verdict
        assert "needs delete on table" in verdict.message


def merge_into(name: str, source: Any, on: Any, **actions: Any) -> PlanRequest:
    """`mergeInto` with all of its actions; `on` and conditions as SQL."""

    def action(kind: str, condition: str = "", **assigned: str) -> pb.Expression:
        made = pb.MergeAction(action_type=f"ACTION_TYPE_{kind}")  # type: ignore[arg-type]
        if condition:
            made.condition.expression_string.expression = condition
        for key, value in assigned.items():
            one = made.assignments.add()
            one.key.expression_string.expression = key
            one.value.expression_string.expression = value
        return pb.Expression(merge_action=made)

    command = pb.MergeIntoTableCommand(target_table_name=name, source_table_plan=message(source).root)
    command.merge_condition.CopyFrom(message(source.filter(on)).root.filter.condition)
    for field, wanted in actions.items():
        getattr(command, field).extend([action(*one[0], **one[1]) for one in wanted])
    plan = pb.Plan(command=pb.Command(merge_into_table_command=command))
    return PlanRequest(kind="execute", message=plan.SerializeToString(deterministic=True))


async def test_to_a_dataframe_that_merges_hidden_rows_are_not_there(world: World, reader: ReaderPool) -> None:
    source = table("u").alias("s")
    on = (F.expr("rows.id IN (1 / s.id)")) & (F.col("s.id") > 1)
    request = merge_into(
        "rows",
        source,
        on,
        match_actions=[(("UPDATE", "s.id > 3"), {"pay": "s.id"})],
        not_matched_actions=[(("INSERT",), {"id": "s.id"})],
        not_matched_by_source_actions=[(("DELETE", "1 / rows.id > 2"), {}), (("UPDATE",), {"pay": "0"})],
    )
    verdict = await over_connect(world, reader, request)
    assert isinstance(verdict, Cleared), verdict
    sent = parse(pb.Plan, verdict.forwarded_plan).command.merge_into_table_command
    asked = parse(pb.Plan, request.message).command.merge_into_table_command
    assert sent.target_table_name == T
    for now, before in (
        (sent.merge_condition, asked.merge_condition),
        (
            sent.not_matched_by_source_actions[0].merge_action.condition,
            asked.not_matched_by_source_actions[0].merge_action.condition,
        ),
    ):
        case, otherwise = now.call_function.arguments
        assert now.call_function.function_name == "system.builtin.coalesce"
        assert otherwise.literal.boolean is False
        assert case.call_function.function_name == "system.builtin.when"
        rows, own = case.call_function.arguments
        assert rows.expression_string.expression == HERE
        assert own == before
    last = sent.not_matched_by_source_actions[1].merge_action
    assert last.condition.expression_string.expression == HERE
    assert sent.match_actions == asked.match_actions
    assert any(scan.obligations for scan in verdict.scans)


@pytest.mark.parametrize(
    ("name", "on", "actions"),
    [
        ("t", F.expr("t.pay > 1"), {"not_matched_actions": [(("INSERT_STAR",), {})]}),
        ("t", F.col("t.pay") > 1, {"not_matched_actions": [(("INSERT_STAR",), {})]}),
        ("t", F.expr("t.id = s.id"), {"match_actions": [(("UPDATE_STAR",), {})]}),
        ("t", F.expr("t.id = s.id"), {"match_actions": [(("UPDATE",), {"pay": "1"})]}),
        ("t", F.expr("t.id = s.id"), {"match_actions": [(("DELETE",), {})]}),
        ("t", F.exists(F.array(F.lit(1)), lambda i: i > 1), {"match_actions": [(("UPDATE",), {"id": "1"})]}),
        ("t", F.expr("t.id IN (SELECT 1)"), {"match_actions": [(("UPDATE",), {"id": "1"})]}),
        ("plain", F.expr("plain.id = s.id"), {"not_matched_actions": [(("INSERT_STAR",), {})]}),
        ("t", F.expr("_metadata.row_index = s.id"), {"not_matched_actions": [(("INSERT_STAR",), {})]}),
        (
            "rows",
            F.udf(lambda i: True, BooleanType())(F.col("rows.id")),  # type: ignore[arg-type]
            {"match_actions": [(("DELETE",), {})]},
        ),
    ],
)
async def test_a_dataframe_that_merges_with_more_is_refused(
    world: World, reader: ReaderPool, name: str, on: Any, actions: Any
) -> None:
    verdict = await over_connect(world, reader, merge_into(name, table("u").alias("s"), on, **actions))
    assert isinstance(verdict, Refused), verdict
    assert "row filter, column mask" in verdict.message


async def test_what_of_a_plan_is_not_known_is_not_restricted() -> None:
    request = merge_into(
        "rows", table("u").alias("s"), F.expr("rows.id = 1"), match_actions=[(("DELETE",), {})]
    )
    reading = read_plan(request, NEWEST)
    assert isinstance(reading, PlanReading)
    assert read_plan_merge(reading, []) is None


async def test_types_that_a_merge_rests_on_are_those_of_this_moment(world: World, reader: ReaderPool) -> None:
    text = "MERGE INTO rows USING u ON rows.id = u.id WHEN NOT MATCHED THEN INSERT (id) VALUES (u.id)"
    context = SessionContext(namespace=("lab",))
    statement = Statement(text=text, principal=world.principal("ann"), context=context)
    snapshot = replace(world.snapshot(), anew=frozenset())
    verdict = await judge(statement, snapshot, reader, Rules())
    assert isinstance(verdict, NeedsCatalog), verdict
    assert {name.table for name in verdict.tables} == {"rows", "u"}


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM rows WHERE f(id)",
        "UPDATE rows SET id = 1 WHERE f(id)",
        "MERGE INTO rows USING u ON rows.id = u.id WHEN MATCHED AND f(rows.id) THEN UPDATE SET id = 1",
    ],
)
async def test_code_sees_no_hidden_row(world: World, reader: ReaderPool, text: str) -> None:
    handles = frozenset({SparkHandle("function", "f")})
    for verdict in (
        await over_thrift(world, reader, text, handles=handles),
        await over_connect(world, reader, command(text), handles=handles),
    ):
        assert isinstance(verdict, Refused), verdict
        assert "row filter, column mask" in verdict.message
    source, on = table("u").alias("s"), F.call_function("f", F.col("rows.id"))
    merge = merge_into("rows", source, on, match_actions=[(("UPDATE",), {"id": "1"})])
    verdict = await over_connect(world, reader, merge, handles=handles)
    assert isinstance(verdict, Refused), verdict
    assert "row filter, column mask" in verdict.message
