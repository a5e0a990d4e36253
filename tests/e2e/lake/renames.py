"""What every format has to answer once a column was renamed outside, which policies then speak of."""

from __future__ import annotations

import pytest

from tests.e2e import one_pack
from tests.e2e.lake.worlds import LakeSpark
from tests.e2e.running import RunningGateway

COMMANDS = (
    "UPDATE {t} SET other = email",
    "DELETE FROM {t} WHERE email LIKE 'canary%'",
    "MERGE INTO {t} AS m USING (SELECT 1 AS k) s ON m.id = s.k WHEN MATCHED THEN UPDATE SET other = m.email",
)
"""What reads its target past guards."""


def require_commands_read_no_renamed_column(
    lake: LakeSpark, gateway: RunningGateway, database: str, made: str, canary: str
) -> None:
    """The table is described again before a command that reads it is cleared. `made`: names its format."""
    for at, endpoint in enumerate(lake.endpoints):
        for number, text in enumerate(COMMANDS):
            table = f"{database}.changed_command_{at}_{number}"
            lake.spark.query(
                f"CREATE TABLE {table} (id INT, note STRING, other STRING) {made}",
                f"INSERT INTO {table} VALUES (1, '{canary}', 'x')",
                user="loader",
            )
            with one_pack.session(gateway, endpoint, "bob") as ask:
                assert ask(f"SELECT * FROM {table}") == [(1, canary, "x")]
                lake.spark.query(f"ALTER TABLE {table} RENAME COLUMN note TO email", user="loader")
                with pytest.raises(Exception, match="SLUICE_ACCESS_DENIED"):
                    ask(text.format(t=table))
            assert lake.spark.query(f"SELECT * FROM {table}", user="loader") == [(1, canary, "x")]


VIEWS = "seen_outside"
"""A database of Spark's own catalog, for views over what is renamed outside."""
VIEWS_ARE_READ = f"""
  - name: views over what is renamed outside
    on: {{catalog: spark_catalog, database: {VIEWS}, table: "*", column: "*"}}
    allow: [{{groups: [analysts], access: [select]}}]
"""


def require_reads_show_no_renamed_column(
    lake: LakeSpark, gateway: RunningGateway, database: str, made: str, canary: str
) -> None:
    """While the gateway still knows the table as it was, a column with a policy's name is not found, through
    views neither. `made`: names its format."""
    lake.spark.query(f"CREATE DATABASE IF NOT EXISTS {VIEWS}", user="loader")
    for endpoint in lake.endpoints:
        table = f"{database}.changed_outside_{endpoint}"
        view = f"spark_catalog.{VIEWS}.{database.replace('.', '_')}_{endpoint}"
        lake.spark.query(
            f"CREATE TABLE {table} (id INT, note STRING) {made}",
            f"INSERT INTO {table} VALUES (1, '{canary}')",
            f"CREATE VIEW {view} AS SELECT to_json(struct(*)) AS row FROM {table}",
            user="loader",
        )
        with one_pack.session(gateway, endpoint, "bob") as ask:
            assert ask(f"SELECT * FROM {table}") == [(1, canary)]
            assert canary in str(ask(f"SELECT * FROM {view}"))
        lake.spark.query(f"ALTER TABLE {table} RENAME COLUMN note TO email", user="loader")
        with one_pack.session(gateway, endpoint, "bob") as ask:
            for text in (
                f"SELECT * FROM {table}",
                f"SELECT email FROM {table}",
                f"SELECT id, email FROM {table}",
                f"SELECT count(*) FROM {table} WHERE email IS NOT NULL",
                f"SELECT row FROM {view}",
            ):
                with pytest.raises(Exception, match="UNRESOLVED_COLUMN") as raised:
                    ask(text)
                assert canary not in str(raised.value)
        if endpoint == "connect":
            with gateway.session("bob", one_pack.PASSWORD) as frames:
                for name in (table, view):
                    with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
                        frames.table(name).collect()
        lake.spark.query(f"DROP VIEW {view}", user="loader")
