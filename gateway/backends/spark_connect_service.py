"""Statements that the gateway wrote itself, over Spark Connect, under the gateway's own name.

No text of a user ever comes here: the catalog's look-ups are fixed templates around quoted names. Texts of
policies come here to be described, and are not run (`app/text_analysis.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing

import pyarrow

from gateway.backends.spark_connect import SparkConnectBackend
from gateway.backends.spark_thrift_service import LOOKING_SETTINGS, OF_FUNCTIONS
from gateway.errors import BackendUnavailable, RpcError
from gateway.session.ports import BackendError, ask_as_gateway
from gateway.wire import connect_calls
from gateway.wire.connect import pb, serialize
from gateway.wire.connect_requests import ConfigOperation
from gateway.wire.rows import Cell

_SQLSTATE = re.compile(r"SQLSTATE: ([0-9A-Z]{5})")


class SparkConnectService:
    """One session of Spark that queries share; a lost one is replaced by the next query."""

    def __init__(
        self,
        backend: SparkConnectBackend,
        *,
        user: str = "sluice",
        at_once: int = 4,
        max_rows: int = 100_000,
        timeout_s: float = 300.0,
        session_catalogs: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """`session_catalogs`: as `SparkThriftService` has them."""
        self._session_catalogs = session_catalogs
        self._known_catalogs: Mapping[str, int] = {}
        self._backend = backend
        self._user = user
        self._slots = asyncio.Semaphore(at_once)
        self._max_rows = max_rows
        self._timeout_s = timeout_s
        self._session = self._server_session = ""
        self._opening = asyncio.Lock()

    async def query(self, sql: str, before: str = "", after: str = "") -> Sequence[tuple[Cell, ...]]:
        """Run one reading statement and return its rows; `before` and `after` it others in its session.

        Raises BackendError when Spark refuses it, BackendUnavailable when Spark is gone, does not answer in
        time, or the answer is longer than `max_rows`.
        """
        async with self._slots:
            try:
                async with asyncio.timeout(self._timeout_s):
                    if sql.startswith(OF_FUNCTIONS):
                        return await self._in_a_new_session(sql)
                    if before:
                        await self._rows(before)
                    try:
                        return await self._rows(sql)
                    finally:
                        if after:
                            await self._rows(after)
            except TimeoutError:
                raise BackendUnavailable("Spark's catalog did not answer in time") from None

    async def close(self) -> None:
        """Let Spark forget the session."""
        if self._session:
            await self._release(self._session)

    async def _open_session(self) -> str:
        """Return the id of a session in which texts are read as the parser reads them."""
        async with self._opening:
            if self._session and self._known_catalogs != self._session_catalogs():
                # A query that still runs in it goes on: Spark forgets the session by itself, later.
                self._session = ""
            if not self._session:
                self._known_catalogs = dict(self._session_catalogs())
                self._session, self._server_session = await self._open()
            return self._session

    async def _open(self) -> tuple[str, str]:
        """Return the id of a new session, and of the server's."""
        session = str(uuid.uuid4())
        with ask_as_gateway():
            opened = await self._backend.own.open_session(session, self._user)
        looking = ConfigOperation(kind="set", pairs=tuple(LOOKING_SETTINGS.items()))
        request = connect_calls.config((self._user, session), looking, opened.id, "")
        await self._backend.own.call("Config", request)
        return session, opened.id

    async def _in_a_new_session(self, sql: str) -> list[tuple[Cell, ...]]:
        session, server = await self._open()
        try:
            return await self._rows(sql, (session, server))
        finally:
            await self._release(session)

    async def _release(self, session: str) -> None:
        # Spark forgets it by itself, later.
        with contextlib.suppress(BackendUnavailable, RpcError):
            await self._backend.own.call(
                "ReleaseSession", connect_calls.release_session((self._user, session))
            )

    async def _rows(self, sql: str, within: tuple[str, str] | None = None) -> list[tuple[Cell, ...]]:
        rows: list[tuple[Cell, ...]] = []
        try:
            session, server = within or (await self._open_session(), self._server_session)
            request = pb.ExecutePlanRequest(session_id=session)
            request.user_context.user_id = request.user_context.user_name = self._user
            # A Spark that was started anew would make a session of this id, and read in it as it likes.
            request.client_observed_server_side_session_id = server
            if self._backend.is_sluice:
                # As clients send it: what is a command it takes as one alone.
                request.plan.command.sql_command.input.sql.query = sql
            else:
                request.plan.root.sql.query = sql
            asked: pb.ExecutePlanRequest | None = request
            while asked is not None:
                following: pb.ExecutePlanRequest | None = None
                async with aclosing(self._backend.ask(serialize(asked))) as responses:
                    async for data in responses:
                        response = pb.ExecutePlanResponse.FromString(data)
                        rows += _decode(response)
                        if len(rows) > self._max_rows:
                            raise BackendUnavailable(
                                f"a response from Spark's catalog has more than {self._max_rows} rows"
                            )
                        following = following or _find_query(request, response)
                asked = following
        except RpcError as error:
            if error.message.startswith("[INVALID_HANDLE.SESSION_"):
                self._session = ""
                raise BackendUnavailable("Spark has ended the session for catalog look-ups") from None
            found = _SQLSTATE.search(error.message)
            raise BackendError(message=error.message, sqlstate=found[1] if found else None) from None
        return rows


def _find_query(
    request: pb.ExecutePlanRequest, response: pb.ExecutePlanResponse
) -> pb.ExecutePlanRequest | None:
    """Return what gives the rows of a text that is a query; a command's are in the response."""
    if not response.HasField("sql_command_result"):
        return None
    relation = response.sql_command_result.relation
    if relation.HasField("local_relation"):
        return None
    following = pb.ExecutePlanRequest()
    following.CopyFrom(request)
    following.plan.root.CopyFrom(relation)
    return following


def _decode(response: pb.ExecutePlanResponse) -> list[tuple[Cell, ...]]:
    if response.HasField("arrow_batch"):
        data = response.arrow_batch.data
    else:
        data = response.sql_command_result.relation.local_relation.data
    if not data:
        return []
    table = pyarrow.ipc.open_stream(data).read_all()
    columns = [[_cell(value) for value in column.to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True))


def _cell(value: object) -> Cell:
    """Return a value as Thrift would have told it."""
    match value:
        case None | bool() | int() | float() | str() | bytes():
            return value
        case _:
            return str(value)
