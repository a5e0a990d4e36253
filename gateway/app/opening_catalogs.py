"""Opens a catalog of the settings where it is kept: at its metastore or server, or else through Spark."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from gateway.catalog.gravitino import GravitinoMetalake
from gateway.catalog.hive_metastore import HiveMetastoreCatalog
from gateway.catalog.iceberg_rest import HEADER, IcebergRestCatalog
from gateway.catalog.memory import MemoryCatalog
from gateway.catalog.readable import WritableCatalog
from gateway.catalog.rest import RestLogin
from gateway.catalog.spark_settings import NamedCatalog
from gateway.errors import Faults
from gateway.settings.catalogs import CatalogEntry
from gateway.settings.metalakes import SET, metalake_settings
from gateway.settings.section import Secret

HIDDEN = "***"


def open_catalog(entry: CatalogEntry) -> AbstractAsyncContextManager[WritableCatalog] | None:
    """Return a catalog, to be opened; None when Spark alone can say what is in it, or when it is a list of
    others. Raises Faults when a secret cannot be had."""
    given = _parameters(entry)
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
                login=lambda: _iceberg_login(_parameters(entry)),
            )
        case "iceberg" if given.get("type", "").lower() == "hive" and "uri" in given:
            return HiveMetastoreCatalog(given["uri"])
        case _:
            return None


def open_metalake(entry: CatalogEntry) -> GravitinoMetalake:
    """Return the metalake of an entry of type `gravitino`, to be opened. Raises Faults."""
    settings = metalake_settings(entry.catalog.connection_params)

    def login() -> RestLogin:
        return _metalake_login(settings.auth, _parameters(entry))

    login()  # a secret that is missing is told before anybody is asked
    return GravitinoMetalake(
        settings.uri,
        settings.metalake,
        login,
        timeout_s=settings.timeout_s,
        max_bytes=settings.max_bytes,
    )


def _iceberg_login(given: Mapping[str, str]) -> RestLogin:
    return RestLogin(
        token=given.get("token", ""),
        credential=given.get("credential", ""),
        token_url=given.get("oauth2-server-uri", "v1/oauth/tokens"),
        scope=given.get("scope", "catalog"),
        more={key: given[key] for key in ("audience", "resource") if key in given},
        headers={key.removeprefix(HEADER): value for key, value in given.items() if key.startswith(HEADER)},
    )


def _metalake_login(auth: str, given: Mapping[str, str]) -> RestLogin:
    match auth:
        case "none":
            return RestLogin()
        case "simple":
            # Gravitino's simple login: a user by name, whose password is not looked at.
            return RestLogin(user=given.get("user", "sluice"), password="dummy")  # noqa: S106
        case "basic":
            return RestLogin(user=given.get("user", ""), password=given.get("password", ""))
        case _:
            url, path = given.get("oauth2-server-uri", ""), given.get("oauth2-token-path", "")
            return RestLogin(
                token_url=f"{url.rstrip('/')}/{path.lstrip('/')}" if path else url,
                credential=given.get("credential", ""),
                scope=given.get("scope", ""),
            )


def revealed(entry: CatalogEntry, *, hidden: bool = False) -> NamedCatalog:
    """Return a catalog with its secrets, or with `***` in their places. Raises Faults."""
    parameters: dict[str, str] = {}
    for key, value in entry.catalog.connection_params.items():
        if not isinstance(value, Secret):
            parameters[key] = value
        elif hidden:
            parameters[key] = HIDDEN
        else:
            try:
                parameters[key] = value.reveal()
            except Faults as error:
                raise Faults([f"catalog `{entry.name}`, `{key}`: {one}" for one in error.faults]) from None
    return NamedCatalog(
        name=entry.name,
        type=entry.catalog.type,
        parameters=parameters,
        default_database=entry.catalog.default_db,
        is_default=entry.catalog.is_default,
    )


def _parameters(entry: CatalogEntry) -> Mapping[str, str]:
    """Return the parameters by lower-case key, secrets revealed, but for those of single catalogs."""
    own = {k: v for k, v in entry.catalog.connection_params.items() if not k.lower().startswith(SET)}
    catalog = entry.catalog.model_copy(update={"connection_params": own})
    shown = revealed(entry.model_copy(update={"catalog": catalog}))
    return {key.lower(): value for key, value in shown.parameters.items()}
