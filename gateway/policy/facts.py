"""What conditions, macros and expressions may ask about one access: gathered once, never looked up again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.model.context import NO_CONTEXT, AccessContext
from gateway.model.tags import Tag

NO_NAMES: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Facts:
    """One access as conditions see it. Everything is plain data; nothing here can be called."""

    user: str
    groups: frozenset[str] = NO_NAMES
    """The user's own groups; `public` is not among them."""
    roles: frozenset[str] = NO_NAMES
    user_attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Attributes of the user, from login and user store; each has one value or more."""
    group_attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Group → its attributes, for the user's own groups."""
    resource: Mapping[str, str] = field(default_factory=dict)
    """Level → value, as it was asked."""
    owner: str | None = None
    access: str = ""
    scope: str = "SELF"
    """Ranger's matching scope: which policies count for this access."""
    context: AccessContext = NO_CONTEXT
    tags: tuple[Tag, ...] = ()
    """Tags of the resource that hold now, or may."""
    doubted_tags: bool = False
    """Whether it could not be told of some of them: then no question about tags has an answer."""
    tag: Tag | None = None
    """The tag whose policy is being asked; None for policies on resources."""

    def is_determined(self, context_dependencies: frozenset[str]) -> bool:
        """Say whether what depends on these fields of the context can be told."""
        return not (self.doubted_tags and "tags" in context_dependencies)
