"""Governed data sharing: tables seen at once, explanations, changes, and what is wrong with a download."""

from __future__ import annotations

import copy
import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.errors import Faults
from gateway.model.catalog import Column
from gateway.model.context import TIME, AccessContext
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.pipeline.policy_reading import texts_of
from gateway.policy.differences import pairs_of, principals_of
from gateway.policy.diffing import compare, questions_of
from gateway.policy.engine import Engine, engine_for
from gateway.policy.probing import resources_of
from gateway.policy.ranger import load, load_files
from tests.effort import tries
from tests.policy.ranger.cases import World, worlds

WORLDS = {world.name: world for world in worlds() if world.file == "sharing.yaml"}
MASKED, FILTERED = WORLDS["masks of what is shared"], WORLDS["row filters of what is shared"]
COLUMNS = [Column(name=name, type="string") for name in ("id", "phone", "FAX", "mail", "own", "free")]


def hive(world: World, **gds: Any) -> PolicySet:
    """Return a world's policies with another data sharing, speaking for a catalog."""
    data = copy.deepcopy(world.download)
    data["gdsInfo"].update(gds)
    loaded = load(data)
    return PolicySet(version=1, services=loaded.services, catalog_services={"main": "dev"})


@pytest.mark.parametrize("user", ["ann", "bob", "cat", "dan", "eve", "root"])
@pytest.mark.parametrize(("world", "table"), [(MASKED, "leads"), (MASKED, "lots"), (FILTERED, "leads")])
def test_a_table_is_seen_as_its_columns_are(world: World, table: str, user: str) -> None:
    engine, principal = Engine(hive(world)), Principal(user=user)
    resource = Resource.table("main", "crm", table)
    view = engine.table_view(principal, resource, COLUMNS)
    for column in COLUMNS:
        one = resource.child("column", column.name)
        allowed = engine.decide(AccessRequest(principal=principal, resource=one, access="select"))
        assert (column.name in view.hidden) is not allowed.allowed
        assert view.allowed[column.name].datasets == allowed.datasets
        alone, seen = engine.mask(principal, one, "string"), view.masks.get(column.name)
        assert (alone and alone.expression) == (seen and seen.expression)
    rows = engine.row_filter(principal, resource)
    assert (rows and rows.expression) == (view.row_filter and view.row_filter.expression)


def test_what_is_shared_can_be_seen() -> None:
    engine = Engine(hive(WORLDS["datasets and projects"]))
    seen = {
        user: engine.visible(Principal(user=user), Resource.database("main", "crm"))
        for user in ("bob", "zed")
    }
    assert seen == {"bob": True, "zed": False}


def test_an_explanation_names_dataset_and_project() -> None:
    resource = Resource((("database", "crm"), ("table", "leads"), ("column", "id")))
    policies = WORLDS["datasets and projects"].policies
    told = engine_for(policies).explain(
        AccessRequest(principal=Principal(user="bob"), resource=resource, access="select", service="dev")
    )
    why = {found.policy.id: (found.settled, found.why) for found in told.considered}
    assert why[3001] == (True, "project `p1` covers the resource; it grants access")
    assert why[2001] == (False, "dataset `d1` covers the resource; it does not grant `select` to user bob")


def test_a_mask_that_is_taken_away_is_gone() -> None:
    before = hive(MASKED)
    resources = [{**entry, "subResourceMasks": []} for entry in MASKED.download["gdsInfo"]["resources"]]
    after = hive(MASKED, resources=resources)
    column = Resource.table("main", "crm", "leads").child("column", "phone")
    old = Engine(before)
    new = Engine(after, base=old)
    bob = Principal(user="bob")
    assert old.mask(bob, column, "string") is not None
    assert new.mask(bob, column, "string") is None


DAYS = tuple(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=days) for days in range(0, 60, 5))
PEOPLE = ("ann", "bob", "cat", "dan", "eve")


def seen_at(engine: Engine, user: str, table: str, at: datetime) -> tuple[object, frozenset[str]]:
    """Return everything that a user sees of a table at a time, and what of the context that depends on."""
    principal, resource = Principal(user=user), Resource.table("main", "crm", table)
    view = engine.table_view(principal, resource, COLUMNS, context=AccessContext(time=at))
    rows = view.row_filter and view.row_filter.expression
    masks = {name: mask.expression for name, mask in view.masks.items()}
    return (sorted(view.hidden), masks, rows), view.context_dependencies


def changed_somehow(gds: dict[str, Any], chance: random.Random) -> None:
    """Let one thing of the sharing begin, end, be revoked, or be masked and filtered otherwise."""

    def period() -> dict[str, str]:
        start, end = sorted(chance.sample(DAYS, 2))
        return {"startTime": f"{start:%Y/%m/%d %H:%M:%S}", "endTime": f"{end:%Y/%m/%d %H:%M:%S}"}

    match chance.choice(["status", "link", "dataset", "masks", "filter", "no filter"]):
        case "status":
            chance.choice(gds["dshInDs"])["status"] = chance.choice(["ACTIVE", "ACTIVE", "DENIED", "NONE"])
        case "link":
            chance.choice(gds["dshInDs"])["validitySchedule"] = period()
        case "dataset":
            chance.choice(gds["datasets"])["validitySchedule"] = period()
        case "masks":
            resource = chance.choice(gds["resources"])
            masks = [{"values": ["phone", "mail"], "maskInfo": {"dataMaskType": "MASK_NULL"}}]
            resource["subResourceMasks"] = chance.choice([[], masks])
        case "filter":
            chance.choice(gds["resources"])["rowFilter"] = {"filterExpr": f"dept = '{chance.random()}'"}
        case _:
            chance.choice(gds["resources"]).pop("rowFilter", None)


@pytest.mark.parametrize("seed", range(tries(8)))
def test_histories_of_what_is_shared(seed: int) -> None:
    """What an engine remembers of the policies before, and of other times, is never an answer of now."""
    chance = random.Random(seed)
    world = chance.choice([MASKED, FILTERED])
    gds = copy.deepcopy(world.download["gdsInfo"])
    gds["dshInDs"] = gds.pop("dshids", None) or gds["dshInDs"]
    engine = Engine(hive(world, **gds))
    moved = 0
    for _ in range(40):
        if chance.random() < 0.3:
            changed_somehow(gds, chance)
            engine = Engine(hive(world, **gds), base=engine)
        user, table, at = chance.choice(PEOPLE), chance.choice(["leads", "lots", "all"]), chance.choice(DAYS)
        seen, context_dependencies = seen_at(engine, user, table, at)
        anew = Engine(hive(world, **gds))
        assert (seen, context_dependencies) == seen_at(anew, user, table, at), (seed, user, table, at)
        if seen != seen_at(anew, user, table, chance.choice(DAYS))[0]:
            # What is not the same at all times says so: a clearance is used again only where it does not.
            assert TIME in context_dependencies, (seed, user, table)
            moved += 1
    assert moved or seed


@pytest.mark.parametrize("world", [MASKED, FILTERED])
def test_what_is_shared_with_a_mask_or_filter_has_no_other_name(world: World) -> None:
    engine = Engine(hive(world))

    def table(name: str) -> Resource:
        return Resource.table("main", "crm", name)

    assert engine.guards_escaped(table("leads__x"), table("leads"))
    assert engine.guards_escaped(table("other"), table("lea"), beginning=True)
    plain = Engine(hive(world, resources=[]))
    assert not plain.guards_escaped(table("leads__x"), table("elsewhere"))


def test_a_difference_in_what_is_shared_is_told() -> None:
    links = [{**entry, "status": "DENIED"} for entry in MASKED.download["gdsInfo"]["dshInDs"]]
    old, new = hive(MASKED), hive(MASKED, dshInDs=links)
    (pair,) = pairs_of(old, new)
    people = principals_of([pair])
    found = compare(engine_for(old), engine_for(new), questions_of(pair, resources_of(pair, people), people))
    kinds = {(change.principal, change.kind) for change in found.changes}
    assert kinds >= {("bob", "lost"), ("ann", "mask")}


def test_texts_of_shares_are_read_by_sparks_parser() -> None:
    service = FILTERED.policies.services["dev"]
    assert service.sharing is not None
    texts = {text for _, (text, _) in texts_of(service.sharing.obligations())}
    assert "dept = 'hr'" in texts


def test_a_cache_file_belongs_to_its_service() -> None:
    data = dict(MASKED.download)
    gds = data.pop("gdsInfo")
    found = load_files({"dev.json": json.dumps(data), "dev_gds.json": json.dumps(gds)}, {})
    assert found.services["dev"].sharing == MASKED.policies.services["dev"].sharing


@pytest.mark.parametrize(
    ("gds", "fault"),
    [
        ({"isDelta": True}, "these are deltas of the data sharing"),
        ({"dataShares": [{"name": "x"}]}, "`id` is missing"),
        ({"dataShares": [{"id": 1}, {"id": 1}]}, "has the id 1 twice"),
        ({"dataShares": [{"id": 1, "conditionExpr": "function() {}"}]}, "gdsInfo"),
        (
            {
                "dataShares": [{"id": 1}],
                "resources": [{"id": 1, "dataShareId": 1, "resource": {"db": {"values": ["x"]}}}],
            },
            "unknown level `db`",
        ),
        (
            {
                "dataShares": [{"id": 1}],
                "resources": [
                    {
                        "id": 1,
                        "dataShareId": 1,
                        "resource": {"database": {"values": ["x"]}, "table": {"values": ["t"]}},
                        "rowFilter": {"filterExpr": "a = 1; DROP"},
                    }
                ],
            },
            "a row filter must not contain a semicolon",
        ),
    ],
)
def test_what_is_wrong_is_told(gds: dict[str, Any], fault: str) -> None:
    data = {**MASKED.download, "gdsInfo": gds}
    with pytest.raises(Faults) as told:
        load(data)
    assert any(fault in text for text in told.value.faults), told.value.faults


def test_an_access_type_that_nobody_knows_is_shared_with_nobody() -> None:
    gds = {"dataShares": [{"id": 1, "name": "x", "defaultAccessTypes": ["selekt", "select"]}]}
    found = load({**MASKED.download, "gdsInfo": gds})
    assert any("unknown access type `selekt`" in warning for warning in found.warnings), found.warnings
