"""Structured streaming: tables and rates in; memory, noop and tables out."""

from __future__ import annotations

import uuid
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from tests.e2e.connect.framework import Place, error_of, fresh, scenario
from tests.speed import patience


@scenario("streams")
def stream_table_to_memory(x: Place) -> Any:
    name = fresh("q")
    stream = x.spark.readStream.table(f"{x.db}.events").where("value > 5").select("seq", "kind")
    query = stream.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    ended = query.awaitTermination(patience(180))
    return [ended, x.spark.table(name), stream.isStreaming, query.isActive]


@scenario("streams")
def stream_aggregated(x: Place) -> Any:
    name = fresh("q")
    stream = (
        x.spark.readStream.table(f"{x.db}.people")
        .groupBy("region")
        .agg(F.max("email").alias("e"), F.count("*").alias("n"))
    )
    query = (
        stream.writeStream.format("memory")
        .queryName(name)
        .outputMode("complete")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(patience(180))
    return x.spark.sql(f"SELECT * FROM {name}")


@scenario("streams")
def stream_to_noop(x: Place) -> Any:
    query = x.spark.readStream.table("events").writeStream.format("noop").trigger(availableNow=True).start()
    ended = query.awaitTermination(patience(180))
    progress = query.recentProgress
    return [
        ended,
        len(progress) > 0,
        query.lastProgress is not None,
        query.exception(),
    ]


@scenario("streams", governed="refused")
def stream_to_table(x: Place) -> Any:
    """A checkpoint is a path."""
    name, place = f"{x.scratch}.{fresh('sink')}", str(x.directory / fresh("checkpoint"))
    stream = x.spark.readStream.table(f"{x.db}.events").select("seq", "kind")
    query = stream.writeStream.option("checkpointLocation", place).trigger(availableNow=True).toTable(name)
    query.awaitTermination(patience(180))
    rows = sorted(tuple(row) for row in x.spark.table(name).collect())
    x.spark.sql(f"DROP TABLE {name}")
    return rows


@scenario("streams", daily=True)
def stream_of_rates(x: Place) -> Any:
    rates = x.spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    query = rates.writeStream.format("noop").queryName(fresh("rate")).start()
    try:
        listed = any(q.id == query.id for q in x.spark.streams.active)
        again = x.spark.streams.get(query.id).name == query.name
        none = x.spark.streams.get(str(uuid.uuid4()))
        return [rates.schema.simpleString(), listed, again, none, query.isActive, "message" in query.status]
    finally:
        query.stop()
        query.awaitTermination(patience(180))


@scenario("streams")
def stream_stopped(x: Place) -> Any:
    query = x.spark.readStream.format("rate").load().writeStream.format("noop").start()
    before = query.isActive
    waited = query.awaitTermination(0.01)
    query.stop()
    return [before, waited, query.isActive, [q for q in x.spark.streams.active if q.id == query.id]]


@scenario("streams")
def stream_joined_with_table(x: Place) -> Any:
    name = fresh("q")
    stream = x.spark.readStream.table(f"{x.db}.orders").join(x.dept, F.col("orders.qty") == F.col("dept.id"))
    query = (
        stream.select("item", "title")
        .writeStream.format("memory")
        .queryName(name)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(patience(180))
    return x.spark.table(name).groupBy("title").count()


@scenario("streams")
def stream_cannot_be_collected(x: Place) -> Any:
    return error_of(lambda: x.spark.readStream.table("events").collect())


@scenario("streams")
def stream_that_fails(x: Place) -> Any:
    stream = x.spark.readStream.table("events").select(F.expr("CAST(kind AS INT) AS n"))
    query = stream.writeStream.format("noop").trigger(availableNow=True).start()
    ended = error_of(lambda: query.awaitTermination(patience(180)))
    return [ended["error"], query.isActive, query.exception() is not None]


@scenario("streams")
def stream_explained(x: Place) -> Any:
    rates = x.spark.readStream.format("rate").load()
    query = rates.writeStream.format("noop").start()
    try:
        return [query.runId != query.id, query.name]
    finally:
        query.stop()


@scenario("streams")
def stream_watermark(x: Place) -> Any:
    name = fresh("q")
    stream = (
        x.spark.readStream.table("events")
        .withWatermark("at", "5 minutes")
        .groupBy(F.window("at", "10 minutes"))
        .count()
    )
    query = (
        stream.writeStream.format("memory")
        .queryName(name)
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(patience(180))
    return x.spark.table(name).select("window.start", "count")
