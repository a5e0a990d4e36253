"""What `listeners:` of the settings may hold: where the gateway listens, and with which APIs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gateway.model.networks import Network
from gateway.settings.console import ConsoleSettings
from gateway.settings.section import Count, Host, Name, Port, Seconds, Secret, Section

HttpPath = Annotated[str, Field(pattern=r"^[\w.~-]+(/[\w.~-]+)*$", max_length=200)]


class Tls(Section):
    """Certificate of a listener."""

    certificate: Path
    """PEM file with the certificate and its chain."""
    key: Path
    """PEM file with the private key; readable by the gateway's user only."""
    minimum_version: Literal["1.2", "1.3"] = "1.2"
    """Oldest TLS version accepted; Hive JDBC 2.3 on Java 8 needs 1.2."""
    client_ca: Path | None = None
    """PEM file of the authorities whose certificates clients may show (mutual TLS). `logins.certificates`
    says which user one is of; without that it only opens the connection."""
    client_certificates: Literal["optional", "required"] = "required"
    """Whether clients without a certificate may connect, where there is a `client_ca`."""


class ThriftListener(Section):
    """Where JDBC, ODBC and Python clients connect: HiveServer2's binary transport with SASL PLAIN."""

    host: Host = "127.0.0.1"
    """Address to listen on."""
    port: Port = 10000
    """Port to listen on; 0 picks a free one."""
    tls: Tls | None = None
    """Without it passwords cross the network in the clear: for loopback and private networks only."""
    connections: Count = 2000
    """Maximum of open connections; more are closed at once."""
    balancers: tuple[Network, ...] = ()
    """Networks of balancers whose connections all begin with a header of the PROXY protocol, version 2, that
    tells where the client is, such as `10.0.0.0/24`; others connect without one."""


class ThriftHttpListener(Section):
    """HiveServer2's HTTP transport, for tools that speak HTTP only and for a gateway behind an HTTP balancer
    or Knox; docs/connect.md tells how. Without this section it is not there."""

    host: Host = "127.0.0.1"
    """Address to listen on."""
    port: Port = 10001
    """Port to listen on; 0 picks a free one."""
    tls: Tls | None = None
    """Without it passwords cross the network in the clear: for loopback and behind what speaks TLS only."""
    paths: Annotated[tuple[HttpPath, ...], Field(min_length=1)] = ("cliservice", "hive2")
    """Paths that are answered, with and without a slash behind them (`httpPath` of JDBC)."""
    connections: Count = 2000
    """Open connections; more are closed at once."""
    request_bytes: Annotated[int, Field(strict=True, ge=65_536, le=2**31 - 1)] = 16 * 1024**2
    """Largest request."""
    request_timeout_s: Seconds = 60.0
    """Seconds from a request's first byte to its last."""
    idle_timeout_s: Seconds = 300.0
    """Seconds that a connection is kept without a request; sessions go on without it."""
    compression: Annotated[bool, Field(strict=True)] = True
    """Whether answers are compressed for clients that accept gzip; off saves CPU on fast networks."""
    cookies: Annotated[bool, Field(strict=True)] = True
    """Whether who has logged in gets a cookie, `hive.server2.auth`, and is not asked with each request."""
    cookie_age_s: Seconds = 86_400.0
    """Seconds that a cookie holds; it ends at once when the user, or his password or token, is changed."""
    cookie_key: Secret | None = None
    """Key of 32 characters or more that signs cookies, as `{env: NAME}` or `{file: PATH}`. Gateways with one
    key take each other's; without a key each makes one of its own when it starts."""
    trusted_proxies: tuple[Network, ...] = ()
    """Networks of proxies whose `X-Forwarded-For` tells where a client is, such as `10.0.0.0/8`."""
    balancers: tuple[Network, ...] = ()
    """As of `listeners.thrift`."""


class ConnectListener(Section):
    """Where PySpark and other Spark Connect clients connect (`sc://HOST:PORT`), see docs/connect.md. Without
    this section there is no such listener."""

    host: Host = "127.0.0.1"
    """Address to listen on."""
    port: Port = 15009
    """Port to listen on; 0 picks a free one."""
    tls: Tls | None = None
    """Without it passwords and tokens go in the clear, and PySpark sends them to `localhost` only."""
    balancers: tuple[Network, ...] = ()
    """As of `listeners.thrift`."""
    calls: Count = 2000
    """Calls in progress at once; more are refused. A running query is one call."""
    calls_per_connection: Count = 1000
    """Calls of one connection in progress at once; more wait in the client."""
    message_bytes: Annotated[int, Field(strict=True, ge=65_536, le=2**31 - 1)] = 128 * 1024**2
    """Largest request; Spark's own limit is the default."""
    requests_bytes: Annotated[int, Field(strict=True, ge=65_536)] = 512 * 1024**2
    """Bytes of requests in progress, of all calls together; more are refused, but one always fits. Requests
    of up to 64 KiB do not count; one that takes 5 seconds to arrive counts as the largest."""


class TrustedIdentities(Section):
    """Identities by name and by group; without any, nobody."""

    users: tuple[Name, ...] = ()
    """Users, as they log in."""
    groups: tuple[Name, ...] = ()
    """Groups whose members are meant."""


class IcebergRestListener(Section):
    """Where PyIceberg, DuckDB, Trino, Spark and other engines have an Iceberg REST catalog (`/v1/config`),
    see docs/iceberg-rest.md. Without this section there is no such listener."""

    host: Host = "127.0.0.1"
    """Address to listen on."""
    port: Port = 10090
    """Port to listen on; 0 picks a free one."""
    tls: Tls | None = None
    """Without it passwords and tokens go in the clear: for loopback and private networks only."""
    balancers: tuple[Network, ...] = ()
    """As of `listeners.thrift`."""
    catalogs: Annotated[tuple[Name, ...], Field(min_length=1)]
    """Names of Iceberg REST catalogs of `catalogs` that are served; clients name one as `warehouse`."""
    connections: Count = 2000
    """Open connections; more are closed at once."""
    enforcing: TrustedIdentities = TrustedIdentities()
    """Identities that enforce `read-restrictions` in full. They alone get tables with row filters or masks,
    and may read the raw files of these: name engines that nobody else can log in as, and no persons."""
    stricter: Annotated[bool, Field(strict=True)] = False
    """Whether those that enforce may be told to show less than a policy says, where no restriction of
    Iceberg's says just that; otherwise such tables are refused."""
    null_denied_columns: Annotated[bool, Field(strict=True)] = False
    """Whether those that enforce get tables with columns that may not be selected, which show NULL."""
    writers: TrustedIdentities = TrustedIdentities()
    """Identities whose snapshots are taken. A snapshot may name files of other tables as its own, and the
    gateway does not read it: name those who may read all files that the catalog's engines may."""
    credentials: Literal["never", "full_access", "readers"] = "full_access"
    """Who gets the logins to files that a catalog gives along with a table: nobody; who may overwrite the
    table, and has no row filter or mask on it; or whoever may load it, for catalogs asked as the user."""
    request_bytes: Annotated[int, Field(strict=True, ge=65_536, le=2**31 - 1)] = 16 * 1024**2
    """Largest request."""
    request_timeout_s: Seconds = 60.0
    """Seconds from a request's first byte to its last."""
    call_timeout_s: Seconds = 120.0
    """Seconds that a call may take, the catalog's answer included."""
    idle_timeout_s: Seconds = 300.0
    """Seconds that a connection is kept without a request."""
    calls: Count = 64
    """Calls that are worked on at once; further ones wait."""
    calls_per_user: Count = 128
    """Calls of one user that are in progress at once; further ones are answered 429."""


class _Administered(Section):
    """What administrators alone may use: somebody has to be named."""

    administrators: tuple[Name, ...] = ()
    administrator_groups: tuple[Name, ...] = ()

    @model_validator(mode="after")
    def _somebody_administers(self) -> Self:
        if not self.administrators and not self.administrator_groups:
            raise ValueError("set `administrators` or `administrator_groups`")
        return self


class RangerApiSettings(_Administered):
    """Apache Ranger's admin REST API below `/service`, with its policies in the ledger's PostgreSQL and
    logins from `users`, see docs/admin-api.md. Without this section it is disabled."""

    administrators: tuple[Name, ...] = ()
    """Users who may do everything."""
    administrator_groups: tuple[Name, ...] = ()
    """Groups whose members may do everything."""
    plugins: tuple[Name, ...] = ()
    """Users who may download the policies, tags, roles and users of every service, and nothing else."""
    delegates_may_override: bool = False
    """Whether delegated administrators may, as in Ranger, write policies with `policyPriority` 1, which
    override denials of others, and replace masks and row filters of others."""


class LineageApiSettings(Section):
    """Queries of the column lineage below `/lineage`, with logins from `users`; see docs/admin-api.md.
    Everybody sees what policies let them know of. Without this section it is disabled."""

    administrators: tuple[Name, ...] = ()
    """Users who may see all columns, and everybody's statements."""
    administrator_groups: tuple[Name, ...] = ()
    """Groups whose members may."""


class TagApiSettings(_Administered):
    """Proposals of tags below `/tags`, with logins from `users`; see docs/admin-api.md. Without this section
    it is disabled."""

    administrators: tuple[Name, ...] = ()
    """Users who may list, accept and reject proposals."""
    administrator_groups: tuple[Name, ...] = ()
    """Groups whose members may."""


class SessionApiSettings(_Administered):
    """Open sessions below `/sessions`, with logins from `users`; see docs/admin-api.md. Without this section
    it is disabled."""

    administrators: tuple[Name, ...] = ()
    """Users who may list and end sessions."""
    administrator_groups: tuple[Name, ...] = ()
    """Groups whose members may."""


class AdminListener(Section):
    """`/healthz`, `/readyz` and Prometheus `/metrics` without login, so keep it on a private address; the
    console, and Ranger's REST API and the column lineage, when enabled, with one."""

    host: Host = "127.0.0.1"
    """Address to listen on."""
    port: Port = 10080
    """Port to listen on; 0 picks a free one."""
    tls: Tls | None = None
    """Without it passwords cross the network in the clear."""
    balancers: tuple[Network, ...] = ()
    """As of `listeners.thrift`."""
    ranger: RangerApiSettings | None = None
    lineage: LineageApiSettings | None = None
    tags: TagApiSettings | None = None
    sessions: SessionApiSettings | None = None
    console: ConsoleSettings | None = ConsoleSettings()


class Listeners(Section):
    """Addresses that the gateway listens on."""

    thrift: ThriftListener = ThriftListener()
    thrift_http: ThriftHttpListener | None = None
    connect: ConnectListener | None = None
    iceberg_rest: IcebergRestListener | None = None
    admin: AdminListener = AdminListener()
