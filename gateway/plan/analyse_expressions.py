"""What the expressions of a plan read: columns passed on as they are, and columns computed with.

No recursion per operator: a filter of 10,000 conditions is walked like one of two. Only subqueries recurse.
A repeated field is taken as a list (`[:]`): protobuf goes through one five times as slowly, item by item.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gateway.plan import analyse_texts
from gateway.plan.analyse_scope import ColumnPlace, ColumnUsage, Node, PlanColumn, show_column
from gateway.plan.analyse_texts import TextUse
from gateway.plan.identifiers import attribute_parts
from gateway.plan.lineage_generators import GENERATORS
from gateway.sql.analyse_scope import NO_ORIGINS, Origins, Parts, Unclear
from gateway.sql.identity import IDENTITIES
from gateway.wire.connect import Message, pb

EXISTS = 2
"""`SubqueryType` of EXISTS: it looks at rows only."""

# Where the cases of `Expression` have expressions; a case that is in no table silences column analysis.
_ONE: Mapping[str, tuple[str, ...]] = {
    "alias": ("expr",),
    "cast": ("expr",),
    "sort_order": ("child",),
    "direct_shuffle_partition_id": ("child",),
    "lambda_function": ("function",),
    "unresolved_extract_value": ("child", "extraction"),
    "update_fields": ("struct_expression", "value_expression"),
    "named_argument_expression": ("value",),
}
_MANY: Mapping[str, tuple[str, ...]] = {
    "call_function": ("arguments",),
    "common_inline_user_defined_function": ("arguments",),
}
_LEAVES = frozenset({"literal", "unresolved_named_lambda_variable"})
_WITH_PLAN_ID = (pb.Expression.UnresolvedAttribute, pb.Expression.UnresolvedRegex)
"""Words that can be of a relation by its id; texts of SQL are not."""
_SAFE_REGEX = re.compile(r"[A-Za-z0-9_ ^$.|*+?\[\]-]{1,200}")
_QUANTIFIERS = re.compile(r"[*+?]")


def parts_of(text: str) -> Parts:
    """Return the parts of an attribute's name, lower case; raise Unclear when Spark would not read them."""
    if "." not in text and "`" not in text:
        return (text.lower(),)
    parts = attribute_parts(text)
    if not parts:
        raise Unclear("a column name cannot be parsed")
    return tuple([part.lower() for part in parts])


def pattern_of(text: str) -> re.Pattern[str]:
    """Return the pattern of columns' names. Java's expressions are read if they mean the same in Python and
    cannot take long; raise Unclear for others."""
    if text.startswith("`") and text.endswith("`") and len(text) > 2:
        text = text[1:-1]
    if _SAFE_REGEX.fullmatch(text) and len(_QUANTIFIERS.findall(text)) <= 3:
        with contextlib.suppress(re.error):
            return re.compile(text, re.IGNORECASE)
    raise Unclear("a pattern of columns")


@dataclass(slots=True)
class Expressions:
    """The expressions of one plan; what they read is noted in `findings`."""

    findings: ColumnUsage
    texts: Mapping[int, TextUse]
    """By the identity of the `ExpressionString`."""
    by_plan_id: Callable[[int], list[Node]]
    """The relations that carry a plan_id."""
    subquery: Callable[[int, ColumnPlace], Node]
    """Walk the relation of a plan_id as a query within the place."""

    def project(
        self, expressions: Sequence[pb.Expression], place: ColumnPlace
    ) -> tuple[list[PlanColumn], bool]:
        """Note what a projection reads; return its columns and whether they are all that there are."""
        columns: list[PlanColumn] = []
        complete = True
        if self.findings.asked:
            self._note(expressions, place)
        for expression in expressions[:]:
            case = expression.WhichOneof("expr_type")
            names: tuple[str, ...] | None = None
            if case == "alias":
                alias = expression.alias
                names = tuple([name.lower() for name in alias.name[:]])
                expression = alias.expr
                case = expression.WhichOneof("expr_type")
            made, known = self._item(expression, case, place, bool(names))
            complete = complete and known
            if names is None:
                columns += made
                if case == "expression_string":  # which may say AS
                    for column in made:
                        place.written.setdefault(column.name or "", column.origins)
                continue
            if len(names) != 1 or len(made) != 1:
                made = [PlanColumn(None, (), NO_ORIGINS)]
            named = [PlanColumn(name, (), made[0].origins) for name in names]
            for column in named:
                place.written[column.name or ""] = (
                    place.written.get(column.name or "", NO_ORIGINS) | column.origins
                )
            columns += named
        self.findings.count(len(columns))
        return columns, complete

    def _item(
        self, expression: pb.Expression, case: str | None, place: ColumnPlace, aliased: bool
    ) -> tuple[list[PlanColumn], bool]:
        """Note what one item of a projection reads, and return its columns."""
        if case == "unresolved_attribute":
            return [self.plain(expression.unresolved_attribute, place)], True
        if case == "unresolved_star":
            found, complete = self._star(expression.unresolved_star, place)
            self.findings.show(found)
            return [show_column(column) for column in found], complete
        if case == "unresolved_regex":
            found = self._regex(expression.unresolved_regex, place)
            self.findings.show(found)
            return [show_column(column) for column in found], True
        if case == "expression_string":
            return self._text_items(expression.expression_string, place)
        self.compute((expression,), place)
        if case == "cast" and expression.cast.expr.WhichOneof("expr_type") == "unresolved_attribute":
            name = parts_of(expression.cast.expr.unresolved_attribute.unparsed_identifier)[-1]
            return [PlanColumn(name, (), NO_ORIGINS)], True
        known = True
        if not aliased:
            known = case != "call_function" and not (
                case == "unresolved_function"
                and expression.unresolved_function.function_name.lower() in GENERATORS
            )
        return [PlanColumn(None, (), NO_ORIGINS)], known

    def plain(self, attribute: pb.Expression.UnresolvedAttribute, place: ColumnPlace) -> PlanColumn:
        """Note a column that is passed on by its name."""
        parts = parts_of(attribute.unparsed_identifier)
        origins = self._origins(attribute, parts, place)
        self.findings.mark(origins, plain=True)
        qualifier: Parts = ()
        for column in place.node.find_columns(parts[-1]):
            qualifier = column.qualifier
        return PlanColumn(parts[-1], qualifier, origins)

    def _note(self, expressions: Sequence[pb.Expression], place: ColumnPlace) -> None:
        """Note where the messages stand that matter, whatever becomes of the others."""
        pending = list(expressions[:])
        while pending:
            message = pending.pop()
            if id(message) in self.findings.asked:
                self.findings.note(message, *self._places(message, place))
            for field, value in message.ListFields():
                if field.message_type is not None:
                    pending += value[:] if field.is_repeated else [value]

    def _places(self, message: Message, place: ColumnPlace) -> list[ColumnPlace]:
        if not isinstance(message, _WITH_PLAN_ID) or not message.HasField("plan_id"):
            return [place]
        with contextlib.suppress(Unclear):
            return [ColumnPlace(node) for node in self.by_plan_id(message.plan_id)]
        return []

    def _origins(
        self, attribute: pb.Expression.UnresolvedAttribute, parts: Parts, place: ColumnPlace
    ) -> Origins:
        if not attribute.HasField("plan_id"):
            resolved = place.resolve(parts)
            if (word := place.looks_for(parts)) is not None:
                self.findings.words.add(word)
            return resolved
        found: Origins | None = None
        for node in self.by_plan_id(attribute.plan_id):
            origins = node.find(parts)
            if origins is not None:
                found = origins if found is None else found | origins
            elif node.open:
                found = found or NO_ORIGINS
        if found is None:
            raise Unclear(f"`{'.'.join(parts)}` is not in the relation that it refers to")
        return found

    def compute(self, expressions: Sequence[pb.Expression], place: ColumnPlace) -> None:
        """Note what expressions read: everything in them counts as computed with."""
        stack = list(expressions[:])
        findings = self.findings
        if findings.asked:
            self._note(expressions, place)
        names = place.node.names
        while stack:
            expression = stack.pop()
            findings.looked_at += 1
            case = expression.WhichOneof("expr_type") or ""
            if case == "unresolved_attribute":
                attribute = expression.unresolved_attribute
                text = attribute.unparsed_identifier
                alone = names.get(text.lower(), ()) if not attribute.HasField("plan_id") else ()
                if len(alone) == 1 and "`" not in text and "." not in text:
                    findings.mark(alone[0].origins, plain=False)  # as nearly all are
                else:
                    findings.mark(self._origins(attribute, parts_of(text), place), plain=False)
            elif case in _LEAVES:
                continue
            elif case == "unresolved_function":
                function = expression.unresolved_function
                if not _counts_rows(function):
                    stack += function.arguments[:]
            elif case in _ONE:
                message = getattr(expression, case)
                stack += [getattr(message, name) for name in _ONE[case] if message.HasField(name)]
            elif case in _MANY:
                message = getattr(expression, case)
                for name in _MANY[case]:
                    stack += getattr(message, name)[:]
            elif case == "window":
                self._window(expression.window, stack)
            elif case == "expression_string":
                columns, _ = self._text_items(expression.expression_string, place)
                findings.compute(columns)
            elif case == "unresolved_star":
                found, _ = self._star(expression.unresolved_star, place)
                findings.show(found)
                findings.compute(found)
            elif case == "unresolved_regex":
                found = self._regex(expression.unresolved_regex, place)
                findings.show(found)
                findings.compute(found)
            elif case == "subquery_expression":
                self._subquery(expression.subquery_expression, place, stack)
            elif case == "typed_aggregate_expression":
                findings.use_all(place.node)
            else:
                raise Unclear(f"column analysis does not understand {case or 'an empty expression'}")

    def order(self, orders: Sequence[pb.Expression.SortOrder], place: ColumnPlace) -> None:
        """Note what `SortOrder`s read. A number may mean a column of that position: then all are."""
        children = [order.child for order in orders[:]]
        if any(child.WhichOneof("expr_type") == "literal" for child in children):
            self.findings.use_all(place.node)
        self.compute(children, place)

    def _window(self, window: pb.Expression.Window, stack: list[pb.Expression]) -> None:
        stack.append(window.window_function)
        stack += window.partition_spec[:]
        stack += [order.child for order in window.order_spec[:]]
        bounds = (window.frame_spec.lower, window.frame_spec.upper)
        stack.extend(bound.value for bound in bounds if bound.HasField("value"))

    def _subquery(
        self, subquery: pb.SubqueryExpression, place: ColumnPlace, stack: list[pb.Expression]
    ) -> None:
        stack += subquery.in_subquery_values[:]
        node = self.subquery(subquery.plan_id, place)
        if subquery.subquery_type == EXISTS:
            self.findings.compute(column for column in node.columns if not column.tables)
        else:
            self.findings.use_all(node)
        if subquery.HasField("table_arg_options"):
            options = subquery.table_arg_options
            inner = ColumnPlace(node, place)
            self.compute(options.partition_spec, inner)
            self.order(options.order_spec, inner)

    def _star(self, star: pb.Expression.UnresolvedStar, place: ColumnPlace) -> tuple[list[PlanColumn], bool]:
        if star.HasField("plan_id"):
            node = self._only(star.plan_id)
            return node.columns, node.complete
        target = star.unparsed_target
        if not target:
            return place.node.columns, place.node.complete
        return place.node.select(parts_of(target.removesuffix(".*")))

    def _only(self, plan_id: int) -> Node:
        nodes = self.by_plan_id(plan_id)
        if len(nodes) != 1:
            raise Unclear("a star refers to a relation id that is not unique")
        return nodes[0]

    def _regex(self, regex: pb.Expression.UnresolvedRegex, place: ColumnPlace) -> list[PlanColumn]:
        """Return the columns whose names match."""
        node = self._only(regex.plan_id) if regex.HasField("plan_id") else place.node
        pattern = pattern_of(regex.col_name)
        if node.open:
            raise Unclear("a pattern of columns")
        found = [c for c in node.columns if c.name is not None and pattern.fullmatch(c.name)]
        if pattern.pattern.isidentifier():
            return [show_column(column) for column in found]  # a name
        self.findings.note_meant(node)  # RULE (column-pattern-expression)
        return found

    def _text_items(
        self, message: pb.Expression.ExpressionString, place: ColumnPlace
    ) -> tuple[list[PlanColumn], bool]:
        """Note what an expression written as SQL reads; return the columns that it makes."""
        text = message.expression
        if (qualifier := analyse_texts.star(text)) is not None:
            found, complete = place.node.select(qualifier)
            self.findings.show(found)
            return [show_column(column) for column in found], complete
        name = analyse_texts.plain_name(text)
        if name is not None and (origins := place.node.find(name)) is not None:
            self.findings.mark(origins, plain=True)
            return [PlanColumn(name[-1], (), origins)], True
        if name is not None and len(name) == 1 and name[0] in IDENTITIES and place.is_function(name[0]):
            return [PlanColumn("current_user()", (), NO_ORIGINS)], True
        use = self.texts.get(id(message))
        if use is None:
            raise Unclear("an expression text was not parsed")
        try:
            output = analyse_texts.expression(text, use, place, self.findings)
        except Unclear as unclear:
            if not self.findings.asked:
                raise
            self.findings.unclear = unclear  # told at the end: where the others stand still matters
            return [PlanColumn(None, (), NO_ORIGINS)], False
        return [PlanColumn(column.name, (), column.origins) for column in output.columns], output.complete


def _counts_rows(function: pb.Expression.UnresolvedFunction) -> bool:
    """Whether a function is `count(*)`, which reads no column."""
    if function.function_name.lower() != "count" or len(function.arguments) != 1 or function.is_distinct:
        return False
    argument = function.arguments[0]
    return argument.WhichOneof("expr_type") == "unresolved_star" and not argument.unresolved_star.HasField(
        "unparsed_target"
    )
