"""Users, groups and memberships: where their attributes come from, and what the user store tells plugins.

They are names with attributes, not accounts: nobody logs in with what is kept here, and no password is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aiohttp import web

from gateway.admin.ranger.calls import (
    ApiCall,
    Route,
    answer,
    bad_request,
    find_named,
    no_content,
    not_found,
    parse_object,
)
from gateway.admin.ranger.downloads import other_attributes
from gateway.admin.ranger.json_fields import JsonField, show
from gateway.admin.ranger.kinds import Body, ChangedObject, ObjectKind, What
from gateway.admin.ranger.policy_changes import note
from gateway.admin.ranger.role_changes import without_members
from gateway.admin.ranger.searching import find
from gateway.admin.ranger.shapes import ALL_ITEM_LISTS, GROUP, GROUP_USER, USER
from gateway.admin.ranger.transactions import ReadTransaction, WriteTransaction

_USERS, _GROUPS, _MEMBERS = "vXUsers", "vXGroups", "vXGroupUsers"
_LONGEST_NAME = 767
_BASE = "/xusers"


async def _list_users(call: ApiCall) -> web.Response:
    call.require_administrator("list users")
    async with call.store.reading() as reading:
        users = await reading.all(ObjectKind.USER)
        members = await reading.all(ObjectKind.GROUP_USER)
    page = find("user", _exact_first(users, call.parameter("name")), call.parameters())
    page.items[:] = [_with_groups(user, members) for user in page.items]
    return answer(page.wrap_page(_USERS))


async def _list_groups(call: ApiCall) -> web.Response:
    call.require_administrator("list groups")
    async with call.store.reading() as reading:
        groups = await reading.all(ObjectKind.GROUP)
    return answer(
        find("group", _exact_first(groups, call.parameter("name")), call.parameters()).wrap_page(_GROUPS)
    )


def _exact_first(found: Sequence[Body], name: str) -> Sequence[Body]:
    """Return only the object of that very name if there is one: the search is for a part of the name."""
    exact = [one for one in found if one["name"] == name] if name else []
    return exact or found


async def _list_members(call: ApiCall) -> web.Response:
    call.require_administrator("list members of groups")
    async with call.store.reading() as reading:
        members = await reading.all(ObjectKind.GROUP_USER)
    return answer(find("group-user", members, call.parameters()).wrap_page(_MEMBERS))


async def _members_of_group(call: ApiCall) -> web.Response:
    call.require_administrator("list members of groups")
    async with call.store.reading() as reading:
        group = await reading.find_named(ObjectKind.GROUP, call.path("name"))
        if group is None:
            raise not_found()
        members = await reading.all(ObjectKind.GROUP_USER)
        users = await reading.all(ObjectKind.USER)
    inside = {m["userId"] for m in members if m["parentGroupId"] == group["id"]}
    return answer(
        {
            "xgroupInfo": group,
            "xuserInfo": [_with_groups(user, members) for user in users if user["id"] in inside],
        }
    )


def _with_groups(user: Body, members: Iterable[Mapping[str, Any]]) -> Body:
    own = [m for m in members if m["userId"] == user["id"]]
    return {
        **user,
        "groupIdList": [m["parentGroupId"] for m in own],
        "groupNameList": [m["name"] for m in own],
    }


async def _add_groups_to_user(reading: ReadTransaction, kind: ObjectKind, body: Body) -> Body:
    return _with_groups(body, await reading.all(ObjectKind.GROUP_USER)) if kind is ObjectKind.USER else body


def _get(kind: ObjectKind) -> Callable[[ApiCall], Any]:
    async def handle(call: ApiCall) -> web.Response:
        call.require_administrator("read users and groups")
        async with call.store.reading() as reading:
            return answer(await _add_groups_to_user(reading, kind, await find_named(call, reading, kind)))

    return handle


def _create(kind: ObjectKind) -> Callable[[ApiCall], Any]:
    async def handle(call: ApiCall) -> web.Response:
        call.require_administrator("create users and groups")
        given = await call.body()
        body = _check_body(kind, given)
        async with call.store.writing(call.user) as writing:
            if await writing.find_named(kind, body["name"]) is not None:
                raise bad_request(f"{kind} `{body['name']}` already exists")
            made = await writing.create(kind, _strip_body(body))
            if kind is ObjectKind.USER:
                await _join(writing, made, given, body)
            await writing.bump_all(What.USER_STORE)
            return answer(await _add_groups_to_user(writing, kind, made))

    return handle


def _update(kind: ObjectKind) -> Callable[[ApiCall], Any]:
    async def handle(call: ApiCall) -> web.Response:
        call.require_administrator("change users and groups")
        given = await call.body()
        body = _check_body(kind, given)
        async with call.store.writing(call.user) as writing:
            stored = await find_named(call, writing, kind)
            if body.get("id") not in (None, stored["id"]):
                raise bad_request(f"{kind} id mismatch: the path and the body name different ones")
            if body["name"] != stored["name"]:
                raise bad_request(f"{kind} `{stored['name']}` cannot be renamed: policies use it")
            made = await writing.update(kind, stored, _strip_body(body), check_version=False)
            if kind is ObjectKind.USER:
                await _join(writing, made, given, body)
            await writing.bump_all(What.USER_STORE)
            return answer(await _add_groups_to_user(writing, kind, made))

    return handle


def _delete(kind: ObjectKind) -> Callable[[ApiCall], Any]:
    async def handle(call: ApiCall) -> web.Response:
        call.require_administrator("delete users and groups")
        async with call.store.writing(call.user) as writing:
            stored = await find_named(call, writing, kind)
            list_name = "users" if kind is ObjectKind.USER else "groups"
            if call.flag("forceDelete"):
                await forget(writing, list_name, stored["name"])
            else:
                user = await used_by(writing, list_name, stored["name"])
                if user is not None:
                    raise bad_request(f"{kind} `{stored['name']}` cannot be deleted: {user} uses it")
            for member in await writing.all(ObjectKind.GROUP_USER):
                if member["userId" if kind is ObjectKind.USER else "parentGroupId"] == stored["id"]:
                    await writing.delete(ObjectKind.GROUP_USER, member, name=_key(member))
            await writing.delete(kind, stored)
            await writing.bump_all(What.USER_STORE)
        return no_content()

    return handle


def _check_body(kind: ObjectKind, given: Body) -> Body:
    """Return a user or group with defaults. Raises RangerError 400."""
    shape: JsonField = USER if kind is ObjectKind.USER else GROUP
    body = parse_object(shape, given)
    name = (body.get("name") or "").strip()
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise bad_request(f"a {kind} needs a name of at most {_LONGEST_NAME} printable characters")
    try:
        other_attributes(body.get("otherAttributes"))
    except ValueError as error:
        raise bad_request(str(error)) from None
    return {**body, "name": name}


def _strip_body(body: Body) -> Body:
    left_out = ("password", "groupIdList", "groupNameList")
    return show({key: value for key, value in body.items() if key not in left_out})  # type: ignore[no-any-return]


async def _join(writing: WriteTransaction, user: Body, given: Body, body: Body) -> None:
    """Make the user's groups those that the body lists; a body that lists none leaves them alone."""
    wanted: dict[int, Body] = {}
    if given.get("groupIdList") is not None:
        for id_ in body["groupIdList"]:
            wanted[id_] = await _group(writing, await writing.get(ObjectKind.GROUP, id_ or 0), id_)
    elif given.get("groupNameList") is not None:
        for name in filter(None, body["groupNameList"]):
            group = await _group(writing, await writing.find_named(ObjectKind.GROUP, name), name)
            wanted[group["id"]] = group
    else:
        return
    for member in await writing.all(ObjectKind.GROUP_USER):
        if member["userId"] == user["id"] and wanted.pop(member["parentGroupId"], None) is None:
            await writing.delete(ObjectKind.GROUP_USER, member, name=_key(member))
    for group in wanted.values():
        await _add_member(writing, group, user)


async def _group(writing: WriteTransaction, found: Body | None, wanted: object) -> Body:
    if found is None:
        raise bad_request(f"group `{wanted}` does not exist")
    return found


async def _add_member(writing: WriteTransaction, group: Body, user: Body) -> Body:
    body = {"name": group["name"], "parentGroupId": group["id"], "userId": user["id"]}
    return await writing.create(ObjectKind.GROUP_USER, body, name=_key(body))


def _key(member: Mapping[str, Any]) -> str:
    """Return the name under which a membership is kept: there is one for each group and user."""
    return f"{member['parentGroupId']}/{member['userId']}"


async def _create_member(call: ApiCall) -> web.Response:
    call.require_administrator("add users to groups")
    body = await call.parse_object(GROUP_USER)
    async with call.store.writing(call.user) as writing:
        group, user = await _ends(writing, body)
        known = await writing.find_named(
            ObjectKind.GROUP_USER, _key({"parentGroupId": group["id"], "userId": user["id"]})
        )
        if known is not None:
            return answer(known)
        made = await _add_member(writing, group, user)
        await writing.bump_all(What.USER_STORE)
        return answer(made)


async def _update_member(call: ApiCall) -> web.Response:
    call.require_administrator("add users to groups")
    body = await call.parse_object(GROUP_USER)
    async with call.store.writing(call.user) as writing:
        stored = await writing.get(ObjectKind.GROUP_USER, body.get("id") or 0)
        if stored is None:
            raise bad_request(f"membership with id {body.get('id')} does not exist")
        group, user = await _ends(writing, body)
        changed = {"name": group["name"], "parentGroupId": group["id"], "userId": user["id"]}
        made = await writing.update(
            ObjectKind.GROUP_USER, stored, changed, name=_key(changed), check_version=False
        )
        await writing.bump_all(What.USER_STORE)
        return answer(made)


async def _ends(writing: WriteTransaction, body: Body) -> tuple[Body, Body]:
    """Return the group and the user of a membership. Raises RangerError 400."""
    if body.get("parentGroupId") is not None:
        group = await writing.get(ObjectKind.GROUP, body["parentGroupId"])
    else:
        group = await writing.find_named(ObjectKind.GROUP, body.get("name") or "")
    user = await writing.get(ObjectKind.USER, body.get("userId") or 0)
    if group is None or user is None:
        raise bad_request("a membership needs a group (`parentGroupId` or `name`) and a user (`userId`)")
    return group, user


async def _delete_member(call: ApiCall) -> web.Response:
    call.require_administrator("remove users from groups")
    async with call.store.writing(call.user) as writing:
        stored = await writing.get(ObjectKind.GROUP_USER, call.path_id())
        if stored is None:
            raise not_found()
        await writing.delete(ObjectKind.GROUP_USER, stored, name=_key(stored))
        await writing.bump_all(What.USER_STORE)
    return no_content()


def _routes(kind: ObjectKind, plural: str, by_name: str) -> tuple[Route, ...]:
    secure = f"{_BASE}/secure/{plural}"
    return (
        Route("POST", secure, _create(kind)),
        Route("POST", f"{_BASE}/{plural}", _create(kind)),
        Route("GET", f"{secure}/{{id}}", _get(kind)),
        Route("PUT", f"{secure}/{{id}}", _update(kind)),
        Route("DELETE", f"{secure}/id/{{id}}", _delete(kind)),
        Route("DELETE", f"{secure}/{{name}}", _delete(kind)),
        Route("GET", f"{_BASE}/{plural}/{by_name}/{{name}}", _get(kind)),
        Route("GET", f"{_BASE}/{plural}/{{id}}", _get(kind)),
        Route("DELETE", f"{_BASE}/{plural}/{{id}}", _delete(kind)),
    )


ROUTES = (
    Route("GET", f"{_BASE}/users", _list_users),
    Route("GET", f"{_BASE}/groups", _list_groups),
    Route("GET", f"{_BASE}/groupusers", _list_members),
    Route("POST", f"{_BASE}/groupusers", _create_member),
    Route("PUT", f"{_BASE}/groupusers", _update_member),
    Route("GET", f"{_BASE}/groupusers/groupName/{{name}}", _members_of_group),
    Route("DELETE", f"{_BASE}/groupusers/{{id}}", _delete_member),
    *_routes(ObjectKind.USER, "users", "userName"),
    *_routes(ObjectKind.GROUP, "groups", "groupName"),
)


# -- What a user or group that is deleted leaves behind in policies, roles and zones: nothing ----------
# A name that lives on would be given again one day, with all that it was allowed.


_ZONE_LISTS: Mapping[str, Sequence[str]] = {
    "users": ("adminUsers", "auditUsers"),
    "groups": ("adminUserGroups", "auditUserGroups"),
}


async def used_by(reading: ReadTransaction, kind: str, name: str) -> str | None:
    """Return, in words, something that names one of the `users` or `groups`; None when nothing does."""
    for role in await reading.all(ObjectKind.ROLE):
        if _in_role(role, kind, name):
            return f"role `{role['name']}`"
    for zone in await reading.all(ObjectKind.ZONE):
        if any(name in (zone.get(key) or ()) for key in _ZONE_LISTS[kind]):
            return f"zone `{zone['name']}`"
    found = await asyncio.to_thread(_list_policies_naming, await reading.all(ObjectKind.POLICY), kind, name)
    return f"policy `{found[0]['name']}` of service `{found[0]['service']}`" if found else None


async def forget(writing: WriteTransaction, kind: str, name: str) -> None:
    """Take the name out of every role, zone and policy. An item that is left with nobody goes."""
    for role in await writing.all(ObjectKind.ROLE):
        if _in_role(role, kind, name):
            await writing.update(
                ObjectKind.ROLE, role, without_members(role, {kind: [name]}), check_version=False
            )
            await writing.bump_all(What.ROLE)
    for zone in await writing.all(ObjectKind.ZONE):
        if any(name in (zone.get(key) or ()) for key in _ZONE_LISTS[kind]):
            left = {key: [one for one in zone.get(key) or () if one != name] for key in _ZONE_LISTS[kind]}
            await writing.update(ObjectKind.ZONE, zone, {**zone, **left}, check_version=False)
    services = {one["name"]: one for one in await writing.all(ObjectKind.SERVICE)}
    for policy in await asyncio.to_thread(
        _list_policies_naming, await writing.all(ObjectKind.POLICY), kind, name
    ):
        changed = await writing.update(
            ObjectKind.POLICY,
            policy,
            _without(policy, kind, name),
            signature=policy.get("resourceSignature") if policy.get("isEnabled", True) else None,
            check_version=False,
        )
        await note(writing, services[policy["service"]], changed, ChangedObject.UPDATED)


def _in_role(role: Mapping[str, Any], kind: str, name: str) -> bool:
    return any(member["name"] == name for member in role.get(kind) or ())


def _list_policies_naming(policies: Iterable[Body], kind: str, name: str) -> list[Body]:
    return [
        policy
        for policy in policies
        if any(name in (item.get(kind) or ()) for key in ALL_ITEM_LISTS for item in policy.get(key) or ())
    ]


def _without(policy: Body, kind: str, name: str) -> Body:
    lists = {}
    for key in ALL_ITEM_LISTS:
        items = [
            {**item, kind: [one for one in item.get(kind) or () if one != name]}
            for item in policy.get(key) or ()
        ]
        lists[key] = [item for item in items if item.get("users") or item.get("groups") or item.get("roles")]
    return {**policy, **{key: items for key, items in lists.items() if items or key in policy}}
