"""The judge where services of a Ranger Admin govern catalogs: by Paimon's definition, and by Hive's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from gateway.model.catalog import CatalogSnapshot, TableName
from gateway.model.policy import PolicySet, Service
from gateway.model.snapshot import Snapshot
from gateway.model.statement import Cleared, NeedsCatalog, Refused, SessionContext, Statement
from gateway.pipeline import judge
from gateway.policy.ranger import load
from gateway.reader.pool import ReaderPool
from tests.judge_world import CASES, World, _name
from tests.policy.ranger import data as ranger_data
from tests.policy.ranger.data import shipped

pytestmark = pytest.mark.asyncio(loop_scope="session")
DATA: dict[str, Any] = yaml.safe_load((CASES / "services.yaml").read_text(encoding="utf-8"))


class ServicesWorld(World):
    """The same world with other tables and people, governed by two services of Ranger's."""

    def __init__(self) -> None:
        super().__init__()
        self.data = self.data | {
            "people": DATA["people"],
            "catalogs": ["spark_catalog", "lake", "third"],
        }
        self.tables = {
            t.name.fold(): t for t in (self._table(name, found) for name, found in DATA["tables"].items())
        }
        for name, owner in DATA["owners"].items():
            known = self.tables[_name(name)]
            self.tables[known.name.fold()] = replace(known, owner=owner)
        hive = {key: value for key, value in ranger_data.hive().items() if key != "options"}
        services = [
            self.service(DATA["paimon"], DATA["definitions"]["paimon"]),
            self.service(DATA["hive"], hive),
        ]
        self.policies = PolicySet(
            version=1,
            services={
                service.name: service
                for service in (*services, Service(name="spark", definition=shipped()["spark"]))
            },
            catalog_services={"lake": "dev_paimon", "spark_catalog": "dev_hive"},
        )

    def service(self, download: dict[str, Any], definition: dict[str, Any]) -> Service:
        (service,) = load(download | {"serviceDef": definition}, service_defs=shipped()).services.values()
        return service


@pytest.fixture(scope="module")
def world() -> ServicesWorld:
    return ServicesWorld()


@pytest.mark.parametrize("case", DATA["statements"], ids=lambda case: f"{case['as']}: {case['sql']}")
async def test_statement(case: dict[str, Any], world: ServicesWorld, reader: ReaderPool) -> None:
    verdict = await world.judge(case["sql"], reader, user=case["as"], use="default")
    if "refused" in case:
        code, words = case["refused"]
        assert isinstance(verdict, Refused), verdict
        assert verdict.code == code, verdict
        assert words in verdict.message
        return
    assert isinstance(verdict, Cleared), verdict
    for words in case["forwards_like"]:
        assert words in verdict.forwarded
    assert case.get("without", "\0") not in verdict.forwarded


@pytest.mark.parametrize(
    ("user", "sql", "known", "allowed"),
    [
        ("ann", "SELECT note FROM own.annas", "annas", True),
        ("ann", "SELECT note FROM own.bobs", "bobs", False),
        ("ann", "SELECT note FROM own.gone", "gone", False),
        ("ann", "INSERT INTO own.annas VALUES (1, 'x')", "annas", True),
        ("bob", "INSERT INTO own.annas VALUES (1, 'x')", "annas", False),
        ("bob", "DROP TABLE own.bobs", "bobs", True),
        ("ann", "DROP TABLE own.annas", "annas", False),
        ("ann", "DROP TABLE own.gone", "gone", False),
    ],
)
async def test_a_table_is_looked_up_where_it_matters_who_owns_it(
    user: str, sql: str, known: str, *, allowed: bool, world: ServicesWorld, reader: ReaderPool
) -> None:
    statement = Statement(
        text=sql, principal=world.principal(user), context=SessionContext(namespace=("default",))
    )
    catalog = CatalogSnapshot(version=1, catalogs=frozenset(world.data["catalogs"]))
    asked = await judge(statement, Snapshot(policies=world.policies, catalog=catalog), reader)
    name = TableName("spark_catalog", "own", known)
    assert isinstance(asked, NeedsCatalog)
    assert asked.tables == (name,)
    missing = frozenset() if name in world.tables else frozenset({name})
    verdict = await judge(statement, world.snapshot(missing), reader)
    assert isinstance(verdict, Cleared if allowed else Refused), verdict


async def test_nothing_is_looked_up_where_owners_do_not_matter(
    world: ServicesWorld, reader: ReaderPool
) -> None:
    statement = Statement(
        text="SELECT id FROM hr.employee", principal=world.principal("eve"), context=SessionContext()
    )
    catalog = CatalogSnapshot(version=1, catalogs=frozenset(world.data["catalogs"]))
    verdict = await judge(statement, Snapshot(policies=world.policies, catalog=catalog), reader)
    assert isinstance(verdict, Refused)
