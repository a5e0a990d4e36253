"""Who may act as whom: HiveServer2's `hive.server2.proxy.user` and `doAs`, for BI servers and proxies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.frontends.identities import Identities
from gateway.frontends.known_users import KnownUsers
from gateway.frontends.login_chain import LoginOutcome
from gateway.model.networks import Network, is_within
from gateway.model.principal import Principal

NOT_ALLOWED = "acting as another user is not allowed; log in as that user"
EVERYBODY = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpersonationRule:
    """Who may act as whom, from where."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    as_users: frozenset[str] = frozenset()
    """Users, or `*`."""
    as_groups: frozenset[str] = frozenset()
    addresses: Sequence[Network] = ()
    """Where the login may come from; anywhere where there is none."""

    def holds_for(self, real: Principal, address: str) -> bool:
        """Whether somebody who is logged in may act as others."""
        is_named = real.user in self.users or bool(real.groups & self.groups)
        return is_named and (not self.addresses or is_within(address, self.addresses))

    def allows(self, user: Principal) -> bool:
        """Whether this user may be acted as."""
        return EVERYBODY in self.as_users or user.user in self.as_users or bool(user.groups & self.as_groups)


class Impersonation:
    """Decides by the first rule that allows it."""

    def __init__(
        self, rules: Sequence[ImpersonationRule], known: KnownUsers, identities: Identities | None = None
    ) -> None:
        """`identities` hears of who is acted as without being in the user file."""
        self._rules = rules
        self._known = known
        self._identities = identities

    async def find(self, real: Principal, address: str, user: str) -> LoginOutcome:
        """Return as whom somebody acts who is logged in and asks to be another user, or why not."""
        rules = [one for one in self._rules if one.holds_for(real, address)]
        if rules:
            found = await self._known.find(user)
            if found.principal is None:
                return found
            if any(one.allows(found.principal) for one in rules):  # RULE (acts-as-allowed)
                if not (found.of_file or found.is_remembered) and self._identities is not None:
                    self._identities.note(found.principal, found.source)
                return found
        return LoginOutcome(diagnosis="no rule allows it", reason=NOT_ALLOWED, user=user)

    def still_allows(self, real: Principal | None, address: str, user: Principal) -> bool:
        """Whether somebody who acts as a user may go on. `real`: None where nothing is known of him now."""
        return real is not None and any(
            one.holds_for(real, address) and one.allows(user) for one in self._rules
        )
