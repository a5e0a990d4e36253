"""The catalogs of the settings: as Spark is told of them, with their secrets, and which is the default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gateway.app.metalakes import Metalakes
from gateway.app.opening_catalogs import revealed
from gateway.catalog.providers import secrets_of
from gateway.catalog.spark_settings import NamedCatalog, extensions_for, session_settings, start_settings
from gateway.model.catalog import levels
from gateway.model.secret_values import SecretValues, ToldSecrets
from gateway.model.statement import SessionContext
from gateway.settings.catalogs import CatalogEntry
from gateway.settings.models import Settings
from gateway.settings.section import Secret


class SparkCatalogs:
    """What Spark is told of the catalogs. Secrets are read anew for every session that is opened."""

    def __init__(self, entries: Iterable[CatalogEntry], metalakes: Metalakes | None = None) -> None:
        """`metalakes` has catalogs that come and go while the gateway runs."""
        self._entries = tuple(entry for entry in entries if entry.on_spark)
        self._metalakes = metalakes
        self._told = ToldSecrets()

    def of_sessions(self) -> dict[str, str]:
        """Return what a session is given. Raises Faults when a secret cannot be had."""
        listed = () if self._metalakes is None else self._metalakes.named()
        return session_settings([*self._revealed(), *listed])

    def told(self) -> Mapping[str, int]:
        """Return the catalogs that come and go, as a session is given them now: name → revision."""
        return {} if self._metalakes is None else self._metalakes.listed().revisions

    def of_start(self) -> dict[str, str]:
        """Return what Spark is started with. Raises Faults when a secret cannot be had."""
        return start_settings(self._revealed())

    def extensions(self) -> tuple[str, ...]:
        """Return the classes of `spark.sql.extensions` that the catalogs need."""
        return extensions_for(entry.catalog.type for entry in self._entries)

    def secrets(self) -> Sequence[str]:
        """Return the values that no client may read, as they are whenever somebody looks: what Spark has been
        told, with what metalakes have. Raises Faults when one of the settings cannot be had now."""
        self._revealed()
        metalakes = self._metalakes
        return SecretValues(lambda: (*self._told, *(metalakes.secrets() if metalakes is not None else ())))

    def _revealed(self) -> list[NamedCatalog]:
        """Return the catalogs with the secrets of now, which are remembered. Raises Faults."""
        shown = [revealed(entry) for entry in self._entries]
        for entry, catalog in zip(self._entries, shown, strict=True):
            for key, value in entry.catalog.connection_params.items():
                if isinstance(value, Secret):
                    self._told.add(secrets_of(key, catalog.parameters[key]))
        return shown


def first_context(settings: Settings) -> SessionContext:
    """Return where a session begins: in the default catalog and its database."""
    default = settings.default_catalog
    if default is None:
        return SessionContext()
    return SessionContext(catalog=default.name, namespace=levels(default.catalog.default_db))
