"""Which policies somebody finds, and how much of them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.admin.requests import BadRequest, NotFound
from gateway.console.pages import policies as module
from gateway.console.pages import policy_sight
from gateway.console.pages.policies import (
    MatrixQuestion,
    PolicyDetails,
    PolicyKeyQuestion,
    PolicyList,
    PolicyListQuestion,
    PolicyPages,
    PolicySource,
    TreeQuestion,
)
from gateway.console.routes import Viewer, encode_cursor
from gateway.database.policy_use import PolicyUse
from gateway.model.policy import Policy, PolicySet
from gateway.model.principal import Principal
from gateway.policy.covering import knows_resources
from gateway.policy.directory import directory_for
from gateway.policy.engine import engine_for
from gateway.policy.packs import load_packs
from tests.console.pages.viewers import ADMIN, AS_ANN, AS_BOB, AS_LEA, AUDITOR, STRANGER
from tests.policy.offices import BOB, PACK, offices
from tests.policy.scenarios import definitions

SINCE, LAST = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC)
SALES = ("spark", "catalog", "c", "database", "sales")


async def load_use(names: Sequence[str]) -> PolicyUse:
    return PolicyUse(since=SINCE, last={name: LAST for name in names if name == "sales read"})


async def load_details(viewer: Viewer, policy: Policy, whole: bool) -> PolicyDetails:
    source = PolicySource(kind="pack", where="offices.yaml" if whole else "", editable=False, change_at="")
    return PolicyDetails(source=source)


@pytest.fixture
def pages() -> PolicyPages:
    return PolicyPages(offices, load_use, load_details, principals=lambda: {"bob": BOB}, first_catalog="c")


async def listed(pages: PolicyPages, viewer: Viewer, **asked: Any) -> PolicyList:
    return await pages.list_policies(viewer, PolicyListQuestion(**asked))


def names(found: PolicyList) -> set[str]:
    return {one.policy.name for one in found.items}


@pytest.mark.parametrize(
    ("viewer", "expected"),
    [
        (ADMIN, 6),
        (AUDITOR, 6),
        (AS_ANN, {"sales read", "customer emails", "no cards"}),
        (AS_BOB, {"sales read", "customer emails", "customers of the region", "no cards"}),
        (AS_LEA, {"sales read", "customer emails", "customers of the region", "no cards"}),
        (STRANGER, {"no cards"}),
        (Viewer(principal=Principal(user="sue")), {"summer help", "no cards"}),
    ],
    ids=lambda one: one.user if isinstance(one, Viewer) else "",
)
async def test_each_finds_what_is_theirs(
    pages: PolicyPages, viewer: Viewer, expected: set[str] | int
) -> None:
    found = await listed(pages, viewer)
    assert (names(found) if isinstance(expected, set) else len(found.items)) == expected
    assert found.sees_all == (expected == 6)
    assert bool(found.children) == found.sees_all
    # Page by page the same, each once.
    each, after = list[str](), ""
    while True:
        page = await listed(pages, viewer, limit=1, after=after)
        each += [one.policy.name for one in page.items]
        after = page.next
        if not after:
            break
    assert sorted(each) == sorted(one.policy.name for one in found.items)


async def test_last_use_is_told(pages: PolicyPages) -> None:
    found = await listed(pages, ADMIN)
    assert {one.policy.name: one.last_used for one in found.items}["sales read"] == LAST
    assert {one.policy.name: one.last_used for one in found.items}["no cards"] is None
    assert found.use_noted_since == SINCE


async def test_policies_about_a_resource_are_found_by_wildcard_and_tag(pages: PolicyPages) -> None:
    found = await listed(pages, ADMIN, about="c.sales.customer")
    assert names(found) == {"sales read", "customer emails", "customers of the region", "no cards"}
    assert {one.policy.name: one.tag for one in found.items}["no cards"] == "PCI"
    assert names(await listed(pages, ADMIN, about="sales.customer")) == names(found)
    assert names(await listed(pages, AS_ANN, about="c.hr.staff")) == set()
    assert names(await listed(pages, STRANGER, about="c.sales.customer")) == {"no cards"}
    with pytest.raises(BadRequest):
        await listed(pages, ADMIN, about="a.b.c.d.e.f")


async def test_criteria_go_together(pages: PolicyPages) -> None:
    assert names(await listed(pages, ADMIN, under=SALES, type="mask")) == {"customer emails"}
    assert names(await listed(pages, ADMIN, zone="vault")) == {"vault only"}
    assert len((await listed(pages, ADMIN, zone="(none)")).items) == 5
    assert names(await listed(pages, ADMIN, who="user", name="bob")) == {"customers of the region"}
    with pytest.raises(BadRequest):
        await listed(pages, ADMIN, who="user")
    with pytest.raises(BadRequest):
        await listed(pages, ADMIN, after="nonsense")


async def test_whom_else_a_policy_names_cannot_be_tried_out(pages: PolicyPages) -> None:
    assert names(await listed(pages, AS_ANN, who="group", name="sales")) == {"sales read", "customer emails"}
    assert names(await listed(pages, AS_ANN, who="role", name="lead")) == set()
    assert names(await listed(pages, AS_ANN, who="user", name="carol")) == set()
    # Who administers it by delegation sees whom it names.
    assert names(await listed(pages, AS_LEA, who="user", name="bob")) == {"customers of the region"}


async def test_what_is_denied_to_everybody_is_not_named_to_everybody() -> None:
    more = """\
  - name: nobody looks at pay
    on: {catalog: c, database: hr, table: pay, column: [salary]}
    deny: [{groups: [public], access: [select]}]
  - name: owners of plans
    on: {catalog: c, database: hr, table: plans, column: "*"}
    allow: [{users: ["{OWNER}"], access: [select]}]
  - name: nobody sees cells
    on: {catalog: c, database: sales, table: phones, column: cell}
    mask: [{groups: [public], type: MASK}]
cases:"""
    policies = load_packs(
        {"offices.yaml": PACK.replace("cases:", more)}, definitions(), catalog_services={"c": "spark"}
    )
    pages = PolicyPages(lambda: policies, load_use, load_details)
    denied, masked, owned = "nobody looks at pay", "nobody sees cells", "owners of plans"
    assert {denied, masked, owned} <= names(await listed(pages, AUDITOR))
    assert not {denied, masked, owned} & names(await listed(pages, STRANGER))
    assert {denied, masked, owned} & names(await listed(pages, AS_ANN)) == {masked}
    for hidden in (denied, owned):
        with pytest.raises(NotFound):
            await pages.show_policy(STRANGER, PolicyKeyQuestion(service="spark", name=hidden))


async def test_pages_and_questions_end_without_a_name_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    others = "\n".join(
        f"""\
  - name: hidden {n:02}
    on: {{catalog: c, database: hr, table: pay{n}, column: [salary]}}
    deny: [{{groups: [public], access: [select]}}]"""
        for n in range(20)
    )
    policies = load_packs(
        {"offices.yaml": PACK.replace("cases:", f"{others}\ncases:")},
        definitions(),
        catalog_services={"c": "spark"},
    )
    pages = PolicyPages(lambda: policies, load_use, load_details, first_catalog="c")
    monkeypatch.setattr(module, "MAX_JUDGED", 3)
    found, after = set[str](), ""
    while True:
        page = await listed(pages, AS_ANN, after=after)
        found |= names(page)
        after = page.next
        assert b"hidden" not in base64.urlsafe_b64decode(after + "=" * (-len(after) % 4))
        if not after:
            break
    assert found == {"sales read", "customer emails", "no cards"}
    for nonsense in (encode_cursor("spark", "", "hidden 01"), encode_cursor(1, 2, 3, 4, 5, 6, 7, 8, 9)):
        with pytest.raises(BadRequest):
            await listed(pages, AS_ANN, after=nonsense)
    assert names(await listed(pages, AS_ANN, after=encode_cursor(*[-5] * lists_of(AS_ANN, policies)))) == (
        names(await listed(pages, AS_ANN))
    )
    # Of what a resource has, no more is judged than of a list.
    judged: list[str] = []

    def judge(*given: Any) -> bool:
        judged.append(given[2].name)
        return knows_resources(*given)

    monkeypatch.setattr(policy_sight, "knows_resources", judge)
    assert names(await listed(pages, STRANGER, about="c.hr")) == set()
    assert len(judged) == 3
    assert names(await listed(pages, AUDITOR, about="c.hr")) >= {"hidden 00", "hidden 19"}


def lists_of(viewer: Viewer, policies: PolicySet) -> int:
    subject = engine_for(policies).subject_of(viewer.principal)
    return len(directory_for(policies).list_lists_about(subject))


async def test_one_policy_is_shown_whole_or_cut(pages: PolicyPages) -> None:
    asked = PolicyKeyQuestion(service="spark", name="sales read")
    whole = await pages.show_policy(AUDITOR, asked)
    assert whole.whole
    assert whole.last_used == LAST
    assert len(whole.policy.items) == 2
    cut = await pages.show_policy(AS_ANN, asked)
    assert not cut.whole
    assert cut.policy.hidden_items == 1
    assert "lead" not in repr(cut.policy)
    assert (await pages.show_policy(AS_LEA, asked)).whole


@pytest.mark.parametrize(
    ("service", "zone", "name"),
    [
        ("spark", "", "summer help"),
        ("spark", "vault", "vault only"),
        ("spark", "", "none"),
        ("none", "", "none"),
    ],
)
async def test_what_is_not_theirs_is_as_if_it_were_not_there(
    pages: PolicyPages, service: str, zone: str, name: str
) -> None:
    for viewer in (AS_ANN, AS_LEA, STRANGER):
        with pytest.raises(NotFound, match="no such policy, or it is not for you"):
            await pages.show_policy(viewer, PolicyKeyQuestion(service=service, zone=zone, name=name))


async def test_the_tree_goes_down_page_by_page(pages: PolicyPages) -> None:
    top = await pages.list_tree(AUDITOR, TreeQuestion())
    assert [one.value for one in top.children] == ["spark", "spark_tag"]
    below = await pages.list_tree(AUDITOR, TreeQuestion(under=("spark", "catalog", "c")))
    assert [(one.value, one.policies) for one in below.children] == [("hr", 1), ("sales", 3), ("vault", 1)]
    assert (await pages.list_tree(AUDITOR, TreeQuestion(under=("x", "y", "z")))).children == ()


async def test_the_matrix_asks_for_those_who_are_named(pages: PolicyPages) -> None:
    told = await pages.show_matrix(AUDITOR, MatrixQuestion(under=SALES))
    assert [one.value for one in told.resources] == ["*", "customer"]
    assert {row.name for row in told.rows} == {"sales", "lead", "bob"}
    assert {row.name: row.cells[1].filtered for row in told.rows}["bob"]
    columns = await pages.show_matrix(AUDITOR, MatrixQuestion(under=(*SALES, "table", "customer")))
    assert {row.name: row.cells[0].masked for row in columns.rows}["sales"] == "MASK_HASH"
    assert (await pages.show_matrix(AUDITOR, MatrixQuestion())).rows == ()
    with pytest.raises(NotFound):
        await pages.show_matrix(AUDITOR, MatrixQuestion(under=("nothing",)))
