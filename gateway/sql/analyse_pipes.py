"""Column analysis of piped queries: one operator after the other, each on what the one before it gives.

An operator's text is parsed as the part of a query that it is. Columns that are passed on keep the names of
their relations, as in Spark's plan: `FROM t |> SELECT x |> WHERE t.x > 1` means what it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from gateway.sql.analyse_scope import (
    NO_ORIGINS,
    ColumnEnvironment,
    ColumnFrame,
    Origins,
    Output,
    OutputColumn,
    Parts,
    ScopeSource,
    StarColumn,
    Unclear,
    Unfound,
)
from gateway.sql.analyse_tree import (
    NOT_UNDERSTOOD,
    ORDERING,
    counts_outputs,
    fold_identifier,
    parse_statement,
    parts_of,
    query_of,
)
from gateway.sql.analyse_walk import CteOutputs, SqlColumnWalk
from gateway.sql.pipes import FROM_PARTS, ORDERS, PIPED, SET_OPERATORS, PipeOperator, parts_of_operator
from gateway.sql.tokens import comma_items, split_at, tokens_of

_JOINS = frozenset({"JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "NATURAL"})
_UNWRITABLE = ""
"""The name of a column that Spark calls by its whole text, `(x + 1)`: no plain name is that."""


class PipedColumnWalk(SqlColumnWalk):
    """A walk that knows piped queries too."""

    def walk_pipe(
        self, operators: Sequence[str], outer: ColumnEnvironment | None, ctes: CteOutputs
    ) -> ColumnFrame:
        first = query_of(_parse(operators[0]))
        scope = self.with_(first.args.get("with_"), outer, ctes)
        first.set("with_", None)
        self.star_references.add(())
        frame = self._head(first, outer, scope)
        for text in operators[1:]:
            after = False
            below = frame
            for part in parts_of_operator(text):
                self.steps += 1
                around = ColumnEnvironment(below, outer) if after else outer
                applied = _PipeStep(self, part, frame, around, scope).apply()
                below, frame, after = frame, applied, True
        return frame

    def _head(self, node: exp.Expr, outer: ColumnEnvironment | None, ctes: CteOutputs) -> ColumnFrame:
        """Return what the query that a piped one begins with brings into scope."""
        while isinstance(node, exp.Subquery) and not any(v for k, v in node.args.items() if k != "this"):
            node = node.this
        frame = ColumnFrame()
        if isinstance(node, exp.Values):
            self.relation(node, frame, ColumnEnvironment(frame, outer), ctes)
            return frame
        if not isinstance(node, exp.Select) or node.args.get("with_") is not None:
            frame.add(self.query(node, outer, ctes).source())
            return frame
        self.from_clause(node, frame, outer, ctes)
        is_star = [type(item) for item in node.expressions] == [exp.Star]
        if is_star and not node.expressions[0].args.get("except_"):
            others = {name for name, value in node.args.items() if value} - FROM_PARTS
            if not others:
                return frame
        return _build_shown_frame(self.walk_select(node, frame, outer, ctes), frame)

    def find_passed_column(self, parts: Parts, frame: ColumnFrame) -> OutputColumn | None:
        if not self.pipes:
            return None
        *qualifier, name = parts
        found = [
            column
            for source in frame.sources
            if not qualifier or source.qualifier[-len(qualifier) :] == tuple(qualifier)
            for column in source.columns
            if column.name == name
        ]
        return found[0] if len(found) == 1 else None

    def infer_name(self, value: exp.Expr) -> str | None:
        if not self.pipes or isinstance(value, (exp.Cast, exp.Literal, exp.Null, exp.Anonymous, exp.UDTF)):
            return None
        return _UNWRITABLE


def _parse(text: str) -> exp.Expr:
    return parse_statement(text, tokens_of(text))


def _build_shown_frame(output: Output, frame: ColumnFrame) -> ColumnFrame:
    """Return the columns of an operator's result as a frame, those that are passed on by their relations."""
    qualifiers = {id(column): source.qualifier for source in frame.sources for column in source.columns}
    by_relation: dict[Parts, list[OutputColumn]] = {}
    for column in output.columns:
        # RULE (pipe-keeps-relation-names)
        by_relation.setdefault(qualifiers.get(id(column), ()), []).append(column)
    found = ColumnFrame()
    for qualifier, columns in by_relation.items():
        found.add(ScopeSource(qualifier, columns))
    if not output.complete:
        found.add(ScopeSource((), [], complete=False))
    found.star = [StarColumn(column, None) for column in output.columns]
    return found


class _PipeStep:
    """One operator and what it is applied to."""

    def __init__(
        self,
        walk: PipedColumnWalk,
        text: str,
        frame: ColumnFrame,
        outer: ColumnEnvironment | None,
        ctes: CteOutputs,
    ) -> None:
        operator = PipeOperator.of(text)
        self.walk, self.text, self.frame, self.outer, self.ctes = walk, text, frame, outer, ctes
        self.kind, self.word, self.rest = operator.kind, operator.word, operator.rest
        self.place = ColumnEnvironment(frame, outer)

    def apply(self) -> ColumnFrame:
        """Return what the operator gives."""
        if self.kind in SET_OPERATORS:
            return self._set_operation()
        if self.kind in ORDERS:
            return self._order()
        match self.word:
            case "SELECT":
                output = self.walk.walk_select(_select(self.text), self.frame, self.outer, self.ctes)
                return _build_shown_frame(output, self.frame)
            case "EXTEND":
                return self._extend()  # RULE (pipe-lateral-alias)
            case "SET":
                return self._set()
            case "DROP":
                return self._drop()
            case "AS":
                return self._alias()
            case "WHERE":
                self.walk.clause(self._query().args["where"], self.place, self.ctes)
                return self.frame
            case "AGGREGATE":
                return self._aggregate()
            case "TABLESAMPLE":
                return self.frame
            case "PIVOT" | "UNPIVOT":
                return self._pivot()
            case word if word in _JOINS:
                return self._join()
        raise Unclear(f"{NOT_UNDERSTOOD}the pipe operator {self.word}")

    def _query(self) -> exp.Select:
        return _as_select(_parse(f"{PIPED} {self.text}"))

    def _extend(self) -> ColumnFrame:
        select = _select(f"SELECT {self.rest}")
        output, written = self.walk.select_list(select.expressions, self.place, self.ctes)
        for window in select.args.get("windows") or ():
            self.walk.clause(window, ColumnEnvironment(self.frame, self.outer, written), self.ctes)
        columns = [
            # Spark calls a column's field by its whole name here.
            OutputColumn(_UNWRITABLE, column.origins) if self._is_field(item) else column
            for item, column in zip(select.expressions, output.columns, strict=False)
        ]
        if len(columns) != len(output.columns):
            columns = output.columns
        return self._replace_star(self.frame.star, self.frame.sources, columns, complete=output.complete)

    def _is_field(self, item: exp.Expr) -> bool:
        parts = parts_of(item)
        return (
            parts is not None and len(parts) > 1 and self.walk.find_passed_column(parts, self.frame) is None
        )

    def _set(self) -> ColumnFrame:
        """Put each value in the place of its column; a later one sees the earlier ones."""
        frame = self.frame
        for item in comma_items(self.rest):
            name, expression = split_at(item, TokenType.EQ)
            if expression is None:
                raise Unclear("a SET without a value")
            target = _name(name)
            self.walk.references.add((target,))
            place = ColumnEnvironment(frame, self.outer)
            output, _ = self.walk.select_list(_select(f"SELECT {expression}").expressions, place, self.ctes)
            if len(output.columns) != 1:
                raise Unclear("a SET of several values")
            self._is_known(target, frame)
            new = OutputColumn(target, output.columns[0].origins)
            star = [StarColumn(new, None) if c.column.name == target else c for c in frame.star]
            kept = _without({target}, frame.sources)
            merged = {name: origins for name, origins in frame.merged.items() if name != target}
            frame = ColumnFrame([*kept, ScopeSource((), [new])], star, merged, frame.complete, frame.open)
        return frame

    def _drop(self) -> ColumnFrame:
        names = {_name(item) for item in comma_items(self.rest)}
        self.walk.references |= {(name,) for name in names}
        for name in names:
            self._is_known(name, self.frame)
        star = [c for c in self.frame.star if c.column.name not in names]
        return self._replace_star(star, _without(names, self.frame.sources), [], dropped=names)

    @staticmethod
    def _is_known(name: str, frame: ColumnFrame) -> None:
        if frame.find((name,)) is None and not frame.open:
            raise Unfound(f"`{name}` is not in any relation in scope")

    def _replace_star(
        self,
        star: Iterable[StarColumn],
        sources: Iterable[ScopeSource],
        added: list[OutputColumn],
        *,
        complete: bool = True,
        dropped: Iterable[str] = (),
    ) -> ColumnFrame:
        frame = ColumnFrame([*sources], [*star], {**self.frame.merged}, self.frame.complete, self.frame.open)
        for name in dropped:
            frame.merged.pop(name, None)
        if added or not complete:
            frame.add(ScopeSource((), added, complete=complete))
        return frame

    def _alias(self) -> ColumnFrame:
        columns = [shown.column for shown in self.frame.star]
        found = ColumnFrame()
        found.add(ScopeSource((_name(self.rest),), columns, None, self.frame.complete))
        found.star = self.frame.star
        found.open = found.open or self.frame.open
        return found

    def _aggregate(self) -> ColumnFrame:
        """Walk AGGREGATE: its result are the keys, then the values."""
        written, grouped = split_at(self.rest, TokenType.GROUP_BY)
        items = _select(f"SELECT {written}").expressions if written.strip() else []
        keys = _select(f"SELECT {grouped}").expressions if grouped is not None else []
        # A key may be an alias of a value, and the other way round.
        aliases: dict[str, Origins] = dict.fromkeys(_aliases(items), NO_ORIGINS)
        named: list[OutputColumn] = []
        for key in keys:
            if counts_outputs(exp.Group(expressions=[key.unalias()])):
                named.append(self._resolve_ordinal(key))
                continue
            place = ColumnEnvironment(self.frame, self.outer, aliases)
            output, _ = self.walk.select_list([key], place, self.ctes)
            named += output.columns
            aliases |= dict.fromkeys(_aliases([key]), NO_ORIGINS)
        self.walk.found.compute(named)
        around = ColumnEnvironment(self.frame, self.outer, dict.fromkeys(_aliases(keys), NO_ORIGINS))
        output, _ = self.walk.select_list(items, around, self.ctes)
        return _build_shown_frame(Output(named + output.columns, output.complete), self.frame)

    def _resolve_ordinal(self, key: exp.Expr) -> OutputColumn:
        """Return a key that is a number: that of a column, of all that there are."""
        self.walk.show(self.frame.star)  # RULE (pipe-aggregate-ordinal)
        value = key.unalias()
        number = int(value.name) if isinstance(value, exp.Literal) and value.name.isdigit() else 0
        if not self.frame.complete or not 0 < number <= len(self.frame.star):
            self.walk.found.compute(shown.column for shown in self.frame.star)
            return OutputColumn(None, NO_ORIGINS)
        column = self.frame.star[number - 1].column
        return OutputColumn(key.alias.lower(), column.origins) if key.alias else column

    def _pivot(self) -> ColumnFrame:
        table = self._query().args["from_"].this
        frame = self.frame
        for pivot in table.args.get("pivots") or ():
            source = self.walk.apply_pivot(pivot, frame, (), self.ctes)
            frame = ColumnFrame()
            frame.add(source)
        if frame is self.frame:
            raise Unclear(f"{NOT_UNDERSTOOD}the pipe operator {self.word}")
        return frame

    def _join(self) -> ColumnFrame:
        query = self._query()
        source = query.args["from_"].this
        joins = [*(source.args.get("joins") or ()), *(query.args.get("joins") or ())]
        if not joins or any(owner.args.get("laterals") for owner in (source, query)):
            raise Unclear(f"{NOT_UNDERSTOOD}the pipe operator {self.word}")
        frame = self._replace_star(self.frame.star, self.frame.sources, [])
        for join in joins:
            self.walk.join(join, frame, self.outer, self.ctes)
        return frame

    def _set_operation(self) -> ColumnFrame:
        tree = _parse(f"{PIPED} {self.text}")
        if not isinstance(tree, exp.SetOperation) or not isinstance(tree.this, exp.Select):
            raise Unclear("a pipe operator that sqlglot reads as another query")
        self.walk.show(self.frame.star)
        left = Output([shown.column for shown in self.frame.star], self.frame.complete)
        right = self.walk.query(tree.expression, self.outer, self.ctes)
        both = self.walk.unite_outputs(tree, left, right)
        qualifiers = {id(c): source.qualifier for source in self.frame.sources for c in source.columns}
        found = ColumnFrame()
        for mine, column in zip(left.columns, both.columns, strict=True):
            found.add(ScopeSource(qualifiers.get(id(mine), ()), [column]))
        return found

    def _order(self) -> ColumnFrame:
        """Walk ORDER BY and the like, LIMIT and OFFSET."""
        args = self._query().args
        for name in (*ORDERING, "limit", "offset"):
            self.walk.clause(args.get(name), self.place, self.ctes)
        if any(counts_outputs(args.get(name)) for name in ORDERING):  # RULE (pipe-order-ordinal)
            self.walk.show(self.frame.star)
            self.walk.found.compute(shown.column for shown in self.frame.star)
        if args.get("windows"):
            raise Unclear(f"{NOT_UNDERSTOOD}a WINDOW behind {self.word}")
        return self.frame


def _select(text: str) -> exp.Select:
    return _as_select(_parse(text))


def _as_select(tree: exp.Expr) -> exp.Select:
    if not isinstance(tree, exp.Select):
        raise Unclear("a pipe operator that sqlglot reads as another query")
    return tree


def _name(written: str) -> str:
    """Return the one name that a text is, lower case."""
    return fold_identifier(_select(f"SELECT 1 AS {written}").expressions[0].args["alias"])


def _aliases(items: Iterable[exp.Expr]) -> list[str]:
    return [fold_identifier(item.args["alias"]) for item in items if isinstance(item, exp.Alias)]


def _without(names: set[str], sources: Iterable[ScopeSource]) -> list[ScopeSource]:
    return [
        ScopeSource(
            source.qualifier,
            [column for column in source.columns if column.name not in names],
            source.table,
            source.complete,
        )
        for source in sources
    ]
