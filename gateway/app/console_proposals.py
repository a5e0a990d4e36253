"""What the console's pages of proposals ask: recommendations and their packs, datasets, catalogs, jobs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gateway.admin.requests import NotFound
from gateway.app.console_tools import ConsoleTools
from gateway.app.gateway_parts import GatewayParts
from gateway.app.recommending import edit_pack
from gateway.app.rule_files import is_json, read_texts, rule_paths
from gateway.console.pages import inventory, proposals
from gateway.console.pages.inventory import InventoryPages, ListedCatalog, ScheduledJob
from gateway.console.pages.proposals import ProposalPages, ShownRecommendation, build_recommendation
from gateway.console.routes import ConsoleConflict, ConsolePart
from gateway.errors import Faults
from gateway.files.store import list_datasets
from gateway.jobs.recommending.storing import (
    APPLIED,
    PROPOSED,
    REJECTED,
    decide,
    list_recommendations,
    load_recommendation,
)


def make_parts(parts: GatewayParts, tools: ConsoleTools) -> list[ConsolePart]:
    """Return the pages with what they need."""

    async def datasets(after: tuple[str, str], limit: int) -> Sequence[Mapping[str, Any]]:
        async with tools.pool.acquire() as connection:
            return await list_datasets(connection, after=after, limit=limit)

    def catalogs() -> Sequence[ListedCatalog]:
        speaking = parts.rules.current.catalog_services
        configured = {one.name for one in parts.settings.catalogs}
        return [
            ListedCatalog(name=name, service=service, source=_source_of(name, configured, parts))
            for name, service in sorted(speaking.items())
        ]

    def list_scheduled() -> Sequence[ScheduledJob]:
        return [
            ScheduledJob(name=str(name), schedule=when.cron or f"every {when.every_s:g} s")
            for name, when in parts.settings.jobs.schedule.items()
        ]

    return [
        proposals.part(ProposalPages(tools.pool.acquire, _Recommendations(parts, tools))),
        inventory.part(InventoryPages(tools.pool.acquire, datasets, catalogs, list_scheduled)),
    ]


def _source_of(name: str, configured: set[str], parts: GatewayParts) -> str:
    if name in configured:
        return "`catalogs` of the settings"
    return "`policies.catalogs`" if name in parts.settings.policies.catalogs else "a metalake"


class _Recommendations:
    """Recommendations of the job `recommend`, and the packs that they would change."""

    def __init__(self, parts: GatewayParts, tools: ConsoleTools) -> None:
        self._parts = parts
        self._tools = tools

    async def list_page(
        self, state: str, kind: str, after: tuple[str, int], limit: int
    ) -> Sequence[Mapping[str, Any]]:
        async with self._tools.pool.acquire() as connection:
            return await list_recommendations(
                connection, states=(state,), kind=kind, after=after, limit=limit
            )

    async def _load(self, number: int) -> Mapping[str, Any]:
        async with self._tools.pool.acquire() as connection:
            try:
                return await load_recommendation(connection, number)
            except Faults:
                raise NotFound("there is no such recommendation") from None

    async def show(self, number: int, pack: str) -> ShownRecommendation:
        one = await self._load(number)
        packs = await asyncio.to_thread(self._list_packs)
        chosen = pack or self._find_pack(one, packs)
        if chosen and chosen not in packs:
            raise NotFound("there is no such pack in `policies.paths`")
        diff, faults = "", tuple[str, ...]()
        if chosen and one["state"] == PROPOSED:
            try:
                made = await asyncio.to_thread(
                    edit_pack, self._parts.settings, Path(chosen), one["edits"], one["cases"]
                )
                diff = made.diff
            except Faults as error:
                faults = tuple(error.faults)
        return ShownRecommendation(
            recommendation=build_recommendation(one),
            packs=tuple(packs),
            pack=chosen,
            diff=diff,
            faults=faults,
            writable=bool(chosen) and await asyncio.to_thread(_is_writable, Path(chosen)),
            command=f"sluice recommend apply {number} --pack {chosen or 'FILE'} --write",
        )

    async def apply(self, number: int, pack: str, by: str) -> None:
        """Write a recommendation to its pack. Raises Faults, NotFound, ConsoleConflict."""
        one = await self._load(number)
        packs = await asyncio.to_thread(self._list_packs)
        chosen = pack or self._find_pack(one, packs)
        if chosen not in packs:
            raise NotFound("there is no such pack in `policies.paths`")
        if one["state"] != PROPOSED:
            raise ConsoleConflict(f"the recommendation was {one['state']} by {one['decided_by']}")
        made = await asyncio.to_thread(
            edit_pack, self._parts.settings, Path(chosen), one["edits"], one["cases"]
        )
        async with self._tools.pool.acquire() as connection:
            # As the command does: not written where a run has taken it back meanwhile.
            await decide(connection, [number], APPLIED, by, apply=lambda: asyncio.to_thread(made.write))

    async def reject(self, number: int, by: str) -> None:
        one = await self._load(number)
        async with self._tools.pool.acquire() as connection:
            await decide(connection, [one["id"]], REJECTED, by)

    def _list_packs(self) -> list[str]:
        paths = [path for path in rule_paths(self._parts.settings.policies)[1] if not is_json(path)]
        return sorted(read_texts(paths))

    def _find_pack(self, one: Mapping[str, Any], packs: Sequence[str]) -> str:
        """Return the pack that has the policy that is changed, the only one, or none."""
        names = {edit["policy"] for edit in one["edits"] if isinstance(edit.get("policy"), str)}
        for policy in self._parts.rules.current.policies():
            if policy.name in names and policy.place is not None and policy.place.file in packs:
                return policy.place.file
        return packs[0] if len(packs) == 1 else ""


def _is_writable(file: Path) -> bool:
    target = file.resolve()
    return os.access(target, os.W_OK) and os.access(target.parent, os.W_OK)
