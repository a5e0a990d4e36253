"""The walk within the expressions of a plan: which columns make a value, in which way, what decided on it.

As `sql/lineage_expressions.py` does it for SQL. Operators take no recursion: a condition may be as long as a
plan. Subqueries do; how deeply they nest is bounded.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.algebra.lineage_values import (
    AGGREGATED,
    CHOOSING,
    NO_DEPENDENCIES,
    TRANSFORMED,
    WINDOWED,
    ConditionPart,
    OperandUse,
    RelationRows,
    RowCondition,
    Value,
    add_conjunct,
    merge_values,
)
from gateway.algebra.lineage_words import MAX_EXPRESSION
from gateway.algebra.usage import Parts, Unclear
from gateway.model.lineage import Clause
from gateway.plan.lineage_generators import generate_columns
from gateway.plan.lineage_names import column_name
from gateway.plan.lineage_structs import find_struct_field, infer_type, list_built_fields, parts_of
from gateway.plan.lowering_expressions import pattern_of
from gateway.plan.rendering import render
from gateway.sql.functions import AGGREGATES, GENERATORS
from gateway.sql.lineage_extraction import Bound, Extraction
from gateway.sql.lineage_references import References, note_grouping
from gateway.sql.lineage_scope import (
    Attribute,
    Environment,
    Frame,
    LineageRelation,
    Open,
    Sum,
)
from gateway.sql.lineage_sources import LineageText
from gateway.wire.connect import Message, pb

_COMPARISONS = frozenset({"==", "=", "!=", "<>", "<", "<=", ">", ">="})
EXISTS = 2
"""`SubqueryType` of EXISTS: it looks at rows only."""
_GROUPED_PYTHON = frozenset({202, 252, 256})
"""Kinds of Python functions that aggregate: over pandas, and over Arrow."""
_METADATA = "_metadata"
"""What Spark knows of the files that rows came from."""


@dataclass(frozen=True, slots=True, eq=False)
class PlanFragment:
    """Part of a plan, to be written out much as one writes it in PySpark, if it is asked for."""

    message: Message

    def __str__(self) -> str:
        shown = render(self.message)
        return shown if len(shown) <= MAX_EXPRESSION else shown[:MAX_EXPRESSION] + "…"


TextsById = Mapping[int, tuple[LineageText | None, frozenset[str]]]
"""SQL within a plan by the identity of the message that has it, None where Spark's parser does not read it;
and the names in it that stand for relations of the plan."""


class PlanLineageExpressions(References):
    """What a walk over one plan does with expressions; `lineage_walk.py` does the relations around them."""

    def __init__(self, extraction: Extraction, texts: TextsById) -> None:
        super().__init__()
        self.extraction = extraction
        self.texts = texts

    @abstractmethod
    def bind_names(self, names: Iterable[str]) -> Bound:
        """Return what names mean that SQL within the plan has for relations of the plan."""

    @abstractmethod
    def by_plan_id(self, plan_id: int) -> Sequence[Frame]:
        """Return the relations of an id, those that are most likely meant first."""

    @abstractmethod
    def subquery(self, plan_id: int, place: Environment) -> Frame:
        """Walk the relation that an expression refers to as a query within the place."""

    def spend(self, work: int) -> None:
        self.extraction.budget.spend(work)

    def open_column(self, unknown: Open, name: str) -> Value:
        return self.extraction.sources.column(unknown, name)

    # ---------------------------------------------------------------- references

    def column(self, message: pb.Expression.UnresolvedAttribute, place: Environment) -> Attribute:
        """Return the column that a reference means; raise Unclear when there is none."""
        parts = parts_of(message.unparsed_identifier)
        if message.HasField("plan_id"):
            found = self._of_plan(message.plan_id, parts, place)
            if found is not None:
                return found
        if parts[0] == _METADATA and not place.find_columns(parts)[0]:
            return Attribute(parts[-1], Value(NO_DEPENDENCIES))
        return self.reference(parts, place)

    def resolve_name(self, name: str, frame: Frame) -> Attribute:
        """Return the column that a string means outside of expressions: a name as it is, or a reference."""
        found = [a for a in frame.find_by_name(name.lower()) if not a.hidden]
        if found:
            return self._one(found, (name.lower(),), 1)
        return self.reference(parts_of(name), Environment(frame))

    def _of_plan(self, plan_id: int, parts: Parts, place: Environment) -> Attribute | None:
        """Return a column of the relation of an id: the one that is still there, of several."""
        first: Attribute | None = None
        for frame in self.by_plan_id(plan_id):
            columns, length = frame.find(parts)
            for column in columns:
                here = _still_there(column, place)
                if here is not None:
                    return self._one([here], parts, length)
            if first is None:
                first = self._find_known(parts, Environment(frame)) or self._guess(parts, Environment(frame))
        return first

    # ---------------------------------------------------------------- columns

    def project(self, items: Sequence[pb.Expression], place: Environment) -> LineageRelation:
        """Walk a list of columns; a later item may use the alias of an earlier one."""
        attributes: list[Attribute] = []
        opens: list[Open] = []
        place = replace(place, outputs={})
        for item in items[:]:
            names: list[str] = []
            while item.WhichOneof("expr_type") == "alias":
                names = names or [name.lower() for name in item.alias.name[:]]
                item = item.alias.expr
            made = self.item(item, place, aliased=bool(names))
            if not names:
                attributes += [replace(a, hidden=False) if a.hidden else a for a in made.attributes]
                opens += made.opens
                continue
            values = [a.value for a in made.attributes]
            if len(values) != len(names) or made.opens:
                values = [merge_values(values)] * len(names)
            for name, value in zip(names, values, strict=True):
                attribute = Attribute(name, value)
                place.outputs.setdefault(name, attribute)
                attributes.append(attribute)
        self.spend(len(attributes))
        return LineageRelation(attributes, RelationRows(), opens)

    def item(self, item: pb.Expression, place: Environment, *, aliased: bool = False) -> LineageRelation:
        """Return the columns that one item of a projection makes; most make one."""
        match item.WhichOneof("expr_type"):
            case "unresolved_attribute":
                return LineageRelation([self.column(item.unresolved_attribute, place)], RelationRows())
            case "unresolved_star":
                attributes, opens = self.star(item.unresolved_star, place)
                return LineageRelation(attributes, RelationRows(), opens)
            case "unresolved_regex":
                return LineageRelation(
                    self._find_matching_columns(item.unresolved_regex, place), RelationRows()
                )
            case "expression_string":
                text, bound = self.text(item.expression_string)
                return self.extraction.items(text, place, bound)
            case "unresolved_function" if item.unresolved_function.function_name.lower() in GENERATORS:
                function = item.unresolved_function
                types = [self.type_of(argument, place) for argument in function.arguments[:]]
                return generate_columns(function, self.value(item, place), types)
        name = None if aliased else self.name_of(item, place)
        value = self.value(item, place)
        if (fields := self._build_fields(item, place)) is not None:
            value = replace(value, type=self.type_of(item, place), fields=fields)
        return LineageRelation([Attribute(name, value)], RelationRows())

    def _build_fields(self, item: pb.Expression, place: Environment) -> dict[str, Value] | None:
        """Return the values of the fields of a struct that a function makes; None for anything else."""
        found: dict[str, Value] = {}
        for name, of in list_built_fields(item).items():
            while of.WhichOneof("expr_type") == "alias":
                of = of.alias.expr
            value = self.value(of, place)
            found[name] = replace(value, fields=self._build_fields(of, place) or value.fields)
        return found or None

    def name_of(self, item: pb.Expression, place: Environment) -> str | None:
        """Return what Spark calls an expression without an alias, None where that is not known."""
        return column_name(item, lambda message: self._resolve_shown(message, place))

    def _resolve_shown(
        self, message: pb.Expression.UnresolvedAttribute, place: Environment
    ) -> tuple[str | None, str]:
        """Return how Spark shows a reference within an expression, and the type of what it means."""
        column = self.column(message, place)
        found, shown = self.resolve_shown(parts_of(message.unparsed_identifier), place)
        # RULE (plan-field-name)
        return ".".join(shown) if found is not None else column.name, column.value.type

    def type_of(self, item: pb.Expression, place: Environment) -> str:
        """Return the type of an expression in DDL; empty where it is not known."""
        return infer_type(item, lambda message: self.column(message, place).value.type)

    def star(
        self, star: pb.Expression.UnresolvedStar, place: Environment
    ) -> tuple[list[Attribute], list[Open]]:
        """Return what a star shows: all, those of one relation, or the fields of a struct."""
        if star.HasField("plan_id"):
            for frame in self.by_plan_id(star.plan_id):
                shown = [here for a in frame.shown if (here := _still_there(a, place)) is not None]
                if len(shown) == len(frame.shown):
                    return shown, frame.opens
            raise Unclear("a star refers to a relation that is not in the plan")
        target = star.unparsed_target
        return self.expand_star(parts_of(target.removesuffix(".*")) if target else (), place)

    def _find_matching_columns(
        self, regex: pb.Expression.UnresolvedRegex, place: Environment
    ) -> list[Attribute]:
        """Return the columns whose names match."""
        frame, text = place.frame, regex.col_name
        if regex.HasField("plan_id"):
            frame = next(iter(self.by_plan_id(regex.plan_id)), frame)
        written = pattern_of(text)
        if frame.opens or written is None:
            raise Unclear("a pattern of columns")
        pattern = re.compile(written, re.IGNORECASE)
        return [a for a in frame.shown if a.name is not None and pattern.fullmatch(a.name)]

    def text(self, message: Message) -> tuple[LineageText, Bound]:
        """Return the SQL that a message has, and what names of the plan's mean in it."""
        text, names = self.texts.get(id(message), (None, frozenset()))
        if text is None:
            raise Unclear("SQL in the plan that Spark's parser rejects")
        return text, self.bind_names(names)

    # ---------------------------------------------------------------- values

    def value(self, root: pb.Expression, place: Environment) -> Value:
        """Return the value of an expression; a column by itself is passed on as it is."""
        while root.WhichOneof("expr_type") == "alias":
            root = root.alias.expr
        if root.WhichOneof("expr_type") == "unresolved_attribute":
            return self.column(root.unresolved_attribute, place).value
        found = Sum()
        self._into(root, TRANSFORMED, place, found)
        value = found.value(PlanFragment(root))
        type_ = self.type_of(root, place)
        return replace(value, type=type_) if type_ else value

    def operands(self, roots: Sequence[pb.Expression], place: Environment) -> Value:
        """Return several expressions as one value."""
        found = Sum()
        for root in roots[:]:
            self._into(root, TRANSFORMED, place, found)
        return found.value()

    def order(self, orders: Sequence[pb.Expression.SortOrder], place: Environment) -> Value:
        """Return what is ordered by; a number is a column of that position."""
        values = []
        for item in orders[:]:
            literal = item.child.literal if item.child.HasField("literal") else None
            if literal is not None and literal.HasField("integer"):
                values += [a.value for a in place.frame.shown[literal.integer - 1 : literal.integer]]
            else:
                values.append(self.value(item.child, place))
        return merge_values(values)

    def _into(self, root: pb.Expression, way: OperandUse, place: Environment, found: Sum) -> None:
        stack: list[tuple[pb.Expression, OperandUse, bool]] = [(root, way, False)]
        work = 0
        while stack:
            expression, way, windowed = stack.pop()
            work += 1
            case = expression.WhichOneof("expr_type") or ""
            match case:
                case "literal" | "unresolved_named_lambda_variable":
                    continue  # what is in a lambda's argument comes with the array that it is called on
                case "unresolved_attribute":
                    work += found.add(self.column(expression.unresolved_attribute, place).value, way)
                case "unresolved_star" | "unresolved_regex" | "expression_string":
                    for attribute in self.item(expression, place).attributes:
                        work += found.add(attribute.value, way)
                case "unresolved_function" | "call_function":
                    call = getattr(expression, case)
                    stack += self._call(call, way, place, found, windowed=windowed)
                case "common_inline_user_defined_function":
                    code = expression.common_inline_user_defined_function
                    if _aggregates(code):
                        way = AGGREGATED if way.direct else way
                        if not windowed:
                            note_grouping(place, found)
                    stack += [(argument, way, False) for argument in reversed(code.arguments[:])]
                case "window":
                    self._window(expression.window, way, place, found)
                    stack.append((expression.window.window_function, way, True))
                case "subquery_expression":
                    self._subquery(expression.subquery_expression, way, place, found)
                case "typed_aggregate_expression":
                    for attribute in place.frame.shown:
                        work += found.add(attribute.value, AGGREGATED if way.direct else way)
                    note_grouping(place, found)
                case "unresolved_extract_value" if (built := find_struct_field(expression)) is not None:
                    stack.append((built, way, windowed))
                case _:
                    stack += [(child, way, windowed) for child in reversed(_operands(expression, case))]
        self.spend(work)

    def _call(
        self,
        call: pb.Expression.UnresolvedFunction | pb.CallFunction,
        way: OperandUse,
        place: Environment,
        found: Sum,
        *,
        windowed: bool,
    ) -> list[tuple[pb.Expression, OperandUse, bool]]:
        """Take in a call; return its arguments, the last first, with the ways in which they take part."""
        name = call.function_name.rpartition(".")[2].strip("`").lower()
        items = call.arguments[:]
        if name in ("grouping", "grouping_id"):
            # It says by which of the groupings a row is, whatever is in the columns.
            note_grouping(place, found)
            return []
        if name not in AGGREGATES:
            chooses = CHOOSING if way.direct else way
            ways = [chooses if choosing else way for choosing in _find_choosing_arguments(name, len(items))]
            return [(item, as_, windowed) for item, as_ in zip(reversed(items), reversed(ways), strict=True)]
        if not windowed:
            note_grouping(place, found)
        if name == "count" and len(items) == 1 and items[0].HasField("unresolved_star"):
            return []
        way = AGGREGATED if way.direct else way
        return [(item, way, False) for item in reversed(items)]

    def _window(self, window: pb.Expression.Window, way: OperandUse, place: Environment, found: Sum) -> None:
        """Take in what a window is partitioned and ordered by."""
        orders = [item.child for item in window.order_spec[:]]
        value = self.operands([*window.partition_spec[:], *orders], place)
        found.add(value, WINDOWED if way.direct else way)
        if value.dependencies:
            # INVARIANT (bearing): rows that decide on one value only hang on the value, not on its query.
            part = ConditionPart(window, value.dependencies, by_row=False)
            rows = RelationRows([RowCondition(Clause.WINDOW, PlanFragment(window), [part])], list(value.rows))
            found.add_deciding_rows((rows,))

    def _subquery(
        self, query: pb.SubqueryExpression, way: OperandUse, place: Environment, found: Sum
    ) -> None:
        for item in query.in_subquery_values[:]:
            self._into(item, way, place, found)
        frame = self.subquery(query.plan_id, place)
        found.add_deciding_rows((frame.rows,))
        if query.subquery_type != EXISTS:
            for attribute in frame.shown:
                found.add(attribute.value, way)

    # ---------------------------------------------------------------- conditions

    def decide(
        self,
        rows: RelationRows,
        clause: Clause,
        root: pb.Expression,
        place: Environment,
        *,
        rejects: Callable[[Attribute], bool] | None = None,
    ) -> RowCondition:
        """Lay a condition on rows.

        `rejects`: of an outer join, the columns whose NULLs it keeps out; None: of all that it compares.
        """
        condition = RowCondition(clause, PlanFragment(root))
        for conjunct in _conjuncts(root):
            if conjunct.WhichOneof("expr_type") == "expression_string":
                text, bound = self.text(conjunct.expression_string)
                inner = self.extraction.condition(text, rows, clause, place, bound, rejects)
                rows.conditions.remove(inner)
                condition.parts += inner.parts
                continue
            value = self.operands((conjunct,), place)
            keys = [
                key
                for column in self._find_compared_columns(conjunct, place)
                if rejects is None or rejects(column)
                for key in column.value.dependencies
            ]
            add_conjunct(condition, rows, PlanFragment(conjunct), value, keys)
        rows.conditions.append(condition)
        return condition

    def _find_compared_columns(self, conjunct: pb.Expression, place: Environment) -> Iterator[Attribute]:
        """Yield the columns that a comparison compares by themselves."""
        function = conjunct.unresolved_function
        if function.function_name in _COMPARISONS:
            for side in function.arguments[:]:
                if side.WhichOneof("expr_type") == "unresolved_attribute":
                    yield self.column(side.unresolved_attribute, place)


def _still_there(column: Attribute, place: Environment) -> Attribute | None:
    """Return a column of a relation further down where it is in scope unchanged; each has its own value."""
    around: Environment | None = place
    while around is not None:
        for mine in (
            around.frame.find_by_name(column.name) if column.name is not None else around.frame.attributes
        ):
            if mine.value is column.value:
                return mine
        around = around.parent
    return None


def _aggregates(code: pb.CommonInlineUserDefinedFunction) -> bool:
    return code.python_udf.eval_type in _GROUPED_PYTHON or code.scalar_scala_udf.aggregate


def _find_choosing_arguments(name: str, count: int) -> list[bool]:
    """Return for each argument of a function whether it chooses between the others."""
    match name:
        case "when":
            return [i % 2 == 0 and i < count - 1 for i in range(count)]
        case "if" | "nvl2":
            return [i == 0 for i in range(count)]
        case "decode" if count > 2:
            return [not (i and (i % 2 == 0 or i == count - 1)) for i in range(count)]
    return [False] * count


def _operands(expression: pb.Expression, case: str) -> list[pb.Expression]:
    match case:
        case "alias":
            return [expression.alias.expr]
        case "cast":
            return [expression.cast.expr]
        case "sort_order":
            return [expression.sort_order.child]
        case "direct_shuffle_partition_id":
            return [expression.direct_shuffle_partition_id.child]
        case "lambda_function":
            return [expression.lambda_function.function]
        case "unresolved_extract_value":
            extract = expression.unresolved_extract_value
            return [extract.child, extract.extraction]
        case "update_fields":
            update = expression.update_fields
            value = [update.value_expression] if update.HasField("value_expression") else []
            return [update.struct_expression, *value]
        case "named_argument_expression":
            return [expression.named_argument_expression.value]
    raise Unclear(f"column analysis does not understand {case or 'an empty expression'}")


def _conjuncts(root: pb.Expression) -> list[pb.Expression]:
    """Return what AND joins, in order."""
    found: list[pb.Expression] = []
    stack = [root]
    while stack:
        each = stack.pop()
        function = each.unresolved_function if each.HasField("unresolved_function") else None
        if function is not None and function.function_name.lower() == "and" and len(function.arguments) == 2:
            stack += [function.arguments[1], function.arguments[0]]
        else:
            found.append(each)
    return found
