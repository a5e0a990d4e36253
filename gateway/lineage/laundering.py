"""Looks for protected columns whose values landed where policies are weaker, and by which statements."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from gateway.lineage.graph import GraphColumn
from gateway.lineage.propagation import (
    Flow,
    PropagationNode,
    Spread,
    list_columns_of,
    nodes,
    sources,
    spread_tags,
)
from gateway.model.lineage import ANY_COLUMN, DatasetKind
from gateway.model.resource import Resource
from gateway.model.tags import Propagation, PropagationRules
from gateway.policy.laundering import ColumnSight, Protection, Sights, TablePath, Weaker

_EVERY = ""
"""The tag that every column has here: what carries it is what the rules say of tags without rules."""
MAX_SOURCES = 200
"""Columns that one target is held against."""
_NOT_MASKED = frozenset({Protection.DENIED, Protection.MASKED, Protection.FILTERED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Laundering:
    """A column whose values somebody may read in another one, and not there."""

    source: GraphColumn
    target: GraphColumn
    way: tuple[Mapping[str, str], ...]
    """`column`, `flow` and `statement` of each step, the first first."""
    asks: bool
    """Whether somebody has to look: on the way only tables are known, say."""
    weaker: tuple[Weaker, ...]


@dataclass(slots=True)
class LaunderingReport:
    """What was found, and what was looked at."""

    found: list[Laundering] = field(default_factory=list)
    columns: int = 0
    """Protected columns whose values flow on."""
    people: int = 0
    cut_off: list[str] = field(default_factory=list)
    """Why there may be more; empty when this is all."""


async def find_laundering(
    connection: Any,
    sights: Sights,
    rules: PropagationRules,
    *,
    start: Sequence[GraphColumn] | None = None,
    ungranted: bool = False,
) -> LaunderingReport:
    """Compare who may read what in all tables that protected columns flow into, or those of `start`.

    Only policies are compared: views show their tables' masks and filters to whoever reads them, so they are
    no way around. Tagged columns count as protected from whoever is granted nothing of their tables; others
    do with `ungranted`. Raises what asyncpg raises.
    """
    report = LaunderingReport(people=len(sights.principals))
    seen: dict[int, list[ColumnSight]] = {}
    known: dict[int, PropagationNode] = {}
    lax: set[int] = set()
    async for page in sources(connection, rules.carrying):
        # Where only a table is known to flow on, any of its columns may be in it.
        beside = await list_columns_of(connection, [node for node in page if node.name == ANY_COLUMN])
        there = {node.id: node for node in (*page, *beside)}.values()
        wanted = [node for node in there if start is None or _is_among(node, start)]
        found = await asyncio.to_thread(_list_seen, sights, wanted)
        for node in wanted:
            sight = found.get(node.id, [])
            tagged = ungranted or bool(sights.engine.tags(_resource(node), sights.context))
            if any(one.protection in _NOT_MASKED or (tagged and one.protection) for one in sight):
                seen[node.id], known[node.id] = sight, node
                if tagged:
                    lax.add(node.id)
    report.columns = len(seen)
    spreading = await spread_tags(connection, dict.fromkeys(seen, (_EVERY,)), rules, most_sources=MAX_SOURCES)
    known |= await nodes(connection, spreading.arrivals)
    reached = [known[column] for column in spreading.arrivals]
    at = await asyncio.to_thread(_list_seen, sights, [node for node in reached if node.is_in_table])
    report.found = await asyncio.to_thread(_compare, sights, spreading, known, seen, at, lax)
    report.cut_off = [why for why in (sights.cut_off, spreading.cut_off) if why]
    if spreading.crowded:
        report.cut_off.append(f"some columns get values of more than {MAX_SOURCES} protected columns")
    return report


def _is_among(node: PropagationNode, start: Sequence[GraphColumn]) -> bool:
    return any(node.dataset == one.dataset and one.name in (node.name, "*") for one in start)


def _list_seen(sights: Sights, columns: Iterable[PropagationNode]) -> dict[int, list[ColumnSight]]:
    """Return by column what everybody sees; those of one table are asked about together."""
    found: dict[int, list[ColumnSight]] = {}
    by_table = sorted(columns, key=lambda node: node.parts)
    for parts, group in groupby(by_table, key=lambda node: node.parts):
        of_table = list(group)
        names = [node.name for node in of_table]
        answered = sights.of(_table(parts), names)
        found.update((node.id, answered[node.name]) for node in of_table if node.name in answered)
    return found


def _table(parts: Sequence[str]) -> TablePath:
    catalog, database, table = parts
    return catalog, database, table


def _resource(node: PropagationNode) -> Resource:
    return Resource.table(*_table(node.parts)).child("column", node.name)


def _compare(
    sights: Sights,
    spreading: Spread,
    known: Mapping[int, PropagationNode],
    seen: Mapping[int, Sequence[ColumnSight]],
    at: Mapping[int, Sequence[ColumnSight]],
    lax: set[int],
) -> list[Laundering]:
    found = []
    for target, tags in spreading.arrivals.items():
        node = known[target]
        for source, arrival in tags[_EVERY].items():
            if source == target:
                continue
            origin = known[source]
            of = _table(origin.parts), origin.name
            if node.is_in_table:
                if target not in at:
                    continue
                to = _table(node.parts), node.name
                weaker = sights.list_weaker(of, to, seen[source], at[target], ungranted=source in lax)
            elif node.kind == DatasetKind.PATH.value and node.parts:
                weaker = sights.files(of, node.parts[0], seen[source], ungranted=source in lax)
            else:
                # A session's own views, results of queries: whoever has them was authorized for them.
                continue
            if weaker:
                way = tuple(_step(step, known) for step in spreading.trace(target, _EVERY, source))
                found.append(
                    Laundering(
                        source=origin.column,
                        target=node.column,
                        way=way,
                        asks=arrival.how is Propagation.ASK,
                        weaker=tuple(weaker),
                    )
                )
    return sorted(found, key=lambda one: (one.source, one.target))


def _step(step: Flow, known: Mapping[int, PropagationNode]) -> dict[str, str]:
    return {
        "column": str(known[step.target].column),
        "flow": step.kind,
        "statement": str(step.statement),
    }
