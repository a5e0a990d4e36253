"""Policies: search, read, create, apply, update, delete, by id, by guid and by name."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from gateway.admin.ranger.access import Access
from gateway.admin.ranger.calls import (
    PUBLIC,
    ApiCall,
    Route,
    answer,
    bad_request,
    forbidden,
    no_content,
    not_found,
    one_object,
    with_unchecked,
)
from gateway.admin.ranger.kinds import Body, ObjectKind
from gateway.admin.ranger.policy_changes import (
    apply_policy,
    delete_policy,
    offer_policy,
    read_existing_policy_options,
    update_policy,
)
from gateway.admin.ranger.policy_search import (
    find_matching_policies,
    load_lookups,
    policies_for_resource,
    search_policies,
)
from gateway.admin.ranger.searching import resource_of
from gateway.admin.ranger.sending import send
from gateway.admin.ranger.shapes import POLICY
from gateway.admin.ranger.transactions import ReadTransaction, WriteTransaction

_MANY = 500
"""Policies beyond which an answer goes out in pieces."""


async def _list(call: ApiCall) -> web.StreamResponse:
    return await _tell(call, call.parameters())


async def _page(call: ApiCall) -> web.StreamResponse:
    return await _tell(call, call.parameters(), wrapped=True)


async def _tell(call: ApiCall, parameters: Mapping[str, str], *, wrapped: bool = False) -> web.StreamResponse:
    found = await search_policies(call, parameters)
    document = found.wrap_page("policies") if wrapped else found.items
    return await send(call.request, document) if len(found.items) > _MANY else answer(document)


async def _count(call: ApiCall) -> web.Response:
    return answer((await search_policies(call, {**call.parameters(), "startIndex": "0"})).total)


async def _list_of_service(call: ApiCall) -> web.StreamResponse:
    parameters = {**call.parameters(), "serviceName": call.path("service")}
    await _require_service(call, call.path("service"))
    return await _tell(call, parameters)


async def _page_of_service(call: ApiCall) -> web.StreamResponse:
    async with call.store.reading() as reading:
        service = await reading.get(ObjectKind.SERVICE, call.path_id())
    if service is None:
        raise not_found()
    parameters = {**call.parameters(), "serviceName": service["name"]}
    return await _tell(call, parameters, wrapped=True)


async def _require_service(call: ApiCall, name: str) -> None:
    async with call.store.reading() as reading:
        if await reading.find_named(ObjectKind.SERVICE, name) is None:
            raise not_found(f"service `{name}` does not exist")


async def _for_resource(call: ApiCall) -> web.Response:
    definition, resource = call.path("definition"), resource_of(call.parameters())
    async with call.store.reading() as reading:
        if await reading.find_named(ObjectKind.SERVICE_DEF, definition) is None:
            raise not_found(f"service definition `{definition}` does not exist")
        service = call.parameter("serviceName")
        return answer(await policies_for_resource(call, reading, definition, service, resource))


async def _get(call: ApiCall) -> web.Response:
    async with call.store.reading() as reading:
        policy = await _find_policy(call, reading)
        service = await reading.find_named(ObjectKind.SERVICE, policy["service"]) or {}
        if not await call.access.readable(reading, call.principal, service, [policy]):
            raise forbidden(f"user `{call.user}` may not read policy {policy['id']}")
        return answer(policy)


async def _create(call: ApiCall) -> web.Response:
    body = await call.parse_object(POLICY)

    async def offer(writing: WriteTransaction, access: Access) -> Body:
        return await offer_policy(writing, access, call.principal, body, **read_existing_policy_options(call))

    return with_unchecked(call, answer(await call.change(offer)))


async def _apply(call: ApiCall) -> web.Response:
    body = await call.parse_object(POLICY)
    overwrite = call.flag("updateIfExists") or not call.flag("mergeIfExists", default=True)

    async def apply(writing: WriteTransaction, access: Access) -> Body:
        return await apply_policy(writing, access, call.principal, body, overwrite=overwrite)

    return with_unchecked(call, answer(await call.change(apply)))


async def _update(call: ApiCall) -> web.Response:
    body = await call.parse_object(POLICY)

    async def update(writing: WriteTransaction, access: Access) -> Body:
        before = await _find_policy(call, writing)
        match call.request.match_info:
            case {"service": name} if body.get("service") not in (None, "", name):
                raise bad_request("service name mismatch: the path and the body name different services")
            case {"service": _}:
                # By name the path says which policy it is; an id that a body brings from elsewhere does not.
                pass
            case _ if body.get("id") not in (None, before["id"]):
                raise bad_request("policyID mismatch: the path and the body name different policies")
        after = {**body, "service": body.get("service") or before["service"]}
        return await update_policy(writing, access, call.principal, before, after)

    return with_unchecked(call, answer(await call.change(update)))


async def _delete(call: ApiCall) -> web.Response:
    async with call.store.writing(call.user) as writing:
        stored = await _find_policy(call, writing)
        await delete_policy(writing, call.access, call.principal, stored)
    return no_content()


async def _delete_by_parameters(call: ApiCall) -> web.Response:
    service = call.parameter("servicename") or call.parameter("serviceName")
    name = call.parameter("policyname") or call.parameter("policyName")
    if not service or not name:
        raise bad_request("deleting a policy by name needs `servicename` and `policyname`")
    async with call.store.writing(call.user) as writing:
        stored = await writing.find_named(
            ObjectKind.POLICY, name, service=service, zone=call.parameter("zoneName")
        )
        if stored is None:
            raise not_found()
        await delete_policy(writing, call.access, call.principal, stored)
    return no_content()


async def _delete_many(call: ApiCall) -> web.Response:
    """Delete every policy that the filters find, or none when one of them may not be deleted."""
    parameters = call.parameters()
    if not parameters.get("serviceName"):
        raise bad_request("deleting policies in bulk needs `serviceName`")
    async with call.store.writing(call.user) as writing:
        if await writing.find_named(ObjectKind.SERVICE, parameters["serviceName"]) is None:
            raise not_found(f"service `{parameters['serviceName']}` does not exist")
        portions = find_matching_policies(writing, parameters, await load_lookups(writing))
        found = [policy async for portion in portions for policy in portion]
        for policy in found:
            await delete_policy(writing, call.access, call.principal, policy)
        return answer([policy["id"] for policy in found])


async def _history(call: ApiCall) -> web.Response:
    """Tell the policy as it was at a version or at a time."""
    async with call.store.reading() as reading:
        past = await reading.history(ObjectKind.POLICY, call.path_id())
        states = [entry for entry in past if entry.after is not None]
        match call.request.match_info:
            case {"version": _}:
                version = call.path_id("version")
                states = [entry for entry in states if entry.version == version]
            case _:
                moment = call.number("eventTime", 10**18)
                states = [entry for entry in states if entry.time.timestamp() * 1000 <= moment]
        policy = states[-1].after if states else None
        if policy is None:
            raise not_found()
        service = await reading.find_named(ObjectKind.SERVICE, policy["service"])
        if service is None:
            call.require_administrator("read policies of a deleted service")
        elif not await call.access.readable(reading, call.principal, service, [policy]):
            raise forbidden(f"user `{call.user}` may not read policy {policy['id']}")
        return answer(policy)


async def _versions(call: ApiCall) -> web.Response:
    call.require_administrator("read the history of policies")
    async with call.store.reading() as reading:
        past = await reading.history(ObjectKind.POLICY, call.path_id())
    versions = [str(entry.version) for entry in past if entry.after is not None]
    return answer({"value": ",".join(versions)})


async def _find_policy(call: ApiCall, reading: ReadTransaction) -> Body:
    """Return the policy that the path names. Raises RangerError 404."""
    match call.request.match_info:
        case {"service": service, "name": name}:
            found = await reading.find_named(
                ObjectKind.POLICY, name, service=service, zone=call.parameter("zoneName")
            )
        case {"guid": guid}:
            zone = call.parameter("zoneName") or call.parameter("ZoneName")
            found = await reading.by_guid(
                ObjectKind.POLICY, guid, service=call.parameter("serviceName"), zone=zone
            )
        case _:
            found = await reading.get(ObjectKind.POLICY, call.path_id())
    if found is None:
        raise not_found()
    return found


ROUTES = (
    Route("GET", f"{PUBLIC}/policy", _list),
    Route("POST", f"{PUBLIC}/policy", _create),
    Route("DELETE", f"{PUBLIC}/policy", _delete_by_parameters),
    Route("POST", f"{PUBLIC}/policy/apply", _apply),
    *one_object(f"{PUBLIC}/policy/guid", _get, _update, _delete, ["{guid}"]),
    *one_object(f"{PUBLIC}/policy", _get, _update, _delete, ["{id}"]),
    Route("GET", f"{PUBLIC}/service/{{service}}/policy", _list_of_service),
    *one_object(f"{PUBLIC}/service/{{service}}/policy", _get, _update, _delete, ["{name}"]),
    Route("GET", f"{PUBLIC}/policies/{{definition}}/for-resource", _for_resource),
    Route("DELETE", f"{PUBLIC}/policies/bulk", _delete_many),
    Route("GET", "/plugins/policies", _page),
    Route("POST", "/plugins/policies", _create),
    Route("GET", "/plugins/policies/count", _count),
    Route("POST", "/plugins/policies/apply", _apply),
    Route("GET", "/plugins/policies/service/{id}", _page_of_service),
    Route("GET", "/plugins/policies/{id}/eventTime", _history),
    Route("GET", "/plugins/policy/{id}/versionList", _versions),
    Route("GET", "/plugins/policy/{id}/version/{version}", _history),
    *one_object("/plugins/policies", _get, _update, _delete, ["{id}"]),
)
