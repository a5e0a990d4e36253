"""What makes a role valid.

A role that would contain itself is refused, though Ranger's engine bears one. One without members is valid:
taking the last member away must not fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gateway.admin.ranger.shapes import KINDS
from gateway.admin.ranger.validation import MISSING, Failure

CYCLE, UNKNOWN_MEMBER = 9020, 9021


def role_failures(
    role: Mapping[str, Any],
    *,
    others: Iterable[Mapping[str, Any]],
    stored: Mapping[str, Any] | None = None,
    updating: bool = False,
) -> list[Failure]:
    """Return everything that is wrong with a role. `others` are all roles but the one that is updated."""
    return list(_failures(role, {str(o.get("name")): o for o in others}, stored, updating))


def _failures(
    role: Mapping[str, Any],
    others: Mapping[str, Mapping[str, Any]],
    stored: Mapping[str, Any] | None,
    updating: bool,
) -> Iterator[Failure]:
    name = role.get("name")
    if updating and stored is None:
        yield Failure(4006, f"there is no role with id {role.get('id')}", "id")
    if not name or not name.strip():
        yield Failure(4003, "a role needs a name", "name", type=MISSING)
    elif name in others:
        yield Failure(4005, f"there is a role `{name}`", "name")
    for kind in KINDS:
        names = [member.get("name") for member in role[kind]]
        if any(not member or not member.strip() for member in names):
            yield Failure(4002, f"`{kind}` hold a member without name", kind, "name", MISSING)
        twice = [member for member, count in Counter(names).items() if count > 1 and member]
        if twice:
            yield Failure(3056, f"`{kind}` hold `{twice[0]}` twice", kind)
    for member in role["roles"]:
        inner = member.get("name")
        if inner and inner != name and inner not in others:
            yield Failure(4007, f"there is no role `{inner}`", "roles", inner)
    if name:
        way = cycle(name, role, others)
        if way:
            yield Failure(CYCLE, f"the role would contain itself: {' → '.join(way)}", "roles")


def cycle(
    name: str, role: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]
) -> tuple[str, ...] | None:
    """Return a way from the role to itself through the roles that it contains, or None."""
    stack: list[tuple[Mapping[str, Any], tuple[str, ...]]] = [(role, (name,))]
    seen: set[str] = set()
    while stack:
        at, way = stack.pop()
        for member in at.get("roles") or []:
            inner = str(member.get("name") or "")
            if inner == name:
                return (*way, name)
            if inner in others and inner not in seen:
                seen.add(inner)
                stack.append((others[inner], (*way, inner)))
    return None
