"""Formats of forwarded events: Sluice's own JSON, ArcSight's CEF, and OCSF 1.3 as JSON.

Each is one line of UTF-8. What is cut for length says so; the record in PostgreSQL has everything, under the
same `event_id`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal

import orjson

from gateway.model.audit import AuditEvent

ForwardFormat = Literal["json", "cef", "ocsf"]

MAX_LINE_BYTES = 256 * 1024
"""Beyond that an event is sent without lists that grow with the statement."""
INTERNAL = frozenset({"lineage", "plan"})
"""Keys of a body that Sluice alone can read: what lineage is made of."""
TEXTS = ("reqData", "forwarded", "texts")
LISTS = ("decisions", "scans", "resources", "texts", "settings", "groups", "roles")
"""Keys without which an event that is too long is sent."""

_OCSF_VERSION = "1.3.0"
_DATASTORE, _AUTHENTICATION, _BASE = 6005, 3002, 0
_LOGON, _LOGOFF, _OTHER = 1, 2, 99
_ACTIVITIES = {
    "select": 4,
    "read": 1,
    "update": 2,
    "alter": 2,
    "write": 5,
    "insert": 5,
    "create": 6,
    "drop": 7,
    "delete": 7,
}
"""Access type → activity of OCSF's class Datastore Activity."""
_TABLE = 3
_SUCCESS, _FAILURE, _UNKNOWN = 1, 2, 0
_FAILED = {"refused", "rejected", "failed", "timed_out"}


def make_encoder(form: ForwardFormat, *, version: str, text_chars: int) -> Callable[[AuditEvent], bytes]:
    """Return what makes a line of an event. `text_chars`: characters of a text that are sent; none at 0."""

    def encode(event: AuditEvent) -> bytes:
        body = _cut_texts(event.body, text_chars)
        line = _ENCODERS[form](event, body, version)
        if len(line) <= MAX_LINE_BYTES:
            return line
        kept = {key: value for key, value in body.items() if key not in LISTS}
        return _ENCODERS[form](event, {**kept, "cut": True}, version)

    return encode


def _cut_texts(body: Mapping[str, Any], characters: int) -> dict[str, Any]:
    kept = {key: value for key, value in body.items() if key not in INTERNAL}
    for key in TEXTS:
        if key not in kept:
            continue
        if characters == 0:
            del kept[key]
        elif isinstance(kept[key], str):
            kept[key] = _shorten(kept[key], characters)
        else:
            kept[key] = [_shorten(str(text), characters) for text in kept[key] or ()]
    return kept


def _shorten(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"


def _encode_json(event: AuditEvent, body: Mapping[str, Any], version: str) -> bytes:
    return _dump(
        {
            "event_id": event.event_id,
            "kind": event.kind,
            "time": event.time,
            "statement_id": event.statement_id,
            "gateway": event.gateway,
            "user": event.user,
            "version": version,
            **body,
        }
    )


def _encode_cef(event: AuditEvent, body: Mapping[str, Any], version: str) -> bytes:
    fate = _fate(body)
    address, port = _split_address(body.get("cliIP"))
    fields: dict[str, object] = {
        "rt": _milliseconds(event.time),
        "externalId": event.event_id,
        "dvchost": event.gateway,
        "suser": event.user,
        "src": address,
        "spt": port,
        "app": body.get("cliType"),
        "requestClientApplication": body.get("application"),
        "act": fate,
        "outcome": _outcome(fate),
        "reason": body.get("code") or body.get("sqlstate"),
        "msg": body.get("message") or body.get("error") or body.get("reason"),
        "request": body.get("reqData"),
        "cnt": body.get("rows"),
        "out": body.get("bytes"),
        "cs1": event.statement_id,
        "cs2": _join(_tables(body)),
        "cs3": _join(body.get("policies")),
        "cs4": body.get("sess"),
        "cs5": body.get("realUser"),
        "cs6": _join(body.get("groups")),
    }
    labels = ("statement", "tables", "policies", "session", "realUser", "groups")
    for number, label in enumerate(labels, 1):
        if fields[f"cs{number}"]:
            fields[f"cs{number}Label"] = label
    header = (version, f"{event.kind}.{fate}" if fate else event.kind, event.kind.replace("_", " "))
    extension = " ".join(
        f"{key}={_escape(str(value), '=')}" for key, value in fields.items() if value not in (None, "")
    )
    parts = "|".join(_escape(part, "|") for part in header)
    return f"CEF:0|Sluice|Sluice|{parts}|{_severity(event, fate)}|{extension}".encode("utf-8", "replace")


def _escape(text: str, separator: str) -> str:
    text = text.replace("\\", "\\\\").replace(separator, f"\\{separator}")
    text = text.replace("\r", "\\r").replace("\n", "\\n")
    return "".join(" " if ord(sign) < 0x20 or ord(sign) == 0x7F else sign for sign in text)


def _encode_ocsf(event: AuditEvent, body: Mapping[str, Any], version: str) -> bytes:
    fate = _fate(body)
    address, port = _split_address(body.get("cliIP"))
    kind, activity = _classify(event, body)
    uid = kind * 100 + activity
    name = str(body.get("action") or event.kind)
    written: dict[str, Any] = {
        "class_uid": kind,
        "category_uid": kind // 1000,
        "activity_id": activity,
        "type_uid": uid,
        "time": _milliseconds(event.time),
        "severity_id": 1 if _severity(event, fate) < 5 else 3,
        "status_id": {"success": _SUCCESS, "failure": _FAILURE}.get(_outcome(fate), _UNKNOWN),
        "status": fate,
        "status_code": body.get("code") or body.get("sqlstate"),
        "status_detail": body.get("message") or body.get("error") or body.get("reason"),
        "metadata": {
            "version": _OCSF_VERSION,
            "product": {"name": "Sluice", "vendor_name": "Sluice", "version": version},
            "uid": event.event_id,
            "correlation_uid": event.statement_id or None,
            "log_name": event.kind,
            "log_provider": event.gateway,
        },
        "actor": {
            "user": {"name": event.user, "groups": [{"name": group} for group in body.get("groups") or ()]},
            "session": {"uid": body["sess"]} if body.get("sess") else None,
        },
        "src_endpoint": {"ip": address, "port": port},
        "unmapped": {key: value for key, value in body.items() if key not in _MAPPED},
    }
    if activity == _OTHER:
        written["activity_name"] = name
    if kind == _AUTHENTICATION:
        written |= {"user": written["actor"]["user"], "service": {"name": "Sluice"}}
        written["auth_protocol"] = body.get("mechanism")
    if kind == _DATASTORE:
        written["type_id"] = _TABLE
        written["duration"] = round(body["duration_ms"]) if "duration_ms" in body else None
        if tables := _tables(body):
            written["table"] = {"name": tables[0]}
        if body.get("reqData"):
            written["query_info"] = {"query_string": body["reqData"], "uid": event.statement_id}
    return _dump(_drop_empty(written))


_MAPPED = frozenset(
    {"cliIP", "code", "message", "error", "groups", "sess", "reqData", "mechanism", "duration_ms"}
)
"""Keys of a body that have a place of their own in OCSF."""


def _classify(event: AuditEvent, body: Mapping[str, Any]) -> tuple[int, int]:
    """Return the class and the activity of an event in OCSF."""
    if event.kind == "login":
        return _AUTHENTICATION, _LOGON
    if event.kind == "session_ended":
        return _AUTHENTICATION, _LOGOFF
    if event.kind == "decided":
        return _DATASTORE, _ACTIVITIES.get(str(body.get("action", "")).lower(), _OTHER)
    if event.statement_id or event.kind in ("promoted", "reattached"):
        return _DATASTORE, _OTHER
    return _BASE, _OTHER


def _drop_empty(value: dict[str, Any]) -> dict[str, Any]:
    kept = {key: _drop_empty(inner) if isinstance(inner, dict) else inner for key, inner in value.items()}
    return {key: inner for key, inner in kept.items() if inner not in (None, "", [], {})}


def _fate(body: Mapping[str, Any]) -> str:
    return str(body.get("verdict") or body.get("outcome") or "")


def _outcome(fate: str) -> str:
    if fate in _FAILED:
        return "failure"
    return "success" if fate in ("cleared", "accepted", "finished") else ""


def _severity(event: AuditEvent, fate: str) -> int:
    """Return how grave an event is, from 0 to 10 as in CEF."""
    if event.kind == "security":
        return 8
    return 5 if fate in ("refused", "rejected") else 1


def _tables(body: Mapping[str, Any]) -> list[str]:
    scans = body.get("scans")
    if isinstance(scans, list):
        found = [str(scan["table"]) for scan in scans if isinstance(scan, Mapping) and "table" in scan]
        if found:
            return list(dict.fromkeys(found))
    resources = body.get("resources")
    return [str(one) for one in resources] if isinstance(resources, list) else []


def _split_address(given: Any) -> tuple[str | None, int | None]:
    """Return the address and the port of `10.0.0.1:4711` or `[::1]:4711`."""
    if not given:
        return None, None
    address, _, port = str(given).rpartition(":")
    return (address.strip("[]"), int(port)) if address and port.isdigit() else (str(given), None)


def _join(values: Any) -> str:
    return ",".join(map(str, values)) if values else ""


def _milliseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)


def _dump(value: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(value, default=str)
    except orjson.JSONEncodeError:  # lone surrogates of an original record
        return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace")


_ENCODERS: Mapping[ForwardFormat, Callable[[AuditEvent, Mapping[str, Any], str], bytes]] = {
    "json": _encode_json,
    "cef": _encode_cef,
    "ocsf": _encode_ocsf,
}
