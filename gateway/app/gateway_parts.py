"""What endpoints, and what is mounted at the operators' listener, are made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from gateway.admin.listener import Check
from gateway.app.certificates import CertificatePair, context_of
from gateway.app.logins import Logins
from gateway.app.policy_authors import AuthorRights
from gateway.app.probes import Probes, build_connection_limiter
from gateway.app.reloading import Reloading
from gateway.app.rules import PolicyRegistry
from gateway.app.sparks import Sparks
from gateway.audit.ledger import FileLedger
from gateway.frontends.authentication import Authenticator
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.frontends.guessing import FailedLogins
from gateway.frontends.identities import Identities
from gateway.frontends.login_cookies import LoginCookies
from gateway.frontends.user_file import UserFile
from gateway.lineage.following import Follower
from gateway.reader.pool import ReaderPool
from gateway.session.dependencies import Dependencies
from gateway.session.open_sessions import OpenSessions
from gateway.session.recorder import Recorder
from gateway.session.routing.thrift import RoutedSessions
from gateway.settings.listeners import Tls
from gateway.settings.models import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayParts:
    """What endpoints are made of. What they start they close by `stack`, and what they have to do while
    the gateway serves they add to `background`."""

    settings: Settings
    stack: AsyncExitStack
    background: list[Coroutine[Any, Any, None]]
    dependencies: Dependencies
    sparks: Sparks
    spark_version: str
    """As clients are told it."""
    reader: ReaderPool
    rules: PolicyRegistry
    users: UserFile
    identities: Identities
    logins: Logins
    guesses: FailedLogins
    open_sessions: OpenSessions
    ledger: FileLedger
    dsn: str
    lineage: Follower | None
    notes: Mapping[str, Check]
    """More that `/readyz` tells, and that does not stop clients from being sent here."""
    authors: AuthorRights
    """Says what the authors of policies may select."""
    probes: Probes
    """The operators' listener, which has been there since the start."""
    reloading: Reloading
    """What takes up other settings without a restart."""

    @property
    def sessions(self) -> RoutedSessions | None:
        """Those of all endpoints that take statements as texts; None where no Spark has a Thrift Server."""
        if not self.settings.serves_thrift:
            return None
        return RoutedSessions(
            self.sparks.fleet,
            self.recorder,
            self.dependencies.lifecycle,
            first_catalog=self.dependencies.first_context.catalog,
            named_catalogs=self.settings.named_catalogs,
        )

    @property
    def recorder(self) -> Recorder:
        """What records logins, which are at no Spark."""
        return Recorder(self.ledger, self.ledger.gateway, self.dependencies.metrics)

    def authenticator(self, cookies: LoginCookies | None = None) -> Authenticator:
        """Return an endpoint's own, by the chain of all; failed logins are counted for all together."""
        return Authenticator(
            self.logins.chain,
            recorder=self.recorder,
            metrics=self.dependencies.metrics,
            guesses=self.guesses,
            cookies=cookies,
            identities=self.identities,
            tracer=self.dependencies.tracer,
        )

    def build_connection_limiter(self, listener: str) -> ConnectionLimiter:
        """Return what accepts the connections of a listener."""
        made = build_connection_limiter(
            self.settings, self.dependencies.metrics, listener, self.probes.handed
        )
        self.reloading.connection_limiters[listener] = made
        return made

    def push_closing(self, close: Callable[[float], Awaitable[None]]) -> None:
        """Have a listener closed that goes through the seconds that it is given twice."""
        self.stack.push_async_callback(lambda: close(self.dependencies.lifecycle.compute_seconds_left() / 2))

    def follow(
        self,
        listener: str,
        tls: Tls | None,
        door: ConnectionLimiter,
        make: Callable[[CertificatePair], Any] = context_of,
    ) -> None:
        """Have a listener take up certificates that change. `make`: what it shakes hands by."""
        if tls is not None:
            self.reloading.certificates.add(listener, tls, lambda pair: door.renew(make(pair)))
