"""Who is trusted with what: which identities enforce restrictions, and which write files by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gateway.model.principal import Principal
from gateway.rest.requests import RestCall

CredentialRule = Literal["never", "full_access", "readers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedIdentities:
    """Users, and members of groups."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def has(self, principal: Principal) -> bool:
        """Whether somebody is one of them."""
        return principal.user in self.users or bool(self.groups & principal.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """What the operator has said of identities."""

    enforcing: NamedIdentities = NamedIdentities()
    writers: NamedIdentities = NamedIdentities()
    """Who may commit files that he wrote: what they hold nobody here has seen."""
    stricter: bool = False
    """Whether those who enforce may be told to show less than the policies say, where no restriction says
    just that."""
    nulls_denied_columns: bool = False
    """Whether those who enforce may be told to show NULL for columns that may not be selected."""
    credentials: CredentialRule = "full_access"
    """Who gets logins to files that a catalog gives along with a table."""

    def enforces(self, call: RestCall) -> bool:
        """Whether the caller enforces restrictions."""
        return self.enforcing.has(call.principal)

    def writes(self, call: RestCall) -> bool:
        """Whether the caller may commit files."""
        return self.writers.has(call.principal)
