"""Gravitino's row filters and masks: read whole, and what is not certain is not shown."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from gateway.catalog.gravitino_policies import (
    MAX_OPERATORS,
    PolicyNotConvertible,
    PolicySubject,
    read_column_mask,
    read_row_filter,
)
from gateway.model.restrictions import (
    FilterColumn,
    Fixed,
    JoinedPredicates,
    LiteralComparison,
    LiteralMembership,
    Negated,
    Predicate,
    ReferenceTest,
    SchemaField,
    TableSchema,
)
from gateway.policy.restricted_rows import write_predicate

KINDS = {
    "region": "string",
    "owner": "string",
    "n": "int",
    "f": "double",
    "b": "boolean",
    "x": "decimal(9,2)",
    "day": "date",
    "odd": "",
}
COLUMNS = {name: FilterColumn(at, kind) for at, (name, kind) in enumerate(KINDS.items(), 1)}


def holds(predicate: Predicate, row: tuple[Any, ...], *, orders_null: bool) -> bool:
    """Evaluate as one of the readings of Iceberg's predicates does: NULL and NaN are smaller than all, or in
    no order."""
    match predicate:
        case Fixed():
            return predicate.value
        case Negated():
            return not holds(predicate.child, row, orders_null=orders_null)
        case JoinedPredicates():
            both = [holds(one, row, orders_null=orders_null) for one in (predicate.left, predicate.right)]
            return all(both) if predicate.operator == "AND" else any(both)
    value = row[predicate.reference - 1]
    match predicate:
        case ReferenceTest():
            return value is None if predicate.test == "is-null" else value != value
        case LiteralMembership():
            return value in [one.value for one in predicate.values]
        case LiteralComparison():
            wanted: Any = predicate.value.value
            if predicate.operator == "eq":
                return bool(value == wanted)
            if value is None or value != value:
                return orders_null and predicate.operator in ("lt", "lt-eq")
            ordered: dict[str, bool] = {
                "lt": value < wanted,
                "lt-eq": value <= wanted,
                "gt": value > wanted,
                "gt-eq": value >= wanted,
            }
            return ordered[predicate.operator]
    raise AssertionError(predicate)


def kept(text: str, rows: list[tuple[Any, ...]], user: str = "bob", *groups: str) -> list[int]:
    predicate = read_row_filter(text).bind(PolicySubject(user, frozenset(groups), COLUMNS))
    found = [
        [at for at, row in enumerate(rows) if holds(predicate, row, orders_null=order)]
        for order in (True, False)
    ]
    assert found[0] == found[1], "two readings show different rows"
    return found[0]


ROWS: list[tuple[Any, ...]] = [
    ("US", "bob", 5, 0.5, True),
    ("DE", "ann", 7, math.nan, False),
    (None, None, None, None, None),
    ("US", "ann", -1, 9.0, True),
]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('filter := col("region") == "US"', [0, 3]),
        ('filter := col("region") != "US"', [1, 2]),
        ('filter := col("REGION") != "US"', [1, 2]),
        ('filter := "US" == col("region") and col("n") > 0', [0]),
        ('filter := not (col("region") == "US")', [1, 2]),
        ('filter := not col("n") < 6', [1]),
        ('filter := 6 > col("n")', [0, 3]),
        ('filter := col("f") < 1', [0]),
        ('filter := not (col("f") < 1)', [3]),
        ('filter := not (not (col("f") >= 1))', [3]),
        ('filter := col("n") == null', [2]),
        ('filter := null != col("n")', [0, 1, 3]),
        ('filter := col("n") in [5, 7]', [0, 1]),
        ('filter := not col("n") in [5, 7]', [2, 3]),
        ('filter := col("owner") == session_user()', [0]),
        ('filter := session_user() != col("owner")', [1, 2, 3]),
        ('filter := session_user() == "bob"', [0, 1, 2, 3]),
        ('filter := session_user() in ["ann", "eve"]', []),
        ('filter := is_group_member("auditors")', []),
        ('filter := not is_group_member("auditors")', [0, 1, 2, 3]),
        ('filter := col("b") == true or false', [0, 3]),
        ('filter := col("region") == "US" if is_group_member("auditors") else := col("n") == 7', [1]),
        # A condition on rows that is not certain of a row shows it by no branch.
        ('filter := true if col("n") > 6 else := true', [0, 1, 3]),
        ('filter := false if col("n") > 6 else := true if col("f") > 1 else := false', [3]),
    ],
)
def test_a_filter_keeps_what_every_reading_keeps(text: str, rows: list[int]) -> None:
    assert kept(text, ROWS) == rows


def test_a_long_policy_is_read_bound_and_written() -> None:
    """As many conditions as there may be nest as deep."""
    long = 'filter := col("n") == 1' + ' or col("n") == 1' * MAX_OPERATORS
    branches = 'filter := col("n") < 0' + ' if col("n") < 6 else := col("n") > 5' * MAX_OPERATORS
    fields = (SchemaField(id=3, name="n", type="int", required=False),)
    for text, rows in ((long, []), (branches, [1, 3])):
        program = read_row_filter(text)
        assert program.groups == frozenset()
        assert kept(text, ROWS) == rows
        predicate = program.bind(PolicySubject("bob", frozenset(), COLUMNS))
        assert hash(predicate)
        assert write_predicate(predicate, TableSchema(id=0, fields=fields), str, "")


def test_whom_it_is_for_counts() -> None:
    text = (
        'filter := col("region") == "US" if is_group_member("auditors") else := '
        'col("owner") == session_user()'
    )
    assert kept(text, ROWS, "ann", "auditors") == [0, 3]
    assert kept(text, ROWS, "ann") == [1, 3]
    assert kept(text, ROWS, "auditors") == []


ODD = [
    "",
    "filter",
    "filter :=",
    "filter := ",
    'filter := col("n")',
    'filter := "x"',
    "filter := 5",
    'mask := action("show-last-4")',
    'filter := col("region") == "US" if is_group_member("a")',
    'filter := region == "US"',
    "filter := col(region) == 1",
    'filter := col("n") == col("n")',
    'filter := col("n") < null',
    'filter := session_user() < "x"',
    "filter := 1 == 1",
    'filter := col("n") in []',
    'filter := col("n") in [1, "a"]',
    'filter := col("n") in [null]',
    'filter := col("n") in [[1]]',
    'filter := col("n") in 5',
    'filter := col("n") == 5 == 5',
    'filter := col("n") == 05',
    'filter := col("n") == 5.',
    'filter := col("n") == +5',
    'filter := col("n") == 1e3',
    'filter := notcol("b") == true',
    "filter := truefalse",
    "filter := 1and",
    'filter := is_group_member("a") == true',
    'filter := lower(col("region")) == "us"',
    'filter := col("n") == 5 # x',
    "filter := col('n') == 5",
    'filter := col("n") == 5; filter := true',
    'filter := col("n") == "5"',
    'filter := col("n") == 5.5',
    'filter := col("region") == 5',
    'filter := col("absent") == 5',
    'filter := col("odd") == 5',
    'filter := col("b") < true',
    'filter := col("x") == 1.234',
    'filter := col("region") == "\\ud800"',
    "Filter := true",
    'filter := true "if" true else := false',
    'filter ":=" true',
    "filter := true else := true",
    "filter := true if 5 else := true",
    "filter := " + "(" * 60 + "true" + ")" * 60,
    "filter := " + "not " * 60 + "true",
    "filter := true" + " " * 20_000 + "or true",
    "filter := true" + " or true" * 101,
    "filter := true" + " if true else := true" * 101,
    "region = 'US'",
    "filter\u00a0:= true",
]


@pytest.mark.parametrize("text", ODD)
def test_what_is_not_understood_is_no_filter(text: str) -> None:
    with pytest.raises(PolicyNotConvertible):
        read_row_filter(text).bind(PolicySubject("bob", frozenset(), COLUMNS))


def test_a_decimal_and_a_date_are_written_as_they_are_told() -> None:
    for text, value in (
        ('col("x") == 1.5', "1.50"),
        ('col("x") == -2', "-2.00"),
        ('col("day") == "2020-01-31"', "2020-01-31"),
    ):
        found = read_row_filter(f"filter := {text}").bind(PolicySubject("bob", frozenset(), COLUMNS))
        assert isinstance(found, LiteralComparison)
        assert found.value.value == value


def test_a_mask_is_the_action_of_the_first_condition_that_is_met() -> None:
    text = (
        'mask := action("show-last-4") if is_group_member("support") else := action("sha-256-global") '
        'if session_user() == "eve" else := action("replace-with-null")'
    )
    mask = read_column_mask(text)
    assert mask.bind("bob", frozenset({"support"})) == "show-last-4"
    assert mask.bind("eve", frozenset()) == "sha-256-global"
    assert mask.bind("bob", frozenset({"Support"})) == "replace-with-null"
    assert read_column_mask('mask := action("mask-alphanum")').bind("bob", frozenset()) == "mask-alphanum"


@pytest.mark.parametrize(
    "text",
    [
        'mask := "show-last-4"',
        'mask := action("show-all")',
        'mask := action("show-last-4") if col("n") == 5 else := action("replace-with-null")',
        'mask := action("show-last-4") if not (true and col("n") == 5) else := action("replace-with-null")',
        'mask := action("show-last-4") if is_group_member("a")',
        'filter := action("show-last-4")',
        "mask := action(show-last-4)",
        "mask := true",
        'mask := action("show-last-4") action("show-last-4")',
    ],
)
def test_what_is_not_understood_is_no_mask(text: str) -> None:
    with pytest.raises(PolicyNotConvertible):
        read_column_mask(text).bind("bob", frozenset())


def test_random_filters_show_no_row_that_a_reading_hides() -> None:
    """Each pair of comparisons, joined and negated in each way, on rows with NULL and NaN."""
    atoms = [
        'col("n") < 6',
        'col("f") >= 1',
        'col("region") != "US"',
        'col("n") in [5]',
        'col("b") == true',
        'col("f") == null',
    ]
    for left, right, word in itertools.product(atoms, atoms, ("and", "or")):
        for text in (
            f"{left} {word} {right}",
            f"not ({left} {word} not {right})",
            f"{left} if {right} else := not {left}",
        ):
            kept(f"filter := {text}", ROWS)


def test_a_name_that_two_columns_have_is_of_neither() -> None:
    columns = {"a": FilterColumn(1, "int"), "A": FilterColumn(2, "int")}
    subject = PolicySubject("bob", frozenset(), columns)
    exact = read_row_filter('filter := col("A") == 1').bind(subject)
    assert isinstance(exact, LiteralComparison)
    assert exact.reference == 2
    columns = {"aB": FilterColumn(1, "int"), "Ab": FilterColumn(2, "int")}
    with pytest.raises(PolicyNotConvertible):
        read_row_filter('filter := col("ab") == 1').bind(PolicySubject("bob", frozenset(), columns))
