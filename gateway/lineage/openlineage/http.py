"""Sends events to a server by HTTP, one after the other, from the spool.

What the server says decides: taken; refused for good, because of what is in the event (put aside); or
anything else, also no answer at all, and then the event is sent again after a growing pause. An event may
arrive more than once: servers go by its run.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import gzip
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Self

import aiohttp
import structlog

from gateway.errors import Faults, one_line
from gateway.lineage.openlineage.events import EventWriter
from gateway.lineage.openlineage.spool import EventSpool, SpooledEvent
from gateway.lineage.openlineage.waiting import OneThread
from gateway.lineage.rows import SeenStatement

log = structlog.get_logger(__name__)

ANSWER_BYTES = 4096
"""Maximum number of bytes read of an answer."""
SMALL_BYTES = 1024
"""Shorter events are not worth packing."""
DOUBTS_AFTER = 8
"""Server errors for one event after which the next one is tried: is it the server, or this event?"""
_OF_THE_WAY = frozenset({401, 403, 404, 405, 407, 408, 421, 423, 425, 429})
"""Client errors that are about the login, the address or the pace, and not the event: it is sent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """Where the server is and how it is spoken to."""

    url: str
    """All of it, such as `http://marquez:5000/api/v1/lineage`."""
    api_key: Callable[[], str] | None = None
    """Sent as a bearer token; asked for each event, so that a new one needs no restart; may raise Faults."""
    tls: ssl.SSLContext | None = None
    """None: the system's authorities."""
    packed: bool = True
    """Whether events are sent as gzip."""
    timeout_s: float = 30.0
    """Seconds for one event, the answer's end included."""
    first_pause_s: float = 0.5
    longest_pause_s: float = 60.0


@dataclass(slots=True)
class SendingProgress:
    """How sending goes."""

    sent: int = 0
    refused: int = 0
    """Events that were put aside."""
    failures: int = 0
    """Tries that came to nothing."""
    trouble: str = ""
    """Why the last try came to nothing; empty when it went well."""


class _Answer(enum.Enum):
    TAKEN = enum.auto()
    REFUSED = enum.auto()
    """For good, because of what is in the event."""
    BROKEN = enum.auto()
    """An error of the server: because of the event, or not."""
    AGAIN = enum.auto()


class HttpSink:
    """A `LineageSink`: when `put` returns, the events are in the spool and on the disk.

    It sends as long as it is entered; what is not sent by then is sent after the next start.
    """

    def __init__(
        self, options: HttpOptions, spool: EventSpool, writer: EventWriter, *, random: Random | None = None
    ) -> None:
        self.spool = spool
        self.progress = SendingProgress()
        self._options = options
        self._writer = writer
        self._random = random or Random()  # noqa: S311 - keeps gateways apart; nothing to guess
        self._grown = asyncio.Event()
        self._retry_after_s = 0.0
        self._task: asyncio.Task[None] | None = None
        busy = f"{spool.directory}: earlier events are not on disk yet"
        self._keeping = OneThread("openlineage-spool", busy)
        self._sending = OneThread("openlineage-sender", busy)

    async def __aenter__(self) -> Self:
        """Take the spool and begin to send. Raises Faults when another process has it."""
        await asyncio.to_thread(self.spool.open)
        self._task = asyncio.create_task(self._run(), name="openlineage-sender")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._sending.end(self.spool.close)

    async def put(self, seen: Sequence[SeenStatement]) -> None:
        """Keep the events of statements for the server. Raises Faults when the disk does not take them."""
        await self._keeping.run(self._keep, seen)
        self._grown.set()

    def _keep(self, seen: Sequence[SeenStatement]) -> None:
        self.spool.append(self._writer.lines(seen))

    async def _run(self) -> None:
        """Send until cancelled."""
        while True:
            try:
                async with self._session() as http:
                    await self._send_all(http)
            except Exception as error:  # root of the task: it goes on whatever happens
                log.exception("openlineage_sending_interrupted")
                self.progress.trouble = type(error).__name__
                await asyncio.sleep(self._options.longest_pause_s)

    async def _send_all(self, http: aiohttp.ClientSession) -> None:
        while True:
            self._grown.clear()
            entries = await self._sending.run(self.spool.take)
            if not entries:
                await self._grown.wait()
                continue
            for number, entry in enumerate(entries):
                await self._send(http, entry, entries[number + 1 : number + 2])
                self.spool.advance(entry.end)
            await self._sending.run(self.spool.save)

    async def _send(
        self, http: aiohttp.ClientSession, entry: SpooledEvent, others: Sequence[SpooledEvent]
    ) -> None:
        """Return when an event was taken, was put aside, or has become too old."""
        options, pause_s, broken = self._options, self._options.first_pause_s, 0
        while self.spool.has(entry.end):
            answer = await self._post(http, entry.line)
            broken += answer is _Answer.BROKEN
            doubtful = answer is _Answer.BROKEN and broken >= DOUBTS_AFTER and others
            if doubtful and await self._post(http, others[0].line) is _Answer.TAKEN:
                # The server is well: it fails because of this one, which must not hold up all others.
                answer = _Answer.REFUSED
            if answer is _Answer.TAKEN:
                self.progress.sent += 1
                self.progress.trouble = ""
                return
            if answer is _Answer.REFUSED:
                log.error("openlineage_event_refused", why=self.progress.trouble)
                await self._sending.run(self.spool.put_aside, entry.line)
                self.progress.refused += 1
                return
            if pause_s == options.first_pause_s:
                log.warning("openlineage_server_unavailable", why=self.progress.trouble)
            self.progress.failures += 1
            wait_s = max(pause_s * self._random.uniform(0.5, 1), self._retry_after_s)
            await asyncio.sleep(min(wait_s, options.longest_pause_s))
            pause_s = min(2 * pause_s, options.longest_pause_s)
            await self._sending.run(self.spool.expire)

    async def _post(self, http: aiohttp.ClientSession, line: bytes) -> _Answer:
        """Send an event once. Says in `progress.trouble` why it was not taken."""
        self._retry_after_s = 0.0
        try:
            headers, body = self._headers(), line
            if self._options.packed and len(line) > SMALL_BYTES:
                headers["Content-Encoding"] = "gzip"
                body = await asyncio.to_thread(gzip.compress, line, 6, mtime=0)
            async with (
                asyncio.timeout(self._options.timeout_s),
                http.post(self._options.url, data=body, headers=headers, allow_redirects=False) as response,
            ):
                said = await response.content.read(ANSWER_BYTES)
                return self._judge(response, said)
        except TimeoutError:
            why = "does not answer in time"
        except aiohttp.ClientConnectorCertificateError as error:
            why = f"has a certificate that is not trusted: {error.certificate_error}"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            why = f"does not answer: {error or type(error).__name__}"
        except Faults as error:
            why = error.message
        self.progress.trouble = one_line(why)
        return _Answer.AGAIN

    def _judge(self, response: aiohttp.ClientResponse, said: bytes) -> _Answer:
        status = response.status
        if 200 <= status < 300:
            return _Answer.TAKEN
        after = response.headers.get("Retry-After", "")
        if after.isascii() and after.isdecimal() and len(after) < 9:
            self._retry_after_s = float(after)
        self.progress.trouble = one_line(f"answers with status {status}: {said.decode('utf-8', 'replace')}")
        if status >= 500:
            return _Answer.BROKEN
        if 400 <= status < 500 and status not in _OF_THE_WAY:
            return _Answer.REFUSED
        return _Answer.AGAIN

    def _headers(self) -> dict[str, str]:
        """Return the headers of a request. Raises Faults when there is no key."""
        headers = {"Content-Type": "application/json"}
        if self._options.api_key is not None:
            headers["Authorization"] = f"Bearer {self._options.api_key()}"
        return headers

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(),
            connector=aiohttp.TCPConnector(limit=1, ssl=self._options.tls or True),
            # Answers are not read further than a line, packed or not.
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None),
        )
