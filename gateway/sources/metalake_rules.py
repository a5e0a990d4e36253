"""What a metalake's tags, roles and owners mean to policies.

Tags are put on what has them; what lies below inherits them, as in Gravitino. A privilege allows what it
does in Gravitino or less: a table needs USE_CATALOG and USE_SCHEMA above it, among the roles of the same user
or of the same group. What is denied may be more than there: a privilege that is not known denies everything,
one on an object that is not understood denies in its whole catalog, and who has a role that the server does
not show is denied everything, because there may be a denial in it.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gateway.model.metalakes import Level, MetadataObject, Metalake, MetalakePrivilege, MetalakeRole
from gateway.model.policy import Policy, PolicyItem, PolicyType, ResourceSet, ResourceValues, TaggedResource
from gateway.model.tags import Tag
from gateway.policy.globs import NOT_LITERAL
from gateway.policy.subjects import PUBLIC

ALL = frozenset({"all"})
_USES = frozenset({"use", "show"})
_LEVELS = ("catalog", "database", "table", "column")
_PLAIN = re.compile(r"[\w-]+(?: [\w-]+)*")
"""Names that statements can have, but for columns."""
_FIRST_ID = 1 << 40
"""Ids of policies that are made here are above those of packs and of Ranger."""

_TABLE_ALLOWS: Mapping[str, frozenset[str]] = {
    "SELECT_TABLE": frozenset({"select", "show"}),
    "MODIFY_TABLE": frozenset({"insert", "update", "delete", "alter", "show"}),
    "CREATE_TABLE": frozenset({"create"}),
}
"""Privileges on tables, and what they allow there."""
_DENIES: Mapping[str, frozenset[str]] = {
    "SELECT_TABLE": frozenset({"select", "metadata"}),
    "SELECT_VIEW": frozenset({"select"}),
    "MODIFY_TABLE": frozenset({"insert", "update", "delete", "alter"}),
    "CREATE_TABLE": frozenset({"create"}),
    "CREATE_VIEW": frozenset({"create"}),
}
"""Privileges, and what is denied on tables where they are. A table and a view are one kind of resource."""
_OF_OTHERS = frozenset(
    {
        "CREATE_CATALOG", "CREATE_FILESET", "WRITE_FILESET", "READ_FILESET", "CREATE_TOPIC", "PRODUCE_TOPIC",
        "CONSUME_TOPIC", "MANAGE_USERS", "MANAGE_GROUPS", "CREATE_ROLE", "MANAGE_GRANTS", "REGISTER_MODEL",
        "CREATE_MODEL", "LINK_MODEL_VERSION", "CREATE_MODEL_VERSION", "USE_MODEL", "REGISTER_FUNCTION",
        "EXECUTE_FUNCTION", "MODIFY_FUNCTION", "CREATE_TAG", "APPLY_TAG", "VIEW_TAG", "CREATE_POLICY",
        "APPLY_POLICY", "VIEW_POLICY", "VIEW_SECRET_PROVIDERS", "REGISTER_JOB_TEMPLATE", "USE_JOB_TEMPLATE",
        "RUN_JOB",
    }
)  # fmt: skip
"""Privileges that say nothing of tables: nothing is lost, nor denied, where they are left out."""

_HOLD_NO_TABLES = frozenset(
    {
        "FILESET", "TOPIC", "MODEL", "MODEL_VERSION", "ROLE", "USER", "GROUP", "TAG", "POLICY", "JOB",
        "JOB_TEMPLATE", "FUNCTION", "SEMANTIC_MODEL",
    }
)  # fmt: skip
"""Types of objects on which a denial denies nothing of tables."""

NamePattern = tuple[str, ...]
"""Catalog, database and table as far as they are named; `*` for any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetalakeRules:
    """What policies get of a metalake."""

    tagged: tuple[TaggedResource, ...] = ()
    policies: tuple[Policy, ...] = ()
    unmapped_privileges: Mapping[str, int] = field(default_factory=dict)
    """What cannot be said in access types, or of tables → how often."""
    hidden_roles: tuple[str, ...] = ()
    """Roles of users and groups that the server does not show; whoever has one is denied everything."""


def rules_of(
    metalake: Metalake, taken: Iterable[str], *, name: str, service: str, privileges: bool
) -> MetalakeRules:
    """Return what the tags and, with `privileges`, roles and owners mean for the catalogs that were taken."""
    catalogs = {catalog.lower(): catalog for catalog in taken}
    lost: Counter[str] = Counter()
    tagged = tuple(_build_tagged(metalake, catalogs, lost))
    hidden: tuple[str, ...] = ()
    grants = _Grants(metalake, catalogs, lost)
    for one in metalake.restricted:
        lost[f"row filter or mask on {one.type}"] += 1
        grants.close(one)  # RULE (metalake-restricted-closed)
    policies = grants.policies(name, service) if privileges else grants.list_policies(name, service)
    if privileges:
        hidden = tuple(sorted(metalake.hidden_roles))
    return MetalakeRules(
        tagged=tagged, policies=policies, unmapped_privileges=dict(sorted(lost.items())), hidden_roles=hidden
    )


def _build_tagged(
    metalake: Metalake, catalogs: Mapping[str, str], lost: Counter[str]
) -> Iterator[TaggedResource]:
    for tag in metalake.tags:
        made = Tag(type=tag.name, attributes=dict(tag.properties))
        for one in tag.objects:
            readings = _readings(one)
            if not readings:
                lost[f"tags on {one.type}"] += 1
            for parts in (parts for reading in readings for parts in _in(reading, catalogs)):
                # `?` is any one character: better a tag too many than none.
                values = [ResourceValues(values=(NOT_LITERAL.sub("?", part),)) for part in parts]
                yield TaggedResource(resources=dict(zip(_LEVELS, values, strict=False)), tags=(made,))


def _in(place: NamePattern, catalogs: Mapping[str, str]) -> Iterator[NamePattern]:
    """Yield where a place is, among the catalogs that were taken: a metalake is in all of them."""
    if not place:
        yield from ((catalog,) for catalog in catalogs.values())
    elif place[0].lower() in catalogs:
        yield place


def _readings(one: MetadataObject) -> list[NamePattern]:
    """Return what the full name of an object can mean; nothing where it holds no tables, or is no name of its
    type. A name with a dot in it comes in more parts than its type has: then it is one of a nested namespace,
    or of a column. No other name that statements can have has dots."""
    parts = one.parts
    match one.type:
        case "METALAKE" | "CATALOG" if one.level is not None:
            return [parts]
        case "SCHEMA" if len(parts) > 1:
            return [(parts[0], ".".join(parts[1:]))]
        case "TABLE" | "VIEW" if len(parts) > 2:
            return [(parts[0], ".".join(parts[1:-1]), parts[-1])]
        case "COLUMN" if len(parts) > 3:
            return [
                (parts[0], ".".join(parts[1:at]), parts[at], ".".join(parts[at + 1 :]))
                for at in range(2, len(parts) - 1)
            ]
    return []


def _list_denied_places(one: MetadataObject, catalogs: Mapping[str, str]) -> Iterator[NamePattern]:
    """Yield where a denial on an object holds: there, of a column in its table, and in the whole catalog for
    what is no name of its type, or of a type that nobody here has heard of."""
    if one.type in _HOLD_NO_TABLES:
        return
    for reading in _readings(one) or [one.parts[:1]]:
        place = reading[:3]
        if all(_PLAIN.fullmatch(level) for part in place for level in part.split(".")):
            yield from _in(place, catalogs)


@dataclass(slots=True)
class _Items:
    """Who is allowed, and who is denied what, at one place; user or group (`True`) by accesses."""

    allowed: dict[frozenset[str], set[tuple[str, bool]]] = field(default_factory=dict)
    denied: dict[frozenset[str], set[tuple[str, bool]]] = field(default_factory=dict)


class _Grants:
    """The policies that roles and owners amount to."""

    def __init__(self, metalake: Metalake, catalogs: Mapping[str, str], lost: Counter[str]) -> None:
        self._metalake = metalake
        self._catalogs = catalogs
        self._lost = lost
        self._places: dict[NamePattern, _Items] = {}
        self._roles = {role.name: role for role in metalake.roles}

    def policies(self, name: str, service: str) -> tuple[Policy, ...]:
        for role in self._metalake.roles:
            self._count(role)
        by_roles: dict[frozenset[str], set[tuple[str, bool]]] = {}
        for members, group in ((self._metalake.users, False), (self._metalake.groups, True)):
            for member, roles in members.items():
                by_roles.setdefault(frozenset(roles), set()).add((member, group))
        hidden = self._metalake.hidden_roles
        for names, who in by_roles.items():
            if names & hidden:
                # INVARIANT (deny is the ground state): what a role that is not seen denies is not known.
                for catalog in self._catalogs.values():
                    self._deny_all((catalog,), who)
            self._list_granted([self._roles[role] for role in sorted(names) if role in self._roles], who)
        for owned, owner in self._metalake.owners.items():
            for (catalog,) in _in(owned.parts, self._catalogs):
                for place in _all_of((catalog,)):
                    self._allow(place, ALL, {(owner.name, owner.group)})
        return self.list_policies(name, service)

    def close(self, one: MetadataObject) -> None:
        """Deny everybody an object of which a policy of the server hides rows or values.

        INVARIANT (what a catalog restricts is not dropped): what is not enforced is not read.
        """
        for place in _list_denied_places(one, self._catalogs):
            self._deny_all(place, {(PUBLIC, True)})

    def list_policies(self, name: str, service: str) -> tuple[Policy, ...]:
        """Return the policies that all of it amounts to."""
        return tuple(
            _policy(place, items, name, service)
            for place, items in sorted(self._places.items())
            if items.allowed or items.denied
        )

    def _list_granted(self, roles: list[MetalakeRole], who: set[tuple[str, bool]]) -> None:
        given: defaultdict[str, set[NamePattern]] = defaultdict(set)
        for role in roles:
            for one, privileges in role.grants:
                for privilege in (privilege for privilege in privileges if privilege.denied):
                    for place in _list_denied_places(one, self._catalogs):
                        self._deny(privilege, place, who)
                if one.level is None or one.level is Level.COLUMN:
                    continue
                for place in _in(one.parts, self._catalogs):
                    if not all(map(_PLAIN.fullmatch, place)):
                        continue
                    for privilege in (privilege for privilege in privileges if not privilege.denied):
                        if privilege.name == "SELECT_VIEW":
                            if one.level is Level.VIEW:
                                given["SELECT_TABLE"].add(place)
                        else:
                            given[privilege.name].add(place)
        usable = {place for place in given["USE_CATALOG"] if len(place) == 1}
        schemas = {place for place in given["USE_SCHEMA"] if len(place) < 3 and place[:1] in usable}
        for place in usable:
            self._allow(place, _USES, who)
        for place in schemas:
            self._allow(_fill(place, 2), _USES, who)
        for place in given["CREATE_SCHEMA"]:
            if place in usable:
                self._allow(_fill(place, 2), frozenset({"create"}), who)
        for named, accesses in _TABLE_ALLOWS.items():
            for place in given[named]:
                # In as much of the place as there is USE_SCHEMA for.
                for schema in schemas:
                    narrower = max(place, schema, key=len)
                    if narrower[: len(schema)] == schema and narrower[: len(place)] == place:
                        self._allow(_fill(narrower, 3), accesses, who)

    def _deny(self, privilege: MetalakePrivilege, place: NamePattern, who: set[tuple[str, bool]]) -> None:
        if privilege.name in _OF_OTHERS:
            return
        accesses = _DENIES.get(privilege.name)
        if privilege.name == "CREATE_SCHEMA":
            self._items(_fill(place[:2], 2)).denied.setdefault(frozenset({"create"}), set()).update(who)
        elif accesses is not None:
            self._items(_fill(place, 3)).denied.setdefault(accesses, set()).update(who)
        else:
            # USE_CATALOG, USE_SCHEMA, and whatever nobody here has heard of.
            if privilege.name == "USE_SCHEMA" and len(place) == 1:
                place = _fill(place, 2)
            self._deny_all(place, who)

    def _deny_all(self, place: NamePattern, who: set[tuple[str, bool]]) -> None:
        for below in _all_of(place):
            self._items(below).denied.setdefault(ALL, set()).update(who)

    def _allow(self, place: NamePattern, accesses: frozenset[str], who: set[tuple[str, bool]]) -> None:
        self._items(place).allowed.setdefault(accesses, set()).update(who)

    def _items(self, place: NamePattern) -> _Items:
        return self._places.setdefault(place, _Items())

    def _count(self, role: MetalakeRole) -> None:
        known = {*_DENIES, "USE_CATALOG", "USE_SCHEMA", "CREATE_SCHEMA"}
        for one, privileges in role.grants:
            for privilege in privileges:
                word = "DENY" if privilege.denied else "ALLOW"
                lost = privilege.name not in known
                if not privilege.denied:
                    lost |= privilege.name == "CREATE_VIEW"
                    lost |= privilege.name == "SELECT_VIEW" and one.level is not Level.VIEW
                if one.level is None or one.level is Level.COLUMN or lost:
                    self._lost[f"{word} {privilege.name} on {one.type}"] += 1


def _fill(place: NamePattern, length: int) -> NamePattern:
    return (*place, *("*" for _ in range(length - len(place))))


def _all_of(place: NamePattern) -> Iterator[NamePattern]:
    """Yield the place, and everything at each level below it; tables bring their columns along."""
    for length in range(len(place), 4):
        yield _fill(place, length)


def _policy(place: NamePattern, items: _Items, name: str, service: str) -> Policy:
    first = _resources(place)
    more: tuple[ResourceSet, ...] = ()
    if len(place) == 3:
        more = (_resources((*place, "*")),)
    title = f"gravitino {name}: {'.'.join(place)}"
    return Policy(
        id=_FIRST_ID + zlib.crc32(title.encode()),
        name=title,
        service=service,
        type=PolicyType.ACCESS,
        resources=first,
        additional_resources=more,
        allow=_policy_items(items.allowed),
        deny=_policy_items(items.denied),
        description="derived from roles, privileges and owners of the metalake",
    )


def _resources(place: NamePattern) -> ResourceSet:
    return {level: ResourceValues(values=(part,)) for level, part in zip(_LEVELS, place, strict=False)}


def _policy_items(items: Mapping[frozenset[str], set[tuple[str, bool]]]) -> tuple[PolicyItem, ...]:
    return tuple(
        PolicyItem(
            users=frozenset(name for name, group in who if not group),
            groups=frozenset(name for name, group in who if group),
            accesses=accesses,
        )
        for accesses, who in sorted(items.items(), key=lambda one: sorted(one[0]))
    )
