"""An embedded Spark finds Hadoop's default settings, all that it uses, in short files before its jars."""

from __future__ import annotations

import zipfile
from pathlib import Path
from xml.etree import ElementTree

from gateway.backends.embedded_spark import (
    SITES,
    UNUSED,
    defaults,
    pack_hadoop_defaults,
    write_hadoop_defaults,
)
from gateway.reader.java_runtime import find_spark_home

JARS = find_spark_home() / "jars"
Settings = list[tuple[str, str | None, str | None]]


def settings(text: bytes) -> Settings:
    """Return name, value and `final` of each, in their order."""
    return [
        (entry.findtext("name", ""), entry.findtext("value"), entry.findtext("final"))
        for entry in ElementTree.fromstring(text).iter("property")
    ]


def test_nothing_but_descriptions_is_left_out(tmp_path: Path) -> None:
    write_hadoop_defaults(JARS, tmp_path)
    found = dict(defaults(JARS))
    assert found.keys() == {"core-default.xml", "mapred-default.xml", *UNUSED}
    for name, text in found.items():
        made = (tmp_path / name).read_bytes()
        assert settings(made) == ([] if name in UNUSED else settings(text)), name
        assert len(made) * 3 < len(text)


def test_hadoop_need_not_look_for_files_that_are_not_there(tmp_path: Path) -> None:
    write_hadoop_defaults(JARS, tmp_path)
    found = {f"{name.removesuffix('-default.xml')}-site.xml" for name, _ in defaults(JARS)}
    assert found == set(SITES)
    assert [settings((tmp_path / name).read_bytes()) for name in SITES] == [[]] * len(SITES)


def test_everybody_may_read_them(tmp_path: Path) -> None:
    write_hadoop_defaults(JARS, tmp_path)
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o644}


def test_a_spark_without_hadoops_jar_has_none(tmp_path: Path) -> None:
    (tmp_path / "another.jar").touch()
    assert list(defaults(tmp_path)) == []


def test_hadoops_defaults_are_packed_as_they_are_written(tmp_path: Path) -> None:
    pack_hadoop_defaults(JARS, tmp_path / "made.jar")
    write_hadoop_defaults(JARS, tmp_path)
    with zipfile.ZipFile(tmp_path / "made.jar") as packed:
        texts = {name: packed.read(name).decode() for name in packed.namelist()}
    assert texts == {file.name: file.read_text() for file in tmp_path.glob("*.xml")}
