"""What a denial could be about, when everything of a database is to be dropped."""

from __future__ import annotations

import pytest

from gateway.model.policy import ResourceValues
from gateway.sql.evaluate import may_mean


@pytest.mark.parametrize(
    ("values", "name", "expected"),
    [
        (("hr",), "HR", True),
        (("h*",), "hr", True),
        (("h?",), "hr", True),
        (("[h]r",), "hr", False),
        (("[h]r",), "[h]r", True),
        (("sales",), "hr", False),
        (("{USER}",), "hr", True),
        ((), "hr", True),
    ],
)
def test_wildcards_are_those_of_policies(values: tuple[str, ...], name: str, expected: bool) -> None:
    assert may_mean(ResourceValues(values=values), name) is expected
