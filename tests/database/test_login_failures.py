"""Failed logins that several gateways count together: in PostgreSQL, or each alone while it is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import asyncpg
import pytest

from gateway.database.login_failures import CountedFailures, LoginFailures
from gateway.errors import AuthenticationFailed
from gateway.frontends.authentication import Authenticator
from gateway.frontends.guessing import FailedLogins, LoginLimits
from gateway.frontends.users import User
from gateway.model.credentials import Password, UnreadableLogin
from gateway.model.statement import Client
from tests.frontends.listening import chain_of, user
from tests.session.fakes import World

LIMITS = LoginLimits(failures=4, user_failures=6, window_s=60)
HERE = Client(protocol="thrift", address="192.0.2.1")


class GatewayLogins:
    """The logins of one gateway of several."""

    def __init__(self, dsn: str, limits: LoginLimits = LIMITS) -> None:
        self.users: dict[str, User] = {"bob": user("bob", "secret"), "eva": user("eva", "other")}
        self.failures = LoginFailures(dsn)
        self.guesses = FailedLogins(limits, shared=self.failures)
        self.world = World()
        self.authenticator = Authenticator(
            chain_of(lambda: self.users, remember_s=0),
            recorder=self.world.sessions.recorder,
            metrics=self.world.sessions.metrics,
            guesses=self.guesses,
        )

    async def log_in(self, name: str, password: str, client: Client = HERE) -> str:
        try:
            return (await self.authenticator.login(Password(name, password), client)).user
        except AuthenticationFailed as refused:
            return refused.message


@pytest.fixture
async def gateways(dsn: str) -> AsyncIterator[tuple[GatewayLogins, GatewayLogins]]:
    made = GatewayLogins(dsn), GatewayLogins(dsn)
    yield made
    for one in made:
        one.failures.close()


def at(number: int) -> Client:
    return replace(HERE, address=f"198.51.100.{number}")


async def test_failures_at_one_gateway_count_at_the_other(
    gateways: tuple[GatewayLogins, GatewayLogins], dsn: str
) -> None:
    one, other = gateways
    for gateway in (one, other, one, other):
        assert await gateway.log_in("bob", "wrong") == "invalid user name or password"
    for gateway in gateways:
        assert "too many failed logins from this address" in await gateway.log_in("eva", "other")
        assert await gateway.log_in("eva", "other", at(1)) == "eva"
    connection = await asyncpg.connect(dsn)
    kept = str(await connection.fetch("SELECT * FROM sluice.login_failure"))
    await connection.close()
    assert not any(word in kept for word in ("bob", "wrong", HERE.address))


async def test_logins_that_cannot_be_read_at_one_gateway_count_at_the_other(
    gateways: tuple[GatewayLogins, GatewayLogins],
) -> None:
    one, other = gateways
    await one.authenticator.record_bad_certificate("connect", HERE.address, "expired")
    for _ in range(LIMITS.failures - 1):
        with pytest.raises(AuthenticationFailed):
            await one.authenticator.login(UnreadableLogin("no login"), HERE)
    await one.guesses.count_elsewhere([], is_guess=False).wait()
    assert "too many failed logins from this address" in await other.log_in("bob", "secret")


async def test_a_user_is_locked_everywhere_but_where_he_has_logged_in_from(
    gateways: tuple[GatewayLogins, GatewayLogins],
) -> None:
    one, _ = gateways
    assert await one.log_in("bob", "secret", at(99)) == "bob"
    for number in range(6):
        gateway = gateways[number % 2]
        assert await gateway.log_in("bob", "wrong", at(number)) == "invalid user name or password"
    for gateway in gateways:
        assert "too many failed logins of this user" in await gateway.log_in("bob", "secret", at(7))
    assert await one.log_in("eva", "other", at(7)) == "eva"
    # Whoever knows a name must not lock its owner out.
    assert await one.log_in("bob", "secret", at(99)) == "bob"


async def test_a_login_clears_what_was_counted_of_it(gateways: tuple[GatewayLogins, GatewayLogins]) -> None:
    one, other = gateways
    for _ in range(3):
        await one.log_in("bob", "wrong")
        await other.log_in("bob", "wrong")
        assert await other.log_in("bob", "secret") == "bob"


async def test_guesses_of_many_addresses_at_once_are_no_more_than_one_after_the_other(dsn: str) -> None:
    gateway = GatewayLogins(dsn)
    told = await asyncio.gather(*(gateway.log_in("bob", "wrong", at(number)) for number in range(30)))
    assert sum("invalid" in one for one in told) == LIMITS.user_failures
    gateway.failures.close()


async def test_each_block_is_longer_than_the_last(dsn: str) -> None:
    failures = LoginFailures(dsn)
    lasts = []
    for _ in range(5):
        counted: Mapping[str, CountedFailures] = {}
        for _ in range(3):
            counted = await failures.count({"address x": 1}, replace(LIMITS, failures=3, longest_block_s=240))
        lasts.append(round(counted["address x"].blocked_s))
    assert lasts == [60, 120, 240, 240, 240]
    many = {"address many": 7, "address few": 2}
    for blocks, lasts_s in ((1, 60), (2, 120)):
        counted = await failures.count(many, replace(LIMITS, failures=5))
        assert (counted["address many"].blocks, round(counted["address many"].blocked_s)) == (blocks, lasts_s)
        assert counted["address few"].blocks == 0
    assert (await failures.find(["address x", "address y"])).keys() == {"address x"}
    failures.close()


async def test_each_gateway_counts_alone_while_postgresql_is_away() -> None:
    gateway = GatewayLogins("postgresql://localhost:1/none")
    for _ in range(4):
        assert await gateway.log_in("bob", "wrong") == "invalid user name or password"
    assert "too many failed logins" in await gateway.log_in("bob", "secret")
    assert await gateway.log_in("bob", "secret", at(1)) == "bob"


async def test_a_network_of_ipv6_counts_as_one_address(dsn: str) -> None:
    gateway = GatewayLogins("postgresql://localhost:1/none")
    for number in range(4):
        await gateway.log_in("bob", "wrong", replace(HERE, address=f"2001:db8::{number}"))
    for address, is_blocked in (("2001:db8::ffff", True), ("2001:db8:0:1::1", False), ("192.0.2.1", False)):
        told = await gateway.log_in("eva", "other", replace(HERE, address=address))
        assert ("too many" in told) is is_blocked, address
