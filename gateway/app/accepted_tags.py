"""Accepted tags as a source of policies: where their file is, and what they are beside other sources."""

from __future__ import annotations

from pathlib import Path

from gateway.policy.parts import Part
from gateway.settings.models import Settings
from gateway.sources.accepted_tags import NAME, AcceptedList, AcceptedTags, from_file

TAGS_VERSION = "accepted_tags"
"""Where the number of the accepted tags stands among the versions of sources."""


def build_accepted_tags_path(settings: Settings) -> Path:
    """Return the file with the last list that the gateway of these settings has read."""
    return settings.ledger.directory / "accepted_tags.json"


def build_accepted_part(found: AcceptedList) -> Part:
    """Return accepted tags as one source among others."""
    return Part(
        name=NAME,
        services={},
        tagged=tuple(one.build_tagged() for one in found.tags),
        versions={TAGS_VERSION: str(found.number)},
    )


def load_cached_tags(settings: Settings) -> AcceptedTags:
    """Return the source for a command beside a gateway: what its file has, none without one."""
    return AcceptedTags(from_file(build_accepted_tags_path(settings)))
