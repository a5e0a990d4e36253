"""The Sparks behind a gateway, as rules speak of them, and which of them a new session may get."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gateway.model.principal import Principal

DEFAULT_BACKEND = "default"
"""Name of the Spark of a gateway that has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFacts:
    """What rules may ask of a Spark."""

    name: str
    pool: str = ""
    """Name in the settings, where the Spark is one of several that were discovered under it."""
    groups: frozenset[str] | None = None
    """Who may use it, with `users`; None for both: everybody."""
    users: frozenset[str] | None = None
    tags: frozenset[str] = frozenset()
    weight: int = 1
    minor: str = ""
    """Its minor version, such as `4.2`."""
    metastore: str = ""

    def may_be_used_by(self, principal: Principal) -> bool:
        """Whether somebody may have sessions here."""
        if self.groups is None and self.users is None:
            return True
        if principal.user in (self.users or ()):
            return True
        return not principal.groups.isdisjoint(self.groups or ())

    def is_meant_by(self, asked: str) -> bool:
        """Whether a client or a rule that names something may mean this one."""
        return asked in (self.name, self.pool, self.minor) or asked in self.tags


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingRule:
    """Where sessions go for which all that is said here is so."""

    backends: tuple[str, ...]
    groups: frozenset[str] | None = None
    users: frozenset[str] | None = None
    catalogs: frozenset[str] | None = None
    """Lower case."""
    version: str = ""

    def is_for(self, principal: Principal, catalog: str) -> bool:
        """Whether the rule speaks of a session of somebody that starts in a catalog."""
        return (
            (self.groups is None or not principal.groups.isdisjoint(self.groups))
            and (self.users is None or principal.user in self.users)
            and (self.catalogs is None or catalog.lower() in self.catalogs)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """The rules of a gateway."""

    rules: tuple[RoutingRule, ...] = ()
    default: tuple[str, ...] = (DEFAULT_BACKEND,)
    """Names or tags of the Sparks for which no rule has to speak."""

    def select(
        self, sparks: Iterable[SparkFacts], asked: str, principal: Principal, catalog: str
    ) -> list[SparkFacts] | None:
        """Return the Sparks that a new session may get, in no order: those that its client asks for, or else
        those of the first rule that speaks of it, or else the default ones. None: its user may use none of
        these, which is told as if they were not there."""
        all_ = list(sparks)
        # A rule that leads where its user may not go leads nowhere.
        # RULE (backend-allowed)
        found = [
            one for one in self._find_meant(all_, asked, principal, catalog) if one.may_be_used_by(principal)
        ]
        return found or None

    def _find_meant(
        self, sparks: Sequence[SparkFacts], asked: str, principal: Principal, catalog: str
    ) -> list[SparkFacts]:
        if asked:
            return [one for one in sparks if one.is_meant_by(asked)]
        rule = next((one for one in self.rules if one.is_for(principal, catalog)), None)
        wanted = self.default if rule is None else rule.backends
        version = "" if rule is None else rule.version
        return [
            one
            for one in sparks
            if any(one.is_meant_by(name) for name in wanted) and version in ("", one.minor)
        ]


ConnectKey = tuple[str, str]
"""User and session id, by which Spark keeps sessions of Spark Connect."""


@dataclass(frozen=True, slots=True)
class BoundSession:
    """Where a session of Spark Connect is, or is to be."""

    backend: str
    is_open: bool
    """Whether Spark has it, as far as a gateway has seen; it stays there. Until then it may be moved."""
