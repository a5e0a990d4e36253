"""The nouns of the store: kinds of objects, versions that plugins ask with, changes and history."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Body = dict[str, Any]
"""An object in Ranger's JSON shape."""

GATEWAY = "sluice"
"""Creator of the objects that exist from the beginning."""


class ObjectKind(enum.StrEnum):
    """Kind of object that a row holds."""

    SERVICE_DEF = "service-def"
    SERVICE = "service"
    POLICY = "policy"
    ROLE = "role"
    ZONE = "zone"
    TAGS = "tags"
    """All tags of one service, as one `ServiceTags`; its name is the service's."""
    USER = "user"
    GROUP = "group"
    GROUP_USER = "group-user"


class What(enum.StrEnum):
    """Parts of a service that have a version of their own, which plugins send with a download."""

    POLICY = "policy"
    TAG = "tag"
    ROLE = "role"
    USER_STORE = "userstore"


class ChangedObject(enum.IntEnum):
    """Ranger's numbers for what happened to a service's policies; only the first three make a delta."""

    CREATED = 0
    UPDATED = 1
    DELETED = 2
    SERVICE = 3
    SERVICE_DEF = 4
    INVALIDATED = 7


class Conflict(Exception):
    """The object was changed by someone else since the caller read it."""

    def __init__(self, stored: int, given: int) -> None:
        super().__init__(f"version {given} was given, version {stored} is stored")
        self.stored = stored
        self.given = given


@dataclass(frozen=True, slots=True)
class Version:
    """A number that goes up with every change, and when it last did (epoch milliseconds)."""

    number: int
    updated_ms: int


NEVER = Version(0, 0)


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """One change to a service's policies. `policy` is None when it was not about one policy."""

    version: int
    change: int
    policy: Body | None


@dataclass(frozen=True, slots=True)
class Past:
    """One entry of the history."""

    time: datetime
    who: str
    action: str
    kind: str
    object_id: int
    name: str
    service: str
    version: int
    before: Body | None
    after: Body | None
