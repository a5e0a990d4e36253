"""What UPDATE and MERGE set, as a row filter asks it: no row may become one that the filter hides.

The condition of the statement, or of an action, asks it of the row that would come of the one that it is on:
what is set is written in the place of the filter's columns. Nothing is asked where none of these is set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot.tokenizer_core import TokenType

from gateway.algebra.nodes import Expression, NamedColumn, OpaqueExpression, OpaqueRelation, SubqueryAlias
from gateway.algebra.spark import BY_SOURCE as ON_TARGET
from gateway.model.catalog import quote, quote_parts
from gateway.sql.checking import RowCheck, explain_missing, refuse_structs, write_filter
from gateway.sql.merging import MergeClause
from gateway.sql.required import Unsupported
from gateway.sql.restricting import name_of
from gateway.sql.tokens import comma_items, step, tokens_of

UNREADABLE: Final = Unsupported("what the statement sets could not be read; write it in a simpler form")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetValue:
    """What a column of the filter's gets."""

    text: str
    expression: Expression
    """The same, as Spark's parser has it in the statement: the text has to be that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMade:
    """The row that comes of an UPDATE, or of an action of MERGE."""

    values: Mapping[str, SetValue]
    """Of the filter's columns that are set, by their names in lower case."""
    kept: str = ""
    """What stands before the names of the others; with it a dot."""
    inserted: bool = False
    named: Mapping[str, str] | None = None
    """Of `UPDATE SET *` and `INSERT *`: what the columns get, which are the source's."""


def read_update(update: OpaqueRelation, check: RowCheck, text: str) -> RowMade | Unsupported:
    """Return what comes of an UPDATE."""
    assignments = [one for one in update.expressions if _is_assignment(one)]
    start = end = -1
    depth = 0
    for token in tokens_of(text):
        depth += step(token)
        if depth == 0 and start < 0 and token.text.upper() == "SET":
            start = token.end + 1
        elif depth == 0 and start >= 0 > end and token.token_type is TokenType.WHERE:
            end = token.start
    if end < 0:
        return UNREADABLE
    return _read_set(assignments, text[start:end], check, _target_names(update, check))


def read_action(
    action: Expression, clause: MergeClause, merge: OpaqueRelation, check: RowCheck, text: str
) -> RowMade | Unsupported | None:
    """Return what comes of an action of MERGE; None of one that sets none of the filter's columns."""
    if not isinstance(action, OpaqueExpression):
        return UNREADABLE
    kind = action.name.removesuffix(ON_TARGET)
    if kind == "DeleteAction":
        return None
    names = _target_names(merge, check)
    if kind in ("UpdateStarAction", "InsertStarAction"):
        source = name_of(merge.inputs[1])
        if not source or source in names:
            return Unsupported("give the source of MERGE an alias, so that what it writes can be checked")
        # Of what is inserted the source alone is asked: by the one name, which is no field of a column.
        inserted = kind == "InsertStarAction"
        given = {
            name.lower(): quote(name) if inserted else quote_parts((source, name)) for name in check.columns
        }
        return RowMade(values={}, named=given, inserted=inserted)
    assignments = [one for one in action.operands if _is_assignment(one)]
    words = text[clause.then.end + 1 : clause.end]
    if kind == "UpdateAction":
        _, _, words = words.partition(_word_in(words, "SET"))
        return _read_set(assignments, words, check, names, kept=f"{_qualifier(merge, check)}.")
    if kind != "InsertAction":
        return UNREADABLE
    values = _read_values(words)
    if values is None or len(values) != len(assignments):
        return UNREADABLE
    return _build_checks(zip(assignments, values, strict=True), check, names, inserted=True)


def ask(made: RowMade, check: RowCheck, *, bare: bool) -> str | Unsupported | None:
    """Return the condition that fails where the row that is made would be hidden; None where it cannot be."""
    given = {name: f"({one.text}\n)" for name, one in made.values.items()}
    if made.named is not None:
        given = dict(made.named)
    if not given and not made.inserted:  # RULE (check-unset-columns)
        return None
    shown = given if made.inserted else {**{name.lower(): "" for name in check.columns}, **given}
    if (missing := explain_missing(check, shown) or refuse_structs(check, given)) is not None:
        return missing
    types = {column.name.lower(): column.type for column in check.table.columns}

    def write(word: str) -> str:
        return f"CAST({given[word]} AS {types[word]})" if word in given else f"{made.kept}{quote(word)}"

    rows = write_filter(check.text, check.reading, check.table, write)
    if rows is None:
        return Unsupported(
            f"the row filter of {check.table.name} checks what is written, and reads more than its columns: "
            "UPDATE and MERGE cannot set the columns that it reads"
        )
    return check.condition(rows, bare=bare, varying=False)


def _is_assignment(one: Expression) -> bool:
    return isinstance(one, OpaqueExpression) and one.name == "Assignment"


def _target_names(command: OpaqueRelation, check: RowCheck) -> frozenset[str]:
    """Return by which names, lower case, columns of the target are told apart."""
    return frozenset({name_of(command.inputs[0]), check.table.name.table.lower()})


def _qualifier(command: OpaqueRelation, check: RowCheck) -> str:
    target = command.inputs[0]
    return quote(target.name) if isinstance(target, SubqueryAlias) else quote_parts(check.table.name.parts)


def _read_set(
    assignments: Sequence[Expression], text: str, check: RowCheck, names: frozenset[str], kept: str = ""
) -> RowMade | Unsupported:
    """Return what `a = 1, b = 2` sets."""
    items = comma_items(text)
    if len(items) != len(assignments):
        return UNREADABLE
    values = [item.partition("=")[2] for item in items]
    return _build_checks(zip(assignments, values, strict=True), check, names, kept=kept)


def _build_checks(
    pairs: Iterator[tuple[Expression, str]],
    check: RowCheck,
    names: frozenset[str],
    *,
    kept: str = "",
    inserted: bool = False,
) -> RowMade | Unsupported:
    read = {name.lower() for name in check.columns}
    values: dict[str, SetValue] = {}
    for assignment, text in pairs:
        key, value = assignment.operands
        if not isinstance(key, NamedColumn):
            return UNREADABLE
        parts = [part.lower() for part in key.parts]
        if len(parts) > 1 and parts[-2] in names and parts[0] not in read:
            parts = parts[-1:]
        if len(parts) > 1 and read.intersection(parts):  # RULE (check-fields-set)
            return Unsupported(
                f"the row filter of {check.table.name} checks what is written: set all of `{key.parts[0]}`, "
                "not a field of it"
            )
        if parts[-1] in read:
            values[parts[-1]] = SetValue(text=text.strip(), expression=value)
    return RowMade(values=values, kept=kept, inserted=inserted)


def _word_in(text: str, word: str) -> str:
    at = text.upper().find(word)
    return text[at : at + len(word)] if at >= 0 else word


def _read_values(text: str) -> list[str] | None:
    """Return the items of the last brackets of `INSERT (…) VALUES (…)`."""
    depth, opened, last = 0, -1, None
    for token in tokens_of(text):
        change = step(token)
        if change > 0 and depth == 0:
            opened = token.end + 1
        depth += change
        if change < 0 and depth == 0:
            last = text[opened : token.start]
    return None if last is None else comma_items(last)
