"""Tokens by which a gateway says who its users are, checked as other gateways check them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from gateway.backends.token_signing import READ_AGAIN_S, TokenSigner, parse_signing_key
from gateway.errors import AuthenticationFailed, Faults
from gateway.frontends.jwt_logins import JwtLogins, JwtRules, TokenRefused
from gateway.model.principal import Principal

BOB = Principal(user="bob", groups=frozenset({"sales", "all"}))
ISSUER = "https://sluice.example"


def pem(key: Any) -> str:
    form = serialization.PrivateFormat.PKCS8
    written: bytes = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return written.decode()


def new_key() -> str:
    return pem(ec.generate_private_key(ec.SECP256R1()))


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def made(keys: Sequence[str], clock: Clock | None = None) -> TokenSigner:
    """Return a signer whose keys are those of a list, which may change."""
    return TokenSigner(ISSUER, lambda: list(keys), lifetime_s=300, clock=clock or Clock())


def claims(token: str) -> dict[str, Any]:
    found: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return found


async def who(signer: TokenSigner, token: str, audience: str = "spark") -> Principal:
    """Return who a gateway takes the bearer for that checks tokens by the published keys alone."""
    rules = JwtRules(
        issuer=ISSUER, audiences=(audience,), jwks_url="/", algorithms=("ES256", "RS256", "EdDSA")
    )

    async def fetch(_url: str) -> Any:
        return signer.list_public_keys()

    return await JwtLogins(rules, fetch=fetch).check(token)


@pytest.mark.parametrize(
    "key",
    [
        ec.generate_private_key(ec.SECP256R1()),
        ed25519.Ed25519PrivateKey.generate(),
        rsa.generate_private_key(65537, 2048),
    ],
    ids=["ec", "ed25519", "rsa"],
)
async def test_another_sluice_takes_its_tokens_for_its_audience_alone(key: Any) -> None:
    import time

    signer = TokenSigner(ISSUER, lambda: [pem(key)], clock=time.time)
    token = signer.sign(BOB, "spark", BOB.groups)
    found = await who(signer, token)
    assert (found.user, found.groups, found.id) == ("bob", BOB.groups, "bob")
    with pytest.raises(TokenRefused, match="audience"):
        await who(signer, token, "another")
    (published,) = signer.list_public_keys()["keys"]
    assert not {"d", "p", "q"} & published.keys()


def test_a_token_is_given_again_until_half_of_its_time_is_over() -> None:
    clock = Clock()
    signer = made([new_key()], clock)
    first = signer.sign(BOB, "spark", ["sales"])
    assert claims(first)["exp"] - claims(first)["iat"] == 300
    clock.now += 149
    assert signer.sign(BOB, "spark", ["sales"]) == first
    clock.now += 2
    assert claims(signer.sign(BOB, "spark", ["sales"]))["iat"] == int(clock.now)


def test_no_token_of_the_future_is_shown_when_the_clock_was_put_back() -> None:
    clock = Clock()
    signer = made([new_key()], clock)
    clock.now += 3600
    ahead = signer.sign(BOB, "spark", ["sales"])
    clock.now -= 3600
    now = signer.sign(BOB, "spark", ["sales"])
    assert now != ahead
    assert claims(now)["iat"] == int(clock.now)
    assert signer.sign(BOB, "spark", ["sales"]) == now


def test_no_token_is_given_to_somebody_else_nor_with_other_groups() -> None:
    signer = made([new_key()])
    told = {
        signer.sign(user, audience, groups)
        for user in (BOB, Principal(user="ann"), Principal(user="bob", id="of another issuer"))
        for audience in ("a", "b")
        for groups in ((), ("sales",))
    }
    assert len(told) == 12


def test_a_new_key_signs_when_it_comes_first_and_the_old_one_stays_published_for_its_tokens() -> None:
    clock, keys = Clock(), [new_key()]
    signer = made(keys, clock)
    old = parse_signing_key(keys[0]).id
    assert jwt.get_unverified_header(signer.sign(BOB, "spark", ()))["kid"] == old
    keys.insert(0, new_key())
    del keys[1]
    clock.now += READ_AGAIN_S + 1
    new = parse_signing_key(keys[0]).id
    assert jwt.get_unverified_header(signer.sign(BOB, "spark", ()))["kid"] == new
    assert [one["kid"] for one in signer.list_public_keys()["keys"]] == [new, old]
    clock.now += 300 + READ_AGAIN_S + 1
    assert [one["kid"] for one in signer.list_public_keys()["keys"]] == [new]


def test_keys_that_cannot_be_read_leave_those_of_before() -> None:
    clock, keys = Clock(), [new_key()]
    signer = made(keys, clock)
    before = signer.list_public_keys()
    keys[0] = "half a file"
    clock.now += READ_AGAIN_S + 1
    assert signer.list_public_keys() == before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret-in-the-wrong-file",
        pem(ec.generate_private_key(ec.SECP521R1())),
        pem(rsa.generate_private_key(65537, 1024)),
    ],
)
def test_a_key_that_nobody_could_check_is_a_fault_that_tells_nothing_of_it(text: str) -> None:
    with pytest.raises(Faults) as raised:
        parse_signing_key(text)
    assert "secret" not in str(raised.value)


def test_groups_that_no_header_holds_are_told_and_nothing_is_signed() -> None:
    with pytest.raises(AuthenticationFailed, match="too many groups"):
        made([new_key()]).sign(BOB, "spark", [f"a-group-with-a-name-{n}" for n in range(400)])
