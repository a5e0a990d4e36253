"""The domain of column lineage for plans: what only plans have beside what the same query in SQL has.

The plan is lowered to the algebra with the SQL texts in it (`plan/lowering.py`). What its messages say that
no relation of the algebra does, `plan/lineage_relations.py` knows by the message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.algebra.lineage_expressions import (
    LineageColumn,
    LineageColumns,
    LineageScope,
    fold_parts,
    show_meant,
)
from gateway.algebra.lineage_values import AGGREGATED, NO_SOURCES, Value
from gateway.algebra.lineage_words import MAX_EXPRESSION, WrittenWords
from gateway.algebra.nodes import (
    Expression,
    Filter,
    NamedColumn,
    OpaqueExpression,
    OpaqueRelation,
    Operator,
    RelationNode,
    Star,
)
from gateway.algebra.scope import (
    FoundName,
    NameAnswer,
    UnknownName,
    list_meant,
    scope_of,
    star_columns,
)
from gateway.algebra.spark import GROUPINGS
from gateway.algebra.usage import Unclear
from gateway.algebra.walking import list_hiding
from gateway.plan.lineage_names import PlanNaming, parts_of
from gateway.plan.lineage_relations import COMPLETING, DECIDING, MessageDomain, RelationPlace
from gateway.plan.lowering_expressions import PlanNotes
from gateway.plan.rendering import render
from gateway.wire.connect import Message, pb

MAX_FOLLOWED_DUPLICATES = 64
"""Relations of one id, as in a join of a DataFrame with itself, that a column of it may be of."""

_GROUPED_PYTHON = frozenset({202, 252, 256})
"""Kinds of Python functions that aggregate: over pandas, and over Arrow."""
_METADATA = "_metadata"
"""What Spark knows of the files that rows came from."""


@dataclass(frozen=True, slots=True, eq=False)
class PlanWords:
    """Parts of a plan, to be written out much as one writes them in PySpark, if they are asked for."""

    messages: Sequence[Message]
    conditions: bool
    """Whether they are conditions all of which have to hold."""

    def __str__(self) -> str:
        parts = list(dict.fromkeys(map(render, self.messages)))
        if self.conditions and len(parts) > 1:
            parts = [" & ".join(f"({part})" for part in parts)]
        shown = ", ".join(parts)
        return shown if len(shown) <= MAX_EXPRESSION else shown[:MAX_EXPRESSION] + "…"


class PlanLineageDomain(MessageDomain):
    """Says what the columns of a plan are made of while a `Resolver` goes through it."""

    notes: PlanNotes

    # WrittenWords and names.

    def words(self, *expressions: Expression, keyword: str = "") -> WrittenWords | PlanWords:  # type: ignore[override]
        found = [message for one in expressions for message in self._list_messages(one)]
        if not found:
            return WrittenWords(expressions, self.text, keyword)
        return PlanWords(found, conditions=not keyword)

    def _list_messages(self, expression: Expression) -> Iterator[Message]:
        """Yield what an expression was made of; of a text nothing, which has words of its own."""
        message = self.notes.message_of(expression)
        if message is None and isinstance(expression, Operator) and expression.name in GROUPINGS:
            for one in expression.operands:
                yield from self._list_messages(one)
        if message is not None and not (
            isinstance(message, pb.Expression) and message.HasField("expression_string")
        ):
            yield message

    def name_item(self, item: Expression, scope: LineageScope) -> str:
        message = self.notes.message_of(item)
        if not isinstance(message, pb.Expression):
            return super().name_item(item, scope)
        naming = PlanNaming(
            lambda attribute: self._show_column(attribute, scope),
            lambda one: self.resolver.value(one, scope).type,
        )
        return naming.column_name(message, item) or ""

    def _show_column(self, attribute: pb.Expression.UnresolvedAttribute, scope: LineageScope) -> str:
        """Return how Spark shows a reference within an expression."""
        parts = parts_of(attribute.unparsed_identifier)
        plan_id = attribute.plan_id if attribute.HasField("plan_id") else None
        column = NamedColumn(parts, plan_id)
        answer = self.resolver.answer(column, scope) if plan_id is not None else scope.resolve(parts)
        if isinstance(answer, UnknownName):
            answer = scope.resolve(parts)
        meaning = show_meant(answer)
        return parts[-1] if meaning is None else ".".join(meaning[1])  # RULE (plan-field-name)

    # Columns.

    def column(self, column: NamedColumn, answer: NameAnswer[Value], scope: LineageScope) -> Value:
        self.seen.add(id(column))
        parts = fold_parts(column.parts)
        if column.plan_id is not None:
            found = self._of_plan(column, scope)
            if found is not None:
                return found
            answer = scope.resolve(column.parts)
        unknown = isinstance(answer, UnknownName)
        if unknown and (parts[0] == _METADATA or isinstance(self.notes.message_of(column), pb.ToSchema)):
            return NO_SOURCES
        return self._value_of(parts, answer, scope)

    def _of_plan(self, column: NamedColumn, scope: LineageScope) -> Value | None:
        """Return a column of the relation of an id: the one that is still there, of several."""
        parts = fold_parts(column.parts)
        first: Value | None = None
        for below in self._list_of_plan(column.plan_id or 0):
            here = scope_of(below)
            answer = here.resolve(parts)
            for one in list_meant(answer)[0]:
                if _find_still_there(one, scope) is not None:
                    return self._value_of(parts, answer, here)
            if first is None and not isinstance(answer, UnknownName):
                first = self._value_of(parts, answer, here)
        return first

    def _list_of_plan(self, plan_id: int) -> Sequence[LineageColumns]:
        """Return the relations of an id, those first that are nearest."""
        return self.resolver.list_of_plan(plan_id)[: -MAX_FOLLOWED_DUPLICATES - 1 : -1]

    def expand(
        self, star: Star, shown: Sequence[LineageColumn], scope: LineageScope
    ) -> Sequence[LineageColumn]:
        relations = () if star.plan_id is None else self._list_of_plan(star.plan_id)
        if star.pattern is not None:
            tiers = relations[:1] or scope.levels[0]
            if any(tier.open for tier in tiers):
                raise Unclear("a pattern of columns")
            return [one for tier in tiers for one in star_columns(star, tier)]
        if star.plan_id is not None:
            for below in relations:
                theirs = star_columns(star, below)
                here = [_find_still_there(one, scope) for one in theirs]
                there = [one for one in here if one is not None]
                if len(there) == len(theirs):
                    return there
            raise Unclear("a star refers to a relation that is not in the plan")
        return super().expand(star, shown, scope)

    def compute(self, expression: Expression, operands: Sequence[Value]) -> Value:
        if not isinstance(expression, OpaqueExpression) or expression.name:
            return super().compute(expression, operands)
        if not expression.complete or expression.relations:
            raise Unclear(_explain(self.notes.message_of(expression)))
        found = super().compute(expression, operands)
        if not _aggregates(self.notes.message_of(expression)):
            return found
        rows = found.rows if self.groups is None else tuple(dict.fromkeys((*found.rows, self.groups)))
        whole = self.sum_up([(one, AGGREGATED) for one in operands])
        return Value(whole.dependencies, rows)

    # Relations.

    def decide(
        self, relation: RelationNode, inputs: Sequence[LineageColumns], scope: LineageScope
    ) -> Sequence[LineageColumns]:
        message = self.notes.message_of(relation)
        if isinstance(message, pb.CommonInlineUserDefinedDataSource):
            return inputs  # it reads no table
        if message is not None and isinstance(relation, OpaqueRelation) and not relation.complete:
            raise Unclear(_explain(message))
        decide = DECIDING.get(type(message))
        if decide is None or message is None:
            return super().decide(relation, inputs, scope)
        self.groups = None
        decide(RelationPlace(self, relation, inputs, scope), message)
        return inputs

    def _scope_of_filter(self, relation: Filter, below: LineageColumns, scope: LineageScope) -> LineageScope:
        if self.notes.message_of(relation) is None:
            return super()._scope_of_filter(relation, below, scope)
        return self._scope_of_shown(relation.input, below, scope)

    def _scope_of_shown(
        self, relation: RelationNode, shown: LineageColumns, scope: LineageScope, *, shown_first: bool = False
    ) -> LineageScope:
        """Return the scope of a filter or an order: Spark pulls up what a relation has left out."""
        if self.notes.message_of(relation) is None:
            return super()._scope_of_shown(relation, shown, scope, shown_first=shown_first)
        return scope.over(shown, *[self.relation(below) for below in list_hiding(relation)])

    def answer_of(self, column: NamedColumn, scope: LineageScope) -> NameAnswer[Value]:
        for below in self._list_of_plan(column.plan_id or 0) if column.plan_id is not None else ():
            for one in list_meant(scope_of(below).resolve(column.parts))[0]:
                if (here := _find_still_there(one, scope)) is not None:
                    return FoundName(here, 0, open=False)
        return super().answer_of(column, scope)

    def complete(
        self,
        relation: RelationNode,
        inputs: Sequence[LineageColumns],
        found: LineageColumns,
        scope: LineageScope,
    ) -> LineageColumns:
        message = self.notes.message_of(relation)
        complete = COMPLETING.get(type(message))
        made: LineageColumns | None = None
        if complete is not None and message is not None:
            made = complete(RelationPlace(self, relation, inputs, scope, found), message)
        return super().complete(relation, inputs, found, scope) if made is None else made


def _find_still_there(column: LineageColumn, scope: LineageScope) -> LineageColumn | None:
    """Return a column of a relation further down where it is in scope unchanged; each has its own value."""
    for tiers in scope.levels:
        for tier in tiers:
            for one in tier.find_columns((column.name,)) if column.name else tier.columns:
                if one.value is column.value:
                    return one
            for one in tier.columns:
                if one.value is column.value and one.name == column.name:
                    return one  # behind a column that USING makes
    return None


def _explain(message: Message | None) -> str:
    """Return why something is not followed that a message was lowered to."""
    case = message.WhichOneof("expr_type") if isinstance(message, pb.Expression) else None
    if isinstance(message, pb.SQL) or case == "expression_string":
        return "SQL in the plan that Spark's parser rejects"
    if case == "unresolved_regex":
        return "a pattern of columns"
    return f"lineage does not understand {case or type(message).__name__}"


def _aggregates(message: Message | None) -> bool:
    if not isinstance(message, pb.Expression):
        return False
    code = message.common_inline_user_defined_function
    return (
        code.python_udf.eval_type in _GROUPED_PYTHON
        or code.scalar_scala_udf.aggregate
        or message.HasField("typed_aggregate_expression")
    )
