"""`judge`: a statement and a snapshot in, Cleared or Refused out. The only place that makes a Cleared.

The passes, in order: read (Spark's parser), classify, resolve, analyse (sqlglot, an advisor), evaluate
(policies), guard (splices), prove (Spark's parser again). Each takes what the one before it gave; anything
that one of them does not know is refused. Nothing here does I/O but asking the reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from gateway.model.catalog import Table, TableKind, TableName
from gateway.model.decision import ColumnMask, Decision, Obligation
from gateway.model.principal import Principal
from gateway.model.reading import NotParsed, NotRead, Reading, Relation, RelationRole, Splice
from gateway.model.resource import AccessRequest, Resource
from gateway.model.snapshot import Snapshot
from gateway.model.statement import (
    AnswerRule,
    Cleared,
    NeedsCatalog,
    Refused,
    ScanRecord,
    SessionContext,
    Statement,
    Verdict,
)
from gateway.policy.engine import Engine, TableView, engine_for
from gateway.reader.port import ReaderPort
from gateway.sql.analyse import ScannedTable, Silent, Usage, analyse
from gateway.sql.classify import classify
from gateway.sql.guard import GuardedRelation, apply, guarded_query, pinned_parts, splices, view_source
from gateway.sql.names import Names, TempViewName, Ungovernable, dotted
from gateway.sql.scope import table_resource
from gateway.sql.wants import NotGovernable, Pin, Want, Wants

ACCESS_DENIED = ("ACCESS_DENIED", "42501")
NOT_GOVERNABLE = ("NOT_GOVERNABLE", "0A000")
MAX_VIEW_DEPTH = 20
"""Views over views beyond this depth are refused; Spark's own limit is 100."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Settings that change verdicts."""

    star: Literal["refuse", "visible"] = "refuse"
    """What `*` means on a table with columns that the principal may not select."""
    views: Literal["definer", "invoker"] = "definer"
    """Whether reading a view needs select on its base tables too (`invoker`)."""


@dataclass(frozen=True, slots=True)
class _Stop:
    """Why judging ends early; becomes a Refused."""

    code: str
    sqlstate: str
    message: str
    decisions: tuple[Decision, ...] = ()
    plan_class: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Governed:
    """One text with its scans guarded and proved."""

    text: str
    reading: Reading
    wants: Wants
    allowed: frozenset[tuple[str, ...]]
    decisions: tuple[Decision, ...]
    scans: tuple[ScanRecord, ...]
    words: tuple[tuple[str, str], ...]
    agree: bool | None
    carries_obligation: bool
    answer: AnswerRule


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judging:
    """What stays the same while one statement and the views it reads are judged."""

    principal: Principal
    snapshot: Snapshot
    engine: Engine
    reader: ReaderPort
    rules: Rules
    needed: set[TableName] = field(default_factory=set)
    """Names to look up before judging can go on; collected, so that one lookup serves them all."""


async def judge(
    statement: Statement, snapshot: Snapshot, reader: ReaderPort, rules: Rules | None = None
) -> Verdict | NeedsCatalog:
    """Say whether the statement may pass, and as what text.

    Returns NeedsCatalog when tables must be looked up first; the caller does that and asks again.
    """
    judging = _Judging(
        principal=statement.principal,
        snapshot=snapshot,
        engine=engine_for(snapshot.policies),
        reader=reader,
        rules=rules or Rules(),
    )
    outcome = await _govern(statement.text, statement.context, judging, depth=0)
    if isinstance(outcome, NeedsCatalog):
        return outcome
    if isinstance(outcome, _Stop):
        return Refused(
            statement=statement,
            code=outcome.code,
            sqlstate=outcome.sqlstate,
            message=outcome.message,
            plan_class=outcome.plan_class,
            decisions=outcome.decisions,
            snapshot_version=snapshot.version,
        )
    return Cleared(
        statement=statement,
        forwarded=outcome.text,
        plan_class=outcome.reading.root,
        decisions=outcome.decisions,
        scans=outcome.scans,
        snapshot_version=snapshot.version,
        effects=outcome.wants.effects,
        answer=outcome.answer,
        readers_agree=outcome.agree,
        written_by_us=outcome.words,
    )


async def _govern(
    text: str, context: SessionContext, judging: _Judging, depth: int
) -> _Governed | _Stop | NeedsCatalog:
    """Run every pass on one text: the statement itself at depth 0, a view's body below."""
    reading = await judging.reader.read(text)
    if isinstance(reading, NotParsed):
        # Spark's own words and SQLSTATE: the client must not notice who answered.
        return _Stop("SPARK", reading.sqlstate, reading.message)
    if isinstance(reading, NotRead):
        return _Stop(reading.code, "54001" if reading.code.startswith("TOO_") else "57000", reading.message)
    names = Names(context, judging.snapshot.catalog.catalogs)
    wants = classify(reading, names)
    if isinstance(wants, NotGovernable):
        return _Stop(*NOT_GOVERNABLE, wants.why, plan_class=reading.root)
    if depth > 0 and reading.commands:
        return _Stop(*NOT_GOVERNABLE, "a view's text is not a query", plan_class=reading.root)
    outcome = await _govern_reading(text, reading, wants, names, judging, depth)
    if isinstance(outcome, _Stop):
        return replace(outcome, plan_class=reading.root)
    return outcome


async def _govern_reading(
    text: str, reading: Reading, wants: Wants, names: Names, judging: _Judging, depth: int
) -> _Governed | _Stop | NeedsCatalog:
    # A view's owner vouched for what it reads, so its body asks for nothing of the reader by default;
    # masks and filters of the reader hold all the same.
    checked = depth == 0 or judging.rules.views == "invoker"
    resolved = _resolve(reading, names)
    if isinstance(resolved, _Stop):
        return resolved
    scans, views_in_session = resolved
    missing: list[str] = []
    decisions: list[Decision] = []
    if checked:
        _evaluate_wants((*wants.wants, *_functions(reading, names)), judging, missing, decisions)
        _evaluate_visibility(scans, judging, missing, decisions)
        if missing:
            return _denied(judging.principal, missing, decisions)
    tables = [name for _, name in scans] + list(wants.raw) + ([wants.described] if wants.described else [])
    unknown = {name for name in tables if not judging.snapshot.catalog.knows(name)}
    if unknown:
        judging.needed.update(unknown)
        return NeedsCatalog(tuple(sorted(judging.needed, key=str)))

    usage = _analyse(text, scans, judging)
    views = {name.folded(): _view(name, judging) for _, name in scans}
    guarded: list[GuardedRelation] = []
    records: dict[TableName, ScanRecord] = {}
    inner: dict[TableName, _Governed] = {}
    for relation, name in scans:
        table = judging.snapshot.catalog.table(name)
        if table is None:
            guarded.append(_missing_table(relation, name))
            continue
        view = views[name.folded()]
        used = _check_columns(table, view, usage, judging, missing, decisions) if checked else None
        if isinstance(used, _Stop):
            return used
        if table.kind is TableKind.VIEW and name.folded() not in inner:
            body = await _view_body(table, judging, depth)
            if not isinstance(body, _Governed):
                return body
            inner[name.folded()] = body
        guard = _guard(text, relation, table, view, inner.get(name.folded()), everything=not checked)
        guarded.append(guard)
        records[name.folded()] = ScanRecord(
            table=table.name,
            access="select",
            columns=used,
            obligations=_obligations(view, checked) if guard.query is not None else (),
        )
    if missing:
        return _denied(judging.principal, missing, decisions)
    refused = _refuse_raw(reading, wants, guarded, inner, judging)
    if refused is not None:
        return refused

    written = splices(text, reading, guarded)
    if isinstance(written, NotGovernable):
        return _Stop(*NOT_GOVERNABLE, written.why)
    scan_splices, words = written
    pinned = _pins(reading, wants.pins, views_in_session)
    if isinstance(pinned, _Stop):
        return pinned
    allowed = {pinned_parts(guard.table) for guard in guarded} | pinned[1] | views_in_session
    for body in inner.values():
        allowed |= body.allowed
    allowed |= await _policy_relations(views.values(), judging)
    all_splices = (*scan_splices, *pinned[0])
    forwarded = apply(text, all_splices)
    stop = await _prove(text, forwarded, all_splices, reading, frozenset(allowed), judging)
    if stop is not None:
        return stop
    return _Governed(
        text=forwarded,
        reading=reading,
        wants=wants,
        allowed=frozenset(allowed),
        decisions=tuple(dict.fromkeys(decisions)),
        scans=(*records.values(), *(scan for body in inner.values() for scan in body.scans)),
        words=(*words, *(pair for body in inner.values() for pair in body.words)),
        agree=None if not scans else (True if isinstance(usage, Usage) else usage.agree),
        carries_obligation=any(g.query is not None for g in guarded if _exists(g, judging)),
        answer=_answer(wants, judging),
    )


# ---- resolve ------------------------------------------------------------------------------------------


def _resolve(
    reading: Reading, names: Names
) -> tuple[list[tuple[Relation, TableName]], set[tuple[str, ...]]] | _Stop:
    """Split the relations that are read into catalog tables and temporary views of the session."""
    scans: list[tuple[Relation, TableName]] = []
    temp_views: set[tuple[str, ...]] = set()
    for relation in reading.relations:
        match relation.role:
            case RelationRole.CTE | RelationRole.TARGET:
                continue
            case RelationRole.SCAN:
                written = ".".join(relation.parts)
                if relation.span is None or relation.whole is None:
                    return _Stop(*NOT_GOVERNABLE, f"`{written}` is not written literally in the statement")
                name = names.table(relation.parts)
                match name:
                    case Ungovernable(why):
                        return _Stop(*NOT_GOVERNABLE, f"`{written}` {why}")
                    case TempViewName():
                        temp_views.add(relation.parts)
                    case TableName():
                        scans.append((relation, name))
    return scans, temp_views


def _functions(reading: Reading, names: Names) -> tuple[Want, ...]:
    """Return execute on every persistent function that is called."""
    wants = []
    for function in reading.functions:
        lowered = [part.lower() for part in function.parts]
        if function.table_valued or (len(lowered) == 1 and function.builtin) or "builtin" in lowered[:2]:
            continue
        name = names.new_table(function.parts)
        if isinstance(name, Ungovernable):
            # Wanting it on a catalog of no name makes sure that nobody has it.
            wants.append(Want(Resource.udf("", "", ".".join(function.parts)), "execute"))
        else:
            wants.append(Want(Resource.udf(name.catalog, name.database, name.table), "execute"))
    return tuple(wants)


# ---- evaluate -----------------------------------------------------------------------------------------


def _evaluate_wants(
    wants: Sequence[Want], judging: _Judging, missing: list[str], decisions: list[Decision]
) -> None:
    for want in wants:
        if want.visible_is_enough and judging.engine.visible(judging.principal, want.resource):
            continue
        decision = judging.engine.decide(
            AccessRequest(principal=judging.principal, resource=want.resource, access=want.access)
        )
        decisions.append(decision)
        if not decision.allowed:
            missing.append(f"{want.access} on {want.resource.kind} {want.resource}")


def _evaluate_visibility(
    scans: Sequence[tuple[Relation, TableName]],
    judging: _Judging,
    missing: list[str],
    decisions: list[Decision],
) -> None:
    """Refuse tables of which nothing may be seen, before anything is looked up.

    The answer is the same whether the table exists or not, so that refusals do not tell names.
    """
    for name in dict.fromkeys(name for _, name in scans):
        resource = table_resource(name)
        if judging.engine.visible(judging.principal, resource):
            continue
        decisions.append(
            judging.engine.decide(
                AccessRequest(principal=judging.principal, resource=resource, access="select")
            )
        )
        missing.append(f"select on table {name}")


def _view(name: TableName, judging: _Judging) -> TableView | None:
    table = judging.snapshot.catalog.table(name)
    if table is None:
        return None
    return judging.engine.table_view(
        judging.principal, table_resource(table.name, table.owner), table.columns, "select"
    )


def _hidden(table: Table, view: TableView) -> list[str]:
    """Return the columns that may not be selected, as the table writes them, in its order."""
    return [c.name for c in table.columns if not view.decisions[c.name.lower()].allowed]


def _check_columns(
    table: Table,
    view: TableView | None,
    usage: Usage | Silent,
    judging: _Judging,
    missing: list[str],
    decisions: list[Decision],
) -> tuple[str, ...] | None | _Stop:
    """Check the columns that the statement uses; return them, or None when the analyst could not tell."""
    assert view is not None
    hidden = _hidden(table, view)
    name = table.name
    if len(hidden) == len(table.columns):
        decisions.extend(view.decisions.values())
        missing.append(f"select on table {name}")
        return ()
    if isinstance(usage, Silent):
        decisions.extend(d for d in view.decisions.values() if d.allowed)
        barred = [m.column for m in view.masks.values() if m.predicate == "deny"]
        if barred:
            return _Stop(
                *NOT_GOVERNABLE,
                f"the use of column {name}.{barred[0]} could not be followed, and it may only be shown",
                tuple(decisions),
            )
        return None
    used = usage.columns.get(name.folded(), frozenset())
    wanted = set(used)
    if name.folded() in usage.stars:
        wanted |= {c.lower() for c in hidden} if judging.rules.star == "refuse" else set()
    for column in table.columns:
        folded = column.name.lower()
        if folded not in wanted:
            continue
        decision = view.decisions[folded]
        decisions.append(decision)
        if not decision.allowed:
            missing.append(f"select on column {name}.{column.name}")
        mask = view.masks.get(folded)
        if (
            mask is not None
            and mask.predicate == "deny"
            and folded in usage.non_output_columns.get(name.folded(), frozenset())
        ):
            return _Stop(
                *ACCESS_DENIED,
                f"column {name}.{column.name} is masked for user {judging.principal.user} and may only be "
                f"shown, not compared, joined, grouped or sorted",
                tuple(decisions),
            )
    if not wanted:
        decisions.append(next(d for d in view.decisions.values() if d.allowed))
    return tuple(sorted(used))


def _denied(principal: Principal, missing: Sequence[str], decisions: Sequence[Decision]) -> _Stop:
    wanted = ", ".join(dict.fromkeys(missing))
    return _Stop(
        *ACCESS_DENIED, f"user {principal.user} needs {wanted}", tuple(dict.fromkeys(decisions))
    )


# ---- guard --------------------------------------------------------------------------------------------


def _missing_table(relation: Relation, name: TableName) -> GuardedRelation:
    """Let Spark say that the table does not exist, and show nothing should it appear meanwhile."""
    table = Table(name=name, kind=TableKind.TABLE, columns=())
    full = dotted(pinned_parts(table))
    suffix_free = relation.suffix is None
    return GuardedRelation(
        relation=relation, table=table, query=f"SELECT * FROM {full} WHERE false" if suffix_free else None
    )


async def _view_body(table: Table, judging: _Judging, depth: int) -> _Governed | _Stop | NeedsCatalog:
    if table.view is None:
        return _Stop(*NOT_GOVERNABLE, f"the text of the view {table.name} is not available")
    if depth >= MAX_VIEW_DEPTH:
        return _Stop(*NOT_GOVERNABLE, f"the view {table.name} rests on more than {MAX_VIEW_DEPTH} others")
    context = SessionContext(catalog=table.view.catalog, namespace=(table.view.database,))
    body = await _govern(table.view.text, context, judging, depth + 1)
    if isinstance(body, _Stop) and body.code == "SPARK":
        return _Stop(*NOT_GOVERNABLE, f"the text of the view {table.name} cannot be read")
    return body


def _guard(
    text: str,
    relation: Relation,
    table: Table,
    view: TableView | None,
    body: _Governed | None,
    *,
    everything: bool,
) -> GuardedRelation:
    """Write the guarded relation of one scan; `everything` shows all columns (a view vouches for them)."""
    assert view is not None
    hidden = [] if everything else _hidden(table, view)
    masks = _masks(view, everything)
    nested = body is not None and body.carries_obligation
    if not hidden and not masks and view.row_filter is None and not nested:
        return GuardedRelation(relation=relation, table=table, query=None)
    if nested and body is not None:
        source = view_source(table, body.text)
    else:
        suffix = f" {relation.suffix.of(text)}" if relation.suffix else ""
        source = dotted(pinned_parts(table)) + suffix
    gone = {name.lower() for name in hidden}
    query = guarded_query(
        table,
        visible=[c.name for c in table.columns if c.name.lower() not in gone],
        masks=masks,
        row_filter=view.row_filter,
        source=source,
    )
    return GuardedRelation(relation=relation, table=table, query=query)


def _masks(view: TableView, everything: bool) -> Mapping[str, ColumnMask]:
    if everything:
        return view.masks
    return {name: mask for name, mask in view.masks.items() if view.decisions[name].allowed}


def _obligations(view: TableView | None, checked: bool) -> tuple[Obligation, ...]:
    assert view is not None
    masks = tuple(_masks(view, not checked).values())
    return (*masks, view.row_filter) if view.row_filter is not None else masks


def _exists(guard: GuardedRelation, judging: _Judging) -> bool:
    return judging.snapshot.catalog.table(guard.table.name) is not None


def _refuse_raw(
    reading: Reading,
    wants: Wants,
    guarded: Sequence[GuardedRelation],
    inner: Mapping[TableName, _Governed],
    judging: _Judging,
) -> _Stop | None:
    """Refuse what would get past masks and filters: raw commands, plans, lasting definitions, metadata."""
    carried = [g for g in guarded if g.query is not None and _exists(g, judging)]
    user = judging.principal.user
    for name in wants.raw:
        view = _view(name, judging)
        table = judging.snapshot.catalog.table(name)
        if view is None or table is None:
            continue
        if view.masks or view.row_filter is not None or _hidden_for_raw(table, view):
            return _Stop(
                *ACCESS_DENIED,
                f"rows or columns of table {name} are hidden from or masked for user {user}, "
                f"so this kind of statement on it is refused",
            )
    if not carried:
        return None
    name = carried[0].table.name
    if wants.explains:
        return _Stop(
            *ACCESS_DENIED, f"plans over {name} are not shown, because it is filtered or masked for user {user}"
        )
    if wants.shares:
        return _Stop(
            *ACCESS_DENIED,
            f"{name} is filtered or masked for user {user}; a view made from it would show that to everybody",
        )
    if any("_metadata" in (part.lower() for part in c.parts) for c in reading.columns):
        return _Stop(*NOT_GOVERNABLE, f"`_metadata` is not available, because {name} is filtered or masked")
    return None


def _hidden_for_raw(table: Table, view: TableView) -> bool:
    """Whether some but not all columns are hidden; with none granted the command's own right decides."""
    return 0 < len(_hidden(table, view)) < len(table.columns)


def _pins(
    reading: Reading, pins: Sequence[Pin], temp_views: set[tuple[str, ...]]
) -> tuple[tuple[Splice, ...], set[tuple[str, ...]]] | _Stop:
    """Write full names over the names of targets, and account for every target of the statement."""
    allowed: set[tuple[str, ...]] = set()
    result: dict[int, Splice] = {}
    judged = {id(pin.relation) for pin in pins}
    for pin in pins:
        relation = pin.relation
        parts = (pin.table.catalog, pin.table.database, pin.table.table)
        if relation.span is None:
            if len(relation.parts) < 3:
                return _Stop(
                    *NOT_GOVERNABLE,
                    f"`{'.'.join(relation.parts)}` is not written literally; use catalog.database.table",
                )
            allowed.add(relation.parts)
            continue
        allowed.add(parts)
        if parts != relation.parts:
            result[relation.span.start] = Splice(span=relation.span, text=dotted(parts), kind="pin", parts=parts)
    for relation in reading.relations:
        if relation.role is RelationRole.TARGET and id(relation) not in judged:
            allowed.add(relation.parts)
    return tuple(result.values()), allowed


async def _policy_relations(
    views: Iterable[TableView | None], judging: _Judging
) -> set[tuple[str, ...]]:
    """Return the tables that row filters and masks read by subquery; they must be written in full."""
    found: set[tuple[str, ...]] = set()
    for view in views:
        if view is None:
            continue
        texts = [mask.expression for mask in view.masks.values()]
        if view.row_filter is not None:
            texts.append(view.row_filter.expression)
        for text in texts:
            if "select" not in text.lower() and "table" not in text.lower():
                continue
            reading = await judging.reader.read_expression(text)
            if isinstance(reading, Reading):
                found |= {
                    r.parts for r in reading.relations if r.role is RelationRole.SCAN and len(r.parts) == 3
                }
    return found


# ---- analyse, prove, answer ---------------------------------------------------------------------------


def _analyse(text: str, scans: Sequence[tuple[Relation, TableName]], judging: _Judging) -> Usage | Silent:
    scanned = []
    for relation, name in scans:
        table = judging.snapshot.catalog.table(name)
        if table is None:
            return Silent("a table does not exist")
        scanned.append(ScannedTable(parts=relation.parts, name=name.folded(), columns=table.columns))
    return analyse(text, scanned)


async def _prove(
    text: str,
    forwarded: str,
    all_splices: Sequence[Splice],
    reading: Reading,
    allowed: frozenset[tuple[str, ...]],
    judging: _Judging,
) -> _Stop | None:
    if not all_splices:
        # The text goes on as it was read; what is left to show is that every relation was accounted for.
        loose = [
            r for r in reading.relations if r.role is not RelationRole.CTE and r.parts not in allowed
        ]
        if loose:
            return _Stop(*NOT_GOVERNABLE, f"`{'.'.join(loose[0].parts)}` is not accounted for")
        return None
    proof = await judging.reader.prove(text, forwarded, all_splices, allowed)
    if proof.holds:
        return None
    return _Stop(
        *NOT_GOVERNABLE,
        "the guarded statement could not be proved equal to the original; give its tables plain aliases, "
        "or write the query in a simpler form",
    )


def _answer(wants: Wants, judging: _Judging) -> AnswerRule:
    if wants.described is None:
        return wants.answer
    table = judging.snapshot.catalog.table(wants.described)
    view = _view(wants.described, judging)
    if table is None or view is None:
        return wants.answer
    hidden = _hidden(table, view)
    gone = {name.lower() for name in hidden}
    return replace(
        wants.answer,
        columns=frozenset(c.name.lower() for c in table.columns) - gone,
        details=not hidden and not view.masks and view.row_filter is None,
    )
