"""Handshake and frames: each case is fed whole, byte by byte, and with bytes that follow it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.credentials import Password, UnreadableLogin
from gateway.wire import MalformedMessage, sasl
from gateway.wire.frames import FrameSplitter, frame
from gateway.wire.sasl import (
    GSSAPI,
    PLAIN,
    GssapiClient,
    HandshakeRefused,
    PlainClient,
    SaslServer,
    SaslToken,
    Status,
    step,
)


def whole(data: bytes) -> Iterator[bytes]:
    yield data


def bytewise(data: bytes) -> Iterator[bytes]:
    yield from (data[i : i + 1] for i in range(len(data)))


Feed = Callable[[bytes], Iterator[bytes]]
feeds = pytest.mark.parametrize("feed", [whole, bytewise])


def login(
    user: bytes = b"bob", password: bytes = b"pw", authzid: bytes = b"", last: Status = Status.OK
) -> bytes:
    return step(Status.START, b"PLAIN") + step(last, authzid + b"\0" + user + b"\0" + password)


Answer = Password | UnreadableLogin | SaslToken | HandshakeRefused | None


def run(server: SaslServer, data: bytes, feed: Feed) -> Answer:
    answer: Answer = None
    for chunk in feed(data):
        if isinstance(answer, HandshakeRefused | UnreadableLogin):
            break
        answer = server.receive(chunk) or answer
    return answer


@feeds
@pytest.mark.parametrize("last", [Status.OK, Status.COMPLETE])
@pytest.mark.parametrize("authzid", [b"", b"bob"])
@pytest.mark.parametrize("early", [b"", b"\x00\x00\x00\x01x"])
def test_a_login_is_read_and_accepted(feed: Feed, last: Status, authzid: bytes, early: bytes) -> None:
    server = SaslServer()
    answer = run(server, login(last=last, authzid=authzid) + early, feed)
    assert answer == Password("bob", "pw")
    assert server.accept() == (b"\x05\x00\x00\x00\x00", early)
    assert server.done


BAD_LOGINS = {
    "NOSASL": b"\x80\x01\x00\x01\x00\x00\x00\x0bOpenSession\x00\x00\x00\x00",
    "HTTP": b"POST /cliservice HTTP/1.1\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a bare frame": b"\x00\x00\x00\x05hello",
    "no START": step(Status.OK, b"\0bob\0pw"),
    "START twice": step(Status.START, b"PLAIN") * 2,
    "gives up": step(Status.START, b"PLAIN") + step(Status.BAD, b"no"),
    "fails": step(Status.START, b"PLAIN") + step(Status.ERROR, b"no"),
    "GSSAPI": step(Status.START, b"GSSAPI"),
    "lower case": step(Status.START, b"plain"),
    "empty mechanism": step(Status.START, b""),
    "huge mechanism": b"\x01\x7f\xff\xff\xff",
    "negative length": b"\x01\xff\xff\xff\xff",
    "huge credentials": step(Status.START, b"PLAIN") + b"\x02\x00\x01\x00\x01",
    "no NUL": step(Status.START, b"PLAIN") + step(Status.OK, b"bob"),
    "one NUL": step(Status.START, b"PLAIN") + step(Status.OK, b"bob\0pw"),
    "three NULs": step(Status.START, b"PLAIN") + step(Status.OK, b"\0bob\0pw\0"),
    "empty user": login(user=b""),
    "another user": login(authzid=b"root"),
    "another case": login(authzid=b"Bob"),
    "user not UTF-8": login(user=b"\xff"),
    "password not UTF-8": login(password=b"\xff"),
}


@feeds
@pytest.mark.parametrize("case", BAD_LOGINS)
def test_a_bad_handshake_is_refused_with_a_reply(feed: Feed, case: str) -> None:
    server = SaslServer()
    answer = run(server, BAD_LOGINS[case] + b"trailing", feed)
    if isinstance(answer, UnreadableLogin):
        # A login, of which nothing but this is recorded.
        assert not {b"Bob", b"root", b"pw"} & set(answer.reason.encode().split())
        answer = server.refuse(answer.reason)
    assert isinstance(answer, HandshakeRefused)
    assert answer.reply == step(Status.BAD, answer.reason.encode())
    assert server.done
    with pytest.raises(RuntimeError):
        server.receive(b"x")


@pytest.mark.parametrize("case", ["good", *BAD_LOGINS])
def test_a_handshake_that_stops_early_waits_without_an_answer(case: str) -> None:
    """Nothing is decided by fewer bytes than it takes; a prefix of a good login is never refused."""
    data = login() if case == "good" else BAD_LOGINS[case]
    for end in range(len(data)):
        answer = SaslServer().receive(data[:end])
        assert answer is None or isinstance(answer, HandshakeRefused | UnreadableLogin)
        if case == "good":
            assert answer is None


def test_what_comes_before_the_verdict_is_bounded() -> None:
    server = SaslServer(max_early_bytes=10)
    assert isinstance(server.receive(login()), Password)
    assert server.receive(b"x" * 10) is None
    assert isinstance(server.receive(b"x"), HandshakeRefused)
    server = SaslServer(max_early_bytes=10)
    assert isinstance(server.receive(login() + b"x" * 11), HandshakeRefused)


def test_a_refused_login_is_told_so() -> None:
    server = SaslServer()
    assert isinstance(server.receive(login()), Password)
    assert (
        server.refuse("Error validating the login").reply == b"\x03\x00\x00\x00\x1aError validating the login"
    )
    with pytest.raises(RuntimeError):
        server.accept()


def test_nothing_is_accepted_before_there_are_credentials() -> None:
    with pytest.raises(RuntimeError):
        SaslServer().accept()


def test_a_password_is_not_in_the_repr() -> None:
    assert repr(Password("bob", "hunter2")) == "Password(user='bob')"


def test_an_empty_password_is_for_the_authenticator_to_refuse() -> None:
    assert SaslServer().receive(login(password=b"")) == Password("bob", "")


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_random_handshakes_give_an_answer_or_none(chunks: list[bytes]) -> None:
    server = SaslServer()
    for chunk in chunks:
        if server.done:
            break
        server.receive(chunk)


@feeds
def test_our_client_logs_in_to_our_server(feed: Feed) -> None:
    client, server = PlainClient("bob é", "pw"), SaslServer()
    assert run(server, client.start(), feed) == Password("bob é", "pw")
    reply, early = server.accept()
    assert early == b""
    assert [client.receive(chunk) for chunk in feed(reply)][-1]


@feeds
@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (step(Status.BAD, b"nope"), sasl.LoginRefused),
        (step(Status.ERROR, b"nope"), sasl.LoginRefused),
        (step(Status.OK, b"more?"), MalformedMessage),
        (step(Status.START, b"PLAIN"), MalformedMessage),
        (b"\x09", MalformedMessage),
        (b"\x05\x7f\xff\xff\xff", MalformedMessage),
    ],
)
def test_a_server_that_does_not_accept(feed: Feed, reply: bytes, error: type[Exception]) -> None:
    client = PlainClient("bob", "pw")
    with pytest.raises(error):
        assert not any(client.receive(chunk) for chunk in feed(reply))


def test_a_server_that_talks_on_after_accepting_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        PlainClient("bob", "pw").receive(step(Status.COMPLETE) + b"x")


@pytest.mark.parametrize(("user", "password"), [("b\0b", "pw"), ("bob", "p\0w")])
def test_a_nul_cannot_be_smuggled_into_the_credentials(user: str, password: str) -> None:
    with pytest.raises(ValueError):
        PlainClient(user, password)


class GssDouble:
    """The client's end of GSSAPI, which is complete after one token of the server's."""

    def __init__(self) -> None:
        self.is_complete = False

    def step(self, token: bytes) -> bytes:
        assert token == b"server's"
        self.is_complete = True
        return b""

    def choose_protection(self, offer: bytes) -> tuple[bytes, None]:
        assert offer == b"offer"
        return b"choice", None


@feeds
def test_a_client_with_a_ticket_agrees_and_is_accepted(feed: Feed) -> None:
    client = GssapiClient(GssDouble(), b"first")
    assert client.start() == step(Status.START, b"GSSAPI") + step(Status.OK, b"first")
    for said, answer in ((b"server's", b""), (b"offer", b"choice")):
        assert not any(client.receive(chunk) for chunk in feed(step(Status.OK, said)))
        assert client.take_reply() == step(Status.OK, answer)
    assert [client.receive(chunk) for chunk in feed(step(Status.COMPLETE))][-1]
    assert client.layer is None


@feeds
@pytest.mark.parametrize("said", [(), (b"server's",)])
def test_a_server_that_accepts_before_it_has_proved_who_it_is_is_not_believed(
    feed: Feed, said: tuple[bytes, ...]
) -> None:
    client = GssapiClient(GssDouble(), b"first")
    for one in said:
        client.receive(step(Status.OK, one))
    with pytest.raises(MalformedMessage):
        assert not any(client.receive(chunk) for chunk in feed(step(Status.COMPLETE)))


# -- frames --------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=50), max_size=10), st.data())
def test_frames_come_out_whatever_the_chunks(payloads: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(frame(p) for p in payloads)
    tail = data.draw(st.sampled_from([b"", b"\0", b"\0\0\0\x05abc"]))
    stream += tail
    splitter, out, at = FrameSplitter(50), [], 0
    while at < len(stream):
        size = data.draw(st.integers(1, 40))
        out += splitter.feed(stream[at : at + size])
        at += size
    assert out == payloads
    assert splitter.pending == len(tail)


@feeds
def test_a_frame_at_the_limit_passes_and_one_above_breaks_the_stream(feed: Feed) -> None:
    splitter = FrameSplitter(10)
    out = [m for chunk in feed(frame(b"x" * 10)) for m in splitter.feed(chunk)]
    assert out == [b"x" * 10]
    with pytest.raises(MalformedMessage, match="more than 10 bytes"):
        assert not any(splitter.feed(chunk) for chunk in feed(b"\x00\x00\x00\x0b"))
    with pytest.raises(MalformedMessage):
        splitter.feed(frame(b"ok"))
    assert splitter.pending == 0


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x01\x00\x01"])
def test_a_hostile_length_is_refused_at_its_fourth_byte(length: bytes) -> None:
    splitter = FrameSplitter(1 << 20)
    assert splitter.feed(length[:3]) == []
    with pytest.raises(MalformedMessage):
        splitter.feed(length[3:])


def test_only_bytes_that_came_are_kept() -> None:
    splitter = FrameSplitter(1 << 30)
    assert splitter.feed(b"\x3f\xff\xff\xff") == []
    assert splitter.pending == 4


# -- GSSAPI: tokens to and fro -------------------------------------------------------------------------------


def test_tokens_go_to_and_fro_until_the_login_is_decided() -> None:
    server = SaslServer((PLAIN, GSSAPI))
    assert server.receive(step(Status.START, b"GSSAPI") + step(Status.OK, b"one")) == SaslToken(b"one")
    assert server.challenge(b"more") == step(Status.OK, b"more")
    assert server.receive(b"") is None
    assert server.receive(step(Status.COMPLETE, b"") + b"early") == SaslToken(b"")
    assert server.accept() == (step(Status.COMPLETE), b"early")
    with pytest.raises(RuntimeError):
        server.challenge(b"more")


def test_a_mechanism_that_is_not_taken_and_one_that_is_changed_are_refused() -> None:
    refused = SaslServer().receive(step(Status.START, b"GSSAPI"))
    assert isinstance(refused, UnreadableLogin)
    assert "supports PLAIN" in refused.reason
    server = SaslServer((PLAIN, GSSAPI))
    server.receive(step(Status.START, b"GSSAPI") + step(Status.OK, b"one"))
    server.challenge(b"more")
    assert isinstance(server.receive(step(Status.START, b"PLAIN")), HandshakeRefused)
