"""The parser is made of a Spark of the backend's minor version, which the backend is asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.app.explaining import parsers_for
from gateway.model.spark_minors import UnsupportedSpark
from gateway.reader.java_runtime import JavaNotFound, find_spark_home
from gateway.settings.models import Settings
from tests.backends.fake_hive_server import FakeHiveServer


@pytest_asyncio.fixture
async def spark() -> AsyncIterator[FakeHiveServer]:
    server = FakeHiveServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A directory of jars with a Spark 4.2 in it."""
    jars = tmp_path / "4.2.1" / "jars"
    jars.mkdir(parents=True)
    (jars / "spark-catalyst_2.13-4.2.1.jar").touch()
    return tmp_path


def settings(port: int, kept: Path, **reader: object) -> Settings:
    return Settings.model_validate(
        {
            "backend": {"thrift": {"host": "127.0.0.1", "port": port}},
            "reader": {"spark_jars": kept, **reader},
        }
    )


async def test_the_backend_says_which_minor(spark: FakeHiveServer, kept: Path) -> None:
    spark.version = "4.2.7"
    assert (await parsers_for(settings(spark.port, kept))).spark_home == kept / "4.2.1"
    assert spark.asked == ["SET", "version"]


async def test_a_minor_whose_jars_are_not_here(spark: FakeHiveServer, tmp_path: Path) -> None:
    spark.version = "4.2.7"
    with pytest.raises(JavaNotFound, match=r"sluice spark-jars 4\.2"):
        await parsers_for(settings(spark.port, tmp_path))


@pytest.mark.parametrize("version", ["3.4.4", "5.0.0", "", "strange"])
async def test_a_minor_that_is_not_known_is_refused(spark: FakeHiveServer, kept: Path, version: str) -> None:
    spark.version = version
    with pytest.raises(UnsupportedSpark):
        await parsers_for(settings(spark.port, kept))


async def test_connect_before_a_spark_that_ignores_parts_of_plans(tmp_path: Path) -> None:
    jars = tmp_path / "3.5.9" / "jars"
    jars.mkdir(parents=True)
    (jars / "spark-catalyst_2.12-3.5.9.jar").touch()
    thrift = settings(1, tmp_path, spark_version="3.5")
    assert (await parsers_for(thrift)).spark_home == tmp_path / "3.5.9"
    both = Settings.model_validate(
        {
            "listeners": {"connect": {}},
            "backend": {
                "thrift": {"host": "127.0.0.1", "port": 1},
                "connect": {"host": "127.0.0.1", "port": 2},
            },
            "reader": {"spark_jars": tmp_path, "spark_version": "3.5"},
        }
    )
    with pytest.raises(UnsupportedSpark, match=r"Spark 3\.5 is supported over its Thrift Server only"):
        await parsers_for(both)


async def test_settings_come_before_the_backend(spark: FakeHiveServer, kept: Path) -> None:
    spark.version = "9.9.9"
    named = settings(spark.port, kept, spark_version="4.2")
    assert (await parsers_for(named)).spark_home == kept / "4.2.1"
    named = settings(spark.port, kept, spark_home=kept / "4.2.1")
    assert (await parsers_for(named)).spark_home == kept / "4.2.1"
    assert spark.asked == ["SET", "version"] * 2


async def test_a_backend_that_is_away_is_taken_for_the_spark_of_the_installation(kept: Path) -> None:
    assert (await parsers_for(settings(1, kept))).spark_home == find_spark_home()


def test_one_of_home_and_version() -> None:
    with pytest.raises(ValueError, match="or `spark_version`"):
        settings(1, Path("/nowhere"), spark_version="4.2", spark_home="/opt/spark")
