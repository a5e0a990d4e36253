"""Hive JDBC 4.1 and 3.1, HikariCP, JdbcTemplate: through the gateway as from Spark. `make programs-test`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.frontends.login_mechanisms import IssuerLogins
from gateway.reader.java_runtime import find_java
from tests.e2e import one_pack
from tests.e2e.programs.comparison import HERE, answers_of, level, require_alike
from tests.e2e.programs.conftest import FREE, GOVERNED, SHOP, Programs
from tests.e2e.programs.turns import take_turns
from tests.frontends.test_clients import answers
from tests.frontends.test_jwt_logins import Issuer, bad_tokens, token
from tests.frontends.test_thrift_http import listening as http_listening
from tests.speed import patience

pytestmark = [pytest.mark.programs, take_turns("java")]
CLASSES = HERE / "java" / "target"
"""Built by `make programs-test`, with a class path for each minor of the driver in a file."""
NEWEST = "4.1"
NAMES = {"HiveJdbc": "hive-jdbc", "Pool": "hikaricp", "Spring": "spring-jdbc"}
"""The class that is run → its name in the list of differences."""


def class_path(driver: str = NEWEST) -> str:
    return f"{CLASSES}/classes:{(CLASSES / f'classpath-{driver}').read_text().strip()}"


def run(
    program: str, host: str, port: int, user: str, password: str, scratch: str, driver: str = NEWEST
) -> Any:
    url = f"jdbc:hive2://{host}:{port}/default"
    command = [str(find_java()), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-cp", class_path(driver)]
    answers = answers_of(
        [*command, program, url, user, password, SHOP, scratch, "spark" if password == "x" else "gateway"]
    )
    return level(answers, {scratch: "{scratch}"})


@pytest.mark.parametrize(("program", "driver"), [*((name, NEWEST) for name in NAMES), ("HiveJdbc", "3.1")])
def test_it_is_answered_as_by_spark(programs: Programs, program: str, driver: str) -> None:
    gateway, spark = programs.gateway, programs.spark
    with programs.scratch("programs_java") as scratch:
        through = run(program, gateway.host, gateway.port, FREE, one_pack.PASSWORD, scratch, driver)
    with programs.scratch("programs_java") as scratch:
        direct = run(program, spark.host, spark.port, FREE, "x", scratch, driver)
    require_alike(NAMES[program], through, direct)


def test_jdbc_template_gets_what_its_user_may_see(programs: Programs) -> None:
    gateway = programs.gateway
    with programs.scratch("programs_hers") as scratch:
        got = run("Spring", gateway.host, gateway.port, GOVERNED, one_pack.PASSWORD, scratch)
    assert json.dumps(got).count("@x.example") == 0
    assert got["a value"] == 4
    assert got["with arguments"] == ['0 Dara "O\'Neil"', "1 Élif"]
    # By the SQLSTATE, as of Spark itself: what programs branch on.
    assert got["no such table"]["class"] == "org.springframework.jdbc.BadSqlGrammarException"


async def test_hive_jdbc_4_logs_in_by_a_jwt_and_gives_up_at_once() -> None:
    """`auth=jwt` of the driver over HTTP, with its cookie; and every bad token by its right status."""
    bad = bad_tokens()
    async with http_listening() as gateway:
        gateway.chain.mechanisms += (IssuerLogins(Issuer().logins()),)
        answers(gateway)
        shown = [token(), *bad.values()]
        url = f"jdbc:hive2://127.0.0.1:{gateway.port}/default;transportMode=http;httpPath=cliservice;auth=jwt;jwt="
        command = [str(find_java()), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", class_path(), "JwtLogin"]
        running = await asyncio.create_subprocess_exec(
            *command,
            *(url + one for one in shown),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(patience()):
            lines = (await running.communicate())[0].decode().splitlines()
        told = [line.partition(" ")[2] for line in lines]
        assert told[0] == "row 1", told
        assert all("401" in one for one in told[1:]), told
        assert all(int(line.split()[0]) < 1000 * patience(60) for line in lines)
        events = [one.body for one in gateway.world.ledger.of("login")]
        assert {one["reason"] for one in events if not one["result"]} == set(bad)
        assert len(events) <= 3 * len(shown), "the driver tries once more, and not for minutes"
        assert not any(one in str(gateway.world.ledger.events) for one in shown)
