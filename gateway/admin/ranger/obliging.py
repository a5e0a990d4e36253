"""What delegated administrators may do to the denials, masks and row filters of others.

A denial that somebody else wrote they do not take back: it counts before all that they may allow.

The first mask or filter that matches counts: one that is changed, deleted, or preceded by another on the
same columns hides nothing any more. Whoever administers some resources only does none of that to what
somebody else wrote, unless that policy delegates itself, by an item with `delegateAdmin`.

Policies on tags come before those on resources, and one column may have any two tags: a mask on a tag is in
the way of all masks on tags, and on resources of the services that take their tags from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gateway.admin.ranger.definitions import MASK, ROW_FILTER, ServiceType
from gateway.admin.ranger.kinds import Body
from gateway.admin.ranger.matching import overlap
from gateway.model.policy import ResourceDef
from gateway.model.principal import Principal
from gateway.policy.authors import authors_in, without_people, writers_of
from gateway.policy.matching import is_dynamic
from gateway.policy.subjects import PUBLIC

OBLIGATIONS: Mapping[int, str] = {MASK: "dataMaskPolicyItems", ROW_FILTER: "rowFilterPolicyItems"}
"""Policy type → where its items are."""
_HARMLESS = frozenset({"description", "policyLabels"})
"""Fields of a policy that an administrator of its resources may change."""
_ALLOWING = ("policyItems", "allowExceptions")
"""Fields of a policy that deny nothing."""
_ABOUT = ("service", "zoneName", "resources", "additionalResources", "isEnabled", "policyPriority")
"""Fields of a policy that say on what resources its items hold, and before which others."""
_WHEN = ("validitySchedules", "conditions")
"""Fields of a policy that say when its items hold."""
_KEPT_BY_US = frozenset({"id", "guid", "version", "createdBy", "createTime", "updatedBy", "updateTime"})
"""Fields of a policy that the store sets, whatever a request body says."""


def author_of(stored: Mapping[str, Any], policy: Mapping[str, Any]) -> str | None:
    """Return who has written a mask or a filter of which words alone change, as `Principal.identity`; None:
    whoever changes it.

    By a word of the description it would be one's own that an administrator has changed since.
    """
    if int(policy.get("policyType") or 0) not in OBLIGATIONS or differ(stored, policy):
        return None
    if authors_in(stored) != authors_in(policy):
        return None
    return writers_of(stored)[-1]


def list_others_affected(
    principal: Principal,
    definition: ServiceType,
    policies: Iterable[Body],
    *,
    stored: Mapping[str, Any] | None,
    policy: Mapping[str, Any] | None,
    on_tags: bool = False,
) -> list[str]:
    """Return the names of those masks or filters of others that a change would change, delete or precede.

    `policies`: those of the type, the service and the zone; `on_tags`: they are of a service for tags, and
    those of the services that use it are among them; `stored`: what is to be changed or deleted; `policy`:
    what is to be stored, if anything. The principal has all his roles.
    """
    found: list[str] = []
    if stored is not None and not _is_own(principal, stored) and (policy is None or differ(stored, policy)):
        found.append(str(stored.get("name")))
    if policy is None or (stored is not None and not differ(stored, policy)):
        return found
    type_ = int(policy["policyType"])
    mine = list(_resources(policy, definition, type_))
    for other in policies:
        if (stored is not None and other["id"] == stored["id"]) or _is_own(principal, other):
            continue
        if _for_others(policy, other, OBLIGATIONS[type_]):
            continue
        if on_tags or any(
            overlap(one, another, definition, type_)
            for another in _resources(other, definition, type_)
            for one in mine
        ):
            found.append(str(other.get("name")))
    return found


def takes_back_denial(
    principal: Principal, *, stored: Mapping[str, Any], policy: Mapping[str, Any] | None
) -> bool:
    """Whether a change (`policy` None: a deletion) may take back what somebody else's policy denies.

    What it allows may change, unless it denies all else.
    """
    is_total = bool(stored.get("isDenyAllElse"))
    if not (is_total or stored.get("denyPolicyItems")) or _wrote(principal, stored):
        return False
    # RULE (denial-of-others)
    return policy is None or differ(stored, policy, but=() if is_total else _ALLOWING)


def holds_alike(stored: Mapping[str, Any], policy: Mapping[str, Any], *, delegated: bool) -> bool:
    """Whether a policy is for the same resources as the stored one; if somebody changes it who is no
    administrator of everything, at the same times, too: he puts its texts in force."""
    fields = (*_ABOUT, *_WHEN) if delegated else _ABOUT  # RULE (texts-in-force-anew)
    return all(policy.get(key) == stored.get(key) for key in fields)


def _wrote(principal: Principal, policy: Mapping[str, Any]) -> bool:
    """Whether the principal alone wrote the policy."""
    # INVARIANT (a name is nobody): who was removed and added again did not write what the first one did.
    return set(writers_of(policy)) == {principal.identity}  # RULE (policy-of-user)


def _is_own(principal: Principal, policy: Mapping[str, Any]) -> bool:
    """Whether the principal alone wrote the policy, or it delegates itself to him."""
    if _wrote(principal, policy):
        return True
    return any(
        item.get("delegateAdmin")
        and (
            principal.user in (item.get("users") or ())
            or not {*principal.groups, PUBLIC}.isdisjoint(item.get("groups") or ())
            or not principal.roles.isdisjoint(item.get("roles") or ())
        )
        for item in policy.get(OBLIGATIONS[int(policy["policyType"])]) or ()
    )


def differ(
    stored: Mapping[str, Any],
    policy: Mapping[str, Any],
    *,
    harmless: bool = True,
    but: Iterable[str] = (),
) -> bool:
    """Say whether a policy does anything that the stored one does not, or the other way round, other than by
    the fields `but`; if not `harmless`, also whether its words are others."""
    # Whose the texts are is no word of the body either.
    before, after = without_people(stored), without_people(policy)
    same = _KEPT_BY_US.union(_HARMLESS if harmless else (), but)
    return any(before.get(key) != after.get(key) for key in {*before, *after} - same)


def _for_others(policy: Mapping[str, Any], other: Mapping[str, Any], items: str) -> bool:
    """Whether no two items are for the same user, as far as names tell: a policy that has nothing for
    somebody does not come before anything for him."""
    mine, theirs = _users(policy, items), _users(other, items)
    return mine is not None and theirs is not None and mine.isdisjoint(theirs)


def _users(policy: Mapping[str, Any], items: str) -> frozenset[str] | None:
    """Return the users that the items are for; None when others are, too."""
    listed = policy.get(items) or ()
    names = frozenset(str(name).casefold() for item in listed for name in item.get("users") or ())
    others = any(item.get("groups") or item.get("roles") for item in listed)
    return None if others or any("{" in name for name in names) else names


def _resources(
    policy: Mapping[str, Any], definition: ServiceType, type_: int
) -> Iterator[dict[str, list[str]]]:
    """Yield the policy's resources as level → patterns; what is not known before somebody asks is `*`."""
    levels = definition.levels(type_)
    for resources in (policy.get("resources") or {}, *(policy.get("additionalResources") or ())):
        yield {name: list(_patterns(values or {}, levels.get(name))) for name, values in resources.items()}


def _patterns(values: Mapping[str, Any], level: ResourceDef | None) -> Iterator[str]:
    if values.get("isExcludes"):
        yield "*"
        return
    for value in map(str, values.get("values") or ()):
        if level is None or is_dynamic(value, level):
            yield "*"
        else:
            yield value + "*" if values.get("isRecursive") else value
