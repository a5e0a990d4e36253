"""What a report of a table says is what the engine decides, and a person's own is cut to what is theirs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gateway.model.catalog import Column
from gateway.model.context import NO_CONTEXT, AccessContext
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.engine import engine_for
from gateway.policy.packs import load_packs
from gateway.policy.table_report import TableReport, compare_reports, cut_report, explain_column, report_table
from tests.policy.offices import (
    ANN,
    BOB,
    CAROL,
    COLUMNS,
    CUSTOMER,
    LEA,
    PACK,
    SUE,
    VIC,
    offices,
)
from tests.policy.scenarios import definitions

STAFF = Resource.table("c", "hr", "staff")


def report(who: Principal, table: Resource = CUSTOMER, context: AccessContext = NO_CONTEXT) -> TableReport:
    return report_table(offices(), who, table, COLUMNS, context)


@pytest.mark.parametrize("who", [ANN, BOB, CAROL, LEA, SUE, VIC], ids=lambda who: who.user)
@pytest.mark.parametrize("table", ["sales.customer", "sales.orders", "hr.staff", "vault.keys"])
@pytest.mark.parametrize("month", [5, 7])
def test_a_report_says_what_the_engine_decides(who: Principal, table: str, month: int) -> None:
    context = AccessContext(time=datetime(2026, month, 1, tzinfo=UTC))
    resource = Resource.table("c", *table.split("."))
    engine = engine_for(offices())
    told = report_table(offices(), who, resource, COLUMNS, context)
    for column in told.columns:
        asked = resource.child("column", column.name)
        request = AccessRequest(principal=who, resource=asked, access="select", context=context)
        decision = engine.decide(request)
        mask = engine.mask(who, asked, "string", context)
        assert (column.sight != "denied") == decision.allowed
        assert column.access.reason == decision.reason
        assert (column.access.policy.name if column.access.policy else "") == decision.policy.name
        if decision.allowed:
            assert column.shows == (mask.expression if mask is not None else "")
    rows = engine.row_filter(who, resource, context)
    assert (told.rows.expression if told.rows else None) == (rows.expression if rows else None)
    assert told.visible == engine.visible(who, resource, context)
    assert told.shown + told.masked + told.denied == len(COLUMNS)


def test_policies_say_what_they_settled() -> None:
    told = {one.policy.name: one for one in report(BOB).policies}
    assert told["no cards"].settles == ("card",)
    assert told["no cards"].tag == "PCI"
    assert told["no cards"].policy.service == "spark_tag"
    assert told["customers of the region"].settles == ("rows",)
    assert told["sales read"].settles == ("name", "email", "region")
    assert told["sales read"].why == "its `allow[0]` allows it"
    assert not {one.policy.name: one for one in report(ANN).policies}["customers of the region"].settled


def test_validity_is_told_and_counts() -> None:
    summer = AccessContext(time=datetime(2026, 7, 1, tzinfo=UTC))
    autumn = AccessContext(time=datetime(2026, 11, 1, tzinfo=UTC))
    then, now = report(SUE, STAFF, summer), report(SUE, STAFF, autumn)
    assert (then.shown, now.denied) == (4, 4)
    assert now.depends_on == ("time",)
    [policy] = now.policies
    assert "until 2026-08-31" in policy.validity[0]
    assert policy.why == "it is outside of its validity schedule"
    assert [change.what for change in compare_reports(then, now)] == [
        "table",
        "name",
        "email",
        "card",
        "region",
    ]


def test_a_comparison_names_masks_and_filters() -> None:
    text = PACK.replace("MASK_HASH", "MASK_NULL").replace("'north'", "'south'")
    other = load_packs({"offices.yaml": text}, definitions(), catalog_services={"c": "spark"})
    changes = compare_reports(report(BOB), report_table(other, BOB, CUSTOMER, COLUMNS, NO_CONTEXT))
    assert {change.what: change.after for change in changes} == {
        "email": "masked: MASK_NULL CASE WHEN FALSE THEN `email` END",
        "rows": "rows where region = 'south'",
    }
    assert compare_reports(report(BOB), report(BOB)) == ()


def test_one_column_is_explained_policy_by_policy() -> None:
    told = explain_column(offices(), CAROL, CUSTOMER.child("column", "card"), NO_CONTEXT)
    assert {one.policy.name: one.settled for one in told} == {"no cards": False, "sales read": True}
    assert next(one for one in told if not one.settled).why == "its own exception applies"


def test_roles_are_those_that_policies_give() -> None:
    assert report(LEA).roles == ("lead",)


def test_ones_own_report_names_nothing_that_is_not_ones_own() -> None:
    whole = report(BOB)
    cut = cut_report(whole)
    assert [column.name for column in cut.columns] == ["name", "email", "region"]
    assert (cut.shown, cut.masked, cut.denied) == (whole.shown, whole.masked, whole.denied)
    assert not any(column.shows for column in cut.columns)
    assert cut.rows is not None
    assert cut.rows.expression == ""
    assert all(one.settled and not (one.settles or one.conditions or one.why) for one in cut.policies)
    # What denies the card, and by which tag, would tell of it.
    assert {one.policy.name for one in whole.policies if one.settled} >= {"no cards", "sales read"}
    assert {one.policy.name for one in cut.policies} == {
        "sales read",
        "customer emails",
        "customers of the region",
    }


def test_wide_tables_are_cut() -> None:
    columns = [Column(name=f"c{n}", type="int") for n in range(1_200)]
    told = report_table(offices(), ANN, CUSTOMER, columns, NO_CONTEXT)
    assert (len(told.columns), told.more_columns, told.shown) == (1_000, 200, 1_200)
