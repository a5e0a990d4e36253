"""How packs write what is recommended: items, resources, and cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.jobs.recommending.attribution import ALLOW, FILTER, MASK, SELECT
from gateway.model.decision import Decision
from gateway.model.policy import FilterItem, MaskItem, PolicyItem, ResourceSet
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.engine import Engine


def item_of(part: str, item: PolicyItem) -> dict[str, Any]:
    """Return an item of a list as packs write it."""
    said: dict[str, Any] = {}
    if part == ALLOW:
        said = {"access": sorted(access.lower() for access in item.accesses)}
    elif isinstance(item, MaskItem):
        said = {"type": item.mask_type}
    elif isinstance(item, FilterItem):
        said = {"where": item.filter_expression}
    who = {"users": sorted(item.users), "groups": sorted(item.groups), "roles": sorted(item.roles)}
    return {**drop_empty(who), **said}


def drop_empty(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is not empty."""
    return {key: value for key, value in found.items() if value}


def one_or_all(found: list[Any]) -> Any:
    """Return the only one of a list as itself."""
    return found[0] if len(found) == 1 else found


def format_principals(item: PolicyItem) -> str:
    """Return whom an item names, for people."""
    told = [
        *sorted(item.users),
        *(f"group {name}" for name in sorted(item.groups)),
        *(f"role {name}" for name in sorted(item.roles)),
    ]
    return ", ".join(told) or "nobody"


def write_resources(found: ResourceSet) -> dict[str, Any]:
    """Return a resource set as packs write it."""
    written: dict[str, Any] = {}
    for level, values in found.items():
        one = one_or_all(list(values.values))
        if values.excludes:
            written[level] = {
                "except": list(values.values),
                **({"recursive": True} if values.recursive else {}),
            }
        elif values.recursive:
            written[level] = {"values": list(values.values), "recursive": True}
        else:
            written[level] = one
    return written


def decide_column(engine: Engine, who: Principal, column: Resource) -> Decision:
    """Return whether somebody may read a column, and by which policy."""
    return engine.decide(AccessRequest(principal=who, resource=column, access=SELECT))


def case_of(engine: Engine, who: Principal, column: Resource, part: str) -> dict[str, Any]:
    """Return a case that holds with the engine's policies."""
    asker = drop_empty({"user": who.user, "groups": sorted(who.groups), "roles": sorted(who.roles)})
    tags = engine.tags(column)
    if part == MASK:
        mask = engine.mask(who, column, "string")
        expect = {"mask": mask.mask_type if mask is not None else "none"}
    elif part == FILTER:
        rows = engine.row_filter(who, Resource(column.elements[:-1]))
        expect = {"filter": rows.expression if rows is not None else "none"}
    else:
        expect = {"effect": "allow" if decide_column(engine, who, column).allowed else "deny"}
    case = as_case(asker, column, expect)
    # Packs do not know what was accepted.
    return {**case, "tags": sorted({tag.type for tag in tags})} if any(t.propagated for t in tags) else case


def as_case(who: Mapping[str, Any], column: Resource, expect: Mapping[str, Any]) -> dict[str, Any]:
    """Return what somebody gets of a column as a case."""
    return {"as": dict(who), "on": dict(column.elements), "expect": dict(expect)}
