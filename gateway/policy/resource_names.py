"""Resources as people write them on one line: `spark_catalog.hr.employee.salary`, `url:s3://bucket/in`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from gateway.model.catalog import split_name
from gateway.model.policy import PolicySet, ResourceDef, ServiceDef
from gateway.model.resource import Resource
from gateway.policy.diagnostics import hint
from gateway.policy.hierarchy import hierarchy_to
from gateway.policy.matching import fold

_KIND = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):(?!//)(.+)", re.DOTALL)
CATALOG = "catalog"
DEFAULT_SERVICE = "spark"
"""The service that is asked for what no catalog says another one for."""
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
        raise NotAResource(f"unknown level `{found[1]}`{near}")
    if "://" in text:
        path = next((level for level in levels if level.needs_scheme and level.parent is None), None)
        if path is None:
            raise NotAResource(f"service `{definition.name}` does not support paths such as `{text}`")
        return Resource(((path.name, text),))
    return _along(main_way(definition), text, whole=False)


def resource_of_service(text: str, definition: ServiceDef, catalogs: Collection[str]) -> Resource:
    """Return the resource of a service that speaks for `catalogs`, as the gateway asks for it: below its
    catalog where that is written, also where the definition has no catalogs, as Ranger's `hive` has none.

    A database that is called like such a catalog is written with its catalog. Raises NotAResource.
    """
    # RULE (definition-without-catalogs)
    if definition.resource(CATALOG) is None and (split := _split_catalog(text)) is not None:
        catalog, rest = split
        if fold(catalog) in {fold(name) for name in catalogs}:
            below = resource_of(rest, definition).elements if rest else ()
            return Resource(((CATALOG, catalog), *below))
    return resource_of(text, definition)


def service_of_catalog(catalog: str, policies: PolicySet) -> str:
    """Return the name of the service that speaks for a catalog; the default where nothing says another."""
    speaking = {fold(name): service for name, service in policies.catalog_services.items()}
    return speaking.get(fold(catalog), DEFAULT_SERVICE)  # RULE (catalog-service-names)


def service_of(text: str, policies: PolicySet) -> str:
    """Return the name of the service that the gateway asks for a resource: the one that speaks for the
    catalog that the text begins with, else the default, else the only one there is.

    Raises NotAResource when that is not one.
    """
    split = _split_catalog(text)
    name = service_of_catalog(split[0], policies) if split is not None else DEFAULT_SERVICE
    if name in policies.services:
        return name
    if name != DEFAULT_SERVICE:
        raise NotAResource(
            f"service `{name}` covers the catalog of `{text.strip()}`, but its policies are not here: a "
            "gateway denies access to all of it until they are"
        )
    if len(policies.services) != 1:
        known = ", ".join(f"`{each}`" for each in sorted(policies.services))
        raise NotAResource(f"set `--service` to one of {known}")
    return next(iter(policies.services))


def _split_catalog(text: str) -> tuple[str, str] | None:
    """Return the first name of a dotted one, and the text without it; the level in front stays there."""
    text = text.strip()
    found = _KIND.fullmatch(text)
    level, name = (f"{found[1]}:", found[2]) if found is not None else ("", text)
    first = None if "://" in name else _PART.match(name)
    if first is None:
        return None
    catalog = first[2] if first[1] is None else first[1].replace("``", "`")
    rest = name[first.end() :]
    if rest and not rest.startswith("."):
        return None
    return catalog, f"{level}{rest[1:]}" if rest else ""


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
        raise NotAResource(f"`{text}` is not a name; write `{names}`, with backticks around parts with dots")
    if len(parts) > len(way) or (whole and len(parts) != len(way)):
        raise NotAResource(f"`{text}` has {len(parts)} parts; write `{names}`")
    return Resource(tuple((level.name, part) for level, part in zip(way, parts, strict=False)))
