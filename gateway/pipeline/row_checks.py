"""Row filters that are asked of what a statement writes: nothing is written where one does not hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gateway.model.catalog import TableKind, TableName
from gateway.model.reading import Reading
from gateway.model.statement import NeedsCatalog
from gateway.pipeline.judging import Judging
from gateway.pipeline.policies import Policies, policies_of
from gateway.pipeline.rights import SeenTable
from gateway.pipeline.seeing import ColumnAccess, Prepared
from gateway.sql.checking import INSERT, RowCheck, Wrapping, wrap_insert
from gateway.sql.evaluate import Denied, Evaluation
from gateway.sql.required import Required, Unsupported
from gateway.sql.restricting import MERGE
from gateway.sql.scope import table_resource

_WRITING = ("insert", "update")
_MAKING = frozenset({"CreateTableAsSelect", "ReplaceTableAsSelect"})
_CHANGING = frozenset({MERGE, "UpdateTable"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedWrite:
    """The check of one table that a statement writes to."""

    check: RowCheck
    policies: Policies


@dataclass(frozen=True, slots=True, kw_only=True)
class TextChecks:
    """What stands in a text for the checks of what it writes."""

    wrapping: Wrapping | None = None
    change: RowCheck | None = None
    """Of what UPDATE or MERGE sets."""
    policies: Policies = field(default_factory=lambda: Policies(views={}, relations=frozenset()))


NO_CHECKS = TextChecks()


def list_written(required: Required, *, makes: bool) -> tuple[TableName, ...]:
    """Return the tables that get rows, or rows with other values. `makes`: also those that are made."""
    accesses = (*_WRITING, "create") if makes else _WRITING
    found = (one.table for one in required.privileges if one.access in accesses)
    return tuple(dict.fromkeys(name for name in found if name is not None))


async def find_checks(
    names: Iterable[TableName], evaluation: Evaluation, judging: Judging
) -> list[CheckedWrite] | Unsupported | Denied | NeedsCatalog:
    """Return the checks of the tables that are written to, with their filters bound to the principal."""
    found: list[CheckedWrite] = []
    for name in names:
        table = evaluation.catalog.table(name)
        if table is None:
            rows = evaluation.engine.row_filter(
                evaluation.principal, table_resource(name), evaluation.context
            )
            if rows is not None and rows.check:  # RULE (check-made-table)
                return explain_unchecked(name, "Create the table first, then insert into it.")
            continue
        view = evaluation.table_view(table)
        if view.row_filter is None or not view.row_filter.check or table.kind is not TableKind.TABLE:
            continue
        if view.closed:
            return Denied(view.closed)
        if view.row_filter.author:
            return explain_unchecked(name, "Its policy was written by a delegated administrator.")
        seen = SeenTable(hidden=frozenset(), eyes=((judging.principal, view),), used=None)
        policies = await policies_of(ColumnAccess(tables={name.fold(): seen}), judging)
        if not isinstance(policies, Policies):
            return policies
        bound = policies.views[name.fold()]
        text = bound.row_filter.expression if bound is not None and bound.row_filter is not None else "FALSE"
        reading = await judging.reader.read_expression(text)
        if not isinstance(reading, Reading):
            return explain_unchecked(name, "It could not be parsed.")
        found.append(CheckedWrite(check=RowCheck(table=table, text=text, reading=reading), policies=policies))
    return found


def explain_unchecked(name: TableName, why: str) -> Unsupported:
    """Refuse what writes to a table whose filter cannot be asked of it."""
    return Unsupported(
        f"the row filter of {name} checks what is written, and this statement cannot be checked. {why}"
    )


async def check_text(
    prepared: Prepared, evaluation: Evaluation, judging: Judging
) -> TextChecks | Unsupported | Denied | NeedsCatalog:
    """Return what has the filters of tables asked of the rows that a text writes to them."""
    required, reading = prepared.required, prepared.reading
    if required.explains or prepared.place.depth or not reading.commands:
        return NO_CHECKS
    nodes = [command.node for command in reading.commands]
    names = list_written(required, makes=any(node in _MAKING for node in nodes))
    found = await find_checks(names, evaluation, judging)
    if not isinstance(found, list):
        return found
    if not found:
        return NO_CHECKS
    one = found[0]
    if len(nodes) == 1 and nodes[0] == INSERT:
        wrapping = wrap_insert(prepared.text, reading, one.check, bare=judging.bare_builtins)
        if isinstance(wrapping, Unsupported):
            return wrapping
        return TextChecks(wrapping=wrapping, policies=one.policies)
    if len(nodes) == 1 and nodes[0] in _CHANGING:
        return TextChecks(change=one.check, policies=one.policies)
    # RULE (check-other-writes)
    return explain_unchecked(one.check.table.name, "Use INSERT INTO, UPDATE or MERGE.")
