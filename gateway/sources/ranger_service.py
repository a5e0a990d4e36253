"""Keeps one Ranger service as its Admin has it: downloads what is newer, offers it, keeps what was taken.

What the Admin sends is put in force only when all of it is understood and whoever it is offered to has taken
it. Until then, and whenever the Admin is away, what was good last stays, for `max_stale_s` seconds at most.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from random import Random

import structlog

from gateway.errors import Faults
from gateway.model.policy import ServiceDef
from gateway.sources.backoff import Backoff
from gateway.sources.cache import Cache, CacheTrouble
from gateway.sources.ranger_client import (
    DownloadedBody,
    DownloadKind,
    Gone,
    NoAnswer,
    RangerClient,
    Unchanged,
)
from gateway.sources.ranger_content import (
    NO_VERSION,
    CachedService,
    Conversion,
    Copies,
    Copy,
    DeltaRefused,
    build_empty_sharing,
    check_name,
    copy_of,
    read_answer,
    where,
)

log = structlog.get_logger(__name__)

ROUNDS = (
    (DownloadKind.ROLES, DownloadKind.POLICIES),
    (DownloadKind.TAGS,),
    (DownloadKind.USERS,),
    (DownloadKind.SHARING,),
)
"""Kinds that are asked for together, in order. Roles come right before policies: a policy must not meet
roles older than those it was written for."""
_Round = tuple[DownloadKind, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """One service of an Admin, and how it is kept."""

    name: str
    definition: ServiceDef
    """Stands for the service's own while nothing has been loaded, and nothing is allowed."""
    policies_s: float = 30.0
    """Seconds between questions for policies and roles."""
    tags_s: float | None = 60.0
    """None: tags are never asked for, and tag policies hold for nothing."""
    users_s: float | None = 3600.0
    """None: users are never asked for."""
    sharing_s: float | None = 60.0
    """None: data sharing is never asked for, and nothing is shared."""
    max_stale_s: float = 86_400.0
    """Seconds for which policies stay in force without being confirmed."""
    deltas: bool = True
    groups_from_users: bool = False
    """Whether the memberships of the user store count beside those of the login."""


Offer = Callable[[CachedService], Awaitable[None]]
"""Puts what is held in force, or raises Faults and changes nothing."""


class RangerService:
    """One service: `start` once, then `run`. All happens in one task, so there is one change at a time."""

    def __init__(
        self,
        options: ServiceOptions,
        client: RangerClient,
        offer: Offer,
        *,
        cache: Cache | None = None,
        definitions: Mapping[str, ServiceDef] | None = None,
        quiet: Callable[[], AbstractContextManager[None]] = nullcontext,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Random | None = None,
    ) -> None:
        """`quiet` is entered around work that makes many objects, to keep the garbage collector away."""
        self._options = options
        self._client = client
        self._offer = offer
        self._cache = cache
        self._quiet = quiet
        self._clock = clock
        self._wall_clock = wall_clock
        self._sleep = sleep
        self._conversion = Conversion(
            options.name, options.definition, definitions or {}, adds_groups=options.groups_from_users
        )
        self._copies: dict[DownloadKind, Copy] = {}
        intervals = (options.policies_s, options.tags_s, options.users_s, options.sharing_s)
        random = random or Random()  # noqa: S311 - spreads questions over time, guards nothing
        self._waits = {
            round_: Backoff(interval, random)
            for round_, interval in zip(ROUNDS, intervals, strict=True)
            if interval is not None
        }
        self._due = dict.fromkeys(self._waits, clock())
        self._wanted = asyncio.Event()
        self._confirmed: dict[DownloadKind, float] = {}
        """When the Admin last said that what is in force is the newest, by `clock`."""
        self._whole_next: set[DownloadKind] = set()
        """Kinds whose last delta could not be taken."""
        self._troubles: dict[DownloadKind, tuple[str, ...]] = {}
        self._cache_trouble = ""
        self._failing: set[DownloadKind] = set()
        """Kinds that failed in the look that is under way."""
        self._gone = False
        self._forgotten = False
        self._activated_ms = 0
        self.held = self._conversion.empty()
        """What was taken last."""

    # -- what others ask -------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The service's name at its Admin."""
        return self._options.name

    @property
    def troubles(self) -> tuple[str, ...]:
        """What went wrong at the last try of each kind; empty while all is well."""
        found = [text for texts in self._troubles.values() for text in texts]
        return tuple(dict.fromkeys([*found, self._cache_trouble] if self._cache_trouble else found))

    @property
    def contact_age_s(self) -> float | None:
        """Seconds since the Admin last confirmed all that is in force; None when it never has."""
        confirmed = [self._confirmed.get(kind) for kind in self._list_needed_kinds()]
        known = [at for at in confirmed if at is not None]
        return max(0.0, self._clock() - min(known)) if len(known) == len(confirmed) else None

    def stale(self) -> str | None:
        """Return why nothing may be judged by this service now, or None."""
        if self._gone and self.held.versions:
            return f"the Ranger Admin no longer has service `{self.name}`"
        age, limit = self.contact_age_s, self._options.max_stale_s
        if age is None:
            missing = " and ".join(k.value for k in self._list_needed_kinds() if k not in self._confirmed)
            return f"{missing} of service `{self.name}` have never been loaded from a Ranger Admin"
        if age <= limit:
            return None
        return (
            f"the policies of service `{self.name}` were last confirmed by a Ranger Admin "
            f"{round(age)} seconds ago; the limit is {limit:g}"
        )

    # -- the task --------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take what the cache holds, then ask the Admin once. Whatever they say, this does not raise."""
        await self._safely(self._take_cache)
        await self._safely(self.look)

    async def run(self) -> None:
        """Ask whenever something is due, until cancelled."""
        while True:
            await self._until_due()
            await self._safely(self.look)

    def look_now(self) -> None:
        """Have everything asked for again at once: somebody says that it has changed."""
        self._due = dict.fromkeys(self._due, self._clock())
        self._wanted.set()

    async def _until_due(self) -> None:
        sleeping = asyncio.ensure_future(self._sleep(max(0.0, self.next_s())))
        wanted = asyncio.ensure_future(self._wanted.wait())
        try:
            await asyncio.wait((sleeping, wanted), return_when=asyncio.FIRST_COMPLETED)
            if sleeping.done():
                sleeping.result()
        finally:
            sleeping.cancel()
            wanted.cancel()
        self._wanted.clear()

    def next_s(self) -> float:
        """Return the seconds until something is due."""
        return min(self._due[round_] for round_ in self._rounds({})) - self._clock()

    async def _safely(self, work: Callable[[], Awaitable[object]]) -> None:
        try:
            await work()
        except Exception:  # the root of a task: what an Admin sends must not end the gateway
            log.exception("ranger_service_broke", service=self.name)
            for round_, wait in self._waits.items():
                for kind in round_:
                    self._handle_failure(kind, (f"{self.name}: loading it failed; the log has the details",))
                self._due[round_] = self._clock() + wait.record_failure()

    async def look(self) -> bool:
        """Ask for everything that is due; return whether something new is in force."""
        self._failing = set()
        before = dict(self._confirmed)
        due = [round_ for round_, at in self._due.items() if at <= self._clock()]
        changes = await self._ask_all(due)
        if self._gone and not self._forgotten:
            new = await self._forget()
        else:
            taken = await self._take_all(changes)
            new = bool(taken)
            if new or self._confirmed != before:
                await self._keep(taken)
        for round_ in set(due) & set(self._rounds({})):
            wait = self._waits[round_]
            after = wait.record_failure() if self._failing & set(round_) else wait.record_success()
            self._due[round_] = self._clock() + after
        return new

    async def _ask_all(self, due: list[_Round]) -> dict[DownloadKind, Copy]:
        """Return what is new of everything that is due."""
        changes: dict[DownloadKind, Copy] = {}
        kinds = [kind for round_ in due for kind in round_]
        for number, kind in enumerate(kinds):
            unwanted = self._gone and kind not in ROUNDS[0]
            if unwanted or (kind is DownloadKind.TAGS and not self._has_tag_policies(changes)):
                continue
            try:
                changed = await self._ask(kind)
            except NoAnswer as error:
                # Where nobody speaks the other kinds would only wait for the same silence.
                for other in kinds[number:] if error.silent else (kind,):
                    self._handle_failure(other, (f"Ranger Admin of `{self.name}`: {error.message}",))
                if error.silent:
                    break
            except Faults as error:
                self._handle_failure(kind, error.faults)
            else:
                changes |= {} if changed is None else {kind: changed}
        return {} if self._gone else changes

    # -- asking ----------------------------------------------------------------------------------------------

    async def _ask(self, kind: DownloadKind) -> Copy | None:
        """Return what is new, None when nothing is. Raises NoAnswer, Faults."""
        own = self._copies.get(kind, Copy())
        whole = kind in self._whole_next or own.content is None
        self._whole_next.discard(kind)
        answer = await self._client.ask(
            kind,
            NO_VERSION if whole else own.version,
            deltas=self._options.deltas and not whole,
            activated_ms=self._activated_ms,
        )
        if kind is DownloadKind.POLICIES:
            self._gone = isinstance(answer, Gone)
            self._forgotten = self._forgotten and self._gone
        at = where(self.name, kind)
        match answer:
            case DownloadedBody(content):
                return await self._read(kind, content, own)
            case Gone() if kind is DownloadKind.POLICIES:
                self._confirmed[kind] = self._clock()
                return None
            case Gone() if kind is DownloadKind.SHARING and own.version == NO_VERSION:
                # An older Admin has no such address: nothing is shared, and that is remembered.
                self._handle_success(kind)
                return None if own.content is not None else build_empty_sharing(self.name)
            case Unchanged() if own.version == NO_VERSION and (
                own.content is None or kind is DownloadKind.SHARING
            ):
                # An Admin that is busy says so too, and then there may be some.
                raise Faults(
                    [f"{at}: the Ranger Admin returns 304 (not modified) without an earlier download"]
                )
            case Gone() if own.content is not None:
                raise Faults([f"{at}: the Ranger Admin no longer has them (404)"])
            case Gone() if kind is DownloadKind.TAGS:
                raise Faults([f"{at}: there are tag policies, but the Ranger Admin has no tags (404)"])
        self._handle_success(kind)
        return None

    async def _read(self, kind: DownloadKind, content: bytes, own: Copy) -> Copy | None:
        try:
            with self._quiet():
                changed = await asyncio.to_thread(read_answer, kind, content, own, self.name)
        except DeltaRefused:
            self._whole_next.add(kind)
            raise
        if changed is None:
            self._handle_success(kind)
        return changed

    # -- taking ----------------------------------------------------------------------------------------------

    async def _take_all(self, changes: Copies) -> list[DownloadKind]:
        """Take the changes together or, when that is refused, each that can be taken by itself."""
        if not changes:
            return []
        faults = await self._take(changes)
        if not faults:
            return list(changes)
        if len(changes) == 1:
            self._handle_refused(next(iter(changes)), faults)
            return []
        taken = []
        for kind, copy in changes.items():
            faults = await self._take({kind: copy})
            if faults:
                self._handle_refused(kind, faults)
            else:
                taken.append(kind)
        return taken

    async def _take(self, changes: Copies) -> tuple[str, ...]:
        """Put the changes in force; return the faults that forbid it."""
        copies = self._copies | dict(changes)
        try:
            with self._quiet():
                held = await asyncio.to_thread(self._conversion.build_content, copies)
                await self._offer(held)
        except Faults as error:
            return error.faults
        self._copies, self.held = copies, held
        self._activated_ms = round(self._wall_clock() * 1000)
        for kind in changes:
            self._handle_success(kind)
        versions = {kind.value: version for kind, version in held.versions.items()}
        log.info("ranger_service_in_force", service=self.name, versions=versions)
        return ()

    async def _forget(self) -> bool:
        """The Admin does not know the service: nothing is allowed any more, and nothing is kept."""
        self._troubles = {DownloadKind.POLICIES: (f"the Ranger Admin has no service `{self.name}` (404)",)}
        log.error("ranger_service_gone", service=self.name)
        self._copies = {}
        held = self._conversion.empty(self.held.service.definition)
        await self._offer(held)
        self.held = held
        self._forgotten = True
        # When the service is there again, all of it is asked for in one look.
        self._confirmed = {DownloadKind.POLICIES: self._clock()}
        self._due = dict.fromkeys(self._waits, self._clock())
        if self._cache is not None:
            await self._on_disk(self._cache.set_aside, self._wall_clock())
        return True

    # -- the cache -------------------------------------------------------------------------------------------

    async def _take_cache(self) -> None:
        cache = self._cache
        if cache is None:
            return

        def read(kind: DownloadKind) -> Copy | None:
            content = cache.read(kind)
            if content is None:
                return None
            check_name(kind, content, self.name)
            return copy_of(kind, content, self.name)

        found: dict[DownloadKind, Copy] = {}
        for kind in [kind for round_ in self._waits for kind in round_]:
            try:
                with self._quiet():
                    copy = await asyncio.to_thread(read, kind)
            except (CacheTrouble, Faults) as error:
                self._cache_failed(f"{cache.path(kind)} is not used: {error.message}")
            else:
                found |= {} if copy is None else {kind: copy}
        if DownloadKind.POLICIES not in found:
            return
        faults = await self._take(found)
        if faults:
            self._cache_failed(f"{cache.path(DownloadKind.POLICIES)} is not used: {'; '.join(faults)}")
            return
        await self._date(cache, found)

    async def _date(self, cache: Cache, found: Copies) -> None:
        """Let what came from the cache be as old as it is."""
        try:
            contact = await asyncio.to_thread(cache.read_contact, found)
        except CacheTrouble as error:
            self._cache_failed(error.message)
            contact = await asyncio.to_thread(cache.file_times, found)
        now, wall = self._clock(), self._wall_clock()
        self._confirmed = {}
        for kind, at in contact.items():
            if at > wall:
                log.warning("ranger_cache_from_the_future", service=self.name, seconds=round(at - wall))
            self._confirmed[kind] = now - max(0.0, wall - at)
        self._due = dict.fromkeys(self._waits, now)

    async def _keep(self, taken: list[DownloadKind]) -> None:
        """Write what was taken, and when the Admin was last heard."""
        cache = self._cache
        if cache is None or DownloadKind.POLICIES not in self._copies:
            return
        self._cache_trouble = ""
        for kind in taken:
            content = self._copies[kind].content
            if content is not None:
                await self._on_disk(cache.write, kind, content)
        now, wall = self._clock(), self._wall_clock()
        contact = {kind: wall - (now - at) for kind, at in self._confirmed.items()}
        await self._on_disk(cache.write_contact, contact)

    async def _on_disk(self, work: Callable[..., None], *arguments: object) -> None:
        try:
            await asyncio.to_thread(work, *arguments)
        except CacheTrouble as error:
            self._cache_failed(error.message)

    def _cache_failed(self, trouble: str) -> None:
        if trouble != self._cache_trouble:
            log.error("ranger_cache_trouble", service=self.name, trouble=trouble)
        self._cache_trouble = trouble

    # -- times -----------------------------------------------------------------------------------------------

    def _rounds(self, changes: Copies) -> list[_Round]:
        """Return the rounds that there are now: tags are asked for only while there are policies on them,
        and only policies while the Admin knows no such service."""
        if self._gone:
            return [ROUNDS[0]]
        return [r for r in self._waits if DownloadKind.TAGS not in r or self._has_tag_policies(changes)]

    def _list_needed_kinds(self) -> list[DownloadKind]:
        """Return the kinds without which nothing can be judged."""
        if self._gone:
            return [DownloadKind.POLICIES]
        asking = (self._copies.get(kind, Copy()) for kind in (DownloadKind.POLICIES, DownloadKind.SHARING))
        users = self._options.groups_from_users or any(copy.attributes for copy in asking)
        kinds = [kind for round_ in self._rounds({}) for kind in round_]
        return [kind for kind in kinds if kind is not DownloadKind.USERS or users]

    def _has_tag_policies(self, changes: Copies) -> bool:
        copy = changes.get(DownloadKind.POLICIES) or self._copies.get(DownloadKind.POLICIES)
        return copy is not None and bool((copy.content or {}).get("tagPolicies"))

    def _handle_success(self, kind: DownloadKind) -> None:
        self._confirmed[kind] = self._clock()
        if self._troubles.pop(kind, None):
            log.info("ranger_well_again", service=self.name, kind=kind.value)

    def _handle_failure(self, kind: DownloadKind, faults: tuple[str, ...]) -> None:
        self._failing.add(kind)
        if self._troubles.get(kind) != faults:
            told = {"kind": kind.value, "faults": len(faults), "first": faults[0]}
            log.error("ranger_trouble", service=self.name, **told)
        self._troubles[kind] = faults

    def _handle_refused(self, kind: DownloadKind, faults: tuple[str, ...]) -> None:
        """What came cannot be taken; if it came as a delta, the whole may do."""
        self._whole_next.add(kind)
        self._handle_failure(kind, faults)
