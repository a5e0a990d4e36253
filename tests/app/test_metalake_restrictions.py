"""What policies of a Gravitino server hide, from its list to the verdict: rows, values, conflicts, versions,
and two users of one gateway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from gateway.app.metalake_restrictions import JoinedRestrictions
from gateway.model.catalog import Column, Table, TableKind, TableName
from gateway.model.metalakes import MetadataObject, MetalakeRestriction
from gateway.model.principal import Principal
from gateway.model.restrictions import SALT_MARK, TableRestrictions
from gateway.model.statement import Cleared, Client, Refused, SessionContext, Statement, Verdict
from gateway.pipeline import Rules, judge
from gateway.policy.engine import engine_for
from gateway.policy.packs import load_packs
from gateway.policy.service_defs import load_service_defs
from gateway.reader.pool import ReaderPool
from gateway.session.verdicts import VerdictInputs, Verdicts
from tests.judge_world import SERVICE_DEFS
from tests.session.fakes import FakeCatalog, FakePolicies

pytestmark = pytest.mark.asyncio(loop_scope="session")

COLUMNS = (("id", "bigint"), ("owner", "string"), ("card", "string"), ("tags", "array<string>"))
PACK = """
service: spark
policies:
  - name: all
    on: {catalog: "*", database: "*", table: "*", column: "*"}
    allow: [{groups: [public], access: [all, metadata]}]
  - name: own filter
    on: {catalog: pg, database: shop, table: both}
    filter: [{groups: [public], where: "id > 3"}]
"""
OWN = 'filter := col("owner") == session_user()'
AUDITED = f'filter := true if is_group_member("auditors") else := {OWN.removeprefix("filter := ")}'
ALPHA = 'mask := action("mask-alphanum")'
LAST_4 = 'mask := action("show-last-4")'


def policy(expression: str, *on: str, name: str = "p") -> MetalakeRestriction:
    levels = ("METALAKE", "CATALOG", "SCHEMA", "TABLE", "COLUMN")
    objects = [MetadataObject(levels[len(one.split(".")) if one else 0], tuple(one.split(".")) if one else ())
               for one in on]  # fmt: skip
    hides: Any = "rows" if expression.startswith("filter") else "values"
    return MetalakeRestriction(name=name, hides=hides, expression=expression, objects=tuple(objects))


class Lakes:
    """Metalakes that have catalogs `pg` and `other`, and what their policies hide."""

    def __init__(self) -> None:
        self.policies: list[MetalakeRestriction] = []

    def list_restrictions(self) -> Mapping[str, Sequence[MetalakeRestriction]]:
        return dict.fromkeys(("pg", "other"), self.policies) if self.policies else {}


class Asked:
    """A REST catalog, and what it says."""

    def __init__(self) -> None:
        self.told: TableRestrictions | None = None

    @property
    def catalogs(self) -> frozenset[str]:
        return frozenset({"pg"}) if self.told is not None else frozenset()

    async def ask(self, *_: Any, **__: Any) -> TableRestrictions:
        assert self.told is not None
        return self.told


class World:
    def __init__(self, reader: ReaderPool) -> None:
        self.lakes, self.asked, self.catalog = Lakes(), Asked(), FakeCatalog()
        self.catalog.snapshot = replace(
            self.catalog.snapshot, catalogs=frozenset({"spark_catalog", "pg", "other"})
        )
        for name in ("pg.shop.t", "pg.shop.both", "pg.other.t", "other.shop.t"):
            self.catalog.add(name, *COLUMNS)
        definitions = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
        services = dict.fromkeys(("spark_catalog", "pg", "other"), "spark")
        policies = load_packs({"pack.yaml": PACK}, definitions, 1, catalog_services=services)
        asked: Any = self.asked
        lakes: Any = self.lakes
        self.verdicts = Verdicts(
            VerdictInputs(
                judge=partial(judge, reader=reader, rules=Rules()),
                policies=FakePolicies(lambda: policies, engine_for),
                catalog=self.catalog,
                restrictions=JoinedRestrictions(asked, lakes),
            )
        )

    async def ask(self, sql: str, user: str, *groups: str) -> Verdict:
        who = Principal(user=user, groups=frozenset(groups))
        context = SessionContext(catalog="pg", namespace=("shop",))
        return await self.verdicts.judge(
            Statement(text=sql, principal=who, context=context), Client(protocol="thrift")
        )

    async def sent(self, sql: str, user: str = "bob", *groups: str) -> str:
        verdict = await self.ask(sql, user, *groups)
        assert isinstance(verdict, Cleared), verdict
        return verdict.forwarded

    async def refusal(self, sql: str, user: str = "bob", *groups: str) -> str:
        verdict = await self.ask(sql, user, *groups)
        assert isinstance(verdict, Refused), verdict
        return verdict.message


@pytest.fixture
def world(reader: ReaderPool) -> World:
    return World(reader)


async def test_a_filter_is_of_each_user_and_comes_and_goes(world: World) -> None:
    sql = "SELECT id FROM t"
    assert "WHERE" not in await world.sent(sql)
    world.lakes.policies = [policy(AUDITED, "pg.shop")]
    assert "`owner` <=> 'bob'" in await world.sent(sql)
    assert "`owner` <=> 'ann'" in await world.sent(sql, "ann")
    assert "WHERE" not in await world.sent(sql, "ann", "auditors")
    # Nobody has what another was told, nor what he was told in another group.
    assert "`owner` <=> 'bob'" in await world.sent(sql, "bob", "others")
    assert "WHERE" not in await world.sent("SELECT id FROM pg.other.t")
    assert "WHERE" not in await world.sent("SELECT id FROM other.shop.t")
    world.lakes.policies = [policy('filter := col("id") > 5', "pg.shop.T")]
    assert "> CAST('5' AS bigint)" in await world.sent(sql, "ann", "auditors")
    world.lakes.policies = []
    assert "WHERE" not in await world.sent(sql)


async def test_what_was_judged_is_judged_anew_when_the_last_policy_goes(world: World) -> None:
    world.lakes.policies = [policy(OWN, "pg.shop.t")]
    assert "`owner` <=> 'bob'" in await world.sent("SELECT id FROM t")
    look_ups = world.catalog.look_ups
    assert "`owner` <=> 'bob'" in await world.sent("SELECT id FROM t")
    assert world.catalog.look_ups == look_ups
    world.lakes.policies = []
    assert "WHERE" not in await world.sent("SELECT id FROM t")


async def test_a_namespace_has_what_the_one_above_it_has(world: World) -> None:
    world.lakes.policies = [policy(OWN, "pg.shop")]
    world.catalog.known[TableName("pg", "shop.eu", "t")] = Table(
        name=TableName("pg", "shop.eu", "t"),
        kind=TableKind.TABLE,
        columns=tuple(Column(name=name, type=kind) for name, kind in COLUMNS),
    )
    assert "`owner` <=> 'bob'" in await world.sent("SELECT id FROM pg.shop.eu.t")
    assert not world.lakes.policies[0].covers(("pg", "shopping", "t"))


async def test_a_filter_counts_beside_that_of_a_pack(world: World) -> None:
    world.lakes.policies = [policy(OWN, "")]
    text = await world.sent("SELECT owner FROM both")
    assert "`owner` <=> 'bob'" in text
    assert "id > 3" in text


async def test_a_name_in_a_policy_is_no_sql(world: World) -> None:
    world.lakes.policies = [policy(OWN, "pg")]
    text = await world.sent("SELECT id FROM t", "o'brien' OR TRUE OR 'x")
    assert "brien" not in text
    assert "OR TRUE" not in text


async def test_masks_are_icebergs_and_of_the_columns_that_they_are_on(world: World) -> None:
    world.lakes.policies = [policy(LAST_4, "pg.shop.t.CARD")]
    masked = await world.sent("SELECT id, card FROM t")
    assert "SUBSTRING(`card`" in masked
    assert "SUBSTRING(`owner`" not in masked
    assert "regexp_replace" not in await world.sent("SELECT card FROM both")
    world.lakes.policies = [policy('mask := action("sha-256-query-local")', "pg.shop.t.card")]
    first, second = [await world.sent("SELECT card FROM t") for _ in range(2)]
    assert SALT_MARK in first
    assert first != second
    # On a schema it is on every column, and most have no last four characters.
    world.lakes.policies = [policy(LAST_4, "pg.shop")]
    assert "restricts table pg.shop.t" in await world.refusal("SELECT id FROM t")


@pytest.mark.parametrize(
    ("policies", "why"),
    [
        ([policy(OWN, "pg"), policy('filter := col("id") > 5', "pg.shop")], "contradict"),
        ([policy(LAST_4, "pg.shop.t.card"), policy(ALPHA, "pg.shop.t.card")], "contradict"),
        ([policy('filter := col("absent") == 1', "pg.shop")], "which the table does not have"),
        ([policy('filter := col("tags") == "x"', "pg.shop")], "not a single value"),
        ([policy('filter := col("id") == "x"', "pg.shop")], "none of the type `long`"),
        ([policy(LAST_4, "pg.shop.t.gone")], "a column that the table does not have"),
        ([policy('mask := action("truncate-to-year")', "pg.shop.t.card")], "restricts table"),
    ],
)  # fmt: skip
async def test_what_cannot_be_enforced_closes_its_table(
    world: World, policies: list[MetalakeRestriction], why: str
) -> None:
    world.lakes.policies = policies
    assert why in await world.refusal("SELECT id FROM t")
    for text in ("INSERT INTO other.shop.t SELECT * FROM pg.shop.t", "SELECT count(*) FROM t"):
        assert isinstance(await world.ask(text, "bob"), Refused)


async def test_what_is_not_enforced_closes_without_rules_of_its_own(world: World) -> None:
    sql = "SELECT id FROM t"
    world.lakes.policies = [policy(OWN, "pg.shop.t")]
    assert "<=> 'bob'" in await world.sent(sql)
    # Its author has changed it, and the rules that close its table are not in force yet.
    world.lakes.policies = [replace(policy(OWN, "pg.shop.t"), expression="")]
    assert "are not enforced on it" in await world.refusal(sql)
    assert "are not enforced on it" in await world.refusal(sql, "ann", "auditors")
    assert "WHERE" not in await world.sent("SELECT id FROM pg.other.t")


async def test_what_closes_a_table_by_itself_outlasts_policies_of_others(world: World) -> None:
    """A table with `query-auth.enabled` has a fault of its own, and its metalake has policies elsewhere."""
    name = TableName("pg", "shop", "t")
    fault = TableRestrictions(catalog="pg", fault="it has `query-auth.enabled`")
    world.catalog.known[name] = replace(world.catalog.known[name], restrictions=fault)
    assert "query-auth" in await world.refusal("SELECT id FROM t")
    for on in ("pg.other.t", "pg.shop.t", "pg.shop"):
        world.lakes.policies = [policy(OWN, on)]
        assert "query-auth" in await world.refusal("SELECT id FROM t")
    world.asked.told = TableRestrictions(catalog="pg")
    assert "query-auth" in await world.refusal("SELECT id FROM t")


async def test_equal_policies_are_one(world: World) -> None:
    world.lakes.policies = [policy(OWN, "pg", name="a"), policy(f"{OWN} ", "pg.shop", name="b")]
    assert (await world.sent("SELECT id FROM t")).count("<=>") == 1


async def test_a_catalog_and_its_metalake_are_not_mixed(world: World) -> None:
    world.asked.told = TableRestrictions(catalog="pg")
    world.lakes.policies = [policy(OWN, "pg.shop.t")]
    assert "<=> 'bob'" in await world.sent("SELECT id FROM t")
    world.asked.told = TableRestrictions(catalog="pg", fault="something")
    assert "something" in await world.refusal("SELECT id FROM both")
    assert "something" in await world.refusal("SELECT id FROM t")
