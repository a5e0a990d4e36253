"""Dates as attributes of tags write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_DAY = re.compile(r"(?P<year>[0-9]{4})/(?P<month>[0-9]{1,2})/(?P<day>[0-9]{1,2})(?![0-9])")
_MOMENT = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"T(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})\.[0-9]{1,9}Z"
)


def attribute_instant(text: str | None) -> float | None:
    """Return a date in seconds since 1970, None for what is not one.

    Ranger's two formats: `yyyy-MM-dd'T'HH:mm:ss.SSS'Z'` and `yyyy/MM/dd`, both in UTC; what follows the date
    is ignored, as Ranger does.
    """
    if text is None:
        return None
    found = _MOMENT.match(text) or _DAY.match(text)
    if found is None:
        return None
    parts = {name: int(value) for name, value in found.groupdict().items()}
    try:
        return datetime(**parts, tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None
