"""Logins by JSON Web Tokens: who is let in, and every way in which a token can be bad."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from gateway.errors import AuthenticationFailed
from gateway.frontends.authentication import Authenticator
from gateway.frontends.identities import Identities
from gateway.frontends.jwt_logins import (
    IssuerUnavailable,
    JwtLogins,
    JwtRules,
    TokenRefused,
    fetch_json,
)
from gateway.frontends.login_chain import looks_like_jwt
from gateway.frontends.login_mechanisms import IssuerLogins
from gateway.model.credentials import Bearer, Password
from gateway.model.principal import Principal
from gateway.model.statement import Client
from tests.frontends.listening import chain_of, user
from tests.session.fakes import World

ISSUER = "https://login.example/realms/main"
KEY, OTHER = (rsa.generate_private_key(65537, 2048) for _ in range(2))
CURVE = ec.generate_private_key(ec.SECP256R1())


def public(key: Any, kid: str, **more: Any) -> dict[str, Any]:
    algorithm = (
        jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    )
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, **more}


class Issuer:
    """What is asked over HTTP, and how often."""

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {
            f"{ISSUER}/.well-known/openid-configuration": {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"},
            f"{ISSUER}/keys": {"keys": [public(KEY, "one", use="sig", alg="RS256"), public(CURVE, "curve")]},
        }
        self.asked: list[str] = []
        self.away = False
        self.now = 1000.0

    async def fetch(self, url: str) -> Any:
        self.asked.append(url)
        if self.away:
            raise IssuerUnavailable("it is away")
        return self.documents[url]

    def logins(self, **more: Any) -> JwtLogins:
        rules = JwtRules(issuer=ISSUER, audiences=("sluice", "other"), **more)
        return JwtLogins(rules, fetch=self.fetch, clock=lambda: self.now)


def token(
    key: Any = KEY, *, kid: str | None = "one", alg: str = "RS256", headers: Any = None, **claims: Any
) -> str:
    now = time.time()
    told = {
        "iss": ISSUER,
        "aud": "sluice",
        "exp": now + 300,
        "iat": now,
        "sub": "4711",
        "preferred_username": "Eva",
        "groups": ["analysts", "Berlin"],
        **claims,
    }
    written = {name: value for name, value in told.items() if value is not None}
    named = {"kid": kid} if kid is not None else {}
    return jwt.encode(written, key, algorithm=alg, headers={**named, **(headers or {})})


def bad_tokens() -> dict[str, str]:
    """Return tokens that let nobody in, by what is said of them."""
    now = time.time()
    return {
        "the token has expired; get a new one from its issuer": token(exp=now - 60),
        "the token is not valid yet": token(nbf=now + 600),
        "the token's audience is not this gateway": token(aud="another"),
        "the token is from another issuer": token(iss="https://login.example/other"),
        "the token's signature does not match any key of its issuer": token(OTHER),
        "the token's algorithm is not allowed": jwt.encode({"sub": "x"}, "", algorithm="none"),
    }


async def test_a_token_says_who_somebody_is() -> None:
    issuer = Issuer()
    logins = issuer.logins(attribute_claims={"site": ("office", "site"), "level": ("level",), "none": ("x",)})
    claims: dict[str, Any] = {"office": {"site": ["B", "M"]}, "level": 3, "aud": ["x", "other"]}
    assert await logins.check(token(**claims)) == Principal(
        user="Eva",
        id="4711",
        groups=frozenset({"analysts", "Berlin"}),
        attributes=(("level", "3"), ("site", "B"), ("site", "M")),
    )
    found = await issuer.logins(lower_case=True, groups_claim=("realm_access", "roles")).check(
        token(CURVE, kid="curve", alg="ES256", realm_access={"roles": "Owners"})
    )
    assert (found.user, found.groups) == ("eva", frozenset({"owners"}))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: token(exp=time.time() - 60), "has expired"),
        (lambda: token(nbf=time.time() + 600), "not valid yet"),
        (lambda: token(iat=time.time() + 600), "not valid yet"),
        (lambda: token(aud="another"), "audience is not this gateway"),
        (lambda: token(aud=None), "has no `aud`"),
        (lambda: token(exp=None), "has no `exp`"),
        (lambda: token(iss=None), "has no `iss`"),
        (lambda: token(iss="https://login.example/realms/other"), "from another issuer"),
        (lambda: token(OTHER), "does not match any key"),
        (lambda: token(OTHER, kid=None), "does not match any key"),
        (lambda: token(kid="unknown"), "does not match any key"),
        (lambda: token(kid="curve"), "does not match any key"),
        (lambda: token(CURVE, kid="one", alg="ES256"), "does not match any key"),
        (lambda: token(alg="RS512"), "algorithm is not allowed"),
        (lambda: token("secret" * 10, alg="HS256"), "algorithm is not allowed"),
        (lambda: token(None, alg="none"), "algorithm is not allowed"),
        (lambda: token(headers={"crit": ["b64"], "b64": True}), "not a JSON Web Token"),
        (lambda: token(preferred_username=None), "no user name in `preferred_username`"),
        (lambda: token(preferred_username=" eva"), "no user name"),
        (lambda: token(preferred_username=["eva"]), "no user name"),
        (lambda: token(preferred_username="e\nva"), "no user name"),
        (lambda: token(groups=["a", 7]), "not a list of names"),
        (lambda: token()[:-21], "not a JSON Web Token"),
        (lambda: token().replace(".", ".e30.", 1), "not a JSON Web Token"),
        (lambda: "eyJ.e30.x", "not a JSON Web Token"),
        (lambda: "eyJ\udcff.e30.x", "not a JSON Web Token"),
        (lambda: "eyJhIjp7fQ.e30.\u00e9", "not a JSON Web Token"),
        (lambda: "eyJ" + "x" * 70_000 + ".a.b", "too long"),
    ],
)
async def test_a_bad_token_proves_nothing(make: Callable[[], str], why: str) -> None:
    with pytest.raises(TokenRefused, match=why):
        await Issuer().logins().check(make())


@pytest.mark.parametrize("tail", ["==\r\nX-User: admin", "==\r\n\r\n", "== ", "==\0"])
async def test_nothing_else_comes_with_a_token_that_a_spark_is_shown(tail: str) -> None:
    """Whatever the library thinks of what stands behind the padding: base64 as such ignores it."""

    def read(_self: Any, segment: bytes, _name: str) -> bytes:
        return base64.urlsafe_b64decode(segment + b"=" * (-len(segment) % 4))

    with patch.object(jwt.api_jws.PyJWS, "_decode_base64url_segment", read, create=True):
        assert (await Issuer().logins().check(token())).user == "Eva"
        with pytest.raises(TokenRefused, match="not a JSON Web Token"):
            await Issuer().logins().check(token() + tail)


async def test_an_id_with_a_blank_is_nobody_elses() -> None:
    logins = Issuer().logins()
    one = await logins.check(token(sub="4711 x", preferred_username="bob"))
    other = await logins.check(token(sub="4711", preferred_username="x bob"))
    assert one.identity != other.identity


async def test_claims_that_are_changed_do_not_fit_the_signature() -> None:
    head, body, signature = token().split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    changed = base64.urlsafe_b64encode(json.dumps({**claims, "preferred_username": "admin"}).encode())
    with pytest.raises(TokenRefused, match="does not match"):
        await Issuer().logins().check(f"{head}.{changed.decode().rstrip('=')}.{signature}")


# -- keys ----------------------------------------------------------------------------------------------------


async def test_keys_are_asked_for_once_and_again_when_a_new_one_is_named() -> None:
    issuer = Issuer()
    logins = issuer.logins()
    await asyncio.gather(*(logins.check(token()) for _ in range(20)))
    assert len(issuer.asked) == 2
    issuer.documents[f"{ISSUER}/keys"] = {"keys": [public(OTHER, "two")]}
    with pytest.raises(TokenRefused):  # just asked
        await logins.check(token(OTHER, kid="two"))
    issuer.now += 31
    await logins.check(token(OTHER, kid="two"))
    with pytest.raises(TokenRefused):
        await logins.check(token())
    asked = len(issuer.asked)
    for number in range(10):
        with pytest.raises(TokenRefused):
            await logins.check(token(OTHER, kid=f"made up {number}"))
    assert len(issuer.asked) == asked


async def test_a_new_key_is_asked_for_where_tokens_name_none() -> None:
    issuer = Issuer()
    logins = issuer.logins()
    await logins.check(token(kid=None))
    issuer.documents[f"{ISSUER}/keys"] = {"keys": [public(OTHER, "two")]}
    issuer.now += 31
    await logins.check(token(OTHER, kid=None))
    asked = len(issuer.asked)
    for _ in range(3):
        with pytest.raises(TokenRefused, match="does not match any key"):
            await logins.check(token(kid=None))
    assert len(issuer.asked) == asked


async def test_old_keys_are_renewed_beside_logins_and_count_while_the_issuer_is_away() -> None:
    issuer = Issuer()
    logins = issuer.logins(jwks_url=f"{ISSUER}/keys", max_keys_age_s=10_000.0)
    await logins.check(token())
    issuer.now += 3601
    await logins.check(token())
    assert logins._refreshing is not None
    await logins._refreshing
    assert len(issuer.asked) == 2
    issuer.away = True
    issuer.now += 9_000
    await logins.check(token())
    await logins._refreshing
    assert logins.report() is None
    issuer.now += 9_000
    with pytest.raises(IssuerUnavailable, match="away"):
        await logins.check(token())
    assert "away" in (logins.report() or "")
    issuer.away = False
    issuer.now += 31
    await logins.check(token())
    assert logins.report() is None


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"keys": "x"},
        {"keys": [1, {"kty": "oct", "k": "c2VjcmV0"}, {"kty": "RSA"}, public(KEY, "one", use="enc")]},
        {"keys": [public(KEY, "one", alg="RS512")]},
    ],
)
async def test_a_set_without_a_key_that_can_be_used_lets_nobody_in(document: Any) -> None:
    issuer = Issuer()
    issuer.documents[f"{ISSUER}/keys"] = document
    with pytest.raises(IssuerUnavailable):
        await issuer.logins().check(token())


@pytest.mark.parametrize("kid", ["curve", None])
@pytest.mark.parametrize(
    "odd",
    [
        None,
        {"kty": {}},
        {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA"},
        {"kty": "EC", "crv": ["P-256"], "x": "AA", "y": "AA"},
        {"kty": "OKP", "crv": "X25519", "x": "A" * 43},
        {**public(CURVE, "curve"), "alg": ["ES256"]},
        {**public(CURVE, "curve"), "kid": {}, "x": None},
        {**public(KEY, "curve"), "n": "AQ", "e": []},
        public(ec.generate_private_key(ec.SECP384R1()), "curve"),
        public(OTHER, "curve"),
    ],
)
async def test_a_key_that_is_not_understood_spoils_no_other(odd: Any, kid: str | None) -> None:
    issuer = Issuer()
    issuer.documents[f"{ISSUER}/keys"] = {"keys": [public(KEY, "one"), odd, public(CURVE, "curve")]}
    assert (await issuer.logins().check(token(CURVE, kid=kid, alg="ES256"))).user == "Eva"
    assert (await issuer.logins().check(token(kid="one" if kid else None))).user == "Eva"


@pytest.mark.parametrize(
    "document", [[], {"issuer": "https://evil.example", "jwks_uri": "x"}, {"issuer": ISSUER}]
)
async def test_the_discovery_document_has_to_be_the_issuers(document: Any) -> None:
    issuer = Issuer()
    issuer.documents[f"{ISSUER}/.well-known/openid-configuration"] = document
    with pytest.raises(IssuerUnavailable, match="document at"):
        await issuer.logins().check(token())


async def test_an_issuer_that_cannot_be_reached_is_unavailable() -> None:
    with pytest.raises(IssuerUnavailable, match="cannot be reached"):
        await fetch_json("http://127.0.0.1:1/keys")


# -- at the endpoints ----------------------------------------------------------------------------------------


class Endpoint:
    """An authenticator with a user of a file, beside an issuer."""

    def __init__(self) -> None:
        self.world, self.issuer = World(), Issuer()
        self.users = {"bob": user("bob", "secret")}
        self.identities = Identities(lambda: self.in_file, clock=lambda: self.issuer.now)
        self.in_file: Mapping[str, Principal] = {}
        self.authenticator = Authenticator(
            chain_of(lambda: self.users, IssuerLogins(self.issuer.logins())),
            recorder=self.world.sessions.recorder,
            metrics=self.world.sessions.metrics,
            identities=self.identities,
        )

    async def login(self, shown: Bearer | Password) -> Principal:
        return await self.authenticator.login(shown, Client(protocol="thrift", address="192.0.2.1"))


async def test_a_token_logs_in_as_bearer_and_in_the_place_of_a_password() -> None:
    endpoint = Endpoint()
    for shown in (Bearer(token()), Password("Eva", token())):
        assert (await endpoint.login(shown)).user == "Eva"
    events = endpoint.world.ledger.of("login")
    assert [(one.body["verdict"], one.body["reqUser"]) for one in events] == [("accepted", "Eva")] * 2
    assert endpoint.identities.principals["Eva"].groups == {"analysts", "Berlin"}
    assert token() not in json.dumps([one.body for one in events])


@pytest.mark.parametrize(
    ("show", "why"),
    [
        (lambda: Password("bob", token()), "another user"),
        (lambda: Bearer(token(preferred_username="bob")), "in the user file"),
        (lambda: Bearer(token(OTHER)), "does not match"),
        (lambda: Password("Eva", "secret"), "invalid user name or password"),
    ],
)
async def test_a_token_is_nobody_elses_and_nobody_of_the_file(
    show: Callable[[], Bearer | Password], why: str
) -> None:
    endpoint = Endpoint()
    with pytest.raises(AuthenticationFailed, match=why):
        await endpoint.login(show())
    (event,) = endpoint.world.ledger.of("login")
    assert event.body["verdict"] == "rejected"
    assert not endpoint.identities.principals


async def test_bad_tokens_block_their_address_and_an_issuer_that_is_away_blocks_nobody() -> None:
    endpoint = Endpoint()
    endpoint.issuer.away = True
    for _ in range(20):
        with pytest.raises(AuthenticationFailed, match="away"):
            await endpoint.login(Bearer(token()))
    endpoint.issuer.away = False
    endpoint.issuer.now += 31
    await endpoint.login(Bearer(token()))
    for _ in range(10):
        with pytest.raises(AuthenticationFailed, match="does not match"):
            await endpoint.login(Bearer(token(OTHER)))
    with pytest.raises(AuthenticationFailed, match="too many failed logins"):
        await endpoint.login(Bearer(token(OTHER)))
    await endpoint.login(Bearer(token()))


def test_what_tokens_said_is_forgotten_and_counts_less_than_the_file() -> None:
    now, in_file = 0.0, {"bob": Principal(user="bob", groups=frozenset({"staff"}))}
    identities = Identities(lambda: in_file, remember_s=100.0, clock=lambda: now)
    identities.note(Principal(user="eva", groups=frozenset({"a"})))
    identities.note(Principal(user="bob", groups=frozenset({"admins"})))
    known = identities.principals
    assert known["bob"].groups == {"staff"}
    assert known["eva"].groups == {"a"}
    now = 50.0
    identities.note(Principal(user="eva", groups=frozenset({"a"})))
    assert identities.principals is known
    identities.note(Principal(user="eva", groups=frozenset({"b"})))
    assert identities.principals["eva"].groups == {"b"}
    now = 149.0
    assert "eva" in identities.principals
    now = 150.0
    assert set(identities.principals) == {"bob"}


@pytest.mark.parametrize(
    ("secret", "is_one"),
    [
        (token(), True),
        ("ewogICJhIjoxfQ.e30.x", True),
        ("eyJlbmMiOiJBIn0.k.i.c.t", True),
        ("a.b.c", False),
        ("e30.b", False),
        ("W10.b.c", False),
        ("eyJ.a", False),
        ("", False),
    ],
)
def test_tokens_are_told_from_passwords_by_their_shape(secret: str, is_one: bool) -> None:
    assert looks_like_jwt(secret) == is_one
