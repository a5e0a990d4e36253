"""Opens a catalog of the settings where it is kept: at its metastore or server. No gateway does so."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from gateway.app.revealing import parameters_of
from gateway.catalog.hive_metastore import HiveMetastoreCatalog
from gateway.catalog.iceberg_rest import HEADER, IcebergRestCatalog
from gateway.catalog.memory import MemoryCatalog
from gateway.catalog.readable import WritableCatalog
from gateway.catalog.rest import RestLogin
from gateway.settings.catalogs import CatalogEntry


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
            return IcebergRestCatalog(
                given.get("uri", ""),
                warehouse=given.get("warehouse", ""),
                prefix=given.get("prefix", ""),
                separator=given.get("namespace-separator", ""),
                login=lambda: _iceberg_login(parameters_of(entry)),
            )
        case "iceberg" if given.get("type", "").lower() == "hive" and "uri" in given:
            return HiveMetastoreCatalog(given["uri"])
        case _:
            return None


def _iceberg_login(given: Mapping[str, str]) -> RestLogin:
    return RestLogin(
        token=given.get("token", ""),
        credential=given.get("credential", ""),
        token_url=given.get("oauth2-server-uri", "v1/oauth/tokens"),
        scope=given.get("scope", "catalog"),
        more={key: given[key] for key in ("audience", "resource") if key in given},
        headers={key.removeprefix(HEADER): value for key, value in given.items() if key.startswith(HEADER)},
    )
