"""The database of the scenarios, its governed copy, one gateway before both, and two clients of PySpark."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from gateway.frontends.users import set_user
from tests.e2e.connect import world
from tests.e2e.connect.framework import SCENARIOS, Scenario
from tests.e2e.running import RunningGateway, Spark
from tests.speed import patience

REPOSITORY = Path(__file__).parents[3]
SECOND_CLIENT = "pyspark-client==4.2.*"
AT_ONCE = 2
"""Children that run at the same time: Spark is what takes the time, and it has two cores."""


@dataclass(frozen=True)
class Client:
    """An environment with a PySpark of its own."""

    version: str
    python: Path


@pytest.fixture(scope="session")
def second_client() -> Client:
    """PySpark's client of the version before, in an environment of its own that is made once."""
    directory = REPOSITORY / ".run" / "pyspark-client-4.2"
    python, stamp = directory / "bin" / "python", directory / ".installed"
    if not stamp.exists():
        shutil.rmtree(directory, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
        packages = (SECOND_CLIENT, "pandas>=2.2,<3", "zstandard")
        if subprocess.run(
            [sys.executable, "-m", "uv", "--version"], capture_output=True, check=False
        ).returncode:
            install = ["-m", "pip", "--python", str(python), "install", "-q"]
        else:
            install = ["-m", "uv", "pip", "install", "-q", "--python", str(python)]
        subprocess.run([sys.executable, *install, *packages], check=True)
        stamp.touch()
    return Client("4.2", python)


def scratch_of(client: str, mode: str) -> str:
    return f"{world.SCRATCH}{client.replace('.', '_')}_{mode}"


MODES = ("direct", "allowed", "copy", "governed")
"""Spark itself, and the gateway as somebody who may do everything; the governed copy on Spark itself, and the
gateway as somebody governed."""
CLIENTS = ("4.3", "4.2")
BASELINE = CLIENTS[0]
"""The client that asks Spark itself; the other one must get the same answers through the gateway."""
RUNS = [(BASELINE, mode) for mode in MODES] + [(c, m) for c in CLIENTS[1:] for m in ("allowed", "governed")]


@pytest.fixture(scope="session")
def connect_world(spark: Spark) -> Spark:
    """Spark with the tables, and an empty database for each run of the scenarios."""
    scratch = [f"CREATE DATABASE {scratch_of(c, m)}" for c, m in RUNS]
    spark.query(*world.statements(), *world.copy_statements(), *scratch, "CREATE DATABASE cwm", user="loader")
    return spark


def write_settings(directory: Path, spark: Spark, *, star: str = "visible") -> Path:
    """Write settings, users and the pack of a gateway for the scenarios."""
    directory.mkdir()
    directory.chmod(0o711)
    for user in (world.ALLOWED, world.GOVERNED, world.ATTACKER, world.OTHER):
        set_user(directory / "users.yaml", user, password=world.PASSWORD)
    (directory / "token").write_text(spark.connect_token)
    settings = {
        "listeners": {"thrift": {"port": 0}, "connect": {"port": 0}, "admin": {"port": 0}},
        "backend": {
            "thrift": {"host": spark.host, "port": spark.port},
            "connect": {"host": spark.host, "port": spark.connect_port, "token": {"file": "token"}},
        },
        "policies": {"paths": [str(world.PACK)], "star": star},
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "sessions": {"checkpoints": f"file:{spark.directory}/sluice-checkpoints"},
        "logging": {"format": "json"},
    }
    file = directory / "gateway.yaml"
    file.write_text(json.dumps(settings))
    return file


@pytest.fixture(scope="session")
def connect_gateway(connect_world: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    """A gateway in which `*` means every column that one may see."""
    running = RunningGateway(write_settings(open_directory / "connect", connect_world)).start()
    yield running
    assert running.stop() == 0


def address(port: int, token: str) -> str:
    """With the host `localhost` the client sends its token without TLS."""
    return f"sc://localhost:{port}/;token={quote(token, safe='')}"


def as_user(gateway: RunningGateway, user: str) -> str:
    return address(gateway.connect_port, f"{user}:{world.PASSWORD}")


Outcome = dict[str, Any]


@dataclass(frozen=True)
class Runs:
    """What came of every scenario: by client, mode and name."""

    outcomes: dict[tuple[str, str], dict[str, Outcome]]
    logs: dict[tuple[str, str], str]

    def outcome(self, client: str, mode: str, name: str) -> Outcome:
        found = self.outcomes[client, mode].get(name)
        assert found is not None, f"{name} did not run; the end of its log:\n{self.logs[client, mode]}"
        return found


class Children:
    """Processes of clients; none of them outlives the block."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def run_scenarios(
    children: Children,
    client: Client,
    remote: str,
    db: str,
    scratch: str,
    directory: Path,
    names: Sequence[str],
) -> tuple[dict[str, Outcome], str]:
    """Run scenarios in a process of a client; return their outcomes and the end of what it wrote."""
    directory.mkdir(parents=True)
    directory.chmod(0o777)
    out, log = directory / "outcomes.jsonl", directory / "log"
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    command = [
        str(client.python),
        "-m",
        "tests.e2e.connect.child",
        remote,
        db,
        scratch,
        str(directory),
        str(out),
        *names,
    ]
    with log.open("wb") as lines:
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env={**environment, "PYTHONPATH": str(REPOSITORY)},
            stdout=lines,
            stderr=lines,
        )
        children.processes.append(process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience(3600))
    outcomes = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    return {o["name"]: o for o in outcomes}, log.read_text(errors="replace")[-2000:]


def asked_for(items: Iterable[pytest.Item], client: str) -> list[str]:
    """Return the scenarios of a client that this run needs; every client is compared to the baseline."""
    asked = set()
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        scenario = params.get("item")
        if isinstance(scenario, Scenario) and client in (params["client"], BASELINE):
            asked.add(scenario.name)
    return [name for name in SCENARIOS if name in asked]


@pytest.fixture(scope="session")
def runs(
    connect_world: Spark,
    connect_gateway: RunningGateway,
    second_client: Client,
    open_directory: Path,
    request: pytest.FixtureRequest,
) -> Runs:
    """The scenarios asked for in all four modes, with both clients; a few processes at a time."""
    spark = connect_world
    direct = address(spark.connect_port, spark.connect_token)
    modes = {
        "direct": (direct, world.DATABASE),
        "allowed": (as_user(connect_gateway, world.ALLOWED), world.DATABASE),
        "copy": (direct, world.COPY),
        "governed": (as_user(connect_gateway, world.GOVERNED), world.DATABASE),
    }
    clients = {"4.3": Client("4.3", Path(sys.executable)), "4.2": second_client}

    def run(key: tuple[str, str]) -> tuple[dict[str, Outcome], str]:
        client, mode = key
        remote, db = modes[mode]
        directory = open_directory / "scenarios" / f"{client}-{mode}"
        names = asked_for(request.session.items, client)
        if not names:
            return {}, ""
        scratch = scratch_of(client, mode)
        return run_scenarios(children, clients[client], remote, db, scratch, directory, names)

    # Ctrl-C ends the children first: the pool's threads wait for them.
    with ThreadPoolExecutor(AT_ONCE) as pool, Children() as children:
        try:
            done = dict(zip(RUNS, pool.map(run, RUNS), strict=True))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return Runs(
        {key: outcomes for key, (outcomes, _) in done.items()}, {key: log for key, (_, log) in done.items()}
    )
