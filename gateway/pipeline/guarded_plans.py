"""The reads of a plan become guarded ones; the queries that stand in for them are read by Spark's parser."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from gateway.model.catalog import Table, TableKind, TableName, dotted
from gateway.model.reading import Reading, RelationRole, Span
from gateway.pipeline.judging import Judging, RewrittenStatement, names_with_obligations
from gateway.pipeline.kept import nested_text
from gateway.pipeline.metrics import metrics_of
from gateway.pipeline.policies import Policies
from gateway.plan.facts import PlanFacts, Read
from gateway.plan.guard import Edits, full_name, guard_read, pin_read, read_suffix
from gateway.plan.reading import TableRead
from gateway.plan.scope import pinned
from gateway.reader.port import ReaderPort
from gateway.sql import guard
from gateway.sql.guard import NO_CONDITIONS, Below
from gateway.sql.names import TempViewName
from gateway.sql.required import Unsupported

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
    barrier: bool = False
    """Whether it is a view that no condition from around may go below."""


def place_of(position: int) -> Span:
    """Return what stands for the place of a read, by its position among the reads of a plan."""
    return Span(position, position + 1)


async def guard_reads(
    facts: PlanFacts,
    policies: Policies,
    bodies: Mapping[TableName, RewrittenStatement],
    narrowed: Mapping[Span, RewrittenStatement],
    below: Mapping[Span, Below],
    barred: AbstractSet[TableName],
    metrics: Mapping[Span, tuple[str, RewrittenStatement]],
    judging: Judging,
) -> tuple[Guarding, ...] | Unsupported:
    """Say what stands in for every read of a table; each query was read, and reads what it may read.

    `narrowed`: the texts of views with conditions from above them, and `below`: what stands with the filters,
    both by the places of the reads; `barred`: the views with a barrier above them; `metrics`: what stands for
    metric views, by the places of the reads.
    """
    found = []
    views_with_obligations = names_with_obligations(bodies)
    written: dict[tuple[TableName, str, bool, str | None, Below], str | None] = {}
    for position, read in enumerate(facts.reads):
        if read.name is None:
            continue
        name = read.name.folded()
        table = judging.snapshot.catalog.table(name)
        suffix = read_suffix(read.read)
        if isinstance(suffix, Unsupported):
            return suffix
        place = place_of(position)
        with_filter = below.get(place, NO_CONDITIONS)
        body = narrowed.get(place, bodies.get(name))
        instead: str | None = None
        if metrics_of(table) is not None:
            instead, body = metrics.get(place, (None, body))
        key = (name, suffix, read.read.streaming, instead or nested_text(body), with_filter)
        if key not in written:
            query: str | Unsupported | None = instead
            if metrics_of(table) is None:
                query = _query(
                    read.name,
                    read.read,
                    table,
                    suffix,
                    policies,
                    body,
                    judging.period,
                    with_filter,
                    barrier=name in barred,
                    bare=judging.bare_builtins,
                )
            if isinstance(query, Unsupported):
                return query
            allowed = {_parts(read.name, table)} | policies.relations
            if body is not None:
                allowed |= body.allowed
            if query is not None and not await _reads_only(query, frozenset(allowed), judging.reader):
                return Unsupported(f"what guards {read.name} could not be proved to read nothing else")
            written[key] = query
        seen = policies.views[name]
        # RULE (guarded-change-feed)
        if read.read.changes and (written[key] is not None or (seen is not None and not seen.uniform())):
            return Unsupported(
                f"the change feed of {read.name} cannot be filtered or masked, and its rows are for this user"
                if table is not None
                else f"{read.name} has no change feed that could be read"
            )
        view = policies.views[name]
        has_obligations = table is None or view is None or guard.has_obligations(table, view)
        found.append(
            Guarding(
                read=read,
                table=table or _missing(read.name),
                query=written[key],
                has_obligations=has_obligations or name in views_with_obligations,
                body=body,
                barrier=name in barred,
            )
        )
    return tuple(found)


def _query(
    name: TableName,
    read: TableRead,
    table: Table | None,
    suffix: str,
    policies: Policies,
    body: RewrittenStatement | None,
    period: int,
    below: Below = NO_CONDITIONS,
    *,
    barrier: bool,
    bare: bool,
) -> str | Unsupported | None:
    view = policies.views[name.folded()]
    if table is None or view is None:
        # RULE (guard-stand-ins)
        return guard.missing_query(_missing(name), suffix, stream=read.streaming, bare=bare)
    text = nested_text(body)
    if text is not None and (read.streaming or suffix):  # RULE (guarded-view-stream)
        return Unsupported(f"{name} is a view that is written out for you and cannot be read as a stream")
    return guard.table_query(
        table,
        view,
        suffix=suffix,
        stream=read.streaming,
        body=text,
        period=period if name.folded() in policies.reading else 0,
        barrier=barrier,
        below=below,
        bare=bare,
    )


def lasting_query(
    one: Guarding, bodies: Mapping[TableName, RewrittenStatement], policies: Policies
) -> str | None:
    """Return the query that stands in for a read, without how fast it is read and without the period: the
    same for as long as table and policies are."""
    name = one.read.name
    if one.query is None or name is None:
        return None
    body = bodies.get(name.folded())
    query = _query(name, one.read.read, one.table, "", policies, body, 0, barrier=one.barrier, bare=False)
    return one.query if isinstance(query, Unsupported) else query


def _missing(name: TableName) -> Table:
    return Table(name=name, kind=TableKind.TABLE, columns=())


def _parts(name: TableName, table: Table | None) -> _Parts:
    return guard.pinned_parts(table or _missing(name))


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
            words[(name, dotted(one.read.read.parts))] = None
    for read in facts.reads:
        if read.name is None:
            pin_read(read.read, pinned(TempViewName(read.read.parts[0])), edits)
    return tuple(words)
