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
Where other gateways share its database, a change takes its turn among all of them, and each holds the names
for it (`other_gateways.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from gateway.model.catalog import TableName, namespaces_of
from gateway.model.changed_names import NOBODY
from gateway.model.decision import Decision
from gateway.model.statement import CatalogChanged, Cleared
from gateway.session.limits import SessionLimits
from gateway.session.ports import Catalog, NameTurn, OtherGateways

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

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> LockRequest:
        """Return what is held here for a change that another gateway tells of. Raises KeyError, TypeError or
        ValueError."""
        exclusive = frozenset(tuple(str(part) for part in key) for key in told["exclusive"])
        return cls(exclusive=exclusive, changes=read_changes(told))

    def write_names(self, metastore: str) -> dict[str, Any]:
        """Write what others need to know of a change before it is made."""
        return {
            "metastore": metastore,
            "exclusive": sorted(list(key) for key in self.exclusive),
            "shared": sorted(list(key) for key in self.shared),
            "changes": self.write_changes(),
        }

    def write_changes(self) -> list[dict[str, Any]]:
        """Write what is changed."""
        written = [
            {
                "tables": [_parts(name) for name in change.tables],
                "databases": [list(database) for database in change.databases],
                "stays": change.meaning == "stays",
            }
            for change in self.changes
        ]
        if self.rewritten:
            tables = [_parts(name) for name in self.rewritten]
            written.append({"tables": tables, "databases": [], "stays": True})
        return written


def read_changes(told: Mapping[str, Any]) -> tuple[CatalogChanged, ...]:
    """Read what another gateway changes. Raises KeyError, TypeError or ValueError."""
    return tuple(
        CatalogChanged(
            tables=tuple(TableName(*parts) for parts in one["tables"]),
            databases=tuple((catalog, database) for catalog, database in one["databases"]),
            meaning="stays" if one["stays"] else "changes",
        )
        for one in told["changes"]
    )


def _rewrite(decisions: Iterable[Decision]) -> Iterator[TableName]:
    for request in (decision.request for decision in decisions):
        if request.access in _REWRITING and request.resource.kind == "table":
            parts = [value for _, value in request.resource.elements]
            yield TableName(*parts)


def _key(name: TableName) -> LockKey:
    return name.catalog.lower(), name.database.lower(), name.table.lower()


def _parts(name: TableName) -> list[str]:
    return [name.catalog, name.database, name.table]


class Followed:
    """What a statement holds until its end. Nothing rests on a client that polls: whoever waits for it has
    the end found out."""

    __slots__ = ("_wanted", "_watch", "over")

    def __init__(self) -> None:
        self.over = False
        self._wanted = False
        self._watch: Callable[[], None] | None = None

    def follow(self, watch: Callable[[], None]) -> None:
        """Say what begins to find out how the statement ends; it is called once, when somebody waits."""
        self._watch = watch
        if self._wanted and not self.over:
            watch()

    def ask_for_its_end(self) -> None:
        """Have its end found out: somebody waits for it."""
        if not self._wanted:
            self._wanted = True
            if self._watch is not None:
                self._watch()


class HeldLocks(Followed):
    """Names that a statement holds, from before it is forwarded to its end."""

    __slots__ = ("_by", "_expiry", "_locks", "_overtaken", "for_other", "request", "turn", "waited")

    def __init__(
        self,
        locks: CatalogLocks | None,
        request: LockRequest,
        by: int = NOBODY,
        *,
        for_other: bool = False,
    ) -> None:
        """`for_other`: another gateway makes the change."""
        super().__init__()
        self.request = request
        self._by = by
        self._overtaken = False
        self.for_other = for_other
        self.turn: NameTurn | None = None
        """Of a change, among all gateways."""
        self.waited = False
        """Others were in the way: time has gone by since it was asked for."""
        self._locks = locks
        self._expiry: asyncio.TimerHandle | None = None

    @property
    def overtaken(self) -> bool:
        """Names that it was judged by changed before it was known that Spark had analysed it; or may have,
        while this process stood still."""
        if not self.over and self._locks is not None and self._locks.may_be_overtaken(self):
            self._overtaken = True
        return self._overtaken

    def overtake(self) -> None:
        """Have nothing shown of it."""
        self._overtaken = True

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
        if self.turn is not None:
            self.turn.end()

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
        if not before and not self.for_other:
            self._locks.tell_others(self.request)


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

    def __init__(
        self,
        catalog: Catalog | None,
        limits: SessionLimits | None = None,
        *,
        metastore: str = "",
        others: OtherGateways | None = None,
    ) -> None:
        """`metastore`: what other gateways call it; `others`: None where there are none."""
        self.catalogs = [] if catalog is None else [catalog]
        """What is known of the names, of each Spark that has them."""
        self.metastore = metastore
        self.others = others
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
        None. Raises BackendUnavailable where other gateways cannot be told of a change."""
        hold = HeldLocks(self, request, by)
        others = self.others
        if others is None or not (request.shared or request.exclusive):
            return await self.enter(hold, until)
        slept = others.stood_still()
        if slept and not await others.until_awake(until):
            return None
        if request.exclusive:
            hold.turn = await others.take_turn(request.write_names(self.metastore), until)
            if hold.turn is None:
                return None
        held = False
        try:
            # The others are waited for at the same time: they were told already.
            held = await self.enter(hold, until) is not None and (
                hold.turn is None or await hold.turn.wait_for_others(until)
            )
            while held and others.stood_still():  # RULE (paused-not-forwarded)
                slept = True
                held = await others.until_awake(until)
        finally:
            if not held:
                self._let_go(hold)
        if slept or (hold.turn is not None and hold.turn.waited):
            hold.waited = True
        return hold if held else None

    async def enter(self, hold: HeldLocks, until: float | None) -> HeldLocks | None:
        """Hold names in this gateway; None when the loop's clock says `until` before, and nothing is held."""
        request = hold.request
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

    def may_be_overtaken(self, hold: HeldLocks) -> bool:
        """Whether other gateways may have changed what a statement that only reads was judged by."""
        others = self.others
        return others is not None and hold.request.read_only and others.may_be_overtaken()

    def overtake_reads(self) -> None:
        """Have nothing shown of statements that Spark may not have analysed yet."""
        reads = [hold for hold in self._holds if hold.request.read_only]
        for hold in reads:
            hold.overtake()
            self._take_out(hold)
        self._serve()
        _log.info("reads_overtaken", count=len(reads))

    def tell_others(self, request: LockRequest) -> None:
        """Tell other gateways what a statement has changed that they did not hold for it."""
        if self.others is not None and not request.exclusive and (request.changes or request.rewritten):
            self.others.tell_changed({"metastore": self.metastore, "changes": request.write_changes()})

    # -- inside ------------------------------------------------------------------------------------------

    def _let_go(self, hold: HeldLocks) -> None:
        """Let go of a hold by which nothing was done."""
        hold.over = True
        self.release_hold(hold)
        if hold.turn is not None:
            hold.turn.end()

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
            hold.overtake()
            self._take_out(hold)
        _log.info("reads_overtaken", count=len(conflicting))
        self._serve()
