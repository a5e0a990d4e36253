"""The list of what a new Spark brings, of two Sparks that are one but for what was taken from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.reader.java_runtime import find_spark_home
from gateway.reader.replies import Hello
from tests.spark_diff import KINDS, Spark, differences, told


@pytest.fixture(scope="module")
def new() -> Spark:
    hello = Hello("4.3.0", (), (), frozenset({"abs", "of_tomorrow"}), frozenset(), frozenset(), ("SELECT",))
    return Spark(find_spark_home(), hello)


def test_a_spark_has_something_of_every_kind(new: Spark) -> None:
    told_by_parser = {"functions", "table functions", "functions that Spark Connect alone finds", "keywords"}
    for kind in KINDS:
        if kind.name not in told_by_parser:
            assert len(kind.has(new)) > 50, kind.name


def test_all_that_this_spark_s_parser_makes_is_placed(new: Spark) -> None:
    for kind in KINDS[1:3]:
        assert kind.placed is not None
        assert [name for name in kind.has(new) if not kind.placed(name)] == []


def test_what_came_and_went_is_told_with_where_it_goes(new: Spark, tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    old = Spark(tmp_path, replace(new.hello, functions=frozenset({"abs", "of_yesterday"})))
    found = {one.kind.name: one for one in differences(old, new)}
    assert (found["functions"].new, found["functions"].gone) == (("of_tomorrow",), ("of_yesterday",))
    assert "zip" not in found["keywords"].new
    text = told(list(found.values()), everything=False).splitlines()
    assert "  + ! of_tomorrow" in text
    assert "  - of_yesterday" in text
    assert (
        "functions: 1 new, 1 gone → gateway/sql/functions.py, with SINCE; gateway/sql/total_values.py"
        in str(text)
    )
    assert not any("Relation.zip" in line for line in text)
    assert "  + ✓ Relation.zip" in told(list(found.values()), everything=True).splitlines()
