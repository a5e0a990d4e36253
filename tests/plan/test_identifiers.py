"""The two grammars of names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.catalog import quote_parts
from gateway.plan.identifiers import attribute_parts, table_parts

TABLES: list[tuple[str, tuple[str, ...] | None]] = [
    ("t", ("t",)),
    ("db.t", ("db", "t")),
    (" cat . db .\n t ", ("cat", "db", "t")),
    ("`my db`.`t``x`", ("my db", "t`x")),
    ("`a.b`.c", ("a.b", "c")),
    ("parquet.`/path/x`", ("parquet", "/path/x")),
    ("2024_sales", ("2024_sales",)),
    ("db.1st", ("db", "1st")),
    ("`größe`", ("größe",)),
    ("größe", None),
    ("", None),
    (".", None),
    ("a.", None),
    (".a", None),
    ("a..b", None),
    ("``", None),
    ("`a", None),
    ("`a`b", None),
    ("a b", None),
    ("t VERSION AS OF 1", None),
    ("t@v1", None),
    ("t-x", None),
    ("12", None),
    ("1e5", None),
    ("10L", None),
    ("db.12", None),
    ("t /* c */", None),
    ("t -- c", None),
    ("IDENTIFIER('t')", None),
    ('"t"', None),
    ("t\x00", None),
    ("t\u00a0", None),
    ("s3://b/t", None),
]


@pytest.mark.parametrize(("text", "parts"), TABLES)
def test_a_table_name_is_read_as_sparks_parser_reads_it(text: str, parts: tuple[str, ...] | None) -> None:
    assert table_parts(text) == parts


ATTRIBUTES: list[tuple[str, tuple[str, ...] | None]] = [
    ("c", ("c",)),
    ("", ("",)),
    ("a b", ("a b",)),
    ("t.c", ("t", "c")),
    ("`a.b`.c", ("a.b", "c")),
    ("c.`a.b`", ("c", "a.b")),
    ("`a``b`", ("a`b",)),
    ("``", ("",)),
    ("a.``", ("a", "")),
    (".a", None),
    ("a.", None),
    ("`a`.", None),
    ("a..b", None),
    ("a`b`", None),
    ("`a`b", None),
    ("`a", None),
    ("`a```", ("a`",)),
    ("`a``", None),
]


@pytest.mark.parametrize(("text", "parts"), ATTRIBUTES)
def test_a_column_name_is_split_as_the_analyzer_splits_it(text: str, parts: tuple[str, ...] | None) -> None:
    assert attribute_parts(text) == parts


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_quoted_names_come_back(parts: list[str]) -> None:
    assert table_parts(quote_parts(tuple(parts))) == tuple(parts)
    assert attribute_parts(quote_parts(tuple(parts))) == tuple(parts)


@given(st.text(alphabet="ab.` -1e/", max_size=12))
def test_any_text_has_parts_or_has_not(text: str) -> None:
    """What is understood means the same when it is written in backticks, as Spark will be sent it."""
    parts = table_parts(text)
    assert parts is None or table_parts(quote_parts(parts)) == parts
    attributes = attribute_parts(text)
    assert attributes is None or attribute_parts(quote_parts(attributes)) == attributes


def _reference(name: str) -> tuple[str, ...] | None:
    """Spark's algorithm, sign by sign, as documented for attribute names."""
    parts, current, quoted, at = [], "", False, 0
    while at < len(name):
        sign = name[at]
        if quoted and sign == "`":
            if name[at + 1 : at + 2] == "`":
                current, at = current + "`", at + 1
            else:
                quoted = False
                if at + 1 < len(name) and name[at + 1] != ".":
                    return None
        elif quoted:
            current += sign
        elif sign == "`":
            if current:
                return None
            quoted = True
        elif sign == ".":
            if at == 0 or name[at - 1] == "." or at == len(name) - 1:
                return None
            parts.append(current)
            current = ""
        else:
            current += sign
        at += 1
    return None if quoted else (*parts, current)


@given(st.text(alphabet="ab.`", max_size=12))
def test_the_short_way_and_the_long_way_agree(name: str) -> None:
    assert attribute_parts(name) == _reference(name)
