"""Whether the text of a row filter or mask can mean only what its author meant, whatever stands around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache

from gateway.algebra.nodes import OneRow, Projection
from gateway.algebra.spark import lower_expression
from gateway.algebra.walking import words_in_lambdas
from gateway.model.catalog import Table, quote_parts
from gateway.model.reading import Reading, RelationRole
from gateway.sql.expressions import expression_refusal
from gateway.sql.functions import builtin_name, builtin_refusal
from gateway.sql.nodes import node_refusal


def list_author_statements(reading: Reading) -> tuple[str, ...] | None:
    """Return statements that whoever writes a text must be allowed to see the whole answers of: each names a
    relation that the text reads, or calls a function of its own. None: what it needs cannot be told.

    Nothing is asked for what a row has, and for functions that are built in and safe for everybody. What the
    bodies of its own functions read is asked besides (`list_called_functions`).
    """
    refused = any(node_refusal(node) is not None for node in reading.nodes)
    if refused or any(expression_refusal(one) is not None for one in reading.expressions):
        return None
    asked = [f"TABLE {quote_parts(one.parts)}" for one in reading.relations if one.role is RelationRole.SCAN]
    if any(one.role is RelationRole.TARGET for one in reading.relations):
        return None
    for function in reading.functions:
        name = builtin_name(function.parts) if function.builtin else None
        if name is not None and builtin_refusal(name, table_valued=function.table_valued) is None:
            continue
        if name is not None or function.table_valued or function.builtin:
            return None
        asked.append(f"SELECT {quote_parts(function.parts)}()")
    return tuple(dict.fromkeys(asked))


def list_called_functions(reading: Reading) -> tuple[tuple[str, ...], ...]:
    """Return the names of functions that a text calls and that are not built in."""
    found = (one.parts for one in reading.functions if not one.builtin or builtin_name(one.parts) is None)
    return tuple(dict.fromkeys(found))


_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|`(?:[^`]|``)*`", re.DOTALL)
_QUERY = re.compile(r"\s*(?:SELECT|WITH|FROM|TABLE|VALUES)\b", re.IGNORECASE)


def fits(text: str, reading: Reading, table: Table, read: Sequence[Table | None]) -> bool:
    """Whether all columns that the text names are its table's, or, within a subquery, of a table read."""
    return find_unknown_column(text, reading, table, read) is None


def find_unknown_column(
    text: str, reading: Reading, table: Table, read: Sequence[Table | None]
) -> str | None:
    """Return what of the text is no column of its table, nor, within a subquery, of a table read; None: there
    is nothing.

    Nothing may be left for a relation around the guard to answer: not a misspelt column, not one that the
    table has lost.
    """
    if any(other is None for other in read):  # RULE (policy-tables-known)
        return "a table that does not exist"
    own = {column.name.lower() for column in table.columns}
    inner = {column.name.lower() for other in read if other is not None for column in other.columns}
    queries = _subqueries(text)
    for reference in reading.columns:
        parts = [part.lower() for part in reference.parts]
        if not parts:
            continue  # a star
        written = f"`{'.'.join(reference.parts)}`"
        if reference.span is None:
            return written
        at = reference.span.start
        inside = any(start < at < end for start, end in queries)
        columns = own | inner if inside else own  # RULE (policy-subquery-columns)
        qualifiers = {table.name.table.lower()}
        if inside:
            qualifiers |= reading.subquery_aliases | {o.name.table.lower() for o in read if o is not None}
        named = parts[0] in columns
        qualified = len(parts) > 1 and parts[0] in qualifiers and (parts[1] in columns or inside)
        # RULE (policy-columns-of-table)
        if not (named or qualified or (reference.star and parts[0] in qualifiers)):
            return written
    if "LambdaFunction" not in reading.expressions:  # RULE (policy-lambda-names)
        return None
    return _unfit_in_lambdas(reading, own | inner, table, read)


def _unfit_in_lambdas(
    reading: Reading, columns: AbstractSet[str], table: Table, read: Sequence[Table | None]
) -> str | None:
    """Return what in lambda functions is neither a variable of theirs nor a column: to the parser it is a
    variable, and Spark then looks for a column of that name."""
    if reading.tree is None:
        return "names in a lambda function that cannot be resolved"
    qualifiers = {one.name.table.lower() for one in (table, *read) if one is not None}
    within = words_in_lambdas(Projection(OneRow(), (lower_expression(reading.tree),)))
    free = within - columns - qualifiers - reading.subquery_aliases
    return f"`{min(free)}`" if free else None


@lru_cache(maxsize=4096)
def _subqueries(text: str) -> tuple[tuple[int, int], ...]:
    """Return where bracketed queries stand: from the opening bracket to the closing one."""
    plain = _QUOTED.sub(lambda found: "_" * len(found.group()), text)
    opened: list[int] = []
    found: list[tuple[int, int]] = []
    for at, sign in enumerate(plain):
        if sign == "(":
            opened.append(at)
        elif sign == ")" and opened:
            start = opened.pop()
            if _QUERY.match(plain, start + 1):
                found.append((start, at))
    return tuple(found)
