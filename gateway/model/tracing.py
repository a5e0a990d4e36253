"""Spans of one trace: what is being worked on, for whoever watches. Nothing is decided by any of it.

Where no tracer was set up nothing has a span, and what stands here costs a look at a variable. A span has a
name and attributes of ours alone, never a text, a name or a value of a client's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol

SpanValue = str | int | float | bool


class TraceSpan(Protocol):
    """Something that is being done. See `app.tracing`."""

    @property
    def trace_id(self) -> str:
        """Of all that one request caused, in 32 hexadecimal digits."""
        ...

    @property
    def span_id(self) -> str:
        """Its own, in 16 of them."""
        ...

    @property
    def traceparent(self) -> str:
        """How W3C's Trace Context tells it to others."""
        ...

    def begin(self, name: str) -> TraceSpan:
        """Begin a part of it."""
        ...

    def note(self, **attributes: SpanValue) -> None:
        """Add attributes, with `_` for `.`; none once it has ended."""
        ...

    def end(self, fault: str = "") -> None:
        """Say that it is done, or by what kind of fault it ended; a second time does nothing."""
        ...


class Tracer(Protocol):
    """Begins traces."""

    def begin(self, name: str, traceparent: str, *, is_ours: bool = False) -> TraceSpan:
        """Begin what a request asked for; `traceparent`: as the client says, empty for a trace of its own.
        `is_ours`: it is of another span that we have begun, which no client says."""
        ...


CURRENT: ContextVar[TraceSpan | None] = ContextVar("span", default=None)
"""What the running task works on."""
CLIENTS: ContextVar[str] = ContextVar("traceparent", default="")
"""The `traceparent` of the request that the running task answers."""

_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_IN_COMMENT = re.compile(rf"\btraceparent\s*=\s*'?({_TRACEPARENT.pattern})", re.ASCII)
MAX_COMMENT_CHARS = 512


def begin_span(name: str) -> TraceSpan | None:
    """Begin a part of what the task works on; None where nothing is traced."""
    parent = CURRENT.get()
    return parent.begin(name) if parent is not None else None


_UNTRACED: AbstractContextManager[None] = nullcontext()


def trace(name: str, **attributes: SpanValue) -> AbstractContextManager[TraceSpan | None]:
    """Have what is done within be a span, in what the task works on."""
    span = begin_span(name)
    if span is None:
        return _UNTRACED
    if attributes:
        span.note(**attributes)
    return _work_on(span)


@contextmanager
def traced_request(
    tracer: Tracer | None, name: str, traceparent: str = "", *, goes_on: str = ""
) -> Iterator[TraceSpan | None]:
    """Have a client's request be a span: within what the task works on, or `goes_on`, a span of ours; or else
    where the client says."""
    span = begin_span(name)
    if span is None and tracer is not None:
        told = goes_on or traceparent or CLIENTS.get()
        span = tracer.begin(name, told, is_ours=bool(goes_on))
    if span is None:
        yield None
        return
    with _work_on(span):
        yield span


@contextmanager
def _work_on(span: TraceSpan) -> Iterator[TraceSpan]:
    before, fault = CURRENT.set(span), ""
    try:
        yield span
    except BaseException as error:
        # Its kind alone: texts of errors have literals.
        fault = type(error).__name__  # RULE (error-text-in-no-span)
        raise
    finally:
        CURRENT.reset(before)
        span.end(fault)


def read_traceparent(text: str) -> str:
    """Return what a header says, as far as it is valid; else an empty string."""
    text = text.strip()
    return text if _TRACEPARENT.fullmatch(text) else ""


def traceparent_in(statement: str) -> str:
    """Return what a comment at either end of a statement says, as sqlcommenter writes it
    (`/*traceparent='00-…'*/`); empty for none. Whatever it says, nothing but the trace goes by it."""
    head, tail = statement[:MAX_COMMENT_CHARS].lstrip(), statement[-MAX_COMMENT_CHARS:].rstrip()
    tail, comments = tail.removesuffix(";").rstrip(), list[str]()
    if head.startswith("/*") and "*/" in head:
        comments.append(head.partition("*/")[0])
    if tail.endswith("*/") and "/*" in tail:
        comments.append(tail.rpartition("/*")[2])
    for comment in comments:
        if (found := _IN_COMMENT.search(comment)) is not None:
            return found.group(1)
    return ""
