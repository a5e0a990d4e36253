"""The Ranger-compatible admin API, put together from settings, users and the ledger's database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.admin.ranger.access import Access, AdminRights
from gateway.admin.ranger.api import RangerApi
from gateway.admin.ranger.servicedefs import ship
from gateway.admin.ranger.store import Store
from gateway.admin.ranger.transactions import WriteTransaction
from gateway.app.proving import fault_of
from gateway.app.rest_logins import RestLogins
from gateway.app.rule_files import definition_paths, read_texts
from gateway.frontends.authentication import Authenticator
from gateway.policy.documents import parse_document
from gateway.policy.sqltext import sample
from gateway.reader.port import ReaderPort
from gateway.settings.models import PolicySettings, RangerApiSettings


class RangerAdmin:
    """The API with its store and its logins; `close` ends them."""

    def __init__(
        self,
        settings: RangerApiSettings,
        policies: PolicySettings,
        dsn: str,
        authenticator: Authenticator,
        reader: ReaderPort,
    ) -> None:
        """Raises Faults when the service definitions of the rules cannot be read. `reader` reads the texts of
        policies before they are stored."""
        self._logins = RestLogins(authenticator, "ranger-rest")
        shipped = definitions(policies)

        async def prepare(writing: WriteTransaction) -> None:
            await ship(writing, shipped)

        self._store = Store(dsn, prepare=prepare)
        rights = AdminRights(
            administrators=frozenset(settings.administrators),
            administrator_groups=frozenset(settings.administrator_groups),
            plugins=frozenset(settings.plugins),
            delegates_may_override=settings.delegates_may_override,
        )

        async def text_fault(text: str, kind: str) -> str | None:
            return await fault_of((sample(text), kind), reader)

        self.api = RangerApi(self._store, Access(rights, text_fault=text_fault), self._logins.log_in)

    async def close(self) -> None:
        self._logins.close()
        await self._store.close()


def definitions(policies: PolicySettings) -> list[Mapping[str, Any]]:
    """Return the service definitions of the rules, as Ranger's JSON. Raises Faults."""
    texts = read_texts(definition_paths(policies))
    return [parse_document(text, file).data for file, text in texts.items()]
