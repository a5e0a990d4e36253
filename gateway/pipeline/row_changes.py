"""What keeps UPDATE, DELETE and MERGE from rows of their table that the principal does not see."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.algebra.nodes import Join, JoinKind, OpaqueRelation, RelationNode, SubqueryAlias
from gateway.algebra.spark import lower_expression, relation_of
from gateway.algebra.usage import Unclear
from gateway.model.catalog import Table, TableKind, TableName, quote_parts
from gateway.model.reading import Reading, RelationRole, Splice
from gateway.model.table_formats import DELTA
from gateway.pipeline.barriers import may_be_without
from gateway.pipeline.judging import Judging
from gateway.pipeline.policies import Policies
from gateway.pipeline.seeing import Prepared
from gateway.policy.engine import TableView
from gateway.sql.change_checks import UNREADABLE, RowMade, ask, read_action, read_update
from gateway.sql.checking import RowCheck
from gateway.sql.evaluate import Evaluation
from gateway.sql.merging import MergeText, qualify_filter, read_clauses, restrict_merge
from gateway.sql.required import Unsupported
from gateway.sql.restricting import MERGE, find_restricted_table, restrict_rows
from gateway.sql.total import total_statement
from gateway.sql.varying import may_vary_by_row


async def restrict_text(
    prepared: Prepared,
    policies: Policies,
    evaluation: Evaluation,
    judging: Judging,
    check: RowCheck | None = None,
) -> tuple[Splice, ...] | Unsupported:
    """Return what keeps a text from rows that the principal does not see, and, with `check`, from hiding rows
    from him."""
    name = find_restricted_table(prepared.required, prepared.reading, evaluation)
    table = evaluation.catalog.table(name) if name is not None else None
    view = policies.views[name.fold()] if name is not None else None
    if table is None or view is None or view.row_filter is None:
        return ()
    rows, bare = view.row_filter.expression, judging.bare_builtins
    tree = relation_of(prepared.reading)
    if prepared.reading.commands[0].node != MERGE:
        asked: str | Unsupported = ""
        if check is not None:
            asked = await _ask_update(tree, check, prepared.text, judging)
        if isinstance(asked, Unsupported):
            return asked
        if table.provider == DELTA.name and await _reads_tables(rows, judging):
            return Unsupported(
                f"the row filter of {table.name} reads other tables, which UPDATE and DELETE of Delta cannot"
            )
        found = restrict_rows(prepared.text, rows, asked, bare=bare)
        return found if isinstance(found, Unsupported) else (found,)  # RULE (restricted-rows)
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
    conditions: dict[int, str] | Unsupported = {}
    if check is not None:
        conditions = await _ask_actions(tree, clauses, check, prepared.text, judging)
    if isinstance(conditions, Unsupported):
        return conditions
    total = _is_total(tree, table, prepared, policies, judging)
    return restrict_merge(clauses, qualified, conditions, total=total, bare=bare)  # RULE (restricted-merge)


async def _reads_tables(text: str, judging: Judging) -> bool:
    reading = await judging.reader.read_expression(text)
    return not isinstance(reading, Reading) or bool(reading.relations)


async def _ask_update(
    tree: RelationNode | None, check: RowCheck, text: str, judging: Judging
) -> str | Unsupported:
    if not isinstance(tree, OpaqueRelation):
        return Unsupported("the statement is too large for its rows to be checked")
    try:
        made = read_update(tree, check, text)
    except Unclear as why:
        return Unsupported(str(why))
    return await _ask(made, check, judging)


async def _ask_actions(
    merge: OpaqueRelation, clauses: MergeText, check: RowCheck, text: str, judging: Judging
) -> dict[int, str] | Unsupported:
    """Return what is asked of the rows that come of a MERGE, by the places of its actions."""
    found: dict[int, str] = {}
    for at, (action, clause) in enumerate(zip(merge.expressions[1:], clauses.actions, strict=True), 1):
        try:
            made = read_action(action, clause, merge, check, text)
        except Unclear as why:
            return Unsupported(str(why))
        asked = await _ask(made, check, judging)
        if isinstance(asked, Unsupported):
            return asked
        if asked:
            found[at] = asked
    return found


async def _ask(made: RowMade | Unsupported | None, check: RowCheck, judging: Judging) -> str | Unsupported:
    """Return what is asked of the row that is made, empty where nothing has to be."""
    if made is None or isinstance(made, Unsupported):
        return made or ""
    for value in made.values.values():
        reading = await judging.reader.read_expression(value.text)
        tree = reading.tree if isinstance(reading, Reading) else None
        # RULE (check-values-as-read)
        if not isinstance(reading, Reading) or tree is None or lower_expression(tree) != value.expression:
            return UNREADABLE
        # RULE (check-values-once)
        if reading.identities or may_vary_by_row(reading.functions):
            return Unsupported(
                f"the row filter of {check.table.name} checks what is written: a column that it reads cannot "
                "be set by a function that differs from row to row, or that asks who the user is"
            )
    return ask(made, check, bare=judging.bare_builtins) or ""


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
