"""UPDATE and DELETE of a table of which one sees a part change what one sees, over both endpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.model.statement import Cleared, Refused, Verdict
from gateway.reader.pool import ReaderPool
from tests.judge_world import World
from tests.pipeline.test_kept import command, over_connect, over_thrift

pytestmark = pytest.mark.asyncio(loop_scope="session")

DATA: dict[str, Any] = {
    "catalogs": ["spark_catalog", "ice"],
    "tables": {
        "spark_catalog.lab.t": {"id": "int", "region": "string", "pay": "int"},
        "spark_catalog.lab.rows": {"id": "int", "region": "string", "pay": "int"},
        "spark_catalog.lab.plain": {"id": "int", "region": "string", "pay": "int"},
        "spark_catalog.lab.hidden": {"id": "int", "region": "string", "pay": "int"},
        "spark_catalog.lab.u": {"id": "int"},
        "spark_catalog.lab.checked": {"id": "int", "pay": "int"},
        "spark_catalog.lab.fields": {"id": "int", "owner": "string", "s": "struct<owner:string>"},
        "ice.lab.t": {"id": "int", "region": "string", "pay": "int"},
    },
    "views": {},
    "people": {"ann": {"groups": []}, "bob": {"groups": []}},
    "pack": """
service: spark
policies:
  - {name: all, on: {catalog: "*", database: lab, table: [t, rows, plain, u, checked, fields], column: "*"},
     allow: [{users: [ann], access: [all]}, {users: [bob], access: [select]}]}
  - {name: some, on: {catalog: "*", database: lab, table: hidden, column: [id, region]},
     allow: [{users: [ann], access: [select, update]}]}
  - {name: gone, on: {catalog: "*", database: lab, table: hidden}, allow: [{users: [ann], access: [delete]}]}
  - {name: rows, on: {catalog: "*", database: lab, table: [t, rows, plain, hidden]},
     filter: [{users: [ann, bob], where: "region = 'EMEA'"}]}
  - {name: own, on: {catalog: "*", database: lab, table: fields},
     filter: [{users: [ann], where: "s.owner = 'ann'"}]}
  - {name: pay, on: {catalog: "*", database: lab, table: [t, checked], column: pay},
     mask: [{users: [ann], type: MASK_NULL}]}
""",
}
ROWS = "system.builtin.coalesce(CASE WHEN (region = 'EMEA') THEN ({}\n) END, FALSE)"


@pytest.fixture(scope="module")
def world() -> World:
    made = World(DATA)
    for name, table in made.tables.items():
        provider = {"plain": "parquet"}.get(name.table, "iceberg" if name.catalog == "ice" else "delta")
        checks = "PAY > id" if name.table == "checked" else ""
        made.tables[name] = replace(table, provider=provider, checks=checks)
    return made


async def both(world: World, reader: ReaderPool, text: str, user: str = "ann") -> list[Verdict]:
    return [
        await over_thrift(world, reader, text, user),
        await over_connect(world, reader, command(text), user),
    ]


T = "`spark_catalog`.`lab`.`rows`"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("DELETE FROM rows WHERE id = 3", f"DELETE FROM {T} WHERE {ROWS.format(' id = 3')}"),
        (
            "DELETE FROM rows AS x WHERE x.id < 3 OR 1 / x.id > 0 -- all",
            f"DELETE FROM {T} AS x WHERE {ROWS.format(' x.id < 3 OR 1 / x.id > 0 -- all')}",
        ),
        ("DELETE FROM rows WHERE TRUE", f"DELETE FROM {T} WHERE {ROWS.format(' TRUE')}"),
        (
            "UPDATE ice.lab.t SET region = upper(region), id = id + 1 WHERE (id) IN (1, 2)",
            "UPDATE `ice`.`lab`.`t` SET region = upper(region), id = id + 1 WHERE "
            + ROWS.format(" (id) IN (1, 2)"),
        ),
    ],
)
async def test_rows_that_are_not_seen_stay(world: World, reader: ReaderPool, text: str, written: str) -> None:
    thrift, connect = await both(world, reader, text)
    assert isinstance(thrift, Cleared), thrift
    assert isinstance(connect, Cleared), connect
    assert thrift.forwarded.replace("`ice`.`lab`.`t`", "ice.lab.t") == written.replace(
        "`ice`.`lab`.`t`", "ice.lab.t"
    )
    assert not thrift.shows_errors
    assert thrift.hides_target
    assert connect.hides_target
    assert [scan.obligations != () for scan in thrift.scans] == [True]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("DELETE FROM t WHERE id > 3", "row filter, column mask"),
        ("DELETE FROM t WHERE pay > 3", "row filter, column mask"),
        ("UPDATE t SET pay = 3 WHERE id = 1", "row filter, column mask"),
        ("UPDATE t SET id = pay WHERE id = 1", "row filter, column mask"),
        ("DELETE FROM t WHERE id IN (SELECT id FROM u)", "row filter, column mask"),
        ("DELETE FROM t WHERE exists(array(1), i -> pay = i)", "row filter, column mask"),
        ("DELETE FROM t WHERE _metadata.row_index > 1", "row filter, column mask"),
        ("DELETE FROM t WHERE input_file_name() = 'x'", "row filter, column mask"),
        ("UPDATE ice.lab.t SET region = _file WHERE id = 1", "row filter, column mask"),
        ("UPDATE ice.lab.t AS x SET region = 'a' WHERE x.`_PARTITION`.id = 1", "row filter, column mask"),
        (
            "UPDATE ice.lab.t SET region = lag(region) OVER (ORDER BY id) WHERE id > 0",
            "row filter, column mask",
        ),
        ("UPDATE rows SET id = count(*) OVER () WHERE TRUE", "row filter, column mask"),
        ("UPDATE checked SET id = 9 WHERE id = 1", "row filter, column mask"),
        ("UPDATE fields AS s SET id = 9 WHERE id = 1", "row filter, column mask"),
        ("DELETE FROM fields AS `S` WHERE TRUE", "row filter, column mask"),
        ("DELETE FROM rows", "WHERE TRUE"),
        ("UPDATE t SET id = 1", "WHERE TRUE"),
        ("DELETE FROM plain WHERE id = 1", "row filter, column mask"),
        ("DELETE FROM hidden WHERE id = 1", "row filter, column mask"),
        ("MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN DELETE", "row filter, column mask"),
        ("EXPLAIN DELETE FROM t WHERE id = 1", "row filter, column mask"),
    ],
)
async def test_what_uses_more_is_refused(world: World, reader: ReaderPool, text: str, says: str) -> None:
    for verdict in await both(world, reader, text):
        assert isinstance(verdict, Refused), verdict
        assert says in verdict.message


async def test_who_may_not_change_rows_changes_none(world: World, reader: ReaderPool) -> None:
    for verdict in await both(world, reader, "DELETE FROM t WHERE id = 1", "bob"):
        assert isinstance(verdict, Refused), verdict
        assert "needs delete on table" in verdict.message
