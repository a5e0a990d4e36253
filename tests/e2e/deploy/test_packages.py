"""Wheel and sdist, outside of the repository: what is made of them in a new environment works by itself."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pyspark
import pytest

from gateway.reader.java_runtime import find_java
from tests.e2e.deploy.conftest import ROOT

pytestmark = pytest.mark.deploy
SETTINGS = """\
backend: {{thrift: {{host: 127.0.0.1, port: 1}}}}
reader: {{spark_home: {spark_home}, java: {java}}}
policies: {{paths: [rules]}}
ledger: {{dsn: {{env: LEDGER_DSN}}}}
"""


def run(*words: str | Path, cwd: Path, code: int = 0, stdin: str = "") -> str:
    """Run a program that knows nothing of this repository."""
    kept = ("HOME", "LANG", "TMPDIR", "PIP_INDEX_URL", "UV_INDEX_URL", "UV_CACHE_DIR", "SSL_CERT_FILE")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    done = subprocess.run(
        [*map(str, words)],
        cwd=cwd,
        env=environment | {"PATH": "/usr/bin:/bin", "LEDGER_DSN": "postgresql://u:p@127.0.0.1:2/x"},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that the sdist makes."""
    place = tmp_path_factory.mktemp("packages")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", place / "dist", cwd=ROOT)
    (sdist,) = (place / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as opened:
        opened.extractall(place, filter="data")
    (source,) = [one for one in place.iterdir() if one.name.startswith("sluice_gateway")]
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place / "dist", cwd=source)
    (made,) = (place / "dist").glob("*.whl")
    return made


def test_the_wheel_has_all_that_the_repository_has(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        there = set(opened.namelist())
    folders = {"gateway": ROOT / "gateway", "gateway/_rules": ROOT / "rules"}
    wanted = {
        f"{name}/{path.relative_to(folder)}"
        for name, folder in folders.items()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "gateway/reader/java/sluice/ReaderMain.java" in wanted
    assert wanted - there == set()
    assert {one for one in there if not one.startswith("sluice_gateway-")} - wanted == set()


def test_it_works_in_a_new_environment(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    uv = (sys.executable, "-m", "uv")
    run(*uv, "venv", "-q", "--python", sys.executable, home, cwd=tmp_path)
    constraints = ROOT / "constraints.txt"
    python = home / "bin" / "python"
    run(*uv, "pip", "install", "-q", "--python", python, "-c", constraints, wheel, cwd=tmp_path)
    assert str(home) in run(python, "-c", "import gateway; print(gateway.__file__)", cwd=tmp_path)
    sluice = home / "bin" / "sluice"
    assert "pyspark" in run(sluice, "version", cwd=tmp_path)
    # The parser is compiled of the Java inside; packs and their cases are of the rules inside.
    spark_home = Path(pyspark.__file__).parent
    settings = tmp_path / "gateway.yaml"
    settings.write_text(SETTINGS.format(spark_home=spark_home, java=find_java()))
    (shipped,) = home.glob("lib/python*/site-packages/gateway/_rules")
    (tmp_path / "rules").symlink_to(shipped / "policies")
    run(sluice, "users", "add", "alice", "--group", "hr", "-c", settings, cwd=tmp_path, stdin="a-long-one\n")
    doctor = run(sluice, "doctor", "-c", settings, cwd=tmp_path, code=5)
    assert "20 policies in 5 files" in doctor
    assert "could not compare how Spark parses: Spark cannot be reached" in doctor
    assert "`ledger.dsn`: 127.0.0.1:2 cannot be reached" in doctor
    # Migrations are inside, too.
    count = "from gateway.database.migrate import migrations; print(len(migrations()))"
    here = len(list((ROOT / "gateway" / "database" / "migrations").glob("*.sql")))
    assert run(python, "-c", count, cwd=tmp_path).strip() == str(here)
