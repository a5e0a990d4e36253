"""Ranger's own JSON: everything that other rooms need of the modules beside this one.

`load` and `load_files` make policies of downloads, exports and cache files; a `Converter` does so for one
service again and again, after `apply_deltas` and `apply_tag_deltas`; `evaluate` answers Ranger's requests in
Ranger's terms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.model.policy import PolicySet, Role, ServiceDef, UserStore
from gateway.policy.diagnostics import Diagnostics
from gateway.policy.json_shapes import Reader
from gateway.policy.ranger.deltas import apply_deltas, apply_tag_deltas
from gateway.policy.ranger.files import RangerFiles, load_files
from gateway.policy.ranger.people import read_roles, read_user_store
from gateway.policy.ranger.requests import evaluate
from gateway.policy.ranger.services import Converted, Converter

__all__ = [
    "Converted",
    "Converter",
    "RangerFiles",
    "apply_deltas",
    "apply_tag_deltas",
    "evaluate",
    "load",
    "load_files",
    "roles_of",
    "users_of",
]


def load(
    service_policies: Mapping[str, Any],
    *,
    file: str = "",
    service_defs: Mapping[str, ServiceDef] | None = None,
    strict: bool = False,
    tolerant: bool = False,
) -> PolicySet:
    """Return the policies of a ServicePolicies; raises Faults with everything that is wrong with it.

    Beside its own keys it may hold `tags` or `serviceTags` (a ServiceTags), `roles` or `serviceRoles` (a
    RangerRoles or a list of roles), `userStore`, `gdsInfo` (a ServiceGdsInfo), and what the test
    files of Ranger's own engine use: `tagPolicyInfo`, `userRoles`, `groupRoles`, `roleRoles`, `superUsers`
    and their like. `service_defs` are used, by `serviceType`, when it brings no `serviceDef`.
    With `strict` access types that nobody knows are faults also where they would grant nothing. With
    `tolerant` policies at fault are `broken`, and everything else is taken.
    """
    converted = Converter(service_defs, strict=strict, tolerant=tolerant).service(service_policies, file=file)
    return PolicySet(
        version=1,
        services={converted.service.name: converted.service},
        roles=converted.roles,
        users=converted.users or UserStore(),
        warnings=converted.warnings,
    )


def roles_of(data: object, *, file: str = "", tolerant: bool = False) -> tuple[Role, ...]:
    """Return the roles of a RangerRoles, a role export or a list of roles; raises Faults. With `tolerant`
    roles at fault are `broken`."""
    findings = Diagnostics(file=file)
    found = read_roles(data, Reader(findings), (), tolerant=tolerant)
    findings.raise_any()
    return found


def users_of(data: object, *, file: str = "", adds_groups: bool = False, tolerant: bool = False) -> UserStore:
    """Return a user store of Ranger's shape; raises Faults.

    With `adds_groups` its memberships count beside those that a user brought from login. With `tolerant`
    users and groups at fault are told of by themselves.
    """
    findings = Diagnostics(file=file)
    found = read_user_store(data, Reader(findings), (), adds_groups=adds_groups, tolerant=tolerant)
    findings.raise_any()
    return found
