"""What delegated administrators may do to the masks and row filters of others.

The first mask or filter that matches counts: one that is changed, deleted, or preceded by another on the
same columns hides nothing any more. Whoever administers some resources only does none of that to what
somebody else wrote, unless that policy delegates itself, by an item with `delegateAdmin`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gateway.admin.ranger.definitions import MASK, ROW_FILTER, ServiceType
from gateway.admin.ranger.kinds import Body
from gateway.admin.ranger.matching import overlap
from gateway.model.principal import Principal

OBLIGATIONS: Mapping[int, str] = {MASK: "dataMaskPolicyItems", ROW_FILTER: "rowFilterPolicyItems"}
"""Policy type → where its items are."""
_HARMLESS = frozenset({"description", "policyLabels", "version", "updatedBy", "updateTime"})
"""What of a policy anybody may change who administers its resources."""


def taken_from_others(
    principal: Principal,
    definition: ServiceType,
    policies: Iterable[Body],
    *,
    stored: Mapping[str, Any] | None,
    policy: Mapping[str, Any] | None,
) -> list[str]:
    """Return the names of those masks or filters of others that a change would change, delete or precede.

    `policies`: those of the type, the service and the zone; `stored`: what is to be changed or deleted;
    `policy`: what is to be stored, if anything.
    """
    found: list[str] = []
    if stored is not None and not _is_own(principal, stored) and (policy is None or _differ(stored, policy)):
        found.append(str(stored.get("name")))
    if policy is None or (stored is not None and not _differ(stored, policy)):
        return found
    mine = list(_resources(policy))
    for other in policies:
        if (stored is None or other["id"] != stored["id"]) and not _is_own(principal, other):
            theirs = _resources(other)
            if any(_meet(one, another, definition, policy) for another in theirs for one in mine):
                found.append(str(other.get("name")))
    return found


def _is_own(principal: Principal, policy: Mapping[str, Any]) -> bool:
    """Whether the principal alone wrote the policy, or it delegates itself to him."""
    if {policy.get("createdBy"), policy.get("updatedBy")} == {principal.user}:
        return True
    return any(
        item.get("delegateAdmin")
        and (
            principal.user in (item.get("users") or ())
            or not principal.groups.isdisjoint(item.get("groups") or ())
            or not principal.roles.isdisjoint(item.get("roles") or ())
        )
        for item in policy.get(OBLIGATIONS[int(policy["policyType"])]) or ()
    )


def _differ(stored: Mapping[str, Any], policy: Mapping[str, Any]) -> bool:
    return any(stored.get(key) != policy.get(key) for key in {*stored, *policy} - _HARMLESS)


def _resources(policy: Mapping[str, Any]) -> Iterator[dict[str, list[str]]]:
    """Yield the policy's resources as level → patterns; what is not known before somebody asks is `*`."""
    for resources in (policy.get("resources") or {}, *(policy.get("additionalResources") or ())):
        yield {name: list(_patterns(values or {})) for name, values in resources.items()}


def _patterns(values: Mapping[str, Any]) -> Iterator[str]:
    if values.get("isExcludes"):
        yield "*"
        return
    for value in map(str, values.get("values") or ()):
        if "{" in value:
            yield "*"  # `{USER}` or an expression
        else:
            yield value + "*" if values.get("isRecursive") else value


def _meet(
    one: Mapping[str, list[str]],
    other: Mapping[str, list[str]],
    definition: ServiceType,
    policy: Mapping[str, Any],
) -> bool:
    return overlap(one, other, definition, int(policy["policyType"]))
