"""Asks the Spark that settings name how it reads texts, for `sluice check`."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.app.endpoints import require_connect
from gateway.app.explaining import make_upstream
from gateway.errors import BackendMismatch, BackendUnavailable, Faults
from gateway.model.spark_configuration import ParserConfiguration, SparkConfiguration
from gateway.settings.models import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendCheck:
    """What is wrong with a Spark, and what may be."""

    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


async def ask_backend(settings: Settings, *, reader: ParserConfiguration) -> BackendCheck:
    """Return why the Spark of the settings would get no statement; nothing when it would.

    One that does not answer is a warning, because settings are checked where Spark cannot be reached. An
    embedded one is the gateway's own. `reader` is the parser, or NOT_COMPARED.
    """
    if settings.backend.embedded is not None:
        return BackendCheck()
    try:
        if settings.listeners.connect is not None:
            require_connect()
        upstream = make_upstream(settings, None, reader)
    except Faults as error:
        return BackendCheck(faults=error.faults)
    try:
        told = await upstream.ask()
    except BackendMismatch as error:
        return BackendCheck(faults=error.reasons)
    except BackendUnavailable as error:
        return BackendCheck(warnings=(f"Spark was not asked how it reads texts: {error.message}",))
    finally:
        await upstream.close()
    return BackendCheck(warnings=_catalogs(settings, told))


def _catalogs(settings: Settings, told: SparkConfiguration) -> tuple[str, ...]:
    """Tell of catalogs that only one of the two sides knows; Spark always has `spark_catalog`."""
    named, plugged = set(settings.policies.catalogs), told.catalogs
    return (
        *(
            f"Spark has the catalog `{name}` ({plugged[name]}), which `policies.catalogs` does not name: "
            "nobody reaches its tables"
            for name in plugged
            if name not in named and name != "spark_catalog"
        ),
        *(
            f"`policies.catalogs` names `{name}`, and Spark has no `spark.sql.catalog.{name}`"
            for name in sorted(named - set(plugged) - {"spark_catalog"})
        ),
    )
