"""What every test gets: one reader JVM for the whole run, and a log configuration of its own."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
import structlog

from gateway.reader.pool import ReaderPool


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def reader() -> AsyncIterator[ReaderPool]:
    """Spark's parser. Its tests run on its loop: `pytest.mark.asyncio(loop_scope="session")`."""
    async with ReaderPool() as pool:
        yield pool


@pytest.fixture(autouse=True)
def own_logs() -> Iterator[None]:
    """Undo what a command or a gateway did to the logs."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    structlog.reset_defaults()
    root.handlers, root.level = handlers, level
