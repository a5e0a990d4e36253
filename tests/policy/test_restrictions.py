"""What catalogs restrict as filters and masks; tests/e2e/test_restrictions_spark.py runs them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.model.catalog import Renamed
from gateway.model.decision import ColumnMask, PolicyRef, RowFilter
from gateway.model.restrictions import ACTIONS, SALT_MARK
from gateway.policy.masks import null_of
from gateway.policy.restrictions import restrict_view
from tests.policy.restricted_tables import OPEN, answer, restricted, schema, table

PLAIN = schema({"id": "long", "name": "string", "day": "date"}, required=("id",))
NESTED: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"id": 12, "name": "x", "type": "string", "required": False},
        {
            "id": 13,
            "name": "m",
            "required": False,
            "type": {
                "type": "map",
                "key-id": 14,
                "key": "string",
                "value-id": 15,
                "value": "string",
                "value-required": False,
            },
        },
    ],
}
OWN = PolicyRef(id=7, name="own", version=2)
IS_EU = {"type": "eq", "left": {"type": "reference", "id": 2}, "right": "EU"}


def test_the_record_says_which_came_from_the_catalog() -> None:
    view = restricted(answer(PLAIN, row_filter=IS_EU, columns={2: "mask-alphanum"}))
    mask = view.masks["name"]
    assert (mask.mask_type, mask.policy) == ("mask-alphanum", PolicyRef(name="catalog lake"))
    assert view.row_filter == RowFilter(expression="`name` <=> 'EU'", policy=PolicyRef(name="catalog lake"))
    assert not view.uniform()
    assert not view.hidden


def test_filters_of_both_are_joined_and_two_masks_are_null() -> None:
    own = replace(
        OPEN,
        masks={"name": ColumnMask(column="name", mask_type="MASK", expression="'x'", policy=OWN)},
        row_filter=RowFilter(expression="id > 3", policy=OWN),
    )
    view = restricted(answer(PLAIN, row_filter=IS_EU, columns={2: "mask-alphanum"}), own)
    assert view.masks["name"].expression == null_of("name")
    assert view.masks["name"].policy == replace(OWN, name="own and catalog lake")
    assert view.row_filter is not None
    assert view.row_filter.expression == "(id > 3) AND (`name` <=> 'EU')"
    assert view.row_filter.policy == replace(OWN, name="own and catalog lake")


def test_masks_of_one_side_stay() -> None:
    own = replace(
        OPEN, masks={"day": ColumnMask(column="day", mask_type="MASK", expression="'x'", policy=OWN)}
    )
    view = restricted(answer(PLAIN, columns={2: "mask-alphanum"}), own)
    assert view.masks["day"] == own.masks["day"]
    assert set(view.masks) == {"day", "name"}


CLOSED: list[tuple[dict[str, Any], str]] = [
    ({"columns": {1: "mask-alphanum"}}, "`mask-alphanum` is not made for the type of field `id`"),
    ({"columns": {3: "sha-256-global"}}, "is not made for the type"),
    ({"columns": {2: "truncate-to-year"}}, "is not made for the type"),
    ({"columns": {1: "replace-with-null"}}, "of the required field `id`"),
    ({"columns": {2: "mask-all"}}, "unknown action `mask-all`"),
    ({"columns": {99: "mask-alphanum"}}, "no schema of the table has the field id 99"),
    (
        {
            "row_filter": {
                "type": "lt",
                "left": {"type": "reference", "id": 3},
                "right": "2020-01-01T00:00:00",
            }
        },
        "not of the type `date`",
    ),
    (
        {"row_filter": {"type": "eq", "left": {"type": "reference", "id": 1}, "right": 2**63}},
        "not of the type",
    ),
    (
        {"row_filter": {"type": "eq", "left": {"type": "reference", "id": 1}, "right": True}},
        "not of the type",
    ),
    ({"row_filter": {"type": "is-nan", "child": {"type": "reference", "id": 1}}}, "`is-nan` of the type"),
    (
        {
            "row_filter": {
                "type": "eq",
                "left": {"type": "reference", "id": 1},
                "right": {"type": "literal", "value": 1, "data-type": "int"},
            }
        },
        "not of the type `long`",
    ),
    (
        {"row_filter": {"type": "starts-with", "left": {"type": "reference", "id": 1}, "right": 1}},
        "`starts-with` of the type `long`",
    ),
]


@pytest.mark.parametrize(("restrictions", "named"), CLOSED)
def test_what_cannot_be_enforced_closes_the_table_and_is_named(
    restrictions: dict[str, Any], named: str
) -> None:
    view = restricted(answer(PLAIN, **restrictions))
    assert "catalog `lake` restricts table lake.sales.t" in view.closed
    assert named in view.closed
    assert view.hidden == {"id", "name", "day"}


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({11: "mask-to-fixed-value", 12: "mask-alphanum"}, "both field 11 and field 12"),
        ({13: "replace-with-null", 15: "mask-alphanum"}, "both field 13 and field 15"),
        ({14: "mask-alphanum"}, "the key of a map"),
        ({11: "mask-alphanum"}, "is not made for the type"),
    ],
)
def test_nested_rules(columns: dict[int, str], named: str) -> None:
    told = answer(schema({"s": NESTED}), columns=columns)
    told["metadata"]["schemas"][0]["fields"][0]["id"] = 11
    assert named in restricted(told).closed


@pytest.mark.parametrize("kind", ["time", "timestamp_ns", "timestamptz_ns", "variant", "geometry", "unknown"])
@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_types_that_spark_shows_otherwise_close_the_table(kind: str, action: str) -> None:
    assert restricted(answer(schema({"c": kind}), columns={1: action})).closed


def test_a_column_that_spark_has_of_another_type_closes_the_table() -> None:
    told = answer(schema({"c": "string"}), columns={1: "mask-alphanum"})
    assert "which is not its type" in restricted(told, names={"c": "long"}).closed


def test_no_answer_closes_the_table() -> None:
    told = table(answer(PLAIN))
    assert told.restrictions is not None
    silent = replace(told, restrictions=replace(told.restrictions, fault="it gives no answer"))
    assert restrict_view(OPEN, silent).closed.endswith("it gives no answer")


def test_an_open_table_is_as_it_was() -> None:
    assert restricted(answer(PLAIN)) is OPEN
    assert restrict_view(OPEN, replace(table(answer(PLAIN)), restrictions=None)) is OPEN


def test_without_a_salt_nothing_is_hashed_for_a_query() -> None:
    told = table(answer(PLAIN, columns={2: "sha-256-query-local"}))
    assert told.restrictions is not None
    assert SALT_MARK in restrict_view(OPEN, told).masks["name"].expression
    for salt in ("", "00" * 32, SALT_MARK):
        unsalted = replace(told, restrictions=replace(told.restrictions, salt=salt))
        assert "outside of a statement" in restrict_view(OPEN, unsalted).closed


# Ids, not names.

BEFORE = schema({"a": "string", "b": "string"})
SWAPPED = {
    **schema({"b": "string", "a": "string"}, ident=1),
}


def test_a_renamed_column_keeps_its_mask() -> None:
    told = answer(
        BEFORE, schema({"c": "string", "b": "string"}, ident=1), current=1, columns={1: "mask-alphanum"}
    )
    assert set(restricted(told).masks) == {"c"}
    then = table(told, version="VERSION AS OF 1", names={"a": "string", "b": "string"})
    then = replace(then, renamed=(Renamed(then="a", now="c", gone=True),))
    mask = restrict_view(OPEN, then).masks["a"]
    assert mask.expression.startswith("CASE WHEN FALSE THEN `c` ")


def test_a_dropped_column_is_found_in_the_version_that_has_it() -> None:
    told = answer(BEFORE, schema({"a": "string"}, ident=1), current=1, columns={2: "mask-alphanum"})
    assert not restricted(told).masks
    assert set(restricted(told, version="VERSION AS OF 1", names={"a": "string", "b": "string"}).masks) == {
        "b"
    }


def test_restrictions_by_names_are_of_no_version() -> None:
    """Its columns may be called as they are now, and be others."""
    now = table(answer(BEFORE, columns={1: "mask-alphanum"}))
    assert now.restrictions is not None
    by_names = replace(now, restrictions=replace(now.restrictions, by_names=True))
    assert set(restrict_view(OPEN, by_names).masks) == {"a"}
    then = replace(by_names, name=replace(by_names.name, version="VERSION AS OF 1"))
    assert "not in a version" in restrict_view(OPEN, then).closed


def test_a_version_that_could_have_two_schemas_is_refused_where_it_matters() -> None:
    twice = {**schema({"a": "string", "b": "string"}, ident=1)}
    twice["fields"] = [{**one, "id": 3 - one["id"]} for one in twice["fields"]]
    now = schema({"a": "string"}, ident=2)
    told = answer(BEFORE, twice, now, current=2, columns={1: "mask-alphanum"})
    names = {"a": "string", "b": "string"}
    assert "not known which schema" in restricted(told, version="VERSION AS OF 1", names=names).closed
    assert "not known which schema" in restricted(told, version="VERSION AS OF 1", names={"x": "int"}).closed


def test_columns_that_are_not_those_of_now_are_refused() -> None:
    told = answer(BEFORE, columns={1: "mask-alphanum"})
    assert "its columns have changed" in restricted(told, names={"b": "string", "a": "string"}).closed


def test_a_filter_on_a_column_that_a_version_lacks_is_refused() -> None:
    now = schema({"a": "string", "b": "string", "c": "string"}, ident=1)
    predicate = {"type": "is-null", "child": {"type": "reference", "id": 3}}
    told = answer(BEFORE, now, current=1, row_filter=predicate)
    view = restricted(told, version="VERSION AS OF 1", names={"a": "string", "b": "string"})
    assert "which this version does not have" in view.closed


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        ("string", "it's", "`c` <=> CAST(X'69742773' AS STRING)"),
        ("binary", "0aFF", "`c` <=> X'0AFF'"),
        ("uuid", "F79C3E09-677C-4BBD-A479-3F349CB785E7", "`c` <=> 'f79c3e09-677c-4bbd-a479-3f349cb785e7'"),
        ("date", "2017-11-16", "`c` <=> DATE'2017-11-16'"),
        ("timestamp", "2017-11-16T22:31:08.5", "`c` <=> TIMESTAMP_NTZ'2017-11-16 22:31:08.5'"),
        ("timestamptz", "2017-11-16T22:31:08+00:00", "`c` <=> TIMESTAMP_LTZ'2017-11-16 22:31:08+00:00'"),
        ("decimal(9,2)", "14.20", "`c` <=> CAST('14.20' AS decimal(9,2))"),
        ("boolean", True, "`c` <=> TRUE"),
    ],
)
def test_literals(kind: str, value: Any, written: str) -> None:
    predicate = {"type": "eq", "left": {"type": "reference", "id": 1}, "right": value}
    view = restricted(answer(schema({"c": kind}), row_filter=predicate))
    assert view.row_filter is not None, view.closed
    assert view.row_filter.expression == written


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("timestamp", "2017-11-16T22:31:08+00:00"),
        ("timestamptz", "2017-11-16T22:31:08"),
        ("timestamptz", "2017-11-16T22:31:08+01:00"),
        ("decimal(9,2)", "14.2"),
        ("decimal(3,2)", "14.20"),
        ("decimal(9,2)", 14.2),
        ("date", "2017-11-16' OR '1'='1"),
        ("binary", "zz"),
        ("double", float("inf")),
        ("string", 1),
    ],
)
def test_literals_of_another_form_are_refused(kind: str, value: Any) -> None:
    predicate = {"type": "eq", "left": {"type": "reference", "id": 1}, "right": value}
    assert "not of the type" in restricted(answer(schema({"c": kind}), row_filter=predicate)).closed


@pytest.mark.parametrize(
    ("kind", "predicate", "written"),
    [
        ("long", {"type": "in", "values": [1]}, "(`c` IN (CAST('1' AS bigint))) IS TRUE"),
        ("long", {"type": "lt", "right": 1}, "(`c` < CAST('1' AS bigint)) IS TRUE"),
        ("long", {"type": "not-eq", "right": 1}, "NOT (`c` <=> CAST('1' AS bigint))"),
        (
            "double",
            {"type": "gt", "right": 1.5},
            "((`c` > CAST('1.5' AS double)) IS TRUE AND NOT isnan(`c`))",
        ),
        ("string", {"type": "not-starts-with", "right": "a"}, "NOT (startswith(`c`, 'a') IS TRUE)"),
    ],
)
def test_predicates_are_true_or_false(kind: str, predicate: dict[str, Any], written: str) -> None:
    column = {"type": "reference", "id": 1}
    side = "child" if "values" in predicate else "left"
    view = restricted(answer(schema({"c": kind}), row_filter={**predicate, side: column}))
    assert view.row_filter is not None, view.closed
    assert view.row_filter.expression == written
