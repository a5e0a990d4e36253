"""What Spark may keep and answer from later: nothing that depends on a principal, an instant or a mapping."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention

from gateway.model.catalog import TableName
from gateway.model.context import AccessContext
from gateway.model.statement import Cleared, PlanRequest, Refused, SessionContext, Statement, Verdict
from gateway.pipeline import judge
from gateway.reader.pool import ReaderPool
from gateway.wire.connect import parse, pb
from tests.judge_world import World
from tests.plan.frames import message, sql, table

pytestmark = pytest.mark.asyncio(loop_scope="session")

ENDPOINTS: tuple[Literal["thrift", "connect"], ...] = ("thrift", "connect")
DATA: dict[str, Any] = {
    "catalogs": ["spark_catalog"],
    "tables": {
        f"spark_catalog.lab.{name}": {"id": "int", "own": "string", "until": "timestamp"}
        for name in (
            "free",
            "owned",
            "timed",
            "mapped",
            "called",
            "masked",
            "blocked",
            "in_use",
            "given",
            "hidden_by",
        )
    },
    "views": {
        f"spark_catalog.lab.{name}": {
            "columns": {"id": "int"},
            "text": text,
            "database": "lab",
            "output": ["id"],
            "collation": "UTF8_LCASE" if name.endswith("_lcase") else "",
        }
        for name, text in {
            "plain": "SELECT id FROM free",
            "mine": "SELECT id FROM free WHERE own = current_user()",
            "over_mine": "SELECT id FROM mine",
            "today": "SELECT id FROM free WHERE until > now()",
            "filtered": "SELECT id FROM owned",
            "over": "SELECT id FROM mapped",
            "filtered_lcase": "SELECT id FROM owned",
            "mine_lcase": "SELECT id FROM free WHERE own = current_user()",
            "plain_lcase": "SELECT id FROM free WHERE own = 'x'",
            "unblocked": "SELECT id FROM free WHERE id NOT IN (SELECT id FROM blocked)",
        }.items()
    },
    "people": {"ann": {"groups": ["staff"]}, "bob": {"groups": ["staff"]}},
    "pack": """
service: spark
policies:
  - name: everybody reads
    on: {catalog: spark_catalog, database: lab, table: "*", column: "*"}
    allow: [{groups: [staff], access: [select, refresh]}]
  - name: makes views
    on: {catalog: spark_catalog, database: lab, table: "made*"}
    allow: [{groups: [staff], access: [create]}]
  - name: own
    on: {catalog: spark_catalog, database: lab, table: owned}
    filter: [{groups: [staff], where: "own = current_user()"}]
  - name: in time
    on: {catalog: spark_catalog, database: lab, table: timed}
    filter: [{groups: [staff], where: "until > current_timestamp()"}]
  - name: by a mapping
    on: {catalog: spark_catalog, database: lab, table: mapped}
    filter: [{groups: [staff], where: "id NOT IN (SELECT b.id FROM spark_catalog.lab.blocked b)"}]
  - name: by a word
    on: {catalog: spark_catalog, database: lab, table: called}
    filter: [{groups: [staff], where: "until > CAST('now' AS TIMESTAMP)"}]
  - name: masked by a mapping
    on: {catalog: spark_catalog, database: lab, table: hidden_by, column: own}
    mask:
      - groups: [staff]
        type: CUSTOM
        show: "CASE WHEN id IN (SELECT b.id FROM spark_catalog.lab.blocked b) THEN 'x' ELSE own END"
  - name: in the database in use
    on: {catalog: spark_catalog, database: lab, table: in_use}
    filter: [{groups: [staff], where: "own = current_database()"}]
  - name: given by the statement
    on: {catalog: spark_catalog, database: lab, table: given}
    filter: [{groups: [staff], where: "own = :own"}]
  - name: masked until
    on: {catalog: spark_catalog, database: lab, table: masked, column: own}
    mask: [{groups: [staff], type: CUSTOM, show: "CASE WHEN current_date() > DATE'2020-01-01' THEN 'x' END"}]
""",
}


@pytest.fixture(scope="module")
def world() -> World:
    return World(DATA)


async def over_thrift(
    world: World, reader: ReaderPool, text: str, user: str = "ann", **context: Any
) -> Verdict:
    session = SessionContext(**{"namespace": ("lab",), **context})
    return await world.judge_statement(
        Statement(text=text, principal=world.principal(user), context=session), reader
    )


async def over_connect(
    world: World, reader: ReaderPool, plan: PlanRequest, user: str = "ann", **context: Any
) -> Verdict:
    return await world.judge_plan(plan, reader, user=user, **{"namespace": ("lab",), **context})


def execute(frame: Any) -> PlanRequest:
    return PlanRequest(kind="execute", message=message(frame).SerializeToString(deterministic=True))


def command(text: str) -> PlanRequest:
    plan = pb.Plan(command=pb.Command(sql_command=pb.SqlCommand(input=message(sql(text)).root)))
    return PlanRequest(kind="execute", message=plan.SerializeToString(deterministic=True))


def persist(frame: Any) -> PlanRequest:
    request = pb.AnalyzePlanRequest()
    request.persist.relation.CopyFrom(message(frame).root)
    return PlanRequest(kind="analyze", message=request.SerializeToString(deterministic=True))


def make_view(frame: Any) -> PlanRequest:
    plan = pb.Plan()
    plan.command.create_dataframe_view.input.CopyFrom(message(frame).root)
    plan.command.create_dataframe_view.name = "v"
    return PlanRequest(kind="execute", message=plan.SerializeToString(deterministic=True))


def cache_by_name(name: str) -> PlanRequest:
    plan = pb.Plan()
    plan.root.catalog.cache_table.table_name = name
    return PlanRequest(kind="execute", message=plan.SerializeToString(deterministic=True))


def forwarded(verdict: Verdict) -> Any:
    assert isinstance(verdict, Cleared), verdict
    return parse(pb.Plan, verdict.forwarded_plan)


def is_not_cached(verdict: Verdict) -> None:
    assert isinstance(verdict, Refused), verdict
    assert "cached rows" in verdict.message, verdict.message


CHANGING = [
    "SELECT * FROM timed",
    "SELECT * FROM mapped",
    "SELECT * FROM called",
    "SELECT own FROM masked",
    "SELECT * FROM today",
    "SELECT * FROM unblocked",
    "SELECT * FROM free WHERE until > now()",
    "SELECT * FROM free WHERE until > current_timestamp",
    "SELECT current_database() AS d FROM free",
    "SELECT * FROM free WHERE id IN (SELECT id FROM blocked)",
    "SELECT * FROM free, LATERAL (SELECT id AS i FROM blocked WHERE blocked.id = free.id)",
    "WITH c AS (SELECT * FROM timed) SELECT * FROM c UNION ALL SELECT * FROM free",
]
LASTING = [
    "SELECT * FROM free",
    "SELECT * FROM owned",
    "SELECT * FROM mine",
    "SELECT * FROM over_mine",
    "SELECT * FROM filtered JOIN free USING (id)",
    "SELECT * FROM free WHERE id IN (1, 2) AND own = current_user()",
]


@pytest.mark.parametrize("text", CHANGING)
async def test_rows_that_change_are_not_cached(world: World, reader: ReaderPool, text: str) -> None:
    is_not_cached(await over_thrift(world, reader, f"CACHE TABLE c AS {text}"))
    is_not_cached(await over_thrift(world, reader, f"CACHE LAZY TABLE c AS {text}"))
    is_not_cached(await over_connect(world, reader, command(f"CACHE TABLE c AS {text}")))
    is_not_cached(await over_connect(world, reader, persist(sql(text))))
    made = await over_thrift(world, reader, f"CREATE TEMPORARY VIEW v AS {text}")
    assert isinstance(made, Cleared), made
    assert made.uncacheable_reason, "or `CACHE TABLE v` would cache it"


@pytest.mark.parametrize("text", LASTING)
async def test_what_lasts_is_cached_for_one_user(world: World, reader: ReaderPool, text: str) -> None:
    for user in ("ann", "bob"):
        cached = await over_thrift(world, reader, f"CACHE TABLE c AS {text}", user)
        assert isinstance(cached, Cleared), cached
        assert not cached.uncacheable_reason
        assert "current_user" not in cached.forwarded.lower()
        assert isinstance(await over_connect(world, reader, persist(sql(text)), user), Cleared)


@pytest.mark.parametrize("name", ["timed", "mapped", "today", "unblocked"])
async def test_frames_that_change_are_not_cached(world: World, reader: ReaderPool, name: str) -> None:
    is_not_cached(await over_connect(world, reader, persist(table(name))))
    made = await over_connect(world, reader, make_view(table(name)))
    assert isinstance(made, Cleared), made
    assert made.uncacheable_reason


async def test_frames_of_an_instant_are_not_cached(world: World, reader: ReaderPool) -> None:
    for frame in (
        table("free").filter(F.col("until") > F.current_timestamp()),
        table("free").filter("until > now()"),
        table("free").select(F.col("current_date")),
        table("free").withColumn("d", F.call_function("current_database")),
    ):
        is_not_cached(await over_connect(world, reader, persist(frame)))


async def test_frames_that_last_are_cached(world: World, reader: ReaderPool) -> None:
    for frame in (table("free"), table("owned"), table("mine").filter("id > 1"), table("filtered")):
        assert isinstance(await over_connect(world, reader, persist(frame)), Cleared)


@pytest.mark.parametrize("name", ["mine", "over_mine", "today", "unblocked"])
async def test_views_are_not_cached_by_a_name_that_asks(world: World, reader: ReaderPool, name: str) -> None:
    is_not_cached(await over_thrift(world, reader, f"CACHE TABLE {name}"))
    is_not_cached(await over_connect(world, reader, command(f"CACHE TABLE {name}")))
    is_not_cached(await over_connect(world, reader, cache_by_name(f"lab.{name}")))


async def test_tables_and_plain_views_are_cached_by_name(world: World, reader: ReaderPool) -> None:
    for name in ("free", "timed", "plain"):
        assert isinstance(await over_thrift(world, reader, f"CACHE TABLE {name}"), Cleared)
        assert isinstance(await over_connect(world, reader, cache_by_name(f"lab.{name}")), Cleared)


async def test_temporary_views_that_change_are_not_cached(world: World, reader: ReaderPool) -> None:
    session: dict[str, Any] = {"temp_views": frozenset({"v", "w"}), "varying_views": frozenset({"v"})}
    is_not_cached(await over_thrift(world, reader, "CACHE TABLE V", **session))
    is_not_cached(
        await over_thrift(world, reader, "CACHE TABLE c AS SELECT * FROM w JOIN v USING (id)", **session)
    )
    is_not_cached(await over_connect(world, reader, cache_by_name("v"), **session))
    is_not_cached(await over_connect(world, reader, persist(table("v")), **session))
    assert isinstance(await over_thrift(world, reader, "CACHE TABLE w", **session), Cleared)
    reader_of_it = await over_thrift(world, reader, "CREATE TEMP VIEW x AS SELECT * FROM v", **session)
    assert isinstance(reader_of_it, Cleared)
    assert reader_of_it.uncacheable_reason


async def test_a_policy_asks_for_nobody(world: World, reader: ReaderPool) -> None:
    for user in ("ann", "bob"):
        verdict = await over_thrift(world, reader, "SELECT * FROM owned", user)
        assert isinstance(verdict, Cleared)
        assert f"WHERE (own = '{user}')" in verdict.forwarded


async def test_a_view_asks_for_who_reads_it(world: World, reader: ReaderPool) -> None:
    for name in ("mine", "over_mine"):
        plan = forwarded(await over_connect(world, reader, execute(table(name)), "bob"))
        assert "own = 'bob'" in plan.root.subquery_alias.input.sql.query
        text = forwarded(await over_connect(world, reader, execute(sql(f"SELECT * FROM {name}")), "bob"))
        assert "own = 'bob'" in text.root.sql.query
        explained = await over_connect(world, reader, command(f"EXPLAIN SELECT * FROM {name}"), "bob")
        assert isinstance(explained, Cleared), "nothing is hidden"
    plain = await over_thrift(world, reader, "SELECT * FROM mine", "bob")
    assert isinstance(plain, Cleared)
    assert plain.forwarded == "SELECT * FROM `spark_catalog`.`lab`.`mine`", "Spark knows who it is"


@pytest.mark.parametrize("text", ["SELECT id FROM free WHERE own = current_user()", "SELECT id FROM mine"])
async def test_a_view_that_is_made_keeps_the_question(world: World, reader: ReaderPool, text: str) -> None:
    for verdict in (
        await over_thrift(world, reader, f"CREATE VIEW made AS {text}"),
        await over_connect(world, reader, command(f"CREATE VIEW made AS {text}")),
    ):
        assert isinstance(verdict, Cleared), verdict
        assert "'ann'" not in verdict.forwarded
        assert "current_user()" in verdict.forwarded or "`mine`" in verdict.forwarded


@pytest.mark.parametrize("text", ["SELECT * FROM mapped", "SELECT own FROM hidden_by", "SELECT * FROM over"])
async def test_what_policies_read_is_told_and_a_period_makes_another_text(
    world: World, reader: ReaderPool, text: str
) -> None:
    """Spark keeps the files of a table with a plan that it has analysed, so no text may be that of before."""
    forwarded_texts = set[str]()
    for period in (8, 9):
        snapshot = replace(world.snapshot(), context=AccessContext(period=period))
        for endpoint in ENDPOINTS:
            session = SessionContext(namespace=("lab",), endpoint=endpoint)
            statement = Statement(text=text, principal=world.principal("ann"), context=session)
            if endpoint == "connect":
                statement = replace(statement, text="", plan=execute(sql(text)))
            verdict = await judge(statement, snapshot, reader)
            assert isinstance(verdict, Cleared), verdict
            assert verdict.policy_tables == {TableName("spark_catalog", "lab", "blocked")}
            assert (verdict.period, "period" in verdict.context_dependencies) == (period, True)
            assert f"REPEATABLE ({period})" in verdict.forwarded
            forwarded_texts.add(verdict.forwarded)
    assert len(forwarded_texts) == 4
    other = await over_thrift(world, reader, "SELECT * FROM owned")
    assert isinstance(other, Cleared)
    assert (other.policy_tables, "period" in other.context_dependencies) == (frozenset[TableName](), False)


async def test_only_the_gateway_has_a_table_looked_at_again(world: World, reader: ReaderPool) -> None:
    blocked = TableName("spark_catalog", "lab", "blocked")
    plans = (b"", b"REFRESH TABLE `spark_catalog`.`lab`.`blocked`")
    for endpoint, plan in zip(ENDPOINTS, plans, strict=True):
        statement = Statement(
            text="DROP TABLE blocked",
            principal=world.principal("ann"),
            context=SessionContext(endpoint=endpoint),
            refreshes=blocked,
        )
        verdict = await judge(statement, world.snapshot(), reader)
        assert isinstance(verdict, Cleared)
        assert verdict.forwarded == "REFRESH TABLE `spark_catalog`.`lab`.`blocked`"
        assert plan in verdict.forwarded_plan
        assert not verdict.policy_tables


COLLATED = [
    "CREATE TEMPORARY VIEW v DEFAULT COLLATION UTF8_LCASE AS {query}",
    "CREATE OR REPLACE TEMPORARY VIEW v (i) DEFAULT COLLATION UNICODE_CI AS {query}",
    "CREATE TABLE made USING parquet DEFAULT COLLATION UTF8_LCASE AS {query}",
]


@pytest.mark.parametrize("text", COLLATED)
async def test_no_collation_is_given_to_a_policy(world: World, reader: ReaderPool, text: str) -> None:
    for table_name in ("owned", "masked", "filtered"):
        query = text.format(query=f"WITH c AS (SELECT id FROM {table_name}) SELECT id FROM c")
        for verdict in (
            await over_thrift(world, reader, query),
            await over_connect(world, reader, command(query)),
        ):
            assert isinstance(verdict, Refused), verdict
            assert "DEFAULT COLLATION" in verdict.message
    free = await over_thrift(world, reader, text.format(query="SELECT id FROM free"))
    assert isinstance(free, Cleared), free


async def test_a_view_with_a_collation_is_not_written_out(world: World, reader: ReaderPool) -> None:
    refusals = [
        await over_thrift(world, reader, "SELECT * FROM filtered_lcase"),
        await over_connect(world, reader, execute(table("filtered_lcase"))),
        await over_connect(world, reader, execute(table("mine_lcase"))),
    ]
    for verdict in refusals:
        assert isinstance(verdict, Refused), verdict
        assert "DEFAULT COLLATION" in verdict.message
    assert isinstance(await over_connect(world, reader, execute(table("plain_lcase"))), Cleared)


@pytest.mark.parametrize("name", ["in_use", "given"])
async def test_a_policy_that_a_session_or_a_statement_could_change_holds_for_none(
    world: World, reader: ReaderPool, name: str
) -> None:
    for verdict in (
        await over_thrift(world, reader, f"SELECT * FROM {name}"),
        await over_connect(world, reader, execute(table(name))),
    ):
        assert isinstance(verdict, Refused), verdict
        assert "the session or on parameters of the statement" in verdict.message


async def test_a_default_cannot_ask_spark_connect_who_the_user_is(world: World, reader: ReaderPool) -> None:
    """Spark keeps the text, and whoever inserts is somebody else to it."""
    text = "CREATE TABLE made (a INT, b STRING DEFAULT current_user()) USING parquet"
    verdict = await over_connect(world, reader, command(text))
    assert isinstance(verdict, Refused)
    assert "who the user is" in verdict.message
