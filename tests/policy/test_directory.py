"""Pages of policies have every policy once, whatever is asked for; a change shows as it does in a new one."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from gateway.model.context import NO_CONTEXT
from gateway.model.policy import Policy, PolicyItem, PolicySet, PolicyType, ResourceValues, Service
from gateway.model.principal import Principal
from gateway.policy import directory as directory_module
from gateway.policy.covering import administers
from gateway.policy.describing import describe_policy
from gateway.policy.directory import PolicyCriteria, PolicyDirectory, key_of_policy, principals_named
from gateway.policy.engine import engine_for
from tests.policy.offices import ANN, BOB, LEA, SUE, offices
from tests.policy.scenarios import definitions

SPARK = definitions()["spark"]


def names(directory: PolicyDirectory, criteria: PolicyCriteria, **more: object) -> list[str]:
    return [policy.name for policy in directory.find_page(criteria, **more).policies]  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def small() -> PolicyDirectory:
    return PolicyDirectory(offices())


def test_policies_are_found_by_each_criterion(small: PolicyDirectory) -> None:
    assert names(small, PolicyCriteria(tag="PCI")) == ["no cards"]
    assert names(small, PolicyCriteria(zone="vault")) == ["vault only"]
    assert names(small, PolicyCriteria(who=("user", "bob"))) == ["customers of the region"]
    assert names(small, PolicyCriteria(who=("role", "lead"))) == ["sales read"]
    assert names(small, PolicyCriteria(who=("group", "public"))) == ["no cards"]
    assert names(small, PolicyCriteria(type=PolicyType.MASK)) == ["customer emails"]
    assert names(small, PolicyCriteria(text="EVERYBODY in sales")) == ["sales read"]
    assert names(small, PolicyCriteria(service="spark_tag")) == ["no cards"]
    under = ("spark", "catalog", "c", "database", "sales")
    assert names(small, PolicyCriteria(under=under)) == [
        "customer emails",
        "customers of the region",
        "sales read",
    ]
    assert names(small, PolicyCriteria(under=(*under, "table", "customer"), who=("user", "bob"))) == [
        "customers of the region"
    ]
    assert names(small, PolicyCriteria(zone="nowhere")) == []


def test_the_tree_counts_what_is_below(small: PolicyDirectory) -> None:
    assert [(node.value, node.policies) for node in small.list_children(())] == [
        ("spark", 5),
        ("spark_tag", 1),
    ]
    databases = small.list_children(("spark", "catalog", "c"))
    assert [(node.level, node.value, node.policies) for node in databases] == [
        ("database", "hr", 1),
        ("database", "sales", 3),
        ("database", "vault", 1),
    ]
    later = small.list_children(("spark", "catalog", "c"), after=("hr", "database"), limit=1)
    assert [node.value for node in later] == ["sales"]


def many(count: int) -> PolicySet:
    dice = random.Random(7)
    policies = tuple(
        Policy(
            id=n,
            name=f"p{n:05}",
            service="spark",
            type=PolicyType.ACCESS,
            resources={
                "catalog": ResourceValues(values=("c",)),
                "database": ResourceValues(values=(f"d{n % 7}",)),
                "table": ResourceValues(values=tuple(f"t{n}_{k}" for k in range(dice.randint(1, 3)))),
            },
            allow=(
                PolicyItem(
                    users=frozenset({f"u{n % 11}"}),
                    groups=frozenset({f"g{n % 5}"}),
                    accesses=frozenset({"select"}),
                    delegate_admin=n % 13 == 0,
                ),
            ),
        )
        for n in range(count)
    )
    service = Service(name="spark", definition=SPARK, policies=policies)
    return PolicySet(version=1, services={"spark": service}, catalog_services={"c": "spark"})


def walk(directory: PolicyDirectory, criteria: PolicyCriteria, limit: int, **more: object) -> list[str]:
    found, after = list[str](), None
    while True:
        page = directory.find_page(criteria, after=after, limit=limit, **more)  # type: ignore[arg-type]
        found += [policy.name for policy in page.policies]
        if page.after is None:
            return found
        assert after is None or page.after > after
        after = page.after


def test_pages_have_each_policy_once_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = PolicyDirectory(many(500))
    everything = [f"p{n:05}" for n in range(500)]
    assert walk(directory, PolicyCriteria(), 37) == everything
    assert walk(directory, PolicyCriteria(who=("user", "u3")), 5) == everything[3::11]
    monkeypatch.setattr(directory_module, "MAX_LOOKED_AT", 20)
    # A criterion without an index: pages end early, and nothing is left out.
    assert walk(directory, PolicyCriteria(text="p0049"), 50) == everything[490:]
    assert (
        walk(directory, PolicyCriteria(), 50, may_see=lambda policy: policy.id % 100 == 0)
        == everything[::100]
    )


def test_a_change_shows_as_in_a_new_directory() -> None:
    before = many(300)
    base = PolicyDirectory(before)
    service = before.services["spark"]
    changed = replace(
        service.policies[5],
        resources={**service.policies[5].resources, "table": ResourceValues(values=("new",))},
    )
    added = replace(service.policies[9], id=900, name="a first one")
    policies = (*service.policies[:5], changed, *service.policies[7:], added)
    after = replace(before, services={"spark": replace(service, policies=policies)})
    taken, new = PolicyDirectory(after, base), PolicyDirectory(after)
    for criteria in (
        PolicyCriteria(),
        PolicyCriteria(who=("user", "u5")),
        PolicyCriteria(who=("user", "u6")),
        PolicyCriteria(under=("spark", "catalog", "c", "database", "d5")),
        PolicyCriteria(under=("spark", "catalog", "c", "database", "d5", "table", "new")),
        PolicyCriteria(under=("spark", "catalog", "c", "database", "d6", "table", "t6_0")),
    ):
        assert walk(taken, criteria, 17) == walk(new, criteria, 17)
    for path in (("spark",), ("spark", "catalog", "c"), ("spark", "catalog", "c", "database", "d5")):
        assert taken.list_children(path, limit=1_000) == new.list_children(path, limit=1_000)
    assert taken.list_names("service") == new.list_names("service") == ["spark"]
    # The older one is as it was.
    assert walk(base, PolicyCriteria(), 50) == [f"p{n:05}" for n in range(300)]


@pytest.mark.parametrize("who", [ANN, BOB, LEA, SUE], ids=lambda who: who.user)
def test_lists_about_somebody_have_all_that_names_them(small: PolicyDirectory, who: Principal) -> None:
    subject = engine_for(offices()).subject_of(who)
    named = {
        ("user", subject.user),
        *(("group", g) for g in subject.groups),
        *(("role", r) for r in subject.roles),
    }
    expected = sorted(key_of_policy(p) for p in offices().policies() if principals_named(p) & named)
    page = small.find_page(PolicyCriteria(), within=small.list_lists_about(subject))
    assert [key_of_policy(policy) for policy in page.policies] == expected


@pytest.mark.parametrize("user", ["u0", "u2", "u9", "nobody"])
def test_lists_delegated_have_all_that_somebody_administers(user: str) -> None:
    policies = many(400)
    who = Principal(user=user)
    directory = PolicyDirectory(policies)
    expected = [p.name for p in policies.policies() if administers(policies, who, p, NO_CONTEXT)]
    lists = directory.list_lists_delegated(engine_for(policies).subject_of(who))
    assert (
        walk(
            directory,
            PolicyCriteria(),
            9,
            within=lists,
            may_see=lambda p: administers(policies, who, p, NO_CONTEXT),
        )
        == expected
    )
    assert bool(expected) == (user != "nobody")


def test_a_delegate_reads_no_policy_on_more_than_they_administer() -> None:
    policies = {policy.name: policy for policy in offices().policies()}
    assert administers(offices(), LEA, policies["customer emails"], NO_CONTEXT)
    assert not administers(offices(), LEA, policies["summer help"], NO_CONTEXT)
    assert not administers(offices(), LEA, policies["no cards"], NO_CONTEXT)
    assert not administers(offices(), BOB, policies["customer emails"], NO_CONTEXT)


def test_a_description_for_somebody_names_nobody_else() -> None:
    policy = next(policy for policy in offices().policies() if policy.name == "sales read")
    subject = engine_for(offices()).subject_of(BOB)
    told = describe_policy(policy, subject)
    assert [(item.groups, item.roles, item.others) for item in told.items] == [(("sales",), (), 0)]
    assert told.hidden_items == 1
    assert told.written_in == ""
    assert "lead" not in repr(told)
    whole = describe_policy(policy)
    assert [item.roles for item in whole.items] == [(), ("lead",)]
    assert whole.written_in.startswith("offices.yaml:")


def test_texts_of_masks_and_filters_are_not_told_to_whom_they_are_for() -> None:
    policy = next(policy for policy in offices().policies() if policy.name == "customers of the region")
    subject = engine_for(offices()).subject_of(BOB)
    assert "north" not in repr(describe_policy(policy, subject))
    assert "north" in repr(describe_policy(policy))
