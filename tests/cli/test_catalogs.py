"""`sluice catalogs`: lists, shows and tests, and prints what Spark must be told without any secret."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.cli import main
from gateway.cli.exit_codes import FAULTS, UNAVAILABLE
from tests.catalog.gravitino_double import Gravitino

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

METALAKE = """\
catalogs:
  - name: lake
    catalog:
      type: gravitino
      connection-params: {{uri: "{uri}", metalake: lake, set.pg.password: {{env: SLUICE_TEST_LAKE}}}}
"""


@contextmanager
def served(double: Gravitino) -> Iterator[None]:
    """Have the server answer, in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(double.start(), loop).result(10)
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(double.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


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


def test_a_metalake_is_listed_by_its_file_and_tested_at_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    double = Gravitino()
    double.add("pg", "jdbc-mysql", jdbc_url="jdbc:mysql://db", jdbc_driver="d", jdbc_password="hush")
    double.add("odd", "unheard-of")
    monkeypatch.setenv("SLUICE_TEST_LAKE", "hush")
    with served(double):
        (tmp_path / "gateway.yaml").write_text(METALAKE.format(uri=double.url))
        config = str(tmp_path / "gateway.yaml")
        code, out = asked(config, capsys, "test", "lake", "--json")
        assert code == 0
        (told,) = json.loads(out)
        assert told["said"] == "answers, with 2 catalogs, 1 of them for Spark"
        assert told["catalogs"] == [
            {"name": "odd", "provider": "unheard-of", "left_out": "provider `unheard-of` is not known"},
            {"name": "pg", "provider": "jdbc", "left_out": ""},
        ]
        # Nothing is kept by a command; the gateway has not run yet.
        code, out = asked(config, capsys, "list", "--json")
        assert [one["name"] for one in json.loads(out)] == ["lake", "spark_catalog"]
    code, out = asked(config, capsys, "test", "lake")
    assert code == UNAVAILABLE
    assert "no answer" in out
