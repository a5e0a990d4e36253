"""`sluice explain`: the verdict on a statement, the policies behind it, and the text that Spark would get."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from gateway.app import exit_codes
from gateway.app.explaining import explain
from gateway.cli.settings import settings_of
from gateway.cli.terminal import BOLD, CYAN, DIM, GREEN, RED, Terminal
from gateway.cli.users import principal_of
from gateway.errors import Faults
from gateway.model.decision import Decision, RowFilter
from gateway.model.restrictions import hide_salts
from gateway.model.statement import Cleared, Refused, SessionContext, Verdict


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Judge the statement and print why; the exit code is the verdict."""
    settings = settings_of(arguments)
    if arguments.backend is not None:
        backend = settings.all_backends.get(arguments.backend)
        if backend is None or backend.discover is not None:
            known = [name for name, one in settings.all_backends.items() if one.discover is None]
            raise Faults([f"there is no backend `{arguments.backend}`; there are: {', '.join(known)}"])
        settings = settings.for_backend(arguments.backend)
    text = sys.stdin.read() if arguments.sql == "-" else arguments.sql
    groups = (
        None if arguments.groups is None else [g.strip() for g in arguments.groups.split(",") if g.strip()]
    )
    principal = principal_of(settings.users.file, arguments.user, groups)
    context = SessionContext(catalog=arguments.catalog, namespace=(arguments.database,))
    verdict = asyncio.run(explain(settings, principal, context, text, tables=arguments.tables))
    if arguments.json:
        terminal.json(as_json(verdict))
    else:
        show(terminal, verdict)
    return exit_codes.OK if isinstance(verdict, Cleared) else exit_codes.REFUSED


def as_json(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict for programs; keys are stable."""
    principal = verdict.statement.principal
    answer: dict[str, Any] = {
        "verdict": "cleared" if isinstance(verdict, Cleared) else "refused",
        "user": principal.user,
        "groups": sorted(principal.groups),
        "statement": verdict.statement.text,
        "plan_class": verdict.plan_class,
        "snapshot": verdict.snapshot_version,
        "decisions": [
            {
                "resource": str(decision.request.resource),
                "kind": decision.request.resource.kind,
                "access": decision.request.access,
                "allowed": decision.allowed,
                "policy": decision.policy.name,
                "policy_id": decision.policy.id,
                "reason": decision.reason,
            }
            for decision in verdict.decisions
        ],
    }
    if isinstance(verdict, Refused):
        return answer | {"code": verdict.code, "sqlstate": verdict.sqlstate, "message": verdict.message}
    return answer | {
        "forwarded": hide_salts(verdict.forwarded),
        "unchanged": verdict.forwarded == verdict.statement.text,
        "readers_agree": verdict.readers_agree,
        "obligations": [
            {"table": str(scan.table), **_obligation(obligation)}
            for scan in verdict.scans
            for obligation in scan.obligations
        ],
    }


def _obligation(obligation: Any) -> dict[str, str]:
    if isinstance(obligation, RowFilter):
        return {"kind": "filter", "expression": obligation.expression, "policy": obligation.policy.name}
    return {
        "kind": "mask",
        "column": obligation.column,
        "type": obligation.mask_type,
        "expression": hide_salts(obligation.expression),
        "policy": obligation.policy.name,
    }


def show(terminal: Terminal, verdict: Verdict) -> None:
    """Print the verdict for people."""
    principal = verdict.statement.principal
    who = f"{principal.user} ({', '.join(sorted(principal.groups)) or 'no groups'})"
    if isinstance(verdict, Cleared):
        terminal.line(f"{terminal.style('cleared', BOLD, GREEN)} for {who}, {verdict.plan_class}")
    else:
        terminal.line(f"{terminal.style('refused', BOLD, RED)} for {who}")
        terminal.line(f"  {verdict.text}")
    _show_decisions(terminal, verdict.decisions)
    if isinstance(verdict, Refused):
        return
    for scan in verdict.scans:
        for obligation in scan.obligations:
            found = _obligation(obligation)
            what = "rows" if found["kind"] == "filter" else f"{found['column']} {found['type']}"
            terminal.line()
            terminal.line(f"{terminal.style(str(scan.table), BOLD)}: {what}, by policy `{found['policy']}`")
            terminal.line(terminal.style(f"  {found['expression']}", DIM))
    terminal.line()
    if verdict.forwarded == verdict.statement.text:
        terminal.line("Spark gets the statement unchanged.")
    else:
        terminal.line("Spark is sent:")
        terminal.line(terminal.style(hide_salts(verdict.forwarded), CYAN))


def _show_decisions(terminal: Terminal, decisions: tuple[Decision, ...]) -> None:
    if not decisions:
        return
    terminal.line()
    rows = [
        (
            "allowed" if decision.allowed else "denied",
            decision.request.access,
            f"{decision.request.resource.kind} {decision.request.resource}",
            decision.policy.name or decision.reason or "no policy",
        )
        for decision in decisions
    ]
    terminal.table(("decision", "access", "resource", "policy"), dict.fromkeys(rows), max_cell=100)
