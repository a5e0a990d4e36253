"""Questions to the roll-ups in PostgreSQL: who read what, what was refused, what was slow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import orjson

PERCENTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupFilter:
    """Selects a part of the roll-ups; None: all of them."""

    since: date | None = None
    """First day (UTC)."""
    until: date | None = None
    """Last day."""
    user: str | None = None
    group: str | None = None
    table: str | None = None
    """Dotted, as Spark takes names: in any case, with backticks or without; what begins so, with a dot behind
    it, too."""
    tag: str | None = None
    """Columns with this tag, as administrators have accepted it; of slow statements, tables with such."""
    limit: int = 50

    @property
    def name(self) -> str | None:
        """The table as it is compared."""
        return None if self.table is None else self.table.lower().replace("`", "")


_DAYS = "($1::date IS NULL OR day >= $1) AND ($2::date IS NULL OR day <= $2)"
_USER = "($3::text IS NULL OR user_name = $3)"
_TABLE = "($4::text IS NULL OR lower(table_name) = $4 OR starts_with(lower(table_name), $4 || '.'))"

_GROUP = "($5::text IS NULL OR $5 = ANY (groups))"

_USAGE = f"""
SELECT user_name, table_name, column_name, endpoint, tool, masks, filters,
       sum(statements)::bigint AS statements, sum(finished)::bigint AS finished, sum(rows)::bigint AS rows,
       sum(bytes)::bigint AS bytes, min(first_at) AS first_at, max(last_at) AS last_at
FROM sluice.rollup_usage u
WHERE {_DAYS} AND {_USER} AND {_TABLE} AND {_GROUP}
  AND ($6::text IS NULL OR EXISTS (
      SELECT FROM sluice.tag_proposal t WHERE t.state = 'accepted' AND t.tag = $6
      AND u.table_name = concat_ws('.', t.catalog, t.database, t.table_name)
      AND (t.column_name IN (u.column_name, '*') OR u.column_name = '*')))
GROUP BY user_name, table_name, column_name, endpoint, tool, masks, filters
ORDER BY statements DESC, user_name, table_name, column_name LIMIT $7"""

_REFUSED = f"""
SELECT user_name, code, resource, action, policy, endpoint, tool, sum(attempts)::bigint AS attempts,
       min(first_at) AS first_at, max(last_at) AS last_at
FROM sluice.rollup_refusal
WHERE {_DAYS} AND {_USER} AND {_GROUP}
  AND ($4::text IS NULL OR replace(lower(resource), '/', '.') = $4
       OR starts_with(replace(lower(resource), '/', '.'), $4 || '.'))
  AND ($6::text IS NULL OR EXISTS (
      SELECT FROM sluice.tag_proposal t WHERE t.state = 'accepted' AND t.tag = $6
      AND starts_with(lower(resource) || '/',
                      lower(concat_ws('/', t.catalog, t.database, t.table_name, '')))
      AND (t.column_name = '*' OR split_part(resource, '/', 4) IN ('', '*')
           OR lower(t.column_name) = ANY (string_to_array(lower(split_part(resource, '/', 4)), ',')))))
GROUP BY user_name, code, resource, action, policy, endpoint, tool
ORDER BY attempts DESC, user_name, code, resource LIMIT $7"""

_SLOW = f"""
SELECT fingerprint, count(DISTINCT user_name)::bigint AS users, sum(statements)::bigint AS statements,
       sum(finished)::bigint AS finished, sum(rows)::bigint AS rows, sum(bytes)::bigint AS bytes,
       sum(judge_ms) AS judge_ms, sum(run_ms) AS run_ms, max(slowest_ms) AS slowest_ms,
       (array_agg(slowest_statement ORDER BY slowest_ms DESC))[1] AS slowest_statement
FROM sluice.rollup_statement
WHERE {_DAYS} AND {_USER} AND {_GROUP}
  AND ($4::text IS NULL OR EXISTS (SELECT FROM unnest(tables) AS table_name WHERE {_TABLE}))
  AND ($6::text IS NULL OR EXISTS (
      SELECT FROM sluice.tag_proposal t WHERE t.state = 'accepted' AND t.tag = $6
      AND concat_ws('.', t.catalog, t.database, t.table_name) = ANY (tables)))
GROUP BY fingerprint ORDER BY run_ms DESC, fingerprint LIMIT $7"""

_LATENCY = """
WITH chosen AS (
    SELECT * FROM sluice.rollup_latency
    WHERE ($1::date IS NULL OR hour >= $1::timestamp AT TIME ZONE 'UTC')
      AND ($2::date IS NULL OR hour < ($2::timestamp + interval '1 day') AT TIME ZONE 'UTC')
      AND dimension = $3 AND ($4::text IS NULL OR name = $4)
), told AS (
    SELECT name, phase, sum(statements)::bigint AS statements, sum(total_ms) AS total_ms,
           max(max_ms) AS max_ms
    FROM chosen GROUP BY name, phase ORDER BY total_ms DESC, name, phase LIMIT $5
)
SELECT told.*, (SELECT jsonb_object_agg(key, count) FROM (
    SELECT b.key, sum(b.value::bigint) AS count FROM chosen c, jsonb_each_text(c.buckets) b
    WHERE c.name = told.name AND c.phase = told.phase GROUP BY b.key) sums) AS buckets
FROM told"""


PEAK_ATTEMPTS = 10
"""Refusals of a user on one day below which no day is a peak."""
PEAK_FACTOR = 3
"""How many times as many as on the user's usual day a peak has."""
USUAL_DAYS = 30
"""Days before it that say what is usual; those without a refusal count."""
_PEAKS = f"""
WITH by_day AS (
    SELECT user_name, day, sum(attempts)::bigint AS attempts,
           (array_agg(code ORDER BY attempts DESC, code))[1] AS code,
           (array_agg(resource ORDER BY attempts DESC, resource))[1] AS resource,
           count(DISTINCT resource)::bigint AS resources
    FROM sluice.rollup_refusal WHERE day >= $1::date - {USUAL_DAYS} GROUP BY user_name, day
), usual AS (
    SELECT *, coalesce(sum(attempts) OVER (
        PARTITION BY user_name ORDER BY day
        RANGE BETWEEN interval '{USUAL_DAYS} days' PRECEDING AND interval '1 day' PRECEDING
    ), 0)::float / {USUAL_DAYS} AS usual FROM by_day
)
SELECT day, user_name AS "user", attempts, round(usual::numeric, 1)::float AS usual, resources,
       code AS "mostly", resource AS "mostly on"
FROM usual WHERE day >= $1 AND attempts >= {PEAK_ATTEMPTS} AND attempts > {PEAK_FACTOR} * usual
ORDER BY attempts / greatest(usual, 1) DESC, day DESC, user_name"""


async def find_refusal_peaks(connection: Any, since: date) -> list[dict[str, Any]]:
    """Return the days on which a user was refused far more often than in the weeks before; the highest
    first."""
    return [dict(row) for row in await connection.fetch(_PEAKS, since)]


async def usage(connection: Any, scope: RollupFilter) -> list[dict[str, Any]]:
    """Return who read which column, through what, under which masks and filters; the most used first."""
    return await _query(connection, _USAGE, scope)


async def load_refusals(connection: Any, scope: RollupFilter) -> list[dict[str, Any]]:
    """Return what was refused to whom, the most frequent first."""
    return await _query(connection, _REFUSED, scope)


async def find_slow_shapes(connection: Any, scope: RollupFilter) -> list[dict[str, Any]]:
    """Return the shapes of statements that took most time in all."""
    return await _query(connection, _SLOW, scope)


async def _query(connection: Any, question: str, scope: RollupFilter) -> list[dict[str, Any]]:
    rows = await connection.fetch(
        question, scope.since, scope.until, scope.user, scope.name, scope.group, scope.tag, scope.limit
    )
    return [dict(row) for row in rows]


async def latency(
    connection: Any, scope: RollupFilter, by: str, name: str | None = None
) -> list[dict[str, Any]]:
    """Return how long judging, Spark and the way to the client took, `by` a dimension; percentiles are told
    to 9 %."""
    rows = await connection.fetch(_LATENCY, scope.since, scope.until, by, name, scope.limit)
    found = []
    for row in rows:
        buckets = {int(key): int(count) for key, count in orjson.loads(row["buckets"] or "{}").items()}
        told = {key: row[key] for key in ("name", "phase", "statements", "total_ms", "max_ms")}
        told["mean_ms"] = row["total_ms"] / row["statements"]
        for share in PERCENTILES:
            told[f"p{share * 100:.0f}_ms"] = min(percentile(buckets, share), row["max_ms"])
        found.append(told)
    return found


def percentile(buckets: Mapping[int, int], share: float) -> float:
    """Return the upper end, in milliseconds, of the bucket that has the percentile."""
    wanted, seen = share * sum(buckets.values()), 0
    for bucket in sorted(buckets):
        seen += buckets[bucket]
        if seen >= wanted:
            return float(2 ** (bucket / 8))
    return 0.0
