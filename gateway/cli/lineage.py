"""`sluice lineage`: what feeds a column and what it feeds, by the statements of the record and of scripts."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import asyncpg

from gateway.app import exit_codes
from gateway.app.lineage_import import importing
from gateway.audit.search import EventQuery, search
from gateway.cli.audit import find_record, moment
from gateway.cli.settings import settings_of
from gateway.cli.terminal import Terminal, user_name
from gateway.database import asking
from gateway.database.migrate import migrate
from gateway.errors import Faults, LedgerUnavailable
from gateway.lineage.drawing import as_dot, as_json, as_mermaid, as_tree, edge_as_json
from gateway.lineage.graph import (
    Direction,
    Edge,
    GraphAnswer,
    GraphColumn,
    find,
    find_paths,
    see_all_columns,
    walk,
)
from gateway.lineage.importing import ImportReport, read_scripts
from gateway.model.statement import SessionContext
from gateway.settings import Settings

ANSWER_S = 60.0
"""How long PostgreSQL may take for each answer."""
SHOWN = 20
"""Statements of a kind that a report lists."""


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Ask the lineage graph in the database of the settings' gateway."""
    settings = settings_of(arguments)
    if arguments.column == "import":
        return asyncio.run(_import(settings, arguments, terminal))
    if arguments.column == "laundering":
        arguments.trouble = exit_codes.LAUNDERING_TROUBLE
        return asyncio.run(_print_laundering(settings, arguments, terminal))
    if arguments.paths:
        raise Faults([f"`{arguments.paths[0]}`: only `import` takes more than one name"])
    return asyncio.run(_ask(settings, arguments, terminal))


@asynccontextmanager
async def connect(settings: Settings, *, make_tables: bool = True) -> AsyncIterator[Any]:
    """Have a connection to the database of the graph within. Raises LedgerUnavailable."""
    connection = await asking.connect(find_record(settings)[0], "sluice-lineage", command_s=ANSWER_S)
    try:
        with asking.asking(alone=False, within_s=ANSWER_S):
            if make_tables:
                await migrate(connection)
            yield connection
    finally:
        connection.terminate()


async def _print_laundering(settings: Settings, arguments: argparse.Namespace, terminal: Terminal) -> int:
    from gateway.cli.lineage_laundering import report

    if len(arguments.paths) > 1:
        raise Faults([f"`{arguments.paths[1]}`: `laundering` takes one column or table"])
    async with connect(settings) as connection:
        start = await find(connection, str(arguments.paths[0]), see_all_columns) if arguments.paths else None
        return await report(connection, settings, start, arguments, terminal)


async def _import(settings: Settings, arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Bring scripts, or statements of the record, into the graph."""
    context = SessionContext(catalog=arguments.catalog, namespace=(arguments.database,))
    paths = [Path(path) for path in arguments.paths]
    if bool(paths) == (arguments.since is not None):
        raise Faults(["name files and directories to import, or `--since TIME` for statements of the record"])
    scripts = read_scripts(paths, context)
    since = moment(arguments.since)
    told = _Clock()

    def progress(report: ImportReport) -> None:
        if not arguments.json and told.due():
            terminal.line(f"{report.statements:,} statements read, {report.new:,} new in the graph")

    async with (
        connect(settings) as connection,
        importing(
            settings,
            connection,
            tables=arguments.tables,
            processes=arguments.processes,
            deadline_s=arguments.deadline,
            events=arguments.openlineage,
        ) as importer,
    ):
        if scripts:
            await importer.scripts(scripts, user_name(), progress)
        else:
            dsn, spool = find_record(settings)
            question = EventQuery(since=since, verdict="cleared", limit=arguments.limit)
            await importer.import_recorded(await search(dsn, question, spool=spool), progress)
    _show_report(importer.report, arguments, terminal)
    return exit_codes.OK


_EVERY_S = 5.0


class _Clock:
    """Says every few seconds that it is time to tell how far work is."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _EVERY_S

    def due(self) -> bool:
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + _EVERY_S
        return True


def _show_report(report: ImportReport, arguments: argparse.Namespace, terminal: Terminal) -> None:
    if arguments.json:
        terminal.json(asdict(report))
        return
    for title, cases in (("only tables are known", report.table_level), ("not read", report.unread)):
        for case in cases[:SHOWN]:
            terminal.line(f"{case.name}, statement {case.number}: {title}: {case.why}")
        if len(cases) > SHOWN:
            terminal.line(f"… and {len(cases) - SHOWN:,} more")
    terminal.line(
        f"{report.statements:,} statements: {report.new:,} new in the graph, {report.without:,} without "
        f"lineage, {len(report.table_level):,} with table-level lineage only, {len(report.unread):,} not "
        "parsed"
    )


async def _ask(settings: Settings, arguments: argparse.Namespace, terminal: Terminal) -> int:
    try:
        async with connect(settings, make_tables=False) as connection:
            start = await find(connection, arguments.column, see_all_columns)
            if arguments.to is not None:
                await _show_ways(connection, start, arguments, terminal)
            elif arguments.impact:
                from gateway.cli.lineage_impact import show_impact

                answer = await walk(
                    connection,
                    start,
                    Direction.DOWN,
                    see_all_columns,
                    depth=arguments.depth,
                    most_edges=arguments.limit,
                )
                await show_impact(connection, settings, answer, arguments, terminal)
            else:
                await _show_walks(connection, start, arguments, terminal)
    except LedgerUnavailable as error:
        if not isinstance(error.__cause__, asyncpg.UndefinedTableError):
            raise
        terminal.line("the lineage graph is empty: no gateway of this version has used this database")
    return exit_codes.OK


async def _show_walks(
    connection: Any, start: Sequence[GraphColumn], arguments: argparse.Namespace, terminal: Terminal
) -> None:
    chosen = [d for d, wanted in ((Direction.UP, arguments.up), (Direction.DOWN, arguments.down)) if wanted]
    answers = [
        await walk(
            connection, start, direction, see_all_columns, depth=arguments.depth, most_edges=arguments.limit
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


async def _show_ways(
    connection: Any, start: Sequence[GraphColumn], arguments: argparse.Namespace, terminal: Terminal
) -> None:
    ends = await find(connection, arguments.to, see_all_columns)
    found: list[tuple[Edge, ...]] = []
    cut_off = ""
    for source in start:
        for target in ends:
            answer = await find_paths(connection, source, target, see_all_columns, depth=arguments.depth)
            found += answer.found
            cut_off = cut_off or answer.cut_off
    if arguments.json:
        terminal.json([[edge_as_json(edge) for edge in way] for way in found])
        return
    for way in found:
        terminal.line(terminal.style(str(way[0].source), "1"))
        for edge in way:
            masked = ", masked" if edge.masking else ""
            terminal.line(f"  → {edge.target}  [{edge.subtype}{masked}]  {edge.expression}".rstrip())
            terminal.line(f"    last seen {edge.last_seen:%Y-%m-%d %H:%M} in {edge.last_statement}")
    if cut_off:
        terminal.line(f"… {cut_off}")
    if not found:
        terminal.line(f"no path from `{arguments.column}` to `{arguments.to}` within {arguments.depth} steps")


def _edges(answers: Sequence[GraphAnswer]) -> list[Edge]:
    return [edge for answer in answers for edge in answer.edges]
