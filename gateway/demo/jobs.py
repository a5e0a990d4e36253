"""The tour's last stops: jobs on Spark. A classification masks a column once somebody accepts what it found,
and the roll-ups tell what the tour itself came to.

Commands run as a visitor would type them, with settings that name the gateway's own port.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from gateway.app.gateway import Addresses
from gateway.cli.terminal import BOLD, CYAN, DIM, Terminal
from gateway.demo.tour import PEOPLE, ShownResult, TourClient
from gateway.errors import BackendUnavailable

READER = PEOPLE[1]
"""Who reads the samples, and looks at the column before and after."""
LETTERS = "SELECT reader, address, topic FROM inbox.news.letters ORDER BY reader LIMIT 3"
FOUND = "What is personal is found in samples, and masked once somebody accepts it"
COUNTED = "What this tour came to"
EMPLOYEES = "spark_catalog.hr"
"""What the report is about: as many rows as people and columns, however often anything else was asked."""
TAG = "EMAIL"
COLUMN = "spark_catalog.inbox.news__letters.address"
DEADLINE_S = 600.0
"""Seconds for one command; the slowest starts a Spark of its own: 20 were seen."""
TELL_AFTER_S = 15.0
"""Seconds after which is told how far a command is: on a machine that has time nobody waits so long."""
IN_FORCE_S = 60.0
"""Seconds until what was accepted has to be in force; policies look every two."""
JOBS = ("archive", "classify", "closure", "proof", "recommend", "replay", "rollups", "verify")


def with_jobs(settings_file: Path, where: Addresses) -> None:
    """Add to the settings what jobs need to know of the running gateway."""
    head, _, text = settings_file.read_text().partition("\n")
    token = settings_file.with_name("jobs.token")
    token.touch(mode=0o600)
    token.write_text(f"{READER.name}:{READER.password}")
    reading = {"gateway": f"sc://localhost:{where.endpoints['connect'].port}", "token": {"file": token.name}}
    settings = orjson.loads(text)
    settings["jobs"] = {
        "directory": "lake",
        "master": "local[2]",
        "shuffle_partitions": 2,
        "classify": {
            **reading,
            "include": ["spark_catalog.inbox.*", "spark_catalog.hr.*"],
            "sample_percent": 100,
        },
        "proof": reading,
        "replay": {"proposed": settings["policies"]["paths"][0]},
    }
    settings_file.write_text(f"{head}\n{orjson.dumps(settings, option=orjson.OPT_INDENT_2).decode()}")


async def jobs(terminal: Terminal, where: Addresses, settings_file: Path, number: int) -> None:
    """Show both stops, from this number on."""
    commands = _Commands(terminal, settings_file)
    client = await TourClient.open(*where.endpoints["thrift"], READER.name, READER.password)
    try:
        _title(terminal, number, FOUND)
        before = await _look(terminal, client)
        await commands.show("jobs", "run", "classify")
        listed = json.loads(await commands.output("tags", "list", "--json"))
        proposed = next((one for one in listed if (one["column"], one["tag"]) == (COLUMN, TAG)), None)
        if proposed is None:
            raise BackendUnavailable(f"the classification did not find {TAG} in {COLUMN}")
        if proposed["state"] == "proposed":  # else an earlier tour accepted it
            await commands.show("tags", "show", str(proposed["id"]))
            await commands.show("tags", "accept", str(proposed["id"]))
            await _wait_for_change(client, before)
        await _look(terminal, client)
    finally:
        await client.close()
    _title(terminal, number + 1, COUNTED)
    await commands.show("jobs", "run", "rollups")
    await commands.show("report", "usage", "--table", EMPLOYEES)


def _title(terminal: Terminal, number: int, title: str) -> None:
    terminal.line()
    terminal.line(terminal.style(f"── {number}. {title} " + "─" * (70 - len(title)), BOLD))


async def _look(terminal: Terminal, client: TourClient) -> ShownResult:
    answer = await client.ask(LETTERS)
    if answer.error:
        raise BackendUnavailable(answer.error)
    terminal.line()
    terminal.line(f" {terminal.style(READER.name, BOLD)} asks: {terminal.style(LETTERS, CYAN)}")
    terminal.table(answer.columns, answer.rows, indent="   ")
    return answer


async def _wait_for_change(client: TourClient, before: ShownResult) -> None:
    """Wait until the same question has another answer."""
    deadline = time.monotonic() + IN_FORCE_S
    while (await client.ask(LETTERS)).rows == before.rows:
        if time.monotonic() > deadline:
            raise BackendUnavailable("the accepted tag is not in force")
        # The gateway looks at what was decided by itself: there is nothing to wait on but its answer.
        await asyncio.sleep(0.2)


class _Commands:
    """Runs `sluice` with the demo's settings."""

    def __init__(self, terminal: Terminal, settings_file: Path) -> None:
        self._terminal = terminal
        self._config = str(settings_file)
        self._shown = os.path.relpath(settings_file)

    async def show(self, *words: str) -> None:
        """Print a command, and what it prints."""
        self._terminal.line()
        shown = f"sluice {' '.join(words)} -c {self._shown}"
        self._terminal.line(f" {self._terminal.style(f'$ {shown}', CYAN)}")
        for line in (await self.output(*words, told=self._print)).splitlines():
            self._print(line)

    def _print(self, line: str) -> None:
        self._terminal.line(f"   {self._terminal.style(line, DIM)}".rstrip())

    async def output(self, *words: str, told: Callable[[str], None] | None = None) -> str:
        """Return what a command prints; `told` is given how far it is, where that takes a while. Raises
        BackendUnavailable when it fails."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway", *words, "-c", self._config),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(DEADLINE_S):
                printed, complaints = await asyncio.gather(_read(process.stdout), _read(process.stderr, told))
                await process.wait()
        except TimeoutError:
            raise BackendUnavailable(
                f"`sluice {' '.join(words)}` did not end within {DEADLINE_S:g} s, of which a machine with "
                "nothing else to do takes 20: this one is too busy. `--no-tour` starts the demo without it; "
                f"add `-c {self._shown}` to the command to run it yourself"
            ) from None
        finally:
            await _stop_process(process)
        if process.returncode:
            raise BackendUnavailable(f"`sluice {' '.join(words)}` failed: {complaints[-1000:]}")
        return printed


async def _read(stream: Any, told: Callable[[str], None] | None = None) -> str:
    """Return all that comes; where somebody is told, line by line what comes after `TELL_AFTER_S`."""
    if told is None:
        return bytes(await stream.read()).decode(errors="replace")
    began, lines = time.monotonic(), []
    while line := (await stream.readline()).decode(errors="replace"):
        lines.append(line)
        if time.monotonic() - began > TELL_AFTER_S:
            told(line.rstrip())
    return "".join(lines)


async def _stop_process(process: Any) -> None:
    """Let a command that was given up stop what it started; then end it."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(10):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
