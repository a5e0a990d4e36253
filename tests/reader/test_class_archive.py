"""Parsers start with an archive of classes where there is a good one, and without it everywhere else."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from gateway.model.reading import Reading
from gateway.reader.class_archive import NotArchived, archive_of, archive_options, store_archive
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
    assert archive_options(java, home) == []
    old = home / "sluice-parser-0000000000000000.jsa"
    old.touch()
    archive = store_archive(java, home, parser(home), ENVIRONMENT)
    assert [file.name for file in home.glob("*.jsa")] == [archive.name]
    assert f"-XX:SharedArchiveFile={archive}" in command(
        java, Parsers(spark_home=home), heap="512m", threads=2
    )
    made = archive.stat().st_mtime_ns
    assert store_archive(java, home, parser(home), ENVIRONMENT) == archive
    assert archive.stat().st_mtime_ns == made
    assert asyncio.run(reads_with(home))


@pytest.mark.parametrize("content", [b"", b"no archive of Java's", b"\0" * 100_000])
async def test_a_parser_starts_without_an_archive_that_is_none(home: Path, content: bytes) -> None:
    archive_of(find_java(), home).write_bytes(content)
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
