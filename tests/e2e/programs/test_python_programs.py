"""Python programs over Spark Connect, each in its environment. `make programs-test`.

As somebody who may do everything they are answered as by Spark itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.programs.comparison import HERE, answers_of
from tests.e2e.programs.conftest import Programs, Way
from tests.e2e.programs.turns import take_turns

PROGRAMS = ("ibis", "adbc", "pyspark_rust", "great_expectations")
"""Each has a directory of its name, with what to install and a `client.py`."""
ROOT = HERE.parents[2]
pytestmark = [pytest.mark.programs, pytest.mark.timeout(3600)]


def run(program: str, way: Way, programs: Programs, home: Path) -> Any:
    directory = HERE / program
    python = directory / ".venv" / "bin" / "python"
    command: list[str | Path] = [python, "-W", "ignore", directory / "client.py"]
    env = programs.trusting() | {"HOME": str(home), "PYTHONPATH": str(ROOT)}
    return answers_of([*command, way.remote, way.shop, way.scratch], env=env, cwd=home)


@pytest.mark.parametrize("program", [pytest.param(name, marks=take_turns(name)) for name in PROGRAMS])
def test_it_is_answered_as_by_spark(programs: Programs, program: str, tmp_path: Path) -> None:
    programs.require_alike(program, lambda way: run(program, way, programs, tmp_path))
