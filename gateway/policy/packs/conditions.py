"""Conditions of packs: `conditions:` and the short `when:`, checked against what the service defines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gateway.model.policy import Condition, ConditionDef, ResourceDef, ServiceDef
from gateway.policy.conditions import compile_condition
from gateway.policy.diagnostics import Path, hint, list_unknown_keys
from gateway.policy.packs.shapes import Shapes
from gateway.policy.script import Untranslatable
from gateway.policy.service_defs import IMPLICIT, SCRIPT

_ADDRESSES = "RangerIpMatcher"
_ADDRESS = re.compile(r"(?:[0-9A-Fa-f]{0,4}[.:])*(?:[0-9A-Fa-f]{1,4}|\*)")
_TAG_CONDITIONS = (
    ConditionDef(
        name="accessed-after-expiry",
        evaluator="RangerScriptTemplateConditionEvaluator",
        options={"scriptTemplate": "ctx.isAccessedAfter('expiry_date');"},
    ),
)
_NEVER_DETERMINED = compile_condition(Condition(type=""), None)
"""What a condition of an unknown kind becomes, and one whose values make no sense."""
_TAG_LEVEL = ResourceDef(
    name="tag", wildcard=False, ignore_case=False, excludes_supported=False, recursive_supported=False
)


def with_script_condition(definition: ServiceDef) -> ServiceDef:
    """Return the definition with a condition that scripts can use; as it is when it has one."""
    if any(condition.evaluator == SCRIPT for condition in definition.conditions):
        return definition
    return replace(definition, conditions=(*definition.conditions, IMPLICIT))


def tag_definition(definition: ServiceDef) -> ServiceDef:
    """Return what policies on tags speak of: the level `tag`, with the service's access and mask types."""
    level = (_TAG_LEVEL,)
    own = {condition.name for condition in definition.conditions}
    return replace(
        definition,
        name="tag",
        resources=level,
        mask_resources=level,
        filter_resources=level,
        conditions=(*definition.conditions, *(c for c in _TAG_CONDITIONS if c.name not in own)),
        id=0,
    )


def read_conditions(
    data: Mapping[str, Any], path: Path, definition: ServiceDef, shapes: Shapes
) -> tuple[Condition, ...]:
    """Return the conditions under `conditions` and `when`; all of them must hold."""
    found: list[Condition] = []
    if "conditions" in data:
        where: Path = (*path, "conditions")
        value = data["conditions"]
        if isinstance(value, dict) and not value.keys() & {"type", "values"}:
            for name, values in value.items():
                found += _condition(name, values, (*where, name), definition, shapes)
        elif isinstance(value, list):
            for i, entry in enumerate(value):
                found += _entry(entry, (*where, i), definition, shapes)
        else:
            found += _entry(value, where, definition, shapes)
        if value in ([], {}):
            shapes.faults.add(where, "`conditions` must not be empty")
    if "when" in data:
        script = next((c.name for c in definition.conditions if c.evaluator == SCRIPT), IMPLICIT.name)
        for text in shapes.texts(data, "when", path):
            found += _condition(script, text, (*path, "when"), definition, shapes)
    return tuple(found)


def _entry(entry: object, path: Path, definition: ServiceDef, shapes: Shapes) -> list[Condition]:
    """Read `{type: …, values: …}`, `{the-type: values}`, or the type's name alone when it takes no values."""
    if isinstance(entry, str):
        return _condition(entry, [], path, definition, shapes)
    data = shapes.read_mapping(entry, path)
    if data and not data.keys() & {"type", "values"}:
        return [
            found
            for name, values in data.items()
            for found in _condition(name, values, (*path, name), definition, shapes)
        ]
    list_unknown_keys(data, ("type", "values"), path, shapes.faults, "a condition")
    name = shapes.text(data, "type", path, required=True)
    return _condition(name, data.get("values", []), path, definition, shapes) if name else []


def _condition(
    name: str, values: object, path: Path, definition: ServiceDef, shapes: Shapes
) -> list[Condition]:
    known = {condition.name: condition for condition in definition.conditions}
    if name not in known:
        there = f"; the types are {', '.join(f'`{each}`' for each in sorted(known))}" if known else ""
        near = hint(name, known)
        shapes.faults.add(path, f"unknown condition type `{name}`{near or there}")
        return []
    texts = () if values == [] else shapes.read_list(values, path, f"`{name}`")
    condition = Condition(type=name, values=texts)
    try:
        test = compile_condition(condition, known[name])
    except Untranslatable as error:
        shapes.faults.add(path, str(error))
        return []
    if known[name].evaluator == _ADDRESSES:
        for text in texts:
            if not _ADDRESS.fullmatch(text):
                what = "write `10.1.2.3`, or `10.1.*` for all addresses with this prefix"
                shapes.faults.add(path, f"`{text}` is not an address; {what}")
    if test is _NEVER_DETERMINED:
        given = ", ".join(f"`{text}`" for text in texts) or "no values"
        shapes.faults.add(path, f"`{name}` is always indeterminate with {given}")
    return [condition]
