"""Handles that another gateway made: what needs no rows is done there, for their principal alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import asyncpg
import pytest

from gateway.app.gateway_requests import MAX_QUESTIONS_OF_USER, GatewayRequests, HandleOwners
from gateway.database.migrate import migrate
from gateway.errors import BackendUnavailable, InvalidHandle, LimitExceeded, SessionElsewhere
from gateway.model.principal import Principal
from gateway.session.failures import StatementFailed
from gateway.session.handles_elsewhere import OperationReport, read_error, write_error
from gateway.session.identifiers import TAG_BYTES, Handle, new_handle, tag_of
from gateway.session.open_sessions import OpenSessions
from gateway.wire.tcli import TOperationState
from tests.database.test_gateway_requests import answering
from tests.session.fakes import ALICE, BOB, CLIENT, Sink, World

NEW_BOB = Principal(user="bob", id="another", groups=BOB.groups)


class Two:
    """Two gateways; what one asks the other goes as JSON."""

    def __init__(self) -> None:
        self.here = World(gateway="here", ask_owner=self._ask)
        self.there = World(gateway="there")
        self.there.backend.slow = "SLOW"
        self.asked: list[Mapping[str, Any]] = []
        self.silent = False

    async def _ask(self, tag: bytes, about: Mapping[str, Any]) -> Mapping[str, Any] | None:
        self.asked.append(about)
        if self.silent:
            raise BackendUnavailable("no answer")
        if tag != tag_of("there"):
            return None
        answer = await self.there.sessions.answer_other(json.loads(json.dumps(about)))
        told: Mapping[str, Any] = json.loads(json.dumps(answer))
        return told

    async def opened(self) -> Handle:
        return await self.there.sessions.open_session(BOB, CLIENT, protocol_version=9)

    async def running(self, session: Handle, text: str = "SLOW") -> tuple[Handle, int]:
        opened = await self.there.sessions.execute(BOB, session, text, run_async=True)
        return opened.handle, opened.kind


async def test_a_handle_says_which_gateway_made_it() -> None:
    two = Two()
    session = await two.opened()
    assert session.guid.startswith(tag_of("there"))
    assert tag_of("here") != tag_of("there")
    made = {new_handle(tag_of("there")) for _ in range(20)}
    assert len({one.guid[TAG_BYTES:] for one in made} | {one.secret for one in made}) == 40


async def test_status_cancel_and_close_are_done_where_the_session_is() -> None:
    two = Two()
    session = await two.opened()
    handle, kind = await two.running(session)
    (operation,) = two.there.backend.sessions[0].operations
    await two.here.sessions.cancel(BOB, handle, kind)
    assert operation.cancelled
    found = await two.here.sessions.status(BOB, handle, kind)
    assert found.state == TOperationState.CANCELED
    told = await two.there.sessions.status(BOB, handle, kind)
    assert found.error is not None
    assert told.error is not None
    assert (found.error.text, found.error.sqlstate) == (told.error.text, told.error.sqlstate)
    await two.here.sessions.close_operation(BOB, handle, kind)
    with pytest.raises(InvalidHandle):
        await two.there.sessions.status(BOB, handle, kind)
    await two.here.sessions.close_session(BOB, session)
    assert two.there.sessions.list_open() == []


async def test_what_needs_the_session_says_which_gateway_has_it() -> None:
    two = Two()
    session = await two.opened()
    handle, kind = await two.running(session, "SELECT 1")
    sessions = two.here.sessions
    calls = [
        sessions.execute(BOB, session, "SELECT 1", run_async=True),
        sessions.require_session(BOB, session),
        sessions.schema(BOB, handle, kind),
        sessions.statement_id(BOB, handle, kind),
        sessions.fetch(BOB, handle, kind, orientation=0, max_rows=9, fetch_type=0, seqid=1, sink=Sink()),
    ]
    for call in calls:
        with pytest.raises(SessionElsewhere, match="through the gateway `there`"):
            await call
    assert two.here.ledger.of("decided") == []


async def test_nobody_reaches_what_is_another_principals() -> None:
    two = Two()
    session = await two.opened()
    handle, kind = await two.running(session)
    sessions = two.here.sessions
    for stranger in (ALICE, NEW_BOB):
        for call in (
            sessions.cancel(stranger, handle, kind),
            sessions.status(stranger, handle, kind),
            sessions.close_operation(stranger, handle, kind),
            sessions.close_session(stranger, session),
            sessions.execute(stranger, session, "SELECT 1", run_async=True),
            sessions.schema(stranger, handle, kind),
        ):
            with pytest.raises(InvalidHandle) as caught:
                await call
            assert "there" not in caught.value.message
    assert [e.body["action"] for e in two.there.ledger.of("security")] == ["foreign_handle"] * 12
    assert len(two.there.sessions.list_open()) == 1
    assert not two.there.backend.sessions[0].operations[0].cancelled


async def test_a_handle_without_its_secret_or_of_another_kind_is_unknown() -> None:
    two = Two()
    session = await two.opened()
    handle, kind = await two.running(session)
    for call in (
        two.here.sessions.cancel(BOB, handle._replace(secret=bytes(16)), kind),
        two.here.sessions.cancel(BOB, handle, kind + 1),
        two.here.sessions.close_session(BOB, session._replace(secret=bytes(16))),
        two.here.sessions.status(BOB, session, kind),
        two.here.sessions.close_session(BOB, handle),
    ):
        with pytest.raises(InvalidHandle):
            await call
    assert two.there.ledger.of("security") == []
    assert all(handle.secret.hex() not in str(about) for about in two.asked)
    assert not two.there.backend.sessions[0].operations[0].cancelled


async def test_only_the_gateway_that_made_a_handle_is_asked_about_it() -> None:
    two = Two()
    with pytest.raises(InvalidHandle):
        await two.here.sessions.close_session(BOB, new_handle(tag_of("here")))
    assert two.asked == []
    with pytest.raises(InvalidHandle):
        await two.here.sessions.close_session(BOB, new_handle(tag_of("gone")))
    two.silent = True
    with pytest.raises(BackendUnavailable):
        await two.here.sessions.close_session(BOB, new_handle(tag_of("there")))


def test_errors_are_told_as_the_client_may_read_them() -> None:
    failed = StatementFailed("[X] no", "42000", 7, "id", trace="trace", details=("*a", "b"))
    told = read_error(json.loads(json.dumps(write_error(failed))))
    assert isinstance(told, StatementFailed)
    assert (told.text, told.sqlstate, told.error_code, told.trace, told.details) == (
        *("[X] no", "42000", 7, "trace", ("*a", "b")),
    )
    unavailable = read_error(write_error(BackendUnavailable("gone")))
    assert (unavailable.text, unavailable.sqlstate) == ("[SLUICE_BACKEND_UNAVAILABLE] gone", "08006")
    report = OperationReport(state=5, has_result_set=True)
    assert OperationReport.read(report.write()) == report


async def test_a_gateway_asks_through_the_database_and_only_whoever_lives(database: str) -> None:
    connection = await asyncpg.connect(database)
    await migrate(connection)
    await connection.close()
    two, every = Two(), OpenSessions()
    every.add(two.there.sessions)
    requests = GatewayRequests(every, users=None)  # type: ignore[arg-type]  # nobody asks for users
    live = ["there"]
    here = World(gateway="here", ask_owner=HandleOwners(database, lambda: live).ask)
    session = await two.opened()
    with pytest.raises(InvalidHandle):
        await here.sessions.close_session(BOB, session)
    async with answering(database, "there", requests.answer):
        with pytest.raises(InvalidHandle):
            await here.sessions.close_session(ALICE, session)
        with pytest.raises(SessionElsewhere):
            await here.sessions.require_session(BOB, session)
        await here.sessions.close_session(BOB, session)
        assert two.there.sessions.list_open() == []
        many = [here.sessions.close_session(BOB, session) for _ in range(MAX_QUESTIONS_OF_USER + 1)]
        raised = await asyncio.gather(*many, return_exceptions=True)
        assert [type(one) for one in raised] == [InvalidHandle] * MAX_QUESTIONS_OF_USER + [LimitExceeded]
        live.clear()
        with pytest.raises(InvalidHandle):
            await here.sessions.close_session(BOB, session)
