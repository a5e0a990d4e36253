"""Files become tables when somebody who may first names them, through both endpoints, and stay governed."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import yaml

from gateway.cli.audit import find_record
from gateway.settings import load_settings
from tests.e2e.one_pack import ENDPOINTS, session, write_settings
from tests.e2e.running import RunningGateway, Spark

pytestmark = pytest.mark.in_turn(3)

PACK = """
service: spark
people:
  alice: {groups: [promoters, readers]}
  bob: {groups: [readers]}
  carl: {groups: [promoters]}
policies:
  - name: reading the source's tables
    on:
      - {catalog: spark_catalog, database: testlake}
      - {catalog: spark_catalog, database: testlake, table: "*", column: "*"}
    allow: [{groups: [readers], access: [use, select, refresh]}]
  - name: files become tables
    on: {catalog: spark_catalog, database: testlake, table: "*"}
    allow: [{groups: [promoters], access: [promote]}]
  - name: the source's files
    on: [{url: "file:ROOT/*"}, {url: "file:ABOVE/testlearned/*"}, {url: "file:ABOVE/testasked/*"}]
    allow: [{users: [alice], access: [read]}]
  - name: files that get other columns, and files that become tables when that is asked for
    on:
      - {catalog: spark_catalog, database: [testlearned, testasked]}
      - {catalog: spark_catalog, database: [testlearned, testasked], table: "*", column: "*"}
    allow: [{users: [alice], access: [use, select, promote]}]
  - name: files that are whose who promotes them
    on:
      - {catalog: spark_catalog, database: testowned}
      - {catalog: spark_catalog, database: testowned, table: "*"}
    allow: [{users: [alice, carl], access: [use, promote]}]
  - name: the files of it
    on: {url: "file:ABOVE/testowned/*"}
    allow: [{users: [alice, carl], access: [read]}]
  - name: whoever promotes may read
    on: {catalog: spark_catalog, database: testowned, table: "*", column: "*"}
    allow: [{users: ["{OWNER}"], access: [select]}]
  - name: everybody may read whatever there is, and some may promote
    on:
      - {catalog: spark_catalog, database: testclosed}
      - {catalog: spark_catalog, database: testclosed, table: "*", column: "*"}
    allow:
      - {groups: [public], access: [use, select, show, drop]}
      - {groups: [promoters], access: [promote]}
  - name: the files of that
    on: {url: "file:ABOVE/testclosed/*"}
    allow: [{groups: [public], access: [read]}]
  - name: what somebody has looked at
    on: {catalog: spark_catalog, database: testclosed, table: [opened_thrift, opened_connect], column: "*"}
    allow: [{groups: [readers], access: [select]}]
  - name: tables that somebody would like to name otherwise
    on:
      - {catalog: spark_catalog, database: testnamed}
      - {catalog: spark_catalog, database: testnamed, table: "*", column: "*"}
    allow:
      - {users: [alice], access: [use, select, show, promote, alter, create, drop, insert]}
      - {users: [carl], access: [use, select, show]}
  - name: the files of those
    on: {url: "file:ABOVE/testnamed/*"}
    allow: [{users: [alice], access: [read]}]
  - name: views of one who promotes
    on: {catalog: spark_catalog, database: testviews, table: "*", column: "*"}
    allow:
      - {users: [alice], access: [select, create, drop]}
      - {users: [bob], access: [select]}
  - name: one of which nobody sees
    on: {catalog: spark_catalog, database: testlearned, table: "*", column: late}
    mask: [{groups: [public], type: MASK_NULL}]
  - name: every other event
    on: {catalog: spark_catalog, database: testlake, table: raw__events}
    filter: [{groups: [public], where: "id % 2 = 0"}]
  - name: secrets
    on: {catalog: spark_catalog, database: testlake, table: raw__events, column: secret}
    mask: [{groups: [public], type: MASK_NULL}]
  - name: secrets of a directory of directories
    on: {catalog: spark_catalog, database: testlake, table: guarded, column: secret}
    mask: [{groups: [public], type: MASK_NULL}]
  - name: rows of a part of a directory
    on: {catalog: spark_catalog, database: testlake, table: parts__day_z3dz2}
    filter: [{groups: [public], where: "id = 1"}]
"""
USERS = {"alice": ["promoters", "readers"], "bob": ["readers"], "carl": ["promoters"], "dora": ["stewards"]}
EVENTS = [(0, None), (2, None), (4, None)]


@pytest.fixture(scope="module")
def root(open_directory: Path) -> Path:
    made = open_directory / "testlake"
    made.mkdir()
    made.chmod(0o777)
    return made


@pytest.fixture(scope="module")
def files(spark: Spark, open_directory: Path, root: Path) -> Iterator[RunningGateway]:
    for name, format_ in (("events", "parquet"), ("lines", "json"), ("frames", "orc"), ("race", "parquet")):
        spark.query(
            f"INSERT OVERWRITE DIRECTORY '{root}/raw/{name}' USING {format_}"
            " SELECT id, concat('s', id) AS secret FROM range(5)"
        )
    spark.query(f"INSERT OVERWRITE DIRECTORY '{root}/raw/delta' USING json SELECT 1 AS a")
    spark.query(f"INSERT OVERWRITE DIRECTORY '{root}/raw/delta/_delta_log' USING json SELECT 1 AS a")
    write(root / "people.csv", "id;name;note\n1;Zoë;x\n2;Ann;y,z\n")
    write(root / "mixed" / "a.csv", "id,name\n1,a\n")
    write(root / "mixed" / "b.json", '{"id": 1}\n')
    write(root / "empty" / "nothing.csv", "")
    write(root / "Größe" / "a.csv", "id,name\n1,a\n")
    write(root / "dirs" / "2024" / "01" / "a.csv", "id,name\n1,a\n")
    write(root / "dirs" / "2024" / "02" / "a.csv", "id,name\n2,b\n")
    write(root / "dirs" / "2025" / "01" / "a.csv", "id,name\n3,c\n")
    write(root / "dirs" / "_2025" / "a.csv", "id,name\n4,d\n")
    write(root / "dirs_and_days" / "2024" / "day=1" / "a.csv", "id,name\n1,a\n")
    write(root / "dirs_and_days" / "2025" / "a.csv", "id,name\n1,a\n")
    write(root / "dirs_and_files" / "a.csv", "id,name\n1,a\n")
    write(root / "dirs_and_files" / "below" / "a.csv", "id,name\n2,b\n")
    write(root / "tables_below" / "x" / "y" / "a.csv", "id,name\n2,b\n")
    write(root / "tables_below" / "x" / "t" / "_delta_log" / "0.json", "{}\n")
    for directory in ("guarded", "parts", "days"):
        for day in (1, 2):
            write(root / directory / f"day={day}" / "a.csv", f"id,secret\n{day},s{day}\n")
    for hidden in ("_b.csv", ".b.csv", "b.csv._COPYING_", "_below/b.csv", ".below/day=1/b.csv"):
        write(root / "hidden" / hidden, "id,name\n2,b\n")
        write(root / "nothing_else" / hidden, "id,name\n2,b\n")
    write(root / "hidden" / "a.csv", "id,name\n1,a\n")
    write(root / "hidden_days" / "_day=1" / "a.csv", "id,name\n1,a\n")
    write(root / "hidden_days" / "_x" / "b.csv", "id,name\n2,b\n")
    write(root / "tabs" / "a.tsv", "id\tname\n1\ta, b\n")
    write(root / "latin" / "a.csv", "")
    (root / "latin" / "a.csv").write_bytes("id,größe\n1,ß\n".encode("latin-1"))
    write(root / "polish" / "a.csv", "")
    (root / "polish" / "a.csv").write_bytes("id,słowo\n1,ż\n".encode("iso8859-2"))
    write(root / "wide" / "a.csv", "")
    (root / "wide" / "a.csv").write_bytes("id\tgröße\r\n1\tß\r\n2\tЮ\r\n".encode("utf-16"))
    write(root / "apostrophes" / "a.csv", "id,name\n1,'a, b'\n2,'it''s'\n")
    write(root / "breaks" / "a.csv", 'id,name\r\n1,a\r\n2,"b\r\nc, d"\r\n')
    lines = "".join(f"{n},x\n" for n in range(30))
    write(root / "breaks_below" / "a.csv", f'id,name\n{lines}30,"b\n\nc"\n')
    write(root / "never_closed" / "a.csv", f'id,name\n{lines}30,"b\n31,c\n')
    write(root / "backslashes" / "a.csv", 'id,name\n1,"a \\"b\\", c"\n2,x\n')
    for n in range(20):
        write(root / "dated" / f"log.2024-01-{n:02}", f'{{"id": {n}}}\n')
    write(root / "mixed_lines" / "a.json", '{"id": 1}\n' * 30 + "id,name\n")
    documents = "[\n" + ",\n".join(f'{{"id": {n}}}' for n in range(30)) + "\n]\n"
    write(root / "mixed_documents" / "a.json", documents * 2)
    write(root / "other_separators" / "a.csv", "id,name\n1,a\n")
    write(root / "other_separators" / "b.csv", "id;name\n2;b\n")
    for name, packed in (("a.json.gz", b'{"id": 1}\n'), ("b.csv.gz", b"id,name\n2,b\n")):
        write(root / "mixed_packed" / name, "")
        (root / "mixed_packed" / name).write_bytes(gzip.compress(packed))
    write(root / "unreadable" / "a.csv", "id,name\n1,a\n")
    (root / "unreadable" / "a.csv").chmod(0)
    write(root / "bare" / "a.csv", "")
    (root / "bare" / "a.csv").unlink()
    write(root / "packed" / "a.csv", "id,name\n1,a\n")
    write(root / "packed" / "b.csv.gz", "")
    (root / "packed" / "b.csv.gz").write_bytes(gzip.compress(b"id,name\n2,b\n"))
    write(root / "packed_lines" / "a.json.gz", "")
    (root / "packed_lines" / "a.json.gz").write_bytes(gzip.compress(b'{"id": 1}\n{"id": 2}\n'))
    write(root / "long_lines" / "a.json", "".join(f'{{"id": {n}, "x": "{"x" * 5_000}"}}\n' for n in (1, 2)))
    (root / "outside").mkdir()
    (root / "linked").symlink_to(root.parent)
    (root / "outside" / "link.csv").symlink_to("/etc/passwd")
    spark.query(
        "CREATE DATABASE testviews",
        f"CREATE DATABASE testwarehouse LOCATION '{root}/wh'",
        "CREATE TABLE testwarehouse.hidden USING parquet AS SELECT 1 AS id",
        f"CREATE TABLE testwarehouse.far USING parquet LOCATION '{root}/far/in' AS SELECT 1 AS id",
    )
    learned = f"file:{open_directory}/testlearned"
    sources: dict[str, dict[str, Any]] = {
        "testlake": {"root": f"file:{root}"},
        "testlearned": {"root": learned, "schema_learning": True},
        "testowned": {"root": f"file:{open_directory}/testowned"},
        "testnamed": {"root": f"file:{open_directory}/testnamed"},
        "testasked": {"root": f"file:{open_directory}/testasked", "auto_promote": False},
    }
    sources = {name: {**source, "closed": False} for name, source in sources.items()}
    closed = {"root": f"file:{open_directory}/testclosed", "pattern": "*.{csv,tsv}"}
    sources["testclosed"] = {**closed, "administrators": ["stewards"]}
    asked = sources.pop("testasked")
    entry = {"name": "testasked", "catalog": {"type": "files", "connection-params": asked}}
    settings: dict[str, Any] = {"files": sources, "catalogs": [entry]}
    pack = PACK.replace("ROOT", str(root)).replace("ABOVE", str(open_directory))
    file = write_settings(open_directory / "files", spark, pack, USERS, **settings)
    with contextlib.ExitStack() as stack:
        stack.callback(spark.query, "DROP DATABASE IF EXISTS testlake CASCADE")
        stack.callback(spark.query, "DROP DATABASE IF EXISTS testwarehouse CASCADE")
        stack.callback(spark.query, "DROP DATABASE IF EXISTS testviews CASCADE")
        stack.callback(spark.query, "DROP DATABASE IF EXISTS testlearned CASCADE")
        stack.callback(spark.query, "DROP DATABASE IF EXISTS testasked CASCADE")
        stack.callback(spark.query, "DROP DATABASE IF EXISTS testowned CASCADE")
        stack.callback(spark.query, "DROP DATABASE IF EXISTS testclosed CASCADE")
        stack.callback(spark.query, "DROP DATABASE IF EXISTS testnamed CASCADE")
        running = RunningGateway(file).start()
        stack.callback(running.stop)
        yield running


def write(file: Path, text: str) -> None:
    for directory in (*reversed(file.parents[1:3]), file.parent):
        if not directory.exists():
            directory.mkdir()
            directory.chmod(0o755)
    file.write_text(text)
    file.chmod(0o644)


def ask(gateway: RunningGateway, endpoint: str, user: str, text: str) -> Any:
    with session(gateway, endpoint, user) as asked:
        return asked(text)


def told(gateway: RunningGateway, user: str, text: str, endpoint: str = "thrift") -> str:
    with pytest.raises(Exception) as failed:
        ask(gateway, endpoint, user, text)
    # Every refusal names an audit event of its own.
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", str(failed.value))


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("user", ["bob", "carl"])
def test_who_may_not_promote_learns_nothing(files: RunningGateway, user: str, endpoint: str) -> None:
    there = told(files, user, "SELECT * FROM testlake.raw.lines", endpoint)
    absent = told(files, user, "SELECT * FROM testlake.raw.absnt", endpoint)
    assert "ACCESS_DENIED" in there
    assert there.replace("lines", "absnt") == absent


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_one_statement_promotes_and_reads_through_the_policies(files: RunningGateway, endpoint: str) -> None:
    with session(files, endpoint, "alice") as alice:
        assert alice("SELECT * FROM testlake.raw.events") == EVENTS
        assert alice("SELECT * FROM spark_catalog.testlake.raw__events e WHERE e.id > 2") == EVENTS[2:]
    assert ask(files, endpoint, "bob", "SELECT * FROM TestLake.raw.events") == EVENTS


def test_a_frame_promotes(files: RunningGateway) -> None:
    from tests.e2e.one_pack import PASSWORD

    with files.session("alice", PASSWORD) as frames:
        table = frames.table("testlake.raw.frames")
        assert table.columns == ["id", "secret"]
        assert table.count() == 5


def test_two_at_once_are_both_answered(files: RunningGateway) -> None:
    def count(endpoint: str) -> Any:
        return ask(files, endpoint, "alice", "SELECT count(*) FROM testlake.raw.race")

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(count, ENDPOINTS * 2)) == [[(5,)]] * 4


@pytest.mark.in_turn(6)
@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("`people.csv`", [(1, "Zoë", "x"), (2, "Ann", "y,z")]),
        ("raw.lines", [(n, f"s{n}") for n in range(5)]),
        ("`Größe`", [(1, "a")]),
        ("tabs", [(1, "a, b")]),
        ("packed", [(1, "a"), (2, "b")]),
        ("packed_lines", [(1,), (2,)]),
        ("latin", [(1, "ß")]),
        ("wide", [(1, "ß"), (2, "Ю")]),
        ("apostrophes", [(1, "a, b"), (2, "it's")]),
        ("breaks", [(1, "a"), (2, "b\nc, d")]),
        ("breaks_below", [*((n, "x") for n in range(30)), (30, "b\n\nc")]),
        ("backslashes", [(1, 'a "b", c'), (2, "x")]),
        ("dated", [(n,) for n in range(20)]),
        # What Spark hides is not looked at and not read; a partition's name is not hidden.
        ("hidden", [(1, "a")]),
        ("hidden_days", [(1, "a", 1)]),
        # Directories below count where there are no files beside them.
        ("dirs", [(1, "a"), (2, "b"), (3, "c")]),
        ("dirs_and_files", [(1, "a")]),
    ],
)
def test_formats_are_found_out(files: RunningGateway, name: str, rows: list[Any]) -> None:
    assert sorted(ask(files, "thrift", "alice", f"SELECT * FROM testlake.{name}")) == rows


def test_long_lines_of_json_are_all_read(files: RunningGateway) -> None:
    assert ask(files, "thrift", "alice", "SELECT sum(id) FROM testlake.long_lines") == [(3,)]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.in_turn(3, one_way=True)
def test_a_table_of_directories_stays_one(files: RunningGateway, root: Path, endpoint: str) -> None:
    directory = f"below_{endpoint}"
    write(root / directory / "2024" / "a.csv", "id,name\n1,a\n")
    text = f"SELECT * FROM testlake.{directory} ORDER BY id"
    with session(files, endpoint, "alice") as alice:
        assert alice(text) == [(1, "a")]
        write(root / directory / "2025" / "b.csv", "id,name\n2,b\n")
        write(root / directory / "c.csv", "id,name\n3,c\n")
        assert alice(ALTER.format(directory, "REFRESH")) == []
        assert alice(text) == [(1, "a"), (2, "b"), (3, "c")]
        assert "shares files" in refused(
            files, endpoint, "alice", f"SELECT * FROM testlake.{directory}.`2024`"
        )


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_directories_of_values_are_read_as_partitions(
    files: RunningGateway, root: Path, endpoint: str
) -> None:
    directory = f"values_{endpoint}"
    write(root / directory / "day=1" / "a.csv", "id,name\n1,a\n")
    text = f"SELECT * FROM testlake.{directory} ORDER BY day"
    with session(files, endpoint, "alice") as alice:
        assert alice(text) == [(1, "a", 1)]
        write(root / directory / "day=2" / "a.csv", "id,name\n2,b\n")
        assert alice(ALTER.format(directory, "REFRESH")) == []
        assert alice(text) == [(1, "a", 1), (2, "b", 2)]
        assert alice(f"SELECT name FROM testlake.{directory} WHERE day = 2") == [("b",)]
    assert ask(files, endpoint, "bob", text) == [(1, "a", 1), (2, "b", 2)]


@pytest.mark.in_turn(6)
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("raw.delta", "table of format Delta"),
        ("mixed", "different formats: `a.csv` is csv, `b.json` is json"),
        ("mixed_packed", "different formats: `b.csv.gz` is csv, `a.json.gz` is json"),
        ("mixed_lines", "`a.json` has lines that are not JSON"),
        ("mixed_documents", "`a.json` has several JSON documents"),
        ("other_separators", "`a.csv` has `,` between fields, `b.csv` has `;` between fields"),
        ("never_closed", "`a.csv` has a field with an opening quote and no closing one"),
        ("empty", "only empty ones"),
        ("bare", "no files"),
        ("nothing_else", "no files"),
        ("polish", "none of these formats: parquet"),
        ("unreadable", "cannot be read"),
        ("tables_below", "it contains tables of a table format"),
        ("dirs_and_days", "cannot list its files"),
        ("linked", "a link"),
        ("outside", "a link"),
        ("raw.absent", "TABLE_OR_VIEW_NOT_FOUND"),
        ("`..`.etc", "leads out"),
        ("`raw/events`", "characters that are not allowed in paths"),
    ],
)
def test_what_cannot_become_a_table_is_told(files: RunningGateway, name: str, why: str) -> None:
    assert why in told(files, "alice", f"SELECT * FROM testlake.{name}")


def part_of(directory: Path) -> str:
    return next(file.name for file in directory.iterdir() if file.name.startswith("part-"))


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_files_of_a_table_have_no_other_name(files: RunningGateway, root: Path, endpoint: str) -> None:
    assert ask(files, endpoint, "alice", "SELECT * FROM testlake.raw.lines LIMIT 0") == []
    shares = "shares files with the table `spark_catalog.testlake.raw__lines`"
    name = f"testlake.raw.lines.`{part_of(root / 'raw' / 'lines')}`"
    assert shares in told(files, "alice", f"SELECT * FROM {name}", endpoint)
    # Of a masked one policies tell first.
    part = f"testlake.raw.events.`{part_of(root / 'raw' / 'events')}`"
    assert "policies mask, filter or deny" in told(files, "alice", f"SELECT * FROM {part}", endpoint)


def test_neither_what_is_in_a_dataset_nor_what_it_is_in_is_another(files: RunningGateway) -> None:
    assert ask(files, "thrift", "alice", "SELECT count(*) FROM testlake.days.`day=1`") == [(1,)]
    shares = "shares files with the table `spark_catalog.testlake.days__day_z3dz1`"
    assert shares in told(files, "alice", "SELECT * FROM testlake.days")
    assert shares in told(files, "alice", "SELECT * FROM testlake.days.`day=1`.`a.csv`")
    assert ask(files, "thrift", "alice", "SELECT count(*) FROM testlake.days.`day=2`") == [(1,)]


@pytest.mark.parametrize("name", ["wh.hidden", "wh", "far.in", "far"])
def test_tables_of_the_session_catalog_have_no_other_name(files: RunningGateway, name: str) -> None:
    why = told(files, "alice", f"SELECT * FROM testlake.{name}")
    assert "shares files with another table or database" in why or "no files" in why
    assert "testwarehouse" not in why


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("name", ["guarded.`day=1`", "guarded.`day=1`.`a.csv`", "parts"])
def test_masks_and_filters_of_other_names_are_not_escaped(files: RunningGateway, name: str) -> None:
    assert "policies mask, filter or deny" in told(files, "alice", f"SELECT * FROM testlake.{name}")


def test_what_lies_in_a_table_of_a_format_is_no_table(files: RunningGateway, root: Path) -> None:
    name = f"testlake.raw.delta.`{part_of(root / 'raw' / 'delta')}`"
    assert "is inside a table of format Delta" in told(files, "alice", f"SELECT * FROM {name}")


ALTER = "ALTER TABLE testlake.{} {} METADATA"


def refused(gateway: RunningGateway, endpoint: str, user: str, text: str) -> str:
    return told(gateway, user, text, endpoint)


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_who_may_promote_may_have_files_looked_at_again(
    files: RunningGateway, root: Path, endpoint: str
) -> None:
    directory = f"again_{endpoint}"
    write(root / directory / "a.csv", "id,name\n1,a\n")
    with session(files, endpoint, "alice") as alice:
        assert alice(f"SELECT * FROM testlake.{directory}") == [(1, "a")]
        assert alice(ALTER.format(directory, "REFRESH")) == []
        write(root / directory / "b.csv", "id,name\n2,b\n")
        assert alice(ALTER.format(directory, "refresh")) == []
        assert alice(f"SELECT * FROM testlake.{directory}") == [(1, "a"), (2, "b")]
    assert "promote" in refused(files, endpoint, "bob", ALTER.format(directory, "REFRESH"))
    assert "promote" in refused(files, endpoint, "bob", ALTER.format(directory, "FORGET"))
    write(root / directory / "c.csv", "id,name\nx,c\n")
    drifted = refused(files, endpoint, "alice", ALTER.format(directory, "REFRESH"))
    assert "1 differences in format and columns" in drifted
    # Forgotten, and named again, it is made anew.
    with session(files, endpoint, "alice") as alice:
        assert alice(ALTER.format(directory, "FORGET")) == []
        assert alice(f"SELECT * FROM testlake.{directory} WHERE id = 'x'") == [("x", "c")]
        assert alice(ALTER.format(directory, "FORGET")) == []
    again = refused(files, endpoint, "alice", ALTER.format(directory, "FORGET"))
    assert "not a table made of files" in again


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_source_that_learns_gives_its_tables_other_columns(
    files: RunningGateway, open_directory: Path, endpoint: str
) -> None:
    directory = open_directory / "testlearned" / endpoint
    write(directory / "a.csv", "id,name\n1,a\n")
    refresh = f"ALTER TABLE testlearned.{endpoint} REFRESH METADATA"
    with session(files, endpoint, "alice") as alice:
        assert alice(f"SELECT * FROM testlearned.{endpoint}") == [(1, "a")]
        write(directory / "a.csv", "id,name,late\n1,a,x\n")
        assert alice(refresh) == []
        # Policies hold for what came, as for everything else.
        assert alice(f"SELECT * FROM testlearned.{endpoint}") == [(1, "a", None)]
        assert alice(refresh) == []


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_what_is_no_dataset_has_no_metadata_to_forget(files: RunningGateway, endpoint: str) -> None:
    for name, why in (
        ("testlake.never.named", "not a table made of files"),
        ("testwarehouse.hidden", "need the name of a table made of files"),
    ):
        for action in ("REFRESH", "FORGET"):
            text = f"ALTER TABLE {name} {action} METADATA"
            assert why in refused(files, endpoint, "alice", text), text
    assert "PARSE" in refused(files, endpoint, "alice", "ALTER TABLE testlake.days FORGET METADATA x")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_files_become_a_table_only_when_that_is_asked_for(
    files: RunningGateway, open_directory: Path, endpoint: str
) -> None:
    write(open_directory / "testasked" / endpoint / "a.csv", "id,name\n1,a\n")
    text, promote = (
        f"SELECT * FROM testasked.{endpoint}",
        f"ALTER TABLE testasked.{endpoint} PROMOTE METADATA",
    )
    assert "PROMOTE METADATA" in refused(files, endpoint, "alice", text)
    assert "ACCESS_DENIED" in refused(files, endpoint, "bob", text)
    assert "ACCESS_DENIED" in refused(files, endpoint, "bob", promote)
    absent = "ALTER TABLE testasked.absent PROMOTE METADATA"
    assert "there are no files to" in refused(files, endpoint, "alice", absent)
    assert "PROMOTE METADATA" in refused(files, endpoint, "alice", text), "another statement made it a table"
    with session(files, endpoint, "alice") as alice:
        assert alice(promote) == []
        assert alice(promote) == [], "it is one already"
        assert alice(text) == [(1, "a")]


@pytest.mark.in_turn(6)
def test_operators_promote_by_the_privileges_of_a_user(files: RunningGateway, open_directory: Path) -> None:
    write(open_directory / "testasked" / "by_command" / "a.csv", "id,name\n1,a\n")
    what = "testasked/by_command"
    for arguments, why in (
        ((what,), "`--user`"),
        ((what, "--user", "bob"), "may not create a table"),
        (("testasked/absent", "--user", "alice"), "there are no files at"),
        (("nowhere/x", "--user", "alice"), "no source `nowhere`"),
        (("testasked/../x", "--user", "alice"), "leads out of its source"),
    ):
        failed = run_datasets(files, "promote", *arguments)
        assert failed.returncode != 0
        assert why in failed.stderr, failed
    done = run_datasets(files, "promote", what, "--user", "alice")
    assert "is the table spark_catalog.testasked.by_command" in done.stdout, done
    assert "by alice" in run_datasets(files, "list").stdout
    assert ask(files, "thrift", "alice", "SELECT * FROM testasked.by_command") == [(1, "a")]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_new_table_is_closed_to_all_but_whom_it_is_of(
    files: RunningGateway, open_directory: Path, endpoint: str
) -> None:
    write(open_directory / "testowned" / endpoint / "a.csv", "id,name\n1,a\n")
    text = f"SELECT * FROM testowned.{endpoint}"
    with session(files, endpoint, "alice") as alice, session(files, endpoint, "carl") as carl:
        for mine, other in ((alice, "carl"), (carl, "alice")):
            assert mine(text) == [(1, "a")]
            assert "select" in refused(files, endpoint, other, text)
            assert mine(f"ALTER TABLE testowned.{endpoint} FORGET METADATA") == []


@pytest.fixture(scope="module")
def other(files: RunningGateway, open_directory: Path) -> Iterator[RunningGateway]:
    """Another gateway of the same settings, with the same PostgreSQL."""
    directory = open_directory / "files_too"
    directory.mkdir(mode=0o711)
    for file in files.config.parent.iterdir():
        if file.is_file():
            shutil.copy(file, directory)
    settings = yaml.safe_load(files.config.read_text())
    (directory / "dsn").write_text(find_record(load_settings(files.config))[0])
    settings["ledger"] = {"directory": "ledger", "dsn": {"file": "dsn"}}
    (directory / "gateway.yaml").write_text(json.dumps(settings))
    running = RunningGateway(directory / "gateway.yaml").start()
    yield running
    assert running.stop() == 0


@pytest.mark.in_turn(6)
def test_another_gateway_knows_at_once_whose_a_table_is(
    files: RunningGateway, other: RunningGateway, open_directory: Path
) -> None:
    write(open_directory / "testowned" / "passed_on" / "a.csv", "id,name\n1,a\n")
    text = "SELECT * FROM testowned.passed_on"
    with session(other, "thrift", "alice") as alice, session(other, "thrift", "carl") as carl:
        assert ask(files, "thrift", "alice", text) == [(1, "a")]
        assert alice(text) == [(1, "a")], "hers, as it knows from now on for half a minute"
        assert ask(files, "thrift", "alice", "ALTER TABLE testowned.passed_on FORGET METADATA") == []
        assert ask(files, "thrift", "carl", text) == [(1, "a")]
        assert carl(text) == [(1, "a")]
        with pytest.raises(Exception, match="select"):
            alice(text)


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_closed_source_opens_by_names_and_not_by_patterns(
    files: RunningGateway, open_directory: Path, endpoint: str
) -> None:
    for name in (endpoint, f"opened_{endpoint}"):
        write(open_directory / "testclosed" / name / "a.csv", "id,name\n1,a\n")
        write(open_directory / "testclosed" / name / "README.md", "what this is\n")
    text = f"SELECT * FROM testclosed.{endpoint}"
    forget = f"ALTER TABLE testclosed.{endpoint} FORGET METADATA"
    show = "SHOW TABLES IN spark_catalog.testclosed"
    with session(files, endpoint, "alice") as alice, session(files, endpoint, "carl") as carl:
        assert alice(text) == [(1, "a")], "the source hides what is no CSV"
        assert alice(f"SELECT * FROM testclosed.opened_{endpoint}") == [(1, "a")]
        assert carl(f"SELECT * FROM testclosed.opened_{endpoint}") == [(1, "a")]
        bobs = {row[1] for row in ask(files, endpoint, "bob", show)}
        assert f"opened_{endpoint}" in bobs
        assert endpoint not in bobs
        assert endpoint in {row[1] for row in alice(show)}
        for other in ("bob", "carl"):
            for closed in (text, f"{text} WHERE 1 = 0", f"DROP TABLE spark_catalog.testclosed.{endpoint}"):
                assert "DENIED" in refused(files, endpoint, other, closed), closed
        # Who could forget it could promote it next, and have it for his own.
        for change in (forget, forget.replace("FORGET", "REFRESH")):
            assert "is closed" in refused(files, endpoint, "carl", change)
        assert ask(files, endpoint, "dora", text) == [(1, "a")]
        assert alice(f"CREATE OR REPLACE TEMPORARY VIEW mine AS {text}") == []
        assert alice("SELECT * FROM mine") == [(1, "a")]
        # A session with a view of it names the files anew.
        assert alice("DROP VIEW mine") == []
        assert alice(forget) == []
        assert carl(text) == [(1, "a")], "whoever names it first now"
        assert "DENIED" in refused(files, endpoint, "alice", text)


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_names_of_a_source_mean_its_files_and_nothing_else(
    files: RunningGateway, open_directory: Path, endpoint: str
) -> None:
    plain, taken, free = (f"{name}_{endpoint}" for name in ("plain", "taken", "free"))
    for name in (plain, taken):
        write(open_directory / "testnamed" / name / "a.csv", "id,name\n1,a\n")
    database = "spark_catalog.testnamed"
    made = f"SELECT * FROM testnamed.{plain}"
    changes = [
        f"ALTER TABLE {database}.{plain} RENAME TO {{}}",
        f"ALTER TABLE testnamed.{plain} RENAME TO testnamed.{{}}",
        f"CREATE TABLE {database}.{{}} (id INT) USING parquet",
        "CREATE TABLE testnamed.{} USING parquet AS SELECT 1 AS id",
        f"CREATE TABLE {database}.{{}} LIKE {database}.{plain}",
        f"CREATE VIEW {database}.{{}} AS SELECT 1 AS id",
        f"CREATE OR REPLACE VIEW testnamed.{{}} AS SELECT * FROM {database}.{plain}",
    ]
    with session(files, endpoint, "alice") as alice, session(files, endpoint, "carl") as carl:
        assert alice(made) == [(1, "a")]
        assert alice(f"USE {database}") == []
        for change in changes:
            for name in (taken, free):
                # Whoever may promote has made a table of files that a statement names, and no other.
                with pytest.raises(Exception, match=r"made of files|create"):
                    alice(change.format(name))
                with pytest.raises(Exception, match="DENIED"):
                    carl(change.format(name))
        assert alice(f"SELECT * FROM testnamed.{taken}") == [(1, "a")]
        # A name that was forgotten is free for its files alone.
        assert alice(f"ALTER TABLE testnamed.{plain} FORGET METADATA") == []
        with pytest.raises(Exception, match="made of files"):
            alice(f"ALTER TABLE {database}.{taken} RENAME TO {plain}")
        assert alice(made) == [(1, "a")]
        assert (
            alice(f"SHOW TABLES IN {database}")
            == [("testnamed", name, False) for name in sorted((plain, taken))]
            or endpoint == "connect"
        )
        for user in ("alice", "carl"):
            assert "DENIED" in refused(
                files, endpoint, user, "DROP DATABASE spark_catalog.testclosed CASCADE"
            )


def test_dataframes_write_no_tables_beside_those_of_files(
    files: RunningGateway, open_directory: Path
) -> None:
    from tests.e2e.one_pack import PASSWORD

    write(open_directory / "testnamed" / "framed" / "a.csv", "id,name\n1,a\n")
    with files.session("alice", PASSWORD) as frames:
        rows = frames.range(1)
        written: Any
        for written in (
            lambda: rows.write.saveAsTable("spark_catalog.testnamed.framed"),
            lambda: rows.write.mode("overwrite").saveAsTable("testnamed.framed"),
            lambda: rows.writeTo("spark_catalog.testnamed.framed").using("parquet").create(),
            lambda: frames.catalog.createTable("spark_catalog.testnamed.framed", schema=rows.schema),
        ):
            with pytest.raises(Exception, match="made of files"):
                written()
        assert [tuple(row) for row in frames.table("testnamed.framed").collect()] == [(1, "a")]


@pytest.mark.in_turn(6, place=4)
def test_gateways_that_promote_and_forget_at_once_agree(
    files: RunningGateway, other: RunningGateway, spark: Spark, root: Path
) -> None:
    write(root / "stormed" / "a.csv", "id,name\n1,a\n")
    text, forget = "SELECT * FROM testlake.stormed", ALTER.format("stormed", "FORGET")

    def several(gateway: RunningGateway, endpoint: str, asked: str) -> list[Any]:
        answers = list[Any]()
        with session(gateway, endpoint, "alice") as alice:
            for _ in range(3):
                try:
                    answers.append(alice(asked))
                except Exception as error:  # noqa: BLE001 - whatever a client raises is looked at below
                    answers.append(str(error))
        return answers

    parts = [(gateway, endpoint) for gateway in (files, other) for endpoint in ENDPOINTS]
    assert ask(files, "thrift", "alice", text) == [(1, "a")]  # or all could forget before there is anything
    with ThreadPoolExecutor(8) as pool:
        reading = [pool.submit(several, *part, text) for part in parts]
        forgetting = [pool.submit(several, *part, forget) for part in parts]
        read = [answer for one in reading for answer in one.result()]
        forgot = [answer for one in forgetting for answer in one.result()]
    # What was forgotten in between counts as such; nothing else is told, but to who is always overtaken.
    assert [(1, "a")] in read
    assert [] in forgot, [one if one == [] else str(one)[-200:] for one in forgot]
    gone = (
        *("TABLE_OR_VIEW_NOT_FOUND", "was changed while Spark started it; run it again"),
        "the tables change too fast to look them up",
    )
    assert not [one for one in read if one != [(1, "a")] and not any(why in one for why in gone)]
    kept = ("not a table made of files", "other statements still use or change what this one would change")
    assert not [one for one in forgot if one != [] and not any(why in one for why in kept)]
    for gateway in (files, other):
        assert ask(gateway, "thrift", "alice", text) == [(1, "a")]
    assert run_datasets(files, "list").stdout.count("testlake/stormed\n") == 1
    assert ask(other, "connect", "alice", forget) == []
    assert ("testlake", "stormed", False) not in spark.query("SHOW TABLES IN testlake")
    assert "testlake/stormed\n" not in run_datasets(other, "list").stdout


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_sessions_of_before_and_views_follow_what_becomes_of_the_files(
    files: RunningGateway, root: Path, endpoint: str
) -> None:
    name, file = f"later{endpoint}", root / f"later{endpoint}" / "a.csv"
    text, view = f"SELECT * FROM testlake.{name}", f"SELECT * FROM testviews.{name}"
    with session(files, endpoint, "bob") as bob, session(files, endpoint, "alice") as alice:
        write(file, "id,name\n1,a\n")
        with pytest.raises(Exception, match="ACCESS_DENIED"):
            bob(text)
        assert alice(text) == [(1, "a")]
        assert bob(text) == [(1, "a")], "bob's session is older than the table"
        assert alice(f"CREATE VIEW testviews.{name} AS SELECT * FROM spark_catalog.testlake.{name}") == []
        assert bob(view) == [(1, "a")]
        assert alice(f"ALTER TABLE testlake.{name} FORGET METADATA") == []
        write(file, "id,name\n2,b\n")
        # Whoever may make a table of the files does so by reading the view, and nobody else.
        with pytest.raises(Exception, match=r"ACCESS_DENIED|NOT_FOUND"):
            bob(view)
        assert alice(view) == bob(view) == bob(text) == [(2, "b")]
        # What has vanished is missed by sessions that have listed it, in Spark's words, as of any table.
        file.unlink()
        write(file.with_name("b.csv"), "id,name\n3,c\n")
        for ask_ in (alice, bob):
            try:
                read: Any = ask_(text)
            except Exception as error:  # noqa: BLE001 - PyHive's or PySpark's
                read = str(error)
            # A session that had still to look again sees what is there.
            assert read == [(3, "c")] or "FILE_NOT_EXIST" in read
        assert bob(f"REFRESH TABLE spark_catalog.testlake.{name}") == []
        assert bob(text) == bob(view) == [(3, "c")]
        assert alice(f"ALTER TABLE testlake.{name} REFRESH METADATA") == []
    assert ask(files, endpoint, "alice", text) == [(3, "c")]


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_wide_structures_are_looked_at_again(
    files: RunningGateway, spark: Spark, root: Path, endpoint: str
) -> None:
    name = f"wide_{endpoint}"
    fields = ", ".join(f"'f{n}', id" for n in range(40))
    insert = f"INSERT OVERWRITE DIRECTORY '{root}/{name}' USING json SELECT named_struct({fields}) AS s"
    spark.query(f"{insert} FROM range(2)")
    with session(files, endpoint, "alice") as alice:
        assert alice(f"SELECT sum(s.f39) FROM testlake.{name}") == [(1,)]
        spark.query(f"{insert} FROM range(4)")
        assert alice(ALTER.format(name, "REFRESH")) == []
        assert alice(f"SELECT sum(s.f39) FROM testlake.{name}") == [(6,)]


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_what_a_promotion_left_behind_is_put_right(files: RunningGateway, root: Path, endpoint: str) -> None:
    name, dsn = f"cut_{endpoint}", find_record(load_settings(files.config))[0]
    text = f"SELECT * FROM testlake.{name}"
    write(root / name / "a.csv", "id,name\n1,a\n")
    moved = "WITH gone AS (DELETE FROM sluice.dataset WHERE table_name = $1 RETURNING *) "
    begun = "source, path, database, table_name, url"
    begun = f"INSERT INTO sluice.dataset_begun ({begun}, begun_by) SELECT {begun}, promoted_by FROM gone"

    def in_postgresql(statement: str) -> None:
        async def run() -> None:
            connection = await asyncpg.connect(dsn)
            await connection.execute(statement, name)
            await connection.close()

        asyncio.run(run())

    with session(files, endpoint, "alice") as alice:
        assert alice(text) == [(1, "a")]
        in_postgresql(f"{moved}{begun}")
        assert f"testlake/{name}\n  promotion begun" in run_datasets(files, "list").stdout
        assert alice(f"REFRESH TABLE spark_catalog.testlake.{name}") == []  # what is known of it is forgotten
        assert alice(text) == [(1, "a")]
        assert f"testlake/{name}\n  spark_catalog.testlake.{name}" in run_datasets(files, "list").stdout
        in_postgresql(f"{moved}{begun}")
        assert "forgotten" in run_datasets(files, "forget", f"testlake/{name}").stdout
        assert alice(ALTER.format(name, "PROMOTE")) == []
        # Of one of which nothing is known, as of an older gateway's.
        in_postgresql(f"{moved} SELECT count(*) FROM gone")
        assert alice(ALTER.format(name, "PROMOTE")) == []
        assert f"testlake/{name}\n  spark_catalog.testlake.{name}" in run_datasets(files, "list").stdout
        assert alice(ALTER.format(name, "FORGET")) == []


def run_datasets(gateway: RunningGateway, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gateway", "datasets", "-c", str(gateway.config), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_what_was_forgotten_and_promoted_anew_is_read_as_it_is(
    files: RunningGateway, root: Path, endpoint: str
) -> None:
    """Spark's sessions keep columns, and lengths and names of files, from when they first read them."""
    name = f"anew_{endpoint}"
    file, text = root / name / "a.csv", f"SELECT * FROM testlake.{name}"
    with session(files, endpoint, "alice") as alice, session(files, endpoint, "bob") as bob:
        for columns, rows in (
            ("id,secret", [(1, "s1")]),
            ("secret,id", [("s2", 2), ("a longer one", 3)]),
            ("id,secret,more", [(4, "s4", 5)]),
        ):
            write(file, "".join(",".join(map(str, row)) + "\n" for row in (columns.split(","), *rows)))
            assert alice(text) == sorted(rows)
            assert bob(text) == sorted(rows)
            if endpoint == "thrift":
                assert alice(ALTER.format(name, "FORGET")) == []
            else:
                assert "forgotten" in run_datasets(files, "forget", f"testlake/{name}").stdout
            file.unlink()
            file = file.with_name(f"b{file.name}") if len(rows) > 1 else file


@contextlib.contextmanager
def linked(place: Path, to: Path) -> Iterator[None]:
    """Put a link at a place, and what was there before back in the end."""
    aside = place.with_name("aside")
    if was_there := place.exists():
        place.rename(aside)
    place.symlink_to(to)
    try:
        yield
    finally:
        place.unlink()
        if was_there:
            aside.rename(place)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_link_that_comes_later_is_not_followed(
    files: RunningGateway, root: Path, open_directory: Path, endpoint: str
) -> None:
    name, view = f"later_{endpoint}", f"testviews.later_{endpoint}"
    table, secret = root / "links" / name, open_directory / f"secret_{endpoint}"
    for directory, row in ((table / "day=1", "1,s1"), (secret / "day=9", "9,SECRET")):
        write(directory / "a.csv", f"id,secret\n{row}\n")
    text = f"SELECT id FROM testlake.links.{name}"
    with session(files, endpoint, "alice") as alice, session(files, endpoint, "bob") as bob:
        alice(f"CREATE VIEW {view} AS {text}")
        asked = [(alice, text), (bob, text), (bob, f"SELECT * FROM {view}")]
        asked += [(alice, f"SELECT count(*) FROM {view} WHERE id IN (SELECT id FROM testlake.links.{name})")]
        for place, to in (
            (table / "day=1" / "b.csv", secret / "day=9" / "a.csv"),
            (table / "day=1" / "a.csv", secret / "day=9" / "a.csv"),
            (table / "day=9", secret / "day=9"),
            (table / "day=1", secret / "day=9"),
            (table, secret),
            (table.parent, secret.parent / "elsewhere"),
            (table / "day=1" / "_hidden.csv", Path("/etc/passwd")),
        ):
            alice(f"CREATE OR REPLACE TEMPORARY VIEW kept AS {text}")
            for one, read in asked[:3]:
                assert one(read) == [(1,)], place
            (secret.parent / "elsewhere").mkdir(exist_ok=True)
            shutil.copytree(secret, secret.parent / "elsewhere" / name, dirs_exist_ok=True)
            with linked(place, to):
                for one, read in (*asked, (alice, "SELECT * FROM kept")):
                    with pytest.raises(
                        Exception,
                        match=r"it contains a link|VIEW_ENDED|select on table spark_catalog.default.kept",
                    ):
                        one(read)
        for one, read in asked[:3]:
            assert one(read) == [(1,)]
        alice(f"DROP VIEW {view}")
        with linked(table / "day=1" / "b.csv", Path("/etc/passwd")):
            assert alice(ALTER.format(f"links.{name}", "FORGET")) == []


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.in_turn(3, one_way=True)
def test_a_file_with_other_names_in_its_header_is_not_read_by_place(
    files: RunningGateway, root: Path, endpoint: str
) -> None:
    """Spark would show what stands under another name: a value that is masked, under one that is not."""
    name = f"headers_{endpoint}"
    text = f"SELECT id FROM testlake.{name}"
    write(root / name / "a.csv", "id,secret\n1,s1\n")
    with session(files, endpoint, "alice") as alice:
        assert alice(text) == [(1,)]
        assert alice(f"SELECT count(*), max(secret) FROM testlake.{name}") == [(1, "s1")]
        assert alice(f"SELECT count(*) FROM testlake.{name}") == [(1,)]
        assert alice(f"SELECT secret, id FROM testlake.{name} WHERE id > 0") == [("s1", 1)]
    write(root / name / "b.csv", "secret,id\nCANARY,2\n")
    with session(files, endpoint, "bob") as bob:
        for columns in ("id", "secret", "id, secret", "*"):
            with pytest.raises(Exception, match=r"CSV header|failed") as raised:
                bob(f"SELECT {columns} FROM testlake.{name}")
            assert "CANARY" not in str(raised.value)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_who_holds_a_frame_or_a_view_reads_what_was_promoted_anew(
    files: RunningGateway, root: Path, endpoint: str
) -> None:
    """Other columns, another format, other lengths and other partitions, at the word of another session."""
    from tests.e2e.one_pack import PASSWORD

    name, view = f"held_{endpoint}", f"testviews.held_{endpoint}"
    text = f"SELECT id, secret FROM testlake.{name}"
    first = ("a.csv", "id,secret\ni1,s1\n", [("i1", "s1")])
    with session(files, endpoint, "alice") as alice, files.session("bob", PASSWORD) as frames:
        write(root / name / first[0], first[1])
        alice(text)
        alice(f"CREATE VIEW {view} AS {text}")
        frame = frames.table(f"testlake.{name}").select("id", "secret")
        distinct = frame.dropDuplicates(["id"])
        frame.createOrReplaceTempView("held_frame")
        frames.sql(f"CREATE TEMPORARY VIEW held_text AS {text}")
        for file, content, rows in (
            first,
            ("a.csv", "secret,id,more\ns2,i2,x\na longer one,i3,y\n", [("i2", "s2"), ("i3", "a longer one")]),
            ("a.json", '{"id": "i4", "secret": "s4"}\n', [("i4", "s4")]),
            ("secret=s5/a.csv", "id,x\ni5,0\n", [("i5", "s5")]),
            ("secret=s6/a.csv", "x,id\n0,i6\n", [("i6", "s6")]),
        ):
            write(root / name / file, content)
            assert alice(text) == rows
            for one in (frame, distinct, *map(frames.table, ("held_frame", "held_text", view))):
                assert sorted(tuple(row) for row in one.collect()) == rows
            assert alice(f"SELECT * FROM {view}") == rows
            alice(ALTER.format(name, "FORGET"))
            shutil.rmtree(root / name)
        alice(f"DROP VIEW {view}")


@pytest.mark.in_turn(6)
def test_operators_look_again_and_forget(files: RunningGateway, root: Path, open_directory: Path) -> None:
    write(root / "kept" / "a.csv", "id,name\n1,a\n")
    assert ask(files, "thrift", "alice", "SELECT * FROM testlake.kept") == [(1, "a")]
    assert "is unchanged" in run_datasets(files, "refresh", "testlake/kept").stdout
    write(root / "kept" / "b.csv", "id,name\nx,b\n")
    drifted = run_datasets(files, "refresh", "testlake/kept")
    assert (drifted.returncode, "1 → 2 files" in drifted.stdout) == (1, True), drifted
    assert "~ id int → string" in drifted.stdout
    assert "forgotten" in run_datasets(files, "forget", "testlake/kept").stdout
    assert "testlake/kept" not in run_datasets(files, "list").stdout
