"""Questions to the lineage graph over REST, put together from settings, users, policies and the database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

from gateway.admin.lineage.api import MAX_AT_ONCE, LineageApi
from gateway.admin.lineage.sight import Sight
from gateway.app.rest_logins import administrators_of, log_in_rest
from gateway.database.migrate import LazyPool
from gateway.errors import PoliciesStale
from gateway.frontends.authentication import Authenticator
from gateway.model.context import AccessContext
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.policy.engine import engine_for
from gateway.session.ports import Catalog
from gateway.settings.listeners import LineageApiSettings

PROTOCOL = "lineage-rest"
_TIMEOUT_S = 30.0
"""For one look into the database."""


class LineageAdmin:
    """The API with its connections; `close` ends them."""

    def __init__(
        self,
        settings: LineageApiSettings,
        dsn: str,
        authenticator: Authenticator,
        *,
        policies: Callable[[], PolicySet],
        stale: Callable[[], str | None],
        catalog: Catalog,
    ) -> None:
        """`stale` says why the policies are too old to be relied on, None when they are not."""
        self._policies = policies
        self._stale = stale
        self._catalog = catalog
        self._pool = LazyPool(dsn, "sluice-lineage", most=MAX_AT_ONCE, timeout_s=_TIMEOUT_S)
        self.api = LineageApi(
            self._reading,
            administrators_of(settings),
            partial(log_in_rest, authenticator, PROTOCOL),
            self._sight,
        )

    async def close(self) -> None:
        self._pool.close()

    def _sight(self, connection: Any, principal: Principal, address: str) -> Sight:
        stale = self._stale()
        if stale is not None:
            raise PoliciesStale(stale)
        return sight(connection, principal, self._policies(), self._catalog, address)

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[Any]:
        async with (
            self._pool.acquire() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            yield connection


def sight(
    connection: Any, principal: Principal, policies: PolicySet, catalog: Catalog, address: str = ""
) -> Sight:
    """Return what somebody may know of now, by these policies."""
    context = AccessContext(
        time=datetime.now(UTC),
        client_ip=address or None,
        client_type=PROTOCOL,
        action="METADATA OPERATION",
    )
    return Sight(connection, principal, engine_for(policies), context, catalog)
