"""Laws of the engine on generated policies: the index loses nothing, nothing is allowed by itself.

Policies come from a seed, not from hypothesis' own choices: a set of 24 is hundreds of choices, and drawing
them one by one costs a hundred times what the engine does. A failure names its seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.model.catalog import Column
from gateway.model.context import NO_CONTEXT, AccessContext
from gateway.model.decision import ColumnMask, RowFilter
from gateway.model.policy import (
    AccessTypeDef,
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
from gateway.model.resource import ANY_ACCESS, AccessRequest, Resource, Scope
from gateway.model.tags import Tag, ValiditySchedule
from gateway.policy.compiled import evaluation_score
from gateway.policy.engine import Engine
from gateway.policy.masks import MASK_TYPES
from tests.effort import tries
from tests.policy.linear import Linear, Means
from tests.policy.scenarios import definitions

CONDITIONS = (
    ConditionDef(name="action", evaluator="org.apache.ranger.plugin.conditionevaluator.RangerActionMatcher"),
    ConditionDef(
        name="cluster",
        evaluator="org.apache.ranger.plugin.conditionevaluator.RangerAccessedFromClusterCondition",
    ),
)
MEANS: Means = {
    "action": lambda condition, context: context.action in condition.values,
    "cluster": lambda condition, context: context.cluster in condition.values,
}
"""Two conditions that anybody can tell; a third type, `moon`, nobody knows."""
MARKERS = (
    AccessTypeDef(name="_READ", implied=frozenset({"select", "use"})),
    AccessTypeDef(name="_ALL", implied=frozenset(a.name for a in definitions()["spark"].access_types)),
)
DEFINITION = replace(definitions()["spark"], conditions=CONDITIONS, markers=MARKERS)
LENIENT = replace(DEFINITION, deny_enabled=False)
TAGS = ServiceDef(
    name="tag",
    resources=(ResourceDef(name="tag", wildcard=False, ignore_case=False),),
    access_types=DEFINITION.access_types,
    conditions=CONDITIONS,
)
LEVELS = ("catalog", "database", "table", "column")
ACCESSES = ("select", "insert", "drop", "use", "all", "_admin")
USERS = ("ann", "bob", "a*")
GROUPS = ("g", "h")
ROLES = ("r", "s", "t")
TAG_TYPES = ("PII", "pii", "SECRET")
SELECT = frozenset({"select"})
seeds = st.integers(0, 2**32)
NAMES = ("a", "b", "ab", "A", "ann", "x_ann")

VALUES = ("*", "a", "b", "A", "a*", "?", "*b", "**?", "{USER}", "x_{USER}", "x*{OWNER}", "ab")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NIGHT, MORNING = NOON.replace(hour=23), NOON.replace(hour=1)


class Maker(Random):
    """Makes policies, principals and resources from a seed, out of few names so that they meet often."""

    circumstantial = True
    """Whether conditions, schedules, tags and zones are made too."""

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

    def plain_set(self) -> ResourceSet:
        way = LEVELS[: self.randint(1, 4)]
        return {level: ResourceValues(values=tuple(sorted(self.some(("*", "a", "b"), 1)))) for level in way}

    def who(self) -> dict[str, Any]:
        return {
            "users": self.some((*USERS, "{USER}", "{OWNER}")),
            "groups": self.some((*GROUPS, "public")),
            "roles": self.some(ROLES),
        }

    def conditions(self) -> tuple[Condition, ...]:
        if not self.circumstantial or not self.one_in(5):
            return ()
        type_ = self.choice(("action", "action", "cluster", "moon"))
        return (Condition(type=type_, values=(self.choice(("read", "write")),)),)

    def schedules(self) -> tuple[ValiditySchedule, ...]:
        if not self.circumstantial or not self.one_in(6):
            return ()
        noon, morning = NOON.replace(tzinfo=None), MORNING.replace(tzinfo=None)
        periods = (
            ValiditySchedule(start=noon),
            ValiditySchedule(start=morning, end=noon),
            ValiditySchedule(end=morning, invalid=True),
        )
        return tuple(self.sample(periods, self.choice((1, 1, 2))))

    def item(self) -> PolicyItem:
        accesses = self.some((*ACCESSES[:-1], "_READ", "_ALL"), 1)
        return PolicyItem(
            **self.who(),
            accesses=accesses,
            conditions=self.conditions(),
            delegate_admin=self.one_in(4),
        )

    def items(self) -> tuple[PolicyItem, ...]:
        return tuple(self.item() for _ in range(self.randint(0, 2)))

    def mask_item(self) -> MaskItem:
        mask_type = self.choice(MASK_TYPES[:-1])
        return MaskItem(**self.who(), accesses=SELECT, mask_type=mask_type, conditions=self.conditions())

    def filter_item(self) -> FilterItem:
        text = self.choice(("", "x = 1", "y = 2"))
        return FilterItem(**self.who(), accesses=SELECT, filter_expression=text, conditions=self.conditions())

    def policy(self, ident: int, *, on_tags: bool = False) -> Policy:
        type_ = self.choice((PolicyType.ACCESS, PolicyType.ACCESS, PolicyType.MASK, PolicyType.ROW_FILTER))
        least = {PolicyType.ACCESS: 1, PolicyType.MASK: 4, PolicyType.ROW_FILTER: 3}[type_]
        most = 3 if type_ is PolicyType.ROW_FILTER else 4
        sets = [self.resource_set(least, most) for _ in range(self.randint(1, 2))]
        if on_tags:
            sets = [{"tag": ResourceValues(values=tuple(self.some(TAG_TYPES, 1)))}]
        policy = Policy(
            id=ident,
            name=f"p{self.randint(0, 9)}",
            service="spark",
            type=type_,
            resources=sets[0],
            additional_resources=tuple(sets[1:]),
            priority=self.randint(0, 1),
            enabled=not self.one_in(10),
            conditions=self.conditions(),
            schedules=self.schedules(),
            zone=self.choice(("", "", "y", "z")) if self.circumstantial else "",
            audited=not self.one_in(3),
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

    def tag(self) -> Tag:
        return Tag(type=self.choice(TAG_TYPES), validity=self.schedules())

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
        policies = tuple(self.policy(i) for i in range(self.randint(0, most)))
        service = Service(name="spark", definition=DEFINITION, policies=policies)
        users = UserStore()
        if self.circumstantial:
            service = self.circumstances(service)
            users = UserStore(memberships={"bob": frozenset({"h"})}, adds_groups=self.one_in(2))
        return PolicySet(version=1, services={"spark": service}, roles=tuple(roles), users=users)

    def circumstances(self, service: Service) -> Service:
        zones, tags, tagged = list[Zone](), None, tuple[TaggedResource, ...]()
        if self.one_in(2):
            zones = [
                Zone(name=name, resources=(self.plain_set(),), governs_tags=self.one_in(2))
                for name in ("y", "z")[: self.randint(1, 2)]
            ]
        if self.one_in(2):
            tagged = tuple(
                TaggedResource(resources=self.resource_set(), tags=tuple(self.tag() for _ in range(2)), id=i)
                for i in range(self.randint(0, 4))
            )
        if self.one_in(2):
            found = tuple(self.policy(100 + i, on_tags=True) for i in range(self.randint(0, 6)))
            tags = Service(name="tags", definition=TAGS, policies=found)
        return replace(
            service,
            definition=LENIENT if self.one_in(8) else service.definition,
            zones=tuple(zones),
            tags=tags,
            tagged=tagged,
            super_users=frozenset({"bob"} if self.one_in(10) else ()),
            super_groups=frozenset({"h"} if self.one_in(15) else ()),
            audit=self.audit_rules(),
        )

    def audit_rules(self) -> AuditRules:
        filters = [
            AuditFilter(
                audited=self.one_in(2),
                result=self.choice(("", "DENIED", "ALLOWED", "NOT_DETERMINED")),
                accesses=self.some(("select", "drop"), 0, 1),
                users=self.some(USERS, 0, 1),
            )
            for _ in range(self.randint(0, 2) if self.one_in(3) else 0)
        ]
        return AuditRules(
            mode=self.choice(("audit-default", "audit-default", "audit-all", "audit-none")),
            filters=tuple(filters),
            excluded_groups=self.some(GROUPS, 0, 1) if self.one_in(4) else frozenset(),
        )

    def context(self) -> AccessContext:
        return AccessContext(
            time=self.choice((None, NOON, NIGHT, MORNING)),
            action=self.choice(("", "read", "write")),
            cluster=self.choice(("read", "write")),
            tags=tuple(self.tag() for _ in range(2)) if self.one_in(5) else None,
            roles=self.some(ROLES) if self.one_in(6) else None,
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

    def request(self, access: str) -> AccessRequest:
        return AccessRequest(
            principal=self.principal(),
            resource=self.resource(),
            access=access,
            context=self.context(),
            scope=Scope.SELF_OR_DESCENDANTS if self.one_in(4) else Scope.SELF,
            ignore_descendant_deny=not self.one_in(4),
        )


def order(found: PolicySet) -> dict[int, int]:
    """Ranger's order, from its own score; the score has its own test."""
    types = len(DEFINITION.access_types)
    ranked = sorted(
        found.policies(),
        key=lambda p: (
            -p.priority,
            not (p.deny or p.deny_all_else),
            evaluation_score(p, types),
            p.name,
            p.id,
        ),
    )
    return {policy.id: place for place, policy in enumerate(ranked)}


@settings(max_examples=tries(150), deadline=None)
@given(seeds)
def test_the_index_answers_like_the_plain_reading(seed: int) -> None:
    maker = Maker(seed)
    found = maker.policy_set()
    engine, linear, ranks = Engine(found), Linear(found, "spark", MEANS), order(found)
    for _ in range(4):
        for access in (*ACCESSES, "_any"):
            request = maker.request(access)
            expected = linear.decide(request, ranks)
            decision = engine.decide(request)
            assert decision.allowed == expected.allowed
            if access != "_any":
                told = (decision.policy.id, decision.tag, decision.zone)
                assert told == (expected.policy, expected.tag, expected.zone)
                assert decision.determined == (expected.policy >= 0 or decision.reason == "superuser")
                assert decision.audited == linear.audited(request, ranks)
        check_others(engine, linear, ranks, maker.request("select"), maker)


def check_others(
    engine: Engine, linear: Linear, ranks: dict[int, int], request: AccessRequest, maker: Maker
) -> None:
    principal, resource, context = request.principal, request.resource, request.context
    assert engine.visible(principal, resource, context) == linear.visible(principal, resource, context)
    groups = [maker.some(ACCESSES[:5], 1) for _ in range(maker.randint(1, 2))]
    assert engine.decide_groups(request, groups).allowed == linear.decide(request, ranks, groups).allowed
    for type_, answer in (
        (PolicyType.MASK, engine.mask_answer),
        (PolicyType.ROW_FILTER, engine.filter_answer),
    ):
        got, expected = answer(request), linear.obligation(type_, request, ranks)
        assert (got and (got.item, got.certain, got.policy.id)) == expected
    plain = replace(request, scope=Scope.SELF)
    if resource.kind == "column":
        mask = engine.mask(principal, resource, "string", context)
        found = linear.obligation(PolicyType.MASK, plain, ranks)
        shown = found is not None and isinstance(found[0], MaskItem) and (found[0].mask_type, found[1])
        assert (mask is None) == (not shown or shown == ("MASK_NONE", True))
        assert mask is None or not shown or mask.mask_type == (shown[0] if shown[1] else "MASK_NULL")
    if resource.kind == "table":
        row_filter = engine.row_filter(principal, resource, context)
        found = linear.obligation(PolicyType.ROW_FILTER, plain, ranks)
        text = found[0].filter_expression if found and isinstance(found[0], FilterItem) else ""
        text = text if not found or found[1] else "FALSE"
        assert (row_filter.expression if row_filter else "") == text
        check_view(engine, principal, resource, context)


def check_view(engine: Engine, principal: Principal, table: Resource, context: AccessContext) -> None:
    columns = tuple(Column(name=name, type="string") for name in NAMES)
    view = engine.table_view(principal, table, columns, context=context)
    for column in columns:
        resource = table.child("column", column.name)
        request = AccessRequest(principal=principal, resource=resource, access="select", context=context)
        assert view.allowed[column.name] == engine.decide(request)
        assert (column.name in view.hidden) is not view.allowed[column.name].allowed
        alone = engine.mask(principal, resource, "string", context)
        assert _bare(view.masks.get(column.name)) == _bare(alone)
    assert _bare(view.row_filter) == _bare(engine.row_filter(principal, table, context))
    if context.tags is None and context.roles is None:
        assert engine.table_view(principal, table, columns, context=context) is view


def _bare(obligation: ColumnMask | RowFilter | None) -> object:
    return obligation and replace(obligation, context_dependencies=frozenset())


@settings(max_examples=tries(60), deadline=None)
@given(seeds)
def test_what_is_remembered_is_right_in_every_context(seed: int) -> None:
    maker = Maker(seed)
    found = maker.policy_set()
    engine = Engine(found)
    columns = tuple(Column(name=name, type="string") for name in NAMES)
    principal = maker.principal()
    table = Resource(tuple((level, maker.choice(("a", "b"))) for level in LEVELS[:3]))
    for _ in range(6):
        context = maker.context()
        fresh = Engine(found)
        assert engine.visible(principal, table, context) == fresh.visible(principal, table, context)
        database, names = Resource(table.elements[:2]), NAMES[: maker.randint(0, len(NAMES))]
        assert list(engine.visible_tables(principal, database, names, context)) == [
            fresh.visible(principal, database.child(LEVELS[2], name), context) for name in names
        ]
        for access in (ANY_ACCESS, "select"):
            request = AccessRequest(principal=principal, resource=table, access=access, context=context)
            asked = fresh.decide(request)
            assert engine.allows(principal, table, access, context) == (
                asked.allowed,
                asked.context_dependencies,
            )
        one = engine.table_view(principal, table, columns, context=context)
        other = fresh.table_view(principal, table, columns, context=context)
        assert one.hidden == other.hidden
        assert one.context_dependencies == other.context_dependencies
        assert {n: _bare(m) for n, m in one.masks.items()} == {n: _bare(m) for n, m in other.masks.items()}
        assert _bare(one.row_filter) == _bare(other.row_filter)
        assert list(one.allowed.values()) == list(other.allowed.values())
        assert {d.request.context for d in one.allowed.values()} == {context}


@settings(max_examples=tries(60), deadline=None)
@given(seeds)
def test_a_changed_engine_answers_like_a_new_one(seed: int) -> None:
    maker = Maker(seed)
    found = maker.policy_set()
    engine = Engine(found)
    for _ in range(3):
        service = found.services["spark"]
        kept = [p for p in service.policies if not maker.one_in(4)]
        changed = [replace(p, priority=1 - p.priority) if maker.one_in(5) else p for p in kept]
        changed += [maker.policy(1000 + i) for i in range(maker.randint(0, 3))]
        tagged = [t for t in service.tagged if not maker.one_in(3)]
        tagged.append(TaggedResource(resources=maker.resource_set(), tags=(maker.tag(),), id=50))
        tags = service.tags
        if tags is not None:
            tags = replace(tags, policies=(*tags.policies[1:], maker.policy(2000, on_tags=True)))
        service = replace(service, policies=tuple(changed), tagged=tuple(tagged), tags=tags)
        found = replace(found, services={"spark": service})
        engine, fresh = Engine(found, base=engine), Engine(found)
        for access in (*ACCESSES, "_any"):
            request = maker.request(access)
            assert engine.decide(request) == fresh.decide(request)
            assert engine.may_be_denied_below(request.resource) == fresh.may_be_denied_below(request.resource)
            check_same(engine, fresh, request)


def check_same(engine: Engine, fresh: Engine, request: AccessRequest) -> None:
    principal, resource, context = request.principal, request.resource, request.context
    assert engine.visible(principal, resource, context) == fresh.visible(principal, resource, context)
    one, other = engine.explain(request), fresh.explain(request)
    assert one.decision == other.decision
    assert one.mask == other.mask
    assert one.row_filter == other.row_filter
    assert sorted(one.considered, key=str) == sorted(other.considered, key=str)


@settings(max_examples=tries(15), deadline=None)
@given(seeds)
def test_the_index_answers_alike_when_its_files_are_full(seed: int) -> None:
    """Many policies on the same few resources, so that files are split by principal and by prefix."""
    maker = Maker(seed)
    maker.circumstantial = False
    on = {level: ResourceValues(values=("a",)) for level in LEVELS[:3]} | {
        "column": ResourceValues(values=("*",))
    }
    plain = Policy(id=0, name="p", service="spark", type=PolicyType.ACCESS, resources=on)
    wild = ("a*", "a?", "a", "b*", "*b", "{USER}*", "aa*")
    drawn = [maker.item() for _ in range(maker.randint(30, 50))]
    policies = [
        replace(plain, id=i, priority=i % 2, deny=(item,))
        if maker.one_in(3)
        else replace(plain, id=i, priority=i % 2, allow=(item,))
        for i, item in enumerate(drawn)
    ]
    if maker.one_in(2):
        tables = [ResourceValues(values=tuple(maker.some(wild, 1))) for _ in policies]
        policies = [
            replace(p, resources=on | {"table": table}) for p, table in zip(policies, tables, strict=True)
        ]
    service = Service(name="spark", definition=DEFINITION, policies=tuple(policies))
    found = PolicySet(
        version=1, services={"spark": service}, roles=(Role(name="r", users=frozenset({"ann"})),)
    )
    engine, linear, ranks = Engine(found), Linear(found, "spark", MEANS), order(found)
    fewer = replace(service, policies=tuple(p for p in policies if p.id % 3))
    less = replace(found, services={"spark": fewer})
    engines = ((engine, linear), (Engine(less, base=engine), Linear(less, "spark", MEANS)))
    table = Resource.table("a", "a", maker.choice(("a", "ab")), owner=maker.choice((None, *USERS)))
    for user in USERS:
        principal = Principal(user=user, groups=maker.some(GROUPS))
        for resource in (table, table.child("column", "b"), Resource(table.elements[:2])):
            for fast, slow in engines:
                for access in ACCESSES:
                    request = AccessRequest(principal=principal, resource=resource, access=access)
                    decision, expected = fast.decide(request), slow.decide(request, ranks)
                    assert (decision.allowed, decision.policy.id) == (expected.allowed, expected.policy)
                    assert decision.audited == slow.audited(request, ranks)
                assert fast.visible(principal, resource) == slow.visible(principal, resource, NO_CONTEXT)


@settings(max_examples=tries(60), deadline=None)
@given(seeds)
def test_nothing_is_allowed_but_by_a_policy_that_says_so(seed: int) -> None:
    maker = Maker(seed)
    found = maker.policy_set()
    found = with_policies(found, lambda p: p, no_super=True)
    engine = Engine(found)
    silent = Engine(with_policies(found, lambda p: replace(p, allow=())))
    empty = Engine(with_policies(found, lambda p: None))
    by_id = {policy.id: policy for policy in found.policies()}
    for access in ACCESSES:
        request = maker.request(access)
        decision = engine.decide(request)
        assert not decision.allowed or by_id[decision.policy.id].allow
        assert not silent.decide(request).allowed
        assert not empty.decide(request).allowed
        assert not silent.visible(request.principal, request.resource, request.context)
        assert not empty.visible(request.principal, request.resource, request.context)


def with_policies(
    found: PolicySet, change: Callable[[Policy], Policy | None], *, no_super: bool = False
) -> PolicySet:
    service = found.services["spark"]

    def changed(policies: tuple[Policy, ...]) -> tuple[Policy, ...]:
        return tuple(new for p in policies if (new := change(p)) is not None)

    tags = service.tags and replace(service.tags, policies=changed(service.tags.policies))
    service = replace(service, policies=changed(service.policies), tags=tags)
    if no_super:
        service = replace(service, super_users=frozenset(), super_groups=frozenset())
    return replace(found, services={"spark": service})


@settings(max_examples=tries(60), deadline=None)
@given(seeds)
def test_another_denial_never_allows_more(seed: int) -> None:
    maker = Maker(seed)
    found = maker.policy_set()
    denial = replace(
        maker.policy(999), type=PolicyType.ACCESS, allow=(), deny=(maker.item(),), masks=(), filters=()
    )
    service = found.services["spark"]
    more = replace(service, policies=(*service.policies, denial))
    before, after = Engine(found), Engine(replace(found, services={"spark": more}))
    for _ in range(6):
        for access in ACCESSES:
            request = maker.request(access)
            assert after.decide(request).allowed <= before.decide(request).allowed
        request = maker.request("_any")
        principal, resource, context = request.principal, request.resource, request.context
        assert after.visible(principal, resource, context) <= before.visible(principal, resource, context)


@settings(max_examples=tries(60), deadline=None)
@given(seeds)
def test_what_cannot_be_told_never_allows_more(seed: int) -> None:
    """A condition that nobody knows, put on any policy or item, takes rights away or none."""
    maker = Maker(seed)
    maker.circumstantial = False
    found = maker.policy_set()
    service = found.services["spark"]
    moon = (Condition(type="moon"),)
    place = maker.randrange(len(service.policies)) if service.policies else 0
    doubted = []
    for i, policy in enumerate(service.policies):
        if i == place:
            allow = tuple(replace(item, conditions=moon) for item in policy.allow)
            policy = maker.choice((replace(policy, conditions=moon), replace(policy, allow=allow)))
        doubted.append(policy)
    sure = replace(found, services={"spark": replace(service, policies=tuple(doubted))})
    before, after = Engine(found), Engine(sure)
    for access in ACCESSES:
        request = maker.request(access)
        assert after.decide(request).allowed <= before.decide(request).allowed
