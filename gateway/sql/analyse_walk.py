"""The walk over sqlglot's tree that finds which base columns every part of a query uses.

Every node of a FROM clause is matched explicitly and every argument of a query node is accounted for: what
is not known makes column analysis silent. Inside expressions a generic walk will do, for a column there is
used whatever is computed from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from gateway.sql.analyse_scope import (
    LITERAL_FUNCTIONS,
    NO_ORIGINS,
    ColumnEnvironment,
    ColumnFindings,
    ColumnFrame,
    Origins,
    Output,
    OutputColumn,
    Parts,
    ScopeSource,
    StarColumn,
    Unclear,
)
from gateway.sql.analyse_tree import (
    JOIN_PARTS,
    LATERAL_PARTS,
    LEAVES,
    NOT_UNDERSTOOD,
    ORDERING,
    PIVOT_PARTS,
    SELECT_PARTS,
    SET_OPERATION_PARTS,
    SUBQUERY_PARTS,
    TABLE_PARTS,
    VALUES_PARTS,
    bare_name,
    counts_outputs,
    fold_identifier,
    is_star_query,
    names_of,
    parts_of,
    qualifier_of,
    reject_unread_parts,
    star_of,
    without_list,
)

CteOutputs = Mapping[str, Output]
PipedQueries = Mapping[str, Sequence[str]]
"""What stands for piped queries, and the operators of each; the first is the query that it begins with."""

MAX_STEPS = 5_000
"""Queries walked; recursive ones are walked until nothing new flows through them, nested ones each time."""

# Generators, and functions that sqlglot does not know and that may be generators.
_MAY_BE_MANY = (
    exp.Explode,
    exp.ExplodeOuter,
    exp.Posexplode,
    exp.PosexplodeOuter,
    exp.Inline,
    exp.Stack,
    exp.Anonymous,
)


@dataclass(slots=True)
class SqlColumnWalk:
    """One walk over one statement; what it finds is collected in the fields."""

    scans: Mapping[Parts, ScopeSource]
    """Base tables by the name that is written, lower case; the qualifier is the full name."""
    found: ColumnFindings = field(default_factory=ColumnFindings)
    pipes: PipedQueries = field(default_factory=dict)
    relations: set[Parts] = field(default_factory=set)
    references: set[Parts] = field(default_factory=set)
    star_references: set[Parts] = field(default_factory=set)
    bare: frozenset[str] = LITERAL_FUNCTIONS
    """Functions that the text may name without brackets."""
    steps: int = 0

    # ---------------------------------------------------------------- queries

    def query(self, node: exp.Expr, outer: ColumnEnvironment | None, ctes: CteOutputs) -> Output:
        """Walk a query and return its columns."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Unclear("the statement has too many subqueries for column analysis")
        scope = self.with_(node.args.get("with_"), outer, ctes)
        if isinstance(node, exp.Select):
            return self._select(node, outer, scope)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, outer, scope)
        if isinstance(node, exp.Subquery):
            reject_unread_parts(node, SUBQUERY_PARTS - {"alias", "sample", "pivots", "joins", "laterals"})
            output = self.query(node.this, outer, scope)
            return self._walk_modifiers(node, output, outer, scope)
        if isinstance(node, exp.Values):
            return Output(self._values(node, outer, scope).columns)
        raise Unclear(f"{NOT_UNDERSTOOD}{type(node).__name__}")

    def with_(self, node: exp.Expr | None, outer: ColumnEnvironment | None, ctes: CteOutputs) -> CteOutputs:
        """Return the common table expressions in scope after a WITH; each sees those before it."""
        if not isinstance(node, exp.With):
            return ctes
        scope = dict(ctes)
        for cte in node.expressions:
            table_alias = cte.args["alias"]
            name, columns = fold_identifier(table_alias.this), names_of(table_alias.args.get("columns"))
            body = cte.this
            if node.args.get("recursive") and isinstance(body, exp.SetOperation):
                # Within itself it begins with the columns of its first branch, and passes on more with every
                # round: `SELECT x … UNION ALL SELECT ssn FROM r WHERE n = 1` compares ssn in the third.
                before = self.query(body.this, outer, self.with_(body.args.get("with_"), outer, scope))
                while (
                    output := self.query(body, outer, {**scope, name: before.rename(name, columns)})
                ) != before:
                    before = output
            else:
                output = self.query(body, outer, scope)
            scope[name] = output.rename(name, columns)
        return scope

    def _select(self, node: exp.Select, outer: ColumnEnvironment | None, ctes: CteOutputs) -> Output:
        frame = ColumnFrame()
        self.from_clause(node, frame, outer, ctes)
        return self.walk_select(node, frame, outer, ctes)

    def from_clause(
        self, node: exp.Select, frame: ColumnFrame, outer: ColumnEnvironment | None, ctes: CteOutputs
    ) -> None:
        """Bring all that a FROM clause names into scope, with its joins and LATERAL VIEWs."""
        args = node.args
        if (source := args.get("from_")) is not None:
            self.relation(source.this, frame, ColumnEnvironment(frame, outer), ctes)
        for join in args.get("joins") or ():
            self.join(join, frame, outer, ctes)
        for lateral in args.get("laterals") or ():
            frame.add(self.lateral(lateral, ColumnEnvironment(frame, outer), ctes))

    def walk_select(
        self, node: exp.Select, frame: ColumnFrame, outer: ColumnEnvironment | None, ctes: CteOutputs
    ) -> Output:
        """Walk what a SELECT says of the relations of a frame."""
        reject_unread_parts(node, SELECT_PARTS)
        args = node.args
        output, written = self.select_list(node.expressions, ColumnEnvironment(frame, outer), ctes)
        place = ColumnEnvironment(frame, outer)
        self.clause(args.get("where"), place, ctes)
        self.clause(args.get("group"), ColumnEnvironment(frame, outer, written), ctes)
        for name in ("having", "qualify"):
            self.clause(args.get(name), ColumnEnvironment(frame, outer, written, "both"), ctes)
        qualify = args.get("qualify")
        # RULE (qualify-window-columns)
        for window in qualify.find_all(exp.Window) if qualify is not None else ():
            self.clause(window, ColumnEnvironment(frame, outer, written), ctes)
        for name in (*ORDERING, "limit", "offset"):
            self._order(args.get(name), frame, outer, written, ctes)
        for window in args.get("windows") or ():
            self.clause(window, ColumnEnvironment(frame, outer, written), ctes)
        if (distinct := args.get("distinct")) is not None:
            self.clause(distinct, place, ctes)
        if distinct is not None or any(counts_outputs(args.get(name)) for name in ("group", *ORDERING)):
            self.found.compute(output.columns)
        return output

    def select_list(
        self, items: Iterable[exp.Expr], around: ColumnEnvironment, ctes: CteOutputs
    ) -> tuple[Output, dict[str, Origins]]:
        """Walk the select list; a later item may use the alias of an earlier one."""
        columns: list[OutputColumn] = []
        written = dict(around.outputs)
        complete = True
        place = ColumnEnvironment(around.frame, around.parent, written)
        for item in items:
            if isinstance(item, exp.Aliases):
                self.expression(item.this, place, ctes)
                names = names_of(item.expressions)
                columns += [OutputColumn(name, NO_ORIGINS) for name in names]
                written.update(dict.fromkeys(names, NO_ORIGINS))  # RULE (generator-column-names)
                continue
            name = fold_identifier(item.args["alias"]) if isinstance(item, exp.Alias) else None
            value = item.this if isinstance(item, exp.Alias) else item
            while isinstance(value, exp.Paren):
                value = value.this
            if (star := star_of(value)) is not None:
                shown, known = self._expand(star, qualifier_of(value), place)
                columns += [c.column for c in shown]
                complete = complete and known
                continue
            parts = parts_of(value)
            # RULE (niladic-name-alone)
            if parts is None and (bare := bare_name(value, self.bare)) is not None:
                parts = (bare,)
            if parts is not None:
                origins = self._reference(parts, place, plain=True)
                passed = self.find_passed_column(parts, place.frame) if name is None else None
                columns.append(passed or OutputColumn(name or parts[-1], origins))
            else:
                origins = NO_ORIGINS
                self.expression(value, place, ctes)
                columns.append(OutputColumn(name if name is not None else self.infer_name(value), NO_ORIGINS))
                # Without an alias a generator may make any number of columns.
                complete = complete and not (name is None and isinstance(value, _MAY_BE_MANY))
            if name is not None:
                written[name] = written.get(name, NO_ORIGINS) | origins
        return Output(columns, complete), ScopeSource((), columns).names

    def find_passed_column(self, parts: Parts, frame: ColumnFrame) -> OutputColumn | None:
        """Return the very column that a name without an alias passes on, where somebody asks for it."""
        return None

    def infer_name(self, value: exp.Expr) -> str | None:
        """Return the name that Spark gives to a value without an alias, None where it is not known."""
        return None

    def _set_operation(
        self, node: exp.SetOperation, outer: ColumnEnvironment | None, ctes: CteOutputs
    ) -> Output:
        left = self.query(node.this, outer, ctes)
        right = self.query(node.expression, outer, ctes)
        return self._walk_modifiers(node, self.unite_outputs(node, left, right), outer, ctes)

    def unite_outputs(self, node: exp.SetOperation, left: Output, right: Output) -> Output:
        """Return the columns of a set operation, by their positions."""
        reject_unread_parts(node, SET_OPERATION_PARTS)
        if not (left.complete and right.complete) or len(left.columns) != len(right.columns):
            raise Unclear("the columns of a set operation cannot be matched")
        if not isinstance(node, exp.Union) or node.args.get("distinct") is not False:
            self.found.compute(left.columns + right.columns)  # rows are compared
        pairs = zip(left.columns, right.columns, strict=True)
        return Output([OutputColumn(a.name, a.origins | b.origins) for a, b in pairs])

    def _walk_modifiers(
        self, node: exp.Expr, output: Output, outer: ColumnEnvironment | None, ctes: CteOutputs
    ) -> Output:
        """Walk ORDER BY and LIMIT of a set operation or a bracketed query, which see its output only."""
        frame = ColumnFrame()
        frame.add(output.source())
        place = ColumnEnvironment(frame, outer)
        for name in (*ORDERING, "limit", "offset"):
            self.clause(node.args.get(name), place, ctes)
        if any(counts_outputs(node.args.get(name)) for name in ORDERING):
            self.found.compute(output.columns)
        return output

    # ---------------------------------------------------------------- relations

    def relation(
        self, node: exp.Expr, frame: ColumnFrame, lateral: ColumnEnvironment, ctes: CteOutputs
    ) -> None:
        """Bring what stands in a FROM clause into scope, and what is joined to it in the tree.

        Laterals and functions see `lateral`. `FROM a JOIN b SELECT …` and brackets have their joins here.
        """
        self._first(node, frame, lateral, ctes)
        for join in node.args.get("joins") or ():
            self.join(join, frame, lateral.parent, ctes)
        for view in node.args.get("laterals") or ():
            frame.add(self.lateral(view, ColumnEnvironment(frame, lateral.parent), ctes))

    def _first(
        self, node: exp.Expr, frame: ColumnFrame, lateral: ColumnEnvironment, ctes: CteOutputs
    ) -> None:
        match node:
            case exp.Table():
                reject_unread_parts(node, TABLE_PARTS)
                if (pipe := self.pipes.get(node.name.lower())) is not None and len(node.parts) == 1:
                    frame.join(self.walk_pipe(pipe, lateral.parent, ctes), (), left_only=False)
                    return
                self.clause(node.args.get("version"), lateral, ctes)
                self.clause(node.args.get("when"), lateral, ctes)
                source = self._table(node, lateral, ctes)
            case exp.Subquery(this=exp.Query()) | exp.Subquery(this=exp.Values()):
                reject_unread_parts(node, SUBQUERY_PARTS)
                # ORDER BY and the like belong to the query inside, the alias to the relation.
                output = self.query(node.this, lateral.parent, self.with_(node.args.get("with_"), None, ctes))
                source = self._walk_modifiers(node, output, lateral.parent, ctes).source()
            case exp.Subquery():
                reject_unread_parts(
                    node, frozenset({"this", "alias", "pivots", "sample", "joins", "laterals"})
                )
                self._walk_brackets(node, frame, lateral, ctes)
                return
            case exp.Values():
                source = self._values(node, lateral, ctes)
            case exp.Lateral():
                source = self.lateral(node, lateral, ctes)
            case _:
                raise Unclear(f"{NOT_UNDERSTOOD}{type(node).__name__} in a FROM clause")
        self.clause(node.args.get("sample"), lateral, ctes)
        if not isinstance(node, exp.Lateral):
            source = self._apply_alias(node, source, ctes)
        frame.add(source)

    def _walk_brackets(
        self, node: exp.Subquery, frame: ColumnFrame, lateral: ColumnEnvironment, ctes: CteOutputs
    ) -> None:
        """Bring `(a JOIN b …)` into scope: by its own names, or as one relation when it has an alias."""
        inner = ColumnFrame()
        self.relation(node.this, inner, ColumnEnvironment(inner, lateral.parent), ctes)
        self.clause(node.args.get("sample"), lateral, ctes)
        if node.args.get("alias") is None and not node.args.get("pivots"):
            if inner.merged and frame.sources:
                raise Unclear("a join in parentheses with merged columns")
            frame.join(inner, (), left_only=False)
            return
        tables = {c.table for c in inner.star if c.table is not None}
        if len(inner.sources) == 1:
            source = inner.sources[0]
        else:
            source = ScopeSource((), [c.column for c in inner.star], None, inner.complete)
            # As one relation it no longer says which table a column is of, so a star is taken for granted.
            self.found.stars |= tables
        frame.add(self._apply_alias(node, source, ctes))

    def _table(self, node: exp.Table, lateral: ColumnEnvironment, ctes: CteOutputs) -> ScopeSource:
        if not isinstance(node.this, exp.Identifier):
            if node.args.get("db") is not None:
                raise Unclear("a table function with a qualified name")
            self.expression(node.this, lateral, ctes)
            return ScopeSource((), [], None, complete=False)
        parts = tuple(fold_identifier(part) for part in node.parts)
        if len(parts) == 1 and parts[0] in ctes:
            return ctes[parts[0]].source(parts)
        self.relations.add(parts)
        if parts not in self.scans:
            raise Unclear(f"readers disagree: only column analysis sees `{'.'.join(parts)}`")
        return self.scans[parts]

    def _values(self, node: exp.Values, place: ColumnEnvironment | None, ctes: CteOutputs) -> ScopeSource:
        reject_unread_parts(node, VALUES_PARTS)
        width = 0
        place = place or ColumnEnvironment(ColumnFrame())
        for row in node.expressions:
            self.expression(row, place, ctes)
            width = max(width, len(row.expressions) if isinstance(row, exp.Tuple) else 1)
        return ScopeSource((), [OutputColumn(f"col{i}", NO_ORIGINS) for i in range(1, width + 1)])

    def lateral(self, node: exp.Lateral, place: ColumnEnvironment, ctes: CteOutputs) -> ScopeSource:
        reject_unread_parts(node, LATERAL_PARTS)
        this = node.this
        if isinstance(this, exp.Subquery):
            source = self.query(this, place, ctes).source()
        else:
            self.expression(this, place, ctes)
            source = ScopeSource((), [], None, complete=False)
        alias = node.args.get("alias")
        if alias is None or alias.this is None:
            return source
        columns = names_of(alias.args.get("columns"))
        self.references |= {(name,) for name in columns}  # Spark's parser lists them as references
        return source.rename(fold_identifier(alias.this), columns)

    def _apply_alias(self, node: exp.Expr, source: ScopeSource, ctes: CteOutputs) -> ScopeSource:
        """Put the alias and the pivots of a relation on it, in the order in which Spark does."""
        alias = node.args.get("alias")
        if alias is not None and alias.this is not None:
            columns = names_of(alias.args.get("columns"))
            if columns and source.table is not None:
                # RULE (alias-column-list)
                self.found.stars.add(source.table)  # it gives each of them a name
            source = source.rename(fold_identifier(alias.this), columns)
        for pivot in node.args.get("pivots") or ():
            source = self._pivot(pivot, source, ctes)
        return source

    def _pivot(self, node: exp.Expr, source: ScopeSource, ctes: CteOutputs) -> ScopeSource:
        """Walk PIVOT or UNPIVOT, which groups by or copies what it does not name: it uses every column."""
        frame = ColumnFrame()
        frame.add(source)
        return self.apply_pivot(node, frame, source.qualifier, ctes)

    def apply_pivot(
        self, node: exp.Expr, frame: ColumnFrame, qualifier: Parts, ctes: CteOutputs
    ) -> ScopeSource:
        """Return what PIVOT or UNPIVOT makes of all that is in scope."""
        if not isinstance(node, exp.Pivot):
            raise Unclear(f"{NOT_UNDERSTOOD}{type(node).__name__}")
        reject_unread_parts(node, PIVOT_PARTS)
        for part in (*node.expressions, *node.args.get("fields", ())):
            self.expression(part, ColumnEnvironment(frame), ctes)
        if node.args.get("unpivot"):  # Spark's parser lists the names of its values, to drop nulls
            values = (name for part in node.expressions for name in part.find_all(exp.Identifier))
            self.references |= {(fold_identifier(name),) for name in values}  # RULE (unpivot-names)
        self.show(frame.star)
        self.found.compute(c.column for c in frame.star)
        alias = node.args.get("alias")
        if alias is not None and alias.this is not None:
            qualifier = (fold_identifier(alias.this),)
        return ScopeSource(qualifier, [], None, complete=False)

    def join(
        self, node: exp.Join, frame: ColumnFrame, outer: ColumnEnvironment | None, ctes: CteOutputs
    ) -> None:
        reject_unread_parts(node, JOIN_PARTS)
        args = node.args
        right = ColumnFrame()
        self.relation(node.this, right, ColumnEnvironment(frame, outer), ctes)
        using = list(dict.fromkeys(names_of(args.get("using"))))
        if str(args.get("method") or "").upper() == "NATURAL":
            if not (frame.complete and right.complete):
                raise Unclear("a natural join with unknown columns")
            mine = {c.column.name for c in frame.star}
            shared = dict.fromkeys(c.column.name for c in right.star if c.column.name in mine)
            using = [name for name in shared if name is not None]
            # It compares all columns that both have, whatever they are called.
            tables = {s.table for s in (*frame.sources, *right.sources)}
            tables |= {c.table for c in (*frame.star, *right.star)}
            # RULE (natural-join-all-columns)
            self.found.stars |= {table for table in tables if table is not None}
        elif args.get("method"):
            raise Unclear(f"{NOT_UNDERSTOOD}a {args['method']} join")
        for name in using:
            self.found.mark(frame.column(name) | right.column(name), plain=False)
        if (on := args.get("on")) is not None:
            both = ColumnFrame(frame.sources + right.sources, [], {**frame.merged, **right.merged})
            both.open = frame.open or right.open
            self.expression(on, ColumnEnvironment(both, outer), ctes)
        kind = str(args.get("kind") or "").upper()
        frame.join(right, using, left_only=kind in ("SEMI", "ANTI"))

    def walk_pipe(
        self, operators: Sequence[str], outer: ColumnEnvironment | None, ctes: CteOutputs
    ) -> ColumnFrame:
        """Return what a piped query brings into scope for what stands behind it."""
        raise Unclear("pipe syntax")

    # ---------------------------------------------------------------- expressions

    def clause(self, node: exp.Expr | None, place: ColumnEnvironment, ctes: CteOutputs) -> None:
        if isinstance(node, exp.Expr):
            self.expression(node, place, ctes)

    def expression(self, root: exp.Expr, place: ColumnEnvironment, ctes: CteOutputs) -> None:
        """Walk an expression: everything that it reads counts as computed with. No recursion per operator."""
        stack = [root]
        while stack:
            node = stack.pop()
            if node.args.get("all") or (isinstance(node, exp.Var) and node.name.upper() == "ALL"):
                self.references.add(("all",))  # GROUP BY ALL: Spark's parser lists it as a reference
            if isinstance(node, LEAVES):
                continue
            if (star := star_of(node)) is not None:
                shown, _ = self._expand(star, qualifier_of(node), place)
                self.found.compute(c.column for c in shown)
            elif (parts := parts_of(node)) is not None:
                self._reference(parts, place, plain=False)
            elif (bare := bare_name(node, self.bare)) is not None:  # RULE (niladic-name-column)
                self._reference((bare,), place, plain=False)
            elif isinstance(node, exp.Lambda):
                variables = dict.fromkeys(names_of(node.expressions), NO_ORIGINS)
                inner = ColumnEnvironment(ColumnFrame(), place, variables, "outputs")
                self.expression(node.this, inner, ctes)
            elif isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
                continue  # count(*) counts rows
            elif isinstance(node, exp.Exists) and is_star_query(node.this):
                self.query(without_list(node.this), place, ctes)
                self.star_references.add(())
            elif isinstance(node, (exp.Query, exp.Values)):
                self.found.compute(self.query(node, place, ctes).columns)
            elif isinstance(node, (exp.Table, exp.Command)):
                raise Unclear(f"{NOT_UNDERSTOOD}{type(node).__name__} in an expression")
            else:
                stack.extend(node.iter_expressions())

    def _order(
        self,
        clause: exp.Expr | None,
        frame: ColumnFrame,
        outer: ColumnEnvironment | None,
        written: dict[str, Origins],
        ctes: CteOutputs,
    ) -> None:
        """Walk ORDER BY and the like, where a bare name is the output column.

        Within an expression it may be either: `SELECT max(x) AS y … ORDER BY max(y)`.
        """
        for item in clause.iter_expressions() if clause is not None else ():
            bare = parts_of(item.this if isinstance(item, exp.Ordered) else item) is not None
            place = ColumnEnvironment(frame, outer, written, "outputs" if bare else "both")
            self.expression(item, place, ctes)

    def _reference(self, parts: Parts, place: ColumnEnvironment, *, plain: bool) -> Origins:
        self.references.add(parts)
        origins = place.resolve(parts)
        if (word := place.looks_for(parts)) is not None:
            self.found.words.add(word)
        self.found.mark(origins, plain=plain)
        return origins

    def _expand(
        self, star: exp.Star, qualifier: Parts, place: ColumnEnvironment
    ) -> tuple[list[StarColumn], bool]:
        """Expand a star, without the columns that its EXCEPT names."""
        reject_unread_parts(star, frozenset({"except_"}))
        self.star_references.add(qualifier)
        if not place.frame.sources:
            raise Unclear("a star without a FROM clause")
        shown, complete = place.frame.select(qualifier)
        if len(shown) == 1 and shown[0].column.name is None:
            self.found.mark(shown[0].column.origins, plain=True)  # the fields of a named struct column
        excluded = {p for e in star.args.get("except_") or () if (p := parts_of(e)) and len(p) == 1}
        shown = [c for c in shown if (c.column.name,) not in excluded]
        self.show(shown)
        return shown, complete

    def show(self, columns: Iterable[StarColumn]) -> None:
        for shown in columns:
            self.found.used |= shown.column.origins
            if shown.table is not None:
                self.found.stars.add(shown.table)
