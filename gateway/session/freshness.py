"""What a session of Spark knows and keeps (tables, temporary views, cached relations), brought up to date
before a statement is judged and run in it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

import structlog

from gateway.errors import BackendUnavailable
from gateway.model.catalog import TableKind, TableName, quote
from gateway.model.changed_names import ChangedNames
from gateway.model.context import TIME
from gateway.model.principal import Principal
from gateway.model.statement import (
    Cleared,
    Client,
    DeclareVariables,
    ResetSettings,
    Statement,
    Verdict,
)
from gateway.session.endpoint import EndpointOperation
from gateway.session.failures import StatementFailed, StatementRefused
from gateway.session.judged import CachedRelation, JudgedStatement, build_judged
from gateway.session.session import NameResolution, TempView
from gateway.session.verdicts import Verdicts
from gateway.session.view_rules import (
    as_made,
    explain_ended_view,
    refuse_ended_views,
    refuse_other_rows,
    refuse_replaced_functions,
    statement_of,
    without_dangling_views,
)

_log = structlog.get_logger(__name__)

MAX_LOOKS = 5
"""How often a session looks at tables that others change at the same time, before the statement fails."""
_CREATE_FUNCTION = re.compile(
    r"\A\s*CREATE\s+(?:OR\s+REPLACE\s+)?TEMP(?:ORARY)?\s+FUNCTION(?!\s+IF\b)(?=\s)", re.IGNORECASE
)
NOT_THERE = "42P01"
"""The SQLSTATE of a table or view that is not there."""

N_contra = TypeVar("N_contra", bound=NameResolution, contravariant=True)
S = TypeVar("S", bound=NameResolution)


class JudgesStatements(Protocol):
    """`Verdicts`, as far as it is needed here."""

    @property
    def policies_version(self) -> int: ...
    @property
    def catalog_version(self) -> int: ...
    async def judge(self, statement: Statement, client: Client) -> Verdict: ...
    async def can_be_read(self, names: Iterable[TableName]) -> bool: ...


class RunsStatements(Protocol[N_contra]):
    """An endpoint, as far as it is needed here."""

    def build_own_statement(self, session: N_contra, text: str) -> Statement:
        """Return a text of the gateway's own as a statement of the session."""

    async def run_inside(self, session: N_contra, statement: Statement, client: Client) -> object:
        """Run a statement of the gateway's own to its end, in a session that is locked: decided on and
        recorded like any. Raises StatementRefused and StatementFailed."""


class Freshness(Generic[S]):
    """The session is locked in every call."""

    def __init__(
        self, verdicts: JudgesStatements, changed: ChangedNames, endpoint: RunsStatements[S]
    ) -> None:
        self._verdicts = verdicts
        self._changed = changed
        self._endpoint: RunsStatements[S] = endpoint

    # -- tables ------------------------------------------------------------------------------------------

    async def judge_with_fresh_tables(self, session: S, statement: Statement, client: Client) -> Verdict:
        """Judge a statement, and what temporary views forbid it; have Spark's session look at the tables that
        its policies read, once a period, and at those that have changed since it knows them.

        INVARIANT (now): Spark keeps the files of a table for as long as a session lasts. Who was blocked by a
        row of a mapping table is blocked in sessions, too, that have read it before. Catalogs of Iceberg and
        Paimon keep tables as well: a column that is gone, and was masked, is not read where nothing masks it
        any more. What was dropped and made again, or promoted anew, is not read by the columns and files that
        it had.
        """
        looked: dict[TableName, int] = {}
        attempts = 0
        while True:
            generation = self._changed.generation
            verdict = await self._verdicts.judge(statement, client)
            if not isinstance(verdict, Cleared):
                return refuse_ended_views(session, verdict)
            # What was looked at for this very statement is fresh, should the period have ended meanwhile.
            stale = [
                table for table in session.stale_tables(verdict, self._changed) if table.fold() not in looked
            ]
            if not stale:
                found = refuse_other_rows(session, refuse_replaced_functions(session, verdict))
                if isinstance(found, Cleared):
                    session.note_judged(found, generation, looked)
                return without_dangling_views(session, refuse_ended_views(session, found))
            try:
                await self._refresh(session, stale, statement, verdict, client)
            except BackendUnavailable:
                attempts += 1
                if self._changed.generation == generation or attempts == MAX_LOOKS:
                    raise
                continue  # what is looked at was changed or dropped meanwhile
            for table in stale:
                session.looked_at[table] = verdict.period
                looked[table.fold()] = generation

    async def _refresh(
        self, session: S, stale: Sequence[TableName], statement: Statement, verdict: Cleared, client: Client
    ) -> None:
        tables = {table.name.fold() for table in verdict.tables if table.kind is TableKind.TABLE}
        for table in stale:
            own = replace(statement, text="", plan=None, refreshes=table)
            try:
                await self._endpoint.run_inside(session, own, client)
            except (StatementRefused, StatementFailed) as error:
                # What is no table now a session has kept, or does not know. Of one that was dropped outside
                # since it was described Spark says so when the statement itself is run.
                is_read = table.fold() in tables and not _is_gone(error)
                if is_read or table in verdict.policy_tables:
                    raise BackendUnavailable(f"Spark could not {_purpose(own)}") from None

    # -- what goes before a statement --------------------------------------------------------------------

    async def run_before(self, session: S, cleared: Cleared, statement: Statement, client: Client) -> None:
        """Have Spark know who defines a view before its text changes: the statement holds the view's name.
        Where it declares variables, have Spark's session say that it has some. For RESET, give the session
        Spark's own value of every setting that it was given.

        INVARIANT (one reading): one by one, because RESET itself would take the pinned ones too.
        """
        if cleared.definition is not None:
            own = replace(statement, text="", plan=None, records=cleared.definition)
            await self._run_own(session, own, client)
        declares = any(isinstance(effect, DeclareVariables) for effect in cleared.effects)
        if declares and not session.marked and session.context.endpoint == "connect":
            # RULE (variables-marked)
            await self._run_own(session, replace(statement, text="", plan=None, marks_variables=True), client)
            session.marked = True
        if any(isinstance(effect, ResetSettings) for effect in cleared.effects):
            for key in sorted(session.given_settings):
                own = replace(statement, text="", plan=None, context=session.context, resets=key)
                await self._run_own(session, own, client)

    async def _run_own(self, session: S, own: Statement, client: Client) -> None:
        try:
            await self._endpoint.run_inside(session, own, client)
        except (StatementRefused, StatementFailed):
            raise BackendUnavailable(f"Spark could not {_purpose(own)}") from None

    # -- temporary views and cached relations ------------------------------------------------------------

    async def renew_views(self, session: S, client: Client) -> None:
        """Judge every temporary view again: policies, or what it reads, may have changed since it was made.
        A cached relation that would be computed otherwise now ends.

        A view whose text would be the same stays, unless Spark keeps its plan and tables in it are others by
        now. One that would be written differently is dropped and made again; one that is refused now is
        dropped, and its name answers with an explanation, not with a table.
        """
        version = self._verdicts.policies_version
        for handle, relation in list(session.relations.items()):
            if not await self._is_current(session, relation, version, client):
                session.end_relation(handle)
        for name, variable in list(session.variables.items()):
            # RULE (variables-judged-again)
            if not await self._is_current(session, variable, version, client):
                await self._end_variable(session, name, client)
        for name, function in list(session.functions.items()):
            # RULE (functions-judged-again)
            if not await self._is_current(session, function, version, client):
                if not await self._make_function_again(session, function, client):
                    await self._end_function(session, name, client)
                continue
            for made in function.basis or ():
                statement = replace(made.statement, principal=session.principal)
                generation = self._changed.generation
                verdict = await self._verdicts.judge(statement, client)
                if isinstance(verdict, Cleared):  # RULE (function-tables-looked-at)
                    await self._look_again(session, verdict, statement, generation, client)
        session.views_version = self._verdicts.catalog_version
        judged: set[str] = set()
        while due := [
            view
            for name, view in session.views.items()
            if name not in judged or view.policies_version < version
        ]:
            judged.add(due[0].name.lower())
            await self._renew(session, due[0], version, client)

    async def _end_variable(self, session: S, name: str, client: Client) -> None:
        """Take away a variable whose value came of what would be other rows now."""
        drop = self._endpoint.build_own_statement(session, f"DROP TEMPORARY VARIABLE IF EXISTS {quote(name)}")
        await self._run_own(session, drop, client)
        session.variables.pop(name, None)
        _log.info("session_variable_ended")

    async def _make_function_again(self, session: S, function: CachedRelation, client: Client) -> bool:
        """Make a temporary function again of which nothing has changed but the period, in which Spark's
        session looks at what row filters read; return whether that was all, and it is there.

        It takes the place of the old one in one statement: nothing calls another by its name meanwhile.
        """
        if function.basis is None or len(function.basis) != 1:
            return False
        (made,) = function.basis
        then = made.statement.context
        # Spark keeps the settings with the body.
        if then.settings != session.context.settings:
            return False
        verdict = await self._verdicts.judge(replace(made.statement, principal=session.principal), client)
        begins = _CREATE_FUNCTION.match(function.text)
        if begins is None or not made.differs_by_period(verdict):
            return False
        text = f"CREATE OR REPLACE TEMPORARY FUNCTION{function.text[begins.end() :]}"
        own = self._endpoint.build_own_statement(session, text)
        context = replace(own.context, catalog=then.catalog, namespace=then.namespace)
        try:
            await self._endpoint.run_inside(session, replace(own, context=context), client)
        except (StatementRefused, StatementFailed):
            return False
        _log.info("temporary_function_made_again")
        return True

    async def _end_function(self, session: S, name: str, client: Client) -> None:
        """Take away a temporary function whose body would read other rows now, and the views that call it:
        another function would have the name in them."""
        why = f"ended because the function `{name}`, which it calls, ended"
        for view in session.list_views_mentioning(name):
            chain = [view, *session.readers_of(view.name)]
            whys = {one.name: f"the temporary view `{one.name}` {why}" for one in chain}
            await self._end_views(session, whys, client)
        drop = f"DROP TEMPORARY FUNCTION IF EXISTS {quote(name)}"
        await self._run_own(session, self._endpoint.build_own_statement(session, drop), client)
        session.functions.pop(name, None)
        _log.info("temporary_function_ended")

    async def _end_views(self, session: S, whys: Mapping[str, str], client: Client) -> None:
        """Drop views, each before those that it reads, which come before it."""
        for ended, why in reversed(list(whys.items())):
            # The view leaves the context whatever comes of its drop: from then on its name is pinned to the
            # catalog and cannot reach the old view.
            drop = self._endpoint.build_own_statement(session, f"DROP VIEW IF EXISTS {quote(ended)}")
            with contextlib.suppress(StatementRefused, StatementFailed):
                await self._endpoint.run_inside(session, drop, client)
            session.end_view(ended, why)

    async def _renew(self, session: S, view: TempView, version: int, client: Client) -> None:
        generation = self._changed.generation
        statement = as_made(session, view)
        judged = refuse_replaced_functions(session, await self._verdicts.judge(statement, client))
        verdict = refuse_ended_views(session, judged)
        if isinstance(verdict, Cleared) and not view.inlined:
            # RULE (text-view-renewed)
            await self._look_again(session, verdict, statement, generation, client)
        origin = CachedRelation(
            basis=view.basis,
            timed=view.timed,
            policies_version=view.policies_version,
            statement_id=view.statement_id,
            sources=view.sources,
        )
        # RULE (plan-view-renewed)
        same = view.made.is_same(verdict) and not session.is_outdated(view, self._changed)
        if same and await self._is_current(session, origin, version, client):
            session.confirm_view(view, version)
            return
        # INVARIANT (no dangling reader): what reads a view ends with it. Spark keeps the text of a temporary
        # view: a reader left behind would find a table where its view was.
        chain = [view, *session.readers_of(view.name)]
        # Of the others, and of streams, the views end: nobody asked for another stream.
        again = [ended for ended in chain if session.can_be_made_again(ended)]
        whys = {one.name: explain_ended_view(one.name, view.name, verdict) for one in chain}
        await self._end_views(session, whys, client)
        for ended in again:
            with contextlib.suppress(StatementRefused, StatementFailed):
                await self._endpoint.run_inside(session, statement_of(session, ended), client)
        made_again = [ended.name.lower() in session.views for ended in chain]
        _log.info("temporary_views_renewed", ended=len(chain), made_again=sum(made_again))

    async def _look_again(
        self, session: S, verdict: Cleared, statement: Statement, generation: int, client: Client
    ) -> None:
        """Have Spark's session look at tables of a view or a function: it looks the names in it up again
        whenever it is read, by what the session knows. It was judged in `generation`."""
        stale = session.find_changed_tables(verdict, self._changed)
        await self._refresh(session, stale, statement, verdict, client)
        session.note_judged(verdict, generation, dict.fromkeys((name.fold() for name in stale), generation))

    async def _is_current(self, session: S, relation: CachedRelation, version: int, client: Client) -> bool:
        """Whether everything that it was computed from would be computed in the same way now."""
        basis = relation.basis
        if basis is None:
            # RULE (ended-below-many-statements)
            basis = relation.timed
            # RULE (links-below-many-statements)
            same = relation.policies_version == version and await self._verdicts.can_be_read(relation.sources)
            if basis is None or not same:
                return False
        return await gives_the_same(basis, session.principal, self._verdicts, client)


async def gives_the_same(
    basis: Iterable[JudgedStatement], principal: Principal, verdicts: JudgesStatements, client: Client
) -> bool:
    """Whether judging for the user as he is now gives again what Spark was handed, for each of the
    statements."""
    for judged in basis:
        statement = replace(judged.statement, principal=principal)  # RULE (relations-of-renewed)
        if not judged.is_same(await verdicts.judge(statement, client)):
            return False
    return True


def _is_gone(error: StatementRefused | StatementFailed) -> bool:
    """Whether Spark says that there is no such table: over Thrift at times in the words alone."""
    if not isinstance(error, StatementFailed):
        return False
    return error.sqlstate == NOT_THERE or error.message.rstrip().endswith(f"SQLSTATE: {NOT_THERE}")


def _purpose(statement: Statement) -> str:
    if statement.marks_variables:
        return "note that the session has variables"
    if statement.resets is not None:
        return f"reset the setting `{statement.resets}`"
    if statement.text:
        return "drop a variable or function of the session that would have other rows now"
    return "refresh what the statement reads" if statement.refreshes else "record the definer of a view"


class OpenResults:
    """Ends results that would be others by the policies of now.

    A result ends when policies have changed since it was judged, and its statement, or one that a temporary
    view or cached relation in it came from, judged again with what names meant then, is refused or would be
    handed to Spark otherwise. The answer of a metadata call, and one
    that the gateway filtered row by row, ends with every change of policies. It is found out when rows are
    asked for, once for each change, and each time where time matters, as for a grant that ends.
    """

    def __init__(self, verdicts: Verdicts, *, end: bool) -> None:
        """`end`: whether any result ends so; otherwise each can be read to its end."""
        self._verdicts = verdicts
        self.end = end

    async def require(self, result: EndpointOperation, client: Client, *, filtered: bool = False) -> None:
        """Raise StatementFailed when the result has ended. `filtered`: the gateway filtered its rows."""
        version = self._verdicts.policies_version
        session = result.session
        cleared, basis = result.cleared, result.basis
        changed = result.policies_version != version or session.renewed is not None
        of_time = [judged for judged in basis or () if judged.timed]
        # RULE (result-of-its-time)
        timed = cleared is not None and (TIME in cleared.context_dependencies or bool(of_time))
        if not self.end or not (changed or timed):
            return
        if cleared is None or (changed and (basis is None or filtered)):
            raise explain_ended(result.statement_id)
        made_of = (build_judged(cleared), *(basis or ()))
        if not await gives_the_same(made_of, session.principal_now, self._verdicts, client):
            raise explain_ended(result.statement_id)
        result.policies_version = version


def explain_ended(statement_id: str) -> StatementFailed:
    """Return what the client of a result is told that has ended."""
    message = (
        "[SLUICE_POLICIES_CHANGED] policies have changed since this result was computed, and it would "
        "differ now; run the statement again"
    )
    return StatementFailed(message, "40001", 0, statement_id)
