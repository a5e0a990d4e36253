"""Who wrote the texts of a policy, where they count for no more than their authors may select.

Ranger's JSON has it among the policy's options, a digest of each text with its author. The REST API writes
it, and nobody else can; what an administrator wrote is not there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from gateway.model.principal import identity_of

OPTION = "sluice.authors"
"""The key among a policy's options."""
WRITERS = "sluice.writers"
"""The key of the ids of those who are named as `createdBy` and `updatedBy`, where they have one."""
_WRITERS = ("createdBy", "updatedBy")
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
    return _with_option(policy, OPTION, authors)


def writers_of(policy: Mapping[str, Any]) -> tuple[str, ...]:
    """Return who created a policy and who changed it last, as `Principal.identity`."""
    options = policy.get("options")
    told = options.get(WRITERS) if isinstance(options, Mapping) else None
    ids = told if isinstance(told, Mapping) else {}
    return tuple(identity_of(str(policy.get(key) or ""), str(ids.get(key) or "")) for key in _WRITERS)


def with_writers(policy: Mapping[str, Any], created: str, updated: str) -> dict[str, Any]:
    """Return a policy with these ids of whoever created and changed it, whatever its body says."""
    ids = {key: id_ for key, id_ in zip(_WRITERS, (created, updated), strict=True) if id_}
    return _with_option(policy, WRITERS, ids)


def without_people(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy without what says whose it and its texts are."""
    options = {k: v for k, v in (policy.get("options") or {}).items() if k not in (OPTION, WRITERS)}
    rest = {key: value for key, value in policy.items() if key != "options"}
    return {**rest, "options": options} if options else rest


def _with_option(policy: Mapping[str, Any], name: str, value: Mapping[str, str]) -> dict[str, Any]:
    options = {key: kept for key, kept in (policy.get("options") or {}).items() if key != name}
    if value:
        options[name] = dict(value)
    return {**policy, "options": options} if options or policy.get("options") else dict(policy)


CHECK = "sluice.check"
"""The key among the options of a row-filter policy that has rows checked when they are written."""


def checks_writes(policy: Mapping[str, Any]) -> bool:
    """Whether a policy's filters are asked of rows that are written: whatever is not `false` says so."""
    options = policy.get("options")
    told = options.get(CHECK) if isinstance(options, Mapping) else None
    return told is not None and str(told).strip().lower() not in ("false", "")


class _Unread(dict[str, str]):
    """What is told of authors, and not understood: every text is nobody's."""

    def get(self, key: str, default: Any = None) -> Any:
        return NOBODY
