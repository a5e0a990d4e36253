"""Cases: questions that a pack asks of all policies together, and the answers that it expects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gateway.model.policy import PolicyType, ServiceDef
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.compiled import way_down
from gateway.policy.documents import Path, hint, unknown_keys
from gateway.policy.engine import Engine
from gateway.policy.masks import MASK_TYPES
from gateway.policy.pack_shapes import Shapes

NONE = "none"
"""What a case expects of `mask` or `filter` when there shall be none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question with what is expected; None: not asked."""

    path: Path
    principal: Principal
    resource: Resource
    wants: str
    column_type: str
    effect: str | None
    mask: str | None
    shows: str | None
    filter: str | None
    policy: str | None
    visible: bool | None


def read_case(
    entry: object, path: Path, definition: ServiceDef, people: Mapping[str, Principal], shapes: Shapes
) -> Case | None:
    """Return a case, or None when it has faults, which `shapes` has noted."""
    faults = shapes.faults
    before = len(faults.faults)
    data = shapes.mapping(entry, path)
    unknown_keys(data, ("as", "wants", "on", "owner", "type", "expect", "note"), path, faults, "a case")
    who = data.get("as")
    where: Path = (*path, "as")
    if isinstance(who, str):
        principal = people.get(who, Principal(user=who))
        if who not in people:
            near = hint(who, people)
            faults.add(where, f"`{who}` is not known; write `{{user: {who}, groups: […]}}`{near}")
    else:
        found = shapes.mapping(who, where)
        unknown_keys(found, ("user", "groups", "roles", "attributes"), where, faults, "`as`")
        principal = shapes.principal(found, where)
    expected = data.get("expect")
    if isinstance(expected, str):
        expected = {"effect": expected}
    expect = shapes.mapping(expected, (*path, "expect"))
    at: Path = (*path, "expect")
    unknown_keys(expect, ("effect", "mask", "shows", "filter", "policy", "visible"), at, faults, "`expect`")
    effect = shapes.text(expect, "effect", at) or None
    if effect not in (None, "allow", "deny"):
        faults.add((*at, "effect"), "`effect` must be `allow` or `deny`")
    mask = shapes.text(expect, "mask", at) or None
    if mask not in (None, NONE, *MASK_TYPES):
        faults.add((*at, "mask"), f"unknown mask type `{mask}`{hint(str(mask), MASK_TYPES)}")
    wants = shapes.text(data, "wants", path) or "select"
    accesses = {access.name for access in definition.access_types} | {"_any"}
    if wants.lower() not in accesses:
        faults.add((*path, "wants"), f"unknown access type `{wants}`{hint(wants, accesses)}")
    visible = shapes.flag(expect, "visible", at, default=True) if "visible" in expect else None
    owner = shapes.text(data, "owner", path) or None
    resource = _resource(data.get("on"), (*path, "on"), definition, shapes, owner)
    case = Case(
        path=path,
        principal=principal,
        resource=resource,
        wants=wants,
        column_type=shapes.text(data, "type", path) or "string",
        effect=effect,
        mask=mask,
        shows=shapes.text(expect, "shows", at) or None,
        filter=shapes.text(expect, "filter", at) or None,
        policy=shapes.text(expect, "policy", at) or None,
        visible=visible,
    )
    if len(faults.faults) == before and not expect:
        faults.add(at, "a case must expect something")
    if (case.mask or case.shows) and resource.kind != "column":
        faults.add(at, "a mask is asked of a column")
    return case if len(faults.faults) == before else None


def _resource(
    value: object, path: Path, definition: ServiceDef, shapes: Shapes, owner: str | None
) -> Resource:
    data = shapes.mapping(value, path)
    names = {level.name for level in definition.levels(PolicyType.ACCESS)}
    for name, text in data.items():
        if name not in names:
            shapes.faults.add((*path, name), f"there is no level `{name}`{hint(name, names)}")
        elif not isinstance(text, str):
            shapes.faults.add((*path, name), f"`{name}` must be a text")
    for name in data:
        way = way_down(name, definition.resources)
        if way is not None and {level.name for level in way} == set(data):
            return Resource(tuple((level.name, str(data[level.name])) for level in way), owner)
    if data:
        shapes.faults.add(path, "the levels do not lead from the root to one resource")
    return Resource((), owner)


def failures(case: Case, engine: Engine) -> Iterator[str]:
    """Yield what is not as the case expects it."""
    asked = f"{case.principal.user} {case.wants} {case.resource}"
    decision = engine.decide(
        AccessRequest(principal=case.principal, resource=case.resource, access=case.wants)
    )
    settled_by = [decision.policy.name]
    effect = "allow" if decision.allowed else "deny"
    if case.effect is not None and effect != case.effect:
        by = f" by policy `{decision.policy.name}`" if decision.policy.id >= 0 else ""
        yield f"case fails: {asked}: expected {case.effect}, got {effect}{by} ({decision.reason})"
    if case.mask is not None or case.shows is not None:
        mask = engine.mask(case.principal, case.resource, case.column_type)
        got = mask.mask_type if mask else NONE
        if mask:
            settled_by.append(mask.policy.name)
        if case.mask is not None and got != ("none" if case.mask == "MASK_NONE" else case.mask):
            yield f"case fails: {asked}: expected mask {case.mask}, got {got}"
        shown = mask.expression if mask else NONE
        if case.shows is not None and shown != case.shows:
            yield f"case fails: {asked}: expected to show {case.shows}, got {shown}"
    if case.filter is not None:
        table = Resource(case.resource.elements[:3], case.resource.owner)
        row_filter = engine.row_filter(case.principal, table)
        rows = row_filter.expression if row_filter else NONE
        if row_filter:
            settled_by.append(row_filter.policy.name)
        if rows != case.filter:
            yield f"case fails: {asked}: expected filter {case.filter}, got {rows}"
    if case.policy is not None and case.policy not in settled_by:
        names = ", ".join(f"`{name}`" for name in settled_by if name) or "none"
        yield f"case fails: {asked}: expected policy `{case.policy}`, settled by {names}"
    if case.visible is not None and engine.visible(case.principal, case.resource) != case.visible:
        yield f"case fails: {asked}: expected visible {str(case.visible).lower()}"
