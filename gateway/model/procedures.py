"""Which procedures of catalogs may be called, and what each wants of its arguments (`rules/procedures`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """What one procedure wants. All its names are lower case."""

    arguments: tuple[str, ...] = ()
    """Names, in the order of positional ones; no other argument is taken."""
    table: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Argument that names a table → access types wanted on it. They work on raw rows, values or files."""
    url: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Argument that is a location → access types wanted on it."""
    condition: frozenset[str] = frozenset()
    """Arguments that Spark parses as an expression."""
    maintain: frozenset[str] = frozenset()
    """Arguments with which `maintain` on the table is enough, and no others; empty where it never is."""
    refused: str = ""
    """Why nobody may call it; continues a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedures:
    """The procedures of all table formats."""

    rows: Mapping[tuple[str, str], tuple[Procedure, ...]] = field(default_factory=dict)
    """(namespace, name), lower case → what it wants, for each format that has one of this name."""


NO_PROCEDURES = Procedures()
