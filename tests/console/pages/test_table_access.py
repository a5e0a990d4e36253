"""What pages tell of others' access, and of one's own, and to whom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.admin.requests import BadRequest, NotFound
from gateway.console.pages.table_access import (
    JudgedSelect,
    SampleKey,
    SampleQuestion,
    TableAccess,
    TableAccessPages,
    TableAccessQuestion,
)
from gateway.console.routes import Viewer
from gateway.model.catalog import Table, TableKind, TableName
from gateway.model.context import AccessContext
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.policy.packs import load_packs
from tests.console.pages.viewers import ADMIN, AS_ANN, AS_BOB, AS_LEA, AUDITOR, STRANGER
from tests.policy.offices import ANN, BOB, COLUMNS, PACK, SUE, offices
from tests.policy.scenarios import definitions

TABLES = {"c.sales.customer", "c.sales.orders", "c.hr.staff"}
KNOWN = {"ann": ANN, "bob": BOB, "sue": SUE}
NOW = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass
class Other:
    policies: PolicySet
    notes: tuple[str, ...] = ("as they were then",)


class FakePolicies:
    current = offices()

    def stale(self) -> str | None:
        return None

    async def find_at(self, at: datetime) -> Other:
        return Other(self.current)

    async def find_draft(self, viewer: Viewer, draft: int) -> Other:
        if draft != 7:
            raise NotFound("there is no such draft")
        text = PACK.replace("MASK_HASH", "MASK_NULL")
        return Other(load_packs({"offices.yaml": text}, definitions(), catalog_services={"c": "spark"}), ())


async def find_person(user: str) -> Principal | None:
    return KNOWN.get(user)


async def look_up(name: TableName) -> Table | None:
    if str(name) not in TABLES:
        return None
    return Table(name=name, kind=TableKind.TABLE, columns=COLUMNS)


async def judge(policies: PolicySet, who: Principal, text: str, context: AccessContext) -> JudgedSelect:
    return JudgedSelect(
        cleared=who.user == "bob", message=f"no, {who.user}", forwarded="SELECT secret filter"
    )


async def may_act_as(viewer: Viewer, user: str) -> Principal | None:
    return KNOWN.get(user) if viewer.user == "root" else None


ran: list[tuple[str, str, str]] = []


async def run_sample(
    who: Principal, viewer: Viewer, text: str, rows: int
) -> tuple[tuple[str, ...], list[tuple[str, ...]], str]:
    ran.append((who.user, viewer.user, text))
    return ("name",), [("x" * 5_000,)], "statement"


@pytest.fixture
def pages() -> Iterator[TableAccessPages]:
    yield TableAccessPages(
        FakePolicies(),
        find_person,
        look_up,
        judge,
        first_catalog="c",
        may_act_as=may_act_as,
        run_sample=run_sample,
        now=lambda: NOW,
    )
    ran.clear()


async def see(
    pages: TableAccessPages, viewer: Viewer, table: str = "sales.customer", **asked: Any
) -> TableAccess:
    return await pages.see_table(viewer, TableAccessQuestion(table=table, **asked))


async def test_an_officer_sees_what_somebody_sees_and_why(pages: TableAccessPages) -> None:
    for viewer in (ADMIN, AUDITOR):
        told = await see(pages, viewer, user="bob")
        assert told.report is not None
        assert told.whole
        assert (told.report.shown, told.report.masked, told.report.denied) == (2, 1, 1)
        assert told.report.rows is not None
        assert told.report.rows.expression == "region = 'north'"
        assert told.select is not None
        assert told.select.forwarded


async def test_a_person_sees_their_own_and_cut(pages: TableAccessPages) -> None:
    told = await see(pages, AS_BOB)
    assert told.report is not None
    assert not told.whole
    assert [column.name for column in told.report.columns] == ["name", "email", "region"]
    assert "north" not in repr(told)
    assert told.select == JudgedSelect(cleared=True, message="no, bob")


@pytest.mark.parametrize(
    "asked",
    [
        {"user": "ann"},
        {"draft": 7},
        {"groups": ("hr",)},
        {"address": "10.0.0.1"},
        {"column": "card"},
        {"at": NOW},
        {"table": "hr.staff"},
        {"table": "hr.nothing"},
        {"table": "sales.nothing"},
    ],
    ids=str,
)
async def test_of_anything_else_a_person_hears_the_same(
    pages: TableAccessPages, asked: dict[str, Any]
) -> None:
    with pytest.raises(NotFound, match="no such table, or nothing of it is for you"):
        await see(pages, AS_BOB, **asked)


async def test_a_delegate_sees_all_of_what_they_administer_and_nothing_of_a_views_text(
    pages: TableAccessPages,
) -> None:
    told = await see(pages, AS_LEA, user="bob")
    assert told.whole
    assert told.report is not None
    assert told.report.denied == 1
    assert told.select == JudgedSelect(cleared=True)
    with pytest.raises(NotFound):
        await see(pages, AS_LEA, table="hr.staff", user="sue")


async def test_validity_as_of_a_date_and_what_differs(pages: TableAccessPages) -> None:
    told = await see(pages, AUDITOR, table="hr.staff", user="sue", at=datetime(2026, 7, 1, tzinfo=UTC))
    assert told.report is not None
    assert told.report.shown == 4
    assert told.notes == ("as they were then",)
    assert {change.what: (change.before, change.after) for change in told.changes}["name"] == (
        "shown",
        "denied",
    )


async def test_under_a_draft_and_what_differs(pages: TableAccessPages) -> None:
    told = await see(pages, AUDITOR, user="bob", draft=7)
    assert told.compared_with == "the policies in force"
    assert [(change.what, change.after.split(" ")[1]) for change in told.changes] == [("email", "MASK_NULL")]
    assert not told.may_sample
    with pytest.raises(NotFound):
        await see(pages, AUDITOR, user="bob", draft=8)


async def test_a_column_is_explained(pages: TableAccessPages) -> None:
    told = await see(pages, AUDITOR, user="bob", column="card")
    assert {one.policy.name for one in told.explained} == {"no cards", "sales read"}


async def test_groups_may_be_assumed_and_who_is_unknown_is_said(pages: TableAccessPages) -> None:
    nobody = await see(pages, AUDITOR, user="zoe")
    assert not nobody.known_user
    assert nobody.report is not None
    assert nobody.report.denied == 4
    assumed = await see(pages, AUDITOR, user="zoe", groups=("sales",))
    assert assumed.report is not None
    assert assumed.report.denied == 1


async def test_nothing_is_asked_of_an_empty_page(pages: TableAccessPages) -> None:
    assert not (await see(pages, STRANGER, table="")).asked
    with pytest.raises(BadRequest):
        await see(pages, ADMIN, table="customer")


async def test_a_sample_runs_as_whom_the_viewer_may_act(pages: TableAccessPages) -> None:
    taken = await pages.sample_table(ADMIN, SampleQuestion(table="sales.customer", user="bob"))
    # Of the columns that he may select: `*` would be refused where there are others.
    read = "SELECT `name`, `email`, `region` FROM `c`.`sales`.`customer` LIMIT 20"
    assert ran == [("bob", "root", read)]
    assert len(taken.rows[0][0]) == 1_000
    assert await pages.show_sample(ADMIN, SampleKey(sample=taken.id)) == taken
    own = await pages.sample_table(AS_ANN, SampleQuestion(table="sales.customer"))
    assert (own.user, own.by) == ("ann", "ann")


@pytest.mark.parametrize("viewer", [AUDITOR, AS_LEA, STRANGER], ids=lambda viewer: viewer.user)
async def test_nobody_else_takes_or_sees_one(pages: TableAccessPages, viewer: Viewer) -> None:
    with pytest.raises(NotFound):
        await pages.sample_table(viewer, SampleQuestion(table="sales.customer", user="bob"))
    assert not ran
    taken = await pages.sample_table(ADMIN, SampleQuestion(table="sales.customer", user="bob"))
    with pytest.raises(NotFound):
        await pages.show_sample(viewer, SampleKey(sample=taken.id))


async def test_samples_are_bounded(pages: TableAccessPages) -> None:
    pages._samples.most = 2
    taken = [await pages.sample_table(AS_ANN, SampleQuestion(table="sales.customer")) for _ in range(3)]
    with pytest.raises(NotFound):
        await pages.show_sample(AS_ANN, SampleKey(sample=taken[0].id))
    assert await pages.show_sample(AS_ANN, SampleKey(sample=taken[2].id)) == taken[2]
