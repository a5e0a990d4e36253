"""Python programs over Spark Connect, each in its environment. `make programs-test`.

As somebody who may do everything they are answered as by Spark itself.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.e2e.programs.comparison import HERE, answers_of, require_alike
from tests.e2e.programs.conftest import GOVERNED, HERS, Programs, Way
from tests.e2e.programs.turns import take_turns

PROGRAMS = ("ibis", "adbc", "pyspark_rust", "great_expectations", "sqlmesh")
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


@pytest.mark.parametrize(
    "program",
    [pytest.param(name, marks=take_turns(name)) for name in ("ibis", "great_expectations", "sqlmesh")],
)
def test_it_is_answered_as_over_copies(programs: Programs, program: str, tmp_path: Path) -> None:
    """Whoever has masks and filters is answered as by Spark over tables that hold what she may see."""
    with programs.scratch(HERS) as scratch:
        way = programs.through(GOVERNED, scratch)
        through = way.level(run(program, way, programs, tmp_path))
    with programs.scratch(HERS) as scratch, programs.copies() as shop:
        way = replace(programs.direct(scratch), shop=shop)
        direct = way.level(run(program, way, programs, tmp_path))
    require_alike(f"{program} as {GOVERNED}", through, direct)


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
