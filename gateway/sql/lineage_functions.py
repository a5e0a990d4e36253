"""Facts about Spark's functions and types that lineage rests on, by their names."""

from __future__ import annotations

AGGREGATES = frozenset(
    """any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg
    bitmap_or_agg bool_and bool_or collect_list collect_set corr count count_if count_min_sketch
    covar_pop covar_samp every first first_value grouping grouping_id histogram_numeric
    hll_sketch_agg hll_union_agg kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float
    kurtosis last last_value listagg max max_by mean median min min_by mode percentile
    percentile_approx percentile_cont percentile_disc product regr_avgx regr_avgy regr_count
    regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy schema_of_variant_agg skewness some
    std stddev stddev_pop stddev_samp string_agg sum theta_intersection_agg theta_sketch_agg
    theta_union_agg try_avg try_sum var_pop var_samp variance vector_avg vector_sum""".split()
)
"""Spark's aggregate functions."""


def struct_fields(type_: str) -> list[str] | None:
    """Return the names of a struct's fields, lower case, from its type in DDL; None for another type."""
    text = type_.strip()
    if not (text[:7].lower() == "struct<" and text.endswith(">")):
        return None
    names, depth, at, quoted = [], 0, 7, False
    inner = text[7:-1]
    at = 0
    for i, sign in enumerate(inner + ","):
        if sign == "`":
            quoted = not quoted
        elif quoted:
            continue
        elif sign in "<(":
            depth += 1
        elif sign in ">)":
            depth -= 1
        elif sign == "," and depth == 0:
            names.append(_field_name(inner[at:i]))
            at = i + 1
    return [name for name in names if name]


def _field_name(field_: str) -> str:
    text = field_.strip()
    if text.startswith("`"):
        return text[1 : text.rfind("`")].replace("``", "`").lower()
    return text.replace(":", " ").split(None, 1)[0].lower() if text else ""


def element_type(type_: str) -> str:
    """Return the type of an array's elements, empty for anything else."""
    text = type_.strip()
    return text[6:-1] if text[:6].lower() == "array<" and text.endswith(">") else ""
