"""`recommend`: changes to policies that the use of them speaks for.

A day of the roll-ups is summed up once, and again when its hours were made anew. Then all days are held
against the policies as they are now, in Spark's workers; what comes here is one row for each item, and few
rows for each policy that has wildcards.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from gateway.jobs import rollup_frames
from gateway.jobs.events import land, midnight, moment
from gateway.jobs.job import Job, Outcome, Work
from gateway.jobs.recommending import frames
from gateway.jobs.recommending.advising import (
    Adviser,
    Need,
    Period,
    UsedTable,
    identity,
    list_judged_items,
    list_policies_in_force,
)
from gateway.jobs.recommending.attribution import (
    ALLOW,
    ATTRIBUTED,
    DENIED,
    KNOWN,
    SPOKEN,
    UNREADABLE,
    build_attribution,
    build_needless_finder,
    build_policy_matcher,
)
from gateway.jobs.recommending.frames import Peers
from gateway.jobs.recommending.reach import reach_of_use
from gateway.jobs.recommending.storing import Advice, keep
from gateway.jobs.spark import build_frame_writer
from gateway.jobs.tables import LakeTable
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal

VERSION = 1
TABLE, SOURCE = "recommend_use", "rollup_usage"
MAX_TRIES = 3
_KNOWN_SQL = """
SELECT d.name AS table_name, c.name AS column_name FROM sluice.lineage_dataset d
  JOIN sluice.lineage_column c ON c.dataset = d.id
  WHERE d.kind = 'table' AND cardinality(d.parts) = 3 AND c.name <> '*'
UNION
SELECT (SELECT string_agg(CASE WHEN p ~ '[.`]' THEN '`' || replace(p, '`', '``') || '`' ELSE p END,
          '.' ORDER BY n)
        FROM unnest(ARRAY[catalog, database, table_name]) WITH ORDINALITY AS u (p, n)), ''
  FROM sluice.classified_table"""
"""Tables that are known, with their columns as far as these are. A statement that was refused may name what
is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoliciesInForce:
    """The policies that are in force, and the people that logins know."""

    policies: PolicySet
    people: Mapping[str, Principal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendOptions:
    rules: Callable[[Any], Awaitable[PoliciesInForce]]
    """Reads the policies, given a connection; raises Faults."""
    unused_days: int = 90
    """Days without use that speak against a grant."""
    named_tables: int = 20
    """Tables that may be named instead of a wildcard."""
    peers: Peers = field(default_factory=Peers)
    most: int = 200
    """Recommendations of a kind, the most telling first."""
    most_asked: int = 20_000
    """Questions to policies that one of them takes until it is told to be shadowed."""


def recommend(options: RecommendOptions) -> Job:
    return Job(
        name="recommend",
        version=VERSION,
        about="proposes changes of policies based on their use, each with test cases",
        reads=(SOURCE, "policies"),
        writes=(TABLE, "sluice.recommendation"),
        run=lambda work: _Recommend(work, options).run(),
    )


class _Recommend:
    def __init__(self, work: Work, options: RecommendOptions) -> None:
        self._work, self._options = work, options
        self._table = work.table(TABLE)
        # Its directory is where rows are on their way; there is no such table.
        self._way = LakeTable(work.lake, "_recommend")
        self._rows_in = self._rows_out = 0

    async def run(self) -> Outcome:
        work, options = self._work, self._options
        for table in (self._table, self._way):
            await table.settle(work.connection)
        rules = await options.rules(work.connection)
        days = await self._days()
        reach = await reach_of_use(work.connection, work.now, options.unused_days)
        period = Period(
            days=options.unused_days, since=reach.since, complete=reach.reaches_back and reach.up_to_now
        )
        old = await self._note_seen(rules.policies, reach.since)
        for missing in reach.missing:
            work.progress(missing)
        if reach.first is None:
            return Outcome()
        landing = self._way.make_landing("facts")
        advice = await self._advise(rules, period, old, landing)
        self._way.remove_landing("facts")

        async def finish(connection: Any) -> None:
            kept = await keep(connection, advice, run=work.run, now=work.now)
            work.progress(f"{kept.proposed:,} new, {kept.gone:,} gone, {kept.open:,} open")

        return Outcome(
            rows_in=self._rows_in,
            rows_out=self._rows_out + len(advice),
            range_from=midnight(days[0]) if days else None,
            range_to=midnight(days[-1]) + timedelta(days=1) if days else None,
            finish=finish,
        )

    # -- use by day ----------------------------------------------------------------------------------------

    async def _days(self) -> list[date]:
        """Sum up the days whose roll-ups are others than when it was done last; return these."""
        work = self._work
        sources = await self._sources()
        known = {
            row["day"]: row["source"]
            for row in await work.connection.fetch("SELECT day, source FROM sluice.recommend_day")
        }
        changed = sorted(day for day, source in sources.items() if known.get(day) != source)
        for number, day in enumerate(changed, 1):
            work.progress(f"{day}: usage, day {number} of {len(changed)}")
            for attempt in range(1, MAX_TRIES + 1):
                try:
                    await self._day(day, sources[day])
                    break
                except Exception:
                    # The roll-ups may have put other files in the place of those that were being read.
                    now = (await self._sources()).get(day)
                    if attempt == MAX_TRIES or now is None or now == sources[day]:
                        raise
                    sources[day] = now
        return changed

    async def _sources(self) -> dict[date, str]:
        """Return the days of the roll-ups, with a digest of the runs that wrote them."""
        rows = await self._work.connection.fetch(
            "SELECT substr(partition, 6, 10)::date AS day,"
            " string_agg(partition || ' ' || run, ',' ORDER BY partition) AS written"
            " FROM sluice.job_partition WHERE table_name = $1 GROUP BY 1 ORDER BY 1",
            SOURCE,
        )
        told = {row["day"]: f"{VERSION} {row['written']}" for row in rows}
        return {day: hashlib.sha256(text.encode()).hexdigest()[:32] for day, text in told.items()}

    async def _day(self, day: date, source: str) -> None:
        work, partition = self._work, f"day={day.isoformat()}"
        spark = await work.spark()
        hours = [f"hour={day.isoformat()}T{hour:02}" for hour in range(24)]

        def write() -> int:
            schema = rollup_frames.schema_of(SOURCE)
            rollup = work.table(SOURCE, writer="rollups").read(spark, schema, hours, all_there=False)
            staged = self._table.make_staging_path(partition)
            frames.of_day(rollup).coalesce(1).write.parquet(str(staged))
            return int(spark.read.schema(frames.USE).parquet(str(staged)).count())

        rows = await asyncio.to_thread(write)
        await work.replace(self._table, partition)
        work.progress(f"{day}: moved into place")
        async with work.connection.transaction():
            await self._table.commit(work.connection, partition, work.run)
            await work.connection.execute(
                "INSERT INTO sluice.recommend_day (day, source, rows) VALUES ($1, $2, $3)"
                " ON CONFLICT (day) DO UPDATE SET source = excluded.source, rows = excluded.rows",
                *(day, source, rows),
            )
        await asyncio.to_thread(self._table.drop_replaced_files, partition)
        self._rows_out += rows

    async def _note_seen(self, policies: PolicySet, since: datetime) -> Callable[[str], bool]:
        """Note the items that are there; return what says whether one was there all of the period."""
        connection = self._work.connection
        every = list_policies_in_force(policies).values()
        found = {identity(one, part, item) for one in every for part, _, item in list_judged_items(one)}
        found |= {identity(one, ALLOW, item) for one in every for item in one.policy.allow}
        async with connection.transaction():
            # Of what was there at the very first run nobody knows since when; it counts as old.
            empty = not await connection.fetchval("SELECT EXISTS (SELECT FROM sluice.recommend_seen)")
            first = datetime(1970, 1, 1, tzinfo=UTC) if empty else self._work.now
            await connection.execute(
                "INSERT INTO sluice.recommend_seen (item, first_seen) SELECT unnest($1::text[]), $2"
                " ON CONFLICT (item) DO NOTHING",
                sorted(found),
                first,
            )
            await connection.execute(
                "DELETE FROM sluice.recommend_seen WHERE NOT item = ANY ($1::text[])", sorted(found)
            )
            rows = await connection.fetch(
                "SELECT item FROM sluice.recommend_seen WHERE first_seen <= $1", since
            )
        return {row["item"] for row in rows}.__contains__

    # -- all days ------------------------------------------------------------------------------------------

    async def _advise(
        self, rules: PoliciesInForce, period: Period, old: Callable[[str], bool], landing: Path
    ) -> list[Advice]:
        work = self._work
        spark = await work.spark()
        await self._land_known(landing)
        work.progress("comparing usage with the policies")
        return await asyncio.to_thread(self._on_spark, spark, rules, period, old, landing)

    async def _land_known(self, landing: Path) -> None:
        (landing / "known").mkdir()
        connection = await self._work.connect()
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                names = ("table_name", "column_name")
                await land(connection, _KNOWN_SQL, (), landing / "known", names=names)
        finally:
            connection.terminate()

    def _on_spark(
        self, spark: Any, rules: PoliciesInForce, period: Period, old: Callable[[str], bool], landing: Path
    ) -> list[Advice]:
        options, policies = self._options, rules.policies
        said, kept = self._work.progress, build_frame_writer(spark, landing)

        days = self._table.read(spark, f"{frames.USE}, day string")
        uses = kept("uses", frames.uses(days, f"{period.since:%Y-%m-%d}"))
        self._rows_in = int(uses.count())
        attributed = kept(
            "attributed", uses.mapInArrow(build_attribution(policies, rules.people), ATTRIBUTED)
        )
        for row in frames.count_left_out(attributed).collect():
            what = {DENIED: "are not allowed by any policy now", UNREADABLE: "name no table"}[row["part"]]
            said(f"{row['count']:,} uses {what}")
        known = spark.read.schema(KNOWN).parquet(str(landing / "known"))
        known = (
            known.unionByName(uses.select("table_name", "column_name")).where("table_name <> ''").distinct()
        )
        spoken = kept("spoken", known.mapInArrow(build_policy_matcher(policies), SPOKEN))
        adviser = Adviser(
            policies=policies,
            period=period,
            needs={
                (row["part"], row["policy"], row["item"]): Need(
                    recent=row["recent"],
                    users=row["users"],
                    first=moment(row["first_at"]),
                    last=moment(row["last_at"]),
                    last_user=row["last_user"],
                )
                for row in frames.items(attributed.where("item >= 0")).collect()
            },
            old=old,
            examples={
                row["policy"]: (row["tables"], row["example"]["table_name"], row["example"]["column_name"])
                for row in frames.coverage(spoken).collect()
            },
        )
        said("comparing policies with each other")
        shadowed = self._find_shadowed(spark, policies, adviser)
        found = [*islice(adviser.find_shadowed(shadowed, options.most_asked), options.most)]
        found += islice(adviser.find_unneeded(frozenset(shadowed)), 2 * options.most)
        found += [*adviser.find_too_broad(self._used(attributed, adviser), options.named_tables)][
            : options.most
        ]
        said("comparing users with each other")
        found += self._groups(spark, uses, adviser, rules.people)
        found += self._far(uses, adviser)
        ungoverned = (
            frames.find_tables_without_policies(known, spoken, attributed).limit(options.most).collect()
        )
        found += [
            one
            for row in ungoverned
            if (one := adviser.build_closing_policy(row["table_name"], {})) is not None
        ]
        return found

    def _find_shadowed(self, spark: Any, policies: PolicySet, adviser: Adviser) -> list[str]:
        suspects = adviser.list_shadow_suspects()
        if not suspects:
            return []
        frame = spark.createDataFrame([(key,) for key in suspects], "policy string").repartition(
            min(len(suspects), 4 * int(spark.conf.get("spark.sql.shuffle.partitions")))
        )
        rows = frame.mapInArrow(
            build_needless_finder(policies, self._options.most_asked), "policy string"
        ).collect()
        return sorted(row["policy"] for row in rows)

    def _used(self, attributed: Any, adviser: Adviser) -> dict[str, list[UsedTable]]:
        found: dict[str, list[UsedTable]] = {}
        wide = adviser.list_wildcard_policies()
        if not wide:
            return found
        rows = frames.tables(attributed, wide, self._options.named_tables).orderBy("policy", "place")
        for row in rows.toLocalIterator():
            found.setdefault(row["policy"], []).append(
                UsedTable(
                    name=row["table_name"],
                    recent=row["recent"],
                    users=row["users"],
                    user=row["example"]["user_name"] or "",
                    groups=tuple(row["example"]["groups"] or ()),
                    column=row["example"]["column_name"],
                )
            )
        return found

    def _groups(
        self, spark: Any, uses: Any, adviser: Adviser, now: Mapping[str, Principal]
    ) -> Iterator[Advice]:
        """`now`: the people that logins know, where that is known."""

        def make_frame(name: str, texts: Iterable[str]) -> Any:
            return spark.createDataFrame([(text,) for text in sorted(set(texts))], f"{name} string")

        peers = self._options.peers
        bundled = frames.bundles(uses, peers).cache()
        try:
            sets = frames.groups_by_use(uses, bundled, peers, self._options.most)
            rows = sets.collect() if sets is not None else []
        finally:
            bundled.unpersist()
        if not rows:
            return
        people = make_frame("user_name", (user for row in rows for user in row["users"]))
        groups = {row["user_name"]: row["groups"] or () for row in frames.members(uses, people).collect()}
        if now:
            # Groups of now count, and whoever can no longer log in has none.
            groups = {user: sorted(now[user].groups) if user in now else () for user in groups}
        every = make_frame("group_name", (group for of_user in groups.values() for group in of_user))
        sizes = {row["group_name"]: row["members"] for row in frames.group_sizes(uses, every).collect()}
        tables = make_frame("table_name", (table for row in rows for table in row["tables"]))
        columns = {row["table_name"]: row["columns"] for row in frames.columns(uses, tables).collect()}
        told: set[frozenset[str]] = set()
        for row in rows:
            users = frozenset(row["users"])
            shared = frozenset.intersection(*(frozenset(groups.get(user, ())) for user in users))
            # A group that has just them is there already; of several sets of theirs the largest counts.
            if users in told or any(sizes.get(group) == len(users) for group in shared):
                continue
            told.add(users)
            own = {table: columns.get(table, ()) for table in row["tables"]}
            one = adviser.group(sorted(users), groups, own)
            if one is not None:
                yield one

    def _far(self, uses: Any, adviser: Adviser) -> Iterator[Advice]:
        for row in frames.find_outliers(uses, self._options.peers).limit(self._options.most).collect():
            evidence = {
                "distance": round(row["distance"], 2),
                "tables": row["tables"],
                "odd_tables": list(row["odd_tables"]),
                "statements": row["statements"],
                "members": row["members"],
                "last_use": moment(row["last_at"]).isoformat(),
            }
            one = adviser.advise_against_outlier(
                row["user_name"], row["groups"] or (), row["odd_tables"], evidence
            )
            if one is not None:
                yield one
