"""Answers of a catalog on their way to a client: without credentials, with restrictions, and with an ETag
that says for whom they are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import orjson

from gateway.catalog.rest import RestAnswer
from gateway.model.catalog import TableName
from gateway.rest.requests import RestCall

JSON = "application/json"
PLAIN_CONFIG = frozenset(
    """
    client.region gcs.project-id s3.endpoint s3.path-style-access s3.region scan-planning-mode
    """.split()
)
"""What a catalog may tell a client of where a table's files are, whoever he is. Everything else that it tells
may be a login, or lead to one."""
_STORES = ("adls.", "client.", "gcs.", "oss.", "s3.")
"""What settings of stores of files begin with; what asks the catalog itself to sign is none."""
_REFRESH = "refresh-credentials-endpoint"
_SIGNING = ("s3.signer", "s3.remote-signing")
_PASSED = frozenset({"metadata-location", "metadata"})
"""Members of an answer about a table or view that pass as they are. What else there is may be a login."""
_KNOWN = _PASSED | {"storage-credentials", "config", "read-restrictions"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestReply:
    """What a client is sent."""

    status: int = 200
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)


def reply_json(told: Any, status: int = 200) -> RestReply:
    """Return a reply in JSON."""
    return RestReply(status=status, body=orjson.dumps(told))


def withhold_config(config: Any, *, credentials: bool, refresh: str = "") -> dict[str, str]:
    """Return what of a configuration a client may have: with `credentials` the logins to files, and never one
    to the catalog, by which it would be asked past the gateway. `refresh`: where the client has new logins,
    in the place of the catalog's own route, to which he would show his token."""
    told = config if isinstance(config, dict) else {}
    shown = {}
    for key, one in told.items():
        if not isinstance(one, str):
            continue
        if key in PLAIN_CONFIG:
            shown[key] = one
        # RULE (rest-logins-withheld, rest-signing)
        elif credentials and key.startswith(_STORES) and not key.startswith(_SIGNING):
            if not key.endswith(_REFRESH):
                shown[key] = one
            elif refresh:
                shown[key] = refresh
    return shown


def withhold_logins(told: Any, refresh: str = "") -> list[dict[str, Any]]:
    """Return logins to files as a client may have them, none of which is one to the catalog."""
    return [
        {**one, "config": withhold_config(one.get("config"), credentials=True, refresh=refresh)}
        for one in _objects(told)
    ]


def route_of_credentials(call: RestCall, name: TableName) -> str:
    """Return where a client asks for new logins to a table's files."""
    levels = quote("\x1f".join(name.database.split(".")), safe="")
    catalog, table = quote(call.catalog, safe=""), quote(name.table, safe="")
    return f"v1/{catalog}/namespaces/{levels}/tables/{table}/credentials"


def has_logins(told: Mapping[str, Any]) -> bool:
    """Whether an answer has anything that not everybody may have."""
    config = told.get("config")
    return bool(told.get("storage-credentials")) or withhold_config(config, credentials=False) != (
        config or {}
    )


def write_table(
    answer: RestAnswer,
    told: Mapping[str, Any],
    *,
    credentials: bool,
    restrictions: Mapping[str, Any] | None,
    refresh: str = "",
) -> bytes:
    """Return the body of an answer about a table: the catalog's own bytes, where nothing is kept from the
    client and nothing is said beside. `refresh`: as of withhold_config."""
    config, vended = told.get("config"), told.get("storage-credentials")
    shown = withhold_config(config, credentials=credentials, refresh=refresh)
    logins = withhold_logins(vended, refresh) if credentials and vended is not None else None
    is_whole = told.keys() <= _KNOWN and (shown == config or config is None) and logins == vended
    if is_whole and restrictions is None and told.get("read-restrictions") is None:
        return answer.content
    others = {key: one for key, one in told.items() if key in _PASSED}
    if shown:
        others["config"] = shown
    if logins is not None:
        others["storage-credentials"] = logins
    if restrictions is not None:
        others["read-restrictions"] = restrictions
    return orjson.dumps(others)


def write_view(told: Mapping[str, Any]) -> bytes:
    """Return the body of an answer about a view: the version that counts, and no texts of earlier ones, which
    nobody has judged."""
    metadata = told.get("metadata")
    shown: dict[str, Any] = {key: one for key, one in told.items() if key in _PASSED}
    if isinstance(metadata, dict):
        current = [
            one for one in _objects(metadata.get("versions"))
            if one.get("version-id") == metadata.get("current-version-id")
        ]  # fmt: skip
        schemas = {one.get("schema-id") for one in current}
        used = [one for one in _objects(metadata.get("schemas")) if one.get("schema-id", 0) in schemas]
        shown["metadata"] = {**metadata, "versions": current, "schemas": used}
    config = withhold_config(told.get("config"), credentials=False)
    return orjson.dumps({**shown, **({"config": config} if config else {})})


def _objects(told: Any) -> list[dict[str, Any]]:
    return [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []


def make_etag(body: bytes, user: str, policies: str, upstream: str) -> str:
    """Return an ETag that is another one after a change of policies, for another user, and for other bytes.

    INVARIANT (no answer hides a revocation): it is compared after the call was judged, with what would be
    sent now.
    """
    told = hashlib.sha256()
    for one in (user, policies, upstream):  # RULE (rest-etag-user, rest-etag-policies)
        told.update(f"{len(one)}:{one}".encode())
    told.update(body)
    return f'"{told.hexdigest()[:40]}"'


def is_same(header: str, etag: str) -> bool:
    """Whether an `If-None-Match` names an ETag."""
    given = {one.strip().removeprefix("W/") for one in header.split(",")}
    return etag in given
