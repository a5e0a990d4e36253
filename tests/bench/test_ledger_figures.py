"""What the ledger adds to a statement, and how many events it takes."""

from __future__ import annotations

import pytest

from tests.bench import ledger
from tests.bench.figures import Record


@pytest.mark.bench
@pytest.mark.timeout(600)
def test_ledger(record: Record, quick: bool) -> None:
    ledger.run(record, quick=quick)
