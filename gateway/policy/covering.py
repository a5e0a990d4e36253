"""Whether somebody has a right on all that a policy covers: asked on names that only that matches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from gateway.model.context import AccessContext
from gateway.model.policy import Policy, PolicySet, ResourceSet, ResourceValues
from gateway.model.principal import Principal
from gateway.model.resource import ADMIN_ACCESS, AccessRequest, Resource
from gateway.policy.engine import engine_for

MAX_COMBINATIONS = 4096
"""Resources that one policy may name before a delegated administrator may not write it."""
_MAX_READ = 64
"""As `MAX_COMBINATIONS`, before a delegated administrator is not shown it in a list."""
_STRANGE = "\ue000\ue001"
"""Characters for private use: no name of a table has them, so that only a wildcard can match them."""


def list_covering(
    sets: Iterable[ResourceSet], places: Mapping[str, int], most: int = MAX_COMBINATIONS
) -> list[Resource] | None:
    """Return resources that are allowed exactly when all that the sets cover is; None: too many. `places`:
    level name → its place from the root down."""
    found: list[Resource] = []
    for resources in sets:
        names = sorted(resources, key=lambda name: places.get(name, 0))
        levels = [[(name, text) for text in _probes(resources[name])] for name in names]
        combinations = 1
        for level in levels:
            combinations *= len(level)
        if combinations + len(found) > most:
            return None
        found += [Resource(elements) for elements in product(*levels)]
    return found if all(resource.elements for resource in found) else None


def _probes(values: ResourceValues) -> Iterator[str]:
    """Yield texts which are all matched only by a pattern that matches everything the values do."""
    if values.excludes:
        # Everything but something: whoever delegates must cover everything.
        yield "*"
        return
    for value in dict.fromkeys(values.values):
        if not value.strip("*"):
            yield "*"
            continue
        texts = [value.replace("?", _STRANGE[0])]
        if "*" in value:
            # Longer than any number of `?`s that a delegating pattern may have.
            texts = [text.replace("*", stuffing) for text in texts for stuffing in ("", _STRANGE * 512)]
        for text in texts:
            yield text
            if values.recursive:
                yield text.rstrip("/") + "/" + _STRANGE


def knows_resources(
    policies: PolicySet, principal: Principal, policy: Policy, context: AccessContext
) -> bool:
    """Whether somebody may know of all that a policy names. Tags tell of no resource."""
    service = policies.services.get(policy.service)
    if service is None:
        return True
    places = {level.name: level.level for level in service.definition.resources}
    resources = list_covering((policy.resources, *policy.additional_resources), places, _MAX_READ)
    visible = engine_for(policies).visible
    return bool(resources) and all(visible(principal, resource, context) for resource in resources or ())


def administers(policies: PolicySet, principal: Principal, policy: Policy, context: AccessContext) -> bool:
    """Whether somebody is a delegated administrator, by the policies in force, of all that one covers."""
    service = policies.services.get(policy.service)
    if service is None:  # one on tags, which nobody administers by delegation
        return False
    places = {level.name: level.level for level in service.definition.resources}
    resources = list_covering((policy.resources, *policy.additional_resources), places, _MAX_READ)
    if not resources:
        return False
    engine = engine_for(policies)
    for resource in resources:
        request = AccessRequest(
            principal=principal,
            resource=resource,
            access=ADMIN_ACCESS,
            context=context,
            service=policy.service,
        )
        decision = engine.decide(request)
        if not decision.allowed or decision.zone != policy.zone:  # RULE (console-delegate-covers)
            return False
    return True
