"""PySpark → Sluice → Sluice → Spark: each user comes to the second one as who he is, and both judge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from gateway.backends.embedded_spark import free_port
from tests.backends.test_token_signing import new_key
from tests.e2e.conftest import write_settings
from tests.e2e.running import RunningGateway, Spark, connect_session
from tests.e2e.test_connect_doors import MASKED, NAMES

pytestmark = pytest.mark.in_turn(2)
ISSUER = "https://first.example"
INNER = """
service: spark
policies:
  - name: the first gateway asks for tables
    on:
      - {catalog: "*", database: "*"}
      - {catalog: "*", database: "*", table: "*", column: "*"}
      - {catalog: "*", database: "*", udf: "*"}
      - {setting: "*"}
    allow: [{users: [sluice], access: [all]}]
  - name: everybody reads what the first gateway lets him
    on:
      - {catalog: spark_catalog, database: [default, hr, sales]}
      - {catalog: spark_catalog, database: [default, hr, sales], table: "*", column: "*"}
    allow: [{groups: [public], access: [use, select]}]
  - name: but no analyst reads departments here
    on: {catalog: spark_catalog, database: hr, table: department, column: "*"}
    deny: [{groups: [analysts], access: [select]}]
"""


@dataclass(frozen=True)
class Chain:
    first: RunningGateway
    second: RunningGateway
    key: str


@pytest.fixture(scope="module")
def chain(spark: Spark, open_directory: Path) -> Iterator[Chain]:
    admin_port, key = free_port(), new_key()
    second = write_settings(open_directory / "second", spark)
    settings = json.loads(second.read_text())
    settings["listeners"] = {name: {"port": 0} for name in ("connect", "admin")}
    settings["backend"] = {"connect": settings["backend"]["connect"]}
    settings["logins"] = {
        "jwt": {
            "issuer": ISSUER,
            "audiences": ["second"],
            "jwks_url": f"http://127.0.0.1:{admin_port}/.well-known/jwks.json",
            "gateway": True,
        }
    }
    settings["policies"] = {"paths": ["inner.yaml"]}
    settings["users"] = {"file": "nobody.yaml"}
    (second.parent / "inner.yaml").write_text(INNER)
    (second.parent / "nobody.yaml").write_text("users: {}\n")
    (second.parent / "nobody.yaml").chmod(0o600)
    second.write_text(json.dumps(settings))
    behind = RunningGateway(second).start()
    first = write_settings(open_directory / "first", spark)
    settings = json.loads(first.read_text())
    settings["listeners"] = {"connect": {"port": 0}, "admin": {"port": admin_port}}
    settings["backend"] = {
        "connect": {"host": "127.0.0.1", "port": behind.connect_port, "sluice": True},
        "identity": {"by": "signed", "audience": "second"},
    }
    (first.parent / "key.pem").touch(mode=0o600)
    (first.parent / "key.pem").write_text(key)
    settings["token_signing"] = {"issuer": ISSUER, "keys": [{"file": "key.pem"}]}
    first.write_text(json.dumps(settings))
    try:
        before = RunningGateway(first).start()
        try:
            yield Chain(before, behind, key)
        finally:
            assert before.stop() == 0
    finally:
        assert behind.stop() == 0


def token_of(chain: Chain, user: str, **claims: Any) -> str:
    """Return a token as the first gateway would sign it."""
    from gateway.backends.token_signing import TokenSigner
    from gateway.model.principal import Principal

    signer = TokenSigner(ISSUER, lambda: [chain.key])
    return signer.sign(Principal(user=user), "second", (), **claims)


def test_both_gateways_judge_and_the_second_knows_whose_a_session_is(chain: Chain) -> None:
    with chain.first.session("bob") as bobs, chain.first.session("alice") as alices:
        assert bobs.sql("SELECT current_user()").head()[0] == "bob"
        assert alices.sql("SELECT current_user()").head()[0] == "alice"
        # Masked by the first; the second would show it.
        assert [tuple(row) for row in bobs.sql(NAMES).collect()] == MASKED
        frame = bobs.table("hr.employee").orderBy("id").select("name", "email").limit(2)
        assert [tuple(row) for row in frame.collect()] == MASKED
        bobs.range(3).createOrReplaceTempView("mine")
        assert bobs.table("mine").count() == 3
        assert bobs.sql("SELECT sum(id) FROM mine").head()[0] == 3


def test_what_the_second_denies_is_denied_to_whom_it_means(chain: Chain) -> None:
    with chain.first.session("bob") as bobs, pytest.raises(PySparkException, match="ACCESS_DENIED"):
        bobs.sql("SELECT count(name) FROM hr.department").collect()


def test_a_session_of_the_first_gateway_is_nobody_elses_at_the_second(chain: Chain) -> None:
    """Not of the user himself, who has got hold of a token, nor of another gateway."""
    claims: dict[str, str]
    for claims in ({}, {"gateway": "another"}):
        stolen = token_of(chain, "bob", **claims)
        with chain.first.session("bob") as bobs:
            assert bobs.range(2).count() == 2
            with (
                connect_session(chain.second.connect_port, stolen, "bob", bobs.session_id) as session,
                pytest.raises(PySparkException, match="another gateway"),
            ):
                session.range(1).collect()


def test_who_has_no_token_of_the_first_gets_nothing_from_the_second(chain: Chain) -> None:
    forged = jwt.encode({"iss": ISSUER, "aud": "second", "preferred_username": "bob"}, new_key(), "ES256")
    for shown in (forged, "x"):
        with (
            pytest.raises(SparkConnectGrpcException),
            connect_session(chain.second.connect_port, shown, "bob") as session,
        ):
            session.range(1).collect()
