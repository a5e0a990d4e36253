"""The policies by which a gateway judges now, with those who may log in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gateway.app.rules import PolicyRegistry
from gateway.frontends.user_file import UserFile
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.policy.engine import Engine, engine_for


class UserSource(Protocol):
    """Those who may log in."""

    @property
    def principals(self) -> Mapping[str, Principal]: ...


@dataclass(frozen=True, slots=True)
class FixedPeople:
    """Those who could log in when somebody looked."""

    principals: Mapping[str, Principal]


@dataclass(frozen=True, slots=True)
class CurrentPolicies:
    """See `session.ports.JudgingPolicies`."""

    rules: PolicyRegistry
    people: UserSource
    file: UserFile | None = None
    """Where users are read from who may log in while it is not too old."""

    @property
    def current(self) -> PolicySet:
        return self.rules.current

    @property
    def principals(self) -> Mapping[str, Principal]:
        return self.people.principals

    def stale(self) -> str | None:
        return self.rules.stale() or (self.file.stale() if self.file is not None else None)

    def authority(self, policies: PolicySet) -> Engine:
        return engine_for(policies)


@dataclass(frozen=True, slots=True)
class SupposedPolicies:
    """Policies that are not in force, with those who may log in: see `session.ports.JudgingPolicies`."""

    current: PolicySet
    principals: Mapping[str, Principal]

    def stale(self) -> str | None:
        return None

    def authority(self, policies: PolicySet) -> Engine:
        return engine_for(policies)
