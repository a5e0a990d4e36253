"""Configures the operator's logs: an event name and fields on standard error, never a statement's text."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, TextIO

import structlog

from gateway.model.tracing import CURRENT
from gateway.settings.models import LogSettings

FORBIDDEN_FIELDS = frozenset({"sql", "statement", "text", "query", "password", "row", "rows_sample", "dsn"})
"""Fields that would carry what belongs into the audit record, or nowhere; dropped should one slip in."""

CLIENT_FAULTS = "aiohttp.http_exceptions"
"""Where exceptions are from that tell what a client of HTTP has done wrong."""


def configure(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Send structlog's and the standard library's records to one stream in one format."""
    stream = stream or sys.stderr
    console = settings.format == "console" or (settings.format == "auto" and stream.isatty())
    level = getattr(logging, settings.level.upper())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        add_trace,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        drop_forbidden,
    ]
    if console:
        last: structlog.typing.Processor = structlog.dev.ConsoleRenderer(colors=stream.isatty())
    else:
        shared.append(structlog.processors.format_exc_info)
        last = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[*shared, last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers = [_Forward()]
    # Libraries speak up when something is wrong; their daily chatter is not ours.
    root.setLevel(max(level, logging.WARNING))


def add_trace(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Add the ids of the trace and span that the task works on, where it is traced."""
    if (span := CURRENT.get()) is not None:
        event["trace_id"], event["span_id"] = span.trace_id, span.span_id
    return event


def drop_forbidden(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Replace the value of a forbidden field, so that a slip is visible and harmless."""
    for name in FORBIDDEN_FIELDS & event.keys():
        event[name] = "***"
    return event


class _Forward(logging.Handler):
    """Hands records of the standard library (asyncio, aiohttp) to structlog as `library_warning`."""

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, Any] = {"library": record.name, "message": record.getMessage()}
        level, error = record.levelno, record.exc_info[1] if record.exc_info else None
        if type(error).__module__ == CLIENT_FAULTS:  # RULE (client-bytes-in-no-log)
            # Anybody may send what is no HTTP, and its text quotes it: a header with a password, too.
            level, fields["fault"] = logging.INFO, type(error).__name__
        elif error is not None:
            fields["exc_info"] = record.exc_info
        try:
            structlog.get_logger("library").log(level, "library_warning", **fields)
        except OSError:
            # Nobody reads the log any more. asyncio, telling of an exception, would take another for its end.
            self.handleError(record)
