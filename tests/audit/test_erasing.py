"""What a person has written is nowhere in their events once their texts are erased, in whichever key."""

from __future__ import annotations

import argparse
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.audit.erasing import without_texts
from gateway.audit.rows import COLUMNS, encode_event, row
from gateway.cli import audit_proof
from gateway.cli.terminal import Terminal
from gateway.errors import Faults, LedgerUnavailable
from gateway.lineage.recorded import LineageInput
from gateway.model.audit import AuditEvent
from gateway.model.statement import Cleared, Client, PlanRequest, Refused, Verdict
from gateway.reader.pool import ReaderPool
from gateway.session import audit_records
from gateway.session.audit_records import Stamp
from gateway.session.failures import CallRefusal
from gateway.settings import load_settings
from tests.audit.samples import fresh_id, now
from tests.judge_world import World
from tests.plan.frames import message, sql

WORLD = World()
WRITTEN = "4929-3813-zebra"
"""What stands in literals and comments of the statements."""
STATEMENTS = (
    f"SELECT name FROM employee WHERE email = '{WRITTEN}'",
    f"SELECT name /* {WRITTEN} */ FROM employee",
    f"SELECT '{WRITTEN}' AS told, `{WRITTEN}`.name AS `{WRITTEN} as well` FROM employee AS `{WRITTEN}`",
    f"SELECT ssn FROM employee WHERE name = '{WRITTEN}'",
    f"SELECT nothing_of_the_kind('{WRITTEN}') FROM employee",
    f"SELECT name FROM employee WHERE name = '{WRITTEN}",
    f"INSERT INTO department VALUES (1, '{WRITTEN}')",
    f"CREATE TABLE mine TBLPROPERTIES ('note' = '{WRITTEN}') AS SELECT '{WRITTEN}' AS a",
    f"CREATE TEMPORARY VIEW mine AS SELECT * FROM department WHERE name = '{WRITTEN}'",
    f"UPDATE department SET name = '{WRITTEN}' WHERE id = 1",
    f"COMMENT ON TABLE department IS '{WRITTEN}'",
    f"SET spark.sql.session.timeZone = '{WRITTEN}'",
    f"EXPLAIN SELECT * FROM department WHERE name = '{WRITTEN}'",
    f"SELECT * FROM VALUES ('{WRITTEN}')",
    f"SELECT name FROM employee WHERE name = '\0{WRITTEN}'",
)
NO_UNICODE = f"SELECT name FROM employee WHERE name = '\ud800{WRITTEN}'"
"""No plan can hold it. PostgreSQL cannot either, and has the event's own bytes beside what it takes."""
LINEAGE = LineageInput()


def decided(verdict: Verdict) -> AuditEvent:
    return audit_records.build_decided(
        Stamp(fresh_id(), now(), "sluice-test"),
        verdict,
        client=Client(address="10.0.0.5", application="beeline", protocol="thrift"),
        duration_us=100,
        session="s-1",
        lineage=LINEAGE(verdict, {}, {}) if isinstance(verdict, Cleared) else None,
    )


def kept(event: AuditEvent) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an event's row, before and after erasing."""
    whole = dict(zip(COLUMNS, row(encode_event(event)), strict=True)) | {"erased": None}
    return whole, without_texts(whole)


def assert_erased(event: AuditEvent) -> None:
    before, after = kept(event)
    assert WRITTEN in str(before), "it was not recorded in the first place"
    assert not [name for name, value in after.items() if WRITTEN in str(value)]
    # Lineage is packed, and holds texts all the same.
    assert not {"texts", "lineage", "message", "reason", "error"} & orjson.loads(after["body"]).keys()


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("user", ["ann", "bob", "eve"])
@pytest.mark.parametrize("text", [*STATEMENTS, NO_UNICODE])
async def test_what_a_statement_says_is_erased_with_it(reader: ReaderPool, text: str, user: str) -> None:
    verdict = await WORLD.judge(text, reader, user=user)
    assert isinstance(verdict, Cleared | Refused)
    assert_erased(decided(verdict))


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("user", ["ann", "bob"])
@pytest.mark.parametrize("text", STATEMENTS)
async def test_what_a_plan_says_is_erased_with_it(reader: ReaderPool, text: str, user: str) -> None:
    plan = PlanRequest(kind="execute", message=message(sql(text)).SerializeToString())
    verdict = await WORLD.judge_plan(plan, reader, user=user)
    assert_erased(decided(verdict))


def test_what_spark_repeats_of_a_statement_is_erased_with_it() -> None:
    assert_erased(
        audit_records.build_completed(
            statement_id=fresh_id(),
            time=now(),
            gateway="sluice-test",
            user="bob",
            outcome="failed",
            error=f"[CAST_INVALID_INPUT] The value '{WRITTEN}' cannot be cast",
            sqlstate="22018",
        )
    )


@pytest.mark.parametrize(
    ("hold", "held"),
    [
        ({"users": ["bob"]}, True),
        ({}, True),
        ({"users": ["ann", "bob"], "first": "2026-01-01", "last": "2026-01-31"}, True),
        ({"users": ["ann"]}, False),
        ({"users": ["bob"], "first": "2026-03-01"}, False),
    ],
)
def test_nobody_erases_what_is_on_hold(tmp_path: Path, hold: dict[str, Any], held: bool) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_bytes(orjson.dumps({"jobs": {"archive": {"holds": [{"name": "case 7", **hold}]}}}))
    arguments = argparse.Namespace(action="erase", user="bob", reason="request 7")
    with pytest.raises(Faults if held else LedgerUnavailable, match="on hold: case 7" if held else None):
        audit_proof.run(
            arguments,
            load_settings(file),
            Terminal(io.StringIO()),
            dsn=f"postgresql://sluice@/none?host={tmp_path}",
            spool=None,
            since=None,
            until=datetime(2026, 2, 1, tzinfo=UTC),
        )


def test_what_metadata_and_other_calls_ask_for_is_erased_with_them() -> None:
    bob, client = WORLD.principals["bob"], Client(address="10.0.0.5", protocol="thrift")
    stamp = Stamp(fresh_id(), now(), "sluice-test")
    assert_erased(
        audit_records.metadata_decided(stamp, "GetTables", {"table": WRITTEN}, principal=bob, client=client)
    )
    refusal = CallRefusal(code="CONFIG", sqlstate="42501", message=f"`{WRITTEN}` may not be set")
    for refused in (None, refusal):
        assert_erased(
            audit_records.call_decided(
                stamp,
                "Config.set",
                [WRITTEN],
                principal=bob,
                client=client,
                session="s-1",
                decisions=(),
                refusal=refused,
            )
        )
