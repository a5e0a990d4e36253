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
