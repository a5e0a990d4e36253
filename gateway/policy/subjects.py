"""A principal as policies see it: groups with `public`, and roles with everything that they are nested in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.model.policy import Role
from gateway.model.principal import Principal

PUBLIC = "public"
"""The group that everybody is in."""
CURRENT_USER = "{USER}"
OWNER = "{OWNER}"


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """One principal with its groups and roles resolved against one PolicySet."""

    principal: Principal
    user: str
    groups: frozenset[str]
    roles: frozenset[str]


class RoleGraph:
    """Answers which roles a principal holds. A role that contains another one covers its members too."""

    def __init__(self, roles: Iterable[Role]) -> None:
        self._by_user: dict[str, set[str]] = {}
        self._by_group: dict[str, set[str]] = {}
        self._containers: dict[str, set[str]] = {}
        for role in roles:
            for user in role.users:
                self._by_user.setdefault(user, set()).add(role.name)
            for group in role.groups:
                self._by_group.setdefault(group, set()).add(role.name)
            for inner in role.roles:
                self._containers.setdefault(inner, set()).add(role.name)

    def subject(self, principal: Principal) -> Subject:
        """Resolve a principal; the roles that it brought from login count like those of the set."""
        groups = principal.groups | {PUBLIC}
        found = set(principal.roles) | self._by_user.get(principal.user, set())
        for group in groups & self._by_group.keys():
            found |= self._by_group[group]
        waiting = list(found)
        while waiting:  # a cycle ends because a role is looked at once
            new = self._containers.get(waiting.pop(), set()) - found
            found |= new
            waiting.extend(new)
        return Subject(principal, principal.user, groups, frozenset(found))
