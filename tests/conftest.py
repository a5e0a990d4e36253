"""What every room's tests may use: one reader JVM for the whole run."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from gateway.reader.pool import ReaderPool


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def reader() -> AsyncIterator[ReaderPool]:
    """Spark's parser. Tests that use it run on the session's loop: `pytest.mark.asyncio(loop_scope="session")`."""
    async with ReaderPool() as pool:
        yield pool
