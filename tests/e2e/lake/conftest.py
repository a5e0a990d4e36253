"""A Spark of another minor, with table formats, and gateways before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.lake.worlds import Lakes, LakeSpark
from tests.e2e.running import LoopThread


@pytest.fixture(scope="session")
def lakes(session_loop: LoopThread, open_directory: Path) -> Iterator[Callable[..., LakeSpark]]:
    """`lakes("4.1", "iceberg", "delta")`: that Spark, running; the one before is stopped if it was another."""
    kept = Lakes(session_loop, open_directory)
    yield kept
    kept.stop()
