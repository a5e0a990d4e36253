"""The overview: how gateways, parsers, Sparks, PostgreSQL and policies are doing, and what was asked; every
number with its meaning.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from gateway.console.routes import (
    ConsolePage,
    ConsolePart,
    ConsoleRoute,
    NoParameters,
    Recorded,
    Viewer,
)
from gateway.console.shared_answers import SharedAnswer

AskHealth = Callable[[], Awaitable[tuple[Mapping[str, Mapping[str, Any]], Sequence[str]]]]
"""Returns what each gateway says of itself, and a sentence for each that did not."""
AskAlarms = Callable[[], Awaitable[Sequence[str]]]
KEPT_S = 3.0
"""How old an answer may be before the gateways are asked again: one question for all who look."""
OLD_S = 30.0
"""How old an answer may be that is shown while they are asked."""
BANDS = ("up to 1 ms", "1 to 4 ms", "4 to 16 ms", "16 to 50 ms", "50 to 200 ms", "more than 200 ms")


async def _no_alarms() -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number with what it means."""

    label: str
    value: str
    meaning: str
    is_bad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartHealth:
    """One thing that a gateway needs, or watches."""

    gateway: str
    name: str
    trouble: str
    """Empty when nothing is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceHealth:
    """One source of policies in one gateway."""

    gateway: str
    name: str
    version: str
    policies: int
    age_s: float | None
    faults: tuple[str, ...]
    stale: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkHealth:
    """One Spark as one gateway sees it."""

    gateway: str
    name: str
    version: str
    sessions: int
    endpoints: tuple[str, ...]
    is_drained: bool
    waiting_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyBand:
    """How many statements were judged within a span of time."""

    label: str
    judged: int
    share: float
    """Of all, from 0 to 100."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All of it, as of a moment ago."""

    figures: tuple[Figure, ...]
    gateways: tuple[Figure, ...]
    parts: tuple[PartHealth, ...]
    sources: tuple[SourceHealth, ...]
    sparks: tuple[SparkHealth, ...]
    bands: tuple[LatencyBand, ...]
    messages: tuple[str, ...]
    alarms: tuple[str, ...] = ()
    """What everybody who watches has to know."""
    as_of: datetime | None = None
    """When the gateways said so: all who look share one answer of theirs for some seconds."""


class OverviewPage:
    """Sums up what gateways say of themselves."""

    def __init__(self, ask: AskHealth, clock: Callable[[], float], alarms: AskAlarms = _no_alarms) -> None:
        self._ask = ask
        self._alarms = alarms
        self.shared = SharedAnswer(self._load, clock, kept_s=KEPT_S, old_s=OLD_S)

    async def show(self, viewer: Viewer, asked: NoParameters) -> Overview:
        """Return the overview. Raises LedgerUnavailable, BackendUnavailable."""
        return await self.shared.get()

    async def _load(self) -> Overview:
        health, messages = await self._ask()
        return replace(sum_up(health, messages), alarms=tuple(await self._alarms()), as_of=datetime.now(UTC))


def sum_up(health: Mapping[str, Mapping[str, Any]], messages: Sequence[str]) -> Overview:
    """Return the overview of what gateways say."""
    gateways = sorted(health.items())
    parts = tuple(
        PartHealth(gateway=name, name=part, trouble=trouble or "")
        for name, one in gateways
        for part, trouble in one["parts"].items()
    )
    return Overview(
        figures=_figures(dict(gateways), parts, len(messages)),
        gateways=tuple(_of_gateway(name, one) for name, one in gateways),
        parts=parts,
        sources=tuple(_source(name, one) for name, told in gateways for one in told["policies"]),
        sparks=tuple(_spark(name, one) for name, told in gateways for one in told["backends"]),
        bands=_bands([each for _, one in gateways for each in one["judged"]]),
        messages=tuple(messages),
    )


def _figures(
    health: Mapping[str, Mapping[str, Any]], parts: Sequence[PartHealth], silent: int
) -> tuple[Figure, ...]:
    def total(name: str) -> int:
        return sum(one[name] for one in health.values())

    judged = total("cleared") + total("refused")
    share = f"{total('refused') / judged:.1%}" if judged else "none yet"
    behind = sum(one["ledger"]["behind"] for one in health.values())
    backlog = sum(one["ledger"]["backlog_bytes"] for one in health.values())
    ages = [one["age_s"] for told in health.values() for one in told["policies"] if one["age_s"] is not None]
    away = [name for name, one in health.items() if not one["ledger"]["connected"]]
    troubles = sum(bool(one.trouble) for one in parts)
    has_workers = any(_worker_of(one) for one in health.values())
    calls = [told for one in health.values() if (told := one.get("iceberg_rest")) is not None]
    return (
        Figure(
            label="Gateways",
            value=f"{len(health)}" + (f" of {len(health) + silent}" if silent else ""),
            meaning="that answer now, of those that share this audit database"
            + ("; each worker of a gateway counts as one" if has_workers else ""),
            is_bad=bool(silent),
        ),
        Figure(
            label="Parts in trouble",
            value=f"{troubles}",
            meaning="checks and notes of `/readyz` of all gateways that say something; they are listed below",
            is_bad=bool(troubles),
        ),
        Figure(label="Sessions", value=f"{total('sessions'):,}", meaning="open now, at any endpoint"),
        Figure(label="Running", value=f"{total('running'):,}", meaning="statements that a Spark has now"),
        Figure(label="Waiting", value=f"{total('waiting'):,}", meaning="statements that wait for a Spark"),
        Figure(
            label="Cleared",
            value=f"{total('cleared'):,}",
            meaning="statements that policies let pass, since each gateway's start",
        ),
        Figure(
            label="Refused",
            value=f"{total('refused'):,}",
            meaning=f"statements that were refused since then; of all statements {share}",
        ),
        Figure(
            label="Not recorded",
            value=f"{total('unrecorded'):,}",
            meaning="statements that were not run because the disk did not take their record",
            is_bad=bool(total("unrecorded")),
        ),
        Figure(
            label="Behind PostgreSQL",
            value=f"{behind:,}",
            meaning=f"audit events on gateways' disks ({backlog:,} bytes) that PostgreSQL does not have yet",
            is_bad=bool(away),
        ),
        Figure(
            label="Policies confirmed",
            value=_age(max(ages)) if ages else "files",
            meaning="since the source that was silent longest has confirmed its policies"
            if ages
            else "all policies are in files, which are read again when they change",
        ),
        Figure(
            label="PostgreSQL",
            value="away" if away else "there",
            meaning=f"does not answer {', '.join(away)}" if away else "takes every gateway's events",
            is_bad=bool(away),
        ),
        *((_of_iceberg(calls),) if calls else ()),
    )


def _of_iceberg(calls: Sequence[Mapping[str, int]]) -> Figure:
    answered, refused, failed = (sum(one[key] for one in calls) for key in ("answered", "refused", "failed"))
    return Figure(
        label="Iceberg REST calls",
        value=f"{answered + refused + failed:,}",
        meaning="calls of engines that read Iceberg by themselves, since each gateway's start: "
        f"{refused:,} were refused, {failed:,} failed",
    )


def _of_gateway(name: str, told: Mapping[str, Any]) -> Figure:
    lineage = told.get("lineage")
    lag = "" if not lineage else f"; lineage is {_age(lineage['behind_s'])} behind the record"
    return Figure(
        label=name,
        value=f"up {_age(told['up_s'])}",
        meaning=f"{_worker_of(told)}version {told['version']}, policies version {told['policy_version']}, "
        f"{told['running']} running, {told['waiting']} waiting{lag}",
        is_bad=any(told["parts"].values()),
    )


def _worker_of(told: Mapping[str, Any]) -> str:
    """Say which of a gateway's workers it is; nothing of one that has none, or of an earlier version."""
    number, of = told.get("worker", (1, 1))
    return f"worker {number} of {of}, " if of > 1 else ""


def _source(gateway: str, one: Mapping[str, Any]) -> SourceHealth:
    return SourceHealth(
        gateway=gateway,
        name=one["name"],
        version="" if one["version"] is None else str(one["version"]),
        policies=one["policies"],
        age_s=one["age_s"],
        faults=tuple(one["faults"]),
        stale=one["stale"],
    )


def _spark(gateway: str, one: Mapping[str, Any]) -> SparkHealth:
    return SparkHealth(
        gateway=gateway,
        name=one["backend"],
        version=one.get("version", ""),
        sessions=one.get("sessions", 0),
        endpoints=tuple(f"{name}: {state}" for name, state in one.get("endpoints", {}).items()),
        is_drained=bool(one.get("drained")),
        waiting_for=one.get("waiting_for", ""),
    )


def _bands(counted: Sequence[Sequence[int]]) -> tuple[LatencyBand, ...]:
    """Return how many were judged in each band, of counts that include those of the bands before."""
    sums = [sum(one[index] for one in counted) for index in range(len(BANDS))]
    each = [after - before for before, after in zip([0, *sums], sums, strict=False)]
    whole = sums[-1] or 1
    return tuple(
        LatencyBand(label=label, judged=judged, share=round(100 * judged / whole, 1))
        for label, judged in zip(BANDS, each, strict=True)
    )


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def build_overview_part(service: OverviewPage) -> ConsolePart:
    """Return the route and its page."""
    route = ConsoleRoute.get(
        "/overview",
        service.show,
        "How gateways, parsers, Sparks, PostgreSQL and policies are doing.",
        name="show_overview",
        recorded=Recorded.ONCE,
    )
    page = ConsolePage(
        route=route, path="/overview", template="overview.html", title="Overview", menu="Overview", place=10
    )
    return ConsolePart(routes=(route,), pages=(page,))
