"""`sluice check`: every fault of settings and packs, each on its own line as `file:line: message`."""

from __future__ import annotations

import argparse
import asyncio

from gateway.app import exit_codes, logs
from gateway.app.checking import check
from gateway.cli.terminal import DIM, GREEN, RED, Terminal
from gateway.settings.models import LogSettings


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Check the paths; the exit code says whether there are faults."""
    logs.configure(LogSettings(level="warning"))
    report = asyncio.run(
        check(
            arguments.paths,
            with_parser=not arguments.no_parser,
            with_backend=not arguments.no_backend,
            with_site=not arguments.no_site,
            tables=arguments.tables,
        )
    )
    if arguments.json:
        terminal.json(
            {
                "files": report.files,
                "policies": report.policies,
                "faults": report.faults,
                "warnings": report.warnings,
                "not_asked": report.not_asked,
            }
        )
    else:
        for warning in report.warnings:
            terminal.line(f"{warning} {terminal.style('(warning)', DIM)}")
        for fault in report.faults:
            terminal.line(fault)
        looked = f"{len(report.files)} files, {report.policies} policies"
        if report.warnings:
            looked += f", {len(report.warnings)} warnings"
        if report.faults:
            terminal.line(terminal.style(f"{len(report.faults)} faults in {looked}", RED))
        else:
            terminal.line(terminal.style(f"no faults in {looked}", GREEN))
        for unasked in report.not_asked:
            terminal.line(terminal.style(unasked, DIM))
    return exit_codes.FAULTS if report.faults else exit_codes.OK
