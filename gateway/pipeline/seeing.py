"""What a text uses of the tables that it reads, and what its principal may see of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from gateway.algebra.nodes import OneRow, Projection
from gateway.algebra.spark import lower_expression, relation_of
from gateway.algebra.usage import GUESSED, LITERAL_FUNCTIONS
from gateway.algebra.walking import words_in_lambdas
from gateway.model.catalog import Table, TableName
from gateway.model.principal import Principal
from gateway.model.reading import FunctionRef, Reading, Relation, RelationRole, read_tree
from gateway.model.reading_settings import VARIABLES_MARK
from gateway.model.statement import ScanRecord, SessionContext
from gateway.pipeline.judging import (
    Judging,
    Refusal,
    RewrittenStatement,
    list_commanded_tables,
    names_of,
    not_governable,
)
from gateway.pipeline.rights import Accessing, Rights, SeenTable, combine_views
from gateway.policy.engine import TableView
from gateway.policy.views import merge_table_views
from gateway.sql.analyse import ScannedTable, Silent, Usage, analyse, has_stars
from gateway.sql.change_feeds import ChangeFeed, is_changes
from gateway.sql.evaluate import Denied, Evaluation, ScannedRelation, obligations_of
from gateway.sql.leakproof import OuterConditions
from gateway.sql.names import MetadataTable, Names
from gateway.sql.paths import FilesByPath
from gateway.sql.pipes import PIPE
from gateway.sql.required import Privilege, Required
from gateway.sql.restricting import find_restricted_table
from gateway.sql.spark_errors import build_table_not_found_refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class TextScope:
    """Where a text stands and what is bound around it."""

    depth: int = 0
    """0: what a client sent; above: the body of a view, that many views deep."""
    expression: bool = False
    """It is an expression, not a statement."""
    commands: bool = True
    arguments: bool = False
    """It comes with arguments for its parameter markers."""
    aliases: frozenset[str] = frozenset()
    """Names (lower case) that are bound around it, as common table expressions would be."""
    rights: Rights | None = None
    """By whose access it is read, when that is not the principal's own: of the text of a view."""
    above: OuterConditions | None = None
    """What is asked of the view whose text it is."""
    below_barrier: bool = False
    """Whether a barrier stands between the text of a view and what is asked of it."""
    opening: Table | None = None
    """The view whose text it is, where that is asked for without barriers."""
    of_session: bool = False
    """It is of a metric view: names in it mean what they mean in the session that reads it."""
    shape: bool = False
    """Nothing but what columns it has is asked of it, if it is a query."""
    alone: bool = False
    """Nothing stands above it: it is all that is asked. Within a plan, also that its session has no DataFrame
    in Spark's cache, which is found there by what stands for it elsewhere."""


TOP = TextScope()


def of_files(prepared: Prepared) -> bool:
    """Whether a text reads what a table's files tell beside its rows: metadata or changes."""
    return bool(prepared.metadata) or any(map(is_changes, prepared.reading.functions))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """One text that was read and classified."""

    text: str
    place: TextScope
    reading: Reading
    names: Names
    required: Required
    functions: tuple[Privilege, ...]
    short_functions: tuple[tuple[FunctionRef, TableName], ...]
    """Those of databases that are called without their whole name, and which are meant."""
    scans: tuple[ScannedRelation, ...]
    metadata: tuple[tuple[Relation, MetadataTable], ...]
    rights: Rights
    files: tuple[tuple[Relation, FilesByPath], ...] = ()
    """What it reads by a path."""

    @property
    def tables(self) -> tuple[TableName, ...]:
        """Every table that must be known before the text can be judged."""
        read = names_of(self.scans)
        return (
            *read,
            *(name.current for name in read if name.version),
            *list_commanded_tables(self.required),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnAccess:
    """What may be seen of the tables that a text reads, by folded name; None: there is no such table."""

    tables: Mapping[TableName, SeenTable | None]
    conditions: Mapping[TableName, frozenset[str]] = field(default_factory=dict)
    """Columns that the text's own conditions compare; of no table of a view's text."""

    @property
    def hides_columns(self) -> bool:
        return any(table is not None and table.hidden for table in self.tables.values())

    @property
    def versions(self) -> tuple[TableName, ...]:
        """Return the versions of tables whose columns policies tell apart."""
        return self.list_tables_with_column_rules(name for name in self.tables if name.version)

    def list_tables_with_column_rules(self, names: Iterable[TableName]) -> tuple[TableName, ...]:
        """Return those of these tables whose columns policies tell apart."""
        read = ((name, self.tables[name]) for name in names)
        return tuple(name for name, table in read if table is not None and not table.view().uniform())

    @property
    def lends(self) -> bool:
        """Whether one of those who read it may not select all of what it reads by himself."""
        return any(
            table is not None and any(view.hidden for _, view in table.eyes) for table in self.tables.values()
        )

    @property
    def lends_to(self) -> frozenset[Principal]:
        """Return those who read it and may not select all that is there of what it reads by themselves."""
        seen = (table for table in self.tables.values() if table is not None)
        return frozenset(who for table in seen for who, view in table.eyes if view.hidden - table.hidden)

    def readers(self, name: TableName, judging: Judging) -> tuple[Principal, ...]:
        """Return who reads a table, when it is a view: those whose eyes count for it."""
        table = self.tables.get(name.fold())
        return (judging.principal,) if table is None else table.readers


def list_tables_read_by_columns(
    seen: Iterable[ColumnAccess], bodies: Mapping[TableName, RewrittenStatement]
) -> tuple[TableName, ...]:
    """Return the tables that are read by a list of columns, in views too: plans and the paths of files tell
    more of them, such as the values of partitions, whatever columns are read."""
    own = (name for one in seen for name in one.list_tables_with_column_rules(one.tables))
    return tuple(dict.fromkeys((*own, *(name for body in bodies.values() for name in body.listed))))


def usage_of(prepared: Prepared, evaluation: Evaluation, *, hidden: bool = False) -> Usage | Silent:
    """Return what column analysis says of a text; with `hidden`, one that knows the hidden columns too."""
    if not prepared.scans:
        return Silent("nothing is read")
    if any(isinstance(relation, ChangeFeed) for relation, _ in prepared.scans):
        return Silent("the columns of a change feed are not followed", stars=has_stars(prepared.reading))
    scanned = list_scanned_tables(prepared, evaluation, hidden=hidden)
    if scanned is None:
        return Silent("a table does not exist")
    if prepared.place.expression:
        why = "the columns of an expression cannot be resolved without its query"
        return Silent(why, stars=has_stars(prepared.reading))
    return analyse(prepared.text, prepared.reading, scanned)


def list_scanned_tables(
    prepared: Prepared, evaluation: Evaluation, *, hidden: bool = False, guesses: Guesses | None = None
) -> list[ScannedTable] | None:
    """Return the relations that a text reads, as column analysis wants them; None when one does not exist.

    Of a client's text they have the columns that the principal may select, of a view's text all of them.
    `guesses`: what hidden ones may be called.
    """
    names = {relation.span: name for relation, name in prepared.scans}
    scanned = []
    for relation in prepared.reading.relations:
        if relation.role is not RelationRole.SCAN:
            continue
        name = names.get(relation.span)
        table = evaluation.catalog.table(name) if name is not None else None
        if name is not None and table is None:
            return None
        columns = table.columns if table is not None else ()
        # RULE (hidden-columns-absent)
        if table is not None and not hidden and prepared.place.depth == 0:
            columns = evaluation.selectable(table)
        folded = name.fold() if name is not None else None
        words = (guesses or {}).get(folded, frozenset()) if folded is not None else frozenset()
        scanned.append(
            ScannedTable(
                parts=relation.parts, name=folded, columns=columns, guessed=words, span=relation.span
            )
        )
    return scanned


Guesses = Mapping[TableName, frozenset[str]]
"""Names, lower case, that hidden columns of tables may have."""
_ON_ROWS = frozenset({"DeleteFromTable", "MergeIntoTable", "UpdateTable"})
USER = "user"
"""The one word that means something without brackets and that tables have for a column's name."""
_NEVER_GUESSED = (LITERAL_FUNCTIONS - {USER}) | {"all"}
"""Words that tables have for no column's name: GROUP BY ALL too is a name to Spark's parser."""


def collect_guesses(names: Iterable[TableName], written: AbstractSet[str], evaluation: Evaluation) -> Guesses:
    """Return what hidden columns may be called, of the words that a client writes as names of columns.

    INVARIANT (hidden is not there): that is all of them, so that no refusal tells which ones are.
    """
    visible = evaluation.visible_where_some_are_hidden(names)
    # RULE (hidden-names-untold)
    found = {name: frozenset(written - columns - _NEVER_GUESSED) for name, columns in visible.items()}
    return {name: words for name, words in found.items() if words}


def deny_changed_meaning(
    usage: Usage | Silent, guessed: Callable[[], Usage | Silent], unclear: str | None = None
) -> Denied | None:
    """Deny a name that means something else because a column is hidden: one of the table would come first.

    `usage`: what is said of the columns that may be selected; `guessed`: of the tables with all that hidden
    ones may be called. Where nothing is said, nothing is known of what the names mean: then `unclear` is
    denied, if it is given.
    """
    if isinstance(usage, Silent):
        return None
    found = guessed()
    if isinstance(found, Silent):
        return may_be_hidden(unclear) if unclear is not None else None
    words = {word[1:] for named in found.named.values() for word in named if word.startswith(GUESSED)}
    return may_be_hidden(min(words)) if words else None


def has_variables(judging: Judging) -> bool:
    """Whether the session, or a script, may have variables."""
    return bool(judging.variables) or VARIABLES_MARK in judging.settings


def deny_variables(
    names: Iterable[TableName], written: frozenset[str], evaluation: Evaluation, judging: Judging
) -> Denied | None:
    """Deny a name that Spark takes for a variable's where no column has it, and that a hidden one could have.

    `written`: what references begin with, where it is not known that a column has each of these names.
    """
    words = written if VARIABLES_MARK in judging.settings else written & judging.variables
    guesses = collect_guesses(names, words, evaluation)
    return may_be_hidden(min(any_of(guesses))) if guesses else None  # RULE (hidden-name-or-variable)


def list_sought_words(usage: Usage | Silent) -> frozenset[str]:
    """Return the words by which column analysis looked for columns. Spark's parser has no columns where a
    lambda function's variables could be meant, and it does not tell a column's field from a column."""
    return frozenset() if isinstance(usage, Silent) else usage.words  # RULE (followed-lambda-names)


def may_be_hidden(word: str) -> Denied:
    return Denied(
        f"`{word}` could be resolved to a column, of a closer table, that you may not select; qualify it, "
        "or write what it stands for"
    )


def any_of(guesses: Guesses) -> frozenset[str]:
    """Return what a hidden column of any of the tables may be called."""
    return frozenset[str]().union(*guesses.values())


def misread_text(
    prepared: Prepared, usage: Usage | Silent, evaluation: Evaluation, judging: Judging
) -> Denied | None:
    """Deny names of a client's text that could mean hidden columns, and would mean something else."""
    if prepared.place.depth or not prepared.scans:
        return None
    names = names_of(prepared.scans)
    references = [column.parts for column in prepared.reading.columns if not column.star]
    # RULE (row-change-names)
    changes_rows = any(command.node in _ON_ROWS for command in prepared.reading.commands)
    # A name may be a column of what is changed; and who cannot follow pipes does not know what a name means.
    # RULE (unfollowed-pipe)
    is_apart = changes_rows or (PIPE in prepared.text and isinstance(usage, Silent) and not usage.unfound)
    may_be_variables = isinstance(usage, Silent) and has_variables(judging)
    # RULE (row-change-lambda-names)
    within = words_within_lambdas(prepared) if is_apart or may_be_variables else frozenset()
    if isinstance(within, Silent):
        return not_followed(names, evaluation)
    first = {parts[0].lower() for parts in references} - _names_of_relations(prepared.reading)
    if may_be_variables and (denied := deny_variables(names, within | first, evaluation, judging)):
        return denied
    looked = list_sought_words(usage) | within
    guesses = collect_guesses(names, {parts[-1].lower() for parts in references} | looked, evaluation)
    if not guesses:
        return None
    bare = {parts[0].lower() for parts in references if len(parts) == 1} | looked
    if USER in bare & any_of(guesses) and not isinstance(usage, Silent):
        return may_be_hidden(USER)
    if is_apart:
        guesses = collect_guesses(names, first | within, evaluation)
        return may_be_hidden(min(any_of(guesses))) if guesses else None

    def analyse_guessed() -> Usage | Silent:
        scanned = list_scanned_tables(prepared, evaluation, guesses=guesses)
        if scanned is None:
            return Silent("a table does not exist")
        return analyse(prepared.text, prepared.reading, scanned)

    return deny_changed_meaning(
        usage, analyse_guessed, min(any_of(guesses)) if PIPE in prepared.text else None
    )


def words_within_lambdas(prepared: Prepared) -> frozenset[str] | Silent:
    """Return what references in lambda functions of a text begin with, lower case."""
    if "LambdaFunction" not in prepared.reading.expressions:
        return frozenset()
    tree = relation_of(prepared.reading)
    if prepared.place.expression and prepared.reading.tree_json is not None:
        tree = Projection(OneRow(), (lower_expression(read_tree(prepared.reading.tree_json)),))
    return Silent("the statement is too large") if tree is None else words_in_lambdas(tree)


def not_followed(names: Iterable[TableName], evaluation: Evaluation) -> Denied | None:
    """Deny lambda functions that cannot be read, over tables of which something is hidden."""
    hiding = evaluation.visible_where_some_are_hidden(names)
    if not hiding:
        return None
    return Denied(
        "the names in lambda functions could not be resolved, and could be columns of table "
        f"{min(hiding, key=str)} that you may not select"
    )


def _names_of_relations(reading: Reading) -> frozenset[str]:
    """Return all that a reference to a relation's column may begin with, lower case."""
    written = {part.lower() for relation in reading.relations for part in relation.parts}
    return reading.subquery_aliases | written


def note_attempts(prepared: Prepared, evaluation: Evaluation) -> None:
    """Record the denial of hidden columns that a client's text names, and that Spark will not find."""
    written = {column.parts[-1].lower() for column in prepared.reading.columns if not column.star}
    if prepared.place.depth == 0 and evaluation.may_name_hidden(names_of(prepared.scans), written):
        evaluation.record_denied_columns(usage_of(prepared, evaluation, hidden=True))


def authorize_columns(
    prepared: Prepared, usage: Usage | Silent, accessing: Accessing
) -> ColumnAccess | Denied:
    """Decide on the columns that a text uses; what is missing is left with the evaluations."""
    changed = find_restricted_table(prepared.required, prepared.reading, accessing.evaluation)
    names = (*names_of(prepared.scans), *(() if changed is None else (changed,)))
    return authorize_tables(names, usage, accessing, in_view=prepared.place.depth > 0)


def authorize_tables(
    names: Iterable[TableName], usage: Usage | Silent, accessing: Accessing, *, in_view: bool = False
) -> ColumnAccess | Denied:
    tables: dict[TableName, SeenTable | None] = {}
    denied: Denied | None = None
    evaluation = accessing.evaluation
    for name in dict.fromkeys(name.fold() for name in names):
        table = evaluation.catalog.table(name)
        seen = None if table is None else _authorize_table(table, usage, accessing, in_view=in_view)
        if isinstance(seen, Denied):
            denied = denied or seen  # the other tables are decided on all the same, for the record
            continue
        tables[name] = seen
    if denied is not None:
        return denied
    told = usage.conditions if isinstance(usage, Usage) and not in_view else {}
    return ColumnAccess(tables=tables, conditions=told)


def _authorize_table(
    table: Table, usage: Usage | Silent, accessing: Accessing, *, in_view: bool
) -> SeenTable | Denied:
    hidden: frozenset[str] = frozenset()
    used: tuple[str, ...] | None = None
    views: dict[Principal, TableView] = {}
    for principal in dict.fromkeys((*accessing.rights.readers, *accessing.rights.accessors)):
        view = accessing.of(principal).table_view(table)
        views[principal] = view
        if view.closed:  # RULE (unmatched-column-closes)
            # Also where an operator vouches for a view, and nobody needs select on what it reads.
            return accessing.explain_closed(view)
        if principal not in accessing.rights.accessors:
            continue
        columns = accessing.of(principal).columns(table, view, usage, in_view=in_view)
        if isinstance(columns, Denied):
            return columns
        hidden, used = hidden | view.hidden, columns
    return combine_views(table, views, accessing.rights, hidden, used)


def build_not_found_refusal(
    name: TableName, context: SessionContext, prepared: Prepared | None = None
) -> Refusal:
    """Return the refusal of a table that does not exist, in Spark's words; `prepared`: a text that names it.

    Spark is not asked: the table may be there by then, and nobody has judged what may be done with it.
    """
    parts = name.parts
    if prepared is None:
        return not_governable(build_table_not_found_refusal(parts, context))
    folded = name.fold()
    at = None
    for relation in prepared.reading.relations:
        meant = prepared.names.table(relation.parts)
        if isinstance(meant, TableName) and meant.fold() == folded and relation.span is not None:
            parts, at = relation.parts, relation.span.start
            break
    return not_governable(build_table_not_found_refusal(parts, context, prepared.reading, at), prepared.text)


def scan_records(seen: ColumnAccess, evaluation: Evaluation) -> tuple[ScanRecord, ...]:
    """Return for the audit record what is read and what was done to it."""
    records = []
    for name, one in seen.tables.items():
        table = evaluation.catalog.table(name)
        if table is None or one is None:
            continue
        views = [merge_table_views(one.hidden, [view]) for _, view in one.eyes]
        records.append(
            ScanRecord(
                table=table.name.current,
                access="select",
                columns=one.used,
                obligations=tuple(dict.fromkeys(o for view in views for o in obligations_of(view))),
                definer=one.definer,
                conditions=seen.conditions.get(name),
            )
        )
    return tuple(records)
