"""Row filters that are asked of rows when they are written, as WITH CHECK OPTION has it.

What a statement inserts is read once, by a query around the statement's own: the filter is asked of what the
columns will hold, and raises an error for a row that it would hide. The condition is not deterministic, so
that Spark asks it of the rows that are written and of no others: below a join or a limit there are more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

from gateway.algebra.usage import LITERAL_FUNCTIONS, Unclear
from gateway.model.catalog import Table, quote
from gateway.model.reading import CommandNode, Reading, RelationRole, Span, Splice
from gateway.policy.masks import QUALIFIER
from gateway.policy.sqltext import write_string_literal
from gateway.sql.required import Unsupported
from gateway.sql.tokens import step, tokens_of
from gateway.sql.varying import QUERIES

INSERT: Final = "InsertIntoStatement"
ROWS: Final = "sluice rows"
"""Stands for the statement's own query in what the proof is told, and names its rows."""
MARK: Final = "SLUICE_ROW_CHECK"
"""Begins the message of the error that a row raises: `session/redact.py` looks for it."""
_NO_QUERY: Final = Unsupported("the query of INSERT could not be told apart; write it in a simpler form")
_PADDED: Final = re.compile(r"\b(var)?char\s*\(", re.IGNORECASE)
_OF_FIELDS: Final = re.compile(r"\bstruct\s*<", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCheck:
    """A filter that is asked of what is written to a table."""

    table: Table
    text: str
    """The filter, bound to the principal."""
    reading: Reading
    """Of it by itself."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that the filter may read, as the table writes them."""
        words = {part.lower() for column in self.reading.columns for part in column.parts}
        return tuple([column.name for column in self.table.columns if column.name.lower() in words])

    def type_of(self, name: str) -> str:
        return next(column.type for column in self.table.columns if column.name == name)

    def find_padded(self) -> str | None:
        """Return a column that the filter reads and that is not stored as it is given."""
        return next((name for name in self.columns if _PADDED.search(self.type_of(name))), None)

    def condition(self, rows: str, *, bare: bool, varying: bool) -> str:
        """Return a condition that fails where `rows`, the filter over what is written, does not hold."""
        builtin = "" if bare else QUALIFIER
        told = write_string_literal(f"{MARK} {self.table.name}") or f"'{MARK}'"
        if varying:
            none = f"{builtin}substr(CAST({builtin}monotonically_increasing_id() AS STRING), 1, 0)"
            told = f"{builtin}concat({told}, {none})"
        return f"CASE WHEN ({rows}) THEN TRUE ELSE {builtin}raise_error({told}) END"


def write_filter(text: str, reading: Reading, table: Table, write: Callable[[str], str]) -> str | None:
    """Return a row filter with something else for each of its columns; None where it names more than these.

    `reading`: of the filter by itself. `write` gets a column's name, lower case.
    """
    if QUERIES & reading.expressions or "LambdaFunction" in reading.expressions or reading.relations:
        return None
    columns = {column.name.lower() for column in table.columns}
    pieces, at = [], 0
    for column in sorted(reading.columns, key=lambda one: one.span.start if one.span else 0):
        span, word = column.span, column.parts[0].lower() if column.parts else ""
        literal = word in LITERAL_FUNCTIONS and len(column.parts) == 1
        # RULE (merge-filter-columns)
        if column.star or span is None or span.start < at or not (word in columns or literal):
            return None
        # By brackets: `t.s.owner` could be the column `owner` of a source `s` in a database `t`.
        fields = [write_string_literal(part) or "" for part in column.parts[1:]]
        if not all(one.startswith("'") for one in fields):
            return None  # Spark takes a literal alone
        behind = "".join(f"[{one}]" for one in fields)  # RULE (merge-filter-fields)
        found = f"{write(word)}{behind}" if word in columns else f"{span.of(text)}()"
        pieces += [text[at : span.start], found]
        at = span.end
    return "".join((*pieces, text[at:]))


def value_name(at: int) -> str:
    """Return what the column of a place is called among the rows that are written, without quotes."""
    return f"sluice {at}"


def copies_of(check: RowCheck, given: Mapping[str, str]) -> list[str]:
    """Return the filter's columns as the table would store them, each beside its name. `given`: what the
    columns get, by their names in lower case."""
    return [
        f"CAST({given[name.lower()]} AS {check.type_of(name)}) AS {quote(name)}" for name in check.columns
    ]


def explain_missing(check: RowCheck, given: Iterable[str]) -> Unsupported | None:
    """Refuse what does not say what the filter's columns get. `given`: names, lower case."""
    missing = {name.lower() for name in check.columns} - set(given)
    if missing:  # RULE (check-needs-columns)
        return Unsupported(
            f"the row filter of {check.table.name} checks what is written, so give a value for the column "
            f"{min(missing)}, which it reads"
        )
    if (padded := check.find_padded()) is not None:
        return Unsupported(
            f"the row filter of {check.table.name} checks what is written, and cannot check the column "
            f"{padded}, of type {check.type_of(padded)}: it is not stored as it is given"
        )
    return None


def refuse_structs(check: RowCheck, given: Iterable[str]) -> Unsupported | None:
    """Refuse structs for columns that the filter reads where the statement says columns by their names: Spark
    and the table formats then find their fields by name, too, and CAST by their places. `given`: names, lower
    case."""
    names = set(given)
    for name in check.columns:
        if name.lower() in names and _OF_FIELDS.search(check.type_of(name)):  # RULE (check-structs)
            return Unsupported(
                f"the row filter of {check.table.name} checks what is written, and cannot check the struct "
                f"{name} where columns are written by name: insert by position"
            )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapping:
    """What stands around the query of an INSERT."""

    splice: Splice
    """Tells it to the proof."""
    start: int
    """Behind what the head is written."""
    head: str
    end: int
    tail: str


def wrap_insert(text: str, reading: Reading, check: RowCheck, *, bare: bool) -> Wrapping | Unsupported:
    """Return what has the filter asked of each row that an INSERT writes."""
    command = reading.commands[0]
    partition, columns = command.fields.get("partitionSpec"), command.fields.get("userSpecifiedCols")
    by_name = command.fields.get("byName") is True
    if not isinstance(partition, Mapping) or not isinstance(columns, tuple):
        return Unsupported("the columns of INSERT could not be parsed")
    fixed = {name.lower(): str(value) for name, value in partition.items() if value is not None}
    found = _find_query(text, reading, command)
    if isinstance(found, Unsupported):
        return found
    own = f"`{ROWS}`"
    if by_name:
        query = select_by_name(own, check, fixed, bare=bare)
    else:
        listed = [str(name) for name in columns] or [column.name for column in check.table.columns]
        query = select_by_position(
            own, check, [name for name in listed if name.lower() not in fixed], fixed, bare=bare
        )
    if isinstance(query, Unsupported):
        return query
    head, _, tail = query.partition(f"FROM {own}")
    # The line breaks keep a comment at the end from swallowing the bracket.
    head, tail = f" {head}FROM (", f"\n){tail}"
    start, end = found
    # Its own word stays as it is: others write at both ends of the query.
    word = Span(command.span.start, command.span.start + len("INSERT")) if command.span else Span(0, 0)
    splice = Splice(span=word, text=word.of(text), kind="rows", query=query, parts=(ROWS,))
    return Wrapping(splice=splice, start=start, head=head, end=end, tail=tail)


def select_by_position(
    own: str, check: RowCheck, columns: Sequence[str], fixed: Mapping[str, str], *, bare: bool
) -> str | Unsupported:
    """Return the query of the rows that `own` has for these columns, each asked by the filter. `fixed`: what
    other columns get, by their names in lower case."""
    given = {name.lower(): quote(value_name(at)) for at, name in enumerate(columns)}
    given |= {name: write_string_literal(value) or "NULL" for name, value in fixed.items()}
    if (missing := explain_missing(check, given)) is not None:
        return missing
    values = ", ".join(quote(value_name(at)) for at in range(len(columns)))
    made = ", ".join(("*", *copies_of(check, given)))
    asked = check.condition(check.text, bare=bare, varying=True)
    return (
        f"SELECT {values} FROM (SELECT {made} FROM {own} AS `{ROWS}`({values})) AS "
        f"{quote(check.table.name.table)} WHERE {asked}"
    )


def select_by_name(own: str, check: RowCheck, fixed: Mapping[str, str], *, bare: bool) -> str | Unsupported:
    """The same, where columns are found by the names that the rows have."""
    rows = write_by_name(check, fixed)
    if isinstance(rows, Unsupported):
        return rows
    return f"SELECT `{ROWS}`.* FROM {own} AS `{ROWS}` WHERE {check.condition(rows, bare=bare, varying=True)}"


def write_by_name(check: RowCheck, fixed: Mapping[str, str]) -> str | Unsupported:
    """Return the filter over rows that are called as `ROWS`."""
    names = [column.name.lower() for column in check.table.columns]
    if (missing := explain_missing(check, names) or refuse_structs(check, names)) is not None:
        return missing
    types = {column.name.lower(): column.type for column in check.table.columns}

    def write(word: str) -> str:
        # By the one name: with another before it, it could be a field of a column of that name.
        value = write_string_literal(fixed[word]) if word in fixed else quote(word)
        return f"CAST({value} AS {types[word]})"

    rows = write_filter(check.text, check.reading, check.table, write)
    if rows is None:
        return Unsupported(
            f"the row filter of {check.table.name} checks what is written, and reads more than its columns: "
            "insert by position, not by name (INSERT INTO or insertInto)"
        )
    return rows


def _find_query(text: str, reading: Reading, command: CommandNode) -> tuple[int, int] | Unsupported:
    """Return behind which place the query of an INSERT begins, and where it ends; the proof says whether it
    does."""
    targets = [one.span for one in reading.relations if one.role is RelationRole.TARGET]
    if len(targets) != 1 or targets[0] is None:
        return _NO_QUERY
    try:
        tokens = [token for token in tokens_of(text) if token.start >= targets[0].end]
    except Unclear as why:
        return Unsupported(str(why))
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    at, start = 0, targets[0].end
    if _is_word(tokens, at, "PARTITION"):
        at = _skip_brackets(tokens, at + 1)
    if _is_word(tokens, at, "IF"):
        at += 3
    if _is_word(tokens, at, "BY"):
        at += 2
    elif command.fields.get("userSpecifiedCols"):
        at = _skip_brackets(tokens, at)
    if at >= len(tokens):
        return _NO_QUERY
    if at:
        start = tokens[at - 1].end + 1
    return start, tokens[-1].end + 1


def _is_word(tokens: Sequence[Token], at: int, word: str) -> bool:
    return at < len(tokens) and tokens[at].text.upper() == word


def _skip_brackets(tokens: Sequence[Token], at: int) -> int:
    """Return the place behind the brackets that begin at one."""
    depth = 0
    while at < len(tokens):
        depth += step(tokens[at])
        at += 1
        if not depth:
            break
    return at


def attach(text: str, splices: Sequence[Splice], wrapping: Wrapping) -> tuple[Splice, ...]:
    """Return the splices of a text with a wrapping: its ends stand behind what others write there."""
    found = list(splices)
    for place, words in ((wrapping.start, wrapping.head), (wrapping.end, wrapping.tail)):
        for at, one in enumerate(found):
            if one.span.end == place:
                found[at] = replace(one, text=one.text + words)
                break
        else:
            found.append(Splice(span=Span(place - 1, place), text=text[place - 1] + words, kind="end"))
    return (*found, wrapping.splice)
