"""Tokens for catalogs in the name of who has shown one: what an issuer is asked, and what an answer means."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_plus

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.catalog.token_exchange import (
    LEFT_S,
    MAX_ANSWER_BYTES,
    ExchangeRule,
    NotExchanged,
    TokenExchange,
)

URL = "https://login.example/token"
BEARER = {"access_token": "of.the.catalog", "token_type": "Bearer", "expires_in": 300}


class Issuer:
    """What is asked, and how it is answered."""

    def __init__(self, answer: Any = BEARER, status: int = 200) -> None:
        self.asked: list[tuple[Mapping[str, str], Mapping[str, str]]] = []
        self.status = status
        self.body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.now = 0.0
        rule = ExchangeRule(token_url=URL, client_id="sluice", client_secret=lambda: "a:%+ b", scope="lake")
        self.exchange = TokenExchange(rule, post=self.post, clock=lambda: self.now)

    async def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, bytes]:
        assert url == URL
        self.asked.append((form, headers))
        return self.status, self.body


async def test_the_issuer_is_asked_as_the_standard_has_it() -> None:
    issuer = Issuer()
    assert await issuer.exchange.exchange("of bob", "lake-api") == "of.the.catalog"
    ((form, headers),) = issuer.asked
    assert form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": "of bob",
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "audience": "lake-api",
        "scope": "lake",
    }
    login = base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode()
    assert [unquote_plus(one) for one in login.split(":")] == ["sluice", "a:%+ b"]
    assert "a:%+ b" not in repr(issuer.exchange._rule)


async def test_a_token_is_given_again_for_the_same_until_shortly_before_its_end() -> None:
    issuer = Issuer()
    for shown, audience, asked in (
        ("of bob", "a", 1),
        ("of bob", "a", 1),
        ("of eve", "a", 2),
        ("of bob", "b", 3),
        ("of bob", "a", 3),
    ):
        await issuer.exchange.exchange(shown, audience)
        assert len(issuer.asked) == asked
    issuer.now = 300 - LEFT_S
    await issuer.exchange.exchange("of bob", "a")
    assert len(issuer.asked) == 4


@pytest.mark.parametrize(
    ("status", "answer", "why"),
    [
        (400, {"error": "invalid_grant", "error_description": "of bob"}, r"status 400 \(invalid_grant\)"),
        (400, {"error": "<of bob>"}, "status 400$"),
        (401, b"of bob", "status 401$"),
        (302, BEARER, "status 302"),
        (200, b"[" * 100_000, "status 200"),
        (200, [], "status 200"),
        (200, {"token_type": "Bearer"}, "no token"),
        (200, {**BEARER, "access_token": ""}, "no token"),
        (200, {**BEARER, "access_token": "a\nb"}, "no token"),
        (200, {**BEARER, "access_token": "${spark.x}"}, "characters"),
        (200, {**BEARER, "token_type": "N_A"}, "none that whoever bears it"),
        (200, {"access_token": "x"}, "none that whoever bears it"),
    ],
)
async def test_an_answer_without_a_token_gives_none(status: int, answer: Any, why: str) -> None:
    with pytest.raises(NotExchanged, match=why) as raised:
        await Issuer(answer, status).exchange.exchange("of bob", "lake-api")
    assert "of bob" not in str(raised.value)


async def test_over_http_no_redirect_is_followed_and_no_endless_answer_read() -> None:
    async def redirect(request: web.Request) -> web.Response:
        raise web.HTTPFound("/endless")

    async def endless(request: web.Request) -> web.Response:
        return web.Response(body=b"x" * (MAX_ANSWER_BYTES + 1))

    app = web.Application()
    app.router.add_post("/redirect", redirect)
    app.router.add_post("/endless", endless)
    async with TestServer(app) as server:
        for path, why in (("/redirect", "status 302"), ("/endless", "more than")):
            rule = ExchangeRule(
                token_url=str(server.make_url(path)), client_id="x", client_secret=lambda: "y"
            )
            with pytest.raises(NotExchanged, match=why):
                await TokenExchange(rule).exchange("of bob", "lake-api")
    gone = ExchangeRule(token_url="http://127.0.0.1:1/", client_id="x", client_secret=lambda: "y")
    with pytest.raises(NotExchanged, match="cannot be reached"):
        await TokenExchange(gone).exchange("of bob", "lake-api")
