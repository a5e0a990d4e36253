"""Relations of a plan as one would write them in PySpark: `spark.table("t").filter(…).select(…)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Never

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
from gateway.wire.connect import Message, pb

_OfTwo = pb.StatCorr | pb.StatCov | pb.StatCrosstab
_Grouped = pb.ApplyInPandasWithState | pb.GroupMap

_HOW = {2: "full", 3: "left", 4: "right", 5: "left_anti", 6: "left_semi", 7: "cross"}


def relation(message: pb.Relation, references: dict[int, pb.Relation]) -> Piece:
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
    unknown: Message = body
    return unknown


def _with_relations(body: pb.WithRelations, references: dict[int, pb.Relation]) -> Piece:
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


def _join(join: pb.Join) -> Piece:
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


def _lateral(join: pb.LateralJoin) -> Piece:
    pieces: Pieces = [join.left, ".lateralJoin(", join.right]
    if join.HasField("join_condition"):
        pieces += [", ", expression(join.join_condition, VALUE)]
    how = _HOW.get(join.join_type)
    return [*pieces, f', how="{how}")' if how else ")"]


def _as_of(join: pb.AsOfJoin) -> Piece:
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


def _nearest(join: pb.NearestByJoin) -> Piece:
    return [join.left, ".nearestByJoin(", join.right, ", ", expression(join.ranking_expression, VALUE),
            f", numResults={join.num_results}, how={quoted(join.join_type)})"]  # fmt: skip


def _zip(both: pb.Zip) -> Piece:
    return [both.left, ".zip(", both.right, ")"]


def _set_op(operation: pb.SetOperation) -> Piece:
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


def _co_group(body: pb.CoGroupMap) -> Piece:
    return [body.input, ".groupBy(", *expressions(body.input_grouping_expressions), ").cogroup(", body.other,
            ".groupBy(", *expressions(body.other_grouping_expressions), ")).applyInPandas(", code(body.func),
            ")"]  # fmt: skip


# -------------------------------------------------------------------- relations with one input: its calls


def _project(body: pb.Project) -> Pieces:
    return [".select(", *expressions(body.expressions), ")"]


def _filter(body: pb.Filter) -> Pieces:
    condition = body.condition
    if condition.WhichOneof("expr_type") == "expression_string":
        return [".filter(", sql_text(condition.expression_string.expression), ")"]
    return [".filter(", now(condition, VALUE), ")"]


def _sort(body: pb.Sort) -> Pieces:
    method = ".sortWithinPartitions(" if body.HasField("is_global") and not body.is_global else ".orderBy("
    return [method, *listed(order(item) for item in body.order[:MAX_ITEMS]), ")"]


def _aggregate(body: pb.Aggregate) -> Pieces:
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


def _deduplicate(body: pb.Deduplicate) -> Pieces:
    method = "dropDuplicatesWithinWatermark" if body.within_watermark else "dropDuplicates"
    if body.all_columns_as_keys or not body.column_names:
        return [".distinct()" if not body.within_watermark else f".{method}()"]
    return [f".{method}([{names(body.column_names)}])"]


def _drop(body: pb.Drop) -> Pieces:
    named = [quoted(name) for name in body.column_names[:MAX_ITEMS]]
    return [".drop(", *listed([*each(body.columns), *named]), ")"]


def _sample(body: pb.Sample) -> Pieces:
    again = "withReplacement=True, " if body.with_replacement else ""
    seed = f", seed={body.seed}" if body.HasField("seed") else ""
    return [f".sample({again}fraction={body.upper_bound - body.lower_bound:g}{seed})"]


def _repartition(body: pb.Repartition) -> Pieces:
    method = "coalesce" if body.HasField("shuffle") and not body.shuffle else "repartition"
    return [f".{method}({body.num_partitions})"]


def _repartition_by(body: pb.RepartitionByExpression) -> Pieces:
    count = [str(body.num_partitions)] if body.HasField("num_partitions") else []
    return [".repartition(", *listed([*count, *each(body.partition_exprs)]), ")"]


def _show(body: pb.ShowString) -> Pieces:
    truncate = "" if body.truncate == 20 else f", truncate={body.truncate}"
    return [f".show({body.num_rows}{truncate}{', vertical=True' if body.vertical else ''})"]


def _with_columns(body: pb.WithColumns) -> Pieces:
    aliases = body.aliases
    if len(aliases) == 1:
        return [f".withColumn({names(aliases[0].name)}, ", now(aliases[0].expr, VALUE), ")"]
    pairs = [(entry, ".".join(alias.name), expression(alias.expr, VALUE)) for alias in aliases[:MAX_ITEMS]]
    return [".withColumns({", *listed(pairs), "})"]


def _renamed(body: pb.WithColumnsRenamed) -> Pieces:
    pairs = [(rename.col_name, rename.new_col_name) for rename in body.renames[:MAX_ITEMS]]
    pairs += sorted(body.rename_columns_map.items())
    if len(pairs) == 1:
        return [f".withColumnRenamed({names(pairs[0])})"]
    return [f".withColumnsRenamed({{{', '.join([f'{quoted(old)}: {quoted(new)}' for old, new in pairs])}}})"]


def _hint(body: pb.Hint) -> Pieces:
    return [".hint(", *listed([quoted(body.name), *each(body.parameters)]), ")"]


def _unpivot(body: pb.Unpivot) -> Pieces:
    values = ["[", *expressions(body.values.values), "]"] if body.HasField("values") else ["None"]
    named = f", {quoted(body.variable_column_name)}, {quoted(body.value_column_name)})"
    return [".unpivot([", *expressions(body.ids), "], ", *values, named]


def _statistic(call: str) -> Callable[[_OfTwo], Pieces]:
    def render(body: _OfTwo) -> Pieces:
        return [f".{call}({names((body.col1, body.col2))})"]

    return render


def _describe(body: pb.StatDescribe) -> Pieces:
    return [f".describe({names(body.cols)})"]


def _fill(body: pb.NAFill) -> Pieces:
    subset = f", [{names(body.cols)}]" if body.cols else ""
    values = listed(literal(value) for value in body.values[:MAX_ITEMS])
    return [".fillna(", *(values if len(body.values) == 1 else ["[", *values, "]"]), f"{subset})"]


def _drop_na(body: pb.NADrop) -> Pieces:
    least = [f"thresh={body.min_non_nulls}"] if body.HasField("min_non_nulls") else []
    subset = [f"subset=[{names(body.cols)}]"] if body.cols else []
    return [f".dropna({', '.join([*least, *subset])})"]


def _replace(body: pb.NAReplace) -> Pieces:
    pairs = [(_replacement, item) for item in body.replacements[:MAX_ITEMS]]
    return [".replace({", *listed(pairs), "}", f", subset=[{names(body.cols)}])" if body.cols else ")"]


def _replacement(item: pb.NAReplace.Replacement) -> Pieces:
    return [literal(item.old_value), ": ", literal(item.new_value)]


def _sample_by(body: pb.StatSampleBy) -> Pieces:
    pairs = [(_stratum, item) for item in body.fractions[:MAX_ITEMS]]
    return [".sampleBy(", expression(body.col), ", {", *listed(pairs), "})"]


def _stratum(item: pb.StatSampleBy.Fraction) -> Pieces:
    return [literal(item.stratum), f": {item.fraction!r}"]


def _quantile(body: pb.StatApproxQuantile) -> Pieces:
    listed_ = ", ".join([repr(item) for item in body.probabilities[:MAX_ITEMS]])
    return [f".approxQuantile([{names(body.cols)}], [{listed_}], {body.relative_error!r})"]


def _frequent(body: pb.StatFreqItems) -> Pieces:
    return [f".freqItems([{names(body.cols)}]{f', {body.support!r}' if body.HasField('support') else ''})"]


def _grouped(method: str) -> Callable[[_Grouped], Pieces]:
    def render(body: _Grouped) -> Pieces:
        return [".groupBy(", *expressions(body.grouping_expressions), f").{method}({code(body.func)})"]

    return render


def _metrics(body: pb.CollectMetrics) -> Pieces:
    return [f".observe({quoted(body.name)}, ", *expressions(body.metrics), ")"]


def _html(body: pb.HtmlString) -> Pieces:
    return [f".toHTML({body.num_rows})"]


def _limit(body: pb.Limit) -> Pieces:
    return [f".limit({body.limit})"]


def _map(body: pb.MapPartitions) -> Pieces:
    return [f".mapInPandas({code(body.func)})"]


def _offset(body: pb.Offset) -> Pieces:
    return [f".offset({body.offset})"]


def _alias(body: pb.SubqueryAlias) -> Pieces:
    return [f".alias({quoted(body.alias)})"]


def _summary(body: pb.StatSummary) -> Pieces:
    return [f".summary({names(body.statistics)})"]


def _tail(body: pb.Tail) -> Pieces:
    return [f".tail({body.limit})"]


def _to_df(body: pb.ToDF) -> Pieces:
    return [f".toDF({names(body.column_names)})"]


def _to_schema(body: pb.ToSchema) -> Pieces:
    return ['.to("', data_type(body.schema), '")']


def _transpose(body: pb.Transpose) -> Pieces:
    return [".transpose(", *expressions(body.index_columns), ")"]


def _watermark(body: pb.WithWatermark) -> Pieces:
    return [f".withWatermark({names((body.event_time, body.delay_threshold))})"]


_CALLS: Mapping[str, Callable[[Never], Pieces]] = {
    "aggregate": _aggregate,
    "apply_in_pandas_with_state": _grouped("applyInPandasWithState"),
    "approx_quantile": _quantile,
    "collect_metrics": _metrics,
    "corr": _statistic("corr"),
    "cov": _statistic("cov"),
    "crosstab": _statistic("crosstab"),
    "deduplicate": _deduplicate,
    "describe": _describe,
    "drop": _drop,
    "drop_na": _drop_na,
    "fill_na": _fill,
    "filter": _filter,
    "freq_items": _frequent,
    "group_map": _grouped("applyInPandas"),
    "hint": _hint,
    "html_string": _html,
    "limit": _limit,
    "map_partitions": _map,
    "offset": _offset,
    "project": _project,
    "repartition": _repartition,
    "repartition_by_expression": _repartition_by,
    "replace": _replace,
    "sample": _sample,
    "sample_by": _sample_by,
    "show_string": _show,
    "sort": _sort,
    "subquery_alias": _alias,
    "summary": _summary,
    "tail": _tail,
    "to_df": _to_df,
    "to_schema": _to_schema,
    "transpose": _transpose,
    "unpivot": _unpivot,
    "with_columns": _with_columns,
    "with_columns_renamed": _renamed,
    "with_watermark": _watermark,
}
"""Relations with one input, which is written before them."""

_CASES: Mapping[str, Callable[[Never], Piece]] = {
    **SOURCES,
    "as_of_join": _as_of,
    "co_group_map": _co_group,
    "join": _join,
    "lateral_join": _lateral,
    "nearest_by_join": _nearest,
    "set_op": _set_op,
    "zip": _zip,
}
