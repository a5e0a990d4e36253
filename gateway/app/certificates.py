"""Certificates of listeners: read with their keys, and what is wrong with them, or soon will be."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID
from prometheus_client import Gauge

from gateway.errors import Faults, one_line
from gateway.settings.listeners import Tls

_log = structlog.get_logger(__name__)

WARN_BEFORE = timedelta(days=30)
"""How long before its end a certificate is warned of."""
ANY_USE = ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE
UNUSABLE = (
    ValueError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""What is raised of bytes that are no certificate or key that anybody can use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificatePair:
    """What a listener shows, and the key that proves it."""

    tls: Tls
    """Where it was read."""
    chain: bytes
    """PEM: the certificate, then those that lead to an authority."""
    key: bytes = field(repr=False)
    """PEM."""
    not_before: datetime
    not_after: datetime
    """The earliest end of the chain."""
    warnings: tuple[str, ...] = ()
    client_ca: bytes = b""
    """PEM: authorities of clients; empty: clients show no certificates."""

    def expiry_fault(self, name: str, now: datetime) -> str | None:
        """Return why nobody can trust it now, or None."""
        if now >= self.not_after:
            return f"`{name}` expired on {self.not_after:%Y-%m-%d}: clients reject it"
        if now < self.not_before:
            return f"`{name}` is not valid before {self.not_before:%Y-%m-%d}: clients reject it"
        return None

    def expiry_warning(self, name: str, now: datetime) -> str | None:
        """Return that it runs out soon, or None."""
        if now < self.not_after <= now + WARN_BEFORE:
            days = (self.not_after - now).days
            return f"`{name}` expires on {self.not_after:%Y-%m-%d}, in {days} days"
        return None


def read_pair(tls: Tls) -> CertificatePair:
    """Return certificate and key of a listener, whether or not they hold now. Raises Faults with all that
    keeps them from being used."""
    chain = key = b""
    certificates: list[x509.Certificate] = []
    private = None
    # Opening a pipe would wait for somebody who writes to it.
    faults = [
        f"`{path}` cannot be read: it is not a file"
        for path in (tls.certificate, tls.key)
        if path.exists() and not (path.is_file() or path.is_dir())
    ]
    if faults:
        raise Faults(faults)
    try:
        chain = tls.certificate.read_bytes()
        certificates = x509.load_pem_x509_certificates(chain)
    except OSError as error:
        faults.append(f"`{tls.certificate}` cannot be read: {error.strerror}")
    except UNUSABLE:
        faults.append(f"`{tls.certificate}` has no usable certificate in PEM format")
    try:
        key = tls.key.read_bytes()
        private = load_pem_private_key(key, password=None)
    except OSError as error:
        faults.append(f"`{tls.key}` cannot be read: {error.strerror}")
    except TypeError:
        faults.append(f"`{tls.key}` is encrypted; a gateway cannot prompt for its passphrase")
    except UNUSABLE as error:
        why = "" if b"-----BEGIN" not in key else f": {one_line(str(error))}"
        faults.append(f"`{tls.key}` has no usable private key in PEM format{why}")
    if faults or private is None:
        raise Faults(faults)
    try:
        # What is in a certificate is read when it is asked for.
        shown = certificates[0].public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        pair = CertificatePair(
            tls=tls,
            chain=chain,
            key=key,
            not_before=max(one.not_valid_before_utc for one in certificates),
            not_after=min(one.not_valid_after_utc for one in certificates),
            warnings=tuple(_warnings(str(tls.certificate), certificates)),
            client_ca=_read_client_ca(tls),
        )
    except UNUSABLE as error:
        why = one_line(str(error))
        raise Faults([f"`{tls.certificate}` has a certificate that cannot be used: {why}"]) from None
    own = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if own != shown:
        raise Faults([f"`{tls.key}` does not match `{tls.certificate}`"])
    return pair


def _read_client_ca(tls: Tls) -> bytes:
    """Return the authorities of clients' certificates. Raises Faults where a file is named and has none."""
    if tls.client_ca is None:
        return b""
    try:
        found = tls.client_ca.read_bytes()
        x509.load_pem_x509_certificates(found)
    except OSError as error:
        raise Faults([f"`{tls.client_ca}` cannot be read: {error.strerror}"]) from None
    except UNUSABLE:
        raise Faults([f"`{tls.client_ca}` holds no certificate in PEM that can be used"]) from None
    return found


def _warnings(name: str, chain: list[x509.Certificate]) -> list[str]:
    found = []
    if any(one.issuer != other.subject for one, other in itertools.pairwise(chain)):
        found.append(
            f"`{name}` is not a chain in which each certificate is issued by the next: clients may reject it"
        )
    extensions = chain[0].extensions
    uses = next((one.value for one in extensions if isinstance(one.value, x509.ExtendedKeyUsage)), None)
    if uses is not None and not {ExtendedKeyUsageOID.SERVER_AUTH, ANY_USE} & set(uses):
        found.append(f"`{name}` is not for server authentication (`extendedKeyUsage`): clients reject it")
    if not any(isinstance(one.value, x509.SubjectAlternativeName) for one in extensions):
        found.append(f"`{name}` has no host in `subjectAltName`: clients that verify host names reject it")
    return found


def ran_out_on(path: Path) -> datetime | None:
    """Return when the last certificate of a file ran out; None while one holds, or where there is none."""
    try:
        found = x509.load_pem_x509_certificates(path.read_bytes())
        ends = max(one.not_valid_after_utc for one in found)
    except (OSError, *UNUSABLE):
        return None
    return ends if ends <= now() else None


def tls_context(settings: Tls | None) -> ssl.SSLContext | None:
    """Return the TLS context of a listener. Raises Faults when certificate and key cannot be used."""
    return context_of(read_pair(settings)) if settings is not None else None


def context_of(pair: CertificatePair) -> ssl.SSLContext:
    """Return a TLS context that shows a certificate. Raises Faults when OpenSSL does not take it."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    versions = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
    context.minimum_version = versions[pair.tls.minimum_version]
    try:
        context.load_cert_chain(pair.tls.certificate, pair.tls.key)
    except (OSError, ssl.SSLError) as error:
        raise Faults([f"{pair.tls.certificate}, {pair.tls.key}: cannot be used: {error}"]) from None
    if pair.client_ca:
        is_required = pair.tls.client_certificates == "required"
        context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
        # A session that is resumed would outlive its certificate.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        try:
            context.load_verify_locations(cadata=pair.client_ca.decode("ascii"))
        except (ValueError, ssl.SSLError) as error:
            raise Faults([f"{pair.tls.client_ca}: cannot be used: {error}"]) from None
    return context


class Certificates:
    """Those of the listeners, read again when a file changes: what is new holds for new connections."""

    def __init__(self, gauge: Gauge) -> None:
        """`gauge` tells by listener when each runs out."""
        self._gauge = gauge
        self._listeners: dict[str, _FollowedFiles] = {}

    def add(self, listener: str, tls: Tls, take: Callable[[CertificatePair], None]) -> None:
        """Follow the files of a listener that was started by them, and give it what they hold now, which may
        be newer; `take` does so. Raises Faults."""
        one = _FollowedFiles(tls, take, _stamp(tls))
        pair = read_pair(tls)
        take(pair)
        self._listeners[listener] = one
        self._show(listener, one, pair)

    def set_certificate_files(self, listener: str, tls: Tls) -> None:
        """Have the certificate of a listener in other files, as settings say now."""
        one = self._listeners.get(listener)
        if one is not None and one.tls != tls:
            one.tls, one.stamp = tls, None

    def look(self, *, asked: bool = False) -> int:
        """Read what has changed; return how many listeners show another certificate now.

        Files that cannot be used, and pairs of which one has not been written yet, leave the last one: of
        the same faults is told once, and where somebody has `asked` each time.
        """
        renewed = 0
        for listener, one in self._listeners.items():
            stamp = _stamp(one.tls)
            if stamp == one.stamp:
                # Those that are shown; whatever stood there meanwhile is gone.
                one.faults = ()
                continue
            try:
                pair = read_pair(one.tls)
                if (fault := pair.expiry_fault(str(one.tls.certificate), now())) is not None:
                    raise Faults([fault])
                one.take(pair)
            except Faults as error:
                if asked or error.faults != one.faults:
                    one.faults = error.faults
                    _log.error("certificate_not_reloaded", listener=listener, faults=list(error.faults))
                continue
            one.stamp, one.faults = stamp, ()
            self._show(listener, one, pair)
            _log.info("certificate_reloaded", listener=listener, ends=pair.not_after.isoformat())
            renewed += 1
        return renewed

    async def report_trouble(self) -> str | None:
        """Say what is wrong with them, for `/readyz`."""
        told = [f"{name}: {fault}" for name, one in self._listeners.items() for fault in one.faults]
        for name, one in self._listeners.items():
            if one.pair is not None and not one.faults:
                file = one.tls.certificate.name
                found = one.pair.expiry_fault(file, now()) or one.pair.expiry_warning(file, now())
                told += [f"{name}: {found}"] if found is not None else []
        return "; ".join(told) or None

    async def run(self, every_s: float) -> None:
        """Look now and then, until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            try:
                await asyncio.to_thread(self.look)
            except Exception:  # noqa: BLE001 - a task's root: no file may stop the looking
                _log.exception("certificates_broke")

    def _show(self, listener: str, one: _FollowedFiles, pair: CertificatePair) -> None:
        one.pair = pair
        self._gauge.labels(listener).set(pair.not_after.timestamp())


@dataclass(slots=True)
class _FollowedFiles:
    """One listener's."""

    tls: Tls
    take: Callable[[CertificatePair], None]
    stamp: object
    pair: CertificatePair | None = None
    faults: tuple[str, ...] = ()


def _stamp(tls: Tls) -> object:
    """Return what tells a file from the one that was there before; of a link, that it leads to."""
    found: list[object] = []
    for path in filter(None, (tls.certificate, tls.key, tls.client_ca)):
        try:
            status = path.stat()
        except OSError as error:
            found.append(error.errno)
        else:
            found.append((status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev))
    return (tls, *found)


def now() -> datetime:
    """Return the time by which certificates are judged."""
    return datetime.now(UTC)
