"""How much must be answered: a gateway that refuses everything lets no canary out, and passes nothing.

`floors.yaml` says of each class what share of it was answered: by day, of the very trials that continuous
integration runs, and of the whole matrix, for whatever part of it somebody chooses to run: of shapes that
show something, and of those that are denied.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import yaml

from tests.attacks.clients import Kind
from tests.attacks.tallies import Tally

FILE = Path(__file__).with_name("floors.yaml")
HEAD = """\
# The share of each class that is answered, at least. `day`: of what continuous integration runs. `shown` and
# `denied`: of every attack on shapes that show something, and on those that are denied, at both endpoints.
# `python -m tests.attacks floors` writes the first, and with `--whole` the others.
"""
DAY = "day"
GROUPS = SHOWN, DENIED = "shown", "denied"
SLACK = 0.1
"""A statement more or less that is refused is no news."""
FUZZED = {"grown": 0.2, "plans": 0.1}
"""What the fuzzer makes → the share that is answered at least."""
ENOUGH = 10
"""Tries of a kind of which a share says something."""

Floors = Mapping[str, Mapping[str, float]]
"""Class → `day`, `shown` or `denied` → share."""


def floors(file: Path = FILE) -> Floors:
    loaded: Floors = yaml.safe_load(file.read_text(encoding="utf-8"))
    return loaded


def by_day(name: str) -> float:
    """Return the share of a class that is answered at least of the trials by day."""
    return floors()[name][DAY]


def too_few(tallies: Mapping[str, Tally], known: Floors | None = None) -> list[str]:
    """Say which classes, or all together, were answered less than they should be.

    Of `n` trials the share may be missed by a tenth, and by chance by twice the deviation of `n` throws of a
    coin, since a part need not be like the whole.
    """
    shares = floors() if known is None else known
    told: list[str] = []
    expected_of_all = answered_of_all = tried_of_all = 0.0
    for name, tally in sorted(tallies.items()):
        tried = sum(kinds.total() for kinds in tally.shapes.values())
        expected = sum(
            kinds.total() * shares.get(name, {}).get(_group(shape), 0.0)  # of a new class nothing is known
            for shape, kinds in tally.shapes.items()
        )
        answered = sum(kinds["answered"] for kinds in tally.shapes.values())
        told += _told(name, answered, expected, tried)
        expected_of_all, answered_of_all = expected_of_all + expected, answered_of_all + answered
        tried_of_all += tried
    return told + _told("all classes", answered_of_all, expected_of_all, tried_of_all)


def _measured(answered: int, tried: int) -> float:
    """Return a share less its standard error: of few it is not known well."""
    share = answered / tried
    return share - math.sqrt(share * (1 - share) / tried)


def _group(shape: str) -> str:
    return DENIED if shape.startswith("denied") else SHOWN


def _told(what: str, answered: float, expected: float, tried: float) -> list[str]:
    least = expected - SLACK * tried - math.sqrt(tried)
    if answered >= least:
        return []
    return [f"{what}: {answered:.0f} of {tried:.0f} were answered, and {expected:.0f} would be right"]


def too_few_fuzzed(tallies: Mapping[str, Tally]) -> list[str]:
    """Say of what the fuzzer made too little was answered: of what is refused nothing is tried."""
    return [
        f"{name}: {tally.answered:.0%} were answered, and {least:.0%} is the least"
        for name, least in FUZZED.items()
        if (tally := tallies.get(name, Tally())).answered < least and tally.kinds.total() >= ENOUGH
    ]


def write(tallies: Mapping[str, Tally], *, whole: bool, file: Path = FILE) -> None:
    """Write what was measured, `whole` or by day; what else the file says of each class stays."""
    known = {name: dict(shares) for name, shares in (floors(file) if file.exists() else {}).items()}
    for name, tally in tallies.items():
        shares = known.setdefault(name, {})
        if whole:
            for group in {_group(shape) for shape in tally.shapes}:
                together = sum((k for s, k in tally.shapes.items() if _group(s) == group), Counter[Kind]())
                shares[group] = _measured(together["answered"], together.total())
        else:
            shares[DAY] = max(0.0, tally.answered - SLACK)
    lines = []
    for name, shares in sorted(known.items()):
        told = ", ".join(f"{key}: {shares[key]:.2f}" for key in (DAY, *GROUPS) if key in shares)
        lines.append(f"{name}: {{{told}}}")
    file.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
