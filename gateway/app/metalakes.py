"""The metalakes of the settings, and what a gateway has of them by its files, for commands beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from gateway.app.providers import load_shipped_providers
from gateway.app.revealing import parameters_of
from gateway.catalog.gravitino import GravitinoMetalake
from gateway.catalog.providers import Wishes, is_secret
from gateway.catalog.rest import RestLogin
from gateway.errors import Faults
from gateway.model.metalakes import Metalake
from gateway.model.secret_values import HIDDEN
from gateway.model.spark_minors import NEWEST, Minor, minor_of
from gateway.policy.parts import Part
from gateway.settings.catalogs import CatalogEntry
from gateway.settings.metalakes import MetalakeSettings, metalake_settings
from gateway.settings.models import Settings
from gateway.settings.section import Secret
from gateway.sources.cache import CacheTrouble
from gateway.sources.metalake import Fetch, MetalakeOptions, MetalakeSource, load_cached_metalake
from gateway.sources.metalakes import Metalakes, MetalakeState, PolledMetalake


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

    def lake(entry: CatalogEntry) -> PolledMetalake:
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
        return PolledMetalake(
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
    return Metalakes(lakes, minor, load_shipped_providers(), list_reserved_names(settings), logs=logs)


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


async def metalake_states(settings: Settings) -> list[tuple[CatalogEntry, MetalakeState]]:
    """Return the entries that are metalakes, with what the gateway has of each, by its files."""
    if not settings.metalakes:
        return []
    metalakes, _ = await load_cached_metalakes(settings)
    states = {state.name: state for state in metalakes.states()}
    return [(entry, states[entry.name]) for entry in settings.catalogs if entry.name in states]


async def load_cached_metalakes(settings: Settings) -> tuple[Metalakes, list[Part]]:
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
            found = load_cached_metalake(metalake_path(settings.ledger.directory, entry.name))
            if found is not None and found.minor:
                return minor_of(found.minor)
    return NEWEST


async def fetch_metalake(settings: Settings, minor: Minor, entry: CatalogEntry) -> MetalakeState:
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


def list_reserved_names(settings: Settings) -> frozenset[str]:
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
            raise Faults(["no server is asked"])
        return await client.load_everything(tags=settings.tags, privileges=settings.privileges)

    return fetch


def open_metalake(entry: CatalogEntry) -> GravitinoMetalake:
    """Return the metalake of an entry of type `gravitino`, to be opened. Raises Faults."""
    settings = metalake_settings(entry.catalog.connection_params)

    def login() -> RestLogin:
        return _metalake_login(settings.auth, parameters_of(entry))

    login()  # a secret that is missing is told before anybody is asked
    return GravitinoMetalake(
        settings.uri,
        settings.metalake,
        login,
        timeout_s=settings.timeout_s,
        max_bytes=settings.max_bytes,
    )


def _metalake_login(auth: str, given: Mapping[str, str]) -> RestLogin:
    match auth:
        case "none":
            return RestLogin()
        case "simple":
            # Gravitino's simple login: a user by name, whose password is not looked at.
            return RestLogin(user=given.get("user", "sluice"), password="dummy")  # noqa: S106
        case "basic":
            return RestLogin(user=given.get("user", ""), password=given.get("password", ""))
        case _:
            url, path = given.get("oauth2-server-uri", ""), given.get("oauth2-token-path", "")
            return RestLogin(
                token_url=f"{url.rstrip('/')}/{path.lstrip('/')}" if path else url,
                credential=given.get("credential", ""),
                scope=given.get("scope", ""),
            )
