"""Parameters of catalogs of the settings with their secrets, or without."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.catalog.spark_settings import NamedCatalog
from gateway.errors import Faults
from gateway.model.secret_values import HIDDEN
from gateway.settings.catalogs import CatalogEntry
from gateway.settings.metalakes import SET
from gateway.settings.section import Secret


def reveal_secrets(entry: CatalogEntry, *, hidden: bool = False) -> NamedCatalog:
    """Return a catalog with its secrets, or with `***` in their places. Raises Faults."""
    parameters: dict[str, str] = {}
    for key, value in entry.catalog.connection_params.items():
        if not isinstance(value, Secret):
            parameters[key] = value
        elif hidden:
            parameters[key] = HIDDEN
        else:
            try:
                parameters[key] = value.reveal()
            except Faults as error:
                raise Faults([f"catalog `{entry.name}`, `{key}`: {one}" for one in error.faults]) from None
    return NamedCatalog(
        name=entry.name,
        type=entry.catalog.type,
        parameters=parameters,
        is_default=entry.catalog.is_default,
    )


def parameters_of(entry: CatalogEntry) -> Mapping[str, str]:
    """Return the parameters by lower-case key, secrets revealed, but for those of single catalogs."""
    own = {k: v for k, v in entry.catalog.connection_params.items() if not k.lower().startswith(SET)}
    catalog = entry.catalog.model_copy(update={"connection_params": own})
    shown = reveal_secrets(entry.model_copy(update={"catalog": catalog}))
    return {key.lower(): value for key, value in shown.parameters.items()}
