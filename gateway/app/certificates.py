"""Certificates of listeners: read with their keys, and what is wrong with them, or soon will be."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from gateway.errors import Faults, one_line
from gateway.settings.models import Tls

WARN_BEFORE = timedelta(days=30)
"""How long before its end a certificate is warned of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificatePair:
    """What a listener shows, and the key that proves it."""

    chain: bytes
    """PEM: the certificate, then those that lead to an authority."""
    key: bytes = field(repr=False)
    """PEM."""
    not_before: datetime
    not_after: datetime
    """The earliest end of the chain."""
    warnings: tuple[str, ...] = ()

    def expiry_fault(self, name: str, now: datetime) -> str | None:
        """Return why nobody can trust it now, or None."""
        if now >= self.not_after:
            return f"`{name}` ran out on {self.not_after:%Y-%m-%d}: clients refuse it"
        if now < self.not_before:
            return f"`{name}` holds only from {self.not_before:%Y-%m-%d} on: clients refuse it"
        return None

    def expiry_warning(self, name: str, now: datetime) -> str | None:
        """Return that it runs out soon, or None."""
        if now < self.not_after <= now + WARN_BEFORE:
            days = (self.not_after - now).days
            return f"`{name}` runs out on {self.not_after:%Y-%m-%d}, in {days} days"
        return None


def read_pair(tls: Tls) -> CertificatePair:
    """Return certificate and key of a listener, whether or not they hold now. Raises Faults with all that
    keeps them from being used."""
    faults: list[str] = []
    chain = key = b""
    certificates: list[x509.Certificate] = []
    private = None
    try:
        chain = tls.certificate.read_bytes()
        certificates = x509.load_pem_x509_certificates(chain)
    except OSError as error:
        faults.append(f"`{tls.certificate}` cannot be read: {error.strerror}")
    except (ValueError, UnsupportedAlgorithm):
        faults.append(f"`{tls.certificate}` holds no certificate in PEM that can be used")
    try:
        key = tls.key.read_bytes()
        private = load_pem_private_key(key, password=None)
    except OSError as error:
        faults.append(f"`{tls.key}` cannot be read: {error.strerror}")
    except TypeError:
        faults.append(f"`{tls.key}` is encrypted, and a gateway has nobody to ask for its password")
    except (ValueError, UnsupportedAlgorithm) as error:
        why = "" if b"-----BEGIN" not in key else f": {one_line(str(error))}"
        faults.append(f"`{tls.key}` holds no private key in PEM that can be used{why}")
    if certificates and private is not None:
        shown = certificates[0].public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        if private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) != shown:
            faults.append(f"`{tls.key}` is not the key of `{tls.certificate}`")
    if faults:
        raise Faults(faults)
    return CertificatePair(
        chain=chain,
        key=key,
        not_before=max(one.not_valid_before_utc for one in certificates),
        not_after=min(one.not_valid_after_utc for one in certificates),
        warnings=tuple(_warnings(str(tls.certificate), certificates)),
    )


def _warnings(name: str, chain: list[x509.Certificate]) -> list[str]:
    found = []
    if any(one.issuer != other.subject for one, other in itertools.pairwise(chain)):
        found.append(f"`{name}` is no chain, each certificate issued by the next: clients may refuse it")
    try:
        chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        found.append(f"`{name}` names no host as `subjectAltName`: clients that look for one refuse it")
    return found


def now() -> datetime:
    """Return the time by which certificates are judged."""
    return datetime.now(UTC)
