"""Turns the parser process's JSON into the model's values, and splices into JSON.

The process is ours, but a reply is still checked by use: a missing field raises KeyError, which the pool
treats as a broken process.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.model.reading import (
    Argument,
    ColumnRef,
    CommandNode,
    DatedName,
    ExtractedValue,
    FieldValue,
    FunctionCallSite,
    FunctionRef,
    Identity,
    NamePieces,
    NotParsed,
    NotRead,
    Parameter,
    Proof,
    Reading,
    ReadingAnswer,
    Relation,
    RelationForm,
    RelationRole,
    ScriptPart,
    ScriptReading,
    Span,
    Splice,
    UnnamedColumn,
    ViewText,
)
from gateway.model.spark_configuration import parsers_in

JsonReply = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Hello:
    """What a parser process says of itself before the first request."""

    spark_version: str
    extensions: tuple[str, ...]
    """Classes whose parsers stand before Spark's, in the order of `spark.sql.extensions`."""
    parsers: tuple[str, ...]
    """What a text goes through, the innermost first; see `parsers_in`."""
    functions: frozenset[str]
    """Those of Spark and of the extensions; so the table functions."""
    internal_functions: frozenset[str]
    table_functions: frozenset[str]
    keywords: tuple[str, ...]
    """Every word of the grammar, in the order that Spark tells them."""


def hello_of(reply: JsonReply) -> Hello:
    return Hello(
        reply["spark"],
        tuple(reply["extensions"]),
        parsers_in((name, line) for name, line in reply["parsers"]),
        frozenset(reply["functions"]),
        frozenset(reply["internal_functions"]),
        frozenset(reply["table_functions"]),
        tuple(reply["keywords"]),
    )


def build_reading(reply: JsonReply, hello: Hello) -> ReadingAnswer:
    kind = reply["kind"]
    if kind == "rejected":
        parameters = tuple(sorted(reply["parameters"].items()))
        return NotParsed(
            reply["message"],
            reply["error_class"],
            reply["sqlstate"],
            parameters,
            tuple(reply["exceptions"]),
        )
    if kind == "answer":
        return _build_reading(reply, hello)
    return not_read_of(reply)


_HOLE = re.compile("\ue000([0-9]+)\ue001")
"""Where a reference stands in the name of a column."""


def column_names_of(reply: JsonReply) -> tuple[UnnamedColumn, ...]:
    """Return the names of columns; none of a text that the parser has no reading of."""
    if reply["kind"] != "answer":
        return ()
    return tuple(_column_name(told) for told in reply["names"])


def script_of(reply: JsonReply) -> ScriptReading | NotRead | None:
    """Return what a script is made of; None of a text that is no script, or that the parser rejects."""
    if reply["kind"] == "rejected":
        return None
    if reply["kind"] != "answer":
        return not_read_of(reply)
    if not reply["script"]:
        return None
    return ScriptReading(
        parts=tuple(
            ScriptPart(
                kind=part["kind"],
                span=Span(*part["span"]),
                lead=part["lead"],
                cut=part["cut"],
                alone=part["alone"],
                repeats=part["repeats"],
                loops=tuple(part["loops"]),
            )
            for part in reply["parts"]
        ),
        skeleton=reply["skeleton"],
        targets=tuple(map(tuple, reply["targets"])),
        strange=tuple(reply["strange"]),
    )


def _column_name(told: JsonReply) -> UnnamedColumn:
    start, end = told["span"]
    return UnnamedColumn(
        span=Span(start, end),
        pieces=_name_pieces(told),
        cast=told["cast"],
        plain=told["plain"],
        dated=tuple(
            DatedName(tuple((tuple(each["parts"]), each["kind"]) for each in one["where"]), _name_pieces(one))
            for one in told["dated"]
        ),
    )


def _name_pieces(told: JsonReply) -> NamePieces:
    found = _HOLE.split(told["name"])
    return tuple(
        _hole(told["holes"][int(piece)]) if i % 2 else piece
        for i, piece in enumerate(found)
        if i % 2 or piece
    )


def _hole(told: JsonReply) -> tuple[str, ...] | ExtractedValue:
    parts = tuple(told["parts"])
    return ExtractedValue(parts, told["key"]) if "key" in told else parts


def not_read_of(reply: JsonReply) -> NotRead:
    """Return why the parser has no reading of a text, and says nothing against it."""
    kind = reply["kind"]
    if kind == "two_readings":
        return NotRead("TWO_READINGS", f"the statement is ambiguous: {reply['message']}")
    if kind == "parser_failed":
        return NotRead("PARSER_FAILED", reply["message"])
    if kind == "too_deep":
        return NotRead("TOO_DEEP", "the statement is nested deeper than Spark's parser supports")
    raise KeyError(kind)


def _build_reading(reply: JsonReply, hello: Hello) -> Reading:
    return Reading(
        root=reply["root"],
        nodes=frozenset(reply["nodes"]),
        expressions=frozenset(reply["expressions"]),
        relations=tuple(_relation(told) for told in reply["relations"]),
        columns=tuple(
            ColumnRef(parts=tuple(told["parts"]), span=_span(told["span"]), star=told["star"])
            for told in reply["columns"]
        ),
        functions=tuple(_function(told, hello) for told in reply["functions"]),
        commands=tuple(
            CommandNode(
                node=told["node"],
                fields={name: _field(value) for name, value in told["fields"].items()},
                span=_span(told["span"]),
            )
            for told in reply["commands"]
        ),
        subquery_aliases=frozenset(reply["aliases"]),
        identifiers=tuple(Span(start, end) for start, end in reply["identifiers"]),
        calls=tuple(
            FunctionCallSite(
                parts=tuple(told["parts"]), table_valued=told["table_valued"], span=_span(told["span"])
            )
            for told in reply["calls"]
        ),
        doubled_quotes=reply["doubled_quotes"],
        parameters=tuple(
            Parameter(span=_span(told["span"]), value=told["value"], apart=told["apart"])
            for told in reply["parameters"]
        ),
        identities=tuple(_identity(told) for told in reply["identities"]),
        printed=reply["printed"],
        tree_json=reply["tree"],
        brought=reply["brought"],
        view_text=_view_text(reply["view_text"]),
        written=reply["written"],
    )


def proof_of(reply: JsonReply) -> Proof:
    kind = reply["kind"]
    if kind == "answer":
        return Proof(holds=reply["holds"] is True, why=reply["why"])
    if kind == "rejected":
        return Proof(holds=False, why=f"the rewritten text cannot be parsed: {reply['message']}")
    not_read = not_read_of(reply)
    return Proof(holds=False, why=not_read.message)


def proof_request(
    original: str,
    rewritten: str,
    splices: Sequence[Splice],
    allowed: Collection[tuple[str, ...]],
    *,
    expression: bool,
) -> JsonReply:
    return {
        "expression": expression,
        "original": original,
        "rewritten": rewritten,
        "splices": [
            {
                "start": splice.span.start,
                "end": splice.span.end,
                "kind": splice.kind,
                "query": splice.query,
                "alias": splice.alias,
                "parts": splice.parts,
            }
            for splice in splices
        ],
        "allowed": list(allowed),
    }


def _relation(told: JsonReply) -> Relation:
    return Relation(
        parts=tuple(told["parts"]),
        role=RelationRole(told["role"]),
        node=told["node"],
        holder=told["holder"],
        span=_span(told["span"]),
        form=RelationForm(told.get("form", "bare")),
        whole=_span(told.get("whole")),
        suffix=_span(told.get("suffix")),
        sample=_span(told.get("sample")),
        options=tuple(told["options"]),
        alias=_span(told.get("alias")),
    )


def _function(told: JsonReply, hello: Hello) -> FunctionRef:
    parts = tuple(told["parts"])
    table_valued = told["table_valued"]
    registry = hello.table_functions if table_valued else hello.functions
    builtin = len(parts) == 1 and parts[0].lower() in registry
    arguments = tuple(
        Argument(
            literal=a["literal"],
            call=a["call"],
            keys=None if a["keys"] is None else tuple(a["keys"]),
            other=a["other"],
            parameter=a["parameter"],
        )
        for a in told["arguments"]
    )
    return FunctionRef(
        parts=parts, table_valued=table_valued, builtin=builtin, arguments=arguments, start=told["start"]
    )


def _identity(told: JsonReply) -> Identity:
    return Identity(
        name=told["name"],
        span=_span(told["span"]),
        output=told["output"],
        bare=told["bare"],
        sure=told["sure"],
        nested=told["nested"],
        column=told["column"],
    )


def _view_text(told: JsonReply | None) -> ViewText | None:
    query = None if told is None else _span(told["query"])
    if told is None or query is None:
        return None
    properties = tuple(Span(one[0], one[1]) for one in told["properties"])
    return ViewText(query=query, place=_span(told["place"]), properties=properties)


def _span(told: list[int] | None) -> Span | None:
    return None if told is None else Span(told[0], told[1])


def _field(value: Any) -> FieldValue:
    if isinstance(value, list):
        return tuple(_field(item) for item in value)
    if isinstance(value, dict):
        return {key: _field(item) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a field of a command is a {type(value).__name__}")
