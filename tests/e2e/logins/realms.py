"""Two real realms of MIT Kerberos, of which the second is trusted by the first, and their users' tickets."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gssapi
import gssapi.raw
import pytest

from gateway.frontends.kerberos_rules import KerberosRules
from tests.e2e.logins.directories import free_port
from tests.speed import patience

KDC, KDB, KADMIN = "/usr/sbin/krb5kdc", "/usr/sbin/kdb5_util", "/usr/sbin/kadmin.local"
REALM, OTHER = "CORP.EXAMPLE", "OTHER.EXAMPLE"
USERS = ("bob", "alice", "zoe")
SERVICES = ("hive", "HTTP", "hdfs")
SPNEGO = gssapi.OID.from_int_seq("1.3.6.1.5.5.2")
PASSWORD = "of-Kerberos"


@dataclass
class Realms:
    """One KDC for both, and the keytab of a gateway at `localhost`."""

    directory: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def configuration(self) -> Path:
        return self.directory / "krb5.conf"

    @property
    def keytab(self) -> Path:
        return self.directory / "gateway.keytab"

    @property
    def environment(self) -> dict[str, str]:
        """What libkrb5 needs to know."""
        return {
            "KRB5_CONFIG": str(self.configuration),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
            "KRB5RCACHEDIR": str(self.directory),
        }

    def prepare(self) -> None:
        """Write the settings, the databases and the keytab."""
        self.port = free_port()
        # Clients ask for `hive/localhost`, whatever this machine is called.
        self.configuration.write_text(
            f"""[libdefaults]
  default_realm = {REALM}
  dns_canonicalize_hostname = false
  dns_lookup_kdc = false
  rdns = false
  clockskew = 2
  udp_preference_limit = 1
[realms]
"""
            + "".join(f"  {realm} = {{\n    kdc = 127.0.0.1:{self.port}\n  }}\n" for realm in (REALM, OTHER))
            + f"[domain_realm]\n  localhost = {REALM}\n"
        )
        (self.directory / "kdc.conf").write_text(
            f"[kdcdefaults]\n  kdc_listen = 127.0.0.1:{self.port}\n  kdc_tcp_listen = 127.0.0.1:{self.port}\n"
            "[realms]\n"
            + "".join(
                f"  {realm} = {{\n    database_name = {self.directory}/{realm}\n"
                f"    key_stash_file = {self.directory}/{realm}.stash\n"
                f"    acl_file = {self.directory}/none\n  }}\n"
                for realm in (REALM, OTHER)
            )
        )
        for realm in (REALM, OTHER):
            self._run(KDB, "-r", realm, "create", "-s", "-P", "master")
            for name in USERS:
                self.administrate(f"add_principal -pw {PASSWORD} {name}", realm)
            # By this key tickets of the second realm are taken in the first.
            self.administrate(f"add_principal -pw between krbtgt/{REALM}@{OTHER}", realm)
        self.administrate(f"add_principal -pw {PASSWORD} bob/admin")
        for service in SERVICES:
            self.administrate(f"add_principal -randkey {service}/localhost")
            self.administrate(f"ktadd -k {self.keytab} {service}/localhost")

    def administrate(self, query: str, realm: str = REALM) -> None:
        """Do something as the realm's administrator."""
        self._run(KADMIN, "-r", realm, "-q", query)

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        self.process = subprocess.Popen(
            [KDC, "-n", "-r", REALM, "-r", OTHER, "-P", str(self.directory / "pid")],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + patience()
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                assert self.process.poll() is None, "the KDC ended"
                assert time.monotonic() < until
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(patience())
            self.process = None

    def rules(self, **differing: Any) -> KerberosRules:
        """What a gateway asks of tickets."""
        return KerberosRules(**{"keytab": self.keytab, "realm": REALM, **differing})

    def credentials(self, principal: str) -> Any:
        """Return what somebody has who has just typed his password."""
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        mechanisms = [gssapi.MechType.kerberos, SPNEGO]
        found = gssapi.raw.acquire_cred_with_password(
            name, PASSWORD.encode(), mechs=mechanisms, usage="initiate"
        )
        return gssapi.Credentials(found.creds)

    def tickets(self, principal: str) -> str:
        """Return the name of a file with somebody's tickets, as `KRB5CCNAME` has it."""
        named = f"FILE:{self.directory}/{principal.replace('/', '_')}.tickets"
        self.credentials(principal).store(store={"ccache": named}, usage="initiate", overwrite=True)
        return named


@contextlib.contextmanager
def running_realms(directory: Path) -> Iterator[Realms]:
    """Have a KDC up within, which libkrb5 of this process and of those that it starts asks."""
    made = Realms(directory)
    with pytest.MonkeyPatch.context() as patched:
        for name, value in made.environment.items():
            patched.setenv(name, value)
        made.prepare()
        made.start()
        try:
            yield made
        finally:
            made.stop()


def begin(credentials: Any, service: str = "hive", **options: Any) -> Any:
    """Return the client's end of a login."""
    name = gssapi.Name(f"{service}@localhost", gssapi.NameType.hostbased_service)
    return gssapi.SecurityContext(name=name, creds=credentials, usage="initiate", **options)
