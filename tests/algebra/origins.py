"""Which stored columns each column of a query is made of: the plainest domain, held against Spark's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gateway.algebra.nodes import (
    Expression,
    Generate,
    NamedCall,
    NamedColumn,
    NamedScan,
    OpaqueExpression,
    Operator,
    Pivot,
    RelationNode,
    Star,
    Subquery,
    Unpivot,
    WindowCall,
)
from gateway.algebra.nodes import OpaqueRelation as Opaque
from gateway.algebra.resolve import Resolver
from gateway.algebra.scope import FoundName, NameAnswer, NameScope, RelationColumn, RelationColumns
from gateway.algebra.spark import lower_relation
from gateway.algebra.walking import nodes_of
from gateway.model.reading import Reading, RelationRole, Span

Origins = frozenset[str]
NONE: Origins = frozenset()


@dataclass
class OriginsDomain:
    tables: Mapping[Span, tuple[str, Iterable[str]]]
    """Of each scan: the table and its columns."""
    ctes: frozenset[Span]
    unsure: list[str] = field(default_factory=list)
    """References that mean no one column."""

    def __post_init__(self) -> None:
        self.resolver = Resolver(self, self.ctes)

    def scan(self, scan: NamedScan) -> Iterable[tuple[str, Origins]] | None:
        known = self.tables.get(scan.span) if scan.span is not None else None
        return None if known is None else [(name, frozenset({f"{known[0]}.{name}"})) for name in known[1]]

    def column(self, column: NamedColumn, answer: NameAnswer[Origins], scope: NameScope[Origins]) -> Origins:
        if isinstance(answer, FoundName):
            return answer.attribute.value
        self.unsure.append(".".join(column.parts))
        return NONE

    def compute(self, expression: Expression, operands: Sequence[Origins]) -> Origins:
        if isinstance(expression, WindowCall):
            operands = operands[: len(expression.function.operands)]
        return NONE.union(*operands)

    def query(self, query: Subquery, scope: NameScope[Origins]) -> Origins:
        within = self.resolver.relation(query.relation, scope)
        values = [self.resolver.value(one, scope) for one in query.values]
        return NONE.union(*values, *[one.value for one in within.columns])

    def expand(
        self, star: Star, shown: Sequence[RelationColumn[Origins]], scope: NameScope[Origins]
    ) -> Sequence[RelationColumn[Origins]]:
        return shown

    def star(
        self, star: Star, shown: Sequence[RelationColumn[Origins]], scope: NameScope[Origins]
    ) -> Origins:
        return NONE

    def variable(self) -> Origins:
        return NONE

    def item(self, item: Expression, value: Origins) -> Origins:
        return value

    def merge(self, values: Sequence[Origins]) -> Origins:
        return NONE.union(*values)

    def decide(
        self, relation: RelationNode, inputs: Sequence[RelationColumns[Origins]], scope: NameScope[Origins]
    ) -> Sequence[RelationColumns[Origins]]:
        return inputs


_BEYOND_NAMES = frozenset("explode grouping grouping_id inline json_tuple posexplode stack".split())
"""Functions whose columns are several, or are made of more than they are given."""


def _is_beyond_names(node: RelationNode | Expression) -> bool:
    match node:
        case Opaque() | Pivot() | Unpivot() | OpaqueExpression() | Subquery():
            return True
        case Operator(name="UnresolvedExtractValue"):
            return True
        case NamedCall():
            starred = any(isinstance(one, Star) for one in node.operands)
            return starred or node.parts[-1].lower() in _BEYOND_NAMES
    return False


def origins_of(reading: Reading, tables: Mapping[str, Iterable[str]], database: str) -> list[Origins] | None:
    """Return what each column of a query is made of; None where something in it is not known."""
    if reading.tree is None:
        return None
    relation = lower_relation(reading.tree)
    nodes = list(nodes_of(relation))
    views = {id(node.generator) for node in nodes if isinstance(node, Generate)}
    if any(_is_beyond_names(node) for node in nodes if id(node) not in views):
        return None
    scans = {r.span: r.parts[-1].lower() for r in reading.relations if r.span and r.role is RelationRole.SCAN}
    if not scans.keys() or not tables.keys() >= set(scans.values()):
        return None
    ctes = frozenset(r.span for r in reading.relations if r.span and r.role is RelationRole.CTE)
    domain = OriginsDomain({span: (f"{database}.{name}", tables[name]) for span, name in scans.items()}, ctes)
    found = domain.resolver.relation(relation, NameScope())
    fields = found.open and any(isinstance(node, Star) and node.qualifier for node in nodes_of(relation))
    return None if domain.unsure or fields else [one.value for one in found.columns if one.bare]
