"""Row filters that are asked of what a DataFrame writes (`gateway/sql/checking.py`)."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.model.catalog import quote
from gateway.plan.guard import Edits
from gateway.plan.reading import PlanReading
from gateway.sql.checking import ROWS, RowCheck, copies_of, explain_missing, value_name, write_by_name
from gateway.sql.required import Unsupported
from gateway.wire.connect import pb


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameWrite:
    """A DataFrame that is written into a table that is there."""

    rows: pb.Relation
    by_name: bool


def find_frame_write(reading: PlanReading) -> FrameWrite | None:
    """Return what a command adds to a table; None where it does something else. To overwrite one with a row
    filter is refused anyway."""
    command = reading.command
    match command.WhichOneof("command_type") if command is not None else None:
        case "write_operation":
            write = command.write_operation if command is not None else pb.WriteOperation()
            inserts = write.table.save_method == pb.WriteOperation.SaveTable.TABLE_SAVE_METHOD_INSERT_INTO
            # What inserts into a table and does not say how adds to it.
            adds = pb.WriteOperation.SAVE_MODE_APPEND
            if write.mode != adds and not (inserts and write.mode != pb.WriteOperation.SAVE_MODE_OVERWRITE):
                return None
            return FrameWrite(rows=write.input, by_name=not inserts)
        case "write_operation_v2":
            other = command.write_operation_v2 if command is not None else pb.WriteOperationV2()
            if other.mode != pb.WriteOperationV2.MODE_APPEND:
                return None
            return FrameWrite(rows=other.input, by_name=True)
        case _:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameCheck:
    """What is asked of the rows of a DataFrame."""

    rows: pb.Relation
    condition: str
    alias: str
    values: tuple[str, ...] = ()
    """What its columns are called meanwhile; empty where they keep their names."""
    copies: tuple[str, ...] = ()


def check_frame(write: FrameWrite, check: RowCheck, *, bare: bool) -> FrameCheck | Unsupported:
    """Return what asks the filter of what is written."""
    if write.by_name:
        rows = write_by_name(check, {})
        if isinstance(rows, Unsupported):
            return rows
        condition = check.condition(rows, bare=bare, varying=True)
        return FrameCheck(rows=write.rows, condition=condition, alias=ROWS)
    columns = [column.name.lower() for column in check.table.columns]
    given = {name: quote(value_name(at)) for at, name in enumerate(columns)}
    if (missing := explain_missing(check, given)) is not None:
        return missing
    return FrameCheck(
        rows=write.rows,
        condition=check.condition(check.text, bare=bare, varying=True),
        alias=check.table.name.table,
        values=tuple(value_name(at) for at in range(len(columns))),
        copies=tuple(copies_of(check, given)),
    )


def write_frame_check(found: FrameCheck, edits: Edits) -> None:
    """Write it into the plan; what it changes was remembered before."""
    own = pb.Relation()
    own.CopyFrom(found.rows)
    found.rows.Clear()
    outer = found.rows
    if found.values:
        for name in found.values:
            _write(outer.project.expressions.add(), quote(name), edits)
        outer = outer.project.input
    _write(outer.filter.condition, found.condition, edits)
    alias = outer.filter.input.subquery_alias
    alias.alias = found.alias
    inner = alias.input
    if found.values:
        inner.project.expressions.add().unresolved_star.SetInParent()
        for copy in found.copies:
            _write(inner.project.expressions.add(), copy, edits)
        inner = inner.project.input
        inner.to_df.column_names.extend(found.values)
        inner = inner.to_df.input
    inner.CopyFrom(own)


def _write(message: pb.Expression, text: str, edits: Edits) -> None:
    message.expression_string.expression = text
    edits.expressions.add(text)
