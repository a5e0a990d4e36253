"""The ways to log in that settings make, with the configurations of docs/logins.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.app.logins import jwt_rules, make_impersonation, make_logins
from gateway.errors import Faults
from gateway.frontends.users import Users
from gateway.model.credentials import ClientCertificate, Password
from gateway.settings.loading import parse_settings
from gateway.settings.logins import JwtSettings
from gateway.settings.models import Settings
from tests.frontends.listening import user
from tests.frontends.test_certificate_logins import der

PAGE = (Path(__file__).parents[2] / "docs" / "logins.md").read_text("utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
USERS: Users = {"bob": user("bob", "secret", "analysts"), "hue": user("hue", "server")}


def documented(words: str, directory: Path) -> Settings:
    """Return the settings of the page's block that has some words."""
    (block,) = [block for block in BLOCKS if words in block]
    for name in ("ldap-password", "gateway.keytab", "clients-ca.pem", "server.pem", "server.key"):
        (directory / name).write_text("x")
    return parse_settings(block, "gateway.yaml", directory)


@pytest.mark.parametrize("block", BLOCKS)
def test_every_configuration_of_the_page_is_one(block: str, tmp_path: Path) -> None:
    parse_settings(block, "gateway.yaml", tmp_path)


async def test_the_order_says_which_ways_there_are(tmp_path: Path) -> None:
    logins = make_logins(documented("order: [users, tokens]", tmp_path), lambda: USERS)
    found = [one.description.partition(" /")[0] for one in logins.chain.mechanisms]
    assert found == ["the user file", "tokens of the user file"]
    assert (await logins.chain.decide(Password("bob", "secret")))[0].principal is not None
    logins.chain.close()


async def test_certificates_are_mapped_as_the_page_has_it(tmp_path: Path) -> None:
    logins = make_logins(documented("part: common_name", tmp_path), lambda: USERS)
    outcome, _ = await logins.chain.decide(ClientCertificate(der("bob")))
    assert outcome.principal == USERS["bob"].principal
    assert (await logins.chain.decide(ClientCertificate(der("eve"))))[0].principal is None
    logins.chain.close()


async def test_a_server_acts_as_others_as_the_page_has_it(tmp_path: Path) -> None:
    settings = documented("impersonation:", tmp_path)
    logins = make_logins(settings, lambda: USERS)
    found = make_impersonation(settings, logins.known)
    assert found is not None
    hue = USERS["hue"].principal
    assert (await found.find(hue, "10.0.0.7", "bob")).principal == USERS["bob"].principal
    assert (await found.find(hue, "192.0.2.1", "bob")).principal is None
    assert (await found.find(hue, "10.0.0.7", "hue")).principal is None
    logins.chain.close()


@pytest.mark.parametrize(
    ("logins", "why"),
    [
        ("{order: [users, users]}", "names a way twice"),
        ("{order: [users, ldap]}", "which has no section"),
        ("{order: [users], jwt: {issuer: 'https://i.example', audiences: [a]}}", "is not in `order`"),
        ("{order: []}", "order"),
        ("{impersonation: [{users: [hue]}]}", "as whom"),
        ("{certificates: {rules: []}}", "rules"),
    ],
)
def test_ways_that_make_no_sense_are_faults(logins: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(Faults, match=why):
        parse_settings(f"logins: {logins}", "gateway.yaml", tmp_path)


def test_a_rule_that_cannot_be_used_is_a_fault_at_the_start(tmp_path: Path) -> None:
    settings = parse_settings(
        "logins: {certificates: {rules: [{part: uri, fits: '('}]}}", "gateway.yaml", tmp_path
    )
    with pytest.raises(Faults, match=r"logins\.certificates\.rules"):
        make_logins(settings, lambda: USERS)


def test_only_of_a_gateway_a_token_says_through_which_gateway_somebody_comes() -> None:
    claims = {"sluice_gateway": "any", "region": "r"}
    told = {"issuer": "https://id.example", "audiences": ("sluice",), "attribute_claims": claims}
    assert jwt_rules(JwtSettings(**told)).attribute_claims == {"region": ("r",)}  # type: ignore[arg-type]
    of_gateway = jwt_rules(JwtSettings(**told, gateway=True)).attribute_claims  # type: ignore[arg-type]
    assert of_gateway == {"region": ("r",), "sluice_gateway": ("sluice_gateway",)}
