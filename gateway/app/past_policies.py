"""Policies as they were at a time, and as they would be with a draft: the ones in force with some of them
exchanged, so that a hundred thousand others are not read again.

Packs are read anew from the texts that were kept of then. Of services that the Ranger-compatible API of this
database holds, what its history has changed since is taken back. Everything else is as it is now, and notes
say so.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import orjson

from gateway.app.rule_files import FILES, LoadedRules, RuleFiles, load_rules
from gateway.app.rules import PolicyRegistry
from gateway.database.migrate import LazyPool
from gateway.database.pack_versions import find_pack_version, load_pack_texts
from gateway.errors import Faults
from gateway.model.policy import Policy, PolicySet, Service
from gateway.model.principal import Principal
from gateway.policy.parts import Part
from gateway.policy.ranger import load
from gateway.settings.models import PolicySettings

MAX_CHANGES = 2_000
"""Policies that may have changed since, in the API's history."""
MAX_PACK_BYTES = 8_000_000
"""All packs together: longer ones take too long to be read for a page."""
_SAMPLE = 20
_CACHED = 4


@dataclass(frozen=True, slots=True)
class OtherPolicies:
    """Policies that are not the ones in force, and what is not as it is asked for."""

    policies: PolicySet
    notes: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    """Cases that would fail."""


class PolicyVersions:
    """Makes PolicySets of other times and of drafts; the last few are kept."""

    def __init__(
        self, registry: PolicyRegistry, settings: PolicySettings, pool: LazyPool, people: Any
    ) -> None:
        """`people` returns those that cases may name."""
        self._registry = registry
        self._settings = settings
        self._pool = pool
        self._people = people
        self._cached: OrderedDict[object, OtherPolicies] = OrderedDict()
        self._turn = asyncio.Lock()
        """One is made at a time: it is work for a thread, and memory."""

    async def find_at(self, at: datetime) -> OtherPolicies:
        """Return the policies of a time. Raises Faults where they cannot be had, and what asyncpg raises."""
        if at >= datetime.now(UTC):
            return OtherPolicies(self._registry.current)
        return await self._remember((self._registry.current.version, at), lambda: self._make_at(at))

    async def try_pack(self, file: str, text: str) -> OtherPolicies:
        """Return the policies with another text of one pack. Raises Faults with all that is wrong with it."""
        key = (self._registry.current.version, file, text)
        return await self._remember(key, lambda: self._make_with_pack(file, text))

    async def try_policy(self, service: str, body: Mapping[str, Any]) -> OtherPolicies:
        """Return the policies with one more policy of a service, in Ranger's JSON, or in the place of the
        one that has its id. Raises Faults with all that is wrong with it."""
        current = self._registry.current
        key = (current.version, service, orjson.dumps(body, option=orjson.OPT_SORT_KEYS))
        return await self._remember(key, lambda: self._make_with_policy(service, body))

    async def _remember(self, key: object, make: Any) -> OtherPolicies:
        async with self._turn:
            found = self._cached.get(key)
            if found is None:
                found = await make()
                self._cached[key] = found
                while len(self._cached) > _CACHED:
                    self._cached.popitem(last=False)
            self._cached.move_to_end(key)
            return found

    # -- another time ----------------------------------------------------------------------------------------

    async def _make_at(self, at: datetime) -> OtherPolicies:
        notes: list[str] = []
        parts: dict[str, Part] = {}
        async with self._pool.acquire() as connection:
            files = await self._find_files(connection, at, notes)
            for source, part in self._list_own_parts():
                changed = await self._find_changed(connection, source, part, at, notes)
                if changed is not None:
                    parts[source] = changed
        if files is not None:
            parts[FILES] = (await self._load(files)).part
        if not parts:
            return OtherPolicies(self._registry.current, tuple(notes))
        return OtherPolicies(await self._registry.propose(parts), tuple(notes))

    async def _find_files(self, connection: Any, at: datetime, notes: list[str]) -> RuleFiles | None:
        now = self._registry.texts
        if now is None or not now.packs:
            return None
        version = await find_pack_version(connection, at)
        if version is None:
            since = await connection.fetchval("SELECT min(seen_at) FROM sluice.pack_version")
            told = f"since {since:%Y-%m-%d %H:%M} UTC" if since is not None else "from now on"
            notes.append(f"packs are kept {told}: those of now are shown")
            return None
        if version.digest == await asyncio.to_thread(lambda: now.digest):
            return None
        texts = await load_pack_texts(connection, version)
        if missing := sorted(version.packs.keys() - texts.keys()):
            notes.append(f"{', '.join(missing)}: only the digest was kept; without them")
        if now.ranger:
            notes.append("files in Ranger's JSON are as they are now")
        return replace(now, packs=texts)

    def _list_own_parts(self) -> list[tuple[str, Part]]:
        found = []
        for entry in self._settings.ranger:
            part = self._registry.part(entry.service)
            if part is not None:
                found.append((entry.service, part))
        return found

    async def _find_changed(
        self, connection: Any, source: str, part: Part, at: datetime, notes: list[str]
    ) -> Part | None:
        service = part.services.get(source)
        if service is None:
            return None
        if not await is_own_service(connection, service):
            notes.append(
                f"the policies of `{source}` come from a Ranger Admin, which alone has their past: they are "
                "as they are now"
            )
            return None
        first = await connection.fetchval("SELECT min(time) FROM sluice.ranger_history")
        if first is not None and first > at:
            notes.append(f"the history of `{source}` begins at {first:%Y-%m-%d %H:%M} UTC")
        rows = await connection.fetch(
            "SELECT DISTINCT ON (object_id) object_id, before FROM sluice.ranger_history"
            " WHERE kind = 'policy' AND service = $1 AND time > $2 ORDER BY object_id, sequence LIMIT $3",
            source,
            at,
            MAX_CHANGES + 1,
        )
        if len(rows) > MAX_CHANGES:
            told = f"more than {MAX_CHANGES:,} policies of `{source}` have changed since {at:%Y-%m-%d}"
            raise Faults([told])
        others = await connection.fetch(
            "SELECT DISTINCT kind FROM sluice.ranger_history"
            " WHERE kind IN ('role', 'zone', 'service', 'tags', 'users') AND time > $1",
            at,
        )
        if others:
            kinds = ", ".join(sorted(row["kind"] for row in others))
            notes.append(f"of the API's {kinds} some have changed since: they are as they are now")
        if not rows:
            return None
        bodies = [orjson.loads(row["before"]) for row in rows if row["before"] is not None]
        return await asyncio.to_thread(
            _with_policies, part, service, bodies, {row["object_id"] for row in rows}
        )

    # -- drafts ----------------------------------------------------------------------------------------------

    async def _make_with_pack(self, file: str, text: str) -> OtherPolicies:
        now = self._registry.texts
        if now is None or (file not in now.packs and now.packs and not _is_new_pack(file, now)):
            raise Faults([f"`{file}` is not one of the packs in force"])
        loaded = await self._load(replace(now, packs={**now.packs, file: text}))
        return OtherPolicies(await self._registry.propose({FILES: loaded.part}), failing=loaded.failing)

    async def _make_with_policy(self, service: str, body: Mapping[str, Any]) -> OtherPolicies:
        part = self._registry.part(service)
        there = None if part is None else part.services.get(service)
        if part is None or there is None:
            raise Faults([f"service `{service}` does not come from a Ranger Admin"])
        number = body.get("id")
        if not isinstance(number, int) or isinstance(number, bool) or number <= 0:
            number = max((one.id for one in there.policies), default=0) + 1
        proposed = {**body, "id": number, "service": service}
        changed = await asyncio.to_thread(_with_policies, part, there, [proposed], {number}, strict=True)
        return OtherPolicies(await self._registry.propose({service: changed}))

    async def _load(self, files: RuleFiles) -> LoadedRules:
        size = sum(map(len, files.packs.values())) + sum(map(len, files.ranger.values()))
        if size > MAX_PACK_BYTES:
            raise Faults(
                [
                    f"the rule files have {size / 1e6:.0f} MB together, too much to be read for a page: use "
                    "`sluice policy diff`"
                ]
            )
        people: Mapping[str, Principal] = self._people()

        def work() -> LoadedRules:
            try:
                return load_rules(files, self._settings, people=people)
            except Faults as strict:
                loaded = load_rules(files, self._settings, people=people, tolerant=True)
                # With cases that fail it can be seen what would be; with any other fault nothing is in force.
                if set(strict.faults) <= set(loaded.failing):
                    return loaded
                raise

        return await asyncio.to_thread(work)


async def is_own_service(connection: Any, service: Service) -> bool:
    """Whether the policies of a service are those that the Ranger-compatible API of this database holds: the
    same service may have another Admin, whose policies have other guids."""
    guids = [policy.guid for policy in service.policies[:_SAMPLE] if policy.guid]
    if not guids:
        return False
    found = await connection.fetchval(
        "SELECT count(*) FROM sluice.ranger_object WHERE kind = 'policy' AND service = $1"
        " AND guid = ANY($2::text[])",
        service.name,
        guids,
    )
    return bool(found)


def _with_policies(
    part: Part, service: Service, bodies: Sequence[Mapping[str, Any]], gone: set[int], *, strict: bool = False
) -> Part:
    """Return a service's part with policies in Ranger's JSON in the places of those with these ids."""
    document = {
        "serviceName": service.name,
        "serviceType": service.definition.name,
        "policies": [
            {key: value for key, value in body.items() if key != "zoneName"}
            for body in bodies
            if body.get("isEnabled") is not False
        ],
    }
    definitions = {service.definition.name: service.definition}
    read = load(document, service_defs=definitions, strict=strict, tolerant=not strict)
    made: tuple[Policy, ...] = read.services[service.name].policies
    zones = {body.get("id"): str(body.get("zoneName") or "") for body in bodies}
    policies = [policy for policy in service.policies if policy.id not in gone]
    policies += [replace(policy, zone=zones.get(policy.id, policy.zone)) for policy in made]
    policies.sort(key=lambda one: one.id)
    changed = replace(service, policies=tuple(policies))
    return replace(part, services={**part.services, service.name: changed})


def _is_new_pack(file: str, files: RuleFiles) -> bool:
    """Whether a file would be a new pack beside those that there are."""
    name = file.rpartition("/")[0]
    return file.endswith((".yaml", ".yml")) and any(one.rpartition("/")[0] == name for one in files.packs)
