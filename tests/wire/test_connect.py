"""Messages of Spark Connect: read within bounds, whatever the bytes."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import pytest
from google._upb import _message

from gateway.wire.connect import (
    MAX_DEPTH,
    MAX_MESSAGES,
    METHODS,
    SMALL_BYTES,
    ProtobufError,
    find_unknown,
    parse,
    pb,
    serialize,
)
from tests.speed import patience

UNKNOWN = b"\xa2\xfa\x01\x01x"
"""Field 4004, of one byte."""


def nested(relations: int, inside: bytes = b"") -> bytes:
    """Return the bytes of a `Relation` of so many filters within each other: two messages for each."""
    size, heads = len(inside), []
    for _ in range(relations):
        for tag in (0x0A, 0x22):  # Filter.input, Relation.filter
            head = bytes([tag]) + varint(size)
            size += len(head)
            heads.append(head)
    return b"".join(reversed(heads)) + inside


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def code_of(cls: Any, data: bytes, **limits: int) -> str:
    with pytest.raises(ProtobufError) as caught:
        parse(cls, data, **limits)
    assert caught.value.why
    return caught.value.code


def test_a_message_comes_back() -> None:
    data = serialize(pb.Plan(root=pb.Relation(sql=pb.SQL(query="select 1"))))
    assert parse(pb.Plan, data).root.sql.query == "select 1"
    assert serialize(parse(pb.Plan, data)) == data
    assert serialize(parse(pb.Plan, b"")) == b""


def test_the_same_content_has_the_same_bytes() -> None:
    one, other = pb.Read.NamedTable(), pb.Read.NamedTable()
    for number in range(50):
        one.options[f"k{number}"] = "v"
        other.options[f"k{49 - number}"] = "v"
    assert serialize(one) == serialize(other)


@pytest.mark.parametrize("relations", [0, 1, 49, 50, 51, 1000, MAX_DEPTH // 2 - 1])
def test_deep_messages_are_read_up_to_the_limit(relations: int) -> None:
    data = nested(relations, b"\x7a\x00")
    message = parse(pb.Relation, data)
    assert serialize(message) == data
    assert find_unknown(message) is None
    for _ in range(relations):
        message = message.filter.input
    assert message.WhichOneof("rel_type") == "range"


@pytest.mark.parametrize("relations", [MAX_DEPTH // 2 + 1, 30_000, 100_000, 1_000_000])
def test_deeper_ones_are_refused_before_the_codec_recurses(relations: int) -> None:
    assert code_of(pb.Relation, nested(relations)) == "TOO_DEEP"


def test_the_codec_reads_no_deeper_afterwards() -> None:
    """The depth is a setting of the process; others in it keep their limit of 100."""
    parse(pb.Relation, nested(1000))
    with pytest.raises(Exception, match="MaxDepth"):
        pb.Relation.FromString(nested(1000))


def test_what_the_codec_does_with_the_deepest_message_needs_a_small_stack() -> None:
    """Threads can have 1 MB instead of the 8 MB in which the codec dies of 60,000 messages."""
    program = (
        "import threading, sys\n"
        "from tests.wire.test_connect import exercise\n"
        "threading.stack_size(1024 * 1024)\n"
        "done = []\n"
        "thread = threading.Thread(target=lambda: done.append(exercise()))\n"
        "thread.start(); thread.join(); sys.exit(0 if done == [True] else 3)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=patience()
    )
    assert result.returncode == 0, result.stderr


def exercise() -> bool:
    """Do with a message of the greatest depth whatever is done with messages."""
    data = nested(MAX_DEPTH // 2 - 1, b"\x7a\x00")
    message = parse(pb.Relation, data)
    copy = pb.Relation()
    copy.CopyFrom(message)
    pb.Plan().root.filter.input.CopyFrom(message)
    assert copy == message
    assert message.ByteSize() == len(data)
    assert message.IsInitialized()
    assert message.ListFields()
    copy.DiscardUnknownFields()
    assert find_unknown(message) is None
    inner = message
    while inner.WhichOneof("rel_type") == "filter":
        inner = inner.filter.input
    del message, copy
    return bool(inner.WhichOneof("rel_type") == "range")


def test_groups_are_no_part_of_the_protocol() -> None:
    """The codec would keep them as unknown fields, and recurse into them."""
    assert code_of(pb.Relation, nested(60, b"\x0b" * 100_000)) == "MALFORMED"
    assert code_of(pb.Relation, b"\x0b" * 200_000) == "MALFORMED"


def test_size_is_bounded() -> None:
    assert code_of(pb.Plan, bytes(101), max_bytes=100) == "TOO_LARGE"
    assert parse(pb.Plan, nested(1), max_bytes=4)


def test_many_small_messages_are_refused_before_they_take_memory() -> None:
    """Two bytes are an empty Relation of a hundred times the memory."""
    assert code_of(pb.WithRelations, b"\x12\x00" * (SMALL_BYTES // 2 + MAX_MESSAGES)) == "TOO_LARGE"
    assert code_of(pb.WithRelations, b"\x12\x00" * 20_000_000) == "TOO_LARGE"


def test_large_data_in_few_messages_passes() -> None:
    plan = pb.Plan()
    plan.root.local_relation.data = bytes(20_000_000)
    assert len(parse(pb.Plan, serialize(plan)).root.local_relation.data) == 20_000_000


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        b"\x0a",
        b"\x0a\x05ab",
        b"\x0a" + b"\xff" * 11,
        b"\x00\x00",
        b"\x0a\x02\x52\x05",
        b"\x0a\x06\x52\x04\x0a\x02\xff\xfe",  # text that is not UTF-8
        b"\x0c",
        b"\x0e\x01",
        nested(60, b"\xff"),
        nested(60, b"\x0a\x05"),
        nested(60, b"\x09abc"),
        nested(60, b"\x52\x04\x0a\x02\xff\xfe"),
    ],
)
def test_bytes_that_are_no_message_are_malformed(data: bytes) -> None:
    assert code_of(pb.Plan if data[:1] != b"\x22" else pb.Relation, data) == "MALFORMED"


def test_any_bytes_are_a_message_or_an_error() -> None:
    rng = random.Random(7)
    seeds = [
        nested(3, b"\x7a\x00"),
        nested(70, b"\x7a\x00"),
        serialize(pb.Plan(root=pb.Relation(sql=pb.SQL(query="x")))),
    ]
    answers: set[str] = set()
    for _ in range(5000):
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.randrange(1, 5)):
            at = rng.randrange(len(data) + 1)
            data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(4))
        for cls in (pb.Relation, pb.ExecutePlanRequest):
            try:
                message = parse(cls, bytes(data))
            except ProtobufError as error:
                answers.add(error.code)
            else:
                answers.add("read")
                find_unknown(message)
                assert parse(cls, serialize(message)) == message
    assert answers == {"read", "MALFORMED"}


# Unknown fields


def _with_unknown(path: str) -> Any:
    request = pb.ExecutePlanRequest()
    request.plan.root.sql.named_arguments["x"].literal.integer = 1
    request.plan.root.sql.pos_arguments.add().literal.integer = 1
    request.user_context.user_id = "ann"
    message: Any = request
    for step in path.split("."):
        if step == "named_arguments":
            message = message.named_arguments["x"]
        elif step == "pos_arguments":
            message = message.pos_arguments[0]
        elif step:
            message = getattr(message, step)
    message.MergeFromString(UNKNOWN)
    return request


@pytest.mark.parametrize(
    "path",
    [
        "",
        "user_context",
        "plan",
        "plan.root",
        "plan.root.sql",
        "plan.root.sql.named_arguments",
        "plan.root.sql.named_arguments.literal",
        "plan.root.sql.pos_arguments",
    ],
)
def test_an_unknown_field_is_named_by_its_path(path: str) -> None:
    request = _with_unknown(path)
    expected = f"{path}.4004".lstrip(".")
    assert find_unknown(request) == expected
    assert find_unknown(request, plans=False) == (None if path.startswith("plan") else expected)


@pytest.mark.parametrize("relations", [30, 31, 32, 33, 64, 1000, 2000])
def test_an_unknown_field_is_found_at_any_depth(relations: int) -> None:
    """DiscardUnknownFields of the codec stops at 64 messages without telling."""
    message = parse(pb.Relation, nested(relations, UNKNOWN))
    found = find_unknown(message)
    assert found is not None
    assert found.endswith("filter.input.4004")
    assert len(found) < 200


def test_an_unknown_field_in_an_entry_of_a_map_is_found() -> None:
    """The codec keeps the whole entry as unknown, where Spark would read it."""
    entry = b"\x0a\x01k\x12\x01v" + UNKNOWN
    table = parse(pb.Read.NamedTable, b"\x0a\x01t\x12" + bytes([len(entry)]) + entry)
    assert dict(table.options) == {}
    assert find_unknown(table) == "2"


# Methods


def test_methods_are_those_of_the_service() -> None:
    assert len(METHODS) >= 12
    streams = {name for name, method in METHODS.items() if method.server_streaming}
    assert streams == {"ExecutePlan", "ReattachExecute"}
    assert {name for name, method in METHODS.items() if method.client_streaming} == {"AddArtifacts"}
    execute = METHODS["ExecutePlan"]
    assert execute.path == "/spark.connect.SparkConnectService/ExecutePlan"
    assert execute.request is pb.ExecutePlanRequest


def test_every_request_has_the_fields_that_the_session_overwrites() -> None:
    for method in METHODS.values():
        assert {"session_id", "user_context"} <= set(method.request.DESCRIPTOR.fields_by_name), method.name


def test_the_private_switch_of_the_codec_is_there() -> None:
    """Without it no DataFrame with 48 chained calls could be read; one that drops it must be noticed."""
    assert callable(_message.SetAllowOversizeProtos)
