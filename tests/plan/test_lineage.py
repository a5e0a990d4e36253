"""The lineage of a plan is that of the same query in SQL; and what only plans have."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  as everybody calls them
from pyspark.sql.connect import plan as plans
from pyspark.sql.connect.types import pyspark_types_to_proto_types
from pyspark.sql.types import StructType

from gateway.lineage.gathering import Gatherer
from gateway.lineage.gathering_plans import GatheredPlan, gather_plan
from gateway.lineage.workers import LineageWorkers
from gateway.model.catalog import CatalogSnapshot, TableName
from gateway.model.lineage import EdgeType, Operation, StatementLineage
from gateway.model.statement import PlanRequest, SessionContext
from gateway.plan import lineage, lineage_walk
from gateway.plan.lineage import LineagePlan, plan_lineage, plan_table_lineage
from gateway.plan.lineage_relations import COMPLETING, DECIDING
from gateway.plan.lowering import RELATIONS
from gateway.reader.pool import ReaderPool
from gateway.sql.lineage import LineageCatalog, lineage_of
from gateway.wire import connect
from tests.lineage_world import (
    DATABASE,
    VIEWS,
    Endless,
    catalog_of,
    decides,
    flows,
    names,
    short,
    text_of,
)
from tests.plan import frames
from tests.plan.building import complete, enter, is_map, message_at, places, set_scalar, value_type
from tests.plan.frames import command, made, message, sql, table
from tests.plan.lineage_programs import PROGRAMS
from tests.speed import patience

pytestmark = pytest.mark.asyncio(loop_scope="session")

pb: Any = connect.pb
udf: Any = F.udf
REFERENCE = "_pyspark_connect_temp_view_0123456789abcdef0123456789abcdef"
a = table("a")
P = StructType().add("p", "integer")
PQ = StructType().add("p", "integer").add("q", "string")


async def gathered(
    reader: ReaderPool,
    plan: Any,
    catalog: LineageCatalog,
    *,
    temp_views: Mapping[str, StatementLineage] | None = None,
    kept: Mapping[str, StatementLineage] | None = None,
) -> GatheredPlan:
    snapshot = CatalogSnapshot(version=1, catalogs=frozenset({"spark_catalog"}), tables=catalog.tables)

    async def look_up(names: Sequence[TableName]) -> CatalogSnapshot:
        return snapshot

    gatherer = Gatherer(reader=reader, look_up=look_up, catalogs=frozenset({"spark_catalog", "other"}))
    request = PlanRequest(kind="execute", message=plan.SerializeToString())
    context = SessionContext(namespace=(DATABASE,), temp_views=frozenset(temp_views or ()))
    found = await gather_plan(gatherer, request, context, temp_views or {}, kept or {}, catalog.masks)
    assert isinstance(found, GatheredPlan), found
    return found


async def of_plan(
    reader: ReaderPool, plan: Any, catalog: LineageCatalog | None = None, **more: Any
) -> StatementLineage:
    catalog = catalog or await catalog_of(reader, views=VIEWS)
    found = (await gathered(reader, plan, catalog, **more)).lineage()
    assert found is not None
    return found


def edges(found: StatementLineage) -> set[tuple[object, ...]]:
    """Return the edges without their words."""
    return {
        (edge.type, edge.clause, frozenset(edge.sources), frozenset(edge.targets), frozenset(edge.steps))
        for edge in found.edges
    }


def parts(found: StatementLineage) -> set[tuple[object, ...]]:
    return {
        (edge.clause, frozenset(c.sources), c.by_row, frozenset(v for _, v in c.not_null))
        for edge in found.edges
        if edge.type is EdgeType.PREDICATE
        for c in edge.conjuncts
    }


@pytest.mark.parametrize("name", [name for name, program in PROGRAMS.items() if program.sql])
async def test_a_plan_has_the_edges_of_the_same_query_in_sql(reader: ReaderPool, name: str) -> None:
    program = PROGRAMS[name]
    catalog = await catalog_of(reader, views=VIEWS, masks={"a": "ssn z"})
    expected = lineage_of(await text_of(reader, program.sql), catalog)
    assert expected is not None
    found = await of_plan(reader, frames.message(program.run(frames.SESSION)), catalog)
    assert (found.table_level, expected.table_level) == ("", "")
    assert found.guessed == expected.guessed == ()
    assert [v.column for v in found.columns] == [v.column for v in expected.columns]
    assert edges(found) == edges(expected)
    assert parts(found) == parts(expected)
    assert (found.operation, found.targets) == (expected.operation, expected.targets)
    assert set(found.inputs) == set(expected.inputs)
    assert set(found.views) == set(expected.views)


# ---------------------------------------------------------------- what only plans have


@pytest.mark.parametrize("name", [name for name, program in PROGRAMS.items() if not program.sql])
async def test_every_program_is_understood(reader: ReaderPool, name: str) -> None:
    found = await of_plan(reader, frames.message(PROGRAMS[name].run(frames.SESSION)))
    assert (found.table_level, found.guessed) == ("", ())


def expression(column: Any) -> Any:
    return column._expr.to_plan(frames.SESSION.client)


def code(returns: StructType) -> Any:
    """Return a function of the user's."""
    function = pb.CommonInlineUserDefinedFunction(function_name="f")
    function.python_udf.output_type.CopyFrom(pyspark_types_to_proto_types(returns))
    return function


def relation(**case: Any) -> Any:
    return pb.Plan(root=pb.Relation(**case))


SAYS: dict[str, tuple[Any, dict[str, str], list[str]]] = {
    "update fields": (
        lambda: a.select(F.col("s").withField("f", F.col("x")).alias("q")),
        {"q": "a.s:~ a.x:~"},
        [],
    ),
    "describe": (
        lambda: table("t").describe(),
        {"a": "t.a:Σ", "b": "t.b:Σ", "c": "t.c:Σ", "d": "t.d:Σ", "e": "t.e:Σ"},
        [],
    ),
    "summary of some types": (lambda: a.select("x", "arr").summary(), {"x": "a.x:Σ"}, []),
    "corr": (lambda: made(plans.StatCorr(a._plan, "x", "y", "pearson")), {"corr": "a.x:Σ a.y:Σ"}, []),
    "crosstab": (
        lambda: made(plans.StatCrosstab(a._plan, "x", "y")),
        {"x_y": "a.x:=", "*": "a.y:?"},
        ["GROUP_BY: a.x a.y"],
    ),
    "freqItems": (
        lambda: made(plans.StatFreqItems(a._plan, ["x", "y"], 0.1)),
        {"x_freqitems": "a.x:Σ", "y_freqitems": "a.y:Σ"},
        [],
    ),
    "approxQuantile": (
        lambda: made(plans.StatApproxQuantile(a._plan, ["x", "y"], [0.5], 0.1)),
        {"approx_quantile": "a.x:Σ a.y:Σ"},
        [],
    ),
    "dropDuplicates": (lambda: a.dropDuplicates(["y"]).select("x"), {"x": "a.x:="}, ["GROUP_BY: a.y"]),
    "dropna": (lambda: table("c").dropna("all"), {"i": "c.i:=", "w": "c.w:="}, ["WHERE: c.i c.w"]),
    "sampleBy": (lambda: table("c").sampleBy("w", {1: 0.5}).select("i"), {"i": "c.i:="}, ["WHERE: c.w"]),
    "transpose": (
        lambda: table("c").transpose("i"),
        {"*": "c.i:~ c.w:~"},
        [],
    ),
    "pivot without values": (
        lambda: table("e1").groupBy("dept").pivot("boss").agg(F.sum("age")),
        {"dept": "e1.dept:=", "*": "e1.age:Σ e1.boss:?"},
        ["GROUP_BY: e1.boss e1.dept"],
    ),
    "unpivot the rest": (
        lambda: table("c").unpivot(["i"], None, "k", "v"),
        {"i": "c.i:=", "v": "c.w:="},
        [],
    ),
    "as-of join": (
        lambda: made(
            plans.AsOfJoin(
                a._plan,
                table("b")._plan,
                a["x"],
                table("b")["p"],
                ["i"],
                how="left",
                tolerance=None,
                allow_exact_matches=True,
                direction="backward",
            )
        ).select("y", "q"),
        {"y": "a.y:=", "q": "b.q:="},
        ["JOIN: a.x b.p", "JOIN: a.i b.i"],
    ),
    "a Python function": (
        lambda: a.select(udf(lambda x, y: 1)("x", F.col("y")).alias("n")),
        {"n": "a.x:~ a.y:~"},
        [],
    ),
    "mapInPandas": (
        lambda: relation(
            map_partitions=pb.MapPartitions(input=message(table("c").filter("i > 1")).root, func=code(PQ))
        ),
        {"p": "c.i:~ c.w:~", "q": "c.i:~ c.w:~"},
        ["WHERE: c.i"],
    ),
    "applyInPandas": (
        lambda: relation(
            group_map=pb.GroupMap(
                input=message(table("c")).root, func=code(P), grouping_expressions=[expression(F.col("i"))]
            )
        ),
        {"p": "c.i:~ c.w:~"},
        ["GROUP_BY: c.i"],
    ),
    "cogroup": (
        lambda: (
            table("c")
            .groupBy("i")
            .cogroup(table("b").select("k").groupBy("k"))
            .applyInPandas(lambda left, right: left, P)
        ),
        {"p": "b.k:~ c.i:~ c.w:~"},
        ["JOIN: b.k c.i"],
    ),
    "local data and ranges": (
        lambda: made(plans.Range(0, 9, 1)).join(table("c"), F.col("id") == F.col("i")).select("id", "w"),
        {"w": "c.w:="},
        ["JOIN: c.i"],
    ),
    "a table that nobody knows": (
        lambda: table("ghost").filter("p > 1").select("q", F.col("r") + 1),
        {"q": "ghost.q:=", '`f.col("r") + 1`': "ghost.r:~"},
        ["WHERE: ghost.p"],
    ),
    "files": (
        lambda: made(plans.DataSource("parquet", None, {}, ["/in/x"])).select("p"),
        {"p": "/in/x.p:="},
        [],
    ),
    "files with a schema, in two places": (
        lambda: made(plans.DataSource("csv", "p INT, q STRING", {"path": "/x"}, ["/y"])),
        {"p": "/x.p:= /y.p:=", "q": "/x.q:= /y.q:="},
        [],
    ),
    "a frame within text": (
        lambda: sql(
            f"SELECT p + 1 AS q FROM {REFERENCE} WHERE z > 1",
            views={REFERENCE: a.filter("y = 1").select(F.col("x").alias("p"), "z")},
        ),
        {"q": "a.x:~"},
        ["WHERE: a.y", "WHERE: a.z"],
    ),
    "arguments of a text": (
        lambda: sql("SELECT x FROM a WHERE y > :v", v=F.lit(1)),
        {"x": "a.x:="},
        ["WHERE: a.y"],
    ),
}


@pytest.mark.parametrize("name", SAYS)
async def test_what_has_no_words_in_sql(reader: ReaderPool, name: str) -> None:
    run, flowing, deciding = SAYS[name]
    plan = run()
    found = await of_plan(reader, plan if isinstance(plan, pb.Plan) else message(plan))
    assert found.table_level == ""
    assert flows(found) == flowing
    assert decides(found) == deciding


# ---------------------------------------------------------------- commands


def write(plan: Any, **fields: Any) -> Any:
    command_ = plans.WriteOperation(plan._plan)
    for name, value in fields.items():
        setattr(command_, name, value)
    return command(command_)


def write_v2(plan: Any, mode: str, condition: Any = None) -> Any:
    command_ = plans.WriteOperationV2(plan._plan, "c")
    command_.mode, command_.overwrite_condition = mode, condition
    return command(command_)


TWO = a.select("x", (F.col("y") + 1).alias("w")).filter("z > 1")
WRITES: dict[str, tuple[Any, Operation, str, dict[str, str]]] = {
    "insertInto": (
        lambda: write(TWO, table_name="c", table_save_method="insert_into", mode="append"),
        Operation.INSERT,
        "c",
        {"c.i": "a.x:=", "c.w": "a.y:~"},
    ),
    "insertInto, overwriting": (
        lambda: write(TWO, table_name="c", table_save_method="insert_into", mode="overwrite"),
        Operation.OVERWRITE,
        "c",
        {"c.i": "a.x:=", "c.w": "a.y:~"},
    ),
    "saveAsTable": (
        lambda: write(TWO, table_name="fresh", table_save_method="save_as_table"),
        Operation.CREATE,
        "fresh",
        {"fresh.x": "a.x:=", "fresh.w": "a.y:~"},
    ),
    "saveAsTable, appending by name": (
        lambda: write(TWO.toDF("w", "i"), table_name="c", table_save_method="save_as_table", mode="append"),
        Operation.INSERT,
        "c",
        {"c.w": "a.x:=", "c.i": "a.y:~"},
    ),
    "save": (
        lambda: write(TWO, source="parquet", path="/out/x", mode="overwrite"),
        Operation.OVERWRITE,
        "/out/x",
        {"/out/x.x": "a.x:=", "/out/x.w": "a.y:~"},
    ),
    "append": (
        lambda: write_v2(TWO.toDF("w", "i"), "append"),
        Operation.INSERT,
        "c",
        {"c.w": "a.x:=", "c.i": "a.y:~"},
    ),
    "create": (lambda: write_v2(TWO, "create"), Operation.CREATE, "c", {"c.x": "a.x:=", "c.w": "a.y:~"}),
    "createOrReplace": (
        lambda: write_v2(TWO, "create_or_replace"),
        Operation.CREATE,
        "c",
        {"c.x": "a.x:=", "c.w": "a.y:~"},
    ),
    "createTempView": (
        lambda: command(plans.CreateView(TWO._plan, "TV", is_global=False, replace=True)),
        Operation.CREATE,
        "tv",
        {"tv.x": "a.x:=", "tv.w": "a.y:~"},
    ),
    "stream to a table": (
        lambda: stream(table_name="c"),
        Operation.INSERT,
        "c",
        {"c.x": "a.x:=", "c.w": "a.y:~"},
    ),
    "stream to files": (
        lambda: stream(path="/out", format="parquet"),
        Operation.INSERT,
        "/out",
        {"/out.x": "a.x:=", "/out.w": "a.y:~"},
    ),
    "stream to memory": (
        lambda: stream(format="memory", query_name="Live"),
        Operation.CREATE,
        "live",
        {"live.x": "a.x:=", "live.w": "a.y:~"},
    ),
    "checkpoint": (
        lambda: command(plans.Checkpoint(TWO._plan, local=True, eager=True)),
        Operation.QUERY,
        "result",
        {"x": "a.x:=", "w": "a.y:~"},
    ),
    "an SQL command": (
        lambda: sql_command(f"INSERT INTO c SELECT x, w FROM {REFERENCE}", TWO),
        Operation.INSERT,
        "c",
        {"c.i": "a.x:=", "c.w": "a.y:~"},
    ),
    "a text that is all of the plan": (
        lambda: message(sql("INSERT INTO c SELECT x, y FROM a WHERE z > 1")),
        Operation.INSERT,
        "c",
        {"c.i": "a.x:=", "c.w": "a.y:="},
    ),
}


def stream(**fields: str) -> Any:
    plan = pb.Plan()
    start = plan.command.write_stream_operation_start
    start.input.CopyFrom(message(TWO).root)
    for name, value in fields.items():
        setattr(start, name, value)
    return plan


def sql_command(text: str, view: Any = None) -> Any:
    plan = pb.Plan()
    frame = sql(text) if view is None else sql(text, views={REFERENCE: view})
    plan.command.sql_command.input.CopyFrom(message(frame).root)
    return plan


@pytest.mark.parametrize("name", WRITES)
async def test_what_commands_write(reader: ReaderPool, name: str) -> None:
    run, operation, target, flowing = WRITES[name]
    found = await of_plan(reader, run())
    assert found.table_level == ""
    assert found.operation is operation
    assert [short(dataset) for dataset in found.targets] == [target]
    assert [short(dataset) for dataset in found.inputs] == ["a"]
    assert flows(found) == flowing
    assert decides(found) == ["WHERE: a.z"]


async def test_a_condition_on_what_is_replaced_decides_on_the_target(reader: ReaderPool) -> None:
    found = await of_plan(reader, write_v2(TWO, "overwrite", F.col("w") > 3))
    assert found.operation is Operation.OVERWRITE
    assert decides(found) == ["WHERE: a.z", "WHERE: c.w"]


async def test_a_merge_is_that_of_sql(reader: ReaderPool) -> None:
    plan = pb.Plan()
    merge = plan.command.merge_into_table_command
    merge.target_table_name = "c"
    merge.source_table_plan.CopyFrom(message(table("b").alias("b")).root)

    merge.merge_condition.CopyFrom(expression(F.col("c.i") == F.col("b.i")))
    update = merge.match_actions.add().merge_action
    update.action_type = 4
    update.condition.CopyFrom(expression(F.col("b.q") > 1))
    assignment = update.assignments.add()
    assignment.key.CopyFrom(expression(F.expr("c.w")))
    assignment.value.CopyFrom(expression(F.col("b.k") + F.col("c.w")))
    merge.not_matched_actions.add().merge_action.action_type = 3
    merge.not_matched_by_source_actions.add().merge_action.action_type = 1
    text = (
        "MERGE INTO c USING b ON c.i = b.i WHEN MATCHED AND b.q > 1 THEN UPDATE SET c.w = b.k + c.w "
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    catalog = await catalog_of(reader)
    expected = lineage_of(await text_of(reader, text), catalog)
    assert expected is not None
    found = await of_plan(reader, plan, catalog)
    assert edges(found) == edges(expected)
    assert (found.operation, found.targets, found.inputs) == (
        expected.operation,
        expected.targets,
        expected.inputs,
    )


@pytest.mark.parametrize(
    "run",
    [
        lambda: sql_command("SELECT x FROM a"),
        lambda: sql_command("SHOW TABLES"),
        lambda: message(sql("SHOW TABLES")),
        lambda: write(TWO, source="noop", mode="overwrite"),
        lambda: stream(format="console"),
        lambda: pb.Plan(root=pb.Relation(catalog=pb.Catalog(list_tables=pb.ListTables()))),
        lambda: pb.Plan(command=pb.Command(get_resources_command=pb.GetResourcesCommand())),
        lambda: pb.Plan(),
    ],
)
async def test_what_moves_and_shows_no_rows_has_no_lineage(reader: ReaderPool, run: Any) -> None:
    request = PlanRequest(kind="execute", message=run().SerializeToString())
    names_ = names()
    plan = run()
    text = "SHOW TABLES" if plan.root.HasField("sql") else "SELECT x FROM a"
    texts = (await text_of(reader, text),)
    assert (
        plan_lineage(LineagePlan(request=request, names=names_, statements=texts), LineageCatalog()) is None
    )


# ---------------------------------------------------------------- what was made before


async def test_kept_relations_are_what_their_plans_read(reader: ReaderPool) -> None:
    made_ = await of_plan(reader, command(plans.Checkpoint(TWO._plan, local=True, eager=True)))
    kept = pb.Plan(root=pb.Relation(cached_remote_relation=pb.CachedRemoteRelation(relation_id="id-1")))
    plan = pb.Plan()
    plan.root.filter.input.CopyFrom(kept.root)
    plan.root.filter.condition.CopyFrom(expression(F.col("w")))
    found = await of_plan(reader, plan, kept={"id-1": made_})
    assert flows(found) == {"x": "a.x:=", "w": "a.y:~"}
    assert decides(found) == ["WHERE: a.z", "WHERE: a.y"]
    assert [short(dataset) for dataset in found.inputs] == ["a"]
    unknown = await of_plan(reader, plan)
    assert unknown.table_level == "a relation cached in the session, whose lineage is not known"


async def test_temporary_views_are_what_made_them_read(reader: ReaderPool) -> None:
    view = await of_plan(reader, command(plans.CreateView(TWO._plan, "tv", is_global=False, replace=True)))
    found = await of_plan(reader, frames.message(table("tv").select("w")), temp_views={"tv": view})
    assert flows(found) == {"w": "a.y:~"}
    assert [str(dataset) for dataset in found.views] == ["tv"]
    again = plans.CreateView(table("tv").select("w")._plan, "tw", is_global=False, replace=True)
    views = {"tv": view, "tw": await of_plan(reader, command(again), temp_views={"tv": view})}
    found = await of_plan(reader, frames.message(table("tw")), temp_views=views)
    assert flows(found) == {"w": "a.y:~"}


# ---------------------------------------------------------------- what is not understood


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (lambda: a.select("nothing"), "`nothing` is not in any relation in scope"),
        (lambda: a.select(a.colRegex("`(x|y)+`")), "a pattern of columns"),
        (lambda: a.select(F.expr("x +")), "SQL in the plan that Spark's parser rejects"),
        (lambda: a.union(table("c")), "the columns of a set operation cannot be matched"),
        (lambda: a.select(F.expr("(SELECT max(ghost) FROM c)")), "`ghost` is not in any relation in scope"),
    ],
)
async def test_what_is_not_understood_has_table_level_lineage(reader: ReaderPool, run: Any, why: str) -> None:
    found = await of_plan(reader, frames.message(run()))
    assert found.table_level == why
    assert found.edges == ()
    assert "a" in [short(dataset) for dataset in found.inputs]


MOVE_NO_ROWS = frozenset(
    """sql_command remove_cached_remote_relation_command streaming_query_command
    streaming_query_manager_command streaming_query_listener_bus_command get_resources_command
    create_resource_profile_command register_function register_table_function register_data_source
    ml_command pipeline_command execute_external_command extension""".split()
)
"""Commands without lineage of their own; what a `sql_command` moves its text says."""


async def test_every_case_is_followed_or_known_not_to_be() -> None:
    cases = {f.name for f in pb.Relation.DESCRIPTOR.oneofs_by_name["rel_type"].fields}
    texts_and_feeds = {"sql", "relation_changes", "common_inline_user_defined_data_source"}
    assert RELATIONS.keys() | texts_and_feeds | lineage_walk.NOT_FOLLOWED == cases
    of_messages = {field.message_type for field in pb.Relation.DESCRIPTOR.oneofs_by_name["rel_type"].fields}
    assert {getattr(cls, "DESCRIPTOR", None) for cls in (*COMPLETING, *DECIDING)} <= of_messages
    commands = {f.name for f in pb.Command.DESCRIPTOR.oneofs_by_name["command_type"].fields}
    assert set(lineage.COMMANDS) | MOVE_NO_ROWS == commands


async def test_deep_plans_and_deep_expressions_are_walked_without_recursion(reader: ReaderPool) -> None:
    plan = pb.Plan()
    plan.root.project.expressions.add().unresolved_attribute.unparsed_identifier = "n3"
    condition = plan.root.project.input.filter.condition
    for _ in range(1_500):
        condition.unresolved_function.function_name = "not"
        condition = condition.unresolved_function.arguments.add()
    condition.unresolved_attribute.unparsed_identifier = "x"
    relation = plan.root.project.input.filter.input
    for i in range(1_000):
        alias = relation.with_columns.aliases.add()
        alias.name.append(f"n{i % 7}")
        alias.expr.unresolved_function.function_name = "+"
        for name in ("x", "y"):
            argument = alias.expr.unresolved_function.arguments.add()
            argument.unresolved_attribute.unparsed_identifier = name
        relation = relation.with_columns.input
    relation.read.named_table.unparsed_identifier = "a"
    found = await of_plan(reader, plan)
    assert found.table_level == ""
    assert flows(found) == {"n3": "a.x:~ a.y:~"}
    assert decides(found) == ["WHERE: a.x"]


async def test_a_long_chain_of_unions_costs_what_it_says(reader: ReaderPool) -> None:
    plan = message(a)
    for _ in range(300):
        outer = pb.Plan()
        outer.root.set_op.left_input.CopyFrom(plan.root)
        outer.root.set_op.right_input.CopyFrom(message(a).root)
        outer.root.set_op.set_op_type, outer.root.set_op.is_all = 2, True
        plan = outer
    catalog = await catalog_of(reader)
    gathered_ = await gathered(reader, plan, catalog)
    found = plan_lineage(gathered_.plan, gathered_.catalog, max_work=50_000)
    assert found is not None
    assert found.table_level == ""
    few = plan_lineage(gathered_.plan, gathered_.catalog, max_work=100)
    assert few is not None
    assert few.table_level == "the statement has too many dependencies between columns"


async def test_queries_that_refer_to_one_another_end(reader: ReaderPool) -> None:
    plan = pb.Plan()
    bound = plan.root.with_relations
    bound.references.add().CopyFrom(pb.Relation(common=pb.RelationCommon(plan_id=1)))
    bound.references[0].filter.input.range.end = 1
    for place in (bound.root, bound.references[0]):
        place.filter.input.range.end = 1
        condition = place.filter.condition.unresolved_function
        condition.function_name = "and"
        for _ in range(2):
            inner = condition.arguments.add().subquery_expression
            inner.plan_id, inner.subquery_type = 1, 2
    found = await of_plan(reader, plan)
    assert found.table_level == "the plan has too many nested subqueries for column analysis"


def _filled(top: Any) -> None:
    """Give every relation and expression that has no case one: a table, and a column of it."""
    pending = [top]
    while pending:
        item = pending.pop()
        for field in item.DESCRIPTOR.fields:
            inner = value_type(field)
            if inner is None or is_map(field) or field.is_repeated or field.containing_oneof is not None:
                continue
            if inner.full_name == pb.Relation.DESCRIPTOR.full_name and not item.HasField(field.name):
                getattr(item, field.name).read.named_table.unparsed_identifier = "c"
            if inner.full_name == pb.Expression.DESCRIPTOR.full_name and not item.HasField(field.name):
                getattr(item, field.name).unresolved_attribute.unparsed_identifier = "w"
        for field, value in item.ListFields():
            if value_type(field) is not None:
                pending.extend(value.values() if is_map(field) else value if field.is_repeated else [value])


async def test_no_plan_that_can_be_read_makes_it_raise(reader: ReaderPool) -> None:
    """Each field of each message is there by itself, with a table and columns around it and without."""
    catalog = await catalog_of(reader)
    understood = 0
    for place in places():
        for fill in (True, False):
            top, inner = message_at(place.message)
            if not isinstance(top, pb.Plan):
                break
            if value_type(place.field) is not None:
                enter(inner, place.field)
            else:
                set_scalar(inner, place.field, "w")
            complete(top)
            if fill:
                _filled(top)
            request = PlanRequest(kind="execute", message=top.SerializeToString())
            plan = LineagePlan(request=request, names=names())
            found = plan_lineage(plan, catalog)
            whole = plan_table_lineage(plan, catalog, "why")
            assert (found is None) == (whole is None)
            if found is not None:
                assert pickle.loads(pickle.dumps(found)) == found
                understood += not found.table_level
    assert understood > 300


async def test_lineage_of_a_plan_crosses_processes(reader: ReaderPool) -> None:
    catalog = await catalog_of(reader, views=VIEWS)
    gathered_ = await gathered(reader, frames.message(TWO.join(table("v1"), TWO["x"] == F.col("n"))), catalog)
    assert pickle.loads(pickle.dumps(gathered_)).lineage() == gathered_.lineage()
    async with LineageWorkers(1, deadline_s=patience()) as workers:
        assert await workers.lineage(gathered_) == gathered_.lineage()
        workers.deadline_s = 0.0
        late = await workers.lineage(Endless(gathered_))
    assert late is not None
    assert late.table_level == "it took longer than 0 seconds"
    assert {short(dataset) for dataset in late.inputs} == {"a"}
