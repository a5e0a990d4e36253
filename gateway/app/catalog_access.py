"""Catalogs of the settings as a command opens them: where they are kept, or else through Spark.

What is read and changed here is not judged, and stands in no record: it is done with the secrets of the
settings, by whoever may read these. The gateway itself has no part in it, and imports nothing of this.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Self

from gateway.app.explaining import asking, make_reader
from gateway.app.opening_catalogs import open_catalog
from gateway.app.upstream import Queries
from gateway.catalog.live import LiveCatalog
from gateway.catalog.readable import WritableCatalog
from gateway.catalog.spark_sql import SparkSqlCatalog
from gateway.errors import Faults
from gateway.session.ports import BackendError
from gateway.settings import Settings
from gateway.settings.catalogs import CatalogConnection, CatalogEntry


class CatalogAccess:
    """Opens catalogs, and closes them all at its end; Spark is asked when the first one needs it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stack = AsyncExitStack()
        self._spark: tuple[Queries, LiveCatalog] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def open(self, entry: CatalogEntry) -> WritableCatalog:
        """Return a catalog, open. Raises CatalogUnavailable, BackendUnavailable when it is through Spark, and
        Faults for a secret that cannot be had, or a type that is no catalog by itself."""
        direct = open_catalog(entry)
        if direct is not None:
            return await self._stack.enter_async_context(direct)
        if not entry.on_spark:
            raise Faults([f"`{entry.name}` is a list of catalogs, which has no databases itself"])
        queries, live = await self._asked_spark()
        return await self._stack.enter_async_context(
            SparkSqlCatalog(entry.name, queries.query, live, refusal=BackendError)
        )

    async def spark(self) -> Queries:
        """Return Spark as the catalog asks it. Raises BackendUnavailable."""
        return (await self._asked_spark())[0]

    async def _asked_spark(self) -> tuple[Queries, LiveCatalog]:
        if self._spark is None:
            reader = await self._stack.enter_async_context(await make_reader(self._settings))
            self._spark = await self._stack.enter_async_context(asking(self._settings, reader))
        return self._spark


def entry_named(settings: Settings, name: str) -> CatalogEntry | None:
    """Return a catalog by its name, in any case; one that only `policies.catalogs` has is Spark's own."""
    listed = {entry.name.lower(): entry for entry in settings.catalogs}
    own = {
        known.lower(): CatalogEntry(name=known, catalog=CatalogConnection(type="spark"), policies=service)
        for known, service in settings.policies.catalogs.items()
    }
    return {**own, **listed}.get(name.lower())
