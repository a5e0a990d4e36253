"""Texts that clients are given and show again: what a catalog knows a plan by, or where it has put a table.

They are signed by a key that all gateways of a PostgreSQL have, so that each takes those of the others, and
nothing has to be kept of them. INVARIANT (a handle means what it was given for): it is of one user and table,
of one purpose, and of one decision on the table; it ends, and nobody makes another of it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable, Sequence

import orjson

MAX_HANDLE_AGE_S = 86_400
"""How long a handle holds: a query may run for hours between its plan and the last of its tasks."""
_PURPOSE = b"sluice iceberg rest handle 1\0"
_UNTIL_BYTES = 8
_SIGNATURE_BYTES = 16

HandleKey = Callable[[], Awaitable[bytes]]
"""Returns the key of the fleet. Raises BackendUnavailable while it is not to be had."""


class SignedHandles:
    """Makes and reads handles."""

    def __init__(self, key: HandleKey, *, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._clock = clock

    async def sign(self, meaning: Sequence[str], text: str) -> str:
        """Return a handle for a text, that is worth something with the same meaning alone."""
        until = (int(self._clock()) + MAX_HANDLE_AGE_S).to_bytes(_UNTIL_BYTES)
        raw = text.encode()
        sealed = until + _sign(await self._key(), meaning, until + raw) + raw
        return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()

    async def read(self, meaning: Sequence[str], handle: str) -> str | None:
        """Return the text of a handle; None for one that was given for something else, is too old, or was
        never given."""
        try:
            sealed = base64.b64decode(handle + "=" * (-len(handle) % 4), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error):
            return None
        until, rest = sealed[:_UNTIL_BYTES], sealed[_UNTIL_BYTES:]
        signature, raw = rest[:_SIGNATURE_BYTES], rest[_SIGNATURE_BYTES:]
        # RULE (rest-handle-signed)
        if not hmac.compare_digest(signature, _sign(await self._key(), meaning, until + raw)):
            return None
        if int.from_bytes(until) < self._clock():  # RULE (rest-handle-ends)
            return None
        return raw.decode()


def _sign(key: bytes, meaning: Sequence[str], signed: bytes) -> bytes:
    told = orjson.dumps(list(meaning))
    return hmac.digest(key, _PURPOSE + len(told).to_bytes(4) + told + signed, hashlib.sha256)[
        :_SIGNATURE_BYTES
    ]
