"""Who may do what: administrators, administrators of services and zones, delegated administrators, plugins.

A delegated administrator must hold every access type that a policy gives or denies on all that the policy
covers, with items that delegate; the policy engine itself decides that, on policies reduced to those items.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from gateway.admin.ranger.kinds import Body, ObjectKind, Version, What
from gateway.admin.ranger.shapes import ALL_ITEM_LISTS, ITEM_LISTS
from gateway.admin.ranger.transactions import ReadTransaction
from gateway.errors import Faults
from gateway.model.policy import PolicySet, ResourceValues
from gateway.model.principal import Principal
from gateway.model.resource import ANY_ACCESS, AccessRequest, Resource
from gateway.policy.broken_parts import close_dependents
from gateway.policy.covering import list_covering
from gateway.policy.engine import Engine
from gateway.policy.ranger import load
from gateway.policy.unusable import list_invalid_policies, with_closed

_log = structlog.get_logger(__name__)

_MAX_ENGINES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminRights:
    """Users and groups with administrative rights everywhere, from the settings."""

    administrators: frozenset[str] = frozenset()
    administrator_groups: frozenset[str] = frozenset()
    plugins: frozenset[str] = frozenset()
    """Users that may download policies, tags, roles and users of every service."""
    delegates_may_override: bool = False
    """Whether delegated administrators may write policies of the higher priority, as in Ranger."""


@dataclass(frozen=True, slots=True)
class _Delegated:
    """Delegated administration in one zone of a service, compiled."""

    service: str
    levels: Mapping[str, int]
    """Level name → its place from the root down, which PostgreSQL's JSON does not keep."""
    engine: Engine


@dataclass(frozen=True, slots=True, order=True)
class TextQuestion:
    """A text of a mask or a filter that is to be stored, and what it is for."""

    kind: str
    """`mask` or `filter`."""
    text: str
    service: str
    service_type: str
    about: str
    """The policy's resource sets: a JSON object with the list `sets`."""
    trusted: bool
    """Whether whoever writes it may write any text: an administrator."""
    author: str = ""
    """Author of a stored text that is being written again."""


@dataclass(frozen=True, slots=True)
class PolicyText:
    """What the parser and Spark report about the text of a mask or filter."""

    fault: str | None = None
    """Why it cannot be used; None when it can."""
    reach: str = ""
    """What it needs beside the row's own columns and functions that are known to be safe, in words; empty:
    nothing."""
    unchecked: str = ""
    """Checks that Spark could not make, and why; empty: all were made."""
    selectable: bool = False
    """Whether who stores it may select, whole and now, all that it reads, and execute what it calls."""
    lapsed: bool = False
    """Whether its `author` may not."""


ReadText = Callable[[TextQuestion, Principal], Awaitable[PolicyText]]
"""Reads the text of a mask or a filter that somebody wants to store. It takes its time."""


@dataclass(slots=True)
class Access:
    """Answers what a principal may do; keeps engines of the delegated policies it was asked about."""

    rights: AdminRights
    read_text: ReadText | None = None
    """Parses the SQL texts of policies before they are stored; None in tests without a parser."""
    texts: Mapping[TextQuestion, PolicyText] = field(default_factory=dict)
    """Texts that have been read for a change."""
    unread: dict[TextQuestion, None] | None = None
    """Texts that a change turned out to need, and that must be read before it is made. None: there is no
    change."""
    _kept: OrderedDict[tuple[str, str], tuple[tuple[Version, Version], _Delegated | None]] = field(
        default_factory=OrderedDict
    )

    def with_texts(self, texts: Mapping[TextQuestion, PolicyText]) -> Access:
        """Return the same for one change, for which these texts have been read."""
        return replace(self, texts=texts, unread={})

    def is_administrator(self, principal: Principal) -> bool:
        """Whether the principal may do everything."""
        groups = self.rights.administrator_groups
        return principal.user in self.rights.administrators or not groups.isdisjoint(principal.groups)

    def administers_service(self, principal: Principal, service: Mapping[str, Any]) -> bool:
        """Whether the principal may do everything with a service's policies."""
        configs = service.get("configs") or {}
        return (
            self.is_administrator(principal)
            or principal.user in split_names(configs.get("service.admin.users"))
            or not split_names(configs.get("service.admin.groups")).isdisjoint(principal.groups)
        )

    def administers_zone(self, principal: Principal, zone: Mapping[str, Any] | None) -> bool:
        """Whether the principal is an administrator of a zone."""
        return self.is_administrator(principal) or (zone is not None and _is_among(principal, zone, "admin"))

    def audits_zone(self, principal: Principal, zone: Mapping[str, Any] | None) -> bool:
        """Whether the principal may read a zone and its policies."""
        return self.administers_zone(principal, zone) or (
            zone is not None and _is_among(principal, zone, "audit")
        )

    def may_download(
        self, principal: Principal, service: Mapping[str, Any], config: str = "policy.download.auth.users"
    ) -> bool:
        """Whether the principal may download what plugins of the service need."""
        named = split_names((service.get("configs") or {}).get(config))
        return self.is_plugin(principal) or principal.user in named or "*" in named

    def is_plugin(self, principal: Principal) -> bool:
        """Whether the principal may download for every service, and be told that there is no such service."""
        return self.is_administrator(principal) or principal.user in self.rights.plugins

    async def may_change(
        self, instant: ReadTransaction, principal: Principal, service: Body, policy: Mapping[str, Any]
    ) -> bool:
        """Whether the principal may create, change or delete this policy of the service."""
        if await self.governs(instant, principal, service, policy.get("zoneName") or ""):
            return True
        wanted = accesses_of(policy)
        if policy.get("isDenyAllElse"):
            # It denies every access type, whatever its items list.
            definition = await instant.find_named(ObjectKind.SERVICE_DEF, service["type"]) or {}
            wanted |= {str(entry.get("name")).lower() for entry in definition.get("accessTypes") or ()}
        delegated = await self._load_delegated(instant, service, policy.get("zoneName") or "")
        if delegated is None or not wanted:
            return False
        return await asyncio.to_thread(_holds, delegated, principal, policy, wanted)

    async def may_override(
        self, instant: ReadTransaction, principal: Principal, service: Body, policy: Mapping[str, Any]
    ) -> bool:
        """Whether the policy's priority is no obstacle for a principal that may change it otherwise.

        A policy of the higher priority takes back denials and masks that others made for the same resources.
        """
        if not policy.get("policyPriority") or self.rights.delegates_may_override:
            return True
        return await self.governs(instant, principal, service, policy.get("zoneName") or "")

    async def readable(
        self, instant: ReadTransaction, principal: Principal, service: Body, policies: Collection[Body]
    ) -> list[Body]:
        """Return those of the service's policies that the principal may read."""
        found: list[Body] = []
        by_zone: dict[str, list[Body]] = {}
        for policy in policies:
            by_zone.setdefault(policy.get("zoneName") or "", []).append(policy)
        for zone, those in by_zone.items():
            if await self.governs(instant, principal, service, zone, reading=True):
                found += those
                continue
            delegated = await self._load_delegated(instant, service, zone)
            if delegated is not None:
                found += await asyncio.to_thread(_readable, delegated, principal, those)
        wanted = {id(policy) for policy in found}
        return [policy for policy in policies if id(policy) in wanted]

    async def governs(
        self,
        instant: ReadTransaction,
        principal: Principal,
        service: Body,
        zone: str,
        *,
        reading: bool = False,
    ) -> bool:
        """Whether the principal may change (`reading`: read) all policies of a zone of the service."""
        if self.administers_service(principal, service):
            return True
        if not zone:
            return False
        body = await instant.find_named(ObjectKind.ZONE, zone)
        return self.audits_zone(principal, body) if reading else self.administers_zone(principal, body)

    async def _load_delegated(self, instant: ReadTransaction, service: Body, zone: str) -> _Delegated | None:
        """Return what a service's policies delegate in a zone; None when they cannot be read.

        Within one change it is what was delegated when the change first asked.
        """
        key = (service["name"], zone)
        if key not in instant.remembered:
            instant.remembered[key] = await self._load_delegated_now(instant, service, zone)
        found: _Delegated | None = instant.remembered[key]
        return found

    async def _load_delegated_now(
        self, instant: ReadTransaction, service: Body, zone: str
    ) -> _Delegated | None:
        name = service["name"]
        stamp = (await instant.version(name, What.POLICY), await instant.version(name, What.ROLE))
        # A change under way may yet be taken back, and its versions then stand for something else.
        committed = instant.committed
        kept = self._kept.get((name, zone))
        if committed and kept is not None and kept[0] == stamp:
            self._kept.move_to_end((name, zone))
            return kept[1]
        definition = await instant.find_named(ObjectKind.SERVICE_DEF, service["type"])
        policies = await instant.list_delegating_policies(name, zone)
        roles = await instant.all(ObjectKind.ROLE)
        found = await asyncio.to_thread(_build_delegated, name, definition or {}, policies, roles)
        if committed:
            self._kept[name, zone] = (stamp, found)
            self._kept.move_to_end((name, zone))
            while len(self._kept) > _MAX_ENGINES:
                self._kept.popitem(last=False)
        return found


def split_names(text: object) -> frozenset[str]:
    """Return the names of a comma-separated configuration value."""
    return frozenset(filter(None, (name.strip() for name in str(text or "").split(","))))


def accesses_of(policy: Mapping[str, Any]) -> frozenset[str]:
    """Return the access types that the policy's items speak of."""
    return frozenset(
        str(access.get("type")).lower()
        for items in ALL_ITEM_LISTS
        for item in policy.get(items) or ()
        for access in item.get("accesses") or ()
    )


def _is_among(principal: Principal, zone: Mapping[str, Any], kind: str) -> bool:
    return (
        principal.user in (zone.get(f"{kind}Users") or ())
        or not principal.groups.isdisjoint(zone.get(f"{kind}UserGroups") or ())
        or not principal.roles.isdisjoint(zone.get(f"{kind}Roles") or ())
    )


def _build_delegated(
    service: str, definition: Body, policies: Iterable[Body], roles: list[Body]
) -> _Delegated | None:
    delegating = [reduced for policy in policies if (reduced := _keep_delegating_items(policy)) is not None]
    document = {
        "serviceName": service,
        "serviceDef": definition,
        "policies": delegating,
        "roles": {"serviceName": service, "rangerRoles": roles},
    }
    try:
        policy_set: PolicySet = load(document, tolerant=True)
    except Faults as faults:
        # Fail closed: without an engine nobody is a delegated administrator.
        _log.warning("delegated_policies_unreadable", service=service, faults=len(faults.faults))
        return None
    # One at fault delegates nothing, and where it takes away nobody has anything: the others delegate on.
    policy_set = close_dependents(policy_set)
    at_fault = list_invalid_policies(policy_set)
    if at_fault:
        _log.warning("delegated_policies_unreadable", service=service, policies=[one.id for one in at_fault])
        policy_set = with_closed(policy_set, at_fault)
    levels = {level["name"]: level.get("level") or 0 for level in definition.get("resources") or ()}
    return _Delegated(service, levels, Engine(policy_set))


def _keep_delegating_items(policy: Mapping[str, Any]) -> Body | None:
    """Return the policy with the items that delegate only; None when it has none."""
    if policy.get("policyType") or policy.get("isEnabled") is False:
        return None
    items = {
        name: [item for item in policy.get(name) or () if item.get("delegateAdmin")] for name in ITEM_LISTS
    }
    if not any(items.values()):
        return None
    return {**policy, **items, "isDenyAllElse": False, "zoneName": ""}


def _holds(
    delegated: _Delegated, principal: Principal, policy: Mapping[str, Any], wanted: frozenset[str]
) -> bool:
    resources = _resources(policy, delegated.levels)
    if resources is None:
        return False
    decide, service = delegated.engine.decide, delegated.service
    return all(
        decide(AccessRequest(principal=principal, resource=resource, access=access, service=service)).allowed
        for resource in resources
        for access in wanted
    )


def _readable(delegated: _Delegated, principal: Principal, policies: Iterable[Body]) -> list[Body]:
    return [p for p in policies if _holds(delegated, principal, p, frozenset({ANY_ACCESS}))]


def _resources(policy: Mapping[str, Any], places: Mapping[str, int]) -> list[Resource] | None:
    """Return resources that are allowed exactly when all that the policy covers is; None: too many."""
    sets = (policy.get("resources") or {}, *(policy.get("additionalResources") or ()))
    return list_covering(
        ({name: _values_of(values) for name, values in resources.items()} for resources in sets), places
    )


def _values_of(values: Mapping[str, Any]) -> ResourceValues:
    return ResourceValues(
        values=tuple(map(str, values.get("values") or ())),
        excludes=bool(values.get("isExcludes")),
        recursive=bool(values.get("isRecursive")),
    )
