"""What the record keeps of a plan has its lineage, and nothing of the client's rows, code and options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
import zstandard

from gateway.lineage.gathering import Gatherer
from gateway.lineage.gathering_plans import GatheredPlan, gather_plan
from gateway.model.catalog import CatalogSnapshot, TableName
from gateway.model.statement import PlanRequest, SessionContext
from gateway.plan.stripped import MAX_MESSAGES, strip_plan
from gateway.plan.walk import read_plan
from gateway.reader.pool import ReaderPool
from gateway.wire import connect
from gateway.wire.connect import parse
from tests.lineage_world import DATABASE, VIEWS, catalog_of
from tests.plan import frames
from tests.plan.building import is_map, message_at, places, value_type
from tests.plan.lineage_programs import PROGRAMS
from tests.plan.test_lineage import WRITES

pb: Any = connect.pb
SECRET = b"s3cret"


def arrow(*names: str) -> bytes:
    """Rows of text as Arrow, all of them the secret."""
    batch = pa.record_batch({name: pa.array([SECRET.decode()] * 1000) for name in names})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema.with_metadata({"k": SECRET})) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def local(*names: str) -> Any:
    plan = pb.Plan()
    plan.root.local_relation.data = arrow(*names)
    return plan


def deep(plan: Any, levels: int) -> Any:
    """The plan's relation within as many others."""
    for _ in range(levels):
        outer = pb.Plan()
        outer.root.limit.input.CopyFrom(plan.root)
        outer.root.limit.limit = 1
        plan = outer
    return plan


def test_local_data_keeps_its_columns_only() -> None:
    bare = strip_plan(local("p", "q").SerializeToString())
    assert bare is not None
    assert SECRET not in bare
    kept = pa.ipc.open_stream(parse(pb.Plan, bare).root.local_relation.data)
    assert kept.schema == pa.schema([("p", pa.string()), ("q", pa.string())])
    assert kept.read_all().num_rows == 0


def test_what_is_no_arrow_is_not_kept() -> None:
    plan = pb.Plan()
    plan.root.local_relation.data = SECRET
    bare = strip_plan(plan.SerializeToString())
    plan.root.local_relation.data = b""
    assert bare == plan.SerializeToString()


@pytest.mark.parametrize("levels", [0, 30, 70, 400])
def test_no_depth_hides_anything(levels: int) -> None:
    plan = deep(local("p"), levels)
    if levels:
        plan.root.limit.input.common.plan_id = 7
    bare = strip_plan(connect.serialize(plan))
    assert bare is not None
    assert SECRET not in bare


def test_a_compressed_plan_is_opened() -> None:
    plan = pb.Plan()
    plan.compressed_operation.data = zstandard.compress(local("p").root.SerializeToString())
    plan.compressed_operation.op_type = pb.Plan.CompressedOperation.OP_TYPE_RELATION
    plan.compressed_operation.compression_codec = pb.COMPRESSION_CODEC_ZSTD
    bare = strip_plan(plan.SerializeToString())
    assert bare is not None
    assert parse(pb.Plan, bare).root.HasField("local_relation")
    assert SECRET not in bare


def test_of_options_paths_are_kept() -> None:
    plan = pb.Plan()
    write = plan.command.write_operation
    write.options.update({"PATH": "/out", "fs.s3a.secret.key": SECRET.decode()})
    source = write.input.read.data_source
    source.options.update({"path": "/in", "password": SECRET.decode()})
    bare = strip_plan(plan.SerializeToString())
    assert bare is not None
    kept = parse(pb.Plan, bare).command.write_operation
    assert dict(kept.options) == {"PATH": "/out"}
    assert dict(kept.input.read.data_source.options) == {"path": "/in"}


def test_nothing_of_any_place_is_kept() -> None:
    """Wherever Spark Connect's messages have bytes, or words of data sources, none are left."""
    found = 0
    for place in places():
        is_bytes = place.field.type == place.field.TYPE_BYTES
        words = is_map(place.field) and value_type(place.field) is None
        kept = place.name in ("Plan.CompressedOperation.data", "WithColumnsRenamed.rename_columns_map")
        if kept or not (is_bytes or words):
            continue
        top, message = message_at(place.message)
        if not isinstance(top, pb.Plan):
            continue
        if is_bytes:
            setattr(message, place.field.name, SECRET)
        else:
            getattr(message, place.field.name)["k"] = SECRET.decode()
        bare = strip_plan(top.SerializeToString())
        assert bare is not None
        assert SECRET not in bare, place.name
        found += 1
    assert found > 20


def test_too_much_is_not_gone_through() -> None:
    plan = local("p")
    plan.root.common.plan_id = 1
    within = pb.Plan()
    within.root.filter.input.CopyFrom(plan.root)
    call = within.root.filter.condition.unresolved_function
    call.function_name = "in"
    for _ in range(MAX_MESSAGES):
        call.arguments.add().literal.integer = 1
    assert strip_plan(within.SerializeToString()) is None


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_plan_without_any_of_it_stays_as_it_is(name: str) -> None:
    plan = frames.message(PROGRAMS[name].run(frames.SESSION)).SerializeToString()
    bare = strip_plan(plan)
    assert bare is not None
    assert type(read_plan(PlanRequest(kind="execute", message=bare))) is type(
        read_plan(PlanRequest(kind="execute", message=plan))
    )


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("name", [*PROGRAMS, *WRITES])
async def test_it_has_the_lineage_of_the_whole(reader: ReaderPool, name: str) -> None:
    plan = WRITES[name][0]() if name in WRITES else frames.message(PROGRAMS[name].run(frames.SESSION))
    message = plan.SerializeToString()
    catalog = await catalog_of(reader, views=VIEWS)
    snapshot = CatalogSnapshot(version=1, catalogs=frozenset({"spark_catalog"}), tables=catalog.tables)

    async def look_up(names: Sequence[TableName]) -> CatalogSnapshot:
        return snapshot

    gatherer = Gatherer(reader=reader, look_up=look_up, catalogs=frozenset({"spark_catalog", "other"}))
    context = SessionContext(namespace=(DATABASE,))
    found = []
    for one in (message, strip_plan(message) or b""):
        request = PlanRequest(kind="execute", message=one)
        gathered = await gather_plan(gatherer, request, context, {}, {}, {})
        assert isinstance(gathered, GatheredPlan), gathered
        found.append(gathered.lineage())
    assert found[0] == found[1]
