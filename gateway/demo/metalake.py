"""A list of catalogs as a Gravitino server tells it, for `sluice lake-demo`: its documented REST API, no more
of it than the gateway asks, on a port of 127.0.0.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

METALAKE = "shop"
_AUDIT = {"creator": "emma", "createTime": "2026-01-01T00:00:00Z"}
_MEDIA_TYPE = "application/vnd.gravitino.v1+json"


@asynccontextmanager
async def metalake(catalogs: Mapping[str, Mapping[str, str]], tags: Mapping[str, Sequence[str]]) -> Any:
    """Serve the list; yields its URL.

    `catalogs`: properties of catalogs of the provider `lakehouse-iceberg` by their names; `tags`: full names
    of columns by what they are tagged with.
    """
    listed = [
        {
            "name": name,
            "type": "relational",
            "provider": "lakehouse-iceberg",
            "comment": None,
            "properties": {"in-use": "true", **properties},
            "audit": _AUDIT,
        }
        for name, properties in catalogs.items()
    ]
    tagged = [
        {"name": name, "comment": None, "properties": {}, "inherited": None, "audit": _AUDIT} for name in tags
    ]

    async def list_catalogs(_: web.Request) -> web.Response:
        return _answer(catalogs=listed)

    async def list_tags(_: web.Request) -> web.Response:
        return _answer(tags=tagged)

    async def list_objects(request: web.Request) -> web.Response:
        columns = tags.get(request.match_info["tag"], ())
        return _answer(metadataObjects=[{"fullName": name, "type": "column"} for name in columns])

    app = web.Application()
    below = f"/api/metalakes/{METALAKE}"
    app.router.add_get(f"{below}/catalogs", list_catalogs)
    app.router.add_get(f"{below}/tags", list_tags)
    app.router.add_get(f"{below}/tags/{{tag}}/objects", list_objects)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _answer(**told: Any) -> web.Response:
    return web.json_response({"code": 0, **told}, content_type=_MEDIA_TYPE)
