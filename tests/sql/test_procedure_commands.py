"""CALL: what the rows of `rules/procedures` want of the arguments, and everything that they do not know."""

from __future__ import annotations

import pytest

from gateway.app.procedures import load_shipped_procedures
from gateway.errors import Faults
from gateway.model.catalog import TableName
from gateway.model.reading import Reading
from gateway.model.statement import SessionContext
from gateway.policy.procedures import load_procedures
from gateway.reader.pool import ReaderPool
from gateway.sql.classify import classify
from gateway.sql.names import Names
from gateway.sql.required import Required, Unsupported

NAMES = Names(SessionContext(), frozenset({"spark_catalog", "lake", "other"}))
ORDERS = TableName("lake", "sales", "orders")


async def required_of(reader: ReaderPool, text: str) -> Required | Unsupported:
    reading = await reader.read(text)
    assert isinstance(reading, Reading), reading
    return classify(reading, NAMES, procedures=load_shipped_procedures())


GOVERNED = {
    "CALL lake.system.rollback_to_snapshot('sales.orders', 7)": {"alter", "insert", "delete"},
    "CALL lake.system.ROLLBACK_TO_SNAPSHOT(snapshot_id => 7, TABLE => 'lake.sales.orders')": {
        "alter",
        "insert",
        "delete",
    },
    "CALL lake.system.ancestors_of('sales.orders')": {"metadata"},
    "CALL lake.system.rewrite_data_files('sales.orders', where => 'id > 3')": {"alter"},
}


@pytest.mark.parametrize("text", GOVERNED)
@pytest.mark.asyncio(loop_scope="session")
async def test_the_table_is_the_one_that_the_argument_names(reader: ReaderPool, text: str) -> None:
    required = await required_of(reader, text)
    assert isinstance(required, Required), required
    assert {privilege.access for privilege in required.privileges} == GOVERNED[text]
    # Nobody with a mask, a filter or a hidden column on it.
    assert required.raw == required.read == (ORDERS,)
    assert required.conditions == (("id > 3",) if "where" in text else ())


REFUSED = {
    "CALL system.ancestors_of('sales.orders')": "write the catalog of the procedure",
    "CALL unknown.system.ancestors_of('sales.orders')": "write the catalog of the procedure",
    "CALL lake.system.no_such('sales.orders')": "is not supported",
    "CALL lake.elsewhere.ancestors_of('sales.orders')": "is not supported",
    "CALL lake.system.ancestors_of('orders')": "with the table and its database",
    "CALL lake.system.ancestors_of('sales.`orders`')": "with the table and its database",
    "CALL lake.system.ancestors_of('a.b.c.d')": "with the table and its database",
    "CALL lake.system.ancestors_of('other.sales.orders')": "not a table of the procedure's catalog",
    "CALL lake.system.ancestors_of('other.orders')": "begins with the name of a catalog",
    "CALL lake.system.ancestors_of('spark_catalog.sales.orders')": "not a table of the procedure's catalog",
    "CALL lake.system.ancestors_of(concat('sales', '.orders'))": "with the table and its database",
    "CALL lake.system.ancestors_of(upper('sales.orders'))": "with the table and its database",
    "CALL lake.system.ancestors_of()": "with the table and its database",
    "CALL lake.system.ancestors_of(table => NULL)": "with the table and its database",
    "CALL lake.system.ancestors_of('sales.orders', 1, 2)": "unsupported arguments",
    "CALL lake.system.ancestors_of('sales.orders', other => 1)": "`other`",
    "CALL lake.system.ancestors_of('sales.orders', table => 'sales.hidden')": "twice",
    "CALL lake.system.remove_orphan_files('sales.orders', location => concat('/', 'x'))": "string literal",
    "CALL lake.system.rewrite_data_files('sales.orders', where => concat('a', 'b'))": "string literal",
    "CALL lake.system.create_changelog_view('sales.orders')": "raw rows",
    "CALL lake.system.add_files('sales.orders', '`parquet`.`/x`')": "refused",
}


@pytest.mark.parametrize("text", REFUSED)
@pytest.mark.asyncio(loop_scope="session")
async def test_whatever_a_row_does_not_know_is_refused(reader: ReaderPool, text: str) -> None:
    refusal = await required_of(reader, text)
    assert isinstance(refusal, Unsupported), refusal
    assert REFUSED[text] in refusal.why


@pytest.mark.asyncio(loop_scope="session")
async def test_a_location_is_asked_of_policies(reader: ReaderPool) -> None:
    text = "CALL lake.system.remove_orphan_files('sales.orders', location => 's3a://b/x')"
    required = await required_of(reader, text)
    assert isinstance(required, Required)
    assert {(str(w.resource), w.access) for w in required.privileges if w.resource.kind == "url"} == {
        ("s3a://b/x", "read"),
        ("s3a://b/x", "write"),
    }


def test_all_faults_of_a_file_are_told_with_their_lines() -> None:
    text = """\
format: x
namespace: system
procedures:
  one: {arguments: [table], table: {tabel: [alter]}}
  two: {arguments: [table], table: {table: [read_all]}}
  three: {refused: no, arguments: [table]}
  four: {arguments: [table]}
  five: 7
more: 1
"""
    with pytest.raises(Faults) as found:
        load_procedures({"p.yaml": text}, frozenset({"alter"}))
    told = "\n".join(found.value.faults)
    for line in (4, 5, 6, 7, 8, 9):
        assert f"p.yaml:{line}:" in told, told
