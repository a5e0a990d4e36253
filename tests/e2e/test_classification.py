"""A classification through a gateway that masks a column once it is accepted, and later shows no table."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.errors import PySparkException

from tests.e2e.conftest import write_settings
from tests.e2e.running import RunningGateway, Spark, connect_session, query, takes_plans, until
from tests.speed import patience

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
    mask: [{groups: [public], type: MASK_HASH}]
"""


def sluice_with(config: Path) -> Callable[..., Any]:
    """Return what runs a command of the settings to its end."""

    def run(*arguments: str) -> Any:
        ran = subprocess.run(
            [sys.executable, "-m", "gateway", *arguments, "--config", str(config)],
            capture_output=True,
            text=True,
            check=False,
            timeout=patience(300),
        )
        assert ran.returncode == 0, ran.stderr
        return ran

    return run


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
        sluice = sluice_with(config)

        def proposed() -> dict[tuple[str, str], int]:
            found = json.loads(sluice("tags", "list", "--json").stdout)
            return {(one["column"], one["tag"]): one["id"] for one in found}

        ran = sluice("jobs", "run", "classify")
        found = proposed()
        accepted = ("spark_catalog.shop.buyer.c1", "EMAIL")
        open_ = ("spark_catalog.shop.buyer.c2", "PHONE")
        assert found.keys() == {accepted, open_, ("spark_catalog.shop.visit.who", "EMAIL")}, ran.stderr
        sluice("tags", "accept", str(found[accepted]))

        def says(text: str, what: str) -> bool:
            with connect_session(running.connect_port, "bob:bob-demo") as session:
                try:
                    return what in str(session.sql(text).first())
                except PySparkException as error:
                    return what in str(error)

        until(
            lambda: says("SELECT min(length(c1)) AS n FROM shop.buyer", "n=64"),
            "the accepted tag masks the column",
        )
        spark.query("DROP TABLE shop.visit", user="loader")
        ran = sluice("jobs", "run", "classify")
        assert "shop.buyer: 3 columns" in ran.stderr
        assert "shop.visit: dropped: 1 tags withdrawn" in ran.stderr
        assert json.loads(sluice("tags", "drift", "--json").stdout) == []
        assert proposed().keys() == {accepted, open_}

        (directory / "policies" / "shop.yaml").write_text(
            PACK.replace("[public], access", "[nobody], access")
        )
        until(lambda: says("SELECT id FROM shop.buyer", "ACCESS_DENIED"), "nobody reads the shop")
        ran = sluice("jobs", "run", "classify")
        assert "shop.buyer: cannot be read: SLUICE_ACCESS_DENIED" in ran.stderr
        assert proposed().keys() == {accepted, open_}
    finally:
        running.stop()
        query(spark.host, spark.port, "loader", "DROP DATABASE shop CASCADE")
