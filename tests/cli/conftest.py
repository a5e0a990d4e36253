"""Commands run in the process of the tests, and start parsers by their own settings."""

from __future__ import annotations

import pytest

from gateway.app import explaining
from gateway.reader.limits import ReaderLimits
from gateway.settings.models import ReaderSettings
from tests.readers import patient


@pytest.fixture(autouse=True)
def patient_parsers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a parser that a command starts wait as long as tests do."""

    def limits(settings: ReaderSettings) -> ReaderLimits:
        return patient(of_settings(settings))

    of_settings = explaining.reader_limits
    monkeypatch.setattr(explaining, "reader_limits", limits)
