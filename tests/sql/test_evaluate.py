"""What is decided for one principal, at one moment, is not what another sees, or he himself later."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import yaml

from gateway.model.catalog import TableName
from gateway.model.context import AccessContext
from gateway.policy.engine import engine_for
from gateway.sql.evaluate import Evaluation
from tests.judge_world import CASES, World

PACK = """
service: spark
policies:
  - name: ann sees all of it
    on: {catalog: spark_catalog, database: hr, table: employee, column: "*"}
    allow: [{users: [ann], access: [select]}]
  - name: others a column
    on: {catalog: spark_catalog, database: hr, table: employee, column: name}
    allow: [{users: [bob], access: [select]}]
"""
EMPLOYEE = TableName("spark_catalog", "hr", "employee")


def evaluation(user: str) -> Evaluation:
    data = yaml.safe_load((CASES / "world.yaml").read_text(encoding="utf-8"))
    people: dict[str, Any] = {name: {"groups": []} for name in ("ann", "bob")}
    world = World({**data, "pack": PACK, "people": people})
    return Evaluation(
        principal=world.principal(user),
        engine=engine_for(world.policies),
        catalog=world.snapshot().catalog,
        context=AccessContext(),
        star_shows_visible=True,
    )


def list_hidden(one: Evaluation) -> frozenset[str]:
    view = one.view(EMPLOYEE)
    assert view is not None
    return view.hidden


def test_who_reads_a_text_beside_another_sees_nothing_that_was_decided_for_him() -> None:
    ann, bob = evaluation("ann"), evaluation("bob")
    assert not list_hidden(ann)
    assert "salary" in list_hidden(bob)
    assert list_hidden(replace(ann, principal=bob.principal, missing=[])) == list_hidden(bob)
    assert list_hidden(replace(bob, principal=ann.principal)) == list_hidden(ann)


def test_what_is_decided_in_other_circumstances_is_decided_anew() -> None:
    asked: list[AccessContext] = []
    ann = evaluation("ann")
    table_view = ann.engine.table_view

    class Counting:
        def __getattr__(self, name: str) -> object:
            return getattr(engine, name)

        def table_view(self, *arguments: object) -> object:
            asked.append(arguments[-1])  # type: ignore[arg-type]
            return table_view(*arguments)  # type: ignore[arg-type]

    engine = ann.engine
    counted = replace(ann, engine=Counting())  # type: ignore[arg-type]
    list_hidden(counted)
    list_hidden(counted)
    counted.context = AccessContext(client_ip="10.0.0.1")
    list_hidden(counted)
    assert asked == [AccessContext(), counted.context]
