"""Locks on names of the catalog: what a statement was judged by is what it runs on, whoever changes it
meanwhile.

INVARIANT (a name is judged as it will be resolved, across sessions): Spark resolves the names of a statement
at a moment of its own choosing, some time after it was judged. Until that moment nobody replaces what they
mean. So every statement holds its names from before it is forwarded: shared what it was judged by,
exclusively what it changes, all at once or none, so that no two wait for each other. It lets go when Spark
has said how it ended.

A statement that only reads lets go as soon as Spark has analysed it. Where Spark does not say so before the
end, a change waits for it `overtake_s` and then overtakes it: what an overtaken statement answers is never
shown. A statement with effects cannot be taken back, so a change waits for its end, or is refused.

One gateway process has one of these for each metastore, for all its endpoints and all Sparks that share it.
What others do to the catalog is not seen here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import structlog

from gateway.model.catalog import TableName, namespaces_of
from gateway.model.changed_names import NOBODY
from gateway.model.decision import Decision
from gateway.model.statement import CatalogChanged, Cleared
from gateway.session.limits import SessionLimits
from gateway.session.ports import Catalog
from gateway.session.watches import Followed

_log = structlog.get_logger(__name__)

_REWRITING = ("delete", "update")
"""What it takes to replace or delete files of a table."""

LockKey = tuple[str, ...]
"""A database by catalog and name, or a table by these and its own; folded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRequest:
    """The names that a statement needs to keep their meaning, and those whose meaning it changes."""

    shared: frozenset[LockKey] = frozenset()
    """Tables, and the databases of all tables here with the namespaces that these lie in: who drops one drops
    its tables."""
    exclusive: frozenset[LockKey] = frozenset()
    changes: tuple[CatalogChanged, ...] = ()
    rewritten: tuple[TableName, ...] = ()
    """Tables of which it may replace or delete files: who knows these files reads what is not there."""
    read_only: bool = False

    @classmethod
    def of(cls, cleared: Cleared, names: Iterable[TableName]) -> LockRequest:
        """Return what a statement locks that was judged by `names`."""
        changes = tuple(effect for effect in cleared.effects if isinstance(effect, CatalogChanged))
        changing = [effect for effect in changes if effect.meaning != "stays"]
        tables = {_key(name) for effect in changing for name in effect.tables}
        databases = {(c.lower(), d.lower()) for effect in changing for c, d in effect.databases}
        read = {_key(name) for name in names}
        # Who drops a namespace may drop those in it.
        inside = (*(key[:2] for key in tables | read), *databases)
        within: set[LockKey] = {(c, above) for c, database in inside for above in namespaces_of(database)}
        exclusive = frozenset[LockKey](tables | databases)
        return cls(
            shared=frozenset(read | within) - exclusive,
            exclusive=exclusive,
            changes=changes,
            rewritten=() if cleared.read_only else tuple(_rewrite(cleared.decisions)),
            read_only=cleared.read_only and not changes,
        )

    def covers(self, other: LockRequest) -> bool:
        """Whether who holds this may do what would ask for the other."""
        return (
            other.exclusive <= self.exclusive
            and other.shared <= self.shared | self.exclusive
            and (other.read_only or not self.read_only)
        )


class HeldLocks(Followed):
    """Names that a statement holds, from before it is forwarded to its end."""

    __slots__ = ("_by", "_expiry", "_locks", "overtaken", "request", "waited")

    def __init__(self, locks: CatalogLocks | None, request: LockRequest, by: int = NOBODY) -> None:
        super().__init__()
        self.request = request
        self._by = by
        self.overtaken = False
        """Names that it was judged by changed before it was known that Spark had analysed it."""
        self.waited = False
        """Others were in the way: time has gone by since it was asked for."""
        self._locks = locks
        self._expiry: asyncio.TimerHandle | None = None

    def forget_before_forwarding(self) -> None:
        """Forget what was known of the names that are about to change."""
        self._invalidate(before=True)

    def release(self, after_s: float = 0.0) -> None:
        """Let go of the names, now or after some seconds, the earliest of what is said.

        Later where Spark may not have let go itself: a statement that was stopped half-way may still do its
        work. What is only read can be let go at once, since nobody is shown it any more.
        """
        if self.over:
            return
        self._invalidate()
        if after_s > 0 and not self.request.read_only and self._locks is not None:
            loop = asyncio.get_running_loop()
            if self._expiry is None or self._expiry.when() > loop.time() + after_s:
                self._cancel_expiry()
                self._expiry = loop.call_later(after_s, self.release)
            return
        self._cancel_expiry()
        self.over = True
        if self._locks is not None:
            self._locks.release_hold(self)

    def _cancel_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _invalidate(self, *, before: bool = False) -> None:
        # Whatever its outcome: a statement that failed may have done half of its work.
        if self._locks is None:
            return
        for catalog in self._locks.catalogs:  # RULE (changes-of-a-metastore)
            for change in self.request.changes:
                stays = change.meaning == "stays"
                if not (before and stays):
                    catalog.invalidate(change.tables, change.databases, by=self._by, stays=stays)
            if self.request.rewritten and not before:  # RULE (delete-files-before)
                catalog.changed_names.note(self.request.rewritten, by=self._by, stays=True)


NO_LOCKS = HeldLocks(None, LockRequest(read_only=True))
"""Of a statement that names nothing."""
NO_LOCKS.over = True


class _Waiter:
    __slots__ = ("entered", "hold", "timer")

    def __init__(self, hold: HeldLocks, entered: asyncio.Future[None]) -> None:
        self.hold = hold
        self.entered = entered
        self.timer: asyncio.TimerHandle | None = None
        """Runs while nothing but statements that only read is in the way."""

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class _Requests:
    """Holds by the names that they ask for: those that conflict with one are found without looking at all."""

    def __init__(self) -> None:
        self._shared: dict[LockKey, dict[HeldLocks, None]] = {}
        self._exclusive: dict[LockKey, dict[HeldLocks, None]] = {}

    def add(self, hold: HeldLocks) -> None:
        for index, keys in self._of(hold.request):
            for key in keys:
                index.setdefault(key, {})[hold] = None

    def remove(self, hold: HeldLocks) -> None:
        for index, keys in self._of(hold.request):
            for key in keys:
                del index[key][hold]
                if not index[key]:
                    del index[key]

    def find_conflicts(self, request: LockRequest) -> Iterator[HeldLocks]:
        """Yield those that conflict with a request; one with several of its names more than once."""
        for key in request.exclusive:
            yield from self._exclusive.get(key, ())
            yield from self._shared.get(key, ())
        for key in request.shared:
            yield from self._exclusive.get(key, ())

    def conflict(self, request: LockRequest) -> bool:
        return next(self.find_conflicts(request), None) is not None

    def _of(
        self, request: LockRequest
    ) -> tuple[tuple[dict[LockKey, dict[HeldLocks, None]], frozenset[LockKey]], ...]:
        return (self._shared, request.shared), (self._exclusive, request.exclusive)


class CatalogLocks:
    """Who holds which names, and who waits for them: first come, first served.

    What a request costs grows with those that it conflicts with: whoever has hundreds wait for names of his
    own holds up nobody who asks for others.
    """

    def __init__(self, catalog: Catalog, limits: SessionLimits | None = None) -> None:
        self.catalogs = [catalog]
        """What is known of the names, of each Spark that has them."""
        self._limits = limits or SessionLimits()
        self._holds: dict[HeldLocks, None] = {}
        self._held = _Requests()
        self._queue: dict[HeldLocks, _Waiter] = {}
        self._waiting = _Requests()

    def add_catalog(self, catalog: Catalog) -> None:
        """Have what statements change forgotten by another Spark of the same metastore."""
        self.catalogs.append(catalog)

    def remove_catalog(self, catalog: Catalog) -> None:
        """Forget a Spark that is gone."""
        self.catalogs.remove(catalog)

    async def acquire(self, request: LockRequest, *, until: float, by: int = NOBODY) -> HeldLocks | None:
        """Hold names for the session `by`; waits for others until the loop's clock says `until`, then returns
        None."""
        hold = HeldLocks(self, request, by)
        if not (request.shared or request.exclusive):
            return hold
        barred = self._is_barred(request, self._waiting, {})
        if not (barred or self._held.conflict(request)):
            self._enter(hold)
            return hold
        hold.waited = True
        waiter = _Waiter(hold, asyncio.get_running_loop().create_future())
        self._queue[hold] = waiter
        self._waiting.add(hold)
        self._wait(waiter, barred=barred)
        try:
            async with asyncio.timeout_at(until):
                await waiter.entered
        except TimeoutError:
            # It may have entered just as its time was over.
            return hold if hold in self._holds else None
        except BaseException:  # also a caller that is cancelled: it holds nothing, and lets the next one in
            hold.over = True
            self.release_hold(hold)
            raise
        finally:
            waiter.stop_timer()
            if hold in self._queue:
                self._leave(hold)
                if self._waiting.conflict(request):
                    self._serve()
        return hold

    def release_hold(self, hold: HeldLocks) -> None:
        """Take out a hold and let in whoever waited for it."""
        if hold in self._holds:
            self._take_out(hold)
            if self._waiting.conflict(hold.request):
                self._serve()

    # -- inside ------------------------------------------------------------------------------------------

    def _is_barred(self, request: LockRequest, before: _Requests, waits: dict[HeldLocks, bool]) -> bool:
        """Whether it would overtake somebody who waits for the same names.

        Who only reads may pass a change that waits for a statement with effects: it holds the names for a
        moment only, and does not keep the change from its turn. `waits` is what is known of who does.
        """
        for waiter in before.find_conflicts(request):
            if not request.read_only:
                return True
            if waiter not in waits:
                waits[waiter] = self._waits_for_effects(waiter.request)
            if not waits[waiter]:
                return True
        return False

    def _find_conflicts(self, request: LockRequest) -> list[HeldLocks]:
        return list(dict.fromkeys(self._held.find_conflicts(request)))

    def _waits_for_effects(self, request: LockRequest) -> bool:
        return any(not hold.request.read_only for hold in self._held.find_conflicts(request))

    def _enter(self, hold: HeldLocks) -> None:
        self._holds[hold] = None
        self._held.add(hold)
        if self._waiting.conflict(hold.request):
            hold.ask_for_its_end()

    def _take_out(self, hold: HeldLocks) -> None:
        del self._holds[hold]
        self._held.remove(hold)

    def _leave(self, hold: HeldLocks) -> None:
        del self._queue[hold]
        self._waiting.remove(hold)

    def _serve(self) -> None:
        """Let in who can be let in, in order; have the ends of those in the way found out."""
        before, waits = _Requests(), dict[HeldLocks, bool]()
        for hold, waiter in list(self._queue.items()):
            request = hold.request
            if waiter.entered.done():
                continue
            barred = self._is_barred(request, before, waits)
            if not (barred or self._held.conflict(request)):
                waiter.stop_timer()
                self._leave(hold)
                self._enter(hold)
                waits.clear()
                waiter.entered.set_result(None)
                continue
            before.add(hold)
            self._wait(waiter, barred=barred)

    def _wait(self, waiter: _Waiter, *, barred: bool) -> None:
        """Have the ends of those in the way found out, and overtake those that only read after a while."""
        conflicting = self._find_conflicts(waiter.hold.request)
        for hold in conflicting:
            hold.ask_for_its_end()
        if barred or not all(hold.request.read_only for hold in conflicting):
            waiter.stop_timer()
        elif waiter.timer is None:
            loop = asyncio.get_running_loop()
            waiter.timer = loop.call_later(self._limits.overtake_s, self._overtake, waiter)

    def _overtake(self, waiter: _Waiter) -> None:
        """Let a change in although statements that only read may not have been analysed yet."""
        waiter.timer = None
        conflicting = self._find_conflicts(waiter.hold.request)
        if waiter.entered.done() or not all(hold.request.read_only for hold in conflicting):
            return
        for hold in conflicting:
            hold.overtaken = True
            self._take_out(hold)
        _log.info("reads_overtaken", count=len(conflicting))
        self._serve()


def _rewrite(decisions: Iterable[Decision]) -> Iterator[TableName]:
    for request in (decision.request for decision in decisions):
        if request.access in _REWRITING and request.resource.kind == "table":
            parts = [value for _, value in request.resource.elements]
            yield TableName(*parts)


def _key(name: TableName) -> LockKey:
    return name.catalog.lower(), name.database.lower(), name.table.lower()
