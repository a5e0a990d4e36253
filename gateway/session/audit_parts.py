"""Pieces of audit events: who asked, from where, and what each decision was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gateway.model.decision import NO_POLICY, Decision, Obligation, PolicyRef, RowFilter
from gateway.model.principal import Principal
from gateway.model.statement import Cleared, Client, Refused, ScanRecord, Verdict


def of_principal(principal: Principal) -> dict[str, Any]:
    return {
        "reqUser": principal.user,
        "groups": sorted(principal.groups),
        "roles": sorted(principal.roles),
    }


def of_client(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = {
        "cliIP": client.address,
        "cliType": client.protocol,
        "application": client.application,
    }
    if client.real_user:
        found["realUser"] = client.real_user
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
        "expression": obligation.expression,
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
