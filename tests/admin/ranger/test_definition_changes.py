"""A definition that stored policies cannot be loaded with is refused: gateways of the type would freeze."""

from __future__ import annotations

import copy
from typing import Any

from gateway.admin.ranger.kinds import ObjectKind
from tests.admin.conftest import Served

API = "/public/v2/api"
ACCESSES = [{"itemId": 1, "name": "read"}, {"itemId": 2, "name": "write"}]
SHELF = {"itemId": 1, "name": "shelf", "level": 10, "isValidLeaf": True}
BOOK = {"itemId": 2, "name": "book", "level": 20, "parent": "shelf"}
LIBRARY = {"name": "library", "accessTypes": ACCESSES, "resources": [SHELF, BOOK]}


async def made(served: Served, path: str, body: dict[str, Any]) -> Any:
    status, found = await served.ask("POST", f"{API}/{path}", body)
    assert status == 200, found
    return found


async def change(served: Served, name: str = "library", **changes: Any) -> tuple[int, Any]:
    _, stored = await served.ask("GET", f"{API}/servicedef/name/{name}")
    return await served.ask("PUT", f"{API}/servicedef/{stored['id']}", {**stored, **changes})


def policy(name: str, access: str = "read", **more: Any) -> dict[str, Any]:
    return {
        "service": "dev_library",
        "name": name,
        "resources": {"shelf": {"values": [name]}},
        "policyItems": [{"users": ["ann"], "accesses": [{"type": access}]}],
        **more,
    }


async def with_library(served: Served) -> None:
    await made(served, "servicedef", copy.deepcopy(LIBRARY))
    await made(served, "service", {"name": "dev_library", "type": "library"})


async def test_a_level_and_an_access_type_stay_while_policies_speak_of_them(served: Served) -> None:
    await with_library(served)
    of_books = {"shelf": {"values": ["a"]}, "book": {"values": ["b"]}}
    books = await made(served, "policy", policy("books", resources=of_books))
    writers = await made(served, "policy", policy("writers", "write"))
    _, before = await served.ask("GET", f"{API}/servicedef/name/library")
    versions = await served.ask("GET", "/plugins/policies/download/dev_library")

    status, told = await change(served, resources=[SHELF])
    assert status == 400
    assert f"policy {books['id']} `books`: unknown level `book`" in told["msgDesc"]
    assert "dev_library" in told["msgDesc"]
    assert [one["fieldName"] for one in told["messageList"]] == ["serviceDef"]
    status, told = await change(served, accessTypes=ACCESSES[:1])
    assert status == 400
    assert f"policy {writers['id']} `writers`: unknown access type `write`" in told["msgDesc"]
    assert (await served.ask("GET", f"{API}/servicedef/name/library"))[1] == before
    assert await served.ask("GET", "/plugins/policies/download/dev_library") == versions

    assert (await change(served, description="books and who reads them"))[0] == 200
    for one in (books, writers):
        assert (await served.ask("DELETE", f"{API}/policy/{one['id']}"))[0] == 204
    status, now = await change(served, resources=[SHELF], accessTypes=ACCESSES[:1])
    assert (status, len(now["resources"]), len(now["accessTypes"])) == (200, 1, 1)


async def test_policies_on_tags_and_zones_count_too(served: Served) -> None:
    await with_library(served)
    on_pii = policy("pii", "library:write", service="dev_tag", resources={"tag": {"values": ["PII"]}})
    tagged = await made(served, "policy", on_pii)
    zone = {
        "name": "rare",
        "adminUsers": ["admin"],
        "auditUsers": ["admin"],
        "services": {"dev_library": {"resources": [{"shelf": ["r"], "book": ["*"]}]}},
    }
    await made(served, "zones", zone)
    status, told = await change(served, accessTypes=ACCESSES[:1])
    assert status == 400
    assert f"policy {tagged['id']} `pii`: unknown access type" in told["msgDesc"]
    status, told = await change(served, resources=[SHELF])
    assert status == 400
    assert "zone `rare`: unknown level `book`" in told["msgDesc"]
    tag_level = {"itemId": 1, "name": "label", "level": 10, "isValidLeaf": True}
    status, told = await change(served, "tag", resources=[tag_level], dataMaskDef={}, rowFilterDef={})
    assert status == 400
    assert f"policy {tagged['id']} `pii`: unknown level `tag`" in told["msgDesc"]


async def test_a_service_that_is_switched_off_counts_too(served: Served) -> None:
    await with_library(served)
    await made(served, "policy", policy("writers", "write"))
    _, service = await served.ask("GET", f"{API}/service/name/dev_library")
    status, _ = await served.ask("PUT", f"{API}/service/{service['id']}", {**service, "isEnabled": False})
    assert status == 200
    assert (await change(served, accessTypes=ACCESSES[:1]))[0] == 400


async def test_what_is_at_fault_already_does_not_keep_a_definition_from_being_mended(served: Served) -> None:
    await with_library(served)
    await made(served, "policy", policy("writers", "write"))
    async with served.store.writing("admin") as writing:
        broken = await writing.find_named(ObjectKind.SERVICE_DEF, "library")
        assert broken is not None
        await writing.update(ObjectKind.SERVICE_DEF, broken, {**broken, "accessTypes": ACCESSES[:1]})
    assert (await change(served, description="still broken"))[0] == 200
    assert (await change(served, accessTypes=ACCESSES))[0] == 200
    assert (await change(served, accessTypes=ACCESSES[:1]))[0] == 400
