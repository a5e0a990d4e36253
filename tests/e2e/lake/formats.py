"""Table formats: what a Spark is started with to have them, for each minor that they are built for.

What is on a class path together also has to get along there: Iceberg's runtime and Paimon's bring classes of
the same names, so no Spark has both.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.model.spark_minors import NEWEST, Minor, minor_of
from gateway.reader.java_runtime import find_kept_spark, find_spark_home

KEPT = Path("~/.cache/sluice/spark-jars").expanduser()
"""Where `sluice spark-jars` puts jars, for all clones of a machine."""


@dataclass(frozen=True)
class Format:
    """A table format."""

    extension: str
    """A class of `spark.sql.extensions`."""
    catalog: str
    """The catalog that its tables are in."""
    settings: Mapping[str, str]
    """Of that catalog; `{}` stands for a directory that Spark may write to."""
    jars: Sequence[str]
    """Patterns of the names of its jars."""


FORMATS: Mapping[str, Format] = {
    "delta": Format(
        extension="io.delta.sql.DeltaSparkSessionExtension",
        catalog="spark_catalog",
        settings={"": "org.apache.spark.sql.delta.catalog.DeltaCatalog"},
        jars=("delta-*.jar",),
    ),
    "iceberg": Format(
        extension="org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog="ice",
        settings={
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "hadoop",
            ".warehouse": "{}/ice",
        },
        jars=("iceberg-*.jar",),
    ),
    "paimon": Format(
        extension="org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        catalog="paimon",
        settings={"": "org.apache.paimon.spark.SparkCatalog", ".warehouse": "{}/paimon"},
        jars=("paimon-*.jar",),
    ),
}


def spark_home_of(minor: Minor) -> Path:
    """Return the directory of a Spark of this minor; where there is none, the test fails."""
    home = find_spark_home() if minor == NEWEST else find_kept_spark(minor, KEPT)
    assert home is not None, f"no Spark {minor} in {KEPT}: `sluice spark-jars {minor}`"
    return home.resolve()


def jars_of(minor: Minor, formats: Sequence[str]) -> list[Path]:
    """Return the jars of formats for a minor; where one is missing, the test fails."""
    found: list[Path] = []
    directory = Path(os.environ.get("SLUICE_LAKE_JARS", KEPT / "formats")) / str(minor)
    for name in formats:
        jars = [jar for pattern in FORMATS[name].jars for jar in sorted(directory.glob(pattern))]
        assert jars, f"no jars of {name} for Spark {minor} in {directory}"
        found += jars
    return found


def conf_of(formats: Sequence[str], warehouse: Path) -> dict[str, str]:
    """Return Spark's settings for formats, whose catalogs lie in `warehouse`."""
    conf = {"spark.sql.extensions": ",".join(FORMATS[name].extension for name in formats)} if formats else {}
    for name in formats:
        for key, value in FORMATS[name].settings.items():
            conf[f"spark.sql.catalog.{FORMATS[name].catalog}{key}"] = value.format(warehouse)
    return conf


def has_connect(minor: Minor) -> bool:
    """Whether a Spark of this minor has Spark Connect among its jars."""
    return minor >= minor_of("4.0")
