"""The admin API as the gateway makes it: users of the file, logins in the record, TLS, one database."""

from __future__ import annotations

import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from gateway.admin.listener import AdminServer
from gateway.app.certificates import tls_context
from gateway.app.ranger_admin import RangerAdmin
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.frontends.guessing import LoginLimits
from gateway.settings.listeners import RangerApiSettings, Tls
from gateway.settings.models import PolicySettings, Settings
from tests.app.readers import ReaderThatCounts
from tests.frontends.listening import Gateway
from tests.session.fakes import World

CERTIFICATES = Path(__file__).resolve().parents[1] / "frontends" / "tls"
CERTIFICATE = CERTIFICATES / "test-only-certificate.pem"
SERVICES = "/service/public/v2/api/service"


class Api:
    """The API over TLS, with the users `bob` (an administrator) and `alice`."""

    def __init__(self, world: World, session: aiohttp.ClientSession, url: str) -> None:
        self.world = world
        self.url = url
        self._session = session

    async def get(self, path: str, user: str, password: str) -> int:
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        trusted = ssl.create_default_context(cafile=str(CERTIFICATE))
        trusted.check_hostname = False
        async with self._session.get(
            self.url + path, headers={"Authorization": f"Basic {token}"}, ssl=trusted
        ) as answer:
            return answer.status

    def logins(self) -> list[tuple[str, bool]]:
        events = [event for event in self.world.ledger.events if event.kind == "login"]
        return [(event.user, event.body["result"] == 1) for event in events]


@contextlib.asynccontextmanager
async def serving(database: str, failures: int = 10) -> AsyncIterator[Api]:
    world = World()
    logins = Gateway(world, logins=LoginLimits(failures=failures))
    settings = RangerApiSettings(administrators=("bob",))
    admin = RangerAdmin(settings, PolicySettings(), database, logins.authenticator, ReaderThatCounts())
    listener = AdminServer({}, CollectorRegistry(), mounted={"/service": admin.api.app})
    tls = tls_context(Tls(certificate=CERTIFICATE, key=CERTIFICATES / "test-only-key.pem"))
    port = await listener.start(ConnectionLimiter("admin"), "127.0.0.1", 0, tls=tls)
    async with aiohttp.ClientSession() as session:
        yield Api(world, session, f"https://127.0.0.1:{port}")
    await listener.close()
    await admin.close()


async def test_users_of_the_file_log_in_over_tls(database: str) -> None:
    async with serving(database) as api:
        assert await api.get(SERVICES, "bob", "secret") == 200
        assert await api.get(SERVICES, "bob", "wrong") == 401
        assert await api.get(SERVICES, "alice", "wonder") == 200
        assert await api.get("/service/plugins/policies/download/x", "alice", "wonder") == 403
        assert await api.get("/service/plugins/policies/download/x", "bob", "secret") == 404


async def test_a_login_is_recorded_once_and_every_failure(database: str) -> None:
    async with serving(database) as api:
        for _ in range(3):
            await api.get(SERVICES, "bob", "secret")
        await api.get(SERVICES, "bob", "wrong")
        assert api.logins() == [("bob", True), ("bob", False)]


async def test_guessing_is_refused_after_some_failures(database: str) -> None:
    async with serving(database, failures=2) as api:
        for _ in range(3):
            assert await api.get(SERVICES, "alice", "wrong") == 401
        assert await api.get(SERVICES, "alice", "wonder") == 401


async def test_the_shipped_definitions_are_there(database: str) -> None:
    async with serving(database) as api:
        for name in ("spark", "hive", "tag"):
            assert await api.get(f"/service/public/v2/api/servicedef/name/{name}", "bob", "secret") == 200


def test_the_api_is_not_there_unless_it_is_asked_for_and_has_an_administrator() -> None:
    assert Settings().listeners.admin.ranger is None
    with pytest.raises(ValueError, match="administrators"):
        RangerApiSettings()
