"""What a parser process is made of: a Spark, and the extensions that stand before its parser."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsers:
    """The jars of a Spark and of its extensions."""

    spark_home: Path
    """Directory whose `jars/` holds the Spark."""
    extensions: tuple[str, ...] = ()
    """Classes of `spark.sql.extensions`, in Spark's order."""
    jars: tuple[Path, ...] = ()
    """Of the extensions; those that lie among Spark's own are not named."""
