"""Spark's parser as tests start it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.model.reading import NotParsed, Reading
from gateway.model.spark_minors import minor_of
from gateway.reader.limits import ReaderLimits
from gateway.reader.pool import ReaderPool
from tests.speed import patience


def patient(limits: ReaderLimits) -> ReaderLimits:
    """Return the same limits of a parser, that waits as long as tests do."""
    return replace(limits, start_timeout_s=patience(), deadline_s=patience(), wait_s=patience(300))


def patient_reader() -> ReaderPool:
    """Return a parser, not started: a loaded machine may take longer than a gateway would wait."""
    return ReaderPool(limits=patient(ReaderLimits()))


def is_older(reader: ReaderPool, since: str | None) -> bool:
    """Whether the parser's Spark is older than the minor that a case is of."""
    return since is not None and minor_of(reader.spark_version) < minor_of(since)


async def require(reader: ReaderPool, text: str, since: str) -> None:
    """Skip a test with a text that this Spark, older than `since`, does not take."""
    if await lacks(reader, text, since):
        pytest.skip(f"it came with Spark {since}")


async def lacks(reader: ReaderPool, text: str, since: str | None, older: str | None = None) -> bool:
    """Whether the parser's Spark is older than the minor that a text is of; then it must not parse there, or,
    where it does, have one of the nodes `older` in its plan."""
    if not is_older(reader, since):
        return False
    answer = await reader.read(text)
    if older is None or not isinstance(answer, Reading):
        assert isinstance(answer, NotParsed)
    else:
        assert not answer.nodes.isdisjoint(older.split())
    return True
