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
from gateway.model.decision import ColumnMask, Decision
from gateway.model.principal import Principal
from gateway.model.reading import NotParsed, NotRead, Reading, RelationRole, Splice
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
from gateway.policy.engine import TableView, engine_for
from gateway.reader.port import ReaderPort
from gateway.sql import guard, policy_text
from gateway.sql.analyse import ScannedTable, Silent, Usage, analyse
from gateway.sql.classify import classify
from gateway.sql.evaluate import Denied, Evaluation, Scan, function_wants, obligations_of, scans_of
from gateway.sql.names import Names
from gateway.sql.wants import NotGovernable, Wants

MAX_VIEW_DEPTH = 20
"""Views over views beyond this depth are refused; Spark's own limit is 100."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Settings that change verdicts."""

    star: Literal["refuse", "visible"] = "refuse"
    """What `*` means on a table with columns that the principal may not select."""
    views: Literal["definer", "invoker"] = "definer"
    """Whether reading a view needs select on its base tables too (`invoker`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
    obliged: bool
    """Whether any scan is guarded, views inside included; a table that does not exist is too, so that a
    view over it cannot show rows of one that appears meanwhile."""
    answer: AnswerRule
    provisional: bool
    facets: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judging:
    """What stays the same while one statement and the views that it reads are judged."""

    principal: Principal
    snapshot: Snapshot
    reader: ReaderPort
    rules: Rules
    bodies: dict[TableName, _Governed] = field(default_factory=dict)
    """Views that were judged already: one that stands in many others is judged once."""

    def evaluation(self) -> Evaluation:
        return Evaluation(
            principal=self.principal,
            engine=engine_for(self.snapshot.policies),
            catalog=self.snapshot.catalog,
            context=self.snapshot.context,
            star_shows_visible=self.rules.star == "visible",
        )


_Outcome = _Governed | _Stop | NeedsCatalog


async def judge(
    statement: Statement, snapshot: Snapshot, reader: ReaderPort, rules: Rules | None = None
) -> Verdict | NeedsCatalog:
    """Say whether the statement may pass, and as what text.

    Returns NeedsCatalog when tables must be looked up first; the caller does that and asks again. Each
    level of views can ask once more, so at most MAX_VIEW_DEPTH + 1 rounds are needed.
    """
    judging = _Judging(
        principal=statement.principal, snapshot=snapshot, reader=reader, rules=rules or Rules()
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
        provisional=outcome.provisional,
        facets=outcome.facets,
        written_by_us=outcome.words,
    )


async def _govern(text: str, context: SessionContext, judging: _Judging, depth: int) -> _Outcome:
    """Run every pass on one text: the statement itself at depth 0, the body of a view below."""
    reading = await judging.reader.read(text)
    if isinstance(reading, NotParsed):
        # Spark's own words and SQLSTATE: the client must not notice who answered.
        return _Stop(code="SPARK", sqlstate=reading.sqlstate, message=reading.message)
    if isinstance(reading, NotRead):
        sqlstate = "54001" if reading.code.startswith("TOO_") else "57000"
        return _Stop(code=reading.code, sqlstate=sqlstate, message=reading.message)
    names = Names(context, judging.snapshot.catalog.catalogs)
    wants = classify(reading, names)
    if isinstance(wants, NotGovernable):
        outcome: _Outcome = _not_governable(wants)
    elif depth > 0 and reading.commands:
        outcome = _not_governable(NotGovernable("the text of a view is not a query"))
    else:
        outcome = await _govern_reading(text, reading, wants, names, judging, depth)
    return replace(outcome, plan_class=reading.root) if isinstance(outcome, _Stop) else outcome


async def _govern_reading(
    text: str, reading: Reading, wants: Wants, names: Names, judging: _Judging, depth: int
) -> _Outcome:
    # A view's owner vouched for what it reads, so its body asks for nothing of the reader by default;
    # masks and filters of the reader hold all the same.
    vouched = depth > 0 and judging.rules.views == "definer"
    evaluation = judging.evaluation()
    scans = scans_of(reading, names)
    if isinstance(scans, NotGovernable):
        return _not_governable(scans)
    functions = function_wants(reading, names)
    if isinstance(functions, NotGovernable):
        return _not_governable(functions)
    if not vouched:
        evaluation.wants((*wants.wants, *functions))
        evaluation.visibility(scans)
        if (denied := evaluation.denied()) is not None:
            return _access_denied(denied, evaluation)
    unknown = dict.fromkeys((*evaluation.unsure, *_unknown(scans, wants, judging.snapshot)))
    if unknown:
        return NeedsCatalog(tuple(unknown))

    usage = _analyse(text, reading, scans, judging.snapshot)
    evaluation.context = replace(
        evaluation.context, accessed_together=_together(usage, scans, judging.snapshot)
    )
    views = {name.folded(): evaluation.view(name) for _, name in scans}
    bodies = await _view_bodies((*(name for _, name in scans), *_commanded(wants)), judging, depth)
    if not isinstance(bodies, dict):
        return bodies
    guarded: list[guard.GuardedRelation] = []
    records: dict[TableName, ScanRecord] = {}
    for relation, name in scans:
        table, view = judging.snapshot.catalog.table(name), views[name.folded()]
        if table is None or view is None:
            guarded.append(guard.guard_missing(text, relation, name))
            continue
        used = None if vouched else evaluation.columns(table, view, usage)
        if isinstance(used, Denied):
            return _access_denied(used, evaluation)
        body = bodies.get(name.folded())
        nested = body.text if body is not None and body.obliged else None
        scan = guard.guard_scan(text, relation, table, view, vouched=vouched, body=nested)
        if isinstance(scan, NotGovernable):
            return _not_governable(scan)
        guarded.append(scan)
        obligations = obligations_of(view, vouched=vouched)
        records[name.folded()] = ScanRecord(
            table=table.name, access="select", columns=used, obligations=obligations
        )
    obliged_views = frozenset(name for name, body in bodies.items() if body.obliged)
    denied = (
        evaluation.denied()
        or evaluation.raw(wants.raw, wants.shown, obliged_views)
        or _past_guards(reading, wants, guarded, judging)
        or _shown_only(reading, records.values(), bodies.values(), judging)
    )
    if denied is not None:
        return _access_denied(denied, evaluation)

    written = guard.splices(text, reading, guarded)
    pinned = guard.pin_targets(reading, wants, names)
    if isinstance(written, NotGovernable):
        return _not_governable(written)
    if isinstance(pinned, NotGovernable):
        return _not_governable(pinned)
    policy_relations = await _policy_relations(scans, views, judging)
    if isinstance(policy_relations, NotGovernable):
        return _not_governable(policy_relations)
    if isinstance(policy_relations, NeedsCatalog):
        return policy_relations
    temporary = {r.parts for r in reading.relations if r.role is RelationRole.SCAN} - {
        relation.parts for relation, _ in scans
    }
    allowed = frozenset(
        {guard.pinned_parts(scan.table) for scan in guarded}
        | pinned[1]
        | temporary
        | policy_relations
        | {parts for body in bodies.values() for parts in body.allowed}
    )
    splices = (*written[0], *pinned[0])
    forwarded = guard.apply(text, splices)
    unproved = await _prove(text, forwarded, splices, reading, allowed, judging.reader)
    if unproved is not None:
        return _not_governable(unproved)
    return _Governed(
        text=forwarded,
        reading=reading,
        wants=wants,
        allowed=allowed,
        decisions=tuple(dict.fromkeys(evaluation.decisions)),
        scans=(*records.values(), *(scan for body in bodies.values() for scan in body.scans)),
        words=(*written[1], *(pair for body in bodies.values() for pair in body.words)),
        agree=_agreement(usage) if scans else None,
        obliged=any(scan.query is not None for scan in guarded),
        answer=evaluation.answer(wants, obliged_views),
        provisional=any(not _exists(scan.table, judging) for scan in guarded)
        or any(body.provisional for body in bodies.values()),
        facets=frozenset(evaluation.facets).union(*(body.facets for body in bodies.values())),
    )


def _not_governable(refusal: NotGovernable) -> _Stop:
    return _Stop(code="NOT_GOVERNABLE", sqlstate="0A000", message=refusal.why)


def _access_denied(denied: Denied, evaluation: Evaluation) -> _Stop:
    decisions = tuple(dict.fromkeys(evaluation.decisions))
    return _Stop(code="ACCESS_DENIED", sqlstate="42501", message=denied.message, decisions=decisions)


def _unknown(scans: Sequence[Scan], wants: Wants, snapshot: Snapshot) -> tuple[TableName, ...]:
    """Return the names that must be looked up before the statement can be judged."""
    tables = (*(name for _, name in scans), *_commanded(wants))
    return tuple(dict.fromkeys(name.folded() for name in tables if not snapshot.catalog.knows(name)))


def _commanded(wants: Wants) -> tuple[TableName, ...]:
    """Return the tables that commands show, change or describe without reading them as rows."""
    described = () if wants.described is None else (wants.described,)
    return (*wants.raw, *wants.shown, *described)


def _exists(table: Table, judging: _Judging) -> bool:
    return judging.snapshot.catalog.table(table.name) is not None


def _analyse(text: str, reading: Reading, scans: Sequence[Scan], snapshot: Snapshot) -> Usage | Silent:
    if not scans:
        return Silent("nothing is read")
    names = {relation.span: name for relation, name in scans}
    scanned = []
    for relation in reading.relations:
        if relation.role is not RelationRole.SCAN:
            continue
        name = names.get(relation.span)
        table = snapshot.catalog.table(name) if name is not None else None
        if name is not None and table is None:
            return Silent("a table does not exist")
        columns = table.columns if table is not None else ()
        folded = name.folded() if name is not None else None
        scanned.append(ScannedTable(parts=relation.parts, name=folded, columns=columns))
    return analyse(text, scanned, reading.columns)


def _together(usage: Usage | Silent, scans: Sequence[Scan], snapshot: Snapshot) -> frozenset[str]:
    """Return the columns that the text reads, as `database.table.column`; all of its tables' columns when the
    analyst could not tell, which is the safe side for a policy on what may not be read together."""
    found: set[str] = set()
    for name in {name.folded() for _, name in scans}:
        table = snapshot.catalog.table(name)
        columns = [column.name.lower() for column in table.columns] if table is not None else []
        used = usage.columns.get(name, frozenset()) if isinstance(usage, Usage) else columns
        found.update(f"{name.database}.{name.table}.{column}" for column in used)
    return frozenset(found)


def _agreement(usage: Usage | Silent) -> bool | None:
    """Whether both readers saw the same relations; None when the analyst could not read the statement."""
    if isinstance(usage, Usage):
        return True
    return False if usage.disagrees else None


async def _view_bodies(
    names: Sequence[TableName], judging: _Judging, depth: int
) -> dict[TableName, _Governed] | _Stop | NeedsCatalog:
    """Govern the text of every persistent view among `names`, in the session that it was written in."""
    bodies: dict[TableName, _Governed] = {}
    for name in dict.fromkeys(name.folded() for name in names):
        table = judging.snapshot.catalog.table(name)
        if table is None or table.kind is not TableKind.VIEW:
            continue
        if name in judging.bodies:
            bodies[name] = judging.bodies[name]
            continue
        if table.view is None:
            return _not_governable(NotGovernable(f"the text of the view {table.name} is not available"))
        if depth >= MAX_VIEW_DEPTH:
            return _not_governable(
                NotGovernable(f"the view {table.name} rests on more than {MAX_VIEW_DEPTH} others")
            )
        context = SessionContext(catalog=table.view.catalog, namespace=(table.view.database,))
        body = await _govern(table.view.text, context, judging, depth + 1)
        if isinstance(body, _Stop) and body.code == "SPARK":
            return _not_governable(NotGovernable(f"the text of the view {table.name} cannot be read"))
        if not isinstance(body, _Governed):
            return body
        bodies[name] = judging.bodies[name] = body
    return bodies


def _past_guards(
    reading: Reading, wants: Wants, guarded: Sequence[guard.GuardedRelation], judging: _Judging
) -> Denied | None:
    """Deny what would tell of guarded relations past their guard: plans, shared definitions, metadata."""
    obliged = [scan.table.name for scan in guarded if scan.query is not None and _exists(scan.table, judging)]
    if not obliged:
        return None
    name, user = obliged[0], judging.principal.user
    if wants.explains:
        return Denied(f"plans over {name} are not shown, because it is filtered or masked for user {user}")
    if wants.shares:
        return Denied(
            f"{name} is filtered or masked for user {user}, and a view made from it would show that to all"
        )
    if any("_metadata" in (part.lower() for part in column.parts) for column in reading.columns):
        return Denied(f"`_metadata` is not available, because {name} is filtered or masked for user {user}")
    return None


def _shown_only(
    reading: Reading, records: Iterable[ScanRecord], bodies: Iterable[_Governed], judging: _Judging
) -> Denied | None:
    """Deny views over columns that may only be shown: what a later statement does with them is not seen."""
    inside = [scan for body in bodies for scan in body.scans]
    if any(command.node == "CreateViewCommand" for command in reading.commands):
        inside += records
    for scan in inside:
        for obligation in scan.obligations:
            if isinstance(obligation, ColumnMask) and obligation.predicate == "deny":
                return Denied(
                    f"column {scan.table}.{obligation.column} is masked for user {judging.principal.user} "
                    f"and may only be shown, not be read through a view"
                )
    return None


async def _policy_relations(
    scans: Sequence[Scan], views: Mapping[TableName, TableView | None], judging: _Judging
) -> frozenset[tuple[str, ...]] | NotGovernable | NeedsCatalog:
    """Check that row filters and masks speak of columns that exist; return the tables that they read.

    A column that is nowhere inside of the guard could be answered by a relation of the user's, outside of it.
    """
    found: set[tuple[str, ...]] = set()
    for name in dict.fromkeys(name.folded() for _, name in scans):
        table, view = judging.snapshot.catalog.table(name), views[name]
        if table is None or view is None:
            continue
        texts = [mask.expression for mask in view.masks.values()]
        if view.row_filter is not None:
            texts.append(view.row_filter.expression)
        for text in texts:
            reading = await judging.reader.read_expression(text)
            if not isinstance(reading, Reading):
                return NotGovernable(f"a policy for {name} cannot be read")
            read = {r.parts for r in reading.relations if r.role is not RelationRole.CTE}
            if any(len(parts) != 3 for parts in read):
                return NotGovernable(f"a policy for {name} names a table without its catalog and database")
            tables = [TableName(*parts) for parts in read]
            unknown = tuple(t.folded() for t in tables if not judging.snapshot.catalog.knows(t))
            if unknown:
                return NeedsCatalog(unknown)
            if not policy_text.fits(
                text, reading, table, [judging.snapshot.catalog.table(t) for t in tables]
            ):
                return NotGovernable(f"a policy for {name} does not fit its columns")
            found |= read
    return frozenset(found)


async def _prove(
    text: str,
    forwarded: str,
    splices: Sequence[Splice],
    reading: Reading,
    allowed: frozenset[tuple[str, ...]],
    reader: ReaderPort,
) -> NotGovernable | None:
    if not splices:
        # The text goes on as it was read; what is left to show is that every relation was accounted for.
        loose = [r for r in reading.relations if r.role is not RelationRole.CTE and r.parts not in allowed]
        return NotGovernable(f"`{'.'.join(loose[0].parts)}` is not accounted for") if loose else None
    proof = await reader.prove(text, forwarded, splices, allowed)
    if proof.holds:
        return None
    return NotGovernable(
        "the guarded statement could not be proved equal to the original; "
        "give its tables plain aliases or write it in a simpler form"
    )
