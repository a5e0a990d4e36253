"""What fails in Spark fails through the gateway with Spark's own class, SQLSTATE and whole text, for somebody
to whom no policy applies; and under obligations no error tells a value or a hidden name.

`comparable` in `failing` says what differs between two runs of one statement on one Spark.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gateway.session.redact import CAST_IT
from gateway.wire import calls
from tests.e2e import failing
from tests.e2e.failing import Failure, in_sql, over_connect, over_thrift
from tests.e2e.frames_that_fail import PROGRAMS
from tests.e2e.lab import CANARY, PASSWORD, TESTER
from tests.e2e.running import RunningGateway, Spark
from tests.e2e.wire_client import WireClient
from tests.e2e.wire_comparison import Side
from tests.shares import todays

pytestmark = pytest.mark.in_turn(2)

DIFFERENT = {
    # Refused before Spark, for a reason of the gateway's own.
    "SELECT from_json(name, id) FROM t": "a schema that is computed could hold expressions nobody has judged",
    "CREATE TABLE x (a INT) USING nosuchformat": "what a provider does is known of those on a list only",
    "USE nocatalog.nodb": "that a name has too many levels is told before it is looked for",
    "SELECT * FROM STREAM t": "a stream in SQL text cannot be guarded",
    "DROP TEMPORARY FUNCTION nope": "functions are not dropped",
    "INSERT INTO missing VALUES (1)": "Spark is not asked: the plan is as it was parsed",
    # The definer is recorded first, and that fails on a table.
    "ALTER VIEW t AS SELECT 1": "who defines a view is recorded before its text changes",
}
"""Statements that fail otherwise through the gateway, and why."""
TEXTS = [text for _, text in failing.every()]
TURNS = 3
"""By day one text in so many is tried, on each day others, and others at each endpoint."""
NO_PARAMETERS = "[]"


@dataclass(frozen=True)
class World:
    """The same person at Spark itself and at the gateway, through both endpoints."""

    thrift: tuple[Side, Side]
    connect: tuple[Any, Any]


@pytest.fixture(scope="module")
def world(spark: Spark, lab_gateway: RunningGateway) -> Iterator[World]:
    failing.make_world(spark)
    with contextlib.ExitStack() as opened:
        clients = (
            WireClient(spark.host, spark.port, TESTER),
            WireClient(lab_gateway.host, lab_gateway.port, TESTER, PASSWORD),
        )
        sides = [failing.side_of(opened.enter_context(client)) for client in clients]
        sessions = [
            opened.enter_context(session)
            for session in (spark.session(TESTER), lab_gateway.session(TESTER, PASSWORD))
        ]
        for session in sessions:
            session.sql(f"USE {failing.DATABASE}")
            session.sql("SELECT * FROM gone").collect()
        failing.lose_files(spark)
        yield World((sides[0], sides[1]), (sessions[0], sessions[1]))
    spark.query(f"DROP DATABASE {failing.DATABASE} CASCADE", user="loader")


def _told(direct: Failure, through: Failure | None) -> str:
    """Return where two failures differ; empty when they do not."""
    if through is None:
        return "it does not fail"
    for field in ("kind", "sqlstate", "text"):
        one, other = getattr(direct, field), getattr(through, field)
        if one != other:
            return f"{field}: {one!r} became {other!r}"
    return ""


def _compare(found: dict[str, tuple[Failure | None, Failure | None]]) -> None:
    """Check that all but those that are listed fail alike, and that enough do."""
    succeed = [name for name, (direct, _) in found.items() if direct is None]
    assert not succeed, f"these do not fail at all: {succeed}"
    differ = {
        name: told
        for name, (direct, through) in found.items()
        if direct is not None and (told := _told(direct, through))
    }
    print(f"{len(found) - len(differ)} of {len(found)} fail alike")
    unknown = {name: told for name, told in differ.items() if name not in DIFFERENT}
    assert not unknown, "\n".join(f"{name}\n    {told}" for name, told in unknown.items())
    assert len(found) >= 200 / TURNS


@pytest.mark.in_turn(4, place=2)
def test_statements_fail_alike_over_thrift(world: World) -> None:
    direct, through = world.thrift
    _compare({text: (over_thrift(direct, text), over_thrift(through, text)) for text in todays(TEXTS, TURNS)})


def test_a_synchronous_call_tells_the_exception_and_its_causes(world: World) -> None:
    direct, through = world.thrift
    for kind, texts in failing.statements().items():
        text = texts[0]
        one, other = (over_thrift(side, text, run_async=False) for side in (direct, through))
        assert one == other, (kind, text)
        assert one is not None
        assert one.more or kind == "files", text


@pytest.mark.in_turn(4, place=1)
def test_programs_fail_alike_over_connect(world: World) -> None:
    direct, through = world.connect
    programs = {text: in_sql(text) for text in todays(TEXTS, TURNS, ahead=1)} | PROGRAMS
    found = {name: (over_connect(direct, one), over_connect(through, one)) for name, one in programs.items()}
    _compare(found)
    told = {
        name: pair
        for name, pair in found.items()
        if pair[0] and pair[1] and len(pair[0].more) == len(pair[1].more)
    }
    # Places of errors that the parser service tells are not among them.
    assert len(told) >= 0.85 * len(found)
    for name, (one, other) in told.items():
        if name not in DIFFERENT and one is not None and other is not None:
            if other.more[1:] == (NO_PARAMETERS,):
                # The parser service tells the condition, and not always its parameters.
                one = replace(one, more=(*one.more[:1], NO_PARAMETERS))
            assert replace(one, text="") == replace(other, text=""), name


def test_files_that_are_gone_say_what_helps(world: World) -> None:
    for side in world.thrift:
        failure = over_thrift(side, "SELECT * FROM gone")
        assert failure is not None
        assert "REFRESH TABLE" in failure.text


# -- and under obligations -----------------------------------------------------------------------------------

ORACLES = (
    "SELECT CAST(ssn AS INT), nope FROM lab.masked",
    "SELECT CAST(note AS INT) FROM lab.masked",
    "SELECT raise_error(concat(name, region, ssn)) FROM lab.masked",
    "SELECT raise_error('DIVIDE_BY_ZERO', map('config', name)) FROM lab.masked",
    "SELECT raise_error('UNSUPPORTED_FEATURE.TABLE_OPERATION', map('tableName', name, 'operation', note)) "
    "FROM lab.masked",
    "SELECT assert_true(region = 'AMER', name) FROM lab.masked",
    "SELECT id / (id - id) FROM lab.masked",
    "SELECT nope FROM lab.masked",
    "SELECT salary FROM lab.masked",
    "SELECT id, count(*) FROM lab.masked",
    "SELECT id, (SELECT 1, 2) FROM lab.masked",
    "SELECT explode(id) FROM lab.masked",
    "SELECT * FROM lab.masked ORDER BY nope",
    "SELECT a.id FROM lab.masked a JOIN lab.missing b ON a.id = b.id",
    "SELECT * FROM lab.masked, VALUES (1), (2, 3)",
    "MERGE INTO lab.ok USING lab.masked ON lab.ok.a = lab.masked.id WHEN MATCHED THEN DELETE",
    "ALTER TABLE lab.vault DROP COLUMN nope",
    "ALTER TABLE lab.vault ALTER COLUMN nope COMMENT 'x'",
    "ALTER TABLE lab.vault RENAME COLUMN nope TO x",
    "ALTER TABLE lab.vault ADD COLUMNS (id INT)",
    "ALTER TABLE lab.vault ADD PARTITION (id = 1)",
    "ALTER TABLE lab.vault DROP PARTITION (nope = 1)",
    "ALTER TABLE lab.vault SET SERDEPROPERTIES ('x' = 'y')",
    "TRUNCATE TABLE lab.vault PARTITION (nope = 1)",
    "DELETE FROM lab.vault WHERE nope = 1",
    "UPDATE lab.vault SET nope = 1",
    "DESCRIBE lab.masked nope",
    "MSCK REPAIR TABLE lab.vault",
    "INSERT INTO lab.vault SELECT id FROM lab.masked",
    "INSERT INTO lab.vault VALUES (1, 'x', 3)",
    "INSERT INTO lab.ledger SELECT 1",
    "INSERT INTO lab.ledger SELECT id, nope FROM lab.masked",
    "WITH c AS (SELECT name FROM lab.masked) SELECT nope FROM c",
    "SELECT to_date(name, 'yyyy') FROM lab.masked",
    "SELECT element_at(array(name), 5) FROM lab.masked",
    "SELECT map(name, 1, name, 2) FROM lab.masked",
)
"""What a user whom policies hide something from may try, to be told it by an error."""
HIDDEN = (
    CANARY,
    CANARY.lower(),
    "salary",
    "AMER",
    "TABLESAMPLE",
    "<> 'AMER'",
    "Relation spark_catalog.lab.masked",
)


@pytest.mark.parametrize("endpoint", ["thrift", "connect"])
def test_no_error_tells_what_is_hidden(lab_gateway: RunningGateway, endpoint: str) -> None:
    with contextlib.ExitStack() as opened:
        failures: dict[str, Failure | None] = {}
        if endpoint == "thrift":
            client = opened.enter_context(WireClient(lab_gateway.host, lab_gateway.port, "mallory", PASSWORD))
            side = Side(client, client.open_session())
            for run_async in (False, True):
                for text in ORACLES:
                    failures[f"{text} {run_async}"] = over_thrift(side, text, run_async=run_async)
        else:
            session = opened.enter_context(lab_gateway.session("mallory", PASSWORD))
            failures = {text: over_connect(session, in_sql(text)) for text in ORACLES}
        for text, failure in failures.items():
            assert failure is not None, text
            told = repr(failure)
            shown = [word for word in HIDDEN if word in told and word not in text]
            assert not shown, (text, failure)
            assert "raise_error(USER" not in told


@pytest.mark.parametrize("endpoint", ["thrift", "connect"])
def test_a_temporary_view_over_hidden_columns_keeps_them_from_later_errors(
    lab_gateway: RunningGateway, endpoint: str
) -> None:
    make = "CREATE OR REPLACE TEMPORARY VIEW few AS SELECT id FROM lab.ledger"
    with contextlib.ExitStack() as opened:
        if endpoint == "thrift":
            client = opened.enter_context(WireClient(lab_gateway.host, lab_gateway.port, "mallory", PASSWORD))
            side = Side(client, client.open_session())
            side.execute(make)
            failure = over_thrift(side, "SELECT nope FROM few")
        else:
            session = opened.enter_context(lab_gateway.session("mallory", PASSWORD))
            session.sql(make)
            failure = over_connect(session, in_sql("SELECT nope FROM few"))
        assert failure is not None
        assert failure.sqlstate == "42703"
        assert CANARY.lower() not in repr(failure).lower()


TOLD = {
    "SELECT id / (id - id) AS x FROM lab.masked ORDER BY x": ("DIVIDE_BY_ZERO", "22012", "try_divide"),
    "SELECT (SELECT max(CAST(name AS INT)) FROM lab.masked) AS x": (
        "CAST_INVALID_INPUT",
        "22018",
        "try_cast",
    ),
    "SELECT id FROM lab.masked WHERE id IN (SELECT CAST(name AS INT) FROM lab.masked)": (
        "CAST_INVALID_INPUT",
        "22018",
        '"STRING" cannot be cast to "INT"',
    ),
    "SELECT date_format(DATE'2020-01-01', 'YYYY-ww'), id FROM lab.masked ORDER BY id": (
        "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION",
        "42K0B",
        "spark.sql.legacy.timeParserPolicy",
    ),
    "SELECT (SELECT id FROM lab.masked UNION ALL SELECT id FROM lab.masked) AS x, id FROM lab.masked": (
        "SCALAR_SUBQUERY_TOO_MANY_ROWS",
        "21000",
        "More than one row returned",
    ),
}
"""What fails under obligations while it runs: condition, SQLSTATE and what else has to be told."""
OF_ROWS = "SELECT id FROM lab.masked WHERE note LIKE concat(name, note, '/') ESCAPE '/'"
"""Spark raises it as it does what the analysis finds, and quotes the pattern of a row."""


@pytest.mark.parametrize("endpoint", ["thrift", "thrift, synchronously", "connect"])
def test_errors_under_obligations_keep_their_class(lab_gateway: RunningGateway, endpoint: str) -> None:
    with contextlib.ExitStack() as opened:
        if endpoint.startswith("thrift"):
            client = opened.enter_context(WireClient(lab_gateway.host, lab_gateway.port, "mallory", PASSWORD))
            side = Side(client, client.open_session())
            failures = {
                text: over_thrift(side, text, run_async=endpoint == "thrift") for text in (*TOLD, OF_ROWS)
            }
        else:
            session = opened.enter_context(lab_gateway.session("mallory", PASSWORD))
            failures = {text: over_connect(session, in_sql(text)) for text in (*TOLD, OF_ROWS)}
    for text, (condition, sqlstate, more) in TOLD.items():
        failure = failures[text]
        assert failure is not None, text
        assert f"[{condition}] " in failure.text
        assert f"SQLSTATE: {sqlstate}" in failure.text
        if "max(CAST" not in text:
            # Of the cause of a wait, which a stack prints, the name alone is taken.
            assert more in failure.text
        if endpoint.startswith("thrift"):
            assert failure.sqlstate == sqlstate
    of_rows = failures[OF_ROWS]
    assert of_rows is not None
    assert "[INVALID_FORMAT.ESC_AT_THE_END] The format is invalid: ***" in of_rows.text
    assert "Ann" not in repr(failures)
    assert CANARY not in repr(failures)


def test_a_type_that_thrift_lacks_is_the_trouble(lab_gateway: RunningGateway) -> None:
    with WireClient(lab_gateway.host, lab_gateway.port, "mallory", PASSWORD) as client:
        operation = client.execute(client.open_session(), "SELECT parse_json('1') AS v, id FROM lab.masked")
        request = calls.TGetResultSetMetadataReq(operationHandle=operation)
        told = client.ask("GetResultSetMetadata", request).status.errorMessage
    assert told == f"Unrecognized type name: variant: {CAST_IT}"


def test_what_a_table_cannot_do_is_said_under_obligations(lab_gateway: RunningGateway, spark: Spark) -> None:
    merge = (
        "MERGE INTO lab.late_merge AS t USING lab.masked AS s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
    )
    spark.query("CREATE TABLE IF NOT EXISTS lab.tmp_merge (id INT) USING parquet", user="loader")
    merge = merge.replace("late_merge", "tmp_merge")
    with WireClient(lab_gateway.host, lab_gateway.port, "mallory", PASSWORD) as client:
        failure = over_thrift(Side(client, client.open_session()), merge)
    with lab_gateway.session("mallory", PASSWORD) as session:
        other = over_connect(session, in_sql(merge))
    for one in (failure, other):
        assert one is not None
        assert one.sqlstate == "0A000"
        assert "does not support MERGE INTO TABLE" in one.text
