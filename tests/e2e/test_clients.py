"""beeline, PyHive, impyla and SQLAlchemy run the same statements as three people, who see what they may."""

from __future__ import annotations

import contextlib
import csv
import io
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy
from impala.dbapi import connect as impala_connect
from pyhive import hive

from gateway.reader.java_runtime import find_java, find_spark_home
from tests.e2e.running import PASSWORDS, RunningGateway
from tests.speed import patience

Rows = list[tuple[str | None, ...]]
Run = Callable[[RunningGateway, str, str], Rows]

EMPLOYEES = "SELECT name, email, phone, hired FROM hr.employee ORDER BY id LIMIT 2"
MEAN_PAY = "SELECT department, count(salary) AS paid FROM hr.employee GROUP BY department ORDER BY 1 LIMIT 2"
CUSTOMERS = "SELECT name, email, card, region FROM sales.customer ORDER BY id LIMIT 2"
SEARCH = "SELECT count(*) AS found FROM sales.customer WHERE card LIKE '4000 00%'"
ORDERS = (
    "SELECT o.region, count(*) AS orders FROM sales.orders o "
    "JOIN sales.customer c ON o.customer_id = c.id GROUP BY o.region ORDER BY o.region"
)
JAVA = "SELECT reflect('java.lang.System', 'getenv', 'PATH')"

DENIED = "[SLUICE_ACCESS_DENIED]"
NO_SUCH_COLUMN = "Columns that you may not select cannot be resolved."
NOT_GOVERNABLE = "[SLUICE_NOT_GOVERNABLE]"

TOUR: list[tuple[str, str, Rows | str]] = [
    (
        "alice",
        EMPLOYEES,
        [
            ("Liam Haddad", "liam.haddad@northwind.example", "+1 312-555-0133", "2014-03-01"),
            ("Ingrid Nakamura", "ingrid.nakamura@northwind.example", "+61 2 5550 0642", "2014-06-29"),
        ],
    ),
    (
        "bob",
        EMPLOYEES,
        [
            ("Liam Haddad", "xxxx.xxxxxx@xxxxxxxxx.xxxxxxx", "+n nnn-nnn-nnnn", "2014-01-01"),
            ("Ingrid Nakamura", "xxxxxx.xxxxxxxx@xxxxxxxxx.xxxxxxx", "+nn n nnnn nnnn", "2014-01-01"),
        ],
    ),
    ("carol", EMPLOYEES, DENIED),
    ("alice", MEAN_PAY, [("Engineering", "25"), ("Finance", "25")]),
    ("bob", MEAN_PAY, NO_SUCH_COLUMN),
    ("carol", MEAN_PAY, DENIED),
    ("alice", CUSTOMERS, DENIED),
    (
        "bob",
        CUSTOMERS,
        [
            (
                "Lakshmi Berg",
                "xxxxxxx.xxxxn@xxxxx.xxxxxxx",
                "721dec135f82cdf915ac3c6ec0a5451f745098c52e1854e971aa09e211840e38",
                "EMEA",
            ),
            (
                "Rosa Castillo",
                "xxxx.xxxxxxxxn@xxxx.xxxxxxx",
                "8b776159f72d5a8a883d1c26442055dcb60a53bf71172df9863551c861e1f67c",
                "EMEA",
            ),
        ],
    ),
    (
        "carol",
        CUSTOMERS,
        [
            ("Jonas Karimi", "jonas.karimi6@mail.example", "xxxx xxxx xxxx 5743", "APAC"),
            ("Marco Tran", "marco.tran8@post.example", "xxxx xxxx xxxx 6523", "APAC"),
        ],
    ),
    ("bob", SEARCH, [("0",)]),
    ("carol", SEARCH, [("0",)]),
    ("alice", ORDERS, DENIED),
    ("bob", ORDERS, [("EMEA", "41543")]),
    ("carol", ORDERS, [("APAC", "22762")]),
    ("alice", JAVA, DENIED),
    ("bob", JAVA, DENIED),
    ("carol", JAVA, DENIED),
]


class Refused(Exception):
    """A client's own error, with the server's message in it."""


def texts(rows: Any) -> Rows:
    return [tuple(None if value is None else str(value) for value in row) for row in rows]


def with_pyhive(gateway: RunningGateway, user: str, sql: str) -> Rows:
    try:
        return texts(gateway.query(user, sql))
    except Exception as error:  # whatever a client makes of a refusal
        raise Refused(str(error)) from error


def with_pyhive_over_http(gateway: RunningGateway, user: str, sql: str) -> Rows:
    connection = hive.connect(
        gateway.host, gateway.http_port, scheme="http", auth="BASIC", username=user, password=PASSWORDS[user]
    )
    try:
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(sql)
            return texts(cursor.fetchall())
    except Exception as error:  # whatever a client makes of a refusal
        raise Refused(str(error)) from error
    finally:
        connection.close()


def with_impyla(gateway: RunningGateway, user: str, sql: str) -> Rows:
    return _with_impyla(user, sql, host=gateway.host, port=gateway.port, auth_mechanism="PLAIN")


def with_impyla_over_http(gateway: RunningGateway, user: str, sql: str) -> Rows:
    http = {"use_http_transport": True, "http_path": "cliservice", "auth_mechanism": "LDAP"}
    return _with_impyla(user, sql, host=gateway.host, port=gateway.http_port, **http)


def _with_impyla(user: str, sql: str, **where: Any) -> Rows:
    connection = impala_connect(user=user, password=PASSWORDS[user], **where)
    try:
        # A cursor of impyla that outlives its connection opens another one when it is collected.
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(sql)
            return texts(cursor.fetchall())
    except Exception as error:  # whatever a client makes of a refusal
        raise Refused(str(error)) from error
    finally:
        connection.close()


def with_sqlalchemy(gateway: RunningGateway, user: str, sql: str) -> Rows:
    url = f"hive://{user}:{PASSWORDS[user]}@{gateway.host}:{gateway.port}/default?auth=LDAP"
    engine = sqlalchemy.create_engine(url)
    try:
        with engine.connect() as connection:
            return texts(connection.exec_driver_sql(sql.replace("%", "%%")).fetchall())
    except sqlalchemy.exc.DBAPIError as error:
        raise Refused(str(error)) from error
    finally:
        engine.dispose()


def beeline(
    gateway: RunningGateway, user: str, *statements: str, http: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run beeline, as it lies among pyspark's jars, on statements; it goes on after errors."""
    where = f"{gateway.host}:{gateway.http_port if http else gateway.port}/default"
    if http:
        where += ";transportMode=http;httpPath=cliservice"
    return subprocess.run(
        [
            *(str(find_java()), "-cp", f"{find_spark_home()}/jars/*", "org.apache.hive.beeline.BeeLine"),
            *("-u", f"jdbc:hive2://{where}"),
            *("-n", user, "-p", PASSWORDS[user], "--outputformat=csv2", "--silent=true", "--force=true"),
            *(word for statement in statements for word in ("-e", statement)),
        ],
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )


CLIENTS: dict[str, Run] = {
    "pyhive": with_pyhive,
    "impyla": with_impyla,
    "sqlalchemy": with_sqlalchemy,
    "pyhive over HTTP": with_pyhive_over_http,
    "impyla over HTTP": with_impyla_over_http,
}


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("user", "sql", "expected"), TOUR, ids=lambda value: str(value)[:40])
def test_a_python_client_sees_what_its_user_may_see(
    gateway: RunningGateway, client: str, user: str, sql: str, expected: Rows | str
) -> None:
    if isinstance(expected, str):
        with pytest.raises(Refused) as refused:
            CLIENTS[client](gateway, user, sql)
        assert expected in str(refused.value)
    else:
        assert CLIENTS[client](gateway, user, sql) == expected


@pytest.mark.in_turn(6)
@pytest.mark.parametrize(("user", "http"), [("alice", False), ("bob", False), ("carol", True)])
def test_beeline_sees_what_its_user_may_see(gateway: RunningGateway, user: str, *, http: bool) -> None:
    """All of a user's statements in one session: starting beeline takes seconds."""
    steps = [(sql, expected) for who, sql, expected in TOUR if who == user]
    # A row that only marks where an answer ends, for refusals leave nothing on standard output.
    marked = [
        text for number, (sql, _) in enumerate(steps) for text in (sql, f"SELECT 'end-{number}' AS mark")
    ]
    done = beeline(gateway, user, *marked, http=http)
    # beeline prints its prompt even though nobody is there.
    answers = re.sub(r"0: jdbc:hive2:\S+> ", "", done.stdout)
    for number, (sql, expected) in enumerate(steps):
        answer, _, answers = answers.partition(f"mark\nend-{number}")
        rows = [tuple(row) for row in csv.reader(io.StringIO(answer.strip()))][1:]
        if isinstance(expected, str):
            assert rows == [], sql
            assert expected in done.stderr
        else:
            assert rows == expected, (sql, done.stderr[-2000:])


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("http", [False, True])
def test_beeline_with_a_wrong_password_is_told_so(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, *, http: bool
) -> None:
    monkeypatch.setitem(PASSWORDS, "bob", "wrong")
    done = beeline(gateway, "bob", "SELECT 1", http=http)
    assert ("HTTP Response code: 401" if http else "invalid user name or password") in done.stderr
    assert "TTransportException" in done.stdout if http else not done.stdout.strip()  # the driver's log
