"""The catalogs behind the service, asked in the name of whoever calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import orjson
import structlog

from gateway.catalog.iceberg_client import IcebergRestClient
from gateway.catalog.readable import CatalogUnavailable
from gateway.catalog.rest import RestAnswer
from gateway.catalog.token_exchange import NotExchanged
from gateway.errors import Faults
from gateway.rest.requests import RestCall, RestFault

_log = structlog.get_logger(__name__)

_WORDS = 300
"""Characters of a catalog's own message that are passed on."""


class OpensCatalogs(Protocol):
    """Logs in to catalogs for users."""

    async def open(self, catalog: str, user: str) -> IcebergRestClient:
        """Return a catalog with the login for a user. Raises CatalogUnavailable, Faults and NotExchanged."""
        ...


class CatalogRelay:
    """Passes calls on that were judged, or that nobody is told the answer of before it is."""

    def __init__(self, catalogs: OpensCatalogs) -> None:
        self._catalogs = catalogs

    async def ask(
        self,
        call: RestCall,
        method: str,
        path: str,
        *,
        namespace: Sequence[str] | None = None,
        query: Mapping[str, str] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> RestAnswer:
        """Return the catalog's answer, whatever its status. Raises RestFault where there is none."""
        try:
            client = await self._catalogs.open(call.catalog, call.principal.user)
            return await client.relay(
                method, path, namespace=namespace, query=query, content=content, headers=headers
            )
        except CatalogUnavailable as why:
            _log.warning("rest_catalog_unavailable", catalog=call.catalog, reason=str(why))
            raise RestFault(
                503, "ServiceUnavailableException", f"catalog `{call.catalog}` gives no answer now"
            ) from None
        except NotExchanged as why:
            raise RestFault(
                403, "ForbiddenException", f"catalog `{call.catalog}` cannot be asked for you: {why}"
            ) from None
        except Faults:
            raise RestFault(
                503,
                "ServiceUnavailableException",
                f"the parameters of catalog `{call.catalog}` cannot be read now",
            ) from None

    async def join_levels(self, call: RestCall, namespace: Sequence[str]) -> str:
        """Return a namespace as the catalog has it in a parameter."""
        try:
            return (await self._catalogs.open(call.catalog, call.principal.user)).join_levels(namespace)
        except (CatalogUnavailable, NotExchanged, Faults):
            raise RestFault(
                503, "ServiceUnavailableException", f"catalog `{call.catalog}` gives no answer now"
            ) from None


def read_answer(answer: RestAnswer) -> Mapping[str, Any]:
    """Return the JSON object of an answer. Raises RestFault."""
    try:
        told = orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        told = None
    if not isinstance(told, dict):
        raise RestFault(502, "RESTException", "the catalog's answer is no JSON object")
    return told


def pass_fault_on(answer: RestAnswer) -> RestFault:
    """Return an error of the catalog's as the client is told of it: by its own kind and words, where it has
    some, and as the gateway's trouble where the gateway was refused."""
    try:
        told = orjson.loads(answer.content)["error"]
        kind, message = str(told["type"])[:100], str(told["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        kind, message = "", ""
    words = "".join(c if c.isprintable() else " " for c in message)[:_WORDS]
    if answer.status in (401, 403, 419, 407):
        return RestFault(403, "ForbiddenException", "the catalog does not let you do this")
    if answer.status < 500 and kind:
        return RestFault(answer.status, kind, words or "the catalog refuses this")
    if answer.status < 500:
        return RestFault(answer.status, "RESTException", "the catalog refuses this without a reason")
    # Whether a commit was taken is not known, and clients have to be told so.
    status = answer.status if answer.status in (500, 502, 503, 504) else 502
    unknown = "CommitStateUnknownException" if kind.startswith("CommitState") else "ServiceFailureException"
    kind = "ServiceUnavailableException" if status == 503 else unknown
    return RestFault(status, kind, words or "the catalog has failed")
