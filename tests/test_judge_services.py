"""The judge where services of a Ranger Admin govern catalogs: by Paimon's definition, and by Hive's."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gateway.model.policy import PolicySet, Service
from gateway.model.statement import Cleared, Refused
from gateway.policy.ranger import load, write_definition
from gateway.reader.pool import ReaderPool
from tests.judge_world import CASES, World
from tests.policy.ranger_data import shipped

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
            t.name.folded(): t for t in (self._table(name, found) for name, found in DATA["tables"].items())
        }
        hive = {key: value for key, value in write_definition(shipped()["hive"]).items() if key != "options"}
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
