"""Logins of the admin listener's REST APIs, recorded once in a while, and their administrators."""

from __future__ import annotations

from gateway.admin.requests import Administrators
from gateway.frontends.authentication import Authenticator
from gateway.model.credentials import Credentials
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.settings.listeners import LineageApiSettings, SessionApiSettings, TagApiSettings

RECORDED_AGAIN_S = 900.0
"""How often a login that goes on asking is recorded: plugins ask every few seconds."""


async def log_in_rest(
    authenticator: Authenticator, protocol: str, shown: Credentials, address: str
) -> Principal:
    """Return who sends a request; `protocol`: what the record says of how they came. Raises
    AuthenticationFailed."""
    client = Client(address=address, protocol=protocol)
    return await authenticator.login_each_time(shown, client, record_every_s=RECORDED_AGAIN_S)


def administrators_of(settings: LineageApiSettings | SessionApiSettings | TagApiSettings) -> Administrators:
    """Return who may do everything."""
    return Administrators(
        users=frozenset(settings.administrators), groups=frozenset(settings.administrator_groups)
    )
