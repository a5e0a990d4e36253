"""`sluice tags`: tags that columns would get from what flows into them or is in them; list, show, decide."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.app import exit_codes
from gateway.cli.lineage import connect
from gateway.cli.settings import settings_of
from gateway.cli.terminal import BOLD, DIM, Terminal, on_one_line, user_name
from gateway.errors import Faults
from gateway.jobs.classification.proposing import drift_of
from gateway.lineage.proposals import (
    ACCEPTED,
    PROPOSED,
    REJECTED,
    STATES,
    Proposal,
    as_json,
    decide,
    load_proposal,
    proposals,
)

MAX_AT_ONCE = 1_000_000
_STATE_OF = {"accept": ACCEPTED, "reject": REJECTED}


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List or decide what is proposed in the database of the settings' gateway."""
    settings = settings_of(arguments)
    return asyncio.run(_run(settings, arguments, terminal))


async def _run(settings: Any, arguments: argparse.Namespace, terminal: Terminal) -> int:
    async with connect(settings) as connection:
        match arguments.action:
            case "list":
                await _list(connection, arguments, terminal)
            case "drift":
                await _drift(connection, arguments, terminal)
            case "show":
                await _show(connection, arguments, terminal)
            case _:
                await _decide(connection, arguments, terminal)
    return exit_codes.OK


async def _list(connection: Any, arguments: argparse.Namespace, terminal: Terminal) -> None:
    if len(arguments.what) > 1:
        raise Faults([f"`{arguments.what[1]}`: `list` takes one column or table"])
    found = await proposals(
        connection,
        states=[arguments.state] if arguments.state else STATES,
        tag=arguments.tag,
        name=arguments.what[0] if arguments.what else "",
        gone=arguments.gone,
        limit=arguments.limit + 1,
    )
    _show_list(found[: arguments.limit], arguments, terminal)
    if len(found) > arguments.limit and not arguments.json:
        terminal.line(f"… and more; --limit takes more than {arguments.limit:,}")


def _show_list(found: Sequence[Proposal], arguments: argparse.Namespace, terminal: Terminal) -> None:
    if arguments.json:
        terminal.json([as_json(one) for one in found])
        return
    if not found:
        terminal.line("nothing is proposed" if not arguments.what else "nothing found")
        return
    terminal.table(
        ("id", "column", "tag", "state", "from"),
        [(one.id, one.target.name, one.target.tag, _state(one), _from(one)) for one in found],
        max_cell=80,
    )


def _state(one: Proposal) -> str:
    return f"{one.state} by {one.decided_by}" if one.state != PROPOSED else one.state


def _from(one: Proposal) -> str:
    if one.origin_gone:
        return "(its origin is gone)"
    if not one.origins:
        return "; ".join(_format_evidence(found) for found in one.evidence)
    first, more = one.origins[0], len(one.origins) - 1
    how = "" if first["identical"] else ", changed"
    steps = len(first["way"])
    told = f"{first['column']}{how}, {steps} step{'s' if steps != 1 else ''}"
    return f"{told}, and {more} more" if more else told


def _format_evidence(found: Mapping[str, Any]) -> str:
    """Say what a classification found, as `email: 198 of 200 values, by name`."""
    if "rule" not in found:
        return f"none of {found['sampled']:,} values"
    where = {"value": "", "text": " within texts", "json": " in JSON", "nested": " in fields"}[found["where"]]
    if not found["hit"]:
        return f"{found['rule']}: by name{where}"
    by_name = ", and by name" if found["named"] else ""
    return f"{found['rule']}: {found['hit']:,} of {found['sampled']:,} values{where}{by_name}"


async def _drift(connection: Any, arguments: argparse.Namespace, terminal: Terminal) -> None:
    if len(arguments.what) > 1:
        raise Faults([f"`{arguments.what[1]}`: `drift` takes one table"])
    table = arguments.what[0] if arguments.what else ""
    found = await drift_of(connection, table=table, limit=arguments.limit)
    if arguments.json:
        terminal.json(found)
    elif not found:
        terminal.line("no column differs from its last decision")
    else:
        kinds = {"no_longer_fits": "no longer fits", "new_class": "new class"}
        terminal.table(
            ("column", "tag", "drift", "now", "found"),
            [
                (
                    one["column"],
                    one["tag"],
                    kinds[one["kind"]],
                    "; ".join(map(_format_evidence, one["evidence"])),
                    one["found_at"][:16],
                )
                for one in found
            ],
            max_cell=80,
        )


async def _show(connection: Any, arguments: argparse.Namespace, terminal: Terminal) -> None:
    found = []
    for number in _ids(arguments):
        one = await load_proposal(connection, number)
        if one is None:
            raise Faults([f"proposal {number} does not exist"])
        found.append(one)
    if arguments.json:
        terminal.json(found if len(found) > 1 else found[0])
        return
    for one in found:
        _show_one(one, terminal)


def _show_one(found: dict[str, Any], terminal: Terminal) -> None:
    asks = ", needs a decision" if found["asks"] and found["state"] == PROPOSED else ""
    title = on_one_line(f"{found['tag']} on {found['column']}")
    terminal.line(terminal.style(title, BOLD) + f"  {found['state']}{asks}")
    for attributes in found["attributes"]:
        if attributes:
            told = ", ".join(f"{key}: {value}" for key, value in sorted(attributes.items()))
            terminal.line(on_one_line(f"  with {told}"))
    if found["origin_gone"]:
        terminal.line("  its origin is gone: no tagged column flows into it any more")
    for origin in found["origins"]:
        terminal.line(on_one_line(f"  from {origin['column']}"))
        for step in origin["way"]:
            statement = terminal.style(f"statement {step['statement']}", DIM)
            terminal.line(f"    → {on_one_line(step['column'])}  [{step['flow']}]  {statement}")
    for one in found["evidence"]:
        different = f", {one['distinct']:,} different" if one["hit"] else ""
        by = f"  [{one['format']}]" if one["format"] else ""
        terminal.line(on_one_line(f"  classified as {_format_evidence(one)}{different}{by}"))
    terminal.line(f"  proposed {found['proposed_at'][:16]}")
    for one in found["history"]:
        terminal.line(on_one_line(f"  {one['state']} {one['time'][:16]} by {one['user']}"))


async def _decide(connection: Any, arguments: argparse.Namespace, terminal: Terminal) -> None:
    if arguments.all == bool(arguments.what):
        raise Faults(
            [f"name proposals to {arguments.action} by their ids, or pass `--all` for all undecided ones"]
        )
    if arguments.all:
        still_open = await proposals(
            connection, states=[PROPOSED], tag=arguments.tag, gone=arguments.gone, limit=MAX_AT_ONCE
        )
        ids: Sequence[int] = [one.id for one in still_open]
    else:
        ids = _ids(arguments)
    state = _STATE_OF[arguments.action]
    found = await decide(connection, ids, state, user_name(), again=arguments.again)
    if arguments.json:
        terminal.json([as_json(one) for one in found])
        return
    for one in found[: arguments.limit]:
        terminal.line(on_one_line(f"{state} {one.target.tag} on {one.target.name}"))
    if len(found) != 1:
        terminal.line(f"{len(found):,} {state}")


def _ids(arguments: argparse.Namespace) -> list[int]:
    wrong = [text for text in arguments.what if not (text.isascii() and text.isdecimal() and len(text) < 19)]
    if wrong or not arguments.what:
        told = f"`{wrong[0]}` is not a proposal number" if wrong else "name proposals by their numbers"
        raise Faults([f"{told}; `sluice tags list` shows them"])
    return [int(text) for text in arguments.what]
