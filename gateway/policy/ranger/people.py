"""Roles and user stores of Ranger's JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from gateway.model.policy import Role, UserStore
from gateway.policy.diagnostics import Path
from gateway.policy.json_shapes import Reader

_MEMBERS = ("users", "groups", "roles")
T = TypeVar("T")
InvalidParts = dict[str, tuple[str, ...]]
"""Name → faults."""


def read_roles(data: object, reader: Reader, path: Path, *, tolerant: bool = False) -> tuple[Role, ...]:
    """Return the roles of a RangerRoles, of an export, or of a list of roles.

    Roles of one name are one role with the members of all. Cycles are harmless, and told. With `tolerant` a
    role at fault is `broken`, and one whose name cannot be read has none.
    """
    already = len(reader.findings.faults)
    if isinstance(data, Mapping):
        key = next((key for key in ("rangerRoles", "roles") if data.get(key) is not None), "rangerRoles")
        entries = reader.entries(data, key, path)
        if data and key not in data and not data.keys() & {"roleVersion", "serviceName"}:
            reader.fault(path, "a list of roles is expected here, or an object with `rangerRoles`")
    else:
        step = str(path[-1]) if path else "roles"
        entries = reader.entries({step: data}, step, path[:-1])
    found: dict[str, Role] = {}
    if tolerant and (told := reader.findings.withdraw(already)):
        found[""] = Role(name="", broken=told)  # entries that are no objects may be of any role
    for entry, where in entries:
        already = len(reader.findings.faults)
        name = reader.read_required(entry, "name", where)
        enabled = reader.flag(entry, "isEnabled", where, default=True)
        members = {kind: frozenset(_members(entry, kind, reader, where)) for kind in _MEMBERS}
        told = reader.findings.withdraw(already) if tolerant else ()
        if not enabled and not told:
            continue
        if name in found:
            reader.warn(where, f"role `{name}` is repeated here; the members are merged")
        _add(found, name, members, told)
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


def merge_roles(roles: Iterable[Role]) -> tuple[Role, ...]:
    """Return one role for each name, with the members of all roles of that name."""
    found: dict[str, Role] = {}
    for role in roles:
        _add(found, role.name, {kind: getattr(role, kind) for kind in _MEMBERS}, role.broken)
    return tuple(found.values())


def _add(
    found: dict[str, Role],
    name: str,
    members: Mapping[str, frozenset[str]],
    faults: tuple[str, ...] = (),
) -> None:
    old = found.get(name) or Role(name=name)
    found[name] = Role(
        name=name,
        users=old.users | members.get("users", frozenset()),
        groups=old.groups | members.get("groups", frozenset()),
        roles=old.roles | members.get("roles", frozenset()),
        broken=(*old.broken, *faults),
    )


def _members(entry: Mapping[str, Any], kind: str, reader: Reader, path: Path) -> list[str]:
    """Return names; a member is `{name, isAdmin}`, or the name alone."""
    names = []
    for i, member in enumerate(reader.read_list(entry, kind, path)):
        where = (*path, kind, i)
        if isinstance(member, str):
            names.append(member)
        else:
            names.append(reader.read_required(reader.read_mapping(member, where), "name", where))
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
                reader.warn(path, f"role `{way[-1]}` contains `{name}`, which is not a role here")
                continue
            way.append(name)
            finished.add(name)
            waiting += [(inner, depth + 1) for inner in sorted(roles[name].roles, reverse=True)]


def read_user_store(
    data: object, reader: Reader, path: Path, *, adds_groups: bool, tolerant: bool = False
) -> UserStore:
    """Return attributes and memberships of a RangerUserStore. With `tolerant` users and groups at fault are
    told of by themselves."""
    store = reader.read_mapping(data, path)
    users: dict[str, tuple[str, ...]] = {}
    groups: dict[str, tuple[str, ...]] = {}

    def each(
        key: str, read: Callable[[Mapping[str, Any], str, Path], T], at_fault: InvalidParts
    ) -> dict[str, T]:
        mapping, found = reader.field(store, key, path), {}
        for name in mapping:
            already = len(reader.findings.faults)
            found[name] = read(mapping, name, (*path, key))
            if tolerant and (told := reader.findings.withdraw(already)):
                at_fault[name] = (*at_fault.get(name, ()), *told)
        return found

    return UserStore(
        users=each("userAttrMapping", reader.scalars, users),
        groups=each("groupAttrMapping", reader.scalars, groups),
        memberships=each("userGroupMapping", reader.names, users),
        adds_groups=adds_groups,
        broken_users=users,
        broken_groups=groups,
    )
