"""How policies for the same resources become one: apply, import with merge, grant and revoke.

Ranger's rules. Per principal an allowed access leaves the deny items and becomes a deny exception where the
principal was denied, and the other way round; exceptions only take away. Nothing else of a stored policy
changes: name, priority, masks and filters stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.admin.ranger.json_fields import Object
from gateway.admin.ranger.shapes import ITEM_LISTS, KINDS

ALLOW, DENY, ALLOW_EXCEPTIONS, DENY_EXCEPTIONS = ITEM_LISTS
_OPPOSITE = {
    ALLOW: (DENY, DENY_EXCEPTIONS, ALLOW_EXCEPTIONS),
    DENY: (ALLOW, ALLOW_EXCEPTIONS, DENY_EXCEPTIONS),
}
"""List that is merged into → the one that loses the accesses, its exceptions, the list's own exceptions."""
_UNDERLYING = {ALLOW_EXCEPTIONS: ALLOW, DENY_EXCEPTIONS: DENY}

_Principal = tuple[str, str]
"""Kind (`users`, `groups`, `roles`) and name."""


class NotMergeable(Exception):
    """The two policies mean things that cannot become one."""


@dataclass(slots=True)
class _Entry:
    """The access types and flags of one principal in one list of items."""

    accesses: dict[str, None] = field(default_factory=dict)
    delegate: bool = False

    def add(self, item: Mapping[str, Any]) -> None:
        self.accesses.update(dict.fromkeys(_accesses(item)))
        self.delegate = self.delegate or bool(item.get("delegateAdmin"))

    def remove(self, accesses: Iterable[str]) -> None:
        for access in accesses:
            self.accesses.pop(access, None)


def _accesses(item: Mapping[str, Any]) -> list[str]:
    return [
        str(access["type"]).lower()
        for access in item.get("accesses") or []
        if access.get("type") and access.get("isAllowed", True)
    ]


def _principals(item: Mapping[str, Any]) -> list[_Principal]:
    return [(kind, name) for kind in KINDS for name in item.get(kind) or []]


def has_conditions(policy: Mapping[str, Any]) -> bool:
    """Say whether something of the policy holds under conditions only."""
    return bool(policy.get("conditions")) or any(
        item.get("conditions") for name in ITEM_LISTS for item in policy.get(name) or []
    )


def merge(stored: Mapping[str, Any], applied: Mapping[str, Any]) -> Object:
    """Return the stored policy with the access items of the applied one merged in. Raises NotMergeable."""
    if applied.get("isDenyAllElse") and not stored.get("isDenyAllElse"):
        raise NotMergeable("a policy that denies all else cannot be merged into one that does not")
    if has_conditions(stored) or has_conditions(applied):
        return {**stored, **{name: _append(stored, applied, name) for name in ITEM_LISTS}}
    table = _split(stored)
    for name in ITEM_LISTS:
        for item in applied.get(name) or []:
            for principal in _principals(item):
                _apply(table, name, principal, item)
    return {**stored, **{name: _join_items(table[name]) for name in ITEM_LISTS}}


def _append(stored: Mapping[str, Any], applied: Mapping[str, Any], name: str) -> list[Any]:
    found = list(stored.get(name) or [])
    known = [_canonical(item) for item in found]
    for item in applied.get(name) or []:
        if _canonical(item) not in known:
            found.append(item)
            known.append(_canonical(item))
    return found


def _canonical(item: Mapping[str, Any]) -> object:
    conditions = sorted((c.get("type") or "", c.get("values") or []) for c in item.get("conditions") or [])
    return (sorted(_accesses(item)), sorted(_principals(item)), bool(item.get("delegateAdmin")), conditions)


_Table = dict[str, dict[_Principal, _Entry]]


def _split(policy: Mapping[str, Any]) -> _Table:
    """Return list → principal → what it has there."""
    table: _Table = {name: {} for name in ITEM_LISTS}
    for name in ITEM_LISTS:
        for item in policy.get(name) or []:
            for principal in _principals(item):
                table[name].setdefault(principal, _Entry()).add(item)
    return table


def _apply(table: _Table, name: str, principal: _Principal, item: Mapping[str, Any]) -> None:
    table[name].setdefault(principal, _Entry()).add(item)
    accesses = _accesses(item)
    if name in _OPPOSITE:
        opposite, exceptions, own_exceptions = _OPPOSITE[name]
        if principal in table[opposite]:
            table[opposite][principal].remove(accesses)
            table[exceptions].setdefault(principal, _Entry()).add({**item, "delegateAdmin": False})
        losing = own_exceptions
    else:
        losing = _UNDERLYING[name]
    if principal in table[losing]:
        table[losing][principal].remove(accesses)


def _join_items(entries: Mapping[_Principal, _Entry]) -> list[Object]:
    """Return items: principals that have the same share one."""
    groups: dict[tuple[frozenset[str], bool], Object] = {}
    for (kind, name), entry in entries.items():
        if not entry.accesses and not entry.delegate:
            continue
        key = (frozenset(entry.accesses), entry.delegate)
        item = groups.setdefault(
            key,
            {
                "accesses": [{"type": access, "isAllowed": True} for access in entry.accesses],
                "users": [],
                "groups": [],
                "roles": [],
                "conditions": [],
                "delegateAdmin": entry.delegate,
            },
        )
        item[kind].append(name)
    return list(groups.values())


def replace_policy(stored: Mapping[str, Any], applied: Mapping[str, Any]) -> Object:
    """Return the applied policy in the stored one's place: what it is stays, what it says goes."""
    return {
        **applied,
        **{key: stored.get(key) for key in ("id", "guid", "version", "createdBy", "createTime", "service")},
    }


def grant(stored: Mapping[str, Any], request: Mapping[str, Any]) -> Object:
    """Return the policy after a GrantRevokeRequest that grants."""
    policy: Mapping[str, Any] = stored
    if request.get("replaceExistingPermissions"):
        policy = _without(stored, request)
    return merge(policy, {ALLOW: [_build_granted_items(request)]})


def build_grant_policy(
    request: Mapping[str, Any], *, service: str, service_type: str, resources: Mapping[str, Any], now_ms: int
) -> Object:
    """Return a new policy for a grant on resources that no policy is about."""
    return {
        "service": service,
        "serviceType": service_type,
        "name": f"grant-{now_ms}",
        "description": "created by grant",
        "policyType": 0,
        "isAuditEnabled": bool(request.get("enableAudit", True)),
        "resources": dict(resources),
        "zoneName": request.get("zoneName") or "",
        ALLOW: [_build_granted_items(request)],
    }


def build_granted_resources(request: Mapping[str, Any], recursive: Iterable[str]) -> Object:
    """Return the policy resources of a request; `recursive` names the levels that support it."""
    able = frozenset(recursive)
    return {
        name: {
            "values": [part.strip() for part in str(text).split(",") if part.strip()],
            "isExcludes": False,
            "isRecursive": bool(request.get("isRecursive")) and name in able,
        }
        for name, text in (request.get("resource") or {}).items()
        if text
    }


def _build_granted_items(request: Mapping[str, Any]) -> Object:
    return {
        **{kind: list(dict.fromkeys(request.get(kind) or [])) for kind in KINDS},
        "accesses": [
            {"type": str(access).lower(), "isAllowed": True}
            for access in dict.fromkeys(request.get("accessTypes") or [])
        ],
        "conditions": [],
        "delegateAdmin": bool(request.get("delegateAdmin")),
    }


def revoke(stored: Mapping[str, Any], request: Mapping[str, Any]) -> Object:
    """Return the policy after a GrantRevokeRequest that revokes; it never adds a denial, nor takes one away.

    The principal's delegated administration on these resources goes with any access, as in Ranger.
    """
    if request.get("replaceExistingPermissions"):
        return _without(stored, request)
    return _without(stored, request, frozenset(str(a).lower() for a in request.get("accessTypes") or []))


def _without(
    stored: Mapping[str, Any], request: Mapping[str, Any], accesses: frozenset[str] | None = None
) -> Object:
    """Return the policy with what the request's principals may do taken away: some accesses, or all."""
    gone = set(_principals(request))
    return {
        **stored,
        **{
            name: [kept for item in stored.get(name) or [] for kept in _divide_item(item, gone, accesses)]
            for name in (ALLOW, DENY_EXCEPTIONS)
        },
    }


def _divide_item(
    item: Mapping[str, Any], gone: set[_Principal], accesses: frozenset[str] | None
) -> Sequence[Object]:
    """Return the item for the others, and what is left of it for those that lose something."""
    losing = [principal for principal in _principals(item) if principal in gone]
    touched = accesses is None or bool(item.get("delegateAdmin")) or accesses & set(_accesses(item))
    if not losing or not touched:
        return [dict(item)]
    others = {kind: [n for n in item.get(kind) or [] if (kind, n) not in gone] for kind in KINDS}
    found: list[Object] = []
    if any(others.values()):
        found.append({**item, **others})
    left = [a for a in item.get("accesses") or [] if str(a.get("type")).lower() not in (accesses or ())]
    if accesses is not None and left:
        theirs = {kind: [n for k, n in losing if k == kind] for kind in KINDS}
        found.append({**item, **theirs, "accesses": left, "delegateAdmin": False})
    return found
