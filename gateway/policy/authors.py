"""Who wrote the texts of a policy, where they count for no more than their authors may select.

Ranger's JSON has it among the policy's options, a digest of each text with its author. The REST API writes
it, and nobody else can; what an administrator wrote is not there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

OPTION = "sluice.authors"
"""The key among a policy's options."""
NOBODY = "\ufffd"
"""Stands for an author that cannot be read: no user is called so, so what he wrote closes."""


def digest(text: str) -> str:
    return hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest()


def authors_in(policy: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the authors of a policy's texts by the digests of these."""
    options = policy.get("options")
    told = options.get(OPTION) if isinstance(options, Mapping) else None
    if told is None:
        return {}
    if not isinstance(told, Mapping):
        return _Unread()
    return {key: value if isinstance(value, str) and value else NOBODY for key, value in told.items()}


def with_authors(policy: Mapping[str, Any], authors: Mapping[str, str]) -> dict[str, Any]:
    """Return a policy with these authors and no others, whatever its body says."""
    options = {key: value for key, value in (policy.get("options") or {}).items() if key != OPTION}
    if authors:
        options[OPTION] = dict(authors)
    return {**policy, "options": options} if options or policy.get("options") else dict(policy)


class _Unread(dict[str, str]):
    """What is told of authors, and not understood: every text is nobody's."""

    def get(self, key: str, default: Any = None) -> Any:
        return NOBODY
