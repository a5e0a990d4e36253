"""What a metalake of a Gravitino server holds: catalogs, tags, roles and owners, at one instant."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

RELATIONAL = "RELATIONAL"


class Level(enum.Enum):
    """Kinds of objects that can hold tables, or be part of one."""

    METALAKE = "METALAKE"
    CATALOG = "CATALOG"
    SCHEMA = "SCHEMA"
    TABLE = "TABLE"
    VIEW = "VIEW"
    COLUMN = "COLUMN"


_DEPTHS = {
    Level.METALAKE: 0,
    Level.CATALOG: 1,
    Level.SCHEMA: 2,
    Level.TABLE: 3,
    Level.VIEW: 3,
    Level.COLUMN: 4,
}


@dataclass(frozen=True, slots=True)
class MetadataObject:
    """An object by its type, as the server writes it, and its full name; a metalake has no name here."""

    type: str
    parts: tuple[str, ...]

    @property
    def level(self) -> Level | None:
        """What it is; None for what holds no tables (FILESET, TOPIC, MODEL, …), and for a name with another
        number of parts than its type has: a name with a dot in it, which no statement can use."""
        try:
            level = Level(self.type)
        except ValueError:
            return None
        return level if len(self.parts) == _DEPTHS[level] else None

    def __str__(self) -> str:
        return f"{self.type.lower()} {'.'.join(self.parts)}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetalakeCatalog:
    """A catalog of a metalake, as the server tells of it."""

    name: str
    type: str
    """`RELATIONAL`, or what else a metalake keeps: FILESET, MESSAGING, MODEL."""
    provider: str
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """May hold passwords: no repr shows them."""
    in_use: bool = True
    left_out: frozenset[str] = frozenset()
    """Properties that were secrets, and are not known any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetalakeTag:
    """A tag, and what has it itself; what lies below has it too."""

    name: str
    properties: Mapping[str, str] = field(default_factory=dict)
    objects: tuple[MetadataObject, ...] = ()


@dataclass(frozen=True, slots=True)
class MetalakePrivilege:
    """A privilege by its upper-case name, given or denied."""

    name: str
    denied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MetalakeRole:
    """A role: objects, and what whoever has it may do with each of them and what lies below."""

    name: str
    grants: tuple[tuple[MetadataObject, tuple[MetalakePrivilege, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose an object is."""

    name: str
    group: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MetalakeRestriction:
    """A policy of the server that hides rows, or values of columns."""

    name: str
    hides: Literal["rows", "values"]
    expression: str
    """As its author wrote it; empty: nobody here enforces it, and what it is on is closed."""
    objects: tuple[MetadataObject, ...] = ()
    """What it is on, by tags too; on what lies below as well."""

    def covers(self, name: Sequence[str]) -> bool:
        """Whether it is on a table, by catalog, database and name, or on what that lies in; a namespace lies
        in the one above it."""
        return any(_lies_in(name, one) for one in self.objects)

    def list_columns(self, name: Sequence[str]) -> list[str]:
        """Return the columns of a table that it is on by themselves."""
        folded = [one.lower() for one in name]
        return [
            one.parts[-1]
            for one in self.objects
            if one.level is Level.COLUMN and [part.lower() for part in one.parts[:-1]] == folded
        ]


def _lies_in(name: Sequence[str], one: MetadataObject) -> bool:
    folded, parts = [each.lower() for each in name], [each.lower() for each in one.parts]
    match one.level:
        case None | Level.COLUMN:
            return False
        case Level.SCHEMA:
            # RULE (metalake-nested)
            return folded[0] == parts[0] and f"{folded[1]}.".startswith(f"{parts[1]}.")
    return parts == folded[: len(parts)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metalake:
    """All that was asked of a metalake."""

    catalogs: tuple[MetalakeCatalog, ...] = ()
    tags: tuple[MetalakeTag, ...] = ()
    roles: tuple[MetalakeRole, ...] = ()
    users: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """User → names of the roles."""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    owners: Mapping[MetadataObject, Owner] = field(default_factory=dict)
    """Of the metalake and its relational catalogs."""
    restricted: tuple[MetadataObject, ...] = ()
    """Objects that a policy of the metalake hides rows or values of, which nobody here enforces."""
    restrictions: tuple[MetalakeRestriction, ...] = ()
    """All such policies, with what they are on."""

    @property
    def hidden_roles(self) -> frozenset[str]:
        """Roles that users or groups have, and that were not told."""
        held = {role for members in (self.users, self.groups) for roles in members.values() for role in roles}
        return frozenset(held - {role.name for role in self.roles})


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCatalogs:
    """Catalogs that come and go while the gateway runs, by lower-case name."""

    revisions: Mapping[str, int] = field(default_factory=dict)
    """Those that can be used, each with a number that is another one whenever Spark is told otherwise of it.
    A number is never used twice."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Those that cannot be used now, with why: gone, too old, changing. Their names mean them still, and
    never a database of another catalog."""


NONE_LISTED = ListedCatalogs()
