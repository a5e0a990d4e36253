"""Spark's parser as tests start it."""

from __future__ import annotations

from gateway.reader.limits import ReaderLimits
from gateway.reader.pool import ReaderPool


def patient_reader() -> ReaderPool:
    """Return a parser, not started: a loaded machine may take longer than a gateway would wait."""
    return ReaderPool(limits=ReaderLimits(deadline_s=120.0))
