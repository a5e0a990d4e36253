"""`sluice check` asks the Spark that settings name whether it reads statements as the parser does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.app import exit_codes
from gateway.cli import main
from tests.backends.fake_hive_server import Answer, FakeHiveServer
from tests.speed import patience

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"


@pytest.fixture
def spark() -> Iterator[FakeHiveServer]:
    """A scripted Thrift Server in a thread of its own: the command has an event loop for itself."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = FakeHiveServer()
    server.on("SELECT 1", Answer.of([("1", 3)], [(1,)]))  # type: ignore[list-item]  # INT
    server.settings["spark.sql.catalog.lake"] = "some.Catalog"
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(patience(10))
    yield server
    asyncio.run_coroutine_threadsafe(server.stop(), loop).result(patience(10))
    loop.call_soon_threadsafe(loop.stop)
    thread.join(patience(10))
    loop.close()


@pytest.fixture
def settings(tmp_path: Path, spark: FakeHiveServer) -> Path:
    return write(tmp_path, spark.port)


def write(directory: Path, port: int) -> Path:
    (directory / "packs").mkdir(exist_ok=True)
    file = directory / "gateway.yaml"
    file.write_text(
        f"backend: {{thrift: {{host: 127.0.0.1, port: {port}}}}}\n"
        "policies: {paths: [packs], catalogs: {spark_catalog: spark, lake: spark}}\n"
    )
    return file


def test_an_extension_of_the_backend_is_a_fault(
    settings: Path, spark: FakeHiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.settings["spark.sql.extensions"] = EXTENSION
    assert main(["check", "--no-site", "--no-parser", str(settings)]) == exit_codes.FAULTS
    assert f"{settings}: `spark.sql.extensions` has `{EXTENSION}`" in capsys.readouterr().out
    assert main(["check", "--no-site", "--no-parser", "--no-backend", str(settings)]) == exit_codes.OK


def test_a_parser_without_the_setting_is_a_fault(
    settings: Path, spark: FakeHiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.parsers.insert(0, "other.Parser")
    assert main(["check", "--no-site", "--no-parser", str(settings)]) == exit_codes.FAULTS
    assert f"{settings}: Spark parses with `other.Parser`" in capsys.readouterr().out


def test_catalogs_that_nobody_speaks_for_are_told(
    settings: Path, spark: FakeHiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.settings |= {"spark.sql.catalog.ice": "some.Catalog", "spark.sql.catalog.ice.secret": "hunter2"}
    spark.settings["spark.sql.catalog.Pai"] = "x.Catalog"
    assert main(["check", "--no-site", "--no-parser", str(settings)]) == exit_codes.OK
    out = capsys.readouterr().out
    assert "catalog `ice` (some.Catalog), which is not in `policies.catalogs`: nobody can access its" in out
    assert "nobody can access its tables; names with capitals are not supported" in out
    assert "hunter2" not in out


def test_a_catalog_that_spark_does_not_have_is_a_fault(
    settings: Path, spark: FakeHiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    del spark.settings["spark.sql.catalog.lake"]
    assert main(["check", "--no-site", "--no-parser", str(settings)]) == exit_codes.FAULTS
    assert f"{settings}: the settings name the catalog `lake`, and Spark does not" in capsys.readouterr().out


def test_a_spark_that_is_away_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, 1)
    assert main(["check", "--no-site", "--no-parser", str(file)]) == exit_codes.OK
    out = capsys.readouterr().out
    assert "could not compare how Spark parses: Spark cannot be reached: `127.0.0.1:1`: " in out
    assert "refused" in out.lower()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--no-parser",), "`--no-parser` or `--no-backend` was given"),
        (("--no-backend",), "`--no-parser` or `--no-backend` was given"),
        ((), "Spark cannot be reached"),
    ],
)
def test_it_says_where_spark_was_not_asked_for_what_policies_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], why: str
) -> None:
    file = write(tmp_path, 1)
    assert main(["check", "--no-site", *arguments, str(file)]) == exit_codes.OK
    told = f"tables and columns of policies were not checked against Spark: {why}"
    assert told in capsys.readouterr().out
