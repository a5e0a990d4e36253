"""Who asks: the authenticated user with groups and roles."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated user; groups and roles were resolved at login and do not change afterwards."""

    user: str
    groups: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    attributes: tuple[tuple[str, str], ...] = field(default=())
    """User attributes as sorted (name, value) pairs; bound into filters as literals only."""

    def attribute(self, name: str) -> str | None:
        """Return the attribute's value, or None when the user has none of that name."""
        return dict(self.attributes).get(name)
