"""Relations of a plan that read no other: tables, SQL texts, data that the client brings, functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Never

from gateway.plan.rendering_expressions import (
    MAX_ITEMS,
    VALUE,
    Piece,
    Pieces,
    code,
    each,
    expression,
    expressions,
    listed,
    literal,
    quoted,
    size,
    sql_text,
)
from gateway.wire.connect import pb

_SECRET = re.compile(r"(?i)secret|password|passwd|token|credential|access[._-]?key|private[._-]?key")
"""Keys of options whose values are not for a record; Spark redacts by nearly the same pattern."""
_SECRET_WITHIN = re.compile(r"(?i)((?:password|passwd|secret|token|key)\w*=)[^&;,\s]*")
"""A secret in the address of a database: `jdbc:…;password=…`."""


def option(key: str, value: str) -> str:
    """Return an option's value as it may be shown."""
    return '"***"' if _SECRET.search(key) else quoted(_SECRET_WITHIN.sub(r"\1***", value))


def options(pairs: Mapping[str, str]) -> str:
    """Return options as calls, in the order of their names."""
    return "".join([f".option({quoted(key)}, {option(key, pairs[key])})" for key in sorted(pairs)])


def names(strings: Sequence[str]) -> str:
    return ", ".join([quoted(name) for name in strings[:MAX_ITEMS]])


def _read(read: pb.Read) -> Piece:
    spark = "spark.readStream" if read.is_streaming else "spark.read"
    match read.WhichOneof("read_type"):
        case "named_table":
            table = read.named_table
            if not table.options and not read.is_streaming:
                return f"spark.table({quoted(table.unparsed_identifier)})"
            return f"{spark}{options(table.options)}.table({quoted(table.unparsed_identifier)})"
        case "data_source":
            source = read.data_source
            text = spark
            if source.HasField("format"):
                text += f".format({quoted(source.format)})"
            if source.HasField("schema"):
                text += f".schema({sql_text(source.schema)})"
            predicates = f", predicates=[{names(source.predicates)}]" if source.predicates else ""
            return f"{text}{options(source.options)}.load({names(source.paths)}{predicates})"
    return spark


def _changes(changes: pb.RelationChanges) -> Piece:
    spark = "spark.readStream" if changes.is_streaming else "spark.read"
    return f"{spark}{options(changes.options)}.changes({quoted(changes.unparsed_identifier)})"


def sql(relation: pb.SQL, named: Pieces | None = None) -> Piece:
    text = sql_text(relation.query)
    pieces: Pieces = []
    old, new = relation.args, relation.named_arguments
    if old or new:
        pairs = [(entry, key, literal(old[key])) for key in sorted(old)]
        pairs += [(entry, key, expression(new[key], VALUE)) for key in sorted(new)]
        pieces.append((wrapped, "args={", listed(pairs), "}"))
    if relation.pos_args or relation.pos_arguments:
        values = [*map(literal, relation.pos_args), *each(relation.pos_arguments, VALUE)]
        pieces.append((wrapped, "args=[", listed(values), "]"))
    pieces += named or ()
    if not pieces:
        return f"spark.sql({text})"
    return [f"spark.sql({text}, ", *listed(pieces), ")"]


def entry(key: str, value: Piece) -> Pieces:
    return [f"{quoted(key)}: ", value]


def wrapped(before: str, pieces: Pieces, after: str) -> Pieces:
    return [before, *pieces, after]


def _local(local: pb.LocalRelation) -> Piece:
    schema = f", schema={sql_text(local.schema)}" if local.schema else ""
    return f"spark.createDataFrame(<{size(local.data)} of Arrow>{schema})"


def _range(range_: pb.Range) -> Piece:
    start = range_.start if range_.HasField("start") else 0
    return f"spark.range({start}, {range_.end}, {range_.step})"


def _function(call: pb.UnresolvedTableValuedFunction) -> Piece:
    return [f"spark.tvf.{call.function_name}(", *expressions(call.arguments), ")"]


def _table_function(call: pb.CommonInlineUserDefinedTableFunction) -> Piece:
    return [code(call), "(", *expressions(call.arguments), ")"]


def _source(source: pb.CommonInlineUserDefinedDataSource) -> Piece:
    return f"<python data source {source.name}, {size(source.python_data_source.command)}>"


def _parts(relation: pb.ChunkedCachedLocalRelation) -> Piece:
    return f"spark.createDataFrame(<{len(relation.dataHashes)} parts sent before>)"


SOURCES: Mapping[str, Callable[[Never], Piece]] = {
    "cached_local_relation": lambda _: "spark.createDataFrame(<data sent before>)",
    "cached_remote_relation": lambda _: "<result kept in the session>",
    "catalog": lambda body: body,
    "chunked_cached_local_relation": _parts,
    "common_inline_user_defined_data_source": _source,
    "common_inline_user_defined_table_function": _table_function,
    "local_relation": _local,
    "range": _range,
    "read": _read,
    "relation_changes": _changes,
    "sql": sql,
    "unresolved_table_valued_function": _function,
}
