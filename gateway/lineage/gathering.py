"""Gathers what the lineage of a statement is made of: Spark's readings of it and of views, and columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from gateway.lineage.called_functions import NO_TEMPORARY, TemporaryFunctions, write_bodies
from gateway.model.bounded import BoundedDict
from gateway.model.catalog import LookUp, TableName, ViewBody, levels
from gateway.model.lineage import StatementLineage
from gateway.model.reading import NotParsed, NotRead, Reading, RelationRole, UnnamedColumn
from gateway.model.statement import SessionContext
from gateway.reader.port import LineageReader, ReaderPort
from gateway.sql.lineage import LineageCatalog, LineageText, lineage_of, table_lineage
from gateway.sql.metric_views import as_plain_view
from gateway.sql.names import Names
from gateway.sql.parameters import IMMEDIATE, constant_text

_SCRIPT = "CompoundBody"
_UNNAMED = "UnresolvedAlias"
"""Node that Spark's parser puts around an expression without an alias, except aggregates of a PIVOT."""
_PIVOT = "Pivot"
VIEWS_KEPT = 1000
"""Readings of views that are kept."""


@dataclass(frozen=True, slots=True)
class GatheredLineage:
    """All that `lineage_of` needs of one statement."""

    statement: LineageText
    catalog: LineageCatalog

    def lineage(self) -> StatementLineage | None:
        return lineage_of(self.statement, self.catalog)

    def table_lineage(self, why: str) -> StatementLineage | None:
        return table_lineage(self.statement, self.catalog, why)


@dataclass(slots=True, kw_only=True)
class Gatherer:
    """Reads statements and the views that they read.

    Keeps the readings of the views that were read last; one that `dataclasses.replace` made with another
    look-up has the same.
    """

    reader: LineageReader
    look_up: LookUp
    catalogs: frozenset[str]
    """Names of catalogs, lower case."""
    listed: Callable[[], Iterable[str]] = tuple
    """More of them, that come and go; those that went as well, for what was recorded before."""
    _views: BoundedDict[ViewBody, LineageText | None] = field(default_factory=lambda: BoundedDict(VIEWS_KEPT))

    @property
    def known_catalogs(self) -> frozenset[str]:
        """All names of catalogs."""
        return self.catalogs.union(self.listed())

    async def gather(
        self,
        text: str,
        context: SessionContext,
        temp_views: Mapping[str, StatementLineage],
        masks: Mapping[TableName, frozenset[str]],
        functions: TemporaryFunctions = NO_TEMPORARY,
    ) -> GatheredLineage | NotParsed | NotRead:
        """Return a statement with what its names stand for, or why Spark's parser has no reading of it.
        `functions`: temporary ones that it calls. Raises what the look-up raises."""
        statement = await self.text(text, context, functions=functions)
        if not isinstance(statement, LineageText):
            return statement
        catalog = await self.catalog(names_of(statement), temp_views, masks)
        return catalog if isinstance(catalog, NotRead) else GatheredLineage(statement, catalog)

    async def text(
        self,
        text: str,
        context: SessionContext,
        *,
        expression: bool = False,
        functions: TemporaryFunctions = NO_TEMPORARY,
    ) -> LineageText | NotParsed | NotRead:
        """Return a text, or an expression standing alone, with Spark's reading of it."""
        reading = await (self.reader.read_expression(text) if expression else self.reader.read(text))
        if isinstance(reading, Reading) and (plain := as_plain_view(reading)) is not None:
            return await self.text(plain, context, functions=functions)
        if not isinstance(reading, Reading):
            return reading
        tree = reading.tree if reading.root == IMMEDIATE else None
        if tree is not None and tree.children and not reading.commands[0].fields.get("targetVariables"):
            # Shorter each time: it is a string in what has it run.
            inner = constant_text(tree.children[0], {})
            if inner is not None:
                return await self.text(inner, context, functions=functions)
        if not expression and reading.root != _SCRIPT:
            names = Names(context, self.known_catalogs)
            bodies = await write_bodies(
                reading.written or text, reading, names, self.look_up, self.reader, temporary=functions
            )
            if isinstance(bodies, NotRead):
                return bodies
            text, reading = bodies
        whole = await self._text(text, reading, context, expression=expression)
        if reading.root != _SCRIPT or isinstance(whole, NotRead):
            return whole
        return await self._script(whole, context)

    async def _script(self, whole: LineageText, context: SessionContext) -> LineageText | NotRead:
        """Return a script with its statements and queries, as if each stood alone."""
        script = await self.reader.read_script(whole.text)
        if isinstance(script, NotRead):
            return script
        parts: list[LineageText] = []
        for piece in script.parts if script is not None else ():
            if piece.kind not in ("statement", "query", "cursor"):
                continue
            text = f"{piece.lead}{piece.span.of(whole.text)[piece.cut :]}"
            part = await self.text(text, context)
            if isinstance(part, NotRead):
                return part
            if isinstance(part, LineageText):
                parts.append(part)
        return replace(whole, parts=tuple(parts))

    async def catalog(
        self,
        wanted: set[TableName],
        temp_views: Mapping[str, StatementLineage],
        masks: Mapping[TableName, frozenset[str]],
    ) -> LineageCatalog | NotRead:
        """Return what names stand for, and what the views among them read; why a view was not read. Raises
        what the look-up raises."""
        views: dict[TableName, LineageText] = {}
        seen = wanted
        snapshot = await self.look_up(sorted(wanted, key=str))
        while wanted:
            found: set[TableName] = set()
            for name in wanted:
                table = snapshot.table(name)
                if table is not None and table.view is not None:
                    body = await self._view(table.view)
                    if isinstance(body, NotRead):
                        return body
                    if body is not None:
                        views[name.fold()] = body
                        found |= names_of(body)
            wanted = found - seen
            seen = seen | found
            if wanted:
                snapshot = await self.look_up(sorted(wanted, key=str))
        tables = {name.fold(): table for name in seen if (table := snapshot.table(name)) is not None}
        return LineageCatalog(tables=tables, views=views, temp_views=temp_views, masks=masks)

    async def touches(
        self, texts: Iterable[str], context: SessionContext
    ) -> tuple[set[TableName], set[TableName]]:
        """Return the tables and views that statements read, and those that they write."""
        read: set[TableName] = set()
        written: set[TableName] = set()
        names = Names(context, self.known_catalogs)
        for text in texts:
            reading = await self.reader.read(text)
            for relation in reading.relations if isinstance(reading, Reading) else ():
                scans = relation.role is RelationRole.SCAN
                if relation.role is RelationRole.CTE:
                    continue
                meaning = names.table(relation.parts) if scans else names.new_table(relation.parts)
                if isinstance(meaning, TableName):
                    (read if scans else written).add(meaning.fold())
        return read, written

    async def _text(
        self, text: str, reading: Reading, context: SessionContext, *, expression: bool = False
    ) -> LineageText | NotRead:
        # What the reading is of: names that are given as `IDENTIFIER('…')` are written out there.
        written = reading.written or text
        columns = await names_of_columns(self.reader, written, reading, expression=expression)
        if isinstance(columns, NotRead):
            return columns
        if reading.tree_json is None:
            tree = await self.reader.large_tree(written, expression=expression)
            if isinstance(tree, NotRead) and tree.code != "TIMEOUT":  # it would be late again
                return tree
            reading = replace(reading, tree_json=None if isinstance(tree, NotRead) else tree)
        return LineageText(
            text=written, reading=reading, names=Names(context, self.known_catalogs), columns=columns
        )

    async def _view(self, view: ViewBody) -> LineageText | NotRead | None:
        if view in self._views:
            self._views.move_to_end(view)
            return self._views[view]
        reading = await self.reader.read(view.text)
        if isinstance(reading, NotRead):
            return reading
        context = SessionContext()
        if view.catalog:  # Spark keeps none with a metric view
            context = SessionContext(catalog=view.catalog, namespace=levels(view.database))
        text, found = view.text, None
        if isinstance(reading, Reading):
            names = Names(context, self.known_catalogs)
            bodies = await write_bodies(text, reading, names, self.look_up, self.reader)
            if isinstance(bodies, NotRead):
                return bodies
            text, reading = bodies
            found = await self._text(text, reading, context)
        if isinstance(found, NotRead) or (isinstance(reading, Reading) and reading.tree_json is None):
            return found  # what is large is not kept
        if text != view.text:
            return found  # nor what functions of now are in
        self._views[view] = found
        return found


async def names_of_columns(
    reader: ReaderPort, text: str, reading: Reading, *, expression: bool = False
) -> tuple[UnnamedColumn, ...] | NotRead:
    """Return what Spark calls the columns without an alias; without asking where there are none."""
    if not expression and _UNNAMED not in reading.expressions and _PIVOT not in reading.nodes:
        return ()
    columns = await reader.column_names(text, expression=expression)
    if isinstance(columns, NotRead) and columns.code == "TIMEOUT":
        return ()  # it would be late again
    return columns


def names_of(statement: LineageText) -> set[TableName]:
    """Return the tables and views that a statement reads or writes."""
    found = set[TableName]().union(*map(names_of, statement.parts))
    for relation in statement.reading.relations:
        if relation.role is RelationRole.CTE:
            continue
        meanings: Iterable[object] = (
            (statement.names.table(relation.parts),)
            if relation.role is RelationRole.SCAN
            else (statement.names.new_table(relation.parts), statement.names.table(relation.parts))
        )
        found |= {meaning.fold() for meaning in meanings if isinstance(meaning, TableName)}
    return found
