"""What `jobs:` of the settings may hold: where jobs run and write, when, and how long records are kept."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from gateway.jobs.schedules import parse_cron
from gateway.settings.section import (
    Bytes,
    Count,
    Days,
    Heap,
    MadePath,
    Name,
    Seconds,
    Secret,
    Section,
    SparkConnect,
)

JobName = Literal["archive", "classify", "closure", "proof", "recommend", "replay", "rollups", "verify"]


def _cron(text: str) -> str:
    parse_cron(text)
    return text


def _day(text: str) -> str:
    date.fromisoformat(text)
    return text


CronText = Annotated[str, AfterValidator(_cron)]
DayText = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"), AfterValidator(_day)]


class ScheduleSettings(Section):
    """When a job runs by itself, in one of the gateways. By the job's name."""

    every_s: Seconds | None = None
    """Seconds from the beginning of one run to that of the next."""
    cron: CronText | None = None
    """Minute, hour, day of the month, month and weekday, in UTC, such as `20 0 * * *`. A time that was missed
    is made up for once."""

    @model_validator(mode="after")
    def _exactly_one(self) -> ScheduleSettings:
        if (self.every_s is None) == (self.cron is None):
            raise ValueError('a schedule is either `every_s: SECONDS` or `cron: "20 0 * * *"`')
        return self


class HoldSettings(Section):
    """A legal hold: what it names never leaves PostgreSQL, and its texts are not erased."""

    name: Name
    """What it is about, for people."""
    users: tuple[Name, ...] = ()
    """Days with events of these users; empty: of anybody."""
    first: DayText | None = None
    """First day (UTC) that it is about, such as `"2026-01-01"`; without it, from the beginning."""
    last: DayText | None = None
    """Last day that it is about; without it, for ever."""

    @model_validator(mode="after")
    def _in_order(self) -> HoldSettings:
        if self.first is not None and self.last is not None and self.last < self.first:
            raise ValueError("`last` is before `first`")
        return self


class ArchiveSettings(Section):
    """The job `archive`: the record in the lake."""

    settle_s: Seconds = 3600.0
    """Seconds after its end (UTC) before a day is archived, for events that are still on their way."""
    keep_days: Days | None = None
    """Days that PostgreSQL keeps; older ones are dropped there once they are archived, verified and sealed.
    Without it nothing is dropped."""
    holds: tuple[HoldSettings, ...] = ()
    """Legal holds."""
    row_group_bytes: Bytes = 32 * 1024**2
    """Bytes of a row group in its files: what is in memory at once for each."""
    file_rows: Count = 1_000_000
    """Events in one file."""


class RollupSettings(Section):
    """The job `rollups`: who read what, what was refused, what was slow."""

    statements: Count = 10_000
    """Fingerprints, by user, that PostgreSQL keeps of a day: those that took most time. The lake has all."""


class ClassifySettings(Section):
    """The job `classify`: tags proposed by what is in columns. It reads as a client of the gateway."""

    gateway: SparkConnect | None = None
    """`sc://HOST:PORT` of a gateway's Spark Connect. Any other host than `localhost` needs TLS."""
    token: Secret | None = None
    """Token of the user whose policies hold for what is read, as `sluice users token` prints it, or
    `USER:PASSWORD`; as `{env: NAME}` or `{file: PATH}`."""
    rules: tuple[Path, ...] = ()
    """Files and directories of rules; without any those that ship, `rules/classifiers`."""
    catalogs: tuple[Name, ...] = ("spark_catalog",)
    """Catalogs whose tables are classified."""
    include: tuple[Name, ...] = ("*",)
    """Patterns of tables, as `spark_catalog.hr.*`."""
    exclude: tuple[Name, ...] = ()
    """Patterns of tables that are left out."""
    regions: tuple[Annotated[str, Field(pattern=r"^[A-Z]{2}$")], ...] = (
        *("US", "GB", "DE", "FR", "ES", "IT"),
        *("PT", "NL"),
    )
    """Countries whose telephone numbers are known when they are written without their country."""
    tables: Count = 200
    """Tables that one run classifies; the next goes on."""
    columns: Count = 1_000
    """Columns of a table that are looked at."""
    rows: Count = 1_000
    """Rows of a table that are read for each column."""
    bytes: Bytes = 8 * 1024**2
    """Bytes of a table that are read."""
    value_chars: Count = 1_000
    """Characters of a value; of a struct, list or map eight times as many."""
    strata: Count = 8
    """Partitions of a table that rows are taken from, spread from the first to the last."""
    sample_percent: Annotated[float, Field(gt=0, le=100)] = 1.0
    """Share of rows that half of the sample is drawn from, of a table without partitions."""
    again_days: Days = 30
    """Days after which a table is classified again though nothing says that it has changed."""


class RecommendSettings(Section):
    """The job `recommend`: changes to policies that the use of them speaks for."""

    unused_days: Days = 90
    """Days without use that speak against a grant or an exemption, and that count for all else as now."""
    named_tables: Count = 20
    """Tables that are named instead of a wildcard, at most."""
    members: Count = 3
    """Users that are a group by use, and that a group needs for one to be far from the others, at least."""
    tables: Count = 3
    """Tables that users of a group by use have in common, or that one far from his peers has for himself, at
    least."""
    distance: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of a user's tables that hardly anybody of the same groups reads, from which on that is told."""
    peer_share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Share of a group's users that is hardly anybody; one user always is."""
    most: Count = 200
    """Recommendations of one kind that are kept."""
    most_asked: Count = 20_000
    """Questions to policies by which one of them may be told to be shadowed; what takes more is left out."""


class ClosureSettings(Section):
    """The job `closure`: the lineage graph, with all that comes to a column by any way."""

    depth: Count = 30
    """Steps of a way that are followed at most."""
    findings: Count = 10_000
    """Columns that tags reach without being put on them that PostgreSQL keeps. The lake has all."""


class ReplaySettings(Section):
    """The job `replay`, and `sluice policy diff --replay`: the record's statements under other policies."""

    proposed: Path | None = None
    """Policies that a run of the job compares with those in force: a pack, Ranger's JSON, a directory of
    these, or a settings file."""
    days: Days = 7
    """Days of the record that a run judges, up to its beginning."""
    catalog: Literal["was", "now"] = "was"
    """By which tables statements are judged: `was`, those that the record has of each; `now`, those of Spark.
    What was refused has none on record and is judged by those of now."""
    tables: Count = 20_000
    """Tables and views that one run looks up in Spark."""
    changes: Count = 10_000
    """Changes of a run that PostgreSQL keeps, those of most statements. The lake has all."""
    keep: Count = 20
    """Runs that are kept, in the lake and in PostgreSQL."""


class ProofSettings(Section):
    """The job `proof`: statements of the record over tables that were filtered and masked before. It samples
    tables as a client of the gateway."""

    gateway: SparkConnect | None = None
    """`sc://HOST:PORT` of a gateway's Spark Connect. Any other host than `localhost` needs TLS."""
    token: Secret | None = None
    """Token of the user who samples tables, as `sluice users token` prints it, or `USER:PASSWORD`; as
    `{env: NAME}` or `{file: PATH}`. What policies hide from that user is not proved."""
    days: Days = 7
    """Days of the record that statements are taken from."""
    statements: Count = 200
    """Statements that one run proves."""
    per_stratum: Count = 3
    """Of these, statements of one user over the same tables."""
    tables: Count = 100
    """Tables that one run samples."""
    rows: Count = 500
    """Rows of a table that are sampled."""
    bytes: Bytes = 8 * 1024**2
    """Bytes of a table that are sampled."""
    result_rows: Count = 50_000
    """Rows of a statement that are compared; one with more is left out."""
    statement_s: Seconds = 60.0
    """Seconds for one statement, both ways together; one that takes longer is left out."""


class JobsSettings(Section):
    """Jobs on Spark, which docs/jobs.md describes: `sluice jobs run NAME`."""

    directory: MadePath = Path("run/lake")
    """Where their tables are; Spark sees the same files under the same path."""
    master: Name = "local[*]"
    """Where Spark runs, as of `spark-submit --master`; `local[*]` is in the job's own process."""
    remote: SparkConnect | None = None
    """`sc://HOST:PORT` of a Spark Connect server that runs them instead."""
    driver_memory: Heap = "1g"
    """Java heap of the driver, and with `local[…]` of everything."""
    shuffle_partitions: Count = 8
    """Parts into which Spark divides what it sorts and joins."""
    catalog: Name | None = None
    """Catalog of `catalogs`, of type `iceberg`, that their tables are in, not in directories of Parquet. It
    takes a Spark that there is Iceberg for."""
    database: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = "sluice"
    """Database of that catalog; it is made where it is not there."""
    jars: tuple[Path, ...] = ()
    """Jars that a Spark in the job's own process has besides its own, such as Iceberg's."""
    schedule: dict[JobName, ScheduleSettings] = Field(default_factory=dict)
    """Which jobs run by themselves."""
    poll_s: Seconds = 30.0
    """Seconds between looks at what is due."""
    niceness: Annotated[int, Field(strict=True, ge=0, le=19)] = 10
    """How much those that the schedule starts, with all that they start, give way to a gateway on the same
    processors, as of `nice`; 0: not at all."""
    share: Annotated[float, Field(ge=0.05, le=1)] = 0.25
    """Part of the time for which those that the schedule starts run, on Linux: in the rest they are stopped,
    so that statements have processors and caches for themselves. 1: they are never stopped, and end
    that much sooner."""
    archive: ArchiveSettings = ArchiveSettings()
    rollups: RollupSettings = RollupSettings()
    classify: ClassifySettings = ClassifySettings()
    recommend: RecommendSettings = RecommendSettings()
    closure: ClosureSettings = ClosureSettings()
    proof: ProofSettings = ProofSettings()
    replay: ReplaySettings = ReplaySettings()
