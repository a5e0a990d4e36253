"""What is asked of a Gravitino server: everything that a metalake holds, whole or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.catalog.gravitino import GravitinoMetalake
from gateway.catalog.readable import CatalogUnavailable
from gateway.catalog.rest import RestLogin
from gateway.model.metalakes import Level, MetadataObject, Metalake, MetalakePrivilege, Owner
from tests.catalog.gravitino_double import METALAKE, Gravitino


@asynccontextmanager
async def running(double: Gravitino) -> AsyncIterator[Gravitino]:
    await double.start()
    try:
        yield double
    finally:
        await double.stop()


async def asked(
    double: Gravitino,
    login: RestLogin | None = None,
    metalake: str = METALAKE,
    timeout_s: float = 60,
    *,
    privileges: bool = True,
) -> Metalake:
    client = GravitinoMetalake(
        double.url, metalake, lambda: login or RestLogin(), timeout_s=timeout_s, max_bytes=1024 * 1024
    )
    async with client:
        return await client.load_everything(tags=True, privileges=privileges)


def filled() -> Gravitino:
    double = Gravitino()
    double.add("pg", "jdbc-postgresql", jdbc_url="jdbc:postgresql://db/x", jdbc_password="hush")
    double.add("files", "hadoop", "fileset")
    double.tag("pii", "column", "pg.shop.person.card", level="3")
    double.tag("pii", "metalake", METALAKE)
    double.tag("odd", "table", "pg.shop.a.b")
    double.grant("reader", "catalog", "pg", "use_catalog", "!select_table")
    double.users["ann"] = ["reader"]
    double.groups["staff"] = ["reader"]
    double.owners["CATALOG", "pg"] = ("olga", "USER")
    double.owners["METALAKE", METALAKE] = ("admins", "GROUP")
    return double


async def test_everything_comes_in_our_nouns() -> None:
    async with running(filled()) as double:
        found = await asked(double)
    assert [(one.name, one.type, one.provider) for one in found.catalogs] == [
        ("files", "FILESET", "hadoop"),
        ("pg", "RELATIONAL", "jdbc-postgresql"),
    ]
    odd, pii = found.tags
    assert pii.properties == {"level": "3"}
    assert pii.objects == (
        MetadataObject("COLUMN", ("pg", "shop", "person", "card")),
        MetadataObject("METALAKE", ()),
    )
    assert (pii.objects[0].level, pii.objects[1].level, odd.objects[0].level) == (
        Level.COLUMN,
        Level.METALAKE,
        None,
    )
    ((on, privileges),) = found.roles[0].grants
    assert on == MetadataObject("CATALOG", ("pg",))
    assert privileges == (MetalakePrivilege("USE_CATALOG"), MetalakePrivilege("SELECT_TABLE", denied=True))
    assert (found.users, found.groups) == ({"ann": ("reader",)}, {"staff": ("reader",)})
    assert found.owners == {
        MetadataObject("CATALOG", ("pg",)): Owner(name="olga"),
        MetadataObject("METALAKE", ()): Owner(name="admins", group=True),
    }
    assert "hush" not in repr(found)


async def test_a_server_without_owners_has_none() -> None:
    double = filled()
    double.without_owners = True
    async with running(double):
        assert (await asked(double)).owners == {}


@pytest.mark.parametrize("part", ["", "/tags", "/objects", "/roles", "/users", "/groups", "/owners"])
@pytest.mark.parametrize("mood", ["garbage", "empty", "oversize", "slow", "redirect", "error"])
async def test_what_does_not_come_whole_does_not_come(mood: str, part: str) -> None:
    if mood == "slow" and part not in ("", "/tags"):
        return
    double = filled()
    double.mood, double.broken = mood, part
    async with running(double):
        if mood == "empty" and part == "/owners":
            await asked(double)  # nobody owns it
            return
        with pytest.raises(CatalogUnavailable) as raised:
            await asked(double, timeout_s=0.5 if mood == "slow" else 60)
    assert "hush" not in raised.value.message


async def test_a_metalake_that_is_not_there_and_nobody_at_all() -> None:
    async with running(filled()) as double:
        with pytest.raises(CatalogUnavailable, match="404"):
            await asked(double, metalake="other")
    with pytest.raises(CatalogUnavailable, match="no answer"):
        await asked(double)


async def test_logins() -> None:
    double = filled()
    double.login = ("olga", "hush")
    async with running(double):
        await asked(double, RestLogin(user="olga", password="hush"))
        for wrong in (RestLogin(), RestLogin(user="olga", password="hushed")):
            with pytest.raises(CatalogUnavailable, match="401") as raised:
                await asked(double, wrong)
            assert "hush" not in raised.value.message


@pytest.mark.parametrize("secret", ["hush", "with:colon"])
async def test_client_credentials_are_exchanged_once(secret: str) -> None:
    double = filled()
    double.client = ("me", secret)
    async with running(double):
        url = f"{double.url}/oauth/token"
        await asked(double, RestLogin(token_url=url, credential=f"me:{secret}", scope="all"))
        assert double.tokens == 1
        with pytest.raises(CatalogUnavailable, match="login was refused") as raised:
            await asked(double, RestLogin(token_url=url, credential="me:hush-hush"))
        assert "hush-hush" not in raised.value.message


@pytest.mark.parametrize("status", [403, 404])
async def test_a_role_that_is_not_shown_stays_with_who_has_it(status: int) -> None:
    double = filled()
    double.grant("denies", "catalog", "pg", "!select_table")
    double.users["ann"] = ["reader", "denies"]
    double.hidden = {"denies": status}
    async with running(double):
        found = await asked(double)
    assert [role.name for role in found.roles] == ["reader"]
    assert found.users == {"ann": ("reader", "denies")}
    assert found.hidden_roles == {"denies"}


async def test_a_role_that_the_list_lacks_is_asked_for_by_its_name() -> None:
    double = filled()
    double.grant("denies", "catalog", "pg", "!select_table")
    double.users["ann"] = ["denies"]
    double.unlisted = {"denies"}
    async with running(double):
        found = await asked(double)
    assert [role.name for role in found.roles] == ["denies", "reader"]
    assert not found.hidden_roles


async def test_a_role_that_went_meanwhile_is_nobodys() -> None:
    double = filled()
    double.users["ann"] = ["gone"]
    double.after["/users"] = lambda: double.users.update(ann=["reader"])
    async with running(double):
        found = await asked(double)
    assert found.users == {"ann": ("reader",)}
    assert not found.hidden_roles


async def test_a_tag_whose_objects_are_not_shown_is_told() -> None:
    double = filled()
    double.hidden = {"pii": 404}
    async with running(double):
        with pytest.raises(CatalogUnavailable, match="does not list the objects with the tag `pii`"):
            await asked(double)
        double.after["/objects"] = lambda: double.tags.pop("pii", None)
        assert [tag.name for tag in (await asked(double)).tags] == ["odd"]


async def test_many_tags_and_roles_come_in_order() -> None:
    double = filled()
    for number in range(30):
        double.tag(f"t{number}", "catalog", "pg")
        double.grant(f"r{number}", "catalog", "pg", "use_catalog")
    async with running(double):
        found = await asked(double)
        assert len(found.tags) == 32
        assert [tag.name for tag in found.tags] == sorted(tag.name for tag in found.tags)
        assert len(found.roles) == 31


async def test_objects_whose_rows_or_values_a_policy_hides_are_told_also_by_tags() -> None:
    double = filled()
    double.policies = {
        "rows": "system_row_filter",
        "mask": "system_column_mask",
        "off": "system_row_filter",
        "other": "system_iceberg_compaction",
    }
    double.policies_off = {"off"}
    double.applied = {
        "rows": [("TABLE", "pg.shop.person")],
        "mask": [("TAG", "odd")],
        "off": [("CATALOG", "pg")],
        "other": [("CATALOG", "pg")],
    }
    async with running(double):
        found = await asked(double)
        assert set(found.restricted) == {
            MetadataObject("TABLE", ("pg", "shop", "person")),
            MetadataObject("TABLE", ("pg", "shop", "a", "b")),
        }
        # On nothing, or on what this account may not see: nobody can tell.
        double.applied["rows"] = []
        assert MetadataObject("METALAKE", ()) in (await asked(double)).restricted
        # A later version of them is not known here, and hides something all the same.
        double.policies["later"], double.applied["later"] = "system_row_filter_v2", [("TABLE", "pg.shop.z")]
        later = [one for one in (await asked(double)).restrictions if one.name == "later"]
        assert [(one.expression, [str(each) for each in one.objects]) for one in later] == [
            ("", ["table pg.shop.z"])
        ]
        double.applied["mask"] = [("TAG", "unknown")]
        with pytest.raises(CatalogUnavailable, match="on a tag whose objects are not listed"):
            await asked(double)
        double.hidden = {"rows": 404}
        with pytest.raises(CatalogUnavailable, match="does not list the objects with the policy `rows`"):
            await asked(double)


async def test_a_policy_that_asks_about_a_group_which_nobody_knows_is_not_enforced() -> None:
    double = filled()
    rows = 'filter := true if not is_group_member("{}") else := col("owner") == session_user()'
    mask = 'mask := action("show-last-4") if is_group_member("{}") else := action("replace-with-null")'
    double.policies = {f"{name}-{kind.split('_')[1]}": kind for name in ("staff", "stuff") for kind in
                       ("system_row_filter", "system_column_mask")}  # fmt: skip
    double.contents = {
        name: {"expression": (rows if name.endswith("row") else mask).format(name.split("-")[0])}
        for name in double.policies
    }
    double.applied = {name: [("TABLE", "pg.shop.person")] for name in double.policies}
    async with running(double):
        for privileges in (True, False):
            found = await asked(double, privileges=privileges)
            expressions = {one.name: bool(one.expression) for one in found.restrictions}
            assert expressions == {
                "staff-row": True, "staff-column": True, "stuff-row": False, "stuff-column": False,
            }  # fmt: skip
            assert [str(one) for one in found.restricted] == ["table pg.shop.person"]


async def test_policies_that_are_understood_come_with_what_they_are_on() -> None:
    double = filled()
    rows, mask = 'filter := col("owner") == session_user()', 'mask := action("show-last-4")'
    double.policies = {
        "rows": "system_row_filter",
        "mask": "system_column_mask",
        "odd": "system_row_filter",
        "more": "system_column_mask",
    }
    double.contents = {
        "rows": {"expression": rows, "supportedObjectTypes": ["TABLE"], "properties": {"a": "b"}},
        "mask": {"expression": mask},
        "odd": {"expression": "owner = current_user()"},
        "more": {"expression": mask, "function": {"reference": "f@v1"}},
    }
    double.applied = {
        "rows": [("TABLE", "pg.shop.person"), ("COLUMN", "pg.shop.person.card"), ("TAG", "odd")],
        "mask": [("COLUMN", "pg.shop.person.card"), ("SCHEMA", "pg.shop"), ("VIEW", "pg.shop.v")],
        "odd": [("TABLE", "pg.shop.a")],
        "more": [("COLUMN", "pg.shop.b.c")],
    }
    async with running(double):
        found = await asked(double)
    enforced = [one for one in found.restrictions if one.expression]
    assert [(one.name, one.hides, one.expression) for one in enforced] == [
        ("mask", "values", mask),
        ("rows", "rows", rows),
    ]
    on = {one.name: [str(each) for each in one.objects] for one in enforced}
    assert on["mask"] == ["column pg.shop.person.card", "schema pg.shop"]
    assert on["rows"] == ["table pg.shop.person"]
    # A filter of a column, a mask of a view, a name with dots, and what is not understood are closed.
    assert {str(one) for one in found.restricted} == {
        "column pg.shop.person.card",
        "view pg.shop.v",
        "table pg.shop.a.b",
        "table pg.shop.a",
        "column pg.shop.b.c",
    }
    # They say so themselves too: rules are put in force one after the other.
    told = {str(each) for one in found.restrictions if not one.expression for each in one.objects}
    assert told == {str(one) for one in found.restricted}
    (person, other) = (("pg", "shop", "Person"), ("pg", "other", "person"))
    by_name = {one.name: one for one in enforced}
    assert by_name["rows"].covers(person)
    assert not by_name["rows"].covers(other)
    assert by_name["mask"].list_columns(person) == ["card"]
    assert by_name["mask"].list_columns(other) == []
