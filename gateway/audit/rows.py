"""Every spooled record becomes a row that PostgreSQL takes, whatever it holds; what had to change is kept.

PostgreSQL refuses NUL in text and in jsonb, and lone surrogates are no UTF-8 at all. Such characters are
replaced in the columns, and the row then carries the record's own bytes beside them.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from gateway.audit.chain import digest
from gateway.audit.segment import NO_STATEMENT, Entry, Mark
from gateway.database.texts import storable
from gateway.model.audit import AuditEvent

COLUMNS = (
    "event_id",
    "time",
    "kind",
    "statement_id",
    "gateway",
    "user_name",
    "groups",
    "roles",
    "client_address",
    "client_protocol",
    "application",
    "session_id",
    "verdict",
    "code",
    "message",
    "plan_class",
    "resources",
    "policies",
    "statement",
    "statement_sha256",
    "forwarded",
    "forwarded_sha256",
    "readers_agree",
    "snapshot",
    "backend_operation",
    "rows",
    "bytes",
    "duration_ms",
    "outcome",
    "error",
    "body",
    "original_record",
)
_KINDS_OF = {
    "uuid": "event_id statement_id",
    "timestamp with time zone": "time stored_at",
    "bigint": "rows bytes chain_position",
    "double precision": "duration_ms",
    "boolean": "readers_agree",
    "bytea": "statement_sha256 forwarded_sha256 original_record link",
    "text[]": "groups roles resources policies",
    "jsonb": "body erased",
}
COLUMN_TYPES = dict.fromkeys(COLUMNS, "text") | {
    name: kind for kind, names in _KINDS_OF.items() for name in names.split()
}
"""Types in PostgreSQL of all that `sluice.audit_event` has of an event."""
EventRow = tuple[Any, ...]

LAST_YEAR = 2200
UUID_CHARS, UUID_BYTES = 36, 16
MAX_INDEXED_CHARACTERS = 400
"""An index entry holds at most about 2,700 bytes; longer names are cut in their column, never in the body."""

_STANDARD_LIBRARY = b'{"event_id": '
"""How its writer begins an event; orjson puts no space there."""
_MARKS = {"completed": Mark.COMPLETED, "abandoned": Mark.ABANDONED}
_KINDS = {
    Mark.CLEARED: "decided",
    Mark.REFUSED: "decided",
    Mark.COMPLETED: "completed",
    Mark.ABANDONED: "abandoned",
}


KNOWN_DAY = "day BETWEEN '1970-01-01' AND '9000-01-01'"
"""SQL: a day that somebody here may have written, and Python knows."""


def select_time(column: str) -> str:
    """Return the SQL of a time, and of null for one that nobody here has written, and Python may not know."""
    return (
        f"CASE WHEN {column} BETWEEN '1970-01-01 00:00:00+00' AND '9000-01-01 00:00:00+00' THEN {column} END"
    )


def event_digest(row: Mapping[str, Any]) -> bytes:
    """Return the digest that the chain binds an event by, of its row in PostgreSQL or in the archive.

    Nothing else than objects was ever recorded as a body or as what is erased; whatever somebody has put
    there since has a digest all the same.
    """
    values = {name: row[name] for name in COLUMNS}
    values["body"] = json_object(values["body"])
    erased = row["erased"]
    return digest(values, json_object(erased) if erased is not None else None)


def json_object(text: Any) -> dict[str, Any]:
    """Return a text as the object that it is; what is none is one with a single value, and so is one that has
    a key twice: others read the first value of such a key, and we the last."""
    try:
        found = orjson.loads(text)
        written = orjson.dumps(found)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        # No JSON, or one that goes deeper than any that was written.
        return {"": text}
    if not isinstance(found, dict):
        return {"": found}
    # Where every string is still there, so is every key; only that is looked at for each event.
    same = text.count('"') == written.count(b'"') and "\\u0022" not in text
    return found if same or not _has_twice(text) else {"": text}


def _has_twice(text: str) -> bool:
    """Whether an object in a JSON has a key twice."""

    def once(pairs: list[tuple[str, Any]]) -> None:
        if len(pairs) != len({key for key, _ in pairs}):
            raise ValueError("a key appears twice")

    try:
        json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError):
        return True
    return False


def encode_event(event: AuditEvent) -> Entry:
    """Write an event as the spool keeps it.

    Surrogates are no UTF-8 and integers beyond 64 bits are too much for orjson: such a record is written
    by the standard library, with surrogates as the three bytes that UTF-8 would have for them. Escapes
    would not do, because reading joins a pair of them into one character.
    Raises TypeError when the body holds something that is no JSON.
    """
    fields = {
        "event_id": event.event_id,
        "kind": event.kind,
        "time": event.time,
        "statement_id": event.statement_id,
        "gateway": event.gateway,
        "user": event.user,
        "body": event.body,
    }
    try:
        payload = orjson.dumps(fields)
    except TypeError:
        payload = json.dumps(fields, default=dict, ensure_ascii=False).encode("utf-8", "surrogatepass")
    statement = read_uuid(event.statement_id) if event.statement_id else NO_STATEMENT
    return Entry(_mark(event), statement, payload)


def read_uuid(text: str) -> bytes:
    """Return the bytes of a UUID as we write them, or as `uuid` reads others. Raises ValueError."""
    if len(text) == UUID_CHARS and text[8] == text[13] == text[18] == text[23] == "-":
        found = bytes.fromhex(text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:])
        if len(found) == UUID_BYTES:  # blanks count for nothing
            return found
    return uuid.UUID(text).bytes


def _mark(event: AuditEvent) -> Mark:
    if event.kind == "decided":
        return Mark.CLEARED if event.body.get("verdict") == "cleared" else Mark.REFUSED
    return _MARKS.get(event.kind, Mark.OTHER)


def decode_event(payload: bytes) -> AuditEvent:
    """Read an event back exactly as it was recorded. Raises ValueError, KeyError or TypeError."""
    return AuditEvent(**_load(payload))


def _load(payload: bytes) -> dict[str, Any]:
    if payload.startswith(_STANDARD_LIBRARY):
        found = json.loads(payload.decode("utf-8", "surrogatepass"))
    else:
        found = orjson.loads(payload)
    if not isinstance(found, dict):
        raise TypeError("an audit record must be a JSON object")
    return found


def row(entry: Entry) -> EventRow:
    """Return the values of COLUMNS. A record that cannot be read as an event becomes an `unfit` row."""
    try:
        event = decode_event(entry.payload)
        return _event_row(event, entry.payload)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return build_unfit_row(entry, f"{type(error).__name__}: {error}")


def _event_row(event: AuditEvent, payload: bytes) -> EventRow:
    # Most records cannot hold either character and are not walked through.
    suspect = b"\\u0000" in payload or payload.startswith(_STANDARD_LIBRARY)
    clean = _clean(event.body) if suspect else event.body
    user, gateway = storable(event.user), storable(event.gateway)
    changed = suspect and (clean != event.body or user != event.user or gateway != event.gateway)
    body = {key: value for key, value in clean.items() if key not in ("reqData", "forwarded")}
    return (
        uuid.UUID(event.event_id),
        _time(event.time),
        event.kind,
        uuid.UUID(event.statement_id) if event.statement_id else None,
        _short(gateway),
        _short(user),
        _texts(clean.get("groups")),
        _texts(clean.get("roles")),
        clean.get("cliIP"),
        clean.get("cliType"),
        clean.get("application"),
        clean.get("sess"),
        clean.get("verdict"),
        clean.get("code"),
        clean.get("message") or clean.get("reason"),
        clean.get("plan_class"),
        _texts(clean.get("resources")),
        _texts(clean.get("policies")),
        clean.get("reqData"),
        _bytes(clean.get("reqData_sha256")),
        clean.get("forwarded"),
        _bytes(clean.get("forwarded_sha256")),
        clean.get("readers_agree"),
        clean.get("snapshot"),
        clean.get("backend_operation"),
        clean.get("rows"),
        clean.get("bytes"),
        _milliseconds(clean),
        clean.get("outcome"),
        clean.get("error"),
        orjson.dumps(body).decode(),
        payload if changed else None,
    )


def build_unfit_row(entry: Entry, why: str) -> EventRow:
    """Return a row that PostgreSQL takes for certain: bare facts, the reason, and the record's own bytes.

    Its key comes from the bytes, so that sending it twice gives one row.
    """
    digest = hashlib.sha256(entry.payload).digest()
    key, time, gateway, user = uuid.UUID(bytes=digest[:16]), _time_of(entry.statement), "", ""
    try:
        fields = _load(entry.payload)
        user, gateway = _short(storable(str(fields["user"]))), _short(storable(str(fields["gateway"])))
        key, time = uuid.UUID(str(fields["event_id"])), _time(str(fields["time"]))
    except (ValueError, KeyError, TypeError, OverflowError):
        pass  # the defaults stand
    values: dict[str, Any] = dict.fromkeys(COLUMNS)
    values |= {
        "event_id": key,
        "time": time,
        "kind": _KINDS.get(entry.mark, "other"),
        "statement_id": None if entry.statement == NO_STATEMENT else uuid.UUID(bytes=entry.statement),
        "gateway": gateway,
        "user_name": user,
        "verdict": {Mark.CLEARED: "cleared", Mark.REFUSED: "refused"}.get(entry.mark),
        "body": json.dumps({"unfit": storable(why)[:1000]}),
        "original_record": entry.payload,
    }
    return tuple(values[column] for column in COLUMNS)


def event_of(found: Mapping[str, Any]) -> AuditEvent:
    """Build the event back from a row; its own bytes win where the row had to change something."""
    if found["original_record"] is not None:
        try:
            return decode_event(bytes(found["original_record"]))
        except (ValueError, KeyError, TypeError):
            pass  # an unfit row shows as what it is
    body = dict(orjson.loads(found["body"]))
    for key, column in (("reqData", "statement"), ("forwarded", "forwarded")):
        if found[column] is not None:
            body[key] = found[column]
    time: datetime = found["time"].astimezone(UTC)
    return AuditEvent(
        event_id=str(found["event_id"]),
        kind=found["kind"],
        time=f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond:06d}Z",
        statement_id=str(found["statement_id"] or ""),
        gateway=found["gateway"],
        user=str(body.get("reqUser", found["user_name"])),
        body=body,
    )


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable(key): _clean(inner) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [_clean(inner) for inner in value]
    return value


def _short(value: str) -> str:
    return value if len(value) <= MAX_INDEXED_CHARACTERS else value[: MAX_INDEXED_CHARACTERS - 1] + "…"


def _texts(values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else [_short(value) for value in values]


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else bytes.fromhex(value)


def _milliseconds(body: Mapping[str, Any]) -> float | None:
    if "duration_us" in body:
        return float(body["duration_us"]) / 1000
    return float(body["duration_ms"]) if "duration_ms" in body else None


def _time(value: str) -> datetime:
    """Read a time. Partitions are made for whatever day a record names, so nonsense days are no times."""
    found = datetime.fromisoformat(value)
    if not value.endswith("Z") or not 1970 <= found.year <= LAST_YEAR:
        raise ValueError("a time that is out of range")
    return found


def _time_of(statement: bytes) -> datetime:
    """The time inside a UUIDv7; the epoch when there is none or it is beyond what a row may say."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    try:
        found = epoch + timedelta(milliseconds=int.from_bytes(statement[:6], "big"))
    except OverflowError:
        return epoch
    return found if found.year <= LAST_YEAR else epoch
