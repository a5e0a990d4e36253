"""What a gateway has of its metalakes, by its files: for commands beside it."""

from __future__ import annotations

from gateway.app.explaining import minor_of_spark
from gateway.app.metalakes import MetalakeState, kept_metalakes
from gateway.settings import Settings
from gateway.settings.catalogs import CatalogEntry


async def metalake_states(settings: Settings) -> list[tuple[CatalogEntry, MetalakeState]]:
    """Return the entries that are metalakes, with what the gateway has of each, by its files."""
    if not settings.metalakes:
        return []
    metalakes, _ = await kept_metalakes(settings, minor_of_spark(settings))
    states = {state.name: state for state in metalakes.states()}
    return [(entry, states[entry.name]) for entry in settings.catalogs if entry.name in states]
