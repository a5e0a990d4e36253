"""pyspark-client of each minor gets through the gateway what it gets straight at Spark. `make night`.

The scenarios are those of `tests/e2e/connect`, where the newest pyspark runs them; by day a share of them.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.connect import child, world
from tests.e2e.connect.conftest import (
    Children,
    Client,
    address,
    as_user,
    connect_gateway,
    connect_world,
    run_scenarios,
    scratch_of,
)
from tests.e2e.connect.framework import SCENARIOS
from tests.e2e.programs.comparison import HERE, require_alike
from tests.e2e.programs.conftest import GOVERNED, SHOP, Programs
from tests.e2e.running import RunningGateway, Spark
from tests.shares import todays
from tests.speed import patience

__all__ = ["connect_gateway", "connect_world"]
pytestmark = [pytest.mark.programs, pytest.mark.night, pytest.mark.timeout(7200)]
CLIENTS = ("4.0", "4.1", "4.2")
SHARE = 48
MODES = ("direct", "allowed")


@pytest.fixture(scope="module", params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Client:
    return Client(request.param, HERE / "pyspark_client" / request.param / ".venv" / "bin" / "python")


@pytest.fixture(scope="module")
def outcomes(
    client: Client, connect_world: Spark, connect_gateway: RunningGateway, open_directory: Path
) -> dict[str, dict[str, Any]]:
    """What came of today's scenarios, in each way."""
    spark = connect_world
    known = sorted(name for name, one in SCENARIOS.items() if one.since <= child.OLDEST)
    names = todays(known, SHARE, ahead=CLIENTS.index(client.version))
    remotes = {
        "direct": address(spark.connect_port, spark.connect_token),
        "allowed": as_user(connect_gateway, world.ALLOWED),
    }
    found: dict[str, dict[str, Any]] = {}
    for mode in MODES:
        scratch = f"{scratch_of(client.version, mode)}_own"
        spark.query(f"CREATE DATABASE {scratch}", user="loader")
        directory = open_directory / "pyspark-client" / f"{client.version}-{mode}"
        with Children() as children:
            done, log = run_scenarios(
                children, client, remotes[mode], world.DATABASE, scratch, directory, names
            )
        assert list(done) == names, log
        found[mode] = done
        spark.query(f"DROP DATABASE {scratch} CASCADE", user="loader")
    return found


def test_it_is_the_client_that_it_should_be(client: Client) -> None:
    told = subprocess.run(
        [str(client.python), "-c", "import pyspark; print(pyspark.__version__)"],
        capture_output=True,
        text=True,
        timeout=patience(),
        check=True,
    )
    assert told.stdout.startswith(f"{client.version}.")


def test_it_is_answered_as_by_spark(client: Client, outcomes: dict[str, dict[str, Any]]) -> None:
    through, direct = (
        {name: one["result"] for name, one in outcomes[mode].items()} for mode in ("allowed", "direct")
    )
    require_alike(f"pyspark-client {client.version}", through, direct)


def test_most_of_it_works_straight_at_spark(outcomes: dict[str, dict[str, Any]]) -> None:
    """Else equality would say little."""
    failed = [
        name
        for name, one in outcomes["direct"].items()
        if isinstance(one["result"], dict) and {"raised", "no session"} & one["result"].keys()
    ]
    assert len(failed) <= len(outcomes["direct"]) // 4 + 1, json.dumps(failed)


TLS = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).create()
print([list(row) for row in spark.table(sys.argv[2]).select("id", "email").orderBy("id").collect()])
spark.stop()
"""


def test_over_tls_with_a_token_it_gets_what_its_user_may_see(
    client: Client, programs: Programs, tmp_path: Path
) -> None:
    script = tmp_path / "client.py"  # with `-c`, the one of 4.2 looks for a SPARK_HOME and gives up
    script.write_text(TLS)
    url = f"sc://localhost:{programs.gateway.connect_port}/;use_ssl=true;token={programs.token(GOVERNED)}"
    told = subprocess.run(
        [str(client.python), "-W", "ignore", str(script), url, f"{SHOP}.customer"],
        capture_output=True,
        text=True,
        env=programs.trusting(),
        timeout=patience(),
        check=False,
    )
    assert told.returncode == 0, told.stderr
    shown = [[1, "xxx@x.xxxxxxx"], [2, "xx@x.xxxxxxx"], [4, None], [5, "xxxx@x.xxxxxxx"]]
    assert told.stdout.strip() == str(shown)
