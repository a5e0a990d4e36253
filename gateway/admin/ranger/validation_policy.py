"""What makes a policy valid: its names, its resources against the definition, its items and their texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.admin.ranger.definitions import ACCESS, MASK, ROW_FILTER, ServiceType
from gateway.admin.ranger.json_fields import Object
from gateway.admin.ranger.patterns import NotTaken, matches
from gateway.admin.ranger.shapes import ALL_ITEM_LISTS, ITEM_LISTS
from gateway.admin.ranger.validation import MISSING, Failure
from gateway.policy.diagnostics import Diagnostics, format_path
from gateway.policy.ranger.policies import RangerPolicyReader
from gateway.policy.schedule_json import faults_in_schedule

_TYPES = {ACCESS: "access", MASK: "data mask", ROW_FILTER: "row filter"}
_LISTS_OF = {ACCESS: ITEM_LISTS, MASK: ("dataMaskPolicyItems",), ROW_FILTER: ("rowFilterPolicyItems",)}
_DENYING = ("denyPolicyItems", "allowExceptions", "denyExceptions")

UNKNOWN_MASK, BAD_TEXT, UNKNOWN_CONDITION, BAD_SCRIPT, UNENFORCED, UNKNOWN_TYPE, REACHES = range(9001, 9008)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Stored objects that a policy refers to; None: the object does not exist."""

    service: Mapping[str, Any] | None
    definition: ServiceType | None
    zone: Mapping[str, Any] | None = None
    """The zone of the policy's zoneName."""
    updating: bool = False
    stored: Mapping[str, Any] | None = None
    """The policy that is updated."""
    same_name: Mapping[str, Any] | None = None
    """Another policy with this name in this service and zone."""
    same_resources: Mapping[str, Any] | None = None
    """Another enabled policy with this signature."""
    administrator: bool = True


def normalise_policy(policy: Object, definition: ServiceType) -> Object:
    """Return the policy with access types as the definition spells them; unknown ones stay for validation."""
    known = definition.accesses(policy.get("policyType") or 0)
    lists = {
        name: [
            {
                **item,
                "accesses": [
                    {**a, "type": known.get(str(a.get("type") or "").strip().lower(), a.get("type"))}
                    for a in item["accesses"]
                ],
            }
            for item in policy.get(name) or []
        ]
        for name in ALL_ITEM_LISTS
    }
    name = policy.get("name")
    return {**policy, **lists, "name": name.strip() if name else name}


def policy_failures(policy: Mapping[str, Any], around: Surroundings) -> list[Failure]:
    """Return everything that is wrong with a policy that was read by `shapes` and normalised."""
    failures = [*_identity(policy, around)]
    if around.service is None or around.definition is None:
        return failures
    type_ = policy["policyType"]
    if type_ not in _TYPES:
        failures.append(Failure(UNKNOWN_TYPE, f"unknown policy type {type_}", "policyType"))
        return failures
    failures += _resources(policy, around, around.definition)
    failures += _items(policy, around.definition)
    failures += _conditions(policy["conditions"], around.definition, "conditions")
    failures += schedule_failures(policy["validitySchedules"])
    failures += _engine_failures(policy, around.definition, failures)
    return list(dict.fromkeys(failures))


def _engine_failures(
    policy: Mapping[str, Any], definition: ServiceType, told: Sequence[Failure]
) -> Iterator[Failure]:
    """Yield what the engine's reader says of the policy's texts, and whatever else it would not load it for.

    INVARIANT (what is stored can be loaded): a policy that nothing else is wrong with has been read here.
    """
    findings = Diagnostics()
    reader = RangerPolicyReader(definition.definition, str(policy["service"]), strict=True)
    reader.read({**policy, "id": 0, "name": ""}, findings, (), policy["zoneName"])
    rest = []
    for path, message in findings.faults:
        reason = message.removeprefix("policy 0: ")
        match [step for step in path if isinstance(step, str)]:
            case ["policyPriority"]:
                yield Failure(3030, reason, "policyPriority")
            case [*_, ("filterExpr" | "valueExpr") as text]:
                yield Failure(BAD_TEXT, reason, format_path(path[:2]), text)
            case [*_, "conditions"]:
                yield Failure(BAD_SCRIPT, reason, format_path(path[:-2]) or "conditions", "conditions")
            case ["resources" | "additionalResources", level] if level in definition.levels():
                yield Failure(BAD_SCRIPT, reason, "resources", level)
            case _:
                rest.append(Failure(UNENFORCED, reason, format_path(path)))
    if not told:
        yield from rest


def schedule_failures(schedules: Sequence[Mapping[str, Any] | None]) -> Iterator[Failure]:
    """Yield what is wrong with validity schedules."""
    for i, given in enumerate(schedules):
        for fault in faults_in_schedule(given or {}):
            yield Failure(3029, fault, "validitySchedules", str(i))


def _identity(policy: Mapping[str, Any], around: Surroundings) -> Iterator[Failure]:
    name, service, stored = policy.get("name"), policy.get("service"), around.stored
    if not name:
        yield Failure(3002, "a policy needs a name", "name", type=MISSING)
    elif around.same_name is not None:
        other = around.same_name.get("id")
        yield Failure(3006, f"policy {other} of service `{service}` already has the name `{name}`", "name")
    if around.updating and policy.get("id") is None:
        yield Failure(3002, "an update needs the policy's id", "id", type=MISSING)
    elif around.updating and stored is None:
        yield Failure(3004, f"policy with id {policy.get('id')} does not exist", "id")
    if not service:
        yield Failure(3002, "a policy needs a service", "service", type=MISSING)
    elif around.service is None:
        yield Failure(3007, f"service `{service}` does not exist", "service")
    elif around.definition is None:
        yield Failure(3009, f"the definition of service `{service}` is not stored", "service")
    elif policy.get("serviceType") and policy["serviceType"] != around.definition.name:
        reason = f"service `{service}` is of type `{around.definition.name}`, not `{policy['serviceType']}`"
        yield Failure(4009, reason, "serviceType")
    if stored is not None:
        if service and stored.get("service") != service:
            reason = (
                f"policy {stored.get('id')} cannot be moved from `{stored.get('service')}` to `{service}`"
            )
            yield Failure(3027, reason, "service")
        if (stored.get("policyType") or 0) != policy["policyType"]:
            yield Failure(3028, f"the type of policy {stored.get('id')} cannot be changed", "policyType")
        if (stored.get("zoneName") or "") != policy["zoneName"]:
            yield Failure(3032, f"the zone of policy {stored.get('id')} cannot be changed", "zoneName")
    yield from _zone(policy, around)


def _zone(policy: Mapping[str, Any], around: Surroundings) -> Iterator[Failure]:
    zone, service = policy["zoneName"], policy.get("service")
    if not zone:
        return
    if around.zone is None:
        yield Failure(3033, f"zone `{zone}` does not exist", "zoneName")
    elif service not in (around.zone.get("services") or {}) and service not in (
        around.zone.get("tagServices") or []
    ):
        yield Failure(3048, f"service `{service}` does not belong to zone `{zone}`", "zoneName")


def _resources(policy: Mapping[str, Any], around: Surroundings, definition: ServiceType) -> Iterator[Failure]:
    if not policy["resources"] or not all(policy["additionalResources"]):
        yield Failure(3026, "a policy needs resources", "resources", type=MISSING)
    for resources in (policy["resources"], *policy["additionalResources"]):
        if resources:
            yield from resource_failures(resources, definition, policy["policyType"])
            if not around.administrator and any((one or {}).get("isExcludes") for one in resources.values()):
                yield Failure(3016, "excluding resources needs an administrator", "isExcludes")
    if policy["isEnabled"] and around.same_resources is not None:
        other, service = around.same_resources, policy.get("service")
        reason = f"policy `{other.get('name')}` of service `{service}` has the same resources"
        yield Failure(3010, reason, "resources")


def resource_failures(
    resources: Mapping[str, Any], definition: ServiceType, type_: int = ACCESS
) -> Iterator[Failure]:
    """Yield what is wrong with one resource map."""
    levels, keys = definition.levels(type_), set(resources)
    ways = definition.hierarchies(type_)
    fitting = [way for way in ways if keys <= set(way)]
    if not fitting:
        yield Failure(_plural(ways, 3011, 3024), _fits(definition, type_, ways), "resources", ", ".join(keys))
    elif not any(
        all(name in keys or not levels[name].mandatory for name in way) for way in fitting
    ) or not any(keys == set(way[: len(keys)]) for way in fitting):
        # Ranger takes a gap where the missing level is not mandatory; its engine then matches nothing.
        absent = ", ".join(sorted({name for way in fitting for name in way} - keys))
        code = _plural(fitting, 3012, 3025)
        yield Failure(code, _fits(definition, type_, fitting), "resources", absent, MISSING)
    for name, one in resources.items():
        level = levels.get(name)
        values = (one or {}).get("values") or []
        if not values or any(value is None or not value.strip() for value in values):
            yield Failure(3026, f"resource `{name}` needs values", "resources", name, MISSING)
        twice = [value for value, count in Counter(v for v in values if v).items() if count > 1]
        if twice:
            yield Failure(3056, f"resource `{name}` lists `{twice[0]}` twice", "resources", name)
        if level is None or one is None:
            continue
        if one["isExcludes"] and not level.excludes_supported:
            yield Failure(3015, f"resource `{name}` cannot be excluded", "isExcludes", name)
        if one["isRecursive"] and not level.recursive_supported:
            yield Failure(3017, f"resource `{name}` cannot be recursive", "isRecursive", name)
        if level.pattern:
            yield from _pattern(name, level.pattern, [v for v in values if v])


def _pattern(name: str, pattern: str, values: Sequence[str]) -> Iterator[Failure]:
    for value in values:
        try:
            if matches(pattern, value):
                continue
            reason = f"`{value}` is not a valid value of resource `{name}`"
        except NotTaken as found:
            reason = f"values of resource `{name}` cannot be validated: {found} in its expression"
        yield Failure(3018, reason, "resources", name)


def _plural(ways: Sequence[object], several: int, single: int) -> int:
    return single if len(ways) == 1 else several


def _fits(definition: ServiceType, type_: int, ways: Sequence[Sequence[str]]) -> str:
    sets = " or ".join("{" + ", ".join(way) + "}" for way in ways) or "nothing"
    return f"a {_TYPES.get(type_, type_)} policy of `{definition.name}` takes resources {sets}"


def _items(policy: Mapping[str, Any], definition: ServiceType) -> Iterator[Failure]:
    type_ = policy["policyType"]
    given = [name for name in ALL_ITEM_LISTS if policy.get(name)]
    if not given and not policy["isAuditEnabled"]:
        yield Failure(3008, "a policy without items needs audit logging", "policyItems", type=MISSING)
    for name in given:
        if name not in _LISTS_OF[type_]:
            yield Failure(UNENFORCED, f"a {_TYPES[type_]} policy does not use `{name}`", name)
        elif name in _DENYING and not definition.definition.deny_enabled:
            yield Failure(UNENFORCED, f"policies of `{definition.name}` do not use `{name}`", name)
        for i, item in enumerate(policy[name]):
            yield from _item(item, f"{name}[{i}]", type_, definition)
    if policy["isDenyAllElse"]:
        if type_ != ACCESS:
            yield Failure(
                UNENFORCED, f"a {_TYPES[type_]} policy does not use `isDenyAllElse`", "isDenyAllElse"
            )
        if policy["denyPolicyItems"] or policy["denyExceptions"]:
            reason = "a policy with `isDenyAllElse` cannot have deny items or deny exceptions"
            yield Failure(3049, reason, "policy items")


def _item(item: Mapping[str, Any], where: str, type_: int, definition: ServiceType) -> Iterator[Failure]:
    if not (item["users"] or item["groups"] or item["roles"]):
        yield Failure(3020, "an item needs users, groups or roles", where, "users/groups/roles", MISSING)
    for kind, code in (("users", 3053), ("groups", 3054), ("roles", 3055)):
        if any(name is None or not name.strip() for name in item[kind]):
            yield Failure(code, f"{kind} of an item contain an empty name", where, kind)
        if any(count > 1 for count in Counter(item[kind]).values()):
            yield Failure(3056, f"{kind} of an item contain a name twice", where, kind)
    known = definition.accesses(type_)
    if not item["accesses"] and not item["delegateAdmin"]:
        yield Failure(4010, "an item needs accesses", where, "accesses", MISSING)
    for access in item["accesses"]:
        name = (access or {}).get("type")
        if not name:
            yield Failure(4010, "an access needs a type", where, "access type", MISSING)
        elif name.lower() not in known:
            reason = f"unknown access type `{name}`; known: {', '.join(known.values())}"
            yield Failure(3022, reason, where, "access type")
        if access and not access["isAllowed"]:
            reason = "an access cannot have `isAllowed: false`; use a deny item"
            yield Failure(3023, reason, where, "access type allowed")
    yield from _conditions(item["conditions"], definition, where)
    if "dataMaskInfo" in item and type_ == MASK:
        yield from _mask(item["dataMaskInfo"], where, definition)
    if "rowFilterInfo" in item and type_ == ROW_FILTER:
        text = (item["rowFilterInfo"] or {}).get("filterExpr")
        if text is None:
            yield Failure(BAD_TEXT, "a filter item needs `filterExpr`", where, "filterExpr", MISSING)


def _mask(info: Mapping[str, Any] | None, where: str, definition: ServiceType) -> Iterator[Failure]:
    name = (info or {}).get("dataMaskType")
    if not name:
        yield Failure(UNKNOWN_MASK, "a mask item needs a mask type", where, "dataMaskType", MISSING)
    elif name not in definition.masks:
        reason = f"unknown mask type `{name}`; known: {', '.join(sorted(definition.masks))}"
        yield Failure(UNKNOWN_MASK, reason, where, "dataMaskType")


def _conditions(
    conditions: Sequence[Mapping[str, Any] | None], definition: ServiceType, where: str
) -> Iterator[Failure]:
    for condition in conditions:
        name = (condition or {}).get("type")
        if condition is None or not name:
            yield Failure(UNKNOWN_CONDITION, "a condition needs a type", where, "conditions", MISSING)
        elif name not in definition.conditions:
            known = ", ".join(definition.conditions) or "none"
            reason = f"`{definition.name}` has no condition `{name}`; known: {known}"
            yield Failure(UNKNOWN_CONDITION, reason, where, "conditions")
