"""Open sessions over REST, put together from settings, users and the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.admin.open_sessions import SessionsApi
from gateway.app.gateway_requests import end_sessions, list_sessions
from gateway.app.rest_logins import RestLogins
from gateway.frontends.authentication import Authenticator
from gateway.settings.listeners import SessionApiSettings


class SessionsAdmin:
    """The REST API of open sessions."""

    def __init__(self, settings: SessionApiSettings, dsn: str, authenticator: Authenticator) -> None:
        self._dsn = dsn
        self._logins = RestLogins(authenticator, "sessions-rest")
        self.api = SessionsApi(
            self,
            self._logins.log_in,
            administrators=settings.administrators,
            groups=settings.administrator_groups,
        )

    async def list_sessions(self) -> tuple[list[dict[str, Any]], Sequence[str]]:
        """Return the sessions of all gateways, and what is to be said of those that did not answer."""
        return await list_sessions(self._dsn)

    async def end(self, user: str, by: str) -> tuple[int, Sequence[str]]:
        """End all sessions of a user in all gateways."""
        return await end_sessions(self._dsn, user, by)
