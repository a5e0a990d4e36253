"""Requests of Spark Connect that the gateway makes itself, and what it takes from answers: all as values.

Every request names its user, because Spark keeps sessions and operations by (user, session).
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.errors import BackendUnavailable
from gateway.wire import connect_peek as peeked
from gateway.wire.connect import parse, pb, serialize
from gateway.wire.connect_peek import ResponsePeek, peek
from gateway.wire.protobuf import ProtobufError

SessionKey = tuple[str, str]
"""User and session id, as Spark keys its own."""

_Status = pb.GetStatusResponse.OperationStatus
NEVER_SEEN = frozenset({_Status.OPERATION_STATE_UNSPECIFIED, _Status.OPERATION_STATE_UNKNOWN})
"""What Spark says of an operation that it never had."""
ENDED = frozenset(
    {
        _Status.OPERATION_STATE_SUCCEEDED,
        _Status.OPERATION_STATE_FAILED,
        _Status.OPERATION_STATE_CANCELLED,
    }
)
"""And of one that it has worked off."""


# -- requests. `observed` is the session of Spark's that is meant: it refuses when it has another one by now.


def release_session(key: SessionKey, *, allow_reconnect: bool = False) -> bytes:
    return serialize(
        pb.ReleaseSessionRequest(session_id=key[1], user_context=_user(key), allow_reconnect=allow_reconnect)
    )


def get_status(key: SessionKey, operation_ids: Sequence[str] = ()) -> bytes:
    """Ask for operations by their ids; without any, whether there is the session."""
    request = pb.GetStatusRequest(session_id=key[1], user_context=_user(key))
    if operation_ids:
        request.operation_status.operation_ids.extend(operation_ids)
    return serialize(request)


def interrupt(key: SessionKey, operation_id: str, observed: str) -> bytes:
    return serialize(
        pb.InterruptRequest(
            session_id=key[1],
            user_context=_user(key),
            interrupt_type=pb.InterruptRequest.INTERRUPT_TYPE_OPERATION_ID,
            operation_id=operation_id,
            client_observed_server_side_session_id=observed,
        )
    )


def release_execute(key: SessionKey, operation_id: str) -> bytes:
    """Free all that Spark holds for an operation."""
    request = pb.ReleaseExecuteRequest(session_id=key[1], user_context=_user(key), operation_id=operation_id)
    request.release_all.SetInParent()
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
    request = pb.ReattachExecuteRequest(session_id=key[1], user_context=_user(key), operation_id=operation_id)
    if last_response_id:
        request.last_response_id = last_response_id
    if observed:
        request.client_observed_server_side_session_id = observed
    if client_type:
        request.client_type = client_type
    return serialize(request)


def sql_plan(text: str) -> bytes:
    """Write a statement as the plan that a client would send for it."""
    plan = pb.Plan()
    plan.command.sql_command.input.sql.query = text
    return serialize(plan)


def result_complete(session_id: str, server_session: str, operation_id: str, response_id: str) -> bytes:
    """Write the response with which Spark ends an answer."""
    response = pb.ExecutePlanResponse(
        session_id=session_id,
        server_side_session_id=server_session,
        operation_id=operation_id,
        response_id=response_id,
    )
    response.result_complete.SetInParent()
    return serialize(response)


# -- answers. All but the first raise ProtobufError.


def look_at(response: bytes) -> ResponsePeek:
    """Say what a response of a stream is. Raises BackendUnavailable for bytes that are none."""
    try:
        return peek(response)
    except ProtobufError:
        raise BackendUnavailable("Spark answered with bytes that are no response") from None


def operation_states(answer: bytes) -> list[int]:
    """Return what a `GetStatusResponse` says of its operations."""
    return [status.state for status in parse(pb.GetStatusResponse, answer).operation_statuses]


def interrupted_ids(answer: bytes) -> list[str]:
    """Return the operations that an `InterruptResponse` says to have been told to stop."""
    return list(parse(pb.InterruptResponse, answer).interrupted_ids)


def cloned_session(answer: bytes) -> str:
    """Return Spark's own id of the session that a `CloneSessionResponse` tells of."""
    return parse(pb.CloneSessionResponse, answer).new_server_side_session_id


def listed_files(answer: bytes) -> list[str]:
    """Return the files that an `AnalyzePlanResponse` lists."""
    return list(parse(pb.AnalyzePlanResponse, answer).input_files.files)


def rows_of_command(response: bytes) -> bytes | None:
    """Return the rows, an Arrow stream, with which an `ExecutePlanResponse` answers a SQL command."""
    relation = parse(pb.ExecutePlanResponse, response).sql_command_result.relation
    return relation.local_relation.data if relation.WhichOneof("rel_type") == "local_relation" else None


def handles_in(seen: ResponsePeek, data: bytes) -> list[str]:
    """Return what a response gives an id to: `relation:ID` and `query:ID`."""
    match seen.case:
        case peeked.CHECKPOINT_COMMAND_RESULT:
            result = parse(pb.ExecutePlanResponse, data).checkpoint_command_result
            return [f"relation:{result.relation.relation_id}"]
        case peeked.WRITE_STREAM_OPERATION_START_RESULT:
            query = parse(pb.ExecutePlanResponse, data).write_stream_operation_start_result.query_id
            return [f"query:{query.id}", f"query:{query.run_id}"]
        case peeked.STREAMING_QUERY_MANAGER_COMMAND_RESULT:
            managed = parse(pb.ExecutePlanResponse, data).streaming_query_manager_command_result
            queries = [*managed.active.active_queries]
            if managed.WhichOneof("result_type") == "query":
                queries.append(managed.query)
            return [f"query:{part}" for q in queries for part in (q.id.id, q.id.run_id)]
        case _:
            return []


def _user(key: SessionKey) -> pb.UserContext:
    return pb.UserContext(user_id=key[0], user_name=key[0])
