"""Proposals of tags over REST, put together from settings, users and the database."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from gateway.admin.tag_proposals import TagsApi
from gateway.app.rest_logins import RestLogins
from gateway.app.tag_propagation import connected
from gateway.frontends.authentication import Authenticator
from gateway.lineage.proposals import as_json, decide, load_proposal, proposals
from gateway.settings.listeners import TagApiSettings


class TagsAdmin:
    """The REST API of proposals."""

    def __init__(self, settings: TagApiSettings, dsn: str, authenticator: Authenticator) -> None:
        self._dsn = dsn
        self._logins = RestLogins(authenticator, "tags-rest")
        self.api = TagsApi(
            self,
            self._logins.log_in,
            administrators=settings.administrators,
            groups=settings.administrator_groups,
        )

    async def list_proposals(
        self, *, states: Collection[str], tag: str | None, name: str, gone: bool, limit: int
    ) -> list[dict[str, Any]]:
        """Return proposals in the order in which they came."""
        async with connected(self._dsn) as connection:
            found = await proposals(connection, states=states, tag=tag, name=name, gone=gone, limit=limit)
        return [as_json(one) for one in found]

    async def find_proposal(self, proposal: int) -> dict[str, Any] | None:
        """Return a proposal with its history, or None."""
        async with connected(self._dsn) as connection:
            return await load_proposal(connection, proposal)

    async def decide(self, ids: Sequence[int], state: str, user: str, *, again: bool) -> list[dict[str, Any]]:
        """Decide all or none of them. Raises Faults."""
        async with connected(self._dsn) as connection:
            return [as_json(one) for one in await decide(connection, ids, state, user, again=again)]
