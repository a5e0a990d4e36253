"""Which row filters of a text need a barrier above them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gateway.model.catalog import Table, TableKind
from gateway.model.meaning_settings import Influence, influence
from gateway.model.reading import RelationRole, Span
from gateway.pipeline.judging import Judging
from gateway.pipeline.policies import Policies
from gateway.pipeline.seeing import Prepared
from gateway.policy.engine import TableView
from gateway.policy.masks import null_of, standard_masks
from gateway.sql.classify import is_builtin
from gateway.sql.evaluate import masks_of
from gateway.sql.total import column_kind, total_statement, total_text


@dataclass(frozen=True, slots=True)
class _Resting:
    """A table's filter and masks: the columns that they are made of, and what of them can fail."""

    columns: frozenset[str]
    failing: frozenset[str]
    """Columns whose masks are not known to be total."""
    firm: bool
    """Whether filter and masks are total, and choose a row by what stands in it alone."""


async def open_on(
    prepared: Prepared, policies: Policies, judging: Judging
) -> Mapping[Span, Mapping[str, str]]:
    """Return the scans whose filters need no barrier, since nothing in the statement can fail: each with the
    columns, and their types (lower case), that this rests on.

    INVARIANT (total): what stands above a text is known only where nothing does, and where Spark does not
    keep the text to read it again. Where a setting could give an operator another meaning, all barriers stay.
    """
    reading = prepared.reading
    if (
        judging.rules.barriers == "always"
        or not prepared.place.alone
        or reading.commands
        or not all(map(is_builtin, reading.functions))
        or any(influence(key) is Influence.ANYTHING for key in judging.settings)
    ):
        return {}
    tables: dict[Span, tuple[Table, TableView, _Resting]] = {}
    for relation, name in prepared.scans:
        table, view = judging.snapshot.catalog.table(name), policies.views[name.folded()]
        if relation.span is None or table is None or view is None:
            continue
        if table.kind is TableKind.TABLE:
            tables[relation.span] = table, view, _resting(table, view, policies)
    opened = {s for s, (_, view, on) in tables.items() if view.row_filter is not None and on.firm}
    if not opened:
        return {}
    used = total_statement(
        await judging.reader.read_plan(prepared.text),
        prepared.text,
        {span: dict(_shown(*one)) for span, one in tables.items()},
        frozenset(r.span for r in reading.relations if r.role is RelationRole.CTE and r.span is not None),
    )
    if used is None:
        return {}
    return {span: dict(_types(tables[span][0], tables[span][2].columns | used[span])) for span in opened}


def _resting(table: Table, view: TableView, policies: Policies) -> _Resting:
    types = {column.name: column.type.lower() for column in table.columns}
    columns: set[str] = set()
    failing: set[str] = set()
    for name, mask in masks_of(view).items():
        columns.add(name)
        if mask.expression in standard_masks(mask.column, types.get(name, "")) | {null_of(name)}:
            continue
        found = total_text(policies.trees.get(mask.expression), mask.expression, types)
        if found is None:
            failing.add(name)
        columns |= found or set()
    firm = not failing
    folded = table.name.folded()
    if view.row_filter is not None:
        text = view.row_filter.expression
        found = total_text(policies.trees.get(text), text, types)
        columns |= found or set()
        firm = firm and found is not None and folded not in policies.reading | policies.choosing
    return _Resting(frozenset(columns), frozenset(failing), firm)


def _shown(table: Table, view: TableView, resting: _Resting) -> Iterator[tuple[str, str]]:
    """Yield the columns that a statement can name, and their types; of those whose masks can fail,
    empty ones."""
    for column in table.columns:
        if column.name not in view.hidden:
            yield column.name, "" if column.name in resting.failing else column.type.lower()


def _types(table: Table, names: frozenset[str]) -> Iterator[tuple[str, str]]:
    for column in table.columns:
        if column.name in names and column_kind(column.type):
            yield column.name, column.type.lower()
