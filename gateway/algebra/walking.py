"""Walks over relations and expressions that look no name up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gateway.algebra.nodes import (
    Alias,
    Aliases,
    Cast,
    ColumnAliases,
    Expression,
    Lambda,
    Literal,
    NamedColumn,
    OpaqueExpression,
    OpaqueRelation,
    Pass,
    Passing,
    RelationNode,
    Subquery,
    SubqueryAlias,
)

_HOLDING = (Subquery, OpaqueExpression)
"""Expressions that have queries within them."""


def queries_in(expression: Expression) -> Iterator[RelationNode]:
    """Yield the queries within an expression, without those within them."""
    for one in parts_of(expression):
        if isinstance(one, _HOLDING):
            yield from one.relations


def parts_of(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and those that it is made of, in order, without recursion."""
    waiting = [expression]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += one.operands[::-1]


def nodes_of(relation: RelationNode) -> list[RelationNode | Expression]:
    """Return a relation and all relations and expressions in it, however deep."""
    found: list[RelationNode | Expression] = []
    relations = [relation]
    while relations:
        one = relations.pop()
        found.append(one)
        relations += one.inputs
        waiting = [*one.expressions]
        while waiting:
            expression = waiting.pop()
            found.append(expression)
            waiting += expression.operands
            if isinstance(expression, _HOLDING):
                relations += expression.relations
    return found


def list_references(relation: RelationNode) -> list[NamedColumn]:
    """Return the references in a relation, however deep."""
    found: list[NamedColumn] = []
    relations = [relation]
    while relations:
        one = relations.pop()
        relations += one.inputs
        waiting = [*one.expressions]
        while waiting:
            expression = waiting.pop()
            kind = type(expression)
            if kind is Literal:
                continue
            if isinstance(expression, NamedColumn):
                found.append(expression)
                continue
            waiting += expression.operands
            if isinstance(expression, _HOLDING):
                relations += expression.relations
    return found


def words_in_lambdas(relation: RelationNode) -> frozenset[str]:
    """Return what references in lambda functions begin with, lower case, that are no variables of theirs."""
    within = {
        id(one.body)
        for node in nodes_of(relation)
        if isinstance(node, Lambda)
        for one in parts_of(node.body)
        if isinstance(one, Lambda)
    }
    words: set[str] = set()
    waiting = [
        (node, frozenset[str]())
        for node in nodes_of(relation)
        if isinstance(node, Lambda) and id(node.body) not in within
    ]
    while waiting:
        node, bound = waiting.pop()
        bound |= {name.lower() for name in node.variables}
        reading = [node.body]
        while reading:
            one = reading.pop()
            if isinstance(one, Lambda):
                waiting.append((one, bound))
                continue
            if isinstance(one, NamedColumn) and one.parts[0].lower() not in bound:
                words.add(one.parts[0].lower())
            reading += one.operands
    return frozenset(words)


def names_in(expression: Expression) -> list[tuple[str, ...]]:
    """Return every reference to a column in an expression, without those in queries within it."""
    found: list[tuple[str, ...]] = []
    waiting = [expression]
    while waiting:
        one = waiting.pop()
        if isinstance(one, NamedColumn):
            found.append(one.parts)
        else:
            waiting += one.operands[::-1]
    return found


def list_given(item: Expression) -> list[str]:
    """Return the names, lower case, that an item of a select list is given."""
    if isinstance(item, Alias):
        return [item.name.lower()]
    return [name.lower() for name in item.names] if isinstance(item, Aliases) else []


def list_asked(items: Sequence[Expression]) -> set[str]:
    """Return the names that items of a select list are given and that one of them asks for."""
    if len(items) < 2:
        return set()  # nothing stands behind it
    given = {name for item in items for name in list_given(item)}
    return given and given.intersection([parts[0].lower() for item in items for parts in names_in(item)])


def list_column_names(relation: RelationNode) -> Sequence[str]:
    """Return the names that a definition gives its columns by their places."""
    while isinstance(relation, SubqueryAlias):
        relation = relation.input
    return relation.names if isinstance(relation, ColumnAliases) else ()


def infer_name(item: Expression) -> str:
    """Return the plain name, lower case, that Spark may give to an item without one: that of the column which
    a cast is of, or a literal's text. Those of calls and operators have other signs in them."""
    if isinstance(item, Cast) and isinstance(item.operand, NamedColumn):
        return item.operand.parts[-1].lower()
    if isinstance(item, Literal):
        return "null" if item.value is None else item.value.lower()
    return ""


def list_hiding(relation: RelationNode) -> Iterator[RelationNode]:
    """Yield the relations below one whose columns Spark finds, although what is above has left them out."""
    while len(relation.inputs) == 1 and not isinstance(relation, SubqueryAlias | OpaqueRelation):
        if isinstance(relation, Pass) and relation.why in (Passing.DISTINCT, Passing.FIRST_ROWS):
            return
        (relation,) = relation.inputs
        yield relation
