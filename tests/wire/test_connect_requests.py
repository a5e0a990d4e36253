"""Requests of Spark Connect: whatever is read of one is written again, for the principal and nobody else."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import InvalidRequest
from gateway.wire import connect_calls, connect_requests
from gateway.wire.connect import METHODS, pb, serialize
from gateway.wire.connect_requests import MalformedRequest, UngovernableRequest

SESSION, OPERATION = "11111111-2222-3333-4444-555555555555", "66666666-7777-8888-9999-000000000000"
KEY = ("bob", SESSION)
UNARY = sorted(
    name
    for name, method in METHODS.items()
    if not (method.client_streaming or method.server_streaming or name == "AnalyzePlan")
)


def pairs(*keys: str) -> list[Any]:
    return [pb.KeyValue(key=key, value="v") for key in keys] + [pb.KeyValue(key="none")]


def config(**operation: Any) -> Any:
    return pb.ConfigRequest(operation=pb.ConfigRequest.Operation(**operation))


Config, Artifacts = pb.ConfigRequest, pb.AddArtifactsRequest
Release, Asked = pb.ReleaseExecuteRequest, pb.GetStatusRequest.OperationStatusRequest
CHUNK = Artifacts.ArtifactChunk(data=b"x", crc=7)
WHOLE = Artifacts.SingleChunkArtifact(name="jars/a", data=CHUNK)
EXAMPLES: dict[str, Sequence[Any]] = {
    "AddArtifacts": [
        Artifacts(
            batch=Artifacts.Batch(artifacts=[Artifacts.SingleChunkArtifact(name="jars/a", data=CHUNK)])
        ),
        Artifacts(
            begin_chunk=Artifacts.BeginChunkedArtifact(
                name="jars/a", total_bytes=2, num_chunks=2, initial_chunk=CHUNK
            )
        ),
        Artifacts(chunk=CHUNK),
    ],
    "ArtifactStatus": [pb.ArtifactStatusesRequest(names=["a", "b"])],
    "CloneSession": [pb.CloneSessionRequest(new_session_id=OPERATION)],
    "Config": [
        config(set=Config.Set(pairs=pairs("a", "b"), silent=False)),
        config(set=Config.Set(pairs=[])),
        config(get=Config.Get(keys=["a"])),
        config(get_with_default=Config.GetWithDefault(pairs=pairs("a"))),
        config(get_option=Config.GetOption(keys=["a"])),
        config(get_all=Config.GetAll(prefix="a")),
        config(get_all=Config.GetAll()),
        config(unset=Config.Unset(keys=["a", "a"])),
        config(is_modifiable=Config.IsModifiable(keys=["a"])),
    ],
    "FetchErrorDetails": [pb.FetchErrorDetailsRequest(error_id="e")],
    "GetStatus": [
        pb.GetStatusRequest(),
        pb.GetStatusRequest(operation_status=Asked()),
        pb.GetStatusRequest(operation_status=Asked(operation_ids=[OPERATION])),
    ],
    "Interrupt": [
        pb.InterruptRequest(),
        pb.InterruptRequest(interrupt_type=pb.InterruptRequest.INTERRUPT_TYPE_ALL),
        pb.InterruptRequest(interrupt_type=pb.InterruptRequest.INTERRUPT_TYPE_TAG, operation_tag="t"),
        pb.InterruptRequest(
            interrupt_type=pb.InterruptRequest.INTERRUPT_TYPE_OPERATION_ID, operation_id=OPERATION
        ),
    ],
    "ReattachExecute": [pb.ReattachExecuteRequest(operation_id=OPERATION, last_response_id="r")],
    "ReleaseExecute": [
        Release(operation_id=OPERATION, release_all=Release.ReleaseAll()),
        Release(operation_id=OPERATION, release_until=Release.ReleaseUntil(response_id="r")),
    ],
    "ReleaseSession": [pb.ReleaseSessionRequest(allow_reconnect=True)],
}
NOT_WRITTEN = {"user_context", "extensions"}
"""The principal stands in the place of the one; the others are refused."""


def written_again(method: str, data: bytes) -> bytes:
    if method == "AddArtifacts":
        upload = connect_requests.add_artifacts(data)
        return connect_calls.add_artifacts(KEY, upload, upload.observed)
    if method == "ReattachExecute":
        again = connect_requests.reattach_execute(data)
        return connect_calls.reattach(
            KEY,
            again.operation_id,
            again.last_response_id,
            observed=again.observed,
            client_type=again.client_type,
        )
    asked = connect_requests.call(method, data)
    said = asked.observed, asked.client_type
    match asked:
        case connect_requests.ArtifactStatusesRequest():
            return connect_calls.artifact_statuses(KEY, asked.names, *said)
        case connect_requests.CloneSessionRequest():
            return connect_calls.clone_session(KEY, asked.new_session_id, *said)
        case connect_requests.ConfigRequest():
            return connect_calls.config(KEY, asked.operation, *said)
        case connect_requests.FetchErrorDetailsRequest():
            return connect_calls.fetch_error_details(KEY, asked.error_id, *said)
        case connect_requests.GetStatusRequest():
            return connect_calls.get_status(KEY, asked.operation_ids, observed=said[0], client_type=said[1])
        case connect_requests.InterruptRequest():
            return connect_calls.interrupt_as_asked(KEY, asked, asked.observed)
        case connect_requests.ReleaseExecuteRequest():
            until = asked.until if asked.release == "until" else None
            return connect_calls.release_execute(KEY, asked.operation_id, until, client_type=said[1])
        case connect_requests.ReleaseSessionRequest():
            return connect_calls.release_session(
                KEY, allow_reconnect=asked.allow_reconnect, client_type=said[1]
            )


def test_there_are_examples_of_every_field() -> None:
    assert set(EXAMPLES) == set(METHODS) - {"ExecutePlan", "AnalyzePlan"}
    for method, examples in EXAMPLES.items():
        fields = {field.name for field in METHODS[method].request.DESCRIPTOR.fields} - NOT_WRITTEN
        told = {field.name for message in examples for field, _ in message.ListFields()}
        optional = {"session_id", "client_type", "client_observed_server_side_session_id"}
        assert fields - optional == told - optional, method


@pytest.mark.parametrize("method", sorted(EXAMPLES))
def test_what_is_read_is_written_again_as_the_principal(method: str) -> None:
    for example in EXAMPLES[method]:
        message = type(example)(session_id=SESSION, client_type="c")
        message.MergeFrom(example)
        # Which session of Spark's is meant, Spark does not look at where responses are released.
        if method not in ("ReleaseSession", "ReleaseExecute"):
            message.client_observed_server_side_session_id = "s"
        message.user_context.user_id = "mallory"
        message.user_context.extensions.add().type_url = "x"
        written = type(example).FromString(written_again(method, serialize(message)))
        assert (written.user_context.user_id, written.user_context.user_name) == ("bob", "bob")
        assert not written.user_context.extensions
        written.ClearField("user_context")
        message.ClearField("user_context")
        assert written == message


@pytest.mark.parametrize("method", sorted(EXAMPLES))
def test_what_is_no_request_is_refused(method: str) -> None:
    kind = METHODS[method].request
    with pytest.raises(MalformedRequest):
        written_again(method, b"\xff\xff\xff")
    with pytest.raises(MalformedRequest, match="Handle must be an UUID"):
        written_again(method, serialize(kind(session_id="../x", **needed(method))))
    with pytest.raises(MalformedRequest, match="the client's name"):
        written_again(method, serialize(kind(session_id=SESSION, client_type="c" * 4000, **needed(method))))
    with pytest.raises(UngovernableRequest, match="does not support"):
        written_again(method, serialize(kind(session_id=SESSION, **needed(method))) + b"\xfa\x7f\x03abc")


def needed(method: str) -> dict[str, Any]:
    return {"operation_id": OPERATION} if method in ("ReattachExecute", "ReleaseExecute") else {}


@given(st.sampled_from(UNARY), st.binary(max_size=60))
def test_any_bytes_are_a_request_or_refused(method: str, data: bytes) -> None:
    with suppress(InvalidRequest):
        written_again(method, data)


# -- of which session a request is, read ahead of the rest ---------------------------------------------------


OBSERVED = "client_observed_server_side_session_id"


def fields_of(method: str, data: bytes) -> tuple[str, str]:
    """What protobuf itself reads of the session."""
    message: Any = METHODS[method].request.FromString(data)
    return message.session_id, getattr(message, OBSERVED, "")


@pytest.mark.parametrize("method", sorted(METHODS))
def test_the_session_is_read_as_protobuf_reads_it(method: str) -> None:
    kind: Any = METHODS[method].request
    message = kind(session_id=SESSION)
    if OBSERVED in kind.DESCRIPTOR.fields_by_name:
        setattr(message, OBSERVED, "of spark")
    message.user_context.user_id = SESSION
    first = kind(session_id=OPERATION)
    for data in (
        serialize(message),
        serialize(first) + serialize(message),  # the last one counts
        serialize(message) + b"\x08\x01",  # field 1 as a number is another one
    ):
        assert connect_requests.read_session(method, data) == fields_of(method, data)
    for data in (
        b"",
        serialize(kind()),
        serialize(message)[:-1] or b"\x0a",
        b"\x0a\x02\xff\xff",
        b"\x0a\xff",
    ):
        with pytest.raises(MalformedRequest):
            connect_requests.read_session(method, data)


PIECES = st.sampled_from(
    [
        b"\x0a\x24" + SESSION.encode(),
        b"\x0a\x24" + OPERATION.encode(),
        *(b"\x08\x07", b"\x42\x01x", b"\x0b", b"\x0c", b"\x0d1234", b"\x0912345678"),
        *(b"\x12\x02\x0a\x00", b"\x8a\x01\x00", b"\x0a\x80", b"\x8a\x80\x00\x01x"),
    ]
)


@given(st.sampled_from(sorted(METHODS)), st.lists(PIECES, max_size=6), st.binary(max_size=4))
def test_no_bytes_are_of_one_session_here_and_of_another_there(
    method: str, pieces: list[bytes], rest: bytes
) -> None:
    data = b"".join(pieces) + rest
    try:
        found = connect_requests.read_session(method, data)
    except MalformedRequest:
        return
    try:
        read = fields_of(method, data)
    except DecodeError:
        return  # refused later
    assert read == found, data


def test_a_clone_has_the_id_that_its_client_chose() -> None:
    request = serialize(pb.CloneSessionRequest(session_id=SESSION, new_session_id=OPERATION))
    assert connect_requests.read_clone_id(request) == OPERATION
    answer = serialize(pb.CloneSessionResponse(new_session_id=OPERATION))
    assert connect_requests.read_cloned_id(answer) == OPERATION
