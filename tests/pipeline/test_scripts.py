"""Scripts: each statement in one is judged, and what nobody can know before it runs is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  as everybody calls them

from gateway.model.reading import ScriptReading, Span
from gateway.model.statement import Cleared, Refused, SetVariables
from gateway.reader.pool import ReaderPool
from tests.judge_world import World
from tests.pipeline.test_own_names import DATA, Lab
from tests.pipeline.test_plans import execute, sql_command
from tests.plan.frames import sql
from tests.readers import is_older

pytestmark = pytest.mark.asyncio(loop_scope="session")

WORLD = World(
    {
        **DATA,
        "tables": {**DATA["tables"], "spark_catalog.lab.sink": {"id": "int"}},
        "pack": DATA["pack"]
        + """
  - name: staff make tables
    on: {catalog: spark_catalog, database: lab, table: [made, sink], column: "*"}
    allow: [{groups: [staff], access: [all]}]
  - name: staff use databases
    on: {catalog: spark_catalog, database: "*"}
    allow: [{groups: [staff], access: [use]}]
""",
    }
)
FILTER = "region = 'EMEA'"


@pytest.fixture
def lab(reader: ReaderPool) -> Lab:
    if is_older(reader, "4.1"):
        pytest.skip("scripts came with Spark 4.1")
    return Lab(WORLD, reader)


def script(body: str) -> str:
    return f"BEGIN\n{body}\nEND"


@pytest.mark.parametrize(
    "body",
    [
        "SELECT 1;",
        "DECLARE x INT DEFAULT 1; SET x = x + 1; SET X = 2; SELECT x;",
        "DECLARE x, y INT; SET (x, y) = (SELECT 1, 2);",
        "a: BEGIN DECLARE x INT; SELECT a.x; END a;",
        "IF 1 > 0 THEN SELECT 1; ELSEIF false THEN SELECT 2; ELSE SELECT 3; END IF;",
        "CASE WHEN true THEN SELECT 1; END CASE; CASE 1 + 1 WHEN 2 THEN SELECT 1; ELSE SELECT 2; END CASE;",
        "l: LOOP LEAVE l; ITERATE l; END LOOP l;",
        "WHILE false DO SELECT 1; END WHILE; REPEAT SELECT 1; UNTIL true END REPEAT;",
        "FOR r AS SELECT 1 AS c DO SELECT r.c; END FOR; FOR SELECT 2 DO SELECT 3; END FOR;",
        "DECLARE c CONDITION FOR SQLSTATE '12345'; DECLARE EXIT HANDLER FOR c SELECT 'ü'; SELECT 1;",
        "DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SELECT 1; SELECT 1 / 0;",
        "DECLARE x INT; DECLARE c CURSOR FOR SELECT 1; OPEN c; FETCH c INTO x; CLOSE c;",
        "SELECT id FROM spark_catalog.lab.free;",
    ],
)
async def test_what_reads_nothing_guarded_passes_as_it_is(lab: Lab, body: str) -> None:
    text = script(body)
    if "CURSOR" in body and is_older(lab.reader, "4.2"):
        pytest.skip("cursors came with Spark 4.2")
    found = await lab.cleared(text)
    assert found.forwarded == text
    assert (found.plan_class, found.read_only, found.names_until_end) == ("CompoundBody", False, True)
    assert found.effects == ()


@pytest.mark.parametrize(
    "body",
    [
        "SELECT id FROM {t};",
        "SET s = (SELECT max(id) FROM {t});",
        "DECLARE x INT; SET x = (SELECT max(id) FROM {t}); SELECT x;",
        "IF EXISTS (SELECT 1 FROM {t}) THEN SELECT 1; END IF;",
        "IF false THEN SELECT 1; ELSEIF (SELECT count(*) FROM {t}) > 1 THEN SELECT 2; END IF;",
        "IF false THEN SELECT 1; ELSE SELECT id FROM {t}; END IF;",
        "CASE (SELECT max(id) FROM {t}) WHEN 1 THEN SELECT 1; END CASE;",
        "CASE 1 WHEN (SELECT max(id) FROM {t}) THEN SELECT 1; END CASE;",
        "CASE WHEN (SELECT max(id) FROM {t}) = 1 THEN SELECT 1; END CASE;",
        "WHILE (SELECT count(*) FROM {t}) > 1 DO SELECT 1; END WHILE;",
        "REPEAT SELECT 1; UNTIL (SELECT count(*) FROM {t}) > 1 END REPEAT;",
        "LOOP SELECT id FROM {t}; END LOOP;",
        "FOR r AS SELECT id FROM {t} DO SELECT r.id; END FOR;",
        "FOR r AS SELECT 1 AS c DO SELECT id FROM {t}; END FOR;",
        "DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT id FROM {t}; SELECT 1;",
        "DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN SELECT id FROM {t}; END; SELECT 1;",
        "BEGIN BEGIN SELECT id FROM {t}; END; END;",
        "EXECUTE IMMEDIATE 'SELECT id FROM {t} -- all';",
        "DECLARE q STRING DEFAULT 'SELECT id FROM {t}'; EXECUTE IMMEDIATE q;",
        "EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE \\'SELECT id FROM {t}\\'';",
        "DECLARE q STRING DEFAULT '{t}'; SELECT id FROM IDENTIFIER(q);",
        "SELECT id FROM IDENTIFIER('{t}');",
        "INSERT INTO sink SELECT id FROM {t};",
        "INSERT INTO IDENTIFIER('si' || 'nk') SELECT id FROM {t};",
        "DECLARE x INT; DECLARE c CURSOR FOR SELECT id FROM {t}; OPEN c; FETCH c INTO x;",
        "DECLARE c CURSOR FOR SELECT 1 WHERE ? > 0; OPEN c USING (SELECT max(id) FROM {t});",
        "DECLARE c CURSOR FOR SELECT id FROM {t} WHERE id > ?; OPEN c USING 1;",
    ],
)
async def test_a_statement_is_judged_wherever_it_stands(lab: Lab, body: str) -> None:
    if "CURSOR" in body and is_older(lab.reader, "4.2"):
        pytest.skip("cursors came with Spark 4.2")
    context = {"variables": frozenset("s")}
    found = await lab.cleared(script(body.format(t="filtered")), **context)
    assert FILTER in found.forwarded
    assert "filtered" in {scan.table.table for scan in found.scans}
    assert not found.shows_errors
    refused = await lab.refused(script(body.format(t="closed")), **context)
    assert refused.code == "ACCESS_DENIED"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("USE other;", "names behind it"),
        ("CREATE TEMPORARY VIEW v AS SELECT 1;", "names behind it"),
        ("DROP VIEW tv;", "names behind it"),
        ("SET spark.sql.ansi.enabled = false;", ""),
        ("DROP TEMPORARY VARIABLE s;", "names behind it"),
        ("CREATE TEMPORARY FUNCTION own(x INT) RETURNS INT RETURN x;", "names behind it"),
        ("SHOW TABLES;", "its answer is filtered"),
        ("DESCRIBE TABLE free;", "its answer is filtered"),
        ("EXPLAIN SELECT 1;", "send it by itself"),
        ("DECLARE q STRING; SET q = 'SELECT 1'; EXECUTE IMMEDIATE q;", "not known before it runs"),
        ("DECLARE q STRING DEFAULT upper('SELECT 1'); EXECUTE IMMEDIATE q;", "not known before it runs"),
        ("FOR r AS SELECT 'SELECT 1' AS q DO EXECUTE IMMEDIATE q; END FOR;", "not known before it runs"),
        (
            "DECLARE q STRING; BEGIN DECLARE q STRING DEFAULT 'SELECT 1'; EXECUTE IMMEDIATE q; END;",
            "not known",
        ),
        ("DECLARE n STRING DEFAULT 'free'; SET n = 'closed'; SELECT * FROM IDENTIFIER(n);", "IDENTIFIER"),
        ("EXECUTE IMMEDIATE 'BEGIN SELECT 1; END';", ""),
        ("DECLARE id INT; EXECUTE IMMEDIATE 'SELECT id';", "a variable of the script"),
        ("SELECT ?;", ""),
        ("SELECT id FROM free TABLESAMPLE (10M);", "line 2"),
        # What a script makes is not known before it runs.
        ("CREATE TABLE made (id INT); SELECT * FROM made;", "line 2"),
        ("CREATE TABLE made (id INT); INSERT INTO made VALUES (1);", "line 2"),
        ("CREATE TABLE made (id INT); DROP TABLE made;", "line 2"),
        ("SELECT 1 FROM made2; CREATE OR REPLACE VIEW made AS SELECT 1;", ""),
        ("WHILE true DO CREATE TABLE made (id INT); END WHILE;", "in a loop or handler"),
        ("DECLARE EXIT HANDLER FOR SQLEXCEPTION CREATE TABLE made (id INT); SELECT 1;", "in a loop"),
    ],
)
async def test_what_is_not_known_before_it_runs_is_refused_with_its_line(
    lab: Lab, body: str, why: str
) -> None:
    said = await lab.refused(script(body), variables=frozenset("s"), temp_views=frozenset({"tv"}))
    assert why in said.message, said.message
    assert said.code in ("NOT_GOVERNABLE", "SPARK", "ACCESS_DENIED")


async def test_a_view_replaced_in_a_script_is_read_nowhere_in_it(lab: Lab) -> None:
    """As it was judged it would show `free`, and as it runs what the maker reads with a filter."""
    data = {**DATA, "pack": WORLD_PACK_ALL}
    world = World(data)
    owner = Lab(world, lab.reader)
    said = await owner.refused(
        script("CREATE OR REPLACE VIEW over_free AS SELECT id FROM filtered;\nSELECT * FROM over_free;")
    )
    assert "the statement in line 2 of the script makes, changes or drops" in said.message
    assert "line 3" in said.message
    alone = await owner.cleared(script("CREATE OR REPLACE VIEW over_free AS SELECT id FROM free;"))
    assert "sluice.definer." in alone.forwarded
    dropped = await owner.refused(script("SELECT id FROM free;\nDROP DATABASE lab CASCADE;"))
    assert "drops" in dropped.message or dropped.code == "ACCESS_DENIED"


WORLD_PACK_ALL = (
    DATA["pack"]
    + """
  - name: staff own the lab
    on:
      - {catalog: spark_catalog, database: lab, table: "*", column: "*"}
      - {catalog: spark_catalog, database: lab}
    allow: [{groups: [staff], access: [all]}]
"""
)


@pytest.mark.parametrize(
    "body",
    [
        "DECLARE region STRING DEFAULT 'EMEA'; {}",
        "FOR r AS SELECT 'EMEA' AS region DO {} END FOR;",
        "FOR r AS SELECT * FROM free DO {} END FOR;",
        "BEGIN DECLARE Region STRING; END; {}",
    ],
)
async def test_no_word_of_a_policy_is_a_variable_of_the_script(lab: Lab, body: str) -> None:
    said = await lab.refused(script(body.format("SELECT id FROM filtered;")))
    assert "region" in said.message
    await lab.cleared(script(body.format("SELECT id FROM free;")))


async def test_columns_of_a_loop_that_nobody_knows_close_what_has_policies(lab: Lab) -> None:
    body = "FOR r AS SELECT * FROM tv DO {} END FOR;"
    views = frozenset({"tv"})
    assert (await lab.refused(script(body.format("SELECT id FROM filtered;")), temp_views=views)).code
    await lab.cleared(script(body.format("SELECT id FROM free;")), temp_views=views)


@pytest.mark.parametrize("given", ["?' USING s", ":p' USING concat(s, '') AS p"])
async def test_arguments_are_the_scripts_variables_before_the_sessions(lab: Lab, given: str) -> None:
    body = script(f"DECLARE s STRING DEFAULT 'local'; EXECUTE IMMEDIATE 'SELECT {given};")
    said = await lab.refused(body, variables=frozenset({"s"}))
    assert "a variable of the script" in said.message


async def test_session_variables_that_a_script_sets_are_noted(lab: Lab) -> None:
    context = {"variables": frozenset({"s", "t"}), "known_values": frozenset({("s", "SELECT 1")})}
    found = await lab.cleared(script("DECLARE u INT; SET s = 'x'; SET u = 1;"), **context)
    assert found.effects == (SetVariables(frozenset("s")),)
    await lab.cleared(script("EXECUTE IMMEDIATE s;"), **context)
    for body in (
        "SET s = 'DROP TABLE free'; EXECUTE IMMEDIATE s;",
        "DECLARE s STRING DEFAULT upper('x'); EXECUTE IMMEDIATE s;",
        "EXECUTE IMMEDIATE 'SELECT 1' INTO s; EXECUTE IMMEDIATE s;",
    ):
        assert "not known before it runs" in (await lab.refused(script(body), **context)).message


async def test_texts_that_a_script_has_run_give_session_variables_values(lab: Lab) -> None:
    context = {"variables": frozenset({"s", "t"}), "known_values": frozenset({("s", "SELECT 1")})}
    for value in ("''x''", "(SELECT max(id) FROM filtered)"):
        found = await lab.cleared(script(f"EXECUTE IMMEDIATE 'SET VAR s = {value}';"), **context)
        assert found.effects == (SetVariables(frozenset("s")),)
    for sets in ("'SET VARIABLE s = 1'", "'EXECUTE IMMEDIATE \\'SELECT 1\\' INTO s'"):
        said = await lab.refused(script(f"EXECUTE IMMEDIATE s; EXECUTE IMMEDIATE {sets};"), **context)
        assert "not known before it runs" in said.message
    await lab.cleared(script("EXECUTE IMMEDIATE s; EXECUTE IMMEDIATE 'SET VAR t = 1';"), **context)
    said = await lab.refused(script("EXECUTE IMMEDIATE 'DECLARE VARIABLE w INT';"), **context)
    assert "declare it before the script" in said.message


async def test_a_cursor_gives_session_variables_values(lab: Lab) -> None:
    if is_older(lab.reader, "4.2"):
        pytest.skip("cursors came with Spark 4.2")
    body = "DECLARE c CURSOR FOR SELECT 'x'; OPEN c; FETCH c INTO s;"
    context = {"variables": frozenset("s"), "known_values": frozenset({("s", "SELECT 1")})}
    assert (await lab.cleared(script(body), **context)).effects == (SetVariables(frozenset("s")),)
    said = await lab.refused(script(f"{body} EXECUTE IMMEDIATE s;"), **context)
    assert "not known before it runs" in said.message


async def test_places_are_those_of_the_script(lab: Lab) -> None:
    text = script("SELECT 1;\n  INSERT INTO\n  made SELECT 1;")
    said = await lab.refused(text)
    assert "line 4 pos 2" in said.message
    found = await lab.cleared(script("SELECT id FROM filtered;\nSELECT id FROM free;"))
    (told,) = found.rewritten
    start, end, length = told.changes[0]
    assert told.original[start:end] == "filtered"
    assert FILTER in told.forwarded[start : start + length]


@pytest.mark.parametrize("sent", [sql_command, execute])
async def test_over_spark_connect_a_script_is_judged_the_same(lab: Lab, sent: Any) -> None:
    for table, passes in (("filtered", True), ("closed", False)):
        text = script(f"DECLARE x INT; SET x = (SELECT max(id) FROM spark_catalog.lab.{table}); SELECT x;")
        verdict = await WORLD.judge_plan(sent(sql(text)), lab.reader, user="ann")
        assert isinstance(verdict, Cleared if passes else Refused), verdict
        if isinstance(verdict, Cleared):
            assert FILTER in verdict.forwarded
            assert FILTER.encode() in verdict.forwarded_plan
            assert verdict.names_until_end
            assert not verdict.read_only
            assert bool(verdict.original_relation) is (sent is sql_command)


class _Otherwise:
    """The parser, that says otherwise of scripts."""

    def __init__(self, reader: ReaderPool, first: dict[str, Any], then: dict[str, Any] | None = None) -> None:
        self._reader, self._changes = reader, [first, first, then or first]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    async def read_script(self, text: str) -> Any:
        found = await self._reader.read_script(text)
        assert isinstance(found, ScriptReading)
        changed = self._changes.pop(0) if len(self._changes) > 1 else self._changes[0]
        parts = tuple(replace(part, **changed.get("part", {})) for part in found.parts)
        return replace(found, parts=parts, **{k: v for k, v in changed.items() if k != "part"})


@pytest.mark.parametrize(
    ("first", "then", "why"),
    [
        ({"strange": ("CallStatement",)}, None, "could not be read"),
        ({"part": {"alone": False}}, None, "means something else"),
        ({}, {"skeleton": "another"}, "could not prove"),
        ({}, {"strange": ("CallStatement",)}, "could not prove"),
        ({}, {"part": {"alone": False}}, "could not prove"),
        ({}, {"part": {"kind": "query"}}, "could not prove"),
        ({}, {"part": {"span": Span(0, 5)}}, "could not prove"),
    ],
)
async def test_what_is_not_proved_is_refused(
    lab: Lab, first: dict[str, Any], then: dict[str, Any] | None, why: str
) -> None:
    other = Lab(WORLD, _Otherwise(lab.reader, first, then))  # type: ignore[arg-type]
    assert why in (await other.refused(script("SELECT id FROM filtered;"))).message


async def test_a_plan_with_a_script_is_proved_and_has_no_arguments(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = script("SELECT id FROM spark_catalog.lab.filtered;")
    for sent in (sql_command, execute):
        given = sent(sql(text, x=F.lit(1)))
        assert isinstance(await WORLD.judge_plan(given, lab.reader, user="ann"), Refused)
    monkeypatch.setattr("gateway.pipeline.plan_scripts.prove_plan", lambda *_: "another plan")
    assert isinstance(await WORLD.judge_plan(sql_command(sql(text)), lab.reader, user="ann"), Refused)
