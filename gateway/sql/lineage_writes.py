"""What a statement writes: its targets by Spark's reading, and which columns of theirs get what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gateway.algebra.lineage_expressions import LineageColumn, LineageColumns
from gateway.algebra.lineage_values import NO_DEPENDENCIES, Value, merge_values
from gateway.algebra.usage import Unclear
from gateway.model.catalog import TableName
from gateway.model.lineage import (
    ANY_COLUMN,
    RESULT,
    ColumnVertex,
    Dataset,
    DatasetKind,
    EdgeType,
    LineageEdge,
    Operation,
    SourceColumn,
    StatementLineage,
    Subtype,
    Transformation,
)
from gateway.model.reading import CommandNode, Reading, Span
from gateway.model.reading import Relation as ReadRelation
from gateway.sql.lineage_edges import TargetValue
from gateway.sql.lineage_sources import LineageCatalog, LineageText, target_of

MAX_BRANCHES = 100
"""INSERTs of one statement; each has the FROM clause before them all."""

_CREATES = {
    "CreateTableAsSelect": DatasetKind.TABLE,
    "ReplaceTableAsSelect": DatasetKind.TABLE,
    "CreateView": DatasetKind.VIEW,
    "CreateViewCommand": DatasetKind.TEMP_VIEW,
    "AlterViewAs": DatasetKind.VIEW,
    "CacheTableAsSelect": DatasetKind.TEMP_VIEW,
    "CreateDataSourceTableAsSelectCommand": DatasetKind.TABLE,
}
_RENAMES = "RenameTable"
OVERWRITES = "OverwriteByExpression"
"""INSERT INTO … REPLACE WHERE, before Spark 4.3."""
_CHANGES = {
    "UpdateTable": Operation.UPDATE,
    "DeleteFromTable": Operation.DELETE,
    "MergeIntoTable": Operation.MERGE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One target, and what is said of its columns."""

    operation: Operation
    dataset: Dataset
    table: TableName | None = None
    """Of a table or view: its name, to look its columns up."""
    columns: tuple[str, ...] = ()
    """Those that the statement lists, lower case."""
    static: tuple[str, ...] = ()
    """Partition columns with a value of their own, lower case."""
    by_name: bool = False


def writes_of(statement: LineageText, catalog: LineageCatalog) -> list[Write]:
    """Return what a statement writes, or RESULT for a query; nothing when no rows of tables are in it."""
    reading = statement.reading
    commands = [command for command in reading.commands if command.node != "ScriptTransformation"]
    if not commands:
        return [Write(operation=Operation.QUERY, dataset=RESULT)]
    command = commands[0]
    if command.node == "InsertIntoStatement":
        return _inserts(statement, catalog)
    if command.node == OVERWRITES:
        return [_overwrite(command, statement, catalog)]
    if command.node in _CREATES:
        return [_create(command, statement, catalog)]
    if command.node in _CHANGES:
        dataset, table = target_of(_target(reading, command.node).parts, statement.names, catalog)
        return [Write(operation=_CHANGES[command.node], dataset=dataset, table=table)]
    if command.node == "InsertIntoDir":
        return [_into_directory(command)]
    return []


def _target(reading: Reading, holder: str, span: Span | None = None) -> ReadRelation:
    for relation in reading.relations:
        inside = span is None or (
            relation.span is not None and span.start <= relation.span.start and relation.span.end <= span.end
        )
        if relation.holder == holder and inside:
            return relation
    raise Unclear(f"{holder} has no literal target name")


def _inserts(statement: LineageText, catalog: LineageCatalog) -> list[Write]:
    """Return a Write for each INSERT."""
    commands = [c for c in statement.reading.commands if c.node == "InsertIntoStatement"]
    heads = sorted(((c.span, c) for c in commands if c.span is not None), key=lambda head: head[0].start)
    if len(heads) != len(commands) or len(heads) > MAX_BRANCHES:
        raise Unclear("the statement has INSERTs that cannot be distinguished")
    found = []
    for span, command in heads:
        partitions = command.fields.get("partitionSpec")
        static = (
            [key for key, value in partitions.items() if value is not None]
            if isinstance(partitions, Mapping)
            else []
        )
        overwrites = command.fields.get("overwrite") is True
        target = _target(statement.reading, command.node, span)
        dataset, table = target_of(target.parts, statement.names, catalog)
        found.append(
            Write(
                operation=Operation.OVERWRITE if overwrites else Operation.INSERT,
                dataset=dataset,
                table=table,
                columns=_texts(command.fields.get("userSpecifiedCols")),
                static=tuple(name.lower() for name in static),
                by_name=command.fields.get("byName") is True,
            )
        )
    return found


def _overwrite(command: CommandNode, statement: LineageText, catalog: LineageCatalog) -> Write:
    target = _target(statement.reading, command.node)
    dataset, table = target_of(target.parts, statement.names, catalog)
    by_name = command.fields.get("isByName") is True
    return Write(operation=Operation.OVERWRITE, dataset=dataset, table=table, by_name=by_name)


def _create(command: CommandNode, statement: LineageText, catalog: LineageCatalog) -> Write:
    kind = _CREATES[command.node]
    reading = statement.reading
    table: TableName | None = None
    if command.node == "CacheTableAsSelect":
        dataset = Dataset(kind, (str(command.fields.get("tempViewName")).lower(),))
    else:
        relation = _target(reading, command.node)
        if command.node == "CreateViewCommand":
            dataset = Dataset(kind, tuple(part.lower() for part in relation.parts[-1:]))
        else:
            dataset, table = target_of(relation.parts, statement.names, catalog)
            dataset = Dataset(kind, dataset.parts)
    listed = command.fields.get("userSpecifiedColumns")
    columns = [c[0] for c in listed if isinstance(c, tuple) and c] if isinstance(listed, tuple) else []
    return Write(
        operation=Operation.CREATE,
        dataset=dataset,
        table=table,
        columns=_texts(tuple(columns)),
    )


def _into_directory(command: CommandNode) -> Write:
    storage = command.fields.get("storage")
    location = storage.get("locationUri") if isinstance(storage, Mapping) else None
    return Write(
        operation=Operation.OVERWRITE,
        dataset=Dataset(DatasetKind.PATH, (str(location or ""),)),
    )


def trace_rename(statement: LineageText, catalog: LineageCatalog) -> StatementLineage | None:
    """Return the lineage of ALTER TABLE … RENAME TO: every column goes on under the new name; None for other
    statements, and for names that mean no table."""
    reading = statement.reading
    if not reading.commands or reading.commands[0].node != _RENAMES:
        return None
    new = reading.commands[0].fields.get("newName")
    old = next((relation.parts for relation in reading.relations if relation.holder == _RENAMES), None)
    if old is None or not isinstance(new, tuple):
        return None
    before, name = target_of(old, statement.names, catalog)
    if name is None:
        return None
    # Spark completes a name of one part with the table's own database.
    parts = tuple(str(part) for part in new[-1:])
    after = Dataset(before.kind, (*before.parts[:-1], *(part.lower() for part in parts)))
    table = catalog.table(name)
    columns = [column.name.lower() for column in table.columns] if table is not None else []
    same = (Transformation(Subtype.IDENTITY),)
    return StatementLineage(
        operation=Operation.CREATE,
        targets=(after,),
        inputs=(before,),
        columns=tuple(ColumnVertex(after, column) for column in columns),
        edges=tuple(
            LineageEdge(
                type=EdgeType.PROJECTION,
                sources=(SourceColumn(ColumnVertex(before, column), same),),
                targets=(ColumnVertex(after, column),),
                expression=column,
            )
            for column in columns
        ),
        table_level="" if columns else "the columns of the renamed table are not known",
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(item).lower() for item in value) if isinstance(value, tuple) else ()


def match_target_columns(
    write: Write, relation: LineageColumns, catalog: LineageCatalog
) -> list[TargetValue]:
    """Return the target columns that are written, in order, each with its value."""
    shown = [one for one in relation.columns if one.bare]
    names = _column_names(write, shown, catalog)
    values: list[Value]
    if len(names) != len(shown) and any(one.value.unlisted for one in shown):
        # A star stands for columns that nobody knows: whatever is there may be in any column.
        whole = merge_values(a.value for a in shown)
        values = [whole] * len(names)
    else:
        if write.operation is not Operation.QUERY and len(shown) > len(names):
            raise Unclear(f"{write.dataset} has {len(names)} columns, but the query {len(shown)}")
        values = [a.value for a in shown]
    found: dict[str, list[Value]] = {}
    for name, value in zip(names, values, strict=False):
        found.setdefault(name, []).append(value)
    targets = [
        (ColumnVertex(write.dataset, name), merge_values(many) if len(many) > 1 else many[0])
        for name, many in found.items()
    ]
    return targets + [(ColumnVertex(write.dataset, n), Value(NO_DEPENDENCIES)) for n in write.static]


def _column_names(write: Write, shown: Sequence[LineageColumn], catalog: LineageCatalog) -> list[str]:
    """Return the names of the columns that are written, by position in the query."""
    if write.columns:
        return list(write.columns)
    table = catalog.table(write.table) if write.table is not None else None
    known = [c.name.lower() for c in table.columns] if table is not None else []
    if write.operation in (Operation.INSERT, Operation.OVERWRITE) and not write.by_name and known:
        return [name for name in known if name not in write.static]
    made_up = known if len(known) == len(shown) else []
    if write.operation is Operation.QUERY:
        return _unique(a.name or _read_text(a.value) or f"_c{i}" for i, a in enumerate(shown))
    # Of a column that Spark has named otherwise than is known here, whoever reads the table may mean any.
    # RULE (lineage-unknown-names)
    names = [a.name or (made_up[i] if made_up else ANY_COLUMN) for i, a in enumerate(shown)]
    known_names = iter(_unique(name for name in names if name != ANY_COLUMN))
    return [name if name == ANY_COLUMN else next(known_names) for name in names]


def _read_text(value: Value) -> str:
    return str(value.written[0]).lower() if value.written else ""


def _unique(names: Iterable[str]) -> list[str]:
    """Number the names that are there more than once: columns of a result may be called the same."""
    found: dict[str, int] = {}
    unique = []
    for name in names:
        count = found[name] = found.get(name, 0) + 1
        unique.append(name if count == 1 else f"{name}#{count}")
    return unique


@dataclass(slots=True)
class Assigned:
    """Columns of a target that UPDATE or MERGE sets, each with all that it may be set to."""

    dataset: Dataset
    values: dict[str, list[Value]] = field(default_factory=dict)

    def add(self, column: str, value: Value) -> None:
        self.values.setdefault(column, []).append(value)

    def targets(self) -> list[TargetValue]:
        return [
            (ColumnVertex(self.dataset, column), merge_values(values))
            for column, values in self.values.items()
        ]
