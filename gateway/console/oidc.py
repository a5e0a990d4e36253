"""The authorization code flow of OpenID Connect with PKCE (RFC 7636), for logins to the console.

State, nonce and the verifier are made of a random number that the browser has as a cookie: nothing has to be
kept, and every gateway can end what another has begun. Who gets hold of a code has neither the verifier nor
the cookie.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

import jwt

from gateway.console.login_sessions import derive

MAX_CODE_CHARS = 8_192

FetchDocument = Callable[[str], Awaitable[Any]]
"""Gets a JSON document. Raises OidcRefused."""
PostCode = Callable[[str, Mapping[str, str], tuple[str, str] | None], Awaitable[Any]]
"""Posts a form, with a name and a password where there are some, and returns the JSON that is answered.
Raises OidcRefused."""


class OidcRefused(Exception):
    """The login came to nothing; the message is for whoever tries it."""


class OidcClient:
    """The console as a client of one provider."""

    def __init__(
        self,
        *,
        issuer: str,
        client_id: str,
        client_secret: str | None,
        redirect: str,
        scopes: tuple[str, ...],
        name: str,
        fetch: FetchDocument,
        post: PostCode,
    ) -> None:
        """`redirect`: the address that the provider leads back to, to the letter; `name`: for the login
        page."""
        self.name = name
        self._issuer = issuer
        self._client_id = client_id
        self._client_secret = client_secret
        self._redirect = redirect
        self._scopes = scopes
        self._fetch = fetch
        self._post = post
        self._document: Mapping[str, Any] | None = None

    async def begin(self, secret: str, following: str) -> str:
        """Return the provider's address that a browser is sent to. Raises OidcRefused."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(_verifier(secret).encode()).digest())
        asked = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": self._redirect,
            "scope": " ".join(self._scopes),
            "state": _state(secret, following),
            "nonce": derive(secret, "nonce"),
            "code_challenge": challenge.decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        address = await self._endpoint("authorization_endpoint")
        return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(asked)}"

    async def end(self, secret: str, given: Mapping[str, str]) -> tuple[str, str]:
        """Return the ID token for the code that the provider has sent the browser back with, and where the
        login leads. The token's signature has not been checked. Raises OidcRefused."""
        sent, _, encoded = given.get("state", "").partition(".")
        try:
            following = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
        except ValueError:
            raise OidcRefused("the answer is not to this browser's login") from None
        # RULE (oidc-state)
        if not hmac.compare_digest(_state(secret, following).encode(), f"{sent}.{encoded}".encode()):
            raise OidcRefused("the answer is not to this browser's login")
        if given.get("iss", self._issuer) != self._issuer:
            raise OidcRefused("the answer is from another provider")
        if "error" in given:
            raise OidcRefused("the provider refused it")
        code = given.get("code", "")
        if not code or len(code) > MAX_CODE_CHARS:
            raise OidcRefused("the provider sent no code")
        asked = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect,
            "client_id": self._client_id,
            "code_verifier": _verifier(secret),
        }
        login = (self._client_id, self._client_secret) if self._client_secret is not None else None
        answer = await self._post(await self._endpoint("token_endpoint"), asked, login)
        token = answer.get("id_token") if isinstance(answer, Mapping) else None
        if not isinstance(token, str):
            raise OidcRefused("the provider sent no ID token")
        self._require_own(token, secret)
        return token, following

    def _require_own(self, token: str, secret: str) -> None:
        """Raise OidcRefused for a token that was made for another login, or another client."""
        try:
            claims = jwt.decode(token, options={"verify_signature": False})
        except jwt.PyJWTError:
            raise OidcRefused("the provider's ID token cannot be read") from None
        nonce = claims.get("nonce")
        given = nonce if isinstance(nonce, str) else ""
        # RULE (oidc-nonce)
        if not hmac.compare_digest(given.encode(), derive(secret, "nonce").encode()):
            raise OidcRefused("the ID token is of another login")
        audience = claims.get("aud")
        audiences = [audience] if isinstance(audience, str) else audience
        # RULE (oidc-audience)
        if not isinstance(audiences, list) or self._client_id not in audiences:
            raise OidcRefused("the ID token is for another client")
        if claims.get("azp", self._client_id) != self._client_id:
            raise OidcRefused("the ID token is for another client")

    async def _endpoint(self, name: str) -> str:
        if self._document is None:
            address = self._issuer.rstrip("/") + "/.well-known/openid-configuration"
            document = await self._fetch(address)
            if not isinstance(document, Mapping) or document.get("issuer") != self._issuer:
                raise OidcRefused("the provider's document is of another issuer")
            self._document = document
        found = self._document.get(name)
        if not isinstance(found, str) or urlsplit(found).scheme not in ("https", "http"):
            raise OidcRefused(f"the provider's document has no `{name}`")
        if urlsplit(found).scheme == "http" and urlsplit(self._issuer).scheme == "https":
            raise OidcRefused(f"the provider's `{name}` is not encrypted")
        return found


def _verifier(secret: str) -> str:
    return derive(secret, "verifier")


def _state(secret: str, following: str) -> str:
    encoded = base64.urlsafe_b64encode(following.encode()).decode().rstrip("=")
    return f"{derive(secret, f'state {following}')}.{encoded}"
