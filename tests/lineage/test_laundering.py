"""Protected columns that landed where policies are weaker: who reads them, why, and by which statements."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from gateway.app.propagation_rules import propagation_rules
from gateway.app.rule_files import find_shipped_rules
from gateway.database.migrate import migrate
from gateway.lineage.graph import GraphColumn
from gateway.lineage.laundering import LaunderingReport, find_laundering
from gateway.lineage.store import store_lineage
from gateway.model.context import NO_CONTEXT
from gateway.model.lineage import Dataset, DatasetKind
from gateway.model.resource import Resource
from gateway.policy.engine import engine_for
from gateway.policy.impact import by_tag, concerns
from gateway.policy.laundering import Sights, list_named_principals
from gateway.policy.packs import load_packs
from gateway.policy.service_defs import load_service_defs
from gateway.settings.models import TagPropagationSettings
from tests.lineage.statements import seen

RULES = propagation_rules(TagPropagationSettings())
PACK = """\
policies:
  - name: analysts read everything but secrets
    on: {catalog: "*", database: lab, table: "*", column: "*"}
    allow: [{groups: [analysts], access: [select]}]
  - name: nobody reads pins
    on: {catalog: "*", database: lab, table: raw, column: pin}
    deny: [{groups: [public], access: [select]}]
    deny_exceptions: [{users: [root], access: [select]}]
  - name: root reads
    on: {catalog: "*", database: lab, table: "*", column: "*"}
    allow: [{users: [root], access: [select]}]
  - name: ssn is masked
    on: {catalog: "*", database: lab, table: [raw, safe], column: ssn}
    mask: [{users: [root], type: MASK_NONE}, {groups: [public], type: MASK_HASH}]
  - name: own region
    on: {catalog: "*", database: lab, table: [raw, mart_filtered]}
    filter: [{users: [root], where: ""}, {groups: [analysts], where: "region = 'EMEA'"}]
  - name: clerks have the mart
    on: {catalog: "*", database: lab, table: mart, column: "*"}
    allow: [{groups: [clerks], access: [select]}]
"""
TAGGED = (
    PACK
    + """\
  - name: personal data is masked
    on: {tag: PII}
    mask: [{groups: [public], type: MASK_NULL}]
tags:
  - on: {catalog: "*", database: lab, table: raw, column: name}
    tags: [PII]
"""
)
LAB = "spark_catalog.lab."


@pytest.fixture
async def graph(database: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(database)
    await migrate(connection)
    yield connection
    await connection.close()


def policies_of(pack: str) -> Any:
    texts = {str(path): path.read_text() for path in (find_shipped_rules() / "service_defs").iterdir()}
    catalogs = {"spark_catalog": "spark"}
    return load_packs({"pack.yaml": pack}, load_service_defs(texts), catalog_services=catalogs)


async def look(
    graph: Any,
    pack: str = PACK,
    start: Sequence[GraphColumn] | None = None,
    bounds: Mapping[str, Any] | None = None,
    **how: Any,
) -> LaunderingReport:
    policies = policies_of(pack)
    people = list_named_principals(policies, {})
    sights = Sights(engine_for(policies), people, NO_CONTEXT, **(bounds or {}))
    return await find_laundering(graph, sights, RULES, start=start, **how)


def told(report: LaunderingReport) -> dict[str, dict[str, str]]:
    """`source -> target` → protection of each who reads more."""
    return {
        f"{one.source} -> {one.target}".replace(LAB, ""): {
            each.principal: each.protection.value for each in one.weaker
        }
        for one in report.found
    }


ANALYST, CLERK = "(someone in analysts)", "(someone in clerks)"


async def test_masked_denied_and_filtered_values_are_found_over_several_steps(graph: Any) -> None:
    await store_lineage(
        graph,
        [
            seen("raw.ssn -> stage.id: ssn IDENTITY"),
            seen("stage.id -> mart.id: id IDENTITY", minute=1),
            seen("raw.pin -> mart.pin: pin IDENTITY"),
            seen("raw.amount -> mart.amount: amount IDENTITY"),
        ],
    )
    found = await look(graph)
    assert told(found) == {
        "raw.ssn -> stage.id": {ANALYST: "masked"},
        "raw.ssn -> mart.id": {ANALYST: "masked"},
        "raw.pin -> mart.pin": {ANALYST: "denied", CLERK: "denied"},
        "raw.amount -> mart.amount": {ANALYST: "filtered"},
    }
    by_target = {str(one.target).removeprefix(LAB): one for one in found.found}
    over_two = by_target["mart.id"]
    assert [(step["column"].removeprefix(LAB), step["flow"]) for step in over_two.way] == [
        ("stage.id", "IDENTITY"),
        ("mart.id", "IDENTITY"),
    ]
    assert len({step["statement"] for step in over_two.way}) == 2
    (analyst,) = over_two.weaker
    assert analyst.there == (
        "MASK_HASH (policy `ssn is masked`), rows where region = 'EMEA' (policy `own region`)"
    )
    assert analyst.here == "no mask (policy `analysts read everything but secrets`)"
    assert "nobody reads pins" in by_target["mart.pin"].weaker[0].there
    assert by_target["mart.pin"].weaker[1].here == "no mask (policy `clerks have the mart`)"


async def test_what_is_as_protected_where_it_lands_is_not_laundered(graph: Any) -> None:
    await store_lineage(
        graph,
        [
            seen("raw.ssn -> safe.ssn: ssn IDENTITY"),
            seen("raw.amount -> mart_filtered.amount: amount IDENTITY"),
            seen("raw.ssn -> mart.n: count(ssn) AGGREGATION"),
            seen("raw.ssn -> mart.hash: ssn TRANSFORMATION masked"),
            seen("raw.ssn -> mart.rows: ssn > 1 FILTER"),
        ],
    )
    # Its rows are not filtered there, but the values are masked: nobody reads any.
    assert told(await look(graph)) == {}


async def test_what_did_not_finish_may_have_landed(graph: Any) -> None:
    await store_lineage(graph, [seen("raw.ssn -> mart.id: ssn IDENTITY", outcome="unknown")])
    found = await look(graph)
    assert told(found) == {"raw.ssn -> mart.id": {ANALYST: "masked"}}
    assert found.found[0].asks


async def test_any_column_of_a_table_may_be_where_only_the_table_is_known_to_flow(graph: Any) -> None:
    statement = seen("raw.a -> mart.id: a IDENTITY")
    lineage = replace(statement.lineage, edges=(), columns=(), table_level="no reading")
    await store_lineage(graph, [replace(statement, lineage=lineage)])
    # The column itself has never flowed anywhere; some condition had it.
    await store_lineage(graph, [seen("raw.ssn -> safe.rows: ssn > 1 FILTER")])
    found = await look(graph)
    assert told(found) == {
        "raw.* -> mart.*": {ANALYST: "filtered"},
        "raw.ssn -> mart.*": {ANALYST: "masked"},
    }
    assert all(one.asks for one in found.found)


async def test_a_view_is_no_way_around(graph: Any) -> None:
    statement = seen("raw.ssn -> v.ssn: ssn IDENTITY")
    view = Dataset(DatasetKind.VIEW, ("spark_catalog", "lab", "v"))
    edges = tuple(
        replace(edge, targets=tuple(replace(target, dataset=view) for target in edge.targets))
        for edge in statement.lineage.edges
    )
    lineage = replace(statement.lineage, targets=(view,), edges=edges, columns=edges[0].targets)
    await store_lineage(graph, [replace(statement, lineage=lineage)])
    assert told(await look(graph)) == {}


async def test_files_show_everything_to_whoever_may_read_them(graph: Any) -> None:
    statement = seen("raw.ssn -> out.ssn: ssn IDENTITY")
    path = Dataset(DatasetKind.PATH, ("s3://bucket/out",))
    edges = tuple(
        replace(edge, targets=tuple(replace(target, dataset=path) for target in edge.targets))
        for edge in statement.lineage.edges
    )
    lineage = replace(statement.lineage, targets=(path,), edges=edges, columns=edges[0].targets)
    await store_lineage(graph, [replace(statement, lineage=lineage)])
    files = (
        PACK
        + "  - name: exports\n    on: {url: 's3://bucket', }\n".replace(", }", "}")
        + "    allow: [{groups: [clerks, analysts], access: [read]}]\n"
    )
    assert told(await look(graph, files)) == {}
    assert told(await look(graph, files.replace("'s3://bucket'", "'s3://bucket/*'"))) == {
        "raw.ssn -> path:s3://bucket/out.ssn": {ANALYST: "masked"}
    }


async def test_tables_that_are_granted_to_fewer_count_for_tagged_columns_or_when_asked(graph: Any) -> None:
    await store_lineage(
        graph, [seen("raw.name -> mart.name: name IDENTITY"), seen("other.x -> mart.x: x IDENTITY")]
    )
    assert told(await look(graph)) == {"raw.name -> mart.name": {ANALYST: "filtered"}}
    assert told(await look(graph, TAGGED)) == {
        "raw.name -> mart.name": {"root": "masked", ANALYST: "masked", CLERK: "not granted"}
    }
    assert told(await look(graph, ungranted=True)) == {
        "other.x -> mart.x": {CLERK: "not granted"},
        "raw.name -> mart.name": {ANALYST: "filtered", CLERK: "not granted"},
    }


async def test_one_column_can_be_asked_about_and_bounds_are_told(graph: Any) -> None:
    await store_lineage(
        graph, [seen("raw.ssn -> mart.id: ssn IDENTITY"), seen("raw.pin -> mart.pin: pin IDENTITY")]
    )
    found = await look(graph, start=[GraphColumn(f"{LAB}raw", "pin")])
    assert list(told(found)) == ["raw.pin -> mart.pin"]
    assert found.cut_off == []
    found = await look(graph, bounds={"most_asked": 3})
    assert found.found == []
    assert "only the first 3" in found.cut_off[0]


def test_policies_that_a_column_has_to_do_with() -> None:
    policies = policies_of(TAGGED)
    engine = engine_for(policies)

    def of(table: str, column: str) -> set[tuple[str, str, str]]:

        resource = Resource.table("spark_catalog", "lab", table).child("column", column)
        return {
            (one.policy.name, one.tag, one.text) for one in concerns(policies, engine, resource, NO_CONTEXT)
        }

    everything = {("analysts read everything but secrets", "", ""), ("root reads", "", "")}
    assert of("raw", "ssn") == {*everything, ("ssn is masked", "", ""), ("own region", "", "")}
    assert of("raw", "name") == {*everything, ("own region", "", ""), ("personal data is masked", "PII", "")}
    assert ("own region", "", "region = 'EMEA'") in of("raw", "region")
    assert ("own region", "", "region = 'EMEA'") not in of("mart", "region")


def test_policies_that_a_new_tag_would_bring() -> None:

    engine = engine_for(policies_of(TAGGED))
    table = Resource.table("spark_catalog", "lab", "raw")
    assert [one.name for one in by_tag(engine, table.child("column", "ssn"), "PII", NO_CONTEXT)] == [
        "personal data is masked"
    ]
    assert by_tag(engine, table.child("column", "name"), "PII", NO_CONTEXT) == []
    assert by_tag(engine, table.child("column", "ssn"), "OTHER", NO_CONTEXT) == []
