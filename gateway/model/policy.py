"""Ranger's policy nouns: service definitions, policies and their items, and the PolicySet that holds them.

Shapes follow Apache Ranger's JSON (`RangerServiceDef`, `RangerPolicy`); values here are already validated.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from gateway.model.limits import Limit
from gateway.model.tags import Tag, ValiditySchedule


class PolicyType(enum.IntEnum):
    """Ranger's `policyType` numbers."""

    ACCESS = 0
    MASK = 1
    ROW_FILTER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDef:
    """One level of a service definition's hierarchy and how values at this level are matched."""

    name: str
    parent: str | None = None
    level: int = 10
    wildcard: bool = True
    ignore_case: bool = True
    excludes_supported: bool = True
    recursive_supported: bool = False
    is_path: bool = False
    needs_scheme: bool = False
    """For paths: a value without `scheme:` never matches (Ranger's URL matcher)."""
    leaf: bool = True
    """Whether a policy may end at this level (Ranger's `isValidLeaf`)."""
    mandatory: bool = field(default=False, compare=False)
    """Whether a Ranger Admin takes a policy only if it names this level; decisions do not ask."""
    pattern: str = field(default="", compare=False)
    """The expression that a Ranger Admin has values match (`validationRegEx`); decisions do not ask."""
    separator: str = "/"
    """What stands between the segments of a path."""
    quote_characters: str = ""
    """A requested value that begins with one of these is compared with its case, whatever `ignore_case`."""
    replaces_tokens: bool = True
    """Whether `{USER}` and its like are replaced in values."""
    token_marks: tuple[str, str, str, str] = ("{", "}", "\\", "")
    """What a token begins and ends with, what escapes these, and what its name begins with."""
    replaces_expressions: bool = True
    """Whether `${{…}}` is replaced in values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessTypeDef:
    """An access type and the other access types that granting it grants, one level deep."""

    name: str
    implied: frozenset[str] = frozenset()
    category: str = ""
    """CREATE, READ, UPDATE, DELETE, MANAGE or empty; Ranger's marker access types are made of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionDef:
    """A condition that policies of a service may use: `evaluator` is the last part of Ranger's class name."""

    name: str
    evaluator: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskTypeDef:
    """A mask type as the service definition names it; `transformer` is Ranger's template text."""

    name: str
    transformer: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDef:
    """A service type: its resources, access types and mask types, as data."""

    name: str
    resources: tuple[ResourceDef, ...]
    access_types: tuple[AccessTypeDef, ...]
    mask_types: tuple[MaskTypeDef, ...] = ()
    mask_resources: tuple[ResourceDef, ...] | None = None
    """Levels as mask policies match them (Ranger's overlay, applied); None: as access policies do."""
    filter_resources: tuple[ResourceDef, ...] | None = None
    """Levels as row-filter policies match them; None: as access policies do, without `column`."""
    mask_accesses: frozenset[str] = frozenset({"select"})
    filter_accesses: frozenset[str] = frozenset({"select"})
    access_aliases: Mapping[str, str] = field(default_factory=dict)
    """Access type of the gateway → the one that stands for it here, e.g. `insert` → hive's `update`."""
    markers: tuple[AccessTypeDef, ...] = ()
    """Ranger's marker access types (`_READ`, `_ALL`, …) with all that they grant; policies may list them."""
    conditions: tuple[ConditionDef, ...] = ()
    deny_enabled: bool = True
    """False: deny items and both lists of exceptions are ignored, as Ranger does for such a service type."""
    id: int = 0
    options: Mapping[str, str] = field(default_factory=dict)

    def levels(self, type_: PolicyType) -> tuple[ResourceDef, ...]:
        """Return the levels on which policies of a type match."""
        if type_ is PolicyType.MASK and self.mask_resources is not None:
            return self.mask_resources
        if type_ is PolicyType.ROW_FILTER:
            if self.filter_resources is not None:
                return self.filter_resources
            return tuple(r for r in self.resources if r.name != "column")
        return self.resources

    def resource(self, name: str) -> ResourceDef | None:
        """Return the level of that name, or None."""
        return next((r for r in self.resources if r.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceValues:
    """The values of a policy at one level; `excludes` inverts the match."""

    values: tuple[str, ...]
    excludes: bool = False
    recursive: bool = False


ResourceSet = Mapping[str, ResourceValues]
"""Level name → values. A policy holds one primary set and any number of additional ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A named condition with its values; evaluation of conditions lives in `policy/`."""

    type: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyItem:
    """Who gets which access types. An item without principals never matches."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    accesses: frozenset[str] = frozenset()
    conditions: tuple[Condition, ...] = ()
    delegate_admin: bool = False
    place: FileLine | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskItem(PolicyItem):
    """A policy item of a mask policy; `value_expression` is the text of a CUSTOM mask with `{col}`."""

    mask_type: str
    value_expression: str | None = None
    transformer: str = ""
    """The SQL that the service's definition has for the mask type; empty where that is a call of Hive's."""
    condition_expression: str | None = None
    """Ranger's `conditionExpr`, told and not used, as in Ranger's Hive plugin."""
    predicate: str = "masked"
    """`masked`: predicates see the mask; `deny`: using the column outside the output is refused."""
    author: str = ""
    """Who wrote the text, where it counts for no more than he may select; empty: an administrator."""

    @property
    def text(self) -> str:
        """The SQL that says what the column shows, with `{col}`; empty where the mask type says it."""
        return self.transformer or self.value_expression or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterItem(PolicyItem):
    """A policy item of a row-filter policy; an empty `filter_expression` means no filter."""

    filter_expression: str
    author: str = ""
    """As a mask item has it."""
    check: bool = False
    """Whether nobody whom it filters may write a row that it would hide from him."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLine:
    """Where something was written, for messages."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One policy of one type on one set of resources."""

    id: int
    name: str
    service: str
    type: PolicyType
    resources: ResourceSet
    version: int = 1
    additional_resources: tuple[ResourceSet, ...] = ()
    enabled: bool = True
    priority: int = 0
    """0 normal, 1 override."""
    allow: tuple[PolicyItem, ...] = ()
    deny: tuple[PolicyItem, ...] = ()
    allow_exceptions: tuple[PolicyItem, ...] = ()
    deny_exceptions: tuple[PolicyItem, ...] = ()
    masks: tuple[MaskItem, ...] = ()
    filters: tuple[FilterItem, ...] = ()
    conditions: tuple[Condition, ...] = ()
    deny_all_else: bool = False
    schedules: tuple[ValiditySchedule, ...] = ()
    """The policy holds only while one of these applies; empty: always."""
    zone: str = ""
    """Security zone; empty: unzoned."""
    labels: tuple[str, ...] = ()
    audited: bool = True
    description: str = ""
    guid: str = ""
    is_closing: bool = False
    """Whether it denies what no policy has named yet, and is meant for nothing that one names."""
    broken: tuple[str, ...] = ()
    """Why it cannot be loaded, each fault with its place; then it has nothing but what it is about."""
    every_zone: bool = False
    """Whether it holds in whatever zone a resource lies: only of one at fault whose zone cannot be told."""
    place: FileLine | None = field(default=None, compare=False)

    @property
    def items(self) -> tuple[PolicyItem, ...]:
        """Every item, exceptions too."""
        return (
            *self.allow,
            *self.deny,
            *self.allow_exceptions,
            *self.deny_exceptions,
            *self.masks,
            *self.filters,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A security zone as one service sees it: resources whose policies are the zone's alone."""

    name: str
    resources: tuple[ResourceSet, ...]
    governs_tags: bool = False
    """Whether the zone lists the tag service: then only tag policies of the zone apply in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedResource:
    """Tags on whatever the resource set matches, and, by Ranger's rule, on what lies below it."""

    resources: ResourceSet
    tags: tuple[Tag, ...]
    id: int = 0
    place: FileLine | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """One of Ranger's `ranger.plugin.audit.filters`; an empty part means any. The first match decides."""

    audited: bool
    result: str = ""
    """DENIED, ALLOWED, NOT_DETERMINED or empty; not determined is what there are no policies at all for."""
    resources: ResourceSet = field(default_factory=dict)
    accesses: frozenset[str] = frozenset()
    actions: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A named set of users, groups and further roles."""

    name: str
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    broken: tuple[str, ...] = ()
    """Why nobody can tell who is in it, each fault with its place. Without a name it may be any role that is
    named and not defined."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UserStore:
    """Attributes of users and groups, and memberships, as a directory or Ranger's user store tells them."""

    users: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    memberships: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """User → groups; counts only when `adds_groups`."""
    adds_groups: bool = False
    broken_users: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """User of whom something could not be read → faults, each with its place."""
    broken_groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """As `broken_users`, of groups."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AuditRules:
    """Which decisions of a service are audited, beyond the flags of its policies."""

    mode: str = "audit-default"
    """Ranger's `audit-default`, `audit-all` or `audit-none`."""
    filters: tuple[AuditFilter, ...] = ()
    """In the order in which they are asked, after those of the tag service about the tags of the resource."""
    excluded_users: frozenset[str] = frozenset()
    excluded_groups: frozenset[str] = frozenset()
    excluded_roles: frozenset[str] = frozenset()


# Ranger's governed data sharing (GDS): resources in data shares, these in datasets, these in projects.
# Policies grant access to a dataset or a project, and so to what is shared in it. What is here is in force:
# shares that were only asked for, or denied, are left out when the download is read.


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedResource:
    """One resource of a data share, with the masks and the row filter that go with it."""

    id: int
    name: str = ""
    resources: ResourceSet
    """Levels with those of the sub-resource, such as the columns that are shared."""
    above: ResourceSet
    """The same without the sub-resource: what the row filter is for."""
    accesses: frozenset[str] = frozenset()
    """The only access types that the share is for, whatever a dataset's policies grant."""
    conditions: tuple[Condition, ...] = ()
    masks: tuple[Policy, ...] = ()
    """A mask policy for everybody for each of the masks, in their order."""
    rows: Policy | None = None
    """A row-filter policy for everybody; None: all rows are shared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataShare:
    """Resources that are shared together."""

    id: int
    name: str = ""
    zone: str = ""
    """The security zone whose resources are shared; empty: those of none."""
    accesses: frozenset[str] = frozenset()
    """The access types that resources are shared for where they do not list their own."""
    conditions: tuple[Condition, ...] = ()
    resources: tuple[SharedResource, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """That a data share is in a dataset, or a dataset in a project."""

    id: int
    """Of the data share, or of the project."""
    schedules: tuple[ValiditySchedule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Datasets that are granted together."""

    id: int
    name: str = ""
    schedules: tuple[ValiditySchedule, ...] = ()
    policies: tuple[Policy, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedDataset(Project):
    """Data shares that are granted together."""

    shares: tuple[Membership, ...] = ()
    projects: tuple[Membership, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """All of it that concerns one service."""

    definition: ServiceDef
    """What policies of datasets and projects follow; its access types are the service's."""
    version: int = -1
    shares: tuple[DataShare, ...] = ()
    datasets: tuple[SharedDataset, ...] = ()
    projects: tuple[Project, ...] = ()

    @property
    def depends_on_context(self) -> bool:
        """Whether it matters when or from where it is asked; conditions may always ask."""
        holders: list[Project] = [*self.datasets, *self.projects]
        links = [link for one in self.datasets for link in (*one.shares, *one.projects)]
        resources = [resource for share in self.shares for resource in share.resources]
        policies = [policy for one in holders for policy in one.policies]
        return (
            any(one.schedules for one in holders)
            or any(one.schedules for one in links)
            or any(one.conditions for one in self.shares)
            or any(one.conditions for one in resources)
            or any(one.conditions or one.schedules for one in policies)
            or any(item.conditions for one in policies for item in one.allow)
        )

    def obligations(self) -> Iterator[Policy]:
        """Yield the masks and row filters of everything that is shared."""
        for share in self.shares:
            for resource in share.resources:
                yield from resource.masks
                if resource.rows is not None:
                    yield resource.rows

    def grants(self) -> Iterator[Policy]:
        """Yield each policy of a dataset or project once for each resource that it may grant."""
        shares = {share.id: share for share in self.shares}
        projects = {project.id: project for project in self.projects}
        for dataset in self.datasets:
            inside = (projects[one.id] for one in dataset.projects if one.id in projects)
            policies = [policy for holder in (dataset, *inside) for policy in holder.policies]
            for member in dataset.shares:
                share = shares.get(member.id)
                for resource in share.resources if share is not None else ():
                    for policy in policies:
                        yield replace(policy, resources=resource.resources, additional_resources=())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Service:
    """One service in Ranger's sense: a definition, and the policies, zones and tags that hold for it.

    Packs make one service for each definition that they name, called like the definition.
    """

    name: str
    definition: ServiceDef
    policies: tuple[Policy, ...] = ()
    """Policies of all zones and of none; each knows its own."""
    version: int = -1
    """Ranger's policy version; −1 when the source counts none."""
    zones: tuple[Zone, ...] = ()
    tags: Service | None = None
    """The tag service: definition with the resource `tag`, and its policies. Access and mask types of its
    policies are this service's own: the prefix (`hive:`) is gone, what was for other components as well."""
    tagged: tuple[TaggedResource, ...] = ()
    super_users: frozenset[str] = frozenset()
    super_groups: frozenset[str] = frozenset()
    sharing: Sharing | None = None
    """What datasets and projects share of the service's resources, and with whom."""
    audit: AuditRules = field(default_factory=AuditRules)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class PolicySet:
    """All policies at one instant. Immutable: a reload builds another one with a higher version.

    Compared and hashed by identity, so that an engine can be kept for it.
    """

    version: int
    services: Mapping[str, Service] = field(default_factory=dict)
    """Service name → service."""
    roles: tuple[Role, ...] = ()
    users: UserStore = field(default_factory=UserStore)
    catalog_services: Mapping[str, str] = field(default_factory=dict)
    """Catalog → service that speaks for it; a catalog not listed uses `spark`."""
    warnings: tuple[str, ...] = ()
    """What was loaded and does not mean what its author may think, with its place."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Source → its own version, the same in every process: a digest of files, Ranger's numbers."""
    limits: tuple[Limit, ...] = ()
    """What users may have and use."""
    before: PolicySet | None = None
    """What was in force before, where a case of files fails: nothing is allowed that it does not allow, and
    its masks and filters hold, too."""

    def policies(self) -> Iterator[Policy]:
        """Yield every policy, those on tags too."""
        for service in self.services.values():
            yield from service.policies
            if service.tags is not None:
                yield from service.tags.policies
