"""Ranger's policy nouns: service definitions, policies and their items, and the PolicySet that holds them.

Shapes follow Apache Ranger's JSON (`RangerServiceDef`, `RangerPolicy`); values here are already validated.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessTypeDef:
    """An access type and the other access types that granting it grants, one level deep."""

    name: str
    implied: frozenset[str] = frozenset()


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
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskItem(PolicyItem):
    """A policy item of a mask policy; `value_expression` is the text of a CUSTOM mask with `{col}`."""

    mask_type: str
    value_expression: str | None = None
    predicate: str = "masked"
    """`masked`: predicates see the mask; `deny`: using the column outside the output is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterItem(PolicyItem):
    """A policy item of a row-filter policy; an empty `filter_expression` means no filter."""

    filter_expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
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
    audited: bool = True
    description: str = ""
    place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A named set of users, groups and further roles."""

    name: str
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class PolicySet:
    """All policies at one instant. Immutable: a reload builds another one with a higher version.

    Compared and hashed by identity, so that an engine can be kept for it.
    """

    version: int
    service_defs: Mapping[str, ServiceDef]
    """Service type → definition."""
    policies: tuple[Policy, ...]
    roles: tuple[Role, ...] = ()
    catalog_services: Mapping[str, str] = field(default_factory=dict)
    """Catalog → service type that speaks for it; a catalog not listed uses `spark`."""
