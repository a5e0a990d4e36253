"""What the walk reads in plans as PySpark makes them, and in plans as an attacker would."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types
from pyspark.sql.connect import functions as F  # noqa: N812  as every program names it
from pyspark.sql.connect.udf import UserDefinedFunction

from gateway.model.handles import SparkHandle
from gateway.model.statement import PlanRequest
from gateway.plan.reading import CodeUse, MalformedPlan, PlanReading
from gateway.plan.walk import read_plan
from gateway.sql.required import Unsupported
from gateway.wire.connect import MAX_MESSAGES, pb, serialize
from tests.plan.plans import Sent, plan_in, plan_of, read, recording


@pytest.fixture
def session() -> Iterator[tuple[Any, Sent]]:
    with recording() as both:
        yield both


@pytest.fixture
def spark(session: tuple[Any, Sent]) -> Any:
    return session[0]


@pytest.fixture
def sent(session: tuple[Any, Sent]) -> Sent:
    return session[1]


def refusal(plan: Any, kind: str = "execute") -> str:
    """Return why a plan is refused that must be."""
    message = plan if isinstance(plan, bytes) else serialize(plan)
    found = read_plan(PlanRequest(kind="analyze" if kind == "analyze" else "execute", message=message))
    assert isinstance(found, Unsupported), found
    return found.why


# Tables


def test_a_table_is_read_by_its_parts(spark: Any) -> None:
    reading = read(plan_of(spark.table("cat.`my db`.t")))
    [table] = reading.tables
    assert table.parts == ("cat", "my db", "t")
    assert not table.streaming
    assert not table.changes
    assert table.relation is plan_in(reading).root
    assert reading.root == "Read"
    assert reading.messages >= 3


def test_every_table_of_a_join_is_found_in_the_order_of_the_plan(spark: Any) -> None:
    frame = spark.table("a").join(spark.table("b"), "id").union(spark.table("c").crossJoin(spark.table("d")))
    reading = read(plan_of(frame))
    assert [table.parts for table in reading.tables] == [("a",), ("b",), ("c",), ("d",)]
    assert reading.names == ["id"]
    assert reading.root == "SetOperation"


def test_a_stream_of_a_table_is_read_with_its_limits(spark: Any) -> None:
    frame = spark.readStream.option("maxFilesPerTrigger", 5).table("t")
    [table] = read(plan_of(frame)).tables
    assert table.streaming
    assert table.options == (("maxFilesPerTrigger", "5"),)


@pytest.mark.parametrize("option", ["path", "PATH", "sep", "start-snapshot-id", "mergeSchema"])
def test_an_option_that_changes_what_a_table_is_read_as_is_refused(spark: Any, option: str) -> None:
    assert option in refusal(plan_of(spark.read.option(option, "x").table("t")))


def test_the_change_feed_of_a_table_is_told_apart() -> None:
    plan = pb.Plan()
    plan.root.relation_changes.unparsed_identifier = "db.t"
    plan.root.relation_changes.is_streaming = True
    [table] = read(serialize(plan)).tables
    assert (table.parts, table.changes, table.streaming) == (("db", "t"), True, True)


@pytest.mark.parametrize("name", ["", "t VERSION AS OF 1", "t@v1", "a b", "a.", "`a", "(select 1)"])
def test_a_table_name_that_cannot_be_read_for_certain_is_refused(spark: Any, name: str) -> None:
    assert "backticks" in refusal(plan_of(spark.table(name)))


def test_sql_on_files_is_a_table_of_two_parts(spark: Any) -> None:
    """Whether such a name may be read, the names of `sql` decide."""
    [table] = read(plan_of(spark.table("parquet.`/path/x`"))).tables
    assert table.parts == ("parquet", "/path/x")


# Files


def test_files_are_addresses_that_are_read(spark: Any) -> None:
    frame = spark.read.format("csv").option("header", "true").load(["/a", "s3://b/c"])
    assert [(use.url, use.access) for use in read(plan_of(frame)).urls] == [
        ("/a", "read"),
        ("s3://b/c", "read"),
    ]
    [use] = read(plan_of(spark.read.format("json").option("Path", "/x").load())).urls
    assert use.url == "/x"


def test_the_default_format_is_files_of_parquet(spark: Any) -> None:
    [use] = read(plan_of(spark.read.load("/a"))).urls
    assert use.url == "/a"


@pytest.mark.parametrize(
    "source",
    ["jdbc", "kafka", "hive", "hudi", "binaryFile", "xml", "org.apache.spark.sql.jdbc", ""],
)
def test_sources_that_reach_further_than_files_are_refused(spark: Any, source: str) -> None:
    assert "data source" in refusal(plan_of(spark.read.format(source).load("x")))


@pytest.mark.parametrize(
    "path",
    ["", " ", "/a/../b", "..", "../x", "/a/*", "/a/{b,c}", "/a[12]", "/a\\b", "/a?", "/a@v1", "/a@20240101/"],
)
def test_a_path_that_can_mean_other_places_is_refused(spark: Any, path: str) -> None:
    assert "path" in refusal(plan_of(spark.read.format("text").load(path)))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"versionAsOf": "1"}, "`db`.`t` VERSION AS OF '1'"),
        ({"TIMESTAMPASOF": "2026-01-01"}, "`db`.`t` TIMESTAMP AS OF '2026-01-01'"),
        ({"timestampAsOf": "2026-01-01 10:30:00.5"}, "`db`.`t` TIMESTAMP AS OF '2026-01-01 10:30:00.5'"),
        ({"timestampAsOf": "2026-01-01T10:30:00Z"}, "`db`.`t` TIMESTAMP AS OF '2026-01-01T10:30:00Z'"),
        ({"snapshot-id": "12"}, "`db`.`t` VERSION AS OF 12"),
        ({"as-of-timestamp": "12"}, "`db`.`t` TIMESTAMP AS OF timestamp_millis(12)"),
        ({"branch": "b"}, "`db`.`t` VERSION AS OF 'b'"),
        ({"tag": "it's"}, "`db`.`t` VERSION AS OF "),
        ({"readChangeFeed": "true", "startingVersion": "0"}, "table_changes('db.t', 0)"),
        (
            {"readChangeData": "TRUE", "startingTimestamp": "2026-01-01", "endingVersion": "7"},
            "table_changes('db.t', '2026-01-01', 7)",
        ),
    ],
)
def test_an_option_that_sql_has_words_for_is_read_as_the_text(
    spark: Any, options: dict[str, str], text: str
) -> None:
    if "it's" in options.values():
        assert "cannot be written" in refusal(plan_of(spark.read.options(**options).table("db.t")))
        return
    reading = read(plan_of(spark.read.options(**options).table("db.t")))
    assert [one.text for one in reading.texts] == [f"SELECT * FROM {text}"]
    assert not reading.tables
    assert plan_in(reading).root.sql.query == f"SELECT * FROM {text}"


@pytest.mark.parametrize("name", ["ice.db.t", "t", "`a b`.t"])
def test_a_table_that_iceberg_loads_by_its_name_is_a_table(spark: Any, name: str) -> None:
    [one] = read(plan_of(spark.read.format("Iceberg").load(name))).texts
    assert one.text.replace("`", "") == f"SELECT * FROM {name}".replace("`", "")
    [table] = read(plan_of(spark.readStream.format("iceberg").load(name))).tables
    assert table.streaming


def test_names_of_metadata_are_read_as_text_that_says_what_they_mean(spark: Any) -> None:
    reading = read(plan_of(spark.table("ice.db.t.files").join(spark.table("db.history"), "id")))
    assert [one.text for one in reading.texts] == ["SELECT * FROM `ice`.`db`.`t`.`files`"]
    assert [one.parts for one in reading.tables] == [("db", "history")]


@pytest.mark.parametrize(
    "options",
    [
        {"versionAsOf": "1", "timestampAsOf": "2026-01-01"},
        {"versionAsOf": "1", "readChangeFeed": "true", "startingVersion": "0"},
        {"versionAsOf": "1", "maxFilesPerTrigger": "1"},
        {"versionAsOf": "1", "sep": ";"},
        {"readChangeFeed": "false", "startingVersion": "0"},
        {"readChangeFeed": "true"},
        {"startingVersion": "0"},
        {"readChangeFeed": "true", "startingVersion": "0", "startingTimestamp": "2026-01-01"},
        {"readChangeFeed": "true", "startingVersion": "(SELECT 1)"},
        {"snapshot-id": "1 OR 1"},
        {"tag": "12"},
        {"branch": " 12 "},
        {"as-of-timestamp": "now()"},
        {"timestampAsOf": "2026-01-01' OR '"},
        {"timestampAsOf": "2026-01-01\n"},
    ],
)
def test_options_that_say_two_things_or_none_are_refused(spark: Any, options: dict[str, str]) -> None:
    assert refusal(plan_of(spark.read.options(**options).table("db.t")))


def test_no_stream_begins_at_a_version(spark: Any) -> None:
    for option in ("versionAsOf", "branch", "readChangeFeed", "startingVersion"):
        assert "stream" in refusal(plan_of(spark.readStream.option(option, "1").table("db.t")))


def test_a_plugin_of_connect_is_refused_and_sql_named() -> None:
    from pyspark.sql.connect.proto import base_pb2

    plan = base_pb2.Plan()
    plan.root.extension.type_url = "type.googleapis.com/delta.connect.DeltaRelation"
    assert "DeltaTable" in refusal(plan)


@pytest.mark.parametrize("option", ["avroSchemaUrl", "rowValidationXSDPath", "basePath", "paths", "url"])
def test_an_option_of_files_that_is_not_known_is_refused(spark: Any, option: str) -> None:
    assert option in refusal(plan_of(spark.read.format("csv").option(option, "/x").load("/a")))


def test_predicates_are_refused() -> None:
    plan = pb.Plan()
    plan.root.read.data_source.format = "csv"
    plan.root.read.data_source.predicates.append("1 = 1")
    assert "another database" in refusal(plan)


def test_sources_that_read_nothing_pass(spark: Any) -> None:
    reading = read(plan_of(spark.readStream.format("rate").option("rowsPerSecond", 1).load()))
    assert reading.urls == []
    assert "data source" in refusal(plan_of(spark.readStream.format("socket").option("host", "x").load()))
    assert "data source" in refusal(plan_of(spark.read.format("rate").load()))


# SQL


def test_sql_text_is_found_with_its_arguments_and_as_a_command(spark: Any, sent: Sent) -> None:
    spark.sql("select :x", {"x": 3})
    [text] = read(sent.plan).texts
    assert (text.text, text.arguments, text.command) == ("select :x", True, True)
    assert text.aliases == frozenset()
    spark.sql("select 1")
    assert not read(sent.plan).texts[0].arguments
    spark.sql("select ?", [F.expr("(select 2)")])
    reading = read(sent.plan)
    assert [each.text for each in reading.expressions] == ["(select 2)"]
    assert reading.root == "SqlCommand"
    assert reading.command is plan_in(reading).command


def test_sql_within_a_plan_is_no_command(spark: Any) -> None:
    frame = spark.sql("show tables").filter("isTemporary")
    [text] = read(plan_of(frame)).texts
    assert not text.command


def test_dataframes_within_sql_are_names_of_that_text_only(spark: Any, sent: Sent) -> None:
    frame = spark.table("a").filter("b > (select 1)")
    result = spark.sql("select * from {x}, c", x=frame)
    reading = read(sent.plan)
    [text] = reading.texts
    [alias] = text.aliases
    assert alias.startswith("_pyspark_connect_temp_view_")
    assert text.command
    assert [table.parts for table in reading.tables] == [("a",)]
    [expression] = reading.expressions
    assert expression.aliases == frozenset()
    # The client sends the relation that it got back, as a part of later plans.
    [text] = read(plan_of(result.limit(1))).texts
    assert text.aliases == {alias}
    assert not text.command


def _with_reference(name: str, *, root_is_text: bool = True) -> Any:
    plan = pb.Plan()
    within = plan.root.with_relations
    root = within.root if root_is_text else within.root.limit.input
    root.sql.query = "select * from people"
    reference = within.references.add()
    reference.common.plan_id = 1
    reference.subquery_alias.alias = name
    reference.subquery_alias.input.range.end = 1
    return plan


def test_a_reference_binds_its_name_only_where_spark_binds_it() -> None:
    """In a relation below the root the name would mean a table, though a reference has it as its alias."""
    name = "_pyspark_connect_temp_view_0f"
    assert read(serialize(_with_reference(name))).texts[0].aliases == {name}
    assert read(serialize(_with_reference(name, root_is_text=False))).texts[0].aliases == frozenset()
    mixed = _with_reference(name)
    other = mixed.root.with_relations.references.add()
    other.common.plan_id = 2
    other.range.end = 1
    assert read(serialize(mixed)).texts[0].aliases == frozenset()


@pytest.mark.parametrize(
    "name", ["people", "", "_pyspark_connect_temp_view_", "_PYSPARK_CONNECT_TEMP_VIEW_0f"]
)
def test_a_reference_that_would_drop_a_view_of_the_user_is_refused(name: str) -> None:
    """Spark makes a temporary view of the name and drops it: then the name means the table below it."""
    assert "temporary views" in refusal(_with_reference(name))


def test_two_references_of_one_name_are_refused() -> None:
    plan = _with_reference("_pyspark_connect_temp_view_0f")
    plan.root.with_relations.references.append(plan.root.with_relations.references[0])
    assert "temporary views" in refusal(plan)


def test_a_name_is_not_bound_again_within_what_it_is_bound_to() -> None:
    """Spark drops the view of the inner one: for the outer text its name would be a table's."""
    name = "_pyspark_connect_temp_view_0f"
    inner = _with_reference(name).root
    nested = _with_reference(name)
    beside = nested.root.with_relations.references.add().subquery_alias
    beside.alias = "_pyspark_connect_temp_view_0e"
    beside.input.CopyFrom(inner)
    assert "two DataFrames" in refusal(nested)
    twice = pb.Plan()
    twice.root.set_op.left_input.CopyFrom(inner)
    twice.root.set_op.right_input.CopyFrom(inner)
    twice.root.set_op.set_op_type = pb.SetOperation.SET_OP_TYPE_UNION
    assert [text.aliases for text in read(serialize(twice)).texts] == [{name}, {name}]


def test_the_older_form_of_a_sql_command_is_rewritten_into_the_newer() -> None:
    plan = pb.Plan()
    command = plan.command.sql_command
    command.sql = "select :a, :b"
    command.args["a"].integer = 1
    command.named_arguments["b"].expression_string.expression = "(select 2)"
    command.pos_args.add().string = "x"
    command.pos_arguments.add().expression_string.expression = "(select 3)"
    reading = read(serialize(plan))
    [text] = reading.texts
    assert (text.text, text.arguments, text.command) == ("select :a, :b", True, True)
    assert {each.text for each in reading.expressions} == {"(select 2)", "(select 3)"}
    rewritten = plan_in(reading).command.sql_command
    assert [field.name for field, _ in rewritten.ListFields()] == ["input"]
    assert text.relation is rewritten.input
    assert rewritten.input.sql.args["a"].integer == 1
    assert rewritten.input.sql.pos_args[0].string == "x"
    assert read(serialize(reading.message)).texts[0].text == text.text


def test_a_sql_command_in_both_forms_is_refused() -> None:
    for field in ("sql", "args", "pos_args", "named_arguments", "pos_arguments"):
        plan = pb.Plan()
        command = plan.command.sql_command
        command.input.sql.query = "select 1"
        if field == "sql":
            command.sql = "select 2"
        elif field.startswith("pos"):
            getattr(command, field).add()
        else:
            getattr(command, field)["a"].SetInParent()
        assert "two inputs" in refusal(plan), field


def test_an_unknown_field_in_an_older_form_is_not_lost_by_rewriting_it() -> None:
    plan = pb.Plan()
    plan.command.sql_command.sql = "select :a"
    plan.command.sql_command.named_arguments["a"].literal.integer = 1
    plan.command.sql_command.named_arguments["a"].MergeFromString(b"\xa2\xfa\x01\x01x")
    assert "4004" in refusal(plan)


def test_a_sql_command_without_text_is_refused(spark: Any) -> None:
    plan = pb.Plan()
    plan.command.sql_command.input.read.named_table.unparsed_identifier = "t"
    assert "no SQL text" in refusal(plan)


# Columns, functions, names


def test_columns_and_functions_are_found(spark: Any) -> None:
    frame = spark.table("t").select(
        F.col("t.`a.b`"),
        F.upper("c"),
        F.call_function("db.f", "d"),
        F.call_function("`my f`"),
        F.col("t.*"),
        F.col("*"),
    )
    reading = read(plan_of(frame))
    assert [(each.parts, each.star) for each in reading.columns] == [
        (("t", "a.b"), False),
        (("c",), False),
        (("d",), False),
        (("t",), True),
        ((), True),
    ]
    assert [each.parts for each in reading.functions] == [("upper",), ("db", "f"), ("my f",)]
    assert [each.by_name for each in reading.functions] == [False, True, True]


def test_a_metadata_column_is_told_apart(spark: Any) -> None:
    [column] = read(plan_of(spark.table("t").select(spark.table("t").metadataColumn("_metadata")))).columns
    assert column.metadata


def test_a_pattern_of_columns_can_mean_all(spark: Any) -> None:
    [column] = read(plan_of(spark.table("t").select(spark.table("t").colRegex("`.*`")))).columns
    assert (column.parts, column.star) == ((), True)
    [column] = read(plan_of(spark.table("t").select(spark.table("t").colRegex("t.`.*`")))).columns
    assert (column.parts, column.star) == ((), True)


@pytest.mark.parametrize("name", ["_metadata", "_metadata.file_path", "t.`_metadata`.x"])
def test_what_is_no_pattern_is_the_name_of_a_column(name: str) -> None:
    """`colRegex("_metadata")` shows where rows are stored, as the column itself does."""
    plan = pb.Plan()
    plan.root.project.expressions.add().unresolved_regex.col_name = name
    [column] = read(serialize(plan)).columns
    assert "_metadata" in column.parts
    assert not column.star


def test_variables_of_lambdas_are_no_columns(spark: Any) -> None:
    nested = F.transform("a", lambda x: F.filter(x, lambda y, i: (y > F.col("b")) & (i > F.size(x))))
    assert [column.parts for column in read(plan_of(spark.table("t").select(nested))).columns] == [
        ("a",),
        ("b",),
    ]


def test_a_variable_that_no_lambda_around_it_declares_is_refused() -> None:
    """Spark looks for a column of its name: `salary` would be read, and nobody had been asked."""
    plan = pb.Plan()
    variable = plan.root.project.expressions.add().unresolved_named_lambda_variable
    variable.name_parts.extend(["salary", "amount"])
    assert "salary.amount" in refusal(plan)
    beside = plan.root.project.expressions.add().lambda_function
    beside.arguments.add().name_parts.append("salary")
    beside.function.unresolved_named_lambda_variable.name_parts.append("salary")
    assert "salary" in refusal(plan)
    del plan.root.project.expressions[0]
    assert read(serialize(plan)).columns == []
    within = plan.root.project.expressions[0].lambda_function.function
    within.unresolved_named_lambda_variable.name_parts[0] = "SALARY"
    assert "SALARY" in refusal(plan)


@pytest.mark.parametrize("count", [0, 4])
def test_a_lambda_has_one_to_three_arguments(count: int) -> None:
    plan = pb.Plan()
    function = plan.root.project.expressions.add().lambda_function
    function.function.literal.integer = 1
    for number in range(count):
        function.arguments.add().name_parts.append(f"x{number}")
    assert "arguments" in refusal(plan)


def test_lambdas_within_lambdas_are_gone_through_once() -> None:
    plan = pb.Plan()
    expression = plan.root.project.expressions.add()
    for number in range(1000):
        function = expression.lambda_function
        function.arguments.add().name_parts.append(f"x{number}")
        expression = function.function
    expression.unresolved_named_lambda_variable.name_parts.append("x0")
    assert read(serialize(plan)).messages > 3000


def test_a_function_name_is_whole_unless_a_user_has_defined_it() -> None:
    plan = pb.Plan()
    function = plan.root.project.expressions.add().unresolved_function
    function.function_name = "system.builtin.f"
    assert read(serialize(plan)).functions[0].parts == ("system.builtin.f",)
    function.is_user_defined_function = True
    function.is_internal = True
    [call] = read(serialize(plan)).functions
    assert call.parts == ("system", "builtin", "f")
    assert call.internal


def test_table_functions_are_found(spark: Any) -> None:
    [call] = read(plan_of(spark.tvf.explode(F.array(F.lit(1))))).functions[:1]
    assert (call.parts, call.table_valued) == (("explode",), True)


@pytest.mark.parametrize("name", ["a.", "`a", "a`b`"])
def test_a_column_name_that_cannot_be_read_is_refused(spark: Any, name: str) -> None:
    assert "[INVALID_ATTRIBUTE_NAME_SYNTAX]" in refusal(plan_of(spark.table("t").select(F.col(name))))


def test_columns_that_are_strings_are_names(spark: Any) -> None:
    frame = spark.table("t")
    for made, names in [
        (frame.drop("a", "b"), ["a", "b"]),
        (frame.dropDuplicates(["a"]), ["a"]),
        (frame.fillna(1, subset=["a"]), ["a"]),
        (frame.dropna(subset=["a"]), ["a"]),
        (frame.replace(1, 2, subset=["a"]), ["a"]),
        (frame.crosstab("a", "b"), ["a", "b"]),
        (frame.describe("a"), ["a"]),
        (frame.freqItems(["a"]), ["a"]),
        (frame.withColumnRenamed("a", "new"), ["a"]),
        (frame.withWatermark("a", "1 hour"), ["a"]),
    ]:
        assert read(plan_of(made)).names == names, made


def test_a_subquery_of_the_dataframe_api_is_found_in_the_references(spark: Any) -> None:
    secret = spark.table("secret").select(F.max("pay"))
    reading = read(plan_of(spark.table("t").filter(F.col("a") > secret.scalar())))
    assert {table.parts for table in reading.tables} == {("t",), ("secret",)}
    assert reading.root == "WithRelations"


# Commands and catalog calls


def test_writes_name_where_they_write(spark: Any, sent: Sent) -> None:
    frame = spark.range(3)
    frame.write.option("header", "true").csv("/out")
    assert [(use.url, use.access) for use in read(sent.plan).urls] == [("/out", "write")]
    frame.write.option("path", "/t").saveAsTable("db.t")
    assert [use.url for use in read(sent.plan).urls] == ["/t"]
    frame.write.saveAsTable("db.t")
    assert read(sent.plan).urls == []
    frame.writeTo("db.t").using("iceberg").create()
    assert read(sent.plan).root == "WriteOperationV2"


def test_writes_that_reach_further_are_refused(spark: Any, sent: Sent) -> None:
    frame = spark.range(3)
    frame.write.format("jdbc").option("url", "jdbc:x").save()
    assert "data source" in refusal(sent.plan)
    frame.write.format("iceberg").save("db.t")
    assert "data source" in refusal(sent.plan)
    frame.writeTo("t").using("jdbc").create()
    assert "jdbc" in refusal(sent.plan)
    frame.writeTo("t").tableProperty("location", "/x").create()
    assert "location" in refusal(sent.plan)
    frame.writeTo("t").option("write.data.path", "/x").append()
    assert "write.data.path" in refusal(sent.plan)
    frame.write.option("avroSchemaUrl", "/x").format("avro").save("/out")
    assert "avroSchemaUrl" in refusal(sent.plan)


def test_streams_name_their_checkpoints_and_queries(spark: Any, sent: Sent) -> None:
    frame = spark.readStream.table("t")
    query = frame.writeStream.option("checkpointLocation", "/c").format("parquet").start("/out")
    assert [(use.url, use.access) for use in read(sent.plan).urls] == [("/out", "write"), ("/c", "write")]
    assert query.status == {"message": "idle", "isDataAvailable": False, "isTriggerActive": False}
    assert [use.handle for use in read(sent.plan).handles] == [SparkHandle("query", "q-1")]
    asked = pb.Plan()
    asked.command.streaming_query_command.query_id.id = "q-1"
    asked.command.streaming_query_command.query_id.run_id = "r-1"
    asked.command.streaming_query_command.status = True
    assert read(serialize(asked)).named == {SparkHandle("query", "q-1"), SparkHandle("query", "r-1")}
    frame.writeStream.format("console").start()
    assert read(sent.plan).urls == []


def test_sinks_that_bypass_policies_are_refused(spark: Any, sent: Sent) -> None:
    frame = spark.readStream.table("t")
    frame.writeStream.format("Memory").queryName("people").start()
    assert "data source" in refusal(sent.plan)
    frame.writeStream.format("kafka").option("topic", "x").start()
    assert "data source" in refusal(sent.plan)
    frame.writeStream.format("iceberg").start("db.t")
    assert "data source" in refusal(sent.plan)


def test_a_function_for_every_row_of_a_stream_is_code() -> None:
    plan = pb.Plan()
    stream = plan.command.write_stream_operation_start
    stream.input.range.end = 1
    stream.foreach_writer.python_function.command = b"x"
    stream.foreach_writer.python_function.output_type.string.SetInParent()
    assert (
        CodeUse(name="foreach", access="execute", what="a function called for every row of a stream")
        in read(plan.SerializeToString()).code
    )


def test_the_plan_of_a_running_stream_is_not_shown() -> None:
    plan = pb.Plan()
    plan.command.streaming_query_command.query_id.id = "q"
    plan.command.streaming_query_command.explain.extended = True
    assert "row filters" in refusal(plan)


def test_catalog_calls_are_found_and_whether_they_are_the_plan() -> None:
    plan = pb.Plan()
    plan.root.catalog.list_tables.db_name = "db"
    reading = read(serialize(plan))
    [call] = reading.catalog_calls
    assert (call.operation, call.root, reading.root) == ("list_tables", True, "Catalog.ListTables")
    within = pb.Plan()
    within.root.limit.input.CopyFrom(plan.root)
    assert not read(serialize(within)).catalog_calls[0].root


def test_handles_of_cached_relations_are_found(spark: Any, sent: Sent) -> None:
    cached = spark.table("t").localCheckpoint()
    assert read(sent.plan).root == "CheckpointCommand"
    assert not read(sent.plan).lazy
    assert read(plan_of(cached)).named == {SparkHandle("relation", "7a1e")}
    later = spark.table("t").localCheckpoint(eager=False)
    assert read(sent.plan).lazy
    assert read(plan_of(later)).handles


def test_data_of_the_client_passes(spark: Any) -> None:
    reading = read(plan_of(spark.createDataFrame([(1, "a")], ["id", "name"])))
    assert [reading.tables, reading.urls, reading.code, reading.handles] == [[]] * 4


DEFAULT = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "a", "type": "string", "nullable": True, "metadata": {"CURRENT_DEFAULT": "f()"}},
        ],
    }
)


def test_a_schema_is_read_wherever_it_comes_as_text(spark: Any) -> None:
    """The tests of places ask the table what is a schema; these are some of Spark's."""
    table = spark.table("t")
    unparsed = pb.Plan()
    unparsed.root.to_schema.input.range.end = 1
    unparsed.root.to_schema.schema.unparsed.data_type_string = DEFAULT
    named = pb.Plan()
    named.root.project.input.range.end = 1
    alias = named.root.project.expressions.add().alias
    alias.expr.literal.integer = 1
    alias.metadata = '{"EXISTS_DEFAULT": "f()"}'
    field = pa.field("a", pa.string(), metadata={"SPARK::metadata::json": '{"CURRENT_DEFAULT": "f()"}'})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([field])):
        pass
    sent = pb.Plan()
    sent.root.local_relation.data = sink.getvalue().to_pybytes()
    for plan in (
        serialize(unparsed),
        serialize(named),
        serialize(sent),
        plan_of(table.select(F.from_json("a", F.lit(DEFAULT)))),
        plan_of(table.select(F.call_function("from_json", F.col("a"), F.lit(DEFAULT)))),
    ):
        assert "_DEFAULT` contains an expression" in refusal(plan)


def test_xml_has_no_option_that_names_a_file(spark: Any) -> None:
    table = spark.table("t")
    xsd = F.create_map(F.lit("rowValidationXSDPath"), F.lit("/x"))
    for call in (
        F.from_xml("a", "b INT", {"rowValidationXSDPath": "/x"}),
        F.call_function("from_xml", F.col("a"), F.lit("b INT"), xsd),
        F.call_function("schema_of_xml", F.lit("<a/>"), F.create_map(F.upper(F.lit("mode")), F.lit("x"))),
    ):
        assert "with such options" in refusal(plan_of(table.select(call)))
    plain = plan_of(table.select(F.from_xml("a", "b INT", {"rowTag": "x"})))
    assert not isinstance(read_plan(PlanRequest(kind="execute", message=plain)), Unsupported)


def test_a_relation_of_no_kind_is_refused() -> None:
    plan = pb.Plan()
    plan.root.limit.input.SetInParent()
    assert "of an unknown kind" in refusal(serialize(plan))


# Code


def _double() -> Any:
    function: Any = UserDefinedFunction(lambda x: x * 2, returnType=types.IntegerType(), name="double")
    return function


def test_code_is_found_and_whether_it_is_registered(spark: Any, sent: Sent) -> None:
    frame = spark.table("t")
    inline = CodeUse(name="double", access="execute", what="a Python function")
    assert read(plan_of(frame.select(_double()("a")))).code == [inline]
    spark.udf.register("sha2", lambda a, b: a)
    assert read(sent.plan).code == [CodeUse(name="sha2", access="create", what="a Python function")]
    mapped = frame.mapInPandas(lambda rows: rows, "a int")
    [use] = read(plan_of(mapped)).code
    assert use.access == "execute"
    [use] = read(plan_of(frame.groupBy("a").applyInPandas(lambda rows: rows, "a int"))).code
    assert use.access == "execute"
    spark.udf.registerJavaFunction("j", "com.example.Function", types.IntegerType())
    assert read(sent.plan).code == [CodeUse(name="j", access="create", what="a Java class")]
    spark.readStream.table("t").writeStream.foreachBatch(lambda rows, number: None).start()
    assert [use.name for use in read(sent.plan).code] == ["foreach_batch"]


def test_what_clients_send_when_they_end_is_no_code() -> None:
    for case in ("clean_cache", "get_cache_info", "delete"):
        plan = pb.Plan()
        getattr(plan.command.ml_command, case).SetInParent()
        assert read(serialize(plan)).code == []
    plan = pb.Plan()
    plan.command.ml_command.fit.dataset.read.named_table.unparsed_identifier = "t"
    reading = read(serialize(plan))
    assert [use.name for use in reading.code] == ["ml"]
    assert [table.parts for table in reading.tables] == [("t",)]


def test_a_type_that_makes_spark_create_an_object_is_refused() -> None:
    plan = pb.Plan()
    cast = plan.root.project.expressions.add().cast
    cast.expr.literal.string = "x"
    cast.type.udt.type = "udt"
    cast.type.udt.jvm_class = "org.apache.spark.ml.linalg.VectorUDT"
    assert isinstance(read(serialize(plan)), PlanReading)
    cast.type.udt.jvm_class = "org.apache.hadoop.Evil"
    assert "org.apache.hadoop.Evil" in refusal(plan)
    cast.type.udt.jvm_class = ""
    cast.type.udt.serialized_python_class = "gAS="
    assert "pickled" in refusal(plan)


# Requests to analyse


@pytest.mark.parametrize(
    "case",
    ["schema", "explain", "tree_string", "is_local", "is_streaming", "input_files", "semantic_hash"],
)
def test_the_plan_of_an_analysis_is_read(case: str) -> None:
    request = pb.AnalyzePlanRequest()
    getattr(request, case).plan.root.limit.input.read.named_table.unparsed_identifier = "t"
    reading = read(serialize(request), "analyze")
    assert (reading.analysis, reading.root) == (case, "Limit")
    assert [table.parts for table in reading.tables] == [("t",)]
    getattr(request, case).plan.command.get_resources_command.SetInParent()
    assert "only relations can be analyzed" in refusal(request, "analyze")


def test_both_plans_of_a_comparison_are_read() -> None:
    request = pb.AnalyzePlanRequest()
    request.same_semantics.target_plan.root.read.named_table.unparsed_identifier = "a"
    request.same_semantics.other_plan.root.read.named_table.unparsed_identifier = "b"
    reading = read(serialize(request), "analyze")
    assert [table.parts for table in reading.tables] == [("a",), ("b",)]
    request.same_semantics.ClearField("other_plan")
    assert len(read(serialize(request), "analyze").tables) == 1
    request.same_semantics.other_plan.SetInParent()
    assert "unknown kind" in refusal(request, "analyze")


@pytest.mark.parametrize("case", ["persist", "unpersist", "get_storage_level"])
def test_the_relation_of_an_analysis_is_read(case: str) -> None:
    request = pb.AnalyzePlanRequest()
    getattr(request, case).relation.read.named_table.unparsed_identifier = "t"
    reading = read(serialize(request), "analyze")
    assert (reading.analysis, reading.root) == (case, "Read")
    assert len(reading.tables) == 1


def test_questions_without_a_plan_pass() -> None:
    for case in ("spark_version", "ddl_parse", "json_to_ddl"):
        request = pb.AnalyzePlanRequest()
        getattr(request, case).SetInParent()
        reading = read(serialize(request), "analyze")
        assert (reading.analysis, reading.tables) == (case, [])


def test_an_analysis_of_nothing_is_refused() -> None:
    assert "unknown kind" in refusal(pb.AnalyzePlanRequest(), "analyze")
    assert "unknown kind" in refusal(pb.Plan())


# Limits and accidents


def test_a_thousand_chained_calls_are_read(spark: Any) -> None:
    plan = pb.Plan()
    relation = plan.root
    for number in range(1000):
        alias = relation.with_columns.aliases.add()
        alias.name.append(f"c{number}")
        alias.expr.unresolved_function.function_name = "+"
        alias.expr.unresolved_function.arguments.add().unresolved_attribute.unparsed_identifier = "a"
        relation = relation.with_columns.input
    relation.read.named_table.unparsed_identifier = "t"
    reading = read(serialize(plan))
    assert len(reading.tables) == 1
    assert len(reading.functions) == 1000
    assert reading.messages > 6000


def test_a_recursion_bomb_is_too_deep() -> None:
    data = b""
    for _ in range(3000):
        data = _field(4, _field(1, data))  # Relation.filter, Filter.input
    found = read_plan(PlanRequest(kind="execute", message=_field(1, data)))
    assert isinstance(found, MalformedPlan)
    assert found.code == "TOO_DEEP"


def test_too_many_messages_are_too_large() -> None:
    plan = _field(1, _field(41, b"\x12\x00" * (MAX_MESSAGES + 1)))  # Relation.with_relations, references
    found = read_plan(PlanRequest(kind="execute", message=plan))
    assert isinstance(found, Unsupported | MalformedPlan)
    many = pb.Plan()
    values = many.root.project.expressions.add().unresolved_function.arguments
    for number in range(MAX_MESSAGES // 2 + 1):
        values.add().literal.integer = number
    found = read_plan(PlanRequest(kind="execute", message=serialize(many)))
    assert isinstance(found, MalformedPlan)
    assert found.code == "TOO_LARGE"


def _field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _seeds() -> list[tuple[str, bytes]]:
    with recording() as (spark, sent):
        frame = spark.table("db.people").filter("age > (select 1)").groupBy("a").agg(F.sum("b"), F.max("c"))
        frame.collect()
        frame.show()
        spark.sql("select * from {d} where a = :x", {"x": 1}, d=frame)
        frame.write.option("header", "true").csv("/out")
        frame.writeTo("db.t").overwrite(F.col("a") > 1)
        frame.createOrReplaceTempView("v")
        frame.select(_double()("a")).collect()
        frame.schema  # noqa: B018
        frame.printSchema()
        spark.createDataFrame([(1, "a")], ["id", "name"]).join(frame, "id").collect()
        spark.readStream.table("t").writeStream.option("checkpointLocation", "/c").toTable("s")
        return [("execute", each) for each in sent.executed] + [("analyze", each) for each in sent.analyzed]


def test_mutated_plans_are_read_or_refused() -> None:
    """Whatever a client sends is read, refused or malformed; and what was read is read again the same."""
    rng = random.Random(20)
    seeds = _seeds()
    answers = set()
    for _ in range(6000):
        kind, data = rng.choice(seeds)
        mutated = _mutate(rng, data, [each for _, each in seeds])
        found = read_plan(PlanRequest(kind="analyze" if kind == "analyze" else "execute", message=mutated))
        assert isinstance(found, PlanReading | MalformedPlan | Unsupported)
        answers.add(type(found))
        if isinstance(found, PlanReading):
            again = read(serialize(found.message), kind)
            assert _facts(again) == _facts(found)
    assert answers == {PlanReading, MalformedPlan, Unsupported}


def _mutate(rng: random.Random, data: bytes, others: list[bytes]) -> bytes:
    out = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(6):
            case 0:
                out[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                out[at:at] = rng.randbytes(rng.randrange(1, 4))
            case 2:
                del out[at : at + rng.randrange(1, 8)]
            case 3:
                other = rng.choice(others)
                start = rng.randrange(len(other))
                out[at:at] = other[start : start + rng.randrange(1, 40)]
            case 4:
                if at < len(out):
                    out[at] ^= 1 << rng.randrange(8)
            case _:
                out += _field(rng.choice((1, 2, 3, 5, 100, 4004)), rng.randbytes(rng.randrange(4)))
    return bytes(out)


def _facts(reading: PlanReading) -> tuple[object, ...]:
    return (
        reading.root,
        reading.analysis,
        reading.messages,
        [(table.parts, table.streaming, table.options, table.changes) for table in reading.tables],
        [(text.text, text.arguments, text.aliases, text.command) for text in reading.texts],
        [text.text for text in reading.expressions],
        [(call.parts, call.table_valued, call.internal) for call in reading.functions],
        reading.columns,
        reading.names,
        reading.code,
        reading.handles,
        reading.urls,
        [(call.operation, call.root) for call in reading.catalog_calls],
    )
