"""What every name of a query means: the one place where names of columns are looked up.

A `Resolver` goes through a relation once, from what it reads upwards, and knows at each node which columns it
has. What a column is worth, a `Domain` says: the type that it has, the stored columns that it comes from. A
name has one of four answers, and only `FoundName` says what it means; a domain that decides anything takes
the others for "not known".

How Spark looks names up, whatever they are asked for:

* A query's own columns come first, then names that its select list has given before (lateral aliases), then
  those of the query around it.
* The column that USING makes of two is the left one's, after RIGHT JOIN the right one's, and after FULL JOIN
  the first of both that is not NULL. It comes first and alone has the plain name; `a.id` and `b.id` stay what
  they were. Of several columns with the name a side gives the first, and the others keep it too. NATURAL is
  USING with the plain names that both sides have, in the left one's order.
* What an alias is given to, or a common table expression, shows what its plain names find, and nothing else.
* A set operation has the names of its first relation; UNION alone has values of the others, found by place or
  by name.
* LATERAL VIEW adds its columns behind those of each row. What stands behind LATERAL sees what is before it.
* A column that a select list passes on is still found by the relation that it is of; behind an alias not.
* A reference may go on with fields of a column. What a longer qualifier means comes first: of `a.s.f`, the
  column `s` of `a` before the field `s` of a column `a`.
* Variables of a lambda function come before everything around it.
* A common table expression that reads itself has the columns of its first branch, and what its rounds add.
  One that is not recursive does not know its own name: that is another's around it, or a table's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Never

from gateway.algebra.domain import Domain
from gateway.algebra.nodes import (
    Aggregate,
    Alias,
    ChangedColumns,
    ColumnAliases,
    DroppedColumns,
    Expression,
    Filter,
    Generate,
    InlineTable,
    Join,
    JoinKind,
    Lambda,
    Literal,
    NamedCall,
    NamedColumn,
    NamedScan,
    OneRow,
    OpaqueExpression,
    OpaqueRelation,
    Pass,
    Pivot,
    Projection,
    RelationNode,
    RenamedColumns,
    SetKind,
    SetOperation,
    Star,
    Subquery,
    SubqueryAlias,
    TableFunction,
    Unpivot,
    WindowCall,
    With,
    WithColumns,
)
from gateway.algebra.scope import (
    AmbiguousName,
    NameAnswer,
    NameScope,
    OpenName,
    RelationColumn,
    RelationColumns,
    UnknownName,
    V,
    is_named,
    list_join_names,
    list_meant,
    scope_of,
    star_columns,
)
from gateway.algebra.walking import infer_name, list_asked, list_column_names, list_given
from gateway.model.reading import Span

MAX_STEPS: Final = 300_000
"""Columns and expressions that are looked at, about a tenth of a second of it."""


_Inputs = Sequence[RelationColumns[V]]


class TooMuch(Exception):
    """A query whose columns cannot be followed in a reasonable time."""


@dataclass(slots=True)
class Resolver(Generic[V]):
    domain: Domain[V]
    ctes: frozenset[Span]
    """The places that name common table expressions."""
    only: frozenset[str] | None = None
    """The names, lower case, that stored columns are looked up by; others are left out. None: all."""
    many: Callable[[NamedCall], bool] = lambda _: True
    """Whether a function may make several columns of a select list."""
    recursion: bool = False
    """Whether common table expressions that read themselves are followed; else nothing is known of them."""
    full_names: Mapping[Span, tuple[str, ...]] = field(default_factory=dict)
    """What stored relations are called in full, by their places; of others only what is written is known."""
    by_plan: Mapping[int, Sequence[RelationNode]] = field(default_factory=dict)
    """The relations of a plan by their ids, which references may say. Without any these say nothing."""
    flat: bool = False
    """Whether all that the domain asks of an expression are the values that it is made of, however deep, and
    what an opaque one is."""
    unnamed: Callable[[Expression, V, NameScope[V]], Sequence[RelationColumn[V]] | None] | None = None
    """What an item of a select list without an alias shows, where a domain knows it; None: nothing does."""
    complete: Callable[..., RelationColumns[V]] | None = None
    """Given a relation, its inputs and its columns, what a domain knows these to be. None: just these."""
    again: Callable[[RelationColumns[V]], RelationColumns[V]] | None = None
    """What a common table expression that reads itself has of its rounds before; None: all that it made."""
    max_steps: int = MAX_STEPS
    steps: int = 0
    _known: dict[int, RelationColumns[V]] = field(default_factory=dict)
    """By the identity of a relation, each of which stands at one place."""

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Forget what is found of relations meanwhile: an expression may be looked at in two scopes."""
        known = self._known
        self._known = dict(known)
        try:
            yield
        finally:
            self._known = known

    def step(self, count: int = 1) -> None:
        self.steps += count
        if self.steps > self.max_steps:  # RULE (leakproof-steps)
            raise TooMuch

    def relation(self, relation: RelationNode, scope: NameScope[V]) -> RelationColumns[V]:
        """Return the columns of a relation, without recursion over those that it reads."""
        known = self._known
        if (columns := known.get(id(relation))) is not None:
            return columns
        order: list[RelationNode] = []
        waiting = [relation]
        while waiting:
            one = waiting.pop()
            if id(one) in known:
                continue
            order.append(one)
            if isinstance(one, With):
                continue  # its query stands within
            if isinstance(one, Join) and one.lateral:
                waiting.append(one.left)
            else:
                waiting += one.inputs
        for one in reversed(order):
            if id(one) not in known:
                columns = known[id(one)] = self._relation(one, scope)
                self.step(1 + len(columns.columns))
        return known[id(relation)]

    def within(self, relation: With, scope: NameScope[V]) -> NameScope[V]:
        """Return the scope of a query with common table expressions. To one that is not recursive its own
        name is that of another around it."""
        ctes = dict(scope.ctes)
        for written, definition in relation.definitions:
            name = written.lower()
            if relation.recursive:  # RULE (recursive-name-hides)
                ctes.pop(name, None)
            here = NameScope(dict(ctes), scope.levels)
            followed = relation.recursive and self.recursion
            ctes[name] = self._rounds(name, definition, here) if followed else self.relation(definition, here)
        return NameScope(ctes, scope.levels)

    def _rounds(self, name: str, definition: RelationNode, scope: NameScope[V]) -> RelationColumns[V]:
        """Return the columns of what may read itself: those of its first branch, then with what each round
        adds to them, until one adds nothing."""
        known: RelationColumns[V] | None = None
        body = definition
        while isinstance(body, SubqueryAlias | ColumnAliases | Pass):
            body = body.input
        if isinstance(body, SetOperation):
            known = self.relation(body.inputs[0], scope)
            names = list_column_names(definition)
            if names and len(names) == len(known.columns):
                pairs = zip(names, known.columns, strict=True)
                columns = tuple([RelationColumn(one.lower(), column.value) for one, column in pairs])
                known = RelationColumns(columns, known.open)
        while True:
            ctes = {**scope.ctes}
            if known is not None:
                ctes[name] = known if self.again is None else self.again(known)
            with self.aside():  # what was found in a round does not hold in the next
                found = self.relation(definition, NameScope(ctes, scope.levels))
            shown = found.with_name(frozenset())
            if known is None or shown == known:
                return found
            known = shown

    def value(self, expression: Expression, scope: NameScope[V]) -> V:
        """Return what an expression is worth, without recursion over what it is made of."""
        if self.flat:
            return self._flat_value(expression, scope)
        order: list[tuple[Expression, int]] = []
        waiting = [expression]
        while waiting:
            one = waiting.pop()
            if type(one) in _ON_THEIR_OWN:
                order.append((one, 0))
                continue
            operands = one.operands
            if isinstance(one, WindowCall):
                operands = (*one.function.operands, *one.keys)
            order.append((one, len(operands)))
            waiting += operands
        self.step(len(order))
        values: list[V] = []
        for one, count in reversed(order):
            if not count:
                values.append(self._value(one, (), scope))
                continue
            made = values[-count:]
            del values[-count:]
            values.append(self._value(one, made, scope))
        return values[0]

    def _flat_value(self, root: Expression, scope: NameScope[V]) -> V:
        """Return the same, computed at once of all that an expression is made of."""
        while type(root) is Alias:
            root = root.operand
        if type(root) is NamedColumn:  # as most items of a select list are
            self.step(2)
            return self.domain.column(root, self.answer(root, scope), scope)
        values: list[V] = []
        waiting: list[Expression] = [root]
        steps = 0
        while waiting:
            one = waiting.pop()
            steps += 1
            kind = type(one)
            if kind is Literal:
                continue
            if type(one) is NamedColumn:
                steps += 1
                values.append(self.domain.column(one, self.answer(one, scope), scope))
            elif kind in _ALONE:
                values.append(self._value(one, (), scope))
                waiting += one.operands if kind is Star else ()
            elif isinstance(one, WindowCall):
                waiting += (*one.function.operands, *one.keys)
            else:
                if kind is OpaqueExpression and one is not root:
                    self.domain.compute(one, ())
                waiting += one.operands
        self.step(steps)
        return values[0] if type(root) in _ALONE else self.domain.compute(root, values)

    def _value(self, expression: Expression, operands: Sequence[V], scope: NameScope[V]) -> V:
        match expression:
            case NamedColumn():
                self.step()
                return self.domain.column(expression, self.answer(expression, scope), scope)
            case Subquery():
                return self.domain.query(expression, scope)
            case Star():
                tiers = self.tiers(expression, scope)
                shown = [one for tier in tiers for one in star_columns(expression, tier)]
                self.step(len(shown))
                return self.domain.star(expression, shown, scope)
            case Lambda():
                body = self.value(expression.body, scope.bind_variables(self.list_made(expression.variables)))
                return self.domain.compute(expression, [body])
        return self.domain.compute(expression, operands)

    def answer(self, column: NamedColumn, scope: NameScope[V]) -> NameAnswer[V]:
        """Return what a reference means: a DataFrame's own column is one of its relation's."""
        if column.plan_id is None or not self.by_plan:
            return scope.resolve(column.parts)
        relations = self.list_of_plan(column.plan_id)
        self.step(len(relations))
        found = [scope_of(one).resolve(column.parts) for one in relations]
        sure = [one for one in found if not isinstance(one, UnknownName)]
        if len(sure) <= 1:
            return sure[0] if sure else UnknownName()
        columns: list[RelationColumn[V]] = []
        for one in sure:
            columns += list_meant(one)[0]
        if any(isinstance(one, OpenName) for one in sure):
            return OpenName(tuple(columns))
        return AmbiguousName(tuple(columns), 0, open=False)

    def tiers(self, star: Star, scope: NameScope[V]) -> Sequence[RelationColumns[V]]:
        """Return what a star is of."""
        if star.plan_id is not None and self.by_plan:
            return self.list_of_plan(star.plan_id)
        if star.qualifier:  # RULE (star-of-outer-query)
            qualifier = tuple([part.lower() for part in star.qualifier])
            for tiers in scope.levels:
                if any(qualifier in one.qualifiers for tier in tiers for one in tier.columns):
                    return tiers
        return scope.levels[0] if scope.levels else ()

    def list_of_plan(self, plan_id: int) -> Sequence[RelationColumns[V]]:
        """Return the relations of an id, as far as they are below."""
        relations = self.by_plan.get(plan_id, ())
        return [self._known[id(one)] for one in relations if id(one) in self._known]

    def _relation(self, relation: RelationNode, scope: NameScope[V]) -> RelationColumns[V]:
        """Return the columns of a relation whose inputs are known, but for queries within it."""
        if isinstance(relation, NamedScan):
            found = self._scan(relation, scope)
            return found if self.complete is None else self.complete(relation, (), found, scope)
        if isinstance(relation, With):
            return self.relation(relation.input, self.within(relation, scope))
        if isinstance(relation, Join) and relation.lateral:
            left = self._known[id(relation.left)]
            below = [left, self.relation(relation.right, scope.over(left))]
        else:
            below = [self._known[id(one)] for one in relation.inputs]
        inputs = self.domain.decide(relation, below, scope)
        found = _COLUMNS[type(relation)](self, relation, inputs, scope)
        return found if self.complete is None else self.complete(relation, inputs, found, scope)

    def list_made(self, names: Iterable[str]) -> RelationColumns[V]:
        """Return columns of which nothing but the names is known."""
        return RelationColumns(tuple([RelationColumn(one.lower(), self.domain.variable()) for one in names]))

    # The columns of each relation: of its inputs, as the domain has them below it.

    def _same(self, relation: RelationNode, inputs: _Inputs[V], scope: NameScope[V]) -> RelationColumns[V]:
        return inputs[0]

    def _alias(self, relation: SubqueryAlias, inputs: _Inputs[V], scope: NameScope[V]) -> RelationColumns[V]:
        return inputs[0].with_name(frozenset({(relation.name.lower(),)}))

    def _project(
        self, relation: Projection | Aggregate, inputs: _Inputs[V], scope: NameScope[V]
    ) -> RelationColumns[V]:
        return self.list_columns(relation.items, inputs[0], scope)

    def _scan(self, scan: NamedScan, scope: NameScope[V]) -> RelationColumns[V]:
        named = self.full_names.get(scan.span, scan.parts) if scan.span is not None else scan.parts
        parts = tuple([part.lower() for part in named])
        qualifiers = frozenset(parts[start:] for start in range(len(parts)))
        if scan.span in self.ctes:
            known = scope.ctes.get(parts[-1])
            inputs = self.domain.decide(scan, [] if known is None else [known], scope)
            return inputs[0].with_name(qualifiers) if inputs else _UNLISTED
        stored = self.domain.scan(scan)
        if stored is None:
            return RelationColumns(open=True, unlisted=qualifiers, uncounted=True)
        columns = [
            RelationColumn(name.lower(), value, qualifiers)
            for name, value in stored
            if self.only is None or name.lower() in self.only
        ]
        return RelationColumns(tuple(columns))

    def list_columns(
        self, items: Sequence[Expression], below: RelationColumns[V], scope: NameScope[V]
    ) -> RelationColumns[V]:
        """Return what a select list shows."""
        asked = list_asked(items)
        if asked and not below.open:
            asked -= {one.name for one in below.columns}
        columns: list[RelationColumn[V]] = []
        given: list[RelationColumn[V]] = []
        is_open = uncounted = False
        here = scope.over(below)
        for item in items:
            if isinstance(item, Star):
                tiers = self.tiers(item, scope.over(below))
                if item.replaced:
                    shown = self._replace_in_star(item, below, here)
                else:
                    shown = [one for tier in tiers for one in star_columns(item, tier)]
                self.step(len(shown))
                expanded = self.domain.expand(item, shown, here)
                columns += [one._replace(bare=True) for one in expanded]
                # What has a qualifier that is none of a relation's is a column with fields.
                unknown = bool(item.qualifier) and not expanded
                # RULE (star-of-plan)
                unknown |= item.plan_id is not None and not self.by_plan
                is_open |= unknown or any(tier.open for tier in tiers)
                uncounted |= unknown or any(tier.uncounted for tier in tiers)
                continue
            value = self.domain.item(item, self.value(item, here))
            if names := list_given(item):
                made = [RelationColumn(name, value) for name in names]
                columns += made
                if asked and any(one.name in asked for one in made):  # RULE (with-columns-lateral)
                    given += made
                    here = scope.over(below, RelationColumns(tuple(given)))
            elif self.unnamed is not None and (named := self.unnamed(item, value, here)) is not None:
                columns += named
            elif isinstance(item, NamedColumn):
                passed = below.find_columns(item.parts)
                # RULE (list-keeps-relation-names)
                qualifiers = passed[0].qualifiers if len(passed) == 1 else frozenset()
                columns.append(RelationColumn(item.parts[-1].lower(), value, qualifiers))
            else:
                name = infer_name(item)
                columns.append(RelationColumn(name, value, guessed=bool(name)))
                is_open = True
                uncounted |= isinstance(item, OpaqueExpression) and item.several
                uncounted |= isinstance(item, NamedCall) and self.many(item)
        return RelationColumns(tuple(columns), is_open, uncounted=uncounted)

    def _replace_in_star(
        self, star: Star, below: RelationColumns[V], scope: NameScope[V]
    ) -> list[RelationColumn[V]]:
        """Return what a star shows that has other columns in the places of some."""
        values = [self.domain.item(one, self.value(one, scope)) for one in star.replaced]
        instead = list(zip(star.excluded, values, strict=True))
        found = []
        for one in star_columns(replace(star, excluded=()), below):
            value = [value for parts, value in instead if is_named(one, parts)]
            found.append(RelationColumn(one.name, value[0]) if value else one)
        return found

    def _replace_columns(
        self, relation: WithColumns, inputs: _Inputs[V], scope: NameScope[V]
    ) -> RelationColumns[V]:
        (below,) = inputs
        made = {one.name: one for one in self.list_columns(relation.items, below, scope).columns}
        columns = [made.get(one.name, one) for one in below.columns if one.bare]
        more = [one for one in made.values() if not below.find_columns((one.name,))]
        columns += more
        # Of columns that are not known one may have the name.
        uncounted = below.uncounted or (below.open and bool(more))
        return RelationColumns(tuple(columns), below.open, below.unlisted, uncounted)

    def _rename_some(
        self, relation: RenamedColumns, inputs: _Inputs[V], scope: NameScope[V]
    ) -> RelationColumns[V]:
        (below,) = inputs
        columns = [one for one in below.columns if one.bare]
        for old, new in relation.names:
            self.step(len(columns))
            columns = [
                one._replace(name=new.lower(), qualifiers=frozenset()) if one.name == old.lower() else one
                for one in columns
            ]
        return RelationColumns(tuple(columns), below.open, below.unlisted, below.uncounted)

    def _drop_columns(
        self, relation: DroppedColumns, inputs: _Inputs[V], scope: NameScope[V]
    ) -> RelationColumns[V]:
        (below,) = inputs
        names = {name.lower() for name in relation.names}
        columns = [one for one in below.columns if not (one.bare and one.name in names)]
        for reference in relation.columns:
            self.step(len(columns))
            parts = tuple([part.lower() for part in reference.parts])
            found = [one for one in columns if is_named(one, parts) and (one.bare or len(parts) > 1)]
            if reference.plan_id is not None:
                theirs = [its for one in self.list_of_plan(reference.plan_id) for its in one.columns]
                same = [one for one in found if any(one is its for its in theirs)]
                equal = [one for one in found if any(one.value == its.value for its in theirs)]
                # Where it is not known which one is meant, all stay: what is left is read.
                found = next((sure for sure in (same, equal) if len(sure) == 1), [])  # RULE (dropped-column)
            columns = [one for one in columns if not any(one is gone for gone in found)]
        uncounted = below.uncounted or below.open  # one that is dropped may be among those not known
        return RelationColumns(tuple(columns), below.open, below.unlisted, uncounted)

    def _change_columns(
        self, relation: ChangedColumns, inputs: _Inputs[V], scope: NameScope[V]
    ) -> RelationColumns[V]:
        (below,) = inputs
        names = {one.parts[-1].lower() for one in relation.changed if isinstance(one, NamedColumn)}
        every = any(not isinstance(one, NamedColumn) for one in relation.changed)
        changed = OpaqueExpression(relation.changed, complete=True)
        made = self.value(changed, scope.over(below))
        columns = [one._replace(value=made) if every or one.name in names else one for one in below.columns]
        return RelationColumns(tuple(columns), below.open, below.unlisted, below.uncounted)

    def _rename_columns(
        self, relation: ColumnAliases, inputs: _Inputs[V], scope: NameScope[V]
    ) -> RelationColumns[V]:
        """Spark takes a list that is as long as the columns are many, and no other: so where there are as
        many here, these are all."""
        (below,) = inputs
        shown = [one for one in below.columns if one.bare]
        # RULE (places-of-all-columns)
        if self.only is not None or not len(relation.names) == len(shown) == len(below.columns):
            return _UNLISTED
        pairs = zip(relation.names, shown, strict=True)
        return RelationColumns(tuple([RelationColumn(name.lower(), one.value) for name, one in pairs]))

    def _generate_columns(
        self, relation: Generate, inputs: _Inputs[V], scope: NameScope[V]
    ) -> RelationColumns[V]:
        (below,) = inputs
        value = self.value(relation.generator, scope.over(below))
        qualifiers = frozenset({(relation.alias.lower(),)})
        made = [RelationColumn(name.lower(), value, qualifiers) for name in relation.names]
        unlisted = frozenset() if made else qualifiers
        return below.beside(RelationColumns(tuple(made), not made, unlisted, not made))

    def _join_columns(self, join: Join, inputs: _Inputs[V], scope: NameScope[V]) -> RelationColumns[V]:
        left, right = inputs
        both = left.beside(right)
        if join.natural and both.open:
            return _UNLISTED
        names = list_join_names(join, left, right)
        if join.kind in LEFT_ONLY:  # RULE (join-keys-first)
            keys = [one for name in names for one in left.find_columns((name,))[:1]]
            others = [one for one in left.columns if not any(one is key for key in keys)]
            return replace(left, columns=(*keys, *others))
        if not names:
            return both
        merged: list[RelationColumn[V]] = []
        hidden: list[RelationColumn[V]] = []
        for name in names:
            # RULE (join-key-first-of-several)
            ours, theirs = left.find_columns((name,))[:1], right.find_columns((name,))[:1]
            if not (ours or left.open) or not (theirs or right.open):
                return _UNLISTED
            hidden += (*ours, *theirs)
            # On a side whose columns are not all known, it may be one of the others.
            sides = [one[0].value if one else self.domain.variable() for one in (ours, theirs)]
            value = sides[join.kind is JoinKind.RIGHT_OUTER]
            if join.kind is JoinKind.FULL_OUTER:  # RULE (full-join-either-column)
                value = self.domain.merge(sides)
            guessed = any(one.guessed for one in (*ours, *theirs))
            merged.append(RelationColumn(name.lower(), value, guessed=guessed))
        merged_ids = {id(one) for one in hidden}
        rest = [one for one in both.columns if id(one) not in merged_ids]
        columns = (*merged, *[one._replace(bare=False) for one in hidden], *rest)
        return RelationColumns(columns, both.open, both.unlisted, both.uncounted)

    def _set(self, relation: SetOperation, inputs: _Inputs[V], scope: NameScope[V]) -> RelationColumns[V]:
        first, *others = [[one for one in side.columns if one.bare] for side in inputs]
        # With some columns left out, places say nothing; nor do they add a name.
        whole = self.only is None
        is_open = any(side.open for side in inputs) if whole else inputs[0].open
        columns: list[RelationColumn[V]] = []
        for place, one in enumerate(first):
            values = [one.value]
            for other in others if relation.kind is SetKind.UNION else ():
                same = other[place : place + 1]
                if relation.by_name:
                    same = [its for its in other if its.name == one.name]
                is_open |= whole and len(same) != 1 and not relation.missing
                values += [its.value for its in same]
            columns.append(RelationColumn(one.name, self.domain.merge(values), guessed=one.guessed))
        names = {one.name for one in first}
        if relation.by_name and relation.missing:
            more = {one.name: one for other in others for one in other if one.name not in names}
            columns += [one._replace(qualifiers=frozenset()) for one in more.values()]
        else:
            is_open |= whole and any(len(other) != len(first) for other in others)
        return RelationColumns(tuple(columns), is_open, uncounted=any(side.uncounted for side in inputs))


_UNLISTED: Final[RelationColumns[Any]] = RelationColumns(open=True, uncounted=True)
# Called with a relation of their class only; a test compares them with the classes there are.
RELATIONS: Final[
    Mapping[type, Callable[[Resolver[Any], Never, _Inputs[Any], NameScope[Any]], RelationColumns[Any]]]
] = {
    Aggregate: Resolver._project,
    ChangedColumns: Resolver._change_columns,
    ColumnAliases: Resolver._rename_columns,
    DroppedColumns: Resolver._drop_columns,
    Filter: Resolver._same,
    Generate: Resolver._generate_columns,
    InlineTable: lambda resolver, relation, *_: resolver.list_made(relation.names),
    Join: Resolver._join_columns,
    OneRow: lambda *_: RelationColumns(),
    OpaqueRelation: lambda *_: _UNLISTED,
    Pass: Resolver._same,
    Pivot: lambda *_: _UNLISTED,
    Projection: Resolver._project,
    RenamedColumns: Resolver._rename_some,
    SetOperation: Resolver._set,
    SubqueryAlias: Resolver._alias,
    TableFunction: lambda *_: _UNLISTED,
    Unpivot: lambda *_: _UNLISTED,
    WithColumns: Resolver._replace_columns,
}
_COLUMNS: Final[Mapping[type, Callable[..., RelationColumns[Any]]]] = RELATIONS
_ON_THEIR_OWN: Final = frozenset({Lambda, Literal, NamedColumn, Subquery})
"""Expressions without operands, or with some that stand in a scope of their own."""
_ALONE: Final = frozenset({Lambda, NamedColumn, Star, Subquery})
"""Those that are worth something by themselves, and not by what they are made of."""
LEFT_ONLY: Final = frozenset({JoinKind.LEFT_ANTI, JoinKind.LEFT_SEMI})
"""Joins that show the left side alone."""
