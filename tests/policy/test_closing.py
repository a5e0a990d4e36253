"""Tables of files that are closed until a policy names them: asked of the engine that judges by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.app.rule_files import read_rules
from gateway.errors import Faults
from gateway.model.context import NO_CONTEXT
from gateway.model.files import FileSource
from gateway.model.policy import Service, Zone
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.closing import close_tables
from gateway.policy.engine import Engine, engine_for
from gateway.policy.packs import load_packs
from gateway.policy.parts import Part, build_closing_part, combine
from gateway.policy.service_defs import load_service_defs
from gateway.settings.models import PolicySettings

DEFINITIONS = load_service_defs(read_rules(PolicySettings()).service_defs)
LAKE = FileSource(
    name="lake",
    root="s3a://b",
    database="lake",
    formats=("csv",),
    depth=3,
    leaf_columns=9,
    files=9,
    administrators=frozenset({"stewards"}),
)
PACK = """
service: spark
policies:
  - name: everybody reads everything
    on:
      - {catalog: spark_catalog, database: "*", table: "*", column: "*"}
    allow: [{groups: [public], access: [all]}]
"""


def engine(more: str = "", source: FileSource = LAKE, pack: str = PACK, **changed: Any) -> Engine:
    packs = load_packs({"p.yaml": pack + more}, DEFINITIONS)
    services = {name: replace(service, **changed) for name, service in packs.services.items()}
    part = Part(name="packs", services=services)
    return engine_for(combine((build_closing_part([source]), part), 1, {"spark_catalog": "spark"}))


def allowed(judge: Engine, table: str, access: str = "select", user: str = "bob", **of: str) -> bool:
    groups = frozenset({of["group"]} if "group" in of else ())
    resource = Resource.table("spark_catalog", of.get("database", "lake"), table)
    resource = replace(resource, owner=of.get("owner"))
    request = AccessRequest(
        principal=Principal(user=user, groups=groups), resource=resource, access=access, context=NO_CONTEXT
    )
    column = replace(request, resource=resource.child("column", "c"))
    found = {judge.decide(one).allowed for one in (request, column)}
    assert len(found) == 1
    return found.pop()


def naming(table: str, allow: str = "[{groups: [readers], access: [select]}]", on: str = "") -> str:
    return f"""
  - name: of {table}
    on: {{catalog: "spark*", database: lake, table: {table}, column: "*"{on}}}
    allow: {allow}
"""


def test_it_is_its_promoters_and_the_administrators_alone() -> None:
    judge = engine()
    assert not allowed(judge, "raw__events")
    assert not allowed(judge, "raw__events", owner="alice")
    assert allowed(judge, "raw__events", user="alice", owner="alice")
    assert allowed(judge, "raw__events", group="stewards")
    assert allowed(judge, "raw__events", "promote"), "no table of it is there yet"
    assert allowed(judge, "events", database="other")
    assert not allowed(judge, "raw__events", "drop")
    assert not allowed(judge, "raw__events", "show")


def test_without_any_policy_its_promoter_may_read_it_and_no_more() -> None:
    judge = engine(pack="service: spark\npolicies: []\n")
    assert allowed(judge, "raw__events", user="alice", owner="alice")
    assert not allowed(judge, "raw__events", "insert", user="alice", owner="alice")
    assert not allowed(judge, "raw__events", group="stewards")


def test_a_policy_that_names_it_opens_it_and_no_other() -> None:
    judge = engine(naming("[RAW__Events, other*]"))
    assert allowed(judge, "raw__events")
    assert allowed(judge, "Raw__EVENTS")
    assert not allowed(judge, "raw__events__2024")
    assert not allowed(judge, "others")


@pytest.mark.parametrize(
    "more",
    [
        naming('"raw__*"'),
        naming("raw__event?"),
        naming('"{USER}"'),
        naming("raw__events", allow='[{users: ["{OWNER}"], access: [select]}]'),
        naming("raw__events", allow="[{groups: [readers], access: [promote]}]"),
        naming("raw__events").replace("lake", "other"),
        naming("raw__events").replace("allow", "deny"),
        naming("raw__events", allow="[{groups: [readers], access: [select]}]\n    enabled: false"),
    ],
)
def test_what_does_not_open_it(more: str) -> None:
    assert not allowed(engine(more), "raw__events")


def test_a_policy_that_leaves_it_out_by_its_name_does_not_open_it() -> None:
    found = load_packs({"p.yaml": PACK + naming("raw__events")}, DEFINITIONS).services["spark"]
    first, second = found.policies
    left_out = {**second.resources, "table": replace(second.resources["table"], excludes=True)}
    service = close_tables(replace(found, policies=(first, replace(second, resources=left_out))), [LAKE])
    assert all(not one.resources["table"].excludes for one in service.policies if one.is_closing)


def test_a_denial_or_a_mask_stays_where_it_opens() -> None:
    judge = engine(
        naming("raw__events").replace("allow", "deny").replace("of raw", "not raw") + naming("raw__events")
    )
    assert allowed(judge, "raw__events")
    assert not allowed(judge, "raw__events", group="readers")


def test_zones_are_closed_each_by_itself() -> None:
    of_lake = {"database": load_packs({"p.yaml": PACK + naming("raw__events")}, DEFINITIONS)}
    found = of_lake["database"].services["spark"]
    place: Mapping[str, Any] = {
        level: found.policies[1].resources[level] for level in ("catalog", "database")
    }
    zone = Zone(name="z", resources=(place,))
    everything = replace(found.policies[0], zone="z", id=77)
    service = replace(found, zones=(zone,), policies=(*found.policies, everything))
    part = Part(name="packs", services={"spark": service})
    judge = engine_for(combine((build_closing_part([LAKE]), part), 1, {"spark_catalog": "spark"}))
    assert not allowed(judge, "raw__events"), "the zone has no policy that names it"


def test_a_source_that_is_not_closed_goes_by_policies_alone() -> None:
    assert allowed(engine(source=replace(LAKE, closed=False)), "raw__events")


def test_a_service_without_denials_cannot_close() -> None:
    definition = replace(DEFINITIONS["spark"], deny_enabled=False)
    with pytest.raises(Faults, match=r"`lake` cannot be closed.*closed: false"):
        close_tables(Service(name="spark", definition=definition), [LAKE])


def test_what_is_closed_above_holds_nobody_from_promoting_what_is_open() -> None:
    judge = engine(naming("raw__events"))
    new, old = (Resource.table("spark_catalog", "lake", name) for name in ("raw__events", "raw"))
    assert not judge.guards_escaped(new, old)
    assert not judge.guards_escaped(
        new, replace(old, elements=(*new.elements[:2], ("table", "raw__events__"))), beginning=True
    )


def test_hives_policies_close_too() -> None:
    service = Service(name="hive", definition=DEFINITIONS["hive"])
    part = Part(name="r", services={"hive": service})
    policies = combine((part, build_closing_part([LAKE])), 1, {"spark_catalog": "hive"})
    (made,) = policies.services["hive"].policies
    assert set(made.resources) == {"database", "table"}
    judge = engine_for(policies)
    assert allowed(judge, "raw__events", user="alice", owner="alice")
    assert not allowed(judge, "raw__events")
