"""Runs one Spark JVM with Thrift Server and Connect, where it has that, on this machine, for demos and tests.

Plain `java` and pyspark's jars, no shell script and no SPARK_HOME of a cluster. Metastore (Derby) and
warehouse persist in one directory; both ports are bound to 127.0.0.1; as root, Spark runs as an unprivileged
user; it dies with the gateway, whichever way the gateway dies (`parent_watchdog.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

from gateway.backends import parent_watchdog
from gateway.backends.unprivileged import (
    file_within_reach,
    run_as,
    state_directory,
    state_place,
    within_reach,
)
from gateway.errors import BackendUnavailable
from gateway.model.java_options import QUICK_START, SparkClasses

_Probe = Callable[[str, int], Awaitable[object]]
"""Opens a session on Thrift at (host, port) and runs `SELECT 1`; raises OSError or BackendUnavailable."""
_Progress = Callable[[str], None]

HOST = "127.0.0.1"
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the name of a variable
"""Where Spark Connect looks for the token that its clients must show: not on a command line, which anybody on
the machine can read."""
POLL_S = 0.1
LOG_TAIL_BYTES = 4000
RUNNING_FILE = "running.json"
"""Tells other processes (`sluice explain`) where a running Spark listens."""

LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n%ex{5}
# Known to be noise, at every start or at every statement.
logger.metastore.name = org.apache.hadoop.hive.metastore
logger.metastore.level = fatal
logger.hive.name = org.apache.hadoop.hive
logger.hive.level = error
logger.datanucleus.name = DataNucleus
logger.datanucleus.level = error
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.scheduler.name = org.apache.spark.scheduler.DAGScheduler
logger.scheduler.level = error
logger.conf.name = org.apache.spark.SparkConf
logger.conf.level = error
"""
"""Warnings only: at `info` Spark writes every statement's text into its log."""

CONNECT_CONF: Mapping[str, str] = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": HOST,
    # A chain of DataFrame calls nests two messages deep for each: 1,000 of them are taken.
    "spark.connect.grpc.marshallerRecursionLimit": "10000",
    # What a killed gateway has not passed on must still be there for who comes back: more than 10 MB.
    "spark.connect.execute.reattachable.observerRetryBufferSize": "64m",
}

SPARK_CONF: Mapping[str, str] = {
    # A filter upon a filter takes the analyser one round each; Spark's own limit is 100.
    "spark.sql.analyzer.maxIterations": "2000",
    # Larger messages, of up to 2.8 MB: a client answers every one with a ReleaseExecute.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.driver.bindAddress": HOST,
    "spark.driver.host": HOST,
    "spark.ui.enabled": "false",
    "spark.sql.catalogImplementation": "hive",
    "spark.sql.shuffle.partitions": "2",
    # Else each aggregate and each sort, however small, takes a page of up to 64 MB: in a heap of 2 GB these
    # were 759 MB (measured), and the old generation was collected every minute.
    "spark.buffer.pageSize": "1m",
    # The text that Spark runs must be the text that was proved: `${x}` is not replaced.
    "spark.sql.variable.substitute": "false",
    # Thrift would collect a whole result in the driver: 4.8 GB resident for 5 million rows (measured).
    "spark.sql.thriftServer.incrementalCollect": "true",
    "spark.sql.session.timeZone": "UTC",
    # Derby's connections come from a pool of 10. A statement that is cancelled while Spark asks the metastore
    # can keep one for good; with none left everybody waits for ever (`GenericObjectPool.borrowObject`).
    "spark.hadoop.datanucleus.connectionPool.maxPoolSize": "100",
}

JVM_OPTIONS = (
    "-XX:+UseSerialGC",  # two cores and a small heap: G1's threads only cost
    "-Xss16m",  # Spark's analyser recurses: plans of 1,000 nested relations need the room
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "--enable-native-access=ALL-UNNAMED",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedSparkOptions:
    """What an embedded Spark is started with."""

    directory: Path
    """Keeps metastore, warehouse, logs and temporary files."""
    java: Path
    """The `java` executable, version 17 to 21."""
    spark_home: Path
    """A directory whose `jars/` holds Spark, such as the pyspark package."""
    java_options: Sequence[str] = ()
    """The `--add-opens` that Spark needs on this Java."""
    classes: SparkClasses | None = None
    """Archive of the classes of `spark_home`: ready with 3 s of CPU less."""
    heap: str = "1g"
    """Java heap, as `-Xmx` takes it."""
    thrift_port: int = 0
    """0 picks a free port."""
    connect_port: int = 0
    jars: Sequence[Path] = ()
    """Files that are on its class path besides, such as those of table formats."""
    cores: int = 2
    statements: int = 100
    """Statements that its Thrift Server runs at once; 100 more wait in a queue of its own."""
    quick_start: bool = True
    """Without Java's optimising compiler: ready with half of the CPU time (8.9 s against 17.5), slower at its
    peak. For figures, turn it off."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Spark settings on top of our own."""
    private_conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The same in a file that only Spark reads: a command line is everybody's. `conf` counts before it."""
    python: Path | None = None
    """What runs Python functions; by default our own, which Spark's user may not be able to run."""
    start_timeout_s: float = 240.0
    """Seconds until the first `SELECT 1` has been answered; 25 were seen on a loaded machine."""
    stop_timeout_s: float = 15.0
    """Seconds between SIGTERM and SIGKILL."""


class EmbeddedSpark:
    """One Spark JVM that this process owns, from `start` to `stop`."""

    def __init__(self, options: EmbeddedSparkOptions, probe: _Probe) -> None:
        self._options = options
        self._probe = probe
        self._user = run_as()
        self.directory = state_directory(options.directory, self._user)
        self.host = HOST
        self.thrift_port = options.thrift_port or free_port()
        self.connect_port = (options.connect_port or free_port()) if self._jar("spark-connect") else 0
        """0 where there is no Spark Connect."""
        self.connect_token = secrets.token_urlsafe(32)
        """What Spark Connect's clients must show; made for this start, known to us and Spark only."""
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: IO[str] | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the JVM while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def user(self) -> str:
        """Name of the user that Spark runs as; empty when it is our own."""
        return self._user.name if self._user else ""

    @property
    def _running_file(self) -> Path:
        return self.directory / RUNNING_FILE

    @property
    def log(self) -> Path:
        return self.directory / "spark.log"

    async def start(self, progress: _Progress = lambda _: None) -> None:
        """Start Spark and return when `SELECT 1` was answered over Thrift.

        Call it from the thread that lives as long as the gateway. Raises BackendUnavailable with the end of
        Spark's log; nothing is left running then.
        """
        deadline = time.monotonic() + self._options.start_timeout_s
        self._take_lock()
        try:
            command = await asyncio.to_thread(self._prepare, progress)
            self._process = process = self._launch(command)
            as_whom = f" as {self.user}" if self.user else ""
            progress(f"java started{as_whom}, pid {process.pid}")
            if self.connect_port:
                await self._port_open(process, self.connect_port, deadline)
                progress("Spark Connect listens")
            await self._port_open(process, self.thrift_port, deadline)
            progress("Thrift Server listens")
            await self._answers(process, deadline)
            progress("first statement answered")
            self._running_file.write_text(json.dumps({"pid": process.pid, "thrift_port": self.thrift_port}))
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop Spark: SIGTERM, then SIGKILL. May be called twice."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(self._options.stop_timeout_s):
                    await _wait_for_exit(process)
            except TimeoutError:
                pass
            finally:
                # Also when this task is cancelled while it waits: nothing may be left running.
                if process.poll() is None:
                    process.kill()
                    process.wait()
        if self._lock is not None:
            self._running_file.unlink(missing_ok=True)
            self._lock.close()
            self._lock = None

    async def wait_for_exit(self) -> int:
        """Wait until the JVM ends by itself and return its exit code."""
        process = self._process
        if process is None:
            raise BackendUnavailable("the embedded Spark is not running")
        await _wait_for_exit(process)
        return process.wait()

    def _jar(self, name: str) -> str:
        """Return the name of one of Spark's jars; empty when it is not there: 3.5 comes without Connect."""
        return next((jar.name for jar in (self._options.spark_home / "jars").glob(f"{name}_*.jar")), "")

    def _take_lock(self) -> None:
        # Derby lets one JVM at a time open a metastore, and says so in a 200-line stack trace.
        lock = (self.directory / "spark.lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise BackendUnavailable(
                f"another embedded Spark uses `{self.directory}`: stop it, or set another directory"
            ) from None
        self._lock = lock

    def _prepare(self, progress: _Progress) -> list[str]:
        """Make the directory ready and return the command line; takes seconds when jars have to be copied."""
        options, user = self._options, self._user
        shelter = self.directory.parent if user is not None else self.directory
        java_home = options.java.resolve().parent.parent
        reachable_home = within_reach(java_home, user, shelter)
        source_jars = options.spark_home / "jars"
        jars = within_reach(source_jars, user, shelter)
        if jars != source_jars or reachable_home != java_home:
            progress(f"Spark's programs are copied to {shelter}, so that {self.user} can read them")
        self._take_in(options.jars)
        for name in ("tmp", "warehouse", "conf"):
            made = self.directory / name
            made.mkdir(mode=0o700, exist_ok=True)
            if user is not None:
                os.chown(made, user.uid, user.gid)
        log4j = self.directory / "conf" / "log4j2.properties"
        log4j.write_text(LOG4J)
        log4j.chmod(0o644)
        self._write_private_conf()
        classes = options.classes if jars == source_jars else None  # it knows the jars by their places
        if classes is None:
            write_hadoop_defaults(source_jars, self.directory / "conf")
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.1"))
        return self._command(reachable_home / "bin" / "java", jars, classes)

    def _take_in(self, files: Sequence[Path]) -> None:
        """Have nothing but these files in our own directory of jars."""
        more = self.directory / "jars"
        shutil.rmtree(more, ignore_errors=True)
        more.mkdir()
        more.chmod(0o755)
        for file in files:
            file_within_reach(file, self._user, more / file.name)

    @property
    def _private_conf(self) -> Path:
        return self.directory / "conf" / "spark-private.properties"

    def _write_private_conf(self) -> None:
        """Write Java properties that only Spark's user can read."""
        place = self._private_conf
        place.unlink(missing_ok=True)
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            for key, value in self._options.private_conf.items():
                file.write(f"{_property(key)}={_property(value)}\n")
        if self._user is not None:
            os.chown(place, self._user.uid, self._user.gid)

    def _command(self, java: Path, jars: Path, classes: SparkClasses | None = None) -> list[str]:
        run = self.directory
        before = [run / "conf"] if classes is None else [classes.jar, *sorted(jars.glob("slf4j-api-*.jar"))]
        connect = {**CONNECT_CONF, "spark.connect.grpc.binding.port": str(self.connect_port)}
        conf = {
            **SPARK_CONF,
            **(connect if self.connect_port else {}),
            "spark.sql.warehouse.dir": str(run / "warehouse"),
            "spark.local.dir": str(run / "tmp"),
            "spark.hadoop.javax.jdo.option.ConnectionURL": (
                f"jdbc:derby:;databaseName={run / 'metastore_db'};create=true"
            ),
            **self._options.conf,
        }
        hive = {
            "hive.server2.thrift.bind.host": HOST,
            "hive.server2.thrift.port": str(self.thrift_port),
            "hive.server2.async.exec.threads": str(self._options.statements),
            "hive.exec.scratchdir": str(run / "tmp" / "scratch"),
        }
        return [
            str(java),
            *("-cp", ":".join(map(str, (*before, jars / "*", run / "jars" / "*")))),
            *(() if classes is None else (classes.option,)),
            f"-Dlog4j2.configurationFile={run / 'conf' / 'log4j2.properties'}",
            f"-Xmx{self._options.heap}",
            *JVM_OPTIONS,
            *(QUICK_START if self._options.quick_start else ()),
            *self._options.java_options,
            f"-Dderby.system.home={run / 'derby'}",
            f"-Djava.io.tmpdir={run / 'tmp'}",
            f"-Duser.home={run}",
            "org.apache.spark.deploy.SparkSubmit",
            *("--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"),
            *("--properties-file", str(self._private_conf)),
            *("--name", "sluice-embedded", "--master", f"local[{self._options.cores}]"),
            *(word for key, value in conf.items() for word in ("--conf", f"{key}={value}")),
            "spark-internal",
            *(word for key, value in hive.items() for word in ("--hiveconf", f"{key}={value}")),
        ]

    def _launch(self, command: list[str]) -> subprocess.Popen[bytes]:
        uid, gid = (self._user.uid, self._user.gid) if self._user else (-1, -1)
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LC_ALL": "C.UTF-8",
            "HOME": str(self.directory),
            # The machine's name need not resolve.
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_HOSTNAME": "localhost",
            "SPARK_CONNECT_MODE": "0",
            TOKEN_VARIABLE: self.connect_token,
            "SPARK_SCALA_VERSION": self._jar("spark-catalyst").removeprefix("spark-catalyst_").split("-")[0],
            "SPARK_HOME": str(self._options.spark_home),
            "PYSPARK_PYTHON": str(self._options.python or sys.executable),
        }
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", str(Path(parent_watchdog.__file__).resolve())),
                    *(str(os.getpid()), str(uid), str(gid), str(self.directory)),
                    *command,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                # Ctrl-C in a terminal is for us; we then stop Spark in our own order.
                start_new_session=True,
            )

    async def _port_open(self, process: subprocess.Popen[bytes], port: int, deadline: float) -> None:
        while True:
            self._still_starting(process, deadline)
            try:
                _, writer = await asyncio.open_connection(HOST, port)
            except OSError:
                await asyncio.sleep(POLL_S)
                continue
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            return

    async def _answers(self, process: subprocess.Popen[bytes], deadline: float) -> None:
        # An open port proves nothing, and the first statement takes up to 6 s of warm-up.
        while True:
            self._still_starting(process, deadline)
            try:
                async with asyncio.timeout(max(0.1, deadline - time.monotonic())):
                    await self._probe(HOST, self.thrift_port)
            except (OSError, BackendUnavailable, EOFError, TimeoutError):
                await asyncio.sleep(POLL_S)
                continue
            return

    def _still_starting(self, process: subprocess.Popen[bytes], deadline: float) -> None:
        code = process.poll()
        if code is not None:
            raise BackendUnavailable(f"the embedded Spark exited with code {code}; {self._log_tail()}")
        if time.monotonic() > deadline:
            waited = f"{self._options.start_timeout_s:.0f} s"
            raise BackendUnavailable(f"the embedded Spark was not ready after {waited}; {self._log_tail()}")

    def _log_tail(self) -> str:
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - LOG_TAIL_BYTES))
            tail = log.read().decode(errors="replace")
        return f"the end of {self.log}:\n{tail}"


def find_running(directory: Path) -> int | None:
    """Return the Thrift port of the Spark that another gateway runs in `directory`, or None."""
    try:
        told = json.loads((state_place(directory, run_as()) / RUNNING_FILE).read_text())
        pid, port = int(told["pid"]), int(told["thrift_port"])
    except (OSError, ValueError, KeyError):
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # It lives, as another user.
    return port


async def _wait_for_exit(process: subprocess.Popen[bytes]) -> None:
    """Return when the process has ended; the kernel says when, through a pidfd."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pidfd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


def _property(text: str) -> str:
    """Return a key or value as `java.util.Properties` reads it: everything but plain characters escaped."""
    units = text.encode("utf-16-be", "surrogatepass")
    pairs = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(u) if chr(u).isascii() and chr(u).isalnum() else f"\\u{u:04x}" for u in pairs)


# -- Ports for servers that are told theirs before they listen -----------------------------------------


_BELOW_EPHEMERAL = range(20_000, 32_000)
"""Where neither Linux (32768 to 60999) nor macOS and Windows (from 49152) take ports for connections by
themselves: within the seconds until a server listens, one of those is gone to whoever opens a connection."""
_ATTEMPTS = 100


def free_port() -> int:
    """Return a port of this machine that nobody listens on, and that the system gives to nobody
    who does not ask for it. Raises OSError when all that are tried are taken."""
    for _ in range(_ATTEMPTS - 1):
        port = random.choice(_BELOW_EPHEMERAL)  # noqa: S311 - not a secret
        try:
            return _bind_port(port)
        except OSError:
            continue
    return _bind_port(random.choice(_BELOW_EPHEMERAL))  # noqa: S311 - not a secret


def _bind_port(port: int) -> int:
    with closing(socket.socket()) as free:
        free.bind((HOST, port))
    return port


# -- Hadoop's default settings without their descriptions, for an embedded Spark -----------------------
# Every statement of Spark Connect runs in a thread of its own, and for each such thread the embedded
# metastore reads Hadoop's defaults several times: 460 kB of XML, of which a tenth is names and values that
# such a Spark has a use for. On its class path before the jars, the short ones are what is found.


JAR = "hadoop-client-api-*.jar"
UNUSED = frozenset({"yarn-default.xml"})
"""Of these nothing is kept: an embedded Spark runs on this machine alone."""
SITES = ("core-site.xml", "mapred-site.xml", "yarn-site.xml")
"""What a cluster would have to say. One that is missing is looked for in each of 280 jars, every time."""
EMPTY = "<configuration/>"


def write_hadoop_defaults(jars: Path, directory: Path) -> None:
    """Write the default settings of the Hadoop in `jars` into files that everybody may read."""
    for name, text in hadoop_defaults(jars).items():
        file = directory / name
        file.write_text(text, encoding="utf-8")
        file.chmod(0o644)


def pack_hadoop_defaults(jars: Path, jar: Path) -> None:
    """Write the default settings of the Hadoop in `jars` into a jar."""
    with zipfile.ZipFile(jar, "w") as packed:
        for name, text in hadoop_defaults(jars).items():
            packed.writestr(name, text)
    jar.chmod(0o444)


def hadoop_defaults(jars: Path) -> dict[str, str]:
    """Return the text of each file of default settings of the Hadoop in `jars`, without descriptions."""
    return dict.fromkeys(SITES, EMPTY) | {
        name: EMPTY if name in UNUSED else clean_settings_file(text) for name, text in defaults(jars)
    }


def defaults(jars: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and text of each file of defaults in Hadoop's jar; none where there is no such jar."""
    for jar in jars.glob(JAR):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.endswith("-default.xml") and "/" not in name:
                    yield name, archive.read(name)


def clean_settings_file(text: bytes) -> str:
    """Return a file of settings with each one's name, value and `final`, and nothing else."""
    root = ElementTree.fromstring(text)  # noqa: S314 - it comes out of the jar that Spark runs
    made = ElementTree.Element(root.tag)
    for setting in root.iterfind("property"):
        kept = ElementTree.SubElement(made, setting.tag)
        for name in ("name", "value", "final"):
            if (given := setting.find(name)) is not None:
                ElementTree.SubElement(kept, name).text = given.text
    return ElementTree.tostring(made, encoding="unicode")
