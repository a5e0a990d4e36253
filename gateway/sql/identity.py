"""Binds `current_user()` and its likes to the principal where Spark would answer with another user.

Through Spark Connect every statement runs as the user of the server's process, so that is whom these
functions name. Each place becomes a string literal of the principal's name; an item of a select list keeps
its column's name. Without brackets the words mean a column first: they are bound only where there is none.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.model.catalog import Table
from gateway.model.reading import Identity, Reading, RelationRole, Splice
from gateway.policy.sqltext import string_literal
from gateway.sql.names import quote
from gateway.sql.wants import NotGovernable


def identity_splices(
    reading: Reading,
    user: str,
    tables: Sequence[Table | None] | None = None,
    *,
    named: bool = True,
    leave_bare: bool = False,
) -> tuple[Splice, ...] | NotGovernable:
    """Return the splices that bind every identity of a text to `user`.

    `tables` are those that the text reads or writes, None among them one whose columns are not known; left
    out, all are unknown where the text has any. `named`: items of select lists keep the names that Spark
    gives their columns; not so for the text of a policy, which stands inside another expression.
    `leave_bare`: words without brackets stay, as in an expression over a DataFrame, whose columns come first.
    """
    literal = string_literal(user)
    if literal is None:
        return NotGovernable("the name of the user cannot be written in SQL")
    if tables is None:
        read = [r for r in reading.relations if r.role is not RelationRole.CTE]
        tables = [None] * len(read)
    splices = []
    for identity in reading.identities:
        if identity.bare:
            if leave_bare:
                continue
            meaning = _meaning(identity, tables)
            if isinstance(meaning, NotGovernable):
                return meaning
            if not meaning:
                continue
        if identity.span is None:
            return NotGovernable(f"`{identity.name}` stands where it cannot be bound to the user")
        text = literal
        if identity.output and named:
            # Spark's own names: a word without brackets is shown as the function that it stands for.
            name = "current_user" if identity.bare else identity.name
            text = f"{literal} AS {quote(name + '()')}"
        splices.append(Splice(span=identity.span, text=text, kind="value", query=text))
    return tuple(splices)


def _meaning(identity: Identity, tables: Sequence[Table | None]) -> bool | NotGovernable:
    """Whether a word without brackets is the function; False when it is a column for certain."""
    unclear = NotGovernable(
        f"`{identity.name}` may be a column or the function; write `{identity.name}()` for the function, "
        f"or put the table before the column"
    )
    known = [table for table in tables if table is not None]
    if any(identity.name == column.name.lower() for table in known for column in table.columns):
        # With one query, every relation is in sight of every name.
        return unclear if identity.nested or len(known) < len(tables) else False
    if not identity.sure or len(known) < len(tables):
        return unclear
    if any(identity.name in column.type.lower() for table in known for column in table.columns):
        return unclear  # a field of a struct becomes a column by `s.*` or `inline`
    return True
