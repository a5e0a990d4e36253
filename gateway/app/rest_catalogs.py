"""Iceberg REST catalogs by the parameters that Spark is given for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.catalog.iceberg_client import HEADER, IcebergRestClient, RestArguments
from gateway.catalog.rest import RestLogin

REST_CLASS = "org.apache.iceberg.rest.RESTCatalog"
"""Iceberg's own client, as `catalog-impl` names it."""


def is_rest(parameters: Mapping[str, object]) -> bool:
    """Whether parameters of a catalog of Iceberg's are those of a REST catalog."""
    given = {key.lower(): value for key, value in parameters.items()}
    return str(given.get("type", "")).lower() == "rest" or given.get("catalog-impl") == REST_CLASS


def open_rest_client(
    given: Mapping[str, str], parameters: Callable[[], Mapping[str, str]]
) -> IcebergRestClient:
    """Return what asks a catalog, to be opened. `parameters` (lower-case keys) are read again for each
    login."""
    return IcebergRestClient(**rest_arguments(given, parameters))


def rest_arguments(given: Mapping[str, str], parameters: Callable[[], Mapping[str, str]]) -> RestArguments:
    """Return what a client is made with, as `open_rest_client` makes it."""
    return {
        "url": given.get("uri", ""),
        "warehouse": given.get("warehouse", ""),
        "prefix": given.get("prefix", ""),
        "separator": given.get("namespace-separator", ""),
        "login": lambda: _read_login(parameters()),
    }


def _read_login(given: Mapping[str, str]) -> RestLogin:
    return RestLogin(
        token=given.get("token", ""),
        credential=given.get("credential", ""),
        token_url=given.get("oauth2-server-uri", "v1/oauth/tokens"),
        scope=given.get("scope", "catalog"),
        more={key: given[key] for key in ("audience", "resource") if key in given},
        headers={key.removeprefix(HEADER): value for key, value in given.items() if key.startswith(HEADER)},
    )
