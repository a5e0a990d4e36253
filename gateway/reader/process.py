"""One parser process: a JVM whose standard input and output are one end of a socket pair.

No other process can open that socket, and the JVM ends when it closes, also when the gateway is killed.
Nothing has to be built: Janino, which Spark brings along, compiles `java/sluice/*.java` in memory at start,
where they have not been compiled before (`class_archive`).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import struct
from collections import deque
from pathlib import Path

import orjson

from gateway.model.java_options import QUICK_START, UNITS, heap_bytes
from gateway.reader.class_archive import (
    COMPILING_LOADER,
    MAIN,
    SOURCES,
    archive_of,
    archive_options,
    find_compiled,
)
from gateway.reader.java_runtime import jdk_openings
from gateway.reader.parsers import Parsers
from gateway.reader.replies import Hello, JsonReply, hello_of

MAX_REPLY_BYTES = 256 << 20
"""A reply lists a statement's names; 40 MB is the most that a million characters gave."""

ENVIRONMENT = {"LC_ALL": "C.UTF-8", "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}
"""All of it: no JAVA_TOOL_OPTIONS and its kind; and Spark need not look up this machine's name."""

FIRST_HEAP = 48 * UNITS["m"]
"""Bytes of the heap that a parser begins with."""

MAX_LINE_BYTES = 64 << 10
"""Of one line of its standard error that are kept, from its end."""
LAST_WORDS = 20
"""Lines of its standard error that the log has of a process that is gone."""
NOT_BEGUN = "Error occurred during initialization of VM"
"""Before the line in which a JVM says why it cannot begin."""
CAUSE = "Caused by: "
"""Before each cause in a trace of Java's; the first cause comes last."""

_LENGTH = struct.Struct(">I")


class ParserGone(Exception):
    """The process ended, or its replies make no sense, before it answered."""

    def __init__(self, reason: str, *, was_sent: bool = True) -> None:
        """`was_sent`: whether the process may have begun with the request."""
        super().__init__(reason)
        self.was_sent = was_sent


class ParserProcess:
    """A running JVM; made by `launch`, ended by `kill`."""

    def __init__(
        self,
        child: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._child = child
        self._reader = reader
        self._writer = writer
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[JsonReply]] = {}
        self._last_words: deque[str] = deque(maxlen=200)
        self._tasks: list[asyncio.Task[None]] = [asyncio.create_task(self._keep_last_words())]
        self.hello: Hello
        self.gone = asyncio.Event()
        self.lost = 0
        """Requests that were under way when the process ended."""
        self.has_unread = False
        """Whether it ended with a request that it had not read: whoever was alone did not kill it."""
        self.condemned = False
        """Whether we ended it because of one request, so that the others are blameless."""

    @classmethod
    async def launch(
        cls, java: Path, parsers: Parsers, *, heap: str, threads: int, start_timeout_s: float
    ) -> ParserProcess:
        """Start a JVM and wait until it has said hello. Raises ParserGone."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                child = await asyncio.create_subprocess_exec(
                    *command(java, parsers, heap=heap, threads=threads),
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=asyncio.subprocess.PIPE,
                    env=ENVIRONMENT,
                    cwd="/",
                    process_group=0,  # a Ctrl-C in the terminal is the gateway's to handle
                )
            reader, writer = await asyncio.open_connection(sock=ours)
        except BaseException as error:
            ours.close()
            if isinstance(error, OSError):
                raise ParserGone(str(error)) from error
            raise
        process = cls(child, reader, writer)
        try:
            async with asyncio.timeout(start_timeout_s):
                process.hello = hello_of(await process._receive())
        except (TimeoutError, OSError, EOFError, KeyError, orjson.JSONDecodeError) as error:
            await process.kill()
            late = f"it was not ready within {start_timeout_s:g} s (`reader.start_timeout_s`)"
            said = (
                late
                if isinstance(error, TimeoutError)
                else process.reason or f"it did not send its greeting ({error!r})"
            )
            raise ParserGone(said) from error
        except BaseException:
            await process.kill()
            raise
        process._tasks.append(asyncio.create_task(process._dispatch()))
        return process

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def last_words(self) -> str:
        """The end of what the JVM wrote to its standard error."""
        return " | ".join(list(self._last_words)[-LAST_WORDS:])

    @property
    def reason(self) -> str:
        """The line of the JVM's standard error that says why it failed; empty when it wrote nothing."""
        causes = [line for line in self._last_words if line.startswith(CAUSE)]
        if causes:
            return causes[-1].removeprefix(CAUSE)
        lines = [line for line in self._last_words if line != NOT_BEGUN]
        errors = (line for line in lines if "Error" in line or "Exception" in line)
        return next(errors, lines[-1] if lines else "")

    async def ask(self, operation: str, fields: JsonReply) -> JsonReply:
        """Send one request and return its reply. Raises ParserGone."""
        if self.gone.is_set():
            raise ParserGone("the process has ended", was_sent=False)
        number = next(self._ids)
        frame = orjson.dumps({"id": number, "op": operation, **fields})
        reply: asyncio.Future[JsonReply] = asyncio.get_running_loop().create_future()
        self._waiting[number] = reply
        try:
            self._writer.write(_LENGTH.pack(len(frame)) + frame)
            await self._writer.drain()
            return await reply
        except OSError as error:
            raise ParserGone(str(error), was_sent=False) from error
        finally:
            self._waiting.pop(number, None)

    def condemn(self) -> None:
        """End the JVM because of one late request; all others under way raise ParserGone."""
        self.condemned = True
        self._end()

    async def kill(self) -> None:
        """End the JVM now; requests under way raise ParserGone. Returns when it is reaped."""
        self._end()
        self._writer.close()
        current = asyncio.current_task()
        for task in self._tasks[1:]:
            if task is not current:
                task.cancel()
        await self._child.wait()
        # Standard error ends with the JVM, so the task that reads it ends by itself.
        await asyncio.gather(*(task for task in self._tasks if task is not current), return_exceptions=True)
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _dispatch(self) -> None:
        try:
            while True:
                reply = await self._receive()
                waiting = self._waiting.get(reply["id"])
                if waiting is not None and not waiting.done():
                    waiting.set_result(reply)
        except ConnectionError:
            # Its end of a socket pair is reset, and not closed, where something unread is left in it.
            self.has_unread = True
        except (OSError, EOFError, KeyError, orjson.JSONDecodeError):
            pass
        self._end()

    def _end(self) -> None:
        if self.gone.is_set():
            return
        self.gone.set()
        self.lost = len(self._waiting)
        with contextlib.suppress(ProcessLookupError):
            self._child.kill()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ParserGone("the process ended before it answered"))

    async def _receive(self) -> JsonReply:
        (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
        if length > MAX_REPLY_BYTES:
            raise EOFError("a reply is too large")
        told, _, tree = (await self._reader.readexactly(length)).partition(b"\n")
        reply: JsonReply = orjson.loads(told)
        reply["tree"] = tree or None
        return reply

    async def _keep_last_words(self) -> None:
        stream = self._child.stderr
        begun = b""  # of a line that the JVM writes in pieces
        while stream is not None and (chunk := await stream.read(4096)):
            *whole, begun = (begun + chunk).split(b"\n")
            self._last_words.extend(line.decode(errors="replace").rstrip() for line in whole)
            begun = begun[-MAX_LINE_BYTES:]
        if begun:
            self._last_words.append(begun.decode(errors="replace"))


def command(java: Path, parsers: Parsers, *, heap: str, threads: int, archived: bool = True) -> list[str]:
    """Return the JVM's command line; with the archive of classes, if there is one and it is `archived`."""
    archive = archive_of(java, parsers.spark_home)
    compiled = find_compiled(archive)
    # Java takes an archive whose class path is the beginning of its own: the extensions' jars come last.
    own = [] if compiled is None else [str(compiled)]
    return [
        str(java),
        *(archive_options(archive) if archived else ()),
        f"-Xmx{heap}",
        # Java begins with a 64th of the machine's memory, and fills a third of that before it looks what of
        # it is garbage: 80 MB that no parser needs. Without a size for classes it collects as they load.
        f"-Xms{min(FIRST_HEAP, heap_bytes(heap))}",
        "-XX:MetaspaceSize=128m",
        "-XX:+UseSerialGC",  # 100 MB less than the default collector at this size
        # A parser must be fast at once rather than after ten thousand statements: without the second compiler
        # a start costs 2.8 s of CPU instead of 4.8, and a TPC-DS query settles at 1.2 ms instead of 0.7.
        *QUICK_START,
        "-XX:+ExitOnOutOfMemoryError",  # a new process is cheaper than one that may have lost a thread
        "-XX:+DisplayVMOutputToStderr",  # standard output has the replies alone
        "-XX:-UsePerfData",
        "-Dfile.encoding=UTF-8",
        f"-Dlog4j2.configurationFile={SOURCES / 'log4j2.properties'}",
        *jdk_openings(),
        "-cp",
        ":".join((f"{parsers.spark_home / 'jars'}/*", *own, *map(str, parsers.jars))),
        *(COMPILING_LOADER if compiled is None else ()),
        MAIN,
        str(threads),
        *parsers.extensions,
    ]
