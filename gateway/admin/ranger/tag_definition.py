"""The tag definition knows accesses and masks of every other one: `hive:select`, `hive:MASK_NULL`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gateway.admin.ranger.kinds import Body

_APART = 1000
"""Numbers of one definition's entries stay below this, so that every entry here has a number of its own."""


def with_components(tag: Mapping[str, Any], definitions: Iterable[Mapping[str, Any]]) -> Body:
    """Return the tag definition with what the others have, and nothing of those that are gone."""
    others = [one for one in definitions if one["name"] != tag["name"]]
    levels = [{"name": level["name"], "matcherOptions": {}} for level in tag.get("resources") or ()]
    masks = [
        entry for one in others for entry in _prefix_names(one, (one.get("dataMaskDef") or {}), "maskTypes")
    ]
    found = {
        **tag,
        "accessTypes": [entry for one in others for entry in _prefix_names(one, one, "accessTypes")],
        "dataMaskDef": {"maskTypes": masks, **_part(others, "dataMaskDef", levels)},
        "rowFilterDef": _part(others, "rowFilterDef", levels),
    }
    for part in ("dataMaskDef", "rowFilterDef"):
        if not found[part]["accessTypes"]:
            del found[part]
    return found


def _part(others: Iterable[Mapping[str, Any]], name: str, levels: list[Body]) -> Body:
    accesses = [entry for one in others for entry in _prefix_names(one, (one.get(name) or {}), "accessTypes")]
    return {"accessTypes": accesses, "resources": levels}


def _prefix_names(
    definition: Mapping[str, Any], part: Mapping[str, Any], entries: str
) -> Iterator[Mapping[str, Any]]:
    prefix, first = definition["name"], (definition.get("id") or 0) * _APART
    for number, entry in enumerate(part.get(entries) or (), start=1):
        made = {
            **entry,
            "itemId": first + (entry.get("itemId") or number),
            "name": f"{prefix}:{entry['name']}",
        }
        if entry.get("impliedGrants"):
            made["impliedGrants"] = [f"{prefix}:{grant}" for grant in entry["impliedGrants"]]
        yield made
