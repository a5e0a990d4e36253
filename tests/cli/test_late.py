"""Whatever a command waits for and does not get in time is told by name, with the time it was given."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

import gateway
from gateway.app import exit_codes
from gateway.cli import lineage as lineage_command
from gateway.cli import main
from gateway.cli.terminal import Terminal
from gateway.database.asking import asking
from gateway.database.migrate import migrate
from gateway.demo import frames
from gateway.demo import jobs as demo_jobs
from gateway.errors import BackendUnavailable, LedgerUnavailable

ROOT = Path(gateway.__file__).parent
LIMITS = {"asyncio.timeout", "asyncio.timeout_at", "asyncio.wait_for", "subprocess.run"}
CATCHING = ("TimeoutError", "TimeoutExpired", "SubprocessError", "OSError", "TROUBLE", "Exception")
FOR_PEOPLE = {"cli", "demo", "jobs"}
"""Rooms whose errors a person reads as they are."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_with_limits() -> Iterator[tuple[str, Function, list[ast.AST]]]:
    """Yield each function that limits a time, with its own statements."""
    for file in sorted(ROOT.rglob("*.py")):
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, Function) and any(map(is_limit, own := list(parts_of(function)))):
                yield f"{file.relative_to(ROOT)}: {function.name}", function, own


def parts_of(node: ast.AST) -> Iterator[ast.AST]:
    for part in ast.iter_child_nodes(node):
        if not isinstance(part, Function | ast.ClassDef):
            yield part
            yield from parts_of(part)


def is_limit(part: ast.AST) -> bool:
    if not isinstance(part, ast.Call) or (name := ast.unparse(part.func)) not in LIMITS:
        return False
    if name == "subprocess.run":
        return any(one.arg == "timeout" for one in part.keywords)
    return ast.unparse(part.args[0]) != "None"


def is_catch(part: ast.AST) -> bool:
    match part:
        case ast.ExceptHandler():
            caught = "Exception" if part.type is None else ast.unparse(part.type)
        case ast.Call() if "suppress" in ast.unparse(part.func):
            caught = ast.unparse(part)
        case _:
            return False
    return any(one in caught for one in CATCHING)


def test_who_limits_a_time_tells_what_was_late_or_says_that_he_does_not() -> None:
    found = list(functions_with_limits())
    assert len(found) > 50, "the test finds them"
    silent = [
        where
        for where, function, own in found
        if not any(map(is_catch, own))
        and (where.split("/")[0] in FOR_PEOPLE or "TimeoutError" not in (ast.get_docstring(function) or ""))
    ]
    assert silent == []


def test_a_table_that_somebody_locks_is_told_with_the_time(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dsn").write_text(database)
    config = tmp_path / "gateway.yaml"
    config.write_text("ledger: {dsn: {file: dsn}}\n")
    monkeypatch.setattr(lineage_command, "ANSWER_S", 0.5)

    async def try_it() -> list[int]:
        connection = await asyncpg.connect(database)
        try:
            await migrate(connection)
            async with connection.transaction():
                await connection.execute("LOCK TABLE sluice.lineage_column, sluice.tag_proposal")
                return [
                    await asyncio.to_thread(main, [*words, "-c", str(config)])
                    for words in (["lineage", "a.b.c"], ["tags", "list"])
                ]
        finally:
            await connection.close()

    assert asyncio.run(try_it()) == [exit_codes.UNAVAILABLE] * 2
    told = capsys.readouterr().err
    assert told.count("the audit database did not answer within 0.5 s: it is busy, or waits for a lock") == 2
    assert "internal error" not in told


def test_what_postgresql_was_not_given_a_time_for_is_not_laid_to_it() -> None:
    with pytest.raises(TimeoutError), asking(alone=False):
        raise TimeoutError
    with pytest.raises(LedgerUnavailable, match="does not answer: no answer in time"), asking():
        raise TimeoutError
    with pytest.raises(TimeoutError, match="timed out"), asking(alone=False, within_s=1):
        raise TimeoutError(110, "Connection timed out")  # the system's, of a file or another server


def test_what_nobody_expected_to_be_late_is_no_internal_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wait(*_: object) -> int:
        raise TimeoutError

    monkeypatch.setattr("gateway.cli.users.run", wait)
    monkeypatch.delenv("SLUICE_TRACE", raising=False)
    assert main(["users", "list"]) == exit_codes.UNAVAILABLE
    told = capsys.readouterr().err
    assert "did not answer in time" in told
    assert "internal error" not in told


async def test_a_command_of_the_demo_that_does_not_end_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_jobs, "DEADLINE_S", 0.01)
    commands = demo_jobs._Commands(Terminal(), tmp_path / "gateway.yaml")
    with pytest.raises(BackendUnavailable, match=r"`sluice jobs run rollups` did not end within 0\.01 s"):
        await commands.output("jobs", "run", "rollups")
    monkeypatch.setattr(frames, "DEADLINE_S", 0.01)
    with pytest.raises(BackendUnavailable, match="program of the tour did not end"):
        await frames._output_of("import time; time.sleep(60)")


async def test_a_command_of_the_demo_that_takes_long_tells_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_jobs, "TELL_AFTER_S", -1.0)
    told: list[str] = []
    commands = demo_jobs._Commands(Terminal(), tmp_path / "gateway.yaml")
    with pytest.raises(BackendUnavailable, match=r"gateway\.yaml"):
        await commands.output("jobs", "list", told=told.append)
    assert any("gateway.yaml" in line for line in told)
