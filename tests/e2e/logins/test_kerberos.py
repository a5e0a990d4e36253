"""Logins by tickets of a real KDC: drivers as people have them, and clients that cheat."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import os
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import gssapi
import impala.dbapi
import pytest
from pyhive import hive

from gateway.app.logins import make_logins
from gateway.frontends.auth_to_local import parse_rule
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.frontends.guessing import LoginLimits
from gateway.frontends.kerberos_logins import KerberosLogins
from gateway.frontends.known_users import KnownUsers
from gateway.frontends.ldap_logins import LdapLogins
from gateway.frontends.ldap_rules import LdapRules
from gateway.frontends.thrift_http import ThriftHttpServer
from gateway.reader.java_runtime import find_java, find_spark_home
from gateway.settings.loading import parse_settings
from gateway.wire import calls
from gateway.wire.frames import frame
from gateway.wire.messages import decode_reply, encode_call
from gateway.wire.sasl import QOP_BITS, Qop, Status, step
from tests.app.test_logins import BLOCKS
from tests.e2e.logins.directories import GROUPS, PEOPLE, SERVICE, SERVICE_PASSWORD, OpenLdap
from tests.e2e.logins.realms import OTHER, REALM, SPNEGO, Realms, begin, running_realms
from tests.frontends.listening import Gateway, RawClient, listening, user
from tests.frontends.test_clients import answers, in_thread
from tests.session.fakes import until
from tests.speed import patience

pytestmark = pytest.mark.logins
OPEN = encode_call("OpenSession", 1, calls.TOpenSessionReq())
ALL: tuple[Qop, ...] = ("auth", "auth-int", "auth-conf")


@pytest.fixture(scope="module")
def realms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realms]:
    with running_realms(Path(tmp_path_factory.mktemp("krb5"))) as made:
        yield made


@contextlib.asynccontextmanager
async def gateway_of(
    own: Realms,
    directory: LdapLogins | None = None,
    limits: LoginLimits | None = None,
    **rules: Any,
) -> AsyncIterator[Gateway]:
    """A gateway that takes tickets; `bob` and `alice` are in its user file."""
    known = KnownUsers(lambda: gateway.users, directory)
    logins = KerberosLogins(own.rules(**rules), known)
    async with listening(logins=limits, mechanisms=[logins]) as gateway:
        answers(gateway)
        try:
            yield gateway
        finally:
            logins.close()


def logins_of(gateway: Gateway) -> list[tuple[str, str, str]]:
    """Return who logged in, or did not, by what, and why not."""
    return [
        (one.body["reqUser"], one.body["mechanism"], one.body["reason"])
        for one in gateway.world.ledger.of("login")
    ]


class Client:
    """A client of the binary transport that has tickets."""

    def __init__(self, gateway: Gateway, context: Any) -> None:
        self.gateway = gateway
        self.context = context
        self.qop: Qop = "auth"

    async def login(self, qop: Qop = "auth", *, choice: int | None = None, acts_as: bytes = b"") -> str:
        """Log in; return what the gateway refuses it by, or nothing."""
        raw = await RawClient.connect(self.gateway.port)
        self.reader, self.writer = raw.reader, raw.writer
        self.qop = qop
        self.writer.write(step(Status.START, b"GSSAPI") + step(Status.OK, self.context.step()))
        status, token = await self.answer()
        if status is not Status.OK:
            return token.decode()
        self.context.step(token)
        self.writer.write(step(Status.OK))
        status, token = await self.answer()
        if status is not Status.OK:
            return token.decode()
        offered = self.context.unwrap(token).message
        assert len(offered) == 4
        chosen = bytes([QOP_BITS[qop] if choice is None else choice]) + (65536).to_bytes(3, "big") + acts_as
        self.writer.write(step(Status.COMPLETE, self.context.wrap(chosen, encrypt=False).message))
        status, token = await self.answer()
        return "" if status is Status.COMPLETE else token.decode()

    async def answer(self) -> tuple[Status, bytes]:
        status, length = struct.unpack(">BI", await self.reader.readexactly(5))
        return Status(status), await self.reader.readexactly(length)

    def send(self, message: bytes, *, encrypt: bool | None = None) -> None:
        if self.qop != "auth":
            protects = self.qop == "auth-conf" if encrypt is None else encrypt
            message = self.context.wrap(message, encrypt=protects).message
        self.writer.write(frame(message))

    async def receive(self) -> bytes:
        (length,) = struct.unpack(">I", await self.reader.readexactly(4))
        data = await self.reader.readexactly(length)
        if self.qop == "auth":
            return data
        found = self.context.unwrap(data)
        assert found.encrypted == (self.qop == "auth-conf")
        return bytes(found.message)

    async def open_session(self) -> int:
        self.send(OPEN)
        return int(decode_reply(await self.receive(), calls.TOpenSessionResp).status.statusCode)


# -- drivers -------------------------------------------------------------------------------------------------


def pyhive(port: int) -> Any:
    return hive.connect("localhost", port, auth="KERBEROS", kerberos_service_name="hive")


def impyla(port: int) -> Any:
    return impala.dbapi.connect("localhost", port, auth_mechanism="GSSAPI", kerberos_service_name="hive")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("connect", [pyhive, impyla])
async def test_python_drivers_log_in(
    realms: Realms, monkeypatch: pytest.MonkeyPatch, connect: Callable[[int], Any]
) -> None:
    monkeypatch.setenv("KRB5CCNAME", realms.tickets(f"bob@{REALM}"))

    def work() -> Any:
        with closing(connect(gateway.port)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute("SELECT id, name FROM t")
            return cursor.fetchall()

    async with gateway_of(realms) as gateway:
        assert await in_thread(work) == [(1, "one"), (2, None)]
        assert logins_of(gateway) == [("bob", "KERBEROS", "")]
    monkeypatch.setenv("KRB5CCNAME", realms.tickets(f"zoe@{REALM}"))
    async with gateway_of(realms) as gateway:
        with pytest.raises(Exception, match="neither in the user file"):
            await in_thread(work)
        assert logins_of(gateway) == [
            ("zoe", "KERBEROS", "the user is neither in the user file nor in the directory")
        ]
    gc.collect()  # refused, impyla leaves its socket open, which would be found during another test


@pytest.mark.parametrize("qop", ALL)
async def test_beeline_logs_in_under_each_protection(realms: Realms, qop: Qop) -> None:
    async with gateway_of(realms, qop=(qop,)) as gateway:
        url = f"jdbc:hive2://localhost:{gateway.port}/default;principal=hive/localhost@{REALM};sasl.qop={qop}"
        out = await beeline(realms, url, f"bob@{REALM}")
        assert "1\tone\n2\tNULL" in out
        assert logins_of(gateway) == [("bob", "KERBEROS", "")]


async def test_beeline_logs_in_over_http_and_gets_no_cookie(realms: Realms) -> None:
    async with gateway_of(realms) as gateway, over_http(gateway) as url:
        port = int(url.rpartition(":")[2])
        options = f"principal=HTTP/localhost@{REALM};transportMode=http;httpPath=cliservice"
        out = await beeline(realms, f"jdbc:hive2://localhost:{port}/default;{options}", f"bob@{REALM}")
        assert "1\tone\n2\tNULL" in out
        assert logins_of(gateway) == [("bob", "KERBEROS", "")]


async def test_beeline_is_refused_at_once_by_what_is_no_ticket_for_it(realms: Realms) -> None:
    """Of somebody whom nobody knows, on both transports, and of another realm."""
    async with gateway_of(realms) as gateway, over_http(gateway) as url:
        port = int(url.rpartition(":")[2])
        ways = (
            f"{gateway.port}/default;principal=hive/localhost@{REALM}",
            f"{port}/default;principal=HTTP/localhost@{REALM};transportMode=http;httpPath=cliservice",
        )
        began = time.monotonic()
        for way, principal in ((0, f"zoe@{REALM}"), (1, f"zoe@{REALM}"), (0, f"bob@{OTHER}")):
            out = await beeline(realms, f"jdbc:hive2://localhost:{ways[way]}", principal)
            assert "one" not in out
            assert ("neither in the user file", "401", f"realm `{OTHER}`")[
                way or 2 * (OTHER in principal)
            ] in out
        assert time.monotonic() - began < patience(90)
        told = [one[2] for one in logins_of(gateway)]
        assert set(told) == {
            "the user is neither in the user file nor in the directory",
            f"principals of the realm `{OTHER}` may not log in",
        }
        assert len(told) <= 6
        assert not gateway.world.backend.sessions


async def beeline(realms: Realms, url: str, principal: str) -> str:
    process = await asyncio.create_subprocess_exec(
        str(find_java()),
        "-Xmx192m",
        f"-Djava.security.krb5.conf={realms.configuration}",
        "-Djavax.security.auth.useSubjectCredsOnly=false",
        *("-cp", f"{find_spark_home()}/jars/*"),
        "org.apache.hive.beeline.BeeLine",
        *("--outputformat=tsv2", "-u", url, "-e", "SELECT id, name FROM t;"),
        env={**os.environ, "KRB5CCNAME": realms.tickets(principal)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(patience()):
        out, _ = await process.communicate()
    return out.decode()


# -- the binary transport ------------------------------------------------------------------------------------


@pytest.mark.parametrize("qop", ALL)
async def test_calls_and_rows_are_protected_as_agreed(realms: Realms, qop: Qop) -> None:
    async with gateway_of(realms, qop=ALL) as gateway:
        client = Client(gateway, begin(realms.credentials(f"bob@{REALM}")))
        assert await client.login(qop) == ""
        assert await client.open_session() == 0


@pytest.mark.parametrize("acts_as", [b"", b"bob", f"bob@{REALM}".encode()])
async def test_a_client_may_say_who_it_is(realms: Realms, acts_as: bytes) -> None:
    async with gateway_of(realms) as gateway:
        client = Client(gateway, begin(realms.credentials(f"bob@{REALM}")))
        assert await client.login(acts_as=acts_as) == ""


@pytest.mark.parametrize(
    ("login", "why"),
    [
        ({"acts_as": b"alice"}, "acting as another user"),
        ({"acts_as": f"bob@{OTHER}".encode()}, "acting as another user"),
        ({"qop": "auth"}, "QOP"),
        ({"choice": 0}, "QOP"),
        ({"choice": 6}, "QOP"),
    ],
)
async def test_a_client_that_cheats_in_the_last_step_is_refused(
    realms: Realms, login: dict[str, Any], why: str
) -> None:
    async with gateway_of(realms, qop=("auth-int", "auth-conf")) as gateway:
        client = Client(gateway, begin(realms.credentials(f"bob@{REALM}")))
        assert why in await client.login(**{"qop": "auth-int", **login})
        ((name, _, reason),) = logins_of(gateway)
        assert name == f"bob@{REALM}"
        assert why in reason


@pytest.mark.parametrize("how", ["plain", "clear", "changed", "again"])
async def test_a_message_that_is_less_protected_than_agreed_ends_the_connection(
    realms: Realms, how: str
) -> None:
    async with gateway_of(realms, qop=("auth-conf",)) as gateway:
        client = Client(gateway, begin(realms.credentials(f"bob@{REALM}")))
        assert await client.login("auth-conf") == ""
        if how == "plain":
            client.send(OPEN, encrypt=False)
        elif how == "clear":
            client.writer.write(frame(OPEN))
        else:
            wrapped = client.context.wrap(OPEN, encrypt=True).message
            if how == "changed":
                wrapped = wrapped[:-1] + bytes([wrapped[-1] ^ 1])
            else:
                client.writer.write(frame(wrapped))
                await client.receive()
            client.writer.write(frame(wrapped))
        assert b"OpenSession" not in await client.receive()
        assert await client.reader.read() == b""
        assert len(gateway.world.backend.sessions) == (1 if how == "again" else 0)


# -- who it is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("principal", "rules", "why"),
    [
        (f"bob@{OTHER}", {}, f"realm `{OTHER}`"),
        # The realm is looked at before any rule is.
        (f"bob@{OTHER}", {"rules": (parse_rule("RULE:[1:$1]"),)}, f"realm `{OTHER}`"),
        (f"bob@{OTHER}", {"realms": frozenset({OTHER})}, "no rule"),
        (f"bob/admin@{REALM}", {}, "no rule"),
        (f"zoe@{REALM}", {}, "neither in the user file"),
    ],
)
async def test_a_principal_that_nobody_knows_is_refused(
    realms: Realms, principal: str, rules: dict[str, Any], why: str
) -> None:
    async with gateway_of(realms, **rules) as gateway:
        assert why in await Client(gateway, begin(realms.credentials(principal))).login()
        assert why in logins_of(gateway)[0][2]


async def test_a_rule_says_who_somebody_of_another_realm_is(realms: Realms) -> None:
    rule = parse_rule(f"RULE:[1:$1@$0](.*@{OTHER})s/@.*/_other/")
    async with gateway_of(realms, realms=frozenset({OTHER}), rules=(rule,)) as gateway:
        gateway.users["bob_other"] = user("bob_other", "x")
        assert await Client(gateway, begin(realms.credentials(f"bob@{OTHER}"))).login() == ""
        assert "no rule" in await Client(gateway, begin(realms.credentials(f"bob@{REALM}"))).login()
        assert [one[0] for one in logins_of(gateway)] == ["bob_other", f"bob@{REALM}"]


async def test_a_gateway_of_the_documented_settings_takes_tickets(realms: Realms, tmp_path: Path) -> None:
    (block,) = [one for one in BLOCKS if "kerberos:" in one]
    (tmp_path / "gateway.keytab").write_bytes(realms.keytab.read_bytes())
    settings = parse_settings(block, "gateway.yaml", tmp_path)
    logins = make_logins(settings, lambda: gateway.users)
    async with listening(mechanisms=logins.chain.mechanisms[-1:]) as gateway:
        assert await Client(gateway, begin(realms.credentials(f"bob@{REALM}"))).login() == ""
        assert "may not log in" in await Client(gateway, begin(realms.credentials(f"bob@{OTHER}"))).login()
    logins.chain.close()


async def test_groups_are_those_of_the_directory(realms: Realms, openldap: OpenLdap) -> None:
    directory = LdapLogins(
        LdapRules(
            urls=(openldap.tls_url,),
            ca_file=openldap.ca_file,
            bind_dn=SERVICE,
            bind_password=lambda: SERVICE_PASSWORD,
            user_base=PEOPLE,
            group_base=GROUPS,
            timeout_s=patience(),
        )
    )
    async with gateway_of(realms, directory) as gateway:
        del gateway.users["bob"]
        assert await Client(gateway, begin(realms.credentials(f"bob@{REALM}"))).login() == ""
        assert (
            "neither in the user file"
            in await Client(gateway, begin(realms.credentials(f"zoe@{REALM}"))).login()
        )
        (event, _) = gateway.world.ledger.of("login")
        assert set(event.body["groups"]) == {"analysts", "unique", "unix"}
    directory.close()


# -- bad tickets ---------------------------------------------------------------------------------------------


async def test_a_ticket_for_another_service_of_the_host_is_refused(realms: Realms) -> None:
    async with gateway_of(realms) as gateway:
        context = begin(realms.credentials(f"bob@{REALM}"), "hdfs")
        assert "not a principal of this endpoint" in await Client(gateway, context).login()


async def test_a_ticket_by_another_key_is_refused(realms: Realms, tmp_path: Path) -> None:
    realms.administrate("add_principal -randkey hive/elsewhere")
    realms.administrate(f"ktadd -k {tmp_path}/other.keytab hive/elsewhere")
    async with gateway_of(realms, keytab=tmp_path / "other.keytab") as gateway:
        assert "Kerberos: " in await Client(gateway, begin(realms.credentials(f"bob@{REALM}"))).login()
        (tmp_path / "other.keytab").unlink()
        refused = await Client(gateway, begin(realms.credentials(f"bob@{REALM}"))).login()
        assert "keys of Kerberos cannot be read" in refused


@pytest.mark.parametrize("token", [b"", b"x", b"\x60\x82", os.urandom(2000)])
async def test_what_is_no_ticket_is_refused_and_blocks_its_address(realms: Realms, token: bytes) -> None:
    class Said:
        def step(self, _: bytes = b"") -> bytes:
            return token

    async with gateway_of(realms) as gateway:
        for _ in range(10):
            assert "Kerberos: " in await Client(gateway, Said()).login()
        assert "too many failed logins" in await Client(gateway, Said()).login()
        assert await Client(gateway, begin(realms.credentials(f"bob@{REALM}"))).login() == ""


async def test_many_log_in_at_once(realms: Realms) -> None:
    async with gateway_of(realms, qop=ALL) as gateway:
        credentials = realms.credentials(f"bob@{REALM}")
        clients = [Client(gateway, begin(credentials)) for _ in range(200)]
        found = await asyncio.gather(*(one.login(ALL[turn % 3]) for turn, one in enumerate(clients)))
        assert set(found) == {""}
        assert len(logins_of(gateway)) == len(clients)


async def test_a_client_that_leaves_within_the_login_leaves_nothing(realms: Realms) -> None:
    async with gateway_of(realms) as gateway:
        client = Client(gateway, begin(realms.credentials(f"bob@{REALM}")))
        raw = await RawClient.connect(gateway.port)
        raw.writer.write(step(Status.START, b"GSSAPI") + step(Status.OK, client.context.step()))
        await raw.sasl_answer()
        await raw.close()
        await until(lambda: not gateway.server._tasks)


# -- SPNEGO over HTTP ----------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def over_http(gateway: Gateway) -> AsyncIterator[str]:
    server = ThriftHttpServer(
        gateway.server.service, gateway.authenticator, door=ConnectionLimiter("thrift_http")
    )
    try:
        yield f"http://localhost:{await server.start('127.0.0.1', 0)}"
    finally:
        await server.close(within_s=5)


async def post(url: str, *headers: tuple[str, str]) -> tuple[int, str, Any]:
    async with (
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http,
        http.post(f"{url}/cliservice", data=OPEN, headers=headers) as answer,
    ):
        return answer.status, (await answer.read()).decode("latin-1"), answer.headers


def negotiate(token: bytes) -> tuple[str, str]:
    return "Authorization", f"Negotiate {base64.b64encode(token).decode()}"


@pytest.mark.parametrize("service", ["HTTP", "hive"])
@pytest.mark.parametrize("mechanism", ["spnego", "kerberos"])
async def test_a_ticket_logs_in_over_http_and_the_server_proves_itself(
    realms: Realms, service: str, mechanism: str
) -> None:
    mech = SPNEGO if mechanism == "spnego" else gssapi.MechType.kerberos
    async with gateway_of(realms) as gateway, over_http(gateway) as url:
        flags = gssapi.RequirementFlag.mutual_authentication
        context = begin(realms.credentials(f"bob@{REALM}"), service, mech=mech, flags=flags)
        token = context.step()
        status, _, headers = await post(url, negotiate(token))
        assert status == 200
        context.step(base64.b64decode(headers["WWW-Authenticate"].removeprefix("Negotiate ")))
        assert context.complete
        assert "Set-Cookie" not in headers
        # What somebody has overheard is worth nothing.
        status, text, headers = await post(url, negotiate(token))
        assert (status, headers.getall("WWW-Authenticate")[0]) == (401, "Negotiate")
        assert "replay" in text
        assert [one[1] for one in logins_of(gateway)] == ["KERBEROS", "KERBEROS"]


async def test_bad_tickets_over_http_are_refused(realms: Realms) -> None:
    async with gateway_of(realms) as gateway, over_http(gateway) as url:
        other = begin(realms.credentials(f"bob@{OTHER}"), "HTTP").step()
        hdfs = begin(realms.credentials(f"bob@{REALM}"), "hdfs").step()
        good = begin(realms.credentials(f"bob@{REALM}"), "HTTP").step()
        basic = ("Authorization", "Basic " + base64.b64encode(b"alice:wonder").decode())
        for status, why, *headers in (
            (401, f"realm `{OTHER}`", negotiate(other)),
            (401, "not a principal", negotiate(hdfs)),
            (401, "Kerberos: ", negotiate(b"NTLMSSP\0\1\0\0\0")),
            (401, "must have a token in base64", ("Authorization", "Negotiate !")),
            (401, "more than one", negotiate(good), basic),
            (200, "", negotiate(good)),
        ):
            found = await post(url, *headers)
            assert found[0] == status, found
            assert why in found[1]
        assert "alice" not in [one[0] for one in logins_of(gateway)]


async def test_an_expired_ticket_is_refused(realms: Realms) -> None:
    limits = LoginLimits(failures=10_000)
    realms.administrate('modify_principal -maxlife "5 seconds" alice')
    credentials = realms.credentials(f"alice@{REALM}")
    # One token is taken once, so there are many of one ticket.
    tokens = [begin(credentials, "HTTP").step() for _ in range(100)]
    async with gateway_of(realms, limits=limits) as gateway, over_http(gateway) as url:
        for token in tokens:
            # It ends after five seconds, and clocks may differ by two.
            status, text, _ = await post(url, negotiate(token))
            if status == 401:
                assert "expired" in text or "skew" in text
                return
            await asyncio.sleep(0.2)
        pytest.fail("it is taken for ever")
