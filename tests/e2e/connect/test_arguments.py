"""Arguments of SQL texts: values work as on Spark itself, and none of them becomes SQL.

Spark writes each argument into the text and parses the result. Both attacks read a table of somebody else's
through Spark itself, which is what makes their refusal by the gateway mean something.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors.exceptions.connect import AnalysisException, SparkConnectException
from pyspark.sql.connect.proto import DataType, Expression, Plan

from tests.e2e.lab import CANARY, PASSWORD
from tests.e2e.running import RunningGateway, Spark

pytestmark = pytest.mark.in_turn(2)

USER = "mallory"


@pytest.fixture(scope="module")
def through(lab_gateway: RunningGateway) -> Iterator[Any]:
    with lab_gateway.session(USER, PASSWORD) as session:
        yield session


@pytest.fixture(scope="module")
def direct(spark: Spark, lab_gateway: RunningGateway) -> Iterator[Any]:
    """After the gateway, which makes the tables."""
    with spark.session() as session:
        yield session


def rows(session: Any, plan: Plan) -> str:
    table, *_ = session.client.to_table(plan, {})
    return str(table.to_pylist())


def struct_with_sql_in_a_name() -> Plan:
    plan = Plan()
    plan.root.sql.query = "SELECT :x AS v\nFROM lab.ok"
    value = plan.root.sql.named_arguments["x"].literal
    text = DataType(string=DataType.String())
    value.struct.struct_type.struct.fields.add(
        name="x', (SELECT max(ssn) FROM lab.secret)) AS w --", data_type=text, nullable=True
    )
    value.struct.elements.append(Expression.Literal(string="a"))
    return plan


def minus_that_makes_a_comment() -> Plan:
    plan = Plan()
    plan.root.sql.query = "SELECT a -? , '\n AS a, ssn FROM lab.secret --' FROM lab.ok"
    plan.root.sql.pos_arguments.append(Expression(literal=Expression.Literal(integer=-5)))
    return plan


ATTACKS = {"struct": struct_with_sql_in_a_name, "comment": minus_that_makes_a_comment}


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_attack_works_on_spark_itself(direct: Any, attack: str) -> None:
    assert CANARY in rows(direct, ATTACKS[attack]())


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_attack_is_refused(through: Any, attack: str) -> None:
    with pytest.raises(SparkConnectException, match="SLUICE_NOT_GOVERNABLE") as refused:
        rows(through, ATTACKS[attack]())
    assert CANARY not in str(refused.value)


def test_an_argument_that_is_a_name_is_judged_as_one(through: Any, direct: Any) -> None:
    with pytest.raises(SparkConnectException, match="SLUICE_ACCESS_DENIED") as refused:
        through.sql("SELECT * FROM IDENTIFIER(:x)", args={"x": "lab.secret"}).collect()
    assert CANARY not in str(refused.value)
    told = []
    for session in (through, direct):
        table = session.sql("SELECT * FROM IDENTIFIER(:x) ORDER BY ALL", args={"x": "lab.ok"})
        column = session.sql("SELECT max(IDENTIFIER(:x)) AS m FROM lab.ok", args={"x": "a"})
        with pytest.raises(AnalysisException) as unknown:
            session.sql("SELECT max(IDENTIFIER(:x)) FROM lab.ok", args={"x": "lab.secret"}).collect()
        told.append([table.collect(), column.collect(), unknown.value.getCondition()])
    assert told[0] == told[1]


VALUES: dict[str, Any] = {
    "int": 7,
    "negative": -7,
    "string": 'it\'s \\ "x" -- ?',
    "null": None,
    "bool": True,
    "float": 1.25,
    "decimal": decimal.Decimal("1.50"),
    "date": dt.date(2020, 1, 2),
    "timestamp": dt.datetime(2020, 1, 2, 3, 4, 5),  # noqa: DTZ001 - PySpark takes it in the session's zone
    "interval": dt.timedelta(days=1, seconds=2),
    "bytes": b"\x00a",
    "list": ["a", "it's"],
}


@pytest.mark.parametrize("name", VALUES)
def test_values(through: Any, direct: Any, name: str) -> None:
    named = "SELECT :x AS v, a FROM lab.ok WHERE :x IS NULL OR a < :n ORDER BY a LIMIT :n"
    positional = "SELECT ? AS v, count(*) AS n FROM lab.ok WHERE a < ?"
    answers = []
    for session in (through, direct):
        by_name = session.sql(named, args={"x": VALUES[name], "n": 5})
        by_place = session.sql(positional, args=[VALUES[name], 5])
        answers.append([by_name.schema, by_name.collect(), by_place.schema, by_place.collect()])
    assert answers[0] == answers[1]


def test_a_temporary_view_of_values(through: Any, direct: Any) -> None:
    """Spark writes the values into the view's text, and so does the gateway: nothing later binds them."""
    named = "CREATE OR REPLACE TEMP VIEW of_values AS SELECT a, :x AS v, :x FROM lab.ok WHERE a < :n"
    positional = "CREATE OR REPLACE TEMPORARY VIEW of_places AS SELECT a, ? AS v FROM lab.ok WHERE a < ?"
    answers = []
    for session in (through, direct):
        for value in ('it\'s \\ "x" -- ?', -7, True, None, dt.date(2020, 1, 2)):
            session.sql(named, args={"x": value, "n": 5})
            session.sql(positional, args=[value, 5])
            for view in ("of_values", "of_places"):
                table = session.sql(f"SELECT * FROM {view} ORDER BY a")
                answers.append([table.schema, table.collect()])
    half = len(answers) // 2
    assert answers[:half] == answers[half:]
    with pytest.raises(SparkConnectException, match="SLUICE_ACCESS_DENIED") as refused:
        through.sql("CREATE TEMP VIEW no AS SELECT ssn, :x AS v FROM lab.secret", args={"x": 1})
    assert CANARY not in str(refused.value)
