"""A plan as a relation whose lineage is found out: its reads, the SQL texts in it, and where these stand.

The texts stand one after the other in one text, so that each place in it is of one of them; behind them stand
the reads of the plan, by their positions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

from gateway.algebra.lineage_expressions import LineageColumns, store_columns, with_others
from gateway.algebra.lineage_values import NO_SOURCES, RelationRows
from gateway.algebra.nodes import (
    Expression,
    NamedScan,
    OneRow,
    OpaqueRelation,
    Projection,
    RelationNode,
)
from gateway.algebra.resolve import TooMuch
from gateway.algebra.scope import NameScope
from gateway.algebra.spark import lower_expression, relation_of
from gateway.algebra.usage import Parts, Unclear
from gateway.model.catalog import TableName
from gateway.model.lineage import StatementLineage
from gateway.model.reading import Span, UnnamedColumn, read_tree
from gateway.plan.lineage_domain import PlanLineageDomain
from gateway.plan.lineage_sources import columns_in
from gateway.plan.lowering import PlanLowering, PlanSources
from gateway.plan.lowering_expressions import UnreadablePlan
from gateway.plan.merging import lower_merge
from gateway.plan.reading import PlanReading
from gateway.plan.walk_sources import is_registrable
from gateway.sql.analyse import cte_places
from gateway.sql.lineage_changes import trace_replace_where
from gateway.sql.lineage_extraction import Bound, Extraction, FunctionNames, TextSource, name_in_full
from gateway.sql.lineage_sources import LineageText
from gateway.sql.names import Names
from gateway.wire.connect import pb

T = TypeVar("T")

NOT_FOLLOWED: Final = frozenset({"catalog", "ml_relation", "extension", "unknown"})
"""Relations whose columns are those of no table, or of objects that nobody can look into."""
ReadTexts = Iterable[tuple[LineageText | None, frozenset[str]]]
"""SQL within a plan, None where Spark's parser does not read it; and the names in it that stand for relations
of the plan."""


@dataclass(slots=True)
class _PlanSource(FunctionNames):
    """Where the values of a plan come from."""

    extraction: Extraction
    kept: Mapping[str, StatementLineage]
    texts: list[tuple[int, TextSource, RelationNode]] = field(default_factory=list)
    """Each with where it begins, and what it is."""
    reads: dict[Span, Callable[[], LineageColumns]] = field(default_factory=dict)
    scanned: dict[Span, LineageColumns] = field(default_factory=dict)

    def scan(self, scan: NamedScan) -> LineageColumns:
        if scan.span is None:
            raise Unclear(f"the relation `{'.'.join(scan.parts)}` is not a literal name")
        read = self.reads.get(scan.span)
        if read is None:
            base, text, _ = self.texts[bisect_right(self.texts, scan.span.start, key=lambda one: one[0]) - 1]
            return text.scan(replace(scan, span=scan.span.move(-base)))
        found = self.scanned.get(scan.span)
        if found is None:
            found = self.scanned[scan.span] = read()
        return found

    def spend(self, work: int) -> None:
        self.extraction.budget.spend(work)


class PlanLineageWalk:
    """The lineage of the relations of one plan."""

    def __init__(
        self,
        reading: PlanReading,
        statements: ReadTexts,
        expressions: ReadTexts,
        names: Names,
        kept: Mapping[str, StatementLineage],
        extraction: Extraction,
    ) -> None:
        self.extraction = extraction
        self.source = _PlanSource(extraction, kept)
        self._whole = ""
        self._ctes: set[Span] = set()
        self._full_names: dict[Span, Parts] = {}
        self._unnamed: list[UnnamedColumn] = []
        reads: dict[int, RelationNode] = {}
        texts: dict[int, Expression] = {}
        bound: dict[int, frozenset[str]] = {}
        for one, (text, aliases) in zip(reading.texts, statements, strict=False):
            if one.command or text is None:
                continue
            base = self._place(text, aliases)
            bound[id(one.relation)] = frozenset(name.lower() for name in aliases) & _list_read(text)
            tree = relation_of(text.reading, base)
            if tree is None:
                raise Unclear("the statement is too large for column lineage")
            reads[id(one.relation)] = self._add(base, text, aliases, tree)
        for each, (text, aliases) in zip(reading.expressions, expressions, strict=False):
            if text is None:
                continue
            base = self._place(text, aliases)
            if text.reading.tree_json is None:
                raise Unclear("an expression is too large for column lineage")
            texts[id(each.message)] = lower_expression(read_tree(text.reading.tree_json, base))
            self._add(base, text, aliases, Projection(OneRow(), (texts[id(each.message)],)))
        self._reads = len(self._whole)
        for read in reading.tables:
            scan = self.place_read(read.parts, partial(self._read, read.parts, names, changes=read.changes))
            self._full_names[scan.span or Span(0, 0)] = name_in_full(read.parts, names)
            reads[id(read.relation)] = scan
        self.lowering = PlanLowering(PlanSources(reads=reads, expressions=texts, bound=bound))
        self.lowering.notes.messages = {}
        self.domain = PlanLineageDomain(
            self.source,
            self._whole,
            frozenset(self._ctes),
            self._unnamed,
            self._full_names,
            extraction.guessed,
        )
        self.domain.notes = self.lowering.notes
        self.domain.read_files = self._read_files
        self.domain.read_kept = self._read_kept
        self.domain.resolver.by_plan = self.lowering.notes.plan_ids

    # Where everything stands.

    def _place(self, text: LineageText, aliases: frozenset[str]) -> int:
        base = len(self._whole)
        self._whole += f"{text.text}\n"
        self._ctes |= {span.move(base) for span in cte_places(text.reading)}
        self._ctes |= {
            one.span.move(base)
            for one in text.reading.relations
            if one.span is not None and len(one.parts) == 1 and one.parts[0].lower() in aliases
        }
        self._unnamed += [replace(one, span=one.span.move(base)) for one in text.columns]
        return base

    def _add(self, base: int, text: LineageText, aliases: frozenset[str], tree: RelationNode) -> RelationNode:
        source = self.extraction.open_text(text, {})
        names = frozenset(name.lower() for name in aliases)
        source.relations = {
            span: one
            for span, one in source.relations.items()
            if len(one.parts) > 1 or one.parts[0].lower() not in names
        }
        self.source.texts.append((base, source, tree))
        self._full_names.update((span.move(base), name) for span, name in source.full_names().items())
        return tree

    def place_read(self, parts: Parts, read: Callable[[], LineageColumns]) -> NamedScan:
        """Return a relation that the plan reads itself, at a place of its own."""
        span = Span(self._reads, self._reads + 1)
        self._reads += 1
        self.source.reads[span] = read
        return NamedScan(tuple(parts), span=span)

    def _read(self, parts: Parts, names: Names, *, changes: bool) -> LineageColumns:
        found = self.extraction.sources.scan(parts, names)
        if not changes:
            return found
        last = found.columns[-1]
        last = last._replace(value=with_others(last.value, NO_SOURCES))
        return replace(found, columns=(*found.columns[:-1], last))

    def _read_files(self, source: pb.Read.DataSource) -> LineageColumns:
        """Return the files that are read, or the columns of data that come from no file."""
        columns = columns_in(source.schema) if source.HasField("schema") else []
        paths = paths_of(source)
        if paths and not is_registrable(source.format or "parquet"):
            return self.extraction.sources.files(paths, columns)
        return store_columns((name, NO_SOURCES) for name, _ in columns)

    def _read_kept(self, relation_id: str) -> LineageColumns:
        made = self.source.kept.get(relation_id)
        if made is None:
            raise Unclear("a relation cached in the session, whose lineage is not known")
        return self.extraction.sources.resolve_cached(made)

    # What relations give.

    def relation(self, message: pb.Relation) -> tuple[RelationNode, LineageColumns]:
        """Return a relation of the plan, and the columns that it gives."""
        self.extraction.budget.step()
        with_tree = self.follow(lambda: self.lowering.relation(message))
        return with_tree, self.columns(with_tree)

    def columns(self, tree: RelationNode) -> LineageColumns:
        return self.follow(lambda: self.domain.relation(tree))

    def bind(self, message: pb.WithRelations) -> Bound:
        """Return what names mean that the text of a command has for relations of the plan."""
        self.lowering.bind(message)
        return {name: partial(self._give_named, name) for name in self.lowering.named}

    def _give_named(self, name: str) -> LineageColumns:
        return self.relation(self.lowering.named[name])[1]

    def merge(self, command: pb.MergeIntoTableCommand, table: TableName) -> OpaqueRelation:
        """Return the MERGE of a DataFrame as the one that the same text is."""
        target, lower = self._place_target(table), self.lowering.expressions.lower
        return self.follow(
            lambda: lower_merge(command, target, self.lowering.relation(command.source_table_plan), lower)
        )

    def replace_where(self, condition: pb.Expression, table: TableName, rows: RelationRows) -> RelationRows:
        """Return rows that are written in the place of those of a table for which a condition holds."""

        def trace() -> RelationRows:
            on = self.lowering.expressions.lower(condition)
            return trace_replace_where(self.domain, self._place_target(table), (on,), rows, NameScope())

        return self.follow(trace)

    def _place_target(self, table: TableName) -> NamedScan:
        scan = self.place_read((), lambda: self.extraction.sources.table(table))
        self.domain.full_names[scan.span or Span(0, 0)] = table.fold().parts
        return scan

    def check(self, *trees: RelationNode) -> None:
        """Raise Unclear where something that is read, or a column, was not come by."""
        for _, source, tree in self.source.texts:
            self.extraction.agree(source, tree)
        for tree in trees:
            self.domain.check_seen(tree)

    def follow(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except TooMuch:
            raise Unclear("the plan has too many columns") from None
        except UnreadablePlan as unreadable:
            raise Unclear(str(unreadable)) from None


def paths_of(source: pb.Read.DataSource) -> list[str]:
    """Return the locations of the files that are read."""
    return [*source.paths[:], *(value for key, value in source.options.items() if key.lower() == "path")]


def _list_read(text: LineageText) -> frozenset[str]:
    return frozenset(one.parts[0].lower() for one in text.reading.relations if len(one.parts) == 1)
