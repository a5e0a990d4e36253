"""Nothing that Spark's parser can make is forgotten: each alternative of its grammar, each class that its
plan builder refers to, and each row of our own tables is governed, or refused on purpose, with a statement.

What there is comes from the class files in Spark's jars, so that a new Spark cannot bring anything unnoticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from gateway.errors import BackendUnavailable
from gateway.model.handles import SparkHandle
from gateway.model.reading import NotParsed, Reading
from gateway.model.spark_minors import NEWEST
from gateway.model.statement import Cleared, Refused, SessionContext, Statement
from gateway.reader.java_runtime import find_spark_home
from gateway.reader.pool import ReaderPool
from gateway.sql.classify import (
    COMMANDS,
    FORMAT_COMMANDS,
    NAME_NODES,
    REFUSED_COMMANDS,
    REFUSED_FORMAT_COMMANDS,
)
from gateway.sql.expressions import (
    COMMAND_EXPRESSIONS,
    PARAMETERS,
    QUERY_EXPRESSIONS,
    REFUSED_EXPRESSIONS,
)
from gateway.sql.nodes import QUERY_NODES, REFUSED_NODES
from tests.judge_world import World
from tests.reader.asking import contexts
from tests.readers import is_older
from tests.sql.class_files import ClassFiles, simple_name

pytestmark = pytest.mark.asyncio(loop_scope="session")

CASES: dict[str, list[Any]] = yaml.safe_load(
    (Path(__file__).parents[1] / "cases" / "totality.yaml").read_text(encoding="utf-8")
)
GOVERNED: list[str] = [case if isinstance(case, str) else case["sql"] for case in CASES["governed"]]
REFUSED: list[tuple[str, str]] = [(case["sql"], case["why"]) for case in CASES["refused"]]
SINCE: dict[str, str] = {
    case["sql"]: case["since"]
    for case in (*CASES["governed"], *CASES["refused"])
    if not isinstance(case, str) and "since" in case
}
"""Statement → the minor that it came with."""
OLDER: dict[str, str] = {
    case["sql"]: case.get("older", "unparsed")
    for case in (*CASES["governed"], *CASES["refused"])
    if not isinstance(case, str)
}
"""Statement → what it is to an older Spark."""

_COLUMNS = dict.fromkeys("i x y z n b c d e arr s js ts val wal".split(), "int")
_EVERYTHING = (
    '{catalog: "*"}',
    '{catalog: "*", database: "*"}',
    '{catalog: "*", database: "*", table: "*", column: "*"}',
    '{catalog: "*", database: "*", udf: "*"}',
    '{url: "*"}',
    '{setting: "*"}',
)
_PACK = "service: spark\npolicies:\n" + "".join(
    f"  - {{name: '{number}', on: {on}, allow: [{{users: [ann], access: [all]}}]}}\n"
    for number, on in enumerate(_EVERYTHING)
)
WORLD = World(
    {
        "catalogs": ["spark_catalog"],
        "tables": {f"spark_catalog.d.{table}": _COLUMNS for table in "abcf"},
        "views": {
            "spark_catalog.d.w": {
                "columns": {"x": "int"},
                "text": "SELECT x FROM a",
                "database": "d",
                "output": ["x"],
            }
        },
        "people": {"ann": {"groups": []}},
        "pack": _PACK,
    }
)
"""One who may do everything."""
CONTEXT = SessionContext(
    namespace=("d",),
    temp_views=frozenset({"v"}),
    handles=frozenset({SparkHandle("function", "f"), SparkHandle("table_function", "tf")}),
)

PLAN = "org/apache/spark/sql/catalyst/plans/logical/LogicalPlan"
EXPRESSION = "org/apache/spark/sql/catalyst/expressions/Expression"
GRAMMAR = "org/apache/spark/sql/catalyst/parser/SqlBaseParser$"
BUILDERS = ("org/apache/spark/sql/catalyst/parser/", "org/apache/spark/sql/execution/SparkSql")

_ENTRY = "the entry of a text that is no statement"
_PLAIN = "the parser puts a plain name in its place"
_PINNED = "a pinned setting switches it off"
UNREACHED = {
    **dict.fromkeys(
        """
        SingleDataType SingleExpression SingleFunctionIdentifier SingleMultipartIdentifier
        SinglePathElementList SingleQuery SingleRoutineParamList SingleTableIdentifier SingleTableSchema
        SingleTemporalTableIdentifier FunctionIdentifier TemporalTableIdentifier
        """.split(),
        _ENTRY,
    ),
    **dict.fromkeys(
        """
        AnsiNonReserved NonReserved StrictNonReserved BackQuotedIdentifier QuotedIdentifier
        SimpleQuotedIdentifierAlternative
        """.split(),
        _PLAIN,
    ),
    **dict.fromkeys("AsofJoinCriteria AsofJoinType LegacyDecimalLiteral".split(), _PINNED),
    **dict.fromkeys("CatalogIdentifierReference PredicateOperator".split(), "another one comes first"),
    **dict.fromkeys("ColumnCommentList QualifiedNameList".split(), "no other rule refers to it"),
    "ErrorIdent": "a name with a dash, which is an error",
}
"""Alternatives of the grammar that no statement has, with the reason."""

UNREACHED_BEFORE = frozenset(
    {
        "ExecuteImmediateArgument",
        "ExecuteImmediateArgumentSeq",
        "NamedParameterMarkerRule",
        "ParameterIntegerValue",
    }
)
"""The same before 4.3: a parameter marker where no value can stand is an error of the parser's own, and
nothing in 4.0 refers to the arguments of EXECUTE IMMEDIATE."""

_RESERVED = "only where reserved words are enforced, which a pinned setting excludes"
_ANALYZER = "only what analyses a plan makes it"
UNMADE = {
    **dict.fromkeys("CurrentDate CurrentTime CurrentTimestamp CurrentUser".split(), _RESERVED),
    **dict.fromkeys(
        "GetViewColumnByNameAndOrdinal UnresolvedInsertTarget VariableReference".split(), _ANALYZER
    ),
    **dict.fromkeys(
        """
        AlterColumn CreateTableLikeCommand ExecuteImmediateQuery GeneratedColumn OverwriteByExpression
        PercentileCont PercentileDisc ShowNamespaces ShowTableExtended
        """.split(),
        "older Sparks make it",
    ),
    **dict.fromkeys(
        FORMAT_COMMANDS.keys() | REFUSED_FORMAT_COMMANDS.keys(), "parsers of table formats make it"
    ),
    "Call": "judged by rows in rules/",
    "ErrorCondition": "a script keeps its conditions apart from its statements",
    "SetNamespaceCollationCommand": "the parser refuses it by itself, as a setting has it",
    "UnresolvedRegex": _PINNED,
}
"""Rows of our tables that no statement of this Spark brings about, with the reason."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A statement, and what the parser makes of it."""

    sql: str
    contexts: frozenset[str]
    nodes: frozenset[str] = frozenset()
    expressions: frozenset[str] = frozenset()


@pytest.fixture(scope="module")
def spark() -> ClassFiles:
    return ClassFiles(find_spark_home())


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def governed(reader: ReaderPool) -> list[Tried]:
    return [await tried(reader, sql) for sql in GOVERNED]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def refused(reader: ReaderPool) -> list[Tried]:
    return [await tried(reader, sql) for sql, _ in REFUSED]


async def tried(reader: ReaderPool, sql: str) -> Tried:
    if is_older(reader, SINCE.get(sql)) and OLDER[sql] == "unparsed":
        return Tried(sql, frozenset())
    try:
        found = await contexts(reader, sql)
    except BackendUnavailable:
        assert is_older(reader, SINCE.get(sql))
        return Tried(sql, frozenset())
    reading = await reader.read(sql)
    if not isinstance(reading, Reading):
        return Tried(sql, found)
    return Tried(sql, found, reading.nodes, reading.expressions)


def union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)


def builders(spark: ClassFiles) -> list[str]:
    """The classes that make plans of parse trees, lambdas and all; not the generated parser."""
    return [name for name in spark.names if name.startswith(BUILDERS) and "/SqlBase" not in name]


def made(spark: ClassFiles, kind: str) -> frozenset[str]:
    """The classes of a kind that the plan builder refers to, and the anonymous ones of the objects that it
    calls, by their simple names: no two of them may share one, since our rows say no more."""
    found = spark.referred_to(builders(spark))
    objects = {name for name in found if name.endswith("$")}
    anonymous = {name for name in spark.referred_to(objects) if "$$anon$" in name}
    names = Counter(simple_name(name) for name in spark.concrete(found | anonymous, kind))
    assert {name for name, count in names.items() if count > 1} == set()
    return frozenset(names)


async def as_before(reader: ReaderPool, sql: str) -> None:
    """Hold a statement against what it is to an older Spark than its own."""
    if OLDER[sql] == "unparsed":
        assert isinstance(await reader.read(sql), NotParsed)
    elif OLDER[sql] in ("refused", "governed"):
        statement = Statement(text=sql, principal=WORLD.principal("ann"), context=CONTEXT)
        verdict = await WORLD.judge_statement(statement, reader)
        assert isinstance(verdict, Refused if OLDER[sql] == "refused" else Cleared), verdict


@pytest.mark.parametrize("sql", GOVERNED)
async def test_what_is_governed_is_cleared_for_one_who_may_do_everything(
    reader: ReaderPool, sql: str
) -> None:
    if is_older(reader, SINCE.get(sql)):
        await as_before(reader, sql)
        return
    statement = Statement(text=sql, principal=WORLD.principal("ann"), context=CONTEXT)
    verdict = await WORLD.judge_statement(statement, reader)
    assert isinstance(verdict, Cleared), verdict


@pytest.mark.parametrize(("sql", "why"), REFUSED)
async def test_what_is_refused_is_refused_with_its_reason(reader: ReaderPool, sql: str, why: str) -> None:
    if is_older(reader, SINCE.get(sql)):
        await as_before(reader, sql)
        return
    statement = Statement(text=sql, principal=WORLD.principal("ann"), context=CONTEXT)
    verdict = await WORLD.judge_statement(statement, reader)
    assert isinstance(verdict, Refused), verdict
    assert verdict.code in ("NOT_GOVERNABLE", "SPARK")
    assert why in verdict.message
    unknown = ("not supported in statements", "not supported in queries", "not a supported expression")
    assert not any(one in verdict.message for one in unknown)


async def test_each_alternative_of_the_grammar_has_a_statement(
    reader: ReaderPool, spark: ClassFiles, governed: list[Tried], refused: list[Tried]
) -> None:
    contexts = [name for name in spark.names if name.startswith(GRAMMAR) and name.endswith("Context")]
    # A rule whose alternatives have labels has no objects of its own.
    parents = {parent for name in contexts for parent in spark.parents(name)}
    labelled = {
        name.removeprefix(GRAMMAR).removesuffix("Context") for name in contexts if name not in parents
    }
    reached = union(one.contexts for one in (*governed, *refused))
    assert len(labelled) > 300
    if is_older(reader, str(NEWEST)):
        assert sorted(labelled - reached - UNREACHED.keys() - UNREACHED_BEFORE) == []
    else:
        assert labelled - reached == UNREACHED.keys()


async def test_each_plan_class_of_the_parser_is_governed_or_refused_on_purpose(spark: ClassFiles) -> None:
    known = COMMANDS.keys() | NAME_NODES | QUERY_NODES | REFUSED_COMMANDS.keys() | REFUSED_NODES.keys()
    assert made(spark, PLAN) - known == frozenset()


async def test_each_expression_of_the_parser_is_governed_or_refused_on_purpose(spark: ClassFiles) -> None:
    known = QUERY_EXPRESSIONS | COMMAND_EXPRESSIONS | PARAMETERS | REFUSED_EXPRESSIONS.keys()
    assert made(spark, EXPRESSION) - known == frozenset()


async def test_each_row_has_a_statement_that_needs_it(
    reader: ReaderPool, governed: list[Tried], refused: list[Tried]
) -> None:
    if is_older(reader, str(NEWEST)):
        return  # it lacks some
    cleared = union(one.nodes | one.expressions for one in governed)
    stopped = union(one.nodes | one.expressions for one in refused)
    rows = COMMANDS.keys() | NAME_NODES | QUERY_NODES | QUERY_EXPRESSIONS | COMMAND_EXPRESSIONS
    against = REFUSED_COMMANDS.keys() | REFUSED_NODES.keys() | REFUSED_EXPRESSIONS.keys()
    assert (rows - cleared) | (against - stopped) == UNMADE.keys()
