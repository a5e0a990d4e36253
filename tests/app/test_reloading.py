"""What a running gateway takes up of other settings, and what it says of the rest."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import structlog

from gateway.app import logs, reloading
from gateway.app.certificates import Certificates, context_of, tls_context
from gateway.app.probes import build_connection_limiter
from gateway.app.reloading import Reloading
from gateway.app.sparks import make_routing
from gateway.cli import serve
from gateway.model.sparks import SparkFacts
from gateway.session.metrics import Metrics
from gateway.session.routing.fleet import Fleet, SparkEntry
from gateway.settings.loading import load_settings
from gateway.settings.models import Settings
from tests.app.certificate_files import make_pair

SETTINGS = """\
listeners: {thrift: {port: 0, connections: 100, tls: {certificate: c.pem, key: k.pem}}, admin: {port: 0}}
backend: {thrift: {host: h}}
logins: {failures: 10, handshake_timeout_s: 15, remember_s: 60, jwt: {issuer: "https://a", audiences: [s]}}
connections: {before_login: 40, first_byte_s: 5}
sessions: {total: 5}
logging: {level: info}
jobs: {poll_s: 30, closure: {depth: 20}}
"""


async def test_what_can_be_changed_is_and_the_rest_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_pair(tmp_path)
    make_pair(tmp_path, certificate_name="d.pem", key_name="l.pem")
    config = tmp_path / "gateway.yaml"
    config.write_text(SETTINGS)
    settings = load_settings(config)
    metrics = Metrics()
    made = Reloading(settings, config, Certificates(metrics.certificate_ends))
    door = build_connection_limiter(settings, metrics, "thrift")
    tls = settings.listeners.thrift.tls
    assert tls is not None
    await door.open("127.0.0.1", 0, lambda _: pytest.fail("nobody comes"), tls=tls_context(tls))
    made.connection_limiters["thrift"] = door
    taken: list[Path] = []

    def renew(pair: object) -> None:
        taken.append(pair.tls.certificate)  # type: ignore[attr-defined]
        door.renew(context_of(pair))  # type: ignore[arg-type]

    made.certificates.add("thrift", tls, renew)
    configured: list[str] = []
    monkeypatch.setattr(logs, "configure", lambda one: configured.append(one.level))
    text = SETTINGS
    for old, new in (
        ("failures: 10", "failures: 3"),
        ("handshake_timeout_s: 15", "handshake_timeout_s: 7"),
        ("https://a", "https://b"),
        ("remember_s: 60", "remember_s: 61"),
        ("before_login: 40", "before_login: 20"),
        ("connections: 100", "connections: 50"),
        ("c.pem, key: k.pem", "d.pem, key: l.pem"),
        ("level: info", "level: error"),
        ("total: 5", "total: 6"),
        ("poll_s: 30", "poll_s: 60"),
        ("depth: 20", "depth: 21"),
        ("host: h}", "host: other}"),
    ):
        assert old in text
        text = text.replace(old, new)
    config.write_text(text)
    with structlog.testing.capture_logs() as told:
        await made.reload()
    (line,) = [one for one in told if one["event"] == "settings_reloaded"]
    rest = ["backend.thrift.host", "jobs.poll_s", "logins.jwt.issuer", "logins.remember_s", "sessions.total"]
    assert line["needs_restart"] == rest
    assert {"logging.level", "logins.failures", "connections.before_login", "jobs.closure.depth"} <= set(
        line["changed"]
    )
    assert (door.limits.connections, door.limits.strangers, door.limits.login_s) == (50, 20, 7)
    assert made.guesses.limits.failures == 3
    assert configured == ["error"]
    assert taken == [tmp_path / "c.pem", tmp_path / "d.pem"]
    with structlog.testing.capture_logs() as told:
        await made.reload()
    (line,) = [one for one in told if one["event"] == "settings_reloaded"]
    assert (line["changed"], line["needs_restart"]) == ([], rest)
    door.close()


async def test_settings_at_fault_change_nothing_and_end_nothing(tmp_path: Path) -> None:
    config = tmp_path / "gateway.yaml"
    config.write_text(SETTINGS)
    made = Reloading(load_settings(config), config, Certificates(Metrics().certificate_ends))
    config.write_text(SETTINGS + "nonsense: 1\n")
    with structlog.testing.capture_logs() as told:
        await made.reload()
    assert [one["event"] for one in told] == ["settings_not_reloaded"]
    assert "unknown key `nonsense`" in str(told[0]["faults"])
    config.unlink()
    await made.reload()
    assert reloading.list_differing_keys(load_settings_of(SETTINGS, tmp_path), made._in_force) == []


def load_settings_of(text: str, directory: Path) -> Settings:
    (directory / "again.yaml").write_text(text)
    return load_settings(directory / "again.yaml")


async def test_a_reload_that_is_asked_for_while_a_gateway_starts_is_made_up_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done: list[str] = []

    class Starting:
        addresses = SimpleNamespace(endpoints={})

        def __init__(self, *_: object, **__: object) -> None:
            pass

        async def __aenter__(self) -> Starting:
            await serving.reload()
            done.append("started")
            return self

        async def __aexit__(self, *_: object) -> None:
            done.append("stopped")

        async def reload(self) -> None:
            done.append("reloaded")

        async def run(self) -> None:
            done.append("ran")

    monkeypatch.setattr(serve, "import_module", lambda _: SimpleNamespace(Gateway=Starting))
    serving = serve._Serving(load_settings_of(SETTINGS, tmp_path), tmp_path / "again.yaml")
    await serving.serve()
    assert done == ["started", "reloaded", "ran", "stopped"]


async def test_sparks_are_drained_by_other_settings(tmp_path: Path) -> None:
    config = tmp_path / "gateway.yaml"
    text = "backends: {bi: {thrift: {host: a}, drain: false}, etl: {thrift: {host: b}, drain: false}}\n"
    config.write_text(text)
    settings = load_settings(config)
    made = Reloading(settings, config, Certificates(Metrics().certificate_ends))
    made.fleet = fleet = Fleet(make_routing(settings))
    for name in settings.all_backends:
        fleet.add(SparkEntry(facts=SparkFacts(name=name)))

    def drained() -> list[str]:
        return [one.name for one in fleet.all() if one.is_drained]

    needs_restart: list[str] = []
    for old, new, wanted in (
        ("host: a}, drain: false", "host: a}, drain: true", ["bi"]),
        ("host: b}, drain: false", "host: b}, drain: true", ["bi", "etl"]),
        ("host: a}, drain: true", "host: c}, drain: false", ["etl"]),
    ):
        text = text.replace(old, new)
        config.write_text(text)
        with structlog.testing.capture_logs() as logged:
            await made.reload()
        assert drained() == wanted
        (told,) = [one for one in logged if one["event"] == "settings_reloaded"]
        needs_restart = told["needs_restart"]
    assert needs_restart == ["backend.thrift.host", "backends.bi.thrift.host"]
    # What was drained by command stays so when nothing about it has changed.
    fleet.set_drained("bi", on=True)
    await made.reload()
    assert drained() == ["bi", "etl"]
