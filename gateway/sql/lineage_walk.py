"""The walk over the queries of one text: what each gives, bottom-up, once.

It matches every node of a FROM clause and accounts for every argument
of a query node; what it does not know raises Unclear, and the statement gets table-level lineage. Otherwise
than there a value carries all columns that it is made of, and rows the conditions that decide on them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from gateway.algebra.usage import Parts, Unclear
from gateway.model.lineage import Clause
from gateway.model.reading import Relation as ReadRelation
from gateway.sql.analyse_tree import (
    JOIN_PARTS,
    LATERAL_PARTS,
    NOT_UNDERSTOOD,
    SELECT_PARTS,
    SET_OPERATION_PARTS,
    SUBQUERY_PARTS,
    TABLE_PARTS,
    VALUES_PARTS,
    fold_identifier,
    names_of,
    qualifier_of,
    reject_unread_parts,
    star_of,
)
from gateway.sql.lineage_expressions import Ctes, SqlFragment, SqlLineageExpressions
from gateway.sql.lineage_generators import generate_columns
from gateway.sql.lineage_grouping import group_items, order_items, orders_all
from gateway.sql.lineage_joins import (
    find_null_rejecting,
    keep_unmatched,
    key_columns,
    key_parts,
    merge_keys,
    using_attributes,
)
from gateway.sql.lineage_pivots import apply_pivot
from gateway.sql.lineage_references import decide_by, group_by
from gateway.sql.lineage_scope import (
    NO_DEPENDENCIES,
    Attribute,
    Environment,
    Frame,
    LineageRelation,
    Open,
    RelationRows,
    RowCondition,
    Value,
    merge_values,
)
from gateway.sql.lineage_sets import Branches, add_operation
from gateway.sql.lineage_structs import infer_type
from gateway.sql.lineage_text import Text

MAX_STEPS = 20_000
"""Queries walked; those of recursive ones are walked until nothing new flows through them."""


class Budget:
    """What one statement may cost, its views included."""

    def __init__(self, work: int) -> None:
        self.work = work
        self.steps = MAX_STEPS

    def spend(self, work: int) -> None:
        self.work -= work
        if self.work < 0:
            raise Unclear("the statement has too many dependencies between columns")

    def step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise Unclear("the statement has too many subqueries")


class SqlLineageWalk(SqlLineageExpressions):
    """One walk over one text."""

    def __init__(
        self,
        text: Text,
        columns: Iterable[Parts],
        scan: Callable[[ReadRelation], LineageRelation],
        opened: Callable[[Open, str], Value],
        budget: Budget,
    ) -> None:
        super().__init__(text, columns)
        self._scan = scan
        self._opened = opened
        self.budget = budget
        self.relations: set[str] = set()
        """Relations that were found again."""
        self._scans: dict[str, LineageRelation] = {}

    def spend(self, work: int) -> None:
        self.budget.spend(work)

    def open_column(self, unknown: Open, name: str) -> Value:
        return self._opened(unknown, name)

    def argument(self, name: str) -> LineageRelation | None:
        return self.scan(name) if name in self.text.relations else None

    def scan(self, name: str) -> LineageRelation:
        """Return the relation that a name stands for; the same one when it is walked again."""
        self.relations.add(name)
        found = self._scans.get(name)
        if found is None:
            found = self._scans[name] = self._scan(self.text.relations[name])
        return found

    # ---------------------------------------------------------------- queries

    def query(self, node: exp.Expr, outer: Environment | None, ctes: Ctes) -> LineageRelation:
        self.budget.step()
        scope = self.with_(node.args.get("with_"), outer, ctes)
        if isinstance(node, exp.Select):
            return self._select(node, outer, scope)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, outer, scope)
        if isinstance(node, exp.Subquery):
            reject_unread_parts(node, SUBQUERY_PARTS - {"alias", "sample", "pivots", "joins", "laterals"})
            return self._walk_modifiers(node, self.query(node.this, outer, scope), outer, scope)
        if isinstance(node, exp.Values):
            return self._values(node, outer, scope)
        if isinstance(node, exp.Table):
            frame = Frame()
            self.relation(node, frame, Environment(frame, outer), scope)
            return frame.relation()
        raise Unclear(f"{NOT_UNDERSTOOD}{type(node).__name__}")

    def with_(self, node: exp.Expr | None, outer: Environment | None, ctes: Ctes) -> Ctes:
        """Return the common table expressions in scope after a WITH; each sees those before it."""
        if not isinstance(node, exp.With):
            return ctes
        scope = dict(ctes)
        for cte in node.expressions:
            alias = cte.args["alias"]
            name, columns = fold_identifier(alias.this), names_of(alias.args.get("columns"))
            body = cte.this
            if node.args.get("recursive") and isinstance(body, exp.SetOperation):
                relation = self._recursive(name, columns, body, outer, scope)
            else:
                relation = self.query(body, outer, scope)
            scope[name] = relation.apply_alias(name, columns)
        return scope

    def _recursive(
        self, name: str, columns: Sequence[str], body: exp.SetOperation, outer: Environment | None, ctes: Ctes
    ) -> LineageRelation:
        """Walk a recursive query until what flows through it stays the same.

        Within itself it begins with the columns of its first branch, and passes on more with every round.
        """
        first = self.query(body.this, outer, self.with_(body.args.get("with_"), outer, ctes))
        own = [RelationRows() for _ in first.attributes]
        rows = RelationRows()
        before = first
        while True:
            attributes = [
                Attribute(a.name, replace(a.value, rows=(mine,)))
                for a, mine in zip(before.attributes, own, strict=True)
            ]
            itself = LineageRelation(attributes, rows, before.opens).apply_alias(name, columns)
            after = self.query(body, outer, {**ctes, name: itself})
            if len(after.attributes) != len(own):
                raise Unclear(f"the columns of the recursive query `{name}` cannot be matched")
            if [a.value.dependencies for a in after.attributes] == [
                a.value.dependencies for a in before.attributes
            ]:
                break
            before = after
        rows.parents.append(after.rows)
        for mine, attribute in zip(own, after.attributes, strict=True):
            mine.parents += attribute.value.rows
        return after

    def _select(self, node: exp.Select, outer: Environment | None, ctes: Ctes) -> LineageRelation:
        reject_unread_parts(node, SELECT_PARTS)
        frame = Frame()
        self.from_clause(node, frame, outer, ctes)
        return self.walk_select(node, frame, outer, ctes)

    def from_clause(self, node: exp.Select, frame: Frame, outer: Environment | None, ctes: Ctes) -> None:
        """Bring into scope what a SELECT reads."""
        args = node.args
        if (source := args.get("from_")) is not None:
            self.relation(source.this, frame, Environment(frame, outer), ctes)
        for join in args.get("joins") or ():
            self.join(join, frame, outer, ctes)
        for lateral in args.get("laterals") or ():
            frame.add(self.lateral(lateral, Environment(frame, outer), ctes))

    def walk_select(
        self, node: exp.Select, frame: Frame, outer: Environment | None, ctes: Ctes
    ) -> LineageRelation:
        """Walk everything of a SELECT but its FROM clause."""
        args = node.args
        rows = frame.rows
        self._note_hint(args.get("hint"))
        windows: dict[str, object] = {fold_identifier(w.this): w for w in args.get("windows") or ()}
        if (where := args.get("where")) is not None:
            self.decide(rows, Clause.WHERE, where.this, Environment(frame, outer), ctes)
        grouping, groups = None, None
        if (group := args.get("group")) is not None:
            grouping = RowCondition(Clause.GROUP_BY, SqlFragment(group, self.text))
            groups = RelationRows(groups=grouping)
        place = Environment(frame, outer, groups=groups, windows=windows)
        attributes, opens = self.select_list(node.expressions, place, ctes)
        outputs = _index_by_name(attributes)
        if group is not None and grouping is not None:
            self._group(group, grouping, rows, attributes, Environment(frame, outer, outputs), ctes)
        after = Environment(frame, outer, outputs, groups=groups, windows=windows)
        for name, clause in (("having", Clause.HAVING), ("qualify", Clause.QUALIFY)):
            if (condition := args.get(name)) is not None:
                self.decide(rows, clause, condition.this, after, ctes)
        if (distinct := args.get("distinct")) is not None:
            reject_unread_parts(distinct, frozenset())
            decide_by(rows, Clause.GROUP_BY, "DISTINCT", merge_values(a.value for a in attributes))
        found = LineageRelation(attributes, rows, opens)
        return self.walk_order(node, found, frame, outer, ctes, groups, windows)

    def _note_hint(self, hint: exp.Expr | None) -> None:
        """Note the names in a hint, which Spark's parser lists as columns and which are relations."""
        if hint is not None:
            self.references |= {(fold_identifier(name),) for name in hint.find_all(exp.Identifier)}

    def select_list(
        self, items: Iterable[exp.Expr], place: Environment, ctes: Ctes
    ) -> tuple[list[Attribute], list[Open]]:
        """Walk a select list; a later item may use the alias of an earlier one, and those of `place`."""
        attributes: list[Attribute] = []
        opens: list[Open] = []
        place = replace(place, outputs=dict(place.outputs))
        for item in items:
            if isinstance(item, exp.Aliases):
                value = self.value(item.this, place, ctes)
                attributes += [Attribute(name, value) for name in names_of(item.expressions)]
                continue
            name = fold_identifier(item.args["alias"]) if isinstance(item, exp.Alias) else None
            node = item.this if isinstance(item, exp.Alias) else item
            unnamed = self.text.columns.get(name) if name is not None else None
            if unnamed is not None:
                name = None
            while isinstance(node, exp.Paren):
                node = node.this
            if (star := star_of(node)) is not None:
                shown, unknown = self.expand(star, qualifier_of(node), place)
                attributes += [replace(a, hidden=False) for a in shown]
                opens += unknown
                continue
            attribute = self.attribute(node, place, ctes)
            if not attribute.value.type and (type_ := infer_type(node, self, place, ctes)):
                fields = self.build_fields(node, place, ctes)
                attribute = replace(attribute, value=replace(attribute.value, type=type_, fields=fields))
            if unnamed is not None:
                attributes.append(Attribute(self.column_name(unnamed, place), attribute.value))
            elif name is not None:
                attribute = Attribute(name, attribute.value)
                place.outputs.setdefault(name, attribute)
                attributes.append(attribute)
            elif (many := generate_columns(node, attribute.value, self, place, ctes)) is not None:
                attributes += many.attributes
                opens += many.opens
            else:
                attributes.append(replace(attribute, hidden=False))
        return attributes, opens

    def _group(
        self,
        group: exp.Group,
        grouping: RowCondition,
        rows: RelationRows,
        attributes: list[Attribute],
        place: Environment,
        ctes: Ctes,
    ) -> None:
        values = [
            item if isinstance(item, Value) else self.value(item, place, ctes)
            for item in group_items(group, attributes)
        ]
        if group.args.get("all"):
            self.references.add(("all",))
        group_by(rows, grouping, merge_values(values))

    def walk_order(
        self,
        node: exp.Expr,
        relation: LineageRelation,
        frame: Frame,
        outer: Environment | None,
        ctes: Ctes,
        groups: RelationRows | None = None,
        windows: dict[str, object] | None = None,
    ) -> LineageRelation:
        """Walk ORDER BY and LIMIT, where a bare name is the output column."""
        outputs = _index_by_name(relation.attributes)
        places = [
            Environment(frame, outer, outputs, prefer, groups, windows or {})
            for prefer in ("outputs", "columns")
        ]
        for name in ("order", "sort", "cluster", "distribute"):
            if (clause := node.args.get(name)) is None:
                continue
            values = []
            for item in order_items(clause, relation.attributes):
                if isinstance(item, Value):
                    values.append(item)
                else:
                    bare = isinstance(item, exp.Column) and "table" not in item.args
                    values.append(self.value(item, places[0] if bare else places[1], ctes))
            if orders_all(clause):
                self.references.add(("all",))
            if name != "distribute":
                decide_by(relation.rows, Clause.SORT, SqlFragment(clause, self.text), merge_values(values))
        for name in ("limit", "offset"):
            if (clause := node.args.get(name)) is not None:
                self.operands([clause], places[0], ctes)
        return relation

    def _walk_modifiers(
        self, node: exp.Expr, relation: LineageRelation, outer: Environment | None, ctes: Ctes
    ) -> LineageRelation:
        """Walk ORDER BY and LIMIT of a set operation or a bracketed query, which see its output only."""
        if not any(
            node.args.get(name) for name in ("order", "sort", "cluster", "distribute", "limit", "offset")
        ):
            return relation
        frame = Frame(relation)
        return self.walk_order(node, frame.relation(), frame, outer, ctes)

    def _set_operation(
        self, node: exp.SetOperation, outer: Environment | None, ctes: Ctes
    ) -> LineageRelation:
        chain: list[exp.SetOperation] = []
        first: exp.Expr = node
        while isinstance(first, exp.SetOperation) and (not chain or not _modifies(first)):
            reject_unread_parts(first, SET_OPERATION_PARTS | {"by_name"})
            chain.append(first)
            first = first.this
        branches = Branches(self.query(first, outer, ctes))
        for operation in reversed(chain):
            right = self.query(operation.expression, outer, ctes)
            add_operation(branches, operation, right)
            self.spend(branches.cost)
        return self._walk_modifiers(node, branches.relation(), outer, ctes)

    # ---------------------------------------------------------------- relations

    def relation(self, node: exp.Expr, frame: Frame, lateral: Environment, ctes: Ctes) -> None:
        """Bring what stands in a FROM clause into scope, and what is joined to it in the tree."""
        self._first(node, frame, lateral, ctes)
        for join in node.args.get("joins") or ():
            self.join(join, frame, lateral.parent, ctes)
        for view in node.args.get("laterals") or ():
            frame.add(self.lateral(view, Environment(frame, lateral.parent), ctes))

    def _first(self, node: exp.Expr, frame: Frame, lateral: Environment, ctes: Ctes) -> None:
        match node:
            case exp.Table():
                reject_unread_parts(node, TABLE_PARTS)
                relation = self._table(node, lateral, ctes)
            # RULE (lineage-bracketed-relation)
            case exp.Subquery(this=exp.Query() | exp.Values()) if not _is_bracketed(node.this):
                reject_unread_parts(node, SUBQUERY_PARTS)
                scope = self.with_(node.args.get("with_"), lateral.parent, ctes)
                inner = self.query(node.this, lateral.parent, scope)
                # ORDER BY and the like belong to the query inside, the alias to the relation.
                relation = _subquery(self._walk_modifiers(node, inner, lateral.parent, scope))
            case exp.Subquery():
                reject_unread_parts(
                    node, frozenset({"this", "alias", "pivots", "sample", "joins", "laterals"})
                )
                bracketed = Frame()
                self.relation(node.this, bracketed, Environment(bracketed, lateral.parent), ctes)
                relation = bracketed.relation()
            case exp.Values():
                relation = self._values(node, lateral, ctes)
            case exp.Lateral():
                frame.add(self.lateral(node, lateral, ctes))
                return
            case _:
                raise Unclear(f"{NOT_UNDERSTOOD}{type(node).__name__} in a FROM clause")
        frame.add(self.apply_alias(node, relation, lateral.parent, ctes))

    def _table(self, node: exp.Table, lateral: Environment, ctes: Ctes) -> LineageRelation:
        if not isinstance(node.this, exp.Identifier):
            if node.args.get("db") is not None:
                raise Unclear("a table function with a qualified name")
            return self._function(node.this, lateral, ctes)
        parts = tuple(fold_identifier(part) for part in node.parts)
        if len(parts) == 1:
            if parts[0] in self.text.relations:
                return self.scan(parts[0])
            if parts[0] in self.text.pipes:
                return self.walk_pipe(self.text.pipes[parts[0]], lateral.parent, ctes)
            if parts[0] in ctes:
                return ctes[parts[0]]
        raise Unclear(f"readers disagree: only column analysis sees `{'.'.join(parts)}`")

    @abstractmethod
    def walk_pipe(self, operators: Sequence[str], outer: Environment | None, ctes: Ctes) -> LineageRelation:
        """Return what a piped query gives; the first of its operators is the query that it begins with."""

    def _function(self, node: exp.Expr, place: Environment, ctes: Ctes) -> LineageRelation:
        """Return what a table function gives: its columns are made of all its arguments."""
        value = self.value(node, place, ctes)
        found = generate_columns(node, value, self, place, ctes)
        if found is None:
            found = LineageRelation([Attribute("*", value)], RelationRows(), [Open((), None, value)])
        qualifier = (str(node.this).lower(),) if isinstance(node, exp.Anonymous) else ()
        return LineageRelation(
            [replace(a, qualifier=qualifier) for a in found.attributes],
            RelationRows(parents=list(value.rows)),
            [replace(o, qualifier=qualifier) for o in found.opens],
        )

    def _values(self, node: exp.Values, place: Environment | None, ctes: Ctes) -> LineageRelation:
        reject_unread_parts(node, VALUES_PARTS)
        place = place or Environment(Frame())
        columns: list[list[Value]] = []
        for row in node.expressions:
            cells = row.expressions if isinstance(row, exp.Tuple) else [row]
            for i, cell in enumerate(cells):
                if i == len(columns):
                    columns.append([])
                value = self.value(cell, place, ctes)
                if value.dependencies or value.rows or not columns[i]:
                    columns[i].append(value)
        return LineageRelation(
            [Attribute(f"col{i}", merge_values(c)) for i, c in enumerate(columns, 1)], RelationRows()
        )

    def lateral(self, node: exp.Lateral, place: Environment, ctes: Ctes) -> LineageRelation:
        """Return what LATERAL adds: a subquery over what stands before it, or a function of that."""
        reject_unread_parts(node, LATERAL_PARTS)
        this = node.this
        if isinstance(this, exp.Subquery):
            relation = _subquery(self.query(this, place, ctes))
        elif isinstance(this, exp.Identifier) or (isinstance(this, exp.Column) and len(this.parts) == 1):
            relation = self.scan(this.name.lower())  # LATERAL t
        else:
            relation = self._function(this, place, ctes)
        alias = node.args.get("alias")
        if alias is None or alias.this is None:
            return relation
        columns = names_of(alias.args.get("columns"))
        self.references |= {(name,) for name in columns}  # Spark's parser lists them as references
        return relation.apply_alias(fold_identifier(alias.this), columns)

    def apply_alias(
        self, node: exp.Expr, relation: LineageRelation, outer: Environment | None, ctes: Ctes
    ) -> LineageRelation:
        """Put the alias and the pivots of a relation on it, in the order in which Spark does."""
        alias = node.args.get("alias")
        if alias is not None and alias.this is not None:
            relation = relation.apply_alias(fold_identifier(alias.this), names_of(alias.args.get("columns")))
        elif alias is not None and (columns := names_of(alias.args.get("columns"))):
            relation = relation.apply_alias("", columns)
        for pivot in node.args.get("pivots") or ():
            relation = apply_pivot(self, pivot, relation, outer, ctes)
        return relation

    def join(self, node: exp.Join, frame: Frame, outer: Environment | None, ctes: Ctes) -> None:
        """Bring the right side of a join into scope, or only its keys after a semi or anti join."""
        reject_unread_parts(node, JOIN_PARTS)
        args = node.args
        right = Frame()
        self.relation(node.this, right, Environment(frame, outer), ctes)
        side, kind = (str(args.get(name) or "").upper() for name in ("side", "kind"))
        keys = list(dict.fromkeys(names_of(args.get("using"))))
        method = str(args.get("method") or "").upper()
        if method == "NATURAL":
            keys = key_columns(frame, right)
        elif method:
            raise Unclear(f"{NOT_UNDERSTOOD}a {method} join")
        left_columns, left_opens = list(frame.attributes), list(frame.opens)
        own = {id(a) for a in left_columns}
        theirs = {id(a) for a in right.attributes}
        frame.add(right.relation())
        rejects = find_null_rejecting(side, kind, own, theirs)
        pairs: dict[str, tuple[Attribute, Attribute]] = {}
        if keys:
            pairs = using_attributes(
                self, keys, Frame(LineageRelation(left_columns, RelationRows(), left_opens)), right
            )
            parts = key_parts(pairs, rejects)
            written = f"{method or 'USING'} ({', '.join(keys)})"
            decide_by(frame.rows, Clause.JOIN, written, Value(NO_DEPENDENCIES), parts)
        if (on := args.get("on")) is not None:
            outer_join = side in ("LEFT", "RIGHT", "FULL") and kind not in ("SEMI", "ANTI")
            condition = self.decide(
                frame.rows, Clause.JOIN, on, Environment(frame, outer), ctes, rejects=rejects
            )
            if outer_join:
                keep_unmatched(condition)
        if kind in ("SEMI", "ANTI"):
            frame.set_columns(left_columns, left_opens)
        if keys:
            frame.set_columns(merge_keys(frame, pairs, side, kind), frame.opens)


def _subquery(relation: LineageRelation) -> LineageRelation:
    """Return a subquery's columns as the query around it sees them: they have no qualifier."""
    attributes = [Attribute(a.name, a.value) for a in relation.attributes if not a.hidden]
    return LineageRelation(attributes, relation.rows, [replace(o, qualifier=()) for o in relation.opens])


def _index_by_name(attributes: Iterable[Attribute]) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    for attribute in attributes:
        if attribute.name is not None:
            found.setdefault(attribute.name, attribute)
    return found


def _is_bracketed(node: exp.Expr) -> bool:
    """Whether what stands in brackets is a relation, which has an alias or joins, and no query."""
    while isinstance(node, exp.Subquery):
        if any(node.args.get(part) for part in ("alias", "joins", "laterals", "pivots", "sample")):
            return True
        node = node.this
    return isinstance(node, exp.Table)


def _modifies(node: exp.Expr) -> bool:
    return any(
        node.args.get(name) for name in ("with_", "order", "sort", "cluster", "distribute", "limit", "offset")
    )
