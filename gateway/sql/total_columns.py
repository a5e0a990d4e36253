"""The columns of a plan with their types, for `gateway.sql.total`, and what is asked of the plan's shape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gateway.model.reading import ExpressionNode, Span
from gateway.sql.functions import AGGREGATES, builtin_name
from gateway.sql.total_values import column_kind


class TypedColumn(NamedTuple):
    """A column of a plan; always total, since it is a value that is there."""

    name: str
    """Lower case; empty where Spark makes one up."""
    type: str
    qualifiers: frozenset[tuple[str, ...]] = frozenset()
    bare: bool = True
    """Whether its name finds it without a qualifier: of two that USING makes one only that one."""
    source: tuple[Span, str] | None = None
    """The scan's column that it is."""
    guessed: bool = False
    """Whether the name is one that Spark may have given it: what else has that name may be meant."""
    written: str = ""
    """Its type as the catalog has it, where that is not looked at further."""

    def unqualified(self) -> TypedColumn:
        """Return the column as a query shows it to what is around."""
        if self.bare and not self.qualifiers:
            return self
        return self._replace(qualifiers=frozenset(), bare=True)


@dataclass(frozen=True, slots=True)
class TypedColumns:
    columns: tuple[TypedColumn, ...] = ()
    open: bool = False
    """Whether there may be others, by names that are not known."""

    def find(self, parts: Sequence[str]) -> list[TypedColumn]:
        """Return the columns that a reference can mean."""
        *before, name = [part.lower() for part in parts]
        if not before:
            return [one for one in self.columns if one.name == name and one.bare]
        qualifier = tuple(before)
        return [one for one in self.columns if one.name == name and qualifier in one.qualifiers]


OPEN: Final = TypedColumns(open=True)


def is_of(kind: str, column: TypedColumn) -> bool:
    """Whether a column of a text is of the type that its view says."""
    said = column_kind(kind)
    if said or column.type:
        return column.type == said and not column.guessed
    return column.written != "" and column.written == kind.lower()


def made_name(item: ExpressionNode) -> str:
    """Return the plain name, lower case, that Spark may give to an item without one: that of the column which
    a cast is of, or a literal's text. Those of calls and operators have other signs in them."""
    if item.node != "UnresolvedAlias":
        return ""
    (made,) = item.children
    if made.node == "Cast" and made.children[0].node == "UnresolvedAttribute":
        return made.children[0].parts[-1].lower()
    if made.node == "Literal":
        return "null" if made.value is None else made.value.lower()
    return ""


def renamed(below: TypedColumns, names: Sequence[str]) -> TypedColumns:
    """Return columns by the names of a list beside an alias. Spark takes one that is as long as the columns
    are many, and no other: so where there are as many here, these are all."""
    if len(names) != len(below.columns) or not all(one.bare for one in below.columns):
        return OPEN
    pairs = zip(names, below.columns, strict=True)
    return TypedColumns(
        tuple([one._replace(name=name.lower(), qualifiers=frozenset(), guessed=False) for name, one in pairs])
    )


def has_having(node: ExpressionNode) -> bool:
    """Whether what is sorted are groups of which some are left out."""
    while node.node in ("Sort", "UnresolvedHint", "Distinct") and node.plans:
        node = node.plans[0]
    return node.node == "UnresolvedHaving"


def is_binding(condition: ExpressionNode, scopes: tuple[TypedColumns, ...]) -> bool:
    """Whether a condition says that a column equals one of the same type of the query right around."""
    if condition.node != "EqualTo" or any(one.node != "UnresolvedAttribute" for one in condition.children):
        return False
    within, around, *_ = (*scopes, OPEN, OPEN)
    if within.open or around.open:
        return False
    ours = [within.find(one.parts) for one in condition.children]
    theirs = [around.find(one.parts) for one in condition.children]
    inner, outer = (ours[0], theirs[1]) if ours[0] else (ours[1], theirs[0])
    is_apart = bool(ours[0]) != bool(ours[1])
    # RULE (correlated-equality-types)
    return is_apart and len(inner) == len(outer) == 1 and inner[0].type == outer[0].type != ""


def named_columns(nodes: Iterable[ExpressionNode]) -> Iterable[str]:
    """Yield what references in expressions begin with, lower case."""
    for node in nodes:
        if node.node == "UnresolvedAttribute":
            yield node.parts[0].lower()
        yield from named_columns(node.children)


def has_one_row(plan: ExpressionNode) -> bool:
    """Whether a plan aggregates all of its rows to one."""
    return plan.node == "Project" and any(map(_aggregates, plan.children))


def _aggregates(node: ExpressionNode) -> bool:
    """Whether an expression calls an aggregate, not over a window."""
    if node.node == "UnresolvedFunction" and builtin_name(node.parts) in AGGREGATES:
        return True
    return node.node != "WindowExpression" and any(map(_aggregates, node.children))


def type_of(name: str, columns: Iterable[TypedColumn]) -> str:
    types = {one.type for one in columns if one.name == name}
    return types.pop() if len(types) == 1 else ""
