"""One service, compiled and filed, and questions put in that service's terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from gateway.model import policy as model
from gateway.model.catalog import namespaces_of
from gateway.model.context import TIME, AccessContext
from gateway.model.policy import PolicyType
from gateway.model.resource import AnyOf, ElementScope, Resource
from gateway.policy import paths
from gateway.policy.compiled import AccessBits, Applying
from gateway.policy.facts import Facts
from gateway.policy.hierarchy import HERE, MatchType, ResourceEntry, hierarchies_of
from gateway.policy.index import Index
from gateway.policy.matching import NO_CONTEXT_DEPENDENCIES, Asker, comparison, fold, is_file_path
from gateway.policy.policy_index import PolicyIndex
from gateway.policy.sharing import SharedResources, SharingQuestion
from gateway.policy.subjects import Subject
from gateway.policy.tagging import Made, Taggings, TagHit
from gateway.policy.zones import Zones

_Compared = Callable[[str], str]


class CompiledService:
    """The policies, zones and tags of one service. Immutable but for the making."""

    def __init__(self, service: model.Service, base: CompiledService | None = None) -> None:
        """Compile a service; from `base`, an older state of it, comes what has not changed."""
        if base is not None and not _like(service, base.model):
            base = None
        self.model: model.Service = service
        self.definition = definition = service.definition
        self.bits: AccessBits = AccessBits(definition) if base is None else base.bits
        self.mask_bits = self.bits.compute_granted_bits(definition.mask_accesses)
        self.filter_bits = self.bits.compute_granted_bits(definition.filter_accesses)
        self.hierarchies = {
            way.names[-1]: way.names for way in hierarchies_of(definition.resources).values() if way.names
        }
        """Level → the levels from the root down to it."""
        by_name = {level.name: comparison(level) for level in definition.resources}
        self._compared: dict[tuple[str, ...], tuple[_Compared, ...]] = {(): ()}
        for way in self.hierarchies.values():
            self._compared[way] = tuple(by_name[name] for name in way)
        self._orders = {frozenset(way): way for way in self.hierarchies.values()}
        self.paths = frozenset(
            level.name
            for level in definition.resources
            if is_file_path(level) and (level.needs_scheme or level.name == URL)
        )
        """Levels of paths that statements name, so that Hadoop reads them with all that lies below."""
        # Found here, not on a statement's way: there can be a hundred thousand of both.
        self.zones_with_policies = frozenset([policy.zone for policy in service.policies])
        self.tagged_paths = [
            value
            for tagged in service.tagged
            for level in self.paths & tagged.resources.keys()
            for value in tagged.resources[level].values
        ]
        """The paths that are tagged, as they are written."""
        self.excluding_tags = any(
            values.excludes for tagged in service.tagged for values in tagged.resources.values()
        )
        """Whether some resource is tagged that is all databases but some."""
        if base is None:
            self.policy_index = PolicyIndex(service.policies, definition, self.bits)
            self.zones = Zones(service.zones, definition.resources)
            self.taggings = Taggings(service.tagged, definition.resources)
            self.sharing = _build_sharing(service)
        else:
            self.policy_index = base.policy_index.rebuild(service.policies)
            kept = base.zones.zones == service.zones
            self.zones = base.zones if kept else Zones(service.zones, definition.resources)
            self.taggings = base.taggings.rebuild(service.tagged)
            same = base.model.sharing == service.sharing
            self.sharing = base.sharing if same else _build_sharing(service)
        self.tag_policy_index: PolicyIndex | None = None
        if service.tags is not None:
            if base is not None and base.tag_policy_index is not None and base.model.tags is not None:
                self.tag_policy_index = base.tag_policy_index.rebuild(service.tags.policies)
            else:
                self.tag_policy_index = PolicyIndex(service.tags.policies, service.tags.definition, self.bits)

    def compare(self, elements: Sequence[tuple[str, str]]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Return a resource's levels and its values as they are compared; None when there is none such."""
        levels = tuple([level for level, _ in elements])
        compared = self._compared.get(levels)
        if compared is None:
            order = self._orders.get(frozenset(levels))
            if order is None or len(order) != len(levels):
                return None
            return self.compare([(level, dict(elements)[level]) for level in order])
        return levels, tuple([same(value) for same, (_, value) in zip(compared, elements, strict=True)])

    def fold_values(self, level: str, values: Iterable[str]) -> list[str]:
        """Return values of one level as they are compared."""
        same = self._compared[self.hierarchies[level]][-1]
        return [same(value) for value in values]

    def is_super(self, subject: Subject) -> bool:
        """Say whether nothing is denied to the subject, masked or filtered."""
        # RULE (super-users, super-groups)
        return subject.user in self.model.super_users or not self.model.super_groups.isdisjoint(
            subject.own_groups
        )


def _build_sharing(service: model.Service) -> SharedResources | None:
    return None if service.sharing is None else SharedResources(service.sharing, service.definition)


def _like(new: model.Service, old: model.Service) -> bool:
    """Say whether both mean the same by their policies, so that compiled ones may be kept."""

    def same(one: model.ServiceDef | None, other: model.ServiceDef | None) -> bool:
        return one is other or one == other

    return same(new.definition, old.definition) and same(
        new.tags.definition if new.tags else None, old.tags.definition if old.tags else None
    )


COLUMN = "column"
DATABASE = "database"
URL = "url"
_TIME = frozenset({TIME})
_TAGS = frozenset({"tags"})


class ResourceQuestion(SharingQuestion):
    """A resource in the terms of the service that speaks for it, who asks, and under which circumstances."""

    __slots__ = (
        "_facts",
        "_hits",
        "_inherited",
        "access",
        "below",
        "context",
        "context_dependencies",
        "element_scopes",
        "levels",
        "resource",
        "service",
        "subject",
        "values",
    )

    def __init__(
        self,
        service: CompiledService,
        levels: tuple[str, ...],
        values: tuple[str, ...],
        subject: Subject,
        resource: Resource,
        access: str,
        context: AccessContext,
        *,
        below: bool = False,
    ) -> None:
        self.user = subject.user
        self.owner = resource.owner
        self.service = service
        self.levels = levels
        self.values = values
        """As they are compared: folded where case does not matter."""
        self.subject = subject
        self.resource = resource
        self.access = access
        self.context = context
        self.below = below
        """Whether policies on something further down count as well."""
        self.element_scopes: tuple[ElementScope, ...] = ()
        """How the value of each level is matched; none: as they are."""
        self.context_dependencies = NO_CONTEXT_DEPENDENCIES
        """Fields of the context that answers so far depend on."""
        self._facts: Facts | None = None
        self._hits: list[TagHit] | None = None
        self._inherited: frozenset[TagHit] = frozenset()

    @property
    def nested(self) -> bool:
        """Whether it is about a database that lies in another, or about something in such a one."""
        return any(
            level == DATABASE and "." in value and not isinstance(value, AnyOf)
            for level, value in zip(self.levels, self.values, strict=True)
        )

    def build_questions_above(self) -> list[ResourceQuestion]:
        """Return the same question about each namespace that the one asked about lies in, the outermost
        first; none where no database is nested."""
        if not self.nested:
            return []
        at = self.levels.index(DATABASE)
        place = next(i for i, (level, _) in enumerate(self.resource.elements) if level == DATABASE)
        elements = list(self.resource.elements)
        found = []
        for namespace in namespaces_of(elements[place][1])[:-1]:
            elements[place] = (DATABASE, namespace)
            values = (
                *self.values[:at],
                *self.service.fold_values(DATABASE, [namespace]),
                *self.values[at + 1 :],
            )
            resource = Resource(tuple(elements), self.owner)
            one = ResourceQuestion(
                self.service, self.levels, values, self.subject, resource, self.access, self.context
            )
            one.element_scopes = self.element_scopes
            found.append(one)
        return found

    def is_inherited(self, hit: TagHit) -> bool:
        """Whether what has the tag is a namespace above the resource, or lies there."""
        return hit in self._inherited

    @property
    def on_path(self) -> bool:
        return bool(self.levels) and self.levels[-1] in self.service.paths

    def deviates(self) -> bool:
        """Say whether the resource is a path, or one of several, that is not what it looks like."""
        return self.on_path and any(paths.deviates(path) for path in _each(self.values[-1]))

    def single(self) -> list[ResourceQuestion]:
        """Return the question about each of the deepest level's values."""
        last = self.values[-1]
        return [self.with_value(value) for value in last.each] if isinstance(last, AnyOf) else [self]

    @property
    def _get_varied(self) -> bool:
        return any(isinstance(value, AnyOf) for value in self.values)

    def facts(self) -> Facts:
        """Return everything that conditions and scripts may ask."""
        if self._facts is None:
            subject, hits = self.subject, self.hits()
            self._facts = Facts(
                user=subject.user,
                groups=subject.own_groups,
                roles=subject.roles,
                user_attributes=subject.attributes,
                group_attributes=subject.group_attributes,
                resource=dict(self.resource.elements),
                owner=self.owner,
                access=self.access,
                context=self.context,
                tags=tuple([hit.tag for hit in hits]),
                doubted_tags=any(hit.doubted for hit in hits),
            )
        return self._facts

    def note(self, context_dependencies: frozenset[str]) -> None:
        """Remember what an answer depends on."""
        self.context_dependencies |= context_dependencies

    def hits(self) -> list[TagHit]:
        """Return the tags of the resource, those that came with the request or else those that are known."""
        if self._hits is None:
            given = self.context.tags
            found: list[tuple[Made, MatchType, bool]] = []
            # Scripts in the names of what is tagged see no tags: those are being looked for.
            self._hits = []
            if given is not None:
                self.note(_TAGS)
                found = [(Made(given), MatchType.SELF, False)]
            elif self.service.model.tagged:
                # RULE (tag-scopes)
                tagged = self.service.taggings.find_tagged(
                    self.levels, self.values, self, below=self.below, scopes=self.element_scopes
                )
                found = [(entry.of, match, entry.doubtful(self.values, self)) for entry, match in tagged]
            self._facts = None
            for made, match, doubted in found:
                if made.temporal:
                    self.note(_TIME)
                self._hits += made.hits(match, self.context.time, doubted=doubted)
            if given is None and self.service.model.tagged and self.nested:
                own = {hit.tag for hit in self._hits if not hit.doubted}
                for one in self.build_questions_above():
                    inherited = [hit for hit in one.hits() if hit.tag not in own]
                    self._inherited |= frozenset(inherited)
                    self._hits += inherited
                    self.note(one.context_dependencies)
        return self._hits

    def set_element_scopes(self, scopes: Sequence[tuple[str, ElementScope]]) -> None:
        """Match the values of some levels more widely."""
        given = dict(scopes)
        self.element_scopes = tuple([given.get(level, ElementScope.SELF) for level in self.levels])

    def set_alternatives(self, alternatives: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        """Match any of several values of a level; without values, only what matches everything."""
        given = dict(alternatives)
        self.values = tuple(
            [
                AnyOf.of(tuple(self.service.fold_values(level, given[level]))) if level in given else value
                for level, value in zip(self.levels, self.values, strict=True)
            ]
        )
        # Indexes know no alternatives: every policy is looked at, as for scopes.
        self.element_scopes = self.element_scopes or (ElementScope.SELF,) * len(self.levels)

    def containers(self, bits: int, *, any_access: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the datasets and projects that the resource is shared in."""
        sharing = self.service.sharing
        return ((), ()) if sharing is None else sharing.containers(self, bits, any_access=any_access)

    def zones(self) -> tuple[str, ...]:
        # RULE (zones-of-several)
        return self.service.zones.of(self.levels, self.values, self, varied=self._get_varied)

    def with_value(self, value: str) -> ResourceQuestion:
        """Return the same question about another value of the deepest level."""
        *above, (level, _) = self.resource.elements
        resource = Resource((*above, (level, value)), self.owner)
        values = (*self.values[:-1], *self.service.fold_values(level, [value]))
        return ResourceQuestion(
            self.service, self.levels, values, self.subject, resource, self.access, self.context
        )

    def find_applicable(
        self, index: Index, subject: Subject | None, *, below: bool | None = None
    ) -> list[Applying]:
        """Return the policies of an index that apply, in Ranger's order."""
        if self.element_scopes:
            depth = len(self.levels)
            entries = [e for e in index.find_all(subject) if e.levels[:depth] == self.levels]
        else:
            entries = index.find_at(self.levels, self.values, subject)
            if self.below if below is None else below:
                entries += index.find_below(self.levels, self.values, subject)
        found: list[Applying] = []
        for entry in entries:
            if entry.context_dependencies:
                self.note(entry.context_dependencies)
            match = entry.match(self.values, self, self.element_scopes)
            if match in HERE:
                found.append((entry.of, False, entry.scripted and entry.doubtful(self.values, self)))
            elif self.below and match is MatchType.DESCENDANT:
                found.append((entry.of, True, entry.scripted and entry.doubtful(self.values, self)))
        return in_order(found) if len(found) > 1 else found

    def each_below(self, index: Index, subject: Subject) -> Iterator[Applying]:
        """Yield the policies that apply to something below only, in no order."""
        for entry in index.find_below(self.levels, self.values, subject):
            if entry.context_dependencies:
                self.note(entry.context_dependencies)
            if entry.match(self.values, self) is MatchType.DESCENDANT:
                yield entry.of, True, entry.scripted and entry.doubtful(self.values, self)

    def column_entries(self, index: Index, subject: Subject | None) -> list[ResourceEntry]:
        """Return entries that apply to some or all columns of this table, in Ranger's order."""
        depth = len(self.levels)
        found = [
            entry
            for entry in (
                *index.find_at(self.levels, self.values, subject),
                *index.find_below(self.levels, self.values, subject),
            )
            if len(entry.levels) == depth + 1
            and entry.levels[depth] == COLUMN
            and entry.match(self.values, self) is not MatchType.NONE
        ]
        if len(found) > 1:
            found = sorted(dict.fromkeys(found), key=lambda entry: entry.of.sort_key)
        return found

    def on_tags(self, type_: PolicyType, zone: str, subject: Subject | None) -> list[OnTag]:
        """Return the policies on the resource's tags that apply, tag by tag."""
        policy_index = self.service.tag_policy_index
        if policy_index is None or not policy_index.indexes:
            return []
        index = policy_index.index(self.service.zones.tag_zone(zone), type_)
        if not index:
            return []
        asked = [TagQuestion(self, hit) for hit in self.hits()]
        return [(tag, found) for tag in asked for found in tag.find_applicable(policy_index, index, subject)]


def _each(value: str) -> tuple[str, ...]:
    return value.each if isinstance(value, AnyOf) else (value,)


def in_order(found: list[Applying]) -> list[Applying]:
    """Return each once, in Ranger's order; a match beyond doubt makes weaker ones of its policy moot."""
    unique = dict.fromkeys(found)
    if len(unique) > 1:
        sure = {policy for policy, below, doubted in unique if not (below or doubted)}
        unique = {a: None for a in unique if not (a[1] or a[2]) or a[0] not in sure}
    return sorted(unique, key=lambda a: a[0].sort_key)


class TagQuestion(Asker):
    """A question as the policies of one of its tags see it."""

    __slots__ = ("_facts", "hit", "question", "subject")

    def __init__(self, question: ResourceQuestion, hit: TagHit) -> None:
        self.user, self.owner, self.subject = question.user, question.owner, question.subject
        self.question = question
        self.hit = hit
        self._facts: Facts | None = None

    def facts(self) -> Facts:
        if self._facts is None:
            self._facts = replace(self.question.facts(), tag=self.hit.tag)
        return self._facts

    def find_applicable(
        self, policy_index: PolicyIndex, index: Index, subject: Subject | None
    ) -> list[Applying]:
        """Return the policies on the tag that apply, in Ranger's order."""
        root = policy_index.definition.resources[0]
        values = (fold(self.hit.tag.type) if root.ignore_case else self.hit.tag.type,)  # RULE (tag-case)
        below, doubted = self.hit.match is MatchType.DESCENDANT, self.hit.doubted
        found: list[Applying] = []
        for entry in index.find_at((root.name,), values, subject):
            if entry.context_dependencies:
                self.question.note(entry.context_dependencies)
            if entry.match(values, self) is not MatchType.NONE:
                found.append((entry.of, below, doubted or entry.doubtful(values, self)))
        return in_order(found) if len(found) > 1 else found


OnTag = tuple[TagQuestion, Applying]
