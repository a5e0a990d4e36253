"""Servers of catalogs as their documents have them, over one tree of databases and tables.

Iceberg's REST catalog and Gravitino's API, by aiohttp: their paths, pages, logins, errors. They are doubles
and not the real servers.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

TOKEN = "granted"


@dataclass
class Double:
    """What a double has been asked, and how it answers."""

    databases: dict[str, dict[str, str]] = field(default_factory=dict)
    """Database → table → kind (`table` or `view`)."""
    secret: str = ""
    """What a client has to show for a token; empty: nobody logs in."""
    page: int = 2
    """Elements of one page of a list."""
    told: dict[tuple[str, ...], dict[str, Any]] = field(default_factory=dict)
    """What was written of a database, or of a table in one: as the server would tell it."""
    separator: str = "\x1f"
    """What stands between the levels of a namespace, of an Iceberg catalog."""
    defaults: dict[str, str] = field(default_factory=dict)
    overrides: dict[str, str] = field(default_factory=dict)
    endpoints: list[str] = field(default_factory=list)
    """What its configuration says beside the prefix."""
    without_views: int = 0
    """Status of everything about views, where it has none."""
    wished: dict[str, str] = field(default_factory=dict)
    """Headers without which nobody is answered."""
    forms: list[dict[str, str]] = field(default_factory=list)
    """What was said at logins."""
    logins: int = 0
    paths: list[str] = field(default_factory=list)
    url: str = ""

    def drop_database(self, name: str) -> None:
        del self.databases[name]
        self.told = {key: told for key, told in self.told.items() if key[0] != name}


@asynccontextmanager
async def serving(double: Double, app: web.Application) -> AsyncIterator[Double]:
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    address = runner.addresses[0]
    double.url = f"http://127.0.0.1:{address[1]}"
    try:
        yield double
    finally:
        await runner.cleanup()


def iceberg(double: Double) -> web.Application:
    """An Iceberg REST catalog whose configuration says the prefix `wh/eu`."""

    def error(status: int, kind: str) -> web.Response:
        told = {"error": {"message": f"{kind} was raised", "type": kind, "code": status}}
        return web.json_response(told, status=status)

    def paged(request: web.Request, key: str, found: list[Any]) -> web.Response:
        if "pageToken" not in request.query:
            return web.json_response({key: found})
        first = int(request.query["pageToken"] or 0)
        following = first + double.page
        more = {"next-page-token": str(following)} if following < len(found) else {}
        return web.json_response({key: found[first:following], **more})

    @web.middleware
    async def guard(request: web.Request, handler: Any) -> Any:
        double.paths.append(request.path)
        if any(request.headers.get(name) != value for name, value in double.wished.items()):
            return error(403, "ForbiddenException")
        if double.without_views and request.match_info.get("kind") == "views":
            return error(double.without_views, "UnsupportedOperationException")
        shown = request.headers.get("Authorization", "")
        if double.secret and not request.path.endswith("oauth/tokens") and shown != f"Bearer {TOKEN}":
            return error(401, "NotAuthorizedException")
        return await handler(request)

    async def tokens(request: web.Request) -> web.Response:
        form = await request.post()
        double.logins += 1
        double.forms.append({key: str(value) for key, value in form.items()})
        if form.get("client_secret") != double.secret or form.get("grant_type") != "client_credentials":
            return error(400, "invalid_client")
        return web.json_response({"access_token": TOKEN, "token_type": "bearer", "expires_in": 3600})

    async def config(_: web.Request) -> web.Response:
        told: dict[str, Any] = {
            "defaults": {"prefix": "other", **double.defaults},
            "overrides": {"prefix": "wh/eu", **double.overrides},
        }
        return web.json_response(told | ({"endpoints": double.endpoints} if double.endpoints else {}))

    async def namespaces(request: web.Request) -> web.Response:
        parent = (
            request.query.get("parent", "").split(double.separator) if request.query.get("parent") else []
        )
        levels = {tuple(name.split(".")[: len(parent) + 1]) for name in double.databases}
        found = [
            list(one) for one in sorted(levels) if list(one[:-1]) == parent and len(one) == len(parent) + 1
        ]
        return paged(request, "namespaces", found)

    def tables_of(request: web.Request) -> dict[str, str] | None:
        return double.databases.get(request.match_info["namespace"].replace(double.separator, "."))

    async def namespace(request: web.Request) -> web.Response:
        if tables_of(request) is None:
            return error(404, "NoSuchNamespaceException")
        levels = request.match_info["namespace"].split(double.separator)
        told = double.told.get((".".join(levels),), {"properties": {"owner": "olga", "comment": "c"}})
        return web.json_response({"namespace": levels, "properties": told["properties"]})

    async def listed(request: web.Request) -> web.Response:
        tables = tables_of(request)
        if tables is None:
            return error(404, "NoSuchNamespaceException")
        levels, kind = (
            request.match_info["namespace"].split(double.separator),
            request.match_info["kind"][:-1],
        )
        found = [{"namespace": levels, "name": name} for name, one in sorted(tables.items()) if one == kind]
        return paged(request, "identifiers", found)

    async def loaded(request: web.Request) -> web.Response:
        kind = request.match_info["kind"][:-1]
        if (tables_of(request) or {}).get(request.match_info["name"]) != kind:
            return error(404, "NoSuchTableException")
        fields = [
            {"id": 1, "name": "id", "required": True, "type": "long"},
            {"id": 2, "name": "at", "required": False, "type": "timestamptz", "doc": "when"},
            {"id": 3, "name": "tags", "required": False, "type": {"type": "list", "element": "string"}},
        ]
        schemas = [{"type": "struct", "schema-id": 1, "fields": fields}]
        if kind == "view":
            said = [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}]
            version = {"version-id": 1, "schema-id": 1, "representations": said}
            metadata = {"current-version-id": 1, "versions": [version], "schemas": schemas}
        else:
            spec = {"spec-id": 3, "fields": [{"source-id": 1, "name": "b", "transform": "bucket[16]"}]}
            metadata = {
                "location": "s3://lake/t",
                "current-schema-id": 1,
                "schemas": schemas,
                "default-spec-id": 3,
                "partition-specs": [spec],
                "current-snapshot-id": 9,
                "snapshots": [{"snapshot-id": 9, "summary": {"total-records": "12"}}],
                "properties": {"owner": "olga"},
            }
        return web.json_response({"metadata": metadata, "metadata-location": "x", "config": {}})

    async def new_namespace(request: web.Request) -> web.Response:
        body = await request.json()
        name = ".".join(body["namespace"])
        if name in double.databases:
            return error(409, "AlreadyExistsException")
        if "." in name and name.rpartition(".")[0] not in double.databases:
            return error(404, "NoSuchNamespaceException")
        double.databases[name] = {}
        double.told[name,] = {"properties": body["properties"]}
        return web.json_response(body)

    async def no_namespace(request: web.Request) -> web.Response:
        found = tables_of(request)
        name = request.match_info["namespace"].replace(double.separator, ".")
        if found is None:
            return error(404, "NoSuchNamespaceException")
        if found or any(other.startswith(f"{name}.") for other in double.databases):
            return error(409, "NamespaceNotEmptyException")
        double.drop_database(name)
        return web.Response(status=204)

    below = "/v1/wh/eu/namespaces/{namespace}"
    app = web.Application(middlewares=[guard])
    app.router.add_post("/v1/wh/eu/namespaces", new_namespace)
    app.router.add_delete(below, no_namespace)
    app.router.add_post("/v1/oauth/tokens", tokens)
    app.router.add_get("/v1/config", config)
    app.router.add_get("/v1/wh/eu/namespaces", namespaces)
    app.router.add_get("/v1/wh/eu/namespaces/{namespace}", namespace)
    app.router.add_get("/v1/wh/eu/namespaces/{namespace}/{kind:tables|views}", listed)
    app.router.add_get("/v1/wh/eu/namespaces/{namespace}/{kind:tables|views}/{name}", loaded)
    return app


def gravitino(double: Double, catalogs: list[dict[str, Any]] | None = None) -> web.Application:
    """A Gravitino server with the metalake `lake`; its catalog `hive` holds the tree."""
    below = "/api/metalakes/lake/catalogs"

    def error(status: int, code: int, kind: str) -> web.Response:
        return web.json_response({"code": code, "type": kind, "message": f"{kind} was raised"}, status=status)

    @web.middleware
    async def guard(request: web.Request, handler: Any) -> Any:
        double.paths.append(request.path)
        shown = request.headers.get("Authorization", "")
        basic = "Basic " + base64.b64encode(f"olga:{double.secret}".encode()).decode()
        if double.secret and shown != basic:
            return error(401, 1008, "UnauthorizedException")
        return await handler(request)

    async def listed(_: web.Request) -> web.Response:
        return web.json_response({"code": 0, "catalogs": catalogs or []})

    def names(found: list[str]) -> web.Response:
        return web.json_response({"code": 0, "identifiers": [{"namespace": [], "name": n} for n in found]})

    async def schemas(_: web.Request) -> web.Response:
        return names(list(double.databases))

    async def schema(request: web.Request) -> web.Response:
        name = request.match_info["schema"]
        if name not in double.databases:
            return error(404, 1003, "NoSuchSchemaException")
        told = {"name": name, "comment": "c", "properties": {}, "audit": {"creator": "olga"}}
        return web.json_response({"code": 0, "schema": {**told, **double.told.get((name,), {})}})

    async def tables(request: web.Request) -> web.Response:
        found = double.databases.get(request.match_info["schema"])
        return error(404, 1003, "NoSuchSchemaException") if found is None else names(list(found))

    async def table(request: web.Request) -> web.Response:
        name = request.match_info["table"]
        if name not in double.databases.get(request.match_info["schema"], {}):
            return error(404, 1003, "NoSuchTableException")
        columns = [
            {"name": "id", "type": "long", "nullable": False},
            {"name": "at", "type": "timestamp_tz", "comment": "when"},
            {"name": "tags", "type": {"type": "list", "elementType": "string", "containsNull": True}},
        ]
        partitioning = [{"strategy": "bucket", "numBuckets": 16, "fieldNames": [["id"]]}]
        told = {"name": name, "columns": columns, "partitioning": partitioning, "audit": {"creator": "olga"}}
        told |= double.told.get((request.match_info["schema"], name), {})
        return web.json_response({"code": 0, "table": {**told, "name": name}})

    def dropped(there: bool) -> web.Response:
        return web.json_response({"code": 0, "dropped": there})

    async def new_schema(request: web.Request) -> web.Response:
        body = await request.json()
        if body["name"] in double.databases:
            return error(409, 1004, "SchemaAlreadyExistsException")
        double.databases[body["name"]] = {}
        double.told[body["name"],] = {key: body[key] for key in ("comment", "properties")}
        return await schema_of(body["name"])

    async def schema_of(name: str) -> web.Response:
        return web.json_response({"code": 0, "schema": {"name": name, **double.told[name,]}})

    async def no_schema(request: web.Request) -> web.Response:
        name = request.match_info["schema"]
        if name not in double.databases:
            return dropped(there=False)
        if double.databases[name]:
            return error(409, 1005, "NonEmptySchemaException")
        double.drop_database(name)
        return dropped(there=True)

    app = web.Application(middlewares=[guard])
    app.router.add_get(below, listed)
    app.router.add_get(f"{below}/hive/schemas", schemas)
    app.router.add_get(f"{below}/hive/schemas/{{schema}}", schema)
    app.router.add_post(f"{below}/hive/schemas", new_schema)
    app.router.add_delete(f"{below}/hive/schemas/{{schema}}", no_schema)
    app.router.add_get(f"{below}/hive/schemas/{{schema}}/tables", tables)
    app.router.add_get(f"{below}/hive/schemas/{{schema}}/tables/{{table}}", table)
    return app
