"""Two sets of policies compared for a page: which policies and which answers differ, as far as is cheap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gateway.model.policy import Policy, PolicySet
from gateway.policy.describing import PolicyLabel, label_of
from gateway.policy.diff_reports import DiffReport, diff
from gateway.policy.diffing import Comparison, Group, group_changes
from gateway.policy.directory import key_of_policy
from gateway.policy.list_deltas import list_delta

MAX_ASKED = 20_000
"""Questions that two sets of policies are asked; some seconds."""
MAX_GROUPS = 200
MAX_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPolicy:
    """A policy that one side has and the other has not, or not so."""

    change: Literal["added", "removed", "changed"]
    policy: PolicyLabel


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedAnswers:
    """Answers that change alike: for these people, on these resources."""

    kind: str
    """`gained`, `lost`, `mask` or `filter`."""
    people: tuple[str, ...]
    more_people: int
    accesses: tuple[str, ...]
    resources: tuple[str, ...]
    more_resources: int
    before: str
    after: str
    by: str
    """The policy behind it."""
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyComparison:
    """Two sets of policies, compared."""

    policies: tuple[ChangedPolicy, ...]
    answers: tuple[ChangedAnswers, ...]
    asked: int
    cut: bool
    """Whether there may be more."""
    notes: tuple[str, ...]


class _Enough(Exception):
    """More has been asked than a page waits for."""


def compare_policies(old: PolicySet, new: PolicySet) -> PolicyComparison:
    """Return which policies and which answers differ, as far as `MAX_ASKED` questions find them."""
    changed = tuple(_list_changed(old, new))
    if not changed and old is new:
        return PolicyComparison(policies=(), answers=(), asked=0, cut=False, notes=())
    state = Comparison()

    def progress(now: Comparison) -> None:
        nonlocal state
        state = now
        if now.asked > MAX_ASKED:
            raise _Enough

    try:
        report: DiffReport = diff(old, new, progress=progress)
    except _Enough:
        groups = group_changes(state.changes)
        return build_comparison(changed, groups, state.asked, cut=True)
    return build_comparison(changed, report.groups, report.asked, cut=False, notes=report.notes)


def _list_changed(old: PolicySet, new: PolicySet) -> list[ChangedPolicy]:
    gone: dict[tuple[str, str, str], Policy] = {}
    came: dict[tuple[str, str, str], Policy] = {}
    for name in dict.fromkeys((*old.services, *new.services)):
        for lists in zip(_lists_of(old, name), _lists_of(new, name), strict=True):
            change = list_delta(*lists)
            gone |= {key_of_policy(policy): policy for policy in change.gone}
            came |= {key_of_policy(policy): policy for policy in change.came}
    found = [
        ChangedPolicy(
            change="changed" if key in gone and key in came else "added" if key in came else "removed",
            policy=label_of(came.get(key) or gone[key]),
        )
        for key in sorted({**gone, **came})
    ]
    return found[:MAX_GROUPS]


def _lists_of(policies: PolicySet, service: str) -> tuple[Sequence[Policy], Sequence[Policy]]:
    found = policies.services.get(service)
    if found is None:
        return (), ()
    return found.policies, found.tags.policies if found.tags is not None else ()


def build_comparison(
    changed: tuple[ChangedPolicy, ...],
    groups: Sequence[Group],
    asked: int,
    *,
    cut: bool,
    notes: Sequence[str] = (),
) -> PolicyComparison:
    return PolicyComparison(
        policies=changed,
        answers=tuple(map(_answers_of, groups[:MAX_GROUPS])),
        asked=asked,
        cut=cut or len(groups) > MAX_GROUPS,
        notes=tuple(notes),
    )


def _answers_of(group: Group) -> ChangedAnswers:
    before, after = group.cause.before, group.cause.after
    return ChangedAnswers(
        kind=group.cause.kind,
        people=group.people[:MAX_NAMED],
        more_people=max(0, len(group.people) - MAX_NAMED),
        accesses=group.accesses,
        resources=tuple(f"{level} {name}" for level, name in group.resources[:MAX_NAMED]),
        more_resources=max(0, len(group.resources) - MAX_NAMED),
        before=before.says,
        after=after.says,
        by=after.policy.name or before.policy.name,
        count=group.count,
    )
