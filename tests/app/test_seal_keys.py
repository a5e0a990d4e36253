"""What an older key has signed holds for whatever the settings start: jobs, and `sluice audit verify`."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from gateway.app.jobs import jobs
from gateway.app.seal_keys import seal_keys, verify_options
from gateway.settings import load_settings


def test_keys_are_the_one_that_signs_and_those_before(tmp_path: Path) -> None:
    now, *before = [Ed25519PrivateKey.generate() for _ in range(3)]
    (tmp_path / "now.pem").write_bytes(now.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    for number, key in enumerate(before):
        pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (tmp_path / f"{number}.pem").write_bytes(pem)
    file = tmp_path / "gateway.yaml"
    file.write_text("ledger: {seal_key: {file: now.pem}, older_seal_keys: [0.pem, 1.pem]}\n")
    settings = load_settings(file)
    expected = [key.public_key() for key in (now, *before)]
    assert list(seal_keys(settings.ledger)) == list(verify_options(settings).keys) == expected
    assert {"archive", "verify"} <= jobs(settings).keys()
    file.write_text("ledger: {older_seal_keys: [0.pem]}\n")
    assert list(seal_keys(load_settings(file).ledger)) == [before[0].public_key()]
