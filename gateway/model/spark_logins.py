"""In whose name a Spark is asked that logs users in by itself, as a gateway or a proxy before it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gateway.model.principal import Principal


@dataclass(frozen=True, slots=True)
class SparkLogin:
    """A user, and what he has shown to this gateway."""

    principal: Principal
    shown: str = field(default="", repr=False)
    """The bearer token of an issuer that he has logged in by; empty: he did by something else."""
    is_gateway: bool = False
    """Whether it is the gateway itself that asks."""


@dataclass(slots=True)
class SessionLogin:
    """In whose name an open session is asked."""

    opened: SparkLogin
    find_principal: Callable[[], Principal] | None = None
    """Returns its user with the groups and attributes of now; None: those of the login."""

    @property
    def now(self) -> SparkLogin:
        if self.find_principal is None:
            return self.opened
        return replace(self.opened, principal=self.find_principal())  # RULE (shown-as-he-is-now)

    @property
    def user(self) -> str:
        return self.opened.principal.user

    @property
    def is_gateway(self) -> bool:
        return self.opened.is_gateway


OWN_LOGIN = SparkLogin(Principal(user="sluice"), is_gateway=True)
"""Of sessions that the gateway opens for itself."""
