"""The catalogs of the settings: as Spark is told of them, with their secrets, and which is the default."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import structlog

from gateway.app.providers import load_shipped_providers
from gateway.app.rest_catalogs import is_rest
from gateway.app.revealing import reveal_secrets
from gateway.catalog.providers import secrets_of
from gateway.catalog.spark_settings import (
    NamedCatalog,
    extensions_for,
    is_login,
    session_settings,
    start_settings,
    user_login,
)
from gateway.catalog.token_exchange import ExchangeRule, NotExchanged, TokenExchange
from gateway.errors import Faults
from gateway.model.catalog import levels
from gateway.model.secret_values import HIDDEN, RevealedSecrets, SecretValues
from gateway.model.spark_minors import Minor
from gateway.model.statement import SessionContext
from gateway.session.ports import ASKER
from gateway.settings.catalogs import CatalogEntry
from gateway.settings.metalakes import SET, metalake_settings
from gateway.settings.models import Settings
from gateway.settings.section import Secret
from gateway.sources.metalakes import Metalakes

_log = structlog.get_logger(__name__)

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


_SHOWN = frozenset({"token", "credential", "header.authorization"})
"""Parameters by which a REST catalog knows who asks."""


class SparkCatalogs:
    """What Spark is told of the catalogs. Secrets are read anew for every session that is opened."""

    def __init__(
        self,
        entries: Iterable[CatalogEntry],
        metalakes: Metalakes | None = None,
        *,
        audiences: Mapping[str, str] | None = None,
        exchange: TokenExchange | None = None,
    ) -> None:
        """`metalakes` has catalogs that come and go while the gateway runs. `audiences`: those that are asked
        in the name of the user, by tokens of `exchange`."""
        self._audiences = audiences or {}
        self._exchange = exchange
        listed = tuple(entries)
        self._entries = tuple(entry for entry in listed if entry.on_spark)
        self._credentials = {entry.name.lower(): entry.catalog.user_credentials for entry in listed}
        self._restricting = frozenset(entry.name.lower() for entry in listed if restricts(entry))
        self._lakes = tuple(entry for entry in listed if entry.catalog.kind.lists)
        self._metalakes = metalakes
        self._revealed_secrets = RevealedSecrets()

    def of_sessions(self) -> dict[str, str]:
        """Return what a session is given. Raises Faults when a secret cannot be had."""
        listed = () if self._metalakes is None else self._metalakes.reveal_catalogs()
        own = (leave_out_login(one, self._audiences) for one in self._reveal_catalogs())
        return session_settings([*own, *listed])

    async def log_in(self) -> Mapping[str, str]:
        """Return what a session is told on top: the gateway's own logins, or those of the user, who has none
        without a token. Raises Faults."""
        asker, told = ASKER.get(), dict[str, str]()
        if asker.is_gateway:
            for catalog in self._reveal_catalogs():
                if catalog.name in self._audiences:  # RULE (own-login-for-own-sessions)
                    whole = {"token-refresh-enabled": "true", **catalog.parameters}
                    told.update(session_settings([replace(catalog, parameters=whole, is_default=False)]))
            return told
        if not asker.token or self._exchange is None:
            return told
        for name, audience in self._audiences.items():
            try:
                token = await self._exchange.exchange(asker.token, audience)
            except NotExchanged as fault:
                # The session has other catalogs; this one refuses who does not log in.
                _log.warning("token_not_exchanged", catalog=name, reason=str(fault))
                continue
            self._revealed_secrets.add([token])
            told.update(user_login(name, token))
        return told

    def list_rest_catalogs(self) -> frozenset[str]:
        """Return the names of Iceberg REST catalogs that are asked what they restrict."""
        if self._metalakes is None:
            return self._restricting
        asked = {lake.name for lake in self._lakes if lake.catalog.read_restrictions == "enforce"}
        listed = self._metalakes.list_in_force()
        return self._restricting | {
            one.name.lower() for lake, one in listed if lake in asked and _is_rest_catalog(one)
        }

    async def find_rest_login(self, name: str, user: str) -> Mapping[str, str]:
        """Return the parameters (lower-case keys) by which a REST catalog is asked for a user: with the token
        of ASKER, where the catalog is asked in the name of users; with the user's credential, where it has
        some; and otherwise with the login of the settings.

        Raises Faults, and NotExchanged for a user whose token is not exchanged, or who has no credential.
        """
        found = next((one for one in self._reveal_catalogs() if one.name.lower() == name), None)
        if found is None and self._metalakes is not None:
            found = self._metalakes.find_catalog(name)
        if found is None:
            raise Faults([f"there is no catalog `{name}` by now"])
        asker = ASKER.get()
        if found.name in self._audiences and not asker.is_gateway:  # RULE (restrictions-as-user)
            audience = self._audiences[found.name]
            found = leave_out_login(found, self._audiences)
            # Who has shown no token is nobody there, as in Spark.
            if asker.token and self._exchange is not None:
                token = await self._exchange.exchange(asker.token, audience)
                self._revealed_secrets.add([token])
                found = replace(found, parameters={**found.parameters, "token": token})
        elif (mapped := self._credentials.get(name)) and not asker.is_gateway:
            if user not in mapped:  # RULE (restrictions-unmapped-user)
                raise NotExchanged("no credential is set for the user")
            secret = mapped[user].reveal()
            self._revealed_secrets.add([secret])
            others = {k: v for k, v in found.parameters.items() if k.lower() not in _SHOWN}
            found = replace(found, parameters={**others, "credential": secret})
        return {key.lower(): value for key, value in found.parameters.items()}

    def hide(self, value: str) -> None:
        """Have no client read a value that what stands before Spark is told for a user."""
        self._revealed_secrets.add([value])

    def list_session_catalogs(self) -> Mapping[str, int]:
        """Return the catalogs that come and go, as a session is given them now: name → revision."""
        return {} if self._metalakes is None else self._metalakes.list_catalogs().revisions

    def of_start(self, minor: Minor) -> dict[str, str]:
        """Return what a Spark of this minor is started with. Raises Faults when a secret cannot be had."""
        own = (leave_out_login(one, self._audiences) for one in self._reveal_catalogs())
        return start_settings(own, list_wished_kinds(self._lakes, minor))

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


def restricts(entry: CatalogEntry) -> bool:
    """Whether an entry is a catalog that is asked what it restricts."""
    asked = entry.catalog.read_restrictions == "enforce"
    return asked and entry.catalog.type == "iceberg" and is_rest(entry.catalog.connection_params)


def _is_rest_catalog(catalog: NamedCatalog) -> bool:
    return catalog.type == "iceberg" and is_rest(catalog.parameters)


def leave_out_login(catalog: NamedCatalog, audiences: Collection[str]) -> NamedCatalog:
    """Return a catalog without the gateway's login, where it is one of those that are asked in the name of
    the user."""
    if catalog.name not in audiences:  # RULE (users-without-own-login)
        return catalog
    others = {key: value for key, value in catalog.parameters.items() if not is_login(key)}
    # Iceberg would ask the catalog for the next token, and not the issuer.
    return replace(catalog, parameters={**others, "token-refresh-enabled": "false"})


def make_catalogs(settings: Settings, metalakes: Metalakes | None = None) -> SparkCatalogs:
    """Return the catalogs of the settings, with what exchanges tokens for them."""
    exchange = make_exchange(settings)
    return SparkCatalogs(settings.catalogs, metalakes, audiences=settings.audiences, exchange=exchange)


def make_exchange(settings: Settings) -> TokenExchange | None:
    """Return what exchanges tokens of users, where the settings have that."""
    jwt = settings.logins.jwt
    if jwt is None or jwt.exchange is None:
        return None
    rule = ExchangeRule(
        token_url=jwt.exchange.token_url,
        client_id=jwt.exchange.client_id,
        client_secret=jwt.exchange.client_secret.reveal,
        scope=jwt.exchange.scope,
    )
    return TokenExchange(rule)


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
