"""What `listeners.admin.console` may hold: the web console, who is what in it, and how browsers reach it."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from gateway.settings.section import Host, Name, Secret, Section, require_safe_url


class OidcClientSettings(Section):
    """The console as a client of the provider that `logins.jwt` names: people log in there, by the
    authorization code flow with PKCE. Register `PUBLIC_URL/console/login/oidc/back` as the redirect URI."""

    client_id: Name
    """Id of the client at the provider; it must be one of `logins.jwt.audiences`."""
    client_secret: Secret | None = None
    """Its secret, as `{env: NAME}` or `{file: PATH}`; without it the client is a public one."""
    scopes: Annotated[tuple[Name, ...], Field(min_length=1)] = ("openid", "profile")
    """Scopes that are asked for; `openid` among them."""
    label: Name = "single sign-on"
    """What the login page calls it."""

    @field_validator("scopes")
    @classmethod
    def _asks_for_identity(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        if "openid" not in scopes:
            raise ValueError("must have `openid`")
        return scopes


class ConsoleSettings(Section):
    """The web console below `/console` and its REST API below `/api/v1`; docs/console.md shows it. Everybody
    who may log in sees what is his own. Without TLS, here or at `public_url`, it answers on this machine
    alone (`localhost`)."""

    administrators: tuple[Name, ...] = ()
    """Users who may change things, and see everything that auditors see."""
    administrator_groups: tuple[Name, ...] = ()
    """Groups whose members may."""
    auditors: tuple[Name, ...] = ()
    """Users who see the record of everybody, the policies, the sessions and the health of the gateways."""
    auditor_groups: tuple[Name, ...] = ()
    """Groups whose members do."""
    text_readers: tuple[Name, ...] = ()
    """Users who see statements of others with their literals; for everybody else literals are replaced."""
    text_reader_groups: tuple[Name, ...] = ()
    """Groups whose members do."""
    public_url: str = ""
    """Address by which browsers reach the console, such as `https://sluice.example.com`, without a path.
    Errors that clients get then end with the address of their event."""
    hosts: tuple[Host, ...] = ()
    """Further names by which browsers reach it over TLS; others are refused, so that no other site can make
    its own name lead here."""
    oidc: OidcClientSettings | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.public_url:
            require_safe_url("public_url", self.public_url)
            if self.public_url.count("/") > 2:
                raise ValueError("`public_url` must have no path, nor a slash at its end")
        if self.oidc is not None and not self.public_url:
            raise ValueError("`oidc` needs `public_url`, which the provider leads back to")
        return self
