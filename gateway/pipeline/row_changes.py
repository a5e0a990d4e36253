"""What keeps UPDATE, DELETE and MERGE from rows of their table that the principal does not see."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.algebra.nodes import Join, JoinKind, OpaqueRelation, SubqueryAlias
from gateway.algebra.spark import relation_of
from gateway.model.catalog import Table, TableKind, TableName, quote_parts
from gateway.model.reading import Reading, RelationRole, Splice
from gateway.pipeline.barriers import may_be_without
from gateway.pipeline.judging import Judging
from gateway.pipeline.policies import Policies
from gateway.pipeline.seeing import Prepared
from gateway.policy.engine import TableView
from gateway.sql.evaluate import Evaluation
from gateway.sql.merging import qualify_filter, read_clauses, restrict_merge
from gateway.sql.required import Unsupported
from gateway.sql.restricting import MERGE, find_restricted_table, restrict_rows
from gateway.sql.total import total_statement


async def restrict_text(
    prepared: Prepared, policies: Policies, evaluation: Evaluation, judging: Judging
) -> tuple[Splice, ...] | Unsupported:
    """Return what keeps a text from rows that the principal does not see."""
    name = find_restricted_table(prepared.required, prepared.reading, evaluation)
    table = evaluation.catalog.table(name) if name is not None else None
    view = policies.views[name.fold()] if name is not None else None
    if table is None or view is None or view.row_filter is None:
        return ()
    rows, bare = view.row_filter.expression, judging.bare_builtins
    if prepared.reading.commands[0].node != MERGE:
        found = restrict_rows(prepared.text, rows, bare=bare)
        return found if isinstance(found, Unsupported) else (found,)  # RULE (restricted-rows)
    tree = relation_of(prepared.reading)
    if not isinstance(tree, OpaqueRelation) or any(pin.below for pin in prepared.required.pins):
        return Unsupported("MERGE into a branch of a table with a row filter is not supported")
    target = tree.inputs[0]
    named = (target.name,) if isinstance(target, SubqueryAlias) else table.name.parts
    qualified = await qualify_rows(rows, table, named, judging)
    if isinstance(qualified, Unsupported):
        return qualified
    clauses = read_clauses(prepared.text)
    if isinstance(clauses, Unsupported):
        return clauses
    total = _is_total(tree, table, prepared, policies, judging)
    return restrict_merge(clauses, qualified, total=total, bare=bare)  # RULE (restricted-merge)


async def qualify_rows(
    rows: str, table: Table, target: tuple[str, ...], judging: Judging
) -> str | Unsupported:
    """Return a row filter with its columns written as those of `target`."""
    reading = await judging.reader.read_expression(rows)
    if not isinstance(reading, Reading):
        return Unsupported(f"the row filter of {table.name} could not be parsed")
    return qualify_filter(rows, reading, table, quote_parts(target))


def _is_total(
    merge: OpaqueRelation, table: Table, prepared: Prepared, policies: Policies, judging: Judging
) -> bool:
    """Whether the condition of a MERGE can fail on no row, so that Spark may try it on hidden ones.

    INVARIANT (types as judged): what it names was described for this statement (`list_described_anew`).
    """
    if not may_be_without(judging):
        return False
    relations = prepared.reading.relations
    target = next((one.span for one in relations if one.role is RelationRole.TARGET), None)
    names = {one.span: name for one, name in prepared.scans if one.span is not None}
    ctes = frozenset(one.span for one in relations if one.role is RelationRole.CTE and one.span is not None)
    scanned = {
        span: _list_types(judging.snapshot.catalog.table(name), policies.views[name.fold()])
        for span, name in names.items()
    }
    if target is not None:
        scanned[target] = _list_types(table, policies.views[table.name.fold()])
    left, right = merge.inputs
    joined = Join(left, right, JoinKind.INNER, (merge.expressions[0],))
    # RULE (merge-total-condition)
    return total_statement(joined, prepared.text, scanned, ctes) is not None


def _list_types(table: Table | None, view: TableView | None) -> Mapping[str, str]:
    """Return the columns that may be named, with the types of those that are shown as they are stored."""
    if table is None or view is None or table.kind is not TableKind.TABLE:
        return {}
    masked = {name.lower() for name in view.masks}
    return {
        column.name: "" if column.name.lower() in masked else column.type.lower()
        for column in table.columns
        if column.name not in view.hidden
    }


def list_described_anew(prepared: Prepared, evaluation: Evaluation) -> tuple[TableName, ...]:
    """Return the tables whose types a restricted MERGE rests on."""
    if all(command.node != MERGE for command in prepared.reading.commands):
        return ()
    name = find_restricted_table(prepared.required, prepared.reading, evaluation)
    return () if name is None else (name.fold(), *(one.fold() for _, one in prepared.scans))
