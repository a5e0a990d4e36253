"""The engine against tests/cases/policy: one test for each question there."""

from __future__ import annotations

import pytest

from gateway.model.catalog import Column
from gateway.model.resource import AccessRequest, Resource
from tests.policy.scenarios import Question, Scenario, scenarios


def lines(kind: str) -> list[object]:
    return [
        pytest.param(scenario, question, id=f"{scenario.name}: {line}")
        for scenario in scenarios()
        for line, question in scenario.questions(kind)
    ]


@pytest.mark.parametrize(("scenario", "asked"), lines("ask"))
def test_access(scenario: Scenario, asked: Question) -> None:
    request = AccessRequest(principal=asked.principal, resource=asked.resource, access=asked.access)
    decision = scenario.engine.decide(request)
    assert ("allow" if decision.allowed else "deny") == asked.answer, decision.reason
    assert decision.reason
    if asked.access != "_any":
        assert decision.policy.name == asked.policy
    if asked.resource.kind == "column" and asked.access != "_any":
        table = Resource(asked.resource.elements[:-1], asked.resource.owner)
        column = Column(name=asked.resource.elements[-1][1], type="string")
        view = scenario.engine.table_view(asked.principal, table, (column,), asked.access)
        assert view.allowed[column.name] == decision


@pytest.mark.parametrize(("scenario", "asked"), lines("mask"))
def test_mask(scenario: Scenario, asked: Question) -> None:
    mask = None if asked.access else scenario.engine.mask(asked.principal, asked.resource, "string")
    got = f"{mask.mask_type} {mask.policy.name}" if mask else "none"
    assert got == asked.answer
    if asked.resource.kind == "column":
        table = Resource(asked.resource.elements[:-1], asked.resource.owner)
        column = Column(name=asked.resource.elements[-1][1], type="string")
        view = scenario.engine.table_view(asked.principal, table, (column,), asked.access or "select")
        assert view.masks.get(column.name) == mask


@pytest.mark.parametrize(("scenario", "asked"), lines("shows"))
def test_what_a_mask_shows(scenario: Scenario, asked: Question) -> None:
    mask = scenario.engine.mask(asked.principal, asked.resource, "string")
    assert mask is not None
    assert mask.expression == asked.answer


@pytest.mark.parametrize(("scenario", "asked"), lines("filter"))
def test_row_filter(scenario: Scenario, asked: Question) -> None:
    row_filter = scenario.engine.row_filter(asked.principal, asked.resource)
    assert (row_filter.expression if row_filter else "none") == asked.answer
    if asked.resource.kind == "table":
        view = scenario.engine.table_view(asked.principal, asked.resource, (), "select")
        assert view.row_filter == row_filter
        assert scenario.engine.table_view(asked.principal, asked.resource, (), "update").row_filter is None


@pytest.mark.parametrize(("scenario", "asked"), lines("visible"))
def test_visible(scenario: Scenario, asked: Question) -> None:
    visible = scenario.engine.visible(asked.principal, asked.resource)
    assert ("yes" if visible else "no") == asked.answer


def test_every_scenario_asks_something() -> None:
    kinds = ("ask", "mask", "shows", "filter", "visible")
    silent = [s.name for s in scenarios() if not any(s.data.get(kind) for kind in kinds)]
    assert not silent
    assert sum(len(s.data.get(kind, ())) for s in scenarios() for kind in kinds) > 250
