"""What Spark says of its sessions and operations, and what it is asked to end."""

from __future__ import annotations

from gateway.errors import BackendUnavailable, RpcError
from gateway.session.ports import PlanBackend
from gateway.wire import connect_calls
from gateway.wire.connect_calls import SessionKey
from gateway.wire.connect_errors import ends_session
from gateway.wire.protobuf import ProtobufError


async def is_in_spark(backend: PlanBackend, key: SessionKey) -> bool:
    """Whether Spark has a session already; asking does not make it. Raises BackendUnavailable.

    Of a Spark that cannot say it is taken for granted.
    """
    try:
        await backend.call("GetStatus", connect_calls.get_status(key))
    except RpcError as fault:
        return not ends_session(fault)
    return True


async def has_run(backend: PlanBackend, key: SessionKey, operation_id: str) -> bool:
    """Whether Spark has seen an operation that it no longer has, or cannot say."""
    try:
        states = await _states(backend, key, operation_id)
    except (RpcError, BackendUnavailable, ProtobufError):
        return True
    return any(state not in connect_calls.NEVER_SEEN for state in states)


async def has_ended(backend: PlanBackend, key: SessionKey, operation_id: str) -> bool:
    """Whether Spark has worked an operation off. Raises as `call` does, and `ProtobufError`."""
    return any(state in connect_calls.ENDED for state in await _states(backend, key, operation_id))


async def _states(backend: PlanBackend, key: SessionKey, operation_id: str) -> list[int]:
    answer = await backend.call("GetStatus", connect_calls.get_status(key, [operation_id]))
    return connect_calls.operation_states(answer)
