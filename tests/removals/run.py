"""Takes one rule after the other out of `sql/`, `plan/`, `pipeline/` and `session/`, and tells which test
notices.

Run as `python -m tests.removals.run [WORD …]`: for each entry of the tables whose turn is today (with
words: for those whose name or rule has one of them) one module is changed, and what holds something of
its room is imported anew, the named modules of tests with it. Their tests run here, against one reader that
stays, until one fails that held before. Prints JSON: name → the test that noticed it.

This is no pytest: it expands `parametrize`, gives a test `reader`, `tmp_path` and the fixtures of its own
module, and passes over tests that need other fixtures, or try values at random.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import itertools
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from gateway.reader.limits import ReaderLimits
from gateway.reader.pool import ReaderPool
from tests.effort import VARIABLE
from tests.readers import patient
from tests.removals import (
    connection_limits,
    console,
    console_policies,
    console_record,
    logins,
    operators,
    pipeline,
    plan,
    rest,
    restrictions,
    session,
    sparks,
    sql,
)
from tests.removals.removing import TURNS, Finder, all_changed, importers, tell, unchanged, without_each
from tests.shares import todays
from tests.speed import patience

REMOVALS = (
    *sql.REMOVALS,
    *plan.REMOVALS,
    *pipeline.REMOVALS,
    *restrictions.REMOVALS,
    *rest.REMOVALS,
    *session.REMOVALS,
    *connection_limits.REMOVALS,
    *logins.REMOVALS,
    *operators.REMOVALS,
    *console.REMOVALS,
    *sparks.REMOVALS,
    *console_policies.REMOVALS,
    *console_record.REMOVALS,
)
NOTHING = {
    f"nothing of {module}": f"gateway.{module}"
    for module in ("sql.required", "plan.reading", "pipeline.judging")
}
"""Nothing is taken out: what is noticed would be noticed of the importing anew."""
NOTHING_NOTICES = "pipeline.test_pipeline pipeline.test_plans plan.test_walk"
UNCHANGED = "nothing, and nothing is imported anew"
"""The tests that fail before anything is touched. They notice nothing, so there must be none."""

OURS = ("gateway.", "tests.")
STAYS = "tests.removals."
"""This program and its tables: what reads them is no test of a rule."""

_Given = type(pytest.param())
_Fixture = type(pytest.fixture(lambda: None))
_Failed = (Exception, pytest.fail.Exception)


class Test(NamedTuple):
    """One test with the arguments that `parametrize` gives it."""

    id: str
    function: Callable[..., Any]
    arguments: Mapping[str, Any]


def tests_in(module: ModuleType) -> Iterator[Test]:
    """Yield the tests of a module in their order, one for each set of arguments."""
    for name, function in list(vars(module).items()):
        if not name.startswith("test_") or hasattr(function, "hypothesis"):
            continue
        marks = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
        for numbers_and_sets in itertools.product(*(list(enumerate(_sets(*mark.args))) for mark in marks)):
            arguments: dict[str, Any] = {}
            for _, given in numbers_and_sets:
                arguments |= given
            numbers = "-".join(str(number) for number, _ in numbers_and_sets)
            inside = module.__name__.removeprefix("tests.")
            yield Test(f"{inside}::{name}" + (f"[{numbers}]" if numbers else ""), function, arguments)


def _sets(names: str | list[str] | tuple[str, ...], values: Any) -> Iterator[dict[str, Any]]:
    split = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    for value in values:
        one = (value,) if len(split) == 1 else value
        given = value.values if isinstance(value, _Given) else one
        yield dict(zip(split, given, strict=True))


class Needs(Exception):
    """A test needs what this program does not have."""


class Fixtures:
    """What the tests of one module get; generators are run for each test, anything else once."""

    def __init__(self, module: ModuleType, reader: ReaderPool, runner: asyncio.Runner) -> None:
        self._module = module
        self._runner = runner
        self._made: dict[str, Any] = {"reader": reader}

    @contextmanager
    def of(self, test: Test) -> Iterator[dict[str, Any]]:
        with ExitStack() as stack:
            own: dict[str, Any] = {}
            yield {
                name: test.arguments[name] if name in test.arguments else self._get(name, own, stack)
                for name in inspect.signature(test.function).parameters
            }

    def _get(self, name: str, own: dict[str, Any], stack: ExitStack) -> Any:
        for made in (self._made, own):
            if name in made:
                return made[name]
        if name == "tmp_path":
            own[name] = Path(stack.enter_context(TemporaryDirectory(prefix="sluice-removal-")))
            return own[name]
        fixture = getattr(self._module, name, None)
        if not isinstance(fixture, _Fixture):
            raise Needs(name)
        function = inspect.unwrap(fixture)
        given = {one: self._get(one, own, stack) for one in inspect.signature(function).parameters}
        if inspect.isgeneratorfunction(function):
            own[name] = stack.enter_context(contextmanager(function)(**given))
            return own[name]
        if inspect.isasyncgenfunction(function):
            generator = function(**given)
            own[name] = self._runner.run(_next(generator))
            stack.callback(lambda: self._runner.run(_end(generator)))
            return own[name]
        value = function(**given)
        # What rests on something that is made for one test is made for one test too.
        (own if given.keys() & own.keys() else self._made)[name] = value
        return value


async def _next(generator: AsyncGenerator[Any, None]) -> Any:
    return await anext(generator)


async def _end(generator: AsyncGenerator[Any, None]) -> None:
    async for _ in generator:
        pass


class Run:
    """Runs tests with one reader, on the loop that the reader is on."""

    def __init__(self, runner: asyncio.Runner, reader: ReaderPool) -> None:
        self._runner, self._reader = runner, reader
        self.broken: frozenset[str] = frozenset()

    def failing(self, names: str) -> Iterator[str]:
        """Yield the ids of the tests that fail, in the order of the modules that are named."""
        for name in names.split():
            try:
                module = importlib.import_module(f"tests.{name}")
            except _Failed:
                yield f"{name}::(import)"
                continue
            fixtures = Fixtures(module, self._reader, self._runner)
            yield from (
                test.id
                for test in tests_in(module)
                if test.id not in self.broken and not self._holds(test, fixtures)
            )

    def _holds(self, test: Test, fixtures: Fixtures) -> bool:
        try:
            with fixtures.of(test) as given:
                answer = test.function(**given)
                if inspect.iscoroutine(answer):
                    # Without its rule it may wait for what does not come any more.
                    self._runner.run(asyncio.wait_for(answer, patience(20)))
        except (Needs, pytest.skip.Exception):
            return True
        except _Failed:  # a rule that is taken out may leave any error behind
            return False
        return True


def anew(module: str) -> set[str]:
    """Return what is loaded of the changed module's room, and all that holds something of that.

    The room goes whole, because its modules register things with each other (`plan/walk_state.py`).
    """
    loaded = [name for name in sys.modules if name.startswith(OURS) and not name.startswith(STAYS)]
    room = ".".join(module.split(".")[:2])
    return importers({name for name in loaded if name.startswith(f"{room}.")} | {module}, loaded)


def _nothing() -> Iterator[tuple[str, Finder | str, str]]:
    return ((name, unchanged(module), NOTHING_NOTICES) for name, module in NOTHING.items())


def main() -> None:
    os.environ[VARIABLE] = "0.1"
    words = sys.argv[1:]
    chosen = [r for r in REMOVALS if any(word in f"{r.name} {r.rule}" for word in words)]
    unchanged_too = not chosen
    chosen = chosen or todays(REMOVALS, TURNS)
    files = [*(removal.files for removal in chosen), *([NOTHING_NOTICES] if unchanged_too else [])]
    names = " ".join(dict.fromkeys(name for one in files for name in one.split()))
    with asyncio.Runner() as runner:
        # On a machine that is busy with other things an answer takes its time, and one that comes too late
        # would make a test fail.
        reader = ReaderPool(limits=patient(ReaderLimits()))
        runner.run(reader.start())
        try:
            run = Run(runner, reader)
            with redirect_stdout(sys.stderr):  # PySpark prints schemas; what is printed here is the answer
                run.broken = frozenset(run.failing(names))
                rules = itertools.chain(_nothing() if unchanged_too else (), all_changed(chosen))
                noticed = without_each(rules, anew, partial(_first, run))
            tell({UNCHANGED: {"case": " ".join(sorted(run.broken)) or None, "wrong": None}} | noticed)
        finally:
            runner.run(reader.close())


def _first(run: Run, names: str) -> str | None:
    return next(run.failing(names), None)


if __name__ == "__main__":
    main()
