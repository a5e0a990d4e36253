"""Ranger's own JSON: policy downloads, exports and requests become this project's policies and answers.

`load` and `evaluate` speak Ranger's shapes on both sides; `Converter` does what `load` does for one service
after the other and remembers what it converted, so that a delta of ten policies costs ten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.model.policy import PolicySet, Role, Service, ServiceDef, UserStore


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Converted:
    """One service as it was downloaded, and what came with it."""

    service: Service
    roles: tuple[Role, ...] = ()
    users: UserStore | None = None
    """None: no user store came with it."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RangerFiles:
    """What a set of files holds together."""

    services: Mapping[str, Service]
    roles: tuple[Role, ...] = ()
    users: UserStore | None = None
    definitions: Mapping[str, ServiceDef]
    """Service definitions that lay among the files as files of their own."""
    warnings: tuple[str, ...] = ()


class Converter:
    """Converts downloads of one service again and again; what did not change is not converted again.

    A raw policy that is the same object as last time, or has the same id, version and guid and is equal, gives
    the same Policy object.
    """

    def __init__(self, definitions: Mapping[str, ServiceDef] | None = None) -> None:
        raise NotImplementedError

    def service(
        self,
        service_policies: Mapping[str, Any],
        *,
        tags: Mapping[str, Any] | None = None,
        file: str = "",
    ) -> Converted:
        """Return the service of a ServicePolicies; `tags` is a ServiceTags. Raises Faults."""
        raise NotImplementedError


def load(
    service_policies: Mapping[str, Any],
    *,
    version: int = 1,
    file: str = "",
    service_defs: Mapping[str, ServiceDef] | None = None,
) -> PolicySet:
    """Return the policies of a ServicePolicies; raises Faults with everything that is wrong with it."""
    raise NotImplementedError


def load_files(
    texts: Mapping[str, str | bytes],
    service_defs: Mapping[str, ServiceDef],
    *,
    max_bytes: int = 256 * 1024 * 1024,
) -> RangerFiles:
    """Return what the files (file → text) hold, each recognised by its content; raises Faults."""
    raise NotImplementedError


def roles_of(data: object, *, file: str = "") -> tuple[Role, ...]:
    """Return the roles of a RangerRoles, a role export or a list of roles; raises Faults."""
    raise NotImplementedError


def users_of(data: object, *, file: str = "", adds_groups: bool = False) -> UserStore:
    """Return a UserStore of Ranger's shape; raises Faults."""
    raise NotImplementedError


def apply_deltas(raw_policies: Mapping[str, Any], download: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ServicePolicies after a download: the download itself, or what its deltas make of the old.

    Raw policies that no delta speaks of are the same objects as before. Raises Faults on nonsense.
    """
    raise NotImplementedError


def apply_tag_deltas(raw_tags: Mapping[str, Any], download: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ServiceTags after a download that may be a delta; raises Faults on nonsense."""
    raise NotImplementedError


def evaluate(policies: PolicySet, request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a RangerAccessRequest in Ranger's terms; raises Faults when it is no request."""
    raise NotImplementedError


def write(service: Service) -> dict[str, Any]:
    """Return the service as a ServicePolicies that any plugin of Ranger's reads."""
    raise NotImplementedError
