"""What gateways of one PostgreSQL count together: the pool, the trouble and the old rows of such a table."""

from __future__ import annotations

import asyncio
import time
from typing import Any, ClassVar

import structlog

from gateway.database import asking
from gateway.database.migrate import LazyPool, open_migrated

_log = structlog.get_logger(__name__)

ANSWER_S = 1.0
"""How long a login or a statement waits for PostgreSQL."""
AWAY_S = 5.0
"""For how long it is not asked again after it did not answer."""
CONNECTIONS = 2


class SharedCounts:
    """A table that gateways count in; while PostgreSQL is away, each goes by what it has counted itself."""

    application: ClassVar[str]
    """What PostgreSQL calls its connections."""
    trouble: ClassVar[str]
    """The event that the log has, once, when it does not answer."""
    clean_s: ClassVar[float]
    """Seconds between two removals of old rows."""
    retry_s: ClassVar[float]
    """Seconds until the next one after one that failed."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        # Tables are made by whoever removes old rows: a login does not wait for that.
        self._pool = LazyPool(
            dsn, self.application, most=CONNECTIONS, timeout_s=ANSWER_S, prepare=_use_tables_as_they_are
        )
        self._away_until = float("-inf")
        self._is_told = False

    @property
    def is_away(self) -> bool:
        """Whether it is not asked for now."""
        return time.monotonic() < self._away_until

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    async def remove_old(self, text: str, *arguments: Any) -> None:
        """Remove what nobody counts by any more, until cancelled."""
        while True:
            wait_s = self.clean_s
            try:
                connection = await open_migrated(self._dsn, self.application, command_s=10.0)
                try:
                    await connection.execute(text, *arguments)
                finally:
                    connection.terminate()
            except asking.TROUBLE as error:
                self._tell(error)
                wait_s = self.retry_s
            await asyncio.sleep(wait_s)

    def _note_away(self, error: Exception) -> None:
        self._away_until = time.monotonic() + AWAY_S
        self._tell(error)

    def _tell(self, error: Exception) -> None:
        if not self._is_told:
            _log.warning(self.trouble, error=str(error) or type(error).__name__)
        self._is_told = True


async def _use_tables_as_they_are(_: Any) -> None:
    """Prepare nothing."""
