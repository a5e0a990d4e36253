"""Security zones: which of them a resource lies in, and so whose policies are asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gateway.model.policy import ResourceDef, ResourceSet, Zone
from gateway.model.resource import ElementScope
from gateway.policy.hierarchy import MatchType, ResourceEntry, hierarchies_of
from gateway.policy.index import Index
from gateway.policy.matching import Asker
from gateway.policy.policy_index import entries_for

UNZONED = ""


class Zones:
    """The zones of one service."""

    def __init__(self, zones: Sequence[Zone], levels: Sequence[ResourceDef]) -> None:
        self.zones = tuple(zones)
        self.names = tuple(zone.name for zone in zones)
        self.governing_tags = frozenset(zone.name for zone in zones if zone.governs_tags)
        self._order = {name: i for i, name in enumerate(self.names)}
        recursive = {level.name for level in levels if level.recursive_supported}
        hierarchies = hierarchies_of(levels)
        self._index = Index(
            entry
            for zone in zones
            for entry in entries_for(zone.name, [_plain(r, recursive) for r in zone.resources], hierarchies)
        )

    def of(
        self, levels: tuple[str, ...], values: Sequence[str], asker: Asker, *, varied: bool = False
    ) -> tuple[str, ...]:
        """Return the zones of a resource, in their order; with UNZONED when some lie only below it.

        A resource is `varied` where a value stands for several.
        """
        if not self.names:
            return ()
        found: dict[str, None] = {}
        below = False
        scopes: Sequence[ElementScope] = ()
        if varied:
            scopes = (ElementScope.SELF,) * len(levels)
            entries = self._index.find_along_path(levels)
        else:
            entries = [
                *self._index.find_at(levels, values, None),
                *self._index.find_below(levels, values, None),
                *self._index.find_above(levels, values),  # RULE (zone-reaches-below)
            ]
        for entry in entries:
            if entry.context_dependencies:
                asker.note(entry.context_dependencies)
            match = entry.match(values, asker, scopes)
            if match is not MatchType.NONE:
                found[entry.of] = None
                below = below or match is MatchType.DESCENDANT  # RULE (above-zone)
        zones = sorted(found, key=self._order.__getitem__)
        return (*zones, UNZONED) if below else tuple(zones)

    def entries_with_prefix(self, levels: tuple[str, ...], values: Sequence[str]) -> list[ResourceEntry]:
        """Return the entries, each of a zone's name, in whose zone something may lie, wholly or in part, the
        deepest name of which begins as here."""
        return self._index.entries_with_prefix(levels, values)

    def tag_zone(self, zone: str) -> str:
        """Return the zone whose tag policies hold for resources of a zone."""
        # RULE (zone-tag-policies, zone-without-tag-service)
        return zone if zone in self.governing_tags else UNZONED


def _plain(resources: ResourceSet, recursive: set[str]) -> ResourceSet:
    """A zone's resources exclude nothing, and reach as deep as the definition can."""
    plain: Mapping[str, object] = resources
    return {name: replace(resources[name], excludes=False, recursive=name in recursive) for name in plain}
