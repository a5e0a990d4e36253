"""The names of columns that have no alias, where what is written into their items would change them.

Spark names such a column after its expression. Where the name of the user or the body of a function stands in
it, the item gets the alias that the column would have had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from gateway.model.catalog import quote
from gateway.model.reading import ExpressionNode, NotRead, Span, Splice, UnnamedColumn
from gateway.pipeline.judging import Judging
from gateway.sql.call_texts import FoundCall, find_extent
from gateway.sql.identity import IDENTITIES

_ITEM: Final = "sluice item"
_SELECT: Final = "SELECT "
_CALL: Final = "sluice call"
_DATED: Final = ("date", "timestamp", "interval", "time")


async def name_calls(text: str, calls: Sequence[FoundCall], judging: Judging) -> dict[int, str | None]:
    """Return what Spark calls each call within a column's name, by where it begins; None where that is not
    known."""
    names: dict[int, str | None] = {}
    for call in sorted(calls, key=lambda one: one.span.start, reverse=True):  # those within others first
        given = call.list_named_arguments()
        found = [await _name(text, argument, calls, names, judging) for argument in given]
        known = all(one is not None for one in found)
        whole = ".".join(call.function.name.parts)
        names[call.span.start] = f"{whole}({', '.join(map(str, found))})" if known else None
    return names


async def name_items(
    text: str,
    tree: ExpressionNode | None,
    calls: Sequence[FoundCall],
    names: Mapping[int, str | None],
    bound: Iterable[Splice],
    judging: Judging,
) -> tuple[tuple[Splice, ...], FoundCall | None]:
    """Return what gives columns their names, and a call in a column whose name is not known."""
    named_after = (call.item for call in calls if call.item is not None and not call.heads_column)
    items = {find_extent(item): item for item in named_after}
    places = [splice.span for splice in bound]
    for item in () if tree is None or not places else list_unnamed(tree):
        span = find_extent(item)
        if span is not None and any(span.start <= one.start and one.end <= span.end for one in places):
            items.setdefault(span, item)
    splices = []
    for span, item in items.items():
        if span is None or item.span is None:
            continue
        within = [call for call in calls if call.item is item]
        if span in places:
            continue  # it is named where the user's name is written
        title = await _name(text, item, within, names, judging)
        ends = _end_of_item(text, span)
        if title is None or ends is None:
            if within:
                return (), within[0]
            continue
        written = f"{quote(_ITEM)} AS {quote(title)}"
        parts = str(item.span.start), str(item.span.end), _ITEM
        place = Span(ends, ends)
        named = f" AS {quote(title)}"
        splices.append(Splice(span=place, text=named, kind="title", query=written, alias=title, parts=parts))
    return tuple(splices), None


def list_unnamed(plan: ExpressionNode) -> Iterator[ExpressionNode]:
    """Yield the items of select lists that have no alias, but for those of subqueries in expressions."""
    for one in plan.children:
        if one.node == "UnresolvedAlias":
            yield one.children[0]
    for one in plan.plans:
        yield from list_unnamed(one)


def _end_of_item(text: str, span: Span) -> int | None:
    """Return where an item ends, with the brackets around it."""
    start, end = span.start, span.end
    while text[:start].rstrip().endswith("(") and text[end:].lstrip().startswith(")"):
        start = len(text[:start].rstrip()) - 1
        end = len(text) - len(text[end:].lstrip()) + 1
    return None if text[:start].rstrip().endswith("(") else end


async def _name(
    text: str,
    node: ExpressionNode,
    calls: Sequence[FoundCall],
    names: Mapping[int, str | None],
    judging: Judging,
) -> str | None:
    """Return what Spark calls a column of an expression in which `calls` may stand."""
    extent = find_extent(node)
    if extent is None:
        return None
    if node.node == "UnresolvedAttribute":
        return node.parts[-1]
    written, known, plain = extent.of(text), dict[str, str | None](), True
    for call in sorted(calls, key=lambda one: one.span.start, reverse=True):
        start, end = call.span.start - extent.start, call.span.end - extent.start
        if start < 0 or end > len(written):
            continue
        if call.span == extent:
            return names.get(call.span.start)
        around = any(
            one is not call
            and extent.start <= one.span.start <= call.span.start
            and call.span.end <= one.span.end
            for one in calls
        )
        if around:
            continue
        hole = f"{_CALL} {len(known)}"
        written = f"{written[:start]}{quote(hole)}{written[end:]}"
        known[hole] = names.get(call.span.start)
        plain &= not any(word in call.function.view.returns[0][1].lower() for word in _DATED)
    told = await judging.reader.column_names(f"{_SELECT}{written}")
    whole = Span(len(_SELECT), len(_SELECT) + len(written))
    found = None if isinstance(told, NotRead) else next((one for one in told if one.span == whole), None)
    return None if found is None else _write(found, known, plain=plain)


def _write(column: UnnamedColumn, known: Mapping[str, str | None], *, plain: bool) -> str | None:
    """Return a column's name with those of the calls in it."""
    pieces = []
    others = False
    for piece in column.pieces:
        if isinstance(piece, str):
            pieces.append(piece)
        elif isinstance(piece, tuple) and len(piece) == 1 and piece[0] in known:
            named = known[piece[0]]
            if named is None:
                return None
            pieces.append(named)
        elif isinstance(piece, tuple) and len(piece) == 1:
            word = piece[0].lower()
            pieces.append("current_user()" if word in IDENTITIES else piece[0])
            others |= word not in IDENTITIES
        else:
            return None
    if (column.dated or column.plain) and (others or not plain):
        return None
    return "".join(pieces)
