"""The gateway's own source of policies downloads from this API: made by Ranger's client, in force here."""

from __future__ import annotations

import time
from random import Random
from typing import Any

from apache_ranger.client.ranger_client import RangerClient as RangersClient
from apache_ranger.model.ranger_policy import RangerPolicy
from apache_ranger.model.ranger_role import RangerRole
from apache_ranger.model.ranger_service import RangerService as Service

from gateway.policy.service_defs import parse_service_def
from gateway.sources.ranger_client import AdminOptions, RangerClient
from gateway.sources.ranger_content import CachedService
from gateway.sources.ranger_service import RangerService, ServiceOptions
from tests.admin.conftest import DEFINITIONS, PASSWORD, Served

ORDERS = {"database": {"values": ["shop"]}, "table": {"values": ["orders"]}, "column": {"values": ["*"]}}


def policy(name: str, table: str, **more: Any) -> RangerPolicy:
    resources = {**ORDERS, "table": {"values": [table]}}
    items = [{"roles": ["clerks"], "accesses": [{"type": "select"}]}]
    return RangerPolicy(
        {"service": "dev_hive", "name": name, "resources": resources, "policyItems": items, **more}
    )


class Plugin:
    """A gateway's source; time passes when a test says so."""

    def __init__(self, served: Served) -> None:
        self.now = 0.0
        self.taken: list[CachedService] = []
        options = AdminOptions(
            urls=(served.url,),
            service="dev_hive",
            plugin_id="sluice@test-dev_hive",
            user="plugin",
            password=lambda: PASSWORD,
            secure=True,
        )
        self.client = RangerClient(options)
        file = DEFINITIONS / "hive.yaml"
        self.source = RangerService(
            ServiceOptions(name="dev_hive", definition=parse_service_def(file.read_text(), str(file))),
            self.client,
            self._offer,
            clock=lambda: self.now,
            wall_clock=time.time,
            random=Random(1),
        )

    async def _offer(self, held: CachedService) -> None:
        self.taken.append(held)

    async def look(self) -> bool:
        self.now += 100_000
        return await self.source.look()

    @property
    def names(self) -> list[str]:
        return sorted(policy.name for policy in self.source.held.service.policies)


async def test_what_rangers_client_makes_is_in_force_in_a_gateway(served: Served) -> None:
    def first(client: RangersClient) -> None:
        client.create_service(Service({"name": "dev_hive", "type": "hive"}))
        client.create_role("dev_hive", RangerRole({"name": "clerks", "users": [{"name": "ann"}]}))
        client.create_policy(policy("orders", "orders"))
        client.create_policy(policy("leads", "leads"))

    def second(client: RangersClient) -> None:
        client.update_policy("dev_hive", "orders", policy("all orders", "orders"))
        client.delete_policy("dev_hive", "leads")
        client.create_policy(policy("stock", "stock"))

    plugin = Plugin(served)
    await served.drive(first)
    async with plugin.client:
        await plugin.source.start()
        assert plugin.source.troubles == ()
        assert plugin.names == ["leads", "orders"]
        assert [role.name for role in plugin.source.held.roles] == ["clerks"]
        assert plugin.source.stale() is None
        assert not await plugin.look()

        await served.drive(second)
        assert await plugin.look()
        assert plugin.source.troubles == ()
        assert plugin.names == ["all orders", "stock"]

        _, plugins = await served.ask("GET", "/public/v2/api/plugins/info")
        assert [one["serviceName"] for one in plugins] == ["dev_hive"]

        await served.drive(lambda client: client.delete_service("dev_hive"))
        assert await plugin.look()
        assert plugin.names == []


async def test_a_service_that_is_switched_off_allows_nothing(served: Served) -> None:
    def made(client: RangersClient) -> None:
        client.create_service(Service({"name": "dev_hive", "type": "hive"}))
        client.create_policy(policy("orders", "orders"))

    plugin = Plugin(served)
    await served.drive(made)
    async with plugin.client:
        await plugin.source.start()
        for on, names in ((False, []), (True, ["orders"])):

            def work(client: RangersClient, on: bool = on) -> None:
                client.update_service("dev_hive", {**client.get_service("dev_hive"), "isEnabled": on})

            await served.drive(work)
            assert await plugin.look()
            assert (plugin.names, plugin.source.troubles) == (names, ())
            assert plugin.source.stale() is None
