"""Where the checkpoints of streams are: with whom, what and which policies they began, and nowhere else."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import yaml

from gateway.model.catalog import Table, TableName
from gateway.model.context import AccessContext
from gateway.model.handles import SparkHandle
from gateway.model.principal import Principal
from gateway.model.snapshot import Snapshot
from gateway.model.statement import Checkpoint, Cleared, PlanRequest, Refused, Verdict
from gateway.pipeline import Rules
from gateway.policy.reserved import ReservedPlace
from gateway.reader.pool import ReaderPool
from gateway.wire.connect import parse, pb
from tests.judge_world import CASES, World

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROOT = "file:/srv/sluice/ck"
RULES = Rules(star="visible", checkpoints=ReservedPlace(ROOT))
OPTION = "checkpointLocation"
BOB, ANN = "bob", "ann"
EVERY_FILE = """
  - name: every file
    on: {url: "*"}
    allow: [{groups: [public], access: [all]}]
"""


def everywhere(change: tuple[str, str] = ("", "")) -> World:
    """Return the world in which everybody may read and write every file; `change` is made in its pack."""
    data = yaml.safe_load((CASES / "world.yaml").read_text(encoding="utf-8"))
    old, new = change
    assert old in data["pack"]
    data["pack"] = data["pack"].replace(old, new, 1) + EVERY_FILE if old else data["pack"] + EVERY_FILE
    return World(data)


@pytest.fixture(scope="module")
def world() -> World:
    return everywhere()


def read(name: str, **options: str) -> Any:
    relation = pb.Relation()
    relation.read.named_table.unparsed_identifier = name
    for key, value in options.items():
        relation.read.named_table.options[key] = value
    relation.read.is_streaming = True
    return relation


def files(*paths: str, **options: str) -> Any:
    relation = pb.Relation()
    source = relation.read.data_source
    source.format, source.schema = "parquet", "id INT"
    source.paths.extend(paths)
    for key, value in options.items():
        source.options[key] = value
    relation.read.is_streaming = True
    return relation


def join(left: Any, right: Any) -> Any:
    relation = pb.Relation()
    relation.join.left.CopyFrom(left)
    relation.join.right.CopyFrom(right)
    relation.join.join_type = pb.Join.JOIN_TYPE_INNER
    relation.join.using_columns.append("id")
    return relation


def limited(source: Any, plan_id: int = 0) -> Any:
    relation = pb.Relation()
    relation.common.plan_id = plan_id
    relation.limit.input.CopyFrom(source)
    relation.limit.limit = 10
    return relation


def sql(text: str) -> Any:
    relation = pb.Relation()
    relation.sql.query = text
    return relation


def stream(source: Any, place: str | None = "file:/c", option: str = OPTION, **fields: Any) -> PlanRequest:
    start = pb.WriteStreamOperationStart(**{"format": "noop", "available_now": True, **fields})
    start.input.CopyFrom(source)
    if place is not None:
        start.options[option] = place
    plan = pb.Plan(command=pb.Command(write_stream_operation_start=start))
    return PlanRequest(kind="execute", message=plan.SerializeToString(deterministic=True))


def told(verdict: Verdict) -> Checkpoint:
    assert isinstance(verdict, Cleared), verdict
    assert verdict.checkpoint is not None
    return verdict.checkpoint


def options_of(verdict: Verdict) -> dict[str, str]:
    assert isinstance(verdict, Cleared), verdict
    start = parse(pb.Plan, verdict.forwarded_plan).command.write_stream_operation_start
    return dict(start.options)


async def begun(world: World, reader: ReaderPool, source: Any, user: str = BOB, **fields: Any) -> Checkpoint:
    return told(await world.judge_plan(stream(source, **fields), reader, user=user, rules=RULES))


async def test_spark_is_given_a_place_of_the_gateways_own(world: World, reader: ReaderPool) -> None:
    for option in (OPTION, "CHECKPOINTLOCATION", "checkpointlocation"):
        request = stream(read("employee"), option=option)
        verdict = await world.judge_plan(request, reader, user=BOB, rules=RULES)
        found = told(verdict)
        assert options_of(verdict) == {option: found.url}
        assert found.chosen == "file:/c"
        assert found.url.startswith(f"{ROOT}/_")
        assert found.name.startswith("_")
        assert isinstance(verdict, Cleared)
        assert (found.url, "file:/c") in verdict.substitutions


async def test_a_stream_without_a_location_is_as_it_was(world: World, reader: ReaderPool) -> None:
    verdict = await world.judge_plan(stream(read("employee"), None), reader, user=BOB, rules=RULES)
    assert isinstance(verdict, Cleared)
    assert verdict.checkpoint is None
    assert options_of(verdict) == {}


async def test_without_a_place_there_is_no_checkpoint(world: World, reader: ReaderPool) -> None:
    for source in ("employee", "sales.orders"):
        verdict = await world.judge_plan(stream(read(source)), reader, user=BOB, rules=Rules(star="visible"))
        assert isinstance(verdict, Refused)
        assert "sessions.checkpoints" in verdict.message
    verdict = await world.judge_plan(stream(read("sales.orders"), None), reader, user=BOB)
    assert isinstance(verdict, Cleared)


async def test_two_locations_are_none(world: World, reader: ReaderPool) -> None:
    request = stream(read("employee"))
    plan = parse(pb.Plan, request.message)
    plan.command.write_stream_operation_start.options["CHECKPOINTLOCATION"] = "file:/d"
    request = replace(request, message=plan.SerializeToString(deterministic=True))
    verdict = await world.judge_plan(request, reader, user=BOB, rules=RULES)
    assert isinstance(verdict, Refused)
    assert "more than once in different spellings" in verdict.message


async def test_it_lasts_while_nothing_changes(world: World, reader: ReaderPool) -> None:
    first = await begun(world, reader, read("employee"))
    assert await begun(world, reader, read("hr.employee")) == first
    assert await begun(world, reader, read("HR.Employee")) == first
    assert await begun(world, reader, read("employee", maxFilesPerTrigger="7")) == first
    assert await begun(world, reader, limited(read("employee"), plan_id=4)) == first
    assert await begun(world, reader, read("employee"), query_name="q", output_mode="append") == first
    of_files = await begun(world, reader, files("file:/in"))
    assert await begun(world, reader, files("file:/in", maxFilesPerTrigger="2")) == of_files
    own = pb.Relation()
    own.local_relation.schema = "id INT"
    other = pb.Relation()
    other.local_relation.schema = "id INT, x INT"
    assert await begun(world, reader, join(read("employee"), own)) == await begun(
        world, reader, join(read("employee"), other)
    )


async def test_sources_in_their_order(world: World, reader: ReaderPool) -> None:
    employee, orders = read("employee"), read("sales.orders")
    sources = [
        employee,
        orders,
        files("file:/in"),
        files("file:/in2"),
        files("file:/in", "file:/in2"),
        join(employee, orders),
        join(orders, employee),
        join(employee, employee),
        join(join(employee, orders), employee),
        join(employee, join(orders, employee)),
        join(employee, sql("SELECT * FROM sales.orders")),
        join(employee, sql("SELECT * FROM sales.orders WHERE id > 1")),
    ]
    found = [await begun(world, reader, source) for source in sources]
    assert len({one.name for one in found}) == len(found)
    assert len({one.directory for one in found}) == 1


async def test_principals_and_locations_have_places_of_their_own(world: World, reader: ReaderPool) -> None:
    bobs = await begun(world, reader, read("sales.orders"))
    assert (await begun(world, reader, read("sales.orders"), user=ANN)).directory != bobs.directory
    other = await begun(world, reader, read("sales.orders"), place="file:/c2")
    assert other.directory != bobs.directory
    assert other.name == bobs.name


async def test_policies_as_they_stand(world: World, reader: ReaderPool) -> None:
    first = await begun(world, reader, read("employee"))
    changed = everywhere(("region = 'EMEA'", "region = 'AMER'"))
    assert (await begun(changed, reader, read("employee"))).name != first.name
    hidden = everywhere(("column: [id, name, email, region]", "column: [id, email, region]"))
    assert (await begun(hidden, reader, read("employee"))).name != first.name
    # What is free for one is another checkpoint when it is not.
    free = await begun(world, reader, read("employee"), user=ANN)
    assert free.name != first.name


async def test_policies_of_what_expressions_read(world: World, reader: ReaderPool) -> None:
    source = pb.Relation()
    source.filter.input.CopyFrom(read("sales.orders"))
    source.filter.condition.expression_string.expression = "id IN (SELECT e.id FROM hr.employee e)"
    changed = everywhere(("region = 'EMEA'", "region = 'AMER'"))
    assert (await begun(world, reader, source)).name != (await begun(changed, reader, source)).name


async def test_the_period_of_what_policies_read_changes_nothing(world: World, reader: ReaderPool) -> None:
    static = read("sales.fit")
    static.read.is_streaming = False
    forwarded, places = set(), set()
    for period in (1, 2):
        later = _InPeriod(world, period)
        for source in (
            join(read("employee"), static),
            join(read("employee"), sql("SELECT * FROM sales.fit")),
        ):
            verdict = await later.judge_plan(stream(source), reader, user=BOB, rules=RULES)
            places.add(told(verdict).name)
            assert isinstance(verdict, Cleared)
            forwarded.add(verdict.forwarded_plan)
    assert len(forwarded) == 4
    assert len(places) == 2


class _InPeriod(World):
    """The same world at another time."""

    def __init__(self, world: World, period: int) -> None:
        self.data, self.tables, self.policies = world.data, world.tables, world.policies
        self.principals = world.principals
        self._context = AccessContext(period=period)

    def snapshot(self, missing: frozenset[TableName] = frozenset()) -> Snapshot:
        return replace(super().snapshot(missing), context=self._context)


async def test_what_makes_a_table_this_one(world: World, reader: ReaderPool) -> None:
    first = await begun(world, reader, read("sales.orders"))
    moved = copy.copy(world)
    moved.tables = {name: _moved(one) for name, one in world.tables.items()}
    assert (await begun(moved, reader, read("sales.orders"))).name != first.name


def _moved(table: Table) -> Table:
    return replace(table, location=f"file:/elsewhere/{table.name.table}")


async def test_what_is_of_one_session_has_no_lasting_checkpoint(world: World, reader: ReaderPool) -> None:
    relation = pb.Relation()
    relation.cached_remote_relation.relation_id = "r"
    for source, context in (
        (read("v"), {"temp_views": frozenset({"v"})}),
        (sql("SELECT * FROM v"), {"temp_views": frozenset({"v"})}),
        (join(read("employee"), relation), {"handles": frozenset({SparkHandle("relation", "r")})}),
    ):
        verdict = await world.judge_plan(stream(source), reader, user=BOB, rules=RULES, **context)
        assert isinstance(verdict, Refused)
        assert "can be resumed in another" in verdict.message
        assert isinstance(
            await world.judge_plan(stream(source, None), reader, user=BOB, rules=RULES, **context), Cleared
        )


async def test_nobody_is_let_in_by_a_path(world: World, reader: ReaderPool) -> None:
    inside = f"{ROOT}/_a/_b/sources/0"
    plans = [
        stream(read("employee"), f"{ROOT}/mine"),
        stream(read("employee"), format="parquet", path=inside),
    ]
    relation = files(inside)
    relation.read.is_streaming = False
    plans.append(PlanRequest(kind="execute", message=pb.Plan(root=relation).SerializeToString()))
    relation = files("file:/srv", recursiveFileLookup="true")
    relation.read.is_streaming = False
    plans.append(PlanRequest(kind="execute", message=pb.Plan(root=relation).SerializeToString()))
    for plan in plans:
        verdict = await world.judge_plan(plan, reader, user=BOB, rules=RULES)
        assert isinstance(verdict, Refused), verdict
        assert "which cannot be granted" in verdict.message
        assert any(one.request.resource.kind == "url" and not one.allowed for one in verdict.decisions)
    text = f"CREATE TABLE sales.t (id INT) USING parquet LOCATION '{inside}'"
    verdict = await world.judge(text, reader, user=ANN, rules=RULES)
    assert isinstance(verdict, Refused)
    assert "which cannot be granted" in verdict.message


async def test_other_places_of_the_gateways_own(world: World, reader: ReaderPool) -> None:
    relation = files("file:/srv/tmp/temporary-1")
    relation.read.is_streaming = False
    plan = PlanRequest(kind="execute", message=pb.Plan(root=relation).SerializeToString())
    rules = Rules(reserved=(ReservedPlace("file:/srv/tmp"),))
    assert isinstance(await world.judge_plan(plan, reader, user=BOB), Cleared)
    assert isinstance(await world.judge_plan(plan, reader, user=BOB, rules=rules), Refused)


class Renamed(World):
    """The world in which bob is somebody else by now."""

    id = ""

    def principal(self, user: str) -> Principal:
        return replace(super().principal(user), id=self.id)


async def test_who_has_the_name_of_another_does_not_go_on_with_his(reader: ReaderPool) -> None:
    world = Renamed(everywhere().data)
    places = set()
    for id_ in ("", "5d1f0c9ab3e2", "77aa00bb11cc"):
        world.id = id_
        places.add((await begun(world, reader, read("employee"))).directory)
    assert len(places) == 3
