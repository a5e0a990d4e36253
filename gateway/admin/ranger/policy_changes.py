"""The one way in which policies change: checked, stored with history, noted for plugins of the services.

Every function works within a change that the caller opened, so that many policies can change at once or not
at all. Bodies are Ranger's JSON with defaults filled in (`checked(POLICY, …)`); what was stored is returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gateway.admin.ranger.access import Access
from gateway.admin.ranger.calls import forbidden, refuse
from gateway.admin.ranger.definitions import Definition
from gateway.admin.ranger.json_fields import show
from gateway.admin.ranger.kinds import Body, Changed, Kind, What
from gateway.admin.ranger.signature import policy_signature
from gateway.admin.ranger.transactions import Reading, Writing
from gateway.admin.ranger.validation import Failure
from gateway.admin.ranger.validation_policy import Surroundings, normalised, policy_failures
from gateway.model.principal import Principal


async def service_of(reading: Reading, name: object) -> Body:
    """Return the service that a policy names. Raises RestError 400 with Ranger's code when there is none."""
    service = await reading.named(Kind.SERVICE, name) if isinstance(name, str) and name else None
    if service is None:
        refuse([Failure(3007, f"there is no service `{name}`", "service")])
        raise AssertionError  # refuse() does not return
    return service


async def create_policy(writing: Writing, access: Access, principal: Principal, body: Body) -> Body:
    """Check and store a new policy. Raises RestError 400 with every fault, or 403."""
    service = await service_of(writing, body.get("service"))
    policy, failures = await _judge(writing, access, principal, service, body, stored=None)
    await _require_right(writing, access, principal, service, policy)
    refuse(failures)
    made = await writing.create(Kind.POLICY, policy, signature=_signature_column(policy))
    await note(writing, service, made, Changed.CREATED)
    return made


async def update_policy(
    writing: Writing,
    access: Access,
    principal: Principal,
    stored: Body,
    body: Body,
    *,
    check_version: bool = True,
) -> Body:
    """Check a policy and put it in the place of the stored one.

    Raises RestError 400 or 403, and Conflict when the body is older than what is stored.
    """
    service = await service_of(writing, stored["service"])
    await _require_right(writing, access, principal, service, stored)
    body = {**body, "id": stored["id"], "guid": stored["guid"]}
    policy, failures = await _judge(writing, access, principal, service, body, stored=stored)
    await _require_right(writing, access, principal, service, policy)
    refuse(failures)
    made = await writing.update(
        Kind.POLICY, stored, policy, signature=_signature_column(policy), check_version=check_version
    )
    await note(writing, service, made, Changed.UPDATED)
    return made


async def delete_policy(writing: Writing, access: Access, principal: Principal, stored: Body) -> None:
    """Remove a policy. Raises RestError 403."""
    service = await service_of(writing, stored["service"])
    await _require_right(writing, access, principal, service, stored)
    await remove(writing, service, stored)


async def remove(writing: Writing, service: Body, stored: Body) -> None:
    """Remove a policy whose going follows from something that was allowed, such as its zone's."""
    await writing.delete(Kind.POLICY, stored)
    await note(writing, service, stored, Changed.DELETED)


async def note(writing: Writing, service: Body, policy: Body, changed: Changed) -> None:
    """Raise the policy version of the service, and of services that use it for their tags."""
    await writing.bump(What.POLICY, [service["name"]], changed, policy)
    if service["type"] == "tag":
        await writing.bump(What.POLICY, await writing.linked(service["name"]), changed, policy)


async def _judge(
    writing: Writing,
    access: Access,
    principal: Principal,
    service: Body,
    body: Body,
    *,
    stored: Mapping[str, Any] | None,
) -> tuple[Body, list[Failure]]:
    """Return the policy as it would be stored, and everything that is wrong with it."""
    definition = Definition(await writing.named(Kind.SERVICE_DEF, service["type"]) or {})
    policy = normalised({**body, "serviceType": service["type"]}, definition)
    signature = policy_signature(policy)
    policy["resourceSignature"] = signature
    zone, name = policy.get("zoneName") or "", policy.get("name")
    around = Surroundings(
        service=service,
        definition=definition,
        zone=await writing.named(Kind.ZONE, zone) if zone else None,
        updating=stored is not None,
        stored=stored,
        administrator=access.administers_service(principal, service),
    )
    if isinstance(name, str) and name:
        same = await writing.named(Kind.POLICY, name, service=service["name"], zone=zone)
        around = replace(around, same_name=_another(same, stored))
    for same in await writing.signed(service["name"], signature):
        around = replace(around, same_resources=_another(same, stored) or around.same_resources)
    failures = policy_failures(policy, around)
    return {**show(policy), "isEnabled": policy["isEnabled"]}, failures


def _another(found: Body | None, stored: Mapping[str, Any] | None) -> Body | None:
    return None if found is None or (stored is not None and found["id"] == stored["id"]) else found


def _signature_column(policy: Body) -> str | None:
    """Return what must be unique in the service; of a disabled policy nothing."""
    return policy["resourceSignature"] if policy["isEnabled"] else None


async def _require_right(
    writing: Writing, access: Access, principal: Principal, service: Body, policy: Body
) -> None:
    if not await access.may_change(writing, principal, service, policy):
        raise forbidden(
            f"user `{principal.user}` has no delegated-admin privilege on the resources of the policy in"
            f" service `{service['name']}`"
        )
