"""Policies that cannot be loaded: each closes what it is about, and holds no other policy back.

A mask that is no expression cannot be put in force, nor can a policy whose script is none; and leaving it out
would show what it hides. Nor may the policies that came with it wait: a revocation is among them sooner or
later. So an access policy stands in its place that denies everybody everything there, until somebody mends
it. Beside it stands one that hides all: NULL, or no row. For a view that an operator vouches for is read by
nobody's access, and no denial holds there. Where a denial would not mean the same, what hides stands alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from gateway.model.policy import (
    FileLine,
    FilterItem,
    MaskItem,
    Policy,
    PolicyItem,
    PolicySet,
    PolicyType,
    ResourceDef,
    ResourceSet,
    ResourceValues,
    Service,
    ServiceDef,
    Sharing,
)
from gateway.policy.globs import has_wildcard
from gateway.policy.hierarchy import hierarchies_of, hierarchy_to
from gateway.policy.subjects import PUBLIC

OVERRIDE = 1
"""Policies of this priority are asked first, so that none that overrides others opens what is closed here."""
_EVERYBODY = frozenset({PUBLIC})
_COLUMN = "column"
_EVERY = ResourceValues(values=())
"""Levels without values match whatever is there, also those that know no wildcards."""


def build_invalid_policy(
    policy: Policy | None,
    faults: tuple[str, ...],
    *,
    service: str,
    zone: str,
    guards: bool,
    named: bool,
) -> Policy:
    """Return what could be read of a policy at fault: what it is about, and why it is not in force.

    It is switched off where nothing is to be closed for it: it only allows (`guards` is false), or says of
    nothing what it is about (`named` is false).
    """
    if policy is None:
        policy = Policy(id=-1, name="", service=service, type=PolicyType.ACCESS, resources={}, zone=zone)
    return replace(
        policy,
        enabled=policy.enabled and guards and named,  # RULE (broken-allowing-policy)
        allow=(),
        deny=(),
        allow_exceptions=(),
        deny_exceptions=(),
        masks=(),
        filters=(),
        conditions=(),
        schedules=(),
        deny_all_else=False,
        broken=faults,
    )


def build_duplicate_policy(policy: Policy, faults: tuple[str, ...]) -> Policy:
    """Return what a policy is about that has the name or the id of another one, and the faults."""
    if policy.broken:
        return replace(policy, broken=(*policy.broken, *faults))
    guards = bool(policy.deny or policy.deny_all_else or policy.masks or policy.filters)
    return build_invalid_policy(
        policy, faults, service=policy.service, zone=policy.zone, guards=guards, named=True
    )


def list_invalid_policies(policies: PolicySet) -> list[Policy]:
    """Return the policies that could not be read, also those that are switched off."""
    return [policy for policy in policies.policies() if policy.broken]


def can_deny(policy: Policy, service: Service) -> bool:
    """Whether a denial can close all that a policy of a service is about, and nothing else.

    Not where policies cannot deny; nor where masks or filters match their levels by other rules than access
    policies do, and these values would mean something else.
    """
    on_tags = _on_tags(policy, service)
    definition = service.tags.definition if on_tags and service.tags is not None else service.definition
    if not definition.deny_enabled:
        return False
    if policy.type is PolicyType.ACCESS:
        return True
    overlay = definition.mask_resources if policy.type is PolicyType.MASK else definition.filter_resources
    if overlay is None or on_tags:
        return True
    return not any(
        values.excludes or any(map(has_wildcard, values.values))
        for resources in (policy.resources, *policy.additional_resources)
        for values in resources.values()
    )


def _on_tags(policy: Policy, service: Service) -> bool:
    return service.tags is not None and any(one is policy for one in service.tags.policies)


def with_closed(policies: PolicySet, unusable: Collection[Policy]) -> PolicySet:
    """Return the policies with what closes in the place of each unusable one. Those are told by identity."""
    ids = {id(policy) for policy in unusable if policy.enabled}
    if not ids:
        return policies

    def close_policies(
        service: Service, found: tuple[Policy, ...], definition: ServiceDef
    ) -> tuple[Policy, ...]:
        # Policies on tags have the access types of the service that they are for.
        accesses = frozenset(access.name for access in service.definition.access_types) - {"all"}
        made: list[Policy] = []
        for one in found:
            if id(one) not in ids:
                made.append(one)
                continue
            if can_deny(one, service):  # RULE (closing-without-denial)
                put = [  # RULE (closing-hides)
                    _denial(one, definition, accesses),
                    _build_hiding(one, service),
                ]
            elif one.broken:  # RULE (broken-mask-hides)
                put = _build_hiding_all(one, service.definition, definition)
            else:
                put = [build_hiding_policy(one, service.definition)]
            # RULE (closing-every-zone)
            zones = ("", *(zone.name for zone in service.zones)) if one.every_zone else (one.zone,)
            made += [replace(policy, zone=zone, every_zone=False) for zone in zones for policy in put]
        return tuple(made)

    services = {}
    for name, service in policies.services.items():
        tags = service.tags
        if tags is not None:
            tags = replace(tags, policies=close_policies(service, tags.policies, tags.definition))
        sharing = service.sharing
        if sharing is not None and any(id(one) in ids for one in sharing.obligations()):
            sharing = _build_shared(sharing, ids, service.definition)
        own = close_policies(service, service.policies, service.definition)
        services[name] = replace(service, policies=own, tags=tags, sharing=sharing)
    return replace(policies, services=services)


def build_closing_policy(
    name: str,
    sets: Sequence[ResourceSet],
    faults: tuple[str, ...],
    *,
    service: str,
    who: PolicyItem | None = None,
    place: FileLine | None = None,
) -> Policy:
    """Return a policy at fault that stands for a part of a service which is no policy: it closes resources,
    in whatever zone, to everybody or to `who`. No sets are everything."""
    first, *others = sets or [{}]
    return Policy(
        id=-1,
        name=name,
        service=service,
        type=PolicyType.ACCESS,
        resources=first,
        additional_resources=tuple(others),
        deny=() if who is None else (who,),
        broken=faults,
        every_zone=True,
        place=place,
    )


def _build_hiding_all(policy: Policy, accesses: ServiceDef, definition: ServiceDef) -> list[Policy]:
    """Return what hides all that something at fault may be about where no denial does. Of one about access
    nobody can tell whether it was to be."""
    types = (PolicyType.MASK, PolicyType.ROW_FILTER) if policy.type is PolicyType.ACCESS else (policy.type,)
    made = []
    for type_ in types:
        levels = definition.levels(type_)
        names = {level.name for level in levels}
        first, *others = [
            one
            for resources in (policy.resources, *policy.additional_resources)
            for one in _sets({name: v for name, v in resources.items() if name in names}, levels)
        ]
        wide = replace(policy, type=type_, resources=first, additional_resources=tuple(others))
        made.append(build_hiding_policy(wide, accesses))
    return made


def _list_closed_to(policy: Policy) -> PolicyItem:
    """Return to whom something at fault is closed."""
    return policy.deny[0] if policy.broken and policy.deny else PolicyItem(groups=_EVERYBODY)


def build_hiding_policy(policy: Policy, definition: ServiceDef) -> Policy:
    """Return a policy of the same type on the same resources that hides all: NULL, or no row. One that is
    about access allows nothing."""
    made = replace(
        policy,
        name=_describe_policy(policy),
        priority=OVERRIDE,
        broken=(),
        conditions=(),
        schedules=(),
        deny=(),
    )
    who = _list_closed_to(policy)
    if policy.type is PolicyType.MASK:
        null = MaskItem(
            users=who.users,
            groups=who.groups,
            accesses=definition.mask_accesses,
            mask_type="MASK_NULL",
        )
        return replace(made, masks=(null,))
    if policy.type is PolicyType.ROW_FILTER:
        none = FilterItem(
            users=who.users,
            groups=who.groups,
            accesses=definition.filter_accesses,
            filter_expression="FALSE",
        )
        return replace(made, filters=(none,))
    return made


def _build_hiding(policy: Policy, service: Service) -> Policy:
    """Return what hides all that a denial closes, from those, too, whom another's access shows it.

    Of what cannot be read it is not known whether it was a mask or a filter. What names columns could have
    been a mask of these; anything else, a filter.
    """
    if _on_tags(policy, service):
        type_ = PolicyType.MASK if policy.type is PolicyType.ACCESS else policy.type
        return build_hiding_policy(replace(policy, type=type_), service.definition)
    sets = _list_closed_sets(policy, service.definition.resources)
    if policy.type is PolicyType.ACCESS:
        named = all(_COLUMN in one and one[_COLUMN].values for one in sets)
        type_ = PolicyType.MASK if named else PolicyType.ROW_FILTER
    else:
        type_ = policy.type
    if type_ is PolicyType.ROW_FILTER:
        sets = [one for one in sets if _COLUMN not in one] or [
            {name: values for name, values in one.items() if name != _COLUMN} for one in sets
        ]
    first, *others = sets
    made = replace(policy, type=type_, resources=first, additional_resources=tuple(others))
    return build_hiding_policy(made, service.definition)


def _build_shared(sharing: Sharing, ids: Collection[int], definition: ServiceDef) -> Sharing:
    def hide(policy: Policy) -> Policy:
        return build_hiding_policy(policy, definition) if id(policy) in ids else policy

    return replace(
        sharing,
        shares=tuple(
            replace(
                share,
                resources=tuple(
                    replace(
                        one,
                        masks=tuple(map(hide, one.masks)),
                        rows=None if one.rows is None else hide(one.rows),
                    )
                    for one in share.resources
                ),
            )
            for share in sharing.shares
        ),
    )


def _describe_policy(policy: Policy) -> str:
    why = "it cannot be loaded" if policy.broken else "its text cannot be used"
    return f"{policy.name} (closed: {why})"


def _denial(policy: Policy, definition: ServiceDef, accesses: frozenset[str]) -> Policy:
    first, *others = _list_closed_sets(policy, definition.resources)
    who = _list_closed_to(policy)
    return Policy(
        id=policy.id,
        name=_describe_policy(policy),
        service=policy.service,
        type=PolicyType.ACCESS,
        resources=first,
        additional_resources=tuple(others),
        version=policy.version,
        enabled=policy.enabled,
        priority=OVERRIDE,
        deny=(replace(who, accesses=accesses, delegate_admin=True),),
        zone=policy.zone,
        guid=policy.guid,
        place=policy.place,
    )


def _list_closed_sets(policy: Policy, levels: Sequence[ResourceDef]) -> list[ResourceSet]:
    given = (policy.resources, *policy.additional_resources)
    return [one for resources in given for one in _sets(resources, levels)]


def _sets(resources: ResourceSet, levels: Sequence[ResourceDef]) -> Sequence[ResourceSet]:
    """Return what a denial has to name to close what a policy is about.

    A filter is about a table, and access is asked of its columns as well: what lies below is closed with it.
    A level that could not be read is any; where none could, it is everything.
    """
    hierarchies = hierarchies_of(levels)
    ways = [way for name in resources if (way := hierarchy_to(name, levels)) is not None]
    if not ways:
        return [dict.fromkeys(names, _EVERY) for names in hierarchies]
    longest: tuple[ResourceDef, ...] = max(ways, key=len)
    known = {level.name: resources[level.name] for level in longest if level.name in resources}
    known = {name: values for name, values in known.items() if values.values}
    order = [level.name for level in levels]
    # RULE (broken-policy-closes-below)
    found = sorted(sorted(names, key=order.index) for names in hierarchies if names >= known.keys())
    # RULE (broken-policy-closes)
    return [{name: known.get(name, _EVERY) for name in names} for names in found]
