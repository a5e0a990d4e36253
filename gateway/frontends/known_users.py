"""Finds users by name alone, for who logs in by something that says no groups: a ticket or a certificate."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from gateway.frontends.ldap_rules import LdapDirectory, LdapRefused, LdapUnavailable
from gateway.frontends.login_chain import MAX_REMEMBERED, LoginOutcome
from gateway.frontends.login_mechanisms import NO_DIRECTORY
from gateway.frontends.users import Users
from gateway.model.principal import Principal

UNLISTED = "the user is neither in the user file nor in the directory"


class KnownUsers:
    """Users of the user file, which counts first, and of the directory."""

    def __init__(
        self,
        users: Callable[[], Users],
        directory: LdapDirectory | None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._users = users
        self._directory = directory
        self._clock = clock
        self._found: OrderedDict[str, tuple[Principal, float]] = OrderedDict()
        """What the directory said a moment ago: clients of HTTP log in with every call."""

    async def find(self, user: str, *, unlisted: bool = False) -> LoginOutcome:
        """Say who a user is that has been identified. `unlisted`: whether anybody whom nobody knows may be
        one."""
        found = self._users().get(user)
        if found is not None:
            return LoginOutcome(diagnosis="accepts the login", principal=found.principal, of_file=True)
        if self._directory is not None:
            try:
                principal = await self._ask(self._directory, user)
                if principal.user not in self._users():  # RULE (known-by-one-name)
                    return LoginOutcome(diagnosis="accepts the login", principal=principal)
                unlisted = False
            except LdapUnavailable as fault:
                return LoginOutcome(diagnosis=f"not available: {fault}", reason=NO_DIRECTORY, user=user)
            except LdapRefused:
                pass
        if unlisted:
            return LoginOutcome(diagnosis="accepts the login, without groups", principal=Principal(user=user))
        return LoginOutcome(diagnosis=f"rejected: {UNLISTED}", reason=UNLISTED, user=user, counts=True)

    async def _ask(self, directory: LdapDirectory, user: str) -> Principal:
        known, until = self._found.get(user, (None, 0.0))
        if known is not None and self._clock() < until:
            return known
        principal = await directory.find(user)
        self._found[user] = (principal, self._clock() + directory.rules.remember_s)
        self._found.move_to_end(user)
        while len(self._found) > MAX_REMEMBERED:
            self._found.popitem(last=False)
        return principal
