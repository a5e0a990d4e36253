"""`sluice check`: every fault of settings and packs, each on its own line as `file:line: message`."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import sys

from gateway.app import exit_codes, logs
from gateway.app.checking import check
from gateway.app.logins import try_login
from gateway.cli.terminal import DIM, GREEN, RED, Terminal
from gateway.errors import Faults
from gateway.frontends.login_chain import LoginTrial
from gateway.settings.loading import load_settings
from gateway.settings.models import LogSettings


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Check the paths; the exit code says whether there are faults."""
    logs.configure(LogSettings(level="warning"))
    if arguments.login is not None:
        return _check_login(arguments, terminal)
    report = asyncio.run(
        check(
            arguments.paths,
            with_parser=not arguments.no_parser,
            with_backend=not arguments.no_backend,
            with_site=not arguments.no_site,
            tables=arguments.tables,
            engines=arguments.engines,
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
                **({"engines": report.engines} if arguments.engines else {}),
            }
        )
    else:
        for told in report.engines:
            terminal.line(told)
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


def _check_login(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Say of each way to log in what it makes of a name and a password or token."""
    if len(arguments.paths) != 1 or not arguments.paths[0].is_file():
        raise Faults(["`--login` takes one file of settings"])
    settings = load_settings(arguments.paths[0])
    asked = f"password or token of {arguments.login}: "
    secret = getpass.getpass(asked) if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    trials = asyncio.run(try_login(settings, arguments.login, secret))
    let_in = [one for one in trials if one.outcome.principal is not None]
    if arguments.json:
        terminal.json({"let_in": bool(let_in), "ways": [_write(one) for one in trials]})
    else:
        for one in trials:
            terminal.line(f"{one.mechanism.description}: {one.outcome.diagnosis}")
            if (who := one.outcome.principal) is not None:
                groups = ", ".join(sorted(who.groups)) or "no group"
                attributes = ", ".join(f"{name}={value}" for name, value in who.attributes)
                terminal.line(f"  as {who.user} of {groups}" + (f"; {attributes}" if attributes else ""))
        verdict = "logs in" if let_in else "does not log in"
        terminal.line(terminal.style(f"{arguments.login} {verdict}", GREEN if let_in else RED))
    return exit_codes.OK if let_in else exit_codes.FAULTS


def _write(trial: LoginTrial) -> dict[str, object]:
    found: dict[str, object] = {"way": trial.mechanism.description, "verdict": trial.outcome.diagnosis}
    if (who := trial.outcome.principal) is not None:
        found |= {
            "user": who.user,
            "groups": sorted(who.groups),
            "attributes": [list(pair) for pair in who.attributes],
        }
    return found
