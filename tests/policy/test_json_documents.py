"""Strict JSON: what is taken, what is refused, and in which line the fault is said to be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import Faults
from gateway.policy import json_documents
from gateway.policy.diagnostics import Diagnostics
from gateway.policy.json_documents import parse_json, parse_object
from tests.effort import tries


def faults_of(text: str | bytes, max_bytes: int = 1 << 30) -> tuple[str, ...]:
    with pytest.raises(Faults) as caught:
        parse_json(text, "p.json", max_bytes=max_bytes)
    return caught.value.faults


TEXT = """{"policies": [
  {"id": 1,
   "items": [1,
     2, {"x":
       3}]},
  {"id": 2}],
 "zones": {"hr":
  {"deep": {"deeper": {"deepest":
    [1,
     2]}}}}}
"""


def test_values_have_lines() -> None:
    document = parse_json(TEXT, "p.json")
    assert document.data == json.loads(TEXT)
    lines = {
        (): 1,
        ("policies",): 1,
        ("policies", 0): 2,
        ("policies", 0, "items"): 3,
        ("policies", 0, "items", 2, "x"): 4,
        ("policies", 1, "id"): 6,
        ("zones", "hr"): 7,
        ("zones", "hr", "deep", "deeper", "deepest", 1): 10,
        ("policies", 0, "items", 1): 4,
        ("policies", 9): 1,
        ("nowhere", "at", "all"): 1,
    }
    assert {path: document.line(path) for path in lines} == lines
    assert str(document.place(("policies", 1))) == "p.json:6"


def test_it_serves_findings() -> None:
    findings = Diagnostics(parse_json(TEXT, "p.json"))
    findings.add(("zones", "hr"), "late")
    findings.add(("policies", 0), "early")
    findings.warn(("policies", 1, "id"), "odd")
    assert findings.texts() == ["p.json:2: early", "p.json:7: late"]
    assert findings.warnings == ("p.json:6: odd",)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", ["1: not JSON: it is empty"]),
        (" \n ", ["2: not JSON: it is empty"]),
        ('{"a": 1,\n"b"', ["2: not JSON: the file is truncated"]),
        ('{"a": [1,\n2', ["2: not JSON: the file is truncated"]),
        ('{"a": [{"b": "x', ["1: not JSON: the file is truncated"]),
        ('{"policies": [\n{"id": 1},\n{"id": 2', ["3: not JSON: the file is truncated"]),
        ('{"a": 1}\n}', ["2: not JSON: unexpected content after document"]),
        ('{"a":\ntru}', ["2: not JSON: invalid literal, expected 'true'"]),
        ("{a: 1}", ["1: not JSON: unexpected character, expected a string key"]),
        ('{"a" 1}', ["1: not JSON: unexpected character, expected ':' after key"]),
        ("[1 2]", ["1: not JSON: unexpected character, expected ',' or ']'"]),
        ("[1,]", ["1: not JSON: trailing comma"]),
        ("<html>", ["1: not JSON: unexpected character, expected a JSON value"]),
        ('{"a": "x\ny"}', ["1: not JSON: unexpected control character in string"]),
        ("[1,\nNaN]", ["2: not JSON: unexpected character, expected a JSON value"]),
        ("[1,\n1e999]", ["2: not JSON: number is infinity"]),
        ('{"é":\n"é", "a": ' + "9" * 5000 + "}", ["2: not JSON: number is infinity"]),
        (
            '{"a": [{"b": 1,\n"b": 2}],\n"a": 3}',
            ["2: key `b` is repeated here (first in line 1)", "3: key `a` is repeated here"],
        ),
        ('{"x": {"y": {"z": {"{k}": 1, "{k}": 2}}}}', ["1: key `{k}` is repeated here"]),
        ('{"a": "\\"\\\\", "\\u0061": "\\u0022"}', ["1: key `a` is repeated here"]),
        ('{"a": "\\ud800"}', ["1: not JSON: no low surrogate"]),
        ('{"a":\n"\ud800"}', ["2: not JSON: half of a surrogate pair"]),
        ("[" * 100_000, ["1: nested deeper than 254 levels"]),
        ('[{"a":' * 140 + "1" + "}]" * 140, ["1: nested deeper than 254 levels"]),
        (b'{"a":\n"\xff"}', ["2: not JSON: it is not UTF-8"]),
        (b'{"a": "\xc3', ["1: not JSON: it is not UTF-8, or ends in the middle of a character"]),
    ],
)
def test_what_is_refused(text: str | bytes, faults: list[str]) -> None:
    found = faults_of(text)
    assert len(found) == len(faults), found
    for told, expected in zip(found, faults, strict=True):
        assert told.startswith(f"p.json:{expected}"), found


def test_bounds() -> None:
    assert faults_of("[1, 2, 3]", max_bytes=8) == ("p.json:1: the file is larger than 8 bytes",)
    assert faults_of(b"[1, 2, 3]", max_bytes=8) == ("p.json:1: the file is larger than 8 bytes",)
    assert faults_of('["ééé"]', max_bytes=9) == ("p.json:1: the file is larger than 9 bytes",)
    assert parse_json('["ééé"]', "p.json", max_bytes=10).data == ["ééé"]


def test_a_byte_order_mark_is_passed_over() -> None:
    assert parse_json("\ufeff[1]", "p.json").data == [1]
    assert parse_json(b"\xef\xbb\xbf[1]", "p.json").data == [1]


@pytest.mark.parametrize("text", ['{"a": 1, "a": {"b": "\\\\"}}', '{"a": 2, "\\u0061": {"b": "\\\\"}}'])
def test_of_keys_that_repeat_the_last_counts_where_they_may(text: str) -> None:
    assert faults_of(text)
    assert parse_object(text.encode(), "p.json") == {"a": {"b": "\\"}}


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from('{[]}",\\')
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text() | st.sampled_from(("policies", "id", '"policies":[{', "")), inner, max_size=4
        )
    ),
    max_leaves=20,
)


def paths_of(value: object) -> list[tuple[str | int, ...]]:
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [(), *((key, *path) for key, inner in entries for path in paths_of(inner))]


ENTRIES = st.lists(st.dictionaries(st.sampled_from(("id", "policies", "n")), VALUES, max_size=3), max_size=8)


@contextmanager
def slices_of(size: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_documents, "SLICE_BYTES", size)
        yield


@settings(max_examples=tries(300), deadline=None)
@given(VALUES, ENTRIES, st.sampled_from([None, 1]), st.booleans(), st.integers(0, 60))
def test_the_same_as_the_standard_library(
    value: object, entries: list[Any], indent: int | None, ascii_only: bool, size: int
) -> None:
    """However it is sliced. And every value's line is that of one call, and at least its parent's."""
    whole = {"x": value, "tagPolicies": {"policies": entries}, "policies": entries}
    for expected in (whole, [*entries, value], value):
        text = json.dumps(expected, indent=indent, ensure_ascii=ascii_only)
        at_once = parse_json(text, "p.json")
        with slices_of(size):
            document = parse_json(text, "p.json")
            assert parse_json(text, "p.json", unique_keys=False).data == expected
        assert document.data == at_once.data == expected
        for path in paths_of(expected):
            assert document.line(path) == at_once.line(path) >= document.line(path[:-1])


@pytest.mark.parametrize("size", [0, 40, 1 << 20])
def test_a_key_that_repeats_is_told_wherever_it_is(size: int) -> None:
    entries = ",\n".join(f'{{"id": {n}, "é": "}}, {{", "id{n % 7 or ""}": 1}}' for n in range(21))
    with slices_of(size):
        found = faults_of(f'{{"policies": [\n{entries}],\n"x": [\n{entries}],\n"x": 1}}')
    lines = [int(one.split(":")[1]) for one in found]
    assert lines == [2, 9, 16, 24, 31, 38, 45]


@settings(max_examples=tries(200), deadline=None)
@given(cut=st.integers(0, 2000), size=st.integers(0, 200))
def test_half_a_file_is_never_taken(cut: int, size: int) -> None:
    entries = [{"id": n, "name": f'"}},{{"id":{n}', "items": [{"id": 1}, {"id": 2}]} for n in range(40)]
    content = json.dumps({"serviceName": "s", "policies": entries, "z": {"policies": entries[:3]}}).encode()
    with slices_of(size), pytest.raises(Faults, match=r"not JSON"):
        parse_json(content[: len(content) * cut // 2001], "p.json")


@pytest.mark.parametrize("content", [b"[]", b'"x"', b"1"])
def test_what_is_no_object_is_none(content: bytes) -> None:
    with pytest.raises(Faults, match="is not a JSON object"):
        parse_object(content, "p.json")


@pytest.mark.parametrize(
    "more",
    [
        b'"p\\u006flicies": [{"id": 1}]',
        b'"p\\u006flicies": [{"": 0}]',
        b'"p\\u006flicies": [{"": -1}]',
        b'"p\\u006flicies": [{"": [1]}]',
        b'"x": ' + b"[" * 1000 + b"]" * 1000,
    ],
)
def test_what_only_a_hostile_server_writes_is_refused(more: bytes) -> None:
    with slices_of(10), pytest.raises(Faults):
        parse_object(
            b'{"policyDeltas": [{"id": 3}], ' + more + b', "serviceResources": [{"id": 2}]}', "p.json"
        )
