"""The reads of a plan become guarded ones; the queries that stand in for them are read by Spark's parser."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from gateway.model.catalog import Table, TableKind, TableName, quote_parts
from gateway.model.reading import Reading, RelationRole, Span
from gateway.pipeline.judging import Judging, RewrittenStatement, names_with_obligations
from gateway.pipeline.kept import refuse_long_views, write_nested_text
from gateway.pipeline.metrics import metrics_of
from gateway.pipeline.sources import ReadSources
from gateway.plan.facts import PlanFacts, Read
from gateway.plan.guard import Edits, full_name, guard_read, pin_read, read_suffix
from gateway.plan.scope import quote_name
from gateway.reader.port import ReaderPort
from gateway.sql import guard
from gateway.sql.guard import NO_CONDITIONS, Below
from gateway.sql.names import TempViewName
from gateway.sql.required import Unsupported
from gateway.sql.sketches import write_sketch

KEPT_QUERIES = 4096
"""Guarded queries whose relations are remembered for a reader; a full store is emptied."""

_Parts = tuple[str, ...]
_READ: WeakKeyDictionary[ReaderPort, dict[str, frozenset[_Parts]]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarding:
    """How one read is to be guarded; without a query it gets its full name."""

    read: Read
    table: Table
    query: str | None
    has_obligations: bool
    """Whether it hides or masks something."""
    body: RewrittenStatement | None = None
    """The text of a view, as it is for this read."""
    sketched: bool = False
    """Whether nothing of what policies say stands in the query."""


def place_of(position: int) -> Span:
    """Return what stands for the place of a read, by its position among the reads of a plan."""
    return Span(position, position + 1)


async def guard_reads(
    facts: PlanFacts,
    sources: ReadSources,
    narrowed: Mapping[Span, RewrittenStatement],
    below: Mapping[Span, Below],
    metrics: Mapping[Span, tuple[str, RewrittenStatement]],
    judging: Judging,
    *,
    sketches: bool,
) -> tuple[Guarding, ...] | Unsupported:
    """Say what stands in for every read of a table; each query was read, and reads what it may read.

    `sketches`: what is shown is the plan.

    All by the places of the reads: `narrowed`, the texts of views with conditions from above them; `below`,
    what stands with the filters; `metrics`, what stands for metric views.
    """
    policies, bodies = sources.policies, sources.bodies
    found = []
    views_with_obligations = names_with_obligations(bodies)
    written: dict[tuple[TableName, str, bool, str | None, Below], str | None] = {}
    chars = 0
    for position, read in enumerate(facts.reads):
        if read.name is None:
            continue
        name = read.name.fold()
        table = judging.snapshot.catalog.table(name)
        suffix = read_suffix(read.read)
        if isinstance(suffix, Unsupported):
            return suffix
        place = place_of(position)
        with_filter = below.get(place, NO_CONDITIONS)
        body = narrowed.get(place, bodies.get(name))
        instead: str | None = None
        view = policies.views[name]
        has_obligations = table is None or view is None or guard.has_obligations(table, view)
        plain = sketches and has_obligations and not (suffix or read.read.streaming or read.read.changes)
        sketch = write_sketch(table, view) if plain and table is not None and view is not None else None
        if metrics_of(table) is not None:
            instead, body = metrics.get(place, (None, body))
        instead = instead or sketch
        nested = write_nested_text(body)
        chars += len(nested or "")
        if (long := refuse_long_views(chars, read.name)) is not None:
            return long
        key = (name, suffix, read.read.streaming, instead or nested, with_filter)
        if key not in written:
            query: str | Unsupported | None = instead
            if instead is None and metrics_of(table) is None:
                query = _query(
                    read,
                    table,
                    suffix,
                    sources,
                    body,
                    with_filter,
                    judging.period,
                    bare=judging.bare_builtins,
                )
            if isinstance(query, Unsupported):
                return query
            allowed = {_parts(read.name, table)} | policies.relations
            if body is not None:
                allowed |= body.allowed
            if query is not None and not await _reads_only(query, frozenset(allowed), judging.reader):
                return Unsupported(
                    f"could not prove that the row filters and masks of {read.name} read "
                    "only what their policies name"
                )
            written[key] = query
        # RULE (guarded-change-feed)
        if read.read.changes and (written[key] is not None or (view is not None and not view.uniform())):
            return Unsupported(
                f"the change feed of {read.name} cannot be filtered or masked, and a row filter or mask "
                "applies to this user"
                if table is not None
                else f"{read.name} does not have a change feed"
            )
        found.append(
            Guarding(
                read=read,
                table=table or _build_missing(read.name),
                query=written[key],
                has_obligations=has_obligations or name in views_with_obligations,
                body=body,
                sketched=sketch is not None,
            )
        )
    return tuple(found)


def _query(
    read: Read,
    table: Table | None,
    suffix: str,
    sources: ReadSources,
    body: RewrittenStatement | None,
    below: Below,
    period: int,
    *,
    bare: bool,
) -> str | Unsupported | None:
    if read.name is None:
        return None
    name, streams = read.name.fold(), read.read.streaming
    view = sources.policies.views[name]
    if table is None or view is None:
        # RULE (guard-stand-ins)
        return guard.write_missing_query(_build_missing(read.name), suffix, stream=streams, bare=bare)
    text = write_nested_text(body)
    if text is not None and (streams or suffix):  # RULE (guarded-view-stream)
        return Unsupported(
            f"{read.name} is a view that is expanded to apply policies, and cannot be read as a stream"
        )
    return guard.table_query(
        table,
        view,
        suffix=suffix,
        stream=streams,
        body=text,
        period=period if name in sources.policies.reading else 0,
        barrier=name in sources.barred,
        below=below,
        bare=bare,
    )


def build_lasting_query(one: Guarding, sources: ReadSources) -> str | None:
    """Return the query that stands in for a read, without how fast it is read and without the period: the
    same for as long as table and policies are."""
    name = one.read.name
    if one.query is None or name is None:
        return None
    body = sources.bodies.get(name.fold())
    query = _query(one.read, one.table, "", sources, body, NO_CONDITIONS, 0, bare=False)
    return one.query if isinstance(query, Unsupported) else query


def _build_missing(name: TableName) -> Table:
    return Table(name=name, kind=TableKind.TABLE, columns=())


def _parts(name: TableName, table: Table | None) -> _Parts:
    return guard.list_name_parts(table or _build_missing(name))


async def _reads_only(query: str, allowed: frozenset[_Parts], reader: ReaderPort) -> bool:
    """Whether Spark's parser takes the text for one query over relations that are all allowed.

    What a text reads never changes, so it is asked for once.
    """
    known = _READ.setdefault(reader, {})
    relations = known.get(query)
    if relations is None:
        reading = await reader.read(query)
        if not isinstance(reading, Reading) or reading.commands or reading.parameters:
            return False
        if any(node.startswith("?") for node in reading.nodes):  # RULE (guard-known-nodes)
            return False  # what the reader does not know could read anything
        relations = frozenset(r.parts for r in reading.relations if r.role is not RelationRole.CTE)
        if len(known) >= KEPT_QUERIES:
            known.clear()
        known[query] = relations
    return relations <= allowed  # RULE (guard-reads-itself)


def write_guards(
    facts: PlanFacts, guarding: tuple[Guarding, ...], edits: Edits, exists: Callable[[Table], bool]
) -> tuple[tuple[str, str], ...]:
    """Put the guards into the plan; return (what we wrote, what the user wrote) pairs for messages.

    Of a table that is there Spark tells the full name, however it was written.
    """
    words: dict[tuple[str, str], None] = {}
    for one in guarding:
        name = full_name(one.table)
        theirs = ".".join(one.read.read.parts)
        if one.query is None:
            pin_read(one.read.read, name, edits)
        else:
            guard_read(one.read.read, one.table, one.query, edits)
            words[(one.query, theirs)] = None
        if not exists(one.table):
            words[(name, quote_parts(one.read.read.parts))] = None
    for read in facts.reads:
        if read.name is None:
            pin_read(read.read, quote_name(TempViewName(read.read.parts[0])), edits)
    return tuple(words)
