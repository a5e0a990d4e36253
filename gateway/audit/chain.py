"""The chain over the record: an event carries a link, which is made of the event and of the link before it.

Whoever changes, removes, adds or swaps events later would have to make all links after that anew, and then
the last of them differs from the one that a seal holds. Links are made when events reach PostgreSQL, of the
values that PostgreSQL has, so that they can be made again from there, or from a copy of the table.

An event is bound by a digest for each of its values. A value can so be erased, and its digest stand for it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

LINK_BYTES = 32
SHORT = 100
"""Characters of texts whose digests are remembered: users, tables and codes come again with each event."""
_EVENT = b"sluice event 1\n"
_LINK = b"sluice link 1\n"
_START = b"sluice chain 1\n"
# Made once: `json.dumps` would make an encoder for each value, and verifying years of events is this.
_written = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a gateway's chain: the position of its last event, from 1, and its link."""

    position: int
    link: bytes

    def next(self, digest: bytes) -> Head:
        """Return the head after one more event, by its digest."""
        position = self.position + 1
        return Head(position, link(self.link, position, digest))


def start(gateway: str) -> Head:
    """Return the head of a chain without events."""
    return Head(0, hashlib.sha256(_START + gateway.encode("utf-8", "replace")).digest())


def link(previous: bytes, position: int, digest: bytes) -> bytes:
    """Return the link of the event with this digest, at this position behind the link `previous`."""
    return hashlib.sha256(_LINK + previous + position.to_bytes(8, "big") + digest).digest()


def digest(values: Mapping[str, Any], erased: Mapping[str, str] | None = None) -> bytes:
    """Return the digest of an event.

    `values` are the columns of its row, the body as a mapping; nulls count as absent. `erased` has the
    digests, in hexadecimal, of values that are gone, `body.` before the names of those of the body.
    """
    digests = dict(erased or ())
    for name, value in values.items():
        if name == "body":
            digests |= {f"body.{key}": digest_of(inner) for key, inner in value.items()}
        elif value is not None:
            digests[name] = digest_of(value)
    lines = "".join(f"{name} {digests[name]}\n" for name in sorted(digests))
    return hashlib.sha256(_EVENT + lines.encode("utf-8", "replace")).digest()


def digest_of(value: Any) -> str:
    """Return the digest of one value of an event, in hexadecimal."""
    if type(value) is str and len(value) <= SHORT:
        return _digest_of_short(value)
    return hashlib.sha256(canonical(value)).hexdigest()


@lru_cache(maxsize=8192)
def _digest_of_short(text: str) -> str:
    return hashlib.sha256(canonical(text)).hexdigest()


def canonical(value: Any) -> bytes:
    """Write a value in the one way that does not depend on who has kept it: PostgreSQL's `jsonb` keeps
    numbers by their value and keys in an order of its own."""
    return _written(_plain(value)).encode("utf-8", "surrogatepass")


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value.is_integer() else value
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, dict | Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, Sequence):
        return [_plain(inner) for inner in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"an event has no value of type {type(value).__name__}")
