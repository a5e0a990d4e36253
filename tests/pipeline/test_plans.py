"""The judge on plans, against the real reader: what is forwarded, what is refused, and the laws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention
from pyspark.sql.connect import plan as plans

from gateway.model.catalog import Table, TableKind, TableName
from gateway.model.handles import SparkHandle
from gateway.model.reading import Reading
from gateway.model.statement import (
    AnswerFilter,
    CatalogChanged,
    Cleared,
    CreateTempView,
    PlanRequest,
    Refused,
    Verdict,
)
from gateway.pipeline import Rules
from gateway.reader.pool import ReaderPool
from gateway.sql.required import Written
from gateway.wire.connect import parse, pb
from tests.judge_world import World
from tests.plan.frames import made, message, sql, table

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def execute(frame: Any) -> PlanRequest:
    return PlanRequest(kind="execute", message=message(frame).SerializeToString(deterministic=True))


def run(**command: Any) -> PlanRequest:
    plan = pb.Plan(command=pb.Command(**command))
    return PlanRequest(kind="execute", message=plan.SerializeToString(deterministic=True))


def analyze(case: str, frame: Any) -> PlanRequest:
    request = pb.AnalyzePlanRequest()
    getattr(request, case).plan.CopyFrom(message(frame))
    return PlanRequest(kind="analyze", message=request.SerializeToString(deterministic=True))


def sql_command(frame: Any) -> PlanRequest:
    return run(sql_command=pb.SqlCommand(input=message(frame).root))


def catalog(operation: str, **fields: Any) -> PlanRequest:
    relation = pb.Relation()
    call = getattr(relation.catalog, operation)
    call.SetInParent()
    for name, value in fields.items():
        setattr(call, name, value)
    return PlanRequest(kind="execute", message=pb.Plan(root=relation).SerializeToString(deterministic=True))


def forwarded(verdict: Verdict) -> Any:
    assert isinstance(verdict, Cleared), verdict
    return parse(pb.Plan, verdict.forwarded_plan)


def refused(verdict: Verdict, code: str, words: str) -> None:
    assert isinstance(verdict, Refused), verdict
    assert verdict.code == code, verdict
    assert words in verdict.message, verdict.message


EMPLOYEE = "`spark_catalog`.`hr`.`employee`"


async def test_a_table_without_obligations_gets_its_full_name(world: World, reader: ReaderPool) -> None:
    frame = table("sales.orders").filter("amount > 3").select("id")
    verdict = await world.judge_plan(execute(frame), reader, user="bob")
    read = forwarded(verdict).root.project.input.filter.input.read.named_table
    assert read.unparsed_identifier == "`spark_catalog`.`sales`.`orders`"
    assert isinstance(verdict, Cleared)
    assert verdict.plan_class == "Project"
    assert verdict.readers_agree
    assert verdict.plan_texts == ("amount > 3",)
    assert [str(scan.table) for scan in verdict.scans] == ["spark_catalog.sales.orders"]


async def test_a_guarded_table_is_the_query_that_sql_would_get(world: World, reader: ReaderPool) -> None:
    verdict = await world.judge_plan(execute(table("employee").select("name")), reader, user="bob")
    as_sql = await world.judge("SELECT name FROM employee", reader, user="bob")
    alias = forwarded(verdict).root.project.input.subquery_alias
    assert (alias.alias, list(alias.qualifier)) == ("employee", ["spark_catalog", "hr"])
    assert isinstance(as_sql, Cleared)
    assert as_sql.forwarded == f"SELECT name FROM ({alias.input.sql.query}) AS `employee`"


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (lambda: table("employee").select("name", "email"), "SELECT name, email FROM employee"),
        (lambda: table("employee"), "SELECT * FROM employee"),
        (lambda: table("hr.inbox"), "SELECT * FROM hr.inbox"),
        (lambda: table("hr.nowhere"), "SELECT * FROM hr.nowhere"),
        (lambda: table("directory").select("who"), "SELECT who FROM directory"),
        (
            lambda: table("employee").filter("id > 3").groupBy("region").agg(F.max("email")),
            "SELECT region, max(email) FROM employee WHERE id > 3 GROUP BY region",
        ),
        (
            lambda: table("sales.orders").select(F.reflect(F.lit("a"), F.lit("b"))),
            "SELECT reflect('a', 'b') FROM sales.orders",
        ),
        (lambda: table("a.b.c.d"), "SELECT * FROM a.b.c.d"),
    ],
)
async def test_a_question_gets_the_same_decisions_as_sql(
    frame: Callable[[], Any], text: str, world: World, reader: ReaderPool
) -> None:
    for user in ("ann", "bob", "eve"):
        plan = await world.judge_plan(execute(frame()), reader, user=user)
        as_sql = await world.judge(text, reader, user=user)
        assert type(plan) is type(as_sql), (plan, as_sql)
        if isinstance(plan, Refused) and isinstance(as_sql, Refused):
            assert (plan.code, plan.message) == (as_sql.code, as_sql.message)
        elif isinstance(plan, Cleared) and isinstance(as_sql, Cleared):
            assert {(s.table, s.columns, s.obligations) for s in plan.scans} == {
                (s.table, s.columns, s.obligations) for s in as_sql.scans
            }


async def test_everything_that_is_missing_is_told_at_once(world: World, reader: ReaderPool) -> None:
    frame = (
        table("employee")
        .select("id", "salary")
        .join(sql("SELECT id FROM hr.inbox"), "id")
        .filter(F.expr("id IN (SELECT ssn FROM hr.employee)"))
    )
    verdict = await world.judge_plan(execute(frame), reader, user="eve")
    refused(verdict, "ACCESS_DENIED", "select on table spark_catalog.hr.employee")
    refused(verdict, "ACCESS_DENIED", "select on table spark_catalog.hr.inbox")


async def test_subqueries_in_expression_strings_are_guarded(world: World, reader: ReaderPool) -> None:
    frame = table("sales.orders").filter(F.expr("id IN (SELECT id FROM hr.employee)")).select("id")
    verdict = await world.judge_plan(execute(frame), reader, user="bob")
    text = forwarded(verdict).root.project.input.filter.condition.expression_string.expression
    assert f"FROM {EMPLOYEE}" in text
    assert "region = 'EMEA'" in text


async def test_sql_in_a_plan_is_spliced_and_its_arguments_stay(world: World, reader: ReaderPool) -> None:
    frame = sql("SELECT name FROM employee WHERE id > :x", x=F.lit(3))
    verdict = await world.judge_plan(execute(frame), reader, user="bob")
    assert "region = 'EMEA'" in forwarded(verdict).root.sql.query
    assert ":x" in forwarded(verdict).root.sql.query
    without = await world.judge_plan(execute(sql("SELECT :x")), reader, user="bob")
    refused(without, "SPARK", "[UNBOUND_SQL_PARAMETER] Found the unbound parameter: x.")


async def test_arguments_that_are_names_are_judged_as_names(world: World, reader: ReaderPool) -> None:
    text = "SELECT name, 'IDENTIFIER(:t)' AS s FROM IDENTIFIER( :t ) WHERE id > :x -- IDENTIFIER(:t)"
    frame = sql(text, t=F.lit("hr.employee"), x=F.lit(3))
    verdict = await world.judge_plan(execute(frame), reader, user="bob")
    query = forwarded(verdict).root.sql.query
    assert isinstance(verdict, Cleared)
    assert "region = 'EMEA'" in query
    assert query.count("IDENTIFIER(:t)") == 2
    assert query.startswith("SELECT name, 'IDENTIFIER(:t)' AS s FROM (")
    assert [str(scan.table) for scan in verdict.scans] == ["spark_catalog.hr.employee"]
    hidden = sql("SELECT * FROM IDENTIFIER(:t)", t=F.lit("hr.inbox"))
    refused(await world.judge_plan(execute(hidden), reader, user="bob"), "ACCESS_DENIED", "hr.inbox")
    for value in (F.lit(3), F.lit("hr.employee') --"), F.array(F.lit("hr.employee"))):
        odd = sql("SELECT * FROM IDENTIFIER(:t)", t=value)
        refused(await world.judge_plan(execute(odd), reader, user="bob"), "NOT_GOVERNABLE", "IDENTIFIER")


async def test_names_that_are_literals_in_the_texts_of_a_plan(world: World, reader: ReaderPool) -> None:
    frame = sql("SELECT 1 FROM IDENTIFIER('hr.inbox') JOIN IDENTIFIER(:t)", t=F.lit("hr.employee"))
    refused(await world.judge_plan(execute(frame), reader, user="bob"), "ACCESS_DENIED", "hr.inbox")
    frame = sql("SELECT IDENTIFIER('name') AS n FROM IDENTIFIER(:t)", t=F.lit("hr.employee"))
    verdict = await world.judge_plan(execute(frame), reader, user="bob")
    assert forwarded(verdict).root.sql.query.startswith("SELECT `name` AS n FROM (SELECT ")
    filtered = table("hr.employee").filter(F.expr("IDENTIFIER('id') > 1")).select("id")
    verdict = await world.judge_plan(execute(filtered), reader, user="bob")
    text = forwarded(verdict).root.project.input.filter.condition.expression_string.expression
    assert text == "`id` > 1"


RUN = [
    "SHOW TABLES",
    "SHOW TABLES IN hr",
    "SHOW TABLE EXTENDED IN hr LIKE '*'",
    "DESCRIBE TABLE EXTENDED hr.employee",
    "SHOW CREATE TABLE hr.employee",
    "EXPLAIN SELECT name FROM employee",
    "INSERT INTO sales.orders SELECT * FROM sales.orders",
    "INSERT OVERWRITE sales.orders SELECT id, amount FROM sales.orders",
    "CREATE TABLE sales.tmp_y USING parquet AS SELECT name FROM employee",
    "CREATE VIEW sales.v AS SELECT name FROM hr.employee",
    "CREATE OR REPLACE TEMPORARY VIEW w AS SELECT name FROM employee",
    "DROP TABLE sales.tmp_x",
    "DELETE FROM sales.orders WHERE amount > (SELECT max(id) FROM employee)",
    "USE sales",
    "SET spark.sql.shuffle.partitions = 3",
    "SET VAR x = (SELECT max(name) FROM employee)",
    "DECLARE OR REPLACE VARIABLE y INT DEFAULT 1",
    "CACHE TABLE hr.employee",
    "REFRESH TABLE sales.orders",
    "ADD JAR '/x.jar'",
    "CREATE TEMPORARY FUNCTION f AS 'a.B'",
    "EXECUTE IMMEDIATE 'SHOW TABLES IN hr'",
    "EXECUTE IMMEDIATE 'DROP TABLE sales.tmp_x'",
    "EXECUTE IMMEDIATE 'SELECT name FROM employee WHERE id > ?' USING 1",
    "SELECT name, email FROM employee",
    "SELECT * FROM sales.orders",
    "SELECT * FROM hr.inbox",
    "SELECT transform(id) USING 'cat' FROM sales.orders",
    "SELEKT 1",
]


def text_of(verdict: Verdict) -> str:
    """Return the text that Spark gets."""
    assert isinstance(verdict, Cleared)
    plan = parse(pb.Plan, verdict.forwarded_plan)
    relation = plan.root if plan.HasField("root") else plan.command.sql_command.input
    query: str = relation.sql.query
    return query


@pytest.mark.parametrize("text", RUN)
async def test_a_text_that_is_all_of_a_plan_is_judged_as_an_sql_command(
    text: str, world: World, reader: ReaderPool
) -> None:
    for user in ("ann", "bob", "eve"):
        root = await world.judge_plan(execute(sql(text)), reader, user=user)
        command = await world.judge_plan(sql_command(sql(text)), reader, user=user)
        assert type(root) is type(command), (root, command)
        assert root.decisions == command.decisions
        if isinstance(root, Refused) and isinstance(command, Refused):
            assert (root.code, root.message) == (command.code, command.message)
        elif isinstance(root, Cleared) and isinstance(command, Cleared):
            assert text_of(root) == text_of(command)
            for name in ("names", "effects", "answer", "scans", "names_until_end", "policy_tables"):
                assert getattr(root, name) == getattr(command, name), name
            # What it is answered with are rows, and no relation of which the client's own takes the place.
            assert root.original_relation == b""
            assert root.plan_class == "SQL"
            assert root.read_only is text.startswith(("SELECT name", "SELECT *", "EXECUTE IMMEDIATE 'SELECT"))


async def test_arguments_of_a_text_that_is_all_of_a_plan(world: World, reader: ReaderPool) -> None:
    text = "CREATE TABLE sales.tmp_y USING parquet AS SELECT name FROM IDENTIFIER(:t) WHERE id > :low"
    for user, passes in (("ann", True), ("eve", False)):
        frame = sql(text, t=F.lit("hr.employee"), low=F.lit(3))
        root = await world.judge_plan(execute(frame), reader, user=user)
        command = await world.judge_plan(sql_command(frame), reader, user=user)
        assert type(root) is type(command) is (Cleared if passes else Refused), (root, command)
        assert root.decisions == command.decisions
        if passes:
            assert text_of(root) == text_of(command)


COMMAND = "DROP TABLE sales.tmp_x"
BOUND_ONCE = "_pyspark_connect_temp_view_" + "0b" * 16


@pytest.mark.parametrize(
    "made",
    [
        lambda: execute(sql(COMMAND).select("*")),
        lambda: execute(sql(COMMAND).limit(1)),
        lambda: execute(sql(COMMAND).alias("a")),
        lambda: execute(sql(COMMAND).union(sql("SELECT 1"))),
        lambda: execute(sql("SELECT 1").crossJoin(sql(COMMAND))),
        lambda: execute(sql("SELECT 1", views={BOUND_ONCE: sql(COMMAND)})),
        lambda: execute(sql(COMMAND, views={BOUND_ONCE: sql("SELECT 1")})),
        lambda: sql_command(sql("SELECT 1", views={BOUND_ONCE: sql(COMMAND)})),
        lambda: execute(sql("BEGIN DROP TABLE sales.tmp_x; END").limit(1)),
        lambda: execute(sql(f"EXECUTE IMMEDIATE '{COMMAND}'").limit(1)),
        lambda: run(
            create_dataframe_view=pb.CreateDataFrameViewCommand(input=message(sql(COMMAND)).root, name="w")
        ),
        lambda: run(checkpoint_command=pb.CheckpointCommand(relation=message(sql(COMMAND)).root)),
        *(
            lambda case=case: analyze(case, sql(COMMAND))
            for case in ("schema", "explain", "tree_string", "is_local", "is_streaming", "input_files")
        ),
        lambda: analyze("schema", sql(f"EXECUTE IMMEDIATE '{COMMAND}'")),
        lambda: analyze("schema", sql("BEGIN DROP TABLE sales.tmp_x; END")),
        lambda: PlanRequest(
            kind="analyze",
            message=pb.AnalyzePlanRequest(
                persist=pb.AnalyzePlanRequest.Persist(relation=message(sql(COMMAND)).root)
            ).SerializeToString(),
        ),
        lambda: PlanRequest(
            kind="analyze",
            message=pb.AnalyzePlanRequest(
                same_semantics=pb.AnalyzePlanRequest.SameSemantics(
                    target_plan=message(sql("SELECT 1")), other_plan=message(sql(COMMAND))
                )
            ).SerializeToString(),
        ),
    ],
)
async def test_a_command_passes_nowhere_else_in_a_plan(
    made: Callable[[], PlanRequest], world: World, reader: ReaderPool
) -> None:
    whole = await world.judge_plan(execute(sql(COMMAND)), reader, user="bob")
    assert isinstance(whole, Cleared)
    assert whole.effects == (CatalogChanged((TableName("spark_catalog", "sales", "tmp_x"),)),)
    verdict = await world.judge_plan(made(), reader, user="bob")
    assert isinstance(verdict, Refused), verdict
    assert verdict.code in ("NOT_GOVERNABLE", "MALFORMED"), verdict


async def test_of_a_text_that_is_all_of_a_plan_rows_are_shown(world: World, reader: ReaderPool) -> None:
    shape = await world.judge_plan(sql_command(sql("SHOW TABLES")), reader, user="bob")
    assert isinstance(shape, Cleared)
    assert shape.answer.filter is AnswerFilter.TABLES
    assert parse(pb.Relation, shape.original_relation).sql.query == "SHOW TABLES"


async def test_the_original_relation_is_what_the_client_sent(world: World, reader: ReaderPool) -> None:
    frame = sql("SELECT name FROM employee")
    verdict = await world.judge_plan(sql_command(frame), reader, user="bob")
    assert isinstance(verdict, Cleared)
    assert verdict.original_relation == message(frame).root.SerializeToString(deterministic=True)
    assert verdict.original_relation != verdict.forwarded_plan


BOUND = "_pyspark_connect_temp_view_" + "0a" * 16


async def test_names_that_references_bind_are_left_alone(world: World, reader: ReaderPool) -> None:
    people = table("employee").select("name")
    text = f"SELECT name FROM {BOUND} UNION SELECT name FROM hr.employee"
    verdict = await world.judge_plan(execute(sql(text, views={BOUND: people})), reader, user="bob")
    query = forwarded(verdict).root.with_relations.root.sql.query
    assert f"FROM {BOUND} UNION" in query
    assert f"FROM {EMPLOYEE}" in query
    assert isinstance(verdict, Cleared)
    assert verdict.temp_views_read == frozenset()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"CREATE TEMP VIEW w AS SELECT * FROM {BOUND}", "bound to a name"),
        (f"CREATE VIEW w AS SELECT * FROM {BOUND}", "TEMP_OBJ_REFERENCE"),
        (f"EXPLAIN SELECT * FROM {BOUND}", "temporary view"),
    ],
)
async def test_bound_names_are_neither_kept_nor_explained(
    text: str, words: str, world: World, reader: ReaderPool
) -> None:
    code = "SPARK" if "TEMP_OBJ" in words else "NOT_GOVERNABLE"
    frame = sql(text, views={BOUND: table("employee").select("name")})
    refused(await world.judge_plan(sql_command(frame), reader, user="bob"), code, words)


async def test_bound_names_do_not_hide_temporary_views(world: World, reader: ReaderPool) -> None:
    frame = sql(f"SELECT * FROM {BOUND}", views={BOUND: table("employee").select("name")})
    verdict = await world.judge_plan(execute(frame), reader, user="bob", temp_views=frozenset({BOUND}))
    refused(verdict, "NOT_GOVERNABLE", "is also a temporary view of the session")


async def test_temporary_views_of_the_session_stay_names_of_one_part(
    world: World, reader: ReaderPool
) -> None:
    verdict = await world.judge_plan(
        execute(table("Employee")), reader, user="eve", temp_views=frozenset({"employee"})
    )
    assert forwarded(verdict).root.read.named_table.unparsed_identifier == "`Employee`"
    assert isinstance(verdict, Cleared)
    assert verdict.temp_views_read == {"employee"}
    as_sql = await world.judge("SELECT * FROM v", reader, user="eve", temp_views=frozenset({"v"}))
    assert isinstance(as_sql, Cleared)
    assert as_sql.temp_views_read == {"v"}


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (lambda: table("spark_catalog.global_temp.v"), "global temporary view"),
        (lambda: table("parquet.`/etc/x`"), "characters of paths"),
        (lambda: table("system.x.y"), "reserved"),
        (lambda: table("employee").select(F.input_file_name()), "input_file_name"),
        (lambda: table("employee").select(F.call_function("from_avro", F.lit("a"))), "from_avro"),
        (lambda: table("employee").select(F.expr("java_method('a', 'b')")), "java_method"),
    ],
)
async def test_what_nobody_may_ask_for(
    frame: Callable[[], Any], words: str, world: World, reader: ReaderPool
) -> None:
    refused(await world.judge_plan(execute(frame()), reader, user="ann"), "NOT_GOVERNABLE", words)


@pytest.mark.parametrize(
    ("frame", "sqlstate", "words"),
    [
        (
            lambda: table("employee").select(F.call_function("product", F.col("id"))),
            "42883",
            "[UNRESOLVED_ROUTINE] Cannot resolve routine `product`",
        ),
        (
            lambda: table("employee").select(F.call_function("f", F.col("id"))),
            "42883",
            "[UNRESOLVED_ROUTINE] Cannot resolve routine `f`",
        ),
        (lambda: table("nowhere.hr.t"), "42K05", "[REQUIRES_SINGLE_PART_NAMESPACE]"),
        (lambda: table("employee").select(F.col("a..b")), "42601", "[INVALID_ATTRIBUTE_NAME_SYNTAX]"),
        (lambda: table("employee").select("a..b.*"), "42601", "[INVALID_ATTRIBUTE_NAME_SYNTAX]"),
        (lambda: table("employee e"), "42601", "[PARSE_SYNTAX_ERROR] Syntax error at or near 'e'"),
        (lambda: table("hr-x.employee"), "42602", "[INVALID_IDENTIFIER]"),
        (lambda: table(" "), "42617", "[PARSE_EMPTY_STATEMENT]"),
        (
            lambda: table("employee").select(F.call_function("f f", F.col("id"))),
            "42601",
            "[PARSE_SYNTAX_ERROR]",
        ),
    ],
)
async def test_what_spark_cannot_resolve_either_is_refused_in_its_words(
    frame: Callable[[], Any], sqlstate: str, words: str, world: World, reader: ReaderPool
) -> None:
    verdict = await world.judge_plan(execute(frame()), reader, user="ann")
    refused(verdict, "SPARK", words)
    assert isinstance(verdict, Refused)
    assert verdict.sqlstate == sqlstate
    assert "(line" not in verdict.message


async def test_what_the_parser_can_read_is_no_name(world: World, reader: ReaderPool) -> None:
    for name in ("employee;", "employee -- e"):
        verdict = await world.judge_plan(execute(table(name)), reader, user="ann")
        refused(verdict, "NOT_GOVERNABLE", "cannot be parsed")


async def test_functions_of_plans_alone_pass(world: World, reader: ReaderPool) -> None:
    frame = table("sales.orders").groupBy("region").agg(F.product("id"))
    assert isinstance(await world.judge_plan(execute(frame), reader, user="bob"), Cleared)


@pytest.mark.parametrize(
    "frame",
    [
        lambda: table("employee").select("name", "_metadata.file_path"),
        lambda: table("employee").select("name", F.expr("_metadata.file_path")),
        lambda: table("employee").select("name", table("employee").metadataColumn("_metadata")),
        lambda: table("employee").select("name").drop("_METADATA"),
        lambda: sql("SELECT name, _metadata.file_name FROM employee"),
    ],
)
async def test_where_rows_are_stored_is_not_told_of_guarded_tables(
    frame: Callable[[], Any], world: World, reader: ReaderPool
) -> None:
    refused(await world.judge_plan(execute(frame()), reader, user="bob"), "ACCESS_DENIED", "_metadata")
    assert isinstance(await world.judge_plan(execute(frame()), reader, user="ann"), Cleared)


async def test_analysis_shows_visible_columns_and_neither_plans_nor_files(
    world: World, reader: ReaderPool
) -> None:
    for case in ("schema", "tree_string", "is_local", "semantic_hash"):
        verdict = await world.judge_plan(analyze(case, table("employee")), reader, user="bob")
        assert isinstance(verdict, Cleared), (case, verdict)
        sent = parse(pb.AnalyzePlanRequest, verdict.forwarded_plan)
        assert "region = 'EMEA'" in getattr(sent, case).plan.root.subquery_alias.input.sql.query
    for case in ("explain", "input_files"):
        refused(
            await world.judge_plan(analyze(case, table("employee")), reader, user="bob"),
            "ACCESS_DENIED",
            "plans",
        )
        assert isinstance(
            await world.judge_plan(analyze(case, table("sales.orders")), reader, user="bob"), Cleared
        )
        over_view = await world.judge_plan(
            analyze(case, table("v")), reader, user="bob", temp_views=frozenset({"v"})
        )
        refused(over_view, "NOT_GOVERNABLE", "temporary view")


async def test_identities_are_the_principal(world: World, reader: ReaderPool) -> None:
    frame = table("sales.orders").select(F.current_user(), F.expr("session_user() AS me"))
    first, second = forwarded(
        await world.judge_plan(execute(frame), reader, user="bob")
    ).root.project.expressions
    assert (list(first.alias.name), first.alias.expr.literal.string) == (["current_user()"], "bob")
    assert second.expression_string.expression == "'bob' AS me"
    text = forwarded(await world.judge_plan(execute(sql("SELECT current_user()")), reader, user="bob"))
    assert text.root.sql.query == "SELECT 'bob' AS `current_user()`"
    # Spark names columns after their expressions.
    text = forwarded(
        await world.judge_plan(
            execute(sql("SELECT (current_user IS NULL), (SELECT user()), concat(current_user())")),
            reader,
            user="bob",
        )
    )
    assert text.root.sql.query == (
        "SELECT ('bob' IS NULL) AS `(current_user() IS NULL)`, (SELECT 'bob' AS `user()`), "
        "concat('bob') AS `concat(current_user())`"
    )
    over_thrift = await world.judge("SELECT current_user()", reader, user="bob")
    assert isinstance(over_thrift, Cleared)
    assert over_thrift.forwarded == "SELECT current_user()"


async def test_streams_are_guarded_as_streams(world: World, reader: ReaderPool) -> None:
    plan = message(table("employee").select("name"))
    read = plan.root.project.input.read
    read.is_streaming = True
    read.named_table.options["maxFilesPerTrigger"] = "1"
    request = PlanRequest(kind="execute", message=plan.SerializeToString(deterministic=True))
    query = forwarded(await world.judge_plan(request, reader, user="bob")).root.project.input.subquery_alias
    assert f"FROM STREAM {EMPLOYEE} WITH ('maxFilesPerTrigger' = '1') AS" in query.input.sql.query
    pinned = forwarded(await world.judge_plan(request, reader, user="ann")).root.project.input.read
    assert pinned.is_streaming
    assert dict(pinned.named_table.options) == {"maxFilesPerTrigger": "1"}


async def test_change_feeds_pass_only_without_obligations(world: World, reader: ReaderPool) -> None:
    def changes(name: str) -> PlanRequest:
        relation = pb.Relation(relation_changes=pb.RelationChanges(unparsed_identifier=name))
        return PlanRequest(
            kind="execute", message=pb.Plan(root=relation).SerializeToString(deterministic=True)
        )

    verdict = await world.judge_plan(changes("sales.orders"), reader, user="bob")
    assert forwarded(verdict).root.relation_changes.unparsed_identifier == "`spark_catalog`.`sales`.`orders`"
    assert isinstance(await world.judge_plan(changes("sales.flags"), reader, user="bob"), Refused)


async def test_a_table_that_does_not_exist_fails_when_it_appears(world: World, reader: ReaderPool) -> None:
    verdict = await world.judge_plan(execute(table("sales.gone")), reader, user="bob")
    assert "raise_error" in forwarded(verdict).root.subquery_alias.input.sql.query
    assert isinstance(verdict, Cleared)
    assert verdict.provisional


async def test_what_lasts_does_not_rest_on_a_table_that_does_not_exist(
    world: World, reader: ReaderPool
) -> None:
    gone = message(table("sales.gone")).root
    for request in (
        run(create_dataframe_view=pb.CreateDataFrameViewCommand(input=gone, name="w")),
        run(
            create_dataframe_view=pb.CreateDataFrameViewCommand(
                input=message(sql("SELECT * FROM sales.gone")).root, name="w"
            )
        ),
        run(checkpoint_command=pb.CheckpointCommand(relation=gone)),
        sql_command(sql("CREATE TEMP VIEW w AS SELECT * FROM sales.gone")),
    ):
        refused(await world.judge_plan(request, reader, user="ann"), "SPARK", "[TABLE_OR_VIEW_NOT_FOUND]")


async def test_a_verdict_has_what_the_plan_names_by_an_id(world: World, reader: ReaderPool) -> None:
    cached = pb.Relation(cached_remote_relation=pb.CachedRemoteRelation(relation_id="c-1"))
    request = PlanRequest(kind="execute", message=pb.Plan(root=cached).SerializeToString())
    unknown = await world.judge_plan(request, reader, user="bob")
    assert isinstance(unknown, Refused)
    assert unknown.handles == {SparkHandle("relation", "c-1")}
    later = run(checkpoint_command=pb.CheckpointCommand(relation=message(table("sales.orders")).root))
    verdict = await world.judge_plan(later, reader, user="bob")
    assert isinstance(verdict, Cleared)
    assert verdict.is_lazy_checkpoint
    known = await world.judge_plan(
        request,
        reader,
        user="bob",
        handles=frozenset({SparkHandle("relation", "c-1"), SparkHandle("relation", "c-2")}),
    )
    assert isinstance(known, Cleared)
    assert known.handles == {SparkHandle("relation", "c-1")}
    assert not known.is_lazy_checkpoint


@pytest.mark.parametrize("operation", ["truncate_table", "analyze_table", "list_partitions"])
async def test_calls_do_not_reach_a_table_that_appears_meanwhile(
    operation: str, world: World, reader: ReaderPool
) -> None:
    verdict = await world.judge_plan(catalog(operation, table_name="sales.gone"), reader, user="ann")
    refused(verdict, "SPARK", "The table or view `spark_catalog`.`sales`.`gone` cannot be found.")


async def test_writes_to_columns_that_one_may_not_see_are_by_position(
    world: World, reader: ReaderPool
) -> None:
    rows = message(sql("SELECT 1 AS id, 'x' AS secret")).root

    def saved(**fields: Any) -> PlanRequest:
        save = pb.WriteOperation.SaveTable(table_name="hr.ledger", save_method=fields.pop("method"))
        return run(write_operation=pb.WriteOperation(input=rows, table=save, **fields))

    by_position = saved(method="TABLE_SAVE_METHOD_INSERT_INTO", mode="SAVE_MODE_APPEND")
    verdict = await world.judge_plan(by_position, reader, user="bob")
    assert isinstance(verdict, Cleared), verdict
    assert verdict.hides_target
    appended: Any = "MODE_APPEND"
    by_name = pb.WriteOperationV2(input=rows, table_name="hr.ledger", mode=appended)
    verdict = await world.judge_plan(run(write_operation_v2=by_name), reader, user="bob")
    refused(verdict, "ACCESS_DENIED", "by position, not by name")
    verdict = await world.judge_plan(run(write_operation_v2=by_name), reader, user="ann")
    assert isinstance(verdict, Cleared), verdict
    assert not verdict.hides_target


async def test_a_stream_that_replaces_rows_replaces_none_that_are_hidden(
    world: World, reader: ReaderPool
) -> None:
    def started(name: str, mode: str) -> PlanRequest:
        rows = message(table("sales.orders")).root
        rows.read.is_streaming = True
        start = pb.WriteStreamOperationStart(input=rows, table_name=name, output_mode=mode)
        return run(write_stream_operation_start=start)

    for name, mode, words in (
        ("sales.orders", "complete", ""),
        ("sales.tmp_gone", "complete", "[TABLE_OR_VIEW_NOT_FOUND]"),
        ("sales.tmp_gone", "append", ""),
        ("hr.chest", "complete", "by position"),
        ("hr.employee", "complete", "delete on table spark_catalog.hr.employee"),
        # Of files, Spark reads none but those that streams have written, once there is one.
        ("sales.orders", "append", ""),
        ("hr.chest", "append", "by position"),
    ):
        verdict = await world.judge_plan(started(name, mode), reader, user="bob")
        assert isinstance(verdict, Refused) is bool(words), verdict
        assert not words or (isinstance(verdict, Refused) and words in verdict.message), verdict


@pytest.mark.parametrize("provider", [None, "parquet", "CSV", "hive", "x.Y", "iceberg", "DELTA", "paimon"])
async def test_a_stream_hides_what_was_there_but_in_tables_with_a_list_of_their_files(
    provider: str | None,
) -> None:
    name = TableName("spark_catalog", "d", "t")
    there = Table(name=name, kind=TableKind.TABLE, columns=(), provider=provider)
    lists = provider is not None and provider.lower() in ("iceberg", "delta", "paimon")
    assert Written(table=name, streams=True).hides_rows(there) is not lists
    assert not Written(table=name).hides_rows(there)


async def test_handles_are_those_of_the_session(world: World, reader: ReaderPool) -> None:
    relation = pb.Relation(cached_remote_relation=pb.CachedRemoteRelation(relation_id="r1"))
    request = PlanRequest(
        kind="execute", message=pb.Plan(root=relation).SerializeToString(deterministic=True)
    )
    refused(
        await world.judge_plan(request, reader, user="ann"), "NOT_GOVERNABLE", "not belong to this session"
    )
    known = await world.judge_plan(
        request, reader, user="ann", handles=frozenset({SparkHandle("relation", "r1")})
    )
    assert isinstance(known, Cleared)


async def test_code_wants_a_grant_and_names_of_builtins_are_never_registered(
    world: World, reader: ReaderPool
) -> None:
    def register(name: str) -> PlanRequest:
        udf = pb.PythonUDF(command=b"x", eval_type=100, python_ver="3.11")
        udf.output_type.string.SetInParent()
        function = pb.CommonInlineUserDefinedFunction(function_name=name, python_udf=udf)
        return run(register_function=function)

    refused(
        await world.judge_plan(register("f"), reader, user="ann"),
        "ACCESS_DENIED",
        "create on udf system.session.f",
    )
    for name in ("sha2", "SHA2", "explode", "product"):
        refused(
            await world.judge_plan(register(name), reader, user="ann"),
            "NOT_GOVERNABLE",
            "cannot be registered",
        )


async def test_a_registered_function_is_judged_as_the_sessions_own(world: World, reader: ReaderPool) -> None:
    for frame in (table("sales.orders").select(F.call_function("f", F.col("id"))), sql("SELECT f(1)")):
        verdict = await world.judge_plan(
            execute(frame), reader, user="bob", handles=frozenset({SparkHandle("function", "f")})
        )
        refused(verdict, "ACCESS_DENIED", "execute on udf system.session.f")


async def test_writes_are_judged_and_pinned(world: World, reader: ReaderPool) -> None:
    def write(name: str, frame: Any, mode: Any = "SAVE_MODE_UNSPECIFIED") -> PlanRequest:
        method: Any = "TABLE_SAVE_METHOD_SAVE_AS_TABLE"
        save = pb.WriteOperation.SaveTable(table_name=name, save_method=method)
        return run(write_operation=pb.WriteOperation(input=message(frame).root, table=save, mode=mode))

    names = table("employee").select("name")
    verdict = await world.judge_plan(write("sales.tmp_x", names), reader, user="bob")
    sent = forwarded(verdict).command.write_operation
    assert sent.table.table_name == "`spark_catalog`.`sales`.`tmp_x`"
    assert sent.input.project.input.HasField("subquery_alias")
    denied = await world.judge_plan(write("employee", names, "SAVE_MODE_OVERWRITE"), reader, user="bob")
    refused(denied, "ACCESS_DENIED", "drop on table spark_catalog.hr.employee")


async def test_merge_is_refused_on_a_target_with_obligations(world: World, reader: ReaderPool) -> None:
    def merge(name: str, action: Any) -> PlanRequest:
        return run(
            merge_into_table_command=pb.MergeIntoTableCommand(
                target_table_name=name,
                source_table_plan=message(table("sales.orders")).root,
                merge_condition=pb.Expression(
                    expression_string=pb.Expression.ExpressionString(expression="true")
                ),
                match_actions=[pb.Expression(merge_action=pb.MergeAction(action_type=action))],
            )
        )

    assert isinstance(
        await world.judge_plan(merge("sales.orders", "ACTION_TYPE_DELETE"), reader, user="bob"), Cleared
    )
    assert isinstance(
        await world.judge_plan(merge("employee", "ACTION_TYPE_DELETE"), reader, user="bob"), Refused
    )
    assert isinstance(
        await world.judge_plan(merge("employee", "ACTION_TYPE_DELETE"), reader, user="ann"), Cleared
    )


async def test_a_dataframe_becomes_a_temporary_view(world: World, reader: ReaderPool) -> None:
    view = pb.CreateDataFrameViewCommand(input=message(table("employee").select("name")).root, name="people")
    verdict = await world.judge_plan(run(create_dataframe_view=view), reader, user="bob")
    assert isinstance(verdict, Cleared)
    assert verdict.effects == (CreateTempView("people", "frame"),)
    assert forwarded(verdict).command.create_dataframe_view.name == "`people`"


async def test_lists_and_details_of_the_catalog(world: World, reader: ReaderPool) -> None:
    columns = await world.judge_plan(catalog("list_columns", table_name="employee"), reader, user="bob")
    assert isinstance(columns, Cleared)
    assert columns.answer.columns == frozenset({"id", "name", "email", "region"})
    assert not columns.answer.details
    databases = await world.judge_plan(catalog("list_databases"), reader, user="bob")
    assert isinstance(databases, Cleared)
    assert not databases.answer.details
    all_of_them = await world.judge_plan(catalog("list_databases"), reader, user="ann")
    assert isinstance(all_of_them, Cleared)
    assert all_of_them.answer.details
    for operation in ("get_create_table_string", "get_table_properties"):
        told = await world.judge_plan(catalog(operation, table_name="sales.flags"), reader, user="bob")
        assert isinstance(told, Cleared)
        assert not told.answer.details
    as_serde = catalog("get_create_table_string", table_name="sales.flags", as_serde=True)
    refused(await world.judge_plan(as_serde, reader, user="bob"), "ACCESS_DENIED", "applies to user bob")
    view = catalog("get_create_table_string", table_name="hr.directory")
    refused(await world.judge_plan(view, reader, user="bob"), "ACCESS_DENIED", "the text of view")


async def test_what_may_not_be_known_does_not_exist_and_spark_is_not_asked(
    world: World, reader: ReaderPool
) -> None:
    for name in ("hr.employee", "hr.nowhere"):
        verdict = await world.judge_plan(catalog("table_exists", table_name=name), reader, user="eve")
        assert forwarded(verdict).root.sql.query == "SELECT false AS value"
        described = await world.judge_plan(catalog("get_table", table_name=name), reader, user="eve")
        refused(described, "ACCESS_DENIED", f"user eve needs show on table spark_catalog.{name}")
    asked = await world.judge_plan(catalog("table_exists", table_name="employee"), reader, user="bob")
    assert forwarded(asked).root.catalog.table_exists.table_name == EMPLOYEE


async def test_what_pyspark_asks_of_what_is_not_there_is_answered(world: World, reader: ReaderPool) -> None:
    asked = [
        plans.TableExists("hr.nowhere", None),
        plans.TableExists("nowhere", "hr"),
        plans.DatabaseExists("nowhere"),
        plans.FunctionExists("nothing"),
        plans.FunctionExists("nothing", "hr"),
    ]
    for one in asked:
        for user in ("bob", "eve"):
            plan = forwarded(await world.judge_plan(execute(made(one)), reader, user=user))
            assert plan.root.sql.query == "SELECT false AS value"
            assert plan.root.common.plan_id == message(made(one)).root.common.plan_id


async def test_a_table_that_was_made_is_a_dataframe_for_who_may_see_all_of_it(
    world: World, reader: ReaderPool
) -> None:
    def creating(name: str) -> Any:
        return made(plans.CreateTable(name, None, source="parquet"))  # type: ignore[arg-type]

    new = creating("sales.tmp_made")
    for request in (execute(new), analyze("schema", new), execute(new.select("a").limit(3))):
        verdict = await world.judge_plan(request, reader, user="bob")
        assert isinstance(verdict, Cleared), verdict
        assert verdict.provisional
        assert CatalogChanged((TableName("spark_catalog", "sales", "tmp_made"),)) in verdict.effects
    again = execute(creating("hr.employee").select("id"))
    assert isinstance(await world.judge_plan(again, reader, user="ann"), Cleared)
    refused(await world.judge_plan(again, reader, user="bob"), "ACCESS_DENIED", "create on table")
    refused(await world.judge_plan(execute(new), reader, user="eve"), "ACCESS_DENIED", "select on table")


@pytest.mark.parametrize("kind", ["mask", "filter", "deny"])
async def test_a_table_that_was_made_shows_nothing_past_a_policy(kind: str, reader: ReaderPool) -> None:
    """The call, sent again, has the rows of the table as it is now: of all of them, or nothing."""
    data = dict(World().data)
    rule = {
        "mask": "mask: [{groups: [analysts], type: MASK_NULL}]",
        "filter": "filter: [{groups: [analysts], where: 'a > 1'}]",
        "deny": "deny: [{groups: [analysts], access: [select]}]",
    }[kind]
    column = "" if kind == "filter" else ", column: b"
    data["tables"] = {**data["tables"], "spark_catalog.sales.tmp_made": {"a": "int", "b": "string"}}
    data["pack"] += (
        "\n  - name: later"
        f"\n    on: {{catalog: spark_catalog, database: sales, table: tmp_made{column}}}\n    {rule}\n"
    )
    frame = made(plans.CreateTable("sales.tmp_made", None, source="parquet"))  # type: ignore[arg-type]
    for request in (execute(frame), analyze("schema", frame), execute(frame.select("a"))):
        verdict = await World(data).judge_plan(request, reader, user="bob")
        refused(verdict, "ACCESS_DENIED", "sales.tmp_made")


async def test_a_catalog_call_is_not_a_dataframe(world: World, reader: ReaderPool) -> None:
    plan = pb.Plan()
    plan.root.limit.limit = 3
    plan.root.limit.input.catalog.list_catalogs.SetInParent()
    request = PlanRequest(kind="execute", message=plan.SerializeToString(deterministic=True))
    refused(await world.judge_plan(request, reader, user="ann"), "NOT_GOVERNABLE", "part of a DataFrame")


async def test_the_same_plan_is_forwarded_as_the_same_bytes(world: World, reader: ReaderPool) -> None:
    request = execute(table("employee").select("name").join(table("sales.orders"), "id"))
    first = await world.judge_plan(request, reader, user="bob")
    again = await world.judge_plan(request, reader, user="bob")
    assert first == again


async def test_the_record_shows_the_plan_as_it_was_written(world: World, reader: ReaderPool) -> None:
    cleared = await world.judge_plan(execute(table("employee").select("name")), reader, user="bob")
    assert cleared.statement.text == 'spark.table("employee").select("name")'
    assert isinstance(cleared, Cleared)
    assert "EMEA" in cleared.forwarded
    denied = await world.judge_plan(execute(table("employee")), reader, user="eve")
    assert denied.statement.text == 'spark.table("employee")'
    assert isinstance(denied, Refused)
    assert denied.plan_class == "Read"


async def test_bytes_that_are_no_plan_are_refused(world: World, reader: ReaderPool) -> None:
    verdict = await world.judge_plan(PlanRequest(kind="execute", message=b"\xff\xff"), reader, user="ann")
    refused(verdict, "MALFORMED", "")
    extension = pb.Plan()
    extension.root.extension.type_url = "x"
    request = PlanRequest(kind="execute", message=extension.SerializeToString())
    refused(await world.judge_plan(request, reader, user="ann"), "NOT_GOVERNABLE", "plugins")


async def test_star_shows_what_is_visible_when_the_setting_says_so(world: World, reader: ReaderPool) -> None:
    verdict = await world.judge_plan(
        execute(table("employee")), reader, user="bob", rules=Rules(star="visible")
    )
    assert isinstance(verdict, Cleared)
    assert verdict.scans[0].columns == ("email", "id", "name", "region")


async def test_identities_of_policies_are_the_principal_too(world: World, reader: ReaderPool) -> None:
    policy = """
  - name: own unit
    on: {catalog: spark_catalog, database: hr, table: department}
    filter: [{groups: [analysts], where: "name = current_user()"}]
"""
    own = World({**world.data, "pack": world.data["pack"] + policy.removeprefix("\n")})
    verdict = await own.judge_plan(execute(table("department")), reader, user="bob")
    assert "WHERE (name = 'bob')" in forwarded(verdict).root.subquery_alias.input.sql.query
    over_thrift = await own.judge("SELECT * FROM department", reader, user="bob")
    assert isinstance(over_thrift, Cleared)
    assert "WHERE (name = 'bob')" in over_thrift.forwarded, "Spark's cache tells users apart by it"


async def test_a_policy_calls_no_function_that_a_session_could_register(
    world: World, reader: ReaderPool
) -> None:
    policy = """
  - name: own unit
    on: {catalog: spark_catalog, database: hr, table: department}
    filter: [{groups: [analysts], where: "mine(name)"}]
"""
    own = World({**world.data, "pack": world.data["pack"] + policy.removeprefix("\n")})
    verdict = await own.judge_plan(execute(table("department")), reader, user="bob")
    refused(verdict, "NOT_GOVERNABLE", "without catalog and database")


async def test_a_table_that_is_not_there_is_told_of_as_spark_writes_its_name(
    world: World, reader: ReaderPool
) -> None:
    missing = await world.judge_plan(execute(table("nowhere")), reader, user="ann")
    assert isinstance(missing, Cleared)
    assert ("`spark_catalog`.`hr`.`nowhere`", "`nowhere`") in missing.substitutions
    # Of one that is there Spark tells the full name, however it was written.
    there = await world.judge_plan(execute(table("department")), reader, user="ann")
    assert isinstance(there, Cleared)
    assert there.substitutions == ()


async def test_a_marker_that_the_parser_trips_over_is_told_of_with_what_to_do(
    world: World, reader: ReaderPool
) -> None:
    frame = sql("SELECT INTERVAL :n DAY", n=F.lit(1))
    refused(await world.judge_plan(execute(frame), reader, user="ann"), "NOT_GOVERNABLE", "write its value")


async def test_files_want_their_address(world: World, reader: ReaderPool) -> None:
    source = pb.Read.DataSource(format="parquet", paths=["/data/x"])
    request = PlanRequest(
        kind="execute",
        message=pb.Plan(root=pb.Relation(read=pb.Read(data_source=source))).SerializeToString(),
    )
    refused(await world.judge_plan(request, reader, user="bob"), "ACCESS_DENIED", "read on url /data/x")


async def test_what_may_only_be_shown_is_not_kept(world: World, reader: ReaderPool) -> None:
    frame = table("sales.tmp_pin")
    assert isinstance(await world.judge_plan(execute(frame), reader, user="bob"), Cleared)
    view = pb.CreateDataFrameViewCommand(input=message(frame).root, name="pins")
    verdict = await world.judge_plan(run(create_dataframe_view=view), reader, user="bob")
    refused(verdict, "ACCESS_DENIED", "may only be shown, not read through a view")


async def test_where_the_rows_of_a_temporary_view_are_stored_is_not_told(
    world: World, reader: ReaderPool
) -> None:
    frame = table("v").select("_metadata.file_path")
    verdict = await world.judge_plan(execute(frame), reader, user="ann", temp_views=frozenset({"v"}))
    refused(verdict, "NOT_GOVERNABLE", "`_metadata` of a temporary view")


async def test_a_temporary_view_has_no_changes(world: World, reader: ReaderPool) -> None:
    relation = pb.Relation(relation_changes=pb.RelationChanges(unparsed_identifier="v"))
    request = PlanRequest(kind="execute", message=pb.Plan(root=relation).SerializeToString())
    verdict = await world.judge_plan(request, reader, user="ann", temp_views=frozenset({"v"}))
    refused(verdict, "NOT_GOVERNABLE", "which has no change feed and takes no options")


async def test_a_view_over_guarded_tables_is_not_read_as_a_stream(world: World, reader: ReaderPool) -> None:
    plan = message(table("directory"))
    plan.root.read.is_streaming = True
    request = PlanRequest(kind="execute", message=plan.SerializeToString(deterministic=True))
    refused(await world.judge_plan(request, reader, user="bob"), "NOT_GOVERNABLE", "as a stream")


async def test_a_stream_is_filtered_before_anything_else_is_asked_of_its_rows(
    world: World, reader: ReaderPool
) -> None:
    plan = message(table("employee"))
    plan.root.read.is_streaming = True
    request = PlanRequest(
        kind="analyze",
        message=pb.AnalyzePlanRequest(schema=pb.AnalyzePlanRequest.Schema(plan=plan)).SerializeToString(
            deterministic=True
        ),
    )
    verdict = await world.judge_plan(request, reader, user="bob")
    assert isinstance(verdict, Cleared), verdict
    sent = parse(pb.AnalyzePlanRequest, verdict.forwarded_plan)
    query = sent.schema.plan.root.subquery_alias.input.sql.query
    assert query.endswith(" AS `employee` WHERE system.builtin.spark_partition_id() >= 0")


async def test_arguments_are_plain_values(world: World, reader: ReaderPool) -> None:
    struct = sql("SELECT :x", x=F.struct(F.lit(1).alias("a")))
    refused(await world.judge_plan(execute(struct), reader, user="ann"), "NOT_GOVERNABLE", "an argument of")
    schema = F.lit(
        '{"type": "struct", "fields": [{"name": "a", "type": "string", "nullable": true,'
        ' "metadata": {"CURRENT_DEFAULT": "1"}}]}'
    )
    default = sql("SELECT from_json('{}', :s)", s=schema)
    refused(await world.judge_plan(execute(default), reader, user="ann"), "NOT_GOVERNABLE", "CURRENT_DEFAULT")


async def test_a_plan_that_is_not_what_was_judged_is_not_forwarded(world: World, reader: ReaderPool) -> None:
    for made_of in (table("employee").select("name"), sql("SELECT name FROM employee")):
        with patch("gateway.pipeline.rewrite_plans.Edits.undo", lambda edits: None):
            verdict = await world.judge_plan(execute(made_of), reader, user="bob")
        refused(verdict, "NOT_GOVERNABLE", "could not prove that the rewritten")


async def test_a_guard_that_reads_more_than_its_table_is_not_written(
    world: World, reader: ReaderPool
) -> None:
    with patch("gateway.sql.guard.table_query", lambda *_, **__: "SELECT * FROM spark_catalog.hr.inbox"):
        verdict = await world.judge_plan(execute(table("employee").select("name")), reader, user="bob")
    refused(verdict, "NOT_GOVERNABLE", "could not prove that the row filters and masks of")


class _OddReader:
    """Spark's parser, which finds something in guarded queries that it does not know."""

    def __init__(self, reader: ReaderPool) -> None:
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    async def read(self, text: str) -> Any:
        found = await self._reader.read(text)
        if isinstance(found, Reading) and "TABLESAMPLE" in text:
            return replace(found, nodes=found.nodes | {"?Unheard"})
        return found


async def test_what_guards_a_read_holds_nothing_that_the_reader_does_not_know(reader: ReaderPool) -> None:
    odd: Any = _OddReader(reader)
    verdict = await World().judge_plan(execute(table("employee").select("id")), odd, user="bob")
    refused(verdict, "NOT_GOVERNABLE", "could not prove that the row filters and masks of")


def first_of(request: PlanRequest, limit: int = 1) -> PlanRequest:
    """Return the plan for the first rows of another, as the client for the JVM asks for one value."""
    plan = pb.Plan()
    plan.root.limit.input.CopyFrom(parse(pb.Plan, request.message).root)
    plan.root.limit.limit = limit
    return PlanRequest(kind="execute", message=plan.SerializeToString(deterministic=True))


async def test_the_first_row_of_a_call_with_one_row(world: World, reader: ReaderPool) -> None:
    for call in (catalog("table_exists", table_name="employee"), catalog("get_table", table_name="employee")):
        whole = await world.judge_plan(call, reader, user="bob")
        first = await world.judge_plan(first_of(call), reader, user="bob")
        assert isinstance(whole, Cleared)
        assert isinstance(first, Cleared)
        assert forwarded(first).root.limit.input == forwarded(whole).root
        assert (first.answer, first.effects, first.read_only) == (whole.answer, whole.effects, False)
        assert first.plan_class == whole.plan_class
        hidden = await world.judge_plan(first_of(call), reader, user="eve")
        asked = await world.judge_plan(call, reader, user="eve")
        assert type(hidden) is type(asked)
        refused(await world.judge_plan(first_of(call, 0), reader, user="bob"), "NOT_GOVERNABLE", "DataFrame")
    for call in (catalog("list_tables"), first_of(catalog("current_database"))):
        refused(await world.judge_plan(first_of(call), reader, user="bob"), "NOT_GOVERNABLE", "DataFrame")
    asked_for = pb.AnalyzePlanRequest()
    asked_for.schema.plan.CopyFrom(parse(pb.Plan, first_of(catalog("drop_temp_view", view_name="v")).message))
    analysed = PlanRequest(kind="analyze", message=asked_for.SerializeToString())
    refused(await world.judge_plan(analysed, reader, user="bob"), "NOT_GOVERNABLE", "DataFrame")
