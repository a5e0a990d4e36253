"""What becomes of proposals and drift as tables and policies change. Real PostgreSQL, no Spark."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from gateway.app.classifying import EngineColumns
from gateway.app.policy_diff import settings_side
from gateway.errors import BackendUnavailable
from gateway.jobs.classification.job import ClassifyOptions, classify
from gateway.jobs.classification.proposing import drift_of
from gateway.jobs.classification.rules import load_classifiers
from gateway.jobs.classification.scoring import Sampled, Scorer
from gateway.jobs.classification.source import (
    Described,
    Limits,
    Sample,
    SampledColumn,
    TableParts,
    Unreadable,
)
from gateway.jobs.job import Work
from gateway.jobs.spark import SparkOptions
from gateway.lineage.proposals import decide, proposals
from gateway.model.principal import Principal
from gateway.policy.engine import engine_for
from gateway.settings.models import PolicySettings, Settings
from gateway.sources.accepted_tags import AcceptedList, AcceptedTag
from tests.jobs.classification.corpus import iban
from tests.jobs.records import NOW, fill

RULES = """\
classes:
  mail: {tag: EMAIL, formats: [email], when: [{share: 0.5}]}
  address: {tag: EMAIL, formats: [iban], when: [{share: 0.5}]}
"""
PEOPLE = TableParts("spark_catalog", "lab", "people")
MAILS = tuple(f"p{n}@mail.example" for n in range(50))
ACCOUNTS = tuple(map(iban("DE"), [random.Random(3)] * 50))
HASHES = tuple(f"{n:064x}" for n in range(50))
NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"


@dataclass
class Lake:
    """Tables, what is refused of them, and what policies say."""

    connection: Any
    tables_: dict[TableParts, dict[str, Sequence[str]]] = field(default_factory=dict)
    refused: dict[TableParts, str] = field(default_factory=dict)
    unlisted: Collection[str] = ()
    away: bool = False
    views: set[TableParts] = field(default_factory=set)
    tagged: Collection[str] = ()
    masked_: Collection[str] = ()
    mask: Sequence[str] = HASHES
    hidden_: Collection[str] = ()
    lines: list[str] = field(default_factory=list)

    def check(self) -> None:
        if self.away:
            raise BackendUnavailable("the gateway does not answer")

    def user(self) -> str:
        return "classifier"

    def tables(self, catalog: str) -> list[TableParts]:
        if catalog in self.unlisted:
            raise Unreadable("INTERNAL_ERROR")
        there = self.tables_.keys() - self.refused.keys()
        return sorted(table for table in there if table.catalog == catalog.lower())

    def describe(self, table: TableParts) -> Described:
        if table in self.refused:
            raise Unreadable(self.refused[table])
        if table not in self.tables_:
            raise Unreadable(NOT_FOUND)
        columns = tuple(SampledColumn(name, "string") for name in self.tables_[table])
        shown = tuple(one for one in columns if one.name not in self.hidden_)
        return Described(columns=shown, partitioned_by=(), is_view=table in self.views, details="")

    def partitions(self, table: TableParts, described: Described) -> list[tuple[Any, ...]]:
        return []

    def sample(
        self, table: TableParts, described: Described, partitions: Sequence[tuple[Any, ...]], limits: Limits
    ) -> Sample:
        columns = {
            name: self.mask if name in self.masked_ else self.tables_[table][name]
            for name, _ in described.columns
        }
        return Sample(
            columns={name: Sampled(name=name, kind="text", values=values) for name, values in columns.items()}
        )

    def tags(self, table: TableParts, columns: Sequence[str]) -> Mapping[str, Collection[str]]:
        return dict.fromkeys(columns, self.tagged)

    def list_masked_columns(self, user: str, table: TableParts, columns: Sequence[str]) -> Collection[str]:
        return set(self.masked_) & set(columns)

    def list_hidden_columns(self, user: str, table: TableParts, columns: Sequence[str]) -> Collection[str]:
        return set(self.hidden_) & set(columns)

    async def classify(self, **columns: Sequence[str]) -> None:
        """Look at the table of these columns, or at what is there anyway."""
        if columns:
            self.tables_[PEOPLE] = columns
        await self.look(again_days=0)

    async def look(self, **chosen: Any) -> None:
        @contextmanager
        def source(_: Work) -> Iterator[Lake]:
            yield self

        async def policies(_: Any) -> Lake:
            return self

        job = classify(
            ClassifyOptions(
                classifiers=lambda: load_classifiers({"a.yaml": RULES}),
                source=source,
                policies=policies,
                **chosen,
            )
        )
        run = await self.connection.fetchval(
            "INSERT INTO sluice.job_run (job, version, state, runner) VALUES ('classify', 1, 'done', 'x')"
            " RETURNING id"
        )
        await job.run(
            Work(
                job="classify",
                run=run,
                connection=self.connection,
                dsn="",
                lake=Path(),
                watermark=None,
                now=NOW,
                progress=self.lines.append,
                spark_options=SparkOptions(name="x"),
            )
        )

    async def decide(self, state: str, tag: str = "EMAIL") -> None:
        ids = [one.id for one in await proposals(self.connection, tag=tag)]
        await decide(self.connection, ids, state, "ann", again=True)

    async def proposed(self) -> dict[str, str]:
        found = await proposals(self.connection)
        return {f"{one.target.column} {one.target.tag}": one.state for one in found}

    async def drift(self) -> list[tuple[str, str, str]]:
        found = await drift_of(self.connection)
        return [(one["column"].rpartition(".")[2], one["kind"], one["rule"]) for one in found]


@pytest.fixture
async def lake(database: str) -> AsyncIterator[Lake]:
    await fill(database, ())
    connection = await asyncpg.connect(database, server_settings={"timezone": "UTC"})
    try:
        yield Lake(connection)
    finally:
        await connection.close()


async def test_drift_goes_with_its_column(lake: Lake) -> None:
    await lake.classify(c1=MAILS, c2=MAILS)
    await lake.decide("accepted")
    await lake.classify(c1=HASHES, c2=HASHES)
    assert await lake.drift() == [("c1", "no_longer_fits", ""), ("c2", "no_longer_fits", "")]
    await lake.classify(renamed=HASHES, c2=HASHES)
    assert await lake.drift() == [("c2", "no_longer_fits", "")]
    lake.refused = {PEOPLE: "SLUICE_ACCESS_DENIED"}
    await lake.classify()
    assert await lake.drift() == [("c2", "no_longer_fits", "")]
    lake.refused, lake.views = {}, {PEOPLE}
    await lake.classify()
    assert await lake.drift() == []


async def test_drift_goes_with_the_decision_that_it_is_about(lake: Lake) -> None:
    await lake.classify(c1=MAILS)
    await lake.decide("accepted")
    await lake.classify(c1=HASHES)
    assert await lake.drift() == [("c1", "no_longer_fits", "")]
    await lake.decide("rejected")
    assert await lake.drift() == []


async def test_who_accepts_a_tag_again_accepts_what_speaks_for_it_now(lake: Lake) -> None:
    await lake.classify(c1=MAILS)
    await lake.decide("accepted")
    await lake.classify(c1=ACCOUNTS)
    assert await lake.drift() == [("c1", "new_class", "address")]
    for _ in range(2):
        await lake.decide("accepted")
        assert await lake.drift() == []
        await lake.classify()
        assert await lake.drift() == []
    (one,) = await proposals(lake.connection)
    assert [found["rule"] for found in one.evidence] == ["mail", "address"]
    await lake.classify(c1=MAILS)
    assert await lake.drift() == []


async def test_a_mask_on_who_looks_is_no_drift_and_withdraws_nothing(lake: Lake) -> None:
    await lake.classify(c1=MAILS, c2=MAILS)
    (first, second) = await proposals(lake.connection)
    await decide(lake.connection, [first.id], "accepted", "ann")
    lake.masked_ = ("c1", "c2")
    await lake.classify()
    assert await lake.drift() == []
    assert await lake.proposed() == {"c1 EMAIL": "accepted", "c2 EMAIL": "proposed"}
    lake.mask = MAILS[:9]
    await lake.classify()
    assert (await proposals(lake.connection, ids=[second.id]))[0].evidence == second.evidence
    lake.masked_ = ()
    lake.tables_[PEOPLE] = {"c1": HASHES, "c2": HASHES}
    await lake.look()
    assert await lake.drift() == [("c1", "no_longer_fits", "")]
    assert await lake.proposed() == {"c1 EMAIL": "accepted"}


async def test_what_was_told_of_a_column_that_is_hidden_now_stays(lake: Lake) -> None:
    await lake.classify(c1=MAILS, c2=MAILS)
    (first, _) = await proposals(lake.connection)
    await decide(lake.connection, [first.id], "accepted", "ann")
    await lake.classify(c1=HASHES, c2=MAILS, c3=MAILS)
    lake.hidden_ = ("c1", "c2")
    await lake.classify()
    assert await lake.drift() == [("c1", "no_longer_fits", "")]
    assert (await lake.proposed())["c2 EMAIL"] == "proposed"
    lake.hidden_ = ()
    await lake.classify(c3=MAILS)
    assert await lake.drift() == []
    assert await lake.proposed() == {"c1 EMAIL": "accepted", "c3 EMAIL": "proposed"}


@pytest.mark.parametrize("why", ["SLUICE_ACCESS_DENIED", "SparkConnectGrpcException", "CATALOG_NOT_FOUND"])
async def test_a_table_that_may_not_be_seen_is_not_gone(lake: Lake, why: str) -> None:
    await lake.classify(c1=MAILS)
    lake.refused = {PEOPLE: why}
    await lake.classify()
    assert f"{PEOPLE.name}: cannot be read: {why}" in lake.lines
    assert await lake.proposed() == {"c1 EMAIL": "proposed"}
    assert await lake.connection.fetchval("SELECT state FROM sluice.classified_table") == "unreadable"
    lake.refused = {}
    del lake.tables_[PEOPLE]
    await lake.classify()
    assert f"{PEOPLE.name}: dropped: 1 tags withdrawn" in lake.lines
    assert await lake.proposed() == {}


async def test_what_policies_tag_meanwhile_is_proposed_no_longer(lake: Lake) -> None:
    await lake.classify(c1=MAILS)
    assert await lake.proposed() == {"c1 EMAIL": "proposed"}
    lake.tagged = ("EMAIL",)
    await lake.classify()
    assert await lake.proposed() == {}


def test_policies_say_what_is_masked_and_hidden_for_whoever_looks(tmp_path: Path) -> None:
    (tmp_path / "pack.yaml").write_text("""\
service: spark
tags:
  - {on: {catalog: spark_catalog, database: lab, table: people, column: c3}, tags: [PHONE]}
policies:
  - name: some columns are read
    on: {catalog: spark_catalog, database: lab, table: people, column: [c1, c2, c3]}
    allow: [{groups: [public], access: [select]}]
  - name: addresses are hashed
    on: {tag: EMAIL}
    mask: [{groups: [trusted], type: MASK_NONE}, {groups: [public], type: MASK_HASH}]
""")
    tag = AcceptedTag(catalog="spark_catalog", database="lab", table="people", column="c1", tag="EMAIL")
    side = settings_side(
        Settings(policies=PolicySettings(paths=(tmp_path,))), {}, AcceptedList(number=1, tags=(tag,))
    )
    people = {"cem": Principal(user="cem", groups=frozenset({"trusted"}))}
    asked = EngineColumns(engine_for(side), people)
    columns = ("c1", "c2", "c3", "c4")
    assert asked.list_masked_columns("bob", PEOPLE, columns) == {"c1"}
    assert asked.list_masked_columns("cem", PEOPLE, columns) == set()
    assert asked.list_hidden_columns("bob", PEOPLE, columns) == {"c4"}
    assert asked.tags(PEOPLE, columns) == {"c1": set(), "c2": set(), "c3": {"PHONE"}, "c4": set()}


async def test_a_catalog_that_cannot_be_listed_stops_no_other_and_loses_nothing(lake: Lake) -> None:
    far = TableParts("far", "lab", "people")
    lake.tables_ = {far: {"c1": MAILS}}
    await lake.look(catalogs=("Far", "spark_catalog"))
    lake.unlisted, lake.tables_ = ("Far",), {PEOPLE: {"c2": MAILS}}
    with pytest.raises(BackendUnavailable, match=r"^the tables of `Far` cannot be listed: INTERNAL_ERROR$"):
        await lake.look(catalogs=("Far", "spark_catalog"))
    assert await lake.proposed() == {"c1 EMAIL": "proposed", "c2 EMAIL": "proposed"}
    assert "the tables of `Far` cannot be listed: INTERNAL_ERROR" in lake.lines
    lake.unlisted = ()
    await lake.look(catalogs=("Far", "spark_catalog"))
    assert await lake.proposed() == {"c2 EMAIL": "proposed"}


async def test_a_value_that_a_format_does_not_get_through_keeps_no_other_table_back(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(scorer: Scorer, columns: Sequence[Sampled]) -> Any:
        if "bad" in columns[0].values:
            raise KeyError("bad")
        return table(scorer, columns)

    table = Scorer.table
    monkeypatch.setattr(Scorer, "table", breaks)
    lake.tables_ = {TableParts("spark_catalog", "lab", "a"): {"c1": ["bad"]}, PEOPLE: {"c1": MAILS}}
    with pytest.raises(BackendUnavailable, match=r"^spark_catalog.lab.a: cannot be scored: KeyError$"):
        await lake.look()
    assert await lake.proposed() == {"c1 EMAIL": "proposed"}


async def test_a_gateway_that_is_gone_ends_the_run_where_a_catalog_is_listed(lake: Lake) -> None:
    lake.unlisted, lake.away = ("far", "spark_catalog"), True
    with pytest.raises(BackendUnavailable, match=r"^the gateway does not answer$"):
        await lake.look(catalogs=("far", "spark_catalog"))
    assert not lake.lines
