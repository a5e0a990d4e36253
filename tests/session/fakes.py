"""Fakes of the session room's ports, each a page, with switches for what can go wrong."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gateway.errors import BackendUnavailable, LedgerUnavailable
from gateway.model.audit import AuditEvent
from gateway.model.catalog import CatalogSnapshot, Column, Table, TableKind, TableName
from gateway.model.changed_names import NOBODY, ChangedNames
from gateway.model.context import NO_CONTEXT, TIME, AccessContext
from gateway.model.decision import Decision
from gateway.model.files import NotPromoted
from gateway.model.limits import Limit
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.model.snapshot import Snapshot
from gateway.model.sparks import DEFAULT_BACKEND
from gateway.model.statement import (
    AnswerRule,
    Cleared,
    Client,
    DatasetAction,
    NeedsCatalog,
    Refused,
    ScanRecord,
    SessionEffect,
    Statement,
    Verdict,
)
from gateway.policy.limits import limits_of
from gateway.session.budgets import Budgets
from gateway.session.dependencies import Dependencies
from gateway.session.freshness import Freshness
from gateway.session.limit_ports import SharedUse
from gateway.session.limits import SessionLimits
from gateway.session.locks import CatalogLocks
from gateway.session.metrics import Metrics
from gateway.session.ports import (
    AskOwner,
    Authority,
    Backend,
    BackendError,
    BackendFull,
    CurrentIdentity,
    FrameSink,
    LoginIdentity,
    OperationState,
    RelayedFrame,
    UserRights,
)
from gateway.session.service import Sessions
from gateway.session.session import NameResolution
from tests.speed import patience

BOB = Principal(user="bob", groups=frozenset({"analysts"}))
ALICE = Principal(user="alice")
CLIENT = Client(address="10.0.0.7", protocol="thrift")
NONE: frozenset[TableName] = frozenset()


class FakeLedger:
    """Keeps events; `down` makes `decided` fail, `order` tells what happened when."""

    def __init__(self, order: list[str] | None = None) -> None:
        self.events: list[AuditEvent] = []
        self.order = order if order is not None else []
        self.down = False

    async def record_decided(self, event: AuditEvent) -> None:
        await asyncio.sleep(0)
        if self.down:
            raise LedgerUnavailable("the spool's disk is full")
        self.order.append("decided")
        self.events.append(event)

    async def record(self, event: AuditEvent) -> None:
        self.order.append(event.kind)
        self.events.append(event)

    def of(self, kind: str) -> list[AuditEvent]:
        return [event for event in self.events if event.kind == kind]

    def outcomes(self) -> list[str]:
        return [event.body["outcome"] for event in self.of("completed")]


class FakeOperation:
    """Runs until `end` is called, unless its text ends at once."""

    def __init__(self, backend: FakeBackend, text: str) -> None:
        self.backend = backend
        self.text = text
        self.has_result_set = True
        self.state = OperationState(state=1)
        self.ended = asyncio.Event()
        self.cancelled = False
        self.closed = False
        self.polls = 0
        self.rows: Sequence[Sequence[Any]] = [(1,)]
        self.spark_schema: Any = "spark's schema"
        self.fetch_error: BackendError | None = None
        self.lost = False
        self.analysed: Callable[[int], None] = lambda state: None
        """Called when it ends: the last moment at which Spark may look up its names."""

    @property
    def id(self) -> str:
        return "ab" * 16

    def end(self, state: int = 2, message: str | None = None, sqlstate: str | None = None) -> None:
        self.state = OperationState(state=state, error_message=message, sqlstate=sqlstate)
        self.ended.set()
        self.analysed(state)

    async def status(self, get_progress: bool = False) -> OperationState:
        self.polls += 1
        self._check()
        with_long_poll = asyncio.timeout(0.02)
        try:
            async with with_long_poll:
                await self.ended.wait()
        except TimeoutError:
            pass
        self._check()
        return self.state

    async def schema(self) -> Any:
        self._check()
        return self.spark_schema

    async def relay(
        self, orientation: int, max_rows: int, fetch_type: int, seqid: int, sink: FrameSink
    ) -> RelayedFrame:
        self._check()
        if self.fetch_error is not None:
            return RelayedFrame(bytes=0, rows=0, status=3, error=self.fetch_error)
        if self.state.state != 2:
            # Spark has no rows of a statement that has not finished, and may not even have looked at it.
            error = BackendError("Expected states: [FINISHED], but found RUNNING", "HY000")
            return RelayedFrame(bytes=0, rows=0, status=3, error=error)
        rows, self.rows = self.rows[:max_rows], self.rows[max_rows:]
        return await self.backend.relay_rows(rows, seqid, sink)

    async def fetch(self, max_rows: int) -> tuple[Sequence[Sequence[Any]], Any]:
        self._check()
        return self.rows[:max_rows], self.spark_schema

    def let_go(self) -> bool:
        return False

    async def cancel(self) -> None:
        self.cancelled = True
        if not self.ended.is_set():
            self.end(state=3)

    async def close(self) -> None:
        self.closed = True

    def _check(self) -> None:
        if self.lost or self.backend.down:
            raise BackendUnavailable("the connection to Spark was lost")


class FakeSession:
    def __init__(self, backend: FakeBackend, principal: Principal) -> None:
        self.backend = backend
        self.principal = principal
        self.operations: list[FakeOperation] = []
        self.closed = False
        self._own_settings: dict[str, str] = dict(backend.own_settings)
        self.views: dict[str, set[str]] = {}
        """Temporary views that exist in Spark's session, with the views that each of them reads."""

    def follow(self, login: Callable[[], Principal]) -> None:
        self.find_principal = login

    async def own_settings(self) -> dict[str, str]:
        return self._own_settings

    async def execute(self, cleared: Cleared, *, run_async: bool, timeout_s: int) -> FakeOperation:
        assert isinstance(cleared, Cleared)
        operation = await self.backend.start(self, cleared.forwarded)
        operation.analysed = lambda state: self._analysed(cleared, state)
        if operation.ended.is_set():
            operation.analysed(operation.state.state)
        return operation

    def _analysed(self, cleared: Cleared, state: int) -> None:
        """Do to the session's views what Spark would, and note where a name would miss its view.

        What is stopped half-way has happened or not: a coin decides.
        """
        text, believed = cleared.statement.text, cleared.statement.context.temp_views
        # Any other name was pinned to the catalog: Spark does not look for a view.
        read = {name.lower() for name in re.findall(r"FROM (\w+)", text)} & believed
        if not all(self._resolves(name) for name in read):
            self.backend.strayed.append(text)
        if state == 2 or (state in (3, 4, 8) and self.backend.coin()):
            if created := re.match(r"CREATE.*VIEW (\w+)", text):
                self.views[created[1].lower()] = read
            elif dropped := re.match(r"DROP VIEW.*?(\w+)`?$", text):
                self.views.pop(dropped[1].lower(), None)

    def _resolves(self, name: str) -> bool:
        read = self.views.get(name)
        return read is not None and all(self._resolves(other) for other in read)

    async def read_declared_types(
        self, database: str, table: str | None, *, max_rows: int
    ) -> dict[tuple[str, str], str]:
        self.backend.asked_lengths.append((database, table))
        return {
            ("employee", "code"): "CHAR(5)",
            ("employee", "tags"): "ARRAY<CHAR(3)>",
            ("secret", "code"): "CHAR(9)",
        }

    async def describe_functions(self) -> dict[str, tuple[str, str]]:
        self.backend.asked_functions += 1
        return {"abs": ("Usage: abs(expr)", "x.Abs"), "f": ("of somebody", "x.F")}

    async def close(self) -> None:
        self.closed = True
        for operation in self.operations:
            if not operation.ended.is_set():
                operation.end(state=4)


class FakeBackend:
    """A Spark in memory. Statements that match `slow` run until the test ends them."""

    def __init__(self, order: list[str] | None = None) -> None:
        self.order = order if order is not None else []
        self.sessions: list[FakeSession] = []
        self.received: list[str] = []
        self.slow: str | None = None
        self.own_settings: dict[str, str] = {}
        """What is set in a new session."""
        self.down = False
        self.silent: asyncio.Event | None = None
        """When set, a session is opened after it."""
        self.hold: asyncio.Event | None = None
        """When set, `execute` waits for it: Spark is taking the statement."""
        self.refuse: dict[str, BackendError] = {}
        self.full = 0
        """How many of the next statements find Spark's pool full."""
        self.fail: dict[str, tuple[str, str]] = {}
        """Text → (message, sqlstate) of an error at run time."""
        self.answers: dict[str, Sequence[Sequence[Any]]] = {}
        self.asked_functions = 0
        self.asked_lengths: list[tuple[str, str | None]] = []
        self.coin: Callable[[], bool] = lambda: False
        self.strayed: list[str] = []
        """Statements that were judged to read a view which Spark would not have found."""
        self.relay_rows: Callable[..., Awaitable[RelayedFrame]] = self._no_rows

    async def open_session(
        self, principal: Principal, *, protocol_version: int, settings: dict[str, str]
    ) -> FakeSession:
        if self.down:
            raise BackendUnavailable("Spark cannot be reached")
        if self.silent is not None:
            await self.silent.wait()
        assert not settings
        session = FakeSession(self, principal)
        self.sessions.append(session)
        return session

    async def start(self, session: FakeSession, text: str) -> FakeOperation:
        if self.down:
            raise BackendUnavailable("Spark cannot be reached")
        self.order.append("forwarded")
        self.received.append(text)
        if self.hold is not None:
            await self.hold.wait()
        if text in self.refuse:
            raise self.refuse[text]
        if self.full:
            self.full -= 1
            raise BackendFull("The background threadpool cannot accept new task for execution", None)
        operation = FakeOperation(self, text)
        if text in self.answers:
            operation.rows = self.answers[text]
        session.operations.append(operation)
        if text in self.fail:
            operation.end(5, *self.fail[text])
        elif self.slow is None or not re.search(self.slow, text):
            operation.end()
        return operation

    @property
    def last(self) -> FakeOperation:
        return self.sessions[-1].operations[-1]

    async def _no_rows(self, rows: Sequence[Sequence[Any]], seqid: int, sink: FrameSink) -> RelayedFrame:
        return RelayedFrame(bytes=100, rows=len(rows), status=0)


class FakeCatalog:
    def __init__(self) -> None:
        self.snapshot = CatalogSnapshot(version=1, catalogs=frozenset({"spark_catalog", "lake"}))
        self.known: dict[TableName, Table] = {}
        self.views: set[TableName] = set()
        self.invalidated: list[TableName] = []
        self.look_ups = 0
        self.changed_names = ChangedNames()

    def add(self, table: str, *columns: tuple[str, str], view: bool = False) -> None:
        name = TableName(*table.split("."))
        kind = TableKind.VIEW if view else TableKind.TABLE
        self.known[name] = Table(
            name=name, kind=kind, columns=tuple(Column(name=n, type=t) for n, t in columns)
        )

    async def look_up(self, tables: Sequence[TableName]) -> CatalogSnapshot:
        self.look_ups += 1
        found = dict(self.snapshot.tables)
        missing = set(self.snapshot.missing)
        for name in tables:
            if name in self.known:
                found[name.fold()] = self.known[name]
            else:
                missing.add(name.fold())
        self.snapshot = CatalogSnapshot(
            version=self.snapshot.version + 1,
            catalogs=self.snapshot.catalogs,
            tables=found,
            missing=frozenset(missing),
        )
        return self.snapshot

    async def describe_anew(self, tables: Sequence[TableName]) -> CatalogSnapshot:
        return await self.look_up(tables)

    def forget_all(self) -> None:
        self.changed_names.note_all()

    def invalidate(
        self,
        tables: Sequence[TableName],
        databases: Sequence[tuple[str, str]],
        *,
        by: int = NOBODY,
        stays: bool = False,
    ) -> None:
        self.invalidated.extend(tables)
        self.changed_names.note(tables, databases, by=by, stays=stays)

    async def databases(self, catalog: str) -> Sequence[str]:
        return sorted({name.database for name in self.known if name.catalog == catalog})

    async def list_tables(self, catalog: str, database: str) -> Sequence[tuple[str, bool]]:
        return [
            (name.table, table.kind is TableKind.VIEW)
            for name, table in self.known.items()
            if (name.catalog, name.database) == (catalog, database)
        ]


class FakeAuthority:
    """Everything is visible but what `hidden` names, dotted."""

    def __init__(self, hidden: set[str]) -> None:
        self.hidden = hidden

    def visible(self, principal: Principal, resource: Resource, context: AccessContext = NO_CONTEXT) -> bool:
        dotted = str(resource)
        return not any(dotted == name or dotted.startswith(name + ".") for name in self.hidden)

    def visible_tables(
        self,
        principal: Principal,
        database: Resource,
        tables: Sequence[str],
        context: AccessContext = NO_CONTEXT,
    ) -> bytes:
        return bytes(self.visible(principal, database.child("table", table), context) for table in tables)

    def decide(self, request: AccessRequest) -> Decision:
        return Decision(request=request, allowed=self.visible(request.principal, request.resource))

    def guards_escaped(self, new: Resource, old: Resource, *, beginning: bool = False) -> bool:
        return False


class FakePolicies:
    """Policies in force, of functions."""

    def __init__(
        self,
        policies: Callable[[], PolicySet],
        authority: Callable[[PolicySet], Authority],
        *,
        stale: Callable[[], str | None] = lambda: None,
        principals: Callable[[], Mapping[str, Principal]] = dict,
    ) -> None:
        self._policies, self.authority = policies, authority
        self.stale, self._principals = stale, principals

    @property
    def current(self) -> PolicySet:
        return self._policies()

    @property
    def principals(self) -> Mapping[str, Principal]:
        return self._principals()


class FakeJudge:
    """Clears what `refused` does not match; forwards the text in square brackets, so that it differs."""

    def __init__(self) -> None:
        self.refused: str | None = None
        self.effects: list[tuple[str, tuple[SessionEffect, ...]]] = []
        self.names: list[tuple[str, frozenset[TableName]]] = []
        """Pattern → the tables and views that such a statement is judged by."""
        self.reads: dict[str, frozenset[str]] = {}
        """Text → the temporary views that it reads."""
        self.rules: dict[str, AnswerRule] = {}
        self.scans: dict[str, tuple[ScanRecord, ...]] = {}
        self.needs: tuple[TableName, ...] = ()
        self.judged: list[Statement] = []
        self.policy_tables: dict[str, tuple[TableName, ...]] = {}
        """Text → the tables that its policies read."""
        self.mark = ""
        """Written into every forwarded text: another mask, say."""
        self.timed = False
        """Whether it matters what time it is, as for a grant that ends."""
        self.marks_groups = False
        """Whether the user's groups are, too."""

    async def __call__(self, statement: Statement, snapshot: Snapshot) -> Verdict | NeedsCatalog:
        if statement.resets is not None:
            statement = replace(statement, text=f"RESET `{statement.resets}`")
        if statement.refreshes is not None:
            statement = replace(statement, text=f"REFRESH TABLE {statement.refreshes}")
        self.judged.append(statement)
        unknown = tuple(name for name in self.needs if not snapshot.catalog.knows(name))
        if unknown:
            return NeedsCatalog(unknown)
        if self.refused is not None and re.search(self.refused, statement.text):
            return Refused(
                statement=statement,
                code="ACCESS_DENIED",
                sqlstate="42501",
                message="user bob needs select on table spark_catalog.hr.employee",
                snapshot_version=snapshot.version,
            )
        effects = next((e for pattern, e in self.effects if re.search(pattern, statement.text)), ())
        return Cleared(
            statement=statement,
            forwarded=f"{statement.text}{self.mark}{self._groups(statement)}",
            plan_class="Project",
            decisions=(),
            scans=self.scans.get(statement.text, ()),
            shows_errors=not any(scan.obligations for scan in self.scans.get(statement.text, ())),
            snapshot_version=snapshot.version,
            catalog_version=snapshot.catalog.version,
            names=next((names for pattern, names in self.names if re.search(pattern, statement.text)), NONE),
            read_only=statement.text.startswith(("SELECT", "SLOW SELECT")),
            effects=effects,
            policy_tables=frozenset(self.policy_tables.get(statement.text, ())),
            period=1,
            context_dependencies=frozenset({TIME} if self.timed else ()),
            temp_views_read=self.reads.get(statement.text, frozenset()),
            answer=self.rules.get(statement.text, AnswerRule()),
        )

    def _groups(self, statement: Statement) -> str:
        return f" /* {sorted(statement.principal.groups)} */" if self.marks_groups else ""


class Sink:
    """Takes what is relayed."""

    def __init__(self) -> None:
        self.data = b""
        self.slow = False

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None:
        return


class FakePromotion:
    """Makes a table of nothing; notes what is to be done with datasets in the order of everything else."""

    def __init__(self, order: list[str]) -> None:
        self.order = order
        self.tended: list[tuple[str, TableName]] = []
        self.why: str | None = None
        """What is told instead of doing it."""
        self.covered: set[TableName] = set()
        self.unfinished: set[TableName] = set()
        self.promoted: list[tuple[TableName, bool]] = []
        """Names that were to become tables, and whether that was asked for."""
        self.refuses: str | None = None
        self.troubles: dict[str, str] = {}

    def covers(self, name: TableName) -> bool:
        return name in self.covered

    def looks_through(self, name: TableName) -> bool:
        return name in self.covered

    async def trouble(self, name: TableName, location: str | None) -> str | None:
        return self.troubles.get(str(name))

    async def is_unfinished(self, name: TableName) -> bool:
        return name in self.unfinished

    async def promote(
        self,
        name: TableName,
        principal: Principal,
        rights: UserRights,
        *,
        asked: bool = False,
    ) -> NotPromoted | None:
        self.promoted.append((name, asked))
        if self.refuses is not None:
            return NotPromoted(code="NOT_GOVERNABLE", sqlstate="0A000", message=self.refuses)
        return None

    async def maintain_dataset(
        self, action: DatasetAction, name: TableName, principal: Principal
    ) -> str | None:
        self.order.append("tended")
        self.tended.append((action, name))
        return self.why


class FakeEndpoint:
    """A session's endpoint and its verdicts, of two functions: what judges, and what runs."""

    policies_version = catalog_version = 1

    def __init__(
        self,
        judge: Callable[[Statement], Awaitable[Verdict]],
        run: Callable[[Statement], Awaitable[None]],
        changed: ChangedNames | None = None,
    ) -> None:
        self._judge, self._run = judge, run
        self.freshness = Freshness[NameResolution](self, changed or ChangedNames(), self)

    async def judge(self, statement: Statement, client: Client) -> Verdict:
        return await self._judge(statement)

    async def can_be_read(self, names: Iterable[TableName]) -> bool:
        return True

    def build_own_statement(self, session: NameResolution, text: str) -> Statement:
        return Statement(text=text, principal=session.principal, context=session.context)

    async def run_inside(self, session: NameResolution, statement: Statement, client: Client) -> None:
        await self._run(statement)

    async def judge_with_fresh_tables(self, session: NameResolution, statement: Statement) -> Verdict:
        return await self.freshness.judge_with_fresh_tables(session, statement, CLIENT)

    async def renew_views(self, session: NameResolution) -> None:
        await self.freshness.renew_views(session, CLIENT)

    async def run_before(self, session: NameResolution, statement: Statement, verdict: Verdict) -> None:
        assert isinstance(verdict, Cleared)
        await self.freshness.run_before(session, verdict, statement, CLIENT)


class World:
    """A session service over fakes, with everything in reach."""

    def __init__(
        self,
        limits: SessionLimits | None = None,
        backend: Backend | None = None,
        catalog: FakeCatalog | None = None,
        locks: CatalogLocks | None = None,
        *,
        promotes: bool = False,
        identity: CurrentIdentity | None = None,
        gateway: str = "gw-1",
        ask_owner: AskOwner | None = None,
        name: str = DEFAULT_BACKEND,
        may_use: Callable[[Principal], bool] = lambda _: True,
        shared: SharedUse | None = None,
        console_url: str = "",
    ) -> None:
        self.order: list[str] = []
        self.promotion = FakePromotion(self.order)
        self.ledger = FakeLedger(self.order)
        self.backend = FakeBackend(self.order)
        self.catalog = catalog or FakeCatalog()
        self.judge = FakeJudge()
        self.hidden: set[str] = set()
        self.policies = PolicySet(version=1)
        self.now = time.monotonic()
        self.told: dict[str, int] = {}
        """Catalogs that come and go, as a session is told of them now."""
        limits = limits or SessionLimits(settle_timeout_s=patience(5), close_timeout_s=patience(5))
        self.locks = locks or CatalogLocks(self.catalog, limits)
        self.metrics = Metrics()
        self.budgets = Budgets(
            lambda: self.policies, limits_of, self.metrics, shared=shared, clock=lambda: self.now
        )
        self.sessions = Sessions(
            Dependencies(
                judge=self.judge,
                policies=FakePolicies(lambda: self.policies, lambda _: FakeAuthority(self.hidden)),
                catalog=self.catalog,
                locks=self.locks,
                ledger=self.ledger,
                gateway=gateway,
                console_url=console_url,
                ask_owner=ask_owner,
                backend=name,
                may_use=may_use,
                records_backend=name != DEFAULT_BACKEND,
                limits=limits,
                clock=lambda: self.now,
                lineage_input=lambda cleared, views, relations, functions: {"temp_views": dict(views)},
                session_catalogs=lambda: self.told,
                promotion=self.promotion if promotes else None,
                identity=identity or LoginIdentity(),
                metrics=self.metrics,
                budgets=self.budgets,
            ),
            backend or self.backend,
        )

    def new_policies(self, *limits: Limit) -> None:
        self.policies = PolicySet(version=self.policies.version + 1, limits=limits)


async def until(condition: Callable[[], bool], quiet_s: float = 120.0) -> None:
    """Wait until a condition holds; fail when it does not in time."""
    async with asyncio.timeout(patience(quiet_s)):
        while not condition():  # noqa: ASYNC110 - polls a fake's state, which has no event of its own
            await asyncio.sleep(0.001)
