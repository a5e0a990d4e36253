"""One Spark for the jobs' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.jobs.worker import Worker, working


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    with working() as found:
        yield found
