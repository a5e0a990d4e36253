"""By whose access a text is read, and whose masks and filters hold on what it reads (docs/adr/0016).

A client's own text is read by its principal. The text of a view is read by the access of its definer, as that
is now, and shows nobody more than the definer sees: where the reader's own access would not do, the masks and
filters of both hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gateway.model.catalog import Column, Table, TableKind, TableName
from gateway.model.principal import Principal, principal_of, user_of
from gateway.pipeline.judging import Judging
from gateway.policy.engine import TableView
from gateway.policy.views import merge_table_views
from gateway.sql.evaluate import Denied, Evaluation
from gateway.sql.scope import table_resource

Eye = tuple[Principal, TableView]
"""Somebody whose masks and filters hold on a table, and what they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """By whose access one text is read."""

    readers: tuple[Principal, ...]
    """Those who read it: the statement's principal, and the definers of views around it by whose access it is
    read. The masks and filters of each of them hold."""
    accessors: tuple[Principal, ...]
    """Those who must have select on what it reads; nobody, where an operator vouches for it."""
    definer: Principal | None = None
    """Of the view whose text it is."""
    view: TableName | None = None
    """The view whose text it is."""
    around: frozenset[Principal] = frozenset()
    """Those whose conditions may reach what the view shows: who asks, and the authors of views around it."""

    @property
    def definers(self) -> frozenset[Principal]:
        """The definer of the view, if it has one."""
        return frozenset() if self.definer is None else frozenset({self.definer})


def own_rights(principal: Principal) -> Rights:
    """Return the rights by which a client's own text is read."""
    return Rights(readers=(principal,), accessors=(principal,))


def list_condition_owners(rights: Rights, lends_to: frozenset[Principal]) -> frozenset[Principal]:
    """Return those whose conditions may reach what a text reads: its author, and those around it if no
    barrier keeps theirs above the text. An operator who vouches for it is nobody to be kept from anything.
    """
    authors = frozenset(rights.accessors)
    # RULE (outer-author-kept-off, asker-kept-off-inner-view)
    return authors if rights.around & lends_to else authors | rights.around


def view_rights(view: Table, readers: tuple[Principal, ...], judging: Judging) -> Rights | Denied:
    """Return the rights by which the text of a view is read; Denied when its definer is no longer there."""
    definer = view.view.definer if view.view is not None else ""
    principals = judging.snapshot.principals
    if judging.rules.views == "invoker":  # RULE (invoker-views)
        definer = ""
    elif definer is None:
        match judging.rules.unrecorded_views:
            case "operator":
                return Rights(readers=readers, accessors=(), view=view.name)
            case "owner":
                # A name of Spark's, which knows no ids.
                owner = principals.get(view.owner or "")
                definer = owner.identity if owner is not None else view.owner or ""
            case "invoker":
                definer = ""
    if not definer:
        return Rights(readers=readers, accessors=readers, view=view.name)  # RULE (no-definer-readers-access)
    # INVARIANT: whoever is added under the name of somebody who was removed has defined none of his views.
    principal = principal_of(definer, principals.get)  # RULE (definer-name-reused)
    if principal is None:
        return _explain_closed(view.name, user_of(definer), judging)  # RULE (definer-exists)
    # RULE (definer-access, read-by-definer)
    return Rights(readers=readers, accessors=(principal,), definer=principal, view=view.name)


@dataclass(slots=True)
class Accessing:
    """The evaluations of those by whose access one text is read; they share its decisions."""

    rights: Rights
    evaluation: Evaluation
    """That of the statement's principal."""
    _others: dict[Principal, Evaluation] = field(default_factory=dict)

    def of(self, principal: Principal) -> Evaluation:
        """Return the evaluation for one of them, in the circumstances of this moment."""
        if principal == self.evaluation.principal:
            return self.evaluation
        found = self._others.get(principal)
        if found is None:
            found = replace(self.evaluation, principal=principal, missing=[])
            self._others[principal] = found
        found.context = self.evaluation.context
        return found

    def accessors(self) -> tuple[Evaluation, ...]:
        return tuple(self.of(principal) for principal in self.rights.accessors)

    def explain_closed(self, view: TableView) -> Denied:
        """Return why a table is closed; where another's access shows it, without what the table is called."""
        if self.rights.view is None or self.evaluation.principal in self.rights.accessors:
            return Denied(view.closed)
        return Denied(
            "the statement reads a view that is closed, because a policy names a column that a base table "
            "of the view does not have (`policies.unmatched_columns`)"
        )

    def build_denial(self, judging: Judging) -> Denied | None:
        """Return what is missing: to the principal in full, of others only that it is."""
        missing = [*self.evaluation.missing]
        for principal, evaluation in self._others.items():
            if not evaluation.missing:
                continue
            if principal.user != judging.principal.user:
                return _explain_closed(  # RULE (definer-lack-closes)
                    self.rights.view, principal.user, judging
                )
            missing += evaluation.missing  # RULE (definer-lack-own-view)
        if not missing:
            return None
        needed = f"user {judging.principal.user} needs {', '.join(dict.fromkeys(missing))}"
        if self.rights.definer is None or not _may_know(self.rights.view, judging):
            return Denied(needed)
        return Denied(f"{needed}, as definer of the view {self.rights.view}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTable:
    """What is to be seen of one table."""

    hidden: frozenset[str]
    """Columns that one of those by whose access it is read may not select."""
    eyes: tuple[Eye, ...]
    used: tuple[str, ...] | None
    """Columns used, None when column analysis could not tell."""
    definer: str = ""
    """By whose access it is read, when that is not the principal's own."""

    @property
    def readers(self) -> tuple[Principal, ...]:
        return tuple(principal for principal, _ in self.eyes)

    def view(self) -> TableView:
        """Return what is left of the table for all its eyes together."""
        return merge_table_views(self.hidden, [view for _, view in self.eyes])


def combine_views(
    table: Table,
    views: Mapping[Principal, TableView],
    rights: Rights,
    hidden: frozenset[str],
    used: tuple[str, ...] | None,
) -> SeenTable:
    """Return what is to be seen of a table: by its readers, and by the definer where one of them needs the
    definer's access. `views` are what each of them sees."""
    eyes = tuple((reader, views[reader]) for reader in rights.readers)
    definer = rights.definer
    if definer is None:
        return SeenTable(hidden=hidden, eyes=eyes, used=used)
    # Who is in other groups now than at login is somebody else: what is masked for one need not be for the
    # other.
    if definer not in rights.readers:  # RULE (definer-login-groups)
        wanted = [c for c in table.columns if used is None or c.name.lower() in used]
        if any(_lacks(view, table, wanted) for _, view in eyes):
            eyes = (*eyes, (definer, views[definer]))  # RULE (definer-lends)
        elif table.kind is TableKind.VIEW or views[definer].masks or views[definer].row_filter is not None:
            # Which columns are used is the word of column analysis. Should there be more, they are not there:
            # nobody sees by the definer's access what the definer's masks and filters were not laid on.
            hidden = hidden.union(*(view.hidden for _, view in eyes))  # RULE (lent-without-usage)
    name = definer.user if definer.user != rights.readers[0].user else ""
    return SeenTable(hidden=hidden, eyes=eyes, used=used, definer=name)


def _lacks(view: TableView, table: Table, wanted: Sequence[Column]) -> bool:
    """Whether one may not select something of what is wanted, or nothing at all of the table."""
    return len(view.hidden) == len(table.columns) or any(c.name in view.hidden for c in wanted)


def _may_know(view: TableName | None, judging: Judging) -> bool:
    return view is not None and judging.evaluation().knows_of(table_resource(view))


def _explain_closed(view: TableName | None, definer: str, judging: Judging) -> Denied:
    # RULE (closed-view-named)
    what = f"the view {view}" if _may_know(view, judging) else "a view that the statement reads"
    return Denied(
        f"{what} is closed, because its definer {definer} lacks select on something that it reads; it "
        f"opens once {definer} has select on all of it, or once somebody who has defines it again"
    )
