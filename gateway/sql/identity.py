"""Binds `current_user()` and its likes to the principal where Spark would answer with another user.

Through Spark Connect every statement runs as the user of the server's process, so that is whom these
functions name. Each place becomes a string literal of the principal's name; an item of a select list keeps
its column's name. Without brackets the words mean a column first: they are bound only where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.model.catalog import Table, quote
from gateway.model.reading import Identity, Reading, RelationRole, Splice
from gateway.policy.sqltext import write_string_literal
from gateway.sql.required import Unsupported
from gateway.sql.varying import QUERIES

IDENTITIES = frozenset({"current_user", "session_user", "user"})  # RULE (identity-names)
"""Functions without arguments that answer the user whom Spark runs as; their names without brackets, too,
wherever no column has the name."""

IsIdentity = Callable[[str], bool | None]
"""Whether a word without brackets is the function; False: it is a column; None: that is not certain."""


def identity_splices(
    reading: Reading,
    user: str,
    tables: Sequence[Table | None] | None = None,
    *,
    named: bool = True,
    meaning: IsIdentity | None = None,
) -> tuple[Splice, ...] | Unsupported:
    """Return the splices that bind every identity of a text to `user`.

    `tables` are those that the text reads or writes, None among them one whose columns are not known; left
    out, all are unknown where the text has any. `named`: items of select lists keep the names that Spark
    gives their columns; not so for the text of a policy, which stands inside another expression.
    `meaning` says what words without brackets are in an expression over a DataFrame: its columns come first.
    """
    literal = write_string_literal(user)
    if literal is None:
        return Unsupported("the user name cannot be written as a SQL literal")
    if tables is None:
        read = [r for r in reading.relations if r.role is not RelationRole.CTE]
        tables = [None] * len(read)
    splices = []
    for identity in reading.identities:
        if identity.bare:
            if identity.column:  # RULE (user-column-before-function)
                continue
            if meaning is None:
                found = _may_be_function(identity, tables)
            else:
                within = identity.nested or bool(QUERIES & reading.expressions)
                found = None if within else meaning(identity.name)
            if found is None:
                return refuse_unclear(identity.name)
            if not found:  # RULE (identity-column-first)
                continue
        if identity.span is None:
            # RULE (identity-in-pieces)
            return Unsupported(f"`{identity.name}` cannot be replaced by the user name in this place")
        text = literal
        if identity.output and named:
            # Spark's own names: a word without brackets is shown as the function that it stands for.
            name = "current_user" if identity.bare else identity.name
            text = f"{literal} AS {quote(name + '()')}"
        splices.append(Splice(span=identity.span, text=text, kind="value", query=text))
    return tuple(splices)


def refuse_unclear(name: str) -> Unsupported:
    """Return the refusal of a word that Spark might take for the user whom it runs as."""
    return Unsupported(
        f"`{name}` may be a column or a function; write `{name}()` for the function, or qualify the column "
        "with its table or an alias of the DataFrame"
    )


def _may_be_function(identity: Identity, tables: Sequence[Table | None]) -> bool | None:
    """Whether a word without brackets is the function; False when it is a column for certain."""
    known = [table for table in tables if table is not None]
    if any(identity.name == column.name.lower() for table in known for column in table.columns):
        # With one query, every relation is in sight of every name.
        return None if identity.nested or len(known) < len(tables) else False
    if not identity.sure or len(known) < len(tables):  # RULE (identity-may-be-column)
        return None
    if any(identity.name in column.type.lower() for table in known for column in table.columns):
        # RULE (identity-may-be-field)
        return None  # a field of a struct becomes a column by `s.*` or `inline`
    return True
