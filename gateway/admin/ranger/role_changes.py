"""Members that are added to roles and taken from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.admin.ranger.json_fields import Object
from gateway.admin.ranger.shapes import KINDS


def with_members(
    role: Mapping[str, Any], members: Mapping[str, Iterable[str]], *, admin: bool = False
) -> Object:
    """Return the role with members added; who is an administrator of it already stays one."""
    changed: Object = dict(role)
    for kind in KINDS:
        known = {m["name"]: dict(m) for m in role.get(kind) or []}
        for name in members.get(kind) or ():
            entry = known.setdefault(name, {"name": name, "isAdmin": False})
            entry["isAdmin"] = bool(entry.get("isAdmin")) or admin
        changed[kind] = list(known.values())
    return changed


def without_members(role: Mapping[str, Any], members: Mapping[str, Iterable[str]]) -> Object:
    changed: Object = dict(role)
    for kind in KINDS:
        gone = set(members.get(kind) or ())
        changed[kind] = [m for m in role.get(kind) or [] if m["name"] not in gone]
    return changed


def without_admin(role: Mapping[str, Any], members: Mapping[str, Iterable[str]]) -> Object:
    """Return the role with these members left in it, but not as its administrators."""
    changed: Object = dict(role)
    for kind in KINDS:
        named = set(members.get(kind) or ())
        changed[kind] = [
            {**m, "isAdmin": bool(m.get("isAdmin")) and m["name"] not in named} for m in role.get(kind) or []
        ]
    return changed


def roles_of(
    roles: Iterable[Mapping[str, Any]], user: str, groups: Iterable[str] = (), *, admin: bool = False
) -> set[str]:
    """Return the names of all roles that a user has, by itself, by a group, or through another role.

    With `admin` only memberships as an administrator count; those do not pass through roles.
    """
    everyone, known = {*groups, "public"}, list(roles)

    def lists(role: Mapping[str, Any]) -> bool:
        return any(
            (m["name"] == user if kind == "users" else m["name"] in everyone)
            and (not admin or m.get("isAdmin"))
            for kind in ("users", "groups")
            for m in role.get(kind) or []
        )

    found = {str(role["name"]) for role in known if lists(role)}
    while True:
        more = {
            str(role["name"])
            for role in known
            if role["name"] not in found
            and any(m["name"] in found and (not admin or m.get("isAdmin")) for m in role.get("roles") or [])
        }
        if not more:
            return found
        found |= more
