"""The walk within expressions: which columns make a value, in which way, and what decided on it.

Operators take no recursion: `a + b + …` may be as long as a statement. Subqueries and lambdas do; brackets
are counted before anything is parsed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from gateway.algebra.usage import Parts, Unclear
from gateway.model.lineage import Clause
from gateway.sql.analyse_tree import (
    LEAVES,
    NOT_UNDERSTOOD,
    bare_in,
    bare_name,
    fold_identifier,
    is_star_query,
    names_of,
    parts_of,
    qualifier_of,
    reject_unread_parts,
    star_of,
    without_list,
)
from gateway.sql.functions import AGGREGATES
from gateway.sql.lineage_references import References, add_conjunct, note_grouping
from gateway.sql.lineage_scope import (
    AGGREGATED,
    CHOOSING,
    TRANSFORMED,
    WINDOWED,
    Attribute,
    ConditionPart,
    Environment,
    Frame,
    LineageRelation,
    Open,
    OperandUse,
    RelationRows,
    RowCondition,
    Sum,
    Value,
)
from gateway.sql.lineage_text import Text

Ctes = dict[str, LineageRelation]

MAX_EXPRESSION = 2_000
"""Characters of an expression or a condition that are kept."""
MAX_TREE = 200
"""Levels of operators up to which an expression is written out: compiled sqlglot knows no recursion limit."""

_NOAGGREGATES = tuple(
    kind
    for name in (
        "Lag",
        "Lead",
        "NthValue",
        "RowNumber",
        "Rank",
        "DenseRank",
        "PercentRank",
        "CumeDist",
        "Ntile",
    )
    if (kind := getattr(exp, name, None)) is not None
)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


@dataclass(frozen=True, slots=True, eq=False)
class SqlFragment:
    """An expression as the statement has it, to be written out if it is asked for."""

    node: exp.Expr
    text: Text
    keyword: str = ""
    """What stands before it, or all that there is to say."""

    def __str__(self) -> str:
        if self.keyword and isinstance(self.node, exp.Query):
            return self.keyword
        if _deep(self.node):
            return "…"
        try:
            shown = self.text.user_words(self.node.sql(dialect="spark", comments=False))
        except Exception:  # noqa: BLE001 - a text for people; what it says of columns is known without it
            return "…"
        shown = f"{self.keyword} {shown}".strip()
        return shown if len(shown) <= MAX_EXPRESSION else shown[:MAX_EXPRESSION] + "…"


def _deep(node: exp.Expr) -> bool:
    level, count = [node], 0
    while level:
        count += 1
        if count > MAX_TREE and not all(isinstance(each, (exp.And, exp.Or)) for each in level[:1]):
            return True
        level = [child for each in level for child in each.iter_expressions()]
    return False


class SqlLineageExpressions(References):
    """What a walk over one text does with expressions; `lineage_walk.py` does the queries around them."""

    def __init__(self, text: Text, columns: Iterable[Parts]) -> None:
        super().__init__()
        self.text = text
        self._bare = bare_in(columns)
        """Names that the text has without brackets, and that may be columns or functions."""

    @abstractmethod
    def query(self, node: exp.Expr, outer: Environment | None, ctes: Ctes) -> LineageRelation:
        """Return what a query gives."""

    @abstractmethod
    def argument(self, name: str) -> LineageRelation | None:
        """Return the relation that a TABLE argument of a function names, None for any other name."""

    # ---------------------------------------------------------------- references

    def expand(
        self, star: exp.Star, qualifier: Parts, place: Environment
    ) -> tuple[list[Attribute], list[Open]]:
        """Return what a star shows, without the columns that its EXCEPT names."""
        reject_unread_parts(star, frozenset({"except_"}))
        shown, unknown = self.expand_star(qualifier, place)
        hidden = star.args.get("except_")
        if hidden:
            names = set()
            for node in hidden:
                parts = parts_of(node)
                if parts is not None:
                    self.references.add(parts)
                    names.add(parts[-1] if parts[:-1] == qualifier else parts[0] if len(parts) == 1 else None)
            shown = [a for a in shown if a.name not in names]
        return shown, unknown

    # ---------------------------------------------------------------- values

    def value(self, root: exp.Expr, place: Environment, ctes: Ctes) -> Value:
        """Return the value of an expression; a column by itself is passed on as it is."""
        return self.attribute(root, place, ctes).value

    def attribute(self, root: exp.Expr, place: Environment, ctes: Ctes) -> Attribute:
        """Return an expression as a column; without a name where it is no reference."""
        node = root
        while isinstance(node, exp.Paren):
            node = node.this
        parts = parts_of(node)
        if parts is not None and self.argument(parts[0]) is None:
            return self.reference(parts, place)
        if (bare := bare_name(node, self._bare)) is not None:
            return self.reference((bare,), place)
        found = Sum()
        self._into(node, TRANSFORMED, place, ctes, found)
        return Attribute(None, found.value(SqlFragment(node, self.text)))

    def build_fields(self, root: exp.Expr, place: Environment, ctes: Ctes) -> Mapping[str, Value] | None:
        """Return the values of the fields of `struct(…)`; None for anything else, and where a name is not
        written."""
        node = root
        while isinstance(node, exp.Paren):
            node = node.this
        if not isinstance(node, exp.Struct):
            return None
        found: list[tuple[str | None, Value]] = []
        for item in node.expressions:
            if (star := star_of(item)) is not None:
                shown, unknown = self.expand(star, qualifier_of(item), place)
                found += [(None if unknown else a.name, a.value) for a in shown]
            elif isinstance(item, exp.PropertyEQ) and isinstance(item.this, exp.Identifier):
                value, of = self.value(item.expression, place, ctes), item.expression
                value = replace(value, fields=self.build_fields(of, place, ctes) or value.fields)
                found.append((fold_identifier(item.this), value))
            else:
                return None
        fields = {name: value for name, value in found if name is not None}
        return fields if len(fields) == len(found) else None

    def operands(self, nodes: Iterable[exp.Expr | None], place: Environment, ctes: Ctes) -> Value:
        """Return several expressions as one value."""
        found = Sum()
        for node in nodes:
            if isinstance(node, exp.Expr):
                self._into(node, TRANSFORMED, place, ctes, found)
        return found.value()

    def _into(self, root: exp.Expr, way: OperandUse, place: Environment, ctes: Ctes, found: Sum) -> None:
        stack: list[tuple[exp.Expr, OperandUse, bool]] = [(root, way, False)]
        work = 0
        while stack:
            node, way, windowed = stack.pop()
            work += 1
            if isinstance(node, LEAVES):
                continue
            if (star := star_of(node)) is not None:
                shown, _ = self.expand(star, qualifier_of(node), place)
                work += sum(found.add(attribute.value, way) for attribute in shown)
            elif (parts := parts_of(node)) is not None:
                work += self._operand(parts, way, place, found)
            elif (built := _build_field(node)) is not None:
                taken, others = built
                self._into_all(others, place, ctes)
                stack += [(field_, way, windowed) for field_ in taken]
            elif isinstance(node, exp.Lambda):
                inner = Environment(Frame(), place, variables=frozenset(names_of(node.expressions)))
                self._into(node.this, way, inner, ctes, found)
            elif isinstance(node, exp.Window):
                self._window(node, place, ctes, found, way)
                stack.append((node.this, way, True))
            elif isinstance(node, exp.Exists) and isinstance(node.this, exp.Query):
                starred = is_star_query(node.this)
                if starred:
                    self.star_references.add(())
                relation = self.query(without_list(node.this) if starred else node.this, place, ctes)
                found.rows[id(relation.rows)] = relation.rows
            elif isinstance(node, (exp.Query, exp.Values)):
                relation = self.query(node, place, ctes)
                found.rows[id(relation.rows)] = relation.rows
                work += sum(found.add(a.value, way) for a in relation.attributes)
            elif isinstance(node, (exp.Table, exp.Command, exp.QueryTransform)):
                raise Unclear(f"{NOT_UNDERSTOOD}{type(node).__name__} in an expression")
            elif _says_groups(node):
                # It says by which of the groupings a row is, whatever is in the columns.
                self._into_all(node.iter_expressions(), place, ctes)
                note_grouping(place, found)
            elif is_aggregate(node):
                if isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
                    self.star_references.add(())
                elif way.direct:
                    stack += [(child, AGGREGATED, False) for child in node.iter_expressions(reverse=True)]
                else:
                    stack += [(child, way, False) for child in node.iter_expressions(reverse=True)]
                if not windowed:
                    note_grouping(place, found)
            else:
                if (bare := bare_name(node, self._bare)) is not None:
                    work += self._operand((bare,), way, place, found)
                stack += [(child, as_, windowed) for child, as_ in reversed(_children(node, way))]
        self.spend(work)

    def _into_all(self, nodes: Iterable[exp.Expr], place: Environment, ctes: Ctes) -> None:
        for node in nodes:
            self._into(node, TRANSFORMED, place, ctes, Sum())

    def _operand(self, parts: Parts, way: OperandUse, place: Environment, found: Sum) -> int:
        relation = self.argument(parts[0]) if len(parts) == 1 else None
        if relation is None:
            return found.add(self.reference(parts, place).value, way)
        found.rows[id(relation.rows)] = relation.rows
        return sum(found.add(attribute.value, way) for attribute in relation.attributes)

    def _window(self, node: exp.Window, place: Environment, ctes: Ctes, found: Sum, way: OperandUse) -> None:
        """Take in what a window is partitioned and ordered by."""
        specification: list[exp.Expr] = []
        window: object = node
        for _ in range(10):  # a window may be named by another
            if not isinstance(window, exp.Window):
                break
            specification += window.args.get("partition_by") or ()
            specification += [w for n in ("order", "spec") if isinstance(w := window.args.get(n), exp.Expr)]
            based = window.args.get("alias") or window.args.get("first")
            window = place.windows.get(fold_identifier(based)) if isinstance(based, exp.Identifier) else None
        if not specification:
            return
        value = self.operands(specification, place, ctes)
        found.add(value, WINDOWED if way.direct else way)
        if value.dependencies:
            # INVARIANT (bearing): rows that decide on one value only hang on the value, not on its query.
            part = ConditionPart(node, value.dependencies, by_row=False)
            rows = RelationRows(
                [RowCondition(Clause.WINDOW, SqlFragment(node, self.text), [part])], list(value.rows)
            )
            found.rows[id(rows)] = rows

    # ---------------------------------------------------------------- conditions

    def decide(
        self,
        rows: RelationRows,
        clause: Clause,
        node: exp.Expr,
        place: Environment,
        ctes: Ctes,
        *,
        rejects: Callable[[Attribute], bool] | None = None,
    ) -> RowCondition:
        """Lay a condition on rows.

        `rejects`: of an outer join, the columns whose NULLs it keeps out; None: of all that it compares.
        """
        condition = RowCondition(clause, SqlFragment(node, self.text))
        for conjunct in conjuncts(node):
            value = self.operands([conjunct], place, ctes)
            keys: list[int] = []
            if isinstance(conjunct, _COMPARISONS):
                keys = self._keys(conjunct, place, rejects)
            add_conjunct(condition, rows, SqlFragment(conjunct, self.text), value, keys)
        rows.conditions.append(condition)
        return condition

    def _keys(
        self, node: exp.Expr, place: Environment, rejects: Callable[[Attribute], bool] | None
    ) -> list[int]:
        keys: list[int] = []
        for side in (node.this, node.expression):
            parts = parts_of(side)
            if parts is None or self.argument(parts[0]) is not None:
                continue
            attribute = self.reference(parts, place)
            if rejects is None or rejects(attribute):
                keys += attribute.value.dependencies
        return keys


"""sqlglot's names of functions that need no brackets, and Spark's."""


def _says_groups(node: exp.Expr) -> bool:
    if isinstance(node, (exp.Grouping, exp.GroupingId)):
        return True
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in ("grouping", "grouping_id")


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is a call of one of Spark's aggregate functions."""
    if isinstance(node, exp.AggFunc):
        return not isinstance(node, _NOAGGREGATES)
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in AGGREGATES


def _children(node: exp.Expr, way: OperandUse) -> list[tuple[exp.Expr, OperandUse]]:
    """Return the operands of a node with the ways in which they take part."""
    return list(_operands(node, way))


def _operands(node: exp.Expr, way: OperandUse) -> Iterator[tuple[exp.Expr, OperandUse]]:
    chooses = CHOOSING if way.direct else way
    match node:
        case exp.Case():
            for branch in node.args.get("ifs") or ():
                yield branch, way
            for name, as_ in (("this", chooses), ("default", way)):
                if isinstance(child := node.args.get(name), exp.Expr):
                    yield child, as_
        case exp.If() | exp.Nvl2():
            for name, as_ in (("this", chooses), ("true", way), ("false", way)):
                if isinstance(child := node.args.get(name), exp.Expr):
                    yield child, as_
        case exp.DecodeCase():
            children = node.expressions
            last = len(children) - 1
            for i, child in enumerate(children):
                yield child, way if i and (i % 2 == 0 or i == last) else chooses
        case exp.Filter():
            yield node.this, way
            yield node.expression, chooses
        case _:
            for child in node.iter_expressions():
                yield child, way


def _build_field(root: exp.Expr) -> tuple[list[exp.Expr], list[exp.Expr]] | None:
    """Return what `struct(…).name` takes of the struct, and what it leaves; None for anything else, and where
    the name of a field is not written."""
    names: list[str] = []
    node: object = root
    while True:
        match node:
            case exp.Paren():
                node = node.this
            case exp.Dot(expression=exp.Identifier()):
                names.append(fold_identifier(node.expression))
                node = node.this
            case exp.Bracket(expressions=[exp.Literal(is_string=True) as key]):
                names.append(str(key.this).lower())
                node = node.this
            case _:
                break
    taken: list[exp.Expr] = [node] if isinstance(node, exp.Struct) and names else []
    others: list[exp.Expr] = []
    for name in reversed(names):
        found: list[exp.Expr] = []
        for struct in taken:
            while isinstance(struct, exp.Paren):
                struct = struct.this
            if not isinstance(struct, exp.Struct):
                return None
            for item in struct.expressions:
                if not isinstance(item, exp.PropertyEQ) or not isinstance(item.this, exp.Identifier):
                    return None
                (found if fold_identifier(item.this) == name else others).append(item.expression)
        taken = found
    return (taken, others) if taken else None


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """Return what AND joins, in the order of the text."""
    found: list[exp.Expr] = []
    stack = [node]
    while stack:
        each = stack.pop()
        while isinstance(each, (exp.Paren, exp.Where, exp.Having, exp.Qualify)):
            each = each.this
        if isinstance(each, exp.And):
            stack += (each.expression, each.this)
        else:
            found.append(each)
    return found
