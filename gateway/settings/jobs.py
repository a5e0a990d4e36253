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
    """When a job runs, in one of the gateways. By the job's name."""

    every_s: Seconds | None = None
    """Seconds from the beginning of one run to that of the next."""
    cron: CronText | None = None
    """Minute, hour, day of the month, month and weekday, in UTC, such as `20 0 * * *`. A missed time is made
    up for once."""

    @model_validator(mode="after")
    def _exactly_one(self) -> ScheduleSettings:
        if (self.every_s is None) == (self.cron is None):
            raise ValueError('a schedule must be either `every_s: SECONDS` or `cron: "20 0 * * *"`')
        return self


class HoldSettings(Section):
    """A legal hold: its days never leave PostgreSQL, and their texts are not erased."""

    name: Name
    """Its subject, for people."""
    users: tuple[Name, ...] = ()
    """Days with events of these users; empty: of anybody."""
    first: DayText | None = None
    """First day (UTC), such as `"2026-01-01"`; by default from the beginning."""
    last: DayText | None = None
    """Last day; by default for ever."""

    @model_validator(mode="after")
    def _in_order(self) -> HoldSettings:
        if self.first is not None and self.last is not None and self.last < self.first:
            raise ValueError("`last` is before `first`")
        return self


class ArchiveSettings(Section):
    """The job `archive`: the record in the lake."""

    settle_s: Seconds = 3600.0
    """Seconds after its end (UTC) before a day is archived, for late events."""
    keep_days: Days | None = None
    """Days that PostgreSQL keeps; older ones are dropped there once they are archived, verified and sealed.
    Without it nothing is dropped."""
    holds: tuple[HoldSettings, ...] = ()
    """Legal holds."""
    row_group_bytes: Bytes = 32 * 1024**2
    """Bytes of a row group in its files, each of which is in memory at once."""
    file_rows: Count = 1_000_000
    """Events in one file."""


class RollupSettings(Section):
    """The job `rollups`: who read what, what was refused, what was slow."""

    statements: Count = 10_000
    """Shapes of statements, by user, that PostgreSQL keeps of a day: those that took most time. The lake has
    all."""


class ClassifySettings(Section):
    """The job `classify`: proposes tags by the content of columns. It reads as a client of the gateway."""

    gateway: SparkConnect | None = None
    """`sc://HOST:PORT` of a gateway's Spark Connect. Any other host than `localhost` needs TLS."""
    token: Secret | None = None
    """Token of the user who reads, as `sluice users token` prints it, or `USER:PASSWORD`; as `{env: NAME}` or
    `{file: PATH}`."""
    rules: tuple[Path, ...] = ()
    """Files and directories of rules; by default `rules/classifiers`."""
    catalogs: tuple[Name, ...] = ("spark_catalog",)
    """Catalogs whose tables are classified."""
    include: tuple[Name, ...] = ("*",)
    """Patterns of tables, such as `spark_catalog.hr.*`."""
    exclude: tuple[Name, ...] = ()
    """Patterns of tables that are left out."""
    regions: tuple[Annotated[str, Field(pattern=r"^[A-Z]{2}$")], ...] = (
        *("US", "GB", "DE", "FR", "ES", "IT"),
        *("PT", "NL"),
    )
    """Countries whose telephone numbers are recognised without the country."""
    tables: Count = 200
    """Tables that one run classifies; the next goes on."""
    columns: Count = 1_000
    """Maximum of columns of a table."""
    rows: Count = 1_000
    """Rows of a table to read for each column."""
    bytes: Bytes = 8 * 1024**2
    """Bytes of a table to read."""
    value_chars: Count = 1_000
    """Characters of a value; of a struct, list or map eight times as many."""
    strata: Count = 8
    """Partitions of a table to read, spread from the first to the last."""
    sample_percent: Annotated[float, Field(gt=0, le=100)] = 1.0
    """In a table without partitions, the share of rows that half of the sample is drawn from."""
    again_days: Days = 30
    """Days after which a table is classified again without a known change."""


class RecommendSettings(Section):
    """The job `recommend`: changes of policies that their use suggests."""

    unused_days: Days = 90
    """Days without use that count against a grant or an exemption; for the rest, days that count as now."""
    named_tables: Count = 20
    """Maximum of tables to name instead of a wildcard."""
    members: Count = 3
    """Minimum of users of a group by use, and of a group in which one can be far from the others."""
    tables: Count = 3
    """Minimum of tables that users of a group by use share, or that a user far from his peers reads alone."""
    distance: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of a user's tables that hardly anybody of the same groups reads, from which he counts as far from
    his peers."""
    peer_share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Share of a group's users that counts as hardly anybody; one user always does."""
    most: Count = 200
    """Maximum of recommendations of one kind."""
    most_asked: Count = 20_000
    """Maximum of decisions to find that one policy is shadowed; a policy that needs more is left out."""


class ClosureSettings(Section):
    """The job `closure`: for each column of the lineage graph, all columns that feed it by any path."""

    depth: Count = 30
    """Maximum of steps of a path."""
    findings: Count = 10_000
    """Columns that PostgreSQL keeps which a tag reaches and that lack it. The lake has all."""


class ReplaySettings(Section):
    """The job `replay`, and `sluice policy diff --replay`: judges statements of the record under other
    policies."""

    proposed: Path | None = None
    """Policies that a run of the job compares with those in force: a pack, Ranger's JSON, a directory of
    these, or a settings file."""
    days: Days = 7
    """Days of the record that a run judges, up to its beginning."""
    catalog: Literal["was", "now"] = "was"
    """The tables to judge statements by: those of each statement's record (`was`), or Spark's (`now`).
    Refused statements have none on record and are judged by Spark's."""
    tables: Count = 20_000
    """Tables and views that one run looks up in Spark."""
    changes: Count = 10_000
    """Changes of a run that PostgreSQL keeps, those with most statements. The lake has all."""
    keep: Count = 20
    """Runs to keep, in the lake and in PostgreSQL."""


class ProofSettings(Section):
    """The job `proof`: compares statements of the record with the same ones over tables that were filtered
    and masked beforehand. It samples tables as a client of the gateway."""

    gateway: SparkConnect | None = None
    """`sc://HOST:PORT` of a gateway's Spark Connect. Any other host than `localhost` needs TLS."""
    token: Secret | None = None
    """Token of the user who samples tables, as `sluice users token` prints it, or `USER:PASSWORD`; as
    `{env: NAME}` or `{file: PATH}`. What policies hide from that user is not proved."""
    days: Days = 7
    """Days of the record to take statements from."""
    statements: Count = 200
    """Statements that one run proves."""
    per_stratum: Count = 3
    """Of these, maximum of statements of one user over the same tables."""
    tables: Count = 100
    """Tables that one run samples."""
    rows: Count = 500
    """Rows to sample of a table."""
    bytes: Bytes = 8 * 1024**2
    """Bytes to sample of a table."""
    result_rows: Count = 50_000
    """Maximum of rows of a statement; one with more is left out."""
    statement_s: Seconds = 60.0
    """Seconds for both runs of a statement; one that takes longer is left out."""


class JobsSettings(Section):
    """Jobs on Spark, see docs/jobs.md: `sluice jobs run NAME`."""

    directory: MadePath = Path("run/lake")
    """Directory of their tables; Spark must see it under the same path."""
    master: Name = "local[*]"
    """Where Spark runs, as of `spark-submit --master`; `local[*]` is in the job's own process."""
    remote: SparkConnect | None = None
    """`sc://HOST:PORT` of a Spark Connect server that runs them instead."""
    driver_memory: Heap = "1g"
    """Java heap of the driver, and with `local[…]` of everything."""
    shuffle_partitions: Count = 8
    """Parts into which Spark divides what it sorts and joins."""
    catalog: Name | None = None
    """Catalog of `catalogs`, of type `iceberg`, for their tables, instead of directories of Parquet. It needs
    a Spark that Iceberg supports."""
    database: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = "sluice"
    """Database of that catalog; it is created if missing."""
    jars: tuple[Path, ...] = ()
    """Additional jars for a Spark in the job's own process, such as Iceberg's."""
    schedule: dict[JobName, ScheduleSettings] = Field(default_factory=dict)
    """Scheduled jobs."""
    poll_s: Seconds = 30.0
    """Seconds between checks of what is due."""
    niceness: Annotated[int, Field(strict=True, ge=0, le=19)] = 10
    """Priority of scheduled jobs and their processes, as of `nice`, so that they give way to a gateway on the
    same processors; 0: none."""
    share: Annotated[float, Field(ge=0.05, le=1)] = 0.25
    """Part of the time for which scheduled jobs run, on Linux. In the rest they are stopped, so that
    statements have processors and caches for themselves. 1: they are never stopped, and end sooner."""
    archive: ArchiveSettings = ArchiveSettings()
    rollups: RollupSettings = RollupSettings()
    classify: ClassifySettings = ClassifySettings()
    recommend: RecommendSettings = RecommendSettings()
    closure: ClosureSettings = ClosureSettings()
    proof: ProofSettings = ProofSettings()
    replay: ReplaySettings = ReplaySettings()
