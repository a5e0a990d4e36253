"""Row filters of catalogs as Spark SQL: Iceberg's predicates, which are true or false and never NULL.

`=` holds of NULL and NULL, and `!=` of a value and NULL; a comparison with NULL or NaN does not hold. So each
test is written to give TRUE or FALSE, before it is negated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import pairwise

from gateway.model.catalog import quote
from gateway.model.restrictions import (
    SPARK_TYPES,
    Fixed,
    JoinedPredicates,
    JsonLiteral,
    LiteralComparison,
    LiteralMembership,
    Negated,
    Predicate,
    ReferenceTest,
    SchemaField,
    StructType,
    TableSchema,
)
from gateway.policy.sqltext import write_string_literal

_SIZED = re.compile(r"(?:(?P<decimal>decimal\((?P<precision>\d{1,2}),(?P<scale>\d{1,2})\))|fixed\[\d{1,6}\])")
_DECIMAL = re.compile(r"-?(\d{1,38})(?:\.(\d{1,38}))?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)(\+00:00)?", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2}){0,65536}", re.ASCII)
_BITS = {"int": 31, "long": 63}
_FLOATS = ("float", "double")
_EQUAL_ONLY = ("boolean", "uuid", "binary")
"""Types whose order differs from Spark's, or means nothing."""
_OPERATORS = {"lt": "<", "lt-eq": "<=", "gt": ">", "gt-eq": ">="}


class Unenforceable(Exception):
    """A restriction that cannot be enforced; the message says which, and why."""


def spell_type(kind: str) -> str:
    """Return the type of Spark's that a primitive type of Iceberg's is. Raises Unenforceable."""
    found = _SIZED.fullmatch(kind)
    if found is not None:
        return found["decimal"] or "binary"
    if kind not in SPARK_TYPES:
        raise Unenforceable(f"the type `{kind}` is not supported")
    return SPARK_TYPES[kind]


def write_predicate(
    predicate: Predicate, schema: TableSchema, column: Callable[[str], str], qualifier: str
) -> str:
    """Return a predicate as Spark SQL that is TRUE or FALSE. `column` says how a column is called where it
    is read. Raises Unenforceable."""
    return _PredicateWriter(schema, column, qualifier).write(predicate)


class _PredicateWriter:
    def __init__(self, schema: TableSchema, column: Callable[[str], str], qualifier: str) -> None:
        self._schema = schema
        self._column = column
        self._b = qualifier

    def write(self, predicate: Predicate) -> str:
        match predicate:
            case Fixed():
                return "TRUE" if predicate.value else "FALSE"
            case Negated():
                return f"NOT ({self.write(predicate.child)})"
            case JoinedPredicates():
                left, right = self.write(predicate.left), self.write(predicate.right)
                return f"(({left}) {predicate.operator} ({right}))"
            case ReferenceTest():
                c, kind = self._find(predicate.reference, any_type=predicate.test == "is-null")
                if predicate.test == "is-null":
                    return f"{c} IS NULL"
                if kind not in _FLOATS:
                    raise Unenforceable(f"`is-nan` of the type `{kind}`")
                return f"{self._b}isnan({c})"
            case LiteralMembership():
                c, kind = self._find(predicate.reference)
                values = ", ".join(self._literal(one, kind) for one in predicate.values)
                return f"({c} IN ({values})) IS TRUE"  # RULE (restriction-two-valued-in)
            case LiteralComparison():
                return self._compare(predicate)

    def _compare(self, one: LiteralComparison) -> str:
        c, kind = self._find(one.reference)
        literal = self._literal(one.value, kind)
        if one.operator == "eq":
            return f"{c} <=> {literal}"
        if one.operator == "starts-with":
            if kind != "string":
                raise Unenforceable(f"`starts-with` of the type `{kind}`")
            return f"{self._b}startswith({c}, {literal}) IS TRUE"
        if kind in _EQUAL_ONLY or kind.startswith("fixed["):
            raise Unenforceable(f"`{one.operator}` of the type `{kind}`")
        test = f"({c} {_OPERATORS[one.operator]} {literal}) IS TRUE"  # RULE (restriction-two-valued)
        # To Spark, NaN is greater than every number.
        return f"({test} AND NOT {self._b}isnan({c}))" if kind in _FLOATS else test  # RULE (restriction-nan)

    def _find(self, ident: int, *, any_type: bool = False) -> tuple[str, str]:
        """Return how a field is written, and its type."""
        path = self._schema.find(ident)
        if not path:  # RULE (restriction-filter-column)
            raise Unenforceable(
                f"its row filter reads the field id {ident}, which this version does not have"
            )
        text = quote(self._column(path[0].name))
        for above, one in pairwise(path):
            if not isinstance(above.type, StructType):
                raise Unenforceable(f"its row filter reads a field within a list or map (id {ident})")
            text = f"{text}.{quote(one.name)}"
        return text, self._kind(path[-1], any_type=any_type)

    @staticmethod
    def _kind(one: SchemaField, *, any_type: bool) -> str:
        if isinstance(one.type, str):
            spell_type(one.type)
            return one.type
        if any_type:
            return ""
        raise Unenforceable(f"its row filter compares `{one.name}`, which is not a single value")

    def _literal(self, one: JsonLiteral, kind: str) -> str:
        text = self._write(one.value, kind) if one.type in ("", kind) else None
        if text is None:  # RULE (restriction-literal)
            raise Unenforceable(f"a literal of its row filter is not of the type `{kind}`")
        return text

    @staticmethod
    def _write(value: str | int | float | bool, kind: str) -> str | None:
        if isinstance(value, bool) or kind == "boolean":
            return str(value).upper() if isinstance(value, bool) and kind == "boolean" else None
        if kind in _BITS:
            bound = 1 << _BITS[kind]
            fits = isinstance(value, int) and -bound <= value < bound
            return f"CAST('{value}' AS {SPARK_TYPES[kind]})" if fits else None
        if kind in _FLOATS:
            if isinstance(value, str) or not math.isfinite(value):
                return None
            return f"CAST('{value!r}' AS {kind})"
        if not isinstance(value, str):
            return None
        if kind == "string":
            return write_string_literal(value)
        if kind == "date":
            return f"DATE'{value}'" if _DATE.fullmatch(value) else None
        if kind in ("timestamp", "timestamptz"):
            found = _TIME.fullmatch(value)
            if found is None or bool(found[3]) != (kind == "timestamptz"):
                return None
            keyword = "TIMESTAMP_LTZ" if found[3] else "TIMESTAMP_NTZ"
            return f"{keyword}'{found[1]} {found[2]}{found[3] or ''}'"
        if kind == "uuid":
            return f"'{value.lower()}'" if _UUID.fullmatch(value.lower()) else None
        if kind == "binary" or kind.startswith("fixed["):
            return f"X'{value.upper()}'" if _HEX.fullmatch(value) else None
        sized = _SIZED.fullmatch(kind)
        digits = _DECIMAL.fullmatch(value)
        if sized is None or sized["decimal"] is None or digits is None:
            return None
        scale, precision = int(sized["scale"]), int(sized["precision"])
        fits = len(digits[2] or "") == scale and len(digits[1].lstrip("0")) <= precision - scale
        return f"CAST('{value}' AS {kind})" if fits else None
