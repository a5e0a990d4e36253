"""Requests as Spark gets them, those of clients and the gateway's own, and what it answers: all as values.

Every request names its user, because Spark keeps sessions and operations by (user, session).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from gateway.model.handles import SparkHandle
from gateway.wire import connect_peek as peeked
from gateway.wire.connect import parse, pb, serialize
from gateway.wire.connect_peek import ResponsePeek
from gateway.wire.connect_requests import (
    INTERRUPT_OPERATION,
    AddArtifactsRequest,
    ArtifactBatch,
    ArtifactBytes,
    ChunkedArtifact,
    ConfigOperation,
    InterruptRequest,
)

SessionKey = tuple[str, str]
"""User and session id, as Spark keys its own."""

_Status = pb.GetStatusResponse.OperationStatus
NEVER_SEEN = frozenset({_Status.OPERATION_STATE_UNSPECIFIED, _Status.OPERATION_STATE_UNKNOWN})
"""States that Spark reports for an operation that it never had."""
ENDED = frozenset(
    {
        _Status.OPERATION_STATE_SUCCEEDED,
        _Status.OPERATION_STATE_FAILED,
        _Status.OPERATION_STATE_CANCELLED,
    }
)
"""And of one that it has worked off."""


# -- requests. `observed` is the session of Spark's that is meant: it refuses when it has another one by now.


def release_session(key: SessionKey, *, allow_reconnect: bool = False, client_type: str = "") -> bytes:
    request = pb.ReleaseSessionRequest(
        session_id=key[1], user_context=_user(key), allow_reconnect=allow_reconnect
    )
    if client_type:
        request.client_type = client_type
    return serialize(request)


def clone_session(key: SessionKey, new_session_id: str, observed: str, client_type: str) -> bytes:
    request = _set_observed(pb.CloneSessionRequest(), key, observed, client_type)
    request.new_session_id = new_session_id
    return serialize(request)


def get_status(
    key: SessionKey,
    operation_ids: Sequence[str] | None = None,
    *,
    observed: str = "",
    client_type: str = "",
) -> bytes:
    """Ask for operations by their ids, without any for all; None: whether there is the session."""
    request = _set_observed(pb.GetStatusRequest(), key, observed, client_type)
    if operation_ids is not None:
        request.operation_status.SetInParent()
        request.operation_status.operation_ids.extend(operation_ids)
    return serialize(request)


def interrupt(key: SessionKey, operation_id: str, observed: str) -> bytes:
    asked = InterruptRequest(
        key[1], "", observed, kind=INTERRUPT_OPERATION, tag="", operation_id=operation_id
    )
    return interrupt_as_asked(key, asked, observed)


def interrupt_as_asked(key: SessionKey, asked: InterruptRequest, observed: str) -> bytes:
    request = _set_observed(pb.InterruptRequest(), key, observed, asked.client_type)
    request.interrupt_type = pb.InterruptRequest.InterruptType.ValueType(asked.kind)
    if asked.operation_id:
        request.operation_id = asked.operation_id
    elif asked.tag:
        request.operation_tag = asked.tag
    return serialize(request)


def release_execute(
    key: SessionKey, operation_id: str, until: str | None = None, *, client_type: str = ""
) -> bytes:
    """Free what Spark holds for an operation, up to a response; None: all of it."""
    request = _set_observed(pb.ReleaseExecuteRequest(operation_id=operation_id), key, "", client_type)
    if until is None:
        request.release_all.SetInParent()
    else:
        request.release_until.response_id = until
    return serialize(request)


def reattach(
    key: SessionKey,
    operation_id: str,
    last_response_id: str = "",
    *,
    observed: str = "",
    client_type: str = "",
) -> bytes:
    """Take an execution up after a response; without one at what Spark still has."""
    request = _set_observed(pb.ReattachExecuteRequest(operation_id=operation_id), key, observed, client_type)
    if last_response_id:
        request.last_response_id = last_response_id
    return serialize(request)


def fetch_error_details(key: SessionKey, error_id: str, observed: str, client_type: str) -> bytes:
    return serialize(
        _set_observed(pb.FetchErrorDetailsRequest(error_id=error_id), key, observed, client_type)
    )


def artifact_statuses(key: SessionKey, names: Sequence[str], observed: str, client_type: str) -> bytes:
    return serialize(_set_observed(pb.ArtifactStatusesRequest(names=names), key, observed, client_type))


def add_artifacts(key: SessionKey, request: AddArtifactsRequest, observed: str) -> bytes:
    """Write one message of an upload."""
    message = _set_observed(pb.AddArtifactsRequest(), key, observed, request.client_type)
    match request.payload:
        case ArtifactBatch(artifacts):
            message.batch.SetInParent()
            for one in artifacts:
                added = message.batch.artifacts.add(name=one.name)
                added.data.data, added.data.crc = one.data, one.crc
        case ChunkedArtifact(name, total_bytes, chunks, first):
            begin = message.begin_chunk
            begin.name, begin.total_bytes, begin.num_chunks = name, total_bytes, chunks
            begin.initial_chunk.data, begin.initial_chunk.crc = first.data, first.crc
        case ArtifactBytes(data, crc):
            message.chunk.data, message.chunk.crc = data, crc
        case None:
            pass
    return serialize(message)


def config(key: SessionKey, operation: ConfigOperation, observed: str, client_type: str) -> bytes:
    """Write a call that sets, unsets or reads settings."""
    request = _set_observed(pb.ConfigRequest(), key, observed, client_type)
    asked = request.operation
    match operation.kind:
        case "set":
            asked.set.pairs.extend(pair(*one) for one in operation.pairs)
            asked.set.SetInParent()
            if operation.silent is not None:
                asked.set.silent = operation.silent
        case "get_with_default":
            asked.get_with_default.SetInParent()
            asked.get_with_default.pairs.extend(pair(*one) for one in operation.pairs)
        case "get_all":
            asked.get_all.SetInParent()
            if operation.prefix is not None:
                asked.get_all.prefix = operation.prefix
        case "get" | "get_option" | "unset" | "is_modifiable" as kind:
            getattr(asked, kind).SetInParent()
            getattr(asked, kind).keys.extend(operation.keys)
        case "nothing":
            pass
    return serialize(request)


def pair(key: str, value: str | None) -> pb.KeyValue:
    return pb.KeyValue(key=key) if value is None else pb.KeyValue(key=key, value=value)


def sql_plan(text: str) -> bytes:
    """Write a statement as the plan that a client would send for it."""
    plan = pb.Plan()
    plan.command.sql_command.input.sql.query = text
    return serialize(plan)


# -- answers. All but the first raise ProtobufError.


def operation_states(answer: bytes) -> list[int]:
    """Return what a `GetStatusResponse` says of its operations."""
    return [status.state for status in parse(pb.GetStatusResponse, answer).operation_statuses]


def read_interrupted_ids(answer: bytes) -> list[str]:
    """Return the operations that an `InterruptResponse` says to have been told to stop."""
    return list(parse(pb.InterruptResponse, answer).interrupted_ids)


def read_cloned_session(answer: bytes) -> str:
    """Return Spark's own id of the session that a `CloneSessionResponse` tells of."""
    return parse(pb.CloneSessionResponse, answer).new_server_side_session_id


def read_checkpoints(answer: bytes) -> frozenset[str]:
    """Return the checkpoints in a directory of which an `AnalyzePlanResponse` lists the files."""
    files = parse(pb.AnalyzePlanResponse, answer).input_files.files
    return frozenset(file.rsplit("/", 2)[-2] for file in files if file.count("/") > 1)


def rows_of_command(response: bytes) -> bytes | None:
    """Return the rows, an Arrow stream, with which an `ExecutePlanResponse` answers a SQL command."""
    relation = parse(pb.ExecutePlanResponse, response).sql_command_result.relation
    return relation.local_relation.data if relation.WhichOneof("rel_type") == "local_relation" else None


def handles_in(seen: ResponsePeek, data: bytes) -> list[SparkHandle]:
    """Return what a response of `GIVING_IDS` gives an id to."""
    match seen.case:
        case peeked.CHECKPOINT_COMMAND_RESULT:
            result = parse(pb.ExecutePlanResponse, data).checkpoint_command_result
            return [SparkHandle("relation", result.relation.relation_id)]
        case peeked.WRITE_STREAM_OPERATION_START_RESULT:
            query = parse(pb.ExecutePlanResponse, data).write_stream_operation_start_result.query_id
            return [SparkHandle("query", query.id), SparkHandle("query", query.run_id)]
        case peeked.STREAMING_QUERY_MANAGER_COMMAND_RESULT:
            managed = parse(pb.ExecutePlanResponse, data).streaming_query_manager_command_result
            queries = [*managed.active.active_queries]
            if managed.WhichOneof("result_type") == "query":
                queries.append(managed.query)
            return [SparkHandle("query", part) for q in queries for part in (q.id.id, q.id.run_id)]
        case _:
            return []


_Asking = TypeVar(
    "_Asking",
    bound=pb.AddArtifactsRequest
    | pb.ArtifactStatusesRequest
    | pb.CloneSessionRequest
    | pb.ConfigRequest
    | pb.FetchErrorDetailsRequest
    | pb.GetStatusRequest
    | pb.InterruptRequest
    | pb.ReattachExecuteRequest
    | pb.ReleaseExecuteRequest,
)


def _set_observed(request: _Asking, key: SessionKey, observed: str, client_type: str) -> _Asking:
    request.session_id = key[1]
    request.user_context.CopyFrom(_user(key))
    if observed:
        request.client_observed_server_side_session_id = observed
    if client_type:
        request.client_type = client_type
    return request


def _user(key: SessionKey) -> pb.UserContext:
    return pb.UserContext(user_id=key[0], user_name=key[0])
