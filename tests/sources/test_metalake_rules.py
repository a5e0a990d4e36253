"""What tags, roles and owners of a metalake mean: asked of the engine that judges by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.app.rule_files import read_rules
from gateway.model.context import NO_CONTEXT
from gateway.model.metalakes import (
    MetadataObject,
    Metalake,
    MetalakePrivilege,
    MetalakeRole,
    MetalakeTag,
    Owner,
)
from gateway.model.policy import Service, TaggedResource
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.engine import engine_for
from gateway.policy.parts import Part, combine
from gateway.policy.service_defs import load_service_defs
from gateway.settings.models import PolicySettings
from gateway.sources.metalake_rules import MetalakeRules, rules_of

DEFINITIONS = load_service_defs(read_rules(PolicySettings()).service_defs)
TABLE = Resource.table("pg", "shop", "person")
COLUMN = TABLE.child("column", "card")


def on(name: str, *privileges: str) -> tuple[MetadataObject, tuple[MetalakePrivilege, ...]]:
    parts = tuple(name.split(".")) if name else ()
    type_ = ("METALAKE", "CATALOG", "SCHEMA", "TABLE", "COLUMN")[len(parts)]
    told = tuple(MetalakePrivilege(one.removeprefix("!"), denied=one.startswith("!")) for one in privileges)
    return MetadataObject(type_, parts), told


def lake(
    *grants: tuple[MetadataObject, tuple[MetalakePrivilege, ...]],
    users: Mapping[str, tuple[str, ...]] | None = None,
    **more: Any,
) -> Metalake:
    return Metalake(roles=(MetalakeRole(name="r", grants=grants),), users=users or {"ann": ("r",)}, **more)


def rules(metalake: Metalake, *taken: str, service: str = "spark") -> MetalakeRules:
    return rules_of(metalake, taken or ("pg",), name="lake", service=service, privileges=True)


def allowed(
    found: MetalakeRules, access: str, resource: Resource, user: str = "ann", groups: tuple[str, ...] = ()
) -> bool:
    part = Part(name="m", services={}, policies=found.policies, catalogs={"pg": "spark", "other": "spark"})
    base = Part(name="b", services={"spark": Service(name="spark", definition=DEFINITIONS["spark"])})
    policies = combine((base, part), 1, {"spark_catalog": "spark"})
    request = AccessRequest(
        principal=Principal(user=user, groups=frozenset(groups)),
        resource=resource,
        access=access,
        context=NO_CONTEXT,
    )
    return engine_for(policies).decide(request).allowed


USES = ("USE_CATALOG", "USE_SCHEMA")


@pytest.mark.parametrize("place", ["", "pg", "pg.shop", "pg.shop.person"])
def test_select_is_inherited_from_every_level(place: str) -> None:
    found = rules(lake(on("pg", *USES), on(place, "SELECT_TABLE")))
    assert allowed(found, "select", COLUMN)
    assert not allowed(found, "insert", TABLE)
    assert not allowed(found, "select", COLUMN, user="bea")
    other = Resource.table("pg", "shop", "other").child("column", "x")
    assert allowed(found, "select", other) is (place != "pg.shop.person")
    elsewhere = Resource.table("other", "shop", "person").child("column", "card")
    assert not allowed(found, "select", elsewhere)


@pytest.mark.parametrize(
    ("uses", "may"),
    [
        ((on("pg", "USE_CATALOG"),), False),
        ((on("pg", "USE_SCHEMA"),), False),
        ((on("pg.shop", "USE_SCHEMA"),), False),
        ((on("pg", "USE_CATALOG"), on("pg.shop", "USE_SCHEMA")), True),
        ((on("pg", "USE_CATALOG"), on("pg.hr", "USE_SCHEMA")), False),
        ((on("", "USE_CATALOG"), on("", "USE_SCHEMA")), True),
        ((on("other", "USE_CATALOG"), on("pg", "USE_SCHEMA")), False),
        ((on("pg.shop", "USE_CATALOG"), on("pg.shop", "USE_SCHEMA")), False),
        ((on("pg", "USE_CATALOG"), on("pg.shop.person", "USE_SCHEMA")), False),
    ],
)
def test_a_table_needs_its_catalog_and_its_schema(uses: Any, may: bool) -> None:
    for place in ("pg", "pg.shop", "pg.shop.person"):
        assert allowed(rules(lake(*uses, on(place, "SELECT_TABLE"))), "select", COLUMN) is may


@pytest.mark.parametrize("place", ["", "pg", "pg.shop", "pg.shop.person"])
@pytest.mark.parametrize(
    ("denied", "select", "insert"),
    [
        ("!SELECT_TABLE", False, True),
        ("!MODIFY_TABLE", True, False),
        ("!USE_CATALOG", False, False),
        ("!USE_SCHEMA", False, False),
        ("!SOMETHING_NEW", False, False),
        ("!MANAGE_USERS", True, True),
    ],
)
def test_deny_wins_at_every_level(place: str, denied: str, select: bool, insert: bool) -> None:
    found = rules(lake(on("pg", *USES, "SELECT_TABLE", "MODIFY_TABLE"), on(place, denied)))
    assert allowed(found, "select", COLUMN) is select
    assert allowed(found, "insert", TABLE) is insert


def test_a_denial_of_one_role_beats_what_another_allows_and_the_owner() -> None:
    denies = MetalakeRole(name="no", grants=(on("pg.shop", "!SELECT_TABLE"),))
    allows = MetalakeRole(name="yes", grants=(on("pg", *USES, "SELECT_TABLE"),))
    users = {"ann": ("yes", "no"), "bea": ("yes",), "own": ("no",), "eve": ("gone",)}
    owners = {MetadataObject("CATALOG", ("pg",)): Owner(name="own")}
    found = rules(Metalake(roles=(denies, allows), users=users, owners=owners))
    assert not allowed(found, "select", COLUMN)
    assert allowed(found, "select", COLUMN, user="bea")
    assert not allowed(found, "select", COLUMN, user="own")
    assert allowed(found, "insert", TABLE, user="own")
    assert not allowed(found, "select", COLUMN, user="eve")


@pytest.mark.parametrize("as_group", [False, True])
def test_who_has_a_role_that_is_not_shown_is_denied_everything(as_group: bool) -> None:
    """There may be a denial in it. Packs may allow what it denies, and so may what one owns."""
    allows = MetalakeRole(name="yes", grants=(on("pg", *USES, "SELECT_TABLE", "MODIFY_TABLE"),))
    members = {"ann": ("yes", "hidden"), "bea": ("yes",)}
    owners = {MetadataObject("CATALOG", ("pg",)): Owner(name="ann")}
    more: Any = {"groups" if as_group else "users": members}
    found = rules(Metalake(roles=(allows,), owners=owners, **more))

    def may(access: str, resource: Resource, who: str) -> bool:
        if as_group:
            return allowed(found, access, resource, user="ann" if who == "ann" else "x", groups=(who,))
        return allowed(found, access, resource, user=who)

    for access, resource in (("select", COLUMN), ("insert", TABLE), ("use", Resource.catalog("pg"))):
        assert not may(access, resource, "ann")
        assert may(access, resource, "bea")
    assert found.hidden_roles == ("hidden",)


def object_(type_: str, name: str, *privileges: str) -> tuple[MetadataObject, tuple[MetalakePrivilege, ...]]:
    return MetadataObject(type_, tuple(name.split("."))), on("", *privileges)[1]


@pytest.mark.parametrize(
    ("type_", "name", "nested", "plain"),
    [
        ("SCHEMA", "pg.shop.eu", False, True),
        ("TABLE", "pg.shop.eu.person", False, True),
        ("VIEW", "pg.shop.eu.person", False, True),
        ("COLUMN", "pg.shop.eu.person.card", False, True),
        ("SCHEMA", "pg.shop", False, False),  # what lies in it as well
        ("TABLE", "pg.shop.eu", True, True),
        ("COLUMN", "pg.shop.person.card", False, False),
        ("TABLE", "pg.person", False, False),
        ("SCHEMA", "pg", False, False),
        ("CATALOG", "pg.shop", False, False),
        ("NAMESPACE", "pg.shop.x", False, False),
        ("NAMESPACE", "other.shop.x", True, True),
        ("FILESET", "pg.shop.x", True, True),
        ("TABLE", "pg.sh{p.person", True, True),  # no statement can have such a name
    ],
)
def test_a_denial_on_an_odd_name_denies_no_less(type_: str, name: str, nested: bool, plain: bool) -> None:
    found = rules(lake(on("pg", *USES, "SELECT_TABLE"), object_(type_, name, "!SELECT_TABLE")))
    within = Resource.table("pg", "shop.eu", "person").child("column", "card")
    assert allowed(found, "select", within) is nested
    assert allowed(found, "select", COLUMN) is plain


def test_a_tag_on_a_nested_namespace_is_on_it() -> None:
    names = {
        ("SCHEMA", "pg.a.b"): [("pg", "a.b")],
        ("TABLE", "pg.a.b.t"): [("pg", "a.b", "t")],
        ("COLUMN", "pg.a.b.t.c"): [("pg", "a", "b", "t.c"), ("pg", "a.b", "t", "c")],
        ("TABLE", "pg.t"): [],
    }
    for (type_, name), places in names.items():
        tag = MetalakeTag(name="pii", objects=(object_(type_, name)[0],))
        found = rules_of(Metalake(tags=(tag,)), ["pg"], name="l", service="spark", privileges=False)
        put = [tuple(one.values[0] for one in tagged.resources.values()) for tagged in found.tagged]
        assert put == places
        assert found.unmapped_privileges == ({} if places else {"tags on TABLE": 1})


def test_groups_and_their_denials() -> None:
    allows = MetalakeRole(name="yes", grants=(on("pg", *USES, "SELECT_TABLE"),))
    denies = MetalakeRole(name="no", grants=(on("pg", "!SELECT_TABLE"),))
    found = rules(Metalake(roles=(allows, denies), users={"ann": ("yes",)}, groups={"staff": ("no",)}))
    assert allowed(found, "select", COLUMN)
    assert not allowed(found, "select", COLUMN, groups=("staff",))


def test_owners_of_the_metalake_and_of_catalogs_may_all() -> None:
    owners = {
        MetadataObject("METALAKE", ()): Owner(name="boss"),
        MetadataObject("CATALOG", ("pg",)): Owner(name="keepers", group=True),
        MetadataObject("CATALOG", ("left_out",)): Owner(name="nobody"),
    }
    found = rules(Metalake(owners=owners))
    for access in ("select", "insert", "drop", "alter"):
        assert allowed(found, access, TABLE, user="boss")
        assert allowed(found, access, TABLE, user="x", groups=("keepers",))
        assert not allowed(found, access, TABLE, user="nobody")


@pytest.mark.parametrize(
    ("privilege", "access", "resource", "may"),
    [
        ("CREATE_TABLE", "create", TABLE, True),
        ("CREATE_VIEW", "create", TABLE, False),
        ("CREATE_SCHEMA", "create", Resource.database("pg", "new"), True),
        ("MODIFY_TABLE", "alter", TABLE, True),
        ("MODIFY_TABLE", "drop", TABLE, False),
        ("MODIFY_TABLE", "select", COLUMN, False),
        ("SELECT_TABLE", "metadata", TABLE, False),
        ("SELECT_VIEW", "select", COLUMN, False),
        ("USE_CATALOG", "use", Resource.catalog("pg"), True),
        ("USE_SCHEMA", "use", Resource.database("pg", "shop"), True),
        ("MANAGE_GRANTS", "select", COLUMN, False),
        ("EXECUTE_FUNCTION", "execute", TABLE, False),
    ],
)
def test_each_privilege(privilege: str, access: str, resource: Resource, may: bool) -> None:
    assert allowed(rules(lake(on("pg", *USES, privilege))), access, resource) is may


def test_a_view_may_be_selected_from_where_it_is_named() -> None:
    view = (MetadataObject("VIEW", ("pg", "shop", "person")), (MetalakePrivilege("SELECT_VIEW"),))
    assert allowed(rules(lake(on("pg", *USES), view)), "select", COLUMN)


def test_what_cannot_be_mapped_is_counted() -> None:
    fileset = (MetadataObject("FILESET", ("fs", "a", "b")), (MetalakePrivilege("READ_FILESET"),))
    tags = (MetalakeTag(name="t", objects=(MetadataObject("TOPIC", ("k", "x", "y")),)),)
    found = rules(lake(on("pg", "CREATE_VIEW", "SELECT_VIEW", "CREATE_CATALOG"), fileset, tags=tags))
    assert found.unmapped_privileges == {
        "ALLOW CREATE_CATALOG on CATALOG": 1,
        "ALLOW CREATE_VIEW on CATALOG": 1,
        "ALLOW READ_FILESET on FILESET": 1,
        "ALLOW SELECT_VIEW on CATALOG": 1,
        "tags on TOPIC": 1,
    }


def test_names_that_are_patterns_allow_nothing() -> None:
    found = rules(lake(on("pg", *USES), on("pg.*", "SELECT_TABLE"), on("pg.{USER}", "SELECT_TABLE")))
    assert not allowed(found, "select", COLUMN)


def _tagged(place: str, *taken: str) -> tuple[TaggedResource, ...]:
    one, _ = on(place)
    metalake = Metalake(tags=(MetalakeTag(name="pii", properties={"level": "3"}, objects=(one,)),))
    return rules_of(metalake, taken, name="l", service="spark", privileges=False).tagged


def test_tags_are_put_where_they_are_and_in_every_catalog_for_a_metalake() -> None:
    (one,) = _tagged("pg.shop.person.card", "pg", "x")
    assert {k: v.values for k, v in one.resources.items()} == {
        "catalog": ("pg",),
        "database": ("shop",),
        "table": ("person",),
        "column": ("card",),
    }
    assert (one.tags[0].type, one.tags[0].attributes) == ("pii", {"level": "3"})
    assert [t.resources["catalog"].values for t in _tagged("", "pg", "x")] == [("pg",), ("x",)]
    assert _tagged("pg.shop", "x") == ()
    (odd,) = _tagged("pg.shop.person.{USER}", "pg")
    assert odd.resources["column"].values == ("?USER?",)


def test_a_service_without_catalogs_takes_no_privileges() -> None:
    from gateway.errors import Faults

    found = rules(lake(on("pg", *USES)), service="hive")
    base = Part(name="b", services={"hive": Service(name="hive", definition=DEFINITIONS["hive"])})
    with pytest.raises(Faults, match="has no catalogs"):
        combine((base, Part(name="m", services={}, policies=found.policies)), 1, {})


def test_a_definition_that_lacks_an_access_type_allows_less_and_denies_all() -> None:
    found = rules(lake(on("pg", *USES, "SELECT_TABLE", "!MODIFY_TABLE")), service="paimon")
    base = Part(name="b", services={"paimon": Service(name="paimon", definition=DEFINITIONS["paimon"])})
    made = combine((base, Part(name="m", services={}, policies=found.policies)), 1, {})
    known = {access.name for access in DEFINITIONS["paimon"].access_types}
    items = [item for policy in made.services["paimon"].policies for item in (*policy.allow, *policy.deny)]
    assert items
    assert all(item.accesses and item.accesses <= known for item in items)


@pytest.mark.parametrize("privileges", [False, True])
def test_a_policy_that_may_be_on_anything_closes_everything(privileges: Any) -> None:
    anything = MetadataObject("METALAKE", ())
    told = lake(on("pg", "USE_CATALOG", "USE_SCHEMA", "SELECT_TABLE"), restricted=(anything,))
    found = rules_of(told, ("pg", "other"), name="lake", service="spark", privileges=privileges)
    assert not allowed(found, "select", TABLE)
    assert found.unmapped_privileges["row filter or mask on METALAKE"] == 1


@pytest.mark.parametrize("privileges", [False, True])
@pytest.mark.parametrize("place", ["pg", "pg.shop", "pg.shop.person", "pg.shop.person.card"])
def test_what_a_policy_of_the_server_hides_rows_or_values_of_is_closed(
    place: str,
    privileges: Any,
) -> None:
    one, _ = on(place)
    told = lake(on("pg", "USE_CATALOG", "USE_SCHEMA", "SELECT_TABLE"), restricted=(one,))
    found = rules_of(told, ("pg",), name="lake", service="spark", privileges=privileges)
    assert not allowed(found, "select", TABLE)
    assert not allowed(found, "select", COLUMN)
    assert f"row filter or mask on {one.type}" in found.unmapped_privileges
    if place.startswith("pg.shop.person") and privileges:
        assert allowed(found, "select", Resource.table("pg", "shop", "other"))
