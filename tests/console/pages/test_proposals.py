"""Proposals and what there is, page by page; only decisions change something."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.admin.requests import BadRequest, NotFound
from gateway.console.pages import inventory, proposals
from gateway.console.pages.inventory import (
    DatasetQuestion,
    InventoryPages,
    JobRunQuestion,
    ListedCatalog,
    ScheduledJob,
)
from gateway.console.pages.proposals import (
    DecideProposals,
    ProposalKey,
    ProposalListQuestion,
    ProposalPages,
    RecommendationKey,
    RecommendationQuestion,
    ShownRecommendation,
    build_recommendation,
)
from gateway.console.routes import NoParameters, Who
from gateway.database.migrate import LazyPool
from gateway.errors import Faults
from gateway.model.principal import identity_of
from tests.console.pages.viewers import ADMIN, AUDITOR

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def recommended(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "kind": "unused",
        "title": f"take {number} away",
        "state": "proposed",
        "edits": [{"do": "remove_policy", "policy": "p"}],
        "cases": [],
        "evidence": {"last_use": "never", "people": ["ann"]},
        "proposed_at": "2026-10-01",
        "looked_at": "2026-10-02",
        "decided_by": "",
    }


class FakeRecommendations:
    def __init__(self) -> None:
        self.decided: list[tuple[str, int, str, str]] = []

    async def list_page(
        self, state: str, kind: str, after: tuple[str, int], limit: int
    ) -> Sequence[Mapping[str, Any]]:
        return [recommended(n) for n in range(1, 6) if ("unused", n) > after][:limit]

    async def show(self, number: int, pack: str) -> ShownRecommendation:
        raise NotFound("there is no such recommendation")

    async def apply(self, number: int, pack: str, by: str) -> None:
        self.decided.append(("applied", number, pack, by))

    async def reject(self, number: int, by: str) -> None:
        self.decided.append(("rejected", number, "", by))


@pytest.fixture
async def pool(database: str) -> AsyncIterator[LazyPool]:
    made = LazyPool(database, "test", most=2, timeout_s=30)
    yield made
    made.close()


@pytest.fixture
async def pages(pool: LazyPool) -> ProposalPages:
    async with pool.acquire() as connection:
        for n in range(5):
            await connection.execute(
                "INSERT INTO sluice.tag_proposal"
                " (catalog, database, table_name, column_name, tag, attributes, state, asks, origins)"
                " VALUES ('c', 'sales', 'copy', $1, 'PII', '[{}]', 'proposed', false, $2)",
                f"c{n}",
                '[{"column": "c.sales.customer.email", "attributes": [{}], "identical": true,'
                ' "way": [{"column": "c.sales.copy.c0", "flow": "IDENTITY", "statement": "s"}]}]',
            )
    return ProposalPages(pool.acquire, FakeRecommendations())


async def test_proposals_are_listed_shown_and_decided(pages: ProposalPages) -> None:
    first = await pages.list_proposals(AUDITOR, ProposalListQuestion(limit=3))
    rest = await pages.list_proposals(AUDITOR, ProposalListQuestion(limit=3, after=first.next))
    assert [one.column for one in (*first.items, *rest.items)] == [f"c.sales.copy.c{n}" for n in range(5)]
    assert rest.next == ""
    numbers = tuple(str(one.id) for one in first.items)
    await pages.decide_proposals(ADMIN, DecideProposals(proposals=numbers[:2], decision="accept"))
    await pages.decide_proposals(ADMIN, DecideProposals(proposals=numbers[2:], decision="reject"))
    left = await pages.list_proposals(AUDITOR, ProposalListQuestion())
    assert len(left.items) == 2
    accepted = await pages.list_proposals(AUDITOR, ProposalListQuestion(state="accepted", tag="PII"))
    assert [(one.decided_by, one.origins[0].column) for one in accepted.items] == [
        ("root", "c.sales.customer.email")
    ] * 2
    shown = await pages.show_proposal(AUDITOR, ProposalKey(proposal=int(numbers[0])))
    assert [(one.user, one.state) for one in shown.history] == [("root", "accepted")]
    assert shown.proposal.origins[0].way[0].flow == "IDENTITY"
    with pytest.raises(Faults, match="was accepted by root"):
        await pages.decide_proposals(ADMIN, DecideProposals(proposals=numbers[:1], decision="reject"))
    with pytest.raises(NotFound):
        await pages.show_proposal(AUDITOR, ProposalKey(proposal=10**9))


@pytest.mark.parametrize("numbers", [(), ("x",), ("-1",), ("1" * 19,), ("1",) * 501])
async def test_only_numbers_are_decided(numbers: tuple[str, ...]) -> None:
    pages = ProposalPages(lambda: pytest.fail("nothing is asked"), FakeRecommendations())
    with pytest.raises(BadRequest):
        await pages.decide_proposals(ADMIN, DecideProposals(proposals=numbers, decision="accept"))


async def test_recommendations_are_listed_and_decided() -> None:
    recommendations = FakeRecommendations()
    pages = ProposalPages(lambda: pytest.fail("nothing is asked"), recommendations)
    first = await pages.list_recommendations(AUDITOR, RecommendationQuestion(limit=3))
    rest = await pages.list_recommendations(AUDITOR, RecommendationQuestion(limit=3, after=first.next))
    assert [one.id for one in (*first.items, *rest.items)] == [1, 2, 3, 4, 5]
    assert rest.next == ""
    assert build_recommendation(recommended(1)).evidence == ("last use: never", 'people: ["ann"]')
    await pages.apply_recommendation(ADMIN, RecommendationKey(recommendation=1, pack="a.yaml"))
    await pages.reject_recommendation(ADMIN, RecommendationKey(recommendation=2))
    assert recommendations.decided == [("applied", 1, "a.yaml", "root"), ("rejected", 2, "", "root")]


async def test_what_there_is_goes_page_by_page(pool: LazyPool) -> None:
    async def datasets(after: tuple[str, str], limit: int) -> Sequence[Mapping[str, Any]]:
        rows = [
            {
                "source": "landing",
                "path": f"p{n}",
                "database": "raw",
                "table_name": f"t{n}",
                "format": "csv",
                "files": 1,
                "bytes": 2,
                "promoted_by": identity_of("ann", "3f2a"),
                "promoted_at": NOW,
                "looked_at": None,
                "finding": "",
            }
            for n in range(3)
        ]
        return [row for row in rows if (row["source"], row["path"]) > after][:limit]

    catalogs = [ListedCatalog(name="c", service="spark", source="settings")]
    made = InventoryPages(
        pool.acquire,
        datasets,
        lambda: catalogs,
        lambda: [ScheduledJob(name="rollups", schedule="every 60 s")],
    )
    first = await made.list_datasets(AUDITOR, DatasetQuestion(limit=2))
    rest = await made.list_datasets(AUDITOR, DatasetQuestion(limit=2, after=first.next))
    assert [one.table for one in (*first.items, *rest.items)] == ["raw.t0", "raw.t1", "raw.t2"]
    assert first.items[0].promoted_by == "ann", "by name, whatever else tells him from others"
    assert (await made.list_catalogs(AUDITOR, NoParameters())).items == tuple(catalogs)
    async with pool.acquire() as connection:
        for job in ("rollups", "archive", "rollups"):
            await connection.execute(
                "INSERT INTO sluice.job_run (job, version, state, runner) VALUES ($1, 1, 'done', 'm')", job
            )
    runs = await made.list_job_runs(AUDITOR, JobRunQuestion(limit=2))
    more = await made.list_job_runs(AUDITOR, JobRunQuestion(limit=2, after=runs.next))
    assert [one.job for one in (*runs.items, *more.items)] == ["rollups", "archive", "rollups"]
    assert len((await made.list_job_runs(AUDITOR, JobRunQuestion(job="archive"))).items) == 1
    assert runs.scheduled[0].name == "rollups"


def test_only_administrators_decide() -> None:
    made = [
        *proposals.part(ProposalPages(lambda: pytest.fail("nothing is asked"), FakeRecommendations())).routes,
        *inventory.part(InventoryPages(lambda: pytest.fail("nothing is asked"), None, list, list)).routes,  # type: ignore[arg-type]
    ]
    assert {route.who for route in made if route.changes} == {Who.ADMINISTRATOR}
    assert {route.who for route in made if not route.changes} == {Who.AUDITOR}
