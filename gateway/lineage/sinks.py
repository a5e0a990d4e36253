"""Where lineage goes besides the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gateway.lineage.rows import SeenStatement


class LineageSink(Protocol):
    """Takes the lineage of statements after the graph has it."""

    async def put(self, seen: Sequence[SeenStatement]) -> None:
        """Return when the statements are in safe hands; whatever this raises has it called again with them.

        Each statement comes at least once: after a restart, too, so a sink goes by `statement_id`.
        """
        ...
