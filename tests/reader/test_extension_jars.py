"""Jars of extensions are found where they may lie; what is missing, or of another minor, is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.model.spark_minors import Minor
from gateway.model.table_formats import DELTA, ICEBERG, PAIMON, TableFormat, UnsupportedFormat, formats_of
from gateway.reader.extension_jars import find_extension_jars, places_of
from gateway.reader.java_runtime import JavaNotFound

MINOR = Minor(4, 1)


def touch(*jars: Path) -> None:
    for jar in jars:
        jar.parent.mkdir(parents=True, exist_ok=True)
        jar.touch()


def find(tmp_path: Path, *formats: TableFormat, named: tuple[Path, ...] = ()) -> tuple[Path, ...]:
    return find_extension_jars(
        formats, MINOR, spark_home=tmp_path / "spark", named=named, kept=tmp_path / "kept"
    )


def test_jars_among_sparks_own_need_no_others(tmp_path: Path) -> None:
    touch(tmp_path / "spark" / "jars" / "iceberg-spark-runtime-4.1_2.13-1.99.jar")
    assert find(tmp_path, ICEBERG) == ()
    assert find(tmp_path) == ()


def test_jars_that_were_fetched(tmp_path: Path) -> None:
    both = (*places_of(DELTA, MINOR, tmp_path / "kept"), *places_of(ICEBERG, MINOR, tmp_path / "kept"))
    touch(*both)
    assert find(tmp_path, DELTA, ICEBERG) == both


def test_jars_that_are_named(tmp_path: Path) -> None:
    own = tmp_path / "own"
    touch(own / "delta-spark_4.1_2.13-9.jar", own / "helper.jar", own / "notes.txt", tmp_path / "x.jar")
    assert find(tmp_path, DELTA, named=(own, tmp_path / "x.jar")) == (
        own / "delta-spark_4.1_2.13-9.jar",
        own / "helper.jar",
        tmp_path / "x.jar",
    )
    with pytest.raises(JavaNotFound, match=r"Extensions`, and the jars of iceberg for Spark 4\.1 are not"):
        find(tmp_path, DELTA, ICEBERG, named=(own,))


def test_a_jar_that_is_missing_or_of_another_minor(tmp_path: Path) -> None:
    with pytest.raises(JavaNotFound, match=r"download them with `sluice spark-jars 4\.1 --formats delta`"):
        find(tmp_path, DELTA)
    touch(places_of(DELTA, MINOR, tmp_path / "kept")[0])  # but not what it stands on
    with pytest.raises(JavaNotFound, match=r"are not on this machine"):
        find(tmp_path, DELTA)
    other = tmp_path / "iceberg-spark-runtime-4.0_2.13-1.11.0.jar"
    touch(other)
    with pytest.raises(JavaNotFound, match=f"`{other}` is not iceberg for Spark 4.1"):
        find(tmp_path, ICEBERG, named=(other,))
    with pytest.raises(UnsupportedFormat, match=r"paimon does not support Spark 4\.1"):
        find(tmp_path, PAIMON)


def test_formats_that_exclude_each_other() -> None:
    assert formats_of((DELTA.extension, ICEBERG.extension)) == (DELTA, ICEBERG)
    with pytest.raises(UnsupportedFormat, match="Iceberg and Paimon together"):
        formats_of((ICEBERG.extension, PAIMON.extension))
    with pytest.raises(UnsupportedFormat, match=r"`x\.Y`, which the parser does not support"):
        formats_of(("x.Y",))
