"""Connections on which nobody has logged in: how many, for how long, and who makes room for whom."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import resource
import socket
import ssl
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import grpc
import psutil
import pytest
import structlog
from aiohttp import ClientSession, TCPConnector
from prometheus_client import CollectorRegistry

from gateway.admin.listener import AdminServer
from gateway.frontends.connection_limits import ConnectionLimiter, ConnectionLimits, address_of, origin_of
from gateway.frontends.proxy_protocol import SIGNATURE
from gateway.session.ports import Visitor
from gateway.wire.sasl import Status, step
from tests.frontends.connect_listening import connect_listening
from tests.frontends.listening import OPEN, RawClient, listening
from tests.speed import patience

TLS = Path(__file__).parent / "tls"
LONG = ConnectionLimits(first_byte_s=patience(), login_s=patience(), burst_s=patience(1.0))


class Served(asyncio.Protocol):
    """Greets whoever says something."""

    def __init__(self, visitor: Visitor) -> None:
        self.visitor = visitor
        self.gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = cast(asyncio.Transport, transport)
        self.socket = made.get_extra_info("socket")
        self.visitor.ends_by(made.abort)
        made.write(b"hello")

    def connection_lost(self, exc: Exception | None) -> None:
        self.visitor.leave()
        self.gone.set()


class Opened:
    """A door, and what stands behind it."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.refused = Counter[str]()
        self.door = ConnectionLimiter("test", limits, refused=lambda _, why: self.refused.update((why,)))
        self.served: list[Served] = []
        self.port = 0

    def make(self, visitor: Visitor) -> Served:
        self.served.append(Served(visitor))
        return self.served[-1]

    async def client(self, address: str = "127.0.0.1", *, says: bytes = b"") -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(address, 0))
        CLIENTS.append(writer)
        if says:
            writer.write(says)
            assert await reader.readexactly(5) == b"hello"
        else:
            await asyncio.sleep(0)
        return reader


CLIENTS: list[asyncio.StreamWriter] = []


@contextlib.asynccontextmanager
async def opened(limits: ConnectionLimits) -> AsyncIterator[Opened]:
    here = Opened(limits)
    here.port = await here.door.open("127.0.0.1", 0, here.make)
    try:
        yield here
    finally:
        here.door.close()
        while CLIENTS:
            CLIENTS.pop().close()


async def is_cut(reader: asyncio.StreamReader) -> bool:
    """Wait for the end of a connection."""
    async with asyncio.timeout(patience(10)):
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
    return True


async def test_who_says_nothing_is_cut_and_nothing_is_made_for_him() -> None:
    async with opened(ConnectionLimits(first_byte_s=0.05)) as here:
        assert await is_cut(await here.client())
        assert (here.served, here.refused) == ([], {"late": 1})


async def test_nothing_is_held_back_until_the_client_has_acknowledged_what_came_before() -> None:
    """Two small answers in a row: Nagle's algorithm would keep the second for 40 ms."""
    async with opened(LONG) as here:
        await here.client(says=b"x")
        assert here.served[0].socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_who_says_something_and_does_not_log_in_is_cut_later() -> None:
    async with opened(ConnectionLimits(first_byte_s=patience(), login_s=0.2)) as here:
        reader = await here.client(says=b"x")
        assert await is_cut(reader)
        await here.served[0].gone.wait()
        here.served[0].visitor.due(0.0)  # it is gone: nothing comes of that
        await asyncio.sleep(0)
        assert here.refused == {"late": 1}


async def test_who_is_admitted_stays_and_leaves_room_for_strangers() -> None:
    async with opened(ConnectionLimits(first_byte_s=0.5, login_s=0.5, strangers_per_address=1)) as here:
        first = await here.client(says=b"x")
        here.served[0].visitor.mark_logged_in()
        here.served[0].visitor.mark_logged_in()
        assert await is_cut(await here.client())
        assert here.refused == {"late": 1}
        assert not first.at_eof()


async def test_of_one_address_the_oldest_who_waits_makes_room() -> None:
    limits = ConnectionLimits(strangers_per_address=2, burst_s=0, first_byte_s=patience(), login_s=patience())
    async with opened(limits) as here:
        elsewhere = await here.client("127.0.0.2")
        busy = await here.client(says=b"x")
        here.served[0].visitor.begin_busy()
        waiting = await here.client()
        third = await here.client(says=b"x")
        assert await is_cut(waiting)
        here.served[1].visitor.begin_busy()
        assert await is_cut(await here.client()), "nobody waits"
        here.served[0].visitor.end_busy()
        fourth = await here.client(says=b"x")
        assert await is_cut(busy)
        assert set(here.refused) == {"address"}
        assert not any(one.at_eof() for one in (elsewhere, third, fourth))


async def test_a_pool_logs_in_at_once_and_leaves_room_for_other_addresses() -> None:
    async with listening(doors=LONG) as gateway:
        pool = await asyncio.gather(*(RawClient.logged_in(gateway.port) for _ in range(200)))
        assert [one.reader.at_eof() for one in pool] == [False] * 200
    limits = ConnectionLimits(
        strangers=16, strangers_per_address=2, first_byte_s=patience(), login_s=patience()
    )
    async with opened(limits) as here:
        for _ in range(20):
            await here.client()
        for n in range(2, 5):
            await here.client(f"127.0.0.{n}", says=b"x")
        assert here.refused == {"strangers": 1}, "six wait for the others of their address"


async def test_more_of_one_address_than_may_be_at_once_log_in_one_after_the_other() -> None:
    async with listening(doors=LONG) as gateway:
        pool = await asyncio.gather(*(RawClient.logged_in(gateway.port) for _ in range(400)))
        assert [one.reader.at_eof() for one in pool] == [False] * 400
        assert not gateway.server._connection_limiter._queues


@pytest.mark.parametrize("says", [b"", step(Status.START, b"PLAIN")], ids=["silent", "begun"])
@pytest.mark.parametrize(("addresses", "size"), [(1, 200), (3, 100)])
async def test_a_pool_logs_in_beside_floods_from_other_addresses(
    addresses: int, size: int, says: bytes
) -> None:
    async with listening(doors=LONG) as gateway:
        flood: list[asyncio.StreamWriter] = []
        ended = asyncio.Event()

        async def more(number: int) -> None:
            here = (f"127.0.0.{2 + number % addresses}", 0)
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", gateway.port, local_addr=here)
                flood.append(writer)
                writer.write(says)

        async def goes_on() -> None:
            for number in range(2000):
                if ended.is_set():
                    return
                await more(number)

        for number in range(700):
            await more(number)
        flooding = asyncio.create_task(goes_on())
        pool = await asyncio.gather(*(RawClient.logged_in(gateway.port) for _ in range(size)))
        ended.set()
        await flooding
        assert [one.reader.at_eof() for one in pool] == [False] * size
        for writer in flood:
            writer.close()


async def test_who_waits_for_others_of_his_address_gets_the_place_of_one_who_says_nothing() -> None:
    limits = ConnectionLimits(
        strangers=8, strangers_per_address=2, first_byte_s=patience(), login_s=patience()
    )
    async with opened(replace(limits, burst_s=0.2)) as here:
        silent = [await here.client() for _ in range(7)]
        late = [await here.client(says=b"x") for _ in range(3)]
        async with asyncio.timeout(patience()):
            for reader in silent[:3]:
                assert await is_cut(reader)
        assert here.refused == {"address": 3}
        assert len(late) == 3
        more = [await here.client() for _ in range(40)]
        assert here.door._queued <= 8, "a queue has a bound"
        here.door.stop_listening()
        async with asyncio.timeout(patience()):
            assert await is_cut(more[-1])


async def test_of_many_addresses_the_one_with_most_strangers_makes_room() -> None:
    limits = ConnectionLimits(strangers=5, first_byte_s=patience(), login_s=patience())
    async with opened(limits) as here:
        alone = await here.client("127.0.0.9", says=b"x")
        spoke = await here.client("127.0.0.2", says=b"x")
        silent = await here.client("127.0.0.2")
        pair = [await here.client("127.0.0.3", says=b"x") for _ in range(2)]
        await here.client("127.0.0.4", says=b"x")
        assert await is_cut(silent), "who has said nothing goes first"
        await here.client("127.0.0.5", says=b"x")
        assert await is_cut(pair[0])
        assert here.refused == {"strangers": 2}
        assert not any(one.at_eof() for one in (alone, spoke, pair[1]))


async def test_strangers_are_a_part_of_all_descriptors() -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(resource, "getrlimit", lambda _: (1024, 1024))
        async with opened(LONG) as here:
            assert (here.door._below, here.door._most_strangers) == (768, 96)


async def test_of_all_strangers_the_oldest_makes_room_and_of_all_connections_a_stranger() -> None:
    limits = ConnectionLimits(strangers=2, connections=3, first_byte_s=patience(), login_s=patience())
    async with opened(limits) as here:
        readers = [await here.client(f"127.0.0.{n}", says=b"x") for n in range(2, 5)]
        assert await is_cut(readers[0])
        assert here.refused == {"strangers": 1}
        for one in here.served[1:]:
            one.visitor.mark_logged_in()
        readers.append(await here.client(says=b"x"))
        readers.append(await here.client(says=b"x"))
        assert await is_cut(readers[3])
        assert here.refused == {"strangers": 1, "connections": 1}
        here.served[-1].visitor.mark_logged_in()
        assert await is_cut(await here.client())
        assert not any(one.at_eof() for one in (*readers[1:3], readers[4]))


async def test_the_last_descriptors_are_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        next_ = probe.fileno()
    # The listener, some sockets of clients and as many of ours, and then none: however many are open before.
    monkeypatch.setattr(resource, "getrlimit", lambda _: (next_ + 14, next_ + 14))
    async with opened(ConnectionLimits(reserve=2, first_byte_s=patience(), login_s=patience())) as here:
        assert here.door._below == next_ + 12
        here.door._most_strangers = 1000
        readers = [await here.client(says=b"x") for _ in range(3)]
        for one in here.served:
            one.visitor.begin_busy()
        while not here.refused["descriptors"]:
            readers.append(await here.client())
            await asyncio.sleep(0.01)
        assert await is_cut(readers[3]), "who waits makes room"
        assert here.door.has_no_room(here.door._below)
        assert not here.door.has_no_room(here.door._below - 1)


CERTIFICATE = TLS / "test-only-certificate.pem"


def server_tls() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE, TLS / "test-only-key.pem")
    return context


async def test_whoever_has_not_shaken_hands_has_a_deadline_too() -> None:
    here = Opened(ConnectionLimits(first_byte_s=patience(), login_s=0.2))
    here.port = await here.door.open("127.0.0.1", 0, here.make, tls=server_tls())
    reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
    writer.write(b"\x16\x03\x01")
    assert await is_cut(reader)
    writer.close()
    assert here.door._places == {}
    assert here.refused == {"late": 1}
    here.door.close()


async def test_a_name_with_two_addresses_is_listened_at_both() -> None:
    here = Opened(LONG)
    here.port = await here.door.open("localhost", 0, here.make)
    assert len({sock.getsockname()[1] for sock in here.door._sockets}) == 1
    here.door.close()
    assert here.door._sockets == []


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        (("10.0.0.7", 4711), "10.0.0.7"),
        (("::1", 4711, 0, 0), "::1"),
        (("::ffff:10.0.0.7", 4711, 0, 0), "10.0.0.7"),
        ("", ""),
    ],
)
def test_addresses_are_told_apart_however_they_are_written(peer: Any, address: str) -> None:
    assert address_of(peer) == address


# -- at the endpoints ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("::1", "127.0.0.1", False),
    ],
)
def test_a_network_that_one_host_may_have_is_one_address(address: str, other: str, same: bool) -> None:
    assert (origin_of(address) == origin_of(other)) is same


async def test_sql_clients_log_in_beside_strangers() -> None:
    limits = ConnectionLimits(
        strangers=3, strangers_per_address=3, first_byte_s=patience(), login_s=patience()
    )
    async with listening(doors=limits) as gateway:
        idle = [await RawClient.connect(gateway.port) for _ in range(10)]
        begun = [await RawClient.connect(gateway.port) for _ in range(10)]
        for one in begun:
            one.writer.write(step(Status.START, b"PLAIN"))
        clients = [await RawClient.logged_in(gateway.port) for _ in range(6)]
        for client in clients:
            await client.open_session()
        assert [await one.is_closed() for one in idle]


async def test_frames_log_in_beside_strangers_and_keep_their_addresses() -> None:
    limits = ConnectionLimits(
        strangers=3, strangers_per_address=3, first_byte_s=patience(), login_s=patience()
    )
    async with connect_listening(doors=limits) as here:
        for _ in range(10):
            _, writer = await asyncio.open_connection("127.0.0.1", here.port)
            CLIENTS.append(writer)
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
        assert await here.call()
        assert here.world.ledger.of("login")[-1].body["cliIP"] == "127.0.0.1"
        channel = here.channel()
        big = b"x" * 3_000_000
        here.service.responses = _thrice(big)
        call = here.stub("ExecutePlan", channel)(b"q", metadata=here.bearer)
        assert [len(one) async for one in call] == [3_000_000] * 3
    while CLIENTS:
        CLIENTS.pop().close()


def _thrice(answer: bytes) -> Any:
    async def responses(*_: Any) -> AsyncIterator[bytes]:
        for _turn in range(3):
            yield answer

    return responses


async def test_frames_are_cut_that_never_log_in() -> None:
    async with connect_listening(doors=ConnectionLimits(login_s=0.3, first_byte_s=patience())) as here:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await here.call(metadata=())
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
        async with asyncio.timeout(patience()):
            assert await reader.read(), "gRPC has told its settings"
            while await reader.read(1000):
                pass
        writer.close()
        assert await here.call(), "whoever logged in stays"
        late, gone = await asyncio.open_connection("127.0.0.1", here.port)
        gone.write(b"PRI")
        async with asyncio.timeout(patience()):
            while await late.read(1000):
                pass
        gone.close()
        assert len(here.server._connection_limiter._places) == 1, (
            "one who logged in longer ago than strangers may stay"
        )


PINGS = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + bytes(3)
    + b"\x04"
    + bytes(5)
    + 400_000 * (bytes(2) + b"\x08\x06" + bytes(13))
)
"""Each has an answer, which this client does not take: gRPC reads no further then."""


async def flood(port: int) -> socket.socket:
    """Return a connection that has sent as much as anybody takes, and reads nothing."""
    loop, sock = asyncio.get_running_loop(), socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(0)
    await loop.sock_connect(sock, ("127.0.0.1", port))
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(1.0):
            await loop.sock_sendall(sock, PINGS)
    return sock


async def test_who_was_cut_and_took_no_answers_leaves_nothing_behind() -> None:
    async with connect_listening(doors=ConnectionLimits(login_s=0.5, first_byte_s=patience())) as here:
        assert await here.call()
        before = psutil.Process().num_fds()
        held = [await flood(here.port) for _ in range(5)]
        for sock in held:
            sock.close()
        async with asyncio.timeout(patience()):
            while psutil.Process().num_fds() > before:  # noqa: ASYNC110 - descriptors tell nobody
                await asyncio.sleep(0.01)
        assert len(here.server._connection_limiter._places) == 1


async def test_strangers_who_take_no_answers_do_not_keep_the_server_from_stopping() -> None:
    async with connect_listening(doors=ConnectionLimits(login_s=patience(60))) as here:
        held = [await flood(here.port) for _ in range(3)]
        with structlog.testing.capture_logs() as logs:
            await here.server.close(within_s=2)
        for sock in held:
            sock.close()
        assert not [one for one in logs if one["event"] == "connect_server_not_stopped"]


async def test_what_did_not_come_through_the_door_is_refused() -> None:
    async with connect_listening() as here:
        assert here.server._relaying is not None
        async with grpc.aio.insecure_channel(f"unix:{here.server._relaying.path}") as channel:
            with pytest.raises(grpc.aio.AioRpcError, match="did not come through the listener"):
                await here.stub("Config", channel)(b"q", metadata=here.bearer, timeout=patience(20))
        directory = here.server._relaying._directory
        assert directory.stat().st_mode & 0o077 == 0
        assert [one.name for one in directory.iterdir()] == ["listener"]
    assert not directory.exists()


async def test_pages_are_given_beside_strangers_and_heads_have_a_deadline() -> None:
    listener = AdminServer({}, CollectorRegistry())
    limits = ConnectionLimits(
        connections=3, strangers=3, strangers_per_address=3, login_s=0.3, first_byte_s=0.3
    )
    port = await listener.start(ConnectionLimiter("admin", limits), "127.0.0.1", 0)
    try:
        opened_ = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10)]
        for _, writer in opened_[5:]:
            writer.write(b"GET /healthz HTTP/1.1\r\n")
        async with ClientSession() as client, client.get(f"http://127.0.0.1:{port}/healthz") as answer:
            assert answer.status == 200
        for reader, writer in opened_:
            assert await is_cut(reader)
            writer.close()
    finally:
        await listener.close()


# -- crowds over TLS -----------------------------------------------------------------------------------------


def client_tls() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=CERTIFICATE)


def client_hello() -> bytes:
    """Return what a client of TLS says first."""
    said = ssl.MemoryBIO()
    shaking = client_tls().wrap_bio(ssl.MemoryBIO(), said, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        shaking.do_handshake()
    return said.read()


LogIn = Callable[[], Awaitable[None]]


@contextlib.asynccontextmanager
async def over_tls(
    listener: str, limits: ConnectionLimits
) -> AsyncIterator[tuple[ConnectionLimiter, int, LogIn]]:
    """A listener with TLS: its door, its port, and what logs in there, or gets a page."""
    if listener == "thrift":
        async with listening(doors=limits, ssl=server_tls()) as gateway:

            async def log_in() -> None:
                streams = await asyncio.open_connection("localhost", gateway.port, ssl=client_tls())
                OPEN.append(RawClient(*streams))
                assert await OPEN[-1].log_in("bob", "secret") == (Status.COMPLETE, b"")

            yield gateway.server._connection_limiter, gateway.port, log_in
    elif listener == "connect":
        async with connect_listening(tls=True, doors=limits) as here:

            async def call() -> None:
                channel = here.channel(root=CERTIFICATE.read_bytes())
                asked = here.stub("Config", channel)(b"q", metadata=here.bearer, timeout=patience(20))
                assert await asked

            yield here.server._connection_limiter, here.port, call
    else:
        server, door = AdminServer({}, CollectorRegistry()), ConnectionLimiter("admin", limits)
        port = await server.start(door, "127.0.0.1", 0, tls=server_tls())

        async def ask() -> None:
            async with (
                ClientSession(connector=TCPConnector(ssl=client_tls())) as client,
                client.get(f"https://localhost:{port}/healthz") as answer,
            ):
                assert answer.status == 200

        try:
            yield door, port, ask
        finally:
            await server.close()


async def say(writer: asyncio.StreamWriter, way: int, hello: bytes) -> None:
    """Say nothing, half of what begins a handshake, all of it and no more, or that byte by byte."""
    with contextlib.suppress(OSError):
        for said in ([], [hello[: len(hello) // 2]], [hello], [bytes([one]) for one in hello])[way]:
            writer.write(said)
            await writer.drain()
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("listener", ["thrift", "connect", "admin"])
async def test_crowds_that_do_not_shake_hands_are_bounded_and_cut(listener: str) -> None:
    limits = ConnectionLimits(strangers=40, strangers_per_address=16, burst_s=0.2)
    limits = replace(limits, first_byte_s=patience(1), login_s=patience(2))
    hello, size = client_hello(), 240
    async with over_tls(listener, limits) as (door, port, log_in):
        for _ in range(2):
            await log_in()
        known = len(door._places) - len(door._strangers)
        crowd: list[asyncio.StreamReader] = []
        talking: list[asyncio.Task[None]] = []
        for number in range(size):
            here = (f"127.0.0.{2 + number % 3}", 0)
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=here)
            CLIENTS.append(writer)
            crowd.append(reader)
            talking.append(asyncio.create_task(say(writer, number // 3 % 4, hello)))
            assert len(door._places) + door._queued <= known + 2 * limits.strangers
        for _ in range(3):
            async with asyncio.timeout(patience(5)):
                await log_in()
        async with asyncio.timeout(patience(10)):
            for reader in crowd:
                with contextlib.suppress(OSError):
                    while await reader.read(65_536):
                        pass
            while door._strangers and listener != "admin":  # noqa: ASYNC110 - who has gone tells nobody
                await asyncio.sleep(0.01)
        for one in talking:
            one.cancel()
        while CLIENTS:
            CLIENTS.pop().close()


# -- behind a balancer ---------------------------------------------------------------------------------------


def proxied(
    body: bytes, *, version: int = 2, command: int = 1, family: int = 1, length: int | None = None
) -> bytes:
    size = len(body) if length is None else length
    return SIGNATURE + struct.pack(">BBH", version << 4 | command, family << 4 | 1, size) + body


PORTS = struct.pack(">HH", 40_000, 10_000)
IPV4 = bytes([198, 51, 100, 7, 10, 0, 0, 1]) + PORTS
IPV6 = ipaddress.IPv6Address("2001:db8::7").packed + b"\0" * 16 + PORTS
BALANCERS = (ipaddress.ip_network("127.0.0.2/32"),)


@pytest.mark.parametrize(
    ("header", "address"),
    [
        (proxied(IPV4), "198.51.100.7"),
        (proxied(IPV4 + b"\x04\x00\x03abc"), "198.51.100.7"),
        (proxied(IPV6, family=2), "2001:db8::7"),
        (proxied(ipaddress.IPv6Address("::ffff:198.51.100.7").packed + IPV6[16:], family=2), "198.51.100.7"),
        (proxied(b"", command=0, family=0), "127.0.0.2"),
        (proxied(IPV4, command=0), "127.0.0.2"),
    ],
)
async def test_a_balancer_says_whose_connection_it_passes_on(header: bytes, address: str) -> None:
    async with opened(replace(LONG, balancers=BALANCERS)) as door:
        for pieces in ([header + b"hi"], [header[:3], header[3:20], header[20:], b"hi"]):
            reader = await door.client("127.0.0.2")
            for piece in pieces:
                CLIENTS[-1].write(piece)
                await CLIENTS[-1].drain()
            assert await asyncio.wait_for(reader.readexactly(5), patience()) == b"hello"
            assert door.served[-1].visitor.address == address


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        proxied(IPV4, version=1),
        proxied(IPV4, command=2),
        proxied(IPV4[:8]),
        proxied(IPV4, family=3),
        proxied(b"", length=60_000),
        SIGNATURE,
    ],
)
async def test_what_comes_from_a_balancer_without_a_header_is_closed(sent: bytes) -> None:
    async with opened(replace(LONG, balancers=BALANCERS)) as door:
        reader = await door.client("127.0.0.2")
        CLIENTS[-1].write(sent)
        CLIENTS[-1].write_eof()
        with contextlib.suppress(ConnectionResetError):  # it sent more than was read
            assert await asyncio.wait_for(reader.read(), patience()) == b""
        assert (door.refused, door.served) == ({"proxy header": 1}, [])


async def test_who_is_no_balancer_is_where_he_connects_from_and_headers_of_his_are_his_own_bytes() -> None:
    async with opened(replace(LONG, balancers=BALANCERS)) as door:
        await door.client("127.0.0.3", says=proxied(IPV4))
        assert door.served[-1].visitor.address == "127.0.0.3"


async def test_clients_behind_a_balancer_are_counted_by_their_own_addresses() -> None:
    bounds = replace(LONG, balancers=BALANCERS, strangers_per_address=2, burst_s=0.0)
    async with opened(bounds) as door:
        for last in range(6):
            await door.client("127.0.0.2", says=proxied(bytes([198, 51, 100, last]) + IPV4[4:]))
        assert (len(door.served), door.refused) == (6, {})
        for _ in range(3):
            await door.client("127.0.0.2", says=proxied(IPV4))
        assert len(door.served) == 9
