"""A case of a public suite, what is expected of it, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

Flow = tuple[str, str, str]
"""Table ("" where the suite does not say), column, and the column that it flows into."""
STAR = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A statement of a suite, with the flows between columns that the suite expects of it."""

    name: str
    sql: str
    flows: frozenset[Flow]
    schema: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns of tables, where the suite says them."""
    target: str = ""
    """The only column that the suite asks for; empty: all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What our lineage says of a case."""

    case: Case
    refused: str = ""
    """Spark's parser does not take the text; why."""
    table_level: str = ""
    """Ours has no columns; why."""
    missing: frozenset[Flow] = frozenset()
    """Expected, and not ours."""
    more: frozenset[Flow] = frozenset()
    """Ours, and not expected."""

    @property
    def differs(self) -> bool:
        return bool(not self.refused and (self.table_level or self.missing or self.more))

    def summary(self) -> str:
        """Return in one line what is otherwise; the same for the same difference."""
        if self.table_level:
            return f"no columns: {self.table_level}"
        parts = [f"-{_shown(self.missing)}"] if self.missing else []
        return " ".join([*parts, f"+{_shown(self.more)}"] if self.more else parts)


def _shown(flows: frozenset[Flow]) -> str:
    return " ".join(sorted(f"{t}.{c}→{to}" if t else f"{c}→{to}" for t, c, to in flows))


def plain(name: str) -> str:
    """Return a name of a column without what suites write differently: blanks, brackets, quotes, case."""
    return re.sub(r"[\s`\"()']", "", name).lower()
