"""Where a gateway listens: a class for each endpoint, with all that its start takes.

A new one is a class here and in `ENDPOINTS`, named like its section of the settings' `listeners`; what it
speaks stands in modules of `frontends/`.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

from aiohttp import web

from gateway.admin.listener import Check
from gateway.app.certificates import read_pair, tls_context
from gateway.app.closed_policies import describe_closed
from gateway.app.files_at_fault import describe_files_at_fault
from gateway.app.gateway_parts import GatewayParts
from gateway.app.lineage_following import trouble
from gateway.app.logins import make_impersonation
from gateway.app.probes import list_first_pages
from gateway.database.connect_sessions import ConnectSessionStore
from gateway.errors import Faults
from gateway.frontends.login_cookies import LoginCookies
from gateway.frontends.thrift_binary import ThriftBinaryServer
from gateway.frontends.thrift_service import ThriftService
from gateway.session.routing.thrift import RoutedSessions
from gateway.settings.listeners import (
    AdminListener,
    ConnectListener,
    IcebergRestListener,
    ThriftHttpListener,
    ThriftListener,
)
from gateway.settings.models import Settings

Listener = ThriftListener | ThriftHttpListener | ConnectListener | IcebergRestListener | AdminListener


class Address(NamedTuple):
    """Where an endpoint listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Endpoint(ABC):
    """One of the places where clients connect."""

    name: ClassVar[str]
    """Its section of `listeners`."""

    @abstractmethod
    def listener(self, settings: Settings) -> Listener | None:
        """Return its section; None where a gateway of these settings does not have it."""

    @abstractmethod
    async def start(self, parts: GatewayParts) -> int:
        """Listen, and return the port. Raises Faults, OSError when the address cannot be had."""


class ThriftEndpoint(Endpoint):
    """HiveServer2's binary transport, for JDBC and ODBC."""

    name = "thrift"

    def listener(self, settings: Settings) -> ThriftListener | None:
        return settings.listeners.thrift if settings.serves_thrift else None

    async def start(self, parts: GatewayParts) -> int:
        listener, kerberos = parts.settings.listeners.thrift, parts.settings.logins.kerberos
        if parts.sessions is None:
            raise Faults(["`listeners.thrift` needs `backend.thrift`"])
        door = parts.build_connection_limiter(self.name)
        server = ThriftBinaryServer(
            _thrift_service(parts, parts.sessions),
            parts.authenticator(),
            door=door,
            metrics=parts.dependencies.metrics,
            service_name=kerberos.service if kerberos is not None else "",
        )
        parts.open_sessions.add_connections(server.end_where, server.count_running_calls)
        parts.push_closing(server.close)
        port = await server.start(listener.host, listener.port, ssl=tls_context(listener.tls))
        parts.follow(self.name, listener.tls, door)
        return port


class ThriftHttpEndpoint(Endpoint):
    """HiveServer2's HTTP transport."""

    name = "thrift_http"

    def listener(self, settings: Settings) -> ThriftHttpListener | None:
        return settings.listeners.thrift_http if settings.serves_thrift else None

    async def start(self, parts: GatewayParts) -> int:
        listener = parts.settings.listeners.thrift_http
        if parts.sessions is None or listener is None:
            raise Faults(["`listeners.thrift_http` needs `backend.thrift`"])
        from gateway.frontends.thrift_http import HttpLimits, ThriftHttpServer

        door = parts.build_connection_limiter(self.name)
        server = ThriftHttpServer(
            _thrift_service(parts, parts.sessions),
            parts.authenticator(login_cookies(listener)),
            door=door,
            paths=listener.paths,
            trusted_proxies=listener.trusted_proxies,
            cookies=listener.cookies,
            secure=listener.tls is not None,
            compresses=listener.compression,
            proxies=parts.logins.proxies,
            limits=HttpLimits(
                request_timeout_s=listener.request_timeout_s,
                idle_timeout_s=listener.idle_timeout_s,
                max_body_bytes=listener.request_bytes,
            ),
        )
        parts.open_sessions.add_connections(server.end_where, server.count_running_calls)
        parts.push_closing(server.close)
        port = await server.start(listener.host, listener.port, ssl=tls_context(listener.tls))
        parts.follow(self.name, listener.tls, door)
        return port


def _thrift_service(parts: GatewayParts, sessions: RoutedSessions) -> ThriftService:
    return ThriftService(
        sessions,
        spark_version=parts.spark_version,
        keywords=parts.reader.keywords,
        max_statement_chars=parts.settings.reader.statement_chars,
        impersonation=make_impersonation(parts.settings, parts.logins.known, parts.identities),
        tracer=parts.dependencies.tracer,
    )


def login_cookies(listener: ThriftHttpListener) -> LoginCookies:
    """Return what makes the cookies of a listener. Raises Faults for a key that cannot be used."""
    key = listener.cookie_key.reveal().encode() if listener.cookie_key is not None else None
    try:
        return LoginCookies(key, max_age_s=listener.cookie_age_s)
    except ValueError as error:
        raise Faults([f"`listeners.thrift_http.cookie_key`: {error}"]) from None


class ConnectEndpoint(Endpoint):
    """Spark Connect, for PySpark and its likes."""

    name = "connect"

    def listener(self, settings: Settings) -> ConnectListener | None:
        return settings.listeners.connect

    async def start(self, parts: GatewayParts) -> int:
        from gateway.app.connect import connect_context_of, connect_server, route_sessions

        listener = parts.settings.listeners.connect
        if listener is None:
            raise Faults(["`listeners.connect` needs `backend.connect`"])
        store = ConnectSessionStore(parts.dsn)
        parts.stack.push_async_callback(store.close)
        first = parts.dependencies.first_context.catalog
        sessions = route_sessions(parts.sparks.fleet, store, first)
        parts.background.append(sessions.run())
        door = parts.build_connection_limiter(self.name)
        tracer, handed, siblings = parts.dependencies.tracer, parts.probes.handed, None
        if handed is not None:
            from gateway.frontends.sibling_calls import Siblings

            siblings = Siblings(handed.place.directory, parts.ledger.gateway)
        server = connect_server(
            sessions, parts.authenticator(), listener, parts.settings.logins, door, tracer, siblings
        )
        parts.open_sessions.add_connections(server.end_where, server.count_running_calls)
        parts.push_closing(server.close)
        tls = connect_context_of(read_pair(listener.tls)) if listener.tls is not None else None
        port = await server.start(listener.host, listener.port, ssl=tls)
        parts.follow(self.name, listener.tls, door, connect_context_of)
        return port


class IcebergRestEndpoint(Endpoint):
    """An Iceberg REST catalog, for engines that read files by themselves."""

    name = "iceberg_rest"

    def listener(self, settings: Settings) -> IcebergRestListener | None:
        return settings.listeners.iceberg_rest

    async def start(self, parts: GatewayParts) -> int:
        from gateway.app.iceberg_rest import make_iceberg_rest  # optional: few have it

        listener = parts.settings.listeners.iceberg_rest
        if listener is None:
            raise Faults(["`listeners.iceberg_rest` is not set"])
        door = parts.build_connection_limiter(self.name)
        server = make_iceberg_rest(parts, listener, door)
        parts.open_sessions.add_connections(server.end_where, server.count_running_calls)
        parts.push_closing(server.close)
        port = await server.start(listener.host, listener.port, ssl=tls_context(listener.tls))
        parts.follow(self.name, listener.tls, door)
        return port


class AdminEndpoint(Endpoint):
    """HTTP for operators, with the REST APIs that are switched on."""

    name = "admin"

    def listener(self, settings: Settings) -> AdminListener:
        return settings.listeners.admin

    async def start(self, parts: GatewayParts) -> int:
        probes = parts.probes
        parts.reloading.connection_limiters[self.name] = probes.connection_limiter
        parts.follow(self.name, parts.settings.listeners.admin.tls, probes.connection_limiter)
        await probes.admin.complete(_checks(parts), _notes(parts), _apis(parts))
        return probes.port


ENDPOINTS: tuple[Endpoint, ...] = (
    ThriftEndpoint(),
    ThriftHttpEndpoint(),
    ConnectEndpoint(),
    IcebergRestEndpoint(),
    AdminEndpoint(),
)
"""In the order in which they start: who asks whether the gateway is ready is answered last."""


async def start_endpoints(parts: GatewayParts) -> dict[str, Address]:
    """Start those that the settings have, and return where each listens, by its name. Raises Faults."""
    found = {}
    for endpoint in ENDPOINTS:
        listener = endpoint.listener(parts.settings)
        if listener is not None:
            try:
                found[endpoint.name] = Address(listener.host, await endpoint.start(parts))
            except OSError as error:
                where = Address(listener.host, listener.port)
                raise Faults([f"cannot listen on {where}: {error.strerror or error}"]) from None
    return found


# -- what the operators' endpoint tells, and has mounted -----------------------------------------------------


def _checks(parts: GatewayParts) -> Mapping[str, Check]:
    async def parser() -> str | None:
        return None if parts.reader.healthy else "no parser process is available"

    async def record() -> str | None:
        return parts.ledger.metrics().failure or None

    async def report_unconfirmed() -> str | None:
        return parts.rules.stale()

    async def readable() -> str | None:
        return parts.users.stale()

    checks = {"parser": parser, **parts.sparks.checks(), "ledger": record}
    return {**checks, "policies_confirmed": report_unconfirmed, "users_readable": readable}


def _notes(parts: GatewayParts) -> Mapping[str, Check]:
    lineage = parts.lineage

    async def policies() -> str | None:
        at_fault = [f"{len(s.faults)} errors in {s.name}" for s in parts.rules.sources() if s.faults]
        return (
            f"{', '.join(at_fault)}; the last valid policies, or closed ones, are in force"
            if at_fault
            else None
        )

    async def files() -> str | None:
        most_s = parts.settings.policies.files_max_stale_s
        return describe_files_at_fault(
            [one for source in parts.rules.sources() for one in source.files], most_s
        )

    async def report_closed() -> str | None:
        return describe_closed(one for source in parts.rules.sources() for one in source.closed)

    async def user_file() -> str | None:
        faults = parts.users.faults
        return (
            f"{len(faults)} errors; faulty users cannot log in, or the last valid file is in force"
            if faults
            else None
        )

    async def logins() -> str | None:
        return parts.logins.chain.report()

    async def report_shipping() -> str | None:
        return parts.ledger.metrics().trouble or None

    async def report_lineage() -> str | None:
        return trouble(lineage.metrics) if lineage is not None else None

    notes = {
        "policies": policies,
        "policies_closed": report_closed,
        "policy_files": files,
        "users": user_file,
        "record": report_shipping,
        "logins": logins,
        **parts.notes,
    }
    return notes if lineage is None else {**notes, "lineage": report_lineage}


def _apis(parts: GatewayParts) -> Mapping[str, Callable[[], web.Application]]:
    settings, listener = parts.settings, parts.settings.listeners.admin
    found = {}
    ranger = None
    if listener.ranger is not None:
        from gateway.app.policy_texts import SparkTexts  # optional, as the next
        from gateway.app.ranger_admin import RangerAdmin  # optional: OPTIONAL in tests/test_architecture.py

        queries = parts.sparks.main.upstream.queries()
        parts.stack.push_async_callback(parts.dependencies.lifecycle.close_in_time, queries.close)
        texts = SparkTexts(
            settings.policies.catalogs, parts.dependencies.catalog, queries.query, parts.reader
        )
        ranger = RangerAdmin(
            listener.ranger,
            settings.policies,
            parts.dsn,
            parts.authenticator(),
            parts.reader,
            spark=texts,
            authors=parts.authors,
            principals=lambda user: parts.identities.principals.get(user),
        )
        parts.stack.push_async_callback(ranger.close)
        found["/service"] = ranger.api.app
    if listener.lineage is not None:
        from gateway.app.lineage_admin import LineageAdmin  # optional, as above

        lineage = LineageAdmin(
            listener.lineage,
            parts.dsn,
            parts.authenticator(),
            policies=lambda: parts.dependencies.policies.current,
            stale=parts.dependencies.policies.stale,
            catalog=parts.dependencies.catalog,
        )
        parts.stack.push_async_callback(lineage.close)
        found["/lineage"] = lineage.api.app
    found.update(list_first_pages(settings))
    if listener.console is not None:
        from gateway.app.console import make_console  # optional, as above

        found |= make_console(parts, listener.console, ranger)
    if listener.tags is not None or listener.sessions is not None:
        from gateway.app.administered_apis import make_sessions_api, make_tags_api  # optional, as above

        if listener.tags is not None:
            found["/tags"] = make_tags_api(listener.tags, parts.dsn, parts.authenticator()).app
        if listener.sessions is not None:
            found["/sessions"] = make_sessions_api(listener.sessions, parts.dsn, parts.authenticator()).app
    return found


# -- what is looked at before anything is started ------------------------------------------------------------


def require_free(host: str, port: int) -> None:
    """Raise Faults when nothing can listen there: starting Spark first would waste half a minute."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in found:
            with socket.socket(family) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    tried.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                tried.bind(address)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise Faults([f"cannot listen on {Address(host, port)}: {why}"]) from None
