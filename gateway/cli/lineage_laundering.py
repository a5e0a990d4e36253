"""`sluice lineage laundering`: protected columns whose values somebody may read elsewhere."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from gateway.app import exit_codes
from gateway.app.policy_diff import load_side, load_user_file
from gateway.app.propagation_rules import propagation_rules
from gateway.app.tag_propagation import load_accepted_list
from gateway.cli.terminal import BOLD, DIM, RED, YELLOW, Terminal
from gateway.database.migrate import migrate
from gateway.lineage.graph import GraphColumn
from gateway.lineage.laundering import Laundering, LaunderingReport, find_laundering
from gateway.model.context import AccessContext
from gateway.model.policy import PolicySet
from gateway.policy.engine import engine_for
from gateway.policy.laundering import Sights, Weaker, list_named_principals
from gateway.settings import Settings

MAX_PEOPLE = 8
"""Who is named of those with one reason; JSON has them all."""


async def policies_of(connection: Any, settings: Settings, arguments: argparse.Namespace) -> PolicySet:
    """Return the policies of the settings, with the tags that are accepted now. Raises Faults."""
    await migrate(connection)
    accepted = await load_accepted_list(connection)
    return await asyncio.to_thread(load_side, arguments.config, load_user_file(settings), None, accepted)


async def report(
    connection: Any,
    settings: Settings,
    start: Sequence[GraphColumn] | None,
    arguments: argparse.Namespace,
    terminal: Terminal,
) -> int:
    """Tell what was found; the exit code says whether it was anything."""
    people = load_user_file(settings)
    policies = await policies_of(connection, settings, arguments)
    sights = Sights(
        engine_for(policies), list_named_principals(policies, people), AccessContext(time=datetime.now(UTC))
    )
    found = await find_laundering(
        connection,
        sights,
        propagation_rules(settings.tag_propagation),
        start=start,
        ungranted=arguments.ungranted,
    )
    if arguments.json:
        terminal.json(_as_json(found))
    else:
        _show(found, terminal)
    return exit_codes.LAUNDERED if found.found else exit_codes.OK


def _as_json(report: LaunderingReport) -> dict[str, Any]:
    return {
        "found": [
            {
                "source": str(one.source),
                "target": str(one.target),
                "way": list(one.way),
                "asks": one.asks,
                "weaker": [
                    {
                        "principal": each.principal,
                        "protection": each.protection.value,
                        "there": each.there,
                        "here": each.here,
                    }
                    for each in one.weaker
                ],
            }
            for one in report.found
        ],
        "columns": report.columns,
        "people": report.people,
        "complete": not report.cut_off,
        "cut_off": report.cut_off,
    }


def _show(report: LaunderingReport, terminal: Terminal) -> None:
    for source, of_source in groupby(report.found, key=lambda one: one.source):
        terminal.line(terminal.style(str(source), BOLD))
        several = list(of_source)
        for number, one in enumerate(several, start=1):
            last = number == len(several)
            _show_one(one, "└─ " if last else "├─ ", "   " if last else "│  ", terminal)
    for why in report.cut_off:
        terminal.line(terminal.style(f"… {why}", YELLOW))
    count = len(report.found)
    told = f"{count:,} weaker cop{'ies' if count != 1 else 'y'}" if count else "no weaker copy"
    terminal.line(
        f"{told} of {report.columns:,} protected columns with descendants, for {report.people:,} people"
    )


def _show_one(one: Laundering, branch: str, indent: str, terminal: Terminal) -> None:
    asks = "  (table-level lineage only on the way, or a statement that has not ended)" if one.asks else ""
    terminal.line(f"{branch}{terminal.style(str(one.target), RED)}{asks}")
    for step in one.way:
        statement = terminal.style(f"statement {step['statement']}", DIM)
        terminal.line(f"{indent}→ {step['column']}  [{step['flow']}]  {statement}")
    reasons: dict[tuple[str, str], list[Weaker]] = {}
    for each in one.weaker:
        reasons.setdefault((each.there, each.here), []).append(each)
    for (there, here), people in reasons.items():
        names = ", ".join(each.principal for each in people[:MAX_PEOPLE])
        more = f" and {len(people) - MAX_PEOPLE} more" if len(people) > MAX_PEOPLE else ""
        terminal.line(f"{indent}{names}{more}: there {there}; here {here}")
