"""Parsers with the extensions of table formats before them, as tests start them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gateway.model.spark_minors import Minor
from gateway.model.table_formats import format_named
from gateway.reader.extension_jars import find_extension_jars
from gateway.reader.java_runtime import find_spark_of
from gateway.reader.limits import ReaderLimits
from gateway.reader.pool import ReaderPool
from tests.readers import patient

KEPT = Path("~/.cache/sluice/spark-jars").expanduser()
"""Where `sluice spark-jars` puts jars, for all clones of a machine."""


def chained_reader(minor: Minor, formats: Sequence[str], *, threads: int = 2) -> ReaderPool:
    """Return a parser of a minor with formats, not started. Raises JavaNotFound when jars are not here."""
    home = find_spark_of(minor, KEPT)
    found = [format_named(name) for name in formats]
    return ReaderPool(
        home,
        limits=patient(ReaderLimits()),
        extensions=[one.extension for one in found],
        jars=find_extension_jars(found, minor, spark_home=home, named=(), kept=KEPT),
        threads=threads,
    )
