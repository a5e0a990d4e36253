"""Policies prepared for evaluation: access types as bits, conditions as tests, a matcher per level, Ranger's
order as a key.

The rule for whatever cannot be told (a condition that fails, a schedule without a time or without sense, a
script that yields nothing): it counts against access. An item that allows does not match, one that denies
does; an exception to an allowance matches, one to a denial does not; of a policy only what it denies is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from gateway.model.context import TIME
from gateway.model.decision import PolicyRef
from gateway.model.policy import (
    Condition,
    Policy,
    PolicyItem,
    PolicyType,
    ServiceDef,
)
from gateway.model.resource import ADMIN_ACCESS, ANY_ACCESS, BY_NAME
from gateway.policy.conditions import Test, Untranslatable, compile_condition
from gateway.policy.facts import Facts
from gateway.policy.hierarchy import MatchType, hierarchy_to
from gateway.policy.matching import NO_CONTEXT_DEPENDENCIES, is_dynamic
from gateway.policy.schedules import compile_schedules
from gateway.policy.subjects import CURRENT_USER, OWNER, PUBLIC, Subject

__all__ = ["AccessBits", "CompiledItem", "CompiledPolicy", "MatchType", "evaluation_score", "hierarchy_to"]


EVERYBODY = frozenset({("", "")})


class EvaluationContext(Protocol):
    """Facts about one access that a policy's conditions can read."""

    subject: Subject
    owner: str | None

    def facts(self) -> Facts: ...


class AccessBits:
    """The access types of a service as bits of an integer, with their implied grants."""

    def __init__(self, definition: ServiceDef) -> None:
        names = [access.name.lower() for access in definition.access_types]
        self._bit = {name: 1 << i for i, name in enumerate(names)}
        self.names = {bit: name for name, bit in self._bit.items()}
        self.count = len(names)
        self.all = (1 << len(names)) - 1
        self.admin = 1 << len(names)
        """The bit of delegated administration, which is no access type."""
        self._by_name = {name: self.admin << i for i, name in enumerate(names, start=1)}
        """Bits of what an item lists itself, not by what implies it; no access types either."""
        # One level deep, as in Ranger: a grant that is implied implies nothing further.
        # RULE (implied-one-level)
        self._granted = {
            access.name.lower(): self._bit.get(access.name.lower(), 0)
            # RULE (implied-grants)
            | sum({self._bit[name.lower()] for name in access.implied if name.lower() in self._bit})
            for access in (*definition.markers, *definition.access_types)  # RULE (marker-access-types)
        }
        self._aliases = {k.lower(): v.lower() for k, v in definition.access_aliases.items()}

    def find_bit(self, access: str) -> int:
        """Return the bit of a requested access type, 0 when the service does not know it."""
        bit = self._bit.get(access)
        if bit is not None:
            return bit
        access = access.lower()
        if access == ADMIN_ACCESS:
            return self.admin
        named = access.removesuffix(BY_NAME)
        known = named if named in self._bit else self._aliases.get(named, "")
        return (self._bit if named == access else self._by_name).get(known, 0)

    def means_any(self, access: str) -> bool:
        """Say whether the service takes an access type that it does not know for any access at all."""
        return not self.find_bit(access) and self._aliases.get(access.lower()) == ANY_ACCESS

    def compute_granted_bits(self, accesses: Iterable[str]) -> int:
        """Return the bits of what an item lists, implied grants included."""
        bits = 0
        for access in accesses:
            name = access.lower()
            bits |= self._granted.get(name, 0) | self._by_name.get(name, 0)
        return bits


class CompiledItem:
    """One item of a policy: its subjects, its access types and its conditions."""

    __slots__ = ("bits", "everyone", "groups", "item", "owner", "roles", "tests", "users")

    def __init__(self, item: PolicyItem, bits: AccessBits, tests: tuple[Test, ...]) -> None:
        self.item = item
        # RULE (delegated-admin, admin-no-access)
        self.bits = bits.compute_granted_bits(item.accesses) | (bits.admin if item.delegate_admin else 0)
        self.users, self.groups, self.roles = item.users, item.groups, item.roles
        self.everyone = CURRENT_USER in item.users or PUBLIC in item.groups  # RULE (current-user)
        self.owner = OWNER in item.users  # RULE (owner-item)
        self.tests = tests

    def covers(self, subject: Subject, owner: str | None) -> bool:
        """Say whether the item speaks of `subject`, who may own the resource."""
        return (
            self.everyone
            or subject.user in self.users
            or not self.groups.isdisjoint(subject.groups)
            or not self.roles.isdisjoint(subject.roles)
            or (self.owner and owner is not None and owner == subject.user)
        )

    def holds(self, asked: EvaluationContext) -> bool | None:
        """Say whether the item speaks of the subject now; None when a condition cannot be told."""
        if not self.covers(asked.subject, asked.owner):
            return False
        return all_hold(self.tests, asked) if self.tests else True


def all_hold(tests: Sequence[Test], asked: EvaluationContext) -> bool | None:
    """Return whether every test holds: False when one does not, None when one cannot be told."""
    facts = asked.facts()
    answers = [evaluate_test(test, facts) for test in tests]
    if False in answers:  # RULE (all-conditions)
        return False
    return None if None in answers else True


def evaluate_test(test: Test, facts: Facts) -> bool | None:
    """Return what a test answers; None also where it asks for tags that are in doubt."""
    return test(facts) if facts.is_determined(test.context_dependencies) else None


class _Indeterminate:
    """A condition whose script is not of our language: it cannot be told."""

    context_dependencies: frozenset[str] = frozenset()

    def __call__(self, facts: Facts) -> bool | None:
        return None


class CompiledPolicy:
    """One policy of one service, ready to be asked what it allows and denies to a subject."""

    __slots__ = (
        "__weakref__",
        "_allow",
        "_allow_exceptions",
        "_applies",
        "_deny",
        "_deny_exceptions",
        "_else_bits",
        "_principals",
        "_sort_key",
        "_tests",
        "_types",
        "conditional",
        "context_dependencies",
        "obligations",
        "policy",
        "priority",
        "ref",
    )

    def __init__(self, policy: Policy, definition: ServiceDef, bits: AccessBits) -> None:
        self.policy = policy
        self.priority = policy.priority
        self.ref = PolicyRef(id=policy.id, name=policy.name, version=policy.version)
        self._types = bits.count
        self._sort_key: SortKey | None = None
        self._principals: frozenset[tuple[str, str]] | None = None
        access = policy.type is PolicyType.ACCESS
        excepting = access and definition.deny_enabled  # RULE (deny-switched-off)

        def compile_items(items: Sequence[PolicyItem]) -> tuple[CompiledItem, ...]:
            if not items:
                return ()
            # RULE (item-conditions)
            return tuple([CompiledItem(i, bits, _tests(i.conditions, definition)) for i in items])

        self._allow = compile_items(policy.allow) if access else ()
        self._deny = compile_items(policy.deny) if excepting else ()  # RULE (deny-items)
        # RULE (allow-exceptions)
        self._allow_exceptions = compile_items(policy.allow_exceptions) if excepting else ()
        # RULE (deny-exceptions)
        self._deny_exceptions = compile_items(policy.deny_exceptions) if excepting else ()
        # RULE (deny-all-else)
        self._else_bits = bits.all | bits.admin if access and policy.deny_all_else else 0
        masked: tuple[PolicyItem, ...] = ()
        if policy.type is PolicyType.MASK:
            masked = policy.masks
        elif policy.type is PolicyType.ROW_FILTER:
            masked = policy.filters
        self.obligations = compile_items(masked)
        """Items of a mask or row-filter policy; the first that speaks of the subject settles it."""
        # RULE (policy-schedules)
        self._applies = compile_schedules(policy.schedules) if policy.schedules else None
        self._tests = _tests(policy.conditions, definition)  # RULE (policy-conditions)
        tests = [*self._tests, *[test for item in self._items() for test in item.tests]]
        self.conditional = bool(tests or self._applies)
        """Whether anything but subject and owner matters."""
        self.context_dependencies = NO_CONTEXT_DEPENDENCIES
        """Fields of the context that the policy asks for."""
        if self.conditional:
            self.context_dependencies = NO_CONTEXT_DEPENDENCIES.union(
                {TIME} if self._applies else (), *(test.context_dependencies for test in tests)
            )

    def _items(self) -> tuple[CompiledItem, ...]:
        return self._allow + self._deny + self._allow_exceptions + self._deny_exceptions + self.obligations

    @property
    def sort_key(self) -> SortKey:
        """What it is sorted by, where several speak of one resource; for all of a load it would take long."""
        found = self._sort_key
        if found is None:
            found = self._sort_key = sort_key(self.policy, self._types)
        return found

    @property
    def deciding_items(self) -> tuple[CompiledItem, ...]:
        """Items without which the policy says nothing about a subject; exceptions only take away."""
        return self._allow + self._deny + self.obligations

    @property
    def speaks_of_everyone(self) -> bool:
        return bool(self._else_bits) or any(i.everyone or i.owner for i in self.deciding_items)

    @property
    def principals(self) -> frozenset[tuple[str, str]]:
        """Whom it can say something about: (kind, name), or an empty kind for everybody."""
        found = self._principals
        if found is None:
            found = self._principals = EVERYBODY if self.speaks_of_everyone else self._list_principals()
        return found

    def _list_principals(self) -> frozenset[tuple[str, str]]:
        return frozenset(
            (kind, name)
            for item in self.deciding_items
            for kind, names in (("user", item.users), ("group", item.groups), ("role", item.roles))
            for name in names
        )

    @property
    def tested(self) -> bool:
        """Whether a condition has a say, of the policy or of an item."""
        return bool(self._tests) or any(item.tests for item in self._items())

    @property
    def allows(self) -> bool:
        return bool(self._allow)

    @property
    def denies(self) -> bool:
        return bool(self._deny or self._else_bits)

    def in_force(self, asked: EvaluationContext) -> bool | None:
        """Say whether schedules and conditions let the policy count; None when that cannot be told."""
        if not (self._applies or self._tests):
            return True
        held = all_hold(self._tests, asked) if self._tests else True
        if self._applies is not None and held is not False:
            applies = self._applies(asked.facts().context.time)
            if not applies:
                return applies
        return held

    def out_of_schedule(self, asked: EvaluationContext) -> bool:
        """Say whether the policy does not hold at the time of the access."""
        return self._applies is not None and self._applies(asked.facts().context.time) is False

    def conditions(self) -> list[tuple[Condition, Test]]:
        """Return the policy's own conditions with their tests."""
        return list(zip(self.policy.conditions, self._tests, strict=True))

    def effect(self, asked: EvaluationContext, *, doubted: bool = False) -> tuple[int, int, int]:
        """Return the access bits that this policy denies, allows, and denies as "everything else".

        `doubted`: it could not be told whether the policy speaks of this resource at all.
        """
        if doubted or self.conditional:
            return self._conditional_effect(asked, doubted)
        subject, owner = asked.subject, asked.owner
        deny = allow = 0
        for item in self._deny:
            if item.covers(subject, owner):
                deny |= item.bits
        for item in self._deny_exceptions if deny else ():
            if item.covers(subject, owner):
                deny &= ~item.bits
        for item in self._allow:
            if item.covers(subject, owner):
                allow |= item.bits
        for item in self._allow_exceptions if allow else ():
            if item.covers(subject, owner):
                allow &= ~item.bits
        allow &= ~deny  # RULE (denial-first-in-policy)
        return deny, allow, self._else_bits & ~allow & ~deny

    def _conditional_effect(self, asked: EvaluationContext, doubted: bool) -> tuple[int, int, int]:
        force = self.in_force(asked)
        if force is False:
            return 0, 0, 0
        deny = allow = 0
        for item in self._deny:
            if item.holds(asked) is not False:  # RULE (doubtful-denial)
                deny |= item.bits
        for item in self._deny_exceptions if deny else ():
            if item.holds(asked):
                deny &= ~item.bits
        for item in self._allow:
            if item.holds(asked):
                allow |= item.bits
        for item in self._allow_exceptions if allow else ():
            if item.holds(asked) is not False:  # RULE (doubtful-exception)
                allow &= ~item.bits
        allow &= ~deny
        if doubted or force is None:  # RULE (doubtful-policy)
            allow = 0
        return deny, allow, self._else_bits & ~allow & ~deny

    def may_allow(self, asked: EvaluationContext) -> int:
        """Return the access bits that this policy allows, or may as far as can be told."""
        if not self.conditional:
            return self.effect(asked)[1]
        bits = 0
        for item in self._allow if self.in_force(asked) is not False else ():
            if item.holds(asked) is not False:
                bits |= item.bits
        return bits

    def obligation(
        self, asked: EvaluationContext, bit: int, *, doubted: bool = False
    ) -> tuple[PolicyItem, bool] | None:
        """Return the first mask or filter item, in the listed order, that speaks of the subject.

        False beside it: it could not be told whether it holds.
        """
        if not (doubted or self.conditional):
            for item in self.obligations:  # RULE (first-mask-item)
                if item.bits & bit and item.covers(asked.subject, asked.owner):
                    return item.item, True
            return None
        force = self.in_force(asked)
        for item in self.obligations if force is not False else ():
            if item.bits & bit:
                held = item.holds(asked)
                if held is not False:  # RULE (doubtful-mask)
                    return item.item, bool(held and force and not doubted)
        return None

    def item_named(self, kind: str, asked: EvaluationContext, bit: int, types: int) -> str:
        """Return which item of a kind (`allow` or `deny`) settles an access type, as `allow[0]`."""
        items = self._deny if kind == "deny" else self._allow
        # RULE (item-order)
        ranked = sorted(range(len(items)), key=lambda i: item_score(items[i].item, types))
        for i in ranked:
            if items[i].bits & bit:
                held = items[i].holds(asked)
                if held or (held is None and kind == "deny"):
                    return f"{kind}[{i}]"
        return ""


Applying = tuple[CompiledPolicy, bool, bool]
"""A policy whose resources match; whether only something below the resource does; whether in doubt."""


def _tests(conditions: Sequence[Condition], definition: ServiceDef) -> tuple[Test, ...]:
    if not conditions:
        return ()
    known = {one.name: one for one in definition.conditions}
    found: list[Test] = []
    for condition in conditions:
        try:
            found.append(compile_condition(condition, known.get(condition.type)))
        except Untranslatable:
            found.append(_Indeterminate())
    return tuple(found)


SortKey = tuple[int, int, int, str, int]


def sort_key(policy: Policy, types: int) -> SortKey:
    """Return what Ranger sorts policies by: overrides first, then those that deny, then by score and name."""
    return (
        -policy.priority,  # RULE (overrides-first)
        0 if policy.deny or policy.deny_all_else else 1,  # RULE (denying-first)
        evaluation_score(policy, types),
        policy.name,  # RULE (order-by-name)
        policy.id,
    )


def evaluation_score(policy: Policy, types: int) -> int:
    """Return Ranger's `evalOrder`: lower scores are asked first, broad policies score low.

    Decides which of two policies of equal priority is reported, and for masks and filters which one wins.
    `types` is how many access types the service has.
    """
    # It is asked once for each policy of a load: loops without generators take half the time.
    score = 10_000
    breadth = 0
    dynamic = False
    for values in policy.resources.values():
        texts = values.values
        dynamic = dynamic or True in map(is_dynamic, texts)
        if not texts:
            continue
        if "" in texts or "*" in texts:
            breadth += 25  # RULE (score-open-levels)
            continue
        all_of_them = "".join(texts)
        if "*" in all_of_them:
            breadth += 10  # RULE (score-stars)
        elif "?" in all_of_them:
            breadth += 5  # RULE (score-question-marks)
        breadth += 5 * values.excludes + 5 * values.recursive  # RULE (score-excludes)
    score -= min(100, breadth)
    if dynamic:
        score += 20  # RULE (score-tokens)
    users = frozenset[str]().union(*[item.users for item in policy.items])
    groups = frozenset[str]().union(*[item.groups for item in policy.items])
    accesses = {a.lower() for item in policy.items for a in item.accesses}
    everyone = PUBLIC in groups or CURRENT_USER in users or policy.deny_all_else
    score -= 25 if everyone else min(25, len(users) + len(groups))  # RULE (score-everybody, score-principals)
    score -= int(25 * len(accesses) / max(1, types) + 0.5)  # RULE (score-access-types)
    conditions = len(policy.conditions) + sum([len(item.conditions) for item in policy.items])
    return score - max(0, 25 - 5 * conditions)  # RULE (score-conditions)


def item_score(item: PolicyItem, types: int) -> int:
    """Return Ranger's order of the items of one list: of several that match, the lowest is told."""
    everyone = PUBLIC in item.groups or CURRENT_USER in item.users
    return (
        1000
        - (100 if everyone else min(100, len(item.users) + len(item.groups)))
        - int(25 * len(item.accesses) / max(1, types) + 0.5)
        - max(0, 25 - 5 * len(item.conditions))
    )
