"""Secrets that a command prints or Vault keeps: read, renewed, and never repeated."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import Faults
from gateway.settings import secret_stores
from gateway.settings.loading import parse_settings, secrets_in
from gateway.settings.models import Settings
from gateway.settings.secret_stores import SlowSecrets

TOKEN = "hvs.the-token"


class Vault:
    """A KV engine as Vault has it over HTTP, in either version."""

    def __init__(self) -> None:
        self.secrets: dict[str, dict[str, Any]] = {
            "/v1/secret/data/sluice/ldap": {"data": {"password": "s3cret"}}
        }
        self.status = 0
        self.asked: list[tuple[str, str | None, str | None]] = []
        vault = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                token, namespace = self.headers["X-Vault-Token"], self.headers["X-Vault-Namespace"]
                vault.asked.append((self.path, token, namespace))
                found = vault.secrets.get(self.path) if token == TOKEN else None
                status = vault.status or (403 if token != TOKEN else 200 if found is not None else 404)
                body = json.dumps({"data": found} if status == 200 else {"errors": [TOKEN]}).encode()
                self.send_response(status)
                if status == 307:
                    self.send_header("Location", "http://localhost:1/elsewhere")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def vault() -> Iterator[Vault]:
    made = Vault()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.settings.section.SECRETS", SlowSecrets())
    monkeypatch.setenv("VAULT_TOKEN", TOKEN)


def settings_of(vault: Vault, secret: str = "sluice/ldap#password", more: str = "") -> Settings:
    text = f"""
vault: {{url: "{vault.url}", token: {{env: VAULT_TOKEN}}{more}}}
ledger: {{dsn: {{vault: "{secret}"}}}}
"""
    return parse_settings(text, "gateway.yaml", Path("/etc/sluice"))


def reveal(settings: Settings) -> str:
    assert settings.ledger.dsn is not None
    return settings.ledger.dsn.reveal()


def test_a_secret_is_read_from_either_version_of_the_engine(vault: Vault) -> None:
    assert reveal(settings_of(vault)) == "s3cret"
    vault.secrets["/v1/teams/kv/sluice"] = {"dsn": "of version 1"}
    more = ", mount: teams/kv, version: 1, namespace: corp"
    assert reveal(settings_of(vault, "sluice#dsn", more)) == "of version 1"
    assert vault.asked[-1] == ("/v1/teams/kv/sluice", TOKEN, "corp")


@pytest.mark.parametrize(
    ("secret", "status", "told"),
    [
        ("sluice/ldap#other", 0, "has no field `other`"),
        ("sluice/none#password", 0, "Vault answers 404"),
        ("sluice/ldap#password", 403, "Vault answers 403"),
        ("sluice/ldap#password", 503, "Vault answers 503"),
        ("sluice/ldap#password", 307, "Vault answers 307"),
    ],
)
def test_what_cannot_be_read_is_told_without_any_secret(
    vault: Vault, secret: str, status: int, told: str
) -> None:
    vault.status = status
    with pytest.raises(Faults, match=told) as caught:
        reveal(settings_of(vault, secret))
    assert TOKEN not in str(caught.value.faults)


def test_a_vault_that_is_away_is_told_of_by_name() -> None:
    made = Vault()
    settings = settings_of(made)
    made.server.shutdown()
    made.server.server_close()
    with pytest.raises(Faults, match="`sluice/ldap#password` of Vault cannot be read: ConnectionRefused"):
        reveal(settings)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ledger: {dsn: {vault: a/b#c}}", "needs the section `vault`"),
        ("vault: {url: 'http://vault.corp:8200', token: {env: X}}", "`url` must be an `https://` address"),
        ("vault: {url: 'https://v', token: {vault: a#b}}", "`token` cannot be in Vault itself"),
        ("ledger: {dsn: {vault: a/b}}", "ledger.dsn.vault"),
        ("ledger: {dsn: {vault: a#b, env: X}}", "a secret must be one of"),
        ("ledger: {dsn: {command: []}}", "ledger.dsn.command"),
    ],
)
def test_settings_that_name_no_secret_are_faults(text: str, told: str) -> None:
    with pytest.raises(Faults) as caught:
        parse_settings(text, "gateway.yaml", Path("/etc/sluice"))
    assert told in str(caught.value.faults)


def test_neither_secret_nor_token_is_printed(vault: Vault) -> None:
    settings = settings_of(vault)
    reveal(settings)
    assert len(list(secrets_in(settings))) == 2
    for shown in (repr(settings), str(settings), settings.model_dump_json()):
        assert TOKEN not in shown
        assert "s3cret" not in shown


def test_a_command_prints_a_secret(tmp_path: Path) -> None:
    def dsn(command: list[str]) -> str:
        return reveal(parse_settings(json.dumps({"ledger": {"dsn": {"command": command}}}), "g", tmp_path))

    assert dsn(["printf", "two\nlines\n"]) == "two\nlines"
    for command, told in (
        (["sh", "-c", "echo s3cret; echo s3cret >&2; exit 3"], "ended with 3"),
        (["true"], "is empty"),
        ([str(tmp_path / "none")], "No such file"),
    ):
        with pytest.raises(Faults, match=told) as caught:
            dsn(command)
        assert "s3cret" not in str(caught.value.faults)


def test_an_old_secret_is_asked_for_behind_the_scenes() -> None:
    now, answers = 0.0, list[object]()
    secrets = SlowSecrets(lambda: now)

    def fetch() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    def get() -> str:
        found = secrets.get("key", fetch)
        for thread in threading.enumerate():
            if thread.name.endswith("(_renew)"):
                thread.join()
        return found

    answers += ["first", "second", secret_stores.SecretAway(["away"]), Faults(["gone"]), Faults(["gone"])]
    assert [get(), get()] == ["first", "first"]
    now += secret_stores.RENEW_S
    assert [get(), get()] == ["first", "second"]
    now += secret_stores.RENEW_S
    assert [get(), get()] == ["second", "second"], "nobody could be asked"
    now += secret_stores.RENEW_S
    assert get() == "second"
    with pytest.raises(Faults, match="gone"):
        get()
