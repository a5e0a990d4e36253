"""What a gateway would start with and should not: what others may change, passwords in the clear, addresses
that everybody may claim, and settings that nothing comes of."""

from __future__ import annotations

import ipaddress
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509

from gateway.app.certificates import UNUSABLE
from gateway.app.endpoints import ENDPOINTS
from gateway.app.rule_files import RULE_PATTERNS, rule_files
from gateway.errors import Faults
from gateway.settings.loading import Location, paths_in
from gateway.settings.models import Settings

Warned = tuple[Location, str]

_OTHERWISE = frozenset({"file", "key", "keytab", "certificate"})
"""Last keys of paths whose files nobody else may even read, which is told by itself, or decide nothing."""
_MASTER = re.compile(r"(local|local\[(\*|\d+)(,\s*\d+)?\]|local-cluster\[.*\]|yarn|(spark|k8s)://.+)?")
"""What `spark-submit --master` takes."""
_TRUSTED = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables by which OpenSSL finds the system's authorities."""


def find_changeable(settings: Settings, config: Path | None) -> Iterator[Warned]:
    """Yield the files by which it is decided who may do what, and their directories, that every user of the
    machine may change."""
    found: dict[Path, Location] = {} if config is None else {config: ()}
    for at, path in paths_in(settings):
        if at[-1] not in _OTHERWISE:
            found.setdefault(path, at)
    for index, path in enumerate(settings.policies.paths):
        try:
            files = rule_files([path], RULE_PATTERNS)
        except Faults:
            continue  # told where they are read
        for file in files:
            found.setdefault(file, ("policies", "paths", index))
    for path, at in found.items():
        try:
            mode, mounted = path.stat().st_mode, os.statvfs(path).f_flag
        except OSError:
            continue
        kept_apart = stat.S_ISDIR(mode) and mode & stat.S_ISVTX
        if mode & stat.S_IWOTH and not kept_apart and not mounted & os.ST_RDONLY:
            yield at, f"`{path}` is writable by every user (mode {stat.S_IMODE(mode):04o}): run `chmod o-w`"


def find_open_ways(settings: Settings) -> Iterator[Warned]:
    """Yield where passwords cross a network in the clear, and where everybody may say who he is."""
    for endpoint in ENDPOINTS:
        listener = endpoint.listener(settings)
        if listener is None:
            continue
        at: Location = ("listeners", endpoint.name)
        admin = settings.listeners.admin
        logs_in = endpoint.name != "admin" or any((admin.ranger, admin.lineage, admin.tags, admin.sessions))
        if listener.tls is None and logs_in and not _is_loopback(listener.host):
            yield (
                (*at, "host"),
                f"`listeners.{endpoint.name}` has no `tls` on {listener.host}: passwords and tokens cross "
                "the network in the clear, unless something before it has TLS",
            )
        for name in ("trusted_proxies", "balancers"):
            if any(network.prefixlen == 0 for network in getattr(listener, name, ())):
                yield (
                    (*at, name),
                    f"`listeners.{endpoint.name}.{name}` trusts every address: whoever connects can claim to "
                    "be at any other",
                )
    iceberg = settings.listeners.iceberg_rest
    own = {one.name for one in settings.catalogs if one.catalog.user_credentials}.union(settings.audiences)
    for name in iceberg.catalogs if iceberg is not None and iceberg.credentials == "readers" else ():
        if name not in own:
            yield (
                ("listeners", "iceberg_rest", "credentials"),
                f"`listeners.iceberg_rest.credentials` is `readers`, and catalog `{name}` is asked by the "
                "login of the settings: whoever may load a table gets logins to files by its rights",
            )
    for index, entry in enumerate(settings.policies.ranger):
        hosts = (urlsplit(url) for url in entry.urls)
        if entry.user is not None and any(
            one.scheme == "http" and not _is_loopback(one.hostname or "") for one in hosts
        ):
            yield (
                ("policies", "ranger", index, "urls"),
                f"the password of `{entry.user}` crosses the network in the clear: use `https://`",
            )


def find_useless(settings: Settings) -> Iterator[Warned]:
    """Yield settings that nothing comes of."""
    if not settings.policies.catalogs and not settings.catalogs and not settings.metalakes:
        yield (
            ("policies", "catalogs"),
            "`policies.catalogs` is empty: every statement that names a table is refused",
        )
    for name in settings.policies.catalogs:
        if not re.fullmatch(r"\w[\w-]*", name):
            yield ("policies", "catalogs", name), f"`{name}` is no name of a catalog that Spark can have"
    openlineage = settings.lineage.openlineage
    for name in openlineage.catalogs if openlineage.transport != "off" else ():
        if name not in settings.named_catalogs:
            yield (
                ("lineage", "openlineage", "catalogs", name),
                f"there is no catalog `{name}`: its namespace is never used",
            )
    if settings.jobs.schedule and not _MASTER.fullmatch(settings.jobs.master):
        yield (
            ("jobs", "master"),
            f"jobs will fail: `{settings.jobs.master}` is nothing that `spark-submit --master` takes",
        )
    trusts = any(str(url).startswith(("https:", "ldaps:")) for url in _urls(settings))
    for variable in _TRUSTED if trusts else ():
        path = os.environ.get(variable)
        if path and not any(Path(one).exists() for one in path.split(os.pathsep)):
            yield (
                (),
                f"the environment variable `{variable}` names `{path}`, which does not exist: no "
                "certificate is trusted",
            )


def find_no_authority(path: Path) -> str | None:
    """Return that no certificate of a file may sign those of clients, or None."""
    try:
        found = x509.load_pem_x509_certificates(path.read_bytes())
        signs = [one.extensions.get_extension_for_class(x509.BasicConstraints).value.ca for one in found]
    except (OSError, x509.ExtensionNotFound, *UNUSABLE):
        return None  # one that does not say so may sign; what cannot be read is told elsewhere
    return None if any(signs) else f"`{path}` has no authority: none of its certificates may sign others"


def _urls(settings: Settings) -> Iterator[str]:
    for entry in settings.policies.ranger:
        yield from entry.urls if entry.ca_file is None else ()
    ldap, jwt = settings.logins.ldap, settings.logins.jwt
    if ldap is not None and ldap.ca_file is None:
        yield from ldap.urls
    if jwt is not None:
        yield jwt.issuer


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
