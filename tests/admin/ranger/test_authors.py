"""Whose a text of a delegated administrator is, when administrators carry or write it again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.admin.ranger.access import PolicyText, TextQuestion
from gateway.admin.ranger.definitions import ServiceType
from gateway.admin.ranger.obliging import author_of, list_others_affected
from gateway.model.principal import Principal, identity_of
from gateway.policy.authors import OPTION, WRITERS, digest, with_writers
from tests.admin.conftest import IDS, Served, read_text
from tests.admin.ranger.test_access import API, filtering, masking, with_delegate
from tests.admin.ranger.test_grants_and_files import upload

IMPORT = "/plugins/policies/importPoliciesFromFile"
ROWS = "id IN (SELECT id FROM lab.open)"
KINDS = pytest.mark.parametrize("reaching", [filtering(ROWS), masking("(SELECT max(a) FROM lab.open)")])


async def bobs(served: Served, reaching: Any) -> Any:
    await with_delegate(served)
    status, made = await served.ask("POST", f"{API}/policy", reaching, user="bob")
    assert status == 200, made
    assert list(made["options"][OPTION].values()) == ["bob"]
    return made


def lapse_of(served: Served, identity: str) -> None:
    """Somebody is not there any more."""

    async def read(question: TextQuestion, author: Principal) -> PolicyText:
        return replace(await read_text(question, author), lapsed=question.author == identity)

    served.access.read_text = read


def lapse(served: Served) -> None:
    """Bob may select nothing any more."""

    async def read(question: TextQuestion, author: Principal) -> PolicyText:
        found = await read_text(question, author)
        may = found.selectable and author.user != "bob"
        return replace(found, selectable=may, lapsed=question.author == "bob")

    served.access.read_text = read


async def put(served: Served, body: Any, user: str = "admin") -> Any:
    path = f"{API}/policy/{body['id']}"
    status, stored = await served.ask("PUT", path, {**body, "version": None}, user=user)
    assert status == 200, stored
    return stored


def for_eve(made: Any) -> Any:
    changed = {**made, "options": {}}
    for items in ("rowFilterPolicyItems", "dataMaskPolicyItems"):
        changed[items] = [{**item, "users": ["eve"]} for item in made.get(items) or ()]
    return changed


@KINDS
async def test_a_file_leaves_a_text_its_author(served: Served, reaching: Any) -> None:
    """Else an export and an import would make an administrator's of it, which reads what he may."""
    made = await bobs(served, reaching)
    _, exported = await served.ask("GET", "/plugins/policies/exportJson?serviceName=dev_hive")
    for how in ("isOverride=true", "updateIfExists=true", "deleteIfExists=true", "mergeIfExists=true"):
        if how.startswith(("update", "delete")):
            # Somebody has written it anew meanwhile; the file says whose it was.
            changed = await put(served, {**for_eve(made), "id": made["id"]})
            assert OPTION not in (changed.get("options") or {})
        assert (await upload(served, f"{IMPORT}?{how}", file=exported))[0] == 204
        status, found = await served.ask("GET", f"{API}/service/dev_hive/policy/{made['name']}")
        assert (status, found["options"]) == (200, made["options"]), how
        made = found


async def test_a_delegate_says_nothing_of_others(served: Served) -> None:
    await with_delegate(served)
    forged = {**filtering(ROWS), "options": {OPTION: {digest(ROWS): "admin"}}}
    status, made = await served.ask("POST", f"{API}/policy", forged, user="bob")
    assert (status, made["options"]) == (200, {OPTION: {digest(ROWS): "bob"}})


@KINDS
async def test_who_may_opens_what_is_closed_by_writing_it_again(served: Served, reaching: Any) -> None:
    made = await bobs(served, reaching)
    same = {**made, "options": {}}
    assert (await put(served, made))["options"] == made["options"]
    assert (await put(served, same))["options"] == made["options"], "while it is open it stays his"
    lapse(served)
    assert (await put(served, same, "bob"))["options"] == made["options"], "he may not any more"
    by_the_way = await put(served, {**made, "description": "by the way"})
    assert by_the_way["options"] == made["options"], "nobody opens by the way what is closed"
    again = await put(served, by_the_way)
    assert OPTION not in (again.get("options") or {})
    assert again["updatedBy"] == "admin"


async def test_a_text_is_of_a_user_and_not_of_his_name(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is removed and added again does not go on with what the first one wrote."""
    await with_delegate(served)
    monkeypatch.setitem(IDS, "bob", "5d1f0c9ab3e2")
    _, made = await served.ask("POST", f"{API}/policy", filtering(ROWS), user="bob")
    assert list(made["options"][OPTION].values()) == [" 5d1f0c9ab3e2 bob"]
    monkeypatch.setitem(IDS, "bob", "77aa00bb11cc")
    again = await put(served, {**made, "options": {}}, "bob")
    assert again["options"] == made["options"], "what is closed opens for nobody who may not select it"
    lapse_of(served, " 5d1f0c9ab3e2 bob")
    again = await put(served, {**made, "options": {}}, "bob")
    assert list(again["options"][OPTION].values()) == [" 77aa00bb11cc bob"], "he writes it himself"


@KINDS
async def test_a_body_that_names_no_author_writes_the_texts(served: Served, reaching: Any) -> None:
    made = await bobs(served, reaching)
    lapse(served)
    again = await put(served, {**made, "options": {}, "description": "mine now"})
    assert OPTION not in (again.get("options") or {})


@pytest.mark.parametrize("body", [filtering("id > 7"), masking("concat('x', a)")])
async def test_a_policy_is_of_a_user_and_not_of_his_name(
    served: Served, monkeypatch: pytest.MonkeyPatch, body: Any
) -> None:
    """Whoever is added under the name of a delegate finds masks and filters of another."""
    await with_delegate(served)
    monkeypatch.setitem(IDS, "bob", "5d1f0c9ab3e2")
    status, made = await served.ask("POST", f"{API}/policy", {**body, "options": {WRITERS: {}}}, user="bob")
    assert status == 200, made
    made = await put(served, {**made, "options": {}, "description": "his own"}, "bob")
    made = await put(served, {**made, "options": {}, "description": "in other words"})
    assert (made["createdBy"], made["updatedBy"]) == ("bob", "bob")
    path, off = f"{API}/policy/{made['id']}", {**made, "isEnabled": False, "version": None}
    for now in ("77aa00bb11cc", ""):
        monkeypatch.setitem(IDS, "bob", now)
        mine = {**off, "options": {WRITERS: {"createdBy": now, "updatedBy": now}}}
        for method, sent in (("PUT", mine), ("PUT", {**off, "options": {}}), ("DELETE", None)):
            status, answer = await served.ask(method, path, sent, user="bob")
            assert status == 403, answer
            assert "of others; this" in answer["msgDesc"]
    monkeypatch.setitem(IDS, "bob", "5d1f0c9ab3e2")
    assert (await put(served, off, "bob"))["isEnabled"] is False
    assert (await served.ask("DELETE", path, user="bob"))[0] == 204


@pytest.mark.parametrize(("created", "updated"), [("5d1f", "77aa"), ("77aa", "5d1f"), ("", ""), ("5d1f", "")])
def test_only_what_a_user_himself_wrote_is_his_to_take_back(created: str, updated: str) -> None:
    stored = {"name": "rows", "policyType": 2, "createdBy": "bob", "updatedBy": "bob"}
    stored = with_writers(stored, created, updated)
    for id_ in ("5d1f", "77aa", ""):
        bob = Principal(user="bob", id=id_)
        taken = list_others_affected(bob, ServiceType({}), [], stored=stored, policy=None)
        assert taken == ([] if {created, updated} == {id_} else ["rows"])
        assert author_of(stored, stored) == identity_of("bob", updated)
