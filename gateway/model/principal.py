"""Who asks: the authenticated user with groups and roles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

GATEWAY_ATTRIBUTE = "sluice_gateway"
"""Attribute, and claim of tokens, that names the gateway which has signed them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated user; groups and roles were resolved at login and do not change afterwards."""

    user: str
    groups: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    attributes: tuple[tuple[str, str], ...] = field(default=())
    """User attributes as sorted (name, value) pairs, a name once for each of its values; bound into filters
    as literals only."""
    id: str = ""
    """What tells a user from another one who had the name before; empty where the user file has none."""

    @property
    def gateway(self) -> str:
        """The gateway before this one that he comes through, as its tokens say; empty: none."""
        return next(iter(self.values(GATEWAY_ATTRIBUTE)), "")

    @property
    def identity(self) -> str:
        """Who this is, in one text: the name, and the id if there is one.

        No name begins with a blank, so that nobody is called as somebody else is told.
        """
        return f" {self.id} {self.user}" if self.id else self.user

    def values(self, name: str) -> tuple[str, ...]:
        """Return the attribute's values, none when the user has no attribute of that name."""
        return tuple([value for key, value in self.attributes if key == name])


def identity_of(user: str, id_: str) -> str:
    """Return the identity of a user by name and id; the id may be empty."""
    return Principal(user=user, id=id_).identity


def user_of(identity: str) -> str:
    """Return the name in an identity."""
    return identity.split(" ", 2)[-1] if identity.startswith(" ") else identity


def id_of(identity: str) -> str:
    """Return the id in an identity, empty where there is none."""
    return identity.split(" ", 2)[1] if identity.startswith(" ") else ""


def principal_of(identity: str, find: Callable[[str], Principal | None]) -> Principal | None:
    """Return who an identity is of; None when nobody has the name any more, or somebody else has."""
    found = find(user_of(identity))
    return found if found is not None and found.identity == identity else None
