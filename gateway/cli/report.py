"""`sluice report`: what the roll-ups and proofs say, as tables for people or as JSON."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time
from typing import Any

from gateway.app import exit_codes
from gateway.cli.audit import find_record, moment
from gateway.cli.report_officer import officer
from gateway.cli.settings import settings_of
from gateway.cli.terminal import BOLD, Terminal, complain
from gateway.cli.unused import refuse_unused
from gateway.database.asking import connected
from gateway.errors import Faults
from gateway.jobs.proof.report import alarms, load_unproved, proofs
from gateway.jobs.reports import RollupFilter, find_slow_shapes, latency, load_refusals, usage

_Found = Sequence[Mapping[str, Any]]
WIDE = 80

USAGE = {
    "user": "user_name",
    "table": "table_name",
    "column": "column_name",
    "through": "endpoint",
    "tool": "tool",
    "statements": "statements",
    "finished": "finished",
    "rows": "rows",
    "bytes": "bytes",
    "masks": "masks",
    "filters": "filters",
    "last": "last_at",
}
REFUSED = {
    "user": "user_name",
    "attempts": "attempts",
    "code": "code",
    "action": "action",
    "resource": "resource",
    "policy": "policy",
    "through": "endpoint",
    "tool": "tool",
    "last": "last_at",
}
SLOW = {
    "seconds": "run_s",
    "statements": "statements",
    "users": "users",
    "mean ms": "mean_ms",
    "slowest ms": "slowest_ms",
    "rows": "rows",
    "bytes": "bytes",
    "slowest statement": "slowest_statement",
    "shape": "fingerprint",
}
PROOFS = {
    "run": "run",
    "made": "made_at",
    "statements": "statements",
    "proved": "proved",
    "with masks or filters": "obliged",
    "different": "different",
}
LEFT_OUT = {"not proved in the last run": "reason", "statements": "statements", "example": "example"}
ALARMS = {
    "found": "found_at",
    "run": "run",
    "user": "user_name",
    "tables": "tables",
    "what": "what",
    "only governed": "only_governed",
    "only copied": "only_copied",
    "statement": "statement_id",
    "shape": "fingerprint",
}
LATENCY = {
    "name": "name",
    "phase": "phase",
    "statements": "statements",
    "mean ms": "mean_ms",
    "p50 ms": "p50_ms",
    "p95 ms": "p95_ms",
    "p99 ms": "p99_ms",
    "max ms": "max_ms",
}


_COLUMNS = {
    "usage": USAGE,
    "refused": REFUSED,
    "slow": SLOW,
    "latency": LATENCY,
    "proofs": PROOFS,
    "left out": LEFT_OUT,
    "alarms": ALARMS,
}
_FILTERS = {
    "usage": {"user", "group", "table", "tag"},
    "refused": {"user", "group", "table", "tag"},
    "slow": {"user", "group", "table", "tag"},
    "latency": {"by"},
    "proof": {"user"},
    "user": set[str](),
    "officer": {"no_spark"},
}
"""Report → what it can be narrowed by, beside the days."""
_OPTIONS = {**dict.fromkeys(("user", "group", "table", "tag")), "by": "all", "no_spark": False}
_ROLLUPS = "`sluice jobs run rollups` makes the roll-ups"
_MADE_BY = {"proofs": "`sluice jobs run proof` makes a proof"}


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Ask what `arguments.what` says."""
    settings = settings_of(arguments)
    if (arguments.what == "user") != bool(arguments.name):
        raise Faults(["`report user` needs a user name; other reports take none"])
    refuse_unused(arguments, f"report {arguments.what}", _OPTIONS, _FILTERS[arguments.what])
    dsn, _ = find_record(settings)
    if arguments.what == "officer":
        return asyncio.run(officer(dsn, settings, arguments, terminal))
    since, until = moment(arguments.since), moment(arguments.until)
    if since is not None and until is not None and until.date() < since.date():
        raise Faults([f"the period from `{arguments.since}` to `{arguments.until}` ends before it begins"])
    first = since.astimezone(UTC).date() if since is not None else None
    last = until.astimezone(UTC).date() if until is not None else None
    if any(one is not None and one.astimezone(UTC).time() != time() for one in (since, until)):
        period = " ".join(f"{word} {day}" for word, day in (("from", first), ("to", last)) if day)
        complain(f"reports cover whole days (UTC): {period}")
    scope = RollupFilter(
        since=first,
        until=last,
        user=arguments.name or arguments.user,
        group=arguments.group,
        table=arguments.table,
        tag=arguments.tag,
        limit=arguments.limit,
    )
    found = asyncio.run(_ask(dsn, arguments, scope))
    if arguments.json:
        terminal.json(found if len(found) > 1 else next(iter(found.values())))
        return exit_codes.OK
    for title, rows in found.items():
        if len(found) > 1:
            terminal.line(terminal.style(title, BOLD))
        _show(terminal, title, rows)
    return exit_codes.OK


async def _ask(
    dsn: str, arguments: argparse.Namespace, scope: RollupFilter
) -> dict[str, list[dict[str, Any]]]:
    async with connected(dsn, "sluice-report") as connection:
        match arguments.what:
            case "usage":
                return {"usage": await usage(connection, scope)}
            case "refused":
                return {"refused": await load_refusals(connection, scope)}
            case "slow":
                return {"slow": await find_slow_shapes(connection, scope)}
            case "latency":
                return {"latency": await latency(connection, scope, arguments.by)}
            case "proof":
                return {
                    "proofs": await proofs(connection, scope.limit),
                    "left out": await load_unproved(connection),
                    "alarms": await alarms(
                        connection,
                        since=scope.since,
                        until=scope.until,
                        user=scope.user,
                        limit=scope.limit,
                    ),
                }
            case _:
                return {
                    "usage": await usage(connection, scope),
                    "refused": await load_refusals(connection, scope),
                    "slow": await find_slow_shapes(connection, scope),
                    "latency": await latency(connection, scope, "user", scope.user),
                }


def _show(terminal: Terminal, title: str, rows: _Found) -> None:
    if not rows:
        made = "" if title in ("alarms", "left out") else f"; {_MADE_BY.get(title, _ROLLUPS)}"
        terminal.line(f"nothing{made}")
        return
    columns = _COLUMNS[title]
    cells = [[_cell(_value(row, key)) for key in columns.values()] for row in rows]
    terminal.table(list(columns), cells, max_cell=WIDE)


def _value(row: Mapping[str, Any], key: str) -> Any:
    if key == "run_s":
        return row["run_ms"] / 1000
    if key == "mean_ms" and "mean_ms" not in row:
        return row["run_ms"] / max(1, row["statements"])
    if key == "column_name":
        return row[key] or "(none)"
    return row[key]


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    return f"{value:.1f}" if isinstance(value, float) else value
