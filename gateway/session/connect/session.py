"""A session of a Spark Connect client: whose it is, what names and ids mean in it, what runs. No I/O."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from gateway.errors import SluiceError
from gateway.model.principal import Principal
from gateway.model.statement import Client, SessionContext
from gateway.session.connect.errors import Redaction
from gateway.session.connect.operation import ConnectOperation
from gateway.session.connect.spark_errors import spark_error
from gateway.session.session import NameResolution
from gateway.wire.connect_calls import SessionKey


class Preparing:
    """A plan that is being judged. To its client it runs; Spark has not heard of it."""

    def __init__(self, operation_id: str, tags: tuple[str, ...]) -> None:
        self.operation_id = operation_id
        self.tags = tags
        self.interrupted = False
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


class ConnectSession(NameResolution):
    """Only the service changes it. `lock` is held while it is attached, and while a plan is judged and handed
    to Spark; while `pending` is set, nothing is judged."""

    def __init__(self, *, session_id: str, principal: Principal, client: Client, opened: float) -> None:
        super().__init__(principal, client, SessionContext(door="connect"))
        self.session_id = session_id
        self.server_session = ""
        """Spark's own id of the session; every call carries it, so that Spark refuses when its session is a
        new one whose names and settings are not known here."""
        self.attached = False
        self.preparing: set[Preparing] = set()
        self.operations: dict[str, ConnectOperation] = {}
        self.withheld: OrderedDict[str, None] = OrderedDict()
        """Operations that ended before Spark was known to have looked up their names, and that are forgotten:
        should Spark go on with one, nothing of it may be shown. The latest last."""
        self.pending: ConnectOperation | None = None
        self.stopping: set[asyncio.Task[None]] = set()
        """Calls that stop, in Spark, what may not have looked up its names yet."""
        self.unstopped = False
        """Spark did not say that such a call ended; it may look its names up at any time."""
        self.ended_relations: OrderedDict[str, None] = OrderedDict()
        """Cached relations that ended because the policies changed; the latest last."""
        self.free_queries: set[str] = set()
        """Handles of streaming queries that read nothing guarded; of any other nothing is known."""
        self.errors: OrderedDict[str, Redaction] = OrderedDict()
        """Errors whose details the client may ask for, by their id."""
        self.artifacts: set[str] = set()
        """Names of files that this session has uploaded."""
        self.used_at = opened
        self.closed = False
        self.ending: SluiceError | Exception | None = None
        """What a client is told that finds the session closed under its hands."""

    @property
    def key(self) -> SessionKey:
        return self.principal.user, self.session_id

    @property
    def busy(self) -> bool:
        """Whether a plan is being judged, may still be running, or is being read."""
        return self.lock.locked() or any(not o.ended.is_set() or o.attached for o in self.operations.values())

    def add_query(self, handle: str, *, free: bool) -> None:
        """Let plans ask about a streaming query; `free`: it is known to read nothing guarded."""
        self.add_handle(handle)
        if free:
            self.free_queries.add(handle)

    def reads_guarded(self, queries: frozenset[str] | None) -> bool:
        """Whether one of the streaming queries may carry row filters or masks; None: any of the session."""
        if queries is None:
            queries = frozenset(h for h in self.context.handles if h.startswith("query:"))
            # A gateway that was started anew knows of none.
            return not queries or not queries <= self.free_queries
        return not queries <= self.free_queries

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

    def buffered_bytes(self, but: ConnectOperation) -> int:
        """Bytes of answers that are held for this session, other than one operation's."""
        kept = (o.buffer for o in self.operations.values() if o is not but)
        return sum(answer.size for answer in kept if answer is not None)

    def require_open(self) -> None:
        """Raise what the client is to know when the session is closed."""
        if self.closed:
            raise self.ending or spark_error("INVALID_HANDLE.SESSION_CLOSED", self.session_id)

    def check_observed(self, observed: str) -> None:
        """Raise Spark's error when the client believes to talk to another session of Spark than this one."""
        if observed and observed != self.server_session:
            raise spark_error("INVALID_HANDLE.SESSION_CHANGED", self.session_id)

    def end_relation(self, handle: str, most: int) -> None:
        """Forget a cached relation whose rows would be others now; plans that name it are told why."""
        self.drop_handle(handle)
        self.ended_relations[handle] = None
        while len(self.ended_relations) > most:
            self.ended_relations.popitem(last=False)

    def remember_error(self, error_id: str, redaction: Redaction, most: int) -> None:
        """Remember in whose words the details of an error are to be told."""
        if not error_id:
            return
        self.errors[error_id] = redaction
        while len(self.errors) > most:
            self.errors.popitem(last=False)
