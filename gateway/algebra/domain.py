"""What is asked about a query: a domain says what its columns and expressions are worth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from gateway.algebra.nodes import Expression, NamedColumn, NamedScan, RelationNode, Star, Subquery
from gateway.algebra.scope import NameAnswer, NameScope, RelationColumn, RelationColumns, V


class Domain(Protocol[V]):
    """What is asked about a query, by values of its columns and expressions."""

    def scan(self, scan: NamedScan) -> Iterable[tuple[str, V]] | None:
        """Return a stored relation's columns, None where they are not known."""

    def column(self, column: NamedColumn, answer: NameAnswer[V], scope: NameScope[V]) -> V:
        """Return what a reference is worth."""

    def compute(self, expression: Expression, operands: Sequence[V]) -> V:
        """Return what an expression makes of its operands."""

    def query(self, query: Subquery, scope: NameScope[V]) -> V:
        """Return what a query within an expression is worth."""

    def expand(
        self, star: Star, shown: Sequence[RelationColumn[V]], scope: NameScope[V]
    ) -> Sequence[RelationColumn[V]]:
        """Look at the columns that a star in a select list shows; return these as they are above it."""

    def star(self, star: Star, shown: Sequence[RelationColumn[V]], scope: NameScope[V]) -> V:
        """Return what a star within an expression is worth, which stands for these columns."""

    def variable(self) -> V:
        """Return what a variable of a lambda function is worth."""

    def item(self, item: Expression, value: V) -> V:
        """Return what an item of a select list gives."""

    def merge(self, values: Sequence[V]) -> V:
        """Return what a column is that may have any of several values."""

    def decide(
        self, relation: RelationNode, inputs: Sequence[RelationColumns[V]], scope: NameScope[V]
    ) -> Sequence[RelationColumns[V]]:
        """Look at what a relation does with its inputs; return these as they are below it. The names stay."""
