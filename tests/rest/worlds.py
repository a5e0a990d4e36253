"""A served catalog over a double of one, with the gateway's own judging and Spark's parser."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from gateway.app.catalogs import SparkCatalogs
from gateway.app.iceberg_rest import make_service
from gateway.app.restrictions import CatalogRestrictions
from gateway.errors import BackendUnavailable
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.pipeline import Rules, judge
from gateway.policy.engine import engine_for
from gateway.policy.limits import limits_of
from gateway.policy.packs import load_packs
from gateway.policy.service_defs import load_service_defs
from gateway.reader.pool import ReaderPool
from gateway.rest.answers import RestReply
from gateway.rest.service import RestService
from gateway.session.budgets import Budgets
from gateway.session.dependencies import Dependencies
from gateway.session.locks import CatalogLocks
from gateway.settings.loading import parse_settings
from tests.judge_world import SERVICE_DEFS
from tests.policy.restricted_tables import schema
from tests.session.fakes import FakeCatalog, FakeLedger, FakePolicies

CANARY = "canary-4471"
COLUMNS = {"id": "long", "name": "string", "region": "string", "born": "date"}
PACK = """
service: spark
policies:
  - name: admins
    on: {catalog: "*", database: "*", table: "*", column: "*"}
    allow: [{users: [root], access: [all, metadata]}]
  - name: places
    on: {url: "*"}
    allow: [{users: [root], access: [all]}]
  - name: the shop
    on:
      - {catalog: lake}
      - {catalog: lake, database: [shop, shop.eu]}
      - catalog: lake
        database: [shop, shop.eu]
        table: [plain, rows, masks, both, partly, v, of_rows, new]
        column: "*"
    allow: [{groups: [analysts], access: [use, show, select]}]
  - name: rows
    on: {catalog: lake, database: shop, table: [rows, both]}
    filter: [{groups: [analysts], where: "region = 'EMEA'"}]
  - name: masks
    on: {catalog: lake, database: shop, table: [masks, both], column: name}
    mask: [{groups: [analysts], type: MASK_HASH}]
  - name: no birthdays
    on: {catalog: lake, database: shop, table: partly, column: born}
    deny: [{groups: [analysts], access: [select]}]
"""
SETTINGS = """
users: {file: users.yaml}
policies: {paths: [packs]}
catalogs:
  - name: lake
    catalog: {type: iceberg, connection-params: {type: rest, uri: "URL"}}
listeners:
  iceberg_rest:
    catalogs: [lake]
    enforcing: {users: [engine]}
    writers: {users: [root]}
"""
PEOPLE = {
    "root": Principal(user="root"),
    "bob": Principal(user="bob", groups=frozenset({"analysts"})),
    "engine": Principal(user="engine", groups=frozenset({"analysts"})),
    "eve": Principal(user="eve"),
}


def metadata(columns: Mapping[str, Any] = COLUMNS, **more: Any) -> dict[str, Any]:
    """Metadata of a table, as servers answer it."""
    return {
        "format-version": 2,
        "table-uuid": "0e4b9b1c-53f5-4f3e-9d3f-5b4b6f0d8a11",
        "location": f"s3://lake/{CANARY}",
        "last-column-id": len(columns),
        "current-schema-id": 0,
        "schemas": [schema(dict(columns), required=("id",))],
        "properties": {},
        "snapshots": [],
        **more,
    }


def loaded(columns: Mapping[str, Any] = COLUMNS, **more: Any) -> dict[str, Any]:
    """An answer to `loadTable`."""
    told = metadata(columns, **more)
    return {"metadata-location": f"s3://lake/{CANARY}/00000.json", "metadata": told}


@dataclass
class Upstream:
    """A REST catalog: what it answers, and what it was asked."""

    tables: dict[tuple[str, str], Any] = field(default_factory=dict)
    views: dict[tuple[str, str], Any] = field(default_factory=dict)
    namespaces: list[list[str]] = field(default_factory=lambda: [["shop"], ["hidden"], ["shop", "eu"]])
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path and body."""
    headers: list[Mapping[str, str]] = field(default_factory=list)
    fails: tuple[int, bytes] | None = None
    replies: dict[str, Any] = field(default_factory=dict)
    """What it answers to a call whose path ends so."""
    url: str = ""
    page: int = 2

    def sent(self, method: str) -> list[tuple[str, str]]:
        """Paths and bodies of what was asked by a method."""
        return [(path, body) for how, path, body in self.asked if how == method]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path, body = request.path, await request.text()
        raw = request.raw_path.partition("?")[0]
        if path != "/v1/config":
            self.asked.append((request.method, unquote(raw), body))
            self.headers.append(dict(request.headers))
        if path == "/v1/config":
            return web.json_response({"defaults": {"s3.secret-access-key": CANARY}, "overrides": {}})
        if self.fails is not None:
            return web.Response(status=self.fails[0], body=self.fails[1])
        parts = unquote(raw).removeprefix("/v1/").split("/")
        if request.method == "GET" and parts == ["namespaces"]:
            wanted = request.query.get("parent", "")
            parent = wanted.split("\x1f") if wanted else []
            below = [n for n in self.namespaces if n[:-1] == parent]
            return self._paged(request, "namespaces", below)
        known = [reply for name, reply in self.replies.items() if name in parts[-1:] + parts[-2:-1]]
        if known:
            return web.json_response(known[0])
        namespace = ".".join(parts[1].split("\x1f")) if len(parts) > 1 else ""
        match parts[2:]:
            case []:
                return web.json_response(
                    {"namespace": namespace.split("."), "properties": {"location": "s3://n"}}
                )
            case ["tables" | "views" as kind] if request.method == "GET":
                of = self.tables if kind == "tables" else self.views
                names = [{"namespace": n.split("."), "name": t} for n, t in of if n == namespace]
                return self._paged(request, "identifiers", names)
            case ["tables" | "views" as kind, name] if request.method in ("GET", "HEAD"):
                of = self.tables if kind == "tables" else self.views
                found = of.get((namespace, name))
                if found is None:
                    error = {"message": f"{CANARY} is not there", "type": "NoSuchTableException", "code": 404}
                    return web.json_response({"error": error}, status=404)
                return web.Response(
                    body=json.dumps(found).encode(),
                    content_type="application/json",
                    headers={"ETag": '"up-1"'},
                )
        return web.json_response({"metadata": metadata(), "metadata-location": "s3://x"})

    def _paged(self, request: web.Request, key: str, all_of: list[Any]) -> web.Response:
        at = int(request.query.get("pageToken") or 0)
        told: dict[str, Any] = {key: all_of[at : at + self.page]}
        if at + self.page < len(all_of):
            told["next-page-token"] = str(at + self.page)
        return web.json_response(told)


class Served:
    """A service over a double, and who asks it."""

    def __init__(
        self,
        upstream: Upstream,
        reader: ReaderPool,
        *,
        pack: str = PACK,
        more: str = "",
        rules: Rules | None = None,
    ) -> None:
        self.upstream = upstream
        self.pack = pack
        text = SETTINGS.replace("URL", upstream.url) + more
        self.settings = parse_settings(text, "gateway.yaml", Path("/nowhere"))
        definitions = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
        self.versions = 0
        self._definitions = definitions
        self.policies = self.load()
        self.catalog = FakeCatalog()
        self.ledger = FakeLedger()
        self.restrictions = CatalogRestrictions(SparkCatalogs(self.settings.catalogs))
        self.dependencies = Dependencies(
            judge=partial(judge, reader=reader, rules=rules or Rules()),
            policies=FakePolicies(lambda: self.policies, engine_for),
            catalog=self.catalog,
            restrictions=self.restrictions,
            locks=CatalogLocks(self.catalog),
            ledger=self.ledger,
            gateway="of-tests",
            budgets=Budgets(lambda: self.policies, limits_of),
        )
        listener = self.settings.listeners.iceberg_rest
        assert listener is not None
        self.key: bytes | None = b"k" * 32
        self.service: RestService = make_service(
            self.dependencies, reader, self.restrictions, listener, self.read_key
        )

    async def read_key(self) -> bytes:
        """Return the key of the fleet."""
        if self.key is None:
            raise BackendUnavailable("the database is away")
        return self.key

    def load(self, pack: str = "") -> Any:
        """Policies of a pack, in a version of its own."""
        self.versions += 1
        return load_packs(
            {"pack.yaml": pack or self.pack},
            self._definitions,
            self.versions,
            catalog_services={"spark_catalog": "spark", "lake": "spark"},
        )

    async def ask(
        self, user: str, path: str, *, method: str = "GET", body: Any = None, **headers: str
    ) -> RestReply:
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.service.answer(
            method,
            path,
            {name.replace("_", "-").lower(): value for name, value in headers.items()},
            content,
            PEOPLE[user],
            Client(protocol="iceberg_rest", address="10.0.0.7"),
        )

    async def load_table(self, user: str, name: str, **headers: str) -> RestReply:
        return await self.ask(user, f"/v1/lake/namespaces/shop/tables/{name}", **headers)


@contextlib.asynccontextmanager
async def serving(
    reader: ReaderPool, *, pack: str = PACK, more: str = "", rules: Rules | None = None
) -> AsyncIterator[Served]:
    """A service whose catalog has the tables that the pack speaks of."""
    upstream = Upstream()
    for name in ("plain", "rows", "masks", "both", "partly", "gone"):
        upstream.tables["shop", name] = loaded()
    upstream.tables["hidden", "secret"] = loaded()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", upstream.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    upstream.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    served = Served(upstream, reader, pack=pack, more=more, rules=rules)
    try:
        yield served
    finally:
        await served.restrictions.aclose()
        await runner.cleanup()


def told(reply: RestReply) -> Any:
    """The JSON of a reply."""
    return json.loads(reply.body)


def fault(reply: RestReply) -> str:
    """The words of an error, which is one."""
    error = told(reply)["error"]
    assert error["code"] == reply.status >= 400
    assert error["type"]
    return str(error["message"])
