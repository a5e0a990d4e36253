"""Targets of the settings become what sends to them; faults of theirs are reported at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from pydantic import ValidationError

from gateway.app.record_forwarding import ForwardCollector, make_forwarders, make_target, report_forwarding
from gateway.audit.forward_targets import HttpTarget, SyslogTarget
from gateway.errors import Faults
from gateway.settings.forwarding import ForwardSettings
from gateway.settings.models import LedgerSettings


def read(**given: Any) -> ForwardSettings:
    return ForwardSettings.model_validate({"name": "siem", **given})


def test_each_transport_has_its_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLECTOR", "Bearer x")
    plain = make_target(read(transport="syslog", host="logs", port=514, tls=False))
    assert isinstance(plain, SyslogTarget)
    assert (plain.host, plain.port, plain.tls) == ("logs", 514, None)
    secure = make_target(read(transport="syslog", host="logs"))
    assert isinstance(secure, SyslogTarget)
    assert secure.tls is not None
    posted = make_target(
        read(transport="http", url="https://c/raw", headers={"Authorization": {"env": "COLLECTOR"}})
    )
    assert isinstance(posted, HttpTarget)
    assert posted.headers() == {"Authorization": "Bearer x"}
    monkeypatch.setenv("COLLECTOR", "Bearer y")
    assert posted.headers() == {"Authorization": "Bearer y"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"transport": "syslog"}, "needs `host`"),
        ({"transport": "syslog", "host": "a", "url": "http://b"}, "belong to `transport: http`"),
        ({"transport": "http"}, "needs `url`"),
        ({"transport": "http", "url": "ftp://a"}, "is not an address"),
        ({"transport": "http", "url": "https://u:p@a/"}, "use `headers`"),
        ({"transport": "http", "url": "https://a/", "host": "b"}, "belongs to `transport: syslog`"),
        ({"transport": "http", "url": "https://a/", "kinds": []}, "at least 1"),
        ({"transport": "http", "url": "https://a/", "kinds": ["gossip"]}, "Input should be"),
        ({"transport": "http", "url": "https://a/", "name": "two words"}, "pattern"),
    ],
)
def test_a_faulty_target_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        read(**given)


def test_two_targets_have_two_names() -> None:
    one = {"name": "siem", "transport": "http", "url": "https://a/"}
    with pytest.raises(ValidationError, match="two targets are called `siem`"):
        LedgerSettings.model_validate({"forward": [one, one]})


def test_a_secret_or_authority_that_is_not_there_is_reported_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(Faults, match="NOT_SET_ANYWHERE"):
        make_target(
            read(transport="http", url="https://a/", headers={"X-Token": {"env": "NOT_SET_ANYWHERE"}})
        )
    with pytest.raises(Faults, match=r"none\.pem"):
        make_target(read(transport="syslog", host="a", ca_file=str(tmp_path / "none.pem")))


async def test_metrics_and_readiness_name_the_target() -> None:
    (forwarder,) = made = make_forwarders([read(transport="syslog", host="logs")], "postgresql://nowhere")
    assert await report_forwarding(made) is None
    forwarder.progress.trouble = "the server answered HTTP 503"
    forwarder.progress.sent = 7
    assert await report_forwarding(made) == (
        "the record is not forwarded: `siem`: the server answered HTTP 503"
    )
    registry = CollectorRegistry()
    registry.register(ForwardCollector(made))
    page = generate_latest(registry).decode()
    assert 'sluice_forward_events_total{fate="sent",target="siem"} 7.0' in page
    assert 'sluice_forward_active{target="siem"} 0.0' in page
