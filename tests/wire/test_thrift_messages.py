"""Calls and replies: what goes in comes out, and anything else is MalformedMessage, quickly."""

from __future__ import annotations

import contextlib
import resource
import struct
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer

from gateway.wire import MalformedMessage, calls, messages, tcli
from gateway.wire.messages import CallFailed, ExceptionKind, MessageKind
from gateway.wire.thrift import Struct, decode, encode
from tests.effort import tries

HANDLE = tcli.THandleIdentifier(guid=bytes(range(16)), secret=b"\xff" * 16)
SESSION = tcli.TSessionHandle(sessionId=HANDLE)
OPERATION = tcli.TOperationHandle(
    operationId=HANDLE, operationType=0, hasResultSet=True, modifiedRowCount=-1.0
)
STATUS = tcli.TStatus(
    statusCode=3, infoMessages=["*a", "b é"], sqlState="42000", errorCode=7, errorMessage="x"
)


def sample(kind: type[Struct]) -> Struct:
    """Return a struct with every field of every call's struct set to something."""
    values: dict[str, Any] = {}
    for spec in kind.thrift_spec:
        if spec is not None:
            values[spec[2]] = _sample_value(spec[1], spec[3])
    return kind(**values)


def _sample_value(ttype: int, arguments: Any) -> Any:
    if ttype == 12:
        return sample(arguments[0])
    if ttype == 15:
        return [_sample_value(arguments[0], arguments[1])] * 2
    if ttype == 13:
        return {"k": _sample_value(arguments[2], arguments[3])}
    if ttype == 11:
        return b"\x00raw" if arguments == "BINARY" else "text é \U0001f600"
    return {2: True, 3: -5, 4: 1.5, 6: -300, 8: 70_000, 10: 1 << 40}[ttype]


REQUESTS = {m: messages.encode_call(m, 7, sample(q)) for m, (q, _) in calls.METHODS.items()}
REPLIES = {m: messages.encode_reply(m, -2, sample(r)) for m, (_, r) in calls.METHODS.items()}


@pytest.mark.parametrize("method", calls.METHODS)
def test_a_request_comes_out_as_it_went_in(method: str) -> None:
    data = REQUESTS[method]
    header = messages.decode_message(data)
    assert (header.kind, header.method, header.seqid) == (MessageKind.CALL, method, 7)
    assert messages.decode_request(data) == sample(calls.METHODS[method][0])


@pytest.mark.parametrize("method", calls.METHODS)
def test_a_reply_comes_out_as_it_went_in(method: str) -> None:
    kind = calls.METHODS[method][1]
    assert messages.decode_message(REPLIES[method]).seqid == -2
    assert messages.decode_reply(REPLIES[method], kind) == sample(kind)


@pytest.mark.parametrize("method", calls.METHODS)
def test_impylas_generated_code_reads_our_calls_and_replies(method: str) -> None:
    """A codec that others generated from the IDL finds the same fields, as far as its version has them."""
    from impala._thrift_gen.TCLIService import TCLIService

    if not hasattr(TCLIService, f"{method}_args"):
        assert method in ("GetPrimaryKeys", "GetCrossReference", "SetClientInfo", "GetQueryId")
        return
    for data, theirs, ours, kind in (
        (REQUESTS[method], f"{method}_args", "req", calls.METHODS[method][0]),
        (REPLIES[method], f"{method}_result", "success", calls.METHODS[method][1]),
    ):
        protocol = TBinaryProtocol(TMemoryBuffer(data))
        name, _, _ = protocol.readMessageBegin()
        assert name == method
        value = getattr(TCLIService, theirs)()
        value.read(protocol)
        _same(getattr(value, ours), sample(kind))


def _same(theirs: Any, ours: Any) -> None:
    if isinstance(ours, Struct):
        for spec in type(theirs).thrift_spec:
            if spec is not None:
                _same(getattr(theirs, spec[2]), getattr(ours, spec[2]))
    elif isinstance(ours, list):
        assert len(theirs) == len(ours)
        for a, b in zip(theirs, ours, strict=True):
            _same(a, b)
    elif isinstance(ours, dict):
        assert theirs.keys() == ours.keys()
        for key, value in ours.items():
            _same(theirs[key], value)
    elif isinstance(ours, bytes) and isinstance(theirs, str):
        assert theirs == ours.decode()  # text in rows by cell: they say string, we say bytes
    else:
        assert theirs == ours


@pytest.mark.parametrize("method", calls.METHODS)
@pytest.mark.parametrize("side", ["request", "reply"])
def test_every_truncation_is_malformed(method: str, side: str) -> None:
    data = (REQUESTS if side == "request" else REPLIES)[method]
    for end in range(len(data)):
        with pytest.raises(MalformedMessage):
            _read(data[:end], side, method)
    with pytest.raises(MalformedMessage):
        _read(data + b"\0", side, method)


def _read(data: bytes, side: str, method: str) -> Struct:
    if side == "request":
        return messages.decode_request(data)
    return messages.decode_reply(data, calls.METHODS[method][1])


def _accept_or_malformed(data: bytes, side: str, method: str) -> None:
    with contextlib.suppress(MalformedMessage, CallFailed):
        _read(data, side, method)


@settings(max_examples=tries(400), deadline=1000)
@given(st.sampled_from(sorted(calls.METHODS)), st.sampled_from(["request", "reply"]), st.data())
def test_flipped_bytes_are_accepted_or_malformed(method: str, side: str, data: st.DataObject) -> None:
    valid = bytearray((REQUESTS if side == "request" else REPLIES)[method])
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(valid) - 1))
        valid[at] = data.draw(st.integers(0, 255))
    _accept_or_malformed(bytes(valid), side, method)


@settings(max_examples=tries(300), deadline=1000)
@given(st.sampled_from(sorted(calls.METHODS)), st.sampled_from(["request", "reply"]), st.binary(max_size=400))
def test_random_bodies_are_accepted_or_malformed(method: str, side: str, body: bytes) -> None:
    valid = (REQUESTS if side == "request" else REPLIES)[method]
    head = valid[: messages.decode_message(valid).body_offset]
    _accept_or_malformed(head + body, side, method)


_HOSTILE_LENGTHS = [0x7FFF_FFFF, 0xFFFF_FFFF, 0x8000_0000, 0x0FFF_FFFF, 20_000]


@pytest.mark.parametrize("length", _HOSTILE_LENGTHS)
@pytest.mark.parametrize(
    "prefix",
    [
        b"\x0c\x00\x01\x0b\x00\x02",  # req { 2: string …
        b"\x0c\x00\x01\x0d\x00\x04\x0b\x0b",  # req { 4: map<string, string> …
        b"\x0c\x00\x01\x0d\x00\x04\x00\x00",  # … of a type that does not exist
        b"\x0c\x00\x01\x0f\x00\x63\x0c",  # req { 99: list<struct> …
        b"\x0c\x00\x01\x0f\x00\x63\x02",  # req { 99: list<bool> …
        b"\x0c\x00\x01\x0e\x00\x63\x00",  # req { 99: set<nothing> …
    ],
)
def test_a_hostile_length_costs_neither_time_nor_memory(prefix: bytes, length: int) -> None:
    head = REQUESTS["OpenSession"][:23]
    assert messages.decode_message(head).body_offset == 23
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(MalformedMessage):
        messages.decode_request(head + prefix + struct.pack(">I", length) + b"\0" * 10_000)
    assert time.process_time() - started < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # kilobytes


@pytest.mark.parametrize("nest", [b"\x0c\x00\x63", b"\x0f\x00\x63\x0f\x00\x00\x00\x01"])
def test_deep_nesting_is_malformed_and_harms_nobody(nest: bytes) -> None:
    head = REQUESTS["OpenSession"][:23] + b"\x0c\x00\x01"
    for depth in (10, 100, 10_000, 1_000_000):
        with pytest.raises(MalformedMessage):
            messages.decode_request(head + nest * depth)


def test_a_request_may_not_bring_more_settings_than_a_session_has() -> None:
    request = calls.TOpenSessionReq(configuration={f"k{i}": "v" for i in range(10_001)})
    with pytest.raises(MalformedMessage):
        messages.decode_request(messages.encode_call("OpenSession", 1, request))


def test_text_that_is_not_utf8_is_refused_and_not_changed_in_silence() -> None:
    request = calls.TExecuteStatementReq(sessionHandle=SESSION, statement="SELECT 'AAAA'")
    data = messages.encode_call("ExecuteStatement", 1, request)
    for bad in (b"A\xffAA", b"\xed\xa0\x80A", b"\xc0\x80AA", b"AAA\xc3"):
        with pytest.raises(MalformedMessage, match="statement is not UTF-8"):
            messages.decode_request(data.replace(b"AAAA", bad))


def test_a_replacement_character_that_the_user_typed_is_text_like_any_other() -> None:
    request = calls.TExecuteStatementReq(sessionHandle=SESSION, statement="SELECT '\ufffd'")
    assert messages.decode_request(messages.encode_call("ExecuteStatement", 1, request)) == request


def test_bad_utf8_in_a_setting_is_refused() -> None:
    data = messages.encode_call("OpenSession", 1, calls.TOpenSessionReq(configuration={"kkkk": "vvvv"}))
    for bad in (b"kkkk", b"vvvv"):
        with pytest.raises(MalformedMessage, match="configuration is not UTF-8"):
            messages.decode_request(data.replace(bad, b"k\xffkk"))


def test_invalid_utf8_in_a_reply_is_read() -> None:
    """Spark's text is relayed to people, so a bad byte in a message must not lose the message."""
    data = messages.encode_reply("CloseSession", 1, calls.TCloseSessionResp(status=STATUS))
    reply = messages.decode_reply(data.replace(b"42000", b"42\xff00"), calls.TCloseSessionResp)
    assert reply.status.sqlState == "42\ufffd00"


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("CloseSession", calls.TCloseSessionReq()),  # type: ignore[call-arg]
        ("CloseSession", calls.TCloseSessionReq(sessionHandle=tcli.TSessionHandle())),  # type: ignore[call-arg]
        ("ExecuteStatement", calls.TExecuteStatementReq(sessionHandle=SESSION)),  # type: ignore[call-arg]
        ("GetFunctions", calls.TGetFunctionsReq(sessionHandle=SESSION)),  # type: ignore[call-arg]
    ],
)
def test_a_missing_required_field_is_malformed_at_every_depth(method: str, request_: Struct) -> None:
    with pytest.raises(MalformedMessage, match="without"):
        messages.decode_request(messages.encode_call(method, 1, request_))


def test_a_field_of_another_type_counts_as_missing() -> None:
    head = REQUESTS["CloseSession"][: messages.decode_message(REQUESTS["CloseSession"]).body_offset]
    with pytest.raises(MalformedMessage, match="without"):
        messages.decode_request(head + b"\x0c\x00\x01" + b"\x08\x00\x01\x00\x00\x00\x01" + b"\x00\x00")


def test_unknown_fields_are_skipped() -> None:
    body = encode(STATUS)[:-1] + b"\x0c\x00\x63\x0b\x00\x01\x00\x00\x00\x01x\x00" + b"\x00"
    assert decode(tcli.TStatus, body) == STATUS


def test_absent_defaults_are_the_idls() -> None:
    assert decode(calls.TOpenSessionReq, b"\0").client_protocol == tcli.TProtocolVersion.V10
    fetch = encode(calls.TFetchResultsReq(operationHandle=OPERATION, maxRows=1))
    assert decode(calls.TFetchResultsReq, fetch).orientation == 0


def test_an_exception_is_told_apart_from_a_reply() -> None:
    data = messages.encode_exception(
        "GetLog", 9, ExceptionKind.UNKNOWN_METHOD, "Invalid method name: 'GetLog'"
    )
    assert messages.decode_message(data) == messages.Message(MessageKind.EXCEPTION, "GetLog", 9, 18)
    with pytest.raises(CallFailed, match="Invalid method name") as caught:
        messages.decode_reply(data, calls.TFetchResultsResp)
    assert caught.value.kind == ExceptionKind.UNKNOWN_METHOD


def test_a_reply_to_something_else_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        messages.decode_reply(REPLIES["CloseSession"], calls.TGetInfoResp)
    with pytest.raises(MalformedMessage):
        messages.decode_reply(REQUESTS["CloseSession"], calls.TCloseSessionResp)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x01\x00\x01",
        b"\x80\x01\x00\x09\x00\x00\x00\x01x\x00\x00\x00\x01",  # a kind that does not exist
        b"\x80\x02\x00\x01\x00\x00\x00\x01x\x00\x00\x00\x01",  # a version that does not exist
        b"\x00\x00\x00\x01x\x01\x00\x00\x00\x01",  # the old header
        b"\x80\x01\x00\x01\x00\x00\x00\x81" + b"x" * 200,  # a long name
        b"\x80\x01\x00\x01\xff\xff\xff\xffx\x00\x00\x00\x01",
        b"\x80\x01\x00\x01\x00\x00\x00\x01\xff\x00\x00\x00\x01",  # a name that is not ASCII
        b"POST /cliservice HTTP/1.1\r\n",
    ],
)
def test_a_header_that_is_not_one_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        messages.decode_message(data)
    with pytest.raises(MalformedMessage):
        messages.decode_request(data)


def test_an_unknown_method_has_a_header_that_can_be_answered() -> None:
    data = REQUESTS["GetInfo"].replace(b"GetInfo", b"GetFoo!")
    assert messages.decode_message(data).method == "GetFoo!"
    with pytest.raises(MalformedMessage, match="unknown method"):
        messages.decode_request(data)


def test_a_repr_tells_no_secrets() -> None:
    request = calls.TOpenSessionReq(username="u", password="hunter2", configuration={"k": "hunter2"})
    assert (
        repr(request)
        == "TOpenSessionReq(client_protocol=9, username=<str>, password=<str>, configuration=<dict>)"
    )
    assert "\\xff" not in repr(OPERATION)


def test_text_that_cannot_be_sent_is_a_value_error() -> None:
    status = tcli.TStatus(statusCode=3, errorMessage="\ud800")
    with pytest.raises(ValueError):
        messages.encode_reply("CloseSession", 1, calls.TCloseSessionResp(status=status))


IDENTIFIERS = st.binary(min_size=16, max_size=16)
NUMBERS = st.integers(-(1 << 31), (1 << 31) - 1)
OF_OPERATIONS = ("GetOperationStatus", "GetResultSetMetadata", "CloseOperation", "CancelOperation")


@given(
    guid=IDENTIFIERS,
    secret=IDENTIFIERS,
    kind=NUMBERS,
    rows=st.booleans(),
    orientation=NUMBERS,
    most=st.integers(-(1 << 63), (1 << 63) - 1),
    fetch_type=st.none() | st.integers(-(1 << 15), (1 << 15) - 1),
    behind=st.binary(max_size=2),
)
@settings(max_examples=tries(200), deadline=None)
def test_what_is_read_at_once_is_what_the_codec_reads(
    guid: bytes,
    secret: bytes,
    kind: int,
    rows: bool,
    orientation: int,
    most: int,
    fetch_type: int | None,
    behind: bytes,
) -> None:
    operation = tcli.TOperationHandle(
        operationId=tcli.THandleIdentifier(guid=guid, secret=secret), operationType=kind, hasResultSet=rows
    )
    requests: list[tuple[str, Struct]] = [
        (method, calls.METHODS[method][0](operationHandle=operation)) for method in OF_OPERATIONS
    ]
    fetch = calls.TFetchResultsReq(
        operationHandle=operation, orientation=orientation, maxRows=most, fetchType=fetch_type
    )
    for method, request in (*requests, ("FetchResults", fetch)):
        data = messages.encode_call(method, 7, request)
        header = messages.decode_message(data)
        usual = messages._read_usual(data, header)
        assert usual is not None
        read = decode(messages._ARGUMENTS[method], data, header.body_offset)
        assert usual == read.req  # type: ignore[attr-defined]
        assert messages.decode_request(data) == request
        if behind:
            assert messages._read_usual(data + behind, header) is None
            with pytest.raises(MalformedMessage):
                messages.decode_request(data + behind)


def test_a_request_that_is_written_otherwise_is_read_by_the_codec() -> None:
    for kind in (calls.TFetchResultsReq, calls.TCloseOperationReq):
        request = sample(kind)  # with a count of rows that were changed
        method = next(name for name, (one, _) in calls.METHODS.items() if one is kind)
        data = messages.encode_call(method, 7, request)
        assert messages._read_usual(data, messages.decode_message(data)) is None
        assert messages.decode_request(data) == request


def test_an_encoded_reply_is_the_same_bytes() -> None:
    reply = calls.TCloseOperationResp(status=STATUS)
    written = messages.EncodedReply(encode(reply))
    assert messages.encode_reply("CloseOperation", 3, written) == messages.encode_reply(
        "CloseOperation", 3, reply
    )


def test_the_same_message_at_another_time_differs_by_its_number_alone() -> None:
    reply = calls.TCloseOperationResp(status=STATUS)
    one, other = (messages.encode_reply("CloseOperation", number, reply) for number in (3, 70_000))
    assert one != other
    assert messages.without_seqid(one) == messages.without_seqid(other)
    for strange in (b"", b"\xff" * 3, b"\xff" * 40):
        messages.without_seqid(strange)
