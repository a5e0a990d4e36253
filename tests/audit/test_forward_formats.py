"""What an event is in each format: nothing breaks a line, and nothing that was cut goes unsaid."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
import pytest

from gateway.audit.forward_formats import MAX_LINE_BYTES, ForwardFormat, make_encoder
from gateway.model.audit import AuditEvent
from tests.audit.samples import cleared, completed, login, refused

HOSTILE = "SELECT 'a|b=c\\d'\r\n-- \x1b[31m\x00\u202e ü 😀\tCEF:0|x|y|z|1|n|10|suser=admin"


def encoded(event: AuditEvent, form: ForwardFormat, *, text_chars: int = 1000) -> str:
    line = make_encoder(form, version="0.1|0", text_chars=text_chars)(event)
    assert b"\n" not in line
    assert b"\r" not in line
    return line.decode()


def with_body(event: AuditEvent, **more: Any) -> AuditEvent:
    return dataclasses.replace(event, body={**event.body, **more})


def cef(line: str) -> tuple[list[str], dict[str, str]]:
    """Parse a line as receivers do: seven parts by bars, then fields, both by signs that are not escaped."""
    parts: list[str] = []
    current, at = "", 0
    while len(parts) < 7:
        sign = line[at]
        if sign == "\\":
            current += line[at + 1]
            at += 1
        elif sign == "|":
            parts.append(current)
            current = ""
        else:
            current += sign
        at += 1
    found: dict[str, str] = {}
    rest, key, value = line[at:], "", ""
    at = 0
    while at < len(rest):
        sign = rest[at]
        if sign == "\\":
            value += {"n": "\n", "r": "\r"}.get(rest[at + 1], rest[at + 1])
            at += 1
        elif sign == "=":
            before, _, name = value.rpartition(" ")
            if key:
                found[key] = before
            key, value = name or value, ""
        else:
            value += sign
        at += 1
    return parts, found | {key: value}


def test_json_is_the_documented_event_without_what_only_sluice_reads() -> None:
    event = with_body(cleared(), lineage={"tables": "x" * 100}, plan="y")
    found = orjson.loads(encoded(event, "json"))
    assert found["event_id"] == event.event_id
    assert (found["kind"], found["user"], found["verdict"]) == ("decided", "bob", "cleared")
    assert found["scans"][0]["table"] == "spark_catalog.hr.employee"
    assert not {"lineage", "plan"} & set(found)


def test_cef_says_who_did_what_where() -> None:
    event = refused()
    header, fields = cef(encoded(event, "cef"))
    assert header == ["CEF:0", "Sluice", "Sluice", "0.1|0", "decided.refused", "decided", "5"]
    assert fields["suser"] == "bob"
    assert (fields["src"], fields["spt"], fields["app"]) == ("10.0.0.5", "51000", "thrift")
    assert (fields["act"], fields["outcome"], fields["reason"]) == ("refused", "failure", "ACCESS_DENIED")
    assert fields["request"] == "SELECT salary FROM hr.employee"
    assert (fields["cs1Label"], fields["cs1"]) == ("statement", event.statement_id)
    assert fields["externalId"] == event.event_id
    assert cef(encoded(login(accepted=False), "cef"))[0][4:] == ["login.rejected", "login", "5"]
    assert cef(encoded(completed(cleared()), "cef"))[1]["cnt"] == "3"


def test_no_statement_writes_fields_of_its_own() -> None:
    header, fields = cef(encoded(with_body(refused(HOSTILE), reqUser="x|y=z"), "cef"))
    assert header[4] == "decided.refused"
    assert fields["suser"] == "bob"
    assert fields["request"] == "".join(
        " " if sign < " " and sign not in "\r\n" else sign for sign in HOSTILE
    )


def test_ocsf_has_the_classes_of_statements_and_logins() -> None:
    found = orjson.loads(encoded(cleared(), "ocsf"))
    assert (found["class_uid"], found["category_uid"], found["type_uid"]) == (6005, 6, 600504)
    assert (found["status_id"], found["severity_id"]) == (1, 1)
    assert found["actor"] == {
        "user": {"name": "bob", "groups": [{"name": "staff"}]},
        "session": {"uid": "s-1"},
    }
    assert found["src_endpoint"] == {"ip": "10.0.0.5", "port": 51000}
    assert found["table"] == {"name": "spark_catalog.hr.employee"}
    assert found["unmapped"]["policies"] == ["hr readers"]
    denied = orjson.loads(encoded(refused(), "ocsf"))
    assert (denied["status_id"], denied["status_code"], denied["severity_id"]) == (2, "ACCESS_DENIED", 3)
    entry = orjson.loads(encoded(login(), "ocsf"))
    assert (entry["class_uid"], entry["type_uid"], entry["auth_protocol"]) == (3002, 300201, "PLAIN")
    end = orjson.loads(encoded(completed(cleared()), "ocsf"))
    assert (end["type_uid"], end["activity_name"], end["duration"]) == (600599, "completed", 12)


@pytest.mark.parametrize("form", ["json", "cef", "ocsf"])
def test_texts_are_cut_or_left_out(form: ForwardFormat) -> None:
    event = with_body(cleared("SELECT 'secret' FROM hr.employee"), texts=["SELECT 'secret'"])
    assert "secret" in encoded(event, form)
    assert "secret" not in encoded(event, form, text_chars=0)
    assert "SELECT…" in encoded(event, form, text_chars=7)


@pytest.mark.parametrize("form", ["json", "cef", "ocsf"])
def test_an_event_that_is_too_long_says_that_it_was_cut(form: ForwardFormat) -> None:
    event = with_body(cleared(), resources=["c.s." + "t" * 200] * 5000, scans=[])
    line = encoded(event, form)
    assert len(line) < MAX_LINE_BYTES
    assert event.event_id in line
    if form != "cef":
        assert '"cut":true' in line


@pytest.mark.parametrize("form", ["json", "cef", "ocsf"])
def test_what_is_no_unicode_is_replaced(form: ForwardFormat) -> None:
    assert "SELECT" in encoded(with_body(refused(), reqData="SELECT '\ud800'"), form)
