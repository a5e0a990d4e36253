"""A real OpenLDAP with people and groups, of which some have what Active Directory's entries have."""

from __future__ import annotations

import socket
import subprocess
import time
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path

from tests.app.certificate_files import make_pair
from tests.speed import patience

SLAPD, SLAPADD = "/usr/sbin/slapd", "/usr/sbin/slapadd"
SCHEMAS = Path("/etc/ldap/schema")
BASE = "dc=corp,dc=example"
PEOPLE, GROUPS, DOMAIN = (f"ou={unit},{BASE}" for unit in ("people", "groups", "domain"))
SERVICE, SERVICE_PASSWORD = f"cn=sluice,{BASE}", "service secret"
SID = bytes([1, 5, 0, 0, 0, 0, 0, 5, 21, 0, 0, 0]) + b"domainsid123"
"""Of the domain: users and groups have it with four bytes more."""
ACTIVE_DIRECTORY = """attributetype ( 1.1.2.1 NAME 'sAMAccountName' EQUALITY caseIgnoreMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 SINGLE-VALUE )
attributetype ( 1.1.2.2 NAME 'objectSid' EQUALITY octetStringMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 SINGLE-VALUE )
attributetype ( 1.1.2.3 NAME 'objectGUID' EQUALITY octetStringMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 SINGLE-VALUE )
attributetype ( 1.1.2.4 NAME 'primaryGroupID' EQUALITY integerMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 SINGLE-VALUE )
attributetype ( 1.1.2.5 NAME 'memberOf' EQUALITY distinguishedNameMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.12 )
objectclass ( 1.1.1.1 NAME 'account2000' SUP top AUXILIARY
  MAY ( sAMAccountName $ objectSid $ objectGUID $ primaryGroupID $ memberOf ) )
"""
"""What of Active Directory's schema counts for logins."""
MANY = 1200
"""Groups of one user: more than one page."""


@dataclass
class OpenLdap:
    """Where it listens, and what is written in it."""

    directory: Path
    port: int = 0
    tls_port: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"ldap://localhost:{self.port}"

    @property
    def tls_url(self) -> str:
        return f"ldaps://localhost:{self.tls_port}"

    @property
    def ca_file(self) -> Path:
        return self.directory / "c.pem"

    def prepare(self) -> None:
        """Write its settings and its entries."""
        # libldap takes `localhost` for the name of the machine.
        make_pair(self.directory, names=("localhost", socket.gethostname(), socket.getfqdn()))
        (self.directory / "data").mkdir()
        config = self.directory / "slapd.conf"
        included = ("core", "cosine", "nis", "inetorgperson")
        config.write_text(
            "".join(f"include {SCHEMAS}/{name}.schema\n" for name in included)
            + ACTIVE_DIRECTORY
            + f"""modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {self.directory}/pid
TLSCertificateFile {self.directory}/c.pem
TLSCertificateKeyFile {self.directory}/k.pem
security simple_bind=0
sizelimit size.soft=500 size.hard=500 size.prtotal=unlimited size.pr=500
access to attrs=userPassword by anonymous auth by * none
access to dn.exact="cn=hidden,{BASE}" by anonymous auth by users search by * none
access to * by dn.exact="{SERVICE}" read by users read by * none
database mdb
maxsize 67108864
suffix "{BASE}"
rootdn "cn=root,{BASE}"
directory {self.directory}/data
index objectClass,uid,sAMAccountName,objectSid,member,uniqueMember,memberUid eq
"""
        )
        ldif = self.directory / "entries.ldif"
        ldif.write_text("\n".join(entries()), "utf-8")
        subprocess.run([SLAPADD, "-q", "-f", config, "-l", ldif], check=True, capture_output=True)

    def start(self) -> None:
        """Listen; on the same ports as before, where it has listened already."""
        self.port, self.tls_port = self.port or free_port(), self.tls_port or free_port()
        where = f"ldap://127.0.0.1:{self.port} ldaps://127.0.0.1:{self.tls_port}"
        config = self.directory / "slapd.conf"
        self.process = subprocess.Popen(
            [SLAPD, "-d", "0", "-f", config, "-h", where],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + patience()
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.tls_port), 1).close()
            except OSError:
                assert self.process.poll() is None, "slapd ended"
                assert time.monotonic() < until
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(patience())
            self.process = None


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def entries() -> list[str]:
    """Return all entries as LDIF."""
    return [
        f"dn: {BASE}\nobjectClass: domain\ndc: corp\n",
        *(
            f"dn: {dn}\nobjectClass: organizationalUnit\nou: {dn[3:].partition(',')[0]}\n"
            for dn in (PEOPLE, GROUPS, DOMAIN)
        ),
        f"dn: {SERVICE}\nobjectClass: person\ncn: sluice\nsn: sluice\nuserPassword: {SERVICE_PASSWORD}\n",
        person("hidden", "hidden secret", dn=f"cn=hidden,{BASE}"),
        person("bob", "bob secret", "departmentNumber: 7", "departmentNumber: 9"),
        person("Ana", "ana secret"),
        person("odd*(name)", "odd secret"),
        person("many", "many secret"),
        person("twin", "one", dn=f"cn=twin 1,{PEOPLE}"),
        person("twin", "two", dn=f"cn=twin 2,{PEOPLE}"),
        group("analysts", "member", f"uid=bob,{PEOPLE}"),
        group("unique", "uniqueMember", f"uid=bob,{PEOPLE}"),
        f"dn: cn=unix,{GROUPS}\nobjectClass: posixGroup\ncn: unix\ngidNumber: 7\nmemberUid: bob\n",
        # Groups within groups, with a circle.
        group("staff", "member", f"cn=analysts,{GROUPS}", f"cn=company,{GROUPS}"),
        group("company", "member", f"cn=staff,{GROUPS}"),
        *(group(f"group {number}", "member", f"uid=many,{PEOPLE}") for number in range(MANY)),
        account("carol", "carol secret"),
        f"dn: cn=Domain Users,{DOMAIN}\nobjectClass: groupOfNames\nobjectClass: account2000\n"
        f"cn: Domain Users\nmember: {SERVICE}\n"
        f"objectSid:: {b64encode(SID + (513).to_bytes(4, 'little')).decode()}\n",
    ]


def person(name: str, password: str, *more: str, dn: str = "") -> str:
    lines = [
        f"dn: {dn or f'uid={name},{PEOPLE}'}",
        "objectClass: inetOrgPerson",
        f"uid: {name}",
        f"cn: {dn[3:].partition(',')[0] if dn else name}",
        f"sn: {name}",
        f"userPassword: {password}",
        *more,
    ]
    return "\n".join(lines) + "\n"


def group(name: str, attribute: str, *members: str) -> str:
    kind = "groupOfUniqueNames" if attribute == "uniqueMember" else "groupOfNames"
    listed = "".join(f"{attribute}: {member}\n" for member in members)
    return f"dn: cn={name},{GROUPS}\nobjectClass: {kind}\ncn: {name}\n{listed}"


def account(name: str, password: str) -> str:
    """Return an account as Active Directory has them, in a primary group and in others by `memberOf`."""
    sid = b64encode(SID + (1106).to_bytes(4, "little")).decode()
    return (
        f"dn: cn={name},{DOMAIN}\nobjectClass: inetOrgPerson\nobjectClass: account2000\n"
        f"cn: {name}\nsn: {name}\nsAMAccountName: {name.upper()}\n"
        f"userPassword: {password}\nprimaryGroupID: 513\nobjectSid:: {sid}\n"
        f"objectGUID:: AAECAwQFBgcICQoLDA0ODw==\n"
        f"memberOf: cn=analysts,{GROUPS}\nmemberOf: cn=Fin\\, EMEA,{GROUPS}\n"
    )
