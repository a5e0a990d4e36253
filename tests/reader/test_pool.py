"""The pool answers whatever it is asked, whatever happens to its processes."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, patch

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.errors import BackendUnavailable
from gateway.model.reading import NotParsed, NotRead, Reading
from gateway.model.spark_minors import SUPPORTED, UnsupportedSpark, minor_of
from gateway.reader.java_runtime import JavaNotFound, find_spark_home, spark_version
from gateway.reader.limits import ReaderLimits
from gateway.reader.pool import ReaderPool
from gateway.reader.process import ParserProcess, command
from tests.effort import tries
from tests.reader.asking import contexts, prediction_states
from tests.readers import patient_reader
from tests.speed import patience

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Takes Spark's parser seconds at any speed of machine, when no limit keeps it away.
SLOW = "SELECT " + "(" * 12_000 + "1" + ")" * 12_000
_NUMBERS = itertools.count(1_000_000)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[ReaderPool]:
    """A process of this module's own: its tests kill it, and a new one takes its time on a busy machine."""
    async with ReaderPool(limits=ReaderLimits(deadline_s=patience(300), wait_s=300.0)) as started:
        yield started


@asynccontextmanager
async def without_limits(pool: ReaderPool, deadline_s: float) -> AsyncIterator[None]:
    """Let texts through that the limits would stop, with another deadline."""
    kept = pool.limits
    pool.limits = ReaderLimits(
        max_chars=10**9,
        max_nesting=10**9,
        max_case_nesting=10**9,
        max_type_nesting=10**9,
        max_comment_nesting=10**9,
        max_arrows=10**9,
        deadline_s=deadline_s,
    )
    try:
        yield
    finally:
        pool.limits = kept


SHAPES = (
    "a", "-x.y", "(NOT f(a, 1))", "CASE a WHEN b THEN 1 END", "CAST(a AS INT)", "a[0].b", "struct(a, b)",
    "(SELECT max(c) FROM u)", "INTERVAL 1 DAY", "sum(a) OVER (PARTITION BY b)", "(a IN (1, 2))",
    "(a BETWEEN 1 AND 2)", "(x IS NOT NULL)", "transform(a, b -> b)", "extract(DAY FROM a)",
    "DATE '2020-01-01'",
)  # fmt: skip


def is_stopped(pid: int) -> bool:
    """Whether every thread of a process has stopped."""
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(one.rpartition(")")[2].split()[0] == "T" for one in stats)


async def until(condition: Callable[[], bool], quiet_s: float = 300.0) -> None:
    async with asyncio.timeout(patience(quiet_s)):
        while not condition():  # noqa: ASYNC110 - what is waited for is another process
            await asyncio.sleep(0.02)


def unseen() -> str:
    """A statement that no process was asked for yet: answers are kept."""
    return f"SELECT {next(_NUMBERS)}"


async def code(pool: ReaderPool, text: str) -> str:
    answer = await pool.read(text)
    return answer.code if isinstance(answer, NotRead) else type(answer).__name__


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(")")[-1].split()[0] != "Z"


async def test_many_statements_in_flight(pool: ReaderPool) -> None:
    texts = [f"SELECT c{i} FROM t{i}" for i in range(200)]
    answers = await asyncio.gather(*map(pool.read, texts))
    for i, answer in enumerate(answers):
        assert isinstance(answer, Reading)
        assert answer.relations[0].parts == (f"t{i}",)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 FROM t WHERE " + " OR ".join(f"a = {i}" for i in range(10_000)),
        "SELECT 1 FROM t WHERE a IN (" + ", ".join(map(str, range(5_000))) + ")",
        " UNION ALL ".join(f"SELECT {i}" for i in range(1_000)),
        "SELECT " + ", ".join(f"c{i}" for i in range(20_000)) + " FROM t",
        "SELECT 1 FROM t0 " + " ".join(f"JOIN t{i} ON t{i}.a = t0.a" for i in range(500)),
        "SELECT " + "NOT " * 3_000 + "a",
        "SELECT " + " || ".join("a" for _ in range(10_000)),
        "SELECT " + "(" * 200 + "1" + ")" * 200,
        "SELECT * FROM (" * 199 + "SELECT 1" + ") t" * 199,
        "SELECT " + "CASE WHEN a THEN " * 200 + "1" + " END" * 200,
        "SELECT f(" + "x -> " * 1_000 + "a)",
        "SELECT 1 " + "/*" * 20 + "*/" * 20,
        "WITH " + ", ".join(f"c{i} AS (SELECT 1)" for i in range(1_000)) + " SELECT * FROM c7",
        "VALUES " + ", ".join(f"({i}, 'x')" for i in range(5_000)),
        "SELECT '" + "x" * 999_000 + "'",
    ],
    ids=lambda text: text[:40],
)
async def test_large_statements_within_the_limits_are_read(pool: ReaderPool, text: str) -> None:
    assert isinstance(await pool.read(text), Reading)


@pytest.mark.parametrize(
    "text",
    [SLOW, "SELECT * FROM (" * 10_000 + "SELECT 1" + ") t" * 10_000, "SELECT " + "CASE " * 50_000],
    ids=lambda text: text[:20],
)
async def test_deep_statements_are_refused_at_once(pool: ReaderPool, text: str) -> None:
    begun = time.process_time()
    assert await code(pool, text) == "TOO_DEEP"
    assert time.process_time() - begun < 0.5
    assert await code(pool, unseen()) == "Reading"


async def test_a_stack_overflow_is_an_answer(pool: ReaderPool) -> None:
    before = pool.pids
    # No limit counts signs; Spark's parser descends once for each.
    assert await code(pool, "SELECT " + "- " * 400_000 + "a") in {"TOO_DEEP", "TIMEOUT", "UNAVAILABLE"}
    await until(lambda: pool.healthy)
    assert await code(pool, unseen()) == "Reading"
    assert before


@pytest.mark.in_turn(3)
async def test_a_late_parser_is_killed_and_replaced(pool: ReaderPool) -> None:
    await until(lambda: pool.healthy)
    (before,) = pool.pids
    async with without_limits(pool, deadline_s=0.5):
        assert await code(pool, SLOW) == "TIMEOUT"
    await until(lambda: not alive(before))
    assert await code(pool, unseen()) == "Reading"  # waits for the new process
    assert pool.pids != (before,)


@pytest.mark.in_turn(3)
async def test_statements_beside_a_late_one_are_read_all_the_same(pool: ReaderPool) -> None:
    await until(lambda: pool.healthy)
    async with without_limits(pool, deadline_s=2.0):
        late = asyncio.create_task(code(pool, SLOW))
        await until(lambda: pool.in_flight == 1)
        later = asyncio.create_task(code(pool, f"{SLOW} "))
        await until(lambda: pool.in_flight == 2)
    # Both threads of the process are busy; this one waits in its queue until the process is killed.
    assert await code(pool, unseen()) == "Reading"
    assert "TIMEOUT" in {await late, await later}


@pytest.mark.in_turn(3)
async def test_a_process_that_runs_out_of_memory_is_replaced() -> None:
    limits = ReaderLimits(max_chars=10**9, deadline_s=patience())
    async with ReaderPool(heap="96m", threads=1, limits=limits) as small:
        assert await code(small, "SELECT '" + "x" * 40_000_000 + "'") == "UNAVAILABLE"
        assert await code(small, unseen()) == "Reading"


@pytest.mark.parametrize("round_", range(2))
async def test_kill_nine_in_mid_flight(pool: ReaderPool, round_: int) -> None:
    await until(lambda: pool.healthy)
    (pid,) = pool.pids
    asked = [asyncio.create_task(code(pool, f"SELECT {i} FROM t{round_}")) for i in range(50)]
    # Turn by turn of the loop; polling could find that all have been answered already.
    while not pool.in_flight:  # noqa: ASYNC110 - the request is in a process soon
        await asyncio.sleep(0)
    os.kill(pid, signal.SIGKILL)
    answers = [await one for one in asked]
    assert set(answers) <= {"Reading", "UNAVAILABLE"}
    await until(lambda: pool.healthy)
    assert await code(pool, unseen()) == "Reading"
    assert pool.pids != (pid,)


@pytest.mark.in_turn(3)
async def test_without_a_process_an_answer_waits_for_a_bounded_time_only(pool: ReaderPool) -> None:
    await until(lambda: pool.healthy)
    (pid,) = pool.pids
    kept, pool.limits = pool.limits, ReaderLimits(wait_s=0.05)
    try:
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not pool.healthy)
        assert await code(pool, unseen()) == "UNAVAILABLE"
        proof = await pool.prove("SELECT 1", "SELECT 1", [], [])
        assert proof.not_read is not None
        assert (proof.holds, proof.not_read.code) == (False, "UNAVAILABLE")
    finally:
        pool.limits = kept
    assert await code(pool, unseen()) == "Reading"


@pytest.mark.in_turn(3)
async def test_more_than_a_parser_takes_wait_for_their_turn(pool: ReaderPool) -> None:
    kept, pool.limits = pool.limits, replace(pool.limits, max_in_flight=2)
    try:
        asked = [asyncio.create_task(code(pool, unseen())) for _ in range(300)]
        largest = 0
        while not all(one.done() for one in asked):
            await asyncio.sleep(0)
            largest = max(largest, pool.in_flight)
    finally:
        pool.limits = kept
    assert {one.result() for one in asked} == {"Reading"}
    assert largest == 2


@pytest.mark.in_turn(3)
async def test_who_waits_too_long_for_a_turn_is_told_so_and_nothing_is_killed(pool: ReaderPool) -> None:
    await until(lambda: pool.healthy)
    before = pool.pids
    async with without_limits(pool, deadline_s=patience(300)):
        pool.limits = replace(pool.limits, max_in_flight=1, wait_s=0.01)
        slow = asyncio.create_task(pool.read(SLOW))
        await until(lambda: pool.in_flight == 1)
        answer = await pool.read(unseen())
        assert isinstance(answer, NotRead)
        assert (answer.code, answer.message) == (
            "UNAVAILABLE",
            "the parser service is busy with other statements; try again",
        )
        proof = await pool.prove("SELECT 7", "SELECT 7", [], [])
        assert proof.not_read is not None
        assert pool.pids == before
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
    # Nobody wants that answer any more, and the parser would work on it for minutes.
    os.kill(before[0], signal.SIGKILL)
    await until(lambda: pool.pids != before)
    assert await code(pool, unseen()) == "Reading"


@pytest.mark.in_turn(3)
async def test_some_who_wait_go_away_and_the_others_have_their_turn(pool: ReaderPool) -> None:
    kept, pool.limits = pool.limits, replace(pool.limits, max_in_flight=1)
    try:
        asked = [asyncio.create_task(code(pool, unseen())) for _ in range(30)]
        await asyncio.sleep(0)
        for one in asked[::3]:
            one.cancel()
        answers = await asyncio.gather(*asked, return_exceptions=True)
    finally:
        pool.limits = kept
    assert {str(answer) for answer in answers} <= {"Reading", ""}
    assert answers.count("Reading") == 20


async def test_a_question_that_many_ask_together_is_asked_once(pool: ReaderPool) -> None:
    text = unseen()
    with patch.object(ParserProcess, "ask", autospec=True, side_effect=ParserProcess.ask) as ask:
        asked = [asyncio.create_task(pool.read(text)) for _ in range(300)]
        await asyncio.sleep(0)
        asked[0].cancel()  # who asked first goes away, and the others have their answer all the same
        answers = await asyncio.gather(*asked[1:])
    assert ask.call_count == 1
    assert all(isinstance(answer, Reading) and answer is answers[0] for answer in answers)


async def test_a_cancelled_request_leaves_nothing_behind(pool: ReaderPool) -> None:
    task = asyncio.create_task(pool.read(unseen()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await code(pool, unseen()) == "Reading"
    assert pool.in_flight == 0


@settings(max_examples=tries(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=200))
async def test_any_text_has_an_answer(pool: ReaderPool, text: str) -> None:
    assert isinstance(await pool.read(text), Reading | NotParsed | NotRead)


WORDS = st.sampled_from(
    "SELECT FROM WHERE ( ) , . * t u a `b` 'c' 1 1.5 AS JOIN ON WITH TABLE VALUES UNION ALL IN EXISTS CASE"
    " WHEN THEN END LATERAL VIEW explode PIVOT FOR GROUP BY ORDER LIMIT INSERT INTO UPDATE SET DELETE MERGE"
    " USING CREATE VIEW DROP SHOW TABLES |> -> => :: [ ] < > = + - NOT NULL ; /* */ -- IDENTIFIER STREAM"
    " VERSION OF TABLESAMPLE PERCENT OVER PARTITION @v1 : ? /*+ INTERVAL DAY DATE TRANSFORM EXPLAIN DESCRIBE"
    .split()
)  # fmt: skip


@settings(
    max_examples=tries(1500), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(WORDS, max_size=25).map(" ".join))
async def test_any_heap_of_words_has_an_answer_and_is_its_own_proof(pool: ReaderPool, text: str) -> None:
    answer = await pool.read(text)
    assert isinstance(answer, Reading | NotParsed | NotRead)
    if isinstance(answer, Reading):
        for relation in answer.relations:
            if relation.span is not None:
                assert 0 <= relation.span.start < relation.span.end <= len(text)
        names = {one.parts for one in answer.relations}
        proof = await pool.prove(text, text, [], names)
        # Closures cannot be compared, and scripts have random labels: refused, as by the allow-lists.
        assert (
            proof.holds
            or answer.nodes & {"PlanWithUnresolvedIdentifier", "CompoundBody"}
            or any(node.startswith("?") for node in answer.nodes)
        ), proof.why


@pytest.mark.in_turn(3)
async def test_two_processes_share_the_work_and_stand_in_for_each_other() -> None:
    async with ReaderPool(size=2, heap="256m", threads=1) as pool:
        assert len(set(pool.pids)) == 2
        os.kill(pool.pids[0], signal.SIGKILL)
        answers = await asyncio.gather(*(code(pool, f"SELECT {i}") for i in range(50)))
        assert set(answers) == {"Reading"}
        pids = pool.pids
    assert not pool.healthy
    await until(lambda: not any(map(alive, pids)))
    assert await code(pool, unseen()) == "UNAVAILABLE"


async def test_who_was_asked_nothing_yet_when_a_process_died_is_not_blamed() -> None:
    """A text alone in a process that ends may have killed it: not one that it never read, nor one that comes
    between its end and its replacement."""
    async with ReaderPool(size=2, heap="256m", threads=1) as pool:
        first = pool.pids[0]
        os.kill(first, signal.SIGSTOP)
        # A thread that waits for bytes takes those that come before it has stopped.
        await until(lambda: is_stopped(first))
        asked = asyncio.create_task(code(pool, unseen()))
        await until(lambda: pool.in_flight == 1)
        os.kill(first, signal.SIGKILL)
        assert await asked == "Reading"
        await until(lambda: len(pool.pids) == 2)
        pool._processes[0]._end()
        assert await code(pool, unseen()) == "Reading"


async def test_a_pool_that_was_never_started() -> None:
    pool = ReaderPool()
    assert not pool.healthy
    assert await code(pool, unseen()) == "UNAVAILABLE"
    with pytest.raises(BackendUnavailable):
        _ = pool.spark_version
    with pytest.raises(BackendUnavailable):
        await contexts(pool, "SELECT 1")
    await pool.close()


async def test_start_tells_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(JavaNotFound, match="setting"):
        await ReaderPool(java=tmp_path / "java").start()
    with pytest.raises(JavaNotFound, match="spark-catalyst"):
        await ReaderPool(spark_home=tmp_path).start()
    (tmp_path / "jars").mkdir()
    jar = tmp_path / "jars" / "spark-catalyst_2.13-9.9.0.jar"
    jar.write_bytes(b"not a jar")
    with pytest.raises(
        UnsupportedSpark, match=r"Spark 9\.9\.0 is not supported; this gateway supports Spark 3"
    ):
        await ReaderPool(spark_home=tmp_path).start()
    jar.rename(jar.with_name("spark-catalyst_2.13-4.3.0.jar"))
    with pytest.raises(BackendUnavailable) as told:
        await ReaderPool(spark_home=tmp_path).start()
    assert told.value.message.startswith("the parser service of Spark 4.3.0 does not start: ")
    assert "ClassNotFoundException" in told.value.message
    assert re.findall(r"\n| \| |\tat ", told.value.message) == []
    with pytest.raises(BackendUnavailable, match=r"does not start: Too small maximum heap$"):
        await ReaderPool(spark_home=tmp_path, heap="1m").start()


async def test_a_line_that_comes_in_pieces_is_one_line() -> None:
    """A JVM writes a line and its end apart, so that a read may return the end of one alone."""
    errors = asyncio.StreamReader()
    socket = MagicMock()
    process = ParserProcess(SimpleNamespace(stderr=errors), socket, socket)  # type: ignore[arg-type]
    for piece in (
        b"Error occurred during init",
        b"ialization of VM",
        b"\nToo small",
        b" maximum heap",
        b"\n",
    ):
        errors.feed_data(piece)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert process.reason == "Too small maximum heap"
    errors.feed_data(b"without an end")
    errors.feed_eof()
    await asyncio.gather(*process._tasks)
    assert process.last_words.endswith("Too small maximum heap | without an end")


@pytest.mark.in_turn(3)
async def test_jars_of_another_minor_than_their_names_say_are_refused(tmp_path: Path) -> None:
    home = find_spark_home()
    other = next(minor for minor in SUPPORTED if minor != minor_of(spark_version(home)))
    (tmp_path / "jars").mkdir()
    for jar in (home / "jars").glob("*.jar"):
        is_named = jar.name.startswith("spark-catalyst_")
        said = re.sub(r"-\d.*", f"-{other}.9.jar", jar.name) if is_named else jar.name
        (tmp_path / "jars" / said).symlink_to(jar)
    says = rf"jars are of Spark \d\.\d\.\d+ and not {re.escape(f'{other}.9')}$"
    with pytest.raises(BackendUnavailable, match=says):
        await ReaderPool(spark_home=tmp_path).start()


async def test_the_parser_dies_with_its_gateway() -> None:
    """Also when the gateway is killed outright, so that nothing of it runs on."""
    program = (
        "import asyncio\n"
        "from gateway.reader.pool import ReaderPool\n"
        "async def main():\n"
        "    pool = ReaderPool(heap='256m', threads=1)\n"
        "    await pool.start()\n"
        "    print(*pool.pids, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    gateway = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert gateway.stdout is not None
    pid = int(await gateway.stdout.readline())
    assert alive(pid)
    gateway.kill()
    await gateway.wait()
    await until(lambda: not alive(pid))


async def test_what_was_read_or_proved_is_not_asked_again() -> None:
    text, broken = "SELECT a FROM t", "SELEC 1"
    async with ReaderPool(limits=ReaderLimits(deadline_s=patience(30))) as small:
        reading = await small.read(text)
        assert (await small.prove(text, text, [], [("t",)])).holds
        assert not (await small.prove(text, text, [], [])).holds
        await small.read(broken)
        await small.close()
        assert await small.read(text) is reading
        assert (await small.prove(text, text, [], [("t",)])).holds
        # What was refused may be otherwise the next time, and another question is another answer.
        assert isinstance(await small.read(broken), NotRead)
        assert isinstance(await small.read_expression(text), NotRead)
        assert not (await small.prove(text, text, [], [("t",), ("u",)])).holds
        assert not (await small.prove(text, text, [], [("t",)], expression=True)).holds


async def test_a_pool_that_is_closed_as_soon_as_it_is_there_leaves_no_process() -> None:
    pool = patient_reader()
    await pool.start()
    pids = pool.pids
    await pool.close()
    assert len(pids) == 1
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_what_the_grammar_remembers_of_texts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new shape of statement adds a few dozen states. Since 4.1 Spark forgets them by itself."""
    if minor_of(spark_version(find_spark_home())) >= (4, 1):
        return
    most = 1000

    def bounded(*arguments: Any, **more: Any) -> list[str]:
        java, *rest = command(*arguments, **more)
        return [java, f"-Dsluice.states={most}", *rest]

    monkeypatch.setattr("gateway.reader.process.command", bounded)
    shapes = itertools.product(SHAPES, SHAPES, ("+", "AND", "LIKE", "<=>", "||"))
    states = []
    async with patient_reader() as pool:
        for one, other, operator in itertools.islice(shapes, 0, None, 2):
            text = f"SELECT {one} {operator} {other}, {other} FROM t WHERE {other} {operator} {one}"
            assert isinstance(await pool.read(text), Reading)
            states.append(await prediction_states(pool))
        assert max(states) < most + 300
        assert any(after < before for before, after in itertools.pairwise(states))
        assert isinstance(await pool.read("SELECT 1 + a FROM t"), Reading)
