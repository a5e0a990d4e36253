"""A proof as an operator runs it: statements of a gateway's record, samples read through that gateway.

It starts the Spark of the job beside the one of the tests: 60 s.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.app import exit_codes
from gateway.demo.tour import ENGINEER
from tests.e2e.conftest import write_settings
from tests.e2e.running import RunningGateway, Spark, connect_session, query, takes_plans, until
from tests.speed import patience

STATEMENTS = (
    ("bob", "SELECT name, email, phone, hired FROM hr.employee WHERE id < 20"),
    ("bob", "SELECT name, email, card, region FROM sales.customer"),
    ("carol", "SELECT count(*) AS found, region FROM sales.customer GROUP BY region"),
    ("alice", "SELECT max(salary) FROM hr.employee"),
)
BY_CONNECT = "SELECT name, phone FROM hr.employee WHERE region = 'EMEA' ORDER BY id LIMIT 7"
OF_A_VIEW = "SELECT id FROM hr.everybody"


def sluice(config: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gateway", *words, "--config", str(config)],
        capture_output=True,
        text=True,
        check=False,
        timeout=patience(400),
    )


@pytest.mark.skipif(not takes_plans(), reason="the Spark of the tests has no Spark Connect")
def test_what_a_gateway_shows_is_proved_with_samples_read_through_it(
    spark: Spark, open_directory: Path
) -> None:
    spark.query("CREATE OR REPLACE VIEW hr.everybody AS SELECT id FROM hr.employee", user="loader")
    directory = open_directory / "prove"
    config = write_settings(directory, spark)
    running = RunningGateway(config).start()
    try:
        settings = yaml.safe_load(config.read_text())
        (directory / "prover.token").touch(mode=0o600)
        (directory / "prover.token").write_text(f"{ENGINEER.name}:{ENGINEER.password}")
        settings["jobs"] = {
            "directory": str(directory / "lake"),
            "master": "local[1]",
            "shuffle_partitions": 2,
            "proof": {
                "gateway": f"sc://localhost:{running.connect_port}",
                "token": {"file": "prover.token"},
            },
        }
        config.write_text(json.dumps(settings))
        for user, text in STATEMENTS:
            query(running.host, running.port, user, text, password=f"{user}-demo")
        query(running.host, running.port, ENGINEER.name, OF_A_VIEW, password=ENGINEER.password)
        with connect_session(running.connect_port, "bob:bob-demo") as session:
            session.sql(BY_CONNECT).collect()
            session.table("hr.employee").select("name", "email").collect()

        def recorded(*words: str) -> list[dict[str, Any]]:
            found = sluice(config, "audit", "search", "--json", "--limit", "100", *words)
            return json.loads(found.stdout) if found.returncode == exit_codes.OK else []

        until(lambda: len(recorded()) >= len(STATEMENTS) + 3, "the record is in PostgreSQL")
        ran = sluice(config, "jobs", "run", "proof", "--json")
        assert ran.returncode == exit_codes.OK, ran.stderr
        told = json.loads(sluice(config, "report", "proof", "--json").stdout)
        (run,) = told["proofs"]
        # The one that reads a view as well, and the text of Spark Connect.
        assert (run["proved"], run["different"]) == (len(STATEMENTS) + 2, 0), told
        assert run["obliged"] >= 4
        assert not told["left out"]
        assert not told["alarms"]
        # Whoever samples is a client like any other, and stands in the record.
        until(
            lambda: any("LIMIT" in str(one) for one in recorded("--user", ENGINEER.name)), "samples on record"
        )
    finally:
        running.stop()
        query(spark.host, spark.port, "loader", "DROP VIEW hr.everybody")
