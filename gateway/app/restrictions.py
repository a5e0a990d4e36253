"""Asks Iceberg REST catalogs what they restrict for a user, and keeps each answer for a short time.

An answer is of one user with one login: neither is asked for the other, and no other user is given it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from gateway.app.catalogs import SparkCatalogs
from gateway.app.rest_catalogs import open_rest_client
from gateway.catalog.iceberg_client import IcebergRestClient
from gateway.catalog.read_restrictions import read_restrictions
from gateway.catalog.readable import CatalogUnavailable
from gateway.catalog.rest import CatalogError
from gateway.catalog.token_exchange import NotExchanged
from gateway.errors import Faults
from gateway.model.catalog import Table, TableName
from gateway.model.restrictions import TableRestrictions
from gateway.session.ports import ASKER
from gateway.session.restricted_catalog import RestrictionReader
from gateway.settings.models import Settings

_log = structlog.get_logger(__name__)

MAX_ANSWERS: Final = 10_000
"""Answers that are kept."""
MAX_CLIENTS: Final = 512
"""Logins whose connections are kept."""
USUAL_AGE_S: Final = 30.0
"""Seconds for which an answer serves, where the settings do not say."""

_Key = tuple[str, bytes, TableName]
"""A user, a digest of what he has shown, and a table."""


@dataclass(frozen=True, slots=True)
class _KeptAnswer:
    answer: TableRestrictions
    until: float


class CatalogRestrictions:
    """See RestrictionSource."""

    def __init__(
        self,
        asked: SparkCatalogs,
        ages_s: Mapping[str, float] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ages_s`: seconds for which answers of a catalog serve; of others, USUAL_AGE_S."""
        self._catalogs = asked
        self._ages_s = ages_s or {}
        self._clock = clock
        self._kept: OrderedDict[_Key, _KeptAnswer] = OrderedDict()
        self._asking: dict[_Key, asyncio.Task[TableRestrictions]] = {}
        self._clients: OrderedDict[bytes, asyncio.Task[IcebergRestClient]] = OrderedDict()

    @property
    def catalogs(self) -> frozenset[str]:
        return self._catalogs.list_rest_catalogs()

    async def ask(
        self, reader: RestrictionReader, name: TableName, table: Table | None = None, *, anew: bool = False
    ) -> TableRestrictions:
        user, asker = reader.user, ASKER.get()
        shown = hashlib.sha256(f"{asker.is_gateway} {asker.token}".encode()).digest()
        key = (user, shown, name)  # RULE (restrictions-per-user)
        kept = None if anew else self._kept.get(key)
        if kept is not None and self._clock() < kept.until:  # RULE (restrictions-age)
            self._kept.move_to_end(key)
            return kept.answer
        task = None if anew else self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._load(key))
            task.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(task)

    def _forget(self, key: _Key, done: asyncio.Task[TableRestrictions]) -> None:
        if self._asking.get(key) is done:
            del self._asking[key]

    async def aclose(self) -> None:
        """Stop asking, and close every connection."""
        tasks = [*self._asking.values(), *self._clients.values()]
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for one in ended:
            if isinstance(one, IcebergRestClient):
                await one.__aexit__()

    async def _load(self, key: _Key) -> TableRestrictions:
        name = key[-1]
        begun = self._clock()
        try:
            client = await self.open(name.catalog, key[0])
            answer = await client.load_table(name.database, name.table)
        except CatalogError as error:
            return self._refuse(name, f"it answers with status {error.status}")
        except CatalogUnavailable as error:
            return self._refuse(name, f"it gives no answer ({error})")
        except NotExchanged as error:
            return self._refuse(name, f"it cannot be asked as this user: {error}")
        except Faults:
            return self._refuse(name, "its parameters cannot be read now")
        told = read_restrictions(name.catalog, answer)
        if told.fault:
            _log.warning("restriction_not_understood", table=str(name), reason=told.fault)
        # From before it was asked: it may be from that moment.
        age_s = self._ages_s.get(name.catalog, USUAL_AGE_S)
        self._kept[key] = _KeptAnswer(told, begun + age_s)
        self._kept.move_to_end(key)
        while len(self._kept) > MAX_ANSWERS:
            self._kept.popitem(last=False)
        return told

    @staticmethod
    def _refuse(name: TableName, why: str) -> TableRestrictions:
        """Return what stands in the place of an answer. It is not kept."""
        _log.warning("restrictions_not_asked", table=str(name), reason=why)
        # RULE (restrictions-unavailable)
        return TableRestrictions(catalog=name.catalog, fault=f"what it restricts is not known: {why}")

    async def open(self, catalog: str, user: str) -> IcebergRestClient:
        """Return a catalog with the login for a user, opened once for each. Raises CatalogUnavailable, Faults
        and NotExchanged."""
        given = await self._catalogs.find_rest_login(catalog, user)
        key = hashlib.sha256(json.dumps([catalog, sorted(given.items())]).encode()).digest()
        task = self._clients.get(key)
        if task is None:
            task = self._clients[key] = asyncio.create_task(
                open_rest_client(given, lambda: given).__aenter__()
            )
            while len(self._clients) > MAX_CLIENTS:
                await self._discard(self._clients.popitem(last=False)[1])
        self._clients.move_to_end(key)
        try:
            return await asyncio.shield(task)
        except CatalogUnavailable:
            self._clients.pop(key, None)
            raise

    @staticmethod
    async def _discard(task: asyncio.Task[IcebergRestClient]) -> None:
        if task.done() and not task.cancelled() and task.exception() is None:
            await task.result().__aexit__()


def ask_catalogs(settings: Settings, catalogs: SparkCatalogs) -> CatalogRestrictions:
    """Return what asks the REST catalogs of the settings."""
    ages_s = {entry.name.lower(): entry.catalog.read_restrictions_s for entry in settings.catalogs}
    return CatalogRestrictions(catalogs, ages_s)
