"""Spark Connect through `sluice serve` as users have it: logins, messages, a Spark without Thrift."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.errors.exceptions.connect import AnalysisException, ParseException, SparkConnectGrpcException
from pyspark.sql import SparkSession

from gateway.backends.embedded_spark import free_port
from gateway.demo.tour import PEOPLE
from gateway.frontends.jwt_logins import JwtLogins, JwtRules
from gateway.frontends.users import set_user
from tests.backends.test_token_signing import new_key
from tests.e2e.conftest import write_settings
from tests.e2e.identity_proxy import IdentityProxy
from tests.e2e.running import PASSWORDS, LoopThread, RunningGateway, Spark, connect_session, until
from tests.speed import patience

NAMES = "SELECT name, email FROM hr.employee ORDER BY id LIMIT 2"
MASKED = [
    ("Liam Haddad", "xxxx.xxxxxx@xxxxxxxxx.xxxxxxx"),
    ("Ingrid Nakamura", "xxxxxx.xxxxxxxx@xxxxxxxxx.xxxxxxx"),
]


# -- the Spark behind ----------------------------------------------------------------------------------------


def test_spark_answers_those_who_show_its_token_and_nobody_else(spark: Spark) -> None:
    with spark.session() as direct:
        assert direct.range(3).count() == 3
    wrong = pytest.raises(SparkConnectGrpcException, match="Invalid authentication token")
    with wrong, connect_session(spark.connect_port, "another") as session:
        session.range(1).collect()


def test_the_token_of_spark_is_where_nobody_else_can_read_it(spark: Spark) -> None:
    pid = spark.pid
    assert spark.connect_token not in " ".join(psutil.Process(pid).cmdline())
    assert spark.connect_token not in (spark.directory / "running.json").read_text()
    # As bytes: Spark writes while we read, and what it wrote last may end within a character. It tells the
    # token itself where it starts a worker for `foreachBatch`, which other modules of this lane have.
    lines = spark.log.read_bytes().splitlines()
    assert not [
        line for line in lines if spark.connect_token.encode() in line and b"worker is starting" not in line
    ]


def test_a_plan_of_a_thousand_steps_runs(spark: Spark) -> None:
    with spark.session() as direct:
        plan = direct.client._execute_plan_request_with_metadata()
        relation = plan.plan.root
        for _ in range(1000):
            relation.limit.limit = 5
            relation = relation.limit.input
        relation.range.end, relation.range.step = 10, 1
        table, *_ = direct.client._execute_and_fetch(plan, {}, None)
        assert table.num_rows == 5


# -- logging in ----------------------------------------------------------------------------------------------


def test_a_user_and_a_password_make_a_session(gateway: RunningGateway) -> None:
    with gateway.session("bob") as session:
        assert [tuple(row) for row in session.sql(NAMES).collect()] == MASKED
        assert [
            tuple(row) for row in session.table("hr.employee").orderBy("id").select("name", "email").head(2)
        ]
        assert session.sql("SELECT current_user()").head()[0] == "bob"


def test_a_token_lets_in_until_it_is_revoked(gateway: RunningGateway) -> None:
    made = gateway.sluice("users", "token", "bob", "--label", "test", "--expires", "1h")
    token = made.stdout.strip()
    assert token.startswith("sluice_"), made.stderr

    def works() -> bool:
        try:
            with connect_session(gateway.connect_port, token) as session:
                return bool(session.sql("SELECT current_user()").head()[0] == "bob")
        except SparkConnectGrpcException:
            return False

    until(works, "the new token is in force")
    (listed,) = json.loads(gateway.sluice("users", "tokens", "bob", "--json").stdout)
    assert (listed["label"], listed["state"]) == ("test", "valid")
    assert gateway.sluice("users", "revoke", "bob", listed["id"]).returncode == 0
    until(lambda: not works(), "the token is revoked")
    assert token not in json.dumps(gateway.records)


@pytest.mark.parametrize("token", ["bob:wrong", "nobody:bob-demo", "sluice_00000000_x", "bob"])
def test_who_is_not_known_is_told_so(gateway: RunningGateway, token: str) -> None:
    wrong = pytest.raises(SparkConnectGrpcException, match=r"\[SLUICE_AUTHENTICATION_FAILED\]")
    with wrong, connect_session(gateway.connect_port, token) as session:
        session.range(1).collect()


def test_somebody_elses_name_in_the_url_does_not_count(gateway: RunningGateway) -> None:
    with connect_session(gateway.connect_port, f"bob:{PASSWORDS['bob']}", user="alice") as session:
        assert session.sql("SELECT current_user()").head()[0] == "bob"
        with pytest.raises(AnalysisException, match="with name `salary` cannot be resolved"):
            session.sql("SELECT salary FROM hr.employee").collect()


LEAVING = """
import os, signal, sys
from pyspark.sql import SparkSession
session = SparkSession.builder.remote(sys.argv[1]).create()
session.range(1).collect()
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["ended", "killed"])
@pytest.mark.in_turn(6)
def test_what_a_client_does_that_leaves_without_stopping_has_an_end(
    gateway: RunningGateway, how: str
) -> None:
    """PySpark's last command is at the end of its interpreter, which keeps it from reading the answer."""
    remote = f"sc://localhost:{gateway.connect_port}/;token=erica:leaves"
    set_user(gateway.config.parent / "users.yaml", "erica", password="leaves", groups=["analysts"])

    def commands() -> list[dict[str, Any]]:
        found = gateway.sluice("audit", "search", "--user", "erica", "--since", "10m", "--json")
        return [one for one in json.loads(found.stdout) if one["event"].get("verdict") == "cleared"]

    try:
        until(lambda: can_log_in(gateway, remote), "erica is let in")
        before = len(commands())
        subprocess.run([sys.executable, "-c", LEAVING, remote, how], timeout=patience(), check=False)
        until(lambda: len(commands()) > before, "the record has what was run")
        until(lambda: all(one["end"] for one in commands()), "all of it has an end")
        ended = {one["event"]["plan_class"]: one["end"]["outcome"] for one in commands()}
        assert set(ended.values()) == {"finished"}, ended
        assert how == "killed" or "MlCommand" in ended
    finally:
        gateway.sluice("users", "remove", "erica")


def can_log_in(gateway: RunningGateway, remote: str) -> bool:
    session = SparkSession.builder.remote(remote).create()
    try:
        session.range(1).collect()
    except SparkConnectGrpcException:
        return False
    else:
        return True
    finally:
        session.stop()


# -- what users are told -------------------------------------------------------------------------------------


def test_a_refusal_is_an_exception_with_its_class_and_the_event_to_quote(gateway: RunningGateway) -> None:
    with gateway.session("bob") as session:
        with pytest.raises(AnalysisException) as refused:
            session.table("hr.employee").collect()
        error = refused.value
        assert error.getCondition() == "SLUICE_ACCESS_DENIED"
        assert error.getSqlState() == "42501"
        event = (error.getMessageParameters() or {})["auditEvent"]
        assert "user bob needs select on every column of table spark_catalog.hr.employee" in str(error)
    found = json.loads(gateway.sluice("audit", "search", "--id", event, "--json").stdout)
    assert event in json.dumps(found)


def test_what_spark_cannot_parse_reads_as_from_spark_itself(gateway: RunningGateway, spark: Spark) -> None:
    told = []
    with gateway.session("dave") as governed, spark.session() as direct:
        for session in (governed, direct):
            with pytest.raises(ParseException) as wrong:
                session.sql("SELEC 1")
            error = wrong.value
            # Spark goes on with the text and a stack; the line is the one that tells.
            line = str(error).strip().splitlines()[0]
            told.append((line, error.getCondition(), error.getSqlState()))
    assert told[0] == told[1]


@pytest.mark.filterwarnings("ignore:.to_pandas. loads all data")
def test_pandas_on_spark_sees_what_its_user_may_see(gateway: RunningGateway) -> None:
    with gateway.session("bob") as session:
        frame = session.table("hr.employee").select("id", "name", "email").pandas_api()
        shown = frame.sort_values("id").head(2).to_pandas()
        assert list(zip(shown["name"], shown["email"], strict=True)) == MASKED


def test_readiness_tells_of_spark_connect(gateway: RunningGateway) -> None:
    code, body = gateway.admin("/readyz")
    assert code == 200
    assert json.loads(body)["parts"]["spark_connect"] == "ok"


# -- a Spark with no Thrift Server, behind a gateway that logs each user in by himself -----------------------


@dataclass(frozen=True)
class Behind:
    """Which port the public keys of a gateway are at, and the gateway behind it that asks for them."""

    admin_port: int
    proxy: IdentityProxy


@pytest.fixture(scope="module")
def behind(spark: Spark, session_loop: LoopThread) -> Iterator[Behind]:
    admin_port = free_port()
    rules = JwtRules(
        issuer="https://sluice.example",
        audiences=("spark-gateway",),
        jwks_url=f"http://127.0.0.1:{admin_port}/.well-known/jwks.json",
    )
    proxy = IdentityProxy(JwtLogins(rules), f"{spark.host}:{spark.connect_port}", spark.connect_token)
    session_loop.run(proxy.start())
    yield Behind(admin_port, proxy)
    session_loop.run(proxy.stop())


@pytest.fixture(scope="module")
def connect_only(spark: Spark, open_directory: Path, behind: Behind) -> Iterator[RunningGateway]:
    file = write_settings(open_directory / "connect-only", spark)
    settings = json.loads(file.read_text())
    del settings["listeners"]["thrift"], settings["listeners"]["thrift_http"]
    settings["listeners"]["admin"] = {"port": behind.admin_port}
    settings["backend"] = {
        "connect": {"host": "127.0.0.1", "port": behind.proxy.port},
        "identity": {"by": "signed", "audience": "spark-gateway"},
    }
    (file.parent / "key.pem").touch(mode=0o600)
    (file.parent / "key.pem").write_text(new_key())
    settings["token_signing"] = {"issuer": "https://sluice.example", "keys": [{"file": "key.pem"}]}
    file.write_text(json.dumps(settings))
    running = RunningGateway(file).start()
    yield running
    assert running.stop() == 0


def test_each_user_comes_to_a_gateway_behind_as_who_he_is(
    connect_only: RunningGateway, behind: Behind
) -> None:
    """PySpark → Sluice → another gateway → Spark: masked here, and there known by a token of each user's."""
    proxy = behind.proxy
    with connect_only.session("bob") as bobs, connect_only.session("alice") as alices:
        proxy.calls.clear()
        assert [tuple(row) for row in bobs.sql(NAMES).collect()] == MASKED
        bobs.range(3).createOrReplaceTempView("mine")
        assert bobs.table("mine").count() == 3
        assert {user.user for _, user in proxy.calls} - {"sluice"} == {"bob"}
        proxy.calls.clear()
        alices.sql("SELECT 1").collect()
        who = {user.user: user.groups for _, user in proxy.calls}
        assert who.keys() <= {"sluice", "alice", "bob"}  # whose last responses are released by and by
        assert who["alice"] == frozenset(next(one.groups for one in PEOPLE if one.name == "alice"))
        assert {name for name, user in proxy.calls if user.user == "alice"} >= {"ExecutePlan", "Config"}
    assert "ReleaseSession" in {name for name, user in proxy.calls if user.user == "bob"}
    # Nothing came without a token, nor with one that is not taken.
    assert not proxy.refused
    said = json.dumps(connect_only.records)
    assert "eyJ" not in said, "a token stands in the log"


def test_a_gateway_before_connect_alone_has_connect_alone(connect_only: RunningGateway) -> None:
    assert connect_only.port == 0
    with connect_only.session("bob") as session:
        assert [tuple(row) for row in session.sql(NAMES).collect()] == MASKED
    parts = json.loads(connect_only.admin("/readyz")[1])["parts"]
    assert parts["spark_connect"] == "ok"
    assert "spark" not in parts


def test_a_statement_is_explained_without_a_thrift_server(connect_only: RunningGateway) -> None:
    told = connect_only.sluice("explain", "--as", "bob", NAMES)
    assert told.returncode == 0, told.stderr
    assert "hr`.`employee" in told.stdout


# -- a gateway that is restarted -----------------------------------------------------------------------------


@pytest.mark.in_turn(6, place=0)
def test_a_client_in_the_middle_of_a_result_outlives_a_restart_of_the_gateway(
    spark: Spark, open_directory: Path
) -> None:
    file = write_settings(open_directory / "restarted", spark)
    settings = json.loads(file.read_text())
    settings["listeners"]["connect"]["port"] = free_port()
    file.write_text(json.dumps(settings))
    running = RunningGateway(file).start()
    try:
        with running.session("dave") as session:
            rows = session.range(0, 2_000_000, numPartitions=8).toLocalIterator()
            taken = [next(rows)[0] for _ in range(1000)]
            assert running.stop(signal.SIGTERM) == 0
            running = RunningGateway(file).start()
            taken += [row[0] for row in rows]
            assert taken == list(range(2_000_000))
            assert session.sql("SELECT current_user()").head()[0] == "dave"
    finally:
        assert running.stop() == 0
