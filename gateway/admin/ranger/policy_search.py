"""Policies that match a search and that the caller may read, looked through in portions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

from gateway.admin.ranger.calls import ApiCall
from gateway.admin.ranger.definitions import ServiceType
from gateway.admin.ranger.kinds import Body, ObjectKind
from gateway.admin.ranger.searching import Page, SearchContext, find_policies, for_resource, page
from gateway.admin.ranger.transactions import ReadTransaction

_UNBOUNDED = 1_000_000
_ORDERING = frozenset({"startIndex", "pageSize", "sortBy", "sortType"})
_PAGING = frozenset({"startIndex", "pageSize", "serviceName", "getCount"})
"""Parameters of a search that ask for a part of everything in its usual order."""


async def search_policies(call: ApiCall, parameters: Mapping[str, str]) -> Page:
    """Return what the caller may read of what the parameters ask for. Raises BadParameter."""
    async with call.store.reading() as reading:
        if call.access.is_administrator(call.principal) and not _selects(parameters):
            return await _page_of_all(reading, parameters)
        known = await load_lookups(reading)
        found: list[Body] = []
        async for portion in find_matching_policies(reading, parameters, known):
            found += await readable(call, reading, portion, known)
    return page(found, parameters, "policy")


async def policies_for_resource(
    call: ApiCall, reading: ReadTransaction, definition: str, service: str, resource: Mapping[str, str]
) -> list[Body]:
    """Return what the caller may read of the policies that touch a resource."""
    known = await load_lookups(reading)
    found: list[Body] = []
    async for portion in reading.policies(service=service or None):
        those = [policy for policy in portion if policy.get("serviceType") == definition]
        touching = await asyncio.to_thread(for_resource, those, resource, known)
        found += await readable(call, reading, [dict(policy) for policy in touching], known)
    return found


async def find_matching_policies(
    reading: ReadTransaction, parameters: Mapping[str, str], known: SearchContext
) -> AsyncIterator[list[Body]]:
    """Yield the policies that the parameters ask for, whatever part of them. Raises BadParameter."""
    unpaged = {name: text for name, text in parameters.items() if name not in _ORDERING}
    name = parameters.get("serviceName") or parameters.get("servicename")
    # With the tag service's policies asked for, too, the name alone does not tell which are wanted.
    alone = name if parameters.get("fetchTagPolicies", "").lower() != "true" else None
    find_policies([], parameters, known)
    async for portion in reading.policies(service=alone, name=parameters.get("policyName") or None):
        found = await asyncio.to_thread(find_policies, portion, unpaged, known, size=_UNBOUNDED)
        yield found.items


async def readable(
    call: ApiCall, reading: ReadTransaction, policies: Sequence[Body], known: SearchContext
) -> Sequence[Body]:
    """Return those of the policies that the caller may read."""
    if call.access.is_administrator(call.principal):
        return policies
    by_service: dict[str, list[Body]] = {}
    for policy in policies:
        by_service.setdefault(policy["service"], []).append(policy)
    found: list[Body] = []
    for name, those in by_service.items():
        service = known.services.get(name)
        if service is not None:
            found += await call.access.readable(reading, call.principal, dict(service), those)
    return found


async def load_lookups(reading: ReadTransaction) -> SearchContext:
    """Return what searches look up beside the policies."""
    return SearchContext(
        definitions={one["name"]: ServiceType(one) for one in await reading.all(ObjectKind.SERVICE_DEF)},
        services={one["name"]: one for one in await reading.all(ObjectKind.SERVICE)},
        zones={one["name"]: one for one in await reading.all(ObjectKind.ZONE)},
    )


def _selects(parameters: Mapping[str, str]) -> bool:
    """Say whether the parameters ask for less than all policies of a service, or for another order."""
    return any(text and name not in _PAGING for name, text in parameters.items())


async def _page_of_all(reading: ReadTransaction, parameters: Mapping[str, str]) -> Page:
    shape = page([], parameters, "policy")
    items, total = await reading.page_of_policies(
        shape.start, shape.size, service=parameters.get("serviceName") or None
    )
    return replace(shape, items=items, total=total)
