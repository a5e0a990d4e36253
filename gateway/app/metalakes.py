"""The metalakes of the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from gateway.app.opening_metalakes import open_metalake
from gateway.app.providers import shipped_providers
from gateway.catalog.gravitino import GravitinoMetalake
from gateway.catalog.providers import Wishes, is_secret
from gateway.errors import Faults
from gateway.model.metalakes import Metalake
from gateway.model.secret_values import HIDDEN
from gateway.model.spark_minors import Minor
from gateway.policy.parts import Part
from gateway.settings.catalogs import CatalogEntry
from gateway.settings.metalakes import MetalakeSettings, metalake_settings
from gateway.settings.models import Settings
from gateway.settings.section import Secret
from gateway.sources.metalake import Fetch, MetalakeOptions, MetalakeSource
from gateway.sources.metalakes import MetalakeEntry, Metalakes, MetalakeState


def metalakes_of(
    settings: Settings,
    minor: Minor,
    *,
    read_only: bool = False,
    only: CatalogEntry | None = None,
    make_source: Callable[..., MetalakeSource] = MetalakeSource,
) -> Metalakes:
    """Return the metalakes of the settings, for a Spark of this minor.

    `read_only`: files are read and not written, and no server is asked; `only`: one server is asked, and no
    file is read or written. Both are for commands beside the gateway.
    """

    def lake(entry: CatalogEntry) -> MetalakeEntry:
        chosen = metalake_settings(entry.catalog.connection_params)
        client = None if read_only else open_metalake(entry)
        options = MetalakeOptions(
            name=entry.name,
            poll_s=chosen.poll_s,
            max_stale_s=chosen.max_stale_s,
            cache=metalake_path(settings.ledger.directory, entry.name) if only is None else None,
            read_only=read_only,
            asked=f"{chosen.uri} {chosen.metalake} tags={chosen.tags} privileges={chosen.privileges}",
            minor=str(minor),
        )
        return MetalakeEntry(
            name=entry.name,
            service=entry.policies,
            source=make_source(options, _fetch(client, chosen), is_secret=is_secret),
            client=client,
            wishes=_wishes(chosen),
            reveal=lambda catalog: _reveal(entry.name, catalog, chosen.set_parameters),
            tags=chosen.tags,
            owners=chosen.owners,
            privileges=chosen.privileges,
        )

    lakes = [lake(entry) for entry in settings.metalakes if only in (None, entry)]
    logs = only is None and not read_only
    return Metalakes(lakes, minor, shipped_providers(), reserved_names(settings), logs=logs)


def _reveal(metalake: str, catalog: str, own: Mapping[str, Mapping[str, str | Secret]]) -> dict[str, str]:
    shown: dict[str, str] = {}
    for key, value in own.get(catalog.lower(), {}).items():
        if isinstance(value, Secret):
            try:
                shown[key] = value.reveal()
            except Faults as error:
                where = f"catalog `{metalake}`, `set.{catalog}.{key}`"
                raise Faults([f"{where}: {told}" for told in error.faults]) from None
    return shown


async def asked_metalake(settings: Settings, minor: Minor, entry: CatalogEntry) -> MetalakeState:
    """Return what the server of one entry says now; nothing is kept."""
    metalakes = metalakes_of(settings, minor, only=entry)
    try:
        await metalakes.start(_take_nothing)
        return metalakes.states()[0]
    finally:
        await metalakes.close()


async def _take_nothing(_: str, __: Part) -> None:
    return None


def metalake_path(directory: Path, name: str) -> Path:
    """Return the file with the last good answer of a metalake, beside the ledger."""
    return directory / f"metalake_{name.lower()}.json"


def reserved_names(settings: Settings) -> frozenset[str]:
    """Return the first parts of names that mean something already, lower case."""
    named = {*settings.policies.catalogs, *settings.files, "spark_catalog"}
    named |= {entry.name for entry in settings.catalogs if entry.on_spark}
    return frozenset(name.lower() for name in named)


def _wishes(settings: MetalakeSettings) -> Wishes:
    return Wishes(
        own_connectors=settings.own_connectors,
        enabled=settings.enabled,
        set_parameters={
            catalog: {key: HIDDEN if isinstance(value, Secret) else value for key, value in own.items()}
            for catalog, own in settings.set_parameters.items()
        },
    )


def _fetch(client: GravitinoMetalake | None, settings: MetalakeSettings) -> Fetch:
    async def fetch() -> Metalake:
        if client is None:
            raise Faults(["no server is asked here"])
        return await client.everything(tags=settings.tags, privileges=settings.privileges)

    return fetch
