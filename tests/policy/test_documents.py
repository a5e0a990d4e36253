"""Strict YAML: what is taken, what is refused and where the fault is said to be."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import Faults
from gateway.policy.diagnostics import Diagnostics, hint, list_unknown_keys
from gateway.policy.documents import Document, parse_document


def faults_of(text: str | bytes, **bounds: int) -> tuple[str, ...]:
    with pytest.raises(Faults) as caught:
        parse_document(text, "p.yaml", **bounds)
    return caught.value.faults


def test_plain_data_with_lines() -> None:
    document = parse_document("a: 1\nb:\n  - x\n  - {c: d,\n     e: 2.5}\n", "p.yaml")
    assert document.data == {"a": 1, "b": ["x", {"c": "d", "e": 2.5}]}
    assert document.line(()) == 1
    assert document.line(("b",)) == 2
    assert document.line(("b", 0)) == 3
    assert document.line(("b", 1, "e")) == 5
    assert document.line(("b", 1, "nowhere", 7)) == 4
    assert str(document.place(("b", 1, "e"))) == "p.yaml:5"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NO", "NO"),
        ("yes", "yes"),
        ("on", "on"),
        ("off", "off"),
        ("true", True),
        ("False", False),
        ('"true"', "true"),
        ("null", None),
        ("~", None),
        ("", None),
        ("''", ""),
        ("12", 12),
        ("-0", 0),
        ("012", "012"),
        ("0x1f", "0x1f"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2020-01-01", "2020-01-01"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        (".", "."),
        ("-", None),
        (".nan", ".nan"),
        ("9" * 5000, "9" * 5000),
        ("'12'", "12"),
        ("|\n  12\n", "12\n"),
    ],
)
def test_scalars(text: str, value: object) -> None:
    if text == "-":
        assert parse_document("- ", "p.yaml").data == [None]
    else:
        data = parse_document(f"k: {text}", "p.yaml").data
        assert data == {"k": value}
        assert type(data["k"]) is type(value)


def test_keys_are_text_as_written() -> None:
    assert parse_document("{on: 1, 2: 2, true: 3, null: 4}", "p.yaml").data == {
        "on": 1,
        "2": 2,
        "true": 3,
        "null": 4,
    }


def test_empty_file_is_nothing() -> None:
    assert parse_document("# only a comment\n", "p.yaml").data is None
    assert parse_document("", "p.yaml").line(("x",)) == 1


def test_every_repeated_key_is_told() -> None:
    assert faults_of("a: 1\nb: {c: 1, c: 2}\na: 3\n") == (
        "p.yaml:2: key `c` is repeated here (first in line 2)",
        "p.yaml:3: key `a` is repeated here (first in line 1)",
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: !!python/object/apply:os.system [id]", "p.yaml:1: tags such as"),
        ("a: !secret x", "p.yaml:1: tags such as `!secret`"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", "p.yaml:3: merge keys"),
        ("a: 1\n---\nb: 2\n", "p.yaml:2: a file must contain one document"),
        ("a: *b", "p.yaml:1: "),
        ("a: &b [1, *b]", "p.yaml:1: anchor `&b` contains itself"),
        ("? [1, 2]\n: x", "p.yaml:1: a key must be text"),
        ("a: &x k\n*x : 1", "p.yaml:2: a key may not be an alias"),
        ("'': 1", "p.yaml:1: a key must not be empty"),
        ("a: 1\nb: [1,\n", "p.yaml:3: not YAML: "),
        ("a: 1\n\tb: 2\n", "p.yaml:2: not YAML: "),
        ("a: 1\nb: \x00\n", "p.yaml:2: a character"),
        ("a: 1\n\nb: \ud800\n", "p.yaml:3: a character"),
        (b"a: 1\nb: \xff\n", "p.yaml:2: the file is not UTF-8"),
    ],
)
def test_refused(text: str | bytes, fault: str) -> None:
    faults = faults_of(text)
    assert faults[0].startswith(fault), faults


def test_billion_laughs_is_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    started = time.process_time()
    assert "values when aliases are expanded" in faults_of("\n".join(lines))[0]
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "- " * 100_000, "{a: " * 5_000, "\n".join(" " * i + "a:" for i in range(900))]
)
def test_deep_nesting_is_refused(text: str) -> None:
    assert faults_of(text)


def test_depth_hidden_behind_aliases_is_refused() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 60)]
    assert "nested deeper than" in faults_of("\n".join(lines))[0]


def test_size_is_bounded() -> None:
    assert faults_of("a: " + "x" * 100, max_bytes=50) == ("p.yaml:1: the file is larger than 50 bytes",)
    assert "more than 10 values" in faults_of("[" + "1," * 20 + "]", max_nodes=10)[0]


def test_an_alias_is_taken() -> None:
    document = parse_document("a: &x {b: 1}\nc: *x\n", "p.yaml")
    assert document.data == {"a": {"b": 1}, "c": {"b": 1}}
    assert document.line(("c",)) == 2


@given(st.text(max_size=200))
def test_any_text_parses_or_faults(text: str) -> None:
    try:
        document = parse_document(text, "p.yaml")
    except Faults as refused:
        starts = [fault[:7] for fault in refused.faults]
        assert set(starts) == {"p.yaml:"}
    else:
        assert isinstance(document, Document)


@given(st.text(alphabet="ab:-[]{}&*!<>|\n '\"#%@`?~,0.", max_size=60))
def test_any_yamlish_text_parses_or_faults(text: str) -> None:
    with contextlib.suppress(Faults):
        parse_document(text, "p.yaml")


def test_hints_and_unknown_keys() -> None:
    assert hint("polices", ["policies", "roles"]) == " (did you mean `policies`?)"
    assert hint("zzz", ["policies"]) == ""
    document = parse_document("roles: 1\npolices: 2\n", "p.yaml")
    faults = Diagnostics(document)
    list_unknown_keys(document.data, ["roles", "policies"], (), faults, "a pack")
    assert faults.texts() == ["p.yaml:2: unknown key `polices` in a pack (did you mean `policies`?)"]
    with pytest.raises(Faults):
        faults.raise_any()
