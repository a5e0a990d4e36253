"""The rules once more, slowly and plainly: every policy is looked at, every value compared, nothing is filed.

Written from Ranger's description, without the engine's modules, so that agreement means something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC

from gateway.model.context import AccessContext
from gateway.model.policy import (
    AuditFilter,
    Condition,
    FilterItem,
    MaskItem,
    Policy,
    PolicyItem,
    PolicySet,
    PolicyType,
    ResourceDef,
    ResourceSet,
    ResourceValues,
    ServiceDef,
)
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource, Scope
from gateway.model.tags import Tag, ValiditySchedule


def wild(pattern: Sequence[tuple[str, bool]], text: str) -> bool:
    """Match (character, is it live) pairs against text, by trying everything."""
    if not pattern:
        return not text
    character, live = pattern[0]
    if live and character == "*":
        behind = next((one for one in pattern if one != ("*", True)), None)
        if behind == ("?", True):  # the star is lost
            return wild(pattern[1:], text)
        return any(wild(pattern[1:], text[i:]) for i in range(len(text) + 1))
    return (
        bool(text) and ((live and character == "?") or character == text[0]) and wild(pattern[1:], text[1:])
    )


def value_matches(value: str, level: ResourceDef, text: str, user: str, owner: str | None) -> bool:
    pattern: list[tuple[str, bool]] = []
    rest = value
    while rest:
        if rest.startswith("{USER}"):
            pattern += [(c, False) for c in user]
            rest = rest[6:]
        elif rest.startswith("{OWNER}"):
            if not owner:
                return False
            pattern += [(c, False) for c in owner]
            rest = rest[7:]
        else:
            pattern.append((rest[0], level.wildcard))
            rest = rest[1:]
    if level.ignore_case:
        pattern = [(c.lower(), live) for c, live in pattern]
        text = text.lower()
    return wild(pattern, text)


def match_any(level: ResourceDef, values: ResourceValues) -> bool:
    return level.wildcard and any(v and not v.strip("*") for v in values.values)


def level_matches(
    level: ResourceDef, values: ResourceValues, text: str | None, user: str, owner: str | None
) -> bool:
    if match_any(level, values):
        return not values.excludes
    if text is None or text in ("", "*"):
        return False
    return any(value_matches(v, level, text, user, owner) for v in values.values) != values.excludes


def chain(definition: ServiceDef, type_: PolicyType, name: str) -> list[ResourceDef]:
    levels = {level.name: level for level in definition.levels(type_)}
    found = [levels[name]]
    while found[0].parent:
        found.insert(0, levels[found[0].parent])
    return found


def match_type(
    definition: ServiceDef, type_: PolicyType, resources: ResourceSet, resource: Resource, user: str
) -> str:
    """Ranger's walk from the root down, as it is described."""
    levels = {level.name for level in definition.levels(type_)}
    if not set(resources) <= levels or not {name for name, _ in resource.elements} <= levels:
        return "NONE"
    deepest = max(resources, key=lambda name: len(chain(definition, type_, name)))
    way = chain(definition, type_, deepest)
    if {level.name for level in way} != set(resources):
        return "NONE"
    asked = chain(definition, type_, resource.kind) if resource.elements else []
    longer = max(way, asked, key=len)
    if way != longer[: len(way)] or asked != longer[: len(asked)]:
        return "NONE"
    last_specific = max((i for i, lv in enumerate(way) if not match_any(lv, resources[lv.name])), default=-1)
    found = "NONE" if resource.elements else "SELF"
    for level in longer:
        held, value = resources.get(level.name), resource.level(level.name)
        if held is None:
            if value is not None:
                found = "ANCESTOR"
            break
        if value is None and not match_any(level, held):
            break
        if not level_matches(level, held, value, user, resource.owner):
            return "NONE"
        found = "SELF"
    if found == "SELF" and len(asked) < len(way):
        return "ALL" if len(asked) > last_specific else "DESCENDANT"
    return found


Holds = bool | None
"""None: it cannot be told."""
Means = Mapping[str, Callable[[Condition, AccessContext], Holds]]
"""Condition type → what it means; a type that is missing cannot be told."""


def within(schedules: Sequence[ValiditySchedule], context: AccessContext) -> Holds:
    """Schedules without recurrences, in GMT."""
    if not schedules:
        return True
    if context.time is None:
        return None
    now = context.time.astimezone(UTC).replace(tzinfo=None)
    sound = [s for s in schedules if not s.invalid]
    if any((s.start is None or s.start <= now) and (s.end is None or now <= s.end) for s in sound):
        return True
    return False if sound == list(schedules) else None


def both(answers: Iterable[Holds]) -> Holds:
    known = list(answers)
    return False if False in known else None if None in known else True


@dataclass(frozen=True)
class Voice:
    """One policy that is asked, with what makes it be: the tag, and how its resources match."""

    policy: Policy
    tag: Tag | None
    match: str
    sure: bool = True


@dataclass(frozen=True)
class Outcome:
    allowed: bool
    policy: int = -1
    tag: str = ""
    zone: str = ""


def tag_of(voice: Voice) -> str:
    return voice.tag.type if voice.tag is not None else ""


ORDER = ("SELF", "ALL", "ANCESTOR", "DESCENDANT")


class Linear:
    """Answers like the engine, for one service without paths."""

    def __init__(self, policies: PolicySet, service: str, means: Means | None = None) -> None:
        self.set = policies
        self.service = policies.services[service]
        self.definition = self.service.definition
        self.means = means or {}

    # Who asks.

    def groups(self, principal: Principal) -> frozenset[str]:
        users = self.set.users
        more = users.memberships.get(principal.user, frozenset()) if users.adds_groups else frozenset()
        return principal.groups | more

    def roles(self, principal: Principal, context: AccessContext) -> set[str]:
        if context.roles is not None:
            return set(context.roles)
        held, groups = set(principal.roles), self.groups(principal)
        for _ in range(len(self.set.roles) + 1):
            for role in self.set.roles:
                if (
                    principal.user in role.users
                    or role.groups & groups
                    or "public" in role.groups
                    or role.roles & held
                ):
                    held.add(role.name)
        return held

    def is_super(self, principal: Principal) -> bool:
        groups = self.groups(principal) & self.service.super_groups
        return principal.user in self.service.super_users or bool(groups - {"public"})

    def covers(self, item: PolicyItem, request: AccessRequest) -> bool:
        principal, owner = request.principal, request.resource.owner
        return (
            principal.user in item.users
            or "{USER}" in item.users
            or "public" in item.groups
            or bool(item.groups & self.groups(principal))
            or bool(item.roles & self.roles(principal, request.context))
            or ("{OWNER}" in item.users and owner is not None and owner == principal.user)
        )

    # What a policy says.

    def holds(self, conditions: Iterable[Condition], context: AccessContext) -> Holds:
        unknown: Callable[[Condition, AccessContext], Holds] = lambda c, x: None  # noqa: E731
        return both(self.means.get(c.type, unknown)(c, context) for c in conditions)

    def lists(self, item: PolicyItem, access: str) -> bool:
        if access == "_admin":
            return item.delegate_admin
        implied = {a.name: a.implied for a in (*self.definition.access_types, *self.definition.markers)}
        known = {a.name for a in self.definition.access_types}
        return (access in item.accesses and access in known) or any(
            access in implied.get(a, ()) for a in item.accesses
        )

    def item(self, item: PolicyItem, request: AccessRequest, access: str) -> Holds:
        if not self.lists(item, access) or not self.covers(item, request):
            return False
        return self.holds(item.conditions, request.context)

    def in_force(self, voice: Voice, context: AccessContext) -> Holds:
        policy = voice.policy
        force = both([within(policy.schedules, context), self.holds(policy.conditions, context)])
        return force if force is False or voice.sure else None

    def effect(self, voice: Voice, request: AccessRequest, access: str) -> str:
        policy = voice.policy
        force = self.in_force(voice, request.context)
        if force is False:
            return ""
        filing = self.service.tags if voice.tag is not None else self.service
        excepting = filing is not None and filing.definition.deny_enabled

        def some(items: Sequence[PolicyItem], *, in_doubt: bool, counts: bool = True) -> bool:
            answers = [self.item(item, request, access) for item in items] if counts else []
            return True in answers or (in_doubt and None in answers)

        denied = some(policy.deny, in_doubt=True, counts=excepting)
        effect = "deny" if policy.deny_all_else else ""
        if denied and not some(policy.deny_exceptions, in_doubt=False):
            effect = "deny"
        elif (
            force
            and some(policy.allow, in_doubt=False)
            and not some(policy.allow_exceptions, in_doubt=True, counts=excepting)
        ):
            effect = "allow"
        return (
            ""
            if effect == "deny" and voice.match == "DESCENDANT" and request.ignore_descendant_deny
            else effect
        )

    # Whom to ask.

    def types(self, policy: Policy, resource: Resource, user: str) -> set[str]:
        return {
            match_type(self.definition, policy.type, resources, resource, user)
            for resources in (policy.resources, *policy.additional_resources)
        }

    def tags(self, request: AccessRequest, *, below: bool) -> list[tuple[Tag, str, bool]]:
        """The tags of the resource, how what was tagged matches, and whether they surely hold."""
        context = request.context
        if context.tags is not None:
            found = [(tag, "SELF") for tag in context.tags]
        else:
            found = [
                (tag, match)
                for tagged in self.service.tagged
                if (
                    match := match_type(
                        self.definition,
                        PolicyType.ACCESS,
                        tagged.resources,
                        request.resource,
                        request.principal.user,
                    )
                )
                in (("SELF", "ALL", "ANCESTOR", "DESCENDANT") if below else ("SELF", "ALL", "ANCESTOR"))
                for tag in tagged.tags
            ]
        return [
            (tag, match, bool(within(tag.validity, context)))
            for tag, match in found
            if within(tag.validity, context) is not False
        ]

    def zones(self, request: AccessRequest, *, any_access: bool) -> list[str]:
        inside, below = [], False
        for zone in self.service.zones:
            matches = {
                match_type(
                    self.definition, PolicyType.ACCESS, resources, request.resource, request.principal.user
                )
                for resources in zone.resources
            } - {"NONE"}
            if matches:
                inside.append(zone.name)
                below = below or "DESCENDANT" in matches
        if below:
            inside.append("")
        if not inside or (len(inside) > 1 and not any_access):
            inside = [""]
        if any_access and not request.resource.elements:
            inside += [zone.name for zone in self.service.zones if zone.name not in inside]
        return inside

    def voices(
        self, type_: PolicyType, request: AccessRequest, zone: str, ranks: Mapping[int, int]
    ) -> list[Voice]:
        """Every policy of a zone that is asked, tags first, each in Ranger's order."""
        any_access = request.access in ("", "_any")
        below = any_access or request.scope is Scope.SELF_OR_DESCENDANTS
        tagged: list[Voice] = []
        tag_zone = zone if any(z.name == zone and z.governs_tags for z in self.service.zones) else ""
        if self.service.tags is not None:
            for tag, match, sure in self.tags(request, below=below):
                for policy in self.service.tags.policies:
                    if policy.type is not type_ or not policy.enabled or policy.zone != tag_zone:
                        continue
                    sets = (policy.resources, *policy.additional_resources)
                    if any(tag.type in resources["tag"].values for resources in sets):
                        tagged.append(Voice(policy, tag, match, sure))
        if type_ is PolicyType.MASK:
            tagged.sort(
                key=lambda v: (ORDER.index(v.match), v.policy.name, v.policy.id, tag_of(v), not v.sure)
            )
        elif type_ is PolicyType.ROW_FILTER:
            tagged.sort(key=lambda v: (v.policy.name, v.policy.id, tag_of(v), not v.sure))
        else:
            tagged.sort(key=lambda v: (ranks[v.policy.id], tag_of(v)))
        plain = []
        for policy in self.service.policies:
            if policy.type is not type_ or not policy.enabled or policy.zone != zone:
                continue
            types = self.types(policy, request.resource, request.principal.user)
            if types & {"SELF", "ALL"}:
                plain.append(Voice(policy, None, "SELF"))
            elif below and "DESCENDANT" in types:
                plain.append(Voice(policy, None, "DESCENDANT"))
        return tagged + sorted(plain, key=lambda v: ranks[v.policy.id])

    # The answers.

    def one_type(
        self, request: AccessRequest, zone: str, access: str, voices: Sequence[Voice]
    ) -> Outcome | None:
        said = [(voice, self.effect(voice, request, access)) for voice in voices]
        said = [(voice, effect) for voice, effect in said if effect]
        if not said:
            return None
        highest = max(voice.policy.priority for voice, _ in said)
        said = [(voice, effect) for voice, effect in said if voice.policy.priority == highest]
        outcome = "deny" if "deny" in [effect for _, effect in said] else "allow"
        voice = next(voice for voice, effect in said if effect == outcome)
        tag = voice.tag.type if voice.tag is not None else ""
        return Outcome(outcome == "allow", voice.policy.id, tag, zone)

    def decide(
        self,
        request: AccessRequest,
        ranks: Mapping[int, int],
        groups: Sequence[frozenset[str]] | None = None,
    ) -> Outcome:
        any_access = request.access in ("", "_any")
        zones = self.zones(request, any_access=any_access)
        if self.is_super(request.principal):
            return Outcome(allowed=True, zone=zones[0])
        names = frozenset(access.name for access in self.definition.access_types)
        if groups is None:
            groups = [names] if any_access else [frozenset({request.access})]
            if any_access and not request.ignore_descendant_deny:
                groups = [frozenset({name}) for name in names]
        last = Outcome(allowed=False, zone=zones[0])
        for zone in zones:
            voices = self.voices(PolicyType.ACCESS, request, zone, ranks)
            answers = [[self.one_type(request, zone, a, voices) for a in group] for group in groups]
            if all(any(o is not None and o.allowed for o in group) for group in answers):
                single = answers[0][0] if len(answers) == 1 == len(answers[0]) else None
                return single or Outcome(allowed=True, zone=zone)
            if len(answers) == 1 == len(answers[0]) and answers[0][0] is not None:
                last = answers[0][0]
        return last

    def visible(self, principal: Principal, resource: Resource, context: AccessContext) -> bool:
        request = AccessRequest(principal=principal, resource=resource, access="_any", context=context)
        return self.decide(request, {p.id: i for i, p in enumerate(self.set.policies())}).allowed

    def obligation(
        self, type_: PolicyType, request: AccessRequest, ranks: Mapping[int, int]
    ) -> tuple[MaskItem | FilterItem, bool, int] | None:
        """The item that holds, whether it surely does, and its policy."""
        if self.is_super(request.principal):
            return None
        zone = self.zones(request, any_access=False)[0]
        best: tuple[MaskItem | FilterItem, bool, int] | None = None
        priority = -1
        for voice in self.voices(type_, request, zone, ranks):
            if best is not None and (voice.tag is not None or voice.policy.priority <= priority):
                continue
            force = self.in_force(voice, request.context)
            held: tuple[MaskItem | FilterItem, ...] = (*voice.policy.masks, *voice.policy.filters)
            for item in held if force is not False else ():
                answer = self.item(item, request, "select")
                if answer is not False:
                    best = (item, bool(answer and force), voice.policy.id)
                    priority = voice.policy.priority
                    break
        return best

    def audited(self, request: AccessRequest, ranks: Mapping[int, int]) -> bool:
        """By the first filter that matches, else by exclusions, mode and the flags of policies."""
        rules, principal = self.service.audit, request.principal
        zones = self.zones(request, any_access=False)
        decided = any(policy.zone in zones for policy in self.service.policies)
        found = self.decide(request, ranks)
        denied = "DENIED" if decided or found.policy >= 0 else "NOT_DETERMINED"
        result = "ALLOWED" if found.allowed else denied
        for one in rules.filters:
            if self.filter_matches(one, request, result):
                return one.audited
        if (
            principal.user in rules.excluded_users
            or rules.excluded_groups & self.groups(principal)
            or rules.excluded_roles & self.roles(principal, request.context)
        ):
            return False
        if rules.mode != "audit-default":
            return rules.mode == "audit-all"
        if not any(p.enabled for p in self.service.policies) and self.service.tags is None:
            return True
        return any(
            voice.policy.audited and self.in_force(voice, request.context) is not False
            for zone in zones
            for voice in self.voices(PolicyType.ACCESS, request, zone, ranks)
        )

    def filter_matches(self, one: AuditFilter, request: AccessRequest, result: str) -> bool:
        """Filters by result, access and user; the rest has tests of its own."""
        came_out = one.result in ("", result)
        access = not one.accesses or request.access in one.accesses
        return came_out and access and (not one.users or request.principal.user in one.users)
