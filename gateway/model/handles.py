"""What a session of Spark's has that plans name by an id, once they have made it."""

from __future__ import annotations

from typing import Literal, NamedTuple

HandleKind = Literal[
    "relation", "query", "function", "table_function", "reading_function", "data_source", "persisted"
]
"""`reading_function`: beside one of the two others, that the body of a temporary function reads tables."""


class SparkHandle(NamedTuple):
    """Something of one session of Spark's: a cached relation or a streaming query, by the id that Spark gave
    it; code that the session registered, by its name in lower case."""

    kind: HandleKind
    id: str


PERSISTED = SparkHandle("persisted", "")
"""Rows of DataFrames in Spark's cache, which finds them by their plans: all of a session are one."""


def mark_reading_function(name: str) -> SparkHandle:
    """Return what says that the body of a temporary function has the masks and filters of who made it."""
    return SparkHandle("reading_function", name)


def functions_called(name: str) -> frozenset[SparkHandle]:
    """Return what a function of this name (lower case) that a session registered can be."""
    return frozenset({SparkHandle("function", name), SparkHandle("table_function", name)})
