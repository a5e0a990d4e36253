"""Policies as people read them: whom each item names, on what, when it holds, and where it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gateway.model.decision import PolicyRef
from gateway.model.policy import (
    Condition,
    FilterItem,
    MaskItem,
    Policy,
    PolicyItem,
    PolicyType,
    ResourceDef,
    ResourceSet,
    ResourceValues,
)
from gateway.model.principal import user_of
from gateway.model.tags import ValiditySchedule
from gateway.policy.subjects import CURRENT_USER, OWNER, PUBLIC, Subject

_KINDS = {PolicyType.ACCESS: "access", PolicyType.MASK: "mask", PolicyType.ROW_FILTER: "row filter"}
_LISTS = ("allow", "deny", "allow_exceptions", "deny_exceptions", "masks", "filters")
MAX_SHOWN_VALUES = 200
"""Values of one level, and names of one item, that are shown; more are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLabel:
    """What tells a policy from all others, with its number and version."""

    service: str
    zone: str
    name: str
    id: int = -1
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedLevel:
    """The values of a policy at one level."""

    level: str
    values: tuple[str, ...]
    more: int
    """Values that are not shown."""
    excludes: bool
    recursive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedItem:
    """One item: whom it is for, and what it says."""

    kind: str
    """`allow`, `deny`, `allow_exceptions`, `deny_exceptions`, `masks` or `filters`."""
    place: int
    """Its place in that list, from 0: with the kind as decisions name it."""
    users: tuple[str, ...]
    groups: tuple[str, ...]
    roles: tuple[str, ...]
    others: int
    """Whom it names beside these, and who are not shown."""
    accesses: tuple[str, ...]
    conditions: tuple[str, ...]
    delegates: bool
    shows: str = ""
    """The mask, or the filter."""
    author: str = ""
    """Who wrote that text, where it counts for no more than they may select."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedPolicy:
    """One policy for people, whole or as far as it is about one of them."""

    label: PolicyLabel
    kind: str
    """`access`, `mask` or `row filter`."""
    description: str
    enabled: bool
    override: bool
    deny_all_else: bool
    resources: tuple[tuple[DescribedLevel, ...], ...]
    """Its resource sets, each from the root down."""
    items: tuple[DescribedItem, ...]
    hidden_items: int
    """Items about others, which are not shown."""
    validity: tuple[str, ...]
    conditions: tuple[str, ...]
    labels: tuple[str, ...]
    broken: tuple[str, ...]
    written_in: str
    """File and line, empty where it is in none."""


def label_of(policy: Policy) -> PolicyLabel:
    return PolicyLabel(
        service=policy.service,
        zone=policy.zone,
        name=policy.name,
        id=policy.id,
        version=policy.version,
    )


def label_of_ref(ref: PolicyRef, service: str, zone: str = "") -> PolicyLabel:
    """Return the label of a policy that is known by reference only."""
    return PolicyLabel(service=service, zone=zone, name=ref.name, id=ref.id, version=ref.version)


def kind_of_policy(policy: Policy) -> str:
    return _KINDS[policy.type]


def describe_policy(
    policy: Policy, subject: Subject | None = None, levels: Sequence[ResourceDef] = ()
) -> DescribedPolicy:
    """Return a policy for people; with a subject only what it says of them, and nobody else's name. `levels`
    are those of its service, from the root down."""
    items = list(_describe_items(policy, subject))
    return DescribedPolicy(
        label=label_of(policy),
        kind=kind_of_policy(policy),
        description=policy.description,
        enabled=policy.enabled,
        override=policy.priority > 0,
        deny_all_else=policy.deny_all_else,
        resources=tuple(
            _describe_resources(resources, levels)
            for resources in (policy.resources, *policy.additional_resources)
        ),
        items=tuple(items),
        hidden_items=len(policy.items) - len(items),
        validity=tuple(map(describe_schedule, policy.schedules)),
        conditions=_describe_conditions(policy.conditions, subject),
        labels=policy.labels,
        broken=policy.broken,
        written_in="" if policy.place is None or subject is not None else str(policy.place),
    )


def _describe_items(policy: Policy, subject: Subject | None) -> Iterator[DescribedItem]:
    for kind in _LISTS:
        items: Sequence[PolicyItem] = getattr(policy, kind)
        for place, item in enumerate(items):
            # RULE (console-own-items)
            if subject is None or names_subject(item, subject):
                yield _describe_item(kind, place, item, subject)


def names_subject(item: PolicyItem, subject: Subject, *, as_owner: bool = True) -> bool:
    """Whether an item names somebody: the user, a group or role of theirs, or everybody; `as_owner`: also
    where it names whoever owns the resource."""
    return (
        CURRENT_USER in item.users
        or (as_owner and OWNER in item.users)
        or subject.user in item.users
        or not item.groups.isdisjoint(subject.groups)
        or not item.roles.isdisjoint(subject.roles)
    )


def _describe_item(kind: str, place: int, item: PolicyItem, subject: Subject | None) -> DescribedItem:
    users, groups, roles = item.users, item.groups, item.roles
    if subject is not None:
        users = users & {subject.user, CURRENT_USER, OWNER}
        groups, roles = groups & (subject.groups | {PUBLIC}), roles & subject.roles
    named = len(item.users) + len(item.groups) + len(item.roles)
    shown = [tuple(sorted(names)[:MAX_SHOWN_VALUES]) for names in (users, groups, roles)]
    shows, author = "", ""
    if isinstance(item, MaskItem):
        shows, author = f"{item.mask_type} {item.text}".strip(), item.author
    elif isinstance(item, FilterItem):
        shows, author = item.filter_expression, item.author
    if subject is not None and isinstance(item, MaskItem | FilterItem):
        # The text may name values and tables that are none of theirs.
        shows, author = item.mask_type if isinstance(item, MaskItem) else "", ""
    return DescribedItem(
        kind=kind,
        place=place,
        users=shown[0],
        groups=shown[1],
        roles=shown[2],
        others=named - sum(map(len, shown)),
        accesses=tuple(sorted(item.accesses)),
        conditions=_describe_conditions(item.conditions, subject),
        delegates=item.delegate_admin,
        shows=shows,
        author=user_of(author),
    )


def describe_on_one_line(policy: Policy, levels: Sequence[ResourceDef], most: int = 300) -> str:
    """Return a policy's resources, cut to so many characters."""
    told = []
    for resources in (policy.resources, *policy.additional_resources)[:3]:
        parts = []
        for one in _describe_resources(resources, levels):
            some = ", ".join(one.values[:3]) + (", …" if len(one.values) > 3 or one.more else "")
            parts.append(f"{one.level} {'not ' if one.excludes else ''}{some}")
        told.append("; ".join(parts))
    text = " or ".join(told) + (" or …" if len(policy.additional_resources) > 2 else "")
    return text if len(text) <= most else text[: most - 1] + "…"


def _describe_resources(resources: ResourceSet, levels: Sequence[ResourceDef]) -> tuple[DescribedLevel, ...]:
    # A database's JSON does not keep their order.
    places = {level.name: level.level for level in levels}
    named = sorted(resources, key=lambda name: places.get(name, 0))
    return tuple(_describe_level(name, resources[name]) for name in named)


def _describe_level(level: str, values: ResourceValues) -> DescribedLevel:
    shown = values.values[:MAX_SHOWN_VALUES]
    return DescribedLevel(
        level=level,
        values=shown,
        more=len(values.values) - len(shown),
        excludes=values.excludes,
        recursive=values.recursive,
    )


def _describe_conditions(conditions: Sequence[Condition], subject: Subject | None) -> tuple[str, ...]:
    if subject is not None:
        # Their values may name others.
        return tuple(one.type for one in conditions)
    return tuple(map(describe_condition, conditions))


def describe_condition(condition: Condition) -> str:
    values = ", ".join(condition.values)
    return f"{condition.type}: {values}" if values else condition.type


def describe_schedule(schedule: ValiditySchedule) -> str:
    """Return a period in words; both ends are inclusive, in the wall clock of the zone."""
    if schedule.invalid:
        return "a validity that cannot be read"
    ends = [
        f"{word} {end:%Y-%m-%d %H:%M:%S}"
        for word, end in (("from", schedule.start), ("until", schedule.end))
        if end is not None
    ]
    period = f"{' '.join(ends) or 'always'} ({schedule.zone})"
    for one in schedule.recurrences:
        begins = ", ".join(
            f"{name.replace('_', ' ')} {value}"
            for name in ("minute", "hour", "day_of_month", "day_of_week", "month", "year")
            if (value := getattr(one, name)) != "*"
        )
        period += f", for {one.interval_minutes} minutes at each {begins or 'minute'}"
    return period


def find_labelled(policies: Sequence[Policy]) -> Callable[[PolicyRef], PolicyLabel | None]:
    """Return what finds the label of one of these policies by how a decision refers to it."""
    labels = {(one.id, one.name, one.version): label_of(one) for one in policies}
    return lambda ref: labels.get((ref.id, ref.name, ref.version))
