"""Finds the jars of the extensions that a Spark runs; never downloads anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from gateway.model.spark_minors import Minor
from gateway.model.table_formats import TableFormat
from gateway.reader.java_runtime import JavaNotFound

FORMATS_DIRECTORY = "formats"
"""Beside the Sparks in the directory that `sluice spark-jars` fills; in it one for each minor and format."""


def places_of(one: TableFormat, minor: Minor, kept: Path) -> tuple[Path, ...]:
    """Return where `sluice spark-jars` puts the jars of a format in `kept`. Raises UnsupportedFormat."""
    directory = kept / FORMATS_DIRECTORY / str(minor) / one.name
    return tuple(directory / artifact.file for artifact in one.artifacts_for(minor))


def find_cached_jars(one: TableFormat, minor: Minor, kept: Path) -> tuple[Path, ...]:
    """Return the jars of a format in `kept`; none unless all are there. Raises UnsupportedFormat."""
    jars = places_of(one, minor, kept)
    return jars if all(jar.is_file() for jar in jars) else ()


def find_extension_jars(
    formats: Sequence[TableFormat],
    minor: Minor,
    *,
    spark_home: Path,
    named: Sequence[Path],
    kept: Path,
) -> tuple[Path, ...]:
    """Return the jars to put beside a Spark's own so that it has these formats.

    `named` are jars, or directories of jars; where there are some, they are the only place that is looked at
    beside Spark's own jars. Otherwise the jars are those in `kept`. Raises JavaNotFound with the cause,
    UnsupportedFormat.
    """
    if not formats:
        return ()
    own, others = _jars((spark_home / "jars",)), _jars(named)
    found: list[Path] = list(others)
    for one in formats:
        if _has(one, minor, own) or _has(one, minor, others):
            continue
        if named:
            raise JavaNotFound(f"Spark runs `{one.extension}`, and {_without(one, minor, (*own, *others))}")
        jars = find_cached_jars(one, minor, kept)
        if not jars:
            raise JavaNotFound(
                f"Spark runs `{one.extension}`, and {_without(one, minor, own)}: download them with "
                f"`sluice spark-jars {minor} --formats {one.name}`, or set `reader.extension_jars`"
            )
        found += jars
    return tuple(dict.fromkeys(found))


def _jars(places: Iterable[Path]) -> tuple[Path, ...]:
    jars: list[Path] = []
    for place in places:
        jars += sorted(place.glob("*.jar")) if place.is_dir() else [place]
    return tuple(jar for jar in jars if jar.is_file())


def _has(one: TableFormat, minor: Minor, jars: Iterable[Path]) -> bool:
    return any(jar.name.startswith(one.jar_prefix(minor)) for jar in jars)


def _without(one: TableFormat, minor: Minor, jars: Iterable[Path]) -> str:
    other = next((jar for jar in jars if jar.name.startswith(one.jar)), None)
    if other is not None:
        return f"`{other}` is not {one.name} for Spark {minor}"
    return f"the jars of {one.name} for Spark {minor} are not on this machine"
