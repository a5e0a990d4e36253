"""A plan as one would write it in PySpark: what the audit record shows of it, and what people search in it.

Any message of the schema has a rendering: by its template, or as `Name(field=…)`. It is the same for the
same message, in linear time, without recursion, and cut behind MAX_CHARACTERS. SQL texts, expressions and
literals appear whole; data that the client brings and its code only as what they are and how large. Ids of
plans and sessions do not appear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Never, cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from gateway.plan.classify import short_name
from gateway.plan.rendering_expressions import NAME, OPERAND, VALUE, expression, now, order, receiver
from gateway.plan.rendering_values import (
    MAX_CHARACTERS,
    MAX_ITEMS,
    Rendered,
    RenderedPieces,
    bare,
    join_with_commas,
    literal,
    quote_text,
    scalar,
    schema,
    sql_text,
)
from gateway.wire.connect import AnyFieldValue, Message, descriptor_of, pb

__all__ = ["MAX_CHARACTERS", "Rendering", "render", "render_message"]

CUT = "…"
_SQL_TEXTS = frozenset({"SQL.query", "SqlCommand.sql"})
_SECRET = re.compile(r"(?i)secret|password|passwd|token|credential|access[._-]?key|private[._-]?key")
"""Keys of options whose values are not for a record; Spark redacts by nearly the same pattern."""
_SECRET_WITHIN = re.compile(r"(?i)((?:password|passwd|secret|token|key)\w*=)[^&;,\s]*")
"""A secret in the address of a database: `jdbc:…;password=…`."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """A message as text, and where in it relations stand that read a table."""

    message: Message
    text: str
    _pieces: Sequence[str]
    _reads: Sequence[tuple[int, Message]]
    """Relations that are one piece, by its position."""

    def update_text(self) -> str:
        """Return the message's text now that nothing in it was changed but what stands in the places of
        relations that read a table: only these are rendered again."""
        if self.text.endswith(CUT):
            return render(self.message)
        pieces = list(self._pieces)
        for at, read in self._reads:
            pieces[at] = render(read)
        text = "".join(pieces)
        return text if len(text) <= MAX_CHARACTERS else _cut(text)


def render(message: Message) -> str:
    """Return a plan, an analysis of one, or any part of them as text."""
    return render_message(message).text


def render_message(message: Message) -> Rendering:
    """Return a plan, an analysis of one, or any part of them as text that can be brought up to date."""
    references: dict[int, pb.Relation] = {}
    written: list[str] = []
    reads: list[tuple[int, Message]] = []
    length = 0
    stack: RenderedPieces = [message]
    while stack:
        piece = stack.pop()
        kind = type(piece)  # exact classes alone stand here, and asking for them is quicker
        if isinstance(piece, str):
            written.append(piece)
            length += len(piece)
            if length > MAX_CHARACTERS:
                return Rendering(message, _cut("".join(written)), (), ())
        elif isinstance(piece, list):
            piece.reverse()
            stack += piece
        elif isinstance(piece, tuple):
            stack.append(piece[0](*piece[1:]))
        elif kind is pb.Relation:
            relation = cast("pb.Relation", piece)
            case = relation.WhichOneof("rel_type")
            if case == "read":
                reads.append((len(written), relation))
            if case == "with_relations":
                stack.append(_with_relations(relation.with_relations, references))
            else:
                stack.append("<nothing>" if case is None else getattr(relation, case))
        elif kind is pb.SubqueryExpression:
            stack.append(_subquery(cast("pb.SubqueryExpression", piece), references))
        else:
            stack.append(_WRITE.get(kind, _by_template)(piece))
    return Rendering(message, "".join(written), written, reads)


def _cut(text: str) -> str:
    return text[: MAX_CHARACTERS - 1] + CUT


# -------------------------------------------------------------------- templates


@dataclass(frozen=True, slots=True)
class _Slot:
    """A field's place in a template."""

    before: str
    """The keyword."""
    how: int
    raw: bool
    """Whether a name stands there without quotes."""
    many: bool
    """Whether the values of a repeated field stand there without brackets."""
    field: FieldDescriptor
    name: str
    repeated: bool
    optional: bool
    follows: bool
    """Whether a comma stands before it."""
    first: bool
    """Whether it is what the call is made on."""


@dataclass(frozen=True, slots=True)
class _Template:
    parts: Sequence[str | _Slot]
    fields: frozenset[str]
    """Those with a place of their own, and those that are never told."""
    others: bool
    """Whether other fields are told behind the last part."""
    end: str


@cache
def _template(descriptor: Descriptor) -> _Template:
    text = TEMPLATES.get(short_name(descriptor.full_name), f"{descriptor.name}()")
    end = ")" if text.endswith(")") else ""
    parts: list[str | _Slot] = []
    found = re.split(r"(\w+=)?\{([*.!]?)(\w+)\}", text.removesuffix(end))
    for at in range(0, len(found), 4):
        words = found[at]
        if words.removesuffix(", "):
            parts.append(words.removesuffix(", "))
        if at + 1 < len(found):
            before, sigil, name = found[at + 1 : at + 4]
            field = descriptor.fields_by_name[name]
            parts.append(
                _Slot(
                    before=before or "",
                    how={"*": NAME, ".": OPERAND}.get(sigil, VALUE),
                    raw=sigil == "!",
                    many=sigil == "*",
                    field=field,
                    name=name,
                    repeated=field.is_repeated,
                    optional=field.has_presence,
                    follows=words.endswith(", "),
                    first=not parts,
                )
            )
    named = {part.name for part in parts if isinstance(part, _Slot)} | UNSAID
    others = end != "" and not named.issuperset(descriptor.fields_by_name)
    return _Template(tuple(parts), frozenset(named), others, end)


def _by_template(message: Message) -> RenderedPieces:
    template = _template(descriptor_of(message))
    pieces: RenderedPieces = []
    comma = False
    for part in template.parts:
        if isinstance(part, str):
            pieces.append(part)
            comma = False
            continue
        shown = _render_field(message, part)
        if shown is not None:
            if part.before or (comma and part.follows):
                pieces.append(f"{', ' if comma and part.follows else ''}{part.before}")
            pieces += shown if isinstance(shown, list) else (shown,)
            comma = True
    if template.others:
        for field, value in message.ListFields():
            if field.name not in template.fields and _is_rendered(field, value):
                pieces += [f"{', ' if comma else ''}{camel_case(field.name)}=", _value(field, value, VALUE)]
                comma = True
    pieces.append(template.end)
    return pieces


def _is_rendered(field: FieldDescriptor, value: AnyFieldValue) -> bool:
    if value is True or value is False:
        return value is not (short_name(field.full_name) in TRUE_UNLESS_SAID)
    return True


def _render_field(message: Message, slot: _Slot) -> Rendered | None:
    """Return the piece of a field in its place, None if nothing stands there."""
    field = slot.field
    if slot.optional and not message.HasField(slot.name):
        return "<nothing>" if slot.first else None
    value: AnyFieldValue = getattr(message, slot.name)
    if slot.repeated:
        if not value:
            return None
        return join_with_commas(_items(value)) if slot.many else _value(field, value, NAME)
    if isinstance(value, Message):
        if not isinstance(value, pb.Expression):
            return value
        return receiver(value) if slot.first else now(value, slot.how)
    if slot.raw:
        return bare(value) if field.enum_type is None else camel_case(_render_enum(field.enum_type, value))
    if field.enum_type is not None and not value:
        return None
    return _value(field, value, slot.how)


def _value(field: FieldDescriptor, value: AnyFieldValue, how: int) -> Rendered:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        return ["{", *join_with_commas(_entry(key, value[key]) for key in sorted(value)), "}"]
    if field.is_repeated:
        return ["[", *join_with_commas(_items(value)), "]"]
    if isinstance(value, pb.Expression):
        return now(value, how)
    if isinstance(value, Message):
        return value
    if field.enum_type is not None:
        return quote_text(_render_enum(field.enum_type, value))
    return sql_text(value) if short_name(field.full_name) in _SQL_TEXTS else scalar(value)


def _items(values: Sequence[AnyFieldValue]) -> Iterable[Rendered]:
    for value in values[:MAX_ITEMS]:
        if isinstance(value, pb.Expression):
            yield now(value)
        elif isinstance(value, Message):
            yield value
        else:
            yield scalar(value)


def _entry(key: object, value: AnyFieldValue) -> RenderedPieces:
    if isinstance(value, pb.Expression):
        return [scalar(key), ": ", expression(value, VALUE)]
    if isinstance(value, str):
        secret = _SECRET.search(str(key))
        return [scalar(key), ": ", '"***"' if secret else quote_text(_SECRET_WITHIN.sub(r"\1***", value))]
    return [scalar(key), ": ", value if isinstance(value, Message) else scalar(value)]


def _render_enum(enum: EnumDescriptor, number: int) -> str:
    known = enum.values_by_number.get(number)
    if known is None:
        return str(number)
    return known.name.removeprefix(_find_enum_prefix(enum.name)).lower()


@cache
def _find_enum_prefix(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper() + "_"


def camel_case(name: str) -> str:
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name)


# -------------------------------------------------------------------- what no template says


def _one_of(oneof: str) -> Callable[[Message], Rendered]:
    """Return what renders a message that is nothing but what its oneof holds."""

    def write(message: Message) -> Rendered:
        case = message.WhichOneof(oneof)
        return f"<empty {message.DESCRIPTOR.name}>" if case is None else getattr(message, case)

    return write


def _command(command: pb.Command) -> Rendered:
    case = command.WhichOneof("command_type")
    body: Message = getattr(command, case) if case is not None else command
    if case in ("register_function", "register_table_function", "register_data_source"):
        return [f"spark.{camel_case(case)}(", body, ")"]
    if isinstance(body, pb.SqlCommand) and body.HasField("input"):
        return body.input
    return _by_template(command) if case is None else body


def _catalog(catalog: pb.Catalog) -> Rendered:
    """Return `spark.catalog.listTables("db")`."""
    case = catalog.WhichOneof("cat_type")
    if case is None:
        return "spark.catalog"
    pieces: RenderedPieces = []
    for field, value in getattr(catalog, case).ListFields():
        named = [] if not pieces and isinstance(value, str) else [f"{camel_case(field.name)}="]
        pieces.append([*named, _value(field, value, VALUE)])
    return [f"spark.catalog.{camel_case(case)}(", *join_with_commas(pieces), ")"]


def _read(read: pb.Read) -> Rendered:
    """Return one text: whoever guards a table replaces just this."""
    case = read.WhichOneof("read_type")
    text = "spark.read" if case is None else render(getattr(read, case))
    return f"spark.readStream.{re.sub('^spark[.](read[.])?', '', text)}" if read.is_streaming else text


def _with_relations(body: pb.WithRelations, references: dict[int, pb.Relation]) -> Rendered:
    """Return a relation whose subqueries `references` hold from now on; views stand behind a SQL text."""
    views: RenderedPieces = []
    for reference in body.references[:MAX_ITEMS]:
        if body.root.WhichOneof("rel_type") == "sql" and reference.HasField("subquery_alias"):
            alias = reference.subquery_alias
            views += [f", {bare(alias.alias)}=", alias.input]
        else:
            references[reference.common.plan_id] = reference
    return [*_by_template(body.root.sql)[:-1], *views, ")"] if views else body.root


def _subquery(subquery: pb.SubqueryExpression, references: dict[int, pb.Relation]) -> RenderedPieces:
    """Return a subquery with the relation that it refers to; one that appears again is not written again."""
    relation: Rendered = references.pop(subquery.plan_id, "<subquery>")
    match subquery.subquery_type:
        case 1:
            return [relation, ".scalar()"]
        case 2:
            return [relation, ".exists()"]
        case 3:
            options: RenderedPieces = (
                [subquery.table_arg_options] if subquery.HasField("table_arg_options") else []
            )
            return [relation, ".asTable(", *options, ")"]
        case 4:
            values = join_with_commas(
                now(value, OPERAND) for value in subquery.in_subquery_values[:MAX_ITEMS]
            )
            left = values if len(values) == 1 else ["F.struct(", *values, ")"]
            return [*left, ".isin(", relation, ")"]
    return [relation]


_BY_TYPE: Mapping[type[Message], Callable[[Never], Rendered]] = {
    pb.AnalyzePlanRequest: _one_of("analyze"),
    pb.Catalog: _catalog,
    pb.Command: _command,
    pb.DataType: schema,
    pb.Expression: expression,
    pb.Expression.Literal: literal,
    pb.Expression.SortOrder: order,
    pb.Plan: _one_of("op_type"),
    pb.Read: _read,
}
# Called with a message of their class only.
_WRITE = cast("Mapping[type, Callable[[Message], Rendered]]", _BY_TYPE)


# -- How messages of a plan are written: a row for each that PySpark's users know under another form ---
# A row is text with places for fields: `{f}` is the value of field f, `{*f}` one that may be a column's
# name instead of a Column, or many without brackets, `{.f}` a Column where Python's own values may stand,
# and `{!f}` a name without quotes. What is not set leaves out its place, with its keyword and its comma.
# Behind the last place in a row that ends in a bracket stand all other fields that are set, as keywords; a
# row that ends in none shows what it names and no more. A message without a row is `Name(field=…)`.


TEMPLATES: Mapping[str, str] = {
    # -------------------------------------------------------------------- relations that read no other
    "CachedLocalRelation": "spark.createDataFrame(<data sent before>)",
    "CachedRemoteRelation": "<result kept in the session>",
    "ChunkedCachedLocalRelation": "spark.createDataFrame(<parts sent before>)",
    "LocalRelation": "spark.createDataFrame({data}, schema={schema})",
    "Range": "spark.range({start}, {end}, {step})",
    "Read.DataSource": "spark.read.format({format}).load({*paths})",
    "Read.NamedTable": "spark.table({unparsed_identifier})",
    "RelationChanges": "spark.read.changes({unparsed_identifier})",
    "SQL": "spark.sql({query}, args={args}, args={named_arguments}, args={pos_args}, args={pos_arguments})",
    "UnresolvedTableValuedFunction": "spark.tvf({function_name}, {*arguments})",
    # -------------------------------------------------------------------- relations of others
    "Aggregate": "{input}.{!group_type}({*grouping_expressions}, {pivot}, {grouping_sets})"
    ".agg({*aggregate_expressions})",
    "Aggregate.GroupingSets": "{grouping_set}",
    "Aggregate.Pivot": "Pivot({col}, {values})",
    "ApplyInPandasWithState": "{input}.groupBy({*grouping_expressions}).applyInPandasWithState({func})",
    "AsOfJoin": "{left}._joinAsOf({right}, {left_as_of}, {right_as_of}, on={using_columns}, on={join_expr})",
    "CoGroupMap": "{input}.groupBy({*input_grouping_expressions})"
    ".cogroup({other}, {*other_grouping_expressions}).applyInPandas({func})",
    "CollectMetrics": "{input}.observe({name}, {*metrics})",
    "Deduplicate": "{input}.dropDuplicates({column_names})",
    "Drop": "{input}.drop({*columns}, {*column_names})",
    "Filter": "{input}.filter({*condition})",
    "GroupMap": "{input}.groupBy({*grouping_expressions}).applyInPandas({func})",
    "Hint": "{input}.hint({name}, {*parameters})",
    "HtmlString": "{input}.toHTML({num_rows})",
    "Join": "{left}.join({right}, {join_condition}, {*using_columns}, how={join_type})",
    "LateralJoin": "{left}.lateralJoin({right}, {join_condition}, how={join_type})",
    "Limit": "{input}.limit({limit})",
    "MapPartitions": "{input}.mapInPandas({func})",
    "NADrop": "{input}.dropna(thresh={min_non_nulls}, subset={cols})",
    "NAFill": "{input}.fillna({*values}, {cols})",
    "NAReplace": "{input}.replace({replacements}, subset={cols})",
    "NAReplace.Replacement": "{old_value}: {new_value}",
    "NearestByJoin": "{left}.nearestByJoin({right}, {ranking_expression})",
    "Offset": "{input}.offset({offset})",
    "Project": "{input}.select({*expressions})",
    "Repartition": "{input}.repartition({num_partitions})",
    "RepartitionByExpression": "{input}.repartition({num_partitions}, {*partition_exprs})",
    "Sample": "{input}.sample()",
    "SetOperation": "{left_input}.{!set_op_type}({right_input})",
    "ShowString": "{input}.show({num_rows})",
    "Sort": "{input}.orderBy({*order})",
    "StatApproxQuantile": "{input}.approxQuantile({cols}, {probabilities}, {relative_error})",
    "StatCorr": "{input}.corr({col1}, {col2})",
    "StatCov": "{input}.cov({col1}, {col2})",
    "StatCrosstab": "{input}.crosstab({col1}, {col2})",
    "StatDescribe": "{input}.describe({*cols})",
    "StatFreqItems": "{input}.freqItems({cols}, {support})",
    "StatSampleBy": "{input}.sampleBy({*col}, {fractions})",
    "StatSampleBy.Fraction": "{stratum}: {fraction}",
    "StatSummary": "{input}.summary({*statistics})",
    "SubqueryAlias": "{input}.alias({alias})",
    "Tail": "{input}.tail({limit})",
    "ToDF": "{input}.toDF({*column_names})",
    "ToSchema": "{input}.to({schema})",
    "Transpose": "{input}.transpose({*index_columns})",
    "Unpivot": "{input}.unpivot({ids}, {values}, {variable_column_name}, {value_column_name})",
    "Unpivot.Values": "{values}",
    "WithColumns": "{input}.withColumns({*aliases})",
    "WithColumnsRenamed": "{input}.withColumnsRenamed({*renames})",
    "WithColumnsRenamed.Rename": "{col_name}: {new_col_name}",
    "WithWatermark": "{input}.withWatermark({event_time}, {delay_threshold})",
    "Zip": "{left}.zip({right})",
    # -------------------------------------------------------------------- expressions
    "CallFunction": "F.call_function({function_name}, {*arguments})",
    "CommonInlineUserDefinedDataSource": "data_source({name}, {python_data_source})",
    "CommonInlineUserDefinedFunction": "udf({function_name}, {python_udf}, {scalar_scala_udf}, {java_udf})"
    "({*arguments})",
    "CommonInlineUserDefinedTableFunction": "udtf({function_name}, {python_udtf})({*arguments})",
    "Expression.Alias": "{expr}.alias({*name})",
    "Expression.Cast": "{expr}.cast({type}, {type_str})",
    "Expression.UnresolvedExtractValue": "{child}[{.extraction}]",
    "Expression.UnresolvedRegex": "df.colRegex({col_name})",
    "Expression.Window": "{window_function}.over(partitionBy={partition_spec}, orderBy={order_spec})",
    "Expression.Window.WindowFrame": "{!frame_type}({lower}, {upper})",
    "JavaUDF": "java {!class_name}",
    "MergeAction": "{!action_type}({condition}, {*assignments})",
    "MergeAction.Assignment": "{*key}: {value}",
    "NamedArgumentExpression": "{!key}={*value}",
    "PythonDataSource": "python {command}",
    "PythonUDF": "python {command}",
    "PythonUDTF": "python {command}",
    "ScalarScalaUDF": "scala {payload}",
    # -------------------------------------------------------------------- commands
    "CheckpointCommand": "{relation}.checkpoint()",
    "CreateDataFrameViewCommand": "{input}.createTempView({name})",
    "MergeIntoTableCommand": "{source_table_plan}.mergeInto({target_table_name}, {merge_condition})",
    "SqlCommand": "spark.sql({sql}, args={args}, args={named_arguments}, args={pos_args}, "
    "args={pos_arguments})",
    "WriteOperation": "{input}.write({table}, format={source}, mode={mode})",
    "WriteOperation.SaveTable": "{!save_method}({table_name})",
    "WriteOperationV2": "{input}.writeTo({table_name}, mode={mode})",
    "WriteStreamOperationStart": "{input}.writeStream()",
    # -------------------------------------------------------------------- analyses
    "AnalyzePlanRequest.Explain": "{plan}.explain({explain_mode})",
    "AnalyzePlanRequest.GetStorageLevel": "{relation}.storageLevel",
    "AnalyzePlanRequest.InputFiles": "{plan}.inputFiles()",
    "AnalyzePlanRequest.IsLocal": "{plan}.isLocal()",
    "AnalyzePlanRequest.IsStreaming": "{plan}.isStreaming",
    "AnalyzePlanRequest.Persist": "{relation}.persist()",
    "AnalyzePlanRequest.SameSemantics": "{target_plan}.sameSemantics({other_plan})",
    "AnalyzePlanRequest.Schema": "{plan}.schema",
    "AnalyzePlanRequest.SemanticHash": "{plan}.semanticHash()",
    "AnalyzePlanRequest.SparkVersion": "spark.version",
    "AnalyzePlanRequest.TreeString": "{plan}.printSchema({level})",
    "AnalyzePlanRequest.Unpersist": "{relation}.unpersist()",
}

UNSAID = frozenset(
    {"client_observed_server_side_session_id", "client_type", "common", "dataHashes", "hash", "metadata",
     "operation_id", "plan_id", "relation_id", "schemaHash", "session_id", "user_context"}
)  # fmt: skip
"""Fields that say nothing of what is asked."""

TRUE_UNLESS_SAID = frozenset(
    {"AsOfJoin.allow_exact_matches", "CheckpointCommand.eager",
     "CommonInlineUserDefinedFunction.deterministic", "CommonInlineUserDefinedTableFunction.deterministic",
     "Repartition.shuffle", "Sort.is_global"}
)  # fmt: skip
"""Flags of which it is told when they are false; of all others when they are true."""
