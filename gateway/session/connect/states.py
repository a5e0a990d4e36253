"""What Spark says of how an operation stands."""

from __future__ import annotations

from gateway.errors import BackendUnavailable
from gateway.session.connect.requests import own
from gateway.session.ports import ConnectBackend, RpcError
from gateway.wire.connect import ProtobufError, parse, pb, serialize

_Status = pb.GetStatusResponse.OperationStatus
_NEVER_SEEN = (_Status.OPERATION_STATE_UNSPECIFIED, _Status.OPERATION_STATE_UNKNOWN)
_ENDED = (
    _Status.OPERATION_STATE_SUCCEEDED,
    _Status.OPERATION_STATE_FAILED,
    _Status.OPERATION_STATE_CANCELLED,
)


async def has_run(backend: ConnectBackend, user: str, session_id: str, operation_id: str) -> bool:
    """Whether Spark has seen an operation that it no longer has, or cannot say."""
    try:
        states = await _states(backend, user, session_id, operation_id)
    except (RpcError, BackendUnavailable, ProtobufError):
        return True
    return any(state not in _NEVER_SEEN for state in states)


async def has_ended(backend: ConnectBackend, user: str, session_id: str, operation_id: str) -> bool:
    """Whether Spark has worked an operation off. Raises as `call` does, and `ProtobufError`."""
    return any(s in _ENDED for s in await _states(backend, user, session_id, operation_id))


async def _states(backend: ConnectBackend, user: str, session_id: str, operation_id: str) -> list[int]:
    asked = pb.GetStatusRequest(session_id=session_id)
    own(asked, user)
    asked.operation_status.operation_ids.append(operation_id)
    answer = parse(pb.GetStatusResponse, await backend.call("GetStatus", serialize(asked)))
    return [status.state for status in answer.operation_statuses]
