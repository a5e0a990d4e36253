"""The gateway logs in to a HiveServer2 by a ticket of its own, and acts as its users."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions
from gateway.backends.kerberos_client import KerberosClient, KerberosLogin
from gateway.backends.spark_thrift import SparkThriftBackend
from gateway.backends.spark_thrift_connection import SparkAddress, SparkConnection
from gateway.backends.spark_thrift_options import SparkThriftOptions
from gateway.errors import BackendUnavailable
from gateway.frontends.users import set_user
from gateway.model.principal import Principal
from gateway.reader.class_archive import find_spark_classes
from gateway.reader.java_runtime import find_java, find_spark_home, jdk_openings
from gateway.wire import calls
from gateway.wire.sasl import Qop
from gateway.wire.tcli import TProtocolVersion
from tests.e2e.cluster_load import PACK
from tests.e2e.logins.realms import REALM, Realms, running_realms
from tests.e2e.logins.test_kerberos import ALL, gateway_of, logins_of, over_http
from tests.e2e.running import LoopThread, RunningGateway
from tests.e2e.wire_client import StatusError, WireClient
from tests.speed import patience

pytestmark = pytest.mark.logins
SERVICE, SERVER = f"sluice@{REALM}", f"hive/_HOST@{REALM}"


@pytest.fixture(scope="module")
def realms() -> Iterator[Realms]:
    with (
        tempfile.TemporaryDirectory(prefix="sluice-krb5-") as name,
        running_realms(Path(name)) as made,
    ):
        made.administrate("add_principal -randkey sluice")
        made.administrate(f"ktadd -k {keytab_of(made)} sluice")
        yield made


def keytab_of(realms: Realms) -> Path:
    return realms.directory / "service.keytab"


def client_of(realms: Realms, *qop: Qop, user: str = SERVICE, server: str = SERVER) -> KerberosClient:
    return KerberosClient(
        KerberosLogin(
            keytab=keytab_of(realms), user=user, server=server, host="LOCALHOST", qop=qop or ("auth",)
        )
    )


def address_of(port: int, http_path: str | None = None) -> SparkAddress:
    return SparkAddress(
        host="localhost",
        port=port,
        http_path=http_path,
        connect_timeout_s=patience(10),
        call_timeout_s=patience(10),
    )


async def open_session(port: int, client: KerberosClient) -> None:
    connection = await SparkConnection.open(address_of(port), await client.begin_sasl())
    try:
        for _ in range(2):
            request = calls.TOpenSessionReq(client_protocol=TProtocolVersion.V10)
            await connection.call("OpenSession", request, calls.TOpenSessionResp)
    finally:
        connection.abort()


@pytest.mark.parametrize("qop", ALL)
async def test_the_service_logs_in_under_each_protection(realms: Realms, qop: Qop) -> None:
    async with gateway_of(realms, qop=(qop,), unlisted=True) as server:
        # The strongest first: it takes what the server offers.
        await open_session(server.port, client_of(realms, "auth-conf", "auth-int", "auth"))
        assert logins_of(server) == [("sluice", "KERBEROS", "")]


async def test_a_server_that_protects_less_than_is_wanted_gets_nothing(realms: Realms) -> None:
    async with gateway_of(realms, qop=("auth", "auth-int"), unlisted=True) as server:
        with pytest.raises(BackendUnavailable, match="no protection") as caught:
            await open_session(server.port, client_of(realms, "auth-conf"))
        assert caught.value.lasting
        assert not server.world.backend.sessions


@pytest.mark.parametrize(
    "wrong",
    [{"user": f"bob@{REALM}"}, {"server": f"spark/_HOST@{REALM}"}, {"server": f"hive/elsewhere@{REALM}"}],
)
async def test_without_a_ticket_nobody_is_connected_to(realms: Realms, wrong: dict[str, str]) -> None:
    """Of a principal without a key, and for servers that the KDC does not know."""
    with pytest.raises(BackendUnavailable, match="no ticket") as caught:
        await client_of(realms, **wrong).begin_sasl()
    assert "localhost" in caught.value.where or "elsewhere" in caught.value.where


async def test_who_has_another_servers_key_is_not_believed(realms: Realms) -> None:
    """The ticket is for `hdfs`, and the server that answers has the key of `hive`."""
    async with gateway_of(realms, unlisted=True) as server:
        with pytest.raises(BackendUnavailable):
            await open_session(server.port, client_of(realms, server=f"hdfs/_HOST@{REALM}"))
        assert not server.world.backend.sessions


async def test_each_request_over_http_has_a_ticket_of_its_own(realms: Realms) -> None:
    async with gateway_of(realms, unlisted=True) as server, over_http(server) as url:
        client = client_of(realms)
        assert await client.negotiate() != await client.negotiate()
        backend = SparkThriftBackend(
            SparkThriftOptions(
                address=address_of(int(url.rpartition(":")[2]), "cliservice"),
                service="sluice",
                kerberos=client,
            )
        )
        with pytest.raises(BackendUnavailable):  # what it opens is not Spark's: it reports no configuration
            await backend.open_session(
                Principal(user="bob"), protocol_version=TProtocolVersion.V10, settings={}
            )
        # The ticket was good, and nobody may act as bob here.
        assert not server.world.backend.sessions


@pytest.mark.in_turn(12)
def test_users_are_acted_as_on_a_real_spark(
    realms: Realms, session_loop: LoopThread, open_directory: Path, tmp_path: Path
) -> None:
    """Spark's own Thrift Server with Kerberos, messages encrypted; `sluice` may not act as `zoe`."""
    for file in (realms.directory, realms.configuration, realms.keytab):
        file.chmod(0o755)
    hive = "spark.hadoop.hive.server2"
    conf = {
        "spark.hadoop.hadoop.security.authentication": "kerberos",
        f"{hive}.authentication": "KERBEROS",
        f"{hive}.authentication.kerberos.principal": f"hive/localhost@{REALM}",
        f"{hive}.authentication.kerberos.keytab": str(realms.keytab),
        f"{hive}.thrift.sasl.qop": "auth-conf",
        "spark.hadoop.hadoop.proxyuser.sluice.hosts": "*",
        "spark.hadoop.hadoop.proxyuser.sluice.users": "bob,alice",
    }

    async def answers(host: str, port: int) -> None:
        backend = SparkThriftBackend(
            SparkThriftOptions(
                address=address_of(port), service="sluice", kerberos=client_of(realms, "auth-conf")
            )
        )
        await backend.probe()

    spark = EmbeddedSpark(
        EmbeddedSparkOptions(
            directory=open_directory / "kerberized",
            java=find_java(),
            spark_home=find_spark_home(),
            java_options=(*jdk_openings(), f"-Djava.security.krb5.conf={realms.configuration}"),
            classes=find_spark_classes(find_java(), find_spark_home()),
            heap="768m",
            start_timeout_s=patience(240),
            conf=conf,
        ),
        answers,
    )
    for user in ("bob", "alice", "zoe"):
        set_user(tmp_path / "users.yaml", user, password="pw")
    (tmp_path / "pack.yaml").write_text(PACK)
    thrift = {
        "host": "localhost",
        "port": spark.thrift_port,
        "kerberos": {
            "server": SERVER,
            "user": SERVICE,
            "keytab": str(keytab_of(realms)),
            "qop": ["auth-conf"],
        },
    }
    (tmp_path / "gateway.yaml").write_text(
        json.dumps(
            {
                "listeners": {"thrift": {"port": 0}, "admin": {"port": 0}},
                "backend": {"thrift": thrift},
                "policies": {"paths": ["pack.yaml"]},
                "users": {"file": "users.yaml"},
                "ledger": {"directory": "ledger"},
                "logging": {"format": "json"},
            }
        )
    )
    gateway = RunningGateway(tmp_path / "gateway.yaml")
    try:
        session_loop.run(spark.start())
        gateway.start()
        for user in ("bob", "alice"):
            with WireClient("127.0.0.1", gateway.port, user, "pw") as client:
                session = client.open_session()
                operation = client.execute(session, "SELECT current_user(), count(*) FROM range(20000)")
                assert client.rows(operation) == [(user, 20000)]
        with WireClient("127.0.0.1", gateway.port, "zoe", "pw") as client, pytest.raises(StatusError):
            client.execute(client.open_session(), "SELECT 1")
    finally:
        if gateway.process is not None:
            gateway.stop()
        session_loop.run(spark.stop())
