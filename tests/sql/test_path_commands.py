"""What statements want that name files by their path, and programs that TRANSFORM starts."""

from __future__ import annotations

import pytest

from gateway.model.reading import Reading
from gateway.model.statement import SessionContext
from gateway.reader.pool import ReaderPool
from gateway.sql.classify import classify
from gateway.sql.evaluate import function_privileges
from gateway.sql.file_scans import files_of, files_privileges
from gateway.sql.names import Names
from gateway.sql.required import Required, Unsupported
from gateway.sql.storage import is_note

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAMES = Names(SessionContext(namespace=("d",)), frozenset({"spark_catalog", "ice"}))


async def want(reader: ReaderPool, text: str, names: Names = NAMES) -> set[str] | str:
    """Return `access resource` of every privilege, or why the statement is refused."""
    reading = await reader.read(text)
    assert isinstance(reading, Reading), reading
    found = classify(reading, names, files=True)
    functions = function_privileges(reading.functions, names)
    assert not isinstance(functions, Unsupported)
    files = files_of(reading, names)
    if not isinstance(found, Required) or isinstance(files, Unsupported):
        refused = found if isinstance(found, Unsupported) else files
        assert isinstance(refused, Unsupported)
        return refused.why
    every = (*found.privileges, *functions, *files_privileges(files).privileges)
    return {f"{one.access} {one.resource}" for one in every}


TABLE = "spark_catalog.d.t"
MOVED = {f"alter {TABLE}", "read /x", "write /x"}
PROGRAM = {"create system.session.transform", "execute system.session.transform"}
LOADED = {f"insert {TABLE}", f"delete {TABLE}", "read file:/x"}
CASES: list[tuple[str, set[str]]] = [
    ("INSERT OVERWRITE DIRECTORY '/x' USING parquet SELECT 1", {"write /x"}),
    (
        "INSERT OVERWRITE DIRECTORY USING csv OPTIONS (path 's3a://b/x', header true) SELECT 1",
        {"write s3a://b/x"},
    ),
    ("INSERT OVERWRITE LOCAL DIRECTORY '/x' USING json SELECT 1", {"write file:/x"}),
    ("LOAD DATA INPATH '/x' INTO TABLE t", {f"insert {TABLE}", "read /x", "write /x"}),
    (
        "LOAD DATA LOCAL INPATH '/x' OVERWRITE INTO TABLE t",
        {f"insert {TABLE}", f"delete {TABLE}", "read file:/x"},
    ),
    ("ALTER TABLE t SET LOCATION '/x'", MOVED),
    ("ALTER TABLE t PARTITION (p = 1) SET LOCATION '/x'", MOVED),
    (
        "ALTER TABLE t ADD PARTITION (p = 1) LOCATION '/x' PARTITION (p = 2)",
        {f"alter {TABLE}", "read /x", "write /x"},
    ),
    ("ALTER DATABASE d SET LOCATION '/x'", {"alter spark_catalog.d", "read /x", "write /x"}),
    ("CREATE TEMPORARY VIEW v USING csv OPTIONS (PATH '/x', header true)", {"read /x"}),
    ("CREATE TEMPORARY TABLE v (a INT) USING parquet", set()),
    ("ADD FILE '/x'", {"read /x"}),
    ("ADD ARCHIVE '/x.zip'", {"read /x.zip"}),
    ("SELECT * FROM parquet.`/x` JOIN csv.`file:/y` USING (a)", {"read /x", "read file:/y"}),
    (
        "SELECT TRANSFORM(a) USING 'cat' FROM t",
        {"create system.session.transform", "execute system.session.transform"},
    ),
    (
        "SELECT system.builtin.reflect('a', 'b')",
        {"create system.session.reflect", "execute system.session.reflect"},
    ),
]


async def test_functions_of_a_client_s_own_text_alone(reader: ReaderPool) -> None:
    for text in ("SELECT reflect('a', 'b')", "SELECT input_file_name()"):
        reading = await reader.read(text)
        assert isinstance(reading, Reading)
        assert isinstance(classify(reading, NAMES), Unsupported)


@pytest.mark.parametrize(("text", "wanted"), CASES)
async def test_privileges(reader: ReaderPool, text: str, wanted: set[str]) -> None:
    assert await want(reader, text) == wanted


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT * FROM parquet.`/x/../y`", "`..`"),
        ("SELECT * FROM parquet.`/x/*`", "wildcards"),
        ("SELECT * FROM delta.`/x@v3`", "version"),
        ("SELECT * FROM parquet.`x/y`", "relative"),
        ("SELECT * FROM parquet.`s3a:x/y`", "relative"),
        ("SELECT * FROM parquet.` /x`", "relative"),
        ("SELECT * FROM delta.`/x` VERSION AS OF 1", "no version"),
        ("SELECT * FROM csv.`/x` WITH ('header' = 'true')", "no options"),
        ("INSERT OVERWRITE DIRECTORY '/x' STORED AS ORC SELECT 1", "USING"),
        ("INSERT OVERWRITE DIRECTORY '/x' USING jdbc SELECT 1", "USING"),
        ("INSERT OVERWRITE DIRECTORY '/x y' USING parquet SELECT 1", "`%`"),
        (
            "INSERT OVERWRITE DIRECTORY '/x' USING csv OPTIONS (extra '/y') SELECT 1",
            "option `extra`",
        ),
        ("LOAD DATA INPATH 'x' INTO TABLE t", "relative"),
        ("ALTER TABLE t SET LOCATION 'x'", "relative"),
        ("CREATE TEMPORARY VIEW v USING jdbc OPTIONS (url 'x')", "other systems"),
        ("CREATE TEMPORARY VIEW v USING csv OPTIONS (paths '[\"/x\"]')", "option `paths`"),
        ("CREATE GLOBAL TEMPORARY VIEW v USING csv OPTIONS (path '/x')", "has no text by which"),
        ("ALTER TABLE t SET SERDE 'x.Y'", "code"),
        ("CREATE TABLE t (a INT) USING parquet OPTIONS (path '/x', mine 'y', fs.s3a.endpoint 'z')", "fs.s3a"),
        ("CREATE TABLE t (a INT) USING parquet OPTIONS ('path_of' 'y')", "path_of"),
        ("CREATE TABLE t (a INT) USING csv OPTIONS (mine 'y')", "mine"),
        ("CREATE VIEW v TBLPROPERTIES ('view.schemaMode' = 'x') AS SELECT 1", "view.schemaMode"),
        ("ALTER DATABASE d SET DBPROPERTIES ('hive.x' = 'y')", "hive.x"),
        ("CREATE VIEW v AS SELECT TRANSFORM(a) USING 'cat' FROM t", "alone"),
        ("CREATE TEMPORARY VIEW v AS SELECT TRANSFORM(a) USING 'cat' FROM t", "alone"),
        ("CACHE TABLE v AS SELECT TRANSFORM(a) USING 'cat' FROM t", "alone"),
        ("SELECT xpath(a, 'b') FROM t", "DOCTYPE"),
        ("SELECT xpath('<!DOCTYPE a SYSTEM \"x\"><a/>', 'a')", "DOCTYPE"),
        ("CREATE TABLE t (a INT) USING parquet TBLPROPERTIES ('option.path' = '/x')", "option.path"),
        ("CREATE TABLE t (a INT) USING parquet TBLPROPERTIES ('path' = '/x')", "path"),
        ("CREATE TABLE t (a INT) TBLPROPERTIES ('mine' = 'x')", "mine"),
    ],
)
async def test_what_is_refused(reader: ReaderPool, text: str, says: str) -> None:
    why = await want(reader, text)
    assert isinstance(why, str), why
    assert says in why


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (a INT) USING parquet OPTIONS (a 1, password = 'x')",
        "CREATE TABLE t (a INT) USING ORC OPTIONS ('Mine' = 'x', compression 'snappy')",
        "CREATE VIEW v TBLPROPERTIES ('a' = '1', 'team.lead' = 'x') AS SELECT 1",
        "ALTER VIEW v SET TBLPROPERTIES ('yes' = 'no')",
        "ALTER VIEW v UNSET TBLPROPERTIES ('yes')",
        "ALTER DATABASE d SET DBPROPERTIES ('mine' = 'x', 'comment' = 'y')",
        "CREATE DATABASE d WITH DBPROPERTIES ('mine' = 'x')",
    ],
)
async def test_what_nobody_reads_is_ones_own(reader: ReaderPool, text: str) -> None:
    why = await want(reader, text)
    assert not isinstance(why, str), why


async def test_a_path_is_one_in_spark_s_own_catalog_alone(reader: ReaderPool) -> None:
    elsewhere = Names(SessionContext(catalog="ice", namespace=("d",)), frozenset({"spark_catalog", "ice"}))
    named = Names(SessionContext(namespace=("d",)), frozenset({"spark_catalog", "parquet"}))
    for names in (elsewhere, named):
        assert names.files(("parquet", "/x")) is None
        assert await want(reader, "SELECT * FROM parquet.`/x`", names) == set()
    for parts in [("parquet", "x"), ("jdbc", "/x"), ("spark_catalog", "parquet", "/x"), ("/x",)]:
        assert NAMES.files(parts) is None


@pytest.mark.parametrize(
    ("key", "provider", "note"),
    [
        ("mine", "parquet", True),
        ("Team.Lead", "ORC", True),
        ("retention.days", "delta", True),
        ("delta.nothing", "delta", False),
        ("option.path", "csv", False),
        ("fs.s3a.endpoint", "json", False),
        ("location", "parquet", False),
        ("EXTERNAL", "parquet", False),
        ("a b", "parquet", False),
        ("mine", "iceberg", False),
        ("mine", "paimon", False),
        ("mine", "hive", False),
        ("mine", None, False),
    ],
)
async def test_notes(key: str, provider: str | None, note: bool) -> None:
    assert is_note(key, provider) is note
