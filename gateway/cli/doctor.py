"""`sluice doctor`: all that a gateway needs, one line each, and what to do about what is wrong."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import asdict
from itertools import zip_longest

from gateway.app import exit_codes, logs
from gateway.app.doctor import examine
from gateway.cli.terminal import DIM, GREEN, RED, YELLOW, Terminal
from gateway.settings.models import LogSettings

_COLOURS = {"ok": GREEN, "warning": YELLOW, "fault": RED, "unknown": DIM}


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Examine the settings; the exit code says whether a gateway could serve."""
    logs.configure(LogSettings(level="error"))
    found = asyncio.run(examine(arguments.config))
    faults = [one for one in found if one.state == "fault"]
    if arguments.json:
        terminal.json({"healthy": not faults, "findings": [asdict(one) for one in found]})
    else:
        for one, following in zip_longest(found, found[1:]):
            state = terminal.style(f"{one.state:<8}", _COLOURS[one.state])
            terminal.line(f"{state} {one.area:<11} {one.text}")
            # Once for all that have the same.
            if one.advice and (following is None or following.advice != one.advice):
                terminal.line(f"{'':20} {terminal.style('→ ' + one.advice, DIM)}")
        warnings = sum(one.state == "warning" for one in found)
        told = f"{len(faults)} faults, {warnings} warnings"
        terminal.line(terminal.style(told, RED if faults else GREEN))
    if not faults:
        return exit_codes.OK
    return exit_codes.UNAVAILABLE if all(one.away for one in faults) else exit_codes.FAULTS
