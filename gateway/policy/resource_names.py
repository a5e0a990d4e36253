"""Resources as people write them on one line: `spark_catalog.hr.employee.salary`, `url:s3://bucket/in`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gateway.model.catalog import split_name
from gateway.model.policy import ResourceDef, ServiceDef
from gateway.model.resource import Resource
from gateway.policy.diagnostics import hint
from gateway.policy.hierarchy import hierarchy_to

_KIND = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):(?!//)(.+)", re.DOTALL)
_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


class NotAResource(Exception):
    """The text names nothing that the service knows; the message says why."""


def resource_of(text: str, definition: ServiceDef) -> Resource:
    """Return the resource: dotted names along the way to columns, or with its level in front (`udf:c.d.f`).

    A part with dots stands in backticks. Raises NotAResource.
    """
    text = text.strip()
    levels = definition.resources
    found = _KIND.fullmatch(text)
    if found is not None and definition.resource(found[1]) is not None:
        return _along(hierarchy_to(found[1], levels) or (), found[2], whole=True)
    if found is not None and "." not in found[1]:
        near = hint(found[1], (level.name for level in levels))
        raise NotAResource(f"there is no level `{found[1]}`{near}")
    if "://" in text:
        path = next((level for level in levels if level.needs_scheme and level.parent is None), None)
        if path is None:
            raise NotAResource(f"service `{definition.name}` has no paths such as `{text}`")
        return Resource(((path.name, text),))
    return _along(main_way(definition), text, whole=False)


def main_way(definition: ServiceDef) -> Sequence[ResourceDef]:
    """Return the way to columns, or else the longest way."""
    hierarchies = [hierarchy_to(level.name, definition.resources) or () for level in definition.resources]
    columns = [way for way in hierarchies if way and way[-1].name == "column"]
    return max(columns or hierarchies, key=len, default=())


def _along(way: Sequence[ResourceDef], text: str, *, whole: bool) -> Resource:
    if len(way) == 1:
        return Resource(((way[0].name, text),))
    parts = split_name(text, _PART)
    names = ".".join(level.name for level in way)
    if not parts:
        raise NotAResource(f"`{text}` is no name; write `{names}`, a part with dots in backticks")
    if len(parts) > len(way) or (whole and len(parts) != len(way)):
        raise NotAResource(f"`{text}` has {len(parts)} parts; it is written as `{names}`")
    return Resource(tuple((level.name, part) for level, part in zip(way, parts, strict=False)))
