"""Which plugins download, and a switch for the log that is taken and does nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
from aiohttp import web

from gateway.admin.ranger.calls import PUBLIC, ApiCall, Route, answer, bad_request
from gateway.admin.ranger.kinds import Body, ObjectKind

_log = structlog.get_logger(__name__)

_FILTERS = {
    "serviceName": "serviceName",
    "serviceType": "serviceType",
    "pluginHostName": "hostName",
    "pluginAppType": "appType",
    "pluginIpAddress": "ipAddress",
}
_LEVELS = frozenset({"ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"})


async def _list(call: ApiCall) -> web.Response:
    async with call.store.reading() as reading:
        services = {one["name"]: one for one in await reading.all(ObjectKind.SERVICE)}
        definitions = {one["name"]: one for one in await reading.all(ObjectKind.SERVICE_DEF)}
    found = []
    for row in await call.store.plugins():
        service = services.get(row["service"])
        if service is None or not call.access.administers_service(call.principal, service):
            continue
        told = _build_plugin_info(row, service, definitions.get(service["type"]) or {})
        wanted = {key: call.parameter(name) for name, key in _FILTERS.items()}
        if all(told[key] == text for key, text in wanted.items() if text):
            found.append(told)
    return answer(found)


def _build_plugin_info(row: Mapping[str, Any], service: Body, definition: Mapping[str, Any]) -> Body:
    app, host = _split_plugin_id(row["plugin"], row["service"])
    return {
        "id": row["id"],
        "createTime": row["created_ms"],
        "updateTime": row["updated_ms"],
        "serviceName": row["service"],
        "serviceDisplayName": service.get("displayName") or service["name"],
        "serviceType": service["type"],
        "serviceTypeDisplayName": definition.get("displayName") or service["type"],
        "hostName": host,
        "appType": app,
        "ipAddress": row["address"],
        "info": row["info"],
    }


def _split_plugin_id(plugin: str, service: str) -> tuple[str, str]:
    """Return application and host of a plugin's id, `<application>@<host>-<service>`."""
    app, _, rest = plugin.partition("@")
    return app, rest.removesuffix(f"-{service}")


async def _set_log_level(call: ApiCall) -> web.Response:
    """Take Ranger's request to change a logger. Those that it means are Java's: nothing changes here."""
    call.require_administrator("change the log")
    body = await call.body()
    name, level = str(body.get("loggerName") or ""), str(body.get("logLevel") or "").upper()
    if not name or level not in _LEVELS:
        raise bad_request(f"a logger needs `loggerName` and `logLevel`, one of {', '.join(sorted(_LEVELS))}")
    _log.info("log_level_request_passed_over", level=level)
    return answer(f"the log level of `{name}` does not change: this server has no loggers of that kind")


ROUTES = (
    Route("GET", f"{PUBLIC}/plugins/info", _list),
    Route("GET", "/plugins/plugins/info", _list),
    Route("POST", "/admin/set-logger-level", _set_log_level),
)
