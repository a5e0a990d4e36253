"""The rows of a comparison: what is measured of each side, what it is held against, and how that is told."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

DIRECT, BARE, HAPROXY, BASE, THIS = "direct", "bare relay", "haproxy", "base", "this build"
SIDES = (DIRECT, BARE, HAPROXY, BASE, THIS)

Measured = Mapping[str, Mapping[str, float]]
"""Key of a row → side → value, of one round."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. This build is compared with `against`, round by round."""

    key: str
    title: str
    unit: str
    against: str
    target: float
    """The ratio that this build is to have: at most, or with `more` at least."""
    more: bool = False
    """Whether more is better."""

    def ratios(self, rounds: Sequence[Mapping[str, float]], side: str) -> list[float]:
        """Return side ÷ `against` of each round that has both."""
        return [one[side] / one[self.against] for one in rounds if one.get(self.against) and side in one]

    def met(self, ratio: float) -> bool:
        return ratio >= self.target if self.more else ratio <= self.target


ROWS = (
    Row("thrift_cpu", "CPU of a cached SELECT 1, Thrift, 4 calls", "ms", BASE, 0.5),
    Row("connect_cpu", "CPU of a cached SELECT 1, Connect", "ms", BASE, 0.7),
    Row("thrift_p50", "SELECT 1 p50, Thrift", "ms", DIRECT, 1.08),
    Row("thrift_new_p50", "SELECT 1 p50, never judged before", "ms", DIRECT, 1.18),
    Row("connect_p50", "SELECT 1 p50, Connect", "ms", DIRECT, 1.22),
    Row("schema_p50", "df.schema p50", "ms", DIRECT, 1.3),
    Row("thrift_many", "50 clients at once, Thrift", "/s", BARE, 0.95, more=True),
    Row("connect_many", "50 clients at once, Connect", "/s", BARE, 0.95, more=True),
    Row("thrift_rows", "rows, batches of 10,000", "M/s", DIRECT, 0.95, more=True),
    Row("thrift_rows_cpu", "CPU of these rows", "s/GB", BARE, 1.2),
    Row("connect_rows", "Connect, rows to pandas", "M/s", DIRECT, 0.97, more=True),
    Row("connect_rows_cpu", "CPU of these rows, Connect", "s/GB", BARE, 1.15),
    Row("start_cpu", "CPU until ready, parser", "s", BASE, 0.5),
    Row("memory", "memory, gateway idle", "MiB", BASE, 0.75),
    Row("parser_memory", "memory, parser", "MiB", BASE, 0.75),
)


def summarize(rows: Sequence[Row], rounds: Sequence[Measured]) -> str:
    """Return the table: of each row every side's median with its spread, the ratio, and whether it is met."""
    lines = []
    for row in rows:
        found = [one[row.key] for one in rounds if row.key in one]
        if not found:
            continue
        lines.append(f"{row.title} ({row.unit})")
        for side in SIDES:
            values = [one[side] for one in found if side in one]
            if not values:
                continue
            line = f"    {side:<11} {_spread(values, 3)}"
            ratios = row.ratios(found, side)
            if ratios and side != row.against:
                line += f"   {_spread(ratios, 2)} × {row.against}"
                if side == THIS:
                    sign = "≥" if row.more else "≤"
                    mark = "✓" if row.met(statistics.median(ratios)) else "✗"
                    line += f"   aim {sign} {row.target:g} {mark}"
            lines.append(line)
    return "\n".join(lines)


def _spread(values: Sequence[float], digits: int) -> str:
    middle = f"{statistics.median(values):.{digits}f}"
    return f"{middle} ({min(values):.{digits}f} to {max(values):.{digits}f})"
