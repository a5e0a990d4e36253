"""Catalogs of the settings, and those of its metalakes, as a command opens them: where they are kept, or else
through Spark.

What is read and changed here is not judged, and stands in no record: it is done with the secrets of the
settings, by whoever may read these. The gateway itself has no part in it, and imports nothing of this.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Self

from gateway.app.explaining import asking, make_reader, minor_of_spark
from gateway.app.metalakes import metalake_states, open_metalake
from gateway.app.providers import load_shipped_providers
from gateway.app.rest_catalogs import rest_arguments
from gateway.app.revealing import parameters_of
from gateway.app.upstream import Queries
from gateway.catalog.gravitino import GravitinoMetalake
from gateway.catalog.hive_metastore import HiveMetastoreCatalog
from gateway.catalog.iceberg_rest import IcebergRestCatalog
from gateway.catalog.live import LiveCatalog
from gateway.catalog.memory import MemoryCatalog
from gateway.catalog.readable import CatalogUnavailable, WritableCatalog
from gateway.catalog.spark_sql import SparkSqlCatalog
from gateway.errors import Faults
from gateway.model.metalakes import RELATIONAL, MetalakeCatalog
from gateway.session.ports import BackendError
from gateway.settings import Settings
from gateway.settings.catalogs import CatalogConnection, CatalogEntry


@dataclass(frozen=True, slots=True)
class FoundCatalog:
    """A catalog that a name means: one of the settings, or one that a metalake of these has."""

    entry: CatalogEntry
    listed: str = ""
    """The name that it has in the metalake of the entry; empty: it is the entry itself."""

    @property
    def name(self) -> str:
        """Its name, as it is written where it stands."""
        return self.listed or self.entry.name


class CatalogAccess:
    """Opens catalogs, and closes them all at its end; Spark is asked when the first one needs it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stack = AsyncExitStack()
        self._spark: tuple[Queries, LiveCatalog] | None = None
        self._metalakes: dict[str, tuple[GravitinoMetalake, tuple[MetalakeCatalog, ...]]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def find_catalog(self, name: str) -> FoundCatalog | None:
        """Return what a name means, in any case; None where there is no such catalog. Raises Faults,
        CatalogUnavailable: a metalake that does not answer may have it."""
        entry = entry_named(self._settings, name)
        if entry is not None:
            return FoundCatalog(entry)
        lakes = self._settings.metalakes
        if not lakes:
            return None
        # Of two that have it, it is whose the gateway took it from.
        states = [state for _, state in await metalake_states(self._settings)]
        first = {one.name for one in states if name.lower() in {of.name.lower() for of in one.catalogs}}
        silent: CatalogUnavailable | None = None
        for lake in sorted(lakes, key=lambda lake: lake.name not in first):
            try:
                _, catalogs = await self._ask_metalake(lake)
            except CatalogUnavailable as error:
                silent = silent or error
                continue
            for one in catalogs:
                if one.name.lower() == name.lower() and one.type == RELATIONAL:
                    return FoundCatalog(lake, one.name)
        if silent is not None:
            raise silent
        return None

    async def open(self, named: FoundCatalog) -> WritableCatalog:
        """Return a catalog, open. Raises CatalogUnavailable, BackendUnavailable when it is through Spark, and
        Faults for a secret that cannot be had, or a type that is no catalog by itself."""
        entry = named.entry
        if named.listed:
            return await self._of_metalake(entry, named.listed)
        direct = open_catalog(entry)
        if direct is not None:
            return await self._stack.enter_async_context(direct)
        if not entry.on_spark:
            raise Faults([f"`{entry.name}` is a list of catalogs and has no databases of its own"])
        queries, live = await self._ask_spark()
        return await self._stack.enter_async_context(
            SparkSqlCatalog(entry.name, queries.query, live, refusal=BackendError)
        )

    async def _of_metalake(self, lake: CatalogEntry, name: str) -> WritableCatalog:
        metalake, catalogs = await self._ask_metalake(lake)
        provider = next(one.provider for one in catalogs if one.name == name)
        row = load_shipped_providers().row(provider, minor_of_spark(self._settings))
        if row is None:
            raise Faults([f"`{name}`: the types of provider `{provider}` are not known"])
        return await self._stack.enter_async_context(metalake.catalog(name, row.types))

    async def _ask_metalake(
        self, lake: CatalogEntry
    ) -> tuple[GravitinoMetalake, tuple[MetalakeCatalog, ...]]:
        if lake.name not in self._metalakes:
            metalake = await self._stack.enter_async_context(open_metalake(lake))
            self._metalakes[lake.name] = (metalake, await metalake.catalogs())
        return self._metalakes[lake.name]

    async def spark(self) -> Queries:
        """Return Spark as the catalog asks it. Raises BackendUnavailable."""
        return (await self._ask_spark())[0]

    async def _ask_spark(self) -> tuple[Queries, LiveCatalog]:
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


def open_catalog(entry: CatalogEntry) -> AbstractAsyncContextManager[WritableCatalog] | None:
    """Return a catalog, to be opened; None when Spark alone can say what is in it, or when it is a list of
    others. Raises Faults when a secret cannot be had."""
    given = parameters_of(entry)
    match entry.catalog.type:
        case "memory":
            return MemoryCatalog(entry.catalog.default_db)
        case "hive" | "generic-hive-metastore":
            return HiveMetastoreCatalog(given["hive.metastore.uris"])
        case "iceberg" if given.get("type", "").lower() == "rest":
            return IcebergRestCatalog(**rest_arguments(given, lambda: parameters_of(entry)))
        case "iceberg" if given.get("type", "").lower() == "hive" and "uri" in given:
            return HiveMetastoreCatalog(given["uri"])
        case _:
            return None
