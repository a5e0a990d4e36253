"""Events as the session makes them, for the tests of the ledger."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

from gateway.model.audit import AuditEvent
from gateway.model.catalog import TableName
from gateway.model.decision import ColumnMask, Decision, PolicyRef
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.model.statement import Cleared, Client, Refused, ScanRecord, SessionContext, Statement
from gateway.session import audit_records
from gateway.session.audit_records import Stamp, StatementOutcome
from tests.speed import patience

GRANT = PolicyRef(id=7, name="hr readers", version=3)
TABLE = Resource.table("spark_catalog", "hr", "employee")


async def until(condition: Callable[[], object], quiet_s: float = 120.0) -> None:
    """Wait for something that no event announces."""
    async with asyncio.timeout(patience(quiet_s)):
        while not condition():  # noqa: ASYNC110 - what is looked at has no event to wait for
            await asyncio.sleep(0.005)


def fresh_id() -> str:
    return audit_records.new_id(time.time_ns() // 1_000_000, os.urandom(10))


def now() -> str:
    return audit_records.format_time(time.time_ns() // 1000)


def cleared(
    text: str = "SELECT name, ssn FROM hr.employee",
    *,
    user: str = "bob",
    statement_id: str | None = None,
    time: str | None = None,
    gateway: str = "sluice-test",
) -> AuditEvent:
    principal = Principal(user=user, groups=frozenset({"staff"}), roles=frozenset({"analyst"}))
    columns = ("name", "ssn")
    verdict = Cleared(
        statement=Statement(text=text, principal=principal, context=SessionContext()),
        forwarded=text.replace("hr.employee", "(SELECT `name`, NULL AS `ssn` FROM `hr`.`employee`)"),
        plan_class="Project",
        decisions=tuple(
            Decision(
                request=AccessRequest(
                    principal=principal, resource=TABLE.child("column", column), access="select"
                ),
                allowed=True,
                policy=GRANT,
            )
            for column in columns
        ),
        scans=(
            ScanRecord(
                table=TableName("spark_catalog", "hr", "employee"),
                access="select",
                columns=columns,
                obligations=(
                    ColumnMask(column="ssn", mask_type="MASK_NULL", expression="NULL", policy=GRANT),
                ),
            ),
        ),
        snapshot_version="policies=3 catalog=17",
        readers_agree=True,
    )
    return _decided(verdict, statement_id, time, gateway)


def refused(text: str = "SELECT salary FROM hr.employee", *, user: str = "bob") -> AuditEvent:
    verdict = Refused(
        statement=Statement(text=text, principal=Principal(user=user), context=SessionContext()),
        code="ACCESS_DENIED",
        sqlstate="42501",
        message=f"user `{user}` needs select on column spark_catalog.hr.employee.salary",
        snapshot_version="policies=3 catalog=17",
    )
    return _decided(verdict, None, None, "sluice-test")


def _decided(
    verdict: Cleared | Refused, statement_id: str | None, time: str | None, gateway: str
) -> AuditEvent:
    return audit_records.build_decided(
        Stamp(statement_id or fresh_id(), time or now(), gateway),
        verdict,
        client=Client(address="10.0.0.5:51000", application="beeline", protocol="thrift"),
        duration_us=1800,
        session="s-1",
    )


def completed(decided: AuditEvent, outcome: StatementOutcome = "finished", **more: Any) -> AuditEvent:
    return audit_records.build_completed(
        statement_id=decided.statement_id,
        time=now(),
        gateway=decided.gateway,
        user=decided.user,
        outcome=outcome,
        rows=3,
        relayed_bytes=99,
        duration_ms=12.5,
        spark_ms=10.0,
        backend_operation="ab12",
        **more,
    )


def login(user: str = "bob", *, accepted: bool = True) -> AuditEvent:
    return audit_records.login(
        Stamp(fresh_id(), now(), "sluice-test"),
        user,
        Client(address="10.0.0.5:51000", protocol="thrift"),
        accepted=accepted,
        mechanism="PLAIN",
    )
