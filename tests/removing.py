"""Takes rules out of the code one by one: one module's text is changed, and what holds it is imported anew.

A table of REMOVALS says which text is taken out and who should notice; `tests/policy/removals.py` asks cases
of Ranger's, `tests/removals/` asks tests. A rule whose removal nobody notices is held by nothing.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.machinery
import json
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from tests.speed import patience

ROOT = Path(__file__).parents[1]
DOOR = "__init__.py"

TURNS = 16
"""By day one removal in so many is tried, on each day others. What a removal shows is that some test notices;
the tests themselves are run every day."""

Noticed = dict[str, dict[str, str | None]]
"""Rule → the `case` that noticed, or what is `wrong` with the entry."""


class Removal(NamedTuple):
    """One rule, where it stands, and what stands there without it."""

    rule: str
    module: str
    """Named from the table's package down."""
    old: str
    new: str
    files: str
    """Files of cases, or modules of tests, one of which must notice; the likeliest first."""


class Changed(importlib.abc.SourceLoader):
    """Loads one module with another text."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._text = path, text

    def get_filename(self, fullname: str) -> str:
        return str(self._path)

    def get_data(self, path: str | bytes) -> bytes:
        if str(path) == str(self._path):
            return self._text.encode()
        raise OSError("there is no compiled copy of a changed module")


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


def changed(removal: Removal, package: str) -> Finder | str:
    """Return a finder for the module without the rule, or what is wrong with the entry."""
    name = f"{package}.{removal.module}"
    path = place_of(name)
    text = path.read_text(encoding="utf-8")
    count = text.count(removal.old)
    if count != 1:
        return f"the text stands {count} times in {path.relative_to(ROOT)}"
    return Finder(name, Changed(path, text.replace(removal.old, removal.new)))


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
    removals: Sequence[Removal],
    package: str,
    anew: Callable[[str], set[str]],
    first_failing: Callable[[str], str | None],
) -> Noticed:
    """Take one rule after the other out of a package, and say who noticed.

    `anew`: what must be imported anew when a module changes; `first_failing`: the first case that fails of
    the named files.
    """
    noticed: Noticed = {}
    for removal in removals:
        finder = changed(removal, package)
        if isinstance(finder, str):
            noticed[removal.rule] = {"case": None, "wrong": finder}
            continue
        with imported(finder, anew(finder.module)):
            try:
                importlib.import_module(finder.module)
            except Exception as error:  # noqa: BLE001  # what is left must be a module, whatever it then does
                noticed[removal.rule] = {"case": None, "wrong": f"what is left is no module: {error!r}"}
                continue
            noticed[removal.rule] = {"case": first_failing(removal.files), "wrong": None}
    return noticed


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
