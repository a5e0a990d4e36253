"""`sluice report officer`: what a security officer has to look at, on one page."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from gateway.app import exit_codes
from gateway.app.officer import OfficerPart, officer_page
from gateway.cli.audit import moment
from gateway.cli.terminal import BOLD, DIM, GREEN, RED, YELLOW, Terminal
from gateway.database.asking import connected
from gateway.errors import Faults
from gateway.settings import Settings

DAYS = 7
"""What is looked at where nothing is said."""
WIDE = 60


async def officer(dsn: str, settings: Settings, arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Show the page, each part as soon as it is known."""
    if arguments.until is not None:
        raise Faults(["`report officer` reports the present state: it takes `--since`, but not `--until`"])
    since = moment(arguments.since) or datetime.now(UTC) - timedelta(days=DAYS)
    parts: list[OfficerPart] = []
    async with connected(dsn, "sluice-report") as connection:
        page = officer_page(
            connection,
            settings,
            arguments.config,
            since=since.astimezone(UTC).date(),
            limit=arguments.limit,
            with_spark=not arguments.no_spark,
        )
        async for part in page:
            parts.append(part)
            if not arguments.json:
                _show(terminal, part)
    if arguments.json:
        terminal.json([_as_json(part) for part in parts])
    return exit_codes.OK


def _as_json(part: OfficerPart) -> Mapping[str, Any]:
    return {
        "title": part.title,
        "count": part.count,
        "found": list(part.found),
        "missing": list(part.missing),
        "more": part.more,
    }


def _show(terminal: Terminal, part: OfficerPart) -> None:
    count = f"{part.count:,}" if part.count or not part.missing else "none known"
    colour = RED if part.count else YELLOW if part.missing else GREEN
    terminal.line(f"{terminal.style(part.title, BOLD)}: {terminal.style(count, colour)}")
    if part.found:
        cells = [[_cell(value) for value in row.values()] for row in part.found]
        terminal.table(list(part.found[0]), cells, indent="  ", max_cell=WIDE)
    if part.count > len(part.found):
        terminal.line(f"  … and {part.count - len(part.found):,} more; --limit takes more")
    for missing in part.missing:
        terminal.line(terminal.style(f"  {missing}", DIM))
    if part.count:
        terminal.line(terminal.style(f"  {part.more}", DIM))
    terminal.line()


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    return value
