"""Calls of SQL functions written out: the query that Spark would run for a call stands in its place.

Spark makes the arguments columns of a row, cast to the types of the parameters, and the body a subquery over
them. So does what is written here, with a body that is guarded for who calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from gateway.model.catalog import TableName, ViewBody, quote
from gateway.model.reading import ExpressionNode, Reading, Span, Splice
from gateway.policy.masks import QUALIFIER
from gateway.sql.guard import BARRIER
from gateway.sql.required import Unsupported
from gateway.sql.spark_errors import build_arguments_refusal

MAX_CHARS: Final = 4_194_304
"""Of the bodies that are written into one text."""
_PLACE: Final = "sluice argument"
"""Begins what arguments are called in what is written, which no text of a user's has in it."""
_VALUE: Final = "its value"
_ROWS: Final = "its rows"
_GAP: Final = re.compile(r"\s+|--[^\n]*(?:\n|\Z)|/\*(?:[^*]|\*(?!/))*\*/|[(),]|=>|\w+|`[^`]*`")
_PADDED: Final = re.compile(r"\b(?:var)?char\s*\(", re.IGNORECASE)
_NO_VALUES: Final = ("UnresolvedStar", "FunctionTableSubqueryArgumentExpression")
_NAMED: Final = "NamedArgumentExpression"
_SUBQUERIES: Final = ("Subquery", "Exists", "ListQuery")
_CALLS: Final = ("UnresolvedFunction", "UnresolvedTableValuedFunction")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedFunction:
    """A function whose body is another for who calls than the one that Spark has."""

    name: TableName
    view: ViewBody
    body: str
    """As it is for who calls."""
    lends: bool
    """Whether who calls may not select by himself all that it reads: no condition on what it gives may go
    into it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCall:
    """One call in a text."""

    function: GuardedFunction
    span: Span
    arguments: tuple[tuple[str, ExpressionNode, Span], ...]
    """Each with the parameter that it is for, in the order in which they are written."""
    item: ExpressionNode | None = None
    """The item of a select list, without an alias, that it stands in: Spark names a column after it."""
    alias: str = ""
    """Of rows: what they are called where nothing else is written."""

    @property
    def is_table(self) -> bool:
        return self.function.view.is_table

    @property
    def heads_column(self) -> bool:
        """Whether it is an item by itself."""
        return self.item is not None and self.item.span == self.span

    def list_named_arguments(self) -> tuple[ExpressionNode, ...]:
        """Return the arguments in the order of the parameters, as Spark names a column after them."""
        places = [name.lower() for name, _ in self.function.view.parameters]
        return tuple(node for _, node, _ in sorted(self.arguments, key=lambda one: places.index(one[0])))


@dataclass(slots=True)
class _CallWalk:
    """What stands around the calls of a tree."""

    calls: dict[int, tuple[ExpressionNode, ExpressionNode | None]] = field(default_factory=dict)
    """By where the name begins: the call, and the item without an alias that it stands in."""
    aliased: set[int] = field(default_factory=set)
    """Where the names of rows begin that have an alias."""
    within: bool = False
    """Whether it is in a subquery of an expression, whose columns nobody names."""


def find_calls(
    text: str, reading: Reading, functions: Mapping[tuple[tuple[str, ...], bool], GuardedFunction]
) -> tuple[FoundCall, ...] | Unsupported:
    """Return every call of some functions. `functions`: by the parts as written, and whether it gives rows.

    A call that is not found where the parser has its name is refused, and so the text.
    """
    tree = reading.tree
    if _PLACE in text.lower() or tree is None:  # RULE (call-argument-names)
        return refuse_call(next(iter(functions.values())), "in this text")
    walk = _CallWalk()
    _note(tree, walk, None)
    found = []
    for site in reading.calls:
        function = functions.get((site.parts, site.table_valued))
        if function is None:
            continue
        none = None, None
        node, item = none if site.span is None else walk.calls.get(site.span.start, none)
        if site.span is None or node is None:  # RULE (unplaced-body-call)
            return refuse_call(function, "in this place")
        call = _read_call(text, site.span, node, function)
        if isinstance(call, Unsupported):
            return call
        bare = function.view.is_table and site.span.start not in walk.aliased
        found.append(
            FoundCall(
                function=function,
                span=call[0],
                arguments=call[1],
                item=item,
                alias=site.parts[-1] if bare else "",
            )
        )
    unique = {call.span.start: call for call in found}
    return tuple(unique.values())


def _note(node: ExpressionNode, walk: _CallWalk, item: ExpressionNode | None) -> None:
    """Note the calls within a node, which stands in an item of a select list."""
    if node.node == "UnresolvedAlias" and not walk.within:
        item = node.children[0]
    elif node.node == "Alias":
        item = None
    if node.node in _CALLS and node.span is not None:
        walk.calls[node.span.start] = node, item
    if node.node == "SubqueryAlias" and node.plans:
        inner = node.plans[0]
        if inner.node == "UnresolvedTVFAliases" and inner.plans:  # `f(1) AS t(a, b)`
            inner = inner.plans[0]
        if inner.node == "UnresolvedTableValuedFunction" and inner.span is not None:
            walk.aliased.add(inner.span.start)
    for child in node.children:
        _note(child, walk, item)
    within = walk.within
    walk.within |= item is not None or node.node.endswith(_SUBQUERIES)
    for plan in node.plans:
        _note(plan, walk, None)
    walk.within = within


def _read_call(
    text: str, name: Span, node: ExpressionNode, function: GuardedFunction
) -> tuple[Span, tuple[tuple[str, ExpressionNode, Span], ...]] | Unsupported:
    """Return where a call stands, and its arguments by their parameters."""
    given = _arguments(node, function)
    if isinstance(given, Unsupported):
        return given
    end = _find_end(text, name.end, [span for _, _, span in given])
    if end is None:
        return refuse_call(function, "in this form")
    return Span(name.start, end), given


def _arguments(
    node: ExpressionNode, function: GuardedFunction
) -> tuple[tuple[str, ExpressionNode, Span], ...] | Unsupported:
    parameters = [name.lower() for name, _ in function.view.parameters]
    if node.value is None and (wrong := _explain_arguments(node, function)) is not None:
        return wrong
    found: list[tuple[str, ExpressionNode, Span]] = []
    for at, child in enumerate(node.children):
        argument, name = child, parameters[at] if at < len(parameters) else ""
        if child.node == _NAMED:
            argument, name = child.children[0], child.parts[0].lower() if child.parts else ""
        span = find_extent(argument)
        if span is None or argument.node in _NO_VALUES:
            return refuse_call(function, "with such an argument")
        if name not in parameters or any(name == one for one, _, _ in found):
            return refuse_call(function, "with these arguments")
        found.append((name, argument, span))
    given = {name for name, _, _ in found}
    for name, default in zip(parameters, function.view.defaults, strict=True):
        if name not in given and not default:
            return refuse_call(function, "without all of its arguments")
    return tuple(found)


def _explain_arguments(node: ExpressionNode, function: GuardedFunction) -> Unsupported | None:
    """Say what Spark says of arguments that do not fit the parameters."""
    parameters = [name.lower() for name, _ in function.view.parameters]
    required = [not default for default in function.view.defaults]
    given = [one.parts[0].lower() if one.node == _NAMED and one.parts else "" for one in node.children]
    named = [name for name in given if name]
    refuse = partial(build_arguments_refusal, function.name.parts, parameters)
    positional = len(given) - len(named)
    if not named:
        fits = sum(required[positional:]) == 0 and positional <= len(parameters)
        return None if fits else refuse("WRONG_NUM_ARGS.WITHOUT_SUGGESTION", actual=positional)
    if "" in given[given.index(named[0]) :]:
        return refuse("UNEXPECTED_POSITIONAL_ARGUMENT", named[0])
    for at, name in enumerate(named):
        if name in named[:at]:
            return refuse("DUPLICATE_ROUTINE_PARAMETER_ASSIGNMENT.DOUBLE_NAMED_ARGUMENT_REFERENCE", name)
        if name in parameters[:positional]:
            return refuse("DUPLICATE_ROUTINE_PARAMETER_ASSIGNMENT.BOTH_POSITIONAL_AND_NAMED", name)
        if name not in parameters:
            return refuse("UNRECOGNIZED_PARAMETER_NAME", name)
    rest = zip(parameters[positional:], required[positional:], strict=True)
    missing = next((name for name, needed in rest if needed and name not in named), None)
    return None if missing is None else refuse("REQUIRED_PARAMETER_NOT_FOUND", missing)


def find_extent(node: ExpressionNode) -> Span | None:
    """Return where an expression stands with all that is in it. Of `x IS NULL` Spark tells where IS is."""
    spans = [span for child in node.children if (span := find_extent(child)) is not None]
    spans += [] if node.span is None else [node.span]
    if not spans:
        return None
    return Span(min(span.start for span in spans), max(span.end for span in spans))


def _find_end(text: str, start: int, arguments: Sequence[Span]) -> int | None:
    """Return where the brackets behind a function's name end; None where something unknown stands in them."""
    at, depth = start, 0
    spans = iter((*arguments, Span(len(text), len(text))))
    following = next(spans)
    while at < len(text):
        if at == following.start:
            at, following = following.end, next(spans)
            continue
        token = _GAP.match(text, at)
        if token is None or token.end() > following.start:
            return None
        at = token.end()
        depth += (token[0] == "(") - (token[0] == ")")
        if depth == 0 and token[0] in "()":
            return at if following.start == len(text) else None
    return None


def write_calls(
    calls: Sequence[FoundCall], titles: Mapping[int, str], *, bare: bool
) -> tuple[Splice, ...] | Unsupported:
    """Write what Spark would run over each call. `titles`: what their columns are called, by where they
    begin."""
    splices: list[Splice] = []
    left = MAX_CHARS
    for number, call in enumerate(calls):
        function, view = call.function, call.function.view
        left -= len(function.body)
        if left < 0:  # RULE (called-bodies-chars)
            return refuse_call(function, f"so often: that is more than {MAX_CHARS:,} characters")
        padded = any(_PADDED.search(kind) for _, kind in (*view.parameters, *view.returns))
        if padded or not view.returns:
            return refuse_call(function, "with such types")
        # RULE (called-rows-barrier)
        if function.lends and call.is_table and any(_refers(node) for _, node, _ in call.arguments):
            return Unsupported(
                f"the function {function.name} reads what you may not select by yourself, and its "
                "arguments depend on columns: call it with constants"
            )
        title = titles.get(call.span.start, "")
        splices += _write_call(call, f"{_PLACE} {number}", title, bare=bare)
    return tuple(splices)


def _write_call(call: FoundCall, place: str, title: str, *, bare: bool) -> Iterator[Splice]:
    before, after = _around(call, place, bare=bare)
    view = call.function.view
    head, tail = f"{before}(SELECT ", f") AS {quote(call.function.name.table)}{_names(call)}{after}"
    if title:
        tail += f" AS {quote(title)}"
    types = {name.lower(): kind for name, kind in call.function.view.parameters}
    pieces = [head]
    places = []
    for at, (name, _, _) in enumerate(call.arguments):
        pieces[-1] += "CAST("
        pieces.append(f" AS {types[name]}) AS {quote(f'{place} {at}')}, ")
        places.append(f"{place} given {at}")
    given = {name for name, _, _ in call.arguments}
    rest = [
        f"CAST({default} AS {kind}) AS {quote(f'{place} {name}')}"
        for (name, kind), default in zip(view.parameters, view.defaults, strict=True)
        if name.lower() not in given
    ]
    pieces[-1] = (pieces[-1] + ", ".join(rest)).removesuffix(", ")
    if not call.function.view.parameters:
        pieces[-1] += f"1 AS {quote(f'{place} 0')}"
    pieces[-1] += tail
    whole = pieces[0] + "".join(quote(one) + piece for one, piece in zip(places, pieces[1:], strict=True))
    alias = title
    if call.is_table:
        alias = call.alias
        pieces[0] = f"({pieces[0]}"
        pieces[-1] += f") AS {quote(alias)}" if alias else ")"
    gaps = [
        call.span.start,
        *(at for _, _, span in call.arguments for at in (span.start, span.end)),
        call.span.end,
    ]
    for number, piece in enumerate(pieces):
        span = Span(gaps[2 * number], gaps[2 * number + 1])
        if number:
            yield Splice(span=span, text=piece, kind="end")
        else:
            yield Splice(span=span, text=piece, kind="call", query=whole, alias=alias, parts=tuple(places))


def words_of(text: str, splices: Sequence[Splice]) -> Iterator[tuple[str, str]]:
    """Yield what stands for calls and what the user wrote there, for messages."""
    for splice in splices:
        yield splice.text, splice.span.of(text)


def _names(call: FoundCall) -> str:
    """Write the names of the columns that the arguments are, in the order in which they are written."""
    written = {name.lower(): name for name, _ in call.function.view.parameters}
    names = [written[name] for name, _, _ in call.arguments]
    names += [name for name in written.values() if name not in names]
    return f"({', '.join(map(quote, names))})" if names else ""


def _around(call: FoundCall, place: str, *, bare: bool) -> tuple[str, str]:
    """Return what stands before and behind the row of arguments. A scalar subquery is a bracket by itself; of
    rows the query alone is returned."""
    view, body = call.function.view, call.function.body
    if view.is_table:
        columns = [f"{place} column {at}" for at in range(len(view.returns))]
        shown = ", ".join(
            f"CAST({quote(_ROWS)}.{quote(one)} AS {kind}) AS {quote(name)}"
            for one, (name, kind) in zip(columns, view.returns, strict=True)
        )
        rows = f", LATERAL (\n{body}\n) AS {quote(_ROWS)}({', '.join(map(quote, columns))})"
        if call.function.lends:  # RULE (function-barrier)
            barrier = BARRIER.format(period=0)
            return f"SELECT * FROM (SELECT {shown} FROM ", f"{rows}) {barrier} AS {quote(_ROWS)}"
        return f"SELECT {shown} FROM ", rows
    value = f"CAST((\n{body}\n) AS {view.returns[0][1]})"
    if call.function.lends:  # RULE (called-value-barrier)
        # INVARIANT (a view lends no more than its rows): of a function that is called with columns Spark
        # makes a join with all that its body reads, and tries conditions on what it would give for other
        # arguments. It tries none of them below an aggregate.
        builtin = "" if bare else QUALIFIER
        named = quote(_VALUE)
        return (
            f"(SELECT {builtin}any_value({named}) FROM (SELECT {value} AS {named} FROM ",
            ") AS `its values`)",
        )
    return f"(SELECT {value} FROM ", ")"


def _refers(node: ExpressionNode) -> bool:
    """Whether an expression is not made of literals alone."""
    if not node.children:
        return node.node != "Literal"
    return bool(node.plans) or any(map(_refers, node.children))


def refuse_call(function: GuardedFunction, where: str) -> Unsupported:
    """Refuse a call that cannot be written out, and say where it stands."""
    return Unsupported(
        f"the function {function.name} asks who you are, or reads what is masked, filtered or hidden for "
        f"you, and its body cannot be written out {where}; a view of the same query is governed"
    )


def ask_for_alias(function: GuardedFunction) -> Unsupported:
    """Refuse a call in a column that Spark names after it."""
    return Unsupported(
        f"the function {function.name} is written out where it is called, since policies hold on what it "
        "reads: give the column an alias, as in `… AS name`"
    )
