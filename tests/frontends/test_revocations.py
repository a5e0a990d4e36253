"""Lists of revoked certificates: whose they are, how old they are, and what they say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from gateway.errors import AuthenticationFailed
from gateway.frontends.authentication import Authenticator
from gateway.frontends.certificate_logins import CertificateLogins, CertificateRules
from gateway.frontends.known_users import KnownUsers
from gateway.frontends.login_chain import LoginChain
from gateway.frontends.login_mechanisms import PasswordLogins
from gateway.frontends.revocations import NO_LIST, REVOKED, RevocationLists
from gateway.model.credentials import ClientCertificate, Password
from gateway.model.statement import Client
from tests.frontends.listening import user
from tests.frontends.test_certificate_logins import AUTHORITY, KEY, NAME, issue, other_key
from tests.session.fakes import World

BOB, EVE, HOST = issue("bob"), issue("eve"), issue("host-1")


def der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


class Lists:
    """Files of an authority, in a directory."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "clients.crl"
        self.now = datetime.now(UTC)
        authority = directory / "ca.pem"
        authority.write_bytes(issue("authority", authority=True).public_bytes(Encoding.PEM))
        self.read = RevocationLists([self.file], [authority], now=lambda: self.now)

    def write(
        self,
        *revoked: x509.Certificate,
        days: float = 1,
        key: ec.EllipticCurvePrivateKey = KEY,
        issuer: x509.Name = AUTHORITY,
        encoding: Encoding = Encoding.PEM,
    ) -> None:
        made = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(issuer)
            .last_update(self.now - timedelta(days=3))
            .next_update(self.now + timedelta(days=days))
        )
        for one in revoked:
            entry = x509.RevokedCertificateBuilder().serial_number(one.serial_number)
            made = made.add_revoked_certificate(entry.revocation_date(self.now).build())
        self.file.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(encoding))
        self.now += timedelta(seconds=6)


@pytest.fixture
def lists(tmp_path: Path) -> Lists:
    return Lists(tmp_path)


@pytest.mark.parametrize("encoding", [Encoding.PEM, Encoding.DER])
def test_a_list_says_which_certificates_were_revoked_and_is_read_again(
    lists: Lists, encoding: Encoding
) -> None:
    lists.write(encoding=encoding)
    assert lists.read.find_fault(der(BOB)) is None
    assert lists.read.report() is None
    lists.write(EVE, encoding=encoding)
    assert lists.read.find_fault(der(EVE)) == REVOKED
    assert lists.read.find_fault(der(BOB)) is None


def test_without_a_list_that_holds_nobody_is_let_in(lists: Lists) -> None:
    assert lists.read.find_fault(der(BOB)) == NO_LIST
    lists.write(days=-1)
    assert lists.read.find_fault(der(BOB)) == NO_LIST
    assert "is out of date" in (lists.read.report() or "")
    lists.write(key=other_key())
    assert lists.read.find_fault(der(BOB)) == NO_LIST
    assert "is signed by no authority" in (lists.read.report() or "")
    lists.write(issuer=x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "another")]))
    assert lists.read.find_fault(der(BOB)) == NO_LIST
    lists.file.write_text("nonsense")
    lists.now += timedelta(seconds=6)
    assert lists.read.find_fault(der(BOB)) == NO_LIST
    assert "cannot be read" in (lists.read.report() or "")
    lists.write()
    assert lists.read.find_fault(der(BOB)) is None
    assert RevocationLists([], []).find_fault(b"") is None


async def test_a_revoked_certificate_logs_nobody_in_whatever_is_shown_beside_it(lists: Lists) -> None:
    lists.write(EVE, HOST)
    users, world = {"bob": user("bob", "secret"), "eve": user("eve", "x")}, World()
    known = KnownUsers(lambda: users, None)
    certificates = CertificateLogins(CertificateRules(rules=(NAME,)), known, lists.read)
    chain = LoginChain(
        lambda: users, [PasswordLogins(lambda: users), certificates], certificates=certificates
    )
    recorder, metrics = world.sessions.recorder, world.sessions.metrics
    one = Authenticator(chain, recorder=recorder, metrics=metrics)
    client = Client(protocol="connect", address="192.0.2.1")
    assert (await one.login(ClientCertificate(der(BOB)), client)).user == "bob"
    for certificate, beside in ((EVE, None), (EVE, Password("eve", "x")), (HOST, Password("bob", "secret"))):
        with pytest.raises(AuthenticationFailed, match=REVOKED):
            await one.login(ClientCertificate(der(certificate), beside), client)
    assert [one.body["reason"] for one in world.ledger.of("login")] == ["", *[REVOKED] * 3]
