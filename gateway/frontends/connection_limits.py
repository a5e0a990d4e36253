"""Who may connect, before anybody knows who it is: accepts the connections of one listener, within bounds.

A stranger, who has connected and has not logged in, costs a descriptor and little else until the first byte
is here; then the endpoint's protocol gets the connection. At a bound a stranger for whom nothing is being
done makes room: of the address that has most of them, one who has said nothing, or who has been here longest.
Where there is none, whoever comes is sent away.

INVARIANT (a reserve): what is accepted never has one of the last descriptors. Spark, the record and files
that are read again have these for themselves.
"""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import resource
import socket
import ssl as ssl_module
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import structlog

from gateway.frontends.proxy_protocol import NotProxied, read_source
from gateway.model.credentials import NO_CERTIFICATE
from gateway.model.networks import Network, is_within
from gateway.session.ports import MakeProtocol

if TYPE_CHECKING:
    from gateway.frontends.judged_tls import JudgedTls  # needs pyOpenSSL, as Spark Connect alone does

_log = structlog.get_logger(__name__)

BACKLOG = 512
STRANGERS_PART = 8
"""Strangers of a listener are an eighth of the descriptors that connections may have, at most."""
OTHERS_PART = 8
"""An eighth of a listener's connections before login is never given to one address alone."""
ACCEPTED_AT_ONCE = 64
"""Then it is others' turn on the loop."""
PAUSE_S = 0.1
"""How long nothing is accepted when the system has no descriptor at all."""
LOG_EVERY_S = 10.0
"""How often one kind of refusal is logged; all are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Bounds of one listener."""

    connections: int = 2000
    strangers: int = 256
    """Connections on which nobody has logged in."""
    strangers_per_address: int = 64
    """Those of an address that have been here for longer than `burst_s`; before that all but a part of all
    strangers may be of one address: a pool opens its connections at once, and logs in on each."""
    burst_s: float = 1.0
    first_byte_s: float = 5.0
    """Seconds from connecting to the first byte."""
    login_s: float = 15.0
    """Seconds from connecting to a completed login."""
    reserve: int = 256
    """Descriptors that no connection gets; a quarter of all at most."""
    balancers: tuple[Network, ...] = ()
    """Whose connections begin with a header of the PROXY protocol, which says where the client is."""


class Stranger:
    """A connection: who it is is not known, until it is admitted. See `ports.Visitor`."""

    __slots__ = (
        "_asked",
        "_end",
        "_limiter",
        "_timer",
        "address",
        "is_known",
        "origin",
        "since",
        "sock",
        "task",
    )

    def __init__(self, door: ConnectionLimiter, sock: socket.socket, address: str, since: float) -> None:
        self.address = address
        self.origin = origin_of(address)
        self.sock: socket.socket | None = sock
        """Until the endpoint has it."""
        self.task: asyncio.Task[None] | None = None
        """Hands it to the endpoint."""
        self.since = since
        self.is_known = False
        self._limiter = door
        self._asked = 0
        self._end: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether nothing is being done for it."""
        return not (self.is_known or self._asked)

    @property
    def is_silent(self) -> bool:
        """Whether no byte of it is here."""
        return self.sock is not None and self.task is None

    def ends_by(self, end: Callable[[], None]) -> None:
        self._end = end

    def begin_busy(self) -> None:
        self._asked += 1

    def end_busy(self) -> None:
        self._asked -= 1

    def due(self, within_s: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if within_s is not None and self._limiter.has(self):
            self._timer = asyncio.get_running_loop().call_later(within_s, self._limiter.end_late, self)

    def mark_logged_in(self) -> None:
        if not self.is_known:
            self.is_known = True
            self.due(None)
            self._limiter.note_logged_in(self)

    def leave(self) -> None:
        self.due(None)
        self._limiter.count_out(self)

    def end(self) -> None:
        """Cut the connection, and make room for another."""
        self.leave()
        if self._end is not None:
            self._end()
        elif self.task is not None:
            self.task.cancel()
        elif self.sock is not None:
            asyncio.get_running_loop().remove_reader(self.sock)
            self.sock.close()


RecordBadCertificate = Callable[[str, str], Awaitable[None]]


class Arrivals(Protocol):
    """Another process that accepts the connections of this one."""

    def take(self, listener: str, enter: Callable[[socket.socket], None]) -> int:
        """Have connections of a listener handed to `enter`; return the port that it listens at."""
        ...

    def stop(self, listener: str) -> None:
        """Take no more of them."""
        ...

    def note_open(self, listener: str, count: int) -> None:
        """Say how many connections a listener has."""
        ...


class ConnectionLimiter:
    """Listens at one address, and hands over whoever says something."""

    def __init__(
        self,
        listener: str,
        limits: ConnectionLimits | None = None,
        *,
        refused: Callable[[str, str], None] = lambda _listener, _why: None,
        arrivals: Arrivals | None = None,
    ) -> None:
        """`refused` counts connections that were sent away, or ended before a login, by why. `arrivals`: who
        accepts them, where this process does not."""
        self._arrivals = arrivals
        self.limits = limits or ConnectionLimits()
        self._listener = listener
        self._count = refused
        self._make: MakeProtocol | None = None
        self._ssl: ssl_module.SSLContext | JudgedTls | None = None
        self._record_bad_certificate: RecordBadCertificate | None = None
        self._sockets: list[socket.socket] = []
        self._places: dict[Stranger, None] = {}
        self._strangers: dict[Stranger, None] = {}
        self._by_address: dict[str, dict[Stranger, None]] = {}
        """Strangers by their origins; the one who has been here longest first."""
        self._queues: dict[str, deque[tuple[socket.socket, str, float]]] = {}
        """Of an address that comes faster than there is room: connections that wait for others of it to log
        in, with when they came. They are strangers of whom nothing is read, and count as connections."""
        self._queued = 0
        self._reported_at: dict[str, float] = {}
        self._unreported = Counter[str]()
        self._below = 0
        self._most_strangers = 0

    async def open(
        self,
        host: str,
        port: int,
        make: MakeProtocol,
        *,
        tls: ssl_module.SSLContext | JudgedTls | None = None,
        record_bad_certificate: RecordBadCertificate | None = None,
    ) -> int:
        """Listen; return the port, which matters when 0 was asked for. Raises OSError.

        `record_bad_certificate` hears from where a client has shown one that TLS does not take, and why.
        """
        self._record_bad_certificate = record_bad_certificate
        self.set_limits(self.limits)
        self._make, self._ssl = make, tls
        if self._arrivals is not None:
            return self._arrivals.take(self._listener, self._receive)
        loop = asyncio.get_running_loop()
        self._sockets, port = await bind_sockets(host, port)
        try:
            for sock in self._sockets:
                sock.listen(BACKLOG)
        except OSError:
            self.stop_listening()
            raise
        for sock in self._sockets:
            loop.add_reader(sock, self._accept, sock)
        return port

    def set_limits(self, limits: ConnectionLimits) -> None:
        """Let no more in than these say, from now on."""
        self.limits = limits
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._below = limit - min(limits.reserve, limit // 4)
        # Of one listener, and of all together with the three descriptors that one of them takes for each.
        # RULE (door-descriptors)
        self._most_strangers = min(limits.strangers, max(1, self._below // STRANGERS_PART))

    def renew(self, tls: ssl_module.SSLContext | JudgedTls) -> None:
        """Shake hands by another certificate from now on; connections that are there stay as they are."""
        self._ssl = tls

    def stop_listening(self) -> None:
        """Take no more connections, and none of those that have said nothing."""
        if self._arrivals is not None:
            self._arrivals.stop(self._listener)
        loop = asyncio.get_running_loop()
        for sock in self._sockets:
            loop.remove_reader(sock)
            sock.close()
        self._sockets.clear()
        for origin in list(self._queues):
            for waiting, _, _ in self._queues.pop(origin):
                waiting.close()
        self._queued = 0
        for place in [one for one in self._places if one.is_silent]:
            place.end()

    def end_strangers(self) -> None:
        """End the connections of strangers for whom nothing is being done."""
        for place in [one for one in self._strangers if one.waits]:
            place.end()

    def close(self) -> None:
        """End every connection."""
        self.stop_listening()
        for place in list(self._places):
            place.end()

    # -- accepting -----------------------------------------------------------------------------------------

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                sock, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                # The process, or the system, has no descriptor left.
                self._refuse("descriptors")
                loop = asyncio.get_running_loop()
                loop.remove_reader(listening)
                loop.call_later(PAUSE_S, self._resume, listening)
                return
            sock.settimeout(0)
            self._handle_arrival(sock, address_of(peer))

    def _receive(self, sock: socket.socket) -> None:
        """Take a connection that another process has accepted."""
        try:
            sock.settimeout(0)
            peer = sock.getpeername()
        except OSError:  # gone already
            sock.close()
        else:
            self._handle_arrival(sock, address_of(peer))
        self._tell_open()

    def _tell_open(self) -> None:
        if self._arrivals is not None:
            self._arrivals.note_open(self._listener, len(self._places) + self._queued)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _handle_arrival(self, sock: socket.socket, address: str) -> None:
        origin, loop = origin_of(address), asyncio.get_running_loop()
        waits = origin in self._queues or self._must_wait(self._by_address.get(origin, {}))
        if waits and self._may_queue(sock, origin):  # RULE (door-address-queue)
            if origin not in self._queues:
                self._queues[origin] = deque()
                loop.call_later(self.limits.burst_s, self._look_again, origin)
            self._queues[origin].append((sock, address, loop.time()))
            self._queued += 1
        else:
            self._enter(sock, address)

    def _must_wait(self, own: dict[Stranger, None], *, waits: bool = False) -> bool:
        """Whether a bound is reached, and nobody makes room but one of the same address who has just come.

        `waits`: it waits already, and goes on where nobody at all makes room.
        """
        if self._is_full(own):
            first = self._first_to_go([own], own)
        elif len(self._strangers) >= self._most_strangers:
            first = self._first_to_go(self._by_address.values(), own)  # RULE (door-recent-stays)
        else:
            return False
        if first is None and (waits or not own):
            return waits
        last = first or next(reversed(own))
        return last in own and last.since > asyncio.get_running_loop().time() - self.limits.burst_s

    def _may_queue(self, sock: socket.socket, origin: str) -> bool:
        """Whether one more connection may wait: as many as strangers may be, within the other bounds. Of the
        address of which most wait the one that came last goes, for one of another."""
        if len(self._places) + self._queued >= self.limits.connections or sock.fileno() >= self._below:
            return False
        if self._queued < self._most_strangers:  # RULE (door-queue-bound)
            return True
        longest = max(self._queues.values(), key=len)
        if len(self._queues.get(origin, ())) + 1 >= len(longest):  # RULE (door-queue-fair)
            return False
        waiting, _, _ = longest.pop()
        waiting.close()
        self._queued -= 1
        self._refuse("strangers")
        return True

    def _look_again(self, origin: str) -> None:
        """Look at a queue each second: by then who waits may have become one who makes room."""
        self._next(origin)
        if origin in self._queues:
            asyncio.get_running_loop().call_later(self.limits.burst_s, self._look_again, origin)

    def _next(self, origin: str) -> None:
        """Let those in who wait for others of their address, as far as there is room.

        None of these makes room in the first second: until then it may be about to log in. Who has waited as
        long as a login may take comes in, or is sent away, like anybody.
        """
        queue, now = self._queues.get(origin), asyncio.get_running_loop().time()
        while queue:
            own = self._by_address.get(origin, {})
            if now - queue[0][2] < self.limits.login_s and self._must_wait(own, waits=True):
                break
            sock, address, _ = queue.popleft()
            self._queued -= 1
            self._enter(sock, address)
        if not queue:
            self._queues.pop(origin, None)

    def _enter(self, sock: socket.socket, address: str) -> None:
        limits = self.limits
        own = self._by_address.get(origin_of(address), {})
        # The bound that concerns fewest first: who fills it makes room for himself.
        for why, is_full in (
            ("address", self._is_full(own)),  # RULE (door-address-bound)
            ("strangers", len(self._strangers) >= self._most_strangers),
            ("connections", len(self._places) + self._queued >= limits.connections),
            ("descriptors", sock.fileno() >= self._below),
        ):
            of = [own] if why == "address" else self._by_address.values()
            if is_full and not self._make_room(why, of, own):
                self._refuse(why)
                sock.close()
                return
        loop = asyncio.get_running_loop()
        place = Stranger(self, sock, address, loop.time())
        self._places[place] = None
        self._strangers[place] = None
        self._by_address.setdefault(place.origin, {})[place] = None
        place.due(limits.first_byte_s)  # RULE (door-silent-cut)
        loop.add_reader(sock, self._heard, place, sock)

    def _is_full(self, own: dict[Stranger, None]) -> bool:
        """Whether an address has as many strangers as it may have."""
        most = self.limits.strangers_per_address
        if len(own) < most:
            return False
        # RULE (door-room-for-others)
        if len(own) >= self._most_strangers - self._most_strangers // OTHERS_PART:
            return True
        last = next(itertools.islice(own, most - 1, None))
        return last.since <= asyncio.get_running_loop().time() - self.limits.burst_s  # RULE (door-pool-burst)

    def _make_room(
        self, why: str, addresses: Iterable[dict[Stranger, None]], own: dict[Stranger, None]
    ) -> bool:
        """End a stranger of the address that has most of them, if any waits."""
        first = self._first_to_go(addresses, own)
        if first is None:
            return False
        self._refuse(why)
        first.end()
        return True

    @staticmethod
    def _first_to_go(addresses: Iterable[dict[Stranger, None]], own: dict[Stranger, None]) -> Stranger | None:
        """Return who makes room; of addresses with as many of them it is the one that wants it."""

        def size(strangers: dict[Stranger, None]) -> tuple[int, bool]:
            return len(strangers) + (strangers is own), strangers is own  # RULE (door-equal-addresses)

        for strangers in sorted(addresses, key=size, reverse=True):  # RULE (door-most-strangers-first)
            waiting = [one for one in strangers if one.waits]
            if waiting:
                return next((one for one in waiting if one.is_silent), waiting[0])
        return None

    def _heard(self, place: Stranger, sock: socket.socket) -> None:
        """The first byte is here, or the client has gone."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(sock)
        place.due(max(0.0, place.since + self.limits.login_s - loop.time()))
        place.task = loop.create_task(self._hand_over(place, sock))

        def close_unstarted(_: object) -> None:
            if place.sock is not None:  # it was cancelled before its first step
                place.sock.close()
                place.sock = None
                place.leave()

        place.task.add_done_callback(close_unstarted)

    async def _hand_over(self, place: Stranger, sock: socket.socket) -> None:
        make = self._make
        if make is None:
            raise ValueError("the listener was not opened")
        tls = self._ssl
        within_s = self.limits.login_s if tls is not None else None
        handed_over = False
        try:
            if is_within(place.address, self.limits.balancers):
                self._came_from(place, await read_source(sock))
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: make(place),
                sock,
                ssl=cast(Any, tls),
                ssl_handshake_timeout=within_s,
            )
            handed_over = True
        except NotProxied:
            self._refuse("proxy header")
        except (OSError, TimeoutError) as fault:  # ssl's errors are OSErrors: it did not shake hands
            why = describe_bad_certificate(fault)
            if why and self._record_bad_certificate is not None:  # RULE (bad-certificate-recorded)
                await self._record_bad_certificate(place.address, why)
        finally:
            place.sock = place.task = None
            if not handed_over:
                sock.close()
                place.leave()

    def _came_from(self, place: Stranger, address: str | None) -> None:
        """Count a connection that a balancer passes on with its client's others."""
        if address is None or not self.has(place):
            return
        self._drop_origin(place)
        place.address, place.origin = address, origin_of(address)
        self._by_address.setdefault(place.origin, {})[place] = None

    # -- of places -----------------------------------------------------------------------------------------

    def end_late(self, place: Stranger) -> None:
        """End a connection whose time is over."""
        self._refuse("late")
        place.end()

    def note_logged_in(self, place: Stranger) -> None:
        """Count a connection among those that somebody is logged in on."""
        self._strangers.pop(place, None)
        self._drop_origin(place)
        if place.origin in self._queues:
            asyncio.get_running_loop().call_soon(self._next, place.origin)

    def _drop_origin(self, place: Stranger) -> None:
        own = self._by_address.get(place.origin)
        if own is not None:
            own.pop(place, None)
            if not own:
                del self._by_address[place.origin]

    def has(self, place: Stranger) -> bool:
        """Whether it is still here."""
        return place in self._places

    def count_out(self, place: Stranger) -> None:
        """Count a connection out."""
        self._places.pop(place, None)
        self.note_logged_in(place)
        self._tell_open()

    def has_no_room(self, descriptor: int) -> bool:
        """Whether a descriptor for a connection is, or would be, one of the reserve."""
        if descriptor < self._below:
            return False
        self._refuse("descriptors")
        return True

    def _refuse(self, why: str) -> None:
        self._count(self._listener, why)
        self._unreported[why] += 1
        now = asyncio.get_running_loop().time()
        if now - self._reported_at.get(why, float("-inf")) >= LOG_EVERY_S:
            self._reported_at[why] = now
            count = self._unreported.pop(why)
            _log.warning("connections_refused", listener=self._listener, reason=why, count=count)


async def bind_sockets(host: str, port: int) -> tuple[list[socket.socket], int]:
    """Return a socket for each address of a host, bound, and their port. Raises OSError."""
    loop, made = asyncio.get_running_loop(), list[socket.socket]()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            # By its protocol asyncio knows to hold nothing back until the client acknowledges the last bytes.
            sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            made.append(sock)
            sock.settimeout(0)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((address[0], port, *address[2:]))
            port = int(sock.getsockname()[1])
    except OSError:
        for sock in made:
            sock.close()
        raise
    return made, port


def describe_bad_certificate(fault: Exception) -> str:
    """Return what TLS has against a client's certificate, or that there is none; empty for another fault."""
    if isinstance(fault, ssl_module.SSLCertVerificationError):
        return f"the certificate: {fault.verify_message}"
    has_none = getattr(fault, "reason", None) == "PEER_DID_NOT_RETURN_A_CERTIFICATE"
    return NO_CERTIFICATE if has_none else ""


def address_of(peer: Any) -> str:
    """Return the address of whoever is at the other end of a socket."""
    address = str(peer[0]) if isinstance(peer, tuple) else ""
    # A client of IPv4 at a socket for both: the limits are to count it once.
    return address.removeprefix("::ffff:") if "." in address else address


def origin_of(address: str) -> str:
    """Return what counts as one address: with IPv6 a network of 64 bits, all of which a host may have."""
    if ":" not in address:  # RULE (door-ipv6-network)
        return address
    return ipaddress.IPv6Address(address.partition("%")[0]).packed[:8].hex()
