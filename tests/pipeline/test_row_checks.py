"""A row filter with `check` is asked of what is written, over both endpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention

from gateway.model.decision import PolicyRef, RowFilter
from gateway.model.statement import Cleared, PlanRequest, Refused
from gateway.policy.views import all_filters
from gateway.reader.pool import ReaderPool
from gateway.wire.connect import parse, pb
from tests.judge_world import World
from tests.pipeline.test_kept import over_connect
from tests.pipeline.test_restricting import both, merge_into
from tests.plan.frames import message, table

pytestmark = pytest.mark.asyncio(loop_scope="session")

TABLES = ("t", "plain", "named", "free")
DATA: dict[str, Any] = {
    "catalogs": ["spark_catalog"],
    "tables": {
        **{f"spark_catalog.lab.{name}": {"id": "int", "region": "string", "pay": "int"} for name in TABLES},
        "spark_catalog.lab.deep": {"id": "int", "s": "struct<region:string>"},
        "spark_catalog.lab.odd": {"id": "int", "a=b": "string"},
        "spark_catalog.lab.padded": {"id": "int", "region": "char(4)"},
        "spark_catalog.lab.within": {"id": "int", "s": "struct<region:varchar(4)>"},
        "spark_catalog.lab.u": {"id": "int", "region": "string", "pay": "int"},
    },
    "views": {},
    "people": {"ann": {"groups": []}, "bob": {"groups": []}},
    "pack": """
service: spark
policies:
  - {name: all, on: {catalog: "*", database: lab, table: "*", column: "*"},
     allow: [{users: [ann, bob], access: [all]}]}
  - {name: rows, on: {catalog: "*", database: lab, table: [t, plain, padded, made]}, check: true,
     filter: [{users: [bob], where: ""}, {users: [ann], where: "region = 'EMEA'"}]}
  - {name: named, on: {catalog: "*", database: lab, table: named}, check: true,
     filter: [{users: [ann], where: "id IN (SELECT u.id FROM spark_catalog.lab.u u)"}]}
  - {name: deep, on: {catalog: "*", database: lab, table: [deep, within]}, check: true,
     filter: [{users: [ann], where: "s.region = 'EMEA'"}]}
  - {name: odd, on: {catalog: "*", database: lab, table: odd}, check: true,
     filter: [{users: [ann], where: "`a=b` = 'EMEA'"}]}
  - {name: unchecked, on: {catalog: "*", database: lab, table: free},
     filter: [{users: [ann], where: "region = 'EMEA'"}]}
""",
}
NAMES = "`sluice 0`, `sluice 1`, `sluice 2`"
RAISED = "system.builtin.concat('SLUICE_ROW_CHECK spark_catalog.lab.{}', "
NONE = "system.builtin.substr(CAST(system.builtin.monotonically_increasing_id() AS STRING), 1, 0))"


def asked(table: str, rows: str) -> str:
    raised = f"system.builtin.raise_error({RAISED.format(table)}{NONE})"
    return f"CASE WHEN ({rows}) THEN TRUE ELSE {raised} END"


def inserted(table: str, own: str, copies: str, rows: str, names: str = NAMES) -> str:
    return (
        f"SELECT {names} FROM (SELECT *, {copies} FROM ({own}\n) AS `sluice rows`({names})) AS `{table}` "
        f"WHERE {asked(table, rows)}"
    )


REGION = "CAST(`sluice 1` AS string) AS `region`"


@pytest.fixture(scope="module")
def world() -> World:
    made = World(DATA)
    for name, one in made.tables.items():
        made.tables[name] = replace(one, provider="parquet" if name.table == "plain" else "delta")
    return made


U = "`spark_catalog`.`lab`.`u`"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (
            "INSERT INTO t SELECT id, region, pay FROM u -- all",
            "INSERT INTO `spark_catalog`.`lab`.`t` "
            + inserted("t", f" SELECT id, region, pay FROM {U}", REGION, "region = 'EMEA'")
            + " -- all",
        ),
        (
            "INSERT INTO plain VALUES (1, 'EMEA', 2);",
            "INSERT INTO `spark_catalog`.`lab`.`plain` "
            + inserted("plain", " VALUES (1, 'EMEA', 2)", REGION, "region = 'EMEA'")
            + ";",
        ),
        (
            "WITH c AS (SELECT * FROM u) INSERT INTO t (region, id) SELECT region, id FROM c",
            f"WITH c AS (SELECT * FROM {U}) INSERT INTO `spark_catalog`.`lab`.`t` (region, id) "
            + inserted(
                "t",
                " SELECT region, id FROM c",
                "CAST(`sluice 0` AS string) AS `region`",
                "region = 'EMEA'",
                "`sluice 0`, `sluice 1`",
            ),
        ),
        (
            "INSERT INTO t PARTITION (region = 'APAC') SELECT 1, 2",
            "INSERT INTO `spark_catalog`.`lab`.`t` PARTITION (region = 'APAC') "
            + inserted(
                "t",
                " SELECT 1, 2",
                "CAST('APAC' AS string) AS `region`",
                "region = 'EMEA'",
                "`sluice 0`, `sluice 1`",
            ),
        ),
        (
            "INSERT INTO named SELECT * FROM u",
            "INSERT INTO `spark_catalog`.`lab`.`named` "
            + inserted(
                "named",
                f" SELECT * FROM {U}",
                "CAST(`sluice 0` AS int) AS `id`",
                "id IN (SELECT u.id FROM spark_catalog.lab.u u)",
            ),
        ),
        (
            "INSERT INTO t BY NAME SELECT 'EMEA' AS region, 1 AS id",
            "INSERT INTO `spark_catalog`.`lab`.`t` BY NAME SELECT `sluice rows`.* FROM ( "
            "SELECT 'EMEA' AS region, 1 AS id\n) AS `sluice rows` WHERE "
            + asked("t", "CAST(`region` AS string) = 'EMEA'"),
        ),
    ],
)
async def test_what_is_inserted_is_asked(world: World, reader: ReaderPool, text: str, written: str) -> None:
    for verdict in await both(world, reader, text):
        assert isinstance(verdict, Cleared), verdict
        if not verdict.forwarded_plan:
            assert verdict.forwarded == written
        assert not verdict.shows_errors
    for verdict in await both(world, reader, text, "bob"):
        assert isinstance(verdict, Cleared), verdict
        assert "SLUICE_ROW_CHECK" not in verdict.forwarded


CHANGED = "system.builtin.coalesce(CASE WHEN (region = 'EMEA') THEN ({}) END, FALSE)"
ASKED = "CASE WHEN ({}) THEN TRUE ELSE system.builtin.raise_error('SLUICE_ROW_CHECK spark_catalog.lab.t') END"


def both_of(own: str, rows: str) -> str:
    return f"CASE WHEN ({own}) THEN ({ASKED.format(rows)}) ELSE FALSE END"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (  # The filter's column stays as it is.
            "UPDATE t SET pay = 1 WHERE id = 3",
            "UPDATE `spark_catalog`.`lab`.`t` SET pay = 1 WHERE " + CHANGED.format(" id = 3\n"),
        ),
        (
            "UPDATE t SET region = concat(region, ')('), pay = 1 WHERE id = 3",
            "UPDATE `spark_catalog`.`lab`.`t` SET region = concat(region, ')('), pay = 1 WHERE "
            + CHANGED.format(both_of(" id = 3\n", "CAST((concat(region, ')(')\n) AS string) = 'EMEA'")),
        ),
    ],
)
async def test_what_is_updated_is_asked(world: World, reader: ReaderPool, text: str, written: str) -> None:
    for verdict in await both(world, reader, text):
        assert isinstance(verdict, Cleared), verdict
        if not verdict.forwarded_plan:
            assert verdict.forwarded == written


async def test_what_is_merged_is_asked(world: World, reader: ReaderPool) -> None:
    text = (
        "MERGE INTO t USING u AS s ON t.id = 1 / s.id "
        "WHEN MATCHED AND s.pay > 1 THEN UPDATE SET t.region = s.region "
        "WHEN MATCHED AND s.pay > 0 THEN UPDATE SET pay = 1 WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED AND s.id > 3 THEN INSERT (id, region) VALUES (s.id, upper(s.region)) "
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.id = 7 "
        "THEN UPDATE SET region = 'APAC' WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    full = "`spark_catalog`.`lab`.`t`"
    here = f"{full}.`region` = 'EMEA'"
    kept = "system.builtin.coalesce(CASE WHEN ({}) THEN ({}) END, FALSE)"
    first = both_of(" s.pay > 1 \n", "CAST((s.region\n) AS string) = 'EMEA'")
    third = both_of(" s.id > 3 \n", "CAST((upper(s.region)\n) AS string) = 'EMEA'")
    inserted_star = ASKED.format("CAST(`region` AS string) = 'EMEA'")
    star = ASKED.format("CAST(`s`.`region` AS string) = 'EMEA'")
    for verdict in await both(world, reader, text):
        assert isinstance(verdict, Cleared), verdict
        if verdict.forwarded_plan:
            continue
        assert verdict.forwarded == (
            f"MERGE INTO {full} USING {U} AS s ON {kept.format(here, ' t.id = 1 / s.id ' + chr(10))} "
            f"WHEN MATCHED AND {first} "
            "THEN UPDATE SET t.region = s.region WHEN MATCHED AND s.pay > 0 THEN UPDATE SET pay = 1 "
            f"WHEN MATCHED AND ({star}) THEN UPDATE SET * WHEN NOT MATCHED AND "
            f"{third} "
            "THEN INSERT (id, region) VALUES (s.id, upper(s.region)) "
            f"WHEN NOT MATCHED AND ({inserted_star}) THEN INSERT * WHEN NOT MATCHED BY SOURCE AND "
            + kept.format(here, both_of(" t.id = 7 \n", "CAST(('APAC'\n) AS string) = 'EMEA'"))
            + " THEN UPDATE SET region = 'APAC' "
            f"WHEN NOT MATCHED BY SOURCE AND ({here}) THEN DELETE"
        )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("INSERT INTO t (id) SELECT 1", "give a value for the column region"),
        ("INSERT INTO padded SELECT 1, 'EMEA'", "of type char(4)"),
        ("CREATE TABLE made AS SELECT 1 AS id, 'EMEA' AS region", "Create the table first"),
        ("INSERT INTO named BY NAME SELECT 1 AS id", "insert by position"),
        ("INSERT INTO within SELECT 1, struct('EMEA')", "varchar(4)"),
        # Its fields are stored by their names, and CAST takes them by their places.
        ("INSERT INTO deep BY NAME SELECT 1 AS id, struct('EMEA' AS x, 'APAC' AS region) AS s", "struct s"),
        ("UPDATE deep SET s = struct('EMEA' AS x) WHERE TRUE", "struct s"),
        ("FROM u INSERT INTO t SELECT * INSERT INTO free SELECT *", "cannot be checked"),
        ("UPDATE deep SET s.region = 'EMEA' WHERE TRUE", "not a field"),
        ("UPDATE odd SET `a=b` = 'EMEA' WHERE TRUE", "could not be read"),
        ("UPDATE t SET region = concat('EMEA', rand()) WHERE TRUE", "from row to row"),
        ("MERGE INTO t USING u s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (1)", "region"),
        ("MERGE INTO t USING (SELECT * FROM u) ON t.id = 1 WHEN NOT MATCHED THEN INSERT *", "an alias"),
    ],
)
async def test_what_cannot_be_asked_is_refused(
    world: World, reader: ReaderPool, text: str, says: str
) -> None:
    for verdict in await both(world, reader, text):
        assert isinstance(verdict, Refused), verdict
        assert says in verdict.message


async def test_a_filter_without_a_check_asks_nothing(world: World, reader: ReaderPool) -> None:
    for verdict in await both(world, reader, "INSERT INTO free SELECT * FROM u"):
        assert isinstance(verdict, Cleared), verdict
        assert "SLUICE_ROW_CHECK" not in verdict.forwarded


def written(frame: Any, **command: Any) -> PlanRequest:
    (name, one), *_ = command.items()
    one.input.CopyFrom(message(frame).root)
    plan = pb.Plan(command=pb.Command(**{name: one}))
    return PlanRequest(kind="execute", message=plan.SerializeToString(deterministic=True))


def insert_into(name: str, mode: int = 1) -> pb.WriteOperation:
    save = pb.WriteOperation.SaveTable(table_name=name, save_method=2)  # type: ignore[arg-type]
    return pb.WriteOperation(table=save, mode=mode)  # type: ignore[arg-type]


def save_as(name: str, mode: int = 1) -> pb.WriteOperation:
    save = pb.WriteOperation.SaveTable(table_name=name, save_method=1)  # type: ignore[arg-type]
    return pb.WriteOperation(table=save, mode=mode)  # type: ignore[arg-type]


def write_to(name: str, mode: int) -> pb.WriteOperationV2:
    return pb.WriteOperationV2(table_name=name, mode=mode)  # type: ignore[arg-type]


async def test_what_a_dataframe_inserts_is_asked(world: World, reader: ReaderPool) -> None:
    frame = table("u").filter("id > 1")
    # 0: pyspark says nothing of it.
    verdict = await over_connect(world, reader, written(frame, write_operation=insert_into("t", 0)))
    assert isinstance(verdict, Cleared), verdict
    sent = parse(pb.Plan, verdict.forwarded_plan).command.write_operation.input.project
    assert [one.expression_string.expression for one in sent.expressions] == NAMES.split(", ")
    assert sent.input.filter.condition.expression_string.expression == asked("t", "region = 'EMEA'")
    alias = sent.input.filter.input.subquery_alias
    assert alias.alias == "t"
    star, region = alias.input.project.expressions
    assert star.WhichOneof("expr_type") == "unresolved_star"
    assert region.expression_string.expression == REGION
    assert alias.input.project.input.to_df.column_names == ["sluice 0", "sluice 1", "sluice 2"]
    inner = alias.input.project.input.to_df.input.filter
    assert inner.condition.expression_string.expression == "id > 1"
    for command in ({"write_operation": save_as("t")}, {"write_operation_v2": write_to("t", 4)}):
        verdict = await over_connect(world, reader, written(frame, **command))
        assert isinstance(verdict, Cleared), verdict
        (name,) = command
        rows = getattr(parse(pb.Plan, verdict.forwarded_plan).command, name).input.filter
        assert rows.condition.expression_string.expression == asked("t", "CAST(`region` AS string) = 'EMEA'")
        assert rows.input.subquery_alias.alias == "sluice rows"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ({"write_operation": insert_into("t", 2)}, "cannot be checked"),
        ({"write_operation_v2": write_to("t", 3)}, "cannot be checked"),
        ({"write_operation": save_as("made")}, "Create the table first"),
        ({"write_operation": save_as("named")}, "insert by position"),
        ({"write_operation_v2": write_to("made", 1)}, "Create the table first"),
        ({"write_operation": insert_into("padded")}, "of type char(4)"),
    ],
)
async def test_what_of_a_dataframe_cannot_be_asked_is_refused(
    world: World, reader: ReaderPool, command: Any, says: str
) -> None:
    verdict = await over_connect(world, reader, written(table("u"), **command))
    assert isinstance(verdict, Refused), verdict
    assert says in verdict.message
    merge = merge_into(
        "t", table("u").alias("s"), F.expr("t.id = s.id"), match_actions=[(("UPDATE",), {"id": "1"})]
    )
    verdict = await over_connect(world, reader, merge)
    assert isinstance(verdict, Refused), verdict
    assert "cannot be checked" in verdict.message


async def test_of_several_filters_one_checks_for_all() -> None:
    rows = [
        RowFilter(expression=text, policy=PolicyRef(), check=check)
        for text, check in (("a", False), ("a", True), ("b", False))
    ]
    found = all_filters(rows)
    assert found is not None
    assert found.check
    assert found.expression == "(a) AND (b)"
    same = all_filters(rows[:2])
    assert same is not None
    assert same.check
