"""What asks an Iceberg REST catalog: its configuration, logins, paths, and whole answers about tables.

By itself it changes nothing; what is passed on through `relay` was judged by whoever passes it on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypedDict
from urllib.parse import quote, unquote

from gateway.catalog.readable import CatalogUnavailable
from gateway.catalog.rest import (
    CatalogError,
    Login,
    RestAnswer,
    RestClient,
    items,
    properties,
    read_object,
    unavailable,
)

_SEPARATOR = "\x1f"
_VIEWS = "GET /v1/{prefix}/namespaces/{namespace}/views"
"""The route of lists of views, as servers list routes: one that lists others has no views."""
HEADER = "header."
"""What parameters begin with that are headers."""


class RestArguments(TypedDict):
    """What an `IcebergRestClient` is made with."""

    url: str
    warehouse: str
    prefix: str
    separator: str
    login: Login


class IcebergRestClient:
    """Asks one catalog, while it is open."""

    def __init__(
        self, url: str, *, warehouse: str = "", prefix: str = "", separator: str = "", login: Login
    ) -> None:
        """`separator`: what stands between the levels of a namespace, percent-encoded as servers tell it."""
        self._client = RestClient(url, login, told=_read_error)
        self._warehouse = warehouse
        self._url = url
        own = {"prefix": prefix, "namespace-separator": separator}
        self._own = {key: value for key, value in own.items() if value}
        self._prefix = prefix
        self._separator = _SEPARATOR
        self._has_views = True

    async def __aenter__(self) -> Self:
        try:
            query = {"warehouse": self._warehouse} if self._warehouse else None
            self._configure(read_object(await self._ask("GET", "v1/config", query), "configuration"))
        except CatalogError as error:
            await self._client.close()
            raise unavailable(error) from None
        except BaseException:
            await self._client.close()
            raise
        return self

    def _configure(self, config: Mapping[str, Any]) -> None:
        # What the server overrides comes before what we were told, and that before its defaults.
        usual, always = properties(config.get("defaults")), properties(config.get("overrides"))
        told = {**usual, "uri": self._url, **self._own, **always}
        self._prefix = told.get("prefix", "")
        self._separator = unquote(told.get("namespace-separator", "")) or _SEPARATOR
        if told["uri"] != self._url:
            self._client.move(told["uri"])
        self._client.set_wanted_headers(_headers(usual), _headers(always))
        routes = config.get("endpoints")
        self._has_views = not routes or _VIEWS in items(routes, "endpoints")

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def load_table(self, database: str, name: str) -> Any:
        """Return the server's whole answer about a table, of now: no earlier one is asked to be confirmed.
        Raises CatalogUnavailable, and CatalogError for an error status."""
        path = f"{self._namespace(database)}/tables/{quote(name, safe='')}"
        return await self._ask("GET", path, {"snapshots": "refs"})

    async def relay(
        self,
        method: str,
        path: str,
        *,
        namespace: Sequence[str] | None = None,
        query: Mapping[str, str] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> RestAnswer:
        """Return what the server answers to a request, whatever its status. `path`: what stands behind the
        prefix, or behind the namespace where there is one, each part of it quoted. Raises CatalogUnavailable,
        and Faults for a secret that cannot be had."""
        if namespace is not None:
            path = f"namespaces/{quote(self.join_levels(namespace), safe='')}{path}"
        return await self._client.relay(
            method, self._route(path), query=query, content=content, headers=headers
        )

    def join_levels(self, namespace: Sequence[str]) -> str:
        """Return a namespace as the server has it in a parameter. Raises CatalogUnavailable for a level that
        the server would take for two."""
        if any(self._separator in level for level in namespace):
            raise CatalogUnavailable("a namespace with the server's own separator in a name")
        return self._separator.join(namespace)

    async def _ask(self, method: str, path: str, query: Mapping[str, str] | None = None) -> Any:
        return await self._client.ask(method, path, query=query)

    def _route(self, path: str) -> str:
        prefix = "/".join(quote(part, safe="") for part in self._prefix.split("/") if part)
        return f"v1/{prefix}/{path}" if prefix else f"v1/{path}"

    def _namespace(self, database: str) -> str:
        return self._route(f"namespaces/{quote(self._separator.join(database.split('.')), safe='')}")


def _headers(told: Mapping[str, str]) -> dict[str, str]:
    return {key.removeprefix(HEADER): value for key, value in told.items() if key.startswith(HEADER)}


def _read_error(answer: Any) -> tuple[str, str]:
    return str(answer["error"].get("type", "")), str(answer["error"].get("message", ""))
