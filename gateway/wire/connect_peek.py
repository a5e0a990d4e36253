"""The first tags of an ExecutePlanResponse tell what it is; its batch of rows is never decoded.

Every response of a stream passes here: a few microseconds, whatever its size, and no protobuf classes.
"""

from __future__ import annotations

from typing import NamedTuple

from gateway.errors import BackendUnavailable
from gateway.wire.protobuf import BYTES, VARINT, ProtobufError, build_malformed_error, read_varint, skip

NONE = 0
ARROW_BATCH = 2
SQL_COMMAND_RESULT = 5
WRITE_STREAM_OPERATION_START_RESULT = 8
STREAMING_QUERY_COMMAND_RESULT = 9
GET_RESOURCES_COMMAND_RESULT = 10
STREAMING_QUERY_MANAGER_COMMAND_RESULT = 11
RESULT_COMPLETE = 14
STREAMING_QUERY_LISTENER_EVENTS_RESULT = 16
CREATE_RESOURCE_PROFILE_COMMAND_RESULT = 17
EXECUTION_PROGRESS = 18
CHECKPOINT_COMMAND_RESULT = 19
ML_COMMAND_RESULT = 20
PIPELINE_EVENT_RESULT = 21
PIPELINE_COMMAND_RESULT = 22
PIPELINE_QUERY_FUNCTION_EXECUTION_SIGNAL = 23
EXTENSION = 999

GIVING_IDS = frozenset(
    {CHECKPOINT_COMMAND_RESULT, WRITE_STREAM_OPERATION_START_RESULT, STREAMING_QUERY_MANAGER_COMMAND_RESULT}
)
"""What gives something an id by which plans may name it."""
CASES = frozenset(
    {
        ARROW_BATCH,
        SQL_COMMAND_RESULT,
        WRITE_STREAM_OPERATION_START_RESULT,
        STREAMING_QUERY_COMMAND_RESULT,
        GET_RESOURCES_COMMAND_RESULT,
        STREAMING_QUERY_MANAGER_COMMAND_RESULT,
        RESULT_COMPLETE,
        STREAMING_QUERY_LISTENER_EVENTS_RESULT,
        CREATE_RESOURCE_PROFILE_COMMAND_RESULT,
        EXECUTION_PROGRESS,
        CHECKPOINT_COMMAND_RESULT,
        ML_COMMAND_RESULT,
        PIPELINE_EVENT_RESULT,
        PIPELINE_COMMAND_RESULT,
        PIPELINE_QUERY_FUNCTION_EXECUTION_SIGNAL,
        EXTENSION,
    }
)
"""The fields of `ExecutePlanResponse.response_type`; 0 stands for a response that has none of them."""

_METRICS, _OBSERVED_METRICS, _SCHEMA = 4, 6, 7
_OPERATION_ID, _RESPONSE_ID, _SERVER_SESSION = 12, 13, 15
_PLAIN = frozenset({1, _METRICS, _OBSERVED_METRICS, _SCHEMA, _OPERATION_ID, _RESPONSE_ID, _SERVER_SESSION})
_MAX_FIELDS = 10_000
"""Observed metrics come as often as a plan observes; a response has no other field more than once."""


_UNANALYSED = frozenset({NONE, EXECUTION_PROGRESS})
"""Responses that may come before Spark has looked up the plan's names."""


class ResponsePeek(NamedTuple):
    """Kind and ids of one response of a stream."""

    case: int
    """Field number of its `response_type`; 0 when it has none, as responses with metrics or a schema only."""
    rows: int
    """Rows of its Arrow batch. Chunks of one batch all tell the rows of the batch: count the first's."""
    operation_id: str
    response_id: str
    server_session: str
    """The server's id of the session; another one means that Spark has lost it."""
    first_chunk: bool = True
    """Whether its batch is whole or the first chunk of one."""
    schema: bool = False
    """Whether it carries the schema of the result."""
    metrics: bool = False
    """Whether it carries metrics or observed metrics."""
    unknown: bool = False
    """Whether it has fields that the pinned Spark does not."""

    @property
    def analysed(self) -> bool:
        """Whether Spark has looked up all names of the operation that it answers so."""
        return self.schema or self.case not in _UNANALYSED


def with_operation_id(data: bytes, old: str, new: str) -> bytes:
    """Return a response with another id of its operation, as long as the one that it has.

    `old` was drawn at random, and stands nowhere else.
    """
    tag = bytes((_OPERATION_ID << 3 | BYTES, len(old)))
    return data.replace(tag + old.encode(), tag + new.encode())


def peek(data: bytes) -> ResponsePeek:
    """Say what the response is. Raises ProtobufError when the bytes cannot be an ExecutePlanResponse."""
    case = rows = at = fields = 0
    first_chunk, schema, metrics, unknown = True, False, False, False
    texts: dict[int, str] = {}
    end = len(data)
    while at < end:
        fields += 1
        if fields > _MAX_FIELDS:
            raise ProtobufError("TOO_LARGE", f"a response with more than {_MAX_FIELDS} fields")
        tag, at = read_varint(data, at, end)
        number = tag >> 3
        if number == 0:
            raise build_malformed_error()
        if tag & 7 != BYTES:
            at = skip(data, at, end, tag & 7)
            unknown = True
            continue
        length, at = read_varint(data, at, end)
        stop = at + length
        if stop > end:
            raise build_malformed_error()
        if number in CASES:
            # The last one counts where a oneof comes twice.
            case = number
            rows, first_chunk = _batch(data, at, stop) if number == ARROW_BATCH else (0, True)
        elif number in (_OPERATION_ID, _RESPONSE_ID, _SERVER_SESSION):
            texts[number] = _text(data[at:stop])
        elif number == _SCHEMA:
            schema = True
        elif number in (_METRICS, _OBSERVED_METRICS):
            metrics = True
        elif number not in _PLAIN:
            unknown = True
        at = stop
    return ResponsePeek(
        case,
        rows,
        texts.get(_OPERATION_ID, ""),
        texts.get(_RESPONSE_ID, ""),
        texts.get(_SERVER_SESSION, ""),
        first_chunk,
        schema,
        metrics,
        unknown,
    )


def _batch(data: bytes, at: int, end: int) -> tuple[int, bool]:
    """Return an ArrowBatch's row count and whether its chunk, if it is one, is the first."""
    rows = chunk = 0
    while at < end:
        tag, at = read_varint(data, at, end)
        if tag == 1 << 3 | VARINT:
            rows, at = read_varint(data, at, end)
        elif tag == 4 << 3 | VARINT:
            chunk, at = read_varint(data, at, end)
        else:
            at = skip(data, at, end, tag & 7)
    if rows >= 1 << 63:
        raise build_malformed_error()
    return rows, chunk == 0


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise build_malformed_error() from None


def look_at(response: bytes) -> ResponsePeek:
    """Say what a response of a stream is. Raises BackendUnavailable for bytes that are none."""
    try:
        return peek(response)
    except ProtobufError:
        raise BackendUnavailable("Spark's response is not valid protobuf") from None
