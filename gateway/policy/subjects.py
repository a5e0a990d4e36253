"""A principal as policies see it: groups with `public`, roles with everything that they are nested in, and
the attributes that login and user store tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gateway.model.policy import Role, UserStore
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
    """With `public`."""
    roles: frozenset[str]
    own_groups: frozenset[str] = frozenset()
    """Without it."""
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    group_attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


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

    def roles_of(self, user: str, groups: frozenset[str], held: frozenset[str]) -> frozenset[str]:
        """Return all roles of a user; those that it brought from login count like those of the set."""
        found = set(held) | self._by_user.get(user, set())
        for group in groups & self._by_group.keys():
            found |= self._by_group[group]  # RULE (roles-of-groups)
        waiting = list(found)  # RULE (roles-in-roles)
        while waiting:  # a cycle ends because a role is looked at once
            new = self._containers.get(waiting.pop(), set()) - found
            found |= new
            waiting.extend(new)
        return frozenset(found)

    def subject(self, principal: Principal, store: UserStore, roles: frozenset[str] | None = None) -> Subject:
        """Resolve a principal; `roles` replace those that it would have."""
        own = principal.groups - {PUBLIC}
        if store.adds_groups:
            own |= store.memberships.get(principal.user, frozenset())
        groups = own | {PUBLIC}
        attributes: dict[str, tuple[str, ...]] = {
            name: (value,) for name, value in store.users.get(principal.user, {}).items()
        }
        # What login says of a user is fresher than what a store says.
        attributes |= {name: principal.values(name) for name, _ in principal.attributes}
        return Subject(
            principal,
            principal.user,
            groups,
            # RULE (roles-of-everybody)
            self.roles_of(principal.user, groups, principal.roles) if roles is None else roles,
            own,
            attributes,
            {group: store.groups[group] for group in own & store.groups.keys()},
        )
