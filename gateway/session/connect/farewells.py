"""What becomes of executions whose clients have left, to come back or not: the gateway reads on for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import structlog

from gateway.errors import RpcError, SluiceError
from gateway.session.connect.endings import Endings
from gateway.session.connect.operation import ConnectOperation
from gateway.session.connect.window import AHEAD_BYTES
from gateway.session.dependencies import Dependencies
from gateway.session.ports import PlanBackend
from gateway.session.states import Event
from gateway.wire import connect_calls
from gateway.wire import connect_peek as peeked
from gateway.wire.connect_peek import ResponsePeek

_log = structlog.get_logger(__name__)

Learn = Callable[[ConnectOperation, ResponsePeek, bytes], None]
"""Remembers what Spark's session keeps under an id that a response gives."""


class Farewells:
    """Reads executions that nobody reads. Spark gives the stream to whoever asked for it last."""

    def __init__(
        self, dependencies: Dependencies, backend: PlanBackend, endings: Endings, *, learn: Learn
    ) -> None:
        self._endings = endings
        self._backend = backend
        self._limits = dependencies.limits
        self._learn = learn

    async def watch(self, operation: ConnectOperation) -> None:
        """Read an execution that its client has left, until Spark has looked up its names.

        Spark keeps what is read here for the client, and gives the stream to the client when it comes back.
        """
        if operation.buffer is not None or operation.attached or not operation.reattachable:
            return
        operation.end_farewell()
        await self._read_on(operation, to_names=True)
        self.begin(operation)

    def begin(self, operation: ConnectOperation) -> None:
        """Begin to learn by ourselves how an execution ends that its client may come back to, or never."""
        if not (operation.ended.is_set() or operation.attached):
            operation.end_farewell()
            operation.farewell = self._endings.spawn(self._see_off(operation))

    async def _see_off(self, operation: ConnectOperation) -> None:
        """Read on where the client left, as long as what comes is small and no rows.

        INVARIANT (one closing event): PySpark leaves its last command before Spark says that it is complete,
        when its interpreter ends without `stop()`. Rows that nobody took wait for their client, `detached_s`.
        """
        more = True
        while more:
            await asyncio.sleep(self._limits.farewell_s)
            more = await self._read_on(operation, to_names=False)

    async def _read_on(self, operation: ConnectOperation, *, to_names: bool) -> bool:
        """Read an execution after the last response that was relayed; whether there may be more to read."""
        session = operation.session
        request = connect_calls.reattach(
            session.key,
            operation.operation_id,
            operation.last_response_id,
            observed=session.server_session,
        )
        # Within this Spark still has everything that a client who comes back may ask for.
        left = AHEAD_BYTES - operation.relayed_bytes
        try:
            async with aclosing(self._backend.reattach(request)) as source:
                async for data in source:
                    seen = connect_calls.look_at(data)
                    known = seen.analysed
                    if known:
                        operation.looked_up()
                        self._learn(operation, seen, data)
                        if seen.case == peeked.RESULT_COMPLETE:
                            await self._endings.conclude(operation, Event.FINISH)
                    left -= len(data)
                    if (known and to_names) or operation.ended.is_set() or seen.rows or left < 0:
                        return False
                return True
        except RpcError as fault:
            await self._endings.failed(operation, fault)
        except SluiceError as fault:
            _log.info("operation_not_watched", reason=fault.code)
        return False
