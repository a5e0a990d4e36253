"""Metric views in a plan, where they are written out: what of it computes measures (docs/adr/0039).

As in SQL (`sql.metrics`), with the messages of a DataFrame: an aggregation over the read, with filters and
aliases between them. A measure is a call of `measure`, or a text of SQL with one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from gateway.model.catalog import Table
from gateway.model.reading import ExpressionNode, Span, Splice
from gateway.plan.guard import Edits
from gateway.plan.identifiers import attribute_parts
from gateway.sql.functions import AGGREGATES, builtin_name
from gateway.sql.guard import apply
from gateway.sql.metrics import INPUT, MEASURE, MeasureCall, TextMeasures, refuse_combined_metric_view
from gateway.sql.required import Unsupported
from gateway.wire.connect import Message, pb

_CALLS = ("unresolved_function", "call_function")
_BETWEEN = ("filter", "subquery_alias")
_STARS = ("unresolved_star", "unresolved_regex")

TreeOf = Callable[[Message], ExpressionNode | None]
"""Returns what Spark's parser makes of a text of SQL in a plan, by its message; None where nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMeasures:
    """What computes measures of one metric view in a plan."""

    calls: tuple[tuple[pb.Expression, MeasureCall], ...] = ()
    """Messages that are a call, or an alias of theirs where Spark would name their column."""
    texts: tuple[tuple[pb.Expression, tuple[MeasureCall, ...]], ...] = ()
    """Texts of SQL, with the calls in them; one that has a title is all of its text."""

    @property
    def measures(self) -> tuple[MeasureCall, ...]:
        return (*(call for _, call in self.calls), *(call for _, calls in self.texts for call in calls))


def names_inputs(plan: bytes) -> bool:
    """Whether a plan has names in it that are the gateway's own."""
    return INPUT.encode() in plan.lower()


def plan_measures(
    root: Message, relation: pb.Relation, table: Table, hidden: AbstractSet[str], tree_of: TreeOf
) -> PlanMeasures | Unsupported:
    """Return what computes measures of the metric view that a relation of the plan reads; `hidden`: names
    (lower case) of columns that are not there."""
    metrics = table.view.metrics if table.view is not None else None
    above = _above(root, relation)
    if metrics is None or above is None:
        return refuse_combined_metric_view(table)
    names, conditions = {table.name.table.lower()}, []
    while above and above[0].WhichOneof("rel_type") in _BETWEEN:
        held = above.pop(0)
        if held.WhichOneof("rel_type") == "filter":
            conditions.append(held.filter.condition)
        else:
            names = {held.subquery_alias.alias.lower()}
    case = above[0].WhichOneof("rel_type") if above else None
    keys: Sequence[pb.Expression] = ()
    if case == "aggregate":
        aggregate = above[0].aggregate
        if aggregate.group_type != pb.Aggregate.GROUP_TYPE_GROUPBY:
            return Unsupported(
                f"{table.name} is a metric view; Spark does not support measures with grouping sets"
            )
        keys, items = aggregate.grouping_expressions, aggregate.aggregate_expressions
    elif case == "project":
        items = above[0].project.expressions
    else:
        return refuse_combined_metric_view(table)
    measures = {name.lower(): name for name, _ in metrics.measures if name.lower() not in hidden}
    walk = _MeasureFinder(table, TextMeasures(f"{table.name} is a metric view", measures, names), tree_of)
    for expression in (*conditions, *keys):
        if (why := walk.find_refusal(expression, listed=False)) is not None:
            return why
    for item in items:
        if (why := walk.find_refusal(item, listed=True)) is not None:
            return why
    if not (walk.calls or walk.texts or case == "aggregate" or any(map(_aggregates, items))):
        return Unsupported(
            f"{table.name} is a metric view; read it with measure(…), other aggregate functions or groupBy"
        )
    return PlanMeasures(calls=tuple(walk.calls), texts=tuple(walk.texts))


def _above(root: Message, relation: pb.Relation) -> list[pb.Relation] | None:
    """Return the relations that hold another one, the nearest first."""
    pending: list[tuple[Message, tuple[pb.Relation, ...]]] = [(root, ())]
    while pending:
        message, above = pending.pop()
        if message is relation:
            return list(above)
        if isinstance(message, pb.Relation):
            above = (message, *above)
        pending.extend((child, above) for child in _children(message))
    return None


def _children(message: Message) -> Iterator[Message]:
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        if descriptor.message_type.GetOptions().map_entry:
            if descriptor.message_type.fields_by_name["value"].message_type is not None:
                yield from (value[key] for key in value)
        elif descriptor.is_repeated:
            yield from value
        else:
            yield value


def _aggregates(message: Message) -> bool:
    if isinstance(message, pb.Expression):
        case = message.WhichOneof("expr_type")
        if case in ("window", "subquery_expression"):
            return False
        if case in _CALLS and _name(message).lower() in AGGREGATES:
            return True
    return any(map(_aggregates, _children(message)))


def _name(call: pb.Expression) -> str:
    return _parts_of(call)[-1]


def _parts_of(call: pb.Expression) -> tuple[str, ...]:
    held = getattr(call, call.WhichOneof("expr_type") or "")
    return tuple(str(held.function_name).replace("`", "").strip().split("."))


def _is_measure(message: pb.Expression) -> bool:
    return message.WhichOneof("expr_type") in _CALLS and builtin_name(_parts_of(message)) == MEASURE


class _MeasureFinder:
    """Finds the measures in the expressions beside a metric view, or says why one cannot stand there."""

    def __init__(self, table: Table, inside: TextMeasures, tree_of: TreeOf) -> None:
        self.calls: list[tuple[pb.Expression, MeasureCall]] = []
        self.texts: list[tuple[pb.Expression, tuple[MeasureCall, ...]]] = []
        self._what = f"{table.name} is a metric view"
        self._inside = inside
        self._tree_of = tree_of

    def find_refusal(self, item: pb.Expression, *, listed: bool) -> Unsupported | None:
        """`item`: what an answer's column is, if `listed`; else what chooses or groups rows."""
        before = len(self.calls)
        why = self._find_refusal(item, item, listed=listed)
        nameless = item.WhichOneof("expr_type") not in ("alias", "expression_string")
        if why is None and nameless and len(self.calls) > before and not self.calls[-1][1].title:
            name = self.calls[-1][1].measure
            return Unsupported(f"{self._what}: give the expression around MEASURE({name}) an alias")
        return why

    def _find_refusal(self, message: Message, item: pb.Expression, *, listed: bool) -> Unsupported | None:
        if isinstance(message, pb.Expression):
            case = message.WhichOneof("expr_type")
            if case in _STARS:
                return Unsupported(f"{self._what}: list its columns instead of `*`")
            if case == "unresolved_attribute":
                return self._inside.reject_bare_measure(_parts(message))
            if case == "expression_string":
                return self._text(message, item, listed=listed)
            if case == "window" and has_measure(message):
                return Unsupported(f"{self._what}: MEASURE(…) cannot have a window")
            if _is_measure(message):
                return self._call(message, item, listed=listed)
            if _counts_rows(message):
                return None
        for child in _children(message):
            if (why := self._find_refusal(child, item, listed=listed)) is not None:
                return why
        return None

    def _call(self, message: pb.Expression, item: pb.Expression, *, listed: bool) -> Unsupported | None:
        held = getattr(message, message.WhichOneof("expr_type") or "")
        if not listed:
            return Unsupported(f"{self._what}: use MEASURE(…) only in the select list")
        if len(held.arguments) != 1 or getattr(held, "is_distinct", False):
            return Unsupported(f"{self._what}: MEASURE(…) takes one measure, without DISTINCT")
        parts = _parts(held.arguments[0])
        name = self._inside.measure(parts)
        if name is not None:
            title = f"{MEASURE}({parts[-1]})" if message is item else ""
            self.calls.append((message, MeasureCall(span=Span(0, 0), measure=name, title=title)))
        return None

    def _text(self, message: pb.Expression, item: pb.Expression, *, listed: bool) -> Unsupported | None:
        tree = self._tree_of(message.expression_string)
        if tree is None:
            return Unsupported(f"{self._what}, and SQL text in the plan could not be parsed")
        if message is item and tree.node != "Alias":
            tree = ExpressionNode(node="UnresolvedAlias", children=(tree,))
        found = self._inside.find_calls(tree, listed=listed)
        if isinstance(found, Unsupported):
            return found
        if found:
            self.texts.append((message, found))
        return None


def _counts_rows(message: pb.Expression) -> bool:
    """Whether an expression is `count(*)`, which Spark takes for `count(1)`, but for DISTINCT."""
    if message.WhichOneof("expr_type") != "unresolved_function" or _name(message).lower() != "count":
        return False
    if message.unresolved_function.is_distinct:  # RULE (count-distinct-star-metric)
        return False
    arguments = message.unresolved_function.arguments
    star = arguments[0].unresolved_star if len(arguments) == 1 else None
    return star is not None and arguments[0].HasField("unresolved_star") and not star.ListFields()


def has_measure(message: Message) -> bool:
    """Whether a measure is computed by a call in a message."""
    if isinstance(message, pb.Expression) and _is_measure(message):
        return True
    return any(map(has_measure, _children(message)))


def _parts(message: pb.Expression) -> tuple[str, ...]:
    if message.WhichOneof("expr_type") != "unresolved_attribute":
        return ()
    return attribute_parts(message.unresolved_attribute.unparsed_identifier) or ()


def write_measures(found: PlanMeasures, expressions: Mapping[str, str], edits: Edits) -> None:
    """Write what measures are over what computes them. `expressions`: name of the measure → expression."""
    for message, call in found.calls:
        _write(message, expressions[call.measure], call.title, edits)
    for message, calls in found.texts:
        text = message.expression_string.expression
        titles = [call.title for call in calls if call.title]
        if titles:
            _write(message, expressions[calls[0].measure], titles[0], edits)
            continue
        splices = [Splice(span=call.span, text=expressions[call.measure], kind="measure") for call in calls]
        _write(message, apply(text, splices), "", edits)


def _write(message: pb.Expression, text: str, title: str, edits: Edits) -> None:
    edits.remember(message)
    edits.expressions.add(text)
    if title:
        message.alias.expr.expression_string.expression = text
        message.alias.name.append(title)
    else:
        message.expression_string.expression = text
