"""`sluice check` asks the Spark that settings name whether it reads statements as the parser does."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from gateway.app import exit_codes
from gateway.app.checking import BackendCheck, ask_backend, ask_backends
from gateway.cli import main
from gateway.model.spark_configuration import NOT_COMPARED
from gateway.settings.loading import parse_settings
from tests.backends.fake_connect_server import FakeConnectServer
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
    assert "`spark_catalog`" not in out
    settings.write_text(settings.read_text().replace("spark_catalog: spark, ", ""))
    assert main(["check", "--no-site", "--no-parser", str(settings)]) == exit_codes.OK
    assert "`policies.catalogs` does not have `spark_catalog`: names" in capsys.readouterr().out


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


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of somebody who takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


async def asked(directory: Path, thrift: int, connect: int) -> BackendCheck:
    (directory / "t").write_text("token")
    text = f"""\
backend:
  thrift: {{host: 127.0.0.1, port: {thrift}}}
  connect: {{host: 127.0.0.1, port: {connect}, token: {{file: t}}}}
  connect_timeout_s: 0.5
listeners: {{connect: {{port: 0}}}}
"""
    return await ask_backend(parse_settings(text, "gateway.yaml", directory), reader=NOT_COMPARED)


@pytest.mark.parametrize("silent_one", ["thrift", "connect", "both"])
async def test_each_endpoint_that_does_not_answer_is_told_by_its_address(
    tmp_path: Path, silent: int, silent_one: str
) -> None:
    thrift = silent if silent_one in ("thrift", "both") else 1
    connect = silent if silent_one in ("connect", "both") else 1
    told = await asked(tmp_path, thrift, connect)
    assert told.faults == ()
    of_thrift, of_connect = told.warnings
    for port, says in ((thrift, of_thrift), (connect, of_connect)):
        assert f"`127.0.0.1:{port}`" in says
        assert ("within 0.5 s" if port == silent else "refused") in says.lower()


async def test_a_token_that_spark_refuses_is_a_fault(tmp_path: Path) -> None:
    """Waiting does not mend it, as it does where Spark is away."""

    async def refuse(_request: bytes, context: Any) -> None:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "no")

    server = FakeConnectServer()
    server.answers["Config"] = refuse
    await server.start()
    try:
        told = await asked(tmp_path, 1, server.port)
    finally:
        await server.stop()
    assert told.faults == (f"Spark does not accept the gateway's token: `127.0.0.1:{server.port}`",)
    assert len(told.warnings) == 1


async def test_of_several_sparks_each_is_asked(tmp_path: Path) -> None:
    async with FakeHiveServer() as first, FakeHiveServer() as other:
        other.version = "2.4.8"
        for server in (first, other):
            server.on("SELECT 1", Answer.of([("1", 3)], [(1,)]))  # type: ignore[list-item]  # INT
        text = f"""\
backends:
  one: {{thrift: {{host: 127.0.0.1, port: {first.port}}}}}
  two: {{thrift: {{host: 127.0.0.1, port: {other.port}}}}}
  off: {{thrift: {{host: 127.0.0.1, port: 1}}}}
  pod: {{thrift: {{host: pod.invalid}}, discover: {{dns: pod.invalid}}}}
"""
        told = await ask_backends(parse_settings(text, "gateway.yaml", tmp_path), reader=NOT_COMPARED)
    assert all(fault.startswith("backend `two`: ") for fault in told.faults)
    assert told.faults
    (warning,) = told.warnings
    assert warning.startswith("backend `off`: could not compare")
    assert list(told.configurations) == ["one"]
