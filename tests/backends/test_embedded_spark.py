"""What an embedded Spark is started with."""

from __future__ import annotations

from pathlib import Path

from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions


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
