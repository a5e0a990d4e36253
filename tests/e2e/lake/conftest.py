"""A Spark of another minor, with table formats, and gateways before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.lake.worlds import Lakes, OpenLake
from tests.e2e.running import LoopThread


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """What lies here needs jars that `make lake-test` fetches; no other run takes it."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("lake")


@pytest.fixture(scope="session")
def lakes(session_loop: LoopThread, open_directory: Path) -> Iterator[OpenLake]:
    """`lakes("4.1", "iceberg", "delta")`: that Spark, running; one that was another is stopped."""
    kept = Lakes(session_loop, open_directory)
    yield kept
    kept.stop()
