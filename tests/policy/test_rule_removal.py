"""Each of Ranger's rules is held by a case: take the rule out of the engine, and some case notices."""

from __future__ import annotations

import pytest

from tests.policy.removals import REMOVALS
from tests.removals.removing import TURNS, Removal, told_by
from tests.shares import in_turn


@pytest.mark.parametrize("removal", in_turn([pytest.param(r, id=r.name) for r in REMOVALS], TURNS))
def test_a_case_notices(removal: Removal) -> None:
    found = told_by("tests.policy.removals")[removal.name]
    assert found["wrong"] is None
    assert found["case"] is not None, f"nothing in {removal.files} fails without it"
    assert found["case"].split(":")[0] in removal.files.split()


def test_there_are_enough() -> None:
    assert len(REMOVALS) > 150
