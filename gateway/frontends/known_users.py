"""Finds users by name alone, for who logs in by something that says no groups: a ticket or a certificate."""

from __future__ import annotations

import time
from collections.abc import Callable

from gateway.frontends.ldap_rules import (
    LdapDirectory,
    LdapRefused,
    LdapUnavailable,
    LdapUnknown,
    LdapUnusable,
)
from gateway.frontends.login_chain import MAX_REMEMBERED, LoginOutcome
from gateway.frontends.login_mechanisms import NO_DIRECTORY
from gateway.frontends.users import Users
from gateway.model.bounded import BoundedDict
from gateway.model.principal import Principal

UNLISTED = "the user is neither in the user file nor in the directory"


class KnownUsers:
    """Users of the user file, which counts first, and of the directory."""

    def __init__(
        self,
        users: Callable[[], Users],
        directory: LdapDirectory | None,
        *,
        grace_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`grace_s`: for how long somebody is known while the directory cannot be asked; new sessions are
        another matter."""
        self._users = users
        self.directory = directory
        self._grace_s = grace_s
        self._clock = clock
        self._found: BoundedDict[str, tuple[Principal, float]] = BoundedDict(MAX_REMEMBERED)
        """What the directory said a moment ago: clients of HTTP log in with every call."""

    async def find(self, user: str, *, unlisted: bool = False) -> LoginOutcome:
        """Say who a user is that has been identified. `unlisted`: whether anybody whom nobody knows may be
        one."""
        found = self._users().get(user)
        if found is not None:
            return LoginOutcome(diagnosis="accepts the login", principal=found.principal, of_file=True)
        if self.directory is not None:
            try:
                principal, is_old = await self._ask(self.directory, user)
                if principal.user not in self._users():  # RULE (known-by-one-name)
                    told = "accepts the login"
                    return LoginOutcome(diagnosis=told, principal=principal, is_remembered=is_old)
                unlisted = False
            except LdapUnavailable as fault:
                if (known := self._find_recent(user, self._grace_s)) is not None:
                    told = "accepts the login, as before"
                    return LoginOutcome(diagnosis=told, principal=known, is_remembered=True, is_away=True)
                told = f"not available: {fault}"
                return LoginOutcome(diagnosis=told, reason=NO_DIRECTORY, user=user, is_away=True)
            except LdapUnknown:
                pass
            except LdapUnusable as fault:
                return LoginOutcome(diagnosis=f"rejected: {fault}", reason=str(fault), user=user)
            except LdapRefused:  # RULE (disabled-is-not-unlisted)
                unlisted = False
        if unlisted:
            told = "accepts the login, without groups"
            return LoginOutcome(diagnosis=told, principal=Principal(user=user), source="nowhere")
        return LoginOutcome(diagnosis=f"rejected: {UNLISTED}", reason=UNLISTED, user=user, counts=True)

    async def _ask(self, directory: LdapDirectory, user: str) -> tuple[Principal, bool]:
        """Return who a user is, and whether that was asked before."""
        if (known := self._find_recent(user, directory.rules.remember_s)) is not None:
            return known, True
        try:
            principal = await directory.find(user)
        except LdapRefused:
            self._found.pop(user, None)
            raise
        self._found[user] = (principal, self._clock())
        return principal, False

    def _find_recent(self, user: str, within_s: float) -> Principal | None:
        """Return what the directory said of a user within that time."""
        known, at = self._found.get(user, (None, float("-inf")))
        return known if self._clock() - at < within_s else None
