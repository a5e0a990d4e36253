"""Requests on a store with one service: who asks, who may grant, and what policies then let people see."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from gateway.admin.ranger.access import Access, AdminRights
from gateway.admin.ranger.access_requests import AccessRequests, PlaceOfGrants, StoredRequest
from gateway.admin.ranger.calls import parse_object
from gateway.admin.ranger.kinds import ObjectKind
from gateway.admin.ranger.policy_changes import create_policy
from gateway.admin.ranger.shapes import POLICY, SERVICE
from gateway.admin.ranger.store import Store
from gateway.database.migrate import LazyPool
from gateway.model.context import AccessContext
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.access_requests import RequestedAccess, RequestKind
from gateway.policy.engine import Engine
from gateway.policy.ranger import load
from tests.admin.conftest import shipped

NAMES = ("admin", "second", "carol", "dave", "eve", "olga", "mallory")


def who(name: str, id_: str = "1") -> Principal:
    return Principal(user=name, id=f"{id_}-{name}")


def asked(**more: Any) -> RequestedAccess:
    values: dict[str, Any] = {
        "kind": RequestKind.ACCESS,
        "catalog": "spark_catalog",
        "database": "sales",
        "table": "customer",
        "columns": ("name", "card"),
        "accesses": ("select",),
        "until": datetime.now(UTC) + timedelta(days=3),
        "reason": "yearly report",
    }
    return RequestedAccess(**(values | more))


def break_glass(**more: Any) -> RequestedAccess:
    until = datetime.now(UTC) + timedelta(hours=2)
    return asked(kind=RequestKind.BREAK_GLASS, until=until, **more)


class Desk:
    """Requests on a store with one service, a delegate of sales (dave) and the owner of a table (olga)."""

    def __init__(self, dsn: str, *, administrators: tuple[str, ...] = ("admin", "second")) -> None:
        self.dsn = dsn
        self.people = {name: who(name) for name in NAMES}
        self.pool = LazyPool(dsn, "test", most=8, timeout_s=30)
        self.store = Store(dsn, prepare=shipped)
        self.looked_up: list[list[str]] = []
        self.noted: list[tuple[str, str]] = []
        self.place = PlaceOfGrants(service="lake", where="made here")
        rights = AdminRights(administrators=frozenset(administrators))
        self.requests = AccessRequests(
            self.pool.acquire,
            store=self.store,
            access=Access(rights),
            place_of=lambda catalog: self.place,
            find_person=self.find_person,
            owns=self.owns,
            look_up=self.look_up,
            noted=lambda step, kind: self.noted.append((step, kind)),
        )
        self._admin = Access(rights)

    async def find_person(self, user: str) -> Principal | None:
        return self.people.get(user)

    async def look_up(self, wanted: Sequence[RequestedAccess]) -> None:
        self.looked_up.append([one.table for one in wanted])

    async def owns(self, principal: Principal, wanted: RequestedAccess) -> bool:
        return principal.user == "olga" and wanted.table == "customer"

    async def begin(self) -> None:
        async with self.store.writing("admin") as writing:
            await writing.create(ObjectKind.SERVICE, parse_object(SERVICE, {"name": "lake", "type": "spark"}))
        await self.policy(
            name="stewards",
            policyItems=[{"users": ["dave"], "accesses": [{"type": "select"}], "delegateAdmin": True}],
        )

    async def policy(self, **more: Any) -> Any:
        body = {
            "service": "lake",
            "resources": {
                "catalog": {"values": ["spark_catalog"]},
                "database": {"values": ["sales"]},
                "table": {"values": ["*"]},
                "column": {"values": ["*"]},
            },
            **more,
        }
        async with self.store.writing("admin") as writing:
            access = replace(self._admin, texts={}, unread={})
            return await create_policy(writing, access, who("admin"), parse_object(POLICY, body))

    async def sees(self, user: str, column: str = "card", *, at: datetime | None = None) -> bool:
        """Whether policies of the store let somebody read a column as it is."""
        async with self.store.reading() as reading:
            texts = await reading.policy_texts("lake")
            definition = await reading.find_named(ObjectKind.SERVICE_DEF, "spark")
        policies = [json.loads(text) for zone in texts.values() for text in zone]
        engine = Engine(load({"serviceName": "lake", "serviceDef": definition, "policies": policies}))
        context = AccessContext(time=at or datetime.now(UTC))
        of = Resource.table("spark_catalog", "sales", "customer").child("column", column)
        request = AccessRequest(
            principal=Principal(user=user), resource=of, access="select", context=context, service="lake"
        )
        return engine.decide(request).allowed

    async def to_decide(self, user: str) -> list[int]:
        found, _ = await self.requests.list_to_decide(who(user), before=2**62, limit=9)
        return [one.id for one in found]

    async def ask(self, user: str = "carol", wanted: RequestedAccess | None = None) -> StoredRequest:
        return await self.requests.ask(who(user), wanted or asked())

    async def grant(self, user: str, id_: int, **more: Any) -> StoredRequest:
        return await self.requests.grant(who(user), id_, **{"expires": None, "reason": "fine", **more})

    async def steps(self, id_: int) -> list[tuple[str, str]]:
        async with self.pool.acquire() as connection:
            rows = await connection.fetch(
                "SELECT who, step FROM sluice.access_request_step WHERE request = $1 ORDER BY id", id_
            )
        return [(row["who"], row["step"]) for row in rows]

    async def run(self, sql: str, *arguments: object) -> None:
        async with self.pool.acquire() as connection:
            await connection.execute(sql, *arguments)

    async def close(self) -> None:
        self.pool.close()
        await self.store.close()
