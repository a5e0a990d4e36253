"""Names of what carries a tag, for searches in records that know resources and no tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from gateway.model.policy import PolicySet, ResourceSet, ResourceValues

MAX_NAMES = 2_000
_LEVELS = ("database", "table", "column")


def list_tagged_names(policies: PolicySet, tag: str) -> tuple[list[str], bool]:
    """Return the dotted names of databases, tables and columns that a tag is on now, as the audit record
    spells them, and whether that is all: what is tagged by a pattern has no name."""
    wanted, whole = tag.strip().lower(), True
    found: dict[str, None] = {}
    catalogs: dict[str, list[str]] = {}
    for catalog, name in policies.catalog_services.items():
        catalogs.setdefault(name, []).append(catalog)
    for service in policies.services.values():
        for tagged in service.tagged:
            if not any(one.type.lower() == wanted for one in tagged.tags):
                continue
            names = _spell(tagged.resources, catalogs.get(service.name, ()))
            if names is None:
                whole = False
                continue
            found.update(dict.fromkeys(names))
    return list(found)[:MAX_NAMES], whole and len(found) <= MAX_NAMES


def _spell(resources: ResourceSet, catalogs: Sequence[str]) -> list[str] | None:
    """Return the names that a resource set means; None when it means more than names."""
    levels: Mapping[str, ResourceValues] = {
        "catalog": ResourceValues(values=tuple(catalogs)),
        **resources,
    }
    if not {"catalog", *_LEVELS} >= set(levels):
        return []
    parts = []
    for level in ("catalog", *_LEVELS):
        values = levels.get(level)
        if values is None:
            break
        if values.excludes or any("*" in value or "?" in value for value in values.values):
            return None
        parts.append(values.values)
    names = [".".join(one) for one in product(*parts)]
    return [spelled for name in names for spelled in dict.fromkeys((name, name.lower()))]
