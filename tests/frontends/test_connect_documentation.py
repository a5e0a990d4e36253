"""The tables of docs/connect.md say what the program does: codes, SQLSTATEs, statuses, exceptions, bounds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway import errors
from gateway.errors import SluiceError
from gateway.frontends.connect_server import ConnectLimits
from gateway.frontends.connect_status import REFUSALS, internal_error, status_of
from gateway.frontends.guessing import LoginLimits
from gateway.session.failures import StatementFailed
from gateway.wire.connect import MAX_BYTES, MAX_DEPTH, MAX_MESSAGES
from gateway.wire.protobuf import ProtobufError
from tests.frontends.test_connect_status import EVENT, exception_of, is_retried, refused

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "connect.md").read_text("utf-8")
CODE = re.compile(r"`([A-Z][A-Z_]+)`")

IN_OTHER_WORDS = {"SPARK", "MALFORMED", "AUTHENTICATION_FAILED", "INVALID_HANDLE"}
"""Codes that the page tells of without their names."""
OF_NO_CALL = {"FAULTS", "JOB_BUSY", "PROOF_FAILED", "RECORD_CHANGED"}
RAISED = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, SluiceError)
}


def rows(heading: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the first table whose head begins so."""
    table = TEXT.partition(f"| {heading} |")[2].partition("\n\n")[0]
    for row in table.splitlines()[2:]:
        yield [cell.strip() for cell in row.strip().strip("|").split(" | ")]


def in_the_program() -> dict[str, set[str]]:
    """Return the codes that statements are refused or fail with; each with its SQLSTATEs in the code."""
    pairs: dict[str, set[str]] = {}
    for file in (ROOT / "gateway").rglob("*.py"):
        text = file.read_text("utf-8")
        found = re.findall(r'"([A-Z][A-Z_]+)",\s*(?:sqlstate=)?"([0-9A-Z]{5})"', text)
        found += re.findall(r'"\[SLUICE_([A-Z_]+)\](?:.|\n){,400}?"([0-9A-Z]{5})"', text)
        for code, sqlstate in found:
            if code in REFUSALS or f"[SLUICE_{code}]" in text:
                pairs.setdefault(code, set()).add(sqlstate)
    return pairs


TOLD = {code: cells[1] for cells in rows("code") for code in CODE.findall(cells[0])}


def test_every_code_is_told_with_its_sqlstate() -> None:
    program = in_the_program()
    assert {"CATALOG_CHANGED", "POLICIES_CHANGED", "VIEW_ENDED", "TOO_DEEP", "CATALOG_BUSY"} <= program.keys()
    known = program.keys() | REFUSALS.keys() | RAISED.keys()
    assert known - IN_OTHER_WORDS - OF_NO_CALL - TOLD.keys() == set()
    for code, sqlstate in TOLD.items():
        if code in RAISED:
            assert RAISED[code].sqlstate == sqlstate, code
        assert program.get(code, set()) <= {sqlstate}, code
    assert TOLD.keys() - REFUSALS.keys() - program.keys() - RAISED.keys() == set()


def errors_with(code: str) -> list[SluiceError]:
    found: list[SluiceError] = []
    if code in REFUSALS:
        found.append(refused(code, TOLD[code]))
    if code in RAISED:
        made: Any = RAISED[code]
        found.append(made(["no"] if code == "BACKEND_MISMATCH" else "no"))
    if not found:
        found.append(StatementFailed(f"[SLUICE_{code}] no", TOLD[code], 0, EVENT))
    return found


@pytest.mark.parametrize(
    ("code", "cells"),
    [
        pytest.param(code, cells, id=code)
        for cells in rows("what happened")
        for code in CODE.findall(cells[0])
    ],
)
def test_statuses_and_exceptions_are_as_told(code: str, cells: list[str]) -> None:
    statuses = [status_of(error, "ExecutePlan") for error in errors_with(code)]
    assert {status.code.name for status in statuses} == {cells[1]}
    assert {type(exception_of(status)).__name__ for status in statuses} <= set(re.findall(r"\w+", cells[2]))
    comes_again = code == "STOPPING"
    assert all(is_retried(status) is comes_again for status in statuses)
    assert cells[3].startswith("yes" if comes_again else "no")


def test_every_code_has_a_status_in_the_table() -> None:
    told = {code for cells in rows("what happened") for code in CODE.findall(cells[0])}
    assert TOLD.keys() - told == set()


def test_faults_and_malformed_messages_are_as_told() -> None:
    table = {cells[0]: cells for cells in rows("what happened")}
    fault = internal_error("0193")
    cells = table["`INTERNAL`, a fault of the gateway's own"]
    assert (fault.code.name, type(exception_of(fault)).__name__) == (cells[1], cells[2])
    malformed = status_of(ProtobufError("MALFORMED", "no message"), "ExecutePlan")
    cells = next(cells for what, cells in table.items() if "a malformed message" in what)
    assert malformed.code.name == cells[1]
    assert f"{type(exception_of(malformed)).__name__} for malformed ones" in cells[2]


def test_the_bounds_are_as_told() -> None:
    limits = ConnectLimits()
    assert limits.message_bytes == MAX_BYTES
    for figure in (
        f"{MAX_BYTES >> 20} MB (`message_bytes`)",
        f"{limits.requests_bytes >> 20} MiB (`requests_bytes`)",
        f"{limits.calls:,} (`calls`), {limits.calls_per_connection:,} for a connection",
        f"| {limits.request_timeout_s:g} s |",
        f"let go after {limits.write_timeout_s / 60:g} min",
        f"one each {limits.ping_interval_s:g} s",
        f"{MAX_MESSAGES:,} messages and strings, {MAX_DEPTH:,} of them within each other",
    ):
        assert figure in TEXT, figure
    assert "recorded once an hour" in TEXT
    assert limits.record_every_s == 3600
    logins = LoginLimits()
    assert f"after {logins.failures} in a minute" in TEXT
    assert logins.window_s == 60
