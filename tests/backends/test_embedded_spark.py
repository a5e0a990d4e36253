"""What an embedded Spark is started with."""

from __future__ import annotations

from pathlib import Path

from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions
from gateway.model.java_options import SparkClasses


async def never(host: str, port: int) -> None:
    raise AssertionError("no Spark is started here")


def test_the_metastore_has_connections_for_all_whose_statements_are_cancelled(tmp_path: Path) -> None:
    """With Derby's pool of ten, cancelled statements can keep them all, and everybody waits for ever."""
    java, jars = tmp_path / "java", tmp_path / "jars"
    spark = EmbeddedSpark(EmbeddedSparkOptions(directory=tmp_path, java=java, spark_home=tmp_path), never)
    command = spark._command(java, jars)
    setting = command.index("spark.hadoop.datanucleus.connectionPool.maxPoolSize=100")
    assert command[setting - 1] == "--conf"
    assert setting < command.index("spark-internal")  # what comes after is for Hive's server
    assert "hive.server2.async.exec.threads=100" in command


def test_with_an_archive_the_class_path_begins_as_spark_s_launcher_has_it(tmp_path: Path) -> None:
    """Java takes an archive only where it does; nothing may come between."""
    java, jars = tmp_path / "java", tmp_path / "jars"
    jars.mkdir()
    (jars / "slf4j-api-2.0.jar").touch()
    spark = EmbeddedSpark(EmbeddedSparkOptions(directory=tmp_path, java=java, spark_home=tmp_path), never)
    classes = SparkClasses(str(tmp_path / "made.jar"), "-XX:SharedArchiveFile=made.jsa")
    command = spark._command(java, jars, classes)
    path = command[command.index("-cp") + 1].split(":")
    assert path[:3] == [str(tmp_path / "made.jar"), str(jars / "slf4j-api-2.0.jar"), f"{jars}/*"]
    assert classes.option in command
    without = spark._command(java, jars)
    assert without[without.index("-cp") + 1].split(":")[:2] == [str(spark.directory / "conf"), f"{jars}/*"]
