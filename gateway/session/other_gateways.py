"""What a gateway does for another one that changes names of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gateway.session.locks import NO_LOCKS, CatalogLocks, HeldLocks, LockRequest, read_changes


class NamesForOthers:
    """Holds names for the others, and forgets what they have changed."""

    def __init__(
        self, find: Callable[[str], CatalogLocks | None], every: Callable[[], Iterable[CatalogLocks]]
    ) -> None:
        """`find` returns the locks of a metastore, None where no Spark of this gateway has it; `every` those
        of all."""
        self._find = find
        self._every = every

    async def hold(self, names: Mapping[str, Any]) -> HeldLocks:
        """Hold names as soon as nobody here uses them, and forget what is known of them."""
        locks = self._find(names["metastore"])
        if locks is None:
            return NO_LOCKS
        hold = HeldLocks(locks, LockRequest.read(names), for_other=True)
        await locks.enter(hold, None)
        hold.forget_before_forwarding()
        return hold

    def note_changed(self, names: Mapping[str, Any]) -> None:
        """Forget what is known of rows and files that are others. Raises KeyError, TypeError, ValueError."""
        locks = self._find(names["metastore"])
        for change in read_changes(names):
            for catalog in () if locks is None else locks.catalogs:
                catalog.invalidate(change.tables, change.databases, stays=True)

    def forget(self) -> None:
        """Forget everything that is known of names."""
        for locks in self._every():
            for catalog in locks.catalogs:
                catalog.forget_all()

    def overtake_reads(self) -> None:
        """Have nothing shown of statements that Spark may not have analysed yet."""
        for locks in self._every():
            locks.overtake_reads()
