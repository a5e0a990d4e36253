"""Which limits speak of whom: of a user, of those who act as somebody, of a Spark and of tables.

Several limits may speak of one statement: all of them hold, so the strictest counts.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gateway.model.bounded import BoundedDict
from gateway.model.catalog import TableName
from gateway.model.limits import MEASURES, AppliedLimit, LevelNames, Limit, strictest
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal, user_of
from gateway.model.resource import Resource
from gateway.model.sparks import DEFAULT_BACKEND
from gateway.policy.globs import glob
from gateway.policy.matching import fold
from gateway.policy.subjects import RoleGraph

MAX_KNOWN = 10_000
"""Users whose limits are remembered."""
LEVELS = ("catalog", "database", "table")
"""What `on` of a limit may name."""


class LimitIndex:
    """The limits of one PolicySet."""

    def __init__(self, policies: PolicySet) -> None:
        earlier = () if policies.before is None else policies.before.limits
        # RULE (limits-of-before)
        self._limits = (*policies.limits, *(one for one in earlier if one not in policies.limits))
        self._roles = RoleGraph(policies.roles)
        self._users = policies.users
        self._patterns = {id(one): _compile(one) for one in self._limits}
        self._known: BoundedDict[tuple[Principal, str, str], tuple[AppliedLimit, ...]] = BoundedDict(
            MAX_KNOWN
        )

    def find(
        self, principal: Principal, real: str = "", backend: str = DEFAULT_BACKEND
    ) -> tuple[AppliedLimit, ...]:
        """Return the limits of a user at a Spark. `real`: identity of who acts as the user, where somebody
        does."""
        if not self._limits:
            return ()
        key = principal, real, backend
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = tuple(self._look_up(*key))
        return known

    def _look_up(self, principal: Principal, real: str, backend: str) -> Iterable[AppliedLimit]:
        subject = self._roles.subject(principal, self._users)
        for limit in self._limits:
            # A Spark that was discovered is called `NAME@ADDRESS`.
            if limit.backends and limit.backends.isdisjoint((backend, backend.partition("@")[0])):
                continue
            # RULE (limit-of-user)
            if (
                subject.user in limit.users
                or not limit.groups.isdisjoint(subject.groups)
                or not limit.roles.isdisjoint(subject.roles)
            ):
                yield AppliedLimit(limit, "" if limit.together else principal.identity)
            elif real and user_of(real) in limit.users:  # RULE (limit-of-who-acts)
                yield AppliedLimit(limit, "" if limit.together else real)

    def speaks_of(self, limit: Limit, tables: Iterable[TableName]) -> bool:
        """Whether a limit speaks of a statement that reads or changes these tables."""
        patterns = self._patterns[id(limit)]
        if not patterns:
            return True
        folded = [tuple(map(fold, (one.catalog, one.database, one.table))) for one in tables]
        return any(
            all(level is None or level.fits(part) for level, part in zip(way, table, strict=True))
            for way in patterns
            for table in folded
        )


def list_strictest(index: LimitIndex, principal: Principal, resource: Resource) -> dict[str, Limit]:
    """Return by measure the limit that allows a user least where a resource is read."""
    catalog, database, table = (resource.level(level) or "" for level in LEVELS)
    tables = [TableName(catalog, database, table)] if table else []
    applied = [one for one in index.find(principal) if index.speaks_of(one.limit, tables)]
    found = {key: strictest(applied, key) for key in MEASURES}
    return {key: one[0] for key, one in found.items() if one is not None}


@dataclass(frozen=True, slots=True)
class _LevelPattern:
    pattern: re.Pattern[str]
    excludes: bool

    def fits(self, value: str) -> bool:
        return (self.pattern.fullmatch(value) is not None) != self.excludes


_Way = tuple[_LevelPattern | None, ...]


def _compile(limit: Limit) -> tuple[_Way, ...]:
    return tuple(_compile_set(one) for one in limit.resources)


def _compile_set(resources: Mapping[str, LevelNames]) -> _Way:
    return tuple(_compile_level(resources.get(level)) for level in LEVELS)


def _compile_level(values: LevelNames | None) -> _LevelPattern | None:
    if values is None:
        return None
    return _LevelPattern(
        re.compile("|".join(glob([(fold(one), True)]) for one in values.values)), values.excludes
    )


_indexes: weakref.WeakKeyDictionary[PolicySet, LimitIndex] = weakref.WeakKeyDictionary()


def limits_of(policies: PolicySet) -> LimitIndex:
    """Return the limits of a PolicySet, compiled once and dropped with it."""
    found = _indexes.get(policies)
    if found is None:
        found = _indexes[policies] = LimitIndex(policies)
    return found
