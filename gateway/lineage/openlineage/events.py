"""Makes the OpenLineage events of a statement: START, and COMPLETE, FAIL or ABORT; a job event for a script.

Versions of facets are those of OpenLineage's specification 2-0-2. What a statement's lineage says is in the
`columnLineage` facet of what it writes: sources of a column's values, and conditions that bear on some
columns, in `fields`; conditions that bear on all of a dataset's rows in `dataset`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import orjson

from gateway import __version__
from gateway.database.texts import storable
from gateway.lineage.openlineage.names import Identifier, Naming
from gateway.lineage.rows import EXPRESSION_CHARS, IMPORTED, SeenStatement
from gateway.model.catalog import Table, TableName
from gateway.model.lineage import (
    ANY_COLUMN,
    ColumnVertex,
    Dataset,
    DatasetKind,
    EdgeType,
    LineageEdge,
    Operation,
    SourceColumn,
    StatementLineage,
)

MAX_EVENT_BYTES = 4 * 1024 * 1024
"""An event that is longer is written without what it can do without: texts, then columns."""
CUT_CHARS = 64 * 1024
"""Characters kept of a statement's text when its event is too long."""
PRODUCER = f"urn:sluice-gateway:{__version__}"
STATEMENT_FACET = "urn:sluice-gateway:openlineage:1-0-0:SluiceStatementRunFacet"
"""Names docs/openlineage/SluiceStatementRunFacet.json."""

_SPEC = "https://openlineage.io/spec"
_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs"
_VERSIONS = {
    "ColumnLineageDatasetFacet": "1-2-0",
    "DatasetTypeDatasetFacet": "1-0-1",
    "ErrorMessageRunFacet": "1-0-1",
    "ParentRunFacet": "1-2-0",
    "ProcessingEngineRunFacet": "1-1-1",
    "SQLJobFacet": "1-1-0",
    "SchemaDatasetFacet": "1-2-0",
    "SourceCodeJobFacet": "1-0-1",
    "SymlinksDatasetFacet": "1-0-1",
}
_TYPES = {
    DatasetKind.TABLE: ("TABLE", ""),
    DatasetKind.VIEW: ("VIEW", ""),
    DatasetKind.TEMP_VIEW: ("VIEW", "TEMPORARY"),
    DatasetKind.PATH: ("FILE", ""),
    DatasetKind.RESULT: ("RESULT", ""),
}
_ENDS = {"finished": "COMPLETE", "failed": "FAIL"}
_STOPPED = frozenset({"canceled", "timed_out", "not_forwarded", "abandoned"})

_Event = dict[str, Any]
Facet = dict[str, Any]


def _unknown(name: TableName) -> Table | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventWriter:
    """Makes events of statements. Equal statements make equal events."""

    naming: Naming = field(default_factory=Naming)
    tables: Callable[[TableName], Table | None] = _unknown
    """Tables that are cached now; nothing is looked up for events."""
    spark_version: str = ""
    """Version of the Spark that runs statements; empty: not known."""
    texts: bool = True
    """Whether events hold texts: of statements, of expressions, and of errors."""
    queries: bool = True
    """Whether plain queries make events."""

    def lines(self, seen: Iterable[SeenStatement]) -> bytes:
        """Return the events of statements as lines of JSON, each at most about `MAX_EVENT_BYTES` long."""
        return b"".join(line for one in seen for line in self._lines(one))

    def events(self, seen: SeenStatement, *, texts: bool | None = None, columns: bool = True) -> list[_Event]:
        """Return the events of a statement, in the order of their times.

        `texts`: other than this writer's; `columns`: whether columns are in them.
        """
        if not self.queries and seen.lineage.operation is Operation.QUERY:
            return []
        return _Making(self, seen, self.texts if texts is None else texts, columns).events()

    def _lines(self, seen: SeenStatement) -> Iterator[bytes]:
        lines = [_line(event) for event in self.events(seen)]
        for columns in (True, False):
            if all(len(line) <= MAX_EVENT_BYTES for line in lines):
                break
            lines = [_line(event) for event in self._shorten(seen, columns)]
        yield from lines

    def _shorten(self, seen: SeenStatement, columns: bool) -> list[_Event]:
        events = self.events(seen, texts=False, columns=columns)
        if self.texts:
            # The statement itself says most, and most are short.
            for event in events:
                event["job"]["facets"] = _words(replace(seen, text=seen.text[:CUT_CHARS]))
        return events


@dataclass(slots=True)
class _Making:
    """The events of one statement, being made."""

    writer: EventWriter
    seen: SeenStatement
    texts: bool
    columns: bool

    def events(self) -> list[_Event]:
        seen, lineage = self.seen, self.seen.lineage
        written = list(dict.fromkeys((*lineage.targets, *_ends_of(lineage))))
        named: dict[Identifier, Dataset] = {}
        for dataset in (*lineage.inputs, *lineage.views, *_sources_of(lineage)):
            # Two may have one name: a path with a slash at its end, and without.
            named.setdefault(self.writer.naming.dataset(dataset, seen), dataset)
        read = list(named.values())
        job = self._job()
        whole: _Event = {
            "producer": PRODUCER,
            "job": job,
            "inputs": [self._dataset(dataset, written=False) for dataset in read],
            "outputs": [self._dataset(dataset, written=True) for dataset in written],
        }
        if seen.outcome == IMPORTED:
            return [{"eventTime": _time(seen.time), "schemaURL": f"{_EVENT}/JobEvent", **whole}]
        begin: _Event = {
            "eventType": "START",
            "eventTime": _time(seen.time),
            "schemaURL": f"{_EVENT}/RunEvent",
            **whole,
            "run": {"runId": str(seen.statement_id), "facets": self._run_facets()},
            "inputs": [self._bare(dataset) for dataset in read],
            "outputs": [self._bare(dataset) for dataset in written],
        }
        end = _end_of(seen)
        if not end:
            # It has not ended, so this is the only event that can tell.
            return [{**begin, "inputs": whole["inputs"], "outputs": whole["outputs"]}]
        facets = self._run_facets()
        if end != "COMPLETE" and seen.error and self.texts:
            facets["errorMessage"] = _facet(
                "ErrorMessageRunFacet", message=storable(seen.error), programmingLanguage="SQL"
            )
        ended: _Event = {
            "eventType": end,
            "eventTime": _time(max(seen.ended or seen.time, seen.time)),
            "schemaURL": f"{_EVENT}/RunEvent",
            **whole,
            "run": {"runId": str(seen.statement_id), "facets": facets},
        }
        return [begin, ended]

    def _job(self) -> _Event:
        job = self.writer.naming.job_of(self.seen)
        facets = _words(self.seen) if self.texts else {}
        return {"namespace": job.namespace, "name": job.name, "facets": facets}

    def _run_facets(self) -> dict[str, Facet]:
        seen, lineage = self.seen, self.seen.lineage
        facets: dict[str, Facet] = {"sluice_statement": self._statement(seen, lineage)}
        session = self.writer.naming.session_of(seen)
        if session is not None:
            run, job = session
            facets["parent"] = _facet("ParentRunFacet", run={"runId": run}, job=job._asdict())
        if self.writer.spark_version:
            facets["processing_engine"] = _facet(
                "ProcessingEngineRunFacet",
                name="spark",
                version=self.writer.spark_version,
                openlineageAdapterVersion=__version__,
            )
        return facets

    def _statement(self, seen: SeenStatement, lineage: StatementLineage) -> Facet:
        """Return the facet of our own: what OpenLineage has no place for."""
        masked = {
            source.column
            for edge in lineage.edges
            for source in edge.sources
            if any(transformation.masking for transformation in source.transformations)
        }
        facet: Facet = {
            "_producer": PRODUCER,
            "_schemaURL": STATEMENT_FACET,
            "user": storable(seen.user),
            "outcome": storable(seen.outcome),
            "operation": lineage.operation.value,
        }
        if seen.session_id:
            facet["sessionId"] = storable(seen.session_id)
        if lineage.table_level:
            facet["tableLevel"] = storable(lineage.table_level)
        if lineage.unread:
            facet["unreadViews"] = [self._reference(dataset) for dataset, _ in lineage.unread]
        if self.columns:
            facet["maskedColumns"] = [self._input_field(vertex) for vertex in sorted(masked, key=str)]
        else:
            facet["shortened"] = True
        return facet

    def _bare(self, dataset: Dataset) -> _Event:
        return {**self._reference(dataset), "facets": {}}

    def _reference(self, dataset: Dataset) -> _Event:
        return dict(self.writer.naming.dataset(dataset, self.seen)._asdict())

    def _dataset(self, dataset: Dataset, *, written: bool) -> _Event:
        kind, subtype = _TYPES[dataset.kind]
        facets = {
            "datasetType": _facet(
                "DatasetTypeDatasetFacet", datasetType=kind, **({"subType": subtype} if subtype else {})
            )
        }
        table = self.writer.tables(TableName(*dataset.parts)) if _is_table(dataset) else None
        if self.columns:
            fields = self._schema(dataset, table, written)
            if fields:
                facets["schema"] = _facet("SchemaDatasetFacet", fields=fields)
        if table is not None and table.location:
            place = self.writer.naming.path(storable(table.location))
            facets["symlinks"] = _facet(
                "SymlinksDatasetFacet", identifiers=[{**place._asdict(), "type": "LOCATION"}]
            )
        if written and self.columns and not self.seen.lineage.table_level:
            facets["columnLineage"] = self._column_lineage(dataset)
        return {**self._reference(dataset), "facets": facets}

    def _schema(self, dataset: Dataset, table: Table | None, written: bool) -> list[_Event]:
        lineage = self.seen.lineage
        made = written and lineage.operation is Operation.CREATE
        if table is not None and not made:
            return [
                {"name": storable(c.name), **({"type": storable(c.type)} if c.type else {})}
                for c in table.columns
            ]
        # What CREATE makes may be other than what the catalog knew before.
        names = (vertex.column for vertex in lineage.columns if vertex.dataset == dataset)
        return [{"name": storable(name)} for name in names if name != ANY_COLUMN] if written else []

    def _column_lineage(self, dataset: Dataset) -> Facet:
        lineage = self.seen.lineage
        names = [vertex.column for vertex in lineage.columns if vertex.dataset == dataset]
        fields: dict[str, _Sources] = {name: {} for name in names if name != ANY_COLUMN}
        rows: _Sources = {}
        for edge in lineage.edges:
            mine = {vertex.column: None for vertex in edge.targets if vertex.dataset == dataset}
            everything = ANY_COLUMN in mine or (edge.type is EdgeType.PREDICATE and mine.keys() >= set(names))
            if not mine:
                continue
            for sources in [rows] if everything else [fields.setdefault(name, {}) for name in mine]:
                self._add(sources, edge)
        return _facet(
            "ColumnLineageDatasetFacet",
            fields={storable(name): {"inputFields": self._input_fields(f)} for name, f in fields.items()},
            dataset=self._input_fields(rows),
        )

    def _add(self, sources: _Sources, edge: LineageEdge) -> None:
        for source in edge.sources:
            transformations = sources.setdefault(source.column, {})
            for transformation in self._transformations(source, edge):
                transformations.setdefault(tuple(transformation.values()), transformation)

    def _transformations(self, source: SourceColumn, edge: LineageEdge) -> Iterator[_Event]:
        for transformation in source.transformations:
            yield {
                "type": transformation.subtype.type.value,
                "subtype": transformation.subtype.value,
                "masking": transformation.masking,
                **({"description": storable(edge.expression[:EXPRESSION_CHARS])} if self.texts else {}),
            }

    def _input_fields(self, sources: _Sources) -> list[_Event]:
        return [
            {**self._input_field(column), "transformations": list(transformations.values())}
            for column, transformations in sources.items()
        ]

    def _input_field(self, vertex: ColumnVertex) -> _Event:
        return {**self._reference(vertex.dataset), "field": storable(vertex.column)}


_Sources = dict[ColumnVertex, dict[tuple[Any, ...], _Event]]
"""Source → its transformations, each once."""


def _line(event: _Event) -> bytes:
    return orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE)


def _facet(schema: str, **values: Any) -> Facet:
    url = f"{_SPEC}/facets/{_VERSIONS[schema]}/{schema}.json#/$defs/{schema}"
    return {"_producer": PRODUCER, "_schemaURL": url, **values}


def _words(seen: SeenStatement) -> dict[str, Facet]:
    """Return the facet of a job that has its statement's text."""
    text = storable(seen.text)
    if seen.is_sql:
        return {"sql": _facet("SQLJobFacet", query=text, dialect="spark")}
    return {"sourceCode": _facet("SourceCodeJobFacet", language="python", sourceCode=text)}


def _end_of(seen: SeenStatement) -> str:
    """Return the type of the event that ends a statement's run; empty while it runs."""
    if seen.outcome in _ENDS:
        return _ENDS[seen.outcome]
    return "ABORT" if seen.outcome in _STOPPED or seen.ended is not None else ""


def _time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _is_table(dataset: Dataset) -> bool:
    return dataset.kind in (DatasetKind.TABLE, DatasetKind.VIEW) and len(dataset.parts) == 3


def _ends_of(lineage: StatementLineage) -> Iterator[Dataset]:
    for edge in lineage.edges:
        yield from (vertex.dataset for vertex in edge.targets)


def _sources_of(lineage: StatementLineage) -> Iterator[Dataset]:
    for edge in lineage.edges:
        yield from (source.column.dataset for source in edge.sources)
