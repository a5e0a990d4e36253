"""The closure of a graph by joins: each round takes the ways that the last one found one step on.

A way leaves a column by its own edges, by those of all of its dataset (`*`), and one that came to `*` by
those of each column there: as walks of the live graph do. What two columns are to each other is a rank, the
best of the ways between them; of one way, the least of its steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import count
from typing import Any

from gateway.jobs.spark import Keep
from gateway.model.context import AccessContext
from gateway.model.lineage import ANY_COLUMN, Subtype, TransformationType
from gateway.model.policy import PolicySet
from gateway.model.resource import Resource
from gateway.model.tags import Propagation, PropagationRules
from gateway.policy.engine import engine_for

EDGES = (
    "source bigint, target bigint, subtype string, masking boolean, aggregates array<string>,"
    " finished boolean"
)
COLUMNS = "id bigint, dataset bigint, dataset_name string, kind string, parts array<string>, name string"
TAGGED = "id bigint, tag string"
CARRIES = {1: "influence", 2: "masked", 3: "values"}
"""As `sluice lineage` tells what arrives."""

_Step = Callable[[Any, Any], Any]
"""Takes pyspark's functions and ways, and returns the same one step on."""


def join_leaving_columns(columns: Any) -> Any:
    """Return for each column (`here`) those by which a way may leave it (`leaves`)."""
    from pyspark.sql import functions as f

    whole = columns.where(f.col("name") == ANY_COLUMN).select("dataset", f.col("id").alias("whole"))
    others = columns.where(f.col("name") != ANY_COLUMN).join(whole, "dataset")
    return (
        columns.select(f.col("id").alias("here"), f.col("id").alias("leaves"))
        .unionByName(others.select(f.col("id").alias("here"), f.col("whole").alias("leaves")))
        .unionByName(others.select(f.col("whole").alias("here"), f.col("id").alias("leaves")))
    )


def hops(edges: Any, near: Any) -> Any:
    """Return the edges by where a way comes from: `here`."""
    from pyspark.sql import functions as f

    return near.join(edges, f.col("leaves") == f.col("source")).drop("leaves", "source")


def carries(edges: Any) -> Any:
    """Return the edges with what they carry, as `rank`: the best between two columns."""
    from pyspark.sql import functions as f

    indirect = [one.value for one in Subtype if one.type is TransformationType.INDIRECT]
    rank = f.when(f.col("subtype").isin(indirect), 1).when(f.col("masking"), 2).otherwise(3)
    return edges.groupBy("source", "target").agg(f.max(rank).alias("rank"))


def compute_closure(
    start: Any, step: _Step, keep: Keep, *, depth: int, said: Callable[[int, int], None], name: str
) -> tuple[Any, bool]:
    """Return all that is reached within so many steps, and whether it goes on behind them.

    `start` says what a column (`source`, by its `tag`) is to another (`at`): its `rank`, the `distance`, and
    the column `before` that on the way. Each round writes what is new or better, and reads no plan but files.
    """
    from pyspark.sql import functions as f

    key = ("source", "tag", "at")
    parts = [keep(f"{name}_0", _best(f, start))]
    for round_ in count(1):
        stepped = _best(f, step(f, parts[-1]))
        known = (
            reduce(lambda one, more: one.unionByName(more), parts)
            .groupBy(*key)
            .agg(f.max("rank").alias("known"))
        )
        new = stepped.join(known, [*key], "left").where("known IS NULL OR rank > known").drop("known")
        if round_ > depth:
            return _whole(f, parts), not new.isEmpty()
        part = keep(f"{name}_{round_}", new)
        rows = int(part.count())
        said(round_, rows)
        if not rows:
            return _whole(f, parts), False
        parts.append(part)
    raise AssertionError  # counting does not end


def _best(f: Any, ways: Any) -> Any:
    """Return one way for each pair: the best, and of these the shortest."""
    order = f.struct("rank", -f.col("distance"), "before")
    return (
        ways.groupBy("source", "tag", "at")
        .agg(f.max_by(f.struct("rank", "distance", "before"), order).alias("way"))
        .select("source", "tag", "at", "way.*")
    )


def _whole(f: Any, parts: Sequence[Any]) -> Any:
    """Return each pair with its best rank and its shortest way, whatever that one carries."""
    every = reduce(lambda one, more: one.unionByName(more), parts)
    return every.groupBy("source", "tag", "at").agg(
        f.max("rank").alias("rank"),
        f.min("distance").alias("distance"),
        f.max_by("before", f.struct("rank", -f.col("distance"), "before")).alias("before"),
    )


def build_feeding_steps(edges: Any) -> Any:
    """Return the edges as ways of one step."""
    from pyspark.sql import functions as f

    return carries(edges).select(
        "source",
        f.lit("").alias("tag"),
        f.col("target").alias("at"),
        f.col("rank").cast("int").alias("rank"),
        f.lit(1).alias("distance"),
        f.col("source").alias("before"),
    )


def build_edge_step(hopped: Any) -> _Step:
    """Return the step along every edge; what arrives is at most what the edge carries."""

    def step(f: Any, ways: Any) -> Any:
        own = hopped.withColumnRenamed("rank", "carried")
        return ways.join(own, ways["at"] == own["here"]).select(
            "source",
            "tag",
            f.col("target").alias("at"),
            f.least("rank", "carried").cast("int").alias("rank"),
            (f.col("distance") + 1).cast("int").alias("distance"),
            f.col("at").alias("before"),
        )

    return step


def build_tagged_starts(tagged: Any) -> Any:
    """Return tagged columns as ways of no step."""
    from pyspark.sql import functions as f

    return tagged.select(
        f.col("id").alias("source"),
        "tag",
        f.col("id").alias("at"),
        f.lit(int(Propagation.CARRY)).alias("rank"),
        f.lit(0).alias("distance"),
        f.col("id").alias("before"),
    )


def values(edges: Any, rules: PropagationRules) -> Any:
    """Return the edges by which values flow unmasked, in a way that carries some tag."""
    from pyspark.sql import functions as f

    wanted = edges.where(~f.col("masking") & f.col("subtype").isin(sorted(rules.carrying)))
    return wanted.select("source", "target", "subtype", "aggregates", "finished")


def follows(
    spark: Any, rules: PropagationRules, tags: Sequence[str], flows: Sequence[tuple[str, Sequence[str]]]
) -> Any:
    """Return what becomes of each tag along each kind of flow: `tag`, `subtype`, `aggregates`, `follows`."""
    rows = [
        (tag, flow, list(aggregates), int(rules.follows(tag, flow, aggregates)))
        for tag in tags
        for flow, aggregates in flows
    ]
    kept = [row for row in rows if row[3]]
    return spark.createDataFrame(kept, "of_tag string, flow string, functions array<string>, follows int")


def along_values(hopped: Any, told: Any, rejected: Any) -> _Step:
    """Return the step along unmasked flows that the rules let a tag pass; no way leaves a column of which the
    tag was `rejected`."""

    def step(f: Any, ways: Any) -> Any:
        on = (
            (f.col("tag") == f.col("of_tag"))
            & (f.col("subtype") == f.col("flow"))
            & (f.col("aggregates") == f.col("functions"))
        )
        # INVARIANT (what may have landed counts): of what did not finish somebody has to look.
        known = f.when(f.col("finished"), f.col("follows")).otherwise(int(Propagation.ASK))
        return (
            _without(f, ways, rejected, "at")
            .join(hopped, f.col("at") == f.col("here"))
            .where(f.col("target") != f.col("source"))
            .join(f.broadcast(told), on)
            .select(
                "source",
                "tag",
                f.col("target").alias("at"),
                f.least("rank", known).cast("int").alias("rank"),
                (f.col("distance") + 1).cast("int").alias("distance"),
                f.col("at").alias("before"),
            )
        )

    return step


def _without(f: Any, found: Any, tagged: Any, column: str) -> Any:
    """Return what was found but for some columns (`id`) and tags; `column` is where it has the column."""
    those = tagged.select(f.col("id").alias(column), "tag")
    return found.join(f.broadcast(those), [column, "tag"], "left_anti")


def join_sources(reach: Any, near: Any, columns: Any) -> Any:
    """Return each column with all that feed it, those of its whole dataset, too."""
    from pyspark.sql import functions as f

    told = (
        reach.join(near, f.col("at") == f.col("leaves"))
        .where(f.col("here") != f.col("source"))
        .groupBy("source", f.col("here").alias("target"))
        .agg(f.max("rank").alias("rank"), f.min("distance").alias("distance"))
    )
    texts = f.create_map(*(f.lit(x) for pair in CARRIES.items() for x in pair))
    return (
        told.join(_names(f, columns, "source"), "source")
        .join(_names(f, columns, "target"), "target")
        .select(
            *("source_dataset", "source_column", "target_dataset", "target_column"),
            texts[f.col("rank")].alias("carries"),
            "distance",
        )
    )


def join_tags(reach: Any, tagged: Any, rejected: Any, columns: Any) -> Any:
    """Return each column that a tag reaches, with the column it comes from and the one before it; none of
    which the tag was `rejected`, unless it has it anyway."""
    from pyspark.sql import functions as f

    has = tagged.select(f.col("id").alias("target"), "tag", f.expr("true").alias("has"))
    how = f.when(f.col("rank") == int(Propagation.CARRY), "carry").otherwise("ask")
    return (
        _without(f, reach.where("distance > 0"), _without(f, rejected, tagged, "id"), "at")
        .withColumnRenamed("at", "target")
        .join(has, ["target", "tag"], "left")
        .join(_names(f, columns, "source"), "source")
        .join(_names(f, columns, "target"), "target")
        .join(_names(f, columns, "before"), "before")
        .select(
            *("tag", "source_dataset", "source_column", "target_dataset", "target_column"),
            how.alias("how"),
            "distance",
            *("before_dataset", "before_column"),
            f.coalesce("has", f.expr("false")).alias("tagged"),
        )
    )


def findings(named: Any, columns: Any, most: int) -> Any:
    """Return the columns of tables that a tag reaches and that do not have it, the nearest first."""
    from pyspark.sql import functions as f

    tables = columns.where((f.col("kind") == "table") & (f.size("parts") == 3))
    tables = tables.select(f.col("dataset_name").alias("target_dataset")).distinct()
    source = f.concat_ws(".", "source_dataset", "source_column")
    return (
        named.where(~f.col("tagged"))
        .join(tables, "target_dataset")
        .groupBy(
            f.col("target_dataset").alias("table_name"), f.col("target_column").alias("column_name"), "tag"
        )
        .agg(
            # As texts they are in the same order.
            f.max("how").alias("how"),
            f.count("*").alias("sources"),
            f.min_by(source, f.struct("distance", source)).alias("source"),
            f.min("distance").cast("bigint").alias("distance"),
        )
        .orderBy(f.desc("how"), "distance", "table_name", "column_name", "tag")
        .limit(most)
    )


def _names(f: Any, columns: Any, end: str) -> Any:
    return columns.select(
        f.col("id").alias(end),
        f.col("dataset_name").alias(f"{end}_dataset"),
        f.col("name").alias(f"{end}_column"),
    )


def build_tagger(policies: PolicySet, context: AccessContext) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return what takes batches of `COLUMNS`, and gives those of tables with their tags: `TAGGED`."""

    def tell(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        engine = engine_for(policies)
        schema = pyarrow.schema([("id", pyarrow.int64()), ("tag", pyarrow.string())])
        for batch in batches:
            rows = [
                {"id": row["id"], "tag": tag}
                for row in batch.to_pylist()
                for tag in sorted({one.type for one in engine.tags(_resource(row), context)})
            ]
            yield pyarrow.RecordBatch.from_pylist(rows, schema=schema)

    return tell


def _resource(row: Mapping[str, Any]) -> Resource:
    catalog, database, table = row["parts"]
    found = Resource.table(catalog, database, table)
    return found if row["name"] == ANY_COLUMN else found.child("column", row["name"])
