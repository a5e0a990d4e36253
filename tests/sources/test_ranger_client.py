"""The client asks as Ranger's plugins do, and takes nothing for an answer that is none."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.errors import Faults
from gateway.sources.ranger_client import (
    AdminOptions,
    DownloadedBody,
    DownloadKind,
    Gone,
    NoAnswer,
    RangerClient,
    Unchanged,
    tls_context,
)
from tests.sources.fake_admin import SERVICE, FakeAdmin, policy, roles, running, service_policies

TLS = Path(__file__).parent.parent / "frontends" / "tls"
CERTIFICATE, KEY = str(TLS / "test-only-certificate.pem"), str(TLS / "test-only-key.pem")


def client_of(*urls: str, **more: Any) -> RangerClient:
    return RangerClient(
        AdminOptions(**{"urls": urls, "service": SERVICE, "plugin_id": "sluice@here-dev_hive", **more})
    )


def full() -> FakeAdmin:
    return FakeAdmin(
        content={
            DownloadKind.POLICIES: service_policies(7, policy(1, "orders")),
            DownloadKind.ROLES: roles(2),
        }
    )


async def test_every_question_is_a_plugins() -> None:
    async with running(full()) as admin, client_of(admin.url, cluster="c1") as client:
        assert isinstance(
            await client.ask(DownloadKind.POLICIES, -1, deltas=True, activated_ms=5), DownloadedBody
        )
        for kind in (DownloadKind.ROLES, DownloadKind.TAGS, DownloadKind.USERS):
            await client.ask(kind, 3)
    first, *others = admin.asked
    assert first.path == "/service/plugins/policies/download/dev_hive"
    assert first.query == {
        "lastKnownVersion": "-1",
        "lastActivationTime": "5",
        "pluginId": "sluice@here-dev_hive",
        "clusterName": "c1",
        "pluginCapabilities": "fffff",
        "supportsPolicyDeltas": "true",
    }
    assert [asked.path for asked in others] == [
        "/service/roles/download/dev_hive",
        "/service/tags/download/dev_hive",
        "/service/xusers/download/dev_hive",
    ]
    assert others[0].query["lastKnownRoleVersion"] == "3"
    assert others[1].query["supportsTagDeltas"] == "false"
    assert others[2].query["lastKnownUserStoreVersion"] == "3"
    assert "Authorization" not in first.headers


async def test_a_login_uses_the_secure_paths_and_keeps_the_session() -> None:
    passwords = iter(("geheim", "neu"))
    async with (
        running(full()) as admin,
        client_of(admin.url, user="spärk", password=lambda: next(passwords), secure=True) as client,
    ):
        await client.ask(DownloadKind.POLICIES, -1)
        await client.ask(DownloadKind.POLICIES, -1)
    first, second = admin.asked
    assert first.path == "/service/plugins/secure/policies/download/dev_hive"
    assert first.headers["Authorization"] == "Basic " + base64.b64encode("spärk:geheim".encode()).decode()
    assert second.headers["Authorization"] == "Basic " + base64.b64encode("spärk:neu".encode()).decode()
    assert "RANGERADMINSESSIONID=once" in second.headers["Cookie"]


async def test_a_service_is_one_step_of_the_path_whatever_its_name() -> None:
    async with running(full()) as admin, client_of(admin.url, service="a b/../c?d#e") as client:
        await client.ask(DownloadKind.TAGS, -1)
    assert admin.asked[0].path == "/service/tags/download/a b/../c?d#e"
    assert "x" not in admin.asked[0].query


@pytest.mark.parametrize(
    ("status", "answer"), [(204, Unchanged()), (304, Unchanged()), (404, Gone())], ids=str
)
async def test_answers_without_a_body(status: int, answer: object) -> None:
    async with running(full()) as admin, client_of(admin.url) as client:
        admin.next(DownloadKind.POLICIES, web.Response(status=status))
        assert await client.ask(DownloadKind.POLICIES, 7) == answer


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (
            web.Response(status=400, text="no\x1b[31m\nsuch thing"),
            "answers with status 400: no [31m such thing",
        ),
        (web.Response(status=503), "answers with status 503"),
        (web.Response(status=500, text="x" * 5000), "x…"),
        (web.Response(status=401), "rejects the login of nobody (401)"),
        (web.Response(status=403), "rejects the login of nobody (403)"),
        (web.Response(status=302, headers={"Location": "/login.jsp"}), "redirects to another address (302)"),
    ],
    ids=["400", "503", "long", "401", "403", "302"],
)
async def test_everything_else_is_no_answer(response: web.Response, words: str) -> None:
    async with running(full()) as admin, client_of(admin.url) as client:
        admin.next(DownloadKind.POLICIES, response)
        with pytest.raises(NoAnswer) as caught:
            await client.ask(DownloadKind.POLICIES, 7)
        assert words in caught.value.message
        assert "\n" not in caught.value.message
        assert not caught.value.silent
        assert len(admin.asked) == 1  # a redirection is not followed: the login would go along


async def test_a_body_that_breaks_off_is_no_answer() -> None:
    async with running(full()) as admin, client_of(admin.url) as client:
        admin.next(DownloadKind.POLICIES, "truncated")
        with pytest.raises(NoAnswer, match="aborted its response"):
            await client.ask(DownloadKind.POLICIES, -1)


async def test_an_answer_has_a_size_limit_whether_it_tells_its_size_or_not() -> None:
    async with running(full()) as admin, client_of(admin.url, max_bytes=100_000) as client:
        admin.next(DownloadKind.POLICIES, "endless")
        admin.next(DownloadKind.POLICIES, web.Response(body=b" " * 100_001))
        for _ in range(2):
            with pytest.raises(NoAnswer, match="returns more than 100000 bytes"):
                await client.ask(DownloadKind.POLICIES, -1)


async def test_an_answer_is_measured_after_it_was_unpacked() -> None:
    async with running(full()) as admin, client_of(admin.url, max_bytes=1_000_000) as client:
        bomb = web.Response(body=b" " * 50_000_000)
        bomb.enable_compression()
        admin.next(DownloadKind.POLICIES, bomb)
        with pytest.raises(NoAnswer, match="returns more than 1000000 bytes"):
            await client.ask(DownloadKind.POLICIES, -1)


@pytest.mark.parametrize("limit", ["read_timeout_s", "total_timeout_s"])
async def test_silence_has_an_end(limit: str) -> None:
    async with running(full()) as admin, client_of(admin.url, **{limit: 0.05}) as client:
        admin.next(DownloadKind.POLICIES, "silent")
        with pytest.raises(NoAnswer, match="does not answer in time") as caught:
            await client.ask(DownloadKind.POLICIES, -1)
        assert caught.value.silent


async def test_the_next_address_is_asked_and_stays_the_first_choice() -> None:
    async with running(full()) as dead, running(full()) as alive:
        await dead.kill()
        async with client_of(dead.url, alive.url) as client:
            assert isinstance(await client.ask(DownloadKind.POLICIES, -1), DownloadedBody)
            assert isinstance(await client.ask(DownloadKind.POLICIES, 7), Unchanged)
        async with client_of(dead.url) as client:
            with pytest.raises(NoAnswer, match="cannot be reached") as caught:
                await client.ask(DownloadKind.POLICIES, -1)
            assert caught.value.silent
            assert dead.url in caught.value.message


async def test_a_service_is_gone_only_when_nobody_has_it() -> None:
    async with running(FakeAdmin()) as without, running(full()) as having:
        async with client_of(without.url, having.url) as client:
            assert isinstance(await client.ask(DownloadKind.POLICIES, -1), DownloadedBody)
        having.next(DownloadKind.POLICIES, web.Response(status=500))
        async with client_of(without.url, having.url) as client:
            assert await client.ask(DownloadKind.POLICIES, -1) == Gone()


async def test_what_speaks_no_http_is_no_answer() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, client_of(f"http://127.0.0.1:{port}") as client:
        with pytest.raises(NoAnswer, match="does not speak valid HTTP"):
            await client.ask(DownloadKind.POLICIES, -1)


async def test_a_password_that_cannot_be_had_is_told_and_not_a_crash() -> None:
    def password() -> str:
        raise Faults(["the environment variable `X` is not set"])

    async with running(full()) as admin, client_of(admin.url, user="u", password=password) as client:
        with pytest.raises(NoAnswer, match="`X` is not set"):
            await client.ask(DownloadKind.POLICIES, -1)
    assert admin.asked == []


def server_tls() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=CERTIFICATE)
    context.load_cert_chain(CERTIFICATE, KEY)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


async def test_tls_with_an_authority_and_a_certificate_of_ones_own() -> None:
    context = tls_context(ca_file=CERTIFICATE, certificate=CERTIFICATE, key=KEY)
    async with running(full(), server_tls()) as admin, client_of(admin.url, tls=context) as client:
        assert isinstance(await client.ask(DownloadKind.POLICIES, -1), DownloadedBody)


@pytest.mark.parametrize(
    "context", [None, lambda: tls_context(ca_file=CERTIFICATE)], ids=["strange authority", "no certificate"]
)
async def test_tls_that_does_not_hold_is_no_answer(context: Any) -> None:
    tls = None if context is None else context()
    async with running(full(), server_tls()) as admin, client_of(admin.url, tls=tls) as client:
        with pytest.raises(NoAnswer):
            await client.ask(DownloadKind.POLICIES, -1)
    assert admin.asked == []


def test_certificates_that_cannot_be_used_are_faults(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("not a certificate")
    for path in (str(tmp_path / "x"), str(tmp_path / "absent")):
        with pytest.raises(Faults, match="cannot be used"):
            tls_context(ca_file=path)
        with pytest.raises(Faults, match="cannot be used"):
            tls_context(certificate=path, key=path)
