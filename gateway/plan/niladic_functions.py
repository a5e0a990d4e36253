"""Words of a plan that are a column or ask who the user is: `user`, `current_user`, `session_user`.

Spark takes a column's name for the function of that name where the relation has no such column, and answers
the account that it runs as. What each word means column analysis has noted; what is not certain is refused.
"""

from __future__ import annotations

from gateway.plan.analyse import WordMeanings
from gateway.plan.identifiers import attribute_parts
from gateway.plan.reading import PlanReading
from gateway.sql.identity import IDENTITIES, IsIdentity, refuse_unclear
from gateway.sql.required import Unsupported
from gateway.wire.connect import Message


def find_meanings(message: Message, words: WordMeanings) -> IsIdentity:
    """Return what words mean in a message."""

    def find_meaning(name: str) -> bool | None:
        found = words.meanings.get((id(message), name), set())
        return next(iter(found)) if len(found) == 1 else None

    return find_meaning


def functions_among(
    reading: PlanReading, words: WordMeanings, *, followed: bool
) -> frozenset[int] | Unsupported:
    """Return the words, by the identity of their messages, that are functions. `followed`: column analysis
    was not silent about the plan."""
    found = set()
    for word in reading.words:
        text = word.unparsed_identifier if hasattr(word, "unparsed_identifier") else word.col_name
        name = (attribute_parts(text) or (text,))[0].lower()
        meaning = find_meanings(word, words)(name)
        if meaning is None:
            return refuse_unclear(name)
        if meaning:
            found.add(id(word))
    for name in {name.lower() for name in reading.names} & IDENTITIES:
        if not followed or name in words.not_columns:
            return refuse_unclear(name)
    return frozenset(found)
