"""The gateway's own statements are whole texts, on the names of tables that were made of files."""

from __future__ import annotations

import pytest

from gateway.model.catalog import TableName
from gateway.model.files import FileSource
from gateway.model.statement import CatalogChanged, TendDataset
from gateway.sql.dataset_statements import DatasetStatement, dataset_privileges, dataset_statement
from gateway.sql.required import Pin, Required, Unsupported

LAKE = FileSource(
    name="lake", root="s3a://b", database="lake", formats=("csv",), depth=3, leaf_columns=2, files=9
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ALTER TABLE lake.raw.events REFRESH METADATA", "REFRESH TABLE lake.raw.events"),
        ("alter table lake.raw refresh metadata;", "REFRESH TABLE lake.raw"),
        ("\nALTER\tTABLE `l``k` . `a b`.c\n FORGET METADATA ; ", "UNCACHE TABLE IF EXISTS `l``k` . `a b`.c"),
        ("ALTER TABLE refresh REFRESH METADATA", "REFRESH TABLE refresh"),
        ("alter table lake.raw promote metadata", "REFRESH TABLE lake.raw"),
    ],
)
def test_a_whole_text_is_one(text: str, expected: str) -> None:
    found = dataset_statement(text)
    assert found is not None
    assert found.text == expected


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE lake.raw REFRESH METADATA; DROP TABLE t",
        "ALTER TABLE lake.raw REFRESH METADATA -- x",
        "/* x */ ALTER TABLE lake.raw REFRESH METADATA",
        "ALTER TABLE lake.raw REFRESH",
        "ALTER TABLE lake.raw FORGET METADATAS",
        "ALTER TABLE IF EXISTS lake.raw FORGET METADATA",
        "ALTER TABLE lake..raw FORGET METADATA",
        "ALTER TABLE lake.raw x FORGET METADATA",
        "ALTER TABLE `lake`raw FORGET METADATA",
        "ALTER TABLE `lake`, t FORGET METADATA",
        "ALTER TABLE `lake FORGET METADATA",
        "ALTER TABLE lake.raw\u00a0FORGET METADATA",
        "ALTER TABLE l\u00e4ke FORGET METADATA",
        "ALTER TABLE lake FORGET \u017fMETADATA",
        "EXPLAIN ALTER TABLE lake.raw FORGET METADATA",
        "ALTER TABLE " + "x" * 4_096 + " FORGET METADATA",
    ],
)
def test_anything_else_is_for_sparks_parser(text: str) -> None:
    assert dataset_statement(text) is None


def required_of(*names: TableName) -> Required | Unsupported:
    pins = tuple(Pin(None, name) for name in names)  # type: ignore[arg-type]
    return dataset_privileges(DatasetStatement("refresh", ""), Required(pins=pins), {"lake": LAKE})


def test_it_takes_promote_on_a_table_of_a_source() -> None:
    name = TableName("spark_catalog", "lake", "raw__events")
    found = required_of(name)
    assert isinstance(found, Required)
    assert [(str(privilege.resource), privilege.access) for privilege in found.privileges] == [
        (str(name), "promote")
    ]
    assert found.effects == (CatalogChanged((name,)), TendDataset("refresh", name))
    for other in (
        (),
        (TableName("spark_catalog", "hr", "raw__events"),),
        (TableName("other", "lake", "raw__events"),),
        (TableName("spark_catalog", "lake", "raw__"),),
    ):
        assert isinstance(required_of(*other), Unsupported)
