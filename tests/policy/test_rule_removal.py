"""Each of Ranger's rules is held by a case: take the rule out of the engine, and some case notices."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.policy.removals import REMOVALS, Removal

ROOT = Path(__file__).parents[2]


@cache
def noticed() -> dict[str, dict[str, Any]]:
    """Run all removals in a process of their own, which may import the engine as often as it likes."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.policy.removals"], cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("removal", [pytest.param(r, id=r.rule.lstrip("§")) for r in REMOVALS])
def test_a_case_notices(removal: Removal) -> None:
    found = noticed()[removal.rule]
    assert found["wrong"] is None
    assert found["case"] is not None, f"nothing in {removal.files} fails without it"
    assert found["case"].split(":")[0] in removal.files.split()


def test_there_are_enough() -> None:
    assert len({removal.rule for removal in REMOVALS}) == len(REMOVALS) > 100
