"""A statement whose gateway was killed is not run a second time by itself.

Its answer was held by the gateway that is gone, so Spark keeps none of it, and PySpark would run again what
it is told was never there. What Spark says of the operation's state decides.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from gateway.database.postgres import EmbeddedPostgres
from gateway.wire.connect import pb
from tests.e2e.connect import world
from tests.e2e.connect.attacker import recorded_session
from tests.e2e.connect.test_kills import Counter, settings_with_port
from tests.e2e.running import LoopThread, RunningGateway, Spark, until
from tests.speed import patience

pytestmark = pytest.mark.in_turn(2)

State = pb.GetStatusResponse.OperationStatus
RUNNING = State.OPERATION_STATE_RUNNING


@pytest.fixture(scope="module")
def gateway(connect_world: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    running = RunningGateway(settings_with_port(open_directory / "once", connect_world)).start()
    yield running
    assert running.stop() == 0


def states(direct: Any, user: str, session: str) -> list[int]:
    """What Spark says of every operation that a session has, or has had."""
    request = pb.GetStatusRequest(session_id=session)
    request.user_context.user_id = user
    request.operation_status.SetInParent()
    answer = direct.client._stub.GetStatus(request, metadata=direct.client._builder.metadata())
    return [status.state for status in answer.operation_statuses]


def decided(gateway: RunningGateway, loop: LoopThread, words: str) -> int:
    """How many statements with these words were decided on."""

    async def ask() -> int:
        connection = await asyncpg.connect(EmbeddedPostgres(gateway.config.parent / "postgres").dsn)
        try:
            query = "SELECT count(*) FROM sluice.audit_event WHERE kind = 'decided' AND statement LIKE $1"
            return int(await connection.fetchval(query, f"%{words}%"))
        finally:
            await connection.close()

    return loop.run(ask())


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("ends", ["before the gateway is back", "later"])
@pytest.mark.in_turn(4)
def test_an_insert_is_not_run_twice(
    ends: str, gateway: RunningGateway, connect_world: Spark, session_loop: LoopThread
) -> None:
    table = f"default.once_{'late' if ends == 'later' else 'early'}"
    rows = 40_000_000 if ends == "later" else 4_000_000
    insert = f"INSERT INTO {table} SELECT max(hash(id, id + 1, id + 2)) FROM range(0, {rows}, 1, 40)"
    errors: list[Exception] = []
    with connect_world.session() as direct:
        direct.sql(f"CREATE TABLE {table} (n INT) USING parquet")
        with recorded_session(gateway, world.ALLOWED, Counter()) as session:
            name = session.client._session_id
            assert session.range(1).count() == 1

            def run() -> None:
                try:
                    session.sql(insert)
                except Exception as error:  # noqa: BLE001 - which one it is, is looked at below
                    errors.append(error)

            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            until(lambda: RUNNING in states(direct, world.ALLOWED, name), "Spark runs it", 300)
            assert gateway.stop(signal.SIGKILL) == -signal.SIGKILL
            if ends != "later":
                until(lambda: RUNNING not in states(direct, world.ALLOWED, name), "it has ended", 300)
            gateway.start()
            thread.join(patience(300))
            assert not thread.is_alive(), "the client still tries"
            (error,) = errors
            assert "INVALID_HANDLE.OPERATION_ABANDONED" in str(error)
            until(lambda: RUNNING not in states(direct, world.ALLOWED, name), "it has ended", 300)
        assert direct.table(table).count() <= 1
        assert decided(gateway, session_loop, table) == 1
        direct.sql(f"DROP TABLE {table}")
