"""Sources of files are walked by themselves, and their roots are tested. Costs 40 s."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyhive import hive

from gateway.app import exit_codes
from gateway.files.looking import Looking, Nothing
from gateway.files.walking import Walking
from gateway.model.files import FileSource
from gateway.session.ports import BackendError
from tests.e2e.one_pack import ENDPOINTS, session, write_settings
from tests.e2e.running import RunningGateway, Spark, until
from tests.e2e.test_files import write

pytestmark = pytest.mark.in_turn(3)

PACK = """
service: spark
policies:
  - name: whoever comes first
    on:
      - {catalog: spark_catalog, database: testwalked}
      - {catalog: spark_catalog, database: testwalked, table: "*", column: "*"}
    allow: [{users: [alice], access: [use, select, show, promote]}]
  - name: their files
    on: {url: "file:ROOT/*"}
    allow: [{users: [alice], access: [read]}]
"""
TREE = ("people.csv", "raw/a/x.csv", "raw/b/day=1/x.csv", "raw/b/day=2/x.csv", "raw/c/d/x.csv")
FOUND = {"people.csv": 1, "raw/a": 1, "raw/b": 2, "raw/c/d": 1}


@pytest.fixture(scope="module")
def root(open_directory: Path) -> Path:
    made = open_directory / "testwalked"
    made.mkdir()
    made.chmod(0o777)
    for name in TREE:
        write(made / name, "id,name\n1,a\n")
    write(made / "raw" / "table" / "_delta_log" / "0.json", "{}\n")
    write(made / "raw" / "table" / "x.csv", "id,name\n1,a\n")
    write(made / "raw" / "empty" / "x.csv", "")
    return made


@pytest.fixture(scope="module")
def walked(spark: Spark, open_directory: Path, root: Path) -> Iterator[RunningGateway]:
    (root / "in_a_circle").symlink_to(root)
    write(open_directory / "no_directory", "")
    sources: dict[str, Any] = {
        "testwalked": {"root": f"file:{root}", "refresh_s": 0.2, "walk": 2},
        "testabsent": {"root": f"file:{open_directory}/testabsent", "refresh_s": 0.2},
        "testfile": {"root": f"file:{open_directory}/no_directory"},
    }
    pack = PACK.replace("ROOT", str(root))
    file = write_settings(open_directory / "walked", spark, pack, {"alice": []}, files=sources)
    with contextlib.ExitStack() as stack:
        stack.callback(spark.query, "DROP DATABASE IF EXISTS testwalked CASCADE")
        running = RunningGateway(file).start()
        stack.callback(running.stop)
        yield running


def listed(gateway: RunningGateway) -> str:
    done = gateway.sluice("datasets", "list")
    assert done.returncode == 0, done
    return done.stdout


def metric(gateway: RunningGateway, name: str, source: str) -> float | None:
    _, page = gateway.admin("/metrics")
    beginning = f'{name}{{source="{source}"}} '
    values = [line.removeprefix(beginning) for line in page.splitlines() if line.startswith(beginning)]
    return float(values[0]) if values else None


@pytest.mark.in_turn(3, place=1)
def test_what_a_walk_finds_is_told_and_made_by_nobody(
    walked: RunningGateway, spark: Spark, root: Path
) -> None:
    until(lambda: metric(walked, "sluice_source_found", "testwalked") == len(FOUND), "all is found")
    assert metric(walked, "sluice_source_walk_trouble", "testwalked") == 0
    told = listed(walked)
    for path, files in FOUND.items():
        assert f"testwalked/{path}\n  found, not promoted  {files} files\n" in told
    assert told.count("testwalked/") == len(FOUND), "no links, no tables of formats, no empty ones"
    assert ("testwalked",) not in spark.query("SHOW DATABASES"), "a walk makes nothing"
    until(lambda: metric(walked, "sluice_source_walk_trouble", "testabsent") == 1, "it cannot be walked")
    assert "its root is missing" in listed(walked)
    with session(walked, "thrift", "alice") as alice:
        assert alice("SELECT * FROM testwalked.raw.b ORDER BY day") == [(1, "a", 1), (1, "a", 2)]
    told = listed(walked)
    assert "testwalked/raw/b\n  spark_catalog.testwalked.raw__b" in told
    assert told.count("not promoted") == len(FOUND) - 1, "as soon as it is one"
    write(root / "raw" / "later" / "x.csv", "id,name\n1,a\n")
    until(lambda: "testwalked/raw/later\n" in listed(walked), "what came later is found")
    shutil.rmtree(root / "raw" / "later")
    until(lambda: "testwalked/raw/later\n" not in listed(walked), "what went is forgotten")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_table_whose_files_vanish_is_told_of_and_stays(
    walked: RunningGateway, root: Path, endpoint: str
) -> None:
    write(root / f"gone_{endpoint}" / "x.csv", "id,name\n1,a\n")
    with session(walked, endpoint, "alice") as alice:
        assert alice(f"SELECT * FROM testwalked.gone_{endpoint}") == [(1, "a")]
        shutil.rmtree(root / f"gone_{endpoint}")
        gone = f"the files of `spark_catalog.testwalked.gone_{endpoint}` are gone"
        until(lambda: gone in listed(walked), "it is noticed")
        until(lambda: (metric(walked, "sluice_datasets_changed", "testwalked") or 0) > 0, "it is counted")
        assert f"gone_{endpoint}" in {row[1] for row in alice("SHOW TABLES IN spark_catalog.testwalked")}
        # It comes back under its name and by its policies.
        write(root / f"gone_{endpoint}" / "x.csv", "id,name\n2,b\n")
        until(lambda: gone not in listed(walked), "it is back")
        alice(f"ALTER TABLE testwalked.gone_{endpoint} REFRESH METADATA")
        assert alice(f"SELECT * FROM testwalked.gone_{endpoint}") == [(2, "b")]


def test_roots_of_sources_are_tested(walked: RunningGateway, root: Path) -> None:
    done = walked.sluice("catalogs", "test", "TestWalked")
    assert (done.returncode, f"testwalked: file:{root} is a directory" in done.stdout) == (0, True), done
    done = walked.sluice("catalogs", "test")
    assert done.returncode == exit_codes.UNAVAILABLE
    assert "testabsent: " in done.stdout
    assert "its root is missing" in done.stdout
    assert "its root is not a directory" in done.stdout
    assert walked.sluice("catalogs", "test", "nothing").returncode == exit_codes.FAULTS


@pytest.fixture
def spark_lists(spark: Spark) -> Any:
    """Ask Spark as the gateway does."""

    async def query(sql: str, before: str = "", after: str = "") -> list[Any]:
        try:
            return spark.query(*(text for text in (before, sql) if text))
        except hive.OperationalError as error:
            status = error.args[0].status
            raise BackendError(status.errorMessage, status.sqlState) from None

    return query


async def test_spark_lists_as_the_gateway_looks(spark_lists: Any, root: Path) -> None:
    write(root.parent / "listed" / "o'dd ${x}" / "x.csv", "1\n")
    for name in (*TREE, "raw/.hidden/x.csv", "raw/ice/metadata/v1.metadata.json", "raw/ice/data/x.csv"):
        write(root.parent / "listed" / name, "id,name\n1,a\n")
    write(root.parent / "listed" / "raw" / "table" / "_delta_log" / "0.json", "{}\n")
    write(root.parent / "listed" / "raw" / "table" / "x.csv", "id,name\n1,a\n")
    source = FileSource(
        name="listed",
        root=f"file:{root.parent}/listed",
        database="listed",
        formats=("csv",),
        depth=4,
        leaf_columns=9,
        files=99,
    )
    here = await Walking(spark_lists, BackendError).look(source, "", {})
    walking = Walking(spark_lists, BackendError)
    there = await walking._look_by_spark(source, "", {})
    assert {path: count for path, count in there.files.items() if not path.startswith("raw/ice/")} == {
        path: count for path, count in here.files.items() if path != "raw/ice"
    }
    kept = {path: format_ for path, format_ in there.formats.items() if format_}
    assert kept == here.formats == {"raw/ice": "Iceberg", "raw/table": "Delta"}
    after, parts = "", 0
    while not parts or after:
        part = await walking._look_by_spark(replace(source, walk=2), after, {})
        after, parts = part.reached, parts + 1
    assert parts > 2
    assert await walking.reach(source) >= len(FOUND)
    with pytest.raises(Nothing):
        await Looking(spark_lists, BackendError).directories(
            replace(source, root=f"file:{root}/absent"), "", 1
        )
