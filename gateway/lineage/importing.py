"""Brings the lineage of scripts and of recorded statements into the graph."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from gateway.errors import Faults
from gateway.lineage.following import build_seen_statement, counts, gather, make
from gateway.lineage.gathering import GatheredLineage, Gatherer
from gateway.lineage.recorded import NOT_FORWARDED, RecordedStatement, read_statement
from gateway.lineage.rows import IMPORTED, SeenStatement
from gateway.lineage.sinks import LineageSink
from gateway.lineage.store import KnownIds, store_lineage
from gateway.lineage.workers import LineageWorkers
from gateway.model.audit import AuditEvent
from gateway.model.catalog import CatalogSnapshot, Column, Table, TableKind, TableName, quote
from gateway.model.lineage import DatasetKind, Operation, StatementLineage
from gateway.model.statement import SessionContext, SessionEffect, UseNamespace
from gateway.sql.classify import classify
from gateway.sql.required import Required
from gateway.sql.scripts import statements_of

BATCH = 1_000
"""Statements of one transaction."""
_IDS = uuid.UUID("6f1d5a1e-5a0b-4f0e-9d3c-1f7c0a9b2e44")
"""Makes ids of scripts' statements, so that the same script counts once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Statements that run one after the other in a session of their own."""

    name: str
    """What its statements are known by; a path."""
    statements: tuple[str, ...]
    target: str = ""
    """Of a model of dbt: the relation that its query makes, as SQL writes it."""
    time: datetime
    context: SessionContext = field(default_factory=SessionContext)

    def text(self, statement: str) -> str:
        """Return what of the script runs: a model's query makes its relation."""
        return f"CREATE VIEW {self.target} AS {statement}" if self.target else statement

    @property
    def texts(self) -> list[str]:
        return [self.text(statement) for statement in self.statements]


@dataclass(frozen=True, slots=True)
class Unread:
    """A statement of which nothing is known, and why."""

    name: str
    number: int
    why: str


@dataclass(slots=True)
class ImportReport:
    """How an import went."""

    statements: int = 0
    new: int = 0
    """Those that the graph did not have."""
    without: int = 0
    """Those that move no rows and show none."""
    table_level: list[Unread] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)


_Progress = Callable[[ImportReport], None]


def read_scripts(paths: Sequence[Path], context: SessionContext) -> list[Script]:
    """Return the scripts of files and directories (`*.sql` below them, `target/compiled` of dbt).

    Where a dbt project's `manifest.json` lies beside `compiled`, it says which relation each model makes;
    without it that is the file's name in the current database. Raises Faults with every file that cannot be
    read.
    """
    faults: list[str] = []
    found: list[Script] = []
    for path in paths:
        files = sorted(path.rglob("*.sql")) if path.is_dir() else [path]
        if path.is_dir() and not files:
            faults.append(f"{path}: contains no `*.sql`")
        models = _Models(path)
        for file in files:
            try:
                text = file.read_text(encoding="utf-8-sig")
                time = datetime.fromtimestamp(file.stat().st_mtime, UTC)
            except (OSError, UnicodeDecodeError) as error:
                faults.append(f"{file}: cannot be read: {error}")
                continue
            found.append(
                Script(
                    name=str(file),
                    statements=tuple(statements_of(text)),
                    target=models.target(file),
                    time=time,
                    context=context,
                )
            )
        faults += models.faults
    if faults:
        raise Faults(faults)
    return found


class _Models:
    """What the models of a dbt project make, when a path lies in the compiled files of one."""

    def __init__(self, path: Path) -> None:
        self.faults: list[str] = []
        self._relations: dict[str, str] = {}
        resolved = path.resolve()
        places = [resolved, *resolved.parents]
        compiled = [p for p in places if p.name == "compiled" and p.parent.name == "target"]
        if (resolved / "compiled").is_dir():
            compiled.append(resolved / "compiled")
        self._compiled = compiled[0] if compiled else None
        if self._compiled is None:
            return
        manifest = self._compiled.parent / "manifest.json"
        if not manifest.is_file():
            return
        try:
            nodes = json.loads(manifest.read_bytes())["nodes"].values()
            for node in nodes:
                if node.get("relation_name") and node.get("compiled_path"):
                    self._relations[Path(node["compiled_path"]).as_posix()] = node["relation_name"]
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            self.faults.append(f"{manifest}: is not a dbt manifest: {error!r}")

    def target(self, file: Path) -> str:
        """Return the relation that a model's file makes; empty for other files."""
        if self._compiled is None or not file.resolve().is_relative_to(self._compiled):
            return ""
        within = file.resolve().relative_to(self._compiled.parent.parent).as_posix()
        if within in self._relations:
            return self._relations[within]
        return "" if self._relations else quote(file.stem)


class RecordedEvent(Protocol):
    """A recorded statement, and how it ended when that is known."""

    @property
    def event(self) -> AuditEvent: ...
    @property
    def end(self) -> AuditEvent | None: ...


class LooksUp(Protocol):
    async def look_up(self, tables: Sequence[TableName]) -> CatalogSnapshot:
        """Return a snapshot that knows the names."""


class Importer:
    """Reads statements, gathers what their names mean, makes their lineage in processes, and brings it."""

    def __init__(
        self,
        gatherer: Gatherer,
        workers: LineageWorkers,
        made: MadeTables,
        connection: Any,
        sink: LineageSink | None = None,
    ) -> None:
        self._gatherer = gatherer
        self._workers = workers
        self._made = made
        self._connection = connection
        self._sink = sink
        self._known = KnownIds()
        self._waiting: list[SeenStatement] = []
        self._bringing = asyncio.Lock()
        self.report = ImportReport()

    async def scripts(self, scripts: Sequence[Script], user: str, progress: _Progress) -> None:
        """Import scripts, many at once; what makes a table comes before what reads it."""
        order = await self._order(scripts)
        while order.is_active():
            ready = order.get_ready()
            await self._at_once(self._script(scripts[number], user, progress) for number in ready)
            order.done(*ready)
        await self._flush()

    async def _script(self, script: Script, user: str, progress: _Progress) -> None:
        session = _Session(script.context)
        for number, text in enumerate(script.statements, start=1):
            await self._statement(
                _Statement(
                    name=script.name,
                    number=number,
                    recorded=RecordedStatement(
                        statement_id=uuid.uuid5(_IDS, f"{script.name}\0{number}\0{text}"),
                        time=script.time,
                        user=user,
                        text=script.text(text),
                        session_id=script.name,
                        context=session.context,
                        outcome=IMPORTED,
                    ),
                ),
                session,
            )
        progress(self.report)

    async def _order(self, scripts: Sequence[Script]) -> TopologicalSorter[int]:
        """Return which scripts come before which: by what they make and read, in a circle as they stand."""
        touched = dict(enumerate([await self._gatherer.touches(s.texts, s.context) for s in scripts]))
        makers: dict[TableName, set[int]] = {}
        for number, (_, written) in touched.items():
            for name in written:
                makers.setdefault(name, set()).add(number)
        before = {
            number: {maker for name in read for maker in makers.get(name, ()) if maker != number}
            for number, (read, _) in touched.items()
        }
        order = TopologicalSorter(before)
        try:
            order.prepare()
        except CycleError:
            order = TopologicalSorter({number: {number - 1} if number else set() for number in before})
            order.prepare()
        return order

    async def import_recorded(self, found: Iterable[RecordedEvent], progress: _Progress) -> None:
        """Import cleared statements of the audit record: sessions at once, each in the order of its time."""
        sessions: dict[str, list[RecordedEvent]] = {}
        for one in sorted(found, key=lambda f: f.event.time):
            body = one.event.body
            if _is_whole(one):
                sessions.setdefault(str(body.get("sess", "")), []).append(one)
        await self._at_once(self._session(name, events, progress) for name, events in sessions.items())
        await self._flush()

    async def _session(self, name: str, events: Sequence[RecordedEvent], progress: _Progress) -> None:
        session = _Session(SessionContext())
        for one in events:
            try:
                recorded = read_statement(one.event, one.end)
            except ValueError as error:
                self.report.statements += 1
                self.report.unread.append(Unread(one.event.statement_id, 1, str(error)))
                continue
            session.context = replace(recorded.context, temp_views=frozenset(session.temp_views))
            await self._statement(
                _Statement(name=one.event.statement_id, number=1, recorded=recorded), session
            )
        progress(self.report)

    async def _at_once(self, work: Iterable[Coroutine[Any, Any, None]]) -> None:
        limit = asyncio.Semaphore(2 * self._workers.processes)

        async def run_within_limit(one: Coroutine[Any, Any, None]) -> None:
            async with limit:
                await one

        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(run_within_limit(one))

    async def _statement(self, statement: _Statement, session: _Session) -> None:
        self.report.statements += 1
        recorded = replace(statement.recorded, context=session.context)
        lineage = recorded.tables_only
        effects: tuple[SessionEffect, ...] = ()
        if lineage is None:
            kept = {
                name: session.kept[made] for name, made in recorded.relations.items() if made in session.kept
            }
            gathered = await gather(self._gatherer, recorded, session.temp_views, kept)
            if isinstance(gathered, str):
                self.report.unread.append(Unread(statement.name, statement.number, gathered))
                return
            if isinstance(gathered, GatheredLineage):
                required = classify(gathered.statement.reading, gathered.statement.names)
                effects = required.effects if isinstance(required, Required) else ()
            lineage = await make(self._workers, recorded, gathered)
        session.follow(recorded, effects, lineage)
        if not counts(lineage, recorded) or recorded.outcome == NOT_FORWARDED:
            self.report.without += 1
            return
        await self._bring(recorded, lineage, statement)

    async def _bring(
        self, recorded: RecordedStatement, lineage: StatementLineage, statement: _Statement
    ) -> None:
        if lineage.table_level:
            self.report.table_level.append(Unread(statement.name, statement.number, lineage.table_level))
        self._made.learn(lineage)
        self._waiting.append(build_seen_statement(recorded, lineage))
        if len(self._waiting) >= BATCH:
            await self._flush()

    async def _flush(self) -> None:
        async with self._bringing:
            batch, self._waiting = self._waiting, []
            if batch:
                self.report.new += await store_lineage(self._connection, batch, self._known)
            if batch and self._sink is not None:
                await self._sink.put(batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statement:
    name: str
    number: int
    recorded: RecordedStatement


def _is_whole(found: RecordedEvent) -> bool:
    """Whether a recorded statement can be imported: one that still runs is the gateway's own to bring."""
    body = found.event.body
    if body.get("verdict") != "cleared" or not found.event.statement_id:
        return False
    if "lineage" in body:
        return found.end is not None
    # A plan's text in the record is for people; Spark's parser does not read it.
    return "plan" not in body


@dataclass(slots=True)
class _Session:
    """What names mean from one statement of a session to the next."""

    context: SessionContext
    temp_views: dict[str, StatementLineage] = field(default_factory=dict)
    kept: dict[UUID, StatementLineage] = field(default_factory=dict)
    """Of the statements that computed relations for later plans."""

    def follow(
        self,
        recorded: RecordedStatement,
        effects: Sequence[SessionEffect],
        lineage: StatementLineage | None,
    ) -> None:
        if recorded.caches and lineage is not None:
            self.kept[recorded.statement_id] = lineage
        for effect in effects:
            if isinstance(effect, UseNamespace):
                self.context = SessionContext(
                    catalog=effect.catalog or self.context.catalog,
                    namespace=effect.namespace or self.context.namespace,
                    temp_views=self.context.temp_views,
                )
        if lineage is not None and lineage.operation is Operation.CREATE:
            for target in lineage.targets:
                if target.kind is DatasetKind.TEMP_VIEW:
                    self.temp_views[target.parts[-1]] = lineage
            self.context = SessionContext(
                catalog=self.context.catalog,
                namespace=self.context.namespace,
                temp_views=frozenset(self.temp_views),
            )


class MadeTables:
    """A catalog that also has the tables that the imported statements make, as far as Spark has none."""

    def __init__(self, catalog: LooksUp) -> None:
        self._catalog = catalog
        self._made: dict[TableName, Table] = {}

    async def look_up(self, names: Sequence[TableName]) -> Any:
        """Return a snapshot that knows the names."""
        snapshot = await self._catalog.look_up(names)
        new = {
            name: table
            for name, table in self._made.items()
            if name in names and snapshot.table(name) is None
        }
        if not new:
            return snapshot
        return type(snapshot)(
            version=snapshot.version,
            catalogs=snapshot.catalogs,
            tables={**snapshot.tables, **new},
            missing=snapshot.missing - new.keys(),
        )

    def learn(self, lineage: StatementLineage) -> None:
        """Note the columns of what a statement made."""
        if lineage.operation is not Operation.CREATE or lineage.table_level:
            return
        for target in lineage.targets:
            if target.kind in (DatasetKind.TABLE, DatasetKind.VIEW) and len(target.parts) == 3:
                name = TableName(*target.parts)
                columns = tuple(
                    Column(name=vertex.column, type="")
                    for vertex in lineage.columns
                    if vertex.dataset == target
                )
                self._made[name] = Table(name=name, kind=TableKind.TABLE, columns=columns)
