"""Where a gateway connects to, and what it is told keeps it from there."""

from __future__ import annotations

import asyncio
import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.app.outgoing import OutgoingAddress, list_outgoing_addresses, reach_all
from gateway.settings.loading import parse_settings
from tests.app.certificate_files import make_pair
from tests.speed import patience

SETTINGS = """\
backend:
  thrift: {host: spark, port: 10000}
  connect: {host: spark, port: 15002, token: {file: t}, tls: true, ca_file: ca.pem}
listeners: {connect: {}}
policies:
  ranger:
    - {service: s, urls: ["https://ranger.corp:6182", "http://other.corp"], ca_file: ranger.pem}
ledger: {dsn: {file: dsn}}
logins:
  ldap: {urls: ["ldaps://ad.corp", "ldap://old.corp"], bind_templates: ["{user}@corp"], groups: none}
  jwt: {issuer: "https://login.corp/realm", audiences: [sluice]}
vault: {url: "https://vault.corp:8200", token: {file: t}}
lineage: {openlineage: {transport: http, http: {url: "http://marquez:5000/api/v1/lineage"}}}
catalogs:
  - {name: lake, catalog: {type: iceberg, connection-params: {type: rest, uri: "http://spark-only:8181"}}}
"""


def test_every_address_is_listed_with_what_verifies_it(tmp_path: Path) -> None:
    (tmp_path / "dsn").write_text("postgresql://u:p%40w@db1:5433,db2/x?sslmode=require\n")
    found = list_outgoing_addresses(parse_settings(SETTINGS, "gateway.yaml", tmp_path))
    listed = {
        (one.at, str(one), one.tls, one.ca_file.name if one.ca_file is not None else None) for one in found
    }
    assert listed == {
        ("backend.thrift", "spark:10000", False, None),
        ("backend.connect", "spark:15002", True, "ca.pem"),
        ("policies.ranger.0.urls.0", "ranger.corp:6182", True, "ranger.pem"),
        ("policies.ranger.0.urls.1", "other.corp:80", False, "ranger.pem"),
        ("logins.ldap.urls.0", "ad.corp:636", True, None),
        ("logins.ldap.urls.1", "old.corp:389", False, None),
        ("logins.jwt.issuer", "login.corp:443", True, None),
        ("vault.url", "vault.corp:8200", True, None),
        ("lineage.openlineage.http.url", "marquez:5000", False, None),
        ("ledger.dsn", "db1:5433", False, None),
        ("ledger.dsn", "db2:5432", False, None),
    }


def test_an_embedded_gateway_connects_to_nobody(tmp_path: Path) -> None:
    assert list_outgoing_addresses(parse_settings("", "gateway.yaml", tmp_path)) == []


async def test_each_failure_is_told_by_its_step() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        here = OutgoingAddress(at="a", host="127.0.0.1", port=port)
        names = OutgoingAddress(at="b", host="no-such-host.invalid", port=1)
        closed = OutgoingAddress(at="c", host="127.0.0.1", port=1)
        mute = OutgoingAddress(at="d", host="127.0.0.1", port=port, tls=True)
        told = await reach_all([here, names, closed, mute], within_s=0.5)
    assert [one.failed for one in told] == [None, "dns", "way", "way"]
    assert told[0].numbers == ("127.0.0.1",)
    assert "refused" in told[2].reason.lower()
    assert told[3].reason == "no answer within 0.5 s"


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_certificate_is_verified_by_the_authority_beside_it(tmp_path: Path, trusted: bool) -> None:
    make_pair(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "c.pem", tmp_path / "k.pem")
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        address = OutgoingAddress(
            at="vault.url",
            host="localhost",
            port=server.sockets[0].getsockname()[1],
            tls=True,
            ca_file=tmp_path / "c.pem" if trusted else None,
        )
        (told,) = await reach_all([address], within_s=patience())
    if trusted:
        assert told.failed is None, told.reason
        assert told.certificate_ends is not None
        assert told.certificate_ends > datetime.now(UTC)
        assert told.ends_soon(told.certificate_ends)
    else:
        assert (told.failed, "self" in told.reason) == ("tls", True), told.reason
