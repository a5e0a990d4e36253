"""A plan as a relation, and what is known of the columns that it asks for by their DataFrames."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gateway.algebra.nodes import RelationNode
from gateway.plan.lowering_expressions import PlanNotes
from gateway.sql.total_values import WORDS

_PLAIN_NAME = re.compile(r"[^\W\d]\w*\Z")
"""A name that Spark makes of no call and no operator."""


@dataclass(frozen=True, slots=True)
class PlanTree:
    """A plan's tree, and what names in it mean that no name says."""

    tree: RelationNode
    notes: PlanNotes

    @property
    def has_references_by_plan(self) -> bool:
        """Whether columns are asked for by the DataFrame that has them. Spark finds them there, and not by
        their names in what they are used on."""
        return bool(self.notes.by_plan)

    def of_one_type(self, scanned: Sequence[Mapping[str, str]]) -> bool:
        """Whether every column that is asked for by its DataFrame has the type of all columns of its name.
        `scanned` are all tables that the plan reads, with their columns' types, empty where not known.

        INVARIANT (total): Spark finds such a column behind a projection that hides it, too, where by its name
        it would be another, or a word like `user`.
        """
        by_plan = self.notes.by_plan
        types = [{kind.lower() for kind in _list_types(name, scanned)} for name in by_plan]
        plain = all(_PLAIN_NAME.match(name) and name not in WORDS for name in by_plan)
        return plain and self._of_tables() and all(len(kinds) == 1 and "" not in kinds for kinds in types)

    def of_one_table(self, scanned: Sequence[Mapping[str, str]]) -> bool:
        """Whether there is no other column of its name."""
        return self._of_tables() and all(len(_list_types(name, scanned)) == 1 for name in self.notes.by_plan)

    def _of_tables(self) -> bool:
        """Whether columns that are asked for by their DataFrame can be of nothing but tables."""
        return not self.notes.unnamed and self.notes.by_plan.isdisjoint(self.notes.made)


def _list_types(name: str, scanned: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the types of all columns of a name."""
    return [kind for columns in scanned for column, kind in columns.items() if column.lower() == name]
