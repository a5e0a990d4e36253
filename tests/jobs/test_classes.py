"""A job's Spark on this machine uses an archive of classes, unless somebody has chosen its settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.jobs.spark import JAVA_OPTIONS, _use_classes, patch_environment
from gateway.model.java_options import SparkClasses


@pytest.fixture
def classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkClasses:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    return SparkClasses(str(tmp_path / "made.jar"), "-XX:SharedArchiveFile=made.jsa")


def test_the_jar_stands_where_the_directory_of_settings_would(classes: SparkClasses) -> None:
    conf = {JAVA_OPTIONS: "-Xss4m"}
    environment = _use_classes(classes, conf)
    assert conf == {JAVA_OPTIONS: "-Xss4m -XX:SharedArchiveFile=made.jsa"}
    with patch_environment(environment):
        assert os.environ["SPARK_CONF_DIR"] == classes.jar
    assert "SPARK_CONF_DIR" not in os.environ


@pytest.mark.parametrize("name", ["SPARK_HOME", "SPARK_CONF_DIR", "conf"])
def test_what_somebody_chose_is_kept(
    name: str, classes: SparkClasses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "conf":
        (tmp_path / name).mkdir()
    else:
        monkeypatch.setenv(name, "/etc/spark")
    conf: dict[str, str] = {}
    assert _use_classes(classes, conf) == {}
    assert conf == {}
