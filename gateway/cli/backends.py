"""`sluice backends`: how the Sparks stand, as each gateway that runs sees them; drain one."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from gateway.app import exit_codes
from gateway.app.gateway_requests import drain_backend, list_backends
from gateway.cli.audit import find_record
from gateway.cli.settings import settings_of
from gateway.cli.terminal import Terminal, complain, user_name
from gateway.errors import Faults

COLUMNS = ("backend", "version", "state", "sessions", "weight", "metastore", "gateway")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List the Sparks, or have one get no new sessions, in all gateways that keep their record here."""
    if (arguments.action == "list") != (arguments.backend is None):
        raise Faults(["`sluice backends list` takes no name, `drain` and `undrain` take that of a backend"])
    dsn, _ = find_record(settings_of(arguments))
    if arguments.action == "list":
        backends, troubles = asyncio.run(list_backends(dsn))
        if arguments.json:
            terminal.json({"backends": backends, "messages": list(troubles)})
        else:
            terminal.table(COLUMNS, [_row(one) for one in backends])
    else:
        on = arguments.action == "drain"
        done, troubles = asyncio.run(drain_backend(dsn, arguments.backend, on=on, by=user_name()))
        if arguments.json:
            terminal.json({"backend": arguments.backend, "gateways": done, "messages": list(troubles)})
        else:
            what = "gets no new sessions from" if on else "gets new sessions again from"
            terminal.line(f"{arguments.backend} {what} {len(done)} gateways")
    if not arguments.json:
        for trouble in troubles:
            complain(trouble)
    return exit_codes.ERROR if troubles else exit_codes.OK


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    if "waiting_for" in one:
        return (one["backend"], "", f"not there: {one['waiting_for']}", "", "", "", one["gateway"])
    states = sorted(set(one["endpoints"].values()))
    state = states[0] if len(states) == 1 else ", ".join(f"{k}: {v}" for k, v in one["endpoints"].items())
    return (
        one["backend"],
        one["version"],
        state,
        str(one["sessions"]),
        str(one["weight"]),
        one["metastore"],
        one["gateway"],
    )
