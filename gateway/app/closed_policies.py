"""Policies that cannot be loaded, and since when: each stands closed, whatever else its source says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from gateway.model.policy import Policy

log = structlog.get_logger(__name__)

MAX_NAMED = 5
"""Policies that `/readyz` names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedPolicy:
    """A policy that stands closed."""

    source: str
    service: str
    id: int
    name: str
    since: datetime
    """When it was first found so by this gateway."""
    faults: tuple[str, ...]
    """What is wrong with it, each with its place."""

    @property
    def shown(self) -> str:
        """Say which it is, and since when, without its words."""
        numbered = f" (id {self.id})" if self.id > 0 else ""
        named = f"`{self.name}`{numbered}" if self.name else f"without a name{numbered}"
        return f"{named} of service `{self.service}` since {self.since:%Y-%m-%d %H:%M:%S} UTC"


class ClosedPolicies:
    """Those of all sources, as they are now."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._closed: dict[tuple[str, int, str], ClosedPolicy] = {}

    def update(self, found: Iterable[tuple[str, Policy, str]]) -> None:
        """Take what is at fault now: source, policy and fault. What is new, or mended, is logged once."""
        faults: dict[tuple[str, int, str], list[str]] = {}
        sources: dict[tuple[str, int, str], str] = {}
        for source, policy, fault in found:
            key = (policy.service, policy.id, policy.name)
            faults.setdefault(key, []).append(fault)
            sources[key] = source
        before, now = self._closed, datetime.fromtimestamp(self._clock(), UTC)
        self._closed = {
            key: ClosedPolicy(
                source=sources[key],
                service=key[0],
                id=key[1],
                name=key[2],
                since=before[key].since if key in before else now,
                faults=tuple(told),
            )
            for key, told in faults.items()
        }
        for key, one in self._closed.items():
            if key not in before or before[key].faults != one.faults:
                log.error(
                    "policy_closed",
                    source=one.source,
                    service=one.service,
                    policy=one.name,
                    id=one.id,
                    since=one.since.isoformat(),
                    fault=one.faults[0],
                    faults=len(one.faults),
                )
        for key in before.keys() - self._closed.keys():
            log.info("policy_mended", service=key[0], id=key[1], policy=key[2])

    def of(self, source: str) -> tuple[ClosedPolicy, ...]:
        return tuple(one for one in self._closed.values() if one.source == source)

    def faults(self, source: str) -> tuple[str, ...]:
        """Return what is wrong with those of a source."""
        return tuple(fault for one in self.of(source) for fault in one.faults)


def describe_closed(closed: Iterable[ClosedPolicy]) -> str | None:
    """Say which policies are closed since when; None: none is."""
    shown = [one.shown for one in closed]
    if not shown:
        return None
    more = f" and {len(shown) - MAX_NAMED} more" if len(shown) > MAX_NAMED else ""
    return f"cannot be loaded; access to what they protect is denied: {', '.join(shown[:MAX_NAMED])}{more}"
