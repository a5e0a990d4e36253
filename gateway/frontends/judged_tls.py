"""TLS whose client certificates are judged after the handshake, for protocols that can say what is wrong.

Python's `ssl` ends a connection with a certificate that it does not take, and clients of gRPC take that for a
server that is away: they try again for minutes. Here the handshake goes on, and what OpenSSL has against the
certificate is kept, so that calls on the connection are refused by these words.

INVARIANT (a bad certificate opens nothing): whoever listens with it asks for `fault` before anything else.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any, cast

from cryptography import x509
from cryptography.hazmat.bindings.openssl.binding import Binding
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL, crypto

from gateway.model.credentials import NO_CERTIFICATE

ALPN = b"h2"
MAX_RECORD_BYTES = 16 * 1024
MAX_OUT_BYTES = 64 * 1024
MAX_INTERMEDIATES = 8
"""Between a client's certificate and its authority. Strangers choose how many they send, and of what keys;
OpenSSL checks all signatures even of a chain that is at fault, since here it goes on."""
_OPENSSL: Any = Binding.lib


class JudgedTls:
    """What asyncio takes in place of an `ssl.SSLContext`, of which it calls `wrap_bio` alone."""

    verify_mode = ssl.CERT_OPTIONAL

    def __init__(
        self,
        *,
        chain: bytes,
        key: bytes,
        client_ca: bytes,
        like: ssl.SSLContext,
    ) -> None:
        """All in PEM. `like`: whose versions, ciphers and ways to verify are taken, so that no listener is
        weaker than another; where it requires certificates, a client without one is at fault. Raises
        ValueError for what OpenSSL does not take."""
        self.is_required = like.verify_mode is ssl.CERT_REQUIRED
        self._context = context = SSL.Context(SSL.TLS_SERVER_METHOD)
        try:
            first, *others = x509.load_pem_x509_certificates(chain)
            context.use_certificate(first)
            for one in others:
                context.add_extra_chain_cert(one)
            context.use_privatekey(cast(Any, load_pem_private_key(key, password=None)))
            context.check_privatekey()
            store = context.get_cert_store()
            if store is None:
                raise ValueError("OpenSSL has no store of certificates")
            store.set_flags(int(like.verify_flags))
            for one in x509.load_pem_x509_certificates(client_ca):
                store.add_cert(crypto.X509.from_cryptography(one))
            context.set_cipher_list(_ciphers_of(like))  # RULE (judged-tls-as-strong)
        except (SSL.Error, crypto.Error) as error:
            raise ValueError(f"OpenSSL does not take the certificate: {error}") from None
        context.set_verify(SSL.VERIFY_PEER, _note_fault)
        context.set_verify_depth(MAX_INTERMEDIATES)  # RULE (judged-chain-bound)
        context.set_min_proto_version(int(like.minimum_version))
        # A session that is resumed would outlive its certificate, and bring none.
        context.set_options(SSL.OP_NO_TICKET | SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_COMPRESSION)
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        context.set_alpn_select_callback(_select_protocol)

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = True,
        server_hostname: str | None = None,
    ) -> JudgedConnection:
        """Return one client's connection, whose bytes come and go by these two."""
        return JudgedConnection(self, SSL.Connection(self._context, None), incoming, outgoing)


class JudgedConnection:
    """What asyncio takes in place of an `ssl.SSLObject`."""

    def __init__(
        self,
        context: JudgedTls,
        connection: SSL.Connection,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
    ) -> None:
        self.context = context
        self._tls = connection
        self._incoming, self._outgoing = incoming, outgoing
        self._errors: list[int] = []
        connection.set_app_data(self._errors)
        connection.set_accept_state()

    @property
    def fault(self) -> str | None:
        """What is wrong with the client's certificate, once hands are shaken; None for nothing."""
        if self._errors:
            words = Binding.ffi.string(_OPENSSL.X509_verify_cert_error_string(self._errors[0])).decode()
            return f"the certificate: {words}"
        if self.context.is_required and self._tls.get_peer_certificate() is None:
            return NO_CERTIFICATE
        return None

    def getpeercert(self, binary_form: bool = False) -> bytes | None:
        """Return a certificate that is good, in DER alone."""
        if not binary_form or self.fault is not None:
            return None
        found = self._tls.get_peer_certificate()
        return crypto.dump_certificate(crypto.FILETYPE_ASN1, found) if found is not None else None

    def do_handshake(self) -> None:
        self._run(self._tls.do_handshake)

    def read(self, most: int = MAX_RECORD_BYTES) -> bytes:
        try:
            return cast(bytes, self._run(self._tls.recv, min(most, MAX_RECORD_BYTES)))
        except ssl.SSLZeroReturnError:
            return b""

    def write(self, data: bytes | memoryview) -> int:
        """Encrypt all of it: OpenSSL takes a record at a time."""
        view, taken = memoryview(data), 0
        while taken < len(view):
            taken += self._run(self._tls.send, view[taken : taken + MAX_RECORD_BYTES])
        return taken

    def unwrap(self) -> None:
        if not self._run(self._tls.shutdown):
            raise ssl.SSLWantReadError

    def cipher(self) -> None:
        """Nobody asks."""

    def compression(self) -> None:
        """There is none."""

    def _run(self, step: Callable[..., Any], *arguments: Any) -> Any:
        if self._incoming.pending:
            self._tls.bio_write(self._incoming.read())
        # OpenSSL before 4 takes what a bad signature left on its queue for an error of the next connection.
        _OPENSSL.ERR_clear_error()
        try:
            return step(*arguments)
        except SSL.WantReadError:
            raise ssl.SSLWantReadError from None
        except SSL.ZeroReturnError:
            raise ssl.SSLZeroReturnError("the client has ended TLS") from None  # RULE (end-within-handshake)
        except SSL.Error as error:
            raise ssl.SSLError(f"OpenSSL: {error}") from None
        finally:
            self._take_out()

    def _take_out(self) -> None:
        try:
            while len(data := self._tls.bio_read(MAX_OUT_BYTES)) == MAX_OUT_BYTES:
                self._outgoing.write(data)
            self._outgoing.write(data)
        except SSL.WantReadError:
            pass  # there is nothing


def _ciphers_of(like: ssl.SSLContext) -> bytes:
    """Return its ciphers and security level, in OpenSSL's words; those of TLS 1.3 are always all there."""
    names = [one["name"] for one in like.get_ciphers() if one["protocol"] != "TLSv1.3"]
    return ":".join((*names, f"@SECLEVEL={like.security_level}")).encode()


def _note_fault(
    connection: SSL.Connection, _certificate: crypto.X509, error: int, _depth: int, is_good: int
) -> bool:
    if not is_good:  # RULE (certificate-fault-kept)
        cast("list[int]", connection.get_app_data()).append(error)
    return True


def _select_protocol(_connection: SSL.Connection, offered: list[bytes]) -> Any:
    return ALPN if ALPN in offered else SSL.NO_OVERLAPPING_PROTOCOLS
