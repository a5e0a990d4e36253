"""Where Sparks are that come and go: by a file, by DNS, or by the EndpointSlices of Kubernetes."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Protocol, TypeVar

import aiohttp
import orjson

from gateway.errors import BackendUnavailable, SluiceError

POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod has the token and the authorities of its service account."""
ANSWER_S = 10.0
MAX_BYTES = 8 * 1024 * 1024
"""Bytes of a file or of an answer."""
PAGE = 500
MAX_PAGES = 100


class Discovery(Protocol):
    """Tells the addresses of Sparks. Raises BackendUnavailable where nobody says."""

    async def list_addresses(self) -> frozenset[str]: ...


class FileDiscovery:
    """Addresses in a file, one on each line; `#` begins a comment."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def list_addresses(self) -> frozenset[str]:
        """Return what the file has now."""
        try:
            text = (await asyncio.to_thread(self._read)).decode()
        except (OSError, ValueError) as error:
            raise BackendUnavailable("the file of Sparks cannot be read", where=str(error)) from None
        lines = (line.partition("#")[0].strip() for line in text.splitlines())
        return _check_hosts(line for line in lines if line)

    def _read(self) -> bytes:
        with self._path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ValueError(f"a file of more than {MAX_BYTES} bytes")
        return data


class DnsDiscovery:
    """All addresses of a name."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def list_addresses(self) -> frozenset[str]:
        """Return what the name resolves to now."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(ANSWER_S):
                found = await loop.getaddrinfo(self._name, None, type=socket.SOCK_STREAM)
        except (OSError, TimeoutError, UnicodeError) as error:
            raise BackendUnavailable("the name of Sparks does not resolve", where=str(error)) from None
        return frozenset(str(address[0]) for *_, address in found)


class EndpointSliceDiscovery:
    """The endpoints of a service that are ready."""

    def __init__(
        self,
        api: str,
        namespace: str,
        service: str,
        *,
        token: Callable[[], str] | None = None,
        ca_file: Path | None = None,
    ) -> None:
        """`token`, `ca_file`: those of the pod where None."""
        self._url = f"{api.rstrip('/')}/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        self._service = service
        self._token = token
        self._ca_file = ca_file

    async def list_addresses(self) -> frozenset[str]:
        """Return the addresses of endpoints that are ready and not about to end."""
        found: set[str] = set()
        try:
            tls = await asyncio.to_thread(self._load_authorities)
            token = await asyncio.to_thread(self._read_token)
            timeout = aiohttp.ClientTimeout(total=ANSWER_S)
            headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
            async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
                page = ""
                for _ in range(MAX_PAGES):
                    body = _require(dict, await self._get_page(session, tls, page))
                    for piece in _require(list, body.get("items")):
                        found.update(_list_ready(_require(dict, piece)))
                    page = _require(dict, body.get("metadata") or {}).get("continue") or ""
                    if not page:
                        break
                else:
                    raise ValueError(f"more than {MAX_PAGES} pages")
        except (aiohttp.ClientError, OSError, ValueError, SluiceError) as error:
            why = error.for_operators if isinstance(error, SluiceError) else str(error)
            why = why or type(error).__name__
            raise BackendUnavailable("Kubernetes does not tell the endpoints of Sparks", where=why) from None
        return _check_hosts(found)

    async def _get_page(self, session: aiohttp.ClientSession, tls: ssl.SSLContext | bool, page: str) -> Any:
        query = {"labelSelector": f"kubernetes.io/service-name={self._service}", "limit": str(PAGE)}
        if page:
            query["continue"] = _require(str, page)
        async with session.get(self._url, params=query, ssl=tls, allow_redirects=False) as answer:
            if answer.status != 200:
                raise ValueError(f"status {answer.status}")
            data = bytearray()
            async for piece in answer.content.iter_any():
                data += piece
                if len(data) > MAX_BYTES:
                    raise ValueError(f"an answer of more than {MAX_BYTES} bytes")
            return orjson.loads(bytes(data))

    def _load_authorities(self) -> ssl.SSLContext | bool:
        if not self._url.startswith("https:"):
            return True
        return ssl.create_default_context(cafile=str(self._ca_file or POD / "ca.crt"))

    def _read_token(self) -> str:
        if self._token is not None:
            return self._token()
        return (POD / "token").read_text(encoding="utf-8").strip()


T = TypeVar("T")


def _require(kind: type[T], value: object) -> T:
    """Return what is of a kind. Raises ValueError for anything else."""
    if not isinstance(value, kind):
        raise ValueError("an answer of another shape")
    return value


def _list_ready(piece: dict[str, Any]) -> set[str]:
    if piece.get("addressType") not in ("IPv4", "IPv6"):
        return set()
    found: set[str] = set()
    for one in _require(list, piece.get("endpoints") or []):
        endpoint = _require(dict, one)
        conditions = _require(dict, endpoint.get("conditions") or {})
        # As Kubernetes has it: an unknown readiness counts as ready.
        if conditions.get("ready") is not False and not conditions.get("terminating"):
            addresses = _require(list, endpoint.get("addresses") or [])
            found.update(_require(str, address) for address in addresses)
    return found


def _check_hosts(names: Any) -> frozenset[str]:
    """Return names and addresses that are such. Raises BackendUnavailable for others."""
    found = frozenset(str(name) for name in names)
    for name in found:
        if not name or len(name) > 253 or not name.isascii() or any(sign in name for sign in " /@%?#,;`'\""):
            raise BackendUnavailable("an address of a Spark is none", where=name[:100])
        if ":" in name:
            try:
                ip_address(name)
            except ValueError:
                raise BackendUnavailable(
                    "an address of a Spark has a port, which stands in the settings", where=name[:100]
                ) from None
    return found
