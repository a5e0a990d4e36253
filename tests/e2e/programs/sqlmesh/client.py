"""What SQLMesh makes of a small project, twice in a row; runs where `sqlmesh` is installed.

`client.py REMOTE SHOP SCRATCH`: where Spark Connect is, which database to read and which to build in. Full
models, a view, one by ranges of time and their audits; its state is a file of DuckDB's beside the project.
No seed: SQLMesh reads it through a global temporary view of a DataFrame, which is not governed.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.e2e.programs.steps import Steps, tell

MODELS = {
    "models/country.sql": """
        MODEL (name {scratch}.country, kind FULL, grain code);
        SELECT code::STRING AS code, name::STRING AS name
        FROM (VALUES ('DE', 'Germany'), ('FR', 'France'), ('IT', 'Italy')) AS t(code, name);
    """,
    "models/customers.sql": """
        MODEL (name {scratch}.customers, kind FULL, grain id,
               audits (not_null(columns := (id, region)), unique_values(columns := (id))));
        SELECT id::INT AS id, email::STRING AS email, region::STRING AS region, joined::DATE AS joined
        FROM {shop}.customer;
    """,
    "models/regions.sql": """
        MODEL (name {scratch}.regions, kind VIEW);
        SELECT c.region::STRING AS region, r.title::STRING AS title, count(*)::BIGINT AS customers
        FROM {scratch}.customers AS c LEFT JOIN {shop}.region AS r ON c.region = r.code
        GROUP BY c.region, r.title;
    """,
    "models/joined.sql": """
        MODEL (name {scratch}.joined, kind INCREMENTAL_BY_TIME_RANGE (time_column joined), cron '@yearly',
               start '2020-01-01', end '2024-12-31', audits (not_null(columns := (id))));
        SELECT id::INT AS id, email::STRING AS email, joined::DATE AS joined
        FROM {scratch}.customers WHERE joined BETWEEN @start_date AND @end_date;
    """,
}
UNTIL = "2024-12-31"
"""Ranges of time end here, whatever day it is."""
_FINGERPRINT = re.compile(r"__\d{6,}")
"""Of a model's text, in the name of its table."""


def write_project(directory: Path, shop: str, scratch: str) -> None:
    for name, text in MODELS.items():
        file = directory / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text.format(shop=shop, scratch=scratch))


def load(directory: Path) -> Any:
    from sqlmesh import Context
    from sqlmesh.core.config import Config, GatewayConfig, ModelDefaultsConfig
    from sqlmesh.core.config.connection import DuckDBConnectionConfig, SparkConnectionConfig

    spark = GatewayConfig(
        connection=SparkConnectionConfig(),
        state_connection=DuckDBConnectionConfig(database=str(directory / "state.db")),
    )
    config = Config(
        gateways={"spark": spark},
        default_gateway="spark",
        model_defaults=ModelDefaultsConfig(dialect="spark", start="2020-01-01"),
        disable_anonymized_analytics=True,
    )
    return Context(paths=str(directory), config=config)


def steps(directory: Path, shop: str, scratch: str) -> Steps:
    kept: dict[str, Any] = {}

    def context() -> Any:
        if "context" not in kept:
            kept["context"] = load(directory)
        return kept["context"]

    def rows(query: str) -> Any:
        found = context().fetchdf(query)
        return [[str(value) for value in row] for row in found.itertuples(index=False)]

    def plan() -> Any:
        made = context().plan(no_prompts=True, auto_apply=True)
        return sorted(one.name.replace('"', "") for one in made.new_snapshots)

    return {
        "models": lambda: sorted(one.replace('"', "") for one in context().models),
        "plan": plan,
        "run": lambda: str(context().run()),
        "audit": lambda: str(context().audit(start="2020-01-01", end=UNTIL)),
        "country": lambda: rows(f"SELECT * FROM {scratch}.country ORDER BY code"),
        "customers": lambda: rows(f"SELECT * FROM {scratch}.customers ORDER BY id"),
        "regions": lambda: rows(f"SELECT * FROM {scratch}.regions ORDER BY region"),
        "joined": lambda: rows(f"SELECT * FROM {scratch}.joined ORDER BY id"),
        "columns": lambda: {
            name: str(type_)
            for name, type_ in context().engine_adapter.columns(f"{scratch}.customers").items()
        },
        "objects": lambda: sorted(
            (one.name, one.type.value) for one in context().engine_adapter.get_data_objects(scratch)
        ),
        "rendered": lambda: _FINGERPRINT.sub(
            "", context().render(f"{scratch}.regions").sql(dialect="spark", comments=False)
        ),
        "evaluated": lambda: (
            context()
            .evaluate(f"{scratch}.customers", start="2020-01-01", end=UNTIL, execution_time=UNTIL)
            .orderBy("id")
            .toPandas()
            .astype(str)
            .values.tolist()
        ),
        "another session": lambda: kept.clear(),
    }


def main(remote: str, shop: str, scratch: str) -> None:
    os.environ["SPARK_REMOTE"] = remote  # SQLMesh asks for a session by itself
    with tempfile.TemporaryDirectory() as name:
        write_project(Path(name), shop, scratch)
        tell(steps(Path(name), shop, scratch), times=2)


if __name__ == "__main__":
    main(*sys.argv[1:])
