"""Runs Iceberg's own REST catalog on this machine, for demos and tests: bound to 127.0.0.1, asked by anybody
on the machine, its tables' names in memory.

It runs as whoever the embedded Spark runs as, so that both write the same warehouse, and dies with us.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from gateway.backends import parent_watchdog
from gateway.backends.unprivileged import file_within_reach, run_as, state_directory, within_reach
from gateway.errors import BackendUnavailable
from gateway.model.java_options import QUICK_START

HOST = "127.0.0.1"
SOURCES = Path(__file__).parent / "java"
MAIN = "IcebergRestServer"
WATCHDOG = str(Path(parent_watchdog.__file__).resolve())
COMPILER = ("janino-*.jar", "commons-compiler-*.jar")
"""What compiles it as it starts; Spark has these."""
LOG_TAIL_BYTES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedCatalogOptions:
    """What an embedded catalog is started with."""

    directory: Path
    """Keeps its warehouse and log. Where it exists, it is reached by whoever the embedded Spark runs as."""
    java: Path
    """The `java` executable, version 17 or later."""
    jars: Path
    """Directory with the server's jars, as `fetch_catalog_servers` puts them there."""
    spark_home: Path
    """A directory whose `jars/` holds Spark, for its Java compiler."""
    heap: str = "256m"
    start_timeout_s: float = 120.0
    """Seconds until it listens; 3 were seen."""
    stop_timeout_s: float = 10.0
    """Seconds between SIGTERM and SIGKILL."""


class EmbeddedCatalog:
    """One server that this process owns, from `start` to `stop`."""

    def __init__(self, options: EmbeddedCatalogOptions) -> None:
        self._options = options
        self._user = run_as()
        self.directory = state_directory(options.directory, self._user)
        self._process: asyncio.subprocess.Process | None = None
        self.url = ""
        """Where it listens, once it has started."""

    @property
    def log(self) -> Path:
        return self.directory / "catalog.log"

    async def start(self) -> None:
        """Start the server, and return when it listens.

        Call it from the thread that lives as long as the gateway. Raises BackendUnavailable with the end of
        its log; nothing is left running then.
        """
        command = await asyncio.to_thread(self._command)
        uid, gid = (self._user.uid, self._user.gid) if self._user else (-1, -1)
        try:
            with self.log.open("wb") as log:
                self._process = process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", WATCHDOG),
                    *(str(os.getpid()), str(uid), str(gid), str(self.directory)),
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(self.directory)},
                    start_new_session=True,
                )
            line = await self._first_line(process)
            if not line.strip().isdigit():
                raise BackendUnavailable(f"Iceberg's REST server did not start; {self._log_tail()}")
            self.url = f"http://{HOST}:{int(line)}"
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop the server: SIGTERM, then SIGKILL. May be called twice."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        try:
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(self._options.stop_timeout_s):
                await process.wait()
        except TimeoutError:
            pass
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    def _command(self) -> list[str]:
        """Put what the server's user must read within its reach, and return the command line."""
        options = self._options
        programs = self.directory / "programs"
        shutil.rmtree(programs, ignore_errors=True)
        programs.mkdir()
        programs.chmod(0o755)
        compiler = [jar for pattern in COMPILER for jar in (options.spark_home / "jars").glob(pattern)]
        for file in (SOURCES / f"{MAIN}.java", *options.jars.glob("*.jar"), *compiler):
            file_within_reach(file, self._user, programs / file.name)
        for name in ("tmp", "warehouse"):
            made = self.directory / name
            made.mkdir(mode=0o700, exist_ok=True)
            if self._user is not None:
                os.chown(made, self._user.uid, self._user.gid)
        home = within_reach(options.java.resolve().parent.parent, self._user, self.directory.parent)
        return [
            *(str(home / "bin" / "java"), f"-Xmx{options.heap}", "-XX:+UseSerialGC"),
            *(*QUICK_START, f"-Djava.io.tmpdir={self.directory / 'tmp'}"),
            *("-cp", f"{programs}/*", "org.codehaus.janino.JavaSourceClassLoader"),
            *("-sourcepath", str(programs), MAIN, str(self.directory / "warehouse")),
        ]

    async def _first_line(self, process: asyncio.subprocess.Process) -> bytes:
        if process.stdout is None:
            return b""
        try:
            async with asyncio.timeout(self._options.start_timeout_s):
                return await process.stdout.readline()
        except TimeoutError:
            return b""

    def _log_tail(self) -> str:
        text = self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
        return f"the end of {self.log}:\n{text}"
