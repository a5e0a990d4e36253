"""Parameter markers are told with what stands round them, and a proof keeps their order."""

from __future__ import annotations

import pytest

from gateway.model.reading import NotParsed, Reading, Splice
from gateway.reader.pool import ReaderPool
from gateway.reader.splicing import apply_splices
from tests.reader.guarding import GUARD_NAME, GUARD_QUERY, guard_all
from tests.reader.test_reading import reading
from tests.readers import is_older, require

pytestmark = pytest.mark.asyncio(loop_scope="session")


def told(answer: Reading, text: str) -> list[str]:
    marks = {
        (True, True): "",
        (True, False): " touching",
        (False, True): " misplaced",
        (False, False): " both",
    }
    return [
        ("?" if one.span is None else one.span.of(text)) + marks[one.value, one.apart]
        for one in answer.parameters
    ]


@pytest.mark.parametrize(
    ("text", "markers"),
    [
        ("SELECT a FROM t WHERE b = :x AND c=?", [":x", "?"]),
        ("SELECT :x, ?, (:y), [:z] FROM t", None),
        ("SELECT a[:x], f(:y), -1 * :z, :v::INT FROM t", [":x", ":y", ":z", ":v"]),
        ("SELECT a FROM t LIMIT :n OFFSET ?", [":n", "?"]),
        ("SELECT * FROM range(:n)", [":n"]),
        ("VALUES (:x, ?)", [":x", "?"]),
        ("SELECT a LIKE :x FROM t WHERE b IN (:y, :z)", [":x", ":y", ":z"]),
        ("SELECT '😀', ?, '😀', :x", ["?", ":x"]),
        ("SELECT ':x', `:y`, a:b FROM t -- :z\n /* ? */", []),
        ("SELECT a -? FROM t", ["? touching"]),
        ("SELECT a-:x FROM t", [":x touching"]),
        ("SELECT a FROM t WHERE b LIKE?", ["? touching"]),
        ("SELECT a FROM t LIMIT?", ["? touching"]),
        ("SELECT :x.f FROM t", [":x touching"]),
        ("SELECT ?FROM t", ["? touching"]),
        ("SELECT ?--\n FROM t", ["?"]),
        ("SELECT a + /**/? FROM t", ["?"]),
        ("SELECT `a`+?/b, a/:x, :x-1, ?-- c\n FROM t", ["?", ":x", ":x", "?"]),
        ("SELECT :x[0], :y['a'], ?['b'].c FROM t", [":x", ":y", "?"]),
        ("SELECT a-?-b, :x-:y FROM t", ["? touching", ":x", ":y touching"]),
        # the text of SET is not parsed, and Spark writes nothing into it
        ("SET a = :x", []),
    ],
)
async def test_markers(reader: ReaderPool, text: str, markers: list[str] | None) -> None:
    if markers is None:
        assert isinstance(await reader.read(text), NotParsed)
        return
    if "::" in text or "a:b" in text:
        await require(reader, text, "4.1" if "a:b" in text else "4.0")
    assert told(await reading(reader, text), text) == markers


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'a' :x",
        "SELECT :x 'a'",
        "SELECT ? ?",
        "SELECT INTERVAL :n DAY",
        "SELECT a LIKE 'b' ESCAPE :x FROM t",
        "SELECT * FROM t TABLESAMPLE (:n PERCENT)",
        "SELECT * FROM t VERSION AS OF :v",
        "SELECT * FROM t WITH (k = :v)",
        "SELECT CAST(a AS DECIMAL(:p, 2)) FROM t",
        "SELECT b AS :x FROM t",
        "SELECT * FROM :t",
        "SELECT TRANSFORM(a) USING :cmd AS (b) FROM t",
        "SHOW TABLES LIKE :x",
        "USE :x",
        "INSERT INTO t PARTITION (d = :d) SELECT 1",
        "CREATE TABLE t (a INT) LOCATION :l",
        "CREATE TABLE t (a INT) TBLPROPERTIES (:k = 'v')",
        "CREATE VIEW v AS SELECT :x AS a",
        "CREATE TEMP VIEW v AS SELECT :x AS a",
        "CREATE TABLE t (a INT DEFAULT :x)",
        "COMMENT ON TABLE t IS :c",
        "LOAD DATA INPATH :x INTO TABLE t",
    ],
)
async def test_places_where_the_parser_takes_no_marker(reader: ReaderPool, text: str) -> None:
    """Spark would take the text with a literal there; the parser that has no literal refuses the marker."""
    assert isinstance(await reader.read(text), NotParsed)


async def test_a_parser_that_asserts_lives_on(reader: ReaderPool) -> None:
    before = reader.pids
    answer = await reader.read("SELECT * FROM t TABLESAMPLE (:n PERCENT)")
    assert isinstance(answer, NotParsed)
    assert answer.error_class == ("PARSE_SYNTAX_ERROR" if is_older(reader, "4.1") else "")
    assert reader.pids == before


async def test_what_the_parser_throws_that_is_no_error_of_spark_is_told_as_it_is(reader: ReaderPool) -> None:
    answer = await reader.read("SELECT 1 FROM a NATURAL SEMI JOIN b")
    assert isinstance(answer, NotParsed)
    assert answer.message == "requirement failed: Unsupported natural join type LeftSemi"
    assert (answer.error_class, answer.exceptions[0]) == ("", "java.lang.IllegalArgumentException")


async def guarded(reader: ReaderPool, text: str) -> tuple[str, list[Splice]]:
    splices = guard_all(text, await reading(reader, text))
    rewritten = apply_splices(text, splices)
    assert rewritten is not None
    return rewritten, splices


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM t WHERE b = :x AND c = :x AND d = :y",
        "SELECT a, ? FROM t WHERE b = ? LIMIT ?",
        "SELECT a FROM t WHERE b IN (SELECT c FROM u WHERE d = ?) AND e = ?",
        "WITH c AS (SELECT * FROM t WHERE a = ?) SELECT * FROM c, u WHERE b = ?",
        "INSERT INTO gov.db.g SELECT a, ? FROM t WHERE b = :x",
        "FROM t INSERT INTO gov.db.g SELECT ? INSERT INTO gov.db.g SELECT ?",
    ],
)
async def test_a_text_with_markers_is_proved(reader: ReaderPool, text: str) -> None:
    rewritten, splices = await guarded(reader, text)
    found = await reader.prove(text, rewritten, splices, [GUARD_NAME])
    assert found.holds, found.why


async def test_an_expression_with_markers_is_proved(reader: ReaderPool) -> None:
    text = "a = ? AND b IN (SELECT c FROM t WHERE d = ?) AND e = :x"
    answer = await reader.read_expression(text)
    assert isinstance(answer, Reading)
    splices = guard_all(text, answer)
    rewritten = apply_splices(text, splices)
    assert rewritten is not None
    assert (await reader.prove(text, rewritten, splices, [GUARD_NAME], expression=True)).holds


@pytest.mark.parametrize(
    "condition", ["a = ?", "a = :x", "a IN (SELECT b FROM gov.db.g WHERE c = ?)", "a = :x AND b = 1"]
)
async def test_a_guard_must_not_hold_markers(reader: ReaderPool, condition: str) -> None:
    """Arguments are the user's: they would choose what a filter compares with."""
    text = "SELECT a FROM t WHERE a = ? OR a = :x"
    query = f"{GUARD_QUERY} WHERE {condition}"
    (splice,) = guard_all(text, await reading(reader, text))
    wide = Splice(span=splice.span, text=f"({query}) AS `t`", kind="guard", query=query, alias="t")
    rewritten = apply_splices(text, [wide])
    assert rewritten is not None
    found = await reader.prove(text, rewritten, [wide], [GUARD_NAME])
    assert not found.holds
    assert "parameter markers" in found.why


async def test_a_name_is_not_another_name(reader: ReaderPool) -> None:
    assert not (await reader.prove("SELECT :x", "SELECT :y", [], [])).holds
    assert not (await reader.prove("SELECT :x", "SELECT :X", [], [])).holds
    assert not (await reader.prove("SELECT ?", "SELECT :x", [], [])).holds
