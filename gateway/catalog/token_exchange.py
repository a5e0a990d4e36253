"""Exchanges the token that a user has shown for one of a catalog's or a Spark's (RFC 8693): that is then
asked in the user's name.

The issuer decides whose token is exchanged for what. Nothing of an exchange is logged but its outcome.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus

import aiohttp

from gateway.model.bounded import BoundedDict, read_bounded

TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - a name
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a name
EXCHANGE_TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 256 * 1024
MAX_KEPT = 1000
"""Tokens that are kept until shortly before they end."""
LEFT_S = 60.0
"""What a token has to last at least when it is given once more."""


REFUSED = (400, 401, 403)
"""Statuses of an issuer that says no (RFC 6749, 5.2); any other is a fault of its own."""


class NotExchanged(Exception):
    """There is no token for the user; the message is for the log, and has none."""

    def __init__(self, message: str, *, is_refusal: bool = False) -> None:
        """`is_refusal`: the issuer has answered that it gives none."""
        super().__init__(message)
        self.is_refusal = is_refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeRule:
    """Where tokens are exchanged, and as whom."""

    token_url: str
    client_id: str
    client_secret: Callable[[], str] = field(repr=False)
    """Raises Faults when it cannot be had."""
    scope: str = ""


PostForm = Callable[[str, Mapping[str, str], Mapping[str, str]], Awaitable[tuple[int, bytes]]]
"""(address, form, headers) → status and body. Raises NotExchanged."""


class TokenExchange:
    """Asks one issuer."""

    def __init__(
        self,
        rule: ExchangeRule,
        *,
        post: PostForm | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rule = rule
        self._post = post or post_form
        self._clock = clock
        self._kept: BoundedDict[tuple[bytes, str], tuple[str, float]] = BoundedDict(MAX_KEPT)
        """By a digest of what was shown, and the audience: a token, and when it ends."""

    async def exchange(self, shown: str, audience: str) -> str:
        """Return a token for an audience in the name of who has shown one. Raises NotExchanged, Faults."""
        key = (hashlib.sha256(shown.encode()).digest(), audience)
        token, ends = self._kept.get(key, ("", 0.0))
        if token and self._clock() < ends - LEFT_S:
            return token
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "subject_token": shown,
            "subject_token_type": ACCESS_TOKEN,
            "requested_token_type": ACCESS_TOKEN,
            "audience": audience,
        }
        return await self._fetch(key, form)

    async def fetch_own(self, audience: str) -> str:
        """Return a token for an audience in the gateway's own name (RFC 6749, 4.4). Raises as `exchange`."""
        key = (b"", audience)
        token, ends = self._kept.get(key, ("", 0.0))
        if token and self._clock() < ends - LEFT_S:
            return token
        return await self._fetch(key, {"grant_type": "client_credentials", "audience": audience})

    async def _fetch(self, key: tuple[bytes, str], asked: Mapping[str, str]) -> str:
        rule = self._rule
        form = {**asked, **({"scope": rule.scope} if rule.scope else {})}
        headers = {"Authorization": write_client_login(rule.client_id, rule.client_secret())}
        token, lasts_s = read_answer(*await self._post(rule.token_url, form, headers))
        if lasts_s is not None:
            self._kept[key] = (token, self._clock() + lasts_s)
        return token


def write_client_login(client_id: str, secret: str) -> str:
    """Return the header by which a client shows who it is. As RFC 6749 has it (2.3.1), both parts are encoded
    as in a form before they are a login of HTTP."""
    login = f"{quote_plus(client_id)}:{quote_plus(secret)}"
    return "Basic " + base64.b64encode(login.encode()).decode()


def read_answer(status: int, body: bytes) -> tuple[str, float | None]:
    """Return the token of an answer, and for how many seconds it counts, where that is said. Raises
    NotExchanged."""
    try:
        answer: Any = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if status != 200 or not isinstance(answer, dict):
        error = answer.get("error") if isinstance(answer, dict) else None
        # Its description may repeat what was sent.
        is_code = isinstance(error, str) and error.isascii() and error.replace("_", "").isalpha()
        told = f"the issuer answers with status {status}" + (f" ({error})" if is_code else "")
        raise NotExchanged(told, is_refusal=is_code and status in REFUSED)
    token, kind = answer.get("access_token"), answer.get("token_type")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise NotExchanged("the issuer's token is none that whoever bears it may use")
    # What is told to Spark as a setting is none that Spark would substitute.
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise NotExchanged("the issuer returned no token")
    if any(sign in token for sign in " ${}"):
        raise NotExchanged("the issuer's token has characters that tokens do not have")
    lasts_s = answer.get("expires_in")
    if isinstance(lasts_s, int | float) and not isinstance(lasts_s, bool):
        return token, float(lasts_s)
    return token, None


async def post_form(url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, bytes]:
    """Send a form; redirects are not followed, to which the secrets would go. Raises NotExchanged."""
    timeout = aiohttp.ClientTimeout(total=EXCHANGE_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as http,
            http.post(url, data=form, headers=headers, allow_redirects=False) as answer,
        ):
            body = await read_bounded(answer.content.read, MAX_ANSWER_BYTES)
            if body is None:
                raise NotExchanged(f"the issuer answers with more than {MAX_ANSWER_BYTES} bytes")
            return answer.status, body
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as fault:
        raise NotExchanged(f"the issuer cannot be reached ({type(fault).__name__})") from None
