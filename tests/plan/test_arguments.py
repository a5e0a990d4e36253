"""Arguments of SQL texts: what Spark writes into the text safely, and nothing else."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pytest
from pyspark.sql.connect import functions as fn

from gateway.model.reading import Reading
from gateway.plan.arguments import argument_refusal, queries_of_view, with_written_arguments
from gateway.plan.reading import SqlText
from gateway.reader.pool import ReaderPool
from gateway.wire.connect import pb

EVIL = "x', (SELECT max(ssn) FROM lab.secret)) --"


def literal(**fields: Any) -> Any:
    return pb.Expression.Literal(**fields)


def type_of(**fields: Any) -> Any:
    return pb.DataType(**fields)


def struct_type(name: str = EVIL) -> Any:
    kind = type_of()
    kind.struct.fields.add(name=name, data_type=type_of(string=pb.DataType.String()))
    return kind


def of_values(value: Any) -> Any:
    """The relation with the value as an argument, as PySpark builds it."""
    sql = pb.SQL(query="SELECT :x")
    column: Any = fn.lit(value)
    sql.named_arguments["x"].CopyFrom(column._expr.to_plan(None))
    return sql


@pytest.mark.parametrize(
    "value",
    [
        1,
        1.5,
        -2,
        True,
        None,
        "it's",
        EVIL,
        b"ab",
        decimal.Decimal("1.50"),
        dt.date(2020, 1, 1),
        dt.datetime(2020, 1, 1, 2, 3, tzinfo=dt.UTC),
        dt.timedelta(days=1),
        dt.time(1, 2),
        [1, 2],
        ["a", "b"],
        [],
        np.array([1, 2]),
    ],
    ids=repr,
)
def test_values_that_pyspark_sends(value: Any) -> None:
    assert argument_refusal(of_values(value)) is None


STRING = type_of(string=pb.DataType.String())
COLLATED = type_of(string=pb.DataType.String(collation="UTF8_LCASE"))
ONE = literal(string="a")


def array_of(element: Any, kind: Any = STRING) -> Any:
    return literal(array=pb.Expression.Literal.Array(element_type=kind, elements=[element]))


LITERALS = [
    literal(struct=pb.Expression.Literal.Struct(struct_type=struct_type(), elements=[ONE])),
    literal(null=struct_type()),
    literal(string="a", data_type=struct_type()),
    literal(null=type_of(unparsed=pb.DataType.Unparsed(data_type_string="struct<a: int>"))),
    literal(null=type_of(udt=pb.DataType.UDT(jvm_class="x.Y"))),
    literal(null=type_of(array=pb.DataType.Array(element_type=struct_type()))),
    literal(null=type_of(map=pb.DataType.Map(key_type=STRING, value_type=struct_type()))),
    literal(null=COLLATED),
    array_of(ONE, struct_type()),
    array_of(literal(struct=pb.Expression.Literal.Struct(struct_type=struct_type(), elements=[ONE]))),
    array_of(array_of(literal(null=struct_type()))),
    literal(
        map=pb.Expression.Literal.Map(
            key_type=STRING, value_type=STRING, keys=[ONE], values=[literal(null=struct_type())]
        )
    ),
    literal(),
]


@pytest.mark.parametrize("value", LITERALS, ids=lambda value: str(value)[:40])
def test_literals_with_names_in_them(value: Any) -> None:
    named, positional = pb.SQL(), pb.SQL(pos_args=[value])
    named.args["x"].CopyFrom(value)
    expressions = pb.SQL(pos_arguments=[pb.Expression(literal=value)])
    for sql in (named, positional, expressions):
        assert argument_refusal(sql) is not None


def call(name: str, *arguments: Any, **flags: bool) -> Any:
    function = pb.Expression.UnresolvedFunction(function_name=name, arguments=arguments, **flags)
    return pb.Expression(unresolved_function=function)


A = pb.Expression(literal=ONE)

EXPRESSIONS = [
    pb.Expression(expression_string=pb.Expression.ExpressionString(expression="(SELECT 1 FROM secret)")),
    pb.Expression(
        unresolved_attribute=pb.Expression.UnresolvedAttribute(unparsed_identifier="`x) FROM secret --`")
    ),
    pb.Expression(alias=pb.Expression.Alias(expr=A, name=["x FROM secret --"])),
    call("named_struct", A, A),
    call("struct", A),
    call("upper", A),
    call(EVIL, A),
    call("array", A, is_user_defined_function=True),
    call("array", call("upper", A)),
    pb.Expression(cast=pb.Expression.Cast(expr=A, type_str="STRING) FROM secret --")),
    pb.Expression(cast=pb.Expression.Cast(expr=A, type=struct_type())),
    pb.Expression(),
]


@pytest.mark.parametrize("value", EXPRESSIONS, ids=lambda value: str(value)[:40])
def test_expressions_that_are_no_values(value: Any) -> None:
    sql = pb.SQL()
    sql.named_arguments["x"].CopyFrom(value)
    assert argument_refusal(sql) is not None
    assert argument_refusal(pb.SQL(pos_arguments=[A, value])) is not None


def test_deep_arguments_need_no_stack() -> None:
    value = ONE
    for _ in range(40):
        value = array_of(value)
    assert argument_refusal(pb.SQL(pos_args=[value])) is None


def view_of(text: str, values: dict[str, Any]) -> SqlText:
    relation = pb.Relation()
    relation.sql.query = text
    for name, value in values.items():
        column: Any = fn.lit(value)
        relation.sql.named_arguments[name].CopyFrom(column._expr.to_plan(None))
    return SqlText(relation=relation, text=text, arguments=True, command=True)


@pytest.mark.asyncio(loop_scope="session")
async def test_values_are_written_into_the_text_of_a_temporary_view(reader: ReaderPool) -> None:
    values = {"a": "it's \\x", "b": -7, "c": None, "d": True, "e": dt.date(2020, 1, 2)}
    text = view_of("CREATE TEMP VIEW v COMMENT 'x AS y' AS SELECT :a AS a, :b, :c, :d, :e FROM t", values)
    found = []
    for before, query in queries_of_view(text):
        reading = await reader.read(query)
        if isinstance(reading, Reading):
            found.append((before, with_written_arguments(text, reading, query)))
    assert found == [
        (
            "CREATE TEMP VIEW v COMMENT 'x AS y' AS",
            " SELECT 'it\\'s \\\\x' AS a, -7, NULL, TRUE, DATE '2020-01-02' FROM t",
        )
    ]


@pytest.mark.asyncio(loop_scope="session")
async def test_what_is_not_written_is_left_to_be_refused(reader: ReaderPool) -> None:
    query = "SELECT a -:x FROM t"
    reading = await reader.read(query)
    assert isinstance(reading, Reading)
    assert with_written_arguments(view_of(query, {"x": -5}), reading, query) is None, "it would be a comment"
    query = "SELECT :x FROM t"
    reading = await reader.read(query)
    assert isinstance(reading, Reading)
    assert with_written_arguments(view_of(query, {"y": 1}), reading, query) is None
    assert with_written_arguments(view_of(query, {"x": [1, 2]}), reading, query) is None
    assert queries_of_view(view_of("CREATE VIEW v AS SELECT :x", {"x": 1})) == []
    assert queries_of_view(view_of("SELECT :x AS a", {"x": 1})) == []
