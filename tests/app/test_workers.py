"""A supervisor hands each connection to a worker, replaces those that end, and ends all with itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge

from gateway.app.handed_connections import WorkerPlace
from gateway.app.left_spools import list_left
from gateway.app.supervisor import Supervisor, hold_reload, make_directory
from gateway.app.worker_metrics import merge_metrics, merge_texts, share_metrics
from gateway.audit.backlog import find_spool, list_spools
from gateway.errors import BackendUnavailable, Faults
from gateway.settings.loading import load_settings
from tests.speed import patience

WORKER = """
import asyncio, json, os, signal, sys
from pathlib import Path
from gateway.app.handed_connections import HandedConnections, WorkerPlace

async def main():
    told = json.loads(sys.argv[-1])
    told["directory"] = Path(told["directory"])
    handed = HandedConnections(WorkerPlace(**told))
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    kept = []
    def enter(sock):
        sock.send(b"%d %d\\n" % (told["number"], os.getpid()))
        kept.append(sock)
        handed.note_open("thrift", len(kept))
    handed.take("thrift", enter)
    handed.mark_ready()
    await stopped.wait()

asyncio.run(main())
"""
SETTINGS = """
listeners: {thrift: {port: 0}, admin: {port: 0}}
backend: {thrift: {host: 127.0.0.1, port: 10000}}
ledger: {dsn: {env: SLUICE_TEST_DSN}}
sessions: {drain_s: 0.5}
workers: 2
"""


class Supervising(Supervisor):
    def _require_site(self) -> None:
        """Nothing is there of which workers of a test would need."""


@contextlib.asynccontextmanager
async def supervised(directory: Path, worker: str = WORKER) -> AsyncIterator[tuple[Supervisor, int]]:
    """Yield a supervisor, and the port at which its workers serve."""
    (directory / "gateway.yaml").write_text(SETTINGS)
    settings = load_settings(directory / "gateway.yaml")
    supervisor = Supervising(settings, directory / "gateway.yaml", (sys.executable, "-c", worker))
    serving = asyncio.create_task(supervisor.serve())
    try:
        async with asyncio.timeout(patience()):
            while not (supervisor.is_ready or serving.done()):  # noqa: ASYNC110 - either may end it
                await asyncio.sleep(0.01)
        if serving.done():
            await serving
        yield supervisor, supervisor.ports["thrift"]
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError, Faults):
            await serving


async def ask(port: int) -> tuple[int, int, asyncio.StreamWriter]:
    """Connect, and return which worker answers: its number and its process."""
    async with asyncio.timeout(patience()):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            number, pid = (await reader.readline()).split()
        except BaseException:  # its time is over, too
            await close(writer)
            raise
    return int(number), int(pid), writer


async def ask_and_close(port: int) -> tuple[int, int]:
    """The same, and be gone; worker 0 where the connection was cut."""
    try:
        number, pid, writer = await ask(port)
    except (ValueError, ConnectionError):
        return 0, 0
    await close(writer)
    return number, pid


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@pytest.fixture(autouse=True)
def _dsn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_TEST_DSN", "postgresql:///nobody")


async def test_connections_go_to_the_worker_that_has_fewest(tmp_path: Path) -> None:
    async with supervised(tmp_path) as (_, port):
        found = [await ask(port) for _ in range(6)]
        assert sorted(number for number, _, _ in found) == [1, 1, 1, 2, 2, 2]
        for _, _, writer in found:
            await close(writer)


async def test_a_killed_worker_is_replaced_and_connections_are_taken_meanwhile(tmp_path: Path) -> None:
    async with supervised(tmp_path) as (_, port):
        pids: dict[int, int] = {}
        while len(pids) < 2:
            number, pid, writer = await ask(port)
            pids[number] = pid
            await close(writer)
        os.kill(pids[1], signal.SIGKILL)
        seen = set()
        async with asyncio.timeout(patience()):
            while 1 not in seen:
                # Each is answered: by the other one, or by the successor. One that was on its way to the
                # killed one is cut, as by a gateway that is killed.
                with contextlib.suppress(ValueError, ConnectionError):
                    number, pid, writer = await ask(port)
                    await close(writer)
                    seen |= {number} if pid != pids[1] else set()
                await asyncio.sleep(0.01)


async def test_all_workers_end_with_their_supervisor(tmp_path: Path) -> None:
    async with supervised(tmp_path) as (supervisor, port):
        _, pid, writer = await ask(port)
        await close(writer)
        await supervisor.drain()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_worker_that_never_gets_ready_ends_the_gateway(tmp_path: Path) -> None:
    with pytest.raises(Faults, match="before it was ready"):
        async with supervised(tmp_path, "raise SystemExit(4)"):
            pass


async def test_a_worker_that_has_no_spark_is_no_fault_of_the_files(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="code 5 before it was ready"):
        async with supervised(tmp_path, "raise SystemExit(5)"):
            pass


async def test_a_file_at_fault_ends_no_other_worker_and_keeps_no_successor_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.app.supervisor.LONGEST_PAUSE_S", 0.05)
    told: asyncio.Queue[list[str]] = asyncio.Queue()

    def note(event: str, **fields: Any) -> None:
        if event == "worker_not_replaced":
            told.put_nowait(fields["faults"])

    monkeypatch.setattr("gateway.app.supervisor.log.error", note)
    async with supervised(tmp_path) as (_, port):
        pids: dict[int, int] = {}
        while len(pids) < 2:
            number, pid, writer = await ask(port)
            pids[number] = pid
            await close(writer)
        config = tmp_path / "gateway.yaml"
        config.write_text(SETTINGS.replace("workers: 2", "workers: 3"))
        os.kill(pids[1], signal.SIGKILL)
        async with asyncio.timeout(patience()):
            (fault,) = await told.get()
            assert "`workers` has changed" in fault
            config.write_text("wrokers: 2")
            while "wrokers" not in (await told.get())[0]:
                pass
            assert (await ask_and_close(port))[0] == 2
            config.write_text(SETTINGS)
            while (await ask_and_close(port))[0] != 1:  # noqa: ASYNC110 - another process may
                await asyncio.sleep(0.01)


def test_a_reload_waits_for_a_worker_that_starts() -> None:
    hang_up = "import os, signal; os.kill(os.getpid(), signal.SIGHUP)"
    then = "; signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])"
    with hold_reload():
        assert subprocess.run([sys.executable, "-c", hang_up], check=False).returncode == 0
        late = subprocess.run([sys.executable, "-c", hang_up + then], check=False)
    assert late.returncode == -signal.SIGHUP
    assert subprocess.run([sys.executable, "-c", hang_up], check=False).returncode == -signal.SIGHUP


@pytest.mark.parametrize(
    "settings",
    ["workers: 2\n", "workers: 2\nledger: {dsn: {env: SLUICE_TEST_DSN}}\n", "workers: 0\n"],
)
def test_workers_share_a_postgresql_and_a_spark(tmp_path: Path, settings: str) -> None:
    (tmp_path / "gateway.yaml").write_text(settings)
    with pytest.raises(Faults, match="workers"):
        load_settings(tmp_path / "gateway.yaml")


def test_the_first_worker_keeps_the_record_where_one_gateway_does(tmp_path: Path) -> None:
    assert find_spool(tmp_path, 1) == tmp_path
    for number in (2, 3, 4):
        (tmp_path / f"worker-{number}").mkdir()
    (tmp_path / "worker-2" / "000000000001.spool").touch()
    (tmp_path / "worker-4" / "000000000001.spool").touch()
    assert list_left(tmp_path, 2) == [tmp_path / "worker-4"]
    assert list_spools(tmp_path) == [tmp_path, *(tmp_path / f"worker-{number}" for number in (2, 3, 4))]
    assert list_left(tmp_path, 1) == [tmp_path / "worker-2", tmp_path / "worker-4"]


async def test_one_page_has_the_metrics_of_all_workers() -> None:
    directory = make_directory()
    places = [WorkerPlace(number=n, directory=directory, control=-1, ports={}) for n in (1, 2)]
    servers = []
    for place in places:
        registry = CollectorRegistry()
        Gauge("sessions", "Open sessions.", ["endpoint"], registry=registry).labels("thrift").set(
            place.number
        )
        servers.append(await share_metrics(place, registry))
    page = (await merge_metrics(places[0])).decode().splitlines()
    assert page.count("# HELP sessions Open sessions.") == 1
    assert 'sessions{worker="1",endpoint="thrift"} 1.0' in page
    assert 'sessions{worker="2",endpoint="thrift"} 2.0' in page
    servers[1].close()
    await servers[1].wait_closed()
    page = (await merge_metrics(places[0])).decode().splitlines()
    assert 'sluice_worker_up{worker="2"} 0' in page
    servers[0].close()


def test_samples_without_labels_and_histograms_are_labelled() -> None:
    text = '# HELP a A.\n# TYPE a histogram\na_bucket{le="+Inf"} 3.0\na_count 3.0\n'
    assert merge_texts([("1", text), ("2", text)]) == (
        '# HELP a A.\n# TYPE a histogram\na_bucket{worker="1",le="+Inf"} 3.0\na_count{worker="1"} 3.0\n'
        'a_bucket{worker="2",le="+Inf"} 3.0\na_count{worker="2"} 3.0\n'
    )
