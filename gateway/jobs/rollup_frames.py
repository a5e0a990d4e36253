"""What the roll-ups count: DataFrames of events in, DataFrames by hour out. No I/O of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any

from gateway.jobs.spark import Keep

EVENTS = (
    "event_id string, time timestamp, kind string, statement_id string, user_name string,"
    " groups array<string>, client_protocol string, application string, verdict string, code string,"
    " plan_class string, statement string, rows bigint, bytes bigint, duration_ms double, outcome string,"
    " body string"
)
ENDS = "kind IN ('completed', 'abandoned', 'reattached')"
FINGERPRINTS = "text_digest string, fingerprint string"
SCANS = (
    "array<struct<table: string, columns: array<string>,"
    " obligations: array<struct<type: string, column: string, policy_name: string>>>>"
)
_MAKERS = "lineage struct<temp_views: map<string, string>, relations: map<string, string>>"
BODY = (
    f"scans {SCANS}, {_MAKERS},"
    " decisions array<struct<resource: string, action: string, result: int, policy_name: string,"
    " columns: array<string>>>, action string, plan string, sess string, operation string"
)
_TIMES = ("judge_ms", "spark_ms", "run_ms")
_WHO = ("user_name", "groups", "endpoint", "tool")
_SHAPE = ("fingerprint", "user_name", "groups", "tables")
MAX_RELAYED = 10**15
"""Rows or bytes that one statement counts for: a record of garbage is no sum that nothing can hold."""
NO_COLUMN = ""
"""The column of a read of which it is known that it is of none, as `count(*)`; of unknown ones it is `*`."""
LEVELS = 8
"""How many temporary views and cached relations, one made of the other, are looked through."""
LONGEST_MS = 1e12
"""Milliseconds, some 30 years: a time that is longer, negative or no number is not known."""


@dataclass(frozen=True, slots=True)
class RollupTable:
    """A table of the lake, partitioned by hour (`2026-11-20T09`)."""

    name: str
    schema: str
    """Without the hour."""


@dataclass(frozen=True, slots=True)
class MadeBy:
    """Statements that made temporary views and cached relations which others read."""

    decided: Any
    levels: int


TABLES = (
    RollupTable(
        "rollup_usage",
        "user_name string, groups array<string>, endpoint string, tool string, table_name string,"
        " column_name string, masks array<string>, filters array<string>, statements bigint, finished bigint,"
        " rows bigint, bytes bigint, first_at timestamp, last_at timestamp",
    ),
    RollupTable(
        "rollup_refusal",
        "user_name string, groups array<string>, endpoint string, tool string, code string,"
        " resource string, action string, policy string, attempts bigint, first_at timestamp,"
        " last_at timestamp",
    ),
    RollupTable(
        "rollup_statement",
        "fingerprint string, user_name string, groups array<string>, tables array<string>, statements bigint,"
        " finished bigint, rows bigint, bytes bigint, judge_ms double, run_ms double, slowest_ms double,"
        " slowest_statement string",
    ),
    RollupTable(
        "rollup_latency",
        "dimension string, name string, phase string, statements bigint, total_ms double, max_ms double,"
        " buckets map<string, bigint>",
    ),
)


def schema_of(name: str) -> str:
    """Return the schema of a table, with its hour."""
    return next(one.schema for one in TABLES if one.name == name) + ", hour string"


def select_columns(archived: Any, names: Sequence[str]) -> Any:
    """Return the same columns of archived events."""
    return archived.select(*names)


def of_hours(events: Any, hours: Sequence[datetime]) -> Any:
    from pyspark.sql import functions as f

    return events.where(_hour(f).isin([f"{hour:%Y-%m-%dT%H}" for hour in hours]))


def union_once(events: Any, more: Any) -> Any:
    """Return both, without those of the second that the first has."""
    return events.unionByName(more.join(events.select("event_id"), "event_id", "left_anti"))


def texts_of(events: Any) -> Any:
    """Return the texts of statements and renderings of plans, each once, with their digests."""
    from pyspark.sql import functions as f

    decided = events.where("kind = 'decided' AND statement IS NOT NULL")
    told = f.from_json("body", "plan string, texts array<string>")
    return (
        decided.withColumn("told", told)
        .groupBy(_digest(f), _is_plan(f).alias("is_plan"))
        # What was refused before its SQL was read has none, and the same call that ran has.
        .agg(f.first("statement").alias("statement"), f.max("told.texts").alias("texts"))
    )


def _is_plan(f: Any) -> Any:
    return f.col("told.plan").isNotNull()


def _digest(f: Any) -> Any:
    # What somebody sends as SQL may read like a rendering.
    text = f.concat(_is_plan(f).cast("string"), f.lit(" "), f.col("statement"))
    return f.sha2(text, 256).alias("text_digest")


def make(
    events: Any, ends: Any, made_by: MadeBy | None, fingerprints: Any, tags: Any, keep: Keep
) -> dict[str, Any]:
    """Return the frames of all tables, with the column `hour`."""
    from pyspark.sql import functions as f

    read = (
        events.withColumn("hour", _hour(f))
        .withColumn("told", f.from_json("body", BODY))
        .withColumn("endpoint", f.coalesce("client_protocol", f.lit("")))
        .withColumn("tool", f.coalesce("application", f.lit("")))
        .withColumn("groups", f.coalesce(f.array_sort("groups"), _no_texts(f)))
        .drop("body")
    )
    statements = keep("statements", _statements(f, _with_scans(f, read, made_by), ends, fingerprints))
    reads = keep("reads", _reads(f, statements))
    return {
        "rollup_usage": _usage(f, reads),
        "rollup_refusal": _refusals(f, read),
        "rollup_statement": _shapes(f, statements),
        "rollup_latency": _latency(f, statements, reads, tags),
    }


def _no_texts(f: Any) -> Any:
    return f.array().cast("array<string>")


def _hour(f: Any) -> Any:
    return f.date_format("time", "yyyy-MM-dd'T'HH")


def _with_scans(f: Any, read: Any, made_by: MadeBy | None) -> Any:
    """Return the events with `scans`: their own, and those of what made the temporary views and cached
    relations that they read, with the masks and filters that are in these."""
    if made_by is None:
        return read.withColumn("scans", f.col("told.scans"))

    def makers(lineage: Any) -> Any:
        named = (f.coalesce(f.map_values(lineage[key]), _no_texts(f)) for key in ("temp_views", "relations"))
        return f.array_distinct(f.concat(*named))

    told = f.from_json("body", f"scans {SCANS}, {_MAKERS}").alias("told")
    made = (
        made_by.decided.where("verdict = 'cleared' AND statement_id IS NOT NULL")
        .select(f.col("statement_id").alias("maker"), told)
        .select("maker", "told.scans", makers(f.col("told.lineage")).alias("makers"))
        .dropDuplicates(["maker"])
    )
    named = read.where("verdict = 'cleared'").select(
        "event_id", f.explode(makers(f.col("told.lineage"))).alias("maker")
    )
    lent = []
    for _ in range(made_by.levels):
        step = named.distinct().join(made, "maker")
        lent.append(step.select("event_id", "scans"))
        named = step.select("event_id", f.explode("makers").alias("maker"))
    of_makers = (
        reduce(lambda one, more: one.unionByName(more), lent)
        .groupBy("event_id")
        .agg(f.array_distinct(f.flatten(f.collect_list("scans"))).alias("lent"))
    )
    none = f.array().cast(SCANS)
    scans = f.concat(f.coalesce("told.scans", none), f.coalesce("lent", none))
    return read.join(of_makers, "event_id", "left").withColumn("scans", scans).drop("lent")


def _statements(f: Any, read: Any, ends: Any, fingerprints: Any) -> Any:
    """Return one row for each statement, with its end where that is known."""
    ended = (
        ends.where("statement_id IS NOT NULL")
        .groupBy("statement_id")
        .agg(
            # `completed` counts before `abandoned`.
            f.max_by(
                f.struct(
                    "outcome",
                    "rows",
                    "bytes",
                    f.col("duration_ms").alias("run_ms"),
                    f.expr("try_cast(get_json_object(body, '$.spark_ms') AS double)").alias("spark_ms"),
                ),
                f.struct("kind", "time", "event_id"),
            ).alias("end")
        )
    )
    return (
        read.where("kind = 'decided'")
        .withColumnRenamed("duration_ms", "judge_ms")
        .withColumn("text_digest", _digest(f))
        .drop("rows", "bytes", "outcome", "statement")
        .dropDuplicates(["event_id"])
        .join(ended, "statement_id", "left")
        .join(fingerprints, "text_digest", "left")
        .select("*", "end.*", f.col("told.sess").alias("sess"), f.col("told.operation").alias("operation"))
        .join(f.broadcast(_sum_reattached(f, ends)), ["user_name", "sess", "operation"], "left")
        .withColumn("finished", (f.col("outcome") == "finished") | f.col("complete"))
        .withColumn("finished", f.coalesce(f.col("finished").cast("bigint"), f.lit(0)))
        .withColumns({name: _sum_relayed(f, name, f"more_{name}") for name in ("rows", "bytes")})
        .withColumns({name: f.when(f.col(name).between(0, LONGEST_MS), f.col(name)) for name in _TIMES})
        .withColumn("reads_rows", _reads_rows(f))
        .drop("end", "text_digest", "sess", "operation", "complete", "more_rows", "more_bytes")
    )


def _sum_reattached(f: Any, ends: Any) -> Any:
    """Return what clients took of executions that another run of a gateway had begun."""
    again = ends.where("kind = 'reattached'").dropDuplicates(["event_id"])
    told = f.from_json("body", "sess string, operation string, complete boolean").alias("told")
    return (
        again.select("user_name", "rows", "bytes", told)
        .groupBy("user_name", f.col("told.sess").alias("sess"), f.col("told.operation").alias("operation"))
        .agg(
            f.sum(_sum_relayed(f, "rows")).alias("more_rows"),
            f.sum(_sum_relayed(f, "bytes")).alias("more_bytes"),
            f.max("told.complete").alias("complete"),
        )
    )


def _reads_rows(f: Any) -> Any:
    """Whether a statement reads rows of what it scans.

    Spark only looks at what is analyzed or explained, at the query of a view, and at a query that comes as a
    command of Spark Connect: the client sends that again. What makes a temporary view, or caches, counts:
    reads of that are not known to be reads of the tables.
    """

    def surely(condition: Any) -> Any:
        return f.coalesce(condition, f.expr("false"))

    shape = f.coalesce("fingerprint", f.lit(""))
    is_command = surely(_is_plan(f) & (f.col("plan_class") == "SqlCommand"))
    is_text = surely(_is_plan(f) & f.col("plan_class").isin("SqlCommand", "SQL"))
    acts = surely(f.exists("told.decisions", lambda one: ~one["action"].isin(*_READING)))
    looks = (
        surely(f.col("told.plan") == "analyze")
        | surely(f.col("plan_class").isin(*_LOOKS))
        | (is_text & shape.rlike(_LOOK))
        | (is_command & ~acts & ~shape.rlike("^(create|cache) "))
    )
    return ~looks


_READING = ("select", "execute")
"""Actions of queries: a function that is no part of Spark is executed."""
_LOOKS = ("CreateView", "AlterViewAs", "ExplainCommand", "DescribeQueryCommand")
_LOOK = "^(create (or replace )?view|alter view|explain|desc|describe) "


def _sum_relayed(f: Any, *names: str) -> Any:
    most = f.lit(MAX_RELAYED)
    parts = (f.greatest(f.lit(0), f.least(f.coalesce(name, f.lit(0)), most)) for name in names)
    return f.least(reduce(lambda one, more: one + more, parts), most)


def _reads(f: Any, statements: Any) -> Any:
    """Return one row for each column that a cleared statement reads, by its masks and filters."""
    scans = statements.where("verdict = 'cleared'").withColumn("scan", f.explode("scans"))
    columns = f.coalesce(f.col("scan.columns"), f.array(f.lit("*")))
    columns = f.when(f.size(columns) > 0, columns).otherwise(f.array(f.lit(NO_COLUMN)))
    obligations = f.coalesce("scan.obligations", f.array().cast(_OBLIGATIONS))

    def policies(wanted: Callable[[Any], Any], told: Callable[[Any], Any]) -> Any:
        found = f.transform(f.filter(obligations, wanted), told)
        return f.array_sort(f.array_distinct(f.filter(found, lambda one: one.isNotNull())))

    return (
        scans.withColumn("column_name", f.explode(columns))
        .withColumn("table_name", f.coalesce("scan.table", f.lit("")))
        .withColumn("column_name", f.coalesce("column_name", f.lit("*")))
        .withColumn(
            "filters", policies(lambda one: one["type"] == "ROW_FILTER", lambda one: one["policy_name"])
        )
        .withColumn(
            "masks",
            policies(
                lambda one: (
                    (one["type"] != "ROW_FILTER")
                    # A mask has the column as its table writes it, and what is read is in lower case.
                    & ((f.lower(one["column"]) == f.lower("column_name")) | (f.col("column_name") == "*"))
                ),
                lambda one: f.concat_ws(" ", one["type"], one["policy_name"]),
            ),
        )
        .dropDuplicates(["event_id", "table_name", "column_name", "masks", "filters"])
        .drop("scan", "scans", "told")
    )


_OBLIGATIONS = "array<struct<type: string, column: string, policy_name: string>>"


def _usage(f: Any, reads: Any) -> Any:
    keys = ("hour", *_WHO, "table_name", "column_name", "masks", "filters")
    return (
        reads.where("reads_rows")
        .groupBy(*keys)
        .agg(
            f.count("*").alias("statements"),
            f.sum("finished").alias("finished"),
            f.sum("rows").alias("rows"),
            f.sum("bytes").alias("bytes"),
            f.min("time").alias("first_at"),
            f.max("time").alias("last_at"),
        )
    )


def _refusals(f: Any, read: Any) -> Any:
    """Return refused statements by what they were refused, refused logins, and other rejected acts."""
    none = f.array().cast("array<struct<resource: string, action: string, policy_name: string>>")
    denied = f.transform(
        f.filter(f.col("told.decisions"), lambda one: one["result"] == 0),
        lambda one: f.struct(
            f.concat_ws("/", one["resource"], f.concat_ws(",", f.array_sort(one["columns"]))).alias(
                "resource"
            ),
            one["action"].alias("action"),
            one["policy_name"].alias("policy_name"),
        ),
    )
    refused = read.where("verdict IN ('refused', 'rejected')").dropDuplicates(["event_id"])
    text = ("code", "resource", "action", "policy")
    told = (
        refused.withColumn("what", f.explode_outer(f.coalesce(denied, none)))
        .withColumn("code", f.coalesce("code", f.upper("kind")))
        .withColumn("resource", f.regexp_replace(f.col("what.resource"), "/$", ""))
        .withColumn("action", f.coalesce("what.action", "told.action"))
        .withColumn("policy", f.col("what.policy_name"))
        .dropDuplicates(["event_id", *text])
    )
    for name in text:
        told = told.withColumn(name, f.coalesce(name, f.lit("")))
    return told.groupBy("hour", *_WHO, *text).agg(
        f.count("*").alias("attempts"), f.min("time").alias("first_at"), f.max("time").alias("last_at")
    )


def _shapes(f: Any, statements: Any) -> Any:
    ran = statements.where("verdict = 'cleared'").withColumn(
        "fingerprint", f.coalesce("fingerprint", f.lit(""))
    )
    ran = ran.withColumn("tables", f.coalesce(f.array_sort(f.array_distinct("scans.table")), _no_texts(f)))
    run = f.coalesce("run_ms", f.lit(0.0))
    return ran.groupBy("hour", *_SHAPE).agg(
        f.count("*").alias("statements"),
        f.sum("finished").alias("finished"),
        f.sum("rows").alias("rows"),
        f.sum("bytes").alias("bytes"),
        f.sum(f.coalesce("judge_ms", f.lit(0.0))).alias("judge_ms"),
        f.sum(run).alias("run_ms"),
        f.max(run).alias("slowest_ms"),
        f.coalesce(f.max_by("statement_id", f.struct(run, "event_id")), f.lit("")).alias("slowest_statement"),
    )


def _latency(f: Any, statements: Any, reads: Any, tags: Any) -> Any:
    """Return how long judging, Spark and the way to the client took, by user, group, table and tag."""
    times = ("hour", "event_id", *_TIMES)
    tagged = reads.join(
        f.broadcast(tags),
        (f.col("table_name") == f.col("tagged"))
        & (
            (f.col("column_name") == f.col("tagged_column"))
            | (f.col("tagged_column") == "*")
            | (f.col("column_name") == "*")
        ),
    )
    of_dimensions = (
        ("all", statements.withColumn("name", f.lit(""))),
        ("user", statements.withColumn("name", f.col("user_name"))),
        ("group", statements.withColumn("name", f.explode("groups"))),
        ("table", reads.withColumn("name", f.col("table_name"))),
        ("tag", tagged.withColumn("name", f.col("tag"))),
    )
    every = reduce(
        lambda one, more: one.unionByName(more),
        (
            frame.select(*times, "name")
            .dropDuplicates(["event_id", "name"])
            .withColumn("dimension", f.lit(dimension))
            for dimension, frame in of_dimensions
        ),
    )
    phases = f.array(
        f.struct(f.lit("judge").alias("phase"), f.col("judge_ms").alias("ms")),
        f.struct(f.lit("spark").alias("phase"), f.col("spark_ms").alias("ms")),
        f.struct(f.lit("relay").alias("phase"), (f.col("run_ms") - f.col("spark_ms")).alias("ms")),
        f.struct(f.lit("run").alias("phase"), f.col("run_ms").alias("ms")),
    )
    # 2^(1/8): a percentile is told to 9 %. What is quicker than a microsecond is in the lowest.
    bucket = f.floor(f.log2(f.greatest(f.col("ms"), f.lit(0.001))) * 8).cast("int") + 1
    keys = ("hour", "dimension", "name", "phase")
    counted = (
        every.select("hour", "dimension", "name", f.inline(phases))
        .where("ms >= 0")
        .groupBy(*keys, bucket.cast("string").alias("bucket"))
        .agg(f.count("*").alias("count"), f.sum("ms").alias("sum"), f.max("ms").alias("max"))
    )
    return counted.groupBy(*keys).agg(
        f.sum("count").alias("statements"),
        f.sum("sum").alias("total_ms"),
        f.max("max").alias("max_ms"),
        f.map_from_entries(f.collect_list(f.struct("bucket", "count"))).alias("buckets"),
    )


@dataclass(frozen=True, slots=True)
class Summary:
    """A table of PostgreSQL that is made of one of the lake."""

    table: str
    make: Callable[[Any, int], Any]
    by_hour: bool = False


def _by_day(*keys: str) -> Callable[[Any, int], Any]:
    def make(frame: Any, _: int) -> Any:
        from pyspark.sql import functions as f

        sums = [
            getattr(f, _HOW[name])(name).alias(name)
            for name in frame.columns
            if name in _HOW and name not in keys
        ]
        return _day(f, frame).groupBy("day", *keys).agg(*sums)

    return make


_HOW = {
    "statements": "sum",
    "finished": "sum",
    "rows": "sum",
    "bytes": "sum",
    "attempts": "sum",
    "first_at": "min",
    "last_at": "max",
}


def _day(f: Any, frame: Any) -> Any:
    # Hours that the last version has written do not have all columns.
    filled = {name: f.coalesce(name, _no_texts(f)) for name in ("groups", "tables") if name in frame.columns}
    return frame.withColumns({**filled, "day": f.to_date(f.substring("hour", 1, 10))})


def _slow_by_day(frame: Any, most: int) -> Any:
    from pyspark.sql import functions as f

    found = (
        _day(f, frame)
        .groupBy("day", *_SHAPE)
        .agg(
            *(
                f.sum(name).alias(name)
                for name in ("statements", "finished", "rows", "bytes", "judge_ms", "run_ms")
            ),
            f.max("slowest_ms").alias("slowest"),
            f.max_by("slowest_statement", f.struct("slowest_ms", "hour")).alias("slowest_statement"),
        )
    )
    return (
        found.withColumnRenamed("slowest", "slowest_ms").orderBy(f.desc("run_ms"), "fingerprint").limit(most)
    )


def _latency_by_hour(frame: Any, _: int) -> Any:
    from pyspark.sql import functions as f

    return frame.withColumn("hour", f.to_timestamp("hour", "yyyy-MM-dd'T'HH")).withColumn(
        "buckets", f.to_json("buckets")
    )


SUMMARIES = {
    "rollup_usage": Summary(
        "rollup_usage",
        _by_day(
            *("user_name", "groups", "table_name", "column_name", "endpoint", "tool", "masks", "filters")
        ),
    ),
    "rollup_refusal": Summary(
        "rollup_refusal",
        _by_day(*_WHO, "code", "resource", "action", "policy"),
    ),
    "rollup_statement": Summary("rollup_statement", _slow_by_day),
    "rollup_latency": Summary("rollup_latency", _latency_by_hour, by_hour=True),
}
