"""Gives what tests start the patience of `tests/speed.py`: parsers, gateways, and each test as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.speed import patience


def settings() -> dict[str, dict[str, float]]:
    """Return settings of a gateway that waits as long as tests do, and stops at once."""
    return {
        "reader": {"timeout_s": patience(), "wait_s": patience(300), "start_timeout_s": patience()},
        "backend": {
            "connect_timeout_s": patience(),
            "login_timeout_s": patience(300),
            "call_timeout_s": patience(300),
        },
        "logins": {"handshake_timeout_s": patience()},
        # Of what a test has left running nobody waits for the end.
        "sessions": {"drain_s": 0.5},
    }


def be_patient(config: Path) -> None:
    """Write the times of `settings` into a settings file, where it has none of its own."""
    written = yaml.safe_load(config.read_text())
    for group, times in settings().items():
        sparks = written.get("backends", {}) if group == "backend" else {}
        for name, one in sparks.items():
            sparks[name] = {**times, **one}
        if not sparks or group in written:
            written[group] = {**times, **(written.get(group) or {})}
    config.write_text(yaml.safe_dump(written, sort_keys=False))


class PatientTests:
    """Lets a test take longer where the machine is slow: by pytest-timeout's own figure, and by its marks."""

    def __init__(self, quiet_s: float) -> None:
        self._quiet_s = quiet_s

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        own = item.get_closest_marker("timeout")
        quiet_s = float(own.args[0]) if own is not None and own.args else self._quiet_s
        item.add_marker(pytest.mark.timeout(patience(quiet_s)), append=False)
        return (yield)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("timeout") is None:
        config.pluginmanager.register(PatientTests(float(config.getini("timeout"))), "sluice-patience")
