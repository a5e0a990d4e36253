"""Cases: questions that a pack asks of all policies together, and the answers that it expects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.model.context import AccessContext
from gateway.model.decision import Explanation
from gateway.model.policy import PolicyType, ServiceDef
from gateway.model.principal import Principal
from gateway.model.resource import ADMIN_ACCESS, ANY_ACCESS, AccessRequest, Resource
from gateway.model.tags import Tag
from gateway.policy.compiled import hierarchy_to
from gateway.policy.diagnostics import Path, hint, list_unknown_keys
from gateway.policy.engine import Engine
from gateway.policy.limits import LimitIndex
from gateway.policy.masks import MASK_TYPES
from gateway.policy.packs.limits import list_limit_failures, read_expected_limits
from gateway.policy.packs.shapes import Shapes
from gateway.policy.packs.times import read_moment, read_tags

NONE = "none"
"""How a case says that it expects no mask, or no filter."""
_CASE_KEYS = (
    "as",
    "wants",
    "on",
    "owner",
    "type",
    "at",
    "from",
    "roles",
    "tags",
    "together",
    "backend",
    "context",
    "expect",
    "note",
)
_CONTEXT_KEYS = ("action", "cluster", "cluster_type", "client_type", "attributes")
_EXPECT_KEYS = ("effect", "mask", "shows", "filter", "policy", "visible", "explanation", "limits")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question with what is expected; None: not asked."""

    path: Path
    principal: Principal
    resource: Resource
    wants: str
    context: AccessContext
    column_type: str
    effect: str | None
    mask: str | None
    shows: str | None
    filter: str | None
    policy: str | None
    visible: bool | None
    explanation: tuple[str, ...]
    """Texts that must occur in the explanation."""
    limits: Mapping[str, int | None]
    """Measure → what the strictest limit allows; None: nothing bounds it."""
    backend: str
    only_limits: bool


def read_case(
    entry: object, path: Path, definition: ServiceDef, people: Mapping[str, Principal], shapes: Shapes
) -> Case | None:
    """Return a case, or None when it has faults, which `shapes` has noted."""
    faults = shapes.faults
    before = faults.fault_count
    data = shapes.read_mapping(entry, path)
    list_unknown_keys(data, _CASE_KEYS, path, faults, "a case")
    principal = _principal(data.get("as"), (*path, "as"), people, shapes)
    expected = data.get("expect")
    if isinstance(expected, str):
        expected = {"effect": expected}
    expect = shapes.read_mapping(expected, (*path, "expect"))
    at: Path = (*path, "expect")
    list_unknown_keys(expect, _EXPECT_KEYS, at, faults, "`expect`")
    effect = shapes.text(expect, "effect", at) or None
    if effect not in (None, "allow", "deny"):
        faults.add((*at, "effect"), "`effect` must be `allow` or `deny`")
    mask = shapes.text(expect, "mask", at) or None
    masks = {NONE, *MASK_TYPES, *(found.name for found in definition.mask_types)}
    if mask is not None and mask not in masks:
        faults.add((*at, "mask"), f"unknown mask type `{mask}`{hint(mask, masks)}")
    wants = shapes.text(data, "wants", path) or "select"
    accesses = {access.name.lower() for access in definition.access_types} | {ANY_ACCESS, ADMIN_ACCESS}
    if wants.lower() not in accesses:
        faults.add((*path, "wants"), f"unknown access type `{wants}`{hint(wants, accesses)}")
    visible = shapes.flag(expect, "visible", at, default=True) if "visible" in expect else None
    owner = shapes.text(data, "owner", path) or None
    only_limits = set(expect) == {"limits"}
    resource = (
        Resource((), owner)
        if only_limits and "on" not in data
        else _resource(data.get("on"), (*path, "on"), definition, shapes, owner)
    )
    case = Case(
        path=path,
        principal=principal,
        resource=resource,
        wants=wants.lower(),
        context=_context(data, path, shapes),
        column_type=shapes.text(data, "type", path) or "string",
        effect=effect,
        mask=mask,
        shows=shapes.text(expect, "shows", at) or None,
        filter=shapes.text(expect, "filter", at) or None,
        policy=shapes.text(expect, "policy", at) or None,
        visible=visible,
        explanation=shapes.texts(expect, "explanation", at),
        limits=read_expected_limits(expect, at, shapes),
        backend=shapes.text(data, "backend", path),
        only_limits=only_limits,
    )
    if faults.fault_count == before and not expect:
        faults.add(at, "a case needs an expectation")
    if (case.mask or case.shows) and resource.kind != "column":
        faults.add(at, "a mask needs a column")
    return case if faults.fault_count == before else None


def _principal(who: object, path: Path, people: Mapping[str, Principal], shapes: Shapes) -> Principal:
    if isinstance(who, str):
        if who not in people:
            near = hint(who, people)
            known = f"unknown user `{who}`; write `{{user: {who}, groups: […]}}`{near}"
            shapes.faults.add(path, known)
        return people.get(who, Principal(user=who))
    found = shapes.read_mapping(who, path)
    list_unknown_keys(found, ("user", "groups", "roles", "attributes"), path, shapes.faults, "`as`")
    return shapes.principal(found, path)


def _context(data: Mapping[str, Any], path: Path, shapes: Shapes) -> AccessContext:
    where: Path = (*path, "context")
    more = shapes.read_mapping(data.get("context", {}), where)
    list_unknown_keys(more, _CONTEXT_KEYS, where, shapes.faults, "`context`")
    time = read_moment(str(data["at"])) if "at" in data else None
    if "at" in data and time is None:
        shapes.faults.add((*path, "at"), "`at` must be a time such as `2026-01-31 09:30`, which is UTC")
    tags: tuple[Tag, ...] | None = tuple(read_tags(data, path, shapes)) if "tags" in data else None
    together = (
        frozenset(name.lower() for name in shapes.texts(data, "together", path))
        if "together" in data
        else None
    )
    return AccessContext(
        time=time,
        client_ip=shapes.text(data, "from", path) or None,
        action=shapes.text(more, "action", where),
        cluster=shapes.text(more, "cluster", where),
        cluster_type=shapes.text(more, "cluster_type", where),
        client_type=shapes.text(more, "client_type", where),
        attributes=shapes.read_attributes(more, where),
        accessed_together=together,
        tags=tags,
        roles=frozenset(shapes.texts(data, "roles", path)) if "roles" in data else None,
    )


def _resource(
    value: object, path: Path, definition: ServiceDef, shapes: Shapes, owner: str | None
) -> Resource:
    data = shapes.read_mapping(value, path)
    names = {level.name for level in definition.levels(PolicyType.ACCESS)}
    for name, text in data.items():
        if name not in names:
            shapes.faults.add((*path, name), f"unknown level `{name}`{hint(name, names)}")
        elif not isinstance(text, str):
            shapes.faults.add((*path, name), f"`{name}` must be a text")
    for name in data:
        way = hierarchy_to(name, definition.resources)
        if way is not None and {level.name for level in way} == set(data):
            return Resource(tuple((level.name, str(data[level.name])) for level in way), owner)
    if data:
        shapes.faults.add(path, "the levels do not form a path from the root to one resource")
    return Resource((), owner)


def failures(
    case: Case, engine: Engine, service: str | None = None, limits: LimitIndex | None = None
) -> Iterator[str]:
    """Yield what is not as the case expects it; `service` is asked of what lies in no catalog."""
    if limits is not None:
        yield from list_limit_failures(case.limits, case.principal, case.resource, case.backend, limits)
    if case.only_limits:
        return
    asked = f"{case.principal.user} {case.wants} {case.resource}"
    if case.resource.level("catalog") is not None:
        service = None
    request = AccessRequest(
        principal=case.principal,
        resource=case.resource,
        access=case.wants,
        context=case.context,
        service=service,
    )
    decision = engine.decide(request)
    settled_by = [decision.policy.name]
    effect = "allow" if decision.allowed else "deny"
    if case.effect is not None and effect != case.effect:
        by = f" by policy `{decision.policy.name}`" if decision.policy.id >= 0 else ""
        yield f"case fails: {asked}: expected {case.effect}, got {effect}{by} ({decision.reason})"
    if case.mask is not None or case.shows is not None:
        mask = engine.mask(case.principal, case.resource, case.column_type, case.context, service=service)
        got = mask.mask_type if mask else NONE
        if mask:
            settled_by.append(mask.policy.name)
        if case.mask is not None and got != ("none" if case.mask == "MASK_NONE" else case.mask):
            yield f"case fails: {asked}: expected mask {case.mask}, got {got}"
        shown = mask.expression if mask else NONE
        if case.shows is not None and shown != case.shows:
            yield f"case fails: {asked}: expected to show {case.shows}, got {shown}"
    if case.filter is not None:
        row_filter = engine.row_filter(
            case.principal, _table_of(case.resource), case.context, service=service
        )
        rows = row_filter.expression if row_filter else NONE
        if row_filter:
            settled_by.append(row_filter.policy.name)
        if rows != case.filter:
            yield f"case fails: {asked}: expected filter {case.filter}, got {rows}"
    if case.policy is not None and case.policy not in settled_by:
        names = ", ".join(f"`{name}`" for name in settled_by if name) or "none"
        yield f"case fails: {asked}: expected policy `{case.policy}`, settled by {names}"
    if case.visible is not None and (
        engine.visible(case.principal, case.resource, case.context) != case.visible
    ):
        yield f"case fails: {asked}: expected visible {str(case.visible).lower()}"
    if case.explanation:
        told = explanation_text(engine.explain(request))
        for text in case.explanation:
            if text.lower() not in told.lower():
                yield f"case fails: {asked}: the explanation does not contain `{text}`: {told}"


def list_settling(case: Case, engine: Engine, service: str | None = None) -> list[str]:
    """Return the names of the policies that settle what a case asks: access, mask and filter."""
    if case.only_limits:
        return []
    if case.resource.level("catalog") is not None:
        service = None
    request = AccessRequest(
        principal=case.principal,
        resource=case.resource,
        access=case.wants,
        context=case.context,
        service=service,
    )
    found = [engine.decide(request).policy.name]
    if case.mask is not None or case.shows is not None:
        mask = engine.mask(case.principal, case.resource, case.column_type, case.context, service=service)
        found.append(mask.policy.name if mask is not None else "")
    if case.filter is not None:
        rows = engine.row_filter(case.principal, _table_of(case.resource), case.context, service=service)
        found.append(rows.policy.name if rows is not None else "")
    return [name for name in dict.fromkeys(found) if name]


def _table_of(resource: Resource) -> Resource:
    """Return the table that a column belongs to; what is no column is returned as it is."""
    elements = resource.elements[:-1] if resource.kind == "column" else resource.elements
    return Resource(elements, resource.owner)


def explanation_text(explanation: Explanation) -> str:
    """Return an explanation on one line: the reason, the item, and why each policy settled it or did not."""
    decision = explanation.decision
    parts = [decision.reason, decision.item]
    parts += [f"{found.policy.name}: {found.why}" for found in explanation.considered]
    return "; ".join(part for part in parts if part)
