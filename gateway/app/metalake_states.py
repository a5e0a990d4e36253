"""What a gateway has of its metalakes, by its files: for commands beside it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from gateway.app.metalakes import metalake_path, metalakes_of
from gateway.model.spark_minors import NEWEST, Minor, minor_of
from gateway.policy.parts import Part
from gateway.settings import Settings
from gateway.settings.catalogs import CatalogEntry
from gateway.sources.cache import CacheTrouble
from gateway.sources.metalake import kept
from gateway.sources.metalakes import Metalakes, MetalakeState


async def metalake_states(settings: Settings) -> list[tuple[CatalogEntry, MetalakeState]]:
    """Return the entries that are metalakes, with what the gateway has of each, by its files."""
    if not settings.metalakes:
        return []
    metalakes, _ = await kept_metalakes(settings)
    states = {state.name: state for state in metalakes.states()}
    return [(entry, states[entry.name]) for entry in settings.catalogs if entry.name in states]


async def kept_metalakes(settings: Settings) -> tuple[Metalakes, list[Part]]:
    """Return the metalakes as the files of the gateway of these settings hold them, for the Spark behind it,
    and what policies get of each: for a command beside it."""
    minor = await asyncio.to_thread(_minor_of_gateway, settings)
    metalakes = metalakes_of(settings, minor, read_only=True)
    parts: dict[str, Part] = {}

    async def take(name: str, part: Part) -> None:
        parts[name] = part

    await metalakes.start(take)
    return metalakes, list(parts.values())


def _minor_of_gateway(settings: Settings) -> Minor:
    """Return the minor of the Spark that the gateway's files are for; the newest where they do not say."""
    for entry in settings.metalakes:
        with suppress(CacheTrouble, ValueError):
            found = kept(metalake_path(settings.ledger.directory, entry.name))
            if found is not None and found.minor:
                return minor_of(found.minor)
    return NEWEST
