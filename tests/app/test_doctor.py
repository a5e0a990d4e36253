"""`sluice doctor` tells all that `sluice check` does, and what it does not ask; each with what to do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.app import doctor, exit_codes
from gateway.app.checking import CheckReport
from gateway.app.database_checks import DatabaseAnswer
from gateway.app.doctor import DoctorFinding, examine
from gateway.app.outgoing import OutgoingAddress, ReachAnswer
from gateway.cli import main
from gateway.database.migrate import SchemaState, migrations
from gateway.frontends import jwt_logins
from gateway.frontends.ldap_rules import LdapRefused, LdapUnavailable
from gateway.model.principal import Principal
from gateway.model.spark_configuration import SparkConfiguration

SETTINGS = """\
backend: {thrift: {host: spark}, connect: {host: spark, token: {file: t}}}
listeners: {thrift: {port: 10009}, connect: {port: 15009}, admin: {port: 10080}}
ledger: {directory: spool, dsn: {file: dsn}, spool_bytes: 1048576}
"""
SPARK = {
    "spark.connect.grpc.marshallerRecursionLimit": "10000",
    "spark.sql.thriftServer.incrementalCollect": "true",
    "spark.driver.extraJavaOptions": "-Xss16m",
}


def report(spark: Mapping[str, str] | None = SPARK, **more: Any) -> CheckReport:
    found: dict[str, Any] = {"files": ("gateway.yaml",), "faults": (), "warnings": (), "policies": 7}
    if spark is not None:
        found["sparks"] = {"default": SparkConfiguration(version="4.3.0", settings=spark, parsers=())}
    schema = SchemaState(applied=(1, 2), pending=tuple(migrations()[2:4]), changed=(), newer=())
    found["database"] = DatabaseAnswer(version="17.2", clock_ahead_s=-0.2, schema=schema)
    return CheckReport(**(found | more))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "gateway.yaml"
    file.write_text(SETTINGS)
    (tmp_path / "dsn").write_text("postgresql://u:hunter2@db/x")
    return file


def answered(
    monkeypatch: pytest.MonkeyPatch, checked: CheckReport, failed: Mapping[str, str] | None = None
) -> None:
    async def check(_: object) -> CheckReport:
        return checked

    async def reach_all(addresses: list[OutgoingAddress]) -> list[ReachAnswer]:
        return [
            ReachAnswer(address=one, failed=(failed or {}).get(one.at), reason="so", numbers=("10.0.0.9",))  # type: ignore[arg-type]
            for one in addresses
        ]

    monkeypatch.setattr(doctor, "check", check)
    monkeypatch.setattr(doctor, "reach_all", reach_all)


async def test_all_that_is_well_is_told_by_area(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered(monkeypatch, report())
    found = await examine(config)
    assert {one.state for one in found} == {"ok"}
    assert {one.area for one in found} == {
        "version", "settings", "disk", "ports", "network", "postgresql", "clock", "spark", "policies",
    }  # fmt: skip
    told = "\n".join(one.text for one in found)
    assert "`backend.thrift`: spark:10000 (10.0.0.9) can be reached" in told
    assert "the tables have 2 migrations, the newest is 2; 2 more are applied when a gateway starts" in told
    assert "PostgreSQL's clock differs by 0.2 s" in told
    assert "hunter2" not in told


async def test_whatever_check_finds_is_told_with_what_to_do(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    areas = {"a fault": "machine", "a warning": "spark"}
    answered(
        monkeypatch,
        report(faults=("a fault", "of a pack"), warnings=("a warning",), not_asked=("names",), areas=areas),
    )
    found = {one.text: one for one in await examine(config)}
    assert (found["a fault"].area, found["a fault"].state) == ("machine", "fault")
    assert (found["a warning"].area, found["a warning"].state) == ("spark", "warning")
    assert (found["of a pack"].area, found["names"].state) == ("policies", "unknown")
    assert all(found[text].advice for text in ("a fault", "a warning", "of a pack"))
    assert "7 policies in 1 files" not in found


@pytest.fixture
def serving_iceberg(config: Path) -> Path:
    catalog = "{name: lake, catalog: {type: iceberg, connection-params: {type: rest, uri: 'http://c'}}}"
    trusted = "enforcing: {users: [engine], groups: [trino]}"
    listener = f"iceberg_rest: {{port: 10090, catalogs: [lake], {trusted}}}, "
    config.write_text(SETTINGS.replace("listeners: {", f"catalogs: [{catalog}]\nlisteners: {{{listener}"))
    return config


async def test_what_engines_get_that_read_iceberg_by_themselves_is_told(
    serving_iceberg: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(monkeypatch, report())
    told = [one.text for one in await examine(serving_iceberg)]
    assert "`listeners.iceberg_rest`: 127.0.0.1:10090, for the gateway" in told
    assert (
        "`listeners.iceberg_rest`: serves lake; nobody is trusted to write files; trusted to enforce "
        "restrictions: engine, group trino"
    ) in told


@pytest.mark.parametrize(
    ("key", "told"), [(key, key) for key in SPARK] + [("spark.driver.extraJavaOptions", "-Xss")]
)
async def test_a_spark_without_a_setting_that_it_should_have_is_warned_of(
    config: Path, monkeypatch: pytest.MonkeyPatch, key: str, told: str
) -> None:
    answered(monkeypatch, report({name: value for name, value in SPARK.items() if name != key}))
    (found,) = [one for one in await examine(config) if one.state == "warning"]
    assert told in found.text
    assert "docs/connect.md" in found.advice


@pytest.mark.parametrize(
    ("failed", "code"),
    [
        ({}, exit_codes.OK),
        ({"backend.thrift": "dns", "ledger.dsn": "way"}, exit_codes.UNAVAILABLE),
        ({"backend.thrift": "way", "backend.connect": "tls"}, exit_codes.FAULTS),
    ],
)
def test_the_exit_code_says_whether_it_may_mend_itself(
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failed: dict[str, str],
    code: int,
) -> None:
    answered(monkeypatch, report(), failed)
    assert main(["doctor", "-c", str(config), "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert told["healthy"] is (code == exit_codes.OK)
    faults = [one for one in told["findings"] if one["state"] == "fault"]
    assert len(faults) == len(failed)
    assert all(one["advice"] for one in faults)
    assert main(["doctor", "-c", str(config)]) == code
    out = capsys.readouterr().out
    assert f"{len(failed)} faults" in out
    assert out.count("→") == len(failed)


class Directory:
    """A directory that says the same to everybody."""

    def __init__(self, answer: Exception) -> None:
        self._answer = answer

    async def find(self, _user: str) -> Principal:
        raise self._answer

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("answer", "state"),
    [(LdapRefused(), "ok"), (LdapUnavailable("the password of `bind_dn` is wrong"), "fault")],
)
def test_a_directory_and_an_issuer_are_asked_as_for_a_login(
    config: Path, monkeypatch: pytest.MonkeyPatch, answer: Exception, state: str
) -> None:
    (config.parent / "secret").write_text("hunter2")
    config.write_text(
        SETTINGS
        + """\
logins:
  ldap: {urls: ["ldaps://dir"], bind_dn: "cn=s", bind_password: {file: secret}, user_base: x, groups: none}
  jwt: {issuer: "https://issuer", audiences: [sluice], jwks_url: "https://issuer/keys"}
"""
    )

    async def fetch(url: str) -> Any:
        assert url == "https://issuer/keys"
        return {"keys": [{"kty": "oct"}]}

    monkeypatch.setattr(doctor, "make_directory", lambda _: Directory(answer))
    monkeypatch.setattr(jwt_logins, "fetch_json", fetch)
    answered(monkeypatch, report())
    found = asyncio.run(examine(config))
    ldap, tokens = [one for one in found if one.area == "logins"]
    assert ldap.state == state
    assert ("bind_dn" in ldap.text, bool(ldap.advice), ldap.away) == (state == "fault",) * 3
    assert (tokens.state, "no key for an allowed algorithm" in tokens.text) == ("fault", True)


def test_each_of_several_sparks_is_described(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text(SETTINGS + "backends: {etl: {thrift: {host: etl}}}\n")
    etl = SparkConfiguration(version="4.2.1", settings={}, parsers=())
    whole = report()
    answered(monkeypatch, replace(whole, sparks={**whole.sparks, "etl": etl}))
    told = [one.text for one in asyncio.run(examine(config)) if one.area == "spark"]
    assert told[0] == "`default`: Spark 4.3.0 parses statements as the gateway does"
    assert told[1] == "`etl`: Spark 4.2.1 parses statements as the gateway does"
    assert [one for one in told[2:] if "grpc" in one] == [], "it has no Spark Connect"
    assert all(one.startswith("`etl`: Spark's `") for one in told[2:])


async def test_settings_that_cannot_be_read_are_told_and_nothing_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("backend: {thrift: {hots: spark}}\n")
    *_, last = await examine(file)
    assert isinstance(last, DoctorFinding)
    assert (last.area, last.state) == ("settings", "fault")
    assert f"{file}:1: " in last.text


def test_a_small_disk_is_warned_of(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text(SETTINGS.replace("spool_bytes: 1048576}", "spool_bytes: 1000000000000000}"))
    answered(monkeypatch, report())
    (found,) = [one for one in asyncio.run(examine(config)) if one.state == "warning"]
    assert (found.area, "less than `ledger.spool_bytes`" in found.text) == ("disk", True)
