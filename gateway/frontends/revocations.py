"""Certificate revocation lists: which client certificates their authorities have taken back (RFC 5280).

They are checked here and not in TLS, since gRPC has no such thing and all endpoints are to be alike. Where
there are lists, a certificate needs a good one of its authority: signed by it, and not out of date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

_log = structlog.get_logger(__name__)

REVOKED = "the certificate was revoked by its authority"
NO_LIST = "no valid revocation list says whether the certificate was revoked"
LOOK_S = 5.0
"""How often files are looked at."""
MAX_LIST_BYTES = 64 * 1024 * 1024
_UNREADABLE = (OSError, ValueError, UnsupportedAlgorithm, x509.DuplicateExtension)
_Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _ReadLists:
    """What stands in the files as they were."""

    stamps: tuple[_Stamp, ...]
    lists: tuple[x509.CertificateRevocationList, ...]
    faults: tuple[str, ...]


class RevocationLists:
    """The lists of some files, read again when these change."""

    def __init__(
        self,
        files: Sequence[Path],
        authorities: Iterable[Path],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`authorities`: PEM files of those that sign the lists."""
        self._files = tuple(files)
        self._authorities = tuple(dict.fromkeys(authorities))
        self._now = now
        self._looked_at = datetime.min.replace(tzinfo=UTC)
        self._read = _ReadLists((), (), ())

    def find_fault(self, der: bytes) -> str | None:
        """Return why a certificate may not be shown, or None."""
        if not self._files:
            return None
        try:
            certificate = x509.load_der_x509_certificate(der)
            now = self._now()
            lists = [one for one in self._look() if one.issuer == certificate.issuer and _is_valid(one, now)]
            serial = certificate.serial_number
        except (*_UNREADABLE, x509.InvalidVersion):
            return NO_LIST
        if not lists:  # RULE (revocation-list-missing)
            return NO_LIST
        revoked = any(one.get_revoked_certificate_by_serial_number(serial) is not None for one in lists)
        return REVOKED if revoked else None  # RULE (certificate-revoked)

    def report(self) -> str | None:
        """Return what is wrong with the lists, or None."""
        now = self._now()
        late = [
            f"the list of `{one.issuer.rfc4514_string()}` is out of date"
            for one in self._look()
            if not _is_valid(one, now)
        ]
        return "; ".join((*self._read.faults, *late)) or None

    def _look(self) -> tuple[x509.CertificateRevocationList, ...]:
        now = self._now()
        if now - self._looked_at >= timedelta(seconds=LOOK_S):
            self._looked_at = now
            stamps = tuple(_stamp(path) for path in (*self._files, *self._authorities))
            if stamps != self._read.stamps:
                self._read = self._load(stamps)
                for fault in self._read.faults:
                    _log.error("revocation_list_not_used", fault=fault)
        return self._read.lists

    def _load(self, stamps: tuple[_Stamp, ...]) -> _ReadLists:
        faults, lists = list[str](), list[x509.CertificateRevocationList]()
        authorities = list[x509.Certificate]()
        for path in self._authorities:
            try:
                authorities += x509.load_pem_x509_certificates(path.read_bytes())
            except _UNREADABLE as error:
                faults.append(f"`{path}` cannot be read: {error}")
        for path in self._files:
            try:
                for found in _parse(path):
                    if any(_has_signed(one, found) for one in authorities):  # RULE (revocation-list-signed)
                        lists.append(found)
                    else:
                        faults.append(f"the list in `{path}` is signed by no authority of a listener")
            except _UNREADABLE as error:
                faults.append(f"`{path}` cannot be read: {error}")
        return _ReadLists(stamps, tuple(lists), tuple(faults))


def _parse(path: Path) -> list[x509.CertificateRevocationList]:
    if path.stat().st_size > MAX_LIST_BYTES:
        raise ValueError("it is too large")
    data = path.read_bytes()
    end = b"-----END X509 CRL-----"
    if end not in data:
        return [x509.load_der_x509_crl(data)]
    return [x509.load_pem_x509_crl(one + end + b"\n") for one in data.split(end)[:-1]]


def _has_signed(authority: x509.Certificate, found: x509.CertificateRevocationList) -> bool:
    try:
        return authority.subject == found.issuer and found.is_signature_valid(authority.public_key())  # type: ignore[arg-type]
    except (TypeError, ValueError, UnsupportedAlgorithm):
        return False


def _is_valid(one: x509.CertificateRevocationList, now: datetime) -> bool:
    """Whether a list holds now; one without an end does not."""
    ends = one.next_update_utc
    return one.last_update_utc <= now and ends is not None and now < ends  # RULE (revocation-list-late)


def _stamp(path: Path) -> _Stamp:
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)
