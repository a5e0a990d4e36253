"""Plans as text: what PySpark users write comes back as they would write it, and any message has a text."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql.connect import expressions
from pyspark.sql.connect import functions as F  # noqa: N812  as everybody calls them
from pyspark.sql.connect import plan as plans
from pyspark.sql.connect.column import Column
from pyspark.sql.connect.window import Window

from gateway.plan import walk_steps
from gateway.plan.classify import short_name
from gateway.plan.guard import Edits, guard_read, pin_read
from gateway.plan.reading import TableRead
from gateway.plan.rendering import _BY_TYPE, MAX_CHARACTERS, TEMPLATES, render, render_message
from gateway.plan.walk_steps import message_types
from gateway.wire import connect
from tests.plan import frames
from tests.plan.frames import Frame, command, message, sql, table
from tests.plan.test_guard import PEOPLE, QUERY

pb: Any = connect.pb
t = table("hr.employee")
u = table("hr.department")

FRAMES: dict[str, Callable[[], Frame]] = {
    'spark.table("hr.employee")': lambda: t,
    'spark.table("hr.employee").filter("salary > 10").select("name", F.col("t.region").alias("r"))': lambda: (
        t.filter("salary > 10").select("name", F.col("t.region").alias("r"))
    ),
    'spark.table("hr.employee").groupby("a").agg(F.max("b")).orderBy(F.desc("a")).limit(10)': lambda: (
        t.groupBy("a").agg(F.max("b")).orderBy(F.desc("a")).limit(10)
    ),
    'spark.table("hr.employee").filter((F.col("pay") > 10) & ~(F.col("name") == "Ann"))': lambda: t.filter(
        (F.col("pay") > 10) & ~(F.col("name") == "Ann")
    ),
    'spark.table("hr.employee").join(spark.table("hr.department").alias("d"), '
    'F.col("unit") == F.col("d.id"), how="left_outer")': lambda: t.join(
        u.alias("d"), F.col("unit") == F.col("d.id"), "left"
    ),
    'spark.table("hr.employee").join(spark.table("hr.department"), "id", how="inner")': lambda: t.join(
        u, "id"
    ),
    'spark.table("hr.employee").join(spark.table("hr.department"), how="cross")': lambda: t.crossJoin(u),
    'spark.table("hr.employee").select(F.when(F.col("a") > 1, "x").otherwise("y").alias("z"))': lambda: (
        t.select(F.when(F.col("a") > 1, "x").otherwise("y").alias("z"))
    ),
    'spark.table("hr.employee").withColumns(F.row_number().over(partitionBy=["a"], '
    'orderBy=[F.desc("b")]).alias("n"))': lambda: t.withColumn(
        "n", F.row_number().over(Window.partitionBy("a").orderBy(F.desc("b")))
    ),
    'spark.table("hr.employee").union(spark.table("hr.department"), isAll=True)'
    ".dropDuplicates(allColumnsAsKeys=True)": lambda: t.union(u).distinct(),
    'spark.table("hr.employee").union(spark.table("d"), isAll=True, byName=True, '
    "allowMissingColumns=True)": lambda: t.unionByName(table("d"), allowMissingColumns=True),
    'spark.table("hr.employee").dropDuplicates(["a", "b"]).drop("c").withColumnsRenamed("a": "x")': lambda: (
        t.dropDuplicates(["a", "b"]).drop("c").withColumnRenamed("a", "x")
    ),
    'spark.table("hr.employee").filter(spark.table("hr.department").filter("x = 1").exists())': lambda: (
        t.filter(u.filter("x = 1").exists())
    ),
    'spark.table("hr.employee").filter(F.col("a").isin(1, 2, None))': lambda: t.filter(
        F.col("a").isin(1, 2, None)
    ),
    'spark.table("hr.employee").filter(F.col("id").isin(spark.table("d").select("id")))': lambda: t.filter(
        F.col("id").isin(table("d").select("id"))
    ),
    'spark.table("hr.employee").select(F.col("a").cast("int"), F.count_distinct("b"), F.lit(1.5))': lambda: (
        t.select(F.col("a").cast("int"), F.count_distinct("b"), F.lit(1.5))
    ),
    'spark.table("hr.employee").fillna(0, ["a"]).dropna(thresh=1).describe("a")': lambda: (
        t.fillna(0, ["a"]).dropna("all").describe("a")
    ),
    'spark.table("t", options={"password": "***", "x": "1"})': lambda: table("t", x="1", password="hunter2"),
    'spark.sql("SELECT 1")': lambda: sql("SELECT 1"),
    'spark.sql("""SELECT "a"\nFROM t""")': lambda: sql('SELECT "a"\nFROM t'),
    'spark.sql("SELECT :x", args={"x": F.lit("secret")})': lambda: sql("SELECT :x", x=F.lit("secret")),
    'spark.sql("SELECT * FROM v", v=spark.table("hr.employee").filter("a = 1"))': lambda: sql(
        "SELECT * FROM v", views={"v": t.filter("a = 1")}
    ),
    'spark.table("hr.employee").pivot("a", Pivot(F.col("b"), [1, 2])).agg(F.sum("c"))': lambda: (
        t.groupBy("a").pivot("b", [1, 2]).agg(F.sum("c"))
    ),
    'spark.table("hr.employee").select(F.transform("tags", lambda x_0: F.upper(x_0)))': lambda: frames.made(
        plans.Project(t._plan, [_transform()])
    ),
    "spark.range(0, 9, 1)": lambda: frames.made(plans.Range(0, 9, 1)),
}


def _transform() -> Any:
    """Return `F.transform("tags", F.upper)` with a variable whose name does not depend on what ran before."""
    variable = expressions.UnresolvedNamedLambdaVariable(["x_0"])
    body = expressions.LambdaFunction(expressions.UnresolvedFunction("upper", [variable]), [variable])
    tags: Any = F.col("tags")
    return Column(expressions.UnresolvedFunction("transform", [tags._expr, body]))


@pytest.mark.parametrize("text", FRAMES)
def test_a_dataframe_is_written_as_in_pyspark(text: str) -> None:
    assert render(message(FRAMES[text]())) == text


def test_every_relation_has_a_form_of_its_own_or_is_known_to_have_none() -> None:
    kinds = {f.message_type for f in pb.Relation.DESCRIPTOR.oneofs_by_name["rel_type"].fields}
    written = TEMPLATES.keys() | {short_name(kind.DESCRIPTOR.full_name) for kind in _BY_TYPE}
    assert {short_name(kind.full_name) for kind in kinds} - written == {
        "MlRelation",
        "Parse",
        "Unknown",
        "WithRelations",  # the SQL text that it is about
        "google.protobuf.Any",
    }


def test_commands_are_written_as_in_pyspark() -> None:
    write = plans.WriteOperation(t._plan)
    write.mode, write.table_name, write.table_save_method = "append", "db.t", "save_as_table"
    assert render(command(write)) == 'spark.table("hr.employee").write(saveAsTable("db.t"), mode="append")'
    view = plans.CreateView(t._plan, "v", is_global=False, replace=True)
    assert render(command(view)) == 'spark.table("hr.employee").createTempView("v", replace=True)'
    second = plans.WriteOperationV2(t._plan, "db.t")
    second.mode = "append"
    assert render(command(second)) == 'spark.table("hr.employee").writeTo("db.t", mode="append")'
    asked = pb.Plan(command=pb.Command(sql_command=pb.SqlCommand(input=message(sql("SHOW TABLES")).root)))
    assert render(asked) == 'spark.sql("SHOW TABLES")'


def test_analyses_and_catalog_calls_are_written_as_in_pyspark() -> None:
    request = pb.AnalyzePlanRequest(session_id="s", schema=pb.AnalyzePlanRequest.Schema(plan=message(t)))
    assert render(request) == 'spark.table("hr.employee").schema'
    explain = pb.AnalyzePlanRequest.Explain(plan=message(t), explain_mode=2)
    assert render(pb.AnalyzePlanRequest(explain=explain)) == 'spark.table("hr.employee").explain("extended")'
    called = frames.made(plans.ListTables("db"))
    assert render(message(called)) == 'spark.catalog.listTables("db")'


def test_data_and_code_are_shown_as_what_they_are() -> None:
    plan = pb.Plan()
    plan.root.project.input.local_relation.data = b"x" * 1234
    function = plan.root.project.expressions.add().common_inline_user_defined_function
    function.function_name, function.python_udf.command = "f", b"\x80\x05" * 500
    function.arguments.add().unresolved_attribute.unparsed_identifier = "a"
    assert render(plan) == (
        'spark.createDataFrame(<1,234 bytes>).select(udf("f", python <1,000 bytes>)("a"))'
    )


def test_bytes_and_secrets_of_options_appear_in_no_message() -> None:
    shown = set()
    for descriptor in message_types(*walk_steps.ROOTS):
        made = GetMessageClass(descriptor)()
        for field in descriptor.fields:
            inner = field.message_type
            if inner is not None and inner.GetOptions().map_entry:
                if inner.fields_by_name["value"].message_type is None:
                    getattr(made, field.name)["password"] = "hunter2"
            elif field.type == field.TYPE_BYTES:
                setattr(made, field.name, b"hunter2")
            if "hunter2" in render(made):
                shown.add(field.full_name)
            made.Clear()
    assert shown == {"spark.connect.Expression.Literal.binary"}


def test_no_ids_appear() -> None:
    text = render(message(t.select(t["a"], t.b)))
    assert text == 'spark.table("hr.employee").select("a", "b")'


def test_literals_appear_as_values() -> None:
    literals = {
        "string": ('it\'s "x"', "'it\\'s \"x\"'"),
        "long": (2**60, str(2**60)),
        "binary": (b"\x00a", "b'\\x00a'"),
        "date": (19_000, 'date("2022-01-08")'),
        "timestamp": (1, 'datetime("1970-01-01 00:00:00.000001")'),
        "timestamp_ntz": (2**62, f"datetime({2**62})"),
    }
    for case, (value, text) in literals.items():
        assert render(pb.Expression.Literal(**{case: value})) == text
    many = pb.Expression.Literal()
    many.array.elements.add().integer = 1
    many.array.elements.add().struct.elements.add().boolean = True
    assert render(many) == "[1, (True)]"


def test_a_deep_plan_is_rendered_without_recursion() -> None:
    relation = pb.Relation()
    innermost = relation
    for _ in range(1_000):
        innermost.filter.condition.expression_string.expression = "x > 1"
        innermost = innermost.filter.input
    innermost.read.named_table.unparsed_identifier = "t"
    assert render(relation) == 'spark.table("t")' + '.filter("x > 1")' * 1_000
    condition = pb.Expression()
    inner = condition
    for _ in range(2_000):
        inner.unresolved_function.function_name = "not"
        inner = inner.unresolved_function.arguments.add()
    inner.literal.boolean = True
    assert render(condition) == "~" * 2_000 + "True"


def test_a_long_rendering_is_cut() -> None:
    plan = message(t.select(*[F.lit("x" * 1000) for _ in range(100)]))
    text = render(plan)
    assert len(text) == MAX_CHARACTERS
    assert text.endswith("…")
    assert len(render(message(sql("x" * 200_000)))) == MAX_CHARACTERS


@pytest.mark.parametrize("text", FRAMES)
def test_a_plan_whose_reads_became_others_is_brought_up_to_date(text: str) -> None:
    plan = message(FRAMES[text]())
    reads = reads_of_tables(plan)
    before = render_message(plan)
    edits = Edits()
    for at, found in enumerate(reads):
        if at % 2:
            pin_read(found, "`c`.`d`.`t`", edits)
        else:
            guard_read(found, PEOPLE, QUERY, edits)
    again = before.update_text()
    assert again == render(plan)
    assert (again == before.text) is not bool(reads)
    edits.undo()
    assert before.update_text() == before.text == render(plan)


def reads_of_tables(root: Any) -> list[TableRead]:
    """Return the reads in a plan, whether it could be judged or not."""
    found, pending = [], [root]
    while pending:
        one = pending.pop()
        if one.DESCRIPTOR.name == "Relation" and one.read.HasField("named_table"):
            found.append(TableRead(relation=one, parts=("t",)))
        for field, value in one.ListFields():
            if field.message_type is not None and not field.message_type.GetOptions().map_entry:
                pending += value if field.is_repeated else [value]
    return found


@pytest.mark.parametrize("characters", [0, 10, 40_000, 70_000])
@pytest.mark.parametrize("place", ["alone", "before others", "behind others"])
def test_a_rendering_that_is_brought_up_to_date_is_cut_as_well(characters: int, place: str) -> None:
    frames_ = {"alone": t, "before others": t.filter(F.col("x" * 30_000) > 1), "behind others": u.join(t)}
    plan = message(frames_[place])
    before = render_message(plan)
    guard_read(reads_of_tables(plan)[0], PEOPLE, QUERY + "-" * characters, Edits())
    assert before.update_text() == render(plan)


def test_a_subquery_that_contains_itself_ends() -> None:
    plan = pb.Plan()
    relation = plan.root.with_relations
    reference = relation.references.add()
    reference.common.plan_id = 7
    for place in (relation.root, reference):
        place.filter.input.read.named_table.unparsed_identifier = "t"
        place.filter.condition.subquery_expression.plan_id = 7
        place.filter.condition.subquery_expression.subquery_type = 2
    assert render(plan) == ('spark.table("t").filter(spark.table("t").filter(<subquery>.exists()).exists())')


def _filled(descriptor: Any, draw: random.Random, depth: int) -> Any:
    """Return a message with some of its fields set, whatever they mean together."""
    made = GetMessageClass(descriptor)()
    for field in descriptor.fields:
        if draw.random() < 0.5 or (field.message_type is not None and depth == 0):
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            value = field.message_type.fields_by_name["value"]
            if value.message_type is not None:
                getattr(made, field.name)["k"].CopyFrom(_filled(value.message_type, draw, depth - 1))
            else:
                getattr(made, field.name)["k"] = _scalar(value, draw)
        elif field.message_type is not None:
            inner = _filled(field.message_type, draw, depth - 1)
            if field.is_repeated:
                getattr(made, field.name).append(inner)
            else:
                getattr(made, field.name).CopyFrom(inner)
        elif field.is_repeated:
            getattr(made, field.name).append(_scalar(field, draw))
        else:
            setattr(made, field.name, _scalar(field, draw))
    return made


def _scalar(field: Any, draw: random.Random) -> Any:
    match field.cpp_type:
        case field.CPPTYPE_STRING:
            if field.type == field.TYPE_BYTES:
                return b"\x00bytes"
            return draw.choice(["", "a", "a.b", 'q"', "`x`", "new\nline", "\u202e", "back\\", '"""'])
        case field.CPPTYPE_BOOL:
            return True
        case field.CPPTYPE_ENUM:
            return draw.choice(field.enum_type.values).number
        case field.CPPTYPE_DOUBLE | field.CPPTYPE_FLOAT:
            return draw.choice([0.5, float("nan"), float("inf")])
    return draw.choice([0, 1, 2**31 - 1])


@pytest.mark.parametrize("seed", range(40))
def test_any_message_of_the_schema_has_a_rendering(seed: int) -> None:
    """No message stops the record: each request and each kind of relation, expression and command."""
    draw = random.Random(seed)
    for method in connect.METHODS.values():
        request = _filled(method.request.DESCRIPTOR, draw, 7)
        text = render(request)
        assert 0 < len(text) <= MAX_CHARACTERS
        assert text == render(request)
    for cls in (pb.Relation, pb.Expression, pb.Command):
        for field in cls.DESCRIPTOR.fields:
            if field.containing_oneof is None:
                continue
            made = cls()
            getattr(made, field.name).CopyFrom(_filled(field.message_type, draw, 4))
            assert render(made)
