"""Logs are one JSON object a line with an event name, and cannot carry a statement."""

from __future__ import annotations

import asyncio
import io
import json
import logging

import pytest
import structlog

from gateway.app import logs
from gateway.settings.models import LogSettings
from tests.frontends.test_thrift_http import listening as http_listening


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


@pytest.mark.parametrize(
    "sent",
    [
        b"Authorization: Basic a-secret\x01\r\n\r\n",
        b"Authorization : Basic a-secret\r\n\r\n",
        b"Authorization: Bearer a-secret" + b"x" * 20_000 + b"\r\n\r\n",
    ],
)
async def test_a_request_that_cannot_be_read_leaves_none_of_its_bytes_in_the_log(sent: bytes) -> None:
    stream = io.StringIO()
    logs.configure(LogSettings(), stream)
    async with http_listening() as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(b"POST /cliservice HTTP/1.1\r\nHost: x\r\n" + sent)
        assert b" 400 " in await reader.readline()
        writer.close()
    (record,) = [one for one in map(json.loads, stream.getvalue().splitlines()) if "library" in one]
    assert (record["level"], record["library"]) == ("info", "aiohttp.server")
    assert record["fault"] in ("BadHttpMessage", "LineTooLong")
    assert "secret" not in stream.getvalue()


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
