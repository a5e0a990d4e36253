"""Expressions of service definitions: Python's answers, in time that no expression can stretch."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admin.ranger.patterns import NotTaken, fault_of, matches

EXPRESSIONS = [
    "", "a", "a*", "a+b?", "(a|b)*c", "[a-c]+", "[^a-c]+", r"\d{2,3}", r"\w+\.\w+", "a{2}", "a{2,}b",
    "^abc$", "(?:ab)+", ".*", r"[\w.-]+", "a*?b", r"[]a]+", "(a{1,2}){2}", "(|a)b", r"\$\{x\}", "(a*)*b",
]  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS)
@given(value=st.text("abc.1-${}x]", max_size=8))
def test_the_same_as_python(expression: str, value: str) -> None:
    assert matches(expression, value) == (re.fullmatch(expression, value, re.ASCII) is not None)


@pytest.mark.parametrize("expression", [r"(a+)+$", r"(a|a)*$", r"(.*a){12}", r"(\w*\w*\w*\w*)*x"])
def test_hostile_expressions_cost_no_more_than_others(expression: str) -> None:
    """With Python's engine each of these runs for longer than the test may."""
    assert not matches(expression, "a" * 60 + "!")


@pytest.mark.parametrize(
    "expression",
    ["(", ")", "a)", "*a", "a**", "[a", r"\1", "(?=a)", "(?<n>a)", "a{3,1}", "a{x}", "a++", r"\p{Greek}",
     "((a{1000}){1000}){1000}", "(" * 64 + ")" * 64, "[b-a]", "[a&&b]", "a\\", "[a[b]]", "[&-\\s", r"[a-\s]",
     "(?i)a", r"\Qa\E", r"\ba", r"\C", "[[:alpha:]]", "a{,2}", "a{2}{2}", "\ud800"],
)  # fmt: skip
def test_what_is_not_known_is_not_guessed(expression: str) -> None:
    assert fault_of(expression)
    with pytest.raises(NotTaken):
        matches(expression, "a")


@pytest.mark.parametrize(
    ("expression", "taken", "others"),
    [
        (r"\s", " \t\n\x0b\f\r", "a\x85\xa0"),
        (r"[\s]", " \t\n\x0b\f\r", "a\x85\xa0"),
        (r"[^\S]", " \t\n\x0b\f\r", "a\x85\xa0"),
        (r"[\w-\s]", "a_- \x0b", ".é"),
        (".", "aé\x85", "\n\r"),
        (r"\p{Alpha}", "aZ", "é1_"),
        (r"[\P{Alpha}]", "é1_", "aZ"),
        (r"\p{Punct}", "$.|~", "a é"),
        (r"\p{L}", "aé語", "1_"),
    ],
)
def test_classes_are_those_of_java(expression: str, taken: str, others: str) -> None:
    assert all(matches(expression, character) for character in taken)
    assert not any(matches(expression, character) for character in [*others, "\ud800"])


def test_values_are_bounded() -> None:
    assert matches("a*", "a" * 4096)
    assert not matches("a*", "a" * 4097)
