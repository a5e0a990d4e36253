"""What tests alone ask a parser process, beyond what the gateway does."""

from __future__ import annotations

from typing import Any

from gateway.errors import BackendUnavailable
from gateway.model.reading import NotRead
from gateway.reader.pool import ReaderPool
from gateway.reader.replies import Hello


def hello(pool: ReaderPool) -> Hello:
    """Return what a process said of its Spark when it began."""
    return pool._get_hello


async def contexts(pool: ReaderPool, text: str) -> frozenset[str]:
    """Return the rules and alternatives of Spark's grammar that a statement is made of."""
    return frozenset((await _answer(pool, "contexts", text=text)).get("contexts", ()))


async def chained(pool: ReaderPool, text: str) -> str:
    """Return, as a text that is equal for equal plans, what the parsers of the extensions make of a
    statement, without asking whether Spark's own reads it so."""
    reply = await _answer(pool, "chain", text=text)
    told: str = reply["plan"] if reply["kind"] == "answer" else ""
    return told


async def prediction_states(pool: ReaderPool) -> int:
    """Return how much the grammar's prediction remembers of all texts, in one process."""
    return int((await _answer(pool, "states"))["states"])


async def _answer(pool: ReaderPool, operation: str, **fields: Any) -> dict[str, Any]:
    reply = await pool._ask(operation, fields)
    if isinstance(reply, NotRead):
        raise BackendUnavailable(reply.message)
    return dict(reply)
