"""The Thrift backend against a scripted HiveServer2: what it sends, what it makes of the answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.backends.spark_thrift import (
    METASTORE_PROBE,
    POOL_IS_FULL,
    SparkThriftBackend,
)
from gateway.backends.spark_thrift_connection import SparkAddress
from gateway.backends.spark_thrift_options import SparkThriftOptions, session_configuration
from gateway.backends.spark_thrift_service import SparkThriftService
from gateway.errors import BackendMismatch, BackendUnavailable, InvalidRequest
from gateway.model.principal import Principal
from gateway.model.reading_settings import READING_SETTINGS
from gateway.model.secret_values import SecretValues
from gateway.model.statement import Cleared, SessionContext, Statement
from gateway.session.ports import Backend, BackendError, BackendFull, BackendSession
from gateway.wire import calls, messages
from gateway.wire.rows import decode_rows
from gateway.wire.tcli import TFetchOrientation, TOperationState, TTypeId
from tests.backends.fake_hive_server import LOGIN, Answer, FakeHiveServer, Received, Refuse
from tests.speed import patience

ALICE = Principal(user="alice")
NUMBERS = Answer.of([("n", TTypeId.BIGINT)], [(n,) for n in range(2500)])


def cleared(text: str, forwarded: str | None = None) -> Cleared:
    return Cleared(
        statement=Statement(text=text, principal=ALICE, context=SessionContext()),
        forwarded=forwarded or text,
        plan_class="Project",
        decisions=(),
        scans=(),
        snapshot_version="policies=1 catalog=1",
    )


class Sink:
    """Collects what is relayed; `drain` waits until `free` is set."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.free = asyncio.Event()
        self.free.set()

    @property
    def slow(self) -> bool:
        return not self.free.is_set()

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None:
        await self.free.wait()


def backend_for(server: FakeHiveServer, **options: Any) -> SparkThriftBackend:
    timeouts = {
        **dict.fromkeys(
            ("call_timeout_s", "urgent_timeout_s", "fetch_timeout_s", "connect_timeout_s"), patience(5)
        ),
        **options,
    }
    password, grace = timeouts.pop("password", ""), timeouts.pop("stop_grace_s", 0.05)
    service = timeouts.pop("service", "")
    secrets, catalogs = timeouts.pop("secrets", ()), timeouts.pop("catalogs", {})
    return SparkThriftBackend(
        SparkThriftOptions(
            address=SparkAddress(host=server.host, port=server.port, **timeouts),
            service=service,
            password=str(password),
            secrets=secrets,
            catalogs=lambda: catalogs,
            stop_grace_s=grace,
        )
    )


@asynccontextmanager
async def session_on(
    server: FakeHiveServer, *, version: int = 9, **options: Any
) -> AsyncIterator[BackendSession]:
    backend: Backend = backend_for(server, **options)
    session = await backend.open_session(ALICE, protocol_version=version, settings={})
    try:
        yield session
    finally:
        await session.close()


async def test_the_principal_is_asserted_by_the_login_and_by_nothing_else() -> None:
    async with FakeHiveServer() as server, session_on(server):
        assert [login.user for login in server.logins] == ["alice"]
        (opened,) = server.opened
        assert (opened.user, opened.claimed_user, opened.protocol) == ("alice", None, 9)
        assert "hive.server2.proxy.user" not in opened.configuration


async def test_a_login_of_the_gateways_acts_as_each_user_and_spark_says_whose_the_session_is() -> None:
    async with FakeHiveServer() as server:
        server.on("SELECT current_user()", Answer.text(("alice",)))
        server.on("SELECT 1", NUMBERS)
        async with session_on(server, service="svc", password="of the service") as session:
            await session.execute(cleared("SELECT 1"), run_async=True, timeout_s=0)
        assert {(login.user, login.password) for login in server.logins} == {("svc", "of the service")}
        (opened,) = server.opened
        assert opened.configuration["hive.server2.proxy.user"] == "alice"
        # What the gateway asks for itself it asks as who it is.
        await backend_for(server, service="svc", password="of the service").introduction()
        assert "hive.server2.proxy.user" not in server.opened[-1].configuration


@pytest.mark.parametrize("says", ["svc", "ALICE", "bob"])
async def test_a_spark_that_opens_the_session_as_somebody_else_gets_no_statement(says: str) -> None:
    async with FakeHiveServer() as server:
        server.on("SELECT current_user()", Answer.text((says,)))
        server.on("SELECT 1", NUMBERS)
        backend = backend_for(server, service="svc", password="p")
        with pytest.raises(BackendUnavailable, match="as somebody else") as raised:
            await backend.open_session(ALICE, protocol_version=9, settings={})
        assert raised.value.lasting
        assert "SELECT 1" not in [one.text for one in server.statements]


async def test_who_asks_what_spark_has_by_itself_tells_it_of_no_catalogs() -> None:
    async with FakeHiveServer() as server:
        backend = backend_for(server, catalogs={"spark.sql.catalog.pg": "a.Catalog"})
        await backend.introduction()
        await backend.read_initial_settings()
        told, untold = (opened.configuration for opened in server.opened)
        assert told["set:hiveconf:spark.sql.catalog.pg"] == "a.Catalog"
        assert "set:hiveconf:spark.sql.catalog.pg" not in untold


async def test_every_reading_setting_is_pinned_and_the_clients_own_come_along() -> None:
    async with FakeHiveServer() as server:
        session = await backend_for(server).open_session(
            ALICE,
            protocol_version=5,
            settings={"use:database": "hr", "spark.sql.session.timeZone": "Asia/Tokyo"},
        )
        await session.close()
        assert server.opened[0].configuration == {
            "use:database": "hr",
            "set:hiveconf:spark.sql.session.timeZone": "Asia/Tokyo",
            **{f"set:hiveconf:{key}": value for key, value in READING_SETTINGS.items()},
        }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hive.server2.proxy.user", "root"),
        ("HIVE.Server2.Proxy.User", "root"),
        ("set:hiveconf:spark.sql.ansi.enabled", "false"),
        ("set:hivevar:x", "1"),
        ("spark.sql.variable.substitute", "true"),
        ("SPARK.SQL.Variable.Substitute", "true"),
        ("spark.sql.parser.escapedStringLiterals", "true"),
        ("spark.sql.runSQLOnFiles", "true"),
        ("", "x"),
        ("a b", "x"),
        ("a\nb", "x"),
        ("spark.sql.session.timeZone", "${env:HOME}"),
        ("use:database", "${system:user.name}"),
        ("use:catalog", "x"),
    ],
)
def test_a_setting_that_is_not_the_clients_to_set_is_refused(key: str, value: str) -> None:
    with pytest.raises(InvalidRequest):
        session_configuration(READING_SETTINGS, {key: value})


async def test_a_statement_is_forwarded_as_it_was_proved() -> None:
    async with FakeHiveServer() as server, session_on(server) as session:
        server.on("SELECT guarded", NUMBERS)
        operation = await session.execute(cleared("SELECT *", "SELECT guarded"), run_async=True, timeout_s=30)
        assert server.statements == [Received("alice", "SELECT guarded", 30)]
        assert operation.has_result_set
        assert len(bytes.fromhex(operation.id)) == 16
        assert (await operation.status()).state == TOperationState.FINISHED
        assert [c.columnName for c in (await operation.schema()).columns] == ["n"]
        rows, schema = await operation.fetch(10_000)
        assert list(rows) == NUMBERS.rows
        assert schema == await operation.schema()
        await operation.close()


async def test_nothing_but_a_clearance_is_forwarded() -> None:
    async with FakeHiveServer() as server, session_on(server) as session:
        bare: Any = "SELECT 1"
        with pytest.raises(TypeError):
            await session.execute(bare, run_async=True, timeout_s=0)
        assert server.statements == []


async def test_a_fetch_stops_at_its_limit() -> None:
    async with FakeHiveServer() as server, session_on(server) as session:
        server.on("SELECT n", NUMBERS)
        operation = await session.execute(cleared("SELECT n"), run_async=False, timeout_s=0)
        rows, _ = await operation.fetch(1500)
        assert list(rows) == NUMBERS.rows[:1500]


async def test_ddl_answers_no_rows() -> None:
    async with FakeHiveServer() as server, session_on(server) as session:
        server.on("USE hr", Answer.done())
        operation = await session.execute(cleared("USE hr"), run_async=False, timeout_s=0)
        rows, schema = await operation.fetch(10)
        assert (list(rows), [c.columnName for c in schema.columns]) == ([], ["Result"])


async def test_a_synchronous_statement_ends_before_execute_returns_and_tells_its_error() -> None:
    async with FakeHiveServer(long_poll_s=0.01) as server, session_on(server) as session:
        done = asyncio.Event()
        server.on("SLOW", Answer.of([("n", TTypeId.INT)], [(1,)], until=done))
        running = asyncio.create_task(session.execute(cleared("SLOW"), run_async=False, timeout_s=0))
        await server.until(lambda: len(server.statements) == 1)
        assert not running.done()
        done.set()
        rows, _ = await (await running).fetch(10)
        assert list(rows) == [(1,)]
        server.on("BAD", Answer.error("22012", "[DIVIDE_BY_ZERO] Division by zero."))
        with pytest.raises(BackendError) as caught:
            await session.execute(cleared("BAD"), run_async=False, timeout_s=0)
        assert (caught.value.sqlstate, caught.value.message) == (
            "22012",
            "[DIVIDE_BY_ZERO] Division by zero.",
        )


async def test_errors_keep_their_sqlstate_wherever_they_come() -> None:
    async with FakeHiveServer() as server, session_on(server) as session:
        server.on("SYNC", Answer.error("42601", "[PARSE_SYNTAX_ERROR] x", sync=True))
        with pytest.raises(BackendError) as caught:
            await session.execute(cleared("SYNC"), run_async=True, timeout_s=0)
        assert (caught.value.sqlstate, caught.value.message) == ("42601", "[PARSE_SYNTAX_ERROR] x")
        server.on("ASYNC", Answer.error("22012", "[DIVIDE_BY_ZERO] x"))
        operation = await session.execute(cleared("ASYNC"), run_async=True, timeout_s=0)
        state = await operation.status()
        assert (state.state, state.sqlstate, state.error_message) == (5, "22012", "[DIVIDE_BY_ZERO] x")
        server.misbehave("GetResultSetMetadata", Refuse("0A000", "Unrecognized type name: variant"))
        with pytest.raises(BackendError, match="variant"):
            await operation.schema()
        # Spark repeats the request in such a text, with its handle and the secret in it.
        server.misbehave("GetResultSetMetadata", Refuse(message="secret:F2 BE", application_exception=True))
        with pytest.raises(BackendError) as told:
            await operation.schema()
        assert "F2" not in str(told.value)
        await operation.schema()


async def test_no_reply_of_spark_tells_a_secret() -> None:
    """Not its state, nor an error of any call, whole or in its details; as the secrets are at that moment."""
    known = ["pw"]
    said = "FATAL: password pw for jdbc:postgresql://db?password=pw, or p2"
    async with (
        FakeHiveServer() as server,
        session_on(server, secrets=SecretValues(lambda: known)) as session,
    ):
        known += ["p2", "jdbc:postgresql://db?password=pw"]
        server.on("FAILS", Answer.error("08001", said))
        server.on("SELECT n", NUMBERS)
        told: list[BackendError] = []
        with pytest.raises(BackendError) as caught:
            await session.execute(cleared("FAILS"), run_async=False, timeout_s=0)
        told.append(caught.value)
        state = await (await session.execute(cleared("FAILS"), run_async=True, timeout_s=0)).status()
        told.append(BackendError(state.error_message or "", state.sqlstate))
        operation = await session.execute(cleared("SELECT n"), run_async=False, timeout_s=0)
        server.misbehave("FetchResults", Refuse("08001", said))
        relayed = await operation.relay(0, 1000, 0, 1, Sink())
        assert relayed.error is not None
        told.append(relayed.error)
        server.misbehave("GetResultSetMetadata", Refuse("08001", said))
        with pytest.raises(BackendError) as caught:
            await operation.schema()
        told.append(caught.value)
        for one in told:
            hidden = "*********(redacted)"
            assert one.message == f"FATAL: password {hidden} for {hidden}, or {hidden}"
            assert "pw" not in str(one.details)
            assert "p2" not in str(one.details)


@pytest.mark.parametrize("version", [0, 4, 5, 9, 10])
async def test_a_relayed_frame_is_sparks_own_with_the_clients_sequence_id(version: int) -> None:
    async with FakeHiveServer() as server, session_on(server, version=version) as session:
        server.on("SELECT n", NUMBERS)
        operation = await session.execute(cleared("SELECT n"), run_async=False, timeout_s=0)
        got: list[tuple[Any, ...]] = []
        for seqid in (7, -1, 0, 2_000_000_000):
            sink = Sink()
            relayed = await operation.relay(TFetchOrientation.NEXT, 1000, 0, seqid, sink)
            assert relayed.error is None
            assert relayed.bytes == len(sink.data)
            assert int.from_bytes(sink.data[:4]) == len(sink.data) - 4
            message = bytes(sink.data[4:])
            assert messages.decode_message(message).seqid == seqid
            reply = messages.decode_reply(message, calls.TFetchResultsResp)
            assert reply.results is not None
            batch = decode_rows(reply.results)
            assert relayed.rows == len(batch)
            got += batch
        assert got == NUMBERS.rows
        sink = Sink()
        again = await operation.relay(TFetchOrientation.FIRST, 10, 0, 1, sink)
        assert again.rows == 10


async def test_an_error_reply_is_returned_and_nothing_of_it_is_written() -> None:
    async with FakeHiveServer() as server, session_on(server) as session:
        server.on("SELECT n", NUMBERS)
        operation = await session.execute(cleared("SELECT n"), run_async=False, timeout_s=0)
        for fault in (Refuse("22012", "secret value 123"), Refuse(message="x", application_exception=True)):
            server.misbehave("FetchResults", fault)
            sink = Sink()
            relayed = await operation.relay(0, 1000, 0, 1, sink)
            assert (relayed.bytes, relayed.rows, relayed.status, bytes(sink.data)) == (0, 0, 3, b"")
            assert relayed.error is not None
            assert (relayed.error.message == fault.message) is not fault.application_exception
        sink = Sink()
        assert (await operation.relay(0, 1000, 0, 1, sink)).rows == 1000


async def test_a_cancel_does_not_wait_behind_a_poll() -> None:
    async with FakeHiveServer(long_poll_s=600) as server, session_on(server) as session:
        server.on("SLOW", Answer.of([("n", TTypeId.INT)], [], until=asyncio.Event()))
        operation = await session.execute(cleared("SLOW"), run_async=True, timeout_s=0)
        poll = asyncio.create_task(operation.status())
        await server.until(lambda: "GetOperationStatus" in server.calls)
        async with asyncio.timeout(patience()):
            await operation.cancel()
            assert (await poll).state == TOperationState.CANCELED
        assert server.canceled == [operation.id]
        assert [login.user for login in server.logins] == ["alice", "alice"]
        await server.until(lambda: server.connections == 1)


async def test_a_cancel_takes_the_sessions_own_connection_when_it_is_free() -> None:
    async with FakeHiveServer(long_poll_s=0.01) as server, session_on(server) as session:
        server.on("SLOW", Answer.of([("n", TTypeId.INT)], [], until=asyncio.Event()))
        operation = await session.execute(cleared("SLOW"), run_async=True, timeout_s=0)
        await operation.cancel()
        assert (await operation.status()).state == TOperationState.CANCELED
        assert server.connections_ever == 1


async def test_closing_a_session_ends_what_it_runs_even_behind_a_poll() -> None:
    async with FakeHiveServer(long_poll_s=600) as server:
        session = await backend_for(server).open_session(ALICE, protocol_version=9, settings={})
        server.on("SLOW", Answer.of([("n", TTypeId.INT)], [], until=asyncio.Event()))
        operation = await session.execute(cleared("SLOW"), run_async=True, timeout_s=0)
        poll = asyncio.create_task(operation.status())
        await server.until(lambda: "GetOperationStatus" in server.calls)
        async with asyncio.timeout(patience()):
            await session.close()
            # Told in time that it is closed, or cut off: either way the poll has ended.
            await asyncio.wait({poll})
            error = poll.exception()
            assert isinstance(error, BackendUnavailable) or poll.result().state == TOperationState.CANCELED
        await server.until(lambda: "CloseSession" in server.calls and server.connections == 0)
        assert server.canceled == [operation.id]
        assert server.sessions == 0
        await operation.close()
        await session.close()
        with pytest.raises(BackendUnavailable):
            await operation.status()


async def test_a_session_that_spark_refuses_leaves_no_connection() -> None:
    async with FakeHiveServer() as server:
        with pytest.raises(BackendError) as caught:
            await backend_for(server).open_session(
                ALICE, protocol_version=9, settings={"use:database": "nowhere"}
            )
        assert caught.value.sqlstate == "42704"
        await server.until(lambda: server.connections == 0)


async def test_a_refused_login_is_the_gateways_trouble_and_not_the_users() -> None:
    async with FakeHiveServer(password="right") as server:
        with pytest.raises(BackendUnavailable, match="refused the gateway's login"):
            await backend_for(server, password="wrong").probe()
        server.on("SELECT 1", Answer.of([("1", TTypeId.INT)], [(1,)]))
        await backend_for(server, password="right").probe()
        assert [login.password for login in server.logins] == ["wrong", "right"]
        server.misbehave(LOGIN, Refuse())
        with pytest.raises(BackendUnavailable):
            await backend_for(server, password="right").probe()


async def test_a_password_of_nobody_is_still_one() -> None:
    """Spark's PLAIN refuses an empty password although nothing checks it."""
    async with FakeHiveServer() as server, session_on(server):
        assert server.logins[0].password != ""


async def test_a_user_name_that_cannot_be_sent_is_refused() -> None:
    async with FakeHiveServer() as server:
        with pytest.raises(InvalidRequest):
            await backend_for(server).open_session(Principal(user="a\0b"), protocol_version=9, settings={})
        assert server.connections_ever == 0


async def test_text_that_is_not_unicode_is_refused_and_the_session_goes_on() -> None:
    async with FakeHiveServer() as server, session_on(server) as session:
        with pytest.raises(InvalidRequest):
            await session.execute(cleared("SELECT '\ud800'"), run_async=True, timeout_s=0)
        server.on("SELECT n", NUMBERS)
        await session.execute(cleared("SELECT n"), run_async=False, timeout_s=0)


# -- the gateway's own sessions ------------------------------------------------------------------------------


async def test_the_service_keeps_its_sessions_and_runs_several_at_once() -> None:
    async with FakeHiveServer() as server:
        service = SparkThriftService(backend_for(server), sessions=2)
        gates = [asyncio.Event() for _ in range(4)]
        for i, gate in enumerate(gates):
            server.on(f"Q{i}", Answer.of([("n", TTypeId.INT)], [(i,)], until=gate))
        running = [asyncio.create_task(service.query(f"Q{i}")) for i in range(4)]
        await server.until(lambda: len(server.statements) == 2)
        for gate in gates:
            gate.set()
        assert await asyncio.gather(*running) == [[(0,)], [(1,)], [(2,)], [(3,)]]
        assert {opened.user for opened in server.opened} == {"sluice"}
        assert len(server.opened) == 2
        await service.close()
        await server.until(lambda: server.connections == 0)


async def test_the_service_survives_a_restart_of_spark() -> None:
    async with FakeHiveServer() as server:
        server.on("Q", Answer.text(("x",)))
        service = SparkThriftService(backend_for(server))
        assert await service.query("Q") == [("x",)]
        await server.stop()
        with pytest.raises(BackendUnavailable):
            await service.query("Q")
        await server.start()
        assert await service.query("Q") == [("x",)]
        await service.close()


async def test_the_service_keeps_a_session_after_an_error_of_spark() -> None:
    async with FakeHiveServer() as server:
        service = SparkThriftService(backend_for(server))
        for _ in range(3):
            with pytest.raises(BackendError, match="UNSCRIPTED"):
                await service.query("nonsense")
        assert len(server.opened) == 1
        await service.close()


async def test_the_service_refuses_an_answer_that_is_too_long() -> None:
    async with FakeHiveServer() as server:
        server.on("Q", NUMBERS)
        service = SparkThriftService(backend_for(server), max_rows=2499)
        with pytest.raises(BackendUnavailable, match="more than 2499 rows"):
            await service.query("Q")
        await service.close()


async def test_a_cancelled_statement_takes_its_session_along() -> None:
    async with FakeHiveServer(long_poll_s=0.05) as server:
        slow = asyncio.Event()
        server.on("SLOW", Answer.of([("n", TTypeId.INT)], [], until=slow))
        server.on("Q", Answer.text(("x",)))
        service = SparkThriftService(backend_for(server))
        running = asyncio.create_task(service.query("SLOW"))
        await server.until(lambda: len(server.statements) == 1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        slow.set()  # Spark notices then that the connection is gone
        await server.until(lambda: server.sessions == 0)
        assert await service.query("Q") == [("x",)]
        await service.close()


async def test_what_was_stopped_is_closed_a_little_later() -> None:
    """Spark loses a cancel that comes while it plans; a close that comes after that makes it good."""
    async with FakeHiveServer() as server:
        backend = backend_for(server, stop_grace_s=1.0)
        session = await backend.open_session(ALICE, protocol_version=9, settings={})
        server.on("SLOW", Answer.of([("n", TTypeId.INT)], [], until=asyncio.Event()))
        server.on("Q", Answer.text(("x",)))
        canceled = await session.execute(cleared("SLOW"), run_async=True, timeout_s=0)
        await canceled.cancel()
        await canceled.close()
        closed = await session.execute(cleared("SLOW"), run_async=True, timeout_s=0)
        await closed.close()
        assert server.canceled == [canceled.id, closed.id]
        assert "CloseOperation" not in server.calls
        done = await session.execute(cleared("Q"), run_async=False, timeout_s=0)
        await done.close()
        await server.until(lambda: server.calls.count("CloseOperation") == 1)
        running = await session.execute(cleared("SLOW"), run_async=True, timeout_s=0)
        await session.close()
        assert server.canceled == [canceled.id, closed.id, running.id]
        assert "CloseSession" not in server.calls
        assert server.connections == 1
        with pytest.raises(BackendUnavailable):
            await session.execute(cleared("Q"), run_async=True, timeout_s=0)
        await backend.close()
        assert server.calls.count("CloseOperation") == 3
        assert server.calls.count("CloseSession") == 1
        assert server.connections == 0


async def test_what_has_ended_is_let_go_without_a_wait_and_nothing_else_is() -> None:
    async with FakeHiveServer() as server:
        session = await backend_for(server).open_session(ALICE, protocol_version=9, settings={})
        server.on("SLOW", Answer.of([("n", TTypeId.INT)], [], until=asyncio.Event()))
        server.on("Q", Answer.text(("x",)))
        ended = await session.execute(cleared("Q"), run_async=True, timeout_s=0)
        assert not ended.let_go(), "nobody has heard that it ended"
        await ended.wait_for_success()
        running = await session.execute(cleared("SLOW"), run_async=True, timeout_s=0)
        assert not running.let_go()
        polling = asyncio.ensure_future(running.status())
        await asyncio.sleep(0)
        assert not ended.let_go(), "it would stand behind the poll"
        polling.cancel()
        await asyncio.wait({polling})
        await ended.close()
        again = await backend_for(server).open_session(ALICE, protocol_version=9, settings={})
        done = await again.execute(cleared("Q"), run_async=True, timeout_s=0)
        await done.wait_for_success()
        before = server.calls.count("CloseOperation")
        assert done.let_go()
        assert [row[0] for row in await again.answer("Q", max_rows=1)] == ["x"]
        assert server.calls.count("CloseOperation") >= before + 1
        await again.close()
        again.connection.abort()
        assert done.let_go(), "it is gone with the connection"
        await session.close()


async def test_a_session_without_anything_stopped_is_closed_at_once() -> None:
    async with FakeHiveServer() as server:
        session = await backend_for(server, stop_grace_s=60).open_session(
            ALICE, protocol_version=9, settings={}
        )
        server.on("Q", Answer.text(("x",)))
        server.on("BAD", Answer.error("22012", "[DIVIDE_BY_ZERO]"))
        await session.execute(cleared("Q"), run_async=False, timeout_s=0)
        with pytest.raises(BackendError):
            await session.execute(cleared("BAD"), run_async=False, timeout_s=0)
        # What failed synchronously Spark has closed by itself.
        await session.close()
        assert server.calls[-1] == "CloseSession"
        assert server.sessions == 0


async def test_the_columns_are_asked_for_before_anybody_wants_them() -> None:
    async with FakeHiveServer() as server:
        session = await backend_for(server).open_session(ALICE, protocol_version=9, settings={})
        server.on("Q", Answer.text(("x",)))
        done = await session.execute(cleared("Q"), run_async=False, timeout_s=0)
        for _ in range(2):
            schema = await done.schema()
            assert [column.columnName for column in schema.columns] == ["c0"]
        assert server.calls.count("GetResultSetMetadata") == 1
        await session.close()


async def test_nobody_asks_for_the_columns_of_a_statement_that_runs() -> None:
    """Asked before it has analysed a statement, Spark tells of one column `Result`, and stays with that."""
    async with FakeHiveServer(long_poll_s=0.02) as server:
        session = await backend_for(server).open_session(ALICE, protocol_version=9, settings={})
        end = asyncio.Event()
        server.on("SLOW", Answer.of([("n", TTypeId.INT)], [(1,)], until=end))
        running = await session.execute(cleared("SLOW"), run_async=True, timeout_s=0)
        assert not (await running.status()).terminal
        early = asyncio.create_task(running.schema())
        await server.until(lambda: server.calls.count("GetOperationStatus") > 2)
        assert "GetResultSetMetadata" not in server.calls
        end.set()
        for schema in (await early, await running.schema()):
            assert [column.columnName for column in schema.columns] == ["n"]
        await session.close()


async def test_a_lost_connection_with_calls_under_way_leaves_nothing_behind() -> None:
    async with FakeHiveServer(long_poll_s=5) as server:
        session = await backend_for(server).open_session(ALICE, protocol_version=9, settings={})
        server.on("SLOW", Answer.of([("n", TTypeId.INT)], [], until=asyncio.Event()))
        running = await session.execute(cleared("SLOW"), run_async=True, timeout_s=0)
        asked = asyncio.create_task(running.status())
        await server.until(lambda: "GetOperationStatus" in server.calls)
        session.connection.abort()
        with pytest.raises(BackendUnavailable):
            await asked
        with pytest.raises(BackendUnavailable):
            await running.schema()
        await running.close()
        await session.close()


async def test_a_full_pool_is_told_from_every_other_error() -> None:
    async with FakeHiveServer() as server, session_on(server) as session:
        server.on("SELECT full", Answer.error("", POOL_IS_FULL, sync=True))
        server.on("SELECT near", Answer.error("", f"Error running query: {POOL_IS_FULL}", sync=True))
        with pytest.raises(BackendFull):
            await session.execute(cleared("SELECT full"), run_async=True, timeout_s=0)
        with pytest.raises(BackendError) as caught:
            await session.execute(cleared("SELECT near"), run_async=True, timeout_s=0)
        assert not isinstance(caught.value, BackendFull)


async def test_a_session_is_asked_how_it_reads_when_there_is_a_text_for_it() -> None:
    async with FakeHiveServer() as server:
        backend = backend_for(server)
        server.on("SELECT 1", NUMBERS)
        principal = Principal(user="bob")
        first = await backend.open_session(principal, protocol_version=9, settings={})
        assert server.asked.count("SET") == 1  # nobody knew yet
        second = await backend.open_session(principal, protocol_version=9, settings={})
        assert server.asked.count("SET") == 1
        await second.execute(cleared("SELECT 1"), run_async=True, timeout_s=0)
        await second.execute(cleared("SELECT 1"), run_async=True, timeout_s=0)
        assert server.asked.count("SET") == 2
        third = await backend.open_session(principal, protocol_version=9, settings={})
        server.settings["spark.sql.extensions"] = "a.B"
        before = len(server.texts())
        with pytest.raises(BackendMismatch):
            await third.execute(cleared("SELECT 1"), run_async=True, timeout_s=0)
        assert len(server.texts()) == before
        assert not third.alive
        with pytest.raises(BackendMismatch):  # from here on before anybody has a session
            await backend.open_session(principal, protocol_version=9, settings={})
        for session in (first, second, third):
            await session.close()
        await backend.close()


async def test_spark_is_ready_when_its_metastore_answers() -> None:
    async with FakeHiveServer() as server:
        backend = backend_for(server)
        metastore = asyncio.Event()
        server.on(
            METASTORE_PROBE, Answer.of([("namespace", TTypeId.STRING)], [("default",)], until=metastore)
        )
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await backend.ready()
        metastore.set()
        await server.until(lambda: server.connections == 0)
        await backend.ready()
        assert server.texts() == [METASTORE_PROBE] * 2
        await backend.close()


async def test_the_service_opens_other_sessions_when_catalogs_are_others() -> None:
    async with FakeHiveServer() as server:
        server.on("Q", Answer.text(("x",)))
        told = {"grav": 1}
        service = SparkThriftService(backend_for(server), session_catalogs=lambda: told)
        for _ in range(2):
            await service.query("Q")
        assert len(server.opened) == 1
        told = {"grav": 2}
        await service.query("Q")
        assert len(server.opened) == 2
        await service.close()
        await server.until(lambda: server.connections == 0)
