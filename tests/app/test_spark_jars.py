"""Jars of a Spark minor come from PyPI, once, whole or not at all; here PyPI is a local directory."""

from __future__ import annotations

import threading
import zipfile
from pathlib import Path

import pytest

from gateway.app import exit_codes
from gateway.app.spark_jars import SERVERS, NotFetched, fetch, fetch_catalog_servers, fetch_format
from gateway.cli import main
from gateway.model.spark_minors import Minor
from gateway.model.table_formats import DELTA, ICEBERG, PAIMON, UnsupportedFormat

JAR = "spark-catalyst_2.13-{}.jar"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that pip takes wheels from, and nowhere else."""
    directory = tmp_path / "index"
    directory.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
    return directory


def publish(index: Path, version: str, *names: str) -> None:
    with zipfile.ZipFile(index / f"pyspark-{version}-py3-none-any.whl", "w") as wheel:
        for name in names or (
            f"pyspark/jars/{JAR.format(version)}",
            "pyspark/jars/other.jar",
            "pyspark/x.py",
        ):
            wheel.writestr(name, name)
        wheel.writestr(f"pyspark-{version}.dist-info/METADATA", f"Name: pyspark\nVersion: {version}\n")
        wheel.writestr(f"pyspark-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"pyspark-{version}.dist-info/RECORD", "")


def test_the_newest_of_a_minor_is_fetched_once(index: Path, tmp_path: Path) -> None:
    for version in ("4.2.0", "4.2.1", "4.3.0"):
        publish(index, version)
    into, said = tmp_path / "kept", list[str]()
    home = fetch(Minor(4, 2), into, said.append)
    assert home == into / "4.2.1"
    assert sorted(jar.name for jar in (home / "jars").iterdir()) == ["other.jar", JAR.format("4.2.1")]
    assert said == ["downloading pyspark 4.2 (about 450 MB)", "unpacking the jars of Spark 4.2.1"]
    for wheel in index.iterdir():
        wheel.unlink()
    assert fetch(Minor(4, 2), into) == home
    assert [path.name for path in into.iterdir() if not path.name.endswith(".lock")] == ["4.2.1"]


def test_nothing_is_left_of_what_could_not_be_fetched(index: Path, tmp_path: Path) -> None:
    into = tmp_path / "kept"
    with pytest.raises(NotFetched, match=r"pip could not download pyspark 4\.2: Could not find a version"):
        fetch(Minor(4, 2), into)
    publish(index, "4.2.1", "pyspark/jars/other.jar")
    with pytest.raises(NotFetched, match="contains no Spark jars"):
        fetch(Minor(4, 2), into)
    assert [path.name for path in into.iterdir() if not path.name.endswith(".lock")] == []


def test_names_in_an_archive_choose_no_place(index: Path, tmp_path: Path) -> None:
    jar = JAR.format("4.2.1")
    publish(
        index, "4.2.1", f"pyspark/jars/{jar}", "../../jars/up.jar", "/jars/root.jar", "pyspark/other/no.jar"
    )
    home = fetch(Minor(4, 2), tmp_path / "kept")
    assert sorted(path.name for path in (home / "jars").iterdir()) == ["root.jar", jar, "up.jar"]
    assert not (tmp_path / "jars").exists()


def test_two_who_want_the_same_at_once_fetch_it_once(index: Path, tmp_path: Path) -> None:
    publish(index, "4.2.1")
    into, said = tmp_path / "kept", list[str]()
    both = [threading.Thread(target=fetch, args=(Minor(4, 2), into, said.append)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert said.count("downloading pyspark 4.2 (about 450 MB)") == 1


def test_the_command(index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish(index, "4.2.1")
    into = tmp_path / "kept"
    assert main(["spark-jars", "4.2", "--into", str(into)]) == exit_codes.OK
    assert capsys.readouterr().out.endswith(f"Spark 4.2.1: {into / '4.2.1'}\n")
    assert main(["spark-jars", "4.2", "--json", "--into", str(into)]) == exit_codes.OK
    assert '"version":"4.2.1"' in capsys.readouterr().out
    assert main(["spark-jars", "9.9", "--into", str(into)]) == exit_codes.ERROR
    assert "Spark 9.9 is not supported" in capsys.readouterr().err


# -- table formats -------------------------------------------------------------------------------------------

MAVEN = r"""#!/bin/sh
# Maven's client as far as it is asked: an artifact of its repository goes into a directory.
for argument in "$@"; do
  case "$argument" in
    --file=*) [ -f "${argument#--file=}" ] || exit 3; all=yes ;;
    -Dartifact=*) artifact=${argument#-Dartifact=} ;;
    -DoutputDirectory=*) directory=${argument#-DoutputDirectory=} ;;
  esac
done
[ -n "$all" ] && cp "$REPOSITORY"/* "$directory" 2>&1 && exit 0
[ -n "$all" ] && exit 1
name=$(echo "$artifact" | cut -d: -f2)-$(echo "$artifact" | cut -d: -f3).jar
[ -f "$REPOSITORY/$name" ] && cp "$REPOSITORY/$name" "$directory" && exit 0
printf '[\033[1;31mERROR\033[m] Failed to execute goal: %s was not found\n[ERROR] and more\n' "$artifact"
exit 1
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What Maven has; it is empty."""
    programs, directory = tmp_path / "bin", tmp_path / "repository"
    programs.mkdir()
    directory.mkdir()
    (programs / "mvn").write_text(MAVEN)
    (programs / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("REPOSITORY", str(directory))
    return directory


def test_the_jars_of_a_format_are_fetched_once(repository: Path, tmp_path: Path) -> None:
    for artifact in DELTA.artifacts_for(Minor(4, 1)):
        (repository / artifact.file).write_text(artifact.file)
    into, said = tmp_path / "kept", list[str]()
    jars = fetch_format(DELTA, Minor(4, 1), into, said.append)
    assert [jar.read_text() for jar in jars] == [jar.name for jar in jars]
    assert {jar.parent for jar in jars} == {into / "formats" / "4.1" / "delta"}
    assert len(said) == 2
    for jar in repository.iterdir():
        jar.unlink()
    assert fetch_format(DELTA, Minor(4, 1), into) == jars


def test_nothing_is_left_of_a_format_that_is_not_whole(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into = tmp_path / "kept"
    first, second = DELTA.artifacts_for(Minor(4, 1))
    (repository / first.file).touch()
    with pytest.raises(NotFetched) as caught:
        fetch_format(DELTA, Minor(4, 1), into)
    assert caught.value.message == (
        f"Maven could not download {second}: Failed to execute goal: {second} was not found"
    )
    left = [path for path in (into / "formats").rglob("*") if path.is_file()]
    assert [path.name for path in left] == [".delta.lock"]
    with pytest.raises(
        UnsupportedFormat, match=r"paimon does not support Spark 4\.1; it supports Spark 3\.5"
    ):
        fetch_format(PAIMON, Minor(4, 1), into)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFetched, match="is not on the PATH"):
        fetch_format(DELTA, Minor(4, 1), into)


def test_servers_of_catalogs_are_fetched_once_and_whole(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "kept"
    with pytest.raises(NotFetched, match="Maven could not download catalog servers: cp: "):
        fetch_catalog_servers(into)
    assert not (into / SERVERS).exists()
    (repository / "server.jar").touch()
    command = ["spark-jars", "--catalog-servers", "--json", "--into", str(into)]
    assert main(command) == exit_codes.OK
    (repository / "server.jar").unlink()
    assert main(command) == exit_codes.OK
    assert capsys.readouterr().out == f'{{"directory":"{into / SERVERS}"}}\n' * 2
    assert [jar.name for jar in (into / SERVERS).iterdir()] == ["server.jar"]
    with pytest.raises(SystemExit):
        main(["spark-jars", "4.2", "--catalog-servers"])


def test_the_command_for_formats(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (iceberg,) = ICEBERG.artifacts_for(Minor(4, 1))
    (repository / iceberg.file).touch()
    into = ["--into", str(tmp_path / "kept")]
    assert main(["spark-jars", "4.1", "--formats", "iceberg", *into]) == exit_codes.OK
    assert capsys.readouterr().out.endswith(
        f"iceberg for Spark 4.1: {tmp_path}/kept/formats/4.1/iceberg/{iceberg.file}\n"
    )
    assert main(["spark-jars", "4.1", "--formats", "hudi", *into]) == exit_codes.ERROR
    assert "unknown table format `hudi`; the formats are iceberg, delta, paimon" in capsys.readouterr().err
