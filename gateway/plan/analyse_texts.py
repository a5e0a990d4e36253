"""SQL texts inside a plan, by the column analysis of SQL: one question gets one answer in either spelling."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gateway.model.reading import ColumnRef
from gateway.plan.analyse_scope import ColumnPlace, ColumnUsage, Node, PlanColumn
from gateway.sql import analyse_within
from gateway.sql.analyse import ScannedTable, Silent, Usage
from gateway.sql.analyse_scope import Output, OutputColumn, Parts, Unclear

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*){0,8}")
_STAR = re.compile(r"(?:([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*){0,2})\.)?\*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextUse:
    """What is known of a text within a plan: an SQL statement or an expression."""

    scans: Sequence[ScannedTable] = ()
    """The relations that Spark's parser sees in it, without those that the plan's own references bind."""
    references: Collection[ColumnRef] | None = None
    """The column references that Spark's parser sees in it."""
    usage: Usage | Silent | None = None
    """For a statement: what the column analysis of SQL said of it, if it was asked. It is asked anew about
    a text that reads relations of the plan."""


def plain_name(text: str) -> Parts | None:
    """Return the parts of an expression that is a plain name, lower case. It may still mean a function."""
    return tuple(text.lower().split(".")) if _PLAIN.fullmatch(text) else None


def star(text: str) -> Parts | None:
    """Return the qualifier of an expression that is a star: empty for `*`."""
    found = _STAR.fullmatch(text.strip())
    if found is None:
        return None
    return tuple(found[1].lower().split(".")) if found[1] else ()


def expression(text: str, use: TextUse, place: ColumnPlace, findings: ColumnUsage) -> Output:
    """Note what an expression reads; return it as columns of a projection: one, unless it is a generator."""
    return analyse_within.expression(text, use.scans, use.references, place.environment(), findings)


def query(text: str, use: TextUse, aliases: Mapping[str, Node], findings: ColumnUsage) -> Node:
    """Note what a statement reads and return its columns; it may name the plan's relations `aliases`."""
    if not aliases and use.usage is not None:
        if isinstance(use.usage, Silent):
            raise Unclear(use.usage.reason)
        return _merge_usage(use.usage, findings)
    ctes = {}
    for name, node in aliases.items():
        findings.count(len(node.columns))
        columns = [OutputColumn(column.name, column.origins) for column in node.columns]
        ctes[name] = Output(columns, node.complete)
    output = analyse_within.query(text, use.scans, use.references, ctes, findings)
    return _node(output.columns, output.complete)


def _merge_usage(usage: Usage, findings: ColumnUsage) -> Node:
    for found, into in (
        (usage.columns, findings.used),
        (usage.named, findings.named),
        (usage.computed, findings.computed),
    ):
        for table, names in found.items():
            into.update((table, name) for name in names)
    findings.stars |= usage.stars
    findings.words |= usage.words
    return _node(usage.outputs, usage.complete)


def _node(columns: Sequence[OutputColumn], complete: bool) -> Node:
    unknown = not complete or any(column.name is None for column in columns)
    found = [PlanColumn(column.name, (), column.origins) for column in columns]
    return Node(found, complete, ((),) if unknown else ())
