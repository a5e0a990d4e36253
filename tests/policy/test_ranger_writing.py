"""What is written as Ranger's JSON and read again is what it was."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.model.policy import (
    AuditFilter,
    AuditRules,
    Condition,
    FilterItem,
    MaskItem,
    Policy,
    PolicyItem,
    PolicyType,
    ResourceValues,
    Role,
    Service,
    ServiceDef,
    TaggedResource,
    Zone,
)
from gateway.model.tags import Recurrence, Tag, ValiditySchedule
from gateway.policy.diagnostics import Diagnostics
from gateway.policy.json_shapes import Reader
from gateway.policy.ranger import Converter, load, roles_of, write, write_definition, write_roles
from gateway.policy.ranger.tags import tag_definition
from gateway.policy.schedules import is_sound
from gateway.policy.service_defs import read_service_def
from tests.effort import tries
from tests.policy.ranger_cases import World, worlds
from tests.policy.ranger_data import shipped

HIVE: ServiceDef = shipped()["hive"]
TAG = tag_definition(shipped()["tag"], HIVE)
LEVELS = (
    ("database",),
    ("database", "table"),
    ("database", "table", "column"),
    ("database", "udf"),
    ("url",),
)

names = st.text("abcXYZ019_-é", min_size=1, max_size=6)
name_sets = st.frozensets(names, max_size=3)
accesses = st.frozensets(st.sampled_from([a.name for a in HIVE.access_types] + ["_read", "_all"]), max_size=4)
texts = st.text("abc d'\"{}é%*?", max_size=12)
values = st.builds(
    ResourceValues,
    values=st.lists(
        st.sampled_from(["*", "a*", "b?", "shop", "{USER}", "${{USER.dept}}"]), min_size=1, max_size=3
    ).map(tuple),
    excludes=st.booleans(),
    recursive=st.booleans(),
)
conditions = st.lists(
    st.builds(
        Condition,
        type=st.just("_expression"),
        values=st.sampled_from([("USER.dept == 'hr'",), ("IS_IN_GROUP('eng')",)]),
    ),
    max_size=2,
).map(tuple)
who = {"users": name_sets, "groups": name_sets, "roles": name_sets, "conditions": conditions}
items = st.lists(
    st.builds(PolicyItem, **who, accesses=accesses, delegate_admin=st.booleans()), max_size=2
).map(tuple)
masks = st.lists(
    st.builds(
        MaskItem,
        **who,
        accesses=accesses,
        mask_type=st.sampled_from(["MASK", "MASK_NONE", "CUSTOM", "SHUFFLE"]),
        value_expression=st.sampled_from([None, "upper({col})"]),
        condition_expression=st.none() | texts.filter(bool),
    ),
    max_size=2,
).map(tuple)
filters = st.lists(
    st.builds(
        FilterItem,
        **who,
        accesses=accesses,
        filter_expression=st.sampled_from(["", "a = 1", "dept = '${{USER.dept}}'"]),
    ),
    max_size=2,
).map(tuple)
moments = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)).map(  # noqa: DTZ001  # wall clock
    lambda moment: moment.replace(microsecond=0)
)
recurrences = st.builds(
    Recurrence,
    minute=st.just("0"),
    hour=st.sampled_from(["*", "9", "9-17"]),
    day_of_month=st.sampled_from(["", "1,15"]),
    day_of_week=st.sampled_from(["*", "2-6"]),
    interval_minutes=st.integers(1, 10_000),
)
schedules = st.lists(
    st.builds(
        ValiditySchedule,
        start=st.none() | moments,
        end=st.none() | moments,
        zone=st.sampled_from(["GMT", "Europe/Paris"]),
        recurrences=st.lists(recurrences, max_size=2).map(tuple),
    ).map(lambda found: replace(found, invalid=not is_sound(found))),
    max_size=2,
).map(tuple)


def resource_sets(ways: tuple[tuple[str, ...], ...]) -> st.SearchStrategy[Any]:
    return st.sampled_from(ways).flatmap(lambda way: st.fixed_dictionaries(dict.fromkeys(way, values)))


@st.composite
def policies(draw: st.DrawFn, service: str, zones: list[str], ways: Any = LEVELS) -> Policy:
    type_ = draw(st.sampled_from(PolicyType))
    access = type_ is PolicyType.ACCESS
    return Policy(
        id=0,
        name=draw(names),
        service=service,
        type=type_,
        resources=draw(resource_sets(ways)),
        version=draw(st.integers(1, 99)),
        additional_resources=tuple(draw(st.lists(resource_sets(ways), max_size=1))),
        enabled=draw(st.booleans()),
        priority=draw(st.integers(0, 1)),
        allow=draw(items) if access else (),
        deny=draw(items) if access else (),
        allow_exceptions=draw(items) if access else (),
        deny_exceptions=draw(items) if access else (),
        masks=draw(masks) if type_ is PolicyType.MASK else (),
        filters=draw(filters) if type_ is PolicyType.ROW_FILTER else (),
        conditions=draw(conditions),
        deny_all_else=draw(st.booleans()),
        schedules=draw(schedules),
        zone=draw(st.sampled_from(["", *zones])),
        labels=tuple(draw(st.lists(names, max_size=2))),
        audited=draw(st.booleans()) or service == "tags",
        description=draw(texts),
        guid=draw(st.sampled_from(["", "g"])),
    )


def numbered(found: list[Policy], first: int) -> tuple[Policy, ...]:
    """Return the policies with ids, in the order in which a download holds them."""
    ordered = sorted(found, key=lambda p: p.zone) if first == 1 else found
    copies = ({f.name: getattr(p, f.name) for f in fields(p)} for p in ordered)
    return tuple(Policy(**(copy | {"id": i})) for i, copy in enumerate(copies, first))


zone_resources = st.lists(
    st.fixed_dictionaries({"database": st.builds(ResourceValues, values=st.just(("hr", "pay*")))}), min_size=1
).map(tuple)
audit_filters = st.lists(
    st.builds(
        AuditFilter,
        audited=st.booleans(),
        result=st.sampled_from(["", "DENIED"]),
        resources=st.just({}) | resource_sets(LEVELS),
        accesses=st.frozensets(st.sampled_from(["select", "drop"])),
        actions=st.frozensets(texts.filter(str.strip), max_size=2),
        users=name_sets,
    ),
    max_size=2,
).map(tuple)


@st.composite
def services(draw: st.DrawFn) -> Service:
    zones = draw(st.lists(st.sampled_from(["za", "zb"]), unique=True).map(sorted))
    tag_service = None
    tag_filters = draw(audit_filters)
    if draw(st.booleans()):
        on_tags = draw(st.lists(policies("tags", zones, (("tag",),)), max_size=2))
        tag_service = Service(
            name="tags",
            definition=TAG,
            policies=numbered(on_tags, 100),
            version=3,
            audit=AuditRules(filters=tag_filters),
        )
    tags = st.builds(
        Tag,
        type=names,
        attributes=st.dictionaries(names, texts, max_size=2),
        owner=st.integers(0, 1),
        validity=schedules,
    )
    tagged = draw(
        st.lists(st.tuples(resource_sets(LEVELS), st.lists(tags, min_size=1, max_size=2)), max_size=2)
    )
    return Service(
        name="dev",
        definition=HIVE,
        policies=numbered(draw(st.lists(policies("dev", zones), max_size=4)), 1),
        version=draw(st.integers(-1, 9)),
        zones=tuple(
            Zone(name=z, resources=draw(zone_resources), governs_tags=draw(st.booleans())) for z in zones
        ),
        tags=tag_service,
        tagged=tuple(
            TaggedResource(resources=on, tags=tuple(found), id=i) for i, (on, found) in enumerate(tagged, 1)
        ),
        super_users=draw(name_sets),
        super_groups=draw(name_sets),
        audit=AuditRules(
            mode=draw(st.sampled_from(["audit-default", "audit-all", "audit-none"])),
            filters=(*(tag_filters if tag_service else ()), *draw(audit_filters)),
            excluded_users=draw(name_sets),
        ),
    )


def spelled(service: Service) -> dict[str, Any]:
    """Return everything that two services are compared by; services themselves compare by identity."""
    found = {f.name: getattr(service, f.name) for f in fields(service) if f.name not in ("tags", "audit")}
    found["audit"] = {f.name: getattr(service.audit, f.name) for f in fields(service.audit)}
    found["tags"] = None if service.tags is None else spelled(service.tags)
    if service.name == "tags":
        del found["definition"]
    return found


@settings(max_examples=tries(150), deadline=None)
@given(services())
def test_a_service_comes_back(service: Service) -> None:
    written = write(service)
    assert json.loads(json.dumps(written)) == written
    again = Converter().service(written).service
    assert spelled(again) == spelled(service)


@pytest.mark.parametrize("name", ["hive", "spark", "tag"])
def test_a_definition_comes_back(name: str) -> None:
    findings = Diagnostics()
    written = write_definition(shipped()[name])
    again = read_service_def(written, Reader(findings), (), strict=True)
    assert not findings.texts()
    assert again == shipped()[name]


def test_the_rarer_options_come_back() -> None:
    level = {
        "name": "topic",
        "matcher": "org.apache.ranger.plugin.resourcematcher.RangerPathResourceMatcher",
        "matcherOptions": {
            "pathSeparatorChar": ".",
            "quotedCaseSensitive": True,
            "quoteChars": "'\"",
            "replaceTokens": "false",
            "tokenDelimiterStart": "<",
            "tokenDelimiterEnd": ">",
            "tokenDelimiterPrefix": "$",
            "replaceReqExpressions": False,
        },
    }
    raw = {"name": "x", "resources": [level], "options": {"enableDenyAndExceptionsInPolicies": "false"}}
    reader = Reader(Diagnostics())
    found = read_service_def(raw, reader, (), strict=True)
    (topic,) = found.resources
    assert (topic.separator, topic.quote_characters, topic.token_marks) == (".", "'\"", ("<", ">", "\\", "$"))
    assert (topic.replaces_tokens, topic.replaces_expressions, found.deny_enabled) == (False, False, False)
    assert read_service_def(write_definition(found), reader, (), strict=True) == found


def test_the_definition_of_a_tag_service_gets_its_prefix_back() -> None:
    tags = Service(name="tags", definition=TAG)
    written = write(Service(name="dev", definition=HIVE, tags=tags))["tagPolicies"]["serviceDef"]
    assert {access["name"] for access in written["accessTypes"]} == {
        f"hive:{a.name}" for a in HIVE.access_types
    }
    assert "hive:MASK_NULL" in {mask["name"] for mask in written["dataMaskDef"]["maskTypes"]}
    loaded = load(write(Service(name="dev", definition=HIVE, tags=tags)))
    assert not loaded.warnings
    again = loaded.services["dev"].tags
    assert again is not None
    assert again.definition.access_types == TAG.access_types
    assert again.definition.mask_types == TAG.mask_types
    assert again.definition.conditions == TAG.conditions


@given(
    st.lists(st.builds(Role, name=names, users=name_sets, groups=name_sets), unique_by=lambda role: role.name)
)
def test_roles_come_back(roles: list[Role]) -> None:
    assert roles_of(write_roles(roles)) == tuple(roles)


def test_a_schedule_that_could_not_be_read_stays_so() -> None:
    policy = Policy(
        id=1,
        name="p",
        service="dev",
        type=PolicyType.ACCESS,
        resources={"database": ResourceValues(values=("a",))},
        schedules=(ValiditySchedule(invalid=True), ValiditySchedule(zone="Nowhere", invalid=True)),
    )
    found = load(write(Service(name="dev", definition=HIVE, policies=(policy,))))
    (again,) = found.services["dev"].policies
    assert [schedule.invalid for schedule in again.schedules] == [True, True]


SHARED = [world for world in worlds() if "gdsInfo" in world.data]


@pytest.mark.parametrize("world", [pytest.param(world, id=world.name) for world in SHARED])
def test_data_sharing_read_again_is_what_it_was(world: World) -> None:
    (service,) = world.policies.services.values()
    again = load(json.loads(json.dumps(write(service))))
    assert again.services[service.name].sharing == service.sharing is not None
