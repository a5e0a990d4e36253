"""What a Spark of tests is started with to have table formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gateway.model.spark_configuration import CATALOG_PREFIX, EXTENSIONS
from gateway.model.spark_minors import NEWEST, SUPPORTED, Minor
from gateway.model.table_formats import FORMATS
from gateway.reader.extension_jars import find_cached_jars
from gateway.reader.java_runtime import find_kept_spark, find_spark_home

KEPT = Path("~/.cache/sluice/spark-jars").expanduser()
"""Where `sluice spark-jars` puts jars, for all clones of a machine."""


TOGETHER: Mapping[str, Sequence[str]] = {
    **{str(minor): () for minor in SUPPORTED},
    "3.5": ("delta", "iceberg"),
    "3.5-paimon": ("paimon",),
    "4.1": ("delta", "iceberg"),
}
"""Spark → its formats. All suites before one of a name share it. Iceberg and Paimon cannot be together."""

CATALOGS: Mapping[str, Mapping[str, str]] = {
    "delta": {"spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"},
    "iceberg": {
        "ice": "org.apache.iceberg.spark.SparkCatalog",
        "ice.type": "hadoop",
        "ice.warehouse": "{}/ice",
        # One that has views, in Spark's own metastore, which is Derby in the same process.
        "over": "org.apache.iceberg.spark.SparkCatalog",
        "over.type": "hive",
        "over.hadoop.iceberg.engine.hive.lock-enabled": "false",
        "over.hadoop.datanucleus.connectionPoolingType": "none",
    },
    "paimon": {"paimon": "org.apache.paimon.spark.SparkCatalog", "paimon.warehouse": "{}/paimon"},
}
"""Format → settings below `spark.sql.catalog.`; `{}` stands for a directory that Spark may write to."""


def spark_home_of(minor: Minor) -> Path:
    """Return the directory of a Spark of this minor; where there is none, the test fails."""
    home = find_spark_home() if minor == NEWEST else find_kept_spark(minor, KEPT)
    assert home is not None, f"no Spark {minor} in {KEPT}: `sluice spark-jars {minor}`"
    return home.resolve()


def jars_of(minor: Minor, formats: Sequence[str]) -> list[Path]:
    """Return the jars of formats for a minor; where one is missing, the test fails."""
    found: list[Path] = []
    for name in formats:
        jars = find_cached_jars(FORMATS[name], minor, KEPT)
        assert jars, f"no {name} in {KEPT}: `sluice spark-jars {minor} --formats {name}`"
        found += jars
    return found


def conf_of(formats: Sequence[str], warehouse: Path) -> dict[str, str]:
    """Return Spark's settings for formats, whose catalogs lie in `warehouse`."""
    if not formats:
        return {}
    conf = {EXTENSIONS: ",".join(FORMATS[name].extension for name in formats)}
    for name in formats:
        for key, value in CATALOGS[name].items():
            conf[CATALOG_PREFIX + key] = value.format(warehouse)
    return conf


def catalogs_of(formats: Sequence[str]) -> dict[str, str]:
    """Return which service speaks for which catalog, as `policies.catalogs` has it: always `spark`."""
    named = {key for name in formats for key in CATALOGS[name] if "." not in key}
    return dict.fromkeys(sorted(named | {"spark_catalog"}), "spark")
