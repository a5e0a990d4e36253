"""`sluice catalogs`: lists, shows and tests, and prints what Spark must be told without any secret."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from gateway.app.exit_codes import ERROR, FAULTS, UNAVAILABLE
from gateway.cli import main
from tests.catalog.doubles import Double, gravitino, iceberg, serving
from tests.catalog.gravitino_double import Gravitino
from tests.speed import patience

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


@asynccontextmanager
async def started(double: Gravitino) -> AsyncIterator[None]:
    await double.start()
    yield
    await double.stop()


@contextmanager
def served(server: AbstractAsyncContextManager[object]) -> Iterator[None]:
    """Have a server answer, in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(patience(10))
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(patience(10))
        loop.call_soon_threadsafe(loop.stop)
        thread.join(patience(10))
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


OF_A_SPARK = """
reader: {spark_version: "4.1", spark_jars: DIRECTORY}
"""
"""Settings that name a Spark that is there, in a directory as `sluice spark-jars` makes it."""


def spark_of(directory: Path) -> str:
    """Make what looks like a Spark, and return settings that name it."""
    jars = directory / "sparks" / "4.1.4" / "jars"
    jars.mkdir(parents=True)
    (jars / "spark-catalyst_2.13-4.1.4.jar").touch()
    return OF_A_SPARK.replace("DIRECTORY", str(directory / "sparks"))


def test_jars_are_told_for_the_sparks_minor(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Path(config).open("a") as file:
        file.write(spark_of(Path(config).parent))
    told = json.loads(asked(config, capsys, "spark-conf", "--json")[1])
    assert told["spark.jars.packages"] == "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"


def test_a_minor_without_a_build_and_a_spark_that_is_not_there_are_told(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "# iceberg does not support Spark 4.3" in asked(config, capsys, "spark-conf")[1]
    with Path(config).open("a") as file:
        file.write('reader: {spark_version: "4.1", spark_jars: nowhere}')
    code, out = asked(config, capsys, "spark-conf")
    assert code == 0
    assert "# it is not known which jars Spark needs" in out


def test_what_a_metalake_needs_at_sparks_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLUICE_TEST_LAKE", "me:hush")
    config = tmp_path / "gateway.yaml"
    text = METALAKE.format(uri="http://g:8090") + spark_of(tmp_path)
    config.write_text(text)
    assert json.loads(asked(str(config), capsys, "spark-conf", "--json")[1]) == {}
    config.write_text(text.replace("metalake: lake", "metalake: lake, iceberg: true"))
    assert json.loads(asked(str(config), capsys, "spark-conf", "--json")[1]) == {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    }
    login = "auth: oauth2, oauth2-server-uri: http://l, credential: {env: SLUICE_TEST_LAKE}"
    config.write_text(
        text.replace("metalake: lake", f"metalake: lake, iceberg: true, connectors: gravitino, {login}")
    )
    assert json.loads(asked(str(config), capsys, "spark-conf", "--json")[1]) == {
        "spark.plugins": "org.apache.gravitino.spark.connector.plugin.GravitinoSparkPlugin",
        "spark.sql.gravitino.uri": "http://g:8090",
        "spark.sql.gravitino.metalake": "lake",
        "spark.sql.gravitino.enableIcebergSupport": "true",
        "spark.sql.gravitino.authType": "oauth2",
        "spark.sql.gravitino.oauth2.serverUri": "http://l",
        "spark.sql.gravitino.oauth2.credential": "***",
    }


def test_what_a_metalakes_catalog_has_is_shown_at_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLUICE_TEST_LAKE", "hush")
    double = Double(databases={"sales": {"orders": "table"}})
    double.told["sales",] = {"properties": {"access-key-secret": "hush", "team": "red"}}
    catalogs = [
        {
            "name": "hive",
            "type": "RELATIONAL",
            "provider": "hive",
            "properties": {"metastore.uris": "thrift://m:9083"},
        },
        {"name": "odd", "type": "RELATIONAL", "provider": "unheard-of", "properties": {}},
        {"name": "files", "type": "FILESET", "provider": "hadoop", "properties": {}},
    ]
    with served(serving(double, gravitino(double, catalogs))):
        (tmp_path / "gateway.yaml").write_text(METALAKE.format(uri=double.url))
        config = str(tmp_path / "gateway.yaml")
        code, out = asked(config, capsys, "show", "HIVE", "hive.sales", "hive.sales.orders", "--json")
        assert code == 0
        whole, database, table = json.loads(out)
        assert (whole["name"], whole["of"], whole["databases"]) == ("hive", "lake", ["sales"])
        assert (database["tables"], database["properties"]["team"]) == (["orders"], "red")
        # Hive keeps instants: the provider's types count.
        assert [(one["name"], one["type"]) for one in table["columns"]] == [
            ("id", "bigint"),
            ("at", "timestamp"),
            ("tags", "array<string>"),
        ]
        assert asked(config, capsys, "test", "hive") == (0, "hive: answers, with 1 databases\n")
        code, out = asked(config, capsys, "show", "odd.sales")
        assert (code, "the types of provider `unheard-of` are not known" in out) == (FAULTS, True)
        for unknown in ("files", "laek"):
            code, out = asked(config, capsys, "show", unknown)
            assert (code, f"`catalogs` has no catalog `{unknown}`" in out) == (FAULTS, True)
        text = METALAKE.replace("metalake: lake", "metalake: lake, connectors: gravitino")
        Path(config).write_text(text.format(uri=double.url))
        code, out = asked(config, capsys, "spark-conf", "hive", "odd")
        assert (code, "spark.sql.gravitino.metalake lake" in out) == (0, True)
        assert asked(config, capsys, "create-database", "hive.new") == (0, "hive.new is there\n")
        assert asked(config, capsys, "drop-database", "hive.new") == (0, "hive.new is dropped\n")
    code, out = asked(config, capsys, "show", "hive")
    assert (code, "no answer" in out) == (UNAVAILABLE, True)


def test_catalogs_are_listed_shown_and_tested(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = asked(config, capsys, "list", "--json")
    assert code == 0
    assert [(one["name"], one["default"], one["policies"]) for one in json.loads(out)] == [
        ("lake", True, "spark"),
        ("scratch", False, ""),
        ("spark_catalog", False, "spark"),
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
    assert "`catalogs` has no catalog `laek`" in out


IN_USE = """\
catalogs:
  - name: lake
    catalog: {{type: iceberg, connection-params: {{type: rest, uri: "{uri}"}}}}
"""


def test_what_is_in_a_catalog_is_shown_and_databases_are_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    double = Double(databases={"sales": {"orders": "table", "b": "table"}, "sales.b": {}})
    double.told["sales",] = {"properties": {"s3.secret-access-key": "hush", "team": "red"}}
    with served(serving(double, iceberg(double))):
        (tmp_path / "gateway.yaml").write_text(IN_USE.format(uri=double.url))
        config = str(tmp_path / "gateway.yaml")
        (lake,) = json.loads(asked(config, capsys, "show", "lake", "--json")[1])
        assert lake["databases"] == ["sales", "sales.b"]
        database, table = json.loads(
            asked(config, capsys, "show", "lake.sales", "lake.sales.orders", "--json")[1]
        )
        assert (database["tables"], database["properties"]["team"]) == (["b", "orders"], "red")
        assert (table["table"], table["columns"][0]) == (
            "orders",
            {"name": "id", "type": "bigint", "comment": None},
        )
        # A name that is both a database and a table means both.
        both = json.loads(asked(config, capsys, "show", "lake.sales.b", "--json")[1])
        assert [one.get("table") or one["database"] for one in both] == ["sales.b", "b"]
        code, out = asked(config, capsys, "show", "lake.`sales`.orders")
        assert code == 0
        assert "at timestamp, when" in out
        code, out = asked(config, capsys, "show", "lake.sales.nothing")
        assert (code, "`lake` has no table, function or database `sales.nothing`" in out) == (ERROR, True)
        assert asked(config, capsys, "create-database", "lake.new") == (0, "lake.new is there\n")
        code, out = asked(config, capsys, "create-database", "lake.new")
        assert (code, "already" in out) == (ERROR, True)
        code, out = asked(config, capsys, "drop-database", "lake.sales")
        assert (code, "not empty" in out) == (ERROR, True)
        assert asked(config, capsys, "drop-database", "lake.new") == (0, "lake.new is dropped\n")
        for wrong in ("create-database", "drop-database"):
            assert asked(config, capsys, wrong, "lake")[0] == FAULTS
            assert asked(config, capsys, wrong)[0] == FAULTS
    assert sorted(double.databases) == ["sales", "sales.b"]


def test_a_metalake_is_listed_by_its_file_and_tested_at_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    double = Gravitino()
    double.add(
        "pg",
        "jdbc-mysql",
        jdbc_url="jdbc:mysql://db",
        jdbc_driver="com.mysql.cj.jdbc.Driver",
        jdbc_password="hush",
    )
    double.add("odd", "unheard-of")
    monkeypatch.setenv("SLUICE_TEST_LAKE", "hush")
    with served(started(double)):
        (tmp_path / "gateway.yaml").write_text(METALAKE.format(uri=double.url))
        config = str(tmp_path / "gateway.yaml")
        code, out = asked(config, capsys, "test", "lake", "--json")
        assert code == 0
        (told,) = json.loads(out)
        assert told["said"] == "answers, with 2 catalogs, 1 of them for Spark"
        assert told["catalogs"] == [
            {"name": "odd", "provider": "unheard-of", "left_out": "unknown provider `unheard-of`"},
            {"name": "pg", "provider": "jdbc", "left_out": ""},
        ]
        # Nothing is kept by a command; the gateway has not run yet.
        code, out = asked(config, capsys, "list", "--json")
        assert [one["name"] for one in json.loads(out)] == ["lake", "spark_catalog"]
    code, out = asked(config, capsys, "test", "lake")
    assert code == UNAVAILABLE
    assert "no answer" in out
