"""What a view shows, made of copies: its text is run over copies of what it reads, and what comes of it is a
table like any other, of which rows, columns and masks are then taken (docs/adr/0016).

Nothing of judging is used but names: which relations a text reads. Which of their columns a reader needs of
the definer, Spark tells, who finds the text's columns, or does not, where only the reader's are there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gateway.jobs.proof.copies import Unprovable, recipe, selectable
from gateway.jobs.proof.sandbox import Sandbox, Standing
from gateway.model.catalog import Table, TableKind, TableName
from gateway.model.context import AccessContext
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal, principal_of
from gateway.model.reading import Reading, RelationRole
from gateway.pipeline import Rules

NAMES = "the tables that it, or a view that it reads, refers to cannot be determined"
_Below = Mapping[TableName, Sequence[TableName]]
"""View name → the tables that its text reads, both folded."""


def list_named_tables(
    reading: Reading, catalog: str, namespace: Sequence[str], tables: Mapping[TableName, Table]
) -> tuple[TableName, ...]:
    """Return the tables and views (folded) that a text names, read in this namespace. Raises Unprovable."""
    found: dict[TableName, None] = {}
    for relation in reading.relations:
        if relation.role is RelationRole.CTE:
            continue
        missing = (catalog, *namespace)[: max(0, 3 - len(relation.parts))]
        try:
            name = TableName.of((*missing, *relation.parts)).fold()
        except ValueError:
            raise Unprovable(NAMES) from None
        if name not in tables:
            raise Unprovable(NAMES)
        found[name] = None
    return tuple(found)


def bottom_up(tables: Sequence[Table], below: _Below) -> list[Table]:
    """Return tables first, then each view behind all that it reads. Raises Unprovable where that cannot
    be."""
    found = [table for table in tables if table.kind is TableKind.TABLE]
    there = {table.name.fold() for table in found}
    views = [table for table in tables if table.kind is TableKind.VIEW]
    while views:
        ready = [view for view in views if there.issuperset(below[view.name.fold()])]
        if not ready:
            raise Unprovable(NAMES)
        found += ready
        there.update(view.name.fold() for view in ready)
        views = [view for view in views if view not in ready]
    return found


@dataclass(frozen=True, slots=True)
class _Access:
    """The principal whose access one text is read with."""

    readers: tuple[Principal, ...]
    """Those whose masks and filters hold in any case."""
    accessors: tuple[Principal, ...]
    """Those who must have select on what it reads."""
    definer: Principal | None = None
    view: Table | None = None
    """The view whose text it is."""


@dataclass(slots=True, kw_only=True)
class Copying:
    """Makes the copies of one statement. Calls block, and raise Unprovable, Failed, TooLarge."""

    sandbox: Sandbox
    policies: PolicySet
    rules: Rules
    principals: Mapping[str, Principal]
    context: AccessContext
    below: _Below
    unanalysed: frozenset[TableName]
    """Tables (folded) of which the gateway could not tell which columns are used; then all count as used."""
    hides: bool = field(default=False, init=False)
    """Whether something was hidden from one of those who read."""

    def of(self, principal: Principal, names: Sequence[TableName]) -> dict[TableName, Standing]:
        """Return what stands for the relations that a user's own text names."""
        own = _Access(readers=(principal,), accessors=(principal,))
        return {name: self._copy(name, own) for name in names}

    def _copy(self, name: TableName, access: _Access) -> Standing:
        table = self.sandbox.table(name)
        eyes, definer = access.readers, access.definer
        if (
            definer is not None
            and definer not in eyes
            and any(self._lacks(one, table, access) for one in eyes)
        ):
            eyes = (*eyes, definer)
        made = recipe(self.policies, eyes, access.accessors, table, self.context)
        self.hides = self.hides or made.hides
        if table.kind is not TableKind.VIEW:
            return self.sandbox.copy(table, made)
        within = self._access_of(table, eyes)
        base = self.sandbox.write_view(table, {one: self._copy(one, within) for one in self.below[name]})
        return self.sandbox.copy(table, made, base)

    def _access_of(self, view: Table, readers: tuple[Principal, ...]) -> _Access:
        definer = view.view.definer if view.view is not None else ""
        if self.rules.views == "invoker":
            definer = ""
        elif definer is None and self.rules.unrecorded_views == "operator":
            return _Access(readers=readers, accessors=(), view=view)
        elif definer is None:
            owner = (view.owner or "") if self.rules.unrecorded_views == "owner" else ""
            named = self.principals.get(owner)
            definer = named.identity if named is not None else owner
        if not definer:
            return _Access(readers=readers, accessors=readers, view=view)
        principal = principal_of(definer, self.principals.get)
        if principal is None:
            raise Unprovable("it reads a view whose definer no longer exists")
        return _Access(readers=readers, accessors=(principal,), definer=principal, view=view)

    def _lacks(self, reader: Principal, table: Table, access: _Access) -> bool:
        """Whether a reader may not select all that a view's text uses of a relation."""
        columns = selectable(self.policies, reader, table, self.context)
        if len(columns) == len(table.columns):
            return False
        if table.name.fold() in self.unanalysed:
            return True
        return not columns or access.view is None or not self.sandbox.finds(access.view, table, columns)
