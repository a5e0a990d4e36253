"""A Gravitino server by its OpenAPI documents (`docs/open-api`, 1.3): a double and not the real server.

Its PyPI client, `apache-gravitino` 1.3.1, makes and reads catalogs, tags, roles, users, groups and owners of
it in `tests/e2e/gravitino_client`.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

AUDIT = {"creator": "olga", "createTime": "2026-01-01T00:00:00Z"}
TOKEN = "e30.e30.e30"
METALAKE = "lake"
_EXCEPTIONS = {404: 1003, 409: 1004, 400: 1001, 401: 1011, 405: 1006}
"""Status → the code in an error's body (`ErrorConstants`)."""


@dataclass
class Gravitino:
    """What the server has, and how it behaves."""

    catalogs: dict[str, dict[str, Any]] = field(default_factory=dict)
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    tagged: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Tag → (type, full name)."""
    roles: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Role → securable objects, as the server writes them."""
    users: dict[str, list[str]] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    owners: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """(type, full name) → name and `USER` or `GROUP`."""
    policies: dict[str, str] = field(default_factory=dict)
    """Policy → its type."""
    contents: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Policy → its content, where it is not a free map."""
    policies_off: set[str] = field(default_factory=set)
    applied: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Policy → (type, full name) of the objects that it is on."""
    hidden: dict[str, int] = field(default_factory=dict)
    """Roles and tags that the account may not see → the status for who asks; no list has such a role."""
    unlisted: set[str] = field(default_factory=set)
    """Roles that are not in its list, and told all the same."""
    after: dict[str, Callable[[], object]] = field(default_factory=dict)
    """End of a path → what happens once it has been answered."""
    without_owners: bool = False
    """Whether its authorization is off."""
    login: tuple[str, str] | None = None
    """User and password that a client has to show."""
    client: tuple[str, str] | None = None
    """Id and secret that get a token."""
    mood: str = ""
    """`garbage`, `empty`, `oversize`, `slow`, `redirect`, `error`, or well."""
    broken: str = ""
    """Part of paths that alone are in the mood; empty: all of them."""
    paths: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    """Authorization headers."""
    tokens: int = 0
    url: str = ""
    _runner: web.AppRunner | None = None

    # -- what tests say ------------------------------------------------------------------------------------

    def add(self, name: str, provider: str, type_: str = "relational", **properties: str) -> None:
        told = {key.replace("__", ".").replace("_", "-"): value for key, value in properties.items()}
        self.catalogs[name] = {
            "name": name,
            "type": type_,
            "provider": provider,
            "comment": None,
            "properties": {"in-use": "true", **told},
            "audit": AUDIT,
        }

    def tag(self, tag: str, type_: str, name: str, **properties: str) -> None:
        self.tags.setdefault(tag, {}).update(properties)
        self.tagged.setdefault(tag, []).append((type_, name))

    def grant(self, role: str, type_: str, name: str, *privileges: str) -> None:
        """`privileges`: names, with `!` before those that are denied."""
        told = [
            {"name": one.removeprefix("!"), "condition": "DENY" if one.startswith("!") else "ALLOW"}
            for one in privileges
        ]
        self.roles.setdefault(role, []).append({"fullName": name, "type": type_, "privileges": told})

    # -- life ----------------------------------------------------------------------------------------------

    async def start(self, port: int = 0) -> None:
        self._runner = web.AppRunner(self.app())
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def again(self) -> None:
        """Start where it was before."""
        await self.start(int(self.url.rpartition(":")[2]))

    # -- the API -------------------------------------------------------------------------------------------

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard])
        router = app.router
        router.add_post("/oauth/token", self._token)
        router.add_get("/api/version", self._version)
        below = "/api/metalakes/{metalake}"
        router.add_get(below, self._metalake)
        for path, get, more in (
            ("/catalogs", self._list_catalogs, self._create_catalog),
            ("/tags", self._list_tags, self._create_tag),
            ("/roles", self._list_roles, self._create_role),
            ("/users", self._members("users"), self._add_member("users", "user")),
            ("/groups", self._members("groups"), self._add_member("groups", "group")),
        ):
            router.add_get(below + path, get)
            router.add_post(below + path, more)
        router.add_get(f"{below}/catalogs/{{catalog}}", self._load_catalog)
        router.add_get(f"{below}/tags/{{tag}}/objects", self._tag_objects)
        router.add_post(f"{below}/objects/{{type}}/{{name}}/tags", self._associate)
        router.add_get(f"{below}/policies", self._list_policies)
        router.add_get(f"{below}/policies/{{policy}}/objects", self._policy_objects)
        router.add_get(f"{below}/roles/{{role}}", self._role)
        router.add_put(f"{below}/permissions/{{what}}/{{member}}/grant", self._permit)
        router.add_put(f"{below}/permissions/{{what}}/{{member}}/grant/", self._permit)
        router.add_get(f"{below}/owners/{{type}}/{{name}}", self._owner)
        router.add_put(f"{below}/owners/{{type}}/{{name}}", self._set_owner)
        return app

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self.paths.append(request.path)
        if self.mood and self.broken in request.path:
            return await self._moody(request)
        if request.path.startswith("/oauth"):
            return await handler(request)
        shown = request.headers.get("Authorization", "")
        self.shown.append(shown)
        wanted = ""
        if self.login is not None:
            wanted = "Basic " + base64.b64encode(":".join(self.login).encode()).decode()
        if self.client is not None:
            wanted = f"Bearer {TOKEN}"
        if wanted and shown != wanted:
            return error(401, "UnauthorizedException")
        if request.match_info.get("metalake", METALAKE) != METALAKE:
            return error(404, "NoSuchMetalakeException")
        answer = await handler(request)
        for end, happens in self.after.items():
            if request.path.endswith(end):
                happens()
        return answer

    async def _moody(self, request: web.Request) -> web.StreamResponse:
        match self.mood:
            case "garbage":
                return web.Response(body=b"<html>\xff{")
            case "empty":
                return web.json_response({"code": 0})
            case "oversize":
                return web.Response(body=b"[" + b" " * 3_000_000 + b"]")
            case "slow":
                await asyncio.sleep(5)
                return web.Response()
            case "redirect":
                raise web.HTTPFound("http://127.0.0.1:9/elsewhere")
            case _:
                return error(500, "RuntimeException")

    async def _token(self, request: web.Request) -> web.Response:
        form = await request.post()
        self.tokens += 1
        given = (form.get("client_id"), form.get("client_secret"))
        if form.get("grant_type") != "client_credentials" or given != self.client:
            return web.json_response({"error": "invalid_client", "error_description": str(given)}, status=401)
        told = {"access_token": TOKEN, "token_type": "bearer", "expires_in": 3600, "scope": form.get("scope")}
        return web.json_response(told)

    async def _version(self, _: web.Request) -> web.Response:
        told = {"version": "1.3.1", "compileDate": "01/01/2026 00:00:00", "gitCommit": "0" * 40}
        return ok(version=told)

    async def _metalake(self, _: web.Request) -> web.Response:
        told = {"name": METALAKE, "comment": None, "properties": {}, "audit": AUDIT}
        return ok(metalake=told)

    async def _list_catalogs(self, request: web.Request) -> web.Response:
        if request.query.get("details") == "true":
            return ok(catalogs=list(self.catalogs.values()))
        return ok(identifiers=[{"namespace": [METALAKE], "name": name} for name in self.catalogs])

    async def _load_catalog(self, request: web.Request) -> web.Response:
        name = request.match_info["catalog"]
        if name not in self.catalogs:
            return error(404, "NoSuchCatalogException")
        return ok(catalog=self.catalogs[name])

    async def _create_catalog(self, request: web.Request) -> web.Response:
        told = await request.json()
        if told["name"] in self.catalogs:
            return error(409, "CatalogAlreadyExistsException")
        made = {**told, "properties": {"in-use": "true", **(told.get("properties") or {})}, "audit": AUDIT}
        self.catalogs[told["name"]] = made
        return ok(catalog=made)

    def _tag(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "comment": None,
            "properties": self.tags[name],
            "inherited": None,
            "audit": AUDIT,
        }

    async def _list_tags(self, request: web.Request) -> web.Response:
        if request.query.get("details") == "true":
            return ok(tags=[self._tag(name) for name in self.tags])
        return ok(names=list(self.tags))

    async def _create_tag(self, request: web.Request) -> web.Response:
        told = await request.json()
        self.tags[told["name"]] = told.get("properties") or {}
        return ok(tag=self._tag(told["name"]))

    async def _tag_objects(self, request: web.Request) -> web.Response:
        tag = request.match_info["tag"]
        if tag not in self.tags or tag in self.hidden:
            return error(404, "NoSuchTagException")
        found = [{"fullName": name, "type": type_} for type_, name in self.tagged.get(tag, [])]
        return ok(metadataObjects=found)

    async def _list_policies(self, _: web.Request) -> web.Response:
        return ok(
            policies=[
                {
                    "name": name,
                    "policyType": kind,
                    "enabled": name not in self.policies_off,
                    "content": self.contents.get(name, {"customRules": {}}),
                    "audit": AUDIT,
                }
                for name, kind in self.policies.items()
            ]
        )

    async def _policy_objects(self, request: web.Request) -> web.Response:
        name = request.match_info["policy"]
        if name in self.hidden:
            return error(404, "NoSuchPolicyException")
        found = [{"fullName": one, "type": type_} for type_, one in self.applied.get(name, [])]
        return ok(metadataObjects=found)

    async def _associate(self, request: web.Request) -> web.Response:
        told = await request.json()
        at = (request.match_info["type"].lower(), request.match_info["name"])
        for tag in told.get("tagsToAdd") or []:
            self.tagged.setdefault(tag, []).append(at)
        for tag in told.get("tagsToRemove") or []:
            self.tagged[tag].remove(at)
        return ok(names=[tag for tag, objects in self.tagged.items() if at in objects])

    async def _list_roles(self, _: web.Request) -> web.Response:
        return ok(names=[name for name in self.roles if name not in {*self.hidden, *self.unlisted}])

    async def _role(self, request: web.Request) -> web.Response:
        name = request.match_info["role"]
        if name in self.hidden:
            return error(self.hidden[name], "ForbiddenException")
        if name not in self.roles:
            return error(404, "NoSuchRoleException")
        return ok(role=self._told_role(name))

    def _told_role(self, name: str) -> dict[str, Any]:
        return {"name": name, "properties": {}, "securableObjects": self.roles[name], "audit": AUDIT}

    async def _create_role(self, request: web.Request) -> web.Response:
        told = await request.json()
        self.roles[told["name"]] = told.get("securableObjects") or []
        return ok(role=self._told_role(told["name"]))

    def _members(self, what: str) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def listed(request: web.Request) -> web.Response:
            members: dict[str, list[str]] = getattr(self, what)
            if request.query.get("details") != "true":
                return ok(names=list(members))
            told = [{"name": name, "roles": roles, "audit": AUDIT} for name, roles in members.items()]
            return ok(**{what: told})

        return listed

    def _add_member(self, what: str, kind: str) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def add(request: web.Request) -> web.Response:
            name = (await request.json())["name"]
            getattr(self, what).setdefault(name, [])
            return ok(**{kind: {"name": name, "roles": [], "audit": AUDIT}})

        return add

    async def _permit(self, request: web.Request) -> web.Response:
        what, member = request.match_info["what"], request.match_info["member"]
        members: dict[str, list[str]] = getattr(self, what)
        if member not in members:
            return error(404, "NoSuchUserException")
        members[member] += (await request.json())["roleNames"]
        told = {"name": member, "roles": members[member], "audit": AUDIT}
        return ok(**{what.removesuffix("s"): told})

    async def _owner(self, request: web.Request) -> web.Response:
        if self.without_owners:
            return error(405, "UnsupportedOperationException")
        at = (request.match_info["type"].upper(), request.match_info["name"])
        if at not in self.owners:
            return error(404, "NotFoundException")
        name, type_ = self.owners[at]
        return ok(owner={"name": name, "type": type_.lower()})

    async def _set_owner(self, request: web.Request) -> web.Response:
        told = await request.json()
        at = (request.match_info["type"].upper(), request.match_info["name"])
        self.owners[at] = (told["name"], told["type"].upper())
        return ok(set=True)


def ok(**told: Any) -> web.Response:
    return web.json_response({"code": 0, **told}, content_type="application/vnd.gravitino.v1+json")


def error(status: int, kind: str) -> web.Response:
    told = {"code": _EXCEPTIONS.get(status, 1002), "type": kind, "message": f"{kind} was raised", "stack": []}
    return web.json_response(told, status=status, content_type="application/vnd.gravitino.v1+json")
