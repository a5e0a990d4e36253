"""The catalogs of the settings: as Spark is told of them, with their secrets, and which is the default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from gateway.app.providers import load_shipped_providers
from gateway.app.revealing import reveal_secrets
from gateway.catalog.providers import secrets_of
from gateway.catalog.spark_settings import NamedCatalog, extensions_for, session_settings, start_settings
from gateway.errors import Faults
from gateway.model.catalog import levels
from gateway.model.secret_values import HIDDEN, RevealedSecrets, SecretValues
from gateway.model.spark_minors import Minor
from gateway.model.statement import SessionContext
from gateway.settings.catalogs import CatalogEntry
from gateway.settings.metalakes import SET, metalake_settings
from gateway.settings.models import Settings
from gateway.settings.section import Secret
from gateway.sources.metalakes import Metalakes

_PLUGIN = "org.apache.gravitino.spark.connector.plugin.GravitinoSparkPlugin"
_CONNECTOR_LOGINS: Mapping[str, Mapping[str, str]] = {
    "simple": {"user": "simpleAuth.userName"},
    "basic": {"user": "basic.username", "password": "basic.password"},
    "oauth2": {
        "oauth2-server-uri": "oauth2.serverUri",
        "oauth2-token-path": "oauth2.tokenPath",
        "credential": "oauth2.credential",
        "scope": "oauth2.scope",
    },
}
"""How Gravitino's connector logs in: parameter of the entry → setting of Spark."""


class SparkCatalogs:
    """What Spark is told of the catalogs. Secrets are read anew for every session that is opened."""

    def __init__(self, entries: Iterable[CatalogEntry], metalakes: Metalakes | None = None) -> None:
        """`metalakes` has catalogs that come and go while the gateway runs."""
        listed = tuple(entries)
        self._entries = tuple(entry for entry in listed if entry.on_spark)
        self._lakes = tuple(entry for entry in listed if entry.catalog.kind.lists)
        self._metalakes = metalakes
        self._revealed_secrets = RevealedSecrets()

    def of_sessions(self) -> dict[str, str]:
        """Return what a session is given. Raises Faults when a secret cannot be had."""
        listed = () if self._metalakes is None else self._metalakes.reveal_catalogs()
        return session_settings([*self._reveal_catalogs(), *listed])

    def list_session_catalogs(self) -> Mapping[str, int]:
        """Return the catalogs that come and go, as a session is given them now: name → revision."""
        return {} if self._metalakes is None else self._metalakes.list_catalogs().revisions

    def of_start(self, minor: Minor) -> dict[str, str]:
        """Return what a Spark of this minor is started with. Raises Faults when a secret cannot be had."""
        return start_settings(self._reveal_catalogs(), list_wished_kinds(self._lakes, minor))

    def extensions(self, minor: Minor) -> tuple[str, ...]:
        """Return the classes of `spark.sql.extensions` that the catalogs need, those too that metalakes may
        bring while Spark runs."""
        own = (entry.catalog.type for entry in self._entries)
        return extensions_for([*own, *list_wished_kinds(self._lakes, minor)])

    def secrets(self) -> Sequence[str]:
        """Return the values that no client may read, as they are whenever somebody looks: what Spark has been
        told, with what metalakes have. Raises Faults when one of the settings cannot be had now."""
        self._reveal_catalogs()
        metalakes = self._metalakes
        return SecretValues(
            lambda: (*self._revealed_secrets, *(metalakes.secrets() if metalakes is not None else ()))
        )

    def _reveal_catalogs(self) -> list[NamedCatalog]:
        """Return the catalogs with the secrets of now, which are remembered. Raises Faults."""
        shown = [reveal_secrets(entry) for entry in self._entries]
        for entry, catalog in zip(self._entries, shown, strict=True):
            for key, value in entry.catalog.connection_params.items():
                if isinstance(value, Secret):
                    self._revealed_secrets.add(secrets_of(key, catalog.parameters[key]))
        for lake in self._lakes:
            # Gravitino's connector logs in by itself, as Spark was told when it started.
            for key, value in lake.catalog.connection_params.items() if connector_settings(lake) else ():
                if isinstance(value, Secret) and not key.lower().startswith(SET):
                    with suppress(Faults):
                        self._revealed_secrets.add(secrets_of(key, value.reveal()))
        return shown


def list_wished_kinds(lakes: Iterable[CatalogEntry], minor: Minor) -> list[str]:
    """Return the types of catalogs that metalakes may bring, as their entries say: `iceberg: true`.

    Gravitino's own connector sees to its extensions by itself.
    """
    settings = [metalake_settings(lake.catalog.connection_params) for lake in lakes]
    enabled = {name for one in settings if not one.own_connectors for name in one.enabled}
    rows = load_shipped_providers().rows
    return list(dict.fromkeys(row.kind for row in rows if row.enabled_by in enabled and minor in row.minors))


def connector_settings(lake: CatalogEntry) -> dict[str, str]:
    """Return what Spark is started with so that it has Gravitino's own connector for a metalake.

    That is nothing where the entry does not want it. A secret stands as `***`.
    """
    settings = metalake_settings(lake.catalog.connection_params)
    if not settings.own_connectors:
        return {}
    given = {
        key.lower(): HIDDEN if isinstance(value, Secret) else value
        for key, value in lake.catalog.connection_params.items()
    }
    told = {"uri": settings.uri, "metalake": settings.metalake}
    if "iceberg" in settings.enabled:
        told["enableIcebergSupport"] = "true"
    if settings.auth != "none":
        told["authType"] = settings.auth
        told |= {to: given[key] for key, to in _CONNECTOR_LOGINS[settings.auth].items() if key in given}
    return {"spark.plugins": _PLUGIN, **{f"spark.sql.gravitino.{key}": value for key, value in told.items()}}


def first_context(settings: Settings) -> SessionContext:
    """Return where a session begins: in the default catalog and its database."""
    default = settings.default_catalog
    if default is None:
        return SessionContext()
    return SessionContext(catalog=default.name, namespace=levels(default.catalog.default_db))
