"""GRANT and REVOKE as services send them: what a user of theirs gives to others, or takes from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from aiohttp import web

from gateway.admin.ranger import merging
from gateway.admin.ranger.access import Access
from gateway.admin.ranger.calls import ApiCall, Route, answer, bad_request, forbidden, not_found, parse_object
from gateway.admin.ranger.definitions import ServiceType
from gateway.admin.ranger.kinds import Body, ObjectKind
from gateway.admin.ranger.policy_changes import create_policy, update_policy
from gateway.admin.ranger.role_changes import roles_of
from gateway.admin.ranger.roles import groups_of
from gateway.admin.ranger.shapes import GRANT_REVOKE, POLICY
from gateway.admin.ranger.signature import policy_signature
from gateway.admin.ranger.transactions import WriteTransaction
from gateway.admin.ranger.zone_shapes import zones_of
from gateway.model.principal import Principal


def _route(*, grants: bool) -> Callable[[ApiCall], Any]:
    async def handle(call: ApiCall) -> web.Response:
        request = await call.parse_object(GRANT_REVOKE)

        async def change(writing: WriteTransaction, access: Access) -> None:
            service = await writing.find_named(ObjectKind.SERVICE, call.path("service"))
            if service is None:
                raise not_found(f"service `{call.path('service')}` does not exist")
            grantor = await _grantor(call, writing, service, request)
            definition = ServiceType(await writing.find_named(ObjectKind.SERVICE_DEF, service["type"]) or {})
            body = await _body(writing, service, definition, request)
            if grants:
                await _grant(access, writing, grantor, request, body)
            else:
                await _revoke(access, writing, grantor, request, body)

        await call.change(change)
        return answer({"statusCode": 0, "httpStatusCode": 200, "msgDesc": "done"})

    return handle


async def _grantor(
    call: ApiCall, writing: WriteTransaction, service: Body, request: Mapping[str, Any]
) -> Principal:
    """Return who grants: the caller, or whom a service's own administrator says that it acts for."""
    name = request.get("grantor") or call.user
    if name == call.user:
        return call.principal
    if not call.access.administers_service(call.principal, service):
        raise forbidden(f"user `{call.user}` may not grant or revoke for user `{name}`")
    groups = frozenset({*filter(None, request["grantorGroups"]), *await groups_of(writing, name)})
    roles = roles_of(await writing.all(ObjectKind.ROLE), name, groups)
    return replace(call.principal, user=name, id="", groups=groups, roles=frozenset(roles))


async def _body(
    writing: WriteTransaction, service: Body, definition: ServiceType, request: Mapping[str, Any]
) -> Body:
    """Return the policy that a grant would make. Raises RangerError 400."""
    if not any(filter(None, [*request["users"], *request["groups"], *request["roles"]])):
        raise bad_request("a grant needs users, groups or roles")
    if not request["accessTypes"] and not request["replaceExistingPermissions"]:
        raise bad_request("a grant needs access types")
    recursive = [level.name for level in definition.levels().values() if level.recursive_supported]
    resources = merging.build_granted_resources(request, recursive)
    if not resources:
        raise bad_request("a grant needs a resource")
    zone = request["zoneName"]
    if not zone:
        asked = {name: one["values"][0] for name, one in resources.items() if one["values"]}
        zones = zones_of(service["name"], asked, await writing.all(ObjectKind.ZONE), definition)
        zone = zones[0] if len(zones) == 1 else ""
    made = merging.build_grant_policy(
        {**request, "zoneName": zone},
        service=service["name"],
        service_type=service["type"],
        resources=resources,
        now_ms=writing.now_ms,
    )
    return parse_object(POLICY, made)


async def _find_existing(writing: WriteTransaction, body: Body) -> Body | None:
    found = await writing.list_by_signature(body["service"], policy_signature(body))
    return found[0] if found else None


async def _grant(
    access: Access, writing: WriteTransaction, grantor: Principal, request: Mapping[str, Any], body: Body
) -> None:
    stored = await _find_existing(writing, body)
    if stored is None:
        await create_policy(writing, access, grantor, await _unique(writing, body))
        return
    changed = parse_object(POLICY, merging.grant(stored, request))
    await update_policy(writing, access, grantor, stored, changed, check_version=False)


async def _unique(writing: WriteTransaction, body: Body) -> Body:
    """Return the policy under a name that is free: two grants may fall into one millisecond."""
    name, number = body["name"], 1
    while await writing.find_named(
        ObjectKind.POLICY, body["name"], service=body["service"], zone=body["zoneName"]
    ):
        number += 1
        body = {**body, "name": f"{name}-{number}"}
    return body


async def _revoke(
    access: Access, writing: WriteTransaction, grantor: Principal, request: Mapping[str, Any], body: Body
) -> None:
    stored = await _find_existing(writing, body)
    if stored is None:
        # Nothing was granted on exactly these resources; Ranger answers the same.
        return
    changed = parse_object(POLICY, merging.revoke(stored, request))
    await update_policy(writing, access, grantor, stored, changed, check_version=False)


ROUTES = tuple(
    Route("POST", f"/plugins/{secure}services/{verb}/{{service}}", _route(grants=verb == "grant"))
    for secure in ("", "secure/")
    for verb in ("grant", "revoke")
)
