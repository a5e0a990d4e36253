"""Delta's change feed, `table_changes('db.t', …)`: which table each call reads, and what stands for the call.

A call is a scan of its table with three columns more, guarded as the table is: a row before a change and the
row after it pass the filter each by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from gateway.model.catalog import TableKind, TableName, quote
from gateway.model.reading import FunctionRef, Relation, Span, Splice
from gateway.sql.required import Unsupported

FUNCTION: Final = "table_changes"
"""The table function of Delta that shows what was changed in a table, by its name in a string."""
_PLACE: Final = "sluice argument"
"""Begins what arguments are called in what is written; `find_calls` refuses texts that have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFeed(Relation):
    """One call that reads a feed; `whole` is all of the call."""

    arguments: tuple[Span, ...]
    called: str
    """What its rows are called where no alias is written; else empty."""


def is_changes(function: FunctionRef) -> bool:
    """Whether a function is Delta's table function of changes."""
    return function.table_valued and len(function.parts) == 1 and function.parts[0].lower() == FUNCTION


def feed_source(feed: ChangeFeed, name: TableName) -> str:
    """Write what stands after FROM for a feed, with a place for each of the user's arguments."""
    places = ", ".join(quote(place) for place in _places(feed))
    return f"{FUNCTION}({places}) AS {quote(name.table)}"


def write_feed(feed: ChangeFeed, query: str) -> tuple[Splice, ...] | Unsupported:
    """Return what is written around the arguments of a call, which stay the user's: `query` has a place for
    each."""
    whole = feed.whole
    if whole is None:
        return Unsupported(
            f"row filters, masks or hidden columns of {'.'.join(feed.parts)} cannot be written around "
            f"{FUNCTION} in this place; read it in a query by itself, with literals for its versions"
        )
    rest = f"({query})" + (f" AS {quote(feed.called)}" if feed.called else "")
    pieces = []
    for place in _places(feed):
        piece, _, rest = rest.partition(quote(place))
        pieces.append(piece)
    pieces.append(rest)
    starts = (whole.start, *(one.end for one in feed.arguments))
    ends = (*(one.start for one in feed.arguments), whole.end)
    found = [
        Splice(span=Span(start, end), text=piece, kind="end")
        for start, end, piece in zip(starts, ends, pieces, strict=True)
    ]
    places = tuple(_places(feed))
    found[0] = replace(found[0], kind="call", query=query, alias=feed.called, parts=places)
    return tuple(found)


def explain_no_feed(name: TableName, kind: TableKind, provider: str | None) -> Unsupported | None:
    """Say that a table has no change feed, if it cannot have one."""
    if kind is TableKind.TABLE and (provider or "").lower() == "delta":
        return None
    return Unsupported(f"{name} is not a Delta table: {FUNCTION} reads the change feed of Delta tables")


def _places(feed: ChangeFeed) -> list[str]:
    return [f"{_PLACE} feed {at}" for at in range(len(feed.arguments))]
