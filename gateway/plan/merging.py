"""`mergeInto`: the MERGE of a DataFrame as the one of the same text, and what keeps it to visible rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from gateway.algebra.nodes import (
    Expression,
    NamedScan,
    OneRow,
    OpaqueExpression,
    OpaqueRelation,
    RelationNode,
)
from gateway.algebra.spark import BY_SOURCE, lower_expression
from gateway.algebra.walking import parts_of
from gateway.model.reading import Reading
from gateway.plan.facts import names_metadata
from gateway.plan.guard import Edits
from gateway.plan.identifiers import table_parts
from gateway.plan.lowering_expressions import ExpressionLowering, PlanNotes, UnreadablePlan
from gateway.plan.reading import PlanReading
from gateway.policy.masks import QUALIFIER
from gateway.sql.classify import is_builtin
from gateway.sql.functions import (
    ALLOWED_FUNCTIONS,
    FILE_FUNCTIONS,
    INTERNAL_FUNCTIONS,
    builtin_name,
)
from gateway.sql.restricting import MERGE, RowChange, read_merge
from gateway.wire.connect import Message, pb

_ACTIONS: Final = {
    1: "DeleteAction",
    2: "InsertAction",
    3: "InsertStarAction",
    4: "UpdateAction",
    5: "UpdateStarAction",
}
"""Actions of MERGE, as Spark's parser calls them."""
_ASSIGNMENT: Final = "Assignment"


def lower_merge(
    command: pb.MergeIntoTableCommand,
    target: NamedScan,
    source: RelationNode,
    lower: Callable[[pb.Expression], Expression],
) -> OpaqueRelation:
    """Return the MERGE of a DataFrame as the relation that the same text is."""
    on = lower(command.merge_condition)
    actions = [_lower_action(one, lower) for one in (*command.match_actions, *command.not_matched_actions)]
    actions += [_lower_action(one, lower, BY_SOURCE) for one in command.not_matched_by_source_actions]
    return OpaqueRelation((target, source), (on, *actions), MERGE)


def _lower_action(
    message: pb.Expression, lower: Callable[[pb.Expression], Expression], behind: str = ""
) -> Expression:
    action = message.merge_action
    parts: list[Expression] = [
        OpaqueExpression((lower(one.key), lower(one.value)), name=_ASSIGNMENT) for one in action.assignments
    ]
    if action.HasField("condition"):
        parts.append(lower(action.condition))
    name = _ACTIONS.get(action.action_type, "an unknown one") + behind
    return OpaqueExpression(tuple(parts), name=name)


def merge_of(reading: PlanReading) -> pb.MergeIntoTableCommand | None:
    command = reading.command
    if command is None or command.WhichOneof("command_type") != "merge_into_table_command":
        return None
    return command.merge_into_table_command


def read_plan_merge(reading: PlanReading, texts: Iterable[tuple[Message, Reading]]) -> RowChange | None:
    """Return what the MERGE of a plan uses of its target; None where that cannot be told. `texts`: the SQL
    expressions in it, by their messages."""
    command = merge_of(reading)
    # Spark runs code of its users' for each row before it looks at the condition around it.
    # RULE (restricted-plan-code)
    if command is None or reading.code or names_metadata(reading):
        return None
    names = {builtin_name(one.parts) or "" for one in reading.functions}
    # RULE (restricted-plan-functions)
    if not names <= ALLOWED_FUNCTIONS | INTERNAL_FUNCTIONS or names & FILE_FUNCTIONS:
        return None
    trees: dict[int, Expression] = {}
    for message, one in texts:
        called = [builtin_name(function.parts) for function in one.functions]
        if not all(map(is_builtin, one.functions)) or FILE_FUNCTIONS.intersection(filter(None, called)):
            return None
        if one.tree is None:
            return None
        trees[id(message)] = lower_expression(one.tree)
    lowering = ExpressionLowering(trees, _no_subquery, PlanNotes())
    target = NamedScan(table_parts(command.target_table_name) or ("",))
    try:
        merge = lower_merge(command, target, _name_source(command.source_table_plan), lowering.lower)
    except UnreadablePlan:
        return None
    within = (one for whole in merge.expressions for top in _tops(whole) for one in parts_of(top))
    # RULE (restricted-plan-expressions)
    if any(isinstance(one, OpaqueExpression) and not one.complete for one in within):
        return None
    return read_merge(merge)


def _tops(expression: Expression) -> Iterator[Expression]:
    """Yield the expressions of an action, or a condition by itself."""
    if isinstance(expression, OpaqueExpression) and expression.name.removesuffix(BY_SOURCE) in {
        *_ACTIONS.values(),
        _ASSIGNMENT,
    }:
        for one in expression.operands:
            yield from _tops(one)
    else:
        yield expression


def _no_subquery(plan_id: int) -> RelationNode:
    raise UnreadablePlan


def _name_source(relation: pb.Relation) -> RelationNode:
    """Return what has the name by which columns of the source are told apart."""
    match relation.WhichOneof("rel_type"):
        case "subquery_alias":
            return NamedScan((relation.subquery_alias.alias,))
        case "read" if relation.read.WhichOneof("read_type") == "named_table":
            return NamedScan(table_parts(relation.read.named_table.unparsed_identifier) or ("",))
        case _:
            return OneRow()


def list_restricted(command: pb.MergeIntoTableCommand) -> list[pb.Expression]:
    """Return the messages into which `restrict_merge` writes."""
    return [command.merge_condition, *command.not_matched_by_source_actions]


def restrict_merge(command: pb.MergeIntoTableCommand, rows: str, edits: Edits, *, bare: bool) -> None:
    """Keep a MERGE from rows of its target for which `rows` does not hold (`gateway/sql/merging.py`).

    What it changes was remembered before (`list_restricted`).
    """
    edits.expressions.add(rows)
    _restrict(command.merge_condition, rows, bare=bare)
    for one in command.not_matched_by_source_actions:
        action = one.merge_action
        # RULE (plan-merge-hidden-by-source)
        if action.HasField("condition"):
            _restrict(action.condition, rows, bare=bare)
        else:
            action.condition.expression_string.expression = rows


def _restrict(message: pb.Expression, rows: str, *, bare: bool) -> None:
    """Write the condition of `restrict_condition` around another."""
    own = pb.Expression()
    own.CopyFrom(message)
    builtin = "" if bare else QUALIFIER
    message.Clear()
    message.call_function.function_name = f"{builtin}coalesce"
    case, otherwise = message.call_function.arguments.add(), message.call_function.arguments.add()
    otherwise.literal.boolean = False
    case.call_function.function_name = f"{builtin}when"
    case.call_function.arguments.add().expression_string.expression = rows
    case.call_function.arguments.add().CopyFrom(own)
