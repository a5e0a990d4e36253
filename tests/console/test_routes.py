"""The table of routes: a route without a rule is a fault, and the API's document has every one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.console.openapi import build_document
from gateway.console.routes import (
    ConsoleForm,
    ConsolePage,
    ConsolePart,
    ConsoleRoute,
    NoParameters,
    Recorded,
    Who,
    check_parts,
)
from gateway.errors import Faults
from tests.console.doors import DOORS, PARTS, required


def test_the_table_is_whole() -> None:
    check_parts(PARTS)
    assert {"show_event", "find_event"} <= {one.used.name for one in DOORS}
    for door in DOORS:
        missing = [name for name in required(door.used) if name not in getattr(door.used, "examples", {})]
        assert not missing, f"{door}: give an example of {missing}"


def test_the_document_of_the_api_has_every_route() -> None:
    document = build_document(PARTS, "1")
    named = {each["operationId"] for one in document["paths"].values() for each in one.values()}
    assert named == {door.used.name for door in DOORS}
    assert document["openapi"] == "3.1.0"


def _route(**changes: Any) -> ConsoleRoute:
    async def handle(viewer: Any, asked: Any) -> NoParameters:
        return NoParameters()

    whole = ConsoleRoute(
        name="show_it",
        method="GET",
        path="/it",
        about="It.",
        parameters=NoParameters,
        result=NoParameters,
        who=Who.AUDITOR,
        handle=handle,
        recorded=Recorded.EACH,
    )
    return replace(whole, **changes)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"who": Who.LOGGED_IN}, "own"),
        ({"recorded": Recorded.NEVER}, "not recorded"),
        ({"method": "POST", "recorded": Recorded.ONCE}, "each use is recorded"),
        ({"path": "/it/{other}"}, "names a parameter"),
        ({"name": "It"}, "proper name"),
        ({"parameters": dict}, "dataclass"),
    ],
)
def test_a_route_without_a_rule_is_a_fault(changes: Any, fault: str) -> None:
    with pytest.raises(Faults) as raised:
        check_parts([ConsolePart(routes=[_route(**changes)])])
    assert fault in str(raised.value.faults)


def test_pages_and_forms_are_of_routes_in_the_table() -> None:
    route = _route(method="POST")
    page = ConsolePage(route=route, path="/it", template="it.html", title="It")
    form = ConsoleForm(route=_route(), path="/it", then=lambda asked, it: "/it")
    with pytest.raises(Faults) as raised:
        check_parts(
            [ConsolePart(routes=[], pages=[page], forms=[form]), ConsolePart(routes=[_route(), _route()])]
        )
    assert len(raised.value.faults) == 4
