"""How a run of the suite ends: nothing is left running, and what it cost is told suite by suite."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import date, timedelta
from math import gcd
from pathlib import Path

import psutil
import pytest

from tests.costs import Cost, budget, over_budget, read_steps, suite_of, table
from tests.lanes import world_of
from tests.parts import CORE, PARTS, part_of
from tests.shares import PERIODS, in_turn, place_suites, turn
from tests.speed import SPEEDOMETER, patience

REPOSITORY = Path(__file__).parents[1]

LEAVES_A_PROCESS = """
import subprocess
import pytest
from pathlib import Path

HERE = Path(__file__).parent

@pytest.fixture(scope="session")
def server():
    process = subprocess.Popen(["sleep", "3600"])
    yield
    process.kill()
    process.wait()
    (HERE / "stopped").touch()

def test_waits_for_ever(server):
    # A child whose own parent ends at once: nobody in the lane knows of it.
    command = "setsid sleep 3600 >/dev/null 2>&1 & echo $!"
    orphan = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    (HERE / "orphan.new").write_text(orphan.stdout)
    (HERE / "orphan.new").rename(HERE / "orphan")
    if {waits}:
        subprocess.run(["sleep", "3600"], check=True)

def test_another():
    pass
"""


def lanes(directory: Path, *, waits: bool) -> subprocess.Popen[str]:
    """Start two lanes over a suite of two tests, as `make test` does."""
    (directory / "test_it.py").write_text(LEAVES_A_PROCESS.replace("{waits}", str(waits)))
    (directory / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-n", "2", "-q", "-p", "tests.costs", "-p", "tests.lanes"]
    return subprocess.Popen(
        [*command, "-p", "no:cacheprovider", "--costs", str(directory)],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for(file: Path) -> int:
    deadline = time.monotonic() + patience()
    while not file.exists():
        assert time.monotonic() < deadline, f"{file} did not come"
        time.sleep(0.02)
    return int(file.read_text())


def runs(pid: int) -> bool:
    """Whether a process is there; one that ended and that nobody has waited for yet is not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def ends(pid: int) -> bool:
    """Whether a process that was killed ends: the kernel takes a moment."""
    deadline = time.monotonic() + patience()
    while runs(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not runs(pid)


@pytest.mark.in_turn(3)
def test_ctrl_c_stops_what_the_tests_started(tmp_path: Path) -> None:
    """Also where `kill` told the first process alone; a terminal tells its whole group."""
    run = lanes(tmp_path, waits=True)
    orphan = wait_for(tmp_path / "orphan")
    assert runs(orphan)
    run.send_signal(signal.SIGINT)
    output, _ = run.communicate(timeout=patience())
    assert run.returncode == pytest.ExitCode.INTERRUPTED, output
    assert (tmp_path / "stopped").exists(), "fixtures were not torn down"
    assert ends(orphan), output


@pytest.mark.in_turn(3)
def test_a_run_that_leaves_something_behind_has_failed(tmp_path: Path) -> None:
    run = lanes(tmp_path, waits=False)
    output, _ = run.communicate(timeout=patience())
    orphan = int((tmp_path / "orphan").read_text())
    assert "2 passed" in output
    assert "left running, and killed:" in output
    assert f"{orphan}: sleep 3600" in output
    assert run.returncode == pytest.ExitCode.TESTS_FAILED
    assert ends(orphan)
    assert "sum, of all lanes" in output


def test_modules_that_share_a_world_share_a_lane() -> None:
    assert world_of("tests/e2e/test_tpch.py::test_a[q1]") == world_of(
        "tests/e2e/connect/test_tpcds.py::test_b"
    )
    assert world_of("tests/e2e/test_serve.py::test_a") != world_of("tests/e2e/test_kills.py::test_b")
    assert world_of("tests/policy/test_tpch.py::test_a") == "tests/policy/test_tpch"


MAKES = {
    "connect": {"connect_world", "connect_gateway", "runs"},
    "lab": {"lab_gateway", "pair", "tpch"},
    "demo": {"gateway"},
}
"""World → the fixtures that make it, once for each lane that asks for one."""


def test_whoever_asks_for_a_world_is_in_its_lane() -> None:
    """Else both lanes would make it."""
    asked: dict[str, set[str]] = {}
    for file in (REPOSITORY / "tests" / "e2e").rglob("test_*.py"):
        tree = ast.parse(file.read_text())
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        fixtures_of = [f for f in functions if any("fixture" in ast.unparse(d) for d in f.decorator_list)]
        own = {function.name for function in fixtures_of}
        tests = [f for f in functions if f.name.startswith("test_") or f in fixtures_of]
        names = {argument.arg for function in tests for argument in function.args.args} - own
        if not {"browser", "npm", "programs", "logins"}.intersection(file.parts):
            asked[f"{file.relative_to(REPOSITORY)}"] = names
    for world, fixtures in MAKES.items():
        users = {name for name, names in asked.items() if names & fixtures}
        assert users == {name for name in asked if world_of(f"{name}::test_a") == world}


@pytest.mark.parametrize(
    ("nodeid", "suite"),
    [
        ("tests/policy/test_laws.py::test_a[x::y]", "policy"),
        ("tests/admin/ranger/test_store.py::test_a", "admin"),
        ("tests/e2e/connect/test_kills.py::test_a", "e2e/connect/test_kills"),
        ("tests/pipeline/test_pipeline.py::test_a", "pipeline"),
    ],
)
def test_a_suite_is_a_room_or_an_end_to_end_module(nodeid: str, suite: str) -> None:
    assert suite_of(nodeid) == suite


def test_the_table_has_suites_by_cost_their_sum_and_the_steps_before(tmp_path: Path) -> None:
    steps = tmp_path / "steps"
    steps.write_text("setup\t40\t52.5\n")
    costs = {"cheap": Cost(3, 1.0, 0.5), "dear": Cost(4, 10.0, 20.0)}
    _, *rows = table(costs, read_steps(steps))
    assert [row.split() for row in rows] == [
        ["dear", "4", "10.0", "s", "20.0", "s"],
        ["cheap", "3", "1.0", "s", "0.5", "s"],
        ["sum,", "of", "all", "lanes", "7", "11.0", "s", "20.5", "s"],
        ["step", "setup", "40.0", "s", "52.5", "s"],
    ]


def test_a_suite_may_cost_half_as_much_again_as_its_entry() -> None:
    costs = {"cheap": Cost(cpu_s=3.0), "dear": Cost(cpu_s=300.0), "new": Cost(cpu_s=9.0)}
    assert len(list(over_budget(costs, {}, 1.0))) == 2
    (over,) = over_budget(costs, {"dear": 199.0, "new": 1.0}, 1.0)
    assert over.startswith("new cost 9.0 s of CPU where 5.5 s are allowed by its entry of 1 s")
    # On a machine that is half as fast they cost twice as much.
    assert not list(over_budget(costs, {"dear": 100.0, "new": 1.0}, 2.0))


@pytest.mark.in_turn(3)
def test_a_run_whose_suites_cost_too_much_has_failed(tmp_path: Path) -> None:
    spins = "import time\ndef test_it():\n    while time.process_time() < 8 * {}: pass\n"
    (tmp_path / "test_it.py").write_text(spins.format(SPEEDOMETER.slowest().cpu))
    (tmp_path / "costs.yaml").write_text("test_other: 3\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-n", "1", "-p", "tests.costs", "-p", "tests.lanes", "--costs"]
    run = subprocess.run(
        [*command, "--budget", "costs.yaml", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout
    assert "are allowed by no entry at all in tests/costs.yaml" in run.stdout
    assert "1 passed" in run.stdout


def test_what_takes_turns_is_all_tried_within_as_many_days() -> None:
    days = [date(2026, 11, 29) + timedelta(days=number) for number in range(4)]
    by_day = [{n for n in range(10) if not turn(n, 4, day=day)} for day in days]
    assert set().union(*by_day) == set(range(10))
    assert sum(map(len, by_day)) == 10


def test_what_is_always_tried_takes_no_turns() -> None:
    marked = in_turn(["a", pytest.param("b", id="two"), "c", "d"], 4, always=["b"])
    tried = [one for one in marked if not getattr(one, "marks", ())]
    assert pytest.param("b", id="two") in tried
    assert len(tried) <= 2


MAX_DAY_S = 600.0
"""CPU seconds, by their entries, of all that takes turns by modules on the dearest day."""
TURNS_WITHIN = re.compile(r"(?:in_turn|todays)\((?:[^()]*, )?(\d+)|TURNS = (\d+)")


def test_all_days_cost_alike_and_none_too_much() -> None:
    """A suite that is new or dearer waits longer, or another does: the day's run stays as it is."""
    places, days = place_suites(PERIODS, budget())
    assert max(days) <= MAX_DAY_S, max(days)
    first = date(2026, 12, 1)
    for suite, period in PERIODS.items():
        runs = [
            n for n in range(2 * period) if not turn(places[suite], period, day=first + timedelta(days=n))
        ]
        assert len(runs) == 2, suite
        assert (first + timedelta(days=runs[0])).toordinal() % period == places[suite]


@pytest.mark.parametrize("suite", sorted(PERIODS))
def test_what_takes_turns_within_a_suite_has_its_turn_on_a_day_of_the_suite(suite: str) -> None:
    """Where a period and a number of turns have a common divisor, some tests would never have their turn."""
    text = (REPOSITORY / "tests" / f"{suite}.py").read_text()
    turns = {int(one or other) for one, other in TURNS_WITHIN.findall(text)}
    assert not [n for n in turns if n > 1 and gcd(n, PERIODS[suite]) > 1]


MODULE_IN_TURN = """
import pytest

pytestmark = pytest.mark.in_turn(3{})


def test_a(): pass
def test_b(): pass
@pytest.mark.parametrize("n", range(3))
def test_c(n): pass
@pytest.mark.in_turn(1)
def test_d(): pass
"""


def tried_by_day(place: Path, days: int = 3) -> list[list[str]]:
    """Return the tests below a place that are collected on each of some days."""
    (place / "pytest.ini").write_text("[pytest]\nmarkers =\n  night: x\n  in_turn(of): x\n")
    options = ["-q", "--collect-only", "-p", "tests.shares", "-m", "not night", "-p", "no:cacheprovider"]
    return [
        [
            line
            for line in subprocess.run(
                [sys.executable, "-m", "pytest", *options, "."],
                cwd=place,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY), "SLUICE_TEST_DAY": f"2026-11-2{number}"},
                capture_output=True,
                text=True,
                check=False,
            ).stdout.splitlines()
            if "::" in line
        ]
        for number in range(9, 9 - days, -1)
    ]


@pytest.mark.in_turn(3)
@pytest.mark.parametrize(("place", "most"), [("", 3), (", place=1", 5)])
def test_a_module_takes_turns_test_by_test_or_together(tmp_path: Path, place: str, most: int) -> None:
    (tmp_path / "test_it.py").write_text(MODULE_IN_TURN.format(place))
    tried: Counter[str] = Counter()
    for names in tried_by_day(tmp_path):
        assert len(names) <= most + 1, names
        tried.update(names)
    assert sorted(tried.values()) == [1] * 5 + [3], tried


IN_TWO_WAYS = """
import pytest

@pytest.mark.parametrize("n", range(2))
@pytest.mark.parametrize("way", ["{0}", "{1}"])
def test_a(way, n): pass
@pytest.mark.parametrize("way", ["{0}", "{1}"])
def test_b(way): pass
@pytest.mark.parametrize("way", ["{0}", "{1}"])
@pytest.mark.in_turn(1)
def test_c(way): pass
def test_d(): pass
"""


IN_ONE_WAY = """
import pytest

@pytest.mark.parametrize("way", ["3.5", "4.1"])
@pytest.mark.in_turn(3, one_way=True)
def test_a(way): pass
@pytest.mark.parametrize("way", ["3.5", "4.1"])
def test_b(way): pass
"""


@pytest.mark.in_turn(3)
def test_what_takes_turns_one_way_is_tried_in_each_within_the_turns_of_both(tmp_path: Path) -> None:
    (tmp_path / "tests/e2e/lake").mkdir(parents=True)
    (tmp_path / "tests/e2e/lake/test_it.py").write_text(IN_ONE_WAY)
    days = tried_by_day(tmp_path, 6)
    for names in days:
        assert len({"3.5" in name for name in names}) == 1, "one minor a day"
    tried = Counter(name.partition("::")[2] for names in days for name in names)
    assert tried == {"test_a[3.5]": 1, "test_a[4.1]": 1, "test_b[3.5]": 3, "test_b[4.1]": 3}


@pytest.mark.in_turn(3)
def test_what_is_tried_in_two_ways_is_tried_in_one_of_them_by_day(tmp_path: Path) -> None:
    for place, *ways in (("tests/e2e/lake", "3.5", "4.1"), ("tests/e2e", "thrift", "connect")):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place / f"test_{ways[0][0]}.py").write_text(IN_TWO_WAYS.format(*ways))
    one, other = map(set, tried_by_day(tmp_path, 2))
    assert len(one) == len(other) == 2 * (3 + 2 + 1)
    assert len(one & other) == 2 * (2 + 1), "in both ways every day, or in none"
    lakes = [name for name in one if "/lake/" in name and "test_c" not in name and "[" in name]
    assert len({"3.5" in name for name in lakes}) == 1, "a module is tried on one minor"


def test_who_asks_the_parser_of_the_session_runs_on_its_loop() -> None:
    """Any other test would wait for an answer that nobody reads."""
    wrong = []
    for file in (REPOSITORY / "tests").rglob("test_*.py"):
        text = file.read_text()
        if "async def test_" not in text or 'loop_scope="session"' in text:
            continue
        nodes = list(ast.walk(ast.parse(text)))
        found = [node for node in nodes if isinstance(node, ast.AsyncFunctionDef)]
        own = {
            f.name
            for f in nodes
            if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)) and f.decorator_list
        }
        asking = [f.name for f in found if "reader" in {a.arg for a in f.args.args} and "reader" not in own]
        wrong += [f"{file.name}: {name}" for name in asking if name.startswith("test_")]
    assert wrong == []


def test_every_module_is_of_one_part_and_every_place_of_a_part_is_there() -> None:
    for part, places in PARTS.items():
        for place in places:
            path = REPOSITORY / "tests" / place
            assert path.exists(), path
            assert part_of(path / "test_x.py" if path.is_dir() else path) == part
    assert part_of(REPOSITORY / "tests" / "sql" / "test_new.py") == CORE


def test_limits_grow_with_the_load_and_never_shrink() -> None:
    assert patience(60) >= 60
    assert SPEEDOMETER.slowest().wall >= 1.0


FIXED = re.compile(
    r"(?:asyncio\.timeout|\.join|\.wait|\.result)\(\d\d|\b(?:timeout|deadline_s)=\d\d|wait_for\(.+, \d\d+\)"
)
"""Limits of ten seconds and more that are written as a figure."""


def test_limits_on_waiting_come_from_one_place() -> None:
    """What is measured in seconds of a quiet machine says so to `patience`."""
    fixed = [
        f"{file.relative_to(REPOSITORY)}:{number}: {line.strip()}"
        for file in (REPOSITORY / "tests").rglob("*.py")
        # Not what clients brought with them, nor figures, which nothing fails by.
        if not {".venv", "node_modules", "bench"}.intersection(file.parts) and file != Path(__file__)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if FIXED.search(line)
    ]
    assert not fixed, "\n".join(fixed)


def test_every_suite_has_an_entry_in_the_budget() -> None:
    """Else a new one may cost next to nothing, and the run that finds out is continuous integration's."""
    files = [file.relative_to(REPOSITORY) for file in (REPOSITORY / "tests").rglob("test_*.py")]
    apart = {
        "bench",
        "browser",
        "npm",
        "gravitino_client",
        "logins",
        "programs",
        "deploy",
        ".venv",
        "node_modules",
    }
    suites = {suite_of(str(file)) for file in files if not apart.intersection(file.parts)}
    assert sorted(suites - budget().keys()) == sorted(NIGHT_ONLY)
    assert not [name for name in budget() if not name.startswith("(") and name not in suites]


NIGHT_ONLY = {
    "e2e/lake/test_lake_demo",
    "e2e/test_hung_spark",
    "e2e/test_served_restrictions_spark",
    "e2e/test_spark_starts_anew",
    "e2e/test_two_sparks",
    "e2e/test_workers",
}
