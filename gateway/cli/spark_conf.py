"""What `sluice catalogs spark-conf` prints: what Spark has to know of the catalogs when it starts."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.app.catalogs import connector_settings, list_wished_kinds
from gateway.app.explaining import minor_of_spark
from gateway.app.metalakes import metalake_states
from gateway.app.revealing import reveal_secrets
from gateway.catalog.spark_settings import EXTENSIONS, start_settings
from gateway.errors import Faults, SluiceError
from gateway.model.spark_minors import Minor
from gateway.model.table_formats import APART, BY_EXTENSION, UnsupportedFormat
from gateway.settings import Settings
from gateway.settings.catalogs import CatalogEntry
from gateway.settings.metalakes import metalake_settings


async def spark_conf(
    settings: Settings, entries: Sequence[CatalogEntry]
) -> tuple[dict[str, str], Sequence[str]]:
    """Return the settings of Spark for these entries, secrets as `***`, and what there is to say of what is
    missing in them. Raises Faults."""
    lakes = [entry for entry in entries if entry.catalog.kind.lists]
    minor: Minor | None = None
    notes: list[str] = []
    try:
        minor = minor_of_spark(settings)
    except SluiceError as error:
        notes.append(f"it is not known which jars Spark needs: {error.message}")
    kinds = await _kinds_of_metalakes(settings, lakes, minor) if minor is not None else []
    told = start_settings((reveal_secrets(entry, hidden=True) for entry in entries if entry.on_spark), kinds)
    for lake in lakes:
        plugged = connector_settings(lake)
        if plugged and "spark.plugins" in told:
            raise Faults(["Spark's Gravitino connector supports one metalake, and several catalogs need it"])
        told |= plugged
    if minor is not None:
        packages, notes = _packages(told.get(EXTENSIONS, ""), minor)
        told |= {"spark.jars.packages": ",".join(packages)} if packages else {}
    return told, notes


async def _kinds_of_metalakes(settings: Settings, lakes: Sequence[CatalogEntry], minor: Minor) -> list[str]:
    """Return the types of the catalogs that metalakes have, or may bring.

    Of two whose extensions exclude each other it is the one that the entries name.
    """
    wished = list_wished_kinds(lakes, minor)
    names = {
        lake.name for lake in lakes if not metalake_settings(lake.catalog.connection_params).own_connectors
    }
    held = [
        one.type
        for entry, state in await metalake_states(settings)
        for one in state.catalogs
        if entry.name in names
    ]
    apart = bool(APART & set(wished))
    return list(dict.fromkeys([*wished, *(kind for kind in held if not apart or kind not in APART)]))


def _packages(extensions: str, minor: Minor) -> tuple[list[str], list[str]]:
    """Return the artifacts of Maven's that have these extensions, those that `sluice spark-jars --formats`
    fetches; and what is to be said of extensions that have none."""
    packages: list[str] = []
    notes: list[str] = []
    for extension in filter(None, extensions.split(",")):
        try:
            packages += map(str, BY_EXTENSION[extension].artifacts_for(minor))
        except UnsupportedFormat as error:
            notes.append(error.message)
    return packages, notes
