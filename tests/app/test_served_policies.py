"""`sluice check --engines` says of each mask and filter what other engines get of it."""

from __future__ import annotations

import pytest

from gateway.app.served_policies import describe_served
from gateway.model.catalog import Column, Table, TableKind, TableName
from gateway.pipeline.table_checks import Tree
from gateway.policy.packs import load_packs
from gateway.policy.service_defs import load_service_defs
from gateway.reader.pool import ReaderPool
from tests.judge_world import SERVICE_DEFS

pytestmark = pytest.mark.asyncio(loop_scope="session")

PACK = """
service: spark
policies:
  - name: hashed
    on: {catalog: c, database: d, table: t, column: a}
    mask: [{groups: [g], type: MASK_HASH}]
  - name: crossed out
    on: {catalog: c, database: d, table: t, column: b}
    mask: [{groups: [g], type: MASK}]
  - name: own
    on: {catalog: c, database: d, table: t, column: e}
    mask: [{groups: [g], type: CUSTOM, show: "concat('x', {col})", predicate: deny}]
  - name: rows
    on: {catalog: c, database: d, table: t}
    filter: [{groups: [g], where: "region = 'EMEA' AND day >= DATE'2020-01-01' AND owner = {USER}"}]
  - name: odd rows
    on: {catalog: c, database: d, table: u}
    filter: [{groups: [g], where: "lower(region) = 'emea'"}]
"""


async def test_each_mask_and_filter_has_a_line_with_its_place(reader: ReaderPool) -> None:
    definitions = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
    policies = load_packs({"pack.yaml": PACK}, definitions, 1)
    lines = await describe_served(policies, reader)
    places = [line.partition(" policy ")[0] for line in lines]
    assert places == [f"pack.yaml:{number}:" for number in (4, 7, 10, 13, 16)]
    hashed, crossed, own, rows, odd = (line.partition("`: ")[2] for line in lines)
    others = "int, long, date, timestamptz, decimal(9,2), double, boolean"
    assert hashed == f"exact: MASK_HASH is `sha-256-global` for string; `replace-with-null` for {others}"
    assert crossed.startswith("stricter: MASK is `mask-alphanum` (stricter: its letters are all `x`)")
    why = "it refuses conditions on its column, and readers do not"
    assert own == f"impossible: CUSTOM is nothing ({why}) for every type"
    assert rows.startswith("exact: ")
    why = "a row filter that compares the function `lower` with a constant of type `string`"
    assert odd == f"impossible: {why}"


TYPES = {"a": "string", "b": "int", "e": "string", "region": "string", "day": "date", "owner": "int"}


async def test_with_tables_each_column_is_told_by_its_type(reader: ReaderPool) -> None:
    definitions = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
    pack = (
        PACK
        + """
  - name: many
    on: {catalog: c, database: d, table: "*", column: [a, b]}
    mask: [{groups: [g], type: MASK_NULL}]
"""
    )
    policies = load_packs({"pack.yaml": pack}, definitions, 1, catalog_services={"c": "spark"})
    tree = Tree()
    tree.add(
        Table(
            name=TableName("c", "d", "t"),
            kind=TableKind.TABLE,
            columns=tuple(Column(name=name, type=kind) for name, kind in TYPES.items()),
        )
    )
    tree.known[()] = {"c"}
    told = [line.partition("policy ")[2] for line in await describe_served(policies, reader, tree)]
    why = "it refuses conditions on its column, and readers do not"
    assert told == [
        "`hashed`: c.d.t.a: exact: MASK_HASH of string is `sha-256-global`",
        "`crossed out`: c.d.t.b: stricter: MASK of int is `replace-with-null` "
        "(stricter: no restriction shows the same but NULL)",
        f"`own`: c.d.t.e: impossible: CUSTOM of string is nothing ({why})",
        "`rows`: c.d.t: impossible: "
        "a row filter that compares the type `int` with a constant of type `string`",
        "`many`: c.d.t.a: exact: MASK_NULL of string is `replace-with-null`",
        "`many`: c.d.t.b: exact: MASK_NULL of int is `replace-with-null`",
    ]
