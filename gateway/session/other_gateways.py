"""What a gateway does for another one that changes names of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gateway.session.lock_requests import LockRequest, read_changes
from gateway.session.locks import CatalogLocks, HeldLocks


class NamesForOthers:
    """Holds names for the others, and forgets what they have changed."""

    def __init__(self, locks: CatalogLocks, forget: Callable[[], None]) -> None:
        """`forget` forgets all that is known of names."""
        self._locks = locks
        self.forget = forget

    async def hold(self, names: Mapping[str, Any]) -> HeldLocks:
        """Hold names as soon as nobody here uses them, and forget what is known of them."""
        hold = HeldLocks(self._locks, LockRequest.read(names), for_other=True)
        await self._locks.enter(hold, None)
        hold.forget_before_forwarding()
        return hold

    def note_changed(self, names: Mapping[str, Any]) -> None:
        """Forget what is known of rows and files that are others. Raises KeyError, TypeError, ValueError."""
        for change in read_changes(names):
            self._locks.catalog.invalidate(change.tables, change.databases, stays=True)

    def overtake_reads(self) -> None:
        """Have nothing shown of statements that Spark may not have analysed yet."""
        self._locks.overtake_reads()
