"""How a Spark behind its Thrift Server is reached, and what its sessions are opened with."""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gateway.backends.spark_thrift_connection import SparkAddress
from gateway.errors import InvalidRequest
from gateway.model.reading_settings import READING_SETTINGS
from gateway.model.spark_configuration import ParserConfiguration
from gateway.model.spark_logins import SparkLogin
from gateway.session import ports
from gateway.wire.sasl import PlainClient, SaslClient

PROXY_USER = "hive.server2.proxy.user"
"""Key of OpenSession's configuration: whom a login acts as, if `hadoop.proxyuser` there lets it."""
USE_DATABASE = "use:database"
"""Key of `settings` that names the database to begin in."""

_SETTING = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,254}")


class KerberosTickets(Protocol):
    """What has tickets for the server. Raises BackendUnavailable where it can get none."""

    async def begin_sasl(self) -> SaslClient: ...

    async def negotiate(self) -> str:
        """Return the `Authorization` of one request of HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkThriftOptions:
    """Which Spark, and how the gateway shows itself to it."""

    address: SparkAddress
    service: str = ""
    """Who logs in, and acts as each user; empty: each user by his name alone."""
    password: str = field(default="", repr=False)
    """Sent with every login, for a Spark that checks logins; Spark without one ignores it.

    Empty stands for `anonymous`, as hive-jdbc has it: Spark's PLAIN refuses an empty one even then.
    """
    kerberos: KerberosTickets | None = None
    """By which the service logs in, in place of a password."""
    user_tokens: Callable[[SparkLogin], Awaitable[str]] | None = None
    """Over HTTP: returns the token that a user logs in by, or raises AuthenticationFailed or
    BackendUnavailable; None: as above."""
    reader: ParserConfiguration = field(default_factory=ParserConfiguration)
    """The parser that texts are proved by; Spark must read as it does."""
    pinned: Mapping[str, str] = field(default_factory=lambda: READING_SETTINGS)
    catalogs: Callable[[], Mapping[str, str]] = dict
    """What every session is told of catalogs; asked when one is opened, may raise Faults."""
    catalog_logins: ports.CatalogLogins = ports.no_logins
    named_catalogs: frozenset[str] = frozenset()
    """Those that names may begin with, told or not: a Spark that lacks one gets no statement."""
    secrets: Sequence[str] = field(default=(), repr=False)
    """What no client may read in what Spark says of a statement."""
    stop_grace_s: float = 10.0
    """Seconds between cancelling a statement and closing it; planning should be over by then."""


async def begin_login(options: SparkThriftOptions, user: str) -> SaslClient:
    """Return the login of a connection for a user: his own by name, or the service's. Raises InvalidRequest,
    BackendUnavailable."""
    if options.kerberos is not None:
        return await options.kerberos.begin_sasl()
    try:
        return PlainClient(options.service or user, options.password or "anonymous")
    except ValueError as error:
        raise InvalidRequest("the user name cannot be encoded for Spark") from error


async def write_authorization(options: SparkThriftOptions, login: SparkLogin) -> str:
    """Return what a request of HTTP shows for a user. Raises AuthenticationFailed, BackendUnavailable."""
    if options.user_tokens is not None:
        return f"Bearer {await options.user_tokens(login)}"
    if options.kerberos is not None:
        return await options.kerberos.negotiate()
    return write_basic(options.service or login.principal.user, options.password or "anonymous")


def write_basic(user: str, password: str) -> str:
    """Return the `Authorization` of a name and a password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def session_configuration(pinned: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration of OpenSession: the client's settings, and the pinned ones over them.

    `settings` holds plain keys of Spark, and `use:database`. Raises InvalidRequest for a key that is pinned,
    that could change the identity, or that is not a plain key, and for a value that Hive would substitute.
    """
    configuration: dict[str, str] = {}
    frozen = {key.lower() for key in pinned}
    for key, value in settings.items():
        if "${" in value or "\0" in value:
            raise InvalidRequest(f"the value of setting `{key}` must not contain a variable substitution")
        if key == USE_DATABASE:
            configuration[key] = value
        elif not _SETTING.fullmatch(key) or "proxy" in key.lower() or key.lower() in frozen:
            raise InvalidRequest(f"clients cannot set `{key}`")
        else:
            configuration[f"set:hiveconf:{key}"] = value
    configuration.update({f"set:hiveconf:{key}": value for key, value in pinned.items()})
    return configuration
