"""A Ranger Admin in this process that says what a test has it say, and clocks that stand until moved."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.errors import Faults
from gateway.model.policy import AccessTypeDef, ResourceDef, ServiceDef
from gateway.sources.cache import Cache
from gateway.sources.ranger_client import AdminOptions, DownloadKind, RangerClient
from gateway.sources.ranger_content import CachedService
from gateway.sources.ranger_service import RangerService, ServiceOptions

SERVICE = "dev_hive"
NOTHING_YET = ServiceDef(
    name="nothing yet",
    resources=(ResourceDef(name="database"),),
    access_types=(AccessTypeDef(name="select"),),
)
DEFINITION: dict[str, Any] = {
    "id": 3,
    "name": "hive",
    "resources": [
        {"itemId": 1, "name": "database", "level": 10, "isValidLeaf": True},
        {"itemId": 2, "name": "table", "level": 20, "parent": "database", "isValidLeaf": True},
        {"itemId": 3, "name": "column", "level": 30, "parent": "table", "isValidLeaf": True},
    ],
    "accessTypes": [{"itemId": 1, "name": "select"}, {"itemId": 2, "name": "update"}],
    "dataMaskDef": {
        "maskTypes": [{"itemId": 1, "name": "CUSTOM"}],
        "accessTypes": [{"itemId": 1, "name": "select"}],
        "resources": [{"name": "database"}, {"name": "table"}, {"name": "column"}],
    },
    "rowFilterDef": {
        "accessTypes": [{"itemId": 1, "name": "select"}],
        "resources": [{"name": "database"}, {"name": "table"}],
    },
    "policyConditions": [],
}
TAG_DEFINITION: dict[str, Any] = {
    "id": 100,
    "name": "tag",
    "resources": [{"itemId": 1, "name": "tag", "level": 1, "matcherOptions": {"wildCard": False}}],
    "accessTypes": [{"itemId": 1, "name": "hive:select"}],
}
_KINDS = {
    "plugins": DownloadKind.POLICIES,
    "roles": DownloadKind.ROLES,
    "tags": DownloadKind.TAGS,
    "xusers": DownloadKind.USERS,
    "gds": DownloadKind.SHARING,
}
_VERSIONS = {
    DownloadKind.POLICIES: ("lastKnownVersion", "policyVersion"),
    DownloadKind.TAGS: ("lastKnownVersion", "tagVersion"),
    DownloadKind.ROLES: ("lastKnownRoleVersion", "roleVersion"),
    DownloadKind.USERS: ("lastKnownUserStoreVersion", "userStoreVersion"),
    DownloadKind.SHARING: ("lastKnownGdsVersion", "gdsVersion"),
}


def policy(ident: int, table: str, user: str = "ann", **more: Any) -> dict[str, Any]:
    """Return a policy that lets a user read a table of `shop`."""
    return {
        "id": ident,
        "guid": f"guid-{ident}",
        "version": 1,
        "isEnabled": True,
        "service": SERVICE,
        "name": f"policy {ident}",
        "policyType": 0,
        "resources": {
            "database": {"values": ["shop"]},
            "table": {"values": [table]},
            "column": {"values": ["*"]},
        },
        "policyItems": [{"accesses": [{"type": "select", "isAllowed": True}], "users": [user]}],
    } | more


def row_filter(ident: int, table: str, text: str) -> dict[str, Any]:
    """Return a policy that filters a table for everybody."""
    given = policy(ident, table, policyType=2)
    del given["policyItems"]
    del given["resources"]["column"]
    item = {"accesses": [{"type": "select", "isAllowed": True}], "groups": ["public"]}
    return given | {"rowFilterPolicyItems": [item | {"rowFilterInfo": {"filterExpr": text}}]}


def service_policies(version: int, *policies: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return a full download."""
    return {
        "serviceName": SERVICE,
        "serviceId": 1,
        "policyVersion": version,
        "policies": list(policies),
        "serviceDef": deepcopy(DEFINITION),
        "auditMode": "audit-default",
    } | more


def changed(version: int, *deltas: tuple[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a download of changes: (change type, policy)."""
    return {
        "serviceName": SERVICE,
        "serviceId": 1,
        "policyVersion": version,
        "policyDeltas": [
            {
                "id": n,
                "changeType": type_,
                "policiesVersion": version,
                "policy": {"serviceType": "hive", **given},
            }
            for n, (type_, given) in enumerate(deltas, 1)
        ],
    }


def tag_policies(*policies: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a full download holds of its tag service."""
    return {
        "serviceName": "dev_tag",
        "serviceId": 2,
        "policyVersion": 1,
        "policies": list(policies),
        "serviceDef": deepcopy(TAG_DEFINITION),
    }


def roles(version: int, **members: str) -> dict[str, Any]:
    """Return a download of roles: name → its one user."""
    found = [
        {"id": n, "name": name, "users": [{"name": user}]} for n, (name, user) in enumerate(members.items())
    ]
    return {"serviceName": SERVICE, "roleVersion": version, "rangerRoles": found}


@dataclass(frozen=True, slots=True)
class Asked:
    """One question that came."""

    kind: DownloadKind
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]


@dataclass(slots=True)
class FakeAdmin:
    """Answers with `content`, 304 when that is no newer; a `script` entry is given first, once."""

    content: dict[DownloadKind, dict[str, Any]] = field(default_factory=dict)
    deltas: dict[tuple[DownloadKind, int], dict[str, Any]] = field(default_factory=dict)
    """(kind, known version) → changes since then."""
    script: dict[DownloadKind, deque[web.StreamResponse | str]] = field(default_factory=dict)
    """Responses, or `truncated`, `silent`, `endless`."""
    asked: list[Asked] = field(default_factory=list)
    url: str = ""
    server: TestServer | None = None

    def next(self, kind: DownloadKind, answer: web.StreamResponse | str) -> None:
        """Have one question answered otherwise."""
        self.script.setdefault(kind, deque()).append(answer)

    def questions(self, kind: DownloadKind) -> list[Asked]:
        """Return the questions for a kind."""
        return [asked for asked in self.asked if asked.kind is kind]

    async def kill(self) -> None:
        """Be gone."""
        assert self.server is not None
        await self.server.close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        kind = _KINDS[request.path.split("/")[2]]
        self.asked.append(Asked(kind, request.path, dict(request.query), dict(request.headers)))
        if self.script.get(kind):
            return await _scripted(self.script[kind].popleft(), request)
        content = self.content.get(kind)
        if content is None:
            return web.Response(status=404, text=f'"RANGER_ERROR_SERVICE_NOT_FOUND: ServiceName={SERVICE}"')
        asks, tells = _VERSIONS[kind]
        known = int(request.query[asks])
        if known == content[tells]:
            return web.Response(status=304)
        wants_deltas = "true" in (
            request.query.get("supportsPolicyDeltas"),
            request.query.get("supportsTagDeltas"),
        )
        told = self.deltas.get((kind, known), content) if wants_deltas else content
        response = web.Response(body=orjson.dumps(told), content_type="application/json")
        response.set_cookie("RANGERADMINSESSIONID", "once")
        return response


async def _scripted(answer: web.StreamResponse | str, request: web.Request) -> web.StreamResponse:
    if isinstance(answer, web.StreamResponse):
        return answer
    if answer == "silent":
        await asyncio.Event().wait()
    response = web.StreamResponse()
    if answer == "truncated":
        response.content_length = 1000
    await response.prepare(request)
    await response.write(b'{"serviceName": "dev_hive", "policies": [')
    if answer == "truncated":
        assert request.transport is not None
        request.transport.abort()
        return response
    while True:  # `endless`, until nobody listens
        await response.write(b" " * 65536)


@asynccontextmanager
async def running(admin: FakeAdmin, tls: ssl.SSLContext | None = None) -> AsyncIterator[FakeAdmin]:
    """Serve on a free port of this machine."""
    app = web.Application()
    app.router.add_get("/service/{rest:.*}", admin._answer)
    server = TestServer(app, scheme="https" if tls else "http", host="localhost")
    admin.server = server
    await server.start_server(ssl=tls)
    admin.url = str(server.make_url("")).rstrip("/")
    try:
        yield admin
    finally:
        await server.close()


@dataclass(slots=True)
class Clocks:
    """A clock of the process and one on the wall."""

    now: float = 1000.0
    wall: float = 1_760_000_000.0

    def pass_(self, seconds: float) -> None:
        """Let time pass on both."""
        self.now += seconds
        self.wall += seconds


@dataclass(slots=True)
class Taker:
    """Takes what is offered, unless a test has it refuse."""

    taken: list[CachedService] = field(default_factory=list)
    refuse: tuple[str, ...] = ()

    async def __call__(self, held: CachedService) -> None:
        """Take it, or raise Faults."""
        if self.refuse and held.service.policies:
            raise Faults(list(self.refuse))
        self.taken.append(held)


@dataclass(slots=True)
class Bench:
    """One service with all that stands around it."""

    service: RangerService
    client: RangerClient
    taker: Taker
    clocks: Clocks

    @property
    def tables(self) -> set[str]:
        """Tables that policies in force speak of."""
        return {
            value for given in self.service.held.service.policies for value in given.resources["table"].values
        }

    async def later(self, seconds: float = 121.0) -> bool:
        """Let time pass, by default beyond any back-off, and look."""
        self.clocks.pass_(seconds)
        return await self.service.look()


@asynccontextmanager
async def bench(
    *urls: str,
    cache: Path | None = None,
    clocks: Clocks | None = None,
    client: Mapping[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[Bench]:
    """Make a service that asks these Admins; it has not been started.

    It does not ask for data sharing unless `sharing_s` says how often.
    """
    clocks = clocks or Clocks()
    taker = Taker()
    settings = {"urls": urls, "service": SERVICE, "plugin_id": "sluice@here-dev_hive", **(client or {})}
    async with RangerClient(AdminOptions(**settings)) as asking:
        service = RangerService(
            ServiceOptions(name=SERVICE, definition=NOTHING_YET, **{"sharing_s": None, **options}),
            asking,
            taker,
            cache=None if cache is None else Cache(cache, "sluice", SERVICE),
            clock=lambda: clocks.now,
            wall_clock=lambda: clocks.wall,
            random=Random(1),
        )
        yield Bench(service, asking, taker, clocks)
