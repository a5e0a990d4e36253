"""What is asked for: resources as ordered levels, and access requests on them."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gateway.model.context import NO_CONTEXT, AccessContext
from gateway.model.principal import Principal


@dataclass(frozen=True, slots=True)
class Resource:
    """One thing that policies speak of: levels from the root down, as the service definition names them.

    `Resource((("catalog", "spark_catalog"), ("database", "hr"), ("table", "employee")))` is a table.
    """

    elements: tuple[tuple[str, str], ...]
    owner: str | None = None

    @property
    def kind(self) -> str:
        """Name of the deepest level, `table` for a table; empty for the root."""
        return self.elements[-1][0] if self.elements else ""

    def level(self, name: str) -> str | None:
        """Return the value at a level, or None when the resource does not reach that level."""
        for key, value in self.elements:
            if key == name:
                return value
        return None

    def child(self, kind: str, name: str) -> Resource:
        """Return this resource with one more level."""
        return Resource((*self.elements, (kind, name)), self.owner)

    def __str__(self) -> str:
        return ".".join(value for _, value in self.elements)

    @classmethod
    def catalog(cls, catalog: str) -> Resource:
        return cls((("catalog", catalog),))

    @classmethod
    def database(cls, catalog: str, database: str) -> Resource:
        return cls((("catalog", catalog), ("database", database)))

    @classmethod
    def table(cls, catalog: str, database: str, table: str, owner: str | None = None) -> Resource:
        return cls((("catalog", catalog), ("database", database), ("table", table)), owner)

    @classmethod
    def udf(cls, catalog: str, database: str, function: str) -> Resource:
        return cls((("catalog", catalog), ("database", database), ("udf", function)))

    @classmethod
    def url(cls, url: str) -> Resource:
        return cls((("url", url),))

    @classmethod
    def setting(cls, key: str) -> Resource:
        return cls((("setting", key),))

    @classmethod
    def artifact(cls, name: str) -> Resource:
        return cls((("artifact", name),))


ANY_ACCESS = "_any"
"""Ranger's wildcard request: allowed when at least one access type is."""
BY_NAME = " by name"
"""Behind an access type: a policy has to list it itself, and not `all` or another that implies it."""
ADMIN_ACCESS = "_admin"
"""Ranger's request for delegated administration: allowed by items with `delegate_admin`."""


class Scope(enum.Enum):
    """What a policy may speak of and still count; the names are Ranger's."""

    SELF = "SELF"
    SELF_OR_DESCENDANTS = "SELF_OR_DESCENDANTS"


class ElementScope(enum.Enum):
    """Which of a policy's values at one level match the value asked for; the names are Ranger's."""

    SELF = "SELF"
    SELF_OR_CHILD = "SELF_OR_CHILD"
    """Of paths also one that is one segment deeper."""
    SELF_OR_PREFIX = "SELF_OR_PREFIX"
    """Also one that begins with what is asked for."""


class AnyOf(str):
    """Stands, as the first of them, for several values of one level, any of which may match."""

    __slots__ = ("each",)

    each: tuple[str, ...]

    @classmethod
    def of(cls, each: tuple[str, ...]) -> AnyOf:
        """Return what stands for these; for none it reads as the empty text."""
        made = cls(next(iter(each), ""))
        made.each = each
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest:
    """`principal` wants `access` on `resource`; access types are those of the service definition."""

    principal: Principal
    resource: Resource
    access: str
    context: AccessContext = NO_CONTEXT
    service: str | None = None
    """Name of the service to ask; None: the one that speaks for the resource's catalog."""
    scope: Scope = Scope.SELF
    element_scopes: tuple[tuple[str, ElementScope], ...] = ()
    """Level → how its value is matched; SELF where it is not listed."""
    alternatives: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Level → the values of which any may match, instead of the one of `resource`; there may be none."""
    ignore_descendant_deny: bool = True
    """Whether a denial of something below the resource leaves the resource itself alone, as Ranger's
    default is."""
