"""The run of `proof`: statements are chosen, their tables sampled, and both ways compared."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event
from typing import Any, Protocol
from uuid import UUID

import orjson

from gateway.errors import Faults, ProofFailed
from gateway.jobs.job import Job, Outcome, Work
from gateway.jobs.proof.comparing import Difference, StatementRuns, difference
from gateway.jobs.proof.copies import Unprovable, recipe
from gateway.jobs.proof.rows import Rows
from gateway.jobs.proof.sandbox import Failed, Sandbox, TooLarge
from gateway.jobs.proof.stopping import unless_stopped
from gateway.jobs.proof.views import Copying, bottom_up, list_named_tables
from gateway.jobs.rollup_texts import LONGEST
from gateway.jobs.spark import condition_of, spark_errors
from gateway.model.catalog import CatalogSnapshot, LookUp, Table, TableKind, TableName, levels
from gateway.model.context import AccessContext
from gateway.model.files import SESSION_CATALOG
from gateway.model.metalakes import NONE_LISTED, ListedCatalogs
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.reading import Reading
from gateway.model.snapshot import Snapshot
from gateway.model.spark_minors import minor_of
from gateway.model.statement import (
    AnswerFilter,
    Cleared,
    NeedsCatalog,
    SessionContext,
    Statement,
    Verdict,
)
from gateway.pipeline import MAX_VIEW_DEPTH, Rules, judge
from gateway.reader.pool import ReaderPool

VERSION = 1
DIRECTORY = "_proof"
"""Directory of the lake; Spark ignores files whose names begin so."""
WHOLE = "its text was erased, or truncated in the record"
UNREADABLE = "its record cannot be read"
REFUSED = "policies refuse it now"
NO_QUERY = "it is not a query, or reads no table"
COLLATED = "it reads a view with a collation of its own"
METRICS = "it reads a metric view, whose measures a copied table does not have"
ELSEWHERE = "it reads a table outside of spark_catalog, or ran in another catalog"
VARYING = "its rows depend on time, randomness or the session"
LIMITED = "it returns some of its rows without ORDER BY"
TOGETHER = "it reads a policy that depends on which tables are accessed together"
LARGE = "it returns more rows than a proof compares"
SLOW = "it runs longer than the time limit"
UNSAMPLED = "a table that it or a policy reads could not be sampled"
NOT_SET_UP = "its tables cannot be recreated from samples"
_CHANCE = frozenset(
    {
        *("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id"),
        *("spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length"),
        *("now", "current_timestamp", "current_date", "curdate", "current_time", "localtimestamp"),
        *("unix_timestamp", "current_database", "current_schema", "current_catalog", "version", "sleep"),
    }
)
_CLOCKS = frozenset({"CurrentDate", "CurrentTimestamp", "CurrentTime", "LocalTimestamp", "Now"})
_LIMITS = frozenset({"GlobalLimit", "LocalLimit", "Offset", "Sample", "LimitAll", "Tail"})


class Source(Protocol):
    """Where tables are sampled."""

    def read(self, table: Table, rows: int, max_bytes: int) -> Any:
        """Return up to so many rows, with the table's columns, as a `pyarrow.Table`; None where that cannot
        be. Blocks; raises BackendUnavailable when nothing can be read any more."""
        ...

    def reader(self) -> str:
        """Return as whom the tables are read. Blocks; raises BackendUnavailable."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The pipeline that judges statements, the same as in a gateway."""

    reader: ReaderPool
    policies: PolicySet
    principals: dict[str, Principal]
    rules: Rules
    catalogs: frozenset[str]
    look_up: LookUp
    listed: ListedCatalogs = NONE_LISTED
    """Catalogs that come and go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofOptions:
    gate: Callable[[], AbstractAsyncContextManager[Gate]]
    """Reads the policies and starts a parser; raises Faults, BackendUnavailable."""
    source: Callable[[Work], AbstractContextManager[Source]]
    """Opens what tables are sampled by; closed before Spark starts."""
    days: int = 7
    statements: int = 200
    per_stratum: int = 3
    """Maximum number of statements of one user over the same tables."""
    rows: int = 500
    """Maximum number of rows of a table."""
    bytes: int = 8 * 1024**2
    tables: int = 100
    result_rows: int = 50_000
    statement_s: float = 60.0


@dataclass(slots=True, kw_only=True)
class _Chosen:
    """A statement on its way."""

    statement_id: UUID
    principal: Principal
    text: str
    catalog: str
    namespace: tuple[str, ...]
    cleared: Cleared
    tables: tuple[Table, ...]
    """All that it is judged by; views behind what they read."""
    scanned: tuple[TableName, ...]
    """Tables that the statement's own text reads."""
    below: Mapping[TableName, Sequence[TableName]]
    """Tables that the texts of its views read."""
    context: AccessContext

    @property
    def names(self) -> list[TableName]:
        return [table.name for table in self.tables]


@dataclass(slots=True)
class _Counts:
    chosen: int = 0
    proved: int = 0
    obliged: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    examples: dict[str, UUID] = field(default_factory=dict)
    alarms: list[tuple[Any, ...]] = field(default_factory=list)

    def leave_out(self, reason: str, statement: UUID) -> None:
        self.left_out[reason] += 1
        self.examples[reason] = statement


def proof(options: ProofOptions) -> Job:
    """Return the job. Its run raises ProofFailed where something was shown that policies do not say; what it
    was is in PostgreSQL by then."""

    return Job(
        name="proof",
        version=VERSION,
        about="replays recorded statements over tables that were filtered and masked beforehand, and "
        "compares the rows",
        reads=("sluice.audit_event", "samples of tables"),
        writes=("sluice.proof", "sluice.proof_left_out", "sluice.proof_alarm"),
        run=lambda work: _Proof(work, options).run(),
    )


_CHOOSE = """
WITH asked AS (
    SELECT DISTINCT ON (user_name, statement_sha256) statement_id, user_name, groups, roles, client_address,
           CASE WHEN body ? 'plan' THEN body->'texts'->>0 ELSE statement END AS text, statement_sha256, body,
           statement_sha256 = sha256(convert_to(statement, 'UTF8')) AS whole,
           ARRAY(SELECT DISTINCT s->>'table' FROM jsonb_array_elements(body->'scans') s ORDER BY 1) AS tables
    FROM sluice.audit_event
    WHERE kind = 'decided' AND verdict = 'cleared' AND time >= $1 AND time < $2
      AND (NOT body ? 'plan' OR body->'lineage' ? 'command' AND NOT body->'lineage' ? 'plan')
      AND jsonb_typeof(body->'scans') = 'array' AND body->'scans' <> '[]'
    ORDER BY user_name, statement_sha256, time DESC
), ranked AS (
    SELECT *, row_number() OVER (
               PARTITION BY user_name, tables ORDER BY sha256(statement_sha256 || $3)
           ) AS rank
    FROM asked
)
SELECT * FROM ranked WHERE rank <= $4 ORDER BY rank, sha256(statement_sha256 || $3) LIMIT $5
"""
"""Selects the plans that are nothing but an SQL text: `spark.sql("…")` through Spark Connect."""


class _Proof:
    def __init__(self, work: Work, options: ProofOptions) -> None:
        self._work, self._options = work, options
        self._counts = _Counts()
        self._looked_up: dict[TableName, Table] = {}
        self._missing: set[TableName] = set()

    async def run(self) -> Outcome:
        work, options = self._work, self._options
        if work.spark_options.remote:
            raise Faults(
                ["a proof needs a Spark of its own: run it with `--master`, not through Spark Connect"]
            )
        # A killed run's.
        await asyncio.to_thread(shutil.rmtree, work.lake / DIRECTORY, ignore_errors=True)
        since = work.now - timedelta(days=options.days)
        seed = work.run.to_bytes(8, "big")
        rows = await work.connection.fetch(
            _CHOOSE, since, work.now, seed, options.per_stratum, options.statements
        )
        self._counts.chosen = len(rows)
        work.progress(f"{len(rows):,} statements chosen")
        if rows:
            try:
                async with options.gate() as gate:
                    chosen = await self._judge_rows(gate, rows)
                    if chosen:
                        await self._compare(gate, chosen)
            except Exception:
                # What was found counts, whatever ends the run.
                if self._counts.alarms:
                    await self._record()
                raise
        await self._record()
        counts = self._counts
        work.progress(f"{counts.proved:,} proved, {len(counts.alarms):,} different")
        if counts.alarms:
            raise ProofFailed(
                f"{len(counts.alarms):,} of {counts.chosen:,} statements return rows that policies do not "
                "allow; `sluice report proof` lists them"
            )
        return Outcome(rows_in=len(rows), rows_out=counts.proved, range_from=since, range_to=work.now)

    async def _judge_rows(self, gate: Gate, rows: Sequence[Any]) -> list[_Chosen]:
        """Return the statements that can be proved; the others are counted."""
        found = []
        for row in rows:
            statement_id = row["statement_id"]
            one = await self._choose_statement(gate, row)
            if isinstance(one, str):
                self._counts.leave_out(one, statement_id)
            else:
                found.append(one)
        return found

    async def _choose_statement(self, gate: Gate, row: Any) -> _Chosen | str:
        text, session = row["text"], _session(orjson.loads(row["body"]), gate.listed)
        if text is None or not row["whole"]:
            return WHOLE
        if session is None:
            return UNREADABLE
        known = gate.principals.get(row["user_name"])
        principal = Principal(
            user=row["user_name"],
            groups=frozenset(row["groups"] or ()),
            roles=frozenset(row["roles"] or ()),
            attributes=known.attributes if known is not None else (),
        )
        context = AccessContext(
            time=self._work.now,
            client_ip=row["client_address"] or None,
            client_type="proof",
            action="QUERY",
            request_data=text,
        )
        verdict = await self._verdict(
            gate, Statement(text=text, principal=principal, context=session), context
        )
        if not isinstance(verdict, Cleared):
            return REFUSED
        if "accessed_together" in verdict.context_dependencies:
            # Of a copy, which stands for one table, nobody knows what it is read with.
            return TOGETHER
        try:
            below, scanned = await self._read(gate, verdict, text, session)
            for table in verdict.tables:
                if table.name.fold() in scanned:
                    recipe(gate.policies, (principal,), (principal,), table, context)
            return _Chosen(
                statement_id=row["statement_id"],
                principal=principal,
                text=text,
                catalog=session.catalog,
                namespace=session.namespace,
                cleared=verdict,
                tables=tuple(bottom_up(verdict.tables, below)),
                scanned=scanned,
                below=below,
                context=context,
            )
        except Unprovable as error:
            return str(error)

    async def _verdict(self, gate: Gate, statement: Statement, context: AccessContext) -> Verdict | None:
        for _ in range(MAX_VIEW_DEPTH + 2):
            catalog = CatalogSnapshot(
                version=1,
                catalogs=gate.catalogs,
                tables=self._looked_up,
                missing=frozenset(self._missing),
                listed=gate.listed,
            )
            snapshot = Snapshot(
                policies=gate.policies, catalog=catalog, context=context, principals=gate.principals
            )
            verdict = await judge(statement, snapshot, gate.reader, gate.rules)
            if not isinstance(verdict, NeedsCatalog):
                return verdict
            found = await gate.look_up(verdict.tables)
            for name in verdict.tables:
                table = found.table(name)
                if table is None:
                    self._missing.add(name.fold())
                else:
                    self._looked_up[name.fold()] = table
        return None

    async def _read(
        self, gate: Gate, cleared: Cleared, text: str, session: SessionContext
    ) -> tuple[dict[TableName, tuple[TableName, ...]], tuple[TableName, ...]]:
        """Return what the texts of views read, and what the statement's own does. Raises Unprovable for what
        cannot be proved."""
        if (
            not cleared.read_only
            or cleared.effects
            or cleared.answer.filter is not AnswerFilter.RELAY
            or not cleared.scans
            or cleared.temp_views_read
        ):
            raise Unprovable(NO_QUERY)
        catalogs = {session.catalog, *(table.name.catalog for table in cleared.tables)}
        if {name.lower() for name in catalogs} != {SESSION_CATALOG} or len(session.namespace) != 1:
            raise Unprovable(ELSEWHERE)
        tables = {table.name.fold(): table for table in cleared.tables}
        bodies = {name: table.view for name, table in tables.items() if table.kind is TableKind.VIEW}
        reading = await _fit(gate, text)
        if not bodies:
            scans = (scan.table.fold() for scan in cleared.scans)
            return {}, tuple(dict.fromkeys(name for name in scans if name in tables))
        if any(body is not None and body.metrics is not None for body in bodies.values()):
            raise Unprovable(METRICS)
        below = {}
        for name, body in bodies.items():
            if body is None or body.collation:
                raise Unprovable(COLLATED)
            below[name] = list_named_tables(
                await _fit(gate, body.text), body.catalog, levels(body.database), tables
            )
        return below, list_named_tables(reading, session.catalog, session.namespace, tables)

    async def _compare(self, gate: Gate, chosen: list[_Chosen]) -> None:
        """Sample tables, start Spark, and run each statement both ways."""
        samples, reader = await asyncio.to_thread(self._samples, chosen)
        self._tell_hidden(gate, reader, [table for table, _ in samples])
        spark = await self._work.spark()
        if minor_of(str(spark.version)) != minor_of(gate.reader.spark_version):
            raise Faults([f"the job runs Spark {spark.version}, the gateway {gate.reader.spark_version}"])
        directory = self._work.lake / DIRECTORY
        sandbox = await asyncio.to_thread(Sandbox, spark, directory, rows=self._options.result_rows)
        try:
            for table, rows in samples:
                # What cannot be kept is as if it had not been sampled.
                with suppress(Failed):
                    await asyncio.to_thread(sandbox.add, table, rows)
            samples.clear()
            for one in chosen:
                for table in one.tables:
                    if table.kind is TableKind.VIEW:
                        sandbox.add_view(table)
            for number, one in enumerate(chosen, 1):
                await self._one(gate, spark, sandbox, one)
                if number % 20 == 0:
                    self._work.progress(f"{number:,} of {len(chosen):,} statements compared")
        finally:
            await asyncio.to_thread(sandbox.close)
            shutil.rmtree(directory, ignore_errors=True)

    def _samples(self, chosen: list[_Chosen]) -> tuple[list[tuple[Table, Any]], str]:
        """Read some of each table; a table that cannot be read is not among them. Return as whom, too."""
        wanted: dict[TableName, Table] = {}
        for one in chosen:
            for table in one.tables:
                if table.kind is TableKind.TABLE and len(wanted) < self._options.tables:
                    wanted[table.name.fold()] = table
        found = []
        with self._options.source(self._work) as source:
            reader = source.reader()
            for table in wanted.values():
                rows = source.read(table, self._options.rows, self._options.bytes)
                if rows is not None:
                    found.append((table, rows))
        self._work.progress(f"{len(found):,} tables sampled")
        return found, reader

    def _tell_hidden(self, gate: Gate, reader: str, tables: Sequence[Table]) -> None:
        """Report how many samples are incomplete: over masked values no mask shows what it lets through."""
        principal = gate.principals.get(reader)
        if principal is None:
            return
        context, hidden = AccessContext(time=self._work.now, client_type="proof", action="QUERY"), 0
        for table in tables:
            try:
                hidden += recipe(gate.policies, (principal,), (principal,), table, context).hides
            except Unprovable:
                hidden += 1
        if hidden:
            self._work.progress(
                f"{hidden:,} of them are masked or filtered for {reader}, who reads the samples: what "
                f"{reader} cannot see is not proved"
            )

    async def _one(self, gate: Gate, spark: Any, sandbox: Sandbox, one: _Chosen) -> None:
        if not all(sandbox.knows(name) for name in one.names):
            self._counts.leave_out(UNSAMPLED, one.statement_id)
            return
        copying = Copying(
            sandbox=sandbox,
            policies=gate.policies,
            rules=gate.rules,
            principals=gate.principals,
            context=one.context,
            below=one.below,
            unanalysed=frozenset(scan.table.fold() for scan in one.cleared.scans if scan.columns is None),
        )
        stop = sandbox.stop = Event()
        try:
            async with asyncio.timeout(self._options.statement_s):
                found = await unless_stopped(spark, lambda: difference(_runs(sandbox, copying, one)), stop)
        except TimeoutError:
            self._counts.leave_out(SLOW, one.statement_id)
            return
        except TooLarge:
            self._counts.leave_out(LARGE, one.statement_id)
            return
        except Unprovable as error:
            self._counts.leave_out(str(error), one.statement_id)
            return
        except spark_errors() as error:
            self._counts.leave_out(f"{NOT_SET_UP}: {condition_of(error)}", one.statement_id)
            return
        if found is None:
            self._counts.proved += 1
            self._counts.obliged += copying.hides
        else:
            await self._alarm(gate, one, found)

    async def _alarm(self, gate: Gate, one: _Chosen, found: Difference) -> None:
        found_shape = await gate.reader.fingerprint(one.text)
        shape = found_shape if isinstance(found_shape, str) else ""
        self._counts.alarms.append(
            (
                self._work.run,
                one.statement_id,
                one.principal.user,
                (shape or one.cleared.plan_class)[:LONGEST],
                sorted(str(name) for name in one.names),
                found.only_governed,
                found.only_copied,
                found.what,
            )
        )
        self._work.progress(f"alarm: statement {one.statement_id} of {one.principal.user} returns other rows")

    async def _record(self) -> None:
        """Write what came of it, before a difference fails the run."""
        run, counts, connection = self._work.run, self._counts, self._work.connection
        async with connection.transaction():
            await connection.execute(
                "INSERT INTO sluice.proof (run, statements, proved, different, obliged)"
                " VALUES ($1, $2, $3, $4, $5)",
                *(run, counts.chosen, counts.proved, len(counts.alarms), counts.obliged),
            )
            await connection.executemany(
                "INSERT INTO sluice.proof_left_out (run, reason, statements, example)"
                " VALUES ($1, $2, $3, $4)",
                [(run, reason, count, counts.examples[reason]) for reason, count in counts.left_out.items()],
            )
            await connection.executemany(
                "INSERT INTO sluice.proof_alarm (run, statement_id, user_name, fingerprint, tables,"
                " only_governed, only_copied, what) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                counts.alarms,
            )


def _session(body: Mapping[str, Any], listed: ListedCatalogs) -> SessionContext | None:
    """Return the session of a statement, told of the catalogs of now; None where its record does not say."""
    catalog, namespace = body.get("catalog") or SESSION_CATALOG, body.get("namespace") or ["default"]
    if not isinstance(catalog, str) or not isinstance(namespace, list):
        return None
    if not all(isinstance(level, str) for level in namespace):
        return None
    # Through Connect, the user's name is written into the text: this Spark runs as somebody else.
    return SessionContext(
        catalog=catalog,
        namespace=tuple(namespace),
        endpoint="connect",
        catalogs=frozenset(listed.revisions.items()),
    )


async def _fit(gate: Gate, text: str) -> Reading:
    """Return what the parser says of a text. Raises Unprovable where its rows are not the same each time."""
    reading = await gate.reader.read(text)
    if not isinstance(reading, Reading):
        raise Unprovable(REFUSED)
    names = {call.parts[-1].lower() for call in reading.functions}
    # Whoever asks for the user is answered by name in one way, and by Spark's own in the other.
    if names & _CHANCE or reading.expressions & _CLOCKS or reading.identities:
        raise Unprovable(VARYING)
    if reading.nodes & _LIMITS and "Sort" not in reading.nodes:
        raise Unprovable(LIMITED)
    return reading


def _runs(sandbox: Sandbox, copying: Copying, one: _Chosen) -> StatementRuns:
    def run_governed(*, turned: bool) -> Rows:
        sandbox.register_samples(one.names, turned=turned)
        return sandbox.run(one.cleared.forwarded)

    def run_original(*, copied: bool) -> Rows:
        sandbox.register_samples(one.names)
        made = copying.of(one.principal, one.scanned) if copied else {}
        return sandbox.run_over_copies(made, one.text, one.catalog, one.namespace)

    return StatementRuns(
        governed=lambda: run_governed(turned=False),
        turned=lambda: run_governed(turned=True),
        copied=lambda: run_original(copied=True),
        sent=lambda: run_original(copied=False),
    )
