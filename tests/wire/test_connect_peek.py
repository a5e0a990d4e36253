"""What a response is, from its first tags."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gateway.wire import connect_peek
from gateway.wire.connect import pb
from gateway.wire.connect_peek import ResponsePeek, peek
from gateway.wire.protobuf import ProtobufError


def response(**fields: Any) -> Any:
    return pb.ExecutePlanResponse(
        session_id="s",
        server_side_session_id="server",
        operation_id="op",
        response_id="r1",
        **fields,
    )


CASES = [
    field
    for field in pb.ExecutePlanResponse.DESCRIPTOR.fields
    if field.containing_oneof is not None and field.containing_oneof.name == "response_type"
]


def test_the_cases_are_those_of_the_descriptor() -> None:
    assert {field.number for field in CASES} == connect_peek.CASES
    for field in CASES:
        assert getattr(connect_peek, field.name.upper()) == field.number


def test_the_other_fields_are_those_of_the_descriptor() -> None:
    others = {f.number for f in pb.ExecutePlanResponse.DESCRIPTOR.fields} - connect_peek.CASES
    assert others == connect_peek._PLAIN


@pytest.mark.parametrize("field", CASES, ids=lambda field: str(field.name))
def test_every_case_is_told_by_its_number(field: Any) -> None:
    message = response()
    getattr(message, field.name).SetInParent()
    found = peek(message.SerializeToString())
    assert found == ResponsePeek(field.number, 0, "op", "r1", "server")


def test_a_batch_is_counted_and_not_read() -> None:
    batch = pb.ExecutePlanResponse.ArrowBatch(row_count=70_000, data=b"\xff" * 100_000)
    found = peek(response(arrow_batch=batch).SerializeToString())
    assert (found.case, found.rows, found.first_chunk) == (connect_peek.ARROW_BATCH, 70_000, True)
    for index in (0, 1, 5):
        batch = pb.ExecutePlanResponse.ArrowBatch(
            row_count=10, data=b"x", start_offset=9, chunk_index=index, num_chunks_in_batch=6
        )
        found = peek(response(arrow_batch=batch).SerializeToString())
        assert (found.rows, found.first_chunk) == (10, index == 0)


def test_what_has_no_case_tells_what_else_it_has() -> None:
    assert peek(b"") == ResponsePeek(connect_peek.NONE, 0, "", "", "")
    with_schema = response()
    with_schema.schema.struct.SetInParent()
    assert peek(with_schema.SerializeToString()).schema
    with_metrics = response()
    with_metrics.metrics.SetInParent()
    assert peek(with_metrics.SerializeToString()).metrics
    observed = response()
    observed.observed_metrics.add().name = "m"
    assert peek(observed.SerializeToString()).metrics
    assert peek(observed.SerializeToString()).case == connect_peek.NONE


def test_fields_of_another_version_are_told() -> None:
    assert not peek(response().SerializeToString()).unknown
    assert peek(response().SerializeToString() + b"\xa2\xfa\x01\x01x").unknown
    assert peek(response().SerializeToString() + b"\xa0\xfa\x01\x01").unknown


def test_the_last_of_two_cases_counts() -> None:
    """As protobuf itself has it."""
    first = response(arrow_batch=pb.ExecutePlanResponse.ArrowBatch(row_count=3)).SerializeToString()
    second = response(result_complete=pb.ExecutePlanResponse.ResultComplete()).SerializeToString()
    assert peek(first + second).case == connect_peek.RESULT_COMPLETE
    assert peek(first + second).rows == 0


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        b"\x12",
        b"\x12\x05ab",
        b"\x00\x00",
        b"\x0b",
        b"\x12" + b"\xff" * 11,
        b"\x62\x02\xff\xfe",
        b"\x12\x02\x08",
        b"\x12\x0b\x08" + b"\xff" * 9 + b"\x01",
        b"\x32\x00" * 20_000,
    ],
)
def test_what_cannot_be_a_response_is_an_error(data: bytes) -> None:
    with pytest.raises(ProtobufError):
        peek(data)


def test_any_bytes_are_a_peek_or_an_error_and_agree_with_the_codec() -> None:
    rng = random.Random(11)
    seeds = [
        response(arrow_batch=pb.ExecutePlanResponse.ArrowBatch(row_count=300, data=b"abc", chunk_index=2)),
        response(result_complete=pb.ExecutePlanResponse.ResultComplete()),
        response(execution_progress=pb.ExecutePlanResponse.ExecutionProgress(num_inflight_tasks=3)),
    ]
    read = 0
    for _ in range(5000):
        data = bytearray(rng.choice(seeds).SerializeToString())
        for _ in range(rng.randrange(3)):
            at = rng.randrange(len(data) + 1)
            data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(4))
        try:
            found = peek(bytes(data))
        except ProtobufError:
            continue
        try:
            message = pb.ExecutePlanResponse.FromString(bytes(data))
        except Exception:  # noqa: BLE001  what the codec refuses, peek need not
            continue
        read += 1
        case = message.WhichOneof("response_type")
        number = message.DESCRIPTOR.fields_by_name[case].number if case else 0
        assert found.case == number
        assert (found.operation_id, found.response_id) == (message.operation_id, message.response_id)
    assert read > 1000
