"""What `/metrics` say of the record, as the gateway has it there."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from gateway.app.gateway import Gateway
from gateway.audit.ledger import LedgerOptions
from gateway.settings.models import Settings
from tests.audit.samples import cleared


async def test_the_ledger_is_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.app.gateway.LedgerOptions", partial(LedgerOptions, flush_timeout_s=0.01))
    gateway = Gateway(Settings.model_validate({"ledger": {"directory": tmp_path / "spool"}}))
    async with gateway._stack:
        ledger = await gateway._start_ledger("postgresql://nobody@/none?host=/nonexistent")
        await ledger.record_decided(cleared())
        page = generate_latest(gateway.metrics.registry).decode()
    for never_run in gateway._background:
        never_run.close()
    told = dict(line.split() for line in page.splitlines() if line.startswith("sluice_ledger_"))
    assert told == {
        "sluice_ledger_database_connected": "0.0",
        "sluice_ledger_recorded_events": "1.0",
        "sluice_ledger_shipped_events": "0.0",
        "sluice_ledger_unfit_events": "0.0",
        "sluice_ledger_open_statements": "1.0",
    }
