"""Stores the classes that a Spark of our own loads where Java finds them at its next start.

The embedded Spark is ready with 5.2 s of CPU instead of 9.5; that of a job on this machine costs half. As of
a parser's archive (`reader/class_archive.py`), its name says which Java and jars it was made with, nothing
else takes it, and it lies beside the jars.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from gateway.app.explaining import make_backend
from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions, pack_hadoop_defaults
from gateway.backends.spark_thrift import PROBE
from gateway.errors import SluiceError
from gateway.model.java_options import SparkClasses
from gateway.reader.class_archive import (
    SPARK_PREFIX,
    STORE_S,
    NotArchived,
    find_spark_classes,
    remove_others,
    spark_archive_of,
)
from gateway.reader.java_runtime import jdk_openings
from gateway.session.ports import BackendError, ask_as_gateway
from gateway.settings.backends import BackendSettings, EmbeddedBackend
from gateway.wire.tcli import TProtocolVersion

TYPICAL = (
    "CREATE TABLE t USING parquet PARTITIONED BY (day) AS SELECT id, cast(id AS STRING) AS name, "
    "cast(id AS DECIMAL(10,2)) AS pay, DATE'2026-01-01' AS day FROM range(100)",
    "CREATE VIEW v AS SELECT day, name, sum(pay) AS pay FROM t WHERE id > 3 GROUP BY day, name",
    "WITH c AS (SELECT name, count(*) AS n FROM t WHERE day >= DATE'2026-01-01' GROUP BY name) "
    "SELECT c.name, CASE WHEN n > 1 THEN upper(v.name) ELSE 'x' END AS other, "
    "row_number() OVER (ORDER BY n) AS r FROM c LEFT JOIN v ON c.name = v.name "
    "WHERE v.name LIKE '1%' AND v.pay IN (SELECT pay FROM t) ORDER BY r LIMIT 5",
    "SELECT explode(array(struct(1 AS a, to_json(named_struct('b', id))))), map('c', id) FROM t",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM t AS o WHERE o.id = t.id + 1) UNION SELECT 1",
    "INSERT INTO t SELECT id, concat(name, sha2(name, 256)), pay, date_add(day, 1) FROM t",
    "ALTER TABLE t ADD COLUMNS (more STRING)",
    "SHOW TABLES",
    "DESCRIBE EXTENDED t",
    "EXPLAIN SELECT * FROM t JOIN v USING (name)",
    "DROP VIEW v",
    "DROP TABLE t",
)
"""Statements whose classes go into it; those of others are loaded from the jars."""


async def store_spark_classes(java: Path, spark_home: Path) -> Path:
    """Run a Spark once and store the classes that it loads; return the archive, old ones removed.

    Raises NotArchived.
    """
    archive = spark_archive_of(java, spark_home)
    if find_spark_classes(java, spark_home) is not None:
        return archive
    jar = archive.with_suffix(".jar")
    try:
        with (
            tempfile.TemporaryDirectory(prefix=f".{SPARK_PREFIX}", dir=spark_home) as beside,
            tempfile.TemporaryDirectory(prefix=SPARK_PREFIX) as directory,
        ):
            packed, copied = Path(beside) / jar.name, Path(beside) / archive.name
            pack_hadoop_defaults(spark_home / "jars", packed)
            packed.replace(jar)  # before the archive is made: Java compares place and time
            shutil.copyfile(await _train(java, spark_home, Path(directory), jar), copied)
            copied.chmod(0o444)
            copied.replace(archive)
    except OSError as error:
        raise NotArchived(f"`{archive}` cannot be written: {error}") from error
    except (SluiceError, BackendError) as error:
        raise NotArchived(f"no archive of Spark's classes was written: {error.message}") from error
    for kept in (archive, jar):
        remove_others(kept, SPARK_PREFIX)
    return archive


async def _train(java: Path, spark_home: Path, directory: Path, jar: Path) -> Path:
    """Have a Spark load what statements need, and return the archive that Java writes as it ends."""
    archive = directory / "made.jsa"
    settings = BackendSettings(embedded=EmbeddedBackend())
    options = EmbeddedSparkOptions(
        directory=directory,
        java=java,
        spark_home=spark_home,
        java_options=jdk_openings(),
        classes=SparkClasses(str(jar), f"-XX:ArchiveClassesAtExit={archive}"),
        stop_timeout_s=STORE_S,
    )
    spark = EmbeddedSpark(options, lambda host, port: make_backend(settings, host, port).probe())
    await spark.start()
    try:
        backend = make_backend(settings, spark.host, spark.thrift_port)
        with ask_as_gateway():
            session = await backend.open_session(PROBE, protocol_version=TProtocolVersion.V10, settings={})
        for text in TYPICAL:
            await session.answer(text, max_rows=10)
        await session.close()
    finally:
        await spark.stop()
    return archive
