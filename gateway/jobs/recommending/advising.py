"""What is recommended, given what use comes to: changes to policies with their cases. Pure.

The roll-ups count reads alone. So nothing is said of items that grant more than reading, nor of what holds
only now and then.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from typing import Any

from gateway.jobs.recommending.attribution import (
    ALLOW,
    FILTER,
    MASK,
    SELECT,
    circumstantial,
    drop_policies,
    is_needless,
    key_of,
    list_policies_about,
    table_of,
    with_policies,
)
from gateway.jobs.recommending.storing import Advice
from gateway.jobs.recommending.writing import (
    as_case,
    case_of,
    decide_column,
    drop_empty,
    format_principals,
    item_of,
    one_or_all,
    write_resources,
)
from gateway.model.policy import Policy, PolicyItem, PolicySet, PolicyType, ResourceSet
from gateway.model.principal import Principal
from gateway.model.resource import Resource
from gateway.policy.closing import build_opening_test
from gateway.policy.differences import digest_of, sets_of
from gateway.policy.engine import Engine, engine_for
from gateway.policy.globs import has_wildcard

UNUSED_GRANT, SHADOWED, WIDE, UNUSED_EXEMPTION = (
    "unused-grant",
    "shadowed",
    "wide-wildcard",
    "unused-exemption",
)
BY_USE, FAR, UNGOVERNED = "group-by-use", "far-from-peers", "no-policy"
READS = frozenset({"select", "use", "show"})
"""Access types of an item that grants reading and nothing else."""
MAX_CASES = 5
_WHOEVER = frozenset({"{USER}", "{OWNER}"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """How often an item was needed."""

    recent: int
    users: int
    first: datetime
    last: datetime
    last_user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedTable:
    name: str
    recent: int
    users: int
    user: str
    """User and column of the most frequent use."""
    groups: Sequence[str]
    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The time that counts as recent."""

    days: int
    since: datetime
    complete: bool
    """Whether the roll-ups reach back so far, and up to now."""

    def build_fields(self) -> dict[str, Any]:
        return {"days": self.days, "since": f"{self.since:%Y-%m-%d}"}


@dataclass(frozen=True, slots=True)
class Held:
    """A policy where it stands."""

    policy: Policy
    service: str
    """Service of the pack; a tag policy stands in the pack of the service that it guards."""
    on_tags: bool

    @property
    def address(self) -> dict[str, Any]:
        """Address of the policy in an edit, with its present state."""
        found = {"policy": self.policy.name, "service": self.service, "was": digest_of(self.policy)}
        return found | ({"zone": self.policy.zone} if self.policy.zone else {})

    @property
    def subject(self) -> str:
        return json.dumps([self.service, self.policy.zone, self.policy.name], ensure_ascii=False)


def list_policies_in_force(policies: PolicySet) -> dict[str, Held]:
    """Return the policies that are in force, by key."""
    found: dict[str, Held] = {}
    doubled: set[str] = set()
    for name, service in policies.services.items():
        for on_tags, own in (
            (False, service.policies),
            (True, service.tags.policies if service.tags else ()),
        ):
            for policy in own:
                key = key_of(policy)
                if key in found:
                    doubled.add(key)
                if policy.enabled:
                    found[key] = Held(policy, name, on_tags)
    # Of two that cannot be told apart, here or in an edit, nothing is said.
    named = Counter(one.subject for one in found.values())
    return {key: one for key, one in found.items() if key not in doubled and named[one.subject] == 1}


def list_judged_items(one: Held) -> Iterator[tuple[str, int, PolicyItem]]:
    """Yield the items of a policy that want use: plain grants of reading, and exemptions from masks and
    filters."""
    policy = one.policy
    if circumstantial(policy) or policy.deny_all_else:
        return
    for number, item in enumerate(policy.allow):
        accesses = {access.lower() for access in item.accesses}
        if SELECT in accesses and accesses <= READS and not item.delegate_admin and not item.users & _WHOEVER:
            yield ALLOW, number, item
    for number, mask in enumerate(policy.masks):
        if mask.mask_type == "MASK_NONE" and not mask.users & _WHOEVER:
            yield MASK, number, mask
    for number, kept in enumerate(policy.filters):
        if not kept.filter_expression.strip() and not kept.users & _WHOEVER:
            yield FILTER, number, kept


def identity(one: Held, part: str, item: PolicyItem) -> str:
    """Return what an item is remembered by: another when it, or what its policy is on, is changed."""
    told = [one.subject, part, item_of(part, item), [write_resources(found) for found in sets_of(one.policy)]]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(slots=True, kw_only=True)
class Adviser:
    """Makes recommendations of what is known."""

    policies: PolicySet
    period: Period
    needs: Mapping[tuple[str, str, int], Need]
    """Part, policy and place of an item → how it was needed; those that never were are not there."""
    old: Callable[[str], bool]
    """Whether an item, by its identity, was there all the time."""
    examples: Mapping[str, tuple[int, str, str]] = field(default_factory=dict)
    """Policy → known tables that it speaks of, and a table and column of them."""
    held: dict[str, Held] = field(init=False)
    _now: Engine = field(init=False)
    _circumstantial: frozenset[int] = field(init=False)
    """Ids of policies that hold only now and then."""
    _opens: Callable[[Policy], bool] = field(init=False)
    """Whether tables of files may be closed again when a policy goes."""

    def __post_init__(self) -> None:
        self.held = list_policies_in_force(self.policies)
        self._circumstantial = frozenset(
            policy.id
            for service in self.policies.services.values()
            for policy in (*service.policies, *(service.tags.policies if service.tags else ()))
            if circumstantial(policy)
        )
        self._now = engine_for(self.policies)
        self._opens = build_opening_test(self.policies)

    # -- grants and exemptions that nobody needed ----------------------------------------------------------

    def find_unneeded(self, skip: frozenset[str] = frozenset()) -> Iterator[Advice]:
        """Yield the items that nobody needed in the period; nothing while the roll-ups are too young."""
        if not self.period.complete:
            return
        for key, one in sorted(self.held.items()):
            if key in skip:
                continue
            for part, number, item in list_judged_items(one):
                if part == ALLOW and self._opens(one.policy):
                    continue
                need = self.needs.get((part, key, number))
                if (need is None or not need.recent) and self.old(identity(one, part, item)):
                    yield self._build_unneeded(key, one, part, number, item, need)

    def _build_unneeded(
        self, key: str, one: Held, part: str, number: int, item: PolicyItem, need: Need | None
    ) -> Advice:
        def less(policy: Policy) -> Policy | None:
            if key_of(policy) != key:
                return policy
            name = {ALLOW: "allow", MASK: "masks", FILTER: "filters"}[part]
            left = [each for i, each in enumerate(getattr(policy, name)) if i != number]
            return replace(policy, **{name: tuple(left)})  # type: ignore[arg-type]  # by the name of the field

        who = format_principals(item)
        kind = UNUSED_GRANT if part == ALLOW else UNUSED_EXEMPTION
        what = {
            ALLOW: "was not needed for any read",
            MASK: "read nothing that they may see without the mask",
            FILTER: "read no table that they may see without the filter",
        }[part]
        after = Engine(with_policies(self.policies, less), base=self._now)
        edit = {"do": "remove_item", **one.address, "list": part, "item": item_of(part, item)}
        return Advice(
            kind=kind,
            subject=f"{one.subject} {part} {json.dumps(edit['item'], sort_keys=True, ensure_ascii=False)}",
            title=f"{who} {what} for {self.period.days} days: `{one.policy.name}`",
            edits=[edit],
            cases=self._item_cases(after, key, part, item),
            evidence={
                **self.period.build_fields(),
                "who": who,
                **_need(need),
                "known_tables": self._is_known(key),
            },
        )

    def _is_known(self, key: str) -> int:
        return self.examples[key][0] if key in self.examples else 0

    def _item_cases(self, after: Engine, key: str, part: str, item: PolicyItem) -> list[dict[str, Any]]:
        """Return what somebody of each group and role, and each user, gets then of a column it speaks of."""
        example = self.examples.get(key)
        table = table_of(self.policies, example[1]) if example is not None else None
        if example is None or table is None or self._is_closed(table):
            return []
        column = table.child("column", example[2] or "some_other")
        # Roles as such cannot be had by a name in `as` of a case otherwise.
        people = [
            *(Principal(user=user) for user in sorted(item.users)),
            *(Principal(user="somebody", groups=frozenset({group})) for group in sorted(item.groups)),
            *(Principal(user="somebody", roles=frozenset({role})) for role in sorted(item.roles)),
        ]
        return [case_of(after, who, column, part) for who in people[:MAX_CASES]]

    # -- policies that change no answer --------------------------------------------------------------------

    def list_shadow_suspects(self) -> list[str]:
        """Return the policies that may be shadowed: grants that were there all the time, and that nothing
        rested on. Whoever has just written one may be about to take out another.

        What protects never is: it holds for grants to come as well.
        """
        if not self.period.complete:
            return []
        needed = {policy for (_, policy, _), need in self.needs.items() if need.recent}
        return sorted(
            key
            for key, one in self.held.items()
            if key not in needed
            and one.policy.allow
            and not (one.policy.deny or one.policy.deny_all_else or circumstantial(one.policy))
            and not any(item.delegate_admin for item in one.policy.allow)
            and all(self.old(identity(one, ALLOW, item)) for item in one.policy.allow)
        )

    def find_shadowed(self, found: Sequence[str], most_asked: int) -> Iterator[Advice]:
        """Yield those policies without which no answer is another, the ones before them being gone already:
        of several that stand for each other one stays."""
        left = self.policies
        for key in sorted(found):
            one = self.held[key]
            if not is_needless(left, key, most_asked):
                continue
            left = drop_policies(left, lambda policy, key=key: key_of(policy) == key)  # type: ignore[misc]
            after = engine_for(left, base=self.policies)
            cases: list[dict[str, Any]] = []
            for item in one.policy.allow:
                cases += [case for case in self._item_cases(after, key, ALLOW, item) if case not in cases]
            yield Advice(
                kind=SHADOWED,
                subject=one.subject,
                title=f"`{one.policy.name}` has no effect: no decision changes without it",
                edits=[{"do": "remove_policy", **one.address}],
                cases=cases[:MAX_CASES],
                evidence={**self.period.build_fields(), "known_tables": self._is_known(key)},
            )

    # -- wildcards -----------------------------------------------------------------------------------------

    def list_wildcard_policies(self) -> list[str]:
        """Return the policies whose tables are named by wildcards and that grant nothing but reading."""
        return sorted(
            key
            for key, one in self.held.items()
            if one.policy.type is PolicyType.ACCESS
            and not one.on_tags
            and not circumstantial(one.policy)
            and not one.policy.deny
            and not one.policy.deny_all_else
            and not self._opens(one.policy)
            and len(list(list_judged_items(one))) == len(one.policy.allow) > 0
            and any(_is_wide(found) for found in sets_of(one.policy))
        )

    def find_too_broad(self, used: Mapping[str, Sequence[UsedTable]], most: int) -> Iterator[Advice]:
        """Yield the policies that speak of more tables than were read by them, with those that were."""
        for key in self.list_wildcard_policies():
            of_policy, one = used.get(key, ()), self.held[key]
            known = self._is_known(key)
            # Those that nobody used are told of as such.
            if not self.period.complete or not 0 < len(of_policy) <= most or len(of_policy) >= known:
                continue
            if not all(self.old(identity(one, part, item)) for part, _, item in list_judged_items(one)):
                continue
            narrowed = self._narrow_sets(one.policy, of_policy)
            if narrowed is None:
                continue

            def less(
                policy: Policy, key: str = key, sets: Sequence[ResourceSet] = tuple(narrowed)
            ) -> Policy | None:
                if key_of(policy) != key:
                    return policy
                return replace(policy, resources=sets[0], additional_resources=tuple(sets[1:]))

            after = Engine(with_policies(self.policies, less), base=self._now)
            cases = []
            for each in of_policy[:MAX_CASES]:
                table = table_of(self.policies, each.name)
                if table is not None and each.column not in ("*", ""):
                    who = Principal(user=each.user, groups=frozenset(each.groups))
                    cases.append(case_of(after, who, table.child("column", each.column), ALLOW))
            yield Advice(
                kind=WIDE,
                subject=one.subject,
                title=f"`{one.policy.name}` covers {known:,} tables, of which {len(of_policy)} were read "
                f"through it in {self.period.days} days",
                edits=[{"do": "narrow", **one.address, "on": [write_resources(found) for found in narrowed]}],
                cases=cases,
                evidence={
                    **self.period.build_fields(),
                    "known_tables": known,
                    "tables": {
                        each.name: {"statements": each.recent, "users": each.users} for each in of_policy
                    },
                },
            )

    def _narrow_sets(self, policy: Policy, used: Sequence[UsedTable]) -> list[ResourceSet] | None:
        """Return the sets with tables instead of wildcards; None where they would not cover the use."""
        tables = [one for each in used if (one := table_of(self.policies, each.name)) is not None]
        if len(tables) < len(used) or any(_has_wildcard(table) or self._is_closed(table) for table in tables):
            return None
        sets: list[ResourceSet] = []
        covered: set[Resource] = set()
        for resources in sets_of(policy):
            if not _is_wide(resources):
                sets.append(resources)
                continue
            own = [table for table in tables if self._speaks(policy, resources, table)]
            covered.update(own)
            by_place: dict[tuple[str, ...], list[str]] = {}
            for table in own:
                *above, (_, name) = table.elements
                by_place.setdefault(tuple(value for _, value in above), []).append(name)
            for above_values, names in sorted(by_place.items()):
                levels = [level for level, _ in tables[0].elements]
                values = [*((one,) for one in above_values), tuple(sorted(names))]
                new = {
                    level: replace(resources[level], values=chosen, excludes=False)
                    for level, chosen in zip(levels, values, strict=True)
                }
                sets.append({**resources, **new})
        literal = [t for t in tables if t not in covered]
        # What is left is named by the policy itself already.
        if any(not any(self._speaks(policy, s, t) for s in sets) for t in literal):
            return None
        return sets or None

    def _is_closed(self, table: Resource) -> bool:
        """Say whether a table is closed until a policy names it: one that does opens it to others as well."""
        return any(policy.is_closing for policy, _ in self._now.policies_on(table))

    def _speaks(self, policy: Policy, resources: ResourceSet, table: Resource) -> bool:
        """Say whether a policy would speak of a table's columns by one set of resources alone."""
        alone = replace(policy, resources=resources, additional_resources=())
        key = key_of(policy)
        only = with_policies(self.policies, lambda each: alone if key_of(each) == key else None)
        found = Engine(only).policies_on(table.child("column", "some_other"))
        if not found:
            columns = resources["column"].values if "column" in resources else ()
            found = tuple(one for c in columns for one in Engine(only).policies_on(table.child("column", c)))
        return bool(found)

    # -- people --------------------------------------------------------------------------------------------

    def group(
        self,
        users: Sequence[str],
        groups: Mapping[str, Sequence[str]],
        columns: Mapping[str, Sequence[str]],
    ) -> Advice | None:
        """Return a role for people who read the same, with what each of them may read of it now; None where
        that is nothing, or a role has them already."""
        people = [Principal(user=user, groups=frozenset(groups.get(user, ()))) for user in users]
        on: list[dict[str, Any]] = []
        given: list[Resource] = []
        cases: list[dict[str, Any]] = []
        for name in sorted(columns):
            table = table_of(self.policies, name)
            if table is None or _has_wildcard(table) or self._is_closed(table):
                continue
            shared = [
                column
                for column in columns[name]
                if not has_wildcard(column)
                and all(self._always_allowed(who, table.child("column", column)) for who in people)
            ]
            if shared:
                on.append({**dict(table.elements), "column": one_or_all(shared)})
                given += [table.child("column", column) for column in shared]
                if len(cases) < MAX_CASES:
                    who = {"user": people[0].user, "groups": sorted(people[0].groups)}
                    cases.append(
                        as_case(drop_empty(who), table.child("column", shared[0]), {"effect": "allow"})
                    )
        if len(on) < 1:
            return None
        if self._have_a_role(frozenset(users), given):
            return None
        digest = hashlib.sha256("\n".join(sorted(columns)).encode()).hexdigest()[:8]
        subject, told = f"by_use_{digest}", ", ".join(users[:MAX_CASES])
        roles, named = {one.name for one in self.policies.roles}, self._names()
        role = next(
            one
            for one in _list_numbered_names(subject, "_")
            if one not in roles and f"what {one} read" not in named
        )
        more = f" and {len(users) - MAX_CASES} more" if len(users) > MAX_CASES else ""
        policy = {
            "name": f"what {role} read",
            "on": on[0] if len(on) == 1 else on,
            "allow": [{"roles": [role], "access": [SELECT]}],
        }
        return Advice(
            kind=BY_USE,
            subject=subject,
            title=f"{told}{more} read the same {len(columns)} tables: create a role for them",
            edits=[
                {"do": "add_role", "name": role, "role": {"users": list(users)}},
                {"do": "add_policy", "policy": policy},
            ],
            cases=cases,
            evidence={**self.period.build_fields(), "users": len(users), "tables": sorted(columns)},
        )

    def _have_a_role(self, users: frozenset[str], columns: Sequence[Resource]) -> bool:
        """Say whether a role has just these users, or has them among others and may read some columns."""
        for role in self.policies.roles:
            if role.users == users and not (role.groups or role.roles):
                return True
            alone = Principal(user="", roles=frozenset({role.name}))
            if users <= role.users and all(self._always_allowed(alone, column) for column in columns):
                return True
        return False

    def _names(self) -> frozenset[str]:
        """Return the names of all policies."""
        return frozenset(policy.name for policy in self.policies.policies())

    def _always_allowed(self, who: Principal, column: Resource) -> bool:
        """Say whether somebody may read a column now, by a policy that holds at all times."""
        decision = decide_column(self._now, who, column)
        return decision.allowed and decision.policy.id not in self._circumstantial

    def advise_against_outlier(
        self, user: str, groups: Sequence[str], odd: Sequence[str], evidence: Mapping[str, Any]
    ) -> Advice | None:
        """Return the denial of tables that a user reads and hardly anybody of the same groups; None where
        policies deny them already."""
        who = Principal(user=user, groups=frozenset(groups))
        tables = []
        for name in odd:
            table = table_of(self.policies, name)
            if table is None or _has_wildcard(table):
                continue
            if decide_column(self._now, who, table.child("column", "some_other")).allowed:
                tables.append(table)
        if not tables or has_wildcard(user) or "{" in user:
            return None
        own, named = sorted(groups), self._names()
        name = f"{user} reads what others of {', '.join(own) or 'no group'} read"
        policy = {
            # Other tables may have been denied by that name.
            "name": next(one for one in _list_numbered_names(name, " ") if one not in named),
            "on": one_or_all([{**dict(table.elements), "column": "*"} for table in tables]),
            "deny": [{"users": [user], "access": [SELECT]}],
        }
        cases = [
            as_case(
                drop_empty({"user": user, "groups": own}),
                table.child("column", "some_other"),
                {"effect": "deny"},
            )
            for table in tables[:MAX_CASES]
        ]
        return Advice(
            kind=FAR,
            subject=json.dumps([user, *own], ensure_ascii=False),
            title=f"{user} reads {len(tables)} tables that hardly anybody else of"
            f" {', '.join(own) or 'no group'} reads",
            edits=[
                {
                    "do": "add_policy",
                    "policy": policy,
                    "was": sorted(list_policies_about(self.policies, tables)),
                }
            ],
            cases=cases,
            evidence={**self.period.build_fields(), **evidence},
        )

    def build_closing_policy(self, name: str, tried: Mapping[str, Any]) -> Advice | None:
        """Return a policy that says of a table that it is closed; None where it is no table, or something of
        it is granted."""
        table = table_of(self.policies, name)
        if table is None or _has_wildcard(table) or any("{" in value for _, value in table.elements):
            return None
        spoken = list_policies_about(self.policies, [table])
        # Columns that nobody has seen yet may be granted all the same.
        if any(one.allow for one in spoken.values()):
            return None
        policy = {
            "name": f"{name} is closed",
            "on": {**dict(table.elements), "column": "*"},
            "deny": [{"groups": ["public"], "access": [SELECT]}],
        }
        return Advice(
            kind=UNGOVERNED,
            subject=name,
            title=f"no policy covers {name}: close it, or grant access to it",
            edits=[{"do": "add_policy", "policy": policy, "was": sorted(spoken)}],
            cases=[as_case({"user": "somebody"}, table.child("column", "some_other"), {"effect": "deny"})],
            evidence=dict(tried),
        )


# -- of needs and names --------------------------------------------------------------------------------------


def _need(need: Need | None) -> dict[str, Any]:
    if need is None:
        return {"statements": 0, "last_use": None}
    return {"statements": need.recent, "last_use": need.last.isoformat(), "last_user": need.last_user}


def _list_numbered_names(name: str, between: str) -> Iterator[str]:
    """Yield a name, and others like it."""
    yield name
    for number in count(2):
        yield f"{name}{between}{number}"


def _is_wide(found: ResourceSet) -> bool:
    """Say whether a set speaks of columns of tables that it names by a wildcard, and by nothing else."""
    table = found.get("table")
    if table is None or not {"catalog", "database", "column"} <= found.keys():
        return False
    levels = [found[level] for level in ("catalog", "database", "table")]
    if any(values.recursive or any("{" in text for text in values.values) for values in levels):
        return False
    return any(values.excludes or any(map(has_wildcard, values.values)) for values in levels)


def _has_wildcard(table: Resource) -> bool:
    return any(has_wildcard(value) for _, value in table.elements)
