"""What the audit record keeps of a cleared statement so that its lineage can be made at any later time.

The record has the text, the session's names and the verdict anyway. What it does not have is what names
stood for: the columns of tables, the texts of views. They stand in its key `lineage`, with which columns were
masked and by which statements temporary views were made, so that no catalog is asked that has moved on.
"""

from __future__ import annotations

import base64
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from gateway.model.audit import AuditEvent
from gateway.model.catalog import Column, Table, TableKind, TableName, ViewBody
from gateway.model.decision import RowFilter
from gateway.model.lineage import StatementLineage
from gateway.model.lineage_json import from_json
from gateway.model.statement import AnswerFilter, Cleared, CreateTempView, ScanRecord, SessionContext

Masks = Mapping[TableName, frozenset[str]]
"""Columns, lower case, that a mask stood before, by folded name."""

NOT_FORWARDED = "not_forwarded"
_CACHED = 256
_CACHED_BYTES = 4 * 1024 * 1024
"""Packed tables that are remembered: of wide ones a packing takes up to 200 ms, on the event loop."""
_MESSAGE_BYTES = 16 * 1024
"""What a plan that is one SQL text may have beside it."""
_INFLATED_BYTES = 64 * 1024 * 1024
"""What the tables of one record may come to; more is no record of ours."""


class LineageInput:
    """Makes the key `lineage` of a cleared statement's record. It stands on the way of every statement."""

    def __init__(self, *, queries: bool = True, tables_bytes: int = 256 * 1024) -> None:
        """`queries`: whether statements that only answer have lineage, too. `tables_bytes`: how much of the
        tables and views of one statement is kept, compressed."""
        self._queries = queries
        self._tables_bytes = tables_bytes
        self._written: OrderedDict[object, tuple[tuple[Table, ...], str | None]] = OrderedDict()
        self._written_bytes = 0

    def __call__(self, cleared: Cleared, views: Mapping[str, str]) -> dict[str, Any] | None:
        """Return what is kept, as JSON; None where a statement has no lineage to be made of it.

        `views` are the temporary views that it reads, by the ids of the statements that made them.
        """
        if not self._is_wanted(cleared):
            return None
        kept: dict[str, Any] = {"tables": self._tables(cleared)}
        if cleared.statement.plan is not None:
            from gateway.plan.sql_text import is_command

            kept["command"] = is_command(cleared.statement.plan.message)
        if views:
            kept["temp_views"] = dict(views)
        return kept

    def _is_wanted(self, cleared: Cleared) -> bool:
        statement = cleared.statement
        makes_view = any(isinstance(effect, CreateTempView) for effect in cleared.effects)
        if not (cleared.decisions or cleared.scans or cleared.temp_views_read or makes_view):
            return False
        if cleared.answer.filter is not AnswerFilter.RELAY:
            return False
        if cleared.read_only and not makes_view and not self._queries:
            return False
        plan = statement.plan
        if plan is None:
            return True
        if plan.kind != "execute" or not cleared.plan_texts:
            return False
        text = cleared.plan_texts[0]
        if len(plan.message) > 8 * len(text) + _MESSAGE_BYTES:
            return False
        # pyspark's messages are there, or no plan would be.
        from gateway.plan.sql_text import sql_of

        return sql_of(plan.message) == text

    def _tables(self, cleared: Cleared) -> str | None:
        """Return tables and views with their masks, packed; None where they are too much."""
        masks = masks_of(cleared.scans)
        key = tuple((id(table), masks.get(table.name.folded(), frozenset())) for table in cleared.tables)
        found = self._written.get(key)
        if found is not None:
            self._written.move_to_end(key)
            return found[1]
        packed = pack(cleared.tables, masks)
        if packed is not None and len(packed) > self._tables_bytes:
            packed = None
        # With the tables, so that no other gets the address of one of them.
        self._written[key] = (cleared.tables, packed)
        self._written_bytes += len(packed or "")
        while len(self._written) > _CACHED or self._written_bytes > _CACHED_BYTES:
            _, (_, oldest) = self._written.popitem(last=False)
            self._written_bytes -= len(oldest or "")
        return packed


def masks_of(scans: Iterable[ScanRecord]) -> Masks:
    """Return the columns that a mask stood before wherever the statement read their table: what one scan of
    it shows as it is has not been masked."""
    found: dict[TableName, frozenset[str]] = {}
    for scan in scans:
        masked = frozenset(o.column.lower() for o in scan.obligations if not isinstance(o, RowFilter))
        name = scan.table.folded()
        found[name] = found.get(name, masked) & masked
    return {name: columns for name, columns in found.items() if columns}


def pack(tables: Sequence[Table], masks: Masks) -> str | None:
    """Return tables with their masked columns as text; None where they have characters that are none."""
    written = [
        [
            [table.name.catalog, table.name.database, table.name.table],
            table.kind.value,
            [[column.name, column.type] for column in table.columns],
            sorted(masks.get(table.name.folded(), ())),
            _written_view(table.view),
        ]
        for table in tables
    ]
    try:
        return base64.b64encode(zlib.compress(orjson.dumps(written), 1)).decode()
    except TypeError:
        return None


def _written_view(view: ViewBody | None) -> list[Any] | None:
    return None if view is None else [view.text, view.catalog, view.database, list(view.output)]


def _view(text: str, catalog: str, database: str, output: list[str]) -> ViewBody:
    return ViewBody(text=text, catalog=catalog, database=database, output=tuple(output))


def unpack(packed: str) -> tuple[dict[TableName, Table], dict[TableName, frozenset[str]]]:
    """Return the tables by folded name, and their masked columns. Raises ValueError for anything else."""
    try:
        inflater = zlib.decompressobj()
        data = inflater.decompress(base64.b64decode(packed, validate=True), _INFLATED_BYTES)
        if inflater.unconsumed_tail:
            raise ValueError("the tables of a record are too large")
        tables: dict[TableName, Table] = {}
        masks: dict[TableName, frozenset[str]] = {}
        for parts, kind, columns, masked, view in orjson.loads(data):
            table = Table(
                name=TableName(*parts),
                kind=TableKind(kind),
                columns=tuple(Column(name=name, type=type_) for name, type_ in columns),
                view=None if view is None else _view(*view),
            )
            tables[table.name.folded()] = table
            if masked:
                masks[table.name.folded()] = frozenset(masked)
    except (zlib.error, TypeError, AttributeError) as error:
        raise ValueError(f"no tables of a record: {error}") from None
    return tables, masks


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStatement:
    """A cleared statement as the record has it, and how it ended."""

    statement_id: UUID
    time: datetime
    user: str
    text: str
    """In the user's words."""
    session_id: str
    context: SessionContext
    outcome: str
    """As the record has it; `unknown` where it has no end."""
    ended: datetime | None = None
    error: str = ""
    tables: Mapping[TableName, Table] | None = None
    """What its names stood for; None where the record does not say."""
    masks: Masks = field(default_factory=dict)
    temp_views: Mapping[str, UUID] = field(default_factory=dict)
    """The temporary views that it reads, by the statements that made them."""
    over: bool = False
    """Whether what its names stood for was too much for the record."""
    runs_queries: bool = True
    """Whether a query is run: of one that comes as a command of Spark Connect, Spark only looks at what it
    would answer, and the client sends it again."""
    made: StatementLineage | None = None
    """Its lineage, where that was made before it was recorded, as a plan's is."""


def read_statement(decided: AuditEvent, end: AuditEvent | None = None) -> RecordedStatement:
    """Return the statement of a `decided` event. Raises ValueError where it is none that has lineage."""
    body = decided.body
    if decided.kind != "decided" or body.get("verdict") != "cleared":
        raise ValueError("not the record of a cleared statement")
    try:
        return _read(decided, body, end)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"an unreadable record: {type(error).__name__}: {error}") from None


def _read(decided: AuditEvent, body: Mapping[str, Any], end: AuditEvent | None) -> RecordedStatement:
    kept = body.get("lineage")
    tables: Mapping[TableName, Table] | None = None
    masks: Masks = _masks_of_body(body)
    temp_views: dict[str, UUID] = {}
    made = None
    if kept is not None and "made" in kept:
        made = from_json(kept["made"])
    elif kept is not None:
        temp_views = {str(name).lower(): UUID(made) for name, made in kept.get("temp_views", {}).items()}
        if kept["tables"] is not None:
            tables, masks = unpack(kept["tables"])
    return RecordedStatement(
        statement_id=UUID(decided.statement_id),
        time=datetime.fromisoformat(decided.time).astimezone(UTC),
        user=decided.user,
        # Of a plan, `reqData` is a rendering for people: an SQL text that is all of it is read instead.
        text=str(body["texts"][0] if "plan" in body and made is None else body["reqData"]),
        session_id=str(body.get("sess", "")),
        context=SessionContext(
            catalog=str(body.get("catalog") or "spark_catalog"),
            namespace=tuple(body.get("namespace") or ("default",)),
            temp_views=frozenset(temp_views),
        ),
        outcome=str(end.body.get("outcome", "unknown")) if end is not None else "unknown",
        ended=_ended(end),
        error=str(end.body.get("error", "")) if end is not None else "",
        tables=tables,
        masks=masks,
        temp_views=temp_views,
        over=kept is not None and made is None and kept["tables"] is None,
        runs_queries=kept is None or kept.get("command") is not True,
        made=made,
    )


def _ended(end: AuditEvent | None) -> datetime | None:
    """Return when a statement ended; of one whose end nobody saw, that is not known."""
    if end is None or end.kind != "completed":
        return None
    return datetime.fromisoformat(end.time).astimezone(UTC)


def _masks_of_body(body: Mapping[str, Any]) -> dict[TableName, frozenset[str]]:
    """Return the masked columns by the recorded scans, as `masks_of` does."""
    found: dict[TableName, frozenset[str]] = {}
    for scan in body.get("scans") or ():
        parts = str(scan.get("table", "")).lower().split(".")
        masked = frozenset(
            str(obligation["column"]).lower()
            for obligation in scan.get("obligations") or ()
            if obligation.get("type") != "ROW_FILTER" and obligation.get("column")
        )
        if len(parts) == 3:
            name = TableName(*parts)
            found[name] = found.get(name, masked) & masked
    return {name: columns for name, columns in found.items() if columns}
