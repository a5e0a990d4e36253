"""`sluice lineage`: what feeds a column and what it feeds, by the statements of the record and of scripts."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg

from gateway.app import logs
from gateway.cli import exit_codes
from gateway.cli.audit import where
from gateway.cli.terminal import Terminal
from gateway.errors import LedgerUnavailable
from gateway.lineage.drawing import as_dot, as_json, as_mermaid, as_tree, edge_as_json
from gateway.lineage.graph import Answer, Carries, Column, Direction, Edge, find, walk, ways
from gateway.settings import load_settings
from gateway.settings.models import LogSettings

_ARRIVES = {
    Carries.VALUES: "values: a tag on it would follow",
    Carries.MASKED: "masked values",
    Carries.INFLUENCE: "nothing; it decides on rows or order",
}


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Ask the lineage graph in the database of the settings' gateway."""
    settings = load_settings(arguments.config)
    logs.configure(LogSettings(level="warning"))
    dsn, _ = where(settings)
    return asyncio.run(_ask(dsn, arguments, terminal))


async def _ask(dsn: str, arguments: argparse.Namespace, terminal: Terminal) -> int:
    try:
        connection = await asyncpg.connect(
            dsn, timeout=10, command_timeout=60, server_settings={"application_name": "sluice-lineage"}
        )
    except (OSError, asyncpg.PostgresError, TimeoutError) as error:
        raise LedgerUnavailable(f"the database of the lineage graph cannot be reached: {error}") from error
    try:
        start = await find(connection, arguments.column, _everything)
        if arguments.to is not None:
            await _show_ways(connection, start, arguments, terminal)
        elif arguments.impact:
            await _show_impact(connection, start, arguments, terminal)
        else:
            await _show_walks(connection, start, arguments, terminal)
    except asyncpg.UndefinedTableError:
        terminal.line("the lineage graph is empty: no gateway of this version has used this database")
    finally:
        await connection.close()
    return exit_codes.OK


async def _everything(datasets: Sequence[str]) -> frozenset[str]:
    """Who can read the gateway's settings and reach its database may know of all that is in it."""
    return frozenset(datasets)


async def _show_walks(
    connection: Any, start: Sequence[Column], arguments: argparse.Namespace, terminal: Terminal
) -> None:
    chosen = [d for d, wanted in ((Direction.UP, arguments.up), (Direction.DOWN, arguments.down)) if wanted]
    answers = [
        await walk(
            connection, start, direction, _everything, depth=arguments.depth, most_edges=arguments.limit
        )
        for direction in chosen or Direction
    ]
    match "json" if arguments.json else arguments.format:
        case "json":
            terminal.json([as_json(answer) for answer in answers])
        case "mermaid":
            terminal.line(as_mermaid(_edges(answers)))
        case "dot":
            terminal.line(as_dot(_edges(answers)))
        case _:
            for answer in answers:
                title = "what feeds it" if answer.direction is Direction.UP else "what it feeds"
                terminal.line(terminal.style(title, "1"))
                terminal.line(as_tree(answer))


async def _show_impact(
    connection: Any, start: Sequence[Column], arguments: argparse.Namespace, terminal: Terminal
) -> None:
    answer = await walk(
        connection, start, Direction.DOWN, _everything, depth=arguments.depth, most_edges=arguments.limit
    )
    if arguments.json:
        terminal.json(as_json(answer))
        return
    rows = [(str(one.column), one.distance, _ARRIVES[one.carries]) for one in answer.reached]
    terminal.table(("column", "steps", "what arrives"), rows, max_cell=120)
    if answer.cut_off:
        terminal.line(f"… {answer.cut_off}")


async def _show_ways(
    connection: Any, start: Sequence[Column], arguments: argparse.Namespace, terminal: Terminal
) -> None:
    ends = await find(connection, arguments.to, _everything)
    found: list[tuple[Edge, ...]] = []
    for source in start:
        for target in ends:
            found += await ways(connection, source, target, _everything, depth=arguments.depth)
    if arguments.json:
        terminal.json([[edge_as_json(edge) for edge in way] for way in found])
        return
    for way in found:
        terminal.line(terminal.style(str(way[0].source), "1"))
        for edge in way:
            masked = ", masked" if edge.masking else ""
            terminal.line(f"  → {edge.target}  [{edge.subtype}{masked}]  {edge.expression}".rstrip())
            terminal.line(f"    last seen {edge.last_seen:%Y-%m-%d %H:%M} in {edge.last_statement}")
    if not found:
        terminal.line(f"no way from `{arguments.column}` to `{arguments.to}` within {arguments.depth} steps")


def _edges(answers: Sequence[Answer]) -> list[Edge]:
    return [edge for answer in answers for edge in answer.edges]
