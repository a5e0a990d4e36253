"""What the answers come to: one row for each question, and summaries for people. No I/O of its own."""

from __future__ import annotations

from typing import Any

from gateway.jobs.replay.questions import NOTHING_ASKED

EXAMPLES = 3
"""Statements that a summary names for each change."""
TABLE = (
    "user_name string, groups array<string>, statements bigint, first_at timestamp, last_at timestamp,"
    " example string, recorded string, recorded_code string, reason string, old string, new string,"
    " old_code string, new_code string, fingerprint string, changes array<struct<kind: string,"
    " resource: string, column_name: string, before: string, after: string>>"
)
"""Columns of the table in the lake; `reason` says why a statement could not be judged."""


def result(questions: Any, answers: Any) -> Any:
    """Return the questions with their answers; those that were skipped with why."""
    from pyspark.sql import functions as f

    return questions.join(answers, "key", "left").select(
        "user_name",
        "groups",
        "statements",
        "first_at",
        "last_at",
        "example",
        f.col("verdict").alias("recorded"),
        f.col("questions_code").alias("recorded_code"),
        f.coalesce("skip", "reason").alias("reason"),
        "old",
        "new",
        "old_code",
        "new_code",
        "fingerprint",
        f.coalesce("changes", f.array()).alias("changes"),
    )


def totals(found: Any) -> Any:
    """Return one row of counts of statements."""
    from pyspark.sql import functions as f

    def count(condition: Any) -> Any:
        return f.coalesce(f.sum(f.when(condition, f.col("statements"))), f.lit(0)).cast("bigint")

    judged, nothing = f.col("reason").isNull(), f.col("reason") == NOTHING_ASKED
    return found.agg(
        count(judged | ~judged).alias("statements"),
        count(judged).alias("judged"),
        count(nothing).alias("asked_nothing"),
        count(~judged & ~nothing).alias("unjudged"),
        count(judged & (f.size("changes") > 0)).alias("changed"),
        count(judged & (f.col("recorded") != f.col("old"))).alias("decided_otherwise"),
    )


def summarize_changes(found: Any, most: int) -> Any:
    """Return what is otherwise by user, resource and column: of `most` changes, those of most statements."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    by = ("kind", "user_name", "resource", "column_name", "before", "after")
    flat = found.select(
        "user_name", "statements", "fingerprint", "example", f.explode("changes").alias("change")
    ).select("change.*", "user_name", "statements", "fingerprint", "example")
    shapes = flat.groupBy(*by, "fingerprint").agg(
        f.sum("statements").alias("statements"), f.max("example").alias("example")
    )
    order = Window.partitionBy(*by).orderBy(f.desc("statements"), "fingerprint")
    ranked = shapes.withColumn("rank", f.row_number().over(order))
    named = f.when(
        f.col("rank") <= EXAMPLES,
        f.struct("rank", f.coalesce("fingerprint", f.lit("")).alias("fingerprint"), "example"),
    )
    return (
        ranked.groupBy(*by)
        .agg(f.sum("statements").alias("statements"), f.array_sort(f.collect_list(named)).alias("some"))
        .select(
            *by,
            "statements",
            f.col("some.fingerprint").alias("fingerprints"),
            f.col("some.example").alias("examples"),
        )
        .orderBy(f.desc("statements"), *by)
        .limit(most)
    )


def count_unjudged(found: Any) -> Any:
    """Return the reasons why statements could not be judged, with how many and an example."""
    from pyspark.sql import functions as f

    return (
        found.where(f.col("reason").isNotNull() & (f.col("reason") != NOTHING_ASKED))
        .groupBy("reason")
        .agg(f.sum("statements").alias("statements"), f.max("example").alias("example"))
        .orderBy(f.desc("statements"), "reason")
    )
