"""Logs clients in by the chain: failures slow their address down, and every login is recorded either way."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import structlog

from gateway.errors import AuthenticationFailed
from gateway.frontends.certificate_logins import NOT_IN_TIME, is_in_time
from gateway.frontends.guessing import FailedLogins, FailureCounter
from gateway.frontends.identities import Identities
from gateway.frontends.login_chain import (
    MAX_REMEMBERED,
    LoginChain,
    LoginKind,
    LoginMechanism,
    LoginOutcome,
    looks_like_jwt,
)
from gateway.frontends.login_cookies import LoginCookies
from gateway.frontends.login_mechanisms import NO_DIRECTORY, check_cookie
from gateway.frontends.tokens import WITHOUT_SESSIONS, digest, endpoint_of, looks_like_token, token_id
from gateway.model.bounded import BoundedDict
from gateway.model.credentials import (
    Bearer,
    ClientCertificate,
    Cookie,
    Credentials,
    Negotiation,
    Password,
    ProxiedUser,
    UnreadableLogin,
)
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.model.tracing import Tracer, traced_request
from gateway.session import audit_records
from gateway.session.metrics import Metrics
from gateway.session.ports import ASKER, CatalogAsker
from gateway.session.recorder import Recorder

_log = structlog.get_logger(__name__)

BROKE = "the login failed by a fault of the gateway; the operator finds it in the log"


def peer_certificate(transport: asyncio.BaseTransport | None) -> bytes | None:
    """Return the certificate that a client has shown in TLS, which OpenSSL has checked; None for nothing."""
    tls = transport.get_extra_info("ssl_object") if transport is not None else None
    if tls is None or tls.context.verify_mode == ssl.CERT_NONE:
        return None
    found: bytes | None = tls.getpeercert(binary_form=True)
    return found


ShownBeside = Password | Bearer | Cookie | Negotiation | ProxiedUser | UnreadableLogin | None
"""What a client may show beside a certificate."""


class Authenticator:
    """Turns credentials into a Principal, or refuses without saying what of them was wrong."""

    def __init__(
        self,
        chain: LoginChain,
        *,
        recorder: Recorder,
        metrics: Metrics,
        guesses: FailedLogins | None = None,
        cookies: LoginCookies | None = None,
        identities: Identities | None = None,
        tracer: Tracer | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`identities` hears of who logs in without being in the user file."""
        self._tracer = tracer
        self.cookies = cookies or LoginCookies()
        self._chain = chain
        self._guesses = guesses or FailedLogins(clock=clock)
        self._identities = identities
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock
        self._now = now
        self._recorded: BoundedDict[tuple[str, str, str, str], float] = BoundedDict(MAX_REMEMBERED)

    @property
    def takes_kerberos(self) -> bool:
        """Whether somebody may log in by Kerberos."""
        return "KERBEROS" in self._chain.kinds

    def with_certificate(self, shown: ShownBeside, der: bytes | None) -> Credentials | None:
        """Return what a client shows, with its certificate where certificates say who somebody is; elsewhere
        it has to be in time, as with the handshake."""
        if der is None or isinstance(shown, UnreadableLogin):
            return shown
        if "CERTIFICATE" in self._chain.kinds:
            return ClientCertificate(der, shown)
        # RULE (certificate-in-time-of-anybody)
        return shown if is_in_time(der, self._now()) else UnreadableLogin(NOT_IN_TIME, "CERTIFICATE")

    async def login(self, shown: Credentials, client: Client) -> Principal:
        """Check what a client shows. Raises AuthenticationFailed; either way an audit event is written."""
        return self._require_known(*await self._log_in(shown, client, record_success=True))

    def _require_known(self, outcome: LoginOutcome, kind: LoginKind) -> Principal:
        """Return who has logged in. Raises AuthenticationFailed where nobody has, and for who was removed
        since: nobody would end what he opens from here on."""
        outcome = self._chain.reserve(outcome, kind)  # RULE (removed-while-logging-in)
        if outcome.principal is None:
            raise AuthenticationFailed(outcome.reason)
        return outcome.principal

    async def _log_in(
        self, shown: Credentials, client: Client, *, record_success: bool
    ) -> tuple[LoginOutcome, LoginKind]:
        with traced_request(self._tracer, "login") as span:
            outcome, kind = await self._decide(shown, client, record_success=record_success)
            if span is not None:
                span.note(mechanism=kind, protocol=client.protocol, accepted=outcome.principal is not None)
            return outcome, kind

    async def _decide(
        self, shown: Credentials, client: Client, *, record_success: bool
    ) -> tuple[LoginOutcome, LoginKind]:
        """Say what comes of what a client shows, and record it. Raises AuthenticationFailed where that would
        be one record too many."""
        fault = self._chain.find_fault(shown)
        shown, must_be = self._chain.narrow(shown)
        kind = self._chain.kind_of(shown)
        address = self._guesses.of(client.address)
        is_guess = fault is None and kind == "PLAIN" and isinstance(shown, Password)
        failed: list[FailureCounter] = []
        try:
            if fault is not None:
                outcome = LoginOutcome(diagnosis=fault, reason=fault, counts=True)
            else:
                outcome = await self._check(shown, address, client)
            if outcome.counts:
                # Nothing is waited for since the lock was left, so the next guess comes after this.
                address.refuse_blocked()
                failed = [address]
                if is_guess and isinstance(shown, Password):
                    failed.append(self._guesses.of_user(shown.user))
                for one in failed:
                    one.count_failure()
        except AuthenticationFailed as blocked:
            outcome = LoginOutcome(diagnosis="blocked", reason=blocked.message)
            if address.block_recorded:
                # One event tells of a block; a flood must not fill the audit record's disk.
                self._metrics.logins.labels("blocked").inc()
                raise
            address.block_recorded = True
        # RULE (asks-by-own-token)
        ASKER.set(CatalogAsker(secret_of(shown) if kind == "JWT" and outcome.principal is not None else ""))
        principal = outcome.principal
        if principal is not None and must_be not in ("", principal.user):  # RULE (certificate-and-login)
            told = "the certificate belongs to another user"
            outcome = LoginOutcome(diagnosis=told, reason=told, user=principal.user)
            principal = None
        elsewhere = outcome.endpoints and endpoint_of(client.protocol) not in outcome.endpoints
        if principal is not None and elsewhere:  # RULE (token-for-endpoint)
            told = "the token is not for this endpoint"
            outcome = LoginOutcome(diagnosis=told, reason=told, user=principal.user)
            principal = None
        is_rest = endpoint_of(client.protocol) in WITHOUT_SESSIONS
        if principal is not None and outcome.is_away and is_rest:  # RULE (no-grace-without-session)
            outcome = LoginOutcome(diagnosis=NO_DIRECTORY, reason=NO_DIRECTORY, user=principal.user)
            principal = None
        if principal is None or record_success:  # RULE (logins-counted)
            self._metrics.logins.labels("rejected" if principal is None else "accepted").inc()
        is_news = not (outcome.of_file or outcome.is_remembered)
        if principal is not None and is_news and self._identities is not None:
            self._identities.note(principal, outcome.source)
        if principal is not None and not record_success:
            return outcome, kind
        named = _name(shown.user) if isinstance(shown, Password | UnreadableLogin) else outcome.user
        sent = None
        try:
            await self._record(named, client, kind, principal, outcome.reason)
        finally:  # who is gone before the record is written has guessed all the same
            if failed:
                sent = self._guesses.count_elsewhere(failed, is_guess=is_guess)  # RULE (failures-shared)
        if sent is not None and is_guess:
            await sent.wait()  # the next guess, at whichever gateway, comes after this
        return outcome, kind

    async def record_bad_certificate(self, protocol: str, address: str, reason: str) -> None:
        """Record a certificate that TLS did not take, and the connection with it."""
        with contextlib.suppress(AuthenticationFailed):
            await self.login(
                UnreadableLogin(reason, "CERTIFICATE"), Client(protocol=protocol, address=address)
            )

    async def login_each_time(
        self, shown: Credentials, client: Client, *, record_every_s: float
    ) -> Principal:
        """`login` for a protocol that shows the same with every request: a success is recorded once in
        a while only, by who it is and from where."""
        outcome, kind = await self._log_in(shown, client, record_success=False)
        principal = self._require_known(outcome, kind)
        key = (client.protocol, kind, principal.user, client.address)
        if self._is_due(key, record_every_s):
            # Whoever comes meanwhile waits until it is on the disk, and records no second one.
            async with self._guesses.of(client.address).lock:
                if self._is_due(key, record_every_s):
                    await self._record(principal.user, client, kind, principal)
                    self._metrics.logins.labels("accepted").inc()
                    self._recorded[key] = self._clock()
            return self._require_known(outcome, kind)
        return principal

    def cookie_for(self, principal: Principal, shown: Credentials) -> str | None:
        """Return a cookie for who has just logged in by what was shown; None where he is gone already, and
        for whom the user file has not let in."""
        user, kind = self._chain.users().get(principal.user), self._chain.kind_of(shown)
        if user is None or not isinstance(shown, Password | Bearer):
            return None
        secret = secret_of(shown)
        # RULE (cookie-of-what-was-shown)
        secret_hash = digest(secret) if kind == "TOKEN" else user.password_hash if kind == "PLAIN" else ""
        if not secret_hash:
            return None
        if any(one.hash == secret_hash and one.is_confined for one in user.tokens):
            return None  # the cookie would say nothing of what the token is for
        return self.cookies.issue(user, secret_hash)

    def token_of(self, shown: Credentials) -> str:
        """Return the id of the token that somebody shows, or that his cookie stands for; empty for none."""
        cookie = shown.beside if isinstance(shown, ClientCertificate) else shown
        if not isinstance(cookie, Cookie):
            return token_id(shown)
        owner = self.cookies.owner(cookie.value, self._chain.users())
        return owner.token.id if owner is not None and owner.token is not None else ""

    async def _check(self, shown: Credentials, address: FailureCounter, client: Client) -> LoginOutcome:
        if isinstance(shown, Cookie):
            return check_cookie(self.cookies, shown.value, self._chain.users())
        try:
            outcome, _ = await self._chain.decide(shown, partial(self._ask, shown, address, client))
        except (AuthenticationFailed, ConnectionError):
            raise  # it is blocked, or has given up
        except Exception as fault:  # noqa: BLE001 - a fault of ours lets nobody in, and is recorded
            # Neither its text nor its variables: they may have the secret.
            where = "".join(traceback.format_tb(fault.__traceback__))
            _log.error("login_broke", fault=type(fault).__name__, where=where)
            outcome = LoginOutcome(diagnosis="broke", reason=BROKE, counts=True)
        return outcome

    async def _ask(
        self, shown: Credentials, address: FailureCounter, client: Client, mechanism: LoginMechanism
    ) -> LoginOutcome:
        if not isinstance(shown, Password) or "PLAIN" not in mechanism.kinds:
            # Whatever the block: nobody guesses 256 bits, nor a signature.
            return await mechanism.check(shown)
        remembered = self._chain.remembered
        # Before the block: guessing from behind one address must not lock out the pools behind it.
        if (known := remembered.find(mechanism, shown)) is not None:
            return known
        address.refuse_blocked()
        async with address.lock:
            address.refuse_blocked()
            if (known := remembered.find(mechanism, shown)) is not None:
                return known
            user = self._guesses.of_user(shown.user)
            counters = [address, user]
            is_counted = await self._guesses.ask_others(counters)
            address.refuse_blocked()
            if self._guesses.is_known(shown.user, client.address):
                outcome = await mechanism.check(shown)
            else:
                async with user.lock:
                    user.refuse_blocked()  # RULE (user-locked)
                    outcome = await mechanism.check(shown)
            if outcome.principal is not None:
                self._guesses.note_login(shown.user, client.address)
                is_counted = is_counted or bool(address.failures or user.failures)
                for one in counters:
                    one.clear()
                if is_counted:
                    await self._guesses.clear_others(counters)
                remembered.note(mechanism, shown, outcome)
            elif outcome.is_away:
                # Sessions that are open go on for a while; new ones are refused when they are opened.
                if (known := remembered.find(mechanism, shown, in_grace=True)) is not None:
                    return known
                # RULE (guesses-while-away)
                return replace(outcome, counts=remembered.has_another(mechanism, shown))
            return outcome

    def _is_due(self, key: tuple[str, str, str, str], record_every_s: float) -> bool:
        return self._clock() - self._recorded.get(key, float("-inf")) >= record_every_s

    async def _record(
        self, user: str, client: Client, mechanism: str, principal: Principal | None, reason: str = ""
    ) -> None:
        await self._recorder.record(
            audit_records.login,
            principal.user if principal is not None else user,
            client,
            accepted=principal is not None,
            reason=reason,
            principal=principal,
            mechanism=mechanism,
        )


def secret_of(shown: Credentials) -> str:
    """Return the password or token that somebody shows; empty for anything else."""
    match shown:
        case Password(_, secret) | Bearer(secret):
            return secret
    return ""


def _name(user: str) -> str:
    """Return a name for the record, which keeps no token that somebody has typed in its place."""
    return "" if looks_like_token(user) or looks_like_jwt(user) else user  # RULE (token-in-place-of-name)
