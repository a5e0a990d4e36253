"""EXECUTE IMMEDIATE: the statement in the text takes the place of the one that would have it run; and
IDENTIFIER of variables.

So it is judged, recorded and sent as if it had been sent by itself. Its text has to be known: a string,
strings put together, or a variable whose value this gateway has seen it get. Arguments are literals,
variables and what is computed of these, and take the places of their markers as Spark puts them there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gateway.model.catalog import quote_parts
from gateway.model.reading import (
    ExpressionNode,
    NotParsed,
    NotRead,
    Reading,
    ReadingAnswer,
    Span,
    Splice,
    read_tree,
)
from gateway.model.statement import SessionContext
from gateway.reader.port import ReaderPort
from gateway.sql import guard
from gateway.sql.call_texts import find_extent
from gateway.sql.functions import VARYING_BY_ROW, builtin_name
from gateway.sql.parameters import (
    ADJACENT,
    IMMEDIATE,
    constant_text,
    find_markers,
    is_null,
    parameter_refusal,
    stands_apart,
    write_string,
)
from gateway.sql.required import Unsupported
from gateway.sql.spark_errors import (
    build_into_refusal,
    build_mixed_parameters_refusal,
    build_no_constant_refusal,
    build_no_name_refusal,
    build_parameter_refusal,
    build_text_type_refusal,
    build_unnamed_parameters_refusal,
)

ROOT = IMMEDIATE
_MISPLACED = "UNEXPECTED_USE_OF_PARAMETER_MARKER"
MAX_NESTED = 8
"""How often a text may have another one run."""
_COMPUTED = (
    "the text of EXECUTE IMMEDIATE is not known before it runs: write it as a string, as strings with `||` "
    "between them, or as a variable that was given a string in this session"
)


async def write_immediate(
    text: str, reading: Reading, context: SessionContext, reader: ReaderPort
) -> str | NotParsed | NotRead | Unsupported:
    """Return the statement that a text has Spark run, with arguments in the places of its markers."""
    tree = reading.tree
    command = next((one for one in reading.commands if one.node == ROOT), None)
    if tree is None or tree.node != ROOT or command is None or not tree.children:
        return Unsupported("the text of EXECUTE IMMEDIATE could not be read")
    targets, arguments = command.fields.get("targetVariables"), command.fields.get("args")
    if not isinstance(targets, tuple) or not isinstance(arguments, tuple):
        return Unsupported("the parts of EXECUTE IMMEDIATE could not be read")
    if len(tree.children) != 1 + len(arguments) + len(targets):
        return Unsupported("the parts of EXECUTE IMMEDIATE could not be read")
    inner = constant_text(tree.children[0], dict(context.known_values))
    if inner is None and tree.children[0].node.endswith("Subquery"):
        return build_parameter_refusal(tree.children[0], text)
    if inner is None and tree.children[0].node == "Literal" and tree.children[0].type != "string":
        return build_text_type_refusal(tree.children[0].type)
    if inner is None:  # RULE (immediate-text-known)
        return Unsupported(_COMPUTED)
    if arguments:
        bound = await _bind(inner, text, tree.children[1 : 1 + len(arguments)], context, reader)
        if not isinstance(bound, str):
            return bound
        inner = bound
    if not targets:
        return inner
    into = [one.get("parts") if isinstance(one, Mapping) else None for one in targets]
    names = [quote_parts(tuple(map(str, parts))) for parts in into if isinstance(parts, tuple)]
    asked = await reader.read(inner)
    if not isinstance(asked, Reading):
        return asked
    if asked.commands:  # RULE (immediate-into-query)
        return build_into_refusal(inner)
    if len(names) != len(into):
        return Unsupported("EXECUTE IMMEDIATE … INTO takes the names of variables")
    return f"SET VARIABLE ({', '.join(names)}) = ({inner}\n)"


async def _bind(
    inner: str, text: str, arguments: Sequence[ExpressionNode], context: SessionContext, reader: ReaderPort
) -> str | NotParsed | NotRead | Unsupported:
    """Write values in the places of markers."""
    asked = await reader.read(inner)
    places = _list_places(asked, inner)
    if not isinstance(places, tuple):
        return places
    held = tuple(place.of(inner) for place in places)
    named = any(written.startswith(":") for written in held)
    if named and not all(written.startswith(":") for written in held):
        return build_mixed_parameters_refusal()
    values: dict[str, str] = {}
    unnamed: list[str] = []
    for number, argument in enumerate(arguments):
        given = argument.children[0] if argument.node == "Alias" and argument.children else argument
        if given.node.endswith("Subquery"):
            return build_parameter_refusal(given, text)
        value = await _write_value(given, text, context, reader)
        if isinstance(value, Unsupported):
            return value
        if value is None:  # RULE (immediate-arguments-literal)
            return Unsupported(
                "USING takes literals, variables of the session, and what is computed of these alone"
            )
        # A variable without an alias is called as it is.
        name = argument.parts[-1].lower() if argument.node in ("Alias", "UnresolvedAttribute") else ""
        if named and not name:
            unnamed.append(given.value if given.type == "string" and given.value is not None else value)
        values[name if named else str(number)] = value
    if unnamed:
        return build_unnamed_parameters_refusal(unnamed)
    splices = []
    for number, (place, written) in enumerate(zip(places, held, strict=True)):
        value = values.get(written[1:].strip("` ").lower() if named else str(number))
        if value is None:
            return Unsupported(f"the parameter marker `{written}` has no value; USING gives them")
        splices.append(Splice(span=place, text=value, kind="value"))
    return guard.apply(inner, splices)


def _list_places(asked: ReadingAnswer, inner: str) -> tuple[Span, ...] | NotParsed | NotRead | Unsupported:
    """Return where the markers of a text are: in values, as the parser has them, and elsewhere, as in
    IDENTIFIER(:x), by the words of the text."""
    if isinstance(asked, NotRead) or (isinstance(asked, NotParsed) and asked.error_class != _MISPLACED):
        return asked
    if isinstance(asked, Reading):
        found = tuple(marker.span for marker in asked.parameters if marker.span is not None)
        values = all(marker.value for marker in asked.parameters)
        if values and len(found) == len(asked.parameters):
            why = parameter_refusal(asked, stored=False)
            if why is not None:  # RULE (immediate-markers)
                return Unsupported(why)
            return found
    placed = tuple(find_markers(inner))
    if not all(stands_apart(place, inner) for place in placed):  # RULE (immediate-markers-apart)
        return Unsupported(ADJACENT)
    return placed


async def _write_value(
    node: ExpressionNode, text: str, context: SessionContext, reader: ReaderPort
) -> str | Unsupported | None:
    """Return an argument as it is written in the place of a marker: a variable as its string where that is
    known, as Spark writes it, or by its whole name, since the statement may have a column of its name. None
    for what is more than values and variables."""
    if node.node == "Literal" and node.span is not None:
        return node.span.of(text)
    if node.node == "Literal" and node.type == "boolean" and node.value in _TRUTHS:
        return node.value  # Spark has one of each, without a place
    extent = find_extent(node)
    if extent is None:
        return None
    written = extent.of(text)
    alone = await reader.read_expression(written)
    tree = read_tree(alone.tree_json) if isinstance(alone, Reading) and alone.tree_json is not None else None
    if tree is None or _leave_places_out(tree) != _leave_places_out(node):
        return None
    called = alone.functions if isinstance(alone, Reading) else ()
    # Written where its markers are, one would have as many values.
    if any(builtin_name(function.parts) in VARYING_BY_ROW for function in called):
        # RULE (immediate-arguments-once)
        return build_parameter_refusal(node, text)
    splices, known = [], dict(context.known_values)
    for one in _walk(tree):
        if one.plans or one.node in _MORE_THAN_VALUES:
            return None
        if one.node != "UnresolvedAttribute":
            continue
        *qualifier, name = (part.lower() for part in one.parts)
        of_session = qualifier in ([], ["session"], ["system", "session"])
        if one.span is None or not of_session or name not in context.variables:
            return None
        given = known.get(name)
        whole = quote_parts(("system", "session", name)) if given is None else write_string(given)
        splices.append(Splice(span=one.span, text=whole, kind="value"))
    return f"({guard.apply(written, splices)})" if tree.children else guard.apply(written, splices)


_TRUTHS = ("true", "false")
_MORE_THAN_VALUES = frozenset({"UnresolvedStar", "LambdaFunction", "NamedParameter", "PosParameter"})


def _walk(node: ExpressionNode) -> Iterator[ExpressionNode]:
    yield node
    for child in node.children:
        yield from _walk(child)


def _leave_places_out(node: ExpressionNode) -> ExpressionNode:
    children = tuple(_leave_places_out(child) for child in node.children)
    return replace(node, span=None, children=children)


async def write_known_names(
    text: str, reading: Reading, context: SessionContext, reader: ReaderPort
) -> str | Unsupported | None:
    """Return a text with the strings that the arguments of its IDENTIFIER clauses are, of variables and of
    strings put together; None where there are none."""
    known, whole = dict(context.known_values), reading.written or text
    splices = []
    for span in reading.identifiers:
        alone = await reader.read_expression(span.of(whole))
        tree = read_tree(alone.tree_json) if isinstance(alone, Reading) and alone.tree_json else None
        if tree is None or (tree.node == "Literal" and tree.type == "string"):
            continue
        if tree.node == "Literal":
            return build_no_name_refusal(span.of(whole), tree.type)
        name = constant_text(tree, known)
        if name is not None:
            splices.append(Splice(span=span, text=write_string(name), kind="value"))
        elif is_null(tree):
            return build_no_constant_refusal(span.of(whole), "NULL")
        elif any(one.plans for one in _walk(tree)):
            return build_no_constant_refusal(span.of(whole), "NOT_CONSTANT")
    return guard.apply(whole, splices) if splices else None
