"""The blocking client of `raw_client`, over HiveServer2's HTTP transport: one connection, and the cookie."""

from __future__ import annotations

import base64
from typing import Any

from gateway.wire import calls
from gateway.wire.messages import encode_call
from gateway.wire.tcli import TProtocolVersion
from gateway.wire.thrift import Struct
from tests.bench.raw_client import RawClient, Server

HEAD_BYTES = 16 * 1024


class HttpRawClient(RawClient):
    """One connection with one session; logs in by `Basic` until it has a cookie."""

    def log_in(self, server: Server) -> Any:
        secret = base64.b64encode(f"{server.user}:{server.password}".encode()).decode()
        self._login = f"Authorization: Basic {secret}\r\n"
        request = calls.TOpenSessionReq(client_protocol=TProtocolVersion.V10, configuration={})
        return self.call("OpenSession", request, calls.TOpenSessionResp)

    def send(self, method: str, request: Struct) -> None:
        self._seqid += 1
        body = encode_call(method, self._seqid, request)
        head = (
            "POST /cliservice HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-thrift\r\n"
            f"Accept: application/x-thrift\r\n{self._login}Content-Length: {len(body)}\r\n\r\n"
        )
        self.socket.sendall(head.encode() + body)

    def _frame(self) -> memoryview:
        """Return the next answer's body; it is valid until the next call."""
        head, rest = b"", b""
        while not rest and b"\r\n\r\n" not in head:
            head += self._some()
            assert len(head) < HEAD_BYTES
        head, _, rest = head.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        assert lines[0].split()[1] == "200", lines[0]
        fields = [line.partition(": ") for line in lines[1:]]
        headers = {name.lower(): value for name, _, value in fields}
        if "set-cookie" in headers:
            self._login = f"Cookie: {headers['set-cookie'].partition(';')[0]}\r\n"
        if headers.get("transfer-encoding") == "chunked":
            return self._chunks(rest)
        return self._rest_of(int(headers["content-length"]), rest)

    def _rest_of(self, size: int, rest: bytes) -> memoryview:
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        view = memoryview(self._buffer)[:size]
        view[: len(rest)] = rest
        at = len(rest)
        while at < size:
            received = self.socket.recv_into(view[at:], size - at)
            assert received, "the server closed the connection"
            at += received
        return view

    def _chunks(self, rest: bytes) -> memoryview:
        """Join what Spark sends in pieces, as a client has to."""
        found = bytearray()
        while True:
            while b"\r\n" not in rest:
                rest += self.socket.recv(1 << 18)
            line, _, rest = rest.partition(b"\r\n")
            size = int(line, 16)
            while len(rest) < size + 2:
                rest += self.socket.recv(1 << 18)
            found += rest[:size]
            rest = rest[size + 2 :]
            if not size:
                return memoryview(found)
