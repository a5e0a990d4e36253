"""Every audit event is built here, from values only: the ledger stores what these functions return.

Keys that Apache Ranger's audit log has carry Ranger's spelling (`reqUser`, `cliIP`, …), so that its readers
find their way; the rest is ours. docs/audit.md describes each key. Times, ids and addresses come in as
arguments. The one event that is not built here is `abandoned`: only a ledger that recovers writes it.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from gateway.model.audit import AuditEvent, AuditKind
from gateway.model.decision import NO_POLICY, Decision, Obligation, PolicyRef, RowFilter
from gateway.model.principal import Principal
from gateway.model.restrictions import hide_salts
from gateway.model.statement import Cleared, Client, Refused, ScanRecord, Verdict
from gateway.session.failures import CallRefusal


def of_principal(principal: Principal) -> dict[str, Any]:
    return {
        "reqUser": principal.user,
        "groups": sorted(principal.groups),
        "roles": sorted(principal.roles),
    }


def of_attributes(principal: Principal) -> dict[str, Any]:
    """Return the attributes that filters and conditions go by, where there are any."""
    return {"attributes": [list(one) for one in principal.attributes]} if principal.attributes else {}


def of_client(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = {
        "cliIP": client.address,
        "cliType": client.protocol,
        "application": client.application,
    }
    if client.real_user:
        found["realUser"] = client.real_user
    if client.token:
        found["token"] = client.token
    if client.extra:
        found["client"] = dict(client.extra)
    return found


def ranger_summary(verdict: Verdict) -> dict[str, Any]:
    """Name the one decision that Ranger's single-access format would show: the first that says no, else
    the first."""
    return build_decision_fields(verdict.decisions, refused=isinstance(verdict, Refused))


def build_decision_fields(decisions: Sequence[Decision], *, refused: bool) -> dict[str, Any]:
    deciding = next((d for d in decisions if not d.allowed), None) if refused else None
    if deciding is None and decisions:
        deciding = decisions[0]
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
        **of_sharing(deciding),
    }


def of_sharing(decision: Decision) -> dict[str, Any]:
    """Name the datasets and projects that the resource is shared in, where it is."""
    found = {"datasets": list(decision.datasets), "projects": list(decision.projects)}
    return {key: names for key, names in found.items() if names}


def of_decisions(decisions: Iterable[Decision], user: str) -> list[dict[str, Any]]:
    """List every decision; columns of one table that one policy settled alike share an entry, as in
    Ranger's Hive handler: a table of 500 columns would otherwise write 500 times the same.

    A decision on somebody else than `user`, the definer of a view, says on whom.
    """
    found: list[dict[str, Any]] = []
    merged: dict[tuple[object, ...], dict[str, Any]] = {}
    for decision in decisions:
        elements = decision.request.resource.elements
        column = elements[-1][1] if elements and elements[-1][0] == "column" else None
        path = elements if column is None else elements[:-1]
        what = (decision.request.access, decision.allowed, decision.policy, decision.reason)
        asked = decision.request.principal.user
        key = (path, column is None, asked, *what, decision.datasets, decision.projects)
        entry = merged.get(key)
        if entry is None:
            entry = {
                "resource": "/".join(value for _, value in path),
                "resType": f"@{decision.request.resource.kind}",
                "action": decision.request.access,
                "result": int(decision.allowed),
                **of_policy(decision.policy),
                "reason": decision.reason,
                **of_sharing(decision),
            }
            if asked != user:
                entry["user"] = asked
            merged[key] = entry
            found.append(entry)
        if column is not None:
            entry.setdefault("columns", []).append(column)
    return found


def of_policy(policy: PolicyRef) -> dict[str, Any]:
    return {"policy": policy.id, "policy_name": policy.name, "policy_version": policy.version}


def of_scan(scan: ScanRecord) -> dict[str, Any]:
    found = {
        "table": str(scan.table),
        "access": scan.access,
        "columns": None if scan.columns is None else list(scan.columns),
        "obligations": [of_obligation(obligation) for obligation in scan.obligations],
    }
    return found | {"definer": scan.definer} if scan.definer else found


def of_obligation(obligation: Obligation) -> Mapping[str, Any]:
    if isinstance(obligation, RowFilter):
        return {"type": "ROW_FILTER", "expression": obligation.expression, **of_policy(obligation.policy)}
    return {
        "type": obligation.mask_type,
        "column": obligation.column,
        "expression": hide_salts(obligation.expression),
        **of_policy(obligation.policy),
    }


def resources_of(verdict: Verdict) -> list[str]:
    """Every resource that was asked for, dotted, with the table of each column: what auditors search by.

    A cleared statement did not get what it was denied: a column that Spark will not find.
    """
    found = set[str]()
    for decision in verdict.decisions:
        if isinstance(verdict, Cleared) and not decision.allowed:
            continue
        resource = decision.request.resource
        found.add(str(resource))
        if resource.kind == "column":
            found.add(".".join(value for _, value in resource.elements[:-1]))
    if isinstance(verdict, Cleared):
        found.update(str(scan.table) for scan in verdict.scans)
    found.discard("")
    return sorted(found)


def policies_of(verdict: Verdict) -> list[str]:
    """Names of all policies that settled something or laid an obligation on the statement."""
    found = {decision.policy.name for decision in verdict.decisions}
    if isinstance(verdict, Cleared):
        found.update(obligation.policy.name for obligation in verdict.obligations)
    found.discard("")
    return sorted(found)


StatementOutcome = Literal["finished", "failed", "canceled", "timed_out", "not_forwarded"]
"""What became of a cleared statement; `not_forwarded` when Spark never received it."""

REPOSITORY = "spark"
ENFORCER = "sluice-acl"

ERROR_CHARS = 4_096
"""Characters of a message that are recorded: whole ones of Spark hold its plan."""
ASKED_VALUES = 100
"""Values of one parameter that are recorded."""
REFUSED_CHARS = 65_536
"""Characters kept of a refused statement: refusals cost their sender nothing, and must not fill the disk."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells one event from all others. That of a decision has the id of its statement."""

    event_id: str
    time: str
    gateway: str
    backend: str = ""
    """The Spark that it is about, where the gateway has several."""


def new_id(now_ms: int, random: bytes) -> str:
    """Make a UUIDv7 from a Unix time in milliseconds and at least ten random bytes."""
    if len(random) < 10:
        raise ValueError("a UUIDv7 needs ten random bytes")
    return _uuid7(now_ms.to_bytes(6, "big"), random)


def outcome_id(statement_id: str) -> str:
    """Derive the id of a statement's `completed` event: a statement can only ever have one."""
    origin = bytes.fromhex(statement_id.replace("-", ""))
    return _uuid7(origin[:6], hashlib.sha256(b"completed:" + origin).digest())


def _uuid7(timestamp: bytes, rest: bytes) -> str:
    raw = bytearray(timestamp + rest[:10])
    raw[6] = 0x70 | raw[6] & 0x0F
    raw[8] = 0x80 | raw[8] & 0x3F
    return format_uuid(raw)


def format_uuid(raw: bytes | bytearray) -> str:
    """Return sixteen bytes as a UUID is written."""
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


@functools.lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def format_time(unix_us: int) -> str:
    """Write a Unix time in microseconds as an AuditEvent has it: `2026-11-20T13:05:00.000123Z`."""
    seconds, microseconds = divmod(unix_us, 1_000_000)
    return f"{_second(seconds)}.{microseconds:06d}Z"


def digest(text: str) -> str:
    """Return the SHA-256 of the text in hexadecimal; a lone surrogate counts as its three bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def build_decided(
    stamp: Stamp,
    verdict: Verdict,
    *,
    client: Client,
    snapshot: str = "",
    duration_us: int,
    read_us: int | None = None,
    session: str = "",
    operation: str = "",
    lineage: Mapping[str, Any] | None = None,
    described: Mapping[str, Any] | None = None,
) -> AuditEvent:
    """Build the record of a verdict. `duration_us` is the time that judging took, `read_us` the part of it in
    which Spark's parser was asked, `snapshot` the version
    that the statement was judged under when the verdict itself does not say, `operation` the id that client
    and Spark know a plan's execution by, `lineage` what its lineage will be made of, `described` what
    `describe_verdict` says of it."""
    statement = verdict.statement
    body: dict[str, Any] = {
        **(described if described is not None else describe_verdict(verdict)),
        "repo": REPOSITORY,
        "enforcer": ENFORCER,
        "sess": session,
        **of_client(client),
        "snapshot": verdict.snapshot_version or snapshot,
        "duration_us": duration_us,
    }
    if read_us is not None:
        body["read_us"] = read_us
    if lineage is not None and isinstance(verdict, Cleared):
        body["lineage"] = lineage
    if statement.plan is not None:
        body["operation"] = operation
    return _event(stamp, "decided", statement.principal, body)


def describe_verdict(verdict: Verdict) -> dict[str, Any]:
    """Return what the record says of a verdict whenever and from wherever it is used."""
    statement = verdict.statement
    cleared = isinstance(verdict, Cleared)
    body: dict[str, Any] = {
        **ranger_summary(verdict),
        **of_principal(statement.principal),
        **of_attributes(statement.principal),
        "reqData": statement.text if cleared else statement.text[:REFUSED_CHARS],
        "reqData_sha256": digest(statement.text),
        "verdict": "cleared" if cleared else "refused",
        "plan_class": verdict.plan_class,
        "catalog": statement.context.catalog,
        "namespace": list(statement.context.namespace),
        "decisions": of_decisions(verdict.decisions, statement.principal.user),
        "resources": resources_of(verdict),
        "policies": policies_of(verdict),
    }
    if isinstance(verdict, Refused) and verdict.limit:
        body["limit"] = verdict.limit
    if statement.context.settings:
        body["settings"] = sorted(statement.context.settings)
    if isinstance(verdict, Cleared):
        forwarded = hide_salts(verdict.forwarded)
        body["forwarded"] = forwarded
        body["forwarded_sha256"] = digest(forwarded)
        body["readers_agree"] = verdict.readers_agree
        body["scans"] = [of_scan(scan) for scan in verdict.scans]
        if statement.plan is not None:
            body["forwarded_plan_sha256"] = hashlib.sha256(verdict.forwarded_plan).hexdigest()
            body["texts"] = list(verdict.plan_texts)
            body["user_code"] = list(verdict.code)
    else:
        body["code"] = verdict.code
        body["sqlstate"] = verdict.sqlstate
        body["message"] = verdict.message[:ERROR_CHARS]
    if statement.plan is not None:
        body["plan"] = statement.plan.kind
        body["plan_sha256"] = hashlib.sha256(statement.plan.message).hexdigest()
    return body


def build_completed(
    *,
    statement_id: str,
    time: str,
    gateway: str,
    user: str,
    outcome: StatementOutcome,
    rows: int = 0,
    relayed_bytes: int = 0,
    duration_ms: float = 0.0,
    spark_ms: float = 0.0,
    record_ms: float | None = None,
    wait_ms: float | None = None,
    backend_operation: str = "",
    error: str = "",
    sqlstate: str = "",
    session: str = "",
    backend: str = "",
    limit: str = "",
) -> AuditEvent:
    """Build the record of how a cleared statement ended.

    `rows` and `relayed_bytes` are what the client was sent, `duration_ms` runs from the verdict to the end,
    `spark_ms` from there until Spark was done or sent its first rows, `wait_ms` the part of that until it was
    its turn in Spark, `record_ms` how long it took before all that to have the verdict on record, `error` is
    the text that the client was given, `limit` the name of the limit that ended it.
    """
    body: dict[str, Any] = {
        "reqUser": user,
        "sess": session,
        "outcome": outcome,
        "rows": rows,
        "bytes": relayed_bytes,
        "duration_ms": duration_ms,
        "spark_ms": spark_ms,
        "backend_operation": backend_operation,
    }
    body |= {name: ms for name, ms in (("record_ms", record_ms), ("wait_ms", wait_ms)) if ms is not None}
    if error or sqlstate:
        body["error"] = error[:ERROR_CHARS]
        body["sqlstate"] = sqlstate
    if limit:
        body["limit"] = limit
    stamp = Stamp(outcome_id(statement_id), time, gateway, backend)
    return _event(stamp, "completed", user, body, statement_id=statement_id)


def login(
    stamp: Stamp,
    user: str,
    client: Client,
    *,
    accepted: bool,
    mechanism: str,
    reason: str = "",
    principal: Principal | None = None,
) -> AuditEvent:
    """Build the record of an attempt to log in; `principal` is known only when it was accepted."""
    body: dict[str, Any] = {
        **(of_principal(principal) if principal is not None else {"reqUser": user}),
        **of_client(client),
        "sess": "",
        "action": "login",
        "result": int(accepted),
        "verdict": "accepted" if accepted else "rejected",
        "mechanism": mechanism,
        "reason": reason,
    }
    return _event(stamp, "login", user, body)


def metadata_decided(
    stamp: Stamp,
    call: str,
    arguments: Mapping[str, str],
    *,
    principal: Principal,
    client: Client,
    session: str = "",
) -> AuditEvent:
    """Build the record of a metadata call. It is always cleared: its answer holds only what the principal
    may know of."""
    text = f"{call}({', '.join(f'{name}={value}' for name, value in arguments.items())})"
    body = {
        "result": 1,
        "policy": NO_POLICY.id,
        "policy_version": NO_POLICY.version,
        "action": "metadata",
        "repo": REPOSITORY,
        "enforcer": ENFORCER,
        "sess": session,
        **of_principal(principal),
        **of_client(client),
        "reqData": text,
        "reqData_sha256": digest(text),
        "verdict": "cleared",
        "plan_class": call,
    }
    return _event(stamp, "decided", principal, body)


def call_decided(
    stamp: Stamp,
    call: str,
    names: Sequence[str],
    *,
    principal: Principal,
    client: Client,
    session: str,
    decisions: Sequence[Decision],
    refusal: CallRefusal | None,
) -> AuditEvent:
    """Build the record of a call without a statement that changes a session: `AddArtifacts` with the names
    of its files, `Config.set` with keys."""
    text = f"{call}({', '.join(names)})"
    body: dict[str, Any] = {
        **build_decision_fields(decisions, refused=refusal is not None),
        "repo": REPOSITORY,
        "enforcer": ENFORCER,
        "sess": session,
        **of_principal(principal),
        **of_client(client),
        "reqData": text[:REFUSED_CHARS],
        "reqData_sha256": digest(text),
        "verdict": "cleared" if refusal is None else "refused",
        "plan_class": call,
        "decisions": of_decisions(decisions, principal.user),
        "resources": sorted({str(decision.request.resource) for decision in decisions}),
        "policies": sorted({d.policy.name for d in decisions} - {""}),
    }
    if refusal is not None:
        body |= {"code": refusal.code, "sqlstate": refusal.sqlstate, "message": refusal.message}
    return _event(stamp, "decided", principal, body)


def build_reattached(
    stamp: Stamp,
    principal: Principal,
    client: Client,
    *,
    session: str,
    operation: str,
    rows: int,
    relayed_bytes: int,
    complete: bool,
) -> AuditEvent:
    """Build the record of an execution that was taken up again after its gateway had ended."""
    body = {
        **of_principal(principal),
        **of_client(client),
        "sess": session,
        "action": "reattach",
        "operation": operation,
        "rows": rows,
        "bytes": relayed_bytes,
        "complete": complete,
    }
    return _event(stamp, "reattached", principal, body)


def build_promoted(
    stamp: Stamp,
    principal: Principal,
    *,
    table: str,
    url: str,
    decisions: Sequence[Decision],
) -> AuditEvent:
    """Build the record of files that are about to become a table at somebody's word."""
    body = {
        **of_principal(principal),
        "action": "promote",
        "verdict": "cleared",
        "result": 1,
        "resources": [table, url],
        "policies": sorted({one.policy.name for one in decisions}),
    }
    return _event(stamp, "promoted", principal, body)


def security(
    stamp: Stamp,
    principal: Principal,
    *,
    action: str,
    reason: str,
    client: Client | None = None,
    session: str = "",
    limit: str = "",
) -> AuditEvent:
    """Build the record of something that an honest client does not do, such as using another's handle.

    `limit` is the name of what refuses it."""
    body = {
        **of_principal(principal),
        **(of_client(client) if client is not None else {}),
        "sess": session,
        "action": action,
        "result": 0,
        "verdict": "rejected",
        "reason": reason,
    }
    if limit:
        body["limit"] = limit
    return _event(stamp, "security", principal, body)


def session_ended(
    stamp: Stamp, principal: Principal, *, client: Client, session: str, reason: str, by: str
) -> AuditEvent:
    """Build the record of a session that not its client ended; `by` is empty for the gateway."""
    body = {
        **of_principal(principal),
        **of_client(client),
        "sess": session,
        "action": "end_session",
        "reason": reason,
    }
    return _event(stamp, "session_ended", principal, body | ({"by": by} if by else {}))


def build_console_use(
    stamp: Stamp,
    principal: Principal,
    client: Client,
    *,
    action: str,
    asked: Mapping[str, Any],
    changes: bool,
    allowed: bool,
) -> AuditEvent:
    """Build the record of somebody who looks at something in the console, or changes it; `asked`: by which
    parameters."""
    body = {
        **of_principal(principal),
        **of_client(client),
        "sess": "",
        "action": action,
        "asked": {name: _short(value) for name, value in asked.items()},
        "result": int(allowed),
        "verdict": "accepted" if allowed else "rejected",
    }
    return _event(stamp, "changed" if changes else "viewed", principal, body)


def _short(value: Any) -> Any:
    """Return a parameter as the record keeps it."""
    if isinstance(value, list | tuple):
        return [_short(one) for one in value[:ASKED_VALUES]]
    return value if isinstance(value, int | None) else str(value)[:ERROR_CHARS]


def _event(
    stamp: Stamp, kind: AuditKind, who: Principal | str, body: Mapping[str, Any], *, statement_id: str = ""
) -> AuditEvent:
    """Build an event; a decision is its statement's, whose id it has."""
    return AuditEvent(
        event_id=stamp.event_id,
        kind=kind,
        time=stamp.time,
        statement_id=stamp.event_id if kind == "decided" else statement_id,
        gateway=stamp.gateway,
        user=who if isinstance(who, str) else who.user,
        body={**body, "backend": stamp.backend} if stamp.backend else body,
    )
