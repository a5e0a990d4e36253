"""Broken sites: `sluice check` tells each, with file and line; `sluice serve` fails or warns in its words.

Nothing is started for them: no parser, no Spark, no PostgreSQL.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
import structlog
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from gateway.app import gateway as gateway_module
from gateway.app import site_checks, site_places
from gateway.app.checking import CheckReport, check
from gateway.app.database_checks import ask_database
from gateway.app.descriptors import few_descriptors
from gateway.app.gateway import Gateway
from gateway.app.site_checks import check_site, only_one
from gateway.app.writable_places import free_bytes, unwritable
from gateway.database.postgres import EmbeddedPostgres
from gateway.errors import Faults
from gateway.frontends.users import set_user
from gateway.settings.loading import load_settings
from gateway.settings.models import Settings
from tests.app.certificate_files import make_pair
from tests.speed import patience

OTHER = Path(__file__).parents[1] / "frontends/tls/test-only-certificate.pem"
STOPPED = "the parser would be started now"
SPARK = "backend: {thrift: {host: 127.0.0.1, port: 1}}\n"
TLS = """\
listeners:
  thrift:
    port: 0
    tls:
      certificate: c.pem
      key: k.pem
  admin: {port: 0}
"""
CONNECT = """\
backend: {connect: {host: h, token: {file: t}}}
listeners: {connect: {port: 0}, admin: {port: 0}}
"""
PORTS = "listeners: {thrift: {port: 0}, admin: {port: 0}}\n"
PACKS = "policies: {paths: [pack.yaml]}\n"
PACK = """\
service: spark
policies:
  - name: everybody reads sales
    on: {catalog: "*", database: sales, table: "*", column: "*"}
    allow: [{groups: [public], access: [select]}]
"""


@dataclass
class Site:
    """A directory with settings and all that they name."""

    directory: Path
    monkeypatch: pytest.MonkeyPatch
    text: str = SPARK + PORTS
    sockets: list[socket.socket] = field(default_factory=list)

    def write(self, name: str, content: str, mode: int = 0o600) -> None:
        path = self.directory / name
        path.write_text(content)
        path.chmod(mode)

    def settings(self, text: str, *, ports: bool = True) -> None:
        self.text = SPARK + (PORTS if ports else "") + text

    def taken_port(self) -> int:
        taken = socket.create_server(("127.0.0.1", 0))
        self.sockets.append(taken)
        return int(taken.getsockname()[1])

    @property
    def config(self) -> Path:
        return self.directory / "gateway.yaml"


Breaking = Callable[[Site], object]
"""Breaks a site that is whole."""


def broken(text: str, *, ports: bool = True) -> Breaking:
    return lambda site: site.settings(text, ports=ports)


def all_of(*steps: Breaking) -> Breaking:
    def take(site: Site) -> None:
        for step in steps:
            step(site)

    return take


def pair(**how: object) -> Breaking:
    def take(site: Site) -> None:
        site.settings(TLS, ports=False)
        make_pair(site.directory, **how)  # type: ignore[arg-type]

    return take


def file(name: str, content: str, mode: int = 0o600) -> Breaking:
    return lambda site: site.write(name, content, mode)


def directory(name: str) -> Breaking:
    """Put a directory in a file's place."""

    def take(site: Site) -> None:
        (site.directory / name).unlink(missing_ok=True)
        (site.directory / name).mkdir()

    return take


def two_certificates(site: Site) -> None:
    path = site.directory / "c.pem"
    path.write_bytes(path.read_bytes() + OTHER.read_bytes())


def on_taken_port(text: str) -> Breaking:
    return lambda site: site.settings(text.format(port=site.taken_port()), ports=False)


def settings_of(text: str) -> Breaking:
    """Write the settings' whole text."""
    return lambda site: setattr(site, "text", text)


def made_directory(name: str) -> Breaking:
    return lambda site: (site.directory / name).mkdir(parents=True)


def dsn(text: str) -> Breaking:
    return all_of(broken("ledger:\n  dsn: {file: dsn}\n"), file("dsn", text))


def variable(name: str, value: str) -> Breaking:
    return lambda site: site.monkeypatch.setenv(name, value)


def a_pipe(name: str) -> Breaking:
    def take(site: Site) -> None:
        (site.directory / name).unlink()
        os.mkfifo(site.directory / name)

    return take


def of_embedded_spark(site: Site) -> None:
    site.text = f"backend: {{embedded: {{thrift_port: {site.taken_port()}}}}}\n{PORTS}"


def no_temporary_files(site: Site) -> None:
    def none() -> str:
        raise FileNotFoundError

    site.monkeypatch.setattr(tempfile, "gettempdir", none)


def other_postgresql(site: Site) -> None:
    def unusable(_: object) -> None:
        raise Faults(["the audit data were created by PostgreSQL 9"])

    site.text = SPARK + "ledger: {embedded: {directory: pg}}\n" + PORTS
    site.monkeypatch.setattr(EmbeddedPostgres, "require_usable", unusable)


RANGER = "policies: {catalogs: {spark_catalog: h}, ranger: [{service: h, urls: ['https://r'],\n"


def other_key(site: Site) -> None:
    make_pair(site.directory, certificate_name="other.pem", key_name="k.pem")


def linked(name: str, to: str) -> Breaking:
    return lambda site: (site.directory / name).symlink_to(to)


def no_room(site: Site) -> None:
    site.monkeypatch.setattr(site_checks, "free_bytes", lambda _: 3 * 2**20)


DSN = "ledger: {dsn: {env: SITE_DSN}}\n"
FAULTS: dict[str, tuple[Breaking, str]] = {
    # -- certificates
    "no certificate": (
        all_of(pair(), file("c.pem", "not one")),
        ":6: `{d}/c.pem` has no usable certificate in PEM",
    ),
    "no key": (all_of(pair(), file("k.pem", "not one")), ":6: `{d}/k.pem` has no usable private key in PEM"),
    "another's key": (all_of(pair(), other_key), ":6: `{d}/k.pem` does not match `{d}/c.pem`"),
    "a key with a password": (
        pair(encryption=BestAvailableEncryption(b"secret")),
        ":6: `{d}/k.pem` is encrypted; a gateway cannot prompt",
    ),
    "a certificate that ran out": (pair(days=-2, since_days=-9), ":6: `{d}/c.pem` expired on "),
    "a certificate of tomorrow": (pair(since_days=2), ":6: `{d}/c.pem` is not valid before "),
    "key and certificate in one another's place": (
        pair(certificate_name="k.pem", key_name="c.pem"),
        ":6: `{d}/c.pem` has no usable certificate in PEM",
    ),
    "no certificate file": (broken(TLS, ports=False), ":6: `{d}/c.pem` does not exist"),
    "a certificate that is a directory": (
        all_of(pair(), directory("c.pem")),
        ":6: `{d}/c.pem` cannot be read: Is a directory",
    ),
    "authorities that are none": (
        all_of(
            broken(
                "policies: {catalogs: {spark_catalog: h}, ranger: [{service: h, urls: ['https://r'],\n"
                "  ca_file: ca.pem}]}\n"
            ),
            file("ca.pem", "none"),
        ),
        "{d}/ca.pem: cannot be used",
    ),
    # -- users
    "no users file": (
        lambda s: (s.directory / "users.yaml").unlink(),
        ":1: `{d}/users.yaml` does not exist: create it with `sluice users add NAME`",
    ),
    "users that are no YAML": (file("users.yaml", "users: [\n"), "{d}/users.yaml:2: "),
    "a user without a password": (
        file("users.yaml", "users:\n  ann: {groups: [a]}\n"),
        "users.yaml:2: user `ann`",
    ),
    "a password in the clear": (
        file("users.yaml", "users:\n  ann: {password: secret}\n"),
        "users.yaml:2: the password of `ann` is not an argon2 hash",
    ),
    "a users file that is a directory": (
        directory("users.yaml"),
        "{d}/users.yaml: cannot be read: it is not a file",
    ),
    # -- secrets and environment
    "an unset variable for the DSN": (broken(DSN), ":3: the environment variable `SITE_DSN` is not set"),
    "a DSN without a scheme": (
        all_of(broken("ledger:\n  dsn: {file: dsn}\n"), file("dsn", "host=db user=x")),
        ":4: the connection string must begin with `postgresql://`",
    ),
    "a DSN with a port in letters": (
        all_of(broken("ledger:\n  dsn: {file: dsn}\n"), file("dsn", "postgresql://u:p@db:port/x")),
        ":4: the port in the connection string is not a number",
    ),
    "an empty secret": (
        all_of(broken("ledger:\n  dsn: {file: dsn}\n"), file("dsn", "\n")),
        ":4: the secret in `{d}/dsn` is empty",
    ),
    "a secret that is not there": (broken("ledger:\n  dsn: {file: dsn}\n"), ":4: `{d}/dsn` does not exist"),
    "a secret that is a directory": (
        all_of(broken("ledger:\n  dsn: {file: dsn}\n"), directory("dsn")),
        ":4: the secret in `{d}/dsn` cannot be read",
    ),
    "a key of seals that is none": (
        all_of(broken("ledger:\n  seal_key: {file: seal}\n"), file("seal", "no key")),
        ":4: the seal key is not an Ed25519 private key",
    ),
    "a token with a line break": (
        all_of(
            lambda s: setattr(s, "text", CONNECT),
            file("t", "token\n\n"),
        ),
        ":1: `backend.connect.token` has surrounding blanks",
    ),
    "an unset variable of a catalog": (
        broken(
            "catalogs:\n  - name: lake\n    catalog:\n      type: iceberg\n"
            "      connection-params: {type: rest, uri: 'http://h', token: {env: SITE_LAKE}}\n"
        ),
        ":7: the environment variable `SITE_LAKE` is not set",
    ),
    "an unset password of Ranger": (
        broken(
            "policies: {catalogs: {spark_catalog: h}, ranger: [{service: h, urls: ['https://r'], user: u,\n"
            "  password: {env: SITE_RANGER}}]}\n"
        ),
        ":4: the environment variable `SITE_RANGER` is not set",
    ),
    # -- ports
    "a port that another has": (
        on_taken_port("listeners: {{thrift: {{port: 0}}, admin: {{port: {port}}}}}\n"),
        ":2: cannot listen on 127.0.0.1:",
    ),
    "two listeners at one address": (
        broken("listeners:\n  thrift: {port: 45001}\n  admin: {port: 45001}\n", ports=False),
        ":4: `listeners.admin` uses the address of `listeners.thrift`, 45001",
    ),
    "an address of another machine": (
        broken("listeners:\n  thrift: {host: 192.0.2.1, port: 45002}\n  admin: {port: 0}\n", ports=False),
        ":3: cannot listen on 192.0.2.1:45002: ",
    ),
    "a host that nobody knows": (
        broken(
            "listeners:\n  thrift: {host: nobody.invalid, port: 45003}\n  admin: {port: 0}\n", ports=False
        ),
        ":3: cannot listen on nobody.invalid:45003: ",
    ),
    # -- directories
    "a spool that is a file": (
        all_of(broken("ledger: {directory: spool}\n"), file("spool", "")),
        ":3: `{d}/spool` is not a directory",
    ),
    "a spool below a file": (
        all_of(broken("ledger: {directory: f/spool}\n"), file("f", "")),
        ":3: `{d}/f/spool` cannot be created: `{d}/f` is not a directory",
    ),
    "a cache of Ranger that is a file": (
        all_of(
            broken(
                "policies: {catalogs: {spark_catalog: h}, ranger: [{service: h, urls: ['https://r'],\n"
                "  cache: cache}]}\n"
            ),
            file("cache", ""),
        ),
        ":4: `{d}/cache` is not a directory",
    ),
    # -- files and programs
    "no packs": (broken("policies: {paths: [packs]}\n"), ":3: `{d}/packs` does not exist"),
    "no Java": (
        broken("reader: {java: nojava}\n"),
        ":3: `{d}/nojava` does not exist",
    ),
    "a Java that is none": (
        all_of(broken("reader: {java: java}\n"), file("java", "#!/bin/false\n", 0o700)),
        "install the extra `java`",
    ),
    # -- found by a second look
    "a key that is too short": (
        lambda s: pair(key=rsa.generate_private_key(65537, 1024))(s),
        ":6: {d}/c.pem, {d}/k.pem: cannot be used: ",
    ),
    "a certificate that is a pipe": (
        all_of(pair(), a_pipe("c.pem")),
        ":6: `{d}/c.pem` cannot be read",
    ),
    "a backend that is the gateway": (
        settings_of(
            "backend:\n  thrift: {host: localhost, port: 45004}\n"
            "listeners: {thrift: {port: 45004}, admin: {port: 0}}\n"
        ),
        ":2: `backend.thrift` points to `listeners.thrift` of this gateway, localhost:45004",
    ),
    "a backend that is a gateway everywhere": (
        settings_of(
            "backend:\n  thrift: {host: 127.0.0.2, port: 45004}\n"
            "listeners: {thrift: {host: 0.0.0.0, port: 45004}, admin: {port: 0}}\n"
        ),
        ":2: `backend.thrift` points to `listeners.thrift` of this gateway, 127.0.0.2:45004",
    ),
    "a listener within one that is everywhere": (
        broken("listeners:\n  thrift: {host: 0.0.0.0, port: 45005}\n  admin: {port: 45005}\n", ports=False),
        ":4: `listeners.admin` uses the address of `listeners.thrift`, 45005",
    ),
    "two names of one address": (
        broken("listeners:\n  thrift: {host: localhost, port: 45005}\n  admin: {port: 45005}\n", ports=False),
        ":4: `listeners.admin` uses the address of `listeners.thrift`, 45005",
    ),
    "an embedded Spark at a listener's address": (
        settings_of(
            "backend:\n  embedded: {connect_port: 45006}\n"
            "listeners: {thrift: {port: 45006}, admin: {port: 0}}\n"
        ),
        ":2: `backend.embedded.connect_port` uses the address of `listeners.thrift`, 45006",
    ),
    "an embedded Spark at a taken port": (of_embedded_spark, ":1: cannot listen on 127.0.0.1:"),
    "one directory for two": (
        broken("ledger:\n  directory: run\n  embedded: {directory: ./run/}\n"),
        ":5: `{d}/run` is also the directory of `ledger.directory`",
    ),
    "a variable with blanks": (
        all_of(broken(DSN), variable("SITE_DSN", "  ")),
        ":3: the secret in the environment variable `SITE_DSN` is empty",
    ),
    "a DSN with a mode that there is not": (
        dsn("postgresql://u:p@db/x?sslmode=requires"),
        ":4: `sslmode` in the connection string must be one of disable, allow, prefer, require, ",
    ),
    "a DSN with authorities that are not there": (
        dsn("postgresql://u:p@db/x?sslmode=verify-full&sslrootcert=/no/ca.pem"),
        ":4: `sslrootcert` in the connection string names a file that does not exist",
    ),
    "a home of Spark without jars": (
        all_of(broken("reader:\n  spark_home: sh\n"), made_directory("sh/jars")),
        ":4: Spark's jars were not found (setting: no `spark-catalyst` jar under `{d}/sh/jars`)",
    ),
    "a Spark that is not known": (
        broken('reader:\n  spark_version: "2.4"\n'),
        ":4: Spark 2.4 is not supported; this gateway supports Spark 3.5, ",
    ),
    "a Spark whose jars are not here": (
        broken('reader:\n  spark_jars: none\n  spark_version: "3.5"\n'),
        ":5: the jars of Spark 3.5 are not on this machine",
    ),
    "a directory of jars without any": (
        all_of(broken("reader:\n  extension_jars:\n    - ext\n"), made_directory("ext")),
        ":5: `{d}/ext` has no `*.jar`",
    ),
    "a jar that is none": (
        all_of(broken("reader: {extension_jars: [a.jar]}\n"), file("a.jar", "none")),
        ":3: `{d}/a.jar` is not a jar",
    ),
    "a Java that is too old": (
        all_of(
            broken("reader: {java: java}\n"),
            file("java", "#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n", 0o700),
        ),
        "(setting: `{d}/java` is Java 8)",
    ),
    "no directory for temporary files": (no_temporary_files, "there is no directory for temporary files"),
    # -- found by a third look
    "a DSN whose password is not encoded": (
        dsn("postgresql://u:p@ss/w#rd@db:5432/x"),
        ":4: the password in the connection string is not percent-encoded",
    ),
    "a DSN with a question mark in its password": (
        dsn("postgresql://u:p?ss@db:5432/x"),
        ":4: the port in the connection string is not a number, or the password is not percent-encoded",
    ),
    "a spool that leads nowhere": (
        all_of(broken("ledger: {directory: spool}\n"), linked("spool", "/no/where")),
        ":3: `{d}/spool` is a link whose target does not exist",
    ),
    "a spool that leads to itself": (
        all_of(broken("ledger: {directory: spool}\n"), linked("spool", "spool")),
        ":3: `{d}/spool` is a link whose target does not exist",
    ),
    "a spool without room": (
        all_of(broken("ledger: {directory: spool}\n"), no_room),
        ":3: the disk of `{d}/spool` has 3 MiB left: statements stop when it is full",
    ),
    "a lock that is a directory": (
        all_of(broken("ledger: {directory: spool}\n"), made_directory("spool/gateway.lock")),
        ":3: `{d}/spool/gateway.lock` is no file",
    ),
    "events of lineage into a directory": (
        all_of(broken("lineage: {openlineage: {transport: file, file: events}}\n"), made_directory("events")),
        ":3: `{d}/events` is no file",
    ),
    # -- found by a fourth look
    "a DSN with nothing in it": (
        dsn("postgresql://"),
        ":4: the connection string names neither a host nor a database",
    ),
    "a spool that is on no disk": (
        broken("ledger: {directory: /proc/sluice}\n"),
        ":3: `/proc/sluice` cannot be created: `/proc` is not on a disk",
    ),
    "a rule of certificates that is no expression": (
        broken("logins:\n  certificates: {rules: [{part: common_name, fits: '(('}]}\n"),
        ":3: `logins.certificates.rules`: `((` is not a regular expression of RE2: missing ): ((",
    ),
    "a rule of certificates with a group that there is not": (
        broken("logins:\n  certificates: {rules: [{part: common_name, fits: '(.*)', user: '$2'}]}\n"),
        ":3: `logins.certificates.rules`: `$2` names a group that `(.*)` does not have",
    ),
    "a directory of jobs that is a file": (
        all_of(broken("jobs:\n  directory: lake\n  schedule: {rollups: {every_s: 60}}\n"), file("lake", "")),
        ":4: `{d}/lake` is not a directory",
    ),
    # -- found by a fifth look
    "a broken link among packs": (
        all_of(
            broken("policies:\n  paths: [packs]\n"), made_directory("packs"), linked("packs/a.yaml", "gone")
        ),
        ":4: {d}/packs/a.yaml: is a broken link",
    ),
    "PostgreSQL's data are of another version": (
        other_postgresql,
        ":2: the audit data were created by PostgreSQL 9",
    ),
    "a spool for less than one statement": (
        broken("ledger:\n  spool_bytes: 10\n"),
        ":4: `ledger.spool_bytes`: input should be greater than or equal to 1048576",
    ),
    # -- found by a sixth look
    "a Spark without a port": (
        settings_of("backend:\n  thrift: {host: h, port: 0}\n" + PORTS),
        ":2: `backend.thrift.port`: input should be greater than or equal to 1",
    ),
    "two protocols at one port of Spark's": (
        settings_of(
            "backend:\n  thrift: {host: h, port: 15002}\n  connect: {host: h}\n"
            "listeners: {thrift: {port: 0}, connect: {port: 0}, admin: {port: 0}}\n"
        ),
        ":3: `backend.connect` has the address of `backend.thrift`, h:15002",
    ),
    "an extension that no parser has": (
        broken("reader:\n  extensions: [no.such.Extension]\n"),
        ":4: `no.such.Extension` is no extension that a gateway reads texts with: org.apache.iceberg.",
    ),
    "a group with a blank": (
        lambda site: site.write(
            "users.yaml", (site.directory / "users.yaml").read_text().replace("- a", "- ' a'")
        ),
        "the group ` a` has surrounding blanks",
    ),
}
WARNINGS: dict[str, tuple[Breaking, str]] = {
    "a certificate that runs out soon": (pair(days=29), ":6: `{d}/c.pem` expires on "),
    "a certificate that names no host": (pair(names=()), ":6: `{d}/c.pem` has no host in `subjectAltName`"),
    "two certificates that are no chain": (
        all_of(
            pair(),
            two_certificates,
        ),
        ":6: `{d}/c.pem` is not a chain",
    ),
    "a key that everybody may read": (
        all_of(pair(), lambda s: (s.directory / "k.pem").chmod(0o644)),
        ":7: `{d}/k.pem` is accessible to other users (mode 0644)",
    ),
    "a DSN that everybody may read": (
        all_of(broken("ledger:\n  dsn: {file: dsn}\n"), file("dsn", "postgresql://u:p@127.0.0.1:1/x", 0o604)),
        ":4: `{d}/dsn` is accessible to other users (mode 0604)",
    ),
    "a DSN with a blank": (
        all_of(broken("ledger:\n  dsn: {file: dsn}\n"), file("dsn", "postgresql://u:p@127.0.0.1:1/x \n")),
        ":4: the secret in `{d}/dsn` has surrounding blanks or line breaks",
    ),
    "users that everybody may read": (
        lambda s: (s.directory / "users.yaml").chmod(0o644),
        ":1: `{d}/users.yaml` is accessible to other users",
    ),
    "nobody who can log in": (file("users.yaml", "users: {}\n"), ":1: `{d}/users.yaml` has no users"),
    # -- found by a second look
    "a certificate for clients": (
        pair(uses=(ExtendedKeyUsageOID.CLIENT_AUTH,)),
        ":6: `{d}/c.pem` is not for server authentication (`extendedKeyUsage`)",
    ),
    "a directory of packs without any": (
        all_of(broken("policies:\n  paths:\n    - packs\n"), made_directory("packs")),
        ":5: `{d}/packs` has no policies",
    ),
    "a service of Ranger that speaks for nothing": (
        broken("policies:\n  ranger:\n    - {service: h, urls: ['https://r']}\n"),
        ":5: no catalog has the service `h`",
    ),
    "a certificate for Ranger that ran out": (
        all_of(
            broken(RANGER + "  certificate: c.pem, key: k.pem}]}\n"),
            lambda s: make_pair(s.directory, days=-1, since_days=-3),
        ),
        ":4: `{d}/c.pem` expired on ",
    ),
    "authorities that ran out": (
        all_of(
            broken(RANGER + "  ca_file: c.pem}]}\n"),
            lambda s: make_pair(s.directory, days=-1, since_days=-3),
        ),
        ":4: `{d}/c.pem` expired on ",
    ),
    "administrators that are no users": (
        settings_of(
            SPARK + "listeners:\n  thrift: {port: 0}\n"
            "  admin: {port: 0, sessions: {administrators: [nobody], administrator_groups: [b]}}\n"
        ),
        ":4: `listeners.admin.sessions`: none of the administrators is in `{d}/users.yaml`",
    ),
    "a heap beyond all memory": (
        broken("reader:\n  heap: 900000g\n"),
        ":4: `reader.heap` needs 900000.0 GiB of ",
    ),
    "a source of files that is not there": (
        broken("files:\n  raw:\n    root: 'file:///no/where'\n"),
        ":5: `file:/no/where` is not a directory on this machine",
    ),
    "a spool that everybody may change": (
        all_of(broken("ledger: {directory: spool}\n"), lambda s: (s.directory / "spool").mkdir(mode=0o777)),
        ":3: `{d}/spool` is writable by other users",
    ),
    # -- found by a fourth look
    "authorities of clients that ran out": (
        all_of(
            settings_of(SPARK + TLS.replace("key: k.pem", "key: k.pem\n      client_ca: ca.pem")),
            lambda s: make_pair(s.directory),
            lambda s: make_pair(
                s.directory, certificate_name="ca.pem", key_name="ca.key", days=-1, since_days=-3
            ),
        ),
        ":8: `{d}/ca.pem` expired on ",
    ),
    "certificates that nobody asks for": (
        broken("logins:\n  certificates: {rules: [{part: common_name, fits: '(.*)'}]}\n"),
        ":4: no listener asks for certificates: set `client_ca` of its `tls`",
    ),
    "a job that asks no gateway": (
        broken("jobs:\n  schedule:\n    proof: {every_s: 3600}\n"),
        ":5: the job `proof` will fail: `jobs.proof` needs `gateway` and `token`",
    ),
    "a catalog of jobs that there is not": (
        broken("jobs:\n  catalog: lake\n"),
        ":4: jobs will fail: `catalogs` has no catalog `lake` of type `iceberg`",
    ),
    # -- found by a fifth look
    "a heap that is too small for Spark": (
        settings_of("backend:\n  embedded: {directory: s, heap: 400m}\n" + PORTS),
        ":2: `backend.embedded.heap` is too small: `400m`, at least `450m`",
    ),
    "a heap that is too small for a parser": (
        broken("reader:\n  heap: 48m\n"),
        ":4: `reader.heap` is too small: `48m`, at least `64m`",
    ),
    "jobs whose heap is too small": (
        broken("jobs:\n  driver_memory: 256m\n  schedule:\n    rollups: {every_s: 3600}\n"),
        ":4: `jobs.driver_memory` is too small: `256m`, at least `450m`",
    ),
    "impersonation by nobody": (
        broken("logins:\n  impersonation:\n    - {users: [bi], as_users: ['*']}\n"),
        ":5: none of the users and groups of `logins.impersonation` is in `{d}/users.yaml`",
    ),
    "proxies before a listener that there is not": (
        all_of(
            broken("logins:\n  proxies: {addresses: [10.0.0.0/8], secret: {file: s}}\n"),
            file("s", "s" * 32),
        ),
        ":4: nobody can log in by a proxy: `listeners.thrift_http` is not set",
    ),
    # -- found by a sixth look
    "settings that everybody may change": (
        lambda s: s.write("gateway.yaml", "", 0o666),
        ":1: `{d}/gateway.yaml` is writable by every user (mode 0666): run `chmod o-w`",
    ),
    "policies that everybody may change": (
        all_of(broken("policies:\n  paths: [pack.yaml]\n"), file("pack.yaml", PACK, 0o646)),
        ":4: `{d}/pack.yaml` is writable by every user (mode 0646)",
    ),
    "a directory of policies that everybody may change": (
        all_of(broken("policies:\n  paths: [p]\n"), made_directory("p"), file("p/pack.yaml", PACK)),
        ":4: `{d}/p` is writable by every user (mode 0777)",
    ),
    "passwords in the clear": (
        broken("listeners:\n  thrift: {host: 0.0.0.0, port: 0}\n  admin: {port: 0}\n", ports=False),
        ":3: `listeners.thrift` has no `tls` on 0.0.0.0: passwords and tokens cross the network",
    ),
    "logins to files of a catalog that is not asked as the user": (
        broken(
            "catalogs:\n  - name: lake\n    catalog: {type: iceberg, connection-params: "
            "{type: rest, uri: 'http://localhost:1'}}\nlisteners:\n"
            "  iceberg_rest: {port: 0, catalogs: [lake], credentials: readers}\n"
            "  thrift: {port: 0}\n  admin: {port: 0}\n",
            ports=False,
        ),
        ":6: `listeners.iceberg_rest.credentials` is `readers`, and catalog `lake` is asked by the login of",
    ),
    "a password for Ranger in the clear": (
        all_of(
            broken(RANGER.replace("https", "http") + "  user: u, password: {file: p}}]}\n"), file("p", "x")
        ),
        ":3: the password of `u` crosses the network in the clear: use `https://`",
    ),
    "proxies that are everybody": (
        settings_of(
            SPARK + "listeners:\n  thrift: {port: 0}\n  admin: {port: 0}\n"
            "  thrift_http: {port: 0, trusted_proxies: ['0.0.0.0/0']}\n"
        ),
        ":5: `listeners.thrift_http.trusted_proxies` trusts every address",
    ),
    "clients' authorities that are none": (
        all_of(
            settings_of(SPARK + TLS.replace("key: k.pem", "key: k.pem\n      client_ca: ca.pem")),
            lambda s: make_pair(s.directory),
            lambda s: make_pair(s.directory, certificate_name="ca.pem", key_name="ca.key", signs=False),
        ),
        ":8: `{d}/ca.pem` has no authority: none of its certificates may sign others",
    ),
    "a list of revoked certificates that is none": (
        all_of(
            broken("logins:\n  certificates: {revocation_lists: [r], rules: [{part: upn, fits: '(.*)'}]}\n"),
            file("r", "none"),
        ),
        ":3: `{d}/r` cannot be read",
    ),
    "no catalogs": (
        broken("policies:\n  catalogs: {}\n"),
        ":4: `policies.catalogs` is empty: every statement that names a table is refused",
    ),
    "a catalog that Spark cannot have": (
        broken("policies:\n  catalogs:\n    a.b: spark\n"),
        ":5: `a.b` is no name of a catalog that Spark can have",
    ),
    "a namespace of a catalog that there is not": (
        broken("lineage:\n  openlineage: {transport: file, catalogs: {lake: 'hive://m:9083'}}\n"),
        ":4: there is no catalog `lake`: its namespace is never used",
    ),
    "jobs on a Spark that there cannot be": (
        broken("jobs:\n  master: lokal[*]\n  schedule: {rollups: {every_s: 60}}\n"),
        ":4: jobs will fail: `lokal[*]` is nothing that `spark-submit --master` takes",
    ),
    "a jar of jobs that is none": (
        all_of(
            broken("jobs:\n  jars: [a.jar]\n  schedule: {rollups: {every_s: 60}}\n"), file("a.jar", "none")
        ),
        ":4: jobs will fail: `{d}/a.jar` is not a jar",
    ),
    "authorities of the system that are not there": (
        all_of(broken(RANGER + "  secure: true}]}\n"), variable("SSL_CERT_FILE", "/no/ca.pem")),
        ":1: the environment variable `SSL_CERT_FILE` names `/no/ca.pem`, which does not exist",
    ),
    "a spool that is larger than its disk": (
        broken("ledger:\n  directory: spool\n  spool_bytes: 999999999999999\n"),
        ":5: the disk of `{d}/spool` has ",
    ),
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site that is whole."""
    made = Site(tmp_path, monkeypatch)
    monkeypatch.setattr(site_checks, "few_descriptors", lambda _: None)  # the machine's own matter
    umask = os.umask(0)
    made.write("gateway.yaml", "")
    set_user(tmp_path / "users.yaml", "ann", password="secret", groups=["a"])
    try:
        yield made
    finally:
        os.umask(umask)
        for one in made.sockets:
            one.close()


async def checked(site: Site) -> CheckReport:
    site.config.write_text(site.text)
    return await check([site.config], with_parser=False, with_backend=False)


async def served(site: Site, monkeypatch: pytest.MonkeyPatch) -> tuple[tuple[str, ...], list[str]]:
    """Return the faults of a start that would end before anything is started, and its warnings."""

    async def start(_: object) -> None:
        raise Faults([STOPPED])

    monkeypatch.setattr(gateway_module, "make_reader", start)
    monkeypatch.setattr(gateway_module, "EmbeddedPostgres", None, raising=False)
    monkeypatch.setattr(Gateway, "_start_postgres", start)
    monkeypatch.setattr(gateway_module, "raise_limit", lambda _: None)
    with structlog.testing.capture_logs() as logs, pytest.raises(Faults) as error:
        async with asyncio.timeout(patience()), Gateway(load_settings(site.config), config=site.config):
            pass
    return error.value.faults, [str(one["warning"]) for one in logs if one["event"] == "site"]


async def test_a_whole_site_has_no_faults(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.write("pack.yaml", PACK)
    site.settings(PACKS)
    report = await checked(site)
    assert (report.faults, report.warnings) == ((), ())
    assert await served(site, monkeypatch) == ((STOPPED, STOPPED), [])
    make_pair(site.directory, days=31)
    site.settings(TLS + PACKS, ports=False)
    report = await checked(site)
    assert (report.faults, report.warnings) == ((), ())


def test_there_are_enough_of_them() -> None:
    assert len(FAULTS) + len(WARNINGS) >= 70


@pytest.mark.parametrize("name", FAULTS)
async def test_a_broken_site_is_told_before_it_is_served(
    site: Site, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaking, wanted = FAULTS[name]
    breaking(site)
    told = wanted.format(d=site.directory)
    if told.startswith(":"):
        told = f"{site.config}{told}"
    report = await checked(site)
    assert [fault for fault in report.faults if told in fault], report.faults
    faults, _ = await served(site, monkeypatch)
    assert [fault for fault in faults if told in fault], faults
    assert STOPPED not in faults


@pytest.mark.parametrize("name", WARNINGS)
async def test_what_a_site_is_warned_of_is_in_the_log_of_its_gateway(
    site: Site, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaking, wanted = WARNINGS[name]
    breaking(site)
    told = f"{site.config}{wanted.format(d=site.directory)}"
    report = await checked(site)
    assert report.faults == ()
    assert [warning for warning in report.warnings if told in warning], report.warnings
    faults, warnings = await served(site, monkeypatch)
    assert set(faults) == {STOPPED}
    assert [warning for warning in warnings if told in warning], warnings


async def test_people_of_policies_that_there_are_not_are_told(site: Site) -> None:
    """A mask for a group that is written otherwise masks nothing."""
    site.write(
        "pack.yaml", PACK.replace("groups: [public]", "groups: [analists, a, public], users: [ann, x]")
    )
    site.settings(PACKS)
    users = f"`{site.directory}/users.yaml`"
    assert (await checked(site)).warnings == (
        f"policies name users that are not in {users}: `x`",
        f"policies name groups that are not in {users}: `analists`",
    )
    site.settings(PACKS + "logins: {jwt: {issuer: 'https://idp', audiences: [a]}}\n")
    assert (await checked(site)).warnings == ()


async def test_settings_without_any_policy_are_told(site: Site) -> None:
    told = "the settings name no policy: every statement is refused"
    assert told in (await checked(site)).warnings
    site.settings("policies: {catalogs: {spark_catalog: h}, ranger: [{service: h, urls: ['https://r']}]}\n")
    assert told not in (await checked(site)).warnings


def test_the_room_of_a_directory_is_that_of_its_disk(tmp_path: Path) -> None:
    left = free_bytes(tmp_path)
    assert left
    assert free_bytes(tmp_path / "not" / "there") is not None


async def test_faults_of_policies_are_told_beside_files_that_are_not_there(site: Site) -> None:
    site.settings(TLS + "policies: {paths: [pack.yaml, gone.yaml]}\n", ports=False)
    site.write("pack.yaml", "policies:\n  - name: x\n    nonsense: 1\n")
    report = await checked(site)
    for part in ("c.pem` does not exist", "gone.yaml` does not exist", "pack.yaml:3: unknown key `nonsense`"):
        assert any(part in fault for fault in report.faults), (part, report.faults)
    assert any("first fix" in one for one in report.not_asked), report.not_asked


async def test_all_faults_of_a_site_are_told_at_once(site: Site) -> None:
    site.settings(TLS + "ledger: {directory: f, dsn: {env: SITE_DSN}}\n", ports=False)
    make_pair(site.directory, days=-1, since_days=-3)
    site.write("f", "")
    site.write("users.yaml", "users: [\n")
    report = await checked(site)
    for part in ("c.pem` expired", "`SITE_DSN` is not set", "/f` is not a directory", "users.yaml:2:"):
        assert any(part in fault for fault in report.faults), (part, report.faults)


@pytest.mark.parametrize("form", ["one file", "parameters", "attributes", "windows"])
async def test_certificates_and_keys_as_tools_write_them_are_taken(site: Site, form: str) -> None:
    make_pair(site.directory, form=PrivateFormat.TraditionalOpenSSL)
    certificate, key = site.directory / "c.pem", site.directory / "k.pem"
    site.write("pack.yaml", PACK)
    site.settings(TLS + PACKS, ports=False)
    match form:
        case "one file":
            key.write_text(certificate.read_text() + key.read_text())
            certificate.write_text(key.read_text())
        case "parameters":  # of `openssl ecparam -genkey`
            head = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
            key.write_text(head + key.read_text())
        case "attributes":  # of `openssl pkcs12`
            for path in (certificate, key):
                path.write_text("Bag Attributes\n    friendlyName: x\n" + path.read_text())
        case _:
            for path in (certificate, key):
                path.write_text(path.read_text().replace("\n", "\r\n"))
    report = await checked(site)
    assert (report.faults, report.warnings) == ((), ())


def test_memory_is_what_a_container_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(site_places, "CGROUP", limit)
    machine = site_places.memory_bytes()
    limit.write_text("max\n")
    assert site_places.memory_bytes() == machine
    limit.write_text("1048576\n")
    assert site_places.memory_bytes() == 1 << 20
    told = [at for at, _ in site_places.find_unfit_heaps(Settings())]
    assert told == [("reader", "heap"), ("backend", "embedded", "heap")]


def test_few_descriptors_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    assert "4096 file descriptors, and its settings need" in str(few_descriptors(Settings()))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, resource.RLIM_INFINITY))
    assert few_descriptors(Settings()) is None


async def test_files_alone_are_looked_at_where_no_gateway_is_to_run(site: Site) -> None:
    (site.directory / "users.yaml").unlink()
    site.settings(DSN)
    site.config.write_text(site.text)
    report = await check([site.config], with_parser=False, with_backend=False, with_site=False)
    assert report.faults == ()


async def test_a_gateway_that_runs_has_its_ports(site: Site) -> None:
    site.settings(f"listeners: {{thrift: {{port: {site.taken_port()}}}, admin: {{port: 0}}}}\n", ports=False)
    with only_one(site.directory / "run" / "ledger"):
        report = await checked(site)
        assert report.faults == ()
        assert any("a running gateway uses" in one for one in report.not_asked)
        second = check_site(load_settings(site.config), site.config, starting=True)
        assert len(second.faults) == 1
        assert "another gateway already uses" in second.faults[0]
    assert any("cannot listen on" in fault for fault in (await checked(site)).faults)


async def test_a_spool_within_that_of_another_gateway_is_a_fault(site: Site) -> None:
    site.settings("ledger: {directory: run/inner}\n")
    with only_one(site.directory / "run"):
        (fault,) = (await checked(site)).faults
        assert f"is within the spool of a running gateway, `{site.directory}/run`" in fault
        # That of a worker is within the first one's, and in no other one's.
        settings = load_settings(site.config)
        assert check_site(settings, site.config, starting=True, worker=2).faults == ()
    with only_one(site.directory):
        (fault,) = check_site(settings, site.config, starting=True, worker=2).faults
        assert f"running gateway, `{site.directory}`" in fault
    assert (await checked(site)).faults == ()


@pytest.mark.parametrize("host", ["thrift://spark", "spark:10000", "spark/x", "ann@spark", "two names", " "])
async def test_a_host_is_a_name_or_an_address(site: Site, host: str) -> None:
    site.text = f"backend: {{thrift: {{host: '{host}'}}}}\n{PORTS}"
    (fault,) = (await checked(site)).faults
    assert ":1: `backend.thrift.host`: must be a name or an address" in fault
    for good in ("spark.internal", "10.0.0.1", "::1", "fe80::1%eth0"):
        site.text = f"backend: {{thrift: {{host: '{good}'}}}}\n{PORTS}"
        assert (await checked(site)).faults == ()


def test_a_directory_that_others_own_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert unwritable(tmp_path / "a" / "b") is None
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert f"`{tmp_path}/a` cannot be created: `{tmp_path}` is not writable" in str(
        unwritable(tmp_path / "a")
    )
    assert f"`{tmp_path}` is not writable by user id" in str(unwritable(tmp_path))


async def says_no(
    sqlstate: str, message: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Be a PostgreSQL that answers every login with an error."""
    while (length := int.from_bytes(await reader.readexactly(4), "big")) == 8:
        await reader.readexactly(4)
        writer.write(b"N")  # no TLS here
    await reader.readexactly(length - 4)
    fields = b"".join(
        kind + value.encode() + b"\0" for kind, value in ((b"S", "FATAL"), (b"C", sqlstate), (b"M", message))
    )
    writer.write(b"E" + (len(fields) + 5).to_bytes(4, "big") + fields + b"\0")
    writer.close()


@pytest.mark.parametrize(
    ("sqlstate", "message", "is_fault"),
    [
        ("28P01", 'password authentication failed for user "u"', True),
        ("28000", "no pg_hba.conf entry", True),
        ("3D000", 'database "x" does not exist', True),
        ("53300", "sorry, too many clients already", False),
        ("57P03", "the database system is starting up", False),
    ],
)
async def test_what_postgresql_says_to_the_login_is_told(
    site: Site, sqlstate: str, message: str, is_fault: bool
) -> None:
    server = await asyncio.start_server(partial(says_no, sqlstate, message), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        answer = await ask_database(f"postgresql://u:hunter2@127.0.0.1:{port}/x", within_s=patience())
    told = answer.fault or ""
    assert (told != "") is is_fault
    told = told or " ".join(answer.warnings)
    assert message in told
    assert f"PostgreSQL at `127.0.0.1:{port}`" in told
    assert "hunter2" not in told


async def test_a_postgresql_that_is_away_is_a_warning_with_its_reason(site: Site) -> None:
    site.settings("ledger: {dsn: {file: dsn}}\n")
    site.write("dsn", "postgresql://u:hunter2@127.0.0.1:1/x")
    site.config.write_text(site.text)
    report = await check([site.config], with_parser=False)
    assert report.faults == ()
    told = f"{site.config}: PostgreSQL at `127.0.0.1:1` cannot be reached: "
    (found,) = [one for one in report.warnings if one.startswith(told)]
    assert "refused" in found.lower()
    assert "hunter2" not in str(report)
