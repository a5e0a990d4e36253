"""Opens a catalog of the settings where it is kept: at its metastore or server, or else through Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from gateway.app.catalogs import revealed
from gateway.catalog.gravitino import RELATIONAL, GravitinoEntry, GravitinoMetalake
from gateway.catalog.hive_metastore import HiveMetastoreCatalog
from gateway.catalog.iceberg_rest import IcebergRestCatalog
from gateway.catalog.memory import MemoryCatalog
from gateway.catalog.readable import ReadableCatalog
from gateway.catalog.rest import RestLogin
from gateway.errors import Faults
from gateway.settings.catalogs import CatalogEntry


def open_catalog(entry: CatalogEntry) -> AbstractAsyncContextManager[ReadableCatalog] | None:
    """Return a catalog, to be opened; None when Spark alone can say what is in it, or when it is a list of
    others. Raises Faults when a secret cannot be had."""
    given = _parameters(entry)
    match entry.catalog.type:
        case "memory":
            return MemoryCatalog(entry.catalog.default_db)
        case "hive" | "generic-hive-metastore":
            return HiveMetastoreCatalog(given["hive.metastore.uris"])
        case "iceberg" if given.get("type", "").lower() == "rest":
            login = RestLogin(
                token=given.get("token", ""),
                credential=given.get("credential", ""),
                token_url=given.get("oauth2-server-uri", ""),
                scope=given.get("scope", ""),
            )
            return IcebergRestCatalog(
                given.get("uri", ""),
                warehouse=given.get("warehouse", ""),
                prefix=given.get("prefix", ""),
                login=login,
            )
        case "iceberg" if given.get("type", "").lower() == "hive":
            return HiveMetastoreCatalog(given.get("uri", ""))
        case _:
            return None


def open_metalake(entry: CatalogEntry) -> GravitinoMetalake:
    """Return the metalake of an entry of type `gravitino`, to be opened. Raises Faults."""
    given = _parameters(entry)
    kind = given.get("auth", "simple").lower()
    match kind:
        case "none":
            login = RestLogin()
        case "simple":
            # Gravitino's simple login: a user by name, without a password.
            login = RestLogin(user=given.get("user", "sluice"), password="dummy")  # noqa: S106
        case "basic":
            login = RestLogin(user=given.get("user", ""), password=given.get("password", ""))
        case "oauth2":
            url, path = given.get("oauth2-server-uri", ""), given.get("oauth2-token-path", "")
            login = RestLogin(
                token_url=f"{url.rstrip('/')}/{path.lstrip('/')}" if path else url,
                credential=given.get("credential", ""),
                scope=given.get("scope", ""),
            )
        case _:
            raise Faults(
                [f"catalog `{entry.name}`: `auth` is none, simple, basic or oauth2, and not `{kind}`"]
            )
    return GravitinoMetalake(given["uri"], given["metalake"], login)


def taken(found: Sequence[GravitinoEntry], names: Sequence[str], *, iceberg: bool) -> dict[str, str]:
    """Say of each catalog of a metalake why it is not for Spark; empty: it could be."""
    reserved = {name.lower() for name in names}
    why: dict[str, str] = {}
    for one in found:
        if one.type != RELATIONAL:
            why[one.name] = f"of type {one.type}, which holds no tables"
        elif not one.in_use:
            why[one.name] = "not in use"
        elif not one.provider:
            why[one.name] = "without a provider"
        elif one.name.lower() in reserved:
            why[one.name] = "its name is taken"
        elif one.provider == "lakehouse-iceberg" and not iceberg:
            why[one.name] = "Iceberg is not enabled (`iceberg: true`)"
        else:
            why[one.name] = ""
    return why


def _parameters(entry: CatalogEntry) -> Mapping[str, str]:
    return {key.lower(): value for key, value in revealed(entry).parameters.items()}
