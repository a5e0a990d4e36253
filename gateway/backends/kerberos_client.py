"""Tickets of Kerberos by which the gateway logs in to a HiveServer2: GSSAPI in SASL (RFC 4752), and SPNEGO
over HTTP (RFC 4559). Needs the extra `kerberos`.

libkrb5 gets the tickets by the keys of the keytab, and others before they expire.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gssapi
from gssapi.raw.misc import GSSError

from gateway.errors import BackendUnavailable
from gateway.model.credentials import SecurityLayer
from gateway.wire.gss_layer import GssLayer, explain_gss
from gateway.wire.sasl import MAX_WRAPPED_BYTES, QOP_BITS, GssapiClient, Qop
from gateway.wire.thrift import MalformedMessage

THREADS = 4
"""Questions to a KDC at a time; libkrb5 waits for one that is silent."""
SPNEGO = gssapi.OID.from_int_seq("1.3.6.1.5.5.2")
MAX_PIECE_BYTES = 64 * 1024
_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosLogin:
    """Who the gateway is, and whom it talks to."""

    keytab: Path
    user: str
    """The gateway's own principal."""
    server: str
    """Principal of the server; `_HOST` in it is the server's host."""
    host: str
    qop: tuple[Qop, ...] = ("auth",)
    """Protections that are taken, the best one first."""

    @property
    def server_principal(self) -> str:
        return self.server.replace("_HOST", self.host.lower())

    @property
    def http_principal(self) -> str:
        """The server's over HTTP, where it is called `HTTP` by convention."""
        return "HTTP/" + self.server_principal.partition("/")[2]


class KerberosClient:
    """Begins logins at one server."""

    def __init__(self, login: KerberosLogin) -> None:
        self.login = login
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="kerberos")
        self._tickets = f"MEMORY:sluice-{next(_numbers)}"
        """Where tickets are kept: no file, and no other server's."""

    async def begin_sasl(self) -> GssapiClient:
        """Return the client's end of a login. Raises BackendUnavailable without a ticket."""
        context, token = await self._begin(self.login.server_principal, gssapi.MechType.kerberos)
        return GssapiClient(_Context(context, self.login), token)

    async def negotiate(self) -> str:
        """Return the `Authorization` of one request. Raises BackendUnavailable."""
        _, token = await self._begin(self.login.http_principal, SPNEGO)
        return f"Negotiate {base64.b64encode(token).decode()}"

    async def _begin(self, server: str, mechanism: Any) -> tuple[Any, bytes]:
        # In a thread: it asks the KDC when there is no ticket yet.
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._make_first_token, server, mechanism)

    def _make_first_token(self, server: str, mechanism: Any) -> tuple[Any, bytes]:
        kind = gssapi.NameType.kerberos_principal
        flags = gssapi.RequirementFlag
        wanted = flags.mutual_authentication | flags.out_of_sequence_detection | flags.replay_detection
        if set(self.login.qop) - {"auth"}:
            wanted |= flags.integrity | flags.confidentiality
        try:
            context: Any = gssapi.SecurityContext(
                name=gssapi.Name(server, kind),
                creds=gssapi.Credentials(
                    name=gssapi.Name(self.login.user, kind),
                    usage="initiate",
                    store={"client_keytab": f"FILE:{self.login.keytab}", "ccache": self._tickets},
                ),
                usage="initiate",
                mech=mechanism,
                flags=wanted,
            )
            context.__DEFER_STEP_ERRORS__ = False
            return context, context.step() or b""
        except GSSError as fault:
            raise BackendUnavailable(
                "the gateway has no ticket for Spark", where=f"`{server}`: {explain_gss(fault)}"
            ) from None


class _Context:
    """The client's end of GSSAPI; see `GssContext`."""

    def __init__(self, context: Any, login: KerberosLogin) -> None:
        self._context = context
        self._login = login

    @property
    def is_complete(self) -> bool:
        return bool(self._context.complete)

    def step(self, token: bytes) -> bytes:
        try:
            return self._context.step(token) or b""
        except GSSError as fault:
            raise BackendUnavailable(
                "Spark does not prove who it is",
                where=f"`{self._login.server_principal}`: {explain_gss(fault)}",
            ) from None

    def choose_protection(self, offer: bytes) -> tuple[bytes, SecurityLayer | None]:
        try:
            offered = bytes(self._context.unwrap(offer).message)
        except GSSError as fault:
            raise MalformedMessage(
                f"an offer of protections that is not the server's: {explain_gss(fault)}"
            ) from None
        if len(offered) != 4:
            raise MalformedMessage("an offer of protections has four bytes")
        chosen = next((one for one in self._login.qop if offered[0] & QOP_BITS[one]), None)
        if chosen is None:
            raise BackendUnavailable(
                "Spark offers no protection (QOP) of those in the settings", lasting=True
            )
        largest = 0 if chosen == "auth" else MAX_WRAPPED_BYTES
        answer = bytes([QOP_BITS[chosen]]) + largest.to_bytes(3, "big")
        layer: SecurityLayer | None = None
        if chosen != "auth":
            encrypts = chosen == "auth-conf"
            room = min(int.from_bytes(offered[1:], "big"), MAX_PIECE_BYTES)
            room = self._context.get_wrap_size_limit(room, encrypts)
            layer = GssLayer(self._context, encrypts=encrypts, max_bytes=room)
        return self._context.wrap(answer, encrypt=False).message, layer
