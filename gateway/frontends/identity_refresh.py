"""Keeps who is logged in what he is: groups and attributes in open sessions follow the user file and the
directory, and sessions end of those who may not log in any more.

Users of the file follow it at once. The directory is asked again for its own every `refresh_s`; while it
cannot be asked nobody of them opens a session, and open ones go on for `grace_s`. Of others nobody can be
asked, as of an issuer's: their sessions go on for `unconfirmed_s` after their last login.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from gateway.errors import AuthenticationFailed
from gateway.frontends.identities import Identities
from gateway.frontends.impersonation import Impersonation
from gateway.frontends.known_users import KnownUsers
from gateway.frontends.ldap_rules import LdapDirectory, LdapRefused, LdapUnavailable, LdapUnknown
from gateway.frontends.login_mechanisms import NO_DIRECTORY
from gateway.frontends.tokens import Token
from gateway.frontends.user_file import NOBODY
from gateway.frontends.users import Users
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.session.open_sessions import REMOVED, OpenSessions

_log = structlog.get_logger(__name__)

TOKEN_ENDED = "the token was revoked or has expired"  # noqa: S105 - a message
NOT_CONFIRMED = "nobody has confirmed for too long that the user may log in"
NO_RULE = "acting as another user is not allowed any more"
LOG_IN_AGAIN = "the user has changed since the login; log in again"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityBounds:
    """How old what is known of users may be."""

    refresh_s: float = 300.0
    """Between two questions to the directory."""
    grace_s: float = 3600.0
    """How long open sessions go on while the directory cannot be asked."""
    unconfirmed_s: float = 86_400.0
    """How long sessions go on after the last login of somebody of whom nobody can be asked."""
    ends_removed: bool = True
    """Whether what the user file does not have any more ends what was opened by it."""


class IdentityRefresh:
    """One for all endpoints of a gateway; sessions ask it for whom they are: `ports.CurrentIdentity`."""

    def __init__(
        self,
        users: Callable[[], Users],
        identities: Identities,
        known: KnownUsers,
        sessions: OpenSessions,
        *,
        directory: LdapDirectory | None = None,
        impersonation: Impersonation | None = None,
        bounds: IdentityBounds | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`directory`: the one that passwords are checked at, whether or not it finds users by name."""
        self._users = users
        self._identities = identities
        self._known = known
        self._sessions = sessions
        self._directory = directory
        self._impersonation = impersonation
        self.bounds = bounds or IdentityBounds()
        self._clock = clock
        self._now = now
        self._first_seen: dict[str, float] = {}
        """Identities with open sessions of whose logins nothing is known."""

    async def run(self) -> None:
        """Ask again and again, until cancelled."""
        while True:
            await asyncio.sleep(min(self.bounds.refresh_s, self.bounds.grace_s))
            try:
                await self.refresh()
            except Exception:  # noqa: BLE001 - a task's root: no fault may stop the looking
                _log.exception("identities_not_refreshed")

    # -- for sessions ------------------------------------------------------------------------------------

    def current(self, principal: Principal, client: Client) -> Principal:
        """Return somebody who is logged in with the groups and attributes of now."""
        user = self._users().get(principal.user)
        found = principal
        if user is not None and user.principal.id == principal.id:
            found = user.principal
        elif user is None:
            confirmed = self._identities.find(principal)
            if confirmed is not None and confirmed.source != "claims":
                found = confirmed.principal
        token = self._token(principal, client)
        return token.confine(found) if token is not None else found

    def admit(self, principal: Principal, client: Client) -> Principal:
        """Return for whom a session is opened. Raises AuthenticationFailed for who could not log in now."""
        users = self._users()
        user = users.get(principal.user)
        if user is not None and user.principal.id != principal.id:
            raise AuthenticationFailed(LOG_IN_AGAIN)
        if client.token and not self._is_good(self._token(principal, client)):
            raise AuthenticationFailed(TOKEN_ENDED)
        is_away = self._directory is not None and self._directory.report() is not None
        if is_away and user is None:  # RULE (directory-away-no-session)
            confirmed = self._identities.find(principal)
            if confirmed is None or confirmed.source != "claims":
                raise AuthenticationFailed(NO_DIRECTORY)
        return self.current(principal, client)

    # -- looking -----------------------------------------------------------------------------------------

    async def follow_file(self) -> None:
        """Take up what the user file says of users with open sessions, and end those whose tokens it does not
        have any more. Who was removed is another's matter: `UserFile` tells."""
        if self._users() is not NOBODY:  # RULE (unreadable-file-ends-nothing)
            await self._end_of_file()
            await self._renew()

    async def refresh(self) -> None:
        """Look at everybody with an open session; at nobody while the user file cannot be read: statements
        are refused then, and nobody knows whose names are the file's."""
        if self._users() is NOBODY:
            return
        await self._end_of_file()
        people = {one.principal.identity: one.principal for one in self._sessions.all()}
        self._first_seen = {one: at for one, at in self._first_seen.items() if one in people}
        for principal in people.values():
            if principal.user not in self._users():
                await self._confirm(principal)
        real = {one.client.real_user for one in self._sessions.all()} - {""} - self._users().keys()
        for name in sorted(real):
            await self._confirm_real(name)
        await self._renew()

    async def _confirm(self, principal: Principal) -> None:
        """Ask for a user again, and end his sessions where he may not log in any more."""
        confirmed = self._identities.find(principal)
        source = confirmed.source if confirmed is not None else "directory"
        if confirmed is None:
            if not self.bounds.ends_removed:
                return  # he may have been of the file
            at = self._first_seen.setdefault(principal.identity, self._clock())
        else:
            at = confirmed.at
        age_s = self._clock() - at
        directory = self._known.directory
        if directory is None or source == "claims":
            if age_s > self.bounds.unconfirmed_s:
                await self._end(principal, NOT_CONFIRMED)
            return
        try:
            found = await directory.find(principal.user)
        except LdapUnavailable:
            if age_s > self.bounds.grace_s:  # RULE (grace-ends)
                await self._end(principal, NOT_CONFIRMED)
        except LdapUnknown:
            if source == "nowhere":
                self._identities.note(principal, source)
            else:
                await self._end(principal, REMOVED)
        except LdapRefused:
            await self._end(principal, REMOVED)  # RULE (disabled-sessions-end)
        else:
            if found.identity == principal.identity:
                self._identities.note(found, "directory")
            elif source == "nowhere" and not principal.id:
                self._identities.note(principal, source)
            else:
                await self._end(principal, REMOVED)

    async def _confirm_real(self, name: str) -> None:
        """End what somebody has open as others who may not log in himself any more."""
        directory = self._known.directory
        if directory is None:
            return
        if (known := self._real(name)) is not None and self._is_claimed(known):
            return
        try:
            self._identities.note(await directory.find(name), "directory")
        except LdapUnavailable:
            pass  # those as whom he acts are asked for at the same directory
        except LdapRefused:
            await self._sessions.end_where(lambda _, client: client.real_user == name, REMOVED)

    async def _end(self, principal: Principal, reason: str) -> None:
        self._identities.forget(principal)
        identity = principal.identity
        count = await self._sessions.end_where(lambda one, _: one.identity == identity, reason)
        _log.info("sessions_ended", reason=reason, sessions=count)

    async def _end_of_file(self) -> None:
        """End what was opened by tokens that nobody may show any more, and by who is not whom the file has
        under that name."""
        if not self.bounds.ends_removed:
            return

        def is_over(principal: Principal, client: Client) -> bool:
            # RULE (revoked-token-ends)
            return bool(client.token) and not self._is_good(self._token(principal, client))

        def is_another(principal: Principal, _: Client) -> bool:
            user = self._users().get(principal.user)
            return user is not None and user.principal.id != principal.id

        await self._sessions.end_where(is_over, TOKEN_ENDED)
        await self._sessions.end_where(is_another, REMOVED)

    async def _renew(self) -> None:
        """Have open sessions judge by what is known of their users now."""
        for session in self._sessions.all():
            session.renew_principal(self.current(session.principal_now, session.client))
        if self._impersonation is not None:
            allowed = self._impersonation.still_allows

            def is_over(principal: Principal, client: Client) -> bool:
                # RULE (acts-as-still-allowed)
                return bool(client.real_user) and not allowed(
                    self._real(client.real_user), client.address, self.current(principal, client)
                )

            await self._sessions.end_where(is_over, NO_RULE)

    def _real(self, name: str) -> Principal | None:
        """Return who acts as another; None where nothing is known of him."""
        return self._identities.principals.get(name)

    def _is_claimed(self, principal: Principal) -> bool:
        confirmed = self._identities.find(principal)
        return confirmed is not None and confirmed.source == "claims"

    def _token(self, principal: Principal, client: Client) -> Token | None:
        """Return the token that a session was opened by."""
        if not client.token:
            return None
        owner = self._users().get(client.real_user or principal.user)
        tokens = owner.tokens if owner is not None else ()
        return next((one for one in tokens if one.id == client.token), None)

    def _is_good(self, token: Token | None) -> bool:
        return token is not None and not token.is_expired(self._now())
