"""What use comes to: DataFrames of roll-ups in, small DataFrames for the driver out. No I/O of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gateway.jobs.recommending.attribution import ALLOW, DENIED, UNREADABLE, USES

USE = (
    "user_name string, groups array<string>, table_name string, column_name string, statements bigint,"
    " first_at timestamp, last_at timestamp"
)
"""A day's use, in the lake."""
_KEYS = ("user_name", "groups", "table_name", "column_name")
MAX_COLUMNS = 200
"""Columns of a table that are told by name."""
MAX_BUNDLES = 12
"""Bundles of tables of one user that count for groups: so many have 4,096 sets in common at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """Bounds that decide when users are peers, and when one of them is an outlier."""

    members: int = 3
    """Users of a group by use, and of a group in which somebody can be far from all others."""
    most_members: int = 1_000
    distance: float = 0.5
    """Share of a user's tables that hardly anybody of his groups uses."""
    peer_share: float = 0.1
    """Maximum fraction of peers that may use a table for a user of it to be an outlier."""
    tables: int = 3
    """Minimum number of such tables."""


def of_day(rollup: Any) -> Any:
    """Return who used which column, of the hours of a day."""
    from pyspark.sql import functions as f

    return rollup.groupBy(*_KEYS).agg(
        f.sum("statements").alias("statements"),
        f.min("first_at").alias("first_at"),
        f.max("last_at").alias("last_at"),
    )


def uses(days: Any, since: str) -> Any:
    """Return who used which column on all days; `recent` are the statements from a day on."""
    from pyspark.sql import functions as f

    # What another version has written may be without times: then it is the day's.
    begin = f.to_timestamp("day")
    found = days.groupBy(*_KEYS).agg(
        f.sum("statements").alias("statements"),
        f.sum(f.when(f.col("day") >= since, f.col("statements")).otherwise(0)).alias("recent"),
        f.min(f.coalesce("first_at", begin)).alias("first_at"),
        f.max(f.coalesce("last_at", begin)).alias("last_at"),
    )
    return found.select(*(part.split()[0] for part in USES.split(", ")))


def items(attributed: Any) -> Any:
    """Return how often each item of a policy was needed, by whom, and when last."""
    from pyspark.sql import functions as f

    recently = f.when(f.col("recent") > 0, f.col("user_name"))
    return attributed.groupBy("part", "policy", "item").agg(
        f.sum("recent").alias("recent"),
        f.count_distinct(recently).alias("users"),
        f.unix_micros(f.min("first_at")).alias("first_at"),
        f.unix_micros(f.max("last_at")).alias("last_at"),
        f.max_by("user_name", f.struct("last_at", "user_name")).alias("last_user"),
    )


def tables(attributed: Any, wide: Sequence[str], most: int) -> Any:
    """Return the tables, up to `most` + 1, for which each of some policies was needed, and by whom most."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    chosen = attributed.where(
        (f.col("part") == ALLOW) & f.col("policy").isin(list(wide)) & (f.col("recent") > 0)
    )
    found = chosen.groupBy("policy", "table_name").agg(
        f.sum("recent").alias("recent"),
        f.count_distinct("user_name").alias("users"),
        f.max_by(
            f.struct("user_name", "groups", "column_name"), f.struct("recent", "user_name", "column_name")
        ).alias("example"),
    )
    order = Window.partitionBy("policy").orderBy(f.desc("recent"), "table_name")
    return found.withColumn("place", f.row_number().over(order)).where(f.col("place") <= most + 1)


def coverage(spoken: Any) -> Any:
    """Return how many known tables each policy speaks of, and one column of them."""
    from pyspark.sql import functions as f

    return (
        spoken.where("policy <> ''")
        .groupBy("policy")
        .agg(
            f.count_distinct("table_name").alias("tables"),
            f.min(f.struct("table_name", "column_name")).alias("example"),
        )
    )


def find_tables_without_policies(known: Any, spoken: Any, attributed: Any) -> Any:
    """Return the known tables of which no policy speaks, and no recent use of which is allowed anyway."""
    allowed = attributed.where((attributed.part == ALLOW) & (attributed.recent > 0))
    tables = known.select("table_name").distinct()
    for found in (spoken, allowed):
        tables = tables.join(found, "table_name", "left_anti")
    return tables.orderBy("table_name")


def find_outliers(found: Any, peers: Peers) -> Any:
    """Return users whose tables hardly anybody in the same groups uses, the farthest first."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    used = (
        found.where("recent > 0")
        .groupBy("user_name", "groups", "table_name")
        .agg(f.sum("recent").alias("recent"), f.max("last_at").alias("last_at"))
    )
    users = used.groupBy("groups").agg(f.count_distinct("user_name").alias("members"))
    readers = used.groupBy("groups", "table_name").agg(f.count_distinct("user_name").alias("readers"))
    odd = f.col("readers") <= f.greatest(f.lit(1.0), f.col("members") * peers.peer_share)
    far = (
        used.join(users.where(f.col("members") >= peers.members), "groups")
        .join(readers, ["groups", "table_name"])
        .withColumn("odd", odd)
        .groupBy("user_name", "groups", "members")
        .agg(
            f.count("*").alias("tables"),
            f.sum(f.col("odd").cast("int")).alias("odd"),
            f.sum(f.when(odd, f.col("recent")).otherwise(0)).alias("statements"),
            f.unix_micros(f.max(f.when(odd, f.col("last_at")))).alias("last_at"),
            f.slice(f.array_sort(f.collect_list(f.when(odd, f.col("table_name")))), 1, MAX_COLUMNS).alias(
                "odd_tables"
            ),
        )
        .withColumn("distance", f.col("odd") / f.col("tables"))
    )
    enough = (f.col("odd") >= peers.tables) & (f.col("distance") >= peers.distance)
    # Where most are far from each other, nobody is far from all others.
    told = far.where(enough).withColumn("far", f.count("*").over(Window.partitionBy("groups")))
    return told.where(f.col("far") * 2 <= f.col("members")).orderBy(
        f.desc("distance"), f.desc("odd"), "user_name", "groups"
    )


def bundles(found: Any, peers: Peers) -> Any:
    """Return tables that are used by the very same users, as one: `bundle`, `users`, `tables`."""
    from pyspark.sql import functions as f

    readers = found.where("recent > 0").select("table_name", "user_name").distinct()
    # What everybody reads makes nobody a group, and is not gathered in one place.
    few = (
        readers.groupBy("table_name")
        .agg(f.count("*").alias("members"))
        .where((f.col("members") >= peers.members) & (f.col("members") <= peers.most_members))
    )
    users = (
        readers.join(few, "table_name")
        .groupBy("table_name", "members")
        .agg(f.array_sort(f.collect_set("user_name")).alias("users"))
    )
    return users.groupBy("users", "members").agg(
        f.array_sort(f.collect_list("table_name")).alias("tables"),
        f.min("table_name").alias("bundle"),
    )


def groups_by_use(found: Any, bundled: Any, peers: Peers, most: int) -> Any:
    """Return the largest sets of tables that several users use: `tables`, `members`, `users`."""
    from pyspark.ml.fpm import FPGrowth
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    of_users = bundled.select(
        f.explode("users").alias("user_name"), "bundle", f.size("tables").alias("width")
    )
    order = Window.partitionBy("user_name").orderBy(f.desc("width"), "bundle")
    baskets = (
        of_users.withColumn("place", f.row_number().over(order))
        .where(f.col("place") <= MAX_BUNDLES)
        .groupBy("user_name")
        .agg(f.array_sort(f.collect_list("bundle")).alias("items"))
    )
    count = baskets.count()
    if count < peers.members:
        return None
    # A little less, so that no rounding leaves out a set of just so many.
    growth = FPGrowth(itemsCol="items", minSupport=(peers.members - 0.5) / count)
    sets = growth.fit(baskets).freqItemsets.withColumn("set_id", f.concat_ws("\n", f.array_sort("items")))
    wide = (
        sets.select("set_id", "freq", f.explode("items").alias("bundle"))
        .join(bundled.select("bundle", "tables"), "bundle")
        .groupBy("set_id", "freq")
        .agg(f.array_sort(f.flatten(f.collect_list("tables"))).alias("tables"))
        .where(f.size("tables") >= peers.tables)
        # What they have in common, and for how many.
        .orderBy(f.desc(f.size("tables") * f.col("freq")), "set_id")
        .limit(most)
    )
    members = (
        baskets.crossJoin(wide.select("set_id", f.split("set_id", "\n").alias("wanted")))
        .where(f.size(f.array_except("wanted", "items")) == 0)
        .groupBy("set_id")
        .agg(f.slice(f.array_sort(f.collect_set("user_name")), 1, peers.most_members).alias("users"))
    )
    return wide.join(members, "set_id").orderBy(f.desc(f.size("tables") * f.col("freq")), "set_id")


def columns(found: Any, names: Any) -> Any:
    """Return the columns that were used of some tables (`table_name`)."""
    from pyspark.sql import functions as f

    return (
        found.where("recent > 0 AND column_name NOT IN ('*', '')")
        .join(names, "table_name")
        .groupBy("table_name")
        .agg(f.slice(f.array_sort(f.collect_set("column_name")), 1, MAX_COLUMNS).alias("columns"))
    )


def members(found: Any, names: Any) -> Any:
    """Return some users (`user_name`) with the groups that they had last."""
    from pyspark.sql import functions as f

    return (
        found.join(names, "user_name").groupBy("user_name").agg(f.max_by("groups", "last_at").alias("groups"))
    )


def group_sizes(found: Any, names: Any) -> Any:
    """Return how many users some groups (`group_name`) have, of those who used anything."""
    from pyspark.sql import functions as f

    return (
        found.where("recent > 0")
        .select("user_name", f.explode("groups").alias("group_name"))
        .join(names, "group_name")
        .groupBy("group_name")
        .agg(f.count_distinct("user_name").alias("members"))
    )


def count_left_out(attributed: Any) -> Any:
    """Return how many uses no policy allows now, and how many name no table."""
    return attributed.where(attributed.part.isin([DENIED, UNREADABLE])).groupBy("part").count()
