"""Each type that some Spark gives an object of a catalog is governed, or refused by its name."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.catalog.describe import table_from_json, table_from_rows
from gateway.model.catalog import OBJECT_TYPES, TableKind, kind_of
from gateway.model.spark_minors import NEWEST, SUPPORTED, Minor, minor_of
from gateway.pipeline.judging import explain_ungoverned
from gateway.reader.java_runtime import find_spark_home, spark_version
from tests.catalog.test_known_types_describe import EMP, ROWS, described
from tests.e2e.lake.formats import spark_home_of

CLASSES = (
    "org/apache/spark/sql/catalyst/catalog/CatalogTableType$.class",
    "org/apache/spark/sql/connector/catalog/TableSummary.class",
)
"""Where Spark has the names of the types, each a constant: of its own catalog, and of others since 4.1."""
SIZES = {
    3: 5,
    4: 5,
    5: 9,
    6: 9,
    7: 3,
    8: 3,
    9: 5,
    10: 5,
    11: 5,
    12: 5,
    15: 4,
    16: 3,
    17: 5,
    18: 5,
    19: 3,
    20: 3,
}
"""Tag of a constant → its bytes (Java Virtual Machine Specification, 4.4); text, 1, says its own length."""
TEXT, LONG, DOUBLE, STRING = 1, 5, 6, 8


def strings(compiled: bytes) -> Iterator[str]:
    """Yield the strings that the code of a class uses, read from its pool of constants."""
    (count,) = struct.unpack_from(">H", compiled, 8)
    texts: dict[int, str] = {}
    used, at, number = [], 10, 1
    while number < count:
        tag = compiled[at]
        if tag == TEXT:
            (length,) = struct.unpack_from(">H", compiled, at + 1)
            texts[number] = compiled[at + 3 : at + 3 + length].decode(errors="replace")
            at += 3 + length
        else:
            if tag == STRING:
                used.append(struct.unpack_from(">H", compiled, at + 1)[0])
            at += SIZES[tag]
        number += 2 if tag in (LONG, DOUBLE) else 1
    yield from (texts[one] for one in used)


def types_of(spark_home: Path) -> set[str]:
    (jar,) = (spark_home / "jars").glob("spark-catalyst_*.jar")
    with zipfile.ZipFile(jar) as archive:
        there = [name for name in CLASSES if name in archive.namelist()]
        return {text for name in there for text in strings(archive.read(name))}


def test_every_type_of_this_spark_is_on_the_list() -> None:
    found = types_of(find_spark_home())
    assert {"MANAGED", "EXTERNAL", "VIEW"} <= found <= OBJECT_TYPES.keys()
    if minor_of(spark_version(find_spark_home())) == NEWEST:
        assert found == OBJECT_TYPES.keys(), "the list holds what no Spark says any more"


@pytest.mark.lake
@pytest.mark.parametrize("minor", [minor for minor in SUPPORTED if minor < NEWEST], ids=str)
def test_every_type_of_an_older_spark_is_on_the_list(minor: Minor) -> None:
    assert {"MANAGED", "EXTERNAL", "VIEW"} <= types_of(spark_home_of(minor)) <= OBJECT_TYPES.keys()


@pytest.mark.parametrize("told", ["MATERIALIZED_VIEW", "STREAMING_TABLE", "?"])
def test_what_is_not_governed_keeps_its_type(told: str) -> None:
    rows = [("Type", told, "") if row[0] == "Type" else row for row in ROWS]
    for table in (table_from_json(described(type=told), EMP), table_from_rows(rows, EMP)):
        assert table.kind is TableKind.UNGOVERNED
        assert table.object_type == told
        assert f"{table.name} is a {told}" in explain_ungoverned(table)


METRICS = "version: 0.1\nsource: lab.pay\nmeasures:\n" + "".join(
    f"- {{name: m{number}, expr: sum(pay)}}\n"
    for number in range(len(table_from_json(described(), EMP).columns))
)


def test_a_metric_view_is_a_view_of_its_definition() -> None:
    for told in ("METRIC_VIEW", "metric_view"):
        table = table_from_json(described(type=told, view_text=METRICS), EMP)
        assert table.kind is TableKind.VIEW
        assert table.view is not None
        assert table.view.metrics is not None
        assert table.view.definer is None


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"view_text": METRICS + "joins: []\n"}, "unknown key `joins`"),
        ({"view_text": METRICS, "table_properties": {"metric_view.from.type": "SQL"}}, "differently"),
        (
            {
                "view_text": METRICS,
                "view_creation_spark_configuration": {"spark.sql.ansi.doubleQuotedIdentifiers": "true"},
            },
            "parses texts differently|parsed texts differently",
        ),
    ],
)
def test_a_metric_view_that_is_not_understood_is_not_governed(more: dict[str, Any], why: str) -> None:
    table = table_from_json(described(type="METRIC_VIEW", **more), EMP)
    assert table.kind is TableKind.UNGOVERNED
    assert re.search(
        rf"{table.name} is a metric view that cannot be governed: .*{why}", explain_ungoverned(table)
    )


def test_a_metric_view_without_json_is_not_governed() -> None:
    rows = [("Type", "METRIC_VIEW", "") if row[0] == "Type" else row for row in ROWS]
    assert "does not describe it as JSON" in explain_ungoverned(table_from_rows(rows, EMP))


def test_an_object_without_a_type_is_not_governed() -> None:
    (table,) = [table_from_rows([row for row in ROWS if row[0] != "Type"], EMP)]
    assert table.kind is TableKind.UNGOVERNED
    assert explain_ungoverned(table) == f"Spark does not report what kind of object {table.name} is"


def test_types_are_compared_in_any_letters() -> None:
    assert kind_of("managed") is TableKind.TABLE
    assert kind_of("View") is TableKind.VIEW
    assert kind_of("") is TableKind.UNGOVERNED
