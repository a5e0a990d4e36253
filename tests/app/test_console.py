"""The console put together: logins as at any endpoint, sessions that end with their user."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.app import console as made
from gateway.console.login_sessions import ConsoleSession
from gateway.console.oidc import OidcRefused
from gateway.console.routes import NoParameters, Recorded, Viewer
from gateway.errors import AuthenticationFailed, BackendUnavailable, Faults, PoliciesStale
from gateway.frontends.login_chain import LoginOutcome
from gateway.model.credentials import Password
from gateway.model.principal import Principal
from gateway.settings.console import ConsoleSettings
from gateway.settings.loading import parse_settings
from gateway.settings.models import Settings
from tests.console.doors import PARTS
from tests.frontends.listening import Gateway, user
from tests.session.fakes import World

CLAIMS = """
logins: {jwt: {issuer: "https://id.example", audiences: [sluice]}}
listeners: {admin: {console: {public_url: "https://sluice.example", oidc: {client_id: %s}}}}
"""


def _parse(text: str) -> Settings:
    return parse_settings(text, "gateway.yaml", Path())


class Parts:
    """What logins to the console are made of."""

    def __init__(self) -> None:
        self.world = World()
        self.frontend = Gateway(self.world)
        self.stale: str | None = None
        self.directory: LoginOutcome | None = None

    @property
    def gateway(self) -> Any:
        users = SimpleNamespace(users=self.frontend.users, stale=lambda: self.stale)
        return SimpleNamespace(users=users, logins=SimpleNamespace(known=SimpleNamespace(find=self._find)))

    async def _find(self, name: str) -> LoginOutcome:
        assert self.directory is not None
        return self.directory

    async def log_in(self, name: str, password: str) -> ConsoleSession:
        principal, stamp = await made._log_in(
            self.gateway, self.frontend.authenticator, Password(name, password), "10.0.0.1:5"
        )
        return self.session(principal, stamp)

    def session(self, principal: Principal, stamp: str) -> ConsoleSession:
        now = datetime.now(UTC)
        return ConsoleSession(principal=principal, stamp=stamp, address="", opened_at=now, seen_at=now)

    async def confirm(self, session: ConsoleSession) -> Principal | None:
        return await made._confirm(self.gateway, session)


async def test_a_login_is_recorded_and_counted_like_any_other() -> None:
    parts = Parts()
    session = await parts.log_in("bob", "secret")
    assert session.principal.groups == {"analysts"}
    with pytest.raises(AuthenticationFailed):
        await parts.log_in("bob", "wrong")
    events = parts.world.ledger.of("login")
    assert [(one.user, one.body["verdict"], one.body["cliType"]) for one in events] == [
        ("bob", "accepted", "console"),
        ("bob", "rejected", "console"),
    ]


@pytest.mark.parametrize("secret", ["sluice_0123abcd_" + "x" * 43, "eyJhbGciOiJSUzI1NiJ9.e30.c2ln"])
async def test_tokens_are_for_programs(secret: str) -> None:
    """A session would outlive a token, and what it is confined to."""
    parts = Parts()
    with pytest.raises(AuthenticationFailed, match="tokens are for programs"):
        await parts.log_in("bob", secret)
    assert parts.world.ledger.of("login") == []


async def test_a_session_has_what_is_known_of_its_user_now_and_ends_with_his_entry() -> None:
    parts = Parts()
    session = await parts.log_in("bob", "secret")
    assert await parts.confirm(session) == parts.frontend.users["bob"].principal
    before = parts.frontend.users["bob"]
    for changed in (
        replace(before, password_hash=parts.frontend.users["alice"].password_hash),
        user("bob", "secret", "governors"),
        None,
    ):
        parts.frontend.users.pop("bob", None)
        if changed is not None:
            parts.frontend.users["bob"] = changed
        assert await parts.confirm(session) is None
    parts.frontend.users["bob"] = before
    assert await parts.confirm(session) is not None
    parts.stale = "the user file could not be read for 900 s"
    with pytest.raises(PoliciesStale):
        await parts.confirm(session)


async def test_a_directorys_user_is_asked_for_again() -> None:
    parts, eve = Parts(), Principal(user="eve")
    session = parts.session(eve, "directory")
    now = Principal(user="eve", groups=frozenset({"new"}))
    parts.directory = LoginOutcome(diagnosis="", principal=now)
    assert await parts.confirm(session) == now
    parts.directory = LoginOutcome(diagnosis="", reason="unknown")
    assert await parts.confirm(session) is None
    parts.directory = LoginOutcome(diagnosis="", reason="away", is_away=True)
    with pytest.raises(BackendUnavailable):
        await parts.confirm(session)
    assert await parts.confirm(parts.session(eve, "issuer")) == eve
    parts.frontend.users["eve"] = user("eve", "secret")
    assert await parts.confirm(parts.session(eve, "issuer")) is None, "the name is another's now"


async def test_each_use_is_on_record_before_it_is_answered() -> None:
    world = World()
    looks = Viewer(principal=Principal(user="ben", groups=frozenset({"audit"})), address="10.0.0.1:5")
    routes = {one.name: one for part in PARTS for one in part.routes}
    record = world.sessions.recorder
    await made._record(record, looks, routes["show_event"], {"event": "x" * 9_000}, allowed=True)
    await made._record(record, looks, routes["cancel_statement"], {"statement": "a"}, allowed=False)
    (viewed,), (changed,) = world.ledger.of("viewed"), world.ledger.of("changed")
    assert (viewed.user, viewed.body["action"], viewed.body["groups"]) == ("ben", "show_event", ["audit"])
    assert len(viewed.body["asked"]["event"]) == 4_096
    assert (changed.body["verdict"], changed.body["result"]) == ("rejected", 0)
    assert viewed.body["cliType"] == "console"
    assert routes["show_event"].recorded is Recorded.EACH
    assert NoParameters() == NoParameters()


def test_a_provider_needs_tokens_and_the_client_as_their_audience() -> None:
    settings = _parse(CLAIMS % "sluice")
    client = made.make_oidc(settings.listeners.admin.console or ConsoleSettings(), settings.logins.jwt)
    assert client is not None
    assert client._redirect == "https://sluice.example/console/login/oidc/back"
    with pytest.raises(Faults) as fault:
        _parse(CLAIMS % "other")
    assert "audiences" in str(fault.value.faults)
    with pytest.raises(Faults):
        _parse(CLAIMS.replace('public_url: "https://sluice.example", ', "") % "sluice")


async def test_a_provider_that_is_away_is_a_refusal_in_words() -> None:
    for asked in (made._fetch("http://127.0.0.1:1/x"), made._post("http://127.0.0.1:1/x", {}, None)):
        with pytest.raises(OidcRefused, match="cannot be reached"):
            await asked


def test_people_are_told_where_clients_connect() -> None:
    settings = _parse('listeners: {thrift: {host: "0.0.0.0", port: 10009}, connect: {port: 0}}')
    found = made.endpoints_of(settings, "")
    assert (found.host, found.thrift, found.connect) == ("localhost", 10009, 0)
    assert made.endpoints_of(settings, "https://sluice.example:10443").host == "sluice.example"
    catalog = '{name: lake, catalog: {type: iceberg, connection-params: {type: rest, uri: "http://c"}}}'
    settings = _parse(f"catalogs: [{catalog}]\nlisteners: {{iceberg_rest: {{catalogs: [lake]}}}}")
    found = made.endpoints_of(settings, "")
    assert (found.iceberg_rest, found.iceberg_rest_tls, found.iceberg_catalogs) == (10090, False, ("lake",))
