"""Whoever changes a line that a removal takes out is told by `make quick`, before the removals are run."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from tests.policy import removals as of_policies
from tests.removals import run as of_statements
from tests.removing import ROOT, Removal, changed


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


def test_what_notices_a_removal_is_run_every_day() -> None:
    """Removals take turns: so the tests that hold the rules may not."""
    names = {name for removal in of_statements.REMOVALS for name in removal.files.split()}
    modules = [ROOT.joinpath("tests", *name.split(".")).with_suffix(".py") for name in names]
    assert len(modules) > 30
    turns = re.compile(r"tests\.shares|in_turn|mark\.night")
    assert not [module for module in modules if turns.search(module.read_text(encoding="utf-8"))]
