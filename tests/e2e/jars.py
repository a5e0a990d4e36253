"""Classes of Java's that a Spark of the tests runs, compiled by the compiler that it has among its jars."""

from __future__ import annotations

import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from gateway.reader.java_runtime import find_java, find_spark_home
from tests.speed import patience

SOURCES = Path(__file__).parent / "java"


def compile_into(directory: Path, source: str) -> None:
    """Compile a file of `java/` into a directory, which is made; everybody may read what is there then."""
    jars = find_spark_home() / "jars"
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            *(str(find_java()), "-cp", f"{jars}/*", "org.codehaus.commons.compiler.samples.CompilerDemo"),
            *("-d", str(directory), "-classpath", ":".join(map(str, jars.glob("*.jar")))),
            str(SOURCES / source),
        ],
        check=True,
        timeout=patience(),
    )
    for made in directory.rglob("*"):
        made.chmod(0o755 if made.is_dir() else 0o644)


def make_jar(source: str, made: Path, entries: Mapping[str, str]) -> Path:
    """Compile a file of `java/` into a new jar that everybody may read; `entries`: what else is in it."""
    with tempfile.TemporaryDirectory() as name:
        classes = Path(name)
        compile_into(classes, source)
        with zipfile.ZipFile(made, "w") as archive:
            for file in classes.rglob("*.class"):
                archive.write(file, file.relative_to(classes))
            for entry, text in entries.items():
                archive.writestr(entry, text)
    made.chmod(0o644)
    return made
