"""Every audit event is built here, from values only: the ledger stores what these functions return.

Keys that Apache Ranger's audit log has carry Ranger's spelling (`reqUser`, `cliIP`, …), so that its readers
find their way; the rest is ours. docs/audit.md describes each key. Times, ids and addresses come in as
arguments. The one event that is not built here is `abandoned`: only a ledger that recovers writes it.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from gateway.model.audit import AuditEvent
from gateway.model.decision import NO_POLICY, Decision, Obligation, PolicyRef, RowFilter
from gateway.model.principal import Principal
from gateway.model.statement import Cleared, Client, Refused, ScanRecord, Verdict

Outcome = Literal["finished", "failed", "canceled", "timed_out", "not_forwarded"]
"""What became of a cleared statement; `not_forwarded` when Spark never received it."""

ENFORCER = "sluice-acl"

REFUSED_CHARS = 65_536
"""Characters kept of a refused statement: refusals cost their sender nothing, and must not fill the disk."""


def new_id(now_ms: int, random: bytes) -> str:
    """Make a UUIDv7 from a Unix time in milliseconds and at least ten random bytes."""
    if len(random) < 10:
        raise ValueError("a UUIDv7 needs ten random bytes")
    return _uuid7(now_ms.to_bytes(6, "big"), random)


def outcome_id(statement_id: str) -> str:
    """Derive the id of a statement's `completed` event: a statement can only ever have one."""
    origin = uuid.UUID(statement_id)
    return _uuid7(origin.bytes[:6], hashlib.sha256(b"completed:" + origin.bytes).digest())


def _uuid7(timestamp: bytes, rest: bytes) -> str:
    raw = bytearray(timestamp + rest[:10])
    raw[6] = 0x70 | raw[6] & 0x0F
    raw[8] = 0x80 | raw[8] & 0x3F
    return str(uuid.UUID(bytes=bytes(raw)))


def format_time(unix_us: int) -> str:
    """Write a Unix time in microseconds as an AuditEvent has it: `2026-11-20T13:05:00.000123Z`."""
    seconds, microseconds = divmod(unix_us, 1_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{microseconds:06d}Z"


def decided(
    verdict: Verdict,
    *,
    event_id: str,
    statement_id: str,
    time: str,
    gateway: str,
    client: Client,
    snapshot: str = "",
    duration_us: int,
    session: str = "",
    repository: str = "spark",
) -> AuditEvent:
    """Build the record of a verdict. `duration_us` is the time that judging took, `snapshot` the version
    that the statement was judged under when the verdict itself does not say."""
    statement = verdict.statement
    cleared = isinstance(verdict, Cleared)
    body: dict[str, Any] = {
        **_ranger_summary(verdict),
        "repo": repository,
        "enforcer": ENFORCER,
        "sess": session,
        **_principal(statement.principal),
        **_client(client),
        "reqData": statement.text if cleared else statement.text[:REFUSED_CHARS],
        "reqData_sha256": digest(statement.text),
        "verdict": "cleared" if cleared else "refused",
        "plan_class": verdict.plan_class,
        "catalog": statement.context.catalog,
        "namespace": list(statement.context.namespace),
        "snapshot": verdict.snapshot_version or snapshot,
        "duration_us": duration_us,
        "decisions": _decisions(verdict.decisions),
        "resources": _resources(verdict),
        "policies": _policies(verdict),
    }
    if isinstance(verdict, Cleared):
        body["forwarded"] = verdict.forwarded
        body["forwarded_sha256"] = digest(verdict.forwarded)
        body["readers_agree"] = verdict.readers_agree
        body["scans"] = [_scan(scan) for scan in verdict.scans]
    else:
        body["code"] = verdict.code
        body["sqlstate"] = verdict.sqlstate
        body["message"] = verdict.message
    return AuditEvent(
        event_id=event_id,
        kind="decided",
        time=time,
        statement_id=statement_id,
        gateway=gateway,
        user=statement.principal.user,
        body=body,
    )


def completed(
    *,
    statement_id: str,
    time: str,
    gateway: str,
    user: str,
    outcome: Outcome,
    rows: int = 0,
    relayed_bytes: int = 0,
    duration_ms: float = 0.0,
    backend_operation: str = "",
    error: str = "",
    sqlstate: str = "",
    session: str = "",
) -> AuditEvent:
    """Build the record of how a cleared statement ended.

    `rows` and `relayed_bytes` are what the client was sent, `duration_ms` runs from the verdict to the end,
    `error` is the text that the client was given.
    """
    body: dict[str, Any] = {
        "reqUser": user,
        "sess": session,
        "outcome": outcome,
        "rows": rows,
        "bytes": relayed_bytes,
        "duration_ms": duration_ms,
        "backend_operation": backend_operation,
    }
    if error or sqlstate:
        body["error"] = error
        body["sqlstate"] = sqlstate
    return AuditEvent(
        event_id=outcome_id(statement_id),
        kind="completed",
        time=time,
        statement_id=statement_id,
        gateway=gateway,
        user=user,
        body=body,
    )


def login(
    *,
    event_id: str,
    time: str,
    gateway: str,
    user: str,
    client: Client,
    accepted: bool,
    mechanism: str,
    reason: str = "",
    principal: Principal | None = None,
    session: str = "",
) -> AuditEvent:
    """Build the record of an attempt to log in; `principal` is known only when it was accepted."""
    body: dict[str, Any] = {
        **(_principal(principal) if principal is not None else {"reqUser": user}),
        **_client(client),
        "sess": session,
        "action": "login",
        "result": int(accepted),
        "verdict": "accepted" if accepted else "rejected",
        "mechanism": mechanism,
        "reason": reason,
    }
    return AuditEvent(
        event_id=event_id,
        kind="login",
        time=time,
        statement_id="",
        gateway=gateway,
        user=user,
        body=body,
    )


def metadata_decided(
    call: str,
    arguments: Mapping[str, str],
    *,
    statement_id: str,
    time: str,
    gateway: str,
    principal: Principal,
    client: Client,
    session: str = "",
    repository: str = "spark",
) -> AuditEvent:
    """Build the record of a metadata call. It is always cleared: its answer holds only what the principal
    may know of."""
    text = f"{call}({', '.join(f'{name}={value}' for name, value in arguments.items())})"
    return AuditEvent(
        event_id=statement_id,
        kind="decided",
        time=time,
        statement_id=statement_id,
        gateway=gateway,
        user=principal.user,
        body={
            "result": 1,
            "policy": NO_POLICY.id,
            "policy_version": NO_POLICY.version,
            "action": "metadata",
            "repo": repository,
            "enforcer": ENFORCER,
            "sess": session,
            **_principal(principal),
            **_client(client),
            "reqData": text,
            "reqData_sha256": digest(text),
            "verdict": "cleared",
            "plan_class": call,
        },
    )


def security(
    *,
    event_id: str,
    time: str,
    gateway: str,
    principal: Principal,
    action: str,
    reason: str,
    client: Client | None = None,
    session: str = "",
) -> AuditEvent:
    """Build the record of something that an honest client does not do, such as using another's handle."""
    return AuditEvent(
        event_id=event_id,
        kind="security",
        time=time,
        statement_id="",
        gateway=gateway,
        user=principal.user,
        body={
            **_principal(principal),
            **(_client(client) if client is not None else {}),
            "sess": session,
            "action": action,
            "result": 0,
            "verdict": "rejected",
            "reason": reason,
        },
    )


def digest(text: str) -> str:
    """Return the SHA-256 of the text in hexadecimal; a lone surrogate counts as its three bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _principal(principal: Principal) -> dict[str, Any]:
    return {
        "reqUser": principal.user,
        "groups": sorted(principal.groups),
        "roles": sorted(principal.roles),
    }


def _client(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = {
        "cliIP": client.address,
        "cliType": client.protocol,
        "application": client.application,
    }
    if client.extra:
        found["client"] = dict(client.extra)
    return found


def _ranger_summary(verdict: Verdict) -> dict[str, Any]:
    """Name the one decision that Ranger's single-access format would show: the first that says no, else
    the first."""
    refused = isinstance(verdict, Refused)
    deciding = next((d for d in verdict.decisions if not d.allowed), None) if refused else None
    if deciding is None and verdict.decisions:
        deciding = verdict.decisions[0]
    found: dict[str, Any] = {"result": 0 if refused else 1}
    if deciding is None:
        found |= {"policy": NO_POLICY.id, "policy_version": NO_POLICY.version}
        return found
    return found | {
        "access": deciding.request.access.upper(),
        "action": deciding.request.access,
        "resource": "/".join(value for _, value in deciding.request.resource.elements),
        "resType": f"@{deciding.request.resource.kind}",
        "policy": deciding.policy.id,
        "policy_version": deciding.policy.version,
        "reason": deciding.reason,
    }


def _decisions(decisions: Iterable[Decision]) -> list[dict[str, Any]]:
    """List every decision; columns of one table that one policy settled alike share an entry, as in
    Ranger's Hive handler: a table of 500 columns would otherwise write 500 times the same."""
    found: list[dict[str, Any]] = []
    merged: dict[tuple[object, ...], dict[str, Any]] = {}
    for decision in decisions:
        elements = decision.request.resource.elements
        column = elements[-1][1] if elements and elements[-1][0] == "column" else None
        path = elements if column is None else elements[:-1]
        what = (decision.request.access, decision.allowed, decision.policy, decision.reason)
        key = (path, column is None, *what)
        entry = merged.get(key)
        if entry is None:
            entry = {
                "resource": "/".join(value for _, value in path),
                "resType": f"@{decision.request.resource.kind}",
                "action": decision.request.access,
                "result": int(decision.allowed),
                **_policy(decision.policy),
                "reason": decision.reason,
            }
            merged[key] = entry
            found.append(entry)
        if column is not None:
            entry.setdefault("columns", []).append(column)
    return found


def _policy(policy: PolicyRef) -> dict[str, Any]:
    return {"policy": policy.id, "policy_name": policy.name, "policy_version": policy.version}


def _scan(scan: ScanRecord) -> dict[str, Any]:
    return {
        "table": str(scan.table),
        "access": scan.access,
        "columns": None if scan.columns is None else list(scan.columns),
        "obligations": [_obligation(obligation) for obligation in scan.obligations],
    }


def _obligation(obligation: Obligation) -> Mapping[str, Any]:
    if isinstance(obligation, RowFilter):
        return {"type": "ROW_FILTER", "expression": obligation.expression, **_policy(obligation.policy)}
    return {
        "type": obligation.mask_type,
        "column": obligation.column,
        "expression": obligation.expression,
        **_policy(obligation.policy),
    }


def _resources(verdict: Verdict) -> list[str]:
    """Every resource that was asked for, dotted, with the table of each column: what auditors search by."""
    found = set[str]()
    for decision in verdict.decisions:
        resource = decision.request.resource
        found.add(str(resource))
        if resource.kind == "column":
            found.add(".".join(value for _, value in resource.elements[:-1]))
    if isinstance(verdict, Cleared):
        found.update(str(scan.table) for scan in verdict.scans)
    found.discard("")
    return sorted(found)


def _policies(verdict: Verdict) -> list[str]:
    """Names of all policies that settled something or laid an obligation on the statement."""
    found = {decision.policy.name for decision in verdict.decisions}
    if isinstance(verdict, Cleared):
        found.update(obligation.policy.name for obligation in verdict.obligations)
    found.discard("")
    return sorted(found)
