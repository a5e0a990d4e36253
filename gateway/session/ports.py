"""What the session service needs from the outside; backends, audit and catalog implement it.

Each port is small enough that a fake of it is a page; fakes and real things run the same contract tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from gateway.model.audit import AuditEvent
from gateway.model.catalog import CatalogSnapshot, TableName
from gateway.model.changed_names import NOBODY, ChangedNames
from gateway.model.context import NO_CONTEXT, AccessContext
from gateway.model.decision import Decision
from gateway.model.files import NotPromoted
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.model.snapshot import Snapshot
from gateway.model.spark_logins import SparkLogin
from gateway.model.statement import Cleared, Client, DatasetAction, NeedsCatalog, Statement, Verdict


@dataclass(eq=False)  # not frozen: contextlib sets `__traceback__` of what passes through a context manager
class BackendError(Exception):
    """Spark answered a call with an error; the text is Spark's own and must be redacted before it leaves."""

    message: str
    sqlstate: str | None
    error_code: int = 0
    details: tuple[str, ...] = ()
    """The exception and its causes with their stacks, as HiveServer2 tells them in a status."""


@dataclass(eq=False)
class BackendFull(BackendError):
    """Spark has no room for a statement now. It has not begun it, and has forgotten it: it may be sent
    again."""


class FrameSink(Protocol):
    """Where relayed bytes go. `write` never blocks; `drain` waits while the peer is slow."""

    @property
    def slow(self) -> bool:
        """Whether `drain` would wait, or say that the peer is gone."""
        ...

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedFrame:
    """What went through in one relayed FetchResults reply."""

    bytes: int
    rows: int
    status: int
    """Thrift status code; when it is an error nothing was written and `error` holds the message."""
    error: BackendError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationState:
    """HiveServer2's operation state as Spark reports it."""

    state: int
    """TOperationState: 0 INITIALIZED, 1 RUNNING, 2 FINISHED, 3 CANCELED, 4 CLOSED, 5 ERROR, 7 PENDING,
    8 TIMEDOUT."""
    has_result_set: bool | None = None
    sqlstate: str | None = None
    error_code: int | None = None
    error_message: str | None = None

    @property
    def terminal(self) -> bool:
        return self.state in (2, 3, 4, 5, 8)


class BackendOperation(Protocol):
    """A statement that Spark runs or has run."""

    has_result_set: bool

    @property
    def id(self) -> str:
        """Spark's operation id in hexadecimal, for the audit record."""
        ...

    async def status(self, get_progress: bool = False) -> OperationState:
        """Ask Spark; may wait up to 5 s, Spark's own long poll."""
        ...

    async def schema(self) -> Any:
        """Return Spark's TTableSchema struct, once the statement has ended."""
        ...

    async def relay(
        self, orientation: int, max_rows: int, fetch_type: int, seqid: int, sink: FrameSink
    ) -> RelayedFrame:
        """Relay one FetchResults reply, length header included, undecoded, with the client's `seqid`."""
        ...

    async def fetch(self, max_rows: int) -> tuple[Sequence[Sequence[Any]], Any]:
        """Return up to `max_rows` decoded rows and the schema; only for small answers that are filtered."""
        ...

    def let_go(self) -> bool:
        """Have Spark forget a statement that has ended, without waiting for its answer. False where that
        takes a wait: then it has to be closed."""
        ...

    async def cancel(self) -> None: ...

    async def close(self) -> None: ...


class BackendSession(Protocol):
    """A Spark session that belongs to one client session, under the client's identity."""

    def follow(self, login: Callable[[], Principal]) -> None:
        """Show its user from the next call on with the groups and attributes that he has by then."""
        ...

    async def own_settings(self) -> Mapping[str, str]:
        """Return what was set in it when it was opened; the backend may ask Spark for it, and whether it
        reads texts as the reader does, only now. Raises BackendMismatch, BackendUnavailable."""
        ...

    async def execute(self, cleared: Cleared, *, run_async: bool, timeout_s: int) -> BackendOperation:
        """Forward a cleared statement; without `run_async`, return when it has ended well. Raises
        BackendError when Spark refuses it at once, of these BackendFull when it has no room for it."""
        ...

    async def describe_functions(self) -> Mapping[str, tuple[str, str]]:
        """Return what Spark says of its built-in functions, by name: remarks and class. The question has
        nothing of a client's in it. Raises BackendError, BackendUnavailable."""
        ...

    async def read_declared_types(
        self, database: str, table: str | None, *, max_rows: int
    ) -> Mapping[tuple[str, str], str]:
        """Return the types of the columns of Spark's own catalog that are, or may hold, CHAR(n), VARCHAR(n),
        by table and column in lower case; of all tables of a database when none is named. What describes a
        table tells STRING of these. Raises BackendError, BackendUnavailable."""
        ...

    async def close(self) -> None: ...


class Backend(Protocol):
    """Spark behind one of its endpoints."""

    async def open_session(
        self, principal: Principal, *, protocol_version: int, settings: dict[str, str]
    ) -> BackendSession:
        """Open a session as `principal` with parser-shaping settings pinned. Raises BackendUnavailable, and
        BackendMismatch for a Spark that may read texts otherwise all the same, if that is asked by now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What surrounds a plan on its way to Spark Connect; the gateway made or checked every value."""

    session_id: str
    user: str
    """The principal. Spark keeps sessions, operations and artifacts by (user, session)."""
    client_type: str = ""
    operation_id: str = ""
    tags: tuple[str, ...] = ()
    reattachable: bool = False
    chunked: bool = False
    """Whether the client takes Arrow batches in chunks."""
    chunk_bytes: int | None = None
    """Size of chunk that the client prefers."""
    server_session: str = ""
    """The server-side session id that the gateway has seen: Spark refuses the call when it is another one,
    whose names and views the gateway would not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedSession:
    """A session of Spark Connect that reads texts as the reader does."""

    id: str
    """Spark's own id of it."""
    settings: Mapping[str, str]
    """What is set in it."""
    own_settings: Mapping[str, str]
    """What is set in a session of the same Spark that no client has touched."""
    known_catalogs: frozenset[str] = frozenset()
    """Catalogs (lower case) that it had been told of before, and may have as they were then."""


class PlanBackends(Protocol):
    """Spark's Connect endpoint, which everybody reaches in his own name alone."""

    def act_for(self, login: Callable[[], SparkLogin]) -> PlanBackend:
        """Return it as a user reaches it; `login` is asked for each call."""
        ...


class PlanBackend(Protocol):
    """Spark's Connect endpoint in the name of one user. Everything raises RpcError for a status that is not
    OK, BackendUnavailable when Spark cannot be reached at all, and AuthenticationFailed where Spark is to be
    shown who the user is, and there is nothing to show."""

    async def open_session(self, session_id: str, user: str, observed: str = "") -> OpenedSession:
        """Have a session of Spark read texts as the reader does; Spark makes it when it is not there. With
        `observed` Spark refuses when it is another one by now.

        Also raises BackendMismatch: this Spark may read texts otherwise all the same; and SessionElsewhere:
        another gateway has opened it."""
        ...

    def execute(self, cleared: Cleared, envelope: Envelope) -> AsyncGenerator[bytes, None]:
        """Run a cleared plan; yields serialized `ExecutePlanResponse`. Closing the iterator ends the call.
        No response is read from Spark before the one before it was taken, beyond gRPC's own window."""
        ...

    async def analyze(self, cleared: Cleared, envelope: Envelope) -> bytes:
        """Analyse a cleared plan; returns a serialized `AnalyzePlanResponse`."""
        ...

    def reattach(self, request: bytes) -> AsyncGenerator[bytes, None]:
        """Take up an execution again: a serialized `ReattachExecuteRequest` whose ids were checked."""
        ...

    async def call(self, method: str, request: bytes) -> bytes:
        """Make a unary call that carries no plan: `Config`, `ArtifactStatus`, `Interrupt`, `ReleaseExecute`,
        `ReleaseSession`, `FetchErrorDetails`, `CloneSession`, `GetStatus`. Raises ValueError for others."""
        ...

    async def add_artifacts(self, requests: AsyncIterator[bytes], user: str) -> bytes:
        """Upload artifacts that were judged, to a session of the user; returns a serialized
        `AddArtifactsResponse`."""
        ...


class Ledger(Protocol):
    """The audit record. `record_decided` returns only when the event is durable."""

    async def record_decided(self, event: AuditEvent) -> None:
        """Raises LedgerUnavailable: then nothing may be forwarded."""
        ...

    async def record(self, event: AuditEvent) -> None:
        """Append an event that nothing waits for (completed, abandoned, login)."""
        ...


class Catalog(Protocol):
    """Schemas of Spark's catalogs."""

    @property
    def snapshot(self) -> CatalogSnapshot: ...

    async def look_up(self, tables: Sequence[TableName]) -> CatalogSnapshot:
        """Look the names up in Spark and return a snapshot that knows all of them."""
        ...

    async def describe_anew(self, tables: Sequence[TableName]) -> CatalogSnapshot:
        """Look the names up again, whatever is known of them."""
        ...

    @property
    def changed_names(self) -> ChangedNames:
        """What was invalidated, by generations."""
        ...

    def invalidate(
        self,
        tables: Sequence[TableName],
        databases: Sequence[tuple[str, str]],
        *,
        by: int = NOBODY,
        stays: bool = False,
    ) -> None:
        """Forget names that a statement of the session `by` has changed; with `stays` they mean what they
        did."""
        ...

    def forget_all(self) -> None:
        """Forget everything: others may have changed any name."""
        ...

    async def databases(self, catalog: str) -> Sequence[str]: ...

    async def list_tables(self, catalog: str, database: str) -> Sequence[tuple[str, bool]]:
        """Names of a database's tables and views, with whether each is a view."""
        ...


class NameTurn(Protocol):
    """The right to change names that other gateways use too, until `end`."""

    @property
    def waited(self) -> bool:
        """Whether others changed some of the names before."""
        ...

    async def wait_for_others(self, until: float) -> bool:
        """Wait until all other gateways hold the names; False when the loop's clock says `until` before.
        Raises BackendUnavailable."""
        ...

    def end(self) -> None: ...


class OtherGateways(Protocol):
    """The gateways that share a database, and the Spark behind them, with this one."""

    def stood_still(self) -> bool:
        """Whether this process stood still for so long that the others no longer wait for it."""
        ...

    def may_be_overtaken(self) -> bool:
        """Whether it did, and there are others."""
        ...

    async def until_awake(self, until: float) -> bool:
        """Wait until nothing counts that was known before; False when the loop's clock says `until`
        before."""
        ...

    async def take_turn(self, names: Mapping[str, Any], until: float) -> NameTurn | None:
        """Have the others hold names; None when the loop's clock says `until` before. Raises
        BackendUnavailable when they cannot be told."""
        ...

    def tell_changed(self, names: Mapping[str, Any]) -> None:
        """Tell them that rows or files behind names are others."""
        ...


AskOwner = Callable[[bytes, Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]
"""Asks the gateway with a tag about a handle that it made; None: no such gateway runs. Raises
BackendUnavailable where it does not answer."""


class TablePlaces(Protocol):
    """Where tables have their files."""

    async def tables_at(self, url: str) -> tuple[TableName, ...] | str:
        """Return the tables that have files at a place, in it, or around it; or say why that is not known.
        Raises BackendUnavailable."""
        ...


class UserRights(Protocol):
    """What one user may do, by the policies of one instant."""

    def decide(self, resource: Resource, access: str) -> Decision:
        """Say whether he may, and why."""
        ...

    def guards_escaped(self, new: Resource, old: Resource, *, beginning: bool = False) -> bool:
        """See `Authority.guards_escaped`."""
        ...


class Promotion(Protocol):
    """Files that become tables when they are first named."""

    def covers(self, name: TableName) -> bool:
        """Whether the name of a table stands for files."""
        ...

    def looks_through(self, name: TableName) -> bool:
        """Whether there is something to look for among the files of a table before each statement."""
        ...

    async def trouble(self, name: TableName, location: str | None) -> str | None:
        """Say why the files of a table may not be read as they are now, in words for who may read them.
        `location`: where Spark has the table, None where that is not known."""
        ...

    async def is_unfinished(self, name: TableName) -> bool:
        """Whether a table of the name is none yet, because its promotion goes on or was cut."""
        ...

    async def promote(
        self,
        name: TableName,
        principal: Principal,
        rights: UserRights,
        *,
        asked: bool = False,
    ) -> NotPromoted | None:
        """Make a table of files that are there, or say why that may not be. None: the name may be looked up
        again. `rights` are asked before anything is looked at.
        `asked`: also where the source makes none of what is only named."""
        ...

    async def maintain_dataset(
        self, action: DatasetAction, name: TableName, principal: Principal
    ) -> str | None:
        """Look at the files of a table again, or drop it and forget them; say why that could not be done, or
        what is not as it was. Raises BackendUnavailable."""
        ...


class Judge(Protocol):
    """The pipeline's `judge` with its reader and settings bound."""

    async def __call__(self, statement: Statement, snapshot: Snapshot) -> Verdict | NeedsCatalog: ...


class Authority(Protocol):
    """The policy engine of one policy set: what a principal may know of."""

    def visible(self, principal: Principal, resource: Resource, context: AccessContext = NO_CONTEXT) -> bool:
        """Whether the principal has any access to the resource or to something below it."""
        ...

    def visible_tables(
        self,
        principal: Principal,
        database: Resource,
        tables: Sequence[str],
        context: AccessContext = NO_CONTEXT,
    ) -> bytes:
        """Say of all tables of a database what `visible` says of each: 1 or 0, in their order."""
        ...

    def decide(self, request: AccessRequest) -> Decision:
        """Say whether the principal may, and which policy settled it."""
        ...

    def guards_escaped(self, new: Resource, old: Resource, *, beginning: bool = False) -> bool:
        """Say whether somebody may see rows by a new name past what masks, filters and denials say of an old
        one; with `beginning`, of any name that begins with it."""
        ...


class Visitor(Protocol):
    """A connection to one of the gateway's listeners, from before anybody knows who it is."""

    @property
    def address(self) -> str:
        """Where it comes from."""
        ...

    def ends_by(self, end: Callable[[], None]) -> None:
        """Say how it is cut."""
        ...

    def begin_busy(self) -> None:
        """Something is being done for it now: it does not have to make room for others."""
        ...

    def end_busy(self) -> None:
        """That is done; as often as `begin_busy` was said."""
        ...

    def due(self, within_s: float | None) -> None:
        """Have it cut in so many seconds, and no sooner; None: never."""
        ...

    def mark_logged_in(self) -> None:
        """Somebody has logged in on it: it has no deadline, and counts with all others alone."""
        ...

    def leave(self) -> None:
        """It is gone."""
        ...


@dataclass(frozen=True, slots=True)
class CatalogAsker:
    """In whose name catalogs are asked by a session of Spark that is opened now."""

    token: str = field(default="", repr=False)
    """What the user has shown, where it is one of the issuer's; empty: nothing that says so elsewhere."""
    is_gateway: bool = False
    """Whether it is one of the gateway's own sessions, and no user's."""


NO_TOKEN = CatalogAsker()
ASKER: ContextVar[CatalogAsker] = ContextVar("asker", default=NO_TOKEN)
"""Set by each login in its own task, so that it is of this call, or of this connection, and of no other."""


@contextmanager
def ask_as_gateway() -> Iterator[None]:
    """Open a session of the gateway's own within, whoever has made it need one."""
    before = ASKER.set(CatalogAsker(is_gateway=True))
    try:
        yield
    finally:
        ASKER.reset(before)


CatalogLogins = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns the settings by which a session that is opened now logs in to catalogs, in the name of ASKER."""


async def no_logins() -> Mapping[str, str]:
    """Log in nowhere."""
    return {}


MakeProtocol = Callable[[Visitor], asyncio.Protocol]
"""Makes what serves a connection. It says `ends_by` when it has it and `leave` when that is lost."""


class Entrance(Protocol):
    """Accepts the connections of one listener, within bounds."""

    async def open(self, host: str, port: int, make: MakeProtocol, *, tls: Any = None) -> int:
        """Listen; return the port, which matters when 0 was asked for. Raises OSError."""
        ...

    def stop_listening(self) -> None:
        """Take no more connections."""
        ...

    def close(self) -> None:
        """End every connection."""
        ...


class JudgingPolicies(Protocol):
    """The policies by which statements are judged now, and those who may log in now."""

    @property
    def current(self) -> PolicySet: ...

    @property
    def principals(self) -> Mapping[str, Principal]: ...

    def stale(self) -> str | None:
        """Say why they are too old to be relied on, None when they are not."""
        ...

    def authority(self, policies: PolicySet) -> Authority:
        """Return the engine of policies."""
        ...


class CurrentIdentity(Protocol):
    """Who somebody is by now who has logged in at some time."""

    def current(self, principal: Principal, client: Client) -> Principal:
        """Return somebody who is logged in with the groups and attributes of now."""
        ...

    def admit(self, principal: Principal, client: Client) -> Principal:
        """Return for whom a session is opened. Raises AuthenticationFailed for who could not log in now."""
        ...


class LoginIdentity:
    """Has everybody as he logged in."""

    def current(self, principal: Principal, client: Client) -> Principal:
        return principal

    def admit(self, principal: Principal, client: Client) -> Principal:
        return principal
