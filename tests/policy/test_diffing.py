"""Differences between two sets of policies: none is missed, none is made up, and they are told in groups."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.model.policy import (
    MaskItem,
    Policy,
    PolicyItem,
    PolicySet,
    PolicyType,
    ResourceValues,
    Service,
    TaggedResource,
)
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.model.tags import Tag
from gateway.policy.differences import ANYBODY, THE_OWNER, accesses_of, list_unprobed, pairs_of, principals_of
from gateway.policy.diffing import Group, compare, group_changes, questions_of
from gateway.policy.engine import engine_for
from gateway.policy.packs import load_packs
from gateway.policy.probing import OTHER, find_common_match, resources_of
from gateway.policy.service_defs import load_service_defs
from tests.effort import tries

RULES = Path(__file__).parents[2] / "rules"
DEFINITIONS = load_service_defs(
    {p.name: p.read_text(encoding="utf-8") for p in sorted((RULES / "service_defs").iterdir())}
)
SPARK = DEFINITIONS["spark"]


def load(text: str) -> PolicySet:
    return load_packs({"p.yaml": text}, DEFINITIONS)


def groups_of(old: PolicySet, new: PolicySet, people: Sequence[Principal] = ()) -> list[Group]:
    pairs = pairs_of(old, new)
    asked = list(people) or principals_of(pairs)
    changes = []
    for pair in pairs:
        questions = questions_of(pair, resources_of(pair, asked), asked)
        changes += compare(engine_for(old), engine_for(new), questions).changes
    return group_changes(changes, (access.name for access in SPARK.access_types))


def told(groups: Sequence[Group]) -> list[tuple[object, ...]]:
    return [
        (
            group.cause.kind,
            group.people,
            group.accesses,
            tuple(f"{level} {name}" for level, name in group.resources),
            group.cause.before.policy.name,
            group.cause.after.policy.name,
        )
        for group in groups
    ]


def pack(*policies: str) -> PolicySet:
    return load("policies:\n" + "".join(f"  - {policy}\n" for policy in policies))


T = "catalog: c, database: d, table: t"
READ = f'{{name: r, on: {{{T}, column: "*"}}, allow: [{{groups: [g], access: [select]}}]}}'
MASK = f"{{name: m, on: {{{T}, column: pay}}, mask: [{{groups: [public], type: MASK_NULL}}]}}"
FILTER = f'{{name: f, on: {{{T}}}, filter: [{{groups: [public], where: "u = {{USER}}"}}]}}'


def test_nothing_differs_where_only_texts_for_people_do() -> None:
    other = READ.replace("name: r", "name: r, description: other, labels: [x], id: 7, audited: false")
    assert groups_of(pack(READ), pack(other)) == []
    pair = next(p for p in pairs_of(pack(READ), pack(other)) if p.definition.name == "spark")
    assert pair.changed == ()
    assert not pair.everything


def test_what_is_gained_and_lost() -> None:
    before = pack(READ)
    after = pack(READ.replace("[g]", "[h]"))
    where = ("column c.d.t.*", "table c.d.t")
    assert told(groups_of(before, after)) == [
        ("gained", ("(someone in h)",), ("select",), where, "", "r"),
        ("lost", ("(someone in g)",), ("select",), where, "r", ""),
    ]


def test_a_denial_is_told_with_both_policies() -> None:
    deny = f"{{name: n, on: {{{T}, column: pay}}, deny: [{{groups: [g], access: [all]}}]}}"
    (group,) = groups_of(pack(READ), pack(READ, deny))
    assert told([group]) == [
        ("lost", ("(someone in g)",), ("select",), ("column c.d.t.pay",), "r", "n"),
    ]
    assert group.count == 1


def test_masks_and_filters_count_for_those_who_may_read() -> None:
    found = groups_of(pack(READ), pack(READ, MASK, FILTER))
    assert told(found) == [
        ("mask", ("(someone in g)",), ("select",), ("column c.d.t.pay",), "", "m"),
        ("filter", ("(someone in g)",), ("select",), ("table c.d.t",), "", "f"),
    ]
    assert found[0].cause.before.says == "no mask"
    assert found[0].cause.after.says == "MASK_NULL"
    assert found[1].cause.before.says == "every row"
    assert found[1].cause.after.says == "rows where u = CAST(X'28736F6D656F6E6520696E206729' AS STRING)"


def test_people_resources_and_accesses_are_told_together() -> None:
    one = "{name: o, on: {catalog: c, database: d, table: [a, b]}, allow: [{users: [x, y], access: [all]}]}"
    assert told(groups_of(pack(), pack(one))) == [
        ("gained", ("x", "y"), ("all",), ("table c.d.a", "table c.d.b"), "", "o")
    ]
    less = one.replace("[all]", "[insert, drop]")
    two = groups_of(pack(less), pack(one))
    assert [group.accesses for group in two] == [("all but drop, insert",)]


def test_literal_names_of_other_policies_are_asked_below_wildcards() -> None:
    where = '{catalog: "*", database: "d*", table: "*", column: "*"}'
    wide = f"{{name: w, on: {where}, allow: [{{users: [x], access: [select]}}]}}"
    pair = next(p for p in pairs_of(pack(READ, MASK), pack(READ, MASK, wide)) if p.definition.name == "spark")
    labels = {probe.label for probe in resources_of(pair, [])}
    assert {"c.d.t.pay", "c.d.t.*", "c.d.*.*", "c.d*.*.*", "*.d*.*.*"} <= labels
    resources = {str(probe.resource) for probe in resources_of(pair, [])}
    assert f"c.d{OTHER}.{OTHER}.{OTHER}" in resources


def test_only_what_a_difference_reaches_is_asked() -> None:
    far = READ.replace("name: r", "name: far").replace("database: d", "database: far")
    pair = next(p for p in pairs_of(pack(READ, far), pack(READ, far, MASK)) if p.definition.name == "spark")
    assert {p.label for p in resources_of(pair, [])} == {"c", "c.d", "c.d.t", "c.d.t.pay"}
    same = next(p for p in pairs_of(pack(READ, far), pack(READ, far)) if p.definition.name == "spark")
    assert list(resources_of(same, [])) == []


def test_excluded_values_tokens_and_paths_are_asked() -> None:
    new = pack(
        "{name: e, on: {catalog: c, database: {except: [tmp]}}, allow: [{users: [x], access: [use]}]}",
        '{name: u, on: {catalog: c, database: "home_{USER}"}, allow: [{users: ["{USER}"], access: [drop]}]}',
        '{name: p, on: {url: {values: ["s3://b"], recursive: true}}, allow: [{users: [x], access: [read]}]}',
    )
    gained = {(group.people, group.accesses): group.resources for group in groups_of(pack(), new)}
    labels = {name for resources in gained.values() for _, name in resources}
    assert "c.home_x" in labels
    assert "c.tmp" not in {
        name for (_, accesses), resources in gained.items() if "use" in accesses for _, name in resources
    }
    assert {"s3://b", "s3://b/…"} <= labels


def test_owners_are_somebody() -> None:
    new = pack(
        "{name: o, on: {catalog: c, database: 'x_{OWNER}'}, allow: [{users: ['{OWNER}'], access: [drop]}]}",
        "{name: p, on: {catalog: c, database: d, table: t}, allow: [{users: ['{OWNER}'], access: [drop]}]}",
    )
    assert told(groups_of(pack(), new)) == [
        ("gained", (THE_OWNER,), ("drop",), (f"database c.x_{THE_OWNER}",), "", "o"),
        ("gained", (THE_OWNER,), ("drop",), ("table c.d.t",), "", "p"),
    ]


def test_what_is_not_asked_is_said() -> None:
    new = pack("{name: o, on: {catalog: 'x_{ROLES}'}, allow: [{groups: [g], access: [use]}]}")
    (pair,) = [pair for pair in pairs_of(pack(), new) if pair.definition.name == "spark"]
    assert list_unprobed(pair) == ["o"]


def test_tags_and_what_lies_below_them() -> None:
    tagged = "tags: [{on: {catalog: c, database: d, table: t}, tags: [PII]}]\n"
    body = f"policies:\n  - {READ}\n"
    deny = "  - {name: t, on: {tag: PII}, deny: [{groups: [g], access: [select]}]}\n"
    old, new = load(tagged + body), load(tagged + body + deny)
    assert told(groups_of(old, new)) == [
        ("lost", ("(someone in g)",), ("select",), ("column c.d.t.*", "table c.d.t"), "r", "t")
    ]
    assert told(groups_of(load(body + deny), new))[0][0] == "lost", "the tag itself is new"


def test_roles_zones_and_super_users_concern_everything() -> None:
    body = f"  - {READ.replace('groups: [g]', 'roles: [r]')}\n"
    old = load(f"roles: {{r: {{users: [a]}}}}\npolicies:\n{body}")
    new = load(f"roles: {{r: {{users: [b]}}}}\npolicies:\n{body}")
    people = [Principal(user="a"), Principal(user="b")]
    assert [(g.cause.kind, g.people) for g in groups_of(old, new, people)] == [
        ("gained", ("b",)),
        ("lost", ("a",)),
    ]
    admin = load(f"super_users: [root]\nroles: {{r: {{users: [a]}}}}\npolicies:\n{body}")
    assert any(g.cause.kind == "gained" and g.people == ("root",) for g in groups_of(old, admin))
    zoned = load(f"zones: {{z: {{on: {{catalog: c}}}}}}\nroles: {{r: {{users: [a]}}}}\npolicies:\n{body}")
    assert any(g.cause.kind == "lost" and "a" in g.people for g in groups_of(old, zoned, people))


def test_services_belong_together_by_name_or_by_definition() -> None:
    old = pack(READ)
    service = replace(old.services["spark"], name="cl1_spark")
    new = PolicySet(version=2, services={"cl1_spark": service})
    pair = next(p for p in pairs_of(old, new) if p.definition.name == "spark")
    assert (pair.old, pair.new) == (old.services["spark"], service)
    assert groups_of(old, new) == []
    gone = groups_of(old, PolicySet(version=3))
    assert [g.cause.kind for g in gone] == ["lost"]
    assert gone[0].cause.after.says == "denied: the service does not exist"


def test_access_types_that_nobody_tells_apart_are_asked_once() -> None:
    pair = next(p for p in pairs_of(pack(), pack(READ)) if p.definition.name == "spark")
    assert sorted(len(found) for found in accesses_of(pair)) == [1, len(SPARK.access_types) - 1]
    conditional = READ.replace("access: [select]", "access: [select], when: REQ.accessType == 'x'")
    pair = next(p for p in pairs_of(pack(), pack(conditional)) if p.definition.name == "spark")
    assert all(len(found) == 1 for found in accesses_of(pair))


# -- no difference is missed ---------------------------------------------------------------------------------

VALUES = st.lists(st.sampled_from(["a", "b", "*", "a*", "?", "*?"]), min_size=1, max_size=2).map(tuple)
LEVELS = ("catalog", "database", "table", "column")
RESOURCES = st.integers(min_value=1, max_value=4).flatmap(
    lambda depth: st.fixed_dictionaries(
        {level: st.builds(ResourceValues, values=VALUES, excludes=st.booleans()) for level in LEVELS[:depth]}
    )
)
WHO = st.fixed_dictionaries(
    {
        "users": st.sets(st.sampled_from(["u", "v"]), max_size=1).map(frozenset),
        "groups": st.sets(st.sampled_from(["g", "public"]), min_size=1, max_size=2).map(frozenset),
    }
)
ITEMS = st.lists(
    st.builds(
        lambda who, accesses: PolicyItem(users=who["users"], groups=who["groups"], accesses=accesses),
        WHO,
        st.sets(st.sampled_from(["select", "insert", "all"]), min_size=1, max_size=2).map(frozenset),
    ),
    max_size=2,
).map(tuple)


@st.composite
def policy(draw: st.DrawFn, ident: int) -> Policy:
    type_ = draw(st.sampled_from([PolicyType.ACCESS, PolicyType.ACCESS, PolicyType.MASK]))
    resources = draw(RESOURCES)
    if type_ is PolicyType.MASK:
        resources = {**{level: ResourceValues(values=("*",)) for level in LEVELS}, **resources}
    fields: dict[str, object] = {}
    if type_ is PolicyType.ACCESS:
        fields = {key: draw(ITEMS) for key in ("allow", "deny", "allow_exceptions")}
    else:
        who, mask = draw(WHO), draw(st.sampled_from(["MASK", "MASK_NULL", "MASK_NONE"]))
        item = MaskItem(
            users=who["users"], groups=who["groups"], accesses=frozenset({"select"}), mask_type=mask
        )
        fields = {"masks": (item,)}
    return Policy(
        id=ident,
        name=f"p{ident}",
        service="spark",
        type=type_,
        resources=resources,
        priority=draw(st.integers(0, 1)),
        **fields,  # type: ignore[arg-type]
    )


@st.composite
def both_sides(draw: st.DrawFn) -> tuple[PolicySet, PolicySet]:
    common = [draw(policy(i)) for i in range(draw(st.integers(0, 3)))]
    sides = []
    for side in range(2):
        own = [draw(policy(10 + 10 * side + i)) for i in range(draw(st.integers(0, 2)))]
        tagged: tuple[TaggedResource, ...] = ()
        tags = None
        if draw(st.booleans()):
            tagged = (TaggedResource(resources=draw(RESOURCES), tags=(Tag(type="T"),)),)
            definition = replace(SPARK, name="tag", resources=(replace(SPARK.resources[0], name="tag"),))
            on_tag = Policy(
                id=99,
                name="tag",
                service="tags",
                type=PolicyType.ACCESS,
                resources={"tag": ResourceValues(values=("T",))},
                deny=(PolicyItem(groups=frozenset({"g"}), accesses=frozenset({"select"})),),
            )
            tags = Service(name="tags", definition=definition, policies=(on_tag,))
        service = Service(name="spark", definition=SPARK, policies=(*common, *own), tagged=tagged, tags=tags)
        sides.append(PolicySet(version=side + 1, services={"spark": service}))
    return sides[0], sides[1]


PEOPLE = [
    Principal(user="u"),
    Principal(user="v", groups=frozenset({"g"})),
    Principal(user=ANYBODY),
]
NAMES = ("a", "b", "ab", "zz")


@settings(max_examples=tries(50), deadline=None)
@given(both_sides())
def test_every_difference_on_plain_names_is_found(sides: tuple[PolicySet, PolicySet]) -> None:
    """Where any resource is decided otherwise, some probe is: those that were asked stand for the others."""
    old, new = sides
    one, two = engine_for(old), engine_for(new)
    differs = set[tuple[str, str]]()
    for depth in range(1, 5):
        for names in itertools.product(NAMES, repeat=depth):
            resource = Resource(tuple(zip(LEVELS, names, strict=False)))
            for person in PEOPLE:
                for access in ("select", "insert"):
                    request = AccessRequest(principal=person, resource=resource, access=access)
                    if one.decide(request).allowed != two.decide(request).allowed:
                        differs.add((person.user, access))
    found = groups_of(old, new, PEOPLE)
    told_of = {
        (person, access)
        for group in found
        if group.cause.kind in ("gained", "lost")
        for person in group.people
        for access in ("select", "insert")
        if access in group.accesses
        or (
            group.accesses[0].startswith("all")
            and access not in group.accesses[0].replace(",", "").split()[2:]
        )
    }
    assert differs <= told_of


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("fin_*", "*_eu", "fin_eu"),
        ("a*", "?", "a"),
        ("a*b", "*c*", "acb"),
        ("*", "*", ""),
        ("a?", "*b", "ab"),
        ("??", "*", "xx"),
        ("a*", "b*", None),
        ("a", "aa", None),
        ("?", "", None),
        ("a*a*a", "?b?b?", "ababa"),
    ],
)
def test_what_two_patterns_share(one: str, other: str, both: str | None) -> None:
    assert find_common_match(one, other) == both
    assert find_common_match(other, one) == both


def test_what_only_two_patterns_together_decide() -> None:
    wide = "{name: w, on: {catalog: 'a*'}, allow: [{users: [u], access: [use]}]}"
    deny = "{name: n, on: {catalog: '?'}, deny: [{users: [u], access: [use]}]}"
    assert told(groups_of(pack(wide), pack(wide, deny))) == [
        ("lost", ("u",), ("use",), ("catalog a",), "w", "n")
    ]


def test_what_a_lost_star_covers_is_asked() -> None:
    deny = Policy(
        id=1,
        name="n",
        service="spark",
        type=PolicyType.ACCESS,
        resources={"catalog": ResourceValues(values=("a*?",))},
        deny=(PolicyItem(users=frozenset({"u"}), accesses=frozenset({"use"})),),
    )
    wide = pack("{name: w, on: {catalog: '*'}, allow: [{users: [u], access: [use]}]}")
    service = wide.services["spark"]
    denied = replace(service, policies=(*service.policies, deny))
    found = told(groups_of(wide, replace(wide, version=wide.version + 1, services={"spark": denied})))
    assert found == [("lost", ("u",), ("use",), ("catalog a?",), "w", "n")]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_comparison_and_its_reverse_are_mirror_images(*, reverse: bool) -> None:
    old, new = pack(READ, MASK), pack(READ.replace("[g]", "[h]"), FILTER)
    if reverse:
        old, new = new, old
    there, back = groups_of(old, new), groups_of(new, old)
    swapped = {"gained": "lost", "lost": "gained"}
    assert {(swapped.get(g.cause.kind, g.cause.kind), g.people, g.resources) for g in there} == {
        (g.cause.kind, g.people, g.resources) for g in back
    }
