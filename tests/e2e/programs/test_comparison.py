"""The comparison tells what differs, and what no longer does."""

from __future__ import annotations

import pytest

from tests.e2e.programs.comparison import Difference, differences, level, require_alike

pytestmark = pytest.mark.programs
KNOWN = [Difference(program="p", step="b", through="no", direct="yes", reason="on purpose")]


def test_every_difference_has_a_reason() -> None:
    listed = differences()
    assert all(len(one.reason.split()) >= 5 for one in listed)
    assert len({(one.program, one.step) for one in listed}) == len(listed)


def test_what_is_listed_may_differ() -> None:
    require_alike("p", {"a": 1, "b": "no!"}, {"a": 1, "b": "yes!"}, KNOWN)
    require_alike("p", {"a": 1}, {"a": 1}, KNOWN)  # whose step was not run today


@pytest.mark.parametrize(
    ("program", "through", "direct"),
    [
        ("p", {"a": 1}, {"a": 2}),
        ("p", {"b": "yes"}, {"b": "yes"}),
        ("p", {"b": "maybe"}, {"b": "yes"}),
        ("p", {"a": 1}, {}),
        ("q", {"b": "no"}, {"b": "yes"}),
    ],
    ids=["not supported", "no longer different", "different otherwise", "not answered", "another program"],
)
def test_everything_else_is_told(program: str, through: dict[str, object], direct: dict[str, object]) -> None:
    with pytest.raises(AssertionError, match=r"a|b"):
        require_alike(program, through, direct, KNOWN)


def test_ids_and_names_of_a_run_are_levelled() -> None:
    given = {"mine.t": "id#12L of 01234567-89ab-cdef-0123-456789abcdef in mine, not minefield"}
    assert level(given, {"mine": "{db}"}) == {"{db}.t": "id# of # in {db}, not minefield"}
