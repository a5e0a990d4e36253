"""`make bench` prints the ledger's figures."""

from __future__ import annotations

import pytest

from tests.bench import ledger


@pytest.mark.bench
@pytest.mark.timeout(600)
def test_ledger_figures() -> None:
    ledger.main()
