"""`sluice audit`: the record as a list for people, or as JSON lines; with `--id` all that is known of one."""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gateway.app import exit_codes
from gateway.audit.search import EventQuery, Found, search, tail
from gateway.cli import audit_proof
from gateway.cli.settings import settings_of
from gateway.cli.terminal import BOLD, CYAN, DIM, GREEN, RED, YELLOW, Terminal, cell
from gateway.cli.unused import refuse_unused
from gateway.database.postgres import EmbeddedPostgres
from gateway.errors import Faults, LedgerUnavailable
from gateway.model.audit import AuditEvent
from gateway.settings import Settings

STATEMENT_CHARS = 100
_AGO = re.compile(r"([0-9]{1,6})([smhd])")
_OPTIONS: Mapping[str, Any] = {
    **dict.fromkeys(
        (
            "user",
            "reason",
            "verdict",
            "resource",
            "text",
            "since",
            "until",
            "id",
            "seals",
            "on",
            "master",
            "remote",
        )
    ),
    "follow": False,
    "public_key": [],
}
_USED: Mapping[str, frozenset[str]] = {
    "tail": frozenset({"follow"}),
    "search": frozenset({"user", "verdict", "resource", "text", "since", "until", "id"}),
    "verify": frozenset({"since", "until", "seals", "public_key", "on", "master", "remote"}),
    "seal": frozenset(),
    "seals": frozenset(),
    "erase": frozenset({"user", "reason", "until"}),
}
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Tail or search the record of the settings' gateway."""
    action = arguments.action
    refuse_unused(arguments, f"audit {action}", _OPTIONS, _USED[action])
    settings = settings_of(arguments)
    dsn, spool = find_record(settings)
    if action in audit_proof.ACTIONS:
        since, until = period(arguments.since, arguments.until)
        return audit_proof.run(arguments, settings, terminal, dsn=dsn, spool=spool, since=since, until=until)
    if action == "tail":
        asyncio.run(_tail(dsn, spool, arguments, terminal))
        return exit_codes.OK
    since, until = period(arguments.since, arguments.until)
    question = EventQuery(
        user=arguments.user,
        since=since,
        until=until,
        table=arguments.resource,
        verdict=arguments.verdict,
        text=arguments.text,
        statement_id=arguments.id,
        limit=arguments.limit,
    )
    found = asyncio.run(search(dsn, question, spool=spool))
    if arguments.json:
        terminal.json([_format_json(one) for one in found])
    elif arguments.id is not None:
        for one in found:
            _show_whole(terminal, one)
    else:
        for one in reversed(found):
            _show(terminal, one.event)
            if one.end is not None:
                _show(terminal, one.end)
    if not found and not arguments.json:
        terminal.line("nothing found")
    return exit_codes.OK


def find_record(settings: Settings) -> tuple[str, Path | None]:
    """Return the database's DSN, and the spool when it is on this machine."""
    spool = settings.ledger.directory if settings.ledger.directory.is_dir() else None
    if settings.ledger.dsn is not None:
        return settings.ledger.dsn.reveal(), spool
    postgres = EmbeddedPostgres(settings.ledger.embedded.directory)
    if postgres.pid is None:
        raise LedgerUnavailable(
            "the embedded PostgreSQL is not running; start the gateway, which keeps it, or set `ledger.dsn`"
        )
    return postgres.dsn, spool


async def _tail(
    dsn: str | None, spool: Path | None, arguments: argparse.Namespace, terminal: Terminal
) -> None:
    events = tail(dsn, spool=spool, count=arguments.limit, follow=arguments.follow)
    try:
        async for event in events:
            if arguments.json:
                terminal.json_line(_as_json(event))
            else:
                _show(terminal, event)
    finally:
        await events.aclose()


def moment(text: str | None) -> datetime | None:
    """Return the instant that `30m`, `2h`, `7d` or a time in UTC means; raises Faults for anything else."""
    if text is None:
        return None
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            return datetime.now(UTC) - timedelta(**{_UNITS[ago.group(2)]: int(ago.group(1))})
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise Faults([f"`{text}` is not a time; write `30m`, `2h`, `7d` or `2026-11-20T13:00`"]) from None


def period(since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
    """Return the two instants of a period; raises Faults as `moment`, and when it ends before it begins."""
    first, last = moment(since), moment(until)
    if first is not None and last is not None and last <= first:
        raise Faults([f"the period from `{since}` to `{until}` ends before it begins"])
    return first, last


def _as_json(event: AuditEvent) -> dict[str, Any]:
    return {
        "event_id": event.event_id,
        "kind": event.kind,
        "time": event.time,
        "statement_id": event.statement_id,
        "gateway": event.gateway,
        "user": event.user,
        **event.body,
    }


def _format_json(found: Found) -> dict[str, Any]:
    return {"event": _as_json(found.event), "end": None if found.end is None else _as_json(found.end)}


def _show(terminal: Terminal, event: AuditEvent) -> None:
    body = event.body
    verdict = str(body.get("verdict") or body.get("outcome") or event.kind)
    what = {
        "decided": cell(body.get("reqData", ""), STATEMENT_CHARS),
        "completed": _format_end(body),
        "abandoned": str(body.get("reason", "")),
        "login": f"login from {body.get('cliIP', '?')}",
    }.get(event.kind, event.kind)
    terminal.line(
        f"{terminal.style(event.time[:19].replace('T', ' '), DIM)}  {event.user:<10} "
        f"{terminal.style(f'{verdict:<9}', _colour(verdict))} {what}"
    )
    if verdict == "refused" and body.get("message"):
        terminal.line(" " * 42 + terminal.style(f"{body.get('code')}: {body['message']}", YELLOW))


def _format_end(body: Any) -> str:
    parts = [f"{body.get('rows', 0)} rows", f"{body.get('bytes', 0)} bytes"]
    parts.append(f"{body.get('duration_ms', 0):.0f} ms")
    if body.get("error"):
        parts.append(cell(body["error"], STATEMENT_CHARS))
    return ", ".join(parts)


def _colour(verdict: str) -> str:
    if verdict in {"refused", "rejected", "failed", "abandoned"}:
        return RED
    return GREEN if verdict in {"cleared", "accepted"} else DIM


def _show_whole(terminal: Terminal, found: Found) -> None:
    _show(terminal, found.event)
    body = found.event.body
    for title, text in (("sent", body.get("reqData")), ("forwarded", body.get("forwarded"))):
        if text:
            terminal.line(terminal.style(title, BOLD))
            terminal.line(terminal.style(str(text), CYAN))
    _show_fields(terminal, body.items(), without={"reqData", "forwarded"})
    if found.end is not None:
        terminal.line()
        _show(terminal, found.end)
        _show_fields(terminal, found.end.body.items(), without=set())


def _show_fields(terminal: Terminal, fields: Iterable[tuple[str, Any]], without: set[str]) -> None:
    for name, value in fields:
        if name in without or value in (None, "", [], {}):
            continue
        if isinstance(value, list) and value and isinstance(value[0], dict):
            terminal.line(f"{terminal.style(name, BOLD)}")
            for entry in value:
                told = ", ".join(f"{key} {part}" for key, part in entry.items() if part not in (None, "", []))
                terminal.line(f"  {told}")
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            terminal.line(f"{terminal.style(name, BOLD)} {shown}")
