"""Metric views that are written out in a statement: the places of MEASURE(…), and what stands for them.

Spark computes a measure where its view is aggregated: SELECT … FROM the view, with WHERE and GROUP BY, and
MEASURE(…) in the list (docs/adr/0039). There an expression over what stands for the view is the same.
Anywhere else Spark fails, or does what nobody wrote (it drops a FILTER of MEASURE): refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import takewhile

from gateway.model.catalog import Column, Table, quote, quote_parts
from gateway.model.reading import ExpressionNode, FunctionRef, Reading, Span, Splice
from gateway.policy.engine import TableView
from gateway.sql.evaluate import list_hidden_columns, masks_of
from gateway.sql.functions import AGGREGATES, builtin_name
from gateway.sql.guard import write_guarded_query
from gateway.sql.required import Unsupported

INPUT = "#__"
"""Before the number of a column that a measure is computed from: nobody else may write such a name. It has no
letters: to Spark, which compares by Java's rules, more of them are one than `lower` knows. Within a view that
is written out they have one more sign for each level: what stands for an outer one names its own there."""

MEASURE = "measure"
_GROUPINGS = frozenset({"Cube", "GroupingSets", "Rollup"})
_CLAUSES = frozenset({"UnresolvedHaving", "Sort"})
_NUMBERED = frozenset({"int", "bigint", "string"})
"""Types of literals of which one is another where they are written alike."""
_NUMBER = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_BETWEEN = frozenset({"Filter", "SubqueryAlias"})
"""What may stand between a metric view and the aggregation over it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureCall:
    """One MEASURE(…) of a statement."""

    span: Span
    measure: str
    """The name of the view's column."""
    title: str = ""
    """What Spark calls the column of the answer, where the statement gives it no name."""


def measure_calls(
    tree: ExpressionNode | None, views: Mapping[Span, Table], hidden: Mapping[Span, AbstractSet[str]]
) -> Mapping[Span, tuple[MeasureCall, ...]] | Unsupported:
    """Return the calls over each metric view of a statement that is written out, by where its name stands.

    `tree`: the statement's plan; `hidden`: names (lower case) of columns that are not there.
    """
    found: dict[Span, tuple[MeasureCall, ...]] = {}
    if tree is None:
        return Unsupported("the statement is too large to expand its metric views")
    for span, above in _scans(tree, ()):
        if span not in views:
            continue
        table = views[span]
        calls = _calls_over(table, above, hidden.get(span, frozenset()))
        if isinstance(calls, Unsupported):
            return calls
        # RULE (measures-of-multi-insert)
        found[span] = (*found.get(span, ()), *calls)  # INSERTs may share one FROM
    if missing := views.keys() - found.keys():
        return refuse_combined_metric_view(views[min(missing, key=lambda span: span.start)])
    return found


def answers_nothing(tree: ExpressionNode | None) -> bool:
    """Whether a query has no rows, or none of them is told: clients ask so for names and types of columns."""
    while tree is not None:
        match tree.node:
            case "DescribeQueryCommand":
                return True
            case "GlobalLimit" | "LocalLimit" if tree.children[0].value == "0":
                return True
            case "Filter" if any(map(_is_false, tree.children)):
                return True
            case "UnresolvedWith":
                tree = tree.plans[0]  # what it is for; its relations come behind
            case "Project" if not all(map(_is_plain, tree.children)):  # RULE (global-aggregate-row)
                return False
            case "GlobalLimit" | "LocalLimit" | "Filter" | "Project" | "SubqueryAlias" | "Sort" | "Distinct":
                tree = tree.plans[0] if len(tree.plans) == 1 else None
            case _:
                return False
    return False


def _is_false(condition: ExpressionNode) -> bool:
    if condition.node == "And":
        return any(map(_is_false, condition.children))
    # A date has a number for its value, too, and not the one that a timestamp of the same moment has.
    # RULE (metric-date-literals)
    values = [child.value or "" for child in condition.children if child.type in _NUMBERED]
    if condition.node == "EqualTo" and len(values) == 2:
        return values[0] != values[1] and all(_NUMBER.fullmatch(value) for value in values)
    return condition.node == "Literal" and condition.value == "false"


def _is_plain(item: ExpressionNode) -> bool:
    """Whether an item is a column, a star or a literal, and so no aggregation, which has a row of nothing."""
    if item.node in ("Alias", "UnresolvedAlias"):
        return all(map(_is_plain, item.children))
    return item.node in ("UnresolvedAttribute", "UnresolvedStar", "Literal")


def write_typed_query(table: Table, hidden: AbstractSet[str]) -> str | Unsupported:
    """Write a query without rows that has a metric view's columns, for who asks for no more than these."""
    columns = [column for column in table.columns if column.name.lower() not in hidden]
    if not columns:
        return refuse_combined_metric_view(table)
    written = ", ".join(f"CAST(NULL AS {_type(column)}) AS {quote(column.name)}" for column in columns)
    return f"SELECT {written} WHERE false"


def _type(column: Column) -> str:
    return "string" if column.type.lower().startswith(("char", "varchar")) else column.type


def calls_measure(functions: Iterable[FunctionRef]) -> bool:
    """Whether a text computes a measure."""
    return any(builtin_name(function.parts) == MEASURE for function in functions)


def refuse_combined_metric_view(table: Table) -> Unsupported:
    """Refuse a metric view that is read otherwise than by itself."""
    return Unsupported(
        f"{table.name} is a metric view with masks, filters or hidden columns: read it with SELECT … FROM, "
        "WHERE and GROUP BY, aggregate with MEASURE(…) in the select list, and put joins, sorting and "
        "EXPLAIN around that query"
    )


def _scans(
    plan: ExpressionNode, above: tuple[ExpressionNode, ...]
) -> Iterator[tuple[Span, tuple[ExpressionNode, ...]]]:
    """Yield the places of the relations in a plan, each with the nodes of its query above it, the nearest
    first."""
    if plan.node == "UnresolvedRelation" and plan.span is not None:
        yield plan.span, above
    for expression in plan.children:
        yield from _scans_within(expression)
    for under in plan.plans:
        yield from _scans(under, (plan, *above))


def _scans_within(expression: ExpressionNode) -> Iterator[tuple[Span, tuple[ExpressionNode, ...]]]:
    for plan in expression.plans:
        yield from _scans(plan, ())
    for child in expression.children:
        yield from _scans_within(child)


def _calls_over(
    table: Table, above: Sequence[ExpressionNode], hidden: AbstractSet[str]
) -> tuple[MeasureCall, ...] | Unsupported:
    metrics = table.view.metrics if table.view is not None else None
    if metrics is None:
        return ()
    what = f"{table.name} is a metric view"
    names = {table.name.table.lower()}
    at = 0
    while at < len(above) and above[at].node in _BETWEEN:
        if above[at].node == "SubqueryAlias":
            names = {part.lower() for part in above[at].parts}
        at += 1
    if at == len(above) or above[at].node not in ("Aggregate", "Project"):
        return refuse_combined_metric_view(table)
    block, conditions = above[at], [child for one in above[:at] for child in one.children]
    clauses = takewhile(lambda one: one.node in _CLAUSES, above[at + 1 :])
    grouped = int(block.value or 0) if block.node == "Aggregate" else 0
    keys, items = block.children[:grouped], block.children[grouped:]
    measures = {name.lower(): name for name, _ in metrics.measures if name.lower() not in hidden}
    inside = TextMeasures(what, measures, names)
    if any(_has_pipe(item) for item in items):
        return Unsupported(f"{what}: write SELECT … FROM it instead of |>")
    for expression in (*conditions, *keys):
        why = inside.find_calls(expression, listed=False)
        if isinstance(why, Unsupported):
            return why
    for clause in clauses:
        refused = next(filter(None, map(inside.refuse_above, clause.children)), None)
        if refused is not None:  # RULE (no-star-in-metric-having)
            return refused
    calls: list[MeasureCall] = []
    for item in items:
        found = inside.find_calls(item, listed=True)
        if isinstance(found, Unsupported):
            return found
        calls += found
    if not (calls or grouped or any(_aggregates(item) for item in items)):  # RULE (metric-view-aggregated)
        return Unsupported(f"{what}: read it with MEASURE(…), other aggregate functions or GROUP BY")
    return tuple(calls)


def _has_pipe(node: ExpressionNode) -> bool:
    return node.node == "PipeExpression" or any(map(_has_pipe, node.children))


def _aggregates(node: ExpressionNode) -> bool:
    if node.node == "WindowExpression" or node.plans:
        return False
    if node.node == "UnresolvedFunction" and node.parts[-1].lower() in AGGREGATES:
        return True
    return any(_aggregates(child) for child in node.children)


class TextMeasures:
    """Finds the measures in expressions beside a metric view, or says why one cannot stand there."""

    def __init__(self, what: str, measures: Mapping[str, str], names: AbstractSet[str]) -> None:
        """`measures`: their names, by the same in lower case; `names`: what the view is called there."""
        self._what = what
        self._measures = measures
        self._names = names

    def find_calls(self, item: ExpressionNode, *, listed: bool) -> tuple[MeasureCall, ...] | Unsupported:
        """Return the calls in an item of the list, if `listed`; else in an expression of another clause."""
        direct = item.children[0] if item.node == "UnresolvedAlias" and item.children else None
        calls: list[MeasureCall] = []
        why = self._find_refusal(item, direct, calls, listed=listed)
        if why is not None:
            return why
        if calls and item.node == "UnresolvedAlias" and not calls[0].title:
            return Unsupported(
                f"{self._what}: give the expression around MEASURE({calls[0].measure}) an alias with AS"
            )
        return tuple(calls)

    def refuse_above(self, expression: ExpressionNode) -> Unsupported | None:
        """Refuse in HAVING and ORDER BY what Spark has no columns for there."""
        if "Star" in expression.node:
            return self._refuse_star()
        if is_measure(expression):
            return self._check_unlisted()
        return next(filter(None, map(self.refuse_above, expression.children)), None)

    def _refuse_star(self) -> Unsupported:
        return Unsupported(f"{self._what}: list its columns instead of `*`")

    def _check_unlisted(self) -> Unsupported:
        return Unsupported(f"{self._what}: use MEASURE(…) only in the select list")

    def measure(self, parts: Sequence[str]) -> str | None:
        """Return the measure that a reference means."""
        *qualifier, last = (part.lower() for part in parts or ("",))
        if qualifier and qualifier[-1] not in self._names:
            return None
        return self._measures.get(last)

    def reject_bare_measure(self, parts: Sequence[str]) -> Unsupported | None:
        """Refuse a reference to a measure where it is not read by MEASURE."""
        name = self.measure(parts)
        if name is None:
            return None
        return Unsupported(f"{self._what}: read its measure `{name}` with MEASURE({name})")

    def _find_refusal(
        self, node: ExpressionNode, direct: ExpressionNode | None, calls: list[MeasureCall], *, listed: bool
    ) -> Unsupported | None:
        if node.node in _GROUPINGS:
            return Unsupported(f"{self._what}, and Spark does not support measures with grouping sets")
        if "Star" in node.node:
            return self._refuse_star()
        if node.node == "UnresolvedAttribute":
            return self.reject_bare_measure(node.parts)
        if is_measure(node):
            return self._call(node, direct, calls, listed=listed)
        if node.node == "WindowExpression" and _measures_within(node):
            return Unsupported(f"{self._what}: MEASURE(…) cannot have a window")
        for child in node.children:
            if (why := self._find_refusal(child, direct, calls, listed=listed)) is not None:
                return why
        return None

    def _call(
        self, node: ExpressionNode, direct: ExpressionNode | None, calls: list[MeasureCall], *, listed: bool
    ) -> Unsupported | None:
        if not listed:
            return self._check_unlisted()
        if len(node.children) != 1 or node.mode or node.span is None:  # RULE (measure-filter-distinct)
            return Unsupported(f"{self._what}: MEASURE(…) takes one measure, without DISTINCT or FILTER")
        parts = node.children[0].parts if node.children[0].node == "UnresolvedAttribute" else ()
        name = self.measure(parts)
        if name is None:
            return None  # Spark says that there is no such column
        title = f"{MEASURE}({parts[-1]})" if node is direct else ""
        calls.append(MeasureCall(span=node.span, measure=name, title=title))
        return None


def is_measure(node: ExpressionNode) -> bool:
    """Whether an expression is a call of Spark's own `measure`."""
    return node.node == "UnresolvedFunction" and builtin_name(node.parts) == MEASURE


def _measures_within(node: ExpressionNode) -> bool:
    if is_measure(node):
        return True
    return any(map(_measures_within, node.children))


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedMeasures:
    """The measures of one view, as expressions over what stands for it."""

    expressions: Mapping[str, str]
    """Name of the measure → expression."""
    inputs: tuple[tuple[str, str], ...]
    """Columns beside the dimensions, with the columns of the source that they are."""


def inputs_within(depth: int) -> str:
    """Return what names of columns that measures are computed from begin with, `depth` views deep."""
    return INPUT + "_" * depth  # RULE (metric-input-names-by-depth)


def not_ones_own(depth: int = 0) -> Unsupported:
    return Unsupported(f"names that begin with `{inputs_within(depth)}` are reserved for the gateway")


def write_measures(
    table: Table,
    readings: Mapping[str, Reading],
    measures: Mapping[str, str],
    hidden: AbstractSet[str],
    depth: int,
) -> ComputedMeasures | Unsupported:
    """Write measures over the dimensions, and over columns of the source under names of their own.

    As Spark finds names in a measure: a dimension first, then a column of the source, which has no qualifier
    there. `readings`: what the parser says of each expression; `hidden`: names (lower case) of columns that
    are not there.
    """
    metrics = table.view.metrics if table.view is not None else None
    dimensions = {name.lower(): name for name, _ in metrics.dimensions} if metrics is not None else {}
    if any(column.name.lower().startswith(INPUT) for column in table.columns):
        return Unsupported(
            f"a column of the metric view {table.name} has a name that is reserved for the gateway"
        )
    inputs: dict[str, str] = {}
    written: dict[str, str] = {}
    for measure, text in measures.items():
        reading = readings[measure]
        why = _not_computed(reading)
        if why is not None:
            return Unsupported(f"the measure `{measure}` of {table.name} cannot be expanded: {why}")
        places: dict[Span, str] = {}
        for column in reading.columns:
            first, *rest = column.parts
            name = dimensions.get(first.lower())
            if name is not None and first.lower() in hidden:  # RULE (measure-of-hidden-dimension)
                return Unsupported(
                    f"the measure `{measure}` of {table.name} is computed from a hidden column"
                )
            if name is None:
                name = inputs.setdefault(first.lower(), f"{inputs_within(depth)}{len(inputs)}")
            if column.span is None:
                return Unsupported(f"the measure `{measure}` of {table.name} is not a literal name")
            places[column.span] = quote_parts((name, *rest))
        for span, name in sorted(places.items(), key=lambda one: one[0].start, reverse=True):
            text = text[: span.start] + name + text[span.end :]
        written[measure] = f"({text}\n)"
    return ComputedMeasures(
        expressions=written, inputs=tuple((name, quote(column)) for column, name in inputs.items())
    )


def _not_computed(reading: Reading) -> str | None:
    if reading.relations or reading.nodes:
        return "it has a subquery"
    if reading.parameters or reading.identities:
        return "it depends on the statement as a whole"
    if any(column.star for column in reading.columns):
        return "it has a star"
    called = {function.parts[-1].lower() for function in reading.functions}
    if MEASURE in called:
        return "it is computed from a measure"
    if called.isdisjoint(AGGREGATES):  # RULE (measure-aggregates)
        return "it has no aggregate function"
    if "LambdaFunction" in reading.expressions or "WindowExpression" in reading.expressions:
        return "it has a lambda function or a window"
    return None


def expand_metric_view(
    table: Table,
    view: TableView,
    calls: Sequence[MeasureCall],
    inputs: Sequence[tuple[str, str]],
    body: str,
    *,
    period: int,
    barrier: bool,
    bare: bool,
) -> str | Unsupported:
    """Write what stands for a metric view: its dimensions, masked, and the columns that its measures are
    computed from, over the rows that its own filter leaves. `body`: the guarded query of both."""
    hidden = {name.lower() for name in list_hidden_columns(table, view)}
    metrics = table.view.metrics if table.view is not None else None
    measures = {name.lower() for name, _ in metrics.measures} if metrics is not None else set()
    dimensions = [column for column in table.columns if column.name.lower() not in measures]
    masks = masks_of(view)
    for call in calls:
        if call.measure in masks:  # RULE (mask-on-measure)
            return Unsupported(
                f"the measure `{call.measure}` of the metric view {table.name} has a mask, which cannot be "
                "applied before the measure is computed; mask the columns that it is computed from"
            )
    kept = {name: mask for name, mask in masks.items() if name.lower() not in measures}
    texts = [mask.expression for mask in kept.values()]
    texts += [view.row_filter.expression] if view.row_filter is not None else []
    if any(INPUT in text for text in texts):
        return not_ones_own()
    if named := [name for name in sorted(measures) if any(_has_word(text, name) for text in texts)]:
        return Unsupported(
            f"a mask or filter of the metric view {table.name} refers to `{named[0]}`, which may be a "
            "measure and does not exist before it is computed"
        )
    columns = ", ".join([_cast(column) for column in dimensions] + [quote(name) for name, _ in inputs])
    alias = quote(table.name.table)
    source = f"(SELECT {columns} FROM ({body}\n) AS {alias}) AS {alias}"
    given = [Column(name=name, type="") for name, _ in inputs]
    return write_guarded_query(
        replace(table, columns=(*dimensions, *given), view=None),
        visible=[c.name for c in (*dimensions, *given) if c.name.lower() not in hidden],
        masks=kept,
        row_filter=view.row_filter,
        source=source,
        period=period,
        barrier=barrier,
        bare=bare,
    )


def _has_word(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None


def _cast(column: Column) -> str:
    name = quote(column.name)
    if column.type.lower().startswith(("char", "varchar")):
        return name
    return f"CAST({name} AS {column.type}) AS {name}"


def measure_splices(calls: Sequence[MeasureCall], expressions: Mapping[str, str]) -> tuple[Splice, ...]:
    """Write the measures over their calls."""
    found = []
    for call in calls:
        written = expressions[call.measure]
        if call.title:
            written = f"{written} AS {quote(call.title)}"
        found.append(Splice(span=call.span, text=written, kind="measure", query=written, alias=call.title))
    return tuple(found)
