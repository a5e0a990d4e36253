"""What is found out of the stored columns that a query uses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from gateway.model.catalog import TableName

Origins = frozenset[tuple[TableName, str]]
"""The stored columns whose values a column passes on unchanged; none for a computed column."""
NO_ORIGINS: Final[Origins] = frozenset()


class HasOrigins(Protocol):
    @property
    def origins(self) -> Origins: ...


@dataclass(slots=True)
class ColumnFindings:
    """What the columns of stored tables are used for."""

    used: set[tuple[TableName, str]] = field(default_factory=set)
    named: set[tuple[TableName, str]] = field(default_factory=set)
    computed: set[tuple[TableName, str]] = field(default_factory=set)
    conditions: set[tuple[TableName, str]] = field(default_factory=set)
    """Those that conditions of WHERE and ON compare."""
    in_condition: bool = False
    """Whether what is computed with now is a part of such a condition."""
    stars: set[TableName] = field(default_factory=set)
    """Tables all of whose columns are shown."""
    words: set[str] = field(default_factory=set)
    """Names that columns were looked for by, lower case; of a reference to a column's field, the column's."""

    def mark(self, origins: Origins, *, plain: bool) -> None:
        """Note columns that are named; those that are not only passed on count as computed with."""
        self.used |= origins
        self.named |= origins
        if not plain:
            self._note_computed(origins)

    def compute(self, columns: Iterable[HasOrigins]) -> None:
        """Note columns that are computed with, by whatever name."""
        for column in columns:
            if column.origins:
                self._note_computed(column.origins)

    def _note_computed(self, origins: Origins) -> None:
        self.computed |= origins
        if self.in_condition:
            self.conditions |= origins
