"""Sessions that an operator ends, or whose user is removed, end at both endpoints and in Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.one_pack import Ask, session, write_settings
from tests.e2e.running import PASSWORDS, RunningGateway, Spark, connect, connect_session, takes_plans, until
from tests.e2e.wire_client import HttpWireClient, StatusError
from tests.shares import in_turn

pytestmark = pytest.mark.in_turn(2)

PASSWORD = "long enough for zoe"
SLOW = "SELECT count(*) FROM range(0, 1000000000000, 1, 1) WHERE id % 7 = 8"
"""Longer than any test, on one core."""


@pytest.fixture
def zoe(gateway: RunningGateway) -> Iterator[str]:
    done = gateway.sluice(
        "users", "add", "zoe", "--group", "hr", "--group", "security", "--password-stdin", stdin=PASSWORD
    )
    assert done.returncode == 0, done
    assert "in force in" in done.stdout
    yield "zoe"
    gateway.sluice("users", "remove", "zoe")


def sessions_of(gateway: RunningGateway, user: str) -> list[dict[str, Any]]:
    told = json.loads(gateway.sluice("sessions", "list", "--json").stdout)
    assert told["messages"] == []
    return [one for one in told["sessions"] if one["user"] == user]


@contextmanager
def open_thrift(gateway: RunningGateway, user: str) -> Iterator[Any]:
    """Have a connection; at its end the wire alone is closed, since its session may be gone."""
    connection = connect(gateway.host, gateway.port, user, PASSWORD)
    try:
        yield connection
    finally:
        connection._transport.close()


def refused(ask: Any) -> str:
    with pytest.raises(Exception) as failed:
        ask()
    return f"{type(failed.value).__name__}: {failed.value}"


@pytest.mark.in_turn(4, place=0)
def test_an_operator_ends_sessions_and_the_user_may_come_again(gateway: RunningGateway, zoe: str) -> None:
    with open_thrift(gateway, zoe) as jdbc:
        cursor = jdbc.cursor()
        cursor.execute(SLOW, async_=True)
        listed = sessions_of(gateway, zoe)
        assert [(one["endpoint"], one["statements"]) for one in listed] == [("thrift", 1)]
        assert listed[0]["address"] == gateway.host
        assert listed[0]["idle_s"] == 0
        done = gateway.sluice("sessions", "end", zoe)
        assert done.stdout == "1 sessions of zoe are ended\n", done
        assert "Invalid OperationHandle" in refused(cursor.poll)
        assert "Invalid SessionHandle" in refused(lambda: jdbc.cursor().execute("SELECT 1"))
        assert sessions_of(gateway, zoe) == []
    with open_thrift(gateway, zoe) as again:
        cursor = again.cursor()
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]
    recorded = json.loads(gateway.sluice("audit", "search", "--user", zoe, "--json").stdout)
    (ended,) = [one["event"] for one in recorded if one["event"]["kind"] == "session_ended"]
    assert ended["by"]


@pytest.mark.skipif(not takes_plans(), reason="this Spark has no Spark Connect that plans are given to")
def test_what_a_removed_user_has_open_ends(gateway: RunningGateway, zoe: str) -> None:
    with (
        connect_session(gateway.connect_port, f"{zoe}:{PASSWORD}") as spark,
        open_thrift(gateway, zoe) as jdbc,
    ):
        assert spark.sql("SELECT 1").collect()[0][0] == 1
        jdbc.cursor().execute(SLOW, async_=True)
        assert {one["endpoint"] for one in sessions_of(gateway, zoe)} == {"thrift", "connect"}
        done = gateway.sluice("users", "remove", zoe)
        assert done.returncode == 0, done
        assert "in force in" in done.stdout
        # The command has asked the gateway, so there is nothing to wait for.
        assert sessions_of(gateway, zoe) == []
        assert "TSocket read 0 bytes" in refused(lambda: jdbc.cursor().execute("SELECT 1"))
        refused(lambda: connect(gateway.host, gateway.port, zoe, PASSWORD))
        assert "invalid user name" in refused(lambda: spark.sql("SELECT 1").collect())


@pytest.mark.in_turn(4, place=1)
def test_a_session_ends_with_its_token_and_others_go_on(gateway: RunningGateway, zoe: str) -> None:
    """A token for one endpoint is refused at others; what was opened by it ends when it is revoked."""

    def token(*options: str) -> str:
        made = gateway.sluice("users", "token", zoe, "--json", *options)
        assert made.returncode == 0, made
        return str(json.loads(made.stdout)["token"])

    elsewhere = token("--endpoint", "connect")
    assert "not for this endpoint" in refused(lambda: connect(gateway.host, gateway.port, zoe, elsewhere))
    secret = token("--endpoint", "thrift", "--purpose", "billing")
    connection = connect(gateway.host, gateway.port, zoe, secret)
    with open_thrift(gateway, zoe) as other:
        try:
            connection.cursor().execute(SLOW, async_=True)
            assert len(sessions_of(gateway, zoe)) == 2
            assert gateway.sluice("users", "revoke", zoe, secret.split("_")[1]).returncode == 0
            assert len(sessions_of(gateway, zoe)) == 1
            assert "TSocket read 0 bytes" in refused(lambda: connection.cursor().execute("SELECT 1"))
        finally:
            connection._transport.close()
        cursor = other.cursor()
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]
    recorded = json.loads(gateway.sluice("audit", "search", "--user", zoe, "--json").stdout)
    events = [one["event"] for one in recorded if one["event"]["kind"] == "session_ended"]
    (ended,) = [one for one in events if one.get("token") == secret.split("_")[1]]
    assert ended["reason"] == "the token was revoked or has expired"


@pytest.mark.parametrize("by_cookie", in_turn([False, True], 2))
def test_what_a_removed_user_has_open_over_http_ends(
    gateway: RunningGateway, zoe: str, by_cookie: bool
) -> None:
    """His sessions do not end with his connection, and each call could come by another one."""

    def http() -> HttpWireClient:
        return HttpWireClient(gateway.host, gateway.http_port, zoe, PASSWORD, by_cookie=by_cookie)

    with http() as open_one, http() as other:
        opened = open_one.open_session()
        slow = open_one.execute(opened, SLOW, run_async=True)
        other.open_session()
        assert {one["endpoint"] for one in sessions_of(gateway, zoe)} == {"thrift_http"}
        assert gateway.sluice("users", "remove", zoe).returncode == 0
        assert sessions_of(gateway, zoe) == []
        with pytest.raises(ConnectionError):
            open_one.status(slow)
        for one in (open_one, other):
            one.close()
            with pytest.raises(PermissionError, match="401"):
                one.status(slow)
        # Whoever gets the name has neither his sessions nor what his cookies were worth.
        gateway.sluice("users", "add", zoe, "--group", "hr", "--password-stdin", stdin=PASSWORD)
        with pytest.raises((PermissionError, StatusError), match=r"401|Invalid OperationHandle"):
            open_one.status(slow)
        with http() as again:
            again.open_session()
            with pytest.raises(StatusError, match="Invalid SessionHandle"):
                again.execute(opened, "SELECT 1")


@pytest.mark.in_turn(4, place=3)
def test_another_user_s_sessions_go_on(gateway: RunningGateway, zoe: str) -> None:
    with open_thrift(gateway, zoe), connect(gateway.host, gateway.port, "alice", PASSWORDS["alice"]) as alice:
        assert len(sessions_of(gateway, zoe)) == 1
        assert gateway.sluice("users", "remove", zoe).returncode == 0
        with alice.cursor() as cursor:
            cursor.execute("SELECT 1")
            assert cursor.fetchall() == [(1,)]
    assert sessions_of(gateway, zoe) == []


def test_sessions_go_on_no_longer_than_the_users_are_known(spark: Spark, open_directory: Path) -> None:
    """Who was removed while the file could not be read is somebody whom nobody could tell of."""
    place = open_directory / "unread"
    written = write_settings(place, spark, "service: spark\n", {"zoe": []}, policies={"reload_s": 0.05})
    settings = json.loads(written.read_text())
    settings["users"]["max_stale_s"] = 0.1
    written.write_text(json.dumps(settings))
    running = RunningGateway(written).start()
    file, aside = place / "users.yaml", place / "aside"
    try:
        with session(running, "thrift", "zoe") as ask:
            assert ask("SELECT 1") == [(1,)]
            file.rename(aside)
            until(lambda: "the user file could not be read" in told(ask), "statements are refused")
            aside.rename(file)
            until(lambda: not told(ask), "they are taken again")
    finally:
        assert running.stop() == 0


def told(ask: Ask) -> str:
    """Return what a statement is refused with; empty when it is not."""
    try:
        ask("SELECT 1")
    except Exception as refusal:  # noqa: BLE001 - PyHive's
        return str(refusal)
    return ""
