"""Policies of several sources become one PolicySet: each service, role and user attribute has one source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gateway.errors import Faults
from gateway.model.files import SESSION_CATALOG, FileSource
from gateway.model.limits import Limit
from gateway.model.policy import (
    Policy,
    PolicyItem,
    PolicySet,
    Role,
    Service,
    ServiceDef,
    TaggedResource,
    UserStore,
)
from gateway.policy.closing import close_tables
from gateway.policy.engine import DEFAULT_SERVICE
from gateway.policy.matching import fold


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """What one source holds."""

    name: str
    services: Mapping[str, Service]
    roles: tuple[Role, ...] = ()
    users: UserStore | None = None
    tagged: tuple[TaggedResource, ...] = ()
    """Tags on columns, by catalog, beside those of whichever service speaks for the catalog."""
    policies: tuple[Policy, ...] = ()
    """Policies of services of other parts, in access types of `spark`: a service has them beside its own."""
    adds_to: Mapping[str, str] = field(default_factory=dict)
    """Service of this part → the one, of whichever part, that has its policies beside its own."""
    catalogs: Mapping[str, str] = field(default_factory=dict)
    """Catalogs that come with the part → service that speaks for each."""
    limits: tuple[Limit, ...] = ()
    closed: tuple[FileSource, ...] = ()
    """Sources of files whose tables are closed until policies, of whichever part, name them."""
    warnings: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    """The source's own numbers, for the audit record."""
    before: Part | None = None
    """What the source had, where a case of it fails: what it does not allow is not allowed."""
    realm: str = ""
    """Sources of one realm tell the same roles and users; the last one counts: it should be the freshest."""


def combine(
    parts: Iterable[Part], version: int, catalog_services: Mapping[str, str], *, tolerant: bool = False
) -> PolicySet:
    """Return the parts as one. Raises Faults for whatever two sources that are strangers both define. With
    `tolerant` a role, user or group that they tell differently is at fault by itself.

    A service that only stands there for want of another one (no policies at all) gives way.
    """
    parts = list(parts)
    before = None
    if any(part.before is not None for part in parts):
        earlier = [part.before or part for part in parts]
        before = combine(earlier, version, catalog_services, tolerant=tolerant)
    services: dict[str, Service] = {}
    origin: dict[str, str] = {}
    roles: dict[str, tuple[Role, Part]] = {}
    faults: list[str] = []
    for part in parts:
        for name, service in part.services.items():
            if name in services and says_anything(services[name]):
                if says_anything(service):
                    faults.append(f"service `{name}` is defined by both {origin[name]} and {part.name}")
                continue
            services[name], origin[name] = service, part.name
        if part.realm and part.roles:
            # All of its realm's roles: one that is not among them is no more.
            roles = {name: known for name, known in roles.items() if known[1].realm != part.realm}
        for role in part.roles:
            known = roles.get(role.name)
            if known is not None and known[0] != role and not _together(known[1], part):
                told = f"role `{role.name}` is defined differently by {known[1].name} and {part.name}"
                if tolerant:
                    role = replace(role, broken=(*known[0].broken, *role.broken, told))
                else:
                    faults.append(told)
            roles[role.name] = (role, part)
    speaking = {catalog: service for part in parts for catalog, service in part.catalogs.items()}
    faults += [f"service `{one}` does not exist" for one in sorted(set(speaking.values()) - services.keys())]
    speaking |= catalog_services
    for part in parts:
        if part.tagged:
            _put_on(services, part.tagged, speaking)
        _add(services, part, faults)
        if part.adds_to:
            _add_services(services, part, faults)
    _close(services, [source for part in parts for source in part.closed], speaking, faults)
    users = _users(parts, faults, tolerant=tolerant)
    if faults:
        raise Faults(faults)
    return PolicySet(
        version=version,
        services=services,
        roles=tuple(role for role, _ in roles.values()),
        users=users,
        catalog_services=speaking,
        warnings=tuple(warning for part in parts for warning in part.warnings),
        origins=_origins(parts),
        limits=tuple(limit for part in parts for limit in part.limits),
        before=before,
    )


def _origins(parts: Iterable[Part]) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in parts:
        found.update(part.versions)
        if part.before is not None:
            found.update({f"{key}_before": told for key, told in part.before.versions.items()})
    return found


def _put_on(
    services: dict[str, Service], tagged: Iterable[TaggedResource], catalog_services: Mapping[str, str]
) -> None:
    """Put tags on resources of the services that speak for their catalogs."""
    speak = {fold(catalog): service for catalog, service in catalog_services.items()}
    by_service: dict[str, list[TaggedResource]] = {}
    for one in tagged:
        catalog = one.resources["catalog"].values[0]
        by_service.setdefault(speak.get(fold(catalog), DEFAULT_SERVICE), []).append(one)
    for name, found in by_service.items():
        service = services.get(name)
        if service is not None:
            levels = {level.name for level in service.definition.resources}
            if "catalog" not in levels:
                # A definition without catalogs (hive's) speaks of the databases of those given to it.
                found = [
                    replace(one, resources={k: v for k, v in one.resources.items() if k != "catalog"})
                    for one in found
                ]
            services[name] = replace(service, tagged=(*service.tagged, *found))


def _add(services: dict[str, Service], part: Part, faults: list[str]) -> None:
    """Put the policies of a part into the services that they are of."""
    by_service: dict[str, list[Policy]] = {}
    for policy in part.policies:
        by_service.setdefault(policy.service, []).append(policy)
    for name, policies in by_service.items():
        service = services.get(name)
        if service is None:
            faults.append(f"{part.name} has policies for service `{name}`, which does not exist")
        elif all(level.name != "catalog" for level in service.definition.resources):
            faults.append(f"service `{name}` has no catalogs: {part.name} cannot have policies in it")
        else:
            fitted = (_fit_policy(policy, service.definition) for policy in policies)
            services[name] = replace(service, policies=(*service.policies, *fitted))


def _add_services(services: dict[str, Service], part: Part, faults: list[str]) -> None:
    """Put policies of a part's services into those that they are added to; each goes on naming its own, where
    it is changed."""
    for name, to in part.adds_to.items():
        service, target = part.services.get(name), services.get(to)
        if service is None or not says_anything(service):
            continue
        if target is None or service.definition.name != target.definition.name:
            kind = service.definition.name
            faults.append(f"{part.name} adds to `{to}`, which is no service of the kind `{kind}`")
            continue
        on_tags = service.tags is not None and bool(service.tags.policies)
        shared = service.sharing
        # An Admin that has nothing to share says so: that is none.
        shares = shared is not None and bool(shared.shares or shared.datasets or shared.projects)
        if service.zones or service.tagged or shares or on_tags:  # RULE (added-whole)
            faults.append(f"{part.name} has zones, tags or data sharing, which no other service takes")
        delegating = (item for policy in service.policies for item in policy.items if item.delegate_admin)
        if next(delegating, None) is not None:  # RULE (added-plain)
            # Where they write nobody knows the masks and denials of the target, which are not theirs to end.
            faults.append(f"{part.name} has delegated administrators, who could unmask what others mask")
        fitted = (_fit_policy(policy, target.definition) for policy in service.policies)
        services[to] = replace(target, policies=(*target.policies, *fitted))
        services[name] = replace(service, policies=())


def _close(
    services: dict[str, Service],
    sources: Sequence[FileSource],
    speaking: Mapping[str, str],
    faults: list[str],
) -> None:
    """Close the tables of sources of files. Where no service speaks for them, nobody may see them anyway."""
    name = {fold(catalog): one for catalog, one in speaking.items()}.get(SESSION_CATALOG, DEFAULT_SERVICE)
    service = services.get(name)
    if service is not None:
        try:
            services[name] = close_tables(service, sources)
        except Faults as error:
            faults.extend(error.faults)


def _fit_policy(policy: Policy, definition: ServiceDef) -> Policy:
    """Return a policy in the access types of a definition. What it has no word for is not allowed; and where
    it is denied, so is everything."""
    known = frozenset(access.name for access in definition.access_types)

    def narrow_allow(item: PolicyItem) -> PolicyItem:
        named = {definition.access_aliases.get(access, access) for access in item.accesses - {"all"}}
        every = known if "all" in item.accesses else frozenset()
        return replace(item, accesses=frozenset(named & known) | every)

    def widen_deny(item: PolicyItem) -> PolicyItem:
        named = {definition.access_aliases.get(access, access) for access in item.accesses}
        return replace(item, accesses=frozenset(named) if named <= known - {"all"} else known)

    allow = tuple(item for item in map(narrow_allow, policy.allow) if item.accesses)
    return replace(policy, allow=allow, deny=tuple(map(widen_deny, policy.deny)))


def build_closing_part(sources: Iterable[FileSource]) -> Part:
    """Return the part of the settings that closes tables of files."""
    return Part(name="`files`", services={}, closed=tuple(source for source in sources if source.closed))


def says_anything(service: Service) -> bool:
    """Whether a service is more than the definition that it was made from."""
    return bool(
        service.policies
        or service.tags
        or service.zones
        or service.tagged
        or service.sharing
        or service.super_users
        or service.super_groups
    )


def _together(one: Part, other: Part) -> bool:
    return bool(one.realm) and one.realm == other.realm


def _users(parts: Iterable[Part], faults: list[str], *, tolerant: bool) -> UserStore:
    """Return one user store; sources that are strangers must not speak of the same user or group."""
    stores: dict[str, tuple[UserStore, str]] = {}
    for part in parts:
        if part.users is not None:
            stores[part.realm or part.name] = (part.users, part.name)
    filled = [(s, name) for s, name in stores.values() if _says_of_anybody(s)]
    if len(filled) < 2:
        return filled[0][0] if filled else UserStore()
    users: dict[str, Mapping[str, str]] = {}
    groups: dict[str, Mapping[str, str]] = {}
    memberships: dict[str, frozenset[str]] = {}
    broken: dict[str, dict[str, tuple[str, ...]]] = {"user": {}, "group": {}}
    for store, name in filled:
        broken["user"].update(store.broken_users)
        broken["group"].update(store.broken_groups)
        for what, mine, whole in (("user", store.users, users), ("group", store.groups, groups)):
            for one in mine:
                if one in whole and whole[one] != mine[one]:
                    told = (
                        f"attributes of {what} `{one}` come from {name} and, with other values, from "
                        "another source"
                    )
                    if tolerant:
                        broken[what][one] = (*broken[what].get(one, ()), told)
                    else:
                        faults.append(told)
            whole.update(mine)
        if store.adds_groups:
            for user, own in store.memberships.items():
                memberships[user] = memberships.get(user, frozenset()) | own
    return UserStore(
        users=users,
        groups=groups,
        memberships=memberships,
        adds_groups=bool(memberships),
        broken_users=broken["user"],
        broken_groups=broken["group"],
    )


def _says_of_anybody(store: UserStore) -> bool:
    return bool(store.users or store.groups or store.memberships or store.broken_users or store.broken_groups)
