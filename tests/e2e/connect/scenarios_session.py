"""Caches, checkpoints, clones, interrupts, tags, metrics, and what is asked of a plan without running it."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from tests.e2e.connect.framework import Place, error_of, printed, scenario, told
from tests.speed import patience

# --- caches and checkpoints


@scenario("caches")
def cache_and_unpersist(x: Place) -> Any:
    frame = x.people.select("id", "email", "salary").cache()
    first = sorted(frame.collect())
    again = frame.where("salary > 3000").count()
    cached = frame.is_cached
    frame.unpersist()
    return [first, again, cached]


@scenario("caches")
def persist_with_level(x: Place) -> Any:
    from pyspark.storagelevel import StorageLevel

    frame = x.dept.select("id").persist(StorageLevel.MEMORY_ONLY)
    level = frame.storageLevel
    count = frame.count()
    frame.unpersist(blocking=True)
    return [str(level), count, str(frame.storageLevel)]


@scenario("caches")
def local_checkpoint(x: Place) -> Any:
    kept = x.people.select("id", "email", "salary").localCheckpoint()
    return [
        kept,
        kept.where("salary > 3000").select("id"),
        kept.join(x.orders, kept.id == F.col("person_id")).count(),
    ]


@scenario("caches")
def local_checkpoint_lazily(x: Place) -> Any:
    return x.people.select("id", "region").localCheckpoint(eager=False).groupBy("region").count()


@scenario("caches")
def checkpoint_without_directory(x: Place) -> Any:
    return error_of(lambda: x.dept.checkpoint().collect())


# --- sessions


@scenario("sessions")
def clone_session(x: Place) -> Any:
    x.spark.range(3).createTempView("mine")
    x.people.select("id", "email").createTempView("mail")
    copy = x.spark.cloneSession()
    copy.release_session_on_close = True  # the client of 4.2 forgets it, and then cannot stop the clone
    try:
        rows = [
            sorted(copy.table("mine").collect()),
            sorted(copy.sql("SELECT id, email FROM mail").collect()),
        ]
        return [rows, copy.catalog.currentDatabase(), copy.table("dept").count()]
    finally:
        copy.stop()


@scenario("sessions")
def clone_is_apart(x: Place) -> Any:
    copy = x.spark.cloneSession()
    copy.release_session_on_close = True
    try:
        copy.range(2).createTempView("only_there")
        x.spark.catalog.setCurrentDatabase("default")
        missing = error_of(lambda: x.spark.table("only_there").collect())
        return [missing, copy.catalog.currentDatabase(), copy.table("only_there").count()]
    finally:
        copy.stop()


@scenario("sessions", since=(4, 3))
def new_session(x: Place) -> Any:
    x.spark.range(3).createTempView("mine")
    other = x.spark.newSession()
    try:
        return [other.catalog.currentDatabase(), error_of(lambda: other.table("mine").collect())]
    finally:
        other.stop()


@scenario("sessions")
def tags(x: Place) -> Any:
    x.spark.addTag("one")
    x.spark.addTag("two")
    x.spark.removeTag("one")
    held = x.spark.getTags()
    count = x.dept.count()
    x.spark.clearTags()
    return [held, count, x.spark.getTags()]


def _interrupted(x: Place, interrupt: Any, tag: str | None = None) -> Any:
    ended: list[Any] = []

    def work() -> None:
        if tag is not None:
            x.spark.addTag(tag)
        try:
            # Many short tasks: one that runs for long would go on after its query is gone. And no shuffle:
            # Spark may let its first half go on when the interrupt comes while it is planned.
            ended.append(x.spark.range(0, 4 * 10**8, 1, 800).where("id % 7 > 7").collect())
        except Exception as error:  # noqa: BLE001 - how it ends is the result
            ended.append(told(error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(0.5)
    deadline = time.monotonic() + patience(30)
    count = 0
    while thread.is_alive() and time.monotonic() < deadline:
        count += len(interrupt())
        thread.join(0.1)
    return [count >= 1, ended]


@scenario("sessions")
def interrupt_all(x: Place) -> Any:
    return _interrupted(x, x.spark.interruptAll)


@scenario("sessions")
def interrupt_by_tag(x: Place) -> Any:
    return _interrupted(x, lambda: x.spark.interruptTag("slow"), "slow")


@scenario("sessions")
def interrupt_nothing(x: Place) -> Any:
    return [
        x.spark.interruptAll(),
        x.spark.interruptTag("none"),
        x.spark.interruptOperation("00000000-0000-0000-0000-000000000000"),
    ]


@scenario("sessions")
def stopped(x: Place) -> Any:
    copy = x.spark.cloneSession()
    copy.release_session_on_close = True
    copy.stop()
    return copy.is_stopped


# --- metrics


@scenario("metrics")
def observe(x: Place) -> Any:
    from pyspark.sql import Observation

    seen = Observation("seen")
    frame = x.people.observe(
        seen, F.count(F.lit(1)).alias("n"), F.max("salary").alias("top"), F.max("email").alias("e")
    )
    frame.select("id").collect()
    return seen.get


@scenario("metrics")
def observe_by_name(x: Place) -> Any:
    return x.dept.observe("m", F.sum("id").alias("s")).count()


@scenario("metrics", governed="elsewhere")
def execution_info(x: Place) -> Any:
    frame = x.dept.select("id")
    frame.collect()
    return frame.executionInfo is not None


@scenario("metrics")
def progress_handler(x: Place) -> Any:
    seen: list[Any] = []

    def handler(**progress: Any) -> None:
        seen.append(progress)

    x.spark.registerProgressHandler(handler)
    count = x.orders.groupBy("qty").count().count()
    x.spark.removeProgressHandler(handler)
    return count


# --- questions about a plan


@scenario("analysis")
def schema_of_masked(x: Place) -> Any:
    return [(f.name, f.dataType.simpleString()) for f in x.people.schema.fields]


@scenario("analysis")
def print_schema(x: Place) -> Any:
    return [printed(x.people.printSchema), printed(lambda: x.people.select("home").printSchema(1))]


@scenario("analysis")
def is_local_and_streaming(x: Place) -> Any:
    return [
        x.people.isLocal(),
        x.people.isStreaming,
        x.spark.range(1).isLocal(),
        x.spark.sql("SHOW TABLES").isLocal(),
    ]


@scenario("analysis", governed="refused")
def input_files(x: Place) -> Any:
    return len(x.people.inputFiles())


@scenario("analysis")
def same_semantics(x: Place) -> Any:
    a, b = x.people.select("id"), x.people.select("id")
    return [
        a.sameSemantics(b),
        a.sameSemantics(x.people.select("salary")),
        a.semanticHash() == b.semanticHash(),
    ]


@scenario("analysis", governed="refused")
def explain_simple(x: Place) -> Any:
    return "PhysicalPlan" in printed(x.people.select("id").explain).replace(" ", "")


@scenario("analysis", governed="refused")
def explain_modes(x: Place) -> Any:
    frame = x.people.where("salary > 3000").select("id")
    modes = ("extended", "cost", "formatted")
    return [len(printed(partial(frame.explain, mode=mode))) > 50 for mode in modes]


@scenario("analysis")
def explain_without_tables(x: Place) -> Any:
    return printed(x.spark.range(3).explain)


@scenario("analysis")
def parse_ddl(x: Place) -> Any:
    from pyspark.sql.types import StructType

    return [StructType.fromDDL("a int, b struct<c:string>").simpleString(), x.spark._to_ddl(x.dept.schema)]


@scenario("analysis")
def alias_schema_names(x: Place) -> Any:
    frame = x.people.alias("p").join(x.dept.alias("d"), F.col("p.dept_id") == F.col("d.id"))
    return [frame.columns, frame.dtypes]


@scenario("analysis")
def current_user(x: Place) -> Any:
    """The principal through the gateway, Spark's own user directly: never the same, always a name."""
    row = x.spark.sql("SELECT current_user() = session_user(), length(user()) > 0").collect()[0]
    return [row[0], row[1], x.spark.range(1).select(F.current_user().isNotNull()).collect()[0][0]]
