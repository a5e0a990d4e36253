"""`sluice sessions`: who has what open in the gateways that run; list them, end those of a user."""

from __future__ import annotations

import argparse
import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from gateway.app import exit_codes
from gateway.app.gateway_requests import end_sessions, list_sessions
from gateway.cli.audit import find_record
from gateway.cli.settings import settings_of
from gateway.cli.terminal import Terminal, complain, user_name
from gateway.errors import Faults

COLUMNS = ("user", "endpoint", "address", "open for", "idle for", "statements", "waits", "gateway", "session")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List sessions, or end those of a user, in all gateways that keep their record where this one does."""
    if (arguments.action == "list") != (arguments.user is None):
        raise Faults(["`sluice sessions list` takes no user, `sluice sessions end` takes one"])
    dsn, _ = find_record(settings_of(arguments))
    if arguments.action == "end":
        ended, troubles = asyncio.run(end_sessions(dsn, arguments.user, user_name()))
        if arguments.json:
            terminal.json({"user": arguments.user, "ended": ended, "messages": list(troubles)})
        else:
            terminal.line(f"{ended} sessions of {arguments.user} are ended")
    else:
        sessions, troubles = asyncio.run(list_sessions(dsn))
        if arguments.json:
            terminal.json({"sessions": sessions, "messages": list(troubles)})
        else:
            now = datetime.now(UTC)
            terminal.table(COLUMNS, [_row(one, now) for one in sessions])
    if not arguments.json:
        for trouble in troubles:
            complain(trouble)
    return exit_codes.ERROR if troubles else exit_codes.OK


def _row(one: dict[str, Any], now: datetime) -> tuple[str, ...]:
    age = now - datetime.fromisoformat(one["opened_at"])
    return (
        one["user"],
        one["endpoint"],
        one["address"],
        _format_duration(age),
        _format_duration(timedelta(seconds=one["idle_s"])),
        str(one["statements"]),
        one.get("waits", ""),
        one["gateway"],
        one["session"],
    )


def _format_duration(span: timedelta) -> str:
    return str(timedelta(seconds=max(0, int(span.total_seconds()))))
