"""Texts of policies are read before they are stored, and while nobody waits for the change."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.admin.ranger.access import PolicyText, TextQuestion
from gateway.admin.ranger.calls import UNCHECKED_HEADER
from gateway.model.principal import Principal
from tests.admin.conftest import Served, read_text
from tests.admin.ranger.test_access import API, filtering, policy, with_delegate
from tests.admin.ranger.test_grants_and_files import upload

IMPORT = "/plugins/policies/importPoliciesFromFile"


async def with_service(served: Served) -> None:
    assert (await served.ask("POST", f"{API}/service", {"name": "dev_hive", "type": "hive"}))[0] == 200


async def test_other_changes_are_made_while_a_text_is_read(served: Served) -> None:
    """All writers take turns: one that waited for a parser in its turn would hold up a revocation."""
    await with_service(served)
    others: list[int] = []

    async def slowly(question: TextQuestion, author: Principal) -> PolicyText:
        others.append((await served.ask("POST", f"{API}/policy", policy("other", "leads")))[0])
        return await read_text(question, author)

    served.access.read_text = slowly
    status, made = await served.ask("POST", f"{API}/policy", filtering("a = 1"))
    assert (status, others) == (200, [200]), made
    assert made["rowFilterPolicyItems"][0]["rowFilterInfo"]["filterExpr"] == "a = 1"


async def test_what_changed_while_a_text_was_read_counts(served: Served) -> None:
    await with_service(served)

    async def renaming(question: TextQuestion, author: Principal) -> PolicyText:
        assert (await served.ask("POST", f"{API}/policy", policy("rows", "leads")))[0] == 200
        return await read_text(question, author)

    served.access.read_text = renaming
    status, told = await served.ask("POST", f"{API}/policy", filtering("a = 1"))
    assert status == 400
    assert "has the name `rows`" in told["msgDesc"]


async def test_texts_of_who_may_not_write_are_not_read(served: Served) -> None:
    await with_delegate(served)
    asked: list[str] = []

    async def counting(question: TextQuestion, author: Principal) -> PolicyText:
        asked.append(question.text)
        return await read_text(question, author)

    served.access.read_text = counting
    assert (await served.ask("POST", f"{API}/policy", filtering("a = 1"), user="eve"))[0] == 403
    assert asked == []
    assert (await served.ask("POST", f"{API}/policy", filtering("a = 1"), user="bob"))[0] == 200
    assert (await served.ask("DELETE", f"{API}/policy?servicename=dev_hive&policyname=rows"))[0] == 204
    assert asked == ["a = 1"]


async def test_who_writes_and_what_about_is_told_to_who_reads(served: Served) -> None:
    await with_delegate(served)
    asked: list[TextQuestion] = []

    async def noting(question: TextQuestion, author: Principal) -> PolicyText:
        asked.append(question)
        return await read_text(question, author)

    served.access.read_text = noting
    status, _ = await served.ask("POST", f"{API}/policy", filtering("a = 1"), user="bob")
    assert status == 200
    status, _ = await served.ask("POST", f"{API}/policy?updateIfExists=true", filtering("b = 2"))
    assert status == 200
    assert [(one.text, one.trusted) for one in asked] == [("a = 1", False), ("b = 2", True)]
    assert {one.service for one in asked} == {"dev_hive"}
    assert '"sales_eu"' in asked[0].about


@pytest.mark.parametrize("text", ["unknown = 1", "a = 1"])
async def test_what_was_not_checked_is_said(served: Served, text: str) -> None:
    await with_service(served)
    headers = await served.headers("POST", f"{API}/policy", filtering(text))
    told = f"`{text}` was not held against tables" if "unknown" in text else None
    assert headers.get(UNCHECKED_HEADER) == told


async def test_an_import_tells_faults_of_texts_with_all_others(served: Served) -> None:
    await with_service(served)
    nameless: dict[str, Any] = {**policy("", "x"), "name": ""}
    document = {"policies": [filtering("broken"), nameless, policy("whole", "y")]}
    status, told = await upload(served, IMPORT, file=document)
    assert status == 400
    assert "policies[0] (`rows`): this filter is not a Spark SQL expression" in told["msgDesc"]
    assert "policies[1]: a policy needs a name" in told["msgDesc"]
    document["policies"] = [filtering("a = 1"), policy("whole", "y")]
    assert (await upload(served, IMPORT, file=document))[0] == 204
