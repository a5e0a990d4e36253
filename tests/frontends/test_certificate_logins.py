"""Client certificates: which user one is of, and what is made of other logins beside it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gateway.app.certificates import context_of, read_pair
from gateway.app.connect import connect_context_of
from gateway.errors import AuthenticationFailed
from gateway.frontends.authentication import Authenticator
from gateway.frontends.certificate_logins import (
    UPN,
    CertificateLogins,
    CertificatePart,
    CertificateRules,
    make_rule,
    user_of_certificate,
)
from gateway.frontends.connect_server import ConnectServer
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.frontends.known_users import KnownUsers
from gateway.frontends.login_chain import LoginChain
from gateway.frontends.login_cookies import NAME as NAME_OF_COOKIE
from gateway.frontends.login_mechanisms import PasswordLogins, TokenLogins
from gateway.frontends.thrift_http import ThriftHttpServer
from gateway.frontends.tokens import new_token
from gateway.frontends.users import User, Users
from gateway.model.credentials import NO_CERTIFICATE, Bearer, ClientCertificate, Credentials, Password
from gateway.model.statement import Client
from gateway.settings.listeners import Tls
from gateway.wire import calls
from gateway.wire.connect import METHODS
from gateway.wire.messages import encode_call
from gateway.wire.sasl import Status, step
from tests.app.certificate_files import make_pair, secret
from tests.frontends.connect_listening import FakeConnect
from tests.frontends.listening import Gateway, user
from tests.session.fakes import World, until
from tests.speed import patience

NAME = make_rule("common_name", "([a-z]+)", "$1")
SECRET, TOKEN = new_token()
KEY = ec.generate_private_key(ec.SECP256R1())


def name_of(*names: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one) for one in names])


AUTHORITY, STRANGERS, BOBS = name_of("authority"), name_of("another"), name_of("bob")


@cache
def other_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def issue(
    *names: str,
    others: tuple[x509.GeneralName, ...] = (),
    key: ec.EllipticCurvePrivateKey = KEY,
    days: int = 1,
    use: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
    authority: bool = False,
    issuer: x509.Name = AUTHORITY,
    subject: x509.Name | None = None,
) -> x509.Certificate:
    """Return a certificate of the authority for common names, with alternative names; its key is `KEY`."""
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject or name_of(*names))
        .issuer_name(issuer)
        .public_key(KEY.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=10))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if not authority:
        made = made.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
    if others:
        made = made.add_extension(x509.SubjectAlternativeName(others), critical=False)
    return made.sign(key, hashes.SHA256())


def der(*names: str, **more: Any) -> bytes:
    return issue(*names, **more).public_bytes(Encoding.DER)


def upn(text: str) -> x509.OtherName:
    return x509.OtherName(UPN, bytes([0x0C, len(text.encode())]) + text.encode())


# -- rules ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "certificate", "found"),
    [
        (("common_name", "(.*)", "$1"), der("bob"), "bob"),
        (("common_name", "([a-z]+)", "$1"), der("bob1"), None),
        (("common_name", "([a-z]+)", "$1"), der("bob", "alice"), None),
        (("common_name", "(.*)", "$1"), der("bob smith"), None),
        (("common_name", "(.*)", "$1"), der("bob\nsmith"), None),
        (("common_name", "svc-.*", "etl"), der("svc-1"), "etl"),
        # A name that holds what looks like another part is one value.
        (("subject", "CN=(.*),O=x", "$1"), der("bob,O=x"), None),
        (
            ("email", "(.*)@corp.example", "$1"),
            der("x", others=(x509.RFC822Name("bob@corp.example"),)),
            "bob",
        ),
        (("email", "(.*)@corp.example", "$1"), der("bob@corp.example"), None),
        (
            ("email", "(.*)@.*", "$1"),
            der("x", others=(x509.RFC822Name("bob@a.example"), x509.RFC822Name("eve@a.example"))),
            None,
        ),
        (
            ("uri", "spiffe://corp/user/(.*)", "$1"),
            der("x", others=(x509.UniformResourceIdentifier("spiffe://corp/user/bob"),)),
            "bob",
        ),
        (("upn", "(.*)@corp.example", "$1"), der("x", others=(upn("bob@corp.example"),)), "bob"),
        (("upn", "(.*)", "$1"), der("x", others=(x509.OtherName(UPN, b"\x30\x00"),)), None),
        (("upn", "(.*)", "$1"), b"no certificate", None),
    ],
)
def test_a_certificate_is_of_the_user_that_the_rule_says(
    rule: tuple[CertificatePart, str, str], certificate: bytes, found: str | None
) -> None:
    assert user_of_certificate(certificate, (make_rule(*rule),)) == found


def test_the_first_rule_that_fits_decides() -> None:
    rules = make_rule("common_name", "X(.*)", "$1", lower=True), make_rule("common_name", "(.*)", "other")
    assert user_of_certificate(der("XBob"), rules) == "bob"
    assert user_of_certificate(der("Bob"), rules) == "other"
    for fits, name in (("(", "$1"), ("(.*)", "$2"), ("(?=x)", "x")):
        with pytest.raises(ValueError, match="`"):
            make_rule("common_name", fits, name)


# -- beside other logins -------------------------------------------------------------------------------------


def chain_of(users: Callable[[], Users]) -> LoginChain:
    certificates = CertificateLogins(CertificateRules(rules=(NAME,)), KnownUsers(users, None))
    ways = TokenLogins(users), PasswordLogins(users), certificates
    return LoginChain(users, ways, certificates=certificates)


BOB, MACHINE, ZOE = der("bob"), der("host-1"), der("zoe")


@pytest.mark.parametrize(
    ("certificate", "beside", "told"),
    [
        (BOB, None, "bob"),
        (BOB, Password("bob", "whatever"), "bob"),
        (BOB, Bearer(SECRET), "bob"),
        (ZOE, None, "the user is neither in the user file"),
        (ZOE, Password("bob", "secret"), "the certificate belongs to another user"),
        (ZOE, Bearer(SECRET), "the certificate belongs to another user"),
        (BOB, Password("alice", "wonder"), "the certificate belongs to another user"),
        (BOB, Bearer("x"), "the token is unknown or was revoked"),
        # One of a machine leaves it to the login.
        (MACHINE, Password("bob", "secret"), "bob"),
        (MACHINE, Password("bob", "x"), "invalid user name or password"),
        (MACHINE, Bearer(SECRET), "bob"),
        (MACHINE, None, "no rule maps the certificate to a user"),
    ],
)
async def test_a_certificate_and_what_is_shown_beside_it_are_of_one_user(
    certificate: bytes, beside: Any, told: str
) -> None:
    world, bob = World(), user("bob", "secret")
    users = {
        "bob": User(principal=bob.principal, password_hash=bob.password_hash, tokens=(TOKEN,)),
        "alice": user("alice", "wonder"),
    }
    recorder, metrics = world.sessions.recorder, world.sessions.metrics
    one = Authenticator(chain_of(lambda: users), recorder=recorder, metrics=metrics)
    shown: Credentials = ClientCertificate(certificate, beside)
    try:
        found = (await one.login(shown, Client(protocol="thrift", address="192.0.2.1"))).user
    except AuthenticationFailed as refused:
        found = refused.message
    assert told in found
    (event,) = world.ledger.of("login")
    assert event.body["result"] == (told == "bob")


async def test_a_certificate_has_to_be_in_time_where_certificates_log_nobody_in() -> None:
    """The handshake looks once, and connections last."""
    gateway = Gateway(World())
    assert gateway.authenticator.with_certificate(None, BOB) is None
    gateway.authenticator._now = lambda: datetime.now(UTC) + timedelta(days=2)
    for beside in (None, Password("bob", "secret")):
        shown = gateway.authenticator.with_certificate(beside, BOB)
        assert shown is not None
        with pytest.raises(AuthenticationFailed, match="has expired"):
            await gateway.authenticator.login(shown, Client(protocol="thrift", address="192.0.2.1"))


# -- listeners -----------------------------------------------------------------------------------------------


class Listening:
    """Both transports of HiveServer2 with certificates of clients."""

    def __init__(self, directory: Path, client_certificates: str = "optional") -> None:
        make_pair(directory)
        (directory / "ca.pem").write_bytes(issue("authority", authority=True).public_bytes(Encoding.PEM))
        secret(
            directory / "client.key",
            KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        )
        self.directory = directory
        self.gateway = Gateway(World())
        self.gateway.chain = chain_of(lambda: self.gateway.users)
        self.gateway.authenticator._chain = self.gateway.chain
        self.http = ThriftHttpServer(
            self.gateway.server.service, self.gateway.authenticator, door=ConnectionLimiter("thrift_http")
        )
        self.connect = ConnectServer(
            FakeConnect(), self.gateway.authenticator, door=ConnectionLimiter("connect")
        )
        tls = Tls.model_validate(
            {
                "certificate": directory / "c.pem",
                "key": directory / "k.pem",
                "client_ca": directory / "ca.pem",
                "client_certificates": client_certificates,
            }
        )
        self.pair = read_pair(tls)
        self.context = context_of(self.pair)

    def client(self, certificate: x509.Certificate | None) -> ssl.SSLContext:
        made = ssl.create_default_context(cafile=str(self.directory / "c.pem"))
        if certificate is not None:
            (self.directory / "client.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
            made.load_cert_chain(self.directory / "client.pem", self.directory / "client.key")
        return made

    async def binary(self, certificate: x509.Certificate | None, name: str = "bob") -> str:
        """Log in with an empty password; return what the gateway says."""
        reader, writer = await asyncio.open_connection(
            "localhost", self.binary_port, ssl=self.client(certificate)
        )
        try:
            plain = b"\0".join((b"", name.encode(), b""))
            writer.write(step(Status.START, b"PLAIN") + step(Status.OK, plain))
            status = await reader.readexactly(5)
            text = await reader.readexactly(int.from_bytes(status[1:], "big"))
        except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
            return "no connection"
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        return "in" if status[0] == Status.COMPLETE else text.decode()

    async def request(self, certificate: x509.Certificate | None, **headers: str) -> str:
        call = encode_call("OpenSession", 1, calls.TOpenSessionReq())
        url = f"https://localhost:{self.http_port}/cliservice"
        try:
            async with (
                aiohttp.ClientSession() as http,
                http.post(url, data=call, headers=headers, ssl=self.client(certificate)) as answer,
            ):
                return "in" if answer.status == 200 else await answer.text()
        except aiohttp.ClientError:
            return "no connection"

    async def call(
        self,
        certificate: x509.Certificate | None,
        *shown: str,
        intermediates: Iterable[x509.Certificate] = (),
    ) -> str:
        """Make a call of Spark Connect."""
        own: tuple[bytes | None, bytes | None] = (None, None)
        if certificate is not None:
            sent = b"".join(one.public_bytes(Encoding.PEM) for one in (certificate, *intermediates))
            own = ((self.directory / "client.key").read_bytes(), sent)
        tls = grpc.ssl_channel_credentials(self.pair.chain, *own)
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
        async with grpc.aio.secure_channel(f"localhost:{self.connect_port}", tls, options=options) as channel:
            metadata = [("authorization", one) for one in shown]
            try:
                await channel.unary_unary(METHODS["Config"].path)(b"", metadata=metadata, timeout=patience())
            except grpc.aio.AioRpcError as error:
                return f"{error.code().name}: {error.details()}"
        return "in"

    async def __aenter__(self) -> Listening:
        self.binary_port = await self.gateway.server.start("localhost", 0, ssl=self.context)
        self.http_port = await self.http.start("localhost", 0, ssl=self.context)
        tls = connect_context_of(self.pair)
        self.connect_port = await self.connect.start("localhost", 0, ssl=tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.gateway.server.close(within_s=5)
        await self.http.close(within_s=5)
        await self.connect.close(within_s=5)
        await self.gateway.world.sessions.close()


async def test_a_certificate_logs_in_over_spark_connect(tmp_path: Path) -> None:
    async with Listening(tmp_path) as one:
        one.gateway.users["bob"] = replace(one.gateway.users["bob"], tokens=(TOKEN,))
        alice = "Basic " + base64.b64encode(b"alice:wonder").decode()
        assert await one.call(issue("bob")) == "in"
        assert await one.call(issue("bob"), f"Bearer {SECRET}") == "in"
        assert await one.call(issue("host-1"), alice) == "in"
        assert "no rule maps" in await one.call(issue("host-1"))
        for certificate, shown in ((issue("bob"), alice), (issue("alice"), f"Bearer {SECRET}")):
            told = await one.call(certificate, shown)
            assert "UNAUTHENTICATED" in told
            assert "another user" in told
        assert "more than one" in await one.call(issue("bob"), alice, alice)
        assert await one.call(None, alice) == "in"
        calls_of = [call[1].user for call in one.connect._service.calls]  # type: ignore[attr-defined]
        assert calls_of == ["bob", "bob", "alice", "alice"]


async def test_a_certificate_ends_while_its_connection_goes_on(tmp_path: Path) -> None:
    """TLS looks at a certificate once, and each request is a login."""
    async with Listening(tmp_path) as one:
        reader = one.gateway.chain._certificates
        assert isinstance(reader, CertificateLogins)
        for moment, told in ((timedelta(0), "in"), (timedelta(days=2), "expired")):
            reader._now = lambda moment=moment: datetime.now(UTC) + moment  # type: ignore[misc]
            assert told in await one.call(issue("bob"))
            assert told in await one.request(issue("bob"))
            assert told in await one.binary(issue("bob"))


async def test_a_certificate_logs_in_on_both_transports(tmp_path: Path) -> None:
    async with Listening(tmp_path) as one:
        bob = issue("bob")
        assert await one.binary(bob) == "in"
        assert await one.request(bob) == "in"
        alice = "Basic " + base64.b64encode(b"alice:wonder").decode()
        for certificate in (bob, issue("zoe")):
            assert "another user" in await one.binary(certificate, "alice")
            assert "another user" in await one.request(certificate, Authorization=alice)
        assert "invalid user name" in await one.binary(None)
        assert "log in with" in await one.request(None)
        assert await one.request(None, Authorization=alice) == "in"
        assert await one.request(issue("host-1"), Authorization=alice) == "in"
        cookies, alices = one.gateway.authenticator.cookies, one.gateway.users["alice"]
        cookie = f"{NAME_OF_COOKIE}={cookies.issue(alices, alices.password_hash)}"
        assert await one.request(issue("host-1"), Cookie=cookie) == "in"
        assert await one.request(issue("alice"), Cookie=cookie) == "in"
        assert "another user" in await one.request(bob, Cookie=cookie)
        ways = {one.body["mechanism"] for one in one.gateway.world.ledger.of("login") if one.body["result"]}
        assert ways == {"CERTIFICATE", "PLAIN", "COOKIE"}


@pytest.mark.parametrize(
    "certificate",
    [
        lambda: issue("bob", days=-1),
        lambda: issue("bob", key=other_key()),
        lambda: issue("bob", use=ExtendedKeyUsageOID.SERVER_AUTH),
    ],
    ids=["expired", "of another authority", "for servers"],
)
async def test_a_bad_certificate_opens_no_connection(
    tmp_path: Path, certificate: Callable[[], x509.Certificate]
) -> None:
    async with Listening(tmp_path) as one:
        assert await one.binary(certificate()) == "no connection"
        assert await one.request(certificate()) == "no connection"
        told = one.gateway.world.ledger.of("login")
        assert [(event.body["mechanism"], event.body["verdict"]) for event in told] == [
            ("CERTIFICATE", "rejected")
        ] * 2


async def test_that_none_is_shown_where_one_is_required_is_recorded(tmp_path: Path) -> None:
    async with Listening(tmp_path, "required") as one:
        assert await one.binary(None) == "no connection"
        (event,) = one.gateway.world.ledger.of("login")
        assert (event.body["mechanism"], event.body["reason"]) == ("CERTIFICATE", NO_CERTIFICATE)


async def test_a_bad_certificate_over_spark_connect_is_recorded_without_a_call(tmp_path: Path) -> None:
    async with Listening(tmp_path, "required") as one:
        shown = one.client(issue("bob", days=-1))
        shown.set_alpn_protocols(["h2"])
        _, writer = await asyncio.open_connection("localhost", one.connect_port, ssl=shown)
        await until(lambda: bool(one.gateway.world.ledger.of("login")))
        writer.close()
        assert "certificate has expired" in one.gateway.world.ledger.of("login")[0].body["reason"]


@pytest.mark.parametrize(
    ("certificate", "told"),
    [
        (lambda: issue("bob", days=-1), "the certificate: certificate has expired"),
        (lambda: issue("bob", key=other_key()), "the certificate: certificate signature failure"),
        (lambda: issue("bob", use=ExtendedKeyUsageOID.SERVER_AUTH), "unsuitable certificate purpose"),
        (lambda: issue("bob", issuer=STRANGERS), "unable to get local issuer certificate"),
        (lambda: issue("bob", issuer=BOBS, subject=BOBS), "self-signed certificate"),
        (lambda: None, "has shown no certificate"),
    ],
    ids=["expired", "of another authority's key", "for servers", "of a stranger", "its own", "none"],
)
async def test_a_bad_certificate_is_refused_over_spark_connect_by_a_status(
    tmp_path: Path, certificate: Callable[[], x509.Certificate | None], told: str
) -> None:
    """A client of gRPC that is not let in to TLS takes the gateway for away, and tries for minutes."""
    async with Listening(tmp_path, "required") as one:
        one.gateway.users["bob"] = replace(one.gateway.users["bob"], tokens=(TOKEN,))
        alice = "Basic " + base64.b64encode(b"alice:wonder").decode()
        for shown in ((), (alice,), (f"Bearer {SECRET}",), (alice, alice)):
            refused = await one.call(certificate(), *shown)
            assert refused.startswith("UNAUTHENTICATED")
            assert told in refused
        assert one.connect._service.calls == []  # type: ignore[attr-defined]
        (event,) = one.gateway.world.ledger.of("login")
        assert (event.body["mechanism"], event.body["verdict"]) == ("CERTIFICATE", "rejected")
        assert told in event.body["reason"]
        assert await one.call(issue("bob")) == "in"


async def test_a_client_that_ends_tls_within_the_handshake_is_no_fault_of_the_gateway(tmp_path: Path) -> None:
    """Whoever connects could fill the log otherwise."""
    faults, loop = list[object](), asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, told: faults.append(told))
    async with Listening(tmp_path, "required") as one:
        reader, writer = await asyncio.open_connection("localhost", one.connect_port)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        with pytest.raises(ssl.SSLWantReadError):
            one.client(None).wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
        writer.write(outgoing.read())
        assert await reader.read(1)
        writer.write(bytes([21, 3, 3, 0, 2, 1, 0]))  # the alert `close_notify`
        await reader.read()
        writer.close()
        assert await one.call(issue("bob")) == "in"
    assert faults == []


@pytest.mark.parametrize(
    ("count", "is_authority", "told"),
    [(1, True, "in"), (1, False, "certificate: invalid CA"), (10, True, "certificate chain too long")],
)
async def test_a_certificate_comes_by_few_intermediates_that_may_issue_it(
    tmp_path: Path, count: int, is_authority: bool, told: str
) -> None:
    issuers = [name_of(f"issuer-{number}") for number in range(count)]
    between = [
        issue(issuer=issuer, subject=subject, authority=is_authority)
        for subject, issuer in pairwise((*issuers, AUTHORITY))
    ]
    async with Listening(tmp_path, "required") as one:
        assert told in await one.call(issue("bob", issuer=issuers[0]), intermediates=between)


async def test_spark_connect_takes_no_weaker_ciphers_than_other_listeners(tmp_path: Path) -> None:
    async with Listening(tmp_path, "required") as one:
        weak = one.client(issue("bob"))
        weak.maximum_version = ssl.TLSVersion.TLSv1_2
        for ciphers, is_taken in (("ECDHE-ECDSA-AES128-SHA", False), ("ECDHE+AESGCM", True)):
            weak.set_ciphers(ciphers)
            for port in (one.binary_port, one.connect_port):
                try:
                    _, writer = await asyncio.open_connection("localhost", port, ssl=weak)
                except (ssl.SSLError, ConnectionError):
                    assert not is_taken
                else:
                    writer.close()
                    assert is_taken


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_connection_is_not_resumed_without_its_certificate(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    async with Listening(tmp_path) as one:
        client = one.client(issue("bob"))
        client.minimum_version = client.maximum_version = version
        client.set_alpn_protocols(["h2"])

        def connect(session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool]:
            with (
                socket.create_connection(("localhost", one.connect_port), timeout=patience()) as plain,
                client.wrap_socket(plain, server_hostname="localhost", session=session) as tls,
            ):
                tls.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\4" + bytes(5))
                assert tls.recv(9)[3] == 4, "gRPC's settings"
                return tls.session, bool(tls.session_reused)

        session, _ = await asyncio.to_thread(connect, None)
        assert session is not None
        assert (await asyncio.to_thread(connect, session))[1] is False


async def test_without_a_certificate_there_is_no_connection_where_it_is_required(tmp_path: Path) -> None:
    async with Listening(tmp_path, "required") as one:
        assert await one.binary(None) == "no connection"
        assert await one.request(None) == "no connection"
        assert await one.binary(issue("bob")) == "in"
