"""What is read from the JSON of a lineage is the lineage that was written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.model.lineage import StatementLineage
from gateway.model.lineage_json import from_json, to_json
from gateway.reader.pool import ReaderPool
from gateway.sql.lineage import LineageCatalog, lineage_of
from tests.lineage_world import VIEWS, catalog_of, lineage, text_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

STATEMENTS = [
    line
    for line in (Path(__file__).parents[1] / "cases" / "lineage.sql").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


def there_and_back(found: StatementLineage) -> StatementLineage:
    return from_json(json.loads(json.dumps(to_json(found))))


async def test_every_statement_of_the_suite_comes_back(reader: ReaderPool) -> None:
    catalog = await catalog_of(reader, views=VIEWS, masks={"a": "ssn x"})
    for sql in STATEMENTS:
        found = lineage_of(await text_of(reader, sql), catalog)
        assert found is not None
        assert there_and_back(found) == found, sql


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT n FROM v1",
        "SELECT x FROM v1 JOIN nowhere.n.t",
        "SELECT q FROM unknown1, unknown2 WHERE p = 1",
        "CREATE OR REPLACE TEMP VIEW tv AS SELECT 'é\x01' AS x FROM a WHERE x > 1 AND i = z",
    ],
)
async def test_what_is_not_known_comes_back(reader: ReaderPool, sql: str) -> None:
    found = await lineage(reader, sql, await catalog_of(reader, views=VIEWS))
    assert there_and_back(found) == found


async def test_what_is_empty_is_left_out(reader: ReaderPool) -> None:
    found = lineage_of(await text_of(reader, "SELECT 1"), LineageCatalog())
    assert found is not None
    assert to_json(found) == {
        "version": 1,
        "operation": "query",
        "datasets": [["result"]],
        "vertices": [[0, "1"]],
        "targets": [0],
        "columns": [0],
    }


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"version": 2, "operation": "query"},
        {"version": 1},
        {"version": 1, "operation": "steal"},
        {"version": 1, "operation": "query", "datasets": [["table", 1]]},
        {"version": 1, "operation": "query", "datasets": [["shelf", "a"]]},
        {"version": 1, "operation": "query", "targets": [0]},
        {"version": 1, "operation": "query", "datasets": [["result"]], "targets": [-1]},
        {"version": 1, "operation": "query", "datasets": [["result"]], "targets": [True]},
        {"version": 1, "operation": "query", "datasets": 3},
        {"version": 1, "operation": "query", "edges": [{"type": "PROJECTION", "sources": [[0, "IDENTITY"]]}]},
        {"version": 1, "operation": "query", "edges": [{"type": "GUESS"}]},
        {"version": 1, "operation": "query", "edges": [{}]},
        {"version": 1, "operation": "query", "table_level": 1},
    ],
)
async def test_what_is_no_lineage_is_a_value_error(body: Any) -> None:
    with pytest.raises(ValueError, match="this is no lineage"):
        from_json(body)
