"""Settings of a session that could change what an expression means, or what rows a table has.

A policy may let users set them. Then a row filter or a mask that could mean something else under what the
session has is not used: `sql/meaning.py` says which ones could. What is on no list here could change all.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from gateway.model.spark_configuration import CATALOG_PREFIX


class Influence(enum.Enum):
    """What of an expression a setting reaches."""

    NONE = "none"
    """How Spark works, or how a client shows rows: the rows are the same."""
    ANSI = "ansi"
    """Implicit casts, and what fails or overflows."""
    TIME_ZONE = "time_zone"
    """What day and hour an instant is, and which instant a day and hour are."""
    TABLES = "tables"
    """Which rows a table has, and nothing of what an expression makes of these."""
    ANYTHING = "anything"
    """It is not known to leave anything alone."""


ANSI_MODE = "spark.sql.ansi.enabled"
TIME_ZONE = "spark.sql.session.timeZone"

_REACHES: Mapping[str, Influence] = {
    ANSI_MODE: Influence.ANSI,
    TIME_ZONE: Influence.TIME_ZONE,
    # Iceberg's write-audit-publish. What is written lies in a branch, which the session reads in the place of
    # its tables, with their columns of now; or in a snapshot that nobody reads before it is published.
    "spark.wap.branch": Influence.TABLES,
    "spark.wap.id": Influence.NONE,
}

HARMLESS_BY_EFFECT: Mapping[str, str] = {
    "how a query is run while its sizes become known": """
        spark.sql.adaptive.advisoryPartitionSizeInBytes spark.sql.adaptive.autoBroadcastJoinThreshold
        spark.sql.adaptive.coalescePartitions.enabled
        spark.sql.adaptive.coalescePartitions.initialPartitionNum
        spark.sql.adaptive.coalescePartitions.minPartitionSize
        spark.sql.adaptive.coalescePartitions.parallelismFirst spark.sql.adaptive.enabled
        spark.sql.adaptive.forceOptimizeSkewedJoin spark.sql.adaptive.localShuffleReader.enabled
        spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold
        spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled
        spark.sql.adaptive.rebalancePartitionsSmallPartitionFactor spark.sql.adaptive.skewJoin.enabled
        spark.sql.adaptive.skewJoin.skewedPartitionFactor
        spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes
    """,
    "into how many parts work is cut": """
        spark.sql.files.maxPartitionBytes spark.sql.files.maxPartitionNum
        spark.sql.files.minPartitionNum spark.sql.files.openCostInBytes
        spark.sql.iceberg.planning.preserve-data-grouping spark.sql.leafNodeDefaultParallelism
        spark.sql.limit.initialNumPartitions spark.sql.limit.scaleUpFactor
        spark.sql.maxSinglePartitionBytes spark.sql.shuffle.partitions
        spark.sql.sources.bucketing.enabled spark.sql.sources.v2.bucketing.enabled
    """,
    "which join is taken": """
        spark.sql.autoBroadcastJoinThreshold spark.sql.broadcastTimeout spark.sql.cbo.enabled
        spark.sql.cbo.joinReorder.dp.threshold spark.sql.cbo.joinReorder.enabled
        spark.sql.cbo.planStats.enabled spark.sql.cbo.starSchemaDetection spark.sql.crossJoin.enabled
        spark.sql.defaultSizeInBytes spark.sql.join.preferSortMergeJoin
        spark.sql.optimizer.runtime.bloomFilter.enabled spark.sql.shuffledHashJoinFactor
        spark.sql.statistics.fallBackToHdfs
    """,
    "how rows are computed and kept": """
        spark.sql.codegen.fallback spark.sql.codegen.hugeMethodLimit spark.sql.codegen.maxFields
        spark.sql.codegen.methodSplitThreshold spark.sql.codegen.wholeStage spark.sql.exchange.reuse
        spark.sql.inMemoryColumnarStorage.batchSize spark.sql.inMemoryColumnarStorage.compressed
    """,
    "how files are read": """
        spark.sql.iceberg.vectorization.enabled spark.sql.optimizer.dynamicPartitionPruning.enabled
        spark.sql.optimizer.nestedSchemaPruning.enabled spark.sql.orc.columnarReaderBatchSize
        spark.sql.orc.filterPushdown spark.sql.parquet.columnarReaderBatchSize
        spark.sql.parquet.filterPushdown
    """,
    "how files are written, and what INSERT OVERWRITE removes": """
        spark.sql.avro.compression.codec spark.sql.files.maxRecordsPerFile
        spark.sql.orc.compression.codec spark.sql.parquet.compression.codec
        spark.sql.sources.partitionOverwriteMode
    """,
    "how much of a plan is printed": """
        spark.sql.debug.maxToStringFields spark.sql.maxMetadataStringLength
        spark.sql.maxPlanStringLength
    """,
    "what Hive's clients send; Spark heeds the first two where it writes partitions": """
        hive.exec.dynamic.partition hive.exec.dynamic.partition.mode hive.exec.max.dynamic.partitions
        hive.exec.max.dynamic.partitions.pernode hive.execution.engine
        hive.server2.thrift.resultset.default.fetch.size mapreduce.job.queuename tez.queue.name
    """,
    "where, how long and under what name a statement runs": """
        spark.job.description spark.job.interruptOnCancel spark.jobGroup.id spark.scheduler.pool
        spark.sql.thriftServer.incrementalCollect spark.sql.thriftServer.queryTimeout
        spark.sql.thriftserver.scheduler.pool
    """,
}
"""What settings change, and nothing of what an expression means → those, in Spark's spelling: another one is
another setting, of which nothing is known. They are in the pack that Sluice ships (rules/policies)."""

HARMLESS = frozenset(key for keys in HARMLESS_BY_EFFECT.values() for key in keys.split())

HARMLESS_PREFIXES = (
    # How rows are turned into a client's objects; masks and filters are through with them by then.
    "spark.connect.session.planCompression.",
    "spark.sql.connect.",
    "spark.sql.execution.arrow.",
    "spark.sql.execution.pandas.",
    "spark.sql.pyspark.",
    "spark.sql.repl.eagerEval.",
    "spark.sql.ui.",
    "pandas_on_spark.",
    # Which gateway has opened the session.
    "spark.sluice.gateway.",
    # What a stream does between two batches.
    "spark.sql.streaming.metricsEnabled",
    "spark.sql.streaming.minBatchesToRetain",
    "spark.sql.streaming.noDataProgressEventInterval",
    "spark.sql.streaming.numRecentProgressUpdates",
    "spark.sql.streaming.pollingDelay",
)


def influence(key: str) -> Influence:
    """Return what of an expression the setting reaches; ANYTHING for one that is on no list."""
    if key in HARMLESS or key.startswith(HARMLESS_PREFIXES):
        return Influence.NONE
    return _REACHES.get(key, Influence.ANYTHING)


def may_change_meaning(key: str) -> bool:
    """Whether the session's value of this setting has to be known when a mask or filter is written."""
    return influence(key) is not Influence.NONE


def list_changed_settings(now: Mapping[str, str], own: Mapping[str, str]) -> frozenset[str]:
    """Return the settings that a session has otherwise than Spark itself does, of those that matter.

    Parameters of catalogs do not: the gateway alone says them, and logins change from session to session.
    """
    keys = (key for key in now.keys() | own.keys() if now.get(key) != own.get(key))
    return frozenset(key for key in keys if not _is_of_catalog(key) and may_change_meaning(key))


def _is_of_catalog(key: str) -> bool:
    return key.startswith(CATALOG_PREFIX) and "." in key.removeprefix(CATALOG_PREFIX)
