"""Spark Connect's half of a gateway.

Imported only where there is such a half: pyspark's messages bring pandas along, and take a second or two.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gateway.app.certificates import CertificatePair, context_of
from gateway.app.user_tokens import UserTokens
from gateway.backends.embedded_spark import EmbeddedSpark
from gateway.backends.spark_connect import SparkConnectBackend, SparkConnectOptions
from gateway.backends.spark_connect_service import SparkConnectService
from gateway.errors import Faults
from gateway.frontends.authentication import Authenticator
from gateway.frontends.connect_server import ConnectLimits, ConnectServer
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.frontends.judged_tls import ALPN, JudgedTls
from gateway.frontends.sibling_calls import Siblings
from gateway.model.secret_values import SecretValues
from gateway.model.spark_configuration import NOT_COMPARED, ParserConfiguration
from gateway.model.tracing import Tracer
from gateway.session.connect.routing import RoutedConnectSessions
from gateway.session.connect.service import ConnectSessions
from gateway.session.dependencies import Dependencies
from gateway.session.ports import CatalogLogins, no_logins
from gateway.session.routing.affinity import Affinity
from gateway.session.routing.fleet import Fleet
from gateway.settings.backends import ConnectBackend
from gateway.settings.listeners import ConnectListener
from gateway.settings.logins import LoginSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectUpstream:
    """Spark's Connect endpoint and what it wants to be shown."""

    backend: SparkConnectBackend
    host: str
    port: int
    token: str = field(repr=False)
    session_catalogs: Callable[[], Mapping[str, int]] = dict
    """As `Dependencies` has them."""

    def queries(self) -> SparkConnectService:
        """Return what the catalog asks when there is no Thrift Server."""
        return SparkConnectService(self.backend, session_catalogs=self.session_catalogs)


def connect_backend(
    settings: ConnectBackend,
    timeout_s: float,
    *,
    reader: ParserConfiguration = NOT_COMPARED,
    catalogs: Callable[[], Mapping[str, str]] = dict,
    catalog_logins: CatalogLogins = no_logins,
    named_catalogs: frozenset[str] = frozenset(),
    session_catalogs: Callable[[], Mapping[str, int]] = dict,
    gateway: str = "",
    call_timeout_s: float = 60.0,
    user_tokens: UserTokens | None = None,
) -> ConnectUpstream:
    """Return the backend for the settings' Spark Connect. Raises Faults when its token cannot be had."""
    token = settings.token.reveal() if settings.token is not None else ""
    if token and (not token.isascii() or not token.isprintable() or token != token.strip()):
        # gRPC would refuse every call, and print the token in saying so.
        raise Faults(["`backend.connect.token` has surrounding blanks or non-ASCII characters"])
    options = SparkConnectOptions(
        host=settings.host,
        port=settings.port,
        token=token,
        user_tokens=user_tokens,
        reader=reader,
        catalogs=catalogs,
        catalog_logins=catalog_logins,
        named_catalogs=named_catalogs,
        session_catalogs=session_catalogs,
        gateway=gateway,
        is_sluice=settings.sluice,
        tls=settings.tls,
        ca_file=settings.ca_file,
        channels=settings.channels,
        connect_timeout_s=timeout_s,
        call_timeout_s=call_timeout_s,
    )
    backend = SparkConnectBackend(options)
    return ConnectUpstream(
        backend=backend,
        host=settings.host,
        port=settings.port,
        token=token,
        session_catalogs=session_catalogs,
    )


def own_connect_backend(
    spark: EmbeddedSpark,
    timeout_s: float,
    *,
    reader: ParserConfiguration = NOT_COMPARED,
    catalogs: Callable[[], Mapping[str, str]] = dict,
    catalog_logins: CatalogLogins = no_logins,
    named_catalogs: frozenset[str] = frozenset(),
    session_catalogs: Callable[[], Mapping[str, int]] = dict,
    gateway: str = "",
    call_timeout_s: float = 60.0,
) -> ConnectUpstream:
    """Return the backend for the Spark Connect of an embedded Spark."""
    host, port, token = spark.host, spark.connect_port, spark.connect_token
    options = SparkConnectOptions(
        host=host,
        port=port,
        token=token,
        reader=reader,
        catalogs=catalogs,
        catalog_logins=catalog_logins,
        named_catalogs=named_catalogs,
        session_catalogs=session_catalogs,
        gateway=gateway,
        connect_timeout_s=timeout_s,
        call_timeout_s=call_timeout_s,
    )
    return ConnectUpstream(
        backend=SparkConnectBackend(options),
        host=host,
        port=port,
        token=token,
        session_catalogs=session_catalogs,
    )


def connect_sessions(dependencies: Dependencies, upstream: ConnectUpstream) -> ConnectSessions:
    """Return the sessions of Spark Connect's clients."""
    token = (upstream.token,) if upstream.token else ()
    secrets = SecretValues(lambda: token + tuple(dependencies.secrets))
    return ConnectSessions(dependencies, upstream.backend, secrets=secrets)


def route_sessions(fleet: Fleet, store: Affinity, first_catalog: str) -> RoutedConnectSessions:
    """Return the sessions of Spark Connect's clients on all Sparks."""
    return RoutedConnectSessions(fleet, store, first_catalog=first_catalog)


def connect_server(
    sessions: RoutedConnectSessions,
    authenticator: Authenticator,
    settings: ConnectListener,
    logins: LoginSettings,
    door: ConnectionLimiter,
    tracer: Tracer | None,
    siblings: Siblings | None = None,
) -> ConnectServer:
    """Return the listener of the settings, not started. `siblings`: the other workers, of one."""
    limits = ConnectLimits(
        calls=settings.calls,
        calls_per_connection=settings.calls_per_connection,
        message_bytes=settings.message_bytes,
        requests_bytes=settings.requests_bytes,
        handshake_timeout_s=logins.handshake_timeout_s,
    )
    return ConnectServer(sessions, authenticator, door=door, limits=limits, tracer=tracer, siblings=siblings)


def connect_context_of(pair: CertificatePair) -> ssl.SSLContext | JudgedTls:
    """Return a TLS context that shows a certificate. Raises Faults when OpenSSL does not take it."""
    context = context_of(pair)
    if pair.client_ca:
        try:
            return JudgedTls(chain=pair.chain, key=pair.key, client_ca=pair.client_ca, like=context)
        except ValueError as error:
            raise Faults([f"{pair.tls.certificate}, {pair.tls.client_ca}: {error}"]) from None
    context.set_alpn_protocols([ALPN.decode()])
    return context
