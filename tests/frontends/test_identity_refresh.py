"""Who is logged in while a session lives: groups that change, users who may not log in any more, a directory
that is away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gateway.errors import AuthenticationFailed, InvalidHandle
from gateway.frontends.identities import Identities
from gateway.frontends.identity_refresh import IdentityBounds, IdentityRefresh
from gateway.frontends.impersonation import Impersonation, ImpersonationRule
from gateway.frontends.known_users import KnownUsers
from gateway.frontends.ldap_rules import LdapRefused, LdapRules, LdapUnavailable, LdapUnknown
from gateway.frontends.tokens import Token, new_token
from gateway.frontends.user_file import NOBODY
from gateway.frontends.users import User
from gateway.model.catalog import TableName
from gateway.model.principal import Principal
from gateway.model.statement import Client, CreateTempView
from gateway.session.identifiers import Handle
from gateway.session.open_sessions import OpenSessions
from tests.session.fakes import World

CLIENT = Client(protocol="thrift", address="192.0.2.7")
EVA = Principal(user="eva", groups=frozenset({"analysts"}), id="e-1")
BOUNDS = IdentityBounds(refresh_s=300, grace_s=3600, unconfirmed_s=86_400)
_, TOKEN = new_token(purpose="billing")


class People:
    """A directory that can be away, and whose entries change."""

    def __init__(self) -> None:
        self.rules = LdapRules(urls=(), remember_s=60)
        self.entries: dict[str, Principal | None] = {"eva": EVA}
        self.is_away = False

    async def find(self, user: str) -> Principal:
        if self.is_away:
            raise LdapUnavailable("no answer")
        if user not in self.entries:
            raise LdapUnknown
        if (found := self.entries[user]) is None:
            raise LdapRefused
        return found

    async def check(self, user: str, password: str) -> Principal:
        return await self.find(user)

    def report(self) -> str | None:
        return "no answer" if self.is_away else None

    def close(self) -> None: ...


class Gateway:
    """Sessions over fakes, whose users are looked at again."""

    def __init__(self, *rules: ImpersonationRule, bounds: IdentityBounds = BOUNDS) -> None:
        self.now = 0.0
        self.day = datetime(2026, 1, 1, tzinfo=UTC)
        self.users: dict[str, User] = {}
        self.people = People()
        open_sessions = OpenSessions()

        def in_file() -> Mapping[str, Principal]:
            return {name: one.principal for name, one in self.users.items()}

        self.identities = Identities(in_file, clock=lambda: self.now)
        self.known = KnownUsers(lambda: self.users, self.people, grace_s=3600, clock=lambda: self.now)
        self.refresh = IdentityRefresh(
            lambda: self.users,
            self.identities,
            self.known,
            open_sessions,
            directory=self.people,
            impersonation=Impersonation(rules, self.known) if rules else None,
            bounds=bounds,
            clock=lambda: self.now,
            now=lambda: self.day,
        )
        self.world = World(identity=self.refresh)
        self.world.judge.marks_groups = True
        open_sessions.add(self.world.sessions)

    def put(self, name: str, *groups: str, tokens: tuple[Token, ...] = (), id_: str = "f-1") -> Principal:
        principal = Principal(user=name, groups=frozenset(groups), id=id_)
        self.users[name] = User(principal=principal, password_hash="", tokens=tokens)
        return principal

    async def open(self, principal: Principal = EVA, client: Client = CLIENT) -> Handle:
        return await self.world.sessions.open_session(principal, client, protocol_version=9)

    async def run(self, handle: Handle, text: str = "SELECT 1", principal: Principal = EVA) -> list[str]:
        await self.world.sessions.execute(principal, handle, text, run_async=False)
        return sorted(self.world.judge.judged[-1].principal.groups)

    @property
    def reasons(self) -> list[str]:
        return [one.body["reason"] for one in self.world.ledger.of("session_ended")]


def log_in(gateway: Gateway, principal: Principal = EVA) -> None:
    gateway.identities.note(principal, "directory")


async def test_groups_of_the_directory_change_in_open_sessions() -> None:
    gateway = Gateway()
    log_in(gateway)
    handle = await gateway.open()
    assert await gateway.run(handle) == ["analysts"]
    gateway.people.entries["eva"] = replace(EVA, groups=frozenset({"auditors"}))
    await gateway.refresh.refresh()
    assert await gateway.run(handle) == ["auditors"]
    # A connection that has been logged in since then opens none with the groups of then.
    assert await gateway.run(await gateway.open()) == ["auditors"]
    assert gateway.identities.principals["eva"].groups == {"auditors"}


async def test_groups_of_the_user_file_change_in_open_sessions() -> None:
    gateway = Gateway()
    bob = gateway.put("bob", "analysts")
    handle = await gateway.open(bob)
    gateway.put("bob", "auditors")
    await gateway.refresh.follow_file()
    assert await gateway.run(handle, principal=bob) == ["auditors"]


async def test_what_a_session_made_under_other_groups_is_judged_again() -> None:
    """A temporary view that would be masked otherwise is made again, and one that is refused now ends."""
    gateway = Gateway()
    judge = gateway.world.judge
    judge.effects = [("^CREATE TEMP VIEW v", (CreateTempView("v"),))]
    judge.reads = {"SELECT * FROM v": frozenset({"v"})}
    judge.names = [("^CREATE TEMP VIEW", frozenset({TableName("spark_catalog", "default", "t")}))]
    log_in(gateway)
    handle = await gateway.open()
    await gateway.run(handle, "CREATE TEMP VIEW v AS SELECT * FROM t")
    gateway.people.entries["eva"] = replace(EVA, groups=frozenset())
    await gateway.refresh.refresh()
    await gateway.run(handle, "SELECT * FROM v")
    assert [text for text in gateway.world.backend.received if "analysts" not in text] == [
        "DROP VIEW IF EXISTS `v` /* [] */",
        "CREATE TEMP VIEW v AS SELECT * FROM t /* [] */",
        "SELECT * FROM v /* [] */",
    ]


@pytest.mark.parametrize("entry", [None, "gone", replace(EVA, id="e-2")], ids=["disabled", "gone", "another"])
async def test_sessions_end_of_who_may_not_log_in_any_more(entry: Principal | str | None) -> None:
    gateway = Gateway()
    log_in(gateway)
    handle = await gateway.open()
    if isinstance(entry, str):
        del gateway.people.entries["eva"]
    else:
        gateway.people.entries["eva"] = entry
    await gateway.refresh.refresh()
    with pytest.raises(InvalidHandle):
        await gateway.run(handle)
    assert gateway.reasons == ["the user was removed"]
    assert "eva" not in gateway.identities.principals


async def test_while_the_directory_is_away_open_sessions_go_on_for_a_while_and_nobody_opens_one() -> None:
    gateway = Gateway()
    bob = gateway.put("bob", "analysts")
    jwt = Principal(user="jo", id="sub")
    gateway.identities.note(jwt, "claims")
    log_in(gateway)
    handle = await gateway.open()
    gateway.people.is_away = True
    with pytest.raises(AuthenticationFailed, match="the LDAP directory is not available"):
        await gateway.open()
    assert gateway.world.ledger.of("security")[0].body["action"] == "session_refused"
    await gateway.open(bob)
    await gateway.open(jwt)
    gateway.now = 3600
    await gateway.refresh.refresh()
    assert await gateway.run(handle) == ["analysts"]
    gateway.now = 3601
    await gateway.refresh.refresh()
    with pytest.raises(InvalidHandle):
        await gateway.run(handle)
    assert gateway.reasons == ["nobody has confirmed for too long that the user may log in"]
    assert len(gateway.world.sessions) == 2


async def test_what_the_directory_says_meanwhile_begins_the_grace_anew() -> None:
    gateway = Gateway()
    log_in(gateway)
    handle = await gateway.open()
    gateway.now = 3000
    await gateway.refresh.refresh()
    gateway.people.is_away = True
    gateway.now = 6600
    await gateway.refresh.refresh()
    assert await gateway.run(handle) == ["analysts"]


async def test_sessions_of_an_issuers_users_end_when_nobody_logs_in_for_long() -> None:
    gateway = Gateway()
    jo = Principal(user="jo", id="sub", groups=frozenset({"analysts"}))
    gateway.identities.note(jo, "claims")
    handle = await gateway.open(jo)
    gateway.now = 86_400
    await gateway.refresh.refresh()
    # The claims of his last login count for the session.
    fresh = replace(jo, groups=frozenset({"auditors"}))
    gateway.identities.note(fresh, "claims")
    assert await gateway.run(handle, principal=fresh) == ["auditors"]
    gateway.now = 2 * 86_400 + 1
    await gateway.refresh.refresh()
    assert gateway.reasons == ["nobody has confirmed for too long that the user may log in"]


async def test_a_session_ends_with_the_token_that_opened_it() -> None:
    gateway = Gateway()
    late = replace(TOKEN, id="0" * 8, expires=datetime(2026, 1, 2, tzinfo=UTC))
    bob = gateway.put("bob", tokens=(TOKEN, late))
    by_password = await gateway.open(bob)
    for one in (TOKEN, late):
        await gateway.open(bob, replace(CLIENT, token=one.id))
    gateway.put("bob", tokens=(late,))
    await gateway.refresh.follow_file()
    assert gateway.reasons == ["the token was revoked or has expired"]
    gateway.day = datetime(2026, 1, 2, tzinfo=UTC)
    await gateway.refresh.refresh()
    assert len(gateway.reasons) == 2
    assert await gateway.run(by_password, principal=bob) == []
    with pytest.raises(AuthenticationFailed, match="the token was revoked"):
        await gateway.open(bob, replace(CLIENT, token=late.id))


async def test_a_sessions_purpose_is_the_tokens_whatever_the_file_says_of_its_user() -> None:
    gateway = Gateway()
    bob = gateway.put("bob", "analysts", tokens=(TOKEN,))
    client = replace(CLIENT, token=TOKEN.id)
    handle = await gateway.open(TOKEN.confine(bob), client)
    gateway.put("bob", "auditors", tokens=(TOKEN,))
    await gateway.refresh.follow_file()
    await gateway.run(handle, principal=bob)
    assert gateway.world.judge.judged[-1].principal.values("purpose") == ("billing",)


async def test_acting_as_a_user_ends_with_the_rule_and_with_either_of_both() -> None:
    gateway = Gateway()
    rule = ImpersonationRule(users=frozenset({"hue"}), as_groups=frozenset({"analysts"}))
    for change in ("groups", "user", "login"):
        gateway = Gateway(rule)
        hue = Principal(user="hue", id="h-1")
        gateway.people.entries["hue"] = hue
        log_in(gateway, hue)
        log_in(gateway)
        await gateway.open(EVA, replace(CLIENT, real_user="hue"))
        await gateway.refresh.refresh()
        assert gateway.reasons == []
        if change == "groups":
            gateway.people.entries["eva"] = replace(EVA, groups=frozenset())
        else:
            gateway.people.entries["eva" if change == "user" else "hue"] = None
        await gateway.refresh.refresh()
        assert len(gateway.reasons) == 1, change


async def test_a_name_that_the_file_has_got_since_is_its_own() -> None:
    gateway = Gateway()
    log_in(gateway)
    await gateway.open()
    gateway.put("eva")
    await gateway.refresh.follow_file()
    assert gateway.reasons == ["the user was removed"]
    with pytest.raises(AuthenticationFailed, match="log in again"):
        await gateway.open()


async def test_somebody_else_of_the_same_name_has_no_session_of_the_first() -> None:
    gateway = Gateway()
    log_in(gateway)
    handle = await gateway.open()
    other = Principal(user="eva", id="sub")
    with pytest.raises(InvalidHandle):
        await gateway.run(handle, principal=other)
    (event,) = gateway.world.ledger.of("security")
    assert event.body["action"] == "foreign_handle"
    # Nor one that the first has opened as somebody else.
    handle = await gateway.open(EVA, replace(CLIENT, real_user="hue", real_id="h-1"))
    await gateway.run(handle, principal=Principal(user="hue", id="h-1"))
    with pytest.raises(InvalidHandle):
        await gateway.run(handle, principal=Principal(user="hue", id="sub"))


# -- who is known by name alone ------------------------------------------------------------------------------


async def test_a_disabled_account_is_nobody_even_where_unlisted_users_may_log_in() -> None:
    gateway = Gateway()
    assert (await gateway.known.find("nobody", unlisted=True)).principal == Principal(user="nobody")
    gateway.people.entries["eva"] = None
    assert (await gateway.known.find("eva", unlisted=True)).principal is None


async def test_who_was_known_a_while_ago_is_known_while_the_directory_is_away() -> None:
    gateway = Gateway()
    assert (await gateway.known.find("eva")).principal == EVA
    gateway.people.is_away, gateway.now = True, 3599.0
    assert (await gateway.known.find("eva")).principal == EVA
    assert (await gateway.known.find("ana")).is_away
    gateway.now = 3601.0
    assert (await gateway.known.find("eva")).is_away


# -- the user file -------------------------------------------------------------------------------------------


async def test_while_the_user_file_cannot_be_read_nothing_ends() -> None:
    """Nobody knows then whose names and tokens are the file's: the directory has none of them."""
    gateway = Gateway()
    bob = gateway.put("bob", "analysts", tokens=(TOKEN,))
    await gateway.open(bob, replace(CLIENT, token=TOKEN.id))
    in_force, gateway.users = gateway.users, NOBODY  # type: ignore[assignment]
    await gateway.refresh.follow_file()
    await gateway.refresh.refresh()
    assert gateway.reasons == []
    gateway.users = in_force
    await gateway.refresh.refresh()
    assert gateway.reasons == []


async def test_who_was_removed_from_the_file_is_not_known_any_more() -> None:
    gateway = Gateway()
    bob = gateway.put("bob", "analysts")
    await gateway.open(bob)
    del gateway.users["bob"]
    await gateway.refresh.refresh()
    assert "bob" not in gateway.identities.principals
    assert gateway.reasons == ["the user was removed"]
