"""Certificates that tests make, with keys and without authorities."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)


def make_pair(
    directory: Path,
    *,
    days: float = 365,
    since_days: float = -1,
    names: tuple[str, ...] = ("localhost",),
    key_name: str = "k.pem",
    certificate_name: str = "c.pem",
    encryption: KeySerializationEncryption | None = None,
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None,
    form: PrivateFormat = PrivateFormat.PKCS8,
    uses: tuple[x509.ObjectIdentifier, ...] = (),
    signs: bool | None = None,
) -> None:
    """Write a certificate and its key, which ends in so many days."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test only")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=since_days))
        .not_valid_after(now + timedelta(days=days, minutes=5))
    )
    if names:
        made = made.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(n) for n in names]), critical=False
        )
    if uses:
        made = made.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    if signs is not None:
        made = made.add_extension(x509.BasicConstraints(ca=signs, path_length=None), critical=True)
    (directory / certificate_name).write_bytes(made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    secret(
        directory / key_name,
        key.private_bytes(Encoding.PEM, form, encryption or NoEncryption()),
    )


def secret(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
