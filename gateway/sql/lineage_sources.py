"""Where values come from: tables, views read through to their tables, temporary views by their lineage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from gateway.algebra.lineage_expressions import LineageColumns, rows_of, store_columns, with_others
from gateway.algebra.lineage_values import (
    ALL,
    IDENTITY,
    SUBTYPES,
    WAYS,
    AttributeDependencies,
    ConditionPart,
    RelationRows,
    RowCondition,
    Value,
)
from gateway.algebra.usage import Parts, Unclear
from gateway.model.catalog import Table, TableKind, TableName
from gateway.model.lineage import (
    ANY_COLUMN,
    ColumnVertex,
    Dataset,
    DatasetKind,
    EdgeType,
    SourceColumn,
    StatementLineage,
)
from gateway.model.reading import Reading, RelationRole, UnnamedColumn
from gateway.sql.names import Names, TempViewName, Ungovernable

MAX_VIEW_DEPTH = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageText:
    """A statement or a view's query, with Spark's reading of it and what names mean in its session."""

    text: str
    reading: Reading
    names: Names
    columns: tuple[UnnamedColumn, ...] = ()
    """What Spark calls the columns of the text that have no alias, as far as that is known."""
    parts: tuple[LineageText, ...] = ()
    """Of a script: its statements and queries, each as if it stood alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageCatalog:
    """What the statement's names stand for; what is missing has columns that nobody knows."""

    tables: Mapping[TableName, Table] = field(default_factory=dict)
    """By folded name: tables and views that are read, those that views read, and those that are written."""
    views: Mapping[TableName, LineageText] = field(default_factory=dict)
    """Queries of persistent views by folded name; a view without one is read as if it were a table."""
    temp_views: Mapping[str, StatementLineage] = field(default_factory=dict)
    """Lineage of the statements that made the session's temporary views, by lower-case name."""
    masks: Mapping[TableName, frozenset[str]] = field(default_factory=dict)
    """Columns, lower case, that a mask stood before, by folded name of the table or view."""

    def table(self, name: TableName) -> Table | None:
        return self.tables.get(name.fold())

    def dataset(self, name: TableName) -> Dataset:
        table = self.table(name)
        is_view = name.fold() in self.views or (table is not None and table.kind is TableKind.VIEW)
        return Dataset.table(name, DatasetKind.VIEW if is_view else DatasetKind.TABLE)


def dataset_of(parts: Parts, names: Names, catalog: LineageCatalog) -> Dataset:
    """Return what a relation name means; a name that cannot be governed is taken as it is written."""
    resolved = names.table(parts)
    if isinstance(resolved, TempViewName):
        return Dataset(DatasetKind.TEMP_VIEW, (resolved.name.lower(),))
    if isinstance(resolved, Ungovernable):
        if len(parts) == 2 and "/" in parts[1]:
            return Dataset(DatasetKind.PATH, (parts[1],))
        return Dataset(DatasetKind.TABLE, tuple(part.lower() for part in parts))
    return catalog.dataset(resolved)


@dataclass(slots=True)
class Vertices:
    """The columns of one statement by number; two scans of a table have columns of their own."""

    columns: list[ColumnVertex] = field(default_factory=list)
    scans: list[int] = field(default_factory=list)
    steps: set[int] = field(default_factory=set)
    """Those that are columns of views, through which others are read."""
    _numbers: dict[tuple[int, str], int] = field(default_factory=dict)
    _scans: int = 0

    def scan(self) -> int:
        self._scans += 1
        return self._scans - 1

    def number(self, scan: int, vertex: ColumnVertex) -> int:
        key = (scan, vertex.column)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.columns)
            self.columns.append(vertex)
            self.scans.append(scan)
        return found


ReadView = Callable[[LineageText], LineageColumns]


class Sources:
    """Makes the relations that a statement's names stand for."""

    def __init__(self, catalog: LineageCatalog, read_view: ReadView) -> None:
        self.catalog = catalog
        self.vertices = Vertices()
        self.unread: dict[Dataset, str] = {}
        """Views whose text could not be read, and why."""
        self.view_columns: dict[Dataset, list[tuple[ColumnVertex, Value]]] = {}
        """What the columns of the views that were read are made of."""
        self._read_view = read_view
        self._masks = {name.fold().parts: columns for name, columns in catalog.masks.items()}
        self._views: dict[TableName, LineageColumns] = {}
        self._reading: list[TableName] = []
        self._datasets: list[Dataset] = []
        """Of each scan, by its number."""

    def scan(self, parts: Parts, names: Names) -> LineageColumns:
        """Return the relation of a name that is read."""
        resolved = names.table(parts)
        if isinstance(resolved, TempViewName):
            name = resolved.name.lower()
            made = self.catalog.temp_views.get(name)
            if made is not None and not made.table_level:
                return self._temp_view(name, made)
            return self._table(Dataset(DatasetKind.TEMP_VIEW, (name,)), None)
        if isinstance(resolved, Ungovernable):
            return self._table(dataset_of(parts, names, self.catalog), None)
        text = self.catalog.views.get(resolved.fold())
        view = None if text is None else self._view(resolved.fold(), text)
        return self.table(resolved) if view is None else view

    def table(self, name: TableName) -> LineageColumns:
        """Return the relation of a table by itself: the target of a MERGE, UPDATE or DELETE."""
        return self._table(self.catalog.dataset(name.fold()), self.catalog.table(name.fold()))

    def _table(self, dataset: Dataset, table: Table | None) -> LineageColumns:
        scan = self.vertices.scan()
        self._datasets.append(dataset)
        known = () if table is None else table.columns
        return self._read_as_one([scan], [(column.name.lower(), column.type) for column in known])

    def files(self, paths: Sequence[str], columns: Sequence[tuple[str, str]]) -> LineageColumns:
        """Return files by their locations, read as one. `columns`: names and types, none if not known."""
        scans = []
        for path in paths:
            scans.append(self.vertices.scan())
            self._datasets.append(Dataset(DatasetKind.PATH, (path,)))
        return self._read_as_one(scans, columns)

    def _read_as_one(self, scans: Sequence[int], columns: Sequence[tuple[str, str]]) -> LineageColumns:
        """Return what is read as one: with columns that nobody knows it has whatever is asked of it."""
        if columns:
            values = [(name, replace(self._column(scans, name), type=type_)) for name, type_ in columns]
            return store_columns(values)
        unlisted = (partial(self._column, scans),)
        return store_columns([(ANY_COLUMN, replace(self._column(scans, ANY_COLUMN), unlisted=unlisted))])

    def _column(self, scans: Sequence[int], name: str) -> Value:
        found: AttributeDependencies = {}
        for scan in scans:
            dataset = self._datasets[scan]
            number = self.vertices.number(scan, ColumnVertex(dataset, name))
            masked = name in self._masks.get(dataset.parts, ())
            found[number] = IDENTITY << WAYS if masked else IDENTITY
        return Value(found, (), (name,))

    # ---------------------------------------------------------------- views

    def _view(self, name: TableName, text: LineageText) -> LineageColumns | None:
        """Return a persistent view read through to its tables; None when its text cannot be read."""
        if name in self._views:
            return self._views[name]
        dataset = self.catalog.dataset(name)
        if dataset in self.unread:
            return None
        if name in self._reading or len(self._reading) >= MAX_VIEW_DEPTH:
            raise Unclear(f"the view {name} reads itself, or views are nested too deep")
        self._reading.append(name)
        try:
            found = self._name_columns(name, self._read_view(text))
        except Unclear as unclear:
            self.unread[dataset] = unclear.why
            return None
        finally:
            self._reading.pop()
        masked = self.catalog.masks.get(name, frozenset())
        scan = self.vertices.scan()
        self._datasets.append(dataset)
        columns = [(ColumnVertex(dataset, one.name or ANY_COLUMN), one.value) for one in found.columns]
        self.view_columns[dataset] = columns
        steps = [self._step(scan, vertex, value, masked) for vertex, value in columns]
        names = [one.name for one in found.columns]
        self._views[name] = store_columns(zip(names, steps, strict=True), rows_of(found))
        return self._views[name]

    def _step(self, scan: int, vertex: ColumnVertex, value: Value, masked: frozenset[str]) -> Value:
        number = self.vertices.number(scan, vertex)
        self.vertices.steps.add(number)
        dependencies = {**value.dependencies, number: IDENTITY}
        if vertex.column in masked:
            dependencies = {key: behind_mask(bits) for key, bits in dependencies.items()}
        return Value(dependencies, value.rows, value.written, value.type, unlisted=value.unlisted)

    def _name_columns(self, name: TableName, relation: LineageColumns) -> LineageColumns:
        """Give the columns of a view's query the view's names: by those that Spark recorded, or in order."""
        table = self.catalog.table(name)
        shown = [one for one in relation.columns if one.bare]
        if table is None or not table.columns or any(one.value.unlisted for one in shown):
            return replace(relation, columns=tuple(shown))
        names = [column.name.lower() for column in table.columns]
        recorded = [n.lower() for n in table.view.output] if table.view is not None else []
        by_name = {one.name: one for one in reversed(shown) if one.name}
        if (
            len(recorded) == len(names)
            and len(set(recorded)) == len(recorded)
            and by_name.keys() >= set(recorded)
        ):
            shown = [by_name[n] for n in recorded]
        if len(shown) != len(names):
            raise Unclear(f"the view {name} has {len(names)} columns, but its query {len(shown)}")
        return store_columns(zip(names, [one.value for one in shown], strict=True), rows_of(relation))

    def _temp_view(self, name: str, made: StatementLineage) -> LineageColumns:
        """Return a temporary view as what the statement that made it read."""
        columns, rows = self._resolve_made(made)
        dataset = Dataset(DatasetKind.TEMP_VIEW, (name,))
        scan = self.vertices.scan()
        self._datasets.append(dataset)
        steps = [
            (vertex.column, self._step(scan, ColumnVertex(dataset, vertex.column), value, frozenset()))
            for vertex, value in columns
        ]
        return store_columns(
            ((name, with_others(step, step) if name == ANY_COLUMN else step) for name, step in steps), rows
        )

    def resolve_cached(self, made: StatementLineage) -> LineageColumns:
        """Return a relation that Spark has kept as what the plan that made it read."""
        if made.table_level:
            raise Unclear(made.table_level)
        columns, rows = self._resolve_made(made)
        seen: set[str] = set()
        named: list[tuple[str, Value]] = []
        for vertex, value in columns:
            # Columns of one name were numbered for their vertices.
            plain, _, count = vertex.column.rpartition("#")
            name = plain if count.isdigit() and plain in seen else vertex.column
            seen.add(name)
            named.append((name, value))
        return store_columns(named, rows)

    def _resolve_made(self, made: StatementLineage) -> tuple[list[tuple[ColumnVertex, Value]], RelationRows]:
        """Return what a statement made, by column, and its rows: both of what it read."""
        scans: dict[Dataset, int] = {}

        def number_sources(sources: tuple[SourceColumn, ...]) -> AttributeDependencies:
            found: AttributeDependencies = {}
            for source in sources:
                dataset = source.column.dataset
                if dataset not in scans:
                    scans[dataset] = self.vertices.scan()
                    self._datasets.append(dataset)
                key = self.vertices.number(scans[dataset], source.column)
                if dataset.kind is DatasetKind.VIEW:
                    self.vertices.steps.add(key)
                found[key] = found.get(key, 0) | bits_of(source)
            return found

        for edge in made.edges:
            self.vertices.steps.update(number_sources(edge.steps))
        rows, own = _rows_of(made, number_sources)
        values = {
            edge.targets[0]: Value(
                number_sources((*edge.sources, *edge.steps)), own.get(edge.targets[0], ()), (edge.expression,)
            )
            for edge in made.edges
            if edge.type is EdgeType.PROJECTION
        }
        return [(v, values.get(v) or Value({}, own.get(v, ()))) for v in made.columns], rows


def _rows_of(
    made: StatementLineage, numbered: Callable[[tuple[SourceColumn, ...]], AttributeDependencies]
) -> tuple[RelationRows, dict[ColumnVertex, tuple[RelationRows, ...]]]:
    """Return what decided on all columns that a statement made, and what on some of them alone."""
    rows = RelationRows()
    own: dict[ColumnVertex, tuple[RelationRows, ...]] = {}
    for edge in made.edges:
        if edge.type is not EdgeType.PREDICATE or edge.clause is None:
            continue
        steps = numbered(edge.steps)
        condition = RowCondition(edge.clause, edge.expression)
        for conjunct in edge.conjuncts:
            part = ConditionPart(
                conjunct.expression, {**numbered(conjunct.sources), **steps}, conjunct.by_row
            )
            condition.parts.append(part)
        if set(edge.targets) >= set(made.columns):
            rows.conditions.append(condition)
        else:
            for vertex in edge.targets:
                own[vertex] = (*own.get(vertex, ()), RelationRows([condition]))
    return rows, own


def behind_mask(bits: int) -> int:
    """Return ways with a mask in every one of them."""
    return ((bits & ALL) | bits >> WAYS) << WAYS


_BITS = {subtype: bit for bit, subtype in SUBTYPES.items()}


def bits_of(source: SourceColumn) -> int:
    """Return the ways in which a source takes part; of a PREDICATE's only whether a mask stands there."""
    bits = 0
    for transformation in source.transformations:
        bit = _BITS.get(transformation.subtype, IDENTITY)
        bits |= bit << WAYS if transformation.masking else bit
    return bits


def read_datasets(
    reads: Iterable[tuple[Parts, Names]], catalog: LineageCatalog
) -> tuple[list[Dataset], list[Dataset]]:
    """Return what is read by names, each with what names mean where it stands: tables and the like, and views
    on the way."""
    inputs: dict[Dataset, None] = {}
    views: dict[Dataset, None] = {}
    stack = list(reads)
    stack.reverse()
    while stack:
        parts, names = stack.pop()
        resolved = names.table(parts)
        dataset = dataset_of(parts, names, catalog)
        if isinstance(resolved, TableName) and (body := catalog.views.get(resolved.fold())) is not None:
            if dataset not in views:
                stack += reversed(scans_of(body))
            views[dataset] = None
        elif dataset.kind is DatasetKind.TEMP_VIEW and dataset.parts[0] in catalog.temp_views:
            made = catalog.temp_views[dataset.parts[0]]
            inputs.update(dict.fromkeys(made.inputs))
            views.update(dict.fromkeys((*made.views, dataset)))
        else:
            inputs[dataset] = None
    return list(inputs), list(views)


def scans_of(text: LineageText) -> list[tuple[Parts, Names]]:
    """Return the names that a text reads, as Spark's parser sees them."""
    return [
        (relation.parts, text.names)
        for relation in text.reading.relations
        if relation.role is RelationRole.SCAN
    ]


def target_of(parts: Parts, names: Names, catalog: LineageCatalog) -> tuple[Dataset, TableName | None]:
    """Return what the name of something that is written to means: never a temporary view."""
    resolved = names.new_table(parts)
    if isinstance(resolved, Ungovernable):
        return dataset_of(parts, names, catalog), None
    return catalog.dataset(resolved), resolved.fold()
