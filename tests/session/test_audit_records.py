"""The audit event says everything that the verdict knew, under documented keys."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.catalog import TableName
from gateway.model.decision import ColumnMask, Decision, PolicyRef, RowFilter
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.model.statement import Cleared, Client, Refused, ScanRecord, SessionContext, Statement
from gateway.session import audit_records
from gateway.session.identifiers import Handle
from gateway.session.metrics import Metrics
from gateway.session.recorder import MAX_DESCRIBED, MAX_DESCRIBED_CHARS, Recorder
from tests.session.fakes import FakeLedger

BOB = Principal(user="bob", groups=frozenset({"staff", "eu"}), roles=frozenset({"analyst"}))
TABLE = Resource.table("spark_catalog", "hr", "employee")
GRANT = PolicyRef(id=7, name="hr readers", version=3)
STATEMENT_ID = audit_records.new_id(1_700_000_000_000, bytes(range(10)))
STAMP = audit_records.Stamp(STATEMENT_ID, "2026-11-20T13:05:00.000123Z", "gw-1")
EVENT_ID = audit_records.new_id(1_700_000_000_001, bytes(range(10)))


def decision(column: str, *, allowed: bool = True, policy: PolicyRef = GRANT) -> Decision:
    request = AccessRequest(principal=BOB, resource=TABLE.child("column", column), access="select")
    return Decision(request=request, allowed=allowed, policy=policy, reason="" if allowed else "no policy")


def statement(text: str) -> Statement:
    return Statement(text=text, principal=BOB, context=SessionContext())


def refused_in_spark_s_words() -> Refused:
    return Refused(
        statement=statement("SELEC 1"),
        code="SPARK",
        sqlstate="42601",
        message="\n[PARSE_SYNTAX_ERROR] no.",
        exceptions=("org.apache.spark.sql.catalyst.parser.ParseException",),
    )


def cleared() -> Cleared:
    return Cleared(
        statement=statement("SELECT name, ssn FROM hr.employee"),
        forwarded="SELECT name, ssn FROM (SELECT `name`, NULL AS `ssn` FROM …) AS `employee`",
        plan_class="Project",
        decisions=(decision("name"), decision("ssn")),
        scans=(
            ScanRecord(
                table=TableName("spark_catalog", "hr", "employee"),
                access="select",
                columns=("name", "ssn"),
                obligations=(
                    RowFilter(expression="region = 'EU'", policy=PolicyRef(id=8, name="eu only", version=1)),
                    ColumnMask(
                        column="ssn",
                        mask_type="MASK_NULL",
                        expression="NULL",
                        policy=PolicyRef(id=9, name="hide ssn", version=2),
                    ),
                ),
            ),
        ),
        snapshot_version="policies=3 catalog=17",
        readers_agree=True,
    )


def test_a_cleared_statement_is_recorded_with_everything_that_was_decided() -> None:
    verdict = cleared()
    event = audit_records.build_decided(
        STAMP,
        verdict,
        client=Client(address="10.0.0.5:51000", application="beeline", protocol="thrift"),
        duration_us=1_800,
        session="s-1",
    )
    body = event.body
    assert (event.kind, event.user, event.statement_id) == ("decided", "bob", STATEMENT_ID)
    assert body["verdict"] == "cleared"
    assert body["result"] == 1
    assert body["groups"] == ["eu", "staff"]
    assert body["roles"] == ["analyst"]
    assert body["cliIP"] == "10.0.0.5:51000"
    assert body["cliType"] == "thrift"
    assert body["sess"] == "s-1"
    assert body["reqData"] == verdict.statement.text
    assert body["reqData_sha256"] == hashlib.sha256(verdict.statement.text.encode()).hexdigest()
    assert body["forwarded_sha256"] == hashlib.sha256(verdict.forwarded.encode()).hexdigest()
    assert (body["policy"], body["policy_version"], body["access"]) == (7, 3, "SELECT")
    assert body["resource"] == "spark_catalog/hr/employee/name"
    assert body["resType"] == "@column"
    assert body["resources"] == [
        "spark_catalog.hr.employee",
        "spark_catalog.hr.employee.name",
        "spark_catalog.hr.employee.ssn",
    ]
    assert body["policies"] == ["eu only", "hide ssn", "hr readers"]
    assert [o["type"] for o in body["scans"][0]["obligations"]] == ["ROW_FILTER", "MASK_NULL"]
    assert body["snapshot"] == "policies=3 catalog=17"
    assert json.loads(json.dumps(body)) == body


def test_what_a_cleared_statement_was_denied_is_no_resource_that_it_got() -> None:
    verdict = replace(cleared(), decisions=(decision("name"), decision("salary", allowed=False)))
    event = audit_records.build_decided(
        STAMP,
        verdict,
        client=Client(protocol="thrift"),
        duration_us=1,
    )
    assert [(one["columns"], one["result"]) for one in event.body["decisions"]] == [
        (["name"], 1),
        (["salary"], 0),
    ]
    assert event.body["resources"] == ["spark_catalog.hr.employee", "spark_catalog.hr.employee.name"]
    assert event.body["result"] == 1


def test_columns_that_one_policy_settled_alike_share_an_entry() -> None:
    other = PolicyRef(id=10, name="salaries", version=1)
    verdict = Refused(
        statement=statement("SELECT *"),
        code="ACCESS_DENIED",
        sqlstate="42501",
        message="user `bob` needs select on column spark_catalog.hr.employee.salary",
        decisions=(decision("name"), decision("salary", allowed=False, policy=other), decision("ssn")),
    )
    event = audit_records.build_decided(
        STAMP,
        verdict,
        client=Client(protocol="thrift"),
        snapshot="policies=1 catalog=1",
        duration_us=1,
    )
    entries = event.body["decisions"]
    found = [(entry["columns"], entry["result"]) for entry in entries]
    assert found == [(["name", "ssn"], 1), (["salary"], 0)]
    assert event.body["resource"] == "spark_catalog/hr/employee/salary", "the denied access is the summary"
    assert event.body["policy"] == 10
    assert event.body["result"] == 0
    assert event.body["code"] == "ACCESS_DENIED"
    assert event.body["snapshot"] == "policies=1 catalog=1"
    assert "forwarded" not in event.body


def test_a_statement_refused_before_any_decision_names_no_policy() -> None:
    verdict = Refused(
        statement=statement("SELEC\ud800T"),
        code="PARSE",
        sqlstate="42601",
        message="syntax error at `SELEC`",
    )
    event = audit_records.build_decided(
        STAMP,
        verdict,
        client=Client(protocol="thrift"),
        duration_us=1,
    )
    assert event.body["policy"] == -1
    assert event.body["decisions"] == []
    assert len(event.body["reqData_sha256"]) == 64


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=16))
def test_ids_are_uuid_v7_in_order_of_time(now_ms: int, random: bytes) -> None:
    made = uuid.UUID(audit_records.new_id(now_ms, random))
    assert made.version == 7
    assert made.variant == uuid.RFC_4122
    assert int.from_bytes(made.bytes[:6], "big") == now_ms


def test_too_little_randomness_is_an_error() -> None:
    with pytest.raises(ValueError):
        audit_records.new_id(1, b"short")


def test_a_completed_event_has_one_id_per_statement() -> None:
    first = audit_records.outcome_id(STATEMENT_ID)
    assert first == audit_records.outcome_id(STATEMENT_ID.upper())
    assert first != audit_records.outcome_id(EVENT_ID)
    assert uuid.UUID(first).version == 7


def test_an_outcome_tells_what_was_relayed() -> None:
    event = audit_records.build_completed(
        statement_id=STATEMENT_ID,
        time="2026-11-20T13:06:00.000000Z",
        gateway="gw-1",
        user="bob",
        outcome="failed",
        rows=3,
        relayed_bytes=99,
        duration_ms=12.5,
        backend_operation="ab12",
        error="[DIVIDE_BY_ZERO] division by zero",
        sqlstate="22012",
    )
    assert event.kind == "completed"
    assert event.body["rows"] == 3
    assert event.body["bytes"] == 99
    assert event.body["sqlstate"] == "22012"


def test_a_login_that_failed_has_no_groups() -> None:
    event = audit_records.login(
        STAMP,
        "mallory",
        Client(address="10.0.0.9", protocol="thrift"),
        accepted=False,
        mechanism="PLAIN",
        reason="wrong password",
    )
    assert event.body["result"] == 0
    assert event.body["verdict"] == "rejected"
    assert "groups" not in event.body


def test_time_has_microseconds_and_a_z() -> None:
    assert audit_records.format_time(1_700_000_000_000_123) == "2023-11-14T22:13:20.000123Z"


def test_what_a_resource_is_shared_in_stands_with_its_decision() -> None:
    shared = replace(decision("name"), datasets=("campaign",), projects=("spring",))
    verdict = replace(cleared(), decisions=(shared, decision("ssn")))
    told = audit_records.of_decisions(verdict.decisions, "bob")
    assert [(one["columns"], one.get("datasets"), one.get("projects")) for one in told] == [
        (["name"], ["campaign"], ["spring"]),
        (["ssn"], None, None),
    ]
    summary = audit_records.ranger_summary(verdict)
    assert (summary["datasets"], summary["projects"]) == (["campaign"], ["spring"])


async def test_a_clearance_that_is_used_again_is_recorded_as_at_first() -> None:
    ledger = FakeLedger()
    recorder = Recorder(ledger, "gw-1", Metrics())
    alice = Principal(user="alice")
    of_alice = replace(cleared(), statement=replace(statement("SELECT 1"), principal=alice))
    first = cleared()
    for verdict, address in ((first, "10.0.0.1"), (first, "10.0.0.2"), (of_alice, "10.0.0.3")):
        await recorder.record_decided(
            verdict,
            statement_id=str(uuid.uuid4()),
            client=Client(protocol="thrift", address=address),
            judged_s=0.0,
            session=Handle(bytes(16), bytes(16)),
        )
    one, again, other = ledger.events
    assert (one.user, again.user, other.user) == ("bob", "bob", "alice")
    assert [event.body["cliIP"] for event in ledger.events] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert {**one.body, "cliIP": ""} == {**again.body, "cliIP": ""}
    assert other.body["reqUser"] == "alice"
    assert len(recorder._described) == 2


async def test_what_is_kept_of_clearances_has_a_bound() -> None:
    recorder = Recorder(FakeLedger(), "gw-1", Metrics())
    for number in range(MAX_DESCRIBED + 1):
        recorder._describe(replace(cleared(), statement=statement(f"SELECT {number}")))
    assert len(recorder._described) == MAX_DESCRIBED
    long = replace(cleared(), statement=statement("SELECT " + "1" * MAX_DESCRIBED_CHARS))
    recorder._describe(long)
    assert id(long) not in recorder._described
