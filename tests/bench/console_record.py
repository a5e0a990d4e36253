"""A record of millions of events for the console's pages, written by PostgreSQL itself. What indexes and
pages see of it is as in a real one: who, when, which resources and policies, verdicts, ends.

Its chain is none. `jobs_record` makes events with real ones, at a tenth of the speed.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import asyncpg

from gateway.database.migrate import migrate

USERS, TABLES, POLICIES = 2_000, 5_000, 10_000
PER_STATEMENT = 2
"""A decision and its end."""

_FILL = f"""
INSERT INTO {{table}} (event_id, time, kind, statement_id, gateway, user_name, groups, client_address,
  client_protocol, application, session_id, verdict, code, message, plan_class, resources, policies,
  statement, rows, bytes, duration_ms, outcome, body)
SELECT CASE WHEN ended THEN gen_random_uuid() ELSE statement END, at, kind, statement, 'gate-' || n % 3,
  'user' || who, ARRAY['staff'], '10.0.0.1', 'thrift', 'dbt', 'session' || n % 1000,
  CASE WHEN ended THEN NULL WHEN refused THEN 'refused' ELSE 'cleared' END,
  CASE WHEN NOT ended AND refused THEN 'ACCESS_DENIED' END,
  CASE WHEN NOT ended AND refused THEN 'user' || who || ' lacks select on ' || name END,
  CASE WHEN NOT ended THEN 'Project' END,
  CASE WHEN NOT ended THEN ARRAY[name, name || '.id', name || '.amount'] END,
  CASE WHEN NOT ended THEN ARRAY['policy' || policy, 'everybody may look round'] END,
  CASE WHEN NOT ended THEN 'SELECT id, amount FROM ' || name || ' WHERE day = ' || n END,
  CASE WHEN ended THEN n % 10000 END, CASE WHEN ended THEN n % 1000000 END, n % 900,
  CASE WHEN ended THEN 'finished' END, '{{{{}}}}'::jsonb
FROM (
  SELECT n, ended, md5(n::text || $1)::uuid AS statement,
    $1::text::timestamptz + (n * $3::float8 + CASE WHEN ended THEN 0.4 ELSE 0 END) * interval '1 s' AS at,
    CASE WHEN ended THEN 'completed' ELSE 'decided' END AS kind,
    -- Few people and tables have most of it.
    floor({USERS} * power(mod(n * 7919, 1000003) / 1000003.0::float8, 3))::int AS who,
    'spark_catalog.shop' || mod(n, 50) || '.t' ||
      floor({TABLES} * power(mod(n * 104729, 1000003) / 1000003.0::float8, 3))::int AS name,
    floor({POLICIES} * power(mod(n * 15485863, 1000003) / 1000003.0::float8, 3))::int AS policy,
    mod(n, 50) = 7 AS refused
  FROM generate_series(0, $2::bigint / {PER_STATEMENT} - 1) AS n, (VALUES (false), (true)) AS sides(ended)
  WHERE NOT (ended AND mod(n, 50) = 7)
) AS made
"""


async def fill(dsn: str, events: int, *, days: int, until: datetime | None = None) -> None:
    """Write about so many events, spread over the days up to that of `until` (yesterday, when none is given).
    Each day gets its indexes when it is full."""
    last = (until or datetime.now(UTC) - timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    connection = await asyncpg.connect(dsn)
    try:
        await migrate(connection)
        await connection.execute("SET maintenance_work_mem = '256MB'; SET synchronous_commit = off")
        each = events // days
        for number in range(days):
            day = last - timedelta(days=days - 1 - number)
            table = f"sluice.audit_event_{day:%Y%m%d}"
            await connection.execute(f"CREATE TABLE {table} (LIKE sluice.audit_event INCLUDING DEFAULTS)")
            await connection.execute(
                _FILL.format(table=table), day.isoformat(), each, 86_000 * PER_STATEMENT / each, timeout=None
            )
            await connection.execute(
                f"ALTER TABLE sluice.audit_event ATTACH PARTITION {table} FOR VALUES"
                f" FROM ('{day.isoformat()}') TO ('{(day + timedelta(days=1)).isoformat()}')",
                timeout=None,
            )
        await connection.execute("ANALYZE sluice.audit_event", timeout=None)
    finally:
        await connection.close()
