"""The reader that the pipeline asks: parser processes that are replaced when they die or answer late."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import structlog

from gateway.errors import BackendUnavailable
from gateway.model.bounded import BoundedDict
from gateway.model.closing import Closing
from gateway.model.reading import (
    NotRead,
    Proof,
    Reading,
    ReadingAnswer,
    ScriptReading,
    Splice,
    UnnamedColumn,
)
from gateway.model.reading_time import count_reading
from gateway.model.spark_configuration import ParserConfiguration
from gateway.model.spark_minors import find_supported_minor, minor_of
from gateway.model.tracing import trace
from gateway.reader.java_runtime import find_java, find_spark_home, spark_version
from gateway.reader.limits import ReaderLimits, refuse
from gateway.reader.parsers import Parsers
from gateway.reader.process import ParserGone, ParserProcess
from gateway.reader.replies import (
    Hello,
    JsonReply,
    build_reading,
    column_names_of,
    proof_of,
    proof_request,
    script_of,
)
from gateway.reader.splicing import apply_splices

log = structlog.get_logger(__name__)

Answer = TypeVar(
    "Answer", Proof, ReadingAnswer, tuple[UnnamedColumn, ...] | NotRead, ScriptReading | NotRead | None
)

_Kept = Reading | Proof | tuple[UnnamedColumn, ...]

BACK_OFF_S = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Pauses before a process is started: the first after one died, the others after starts that failed."""
MAX_TRIES = 4
"""Processes that are asked one question, of those that end meanwhile; two where it may be to blame."""
KEPT_ANSWERS = 4096
"""Readings and proofs that are kept: masks and filters come again with every statement, and a client of Spark
Connect sends the same SQL with every action on its DataFrame."""
KEPT_CHARS = 10_000
"""Longest text whose reading or proof is kept."""


@dataclass(slots=True)
class _Question:
    """A request under way, and how many want its answer."""

    answer: asyncio.Task[Any]
    wanted: int = 0


class ReaderPool(Closing):
    """Implements ReaderPort with `size` JVMs.

    A process takes a few requests at a time; the others wait for their turn, in order, and the same question
    is asked once for all who ask it meanwhile. A request that is not answered within the deadline, counted
    from when a process took it, is answered `TIMEOUT`, and its process is killed: there is no other way to
    stop a parser. Requests that were beside it in that process are asked again of another one; one that was
    alone when its process died is not, because it may be what killed it.
    """

    def __init__(
        self,
        spark_home: str | os.PathLike[str] | None = None,
        java: str | os.PathLike[str] | None = None,
        size: int = 1,
        limits: ReaderLimits | None = None,
        *,
        extensions: Sequence[str] = (),
        jars: Sequence[Path] = (),
        heap: str = "512m",
        threads: int = 2,
    ) -> None:
        if size < 1 or threads < 1:
            raise ValueError("the parser service needs at least one process with one thread")
        self._spark_home = spark_home
        self._extensions = tuple(extensions)
        self._jars = tuple(jars)
        self._java = java
        self._size = size
        self.limits = limits or ReaderLimits()
        self._heap = heap
        self._threads = threads
        self._version = ""
        """Of the jars, once they are found."""
        self._processes: list[ParserProcess] = []
        self._keepers: list[asyncio.Task[None]] = []
        self._ready = asyncio.Event()
        self._hello: Hello | None = None
        self._kept: BoundedDict[Hashable, _Kept] = BoundedDict(KEPT_ANSWERS)
        self._questions: dict[Hashable, _Question] = {}
        self._turns: deque[asyncio.Future[None]] = deque()

    @property
    def parsers(self) -> Parsers:
        """The jars that its processes are made of. Raises JavaNotFound."""
        return Parsers(
            spark_home=find_spark_home(self._spark_home), extensions=self._extensions, jars=self._jars
        )

    async def start(self) -> None:
        """Find Java and Spark, and wait until every process answers.

        Raises JavaNotFound, UnsupportedSpark, and BackendUnavailable when a process does not come up.
        """
        java = find_java(self._java)
        parsers = self.parsers
        self._version = spark_version(parsers.spark_home)
        find_supported_minor(self._version)
        launched = await asyncio.gather(
            *(self._launch(java, parsers) for _ in range(self._size)), return_exceptions=True
        )
        up = [process for process in launched if isinstance(process, ParserProcess)]
        if len(up) < self._size:
            await asyncio.gather(*(process.kill() for process in up))
            fault = next(fault for fault in launched if isinstance(fault, BaseException))
            raise BackendUnavailable(
                f"the parser service of Spark {self._version} does not start: {fault}"
            ) from fault
        self._hello = up[0].hello
        for process in up:
            self._join(process)
            self._keepers.append(asyncio.create_task(self._keep(process, java, parsers)))

    async def close(self) -> None:
        """End every process. Requests under way are answered as unavailable."""
        keepers, self._keepers = self._keepers, []
        # One that is cancelled before its first step would never end its process.
        await asyncio.sleep(0)
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
        self._ready.set()  # whoever waits for a process learns that none will come
        while self._turns:
            self._next_turn()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    @property
    def healthy(self) -> bool:
        """Whether at least one process can be asked now."""
        return bool(self._processes)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the JVMs that can be asked now."""
        return tuple(process.pid for process in self._processes)

    @property
    def in_flight(self) -> int:
        """Requests that wait for a process's answer now."""
        return sum(process.in_flight for process in self._processes)

    @property
    def spark_version(self) -> str:
        return self._get_hello.spark_version

    @property
    def configuration(self) -> ParserConfiguration:
        """What the parser is, which a Spark's has to be as well."""
        hello = self._get_hello
        return ParserConfiguration(
            version=hello.spark_version, extensions=hello.extensions, parsers=hello.parsers
        )

    @property
    def keywords(self) -> tuple[str, ...]:
        """Every word of Spark's grammar."""
        return self._get_hello.keywords

    @property
    def builtin_functions(self) -> frozenset[str]:
        """Names in Spark's built-in scalar and aggregate registry, lower case."""
        return self._get_hello.functions

    async def read(self, text: str) -> ReadingAnswer:
        return await self._read("read", text)

    async def read_expression(self, text: str) -> ReadingAnswer:
        """Read one expression."""
        return await self._read("expression", text)

    async def column_names(
        self, text: str, *, expression: bool = False
    ) -> tuple[UnnamedColumn, ...] | NotRead:
        key = ("names", text, expression)
        known = self._find_known_answer(key)
        if isinstance(known, tuple):
            return known
        if refusal := refuse(text, self.limits):
            return refusal

        async def ask() -> tuple[UnnamedColumn, ...] | NotRead:
            reply = await self._ask("names", {"text": text, "expression": expression})
            if isinstance(reply, NotRead):
                return reply
            names = column_names_of(reply)
            self._keep_answer(key, names, len(text))
            return names

        return await self._once(key, ask)

    async def large_tree(self, text: str, *, expression: bool = False) -> bytes | NotRead | None:
        if refusal := refuse(text, self.limits):
            return refusal
        reply = await self._ask("tree", {"text": text, "expression": expression})
        return reply if isinstance(reply, NotRead) else reply.get("tree")

    async def read_script(self, text: str) -> ScriptReading | NotRead | None:
        if refusal := refuse(text, self.limits):
            return refusal

        async def ask() -> ScriptReading | NotRead | None:
            reply = await self._ask("script", {"text": text})
            return reply if isinstance(reply, NotRead) else script_of(reply)

        return await self._once(("script", text), ask)

    async def prove(
        self,
        original: str,
        rewritten: str,
        splices: Sequence[Splice],
        allowed: Collection[tuple[str, ...]],
        *,
        expression: bool = False,
    ) -> Proof:
        key = (original, rewritten, tuple(splices), frozenset(allowed), expression)
        known = self._find_known_answer(key)
        if isinstance(known, Proof):
            return known
        for text in (original, rewritten, *(splice.query for splice in splices)):
            if refusal := refuse(text, self.limits, growth=2):
                return Proof(holds=False, why=refusal.message, not_read=refusal)
        if apply_splices(original, splices) != rewritten:
            return Proof(
                holds=False, why="the rewritten statement does not equal the original with its splices"
            )
        request = proof_request(original, rewritten, splices, allowed, expression=expression)

        async def ask() -> Proof:
            reply = await self._ask("prove", request)
            if isinstance(reply, NotRead):
                return Proof(holds=False, why=reply.message, not_read=reply)
            proof = proof_of(reply)
            if proof.holds:
                self._keep_answer(key, proof, len(original) + len(rewritten))
            return proof

        return await self._once(key, ask)

    async def fingerprint(self, text: str) -> str | NotRead:
        """Return a text without literals, comments and spaces, as Spark's lexer tells them. It need not be a
        statement."""
        if refusal := refuse(text, self.limits):
            return refusal
        reply = await self._ask("fingerprint", {"text": text})
        if isinstance(reply, NotRead):
            return reply
        if reply["kind"] != "answer":
            return NotRead("PARSER_FAILED", "Spark's lexer failed on this statement")
        found: str = reply["fingerprint"]
        return found

    @property
    def _get_hello(self) -> Hello:
        if self._hello is None:
            raise BackendUnavailable("the parser service has not been started")
        return self._hello

    async def _read(self, operation: str, text: str) -> ReadingAnswer:
        key = (operation, text)
        known = self._find_known_answer(key)
        if isinstance(known, Reading):
            return known
        if refusal := refuse(text, self.limits):
            return refusal

        async def ask() -> ReadingAnswer:
            reply = await self._ask(operation, {"text": text})
            if isinstance(reply, NotRead):
                return reply
            answer = build_reading(reply, self._get_hello)
            if isinstance(answer, Reading):
                self._keep_answer(key, answer, len(text))
            return answer

        return await self._once(key, ask)

    def _find_known_answer(self, key: Hashable) -> _Kept | None:
        """Return what the parser said to the same question; its answers depend on nothing else."""
        known = self._kept.get(key)
        if known is not None:
            self._kept.move_to_end(key)
        return known

    def _keep_answer(self, key: Hashable, answer: _Kept, chars: int) -> None:
        if chars > KEPT_CHARS:
            return
        self._kept[key] = answer

    async def _once(self, key: Hashable, ask: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """Ask, or wait for the answer to the same question; it is given up when nobody wants it any more."""
        question = self._questions.get(key)
        if question is None:
            question = self._questions[key] = _Question(asyncio.ensure_future(ask()))
        question.wanted += 1
        try:
            with count_reading():
                answer: Answer = await asyncio.shield(question.answer)
            return answer
        finally:
            question.wanted -= 1
            if not question.wanted:
                question.answer.cancel()
            if self._questions.get(key) is question and (question.answer.done() or not question.wanted):
                del self._questions[key]

    async def _ask(self, operation: str, fields: JsonReply) -> JsonReply | NotRead:
        with trace("read", question=operation):
            return await self._ask_process(operation, fields)

    async def _ask_process(self, operation: str, fields: JsonReply) -> JsonReply | NotRead:
        limits = self.limits
        give_up = asyncio.get_running_loop().time() + limits.wait_s
        deaths = 0
        for _ in range(MAX_TRIES):
            try:
                async with asyncio.timeout_at(give_up):
                    asked = await self._idlest()
            except TimeoutError:
                busy = "busy with other statements" if self._processes else "restarting"
                return NotRead("UNAVAILABLE", f"the parser service is {busy}; try again")
            if asked is None:
                return NotRead("UNAVAILABLE", "the parser service is not running")
            try:
                async with asyncio.timeout(limits.deadline_s):
                    return await asked.ask(operation, fields)
            except ParserGone as gone:
                self._leave(asked)
                # INVARIANT (one death for one text): what may have killed a process is not given to another.
                if not gone.was_sent or (asked.has_unread and asked.lost <= 1):
                    continue  # it had ended before it could begin with this
                deaths += 1
                if deaths > 1 or (not asked.condemned and asked.lost <= 1):
                    break
            except TimeoutError:
                log.warning("reader.late", pid=asked.pid, deadline_s=limits.deadline_s)
                self._leave(asked)
                asked.condemn()
                return NotRead(
                    "TIMEOUT", f"the statement could not be parsed within {limits.deadline_s:g} seconds"
                )
            finally:
                self._next_turn()
        return NotRead("UNAVAILABLE", "the parser process crashed on this statement")

    async def _idlest(self) -> ParserProcess | None:
        """Wait for a process that takes one more, in order; None when none will come."""
        first = not self._turns
        while True:
            while not self._processes:
                if not self._keepers:
                    return None  # closed, or never started
                await self._ready.wait()
            process = min(self._processes, key=lambda one: one.in_flight)
            if first and process.in_flight < self.limits.max_in_flight:
                return process
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            # Whoever had a turn and found no room after all keeps the place.
            (self._turns.appendleft if first else self._turns.append)(turn)
            first = True
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():
                    self._next_turn()
                raise

    def _next_turn(self) -> None:
        """Let the first of those who wait look for room."""
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    async def _launch(self, java: Path, parsers: Parsers) -> ParserProcess:
        process = await ParserProcess.launch(
            java, parsers, heap=self._heap, threads=self._threads, start_timeout_s=self.limits.start_timeout_s
        )
        # Names of jars are anybody's to give, and jars may be others when a process is replaced.
        found = process.hello.spark_version
        if minor_of(found) != minor_of(self._version):
            await process.kill()
            raise ParserGone(
                f"the jars in {parsers.spark_home}/jars are of Spark {found} and not {self._version}"
            )
        return process

    async def _keep(self, process: ParserProcess, java: Path, parsers: Parsers) -> None:
        """Own one process: replace it whenever it is gone, end it when this task is cancelled."""
        clock = asyncio.get_running_loop().time
        try:
            while True:
                born = clock()
                await process.gone.wait()
                self._leave(process)
                await process.kill()
                lived_s = round(clock() - born, 3)
                log.warning("reader.gone", pid=process.pid, lived_s=lived_s, said=process.last_words)
                process = await self._replace(java, parsers)
                self._join(process)
        finally:
            self._leave(process)
            await process.kill()

    async def _replace(self, java: Path, parsers: Parsers) -> ParserProcess:
        failures = 0
        while True:
            await asyncio.sleep(BACK_OFF_S[min(failures, len(BACK_OFF_S) - 1)])
            try:
                return await self._launch(java, parsers)
            except ParserGone as error:
                failures += 1
                log.error("reader.start_failed", failures=failures, reason=str(error))

    def _join(self, process: ParserProcess) -> None:
        self._processes.append(process)
        self._ready.set()
        for _ in range(self.limits.max_in_flight):
            self._next_turn()

    def _leave(self, process: ParserProcess) -> None:
        if process in self._processes:
            self._processes.remove(process)
        if not self._processes and self._keepers:
            self._ready.clear()
