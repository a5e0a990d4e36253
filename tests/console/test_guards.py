"""How often somebody asks, how much he has open, and by which name and from where a request comes."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager

import pytest

from gateway.admin.requests import BadRequest
from gateway.app.console import hosts_of
from gateway.console.binding import bind
from gateway.console.guards import Places, RateLimit
from gateway.console.pages.events import EventParameters
from gateway.console.pages.live import LiveParameters
from gateway.console.pages.requests import AskedRequest
from gateway.console.pages.table_access import TableAccessQuestion
from gateway.console.problems import TooMany
from gateway.console.routes import decode_cursor, encode_cursor
from gateway.settings.console import ConsoleSettings


def test_who_asks_too_often_waits_and_others_do_not() -> None:
    now = [0.0]
    limit = RateLimit(2.0, 4, clock=lambda: now[0])
    for _ in range(4):
        limit.take("ann")
    with pytest.raises(TooMany) as refused:
        limit.take("ann")
    assert refused.value.retry_after_s == 1
    with pytest.raises(TooMany):
        limit.take("ann")
    limit.take("ben")
    now[0] = 1.0
    limit.take("ann")
    limit.take("ann")
    with pytest.raises(TooMany):
        limit.take("ann")
    assert len(RateLimit(1, 1, most=2)._left) == 0


def test_a_field_that_is_left_empty_says_nothing() -> None:
    """As a browser sends the form of a page."""
    given = {"user": ["bob"], "table": ["hr.employee"], "at": [""], "address": [""], "draft": [""]}
    asked = bind(TableAccessQuestion, given)
    assert (asked.user, asked.at, asked.draft) == ("bob", None, 0)
    with pytest.raises(BadRequest, match="number"):
        bind(TableAccessQuestion, given | {"draft": ["one"]})
    with pytest.raises(BadRequest, match="number"):
        bind(AskedRequest, {"request": [""]})


async def test_streams_have_places() -> None:
    places = Places(3, 2)

    def place(user: str) -> AbstractContextManager[None]:
        return places.of(user, lambda: False)

    with place("ann"), place("ann"):
        with pytest.raises(TooMany), place("ann"):
            pass
        with place("ben"), pytest.raises(TooMany), place("cleo"):
            pass
    with place("ann"):
        assert len(places._open) == 1


async def test_the_place_of_who_has_left_is_free_at_once() -> None:
    places, has_left, waiting = Places(3, 1), asyncio.Event(), asyncio.Event()

    async def read() -> None:
        with places.of("ann", has_left.is_set):
            waiting.set()
            await asyncio.Event().wait()

    reader = asyncio.create_task(read())
    await waiting.wait()
    with pytest.raises(TooMany), places.of("ann", lambda: False):
        pass
    assert not reader.cancelling()
    has_left.set()
    with places.of("ann", lambda: False):
        # What was done for him ends, and takes nobody's place along.
        await asyncio.gather(reader, return_exceptions=True)
        assert reader.cancelled()
        with pytest.raises(TooMany), places.of("ann", lambda: False):
            pass


def test_without_tls_only_names_of_this_machine_are_answered() -> None:
    settings = ConsoleSettings(hosts=("sluice.example",))
    assert hosts_of(settings, "10.0.0.1", secure=False) == {"localhost", "127.0.0.1", "::1"}
    public = ConsoleSettings(public_url="https://Console.Example:8443", hosts=("Other.Example",))
    found = hosts_of(public, "10.0.0.1", secure=True)
    assert {"console.example", "other.example", "10.0.0.1"} < found


@pytest.mark.parametrize(
    "url", ["http://console.example", "https://a.example/", "https://a.example/b", "ftp://a.example", "x"]
)
def test_the_public_address_is_a_safe_one_without_a_path(url: str) -> None:
    with pytest.raises(ValueError, match="public_url"):
        ConsoleSettings(public_url=url)


def test_parameters_are_read_strictly() -> None:
    assert bind(LiveParameters, {"user": ["ann"]}) == LiveParameters(user="ann")
    assert bind(EventParameters, {"event": ["x"]}).event == "x"
    for given, fault in (
        ({}, "missing"),
        ({"event": ["a", "b"]}, "2 times"),
        ({"event": ["a"], "other": ["b"]}, "unknown"),
        ({"event": ["a" * 41]}, "more than 40"),
        ({"event": ["a\x00"]}, "character"),
        ({"event": ["\ud800"]}, "character"),
        ({"event": [7]}, "must be a text"),
    ):
        with pytest.raises(BadRequest, match=fault):
            bind(EventParameters, given)


def test_places_in_lists_come_back_as_they_were_given() -> None:
    text = encode_cursor("2026", 7)
    assert decode_cursor(text, str, int) == ("2026", 7)
    for wrong in ("", "x", text + "x", text[:-2], encode_cursor("a"), encode_cursor(7, "2026")):
        with pytest.raises(BadRequest):
            decode_cursor(wrong, str, int)
    # Nothing that PostgreSQL cannot be asked for.
    for beyond in (encode_cursor("a\0", 7), encode_cursor("a", 2**63), encode_cursor("a", 2**64 - 1)):
        with pytest.raises(BadRequest):
            decode_cursor(beyond, str, int)
