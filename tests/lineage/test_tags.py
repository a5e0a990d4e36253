"""Tags follow values along the graph: what is proposed, what is not, and what becomes of decisions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import asyncpg
import pytest

from gateway.app.propagation_rules import propagation_rules
from gateway.database.migrate import migrate
from gateway.errors import Faults
from gateway.lineage.propagation import PropagationNode
from gateway.lineage.proposals import (
    ACCEPTED,
    BY_ORIGIN,
    BY_SETTING,
    PROPOSED,
    REJECTED,
    Looked,
    Proposal,
    decide,
    history,
    load_accepted_tags,
    look,
    proposals,
)
from gateway.lineage.store import store_lineage
from gateway.model.lineage import Dataset, DatasetKind
from gateway.model.tags import Tag
from gateway.settings.models import TagPropagationSettings
from tests.lineage.statements import seen

RULES = propagation_rules(TagPropagationSettings())


@pytest.fixture
async def graph(database: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(database)
    await migrate(connection)
    yield connection
    await connection.close()


class World:
    """Tags of policies, by `table.column`; `*` of a table is for all of its columns."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.tags: dict[str, list[Tag]] = {}

    def tag(self, column: str, *tags: str, **attributes: str) -> None:
        self.tags[column] = [Tag(type=tag, attributes=attributes) for tag in tags]

    async def tags_of(self, nodes: Sequence[PropagationNode]) -> Sequence[Sequence[Tag]]:
        return [
            [*self.tags.get(f"{n.parts[2]}.{n.name}", ()), *self.tags.get(f"{n.parts[2]}.*", ())]
            for n in nodes
        ]

    async def look(self, **how: Any) -> Looked | None:
        return await look(self.graph, RULES, self.tags_of, basis=repr(self.tags), **how)

    async def listed(self) -> dict[str, str]:
        """`t.c TAG` → state, with `, gone` where the origin is."""
        found = await proposals(self.graph)
        assert await proposals(self.graph, gone=True) == [p for p in found if p.origin_gone]
        return {
            f"{p.target.table}.{p.target.column} {p.target.tag}": p.state
            + (", gone" if p.origin_gone else "")
            for p in found
        }

    async def one(self, column: str) -> Proposal:
        (found,) = await proposals(self.graph, name=column)
        return found


@pytest.fixture
def world(graph: Any) -> World:
    return World(graph)


async def test_values_carry_tags_and_masks_counts_and_conditions_do_not(world: World) -> None:
    world.tag("raw.ssn", "PII", level="3")
    await store_lineage(
        world.graph,
        [
            seen("raw.ssn -> a.id: ssn IDENTITY"),
            seen("raw.ssn -> a.four: right(ssn, 4) TRANSFORMATION"),
            seen("raw.ssn -> a.last: max(ssn) AGGREGATION"),
            seen("raw.ssn -> a.n: count(DISTINCT ssn) AGGREGATION"),
            seen("raw.ssn -> a.both: count(ssn) + max(ssn) AGGREGATION"),
            seen("raw.ssn -> a.hashed: sha2(ssn, 256) TRANSFORMATION masked"),
            seen("raw.ssn -> a.flag: CASE WHEN ssn IS NULL THEN 1 END CONDITIONAL"),
            seen("raw.ssn -> a.rows: ssn > 1 FILTER"),
            seen("a.four -> b.four: four IDENTITY"),
            seen("raw.name -> a.name: name IDENTITY"),
        ],
    )
    await world.look()
    assert await world.listed() == {
        f"{name} PII": PROPOSED for name in ("a.id", "a.four", "a.last", "a.both", "b.four")
    }
    there = await world.one("b.four")
    (origin,) = there.origins
    assert origin["column"] == "spark_catalog.lab.raw.ssn"
    assert not origin["identical"]
    assert [(step["column"].rpartition("lab.")[2], step["flow"]) for step in origin["way"]] == [
        ("a.four", "TRANSFORMATION"),
        ("b.four", "IDENTITY"),
    ]
    assert there.attributes == ({"level": "3"},)


async def test_each_stands_once_and_a_look_without_news_does_nothing(world: World) -> None:
    world.tag("raw.ssn", "PII")
    await store_lineage(world.graph, [seen("raw.ssn -> a.id: ssn IDENTITY")])
    assert await world.look() is not None
    assert await world.look() is None
    await store_lineage(
        world.graph,
        [seen("raw.ssn -> a.id: ssn IDENTITY"), seen("q.x -> a.x: x > 1 FILTER")],
    )
    assert await world.look() is None
    await store_lineage(world.graph, [seen("raw.ssn -> b.id: ssn IDENTITY")])
    assert await world.look() is not None
    assert len(await proposals(world.graph)) == 2


async def test_a_count_that_becomes_a_maximum_is_noticed_whatever_came_last(world: World) -> None:
    world.tag("raw.ssn", "PII")
    await store_lineage(world.graph, [seen("raw.ssn -> a.n: count(ssn) AGGREGATION", minute=1)])
    await world.look()
    assert await world.listed() == {}
    # Brought later and older; then in one batch behind another count.
    await store_lineage(
        world.graph,
        [
            seen("raw.ssn -> a.n: max(ssn) AGGREGATION", minute=0),
            seen("raw.ssn -> a.n: count(ssn) AGGREGATION", minute=2),
        ],
    )
    await world.look()
    assert await world.listed() == {"a.n PII": PROPOSED}


@pytest.mark.parametrize("outcome", ["failed", "canceled", "timed_out", "unknown"])
async def test_what_has_not_finished_may_have_written_and_somebody_has_to_look(
    world: World, outcome: str
) -> None:
    world.tag("raw.ssn", "PII")
    await store_lineage(world.graph, [seen("raw.ssn -> a.id: ssn IDENTITY", outcome=outcome)])
    await store_lineage(world.graph, [seen("a.id -> b.id: id IDENTITY")])
    await world.look(auto_accept=True)
    assert await world.listed() == {"a.id PII": PROPOSED, "b.id PII": PROPOSED}
    assert (await world.one("a.id")).asks
    assert (await world.one("b.id")).asks
    # Once it has finished nobody has to look.
    await store_lineage(world.graph, [seen("raw.ssn -> a.id: ssn IDENTITY", minute=1)])
    await world.look(auto_accept=True)
    assert await world.listed() == {"a.id PII": ACCEPTED, "b.id PII": ACCEPTED}


async def test_a_name_that_is_too_long_keeps_no_other_waiting(world: World) -> None:
    world.tag("raw.ssn", "PII")
    long = "".join(Random(7).choices("abcdefghijklmnopqrstuvwxyz", k=1_900))
    await store_lineage(
        world.graph, [seen(f"raw.ssn -> {long}.{long}: ssn IDENTITY", "raw.ssn -> a.id: ssn IDENTITY")]
    )
    looked = await world.look()
    assert looked is not None
    assert "names of more than" in looked.cut_off
    assert await world.listed() == {"a.id PII": PROPOSED}


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_view_that_was_never_made_hides_no_table(world: World, at_once: bool) -> None:
    world.tag("raw.ssn", "PII")
    made = seen("q.one -> mine.id: 1 IDENTITY", minute=1)
    view = Dataset(DatasetKind.VIEW, ("spark_catalog", "lab", "mine"))
    edges = tuple(
        replace(edge, targets=tuple(replace(target, dataset=view) for target in edge.targets))
        for edge in made.lineage.edges
    )
    # CREATE VIEW IF NOT EXISTS lab.mine AS …, which does nothing where there is a table.
    lineage = replace(made.lineage, targets=(view,), edges=edges, columns=edges[0].targets)
    copied, nothing = seen("raw.ssn -> mine.id: ssn IDENTITY"), replace(made, lineage=lineage)
    for batch in ([copied, nothing],) if at_once else ([copied], [nothing]):
        await store_lineage(world.graph, batch)
    await world.look()
    assert await world.listed() == {"mine.id PII": PROPOSED}


async def test_a_count_that_has_not_finished_is_a_count(world: World) -> None:
    world.tag("raw.ssn", "PII")
    await store_lineage(world.graph, [seen("raw.ssn -> a.n: count(ssn) AGGREGATION", outcome="failed")])
    await store_lineage(world.graph, [seen("raw.ssn -> a.m: count(ssn) AGGREGATION")])
    await world.look()
    assert await world.listed() == {}
    await store_lineage(world.graph, [seen("raw.ssn -> a.m: max(ssn) AGGREGATION", outcome="failed")])
    await world.look()
    assert await world.listed() == {"a.m PII": PROPOSED}


async def test_a_mask_that_comes_later_does_not_take_back_what_flowed(world: World) -> None:
    world.tag("raw.ssn", "PII")
    await store_lineage(world.graph, [seen("raw.ssn -> a.id: ssn IDENTITY")])
    await store_lineage(world.graph, [seen("raw.ssn -> a.id: ssn IDENTITY masked", minute=1)])
    await world.look()
    assert await world.listed() == {"a.id PII": PROPOSED}


async def test_tags_come_and_go_and_what_was_accepted_stays(world: World) -> None:
    await store_lineage(
        world.graph, [seen("raw.ssn -> a.id: ssn IDENTITY"), seen("a.id -> b.id: id IDENTITY", minute=1)]
    )
    await world.look()
    assert await world.listed() == {}
    world.tag("raw.*", "PII")
    await world.look()
    assert await world.listed() == {"a.id PII": PROPOSED, "b.id PII": PROPOSED}
    await decide(world.graph, [(await world.one("a.id")).id], ACCEPTED, "ann")
    world.tags.clear()
    await world.look()
    # What is accepted is a tag like another: what it feeds has an origin still.
    assert await world.listed() == {"a.id PII": "accepted, gone", "b.id PII": PROPOSED}
    assert (await world.one("b.id")).origins[0]["column"] == "spark_catalog.lab.a.id"
    number, accepted = await load_accepted_tags(world.graph)
    assert [(target.column, attributes) for target, attributes in accepted] == [("id", "[{}]")]
    assert number == 1


async def test_accepted_columns_in_a_circle_do_not_keep_each_others_origin(world: World) -> None:
    world.tag("raw.x", "PII")
    await store_lineage(
        world.graph,
        [
            seen("raw.x -> a.x: x IDENTITY"),
            seen("a.x -> b.x: x IDENTITY"),
            seen("b.x -> a.x: x IDENTITY"),
        ],
    )
    await world.look()
    await decide(world.graph, [p.id for p in await proposals(world.graph)], ACCEPTED, "ann")
    world.tags.clear()
    await world.look()
    assert await world.listed() == {"a.x PII": "accepted, gone", "b.x PII": "accepted, gone"}


async def test_a_rejected_column_passes_nothing_on_and_stays_rejected_for_what_was_judged(
    world: World,
) -> None:
    world.tag("raw.ssn", "PII")
    world.tag("other.ssn", "PII")
    await store_lineage(
        world.graph, [seen("raw.ssn -> a.id: left(ssn, 1) TRANSFORMATION"), seen("a.id -> b.id: id IDENTITY")]
    )
    await world.look()
    await decide(world.graph, [(await world.one("a.id")).id], REJECTED, "ann")
    await world.look()
    assert await world.listed() == {"a.id PII": REJECTED, "b.id PII": "proposed, gone"}
    await store_lineage(world.graph, [seen("raw.ssn -> a.id: left(ssn, 2) TRANSFORMATION", minute=1)])
    await world.look(auto_accept=True)
    assert (await world.listed())["a.id PII"] == REJECTED
    # Another column flows in: that was not judged. Nor is it accepted by itself.
    await store_lineage(world.graph, [seen("other.ssn -> a.id: left(ssn, 2) TRANSFORMATION", minute=2)])
    await world.look(auto_accept=True)
    assert (await world.listed())["a.id PII"] == PROPOSED
    await world.look(auto_accept=True)
    assert await world.listed() == {"a.id PII": PROPOSED, "b.id PII": ACCEPTED}
    found = await history(world.graph, (await world.one("a.id")).id)
    assert [(one.user, one.state) for one in found] == [("ann", REJECTED), (BY_ORIGIN, PROPOSED)]


async def test_a_rejected_derivation_is_proposed_again_when_the_very_value_lands(world: World) -> None:
    world.tag("raw.ssn", "PII")
    await store_lineage(world.graph, [seen("raw.ssn -> a.id: left(ssn, 1) TRANSFORMATION")])
    await world.look()
    await decide(world.graph, [1], REJECTED, "ann")
    await store_lineage(world.graph, [seen("raw.ssn -> a.id: ssn IDENTITY", minute=1)])
    await world.look()
    assert await world.listed() == {"a.id PII": PROPOSED}


async def test_the_setting_accepts_what_no_rule_asks_about(world: World) -> None:
    world.tag("raw.ssn", "PII")
    unread = seen("raw.ssn -> b.id: ssn IDENTITY")
    await store_lineage(world.graph, [seen("raw.ssn -> a.id: ssn IDENTITY"), table_level(unread)])
    await world.look()
    await world.look(auto_accept=True)
    assert await world.listed() == {"a.id PII": ACCEPTED, "b.* PII": PROPOSED}
    assert (await world.one("a.id")).decided_by == BY_SETTING
    assert (await world.one("b.*")).asks


def table_level(statement: Any) -> Any:
    lineage = replace(statement.lineage, edges=(), columns=(), table_level="no reading")
    return replace(statement, lineage=lineage)


async def test_what_policies_tag_already_is_not_proposed(world: World) -> None:
    world.tag("raw.ssn", "PII")
    await store_lineage(world.graph, [seen("raw.ssn -> a.id: ssn IDENTITY")])
    await world.look()
    world.tag("a.id", "PII")
    await world.look()
    assert await world.listed() == {}


async def test_of_two_who_decide_at_once_the_second_learns_of_the_first(world: World, database: str) -> None:
    world.tag("raw.ssn", "PII")
    await store_lineage(world.graph, [seen("raw.ssn -> a.id: ssn IDENTITY")])
    await world.look()
    other = await asyncpg.connect(database)
    first = world.graph.transaction()
    await first.start()
    await decide(world.graph, [1], ACCEPTED, "ann")
    second = asyncio.create_task(decide(other, [1], REJECTED, "bob"))
    waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"
    while not await world.graph.fetchval(waits):  # noqa: ASYNC110 - the server has no event to wait for
        await asyncio.sleep(0)
    await first.commit()
    with pytest.raises(Faults, match="was accepted by ann"):
        await second
    assert (await world.one("a.id")).decided_by == "ann"
    await decide(other, [1], REJECTED, "bob", again=True)
    assert (await world.one("a.id")).state == REJECTED
    with pytest.raises(Faults, match="proposal 99 does not exist"):
        await decide(other, [1, 99], ACCEPTED, "bob", again=True)
    assert (await world.one("a.id")).state == REJECTED
    await other.close()


async def test_a_look_beside_a_decision_leaves_it_alone(world: World) -> None:
    world.tag("raw.ssn", "PII")
    await store_lineage(world.graph, [seen("raw.ssn -> a.id: ssn IDENTITY")])
    await world.look()
    await store_lineage(world.graph, [seen("raw.ssn -> b.id: ssn IDENTITY")])
    tags_of = world.tags_of

    async def decided_meanwhile(nodes: Sequence[PropagationNode]) -> Sequence[Sequence[Tag]]:
        world.tags_of = tags_of  # type: ignore[method-assign]
        await decide(world.graph, [1], REJECTED, "ann")
        return await tags_of(nodes)

    world.tags_of = decided_meanwhile  # type: ignore[method-assign]
    await world.look()
    assert await world.listed() == {"a.id PII": REJECTED}
    await world.look()
    assert await world.listed() == {"a.id PII": REJECTED, "b.id PII": PROPOSED}


async def test_attributes_of_several_origins_all_count_and_are_taken_when_accepted(world: World) -> None:
    world.tag("raw.ssn", "PII", level="1")
    world.tag("raw.pin", "PII", level="9")
    await store_lineage(world.graph, [seen("raw.ssn, raw.pin -> a.id: concat(ssn, pin) TRANSFORMATION")])
    await world.look()
    await decide(world.graph, [1], ACCEPTED, "ann")
    ((_, attributes),) = (await load_accepted_tags(world.graph))[1]
    assert sorted(one["level"] for one in json.loads(attributes)) == ["1", "9"]
    world.tag("raw.ssn", "PII", level="2")
    await world.look()
    ((_, attributes),) = (await load_accepted_tags(world.graph))[1]
    assert sorted(one["level"] for one in json.loads(attributes)) == ["1", "9"], (
        "what is in force was judged as it is"
    )
    await decide(world.graph, [1], ACCEPTED, "ann")
    ((_, attributes),) = (await load_accepted_tags(world.graph))[1]
    assert sorted(one["level"] for one in json.loads(attributes)) == ["2", "9"]


async def test_what_a_classification_has_found_is_not_gone(world: World) -> None:
    """It never had an origin."""
    await world.graph.execute(
        "INSERT INTO sluice.tag_proposal (catalog, database, table_name, column_name, tag, attributes, state,"
        " asks, origins, evidence) VALUES"
        " ('spark_catalog', 'db', 'a', 'id', 'PII', '[]', 'proposed', false, '[]', '[{\"hit\": 3}]'),"
        " ('spark_catalog', 'db', 'b', 'id', 'PII', '[]', 'proposed', false, '[]', '[]')"
    )
    assert await world.listed() == {"a.id PII": PROPOSED, "b.id PII": "proposed, gone"}


async def test_a_bound_that_is_reached_is_told_and_nothing_is_called_gone(world: World) -> None:
    world.tag("raw.x", "PII")
    await store_lineage(world.graph, [seen(*(f"raw.x -> t{n}.x: x IDENTITY" for n in range(5)))])
    await world.look()
    await store_lineage(world.graph, [seen("raw.x -> more.x: x IDENTITY")])
    found = await world.look(most_flows=2)
    assert found is not None
    assert "more than 2 outgoing edges" in found.cut_off
    assert not any("gone" in state for state in (await world.listed()).values())
