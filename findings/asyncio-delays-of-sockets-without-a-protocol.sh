#!/usr/bin/env bash
# CPython 3.11's asyncio: connections that a listening socket of one's own accepts may wait 40 ms for each small answer.
#
# asyncio sets TCP_NODELAY on a connection only where the socket's `proto` is IPPROTO_TCP. `socket.socket(AF_INET,
# SOCK_STREAM)` has 0 there, which the kernel takes as TCP, and so has every socket that it accepts. A server that is made with
# `create_server(host, port)` gets its sockets from `getaddrinfo` and is quick; one that is given such a socket, or
# that hands accepted ones to `connect_accepted_socket`, has Nagle's algorithm on: the second of two small answers waits
# until the client has acknowledged the first, which Linux delays by 40 ms. A test with one answer at a time never shows it.
#
# Needs Python 3.11+ on Linux. Fails when this changes.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cat >"$place/ask.py" <<'PY'
import asyncio
import socket
import time

ROUNDS = 20


class Answers(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(b"one")
        asyncio.get_running_loop().call_later(0.001, self.transport.write, b"two")


async def measure(protocol):
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
    listening.bind(("127.0.0.1", 0))
    server = await asyncio.get_running_loop().create_server(Answers, sock=listening)
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        writer.write(b"?")
        await reader.readexactly(6)
        took.append(time.perf_counter() - began)
    writer.close()
    server.close()
    return 1000 * sorted(took)[ROUNDS // 2]


without, named = asyncio.run(measure(0)), asyncio.run(measure(socket.IPPROTO_TCP))
print(f"two answers: {without:.1f} ms without a protocol, {named:.1f} ms with IPPROTO_TCP")
assert without > 30, "nothing waits any more"
assert named < 30, "even a named one waits"
PY
python3 "$place/ask.py"
