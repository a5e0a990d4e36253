"""`sluice recommend`: changes to policies that their use speaks for; list, show, apply to a pack, reject."""

from __future__ import annotations

import argparse
import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

from gateway.app import exit_codes
from gateway.app.recommending import edit_pack
from gateway.cli.lineage import connect
from gateway.cli.settings import settings_of
from gateway.cli.terminal import BOLD, DIM, Terminal, on_one_line, user_name
from gateway.database.asking import asking
from gateway.database.telling import tell_policies_changed
from gateway.errors import Faults
from gateway.jobs.recommending.reach import reach_of_use
from gateway.jobs.recommending.storing import (
    APPLIED,
    REJECTED,
    STATES,
    decide,
    list_recommendations,
    load_recommendation,
)
from gateway.settings import Settings


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Do what `arguments.action` says."""
    settings = settings_of(arguments)
    return asyncio.run(_run(settings, arguments, terminal))


async def _run(settings: Settings, arguments: argparse.Namespace, terminal: Terminal) -> int:
    numbers = _numbers(arguments)
    with asking(alone=False):
        async with connect(settings) as connection:
            match arguments.action:
                case "list":
                    await _list(connection, settings, arguments, terminal)
                case "show":
                    found = [await load_recommendation(connection, number) for number in numbers]
                    if arguments.json:
                        terminal.json(found)
                    else:
                        for one in found:
                            _show(one, terminal)
                case "reject":
                    await decide(connection, numbers, REJECTED, user_name())
                    _print_changed(numbers, REJECTED, arguments, terminal)
                case _:
                    await _apply(connection, settings, numbers, arguments, terminal)
    return exit_codes.OK


def _numbers(arguments: argparse.Namespace) -> list[int]:
    texts = arguments.numbers
    if (arguments.action == "list") == bool(texts):
        told = (
            "`recommend list` takes no recommendation numbers"
            if texts
            else f"`recommend {arguments.action}` needs the number of a recommendation"
        )
        raise Faults([f"{told}; `sluice recommend list` shows them"])
    wrong = [text for text in texts if not (text.isascii() and text.isdecimal() and len(text) < 19)]
    if wrong:
        raise Faults(
            [f"`{wrong[0]}` is not the number of a recommendation; `sluice recommend list` shows them"]
        )
    if arguments.action == "apply":
        if len(texts) > 1:
            raise Faults(
                [
                    "`recommend apply` takes one number: run `sluice jobs run recommend` again "
                    "before the next one"
                ]
            )
        if arguments.pack is None:
            raise Faults(["`recommend apply` needs `--pack FILE`: the pack to change"])
    return [int(text) for text in texts]


async def _list(
    connection: Any, settings: Settings, arguments: argparse.Namespace, terminal: Terminal
) -> None:
    states = STATES if arguments.state == "all" else (arguments.state,)
    found = await list_recommendations(
        connection, states=states, kind=arguments.kind or "", limit=arguments.limit + 1
    )
    shown_ = found[: arguments.limit]
    if arguments.json:
        terminal.json(shown_)
        return
    if not found:
        for line in await _why_nothing(connection, settings):
            terminal.line(line)
        return
    terminal.table(
        ("id", "kind", "state", "what"),
        [(one["id"], one["kind"], one["state"], one["title"]) for one in shown_],
        max_cell=120,
    )
    if len(found) > arguments.limit:
        terminal.line(f"… and more; --limit takes more than {arguments.limit:,}")


async def _why_nothing(connection: Any, settings: Settings) -> list[str]:
    """Say whether a run found nothing, and what it could not know."""
    run = await connection.fetchrow(
        "SELECT id, ended_at FROM sluice.job_run WHERE job = 'recommend' AND state = 'done'"
        " ORDER BY id DESC LIMIT 1"
    )
    if run is None:
        return ["there are no recommendations; `sluice jobs run recommend` evaluates the use of policies"]
    days = settings.jobs.recommend.unused_days
    reach = await reach_of_use(connection, datetime.now(UTC), days)
    ended = _minute(run["ended_at"].astimezone(UTC).isoformat())
    told = [
        f"no recommendations of that kind and state; run {run['id']} evaluated the use of policies "
        f"until {ended}"
    ]
    told += [f"  {missing}" for missing in reach.missing]
    if reach.first is not None and not reach.reaches_back:
        told.append(
            f"  unused grants are reported from {reach.first + timedelta(days=days)} on, after {days} days "
            "(`jobs.recommend.unused_days`)"
        )
    return told


def _show(one: dict[str, Any], terminal: Terminal) -> None:
    by = f" by {one['decided_by']}" if one["decided_by"] else ""
    terminal.line(terminal.style(on_one_line(one["title"]), BOLD) + f"  {one['kind']}, {one['state']}{by}")
    terminal.line(
        terminal.style(f"since {_minute(one['proposed_at'])}, last checked {_minute(one['looked_at'])}", DIM)
    )
    for key, value in one["evidence"].items():
        told = value if isinstance(value, str | int | float) else json.dumps(value, ensure_ascii=False)
        terminal.line(on_one_line(f"  {key.replace('_', ' ')}: {told}"))
    for title, part in (("change", one["edits"]), ("cases", one["cases"])):
        if part:
            terminal.line(f"  {title}:")
            written = yaml.safe_dump(
                part, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100
            )
            for line in written.splitlines():
                terminal.line(f"    {line}")


async def _apply(
    connection: Any, settings: Settings, numbers: list[int], arguments: argparse.Namespace, terminal: Terminal
) -> None:
    one = await load_recommendation(connection, numbers[0])
    if one["state"] == REJECTED:
        raise Faults([f"recommendation {one['id']} was rejected by {one['decided_by']}"])
    made = await asyncio.to_thread(edit_pack, settings, arguments.pack, one["edits"], one["cases"])
    if arguments.write:
        # Not written where a run has taken it back meanwhile, nor said to be applied where it is not written.
        await decide(connection, numbers, APPLIED, user_name(), apply=lambda: asyncio.to_thread(made.write))
        await tell_policies_changed(connection)
    if arguments.json:
        terminal.json({"id": one["id"], "diff": made.diff, "written": arguments.write})
        return
    for line in made.diff.splitlines():
        terminal.line(line)
    looked = f"last checked {_minute(one['looked_at'])}; `sluice jobs run recommend` checks newer use"
    terminal.line(terminal.style(looked, DIM))
    if not arguments.write:
        terminal.line(
            terminal.style("with this change all packs load and all cases pass; --write saves it", DIM)
        )
    else:
        _print_changed(numbers, APPLIED, arguments, terminal)


def _minute(time: str) -> str:
    return f"{time[:10]} {time[11:16]} UTC"


def _print_changed(numbers: list[int], state: str, arguments: argparse.Namespace, terminal: Terminal) -> None:
    if arguments.json:
        terminal.json({"ids": numbers, "state": state})
    else:
        terminal.line(f"{', '.join(map(str, numbers))} {state}")
