"""`sluice recommend apply`: a pack is written and said to be so, or neither. No Spark; some seconds."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from gateway.app import exit_codes
from gateway.cli import main
from gateway.database.migrate import migrate
from gateway.errors import Faults

_INSERT = """
WITH run AS (INSERT INTO sluice.job_run (job, version, state, runner) VALUES ('recommend', 1, 'done', '')
  RETURNING id)
INSERT INTO sluice.recommendation (kind, subject, title, state, change, basis, evidence, run, proposed_at)
SELECT 'unused-grant', 'a', 'a', 'proposed', '{"edits": [], "cases": []}', '', '{}', id, now() FROM run"""


@pytest.mark.parametrize("what", ["rolled back", "not written", "applied"])
def test_a_pack_is_written_and_said_to_be_so_or_neither(
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    what: str,
) -> None:
    async def ask(*texts: str) -> Any:
        connection = await asyncpg.connect(database)
        try:
            await migrate(connection)
            for text in texts:
                await connection.execute(text)
            return await connection.fetchval("SELECT state FROM sluice.recommendation")
        finally:
            await connection.close()

    class Edited:
        diff, written = "", False

        def write(self) -> None:
            if what == "not written":
                raise Faults(["the pack was changed meanwhile"])
            self.written = True

    made = Edited()

    def edit(*_: Any) -> Edited:
        if what == "rolled back":
            asyncio.run(ask("DELETE FROM sluice.recommendation"))
        return made

    monkeypatch.setattr("gateway.cli.recommend.edit_pack", edit)
    config = tmp_path / "gateway.yaml"
    (tmp_path / "dsn").write_text(database)
    config.write_text(json.dumps({"ledger": {"directory": "ledger", "dsn": {"file": "dsn"}}}))
    asyncio.run(ask(_INSERT))
    code = main(["recommend", "apply", "1", "--pack", "p.yaml", "--write", "-c", str(config)])
    assert (code == exit_codes.OK) is (what == "applied"), capsys.readouterr().err
    assert made.written is (what == "applied")
    state = {"rolled back": None, "not written": "proposed", "applied": "applied"}[what]
    assert asyncio.run(ask()) == state


_RUN = (
    "INSERT INTO sluice.job_run (job, version, state, runner, ended_at)"
    " VALUES ('recommend', 1, 'done', '', '2026-11-29 10:00+00')"
)
_DAY = "INSERT INTO sluice.recommend_day (day, source, rows) VALUES (current_date - 3, '', 1)"


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ((), ["`sluice jobs run recommend` evaluates"]),
        (
            (_RUN,),
            ["run 1 evaluated the use of policies until 2026-11-29 10:00 UTC", "there is no usage yet"],
        ),
        ((_RUN, _DAY), ["run 1 evaluated", "the roll-ups begin on", "the roll-ups end at", "after 90 days"]),
    ],
)
def test_an_empty_list_says_whether_a_run_found_nothing_and_what_it_could_not_know(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], texts: tuple[str, ...], said: list[str]
) -> None:
    async def ask() -> None:
        connection = await asyncpg.connect(database)
        try:
            await migrate(connection)
            for text in texts:
                await connection.execute(text)
        finally:
            await connection.close()

    asyncio.run(ask())
    config = tmp_path / "gateway.yaml"
    (tmp_path / "dsn").write_text(database)
    config.write_text(json.dumps({"ledger": {"directory": "ledger", "dsn": {"file": "dsn"}}}))
    assert main(["recommend", "list", "-c", str(config)]) == exit_codes.OK
    told = capsys.readouterr().out
    assert all(words in told for words in said), told
