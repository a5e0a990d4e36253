"""What the engine tells beside yes and no: reasons, circumstances, explanations, the choice of a service."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.model.catalog import Column
from gateway.model.context import NO_CONTEXT, AccessContext
from gateway.model.policy import (
    AuditFilter,
    AuditRules,
    Condition,
    ConditionDef,
    FilterItem,
    MaskItem,
    Policy,
    PolicyItem,
    PolicySet,
    PolicyType,
    ResourceDef,
    ResourceSet,
    ResourceValues,
    Role,
    Service,
    ServiceDef,
    TaggedResource,
    UserStore,
    Zone,
)
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.model.tags import Tag, ValiditySchedule
from gateway.policy.caching import Memory
from gateway.policy.engine import Engine, engine_for
from tests.policy.scenarios import definitions

SPARK = replace(
    definitions()["spark"],
    conditions=(
        ConditionDef(name="ip-range", evaluator="RangerIpMatcher"),
        ConditionDef(name="action", evaluator="RangerActionMatcher"),
    ),
)
TAG = ServiceDef(
    name="tag",
    resources=(ResourceDef(name="tag", wildcard=False, ignore_case=False),),
    access_types=SPARK.access_types,
)
ANN = Principal(user="ann", groups=frozenset({"hr"}))
BOB = Principal(user="bob")
OFFICE, HOME = AccessContext(client_ip="10.1.7.7"), AccessContext(client_ip="192.0.2.1")
COLUMNS = (Column(name="id", type="int"), Column(name="ssn", type="string"))
SALARY = Resource.table("c", "hr", "salary")


def on(*values: str) -> ResourceSet:
    levels = ("catalog", "database", "table", "column")
    return {level: ResourceValues(values=(value,)) for level, value in zip(levels, values, strict=False)}


def item(
    users: tuple[str, ...] = (),
    groups: tuple[str, ...] = (),
    roles: tuple[str, ...] = (),
    access: tuple[str, ...] = ("select",),
    conditions: tuple[Condition, ...] = (),
) -> PolicyItem:
    return PolicyItem(
        users=frozenset(users),
        groups=frozenset(groups),
        roles=frozenset(roles),
        accesses=frozenset(access),
        conditions=conditions,
    )


def policy(ident: int, resources: ResourceSet, **fields: object) -> Policy:
    values: dict[str, object] = {"type": PolicyType.ACCESS, "name": f"p{ident}", "service": "spark"}
    return Policy(id=ident, resources=resources, **(values | fields))  # type: ignore[arg-type]


def policy_set(*policies: Policy, **fields: object) -> PolicySet:
    service = Service(name="spark", definition=SPARK, policies=policies)
    service = replace(service, **fields)  # type: ignore[arg-type]
    return PolicySet(version=1, services={"spark": service})


def ask(who: Principal, resource: Resource, access: str = "select", **fields: object) -> AccessRequest:
    return AccessRequest(principal=who, resource=resource, access=access, **fields)  # type: ignore[arg-type]


IN_OFFICE = (Condition(type="ip-range", values=("10.1.*",)),)
MOON = (Condition(type="full-moon"),)
EVERYTHING = policy(1, on("c", "hr", "*", "*"), allow=(item(groups=("public",)),))


def test_an_item_under_a_condition_counts_where_it_holds() -> None:
    engine = Engine(
        policy_set(policy(1, on("c", "hr", "*", "*"), allow=(item(("ann",), conditions=IN_OFFICE),)))
    )
    assert engine.decide(ask(ANN, SALARY, context=OFFICE)).allowed
    assert not engine.decide(ask(ANN, SALARY, context=HOME)).allowed
    assert engine.decide(ask(ANN, SALARY, context=HOME)).context_dependencies == {"client_ip"}
    assert engine.visible(ANN, SALARY, OFFICE)
    assert not engine.visible(ANN, SALARY, HOME)
    assert engine.visible(ANN, SALARY, OFFICE)


def test_a_list_of_tables_is_seen_as_each_of_them() -> None:
    engine = Engine(
        policy_set(
            policy(1, on("c", "hr", "*", "*"), allow=(item(("ann",), conditions=IN_OFFICE),)),
            policy(2, on("c", "hr", "open", "*"), allow=(item(("ann",)),)),
        )
    )
    hr = Resource.database("c", "hr")
    for _ in range(2):
        assert engine.visible_tables(ANN, hr, ["open", "people"], HOME) == b"\1\0"
        assert engine.visible_tables(ANN, hr, ["open", "people"], OFFICE) == b"\1\1"
    assert engine.visible_tables(ANN, hr, ["people", "open"], HOME) == b"\0\1"
    assert engine.visible_tables(ANN, hr, [], HOME) == b""
    assert engine.visible_tables(ANN, Resource.database("elsewhere", "hr"), ["open"], HOME) == b"\0"


def test_a_memory_holds_no_more_than_it_may() -> None:
    memory = Memory[str, int](10)
    memory.keep("a", 1, HOME, frozenset(), weight=6)
    memory.keep("b", 2, HOME, frozenset(), weight=4)
    assert (memory.find("a", HOME), memory.find("b", HOME)) == (1, 2)
    memory.keep("c", 3, HOME, frozenset())
    assert [memory.find(key, HOME) for key in "abc"] == [None, None, 3]


@pytest.mark.parametrize(
    ("changed", "allowed"),
    [
        ({"allow": (item(("ann",), conditions=MOON),)}, False),
        ({"allow": (item(("ann",)),), "conditions": MOON}, False),
        ({"allow": (item(("ann",)),), "allow_exceptions": (item(("ann",), conditions=MOON),)}, False),
        ({"deny": (item(("ann",), conditions=MOON),)}, False),
        ({"deny": (item(("ann",)),), "conditions": MOON}, False),
        ({"deny": (item(("ann",)),), "deny_exceptions": (item(("ann",), conditions=MOON),)}, False),
        ({"deny_all_else": True, "allow": (item(("ann",)),), "conditions": MOON}, False),
        ({"deny": (item(("ann",)),), "deny_exceptions": (item(("ann",)),), "conditions": MOON}, True),
    ],
)
def test_what_cannot_be_told_counts_against_access(changed: dict[str, object], allowed: bool) -> None:
    denies = "deny" in changed or "deny_all_else" in changed
    doubted = policy(2, on("c", "hr", "*", "*"), **changed)
    engine = Engine(policy_set(*([EVERYTHING] if denies else []), doubted))
    assert engine.decide(ask(ANN, SALARY)).allowed is allowed


def test_an_obligation_that_cannot_be_told_hides() -> None:
    who: dict[str, Any] = {
        "groups": frozenset({"public"}),
        "accesses": frozenset({"select"}),
        "conditions": MOON,
    }
    mask = MaskItem(**who, mask_type="MASK_NONE")
    rows = FilterItem(**who, filter_expression="")
    engine = Engine(
        policy_set(
            EVERYTHING,
            policy(2, on("c", "hr", "salary", "ssn"), type=PolicyType.MASK, masks=(mask,)),
            policy(3, on("c", "hr", "salary"), type=PolicyType.ROW_FILTER, filters=(rows,)),
        )
    )
    view = engine.table_view(ANN, SALARY, COLUMNS)
    assert view.masks["ssn"].expression == "CASE WHEN FALSE THEN `ssn` END"
    assert view.row_filter is not None
    assert view.row_filter.expression == "FALSE"


@pytest.mark.parametrize(
    ("name", "kind", "uniform"),
    [
        ("ssn", {"deny": ("ann",)}, False),
        ("gone", {"deny": ("ann",)}, False),
        ("gone", {"deny": ("bob",)}, True),
        ("*", {"deny": ("ann",)}, True),
        ("gone", {"mask": ("ann",)}, False),
        ("gone", {"mask": ("bob",)}, True),
        ("*", {"mask": ("ann",)}, True),
    ],
)
def test_columns_that_are_gone_are_seen_as_the_others_where_nothing_speaks_of_some_alone(
    name: str, kind: dict[str, tuple[str, ...]], uniform: bool
) -> None:
    ((what, users),) = kind.items()
    if what == "deny":
        second = policy(2, on("c", "hr", "salary", name), deny=(item(users),))
    else:
        mask = MaskItem(users=frozenset(users), accesses=frozenset({"select"}), mask_type="MASK_NULL")
        second = policy(2, on("c", "hr", "salary", name), type=PolicyType.MASK, masks=(mask,))
    view = Engine(policy_set(EVERYTHING, second)).table_view(ANN, SALARY, COLUMNS)
    assert view.uniform() is uniform


def test_a_schedule_needs_a_time_and_without_one_only_denials_count() -> None:
    january = ValiditySchedule(start=datetime(2026, 1, 1), end=datetime(2026, 1, 31))  # noqa: DTZ001
    within = AccessContext(time=datetime(2026, 1, 15, tzinfo=UTC))
    after = AccessContext(time=datetime(2026, 2, 15, tzinfo=UTC))
    for kind, expected in (("allow", (True, False, False)), ("deny", (False, True, False))):
        timed = policy(2, on("c", "hr", "*", "*"), schedules=(january,), **{kind: (item(("ann",)),)})
        engine = Engine(policy_set(*([EVERYTHING] if kind == "deny" else []), timed))
        got = [engine.decide(ask(ANN, SALARY, context=c)).allowed for c in (within, after, NO_CONTEXT)]
        assert tuple(got) == expected, kind


def test_a_view_is_used_again_only_where_nothing_differs_that_matters() -> None:
    engine = Engine(
        policy_set(policy(1, on("c", "hr", "*", "*"), allow=(item(("ann",), conditions=IN_OFFICE),)))
    )
    view = engine.table_view(ANN, SALARY, COLUMNS, context=OFFICE)
    assert view.context_dependencies == {"client_ip"}
    assert not view.hidden
    assert engine.table_view(ANN, SALARY, COLUMNS, context=HOME).hidden == {"id", "ssn"}
    again = replace(HOME, action="QUERY")
    assert engine.table_view(ANN, SALARY, COLUMNS, context=again).allowed["id"].request.context == again


def test_the_item_that_settled_it_is_told_in_the_order_of_the_list() -> None:
    items = (item(("zed",)), item(("ann",)), item(groups=("public",)))
    decision = Engine(policy_set(policy(1, on("c", "hr", "*", "*"), allow=items))).decide(ask(ANN, SALARY))
    assert decision.item == "allow[2]"  # Ranger asks the broadest first
    denied = policy(2, on("c", "hr", "salary", "*"), deny=(item(("zed",)), item(("ann",))))
    engine = Engine(policy_set(EVERYTHING, denied))
    assert engine.decide(ask(ANN, SALARY)).item == "deny[1]"
    assert engine.decide(ask(BOB, SALARY)).item == "allow[0]"


def test_several_accesses_are_one_of_each_group_and_every_group() -> None:
    engine = Engine(
        policy_set(policy(1, on("c", "hr", "*", "*"), allow=(item(("ann",), access=("select", "drop")),)))
    )
    request = ask(ANN, SALARY)
    for groups, allowed in (
        ([{"select", "update"}], True),
        ([{"select"}, {"update"}], False),
        ([{"select", "update"}, {"drop"}], True),
        ([{"update"}], False),
        ([{"select", "no such access"}], False),
    ):
        assert engine.decide_groups(request, [frozenset(g) for g in groups]).allowed is allowed, groups


def test_super_users_are_allowed_everything_and_see_everything() -> None:
    nobody = item(groups=("public",))
    mask = MaskItem(groups=frozenset({"public"}), accesses=frozenset({"select"}), mask_type="MASK_HASH")
    engine = Engine(
        policy_set(
            policy(1, on("c", "hr", "*", "*"), deny=(nobody,)),
            policy(2, on("c", "hr", "*", "ssn"), type=PolicyType.MASK, masks=(mask,)),
            super_users=frozenset({"root"}),
            super_groups=frozenset({"wheel"}),
        )
    )
    for who in (Principal(user="root"), Principal(user="x", groups=frozenset({"wheel"}))):
        decision = engine.decide(ask(who, SALARY))
        assert (decision.allowed, decision.policy.id, decision.reason) == (True, -1, "superuser")
        view = engine.table_view(who, SALARY, COLUMNS)
        assert (dict(view.masks), view.hidden) == ({}, frozenset())
    assert not engine.decide(ask(ANN, SALARY)).allowed


def tagged_set(*tag_policies: Policy, tag: Tag | None = None, **fields: object) -> PolicySet:
    tags = Service(name="tags", definition=TAG, policies=tag_policies)
    tagged = (TaggedResource(resources=on("c", "hr", "salary", "ssn"), tags=(tag or Tag(type="PII"),)),)
    return policy_set(EVERYTHING, tags=tags, tagged=tagged, **fields)


PII = {"tag": ResourceValues(values=("PII",))}


def test_tags_deny_mask_and_are_told() -> None:
    deny = policy(9, PII, deny=(item(("bob",)),))
    mask = MaskItem(groups=frozenset({"hr"}), accesses=frozenset({"select"}), mask_type="MASK_HASH")
    engine = Engine(tagged_set(deny, policy(10, PII, type=PolicyType.MASK, masks=(mask,))))
    ssn = SALARY.child("column", "ssn")
    decision = engine.decide(ask(BOB, ssn))
    assert (decision.allowed, decision.policy.id, decision.tag) == (False, 9, "PII")
    assert engine.table_view(BOB, SALARY, COLUMNS).hidden == {"ssn"}
    view = engine.table_view(ANN, SALARY, COLUMNS)
    assert list(view.masks) == ["ssn"]
    assert not view.hidden
    other = engine.decide(
        ask(BOB, SALARY.child("column", "id"), context=AccessContext(tags=(Tag(type="PII"),)))
    )
    assert not other.allowed
    assert other.context_dependencies == {"tags"}


def test_a_tag_that_holds_for_a_time_makes_the_answer_one_for_that_time() -> None:
    until = ValiditySchedule(end=datetime(2026, 1, 31))  # noqa: DTZ001
    deny = policy(9, PII, deny=(item(("bob",)),))
    engine = Engine(tagged_set(deny, tag=Tag(type="PII", validity=(until,))))
    early, late = (AccessContext(time=datetime(2026, month, 1, tzinfo=UTC)) for month in (1, 3))
    assert engine.table_view(BOB, SALARY, COLUMNS, context=early).hidden == {"ssn"}
    assert engine.table_view(BOB, SALARY, COLUMNS, context=late).hidden == set()
    assert engine.table_view(BOB, SALARY, COLUMNS).hidden == {"ssn"}
    assert "time" in engine.decide(ask(BOB, SALARY.child("column", "ssn"), context=late)).context_dependencies


def test_attributes_and_memberships_come_from_login_and_store() -> None:
    home = policy(1, on("c", "hr_${{USER.region}}", "*", "*"), allow=(item(groups=("staff",)),))
    found = replace(
        policy_set(home),
        users=UserStore(
            users={"bob": {"region": "emea"}, "ann": {"region": "emea"}},
            memberships={"bob": frozenset({"staff"}), "ann": frozenset({"staff"})},
            adds_groups=True,
        ),
    )
    engine = Engine(found)
    assert engine.decide(ask(BOB, Resource.table("c", "hr_emea", "t"))).allowed
    assert not engine.decide(ask(BOB, Resource.table("c", "hr_apac", "t"))).allowed
    moved = replace(ANN, attributes=(("region", "apac"),))
    assert engine.decide(ask(moved, Resource.table("c", "hr_apac", "t"))).allowed
    starred = replace(ANN, attributes=(("region", "*"),))
    assert not engine.decide(ask(starred, Resource.table("c", "hr_emea", "t"))).allowed


def test_a_resource_that_cannot_be_told_meets_every_denial_and_no_allowance() -> None:
    odd = on("c", "hr${{ no script }}", "*", "*")
    engine = Engine(policy_set(EVERYTHING, policy(2, odd, deny=(item(("bob",)),))))
    assert not engine.decide(ask(BOB, SALARY)).allowed
    assert engine.decide(ask(ANN, SALARY)).allowed
    assert not Engine(policy_set(policy(2, odd, allow=(item(("bob",)),)))).decide(ask(BOB, SALARY)).allowed


def test_the_service_is_the_catalogs_or_the_one_that_is_named() -> None:
    hive = Service(
        name="dev_hive",
        definition=definitions()["hive"],
        policies=(
            policy(
                1, on("c", "hr", "*", "*"), allow=(item(("ann",), access=("update",)),), service="dev_hive"
            ),
        ),
    )
    plain = {k: v for k, v in hive.policies[0].resources.items() if k != "catalog"}
    hive = replace(hive, policies=(replace(hive.policies[0], resources=plain),))
    found = PolicySet(
        version=1,
        services={"spark": Service(name="spark", definition=SPARK), "dev_hive": hive},
        catalog_services={"spark_catalog": "dev_hive"},
    )
    engine = Engine(found)
    table = Resource.table("spark_catalog", "hr", "salary")
    assert engine.decide(ask(ANN, table, "insert")).allowed  # hive calls it `update`
    assert engine.decide(ask(ANN, SALARY, "update")).reason == "no policy allows it"
    assert engine.decide(ask(ANN, Resource(SALARY.elements[1:]), "update", service="dev_hive")).allowed
    assert "service `x` does not exist" in engine.decide(ask(ANN, SALARY, service="x")).reason
    assert engine.table_view(ANN, table, COLUMNS, "insert").hidden == frozenset()


def test_audit_filters_come_before_the_flags_of_policies() -> None:
    quiet = replace(EVERYTHING, audited=False)
    rules = AuditRules(filters=(AuditFilter(audited=True, result="DENIED"),))
    engine = Engine(
        policy_set(quiet, policy(2, on("c", "hr"), deny=(item(("ann",), access=("drop",)),)), audit=rules)
    )
    assert not engine.decide(ask(ANN, SALARY)).audited
    assert engine.decide(ask(ANN, Resource.database("c", "hr"), "drop")).audited
    by_action = AuditRules(filters=(AuditFilter(audited=False, actions=frozenset({"META"})),))
    engine = Engine(policy_set(EVERYTHING, audit=by_action))
    decision = engine.decide(ask(ANN, SALARY, context=AccessContext(action="META")))
    assert not decision.audited
    assert decision.context_dependencies == {"action"}


def test_what_may_be_denied_below_a_database() -> None:
    database = Resource.database("c", "hr")
    for resources, expected in (
        (on("c", "hr", "salary", "*"), True),
        (on("c", "h*"), True),
        (on("c", "{USER}", "*"), True),
        (on("c", "shop", "*", "*"), False),
        (on("c"), False),
    ):
        engine = Engine(policy_set(EVERYTHING, policy(2, resources, deny=(item(("zed",)),))))
        assert engine.may_be_denied_below(database) is expected, resources
    assert not Engine(policy_set(EVERYTHING)).may_be_denied_below(database)
    assert Engine(tagged_set(policy(9, PII, deny=(item(("zed",)),)))).may_be_denied_below(database)
    assert not Engine(tagged_set(policy(9, PII, allow=(item(("zed",)),)))).may_be_denied_below(database)


@pytest.mark.parametrize(
    ("values", "name", "expected"),
    [
        (("hr",), "HR", True),
        (("h*",), "hr", True),
        (("h?",), "hr", True),
        (("[h]r",), "hr", False),
        (("[h]r",), "[h]r", True),
        (("sales",), "hr", False),
        (("{USER}",), "hr", True),
        ((), "hr", True),
    ],
)
def test_wildcards_of_a_denial_are_those_of_policies(
    values: tuple[str, ...], name: str, expected: bool
) -> None:
    resources = {"catalog": ResourceValues(values=("c",)), "database": ResourceValues(values=values)}
    engine = Engine(policy_set(policy(1, resources, deny=(item(("zed",)),))))
    assert engine.may_be_denied_below(Resource.database("c", name)) is expected


@pytest.mark.parametrize(
    ("value", "path", "allowed"),
    [
        ("s3://lake/in/secret", "s3://lake/in", False),
        ("s3://lake/in/secret", "s3://lake/in/", False),
        ("s3://lake/in/secret", "s3://lake/in/x", True),
        ("s3://lake/in/secret", "s3://lake/i", True),
        ("s3://lake/in/s*", "s3://lake/in/open", True),
        ("s3://lake/*/secret", "s3://lake/in", False),
        ("s3://lake/in/secret", "s3://lake/in/sec*", False),
        ("s3://lake/in/secret", "s3://lake/in/open*", True),
        ("s3://lake/${{USER.area}}/x", "s3://lake/in", False),
        ("s3://other/{USER}", "s3://lake/in", True),
        ("s3://lake//in/secret", "s3://lake/in/secrets", True),
        ("s3://lake//in/secret", "s3://lake/in", False),
    ],
)
def test_a_denial_below_a_path_that_is_read_counts(value: str, path: str, allowed: bool) -> None:
    def url(text: str) -> ResourceSet:
        return {"url": ResourceValues(values=(text,), recursive=True)}

    read = (item(("ann",), access=("read",)),)
    reads = policy(1, url("s3://lake"), allow=read, additional_resources=(url("s3://den"),))
    others = [policy(i, url(f"s3://den/{i}/x"), deny=read) for i in range(10, 60)]
    denial = policy(2, url(value), deny=read)
    older = policy_set(reads, *others)
    newer = policy_set(reads, *others[1:], denial)
    assert engine_for(older).decide(ask(ANN, Resource.url(path), "read")).allowed
    for engine in (Engine(newer), engine_for(newer, older)):
        assert engine.decide(ask(ANN, Resource.url(path), "read")).allowed is allowed
        assert engine.decide(ask(ANN, Resource.url("s3://den/10"), "read")).allowed
        assert not engine.decide(ask(ANN, Resource.url("s3://den/11"), "read")).allowed
        assert not engine.decide(ask(ANN, Resource.url("s3://den"), "read")).allowed
        assert engine.decide(ask(BOB, Resource.url(path), "read")).policy.id == -1


def test_an_engine_made_from_an_older_one_takes_over_what_is_the_same() -> None:
    older = policy_set(EVERYTHING, policy(2, on("c", "shop", "*", "*"), allow=(item(("bob",)),)))
    first = engine_for(older)
    same = PolicySet(version=2, services=older.services)
    assert engine_for(same, older)._services["spark"] is first._services["spark"]
    service = older.services["spark"]
    twins = replace(
        service, policies=(replace(EVERYTHING), replace(service.policies[1], deny=(item(("bob",)),)))
    )
    newer = PolicySet(version=3, services={"spark": twins})
    engine = engine_for(newer, older)
    assert engine.decide(ask(BOB, Resource.table("c", "shop", "t"))).policy.id == 2
    assert not engine.decide(ask(BOB, Resource.table("c", "shop", "t"))).allowed
    assert engine.decide(ask(BOB, SALARY)).allowed
    kept = engine._services["spark"].policy_index.compiled[id(twins.policies[0])][0]
    assert kept is first._services["spark"].policy_index.compiled[id(EVERYTHING)][0]
    least = PolicySet(version=4, services={"spark": replace(twins, policies=twins.policies[1:])})
    assert not engine_for(least, newer).decide(ask(BOB, SALARY)).allowed


def test_an_explanation_says_why_each_policy_did_not_settle_it() -> None:
    january = ValiditySchedule(start=datetime(2026, 1, 1), end=datetime(2026, 1, 31))  # noqa: DTZ001
    hr = on("c", "hr", "salary", "*")
    who = (item(("ann",)),)
    deny_bob = policy(30, PII, deny=(item(("bob",)),))
    secret = policy(31, {"tag": ResourceValues(values=("SECRET",))}, deny=(item(("ann",)),))
    policies = {
        10: (policy(10, hr, allow=who, enabled=False), "it is disabled"),
        11: (policy(11, hr, allow=who, schedules=(january,)), "it is outside of its validity schedule"),
        12: (
            policy(12, hr, allow=who, zone="vault"),
            "it belongs to zone `vault`, and the policies of no zone apply",
        ),
        13: (
            policy(13, on("c", "shop", "*", "*"), allow=who),
            "its resources do not match: database is hr, not shop",
        ),
        14: (
            policy(14, on("c", "hr"), allow=who),
            "its resources do not match: it covers the database itself, not what is in it",
        ),
        15: (policy(15, hr, allow=who, conditions=IN_OFFICE), "its condition `ip-range` is false"),
        16: (
            policy(16, hr, allow=who, conditions=MOON),
            "its condition `full-moon` is indeterminate, which counts against access",
        ),
        17: (
            policy(17, hr, allow=(item(("zed",)),)),
            "no item names user ann or a group or role of theirs; they name user zed",
        ),
        18: (
            policy(18, hr, allow=(item(("ann",), access=("drop",)),)),
            "no item for user ann lists `select`",
        ),
        19: (policy(19, hr, allow=who, allow_exceptions=who), "its own exception applies"),
        20: (policy(20, hr, allow=who), "policy `p24` of higher priority overrides it"),
        24: (policy(24, hr, allow=who, priority=1), "its `allow[0]` allows it"),
        25: (policy(25, hr, allow=who, priority=1), "policy `p24` came earlier and decided"),
        26: (
            policy(26, {"table": ResourceValues(values=("f",))}, allow=who),
            "its resources do not match: table by itself is nothing that access is granted on",
        ),
        27: (
            policy(27, {"setting": ResourceValues(values=("f",))}, allow=who),
            "its resources do not match: it covers settings, not columns",
        ),
    }
    found = tagged_set(deny_bob, secret)
    vault = Zone(name="vault", resources=(on("c", "vault"),))
    service = replace(
        found.services["spark"], policies=tuple(p for p, _ in policies.values()), zones=(vault,)
    )
    engine = Engine(
        replace(found, services={"spark": service}, roles=(Role(name="r", users=frozenset({"ann"})),))
    )
    context = replace(HOME, time=datetime(2026, 5, 1, tzinfo=UTC))
    told = engine.explain(ask(ANN, SALARY.child("column", "ssn"), context=context))
    why = {one.policy.id: one.why for one in told.considered}
    assert {ident: text for ident, (_, text) in policies.items()} == {k: v for k, v in why.items() if k < 30}
    assert why[30] == "no item names user ann or a group or role of theirs; they name user bob"
    assert why[31] == "the resource has no tag `SECRET`"
    assert [one.policy.id for one in told.considered if one.settled] == [24]
    assert told.decision.policy.id == 24
    assert told.roles == {"r"}
    assert [tag.type for tag in told.tags] == ["PII"]


def test_an_explanation_of_a_denial_says_that_denials_win() -> None:
    denied = policy(2, on("c", "hr", "salary", "*"), deny=(item(("ann",)),))
    mask = MaskItem(groups=frozenset({"public"}), accesses=frozenset({"select"}), mask_type="MASK_HASH")
    on_ssn = on("c", "hr", "salary", "ssn")
    masks = (
        policy(3, on_ssn, type=PolicyType.MASK, masks=(mask,), name="a"),
        policy(4, on_ssn, type=PolicyType.MASK, masks=(mask,), name="b"),
    )
    told = Engine(policy_set(EVERYTHING, denied, *masks)).explain(ask(ANN, SALARY.child("column", "ssn")))
    why = {one.policy.id: one.why for one in told.considered}
    assert why == {
        1: "a denial wins, that of policy `p2`",
        2: "its `deny[0]` denies it",
        3: "its `mask[0]` matches",
        4: "policy `a` came earlier and decided",
    }
    assert told.mask is not None
    assert told.row_filter is None
