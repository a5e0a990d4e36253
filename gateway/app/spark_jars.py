"""Fetches the jars of a Spark minor, and of table formats for it, into a directory that all gateways of a
machine share.

pyspark is published with Spark's jars in it. pip finds it, downloads it and checks its hash; nothing of it is
installed. A version's directory appears when it is whole, so that whoever looks at the same time sees all of
it or nothing. The jars of formats come by Maven, which checks them, too, and takes them from wherever its own
settings say.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from gateway.app.spark_classes import store_spark_classes
from gateway.errors import SluiceError
from gateway.model.spark_minors import Minor
from gateway.model.table_formats import Artifact, TableFormat
from gateway.reader.class_archive import NotArchived, compile_sources, store_archive
from gateway.reader.extension_jars import find_cached_jars, places_of
from gateway.reader.java_runtime import find_java, find_kept_spark, find_spark_home
from gateway.reader.parsers import Parsers
from gateway.reader.process import ENVIRONMENT, command

_Progress = Callable[[str], None]

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

SERVERS = "servers"
"""Directory of servers of catalogs, beside those of Sparks."""
SERVERS_POM = Path(__file__).parent / "catalog_servers.xml"
NO_REASON = "no reason given"
LONGEST_S = 3600.0
"""Seconds for one download of about 450 MB."""


class NotFetched(SluiceError):
    """The jars could not be fetched."""

    code = "SPARK_JARS_NOT_FETCHED"
    sqlstate = "58000"


def archive_classes() -> Path:
    """Compile the parser for this machine's Spark and archive the classes that it loads; return the archive.

    Raises JavaNotFound, NotArchived.
    """
    java, spark_home = find_java(), find_spark_home()
    with _alone_in(spark_home):
        compile_sources(java, spark_home, ENVIRONMENT)
        run = command(java, Parsers(spark_home=spark_home), heap="512m", threads=2, archived=False)
        return store_archive(java, spark_home, run, ENVIRONMENT)


def archive_spark() -> Path:
    """Archive the classes that this machine's Spark loads; return the archive.

    Raises JavaNotFound, NotArchived.
    """
    java, spark_home = find_java(), find_spark_home()
    with _alone_in(spark_home):
        return asyncio.run(store_spark_classes(java, spark_home))


@contextlib.contextmanager
def _alone_in(spark_home: Path) -> Iterator[None]:
    """Archive classes of a Spark in one process at a time. Raises NotArchived."""
    try:
        lock = (spark_home / ".sluice-classes.lock").open("a")
    except OSError as error:
        raise NotArchived(f"`{spark_home}` cannot be written: {error}") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fetch(minor: Minor, into: Path, progress: _Progress = lambda _: None) -> Path:
    """Return the directory of the newest version of a minor in `into`, fetched unless there is one.

    Its `jars/` holds the jars; its name is the version. Raises NotFetched, and leaves nothing half made.
    """
    try:
        into.mkdir(parents=True, exist_ok=True)
        with _only_one(into, f"{minor}", progress):
            found = find_kept_spark(minor, into)
            if found is not None:
                return found
            with tempfile.TemporaryDirectory(prefix=f".{minor}-", dir=into) as beside:
                archive = _download(minor, Path(beside), progress)
                version = _version_of(archive)
                progress(f"unpacking the jars of Spark {version}")
                _unpack(archive, Path(beside) / version / "jars")
                (Path(beside) / version).rename(into / version)
            return into / version
    except (OSError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise NotFetched(f"the jars of Spark {minor} could not be saved in `{into}`: {error}") from error


def fetch_format(
    one: TableFormat, minor: Minor, into: Path, progress: _Progress = lambda _: None
) -> tuple[Path, ...]:
    """Return the jars of a format for a minor in `into`, fetched unless they are there.

    Raises NotFetched, UnsupportedFormat, and leaves nothing half made.
    """
    places = places_of(one, minor, into)
    directory = places[0].parent
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with _only_one(directory.parent, one.name, progress):
            if find_cached_jars(one, minor, into):
                return places
            with tempfile.TemporaryDirectory(prefix=f".{one.name}-", dir=directory.parent) as beside:
                for artifact in one.artifacts_for(minor):
                    _copy_artifact(artifact, Path(beside), progress)
                # The one with the extension comes last: it is what is looked for.
                for place in reversed(places):
                    (Path(beside) / place.name).rename(place)
        return places
    except OSError as error:
        raise NotFetched(f"the jars of {one.name} could not be saved in `{directory}`: {error}") from error


def fetch_catalog_servers(into: Path, progress: _Progress = lambda _: None) -> Path:
    """Return the directory in `into` with Iceberg's REST server and PostgreSQL's JDBC driver, fetched unless
    it is there. Raises NotFetched, and leaves nothing half made."""
    directory = into / SERVERS
    try:
        into.mkdir(parents=True, exist_ok=True)
        with _only_one(into, SERVERS, progress):
            if not directory.is_dir():
                with tempfile.TemporaryDirectory(prefix=f".{SERVERS}-", dir=into) as beside:
                    made = Path(beside) / SERVERS
                    made.mkdir()
                    arguments = (f"--file={SERVERS_POM}", "dependency:copy-dependencies")
                    if why := _maven("servers of catalogs", made, arguments, progress):
                        raise NotFetched(f"Maven could not download catalog servers: {why}")
                    made.rename(directory)
        return directory
    except OSError as error:
        raise NotFetched(f"catalog servers could not be saved in `{directory}`: {error}") from error


def _copy_artifact(artifact: Artifact, directory: Path, progress: _Progress) -> None:
    arguments = ("dependency:copy", f"-Dartifact={artifact}", "-Dmdep.useBaseVersion=true")
    why = _maven(str(artifact), directory, arguments, progress)
    if why or not (directory / artifact.file).is_file():
        raise NotFetched(f"Maven could not download {artifact}: {why or NO_REASON}")


def _maven(what: str, directory: Path, arguments: Sequence[str], progress: _Progress) -> str:
    """Have Maven put files into a directory; return why it could not, if so."""
    progress(f"downloading {what}")
    try:
        done = subprocess.run(
            ["mvn", "--batch-mode", "--quiet", *arguments, f"-DoutputDirectory={directory}"],
            check=False,
            cwd=directory,  # not one with a project of somebody's in it
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONGEST_S,
        )
    except FileNotFoundError:
        raise NotFetched("`mvn` (Maven), which downloads them, is not on the PATH") from None
    except subprocess.TimeoutExpired:
        raise NotFetched(f"Maven did not download {what} within {LONGEST_S:g} seconds") from None
    if not done.returncode:
        return ""
    lines = [_COLOUR.sub("", line).removeprefix("[ERROR] ").strip() for line in done.stdout.splitlines()]
    return next((line for line in lines if line), NO_REASON)


@contextlib.contextmanager
def _only_one(into: Path, what: str, progress: _Progress) -> Iterator[None]:
    """Hold what is to be fetched for this process: whoever comes second finds it done."""
    with (into / f".{what}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"another process is downloading {what}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _download(minor: Minor, directory: Path, progress: _Progress) -> Path:
    progress(f"downloading pyspark {minor} (about 450 MB)")
    arguments = ["download", "--no-deps", "--no-cache-dir", "--dest", str(directory), f"pyspark=={minor}.*"]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments],
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LONGEST_S,
        )
    except subprocess.TimeoutExpired:
        raise NotFetched(f"pip did not download pyspark {minor} within {LONGEST_S:g} seconds") from None
    if done.returncode:
        errors = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        last = errors[-1] if errors else NO_REASON
        why = next((line for line in errors if line.startswith("ERROR: ")), last).removeprefix("ERROR: ")
        raise NotFetched(f"pip could not download pyspark {minor}: {why}")
    for archive in directory.glob("pyspark-*"):
        return archive
    raise NotFetched(f"pip did not download pyspark {minor}")


def _version_of(archive: Path) -> str:
    """Return the version in the name of a source archive or a wheel."""
    return archive.name.removeprefix("pyspark-").removesuffix(".tar.gz").split("-")[0]


def _unpack(archive: Path, jars: Path) -> None:
    """Write the files of the archive's directory of jars; names within it choose no place of their own."""
    jars.mkdir(parents=True)
    for name, content in _files(archive):
        inside = PurePosixPath(name)
        if inside.suffix == ".jar" and inside.parent.name == "jars":
            with (jars / inside.name).open("wb") as out:
                shutil.copyfileobj(content, out, 1 << 20)
    if next(jars.glob("spark-catalyst_*.jar"), None) is None:
        raise NotFetched(f"`{archive.name}` contains no Spark jars")


def _files(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                with wheel.open(name) as file:
                    yield name, file
        return
    with tarfile.open(archive) as source:
        for member in source:
            content = source.extractfile(member) if member.isfile() else None
            if content is not None:
                yield member.name, content
