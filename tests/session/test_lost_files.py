"""What only reads, and fails because a table of its policies was written anew, is run once more by itself."""

from __future__ import annotations

import asyncio

import pytest

from gateway.model.catalog import TableName
from gateway.session.failures import StatementFailed
from gateway.session.identifiers import Handle
from gateway.session.operation import CANCELED, ERROR, FINISHED
from gateway.session.ports import BackendError, RelayedFrame
from gateway.session.thrift_exceptions import has_lost_files
from tests.session.fakes import BOB, Sink, World
from tests.session.test_waiting import begun, ends_in, of, opened, world_of

MAPPING = TableName("spark_catalog", "hr", "mapping")
LOOK = f"REFRESH TABLE {MAPPING}"
GONE = (
    "org.apache.hive.service.cli.HiveSQLException: Error running query: [FAILED_READ_FILE.FILE_NOT_EXIST] "
    "org.apache.spark.SparkException: [FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file "
    "file:/warehouse/mapping/1.parquet. File does not exist. SQLSTATE: KD001"
)
NESTED = (
    "org.apache.hive.service.cli.HiveSQLException: Error running query: org.apache.spark.SparkException: "
    "Exception thrown in awaitResult: \n\tat x.Y.z(Y.scala:1)\nCaused by: java.util.concurrent."
    f"ExecutionException: {GONE.split('[FAILED_READ_FILE.FILE_NOT_EXIST] ', 1)[1]}\n\tat x.Y.z(Y.scala:1)"
)


def failing(text: str, message: str = GONE, *, cured: bool = True) -> World:
    """A Spark in whose sessions a statement fails, after a look at the mapping table for its first time."""
    world = world_of(statements=4)
    world.judge.policy_tables[text] = (MAPPING,)
    world.backend.fail[text] = (message, "KD001")
    looks = 0
    start = world.backend.start

    async def counted(session: object, asked: str) -> object:
        nonlocal looks
        looks += asked == LOOK
        if cured and looks == 2:
            world.backend.fail.pop(text, None)
        return await start(session, asked)  # type: ignore[arg-type]  # it is the session that was passed

    world.backend.start = counted  # type: ignore[method-assign,assignment]  # counts what is started
    return world


@pytest.mark.parametrize("message", [GONE, NESTED])
async def test_it_is_run_again_after_a_look(message: str) -> None:
    world = failing("SELECT 1", message)
    session = await opened(world)
    operation = await begun(world, session, "SELECT 1")
    assert await ends_in(world, operation, FINISHED) is None
    assert world.backend.received == [LOOK, "SELECT 1", LOOK, "SELECT 1"]
    assert len(world.ledger.of("decided")) == 3, "it is one statement, decided alike, and two looks"
    assert world.backend.sessions[0].operations[1].closed


async def test_a_client_that_waits_gets_its_result() -> None:
    world = failing("SELECT 1")
    session = await opened(world)
    await world.sessions.execute(BOB, session, "SELECT 1", run_async=False)
    assert world.backend.received.count("SELECT 1") == 2


async def test_it_is_run_again_once() -> None:
    world = failing("SELECT 1", cured=False)
    session = await opened(world)
    error = await ends_in(world, await begun(world, session, "SELECT 1"), ERROR)
    assert isinstance(error, StatementFailed)
    assert "FILE_NOT_EXIST" in error.text
    assert world.backend.received.count("SELECT 1") == 2
    assert world.ledger.outcomes()[-1] == "failed"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("INSERT INTO x SELECT 1", GONE),
        ("SELECT 1", "[DIVIDE_BY_ZERO] org.apache.spark.SparkArithmeticException: FILE_NOT_EXIST"),
    ],
)
async def test_what_writes_and_what_fails_otherwise_is_not(text: str, message: str) -> None:
    world = failing(text, message)
    session = await opened(world)
    await ends_in(world, await begun(world, session, text), ERROR)
    assert world.backend.received.count(text) == 1


async def test_what_no_policy_reads_for_is_not() -> None:
    world = failing("SELECT 1")
    world.judge.policy_tables.clear()
    session = await opened(world)
    await ends_in(world, await begun(world, session, "SELECT 1"), ERROR)
    assert world.backend.received == ["SELECT 1"]


async def test_it_is_judged_by_the_policies_of_now() -> None:
    world = failing("SELECT 1")
    session = await opened(world)
    operation = await begun(world, session, "SELECT 1")
    world.judge.refused = "SELECT 1"
    world.new_policies()
    with pytest.raises(Exception, match=r"needs select|SLUICE_ACCESS_DENIED"):
        raise await ends_in(world, operation, ERROR)
    assert world.backend.received.count("SELECT 1") == 1


async def test_others_of_the_session_go_on_and_it_can_be_canceled() -> None:
    world = failing("SELECT 1", cured=False)
    session = await opened(world)
    operation = await begun(world, session, "SELECT 1")
    other = asyncio.create_task(world.sessions.execute(BOB, session, "SELECT 2", run_async=False))
    await world.sessions.status(BOB, operation)
    await world.sessions.cancel(BOB, operation)
    await of(other)
    report = await world.sessions.status(BOB, operation)
    assert report.state in (CANCELED, ERROR)
    await world.sessions.close_session(BOB, session)


async def rows_of(world: World, operation: Handle) -> RelayedFrame:
    frame = await world.sessions.fetch(
        BOB, operation, orientation=0, max_rows=10, fetch_type=0, seqid=1, sink=Sink()
    )
    assert isinstance(frame, RelayedFrame)
    return frame


@pytest.mark.parametrize("noticed", [True, False])
async def test_rows_that_fail_before_the_first_are_computed_again(noticed: bool) -> None:
    """With incremental collect Spark computes them when they are fetched."""
    world = failing("nothing")
    world.judge.policy_tables["SELECT 1"] = (MAPPING,)
    session = await opened(world)
    operation = await begun(world, session, "SELECT 1")
    if noticed:
        await ends_in(world, operation, FINISHED)
    world.backend.last.fetch_error = BackendError(GONE, "KD001")
    assert (await rows_of(world, operation)).rows == 1
    assert world.backend.received == [LOOK, "SELECT 1", LOOK, "SELECT 1"]
    await world.sessions.close_operation(BOB, operation)
    assert world.ledger.outcomes()[-1] == "finished"
    assert len(world.ledger.of("decided")) == 3


async def test_rows_that_fail_after_the_first_are_not() -> None:
    world = failing("nothing")
    world.judge.policy_tables["SELECT 1"] = (MAPPING,)
    session = await opened(world)
    operation = await begun(world, session, "SELECT 1")
    await ends_in(world, operation, FINISHED)
    await rows_of(world, operation)
    world.backend.last.fetch_error = BackendError(GONE, "KD001")
    with pytest.raises(StatementFailed, match="FILE_NOT_EXIST"):
        await rows_of(world, operation)
    assert world.backend.received.count("SELECT 1") == 1


async def test_rows_of_other_columns_are_not_shown() -> None:
    """Their client may have been told of the columns that there were."""
    world = failing("nothing")
    world.judge.policy_tables["SELECT 1"] = (MAPPING,)
    session = await opened(world)
    operation = await begun(world, session, "SELECT 1")
    await ends_in(world, operation, FINISHED)
    world.backend.last.fetch_error = BackendError(GONE, "KD001")
    world.backend.last.spark_schema = "of other columns"
    with pytest.raises(StatementFailed, match="SLUICE_CATALOG_CHANGED"):
        await rows_of(world, operation)
    await world.sessions.close_operation(BOB, operation)
    assert world.ledger.outcomes()[-1] == "failed"


def test_a_cause_tells_of_lost_files() -> None:
    assert has_lost_files(GONE)
    assert has_lost_files(NESTED)
    assert not has_lost_files(
        "org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] FILE_NOT_EXIST"
    )
