"""Logins of the admin listener's REST APIs: those of SQL clients, recorded once in a while."""

from __future__ import annotations

from gateway.frontends.authentication import Authenticator
from gateway.model.credentials import Credentials
from gateway.model.principal import Principal
from gateway.model.statement import Client

RECORDED_AGAIN_S = 900.0
"""How often a login that goes on asking is recorded: plugins ask every few seconds."""


class RestLogins:
    """Logs in who sends a request."""

    def __init__(self, authenticator: Authenticator, protocol: str) -> None:
        """`protocol`: what the record says of how they came."""
        self._authenticator = authenticator
        self._protocol = protocol

    async def log_in(self, shown: Credentials, address: str) -> Principal:
        """Return who it is. Raises AuthenticationFailed."""
        return await self._authenticator.login_each_time(
            shown,
            Client(address=address, protocol=self._protocol),
            record_every_s=RECORDED_AGAIN_S,
        )
