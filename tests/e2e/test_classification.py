"""A classification through a gateway that masks a column once it is accepted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import write_settings
from tests.e2e.running import RunningGateway, Spark, connect_session, query, takes_plans, until

PACK = """
service: spark
policies:
  - name: everybody reads the shop
    on:
      - {catalog: spark_catalog, database: shop}
      - {catalog: spark_catalog, database: shop, table: "*", column: "*"}
    allow: [{groups: [public], access: [use, show, select]}]
  - name: addresses are for nobody
    on: {tag: EMAIL}
    mask: [{groups: [public], type: MASK_NULL}]
"""


@pytest.mark.skipif(not takes_plans(), reason="the Spark of the tests has no Spark Connect")
def test_an_accepted_classification_masks_a_column(spark: Spark, open_directory: Path) -> None:
    spark.query(
        "CREATE DATABASE IF NOT EXISTS shop",
        "CREATE OR REPLACE TEMPORARY VIEW people AS SELECT id, concat('u', id, '@mail.example') AS c1,"
        " named_struct('tel', concat('+49 30 23125', 100 + id)) AS c2 FROM range(200)",
        "CREATE TABLE shop.buyer USING parquet AS SELECT * FROM people",
        "CREATE TABLE shop.visit USING parquet PARTITIONED BY (day) AS"
        " SELECT c1 AS who, id % 3 AS day FROM people",
        user="loader",
    )
    directory = open_directory / "classify"
    config = write_settings(directory, spark)
    (directory / "policies" / "shop.yaml").write_text(PACK)
    running = RunningGateway(config).start()
    try:
        settings = yaml.safe_load(config.read_text())
        (directory / "classifier.token").write_text("bob:bob-demo")
        settings["jobs"] = {
            "classify": {
                "gateway": f"sc://localhost:{running.connect_port}",
                "token": {"file": "classifier.token"},
                "include": ["spark_catalog.shop.*"],
            }
        }
        config.write_text(yaml.safe_dump(settings))
        sluice = (sys.executable, "-m", "gateway")
        ran = subprocess.run(
            [*sluice, "jobs", "run", "classify", "--config", str(config)],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert ran.returncode == 0, ran.stderr
        listed = subprocess.run(
            [*sluice, "tags", "list", "--json", "--config", str(config)],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        found = {(one["column"], one["tag"]): one["id"] for one in json.loads(listed.stdout)}
        assert found.keys() == {
            ("spark_catalog.shop.buyer.c1", "EMAIL"),
            ("spark_catalog.shop.buyer.c2", "PHONE"),
            ("spark_catalog.shop.visit.who", "EMAIL"),
        }, ran.stderr
        wanted = found["spark_catalog.shop.buyer.c1", "EMAIL"]
        subprocess.run(
            [*sluice, "tags", "accept", str(wanted), "--config", str(config)],
            capture_output=True,
            check=True,
            timeout=120,
        )

        def masked() -> bool:
            with connect_session(running.connect_port, "bob:bob-demo") as session:
                return bool(session.sql("SELECT count(c1) AS n FROM shop.buyer").first().n == 0)

        until(masked, "the accepted tag masks the column")
    finally:
        running.stop()
        query(spark.host, spark.port, "loader", "DROP DATABASE shop CASCADE")
