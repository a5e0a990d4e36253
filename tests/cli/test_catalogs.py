"""`sluice catalogs`: lists, shows and tests, and prints what Spark must be told without any secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.cli import main
from gateway.cli.exit_codes import FAULTS, UNAVAILABLE

SETTINGS = """\
catalogs:
  - name: lake
    policies: spark
    catalog:
      type: iceberg
      is-default: true
      connection-params: {type: rest, uri: "http://127.0.0.1:9", credential: {env: SLUICE_TEST_LAKE}}
  - name: scratch
    catalog: {type: in-memory}
  - name: spark_catalog
    catalog: {type: hive, connection-params: {hive.metastore.uris: "thrift://h:9083"}}
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SLUICE_TEST_LAKE", "hush")
    (tmp_path / "gateway.yaml").write_text(SETTINGS)
    return str(tmp_path / "gateway.yaml")


def asked(config: str, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["catalogs", *words, "-c", config])
    out = capsys.readouterr()
    assert "hush" not in out.out + out.err
    return code, out.out + out.err


def test_spark_is_told_of_catalogs_extensions_and_the_default(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = asked(config, capsys, "spark-conf", "--json")
    assert code == 0
    assert json.loads(out) == {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "rest",
        "spark.sql.catalog.lake.uri": "http://127.0.0.1:9",
        "spark.sql.catalog.lake.credential": "***",
        "spark.sql.defaultCatalog": "lake",
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": "thrift://h:9083",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }


def test_catalogs_are_listed_shown_and_tested(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = asked(config, capsys, "list", "--json")
    assert code == 0
    assert [(one["name"], one["default"]) for one in json.loads(out)] == [
        ("lake", True),
        ("scratch", False),
        ("spark_catalog", False),
    ]
    code, out = asked(config, capsys, "show", "lake")
    assert code == 0
    assert "***" in out
    assert asked(config, capsys, "test", "scratch") == (0, "scratch: answers, with 1 databases\n")
    code, out = asked(config, capsys, "test", "lake")
    assert code == UNAVAILABLE
    assert "no answer" in out
    code, out = asked(config, capsys, "show", "laek")
    assert code == FAULTS
    assert "there is no catalog `laek`" in out
