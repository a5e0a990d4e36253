"""`sluice sessions`: what is open, and an end to it; what cannot be asked is said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.app import exit_codes
from gateway.cli import main
from gateway.database import gateway_requests
from tests.database.test_gateway_requests import answering
from tests.speed import patience

SESSION = {
    "user": "dana",
    "endpoint": "thrift",
    "address": "10.0.0.7",
    "session": "5e55",
    "opened_at": "2026-11-29T08:00:00+00:00",
    "idle_s": 3.5,
    "statements": 1,
}


class Gate:
    """A gateway's part, of which a test says what it answers."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, Any]] = []
        self.answer: dict[str, Any] = {}

    async def __call__(self, body: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append(body)
        return self.answer


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def config(tmp_path: Path, database: str) -> Path:
    (tmp_path / "users.yaml").write_text("users: {}\n")
    (tmp_path / "dsn").write_text(database)
    file = tmp_path / "gateway.yaml"
    file.write_text(json.dumps({"ledger": {"dsn": {"file": "dsn"}}, "users": {"file": "users.yaml"}}))
    return file


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_requests, "ANSWER_S", patience(15))


async def run(*arguments: str) -> int:
    return await asyncio.to_thread(main, list(arguments))


async def test_they_are_listed_and_ended(
    config: Path, database: str, gate: Gate, capsys: pytest.CaptureFixture[str]
) -> None:
    await run("sessions", "list", "-c", str(config))
    assert "no running gateway" in capsys.readouterr().err
    async with answering(database, "gate-1", gate):
        gate.answer = {"sessions": [SESSION]}
        assert await run("sessions", "list", "-c", str(config)) == exit_codes.OK
        shown = capsys.readouterr().out
        assert all(word in shown for word in ("dana", "thrift", "10.0.0.7", "0:00:03", "gate-1", "5e55"))
        assert await run("sessions", "list", "--json", "-c", str(config)) == exit_codes.OK
        assert json.loads(capsys.readouterr().out)["sessions"] == [{"gateway": "gate-1", **SESSION}]
        gate.answer = {"ended": 2}
        assert await run("sessions", "end", "dana", "-c", str(config)) == exit_codes.OK
        assert capsys.readouterr().out == "2 sessions of dana are ended\n"
        assert gate.asked[-1]["user"] == "dana"
        assert gate.asked[-1]["by"]
        gate.answer = {"error": "this version does not support the request"}
        assert await run("sessions", "end", "dana", "-c", str(config)) == exit_codes.ERROR
        assert "gate-1: this version" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [("list", "dana"), ("end",)])
async def test_wrong_arguments(
    config: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert await run("sessions", *arguments, "-c", str(config)) == exit_codes.FAULTS
    assert "`sluice sessions list` takes no user" in capsys.readouterr().err


async def test_a_change_of_users_says_whether_gateways_have_taken_it(
    config: Path, database: str, gate: Gate, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr("gateway.cli.users._password", lambda *_: "long enough")
    assert await run("users", "add", "dana", "-c", str(config)) == exit_codes.OK
    assert "no running gateway" in capsys.readouterr().out
    async with answering(database, "gate-1", gate):
        gate.answer = {"user": "another", "faults": ["users.yaml:3: a fault"]}
        assert await run("users", "passwd", "dana", "-c", str(config)) == exit_codes.ERROR
        assert "not in force in gate-1: users.yaml:3: a fault" in capsys.readouterr().err
        gate.answer = {"user": "", "faults": []}
        assert await run("users", "remove", "dana", "-c", str(config)) == exit_codes.OK
        assert "in force in gate-1" in capsys.readouterr().out


ETL = {
    "backend": "etl",
    "version": "4.2.1",
    "metastore": "lake",
    "weight": 3,
    "sessions": 7,
    "endpoints": {"thrift": "ready", "connect": "does not answer"},
    "drained": False,
}


async def test_sparks_are_listed_and_drained(
    gate: Gate, config: Path, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def sluice(*arguments: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(main, ["backends", *arguments, "-c", str(config)])
        return code, *capsys.readouterr()

    assert (await sluice("list"))[0] == exit_codes.UNAVAILABLE
    async with answering(database, "gate-1", gate):
        gate.answer = {"backends": [ETL, {"backend": "old", "waiting_for": "Spark cannot be reached"}]}
        code, listed, _ = await sluice("list")
        assert code == exit_codes.OK
        assert "thrift: ready, connect: does not answer" in listed
        assert "not there: Spark cannot be reached" in listed
        gate.answer = {"drained": ["etl"]}
        code, told, _ = await sluice("drain", "etl")
        assert (code, told) == (exit_codes.OK, "etl gets no new sessions from 1 gateways\n")
        assert (gate.asked[-1]["backend"], gate.asked[-1]["on"]) == ("etl", True)
        gate.answer = {"drained": []}
        code, _, trouble = await sluice("undrain", "nowhere")
        assert code == exit_codes.ERROR
        assert "gate-1: has no backend `nowhere`" in trouble
        assert (await sluice("drain"))[0] == exit_codes.FAULTS
