"""A session of a Spark Connect client, its executions, analyses and calls, and the answers held of them.

Whose it is, what names and ids mean in it, what runs. No I/O.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.errors import SluiceError
from gateway.model.bounded import BoundedDict
from gateway.model.handles import SparkHandle
from gateway.model.principal import Principal
from gateway.model.spark_logins import SparkLogin
from gateway.model.statement import Cleared, Client, Refused, SessionContext, Statement
from gateway.session.connect.errors import Redaction
from gateway.session.endpoint import DecidedStatement, EndpointOperation, EndpointSession
from gateway.session.failures import CallRefusal, StatementRefused, build_overtaken_error
from gateway.session.identifiers import new_uuid
from gateway.session.ports import PlanBackends
from gateway.session.slots import Slot
from gateway.session.states import Event
from gateway.wire.connect_calls import SessionKey
from gateway.wire.connect_errors import spark_error

MAX_BEFORE_ROWS = 256
"""Responses before the first row, beyond which what fails is not run again."""
MAX_DETAILS = 8
"""Errors of one session whose details are kept for a client that may ask for them."""
_UNKNOWN = frozenset({SparkHandle("query", "")})
"""The handle of no query."""


def list_reported_queries(cleared: Cleared) -> frozenset[SparkHandle] | None:
    """Return the handles of the streaming queries that a plan asks about, by id and run; None: about any."""
    match cleared.plan_class:
        case "StreamingQueryCommand":
            return cleared.handles or _UNKNOWN
        case "StreamingQueryManagerCommand" | "StreamingQueryListenerBusCommand":
            return None
        case _:
            return frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionOptions:
    """By what an operation is known, and how its responses are wanted."""

    operation_id: str = field(default_factory=new_uuid)
    """Lower case, as Spark answers it."""
    client_type: str = ""
    digest: bytes = b""
    """Of the plan: a client that asks again with the same id asks for the same."""
    tags: tuple[str, ...] = ()
    reattachable: bool = False
    chunked: bool = False
    chunk_bytes: int | None = None
    internal: bool = False
    """Whether the gateway reads the answer itself."""


class Preparing:
    """A plan that is being judged. To its client it runs; Spark has not heard of it."""

    def __init__(self, operation_id: str, tags: tuple[str, ...]) -> None:
        self.operation_id = operation_id
        self.tags = tags
        self.interrupted = False
        self.describe_wait: Callable[[], str] = str
        """Says what it waits for, and its place; nothing where it does not wait."""
        self._task = asyncio.current_task()

    def interrupt(self) -> None:
        """Have whoever judges it stop, before Spark gets it."""
        if self._task is not None and not self.interrupted:
            self.interrupted = True
            self._task.cancel()

    def was_interrupted(self) -> bool:
        """Whether it is this that a CancelledError came from, and nothing else ends the task; then that is
        no longer asked of the task."""
        return self.interrupted and self._task is not None and not self._task.uncancel()


class BufferedAnswer:
    """Responses that the gateway holds until the client has released them.

    A bounded list: whoever fills it keeps its size. Readers wait for more; the last response, or `fault`,
    is in place when `done` is set.
    """

    def __init__(self) -> None:
        self._responses: list[tuple[str, bytes]] = []
        self._first = 0
        self._released = ""
        self._changed = asyncio.Event()
        self.size = 0
        self.done = False
        self.fault: Exception | None = None

    def add(self, response_id: str, data: bytes) -> None:
        self._responses.append((response_id, data))
        self.size += len(data)
        self._notify()

    def finish(self, fault: Exception | None = None) -> None:
        """End it, once; every call after the first does nothing."""
        if not self.done:
            self.done, self.fault = True, fault
            self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def wait_for_change(self) -> None:
        await self._changed.wait()

    @property
    def responses(self) -> list[bytes]:
        """What is held at this moment."""
        return [data for _, data in self._responses]

    def position(self, response_id: str) -> int:
        """Return where reading goes on after a response; without one, at the beginning of what is held.

        Raises Spark's error for a response that is not, or no longer, held.
        """
        if not response_id:
            return self._first
        if response_id == self._released:
            return self._first
        for index, (known, _) in enumerate(self._responses):
            if known == response_id:
                return self._first + index + 1
        raise spark_error("INVALID_CURSOR.POSITION_NOT_FOUND", response_id[:64])

    def at(self, position: int) -> bytes | None:
        """Return the response at a position, None when there is none yet."""
        index = position - self._first
        return self._responses[index][1] if 0 <= index < len(self._responses) else None

    def release(self, response_id: str) -> None:
        """Forget the responses up to and with one; of an unknown one nothing."""
        for index, (known, _) in enumerate(self._responses):
            if known == response_id:
                self.size -= sum(len(data) for _, data in self._responses[: index + 1])
                del self._responses[: index + 1]
                self._first += index + 1
                self._released = response_id
                return


class ConnectOperation(EndpointOperation):
    """`ended` is set with its closing event."""

    session: ConnectSession
    cleared: Cleared

    def __init__(
        self,
        session: ConnectSession,
        options: ExecutionOptions,
        decided: DecidedStatement,
        *,
        buffer: BufferedAnswer | None = None,
    ) -> None:
        super().__init__(session, decided.statement_id)
        self.take(decided)
        self.operation_id = options.operation_id
        self.spark_id = options.operation_id
        """Spark's id of it: another one where it was run again, because Spark takes none twice."""
        self.options = options
        self.digest = options.digest
        self.reattachable = options.reattachable
        """Whether the client may come back to it. Its own wish; Spark is asked unless it is buffered."""
        self.queries = list_reported_queries(self.cleared)
        """Handles of the streaming queries that it tells of; None: of all."""
        self.buffer = buffer
        self.task: asyncio.Task[None] | None = None
        """Works off an operation whose answer is buffered."""
        self.farewell: asyncio.Task[None] | None = None
        """Reads on after its client has left, to learn how it ends."""
        self.last_response_id = ""
        """Of those that were relayed."""
        self.reported_bytes = 0
        """Of `relayed_bytes`, what there was when Spark was last told that the client has responses."""
        self.rows_begun = False
        """Whether more was relayed than a schema and word that Spark is at work."""
        self.between_runs = False
        """Whether Spark has nothing of it because of that."""
        self._before_rows: set[str] = set()
        """Ids of the responses that were relayed of the first run, where there may be another."""
        self.resolved = asyncio.Event()
        """Spark has looked up its names: nothing that changes them can reach it any more."""
        self.ended = asyncio.Event()
        self.interrupted = False
        self.released = False
        """The client has let it go; it only has to end."""
        self.readers = 0
        self.reading = 0
        """Number of the reader that has it now; the one before is disconnected, as by Spark."""

    def note_names_resolved(self) -> None:
        """Note that Spark has looked up its names. Raises when it had ended here before, or was overtaken by
        a change: what names meant by then is not known, and nothing of it may be shown."""
        if self.life.ended and not self.names_seen:
            raise spark_error("OPERATION_CANCELED")
        if self.overtaken:
            raise build_overtaken_error(self.statement_id)
        # RULE (script-names-until-end)
        if self.cleared.names_until_end and not self.life.ended:
            return
        if not self.life.ended:
            self.life.apply(Event.ANALYSE)
        self.resolved.set()
        if self.hold.request.read_only:
            self.hold.release()

    @property
    def names_seen(self) -> bool:
        """Whether a response said that Spark has looked up its names."""
        return self.life.analysed

    @property
    def overtaken(self) -> bool:
        """Whether names of the catalog changed before it was known that Spark had looked them up."""
        return self.hold.overtaken and not self.names_seen

    def note_relayed_before_rows(self, response_id: str) -> None:
        """Note a response without rows: should the operation be run again, the client may name it."""
        if self.cleared.policy_tables and not self.ran_again:
            self._before_rows.add(response_id)
            self.rows_begun = self.rows_begun or len(self._before_rows) > MAX_BEFORE_ROWS

    def is_superseded(self, response_id: str) -> bool:
        """Whether a response is one of the first run of what was run again."""
        return self.ran_again and response_id in self._before_rows

    def begin_again(self) -> None:
        """Go back to before it was handed over: Spark has failed it, and nothing of it was shown."""
        self.life.apply(Event.AGAIN)
        self.life.apply(Event.ADMIT)
        self.ran_again = True
        self.spark_id = new_uuid()
        self.last_response_id = ""

    def end_farewell(self) -> None:
        """Read on no more: the client is back, or the end is known."""
        task, self.farewell = self.farewell, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    def hold_slot(self, slot: Slot | None) -> None:
        """Keep its place among the plans that run, to its end."""
        self.slot = slot
        if self.ended.is_set():
            self.note_stopped_running()

    @property
    def may_look_up_names(self) -> bool:
        """Whether Spark may still look up its names: neither a response nor its end said that it did."""
        return not (self.names_seen or self.ended.is_set())

    @property
    def attached(self) -> bool:
        """Whether a client is reading it."""
        return self.readers > 0

    @property
    def has_obligations(self) -> bool:
        """Also in a streaming query that it tells of."""
        return super().has_obligations or self.session.reads_guarded(self.queries)

    @property
    def backend_id(self) -> str:
        return self.spark_id


class ConnectSession(EndpointSession[str, ConnectOperation]):
    """A session of a Spark Connect client. `lock` is held while it is attached, too."""

    LET_GO = "wait for some of them to end"

    def __init__(
        self,
        *,
        session_id: str,
        principal: Principal,
        client: Client,
        opened: float,
        backends: PlanBackends,
        shown: str,
    ) -> None:
        """`shown`: the token that its user has logged in by, if any."""
        super().__init__(session_id, principal, client, SessionContext(endpoint="connect"), opened)
        self.shown = shown
        self.spark = backends.act_for(lambda: SparkLogin(self.principal_now, self.shown))
        """Spark as the user of this session reaches it, and nobody else."""
        self.server_session = ""
        """Spark's own id of the session; every call carries it, so that Spark refuses when its session is a
        new one whose names and settings are not known here."""
        self.attached = False
        self.preparing: set[Preparing] = set()
        self.waits: list[float] = []
        """Since when plans of it wait for room, by the loop's clock."""
        self.withheld: OrderedDict[str, None] = OrderedDict()
        """Operations that ended before Spark was known to have looked up their names, and that are forgotten:
        should Spark go on with one, nothing of it may be shown. The latest last."""
        self.stopping: set[asyncio.Task[None]] = set()
        """Calls that stop, in Spark, what may not have looked up its names yet."""
        self.free_queries: set[SparkHandle] = set()
        """Handles of streaming queries that read nothing guarded; of any other nothing is known."""
        self.errors: OrderedDict[str, Redaction] = OrderedDict()
        """Errors whose details the client may ask for, by their id."""
        self.details: BoundedDict[str, bytes] = BoundedDict(MAX_DETAILS)
        """Details that the gateway has asked for itself, by the id of the error: Spark tells them once."""
        self.artifacts: set[str] = set()
        """Names of files that this session has uploaded."""
        self.ending: SluiceError | Exception | None = None
        """What a client is told that finds the session closed under its hands."""

    @property
    def key(self) -> SessionKey:
        return self.principal.user, self.session_id

    @property
    def busy(self) -> bool:
        return self.lock.locked() or any(not o.ended.is_set() or o.attached for o in self.operations.values())

    def add_query(self, handle: SparkHandle, *, free: bool) -> None:
        """Let plans ask about a streaming query; `free`: it is known to read nothing guarded."""
        self.add_handle(handle)
        if free:
            self.free_queries.add(handle)

    def reads_guarded(self, queries: frozenset[SparkHandle] | None) -> bool:
        """Whether one of the streaming queries may carry row filters or masks; None: any of the session."""
        if queries is None:
            queries = frozenset(h for h in self.context.handles if h.kind == "query")
            # A gateway that was started anew knows of none.
            return not queries or not queries <= self.free_queries
        return not queries <= self.free_queries

    def spark_id(self, operation_id: str) -> str:
        """Return the id by which Spark has an operation of a client."""
        operation = self.operations.get(operation_id)
        return operation_id if operation is None else operation.spark_id

    @property
    def renamed(self) -> dict[str, str]:
        """Spark's ids of operations that were run again → those that their clients know."""
        return {o.spark_id: o.operation_id for o in self.operations.values() if o.ran_again}

    def deregister(self, operation: ConnectOperation, most: int) -> None:
        """Take an operation out; of `most` it stays known that nothing of them may be shown."""
        if self.operations.get(operation.operation_id) is not operation:
            return
        del self.operations[operation.operation_id]
        if operation.buffer is None and not operation.names_seen:
            self.withheld[operation.operation_id] = None
            while len(self.withheld) > most:
                self.withheld.popitem(last=False)

    def require_shown(self, operation_id: str) -> None:
        """Raise Spark's error for an operation that is given up, if Spark may still have it under this id.

        INVARIANT (names are judged as Spark will resolve them): what its names mean by now is not known.
        """
        if operation_id in self.withheld:
            raise spark_error("INVALID_HANDLE.OPERATION_ABANDONED", operation_id)

    def count_buffered_bytes(self, but: ConnectOperation) -> int:
        """Bytes of answers that are held for this session, other than one operation's."""
        answers = (o.buffer for o in self.operations.values() if o is not but)
        return sum(answer.size for answer in answers if answer is not None)

    def require_open(self) -> None:
        if self.closed:
            raise self.ending or spark_error("INVALID_HANDLE.SESSION_CLOSED", self.session_id)

    def build_refusal_error(self, call: str, refusal: CallRefusal, statement_id: str) -> StatementRefused:
        """Return the error that tells of a refused call."""
        statement = Statement(text=call, principal=self.principal, context=self.context)
        refused = Refused(
            statement=statement, code=refusal.code, sqlstate=refusal.sqlstate, message=refusal.message
        )
        return StatementRefused(refused, statement_id)

    def check_observed(self, observed: str) -> None:
        """Raise Spark's error when the client believes to talk to another session of Spark than this one."""
        if observed and observed != self.server_session:
            raise spark_error("INVALID_HANDLE.SESSION_CHANGED", self.session_id)

    def remember_error(self, error_id: str, redaction: Redaction, most: int) -> None:
        """Remember in whose words the details of an error are to be told."""
        if not error_id:
            return
        self.errors[error_id] = redaction
        while len(self.errors) > most:
            self.errors.popitem(last=False)

    def remember_details(self, error_id: str, details: bytes) -> None:
        """Remember what Spark has told of an error."""
        self.details[error_id] = details
