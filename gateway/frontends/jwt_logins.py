"""Checks JSON Web Tokens of an OIDC provider or another issuer: signature, issuer, audience, times, user.

Keys come from the issuer's JWKS, which its discovery document names. They are asked for again when a token
names a key that is not known, at most every `MIN_REFRESH_S`, and in the background when they are old.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import jwt
import structlog

from gateway.model.bounded import read_bounded
from gateway.model.principal import Principal

_log = structlog.get_logger(__name__)

MAX_TOKEN_CHARS = 64 * 1024
"""Room for the groups of somebody who is in hundreds."""
MAX_DOCUMENT_BYTES = 1024 * 1024
MAX_NAME_CHARS = 200
MAX_GROUPS = 10_000
MIN_REFRESH_S = 30.0
"""How often keys are asked for because of tokens whose key is not known."""
REFRESH_S = 3600.0
"""How old keys are when they are asked for anyway."""
FETCH_TIMEOUT_S = 10.0
MALFORMED = "the token is not a JSON Web Token"
_COMPACT = re.compile(r"[A-Za-z0-9_=.-]+")
SIGNED_WRONGLY = "the token's signature does not match any key of its issuer"


class TokenRefused(Exception):
    """A token that proves nothing; the message is for whoever showed it."""


class IssuerUnavailable(Exception):
    """The issuer's keys cannot be had; the message is for the log and for whoever showed a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtRules:
    """What tokens have to have, and what they say."""

    issuer: str
    """`iss` of tokens, to the letter."""
    audiences: tuple[str, ...]
    """One of them is in `aud`."""
    jwks_url: str = ""
    """Empty: as the discovery document below the issuer's address says."""
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    leeway_s: float = 30.0
    """How far clocks may differ."""
    max_keys_age_s: float = 86_400.0
    """How old keys may be while the issuer cannot be asked; then nobody logs in."""
    user_claim: tuple[str, ...] = ("preferred_username",)
    """Path of the user's name."""
    groups_claim: tuple[str, ...] = ("groups",)
    """Path of a list of groups; there may be none."""
    attribute_claims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Attribute of the user → path of a text, a number, a boolean, or a list of these."""
    lower_case: bool = False
    """Whether names of users and groups are folded to lower case."""


FetchJson = Callable[[str], Awaitable[Any]]
"""Gets a JSON document. Raises IssuerUnavailable."""


class JwtLogins:
    """Turns tokens of one issuer into principals."""

    def __init__(
        self,
        rules: JwtRules,
        *,
        fetch: FetchJson | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rules = rules
        self._fetch = fetch or fetch_json
        self._clock = clock
        self._keys: dict[str, list[jwt.PyJWK]] = {}
        """By `kid`; the empty one has all that have none."""
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._fault = ""
        self._lock = asyncio.Lock()
        self._refreshing: asyncio.Task[None] | None = None

    def report(self) -> str | None:
        """Say why nobody can log in by a token now, or None."""
        if not self._fault or self._clock() - self._fetched_at <= self.rules.max_keys_age_s:
            return None
        return f"logins by tokens of {self.rules.issuer} are not possible: {self._fault}"

    async def load_keys(self) -> int:
        """Get the issuer's keys; return how many there are. Raises IssuerUnavailable."""
        await self._refresh(needed=True)
        return sum(map(len, self._keys.values()))

    async def check(self, token: str) -> Principal:
        """Return who a token says somebody is. Raises TokenRefused, IssuerUnavailable."""
        if len(token) > MAX_TOKEN_CHARS:
            raise TokenRefused("the token is too long")
        # What reads base64 may stop at its padding. A Spark is shown all of it, maybe among headers of HTTP.
        if not _COMPACT.fullmatch(token):  # RULE (token-of-nothing-else)
            raise TokenRefused(MALFORMED)
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise TokenRefused(MALFORMED) from None
        if header.get("alg") not in self.rules.algorithms:
            raise TokenRefused("the token's algorithm is not allowed")
        kid = header.get("kid", "")
        if not isinstance(kid, str):
            raise TokenRefused(MALFORMED)
        keys = await self._keys_of(kid)
        claims = self._verify(token, header["alg"], keys)
        if claims is None and not kid:
            # It names no key, so that one that the issuer has had for a moment is not told from none.
            await self._refresh(needed=False)
            keys = await self._keys_of(kid)
            claims = self._verify(token, header["alg"], keys)
        if claims is None:
            raise TokenRefused(SIGNED_WRONGLY)
        return principal_of(claims, self.rules)

    def _verify(self, token: str, algorithm: str, keys: Sequence[jwt.PyJWK]) -> dict[str, Any] | None:
        """Return what a token claims; None where it is signed by none of the keys. Raises TokenRefused."""
        rules = self.rules
        for key in keys:
            if key.algorithm_name != algorithm and "alg" in _write(key):
                continue
            try:
                found: dict[str, Any] = jwt.decode(
                    token,
                    key.key,
                    algorithms=[algorithm],
                    audience=rules.audiences,
                    issuer=rules.issuer,
                    leeway=rules.leeway_s,
                    options={"require": ["exp", "iss", "aud"], "verify_iat": True, "verify_nbf": True},
                )
            except (jwt.InvalidSignatureError, jwt.InvalidKeyError, TypeError):
                continue
            except jwt.ExpiredSignatureError:
                raise TokenRefused("the token has expired; get a new one from its issuer") from None
            except jwt.ImmatureSignatureError:
                raise TokenRefused("the token is not valid yet") from None
            except jwt.InvalidAudienceError:
                raise TokenRefused("the token's audience is not this gateway") from None
            except jwt.InvalidIssuerError:
                raise TokenRefused("the token is from another issuer") from None
            except jwt.MissingRequiredClaimError as fault:
                raise TokenRefused(f"the token has no `{fault.claim}`") from None
            except jwt.PyJWTError:
                raise TokenRefused(MALFORMED) from None
            return found
        return None

    # -- keys --------------------------------------------------------------------------------------------

    async def _keys_of(self, kid: str) -> Sequence[jwt.PyJWK]:
        age = self._clock() - self._fetched_at
        if age > self.rules.max_keys_age_s:
            await self._refresh(needed=True)
        elif age > REFRESH_S and (self._refreshing is None or self._refreshing.done()):
            self._refreshing = asyncio.create_task(self._refresh(needed=False))
        if kid not in self._keys and kid:
            await self._refresh(needed=False)
        if not kid:
            return [key for keys in self._keys.values() for key in keys]
        return self._keys.get(kid, [])

    async def _refresh(self, *, needed: bool) -> None:
        """Get the keys anew, unless that was just tried. `needed`: raises IssuerUnavailable without any."""
        asked_at = self._clock()
        async with self._lock:
            if self._tried_at > asked_at or self._clock() - self._tried_at < MIN_REFRESH_S:
                fault = self._fault
            else:
                fault = self._fault = await self._load()
        if needed and self._clock() - self._fetched_at > self.rules.max_keys_age_s:
            raise IssuerUnavailable(fault or "the issuer of tokens cannot be reached")

    async def _load(self) -> str:
        """Get the keys; return what is wrong, or an empty text."""
        self._tried_at = self._clock()
        try:
            url = self.rules.jwks_url or await self._discover()
            found = parse_keys(await self._fetch(url), self.rules.algorithms)
        except IssuerUnavailable as fault:
            _log.warning("jwks_not_fetched", issuer=self.rules.issuer, reason=str(fault))
            return str(fault)
        self._keys, self._fetched_at = found, self._clock()
        return ""

    async def _discover(self) -> str:
        address = self.rules.issuer.rstrip("/") + "/.well-known/openid-configuration"
        document = await self._fetch(address)
        if not isinstance(document, Mapping) or document.get("issuer") != self.rules.issuer:
            raise IssuerUnavailable(f"the document at {address} is from another issuer")
        url = document.get("jwks_uri")
        if not isinstance(url, str):
            raise IssuerUnavailable(f"the document at {address} has no `jwks_uri`")
        return url

    def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()


def parse_keys(document: Any, algorithms: Sequence[str]) -> dict[str, list[jwt.PyJWK]]:
    """Return the keys of a JWKS that sign by one of the algorithms, by id. Raises IssuerUnavailable."""
    listed = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(listed, list):
        raise IssuerUnavailable("the issuer's key set has no list of keys")
    found: dict[str, list[jwt.PyJWK]] = {}
    for one in listed:
        if not isinstance(one, Mapping) or one.get("use", "sig") != "sig" or one.get("kty") == "oct":
            continue
        if "alg" in one and one["alg"] not in algorithms:
            continue
        try:
            key = jwt.PyJWK(dict(one))
        except (jwt.PyJWTError, ValueError, TypeError):
            continue  # of a kind that is not known here; others may be
        kid = one.get("kid", "")
        found.setdefault(kid if isinstance(kid, str) else "", []).append(key)
    if not found:
        raise IssuerUnavailable("the issuer's key set has no key for an allowed algorithm")
    return found


def _write(key: jwt.PyJWK) -> Mapping[str, Any]:
    written: Mapping[str, Any] = key._jwk_data
    return written


def principal_of(claims: Mapping[str, Any], rules: JwtRules) -> Principal:
    """Return who the claims of a token that was checked say somebody is. Raises TokenRefused."""
    user = _at(claims, rules.user_claim)
    if not isinstance(user, str) or not _is_name(user):
        raise TokenRefused(f"the token has no user name in `{'.'.join(rules.user_claim)}`")
    groups = _at(claims, rules.groups_claim)
    listed = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
    if len(listed) > MAX_GROUPS or not all(isinstance(one, str) and _is_name(one) for one in listed):
        raise TokenRefused(f"the token's groups in `{'.'.join(rules.groups_claim)}` are not a list of names")
    attributes = {
        (name, value) for name, path in rules.attribute_claims.items() for value in _texts(_at(claims, path))
    }
    fold = str.lower if rules.lower_case else str
    subject = claims.get("sub")
    return Principal(
        user=fold(user),
        id=_id(subject) if isinstance(subject, str) and _is_name(subject) else "",
        groups=frozenset(fold(one) for one in listed),
        attributes=tuple(sorted(attributes)),
    )


def _id(subject: str) -> str:
    """Return an issuer's name for a user without blanks: an identity has one between the id and the name."""
    return subject.replace("%", "%25").replace(" ", "%20") if " " in subject else subject


def _at(claims: Any, path: Sequence[str]) -> Any:
    for name in path:
        claims = claims.get(name) if isinstance(claims, Mapping) else None
    return claims


def _texts(value: Any) -> list[str]:
    match value:
        case bool():
            return ["true" if value else "false"]
        case str() | int() | float():
            return [str(value)]
        case list():
            return [text for one in value if not isinstance(one, list) for text in _texts(one)]
    return []


def _is_name(text: str) -> bool:
    return 0 < len(text) <= MAX_NAME_CHARS and text == text.strip() and text.isprintable()


async def fetch_json(url: str, *, tls: ssl.SSLContext | None = None) -> Any:
    """Get a JSON document over HTTP; redirects are not followed. Raises IssuerUnavailable."""
    timeout = aiohttp.ClientTimeout(total=FETCH_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as http,
            http.get(url, ssl=tls or True, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise IssuerUnavailable(f"{url} answers {answer.status}")
            data = await read_bounded(answer.content.read, MAX_DOCUMENT_BYTES)
            if data is None:
                raise IssuerUnavailable(f"{url} returns more than {MAX_DOCUMENT_BYTES} bytes")
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as fault:
        raise IssuerUnavailable(f"{url} cannot be reached: {fault or type(fault).__name__}") from None
    try:
        return json.loads(data)
    except ValueError:
        raise IssuerUnavailable(f"{url} does not return JSON") from None
