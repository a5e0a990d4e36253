"""What temporary views forbid, since their names must never reach a table that nobody guarded for them; and
cached relations that ended."""

from __future__ import annotations

from dataclasses import replace

from gateway.errors import one_line
from gateway.model.catalog import quote
from gateway.model.meaning_settings import Influence, influence
from gateway.model.statement import (
    Cleared,
    DropFunction,
    DropTempView,
    Refused,
    SessionContext,
    Statement,
    Verdict,
)
from gateway.session.session import NameResolution, TempView


def context_of(session: NameResolution, view: TempView) -> SessionContext:
    """Return what names meant where the view was made, with the temporary views and the handles that exist
    now: Spark still has the rows of a cached relation that ended."""
    made, now = view.made.statement.context, session.context
    name = view.name.lower()
    return replace(
        made,
        temp_views=now.temp_views - {name},
        varying_views=now.varying_views - {name},
        handles=now.handles,
        settings=now.settings,
        variables=now.variables,  # RULE (view-beside-variables-of-now)
    )


def statement_of(session: NameResolution, view: TempView) -> Statement:
    """Return the statement that makes the view again."""
    return replace(view.made.statement, principal=session.principal, context=context_of(session, view))


def as_made(session: NameResolution, view: TempView) -> Statement:
    """Return the statement to judge again, to see whether the view is still right. Never to be run: what a
    DataFrame's view read may be gone, and names mean in it what they meant."""
    if view.inlined:
        return replace(view.made.statement, principal=session.principal)  # RULE (views-of-renewed)
    # Spark keeps the settings with the text, and the names of the variables that it means.
    statement = statement_of(session, view)
    made = view.made.statement.context
    context = replace(statement.context, settings=made.settings, variables=made.variables)
    return replace(statement, context=context)


def refuse_ended_views(session: NameResolution, verdict: Verdict) -> Verdict:
    """Refuse a statement that would read a table where its sender means a view that has ended; and where one
    is refused for the table of that name, say what became of the view."""
    if isinstance(verdict, Refused):
        return _may_mention_ended_view(session, verdict)
    if (name := session.find_ended_view(verdict)) is None:
        return verdict
    return build_refusal(verdict, "VIEW_ENDED", "42P01", _refuse_ended_view(session, name))


def refuse_replaced_functions(session: NameResolution, verdict: Verdict) -> Verdict:
    """Refuse to call a function whose body is not the one by which this session has called it: Spark's
    session goes on running that, whatever the catalog says by now.

    INVARIANT (what is judged is what is run): only bodies that read nothing are not told apart.
    """
    if isinstance(verdict, Refused):
        return verdict
    for function in verdict.functions:
        known = session.known_tables.get(function.name.fold())
        was = None if known is None else known.table
        if (known is None and not session.lived_on) or was == function:
            continue
        bodies = [one.view for one in (was, function) if one is not None]
        # RULE (replaced-function)
        if any(view is not None and view.definer is not None for view in bodies):
            why = (
                f"the function {function.name} was replaced since this session began to call it, and Spark "
                "would run its old body; open a new session"
            )
            return build_refusal(verdict, "NOT_GOVERNABLE", "0A000", why)
    return verdict


def refuse_other_rows(session: NameResolution, verdict: Verdict) -> Verdict:
    """Refuse to read what was made with masks or filters before the session had a setting that chooses which
    rows tables have.

    INVARIANT (a policy's text means what it says): Spark keeps SQL's settings with the text of a view or
    function, and none of a table format. So what policies read would come from where the setting says.
    """
    moving = sorted(key for key in session.context.settings if influence(key) is Influence.TABLES)
    if isinstance(verdict, Refused) or not moving:
        return verdict
    basis = session.basis_of(verdict)
    for key in moving:
        # RULE (kept-rows-of-branch)
        if basis is None or any(one.obliged and key not in one.statement.context.settings for one in basis):
            why = (
                f"it reads a temporary view, function or cached relation with row filters or masks that was "
                f"made before `{key}` was set; run RESET {key}, or make that again"
            )
            return build_refusal(verdict, "NOT_GOVERNABLE", "0A000", why)
    return verdict


def _refuse_ended_view(session: NameResolution, name: str) -> str:
    return f"{session.ended_views[name]}; create it again, or write the table's name with its database"


def _may_mention_ended_view(session: NameResolution, verdict: Refused) -> Verdict:
    """Nobody had a table of that name in mind, so that none is found, or may be read, tells him nothing."""
    if not session.ended_views:
        return verdict
    wanted = dict(verdict.parameters).get("relationName", "")
    for name in session.ended_views:
        if wanted.lower() == quote(name):
            said = _refuse_ended_view(session, name)
            return replace(verdict, code="VIEW_ENDED", sqlstate="42P01", message=said, parameters=())
    here = (session.context.catalog.lower(), ".".join(session.context.namespace).lower())
    wants = (one.request.resource for one in verdict.decisions if not one.allowed)
    denied = {
        (resource.level("table") or "").lower()
        for resource in wants
        if ((resource.level("catalog") or "").lower(), (resource.level("database") or "").lower()) == here
    }
    ended = [why for name, why in session.ended_views.items() if name in denied]
    if verdict.code != "ACCESS_DENIED" or not ended:
        return verdict
    return replace(verdict, message=f"{verdict.message} ({ended[0]})")


def explain_ended_view(name: str, first: str, verdict: Verdict) -> str:
    """Say why a temporary view ended: it is the `first`, of whose statement this is the verdict now, or it
    reads that one."""
    if name.lower() != first.lower():
        return f"the temporary view `{name}` ended because `{first}`, which it reads, ended"
    said = f"the temporary view `{name}` ended because the policies or its sources changed"
    if isinstance(verdict, Refused):
        said += f", and its statement is refused now ({one_line(verdict.text)})"
    return said


def without_ended_relations(session: NameResolution, verdict: Verdict) -> Verdict:
    """Tell why a plan names a cached relation that is no more."""
    if isinstance(verdict, Cleared) or verdict.handles.isdisjoint(session.ended_relations):
        return verdict
    return replace(
        verdict,
        code="RELATION_ENDED",
        sqlstate="42P01",
        message="a checkpoint or cached relation of this plan ended because the policies or its source "
        "changed; compute it again",
    )


def without_dangling_views(session: NameResolution, verdict: Verdict) -> Verdict:
    """Refuse to drop a temporary view, or a function, that another view names: that one would then read a
    table, or call a function of a database."""
    if isinstance(verdict, Refused):
        return verdict
    for effect in verdict.effects:
        # RULE (function-of-view-dropped)
        if isinstance(effect, DropFunction) and (views := session.list_views_mentioning(effect.name)):
            return build_refusal(
                verdict,
                "VIEW_IN_USE",
                "2BP01",
                f"the temporary view `{views[-1].name}` may call `{effect.name}`; drop that one first",
            )
        if isinstance(effect, DropTempView) and (readers := session.readers_of(effect.name, by_name=True)):
            return build_refusal(
                verdict,
                "VIEW_IN_USE",
                "2BP01",
                f"the temporary view `{readers[-1].name}` may read `{effect.name}`; drop "
                f"`{readers[-1].name}` first",
            )
    return verdict


def list_functions_called(session: NameResolution, verdict: Verdict) -> dict[str, str]:
    """Return the temporary functions over tables that a statement may call, by the statements that made
    them."""
    if not isinstance(verdict, Cleared) or not session.functions:
        return {}
    called = {id(one) for one in session.find_read_functions(verdict)}
    return {name: one.statement_id for name, one in session.functions.items() if id(one) in called}


def build_refusal(cleared: Cleared, code: str, sqlstate: str, message: str) -> Refused:
    """Return the refusal of a statement that policies would let pass."""
    return Refused(
        statement=cleared.statement,
        code=code,
        sqlstate=sqlstate,
        message=message,
        plan_class=cleared.plan_class,
        decisions=cleared.decisions,
        snapshot_version=cleared.snapshot_version,
    )
