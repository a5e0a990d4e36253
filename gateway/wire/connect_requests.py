"""Requests of Spark Connect's clients, read and checked: what a session may act on, as values.

Nothing that a client says of its user gets into a value, and no request goes on to Spark as it came: it is
written anew of these values, by `connect_calls`, with the name of the principal in it. INVARIANT (bound to
the principal): Spark keeps sessions, operations and artifacts by (user, session), so that with the user's
name from the login nobody reaches anything of somebody else.

Every reading raises MalformedRequest or UngovernableRequest for what may not go on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from gateway.errors import InvalidRequest
from gateway.wire.connect import Message, descriptor_of, find_unknown, parse, pb, serialize
from gateway.wire.connect_errors import spark_error
from gateway.wire.protobuf import BYTES, ProtobufError, read_varint, skip

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_OBSERVED = "client_observed_server_side_session_id"
_SESSION_FIELDS: dict[str, tuple[int, int]] = {
    name: (1, known.number if (known := descriptor_of(cls).fields_by_name.get(_OBSERVED)) else 0)
    for name, cls in {
        "AddArtifacts": pb.AddArtifactsRequest,
        "AnalyzePlan": pb.AnalyzePlanRequest,
        "ArtifactStatus": pb.ArtifactStatusesRequest,
        "CloneSession": pb.CloneSessionRequest,
        "Config": pb.ConfigRequest,
        "ExecutePlan": pb.ExecutePlanRequest,
        "FetchErrorDetails": pb.FetchErrorDetailsRequest,
        "GetStatus": pb.GetStatusRequest,
        "Interrupt": pb.InterruptRequest,
        "ReattachExecute": pb.ReattachExecuteRequest,
        "ReleaseExecute": pb.ReleaseExecuteRequest,
        "ReleaseSession": pb.ReleaseSessionRequest,
    }.items()
}
"""Fields of each method's request: the session's id, and Spark's session that the client knows; 0: none."""
_ANALYSES = frozenset(
    field.name for field in pb.AnalyzePlanRequest.DESCRIPTOR.oneofs_by_name["analyze"].fields
)
MAX_CLIENT_TYPE_CHARS = 2048
"""Characters of what a client calls itself: pyspark's own bound."""
INTERRUPT_ALL = pb.InterruptRequest.INTERRUPT_TYPE_ALL
INTERRUPT_TAG = pb.InterruptRequest.INTERRUPT_TYPE_TAG
INTERRUPT_OPERATION = pb.InterruptRequest.INTERRUPT_TYPE_OPERATION_ID
"""Kinds of interrupts; Spark rejects any other kind as unknown."""


class MalformedRequest(InvalidRequest):
    """The bytes are no request of the method, or one beyond the limits."""

    code = "MALFORMED"
    sqlstate = "22023"


class UngovernableRequest(InvalidRequest):
    """The request holds something that nothing here can judge."""

    code = "NOT_GOVERNABLE"
    sqlstate = "0A000"


@dataclass(frozen=True, slots=True)
class ConnectRequest:
    """Fields of every request: its session, its client, and which of Spark's sessions the client believes to
    talk to, empty when it does not say."""

    session_id: str
    client_type: str
    observed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutePlanRequest(ConnectRequest):
    """An execution: its plan, serialized, and how its responses are wanted."""

    plan: bytes = field(repr=False)
    operation_id: str | None
    """None: the client leaves it to the server."""
    tags: tuple[str, ...]
    reattachable: bool
    chunked: bool
    chunk_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzePlanRequest(ConnectRequest):
    """An analysis: an `AnalyzePlanRequest` with what is asked for and nothing else, serialized."""

    question: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReattachExecuteRequest(ConnectRequest):
    """Resumes an execution after a response; empty: with what Spark still has."""

    operation_id: str
    last_response_id: str


@dataclass(frozen=True, slots=True)
class ArtifactBytes:
    """One file whole, or one chunk of one: its bytes and their CRC, which Spark compares."""

    data: bytes = field(repr=False)
    crc: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True)
class ArtifactBatch:
    """Files that come whole."""

    artifacts: tuple[ArtifactBytes, ...]


@dataclass(frozen=True, slots=True)
class ChunkedArtifact:
    """The beginning of a file that comes in chunks."""

    name: str
    total_bytes: int
    chunks: int
    first: ArtifactBytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AddArtifactsRequest(ConnectRequest):
    """One message of an upload; None: with nothing in it. Mere bytes go on with the file that began."""

    payload: ArtifactBatch | ChunkedArtifact | ArtifactBytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigOperation:
    """One operation of a `Config` call: set, unset or get."""

    kind: Literal[
        "set", "get", "get_with_default", "get_option", "get_all", "unset", "is_modifiable", "nothing"
    ]
    pairs: tuple[tuple[str, str | None], ...] = ()
    """Each key with its value or default, where it has one."""
    silent: bool | None = None
    """For `set`: a key that cannot be set gives a warning instead of an error."""
    prefix: str | None = None
    """For `get_all`: only keys with this prefix, which Spark removes from the keys in its answer."""

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self.pairs]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRequest(ConnectRequest):
    operation: ConfigOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactStatusesRequest(ConnectRequest):
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneSessionRequest(ConnectRequest):
    new_session_id: str
    """Empty: the server finds one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseSessionRequest(ConnectRequest):
    allow_reconnect: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseExecuteRequest(ConnectRequest):
    """Frees the responses up to one, or everything of an operation."""

    operation_id: str
    release: Literal["all", "until", "nothing"]
    until: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptRequest(ConnectRequest):
    kind: int
    """INTERRUPT_ALL, INTERRUPT_TAG, INTERRUPT_OPERATION, or what Spark does not know either."""
    tag: str
    operation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetStatusRequest(ConnectRequest):
    operation_ids: tuple[str, ...] | None
    """None: whether there is the session; without any: all of its operations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchErrorDetailsRequest(ConnectRequest):
    error_id: str


CallRequest = (
    ArtifactStatusesRequest
    | CloneSessionRequest
    | ConfigRequest
    | FetchErrorDetailsRequest
    | GetStatusRequest
    | InterruptRequest
    | ReleaseExecuteRequest
    | ReleaseSessionRequest
)
"""Requests without a plan that are one message."""


USER_CONTEXT = 2 << 3 | BYTES
"""Tag of the user of every request."""


def is_uuid(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


def operation_id_of(text: str) -> str:
    """Return an operation's id in the spelling that Spark keeps it by. Raises MalformedRequest."""
    if not is_uuid(text):
        raise _no_handle(text)
    return text.lower()


def read_session(method: str, data: bytes) -> tuple[str, str]:
    """Return the id of a request's session, and of Spark's session that its client knows, without reading the
    rest: a plan may have megabytes. Raises MalformedRequest."""
    fields = _SESSION_FIELDS[method]
    found = dict.fromkeys(fields, b"")
    at, end = 0, len(data)
    try:
        while at < end:
            tag, at = read_varint(data, at, end)
            begin, at = at, skip(data, at, end, tag & 7)
            if tag & 7 == BYTES and tag >> 3 in found:
                length, begin = read_varint(data, begin, end)
                # As protobuf has it, the last one counts.
                found[tag >> 3] = data[begin : begin + length]
        texts = [found[field].decode() if field else "" for field in fields]
    except (ProtobufError, UnicodeDecodeError):
        raise MalformedRequest("the bytes are not a protobuf message of the expected type") from None
    if not is_uuid(texts[0]):
        raise _no_handle(texts[0])
    return texts[0], texts[1]


def read_user(data: bytes) -> str:
    """Return the user of a request of the gateway's own writing, without reading the rest."""
    at, end, user = 0, len(data), ""
    while at < end:
        tag, at = read_varint(data, at, end)
        begin, at = at, skip(data, at, end, tag & 7)
        if tag == USER_CONTEXT:
            length, begin = read_varint(data, begin, end)
            user = pb.UserContext.FromString(data[begin : begin + length]).user_id
    return user


def read_clone_id(data: bytes) -> str:
    """Return the id that the client has chosen for a clone of a session; empty: it leaves that to Spark."""
    return _parse(pb.CloneSessionRequest, data).new_session_id


def read_cloned_id(answer: bytes) -> str:
    """Return the id of the clone that Spark has made."""
    return parse(pb.CloneSessionResponse, answer).new_session_id


# -- requests with plans, and uploads ------------------------------------------------------------------------


def execute_plan(data: bytes) -> ExecutePlanRequest:
    message = _parse(pb.ExecutePlanRequest, data)
    if not message.HasField("plan"):
        raise MalformedRequest("the request has no plan")
    reattachable, chunked, chunk_bytes = _options(message)
    return ExecutePlanRequest(
        *_session_of(message),
        plan=_serialize(message.plan),
        operation_id=operation_id_of(message.operation_id) if message.HasField("operation_id") else None,
        tags=tuple(message.tags),
        reattachable=reattachable,
        chunked=chunked,
        chunk_bytes=chunk_bytes,
    )


def analyze_plan(data: bytes) -> AnalyzePlanRequest:
    message = _parse(pb.AnalyzePlanRequest, data)
    if message.WhichOneof("analyze") is None:
        raise MalformedRequest("the request has no analysis")
    session = _session_of(message)
    bare: Message = message
    for known, _ in bare.ListFields():
        if known.name not in _ANALYSES:
            bare.ClearField(known.name)
    return AnalyzePlanRequest(*session, question=_serialize(bare))


def reattach_execute(data: bytes) -> ReattachExecuteRequest:
    message = _parse(pb.ReattachExecuteRequest, data)
    return ReattachExecuteRequest(
        *_session_of(message),
        operation_id=operation_id_of(message.operation_id),
        last_response_id=message.last_response_id,
    )


def add_artifacts(data: bytes) -> AddArtifactsRequest:
    message = _parse(pb.AddArtifactsRequest, data)
    payload: ArtifactBatch | ChunkedArtifact | ArtifactBytes | None = None
    match message.WhichOneof("payload"):
        case "batch":
            payload = ArtifactBatch(
                tuple(ArtifactBytes(one.data.data, one.data.crc, one.name) for one in message.batch.artifacts)
            )
        case "begin_chunk":
            begin = message.begin_chunk
            first = ArtifactBytes(begin.initial_chunk.data, begin.initial_chunk.crc)
            payload = ChunkedArtifact(begin.name, begin.total_bytes, begin.num_chunks, first)
        case "chunk":
            payload = ArtifactBytes(message.chunk.data, message.chunk.crc)
    return AddArtifactsRequest(*_session_of(message), payload=payload)


def _options(message: pb.ExecutePlanRequest) -> tuple[bool, bool, int | None]:
    reattachable = chunked = False
    chunk_bytes: int | None = None
    for option in message.request_options:
        match option.WhichOneof("request_option"):
            case "reattach_options":
                reattachable = option.reattach_options.reattachable
            case "result_chunking_options":
                chunking = option.result_chunking_options
                chunked = chunking.allow_arrow_batch_chunking
                if chunking.HasField("preferred_arrow_chunk_size"):
                    chunk_bytes = chunking.preferred_arrow_chunk_size
            case other:
                raise UngovernableRequest(f"the request option `{other or 'none'}` is not supported")
    return reattachable, chunked, chunk_bytes


# -- other calls ---------------------------------------------------------------------------------------------


def call(method: str, data: bytes) -> CallRequest:
    """Read the request of a unary method without a plan. Raises InvalidRequest for a method that is none."""
    match method:
        case "ArtifactStatus":
            asked = _parse(pb.ArtifactStatusesRequest, data)
            return ArtifactStatusesRequest(*_session_of(asked), names=tuple(asked.names))
        case "CloneSession":
            clone = _parse(pb.CloneSessionRequest, data)
            return CloneSessionRequest(*_session_of(clone), new_session_id=clone.new_session_id)
        case "Config":
            config = _parse(pb.ConfigRequest, data)
            return ConfigRequest(*_session_of(config), operation=_config_operation(config.operation))
        case "FetchErrorDetails":
            fetch = _parse(pb.FetchErrorDetailsRequest, data)
            return FetchErrorDetailsRequest(*_session_of(fetch), error_id=fetch.error_id)
        case "GetStatus":
            return _get_status(_parse(pb.GetStatusRequest, data))
        case "Interrupt":
            stop = _parse(pb.InterruptRequest, data)
            named = operation_id_of(stop.operation_id) if stop.HasField("operation_id") else ""
            return InterruptRequest(
                *_session_of(stop), kind=stop.interrupt_type, tag=stop.operation_tag, operation_id=named
            )
        case "ReleaseExecute":
            return _release_execute(_parse(pb.ReleaseExecuteRequest, data))
        case "ReleaseSession":
            end = _parse(pb.ReleaseSessionRequest, data)
            return ReleaseSessionRequest(
                end.session_id, end.client_type, "", allow_reconnect=end.allow_reconnect
            )
    raise InvalidRequest(f"the method `{method}` is not supported")


def _config_operation(operation: pb.ConfigRequest.Operation) -> ConfigOperation:
    match operation.WhichOneof("op_type"):
        case "set":
            asked = operation.set
            silent = asked.silent if asked.HasField("silent") else None
            return ConfigOperation(kind="set", pairs=pairs_of(asked.pairs), silent=silent)
        case "get_with_default":
            return ConfigOperation(kind="get_with_default", pairs=pairs_of(operation.get_with_default.pairs))
        case "get_all":
            prefix = operation.get_all.prefix if operation.get_all.HasField("prefix") else None
            return ConfigOperation(kind="get_all", prefix=prefix)
        case "get" | "get_option" | "unset" | "is_modifiable" as kind:
            keys = getattr(operation, kind).keys
            return ConfigOperation(kind=kind, pairs=tuple((str(key), None) for key in keys))
        case _:
            return ConfigOperation(kind="nothing")


def pairs_of(pairs: Iterable[pb.KeyValue]) -> tuple[tuple[str, str | None], ...]:
    """Return each key with its value, None where it has none."""
    return tuple((pair.key, pair.value if pair.HasField("value") else None) for pair in pairs)


def _get_status(message: pb.GetStatusRequest) -> GetStatusRequest:
    if message.extensions or message.operation_status.extensions:
        raise UngovernableRequest("request extensions are not supported")
    asked: tuple[str, ...] | None = None
    if message.HasField("operation_status"):
        asked = tuple(message.operation_status.operation_ids)
        for operation_id in asked:
            operation_id_of(operation_id)
    return GetStatusRequest(*_session_of(message), operation_ids=asked)


def _release_execute(message: pb.ReleaseExecuteRequest) -> ReleaseExecuteRequest:
    release: Literal["all", "until", "nothing"] = "nothing"
    if message.HasField("release_all"):
        release = "all"
    elif message.HasField("release_until"):
        release = "until"
    return ReleaseExecuteRequest(
        *_session_of(message),
        operation_id=operation_id_of(message.operation_id),
        release=release,
        until=message.release_until.response_id,
    )


# -- all -----------------------------------------------------------------------------------------------------

_Observing = (
    pb.AddArtifactsRequest
    | pb.AnalyzePlanRequest
    | pb.ArtifactStatusesRequest
    | pb.CloneSessionRequest
    | pb.ConfigRequest
    | pb.ExecutePlanRequest
    | pb.FetchErrorDetailsRequest
    | pb.GetStatusRequest
    | pb.InterruptRequest
    | pb.ReattachExecuteRequest
    | pb.ReleaseExecuteRequest
)
_M = TypeVar("_M", bound=_Observing | pb.ReleaseSessionRequest)


def _parse(kind: type[_M], data: bytes) -> _M:
    try:
        message = parse(kind, data)
    except ProtobufError as error:
        raise MalformedRequest(error.why) from None
    # The walk asks about plans; every field of the rest is asked about here.
    if (unknown := find_unknown(message, plans=False)) is not None:
        raise UngovernableRequest(
            f"the request has a field `{unknown}` that this gateway does not support; use a client of the "
            "gateway's version, or an older one"
        )
    if not is_uuid(message.session_id):
        raise _no_handle(message.session_id)
    if len(message.client_type) > MAX_CLIENT_TYPE_CHARS:
        raise MalformedRequest(f"the client's name has more than {MAX_CLIENT_TYPE_CHARS} characters")
    return message


def _session_of(message: _Observing) -> tuple[str, str, str]:
    return message.session_id, message.client_type, message.client_observed_server_side_session_id


def _serialize(message: Message) -> bytes:
    try:
        return serialize(message)
    except ProtobufError as error:
        raise MalformedRequest(error.why) from None


def _no_handle(text: str) -> MalformedRequest:
    return MalformedRequest(spark_error("INVALID_HANDLE.FORMAT", text[:64]).message)
