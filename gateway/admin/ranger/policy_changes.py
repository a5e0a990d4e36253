"""The one way in which policies change: checked, stored with history, noted for plugins of the services.

Every function works within a change that the caller opened, so that many policies can change at once or not
at all. Bodies are Ranger's JSON with defaults filled in (`parse_object(POLICY, …)`); what was stored is
returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import structlog

from gateway.admin.ranger import merging
from gateway.admin.ranger.access import Access, TextQuestion
from gateway.admin.ranger.calls import ApiCall, bad_request, forbidden, parse_object, refuse
from gateway.admin.ranger.definitions import MASK, ServiceType
from gateway.admin.ranger.json_fields import show
from gateway.admin.ranger.kinds import Body, ChangedObject, ObjectKind, What
from gateway.admin.ranger.obliging import (
    OBLIGATIONS,
    author_of,
    differ,
    holds_alike,
    list_others_affected,
    takes_back_denial,
)
from gateway.admin.ranger.role_changes import roles_of
from gateway.admin.ranger.shapes import POLICY
from gateway.admin.ranger.signature import policy_signature
from gateway.admin.ranger.transactions import ReadTransaction, WriteTransaction, as_text
from gateway.admin.ranger.validation import Failure
from gateway.admin.ranger.validation_policy import (
    BAD_TEXT,
    REACHES,
    Surroundings,
    normalise_policy,
    policy_failures,
)
from gateway.model.principal import Principal, id_of, user_of
from gateway.policy.authors import authors_in, digest, with_authors, with_writers, writers_of

_log = structlog.get_logger(__name__)

TAG_TYPE = "tag"
"""The type of services whose policies are on tags."""
_TEXTS = (
    ("dataMaskPolicyItems", "dataMaskInfo", "valueExpr", "mask"),
    ("rowFilterPolicyItems", "rowFilterInfo", "filterExpr", "filter"),
)
"""Where a policy has SQL texts: its list, what an item has there, the field, and what the text is."""


async def service_of(reading: ReadTransaction, name: object) -> Body:
    """Return the service that a policy names. Raises RangerError 400 with Ranger's code if there is none."""
    service = await reading.find_named(ObjectKind.SERVICE, name) if isinstance(name, str) and name else None
    if service is None:
        refuse([Failure(3007, f"service `{name}` does not exist", "service")])
        raise AssertionError  # refuse() does not return
    return service


async def create_policy(writing: WriteTransaction, access: Access, principal: Principal, body: Body) -> Body:
    """Check and store a new policy. Raises RangerError 400 with every fault, or 403."""
    service = await service_of(writing, body.get("service"))
    policy = await _check_policy(writing, access, principal, service, body, stored=None)
    policy = with_writers(policy, principal.id, principal.id)
    made = await writing.create(ObjectKind.POLICY, policy, signature=_signature_column(policy))
    await note(writing, service, made, ChangedObject.CREATED)
    return made


async def update_policy(
    writing: WriteTransaction,
    access: Access,
    principal: Principal,
    stored: Body,
    body: Body,
    *,
    check_version: bool = True,
) -> Body:
    """Check a policy and put it in the place of the stored one.

    Raises RangerError 400 or 403, and Conflict when the body is older than what is stored.
    """
    service = await service_of(writing, stored["service"])
    await _require_right(writing, access, principal, service, stored)
    body = {**body, "id": stored["id"], "guid": stored["guid"]}
    policy = await _check_policy(writing, access, principal, service, body, stored=stored)
    author = author_of(stored, policy)
    created, updated = writers_of(stored)[0], principal.identity if author is None else author
    policy = with_writers(policy, id_of(created), id_of(updated))
    made = await writing.update(
        ObjectKind.POLICY,
        stored,
        policy,
        signature=_signature_column(policy),
        check_version=check_version,
        author=None if author is None else user_of(author),
    )
    await note(writing, service, made, ChangedObject.UPDATED)
    return made


async def offer_policy(
    writing: WriteTransaction,
    access: Access,
    principal: Principal,
    body: Body,
    *,
    update: bool = False,
    merge: bool = False,
    delete: bool = False,
    by_name: bool = False,
) -> Body:
    """Create a policy, or put it where one for the same resources (or of the same name) is already.

    `merge` counts before `update`; with `delete` an existing one makes way, its guid included.
    """
    if not (update or merge or delete):
        return await create_policy(writing, access, principal, body)
    existing = await _find_existing(writing, body, by_name=by_name)
    if existing is None:
        return await create_policy(writing, access, principal, body)
    if merge:
        return await _merge(writing, access, principal, existing, body)
    if update:
        return await _overwrite(writing, access, principal, existing, body)
    await delete_policy(writing, access, principal, existing)
    return await create_policy(writing, access, principal, body)


def read_existing_policy_options(call: ApiCall) -> dict[str, bool]:
    """Return what the parameters of a call say of policies that are there already, for `offer_policy`."""
    return {
        "update": call.flag("updateIfExists"),
        "merge": call.flag("mergeIfExists"),
        "delete": call.flag("deleteIfExists"),
        "by_name": call.parameter("policyMatchingAlgorithm").lower() == "matchbyname",
    }


async def apply_policy(
    writing: WriteTransaction, access: Access, principal: Principal, body: Body, *, overwrite: bool
) -> Body:
    """Create the policy when none has its resources; else merge it into that one, or overwrite that one."""
    existing = await _find_existing(writing, body, by_name=False)
    if existing is not None:
        change = _overwrite if overwrite else _merge
        return await change(writing, access, principal, existing, body)
    name, service, zone = body.get("name"), body.get("service"), body.get("zoneName") or ""
    if (
        name
        and await writing.find_named(ObjectKind.POLICY, name, service=service or "", zone=zone) is not None
    ):
        body = {**body, "name": f"{name} {writing.now_ms}"}
    return await create_policy(writing, access, principal, body)


async def _find_existing(writing: WriteTransaction, body: Body, *, by_name: bool) -> Body | None:
    """Return the stored policy that a body stands for. Raises RangerError 400 when there are several."""
    service = await service_of(writing, body.get("service"))
    if by_name:
        zone = body.get("zoneName") or ""
        return await writing.find_named(
            ObjectKind.POLICY, body.get("name") or "", service=service["name"], zone=zone
        )
    definition = ServiceType(await writing.find_named(ObjectKind.SERVICE_DEF, service["type"]) or {})
    found = await writing.list_by_signature(
        service["name"], policy_signature(normalise_policy(body, definition))
    )
    if len(found) > 1:
        raise bad_request("several policies have these resources")
    return found[0] if found else None


async def _merge(
    writing: WriteTransaction, access: Access, principal: Principal, stored: Body, body: Body
) -> Body:
    merged = parse_object(POLICY, merging.merge(stored, body))
    return await update_policy(writing, access, principal, stored, merged, check_version=False)


async def _overwrite(
    writing: WriteTransaction, access: Access, principal: Principal, stored: Body, body: Body
) -> Body:
    replaced = merging.replace_policy(stored, body)
    return await update_policy(writing, access, principal, stored, replaced, check_version=False)


async def delete_policy(
    writing: WriteTransaction, access: Access, principal: Principal, stored: Body
) -> None:
    """Remove a policy. Raises RangerError 403."""
    service = await service_of(writing, stored["service"])
    await _require_right(writing, access, principal, service, stored)
    await _require_own(writing, access, principal, service, stored=stored, policy=None)
    await remove(writing, service, stored)


async def remove(writing: WriteTransaction, service: Body, stored: Body) -> None:
    """Remove a policy whose going follows from something that was allowed, such as its zone's."""
    await writing.delete(ObjectKind.POLICY, stored)
    await note(writing, service, stored, ChangedObject.DELETED)


async def note(writing: WriteTransaction, service: Body, policy: Body, changed: ChangedObject) -> None:
    """Raise the policy version of the service, and of services that use it for their tags."""
    await writing.bump(What.POLICY, [service["name"]], changed, policy)
    if service["type"] == TAG_TYPE:
        await writing.bump(What.POLICY, await writing.list_linked_services(service["name"]), changed, policy)


async def _check_policy(
    writing: WriteTransaction,
    access: Access,
    principal: Principal,
    service: Body,
    body: Body,
    *,
    stored: Mapping[str, Any] | None,
) -> Body:
    """Return the policy as it is to be stored. Raises RangerError 403, or 400 with all that is wrong."""
    definition = ServiceType(await writing.find_named(ObjectKind.SERVICE_DEF, service["type"]) or {})
    policy, signature = await asyncio.to_thread(_sign_policy, body, service, definition)
    # First of all: what is wrong with it takes long to say, and is nobody's business who may not write it.
    await _require_right(writing, access, principal, service, policy)
    zone, name = policy.get("zoneName") or "", policy.get("name")
    around = Surroundings(
        service=service,
        definition=definition,
        zone=await writing.find_named(ObjectKind.ZONE, zone) if zone else None,
        updating=stored is not None,
        stored=stored,
        administrator=access.administers_service(principal, service),
    )
    if isinstance(name, str) and name:
        same = await writing.find_named(ObjectKind.POLICY, name, service=service["name"], zone=zone)
        around = replace(around, same_name=_another(same, stored))
    for same in await writing.list_by_signature(service["name"], signature):
        around = replace(around, same_resources=_another(same, stored) or around.same_resources)
    refuse(await asyncio.to_thread(policy_failures, policy, around))
    kept = {**show(policy), "isEnabled": policy["isEnabled"]}
    await _require_own(writing, access, principal, service, stored=stored, policy=kept)
    delegate = None if access.is_administrator(principal) else principal
    new = _new_texts(kept, stored, delegate)
    reaching: set[str] = set()
    refuse([*_text_failures(kept, new, access, delegate, reaching)])
    taken = _list_taken_over(kept, stored, {text for _, text, _, _ in new}, access, delegate)
    return _with_authors(kept, stored, {text for _, text, _, _ in new}, reaching, taken, delegate)


def _with_authors(
    policy: Body,
    stored: Mapping[str, Any] | None,
    new: Collection[str],
    reaching: Collection[str],
    taken: Collection[str],
    delegate: Principal | None,
) -> Body:
    """Return the policy with who wrote those texts in it that need more than their row, if a delegate.

    `taken`: texts that were another's, and are of whoever writes them again. Of a text that is new an
    administrator may say whose it is, as a file that was exported does: so it is no more than it was.
    """
    before, said = authors_in(stored or {}), authors_in(policy) if delegate is None else {}
    authors: dict[str, str] = {}
    for _, text, _, _ in _texts_of(policy):
        known = None if text in taken else (said if text in new else before).get(digest(text))
        if known is not None:
            authors[digest(text)] = known
    if delegate is not None:
        authors |= {digest(text): delegate.identity for text in (*reaching, *taken)}
    for text in (*reaching, *taken):
        by = user_of(authors.get(digest(text), "an administrator"))
        _log.info("policy_text_reaches", policy=policy.get("name"), service=policy.get("service"), by=by)
    return with_authors(policy, authors)


def _texts_of(policy: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the SQL texts of a policy's items: what each is, the text, and where it stands."""
    for items, info, field, kind in _TEXTS:
        for item in policy.get(items) or ():
            text = ((item or {}).get(info) or {}).get(field) or ""
            if text.strip():
                yield kind, text, items, field


def _list_taken_over(
    policy: Body,
    stored: Mapping[str, Any] | None,
    new: Collection[str],
    access: Access,
    delegate: Principal | None,
) -> set[str]:
    """Return the texts of others that are closed, since these may not select what they read, and that
    somebody who may writes again.

    INVARIANT (nobody opens by the way what is closed): a change of something else that names a text's author,
    as what was read from here does, leaves it his.
    """
    if stored is None or access.read_text is None:
        return set()
    before, named = authors_in(stored), authors_in(policy)
    changed = differ(stored, policy, harmless=False)
    taken: set[str] = set()
    for kind, text, _, _ in sorted(set(_texts_of(policy))):
        author = before.get(digest(text))
        if author is None or text in new or (delegate is not None and author == delegate.identity):
            continue
        if changed and named.get(digest(text)) is not None:
            continue
        question = _question(policy, kind, text, delegate, author)
        found = access.texts.get(question)
        if found is None:
            _to_read(access, question)
        elif found.fault is None and found.lapsed and (delegate is None or found.selectable):
            taken.add(text)
    return taken


def _question(
    policy: Body, kind: str, text: str, delegate: Principal | None, author: str = ""
) -> TextQuestion:
    about = as_text({"sets": [policy["resources"], *(policy.get("additionalResources") or ())]})
    return TextQuestion(
        kind, text, policy["service"], policy["serviceType"], about, trusted=delegate is None, author=author
    )


def _to_read(access: Access, question: TextQuestion) -> None:
    if access.unread is None:
        raise AssertionError("a policy with texts is changed by `ApiCall.change`")
    access.unread[question] = None


def _new_texts(
    policy: Body, stored: Mapping[str, Any] | None, delegate: Principal | None
) -> set[tuple[str, str, str, str]]:
    """Return the SQL texts of items that are not stored as they are, for the same resources: what each is,
    the text, and where it stands. Somebody else's words on another table, or shown to others, are new; so
    are those that a delegate puts in force at other times."""
    same = stored is not None and holds_alike(stored, policy, delegated=delegate is not None)
    kept = {items: (stored or {}).get(items) or () if same else () for items, _, _, _ in _TEXTS}
    changed = {
        items: [item for item in policy.get(items) or () if item not in kept[items]]
        for items, _, _, _ in _TEXTS
    }
    return set(_texts_of(changed))


def _text_failures(
    policy: Body,
    texts: Iterable[tuple[str, str, str, str]],
    access: Access,
    delegate: Principal | None,
    reaching: set[str],
) -> Iterator[Failure]:
    """Yield what is wrong with texts that are new in a policy; `delegate` is who writes it, if he is not an
    administrator of everything. Texts that need more than their row are added to `reaching`.

    One that Spark's parser does not take would close what the policy is about as soon as it came into force.
    One that reads a table shows it to whoever the policy is for, its author first: the right to write
    policies on one resource would be the right to read all. So he must be allowed to select it himself.

    INVARIANT (nobody waits for a parser): texts are not read here, where other writers wait. Those that have
    not been read yet are noted, and the change is begun anew when they have (`ApiCall.change`).
    """
    if access.read_text is None:
        return
    for kind, text, items, field in sorted(texts):
        question = _question(policy, kind, text, delegate)
        found = access.texts.get(question)
        if found is None:
            _to_read(access, question)
        elif found.fault is not None:
            yield Failure(BAD_TEXT, found.fault, items, field)
        elif found.reach:
            reaching.add(text)
            if delegate is None or found.selectable:
                continue
            yield Failure(
                REACHES,
                f"this {kind} {found.reach}, and `{delegate.user}` has delegated admin on some resources "
                "only; saving it needs somebody with select on everything that it reads, or an "
                "administrator",
                items,
                field,
            )


def _sign_policy(body: Body, service: Body, definition: ServiceType) -> tuple[Body, str]:
    """Return the policy in the definition's spelling, with its signature."""
    policy = normalise_policy({**body, "serviceType": service["type"]}, definition)
    policy["resourceSignature"] = signature = policy_signature(policy)
    return policy, signature


def _another(found: Body | None, stored: Mapping[str, Any] | None) -> Body | None:
    return None if found is None or (stored is not None and found["id"] == stored["id"]) else found


def _signature_column(policy: Body) -> str | None:
    """Return what must be unique in the service; of a disabled policy nothing."""
    return policy["resourceSignature"] if policy["isEnabled"] else None


async def _require_right(
    writing: WriteTransaction, access: Access, principal: Principal, service: Body, policy: Body
) -> None:
    if not await access.may_change(writing, principal, service, policy):
        raise forbidden(
            f"user `{principal.user}` has no delegated admin on the resources of the policy in service "
            f"`{service['name']}`"
        )
    if not await access.may_override(writing, principal, service, policy):
        raise forbidden(
            f"user `{principal.user}` only has delegated admin in service `{service['name']}`, and a "
            "policy with `policyPriority` 1 overrides the policies of others; this needs an administrator "
            "of the service or of the zone"
        )


async def _require_own(
    writing: WriteTransaction,
    access: Access,
    principal: Principal,
    service: Body,
    *,
    stored: Mapping[str, Any] | None,
    policy: Mapping[str, Any] | None,
) -> None:
    """Refuse a change (`policy` None: a deletion) that takes back denials, masks or filters of others.

    Raises RangerError 403 for whoever does not administer the service or the zone.
    """
    if stored is not None and not access.rights.delegates_may_override:
        taken_back = takes_back_denial(principal, stored=stored, policy=policy)
        if taken_back and not await access.governs(writing, principal, service, stored.get("zoneName") or ""):
            raise forbidden(
                f"user `{principal.user}` only has delegated admin in service `{service['name']}`, and "
                f"this would take back what `{stored.get('name')}` of others denies; this needs an "
                "administrator of the service or of the zone"
            )
    for one in filter(None, (policy, stored)):
        type_, zone = int(one.get("policyType") or 0), one.get("zoneName") or ""
        if type_ not in OBLIGATIONS or access.rights.delegates_may_override:
            continue
        if await access.governs(writing, principal, service, zone):
            continue
        definition = ServiceType(await writing.find_named(ObjectKind.SERVICE_DEF, service["type"]) or {})
        policies = await writing.list_obligation_policies([service["name"]], type_, zone=zone)
        on_tags = service["type"] == TAG_TYPE
        if on_tags:
            # A zone that has no tag service of its own has the policies on tags of no zone.
            policies += await writing.list_obligation_policies(
                await writing.list_linked_services(service["name"]), type_
            )
        roles = await writing.all(ObjectKind.ROLE)
        taken = await asyncio.to_thread(
            list_others_affected,
            replace(principal, roles=frozenset(roles_of(roles, principal.user, principal.groups))),
            definition,
            policies,
            stored=stored,
            policy=policy,
            on_tags=on_tags,
        )
        if taken:
            what = "mask" if type_ == MASK else "row filter"
            raise forbidden(
                f"user `{principal.user}` only has delegated admin in service `{service['name']}`, and "
                f"this would take precedence over the {what} `{taken[0]}` of others; this needs an "
                "administrator of the service or of the zone, or an item with `delegateAdmin` in that "
                "policy"
            )
