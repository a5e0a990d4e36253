"""Whatever is written over REST is refused with its place, or accepted and can be put in force."""

from __future__ import annotations

import asyncio
import gzip
import io
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest
import pytest_asyncio

from gateway.app.ranger_admin import RangerAdmin
from gateway.model.policy import PolicySet
from gateway.pipeline.policy_reading import Proofs
from gateway.policy.engine import Engine
from gateway.policy.ranger import load_files
from gateway.policy.unusable import list_invalid_policies
from gateway.reader.pool import ReaderPool
from gateway.settings.listeners import RangerApiSettings
from gateway.settings.models import PolicySettings
from tests.admin.conftest import Served, serving
from tests.admin.ranger.test_access import API, filtering, masking, policy
from tests.admin.ranger.test_grants_and_files import upload
from tests.conftest import new_database
from tests.frontends.listening import Gateway
from tests.policy.scenarios import definitions
from tests.session.fakes import World
from tests.shares import todays

pytestmark = pytest.mark.asyncio(loop_scope="session")
_PLACE = re.compile(r"field\[\w+Items|subfield\[conditions|the body")
IMPORT = "/plugins/policies/importPoliciesFromFile"
DOWNLOAD = "/plugins/policies/download/dev_hive"


@pytest_asyncio.fixture(loop_scope="session")
async def served(prepared: str, embedded_postgres: str, reader: ReaderPool) -> AsyncIterator[Served]:
    """The API with a service, and texts read by Spark's own parser."""
    admin = RangerAdmin(
        RangerApiSettings(administrators=("admin",)),
        PolicySettings(),
        "postgresql://nobody@127.0.0.1:9/none",
        Gateway(World()).authenticator,
        reader,
    )
    async with new_database(embedded_postgres, prepared) as dsn, serving(dsn) as found:
        tags = {"name": "dev_tag", "type": "tag"}
        for service in (tags, {"name": "dev_hive", "type": "hive", "tagService": "dev_tag"}):
            assert (await found.ask("POST", f"{API}/service", service))[0] == 200
        found.access.read_text = admin.read_text
        yield found


async def require_enforceable(served: Served, reader: ReaderPool) -> None:
    """Load what plugins download, as the gateway does: nothing of it is at fault."""
    status, found = await served.ask("GET", DOWNLOAD, headers={"Accept": "application/json"}, user="plugin")
    assert status == 200, found
    loaded = load_files({"dev_hive.json": orjson.dumps(found)}, definitions(), tolerant=True)
    policies = PolicySet(version=1, services=loaded.services, roles=loaded.roles)
    assert [(one.name, one.broken) for one in list_invalid_policies(policies)] == []
    assert await Proofs().unusable(policies, reader) == []
    Engine(policies)


async def sent(served: Served, body: Any, reader: ReaderPool, path: str = f"{API}/policy") -> tuple[int, str]:
    """Store a policy; what is refused says why, and what is taken can be put in force."""
    status, told = await served.ask("POST", path, orjson.dumps(body))
    if status == 200:
        await require_enforceable(served, reader)
        assert (await served.ask("DELETE", f"{API}/policy/{told['id']}"))[0] == 204
        return status, ""
    assert status == 400, (status, told)
    assert told["msgDesc"], told
    return status, str(told["msgDesc"])


DEEP = 3_000
KNOWN = ("   ", "a", "{col}", "((")
"""Of these one has found a fault, and the others are taken, or refused, everywhere."""
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


WHO = {"users": ["ann"], "groups": ["g"], "accesses": [{"type": "select", "isAllowed": True}]}
CONDITION = {"type": "_expression", "values": ["USER.region == 'EU'"]}
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
    None, "", "*", "{USER", "${{((}}", "x" * 5_000, -1, 2**62, 1.5, True, [], [None], {}, {"values": ["(("]},
)  # fmt: skip


def asking(text: str) -> dict[str, Any]:
    return {**FULL, "conditions": [{"type": "_expression", "values": [text]}]}


def on_tag(text: str) -> dict[str, Any]:
    """A mask of a policy on a tag, in the service of tags that another one uses."""
    item = masking(text)["dataMaskPolicyItems"][0]
    item["accesses"] = [{"type": "hive:select"}]
    item["dataMaskInfo"] = {**item["dataMaskInfo"], "dataMaskType": "hive:CUSTOM"}
    resources = {"tag": {"values": ["PII"]}}
    return {**masking(text), "service": "dev_tag", "resources": resources, "dataMaskPolicyItems": [item]}


@pytest.mark.parametrize("make", [filtering, masking, asking, on_tag])
async def test_a_text_is_refused_or_can_be_put_in_force(
    served: Served, reader: ReaderPool, make: Callable[[str], Any]
) -> None:
    statuses = set()
    for text in (*KNOWN, *todays(TEXTS, 3)):
        status, told = await sent(served, make(text), reader)
        statuses.add(status)
        assert status == 200 or _PLACE.search(told), (text[:80], told)
    assert statuses == {200, 400}


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
    status, told = await sent(served, base, reader)
    assert status == 200, told
    for path, value in todays([(path, value) for path in places(base) for value in VALUES], 8):
        await sent(served, put_in(base, path, value), reader)


def document(text: str = "a = 1") -> bytes:
    return orjson.dumps(filtering(text))


BODIES: tuple[tuple[bytes, dict[str, str]], ...] = (
    (document(), {"Content-Type": "text/plain"}),
    (document(), {"Content-Type": "application/xml"}),
    (document(), {"Content-Type": "application/x-www-form-urlencoded"}),
    (document(), {"Content-Type": "multipart/form-data; boundary=x"}),
    (document(), {"Content-Type": "application/json; charset=utf-16"}),
    (document(), {"Content-Type": "no type"}),
    (gzip.compress(document()), {"Content-Encoding": "gzip"}),
    (gzip.compress(document()), {"Content-Type": "application/json"}),
    (document(), {"Content-Encoding": "gzip"}),
    (gzip.compress(b" " * 50_000_000), {"Content-Encoding": "gzip"}),
    (b"\xef\xbb\xbf" + document(), {}),
    (document().decode().encode("utf-16"), {}),
    (document("a = '\u00e4'").decode().encode("latin-1"), {}),
    (b"", {}),
    (b"null", {}),
    (b"[]", {}),
    (b"7", {}),
    (b"{", {}),
    (b"\x00" * 100, {}),
    (document() + b"x", {}),
    (document().replace(b'"name"', b'"name":"a","name"', 1), {}),
    (document().replace(b'"rows"', b'"\\ud800"', 1), {}),
    (document().replace(b'"rows"', b'"\\u0000"', 1), {}),
    (document().replace(b'"rows"', b"NaN", 1), {}),
    (document().replace(b'"rows"', b"1e999", 1), {}),
    (document().replace(b'"rows"', b"1" * 400, 1), {}),
    (b"[" * 100_000, {}),
    (b'{"a":' * 100_000, {}),
    (b"[" + b"{}," * 300_000 + b"{}]", {}),
    (b'{"policies":[' + b"{}," * 300_000 + b"{}]}", {}),
    (document().replace(b'"rows"', b'"' + b"r" * 9_000_000 + b'"', 1), {}),
    (b"<policy><name>a</name></policy>", {"Content-Type": "application/xml"}),
)


@pytest.mark.parametrize("path", [f"{API}/policy", "/plugins/policies", IMPORT])
async def test_bytes_are_refused_or_can_be_put_in_force(
    served: Served, reader: ReaderPool, path: str
) -> None:
    for body, headers in BODIES:
        status, told = await served.send("POST", path, io.BytesIO(body), {**headers, "Connection": "close"})
        assert status in (200, 204, 400, 413, 415), (body[:60], headers, status, told)
        if status in (200, 204):
            await require_enforceable(served, reader)
            for one in (await served.ask("GET", f"{API}/policy"))[1]:
                assert (await served.ask("DELETE", f"{API}/policy/{one['id']}"))[0] == 204
        else:
            assert told["msgDesc"], (body[:60], told)


async def test_an_import_of_many_texts_is_refused_with_each_place_or_taken_whole(
    served: Served, reader: ReaderPool
) -> None:

    def one(number: int, text: str) -> dict[str, Any]:
        made = filtering(text)
        table = {"values": [f"t{number}"]}
        return {**made, "name": f"rows {number}", "resources": {**made["resources"], "table": table}}

    texts = [f"a = {number}" if number % 3 else f"a = = {number}" for number in range(100)]
    status, told = await upload(served, IMPORT, file={"policies": list(map(one, range(100), texts))})
    assert status == 400
    assert "policies[0] (`rows 0`): this filter is not a Spark SQL expression" in told["msgDesc"]
    assert (await served.ask("GET", f"{API}/policy"))[1] == []
    texts = [f"a = {number}" for number in range(100)]
    status, told = await upload(served, IMPORT, file={"policies": list(map(one, range(100), texts))})
    assert status == 204, told
    await require_enforceable(served, reader)


async def test_changes_of_one_policy_at_once_leave_one_that_can_be_put_in_force(
    served: Served, reader: ReaderPool
) -> None:
    _, made = await served.ask("POST", f"{API}/policy", filtering("a = 0"))

    async def put(text: str) -> int:
        body = {**made, "version": None, "rowFilterPolicyItems": filtering(text)["rowFilterPolicyItems"]}
        return (await served.ask("PUT", f"{API}/policy/{made['id']}", body))[0]

    texts = [text for number in range(12) for text in (f"a = {number}", f"a = = {number}", "a = (")]
    found = await asyncio.gather(*map(put, texts))
    assert set(found) <= {200, 400, 409}
    assert 200 in found
    assert not {status for status, text in zip(found, texts, strict=True) if "= =" in text} - {400, 409}
    await require_enforceable(served, reader)
