"""Parsers start with an archive of classes where there is a good one, and without it everywhere else."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from gateway.model.reading import Reading
from gateway.reader.class_archive import (
    COMPILING_LOADER,
    NotArchived,
    archive_of,
    archive_options,
    compile_sources,
    find_compiled,
    store_archive,
)
from gateway.reader.java_runtime import find_java, find_spark_home
from gateway.reader.parsers import Parsers
from gateway.reader.process import ENVIRONMENT, command
from tests.readers import patient_reader

pytestmark = pytest.mark.in_turn(3)

READS = "SELECT a FROM t"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A Spark's directory of its own, with the same jars."""
    (tmp_path / "jars").symlink_to(find_spark_home() / "jars")
    return tmp_path


def parser(home: Path) -> list[str]:
    return command(find_java(), Parsers(spark_home=home), heap="512m", threads=2, archived=False)


async def reads_with(home: Path) -> bool:
    pool = patient_reader()
    pool._spark_home = home
    async with pool:
        return isinstance(await pool.read(READS), Reading)


def test_a_parser_takes_classes_from_the_archive(home: Path) -> None:
    java = find_java()
    assert archive_options(archive_of(java, home)) == []
    assert set(COMPILING_LOADER) < set(parser(home))
    for old in (home / "sluice-parser-0000000000000000.jsa", home / "sluice-parser-0000000000000000.jar"):
        old.touch()
    compiled = compile_sources(java, home, ENVIRONMENT)
    archive = store_archive(java, home, parser(home), ENVIRONMENT)
    assert sorted(home.glob("sluice-parser-*")) == [compiled, archive]
    started = command(java, Parsers(spark_home=home), heap="512m", threads=2)
    assert f"-XX:SharedArchiveFile={archive}" in started
    assert not set(COMPILING_LOADER) & set(started)
    made = [file.stat().st_mtime_ns for file in (compiled, archive)]
    assert compile_sources(java, home, ENVIRONMENT) == compiled
    assert store_archive(java, home, parser(home), ENVIRONMENT) == archive
    assert [file.stat().st_mtime_ns for file in (compiled, archive)] == made
    assert asyncio.run(reads_with(home))


@pytest.mark.parametrize("content", [b"", b"no archive of Java's", b"\0" * 100_000])
async def test_a_parser_starts_without_an_archive_that_is_none(home: Path, content: bytes) -> None:
    archive = archive_of(find_java(), home)
    archive.write_bytes(content)
    archive.with_suffix(".jar").write_bytes(content)
    assert find_compiled(archive) is None
    assert await reads_with(home)


def test_other_jars_have_another_archive(home: Path) -> None:
    java = find_java()
    before = archive_of(java, home)
    (home / "jars").unlink()
    (home / "jars").mkdir()
    shutil.copy(next((find_spark_home() / "jars").glob("spark-catalyst_*.jar")), home / "jars")
    assert archive_of(java, home) != before


def test_what_ends_early_or_cannot_be_written_leaves_nothing(home: Path) -> None:
    with pytest.raises(NotArchived, match="no class archive was written: Error: Unable to access jarfile"):
        store_archive(find_java(), home, [str(find_java()), "-jar", "none.jar"], ENVIRONMENT)
    assert [file.name for file in home.iterdir()] == ["jars"]
    with pytest.raises(NotArchived, match="cannot be written"):
        store_archive(find_java(), home / "gone", parser(home), ENVIRONMENT)
    (empty := home / "empty").mkdir()
    with pytest.raises(NotArchived, match="the parser was not compiled"):
        compile_sources(find_java(), empty, ENVIRONMENT)
    with pytest.raises(NotArchived, match="cannot be written"):
        compile_sources(find_java(), home / "gone", ENVIRONMENT)
    assert not [*empty.iterdir()]
