"""One SQL text between two passes: read and classified, then seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.model.catalog import TableName
from gateway.model.reading import Reading
from gateway.pipeline.judging import commanded, names_of
from gateway.policy.engine import TableView
from gateway.sql.evaluate import Scan
from gateway.sql.names import Names
from gateway.sql.wants import Want, Wants


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a text stands and what is bound around it."""

    depth: int = 0
    """0: what a client sent; above: the body of a view, that many views deep."""
    expression: bool = False
    """It is an expression, not a statement."""
    commands: bool = True
    arguments: bool = False
    """It comes with arguments for its parameter markers."""
    aliases: frozenset[str] = frozenset()
    """Names (lower case) that are bound around it, as common table expressions would be."""


TOP = Place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """One text that was read and classified."""

    text: str
    place: Place
    reading: Reading
    names: Names
    wants: Wants
    functions: tuple[Want, ...]
    scans: tuple[Scan, ...]
    vouched: bool

    @property
    def tables(self) -> tuple[TableName, ...]:
        """Every table that must be known before the text can be judged."""
        return (*names_of(self.scans), *commanded(self.wants))


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the principal may see of the tables that a text reads."""

    views: Mapping[TableName, TableView | None]
    used: Mapping[TableName, tuple[str, ...] | None]
    """Columns used of each table, None when the analyst could not tell."""
