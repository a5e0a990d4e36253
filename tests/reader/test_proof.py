"""A proof holds for every form of a scan, and for nothing that was tampered with."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gateway.model.reading import Proof, Reading, Relation, RelationRole, Span, Splice
from gateway.reader.pool import ReaderPool
from gateway.reader.splicing import apply_splices
from tests.reader.guarding import GUARD_NAME, GUARD_QUERY, guard, guard_all, pin
from tests.reader.test_reading import cases, reading
from tests.readers import is_older, lacks, require

pytestmark = pytest.mark.asyncio(loop_scope="session")


def rewrite(text: str, splices: Sequence[Splice]) -> str:
    rewritten = apply_splices(text, splices)
    assert rewritten is not None
    return rewritten


def others(answer: Reading) -> set[tuple[str, ...]]:
    """Names that a splicer leaves as they are."""
    return {one.parts for one in answer.relations if one.role is RelationRole.TARGET}


async def proof(
    reader: ReaderPool,
    text: str,
    splices: Sequence[Splice],
    *,
    rewritten: str | None = None,
    allowed: set[tuple[str, ...]] | None = None,
) -> Proof:
    answer = await reading(reader, text)
    if rewritten is None:
        rewritten = rewrite(text, splices)
    return await reader.prove(text, rewritten, splices, (allowed or {GUARD_NAME}) | others(answer))


async def scans(reader: ReaderPool, text: str) -> dict[str, Relation]:
    answer = await reading(reader, text)
    return {one.parts[-1]: one for one in answer.relations if one.role is RelationRole.SCAN}


@pytest.mark.parametrize("case", cases("forms.yaml"), ids=lambda case: case["text"])
async def test_every_form_is_proved(reader: ReaderPool, case: dict[str, str]) -> None:
    text = case["text"]
    if await lacks(reader, text, case.get("since"), case.get("older")):
        return
    splices = guard_all(text, await reading(reader, text))
    assert await proof(reader, text, splices) == Proof(holds=True)


@pytest.mark.parametrize("case", cases("forms.yaml"), ids=lambda case: case["text"])
async def test_every_scan_can_be_pinned(reader: ReaderPool, case: dict[str, str]) -> None:
    text = case["text"]
    if await lacks(reader, text, case.get("since"), case.get("older")):
        return
    answer = await reading(reader, text)
    splices = [pin(one, "c", "d", *one.parts) for one in answer.relations if one.role is RelationRole.SCAN]
    allowed = {splice.parts for splice in splices} | others(answer)
    assert await reader.prove(text, rewrite(text, splices), splices, allowed) == Proof(holds=True)


@pytest.mark.parametrize("case", cases("forms.yaml"), ids=lambda case: case["text"])
async def test_a_scan_left_alone_is_not_allowed(reader: ReaderPool, case: dict[str, str]) -> None:
    text = case["text"]
    if await lacks(reader, text, case.get("since"), case.get("older")):
        return
    for left in guard_all(text, await reading(reader, text)):
        splices = [one for one in guard_all(text, await reading(reader, text)) if one != left]
        found = await proof(reader, text, splices)
        assert not found.holds
        assert "not judged" in found.why


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE t",
        "TRUNCATE TABLE t",
        "ALTER TABLE t ADD COLUMN x INT",
        "CREATE TABLE t (a INT)",
        "CREATE TABLE t AS SELECT 1",
        "CREATE VIEW t AS SELECT 1",
        "DESCRIBE TABLE t",
        "SHOW PARTITIONS t",
        "SHOW CREATE TABLE t",
        "REFRESH TABLE t",
        "CACHE TABLE t",
        "UNCACHE TABLE t",
        "ANALYZE TABLE t COMPUTE STATISTICS",
        "MSCK REPAIR TABLE t",
        "ALTER TABLE t RENAME TO u",
        "ALTER TABLE t SET LOCATION '/x'",
        "ALTER TABLE t DROP PARTITION (d = 1)",
        "ALTER TABLE t ALTER COLUMN a TYPE BIGINT",
        "ALTER TABLE t ADD CONSTRAINT c CHECK (a > 1)",
        "ALTER VIEW t AS SELECT 1",
        "ALTER VIEW t SET TBLPROPERTIES ('a' = 'b')",
        "COMMENT ON TABLE t IS 'x'",
        "SHOW TBLPROPERTIES t",
        "SHOW COLUMNS FROM t",
        "DESCRIBE t PARTITION (a = 1)",
        "CREATE OR REPLACE TABLE t AS SELECT 1",
        "LOAD DATA INPATH '/x' INTO TABLE t",
        "INSERT INTO t VALUES (1)",
        "EXPLAIN DROP TABLE t",
        "CREATE FUNCTION t AS 'x.Y'",
        "DROP FUNCTION t",
        "INSERT INTO t SELECT 1",
        "DELETE FROM t x WHERE x.a = 1",
        "UPDATE t SET a = 1",
        "MERGE INTO t USING (SELECT 1 a) s ON t.a = s.a WHEN MATCHED THEN DELETE",
        "WITH t AS (SELECT 1) INSERT INTO t SELECT * FROM t",
    ],
)
async def test_targets_can_be_pinned(reader: ReaderPool, text: str) -> None:
    if text == "DROP FUNCTION t" and await lacks(reader, text, "4.2", "UnresolvedFunctionName"):
        return
    if "ADD CONSTRAINT" in text:
        await require(reader, text, "4.1")
    (target,) = [one for one in (await reading(reader, text)).relations if one.role is RelationRole.TARGET]
    splice = pin(target, "c", "d", "t")
    assert await reader.prove(text, rewrite(text, [splice]), [splice], {("c", "d", "t")}) == Proof(holds=True)
    assert not (await reader.prove(text, rewrite(text, [splice]), [splice], {("t",)})).holds


@pytest.mark.parametrize(
    "text",
    [
        "USE db",
        "SHOW TABLES IN db",
        "DESCRIBE DATABASE db",
        "DROP DATABASE db",
        "CREATE DATABASE db LOCATION '/x'",
        "ALTER DATABASE db SET LOCATION '/x'",
        "CALL db()",
        "DESCRIBE FUNCTION db",
    ],
)
async def test_namespaces_can_be_pinned(reader: ReaderPool, text: str) -> None:
    if text.startswith("CALL"):
        await require(reader, text, "4.0")
    at = text.index("db")
    splice = Splice(span=Span(at, at + 2), text="c.db", kind="pin", parts=("c", "db"))
    assert await reader.prove(text, rewrite(text, [splice]), [splice], ()) == Proof(holds=True)


async def test_columns_and_stars_follow_their_relation(reader: ReaderPool) -> None:
    text = "SELECT db.t.a, `db`.`t`.*, max(db.t.b) FROM db.t WHERE db . t.c BETWEEN 1 AND 2 GROUP BY ALL"
    answer = await reading(reader, text)
    splices = guard_all(text, answer)
    for column in answer.columns:
        if column.parts[:2] == ("db", "t"):
            assert column.span is not None
            parts = column.parts[1:]
            star = ".*" if column.star else ""
            splices.append(Splice(span=column.span, text=".".join(parts) + star, kind="column", parts=parts))
    assert len(splices) == 5
    assert await proof(reader, text, splices) == Proof(holds=True)


async def test_one_source_of_several_inserts_is_spliced_once(reader: ReaderPool) -> None:
    text = "FROM a INSERT INTO b SELECT x INSERT INTO c SELECT y"
    splices = guard_all(text, await reading(reader, text))
    assert len(splices) == 1
    assert (await proof(reader, text, splices)).holds


async def test_a_guard_with_filter_mask_and_cte_of_the_user(reader: ReaderPool) -> None:
    text = "WITH g AS (SELECT 1) SELECT x.a FROM t x JOIN g ON x.a = g.a WHERE x.b = 'it''s'"
    query = "SELECT a, CAST(NULL AS STRING) AS b FROM gov.db.g WHERE (region = 'AMER' AND n IN (1, 2))"
    splices = [guard(text, one, query) for one in (await scans(reader, text)).values()]
    assert await proof(reader, text, splices) == Proof(holds=True)


TAMPERED = [
    ("an extra relation", "SELECT a FROM t", "(SELECT * FROM gov.db.g) AS `t`, secret", "not judged"),
    (
        "an extra judged relation",
        "SELECT a FROM t",
        "(SELECT * FROM gov.db.g) AS `t`, gov.db.g",
        "another plan",
    ),
    ("another alias", "SELECT a FROM t", "(SELECT * FROM gov.db.g) AS `u`", "another plan"),
    ("no alias", "SELECT a FROM t", "(SELECT * FROM gov.db.g)", "another plan"),
    ("a dropped filter", "SELECT a FROM t", "(SELECT * FROM gov.db.g) AS `t` --", None),
    ("a comment that swallows", "SELECT a FROM t WHERE b = 1", "(SELECT * FROM gov.db.g) AS `t` /*", "parse"),
    ("another query", "SELECT a FROM t", "(SELECT a FROM gov.db.g) AS `t`", "another plan"),
    ("the plain name", "SELECT a FROM t", "t", "not judged"),
    ("text that is not SQL", "SELECT a FROM t", "((", "parse"),
]


@pytest.mark.parametrize(("text", "written", "why"), [c[1:] for c in TAMPERED], ids=[c[0] for c in TAMPERED])
async def test_a_tampered_splice(reader: ReaderPool, text: str, written: str, why: str | None) -> None:
    scan = (await scans(reader, text))["t"]
    assert scan.whole is not None
    splice = Splice(span=scan.whole, text=written, kind="guard", query=GUARD_QUERY, alias="t")
    found = await proof(reader, text, [splice])
    if why is None:  # nothing follows that the comment could swallow: it is the same statement
        assert found.holds
    else:
        assert not found.holds
        assert why in found.why


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("SELECT a FROM t WHERE b = 1", "b = 1", "b = 2"),
        ("SELECT a FROM t WHERE b = 'x'", "'x'", "'X'"),
        ("SELECT a FROM t WHERE b = 1", " WHERE b = 1", ""),
        ("SELECT a FROM t", "SELECT a", "SELECT a, b"),
        ("SELECT a FROM t LIMIT 1", "LIMIT 1", "LIMIT 2"),
        ("SELECT a FROM t", "SELECT", "SELECT DISTINCT"),
    ],
)
async def test_text_changed_outside_the_splices(reader: ReaderPool, text: str, old: str, new: str) -> None:
    splices = guard_all(text, await reading(reader, text))
    changed = rewrite(text, splices).replace(old, new)
    found = await proof(reader, text, splices, rewritten=changed)
    assert found == Proof(
        holds=False, why="the rewritten statement does not equal the original with its splices"
    )


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("SELECT a FROM t WHERE b = X'00FF'", "X'00FF'", "X'00FE'"),
        ("SELECT a FROM t WHERE b = 1.5D", "1.5D", "1.5"),
        ("SELECT a FROM t WHERE b = 0.0D", "0.0D", "-0.0D"),
        ("SELECT a FROM t WHERE b = 1", "b = 1", "b = 1L"),
        ("SELECT a FROM t WHERE b = INTERVAL 1 DAY", "1 DAY", "24 HOURS"),
        ("SELECT CAST(a AS STRING) FROM t", "STRING", "STRING COLLATE UTF8_LCASE"),
        ("SELECT CAST(a AS CHAR(3)) FROM t", "CHAR(3)", "VARCHAR(3)"),
        ("SELECT /*+ BROADCAST(x) */ a FROM t x", "BROADCAST(x)", "MERGE(x)"),
        ("SELECT a FROM t TABLESAMPLE (10 PERCENT) REPEATABLE (1)", "(1)", "(2)"),
        ("SELECT a FROM t ORDER BY a", "BY a", "BY a DESC"),
        ("SELECT a FROM t ORDER BY a", "BY a", "BY a NULLS LAST"),
        ("SELECT a AS b FROM t", "AS b", "AS B"),
        ("SELECT sum(a) FROM t", "sum(a)", "sum(DISTINCT a)"),
        ("SELECT first(a) FROM t", "first(a)", "first(a) IGNORE NULLS"),
        ("SELECT sum(a) OVER (ORDER BY b ROWS 1 PRECEDING) FROM t", "ROWS", "RANGE"),
        ("SELECT a FROM t UNION ALL SELECT 1", "UNION ALL", "UNION"),
        ("SELECT a FROM t GROUP BY ROLLUP (a)", "ROLLUP", "CUBE"),
        ("SELECT a FROM t x LEFT JOIN (SELECT 1) y ON true", "LEFT", "FULL"),
        ("INSERT INTO ok SELECT a FROM t", "INTO", "OVERWRITE"),
        ("INSERT INTO ok (a, b) SELECT a, b FROM t", "ok (a, b)", "ok (b, a)"),
        ("CREATE TABLE ok USING parquet LOCATION '/x' AS SELECT a FROM t", "'/x'", "'/y'"),
        ("CREATE TABLE ok USING parquet OPTIONS (k 'v') AS SELECT a FROM t", "'v'", "'w'"),
        ("CREATE TEMP VIEW ok AS SELECT a FROM t", "TEMP VIEW", "OR REPLACE TEMP VIEW"),
        ("EXPLAIN SELECT a FROM t", "EXPLAIN", "EXPLAIN EXTENDED"),
    ],
)
async def test_a_splice_that_reaches_further_than_its_scan(
    reader: ReaderPool, text: str, old: str, new: str
) -> None:
    """The plans are compared in every detail: a splice that also says something else does not hold.

    The client's check of the text is passed by a `column` splice over an unrelated column, so that the
    plan comparison alone has to notice.
    """
    if "COLLATE" in new and is_older(reader, "4.0"):
        return  # it has none
    splices = guard_all(text, await reading(reader, text))
    (splice,) = splices
    assert (await proof(reader, text, [splice])).holds
    other = text.replace(old, new)
    scan = (await scans(reader, other))["t"]
    moved = guard(other, scan)
    rewritten = rewrite(other, [moved])
    whole = Splice(
        span=Span(0, len(text)), text=rewritten, kind="guard", query=splice.query, alias=splice.alias
    )
    found = await proof(reader, text, [whole])
    assert not found.holds


async def test_a_cte_cannot_capture_a_guard(reader: ReaderPool) -> None:
    text = "WITH g AS (SELECT 1 a) SELECT a FROM t"
    splices = [guard(text, one, "SELECT * FROM g") for one in (await scans(reader, text)).values()]
    # Alone, `g` is a table; in the rewritten text the user's CTE captures it, and no plan node shows that.
    found = await proof(reader, text, splices, allowed={("g",)})
    assert not found.holds


async def test_a_pin_into_a_cte_is_not_proved(reader: ReaderPool) -> None:
    text = "WITH g AS (SELECT 1 a) SELECT a FROM db.g"
    (scan,) = (await scans(reader, text)).values()
    splice = pin(scan, "g")
    assert not (await proof(reader, text, [splice], allowed={("g",)})).holds


async def test_a_cte_reference_cannot_be_guarded_or_a_target_read(reader: ReaderPool) -> None:
    text = "WITH c AS (SELECT 1) SELECT * FROM c"
    splice = Splice(
        span=Span(35, 36), text=f"({GUARD_QUERY}) AS `c`", kind="guard", query=GUARD_QUERY, alias="c"
    )
    found = await proof(reader, text, [splice])
    assert not found.holds
    assert "nothing in the original" in found.why


@pytest.mark.parametrize(
    ("suffix", "lost"),
    [
        ("VERSION AS OF 1", ""),
        ("VERSION AS OF 1", "VERSION AS OF 2"),
        ("TIMESTAMP AS OF '2020-01-01'", "TIMESTAMP AS OF '2021-01-01'"),
        ("WITH (a = 1)", ""),
        ("WITH (a = 1)", "WITH (a = 2)"),
        ("VERSION AS OF 1 WITH (a = 1)", "VERSION AS OF 1"),
        ("@v1", "@v2"),
    ],
)
async def test_a_lost_or_changed_clause(reader: ReaderPool, suffix: str, lost: str) -> None:
    text = f"SELECT * FROM t {suffix} AS x"
    if await lacks(reader, text, "4.3" if "@" in suffix else "4.0" if "WITH" in suffix else None):
        return
    (scan,) = (await scans(reader, text)).values()
    assert scan.whole is not None
    query = f"{GUARD_QUERY} {lost}"
    splice = Splice(span=scan.whole, text=f"({query})", kind="guard", query=query)
    found = await proof(reader, text, [splice])
    assert not found.holds
    assert "guarded relation" in found.why


async def test_a_clause_on_another_table_of_the_guard_does_not_count(reader: ReaderPool) -> None:
    text = "SELECT * FROM t VERSION AS OF 1 AS x"
    (scan,) = (await scans(reader, text)).values()
    assert scan.whole is not None
    query = f"{GUARD_QUERY} WHERE a IN (SELECT a FROM gov.db.g VERSION AS OF 1)"
    splice = Splice(span=scan.whole, text=f"({query})", kind="guard", query=query)
    assert not (await proof(reader, text, [splice])).holds


@pytest.mark.parametrize(
    "spans", [[(14, 15), (14, 15)], [(14, 15), (13, 16)], [(14, 14)], [(40, 41)], [(15, 14)], [(-1, 15)]]
)
async def test_spans_that_overlap_or_lie_outside(reader: ReaderPool, spans: list[tuple[int, int]]) -> None:
    text = "SELECT * FROM t, u"
    splices = [
        Splice(span=Span(*span), text="(x)", kind="guard", query=GUARD_QUERY, alias="t") for span in spans
    ]
    assert not (await proof(reader, text, splices, rewritten=text)).holds


async def test_a_splice_inside_a_moved_clause_is_refused(reader: ReaderPool) -> None:
    text = "SELECT * FROM t TIMESTAMP AS OF (SELECT max(d) FROM u) x"
    splices = guard_all(text, await reading(reader, text))
    assert apply_splices(text, splices) is None
    alone = [one for one in splices if one.span.start == 14]
    found = await proof(reader, text, alone)
    assert not found.holds
    assert "`u`" in found.why


@pytest.mark.parametrize(
    ("splice", "why"),
    [
        (Splice(span=Span(14, 15), text="gov.db.g", kind="graft"), "kind"),
        (Splice(span=Span(14, 15), text="gov.db.g", kind="pin"), "name parts"),
        (Splice(span=Span(14, 15), text=f"({GUARD_QUERY})", kind="guard", query=GUARD_QUERY), "alias"),
        (Splice(span=Span(7, 8), text="gov.db.g.*", kind="pin", parts=GUARD_NAME), "not judged"),
        (Splice(span=Span(14, 15), text="gov.db.g", kind="column", parts=GUARD_NAME), "nothing"),
        (
            Splice(span=Span(14, 15), text="(DROP TABLE gov.db.g) AS t", kind="guard",
                   query="DROP TABLE gov.db.g", alias="t"),
            "parse",
        ),
    ],
)  # fmt: skip
async def test_splices_that_make_no_sense(reader: ReaderPool, splice: Splice, why: str) -> None:
    found = await proof(reader, "SELECT * FROM t", [splice])
    assert not found.holds
    assert why in found.why


async def test_a_statement_without_splices_is_proved_only_when_its_names_are_judged(
    reader: ReaderPool,
) -> None:
    assert (await reader.prove("SELECT 1", "SELECT 1", [], [])).holds
    assert not (await reader.prove("SELECT * FROM t", "SELECT * FROM t", [], [])).holds
    assert (await reader.prove("SELECT * FROM t", "SELECT * FROM t", [], [("t",)])).holds
    assert not (await reader.prove("SELECT * FROM T", "SELECT * FROM T", [], [("t",)])).holds


async def test_names_in_identifier_functions_are_judged_too(reader: ReaderPool) -> None:
    text = "SELECT * FROM IDENTIFIER('secret')"
    why = (await reader.prove(text, text, [], [])).why
    # Before 4.2 what the clause makes is not in the plan: it has a function that makes it.
    assert ("?Function" if is_older(reader, "4.2") else "`secret`") in why


@pytest.mark.parametrize(
    "text", ["SELECT '${x}' FROM t", "SELECT '\0'", "SELECT '\ud800'", "SELECT " + "(" * 5000]
)
async def test_texts_that_may_not_be_parsed_are_not_proved(reader: ReaderPool, text: str) -> None:
    assert not (await reader.prove(text, text, [], [("t",)])).holds
    assert not (await reader.prove("SELECT 1", text, [], [("t",)])).holds


async def test_an_original_that_does_not_parse(reader: ReaderPool) -> None:
    found = await reader.prove("SELEC 1", "SELEC 1", [], [])
    assert not found.holds
    assert "PARSE_SYNTAX_ERROR" in found.why


async def test_a_guard_with_the_text_of_the_statement(reader: ReaderPool) -> None:
    """The parser process keeps parsed texts; a guard must not share nodes with what it stands in."""
    text = GUARD_QUERY
    (scan,) = (await scans(reader, text)).values()
    for _ in range(2):
        assert await proof(reader, text, [guard(text, scan)]) == Proof(holds=True)


async def test_a_proof_can_be_repeated(reader: ReaderPool) -> None:
    """Parsed texts are kept between requests, so comparing them must not change them."""
    text = "SELECT CAST(a AS INT), CAST(b AS STRING), sum(c) FROM t"
    splices = guard_all(text, await reading(reader, text))
    for _ in range(3):
        assert await proof(reader, text, splices) == Proof(holds=True)
    changed = text.replace("CAST(a AS INT)", "INT(a)")
    assert not (await reader.prove(text, changed, [], [("t",)])).holds


GIVEN = "Sluice.definer.x = 'ann'"


@pytest.mark.parametrize(
    ("text", "written", "holds"),
    [
        ("CREATE VIEW v AS SELECT 1", "TBLPROPERTIES ('k' = 'x') AS", True),
        ("CREATE VIEW v TBLPROPERTIES ('a' = 'b') AS SELECT 1", "('k' = 'x', 'a' = 'b')", True),
        ("CREATE VIEW v TBLPROPERTIES ('a' = 'b') AS SELECT 1", "('k' = 'x')", False),
        (f"CREATE VIEW v TBLPROPERTIES ({GIVEN}, 'a' = 'b') AS SELECT 1", "('k' = 'x', 'a' = 'b')", True),
        (f"CREATE VIEW v TBLPROPERTIES ({GIVEN}) AS SELECT 1", f"('k' = 'x', {GIVEN})", False),
        ("CREATE VIEW v TBLPROPERTIES ('a' = 'b') AS SELECT 1", f"('k' = 'x', 'a' = 'b', {GIVEN})", False),
        ("CREATE VIEW v AS SELECT 1", "TBLPROPERTIES ('k' = 'y') AS", False),
        ("CREATE VIEW v AS SELECT 1", "TBLPROPERTIES ('k' = 'x', 'l' = 'y') AS", False),
        ("CREATE VIEW v AS SELECT 1", "/* TBLPROPERTIES ('k' = 'x') */ AS", False),
        ("CREATE VIEW v AS SELECT 1", "TBLPROPERTIES ('k' = 'x') AS SELECT 2 UNION", False),
        ("CREATE VIEW v TBLPROPERTIES ('k' = 'b') AS SELECT 1", "('k' = 'x', 'k' = 'b')", False),
        ("CREATE TEMPORARY VIEW v AS SELECT 1", "TBLPROPERTIES ('k' = 'x') AS", False),
    ],
)
async def test_a_view_gets_the_one_property_that_is_told(
    reader: ReaderPool, text: str, written: str, holds: bool
) -> None:
    found = (await reading(reader, text)).view_text
    assert found is not None
    assert found.query.of(text) == "SELECT 1"
    assert found.place is not None
    splice = Splice(span=found.place, text=written, kind="property", parts=("k", "x"))
    assert (await proof(reader, text, [splice])).holds is holds
