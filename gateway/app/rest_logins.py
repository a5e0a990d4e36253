"""Logins of the admin listener's REST APIs: those of SQL clients, recorded once in a while."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from gateway.frontends.authentication import Authenticator
from gateway.model.principal import Principal
from gateway.model.statement import Client

RECORDED_AGAIN_S = 900.0
"""How often a login that goes on asking is recorded: plugins ask every few seconds."""
_MAX_REMEMBERED = 10_000


class RestLogins:
    """Logs in who sends a request; `close` ends the authenticator."""

    def __init__(
        self, authenticator: Authenticator, protocol: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`protocol`: what the record says of how they came."""
        self._authenticator = authenticator
        self._protocol = protocol
        self._clock = clock
        self._recorded: OrderedDict[tuple[str, str], float] = OrderedDict()

    async def log_in(self, user: str, password: str, address: str) -> Principal:
        """Return who it is. Raises AuthenticationFailed."""
        key = (user, address)
        fresh = self._clock() - self._recorded.get(key, float("-inf")) < RECORDED_AGAIN_S
        client = Client(address=address, protocol=self._protocol)
        principal = await self._authenticator.login(user, password, client, record_success=not fresh)
        if not fresh:
            self._recorded[key] = self._clock()
            self._recorded.move_to_end(key)
            while len(self._recorded) > _MAX_REMEMBERED:
                self._recorded.popitem(last=False)
        return principal

    def close(self) -> None:
        self._authenticator.close()
