"""Asks a Ranger Admin what a plugin asks: policies, roles, tags, users, data sharing, if they are newer.

Ranger's plugin protocol over HTTP. Every answer has a deadline and a size limit; what is not an answer of the
protocol raises NoAnswer, and the caller keeps what it has.
"""

from __future__ import annotations

import asyncio
import base64
import enum
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

import aiohttp
from yarl import URL

from gateway.errors import Faults, one_line
from gateway.model.closing import Closing

CAPABILITIES = "fffff"
"""Every capability that Ranger knows: the server then leaves nothing out of what it sends."""
MAX_PLUGIN_ID = 255
CHUNK_BYTES = 256 * 1024


class DownloadKind(enum.Enum):
    """What can be downloaded; the value stands in logs and in names of metrics."""

    ROLES = "roles"
    POLICIES = "policies"
    TAGS = "tags"
    USERS = "users"
    SHARING = "sharing"


@dataclass(frozen=True, slots=True)
class _Endpoint:
    plain: str
    secure: str
    version: str
    deltas: str = ""


_ENDPOINTS = {
    DownloadKind.POLICIES: _Endpoint(
        "plugins/policies/download",
        "plugins/secure/policies/download",
        "lastKnownVersion",
        "supportsPolicyDeltas",
    ),
    DownloadKind.TAGS: _Endpoint(
        "tags/download", "tags/secure/download", "lastKnownVersion", "supportsTagDeltas"
    ),
    DownloadKind.ROLES: _Endpoint("roles/download", "roles/secure/download", "lastKnownRoleVersion"),
    DownloadKind.USERS: _Endpoint("xusers/download", "xusers/secure/download", "lastKnownUserStoreVersion"),
    DownloadKind.SHARING: _Endpoint("gds/download", "gds/secure/download", "lastKnownGdsVersion"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminOptions:
    """Where a Ranger Admin is and how it is spoken to."""

    urls: tuple[str, ...]
    """Without `/service`; the next one is asked when one gives no answer."""
    service: str
    plugin_id: str
    user: str | None = None
    password: Callable[[], str] | None = None
    """Asked before every download, so that a changed secret needs no restart; may raise Faults."""
    secure: bool = False
    """Whether the paths for plugins that log in are used."""
    tls: ssl.SSLContext | None = None
    cluster: str = ""
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 30.0
    """Seconds without a byte."""
    total_timeout_s: float = 300.0
    """Seconds for one download: a server that sends a byte a second must not hold us for ever."""
    max_bytes: int = 256 * 1024 * 1024
    """Bytes of one answer, unpacked; the rest is not read."""


@dataclass(frozen=True, slots=True)
class DownloadedBody:
    """New content."""

    content: bytes


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The version that was told is the newest."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The Admin knows no such service."""


Downloaded = DownloadedBody | Unchanged | Gone


class NoAnswer(Exception):
    """No Admin gave an answer of the protocol; `message` says of each one why, without secrets."""

    def __init__(self, message: str, *, silent: bool = False) -> None:
        """`silent`: nobody said anything at all."""
        super().__init__(message)
        self.message = message
        self.silent = silent


class RangerClient(Closing):
    """Speaks to one service of the Admins of one address list; keeps connections and the session cookie."""

    def __init__(self, options: AdminOptions) -> None:
        self._options = options
        self._preferred = 0
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close every connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def ask(
        self, kind: DownloadKind, known: int, *, deltas: bool = False, activated_ms: int = 0
    ) -> Downloaded:
        """Return what is newer than version `known` (−1: everything). Raises NoAnswer.

        A service is gone only if no Admin of the list has it.
        """
        urls = self._options.urls
        troubles: list[str] = []
        gone, silent = False, True
        for step in range(len(urls)):
            at = (self._preferred + step) % len(urls)
            try:
                answer = await self._ask_one(urls[at], kind, known, deltas, activated_ms)
            except NoAnswer as error:
                troubles.append(f"{urls[at]} {error.message}")
                silent = silent and error.silent
                continue
            if isinstance(answer, Gone):
                gone = True
                continue
            self._preferred = at
            return answer
        if gone:
            return Gone()
        raise NoAnswer("; ".join(troubles), silent=silent)

    async def _ask_one(
        self, base: str, kind: DownloadKind, known: int, deltas: bool, activated_ms: int
    ) -> Downloaded:
        url = self._url(base, kind, known, deltas, activated_ms)
        try:
            async with (
                asyncio.timeout(self._options.total_timeout_s),
                self._connect().get(url, headers=self._headers(), allow_redirects=False) as response,
            ):
                return await self._answer(response)
        except TimeoutError:
            raise NoAnswer("does not answer in time", silent=True) from None
        except aiohttp.ClientPayloadError:
            raise NoAnswer("aborted its response") from None
        except aiohttp.ClientConnectorCertificateError as error:
            why = one_line(str(error.certificate_error))
            raise NoAnswer(f"has a certificate that is not trusted: {why}", silent=True) from None
        except aiohttp.ClientConnectorError as error:
            raise NoAnswer(f"cannot be reached: {one_line(str(error.os_error))}", silent=True) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NoAnswer(
                f"does not speak valid HTTP: {one_line(str(error)) or 'the connection was closed'}"
            ) from None
        except Faults as error:
            raise NoAnswer(error.message) from None

    async def _answer(self, response: aiohttp.ClientResponse) -> Downloaded:
        status = response.status
        if status == 200:
            return DownloadedBody(await self._content(response))
        if status in (204, 304):
            return Unchanged()
        if status == 404:
            return Gone()
        if status in (401, 403):
            raise NoAnswer(f"rejects the login of {self._who()} ({status})")
        if 300 <= status < 400:
            raise NoAnswer(f"redirects to another address ({status}), as it does when a login is needed")
        said = one_line((await response.content.read(4096)).decode("utf-8", "replace"))
        raise NoAnswer(f"answers with status {status}{': ' + said if said else ''}")

    async def _content(self, response: aiohttp.ClientResponse) -> bytes:
        limit = self._options.max_bytes
        if (response.content_length or 0) > limit:
            raise NoAnswer(f"returns more than {limit} bytes")
        content = bytearray()
        async for chunk in response.content.iter_chunked(CHUNK_BYTES):
            content += chunk
            if len(content) > limit:
                raise NoAnswer(f"returns more than {limit} bytes")
        return bytes(content)

    def _url(self, base: str, kind: DownloadKind, known: int, deltas: bool, activated_ms: int) -> URL:
        options, endpoint = self._options, _ENDPOINTS[kind]
        path = endpoint.secure if options.secure else endpoint.plain
        parameters = {
            endpoint.version: str(known),
            "lastActivationTime": str(activated_ms),
            "pluginId": options.plugin_id[:MAX_PLUGIN_ID],
            "clusterName": options.cluster,
            "pluginCapabilities": CAPABILITIES,
        }
        if endpoint.deltas:
            parameters[endpoint.deltas] = "true" if deltas else "false"
        address = f"{base.rstrip('/')}/service/{path}/{quote(options.service, safe='')}"
        return URL(address, encoded=True).with_query(parameters)

    def _headers(self) -> dict[str, str]:
        """Return the headers of a question, the login among them. Raises Faults."""
        headers = {"Accept": "application/json"}
        options = self._options
        if options.user is not None:
            login = f"{options.user}:{options.password() if options.password else ''}"
            headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        return headers

    def _who(self) -> str:
        return "nobody" if self._options.user is None else f"`{self._options.user}`"

    def _connect(self) -> aiohttp.ClientSession:
        if self._session is None:
            options = self._options
            self._session = aiohttp.ClientSession(
                # `unsafe`: the session cookie of an Admin that is named by its address is kept as well.
                cookie_jar=aiohttp.CookieJar(unsafe=True),
                connector=aiohttp.TCPConnector(
                    limit_per_host=2, ssl=True if options.tls is None else options.tls
                ),
                timeout=aiohttp.ClientTimeout(
                    sock_connect=options.connect_timeout_s, sock_read=options.read_timeout_s
                ),
            )
        return self._session


def tls_context(
    *, ca_file: str | None = None, certificate: str | None = None, key: str | None = None
) -> ssl.SSLContext:
    """Return a context that trusts `ca_file` (else the system's authorities) and shows a certificate.

    Raises Faults when a file cannot be used.
    """
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise Faults([f"{ca_file}: cannot be used: {error}"]) from None
    if certificate is not None:
        try:
            context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise Faults([f"{certificate}, {key}: cannot be used: {error}"]) from None
    return context
