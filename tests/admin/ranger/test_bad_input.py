"""Whatever is sent, the answer is Ranger's error shape with a 4xx, and nothing changes."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from yarl import URL

from gateway.admin.listener import AdminServer
from gateway.admin.ranger.access import Access
from gateway.admin.ranger.api import MAX_AT_ONCE, RangerApi
from gateway.admin.ranger.calls import MAX_BODY_BYTES
from gateway.admin.ranger.store import Store
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.policy.ranger import load
from tests.admin.conftest import RIGHTS, Served, authenticate
from tests.effort import tries
from tests.speed import patience

API = "/public/v2/api"
POLICY = {
    "service": "dev_hive",
    "name": "p",
    "resources": {"database": {"values": ["shop"]}},
    "policyItems": [{"users": ["ann"], "accesses": [{"type": "create"}]}],
}


ITEM = {"users": ["ann"], "accesses": [{"type": "select"}]}


async def with_policy(served: Served) -> None:
    await served.ask("POST", f"{API}/service", {"name": "dev_hive", "type": "hive"})
    status, body = await served.ask("POST", f"{API}/policy", POLICY)
    assert status == 200, body


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'"policy"', "not a JSON object"),
        (b'{"name": "\\u0000"}', "NUL"),
        (b'{"name": "\\ud800"}', "not JSON"),
        (b'{"name": "a",\n"name": "b"}', "line 2: key `name` is repeated here"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "nested deeper"),
        (b'{"a":' * 100_000, "nested deeper"),
        ({**POLICY, "policyItems": {"users": "ann"}}, "`policyItems`"),
        ({**POLICY, "resources": ["database"]}, "`resources`"),
        ({**POLICY, "policyType": "access"}, "`policyType`"),
        ({**POLICY, "isEnabled": "perhaps"}, "`isEnabled`"),
        (b'{"id": 1180591620717411303424}', "`id`"),
        ({**POLICY, "service": "nothing"}, "error code[3007]"),
        ({**POLICY, "service": None}, "error code[3007]"),
        ({**POLICY, "service": {"a": 1}}, "`service`"),
        ({**POLICY, "policyType": 7}, "policy type 7"),
        ({**POLICY, "zoneName": "nowhere"}, "error code[3033]"),
        ({**POLICY, "resources": {"table": {"values": ["t"]}}}, "error code["),
        ({**POLICY, "policyLabels": ["a", None]}, "`policyLabels[1]`"),
        ({**POLICY, "conditions": [{"type": "_expression", "values": [None]}]}, "`conditions[0].values[0]`"),
    ],
)
async def test_bodies_that_are_no_policies(served: Served, body: Any, says: str) -> None:
    await with_policy(served)
    status, told = await served.ask("POST", f"{API}/policy", body)
    assert status == 400
    assert told["statusCode"] == 1
    assert says in told["msgDesc"]
    assert len((await served.ask("GET", f"{API}/policy"))[1]) == 1


async def test_a_body_of_very_many_small_values_is_not_looked_at(served: Served) -> None:
    await with_policy(served)
    for many in (b'{"policyItems":[' + b"{}," * 300_000 + b"{}]}", b'{"a":[' + b"1," * 300_000 + b"1]}"):
        status, told = await served.send("POST", f"{API}/policy", io.BytesIO(many), user="nobody")
        assert (status, told["msgDesc"]) == (400, "the body has more than 200000 values")


async def test_a_name_that_no_index_takes_is_the_senders_fault(served: Served) -> None:
    await with_policy(served)
    name = "".join(chr(0x4E00 + 7919 * i % 20_000) for i in range(4000))
    status, told = await served.ask("POST", f"{API}/roles", {"name": name})
    assert (status, told["statusCode"]) == (400, 1)


async def test_an_origin_that_is_none_is_another_site(served: Served) -> None:
    status, told = await served.ask("GET", f"{API}/policy", headers={"Origin": "http://["})
    assert (status, told["statusCode"]) == (403, 403)


async def test_wrong_types_are_all_told_at_once(served: Served) -> None:
    await with_policy(served)
    _, told = await served.ask("POST", f"{API}/policy", {"policyType": [], "policyItems": 3, "isEnabled": {}})
    for field in ("policyType", "policyItems", "isEnabled"):
        assert f"`{field}`" in told["msgDesc"]


@pytest.mark.parametrize(
    ("more", "where"),
    [
        (
            {"policyType": 2, "rowFilterPolicyItems": [{**ITEM, "rowFilterInfo": {"filterExpr": "broken"}}]},
            "field[rowFilterPolicyItems], subfield[filterExpr]",
        ),
        (
            {
                "policyType": 1,
                "dataMaskPolicyItems": [
                    {**ITEM, "dataMaskInfo": {"dataMaskType": "CUSTOM", "valueExpr": "{col} broken"}}
                ],
            },
            "field[dataMaskPolicyItems], subfield[valueExpr]",
        ),
    ],
    ids=["filter", "mask"],
)
async def test_a_text_that_spark_does_not_parse_is_not_stored(
    served: Served, more: dict[str, Any], where: str
) -> None:
    """It would close what the policy is about as soon as it came into force."""
    await with_policy(served)
    levels = ("database", "table", "column") if more["policyType"] == 1 else ("database", "table")
    resources = {level: {"values": [level]} for level in levels}
    body = {**POLICY, "name": "text", "policyItems": [], "resources": resources, **more}
    status, told = await served.ask("POST", f"{API}/policy", body)
    assert status == 400
    assert "is not a Spark SQL expression" in told["msgDesc"]
    assert where in told["msgDesc"]
    good = json.loads(json.dumps(body).replace("broken", "IS NOT NULL" if "mask" in where else "a = 1"))
    status, made = await served.ask("POST", f"{API}/policy", good)
    assert status == 200, made
    status, told = await served.ask("PUT", f"{API}/policy/{made['id']}", {**made, **more})
    assert status == 400
    assert where in told["msgDesc"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/policy/0", 404),
        ("GET", "/policy/-1", 404),
        ("GET", "/policy/x", 404),
        ("GET", "/policy/99999999999999999999", 404),
        ("GET", "/policy/٣", 404),
        ("GET", "/policy/guid/%00", 400),
        ("GET", "/service/nothing/policy", 404),
        ("GET", "/service/dev_hive/policy/nothing", 404),
        ("GET", "/service/name/nothing", 404),
        ("GET", "/servicedef/name/nothing", 404),
        ("GET", "/policies/nothing/for-resource", 404),
        ("GET", "/nothing", 404),
        ("GET", "/policy?policyType=x", 400),
        ("GET", "/policy?startIndex=-1", 400),
        ("GET", "/policy?pageSize=99999999999999", 400),
        ("GET", "/policy?resource:database=shop&resourceMatchScope=nothing", 400),
        ("DELETE", "/policy", 400),
        ("DELETE", "/policy?servicename=dev_hive&policyname=nothing", 404),
        ("DELETE", "/policies/bulk", 400),
        ("DELETE", "/server/policydeltas?days=x", 400),
        ("DELETE", "/server/policydeltas?days=0", 400),
        ("DELETE", "/server/purge/records?type=everything", 400),
        ("PATCH", "/policy/1", 405),
    ],
)
async def test_paths_and_parameters_that_name_nothing(
    served: Served, method: str, path: str, status: int
) -> None:
    await with_policy(served)
    found, told = await served.ask(method, API + path)
    assert found == status
    assert told["msgDesc"]
    assert told["statusCode"] in (status, 1)


async def test_the_path_and_the_body_must_mean_the_same(served: Served) -> None:
    await with_policy(served)
    await served.ask(
        "POST", f"{API}/policy", {**POLICY, "name": "q", "resources": {"udf": {"values": ["u"]}}}
    )
    status, told = await served.ask("PUT", f"{API}/policy/1", {**POLICY, "id": 2})
    assert (status, "policyID mismatch" in told["msgDesc"]) == (400, True)
    status, told = await served.ask("PUT", f"{API}/service/dev_hive/policy/p", {**POLICY, "service": "other"})
    assert (status, "service name mismatch" in told["msgDesc"]) == (400, True)
    for change, code in (({"policyType": 1}, 3028), ({"zoneName": "z"}, 3032)):
        status, told = await served.ask("PUT", f"{API}/policy/1", {**POLICY, **change})
        assert (status, f"error code[{code}]" in told["msgDesc"]) == (400, True)


async def test_a_body_that_is_too_large_is_not_read(served: Served) -> None:
    status, told = await served.ask("POST", f"{API}/policy", io.BytesIO(b"{" + b" " * MAX_BODY_BYTES))
    assert (status, told["statusCode"]) == (413, 413)

    async def endless() -> Any:
        while True:
            yield b" " * 65536

    # Without a length, too: the answer comes while the body is still being sent.
    try:
        status, told = await served.ask("POST", f"{API}/policy", endless())
        assert (status, told["statusCode"]) == (413, 413)
    except aiohttp.ClientConnectionError:
        pass  # We were still sending when the answer had been given.


async def test_a_database_that_is_away_is_503() -> None:
    store = Store("postgresql://nobody@127.0.0.1:1/nothing", timeout_s=2.0)
    access = Access(RIGHTS)
    api = RangerApi(store, access, authenticate)
    listener = AdminServer({}, CollectorRegistry(), mounted={"/service": api.app})
    port = await listener.start(ConnectionLimiter("admin"), "127.0.0.1", 0)
    async with aiohttp.ClientSession() as session:
        served = Served(f"http://127.0.0.1:{port}", store, session, access)
        status, told = await served.ask("GET", f"{API}/service")
        assert (status, told["statusCode"]) == (503, 503)
        async with session.get(f"http://127.0.0.1:{port}/healthz") as response:
            assert response.status == 200
    await listener.close()
    await store.close()


async def test_a_body_that_dribbles_does_not_keep_its_place(database: str) -> None:
    store = Store(database)
    api = RangerApi(store, Access(RIGHTS), authenticate, timeout_s=0.2)
    listener = AdminServer({}, CollectorRegistry(), mounted={"/service": api.app})
    port = await listener.start(ConnectionLimiter("admin"), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    token = base64.b64encode(b"admin:right").decode()
    writer.write(
        f"POST /service{API}/policy HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {token}\r\n"
        "Content-Length: 1000\r\n\r\n{".encode()
    )
    assert b" 503 " in await reader.readline()
    writer.close()
    await listener.close()
    await store.close()


async def test_two_logins_in_one_request_are_refused(served: Served) -> None:
    address = URL(served.url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    login = "Authorization: Basic " + base64.b64encode(b"nobody:right").decode()
    writer.write(f"GET /service{API}/service HTTP/1.1\r\nHost: x\r\n{login}\r\n{login}\r\n\r\n".encode())
    assert b" 401 " in await reader.readline()
    writer.close()


async def test_who_dribbles_keeps_nobody_else_waiting(served: Served) -> None:
    await with_policy(served)
    address = URL(served.url)
    token = base64.b64encode(b"nobody:right").decode()
    writers = []
    for _ in range(MAX_AT_ONCE + 1):
        _, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(
            f"POST /service{API}/policy HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {token}\r\n"
            "Content-Length: 1000\r\n\r\n{".encode()
        )
        await writer.drain()
        writers.append(writer)
    for _ in range(2):  # the first one comes after all of those
        status, _ = await served.ask("GET", "/plugins/policies/download/dev_hive", user="plugin")
        assert status == 200
    for writer in writers:
        writer.close()


TEXT = st.text(max_size=5)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = (
    "service", "name", "policyType", "policyPriority", "resources", "additionalResources", "conditions",
    "policyItems", "denyPolicyItems", "dataMaskPolicyItems", "rowFilterPolicyItems", "validitySchedules",
    "policyLabels", "zoneName", "isDenyAllElse", "isEnabled", "options", "id", "guid", "version",
)  # fmt: skip


async def test_no_body_is_a_server_error_and_what_is_taken_can_be_loaded(served: Served) -> None:
    await with_policy(served)
    loop = asyncio.get_running_loop()

    @settings(
        max_examples=tries(60),
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(
        st.sampled_from(["/policy", "/policy/apply", "/service", "/servicedef"]),
        st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4),
    )
    def any_body(path: str, changed: dict[str, Any]) -> None:
        try:
            asked = served.ask("POST", API + path, {**POLICY, **changed})
            status, told = asyncio.run_coroutine_threadsafe(asked, loop).result(patience(30))
        except (TypeError, UnicodeEncodeError):
            return  # No JSON to send.
        assert status in (200, 400), (status, told)

    await asyncio.to_thread(any_body)
    _, whole = await served.ask("GET", "/plugins/policies/download/dev_hive")
    assert load(whole).services["dev_hive"].policies
