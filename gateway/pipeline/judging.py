"""What one judging keeps: its settings, what stays the same from text to text, and how a text ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from gateway.model.catalog import CatalogSnapshot, Table, TableName
from gateway.model.decision import Decision, distinct_decisions
from gateway.model.principal import Principal
from gateway.model.procedures import NO_PROCEDURES, Procedures
from gateway.model.reading import NotParsed, NotRead, Reading
from gateway.model.snapshot import Snapshot
from gateway.model.spark_minors import QUALIFIED_BUILTINS, UNSEEDED_SAMPLES, Minor, minor_of
from gateway.model.statement import (
    CatalogChanged,
    EndpointName,
    Findings,
    NeedsCatalog,
    SessionContext,
    SessionEffect,
    TendDataset,
)
from gateway.policy.engine import engine_for
from gateway.policy.reserved import ReservedPlace
from gateway.policy.unmatched import names_in
from gateway.reader.port import ReaderPort
from gateway.sql.analyse import Silent, Usage
from gateway.sql.evaluate import Denied, Evaluation, ScannedRelation
from gateway.sql.names import namespace_above
from gateway.sql.required import Privilege, Required, Unsupported
from gateway.sql.scope import table_resource
from gateway.sql.spark_errors import add_position, build_table_not_found_refusal

MAX_VIEW_DEPTH = 20
"""Views over views beyond this depth are refused; Spark's own limit is 100."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Settings that change verdicts."""

    star: Literal["refuse", "visible"] = "refuse"
    """What `*` means on a table with columns that the principal may not select."""
    views: Literal["definer", "invoker"] = "definer"
    """Who needs select on what a view reads: its definer, or whoever reads it."""
    unrecorded_views: Literal["operator", "owner", "invoker"] = "operator"
    """The same of a view that was made elsewhere: nobody, the owner that the catalog has, or who reads it."""
    push_down: bool = True
    """Whether leakproof conditions of a statement are added below the barriers of row filters."""
    procedures: Procedures = NO_PROCEDURES
    """Procedures of catalogs that may be called."""
    barriers: Literal["always", "needed"] = "needed"
    """Whether a row filter has its barrier, too, where nothing in the statement can fail."""
    checkpoints: ReservedPlace | None = None
    """Where the checkpoints of streams are; without it, a stream cannot have one that lasts."""
    reserved: tuple[ReservedPlace, ...] = ()
    """More places that no policy opens."""
    unmatched_columns: Literal["open", "closed"] = "open"
    """What a table is of which a mask, a denial or a tag names a column that it does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why judging ends early; becomes a Refused."""

    code: str
    sqlstate: str
    message: str
    decisions: tuple[Decision, ...] = ()
    plan_class: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    """Of a message in Spark's words."""
    exceptions: tuple[str, ...] = ()
    """Of an error that Spark's parser raised: its Java class, and those above it."""
    condition: str = ""
    """Of a message in Spark's words: its error class, which an old one does not begin with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenStatement(Findings):
    """One text with its scans guarded and proved."""

    text: str
    reading: Reading
    required: Required
    allowed: frozenset[tuple[str, ...]]
    has_obligations: bool
    """Whether any scan is guarded, views inside included; a table that does not exist is too, so that a
    view over it cannot show rows of one that appears meanwhile."""
    guarded: tuple[TableName, ...] = ()
    """The tables that are guarded and exist."""
    sketched: frozenset[TableName] = frozenset()
    """Those of them of which nothing that policies say stands in it."""
    personal: bool = False
    """Whether the principal's name was written into it: as a view's body it has to stand in for the view."""
    lends_to: frozenset[Principal] = frozenset()
    """Of the text of a view: those who read it and may not select all that it reads by themselves."""
    stands_in: bool = False
    """Of the text of a view: whether Spark's own reading of the view would not do, because of what stands in
    this one: barriers above views, or conditions."""
    listed: frozenset[TableName] = frozenset()
    """Of the text of a view: the tables (folded) in it that are read by the columns that were judged, and by
    nothing else that is guarded. Spark's own reading of the view would show others under names of theirs."""
    moves: str = ""
    """Of the text of a view: why it would mean something else where it is written out, in words."""
    opened: bool = False
    """Of the text of a view that was judged without barriers: whether nothing in it can fail."""

    @property
    def walled(self) -> bool:
        """Whether filters, masks or barriers stand in it, or may."""
        return self.has_obligations or self.stands_in


BodyKey = tuple[
    TableName, tuple[Principal, ...], frozenset[Principal], bool, tuple[str, tuple[str, ...]] | None
]
"""A view, those who read it, those who ask around it, whether it is judged without barriers, and of a metric
view the catalog and namespace of the session that reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """What stays the same while one statement and the views that it reads are judged."""

    principal: Principal
    snapshot: Snapshot
    reader: ReaderPort
    rules: Rules
    govern: Callable[[str, SessionContext, Judging, Any], Awaitable[JudgingOutcome]]
    """Runs every pass on a text that the statement leads to, of a view or a policy, at its `TextScope`."""
    endpoint: EndpointName = "thrift"
    """Where it came in: through Spark Connect, Spark does not know who the user is."""
    variables: frozenset[str] = frozenset()
    """Session variables that may exist where it will run, as SessionContext has them."""
    settings: frozenset[str] = frozenset()
    """Settings that the session may have otherwise than Spark itself; see `SessionContext`."""
    session_catalogs: frozenset[tuple[str, int]] = frozenset()
    """Catalogs that come and go, as the session was told of them; see `SessionContext`."""
    bodies: dict[BodyKey, RewrittenStatement] = field(default_factory=dict)
    """Views that were judged already: one that stands in many others is judged once."""
    in_function: bool = False
    """Whether the text becomes the body of a function, in which Spark takes no function's name with a
    catalog."""
    as_author: bool = False
    """Whether it is asked what the author of a policy's text may select."""
    narrowed: list[TableName] = field(default_factory=list)
    """Views that were judged once more, with conditions from above them."""

    @property
    def period(self) -> int:
        """What a guard's text has in it where masks or filters read tables."""
        return self.snapshot.context.period

    @property
    def minor(self) -> Minor:
        """Of the Spark that texts are for."""
        return minor_of(self.reader.spark_version)

    @property
    def bare_builtins(self) -> bool:
        """Whether Spark knows its built-in functions by bare names alone: nobody takes one of these."""
        return self.in_function or self.minor < QUALIFIED_BUILTINS

    @property
    def seeds_while_parsing(self) -> bool:
        """Whether Spark's parser draws the seed of a TABLESAMPLE that has none."""
        return self.minor < UNSEEDED_SAMPLES

    def evaluation(self) -> Evaluation:
        places = () if self.rules.checkpoints is None else (self.rules.checkpoints,)
        context = self.snapshot.context
        if self.bare_builtins:
            context = replace(context, bare_builtins=True)
        return Evaluation(
            principal=self.principal,
            engine=engine_for(self.snapshot.policies),
            catalog=self.snapshot.catalog,
            context=context,
            star_shows_visible=self.rules.star == "visible",
            reserved=(*self.rules.reserved, *places),
            names=names_in(self.snapshot.policies) if self.rules.unmatched_columns == "closed" else None,
        )

    def exists(self, table: Table) -> bool:
        return self.snapshot.catalog.table(table.name) is not None

    def list_unknown(self, names: Iterable[TableName]) -> tuple[TableName, ...]:
        """Return the names that must be looked up before the statement can be judged."""
        known = self.snapshot.catalog.knows
        every = tuple(names)
        return tuple(
            dict.fromkeys(n.fold() for n in (*every, *list_parent_namespaces(every)) if not known(n))
        )


NotRewritten = Refusal | NeedsCatalog
JudgingOutcome = RewrittenStatement | NotRewritten
T = TypeVar("T")


def refuse_unsupported(found: T | Unsupported) -> T | Refusal:
    """Return what was found, or how judging ends because of it."""
    return not_governable(found) if isinstance(found, Unsupported) else found


def not_governable(refusal: Unsupported, text: str = "") -> Refusal:
    """Return how judging ends; `text` is the one that the refusal has a place in."""
    if refusal.sqlstate:
        return Refusal(
            code="SPARK",
            sqlstate=refusal.sqlstate,
            message=add_position(refusal, text) if text else refusal.why,
            parameters=refusal.parameters,
        )
    return Refusal(code="NOT_GOVERNABLE", sqlstate="0A000", message=refusal.why)


UNREAD_SQLSTATES = {
    "TOO_LARGE": "54001",
    "TOO_DEEP": "54001",
    "TWO_READINGS": "0A000",
    "PARSER_FAILED": "XX000",
}
"""Of what the reader has no reading of; of everything else 57000: it may have one in a moment."""


def refuse_unread(answer: NotRead) -> Refusal:
    sqlstate = UNREAD_SQLSTATES.get(answer.code, "57000")
    return Refusal(code=answer.code, sqlstate=sqlstate, message=answer.message)


def refuse_unparsed(answer: NotParsed) -> Refusal:
    """Return how judging ends in the words of Spark's parser: the client must not notice who answered."""
    return Refusal(
        code="SPARK",
        sqlstate=answer.sqlstate,
        message=answer.message,
        parameters=answer.parameters,
        exceptions=answer.exceptions,
        condition=answer.error_class,
    )


def access_denied(denied: Denied, evaluation: Evaluation) -> Refusal:
    decisions = distinct_decisions(evaluation.decisions)
    return Refusal(code="ACCESS_DENIED", sqlstate="42501", message=denied.message, decisions=decisions)


def list_parent_namespaces(names: Iterable[TableName]) -> tuple[TableName, ...]:
    """Return the tables, should there be any, below which tables in nested namespaces are named."""
    found = (namespace_above(name) for name in names)
    return tuple(dict.fromkeys(one.fold() for one in found if one is not None))


def reject_names_below_table(names: Iterable[TableName], judging: Judging) -> Refusal | NeedsCatalog | None:
    """Say why one of the names may mean another table's rows, None when none does.

    INVARIANT (one name): what is named below a table is a version, a branch or metadata of it for Iceberg,
    past its masks. So in a namespace with a table's name nothing is named, whatever the catalog has there.
    """
    nested = [(name, one) for name in sorted(names, key=str) if (one := namespace_above(name)) is not None]
    if unknown := judging.list_unknown(one for _, one in nested):
        return NeedsCatalog(unknown, promotes=False)
    for name, one in nested:
        if judging.snapshot.catalog.table(one) is None:  # RULE (no-name-below-table)
            continue
        if not judging.evaluation().knows_of(table_resource(one)):  # RULE (table-above-untold)
            return not_governable(build_table_not_found_refusal(name.parts, SessionContext()))
        return not_governable(
            Unsupported(
                f"`{name}` is below the table {one}, so it may be a version or branch of it, and a "
                "namespace with the name of a table is not supported; rename one of the two"
            )
        )
    return None


def explain_ungoverned(table: Table) -> str:
    """Say why an object that is neither a table nor a view is refused."""
    match table.object_type.upper():
        case "METRIC_VIEW":
            return f"{table.name} is a metric view that cannot be governed: {table.unread}"
        case "":
            return f"Spark does not report what kind of object {table.name} is"
        case other:
            return f"{table.name} is a {other}, a kind of object that this version does not support"


def list_commanded_tables(required: Required) -> tuple[TableName, ...]:
    """Return the tables that commands show, change or describe without reading them as rows."""
    one = (name for name in (required.described, required.cached) if name is not None)
    named = (*(one.table for one in required.named), *(one.table for one in required.written))
    removed = (name for name, _ in required.removed)
    return (*required.raw, *required.read, *required.shown, *named, *removed, *one)


def list_wanted_tables(required: Iterable[Privilege]) -> Iterator[TableName]:
    """Return the tables on which privileges are wanted: what policies say of them can rest on their
    owners."""
    return (table for privilege in required if (table := privilege.table) is not None)


def to_promote(required: Required) -> tuple[TableName, ...]:
    """Return what a statement is there to make a table of."""
    tending = (effect for effect in required.effects if isinstance(effect, TendDataset))
    return tuple(effect.table for effect in tending if effect.action == "promote")


def to_describe_anew(
    required: Required, evaluation: Evaluation, versions: Iterable[TableName], snapshot: Snapshot
) -> tuple[TableName, ...]:
    """Return tables whose columns policies tell apart and of which the columns of this moment count.

    A list of columns binds what is only read. A command finds whatever has a name by now, and what it removes
    may be there by now. `versions` that are read keep their names, whatever their columns are called by now.
    """
    if snapshot.anew is None:  # RULE (command-columns-of-now)
        return ()
    about = (*required.raw, *required.read, *(name for name, _ in required.removed))
    changed = [name for name in map(TableName.fold, about) if evaluation.has_column_rules(name)]
    # RULE (version-read-columns-of-now)
    return tuple(name for name in dict.fromkeys((*changed, *versions)) if name not in snapshot.anew)


def list_unknown_tables(unknown: tuple[TableName, ...], parts: Iterable[Required]) -> NeedsCatalog:
    """Return that these are to be looked up. Naming files makes a table of them, but not where the statement
    is about such tables and there to do something else."""
    tending = [e.action for part in parts for e in part.effects if isinstance(e, TendDataset)]
    asked = tending == ["promote"]
    return NeedsCatalog(unknown, promotes=asked or not tending, asked=asked)


def settle_effects(effects: Iterable[SessionEffect], catalog: CatalogSnapshot) -> tuple[SessionEffect, ...]:
    """Return the effects, of those that only make what is missing with whether they do."""
    found = []
    for effect in effects:
        if isinstance(effect, CatalogChanged) and effect.meaning == "where_missing":
            there = all(catalog.table(name) is not None for name in effect.tables)
            effect = replace(effect, meaning="stays" if there else "changes")  # RULE (absent-table-created)
        found.append(effect)
    return tuple(found)


def columns_read_together(
    usage: Usage | Silent, names: Iterable[TableName], snapshot: Snapshot
) -> frozenset[str]:
    """Return the columns that are read, as `database.table.column`; all of the tables' columns when
    column analysis could not tell, which is the safe side for a policy on what may not be read together."""
    found: set[str] = set()
    for name in {name.fold() for name in names}:
        table = snapshot.catalog.table(name)
        columns = [column.name.lower() for column in table.columns] if table is not None else []
        used = usage.columns.get(name, frozenset()) if isinstance(usage, Usage) else columns
        renamed = table.renamed if table is not None else ()
        of_now = [one.now.lower() for one in renamed if one.then.lower() in used]
        # RULE (together-names-of-now)
        found.update(f"{name.database}.{name.table}.{column}" for column in (*used, *of_now))
    return frozenset(found)


def agreement(usage: Usage | Silent) -> bool | None:
    """Whether both readers saw the same relations; None when column analysis could not read the statement."""
    if isinstance(usage, Usage):
        return True
    return False if usage.disagrees else None


def names_of(scans: Sequence[ScannedRelation]) -> tuple[TableName, ...]:
    return tuple(name for _, name in scans)


def names_with_obligations(bodies: Mapping[TableName, RewrittenStatement]) -> frozenset[TableName]:
    """Return the views whose sources carry obligations."""
    return frozenset(name for name, body in bodies.items() if body.has_obligations)


def list_undisclosed(bodies: Mapping[TableName, RewrittenStatement]) -> frozenset[TableName]:
    """Return the views of which nothing but their columns may be told: their sources carry obligations, or
    their texts name what the reader may not select."""
    # RULE (view-texts-told)
    return names_with_obligations(bodies) | {
        name for name, body in bodies.items() if may_name_hidden_columns([body])
    }


def may_name_hidden_columns(bodies: Iterable[RewrittenStatement]) -> bool:
    """Whether the text of a view names, or may name, columns that its reader may not select."""
    return any(body.hides_columns or body.hides_target for body in bodies)  # RULE (hidden-name-in-view)
