"""A sample is a statement like any other, of a session like any other."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gateway.admin.requests import BadRequest
from gateway.app import console_samples
from gateway.app.console_samples import run_sample
from gateway.console.routes import Viewer
from gateway.errors import SluiceError
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.session.identifiers import Handle
from gateway.session.operation import Batch
from gateway.session.routing.thrift import RoutedSessions
from gateway.session.service import Opened
from gateway.wire import calls
from gateway.wire.messages import encode_reply
from gateway.wire.rows import ColumnSpec, encode_rows, table_schema
from gateway.wire.tcli import TProtocolVersion, TStatus, TTypeId

ROOT = Viewer(principal=Principal(user="root", id="7"), address="10.0.0.1")
BOB = Principal(user="bob")
COLUMNS = (ColumnSpec("name", TTypeId.STRING), ColumnSpec("n", TTypeId.INT))
ROWS = [("a", 1), ("b", None), ("c", 3)]


class FakeSessions:
    """One session that answers with three rows, relayed or its own."""

    def __init__(self, *, relayed: bool = True, refused: bool = False) -> None:
        self.relayed, self.refused = relayed, refused
        self.clients: list[tuple[Principal, Client]] = []
        self.closed = 0

    async def open_session(self, principal: Principal, client: Client, **_: Any) -> Handle:
        self.clients.append((principal, client))
        return cast(Handle, "session")

    def of(self, handle: Handle) -> FakeSessions:
        return self

    async def execute(self, principal: Principal, handle: Handle, text: str, **_: Any) -> Opened:
        if self.refused:
            raise SluiceError("no")
        return Opened(handle=cast(Handle, "operation"), kind=0, has_result_set=True)

    async def schema(self, *_: Any) -> Any:
        return table_schema(COLUMNS)

    async def statement_id(self, *_: Any) -> str:
        return "statement"

    async def fetch(self, *_: Any, max_rows: int, sink: Any, **__: Any) -> Any:
        rows = ROWS[:max_rows]
        if not self.relayed:
            return Batch(0, rows, None, TProtocolVersion.V10)
        types = [column.type for column in COLUMNS]
        results = encode_rows(rows, types, TProtocolVersion.V10)
        status = TStatus(statusCode=0)
        reply = encode_reply(
            "FetchResults", 1, calls.TFetchResultsResp(status=status, hasMoreRows=False, results=results)
        )
        sink.write(len(reply).to_bytes(4, "big"))
        sink.write(reply)
        return None

    async def close_session(self, *_: Any) -> None:
        self.closed += 1


async def sample(sessions: FakeSessions, principal: Principal, rows: int = 2) -> Any:
    return await run_sample(cast(RoutedSessions, sessions), principal, ROOT, "SELECT 1", rows)


@pytest.mark.parametrize("relayed", [True, False])
async def test_rows_are_read_as_texts(relayed: bool) -> None:
    sessions = FakeSessions(relayed=relayed)
    assert await sample(sessions, BOB) == (("name", "n"), [("a", "1"), ("b", "NULL")], "statement")
    assert sessions.closed == 1


async def test_both_names_are_recorded() -> None:
    sessions = FakeSessions()
    await sample(sessions, BOB)
    await sample(sessions, ROOT.principal)
    (who, as_bob), (_, as_oneself) = sessions.clients
    assert who == BOB
    assert (as_bob.real_user, as_bob.real_id, as_bob.address, as_bob.protocol) == (
        "root",
        "7",
        "10.0.0.1",
        "console",
    )
    assert as_oneself.real_user == ""


async def test_what_is_refused_is_told_and_the_session_is_closed() -> None:
    sessions = FakeSessions(refused=True)
    with pytest.raises(BadRequest, match=r"\[SLUICE_INTERNAL\] no"):
        await sample(sessions, BOB)
    assert sessions.closed == 1


async def test_more_bytes_than_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_samples, "MAX_BYTES", 10)
    sessions = FakeSessions()
    with pytest.raises(BadRequest, match="more than 10 bytes"):
        await sample(sessions, BOB)
    assert sessions.closed == 1
