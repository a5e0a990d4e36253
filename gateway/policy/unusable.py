"""Policies whose texts cannot be used: each closes what it is about, and holds no other policy back.

A mask or a filter that is no expression cannot be put in force, and leaving it out would show what it hides.
Nor may the policies that came with it wait: a revocation is among them sooner or later. So an access policy
stands in its place that denies everybody everything there, until somebody mends the text.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from gateway.model.policy import (
    Policy,
    PolicyItem,
    PolicySet,
    PolicyType,
    ResourceSet,
    ResourceValues,
    Service,
)
from gateway.policy.globs import has_wildcard
from gateway.policy.subjects import PUBLIC

OVERRIDE = 1
"""Policies of this priority are asked first, so that none that overrides others opens what is closed here."""


def can_close(policy: Policy, service: Service) -> bool:
    """Whether a denial can close all that a policy of a service is about, and nothing else.

    Not where policies cannot deny; nor where masks or filters match their levels by other rules than access
    policies do, and these values would mean something else.
    """
    on_tags = service.tags is not None and any(one is policy for one in service.tags.policies)
    definition = service.tags.definition if on_tags and service.tags is not None else service.definition
    if not definition.deny_enabled:
        return False
    overlay = definition.mask_resources if policy.type is PolicyType.MASK else definition.filter_resources
    if overlay is None or on_tags:
        return True
    return not any(
        values.excludes or any(map(has_wildcard, values.values))
        for resources in (policy.resources, *policy.additional_resources)
        for values in resources.values()
    )


def with_closed(policies: PolicySet, unusable: Collection[Policy]) -> PolicySet:
    """Return the policies with a denial in the place of each unusable one. Those are told by identity."""
    ids = {id(policy) for policy in unusable}

    def closed(service: Service, accesses: frozenset[str], found: tuple[Policy, ...]) -> tuple[Policy, ...]:
        return tuple(_closing(one, service, accesses) if id(one) in ids else one for one in found)

    services = {}
    for name, service in policies.services.items():
        # Policies on tags have the access types of the service that they are for.
        accesses = frozenset(access.name for access in service.definition.access_types) - {"all"}
        tags = service.tags
        if tags is not None:
            tags = replace(tags, policies=closed(tags, accesses, tags.policies))
        services[name] = replace(service, policies=closed(service, accesses, service.policies), tags=tags)
    return replace(policies, services=services)


def _closing(policy: Policy, service: Service, accesses: frozenset[str]) -> Policy:
    def whole(resources: ResourceSet) -> tuple[ResourceSet, ...]:
        # A filter is about a table, and access is asked of its columns as well.
        levels = {level.name for level in service.definition.resources}
        if "column" not in levels or "column" in resources:
            return (resources,)
        return (resources, {**resources, "column": ResourceValues(values=("*",))})

    first, *others = [
        one for resources in (policy.resources, *policy.additional_resources) for one in whole(resources)
    ]
    return Policy(
        id=policy.id,
        name=f"{policy.name} (closed: its text cannot be used)",
        service=policy.service,
        type=PolicyType.ACCESS,
        resources=first,
        additional_resources=tuple(others),
        version=policy.version,
        enabled=policy.enabled,
        priority=OVERRIDE,
        deny=(PolicyItem(groups=frozenset({PUBLIC}), accesses=accesses),),
        zone=policy.zone,
        guid=policy.guid,
        place=policy.place,
    )
