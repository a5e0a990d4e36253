"""Answers of a catalog on their way to a client: without credentials, with restrictions, and with an ETag
that says for whom they are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from gateway.catalog.rest import RestAnswer

JSON = "application/json"
PLAIN_CONFIG = frozenset(
    """
    client.region gcs.project-id s3.endpoint s3.path-style-access s3.region scan-planning-mode
    """.split()
)
"""What a catalog may tell a client of where a table's files are, whoever he is. Everything else that it tells
may be a login, or lead to one."""
_CREDENTIALS = ("storage-credentials", "config", "read-restrictions")
"""Members of an answer about a table that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestReply:
    """What a client is sent."""

    status: int = 200
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)


def reply_json(told: Any, status: int = 200) -> RestReply:
    """Return a reply in JSON."""
    return RestReply(status=status, body=orjson.dumps(told))


def withhold_config(config: Any) -> dict[str, str]:
    """Return what of a configuration is no login."""
    told = config if isinstance(config, dict) else {}
    return {key: one for key, one in told.items() if key in PLAIN_CONFIG and isinstance(one, str)}


def write_table(
    answer: RestAnswer,
    told: Mapping[str, Any],
    *,
    credentials: bool,
    restrictions: Mapping[str, Any] | None,
) -> bytes:
    """Return the body of an answer about a table: the catalog's own bytes, where nothing is kept from the
    client and nothing is said beside."""
    withheld: dict[str, Any] = {}
    config = told.get("config")
    # RULE (rest-credentials-withheld)
    if not credentials and (told.get("storage-credentials") or config):
        plain = withhold_config(config)
        withheld = {"storage-credentials": None, "config": plain or None}
    if restrictions is None and not withheld and told.get("read-restrictions") is None:
        return answer.content
    others = {key: one for key, one in told.items() if key not in _CREDENTIALS}
    for key in ("storage-credentials", "config"):
        one = withheld[key] if withheld else told.get(key)
        if one is not None:
            others[key] = one
    if restrictions is not None:
        others["read-restrictions"] = restrictions
    return orjson.dumps(others)


def make_etag(body: bytes, user: str, policies: str, upstream: str) -> str:
    """Return an ETag that is another one after a change of policies, for another user, and for other bytes.

    INVARIANT (no answer hides a revocation): it is compared after the call was judged, with what would be
    sent now.
    """
    told = hashlib.sha256()
    for one in (user, policies, upstream):
        told.update(f"{len(one)}:{one}".encode())
    told.update(body)
    return f'"{told.hexdigest()[:40]}"'


def is_same(header: str, etag: str) -> bool:
    """Whether an `If-None-Match` names an ETag."""
    given = {one.strip().removeprefix("W/") for one in header.split(",")}
    return etag in given
