"""Logins at a real OpenLDAP, with entries as Active Directory has them among others. `make logins-test`."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from gateway.app.logins import try_login
from gateway.errors import AuthenticationFailed
from gateway.frontends import ldap_logins
from gateway.frontends.authentication import Authenticator
from gateway.frontends.identities import Identities
from gateway.frontends.ldap_logins import LdapLogins
from gateway.frontends.ldap_rules import LdapRefused, LdapRules, LdapUnavailable, LdapUnusable
from gateway.frontends.login_chain import LoginOutcome
from gateway.frontends.login_mechanisms import DirectoryLogins
from gateway.frontends.users import Users
from gateway.model.credentials import Password
from gateway.model.statement import Client
from gateway.settings.loading import parse_settings
from tests.app.certificate_files import make_pair
from tests.app.test_logins import PAGE
from tests.e2e.logins.directories import (
    BASE,
    DOMAIN,
    GROUPS,
    MANY,
    PEOPLE,
    SERVICE,
    SERVICE_PASSWORD,
    SLAPADD,
    SLAPD,
    OpenLdap,
    free_port,
)
from tests.frontends.listening import chain_of, user
from tests.session.fakes import World
from tests.speed import patience

pytestmark = pytest.mark.logins
TEMPLATE = f"uid={{user}},{PEOPLE}"
ACTIVE_DIRECTORY = {
    "user_base": DOMAIN,
    "user_filter": "(sAMAccountName={user})",
    "user_attribute": "sAMAccountName",
    "group_base": BASE,
}


class Logins:
    """Makes logins by rules that differ from a search at the shared directory."""

    def __init__(self, openldap: OpenLdap) -> None:
        self.openldap = openldap
        self.made: list[LdapLogins] = []

    def __call__(self, **differing: Any) -> LdapLogins:
        rules = {
            "urls": (self.openldap.tls_url,),
            "ca_file": self.openldap.ca_file,
            "bind_dn": SERVICE,
            "bind_password": lambda: SERVICE_PASSWORD,
            "user_base": PEOPLE,
            "group_base": GROUPS,
            "timeout_s": patience(),
            "retry_s": 0.0,
        }
        self.made.append(LdapLogins(LdapRules(**{**rules, **differing})))
        return self.made[-1]


@pytest.fixture
def logins(openldap: OpenLdap) -> Iterator[Logins]:
    found = Logins(openldap)
    yield found
    for one in found.made:
        one.close()


@pytest.mark.parametrize(
    ("differing", "groups"),
    [
        ({}, {"analysts", "unique", "unix"}),
        ({"groups": "nested"}, {"analysts", "unique", "unix", "staff", "company"}),
        ({"groups": "none"}, set()),
        ({"bind_templates": (f"cn={{user}},{GROUPS}", TEMPLATE)}, {"analysts", "unique", "unix"}),
        ({"bind_templates": (TEMPLATE,), "user_base": ""}, {"analysts", "unique", "unix"}),
    ],
    ids=str,
)
async def test_a_user_logs_in_with_groups_and_attributes(
    logins: Logins, differing: dict[str, Any], groups: set[str]
) -> None:
    one = logins(**differing, attributes={"department": "departmentNumber"})
    principal = await one.check("bob", "bob secret")
    assert (principal.user, set(principal.groups)) == ("bob", groups)
    if differing.get("user_base") != "":
        assert principal.attributes == (("department", "7"), ("department", "9"))
        assert len(principal.id) == 36
    assert one.report() is None


async def test_names_are_folded_or_stay_as_the_directory_has_them(logins: Logins) -> None:
    for spelled in ("ana", "ANA", "Ana"):
        assert (await logins().check(spelled, "ana secret")).user == "ana"
        assert (await logins(lower_case=False).check(spelled, "ana secret")).user == "Ana"


async def test_a_user_of_many_groups_has_them_all_and_one_of_too_many_does_not_log_in(
    logins: Logins, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len((await logins().check("many", "many secret")).groups) == MANY
    monkeypatch.setattr(ldap_logins, "MAX_GROUPS", MANY - 1)
    one = logins(retry_s=3600.0)
    with pytest.raises(LdapUnusable, match="more than"):
        await one.check("many", "many secret")
    # It is his trouble: the directory is there for everybody else.
    assert (await one.check("bob", "bob secret")).user == "bob"
    assert one.report() is None


async def test_who_may_not_read_his_own_entry_keeps_nobody_else_out(
    logins: Logins, openldap: OpenLdap
) -> None:
    one = logins(bind_templates=(f"cn={{user}},{BASE}", TEMPLATE), retry_s=3600.0)
    with pytest.raises(LdapUnusable, match="does not show"):
        await one.check("hidden", "hidden secret")
    assert (await one.check("bob", "bob secret")).user == "bob"
    assert one.report() is None


class _Addresses:
    """A connection where `user@corp.example` is somebody's address, as in Active Directory."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def simple_bind_s(self, name: str, password: str) -> Any:
        account = {"bob@corp.example": f"uid=Ana,{PEOPLE}", "ana@corp.example": f"uid=Ana,{PEOPLE}"}
        return self._connection.simple_bind_s(account.get(name, name), password)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


async def test_an_address_that_is_somebody_elses_name_is_not_his(logins: Logins) -> None:
    one = logins(bind_templates=("{user}@corp.example",))
    one._connect = lambda rules: _Addresses(ldap_logins.open_connection(rules))
    assert (await one.check("ana", "ana secret")).user == "ana"
    with pytest.raises(LdapRefused):
        await one.check("bob", "ana secret")


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ("search", {"domain users"}),
        ("nested", {"domain users"}),
        ("in_chain", {"domain users"}),  # OpenLDAP finds nobody by Active Directory's rule
        ("member_of", {"analysts", "fin, emea"}),
    ],
)
async def test_accounts_of_active_directory(logins: Logins, groups: str, expected: set[str]) -> None:
    principal = await logins(**ACTIVE_DIRECTORY, groups=groups).check("carol", "carol secret")
    assert (principal.user, set(principal.groups)) == ("carol", expected)


@pytest.mark.parametrize("way", ["search", "template"])
@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("bob", "wrong"),
        ("bob", ""),
        ("bob", "\0"),
        ("bob", "x" * 5000),
        ("", "bob secret"),
        (" bob", "bob secret"),
        ("bob\n", "bob secret"),
        ("b*", "bob secret"),
        ("*", "bob secret"),
        ("x)(uid=bob", "bob secret"),
        ("bob)(objectClass=*", "bob secret"),
        (f"bob,{PEOPLE}", "bob secret"),
        ("bob+cn=bob", "bob secret"),
        ("bob#", "bob secret"),
        ("nobody", "bob secret"),
        ("twin", "one"),
        ("x" * 300, "bob secret"),
    ],
)
async def test_nobody_else_is_let_in(logins: Logins, way: str, name: str, password: str) -> None:
    one = logins(bind_templates=(TEMPLATE,) if way == "template" else ())
    with pytest.raises(LdapRefused):
        await one.check(name, password)


async def test_signs_in_names_mean_themselves(logins: Logins) -> None:
    for templates in ((), (TEMPLATE,)):
        found = await logins(bind_templates=templates).check("odd*(name)", "odd secret")
        assert found.user == "odd*(name)"


async def test_what_is_no_account_is_not_written_into_an_address(logins: Logins) -> None:
    one = logins(bind_templates=("{user}@corp.example",))
    for name in ("bob@other.example", "bob@", "OTHER\\bob"):
        with pytest.raises(LdapRefused):
            await one.check(name, "bob secret")


def test_the_first_ten_minutes_of_the_page(tmp_path: Path) -> None:
    """Its directory, as it is written there, and its settings: somebody logs in as a member of a group."""
    part = PAGE[PAGE.index("## In ten minutes") : PAGE.index("## The user file")]
    blocks = [dedent(one) for one in re.findall(r"```\w*\n(.*?)```", part, re.S)]
    (configuration,) = [one for one in blocks if "rootpw" in one]
    (entries,) = [one for one in blocks if one.startswith("dn:")]
    (settings,) = [one for one in blocks if "logins:" in one]
    url = f"ldap://localhost:{free_port()}"
    given = parse_settings(settings.replace("ldap://localhost:3890", url), "gateway.yaml", tmp_path)
    for name, text in (
        ("slapd.conf", configuration),
        ("people.ldif", entries),
        ("ldap-password", "of-the-service"),
        ("users.yaml", "users: {}"),
    ):
        (tmp_path / name).write_text(text)
    (tmp_path / "people").mkdir()
    add = [SLAPADD, "-f", "slapd.conf", "-l", "people.ldif"]
    subprocess.run(add, cwd=tmp_path, check=True, capture_output=True)

    def outcome(password: str) -> LoginOutcome:
        return asyncio.run(try_login(given, "bob", password))[-1].outcome

    with subprocess.Popen([SLAPD, "-d", "0", "-f", "slapd.conf", "-h", url], cwd=tmp_path) as running:
        try:
            while "not available" in outcome("bob-demo").diagnosis:
                assert running.poll() is None
            found = outcome("bob-demo").principal
            assert found is not None
            assert (found.user, *found.groups) == ("bob", "analysts")
            assert outcome("x").principal is None
        finally:
            running.terminate()


class _Counted:
    """A connection of which is counted what it asks."""

    def __init__(self, connection: Any, asked: list[str]) -> None:
        self._connection = connection
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        self._asked.append(name)
        return getattr(self._connection, name)


@pytest.mark.parametrize("differing", [{}, {"bind_templates": (TEMPLATE,)}, ACTIVE_DIRECTORY], ids=str)
async def test_a_login_is_one_bind_and_at_most_three_searches(
    logins: Logins, differing: dict[str, Any]
) -> None:
    asked: list[str] = []
    one = logins(**differing)
    one._connect = lambda rules: _Counted(ldap_logins.open_connection(rules), asked)
    name = "carol" if "user_filter" in differing else "bob"
    await one.check(name, f"{name} secret")  # the service binds once
    asked.clear()
    await one.check(name, f"{name} secret")
    assert asked.count("simple_bind_s") == 1
    assert asked.count("search_ext") <= 3


# -- connections ---------------------------------------------------------------------------------------------


async def test_a_connection_is_encrypted_before_anything_is_said(logins: Logins, openldap: OpenLdap) -> None:
    assert (await logins(urls=(openldap.url,)).check("bob", "bob secret")).user == "bob"
    assert (await logins(urls=(openldap.url,), start_tls=False).check("bob", "bob secret")).user == "bob"


async def test_a_certificate_of_somebody_else_is_not_talked_to(
    logins: Logins, openldap: OpenLdap, tmp_path: Any
) -> None:
    make_pair(tmp_path)
    for url in (openldap.url, openldap.tls_url):
        one = logins(urls=(url,), ca_file=tmp_path / "c.pem")
        with pytest.raises(LdapUnavailable):
            await one.check("bob", "bob secret")
        assert "cannot be reached" in (one.report() or "")


async def test_the_next_server_is_asked_where_one_is_away(logins: Logins, openldap: OpenLdap) -> None:
    one = logins(urls=("ldaps://localhost:1", openldap.tls_url))
    assert (await one.check("bob", "bob secret")).user == "bob"


async def test_a_service_that_may_not_search_is_the_operators_trouble(logins: Logins) -> None:
    one = logins(bind_password=lambda: "wrong")
    with pytest.raises(LdapUnavailable, match="`bind_dn` is wrong"):
        await one.check("bob", "bob secret")


async def test_many_log_in_at_once(logins: Logins) -> None:
    one = logins()
    found = await asyncio.gather(*(one.check(name, f"{name} secret") for name in ["bob", "ana"] * 20))
    assert [principal.user for principal in found] == ["bob", "ana"] * 20


async def test_a_directory_that_comes_back_is_asked_again(logins: Logins, openldap: OpenLdap) -> None:
    one = logins()
    await one.check("bob", "bob secret")
    openldap.stop()
    try:
        with pytest.raises(LdapUnavailable):
            await one.check("bob", "bob secret")
        assert one.report() is not None
    finally:
        openldap.start()
    await one.check("bob", "bob secret")
    assert one.report() is None


# -- at the endpoints ----------------------------------------------------------------------------------------


class Endpoint:
    """An authenticator with a user of a file, beside a directory."""

    def __init__(self, directory: LdapLogins) -> None:
        self.world = World()
        self.users = {"ana": user("ana", "of the file")}

        def users() -> Users:
            return self.users

        self.identities = Identities(dict)
        self.authenticator = Authenticator(
            chain_of(users, DirectoryLogins(users, directory)),
            recorder=self.world.sessions.recorder,
            metrics=self.world.sessions.metrics,
            identities=self.identities,
        )

    async def verdict(self, name: str, password: str) -> str:
        client = Client(protocol="thrift", address="192.0.2.1")
        try:
            return (await self.authenticator.login(Password(name, password), client)).user
        except AuthenticationFailed as fault:
            return fault.message


async def test_the_directory_lets_in_who_is_not_in_the_file(logins: Logins) -> None:
    endpoint = Endpoint(logins())
    assert await endpoint.verdict("bob", "bob secret") == "bob"
    assert endpoint.identities.principals["bob"].groups == {"analysts", "unique", "unix"}
    assert await endpoint.verdict("ana", "of the file") == "ana"
    for spelled in ("ana", "Ana"):
        assert await endpoint.verdict(spelled, "ana secret") == "invalid user name or password"
    assert "ana" not in endpoint.identities.principals


async def test_guessing_is_blocked_and_a_directory_that_is_away_blocks_nobody(
    logins: Logins, openldap: OpenLdap
) -> None:
    endpoint = Endpoint(logins(urls=("ldaps://localhost:1",)))
    for _ in range(20):
        assert "is not available" in await endpoint.verdict("bob", "bob secret")
    endpoint = Endpoint(logins())
    for _ in range(10):
        assert await endpoint.verdict("bob", "wrong") == "invalid user name or password"
    assert "too many failed logins" in await endpoint.verdict("bob", "bob secret")
