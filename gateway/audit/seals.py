"""Seals: once a day the heads of all chains are signed, with the seal before.

A chain shows that somebody changed it; a seal shows that somebody made a whole chain anew, since its key is
not in the database. Seals are small and made to be kept elsewhere as well: what an export has and the
database has not, was taken away there.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import structlog
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from gateway.audit.chain import LINK_BYTES, Head, canonical
from gateway.audit.rows import select_time
from gateway.database.asking import TROUBLE, connect
from gateway.errors import Faults, LedgerUnavailable

log = structlog.get_logger(__name__)

MAX_POSITIONS = 1 << 63
KEPT = "seals.jsonl"
"""File in a gateway's ledger directory with the seals that it has made: one that the database has no more is
missed there."""
_NO_ASCII = re.compile(r"[^\x00-\x7f]+")
_SIGNED = b"sluice seal 1\n"
_LEAF, _NODE = b"\0", b"\1"
_TURN = 0x736C756963652053
"""Key of the advisory lock under which seals are made (`sluice S` in ASCII)."""


class NotASeal(ValueError):
    """A text that is no seal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """The heads of all chains at one moment."""

    number: int
    """Number of the seal: from 1, without gaps."""
    day: date
    """The day (UTC) that had ended, or that it was made on when somebody asked for it."""
    made_at: str
    """UTC, ISO 8601."""
    previous: str
    """SHA-256, in hexadecimal, of the text of the seal before; empty in the first."""
    heads: Mapping[str, Head]
    root: str
    """Merkle root (RFC 6962) over the heads in the order of their gateways, in hexadecimal."""
    key: str
    """SHA-256 of the public key, in hexadecimal."""
    signature: str
    """Ed25519 over everything else, in hexadecimal."""
    before_chain: int | None = None
    """How many events the database said to be older than the chain; seals of older versions do not say."""

    def text(self) -> str:
        """Return the seal as it is kept and exported: one line of JSON."""
        return canonical({**self._build_signed_text(), "signature": self.signature}).decode()

    def line(self) -> str:
        """Return the same as it is written to a file: nothing in it ends a line, or is shown as something
        else."""
        return as_line(self.text())

    def digest(self) -> str:
        return hashlib.sha256(self.text().encode()).hexdigest()

    def follows(self, before: Seal) -> bool:
        """Whether this one was made behind another; older versions have not read all of that."""
        return self.previous in (before.digest(), replace(before, before_chain=None).digest())

    def is_by(self, key: Ed25519PublicKey) -> bool:
        """Whether the seal is whole and signed with the key."""
        try:
            key.verify(bytes.fromhex(self.signature), _SIGNED + canonical(self._build_signed_text()))
        except (InvalidSignature, ValueError):
            return False
        return self.root == merkle_root(self.heads)

    def sign(self, key: Ed25519PrivateKey) -> Seal:
        """Return the seal with the key's signature."""
        return replace(self, signature=key.sign(_SIGNED + canonical(self._build_signed_text())).hex())

    def _build_signed_text(self) -> dict[str, Any]:
        told = {} if self.before_chain is None else {"before_chain": self.before_chain}
        return told | {
            "number": self.number,
            "day": self.day.isoformat(),
            "made_at": self.made_at,
            "previous": self.previous,
            "heads": [
                {"gateway": name, "position": head.position, "link": head.link.hex()}
                for name, head in sorted(self.heads.items())
            ],
            "root": self.root,
            "key": self.key,
        }


def as_line(text: str) -> str:
    """Return the text of a seal in ASCII; `read_seal` reads the same seal. Names of gateways may hold what
    many readers take for the end of a line."""
    return _NO_ASCII.sub(lambda found: json.dumps(found.group())[1:-1], text)


def read_seal(text: str) -> Seal:
    """Read what `Seal.text` has written. Raises NotASeal."""
    try:
        found = json.loads(text)
        heads = {
            str(one["gateway"]): Head(int(one["position"]), bytes.fromhex(one["link"]))
            for one in found["heads"]
        }
        for name, head in heads.items():
            if len(head.link) != LINK_BYTES:
                raise NotASeal("a link has the wrong length")
            if not 0 <= head.position < MAX_POSITIONS or "\0" in name:
                raise NotASeal("it has an invalid position in the chain")
        seal = Seal(
            number=int(found["number"]),
            day=date.fromisoformat(found["day"]),
            made_at=str(found["made_at"]),
            previous=str(found["previous"]),
            heads=heads,
            root=str(found["root"]),
            key=str(found["key"]),
            signature=str(found["signature"]),
            before_chain=int(found["before_chain"]) if "before_chain" in found else None,
        )
        seal.text()  # what cannot be written was never read from what we have written
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise NotASeal(f"{type(error).__name__}: {error}") from None
    return seal


def keep_seal(directory: Path, seal: Seal) -> None:
    """Write a seal down beside the gateway's spool, where whoever has the database does not reach. Raises
    OSError."""
    with (directory / KEPT).open("ab+") as file:
        file.seek(max(0, file.tell() - 1))
        # A line that was cut stays by itself.
        between = b"" if file.read(1) in (b"", b"\n") else b"\n"
        file.write(between + seal.line().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_local_seals(directory: Path) -> list[str]:
    """Return the texts of the seals that were written down there. Lines that are none are told in the log."""
    try:
        lines = (directory / KEPT).read_text(encoding="utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        log.warning("audit_kept_seals_unreadable", file=str(directory / KEPT), error=str(error))
        return []
    found = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            found.append(read_seal(line).text())
        except NotASeal as error:
            log.warning(
                "audit_kept_seal_unreadable", file=str(directory / KEPT), line=number, error=str(error)
            )
    return found


def merkle_root(heads: Mapping[str, Head]) -> str:
    """Return the Merkle root over heads, in hexadecimal; each leaf is a gateway's name, position and link."""
    leaves = [
        hashlib.sha256(_LEAF + canonical([name, head.position, head.link])).digest()
        for name, head in sorted(heads.items())
    ]
    return _root(leaves).hex()


def _root(leaves: Sequence[bytes]) -> bytes:
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(_NODE + _root(leaves[:split]) + _root(leaves[split:])).digest()


def read_signing_key(pem: str) -> Ed25519PrivateKey:
    """Read a private key as `openssl genpkey -algorithm ed25519` writes it. Raises Faults."""
    try:
        key = load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise Faults(
            [
                "the seal key is not an Ed25519 private key in PEM format; create one with `openssl "
                "genpkey -algorithm ed25519`"
            ]
        )
    return key


def public_key(pem: str) -> Ed25519PublicKey:
    """Read a public key as `openssl pkey -pubout` writes it. Raises Faults."""
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise Faults(
            ["the public key is not an Ed25519 public key in PEM format; `openssl pkey -pubout` writes it"]
        )
    return key


def fingerprint(key: Ed25519PublicKey) -> str:
    """Return the SHA-256 of a public key, in hexadecimal."""
    return hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()


async def seals(connection: Any) -> list[str]:
    """Return the texts of all seals, the first first."""
    return [
        row["content"]
        for row in await connection.fetch("SELECT content FROM sluice.audit_seal ORDER BY number")
    ]


async def ends(connection: Any) -> dict[str, Head | None]:
    """Return the ends of chains as the database has them; None where it has two of one, or what is none."""
    found: dict[str, Head | None] = {}
    for row in await connection.fetch("SELECT gateway, chain_position, link FROM sluice.audit_chain"):
        name, position, link = row["gateway"] or "", row["chain_position"], row["link"] or b""
        whole = position is not None and position >= 0 and len(link) == LINK_BYTES
        found[name] = Head(position, bytes(link)) if whole and name not in found else None
    return found


async def before_chain(connection: Any) -> tuple[int, datetime] | None:
    """Return how many events the database says to be older than all chains, and when these began; None where
    it says nothing of the kind, or two things."""
    rows = await connection.fetch(
        f"SELECT events, {select_time('began')} AS began FROM sluice.audit_before_chain"
    )
    if len(rows) != 1 or None in rows[0].values() or rows[0]["events"] < 0:
        return None
    return rows[0]["events"], rows[0]["began"]


async def make_seal(
    connection: Any, key: Ed25519PrivateKey, day: date | None = None, *, once: bool = False
) -> Seal | None:
    """Sign the heads of all chains as they are now, and keep the seal; None when `once` and a seal by the key
    was made since the day's end. Without a day, it is that on which PostgreSQL's clock is.

    Gateways take turns. Raises NotASeal when the last seal in the database is none, or what is to be sealed
    nothing that a seal can have.
    """
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _TURN)
        now = await connection.fetchval("SELECT clock_timestamp()")
        day = day or now.astimezone(UTC).date()
        texts = await seals(connection)
        before = read_seal(texts[-1]) if texts else None
        if once and _is_sealed_since(day + timedelta(days=1), now, texts, key.public_key()):
            return None
        heads = {}
        for name, head in (await ends(connection)).items():
            if head is None:
                raise NotASeal(f"the database has no chain head of `{name}`, or two")
            heads[name] = head
        older = await before_chain(connection)
        if older is None:
            raise NotASeal("the database has no count of the events older than the chain")
        unsigned = Seal(
            number=before.number + 1 if before is not None else 1,
            day=day,
            made_at=now.astimezone(UTC).isoformat(timespec="microseconds"),
            previous=before.digest() if before is not None else "",
            heads=heads,
            root=merkle_root(heads),
            key=fingerprint(key.public_key()),
            signature="",
            before_chain=older[0],
        )
        seal = unsigned.sign(key)
        await connection.execute(
            "INSERT INTO sluice.audit_seal (number, made_at, content) VALUES ($1, $2, $3)",
            seal.number,
            now,
            seal.text(),
        )
    return seal


def _is_sealed_since(day: date, now: datetime, texts: Sequence[str], key: Ed25519PublicKey) -> bool:
    """Whether the last seal by the key was made on a day or later. One of a time to come says nothing: the
    clock was wrong."""
    begins = datetime.combine(day, time(), UTC)
    for text in reversed(texts):
        try:
            seal = read_seal(text)
        except NotASeal:
            continue
        if seal.is_by(key):
            return begins <= datetime.fromisoformat(seal.made_at) <= now
    return False


AFTER_MIDNIGHT = timedelta(minutes=5)
"""Events of a day's last moments are on their way to PostgreSQL for a few seconds."""
RETRY_S = 60.0


def day_to_seal(now: datetime) -> tuple[datetime, timedelta]:
    """Return the last day (UTC) that has ended, and how long until the next one has."""
    now = now.astimezone(UTC)
    settled = now - AFTER_MIDNIGHT
    midnight = settled.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=1), midnight + timedelta(days=1) + AFTER_MIDNIGHT - now


async def keep_sealing(
    dsn: str,
    key: Ed25519PrivateKey,
    directory: Path,
) -> None:
    """Seal each day when it has ended by PostgreSQL's clock, and at once when the last one has no seal yet;
    keep the seals in the ledger's directory as well. Never returns."""
    while True:
        try:
            connection = await connect(dsn, "sluice-seal", command_s=60, whole=True)
            try:
                # Gateways' clocks may differ, and one that is ahead seals no day that has not ended.
                day, rest = day_to_seal(await connection.fetchval("SELECT clock_timestamp()"))
                seal = await make_seal(connection, key, day.date(), once=True)
            finally:
                connection.terminate()
        except (*TROUBLE, LedgerUnavailable, NotASeal) as error:
            log.warning("audit_not_sealed", error=type(error).__name__)
            await asyncio.sleep(RETRY_S)
            continue
        if seal is not None:
            log.info("audit_sealed", day=str(seal.day), number=seal.number, seal=seal.digest())
            try:
                await asyncio.to_thread(keep_seal, directory, seal)
            except OSError as error:
                log.warning("audit_seal_not_kept", number=seal.number, error=str(error))
        await asyncio.sleep(rest.total_seconds())
