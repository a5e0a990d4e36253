"""gohive and spark-connect-go: through the gateway what Spark itself gives them. `make programs-test`."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from gateway.frontends.login_mechanisms import IssuerLogins
from tests.e2e import one_pack
from tests.e2e.programs.comparison import HERE, answers_of, level, require_alike
from tests.e2e.programs.conftest import FREE, GOVERNED, SHOP, Programs
from tests.e2e.programs.turns import take_turns
from tests.e2e.running import RunningGateway
from tests.frontends.listening import listening
from tests.frontends.test_jwt_logins import Issuer, bad_tokens, token

pytestmark = [pytest.mark.programs, take_turns("go")]
HIVE, CONNECT = HERE / ".go" / "hive", HERE / ".go" / "connect"
"""Built by `make programs-test`."""
CUSTOMERS = f"SELECT id, name, email, region FROM {SHOP}.customer ORDER BY id"
STATEMENTS = [
    CUSTOMERS,
    f"SELECT * FROM {SHOP}.every_type ORDER BY number",
    f"SELECT id, rest FROM {SHOP}.numbers ORDER BY id",
    f"SELECT id FROM {SHOP}.numbers WHERE id < 0",
    f"SHOW TABLES IN {SHOP}",
    f"DESCRIBE {SHOP}.customer",
    "SET spark.sql.session.timeZone = Europe/Berlin",
    f"USE {SHOP}",
    "SELECT count(*) AS n FROM emea",
    f"SELECT * FROM {SHOP}.nothing",
    "SELEKT 1",
    f"SELECT 1 / (id - id) AS x FROM {SHOP}.customer",
    f"SELECT CAST(name AS INT) AS x FROM {SHOP}.customer",
    "SELECT nothing FROM customer",
]


def with_gohive(
    host: str, port: int, user: str, password: str, statements: list[str], authority: Path | None = None
) -> Any:
    asked = {"host": host, "port": port, "user": user, "password": password, "statements": statements}
    return level(answers_of([HIVE], asked=asked | {"authority": str(authority or "")}))


def test_gohive_is_answered_as_by_spark(programs: Programs) -> None:
    gateway, spark = programs.gateway, programs.spark
    through = with_gohive(gateway.host, gateway.port, FREE, one_pack.PASSWORD, STATEMENTS)
    direct = with_gohive(spark.host, spark.port, FREE, "x", STATEMENTS)
    require_alike("gohive", through, direct)


def test_gohive_gets_what_its_user_may_see_and_errors_with_words(programs: Programs) -> None:
    gateway = programs.gateway
    refused, failing = "SELECT reflect('java.lang.System', 'getenv', 'PATH')", STATEMENTS[-2]
    got = with_gohive(gateway.host, gateway.port, GOVERNED, one_pack.PASSWORD, [CUSTOMERS, refused, failing])
    assert [(row["id"], row["email"]) for row in got[CUSTOMERS]["rows"]] == [
        (1, "xxx@x.xxxxxxx"),
        (2, "xx@x.xxxxxxx"),
        (4, None),
        (5, "xxxx@x.xxxxxxx"),
    ]
    assert got[refused]["error"].startswith("[SLUICE_ACCESS_DENIED]")
    assert (
        "[CAST_INVALID_INPUT]" in got[failing]["error"] or "[CAST_INVALID_INPUT]" in got[failing]["message"]
    )
    assert "Ann" not in json.dumps(got[failing])


def test_gohive_over_tls_with_a_password(programs: Programs, open_directory: Path) -> None:
    """Its certificate is for `localhost`, which gohive is told to expect."""
    tls = {"certificate": str(programs.certificate), "key": str(programs.certificate.with_name("k.pem"))}
    file = one_pack.write_settings(
        open_directory / "programs-thrift-tls",
        dataclasses.replace(programs.spark, connect_port=0),
        programs.gateway.config.with_name("pack.yaml").read_text("utf-8"),
        {GOVERNED: []},
        listeners={"thrift": {"port": 0, "tls": tls}, "admin": {"port": 0}},
    )
    gateway = RunningGateway(file).start()
    try:
        got = with_gohive(
            "localhost", gateway.port, GOVERNED, one_pack.PASSWORD, [CUSTOMERS], programs.certificate
        )
    finally:
        assert gateway.stop() == 0
    assert got[CUSTOMERS]["rows"][0]["email"] == "xxx@x.xxxxxxx"


async def test_gohive_logs_in_by_a_jwt_and_is_refused_at_once() -> None:
    """In the place of a password, which is all that it has."""
    async with listening(mechanisms=[IssuerLogins(Issuer().logins())]) as gateway:
        await asyncio.to_thread(with_gohive, "127.0.0.1", gateway.port, "Eva", token(), [])
        for why, bad in bad_tokens().items():
            with pytest.raises(AssertionError, match=re.escape(why)):
                await asyncio.to_thread(with_gohive, "127.0.0.1", gateway.port, "Eva", bad, [])
        told = [one.body["reason"] for one in gateway.world.ledger.of("login")]
        assert told == ["", *bad_tokens()]


def with_connect_go(programs: Programs, port: int, token: str, user: str, scratch: str) -> Any:
    address = f"sc://localhost:{port}/;token={token};user_id={user}"
    answers = answers_of([CONNECT, address, SHOP, scratch], env=programs.trusting())
    return level(answers, {scratch: "{scratch}"})


def test_spark_connect_go_is_answered_as_by_spark(programs: Programs) -> None:
    """Over TLS, with a token of the user file; straight at Spark with its own token, over TLS before it."""
    with programs.scratch("programs_go") as scratch:
        port = programs.gateway.connect_port
        through = with_connect_go(programs, port, programs.token(FREE), FREE, scratch)
    with programs.scratch("programs_go") as scratch:
        direct = with_connect_go(programs, programs.front_port, programs.spark.connect_token, FREE, scratch)
    require_alike("spark-connect-go", through, direct)


def test_spark_connect_go_gets_what_its_user_may_see(programs: Programs) -> None:
    with programs.scratch("programs_hers") as scratch:
        token = programs.token(GOVERNED)
        got = with_connect_go(programs, programs.gateway.connect_port, token, "another process", scratch)
    shown = ["[1 xxx@x.xxxxxxx]", "[2 xx@x.xxxxxxx]", "[4 <nil>]", "[5 xxxx@x.xxxxxxx]"]
    assert got["a table is read"].get("rows") == shown, got
    assert [row.split()[0] for row in got["customers"]["rows"]] == ["[1", "[2", "[4", "[5"]
    assert got["grouped"]["rows"] == ["[AMER 1]", "[EMEA 3]"]
