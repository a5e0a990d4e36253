"""What the gateway looks at in Spark's responses, whoever reads them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import cast

from gateway.errors import BackendUnavailable
from gateway.wire import connect_peek as peeked
from gateway.wire.connect_peek import ResponsePeek, peek
from gateway.wire.protobuf import ProtobufError

_UNRESOLVED = (peeked.NONE, peeked.EXECUTION_PROGRESS)
"""Responses that may come before Spark has looked up the plan's names."""


def look_at(data: bytes) -> ResponsePeek:
    try:
        return peek(data)
    except ProtobufError:
        raise BackendUnavailable("Spark answered with bytes that are no response") from None


def closing(source: AsyncIterator[bytes]) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
    """Close an iterator of the backend, and with it the call, however its reading ends."""
    return (
        aclosing(cast(AsyncGenerator[bytes, None], source))
        if hasattr(source, "aclose")
        else nullcontext(source)
    )


def names_are_known(seen: ResponsePeek) -> bool:
    """Whether Spark has looked up all names of the operation that it answers so."""
    return seen.schema or seen.case not in _UNRESOLVED
