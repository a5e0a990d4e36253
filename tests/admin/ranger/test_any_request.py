"""Whatever is asked of whichever endpoint, the answer is never that something unexpected happened."""

from __future__ import annotations

import random
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson
from apache_ranger.client.ranger_client import RangerClient

from gateway.admin import ranger
from gateway.admin.ranger import api
from gateway.admin.ranger.api import ROUTES
from tests.admin.conftest import Served
from tests.admin.ranger.objects import item

SEED, REQUESTS = 7, 1500
PARTS = ["1", "dev_hive", "x", "n1", "2", "9" * 20, "a%2Fb", "-1"]
SERVICES = ["dev_hive", "dev_tag", "x"]
PARAMETERS = """pageSize startIndex sortBy sortType policyType serviceName zoneName days type retentionDays
    resource:database resourceMatchScope forceDelete serviceId zoneId isEnabled lastKnownVersion
    updateIfExists mergeIfExists supportsPolicyDeltas execUser name userId groupSource eventTime""".split()
TEXTS = ["1", "x", "true", "", "-1", "9" * 20, "%"]
WRONG: list[Any] = [
    None,
    1,
    -1,
    "x",
    "",
    [],
    {},
    [None],
    ["a"],
    {"a": None},
    {"a": {"b": 1}},
    True,
    1.5,
    2**63,
]
RIGHT: dict[str, Any] = {
    "name": "n1",
    "service": "dev_hive",
    "type": "hive",
    "op": "set",
    "users": ["a"],
    "resources": {"database": {"values": ["x"]}},
    "policyItems": [item("create", users="a")],
    "services": {"dev_hive": {"resources": [{"database": ["q"]}]}},
    "adminUsers": ["a"],
    "auditUsers": ["a"],
    "resource": {"database": "d"},
    "accessTypes": ["create"],
    "targetRoles": ["n1"],
    "grantor": "admin",
}
FIELDS = """name id guid service type resources policyItems services users groups roles op tags
    serviceResources resourceToTagIds tagDefinitions resource accessTypes targetRoles grantor configs
    policyType zoneName adminUsers auditUsers tagServices admins auditors resourcesToUpdate adminsToAdd
    userId parentGroupId
    groupIdList otherAttributes version isEnabled dataMaskDef loggerName logLevel validitySchedules conditions
    additionalResources""".split()


def request(chance: random.Random) -> tuple[str, str, dict[str, str], bytes | None]:
    route = chance.choice(ROUTES)
    path = re.sub(r"\{(\w+)\}", lambda m: chance.choice(SERVICES if m[1] == "service" else PARTS), route.path)
    parameters = {name: chance.choice(TEXTS) for name in chance.sample(PARAMETERS, chance.randint(0, 4))}
    if route.method not in ("POST", "PUT"):
        return route.method, path, parameters, None
    body = {name: value for name, value in RIGHT.items() if chance.random() < 0.8}
    body |= {name: chance.choice(WRONG) for name in chance.sample(FIELDS, chance.randint(0, 3))}
    return route.method, path, parameters, orjson.dumps(body)


def test_the_routes_of_every_module_are_served() -> None:
    package = Path(ranger.__file__).parent
    of_modules = [import_module(f"{ranger.__name__}.{path.stem}") for path in sorted(package.glob("*.py"))]
    routes = [route for module in of_modules if module is not api for route in getattr(module, "ROUTES", ())]
    assert set(map(id, routes)) == set(map(id, ROUTES))


async def test_any_request(served: Served) -> None:
    def fill(client: RangerClient) -> None:
        client.create_service({"name": "dev_hive", "type": "hive"})

    await served.drive(fill)
    chance = random.Random(SEED)
    statuses = set()
    for _ in range(REQUESTS):
        method, path, parameters, body = request(chance)
        status, answer = await served.ask(method, path, body, params=parameters)
        assert status < 500, (method, path, parameters, body, answer)
        statuses.add(status)
    assert {200, 204, 400, 404} <= statuses
