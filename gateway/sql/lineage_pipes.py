"""Piped queries: one operator after the other, each on what the one before it gives.

An operator's text is parsed as the part of a query that it is. Columns keep the qualifiers that they have, as
in Spark's plan: `FROM t |> SELECT x |> WHERE t.x > 1` means what it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from gateway.algebra.usage import Unclear
from gateway.model.lineage import Clause
from gateway.sql.analyse_tree import NOT_UNDERSTOOD, fold_identifier, parts_of
from gateway.sql.lineage_expressions import Ctes
from gateway.sql.lineage_grouping import resolve_ordinal
from gateway.sql.lineage_pivots import apply_pivot
from gateway.sql.lineage_references import group_by
from gateway.sql.lineage_scope import (
    Attribute,
    Environment,
    Frame,
    LineageRelation,
    RelationRows,
    RowCondition,
    merge_values,
)
from gateway.sql.lineage_sets import Branches, add_operation
from gateway.sql.lineage_text import parse
from gateway.sql.lineage_walk import SqlLineageWalk
from gateway.sql.pipes import FROM_PARTS, PIPED, PipeOperator, parts_of_operator
from gateway.sql.tokens import comma_items, split_at

_JOINS = frozenset(
    {"JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "NATURAL", "LATERAL", ","}
)
_SETS = frozenset({"UNION", "INTERSECT", "EXCEPT", "MINUS"})
_ORDERS = frozenset(
    {"ORDER", "ORDER BY", "SORT", "SORT BY", "CLUSTER", "CLUSTER BY", "DISTRIBUTE", "DISTRIBUTE BY"}
)


class PipedLineageWalk(SqlLineageWalk):
    """A walk that knows piped queries too."""

    def walk_pipe(self, operators: Sequence[str], outer: Environment | None, ctes: Ctes) -> LineageRelation:
        first = parse(operators[0])
        scope = self.with_(first.args.get("with_"), outer, ctes)
        if isinstance(first, exp.Select) and _is_plain(first):
            # FROM t: its columns keep their qualifiers, those that USING hides too.
            frame = Frame()
            self.from_clause(first, frame, outer, scope)
            self.star_references.add(())
            relation = frame.relation()
        elif isinstance(first, exp.Values):
            frame = Frame()
            self.relation(first, frame, Environment(frame, outer), scope)
            relation = frame.relation()
        else:
            first.set("with_", None)
            relation = self.query(first, outer, scope)
        for operator in operators[1:]:
            for part in parts_of_operator(operator):
                self.budget.step()
                relation = _Operator(self, part, relation, outer, scope).apply()
        return relation


def _is_plain(select: exp.Select) -> bool:
    """Whether it is `FROM t`, or the same in other words."""
    return (
        len(select.expressions) == 1
        and isinstance(select.expressions[0], exp.Star)
        and not select.expressions[0].args.get("except_")
        and not any(value for name, value in select.args.items() if name not in FROM_PARTS)
    )


def _index_by_name(attributes: Sequence[Attribute]) -> dict[str, Attribute]:
    return {attribute.name: attribute for attribute in reversed(attributes) if attribute.name is not None}


class _Operator:
    """One operator and what it is applied to."""

    def __init__(
        self,
        walk: SqlLineageWalk,
        text: str,
        relation: LineageRelation,
        outer: Environment | None,
        ctes: Ctes,
    ) -> None:
        operator = PipeOperator.of(text)
        self.walk, self.text, self.relation, self.outer, self.ctes = walk, text, relation, outer, ctes
        self.word, self.rest = operator.word, operator.rest
        self.frame = Frame(relation)
        self.place = Environment(self.frame, outer)

    def apply(self) -> LineageRelation:
        """Return what the operator gives."""
        match self.word:
            case "SELECT":
                select = self._select(self.text)
                return self.walk.walk_select(select, self.frame, self.outer, self.ctes)
            case "EXTEND":
                return self._extend()
            case "SET":
                return self._set()
            case "DROP":
                return self._drop()
            case "AS":
                return self.relation.apply_alias(
                    fold_identifier(parse(f"SELECT 1 AS {self.rest}").expressions[0].args["alias"])
                )
            case "WHERE":
                condition = self._query().args["where"].this
                self.walk.decide(self.frame.rows, Clause.WHERE, condition, self.place, self.ctes)
                return self.frame.relation()
            case "AGGREGATE":
                return self._aggregate()
            case "LIMIT" | "OFFSET" | "TABLESAMPLE":
                return self.relation
            case "PIVOT" | "UNPIVOT":
                return self._pivot()
            case word if word in _JOINS:
                return self._join()
            case word if word in _SETS:
                return self._set_operation()
            case word if word in _ORDERS:
                query = self._query()
                return self.walk.walk_order(query, self.frame.relation(), self.frame, self.outer, self.ctes)
        raise Unclear(f"{NOT_UNDERSTOOD}the pipe operator {self.word}")

    def _query(self) -> exp.Expr:
        return parse(f"{PIPED} {self.text}")

    @staticmethod
    def _select(text: str) -> exp.Select:
        tree = parse(text)
        if not isinstance(tree, exp.Select):
            raise Unclear("a pipe operator that sqlglot reads as another query")
        return tree

    def _with(self, attributes: list[Attribute]) -> LineageRelation:
        return LineageRelation(attributes, self.frame.rows, self.relation.opens)

    def _extend(self) -> LineageRelation:
        select = self._select(f"SELECT {self.rest}")
        windows: dict[str, object] = {fold_identifier(w.this): w for w in select.args.get("windows") or ()}
        place = replace(self.place, windows=windows)
        added, opens = self.walk.select_list(select.expressions, place, self.ctes)
        if len(added) == len(select.expressions):
            # Spark calls a column's field by its whole name here.
            fields = [self._field(item) for item in select.expressions]
            added = [replace(a, name=f, qualifier=()) if f else a for a, f in zip(added, fields, strict=True)]
        return LineageRelation(
            [*self.frame.attributes, *added], self.frame.rows, [*self.relation.opens, *opens]
        )

    def _field(self, item: exp.Expr) -> str:
        """Return the whole name of a column's field, empty for anything else."""
        *before, name = parts_of(item) or ("",)
        is_column = any(
            a.name == name and a.qualifier[-len(before) :] == tuple(before) for a in self.frame.attributes
        )
        return "" if not before or is_column else ".".join((*before, name))

    def _set(self) -> LineageRelation:
        attributes = list(self.frame.attributes)
        for item in comma_items(self.rest):
            name, expression = split_at(item, TokenType.EQ)
            if expression is None:
                raise Unclear("a SET without a value")
            target = fold_identifier(parse(f"SELECT 1 AS {name}").expressions[0].args["alias"])
            value = self.walk.value(
                self._select(f"SELECT {expression}").expressions[0], self.place, self.ctes
            )
            places = [i for i, a in enumerate(attributes) if a.name == target and not a.hidden]
            if not places and not self.relation.opens:
                raise Unclear(f"`{target}` is not in any relation in scope")
            for i in places:
                attributes[i] = Attribute(target, value)
            self.walk.references.add((target,))
            if not places:
                attributes.append(Attribute(target, value))
            # A later assignment sees the earlier ones.
            outputs = {**self.place.outputs, target: Attribute(target, value)}
            self.place = replace(self.place, outputs=outputs, prefer="outputs")
        return self._with(attributes)

    def _drop(self) -> LineageRelation:
        names = {
            fold_identifier(column.this)
            for column in self._select(f"SELECT {self.rest}").expressions
            if isinstance(column, exp.Column)
        }
        self.walk.references |= {(name,) for name in names}
        return self._with([a for a in self.frame.attributes if a.name not in names or a.hidden])

    def _aggregate(self) -> LineageRelation:
        items, grouped = split_at(self.rest, TokenType.GROUP_BY)
        place, keys = self.place, list[Attribute]()
        if grouped is not None:
            grouping = RowCondition(Clause.GROUP_BY, f"GROUP BY {self.walk.text.user_words(grouped).strip()}")
            place = replace(place, groups=RelationRows(groups=grouping))
            keys = self._keys(grouped)
            group_by(self.frame.rows, grouping, merge_values(key.value for key in keys))
            place = replace(place, outputs=_index_by_name(keys))
        added: list[Attribute] = []
        if items.strip():
            added, _ = self.walk.select_list(self._select(f"SELECT {items}").expressions, place, self.ctes)
        return LineageRelation([*keys, *added], self.frame.rows)

    def _keys(self, grouped: str) -> list[Attribute]:
        keys: list[Attribute] = []
        for item in self._select(f"SELECT {grouped}").expressions:
            number = resolve_ordinal(item, self.frame.shown)
            if number is None:
                # A later key may be an alias of an earlier one.
                place = replace(self.place, outputs=_index_by_name(keys))
                keys += self.walk.select_list([item], place, self.ctes)[0]
            else:
                keys.append(number)
        return keys

    def _pivot(self) -> LineageRelation:
        table = self._query().args["from_"].this
        relation = self.frame.relation()
        for pivot in table.args.get("pivots") or ():
            relation = apply_pivot(self.walk, pivot, relation, self.outer, self.ctes)
        return relation

    def _join(self) -> LineageRelation:
        query = self._query()
        source = query.args["from_"].this
        for join in (*(source.args.get("joins") or ()), *(query.args.get("joins") or ())):
            self.walk.join(join, self.frame, self.outer, self.ctes)
        for owner in (source, query):
            for lateral in owner.args.get("laterals") or ():
                self.frame.add(self.walk.lateral(lateral, self.place, self.ctes))
        return self.frame.relation()

    def _set_operation(self) -> LineageRelation:
        tree = self._query()
        chain = []
        while isinstance(tree, exp.SetOperation):
            chain.append(tree)
            tree = tree.this
        shown = [a for a in self.frame.attributes if not a.hidden]
        branches = Branches(LineageRelation(shown, self.frame.rows, self.relation.opens))
        for operation in reversed(chain):
            add_operation(branches, operation, self.walk.query(operation.expression, self.outer, self.ctes))
        return branches.relation()
