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
    """User attributes as sorted (name, value) pairs, a name once for each of its values; bound into filters
    as literals only."""

    def values(self, name: str) -> tuple[str, ...]:
        """Return the attribute's values, none when the user has no attribute of that name."""
        return tuple([value for key, value in self.attributes if key == name])
