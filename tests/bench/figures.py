"""What the benchmarks measured: progress lines, one table at the end, and `.run/bench.json`.

`python -m tests.bench.figures [FILE]` prints a JSON file of an earlier run as the changelog's table.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.bench.processes import Load

OUTPUT = Path(__file__).parents[2] / ".run" / "bench.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table."""

    section: str
    name: str
    measured: str
    aim: str = ""
    met: bool | None = None
    """Whether the aim is reached; None when there is none."""
    values: dict[str, float] = field(default_factory=dict)
    """The numbers behind the text; units in the names."""
    others_cores: float = 0.0
    """Cores that processes which are not the benchmark's used meanwhile."""


def in_turns(
    sides: Mapping[str, Callable[[], object]], *, warm_up: int, rounds: int
) -> dict[str, list[float]]:
    """Do each in turn, and return the seconds of each in each round behind the warm-up. Whoever comes second
    finds warmer caches: they change places."""
    took: dict[str, list[float]] = {}
    for n in range(-warm_up, rounds):
        if n <= 0:
            took = {side: [] for side in sides}
        for side in sorted(sides, reverse=bool(n % 2)):
            began = time.perf_counter()
            sides[side]()
            took[side].append(time.perf_counter() - began)
    return took


class Record:
    """Collects figures; says on the way what is being done."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []
        self._began = time.monotonic()
        self._load = Load()

    def progress(self, what: str) -> None:
        print(f"[{time.monotonic() - self._began:5.0f} s] {what}", flush=True)

    def begin(self, what: str) -> None:
        """Say what is measured next, and begin to watch what else the machine does."""
        self.progress(what)
        self._load = Load()

    def add(
        self,
        section: str,
        name: str,
        measured: str,
        *,
        aim: str = "",
        met: bool | None = None,
        numbers: Mapping[str, float] | None = None,
        **values: float,
    ) -> None:
        """Add a line; `numbers` and the other keywords are what JSON keeps of it."""
        figure = Figure(
            section=section,
            name=name,
            measured=measured,
            aim=aim,
            met=met,
            values={key: round(value, 6) for key, value in (dict(numbers or {}) | values).items()},
            others_cores=round(self._load.others_cores(), 2),
        )
        self.figures.append(figure)
        self.progress(f"  {name}: {measured}")

    def document(self) -> dict[str, object]:
        """Return what is written as JSON."""
        return {
            "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "seconds": round(time.monotonic() - self._began, 1),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "figures": [asdict(figure) for figure in self.figures],
        }

    def write(self, path: Path = OUTPUT) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.document(), indent=2, ensure_ascii=False) + "\n")


def median_ms(seconds: Sequence[float]) -> float:
    return 1e3 * statistics.median(seconds)


def p95_ms(seconds: Sequence[float]) -> float:
    return 1e3 * sorted(seconds)[len(seconds) * 95 // 100]


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as text, a block for each section."""
    names = max((len(figure.name) for figure in figures), default=0)
    aims = max((len(figure.aim) for figure in figures), default=0)
    lines = []
    section = ""
    for figure in figures:
        if figure.section != section:
            section = figure.section
            lines += ["", section]
        mark = {True: "✓", False: "✗", None: " "}[figure.met]
        lines.append(f"  {figure.name:<{names}}  {figure.aim:<{aims}} {mark} {figure.measured}")
    return "\n".join(lines)


def conditions(document: dict[str, object]) -> str:
    """Say on what machine a run was, and how busy it was with other things."""
    figures = document["figures"]
    assert isinstance(figures, list)
    busy = max((figure["others_cores"] for figure in figures), default=0.0)
    text = f"{document['measured_at']}, {document['cores']} cores, {document['seconds']} s"
    if busy >= 0.2:
        text += f"; other processes took up to {busy:.1f} cores meanwhile: absolute times are too high"
    return text


def markdown(document: dict[str, object]) -> str:
    """Return a run as the changelog's table."""
    figures = document["figures"]
    assert isinstance(figures, list)
    lines = ["| figure | aim | measured |", "|---|---|---|"]
    lines += [f"| {f['section']}: {f['name']} | {f['aim']} | {f['measured']} |" for f in figures]
    return "\n".join([*lines, "", conditions(document)])


if __name__ == "__main__":
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    print(markdown(json.loads(source.read_text())))
