"""Compressed plans: opened within bounds, and then judged like any other."""

from __future__ import annotations

from typing import Any

import pytest
import zstandard

from gateway.model.statement import PlanRequest
from gateway.plan.compressed import open_plan, unpack
from gateway.plan.reading import MalformedPlan
from gateway.plan.walk import read_plan
from gateway.wire.connect import ProtobufError, pb, serialize
from tests.plan.plans import plan_in, read

RELATION = pb.Relation()
RELATION.limit.input.read.named_table.unparsed_identifier = "secret"
COMMAND = pb.Command()
COMMAND.create_dataframe_view.input.CopyFrom(RELATION)
COMMAND.create_dataframe_view.name = "v"
KINDS = pb.Plan.CompressedOperation


def compressed(
    data: bytes, op_type: Any = KINDS.OP_TYPE_RELATION, codec: Any = pb.COMPRESSION_CODEC_ZSTD
) -> Any:
    plan = pb.Plan()
    plan.compressed_operation.data = data
    plan.compressed_operation.op_type = op_type
    plan.compressed_operation.compression_codec = codec
    return plan


def fault(plan: Any) -> MalformedPlan:
    found = read_plan(PlanRequest(kind="execute", message=serialize(plan)))
    assert isinstance(found, MalformedPlan), found
    return found


def _in_frames(data: bytes) -> bytes:
    half = len(data) // 2
    return zstandard.compress(data[:half]) + zstandard.compress(data[half:])


def _without_size(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False).compress(data)


def _skippable(data: bytes) -> bytes:
    return b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc" + zstandard.compress(data)


@pytest.mark.parametrize("compress", [zstandard.compress, _in_frames, _without_size, _skippable])
def test_a_relation_is_read_however_it_is_compressed(compress: Any) -> None:
    reading = read(serialize(compressed(compress(serialize(RELATION)))))
    assert [table.parts for table in reading.tables] == [("secret",)]
    assert reading.root == "Limit"
    assert plan_in(reading).WhichOneof("op_type") == "root"
    assert reading.tables[0].relation is plan_in(reading).root.limit.input


def test_a_command_is_read() -> None:
    plan = compressed(zstandard.compress(serialize(COMMAND)), KINDS.OP_TYPE_COMMAND)
    reading = read(serialize(plan))
    assert [table.parts for table in reading.tables] == [("secret",)]
    assert plan_in(reading).command.create_dataframe_view.name == "v"


@pytest.mark.parametrize(
    ("case", "fields"),
    [
        ("schema", ["plan"]),
        ("explain", ["plan"]),
        ("tree_string", ["plan"]),
        ("is_local", ["plan"]),
        ("is_streaming", ["plan"]),
        ("input_files", ["plan"]),
        ("semantic_hash", ["plan"]),
        ("same_semantics", ["target_plan", "other_plan"]),
    ],
)
def test_every_plan_of_an_analysis_is_opened(case: str, fields: list[str]) -> None:
    request = pb.AnalyzePlanRequest()
    for field in fields:
        plan = getattr(getattr(request, case), field)
        plan.CopyFrom(compressed(zstandard.compress(serialize(RELATION))))
    reading = read(serialize(request), "analyze")
    assert [table.parts for table in reading.tables] == [("secret",)] * len(fields)
    assert reading.root == "Limit"


def test_every_plan_field_of_an_analysis_is_one_of_those() -> None:
    """A new kind of analysis with a plan would be refused: its compressed plan is not opened."""
    with_plans = {
        field.name
        for field in pb.AnalyzePlanRequest.DESCRIPTOR.fields
        if field.message_type is not None
        and any(each.message_type is pb.Plan.DESCRIPTOR for each in field.message_type.fields)
    }
    assert with_plans == {
        "schema", "explain", "tree_string", "is_local", "is_streaming", "input_files", "semantic_hash",
        "same_semantics",
    }  # fmt: skip


def test_a_bomb_is_not_opened() -> None:
    bomb = zstandard.compress(b"\0" * (256 * 1024 * 1024))
    assert len(bomb) < 100_000
    assert fault(compressed(bomb)).code == "TOO_LARGE"
    assert fault(compressed(zstandard.compress(b"\0" * (64 * 1024 * 1024)) * 5)).code == "TOO_LARGE"


def test_the_bound_counts_what_comes_out() -> None:
    assert unpack(zstandard.compress(b"x" * 1000), max_bytes=1000) == b"x" * 1000
    with pytest.raises(ProtobufError, match="1000 bytes"):
        unpack(zstandard.compress(b"x" * 1001), max_bytes=1000)
    with pytest.raises(ProtobufError, match="1000 bytes"):
        unpack(zstandard.compress(b"x" * 600) * 2, max_bytes=1000)
    assert unpack(b"", max_bytes=10) == b""


def test_a_frame_that_asks_for_a_huge_window_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    frame = compressor.compress(serialize(RELATION)) + compressor.flush()
    assert fault(compressed(frame)).code == "MALFORMED"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage",
        zstandard.compress(serialize(RELATION))[:-3],
        zstandard.compress(serialize(RELATION)) + b"garbage",
        zstandard.compress(b"garbage"),
        zstandard.compress(serialize(RELATION)[:-2]),
    ],
)
def test_what_is_no_plan_is_malformed(data: bytes) -> None:
    found = read_plan(PlanRequest(kind="execute", message=serialize(compressed(data))))
    assert not hasattr(found, "tables"), found


def test_a_kind_that_does_not_match_is_refused() -> None:
    data = zstandard.compress(serialize(RELATION))
    assert "relation or a command" in fault(compressed(data, 0)).why
    assert "relation or a command" in fault(compressed(data, 7)).why
    assert "codec" in fault(compressed(data, codec=0)).why
    assert "codec" in fault(compressed(data, codec=9)).why
    other = read_plan(PlanRequest(kind="execute", message=serialize(compressed(data, KINDS.OP_TYPE_COMMAND))))
    assert not hasattr(other, "tables"), other


def test_unknown_fields_around_and_within_are_found() -> None:
    unknown = b"\xa2\xfa\x01\x01x"
    plan = compressed(zstandard.compress(serialize(RELATION)))
    plan.compressed_operation.MergeFromString(unknown)
    assert "4004" in fault(plan).why
    within = compressed(zstandard.compress(serialize(RELATION) + unknown))
    found = read_plan(PlanRequest(kind="execute", message=serialize(within)))
    assert "4004" in getattr(found, "why", "")
    beside = serialize(compressed(zstandard.compress(serialize(RELATION)))) + unknown
    found = read_plan(PlanRequest(kind="execute", message=beside))
    assert "4004" in getattr(found, "why", "")


def test_other_plans_are_left_alone() -> None:
    plan = pb.Plan(root=RELATION)
    open_plan(plan)
    assert plan == pb.Plan(root=RELATION)
    empty = pb.Plan()
    open_plan(empty)
    assert empty == pb.Plan()


def test_a_deep_plan_may_be_compressed_and_a_bomb_of_depth_may_not() -> None:
    relation = pb.Relation()
    inner = relation
    for _ in range(1000):
        inner = inner.limit.input
    inner.range.end = 1
    assert read(serialize(compressed(zstandard.compress(serialize(relation))))).messages > 2000
    deep = pb.Relation()
    inner = deep
    for _ in range(2500):
        inner = inner.limit.input
    inner.range.end = 1
    assert fault(compressed(zstandard.compress(serialize(deep)))).code == "TOO_DEEP"
