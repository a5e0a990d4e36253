"""What a session of Spark's has that plans name by an id, once they have made it."""

from __future__ import annotations

from typing import Literal, NamedTuple

HandleKind = Literal["relation", "query", "function", "table_function", "data_source", "persisted"]


class SparkHandle(NamedTuple):
    """Something of one session of Spark's: a cached relation or a streaming query, by the id that Spark gave
    it; code that the session registered, by its name in lower case."""

    kind: HandleKind
    id: str


PERSISTED = SparkHandle("persisted", "")
"""Rows of DataFrames in Spark's cache, which finds them by their plans: all of a session are one."""


def functions_called(name: str) -> frozenset[SparkHandle]:
    """Return what a function of this name (lower case) that a session registered can be."""
    return frozenset({SparkHandle("function", name), SparkHandle("table_function", name)})
