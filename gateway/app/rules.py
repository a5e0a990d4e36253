"""Keeps the policies in force: rule files and Ranger services, each in its last good state, as one PolicySet.

A change that cannot be read leaves what its source had before, for a time. A policy whose text cannot be used
holds nothing back, and closes what it is about; nor does a case that fails: what its file takes away is in
force. The log, `/readyz` and the metrics say so until it is mended. A change is put in force by swapping one
reference.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import structlog

from gateway.app.accepted_tags import build_accepted_part
from gateway.app.closed_policies import ClosedPolicies, ClosedPolicy
from gateway.app.collector_tuning import freeze_survivors, uncollected
from gateway.app.files_at_fault import FileAtFault, FileFaultKind, FilesAtFault
from gateway.app.ranger_services import list_used_services, make_client, make_service, part_of
from gateway.app.rule_files import (
    FILES,
    FilesFingerprint,
    LoadedRules,
    RuleFiles,
    find_shipped_rules,
    fingerprint,
    load_rules,
    read_rules,
    reload_rules,
    rule_paths,
)
from gateway.errors import Faults, UnreadableFiles
from gateway.model.closing import Closing
from gateway.model.policy import Policy, PolicySet
from gateway.model.principal import Principal
from gateway.pipeline.policy_reading import Proofs
from gateway.policy.broken_parts import ROLES, build_invalid_role_policies, close_dependents, describe_role
from gateway.policy.engine import engine_for
from gateway.policy.parts import Part, combine
from gateway.policy.unmatched import names_in
from gateway.policy.unusable import list_invalid_policies, with_closed
from gateway.reader.port import ReaderPort
from gateway.session.settling import wait_until_settled
from gateway.settings.models import PolicySettings, RangerAdminSettings
from gateway.sources.accepted_tags import NAME as ACCEPTED_TAGS
from gateway.sources.accepted_tags import AcceptedList, AcceptedTags
from gateway.sources.ranger_client import RangerClient
from gateway.sources.ranger_content import CachedService
from gateway.sources.ranger_service import Offer, RangerService

__all__ = [
    "PolicyRegistry",
    "SourceState",
    "find_shipped_rules",
    "fingerprint",
    "read_rules",
    "rule_paths",
]

log = structlog.get_logger(__name__)

MAX_REPORTED = 20
"""Warnings of one change that are logged; `sluice check` tells all."""
LARGE = 10_000
"""Policies from which on the garbage collector is kept from them after every change; it would take 10 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """How one source of policies is doing."""

    name: str
    version: int | None
    """Ranger's policy version; None for files, which have none."""
    policies: int
    contact_age_s: float | None
    """Seconds since what is in force was last confirmed; None when it never was."""
    faults: tuple[str, ...]
    """What is wrong now; what is in force is older when there is any."""
    stale: str | None
    """Why nothing may be judged by this source now, or None."""
    closed: tuple[ClosedPolicy, ...] = ()
    """Policies that cannot be loaded."""
    files: tuple[FileAtFault, ...] = ()
    """Files that are not in force as they stand."""


class _Combined(NamedTuple):
    """Sources together, with what is closed of them."""

    policies: PolicySet
    at_fault: list[Policy]
    roles: Sequence[Policy]
    unusable: list[tuple[Policy, str]]


class PolicyRegistry(Closing):
    """The current policies, and the tasks that look for new ones."""

    def __init__(
        self,
        settings: PolicySettings,
        reader: ReaderPort,
        *,
        people: Callable[[], Mapping[str, Principal]] = dict,
        on_change: Callable[[PolicySet], None] = lambda _: None,
        client: Callable[[RangerAdminSettings], RangerClient] = make_client,
        accepted: AcceptedTags | None = None,
        read_only: bool = False,
        speaking: Iterable[str] = (),
        closed: Part | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`accepted`: tags that came along lineage; `read_only`: nothing is written to the caches of Ranger
        services; `speaking`: services that speak for catalogs that come and go; `closed`: sources of
        files whose tables are closed until a policy names them."""
        self._speaking = tuple(speaking)
        self._settings = settings
        self._reader = reader
        self._people = people
        self._on_change = on_change
        self._make_client = client
        self._read_only = read_only
        self._accepted = accepted
        self._clock = clock
        self._seen: FilesFingerprint = ()
        self._at_fault = FilesAtFault(clock)
        self._looking_since_s: float | None = None
        """Set while a look at the files goes on: one that never ends is as good as none."""
        self._closed = ClosedPolicies()
        self._good: RuleFiles | None = None
        """The texts of files that give what is given."""
        self._texts: RuleFiles | None = None
        """Those that are in force, be it only with what they take away."""
        self._parts = {FILES: Part(name=FILES, services={})}
        if closed is not None:
            self._parts[closed.name] = closed
        self._current: PolicySet | None = None
        self._proofs = Proofs()
        self._changing = asyncio.Lock()
        self._clients: list[RangerClient] = []
        self._services: list[RangerService] = []
        self._judging: list[RangerService] = []
        self.faults: tuple[str, ...] = ()
        """What is wrong with the files as they are now; the policies in force are older when there is any."""

    @property
    def current(self) -> PolicySet:
        """The policies in force; `start` first."""
        if self._current is None:
            raise Faults(["no policies have been loaded"])
        return self._current

    def stale(self) -> str | None:
        """Return why no statement may be judged now, or None: a source is older than its limit, or absent."""
        if (why := self._files_stale()) is not None:
            return why
        for service in self._judging:
            why = service.stale()
            if why is not None:
                return why
        return None if self._accepted is None else self._accepted.stale()

    def _files_stale(self) -> str | None:
        most_s = self._settings.files_max_stale_s
        unreadable, whole = (self._at_fault.since_s(kind) for kind in ("unreadable", "whole"))
        # What is told is what is wrong now; the time counts from the first that was.
        why = "has been invalid" if unreadable is None else "could not be read"
        for since_s, told in (
            (self._looking_since_s, "could not be read"),
            (unreadable, why),
            (whole, why),
        ):
            if since_s is not None and self._clock() - since_s > most_s:
                return f"a policy file {told} for {most_s:g} s"
        return None

    def sources(self) -> list[SourceState]:
        files = self._parts[FILES]
        states = [
            SourceState(
                name=FILES,
                version=None,
                policies=_policies(files),
                contact_age_s=None,
                faults=(*self.faults, *self._closed.faults(FILES)),
                stale=self._files_stale(),
                closed=self._closed.of(FILES),
                files=self._at_fault.all,
            )
        ]
        for service in self._services:
            held = service.held.service
            state = SourceState(
                name=service.name,
                version=held.version,
                policies=len(held.policies),
                contact_age_s=service.contact_age_s,
                faults=(*service.troubles, *self._closed.faults(service.name)),
                stale=service.stale(),
                closed=self._closed.of(service.name),
            )
            states.append(state)
        if self._accepted is not None:
            state = SourceState(
                name=ACCEPTED_TAGS,
                version=None,
                policies=0,
                contact_age_s=None,
                faults=(self._accepted.trouble,) if self._accepted.trouble else (),
                stale=self._accepted.stale(),
            )
            states.append(state)
        return states

    # -- life ------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def start(self) -> None:
        """Load the files, then whatever the Ranger services have, from their Admins or their caches.

        Raises Faults for broken files: a gateway does not start on broken rules. A Ranger Admin that is away
        or sends nonsense is no reason not to start: `stale` says what is refused for it.
        """
        self._seen = await asyncio.to_thread(fingerprint, self._settings)
        rules = await self._read_files()
        self._good, self._texts = rules.good, rules.texts
        for entry in self._settings.ranger:
            client = self._make_client(entry)
            self._clients.append(client)
            service = make_service(
                entry, client, self._offer_of(entry), rules.definitions, read_only=self._read_only
            )
            self._services.append(service)
            self._parts[entry.service] = part_of(service.held, entry)
        await self._change(FILES, rules.part)
        if self._accepted is not None:
            await self._accepted.start(self._accept)
        used = list_used_services({*self._settings.catalogs.values(), *self._speaking}, self._settings.ranger)
        self._judging = [service for service in self._services if service.name in used]
        async with asyncio.TaskGroup() as group:
            for service in self._services:
                group.create_task(service.start())

    async def watch(self) -> None:
        """Look for changes until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_files())
            for service in self._services:
                group.create_task(service.run())
            if self._accepted is not None:
                group.create_task(self._accepted.run())

    def look_now(self) -> None:
        """Ask Ranger Admins at once: policies have changed in one that shares this gateway's database."""
        for service in self._services:
            service.look_now()

    async def close(self) -> None:
        """Close connections to Ranger Admins."""
        for client in self._clients:
            await client.close()

    async def _watch_files(self) -> None:
        while True:
            await asyncio.sleep(self._settings.reload_s)
            self._looking_since_s = self._clock()
            try:
                await wait_until_settled(lambda: fingerprint(self._settings), self._seen)
                await self.reload_files()
            except Exception:  # the root of a task: what stands in a file must not end the gateway
                log.exception("rules_broke")
                self._tell({"whole": ("reading the rule files failed; the log has the details",)})
            finally:
                self._looking_since_s = None

    async def reload_files(self) -> bool:
        """Load the files anew when one has changed; return whether new policies are in force."""
        # Taken before the files are read: a change in between is seen at the next look.
        seen = await asyncio.to_thread(fingerprint, self._settings)
        if seen == self._seen:
            return False
        try:
            rules = await self._read_files()
            faults: dict[FileFaultKind, Sequence[str]] = {"whole": rules.held, "cases": rules.failing}
            known = (rules.texts, rules.good) == (self._texts, self._good)
            if not (known and any(faults.values())):
                await self._change(FILES, rules.part)
        except UnreadableFiles as error:
            # Looked at again and again, whatever the fingerprint: who may read a file is not in it.
            self._seen = ()
            self._tell({"unreadable": error.faults})
            return False
        except Faults as error:
            self._seen = seen
            self._tell({"whole": error.faults})
            return False
        except Exception:
            self._seen = seen  # once is enough
            raise
        self._seen, self._texts, self._good = seen, rules.texts, rules.good
        self._tell(faults)
        return not (known and any(faults.values()))

    def _tell(self, found: Mapping[FileFaultKind, Sequence[str]]) -> None:
        """Log why files are not in force as they stand, once for the same faults."""
        self._at_fault.update(found)
        faults = tuple(fault for told in found.values() for fault in told)
        if faults and faults != self.faults:
            log.error("rules_not_loaded", in_force=self.current.version, faults=len(faults), first=faults[0])
        self.faults = faults

    # -- one change at a time --------------------------------------------------------------------------------

    async def _read_files(self) -> LoadedRules:
        good = self._good

        def load() -> LoadedRules:
            read = read_rules(self._settings)
            if good is None:
                return load_rules(read, self._settings, people=self._people())
            return reload_rules(read, self._settings, good, people=self._people())

        # Off the loop: 10,000 policies take seconds to parse.
        with uncollected():
            return await asyncio.to_thread(load)

    def _offer_of(self, entry: RangerAdminSettings) -> Offer:
        async def offer(held: CachedService) -> None:
            await self._change(entry.service, part_of(held, entry))

        return offer

    async def _accept(self, found: AcceptedList) -> None:
        await self._change(ACCEPTED_TAGS, await asyncio.to_thread(build_accepted_part, found))

    @property
    def texts(self) -> RuleFiles | None:
        """The texts of the files that are in force; None before `start`."""
        return self._texts

    def part(self, source: str) -> Part | None:
        """Return what is in force of one source."""
        return self._parts.get(source)

    async def propose(self, parts: Mapping[str, Part]) -> PolicySet:
        """Return what would be in force with these states of sources, and put nothing in force. Raises
        Faults."""
        current = self.current
        together = {**self._parts, **parts}
        with uncollected():
            made = await self._combine(together.values(), current.version, tolerant=True)
            await asyncio.to_thread(engine_for, made.policies, current)
        return made.policies

    async def _combine(self, parts: Iterable[Part], version: int, *, tolerant: bool) -> _Combined:
        policies = await asyncio.to_thread(
            combine, parts, version, self._settings.catalogs, tolerant=tolerant
        )
        roles = build_invalid_role_policies(policies.roles)
        policies = await asyncio.to_thread(_of_both, close_dependents, policies)
        at_fault = await asyncio.to_thread(list_invalid_policies, policies)
        unusable = await self._proofs.unusable(policies, self._reader)
        if not tolerant and unusable:
            raise Faults([fault for _, fault in unusable])
        at_fault += [policy for policy, _ in unusable]
        closed = [
            *at_fault,
            *([] if policies.before is None else list_invalid_policies(policies.before)),
        ]
        if closed:
            # Nothing that was in force before would be opened by what is left out here.
            policies = await asyncio.to_thread(_of_both, lambda one: with_closed(one, closed), policies)
        return _Combined(policies, at_fault, roles, unusable)

    async def replace_part(self, source: str, part: Part) -> None:
        """Put the state of a source in force that is none of these. Raises Faults and changes nothing."""
        await self._change(source, part)

    async def _change(self, source: str, part: Part) -> None:
        """Put a source's new state in force together with the others'. Raises Faults and changes nothing."""
        async with self._changing:
            before = self._current
            # What came last is last: of roles and users that several sources tell, it is the freshest.
            parts = {name: known for name, known in self._parts.items() if name != source} | {source: part}
            with uncollected():
                version = 1 if before is None else before.version + 1
                made = await self._combine(parts.values(), version, tolerant=before is not None)
                policies, at_fault, roles, unusable = made
                # Compiled here, off the loop, and found again when judging begins.
                await asyncio.to_thread(_prepare, policies, before)
                self._proofs.remember(policies)
                if sum(map(_policies, parts.values())) > LARGE:
                    freeze_survivors()
            self._parts = parts
            self._current = policies
            told = [(one, fault) for one in (*at_fault, *roles) for fault in one.broken] + unusable
            self._closed.update([(_source_of(one, parts) or source, one, fault) for one, fault in told])
        log.info("rules_in_force", version=policies.version, source=source, origins=dict(policies.origins))
        for warning in part.warnings[:MAX_REPORTED]:
            log.warning("rules_warning", source=source, warning=warning)
        self._on_change(policies)


def _source_of(policy: Policy, parts: Mapping[str, Part]) -> str | None:
    """Return the source whose service a policy is of, or is on tags for."""
    for name, part in parts.items():
        for service in part.services.values():
            if policy.service in (service.name, service.tags.name if service.tags is not None else None):
                return name
        if policy.service == ROLES and any(policy.name == describe_role(role) for role in part.roles):
            return name
    return None


def _of_both(change: Callable[[PolicySet], PolicySet], policies: PolicySet) -> PolicySet:
    """Return policies changed, and likewise what was in force before them where that holds, too."""
    made = change(policies)
    return made if policies.before is None else replace(made, before=change(policies.before))


def _prepare(policies: PolicySet, before: PolicySet | None) -> None:
    engine_for(policies, before)
    names_in(policies, before)


def _policies(part: Part) -> int:
    return sum(len(service.policies) for service in part.services.values())
