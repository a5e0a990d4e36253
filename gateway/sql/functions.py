"""Which built-in functions may be called; a function in neither table is refused.

The names are those of the registries (`FunctionRegistry` and `TableFunctionRegistry`) of all minors that the
gateway knows, lower case; `SINCE` says which of them an older one does not have.
Allowed is what computes its result from its arguments, the session's clock, its randomness or its names.
A function that reaches a file, the network, the JVM or the environment is refused. One whose value is another
by row, instant or session is on a list more. A new Spark's functions are refused until someone puts them on
one of the lists: tests/sql/test_functions.py compares both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.model.spark_minors import Minor

_ALLOWED: Final[dict[str, str]] = {
    "aggregate": """
        any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
        approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg
        bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list collect_set collect_union
        corr count count_if count_min_sketch covar_pop covar_samp every first first_value grouping
        grouping_id histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint
        kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double
        kll_sketch_agg_float kurtosis last last_value listagg max max_by mean measure median min
        min_by mode percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy
        regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
        schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp string_agg sum
        theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum
        tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double
        tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer var_pop var_samp
        variance vector_avg vector_sum
    """,
    "array": """
        array array_append array_compact array_contains array_distinct array_except array_insert
        array_intersect array_join array_max array_min array_position array_prepend array_remove
        array_repeat array_size array_union arrays_overlap arrays_zip flatten get sequence shuffle slice
        sort_array
    """,
    "avro": """
        to_avro
    """,
    "bitwise": """
        & << >> >>> ^ bit_count bit_get getbit shiftleft shiftright shiftrightunsigned | ~
    """,
    "collection": """
        cardinality concat element_at reverse size try_element_at
    """,
    "conditional": """
        between coalesce if ifnull nanvl nullif nullifzero nvl nvl2 when zeroifnull
    """,
    "conversion": """
        bigint binary boolean cast date decimal double float int smallint string time timestamp tinyint
    """,
    "csv": """
        from_csv schema_of_csv to_csv
    """,
    "datetime": """
        add_months convert_timezone curdate current_date current_time current_timestamp current_timezone
        date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff
        datepart day dayname dayofmonth dayofweek dayofyear extract from_unixtime from_utc_timestamp hour
        last_day localtime localtimestamp make_date make_dt_interval make_interval make_time
        make_timestamp make_timestamp_ltz make_timestamp_ntz make_ym_interval minute month monthname
        months_between next_day now quarter second session_window time_bucket time_diff time_from_micros
        time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc
        timestamp_micros timestamp_millis timestamp_nanos timestamp_seconds to_date to_time to_timestamp
        to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc try_make_interval
        try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_to_date try_to_time
        try_to_timestamp unix_date unix_micros unix_millis unix_nanos unix_seconds unix_timestamp weekday
        weekofyear window window_time year
    """,
    "generator": """
        explode explode_outer inline inline_outer posexplode posexplode_outer stack
    """,
    "hash": """
        crc32 hash md5 sha sha1 sha2 xxhash64
    """,
    "json": """
        from_json get_json_object json_array_length json_object_keys json_tuple schema_of_json to_json
    """,
    "lambda": """
        aggregate array_sort exists filter forall map_filter map_zip_with reduce transform transform_keys
        transform_values zip_with
    """,
    "map": """
        map map_concat map_contains_key map_entries map_from_arrays map_from_entries map_keys map_values
        str_to_map
    """,
    "math": """
        % * + - / abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh
        cot csc degrees div e exp expm1 factorial floor greatest hex hypot least ln log log10 log1p log2
        mod negative pi pmod positive pow power radians rand randn random rint round sec sign signum sin
        sinh sqrt tan tanh try_add try_divide try_mod try_multiply try_subtract unhex uniform width_bucket
    """,
    # RULE (no-java-functions, no-file-functions)
    "miscellaneous": """
        aes_decrypt aes_encrypt assert_true bitmap_bit_position bitmap_bucket_number bitmap_count
        current_catalog current_database current_path current_schema current_user hmac
        monotonically_increasing_id raise_error session_user spark_partition_id try_aes_decrypt typeof
        user uuid version
    """,
    "predicate": """
        ! < <= <=> = == > >= and equal_null ilike in isnan isnotnull isnull like not or regexp regexp_like
        rlike
    """,
    "sketch": """
        approx_top_k_estimate hll_sketch_estimate hll_union kll_sketch_get_n_bigint
        kll_sketch_get_n_double kll_sketch_get_n_float kll_sketch_get_quantile_bigint
        kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint
        kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint
        kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint
        kll_sketch_to_string_double kll_sketch_to_string_float theta_difference theta_intersection
        theta_sketch_estimate theta_union tuple_difference_double tuple_difference_integer
        tuple_difference_theta_double tuple_difference_theta_integer tuple_intersection_double
        tuple_intersection_integer tuple_intersection_theta_double tuple_intersection_theta_integer
        tuple_sketch_estimate_double tuple_sketch_estimate_integer tuple_sketch_summary_double
        tuple_sketch_summary_integer tuple_sketch_theta_double tuple_sketch_theta_integer
        tuple_union_double tuple_union_integer tuple_union_theta_double tuple_union_theta_integer
    """,
    "geospatial": """
        st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid
    """,
    "string": """
        ascii base64 bit_length btrim char char_length character_length chr collate collation concat_ws
        contains decode elt encode endswith find_in_set format_number format_string from_base32 initcap
        instr is_valid_utf8 jaro_winkler_similarity lcase left len length levenshtein locate lower lpad
        ltrim luhn_check make_valid_utf8 mask octet_length overlay position printf quote randstr
        regexp_count regexp_extract regexp_extract_all regexp_instr regexp_replace regexp_substr repeat
        replace right rpad rtrim sentences soundex space split split_part startswith substr substring
        substring_index to_base32 to_binary to_char to_number to_varchar translate trim try_to_binary
        try_to_number try_validate_utf8 ucase unbase64 upper validate_utf8
    """,
    "struct": """
        named_struct struct
    """,
    "url": """
        parse_url try_parse_url try_url_decode url_decode url_encode
    """,
    "variant": """
        is_valid_variant is_variant_null parse_json schema_of_variant to_variant_object
        try_parse_json try_variant_array_append try_variant_get try_variant_insert try_variant_set
        variant_array_append variant_delete variant_get variant_insert variant_set
        variant_strip_nulls
    """,
    "vector": """
        vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm
        vector_normalize
    """,
    "window": """
        counter_diff cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number
    """,
    # RULE (no-doctype-functions)
    "xml": """
        from_xml schema_of_xml to_xml
    """,
}
"""By Spark's own groups, but that whatever makes one value of many rows is an aggregate. `raise_error` and
`assert_true` print their argument into the error, which is as governed as a result row: they see masked
values."""

ALLOWED_FUNCTIONS: Final = frozenset(name for names in _ALLOWED.values() for name in names.split())
AGGREGATES: Final = frozenset(_ALLOWED["aggregate"].split())
OF_MANY_ROWS: Final = AGGREGATES | frozenset(_ALLOWED["generator"].split())
"""Functions that make one row of many, or many of one."""

VARYING_BY_ROW: Final = frozenset(
    """
    monotonically_increasing_id rand randn random randstr shuffle spark_partition_id uniform uuid
    """.split()
)
"""Functions that give another value for each row, by which rows came before it or by chance."""
OF_THE_INSTANT: Final = frozenset(
    """
    curdate current_date current_time current_timestamp localtime localtimestamp now unix_timestamp
    """.split()
)
"""Functions that give another value at another time."""
OF_THE_SESSION: Final = frozenset(
    "current_catalog current_database current_path current_schema current_timezone".split()
)
"""Functions that give another value in another session; who the user is does not count."""
ROW_WISE_FUNCTIONS: Final = (
    frozenset(
        name
        for group, names in _ALLOWED.items()
        if group not in ("aggregate", "generator", "lambda", "sketch", "variant", "window")
        for name in names.split()
    )
    - VARYING_BY_ROW
)
"""Functions of the values of one row, which give the same for them wherever and whenever they are called in a
statement."""

ALLOWED_TABLE_FUNCTIONS: Final = frozenset(
    {
        "collations",
        "explode",
        "explode_outer",
        "inline",
        "inline_outer",
        "json_tuple",
        "posexplode",
        "posexplode_outer",
        "python_worker_logs",  # only those of the caller's own Spark session
        "range",
        "sql_keywords",
        "stack",
        "variant_explode",
        "variant_explode_outer",
    }
)

_JVM: Final = "it can call any Java method on the server"
_FILE_NAME: Final = "it shows where the rows are stored, which row filters and masks do not cover"
_AVRO: Final = "its `avroSchemaUrl` option can read any file or address"
_PROTOBUF: Final = "it can read any descriptor file"
# Spark switches external entities off but not the external DTD of a document's DOCTYPE: on 4.3.0,
# `<!DOCTYPE a SYSTEM "file:///x.dtd"><a>&e;</a>` shows what x.dtd defines `e` as, and an http address
# built from column values carries them away.
_DTD: Final = "a DOCTYPE in its argument can make the server read any file or address"

REFUSED_FUNCTIONS: Final[dict[str, str]] = {
    "from_avro": _AVRO,
    "from_protobuf": _PROTOBUF,
    "input_file_block_length": _FILE_NAME,
    "input_file_block_start": _FILE_NAME,
    "input_file_name": _FILE_NAME,
    "java_method": _JVM,
    "reflect": _JVM,
    "schema_of_avro": _AVRO,
    "to_protobuf": _PROTOBUF,
    "try_reflect": _JVM,
    "xpath": _DTD,
    "xpath_boolean": _DTD,
    "xpath_double": _DTD,
    "xpath_float": _DTD,
    "xpath_int": _DTD,
    "xpath_long": _DTD,
    "xpath_number": _DTD,
    "xpath_short": _DTD,
    "xpath_string": _DTD,
}
"""Built in and deliberately left out, each with the reason that a refusal tells."""

FILE_FUNCTIONS: Final = frozenset(name for name, why in REFUSED_FUNCTIONS.items() if why == _FILE_NAME)
"""Those that a client's own text may call over tables of which it may see all."""
CODE_FUNCTIONS: Final = frozenset(name for name, why in REFUSED_FUNCTIONS.items() if why == _JVM)
"""Those that a client's own text may call with a grant of code."""
DOCUMENT_FUNCTIONS: Final = frozenset(name for name, why in REFUSED_FUNCTIONS.items() if why == _DTD)
"""Those that may be called on a document that is written out and has no DOCTYPE."""

REFUSED_TABLE_FUNCTIONS: Final[dict[str, str]] = {}
"""Built-in table functions that are deliberately left out."""

INTERNAL_FUNCTIONS: Final = frozenset(
    """
    array_binary_search bloom_filter_agg bucket collect_top_k days distributed_id distributed_sequence_id ewm
    hours months null_index pandas_covar pandas_kurt pandas_mode pandas_product pandas_skew pandas_stddev
    pandas_var product timestamp_ntz_to_long timestampadd timestampdiff unwrap_udt years
    """.split()
)
"""What `FunctionRegistry.internal` of Spark 4.3 holds and only a Spark Connect plan can call: aggregates and
sequences of pandas on Spark, the partition transforms of `writeTo` and two timestamp functions. All compute
from their arguments alone. SQL text does not find them."""


BUILTIN_NAMES: Final = ALLOWED_FUNCTIONS.union(
    REFUSED_FUNCTIONS, ALLOWED_TABLE_FUNCTIONS, REFUSED_TABLE_FUNCTIONS, INTERNAL_FUNCTIONS
)
"""Every name that a Spark which the gateway knows has a function for."""


SINCE: Final[Mapping[Minor, frozenset[str]]] = {
    Minor(4, 0): frozenset(
        """
        << >> >>> array_binary_search between bloom_filter_agg bucket collate collation collations
        collect_top_k dayname days distributed_id distributed_sequence_id ewm from_avro from_protobuf
        from_xml hours is_valid_utf8 is_variant_null listagg make_valid_utf8 monthname months
        null_index nullifzero pandas_covar pandas_kurt pandas_mode pandas_product pandas_skew
        pandas_stddev pandas_var parse_json percentile_cont percentile_disc product randstr
        schema_of_avro schema_of_variant schema_of_variant_agg schema_of_xml session_user string_agg
        timestamp_ntz_to_long timestampadd timestampdiff to_avro to_protobuf to_variant_object to_xml
        try_make_interval try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_mod
        try_parse_json try_parse_url try_reflect try_url_decode try_validate_utf8 try_variant_get
        uniform unwrap_udt validate_utf8 variant_explode variant_explode_outer variant_get years
        zeroifnull
        """.split()
    ),
    Minor(4, 1): frozenset(
        """
        approx_top_k approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate
        bitmap_and_agg current_time kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
        kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kll_sketch_get_n_bigint
        kll_sketch_get_n_double kll_sketch_get_n_float kll_sketch_get_quantile_bigint
        kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint
        kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint
        kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint
        kll_sketch_to_string_double kll_sketch_to_string_float make_time python_worker_logs quote
        st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid theta_difference
        theta_intersection theta_intersection_agg theta_sketch_agg theta_sketch_estimate theta_union
        theta_union_agg time time_diff time_trunc to_time try_to_date try_to_time
        """.split()
    ),
    Minor(4, 2): frozenset(
        """
        current_path is_valid_variant measure time_bucket time_from_micros time_from_millis
        time_from_seconds time_to_micros time_to_millis time_to_seconds tuple_difference_double
        tuple_difference_integer tuple_difference_theta_double tuple_difference_theta_integer
        tuple_intersection_agg_double tuple_intersection_agg_integer tuple_intersection_double
        tuple_intersection_integer tuple_intersection_theta_double
        tuple_intersection_theta_integer tuple_sketch_agg_double tuple_sketch_agg_integer
        tuple_sketch_estimate_double tuple_sketch_estimate_integer tuple_sketch_summary_double
        tuple_sketch_summary_integer tuple_sketch_theta_double tuple_sketch_theta_integer
        tuple_union_agg_double tuple_union_agg_integer tuple_union_double tuple_union_integer
        tuple_union_theta_double tuple_union_theta_integer vector_avg vector_cosine_similarity
        vector_inner_product vector_l2_distance vector_norm vector_normalize vector_sum
        """.split()
    ),
    Minor(4, 3): frozenset(
        """
        collect_union counter_diff from_base32 hmac jaro_winkler_similarity localtime timestamp_nanos
        to_base32 try_variant_array_append try_variant_insert try_variant_set unix_nanos variant_array_append
        variant_delete variant_insert variant_set variant_strip_nulls
        """.split()
    ),
}
"""Minor → functions that came with it. To an older Spark their names are like any other: somebody's function
may have one."""


def find_first_minor(name: str) -> Minor | None:
    """Return the minor that a function of ours came with; None when all have it. `name` is lower case."""
    return next((minor for minor, names in SINCE.items() if name in names), None)


def is_of(name: str, minor: Minor) -> bool:
    """Whether a Spark of this minor has this function of ours. `name` is lower case."""
    came = find_first_minor(name)
    return came is None or came <= minor


GENERATORS: Final = frozenset(
    """
    explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack variant_explode
    variant_explode_outer
    """.split()
)
"""Functions that may make several columns, under names of their own."""


def builtin_name(parts: tuple[str, ...]) -> str | None:
    """Return the lower-case name of what can only be a built-in function, or None.

    One part may also name a temporary or a persistent function; whether a built-in of that name exists is
    for the caller to ask. `builtin.f` and `system.builtin.f` are Spark's own spellings of the built-in.
    """
    *qualifier, name = (part.lower() for part in parts)
    return name if qualifier in ([], ["builtin"], ["system", "builtin"]) else None  # RULE (builtin-qualifier)


def builtin_refusal(name: str, *, table_valued: bool = False) -> str | None:
    """Return why a built-in function may not be called, or None when it may. `name` is lower case.

    Generators are registered both ways and may be called both ways.
    """
    allowed, refused = (
        (ALLOWED_TABLE_FUNCTIONS, REFUSED_TABLE_FUNCTIONS)
        if table_valued
        else (ALLOWED_FUNCTIONS, REFUSED_FUNCTIONS)
    )
    if name in allowed:
        return None
    # RULE (unlisted-function)
    return refused.get(name, "it is not on the list of functions known to be safe")
