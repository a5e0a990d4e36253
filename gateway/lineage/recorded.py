"""What the audit record keeps of a cleared statement so that its lineage can be made at any later time.

The record has the text, the session's names and the verdict anyway. What it does not have is what names
stood for: the columns of tables, the texts of views. They stand in its key `lineage`, with which columns were
masked and by which statements temporary views and cached relations were made, so that no catalog is asked
that has moved on. Of a DataFrame's plan the plan is there too, without rows of the client's.
"""

from __future__ import annotations

import base64
import dataclasses
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from gateway.model.audit import AuditEvent
from gateway.model.catalog import FUNCTION, Column, MetricDefinition, Table, TableKind, TableName, ViewBody
from gateway.model.decision import RowFilter
from gateway.model.handles import SparkHandle
from gateway.model.lineage import RESULT, Dataset, DatasetKind, Operation, StatementLineage
from gateway.model.statement import (
    AnswerFilter,
    Cleared,
    CreateTempView,
    RegisterCode,
    ScanRecord,
    SessionContext,
    TendDataset,
)

Masks = Mapping[TableName, frozenset[str]]
"""Columns, lower case, that a mask stood before, by folded name."""

NO_FUNCTIONS: Mapping[str, str] = {}
NOT_FORWARDED = "not_forwarded"
TOO_MUCH = "it read too many tables for the record, or its plan was too large"
_WRITING = frozenset({"create", "insert", "update", "delete"})
"""Access types of a table that rows are written into."""
_OF_TABLES = frozenset({"@table", "@column"})
_CATALOG = "Catalog."
"""How calls of Spark Connect's Catalog API are recorded; they read and write no rows."""
_CACHES = "CheckpointCommand"
_CACHED = 256
_CACHED_BYTES = 4 * 1024 * 1024
"""Packed tables that are remembered: of wide ones a packing takes up to 200 ms, on the event loop."""
_MESSAGE_BYTES = 16 * 1024
"""Bytes that a plan of one SQL text may have besides the text."""
_DEFLATES = 16
"""How many times as small a plan may become; compressing a larger one takes longer than it is worth."""
_INFLATED_BYTES = 64 * 1024 * 1024
"""Maximum size of the tables or the plan of one record, uncompressed."""


class LineageInput:
    """Makes the key `lineage` of a cleared statement's record. It stands on the way of every statement."""

    def __init__(self, *, queries: bool = True, tables_bytes: int = 256 * 1024) -> None:
        """`queries`: whether statements that only answer have lineage, too. `tables_bytes`: how much of the
        tables and views of one statement is kept, compressed, and as much of its plan."""
        self._queries = queries
        self._tables_bytes = tables_bytes
        self._written: OrderedDict[object, tuple[tuple[Table, ...], str | None, str | None]] = OrderedDict()
        self._written_bytes = 0

    def __call__(
        self,
        cleared: Cleared,
        views: Mapping[str, str],
        relations: Mapping[str, str],
        functions: Mapping[str, str] = NO_FUNCTIONS,
    ) -> dict[str, Any] | None:
        """Return what is kept, as JSON; None where a statement has no lineage to be made of it.

        `views` are the temporary views that it reads, `relations` the cached ones, `functions` the temporary
        functions over tables that it calls, by the ids of the statements that made them.
        """
        if not self._is_wanted(cleared, relations):
            return None
        tables, facts = self._tables(cleared)
        kept: dict[str, Any] = {"tables": tables}
        if facts is not None:
            kept["facts"] = facts
        plan = cleared.statement.plan
        if plan is not None:
            kept |= self._plan(plan.message, cleared.plan_texts)
        if views:
            kept["temp_views"] = dict(views)
        if relations:
            kept["relations"] = dict(relations)
        if functions:
            kept["functions"] = dict(functions)
        return kept

    def _is_wanted(self, cleared: Cleared, relations: Mapping[str, str]) -> bool:
        plan = cleared.statement.plan
        makes_view = any(
            isinstance(effect, CreateTempView) or (isinstance(effect, RegisterCode) and effect.reads)
            for effect in cleared.effects
        )
        if not (cleared.decisions or cleared.scans or cleared.temp_views_read or makes_view or relations):
            return False
        if cleared.answer.filter is not AnswerFilter.RELAY:
            return False
        if any(isinstance(effect, TendDataset) for effect in cleared.effects):
            return False  # the gateway's own statement, which Spark's parser does not know
        if cleared.read_only and not makes_view and not self._queries:
            return False
        return plan is None or (plan.kind == "execute" and not cleared.plan_class.startswith(_CATALOG))

    def _plan(self, plan: bytes, texts: Sequence[str]) -> dict[str, Any]:
        """Return a plan without what is no business of a record, packed; of one that is nothing but an SQL
        text, which the record has, only whether it is a command."""
        # pyspark's messages are there, or no plan would be.
        from gateway.plan.sql_text import is_command, sql_of
        from gateway.plan.stripped import strip_plan

        if texts and len(plan) <= 8 * len(texts[0]) + _MESSAGE_BYTES and sql_of(plan) == texts[0]:
            return {"command": is_command(plan)}
        bare = strip_plan(plan)
        packed = None
        if bare is not None and len(bare) <= _DEFLATES * self._tables_bytes:
            packed = _pack(bare)
            packed = packed if len(packed) <= self._tables_bytes else None
        # A command may answer as a query does: one that computes a relation for other plans.
        return {"plan": packed, "command": not self._queries}

    def _tables(self, cleared: Cleared) -> tuple[str | None, str | None]:
        """Return tables and views with their masks, and what else policies go by, packed; None where they are
        too much."""
        masks = masks_of(cleared.scans)
        # Of functions those whose bodies were judged: what they read is read through them.
        judged = (one for one in cleared.functions if one.view is not None and one.view.definer is not None)
        known = (*cleared.tables, *judged)
        key = tuple((id(table), masks.get(table.name.fold(), frozenset())) for table in known)
        found = self._written.get(key)
        if found is not None:
            self._written.move_to_end(key)
            return found[1:]
        packed = pack(known, masks)
        if packed is not None and len(packed) > self._tables_bytes:
            packed = None
        facts = pack_facts(known) if packed is not None else None
        # With the tables, so that no other gets the address of one of them.
        self._written[key] = (known, packed, facts)
        self._written_bytes += len(packed or "") + len(facts or "")
        while len(self._written) > _CACHED or self._written_bytes > _CACHED_BYTES:
            _, (_, oldest, more) = self._written.popitem(last=False)
            self._written_bytes -= len(oldest or "") + len(more or "")
        return packed, facts


def masks_of(scans: Iterable[ScanRecord]) -> Masks:
    """Return the columns that a mask stood before wherever the statement read their table: what one scan of
    it shows as it is has not been masked."""
    found: dict[TableName, frozenset[str]] = {}
    for scan in scans:
        masked = frozenset(o.column.lower() for o in scan.obligations if not isinstance(o, RowFilter))
        name = scan.table.fold()
        found[name] = found.get(name, masked) & masked
    return {name: columns for name, columns in found.items() if columns}


def pack(tables: Sequence[Table], masks: Masks) -> str | None:
    """Return tables with their masked columns as text; None where they have characters that are none."""
    written = [
        [
            [table.name.catalog, table.name.database, table.name.table, *_kind_of(table.name)],
            table.kind.value,
            [[column.name, column.type] for column in table.columns],
            sorted(masks.get(table.name.fold(), ())),
            _write_view(table.view),
        ]
        for table in tables
    ]
    try:
        return _pack(orjson.dumps(written))
    except TypeError:
        return None


def _kind_of(name: TableName) -> tuple[str, ...]:
    return (FUNCTION,) if name.version == FUNCTION else ()


def _pack(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 1)).decode()


def _unpack(packed: str) -> bytes:
    """Raises ValueError and what zlib and base64 raise."""
    inflater = zlib.decompressobj()
    data = inflater.decompress(base64.b64decode(packed, validate=True), _INFLATED_BYTES)
    if inflater.unconsumed_tail:
        raise ValueError("its record is too large")
    return data


def _write_view(view: ViewBody | None) -> list[Any] | None:
    if view is None:
        return None
    told = [] if not view.body else [[view.parameters, view.is_table, view.body, view.defaults, view.returns]]
    return [view.text, view.catalog, view.database, list(view.output), *told]


def _view(
    text: str, catalog: str, database: str, output: list[str], function: Sequence[Any] = ()
) -> ViewBody:
    view = ViewBody(text=text, catalog=catalog, database=database, output=tuple(output))
    if not function:
        return view
    parameters, is_table, body, defaults, returns = function
    return dataclasses.replace(
        view,
        parameters=tuple((str(name), str(type_)) for name, type_ in parameters),
        is_table=bool(is_table),
        body=str(body),
        defaults=tuple(map(str, defaults)),
        returns=tuple((str(name), str(type_)) for name, type_ in returns),
    )


def unpack(packed: str) -> tuple[dict[TableName, Table], dict[TableName, frozenset[str]]]:
    """Return the tables by folded name, and their masked columns. Raises ValueError for anything else."""
    try:
        tables: dict[TableName, Table] = {}
        masks: dict[TableName, frozenset[str]] = {}
        for parts, kind, columns, masked, view in orjson.loads(_unpack(packed)):
            table = Table(
                name=TableName(*parts),
                kind=TableKind(kind),
                columns=tuple(Column(name=name, type=type_) for name, type_ in columns),
                view=None if view is None else _view(*view),
            )
            tables[table.name.fold()] = table
            if masked:
                masks[table.name.fold()] = frozenset(masked)
    except (zlib.error, TypeError, AttributeError) as error:
        raise ValueError(f"the record has no valid tables: {error}") from None
    return tables, masks


def pack_facts(tables: Sequence[Table]) -> str | None:
    """Return, in the order of `pack`, what judging goes by and lineage does not: owners, formats, definers of
    views. None where no table has any, or they are no text."""
    written = [
        [table.owner, table.provider, table.shadowed, None if view is None else _write_facts(view)]
        for table in tables
        for view in (table.view,)
    ]
    if not any(any(one) for one in written):
        return None
    try:
        return _pack(orjson.dumps(written))
    except TypeError:
        return None


def _write_facts(view: ViewBody) -> list[Any]:
    metrics = view.metrics
    told = [] if metrics is None else [dataclasses.astuple(metrics)]
    return [view.definer, view.collation, view.by_position, *told]


def _metrics(told: Sequence[Any]) -> MetricDefinition:
    source, where, dimensions, measures = told
    return MetricDefinition(
        source=str(source),
        where=str(where),
        dimensions=tuple((str(name), str(text)) for name, text in dimensions),
        measures=tuple((str(name), str(text)) for name, text in measures),
    )


def read_dependencies(kept: Mapping[str, Any]) -> dict[TableName, Table]:
    """Return the tables and views that a statement was judged by, by folded name, of the key `lineage` of its
    record. Raises ValueError where that does not have them, or not all that counts: then it says why."""
    if kept.get("tables") is None:
        raise ValueError("it read too many tables for the record")
    try:
        tables, _ = unpack(kept["tables"])
    except ValueError as error:
        raise ValueError("the recorded tables cannot be read") from error
    facts = kept.get("facts")
    if facts is None:
        if any(table.view is not None for table in tables.values()):
            raise ValueError("the record does not say who defined its views")
        return tables
    found = {}
    try:
        told = zip(tables.items(), orjson.loads(_unpack(facts)), strict=True)
        for (name, table), (owner, provider, shadowed, view) in told:
            body = table.view
            if body is not None:
                definer, collation, by_position, *metrics = view
                body = replace(body, definer=definer, collation=collation, by_position=by_position)
                body = replace(body, metrics=_metrics(*metrics) if metrics else None)
            found[name] = replace(table, owner=owner, provider=provider, shadowed=shadowed, view=body)
    except (zlib.error, TypeError, ValueError) as error:
        raise ValueError("the recorded tables cannot be read") from error
    return found


def plan_of_record(packed: str) -> bytes:
    """Return the serialized `Plan` of a record, without rows of the client's. Raises ValueError."""
    try:
        return _unpack(packed)
    except zlib.error as error:
        raise ValueError("the recorded plan cannot be read") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStatement:
    """A cleared statement as the record has it, and how it ended."""

    statement_id: UUID
    time: datetime
    user: str
    text: str
    """In the user's words; of a DataFrame as PySpark would print it."""
    session_id: str
    context: SessionContext
    outcome: str
    """As the record has it; `unknown` where it has no end."""
    ended: datetime | None = None
    error: str = ""
    tables: Mapping[TableName, Table] | None = None
    """Tables that its names meant; None where the record does not say."""
    masks: Masks = field(default_factory=dict)
    temp_views: Mapping[str, UUID] = field(default_factory=dict)
    """The temporary views that it reads, by the statements that made them."""
    over: bool = False
    """Whether what its names stood for was too much for the record."""
    runs_queries: bool = True
    """Whether a query counts: of one that comes as a command of Spark Connect, Spark only looks at what it
    would answer, and the client sends it again."""
    plan: bytes | None = None
    """A serialized `Plan` of Spark Connect, without rows of the client's; None for a statement in SQL."""
    relations: Mapping[str, UUID] = field(default_factory=dict)
    """The cached relations that its plan reads, by the statements that computed them."""
    caches: bool = False
    """Whether later plans may read what it has computed."""
    functions: Mapping[str, UUID] = field(default_factory=dict)
    """The temporary functions over tables that it calls, by the statements that made them."""
    tables_only: StatementLineage | None = None
    """Tables read and written by a plan that was too large for the record."""

    @property
    def is_sql(self) -> bool:
        return self.plan is None and self.tables_only is None


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
    if kept is None and "plan" in body:
        raise ValueError("a plan, without the parts that lineage is extracted from")
    tables: Mapping[TableName, Table] | None = None
    masks: Masks = _masks_of_body(body)
    temp_views: dict[str, UUID] = {}
    relations: dict[str, UUID] = {}
    functions: dict[str, UUID] = {}
    plan = None
    tables_only = None
    if kept is not None:
        temp_views = {str(name).lower(): UUID(made) for name, made in kept.get("temp_views", {}).items()}
        relations = {str(name): UUID(made) for name, made in kept.get("relations", {}).items()}
        functions = {str(name).lower(): UUID(made) for name, made in kept.get("functions", {}).items()}
        if kept["tables"] is not None:
            tables, masks = unpack(kept["tables"])
        if kept.get("plan") is not None:
            plan = _unpack(kept["plan"])
        elif "plan" in kept:
            tables_only = _list_touched(body)
    # Of a plan, `reqData` is a rendering for people: an SQL text that is all of it is read instead.
    is_text = "plan" in body and kept is not None and "plan" not in kept
    text = body["texts"][0] if is_text else body["reqData"]
    return RecordedStatement(
        statement_id=UUID(decided.statement_id),
        time=datetime.fromisoformat(decided.time).astimezone(UTC),
        user=decided.user,
        text=str(text),
        session_id=str(body.get("sess", "")),
        context=SessionContext(
            catalog=str(body.get("catalog") or "spark_catalog"),
            namespace=tuple(body.get("namespace") or ("default",)),
            temp_views=frozenset(temp_views),
            handles=frozenset(SparkHandle("relation", relation) for relation in relations),
        ),
        outcome=str(end.body.get("outcome", "unknown")) if end is not None else "unknown",
        ended=_read_end(end),
        error=str(end.body.get("error", "")) if end is not None else "",
        tables=tables,
        masks=masks,
        temp_views=temp_views,
        over=kept is not None and kept["tables"] is None,
        runs_queries=kept is None or kept.get("command") is not True,
        plan=plan,
        relations=relations,
        caches=body.get("plan_class") == _CACHES,
        functions=functions,
        tables_only=tables_only,
    )


def _list_touched(body: Mapping[str, Any]) -> StatementLineage:
    """Return the tables and paths that a plan read and wrote, by what policies were asked."""
    asked = [
        (str(one["resource"]), str(one["resType"]), str(one["action"]))
        for one in body.get("decisions") or ()
        if one.get("result") == 1
    ]
    read = {
        Dataset(DatasetKind.TABLE, _in_three(str(scan["table"]).lower())): None
        for scan in body.get("scans") or ()
        if scan["access"] == "select"
    }
    written: dict[Dataset, None] = {}
    for resource, kind, action in asked:
        if kind == "@url":
            place = Dataset(DatasetKind.PATH, (resource,))
        elif kind in _OF_TABLES and action in _WRITING:
            place = Dataset(DatasetKind.TABLE, tuple(resource.lower().split("/")))
        else:
            continue
        (read if action == "read" else written)[place] = None
    return StatementLineage(
        operation=Operation.INSERT if written else Operation.QUERY,
        targets=tuple(written) or (RESULT,),
        inputs=tuple(read),
        table_level=TOO_MUCH,
    )


def _in_three(name: str) -> tuple[str, ...]:
    """Return catalog, database and table of a name in the record; a nested database has dots in it."""
    parts = name.split(".")
    return (parts[0], ".".join(parts[1:-1]), parts[-1]) if len(parts) > 3 else tuple(parts)


def _read_end(end: AuditEvent | None) -> datetime | None:
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
        if len(parts) > 2:
            name = TableName.of(parts)
            found[name] = found.get(name, masked) & masked
    return {name: columns for name, columns in found.items() if columns}
