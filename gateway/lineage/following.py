"""Follows the audit record: makes the lineage of each statement that has ended, for the graph.

Nothing but the record feeds it. What was not made when the gateway ended is in the queue at the next start,
and a statement that is made twice counts once. So it may fail, and a gateway may be killed, at any point.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeGuard
from uuid import UUID

import asyncpg
import structlog

from gateway.lineage.called_functions import read_temporary
from gateway.lineage.gathering import GatheredLineage, Gatherer
from gateway.lineage.recorded import NOT_FORWARDED, TOO_MUCH, RecordedStatement, read_statement
from gateway.lineage.rows import MAX_EDGES, SeenStatement
from gateway.lineage.sinks import LineageSink
from gateway.lineage.store import KnownIds, store_lineage
from gateway.lineage.workers import HasLineage, LineageWorkers
from gateway.model.audit import AuditEvent
from gateway.model.catalog import CatalogSnapshot, TableName
from gateway.model.lineage import Operation, StatementLineage
from gateway.model.reading import NotRead
from gateway.model.statement import PlanRequest
from gateway.sql.names import Names

log = structlog.get_logger(__name__)

NO_MAKERS: Mapping[str, RecordedStatement] = {}

_REFUSALS = (
    asyncpg.DataError,
    asyncpg.ProgramLimitExceededError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.OutOfMemoryError,
    asyncpg.QueryCanceledError,
    TimeoutError,
    TypeError,
    ValueError,
    OverflowError,
)
"""What PostgreSQL, or asyncpg's encoders, answer when a value is at fault, or takes too much, and not the
server or the way."""
MAX_VIEW_DEPTH = 32
"""Temporary views and cached relations that are made of each other."""


class EndedStatement(Protocol):
    """A statement that has ended, with what the record has of it."""

    @property
    def statement_id(self) -> UUID: ...

    @property
    def attempts(self) -> int:
        """How often making its lineage has failed."""
        ...

    @property
    def decided(self) -> AuditEvent | None:
        """None when the record no longer has it."""
        ...

    @property
    def end(self) -> AuditEvent | None: ...


class Queue(Protocol):
    """Statements of the record whose lineage is to be made; each method takes a connection to it and may
    raise what that raises."""

    async def take(self, connection: Any, limit: int) -> Sequence[EndedStatement]:
        """Return the gateway's own, those first that have waited longest."""
        ...

    async def take_abandoned(self, connection: Any, limit: int) -> Sequence[EndedStatement]:
        """Return those that any gateway has left."""
        ...

    async def load_decided(self, connection: Any, statement_id: UUID) -> AuditEvent | None:
        """Return the decision on a statement; None when the record does not have it."""
        ...

    async def dequeue(self, connection: Any, statements: Iterable[UUID]) -> None:
        """Take statements out."""
        ...

    async def postpone(self, connection: Any, statements: Iterable[UUID], pause_s: float) -> None:
        """Let statements wait for another attempt."""
        ...

    async def measure_backlog(self, connection: Any) -> tuple[int, float]:
        """Return how many of the gateway's own wait, and for how many seconds the oldest has."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerLimits:
    """Sizes and times of following."""

    batch: int = 50
    """Statements that are read and made at once: what is in memory."""
    brought: int = 10
    """Statements of one transaction of the graph: their parameters are made on the event loop."""
    poll_s: float = 1.0
    """Seconds between looks at the queue, unless the last batch was full: a few statements cost as much as
    one."""
    left_s: float = 60.0
    """Seconds between looks at what other gateways have left, while there is nothing of one's own."""
    attempts: int = 5
    """Attempts after which a statement is given up; the record still has it."""
    retry_s: float = 2.0
    """Seconds before the second attempt; each further one comes after twice the time."""
    first_pause_s: float = 0.2
    longest_pause_s: float = 10.0
    """Seconds between attempts to reach the database."""
    sink_attempts: int = 3
    sink_timeout_s: float = 30.0
    """Seconds that a sink has to take a batch."""
    views: int = 256
    """Lineages of temporary views and cached relations that are kept, for statements that read them."""


@dataclass(slots=True)
class FollowerMetrics:
    """How following goes, for metrics and the readiness page."""

    made: int = 0
    """Statements whose columns are known."""
    table_level: int = 0
    """Statements of which only tables are known."""
    without: int = 0
    """Statements that move no rows and show none, or that Spark never received."""
    lost: int = 0
    """Statements that were given up."""
    not_sunk: int = 0
    """Statements that a sink did not take, counted for each sink."""
    waiting: int = 0
    oldest_s: float = 0.0
    """Seconds for which the oldest of them has waited."""
    error: str = ""
    """Why nothing is followed at the moment; empty when it is."""


class _Unmade(Exception):
    """Why a statement has no lineage now; another attempt may have it."""


class _Hopeless(Exception):
    """Why a statement never will have."""


@dataclass(slots=True, kw_only=True)
class Follower:
    """Follows one gateway's part of the record. `run` never returns; cancel it."""

    connect: Callable[[], Awaitable[Any]]
    """Returns a connection to the record and the graph, whose tables are there. Its errors are temporary."""
    queue: Queue
    gatherer: Gatherer
    workers: LineageWorkers
    sinks: Sequence[LineageSink] = ()
    limits: FollowerLimits = field(default_factory=FollowerLimits)
    metrics: FollowerMetrics = field(default_factory=FollowerMetrics)
    _views: OrderedDict[UUID, StatementLineage | None] = field(default_factory=OrderedDict)
    _known: KnownIds = field(default_factory=KnownIds)
    _broken: set[int] = field(default_factory=set)
    """Positions of the sinks that did not take their last batch."""
    _left_at: float = float("-inf")
    _counted_at: float = float("-inf")
    _record: asyncio.Lock = field(default_factory=asyncio.Lock)
    """A connection answers one question at a time."""

    async def run(self) -> None:
        """Connect and follow, and begin again after any failure."""
        pause = self.limits.first_pause_s
        while True:
            connection = None
            followed = 0
            try:
                connection = await self.connect()
                self.metrics.error = ""
                while True:
                    if await self.step(connection) < self.limits.batch:
                        await asyncio.sleep(self.limits.poll_s)
                    followed += 1
            except Exception as error:  # noqa: BLE001 - root of the task; asyncpg leaks its inner errors
                self.metrics.error = _why(error)
                log.warning("lineage_interrupted", error=self.metrics.error, pause_s=pause)
            finally:
                if connection is not None:
                    connection.terminate()
            if followed:
                pause = self.limits.first_pause_s
            await asyncio.sleep(pause)
            pause = min(2 * pause, self.limits.longest_pause_s)

    async def step(self, connection: Any) -> int:
        """Make the lineage of the next statements; return how many there were."""
        waiting = await self.queue.take(connection, self.limits.batch)
        if not waiting and self._looks_for_left():
            waiting = await self.queue.take_abandoned(connection, self.limits.batch)
        await self._count(connection)
        if not waiting:
            return 0
        seen, unmade = await self._trace_waiting(connection, waiting)
        if seen:
            brought = [
                taken
                for first in range(0, len(seen), self.limits.brought)
                for taken in await self._bring(connection, seen[first : first + self.limits.brought])
            ]
            refused = {one.statement_id for one in seen} - {one.statement_id for one in brought}
            for one in waiting:
                if one.statement_id in refused:
                    self._again(one, "the database does not accept it", unmade)
            await self._sink(brought)
        failed = {one.statement_id for one in unmade}
        await self.queue.dequeue(
            connection, [w.statement_id for w in waiting if w.statement_id not in failed]
        )
        for one in unmade:
            await self.queue.postpone(connection, [one.statement_id], self.limits.retry_s * 2**one.attempts)
        return len(waiting)

    def _looks_for_left(self) -> bool:
        now = time.monotonic()
        if now - self._left_at < self.limits.left_s:
            return False
        self._left_at = now
        return True

    async def _count(self, connection: Any) -> None:
        now = time.monotonic()
        if now - self._counted_at >= self.limits.poll_s:
            self._counted_at = now
            self.metrics.waiting, self.metrics.oldest_s = await self.queue.measure_backlog(connection)

    # -- making ------------------------------------------------------------------------------------------

    async def _trace_waiting(
        self, connection: Any, waiting: Sequence[EndedStatement]
    ) -> tuple[list[SeenStatement], list[EndedStatement]]:
        """Return what has lineage, and what is to be tried again."""
        seen: list[SeenStatement] = []
        unmade: list[EndedStatement] = []
        limit = asyncio.Semaphore(2 * self.workers.processes)

        async def one(statement: EndedStatement) -> None:
            async with limit:
                try:
                    found = await self._one(connection, statement)
                except _Unmade as why:
                    self._again(statement, str(why), unmade)
                except _Hopeless as why:
                    self._lose(statement, str(why))
                except Exception as error:  # noqa: BLE001 - one statement must not keep all others waiting
                    self._again(statement, _why(error), unmade)
                else:
                    self._tally(found)
                    if found is not None:
                        seen.append(found)

        async with asyncio.TaskGroup() as group:
            for statement in waiting:
                group.create_task(one(statement))
        return seen, unmade

    def _again(self, statement: EndedStatement, why: str, unmade: list[EndedStatement]) -> None:
        if statement.attempts + 1 < self.limits.attempts:
            unmade.append(statement)
            log.warning("lineage_unmade", statement_id=str(statement.statement_id), reason=why)
        else:
            self._lose(statement, why)

    def _lose(self, statement: EndedStatement, why: str) -> None:
        self.metrics.lost += 1
        log.error("lineage_lost", statement_id=str(statement.statement_id), reason=why)

    def _tally(self, seen: SeenStatement | None) -> None:
        if seen is None:
            self.metrics.without += 1
        elif seen.lineage.table_level:
            self.metrics.table_level += 1
        else:
            self.metrics.made += 1

    async def _one(self, connection: Any, waiting: EndedStatement) -> SeenStatement | None:
        if waiting.decided is None:
            raise _Hopeless("the record no longer has its decision")
        statement = await asyncio.to_thread(_read, waiting.decided, waiting.end)
        if statement.outcome == NOT_FORWARDED:
            return None
        lineage = await self._lineage(connection, statement, depth=0)
        return build_seen_statement(statement, lineage) if counts(lineage, statement) else None

    async def _lineage(
        self, connection: Any, statement: RecordedStatement, depth: int
    ) -> StatementLineage | None:
        if statement.tables_only is not None:
            return statement.tables_only
        views = await self._trace_makers(connection, statement.temp_views, depth)
        kept = await self._trace_makers(connection, statement.relations, depth)
        makers = await self._load_makers(connection, statement.functions)
        gathered = await gather(self.gatherer, statement, views, kept, makers)
        if isinstance(gathered, str):
            # Its own words may quote the statement, which no log has.
            raise _Unmade("it could not be parsed")
        return await make(self.workers, statement, gathered)

    async def _trace_makers(
        self, connection: Any, made_by: Mapping[str, UUID], depth: int
    ) -> dict[str, StatementLineage]:
        """Return the lineage of the statements that made temporary views, or cached relations; those of which
        the record no longer has it are not among them."""
        found: dict[str, StatementLineage] = {}
        if depth >= MAX_VIEW_DEPTH:
            return found
        for name, statement_id in made_by.items():
            if statement_id in self._views:
                self._views.move_to_end(statement_id)
                lineage = self._views[statement_id]
            else:
                lineage = await self._maker(connection, statement_id, depth)
                self._keep(statement_id, lineage)
            if lineage is not None:
                found[name] = lineage
        return found

    async def _load_makers(
        self, connection: Any, made_by: Mapping[str, UUID]
    ) -> dict[str, RecordedStatement]:
        """Return the statements that made temporary functions, of those that the record still has."""
        found = {}
        for name, statement_id in made_by.items():
            async with self._record:
                event = await self.queue.load_decided(connection, statement_id)
            if event is not None:
                with contextlib.suppress(_Hopeless):
                    found[name] = await asyncio.to_thread(_read, event, None)
        return found

    async def _maker(self, connection: Any, statement_id: UUID, depth: int) -> StatementLineage | None:
        async with self._record:
            event = await self.queue.load_decided(connection, statement_id)
        if event is None:
            return None
        try:
            return await self._lineage(connection, await asyncio.to_thread(_read, event, None), depth + 1)
        except _Hopeless:
            return None

    def _keep(self, statement_id: UUID, lineage: StatementLineage | None) -> None:
        if lineage is not None and sum(len(edge.sources) for edge in lineage.edges) > MAX_EDGES:
            return  # rarely so many; it is made again where it is read
        self._views[statement_id] = lineage
        if len(self._views) > self.limits.views:
            self._views.popitem(last=False)

    async def _bring(self, connection: Any, seen: Sequence[SeenStatement]) -> list[SeenStatement]:
        """Bring statements into the graph; return those that the database took."""
        try:
            await store_lineage(connection, seen, self._known)
        except _REFUSALS as error:
            if len(seen) == 1:
                log.error("lineage_refused", statement_id=str(seen[0].statement_id), error=_why(error))
                return []
            return [taken for one in seen for taken in await self._bring(connection, [one])]
        return list(seen)

    # -- sinks -------------------------------------------------------------------------------------------

    async def _sink(self, seen: Sequence[SeenStatement]) -> None:
        """Give every sink what the graph has; one that has failed before gets one attempt."""
        for position, sink in enumerate(self.sinks):
            attempts = 1 if position in self._broken else self.limits.sink_attempts
            for attempt in range(attempts):
                if attempt:
                    await asyncio.sleep(self.limits.first_pause_s * 2**attempt)
                try:
                    async with asyncio.timeout(self.limits.sink_timeout_s):
                        await sink.put(seen)
                except Exception as error:  # noqa: BLE001 - whatever a sink raises, the graph goes on
                    log.warning("lineage_sink_failed", sink=type(sink).__name__, error=_why(error))
                else:
                    self._broken.discard(position)
                    break
            else:
                self._broken.add(position)
                self.metrics.not_sunk += len(seen)


def _read(decided: AuditEvent, end: AuditEvent | None) -> RecordedStatement:
    try:
        return read_statement(decided, end)
    except ValueError as error:
        raise _Hopeless(str(error)) from None


async def gather(
    gatherer: Gatherer,
    statement: RecordedStatement,
    views: Mapping[str, StatementLineage],
    kept: Mapping[str, StatementLineage],
    makers: Mapping[str, RecordedStatement] = NO_MAKERS,
) -> HasLineage | str:
    """Gather what a recorded statement's lineage is made of: by what the record says of its names, else by
    the gatherer's own look-up. Returns why, where there is no reading of it.

    `views`, `kept`: the lineage of the temporary views and cached relations that it reads; `makers`: the
    statements that made temporary functions which it calls.
    """
    tables = statement.tables if statement.tables is not None else {} if statement.over else None
    masks = statement.masks
    functions = {}
    for name, maker in makers.items():
        names = Names(maker.context, gatherer.known_catalogs)
        found = await read_temporary(name, maker.text, names, gatherer.reader)
        if found is not None:
            functions[name] = found
            # What it reads is what it was where it was made.
            tables = None if tables is None else {**(maker.tables or {}), **tables}
            masks = {**maker.masks, **masks}
    if tables is not None:
        snapshot = CatalogSnapshot(version=0, catalogs=gatherer.known_catalogs, tables=tables)

        async def look_up(names: Sequence[TableName]) -> CatalogSnapshot:
            return snapshot

        gatherer = replace(gatherer, look_up=look_up)
    if statement.plan is None:
        gathered = await gatherer.gather(statement.text, statement.context, views, masks, functions)
        return gathered if isinstance(gathered, GatheredLineage) else gathered.message
    # Spark Connect's messages take a second to import: only where there are plans.
    from gateway.lineage.gathering_plans import GatheredPlan, gather_plan

    request = PlanRequest(kind="execute", message=statement.plan)
    plan = await gather_plan(gatherer, request, statement.context, views, kept, statement.masks)
    if isinstance(plan, GatheredPlan):
        return plan
    return plan.message if isinstance(plan, NotRead) else plan.why


async def make(
    workers: LineageWorkers, statement: RecordedStatement, gathered: HasLineage
) -> StatementLineage | None:
    """Return the lineage of a recorded statement; None where there is none."""
    if statement.over:
        return gathered.table_lineage(TOO_MUCH)
    return await workers.lineage(gathered)


def counts(lineage: StatementLineage | None, statement: RecordedStatement) -> TypeGuard[StatementLineage]:
    """Whether a recorded statement's lineage belongs into the graph: not that of a query that is not run."""
    return lineage is not None and (lineage.operation is not Operation.QUERY or statement.runs_queries)


def build_seen_statement(statement: RecordedStatement, lineage: StatementLineage) -> SeenStatement:
    """Return a recorded statement with its lineage, as the graph takes it."""
    return SeenStatement(
        statement_id=statement.statement_id,
        time=statement.time,
        user=statement.user,
        text=statement.text,
        is_sql=statement.is_sql,
        session_id=statement.session_id,
        outcome=statement.outcome,
        ended=statement.ended,
        error=statement.error,
        lineage=lineage,
    )


def _why(error: BaseException) -> str:
    """Name an error without its text, which may quote a statement."""
    if isinstance(error, BaseExceptionGroup):
        return _why(error.exceptions[0])
    return f"{type(error).__name__}: {error}" if isinstance(error, OSError) else type(error).__name__
