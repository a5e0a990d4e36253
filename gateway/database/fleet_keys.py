"""Keys that all gateways of a PostgreSQL have: what one of them has signed, the others take."""

from __future__ import annotations

import asyncio
import secrets

from gateway.database import asking
from gateway.database.migrate import open_migrated
from gateway.errors import BackendUnavailable

ANSWER_S = 5.0
"""How long a key is waited for."""
KEY_BYTES = 32
_HAVE = """
INSERT INTO sluice.fleet_key AS k (name, key) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET name = k.name
RETURNING key
"""


class FleetKey:
    """One key, which is made when it is first asked for and remembered from then on."""

    def __init__(self, dsn: str, name: str) -> None:
        self._dsn = dsn
        self._name = name
        self._key: bytes | None = None
        self._asking: asyncio.Task[bytes] | None = None

    async def read(self) -> bytes:
        """Return the key. Who asks meanwhile waits for the same answer, or for the same error. Raises
        BackendUnavailable."""
        if self._key is None:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._ask())
            # Whoever leaves takes no answer from the others.
            self._key = await asyncio.shield(self._asking)
        return self._key

    async def _ask(self) -> bytes:
        try:
            async with asyncio.timeout(ANSWER_S):
                connection = await open_migrated(self._dsn, "sluice-fleet-key")
                try:
                    key: bytes = await connection.fetchval(_HAVE, self._name, secrets.token_bytes(KEY_BYTES))
                    return key
                finally:
                    connection.terminate()
        except asking.TROUBLE as error:
            raise BackendUnavailable(
                "the gateway's database, which has the key that this is signed by, does not answer",
                where=str(error) or type(error).__name__,
            ) from None
