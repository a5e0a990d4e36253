"""A plan as one would write it in PySpark: what the audit record shows of it, and what people search in it.

Any message of the schema has a rendering, those that nobody knows as `Name(field=…)`. It is the same for the
same message, in linear time, without recursion, and cut behind MAX_CHARACTERS. SQL texts, expressions and
literals appear whole; data that the client brings and its code only as what they are and how large. Ids of
plans and sessions do not appear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Never, cast

from google.protobuf.descriptor import FieldDescriptor

from gateway.plan import rendering_commands, rendering_relations, rendering_sources
from gateway.plan.rendering_expressions import (
    MAX_CHARACTERS,
    MAX_ITEMS,
    OPERAND,
    Piece,
    Pieces,
    data_type,
    expression,
    expressions,
    listed,
    literal,
    order,
    quoted,
    size,
)
from gateway.wire.connect import FieldValue, Message, pb

__all__ = ["MAX_CHARACTERS", "Rendering", "render", "rendered"]

CUT = "…"
_HIDDEN = frozenset(
    {"common", "plan_id", "session_id", "user_context", "operation_id", "client_type",
     "client_observed_server_side_session_id"}
)  # fmt: skip
"""Fields that say nothing of what is asked."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """A message as text, and where in it relations stand that read no other."""

    message: Message
    text: str
    _pieces: Sequence[str]
    _sources: Sequence[tuple[int, Message]]
    """Relations that are one piece, by its position."""

    def again(self) -> str:
        """Return the message's text now that nothing in it was changed but what stands in the places of
        relations that read no other: only these are rendered again."""
        if self.text.endswith(CUT):
            return render(self.message)
        pieces = list(self._pieces)
        for at, source in self._sources:
            pieces[at] = render(source)
        text = "".join(pieces)
        return text if len(text) <= MAX_CHARACTERS else _cut(text)


def render(message: Message) -> str:
    """Return a plan, an analysis of one, or any part of them as text."""
    return rendered(message).text


def rendered(message: Message) -> Rendering:
    """Return a plan, an analysis of one, or any part of them as text that can be brought up to date."""
    references: dict[int, pb.Relation] = {}
    written: list[str] = []
    sources: list[tuple[int, Message]] = []
    length = 0
    stack: Pieces = [message]
    while stack:
        piece = stack.pop()
        if isinstance(piece, str):
            written.append(piece)
            length += len(piece)
            if length > MAX_CHARACTERS:
                return Rendering(message, _cut("".join(written)), (), ())
            continue
        if isinstance(piece, list):
            piece.reverse()
            stack += piece
        elif isinstance(piece, tuple):
            stack.append(piece[0](*piece[1:]))
        else:
            if isinstance(piece, pb.Relation):
                made = rendering_relations.relation(piece, references)
                if isinstance(made, str):
                    sources.append((len(written), piece))
                stack.append(made)
            elif isinstance(piece, pb.SubqueryExpression):
                stack.append(_subquery(piece, references))
            else:
                write = cast("Callable[[Message], Piece]", _BY_NAME.get(piece.DESCRIPTOR.name, _fields))
                stack.append(write(piece))
    return Rendering(message, "".join(written), written, sources)


def _cut(text: str) -> str:
    return text[: MAX_CHARACTERS - 1] + CUT


# -------------------------------------------------------------------- messages that stand at the top


def _plan(plan: pb.Plan) -> Piece:
    match plan.WhichOneof("op_type"):
        case "root":
            return plan.root
        case "command":
            return plan.command
        case "compressed_operation":
            return f"<compressed plan, {size(plan.compressed_operation.data)}>"
    return "<empty plan>"


def _analyze(request: pb.AnalyzePlanRequest) -> Piece:
    case = request.WhichOneof("analyze")
    if case is None:
        return "<empty analysis>"
    analysis = getattr(request, case)
    if case == "same_semantics":
        return [analysis.target_plan, ".sameSemantics(", analysis.other_plan, ")"]
    if case == "explain":
        mode = _EXPLAIN_MODES.get(analysis.explain_mode, "")
        return [analysis.plan, f'.explain("{mode}")' if mode else ".explain()"]
    if case == "tree_string":
        return [analysis.plan, f".printSchema({analysis.level if analysis.HasField('level') else ''})"]
    if case == "spark_version":
        return "spark.version"
    called = _ANALYSES.get(case)
    if called is None:
        return _fields(analysis)
    return [analysis.relation if case in _OF_RELATIONS else analysis.plan, called]


_EXPLAIN_MODES = {2: "extended", 3: "codegen", 4: "cost", 5: "formatted"}
_ANALYSES = {
    "schema": ".schema",
    "is_local": ".isLocal()",
    "is_streaming": ".isStreaming",
    "input_files": ".inputFiles()",
    "semantic_hash": ".semanticHash()",
    "persist": ".persist()",
    "unpersist": ".unpersist()",
    "get_storage_level": ".storageLevel",
}
_OF_RELATIONS = frozenset({"persist", "unpersist", "get_storage_level"})


def _subquery(subquery: pb.SubqueryExpression, references: dict[int, pb.Relation]) -> Pieces:
    """Return a subquery with the relation that it refers to; one that appears again is not written again."""
    relation: Piece = references.pop(subquery.plan_id, "<subquery>")
    match subquery.subquery_type:
        case 1:
            return [relation, ".scalar()"]
        case 2:
            return [relation, ".exists()"]
        case 4:
            values = subquery.in_subquery_values
            left: Pieces = [expression(values[0], OPERAND)] if len(values) == 1 else [
                "F.struct(", *expressions(values), ")"]  # fmt: skip
            return [*left, ".isin(", relation, ")"]
        case 3:
            pieces: Pieces = [relation, ".asTable()"]
            options = subquery.table_arg_options
            if options.partition_spec:
                pieces += [".partitionBy(", *expressions(options.partition_spec), ")"]
            if options.order_spec:
                pieces += [".orderBy(", *listed(order(item) for item in options.order_spec[:MAX_ITEMS]), ")"]
            if options.with_single_partition:
                pieces.append(".withSinglePartition()")
            return pieces
    return [relation]


# -------------------------------------------------------------------- any other message


def _fields(message: Message) -> Pieces:
    """Return any message as its name and its fields."""
    pieces = [(_field, field, value) for field, value in message.ListFields() if field.name not in _HIDDEN]
    return [f"{message.DESCRIPTOR.name}(", *listed(pieces), ")"]


def _field(field: FieldDescriptor, value: FieldValue) -> Pieces:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        return [f"{field.name}={{", *listed((_entry, field, key, value[key]) for key in sorted(value)), "}"]
    if field.is_repeated:
        return [f"{field.name}=[", *listed(_value(field, item) for item in value[:MAX_ITEMS]), "]"]
    return [f"{field.name}=", _value(field, value)]


def _entry(field: FieldDescriptor, key: object, value: FieldValue) -> Pieces:
    shown = rendering_sources.option(str(key), value) if isinstance(value, str) else value
    return [f"{_scalar(key)}: ", shown if not isinstance(shown, (bytes, int, float)) else _scalar(shown)]


def _value(field: FieldDescriptor, value: FieldValue) -> Piece:
    if isinstance(value, Message):
        return value
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)
    return _scalar(value)


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bytes):
        return f"<{size(value)}>"
    return repr(value)


def _catalog(catalog: pb.Catalog) -> Piece:
    """Return `spark.catalog.listTables("db")`."""
    case = catalog.WhichOneof("cat_type")
    if case is None:
        return "spark.catalog"
    pieces = [
        _value(field, value) if at == 0 and isinstance(value, str) else (_field, field, value)
        for at, (field, value) in enumerate(getattr(catalog, case).ListFields())
    ]
    return [f"spark.catalog.{camel_case(case)}(", *listed(pieces), ")"]


def camel_case(name: str) -> str:
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name)


def _schema_of(message: pb.DataType) -> Piece:
    return ['"', data_type(message), '"']


_BY_NAME: Mapping[str, Callable[[Never], Piece]] = {
    "Plan": _plan,
    "AnalyzePlanRequest": _analyze,
    "Command": rendering_commands.command,
    "Expression": expression,
    "Literal": literal,
    "SortOrder": order,
    "DataType": _schema_of,
    "Catalog": _catalog,
}
