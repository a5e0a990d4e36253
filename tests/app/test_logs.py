"""Logs are one JSON object a line with an event name, and cannot carry a statement."""

from __future__ import annotations

import asyncio
import io
import json
import logging

import structlog

from gateway.app import logs
from gateway.settings.models import LogSettings


def test_a_record_is_one_json_object_with_its_event_and_fields() -> None:
    stream = io.StringIO()
    logs.configure(LogSettings(), stream)
    structlog.get_logger("x").info("session_opened", user="bob", sessions=3)
    record = json.loads(stream.getvalue())
    assert record["event"] == "session_opened"
    assert record["user"] == "bob"
    assert record["level"] == "info"
    assert record["timestamp"].endswith("Z")


def test_statement_text_does_not_reach_the_log() -> None:
    stream = io.StringIO()
    logs.configure(LogSettings(format="json"), stream)
    structlog.get_logger("x").warning("slip", sql="SELECT ssn FROM hr.employee", password="hunter2")
    assert "ssn" not in stream.getvalue()
    assert "hunter2" not in stream.getvalue()


def test_levels_below_the_chosen_one_are_silent() -> None:
    stream = io.StringIO()
    logs.configure(LogSettings(level="warning"), stream)
    structlog.get_logger("x").info("quiet")
    assert stream.getvalue() == ""


def test_warnings_of_libraries_come_in_the_same_format() -> None:
    stream = io.StringIO()
    logs.configure(LogSettings(), stream)
    logging.getLogger("asyncio").warning("slow callback %s", 3)
    record = json.loads(stream.getvalue())
    assert (record["event"], record["library"], record["message"]) == (
        "library_warning",
        "asyncio",
        "slow callback 3",
    )


class Unread(io.StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError


async def test_an_event_loop_outlives_a_log_that_nobody_reads_any_more() -> None:
    logs.configure(LogSettings(), Unread())
    loop, after = asyncio.get_running_loop(), asyncio.Event()

    def fail() -> None:
        raise ValueError("of which the loop tells")

    loop.call_soon(fail)
    loop.call_soon(after.set)
    await after.wait()


def test_a_trace_is_inside_the_json() -> None:
    stream = io.StringIO()
    logs.configure(LogSettings(), stream)
    try:
        raise ValueError("inside")
    except ValueError:
        structlog.get_logger("x").exception("task_failed")
    assert "ValueError: inside" in json.loads(stream.getvalue())["exception"]
