"""Datasets are called as OpenLineage's naming specification has it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.lineage.openlineage.names import Naming
from gateway.model.lineage import RESULT, Dataset, DatasetKind
from tests.lineage.statements import seen

STATEMENT = replace(seen("a.x -> b.y: x IDENTITY"), session_id="s-1")
CATALOGS = {
    "spark_catalog": "hive://metastore:9083",
    "pg": "postgres://db:5432/sales",
    "my": "mysql://db:3306",
    "glue": "arn:aws:glue:eu-west-1:123",
    "lake": "s3://lake/",
}
NAMING = Naming(namespace="prod", catalogs=CATALOGS, paths="hdfs://nn:8020")


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ("spark_catalog.hr.pay", ("hive://metastore:9083", "hr.pay")),
        ("pg.public.orders", ("postgres://db:5432", "sales.public.orders")),
        ("my.shop.orders", ("mysql://db:3306", "shop.orders")),
        ("glue.hr.pay", ("arn:aws:glue:eu-west-1:123", "table/hr/pay")),
        ("lake.hr.pay", ("s3://lake", "hr.pay")),
        ("other.hr.pay", ("prod", "other.hr.pay")),
    ],
)
def test_a_table_is_in_the_data_source_of_its_catalog(table: str, named: tuple[str, str]) -> None:
    dataset = Dataset(DatasetKind.TABLE, tuple(table.split(".")))
    assert NAMING.dataset(dataset, STATEMENT) == named


@pytest.mark.parametrize(
    ("location", "named"),
    [
        ("/data/raw/", ("hdfs://nn:8020", "/data/raw")),
        ("file:/data/raw", ("file", "/data/raw")),
        ("file:///data/raw", ("file", "/data/raw")),
        ("hdfs://nn1:8020/data/raw", ("hdfs://nn1:8020", "/data/raw")),
        ("s3a://bucket/raw/x.parquet", ("s3://bucket", "raw/x.parquet")),
        ("S3://bucket", ("s3://bucket", "/")),
        ("s3a://key:secret@bucket/raw", ("s3://bucket", "raw")),
        ("gs://bucket/raw", ("gs://bucket", "raw")),
        ("abfss://box@store.dfs.core.windows.net/raw", ("abfss://box@store.dfs.core.windows.net", "raw")),
        ("/", ("hdfs://nn:8020", "/")),
    ],
)
def test_a_path_is_in_its_file_system_without_logins(location: str, named: tuple[str, str]) -> None:
    assert NAMING.path(location) == named
    assert NAMING.dataset(Dataset(DatasetKind.PATH, (location,)), STATEMENT) == named


def test_what_only_the_gateway_knows_is_in_its_namespace() -> None:
    view = Dataset(DatasetKind.TEMP_VIEW, ("v",))
    assert NAMING.dataset(view, STATEMENT) == ("prod", "session:bob/s-1.v")
    result = NAMING.dataset(RESULT, STATEMENT)
    assert result.namespace == "prod"
    assert result.name.startswith("result:")
    assert NAMING.dataset(RESULT, replace(STATEMENT, text="other")) != result


def test_a_job_is_named_by_what_it_writes() -> None:
    assert NAMING.job_of(STATEMENT) == ("prod", "insert.spark_catalog.lab.b")
    two = seen("a.x -> b.y: x IDENTITY", "a.x -> c.y: x IDENTITY")
    assert NAMING.job_of(two).name == "insert.spark_catalog.lab.b+1"
    mine = replace(NAMING, job="{user}: {target}")
    assert mine.job_of(STATEMENT).name == "bob: spark_catalog.lab.b"
