"""Diagnostics become proposals of tags in PostgreSQL, a table at a time, beside those that lineage makes.

What administrators decided stays as it is; where a column is no longer what they decided on, that is kept as
drift. One transaction for each table: a run that was killed has either all of it or nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gateway.jobs.classification.scoring import Evidence
from gateway.jobs.classification.source import TableParts

MAX_NAME_BYTES = 2_000
"""Maximum size of all names of a proposal together; PostgreSQL's indexes take no more than some 2,700."""
PROPOSED, ACCEPTED = "proposed", "accepted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Classified:
    """Result of classifying one table."""

    table: TableParts
    state: str
    signature: str
    columns: Mapping[str, Sequence[Evidence]]
    """Every column that was looked at, also one without a finding."""
    sampled: Mapping[str, int]
    """Values of each that were there."""
    attributes: Mapping[str, Mapping[str, str]]
    """Rule → the attributes that its tag has."""
    tagged: Mapping[str, Collection[str]]
    """Column → tags that policies give it anyway."""
    there: Collection[str] = ()
    """All its columns that may have tags of a classification, also those that were not looked at."""
    masked: Collection[str] = ()
    """Columns that policies mask for who looks: what is not found in one may well be in it."""
    hidden: Collection[str] = ()
    """Columns that policies have not be there for who looks: each may well be there."""
    unreadable: int = 0
    rows: int = 0
    bytes: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrote:
    """Changes written for a table."""

    proposed: int = 0
    withdrawn: int = 0
    drift: int = 0


async def write(connection: Any, found: Classified, *, run: int, now: datetime) -> Wrote:
    """Bring the proposals and the drift of a table up to date. Raises what asyncpg raises."""
    async with connection.transaction():
        # Whoever writes proposals holds this row.
        await connection.fetchrow("SELECT FROM sluice.tag_state FOR UPDATE")
        wrote = Wrote()
        if found.state != "unreadable":
            wrote = await _Table(connection, found, now).write()
        await connection.execute(
            "INSERT INTO sluice.classified_table (catalog, database, table_name, state, signature, columns,"
            " unreadable, rows, bytes, reason, run, classified_at)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
            " ON CONFLICT (catalog, database, table_name) DO UPDATE SET state = excluded.state,"
            " signature = excluded.signature, columns = excluded.columns, unreadable = excluded.unreadable,"
            " rows = excluded.rows, bytes = excluded.bytes, reason = excluded.reason, run = excluded.run,"
            " classified_at = excluded.classified_at",
            *found.table,
            found.state,
            found.signature,
            len(found.columns),
            found.unreadable,
            found.rows,
            found.bytes,
            found.reason,
            run,
            now,
        )
    return wrote


async def forget(connection: Any, table: TableParts) -> int:
    """Forget the classification of a table that is gone; return how many proposals went with it."""
    nothing = Classified(
        table=table, state="gone", signature="", columns={}, sampled={}, attributes={}, tagged={}
    )
    names = "catalog = $1 AND database = $2 AND table_name = $3"
    async with connection.transaction():
        await connection.fetchrow("SELECT FROM sluice.tag_state FOR UPDATE")
        wrote = await _Table(connection, nothing, datetime.now(UTC)).write()
        await connection.execute(f"DELETE FROM sluice.classification_drift WHERE {names}", *table)
        await connection.execute(f"DELETE FROM sluice.classified_table WHERE {names}", *table)
    return wrote.withdrawn


class _Table:
    def __init__(self, connection: Any, found: Classified, now: datetime) -> None:
        self._connection, self._found, self._now = connection, found, now
        self._there = {*found.there, *found.columns, *found.hidden}

    async def write(self) -> Wrote:
        rows = await self._connection.fetch(
            "SELECT * FROM sluice.tag_proposal WHERE catalog = $1 AND database = $2 AND table_name = $3",
            *self._found.table,
        )
        known: dict[tuple[str, str], Any] = {(row["column_name"], row["tag"]): row for row in rows}
        decided: dict[str, list[Any]] = {}
        for (column, _), row in known.items():
            if row["state"] != PROPOSED:
                decided.setdefault(column, []).append(row)
        proposed = withdrawn = 0
        drift: list[tuple[str, str, str, str, str]] = []
        for column, findings in self._found.columns.items():
            by_tag: dict[str, list[Evidence]] = {}
            for one in findings:
                by_tag.setdefault(one.tag, []).append(one)
            for tag, of_tag in by_tag.items():
                proposed += await self._propose(known.get((column, tag)), column, tag, of_tag)
            masked = column in self._found.masked
            if not masked:
                drift += _drift(column, by_tag, decided.get(column, []), self._found.sampled.get(column, 0))
            has = self._found.tagged.get(column, ())
            for (named, tag), row in known.items():
                moot = tag in has or (tag not in by_tag and not masked)
                if named == column and moot and row["state"] == PROPOSED:
                    withdrawn += await self._withdraw(row)
        withdrawn += await self._withdraw_others(rows)
        await self._keep(drift)
        return Wrote(proposed=proposed, withdrawn=withdrawn, drift=len(drift))

    async def _propose(self, known: Any, column: str, tag: str, findings: Sequence[Evidence]) -> int:
        """Propose a tag, or say more of a proposal that is open; return 1 for a new one."""
        evidence = _json([one.evidence for one in findings])
        has = tag in self._found.tagged.get(column, ())
        if known is not None:
            if known["state"] == PROPOSED and column not in self._found.masked and not has:
                await self._connection.execute(
                    "UPDATE sluice.tag_proposal SET evidence = $2 WHERE id = $1 AND evidence <> $2",
                    known["id"],
                    evidence,
                )
            return 0
        names = (*self._found.table, column, tag)
        if has or sum(len(n.encode()) for n in names) > MAX_NAME_BYTES:
            return 0
        attributes = []
        for one in findings:
            own = dict(self._found.attributes.get(one.rule, {}))
            if own not in attributes:
                attributes.append(own)
        await self._connection.execute(
            "INSERT INTO sluice.tag_proposal (catalog, database, table_name, column_name, tag, attributes,"
            " state, asks, origins, evidence, proposed_at)"
            " VALUES ($1, $2, $3, $4, $5, $6, 'proposed', true, '[]', $7, $8)",
            *names,
            _json(attributes),
            evidence,
            self._now,
        )
        return 1

    async def _withdraw_others(self, rows: Sequence[Any]) -> int:
        """Take back what is proposed of columns that are gone; return how many it was."""
        gone = [row for row in rows if row["state"] == PROPOSED and row["column_name"] not in self._there]
        return sum([await self._withdraw(row) for row in gone])

    async def _withdraw(self, row: Any) -> int:
        """Take back what nobody has decided and nothing says any more; return 1 where it was there."""
        if row["evidence"] == "[]":
            return 0
        if json.loads(row["origins"]):
            await self._connection.execute(
                "UPDATE sluice.tag_proposal SET evidence = '[]' WHERE id = $1", row["id"]
            )
        else:
            await self._connection.execute("DELETE FROM sluice.tag_proposal WHERE id = $1", row["id"])
        return 1

    async def _keep(self, drift: Sequence[tuple[str, str, str, str, str]]) -> None:
        """Store the drift of the table, each entry with the time when it was first found."""
        await self._connection.execute(
            "DELETE FROM sluice.classification_drift d WHERE catalog = $1 AND database = $2"
            " AND table_name = $3 AND (column_name = ANY ($4::text[]) OR column_name <> ALL ($5::text[]))"
            " AND NOT EXISTS ("
            "  SELECT FROM unnest($6::text[], $7::text[], $8::text[], $9::text[]) AS n (c, t, k, r)"
            "  WHERE (c, t, k, r) = (d.column_name, d.tag, d.kind, d.rule))",
            *self._found.table,
            # Behind a mask nothing of what was found has gone.
            [name for name in self._found.columns if name not in self._found.masked],
            list(self._there),
            *([one[i] for one in drift] for i in range(4)),
        )
        await self._connection.executemany(
            "INSERT INTO sluice.classification_drift (catalog, database, table_name, column_name, tag, kind,"
            " rule, evidence, found_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
            " ON CONFLICT (catalog, database, table_name, column_name, tag, kind, rule)"
            " DO UPDATE SET evidence = excluded.evidence",
            [(*self._found.table, *one, self._now) for one in drift],
        )


def _drift(
    column: str, by_tag: Mapping[str, Sequence[Evidence]], decided: Sequence[Any], sampled: int
) -> list[tuple[str, str, str, str, str]]:
    """Return column, tag, kind, rule and evidence of what is not as it was decided.

    Only what was decided on a classification can drift: a tag that came along lineage says nothing of values.
    """
    judged = {row["tag"]: json.loads(row["evidence"]) for row in decided}
    judged = {tag: evidence for tag, evidence in judged.items() if evidence}
    seen = {one["rule"] for evidence in judged.values() for one in evidence}
    found = [
        (column, row["tag"], "no_longer_fits", "", _json([{"sampled": sampled}]))
        for row in decided
        if row["state"] == ACCEPTED and row["tag"] in judged and row["tag"] not in by_tag and sampled
    ]
    by_lineage = {row["tag"] for row in decided if row["tag"] not in judged}
    if judged:
        found += [
            (column, tag, "new_class", one.rule, _json([one.evidence]))
            for tag, findings in by_tag.items()
            for one in findings
            if one.rule not in seen and tag not in by_lineage
        ]
    return found


async def drift_of(connection: Any, *, table: str = "", limit: int = 1_000) -> list[dict[str, Any]]:
    """Return the drift, of a table by its dotted name or the end of it, the latest first."""
    rows = await connection.fetch(
        "SELECT * FROM sluice.classification_drift d WHERE ($1 = ''"
        " OR right('.' || concat_ws('.', catalog, database, table_name), length($1)) = $1)"
        # Until the next look at the table, one that was rejected meanwhile is still kept.
        " AND (kind <> 'no_longer_fits' OR EXISTS (SELECT FROM sluice.tag_proposal p WHERE state = 'accepted'"
        "  AND (p.catalog, p.database, p.table_name, p.column_name, p.tag)"
        "   = (d.catalog, d.database, d.table_name, d.column_name, d.tag)))"
        " ORDER BY found_at DESC, catalog, database, table_name, column_name, tag, kind, rule LIMIT $2",
        "." + table.lower().replace("`", "") if table else "",
        limit,
    )
    return [
        {
            "column": ".".join((row["catalog"], row["database"], row["table_name"], row["column_name"])),
            "tag": row["tag"],
            "kind": row["kind"],
            "rule": row["rule"],
            "evidence": json.loads(row["evidence"]),
            "found_at": row["found_at"].isoformat(),
        }
        for row in rows
    ]


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True)
