"""Roles: who is in them, who keeps them, and grants of membership.

Administrators change everything; an administrator of a role (`isAdmin`) changes its members.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from aiohttp import web

from gateway.admin.ranger.calls import (
    PUBLIC,
    ApiCall,
    Route,
    answer,
    bad_request,
    find_named,
    forbidden,
    no_content,
    not_found,
    parse_object,
    refuse,
)
from gateway.admin.ranger.json_fields import show
from gateway.admin.ranger.kinds import Body, ObjectKind, What
from gateway.admin.ranger.listing import build_list_handler, build_page_handler
from gateway.admin.ranger.role_changes import (
    roles_of,
    with_members,
    without_admin,
    without_members,
)
from gateway.admin.ranger.shapes import ALL_ITEM_LISTS, GRANT_REVOKE_ROLE, KINDS, MEMBERS_CHANGE, ROLE
from gateway.admin.ranger.transactions import ReadTransaction, WriteTransaction
from gateway.admin.ranger.validation import MISSING, Failure


async def _readable(call: ApiCall, reading: ReadTransaction) -> list[Body]:
    """Return the roles that the caller may see: an administrator all, others those they are in or keep."""
    roles = await reading.all(ObjectKind.ROLE)
    if call.access.is_administrator(call.principal):
        return roles
    own = roles_of(roles, call.user, call.principal.groups)
    kept = roles_of(roles, call.user, call.principal.groups, admin=True)
    return [role for role in roles if role["name"] in own | kept]


async def _get(call: ApiCall) -> web.Response:
    async with call.store.reading() as reading:
        role = await find_named(call, reading, ObjectKind.ROLE)
        if role["name"] not in {one["name"] for one in await _readable(call, reading)}:
            raise forbidden(f"user `{call.user}` may not read role `{role['name']}`")
        return answer(role)


async def _create(call: ApiCall) -> web.Response:
    call.require_administrator("create roles")
    body = await call.parse_object(ROLE)
    async with call.store.writing(call.user) as writing:
        return answer(await create_role(writing, body))


async def create_role(writing: WriteTransaction, body: Body) -> Body:
    """Check and store a new role. Raises RangerError 400."""
    refuse(role_failures(body, others=await writing.all(ObjectKind.ROLE)))
    made = await writing.create(ObjectKind.ROLE, {**show(body), "createdByUser": writing.who})
    await writing.bump_all(What.ROLE)
    return made


async def _update(call: ApiCall) -> web.Response:
    call.require_administrator("change roles")
    body = await call.parse_object(ROLE)
    async with call.store.writing(call.user) as writing:
        stored = await find_named(call, writing, ObjectKind.ROLE)
        if body.get("id") not in (None, stored["id"]):
            raise bad_request("roleID mismatch: the path and the body name different roles")
        return answer(await replace_role(writing, stored, body))


async def replace_role(
    writing: WriteTransaction, stored: Body, body: Body, *, check_version: bool = True
) -> Body:
    """Check a role and put it in the place of the stored one. Raises RangerError 400 and Conflict."""
    others = [one for one in await writing.all(ObjectKind.ROLE) if one["id"] != stored["id"]]
    body = {**body, "id": stored["id"], "createdByUser": stored.get("createdByUser")}
    refuse(role_failures(body, others=others, stored=stored, updating=True))
    if body["name"] != stored["name"]:
        await _refuse_used(writing, stored["name"], "renamed")
    made = await writing.update(ObjectKind.ROLE, stored, show(body), check_version=check_version)
    await writing.bump_all(What.ROLE)
    return made


async def _delete(call: ApiCall) -> web.Response:
    call.require_administrator("delete roles")
    async with call.store.writing(call.user) as writing:
        stored = await find_named(call, writing, ObjectKind.ROLE)
        await _refuse_used(writing, stored["name"], "deleted")
        await writing.delete(ObjectKind.ROLE, stored)
        await writing.bump_all(What.ROLE)
    return no_content()


async def _refuse_used(writing: WriteTransaction, name: str, what: str) -> None:
    """Raise RangerError 400 while something names the role: what it grants must not change hands unseen."""
    for role in await writing.all(ObjectKind.ROLE):
        if any(member["name"] == name for member in role.get("roles") or ()):
            raise bad_request(f"role `{name}` cannot be {what}: role `{role['name']}` contains it")
    for zone in await writing.all(ObjectKind.ZONE):
        if name in [*(zone.get("adminRoles") or ()), *(zone.get("auditRoles") or ())]:
            raise bad_request(f"role `{name}` cannot be {what}: zone `{zone['name']}` uses it")
    policy = await asyncio.to_thread(_list_policies_naming, name, await writing.all(ObjectKind.POLICY))
    if policy is not None:
        where = f"policy `{policy['name']}` of service `{policy['service']}`"
        raise bad_request(f"role `{name}` cannot be {what}: {where} uses it")


def _list_policies_naming(role: str, policies: Iterable[Body]) -> Body | None:
    return next(
        (
            policy
            for policy in policies
            if any(
                role in (item.get("roles") or ())
                for name in ALL_ITEM_LISTS
                for item in policy.get(name) or ()
            )
        ),
        None,
    )


async def _names(call: ApiCall) -> web.Response:
    """Tell the names of all roles to administrators, to others those of the roles that they may see."""
    user = call.parameter("execUser")
    async with call.store.reading() as reading:
        roles = await _readable(call, reading)
        if user and user != call.user:
            await _require_trust(call, reading, call.parameter("serviceName"), user)
            if user not in call.access.rights.administrators:
                names = roles_of(await reading.all(ObjectKind.ROLE), user, await groups_of(reading, user))
                return answer(sorted(names))
    return answer(sorted(role["name"] for role in roles))


async def _names_of_user(call: ApiCall) -> web.Response:
    user = call.path("name")
    async with call.store.reading() as reading:
        if user != call.user:
            await _require_trust(call, reading, call.parameter("serviceName"), user)
        groups = await groups_of(reading, user)
        if user == call.user:
            groups |= call.principal.groups
        return answer(sorted(roles_of(await reading.all(ObjectKind.ROLE), user, groups)))


async def groups_of(reading: ReadTransaction, user: str) -> frozenset[str]:
    """Return the groups that the store knows a user to be in."""
    stored = await reading.find_named(ObjectKind.USER, user)
    if stored is None:
        return frozenset()
    memberships = await reading.all(ObjectKind.GROUP_USER)
    return frozenset(str(m["name"]) for m in memberships if m.get("userId") == stored["id"])


async def _require_trust(call: ApiCall, reading: ReadTransaction, service_name: str, user: str) -> None:
    """Raise RangerError 403 unless the caller may speak for another user, as a service's administrator."""
    if call.access.is_administrator(call.principal):
        return
    service = await reading.find_named(ObjectKind.SERVICE, service_name) if service_name else None
    if service is None or not call.access.administers_service(call.principal, service):
        raise forbidden(f"user `{call.user}` may not make this request for user `{user}`")


def _members_route(change: Callable[..., Body], *, admin: bool = False) -> Callable[[ApiCall], Any]:
    """Return the handler of one change of members."""

    async def handle(call: ApiCall) -> web.Response:
        body = await call.parse_object(MEMBERS_CHANGE)
        members = {kind: [name for name in body.get(kind) or () if name] for kind in ("users", "groups")}
        options = {"admin": bool(body["isAdmin"])} if admin else {}
        async with call.store.writing(call.user) as writing:
            stored = await find_named(call, writing, ObjectKind.ROLE)
            _require_keeper(
                call, stored, call.user, call.principal.groups, await writing.all(ObjectKind.ROLE)
            )
            changed = parse_object(ROLE, change(stored, members, **options))
            return answer(await replace_role(writing, stored, changed, check_version=False))

    return handle


def _require_keeper(
    call: ApiCall, role: Body, user: str, groups: Iterable[str], roles: Iterable[Body]
) -> None:
    """Raise RangerError 403 unless the user may change the role's members."""
    administrator = (
        call.access.is_administrator(call.principal)
        if user == call.user
        else user in call.access.rights.administrators
    )
    if not administrator and role["name"] not in roles_of(roles, user, groups, admin=True):
        raise forbidden(f"user `{user}` is not an administrator of role `{role['name']}`")


def _grant_route(*, grants: bool) -> Callable[[ApiCall], Any]:
    async def handle(call: ApiCall) -> web.Response:
        request = await call.parse_object(GRANT_REVOKE_ROLE)
        async with call.store.writing(call.user) as writing:
            await _grant(call, writing, request, grants=grants)
        # Ranger's own client cannot read an object here.
        return web.Response(status=200)

    return handle


async def _grant(
    call: ApiCall, writing: WriteTransaction, request: Mapping[str, Any], *, grants: bool
) -> None:
    if await writing.find_named(ObjectKind.SERVICE, call.path("service")) is None:
        raise not_found(f"service `{call.path('service')}` does not exist")
    grantor = request.get("grantor") or call.user
    groups: Iterable[str] = call.principal.groups
    if grantor != call.user:
        await _require_trust(call, writing, call.path("service"), grantor)
        if not call.access.is_plugin(call.principal):
            # Who administers one service must not get at roles, which count in all of them.
            raise forbidden(f"user `{call.user}` may not grant or revoke roles for user `{grantor}`")
        groups = {*await groups_of(writing, grantor), *filter(None, request["grantorGroups"])}
    targets = list(dict.fromkeys(filter(None, request["targetRoles"])))
    members = {kind: [name for name in request[kind] if name] for kind in KINDS}
    if not targets or not any(members.values()):
        raise bad_request("a grant needs target roles, and users, groups or roles to add to them")
    for name in targets:
        stored = await writing.find_named(ObjectKind.ROLE, name)
        if stored is None:
            raise bad_request(f"role `{name}` does not exist")
        _require_keeper(call, stored, grantor, groups, await writing.all(ObjectKind.ROLE))
        changed = (
            _grant_members(stored, members, request) if grants else _revoke_members(stored, members, request)
        )
        await replace_role(writing, stored, parse_object(ROLE, changed), check_version=False)


def _grant_members(stored: Body, members: Mapping[str, list[str]], request: Mapping[str, Any]) -> Body:
    return with_members(stored, members, admin=bool(request["grantOption"]))


def _revoke_members(stored: Body, members: Mapping[str, list[str]], request: Mapping[str, Any]) -> Body:
    """Take members away, or with the grant option only their administration of the role."""
    return without_admin(stored, members) if request["grantOption"] else without_members(stored, members)


def _routes(base: str) -> tuple[Route, ...]:
    return (
        Route("POST", base, _create),
        Route("GET", f"{base}/names", _names),
        Route("GET", f"{base}/user/{{name}}", _names_of_user),
        Route("PUT", f"{base}/grant/{{service}}", _grant_route(grants=True)),
        Route("PUT", f"{base}/revoke/{{service}}", _grant_route(grants=False)),
        Route("GET", f"{base}/name/{{name}}", _get),
        Route("DELETE", f"{base}/name/{{name}}", _delete),
        Route("GET", f"{base}/{{id}}", _get),
        Route("PUT", f"{base}/{{id}}", _update),
        Route("DELETE", f"{base}/{{id}}", _delete),
        Route("PUT", f"{base}/{{id}}/addUsersAndGroups", _members_route(with_members, admin=True)),
        Route("PUT", f"{base}/{{id}}/removeUsersAndGroups", _members_route(without_members)),
        Route("PUT", f"{base}/{{id}}/removeAdminFromUsersAndGroups", _members_route(without_admin)),
    )


ROUTES = (
    Route("GET", f"{PUBLIC}/roles", build_list_handler("role", _readable)),
    *_routes(f"{PUBLIC}/roles"),
    Route("GET", "/roles/roles", build_page_handler("role", _readable, "roles")),
    Route("GET", "/roles/lookup/roles", build_page_handler("role", _readable, "roles")),
    *_routes("/roles/roles"),
)


# -- What makes a role valid ---------------------------------------------------------------------------
# A role that would contain itself is refused, though Ranger's engine bears one. One without members is valid:
# taking the last member away must not fail.


CYCLE, UNKNOWN_MEMBER = 9020, 9021


def role_failures(
    role: Mapping[str, Any],
    *,
    others: Iterable[Mapping[str, Any]],
    stored: Mapping[str, Any] | None = None,
    updating: bool = False,
) -> list[Failure]:
    """Return everything that is wrong with a role. `others` are all roles but the one that is updated."""
    return list(_failures(role, {str(o.get("name")): o for o in others}, stored, updating))


def _failures(
    role: Mapping[str, Any],
    others: Mapping[str, Mapping[str, Any]],
    stored: Mapping[str, Any] | None,
    updating: bool,
) -> Iterator[Failure]:
    name = role.get("name")
    if updating and stored is None:
        yield Failure(4006, f"role with id {role.get('id')} does not exist", "id")
    if not name or not name.strip():
        yield Failure(4003, "a role needs a name", "name", type=MISSING)
    elif name in others:
        yield Failure(4005, f"role `{name}` already exists", "name")
    for kind in KINDS:
        names = [member.get("name") for member in role[kind]]
        if any(not member or not member.strip() for member in names):
            yield Failure(4002, f"`{kind}` has a member without a name", kind, "name", MISSING)
        twice = [member for member, count in Counter(names).items() if count > 1 and member]
        if twice:
            yield Failure(3056, f"`{kind}` lists `{twice[0]}` twice", kind)
    for member in role["roles"]:
        inner = member.get("name")
        if inner and inner != name and inner not in others:
            yield Failure(4007, f"role `{inner}` does not exist", "roles", inner)
    if name:
        way = cycle(name, role, others)
        if way:
            yield Failure(CYCLE, f"the role would contain itself: {' → '.join(way)}", "roles")


def cycle(
    name: str, role: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]
) -> tuple[str, ...] | None:
    """Return a way from the role to itself through the roles that it contains, or None."""
    stack: list[tuple[Mapping[str, Any], tuple[str, ...]]] = [(role, (name,))]
    seen: set[str] = set()
    while stack:
        at, way = stack.pop()
        for member in at.get("roles") or []:
            inner = str(member.get("name") or "")
            if inner == name:
                return (*way, name)
            if inner in others and inner not in seen:
                seen.add(inner)
                stack.append((others[inner], (*way, inner)))
    return None
