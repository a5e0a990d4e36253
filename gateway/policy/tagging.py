"""Tags: which of them a resource has at the time of an access."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gateway.model.policy import ResourceDef, TaggedResource
from gateway.model.resource import ElementScope
from gateway.model.tags import Tag
from gateway.policy.hierarchy import Hierarchies, MatchType, ResourceEntry, compile_entry, hierarchies_of
from gateway.policy.index import Index
from gateway.policy.list_deltas import list_delta
from gateway.policy.matching import Asker
from gateway.policy.schedules import compile_schedules

_NEAREST = (MatchType.SELF, MatchType.SELF_AND_ALL_DESCENDANTS, MatchType.ANCESTOR, MatchType.DESCENDANT)
NEARNESS = {match: i for i, match in enumerate(_NEAREST)}
"""In this order masks of tags are asked: those on the very resource first."""


@dataclass(frozen=True, slots=True, eq=False)
class TagHit:
    """A tag that the resource has, and how what was tagged relates to the resource."""

    tag: Tag
    match: MatchType = MatchType.SELF
    doubted: bool = False
    """Whether it could not be told if the resource has the tag now: for want of a time, or of a period or
    a script that makes sense."""


class Made:
    """Tags with their periods compiled."""

    __slots__ = ("tags", "temporal")

    def __init__(self, tags: Sequence[Tag]) -> None:
        self.tags = [(tag, compile_schedules(tag.validity) if tag.validity else None) for tag in tags]
        self.temporal = any(applies is not None for _, applies in self.tags)
        """Whether some tag holds for a time only."""

    def hits(self, match: MatchType, time: datetime | None, *, doubted: bool = False) -> list[TagHit]:
        """Return the tags that hold at a time, or may; all in doubt when that is `doubted` already."""
        found = [(tag, True if applies is None else applies(time)) for tag, applies in self.tags]
        # RULE (tag-periods)
        return [
            TagHit(tag, match, doubted=doubted or held is None) for tag, held in found if held is not False
        ]


class Taggings:
    """The tagged resources of one service. Immutable but for the making."""

    def __init__(self, tagged: Sequence[TaggedResource], levels: Sequence[ResourceDef]) -> None:
        self.tagged = tagged
        self._hierarchies: Hierarchies = hierarchies_of(levels)
        self._entries: dict[int, ResourceEntry] = {}
        """Id of the tagged resource → its entry. `tagged` keeps those objects, and so their ids."""
        self._index = Index(self._file(tagged))

    def rebuild(self, tagged: Sequence[TaggedResource]) -> Taggings:
        """Return the taggings of another list, sharing what has not changed."""
        if tagged is self.tagged:
            return self
        change = list_delta(self.tagged, tagged)
        taggings = Taggings((), ())
        taggings.tagged, taggings._hierarchies, taggings._entries = (
            tagged,
            self._hierarchies,
            dict(self._entries),
        )
        out = [taggings._entries.pop(id(item)) for item in change.gone if id(item) in self._entries]
        for twin, item in change.unchanged:
            if id(twin) in self._entries:
                taggings._entries[id(item)] = taggings._entries.pop(id(twin))
        taggings._index = self._index.with_changes(out, taggings._file(change.came))
        return taggings

    def _file(self, tagged: Sequence[TaggedResource]) -> list[ResourceEntry]:
        entries = []
        for item in tagged:
            entry = compile_entry(Made(item.tags), item.resources, self._hierarchies)
            if entry is not None:
                self._entries[id(item)] = entry
                entries.append(entry)
        return entries

    def find_tagged(
        self,
        levels: tuple[str, ...],
        values: Sequence[str],
        asker: Asker,
        *,
        below: bool = False,
        scopes: Sequence[ElementScope] = (),
    ) -> list[tuple[ResourceEntry, MatchType]]:
        """Return the tagged resources that concern a resource; with `below` those further down as well."""
        if scopes:
            candidates = self._index.find_along_path(levels)
        else:
            # RULE (tags-reach-down)
            candidates = [*self._index.find_at(levels, values, None), *self._index.find_above(levels, values)]
            if below:  # RULE (tags-below-any-access)
                candidates += self._index.find_below(levels, values, None)
        found: list[tuple[ResourceEntry, MatchType]] = []
        for entry in dict.fromkeys(candidates):
            if entry.context_dependencies:
                asker.note(entry.context_dependencies)
            match = entry.match(values, asker, scopes)
            if match is not MatchType.NONE and (below or match is not MatchType.DESCENDANT):
                found.append((entry, match))
        return found

    def entries_with_prefix(self, levels: tuple[str, ...], values: Sequence[str]) -> list[ResourceEntry]:
        """Return the tagged resources that may concern something whose deepest name begins as here."""
        return self._index.entries_with_prefix(levels, values)

    def may_tag_in(self, levels: tuple[str, ...], values: Sequence[str]) -> bool:
        """Say whether something in the resource, or the resource, may have a tag."""
        return bool(
            self._index.find_at(levels, values, None)
            or self._index.find_below(levels, values, None)
            or self._index.find_above(levels, values)
        )
