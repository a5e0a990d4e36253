"""Certificates that change: new connections see them, those that are there stay, faults change nothing."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import structlog
from prometheus_client import generate_latest

from gateway.app.certificates import Certificates, context_of, read_pair, tls_context
from gateway.app.connect import connect_context_of
from gateway.errors import Faults
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.session.metrics import Metrics
from gateway.settings.listeners import Tls
from tests.app.certificate_files import make_pair
from tests.frontends.connect_listening import Listening
from tests.speed import patience


class Echo(asyncio.Protocol):
    """Says back what it hears."""

    def __init__(self, place: object) -> None:
        self.place = place

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)  # type: ignore[attr-defined]


@dataclass
class Served:
    """A listener of each kind, with the certificate of a directory."""

    directory: Path
    port: int
    connect: Listening
    certificates: Certificates
    metrics: Metrics

    @property
    def pem(self) -> bytes:
        return (self.directory / "c.pem").read_bytes()

    async def shown(self, port: int) -> bytes:
        """Return the certificate that a new connection sees."""
        return (await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))).encode()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    make_pair(tmp_path)
    tls = Tls(certificate=tmp_path / "c.pem", key=tmp_path / "k.pem")
    metrics = Metrics()
    certificates = Certificates(metrics.certificate_ends)
    door = ConnectionLimiter("thrift")
    port = await door.open("127.0.0.1", 0, Echo, tls=tls_context(tls))
    certificates.add("thrift", tls, lambda pair: door.renew(context_of(pair)))
    connect = Listening(None, None)
    connect.port = await connect.server.start("127.0.0.1", 0, ssl=connect_context_of(read_pair(tls)))
    connect_door = connect.server._connection_limiter
    certificates.add("connect", tls, lambda pair: connect_door.renew(connect_context_of(pair)))
    try:
        yield Served(tmp_path, port, connect, certificates, metrics)
    finally:
        for channel in connect.channels:
            await channel.close()
        await connect.server.close(within_s=5)
        await connect.world.sessions.close()
        door.close()


async def test_a_new_certificate_is_seen_by_new_connections_and_ends_none(served: Served) -> None:
    context = ssl.create_default_context(cafile=str(served.directory / "c.pem"))
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", served.port, ssl=context, server_hostname="localhost"
    )
    old = served.pem
    channel = served.connect.channel(root=old)
    call = served.connect.stub("Config", channel)
    assert await call(b"q", metadata=served.connect.bearer, timeout=patience(20)) == b"answer to q"
    make_pair(served.directory, days=90)
    assert served.certificates.look() == 2
    assert served.pem != old
    for port in (served.port, served.connect.port):
        assert (await served.shown(port)).split() == served.pem.split()
    # What was there goes on.
    writer.write(b"still here")
    assert await asyncio.wait_for(reader.readexactly(10), patience()) == b"still here"
    assert await call(b"r", metadata=served.connect.bearer, timeout=patience(20)) == b"answer to r"
    writer.close()
    new = served.connect.stub("Config", served.connect.channel(root=served.pem))
    assert await new(b"s", metadata=served.connect.bearer, timeout=patience(20)) == b"answer to s"
    stale = served.connect.stub("Config", served.connect.channel(root=old))
    with pytest.raises(grpc.RpcError):
        await stale(b"t", metadata=served.connect.bearer, timeout=patience(2))
    assert served.certificates.look() == 0


async def test_files_that_cannot_be_used_leave_the_last_certificate(served: Served) -> None:
    old = served.pem
    make_pair(served.directory, key_name="other.pem")  # the certificate is written, its key not yet
    with structlog.testing.capture_logs() as logs:
        assert served.certificates.look() == 0
        assert served.certificates.look() == 0
    assert [one["event"] for one in logs] == ["certificate_not_reloaded"] * 2, "once for each listener"
    assert "does not match" in str(logs[0]["faults"])
    with structlog.testing.capture_logs() as logs:
        assert served.certificates.look(asked=True) == 0
    assert [one["event"] for one in logs] == ["certificate_not_reloaded"] * 2, "to whoever asks each time"
    assert "does not match" in str(await served.certificates.report_trouble())
    assert (await served.shown(served.port)).split() == old.split()
    assert (await served.shown(served.connect.port)).split() == old.split()
    (served.directory / "other.pem").replace(served.directory / "k.pem")
    assert served.certificates.look() == 2
    assert await served.certificates.report_trouble() is None
    make_pair(served.directory, days=-1, since_days=-3)
    assert served.certificates.look() == 0
    make_pair(served.directory, since_days=2)
    assert served.certificates.look() == 0
    (served.directory / "k.pem").unlink()
    assert served.certificates.look() == 0


async def test_what_is_put_back_is_no_fault_any_more(served: Served) -> None:
    good, bad = served.directory / "c.pem", served.directory / "bad.pem"
    bad.write_text("garbage")
    good.replace(served.directory / "kept.pem")
    bad.replace(good)
    assert served.certificates.look() == 0
    assert "has no usable certificate" in str(await served.certificates.report_trouble())
    (served.directory / "kept.pem").replace(good)
    assert served.certificates.look() == 0
    assert await served.certificates.report_trouble() is None


async def test_what_changed_while_a_gateway_started_is_shown(served: Served) -> None:
    # The operators' listener is there long before the others are.
    tls = Tls(certificate=served.directory / "c.pem", key=served.directory / "k.pem")
    door = ConnectionLimiter("admin")
    port = await door.open("127.0.0.1", 0, Echo, tls=tls_context(tls))
    try:
        make_pair(served.directory, days=90)
        served.certificates.add("admin", tls, lambda pair: door.renew(context_of(pair)))
        assert (await served.shown(port)).split() == served.pem.split()
    finally:
        door.close()


@pytest.mark.parametrize("at", range(0, 400, 7))
def test_a_certificate_that_is_half_written_or_broken_is_a_fault_or_none(tmp_path: Path, at: int) -> None:
    make_pair(tmp_path)
    tls = Tls(certificate=tmp_path / "c.pem", key=tmp_path / "k.pem")
    whole = tls.certificate.read_text()
    one = bytearray(ssl.PEM_cert_to_DER_cert(whole))
    for broken in (one[:at], one[:at] + bytes([one[at] ^ 0x15]) + one[at + 1 :]) if at < len(one) else ():
        tls.certificate.write_text(ssl.DER_cert_to_PEM_cert(bytes(broken)))
        with contextlib.suppress(Faults):
            context_of(read_pair(tls))
    tls.certificate.write_text(whole[:at])
    with pytest.raises(Faults):
        read_pair(tls)


async def test_when_a_certificate_ends_is_a_metric_and_a_note(served: Served) -> None:
    make_pair(served.directory, days=10)
    served.certificates.look()
    page = generate_latest(served.metrics.registry).decode()
    ends = read_pair(Tls(certificate=served.directory / "c.pem", key=served.directory / "k.pem")).not_after
    for listener in ("thrift", "connect"):
        name = f'sluice_certificate_expiry_timestamp_seconds{{listener="{listener}"}} '
        (line,) = [one for one in page.splitlines() if one.startswith(name)]
        assert float(line.removeprefix(name)) == ends.timestamp()
    assert "thrift: `c.pem` expires on " in str(await served.certificates.report_trouble())


async def test_settings_may_name_other_files(served: Served) -> None:
    make_pair(served.directory, certificate_name="d.pem", key_name="l.pem")
    other = Tls(certificate=served.directory / "d.pem", key=served.directory / "l.pem")
    served.certificates.set_certificate_files("thrift", other)
    served.certificates.set_certificate_files("nobody", other)
    assert served.certificates.look() == 1
    assert (await served.shown(served.port)).split() == (served.directory / "d.pem").read_bytes().split()
