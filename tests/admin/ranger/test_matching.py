"""Resources of policies and zones against resources that are asked for."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admin.ranger.matching import globs_meet, match, overlap
from gateway.policy.globs import glob
from gateway.policy.hierarchy import MatchType
from tests.admin.ranger.objects import hive, resources

CASES = [
    ("shop/orders/*", "shop/orders/total", MatchType.SELF),
    ("shop/orders/*", "shop/orders", MatchType.SELF_AND_ALL_DESCENDANTS),
    ("shop/orders/total", "shop/orders", MatchType.DESCENDANT),
    ("shop", "shop/orders", MatchType.ANCESTOR),
    ("shop/*/*", "shop", MatchType.SELF_AND_ALL_DESCENDANTS),
    ("shop/orders", "shop", MatchType.DESCENDANT),
    ("shop/orders/*", "other/orders/total", MatchType.NONE),
    ("fin_??/t*/*", "FIN_EU/tx/a", MatchType.SELF),
    ("fin_??/t*/*", "fin_e/tx/a", MatchType.NONE),
]


@pytest.mark.parametrize(("policy", "asked", "expected"), CASES)
def test_match(policy: str, asked: str, expected: MatchType) -> None:
    request = {name: one["values"][0] for name, one in resources(asked).items()}
    assert match(resources(policy), request, hive()) is expected


def test_excluded_values_match_everything_else() -> None:
    policy = resources("hr/emp") | {"column": {"values": ["ssn"], "isExcludes": True}}
    asked = {"database": "hr", "table": "emp"}
    assert match(policy, {**asked, "column": "name"}, hive()) is MatchType.SELF
    assert match(policy, {**asked, "column": "SSN"}, hive()) is MatchType.NONE


def test_a_gap_matches_nothing() -> None:
    assert match({"table": {"values": ["*"]}}, {"table": "t"}, hive()) is MatchType.NONE


def test_recursive_urls_reach_what_lies_below() -> None:
    policy = {"url": {"values": ["s3://b/in"], "isRecursive": True}}
    assert match(policy, {"url": "s3://b/in/x"}, hive()) is MatchType.SELF
    assert match(policy, {"url": "s3://b/inbox"}, hive()) is MatchType.NONE


GLOBS = st.text("ab*?", max_size=6)


@given(GLOBS, GLOBS, st.text("ab", max_size=6))
def test_patterns_that_share_a_text_meet(one: str, other: str, text: str) -> None:
    if all(re.fullmatch(glob([(pattern, True)]), text) for pattern in (one, other)):
        assert globs_meet(one, other)


@given(GLOBS, st.text("ab", max_size=6))
def test_a_plain_text_meets_a_pattern_when_it_matches(pattern: str, text: str) -> None:
    assert globs_meet(pattern, text) == (re.fullmatch(glob([(pattern, True)]), text) is not None)
    assert globs_meet(text, pattern) == globs_meet(pattern, text)


OVERLAPS = [
    ({"database": ["shop"]}, {"database": ["shop"], "table": ["orders"]}, True),
    ({"database": ["shop"], "table": ["a*"]}, {"database": ["shop"], "table": ["*b"]}, True),
    ({"database": ["shop"], "table": ["a*"]}, {"database": ["shop"], "table": ["b*"]}, False),
    ({"database": ["shop"], "table": ["t"]}, {"database": ["shop"], "udf": ["t"]}, False),
    ({"database": ["shop"]}, {"url": ["s3://b"]}, False),
    ({"url": ["s3://b/x"]}, {"url": ["s3://b"]}, True),
]


@pytest.mark.parametrize(("one", "other", "expected"), OVERLAPS)
def test_zones_overlap(one: dict[str, list[str]], other: dict[str, list[str]], expected: bool) -> None:
    assert overlap(one, other, hive()) is expected
    assert overlap(other, one, hive()) is expected
