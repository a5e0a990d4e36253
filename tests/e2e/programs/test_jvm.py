"""Spark's own client for the JVM gets through the gateway what it gets from Spark. `make programs-test`."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from gateway.reader.java_runtime import find_java
from tests.e2e.programs.comparison import HERE, answers_of
from tests.e2e.programs.conftest import Programs, Way
from tests.e2e.programs.turns import take_turns

pytestmark = [pytest.mark.programs, take_turns("jvm")]
BUILT = HERE / "java" / "target" / "connect"
"""By `make programs-test`, with its class path in a file."""
PASSWORD = "changeit"
OPTIONS = (
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",  # Arrow
)


@pytest.fixture
def trust(programs: Programs, tmp_path: Path) -> Path:
    """A store of certificates with the one that the gateway shows."""
    store = tmp_path / "trust.p12"
    keytool = find_java().with_name("keytool")
    command: list[str | Path] = [
        keytool,
        "-importcert",
        "-noprompt",
        "-alias",
        "sluice",
        "-file",
        programs.certificate,
    ]
    command += ["-keystore", store, "-storetype", "PKCS12", "-storepass", PASSWORD]
    subprocess.run(command, check=True, capture_output=True)
    return store


def run(way: Way, store: Path) -> Any:
    command: list[str | Path] = [find_java(), *OPTIONS, f"-Djavax.net.ssl.trustStore={store}"]
    command += [f"-Djavax.net.ssl.trustStorePassword={PASSWORD}"]
    command += ["-cp", f"{BUILT}/classes:{(BUILT / 'classpath').read_text().strip()}", "SparkConnect"]
    return answers_of([*command, way.remote, way.shop, way.scratch])


def test_it_is_answered_as_by_spark(programs: Programs, trust: Path) -> None:
    programs.require_alike("jvm", lambda way: run(way, trust))
