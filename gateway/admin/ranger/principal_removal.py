"""What a user or group that is deleted leaves behind in policies, roles and zones: nothing.

A name that lives on would be given again one day, with all that it was allowed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gateway.admin.ranger.kinds import Body, ChangedObject, ObjectKind, What
from gateway.admin.ranger.policy_changes import note
from gateway.admin.ranger.role_changes import without_members
from gateway.admin.ranger.shapes import ALL_ITEM_LISTS
from gateway.admin.ranger.transactions import ReadTransaction, WriteTransaction

_ZONE_LISTS: Mapping[str, Sequence[str]] = {
    "users": ("adminUsers", "auditUsers"),
    "groups": ("adminUserGroups", "auditUserGroups"),
}


async def used_by(reading: ReadTransaction, kind: str, name: str) -> str | None:
    """Return, in words, something that names one of the `users` or `groups`; None when nothing does."""
    for role in await reading.all(ObjectKind.ROLE):
        if _in_role(role, kind, name):
            return f"role `{role['name']}`"
    for zone in await reading.all(ObjectKind.ZONE):
        if any(name in (zone.get(key) or ()) for key in _ZONE_LISTS[kind]):
            return f"zone `{zone['name']}`"
    found = await asyncio.to_thread(_naming, await reading.all(ObjectKind.POLICY), kind, name)
    return f"policy `{found[0]['name']}` of service `{found[0]['service']}`" if found else None


async def forget(writing: WriteTransaction, kind: str, name: str) -> None:
    """Take the name out of every role, zone and policy. An item that is left with nobody goes."""
    for role in await writing.all(ObjectKind.ROLE):
        if _in_role(role, kind, name):
            await writing.update(
                ObjectKind.ROLE, role, without_members(role, {kind: [name]}), check_version=False
            )
            await writing.bump_all(What.ROLE)
    for zone in await writing.all(ObjectKind.ZONE):
        if any(name in (zone.get(key) or ()) for key in _ZONE_LISTS[kind]):
            left = {key: [one for one in zone.get(key) or () if one != name] for key in _ZONE_LISTS[kind]}
            await writing.update(ObjectKind.ZONE, zone, {**zone, **left}, check_version=False)
    services = {one["name"]: one for one in await writing.all(ObjectKind.SERVICE)}
    for policy in await asyncio.to_thread(_naming, await writing.all(ObjectKind.POLICY), kind, name):
        changed = await writing.update(
            ObjectKind.POLICY,
            policy,
            _without(policy, kind, name),
            signature=policy.get("resourceSignature") if policy.get("isEnabled", True) else None,
            check_version=False,
        )
        await note(writing, services[policy["service"]], changed, ChangedObject.UPDATED)


def _in_role(role: Mapping[str, Any], kind: str, name: str) -> bool:
    return any(member["name"] == name for member in role.get(kind) or ())


def _naming(policies: Iterable[Body], kind: str, name: str) -> list[Body]:
    return [
        policy
        for policy in policies
        if any(name in (item.get(kind) or ()) for key in ALL_ITEM_LISTS for item in policy.get(key) or ())
    ]


def _without(policy: Body, kind: str, name: str) -> Body:
    lists = {}
    for key in ALL_ITEM_LISTS:
        items = [
            {**item, kind: [one for one in item.get(kind) or () if one != name]}
            for item in policy.get(key) or ()
        ]
        lists[key] = [item for item in items if item.get("users") or item.get("groups") or item.get("roles")]
    return {**policy, **{key: items for key, items in lists.items() if items or key in policy}}
