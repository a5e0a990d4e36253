"""Several processes that serve as one gateway: starts them, hands them connections, replaces those that end.

Each worker is a gateway of a fleet (docs/adr/0048-workers.md) with a parser and a record of its own. This
process listens, reads nothing, and knows nothing of statements: should a worker be killed, the next
connection goes to another.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from gateway.app import exit_codes
from gateway.app.concurrent_work import run_together
from gateway.app.endpoints import ENDPOINTS
from gateway.app.handed_connections import MAX_MESSAGE_BYTES
from gateway.app.probes import NAME as ADMIN
from gateway.app.site_checks import check_site
from gateway.errors import BackendUnavailable, Faults
from gateway.frontends.connection_limits import BACKLOG, address_of, bind_sockets
from gateway.model.bounded import BoundedDict
from gateway.settings.loading import load_settings
from gateway.settings.models import Settings

log = structlog.get_logger(__name__)

BY_ADDRESS = frozenset({"thrift_http", ADMIN})
"""Listeners whose sessions live on several connections: those of one address go to one worker."""
MAX_ADDRESSES = 100_000
MAX_RESTARTS = 10
RESTARTS_WITHIN_S = 600.0
"""More than so many in this time is no accident: the gateway ends, and whoever watches it is told."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
"""Before a worker is started again, by how often that was."""
ACCEPTED_AT_ONCE = 64
FULL_PAUSE_S = 0.1
"""How long nothing is accepted when no worker takes more, or no descriptor is left."""
KILL_S = 30.0
"""Seconds that workers get beyond `sessions.drain_s` before they are killed."""


WORKER = (sys.executable, "-m", "gateway.cli.worker")
LONGEST_DIRECTORY = 70
"""A socket's path has 107 bytes at most."""


@dataclass(eq=False)
class Worker:
    """A process that serves; `control` is this end of the socket by which it gets connections."""

    number: int
    process: asyncio.subprocess.Process
    control: socket.socket
    is_ready: bool = False
    taken: dict[str, bool] = field(default_factory=dict)
    """Whether it takes connections of a listener."""
    connections: dict[str, int] = field(default_factory=dict)
    """As it has said last."""
    received: dict[str, int] = field(default_factory=dict)
    """Connections that it had been handed when it said so."""
    handed: dict[str, int] = field(default_factory=dict)

    def load(self, listener: str) -> int:
        """Return how many connections of a listener it has, those on their way included."""
        on_the_way = self.handed.get(listener, 0) - self.received.get(listener, 0)
        return self.connections.get(listener, 0) + max(0, on_the_way)

    def hand(self, listener: str, sock: socket.socket) -> bool:
        """Hand it a connection; False when it does not take it now."""
        try:
            socket.send_fds(self.control, [listener.encode()], [sock.fileno()])
        except OSError:
            return False
        self.handed[listener] = self.handed.get(listener, 0) + 1
        return True


class Supervisor:
    """The first process of a gateway with workers, from `serve` to its end."""

    def __init__(self, settings: Settings, config: Path, command: Sequence[str] = WORKER) -> None:
        """`command`: what a worker is, before its two arguments; see `cli.worker`."""
        self._settings = settings
        self._config = config
        self._command = tuple(command)
        self._directory = make_directory()
        self._workers: dict[int, Worker] = {}
        self._sockets: dict[str, list[socket.socket]] = {}
        self._listening: set[str] = set()
        self.ports: dict[str, int] = {}
        self._by_address: BoundedDict[tuple[str, str], int] = BoundedDict(MAX_ADDRESSES)
        self._restarted: deque[float] = deque()
        self.is_ready = False
        """Whether all workers have been ready once."""
        self._stopping = asyncio.Event()

    async def serve(self) -> None:
        """Serve until cancelled. Raises Faults when workers cannot be started by the files as they are, and
        BackendUnavailable when they end before they are ready, or again and again."""
        try:
            self._require_site()
            await self._bind()
            await run_together(*(self._keep(number) for number in range(1, self._settings.workers + 1)))
        finally:
            await self._end_all()

    async def drain(self) -> None:
        """Have every worker stop as a gateway does: take nothing new and wait for what runs."""
        self._stopping.set()
        self._signal(signal.SIGTERM)
        await self._wait_for_ends(self._settings.sessions.drain_s + KILL_S)

    async def reload(self) -> None:
        """Have every worker read again what has changed."""
        self._signal(signal.SIGHUP)

    # -- listening -----------------------------------------------------------------------------------------

    def _require_site(self) -> None:
        site = check_site(self._settings, self._config, starting=True)
        for warning in site.warnings:
            log.warning("site", warning=warning)
        if site.faults:
            raise Faults(list(site.faults))

    async def _bind(self) -> None:
        for endpoint in ENDPOINTS:
            listener = endpoint.listener(self._settings)
            if listener is None:
                continue
            try:
                found = await bind_sockets(listener.host, listener.port)
            except OSError as error:
                where = f"{listener.host}:{listener.port}"
                raise Faults([f"cannot listen on {where}: {error.strerror or error}"]) from None
            self._sockets[endpoint.name], self.ports[endpoint.name] = found

    def _listen(self, listener: str) -> None:
        """Take connections of a listener, once there is a worker for them."""
        if listener not in self._listening:
            self._listening.add(listener)
            for sock in self._sockets[listener]:
                sock.listen(BACKLOG)
                asyncio.get_running_loop().add_reader(sock, self._accept, listener, sock)

    def _accept(self, listener: str, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            if not self._takers(listener):
                self._pause(listener, listening)
                return
            try:
                sock, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                self._pause(listener, listening)
                return
            with sock:
                self._hand(listener, sock, address_of(peer))

    def _pause(self, listener: str, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        loop.call_later(FULL_PAUSE_S, self._resume, listener, listening)

    def _resume(self, listener: str, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            asyncio.get_running_loop().add_reader(listening, self._accept, listener, listening)

    def _takers(self, listener: str) -> list[Worker]:
        """Return the workers that take connections of a listener: those that are ready, if any is."""
        takers = [one for one in self._workers.values() if one.taken.get(listener)]
        return [one for one in takers if one.is_ready] or takers

    def _hand(self, listener: str, sock: socket.socket, address: str) -> None:
        takers = sorted(self._takers(listener), key=lambda one: (one.load(listener), one.number))
        if listener in BY_ADDRESS:
            same = self._by_address.get((listener, address))
            takers.sort(key=lambda one: one.number != same)
        for worker in takers:
            if worker.hand(listener, sock):
                if listener in BY_ADDRESS:
                    self._by_address[(listener, address)] = worker.number
                return
        log.warning("connection_refused", listener=listener, reason="no worker takes it")

    # -- workers -------------------------------------------------------------------------------------------

    async def _keep(self, number: int) -> None:
        """Have a worker of that number there at all times."""
        while not self._stopping.is_set():
            worker = await self._start(number)
            code = await worker.process.wait()
            self._drop(worker)
            if self._stopping.is_set():
                return
            log.error("worker_ended", worker=number, code=code)
            if not worker.is_ready and not self.is_ready:
                told = f"worker {number} ended with code {code} before it was ready; its log says why"
                raise Faults([told]) if code == exit_codes.FAULTS else BackendUnavailable(told)
            if code != exit_codes.FAULTS:
                await self._pause_before_restart()
            else:  # Files that somebody has to correct are no reason to end the other workers.
                await self._pause_until_stopped(LONGEST_PAUSE_S)
            await self._wait_for_settings(number)

    async def _wait_for_settings(self, number: int) -> None:
        """Return when a worker of this gateway can be started by the settings' file as it is now."""
        while not self._stopping.is_set() and (faults := await asyncio.to_thread(self._list_changes)):
            log.error("worker_not_replaced", worker=number, faults=faults)
            await self._pause_until_stopped(LONGEST_PAUSE_S)

    def _list_changes(self) -> list[str]:
        """Return why a worker of the settings' file would not be one of this gateway."""
        try:
            new = load_settings(self._config)
        except Faults as error:
            return list(error.faults)
        old, changed = self._settings, []
        if new.workers != old.workers:
            changed.append("workers")
        if new.ledger != old.ledger:
            changed.append("ledger")
        if _list_addresses(new) != _list_addresses(old):
            changed.append("listeners")
        return [f"`{one}` has changed in `{self._config}`: restart the gateway" for one in changed]

    async def _pause_before_restart(self) -> None:
        now = time.monotonic()
        self._restarted.append(now)
        while self._restarted and now - self._restarted[0] > RESTARTS_WITHIN_S:
            self._restarted.popleft()
        if len(self._restarted) > MAX_RESTARTS:
            count, minutes = len(self._restarted), RESTARTS_WITHIN_S / 60
            raise BackendUnavailable(f"workers ended {count} times within {minutes:g} minutes")
        pause_s = min(FIRST_PAUSE_S * 2.0 ** (len(self._restarted) - 1), LONGEST_PAUSE_S)
        await self._pause_until_stopped(pause_s)

    async def _pause_until_stopped(self, within_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._stopping.wait()

    async def _start(self, number: int) -> Worker:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(0)
        with its, hold_reload():
            process = await asyncio.create_subprocess_exec(
                *self._command,
                str(self._config),
                json.dumps(
                    {
                        "number": number,
                        "directory": str(self._directory),
                        "control": its.fileno(),
                        "ports": self.ports,
                    }
                ),
                pass_fds=(its.fileno(),),
                # Ctrl-C in a terminal is ours to pass on.
                process_group=0,
            )
        worker = self._workers[number] = Worker(number, process, ours)
        asyncio.get_running_loop().add_reader(ours, self._hear, worker)
        return worker

    def _hear(self, worker: Worker) -> None:
        try:
            data = worker.control.recv(MAX_MESSAGE_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(worker.control)
            worker.taken.clear()
            return
        told = json.loads(data)
        for listener, (received, connections, takes) in told["listeners"].items():
            worker.received[listener], worker.connections[listener] = received, connections
            worker.taken[listener] = takes
            if takes:
                self._listen(listener)
        if told["ready"] and not worker.is_ready:
            worker.is_ready = True
            self._tell_ready()

    def _tell_ready(self) -> None:
        if self.is_ready or sum(one.is_ready for one in self._workers.values()) < self._settings.workers:
            return
        self.is_ready = True
        listeners = {one.name: one.listener(self._settings) for one in ENDPOINTS}
        hosts = {f"{name}_host": one.host for name, one in listeners.items() if one is not None}
        ports = {f"{name}_port": port for name, port in self.ports.items()}
        log.info("gateway_ready", workers=self._settings.workers, **hosts, **ports)

    def _drop(self, worker: Worker) -> None:
        """Forget a worker that has ended."""
        asyncio.get_running_loop().remove_reader(worker.control)
        worker.control.close()
        if self._workers.get(worker.number) is worker:
            del self._workers[worker.number]

    # -- ending --------------------------------------------------------------------------------------------

    def _signal(self, number: int) -> None:
        for worker in list(self._workers.values()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.process.pid, number)

    async def _wait_for_ends(self, within_s: float) -> None:
        ends = [asyncio.ensure_future(one.process.wait()) for one in self._workers.values()]
        if ends:
            await asyncio.wait(ends, timeout=within_s)
        for end in ends:
            end.cancel()

    async def _end_all(self) -> None:
        self._stopping.set()
        for sock in (one for found in self._sockets.values() for one in found):
            asyncio.get_running_loop().remove_reader(sock)
            sock.close()
        self._signal(signal.SIGTERM)
        await self._wait_for_ends(KILL_S)
        self._signal(signal.SIGKILL)
        await self._wait_for_ends(KILL_S)
        for worker in list(self._workers.values()):
            self._drop(worker)
        shutil.rmtree(self._directory, ignore_errors=True)


@contextlib.contextmanager
def hold_reload() -> Iterator[None]:
    """Have SIGHUP wait in a process that is started within, which is ended by it before it can read again
    what has changed. `until_signalled` lets it come."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})


def _list_addresses(settings: Settings) -> list[tuple[str, str, int]]:
    found = [(one.name, one.listener(settings)) for one in ENDPOINTS]
    return [(name, listener.host, listener.port) for name, listener in found if listener is not None]


def make_directory() -> Path:
    """Return a new directory for the sockets of workers, which nobody else may enter."""
    made = Path(tempfile.mkdtemp(prefix="sluice-workers-"))
    if len(str(made)) > LONGEST_DIRECTORY:
        made.rmdir()
        made = Path(tempfile.mkdtemp(prefix="sluice-workers-", dir="/tmp"))
    return made
