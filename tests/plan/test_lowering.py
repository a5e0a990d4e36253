"""Plans of Spark Connect as relations of the algebra: every kind of relation and expression has a meaning."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  as everybody calls them
from pyspark.sql.connect import plan as plans
from pyspark.sql.connect.window import Window

from gateway.algebra.nodes import (
    Aggregate,
    Alias,
    Cast,
    ChangedColumns,
    ColumnAliases,
    DroppedColumns,
    Expression,
    Filter,
    InlineTable,
    Join,
    JoinKind,
    Lambda,
    Literal,
    NamedCall,
    NamedColumn,
    NamedScan,
    OpaqueExpression,
    OpaqueRelation,
    Operator,
    Pass,
    Passing,
    Projection,
    RelationNode,
    RenamedColumns,
    SetKind,
    SetOperation,
    Star,
    Subquery,
    SubqueryAlias,
    TableFunction,
    WindowCall,
    WithColumns,
)
from gateway.algebra.walking import nodes_of
from gateway.model.reading import Span
from gateway.model.statement import PlanRequest
from gateway.plan.lowering import INPUTS, OPAQUE_RELATIONS, PlanLowering, PlanSources
from gateway.plan.lowering_expressions import EXPRESSIONS, OPAQUE_EXPRESSIONS, UnreadablePlan
from gateway.plan.plan_tree import PlanTree
from gateway.plan.reading import PlanReading
from gateway.plan.walk import read_plan
from gateway.sql.total import total_statement
from gateway.wire import connect
from tests.plan import frames
from tests.plan.frames import Frame, message, table

pb: Any = connect.pb
t, u = table("t"), table("u")


def lowered(frame: Frame) -> RelationNode:
    return plan_tree(frame).tree


def lower_plan(relation: Any, sources: PlanSources) -> PlanTree:
    lowering = PlanLowering(sources)
    return PlanTree(lowering.relation(relation), lowering.notes)


def plan_tree(frame: Frame) -> PlanTree:
    plan = message(frame)
    reading = read_plan(PlanRequest(kind="execute", message=plan.SerializeToString()))
    assert isinstance(reading, PlanReading), reading
    assert isinstance(reading.message, pb.Plan)
    reads = {
        id(one.relation): NamedScan(one.parts, span=Span(at, at + 1)) for at, one in enumerate(reading.tables)
    }
    return lower_plan(reading.message.root, PlanSources(reads=reads, expressions={}))


def test_every_relation_has_a_row_or_is_known_to_be_opaque() -> None:
    cases = {f.name for f in pb.Relation.DESCRIPTOR.oneofs_by_name["rel_type"].fields}
    assert cases == INPUTS.keys() | OPAQUE_RELATIONS
    assert not INPUTS.keys() & OPAQUE_RELATIONS


def test_every_expression_has_a_row_or_is_known_to_be_opaque() -> None:
    cases = {f.name for f in pb.Expression.DESCRIPTOR.oneofs_by_name["expr_type"].fields}
    assert cases == EXPRESSIONS.keys() | OPAQUE_EXPRESSIONS
    assert not EXPRESSIONS.keys() & OPAQUE_EXPRESSIONS


def test_everything_within_a_message_is_lowered() -> None:
    """A field that a newer Spark adds would be left out: the lowering has to name it."""
    rooms = [Path(f"gateway/plan/{name}.py").read_text() for name in ("lowering", "lowering_expressions")]
    words = set(re.findall(r"\w+", "".join(rooms)))
    lowered = {"Relation", "Expression", "SortOrder", "Alias", "Literal"}
    cases = [
        *pb.Relation.DESCRIPTOR.oneofs_by_name["rel_type"].fields,
        *pb.Expression.DESCRIPTOR.oneofs_by_name["expr_type"].fields,
    ]
    fields = {
        f"{case.name}.{field.name}"
        for case in cases
        if case.message_type is not None and case.name not in OPAQUE_RELATIONS | OPAQUE_EXPRESSIONS
        for field in case.message_type.fields
        if field.message_type is not None
        and field.message_type.name in lowered
        and field.name not in words | {*INPUTS.get(case.name, ())}
    }
    assert fields == set()


KINDS: dict[str, tuple[Callable[[], Frame], type[RelationNode], str]] = {
    "read": (lambda: t, NamedScan, ""),
    "project": (lambda: t.select("a"), Projection, "NamedColumn"),
    "filter": (lambda: t.filter(F.col("a") > 1), Filter, "Operator NamedColumn Literal"),
    "sort": (lambda: t.orderBy("a"), Pass, "NamedColumn"),
    "limit": (lambda: t.limit(1), Pass, ""),
    "distinct": (lambda: t.distinct(), Pass, ""),
    "first rows": (lambda: t.dropDuplicates(["a"]), Pass, "NamedColumn"),
    "aggregate": (
        lambda: t.groupBy("a").count(),
        Aggregate,
        "NamedColumn NamedColumn Alias NamedCall Literal",
    ),
    "pivot": (
        lambda: t.groupBy("a").pivot("b", [1]).agg(F.sum("c")),
        Aggregate,
        "NamedColumn NamedColumn NamedColumn OpaqueExpression NamedCall NamedColumn",
    ),
    "join": (lambda: t.join(u, "a"), Join, ""),
    "zip": (lambda: frames.made(plans.LateralJoin(t._plan, u._plan, None, "inner")), Join, ""),
    "union": (lambda: t.union(u), SetOperation, ""),
    "alias": (lambda: t.alias("x"), SubqueryAlias, ""),
    "to_df": (lambda: t.toDF("x"), ColumnAliases, ""),
    "with_columns": (lambda: t.withColumn("x", F.lit(1)), WithColumns, "Alias Literal"),
    "renamed": (lambda: t.withColumnRenamed("a", "b"), RenamedColumns, ""),
    "drop": (lambda: t.drop("a"), DroppedColumns, ""),
    "fill": (lambda: t.fillna(0, ["a"]), ChangedColumns, "NamedColumn"),
    "fill all": (lambda: t.fillna(0), ChangedColumns, "Star"),
    "drop_na": (lambda: t.dropna(), Filter, "OpaqueExpression Star"),
    "describe": (lambda: t.describe("a"), Aggregate, "OpaqueExpression NamedColumn"),
    "unpivot": (
        lambda: t.unpivot(["a"], ["b"], "k", "v"),
        OpaqueRelation,
        "NamedColumn NamedColumn",
    ),
    "range": (lambda: frames.made(plans.Range(0, 9, 1)), InlineTable, ""),
    "function": (
        lambda: frames.made(plans.UnresolvedTableValuedFunction("range", [F.lit(1)])),
        TableFunction,
        "Literal",
    ),
}


@pytest.mark.parametrize("case", KINDS)
def test_what_relations_become(case: str) -> None:
    make, kind, expressions = KINDS[case]
    found = lowered(make())
    assert type(found) is kind
    nodes = [type(part).__name__ for one in found.expressions for part in _flat(one)]
    assert nodes == expressions.split()


def _flat(expression: Expression) -> list[Expression]:
    return [expression, *[part for one in expression.operands for part in _flat(one)]]


ITEMS: dict[str, tuple[Any, Expression]] = {
    "column": (F.col("x.a"), NamedColumn(("x", "a"))),
    "quoted": (F.col("`x.a`"), NamedColumn(("x.a",))),
    "star": (F.col("t.*"), Star(("t",))),
    "count": (F.count("*"), NamedCall(("count",), (Literal("int", "1"),))),
    "not": (~F.col("a"), Operator("Not", (NamedColumn(("a",)),))),
    "cast": (F.col("a").cast("int"), Cast(NamedColumn(("a",)), "int", tried=False)),
    "null": (F.lit(None), Literal("void")),
    "field": (
        F.col("a")["f"],
        Operator("UnresolvedExtractValue", (NamedColumn(("a",)), Literal("string", "f"))),
    ),
    "names": (
        F.explode("a").alias("k", "v"),
        Alias("k", OpaqueExpression((NamedCall(("explode",), (NamedColumn(("a",)),)),), complete=True)),
    ),
    "window": (
        F.max("a").over(Window.partitionBy("b").orderBy("c")),
        WindowCall(
            NamedCall(("max",), (NamedColumn(("a",)),)), (NamedColumn(("b",)), NamedColumn(("c",))), ()
        ),
    ),
}


@pytest.mark.parametrize("case", ITEMS)
def test_what_expressions_become(case: str) -> None:
    column, expected = ITEMS[case]
    found = lowered(t.select(column))
    assert isinstance(found, Projection)
    assert found.items[0] == expected


def test_a_lambda_function_binds_its_variables() -> None:
    found = lowered(t.select(F.transform("a", lambda x: x + F.col("b"))))
    (call,) = found.expressions
    function = call.operands[1]
    assert isinstance(function, Lambda)
    variable, column = function.body.operands
    assert isinstance(variable, NamedColumn)
    assert (variable.parts,) == (function.variables,)
    assert column == NamedColumn(("b",))


def test_union_without_all_compares_rows() -> None:
    found = lowered(frames.made(plans.SetOperation(t._plan, u._plan, "union", is_all=False)))
    assert isinstance(found, Pass)
    assert found.why is Passing.DISTINCT
    assert isinstance(found.input, SetOperation)
    assert found.input.kind is SetKind.UNION


def test_rows_that_stand_beside_others_by_a_rule_are_no_plain_join() -> None:
    """What narrows one side would change which rows meet."""
    relation = pb.Relation()
    relation.zip.left.range.end = relation.zip.right.range.end = 1
    found = lower_plan(relation, PlanSources(reads={}, expressions={})).tree
    assert isinstance(found, Join)
    assert found.kind is JoinKind.FULL_OUTER
    assert [type(one) for one in found.conditions] == [OpaqueExpression]


def test_what_is_not_in_a_message_is_not_made_up() -> None:
    relation = pb.Relation()
    relation.filter.condition.literal.boolean = True
    found = lower_plan(relation, PlanSources(reads={}, expressions={})).tree
    assert found == OpaqueRelation((), ())
    relation = pb.Relation()
    relation.project.expressions.add().literal.integer = 1
    assert isinstance(lower_plan(relation, PlanSources(reads={}, expressions={})).tree, Projection)


def test_a_query_is_lowered_wherever_it_is_referred_to() -> None:
    found = lowered(t.filter(F.col("a").isin(u.select("id"))))
    assert [type(one) for one in found.expressions] == [Subquery]
    assert {one.parts for one in nodes_of(found) if isinstance(one, NamedScan)} == {("t",), ("u",)}


def test_columns_of_a_dataframe_are_not_followed_into_queries() -> None:
    """By its name the column of the query around would be the inner one."""
    types = [{"a": "int", "b": "int"}, {"a": "int"}]
    assert plan_tree(t.join(u, t.a == u.a)).of_one_type(types)
    assert not plan_tree(t.filter(u.filter(u.a == t.a.outer()).exists())).of_one_type(types)
    assert not plan_tree(t.lateralJoin(u.filter(u.a == t.a.outer()))).of_one_type(types)
    assert not plan_tree(t.join(frames.made(plans.Range(0, 9, 1)).fillna(0), t.a == 1)).of_one_type(types)


def test_what_refers_to_nothing_cannot_be_followed() -> None:
    relation = pb.Relation()
    relation.filter.input.range.end = 1
    relation.filter.condition.subquery_expression.plan_id = 7
    with pytest.raises(UnreadablePlan):
        lower_plan(relation, PlanSources(reads={}, expressions={}))


UNKNOWN_TO_BARRIERS: dict[str, Callable[[], Frame]] = {
    "first rows": lambda: t.dropDuplicates(["a"]),
    "fill": lambda: t.fillna(0),
    "pivot": lambda: t.groupBy("a").pivot("b", [1]).agg(F.sum("c")),
    "describe": lambda: t.describe("a"),
    "observed": lambda: frames.made(plans.CollectMetrics(t._plan, "m", [F.max("a").alias("x")])),
    "unpivot": lambda: t.unpivot(["a"], ["b"], "k", "v"),
    "lateral": lambda: t.lateralJoin(u.filter(F.col("u.a") == F.col("t.a").outer())),
    "range": lambda: frames.made(plans.Range(0, 9, 1)),
    "as-of join": lambda: t._joinAsOf(u, "a", "a", on="b"),
    "by name": lambda: t.select("a", "b").unionByName(t.select("b", "a")).filter(F.col("a") > 1),
}


@pytest.mark.parametrize("case", UNKNOWN_TO_BARRIERS)
def test_what_is_new_to_barriers_can_fail(case: str) -> None:
    """A relation that column usage knows, and that nobody has shown to be total."""
    tree = lowered(UNKNOWN_TO_BARRIERS[case]())
    scanned = {
        one.span: dict.fromkeys("abc", "int")
        for one in nodes_of(tree)
        if isinstance(one, NamedScan) and one.span
    }
    assert total_statement(tree, "", scanned, frozenset()) is None
