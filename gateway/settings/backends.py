"""What `backend`, `backends` and `routing` of the settings may hold: the Sparks, and who gets which."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gateway.settings.section import (
    Count,
    Heap,
    Host,
    MadePath,
    Name,
    Port,
    Seconds,
    Secret,
    Section,
    ServerPort,
    is_local,
    require_safe_url,
)

BackendName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,62}$")]
MinorText = Annotated[str, Field(pattern=r"^[0-9]{1,3}\.[0-9]{1,3}$")]


class ParserSettings(Section):
    """Its parser, where that is not the one of `reader`. What is not said, the Spark is asked."""

    spark_home: Path | None = None
    """As `reader.spark_home`."""
    spark_version: MinorText | None = None
    """As `reader.spark_version`."""
    extensions: tuple[Name, ...] | None = None
    """As `reader.extensions`."""
    extension_jars: tuple[Path, ...] = ()
    """As `reader.extension_jars`."""

    @property
    def in_reader(self) -> dict[str, Any]:
        """The values that `reader` has for this Spark."""
        return {name: getattr(self, name) for name in type(self).model_fields}


class KubernetesSettings(Section):
    """EndpointSlices of a service, asked of Kubernetes' API."""

    service: Name
    """Name of the service."""
    namespace: Name
    """Its namespace."""
    api: Name = "https://kubernetes.default.svc"
    """Address of the API."""
    token: Secret | None = None
    """Token that may list EndpointSlices; by default that of the pod's service account."""
    ca_file: Path | None = None
    """PEM file of the authorities that verify the API's certificate; by default the pod's."""

    @model_validator(mode="after")
    def _address_is_safe(self) -> KubernetesSettings:
        require_safe_url("api", self.api)
        return self


class DiscoverySettings(Section):
    """Sparks that come and go: each address is a Spark of its own, named `BACKEND@ADDRESS`, with the
    ports, tokens and rules of this backend. They have to share a metastore. One of `file`, `dns` and
    `kubernetes`."""

    file: Path | None = None
    """File with one address per line, read again when it changes."""
    dns: Host | None = None
    """Name whose A and AAAA records are the addresses."""
    kubernetes: KubernetesSettings | None = None
    every_s: Seconds = 5.0
    """Seconds between two looks."""
    most: Annotated[int, Field(strict=True, ge=1, le=256)] = 32
    """Addresses that are used; each costs a catalog and, for its first of a version, a parser."""

    @model_validator(mode="after")
    def _one_source(self) -> DiscoverySettings:
        if [self.file, self.dns, self.kubernetes].count(None) != 2:
            raise ValueError("set one of `file`, `dns` and `kubernetes`")
        return self


class ThriftLogin(Section):
    """A login of the gateway's own that may act as every user, where the server checks logins by password:
    LDAP and CUSTOM of Spark, Hive or Kyuubi."""

    user: Name
    """Its name: one of `hadoop.proxyuser` there."""
    password: Secret
    """Its password."""


class ThriftKerberos(Section):
    """A ticket of the gateway's own by which it may act as every user, where the server has
    `hive.server2.authentication: KERBEROS`. Needs the extra `kerberos`."""

    server: Annotated[str, Field(pattern=r"^[^\s/@]+/[^\s/@]+@[^\s/@]+$", max_length=500)]
    """The server's principal, such as `hive/_HOST@CORP.EXAMPLE`; `_HOST` is `host`. Over HTTP its first part
    is `HTTP`."""
    user: Annotated[str, Field(pattern=r"^[^\s@]+@[^\s/@]+$", max_length=500)]
    """The gateway's own principal; its short name is one of `hadoop.proxyuser` there."""
    keytab: Path
    """Its keys."""
    qop: Annotated[tuple[Literal["auth", "auth-int", "auth-conf"], ...], Field(min_length=1)] = ("auth",)
    """Protections of binary connections that are taken, the best first; what the server offers is
    `hive.server2.thrift.sasl.qop` there. With `auth` only `tls` protects what follows the login."""


class ThriftBackend(Section):
    """A running Spark Thrift Server, reachable from the gateway only, or another server of HiveServer2's
    protocol before one."""

    host: Host
    """Name or address of the Thrift Server."""
    port: ServerPort = 10000
    """Its port."""
    transport: Literal["binary", "http"] = "binary"
    """As `hive.server2.transport.mode` there."""
    http_path: Annotated[str, Field(pattern=r"^[A-Za-z0-9._/-]{1,200}$")] = "cliservice"
    """Path of the HTTP transport."""
    tls: bool = False
    """Whether the server uses TLS."""
    ca_file: Path | None = None
    """PEM file of the authorities that verify its certificate; by default the system's."""
    login: ThriftLogin | None = None
    """Without it each user logs in by his name alone, as to a Spark that checks no logins. With it he is
    acted as: by `hive.server2.proxy.user`, over HTTP by `doAs`."""
    kerberos: ThriftKerberos | None = None
    """The same by a ticket."""

    @model_validator(mode="after")
    def _passwords_are_safe(self) -> ThriftBackend:
        if self.ca_file is not None and not self.tls:
            raise ValueError("`ca_file` needs `tls: true`")
        if self.login is not None and not (self.tls or is_local(self.host)):
            raise ValueError("`login` needs `tls: true`: its password would cross the network in the clear")
        if self.login is not None and self.kerberos is not None:
            raise ValueError("the gateway logs in by `login` or by `kerberos`, not by both")
        return self


class ConnectBackend(Section):
    """A running Spark Connect server, reachable from the gateway only."""

    host: Host
    """Name or address of the Spark Connect server."""
    port: ServerPort = 15002
    """Its port."""
    token: Secret | None = None
    """The server's `spark.connect.authenticate.token`, as `{env: NAME}` or `{file: PATH}`. Beside `identity`
    it is what the gateway itself shows, and no user."""
    tls: bool = False
    """Whether the server, or a proxy before it, uses TLS; Spark itself does not."""
    ca_file: Path | None = None
    """PEM file of the authorities that verify its certificate; by default the system's."""
    channels: Annotated[int, Field(strict=True, ge=1, le=64)] = 4
    """Connections to it, shared by all sessions."""
    sluice: Annotated[bool, Field(strict=True)] = False
    """Whether another Sluice is there, before its Spark; it needs `logins.jwt` with `gateway: true` for the
    issuer of `token_signing` here, and this one `identity: {by: signed}`."""

    @model_validator(mode="after")
    def _authorities_are_for_tls(self) -> ConnectBackend:
        if self.ca_file is not None and not self.tls:
            raise ValueError("`ca_file` needs `tls: true`")
        return self


class IdentitySettings(Section):
    """Whom users are shown as to a gateway or proxy that logs users in by itself: each by a token of his own,
    over Spark Connect and the HTTP transport. See docs/backends.md."""

    by: Literal["signed", "exchanged", "passed_on"]
    """`signed`: a token by the key of `token_signing`. `exchanged`: one that the issuer of `logins.jwt` gives
    for the user's (`logins.jwt.exchange`). `passed_on`: the token itself that he has logged in by."""
    audience: str = ""
    """For whom tokens are: `aud`, or the `audience` that is asked for."""
    groups: tuple[Name, ...] | None = None
    """Groups that signed tokens tell, of those that the user is in; by default all."""
    own_user: Name = "sluice"
    """Name in the signed tokens by which the gateway itself asks for tables. No user may have it."""

    @model_validator(mode="after")
    def _audience_is_said(self) -> IdentitySettings:
        if self.by != "passed_on" and not self.audience:
            raise ValueError(f"`audience` is missing: tokens that are {self.by} are for somebody")
        return self


class TokenSigningSettings(Section):
    """The key by which the gateway says who its users are, to Sparks with `identity: {by: signed}`. What
    checks these tokens finds the public keys at `/.well-known/jwks.json` of `listeners.admin`."""

    issuer: Name
    """`iss` of the tokens."""
    keys: Annotated[tuple[Secret, ...], Field(min_length=1, max_length=8)]
    """Private keys in PEM: the first signs, all are published. EC P-256 (`ES256`), Ed25519 (`EdDSA`) or RSA
    (`RS256`). Read again every half minute."""
    lifetime_s: Annotated[float, Field(ge=30, le=86_400)] = 300.0
    """Seconds for which a token counts; open sessions get another when half of it is over."""


class EmbeddedBackend(Section):
    """A Spark on this machine that starts and stops with the gateway, for demos and tests. It has a Thrift
    Server and Spark Connect."""

    directory: MadePath = Path("run/spark")
    """Directory of metastore, warehouse and logs."""
    heap: Heap = "1g"
    """Java heap."""
    cores: Annotated[int, Field(strict=True, ge=1, le=256)] = 2
    """Tasks that Spark runs at once."""
    quick_start: bool = True
    """Without Java's optimising compiler: ready in half the CPU time, slower at its peak."""
    thrift_port: Port = 0
    """Port of its Thrift Server on 127.0.0.1; 0 picks a free one."""
    connect_port: Port = 0
    """Port of its Spark Connect on 127.0.0.1; 0 picks a free one."""
    start_timeout_s: Seconds = 240.0
    """Seconds for it to answer a first statement."""


class BackendSettings(Section):
    """Spark. Either `embedded`, or one or both of `thrift` and `connect`, two endpoints of one and the same
    Spark. With `connect` alone there is no listener for Thrift clients."""

    thrift: ThriftBackend | None = None
    connect: ConnectBackend | None = None
    embedded: EmbeddedBackend | None = None
    connect_timeout_s: Seconds = 10.0
    """Seconds for connecting to Spark and logging in."""
    login_timeout_s: Seconds = 60.0
    """Seconds for Spark to open a client's session, which may wait for its metastore."""
    call_timeout_s: Seconds = 60.0
    """Seconds without a reply before a call counts as lost; Spark itself holds a status call for 5 s."""
    statements: Count = 100
    """Statements of Thrift clients that Spark runs at once: its `hive.server2.async.exec.threads`, with the
    same default. More wait, fairly between users. Spark Connect has no such limit."""
    waiting: Count = 1000
    """Statements that wait at once; more are refused."""
    wait_s: Seconds = 300.0
    """Seconds that a statement waits until Spark has room for it."""
    groups: tuple[Name, ...] | None = None
    """Groups whose members may use it; with neither `groups` nor `users` everybody may."""
    users: tuple[Name, ...] | None = None
    """Users who may use it."""
    tags: tuple[BackendName, ...] = ()
    """Names that it shares with others: clients and rules of `routing` may ask for a tag."""
    weight: Annotated[int, Field(strict=True, ge=0, le=1000)] = 1
    """Its share of new sessions among those that a rule leaves to choose from; 0: only when no other one is
    there."""
    metastore: BackendName | None = None
    """Name of its metastore. Sparks with the same one lock the names of tables together; by default each has
    its own, and what one says of a table is never used for another in any case."""
    drain: bool = False
    """Whether it gets no new sessions; open ones go on. Changes with a reload."""
    identity: IdentitySettings | None = None
    parser: ParserSettings = ParserSettings()
    discover: DiscoverySettings | None = None

    @model_validator(mode="after")
    def _one_spark(self) -> BackendSettings:
        running = self.thrift is not None or self.connect is not None
        if self.discover is not None and not running:
            raise ValueError("`discover` needs `thrift` or `connect`, whose ports and tokens its Sparks have")
        if running and self.embedded is not None:
            other = "thrift" if self.thrift is not None else "connect"
            raise ValueError(f"set either `{other}` or `embedded`, not both")
        if not running and self.embedded is None:
            raise ValueError("set either `thrift` or `embedded`")
        if self.identity is not None:
            self._require_safe_tokens()
        if self.connect is not None and self.connect.sluice:
            if self.identity is None or self.identity.by != "signed":
                raise ValueError("`sluice: true` needs `identity: {by: signed}`: it logs users in by itself")
            if self.thrift is not None:
                raise ValueError("another Sluice is reached over Spark Connect alone, without `thrift`")
        return self

    def _require_safe_tokens(self) -> None:
        http = self.thrift if self.thrift is not None and self.thrift.transport == "http" else None
        shown = [one for one in (self.connect, http) if one is not None]
        if not shown:
            raise ValueError("`identity` needs `connect`, or `thrift` with `transport: http`")
        if http is not None and (http.login is not None or http.kerberos is not None):
            raise ValueError(
                "`thrift` shows users by `identity`, by `login` or by `kerberos`, not by several"
            )
        if not all(one.tls or (is_local(one.host) and self.discover is None) for one in shown):
            raise ValueError("`identity` needs `tls: true`: tokens would cross the network in the clear")

    @property
    def serves_thrift(self) -> bool:
        """Whether it has a Thrift Server."""
        return self.embedded is not None or self.thrift is not None

    @property
    def serves_connect(self) -> bool:
        """Whether it has Spark Connect."""
        return self.embedded is not None or self.connect is not None

    def at_host(self, host: str) -> BackendSettings:
        """Return the settings of the Spark of these that was discovered at an address."""
        update: dict[str, Any] = {"discover": None}
        for name in ("thrift", "connect"):
            if (one := getattr(self, name)) is not None:
                update[name] = one.model_copy(update={"host": host})
        return self.model_copy(update=update)


class RoutingRuleSettings(Section):
    """Where new sessions go for which all that is said here is so. The first such rule counts."""

    groups: tuple[Name, ...] | None = None
    """The user is in one of these groups."""
    users: tuple[Name, ...] | None = None
    """The user is one of these."""
    catalogs: tuple[Name, ...] | None = None
    """The session starts in one of these catalogs."""
    backends: Annotated[tuple[BackendName, ...], Field(min_length=1)]
    """Names or tags of the Sparks to choose from, by weight and by how many sessions each has."""
    version: MinorText | None = None
    """Of these only Sparks of this minor version."""


class RoutingSettings(Section):
    """Which of several Sparks a new session gets, where its client does not ask for one."""

    rules: tuple[RoutingRuleSettings, ...] = ()
    """The first rule that matches counts; a user who may use none of its Sparks is refused."""
    default: tuple[BackendName, ...] | None = None
    """Names or tags of the Sparks to choose from where no rule matches; by default that of `backend` and
    those that share its metastore."""
    check_s: Annotated[float, Field(ge=0.1, le=60)] = 0.5
    """Seconds between two looks whether a Spark takes connections."""
    failures: Annotated[int, Field(strict=True, ge=1, le=100)] = 2
    """Failures in a row after which a Spark gets no new sessions."""
    retry_s: Seconds = 5.0
    """Seconds until it is tried again; one success lets sessions in."""
    open_s: Seconds = 5.0
    """Seconds for a Spark to open a new session while there is another one that could: then that one is
    tried."""
