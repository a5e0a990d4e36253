"""Sources are walked for directories that are no tables and could be."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from gateway.database.migrate import migrate
from gateway.files import walk_results
from gateway.files.hidden import compile_glob
from gateway.files.looking import UnfitFiles
from gateway.files.walking import Round, Walking, directories, not_tables
from gateway.model.files import FileSource
from gateway.session.ports import BackendError
from tests.files.played import LAKE, PlayedSpark

TREE = (
    "people.csv",
    ".hidden.csv",
    "empty/nothing.csv",
    "raw/a.csv",
    "raw/below/a.csv",
    "raw/_below/a.csv",
    "days/day=1/a.csv",
    "days/day=2/hour=3/a.csv",
    "days/day=2/hour=3/b.csv",
    "deep/a/b/c/d.csv",
    "delta/_delta_log/0.json",
    "delta/day=1/a.parquet",
    "ice/metadata/v1.metadata.json",
    "ice/data/a.parquet",
    "plain/metadata/a.csv",
    "odd name/a.csv",
    "o'dd/a.csv",
)


@pytest.fixture
def lake(tmp_path: Path) -> FileSource:
    root = tmp_path / "lake"
    for name in TREE:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("" if "nothing" in name else "a,b\n1,2\n")
    (root / "linked").symlink_to(tmp_path)
    (root / "link.csv").symlink_to(root / "people.csv")
    os.mkfifo(root / "pipe.csv")
    return replace(LAKE, root=f"file:{root}", refresh_s=60.0)


def walking(spark: PlayedSpark | None = None) -> Walking:
    return Walking((spark or PlayedSpark()).query, BackendError, timeout_s=5)


FOUND = {
    "people.csv": 1,
    "raw": 1,
    "raw/below": 1,
    "days": 3,
    "delta": 0,
    "ice": 0,
    "plain/metadata": 1,
    "odd name": 1,
}


async def test_local_directories_with_files_are_seen(lake: FileSource) -> None:
    seen = await walking().look(lake, "", {})
    assert (dict(seen.files), seen.reached, seen.unread) == (FOUND, "", 0)
    assert seen.formats == {"delta": "Delta", "ice": "Iceberg"}
    only = await walking().look(replace(lake, pattern="*.{parquet,json}"), "", {})
    assert dict(only.files) == {"delta": 0, "ice": 0}


@pytest.mark.parametrize("walk", [1, 2, 3, 7])
async def test_a_round_has_a_bound_and_the_next_goes_on(lake: FileSource, walk: int) -> None:
    after, rounds, files = "", 0, dict[str, int]()
    while rounds == 0 or after:
        seen = await walking().look(replace(lake, walk=walk), after, {})
        assert not set(files) & set(seen.files) - {"days"}, "nothing is seen twice"
        assert len(seen.files) <= walk + 1, "the root does not count, and has one file"
        for path, count in seen.files.items():
            files[path] = files.get(path, 0) + count
        after, rounds = seen.reached, rounds + 1
    assert files == FOUND
    assert rounds > len(FOUND) // walk


async def test_a_round_goes_on_where_directories_have_gone(lake: FileSource) -> None:
    first = await walking().look(replace(lake, walk=9), "", {})
    assert first.reached == "delta"
    directory = Path(lake.root.removeprefix("file:"))
    (directory / "delta").rename(directory / "dell")
    assert set((await walking().look(lake, "delta", {})).files) == set(FOUND) - {
        "people.csv",
        "days",
        "delta",
    }


async def test_files_count_for_a_round(lake: FileSource) -> None:
    seen = await walking().look(replace(lake, files=2), "", {})
    assert seen.reached == "days/day=1"


async def test_what_cannot_be_read_is_told_and_passed(lake: FileSource, monkeypatch: Any) -> None:
    # Whoever runs the tests may read all there is.
    opened = os.open

    def refusing(path: Any, *arguments: Any, **more: Any) -> int:
        if path == "raw":
            raise PermissionError
        return opened(path, *arguments, **more)

    monkeypatch.setattr(os, "open", refusing)
    seen = await walking().look(lake, "", {})
    assert seen.unread == 1
    assert set(seen.files) == set(FOUND) - {"raw", "raw/below"}


def test_a_link_is_no_directory_even_when_it_takes_the_place_of_one(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "c").mkdir()
    walk = directories(str(tmp_path), (), counts=lambda _: True, goes_into=lambda path: path != ("a", "b"))
    assert next(walk).path == ()
    (tmp_path / "a" / "b").rmdir()
    (tmp_path / "a").rmdir()
    (tmp_path / "a").symlink_to("/")
    assert [(one.path, one.is_read) for one in walk] == [(("a",), False), (("c",), True)]


@pytest.mark.parametrize(
    ("root", "why"),
    [("absent", "is missing"), ("file", "is not a directory"), ("closed", "cannot be read")],
)
async def test_a_root_that_cannot_be_walked_is_told(
    tmp_path: Path, root: str, why: str, monkeypatch: Any
) -> None:
    (tmp_path / "file").write_text("")
    source = replace(LAKE, root=f"file:{tmp_path / root}")
    if root == "closed":
        opened = os.open

        def refusing(path: Any, *arguments: Any, **more: Any) -> int:
            if str(path).endswith("/closed"):
                raise PermissionError
            return opened(path, *arguments, **more)

        monkeypatch.setattr(os, "open", refusing)
    for asked in (walking().look(source, "", {}), walking().reach(source)):
        with pytest.raises(UnfitFiles, match=why):
            await asked


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("", {"a.csv", "a.csv.gz", "b.txt"}),
        ("*.csv", {"a.csv"}),
        ("*.{csv,csv.gz}", {"a.csv", "a.csv.gz"}),
        ("[^a].*", {"b.txt"}),
        ("?.???", {"a.csv", "b.txt"}),
        ("{a,b", {"a.csv", "a.csv.gz", "b.txt"}),
    ],
)
def test_patterns_are_globs(pattern: str, names: set[str]) -> None:
    assert {name for name in ("a.csv", "a.csv.gz", "b.txt") if compile_glob(pattern)(name)} == names


class ListingSpark(PlayedSpark):
    """Lists directories, and knows some for tables."""

    rows: tuple[tuple[str, int], ...] = ()
    counted: tuple[Any, ...] = (3, "s3a://b/a/b.csv")
    fails: str = ""

    async def query(self, sql: str, before: str = "", after: str = "") -> Any:
        if self.fails:
            raise BackendError("no", self.fails)
        if sql.startswith("SELECT IF("):
            self.asked.append(sql)
            last = bytes.fromhex(sql.split("unhex('")[1].split("'")[0]).decode()
            most = int(sql.rsplit(" ", 1)[1])
            return [row for row in self.rows if row[0] > last][:most]
        if sql.startswith("SELECT count(*), min(path)"):
            return [self.counted]
        return await super().query(sql, before, after)


async def test_spark_lists_what_the_gateway_cannot_see() -> None:
    spark = ListingSpark(marks=("s3a://b/ice/_delta_log",))
    spark.rows = (("days/day=1", 1), ("days/day=2", 2), ("ice/x", 1), ("o'dd", 1), ("people.csv", 1))
    source = replace(LAKE, walk=3)
    seen = await walking(spark).look(source, "", {})
    assert (seen.files, seen.reached) == ({"days": 3, "ice/x": 1}, "ice/x")
    assert seen.formats == {"days": "", "ice": "Delta", "ice/x": ""}
    asked = len(spark.asked)
    again = await walking(spark).look(source, "", seen.formats)
    assert again == seen
    assert len(spark.asked) == asked + 1, "what is known is not asked about again"
    rest = await walking(spark).look(source, seen.reached, seen.formats)
    assert (rest.files, rest.reached) == ({"people.csv": 1}, "")


@pytest.mark.parametrize(("state", "why"), [("42K03", "is missing"), ("XX000", "cannot list")])
async def test_what_spark_cannot_list_is_told(state: str, why: str) -> None:
    spark = ListingSpark()
    spark.fails = state
    for asked in (walking(spark).look(LAKE, "", {}), walking(spark).reach(LAKE)):
        with pytest.raises(UnfitFiles, match=why):
            await asked


async def test_the_root_of_a_source_is_a_directory() -> None:
    spark = ListingSpark()
    assert await walking(spark).reach(LAKE) == 3
    spark.counted = (0, None)
    assert await walking(spark).reach(LAKE) == 0
    spark.counted = (1, "s3a://b/")
    with pytest.raises(UnfitFiles, match="is a file"):
        await walking(spark).reach(LAKE)


def test_what_could_be_a_table_shares_files_with_none() -> None:
    seen = {
        "a": (1, ""),
        "a/b": (1, ""),
        "a/b/c": (1, ""),
        "d": (0, "Iceberg"),
        "d/data": (1, ""),
        "e": (1, "Delta"),
        "f": (0, ""),
        "g": (2, ""),
    }
    assert not_tables(LAKE, seen, ["a/b"]) == {"g": 2}
    takes_delta = replace(LAKE, formats=("delta",))
    assert not_tables(takes_delta, seen, ["a/b/c"]) == {"e": 1, "g": 2}


@pytest.fixture
async def connection(database: str) -> AsyncIterator[Any]:
    opened = await asyncpg.connect(database)
    await migrate(opened)
    yield opened
    await opened.close()


async def test_what_is_gone_is_dropped_when_all_was_seen(connection: Any) -> None:
    def seen(reached: str, *paths: str) -> Round:
        return Round(files=dict.fromkeys(paths, 1), formats={}, reached=reached)

    await walk_results.keep(connection, LAKE, "", seen("b", "a", "b"))
    await walk_results.keep(connection, LAKE, "b", seen("", "c"))
    assert set(await walk_results.no_tables(connection, LAKE)) == {"a", "b", "c"}
    await walk_results.keep(connection, LAKE, "", seen("b", "b"))
    assert set(await walk_results.no_tables(connection, LAKE)) == {"a", "b", "c"}, "it is not over"
    await walk_results.fail(connection, LAKE, "b", "away")
    assert [(walk.found, walk.trouble) for walk in await walk_results.walks(connection)] == [(3, "away")]
    await walk_results.keep(connection, LAKE, "b", seen("", "d"))
    assert set(await walk_results.no_tables(connection, LAKE)) == {"b", "d"}
    assert [(walk.found, walk.trouble) for walk in await walk_results.walks(connection)] == [(2, "")]


async def test_what_is_due_for_longest_is_walked_first(connection: Any) -> None:
    every_s = {"lake": 60.0, "other": 60.0}
    await walk_results.fail(connection, LAKE, "a", "away")
    assert await walk_results.due(connection, every_s) == ("other", "")
    assert await walk_results.due(connection, {"lake": 60.0}) is None
    await connection.execute("UPDATE sluice.source_walk SET walked_at = walked_at - interval '61 s'")
    assert await walk_results.due(connection, {"lake": 60.0}) == ("lake", "a")


async def test_so_many_directories_are_noted_and_no_more(connection: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(walk_results, "MAX_KEPT", 2)
    files = {"a": 1, "b": 1, "c": 1}
    await walk_results.keep(connection, LAKE, "", Round(files=files, formats={}, reached="", unread=1))
    assert set(await walk_results.no_tables(connection, LAKE)) == {"a", "b"}
    (walk,) = await walk_results.walks(connection)
    assert "1 directories cannot be read; it has more than 2 directories" in walk.trouble
    await walk_results.keep(connection, LAKE, "", Round(files={"b": 1, "c": 1}, formats={}, reached=""))
    await walk_results.keep(connection, LAKE, "", Round(files={"b": 1, "c": 1}, formats={}, reached=""))
    assert set(await walk_results.no_tables(connection, LAKE)) == {"b", "c"}


async def test_spark_is_sent_into_no_circle(lake: FileSource) -> None:
    spark = ListingSpark()
    assert await walking(spark).reach(lake) == sum(FOUND.values())
    assert spark.asked == []
