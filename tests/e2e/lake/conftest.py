"""A Spark of another minor, with table formats, and gateways before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.lake.worlds import Lakes, OpenLake
from tests.e2e.running import LoopThread
from tests.lanes import lake_of


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What lies here needs jars that `make lake-test` fetches; no other run takes it. Spark after Spark."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("lake")
    items.sort(key=lambda item: lake_of(item.nodeid))


@pytest.fixture(scope="session")
def lakes(session_loop: LoopThread, open_directory: Path) -> Iterator[OpenLake]:
    """`lakes("4.1")`: the Spark of that name, running; one that was another is stopped."""
    kept = Lakes(session_loop, open_directory)
    yield kept
    kept.stop()
