"""What a removal takes out is there: told by `make quick`, before the removals are run."""

from __future__ import annotations

import ast
import re
from collections import Counter
from copy import deepcopy
from functools import cache
from pathlib import Path

from tests.histories.mends import MENDS
from tests.policy import removals as of_policies
from tests.removals import run as of_statements
from tests.removals.marks import by_name, find, marks
from tests.removals.operations import NoSuchPart
from tests.removals.removing import ROOT, Removal

REMOVALS = (
    *of_statements.REMOVALS,
    *of_policies.REMOVALS,
    *(removal for mends in MENDS.values() for removal in mends if removal not in of_statements.REMOVALS),
)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def wrong_with(removal: Removal) -> str | None:
    """Return what is wrong with an entry, tried on a copy of the marked statement."""
    mark = by_name()[removal.name]
    found = find(tree_of(mark.path), mark.line)
    marked = found.block[found.place]
    block = [deepcopy(marked)]
    try:
        removal.operation.apply(block, 0, found.line)
    except NoSuchPart as error:
        return str(error)
    same = [ast.dump(one) for one in block] == [ast.dump(marked)]
    return "it changes nothing" if same else None


def test_each_mark_has_a_removal_and_each_removal_a_mark() -> None:
    assert Counter(mark.name for mark in marks()) == Counter(removal.name for removal in REMOVALS)
    assert len({mark.name for mark in marks()}) == len(marks())


def test_each_removal_changes_the_marked_statement() -> None:
    wrong = {one.name: found for one in REMOVALS if (found := wrong_with(one))}
    assert not wrong


def test_what_notices_a_removal_is_run_every_day() -> None:
    """Removals take turns: so the tests that hold the rules may not."""
    names = {name for removal in of_statements.REMOVALS for name in removal.files.split()}
    modules = [ROOT.joinpath("tests", *name.split(".")).with_suffix(".py") for name in names]
    assert len(modules) > 30
    turns = re.compile(r"tests\.shares|in_turn|mark\.night")
    assert not [module for module in modules if turns.search(module.read_text(encoding="utf-8"))]
