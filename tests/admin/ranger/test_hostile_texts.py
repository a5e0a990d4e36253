"""Whatever is written over REST is refused with its place, or accepted and can be put in force."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from gateway.app.proving import Proofs
from gateway.app.ranger_admin import RangerAdmin
from gateway.model.policy import PolicySet
from gateway.policy.engine import Engine
from gateway.policy.ranger import load_files
from gateway.policy.unusable import broken_policies
from gateway.reader.pool import ReaderPool
from gateway.settings.models import PolicySettings, RangerApiSettings
from tests.admin.conftest import Served
from tests.admin.ranger.test_access import API, filtering, masking, policy
from tests.frontends.listening import Gateway
from tests.policy.scenarios import definitions
from tests.session.fakes import World

pytestmark = pytest.mark.asyncio(loop_scope="session")
IMPORT = "/plugins/policies/importPoliciesFromFile"
DOWNLOAD = "/plugins/policies/download/dev_hive"


async def hostile(served: Served, reader: ReaderPool) -> None:
    """Have a service, and texts read by Spark's own parser."""
    assert (await served.ask("POST", f"{API}/service", {"name": "dev_hive", "type": "hive"}))[0] == 200
    admin = RangerAdmin(
        RangerApiSettings(administrators=("admin",)),
        PolicySettings(),
        "postgresql://nobody@127.0.0.1:9/none",
        Gateway(World()).authenticator,
        reader,
    )
    served.access.read_text = admin.read_text


async def require_enforceable(served: Served, reader: ReaderPool) -> None:
    """Load what plugins download, as the gateway does: nothing of it is at fault."""
    status, found = await served.ask("GET", DOWNLOAD, headers={"Accept": "application/json"}, user="plugin")
    assert status == 200, found
    loaded = load_files({"dev_hive.json": orjson.dumps(found)}, definitions(), tolerant=True)
    policies = PolicySet(version=1, services=loaded.services, roles=loaded.roles)
    assert [(one.name, one.broken) for one in broken_policies(policies)] == []
    assert await Proofs().unusable(policies, reader) == []
    Engine(policies)


async def sent(served: Served, body: Any, reader: ReaderPool, path: str = f"{API}/policy") -> tuple[int, str]:
    """Store a policy; what is refused says why, and what is taken can be put in force."""
    status, told = await served.ask("POST", path, body)
    if status == 200:
        await require_enforceable(served, reader)
        assert (await served.ask("DELETE", f"{API}/policy/{told['id']}"))[0] == 204
        return status, ""
    assert status == 400, (status, told)
    assert told["msgDesc"], told
    return status, str(told["msgDesc"])


DEEP = 3_000
TEXTS = (
    "((",
    ")",
    "foo(",
    "a = = 1",
    "a +",
    "",
    "   ",
    "\u00a0",
    "true",
    "1",
    "NULL",
    "a; b",
    "a -- b",
    "a /* b */",
    "a = 'b",
    'a = "b',
    "`a",
    "a = '{USER}'",
    "a = {USER",
    "a = {USER.}",
    "a = {USER.region}",
    "a = {NOBODY}",
    "a = ${{USER.region}}",
    "a = ${{USER.}}",
    "a = ${{((((}}",
    "a = ${{}}",
    "a = '${{USER.x}}'",
    "a = ${env:HOME}",
    "a = :p",
    "a = ?",
    "a = 1 AS b",
    "a, b",
    "*",
    "count(*)",
    "sum(a) OVER ()",
    "explode(array(a))",
    "SELECT 1",
    "(SELECT 1)",
    "EXISTS (SELECT 1)",
    "a IN (WITH x AS (SELECT 1) SELECT * FROM x)",
    "DATE'foo'",
    "TIMESTAMP'foo'",
    "INTERVAL 'foo' DAY",
    "1e999999",
    "1" * 60,
    "CAST(a AS foo)",
    "CAST(a AS decimal(99, 99))",
    "nosuch(a)",
    "x.y.z.f(a)",
    "reflect('java.lang.System', 'exit')",
    "a LIKE 'x' ESCAPE 'yy'",
    "transform(a, x -> x)",
    "a[",
    "a.b.c.d.e.f = 1",
    "r'a'",
    "X'0'",
    "U&'a'",
    "\u202ea = 1",
    "a\x07b",
    "a\nb",
    "\ufeffa = 1",
    "\U0001f600 = 1",
    "`\U0001f600` = 1",
    "a = '\U0001f600'",
    "a = 'x\\",
    "a = 'x\\''",
    "a = \\",
    "a = 'x' 'y'",
    "a = 1" + " OR a = 1" * 1_000,
    "a IN (" + ", ".join(map(str, range(3_000))) + ")",
    "a = '" + "x" * 16_000 + "'",
    "a = '" + "x" * 20_000 + "'",
    "(" * DEEP + "a" + ")" * DEEP,
    "NOT " * DEEP + "a",
    "- " * DEEP + "a",
    "-" * DEEP + "a",
    "a" + " + a" * DEEP,
    "a" + "[0]" * DEEP,
    "a" + ".b" * DEEP,
    "CASE WHEN a THEN " * 800 + "b" + " END" * 800,
    "f(" * DEEP + "a" + ")" * DEEP,
    "x" * 70_000 + " = 1",
    "{col}",
    "{colType}",
    "cast({col} as {colType})",
    "{col}{col}",
    "'{col}'",
    "{ col }",
)


@pytest.mark.parametrize("make", [filtering, masking])
async def test_a_text_is_refused_or_can_be_put_in_force(
    served: Served, reader: ReaderPool, make: Callable[[str], Any]
) -> None:
    await hostile(served, reader)
    for text in TEXTS:
        status, told = await sent(served, make(text), reader)
        assert status == 200 or re.search(r"filter|mask|expression|control|NUL", told), (text[:80], told)


WHO = {"users": ["ann"], "groups": ["g"], "accesses": [{"type": "select", "isAllowed": True}]}
CONDITION = {"type": "expression", "values": ["USER.region == 'EU'"]}
VALIDITY = {"startTime": "2026/01/01 00:00:00", "endTime": "2026/02/01 00:00:00", "timeZone": "UTC"}
FULL: dict[str, Any] = {
    **policy("full", "sales_eu", "card"),
    "isEnabled": True,
    "isAuditEnabled": True,
    "policyType": 0,
    "policyPriority": 0,
    "description": "x",
    "policyLabels": ["x"],
    "conditions": [CONDITION],
    "validitySchedules": [VALIDITY],
    "options": {"x": "y"},
    "additionalResources": [{"database": {"values": ["shop"]}, "table": {"values": ["other"]}}],
    "policyItems": [{**WHO, "conditions": [CONDITION], "delegateAdmin": False}],
    "denyPolicyItems": [{**WHO, "roles": []}],
    "allowExceptions": [WHO],
    "denyExceptions": [WHO],
    "isDenyAllElse": False,
}
VALUES: tuple[Any, ...] = (
    None, "", " ", "x", "*", "{USER}", "{USER", "${{USER.x}}", "${{((}}", "\ud800", "x" * 5_000, "\u202e",
    "\n", 0, -1, 1, 2, 2**62, 1.5, True, False, [], [None], [""], ["x"], [[]], [{}], {}, {"x": 1},
    {"values": [None]}, {"values": ["((", "a\\"]}, [["x"]] * 3,
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """Yield the way to everything in a document."""
    yield path
    found = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in found:
        yield from places(below, (*path, key))


def put_in(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = put_in(value[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize("base", [FULL, filtering("a = 1"), masking("{col}")], ids=["access", "rows", "mask"])
async def test_a_body_is_refused_or_can_be_put_in_force(
    served: Served, reader: ReaderPool, base: dict[str, Any]
) -> None:
    await hostile(served, reader)
    assert (await sent(served, base, reader))[0] == 200
    for path in places(base):
        for value in VALUES:
            body = put_in(base, path, value)
            try:
                orjson.dumps(body)
            except TypeError:
                continue
            await sent(served, body, reader)
