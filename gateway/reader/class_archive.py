"""What a parser starts with instead of compiling its sources and loading Spark's classes from the jars.

Two files: the parser's own classes, compiled (`.jar`), and Java's archive of all classes that it loads
(`.jsa`). With them a start costs 1.6 s of CPU instead of 3.9. They are optional: their name says which Java,
jars and sources they were made with, and nothing else takes them. They lie in the directory of the Spark,
since who may write there may change the jars as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
import struct
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import orjson

from gateway.errors import SluiceError
from gateway.model.java_options import QUICK_START, SparkClasses

_LENGTH = struct.Struct(">I")
PREFIX = "sluice-parser-"
SPARK_PREFIX = "sluice-spark-"
"""The same for a Spark of our own: the embedded one, and that of jobs on this machine."""
SPARK_FORM = b"1"
"""Another one when what goes into it changes."""
SUFFIX = ".jsa"
STORE_S = 300.0
"""Seconds that making one may take; it takes about five."""

SOURCES = Path(__file__).resolve().parent / "java"
COMPILING_LOADER = ("org.codehaus.janino.JavaSourceClassLoader", "-sourcepath", str(SOURCES))
"""Runs a class of `SOURCES`, compiled in memory by Janino, which Spark brings along."""
MAIN = "sluice.ReaderMain"

TYPICAL = (
    "WITH c AS (SELECT id, count(*) AS n FROM s.t WHERE day >= DATE'2026-01-01' GROUP BY id) "
    "SELECT c.id, CASE WHEN n > 1 THEN upper(u.name) ELSE 'x' END AS name, "
    "row_number() OVER (ORDER BY n) AS r FROM c LEFT JOIN s.u AS u ON c.id = u.id "
    "WHERE u.name LIKE 'a%' AND u.id IN (SELECT id FROM s.v) LIMIT 5",
    "INSERT INTO s.t SELECT * FROM s.u",
    "CREATE TABLE s.w (id BIGINT, name STRING) USING parquet",
    "SHOW TABLES IN s",
)
"""Statements whose classes go into it; those of others are loaded from the jars."""


class NotArchived(SluiceError):
    """Java could not store its archive of classes."""

    code = "CLASSES_NOT_ARCHIVED"
    sqlstate = "58000"


def archive_of(java: Path, spark_home: Path) -> Path:
    """Return where the archive is for this Java, these jars and our sources, whether or not there is one."""
    sources = (source.read_bytes() for source in sorted(SOURCES.glob("sluice/*.java")))
    return name_archive(PREFIX, java, spark_home, sources)


def name_archive(prefix: str, java: Path, spark_home: Path, contents: Iterable[bytes]) -> Path:
    """Return the place beside a Spark's jars of what is made from them, by this Java, and from `contents`."""
    seen = hashlib.sha256()
    for file in (java.resolve(), *sorted((spark_home / "jars").glob("*.jar"))):
        with contextlib.suppress(OSError):
            found = file.stat()
            seen.update(f"{file}\0{found.st_size}\0{found.st_mtime_ns}\0".encode())
    for content in contents:
        seen.update(content)
    return spark_home / f"{prefix}{seen.hexdigest()[:16]}{SUFFIX}"


def spark_archive_of(java: Path, spark_home: Path) -> Path:
    """Return where the archive of a Spark's own classes is, whether or not there is one."""
    return name_archive(SPARK_PREFIX, java, spark_home, (SPARK_FORM,))


def find_spark_classes(java: Path, spark_home: Path) -> SparkClasses | None:
    """Return the archive of a Spark's own classes for this Java and these jars, if there is one."""
    archive = spark_archive_of(java, spark_home)
    jar = archive.with_suffix(".jar")
    if not archive.is_file() or not jar.is_file():
        return None
    return SparkClasses(str(jar), f"-XX:SharedArchiveFile={archive}")


def find_compiled(archive: Path) -> Path | None:
    """Return the jar of the parser's own classes beside an archive; None when there is none that is whole."""
    jar = archive.with_suffix(".jar")
    try:
        with zipfile.ZipFile(jar) as opened:
            whole = opened.testzip() is None and f"{MAIN.replace('.', '/')}.class" in opened.namelist()
    except (OSError, zipfile.BadZipFile):
        return None
    return jar if whole else None


def archive_options(archive: Path) -> list[str]:
    """Return the options by which a parser's JVM uses an archive; none when it is not there."""
    if not archive.is_file():
        return []
    # Standard output is the parser's connection: what Java has to say of an archive goes elsewhere.
    return ["-Xlog:disable", "-Xlog:all=error:stderr", f"-XX:SharedArchiveFile={archive}"]


def compile_sources(java: Path, spark_home: Path, environment: dict[str, str]) -> Path:
    """Compile the parser's sources beside the jars of a Spark; return the jar. Raises NotArchived."""
    archive = archive_of(java, spark_home)
    if (found := find_compiled(archive)) is not None:
        return found
    jar = archive.with_suffix(".jar")
    try:
        with _beside(jar) as place:
            classes = place.with_suffix("")
            classes.mkdir()
            _compile(java, spark_home, environment, classes)
            with zipfile.ZipFile(place, "w") as packed:
                for file in sorted(classes.rglob("*.class")):
                    packed.write(file, file.relative_to(classes))
            place.chmod(0o444)
            place.replace(jar)
    except OSError as error:
        raise NotArchived(f"`{jar}` cannot be written: {error}") from error
    remove_others(jar)
    return jar


def _compile(java: Path, spark_home: Path, environment: dict[str, str], classes: Path) -> None:
    run = [str(java), *QUICK_START, "-cp", f"{spark_home / 'jars'}/*", *COMPILING_LOADER]
    try:
        subprocess.run(
            [*run, "sluice.SourceCompiler", str(SOURCES), str(classes)],
            env=environment,
            cwd="/",
            check=True,
            timeout=STORE_S,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
    except subprocess.TimeoutExpired as error:
        raise NotArchived(f"the parser was not compiled: {error}") from error
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        raise NotArchived(f"the parser was not compiled: {''.join(lines[:1])}") from error


def store_archive(java: Path, spark_home: Path, command: list[str], environment: dict[str, str]) -> Path:
    """Run a parser once and store the classes that it loads; return the archive, old ones removed.

    `command`: a parser's command line for this Java, without an archive. Raises NotArchived.
    """
    archive = archive_of(java, spark_home)
    if archive.is_file():
        return archive
    try:
        with _beside(archive) as place:
            _train([command[0], f"-XX:ArchiveClassesAtExit={place}", *command[1:]], environment, place)
            place.replace(archive)
    except OSError as error:
        raise NotArchived(f"`{archive}` cannot be written: {error}") from error
    remove_others(archive)
    return archive


def remove_others(kept: Path, prefix: str = PREFIX) -> None:
    """Remove what was made like `kept` from other jars or sources."""
    for other in kept.parent.glob(f"{prefix}*{kept.suffix}"):
        if other != kept:
            other.unlink(missing_ok=True)


@contextlib.contextmanager
def _beside(archive: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix=f".{PREFIX}", dir=archive.parent) as directory:
        yield Path(directory) / archive.name


def _train(command: list[str], environment: dict[str, str], archive: Path) -> None:
    """Have a JVM load what a parser needs, and write the archive as it ends."""
    ours, theirs = socket.socketpair()
    with ours, tempfile.TemporaryFile() as said:
        with theirs:
            process = subprocess.Popen(
                command, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=said, env=environment, cwd="/"
            )
        try:
            ours.settimeout(STORE_S)
            with ours.makefile("rb") as replies:
                _skip_reply(replies)  # its hello
                for number, text in enumerate(TYPICAL, 1):
                    frame = orjson.dumps({"id": number, "op": "read", "text": text})
                    ours.sendall(_LENGTH.pack(len(frame)) + frame)
                    _skip_reply(replies)
            ours.close()  # at which it ends
            process.wait(STORE_S)
        except (OSError, EOFError, subprocess.TimeoutExpired) as error:
            reason = repr(error)
        else:
            reason = "this version of Java does not support class archives"
        finally:
            process.kill()
            process.wait()
        if not archive.is_file():
            said.seek(0)
            last = said.read().decode(errors="replace").strip().splitlines()[-1:]
            raise NotArchived(f"no class archive was written: {''.join(last) or reason}")
        archive.chmod(0o444)


def _skip_reply(replies: IO[bytes]) -> None:
    header = replies.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        raise EOFError("the parser ended")
    replies.read(*_LENGTH.unpack(header))
