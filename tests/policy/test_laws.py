"""Laws of the engine on generated policies: the index loses nothing, nothing is allowed by itself.

Policies come from a seed, not from hypothesis' own choices: a set of 24 is hundreds of choices, and drawing
them one by one costs a hundred times what the engine does. A failure names its seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.model.catalog import Column
from gateway.model.policy import (
    FilterItem,
    MaskItem,
    Policy,
    PolicyItem,
    PolicySet,
    PolicyType,
    ResourceSet,
    ResourceValues,
    Role,
)
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.compiled import evaluation_score
from gateway.policy.engine import Engine
from gateway.policy.masks import MASK_TYPES
from tests.policy.linear import Linear
from tests.policy.scenarios import definitions

DEFINITION = definitions()["spark"]
LEVELS = ("catalog", "database", "table", "column")
ACCESSES = ("select", "insert", "drop", "use", "all")
USERS = ("ann", "bob", "a*")
GROUPS = ("g", "h")
ROLES = ("r", "s", "t")
SELECT = frozenset({"select"})
seeds = st.integers(0, 2**32)
NAMES = ("a", "b", "ab", "A", "ann", "x_ann")

VALUES = ("*", "a", "b", "A", "a*", "?", "*b", "{USER}", "x_{USER}", "x*{OWNER}", "ab")


class Maker(Random):
    """Makes policies, principals and resources from a seed, out of few names so that they meet often."""

    def some(self, options: Sequence[str], least: int = 0, most: int = 2) -> frozenset[str]:
        return frozenset(self.sample(options, self.randint(least, most)))

    def one_in(self, n: int) -> bool:
        return self.randrange(n) == 0

    def resource_set(self, least: int = 1, most: int = 4) -> ResourceSet:
        way = LEVELS[: self.randint(least, most)]
        if least == 1 and self.one_in(10):
            name = self.choice(("udf", "procedure", "setting"))
            way = {"udf": ("catalog", "database"), "procedure": ("catalog",), "setting": ()}[name] + (name,)
        values = {level: tuple(sorted(self.some(VALUES, 1, 3))) for level in way}
        return {level: ResourceValues(values=v, excludes=self.one_in(6)) for level, v in values.items()}

    def who(self) -> dict[str, frozenset[str]]:
        return {
            "users": self.some((*USERS, "{USER}", "{OWNER}")),
            "groups": self.some((*GROUPS, "public")),
            "roles": self.some(ROLES),
        }

    def item(self) -> PolicyItem:
        who = self.who()
        accesses = self.some(ACCESSES, 1)
        return PolicyItem(**who, accesses=accesses)  # type: ignore[arg-type]

    def items(self) -> tuple[PolicyItem, ...]:
        return tuple(self.item() for _ in range(self.randint(0, 2)))

    def mask_item(self) -> MaskItem:
        mask_type = self.choice(MASK_TYPES[:6])
        return MaskItem(**self.who(), accesses=SELECT, mask_type=mask_type)  # type: ignore[arg-type]

    def filter_item(self) -> FilterItem:
        text = self.choice(("", "x = 1", "y = 2"))
        return FilterItem(**self.who(), accesses=SELECT, filter_expression=text)  # type: ignore[arg-type]

    def policy(self, ident: int) -> Policy:
        type_ = self.choice((PolicyType.ACCESS, PolicyType.ACCESS, PolicyType.MASK, PolicyType.ROW_FILTER))
        least = {PolicyType.ACCESS: 1, PolicyType.MASK: 4, PolicyType.ROW_FILTER: 3}[type_]
        most = 3 if type_ is PolicyType.ROW_FILTER else 4
        sets = [self.resource_set(least, most) for _ in range(self.randint(1, 2))]
        policy = Policy(
            id=ident,
            name=f"p{self.randint(0, 9)}",
            service="spark",
            type=type_,
            resources=sets[0],
            additional_resources=tuple(sets[1:]),
            priority=self.randint(0, 1),
            enabled=not self.one_in(10),
        )
        if type_ is PolicyType.MASK:
            return replace(policy, masks=tuple(self.mask_item() for _ in range(self.randint(1, 3))))
        if type_ is PolicyType.ROW_FILTER:
            return replace(policy, filters=tuple(self.filter_item() for _ in range(self.randint(1, 3))))
        deny = self.items()
        return replace(
            policy,
            allow=self.items(),
            deny=deny,
            allow_exceptions=self.items(),
            deny_exceptions=self.items(),
            deny_all_else=not deny and self.one_in(6),
        )

    def policy_set(self, most: int = 24) -> PolicySet:
        roles = [
            Role(
                name=n,
                users=self.some(USERS),
                groups=self.some((*GROUPS, "public"), 0, 1),
                roles=self.some(ROLES),
            )
            for n in self.some(ROLES, 0, 3)
        ]
        return PolicySet(
            version=1,
            service_defs={"spark": DEFINITION},
            policies=tuple(self.policy(i) for i in range(self.randint(0, most))),
            roles=tuple(roles),
        )

    def principal(self) -> Principal:
        roles = frozenset({"s"}) if self.one_in(4) else frozenset[str]()
        return Principal(user=self.choice(USERS), groups=self.some(GROUPS), roles=roles)

    def resource(self) -> Resource:
        owner = self.choice((None, None, *USERS))
        if self.one_in(10):
            return Resource((("setting", self.choice(NAMES)),), owner)
        way = LEVELS[: self.randint(0, 4)]
        return Resource(tuple((level, self.choice((*NAMES, "*"))) for level in way), owner)


def order(found: PolicySet) -> list[int]:
    """Ranger's order, from its own score; the score has its own test."""
    return [
        policy.id
        for policy in sorted(
            found.policies,
            key=lambda p: (
                -p.priority,
                not (p.deny or p.deny_all_else),
                evaluation_score(p, DEFINITION),
                p.name,
                p.id,
            ),
        )
    ]


@settings(max_examples=120, deadline=None)
@given(seeds)
def test_the_index_answers_like_the_plain_reading(seed: int) -> None:
    maker = Maker(seed)
    found = maker.policy_set()
    engine, linear, ranks = Engine(found), Linear(found, "spark"), order(found)
    for _ in range(8):
        principal, resource = maker.principal(), maker.resource()
        for access in ACCESSES:
            request = AccessRequest(principal=principal, resource=resource, access=access)
            assert engine.decide(request).allowed == linear.allowed(principal, resource, access)
        assert engine.visible(principal, resource) == linear.visible(principal, resource)
        if resource.kind == "column":
            mask = engine.mask(principal, resource, "string")
            item = linear.obligation(PolicyType.MASK, principal, resource, ranks)
            expected = item.mask_type if isinstance(item, MaskItem) else "MASK_NONE"
            assert (mask.mask_type if mask else "MASK_NONE") == expected
        if resource.kind == "table":
            row_filter = engine.row_filter(principal, resource)
            item = linear.obligation(PolicyType.ROW_FILTER, principal, resource, ranks)
            expected = item.filter_expression if isinstance(item, FilterItem) else ""
            assert (row_filter.expression if row_filter else "") == expected
            check_view(engine, principal, resource)


def check_view(engine: Engine, principal: Principal, table: Resource) -> None:
    columns = tuple(Column(name=name, type="string") for name in NAMES)
    view = engine.table_view(principal, table, columns)
    for column in columns:
        resource = table.child("column", column.name)
        request = AccessRequest(principal=principal, resource=resource, access="select")
        assert view.allowed[column.name] == engine.decide(request)
        assert view.masks.get(column.name) == engine.mask(principal, resource, "string")
    assert view.row_filter == engine.row_filter(principal, table)
    assert engine.table_view(principal, table, columns) is view


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_the_index_answers_alike_when_its_files_are_full(seed: int) -> None:
    """Many policies on the same few resources, so that files are split by principal."""
    maker = Maker(seed)
    on = {level: ResourceValues(values=("a",)) for level in LEVELS[:3]} | {
        "column": ResourceValues(values=("*",))
    }
    plain = Policy(id=0, name="p", service="spark", type=PolicyType.ACCESS, resources=on)
    drawn = [maker.item() for _ in range(maker.randint(30, 60))]
    found = PolicySet(
        version=1,
        service_defs={"spark": DEFINITION},
        policies=tuple(
            replace(plain, id=i, priority=i % 2, deny=(item,))
            if maker.one_in(3)
            else replace(plain, id=i, priority=i % 2, allow=(item,))
            for i, item in enumerate(drawn)
        ),
        roles=(Role(name="r", users=frozenset({"ann"})),),
    )
    engine, linear = Engine(found), Linear(found, "spark")
    table = Resource.table("a", "a", "a", owner=maker.choice((None, *USERS)))
    for user in USERS:
        principal = Principal(user=user, groups=maker.some(GROUPS))
        for resource in (table, table.child("column", "b"), Resource(table.elements[:2])):
            for access in ACCESSES:
                request = AccessRequest(principal=principal, resource=resource, access=access)
                assert engine.decide(request).allowed == linear.allowed(principal, resource, access)
            assert engine.visible(principal, resource) == linear.visible(principal, resource)


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_nothing_is_allowed_but_by_a_policy_that_says_so(seed: int) -> None:
    maker = Maker(seed)
    found, principal, resource = maker.policy_set(), maker.principal(), maker.resource()
    engine = Engine(found)
    silent = Engine(replace(found, policies=tuple(replace(p, allow=()) for p in found.policies)))
    empty = Engine(replace(found, policies=()))
    by_id = {policy.id: policy for policy in found.policies}
    for access in ACCESSES:
        request = AccessRequest(principal=principal, resource=resource, access=access)
        decision = engine.decide(request)
        assert not decision.allowed or by_id[decision.policy.id].allow
        assert not silent.decide(request).allowed
        assert not empty.decide(request).allowed
    assert not silent.visible(principal, resource)
    assert not empty.visible(principal, resource)


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_another_denial_never_allows_more(seed: int) -> None:
    maker = Maker(seed)
    found = maker.policy_set()
    denial = replace(
        maker.policy(999), type=PolicyType.ACCESS, allow=(), deny=(maker.item(),), masks=(), filters=()
    )
    before, after = Engine(found), Engine(replace(found, policies=(*found.policies, denial)))
    for _ in range(6):
        principal, resource = maker.principal(), maker.resource()
        for access in ACCESSES:
            request = AccessRequest(principal=principal, resource=resource, access=access)
            assert after.decide(request).allowed <= before.decide(request).allowed
        assert after.visible(principal, resource) <= before.visible(principal, resource)
