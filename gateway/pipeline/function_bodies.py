"""What the bodies of SQL functions read: judged when one is made, by the access of who makes it, and whenever
it is called, as the text of a view is (docs/adr/0016).

Spark keeps the body as a text and runs that, whoever calls. So names in it are written in full when it is
made, and a call passes as it is where what would stand in the body for the caller is the body itself. Else
the body is written out where it is called, as a view's text is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.model.catalog import FUNCTION, Table, TableName, ViewBody, quote_parts
from gateway.model.definers import definer_mark
from gateway.model.reading import CommandNode, FunctionRef, Reading, RelationRole, Span, Splice
from gateway.model.statement import NeedsCatalog, RegisterCode
from gateway.pipeline.judging import (
    Judging,
    NotRewritten,
    Refusal,
    RewrittenStatement,
    access_denied,
    not_governable,
    refuse_unread,
)
from gateway.pipeline.kept import write_nested_text
from gateway.pipeline.policies import deny_show_only
from gateway.pipeline.seeing import Prepared, TextScope
from gateway.pipeline.titles import name_calls, name_items
from gateway.pipeline.views import ReadViews
from gateway.sql import guard
from gateway.sql.call_texts import (
    GuardedFunction,
    ask_for_alias,
    find_calls,
    refuse_call,
    write_calls,
)
from gateway.sql.function_calls import WHOLE_NAME, list_functions_of_databases, pin_functions
from gateway.sql.function_commands import WholeBody, list_parameters, write_whole_body
from gateway.sql.names import Names
from gateway.sql.required import Unsupported
from gateway.sql.spark_errors import build_temporary_reference_refusal
from gateway.sql.variable_commands import find_variable

_RETURN = re.compile(r"RETURN\s*\Z", re.IGNORECASE)
_CHANGING = frozenset({"UpdateTable", "DeleteFromTable", "MergeIntoTable"})
_COMMENT = re.compile(r"COMMENT\s+('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeFunction:
    """A function that a statement makes and whose body reads something."""

    splices: tuple[Splice, ...]
    """The body with whole names, and who defines it; of a temporary function the body as it is read."""
    body: RewrittenStatement
    """As whoever makes it may read it now; what is stored of a function of a database has none of its masks
    and filters."""
    is_temporary: bool = False


async def judge_made(prepared: Prepared, judging: Judging) -> MadeFunction | NotRewritten | None:
    """Judge the body of a function that a statement makes; None when that reads nothing."""
    bodies = {one.kind: one for one in prepared.required.bodies}
    kept = bodies.get("query") or bodies.get("expression")
    if kept is None or not kept.reads:
        return None
    command = next((one for one in prepared.reading.commands if "isTableFunc" in one.fields), None)
    told = bodies.get("parameters")
    reading = None if told is None else await judging.reader.read(told.text)
    read = list_parameters(reading) if isinstance(reading, Reading) else None
    parameters = () if told is None else read
    temporary = next((one.handle for one in prepared.required.effects if isinstance(one, RegisterCode)), None)
    name = temporary.id if temporary is not None else prepared.required.pins[0].table.table
    if parameters is None or command is None:
        return not_governable(
            Unsupported("the parameters of a function whose body reads something have plain names")
        )
    is_table = command.fields.get("isTableFunc") is True
    whole = write_whole_body(kept.text, parameters, name, is_table=is_table)
    scope = TextScope(commands=False)
    context = prepared.names.context
    within = judging if temporary is None else replace(judging, in_function=True, bodies={})
    outcome = await judging.govern(whole.text, context, within, scope)
    if not isinstance(outcome, RewrittenStatement):  # RULE (function-maker-access)
        return _without_place(outcome)
    made = () if temporary is not None else prepared.required.pins[0].table.parts[-2:]
    found = _refuse_kept(kept.text, outcome, judging, made)
    if found is not None:
        return found
    if temporary is not None and list_functions_of_databases(outcome.reading.functions, prepared.names):
        # INVARIANT (a name is judged as it will be resolved): another catalog has another one.
        # RULE (temporary-function-calls)
        return not_governable(
            Unsupported("the body of a temporary function calls Spark's own functions alone")
        )
    if temporary is not None:
        return _make_temporary(prepared.text, kept.text, whole, outcome)
    body = await _pin(whole, outcome, prepared.names, judging)
    if isinstance(body, Refusal):
        return body
    splices = _write_in(prepared.text, kept.text, body, command, judging)
    return (
        not_governable(splices)
        if isinstance(splices, Unsupported)
        else MadeFunction(splices=splices, body=outcome)
    )


def _make_temporary(
    text: str, kept: str, whole: WholeBody, outcome: RewrittenStatement
) -> MadeFunction | Refusal:
    """Have the session keep the body as its maker may read it now; the session ends it when that changes."""
    guarded, start = whole.cut(outcome.text), text.rfind(kept)
    if guarded is None or start < 0 or _RETURN.search(text[:start]) is None:
        return not_governable(Unsupported("the body of the function was not found in the statement"))
    place = Span(start, start + len(kept))
    # RULE (temporary-function-guarded)
    splice = Splice(span=place, text=guarded, kind="body", parts=(guarded,))
    return MadeFunction(splices=(splice,), body=outcome, is_temporary=True)


def _without_place(outcome: NotRewritten) -> NotRewritten:
    """Leave out places, which are those of a text that nobody wrote."""
    if not isinstance(outcome, Refusal) or outcome.code != "SPARK":
        return outcome
    return replace(outcome, message=outcome.message.split("; line ")[0])


def _refuse_kept(
    text: str, outcome: RewrittenStatement, judging: Judging, made: tuple[str, ...]
) -> Refusal | None:
    """Refuse what is the session's or the maker's own, and columns that are for showing only. `made`: the
    name of a function of a database."""
    variable = find_variable(text, outcome.reading, judging.variables)
    if outcome.temp_views_read or variable is not None:  # RULE (function-of-session)
        if made and outcome.temp_views_read:
            view = sorted(outcome.temp_views_read)[:1]
            return not_governable(build_temporary_reference_refusal(made, view, kind="FUNCTION"))
        what = "a temporary view" if variable is None else f"the word `{variable}`, a variable of the session"
        return not_governable(Unsupported(f"the body of a function has {what}"))
    if outcome.hides_columns:  # RULE (function-hidden-columns)
        why = "the body of a function reads a table with columns that you may not select; make a view of it"
        return not_governable(Unsupported(why))
    denied = deny_show_only(outcome.scans, (), judging)
    return None if denied is None else access_denied(denied, judging.evaluation())


async def _pin(
    whole: WholeBody, outcome: RewrittenStatement, names: Names, judging: Judging
) -> str | Refusal:
    """Return the body with the whole name of each table: Spark finds others where the caller is."""
    text = outcome.reading.written or whole.text
    splices: list[Splice] = []
    allowed: set[tuple[str, ...]] = set()
    for relation in outcome.reading.relations:
        if relation.role is not RelationRole.SCAN:
            continue
        name = names.table(relation.parts)
        if not isinstance(name, TableName) or relation.span is None:
            return not_governable(Unsupported(f"`{'.'.join(relation.parts)}` is not written literally"))
        if name.is_global_view:
            return not_governable(Unsupported("functions cannot read global temporary views"))
        allowed.add(name.parts)
        if relation.parts != name.parts:  # RULE (function-whole-names)
            pinned = quote_parts(name.parts)
            splices.append(Splice(span=relation.span, text=pinned, kind="pin", parts=name.parts))
    called = list_functions_of_databases(outcome.reading.functions, names)
    # RULE (function-body-calls)
    found = pin_functions(outcome.reading, called, in_body=True)
    if isinstance(found, FunctionRef):
        return not_governable(Unsupported(f"`{'.'.join(found.parts)}` is not written literally"))
    splices += found
    written = guard.apply(text, splices)
    if splices:
        proof = await judging.reader.prove(text, written, splices, allowed)
        if proof.not_read is not None:
            return refuse_unread(proof.not_read)
        if not proof.holds:  # RULE (function-body-proof)
            return not_governable(
                Unsupported("could not write the full names of tables into the body; write them in full")
            )
    return written[len(whole.before) : len(written) - len(whole.after)]


def _write_in(
    text: str, kept: str, body: str, command: CommandNode, judging: Judging
) -> tuple[Splice, ...] | Unsupported:
    """Return what writes the body, and who defines the function, into the statement that makes it."""
    start = text.rfind(kept)
    returns = _RETURN.search(text[:start]) if start > 0 else None
    if returns is None:
        return Unsupported("the body of the function was not found in the statement")
    own = command.fields.get("comment")
    mark = definer_mark(body, judging.principal.identity)  # RULE (function-definer)
    comment = f"{own} {mark}" if isinstance(own, str) and own else mark
    literal = "'" + comment.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(own, str):
        found = [*_COMMENT.finditer(text, 0, returns.start())]
        if not found:
            return Unsupported("the COMMENT of the function is not written as one string")
        span = Span(*found[-1].span(1))
        told = Splice(span=span, text=literal, kind="comment", parts=(comment,))
    else:
        span = Span(returns.start(), returns.start() + len("RETURN"))
        told = Splice(span=span, text=f"COMMENT {literal} RETURN", kind="comment", parts=(comment,))
    if body == kept:
        return (told,)
    place = Span(start, start + len(kept))
    return told, Splice(span=place, text=body, kind="body", parts=(body,))


@dataclass(frozen=True, slots=True)
class CalledFunctions:
    """The functions of a text that were made through a gateway."""

    bodies: Mapping[TableName, RewrittenStatement]
    """Of those that are called as they are, and of those that are written out."""
    guarded: Mapping[TableName, GuardedFunction]
    """Those whose bodies are written out where they are called."""


async def judge_called(
    called: Iterable[TableName], reads: ReadViews, *, writes: bool, personal: bool
) -> CalledFunctions | NotRewritten:
    """Judge the bodies of functions that are called, of those that were made through a gateway. `writes`:
    whether they can be written out; `personal`: whether those that ask who the user is have to be."""
    bodies: dict[TableName, RewrittenStatement] = {}
    guarded: dict[TableName, GuardedFunction] = {}
    for name in dict.fromkeys(called):
        table = reads.judging.snapshot.catalog.table(name)
        # RULE (function-body-judged)
        if table is None or table.view is None or table.view.definer is None:
            continue  # an operator vouches for it
        whole = write_whole_body(
            table.view.body,
            table.view.parameters,
            name.table,
            is_table=table.view.is_table,
            defaults=table.view.defaults,
        )
        body = await reads.body_of_function(table, whole.text)
        if not isinstance(body, RewrittenStatement):
            return _without_place(body)
        if (why := _explain_variables(body)) is not None:
            return not_governable(why)
        obliged = write_nested_text(replace(body, listed=frozenset()), personal=personal) is not None
        if obliged or body.lends_to:  # RULE (function-body-guarded, function-lends)
            found = _guard(table, table.view, whole, body) if writes else None
            if found is None:
                return not_governable(
                    Unsupported(
                        f"the function {name} asks who you are, or reads what is masked, filtered or hidden "
                        "for you, and Spark runs its body as it is stored; call it in SQL, in a query"
                    )
                )
            guarded[name] = found
        elif old := reads.not_of_this_moment(body.listed):
            return NeedsCatalog(old, promotes=False, anew=True)
        bodies[name] = body
    return CalledFunctions(bodies, guarded)


def _explain_variables(body: RewrittenStatement) -> Unsupported | None:
    return Unsupported(f"the body of a function that is called {body.moves}") if body.moves else None


def _guard(
    table: Table, view: ViewBody, whole: WholeBody, body: RewrittenStatement
) -> GuardedFunction | None:
    """Return a function as it is for who calls; None where its body is not told from what is around it."""
    within = whole.cut(body.text)
    if within is None:
        return None
    return GuardedFunction(name=table.name, view=view, body=within, lends=bool(body.lends_to))


def name_functions(
    prepared: Prepared, guarded: Mapping[TableName, GuardedFunction]
) -> dict[tuple[tuple[str, ...], bool], GuardedFunction]:
    """Return the functions that are written out, by how the text calls them and whether for rows."""
    short = {one.parts: name for one, name in prepared.short_functions}
    found = {}
    for one in prepared.reading.functions:
        name = short.get(one.parts)
        if name is None and len(one.parts) == WHOLE_NAME:
            name = replace(TableName.of(one.parts), version=FUNCTION)
        if name is not None and (function := guarded.get(name.fold())) is not None:
            found[one.parts, one.table_valued] = function
    return found


@dataclass(frozen=True, slots=True)
class WrittenCalls:
    """What stands for calls, and what keeps the names of columns."""

    calls: tuple[Splice, ...] = ()
    titles: tuple[Splice, ...] = ()


NO_CALLS = WrittenCalls()


async def write_out_calls(
    prepared: Prepared,
    guarded: Mapping[TableName, GuardedFunction],
    bound: Sequence[Splice],
    judging: Judging,
) -> WrittenCalls | Unsupported:
    """Write the bodies of functions where a text calls them, guarded for who calls. `bound`: where the user's
    name is written in."""
    text, reading = prepared.text, prepared.reading
    if prepared.required.shares or any(one.node == "DescribeQueryCommand" for one in reading.commands):
        guarded = {}  # each who reads the view calls them by himself; and nothing but types is described
    functions = name_functions(prepared, guarded)
    called = {one.name.fold() for one in functions.values()}
    changes = {one.node for one in reading.commands} & _CHANGING
    explains = prepared.required.explains or prepared.required.sketches
    for name, function in guarded.items():
        # RULE (called-body-place)
        if name not in called or changes or explains or judging.settings:
            return refuse_call(
                function,
                "where rows are changed"
                if changes
                else "into a plan that is shown"
                if explains
                else "under the settings of this session"
                if judging.settings
                else "in this place",
            )
    calls = find_calls(text, reading, functions) if functions else ()
    if isinstance(calls, Unsupported):
        return calls
    named = await name_calls(text, [call for call in calls if call.item is not None], judging)
    unknown = next((call for call in calls if call.heads_column and named[call.span.start] is None), None)
    unnamed = () if prepared.place.expression or prepared.required.shares else bound
    titles, missing = await name_items(text, reading.tree if bound else None, calls, named, unnamed, judging)
    if (found := unknown or missing) is not None:
        return ask_for_alias(found.function)
    heads = {call.span.start: str(named[call.span.start]) for call in calls if call.heads_column}
    written = write_calls(calls, heads, bare=judging.bare_builtins)
    return written if isinstance(written, Unsupported) else WrittenCalls(written, titles)
