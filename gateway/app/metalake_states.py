"""What a gateway has of its metalakes, by its files: for commands beside it."""

from __future__ import annotations

from gateway.app.combining import Part
from gateway.app.explaining import minor_of_spark
from gateway.app.metalakes import Metalakes, MetalakeState
from gateway.model.spark_minors import Minor
from gateway.settings import Settings
from gateway.settings.catalogs import CatalogEntry


async def metalake_states(settings: Settings) -> list[tuple[CatalogEntry, MetalakeState]]:
    """Return the entries that are metalakes, with what the gateway has of each, by its files."""
    if not settings.metalakes:
        return []
    metalakes, _ = await kept_metalakes(settings, minor_of_spark(settings))
    states = {state.name: state for state in metalakes.states()}
    return [(entry, states[entry.name]) for entry in settings.catalogs if entry.name in states]


async def kept_metalakes(settings: Settings, minor: Minor) -> tuple[Metalakes, list[Part]]:
    """Return the metalakes as the files of the gateway of these settings hold them, and what policies get of
    each: for a command beside it."""
    metalakes = Metalakes(settings, minor, read_only=True)
    parts: dict[str, Part] = {}

    async def take(name: str, part: Part) -> None:
        parts[name] = part

    await metalakes.start(take)
    return metalakes, list(parts.values())
