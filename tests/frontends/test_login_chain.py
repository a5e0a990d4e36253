"""The chain of ways to log in: who is asked for what, and who decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.errors import AuthenticationFailed
from gateway.frontends.authentication import Authenticator
from gateway.frontends.guessing import FailedLogins, LoginLimits
from gateway.frontends.ldap_rules import LdapRefused, LdapRules, LdapUnavailable, LdapUnknown
from gateway.frontends.login_chain import LoginChain, LoginMechanism
from gateway.frontends.login_mechanisms import DirectoryLogins, PasswordLogins, TokenLogins
from gateway.frontends.tokens import new_token
from gateway.frontends.users import User, Users
from gateway.model.credentials import Bearer, Credentials, Password
from gateway.model.principal import Principal
from gateway.model.statement import Client
from tests.frontends.listening import user
from tests.session.fakes import World

SECRET, TOKEN = new_token()
OTHER, _ = new_token()
JWT = "eyJ.eyJ.x"


class Directory:
    """Lets in anybody by the password `ldap`, whatever the spelling."""

    def __init__(self) -> None:
        self.rules = LdapRules(urls=())
        self.asked: list[str] = []
        self.is_away = False

    async def check(self, user: str, password: str) -> Principal:
        self.asked.append(password)
        if self.is_away:
            raise LdapUnavailable("no answer")
        if password != "ldap":
            raise LdapRefused
        return Principal(user=user.lower())

    async def find(self, user: str) -> Principal:
        if user.lower() not in ("eva", "bob"):
            raise LdapUnknown
        return Principal(user=user.lower())

    def report(self) -> str | None:
        return None

    def close(self) -> None: ...


class Chained:
    """A chain in an order, with a user file and a directory."""

    def __init__(self, order: str, limits: LoginLimits | None = None) -> None:
        bob = user("bob", "secret")
        self.users = {"bob": User(principal=bob.principal, password_hash=bob.password_hash, tokens=(TOKEN,))}
        self.directory = Directory()

        def users() -> Users:
            return self.users

        made: dict[str, Callable[[], LoginMechanism]] = {
            "tokens": lambda: TokenLogins(users),
            "users": lambda: PasswordLogins(users, alone="ldap" not in order),
            "ldap": lambda: DirectoryLogins(users, self.directory),
        }
        self.chain = LoginChain(users, [made[one]() for one in order.split()])
        self.guesses = FailedLogins(limits)

    def endpoint(self) -> Authenticator:
        world = World()
        recorder, metrics = world.sessions.recorder, world.sessions.metrics
        return Authenticator(self.chain, recorder=recorder, metrics=metrics, guesses=self.guesses)

    async def login(self, shown: Credentials, address: str = "192.0.2.1", protocol: str = "thrift") -> str:
        try:
            client = Client(protocol=protocol, address=address)
            return (await self.endpoint().login(shown, client)).user
        except AuthenticationFailed as refused:
            return refused.message


@pytest.mark.parametrize("order", ["tokens users ldap", "ldap users tokens", "ldap tokens users"])
async def test_in_any_order_a_name_of_the_file_is_nobody_elses_and_a_secret_is_shown_to_its_kind_alone(
    order: str,
) -> None:
    one = Chained(order)
    assert await one.login(Password("bob", "secret")) == "bob"
    assert await one.login(Password("bob", SECRET)) == "bob"
    assert await one.login(Bearer(SECRET)) == "bob"
    assert "unknown or was revoked" in await one.login(Password("bob", OTHER))
    assert "unknown or was revoked" in await one.login(Password("eva", SECRET))
    assert await one.login(Password("bob", "ldap")) == "invalid user name or password"
    for secret in (JWT, "ewogICJhIjoxfQ.e30.x", "eyJlbmMiOiJBIn0.k.i.c.t"):
        assert "unknown or was revoked" in await one.login(Password("eva", secret))
    assert one.directory.asked == []
    assert await one.login(Password("Eva", "ldap")) == "eva"
    assert await one.login(Password("Bob", "ldap")) == "invalid user name or password"
    assert await one.login(Password("eva", "")) == "invalid user name or password"


async def test_what_is_left_out_lets_nobody_in() -> None:
    for order, shown in (
        ("tokens", Password("bob", "secret")),
        ("users", Bearer(SECRET)),
        ("users", Password("bob", SECRET)),
        ("tokens users", Password("eva", "ldap")),
        ("ldap", Password("bob", "ldap")),
    ):
        assert await Chained(order).login(shown) not in ("bob", "eva"), (order, shown)


async def test_failures_at_one_endpoint_count_at_all_others() -> None:
    one = Chained("tokens users", LoginLimits(failures=4))
    for shown in (Password("bob", "x"), Bearer(OTHER), Password("nobody", "x"), Bearer(JWT)):
        assert "too many" not in await one.login(shown)
    assert "too many failed logins" in await one.login(Password("bob", "secret"))
    assert await one.login(Bearer(SECRET)) == "bob"


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        (Password("bob", "secret"), ["not a token", "accepts the password", "another one has decided"]),
        (Password("bob", "x"), ["not a token", "rejects the password", "another one has decided"]),
        (Password("eva", "ldap"), ["not a token", "does not know", "accepts"]),
        (Password("eva", "x"), ["not a token", "does not know", "no such user"]),
        (Password("bob", SECRET), [f"accepts token {TOKEN.id}", "not a password", "not a password"]),
        (Password("eva", SECRET), [f"token {TOKEN.id} is `bob`'s", "not a password", "not a password"]),
    ],
)
async def test_each_mechanism_says_what_it_makes_of_a_login(shown: Credentials, told: list[str]) -> None:
    _, trials = await Chained("tokens users ldap").chain.decide(shown)
    found: list[Any] = [trial.outcome.diagnosis for trial in trials]
    assert all(words in one for words, one in zip(told, found, strict=True)), found


async def test_guesses_of_many_addresses_lock_their_user_but_not_where_he_logs_in_from() -> None:
    one = Chained("tokens users", LoginLimits(failures=99, user_failures=3))
    assert await one.login(Password("bob", "secret")) == "bob"
    one.chain.remembered._known.clear()
    for number in range(3):
        spelled = ("BOB", "\uff22ob", "bo\uff42")[number]
        assert "invalid" in await one.login(Password(spelled, "x"), f"198.51.100.{number}")
    assert "too many failed logins of this user" in await one.login(Password("bob", "secret"), "198.51.100.9")
    assert await one.login(Bearer(SECRET), "198.51.100.9") == "bob"
    assert await one.login(Password("bob", "secret")) == "bob"


async def test_a_network_of_ipv6_is_one_address() -> None:
    one = Chained("tokens users", LoginLimits(failures=3))
    for number in range(3):
        assert "invalid" in await one.login(Password("bob", "x"), f"2001:db8::{number}")
    assert "too many" in await one.login(Password("bob", "secret"), "2001:db8::ffff")
    assert await one.login(Password("bob", "secret"), "2001:db8:0:1::1") == "bob"


async def test_a_directory_that_is_away_lets_in_to_what_is_open_and_to_nothing_else() -> None:
    """Who logs in with each call goes on for a while; REST has nothing that is open."""
    one = Chained("tokens users ldap")
    one.chain.remembered._grace_s = 3600
    one.chain.mechanisms[2].remember_s = 0.0  # type: ignore[misc]
    assert await one.login(Password("eva", "ldap")) == "eva"
    one.directory.is_away = True
    assert await one.login(Password("eva", "ldap")) == "eva"
    for shown, protocol in ((Password("eva", "other"), "thrift"), (Password("eva", "ldap"), "ranger-rest")):
        assert "directory is not available" in await one.login(shown, protocol=protocol)
    # A guess at what counts meanwhile is a guess; others cannot be told from right ones.
    for name, told in (("nobody", "directory is not available"), ("eva", "too many failed logins")):
        for number in range(10):
            await one.login(Password(name, f"guess {number}"), "192.0.2.7")
        assert told in await one.login(Password(name, "ldap"), "192.0.2.7")
    one.chain.remembered._grace_s = 0
    assert "directory is not available" in await one.login(Password("eva", "ldap"))
