"""What `connections:` of the settings may hold: bounds on who connects, before anybody knows who it is."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from gateway.settings.section import Count, Name, Seconds, Section

JwtAlgorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
"""Signatures by public keys; with a shared secret whoever checks could also sign."""


class ConnectionSettings(Section):
    """Bounds of each listener on connections, above all on those that nobody has logged in on. At a bound
    whoever has waited longest without asking anything makes room; where nobody has, whoever comes is sent
    away. docs/sessions.md tells how many descriptors all of them take."""

    connect: Count = 2000
    """Open connections of Spark Connect clients; those of `listeners.thrift` have a bound of their own."""
    before_login: Count = 256
    """Connections of one listener on which nobody has logged in. On `listeners.admin` that is every one."""
    before_login_per_address: Count = 64
    """Those of them that come from one address, when they have been there for a second. Clients behind a
    proxy have one address together. Who comes faster than that waits for the others to log in."""
    first_byte_s: Seconds = 5.0
    """Seconds from connecting to the first byte; `logins.handshake_timeout_s` is for all until the login."""
    reserve: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] = 256
    """Descriptors that no connection gets, for Spark, the record and files that are read again; a quarter of
    the process's limit at most."""


_Claim = Annotated[str, Field(pattern=r"^[^.\s]+(\.[^.\s]+)*$", max_length=200)]


class JwtSettings(Section):
    """Logins by JSON Web Tokens of an OIDC provider: as bearer, as `token=` of Spark Connect, and in place
    of a password; docs/logins.md tells how. Users of the user file keep their names for themselves."""

    issuer: Name
    """`iss` of the tokens, to the letter; its discovery document is asked for the keys."""
    audiences: Annotated[tuple[Name, ...], Field(min_length=1)]
    """One of them has to be in `aud`."""
    jwks_url: str = ""
    """Where the keys are, without asking the discovery document."""
    algorithms: Annotated[tuple[JwtAlgorithm, ...], Field(min_length=1)] = ("RS256", "ES256")
    """Signatures that are taken."""
    user_claim: _Claim = "preferred_username"
    """Claim with the user's name; `a.b` for one within another."""
    groups_claim: _Claim = "groups"
    """Claim with a list of groups; Keycloak's roles are in `realm_access.roles`."""
    attribute_claims: dict[Name, _Claim] = Field(default_factory=dict)
    """Attribute of the user, for filters and conditions → claim."""
    lower_case: Annotated[bool, Field(strict=True)] = False
    """Whether names of users and groups are folded to lower case, as policies then have to write them."""
    leeway_s: Annotated[float, Field(ge=0, le=600)] = 30.0
    """Seconds by which clocks may differ."""
    max_keys_age_s: Seconds = 86_400.0
    """Seconds for which keys count while the issuer cannot be asked; then nobody logs in by a token."""
    remember_s: Seconds = 86_400.0
    """Seconds for which what a token said of somebody counts for the views and policies that he made."""

    @model_validator(mode="after")
    def _addresses_are_safe(self) -> JwtSettings:
        for name in ("issuer", "jwks_url"):
            written = getattr(self, name)
            url = urlsplit(written)
            is_local = url.hostname in ("localhost", "127.0.0.1", "::1")
            if written and not (url.scheme == "https" or (url.scheme == "http" and is_local)):
                raise ValueError(f"`{name}` must be an `https://` address")
        return self


class LoginSettings(Section):
    """Limits of logins, counted per client address, and who logs in beside the users of the file."""

    failures: Count = 10
    """Failed logins from one address within `window_s` before further ones are refused unseen."""
    window_s: Seconds = 60.0
    """Seconds over which failures are counted."""
    handshake_timeout_s: Seconds = 15.0
    """Seconds from connecting to being logged in."""
    jwt: JwtSettings | None = None
