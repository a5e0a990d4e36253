"""Every record becomes a row that PostgreSQL takes, and comes back as it was."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.rows import (
    COLUMNS,
    EventRow,
    decode_event,
    encode_event,
    event_digest,
    event_of,
    json_object,
    row,
)
from gateway.audit.segment import NO_STATEMENT, Entry, Mark
from gateway.model.audit import AuditEvent
from tests.audit.samples import cleared, completed, login, refused

anything = st.text(st.characters(codec=None))
numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | anything,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(anything, inner, max_size=3),
    max_leaves=8,
)


def named(values: EventRow) -> dict[str, Any]:
    return dict(zip(COLUMNS, values, strict=True))


def with_body(**changes: Any) -> AuditEvent:
    event = cleared()
    return dataclasses.replace(event, body={**event.body, **changes})


def test_marks_tell_what_recovery_needs() -> None:
    event = cleared()
    assert encode_event(event).mark is Mark.CLEARED
    assert encode_event(event).statement == uuid.UUID(event.statement_id).bytes
    assert encode_event(refused()).mark is Mark.REFUSED
    assert encode_event(completed(event)).mark is Mark.COMPLETED
    assert encode_event(login()).mark is Mark.OTHER
    assert encode_event(login()).statement == NO_STATEMENT


def test_columns_hold_what_auditors_search() -> None:
    event = cleared()
    found = named(row(encode_event(event)))
    assert found["event_id"] == uuid.UUID(event.event_id)
    assert found["user_name"] == "bob"
    assert found["groups"] == ["staff"]
    assert found["verdict"] == "cleared"
    assert found["resources"] == [
        "spark_catalog.hr.employee",
        "spark_catalog.hr.employee.name",
        "spark_catalog.hr.employee.ssn",
    ]
    assert found["policies"] == ["hr readers"]
    assert found["statement"] == event.body["reqData"]
    assert found["statement_sha256"].hex() == event.body["reqData_sha256"]
    assert found["duration_ms"] == 1.8
    assert found["client_address"] == "10.0.0.5:51000"
    assert found["original_record"] is None
    assert "reqData" not in orjson.loads(found["body"]), "texts are kept once"
    ended = named(row(encode_event(completed(event))))
    assert (ended["rows"], ended["bytes"], ended["outcome"]) == (3, 99, "finished")
    assert ended["backend_operation"] == "ab12"


@pytest.mark.parametrize("event", [cleared(), refused(), completed(cleared()), login(accepted=False)])
def test_a_row_gives_the_event_back(event: AuditEvent) -> None:
    assert event_of(named(row(encode_event(event)))) == event


def test_nul_and_surrogates_are_replaced_in_columns_and_kept_in_the_record() -> None:
    text = "SELECT '\0', '\ud800', '☃', '😀' FROM hr.employee"
    event = cleared(text, user="b\0b\udfff")
    found = named(row(encode_event(event)))
    assert found["statement"] == "SELECT '␀', '�', '☃', '😀' FROM hr.employee"
    assert found["user_name"] == "b␀b�"
    assert found["original_record"] is not None
    assert event_of(found) == event


def test_a_backslash_and_zeros_as_typed_are_no_nul() -> None:
    event = cleared(r"SELECT '\u0000', '\ud800' FROM hr.employee")
    found = named(row(encode_event(event)))
    assert found["original_record"] is None
    assert event_of(found) == event


def test_an_emoji_beside_a_surrogate_survives() -> None:
    event = cleared("😀\ud800")
    assert decode_event(encode_event(event).payload) == event


def test_names_are_cut_where_an_index_could_not_hold_them() -> None:
    event = with_body(resources=["x" * 5000], reqUser="bob")
    found = named(row(encode_event(event)))
    assert len(found["resources"][0]) == 400
    assert event_of(found) == event


@given(json_values, anything)
def test_any_value_comes_back_as_it_was(value: Any, text: str) -> None:
    event = with_body(odd=value, reqData=text)
    read = decode_event(encode_event(event).payload)
    assert orjson_like(read) == orjson_like(event)
    found = named(row(encode_event(event)))
    assert orjson_like(event_of(found)) == orjson_like(event)
    assert "\0" not in str(found["statement"])
    assert b"\\u0000" not in found["body"].encode().replace(b"\\\\", b"")


def orjson_like(event: AuditEvent) -> Any:
    return dataclasses.asdict(event)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"event_id": 1, "kind": "decided"}',
        encode_event(dataclasses.replace(cleared(), event_id="not a uuid")).payload,
        encode_event(dataclasses.replace(cleared(), time="yesterday")).payload,
        encode_event(dataclasses.replace(cleared(), time="0001-01-01T00:00:00.000000Z")).payload,
        encode_event(dataclasses.replace(cleared(), time="9999-12-31T23:59:59.999999Z")).payload,
        encode_event(with_body(groups=7)).payload,
        encode_event(with_body(reqData_sha256="zz")).payload,
        encode_event(with_body(huge=2**70)).payload,
    ],
)
def test_what_is_no_event_still_makes_a_row(payload: bytes) -> None:
    entry = Entry(Mark.CLEARED, uuid.UUID(int=5).bytes, payload)
    found = named(row(entry))
    assert found["original_record"] == payload
    assert orjson.loads(found["body"])["unfit"]
    assert found["statement_id"] == uuid.UUID(int=5)
    assert found["kind"] == "decided"
    assert row(entry) == row(entry), "and the same one each time"


@pytest.mark.parametrize(
    ("written", "now"),
    [
        ('{"a": "x"}', '{"a": "y", "a": "x"}'),
        ('{"a": 1}', '{"\\u0061": 2, "a": 1}'),
        ('{"a": {"b": [{"c": 1}]}}', '{"a": {"b": [{"c": 2, "c": 1}]}}'),
        # As many quotation marks as there were.
        ('{"a": "\\"\\"", "b": 1}', '{"a": "\\u0022\\u0022", "b": 2, "b": 1}'),
    ],
)
def test_a_body_that_has_a_key_twice_is_another(written: str, now: str) -> None:
    """Where text is kept, as in the archive: Spark reads the first value of such a key."""
    values = {**named(row(encode_event(cleared()))), "erased": None}
    assert orjson.loads(written) == orjson.loads(now) == json_object(written)
    assert event_digest({**values, "body": written}) != event_digest({**values, "body": now})


@given(json_values)
def test_a_body_is_the_object_that_it_is(value: Any) -> None:
    body = named(row(encode_event(with_body(value=value))))["body"]
    assert json_object(body) == orjson.loads(body)
