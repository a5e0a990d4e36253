"""What a text uses of the tables that it reads, and what its principal may see of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gateway.model.catalog import TableName
from gateway.model.reading import Reading, RelationRole
from gateway.model.statement import ScanRecord
from gateway.pipeline.judging import commanded, names_of
from gateway.policy.engine import TableView
from gateway.sql.analyse import ScannedTable, Silent, Usage, analyse
from gateway.sql.evaluate import Denied, Evaluation, Scan, obligations_of
from gateway.sql.names import Names
from gateway.sql.wants import Want, Wants


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
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


TOP = Place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """One text that was read and classified."""

    text: str
    place: Place
    reading: Reading
    names: Names
    wants: Wants
    functions: tuple[Want, ...]
    scans: tuple[Scan, ...]
    vouched: bool

    @property
    def tables(self) -> tuple[TableName, ...]:
        """Every table that must be known before the text can be judged."""
        return (*names_of(self.scans), *commanded(self.wants))


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the principal may see of the tables that a text reads."""

    views: Mapping[TableName, TableView | None]
    used: Mapping[TableName, tuple[str, ...] | None]
    """Columns used of each table, None when the analyst could not tell."""


def usage_of(prepared: Prepared, evaluation: Evaluation, *, hidden: bool = False) -> Usage | Silent:
    """Return what the analyst says of a text; with `hidden`, one that knows the hidden columns too."""
    if not prepared.scans:
        return Silent("nothing is read")
    scanned = scanned_tables(prepared, evaluation, hidden=hidden)
    if scanned is None:
        return Silent("a table does not exist")
    if prepared.place.expression:
        return Silent("an expression by itself does not say what its columns mean")
    return analyse(prepared.text, scanned, prepared.reading.columns)


def scanned_tables(
    prepared: Prepared, evaluation: Evaluation, *, hidden: bool = False
) -> list[ScannedTable] | None:
    """Return the relations that a text reads, as the analyst wants them; None when one does not exist.

    Of a client's text they have the columns that the principal may select, of a view's text all of them.
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
        if table is not None and not hidden and prepared.place.depth == 0:
            columns = evaluation.selectable(table)
        folded = name.folded() if name is not None else None
        scanned.append(ScannedTable(parts=relation.parts, name=folded, columns=columns))
    return scanned


def note_attempts(prepared: Prepared, evaluation: Evaluation) -> None:
    """Record the denial of hidden columns that a client's text names, and that Spark will not find."""
    written = {column.parts[-1].lower() for column in prepared.reading.columns if not column.star}
    if prepared.place.depth == 0 and evaluation.may_name_hidden(names_of(prepared.scans), written):
        evaluation.tried(usage_of(prepared, evaluation, hidden=True))


def see(prepared: Prepared, usage: Usage | Silent, evaluation: Evaluation) -> Seen | Denied:
    """Decide on the columns that a text uses; what is missing is left with the evaluation."""
    return see_tables(
        names_of(prepared.scans),
        usage,
        evaluation,
        vouched=prepared.vouched,
        in_view=prepared.place.depth > 0,
    )


def see_tables(
    names: Iterable[TableName],
    usage: Usage | Silent,
    evaluation: Evaluation,
    *,
    vouched: bool = False,
    in_view: bool = False,
) -> Seen | Denied:
    views: dict[TableName, TableView | None] = {}
    used: dict[TableName, tuple[str, ...] | None] = {}
    denied: Denied | None = None
    for name in dict.fromkeys(name.folded() for name in names):
        table, view = evaluation.catalog.table(name), evaluation.view(name)
        views[name] = view
        if table is None or view is None:
            continue
        columns = None if vouched else evaluation.columns(table, view, usage, in_view=in_view)
        if isinstance(columns, Denied):
            denied = denied or columns  # the other tables are decided on all the same, for the record
            continue
        used[name] = columns
    return denied or Seen(views=views, used=used)


def scan_records(seen: Seen, *, vouched: bool, evaluation: Evaluation) -> tuple[ScanRecord, ...]:
    """Return for the audit record what is read and what was done to it."""
    records = []
    for name, view in seen.views.items():
        table = evaluation.catalog.table(name)
        if table is not None and view is not None:
            obligations = obligations_of(view, vouched=vouched)
            records.append(
                ScanRecord(
                    table=table.name, access="select", columns=seen.used[name], obligations=obligations
                )
            )
    return tuple(records)
