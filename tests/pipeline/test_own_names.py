"""Session variables, SQL functions and texts that a statement has run: each a way for a name, or a statement,
to mean what nobody has judged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.catalog.describe import function_from_rows
from gateway.model.catalog import FUNCTION, TableName
from gateway.model.handles import SparkHandle
from gateway.model.reading_settings import VARIABLES_MARK
from gateway.model.statement import (
    Cleared,
    DeclareVariables,
    DropFunction,
    DropVariable,
    Refused,
    RegisterCode,
    SessionContext,
    SetVariables,
    Statement,
    Verdict,
)
from gateway.reader.pool import ReaderPool
from tests.judge_world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

DATA: dict[str, Any] = {
    "catalogs": ["spark_catalog"],
    "tables": {
        f"spark_catalog.lab.{name}": {"id": "int", "region": "string", "note": "string"}
        for name in ("free", "filtered", "closed")
    },
    "views": {
        f"spark_catalog.lab.over_{name}": {
            "columns": {"id": "int"},
            "text": f"SELECT id FROM {name} WHERE note = 'x'",
            "database": "lab",
            "output": ["id"],
        }
        for name in ("free", "filtered")
    }
    | {
        f"spark_catalog.lab.over_{name}": {
            "columns": {"id": "int"},
            "text": text,
            "database": "lab",
            "output": ["id"],
            "definer": "may" if name == "lent" else None,
        }
        for name, text in {
            "calls": "SELECT twice(id) AS id FROM filtered WHERE lab.twice(id) > 0",
            "calls_free": "SELECT lab.twice(id) AS id FROM free",
            "rows": "SELECT r.id FROM lab.twice(1) AS r, filtered",
            "session": "SELECT most(id) AS id FROM filtered",
            "nothing": "SELECT nowhere(id) AS id FROM filtered",
            "lent": "SELECT twice(id) AS id FROM filtered",
        }.items()
    },
    "people": {"ann": {"groups": ["staff"]}, "may": {"groups": ["readers"]}, "eve": {"groups": []}},
    "pack": """
service: spark
policies:
  - name: staff read and make functions
    on:
      - {catalog: spark_catalog, database: lab, table: [free, filtered, "over_*"], column: "*"}
      - {catalog: spark_catalog, database: lab, udf: [mine, twice, most]}
      - {catalog: system, database: session, udf: "*"}
    allow: [{groups: [staff], access: [select, create, drop, execute]}]
  - name: readers
    on: {catalog: spark_catalog, database: lab, table: "*", column: "*"}
    allow: [{groups: [readers], access: [select]}]
  - name: settings
    on: {setting: "*"}
    allow: [{groups: [staff], access: [set]}]
  - name: one region
    on: {catalog: spark_catalog, database: lab, table: filtered}
    filter: [{groups: [staff], where: "exists(array(1), e -> e = 1) AND region = 'EMEA'"}]
""",
}
TWICE = TableName("spark_catalog", "lab", "twice", FUNCTION)


class Lab:
    """People of the world, and what they are told."""

    def __init__(self, world: World, reader: ReaderPool) -> None:
        self.world, self.reader = world, reader

    async def judged(self, text: str, *, user: str = "ann", **context: Any) -> Verdict:
        session = SessionContext(**{"namespace": ("lab",), **context})
        statement = Statement(text=text, principal=self.world.principal(user), context=session)
        return await self.world.judge_statement(statement, self.reader)

    async def cleared(self, text: str, **context: Any) -> Cleared:
        verdict = await self.judged(text, **context)
        assert isinstance(verdict, Cleared), verdict
        return verdict

    async def refused(self, text: str, **context: Any) -> Refused:
        verdict = await self.judged(text, **context)
        assert isinstance(verdict, Refused), verdict.forwarded
        return verdict


@pytest.fixture(scope="module")
def world() -> World:
    found = World(DATA)
    for name, body in {"twice": "x * 2", "most": "(SELECT max(id) FROM free)"}.items():
        function = replace(TWICE, table=name)
        rows = [(f"Function:      {name}",), (f"Body:          {body}",)]
        found.tables[function] = function_from_rows(rows, function)
    return found


@pytest.fixture
def lab(world: World, reader: ReaderPool) -> Lab:
    return Lab(world, reader)


# -- variables -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ("DECLARE x INT DEFAULT 5", DeclareVariables(frozenset("x"))),
        ("DECLARE x STRING", DeclareVariables(frozenset("x"), of_strings=True)),
        ("DECLARE x STRING COLLATE UTF8_LCASE", DeclareVariables(frozenset("x"))),
        (
            "DECLARE OR REPLACE VARIABLE session.X STRING DEFAULT 'SELECT 1'",
            DeclareVariables(frozenset("x"), "SELECT 1", of_strings=True),
        ),
        ("DECLARE x VARCHAR(2) DEFAULT 'abc'", DeclareVariables(frozenset("x"))),
        ("DECLARE x = upper('abc')", DeclareVariables(frozenset("x"))),
        ("SET VAR x = 'b'", SetVariables(frozenset("x"))),
        ("SET VAR (x, y) = (SELECT 1, 2)", SetVariables(frozenset("xy"))),
        ("DROP TEMPORARY VARIABLE IF EXISTS system.session.x", DropVariable("x")),
    ],
)
async def test_what_becomes_of_variables(lab: Lab, text: str, effect: Any) -> None:
    assert (await lab.cleared(text)).effects == (effect,)


@pytest.mark.parametrize(
    ("text", "effects"),
    [
        ("SET VAR x = 'b'", [SetVariables(frozenset("x"), "b")]),
        ("SET VAR y = 1, x = 'b'", [SetVariables(frozenset("x"), "b"), SetVariables(frozenset("y"))]),
        (
            "SET VAR (y, x) = (SELECT 1, 'b')",
            [SetVariables(frozenset("x"), "b"), SetVariables(frozenset("y"))],
        ),
        ("SET VAR y = 'b'", [SetVariables(frozenset("y"))]),
        ("SET VAR x = (SELECT 'b' FROM free WHERE false)", [SetVariables(frozenset("x"))]),
        ("SET VAR x = (SELECT 'b' WHERE false)", [SetVariables(frozenset("x"))]),
        ("SET VAR x = (SELECT 'b' LIMIT 0)", [SetVariables(frozenset("x"))]),
        ("SET VAR (y, x) = (SELECT 1, 'b' WHERE false)", [SetVariables(frozenset("xy"))]),
        ("SET VAR (y, x) = (SELECT 1, 'b' FROM free)", [SetVariables(frozenset("xy"))]),
        ("SET VAR x = upper('b')", [SetVariables(frozenset("x"))]),
    ],
)
async def test_what_a_variable_of_type_string_is_given_is_known(lab: Lab, text: str, effects: Any) -> None:
    found = await lab.cleared(text, string_variables=frozenset("x"), known_values=frozenset({("x", "a")}))
    assert list(found.effects) == effects


async def test_a_query_that_gives_a_value_is_guarded(lab: Lab) -> None:
    found = await lab.cleared("SET VAR x = (SELECT max(id) FROM filtered)")
    assert "region = 'EMEA'" in found.forwarded
    assert (await lab.refused("SET VAR x = (SELECT max(id) FROM closed)")).code == "ACCESS_DENIED"


@pytest.mark.parametrize("name", ["region", "REGION", "e"])
async def test_no_word_of_a_policy_is_a_variable(lab: Lab, name: str) -> None:
    """Were the column taken away, the filter would be what the client says."""
    variables = frozenset({name.lower()})
    said = await lab.refused("SELECT id FROM filtered", variables=variables)
    assert f"DROP TEMPORARY VARIABLE {name.lower()}" in said.message
    await lab.cleared("SELECT id FROM free", variables=variables)
    await lab.cleared("SELECT id FROM filtered", variables=frozenset({"other"}))


async def test_no_word_of_a_view_that_is_written_out_is_a_variable(lab: Lab) -> None:
    variables = frozenset({"note"})
    assert "note" in (await lab.refused("SELECT * FROM over_filtered", variables=variables)).message
    # Spark finds no variables in a view that it reads itself.
    assert "over_free" in (await lab.cleared("SELECT * FROM over_free", variables=variables)).forwarded


async def test_variables_that_nobody_knows_close_what_has_policies(lab: Lab) -> None:
    settings = frozenset({VARIABLES_MARK})
    said = await lab.refused("SELECT id FROM filtered", settings=settings)
    assert "begin a new session" in said.message
    await lab.refused("SELECT * FROM over_filtered", settings=settings)
    await lab.cleared("SELECT id FROM free", settings=settings)
    assert (await lab.refused(f"SET {VARIABLES_MARK} = false")).code == "NOT_GOVERNABLE"
    assert (await lab.refused(f"RESET {VARIABLES_MARK}")).code == "NOT_GOVERNABLE"


async def test_a_variable_is_no_name_and_no_schema(lab: Lab) -> None:
    variables = frozenset({"x"})
    for text in (
        "SELECT * FROM IDENTIFIER(x)",
        "SELECT from_json('{}', x)",
        "DECLARE `a b` INT",
        "DECLARE lab.x INT",
        "DECLARE x = (SELECT max(id) FROM closed)",
    ):
        await lab.refused(text, variables=variables)


# -- texts that a statement has run --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("EXECUTE IMMEDIATE 'SELECT 1 AS a'", "SELECT 1 AS a"),
        ("EXECUTE IMMEDIATE 'SELECT ' || concat('1', ' AS a')", "SELECT 1 AS a"),
        ("EXECUTE IMMEDIATE q", "SELECT 2"),
        ("EXECUTE IMMEDIATE 'SELECT ?, ?' USING 1, 'x'", "SELECT 1, 'x'"),
        ("EXECUTE IMMEDIATE 'SELECT :a + :b' USING 1 AS a, 2 AS b", "SELECT 1 + 2"),
        ("EXECUTE IMMEDIATE 'SELECT :a OR :b' USING true AS a, FALSE AS b", "SELECT true OR false"),
        ("EXECUTE IMMEDIATE 'SELECT 1' INTO x", "SET VARIABLE (`x`) = (SELECT 1\n)"),
        ("EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE \\'SELECT 1\\''", "SELECT 1"),
    ],
)
async def test_the_statement_in_a_text_takes_its_place(lab: Lab, text: str, becomes: str) -> None:
    assert (await lab.cleared(text, known_values=frozenset({("q", "SELECT 2")}))).forwarded == becomes


async def test_the_statement_in_a_text_is_judged(lab: Lab) -> None:
    found = await lab.cleared("EXECUTE IMMEDIATE 'SELECT id FROM filtered'")
    assert "region = 'EMEA'" in found.forwarded
    inside = await lab.refused("EXECUTE IMMEDIATE 'SELECT id FROM closed'")
    assert inside.code == "ACCESS_DENIED"
    text = "EXECUTE IMMEDIATE 'SELECT :p, id FROM free' USING concat('a', X) AS p"
    given = await lab.cleared(text, variables=frozenset({"x"}))
    assert given.forwarded.startswith("SELECT (concat('a', `system`.`session`.`x`)), id FROM")
    into = await lab.refused("EXECUTE IMMEDIATE 'DROP TABLE free' INTO x")
    assert "only valid for queries" in into.message


@pytest.mark.parametrize(
    "text",
    [
        "EXECUTE IMMEDIATE upper('SELECT 1')",
        "EXECUTE IMMEDIATE x",
        "EXECUTE IMMEDIATE (SELECT 'DROP TABLE free')",
        "EXECUTE IMMEDIATE 'SELECT ' || x",
        "EXECUTE IMMEDIATE 'SELECT ?' USING nowhere",
        "EXECUTE IMMEDIATE 'SELECT 1' USING nowhere",
        "EXECUTE IMMEDIATE 'SELECT ?' USING (SELECT id FROM free)",
        "EXECUTE IMMEDIATE 'SELECT ?' USING transform(array(1), nowhere -> nowhere)",
        "EXECUTE IMMEDIATE 'SELECT * FROM IDENTIFIER(?)' USING x",
        "EXECUTE IMMEDIATE 'SELECT ?'",
        "EXECUTE IMMEDIATE 'SELECT * FROM IDENTIFIER(?)' USING 'closed'",
        "EXECUTE IMMEDIATE 'SELECT 2-?' USING -1",
        "EXECUTE IMMEDIATE 'SELECT 1 FROM IDENTIFIER(\\'fr\\'?)' USING 'ee'",
        "EXECUTE IMMEDIATE 'SELECT 1 FROM IDENTIFIER(:p \\'sed\\')' USING 'clo' AS p",
        "EXECUTE IMMEDIATE 'SELECT 1 FROM IDENTIFIER(? \\'\\')' USING x",
        "CREATE VIEW lab.mine AS EXECUTE IMMEDIATE 'SELECT 1'",
    ],
)
async def test_what_is_not_known_before_it_runs_is_refused(lab: Lab, text: str) -> None:
    await lab.refused(text, variables=frozenset({"x"}))


@pytest.mark.parametrize(
    ("text", "kind"), [("5", "INT"), ("true", "BOOLEAN"), ("NULL", "VOID"), ("5 USING 1", "INT")]
)
async def test_a_text_that_is_no_string_is_refused_as_by_spark(lab: Lab, text: str, kind: str) -> None:
    found = await lab.refused(f"EXECUTE IMMEDIATE {text}")
    assert found.message.startswith("[INVALID_EXPR_TYPE_FOR_QUERY_EXECUTE_IMMEDIATE]")
    assert f'but got "{kind}".' in found.message


async def test_an_argument_has_one_value_wherever_its_markers_are(lab: Lab) -> None:
    for argument in ("rand() AS a", "1 + uniform(1, 9) AS a", "uuid() AS a"):
        found = await lab.refused(f"EXECUTE IMMEDIATE 'SELECT :a = :a' USING {argument}")
        assert found.message.startswith("[UNSUPPORTED_EXPR_FOR_PARAMETER]")
        assert found.sqlstate == "42K0E"
    same = await lab.cleared("EXECUTE IMMEDIATE 'SELECT :a = :a' USING current_timestamp() AS a")
    assert same.forwarded.count("current_timestamp") == 2


async def test_arguments_are_parts_of_names(lab: Lab) -> None:
    inner = "SELECT IDENTIFIER(:a \\'d\\') FROM IDENTIFIER(:b \\'tered\\')"
    text = f"EXECUTE IMMEDIATE '{inner}' USING 'i' AS a, {{}} AS b"
    known: dict[str, Any] = {"variables": frozenset({"x"}), "known_values": frozenset({("x", "fil")})}
    for given in ("'fil'", "x", "session.x"):
        assert "region = 'EMEA'" in (await lab.cleared(text.format(given), **known)).forwarded
    closed = await lab.refused("EXECUTE IMMEDIATE 'SELECT 1 FROM IDENTIFIER(? \\'sed\\')' USING 'clo'")
    assert closed.code == "ACCESS_DENIED"
    two = await lab.refused("EXECUTE IMMEDIATE 'SELECT 1 FROM IDENTIFIER(?)' USING 'free; DROP TABLE free'")
    assert two.code == "SPARK"
    value = await lab.cleared("EXECUTE IMMEDIATE 'SELECT ? AS a' USING x", **known)
    assert value.forwarded == "SELECT 'fil' AS a"
    unnamed = await lab.refused("EXECUTE IMMEDIATE 'SELECT :a' USING 'p', 2", **known)
    assert unnamed.message.endswith('Parameters missing names: "p", "2". SQLSTATE: 07001')
    for name, why in (("(SELECT 'free')", "NOT_CONSTANT"), ("CAST(NULL AS STRING)", "NULL")):
        told = await lab.refused(f"SELECT * FROM IDENTIFIER({name})")
        assert told.message.startswith(f"[NOT_A_CONSTANT_STRING.{why}]")


async def test_a_name_of_strings_put_together_is_that_name(lab: Lab) -> None:
    found = await lab.cleared("SELECT IDENTIFIER('i' || 'd') FROM IDENTIFIER(concat('fil', 'tered'))")
    assert "region = 'EMEA'" in found.forwarded
    assert (await lab.refused("SELECT 1 FROM IDENTIFIER('clo' || 'sed')")).code == "ACCESS_DENIED"


# -- functions -----------------------------------------------------------------------------------------------


async def test_functions_are_made_by_who_may(lab: Lab) -> None:
    make = "CREATE OR REPLACE FUNCTION mine(x INT DEFAULT 1) RETURNS INT RETURN x + abs(x)"
    found = await lab.cleared(make)
    assert found.forwarded == make.replace(" mine(", " `spark_catalog`.`lab`.`mine`(")
    said = await lab.refused(make, user="eve")
    assert "create on udf" in said.message
    assert "drop on udf" in said.message
    await lab.refused(make.replace("mine", "theirs"))


async def test_temporary_functions_are_the_sessions(lab: Lab) -> None:
    text = "CREATE TEMPORARY FUNCTION {}(x INT) RETURNS INT RETURN x"
    found = await lab.cleared(text.format("Own"))
    assert found.effects == (RegisterCode(SparkHandle("function", "own")),)
    await lab.refused(text.format("own"), user="eve")
    assert "Spark's own" in (await lab.refused(text.format("mask"))).message
    handles = frozenset({SparkHandle("function", "own")})
    await lab.cleared("SELECT own(id) FROM filtered", handles=handles)
    dropped = await lab.cleared("DROP TEMPORARY FUNCTION own", handles=handles)
    assert dropped.effects == (DropFunction("own"),)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("nowhere.twice(x)", "UNRESOLVED_ROUTINE"),
        ("session.twice(x)", "reserved namespace"),
        ("java_method('a', 'b')", "any Java method"),
    ],
)
async def test_a_body_tells_no_more_than_it_is_given(lab: Lab, body: str, why: str) -> None:
    for kind, name in (("TEMPORARY FUNCTION", "own"), ("FUNCTION", "mine")):
        said = await lab.refused(f"CREATE {kind} {name}(x INT) RETURNS INT RETURN {body}")
        assert why in said.message


@pytest.mark.parametrize(
    "default", ["(SELECT max(id) FROM closed)", "java_method('a', 'b')", "twice(1)", "length(current_user())"]
)
async def test_nor_does_the_default_of_a_parameter(lab: Lab, default: str) -> None:
    await lab.refused(f"CREATE FUNCTION mine(x INT DEFAULT {default}) RETURNS INT RETURN x")


async def test_a_call_is_written_with_the_whole_name(lab: Lab) -> None:
    text = "SELECT twice(id), 'twice(id)', lab.twice( twice(2)) OVER () FROM free"
    found = await lab.cleared(text)
    whole = "`spark_catalog`.`lab`.`twice`"
    assert found.forwarded.startswith(f"SELECT {whole}(id), 'twice(id)', {whole}( {whole}(2)) OVER () FROM")
    assert TWICE in found.names


async def test_a_call_whose_place_is_not_known_is_none(lab: Lab) -> None:
    said = await lab.refused("SELECT id FROM free LATERAL VIEW twice(id) t AS e")
    assert said.sqlstate == "42883"


async def test_a_view_calls_functions_of_where_it_was_made(lab: Lab) -> None:
    """Spark finds them by the view's catalog and database, also where the session has one of its own."""
    whole = "`spark_catalog`.`lab`.`twice`"
    session = frozenset({SparkHandle("function", "twice")})
    for name, calls in {"calls": 2, "rows": 1}.items():
        found = await lab.cleared(f"SELECT id FROM lab.over_{name}", namespace=("other",), handles=session)
        assert found.forwarded.count(f"{whole}(") == calls
        assert "region = 'EMEA'" in found.forwarded
        assert TWICE in found.names
    found = await lab.cleared("SELECT id FROM over_calls_free")
    assert "`over_calls_free`" in found.forwarded
    assert TWICE in found.names
    assert "without a catalog" in (await lab.refused("SELECT id FROM over_session")).message


async def test_what_a_view_calls_wants_execute_of_who_lends_it(lab: Lab) -> None:
    for user, told in {"may": "needs execute on udf spark_catalog.lab.twice", "ann": "is closed"}.items():
        assert told in (await lab.refused("SELECT id FROM over_lent", user=user)).message


async def test_a_view_that_calls_what_is_not_there_says_so(lab: Lab) -> None:
    said = await lab.refused("SELECT id FROM over_nothing")
    assert "the view spark_catalog.lab.over_nothing calls a function that does not exist" in said.message


async def test_xml_is_read_without_options_that_name_files(lab: Lab) -> None:
    await lab.cleared("SELECT from_xml('<a><b>1</b></a>', 'b INT'), schema_of_xml('<a/>')")
    await lab.cleared("SELECT from_xml('<a/>', 'b INT', map('rowTag', 'a', 'MODE', concat('FAIL', 'FAST')))")
    for options in (
        "map('rowValidationXSDPath', '/etc/passwd')",
        "map('mode', 'x', 'rowvalidationxsdpath', '/etc/passwd')",
        "map(concat('row', 'ValidationXSDPath'), '/etc/passwd')",
        "map_concat(map('mode', 'x'), map('rowValidationXSDPath', 'y'))",
        "str_to_map('rowValidationXSDPath:y')",
        "options => map('rowValidationXSDPath', 'y')",
        "map('k', 'v')",
    ):
        for call in (f"from_xml('<a/>', 'b INT', {options})", f"schema_of_xml('<a/>', {options})"):
            assert "with such options" in (await lab.refused(f"SELECT {call}")).message
    said = await lab.refused("SELECT from_json('{}', 1)")
    assert said.sqlstate == "42K07"


async def test_what_is_everybodys_wants_a_grant(lab: Lab) -> None:
    for text in ("LIST JARS", "LIST FILES", "ANALYZE TABLES IN lab COMPUTE STATISTICS NOSCAN"):
        assert (await lab.refused(text)).code == "ACCESS_DENIED"


async def test_a_name_of_a_variable_is_its_string(lab: Lab) -> None:
    known = {"variables": frozenset("x"), "known_values": frozenset({("x", "filtered")})}
    found = await lab.cleared("SELECT id FROM IDENTIFIER(x)", **known)
    assert "region = 'EMEA'" in found.forwarded
    known["known_values"] = frozenset({("x", "closed")})
    assert (await lab.refused("SELECT id FROM IDENTIFIER(session.x)", **known)).code == "ACCESS_DENIED"


async def test_who_may_not_call_a_function_is_told_that_there_is_none(lab: Lab) -> None:
    told = [
        await lab.refused("SELECT twice(1)", user="eve"),
        await lab.refused("SELECT mine(1)"),
        await lab.refused("SELECT theirs(1)"),
    ]
    for verdict in told:
        assert verdict.sqlstate == "42883"
        assert "[UNRESOLVED_ROUTINE] Cannot resolve routine" in verdict.message


async def test_a_body_is_told_to_who_may_call(lab: Lab) -> None:
    assert "`lab`.`twice`" in (await lab.cleared("DESCRIBE FUNCTION EXTENDED twice")).forwarded
    assert (await lab.refused("DESCRIBE FUNCTION twice", user="eve")).code == "ACCESS_DENIED"
    await lab.cleared("DESCRIBE FUNCTION abs", user="eve")


# -- settings ------------------------------------------------------------------------------------------------


async def test_values_of_old_may_be_asked_for_where_no_policy_is(lab: Lab) -> None:
    key = "spark.sql.legacy.sizeOfNull"
    await lab.cleared(f"SET {key} = true")
    assert (await lab.refused("SET spark.sql.legacy.useV1Command = true")).code == "NOT_GOVERNABLE"
    await lab.refused("SELECT id FROM filtered", settings=frozenset({key}))
    await lab.cleared("SELECT id FROM free", settings=frozenset({key}))
