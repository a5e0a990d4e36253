"""Sparks that come and go: by a file, by DNS, and by a stub of Kubernetes' API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.backends import spark_discovery
from gateway.backends.spark_discovery import DnsDiscovery, EndpointSliceDiscovery, FileDiscovery
from gateway.errors import BackendUnavailable, Faults


async def test_a_file_has_one_address_on_each_line(tmp_path: Path) -> None:
    path = tmp_path / "sparks"
    discovery = FileDiscovery(path)
    with pytest.raises(BackendUnavailable):
        await discovery.list_addresses()
    path.write_text("# of today\n10.0.0.1\n\nspark-2.corp  # new\n2001:db8::1\n10.0.0.1\n")
    assert await discovery.list_addresses() == {"10.0.0.1", "spark-2.corp", "2001:db8::1"}


@pytest.mark.parametrize("line", ["10.0.0.1:10000", "sc://spark", "a b", "spark/../x", "user@spark", "ä"])
async def test_what_is_no_address_is_not_taken_nor_what_stands_beside_it(line: str, tmp_path: Path) -> None:
    (tmp_path / "sparks").write_text(f"10.0.0.1\n{line}\n")
    with pytest.raises(BackendUnavailable):
        await FileDiscovery(tmp_path / "sparks").list_addresses()


async def test_a_name_has_its_addresses() -> None:
    assert "127.0.0.1" in await DnsDiscovery("localhost").list_addresses()
    with pytest.raises(BackendUnavailable):
        await DnsDiscovery("nobody.invalid").list_addresses()


class Kubernetes:
    """A stub of the API: it lists the slices of a service, some on each page."""

    def __init__(self) -> None:
        self.slices: list[dict[str, Any]] = []
        self.asked: list[Any] = []
        self.token = "of-the-pod"
        self.answer: Callable[[], web.Response] | None = None

    async def list_slices(self, request: web.Request) -> web.Response:
        self.asked.append(request)
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.json_response({"kind": "Status"}, status=401)
        if self.answer is not None:
            return self.answer()
        if request.query["labelSelector"] != "kubernetes.io/service-name=spark":
            return web.json_response({"items": [], "metadata": {}})
        at = int(request.query.get("continue", "0"))
        more = {"continue": str(at + 1)} if at + 1 < len(self.slices) else {}
        return web.json_response({"items": self.slices[at : at + 1], "metadata": more})


def endpoint(*addresses: str, **conditions: bool) -> dict[str, Any]:
    return {"addresses": list(addresses), "conditions": conditions}


@pytest.fixture
async def kubernetes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    stub = Kubernetes()
    app = web.Application()
    path = "/apis/discovery.k8s.io/v1/namespaces/data/endpointslices"
    app.router.add_get(path, stub.list_slices)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    (tmp_path / "token").write_text("of-the-pod\n")
    monkeypatch.setattr(spark_discovery, "POD", tmp_path)
    yield stub, EndpointSliceDiscovery(f"http://127.0.0.1:{port}/", "data", "spark")
    await runner.cleanup()


async def test_endpoints_that_are_ready_are_sparks(kubernetes: Any) -> None:
    stub, discovery = kubernetes
    stub.slices = [
        {
            "addressType": "IPv4",
            "endpoints": [
                endpoint("10.0.0.1", ready=True),
                endpoint("10.0.0.2", ready=False),
                endpoint("10.0.0.3", ready=True, terminating=True),
                {"addresses": ["10.0.0.4"]},  # not said: ready
            ],
        },
        {"addressType": "IPv6", "endpoints": [endpoint("2001:db8::1", ready=True)]},
        {"addressType": "FQDN", "endpoints": [endpoint("elsewhere", ready=True)]},
        {"addressType": "IPv4", "endpoints": None},
    ]
    assert await discovery.list_addresses() == {"10.0.0.1", "10.0.0.4", "2001:db8::1"}
    assert len(stub.asked) == 4, "page by page"
    stub.slices = []
    assert await discovery.list_addresses() == frozenset()


@pytest.mark.parametrize(
    "answer",
    [
        lambda: web.Response(text="{}"),
        lambda: web.Response(text="nothing"),
        lambda: web.Response(status=302, headers={"Location": "http://elsewhere.invalid/"}),
        lambda: web.Response(status=403),
        lambda: web.json_response([]),
        lambda: web.json_response({"items": ["a"]}),
        lambda: web.json_response({"items": "a"}),
        lambda: web.json_response({"items": [], "metadata": "a"}),
        lambda: web.json_response({"items": [], "metadata": {"continue": 1}}),
        lambda: web.json_response({"items": [], "metadata": {"continue": "for ever"}}),
        lambda: web.json_response({"items": [{"addressType": "IPv4", "endpoints": {"a": 1}}]}),
        lambda: web.json_response({"items": [{"addressType": "IPv4", "endpoints": ["a"]}]}),
        lambda: web.json_response(
            {"items": [{"addressType": "IPv4", "endpoints": [{"conditions": "a", "addresses": ["b"]}]}]}
        ),
        lambda: web.json_response(
            {"items": [{"addressType": "IPv4", "endpoints": [{"addresses": "10.0.0.1"}]}]}
        ),
        lambda: web.json_response(
            {"items": [{"addressType": "IPv4", "endpoints": [{"addresses": [["a"]]}]}]}
        ),
        lambda: web.Response(body=b" " * (spark_discovery.MAX_BYTES + 1)),
        lambda: web.json_response({"items": [{"addressType": "IPv4", "endpoints": [endpoint("a/b")]}]}),
    ],
)
async def test_what_is_no_answer_is_none(answer: Any, kubernetes: Any) -> None:
    stub, discovery = kubernetes
    stub.answer = answer
    with pytest.raises(BackendUnavailable):
        await discovery.list_addresses()


async def test_a_token_that_cannot_be_had_tells_nothing(kubernetes: Any) -> None:
    _, discovery = kubernetes

    def reveal() -> str:
        raise Faults(["the secret cannot be read"])

    discovery._token = reveal
    with pytest.raises(BackendUnavailable, match="endpoints") as raised:
        await discovery.list_addresses()
    assert "cannot be read" in raised.value.for_operators


async def test_a_file_that_does_not_end_is_not_read_to_its_end() -> None:
    with pytest.raises(BackendUnavailable):
        await FileDiscovery(Path("/dev/zero")).list_addresses()


async def test_the_token_is_read_again_each_time(kubernetes: Any, tmp_path: Path) -> None:
    stub, discovery = kubernetes
    stub.token = "of-tomorrow"
    with pytest.raises(BackendUnavailable):
        await discovery.list_addresses()
    (tmp_path / "token").write_text("of-tomorrow")
    assert await discovery.list_addresses() == frozenset()
