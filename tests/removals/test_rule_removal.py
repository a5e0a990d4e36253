"""Each rule that a table of this folder names is held by a test: take it out, and some test notices.

For the engine's rules there is tests/policy/test_rule_removal.py; both use tests/removals/removing.py. By day
one in 36 of them, on each day others, for some 40 s of CPU in one process with one reader. A rule that
nothing notices has lost its test: give it one back.
"""

from __future__ import annotations

import pytest

from tests.removals.removing import TURNS, Removal, told_by
from tests.removals.run import NOTHING, REMOVALS, UNCHANGED
from tests.shares import in_turn


@pytest.mark.parametrize("removal", in_turn([pytest.param(r, id=r.name) for r in REMOVALS], TURNS))
def test_a_test_notices(removal: Removal) -> None:
    found = told_by("tests.removals.run")[removal.name]
    assert found["wrong"] is None
    assert found["case"] is not None, f"nothing in {removal.files} fails without it"
    assert found["case"].split("::")[0] in removal.files.split()


@pytest.mark.parametrize("name", [UNCHANGED, *NOTHING])
def test_nothing_is_noticed_where_nothing_is_taken_out(name: str) -> None:
    assert told_by("tests.removals.run")[name] == {"case": None, "wrong": None}


def test_there_are_enough() -> None:
    assert len(REMOVALS) > 500
