"""In whose name a Spark is asked that logs users in by itself, as a gateway or a proxy before it does."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.model.principal import Principal


@dataclass(frozen=True, slots=True)
class SparkLogin:
    """A user, and what he has shown to this gateway."""

    principal: Principal
    shown: str = field(default="", repr=False)
    """The bearer token of an issuer that he has logged in by; empty: he did by something else."""
    is_gateway: bool = False
    """Whether it is the gateway itself that asks."""


OWN_LOGIN = SparkLogin(Principal(user="sluice"), is_gateway=True)
"""Of sessions that the gateway opens for itself."""
