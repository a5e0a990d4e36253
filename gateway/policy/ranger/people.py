"""Roles and user stores of Ranger's JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.model.policy import Role, UserStore
from gateway.policy.diagnostics import Path
from gateway.policy.json_shapes import Reader

_MEMBERS = ("users", "groups", "roles")


def read_roles(data: object, reader: Reader, path: Path) -> tuple[Role, ...]:
    """Return the roles of a RangerRoles, of an export, or of a list of roles.

    Roles of one name are one role with the members of all. Cycles are harmless, and told.
    """
    if isinstance(data, Mapping):
        key = next((key for key in ("rangerRoles", "roles") if data.get(key) is not None), "rangerRoles")
        entries = reader.entries(data, key, path)
        if data and key not in data and not data.keys() & {"roleVersion", "serviceName"}:
            reader.fault(path, "a list of roles is expected here, or an object with `rangerRoles`")
    else:
        step = str(path[-1]) if path else "roles"
        entries = reader.entries({step: data}, step, path[:-1])
    found: dict[str, Role] = {}
    for entry, where in entries:
        name = reader.required(entry, "name", where)
        if not reader.flag(entry, "isEnabled", where, default=True):
            continue
        members = {kind: frozenset(_members(entry, kind, reader, where)) for kind in _MEMBERS}
        if name in found:
            reader.warn(where, f"role `{name}` stands here a second time; it has the members of both")
        _add(found, name, members)
    _warn_of_nesting(found, reader, path)
    return tuple(found.values())


def read_role_maps(data: Mapping[str, Any], reader: Reader, path: Path) -> tuple[Role, ...]:
    """Return the roles of `userRoles`, `groupRoles` and `roleRoles`: member → the roles that list it."""
    found: dict[str, Role] = {}
    for kind in _MEMBERS:
        key = f"{kind[:-1]}Roles"
        mapping = reader.field(data, key, path)
        for member in mapping:
            for role in reader.texts(mapping, member, (*path, key)):
                _add(found, role, {kind: frozenset({member})})
    return tuple(found.values())


def merged(roles: Iterable[Role]) -> tuple[Role, ...]:
    """Return one role for each name, with the members of all roles of that name."""
    found: dict[str, Role] = {}
    for role in roles:
        _add(found, role.name, {kind: getattr(role, kind) for kind in _MEMBERS})
    return tuple(found.values())


def _add(found: dict[str, Role], name: str, members: Mapping[str, frozenset[str]]) -> None:
    old = found.get(name) or Role(name=name)
    found[name] = Role(
        name=name,
        users=old.users | members.get("users", frozenset()),
        groups=old.groups | members.get("groups", frozenset()),
        roles=old.roles | members.get("roles", frozenset()),
    )


def _members(entry: Mapping[str, Any], kind: str, reader: Reader, path: Path) -> list[str]:
    """Return names; a member is `{name, isAdmin}`, or the name alone."""
    names = []
    for i, member in enumerate(reader.listed(entry, kind, path)):
        where = (*path, kind, i)
        if isinstance(member, str):
            names.append(member)
        else:
            names.append(reader.required(reader.mapping(member, where), "name", where))
    return [name for name in names if name.strip()]


def _warn_of_nesting(roles: Mapping[str, Role], reader: Reader, path: Path) -> None:
    finished: set[str] = set()
    for start in roles:
        way: list[str] = []
        waiting = [(start, 0)]
        while waiting:
            name, depth = waiting.pop()
            del way[depth:]
            if name in way:
                reader.warn(
                    path, f"roles contain each other: `{'` → `'.join([*way[way.index(name) :], name])}`"
                )
                continue
            if name in finished:
                continue
            if name not in roles:
                reader.warn(path, f"role `{way[-1]}` contains `{name}`, which is no role here")
                continue
            way.append(name)
            finished.add(name)
            waiting += [(inner, depth + 1) for inner in sorted(roles[name].roles, reverse=True)]


def read_user_store(data: object, reader: Reader, path: Path, *, adds_groups: bool) -> UserStore:
    """Return attributes and memberships of a RangerUserStore."""
    store = reader.mapping(data, path)
    memberships = reader.field(store, "userGroupMapping", path)
    where = (*path, "userGroupMapping")
    return UserStore(
        users=_attributes(store, "userAttrMapping", reader, path),
        groups=_attributes(store, "groupAttrMapping", reader, path),
        memberships={user: reader.names(memberships, user, where) for user in memberships},
        adds_groups=adds_groups,
    )


def _attributes(data: Mapping[str, Any], key: str, reader: Reader, path: Path) -> dict[str, dict[str, str]]:
    mapping = reader.field(data, key, path)
    return {name: reader.scalars(mapping, name, (*path, key)) for name in mapping}
