"""The texts of the views that a text or a plan reads, and the barriers above them (docs/adr/0033).

A view's text takes the same passes as a statement, one level deeper. It is judged as it stands for everybody
who reads it so; once more for a place where conditions on its columns go into it; and once more without
barriers, to see whether anything in it can fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from gateway.model.catalog import FUNCTION, Table, TableKind, TableName, levels
from gateway.model.principal import Principal
from gateway.model.reading import Span
from gateway.model.reading_settings import VARIABLES_MARK
from gateway.model.statement import NeedsCatalog, SessionContext
from gateway.pipeline.barriers import Placed, QueriedViews, may_be_without
from gateway.pipeline.judging import (
    MAX_VIEW_DEPTH,
    BodyKey,
    Judging,
    JudgingOutcome,
    Refusal,
    RewrittenStatement,
    access_denied,
    explain_ungoverned,
    not_governable,
)
from gateway.pipeline.kept import build_collation_refusal, write_nested_text
from gateway.pipeline.metrics import metrics_of, source_refusal
from gateway.pipeline.rights import Rights, list_condition_owners, view_rights
from gateway.pipeline.seeing import ColumnAccess, TextScope
from gateway.sql import guard
from gateway.sql.evaluate import Denied
from gateway.sql.required import Unsupported
from gateway.sql.variable_commands import find_variable

MAX_NARROWED = 16
"""Views of a statement, and within views, whose texts get conditions from above; others have none."""
_UNRESOLVED = {
    "42883": "calls a function that does not exist, or that is not in Spark's own catalog",
    "42P01": "reads a table or view that does not exist",
}
"""SQLSTATE that Spark has for a name in a view's text, and what is wrong with the text, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadViews:
    """The views that a text or a plan reads: by whom, and where."""

    seen: ColumnAccess
    rights: Rights
    """Those of the text itself."""
    place: TextScope
    scans: Mapping[Span, TableName]
    judging: Judging
    context: SessionContext
    """What names mean in it; in what a metric view reads they mean the same."""

    async def bodies(
        self, names: Sequence[TableName]
    ) -> dict[TableName, RewrittenStatement] | Refusal | NeedsCatalog:
        """Govern the text of every persistent view among `names`, in the session that it was written in and
        by its definer's access."""
        bodies: dict[TableName, RewrittenStatement] = {}
        for name in dict.fromkeys(name.fold() for name in names):
            table = self.judging.snapshot.catalog.table(name)
            if table is not None and table.kind is TableKind.UNGOVERNED:  # RULE (ungoverned-refused)
                return not_governable(Unsupported(explain_ungoverned(table)))
            if table is None or table.kind is not TableKind.VIEW:
                continue
            body = await self._body(table, self._within)
            if not isinstance(body, RewrittenStatement):
                return body
            bodies[name] = body
        return bodies

    def find_barred_views(self, bodies: Mapping[TableName, RewrittenStatement]) -> frozenset[TableName]:
        """Return the views that show what somebody, whose conditions may reach them, may not select.

        INVARIANT (a view is a barrier): a condition of theirs, tried on rows that the view's text hides,
        would tell of these by failing. Of somebody who does not read a view, since another's access stands
        for his, it is not known what he may select.
        """
        found = set()
        for name, body in bodies.items():
            readers = self.seen.readers(name, self.judging)
            # RULE (barrier-for-readers)
            if body.lends_to and any(one in body.lends_to or one not in readers for one in self._asking):
                found.add(name)
        return frozenset(found)

    async def list_open_views(
        self, bodies: Mapping[TableName, RewrittenStatement], barred: AbstractSet[TableName], *, alone: bool
    ) -> dict[Span, RewrittenStatement]:
        """Return the texts of views without barriers, of those in which nothing can fail; none where it
        makes no difference. `alone`: the text is all that is asked."""
        found: dict[Span, RewrittenStatement] = {}
        wanted = alone and (barred or any(body.stands_in for body in bodies.values()))
        if not (wanted or self.place.opening) or not may_be_without(self.judging):
            return found
        for span, name in self.scans.items():
            table = self.judging.snapshot.catalog.table(name)
            if table is None or table.kind is not TableKind.VIEW or not self._may_be_written_out(table):
                continue
            if metrics_of(table) is not None:
                continue
            body = await self._body(table, replace(self._within, opening=table))
            # RULE (unbarred-view-total)
            if isinstance(body, RewrittenStatement) and body.opened and not body.moves:
                found[span] = replace(body, stands_in=True)
        return found

    def list_queried_views(
        self,
        bodies: Mapping[TableName, RewrittenStatement],
        barred: AbstractSet[TableName],
        opened: Mapping[Span, RewrittenStatement],
    ) -> QueriedViews:
        """Return what counts of the views for where conditions may stand."""
        return QueriedViews(
            walled=frozenset(name for name, body in bodies.items() if body.walled),
            barred=barred,
            opened=opened.keys(),
            above=self.place.above,
            below_barrier=self.place.below_barrier,
            opening=self.place.opening,
        )

    async def narrow_views(
        self,
        placed: Placed,
        opened: Mapping[Span, RewrittenStatement],
        bodies: Mapping[TableName, RewrittenStatement],
        barred: AbstractSet[TableName],
    ) -> dict[Span, RewrittenStatement] | Refusal | NeedsCatalog:
        """Return the texts of views for those places where they are others than elsewhere: conditions on
        their columns go into them, or they have no barriers."""
        found: dict[Span, RewrittenStatement] = {}
        for span, name in self.scans.items():
            below = placed.below.get(span)
            if span in opened and below is not None and below.types_relied_on is not None:
                found[span] = opened[span]
                continue
            table = self.judging.snapshot.catalog.table(name)
            conditions = placed.passed.get(span, ())
            if table is None or table.view is None or metrics_of(table) is not None or not conditions:
                continue
            by_name = write_nested_text(bodies[name.fold()]) is None
            if by_name and (bodies[name.fold()].moves or not self._may_be_written_out(table)):
                continue
            if len(self.judging.narrowed) >= MAX_NARROWED:
                break
            self.judging.narrowed.append(name)
            above = guard.above_view(table, table.view, conditions)
            if above is None:
                continue
            below_barrier = self.place.below_barrier or name.fold() in barred
            body = await self._body(table, replace(self._within, above=above, below_barrier=below_barrier))
            if not isinstance(body, RewrittenStatement):
                return body
            found[span] = body
        return found

    @property
    def _within(self) -> TextScope:
        return TextScope(depth=self.place.depth + 1, commands=False)

    @property
    def _session(self) -> tuple[str, tuple[str, ...]]:
        return self.context.catalog, self.context.namespace

    @property
    def _asking(self) -> frozenset[Principal]:
        return list_condition_owners(self.rights, self.seen.lends_to)

    def _may_be_written_out(self, table: Table) -> bool:
        """Whether a view's text may stand for the view where that is not needed to hide anything: it is read
        under the session's settings then, and without the view's collation."""
        view = table.view
        # RULE (view-other-settings)
        return not self.judging.settings and view is not None and not (view.collation or view.metrics)

    def not_of_this_moment(self, names: AbstractSet[TableName]) -> tuple[TableName, ...]:
        """Return those tables that have to be described again, where Spark itself reads a view over them."""
        anew = self.judging.snapshot.anew
        return () if anew is None else tuple(sorted(names - anew, key=str))

    async def rows(self, table: Table, text: str) -> JudgingOutcome:
        """Govern a query over what a metric view reads, by the access by which its own text is read."""
        return await self._govern(table, text, self._within, self.seen.readers(table.name, self.judging))

    async def body_of_function(self, table: Table, text: str) -> JudgingOutcome:
        """Govern the body of a function that is called, as the text of a view."""
        place, readers = self._within, self.rights.readers
        if place.depth > MAX_VIEW_DEPTH:
            return not_governable(Unsupported(f"the function {table.name} is called too deep within views"))
        key: BodyKey = (table.name.fold(), readers, self._asking, False, self._session)
        if key not in self.judging.bodies:
            body = await self._govern(table, text, place, readers)
            if not isinstance(body, RewrittenStatement):
                return body
            self.judging.bodies[key] = body
        return self.judging.bodies[key]

    async def _body(self, table: Table, place: TextScope) -> JudgingOutcome:
        """Govern the text of a view, which stands at `place`."""
        readers, who = self.seen.readers(table.name, self.judging), self._asking  # RULE (inner-views-shown)
        metrics = metrics_of(table)
        session = None if metrics is None else self._session
        key = (table.name.fold(), readers, who, place.opening is not None, session)
        if place.above is None and key in self.judging.bodies:
            return self.judging.bodies[key]
        if table.view is None:
            return not_governable(Unsupported(f"the definition of the view {table.name} is not available"))
        if place.depth > MAX_VIEW_DEPTH:  # RULE (view-depth)
            return not_governable(
                Unsupported(f"the view {table.name} is nested more than {MAX_VIEW_DEPTH} views deep")
            )
        if metrics is not None:
            why = await source_refusal(metrics, table.view.text, self.judging)
            if why is not None:
                return not_governable(
                    Unsupported(f"{table.name} is a metric view that cannot be governed: {why.why}")
                )
        body = await self._govern(table, table.view.text, place, readers)
        if isinstance(body, RewrittenStatement) and table.name.is_global_view:
            # INVARIANT (what is judged is what is read): another Spark may run the statement than was asked
            # what the view is. By its full name neither finds one.
            body = replace(body, stands_in=True)  # RULE (global-view-written-out)
        if (
            isinstance(body, RewrittenStatement)
            and body.listed
            and not (body.walled or (self._may_be_written_out(table) and not body.moves))
        ):
            # INVARIANT (what is judged is what is read): by its own name a view has no list of columns.
            if old := self.not_of_this_moment(body.listed):  # RULE (view-columns-of-now)
                return NeedsCatalog(old, promotes=False, anew=True)
            body = replace(body, listed=frozenset())
        if (
            isinstance(body, RewrittenStatement)
            and write_nested_text(body) is not None
            and place.opening is None
        ):
            if table.view.collation:
                return not_governable(build_collation_refusal(f"the view {table.name}"))
            if body.moves:  # RULE (view-functions-move)
                # INVARIANT (a view lends no more than its rows): its reader chooses what is found there.
                return not_governable(Unsupported(f"the view {table.name} {body.moves}"))
        if isinstance(body, RewrittenStatement) and place.above is None:
            self.judging.bodies[key] = body
        return body

    async def _govern(
        self, table: Table, text: str, place: TextScope, readers: tuple[Principal, ...]
    ) -> JudgingOutcome:
        rights = view_rights(table, readers, self.judging)
        if isinstance(rights, Denied):
            return access_denied(rights, self.judging.evaluation())
        is_metric = metrics_of(table) is not None
        place = replace(place, rights=replace(rights, around=self._asking), of_session=is_metric)
        body = await self.judging.govern(text, self._context_of(table), self.judging, place)
        if isinstance(body, Refusal) and body.code == "SPARK":
            why = _UNRESOLVED.get(body.sqlstate, "cannot be parsed")
            return not_governable(Unsupported(f"the definition of the view {table.name} {why}"))
        return self._without_variables(table, text, body)

    def _without_variables(self, table: Table, text: str, body: JudgingOutcome) -> JudgingOutcome:
        """Have a text not be written out that has a word which is also a variable of the session.

        INVARIANT (a view lends no more than its rows): in a view Spark finds no variables, and in what is
        written out for one it would, where a column has gone that the text names.
        """
        if not isinstance(body, RewrittenStatement):
            return body
        whole = f"{text} {table.view.metrics or ''}" if table.view is not None else text
        variable = find_variable(whole, body.reading, self.judging.variables)
        if variable is None and VARIABLES_MARK in self.judging.settings:
            variable = "?"
        if variable is None:
            return body
        why = (
            f"has the word `{variable}`, and so is called a variable of this session: "
            f"DROP TEMPORARY VARIABLE {variable}, or begin a new session"
        )
        if metrics_of(table) is not None:
            return not_governable(Unsupported(f"the metric view {table.name} {why}"))
        return replace(body, moves=why)  # RULE (view-beside-variables)

    def _context_of(self, table: Table) -> SessionContext:
        """Return what names mean in the text of a view. In the body of a function they mean what they mean
        where it is called."""
        view = table.view
        catalog, namespace = self.context.catalog, self.context.namespace
        if table.name.version == FUNCTION:
            # INVARIANT (a view lends no more than its rows): who calls chooses the database.
            namespace = ()  # RULE (function-body-context)
        elif view is not None and view.metrics is None:
            catalog, namespace = view.catalog, levels(view.database)
        return SessionContext(
            catalog=catalog,
            namespace=namespace,
            endpoint=self.judging.endpoint,
            catalogs=self.judging.session_catalogs,
        )
