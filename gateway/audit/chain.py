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
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from operator import itemgetter
from typing import Any
from uuid import UUID

import orjson

LINK_BYTES = 32
SHORT, LONGER = 100, 2_000
"""Characters of texts, and bytes of JSON, whose digests are remembered: users, tables, codes and decisions
come again with each event."""
_EVENT = b"sluice event 1\n"
_LINK = b"sluice link 1\n"
_START = b"sluice chain 1\n"
ERASED_COLUMNS = ("statement", "forwarded", "message", "error", "original_record")
ERASED_KEYS = ("texts", "lineage", "message", "reason", "error")
"""Keys of the body that hold texts of statements, or may quote them."""
ERASABLE = frozenset({*ERASED_COLUMNS, *(f"body.{key}" for key in ERASED_KEYS)})
_DIGEST = re.compile(r"[0-9a-f]{64}")
_EXACT = 2.0**53
_SCALARS = frozenset({int, float, bool, type(None)})
_PLAINLY_WRITTEN = frozenset({UUID, datetime, bytes})
"""What is written as a string of digits, letters and signs that JSON has as they are."""
_AS_READ = (
    orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS
)
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

    `values` are the columns of its row, the body as a mapping that was read from JSON; nulls count as absent.
    `erased` has the digests, in hexadecimal, of values that are gone, `body.` before the names of those of
    the body. Only `ERASABLE` ones can be gone: else whoever knows an event could take any value out of it,
    and put the value's digest there.
    """
    lines: dict[str, str] = {}
    for name, told in erased.items() if erased else ():
        if name in ERASABLE and _is_digest(told) and not _is_there(name, values):
            lines[name] = f"{name} {told}\n"
        else:
            # No event has such a line, so that its digest is another.
            lines["erased"] = "erased\n"
    # Thirty-five values of each event that is shipped or verified: a call less for each is a tenth of it.
    for name, value in values.items():
        if name == "body":
            for key, inner in value.items():
                inside, kind = _in_body(key), type(inner)
                is_short = len(inner) <= SHORT if kind is str else kind in _SCALARS
                lines[inside] = _line_of_short(inside, inner) if is_short else line(inside, inner)
        elif value is not None:
            kind = type(value)
            is_short = len(value) <= SHORT if kind is str else kind in _SCALARS
            lines[name] = _line_of_short(name, value) if is_short else line(name, value)
    return digest_of_lines("".join([lines[name] for name in _in_order(tuple(lines))]))


def _is_digest(told: Any) -> bool:
    return isinstance(told, str) and _DIGEST.fullmatch(told) is not None


def _is_there(name: str, values: Mapping[str, Any]) -> bool:
    if name.startswith("body."):
        return name.removeprefix("body.") in values["body"]
    return values[name] is not None


def digest_of_lines(lines: str) -> bytes:
    """Return the digest of an event by the lines of its values, in the order of their names."""
    return hashlib.sha256(_EVENT + lines.encode("utf-8", "replace")).digest()


def lines_of_body(body: Mapping[str, Any]) -> str:
    """Return the lines of a body that was read from JSON, in the order of their names."""
    return "".join([line(name, body[key]) for key, name in _body_in_order(tuple(body))])


def line(name: str, value: Any) -> str:
    """Return the line of one value of an event. What comes again with each event is made once."""
    kind = type(value)
    if kind is str:
        if len(value) <= SHORT:
            return _line_of_short(name, value)
    elif kind in _SCALARS:
        return _line_of_short(name, value)
    elif kind is dict or kind is list:
        with suppress(TypeError):
            written = orjson.dumps(value, option=_AS_READ)
            if len(written) <= LONGER:
                return _line_of_json(name, written)
    return f"{name} {digest_of(value)}\n"


@lru_cache(maxsize=16_384, typed=True)
def _line_of_short(name: str, value: Any) -> str:
    return f"{name} {digest_of(value)}\n"


@lru_cache(maxsize=4_096)
def _line_of_json(name: str, written: bytes) -> str:
    return f"{name} {digest_of(orjson.loads(written))}\n"


@lru_cache(maxsize=1_024)
def _in_body(key: str) -> str:
    # A key with a line break in it could be the lines of several values that are gone.
    return f"body.{key}" if "\n" not in key else f"body.{digest_of(key)}"


@lru_cache(maxsize=1_024)
def _in_order(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(names))


@lru_cache(maxsize=1_024)
def _body_in_order(keys: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(((key, _in_body(key)) for key in keys), key=itemgetter(1)))


def digest_of(value: Any) -> str:
    """Return the digest of one value of an event, in hexadecimal."""
    return hashlib.sha256(canonical(value)).hexdigest()


def canonical(value: Any) -> bytes:
    """Write a value in the one way that does not depend on who has kept it: PostgreSQL's `jsonb` keeps
    numbers by their value and keys in an order of its own."""
    kind = type(value)
    if kind in _PLAINLY_WRITTEN:
        return f'"{_plain(value)}"'.encode()
    if kind is int or (kind is float and math.isfinite(value)):
        return repr(_plain(value)).encode()
    return _written(_plain(value)).encode("utf-8", "surrogatepass")


def _whole(value: float) -> int:
    """Return a number without a fraction as it is once `jsonb` has kept it: with the digits that it was
    written with, and from there as an integer, where such a one has 64 bits at most."""
    if abs(value) <= _EXACT:
        return int(value)
    written = int(Decimal(repr(value)))
    return written if -(1 << 63) <= written < 1 << 64 else int(value)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return _whole(value) if math.isfinite(value) and value.is_integer() else value
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [_plain(inner) for inner in value]
    raise TypeError(f"an event cannot have a value of type {type(value).__name__}")
