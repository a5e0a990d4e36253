"""The catalogs of the settings: as Spark is told of them, with their secrets, and which is the default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gateway.app.metalakes import Metalakes
from gateway.app.opening_catalogs import revealed
from gateway.catalog.providers import secrets_in
from gateway.catalog.spark_settings import extensions_for, session_settings, start_settings
from gateway.model.catalog import levels
from gateway.model.secret_values import SecretValues
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

    def of_sessions(self) -> dict[str, str]:
        """Return what a session is given. Raises Faults when a secret cannot be had."""
        listed = () if self._metalakes is None else self._metalakes.named()
        return session_settings([*(revealed(entry) for entry in self._entries), *listed])

    def told(self) -> Mapping[str, int]:
        """Return the catalogs that come and go, as a session is given them now: name → revision."""
        return {} if self._metalakes is None else self._metalakes.listed().revisions

    def of_start(self) -> dict[str, str]:
        """Return what Spark is started with. Raises Faults when a secret cannot be had."""
        return start_settings(revealed(entry) for entry in self._entries)

    def extensions(self) -> tuple[str, ...]:
        """Return the classes of `spark.sql.extensions` that the catalogs need."""
        return extensions_for(entry.catalog.type for entry in self._entries)

    def secrets(self) -> Sequence[str]:
        """Return the values that no client may read, as they are whenever somebody looks; those of metalakes
        come with them. Raises Faults when one of the settings cannot be had."""
        own = self._own_secrets()
        metalakes = self._metalakes
        return own if metalakes is None else SecretValues(lambda: (*own, *metalakes.secrets()))

    def _own_secrets(self) -> tuple[str, ...]:
        """Return secrets, and the passwords within those that are addresses."""
        values = (
            (key, value.reveal())
            for entry in self._entries
            for key, value in entry.catalog.connection_params.items()
            if isinstance(value, Secret)
        )
        parts = (part for key, value in values for part in (value, *secrets_in(key, value)))
        return tuple(dict.fromkeys(part for part in parts if part))


def first_context(settings: Settings) -> SessionContext:
    """Return where a session begins: in the default catalog and its database."""
    default = settings.default_catalog
    if default is None:
        return SessionContext()
    return SessionContext(catalog=default.name, namespace=levels(default.catalog.default_db))
