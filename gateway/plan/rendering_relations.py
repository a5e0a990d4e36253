"""Relations of a plan as one would write them in PySpark: `spark.table("t").filter(…).select(…)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.plan.reading import Message
from gateway.plan.rendering_expressions import (
    MAX_ITEMS,
    VALUE,
    Piece,
    Pieces,
    code,
    data_type,
    each,
    expression,
    expressions,
    joined,
    listed,
    literal,
    now,
    order,
    quoted,
    sql_text,
)
from gateway.plan.rendering_sources import SOURCES, entry, names, sql, wrapped

_HOW = {2: "full", 3: "left", 4: "right", 5: "left_anti", 6: "left_semi", 7: "cross"}


def relation(message: Message, references: dict[int, Message]) -> Piece:
    """Return the piece of a `Relation`; what stands beside one goes into `references`."""
    case = message.WhichOneof("rel_type")
    if case is None:
        return "<nothing>"
    body = getattr(message, case)
    call = _CALLS.get(case)
    if call is not None:
        return [body.input, joined(call(body))]
    render = _CASES.get(case)
    if render is not None:
        return render(body)
    if case == "with_relations":
        return _with_relations(body, references)
    return body


def _with_relations(body: Message, references: dict[int, Message]) -> Piece:
    if body.root.WhichOneof("rel_type") != "sql":
        references.update((reference.common.plan_id, reference) for reference in body.references)
        return body.root
    named: Pieces = []
    for reference in body.references[:MAX_ITEMS]:
        if reference.WhichOneof("rel_type") == "subquery_alias":
            alias = reference.subquery_alias
            named.append((_keyword, alias.alias, alias.input))
        else:
            references[reference.common.plan_id] = reference
    return sql(body.root.sql, named)


def _keyword(name: str, value: Piece) -> Pieces:
    return [f"{name}=", value]


# -------------------------------------------------------------------- relations with two inputs


def _join(join: Message) -> Piece:
    if join.join_type == 7 and not join.using_columns and not join.HasField("join_condition"):
        return [join.left, ".crossJoin(", join.right, ")"]
    pieces: Pieces = [join.left, ".join(", join.right]
    using = join.using_columns
    if using:
        pieces.append(f", {names(using)}" if len(using) == 1 else f", [{names(using)}]")
    elif join.HasField("join_condition"):
        pieces += [", ", expression(join.join_condition, VALUE)]
    how = _HOW.get(join.join_type)
    if how is not None:
        pieces.append(f', how="{how}"')
    return [*pieces, ")"]


def _lateral(join: Message) -> Piece:
    pieces: Pieces = [join.left, ".lateralJoin(", join.right]
    if join.HasField("join_condition"):
        pieces += [", ", expression(join.join_condition, VALUE)]
    how = _HOW.get(join.join_type)
    return [*pieces, f', how="{how}")' if how else ")"]


def _as_of(join: Message) -> Piece:
    pieces: Pieces = [join.left, "._joinAsOf(", join.right, ", ", expression(join.left_as_of, VALUE), ", ",
                      expression(join.right_as_of, VALUE)]  # fmt: skip
    if join.using_columns:
        pieces.append(f", on=[{names(join.using_columns)}]")
    elif join.HasField("join_expr"):
        pieces += [", on=", expression(join.join_expr, VALUE)]
    if join.HasField("tolerance"):
        pieces += [", tolerance=", expression(join.tolerance, VALUE)]
    exact = "" if join.allow_exact_matches else ", allowExactMatches=False"
    return [*pieces, f", how={quoted(join.join_type)}, direction={quoted(join.direction)}{exact})"]


def _nearest(join: Message) -> Piece:
    return [join.left, ".nearestByJoin(", join.right, ", ", expression(join.ranking_expression, VALUE),
            f", numResults={join.num_results}, how={quoted(join.join_type)})"]  # fmt: skip


def _zip(both: Message) -> Piece:
    return [both.left, ".zip(", both.right, ")"]


def _set_op(operation: Message) -> Piece:
    kind, every = operation.set_op_type, operation.is_all
    after = ")"
    if operation.by_name:
        method = "unionByName"
        after = ", allowMissingColumns=True)" if operation.allow_missing_columns else ")"
    elif kind == 2:
        method, after = "union", ")" if every else ").distinct()"
    elif kind == 1:
        method = "intersectAll" if every else "intersect"
    else:
        method = "exceptAll" if every else "subtract"
    return [operation.left_input, f".{method}(", operation.right_input, after]


def _co_group(body: Message) -> Piece:
    return [body.input, ".groupBy(", *expressions(body.input_grouping_expressions), ").cogroup(", body.other,
            ".groupBy(", *expressions(body.other_grouping_expressions), ")).applyInPandas(", code(body.func),
            ")"]  # fmt: skip


# -------------------------------------------------------------------- relations with one input: its calls


def _project(body: Message) -> Pieces:
    return [".select(", *expressions(body.expressions), ")"]


def _filter(body: Message) -> Pieces:
    condition = body.condition
    if condition.WhichOneof("expr_type") == "expression_string":
        return [".filter(", sql_text(condition.expression_string.expression), ")"]
    return [".filter(", now(condition, VALUE), ")"]


def _sort(body: Message) -> Pieces:
    method = ".sortWithinPartitions(" if body.HasField("is_global") and not body.is_global else ".orderBy("
    return [method, *listed(order(item) for item in body.order[:MAX_ITEMS]), ")"]


def _aggregate(body: Message) -> Pieces:
    keys = expressions(body.grouping_expressions)
    pieces: Pieces
    match body.group_type:
        case 2:
            pieces = [".rollup(", *keys, ")"]
        case 3:
            pieces = [".cube(", *keys, ")"]
        case 5:
            sets = [(wrapped, "[", expressions(item.grouping_set), "]") for item in body.grouping_sets]
            pieces = [".groupingSets([", *listed(sets), "]", *([", ", *keys] if keys else ()), ")"]
        case _:
            pieces = [".groupBy(", *keys, ")"] if keys else []
    if body.HasField("pivot"):
        pivot = body.pivot
        pieces += [".pivot(", expression(pivot.col)]
        if pivot.values:
            pieces += [", [", *listed(literal(value) for value in pivot.values[:MAX_ITEMS]), "]"]
        pieces.append(")")
    return [*pieces, ".agg(", *expressions(body.aggregate_expressions), ")"]


def _deduplicate(body: Message) -> Pieces:
    method = "dropDuplicatesWithinWatermark" if body.within_watermark else "dropDuplicates"
    if body.all_columns_as_keys or not body.column_names:
        return [".distinct()" if not body.within_watermark else f".{method}()"]
    return [f".{method}([{names(body.column_names)}])"]


def _drop(body: Message) -> Pieces:
    named = [quoted(name) for name in body.column_names[:MAX_ITEMS]]
    return [".drop(", *listed([*each(body.columns), *named]), ")"]


def _sample(body: Message) -> Pieces:
    again = "withReplacement=True, " if body.with_replacement else ""
    seed = f", seed={body.seed}" if body.HasField("seed") else ""
    return [f".sample({again}fraction={body.upper_bound - body.lower_bound:g}{seed})"]


def _repartition(body: Message) -> Pieces:
    method = "coalesce" if body.HasField("shuffle") and not body.shuffle else "repartition"
    return [f".{method}({body.num_partitions})"]


def _repartition_by(body: Message) -> Pieces:
    count = [str(body.num_partitions)] if body.HasField("num_partitions") else []
    return [".repartition(", *listed([*count, *each(body.partition_exprs)]), ")"]


def _show(body: Message) -> Pieces:
    truncate = "" if body.truncate == 20 else f", truncate={body.truncate}"
    return [f".show({body.num_rows}{truncate}{', vertical=True' if body.vertical else ''})"]


def _with_columns(body: Message) -> Pieces:
    aliases = body.aliases
    if len(aliases) == 1:
        return [f".withColumn({names(aliases[0].name)}, ", now(aliases[0].expr, VALUE), ")"]
    pairs = [(entry, ".".join(alias.name), expression(alias.expr, VALUE)) for alias in aliases[:MAX_ITEMS]]
    return [".withColumns({", *listed(pairs), "})"]


def _renamed(body: Message) -> Pieces:
    pairs = [(rename.col_name, rename.new_col_name) for rename in body.renames[:MAX_ITEMS]]
    pairs += sorted(body.rename_columns_map.items())
    if len(pairs) == 1:
        return [f".withColumnRenamed({names(pairs[0])})"]
    return [f".withColumnsRenamed({{{', '.join([f'{quoted(old)}: {quoted(new)}' for old, new in pairs])}}})"]


def _hint(body: Message) -> Pieces:
    return [".hint(", *listed([quoted(body.name), *each(body.parameters)]), ")"]


def _unpivot(body: Message) -> Pieces:
    values = ["[", *expressions(body.values.values), "]"] if body.HasField("values") else ["None"]
    named = f", {quoted(body.variable_column_name)}, {quoted(body.value_column_name)})"
    return [".unpivot([", *expressions(body.ids), "], ", *values, named]


def _statistic(call: str) -> Callable[[Message], Pieces]:
    def render(body: Message) -> Pieces:
        return [f".{call}({names((body.col1, body.col2))})"]

    return render


def _cols(call: str) -> Callable[[Message], Pieces]:
    def render(body: Message) -> Pieces:
        return [f".{call}({names(body.cols)})"]

    return render


def _fill(body: Message) -> Pieces:
    subset = f", [{names(body.cols)}]" if body.cols else ""
    values = listed(literal(value) for value in body.values[:MAX_ITEMS])
    return [".fillna(", *(values if len(body.values) == 1 else ["[", *values, "]"]), f"{subset})"]


def _drop_na(body: Message) -> Pieces:
    least = [f"thresh={body.min_non_nulls}"] if body.HasField("min_non_nulls") else []
    subset = [f"subset=[{names(body.cols)}]"] if body.cols else []
    return [f".dropna({', '.join([*least, *subset])})"]


def _replace(body: Message) -> Pieces:
    pairs = [(_replacement, item) for item in body.replacements[:MAX_ITEMS]]
    return [".replace({", *listed(pairs), "}", f", subset=[{names(body.cols)}])" if body.cols else ")"]


def _replacement(item: Message) -> Pieces:
    return [literal(item.old_value), ": ", literal(item.new_value)]


def _sample_by(body: Message) -> Pieces:
    pairs = [(_stratum, item) for item in body.fractions[:MAX_ITEMS]]
    return [".sampleBy(", expression(body.col), ", {", *listed(pairs), "})"]


def _stratum(item: Message) -> Pieces:
    return [literal(item.stratum), f": {item.fraction!r}"]


def _quantile(body: Message) -> Pieces:
    listed_ = ", ".join([repr(item) for item in body.probabilities[:MAX_ITEMS]])
    return [f".approxQuantile([{names(body.cols)}], [{listed_}], {body.relative_error!r})"]


def _frequent(body: Message) -> Pieces:
    return [f".freqItems([{names(body.cols)}]{f', {body.support!r}' if body.HasField('support') else ''})"]


def _grouped(method: str) -> Callable[[Message], Pieces]:
    def render(body: Message) -> Pieces:
        return [".groupBy(", *expressions(body.grouping_expressions), f").{method}({code(body.func)})"]

    return render


_CALLS: Mapping[str, Callable[[Message], Pieces]] = {
    "aggregate": _aggregate,
    "apply_in_pandas_with_state": _grouped("applyInPandasWithState"),
    "approx_quantile": _quantile,
    "collect_metrics": lambda b: [f".observe({quoted(b.name)}, ", *expressions(b.metrics), ")"],
    "corr": _statistic("corr"),
    "cov": _statistic("cov"),
    "crosstab": _statistic("crosstab"),
    "deduplicate": _deduplicate,
    "describe": _cols("describe"),
    "drop": _drop,
    "drop_na": _drop_na,
    "fill_na": _fill,
    "filter": _filter,
    "freq_items": _frequent,
    "group_map": _grouped("applyInPandas"),
    "hint": _hint,
    "html_string": lambda b: [f".toHTML({b.num_rows})"],
    "limit": lambda b: [f".limit({b.limit})"],
    "map_partitions": lambda b: [f".mapInPandas({code(b.func)})"],
    "offset": lambda b: [f".offset({b.offset})"],
    "project": _project,
    "repartition": _repartition,
    "repartition_by_expression": _repartition_by,
    "replace": _replace,
    "sample": _sample,
    "sample_by": _sample_by,
    "show_string": _show,
    "sort": _sort,
    "subquery_alias": lambda b: [f".alias({quoted(b.alias)})"],
    "summary": lambda b: [f".summary({names(b.statistics)})"],
    "tail": lambda b: [f".tail({b.limit})"],
    "to_df": lambda b: [f".toDF({names(b.column_names)})"],
    "to_schema": lambda b: ['.to("', data_type(b.schema), '")'],
    "transpose": lambda b: [".transpose(", *expressions(b.index_columns), ")"],
    "unpivot": _unpivot,
    "with_columns": _with_columns,
    "with_columns_renamed": _renamed,
    "with_watermark": lambda b: [f".withWatermark({names((b.event_time, b.delay_threshold))})"],
}
"""Relations with one input, which is written before them."""

_CASES: Mapping[str, Callable[[Message], Piece]] = {
    **SOURCES,
    "as_of_join": _as_of,
    "co_group_map": _co_group,
    "join": _join,
    "lateral_join": _lateral,
    "nearest_by_join": _nearest,
    "set_op": _set_op,
    "zip": _zip,
}
