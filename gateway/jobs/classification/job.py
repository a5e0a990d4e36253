"""`classify`: which columns hold personal or secret data, a bounded number of tables at each run.

New tables come first, those that were made of files before all; then those that have changed, the longest
not looked at first. Each table is written in one transaction when it is done, so a run that was killed goes
on with the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any, Protocol

from gateway.errors import BackendUnavailable, Faults
from gateway.jobs.classification.formats import Formats
from gateway.jobs.classification.proposing import Classified, Wrote, forget, write
from gateway.jobs.classification.rules import Classifiers
from gateway.jobs.classification.scoring import Evidence, Scorer
from gateway.jobs.classification.source import Described, Limits, Sample, TableParts, Unreadable, digest
from gateway.jobs.job import Job, Outcome, Work

VERSION = 3
GONE = frozenset({"TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND"})
"""What Spark says of a table that is not there. Of one of which its user may see nothing the gateway says
neither, whether it is there or not."""


class SampledTables(Protocol):
    """Where tables are read; all calls block, and raise Unreadable or BackendUnavailable."""

    def check(self) -> None: ...

    def user(self) -> str: ...

    def tables(self, catalog: str) -> list[TableParts]: ...

    def describe(self, table: TableParts) -> Described: ...

    def partitions(self, table: TableParts, described: Described) -> list[tuple[Any, ...]]: ...

    def sample(
        self, table: TableParts, described: Described, partitions: Sequence[tuple[Any, ...]], limits: Limits
    ) -> Sample: ...


class ColumnPolicies(Protocol):
    """Answers of the policies about columns of a table."""

    def tags(self, table: TableParts, columns: Sequence[str]) -> Mapping[str, Collection[str]]:
        """Return the tags that they give each, other than by what was accepted of a proposal."""
        ...

    def list_masked_columns(self, user: str, table: TableParts, columns: Sequence[str]) -> Collection[str]:
        """Return those that show a user something else than what is in them."""
        ...

    def list_hidden_columns(self, user: str, table: TableParts, columns: Sequence[str]) -> Collection[str]:
        """Return those that are not there for a user."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifyOptions:
    classifiers: Callable[[], Classifiers]
    """Reads the rules; raises Faults."""
    source: Callable[[Work], AbstractContextManager[SampledTables]]
    """Opens the session by which tables are read."""
    policies: Callable[[Any], Awaitable[ColumnPolicies]]
    """Reads the policies, with what was accepted from the database; raises Faults."""
    catalogs: Sequence[str] = ("spark_catalog",)
    include: Sequence[str] = ("*",)
    """Patterns of dotted names."""
    exclude: Sequence[str] = ()
    regions: Sequence[str] = ("US", "GB", "DE", "FR", "ES", "IT", "PT", "NL")
    """Whose telephone numbers are known without their country."""
    limits: Limits = field(default_factory=Limits)
    tables: int = 200
    """Maximum number of tables of one run."""
    again_days: int = 30
    """Days after which a table is looked at again though nothing says that it has changed."""


def classify(options: ClassifyOptions) -> Job:
    return Job(
        name="classify",
        version=VERSION,
        about="proposes tags for columns with personal or secret data, by names and samples",
        reads=("tables of `jobs.classify.catalogs`",),
        writes=("sluice.tag_proposal", "sluice.classified_table", "sluice.classification_drift"),
        run=lambda work: _Classify(work, options).run(),
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """State of a table after its last classification."""

    signature: str
    classified_at: datetime


class _Classify:
    def __init__(self, work: Work, options: ClassifyOptions) -> None:
        self._work, self._options = work, options
        self._rules = options.classifiers()
        formats = Formats(self._rules.lists, options.regions, today=work.now.date())
        self._scorer = Scorer(self._rules, formats, options.limits.value_chars)
        self._attributes = {rule.name: rule.attributes for rule in self._rules.classes}
        self._done = self._rows = self._proposed = self._bytes = self._columns = 0
        self._unlisted: dict[str, str] = {}
        """What is told of catalogs that cannot be listed, by their names in lower case."""
        self._troubles: list[str] = []
        """What is told of tables that cannot be scored."""

    async def run(self) -> Outcome:
        work, options = self._work, self._options
        self._policies = await options.policies(work.connection)
        with options.source(work) as source:
            self._user = await asyncio.to_thread(source.user)
            there = await self._there(source)
            known = await self._list_known()
            for table in sorted(known.keys() - set(there)):
                await self._forget_table(source, table)
            found = [table for table in there if self._is_wanted(table)]
            promoted = await self._load_promoted()
            order = sorted(found, key=lambda one: _order(one, known, promoted))
            new = sum(table not in known for table in order)
            work.progress(f"{len(order):,} tables, {new:,} of them new")
            began = time.monotonic()
            for number, table in enumerate(order, 1):
                if self._done >= options.tables:
                    work.progress(f"{len(order) - number + 1:,} tables are left for the next run")
                    break
                await self._table(source, table, known.get(table), promoted.get(table, ""))
            seconds = max(time.monotonic() - began, 0.001)
        work.progress(
            f"{self._done:,} tables classified, {self._columns:,} columns, {self._bytes:,} bytes:"
            f" {self._columns / seconds:,.0f} columns and {self._bytes / seconds:,.0f} bytes a second;"
            f" {self._proposed:,} tags proposed"
        )
        if self._unlisted or self._troubles:
            raise BackendUnavailable("; ".join([*self._unlisted.values(), *self._troubles]))
        return Outcome(rows_in=self._rows, rows_out=self._proposed)

    async def _there(self, source: SampledTables) -> list[TableParts]:
        """Return the tables of all catalogs that can be listed; of the others it is told."""
        found: list[TableParts] = []
        for catalog in self._options.catalogs:
            try:
                found += await asyncio.to_thread(source.tables, catalog)
            except Unreadable as error:
                await asyncio.to_thread(source.check)
                told = f"the tables of `{catalog}` cannot be listed: {error}"
                self._unlisted[catalog.lower()] = told
                self._work.progress(told)
        return found

    def _is_wanted(self, table: TableParts) -> bool:
        return any(fnmatchcase(table.name, one.lower()) for one in self._options.include) and not any(
            fnmatchcase(table.name, one.lower()) for one in self._options.exclude
        )

    async def _forget_table(self, source: SampledTables, table: TableParts) -> None:
        """Forget a table that is there no more, with what is proposed of it."""
        if table.catalog not in map(str.lower, self._options.catalogs) or table.catalog in self._unlisted:
            return
        try:
            await asyncio.to_thread(source.describe, table)
        except Unreadable as error:
            await asyncio.to_thread(source.check)
            if str(error) not in GONE:
                await self._unreadable(table, error)
                return
            withdrawn = await forget(self._work.connection, table)
            self._work.progress(f"{table.name}: dropped: {withdrawn} tags withdrawn")

    async def _table(
        self, source: SampledTables, table: TableParts, known: _Known | None, dataset: str
    ) -> None:
        """Classify a table where it is new or another one than it was."""
        work = self._work
        try:
            described = await asyncio.to_thread(source.describe, table)
            partitions: list[tuple[Any, ...]] = []
            if not described.is_view:
                partitions = await asyncio.to_thread(source.partitions, table, described)
            there = {column.name.lower() for column in described.columns}
            asked = self._user, table, sorted(there | await self._list_reported_columns(table))
            masked = await asyncio.to_thread(self._policies.list_masked_columns, *asked)
            hidden = await asyncio.to_thread(self._policies.list_hidden_columns, *asked)
            signature = digest(
                [
                    self._rules.digest,
                    str(VERSION),
                    described.details,
                    dataset,
                    await self._list_write_changes(table),
                ],
                map(repr, partitions),
                sorted(masked),
                sorted(hidden),
            )
            if known is not None and known.signature == signature and not self._is_old(known):
                return
            if described.is_view:
                # What is in it comes from tables, and their tags with it along lineage.
                await self._write(_build_empty_result(table, "view", signature))
                return
            limits = self._options.limits
            began = time.monotonic()
            sample = await asyncio.to_thread(source.sample, table, described, partitions, limits)
        except Unreadable as error:
            await asyncio.to_thread(source.check)
            await self._unreadable(table, error)
            return
        try:
            columns = await asyncio.to_thread(self._score, sample)
        except Faults:
            raise  # of a library that is missing, for one
        except Exception as error:  # noqa: BLE001 - whatever a format does with a value
            await self._record_unscored(table, error)
            return
        tagged = await asyncio.to_thread(self._policies.tags, table, sorted(columns))
        classified = Classified(
            table=table,
            state="classified",
            signature=signature,
            columns={name.lower(): found for name, found in columns.items()},
            sampled={name.lower(): len(one.values) for name, one in sample.columns.items()},
            attributes=self._attributes,
            tagged={name.lower(): found for name, found in tagged.items()},
            there=there,
            masked=masked,
            hidden=hidden,
            unreadable=len(sample.unreadable),
            rows=sample.rows,
            bytes=sample.bytes,
            reason=sample.reason,
        )
        wrote = await self._write(classified)
        self._done += 1
        self._rows += sample.rows
        self._bytes += sample.bytes
        self._columns += len(columns)
        self._proposed += wrote.proposed
        told = f"{wrote.proposed} tags proposed"
        told += f", {wrote.withdrawn} withdrawn" if wrote.withdrawn else ""
        told += f", {wrote.drift} drifted" if wrote.drift else ""
        told += f", {len(sample.unreadable)} columns not readable" if sample.unreadable else ""
        seconds = time.monotonic() - began
        work.progress(f"{table.name}: {len(columns)} columns, {sample.rows:,} rows, {seconds:.1f} s: {told}")

    async def _record_unscored(self, table: TableParts, error: Exception) -> None:
        """A value that a format does not get through must not keep the tables behind it from being looked at.
        Of the error only its name is told: the rest may quote the value."""
        told = f"{table.name}: cannot be scored: {type(error).__name__}"
        self._troubles.append(told)
        self._work.progress(told)
        await self._write(_build_empty_result(table, "unreadable", "", type(error).__name__))

    async def _unreadable(self, table: TableParts, error: Unreadable) -> None:
        self._work.progress(f"{table.name}: cannot be read: {error}")
        # Looked at again with the next run, after what is new.
        await self._write(_build_empty_result(table, "unreadable", "", str(error)))

    def _score(self, sample: Sample) -> dict[str, list[Evidence]]:
        return dict(zip(sample.columns, self._scorer.table(list(sample.columns.values())), strict=True))

    async def _write(self, found: Classified) -> Wrote:
        return await write(self._work.connection, found, run=self._work.run, now=self._work.now)

    def _is_old(self, known: _Known) -> bool:
        return self._work.now - known.classified_at >= timedelta(days=self._options.again_days)

    async def _list_known(self) -> dict[TableParts, _Known]:
        rows = await self._work.connection.fetch(
            "SELECT catalog, database, table_name, signature, classified_at FROM sluice.classified_table"
        )
        return {TableParts(*row[:3]): _Known(row[3], row[4]) for row in rows}

    async def _list_reported_columns(self, table: TableParts) -> set[str]:
        """Return the columns of which something is proposed or drift is told."""
        named = "catalog = $1 AND database = $2 AND table_name = $3"
        rows = await self._work.connection.fetch(
            f"SELECT column_name FROM sluice.tag_proposal WHERE {named}"
            f" UNION SELECT column_name FROM sluice.classification_drift WHERE {named}",
            *table,
        )
        return {row[0] for row in rows}

    async def _load_promoted(self) -> dict[TableParts, str]:
        """Return the tables that were made of files, with what changes when these do."""
        rows = await self._work.connection.fetch("SELECT database, table_name, signature FROM sluice.dataset")
        return {TableParts("spark_catalog", row[0], row[1]): row[2] for row in rows}

    async def _list_write_changes(self, table: TableParts) -> str:
        """Return what changes when a statement on record writes the table."""
        found = await self._work.connection.fetchval(
            "SELECT max(e.last_seen) FROM sluice.lineage_edge e"
            " JOIN sluice.lineage_column c ON c.id = e.target"
            " JOIN sluice.lineage_dataset d ON d.id = c.dataset WHERE d.kind = 'table' AND d.parts = $1",
            list(table),
        )
        return "" if found is None else str(found.isoformat())


def _order(
    table: TableParts, known: Mapping[TableParts, _Known], promoted: Collection[TableParts]
) -> tuple[int, float, TableParts]:
    there = known.get(table)
    if there is None:
        return (0 if table in promoted else 1), 0.0, table
    return 2, there.classified_at.timestamp(), table


def _build_empty_result(table: TableParts, state: str, signature: str, reason: str = "") -> Classified:
    return Classified(
        table=table,
        state=state,
        signature=signature,
        columns={},
        sampled={},
        attributes={},
        tagged={},
        reason=reason,
    )
