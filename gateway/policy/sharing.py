"""What datasets and projects share with somebody, and the masks and row filters that go with it.

The meaning is Ranger's: shares grant where no policy says anything, and their masks and filters hold where
no policy has one, also for those whom an ordinary policy lets in. One share without mask or filter lifts
those of all others. What cannot be told neither grants nor lifts anything.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from gateway.model.context import TIME, AccessContext
from gateway.model.policy import (
    DataShare,
    FilterItem,
    MaskItem,
    PolicyItem,
    PolicyType,
    Project,
    ServiceDef,
    SharedResource,
    Sharing,
)
from gateway.model.tags import ValiditySchedule
from gateway.policy.compiled import AccessBits, Applying, CompiledPolicy, all_hold
from gateway.policy.conditions import Test, compile_condition
from gateway.policy.hierarchy import HERE, Hierarchies, ResourceEntry, compile_entry, hierarchies_of
from gateway.policy.index import Index
from gateway.policy.matching import Asker, LevelMatcher
from gateway.policy.schedules import Applies, compile_schedules
from gateway.policy.service_defs import IMPLICIT
from gateway.policy.subjects import Subject
from gateway.policy.zones import UNZONED

PRIORITY = -1  # RULE (gds-priority)
"""Below all policies: what is shared is asked about when no policy says anything."""
_NOTHING = Index()
_TIME = frozenset({TIME})


class SharingQuestion(Asker):
    """The question to the data sharing of a service: a resource and a subject, as `service.py` asks it."""

    __slots__ = ()
    subject: Subject
    values: tuple[str, ...]
    access: str
    context: AccessContext

    @abstractmethod
    def zones(self) -> tuple[str, ...]:
        """Return the zones that the resource is in."""

    @abstractmethod
    def find_applicable(self, index: Index, subject: Subject | None) -> list[Applying]:
        """Return the entries of an index that apply to the resource, in Ranger's order."""


class _Holder:
    """A dataset or a project, and what its policies grant."""

    def __init__(
        self, model: Project, definition: ServiceDef, hierarchies: Hierarchies, bits: AccessBits
    ) -> None:
        self.id, self.name = model.id, model.name
        self.order = (model.name, model.id)
        self.applies = _compile(model.schedules)
        self.projects: list[tuple[Applies | None, _Holder]] = []
        self.policies: list[tuple[CompiledPolicy, list[ResourceEntry]]] = []
        for policy in model.policies:
            if policy.enabled:
                made = CompiledPolicy(replace(policy, priority=PRIORITY), definition, bits)
                sets = (policy.resources, *policy.additional_resources)
                entries = [
                    entry for one in sets if (entry := compile_entry(made, one, hierarchies)) is not None
                ]
                self.policies.append((made, entries))

    def find_policies_about(self, question: SharingQuestion) -> list[CompiledPolicy]:
        """Return the policies that are about this very dataset or project."""
        value = (str(self.id),)
        return [
            policy
            for policy, entries in self.policies
            if any(entry.match(value, question) in HERE for entry in entries)  # RULE (gds-policy-of-dataset)
        ]

    def list_granted(self, question: SharingQuestion) -> tuple[list[tuple[CompiledPolicy, int]], int]:
        """Return what each policy grants, and what all of them may grant as far as can be told."""
        denied = possible = 0
        found = []
        for policy in self.find_policies_about(question):
            if policy.context_dependencies:
                question.note(policy.context_dependencies)
            deny, allow, rest = policy.effect(question)
            denied |= deny | rest
            possible |= policy.may_allow(question)
            found.append((policy, allow))
        return [(policy, allow & ~denied) for policy, allow in found], possible


@dataclass(frozen=True, slots=True, eq=False)
class _Share:
    model: DataShare
    tests: tuple[Test, ...]
    datasets: list[tuple[Applies | None, _Holder]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class _Resource:
    """A shared resource, filed as what an entry of an index is of."""

    share: _Share
    bits: int
    tests: tuple[Test, ...]
    masks: tuple[tuple[LevelMatcher, MaskItem], ...]
    rows: FilterItem | None
    sort_key: tuple[str, int, int]

    @property
    def context_dependencies(self) -> frozenset[str]:
        return frozenset[str]().union(
            *(test.context_dependencies for test in (*self.share.tests, *self.tests))
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """That a dataset holds a resource now."""

    dataset: _Holder
    resource: _Resource
    certain: bool


class SharedResources:
    """The data sharing of one service, ready to be asked."""

    def __init__(self, sharing: Sharing, definition: ServiceDef) -> None:
        own = sharing.definition
        self._bits = bits = AccessBits(own)
        hierarchies = hierarchies_of(own.resources)
        projects = {one.id: _Holder(one, own, hierarchies, bits) for one in sharing.projects}
        shares = {one.id: _Share(one, _tests(one)) for one in sharing.shares}
        for dataset in sharing.datasets:
            made = _Holder(dataset, own, hierarchies, bits)
            made.projects = [(_compile(m.schedules), projects[m.id]) for m in dataset.projects]
            for member in dataset.shares:
                shares[member.id].datasets.append((_compile(member.schedules), made))
        self._levels = {type_: hierarchies_of(definition.levels(type_)) for type_ in PolicyType}
        found: dict[PolicyType, dict[str, list[ResourceEntry]]] = {type_: {} for type_ in PolicyType}
        for share in shares.values():
            for resource in share.model.resources if share.datasets else ():
                one = self._resource(resource, share)
                for type_, levels in (
                    (PolicyType.ACCESS, resource.resources),
                    (PolicyType.MASK, resource.resources),
                    (PolicyType.ROW_FILTER, resource.above),  # RULE (gds-filter-whole-table)
                ):
                    # Only what masks and filters can be about, and then matched as what is shared is.
                    entry = compile_entry(one, levels, self._levels[PolicyType.ACCESS])
                    if entry is not None and frozenset(levels) in self._levels[type_]:
                        found[type_].setdefault(share.model.zone, []).append(entry)  # RULE (gds-zones)
        self._indexes = {
            type_: {zone: Index(entries) for zone, entries in zones.items()} for type_, zones in found.items()
        }

    def _resource(self, model: SharedResource, share: _Share) -> _Resource:
        masks = []
        for policy in model.masks:
            entry = compile_entry(policy, policy.resources, self._levels[PolicyType.MASK])
            if entry is not None:
                masks.append((entry.matchers[-1], policy.masks[0]))
        return _Resource(
            share=share,
            bits=self._bits.compute_granted_bits(model.accesses),
            tests=_tests(model),
            masks=tuple(masks),
            rows=model.rows.filters[0] if model.rows is not None else None,
            sort_key=(model.name, len(model.above), model.id),
        )

    # What is asked

    def may_concern(self, levels: tuple[str, ...], values: Sequence[str]) -> bool:
        """Say whether something is shared of the resource, or in it."""
        return any(
            index.find_at(levels, values, None) or index.find_below(levels, values, None)
            for indexes in self._indexes.values()
            for index in indexes.values()
        )

    def may_oblige(self, levels: tuple[str, ...], values: Sequence[str]) -> bool:
        """Say whether something is shared of the resource, or in it, with a mask or a row filter."""
        return any(
            entry.of.masks or entry.of.rows is not None
            for indexes in self._indexes.values()
            for index in indexes.values()
            for entry in (*index.find_at(levels, values, None), *index.find_below(levels, values, None))
        )

    def grants(
        self, question: SharingQuestion, zone: str, *, any_access: bool
    ) -> list[tuple[CompiledPolicy, int]]:
        """Return the policies of datasets and projects, in order, with what they grant of the resource."""
        datasets: dict[_Holder, int] = {}
        for one in self._list_held(
            question, (zone,), PolicyType.ACCESS, self._bits.all, any_access=any_access
        ):
            if one.certain:
                datasets[one.dataset] = datasets.get(one.dataset, 0) | one.resource.bits
        projects: dict[_Holder, int] = {}
        for dataset, bits in datasets.items():
            for applies, project in dataset.projects:
                if _in_force(question, applies, project.applies):
                    projects[project] = projects.get(project, 0) | bits  # RULE (gds-projects)
        return [
            (policy, allow & bits)  # RULE (gds-access-limit)
            for holder, bits in (*datasets.items(), *sorted(projects.items(), key=lambda one: one[0].order))
            for policy, allow in holder.list_granted(question)[0]
            if allow & bits
        ]

    def containers(
        self, question: SharingQuestion, bits: int, *, any_access: bool
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the datasets and projects that hold the resource, whoever may use them."""
        datasets, projects = set[str](), set[str]()
        zones = question.zones() or (UNZONED,)
        for one in self._list_held(question, zones, PolicyType.ACCESS, bits, any_access=any_access):
            datasets.add(one.dataset.name)
            projects.update(
                p.name for applies, p in one.dataset.projects if _in_force(question, applies, p.applies)
            )
        return tuple(sorted(datasets)), tuple(sorted(projects))

    def find_holder_policies(
        self, question: SharingQuestion, bits: int, *, any_access: bool
    ) -> list[tuple[str, CompiledPolicy, int]]:
        """Return the policies of what holds the resource: whose it is, and what it grants the subject."""
        found: dict[CompiledPolicy, tuple[str, CompiledPolicy, int]] = {}
        zones = question.zones() or (UNZONED,)
        for one in self._list_held(question, zones, PolicyType.ACCESS, bits, any_access=any_access):
            inside = [
                (f"project `{project.name}`", project)
                for applies, project in one.dataset.projects
                if _in_force(question, applies, project.applies)
            ]
            for where, holder in ((f"dataset `{one.dataset.name}`", one.dataset), *inside):
                for policy, allow in holder.list_granted(question)[0]:
                    found.setdefault(policy, (where, policy, allow & bits & one.resource.bits))
        return list(found.values())

    def is_audited(self, question: SharingQuestion, zone: str, *, any_access: bool) -> bool:
        """Say whether a dataset that holds the resource, or a project, wants a record of accesses."""
        bits = self._bits.all if any_access else self._bits.find_bit(question.access)
        return any(
            policy.policy.audited and policy.in_force(question) is not False
            for one in self._list_held(question, (zone,), PolicyType.ACCESS, bits, any_access=any_access)
            for holder in (
                one.dataset,
                *(p for applies, p in one.dataset.projects if _in_force(question, applies, p.applies)),
            )
            for policy in holder.find_policies_about(question)
        )

    def obligation(
        self, question: SharingQuestion, type_: PolicyType, bits: int, *, any_access: bool
    ) -> tuple[CompiledPolicy, PolicyItem, bool] | None:
        """Return the mask or filter of what is shared with the subject, and whether it is beyond doubt.

        The policy is the first that grants it. None: nothing is shared, or something without mask or filter.
        """
        zones = question.zones() or (UNZONED,)
        told: dict[_Holder, tuple[CompiledPolicy | None, int, int]] = {}
        found: list[tuple[_Held, bool]] = []
        policy: CompiledPolicy | None = None
        for one in self._list_held(question, zones, type_, bits, any_access=any_access):
            if one.dataset not in told:
                told[one.dataset] = self._find_granting(question, one.dataset)
            first, sure, possible = told[one.dataset]
            if not possible & one.resource.bits & bits:  # RULE (gds-no-grant-no-mask)
                continue
            policy = policy or first
            found.append((one, one.certain and bool(sure & one.resource.bits & bits)))
        if policy is None:
            return None
        if type_ is PolicyType.MASK:
            mask = _mask(found, question)
            return None if mask is None else (policy, *mask)
        rows = _rows(found)
        return None if rows is None else (policy, *rows)

    def _find_granting(
        self, question: SharingQuestion, dataset: _Holder
    ) -> tuple[CompiledPolicy | None, int, int]:
        """Return the first policy that may grant a dataset, what is granted for sure, and what may be."""
        first: CompiledPolicy | None = None
        sure = possible = 0
        projects = [
            (project, held)
            for applies, project in dataset.projects
            if (held := _in_force(question, applies, project.applies)) is not False
        ]
        for holder, held in ((dataset, True), *sorted(projects, key=lambda one: one[0].order)):
            policies, may = holder.list_granted(question)
            for policy, allow in policies:
                sure |= allow if held else 0
                if first is None and (allow or policy.may_allow(question)):
                    first = policy
            possible |= may
        return first, sure, possible

    def _list_held(
        self,
        question: SharingQuestion,
        zones: Iterable[str],
        type_: PolicyType,
        bits: int,
        *,
        any_access: bool,
    ) -> list[_Held]:
        """Return what datasets hold of the resource, in Ranger's order; what is in doubt is marked."""
        if len(question.zones()) > 1 and not any_access:
            return []
        found: list[_Held] = []
        for zone in zones:
            index = self._indexes[type_].get(zone, _NOTHING)
            for applying in question.find_applicable(index, None) if index else ():
                resource: _Resource = applying[0]  # type: ignore[assignment]
                if not resource.bits & bits:
                    continue
                if resource.context_dependencies:
                    question.note(resource.context_dependencies)
                # RULE (gds-share-conditions, gds-resource-conditions)
                tests = (*resource.share.tests, *resource.tests)
                told = all_hold(tests, question) if tests else True
                for applies, dataset in resource.share.datasets:
                    held = _in_force(question, applies, dataset.applies)
                    if held is not False and told is not False:
                        found.append(_Held(dataset, resource, bool(held and told) and not applying[2]))
        return sorted(found, key=_order)  # RULE (gds-order)


def _compile(schedules: Sequence[ValiditySchedule]) -> Applies | None:
    return compile_schedules(schedules) if schedules else None


def _tests(model: DataShare | SharedResource) -> tuple[Test, ...]:
    return tuple([compile_condition(condition, IMPLICIT) for condition in model.conditions])


def _in_force(question: SharingQuestion, *applies: Applies | None) -> bool | None:
    """Say whether all periods hold at the time of the access; None when that cannot be told."""
    periods = [one for one in applies if one is not None]
    if periods:
        question.note(_TIME)
    told = [one(question.context.time) for one in periods]  # RULE (gds-periods)
    return False if False in told else None if None in told else True


def _order(one: _Held) -> tuple[object, ...]:
    share = one.resource.share.model
    return (*one.dataset.order, share.name, share.id, *one.resource.sort_key)


def _mask(found: Sequence[tuple[_Held, bool]], question: SharingQuestion) -> tuple[MaskItem, bool] | None:
    """Return the first mask of a column; None when it is shared without one, for sure."""
    first: tuple[MaskItem, bool] | None = None
    value = question.values[-1] if question.values else ""
    for held, certain in found:
        mask: tuple[MaskItem, bool] | None = None
        for matcher, item in held.resource.masks:
            matches = matcher.matches(value, question)
            if matches is not False:
                mask = (item, bool(matches) and certain)
                break
        if mask is None and certain:  # RULE (gds-unmasked-share)
            return None
        first = first or mask
    return first


def _rows(found: Sequence[tuple[_Held, bool]]) -> tuple[FilterItem, bool] | None:
    """Return the rows that are shared, by one filter or the other; None when all are, for sure."""
    texts: dict[str, FilterItem] = {}
    doubted: FilterItem | None = None
    for held, certain in found:
        rows = held.resource.rows
        if certain and rows is None:  # RULE (gds-unfiltered-share)
            return None
        if certain and rows is not None:
            texts.setdefault(rows.filter_expression, rows)
        elif rows is not None:
            doubted = doubted or rows
    if not texts:
        return None if doubted is None else (doubted, False)  # RULE (gds-doubt-no-rows)
    first = next(iter(texts.values()))
    # RULE (gds-several-filters)
    text = first.filter_expression if len(texts) == 1 else " OR ".join(f"({text})" for text in texts)
    check = any(rows.check for rows in texts.values())
    return replace(first, filter_expression=text, check=check), True
