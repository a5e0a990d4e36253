"""Python programs over Spark Connect, each in its environment. `make programs-test`.

As somebody who may do everything they are answered as by Spark itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.e2e.programs.comparison import HERE, answers_of
from tests.e2e.programs.conftest import GOVERNED, Programs, Way
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


@take_turns("adbc")
def test_arrow_is_governed(programs: Programs, tmp_path: Path) -> None:
    """polars and DuckDB get what their user may see, whichever way Arrow comes to them."""
    with programs.scratch("programs_arrow") as scratch:
        answers = run("adbc", programs.through(GOVERNED, scratch), programs, tmp_path)
    for turn in (1, 2):
        _, rows = answers[f"{turn} polars"]
        assert [(row[0], row[1]) for row in rows] == [(1, "EMEA"), (2, "AMER"), (4, "EMEA"), (5, "EMEA")]
        assert [row[2] for row in rows] == ["xxx@x.xxxxxxx", "xx@x.xxxxxxx", None, "xxxx@x.xxxxxxx"]
        assert answers[f"{turn} polars over toArrow"][1] == rows
        counted = [["AMER", 1, 1, "xx@x.xxxxxxx"], ["EMEA", 3, 2, "xxxx@x.xxxxxxx"]]
        assert answers[f"{turn} DuckDB"][1] == answers[f"{turn} DuckDB over toArrow"][1] == counted
    told = orjson.dumps(answers).decode()
    assert "@y.example" not in told
    assert "APAC" not in told
