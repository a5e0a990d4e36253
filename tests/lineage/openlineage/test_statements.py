"""Events of real statements have every source that their lineage has, in the way in which it takes part."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml

from gateway.lineage.openlineage.events import EventWriter
from gateway.lineage.openlineage.names import Naming
from gateway.lineage.rows import SeenStatement
from gateway.model.lineage import ANY_COLUMN, StatementLineage
from gateway.reader.pool import ReaderPool
from tests.lineage.openlineage.shapes import check
from tests.lineage_world import VIEWS, catalog_of, lineage

pytestmark = pytest.mark.asyncio(loop_scope="session")

CASES = Path(__file__).parents[2] / "cases"
STATEMENTS = [case["sql"] for case in yaml.safe_load((CASES / "lineage.yaml").read_text(encoding="utf-8"))]
STATEMENTS += [
    line
    for line in (CASES / "lineage.sql").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
WRITER = EventWriter(naming=Naming(catalogs={"spark_catalog": "hive://m:9083"}))

Flow = tuple[str, str, str, str, bool]
"""Source, target, its column or `*`, subtype, masking."""


def told(event: dict[str, Any]) -> set[Flow]:
    found: set[Flow] = set()
    for output in event["outputs"]:
        facet = output["facets"]["columnLineage"]
        fields = {name: field["inputFields"] for name, field in facet["fields"].items()}
        for name, sources in [*fields.items(), (ANY_COLUMN, facet["dataset"])]:
            found |= {
                (f"{s['name']}.{s['field']}", output["name"], name, t["subtype"], t["masking"])
                for s in sources
                for t in s["transformations"]
            }
    return found


def meant(seen: SeenStatement, of: StatementLineage) -> set[Flow]:
    return {
        (
            f"{WRITER.naming.dataset(source.column.dataset, seen).name}.{source.column.column}",
            WRITER.naming.dataset(target.dataset, seen).name,
            target.column,
            t.subtype.value,
            t.masking,
        )
        for edge in of.edges
        for source in edge.sources
        for target in edge.targets
        for t in source.transformations
    }


async def test_no_source_is_lost_and_none_is_made_up(reader: ReaderPool) -> None:
    catalog = await catalog_of(reader, views=VIEWS, masks={"a": "ssn x", "e1": "age"})
    masked = 0
    for sql in STATEMENTS:
        found = await lineage(reader, sql, catalog)
        seen = SeenStatement(
            statement_id=UUID(int=1),
            time=NOON,
            user="ann",
            text=sql,
            outcome="finished",
            ended=NOON,
            lineage=found,
        )
        events = [json.loads(line) for line in WRITER.lines([seen]).splitlines()]
        for event in events:
            check(event)
        flows, wanted = told(events[-1]), meant(seen, found)
        for source, target, _, *how in wanted - flows:
            assert (source, target, ANY_COLUMN, *how) in flows, (sql, source, target)
        for flow in flows - wanted:
            assert flow[2] == ANY_COLUMN, (sql, flow)
        masked += any(flow[-1] for flow in flows)
    assert len(STATEMENTS) > 250
    assert masked > 100
