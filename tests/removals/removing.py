"""Takes rules out of the code one by one: a statement is changed, and what holds its module is imported anew.

In `gateway/` a comment `# RULE (name)` marks the statement that a rule is in. A table of REMOVALS says for
each name how the rule is taken out of that statement, and who should notice: `tests/policy/removals.py` asks
cases of Ranger's, `tests/removals/` asks tests. A rule whose removal nobody notices is held by nothing.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.machinery
import json
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from tests.removals.marks import by_name, find
from tests.removals.operations import NoSuchPart, Operation
from tests.speed import patience

ROOT = Path(__file__).parents[2]
DOOR = "__init__.py"

TURNS = 36
"""By day one removal in so many is tried, on each day others. What a removal shows is that some test notices;
the tests themselves are run every day."""

Noticed = dict[str, dict[str, str | None]]
"""Name → the `case` that noticed, or what is `wrong` with the entry."""


class Removal(NamedTuple):
    """One rule, and how the code is without it."""

    name: str
    """As its mark in `gateway/` has it."""
    rule: str
    """What holds with it, in a few words."""
    operation: Operation
    """Takes the rule out of the marked statement."""
    files: str
    """Files of cases, or modules of tests, one of which must notice; the likeliest first."""


class Changed(importlib.abc.Loader):
    """Loads one module from a tree."""

    def __init__(self, path: Path, tree: ast.Module) -> None:
        self._path, self._tree = path, tree

    def exec_module(self, module: ModuleType) -> None:
        code = compile(ast.fix_missing_locations(self._tree), str(self._path), "exec", dont_inherit=True)
        exec(code, vars(module))  # what the import system does with any module


class Finder(importlib.abc.MetaPathFinder):
    """Finds the one changed module."""

    def __init__(self, module: str, loader: Changed) -> None:
        self.module, self._loader = module, loader

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.module:
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self._loader, origin=str(path))
        if place_of(fullname).name == DOOR:
            spec.submodule_search_locations = [str(place_of(fullname).parent)]
        return spec


def place_of(module: str) -> Path:
    """Return the file of a module of ours."""
    path = ROOT.joinpath(*module.split("."))
    return path / DOOR if path.is_dir() else path.with_suffix(".py")


def modules_of(package: str) -> set[str]:
    """Return the names of all modules within a package."""
    home = place_of(package).parent
    paths = [path for path in home.rglob("*.py") if path != home / DOOR]
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths
    }


@cache
def _imported_by(module: str) -> frozenset[str]:
    """Return all names that a module imports, those of modules among them."""
    place = place_of(module)
    if not place.exists():
        return frozenset()  # a directory without a module of its own
    found: set[str] = set()
    for node in ast.walk(ast.parse(place.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def importers(changed: Collection[str], among: Collection[str]) -> set[str]:
    """Return the modules `among` which hold something of the changed ones, these included."""
    held: dict[str, set[str]] = {}
    for name in among:
        for other in _imported_by(name).intersection(among):
            held.setdefault(other, set()).add(name)
    reached, waiting = set(changed), list(changed)
    while waiting:
        new = held.get(waiting.pop(), set()) - reached
        reached |= new
        waiting.extend(new)
    return reached


def changed(removal: Removal) -> Finder | str:
    """Return a finder for the module without the rule, or what is wrong with the entry."""
    mark = by_name().get(removal.name)
    if mark is None:
        return f"nothing is marked `# RULE ({removal.name})`"
    tree = ast.parse(mark.path.read_text(encoding="utf-8"))
    marked = find(tree, mark.line)
    try:
        removal.operation.apply(marked.block, marked.place, marked.line)
    except NoSuchPart as error:
        return f"{mark}: {error}"
    return Finder(mark.module, Changed(mark.path, tree))


def unchanged(module: str) -> Finder:
    """Return a finder for a module as it is."""
    path = place_of(module)
    return Finder(module, Changed(path, ast.parse(path.read_text(encoding="utf-8"))))


@contextmanager
def imported(finder: Finder, names: Collection[str]) -> Iterator[None]:
    """Have the modules of these names imported anew, one of them changed, and put all back after."""
    kept = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    for name in kept:
        above, _, own = name.rpartition(".")
        if above in sys.modules:
            # `from package import module` would find the old one there.
            delattr(sys.modules[above], own)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(kept)
        for name, module in kept.items():
            above, _, own = name.rpartition(".")
            setattr(sys.modules[above], own, module)


def without_each(
    rules: Iterable[tuple[str, Finder | str, str]],
    anew: Callable[[str], set[str]],
    first_failing: Callable[[str], str | None],
) -> Noticed:
    """Take one rule after the other out of its module, and say who noticed.

    `rules`: name, what `changed` says, and files; `anew`: what must be imported anew when a module changes;
    `first_failing`: the first case that fails of the named files.
    """
    noticed: Noticed = {}
    for name, finder, files in rules:
        if isinstance(finder, str):
            noticed[name] = {"case": None, "wrong": finder}
            continue
        with imported(finder, anew(finder.module)):
            try:
                importlib.import_module(finder.module)
            except Exception as error:  # noqa: BLE001  # what is left must be a module, whatever it then does
                noticed[name] = {"case": None, "wrong": f"what is left is no module: {error!r}"}
                continue
            noticed[name] = {"case": first_failing(files), "wrong": None}
    return noticed


def all_changed(removals: Iterable[Removal]) -> Iterator[tuple[str, Finder | str, str]]:
    """Yield what `without_each` takes, each tree when its turn comes."""
    return ((one.name, changed(one), one.files) for one in removals)


def tell(noticed: Noticed) -> None:
    json.dump(noticed, sys.stdout, ensure_ascii=False, indent=1)


@cache
def told_by(module: str) -> dict[str, dict[str, Any]]:
    """Run all removals in a process of their own, which may import the code as often as it likes."""
    done = subprocess.run(
        [sys.executable, "-m", module], cwd=ROOT, capture_output=True, text=True, timeout=patience(840)
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found
