"""What packs say of limits: whom they speak of, which is the strictest, and what is wrong with them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.errors import Faults
from gateway.model.catalog import TableName
from gateway.model.limits import MEASURES, strictest
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import Resource
from gateway.policy.limits import limits_of, list_strictest
from gateway.policy.packs import load_packs
from tests.policy.packs.test_language import DEFINITIONS, faults, load

BOB = Principal(user="bob", groups=frozenset({"analysts"}))
ORDERS, OTHER = TableName("lake", "Sales", "orders"), TableName("lake", "hr", "people")
LIMITS = """
roles:
  heavy: {users: [bob]}
limits:
  - {name: everybody, groups: [public], running: 20, rows: 5000, seconds: 600}
  - {name: analysts, set_by: the data office, groups: [analysts], rows: 1000, bytes: 10 GiB}
  - {name: heavy, roles: [heavy], statements_per_day: 100, together: true}
  - {name: orders, groups: [public], on: {catalog: lake, database: sales, table: "ord*"}, rows: 10}
  - {name: etl, groups: [public], backends: [etl], running: 2}
  - {name: portal, users: [hue], statements_per_minute: 60}
"""


def names(found: PolicySet, principal: Principal, real: str = "", backend: str = "default") -> list[str]:
    return [one.limit.name for one in limits_of(found).find(principal, real, backend)]


def test_a_limit_speaks_of_users_groups_and_roles() -> None:
    found = load(LIMITS)
    assert names(found, BOB) == ["everybody", "analysts", "heavy", "orders"]
    assert names(found, Principal(user="ann")) == ["everybody", "orders"]
    for backend in ("etl", "etl@10.0.0.7"):
        assert names(found, Principal(user="ann"), backend=backend) == ["everybody", "orders", "etl"]


def test_who_acts_as_somebody_has_limits_that_name_the_one_who_logged_in() -> None:
    found = load(LIMITS)
    assert names(found, BOB, real="hue")[-1] == "portal"
    subjects = {one.limit.name: one.subject for one in limits_of(found).find(BOB, " 5d hue")}
    assert (subjects["everybody"], subjects["heavy"], subjects["portal"]) == ("bob", "", " 5d hue")
    # A group is whose name the statement has, not who sent it.
    assert "analysts" not in names(found, Principal(user="ann"), real="bob")


def test_of_several_limits_the_strictest_counts() -> None:
    index = limits_of(load(LIMITS))
    applied = index.find(BOB)

    def least(*tables: TableName) -> tuple[str, int]:
        found = strictest([one for one in applied if index.speaks_of(one.limit, tables)], "rows")
        assert found is not None
        return found[0].name, found[1]

    assert least(OTHER) == ("analysts", 1000)
    assert least(OTHER, ORDERS) == ("orders", 10)
    assert strictest(applied, "bytes_per_day") is None


def test_sizes_are_read_and_a_limit_knows_who_set_it_and_where() -> None:
    found = {one.name: one for one in load(LIMITS).limits}
    assert found["analysts"].bounds == {"rows": 1000, "bytes": 10 * 1024**3}
    assert found["analysts"].title == "limit `analysts`, set by the data office,"
    assert found["everybody"].title == "limit `everybody`, set by p0.yaml,"
    assert str(found["everybody"].place) == "p0.yaml:5"


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("{groups: [g], rows: 1}", "`name` is missing"),
        ("{name: a, rows: 1}", "a limit needs `users`, `groups` or `roles`"),
        ("{name: a, groups: [g]}", "a limit needs `filtered_by` or a number"),
        ("{name: a, groups: [g], filtered_by: [day]}", "`filtered_by` needs `on`"),
        ("{name: a, groups: [g], rows: 0}", "`rows` must be at least 1"),
        ("{name: a, groups: [g], rows: true}", "`rows` must be a whole number"),
        ("{name: a, groups: [g], rows: 10 GiB}", "`rows` must be a whole number"),
        ("{name: a, groups: [g], bytes: 10 GB}", "or a size such as `10 GiB`"),
        ("{name: a, groups: [g], row: 1}", "unknown key `row` in a limit (did you mean `rows`?)"),
        ("{name: a, groups: [g], running: 1, on: {catalog: c}}", "`running` counts before a table is read"),
        ("{name: a, groups: [g], rows: 1, on: {url: 's3://b'}}", "`on` cannot have `url`"),
        (
            '{name: a, groups: [g], rows: 1, on: {catalog: "{USER}"}}',
            "of a limit is a name or a pattern",
        ),
    ],
)
def test_a_fault_is_told_with_file_and_line(entry: str, told: str) -> None:
    found = faults(f"limits:\n  - {entry}\n")
    assert any(told in one and one.startswith("p0.yaml:2: ") for one in found), found


def test_a_name_is_there_once_in_all_packs() -> None:
    pack = "limits:\n  - {name: a, groups: [g], rows: 1}\n"
    assert faults(pack, pack) == ["p1.yaml:2: limit `a` already exists (p0.yaml:2)"]


def test_cases_ask_for_limits() -> None:
    cases = """
people: {bob: {groups: [analysts]}}
cases:
  - {as: bob, expect: {limits: {rows: 1000, running: 20, statements_per_hour: none}}}
  - {as: bob, on: {catalog: lake, database: sales, table: orders}, expect: {limits: {rows: 10}}}
  - {as: bob, backend: etl, expect: {limits: {running: 2}}}
"""
    load(LIMITS, cases)
    wrong = cases.replace("rows: 10}", "rows: 11}").replace("running: 20", "running: none")
    assert faults(LIMITS, wrong) == [
        "p1.yaml:4: case fails: bob: expected running none, got 20 by limit `everybody`",
        "p1.yaml:5: case fails: bob on lake.sales.orders: expected rows 11, got 10 by limit `orders`",
    ]


def test_the_strictest_limits_are_listed_for_who_asks_why() -> None:
    orders = Resource((("catalog", "lake"), ("database", "sales"), ("table", "orders")))
    found = list_strictest(limits_of(load(LIMITS)), BOB, orders)
    assert {key: one.name for key, one in found.items()} == {
        "running": "everybody",
        "rows": "orders",
        "bytes": "analysts",
        "seconds": "everybody",
        "statements_per_day": "heavy",
    }


def test_what_can_be_read_of_a_limit_at_fault_holds_where_a_gateway_runs() -> None:
    text = "limits:\n  - {name: a, groups: [public], rows: 7, seconds: -1}\n  - {name: b, rows: 1}\n"
    found = load_packs({"p.yaml": text}, DEFINITIONS, tolerant=True)
    assert [(one.name, dict(one.bounds)) for one in found.limits] == [("a", {"rows": 7})]
    assert [told.split(": ")[0] for told in found.warnings] == ["p.yaml:2", "p.yaml:3"]
    with pytest.raises(Faults):
        load(text)


def test_every_measure_says_what_it_counts() -> None:
    told = {key: measure.describe(3) for key, measure in MEASURES.items()}
    assert told["running"] == "3 running statements"
    assert told["sessions"] == "3 open sessions"
    assert told["rows"] == "3 rows a statement"
    assert told["statements_per_minute"] == "3 statements a minute"
    assert told["bytes_per_day"] == "3 bytes a day"


def test_limits_that_a_failing_case_takes_away_stay() -> None:
    before, now = load(LIMITS), load(LIMITS.replace("rows: 1000,", "rows: 2000,"))
    index = limits_of(replace(now, before=before))
    found = strictest([one for one in index.find(BOB) if one.limit.name == "analysts"], "rows")
    assert found is not None
    assert found[1] == 1000
