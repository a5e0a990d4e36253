"""Names of the catalog that one of several gateways changes: all others hold them meanwhile.

A gateway that is about to change names writes a row. The others hold the names for it, forget what they know
of them, and say so; only then does it go on. When the row is gone they forget once more and let go. Rows say
what holds, notifications only that there is something to read: one that is lost costs a second.

A gateway that gives no sign of life for `LEASE_S` is not waited for, and goes by nothing that it knew when it
comes back.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import orjson
import structlog

from gateway.database import asking
from gateway.database.connections import open_connection
from gateway.errors import BackendUnavailable

_log = structlog.get_logger(__name__)

LISTENER = "sluice-names "
"""Before the gateway's name, what PostgreSQL knows its connection by."""
HOLDS = "sluice_name_holds"
"""Told when a hold comes, is taken or goes."""
CHANGED = "sluice_names_changed"
"""Told of changes after which names mean what they did, and rows or files are others."""
POLICIES_CHANGED = "sluice_policies_changed"
"""Told when policies change that a gateway keeps in the database."""
LOOK_S = 1.0
"""Seconds between signs of life, and between two tries to connect."""
ANSWER_S = 2.0
"""Seconds that PostgreSQL gets for each answer."""
LEASE_S = 10.0
"""Seconds without a sign of life after which a gateway is not waited for; it stops going by what it knew
before that, since it counts from before it gave the sign."""
GONE_S = 30.0
"""Seconds after which names are let go that a gateway without a sign of life was changing."""
FORGOTTEN = "1 hour"
"""After this a gateway that was not seen is unknown."""
MAX_NAMES = 200
"""Names of one hold; of more, the databases are held, and beyond as many databases all changes wait."""
MAX_PAYLOAD = 4000
"""Bytes of a notification; PostgreSQL takes 8,000. Of what is longer others are told to forget everything."""
EVERYTHING = ""
"""Stands for names that are not told: others forget all."""
_TURN = 0x736C_7569_6365_4E
"""Key of the advisory lock under which holds are written (`sluiceN` in ASCII)."""
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_WAITS = """
SELECT EXISTS (SELECT FROM sluice.gateway g
  WHERE g.gateway <> $1 AND g.seen_at > clock_timestamp() - make_interval(secs => $2)
  AND NOT EXISTS (SELECT FROM sluice.name_hold_taken t WHERE t.hold = $3 AND t.gateway = g.gateway))"""
_BEAT = """
WITH alive AS (UPDATE sluice.gateway SET seen_at = clock_timestamp() WHERE gateway = $1)
SELECT gateway, NULL::uuid AS id, NULL::jsonb AS body FROM sluice.gateway
WHERE gateway <> $1 AND seen_at > clock_timestamp() - make_interval(secs => $2)
UNION ALL SELECT gateway, id, body FROM sluice.name_hold WHERE gateway <> $1"""

_Json = dict[str, Any]


def _clock() -> float:
    """Count also while the machine is suspended."""
    return time.clock_gettime(_CLOCK)


class HeldForOther(Protocol):
    """Names that are held here for another gateway."""

    def release(self) -> None: ...


class NameKeeper(Protocol):
    """What this gateway knows of names, and who uses them in it."""

    async def hold(self, names: Mapping[str, Any]) -> HeldForOther:
        """Hold names for another gateway as soon as nobody here uses them, and forget what is known of
        them."""

    def note_changed(self, names: Mapping[str, Any]) -> None:
        """Note that others have changed rows or files behind names."""

    def forget(self) -> None:
        """Forget everything that is known of names."""

    def overtake_reads(self) -> None:
        """Have nothing shown of statements that Spark may not have analysed yet."""


class Turn:
    """The right of this gateway to change some names, until `end`."""

    def __init__(self, names: NameHolds | None, hold: uuid.UUID, *, waited: bool) -> None:
        self._names = names
        self._hold = hold
        self.waited = waited
        """Whether others changed some of the names before."""

    async def wait_for_others(self, until: float) -> bool:
        """Wait until all other gateways hold the names; False when the loop's clock says `until` before.
        Raises BackendUnavailable."""
        return self._names is None or await self._names.wait_until_taken(self._hold, until)

    def end(self) -> None:
        """Let the others go on."""
        if self._names is not None:
            self._names.end(self._hold)


class NameHolds:
    """Holds of one gateway, and those of the others as far as they concern it."""

    def __init__(
        self,
        dsn: str,
        gateway: str,
        keeper: NameKeeper,
        policies_changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`policies_changed` is called when policies in the database may have changed."""
        self._policies_changed = policies_changed
        self._dsn = dsn
        self._gateway = gateway
        self._keeper = keeper
        self._connection: Any = None
        """None while PostgreSQL is away."""
        self._asking = asyncio.Lock()
        """One question at a time."""
        self._wanted = asyncio.Event()
        self._news = asyncio.Event()
        """Another one after each piece of news."""
        self._others: frozenset[str] | None = None
        """Those that live, as last seen; None until they were asked for."""
        self._looked_at = self._confirmed_at = _clock()
        self._held: dict[uuid.UUID, HeldForOther] = {}
        self._holding: dict[uuid.UUID, asyncio.Task[None]] = {}
        self._taken: set[uuid.UUID] = set()
        """Holds of which the others know that this gateway has them."""
        self._ended: set[uuid.UUID] = set()
        """Rows of this gateway's own that are to go."""
        self._untold: list[str] = []
        self._running: asyncio.Task[None] | None = None

    @property
    def others(self) -> Collection[str]:
        """The other gateways that live, as last seen."""
        return self._others or ()

    @property
    def connected(self) -> bool:
        """Whether the others are heard."""
        return self._connection is not None

    def stood_still(self) -> bool:
        """Whether this process stood still for so long that others no longer wait for it: what it knows of
        names may be wrong, and nothing is forwarded by it before `until_awake`."""
        return _clock() - self._looked_at > LEASE_S

    def may_be_overtaken(self) -> bool:
        """Whether it stood still, and others may have changed names meanwhile that were in use here."""
        return self.stood_still() and self._others != frozenset()

    async def until_awake(self, until: float) -> bool:
        """Wait until everything is forgotten that was known before; False when the loop's clock says `until`
        before."""
        while self.stood_still():
            if not await self._wait_for_news(until):
                return False
        return True

    # -- changing names --------------------------------------------------------------------------------------

    async def take_turn(self, names: Mapping[str, Any], until: float) -> Turn | None:
        """Have the others hold names; None when the loop's clock says `until` before. Raises
        BackendUnavailable when they cannot be told."""
        if self._connection is None and self._others is not None and not self._others:
            return Turn(None, uuid.UUID(int=0), waited=False)
        names = limit_names(names)
        hold, waited, news = uuid.uuid4(), False, self._news
        while not await self._try_turn(hold, names):
            waited = True
            if not await self._wait_for_news(until, news):
                return None
            news = self._news
        return Turn(self, hold, waited=waited)

    async def _try_turn(self, hold: uuid.UUID, names: _Json) -> bool:
        try:
            async with self._asking:
                connection = self._require_connection()
                async with connection.transaction():
                    await connection.execute("SELECT pg_advisory_xact_lock($1)", _TURN)
                    rows = await connection.fetch("SELECT body FROM sluice.name_hold")
                    if any(conflict(names, orjson.loads(row["body"])) for row in rows):
                        return False  # RULE (one-change-at-a-time)
                    self._ended.add(hold)  # should it be written, and its answer be lost
                    await connection.execute(
                        "INSERT INTO sluice.name_hold (id, gateway, body) VALUES ($1, $2, $3)",
                        *(hold, self._gateway, _text(names)),
                    )
                    await _notify(connection)
                self._ended.discard(hold)
        except asking.TROUBLE as error:
            raise _cannot_tell() from error
        return True

    async def wait_until_taken(self, hold: uuid.UUID, until: float) -> bool:
        """Wait until all others that live have taken a hold; False when the loop's clock says `until`
        before."""
        while True:
            news = self._news
            try:
                async with self._asking:
                    waits = await self._require_connection().fetchval(
                        _WAITS,
                        *(self._gateway, LEASE_S, hold),
                    )
            except asking.TROUBLE as error:
                raise _cannot_tell() from error
            if not waits:  # RULE (others-hold-names)
                return True
            if not await self._wait_for_news(until, news):
                return False

    def end(self, hold: uuid.UUID) -> None:
        """Have the others let go."""
        self._ended.add(hold)
        self._wanted.set()

    def tell_changed(self, names: Mapping[str, Any]) -> None:
        """Tell the others that rows or files behind names are others."""
        if self._others == frozenset():
            return
        self._untold.append(_payload(names))
        if len(self._untold) > MAX_NAMES:
            self._untold = [EVERYTHING]
        self._wanted.set()

    # -- the others' changes ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to follow the others, and wait until they have been seen; not for long, should PostgreSQL be
        away."""
        self._running = asyncio.create_task(self._run())
        until = asyncio.get_running_loop().time() + 2 * ANSWER_S
        while self._others is None and await self._wait_for_news(until):
            pass

    async def run(self) -> None:
        """Go on until cancelled. Raises what ends following the others."""
        if self._running is not None:
            await self._running

    async def _run(self) -> None:
        is_told = False
        try:
            while True:
                try:
                    connection = await open_connection(
                        self._dsn, LISTENER + self._gateway, connect_s=ANSWER_S, command_s=ANSWER_S
                    )
                    try:
                        await self._join(connection)
                        is_told = False
                        await self._serve()
                    finally:
                        self._connection = None
                        connection.terminate()
                except asking.TROUBLE as error:
                    if not is_told:
                        _log.warning("other_gateways_not_heard", error=str(error) or type(error).__name__)
                    is_told = True
                self._note_look()
                if self._is_not_waited_for():
                    self._keeper.forget()  # RULE (cut-off-forgets)
                await asyncio.sleep(LOOK_S)
        finally:
            for task in self._holding.values():
                task.cancel()

    async def leave(self) -> None:
        """Have nobody wait for this gateway any more: it forwards nothing from here on."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        try:
            async with asyncio.timeout(ANSWER_S):
                connection = await open_connection(self._dsn, "sluice-leaving", command_s=ANSWER_S)
                await connection.execute("DELETE FROM sluice.name_hold WHERE gateway = $1", self._gateway)
                await connection.execute("DELETE FROM sluice.gateway WHERE gateway = $1", self._gateway)
                await _notify(connection)
                connection.terminate()
        except asking.TROUBLE as error:
            _log.info("other_gateways_not_told", error=str(error) or type(error).__name__)

    async def _join(self, connection: Any) -> None:
        await connection.add_listener(HOLDS, self._handle_news)
        await connection.add_listener(CHANGED, self._handle_change)
        await connection.add_listener(POLICIES_CHANGED, lambda *_: self._policies_changed())
        await self._say_alive(connection)
        if self._others is None:
            # What it was changing when it was killed, Spark may still be changing.
            await connection.execute(
                "UPDATE sluice.name_hold SET gateway = gateway || ' before' WHERE gateway = $1", self._gateway
            )
        # What was said before was not heard.
        self._keeper.forget()  # RULE (missed-notifications)
        self._policies_changed()
        self._connection = connection
        await self._beat()

    async def _serve(self) -> None:
        while True:
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()
            await self._beat()

    async def _beat(self) -> None:
        """Give a sign of life, and bring this gateway's holds and PostgreSQL's to the same."""
        sent = _clock()
        async with self._asking:
            connection, stood_still = self._connection, self.stood_still()
            if stood_still:
                await self._say_alive(connection)
            elif not self._taken.issuperset(self._held) or self._ended or self._untold:
                await self._tell(connection)
            rows = await connection.fetch(_BEAT, self._gateway, LEASE_S)
            before, self._others = (
                self._others,
                frozenset(row["gateway"] for row in rows if row["id"] is None),
            )
        if stood_still and (before or self._others):
            self._forget_after_pause()
        holds = [row for row in rows if row["id"] is not None]
        if any(row["gateway"] not in self._others for row in holds):
            async with self._asking:
                await self._remove_left(connection)
        self._reconcile(holds)
        # Those that begin to be held stand in the queue before anybody who waits for this.
        await asyncio.sleep(0)
        self._confirmed_at = sent
        self._looked_at = sent
        self._tell_here()

    async def _say_alive(self, connection: Any) -> None:
        await connection.execute(
            "INSERT INTO sluice.gateway VALUES ($1, clock_timestamp())"
            " ON CONFLICT (gateway) DO UPDATE SET seen_at = excluded.seen_at",
            self._gateway,
        )
        await connection.execute(
            "DELETE FROM sluice.gateway WHERE seen_at < now() - $1::text::interval", FORGOTTEN
        )

    async def _tell(self, connection: Any) -> None:
        untold, ended = list(self._untold), list(self._ended)
        held = [hold for hold in self._held if hold not in self._taken]
        async with connection.transaction():
            await connection.execute(
                "INSERT INTO sluice.name_hold_taken SELECT id, $2 FROM sluice.name_hold WHERE id = ANY($1)"
                " ON CONFLICT DO NOTHING",
                *(held, self._gateway),
            )
            await connection.execute("DELETE FROM sluice.name_hold WHERE id = ANY($1)", ended)
            for payload in untold:
                await connection.execute("SELECT pg_notify($1, $2)", CHANGED, payload)
            await _notify(connection)
        self._taken.update(held)
        self._ended.difference_update(ended)
        del self._untold[: len(untold)]

    async def _remove_left(self, connection: Any) -> None:
        """Remove the holds of gateways that are gone, some time after their last sign of life."""
        await connection.execute(
            "DELETE FROM sluice.name_hold h WHERE taken_at < clock_timestamp() - make_interval(secs => $1)"
            " AND NOT EXISTS (SELECT FROM sluice.gateway g WHERE g.gateway = h.gateway"
            " AND g.seen_at > clock_timestamp() - make_interval(secs => $1))",
            GONE_S,
        )

    def _reconcile(self, rows: Sequence[Any]) -> None:
        there = {row["id"]: row["body"] for row in rows}
        for hold in [*self._holding]:
            if hold not in there:
                self._holding.pop(hold).cancel()
        for hold in [*self._held]:
            if hold not in there:
                self._held.pop(hold).release()
                self._taken.discard(hold)
        for hold, body in there.items():
            if hold not in self._held and hold not in self._holding:
                self._holding[hold] = asyncio.create_task(self._hold(hold, orjson.loads(body)))

    async def _hold(self, hold: uuid.UUID, names: _Json) -> None:
        try:
            held = await self._keeper.hold(names)
        except (KeyError, TypeError, ValueError):
            # Whoever changes them waits in vain, and changes nothing.
            _log.exception("names_not_held")
            return
        del self._holding[hold]
        self._held[hold] = held
        self._wanted.set()

    def _is_not_waited_for(self) -> bool:
        """Whether others go on without this gateway, should it not be PostgreSQL that is away."""
        lapsed = _clock() - self._confirmed_at > LEASE_S
        return self._others is None or (bool(self._others) and lapsed)

    def _note_look(self) -> None:
        """Note that this process runs."""
        if self.may_be_overtaken():
            self._forget_after_pause()
        self._looked_at = _clock()
        self._tell_here()

    def _forget_after_pause(self) -> None:
        _log.warning("gateway_stood_still")
        self._keeper.overtake_reads()  # RULE (paused-reads-hidden)
        self._keeper.forget()  # RULE (paused-forgets)

    # -- news ------------------------------------------------------------------------------------------------

    def _handle_news(self, connection: Any, pid: int, *_: object) -> None:
        self._tell_here()
        if pid != connection.get_server_pid():
            self._wanted.set()

    def _handle_change(self, connection: Any, pid: int, _channel: str, payload: object) -> None:
        if pid == connection.get_server_pid():
            return
        try:
            self._keeper.note_changed(orjson.loads(str(payload)))
        except (ValueError, TypeError, KeyError):
            self._keeper.forget()

    def _tell_here(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _wait_for_news(self, until: float, news: asyncio.Event | None = None) -> bool:
        """Wait for news, or for a moment; False when the loop's clock is past `until`."""
        now = asyncio.get_running_loop().time()
        if now >= until:
            return False
        try:
            async with asyncio.timeout_at(min(until, now + LOOK_S)):
                await (news or self._news).wait()
        except TimeoutError:
            pass
        return True

    def _require_connection(self) -> Any:
        if self._connection is None:
            raise _cannot_tell()
        return self._connection


def conflict(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two changes have to be made one after the other."""
    if one["metastore"] != other["metastore"]:
        return False
    if one.get("all") or other.get("all"):
        return True
    return _meet(one["exclusive"], [*other["exclusive"], *other["shared"]]) or _meet(
        one["shared"], other["exclusive"]
    )


def _meet(some: Iterable[Sequence[str]], others: Iterable[Sequence[str]]) -> bool:
    return not {tuple(key) for key in some}.isdisjoint(tuple(key) for key in others)


def limit_names(names: Mapping[str, Any]) -> _Json:
    """Return what is to be held for a change, in bounded size: never less than the change says."""
    bounded = dict(names)
    if len(bounded["exclusive"]) + sum(len(one["tables"]) for one in bounded["changes"]) > MAX_NAMES:
        databases = sorted({tuple(key[:2]) for key in bounded["exclusive"]})
        changed = {
            tuple(key[:2]) for one in bounded["changes"] for key in (*one["tables"], *one["databases"])
        }
        changes = [{"tables": [], "databases": [list(key) for key in sorted(changed)], "stays": False}]
        bounded |= {"exclusive": [list(key) for key in databases], "changes": changes}
    if len(bounded["exclusive"]) + len(bounded["shared"]) > MAX_NAMES:
        bounded |= {"shared": [], "all": True}
    return bounded


async def _notify(connection: Any) -> None:
    await connection.execute("SELECT pg_notify($1, '')", HOLDS)


def _payload(names: Mapping[str, Any]) -> str:
    """Return how the others are told that rows or files are others, in bounded size."""
    try:
        text = orjson.dumps(names)
    except TypeError:  # a name that is no Unicode
        return EVERYTHING
    return text.decode() if len(text) <= MAX_PAYLOAD else EVERYTHING  # RULE (payload-bounded)


def _cannot_tell() -> BackendUnavailable:
    return BackendUnavailable(
        "the other gateways cannot be told of the change, because the audit database does not answer; "
        "try again later"
    )


def _text(body: _Json) -> str:
    return orjson.dumps(body).decode()
