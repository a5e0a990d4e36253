"""Strict JSON: what is taken, what is refused, and in which line the fault is said to be."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import Faults
from gateway.policy.diagnostics import Diagnostics
from gateway.policy.json_documents import parse_json


def faults_of(text: str | bytes, **bounds: int) -> tuple[str, ...]:
    with pytest.raises(Faults) as caught:
        parse_json(text, "p.json", **bounds)
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
        ("", ["1: the file is empty"]),
        (" \n ", ["2: the file is empty"]),
        ('{"a": 1,\n"b"', ["2: the file ends in the middle: it was cut off"]),
        ('{"a": [1,\n2', ["2: the file ends in the middle: it was cut off"]),
        ('{"a": [{"b": "x', ["1: the file ends in the middle: it was cut off"]),
        ('{"policies": [\n{"id": 1},\n{"id": 2', ["3: the file ends in the middle: it was cut off"]),
        ('{"a": 1}\n}', ["2: not JSON: something stands behind the end"]),
        ('{"a":\ntru}', ["2: not JSON: expecting value"]),
        ("{a: 1}", ['1: not JSON: `"` is expected here']),
        ('{"a" 1}', ["1: not JSON: `:` is expected here"]),
        ("[1 2]", ["1: not JSON: `,` is expected here"]),
        ("[1,]", ["1: not JSON: expecting value"]),
        ("<html>", ["1: not JSON: expecting value"]),
        ('{"a": "x\ny"}', ["1: not JSON: invalid control character at"]),
        ("[NaN,\n-Infinity,\n1e999]", ["1: `NaN`", "2: `-Infinity`", "3: a number here is larger"]),
        ('{"a": {"b": {"c": {"d":\n[NaN]}}}}', ["2: `NaN` is no number"]),
        ('{"a": ' + "9" * 5000 + "}", ["1: a number here is longer than any type"]),
        (
            '{"a": [{"b": 1,\n"b": 2}],\n"a": 3}',
            ["2: key `b` stands here a second time (first in line 1)", "3: key `a` stands here a second"],
        ),
        ('{"x": {"y": {"z": {"{k}": 1, "{k}": 2}}}}', ["1: key `{k}` stands here a second time"]),
        ('{"a": "\\ud800"}', ["1: half of a surrogate pair"]),
        ("[" * 100_000, ["1: nested deeper than 64 levels"]),
        ('[{"a":' * 40 + "1" + "}]" * 40, ["1: nested deeper than 64 levels"]),
        (b'{"a":\n"\xff"}', ["2: the file is not UTF-8"]),
        (b'{"a": "\xc3', ["1: the file is not UTF-8, or ends in the middle of a letter"]),
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
    assert faults_of("[[[1]]]", max_depth=2) == ("p.json:1: nested deeper than 2 levels",)
    assert parse_json("[[1]]", "p.json", max_depth=2).data == [[1]]


def test_many_brackets_in_a_text_are_no_depth() -> None:
    text = json.dumps({"a": "{[" * 500})
    assert parse_json(text, "p.json").data == json.loads(text)


def test_a_byte_order_mark_is_passed_over() -> None:
    assert parse_json("\ufeff[1]", "p.json").data == [1]
    assert parse_json(b"\xef\xbb\xbf[1]", "p.json").data == [1]


def test_letters_across_the_chunks_that_bytes_are_read_in() -> None:
    text = json.dumps(["é" * (1 << 20)], ensure_ascii=False)
    assert parse_json(b" " + text.encode(), "p.json").data == json.loads(text)


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def paths_of(value: object) -> list[tuple[str | int, ...]]:
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [(), *((key, *path) for key, inner in entries for path in paths_of(inner))]


@given(VALUES, st.sampled_from([None, 1]))
def test_the_same_as_the_standard_library(value: object, indent: int | None) -> None:
    """And every value's line is at least its parent's."""
    text = json.dumps(value, indent=indent)
    expected = json.loads(text)
    document = parse_json(text, "p.json")
    assert document.data == expected
    for path in paths_of(expected):
        assert document.line(path) >= document.line(path[:-1])


@given(VALUES, st.integers(0, 200))
def test_half_a_file_is_never_taken(value: object, cut: int) -> None:
    text = json.dumps({"policies": [value], "version": 1})
    if cut < len(text):
        with pytest.raises(Faults):
            parse_json(text[:cut], "p.json")
