"""Days as people write them, and whether those of a column are spread as births are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date

from gateway.jobs.classification.value_format import Whole

GROWN = 14
"""Years that nearly all of whom tables are about are old: staff, customers, insured. Contracts and entries
that are under way have begun later, some of them."""
_OLDEST = date(1890, 1, 1)
_BIRTHS = date(1905, 1, 1)
_DATES = (
    (re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:[T ].*)?"), (1, 2, 3)),
    (re.compile(r"(\d{4})[/.] ?(\d{1,2})[/.] ?(\d{1,2})\.?"), (1, 2, 3)),
    (re.compile(r"(\d{4})(\d{2})(\d{2})"), (1, 2, 3)),
    (re.compile(r"(\d{4})[年년] ?(\d{1,2})[月월] ?(\d{1,2})[日일号]"), (1, 2, 3)),
    (re.compile(r"(\d{1,2})[./-] ?(\d{1,2})[./-] ?(\d{4})\.?"), (3, 2, 1)),
    (re.compile(r"(\d{1,2})[/-](\d{1,2})[/-](\d{4})"), (3, 1, 2)),
)
_SHORT_DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2\d{2}")
_SIX_DIGITS = re.compile(r"(\d{2})(\d{2})(\d{2})")
_WORDED_DATE = re.compile(
    r"\d{1,2}[A-Za-z]{3}((?:19|20)\d{2}|\d{2})|"  # 10SEP1948, as airlines and SAS have it
    r"(?:[^\W\d_]{3,9}[.,]? )?(?:\d{1,2}(?:st|nd|rd|th|er|º)?[.,]?[ -](?:de )?[^\W\d_]{3,10}[.,]?"  # 12. März
    r"|[^\W\d_]{3,10}[.,]? \d{1,2}(?:st|nd|rd|th)?,?)[ -](?:de )?((?:19|20)\d{2}|\d{2})"  # May 4th, 1980
)
"""With the month as a word of any language."""


def _days(value: str) -> Iterator[date]:
    """Yield what days it may be, in the order of how usual they are."""
    for pattern, (year, month, day) in _DATES:
        found = pattern.fullmatch(value)
        if found is None:
            continue
        try:
            yield date(int(found[year]), int(found[month]), int(found[day]))
        except ValueError:
            continue


def past_date(today: date) -> Whole:
    """Return what tells a day, or a year by itself, on which people who live may be born."""

    def whole(value: str) -> bool:
        if any(_OLDEST <= then <= today for then in _days(value)):
            return True
        if short := _SHORT_DATE.fullmatch(value):
            parts = sorted((int(short[1]), int(short[3])))
            return 1 <= parts[0] <= 12 and parts[1] <= 31
        if six := _SIX_DIGITS.fullmatch(value):
            first, month, last = (int(part) for part in six.groups())
            return 1 <= month <= 12 and (1 <= first <= 31 or 1 <= last <= 31)
        if worded := _WORDED_DATE.fullmatch(value):
            year = worded[1] or worded[2]
            return len(year) == 2 or int(year) <= today.year
        return re.fullmatch(r"(19|20)\d{2}", value) is not None and int(value) <= today.year

    return whole


def build_birth_check(today: date) -> Whole:
    """Return what tells a day without a time on which somebody who is grown may be born."""
    latest = date(today.year - GROWN, 1, 1)

    def whole(value: str) -> bool:
        then = next(_days(value), None)
        return then is not None and _BIRTHS <= then < latest and _has_no_time(value)

    return whole


def _has_no_time(value: str) -> bool:
    return len(value) < 12 or not value[10:].strip("T 0:.Z+")


def years_between(values: Iterable[str]) -> int:
    """Return over how many years days are spread, without the twentieth at each end."""
    years = sorted(then.year for value in values if (then := next(_days(value), None)) is not None)
    cut = len(years) // 20
    return years[-1 - cut] - years[cut] if years else 0


def epoch(value: str) -> bool:
    """Seconds or milliseconds since 1970, of somebody who lives: not near to 0, as numbers of things are."""
    if re.fullmatch(r"-?\d{8,13}(?:\.0)?", value) is None:
        return False
    seconds = abs(float(value))
    return seconds < 2.5e9 or 1e10 < seconds < 2.5e12
