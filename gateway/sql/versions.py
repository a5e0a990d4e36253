"""Which version of a table a statement reads, as a clause that the gateway writes itself."""

from __future__ import annotations

import re

from gateway.model.catalog import SOME_VERSION
from gateway.model.meaning_settings import TIME_ZONE
from gateway.sql.names import Names

_AS_OF = re.compile(
    r"\s*(?:FOR\s+)?(?:SYSTEM_)?(VERSION|TIME|TIMESTAMP)\s+AS\s+OF\s+(.*?)\s*", re.IGNORECASE | re.DOTALL
)
_OPTIONS = re.compile(r"\s*WITH\b", re.IGNORECASE)
"""How a suffix begins that chooses no version."""
_NUMBER = re.compile(r"[0-9]{1,19}")
_TEXT = re.compile(r"'([\w.: +/-]{1,256})'", re.ASCII)
_MILLIS = re.compile(r"timestamp_millis\((-?[0-9]{1,19})\)", re.IGNORECASE)
_ZONED = re.compile(r".*[0-9](?:Z|[+-][0-9]{1,2}(?::?[0-9]{2})?)", re.ASCII)


def version_of(suffix: str, names: Names) -> str:
    """Return the clause for the version that a relation's suffix chooses, written anew: only numbers and
    plain literals are in it, so that it means the same in a session of the gateway's own. Any other is
    SOME_VERSION, read by the columns that its table has now; empty for a suffix that chooses none.
    """
    if _OPTIONS.match(suffix):
        return ""
    found = _AS_OF.fullmatch(suffix)
    if found is None:
        return SOME_VERSION
    kind, value = found[1].upper(), found[2]
    text = _TEXT.fullmatch(value)
    if kind == "VERSION":
        return f"VERSION AS OF {value}" if text or _NUMBER.fullmatch(value) else SOME_VERSION
    if millis := _MILLIS.fullmatch(value):
        return f"TIMESTAMP AS OF timestamp_millis({millis[1]})"
    if text is None or (TIME_ZONE in names.context.settings and not _ZONED.fullmatch(text[1])):
        return SOME_VERSION
    return f"TIMESTAMP AS OF {value}"
