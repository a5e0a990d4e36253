"""What a login costs, by what is shown, and many of them at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.frontends.authentication import Authenticator
from gateway.frontends.known_users import KnownUsers
from gateway.frontends.login_chain import LoginMechanism
from gateway.frontends.login_mechanisms import IssuerLogins
from gateway.frontends.tokens import new_token
from gateway.frontends.users import User
from gateway.model.credentials import Bearer, Credentials, Negotiation
from gateway.model.principal import Principal
from gateway.model.statement import Client
from tests.bench.figures import Record
from tests.bench.raw_client import RawClient, Server
from tests.frontends.listening import chain_of
from tests.frontends.test_jwt_logins import Issuer, token
from tests.session.fakes import World

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

SECTION = "Logins"
CLIENT = Client(protocol="thrift", address="192.0.2.1")
AT_ONCE = 200
SECRET, TOKEN = new_token()


async def cpu_of(show: Callable[[], Credentials], *mechanisms: LoginMechanism, rounds: int) -> float:
    """Return the CPU milliseconds of a login, its record included."""
    world = World()
    users = {"bob": User(principal=Principal(user="bob"), password_hash="", tokens=(TOKEN,))}
    authenticator = Authenticator(
        chain_of(lambda: users, *mechanisms),
        recorder=world.sessions.recorder,
        metrics=world.sessions.metrics,
    )
    shown = [show() for _ in range(rounds + 1)]
    await authenticator.login(shown.pop(), CLIENT)
    began = time.process_time()
    for one in shown:
        await authenticator.login(one, CLIENT)
    return 1e3 * (time.process_time() - began) / rounds


def add(record: Record, name: str, cost: Awaitable[float], most_ms: float) -> None:
    async def measure() -> float:
        return await cost

    record.begin(f"Logins: {name}")
    spent = asyncio.run(measure())
    record.add(
        SECTION,
        f"CPU of one, {name}",
        f"{spent:.2f} ms",
        aim=f"≤ {most_ms:g} ms",
        met=spent <= most_ms,
        cpu_ms=spent,
    )


def test_tokens(record: Record, quick: bool) -> None:
    rounds = 50 if quick else 1000
    add(record, "token of the user file", cpu_of(lambda: Bearer(SECRET), rounds=rounds), 1.0)
    issuer = IssuerLogins(Issuer().logins())
    add(record, "JSON Web Token (RS256)", cpu_of(lambda: Bearer(token()), issuer, rounds=rounds), 1.0)


def test_tickets(record: Record, quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gssapi", reason="the extra `kerberos` is not installed")
    from gateway.frontends.kerberos_logins import KerberosLogins
    from tests.e2e.logins.realms import REALM, Realms, begin

    rounds = 10 if quick else 200
    realms = Realms(tmp_path)
    for name, value in realms.environment.items():
        monkeypatch.setenv(name, value)
    realms.prepare()
    realms.start()
    try:
        users = {"bob": User(principal=Principal(user="bob"), password_hash="", tokens=(TOKEN,))}
        logins = KerberosLogins(realms.rules(), KnownUsers(lambda: users, None))
        credentials = realms.credentials(f"bob@{REALM}")

        def show() -> Negotiation:
            return Negotiation(begin(credentials, service="HTTP").step(), "HTTP")

        add(record, "ticket of Kerberos (SPNEGO)", cpu_of(show, logins, rounds=rounds), 5.0)
        logins.close()
    finally:
        realms.stop()


def test_many_at_once(record: Record, governed: Server, quick: bool) -> None:
    count = AT_ONCE // 10 if quick else AT_ONCE
    record.begin(f"Logins: {count} at once")
    with ExitStack() as stack, ThreadPoolExecutor(count) as pool:
        began = time.perf_counter()
        for client in pool.map(lambda _: RawClient(governed), range(count)):
            stack.enter_context(client)
        took = time.perf_counter() - began
    record.add(
        SECTION, f"{count} logins with sessions at once", f"none lost, {took:.1f} s", met=True, seconds=took
    )
