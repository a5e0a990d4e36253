"""What may be refused, as data: anything else that is refused is a finding, like a wrong answer.

Each rule says which steps it speaks of and how the refusal reads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

QUERIES = ("read", "open", "collect", "describe")
KEEPING = ("cache", "cache_as", "frame")


@dataclass(frozen=True, slots=True)
class Rule:
    """A refusal that is by design."""

    why: str
    steps: tuple[str, ...]
    pattern: str

    def speaks_of(self, do: str, error: str) -> bool:
        return do in self.steps and re.search(self.pattern, error, re.DOTALL) is not None


RULES = (
    Rule("what varies is not cached", KEEPING, "Spark would show its cached rows"),
    Rule(
        "what was made under other policies ended",
        (*QUERIES, *KEEPING, "temp_view", "table", "insert", "drop_temp", "uncache"),
        "ended because the policies",
    ),
    Rule(
        "commands see raw rows",
        ("cache", "refresh"),
        "row filter, column mask or hidden column|masks or filters",
    ),
    Rule("no collation reaches a policy", ("temp_view", "table"), "DEFAULT COLLATION"),
    Rule("a stream goes on with its own checkpoint", ("stream",), "CHECKPOINT|checkpoint"),
    Rule("what another view may read is not dropped", ("drop_temp",), "VIEW_IN_USE"),
    Rule("what changes is waited for", (*QUERIES, *KEEPING, "table", "insert"), "CATALOG_BUSY"),
    # Of queries, and of what is made of them, the model says what is denied.
    Rule("what is denied is not cached", ("cache", "refresh", "uncache"), "SLUICE_ACCESS_DENIED"),
)


def by_design(do: str, error: str) -> str | None:
    """Return the reason for which a step may be refused so, or None."""
    return next((r.why for r in RULES if r.speaks_of(do, error)), None)
