"""Whoever changes a line that a removal takes out is told by `make quick`, before the removals are run."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.policy import removals as of_policies
from tests.removals import run as of_statements
from tests.removing import Removal, changed


@pytest.mark.parametrize(
    ("removals", "package"),
    [
        pytest.param(of_statements.REMOVALS, "gateway", id="statements"),
        pytest.param(of_policies.REMOVALS, of_policies.PACKAGE, id="policies"),
    ],
)
def test_what_is_taken_out_stands_there_once(removals: Iterable[Removal], package: str) -> None:
    wrong = {one.rule: found for one in removals if isinstance(found := changed(one, package), str)}
    assert not wrong
