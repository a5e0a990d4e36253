"""Looks at what a gateway opens on its machine, for `sluice check` and `sluice serve` in the same words."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import ssl
import stat
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

from gateway.app.certificates import now, ran_out_on, read_pair, tls_context
from gateway.app.database_checks import dsn_fault
from gateway.app.descriptors import few_descriptors
from gateway.app.endpoints import ENDPOINTS, login_cookies, require_free
from gateway.app.explaining import find_parser_jars
from gateway.app.logins import make_logins
from gateway.app.propagation_rules import propagation_rules
from gateway.app.ranger_services import tls_of
from gateway.app.rule_files import RULE_PATTERNS, rule_files
from gateway.app.seal_keys import older_seal_keys
from gateway.app.site_exposure import (
    find_changeable,
    find_no_authority,
    find_open_ways,
    find_useless,
)
from gateway.app.site_places import (
    find_clashing_addresses,
    find_shared_directories,
    find_unfit_heaps,
    list_wanted_addresses,
)
from gateway.app.writable_places import disk_bytes, free_bytes, unwritable, unwritable_file
from gateway.audit.seals import read_signing_key
from gateway.errors import Faults, SluiceError, one_line
from gateway.frontends.users import User, read_users
from gateway.model.table_formats import BY_EXTENSION, LISTED_EXTENSIONS
from gateway.policy.diagnostics import Diagnostics
from gateway.policy.documents import parse_document
from gateway.reader.java_runtime import JavaNotFound, find_java
from gateway.settings.listeners import Tls
from gateway.settings.loading import Location, check_files_exist, paths_in, secrets_in
from gateway.settings.models import Settings
from gateway.settings.section import Secret

T = TypeVar("T")
CONNECT_PACKAGES = ("pyspark", "grpc", "pandas", "pyarrow", "zstandard")
"""What Spark Connect's half of a gateway imports; looked for, and not imported, which takes seconds."""
LOCK = "gateway.lock"
"""File in the ledger's directory that a gateway holds while it runs."""
MIN_FREE_BYTES = 16 * 2**20
"""Left on the spool's disk; with less, statements stop soon after the start."""
MOUNTED = Path("/run/secrets")
"""Where orchestrators of containers put secrets."""
OTHERS = stat.S_IRWXO | stat.S_IWGRP
"""Who may not read what only the gateway is to know. A group may: orchestrators mount secrets for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReport:
    """What is wrong where a gateway is to run."""

    faults: tuple[str, ...] = ()
    """What keeps it from starting, each with file and line."""
    warnings: tuple[str, ...] = ()
    not_asked: tuple[str, ...] = ()
    """What was not looked at, and why."""


def check_site(
    settings: Settings,
    config: Path | None,
    *,
    machine: bool = True,
    starting: bool = False,
    held: Collection[str] = (),
    worker: int = 1,
) -> SiteReport:
    """Look at everything that a gateway of these settings opens on its machine: files, secrets, certificates,
    keys, users, ports, directories and packages. Nothing is started, made, or asked over the network.

    `config` is the settings' file, for lines. Without `machine` only at the files that settings name and that
    belong to them, as where they are written. `starting`: for the gateway that is about to; otherwise one
    that runs with these settings may have its ports. `held`: listeners that are there already. `worker`:
    which of a gateway's workers starts."""
    return _Site(settings, config, starting=starting, held=held, worker=worker).report(machine=machine)


class _Site:
    def __init__(
        self,
        settings: Settings,
        config: Path | None,
        *,
        starting: bool,
        held: Collection[str],
        worker: int,
    ) -> None:
        self._settings = settings
        self._config = config
        document = None
        if config is not None:
            document = parse_document(config.read_bytes(), str(config))
        self._diagnostics = Diagnostics(document)
        self._elsewhere: list[str] = []
        """Faults with places of their own."""
        self._warnings: list[str] = []
        self._not_asked: list[str] = []
        self._starting = starting
        self._held = held
        self._worker = worker

    def report(self, *, machine: bool) -> SiteReport:
        settings = self._settings
        check_files_exist(settings, self._diagnostics)
        self._keys_and_authorities()
        if machine:
            self._secrets()
            for endpoint in ENDPOINTS:
                listener = endpoint.listener(settings)
                if listener is not None and listener.tls is not None:
                    self._certificate(listener.tls, ("listeners", endpoint.name, "tls"))
            self._ports()
            self._logins()
            self._users()
            self._directories()
            self._packages()
            self._jobs()
            changeable = find_changeable(settings, self._config)
            for at, warning in chain(changeable, find_open_ways(settings), find_useless(settings)):
                self._diagnostics.warn(at, warning)
        faults = (*self._diagnostics.texts(), *self._elsewhere)
        return SiteReport(
            faults=tuple(dict.fromkeys(faults)),
            warnings=tuple(dict.fromkeys((*self._diagnostics.warnings, *self._warnings))),
            not_asked=tuple(self._not_asked),
        )

    # -- secrets ---------------------------------------------------------------------------------------------

    def _secrets(self) -> None:
        for place, secret in secrets_in(self._settings):
            where = (*place, secret.kind)
            if secret.file is not None and not secret.file.exists():
                continue  # told as a missing file
            value = self._try(where, secret.reveal)
            if not isinstance(value, str):
                continue
            if not value.strip():
                self._diagnostics.add(where, f"the secret in {_describe_secret(secret)} is empty")
            elif value != value.strip() and not value.startswith("-----BEGIN"):
                self._diagnostics.warn(
                    where, f"the secret in {_describe_secret(secret)} has surrounding blanks or line breaks"
                )
            if secret.file is not None:
                self._mode(where, secret.file)
        ledger = self._settings.ledger
        dsn = _reveal(ledger.dsn)
        if dsn is not None and dsn.strip() and (fault := dsn_fault(dsn)) is not None:
            self._diagnostics.add(("ledger", "dsn"), fault)
        if (key := _reveal(ledger.seal_key)) is not None:
            self._try(("ledger", "seal_key"), partial(read_signing_key, key))
        http = self._settings.listeners.thrift_http
        if http is not None and _reveal(http.cookie_key):
            self._try(("listeners", "thrift_http", "cookie_key"), partial(login_cookies, http))
        for name, backend in self._settings.all_backends.items():
            place = ("backends", name) if name in self._settings.backends else ("backend",)
            if backend.thrift is not None and backend.thrift.kerberos is not None:
                self._mode((*place, "thrift", "kerberos", "keytab"), backend.thrift.kerberos.keytab)
            token = _reveal(backend.connect.token) if backend.connect is not None else None
            if token is None or (token.isascii() and token.isprintable() and token == token.strip()):
                continue
            self._diagnostics.add(
                (*place, "connect", "token"),
                f"`{'.'.join(place)}.connect.token` has surrounding blanks or non-ASCII characters",
            )

    def _mode(self, where: Location, path: Path) -> None:
        """Warn of a secret that others of the machine may read or change."""
        if path.is_relative_to(MOUNTED):
            return  # nobody else is in a container, and who mounts it chooses the mode
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            return  # told where it is read
        if mode & OTHERS:
            self._diagnostics.warn(
                where, f"`{path}` is accessible to other users (mode {mode:04o}): run `chmod 600`"
            )

    # -- listeners -------------------------------------------------------------------------------------------

    def _certificate(self, tls: Tls, at: Location) -> None:
        if not (tls.certificate.exists() and tls.key.exists()):
            return
        self._mode((*at, "key"), tls.key)
        pair = self._try((*at, "certificate"), lambda: read_pair(tls))
        if pair is None:
            return
        # OpenSSL refuses more: keys that are too short, for one.
        self._try((*at, "certificate"), lambda: tls_context(tls))
        name = str(tls.certificate)
        if (fault := pair.expiry_fault(name, now())) is not None:
            self._diagnostics.add((*at, "certificate"), fault)
        for warning in (pair.expiry_warning(name, now()), *pair.warnings):
            if warning is not None:
                self._diagnostics.warn((*at, "certificate"), warning)

    def _ports(self) -> None:
        directory = self._settings.ledger.directory
        if gateway_runs(directory):
            # Its ports are these: who asks, and who starts a second one, is to be told of one thing.
            if self._starting:
                self._diagnostics.add(("ledger", "directory"), f"another gateway already uses `{directory}`")
            else:
                self._not_asked.append(f"ports were not checked: a running gateway uses `{directory}`")
            return
        clashing = dict(find_clashing_addresses(self._settings))
        for at, fault in clashing.items():
            self._diagnostics.add(at, fault)
        for one in list_wanted_addresses(self._settings):
            held = one.at[0] == "listeners" and one.at[1] in self._held
            if one.at not in clashing and not held:
                self._try(one.at, partial(require_free, one.host, one.port))

    def _logins(self) -> None:
        """Make the ways to log in as a gateway does: of keytabs, rules and packages that these need."""
        settings, logins = self._settings, self._settings.logins
        if logins.kerberos is not None:
            self._mode(("logins", "kerberos", "keytab"), logins.kerberos.keytab)
        secrets = (secret for place, secret in secrets_in(settings) if place[0] == "logins")
        if all(path.exists() for at, path in paths_in(settings) if at[0] == "logins") and all(
            _reveal(secret) is not None for secret in secrets
        ):
            made = self._try(("logins",), lambda: make_logins(settings, dict))
            if made is not None:
                if (trouble := made.chain.report()) is not None:
                    self._diagnostics.warn(("logins",), trouble)
                made.chain.close()
        listeners = [endpoint.listener(settings) for endpoint in ENDPOINTS]
        shown = (one.tls.client_ca for one in listeners if one is not None and one.tls is not None)
        if logins.certificates is not None and not any(shown):
            self._diagnostics.warn(
                ("logins", "certificates"), "no listener asks for certificates: set `client_ca` of its `tls`"
            )
        if logins.proxies is not None and settings.listeners.thrift_http is None:
            self._diagnostics.warn(
                ("logins", "proxies"), "nobody can log in by a proxy: `listeners.thrift_http` is not set"
            )

    # -- users, keys, authorities ----------------------------------------------------------------------------

    def _users(self) -> None:
        file = self._settings.users.file
        try:
            users = read_users(file)
        except Faults as error:
            if file.exists():
                self._elsewhere += error.faults
            else:
                self._diagnostics.add(
                    ("users", "file"), f"`{file}` does not exist: create it with `sluice users add NAME`"
                )
            return
        if not users and self._settings.logins.ldap is None and self._settings.logins.jwt is None:
            self._diagnostics.warn(("users", "file"), f"`{file}` has no users: nobody can log in")
        self._mode(("users", "file"), file)
        if users:
            self._administrators(users)
            self._proxy_users(users)

    def _keys_and_authorities(self) -> None:
        settings = self._settings
        services = set(settings.policies.catalogs.values())
        for index, entry in enumerate(settings.policies.ranger):
            speaking = entry.adds_to or entry.service
            if speaking not in services and not settings.metalakes:
                self._diagnostics.warn(
                    ("policies", "ranger", index),
                    f"no catalog has the service `{speaking}`: policies of `{entry.service}` are never used; "
                    "add it to `policies.catalogs`",
                )
            files = (entry.ca_file, entry.certificate, entry.key)
            if all(file is None or file.exists() for file in files):
                self._try(("policies", "ranger", index), partial(tls_of, entry))
            if entry.key is not None:
                self._mode(("policies", "ranger", index, "key"), entry.key)
        for at, path in paths_in(settings):
            shown = at[:2] == ("policies", "ranger") and at[-1] == "certificate"
            if (shown or at[-1] in ("ca_file", "client_ca")) and (ran_out := ran_out_on(path)) is not None:
                self._diagnostics.warn(
                    at, f"`{path}` expired on {ran_out:%Y-%m-%d} and is not trusted any more"
                )
            if at[-1] == "client_ca" and (none := find_no_authority(path)) is not None:
                self._diagnostics.warn(at, none)
            if at[-1] == "ca_file" and at[:2] != ("policies", "ranger") and path.exists():
                try:
                    ssl.create_default_context(cafile=str(path))
                except (OSError, ssl.SSLError) as error:
                    self._diagnostics.add(
                        at, f"`{path}` has no certificates in PEM format: {one_line(str(error))}"
                    )
        if all(path.exists() for path in settings.ledger.older_seal_keys):
            self._elsewhere += _faults(lambda: older_seal_keys(settings.ledger))
        rules = settings.tag_propagation.rules
        if rules is None or rules.exists():
            self._elsewhere += _faults(lambda: propagation_rules(settings.tag_propagation))

    # -- directories and packages ----------------------------------------------------------------------------

    def _directories(self) -> None:
        self._read_directories()
        self._directories_to_make()
        self._spool(self._settings.ledger.directory)

    def _read_directories(self) -> None:
        for index, path in enumerate(self._settings.policies.paths):
            at = ("policies", "paths", index)
            if path.is_dir() and self._try(at, partial(rule_files, [path], RULE_PATTERNS)) == []:
                self._diagnostics.warn(at, f"`{path}` has no policies: no `*.yaml` and no `*.json`")
        for name, source in self._settings.files.items():
            local = source.root.removeprefix("file:")
            if local != source.root and not Path("/" + local.lstrip("/")).is_dir():
                self._diagnostics.warn(
                    ("files", name, "root"),
                    f"`{source.root}` is not a directory on this machine, where the gateway checks for links",
                )

    def _directories_to_make(self) -> None:
        for at, shared in find_shared_directories(self._list_made_directories()):
            self._diagnostics.add(at, shared)
        try:
            tempfile.gettempdir()
        except FileNotFoundError:
            self._elsewhere.append(
                "there is no directory for temporary files; create `/tmp`, or set `TMPDIR`"
            )
        for at, directory in self._list_made_directories():
            if (fault := unwritable(directory)) is not None:
                self._diagnostics.add(at, fault)
        openlineage = self._settings.lineage.openlineage
        if openlineage.transport == "file" and (fault := unwritable_file(openlineage.file)) is not None:
            self._diagnostics.add(("lineage", "openlineage", "file"), fault)

    def _spool(self, spool: Path) -> None:
        at = ("ledger", "directory")
        if (fault := unwritable_file(spool / LOCK)) is not None:
            self._diagnostics.add(at, fault)
        # The spool of a worker is in that of the first one, which is of the same gateway.
        own = spool.parent.resolve() if self._worker > 1 else None
        for above in Path(os.path.realpath(spool)).parents:
            if above != own and gateway_runs(above):
                self._diagnostics.add(at, f"`{spool}` is within the spool of a running gateway, `{above}`")
        if (left := free_bytes(spool)) is not None and left < MIN_FREE_BYTES:
            self._diagnostics.add(
                at, f"the disk of `{spool}` has {left // 2**20} MiB left: statements stop when it is full"
            )
        if (size := disk_bytes(spool)) is not None and size < self._settings.ledger.spool_bytes:
            self._diagnostics.warn(
                ("ledger", "spool_bytes"),
                f"the disk of `{spool}` has {size // 2**20} MiB in all, and so is full before "
                "`ledger.spool_bytes` is reached",
            )
        if spool.is_dir() and (mode := stat.S_IMODE(spool.stat().st_mode)) & (stat.S_IWGRP | stat.S_IWOTH):
            self._diagnostics.warn(
                at, f"`{spool}` is writable by other users (mode {mode:04o}): run `chmod 700`"
            )

    def _jobs(self) -> None:
        """Warn of jobs that would fail each time that they are due."""
        jobs = self._settings.jobs
        for name, section in (("classify", jobs.classify), ("proof", jobs.proof)):
            if name in jobs.schedule and (section.gateway is None or section.token is None):
                self._diagnostics.warn(
                    ("jobs", "schedule", name),
                    f"the job `{name}` will fail: `jobs.{name}` needs `gateway` and `token`",
                )
        of_iceberg = {one.name.lower() for one in self._settings.catalogs if one.catalog.type == "iceberg"}
        if jobs.catalog is not None and jobs.catalog.lower() not in of_iceberg:
            self._diagnostics.warn(
                ("jobs", "catalog"),
                f"jobs will fail: `catalogs` has no catalog `{jobs.catalog}` of type `iceberg`",
            )

    def _list_made_directories(self) -> Iterator[tuple[Location, Path]]:
        """Yield the directories in which a gateway writes."""
        settings = self._settings
        yield ("ledger", "directory"), settings.ledger.directory
        if settings.ledger.dsn is None:
            yield ("ledger", "embedded", "directory"), settings.ledger.embedded.directory
        for name, backend in settings.all_backends.items():
            if backend.embedded is not None:
                at = ("backends", name) if name in settings.backends else ("backend",)
                yield (*at, "embedded", "directory"), backend.embedded.directory
        for index, entry in enumerate(settings.policies.ranger):
            if entry.cache is not None:
                yield ("policies", "ranger", index, "cache"), entry.cache
        if settings.jobs.schedule and settings.jobs.remote is None and settings.jobs.catalog is None:
            yield ("jobs", "directory"), settings.jobs.directory
        openlineage = settings.lineage.openlineage
        if openlineage.transport == "http" and openlineage.http is not None:
            yield ("lineage", "openlineage", "http", "spool"), openlineage.http.spool
        if openlineage.transport == "file":
            yield ("lineage", "openlineage", "file"), openlineage.file.parent

    def _administrators(self, users: Mapping[str, User]) -> None:
        """Warn of parts of the operators' listener that nobody can use."""
        admin = self._settings.listeners.admin
        for name in ("ranger", "lineage", "tags", "sessions"):
            part = getattr(admin, name)
            if part is None or not (part.administrators or part.administrator_groups):
                continue
            groups = set(part.administrator_groups)
            if not any(u in part.administrators or groups & v.principal.groups for u, v in users.items()):
                self._diagnostics.warn(
                    ("listeners", "admin", name),
                    f"`listeners.admin.{name}`: none of the administrators is in "
                    f"`{self._settings.users.file}`",
                )

    def _proxy_users(self, users: Mapping[str, User]) -> None:
        """Warn of rules of impersonation that nobody can use: of users whom no way to log in knows."""
        logins = self._settings.logins
        if any((logins.jwt, logins.ldap, logins.kerberos, logins.certificates, logins.proxies)):
            return
        for index, rule in enumerate(logins.impersonation):
            groups = set(rule.groups)
            if not any(u in rule.users or groups & v.principal.groups for u, v in users.items()):
                self._diagnostics.warn(
                    ("logins", "impersonation", index),
                    f"none of the users and groups of `logins.impersonation` is in "
                    f"`{self._settings.users.file}`",
                )

    def _packages(self) -> None:
        settings = self._settings
        self._jars()
        for at, warning in find_unfit_heaps(settings):
            self._diagnostics.warn(at, warning)
        if not self._starting and (few := few_descriptors(settings)) is not None:
            self._warnings.append(few)
        try:
            find_java(settings.reader.java)
        except JavaNotFound as error:
            self._diagnostics.add(("reader", "java"), error.message)
        if settings.ledger.dsn is None:
            from gateway.database.postgres import EmbeddedPostgres  # optional: tests/test_architecture.py

            postgres = self._try(
                ("ledger", "embedded"), partial(EmbeddedPostgres, settings.ledger.embedded.directory)
            )
            if postgres is not None:
                self._try(("ledger", "embedded"), postgres.require_usable)
        if settings.listeners.connect is not None:
            missing = [name for name in CONNECT_PACKAGES if importlib.util.find_spec(name) is None]
            for name in missing[:1]:
                self._diagnostics.add(
                    ("listeners", "connect"),
                    f"`listeners.connect` needs `{name}`, which is not installed; install the extra `spark`",
                )

    def _jars(self) -> None:
        """Look for the jars of the Spark that the settings name; without one, Spark is asked which it is."""
        settings = self._settings
        reader = settings.reader
        if reader.spark_home is not None or reader.spark_version is not None:
            key = "spark_home" if reader.spark_home is not None else "spark_version"
            try:
                find_parser_jars(reader)
            except Faults as error:
                for fault in error.faults:
                    self._diagnostics.add(("reader", key), fault)
            except SluiceError as error:
                self._diagnostics.add(("reader", key), error.message)
        for index, name in enumerate(reader.extensions or ()):
            if name not in LISTED_EXTENSIONS:
                self._diagnostics.add(
                    ("reader", "extensions", index),
                    f"`{name}` is no extension that a gateway reads texts with: {', '.join(BY_EXTENSION)}",
                )
        for index, path in enumerate(reader.extension_jars):
            if (unfit := _jar_fault(path)) is not None:
                self._diagnostics.add(("reader", "extension_jars", index), unfit)
        for index, path in enumerate(settings.jobs.jars if settings.jobs.schedule else ()):
            if (unfit := _jar_fault(path)) is not None:
                self._diagnostics.warn(("jobs", "jars", index), f"jobs will fail: {unfit}")

    def _try(self, at: Location, work: Callable[[], T]) -> T | None:
        """Return what the work returns; None where it raises Faults, which are noted at a place."""
        try:
            return work()
        except Faults as error:
            for fault in error.faults:
                self._diagnostics.add(at, fault)
            return None


@contextmanager
def only_one(directory: Path) -> Iterator[None]:
    """Hold the directory for this process. Raises Faults when another gateway has it.

    Without this a second gateway would take over the first one's PostgreSQL, fail later, and stop it.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (directory / LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Faults([f"another gateway already uses `{directory}`"]) from None
        yield


def gateway_runs(directory: Path) -> bool:
    """Whether a gateway holds its ledger's directory now."""
    try:
        with (directory / LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _describe_secret(secret: Secret) -> str:
    if secret.env is not None:
        return f"the environment variable `{secret.env}`"
    if secret.command is not None:
        return f"the command `{secret.command[0]}`"
    return f"`{secret.file or secret.vault}`"


def _jar_fault(path: Path) -> str | None:
    if path.is_dir() and not any(path.glob("*.jar")):
        return f"`{path}` has no `*.jar`"
    return f"`{path}` is not a jar" if path.is_file() and not zipfile.is_zipfile(path) else None


def _reveal(secret: Secret | None) -> str | None:
    try:
        return secret.reveal() if secret is not None else None
    except Faults:
        return None  # told already


def _faults(work: Callable[[], object]) -> Iterator[str]:
    try:
        work()
    except Faults as error:
        yield from error.faults
